//! Virtuals in the programs: which member a flow is given to, how its packets are rewritten both ways, and what becomes of
//! flows whose member goes.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests may panic")]

mod rig;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use fastpath::abi::{MEMBER_DRAIN, MEMBER_UP, Reason, Source, State, Tally, VirtualServer, Way};
use rig::*;

const WEB: u8 = 20;
const ONE: u32 = 1;
const TWO: u32 = 2;

/// A rig with one virtual on port 80 of host [`WEB`], with two members of each family on port 8080 of hosts 10 and 11 on
/// the right.
fn web(
    way: Way,
    change: impl Fn(&mut VirtualServer) + Send + Sync,
    cases: impl Fn(&Rig<'_>, Family) + Send + Sync,
) {
    with(balancing, |rig| {
        for f in FAMILIES {
            let mut what = VirtualServer {
                way: way as u8,
                ..VirtualServer::default()
            };
            change(&mut what);
            rig.add_member(id(f, ONE), f.right(10), 8080);
            rig.add_member(id(f, TWO), f.right(11), 8080);
            let members = [id(f, ONE), id(f, TWO)];
            rig.add_virtual(id(f, 1), what, &[(f.host(VIPS, WEB), 80)], &members);
            cases(rig, f);
        }
    });
}

fn balancing(setup: &mut Setup) {
    setup.settings.virtuals = 1;
}

fn id(f: Family, number: u32) -> u32 {
    if f.is_v4() { number } else { 100 + number }
}

fn vip(f: Family) -> SocketAddr {
    at(f.host(VIPS, WEB), 80)
}

fn client(f: Family, port: u16) -> SocketAddr {
    at(f.left(10), port)
}

fn server(f: Family, n: u8) -> SocketAddr {
    at(f.right(n), 8080)
}

/// A client's port whose flow goes to this member.
fn port_for(rig: &Rig<'_>, f: Family, member: u32) -> u16 {
    (1000..1100)
        .find(|port| {
            rig.forget(f);
            rig.send(Left, &tcp(client(f, *port), vip(f), SYN));
            let found = rig.only_flow(f).member;
            rig.forget(f);
            u32::from(found) == id(f, member)
        })
        .expect("each member has half of all ports")
}

/// Opens a flow through a virtual that translates destinations.
fn handshake(rig: &Rig<'_>, client: SocketAddr, vip: SocketAddr, server: SocketAddr) {
    rig.send(Left, &tcp(client, vip, SYN));
    rig.send(Right, &tcp(server, client, SYN | ACK));
    rig.send(Left, &tcp(client, vip, ACK));
}

#[test]
fn destinations_are_translated_and_answers_come_from_the_virtual() {
    web(
        Way::Translate,
        |_| {},
        |rig, f| {
            let (c, v, s) = (client(f, port_for(rig, f, ONE)), vip(f), server(f, 10));
            let forth = |flags| tcp(c, v, flags).payload(b"to the member");
            let back = |flags| tcp(s, c, flags).payload(b"to the client");
            for (what, flags) in [("beginning", SYN), ("again", SYN)] {
                let out = forth(flags).sent_to(s).hop();
                rig.case(
                    what,
                    Left,
                    &forth(flags),
                    to(Right, out),
                    Reason::ForwardFlow,
                );
            }
            let out = back(SYN | ACK).sent_from(v).hop();
            rig.case(
                "answer",
                Right,
                &back(SYN | ACK),
                to(Left, out),
                Reason::ForwardFlow,
            );
            let out = forth(ACK).sent_to(s).hop();
            rig.case(
                "established",
                Left,
                &forth(ACK),
                to(Right, out),
                Reason::ForwardFlow,
            );
            assert_eq!(rig.only_flow(f).state, State::Established);

            let c = client(f, 5353);
            rig.forget(f);
            rig.send(Left, &udp(c, v));
            let s = rig.only_flow(f).ndst;
            rig.case(
                "datagram",
                Left,
                &udp(c, v),
                to(Right, udp(c, v).sent_to(s).hop()),
                Reason::ForwardFlow,
            );
            rig.case(
                "answer",
                Right,
                &udp(s, c),
                to(Left, udp(s, c).sent_from(v).hop()),
                Reason::ForwardFlow,
            );
        },
    );
}

#[test]
fn members_of_port_0_are_reached_at_the_port_asked_for() {
    web(
        Way::Translate,
        |_| {},
        |rig, f| {
            for n in [ONE, TWO] {
                rig.add_member(id(f, n), f.right(10), 0);
            }
            rig.add_span(id(f, 1), f.host(VIPS, WEB), TCP, 8000, 8099);
            for port in [8000, 8042, 8099] {
                let v = at(f.host(VIPS, WEB), port);
                let syn = tcp(client(f, 1000), v, SYN);
                let out = syn.clone().sent_to(at(f.right(10), port)).hop();
                rig.case(
                    "a port of the range",
                    Left,
                    &syn,
                    to(Right, out),
                    Reason::ForwardFlow,
                );
            }
            for port in [7999, 8100] {
                let syn = tcp(client(f, 1000), at(f.host(VIPS, WEB), port), SYN);
                rig.case(
                    "beside the range",
                    Left,
                    &syn,
                    Verdict::Pass,
                    Reason::PassLocal,
                );
            }
        },
    );
}

#[test]
fn flows_are_spread_and_keep_their_member() {
    web(
        Way::Translate,
        |_| {},
        |rig, f| {
            let mut flows = Vec::new();
            for port in 1000..1064 {
                rig.send(Left, &tcp(client(f, port), vip(f), SYN));
            }
            for flow in rig.flows(f) {
                flows.push((flow.src, flow.ndst));
            }
            let members: BTreeSet<_> = flows.iter().map(|(_, member)| *member).collect();
            assert_eq!(members.len(), 2);
            // another ring, as if members had come
            rig.set_ring(id(f, 1), &vec![id(f, TWO); 100]);
            for (c, s) in flows {
                let ack = tcp(c, vip(f), ACK);
                rig.send(Right, &tcp(s, c, SYN | ACK));
                rig.case(
                    "as before",
                    Left,
                    &ack,
                    to(Right, ack.clone().sent_to(s).hop()),
                    Reason::ForwardFlow,
                );
            }
        },
    );
}

#[test]
fn with_affinity_all_flows_of_an_address_go_to_one_member() {
    web(
        Way::Translate,
        |what| what.affinity = 1,
        |rig, f| {
            let mut all = BTreeSet::new();
            for n in 10..30 {
                rig.forget(f);
                for port in 1000..1008 {
                    rig.send(Left, &tcp(at(f.left(n), port), vip(f), SYN));
                }
                let members: BTreeSet<_> = rig.flows(f).iter().map(|flow| flow.member).collect();
                assert_eq!(members.len(), 1, "client {n}");
                all.extend(members);
            }
            assert_eq!(all.len(), 2, "not all clients go to one");
        },
    );
}

/// The members that clients' ports get.
fn choices(seed: u64) -> Vec<u16> {
    let mut choices = Vec::new();
    let arm = |setup: &mut Setup| {
        balancing(setup);
        setup.settings.seed = [seed, !seed];
    };
    with(arm, |rig| {
        for f in FAMILIES {
            let what = VirtualServer {
                way: Way::Direct as u8,
                ..VirtualServer::default()
            };
            for n in 1..8 {
                rig.add_member(id(f, n), f.right(10 + n as u8), 0);
            }
            let members: Vec<u32> = (1..8).map(|n| id(f, n)).collect();
            rig.add_virtual(id(f, 1), what, &[(f.host(VIPS, WEB), 80)], &members);
            for port in 1000..1050 {
                rig.forget(f);
                // the beginning was another machine's
                rig.send(Left, &tcp(client(f, port), vip(f), ACK));
                choices.push(rig.only_flow(f).member);
            }
        }
    });
    choices
}

#[test]
fn machines_with_other_seeds_choose_alike() {
    assert_eq!(choices(1), choices(2));
}

#[test]
fn a_flow_in_the_midst_is_picked_up_where_its_beginning_would_have_gone() {
    for way in [Way::Translate, Way::Direct] {
        web(
            way,
            |_| {},
            |rig, f| {
                for port in 1000..1020 {
                    let chosen = [SYN, ACK, FIN | ACK, RST, SYN | ACK].map(|flags| {
                        rig.forget(f);
                        rig.send(Left, &tcp(client(f, port), vip(f), flags));
                        rig.only_flow(f).member
                    });
                    assert_eq!(chosen, [chosen[0]; 5], "port {port}");
                }
            },
        );
    }
}

fn automapped(what: &mut VirtualServer) {
    what.source = automap(3000, 3099);
}

#[test]
fn with_sources_translated_a_flow_begins_with_its_beginning() {
    web(Way::Translate, automapped, |rig, f| {
        for flags in [ACK, RST, FIN | ACK, SYN | ACK] {
            let packet = tcp(client(f, 1000), vip(f), flags);
            rig.case(
                "no beginning",
                Left,
                &packet,
                Verdict::Drop,
                Reason::DropNotAStart,
            );
        }
        assert!(rig.flows(f).is_empty());
        let syn = tcp(client(f, 3007), vip(f), SYN);
        rig.send(Left, &syn);
        let flow = rig.only_flow(f);
        assert_eq!(flow.nsrc.ip(), f.right(1));
        assert!((3000..=3099).contains(&flow.nsrc.port()));
        let out = syn.clone().sent_from(flow.nsrc).sent_to(flow.ndst).hop();
        rig.case("beginning", Left, &syn, to(Right, out), Reason::ForwardFlow);
        let back = tcp(flow.ndst, flow.nsrc, SYN | ACK);
        let out = back.clone().sent_from(vip(f)).sent_to(flow.src).hop();
        rig.case("answer", Right, &back, to(Left, out), Reason::ForwardFlow);
    });
}

#[test]
fn a_member_that_is_gone_loses_its_flows_and_no_others() {
    web(
        Way::Translate,
        |_| {},
        |rig, f| {
            let (lost, kept) = (port_for(rig, f, ONE), port_for(rig, f, TWO));
            for half_open in [false, true] {
                rig.forget(f);
                rig.set_member(id(f, ONE), f.right(10), 8080, MEMBER_UP);
                for (port, n) in [(lost, 10), (kept, 11)] {
                    if half_open {
                        rig.send(Left, &tcp(client(f, port), vip(f), SYN));
                    } else {
                        handshake(rig, client(f, port), vip(f), server(f, n));
                    }
                }
                rig.set_member(id(f, ONE), f.right(10), 8080, 0);
                let flags = if half_open { SYN } else { ACK };
                let moved = rig.rises(Reason::FlowMoved, || {
                    for port in [lost, kept] {
                        let packet = tcp(client(f, port), vip(f), flags).payload(b"more");
                        let out = packet.clone().sent_to(server(f, 11)).hop();
                        rig.case(
                            "to the other",
                            Left,
                            &packet,
                            to(Right, out),
                            Reason::ForwardFlow,
                        );
                    }
                });
                assert_eq!(moved, 1);
                assert!(rig.flows(f).iter().all(|flow| flow.ndst == server(f, 11)));
            }
            rig.set_member(id(f, TWO), f.right(11), 8080, 0);
            let packet = tcp(client(f, kept), vip(f), ACK);
            rig.case(
                "none is left",
                Left,
                &packet,
                Verdict::Drop,
                Reason::DropNoMember,
            );
        },
    );
}

#[test]
fn a_moved_flow_whose_source_is_translated_reaches_another_member() {
    web(Way::Translate, automapped, |rig, f| {
        let port = port_for(rig, f, ONE);
        rig.send(Left, &tcp(client(f, port), vip(f), SYN));
        let before = rig.only_flow(f);
        rig.send(Right, &tcp(before.ndst, before.nsrc, SYN | ACK));
        rig.set_member(id(f, ONE), f.right(10), 8080, 0);
        let packet = tcp(client(f, port), vip(f), ACK);
        // which resets it, and the client learns of it at once
        assert_eq!(rig.send(Left, &packet).verdict, XDP_REDIRECT);
        let after = rig.only_flow(f);
        assert_eq!((after.src, after.ndst), (before.src, server(f, 11)));
    });
}

#[test]
fn what_a_member_that_is_gone_still_answers_reaches_the_client() {
    web(
        Way::Translate,
        |_| {},
        |rig, f| {
            let (c, s) = (client(f, port_for(rig, f, ONE)), server(f, 10));
            handshake(rig, c, vip(f), s);
            rig.set_member(id(f, ONE), f.right(10), 8080, 0);
            let back = tcp(s, c, RST);
            let out = back.clone().sent_from(vip(f)).hop();
            rig.case(
                "its reset",
                Right,
                &back,
                to(Left, out),
                Reason::ForwardFlow,
            );
        },
    );
}

#[test]
fn a_drained_member_keeps_its_flows_and_gets_no_new_ones() {
    web(
        Way::Translate,
        |_| {},
        |rig, f| {
            let (c, s) = (client(f, port_for(rig, f, ONE)), server(f, 10));
            handshake(rig, c, vip(f), s);
            rig.set_member(id(f, ONE), f.right(10), 8080, MEMBER_DRAIN);
            let packet = tcp(c, vip(f), ACK);
            let out = packet.clone().sent_to(s).hop();
            rig.case(
                "its flow",
                Left,
                &packet,
                to(Right, out),
                Reason::ForwardFlow,
            );
            rig.forget(f);
            // although the ring still leads to it
            let packet = tcp(c, vip(f), SYN);
            let out = packet.clone().sent_to(server(f, 11)).hop();
            rig.case(
                "a new one",
                Left,
                &packet,
                to(Right, out),
                Reason::ForwardFlow,
            );
        },
    );
}

#[test]
fn without_members_packets_are_dropped() {
    web(
        Way::Translate,
        |_| {},
        |rig, f| {
            let empty = VirtualServer {
                way: Way::Translate as u8,
                ..VirtualServer::default()
            };
            rig.loaded.set("virtual_servers", id(f, 1), empty);
            let packet = tcp(client(f, 1000), vip(f), SYN);
            rig.case(
                "an empty pool",
                Left,
                &packet,
                Verdict::Drop,
                Reason::DropNoMember,
            );
            // a member that only a tunnel could reach
            let other = if f.is_v4() { Family::V6 } else { Family::V4 };
            rig.add_member(id(f, ONE), other.right(10), 8080);
            rig.add_virtual(id(f, 1), empty, &[(vip(f).ip(), 80)], &[id(f, ONE)]);
            rig.case(
                "of the other family",
                Left,
                &packet,
                Verdict::Drop,
                Reason::DropNoMember,
            );
        },
    );
}

#[test]
fn fragments_follow_the_first_and_none_goes_alone() {
    web(
        Way::Translate,
        |_| {},
        |rig, f| {
            let c = client(f, 5353);
            let whole = udp(c, vip(f)).size(1200);
            rig.send(Left, &udp(c, vip(f)));
            let s = rig.only_flow(f).ndst;
            let pieces = whole.fragments(400);
            let rewritten = whole.clone().sent_to(s).hop().fragments(400);
            for (piece, out) in pieces.iter().zip(&rewritten) {
                rig.case(
                    "in order",
                    Left,
                    piece,
                    to(Right, out.clone()),
                    Reason::ForwardFlow,
                );
            }
            let lost = whole.clone().id(77).fragments(400);
            rig.case(
                "without the first",
                Left,
                &lost[1],
                Verdict::Drop,
                Reason::DropFragment,
            );
        },
    );
}

#[test]
fn packets_and_flows_of_virtuals_and_members_are_counted() {
    web(
        Way::Translate,
        |_| {},
        |rig, f| {
            let port = port_for(rig, f, ONE);
            let tallies = || {
                ["virtual_tallies", "member_tallies"].map(|table| {
                    let all: Vec<Tally> = xdp::map::per_cpu(rig.loaded.map(table), &id(f, 1))
                        .unwrap()
                        .unwrap();
                    all.iter().fold([0; 3], |sum: [u64; 3], one| {
                        [sum[0] + one.packets, sum[1] + one.bytes, sum[2] + one.flows]
                    })
                })
            };
            let before = tallies();
            let packet = tcp(client(f, port), vip(f), SYN).payload(b"123");
            let bytes = packet.ip_bytes().len() as u64;
            for _ in 0..3 {
                rig.send(Left, &packet);
            }
            for (before, after) in before.iter().zip(tallies()) {
                assert_eq!(after, [before[0] + 3, before[1] + 3 * bytes, before[2] + 1]);
            }
        },
    );
}

#[test]
fn a_virtual_has_an_idle_time_of_its_own() {
    web(
        Way::Translate,
        |what| what.idle = 100,
        |rig, f| {
            let (c, s) = (client(f, port_for(rig, f, ONE)), server(f, 10));
            handshake(rig, c, vip(f), s);
            let flow = rig.only_flow(f);
            assert_eq!(flow.idle, 100);
            rig.age(f, &flow, 90);
            assert_eq!(
                rig.rises(Reason::FlowExpired, || drop(
                    rig.send(Left, &tcp(c, vip(f), ACK))
                )),
                0
            );
            rig.age(f, &flow, 101);
            assert_eq!(
                rig.rises(Reason::FlowExpired, || drop(
                    rig.send(Left, &tcp(c, vip(f), ACK))
                )),
                1
            );
        },
    );
}

#[test]
fn clients_of_a_hairpin_rule_reach_members_among_themselves() {
    let arm = |setup: &mut Setup| {
        balancing(setup);
        setup.settings.nat_rules4 = 1;
        setup.settings.nat_rules6 = 1;
    };
    with(arm, |rig| {
        for f in FAMILIES {
            let source: Source = automap(3000, 3099);
            rig.add_nat_rule(f, 0, BEYOND, source);
            hairpin(rig, f);
            rig.add_member(id(f, ONE), f.left(20), 8080);
            let what = VirtualServer {
                way: Way::Translate as u8,
                ..VirtualServer::default()
            };
            rig.add_virtual(id(f, 1), what, &[(vip(f).ip(), 80)], &[id(f, ONE)]);
            let syn = tcp(client(f, 1000), vip(f), SYN);
            rig.send(Left, &syn);
            let flow = rig.only_flow(f);
            assert_eq!(
                flow.nsrc.ip(),
                f.left(1),
                "else it would answer the client directly"
            );
            let back = tcp(flow.ndst, flow.nsrc, SYN | ACK);
            let out = back.clone().sent_from(vip(f)).sent_to(flow.src).hop();
            rig.case("answer", Left, &back, to(Left, out), Reason::ForwardFlow);
        }
    });
}

/// Sets the first rule's hairpin.
fn hairpin(rig: &Rig<'_>, f: Family) {
    use fastpath::abi::{NatRule4, NatRule6};
    let zero = 0u32;
    if f.is_v4() {
        let rule: NatRule4 = rig.loaded.tables.get("nat_rules4", &zero).unwrap().unwrap();
        rig.loaded
            .set("nat_rules4", zero, NatRule4 { hairpin: 1, ..rule });
    } else {
        let rule: NatRule6 = rig.loaded.tables.get("nat_rules6", &zero).unwrap().unwrap();
        rig.loaded
            .set("nat_rules6", zero, NatRule6 { hairpin: 1, ..rule });
    }
}
