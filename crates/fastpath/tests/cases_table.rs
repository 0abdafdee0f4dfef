//! The tables under the flows: which one a flow is in, what makes room, and what happens when there is none.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use std::sync::atomic::Ordering;

use fastpath::abi::{Reason, State, WAYS};
use rig::*;

/// The n-th of many questions, and its answer: datagrams between ends of which no two pairs are the same.
fn question(f: Family, n: usize) -> Packet {
    let client = at(f.left(10 + (n % 5) as u8), 1024 + (n / 5) as u16);
    udp(client, at(f.right(10), 53))
}

fn answer(f: Family, n: usize) -> Packet {
    let q = question(f, n);
    let Body::Udp { sport, .. } = q.body else {
        unreachable!("it is a datagram");
    };
    udp(at(q.dst, 53), at(q.src, sport))
}

fn ask(rig: &Rig<'_>, f: Family, n: usize) {
    rig.send(Left, &question(f, n));
}

/// Asks and answers: the flow comes into the table, if there is room.
fn talk(rig: &Rig<'_>, f: Family, n: usize) {
    rig.send(Left, &question(f, n));
    rig.send(Right, &answer(f, n));
}

fn of(counted: &[(Reason, u64)], reason: Reason) -> u64 {
    counted
        .iter()
        .find(|(found, _)| *found == reason)
        .map_or(0, |(_, by)| *by)
}

#[test]
fn an_answer_moves_a_flow_to_the_table() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                ask(rig, f, 0);
                let half = rig.only_flow(f);
                assert!(half.half);
                let promoted = rig.rises(Reason::FlowPromoted, || {
                    rig.send(Right, &answer(f, 0));
                });
                assert_eq!(promoted, 1);
                let flow = rig.only_flow(f);
                assert!(!flow.half);
                assert_eq!((flow.src, flow.dst), (half.src, half.dst));
                let missed = rig.rises(Reason::TableMiss, || {
                    ask(rig, f, 0);
                    rig.send(Right, &answer(f, 0));
                });
                assert_eq!(missed, 0, "both directions find it there");
                assert_eq!(rig.only_flow(f).slot, flow.slot);
            }
        },
    );
}

#[test]
fn flows_are_told_apart_by_every_part_of_their_tuple() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                let (client, server) = (at(f.left(10), 1000), at(f.right(10), 2000));
                let packets = [
                    udp(client, server),
                    udp(client, server).sport(1001),
                    udp(client, server).dport(2001),
                    udp(at(f.left(11), 1000), server),
                    udp(client, at(f.right(11), 2000)),
                    udp(at(f.left(10), 2000), at(f.right(10), 1000)),
                    tcp(client, server, SYN),
                ];
                for p in &packets {
                    rig.case(
                        "first",
                        Left,
                        p,
                        to(Right, p.clone().hop()),
                        Reason::ForwardFlow,
                    );
                }
                assert_eq!(rig.flows(f).len(), packets.len());
                let again = rig.rises(Reason::FlowCreated, || {
                    for p in &packets {
                        rig.send(Left, p);
                    }
                });
                assert_eq!(again, 0, "each is known");
                // From the other end, with the ends exchanged, they are the same flows.
                rig.send(Right, &udp(server, client));
                assert_eq!(rig.flows(f).len(), packets.len());
            }
        },
    );
}

#[test]
fn thousands_of_flows_are_all_found_again() {
    let flows = 3000;
    with(
        |setup| {
            // Two entries of three are taken.
            setup.settings.buckets4 = 563;
            setup.settings.buckets6 = 563;
        },
        |rig| {
            for f in FAMILIES {
                let counted = rig.counted(|| (0..flows).for_each(|n| talk(rig, f, n)));
                assert_eq!(of(&counted, Reason::FlowPromoted), flows as u64);
                assert_eq!(of(&counted, Reason::ForwardFlow), 2 * flows as u64);
                let counted = rig.counted(|| (0..flows).for_each(|n| talk(rig, f, n)));
                assert_eq!(counted, [(Reason::ForwardFlow, 2 * flows as u64)]);
                let mut slots: Vec<u32> = rig.flows(f).iter().map(|flow| flow.slot).collect();
                slots.sort_unstable();
                slots.dedup();
                assert_eq!(slots.len(), flows, "each has a slot of its own");
            }
        },
    );
}

