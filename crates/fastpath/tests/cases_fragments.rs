//! Fragments: later ones have no ports, and go where the first went.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use fastpath::abi::{FORWARD_ROUTED, Fragment, FragmentKey, Reason, State};
use rig::*;

/// A datagram of 200 bytes in three fragments, from the client.
fn datagram(f: Family, id: u32) -> Vec<Packet> {
    let fragments = udp(at(f.left(10), 7000), at(f.right(10), 53))
        .payload(&[0x5a; 192])
        .id(id)
        .fragments(80);
    assert_eq!(fragments.len(), 3);
    fragments
}

fn known(rig: &Rig<'_>) -> Vec<(FragmentKey, Fragment)> {
    let mut known = Vec::new();
    let map = rig.loaded.map("fragments");
    xdp::map::entries(map, |key, fragment| known.push((key, fragment))).unwrap();
    known
}

#[test]
fn later_fragments_follow_the_flow_of_the_first() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                for p in datagram(f, 77) {
                    rig.case(
                        "a fragment",
                        Left,
                        &p,
                        to(Right, p.clone().hop()),
                        Reason::ForwardFlow,
                    );
                }
                let flow = rig.only_flow(f);
                assert_eq!((flow.src.port(), flow.dst.port()), (7000, 53));
                // The answer comes in fragments as well.
                let answer = udp(flow.dst, flow.src)
                    .payload(&[0xa5; 192])
                    .id(78)
                    .fragments(80);
                for p in answer {
                    rig.case(
                        "an answer",
                        Right,
                        &p,
                        to(Left, p.clone().hop()),
                        Reason::ForwardFlow,
                    );
                }
                let flow = rig.only_flow(f);
                assert_eq!((flow.state, flow.half), (State::Udp, false));
            }
        },
    );
}

#[test]
fn fragments_of_echoes_and_of_tcp_find_their_flows() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                let (client, server) = (at(f.left(10), 5000), at(f.right(10), 80));
                for whole in [
                    echo(client.ip(), server.ip(), 4).payload(&[1; 100]),
                    tcp(client, server, ACK).payload(&[2; 100]),
                ] {
                    for p in whole.fragments(48) {
                        let sent = to(Right, p.clone().hop());
                        rig.case("a fragment", Left, &p, sent, Reason::ForwardFlow);
                    }
                }
                assert_eq!(rig.flows(f).len(), 2);
            }
        },
    );
}

#[test]
fn later_fragments_say_nothing_about_the_state_of_tcp() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                let (client, server) = (at(f.left(10), 5000), at(f.right(10), 80));
                let first = tcp(client, server, SYN).payload(&[2; 100]).fragments(48);
                for p in &first {
                    rig.case(
                        "SYN",
                        Left,
                        p,
                        to(Right, p.clone().hop()),
                        Reason::ForwardFlow,
                    );
                }
                rig.send(Right, &tcp(server, client, SYN | ACK));
                assert_eq!(rig.only_flow(f).state, State::SynReceived);
                for p in &first[1..] {
                    rig.case(
                        "again",
                        Left,
                        p,
                        to(Right, p.clone().hop()),
                        Reason::ForwardFlow,
                    );
                }
                assert_eq!(rig.only_flow(f).state, State::SynReceived);
            }
        },
    );
}

#[test]
fn later_fragments_of_no_known_datagram_are_routed_and_begin_no_flow() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                let fragments = datagram(f, 77);
                for p in fragments[1..].iter().rev() {
                    rig.case(
                        "too early",
                        Left,
                        p,
                        to(Right, p.clone().hop()),
                        Reason::ForwardRoute,
                    );
                }
                assert_eq!(rig.flows(f), []);
                let p = &fragments[0];
                rig.case(
                    "the first",
                    Left,
                    p,
                    to(Right, p.clone().hop()),
                    Reason::ForwardFlow,
                );
                for p in &fragments[1..] {
                    rig.case(
                        "after it",
                        Left,
                        p,
                        to(Right, p.clone().hop()),
                        Reason::ForwardFlow,
                    );
                }
                // Each part of what names a datagram counts.
                let mut of_tcp = tcp(at(f.left(10), 1), at(f.right(10), 2), ACK)
                    .payload(&[0; 192])
                    .id(77)
                    .fragments(80);
                let elsewhere = fragments[1].clone().sent_to(at(f.right(11), 53));
                for p in [
                    fragments[1].clone().id(79),
                    fragments[1].clone().sent_from(at(f.left(11), 7000)),
                    elsewhere,
                    of_tcp.remove(1),
                ] {
                    rig.case(
                        "another's",
                        Left,
                        &p,
                        to(Right, p.clone().hop()),
                        Reason::ForwardRoute,
                    );
                }
            }
        },
    );
}

#[test]
fn what_a_first_fragment_said_is_forgotten_after_its_time() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                let fragments = datagram(f, 77);
                rig.send(Left, &fragments[0]);
                let age = |seconds: u32| {
                    for (key, mut fragment) in known(rig) {
                        fragment.seen = fragment.seen.wrapping_sub(seconds * HZ);
                        rig.loaded.set("fragments", key, fragment);
                    }
                };
                let p = &fragments[1];
                age(3);
                rig.case(
                    "in time",
                    Left,
                    p,
                    to(Right, p.clone().hop()),
                    Reason::ForwardFlow,
                );
                age(3);
                rig.case(
                    "too late",
                    Left,
                    p,
                    to(Right, p.clone().hop()),
                    Reason::ForwardRoute,
                );
                // The identification is used again.
                rig.send(Left, &fragments[0]);
                rig.case(
                    "anew",
                    Left,
                    p,
                    to(Right, p.clone().hop()),
                    Reason::ForwardFlow,
                );
            }
        },
    );
}

#[test]
fn the_table_of_fragments_has_its_bounds() {
    with(
        |setup| setup.fragments = 64,
        |rig| {
            for f in FAMILIES {
                for id in 0..2000 {
                    let fragments = datagram(f, id);
                    for p in &fragments[..2] {
                        rig.case(
                            "in a flood",
                            Left,
                            p,
                            to(Right, p.clone().hop()),
                            Reason::ForwardFlow,
                        );
                    }
                }
                // The kernel rounds the size up a little, by CPU.
                assert!(known(rig).len() <= 128, "{} are known", known(rig).len());
            }
        },
    );
}

#[test]
fn without_state_fragments_are_routed_one_by_one() {
    with(
        |setup| setup.settings.forward = FORWARD_ROUTED,
        |rig| {
            for f in FAMILIES {
                for p in datagram(f, 77) {
                    rig.case(
                        "routed",
                        Left,
                        &p,
                        to(Right, p.clone().hop()),
                        Reason::ForwardRoute,
                    );
                }
            }
            assert_eq!(known(rig), []);
        },
    );
}
