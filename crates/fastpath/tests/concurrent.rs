//! The table under everything at once, from several CPUs: flows begin, are answered, end, expire and are pushed out, and
//! afterwards its parts must still agree. What is looked at is said in `fastpath::check`.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastpath::abi::{Reason, STATES, State, Way};
use fastpath::check::{Report, check};
use rig::*;
use xdp::map::Mapped;
use xdp::netns::pin_to_core;

/// Packets a CPU and family.
const PACKETS: usize = 40_000;

/// Tables so small, and times so short, that everything that can happen does.
fn crowded(setup: &mut Setup) {
    let settings = &mut setup.settings;
    settings.slots4 = 256;
    settings.slots6 = 256;
    settings.buckets4 = 60;
    settings.buckets6 = 60;
    settings.half_mask = 63;
    settings.timeout = [4; STATES];
    settings.timeout[State::Ended as usize] = 0;
}

fn checked(rig: &Rig<'_>, f: Family) -> Report {
    let report = check(f.number(), &rig.loaded.settings, &rig.loaded.tables).unwrap();
    let wrong: Vec<String> = report
        .wrong
        .iter()
        .take(20)
        .map(ToString::to_string)
        .collect();
    assert!(
        wrong.is_empty(),
        "{f:?}: {} wrong:\n{}",
        report.wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(report.lost, 0, "{f:?}: slots are lost");
    assert_eq!(
        report.flows + report.free,
        rig.loaded.settings.slots4 as usize
    );
    report
}

/// Both tables of flows of a family, in memory.
struct Both {
    family: Family,
    tables: [Mapped; 2],
}

impl Both {
    fn new(rig: &Rig<'_>, family: Family) -> Self {
        let tables = [false, true].map(|half| rig.flow_table(family, half));
        Self { family, tables }
    }

    /// A flow from anywhere in them.
    fn any(&self, random: &mut Random) -> Option<Flow> {
        let half = random.below(2);
        let table = &self.tables[half];
        flow_in(table, self.family, half == 1, random.below(table.len()))
    }
}

const FLAGS: [u8; 8] = [SYN, SYN, SYN, ACK, ACK | PSH, FIN | ACK, RST, SYN | ACK];

/// What a client may send to one of these.
fn question(f: Family, random: &mut Random, to: &[(u8, u8)]) -> Packet {
    let (link, n) = random.pick(to);
    let port = if link == VIPS {
        80
    } else {
        7000 + random.below(4) as u16
    };
    let client = at(
        f.left(10 + random.below(6) as u8),
        5000 + random.below(100) as u16,
    );
    let server = at(f.host(link, n), port);
    match random.below(8) {
        0..4 => tcp(client, server, random.pick(&FLAGS)),
        4..7 => udp(client, server),
        _ => echo(client.ip(), server.ip(), client.port()),
    }
}

/// What comes back in a flow, or what its client says next.
fn going_on(flow: &Flow, random: &mut Random) -> (Side, Packet) {
    let back = random.below(4) != 0 && flow.way != Way::Direct && flow.way != Way::Tunnel;
    let (side, src, dst) = if back {
        (Right, flow.ndst, flow.nsrc)
    } else {
        (Left, flow.src, flow.dst)
    };
    let packet = match flow.proto {
        6 => tcp(src, dst, random.pick(&FLAGS)),
        17 => udp(src, dst),
        _ if back => echo_reply(src.ip(), dst.ip(), dst.port()),
        _ => echo(src.ip(), dst.ip(), src.port()),
    };
    (side, packet)
}

/// Packets of both families from two CPUs at once.
fn crowd(rig: &Rig<'_>, seed: u64, to: &[(u8, u8)]) {
    let injector = rig.injector();
    let tables = FAMILIES.map(|f| Both::new(rig, f));
    thread::scope(|scope| {
        for core in 0..2 {
            let tables = &tables;
            scope.spawn(move || {
                // On a machine with one core they take turns.
                drop(pin_to_core(0, core));
                let mut random = Random::new(seed * 2 + core as u64 + 1);
                for _ in 0..PACKETS {
                    for table in tables {
                        let known = random.below(3) != 0;
                        let (side, packet) = match table.any(&mut random) {
                            Some(flow) if known => going_on(&flow, &mut random),
                            _ => (Left, question(table.family, &mut random, to)),
                        };
                        injector.send(side, &packet);
                    }
                }
            });
        }
    });
}

fn of(counted: &[(Reason, u64)], reason: Reason) -> u64 {
    counted
        .iter()
        .find(|(found, _)| *found == reason)
        .map_or(0, |(_, by)| *by)
}

#[test]
fn tracked_flows_leave_the_table_sound() {
    with(crowded, |rig| {
        for round in 0..3 {
            let counted = rig.counted(|| crowd(rig, round, &[(1, 10), (1, 11), (BEYOND, 7)]));
            for reason in [
                Reason::FlowPromoted,
                Reason::FlowExpired,
                Reason::FlowEvicted,
                Reason::FlowNotPromoted,
                Reason::FlowReopened,
            ] {
                assert!(
                    of(&counted, reason) > 0,
                    "{reason:?} did not happen: {counted:?}"
                );
            }
            for f in FAMILIES {
                checked(rig, f);
            }
        }
    });
}

#[test]
fn translated_flows_leave_the_table_sound_and_no_two_have_the_same_replies() {
    with(
        |setup| {
            armed(setup);
            crowded(setup);
        },
        |rig| {
            rig.arm();
            let to = [
                (BEYOND, 7),
                (BEYOND, 7),
                (NARROW, 7),
                (VIPS, BY_NAT),
                (VIPS, BY_NAT_WITH_AUTOMAP),
                (VIPS, BY_NAT_WITH_POOL),
                (VIPS, DIRECT),
                (VIPS, TUNNELLED),
            ];
            for round in 0..3 {
                let counted = rig.counted(|| crowd(rig, round, &to));
                for reason in [
                    Reason::FlowPromoted,
                    Reason::FlowExpired,
                    Reason::FlowEvicted,
                    Reason::NatProbes,
                    Reason::DropUserLimit,
                ] {
                    assert!(
                        of(&counted, reason) > 0,
                        "{reason:?} did not happen: {counted:?}"
                    );
                }
                for f in FAMILIES {
                    checked(rig, f);
                }
            }
        },
    );
}

#[test]
fn a_sound_table_is_told_from_one_that_is_not() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                for n in 0..100 {
                    let (client, server) = (at(f.left(10), 1000 + n), at(f.right(10), 53));
                    rig.send(Left, &udp(client, server));
                    rig.send(Right, &udp(server, client));
                }
                assert_eq!(checked(rig, f).flows, 100);
                // One entry less; a slot that is free and in use; a flow that its entry does not lead to.
                let index = rig.loaded.mapped(&format!("index{}", f.number()));
                let words = index.long_words();
                let taken: Vec<usize> =
                    (0..words.len()).filter(|i| load(&words[*i]) != 0).collect();
                let entry = words[taken[0]].swap(0, Ordering::Relaxed);
                let report = check(f.number(), &rig.loaded.settings, &rig.loaded.tables).unwrap();
                assert_eq!(report.wrong.len(), 1, "{:?}", report.wrong);
                words[taken[0]].store(entry ^ 1 << 32, Ordering::Relaxed);
                let report = check(f.number(), &rig.loaded.settings, &rig.loaded.tables).unwrap();
                assert_eq!(report.wrong.len(), 2, "{:?}", report.wrong);
                words[taken[0]].store(entry, Ordering::Relaxed);
                checked(rig, f);
                rig.set_state(f, &rig.flows(f)[0], State::Free);
                let report = check(f.number(), &rig.loaded.settings, &rig.loaded.tables).unwrap();
                assert_eq!(
                    (report.wrong.len(), report.lost),
                    (1, 1),
                    "{:?}",
                    report.wrong
                );
            }
        },
    );
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}
