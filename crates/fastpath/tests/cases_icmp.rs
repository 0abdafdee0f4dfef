//! ICMP errors about packets of flows: whom they reach, and how they are rewritten, in what they quote as well.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests may panic")]

mod rig;

use std::net::{IpAddr, SocketAddr};

use fastpath::abi::{Reason, State, VirtualServer, Way};
use rig::*;

fn rules(setup: &mut Setup) {
    setup.settings.nat_rules4 = 1;
    setup.settings.nat_rules6 = 1;
}

fn virtuals(setup: &mut Setup) {
    setup.settings.virtuals = 1;
}

fn client(f: Family) -> SocketAddr {
    at(f.left(10), 4000)
}

fn server(f: Family) -> SocketAddr {
    at(f.host(BEYOND, 7), 80)
}

/// A client's source as the one port of a pool makes it.
fn hidden(f: Family) -> SocketAddr {
    at(f.host(POOL, 10), 2000)
}

fn vip(f: Family) -> SocketAddr {
    at(f.host(VIPS, 20), 80)
}

/// Destination unreachable, time exceeded, too big.
fn kinds(f: Family) -> [([u8; 2], u32); 3] {
    if f.is_v4() {
        [([3, 1], 0), ([11, 0], 0), ([3, 4], 1400)]
    } else {
        [([1, 3], 0), ([3, 0], 0), ([2, 0], 1400)]
    }
}

/// Errors of each kind from `sender` about a packet, with much and little quoted: as they come, and as they must leave when
/// `reader` is to have them from `sender_seen` about the packet as it knows it.
fn errors(
    f: Family,
    sender: IpAddr,
    sender_seen: IpAddr,
    about: &Packet,
    known: &Packet,
) -> Vec<(Packet, Packet)> {
    let header = if f.is_v4() { 20 } else { 40 };
    let mut all = Vec::new();
    for (kind, word) in kinds(f) {
        for quoted in [header + 8, header + 21, 500] {
            let error = |sender, about: &Packet| {
                let [kind, code] = kind;
                icmp_error(
                    sender,
                    about.src,
                    kind,
                    code,
                    word.to_be_bytes(),
                    about,
                    quoted,
                )
            };
            all.push((error(sender, about), error(sender_seen, known)));
        }
    }
    all
}

/// The packets of a client to a server that begin a flow, and the server's answers.
fn exchanges(c: SocketAddr, s: SocketAddr) -> Vec<(Packet, Packet)> {
    let data = b"enough that a quotation can have it or leave it out";
    let mut all = vec![
        (
            tcp(c, s, SYN).payload(data),
            tcp(s, c, SYN | ACK).payload(data),
        ),
        (udp(c, s).payload(data), udp(s, c).payload(data)),
        (
            echo(c.ip(), s.ip(), c.port()),
            echo_reply(s.ip(), c.ip(), c.port()),
        ),
    ];
    if c.is_ipv4() {
        let s = at(s.ip(), s.port() + 1);
        all.push((udp(c, s).unsummed(), udp(s, c).unsummed()));
    }
    all
}

#[test]
fn errors_about_translated_sources_reach_the_client() {
    with(rules, |rig| {
        for f in FAMILIES {
            let pool = rig.add_pool(f, 0, 1, [2000, 2000], 0);
            rig.add_nat_rule(f, 0, BEYOND, pool);
            let (c, s, h) = (client(f), server(f), hidden(f));
            for (forth, back) in exchanges(c, s) {
                rig.send(Left, &forth);
                let left = forth.clone().sent_from(h);
                for answered in [false, true] {
                    for sender in [s.ip(), f.right(11)] {
                        for (error, out) in errors(f, sender, sender, &left, &forth) {
                            let what = format!("of {sender} to {answered}: {error:?}");
                            let out = to(Left, out.hop());
                            rig.case(&what, Right, &error, out, Reason::ForwardIcmp);
                        }
                    }
                    rig.send(Right, &back.clone().sent_to(h));
                }
                // The client's own errors, and those of a router before it, come from the one address that is known.
                let came = back.clone().sent_to(h);
                for sender in [c.ip(), f.left(12)] {
                    for (error, out) in errors(f, sender, h.ip(), &back, &came) {
                        let out = via(Right, 11, out.hop());
                        rig.case("of the client", Left, &error, out, Reason::ForwardIcmp);
                    }
                }
            }
        }
    });
}

#[test]
fn errors_about_translated_destinations_reach_both_ends() {
    with(virtuals, |rig| {
        for f in FAMILIES {
            let number = if f.is_v4() { 1 } else { 101 };
            let what = VirtualServer {
                way: Way::Translate as u8,
                ..VirtualServer::default()
            };
            rig.add_member(number, f.right(10), 8080);
            rig.add_virtual(number, what, &[(vip(f).ip(), 80)], &[number]);
            let (c, v, m) = (client(f), vip(f), at(f.right(10), 8080));
            for (forth, back) in [
                (tcp(c, v, SYN), tcp(m, c, SYN | ACK)),
                (udp(c, v), udp(m, c)),
            ] {
                rig.send(Left, &forth);
                let left = forth.clone().sent_to(m);
                for (error, out) in errors(f, m.ip(), v.ip(), &left, &forth) {
                    let out = to(Left, out.hop());
                    rig.case("of the member", Right, &error, out, Reason::ForwardIcmp);
                }
                rig.send(Right, &back);
                let seen = back.clone().sent_from(v);
                for (error, out) in errors(f, f.left(12), f.left(12), &seen, &back) {
                    let out = to(Right, out.hop());
                    rig.case("on the way back", Left, &error, out, Reason::ForwardIcmp);
                }
            }
        }
    });
}