#[test]
fn an_expired_flow_is_removed_when_its_packet_comes() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                talk(rig, f, 0);
                rig.age_all(f);
                let counted = rig.counted(|| ask(rig, f, 0));
                assert_eq!(of(&counted, Reason::FlowExpired), 1);
                assert_eq!(of(&counted, Reason::FlowCreated), 1);
                assert!(rig.only_flow(f).half);
            }
        },
    );
}

#[test]
fn expired_flows_make_room_for_those_that_come() {
    let flows = 64;
    with(
        |setup| {
            // Just so many slots, and entries to spare.
            setup.settings.slots4 = flows as u32;
            setup.settings.slots6 = flows as u32;
            setup.settings.buckets4 = 32;
            setup.settings.buckets6 = 32;
        },
        |rig| {
            for f in FAMILIES {
                let mut at = 0;
                for round in 0..4 {
                    let counted = rig.counted(|| (at..at + flows).for_each(|n| talk(rig, f, n)));
                    assert_eq!(
                        of(&counted, Reason::FlowPromoted),
                        flows as u64,
                        "round {round}"
                    );
                    assert_eq!(of(&counted, Reason::FlowNotPromoted), 0, "round {round}");
                    at += flows;
                    rig.age_all(f);
                }
            }
        },
    );
}

#[test]
fn expired_flows_give_way_in_a_full_bucket() {
    let flows = 2 * WAYS;
    with(
        |setup| {
            // Two buckets: room for sixteen entries, and slots enough that none has to be swept.
            setup.settings.buckets4 = 2;
            setup.settings.buckets6 = 2;
        },
        |rig| {
            for f in FAMILIES {
                let counted = rig.counted(|| (0..200).for_each(|n| talk(rig, f, n)));
                let entered = of(&counted, Reason::FlowPromoted);
                assert!(
                    entered <= flows as u64 && entered > WAYS as u64,
                    "{entered} entered"
                );
                assert_eq!(of(&counted, Reason::FlowNotPromoted) + entered, 200);
                assert_eq!(
                    of(&counted, Reason::FlowExpired),
                    0,
                    "none of them had to go"
                );
                rig.age_all(f);
                let counted = rig.counted(|| (1000..1008).for_each(|n| talk(rig, f, n)));
                assert_eq!(of(&counted, Reason::FlowPromoted), 8);
                assert!(of(&counted, Reason::FlowExpired) >= 8);
            }
        },
    );
}

#[test]
fn a_full_table_forwards_what_it_cannot_remember() {
    let flows = 64;
    with(
        |setup| {
            setup.settings.slots4 = flows as u32;
            setup.settings.slots6 = flows as u32;
        },
        |rig| {
            for f in FAMILIES {
                (0..flows).for_each(|n| talk(rig, f, n));
                for n in flows..flows + 20 {
                    let (q, a) = (question(f, n), answer(f, n));
                    rig.case(
                        "asked",
                        Left,
                        &q,
                        to(Right, q.clone().hop()),
                        Reason::ForwardFlow,
                    );
                    let before = rig.counters();
                    rig.case(
                        "answered",
                        Right,
                        &a,
                        to(Left, a.clone().hop()),
                        Reason::ForwardFlow,
                    );
                    let counted = rise(&before, &rig.counters());
                    assert_eq!(of(&counted, Reason::FlowNotPromoted), 1);
                }
                let held = rig.flows(f);
                assert_eq!(held.iter().filter(|flow| !flow.half).count(), flows);
                // Those that were there are as they were.
                let missed = rig.rises(Reason::TableMiss, || {
                    (0..flows).for_each(|n| talk(rig, f, n));
                });
                assert_eq!(missed, 0);
                // One ends; one comes in.
                rig.age(f, &held[3], 86_400);
                let counted = rig.counted(|| talk(rig, f, flows));
                assert_eq!(of(&counted, Reason::FlowPromoted), 1, "{counted:?}");
            }
        },
    );
}

