//! Source NAT in the programs: which sources and ports flows get, both ways of their packets, limits, and what is answered
//! where a translated packet can't be sent on.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests may panic")]

mod rig;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;

use fastpath::abi::{NatRule4, NatRule6, Reason, Source, VirtualServer, Way, widened};
use rig::*;
use xdp::netns::pin_to_core;

fn rules(setup: &mut Setup) {
    setup.settings.nat_rules4 = 1;
    setup.settings.nat_rules6 = 1;
    setup.settings.virtuals = 1;
}

/// A rig whose clients get their sources for [`BEYOND`] from what `source` says.
fn translating(
    source: impl Fn(&Rig<'_>, Family) -> Source + Send + Sync,
    cases: impl Fn(&Rig<'_>, Family) + Send + Sync,
) {
    with(rules, |rig| {
        for f in FAMILIES {
            rig.add_nat_rule(f, 0, BEYOND, source(rig, f));
            cases(rig, f);
        }
    });
}

fn client(f: Family, port: u16) -> SocketAddr {
    at(f.left(10), port)
}

fn server(f: Family) -> SocketAddr {
    at(f.host(BEYOND, 7), 80)
}

/// Sent to the servers' network.
fn beyond(packet: Packet) -> Verdict {
    via(Right, 11, packet.hop())
}

#[test]
fn masqueraded_flows_leave_from_the_interfaces_address_and_come_back() {
    translating(
        |_, _| automap(1024, 65535),
        |rig, f| {
            let (c, s, own) = (client(f, 40000), server(f), at(f.right(1), 40000));
            let mut kinds = vec![
                (tcp(c, s, SYN), tcp(s, own, SYN | ACK)),
                (udp(c, s), udp(s, own)),
                (
                    echo(c.ip(), s.ip(), 40000),
                    echo_reply(s.ip(), own.ip(), 40000),
                ),
                (other(c.ip(), s.ip(), 47), other(s.ip(), own.ip(), 47)),
            ];
            if f.is_v4() {
                let s = at(s.ip(), 81);
                kinds.push((udp(c, s).unsummed(), udp(s, own).unsummed()));
            }
            for (forth, back) in kinds {
                for what in ["first", "again"] {
                    let out = forth.clone().sent_from(own);
                    rig.case(what, Left, &forth, beyond(out), Reason::ForwardFlow);
                }
                let out = to(Left, back.clone().sent_to(c).hop());
                rig.case("answer", Right, &back, out.clone(), Reason::ForwardFlow);
                rig.case("answer again", Right, &back, out, Reason::ForwardFlow);
                let out = forth.clone().sent_from(own);
                rig.case("after it", Left, &forth, beyond(out), Reason::ForwardFlow);
            }
        },
    );
}

#[test]
fn two_clients_with_one_port_get_two() {
    translating(
        |_, _| automap(1024, 65535),
        |rig, f| {
            let s = server(f);
            let mut ports = BTreeSet::new();
            for n in 10..30 {
                rig.send(Left, &udp(at(f.left(n), 40000), s));
            }
            for flow in rig.flows(f) {
                assert_eq!(flow.nsrc.ip(), f.right(1));
                assert!(ports.insert(flow.nsrc.port()), "{} twice", flow.nsrc);
                assert!(flow.nsrc.port() >= 1024);
            }
            assert_eq!(ports.len(), 20);
            assert!(ports.contains(&40000), "the first keeps its own");
            for flow in rig.flows(f) {
                let out = to(Left, udp(s, flow.src).hop());
                rig.case(
                    "answer",
                    Right,
                    &udp(s, flow.nsrc),
                    out,
                    Reason::ForwardFlow,
                );
            }
        },
    );
}

#[test]
fn the_same_port_serves_flows_to_other_servers() {
    translating(
        |rig, f| rig.add_pool(f, 0, 1, [2000, 2000], 0),
        |rig, f| {
            for port in [80, 81, 82] {
                let s = at(server(f).ip(), port);
                let out = udp(client(f, 5000), s).sent_from(at(f.host(POOL, 10), 2000));
                rig.case(
                    "another server",
                    Left,
                    &udp(client(f, 5000), s),
                    beyond(out),
                    Reason::ForwardFlow,
                );
            }
        },
    );
}

#[test]
fn when_all_ports_are_taken_flows_are_refused_until_one_ends() {
    translating(
        |rig, f| rig.add_pool(f, 0, 1, [2000, 2009], 0),
        |rig, f| {
            for port in 1..=10 {
                rig.send(Left, &tcp(client(f, port), server(f), SYN));
            }
            let ports: BTreeSet<u16> = rig.flows(f).iter().map(|flow| flow.nsrc.port()).collect();
            assert_eq!(ports, (2000..2010).collect());
            let more = tcp(client(f, 11), server(f), SYN);
            rig.case(
                "one too many",
                Left,
                &more,
                Verdict::Drop,
                Reason::DropNoPort,
            );
            let flow = rig.flows(f)[3];
            rig.age(f, &flow, 3600);
            let out = more.clone().sent_from(flow.nsrc);
            rig.case(
                "in its place",
                Left,
                &more,
                beyond(out),
                Reason::ForwardFlow,
            );
        },
    );
}

#[test]
fn a_client_keeps_its_address_of_a_pool() {
    translating(
        |rig, f| rig.add_pool(f, 0, 8, [1024, 65535], 0),
        |rig, f| {
            let mut all = BTreeSet::new();
            for n in 10..30 {
                for port in 0..5 {
                    let to = at(server(f).ip(), 80 + port);
                    rig.send(Left, &udp(at(f.left(n), 6000 + port), to));
                }
                let its: BTreeSet<_> = rig
                    .flows(f)
                    .iter()
                    .filter(|flow| flow.src.ip() == f.left(n))
                    .map(|flow| flow.nsrc.ip())
                    .collect();
                assert_eq!(its.len(), 1, "{its:?}");
                all.extend(its);
            }
            assert!(all.len() > 2, "twenty clients share {all:?}");
        },
    );
}

#[test]
fn protocols_without_ports_take_an_address_of_a_pool_each() {
    translating(
        |rig, f| rig.add_pool(f, 0, 3, [1024, 65535], 0),
        |rig, f| {
            for n in 10..13 {
                rig.send(Left, &other(f.left(n), server(f).ip(), 47));
            }
            let addresses: BTreeSet<_> = rig.flows(f).iter().map(|flow| flow.nsrc.ip()).collect();
            assert_eq!(addresses.len(), 3);
            rig.case(
                "no address is left",
                Left,
                &other(f.left(13), server(f).ip(), 47),
                Verdict::Drop,
                Reason::DropNoPort,
            );
        },
    );
}

#[test]
fn a_user_has_no_more_flows_than_allowed_and_gets_each_back_once() {
    translating(
        |rig, f| rig.add_pool(f, 0, 1, [2000, 2999], 5),
        |rig, f| {
            let begin = |n, port| udp(at(f.left(n), port), server(f));
            for round in 0..4 {
                for n in [10, 11] {
                    for port in 1..=5 {
                        let sent = rig.send(Left, &begin(n, port));
                        assert_eq!(sent.verdict, XDP_REDIRECT, "round {round}, {n}: {port}");
                    }
                }
                // Some are answered, so that they are counted wherever they are.
                for flow in rig.flows(f).iter().filter(|flow| flow.src.port() > 2) {
                    rig.send(Right, &udp(server(f), flow.nsrc));
                }
                for n in [10, 11] {
                    assert_eq!(flows_of(rig, f, n), 5, "round {round}");
                    rig.case(
                        "one more",
                        Left,
                        &begin(n, 6),
                        Verdict::Drop,
                        Reason::DropUserLimit,
                    );
                }
                rig.age_all(f);
                // What has expired is looked over while flows are refused: here those of a third user.
                for port in 1..100 {
                    rig.send(Left, &begin(12, port));
                }
                for n in [10, 11] {
                    assert_eq!(flows_of(rig, f, n), 0, "round {round}");
                }
                assert_eq!(flows_of(rig, f, 12), 5, "round {round}");
                rig.age_all(f);
            }
        },
    );
}

#[test]
fn flows_that_find_no_port_do_not_count() {
    translating(
        |rig, f| rig.add_pool(f, 0, 1, [2000, 2001], 5),
        |rig, f| {
            for port in 1..=20 {
                rig.send(Left, &udp(client(f, port), server(f)));
            }
            assert_eq!(flows_of(rig, f, 10), 2);
        },
    );
}

#[test]
fn cpus_that_take_ports_at_once_take_different_ones_and_count_each_flow_once() {
    translating(
        |rig, f| rig.add_pool(f, 0, 1, [2000, 2099], 100_000),
        |rig, f| {
            // So many that half-open flows are pushed out, too.
            for round in 0..60 {
                let s = at(f.host(BEYOND, 7), 1000 + round);
                thread::scope(|scope| {
                    for core in 0..2 {
                        scope.spawn(move || {
                            // On a machine with one core they take turns.
                            drop(pin_to_core(0, core));
                            for n in 0..45 {
                                let port = 5000 + n * 2 + core as u16;
                                rig.send(Left, &udp(client(f, port), s));
                            }
                        });
                    }
                });
            }
            let flows = rig.flows(f);
            assert!(flows.len() > 500, "{}", flows.len());
            let replies: BTreeSet<_> = flows.iter().map(|flow| (flow.ndst, flow.nsrc)).collect();
            assert_eq!(replies.len(), flows.len(), "two flows have one port");
            assert_eq!(flows_of(rig, f, 10) as usize, flows.len());
        },
    );
}

/// The flows that are counted for a client.
fn flows_of(rig: &Rig<'_>, f: Family, n: u8) -> u32 {
    xdp::map::get(rig.loaded.map("users"), &widened(f.left(n)))
        .unwrap()
        .unwrap_or(0)
}

#[test]
fn what_begins_no_flow_does_not_leave_untranslated() {
    translating(
        |_, _| automap(1024, 65535),
        |rig, f| {
            let (c, s) = (client(f, 4000), server(f));
            for p in [tcp(c, s, RST), echo_reply(c.ip(), s.ip(), 9)] {
                rig.case(
                    "no beginning",
                    Left,
                    &p,
                    Verdict::Drop,
                    Reason::DropNotAStart,
                );
            }
        },
    );
}

#[test]
fn a_source_without_an_address_is_refused() {
    translating(
        |rig, f| Source {
            first: 60_000,
            count: 0,
            ..rig.add_pool(f, 0, 1, [1024, 65535], 0)
        },
        |rig, f| {
            rig.case(
                "an empty pool",
                Left,
                &udp(client(f, 1), server(f)),
                Verdict::Drop,
                Reason::DropNoPort,
            );
        },
    );
}

#[test]
fn clients_of_a_virtual_behind_the_same_translation_as_its_member_are_translated() {
    translating(
        |_, _| automap(1024, 65535),
        |rig, f| {
            // A rule with hairpin, whose network holds clients and the member alike.
            hairpin(rig, f);
            let number = if f.is_v4() { 1 } else { 101 };
            let vip = at(f.host(VIPS, 20), 80);
            let what = VirtualServer {
                way: Way::Translate as u8,
                ..VirtualServer::default()
            };
            rig.add_member(number, f.left(20), 8080);
            rig.add_virtual(number, what, &[(vip.ip(), 80)], &[number]);
            let (c, member) = (client(f, 5555), at(f.left(20), 8080));
            let out = tcp(c, vip, SYN)
                .sent_from(at(f.left(1), 5555))
                .sent_to(member);
            let out = to(Left, out.hop());
            rig.case(
                "to the member",
                Left,
                &tcp(c, vip, SYN),
                out,
                Reason::ForwardFlow,
            );
            let back = tcp(member, at(f.left(1), 5555), SYN | ACK);
            let out = tcp(vip, c, SYN | ACK);
            rig.case(
                "back",
                Left,
                &back,
                to(Left, out.hop()),
                Reason::ForwardFlow,
            );
        },
    );
}

#[test]
fn two_flows_to_one_member_whose_answers_would_be_alike_get_two_ports() {
    with(
        |setup| setup.settings.virtuals = 1,
        |rig| {
            for f in FAMILIES {
                let number = if f.is_v4() { 1 } else { 101 };
                let what = VirtualServer {
                    way: Way::Translate as u8,
                    ..VirtualServer::default()
                };
                let vips = [(f.host(VIPS, 20), 80), (f.host(VIPS, 21), 80)];
                rig.add_member(number, f.right(10), 8080);
                rig.add_virtual(number, what, &vips, &[number]);
                let c = client(f, 7777);
                for (ip, port) in vips {
                    rig.send(Left, &tcp(c, at(ip, port), SYN));
                }
                let flows = rig.flows(f);
                assert_eq!(flows.len(), 2);
                assert_ne!(flows[0].nsrc, flows[1].nsrc);
                for flow in flows {
                    let back = tcp(flow.ndst, flow.nsrc, SYN | ACK);
                    let out = tcp(flow.dst, c, SYN | ACK);
                    rig.case(
                        "answer",
                        Right,
                        &back,
                        to(Left, out.hop()),
                        Reason::ForwardFlow,
                    );
                }
            }
        },
    );
}

/// Lets the rule hold between clients and members, too.
fn hairpin(rig: &Rig<'_>, f: Family) {
    match f {
        Family::V4 => {
            let mut rule: NatRule4 = xdp::map::get(rig.loaded.map("nat_rules4"), &0u32)
                .unwrap()
                .unwrap();
            rule.hairpin = 1;
            rig.loaded.set("nat_rules4", 0u32, rule);
        }
        Family::V6 => {
            let mut rule: NatRule6 = xdp::map::get(rig.loaded.map("nat_rules6"), &0u32)
                .unwrap()
                .unwrap();
            rule.hairpin = 1;
            rig.loaded.set("nat_rules6", 0u32, rule);
        }
    }
}

/// A packet must be answered with this, back where it came from.
#[track_caller]
fn reply_case(rig: &Rig<'_>, what: &str, from: Side, packet: &Packet, answer: &Packet) {
    let before = rig.counters();
    let outcome = rig.send(from, packet);
    let reasons = verdicts(&rise(&before, &rig.counters()));
    assert_eq!(reasons, [(Reason::ReplyIcmp, 1)], "{what}");
    assert_eq!(outcome.verdict, XDP_TX, "{what}");
    let expected = answer
        .clone()
        .macs(neighbour(from as u8, 10), rig.mac(from))
        .bytes();
    assert_eq!(outcome.packet, expected, "{what}");
}

/// The answer of the router to a packet, which quotes so many bytes of it at most.
fn answer(f: Family, own: std::net::IpAddr, about: &Packet, kind: [u8; 2], word: u32) -> Packet {
    let room = if f.is_v4() { 548 } else { 1232 };
    let [kind, code] = kind;
    let packet = icmp_error(own, about.src, kind, code, word.to_be_bytes(), about, room).ttl(64);
    if f.is_v4() {
        packet.tos(0xc0).df(true).id(0)
    } else {
        packet
    }
}

#[test]
fn translated_packets_whose_hops_are_used_up_are_answered() {
    translating(
        |_, _| automap(1024, 65535),
        |rig, f| {
            let kind = if f.is_v4() { [11, 0] } else { [3, 0] };
            let (c, s) = (client(f, 4000), server(f));
            for p in [
                udp(c, s),
                udp(c, s).payload(b"odd"),
                udp(c, s).size(700),
                tcp(c, s, SYN),
                echo(c.ip(), s.ip(), 4),
                udp(c, s).size(1400),
            ] {
                let p = p.ttl(1);
                let out = answer(f, f.left(1), &p, kind, 0);
                reply_case(rig, "used up", Left, &p, &out);
            }
            let back = udp(s, at(f.right(1), 4000)).ttl(1);
            let out = answer(f, f.right(1), &back, kind, 0);
            reply_case(rig, "of an answer", Right, &back, &out);
        },
    );
}

#[test]
fn translated_packets_that_are_too_big_are_answered_or_the_kernels_to_fragment() {
    with(rules, |rig| {
        for f in FAMILIES {
            rig.add_nat_rule(f, 0, NARROW, automap(1024, 65535));
            let kind = if f.is_v4() { [3, 4] } else { [2, 0] };
            let (c, s) = (client(f, 4000), at(f.host(NARROW, 7), 80));
            let p = udp(c, s).size(1401).df(true);
            let out = answer(f, f.left(1), &p, kind, 1400);
            reply_case(rig, "first of a flow", Left, &p, &out);
            reply_case(rig, "of a known flow", Left, &p, &out);
            let p = udp(c, s).size(1400).df(true);
            let out = p.clone().sent_from(at(f.right(1), 4000)).hop();
            rig.case("fits", Left, &p, via(Right, 10, out), Reason::ForwardFlow);
            if f.is_v4() {
                let p = udp(c, s).size(1401).df(false);
                let out = pass_as(p.clone().sent_from(at(f.right(1), 4000)));
                rig.case("may be cut", Left, &p, out, Reason::PassTooBig);
            }
        }
    });
}