#[test]
fn errors_about_plain_flows_are_routed_as_they_are() {
    with(rules, |rig| {
        for f in FAMILIES {
            rig.add_nat_rule(f, 0, BEYOND, automap(1024, 65535));
            let (c, s) = (client(f), at(f.right(10), 80));
            for (forth, back) in exchanges(c, s) {
                rig.send(Left, &forth);
                for (error, _) in errors(f, s.ip(), s.ip(), &forth, &forth) {
                    let out = to(Left, error.clone().hop());
                    rig.case("forth", Right, &error, out, Reason::ForwardRoute);
                }
                for (error, _) in errors(f, c.ip(), c.ip(), &back, &back) {
                    let out = to(Right, error.clone().hop());
                    rig.case("back", Left, &error, out, Reason::ForwardRoute);
                }
            }
        }
    });
}

#[test]
fn errors_about_what_a_member_sent_by_itself_reach_the_member() {
    with(virtuals, |rig| {
        for f in FAMILIES {
            let number = if f.is_v4() { 1 } else { 101 };
            let what = VirtualServer {
                way: Way::Direct as u8,
                ..VirtualServer::default()
            };
            rig.add_member(number, f.right(10), 0);
            rig.add_virtual(number, what, &[(vip(f).ip(), 80)], &[number]);
            let (c, v) = (client(f), vip(f));
            // With a flow here, and with none: another machine may have it.
            for known in [false, true] {
                if known {
                    rig.send(Left, &tcp(c, v, SYN));
                }
                let sent = tcp(v, c, SYN | ACK).payload(b"large");
                for (error, _) in errors(f, f.left(12), f.left(12), &sent, &sent) {
                    let out = via(Right, 10, error.clone());
                    rig.case("to the member", Left, &error, out, Reason::ForwardFlow);
                }
            }
        }
    });
}

#[test]
fn errors_never_change_a_flow() {
    with(rules, |rig| {
        for f in FAMILIES {
            let pool = rig.add_pool(f, 0, 1, [2000, 2000], 0);
            rig.add_nat_rule(f, 0, BEYOND, pool);
            let (c, s, h) = (client(f), server(f), hidden(f));
            rig.send(Left, &tcp(c, s, SYN));
            let left = tcp(h, s, SYN);
            for answered in [false, true] {
                let flow = rig.only_flow(f);
                rig.age(f, &flow, 9);
                let flow = rig.only_flow(f);
                for (error, _) in errors(f, s.ip(), s.ip(), &left, &left) {
                    rig.send(Right, &error);
                }
                assert_eq!(rig.only_flow(f), flow, "answered: {answered}");
                rig.send(Right, &tcp(s, h, SYN | ACK));
            }
            assert_eq!(rig.only_flow(f).state, State::SynReceived);
        }
    });
}

#[test]
fn errors_of_no_flow_are_not_rewritten() {
    with(rules, |rig| {
        for f in FAMILIES {
            let pool = rig.add_pool(f, 0, 1, [2000, 2000], 0);
            rig.add_nat_rule(f, 0, BEYOND, pool);
            let (c, s, h) = (client(f), server(f), hidden(f));
            rig.send(Left, &tcp(c, s, SYN));
            let header = if f.is_v4() { 20 } else { 40 };
            let kind = kinds(f)[0].0;
            let error = |to: IpAddr, about: &Packet, quoted| {
                icmp_error(s.ip(), to, kind[0], kind[1], [0; 4], about, quoted)
            };
            // Each to a host on the left, so that it has a way even if it is of no flow.
            let left = tcp(h, s, SYN);
            let cases = [
                ("another port", error(c.ip(), &left.clone().dport(81), 500)),
                ("another end than is quoted", error(c.ip(), &left, 500)),
                (
                    "as it came, not as it left",
                    error(c.ip(), &tcp(c, s, SYN), 500),
                ),
                ("the wrong way round", error(c.ip(), &tcp(s, h, SYN), 500)),
                ("too little", error(c.ip(), &left, header + 7)),
                ("nothing", error(c.ip(), &left, 0)),
            ];
            for (what, error) in cases {
                let before = rig.counters();
                let frame = rig.arriving(Right, &error);
                let out = rig.run(Right, &frame);
                let reasons = verdicts(&rise(&before, &rig.counters()));
                assert!(
                    !reasons
                        .iter()
                        .any(|(reason, _)| *reason == Reason::ForwardIcmp),
                    "{what}: {reasons:?}"
                );
                // At most the hop count and link addresses differ.
                assert_eq!(out.packet[26..], frame[26..], "{what}");
            }
        }
    });
}

#[test]
fn an_error_for_a_virtual_that_nobody_asked_for_is_the_kernels() {
    with(virtuals, |rig| {
        for f in FAMILIES {
            let number = if f.is_v4() { 1 } else { 101 };
            let what = VirtualServer {
                way: Way::Translate as u8,
                ..VirtualServer::default()
            };
            rig.add_member(number, f.right(10), 8080);
            rig.add_virtual(number, what, &[(vip(f).ip(), 80)], &[number]);
            let sent = tcp(vip(f), client(f), SYN | ACK);
            for (error, _) in errors(f, f.left(12), f.left(12), &sent, &sent) {
                rig.case("of no flow", Left, &error, Verdict::Pass, Reason::PassIcmp);
            }
        }
    });
}