#[test]
fn a_flood_of_beginnings_pushes_out_no_established_flow() {
    let flows = 200;
    with(
        |setup| setup.settings.half_mask = 15,
        |rig| {
            for f in FAMILIES {
                (0..flows).for_each(|n| talk(rig, f, n));
                let counted = rig.counted(|| {
                    for n in 0..4000u16 {
                        let client = at(f.left(20 + (n % 10) as u8), n);
                        let p = tcp(client, at(f.right(10), 80), SYN);
                        rig.send(Left, &p);
                    }
                });
                assert_eq!(
                    of(&counted, Reason::ForwardFlow),
                    4000,
                    "all go on: {counted:?}"
                );
                assert_eq!(of(&counted, Reason::FlowCreated), 4000);
                let evicted = of(&counted, Reason::FlowEvicted);
                assert!(evicted >= 4000 - 16 * WAYS as u64, "{evicted} evicted");
                let held = rig.flows(f);
                assert_eq!(held.iter().filter(|flow| !flow.half).count(), flows);
                let counted = rig.counted(|| (0..flows).for_each(|n| talk(rig, f, n)));
                assert_eq!(counted, [(Reason::ForwardFlow, 2 * flows as u64)]);
            }
        },
    );
}

#[test]
fn the_oldest_of_a_full_bucket_of_beginnings_gives_way() {
    with(
        |setup| setup.settings.half_mask = 1,
        |rig| {
            for f in FAMILIES {
                // Both buckets are full.
                (0..100).for_each(|n| ask(rig, f, n));
                assert_eq!(rig.flows(f).len(), 2 * WAYS);
                let index = rig.loaded.mapped(&format!("half_index{}", f.number()));
                // The third of each looks older than the rest.
                for bucket in 0..2 {
                    index.element_long(bucket).unwrap()[2].fetch_xor(0x10 << 24, Ordering::Relaxed);
                }
                let before = rig.flows(f);
                ask(rig, f, 100);
                let changed: Vec<usize> = before
                    .iter()
                    .zip(rig.flows(f))
                    .filter(|(before, after)| before.src != after.src)
                    .map(|(before, _)| before.slot as usize % WAYS)
                    .collect();
                assert_eq!(changed, [2]);
            }
        },
    );
}

#[test]
fn expired_beginnings_are_not_counted_as_pushed_out() {
    with(
        |setup| setup.settings.half_mask = 1,
        |rig| {
            for f in FAMILIES {
                (0..100).for_each(|n| ask(rig, f, n));
                rig.age_all(f);
                // Their entries know how old they are by themselves.
                let index = rig.loaded.mapped(&format!("half_index{}", f.number()));
                for entry in index.long_words() {
                    entry.fetch_xor(0x10 << 24, Ordering::Relaxed);
                }
                let counted = rig.counted(|| (200..200 + WAYS).for_each(|n| ask(rig, f, n)));
                assert_eq!(of(&counted, Reason::FlowCreated), WAYS as u64);
                assert_eq!(of(&counted, Reason::FlowEvicted), 0);
                assert_eq!(rig.flows(f).len(), 2 * WAYS);
            }
        },
    );
}

#[test]
fn the_next_hop_is_kept_and_looked_up_again_after_a_second() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                talk(rig, f, 0);
                let refreshed = rig.rises(Reason::HopRefreshed, || talk(rig, f, 0));
                assert_eq!(refreshed, 0);
                let flow = rig.only_flow(f);
                assert_eq!(flow.hops, [rig.port(Right) as u8, rig.port(Left) as u8]);
                // What the flow remembers is older than a second now.
                rig.age_hops(f, &flow, 3);
                let refreshed = rig.rises(Reason::HopRefreshed, || talk(rig, f, 0));
                assert_eq!(refreshed, 2, "once for each direction");
                let refreshed = rig.rises(Reason::HopRefreshed, || talk(rig, f, 0));
                assert_eq!(refreshed, 0);
            }
        },
    );
}

#[test]
fn a_known_flow_follows_changed_routes_and_neighbours() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                let p = udp(at(f.left(10), 5), at(f.host(BEYOND, 7), 53));
                let sent = |n| via(Right, n, p.clone().hop());
                rig.case("before", Left, &p, sent(11), Reason::ForwardFlow);
                let net = if f.is_v4() {
                    "10.0.105.0/24"
                } else {
                    "2001:db8:105::/64"
                };
                let line = |rest: &str| format!("route replace {rest}");
                let by = |n: u8| line(&format!("{net} via {} dev right", f.right(n)));
                rig.router.ip(&[&by(13)]).unwrap();
                rig.age_hops(f, &rig.only_flow(f), 3);
                rig.case("another router", Left, &p, sent(13), Reason::ForwardFlow);
                rig.router
                    .ip(&[&line(&format!("blackhole {net}"))])
                    .unwrap();
                if !f.is_v4() {
                    rig.router
                        .ip(&[&format!("route del {net} via {}", f.right(13))])
                        .ok();
                }
                rig.age_hops(f, &rig.only_flow(f), 3);
                rig.case(
                    "a blackhole",
                    Left,
                    &p,
                    Verdict::Drop,
                    Reason::DropBlackhole,
                );
                let gone = if f.is_v4() { "" } else { "blackhole " };
                rig.router
                    .ip(&[
                        &format!("route del {gone}{net}"),
                        &by(99).replace("replace", "add"),
                    ])
                    .unwrap();
                rig.case(
                    "no neighbour",
                    Left,
                    &p,
                    Verdict::Pass,
                    Reason::PassNoNeighbour,
                );
                rig.router.ip(&[&by(14)]).unwrap();
                rig.case("found at once", Left, &p, sent(14), Reason::ForwardFlow);
            }
        },
    );
}

#[test]
fn the_kernel_sees_a_packet_now_and_then_to_look_after_the_neighbour() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                talk(rig, f, 0);
                let flow = rig.only_flow(f);
                rig.age_hops(f, &flow, 3);
                talk(rig, f, 0);
                // Twenty seconds later, as the table of neighbours has it.
                rig.age_neighbours(20);
                rig.age_hops(f, &flow, 3);
                let q = question(f, 0);
                rig.case("for the kernel", Left, &q, Verdict::Pass, Reason::PassProbe);
                rig.case(
                    "the next",
                    Left,
                    &q,
                    to(Right, q.clone().hop()),
                    Reason::ForwardFlow,
                );
                rig.age_hops(f, &flow, 3);
                rig.case(
                    "soon after",
                    Left,
                    &q,
                    to(Right, q.clone().hop()),
                    Reason::ForwardFlow,
                );
            }
        },
    );
}

#[test]
fn without_a_table_of_half_open_flows_packets_still_go_on() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                // Somebody writes every entry, and never ends.
                let index = rig.loaded.mapped(&format!("half_index{}", f.number()));
                for word in index.long_words() {
                    word.store(0xffff_ffff << 32, Ordering::Relaxed);
                }
                let q = question(f, 0);
                rig.case(
                    "no room",
                    Left,
                    &q,
                    to(Right, q.clone().hop()),
                    Reason::ForwardFlow,
                );
                assert_eq!(rig.flows(f), []);
            }
        },
    );
}

#[test]
fn ended_flows_leave_nothing_behind() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                (0..100).for_each(|n| talk(rig, f, n));
                for flow in rig.flows(f) {
                    rig.set_state(f, &flow, State::Ended);
                }
                (0..100).for_each(|n| ask(rig, f, n));
                assert!(rig.flows(f).iter().all(|flow| flow.half));
                let index = rig.loaded.mapped(&format!("index{}", f.number()));
                let entries = index
                    .long_words()
                    .iter()
                    .filter(|word| word.load(Ordering::Relaxed) != 0);
                assert_eq!(entries.count(), 0);
            }
        },
    );
}
