//! What users see of the fast path and do to it: flows listed, counted and ended, the shun list, counters, and all of that
//! from the pins alone.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use std::net::IpAddr;
use std::path::Path;
use std::process;
use std::time::Duration;

use addr::Prefix;
use fastpath::abi::{Reason, State, Way};
use fastpath::flows::{self, Count, Filter};
use fastpath::shun::{Held, ShunError, Shuns};
use fastpath::stats::{Fill, STAGES, Stats, Verdict as End, slots_held};
use fastpath::{Clock, FastPath, Pins, Sight, Tables, detach};
use model::{Config, MemorySource};
use rig::*;
use xdp::netns::{Namespace, veth};

fn now() -> u32 {
    Clock::with_hz(HZ).unwrap().now().unwrap()
}

fn tables<'r>(rig: &'r Rig<'_>) -> &'r Tables {
    &rig.loaded.tables
}

fn list(rig: &Rig<'_>, filter: &Filter) -> Vec<flows::Flow> {
    flows::list(tables(rig), &rig.loaded.settings, now(), filter, usize::MAX).unwrap()
}

fn count(rig: &Rig<'_>, filter: &Filter) -> Count {
    flows::count(tables(rig), &rig.loaded.settings, now(), filter).unwrap()
}

fn end(rig: &Rig<'_>, filter: &Filter) -> u64 {
    flows::end(tables(rig), &rig.loaded.settings, now(), filter).unwrap()
}

/// In each family `answered` flows of UDP that were answered, and one that was not.
fn talk(rig: &Rig<'_>, answered: u16) {
    for f in FAMILIES {
        for n in 0..answered {
            let (client, server) = (at(f.left(10), 4000 + n), at(f.right(10), 53));
            rig.send(Left, &udp(client, server));
            rig.send(Right, &udp(server, client));
        }
        rig.send(Left, &udp(at(f.left(11), 4000), at(f.right(11), 99)));
    }
}

fn host(ip: IpAddr) -> Prefix {
    Prefix::from(ip)
}

#[test]
fn flows_are_listed_and_counted_as_they_are_in_both_tables() {
    with(
        |_| {},
        |rig| {
            talk(rig, 3);
            let all = count(rig, &Filter::default());
            assert_eq!((all.flows, all.v4, all.v6, all.half_open), (8, 4, 4, 2));
            assert_eq!(all.states[State::Udp as usize], 8);
            assert_eq!(all.ways[Way::Plain as usize], 8);
            for f in FAMILIES {
                let filter = Filter {
                    addresses: vec![host(f.right(10))],
                    ports: vec![4001],
                    v4: Some(f.is_v4()),
                    ..Filter::default()
                };
                let found = list(rig, &filter);
                assert_eq!(found.len(), 1, "{found:?}");
                let flow = found[0];
                assert_eq!(flow.source, at(f.left(10), 4001));
                assert_eq!(flow.destination, at(f.right(10), 53));
                assert_eq!((flow.protocol, flow.half_open), (17, false));
                assert!(flow.left <= Duration::from_secs(30), "{:?}", flow.left);
                assert!(flow.left >= Duration::from_secs(5), "{:?}", flow.left);
            }
            let limited = flows::list(
                tables(rig),
                &rig.loaded.settings,
                now(),
                &Filter::default(),
                5,
            );
            assert_eq!(limited.unwrap().len(), 5);
        },
    );
}

#[test]
fn a_flow_whose_time_is_out_is_neither_listed_nor_counted() {
    with(
        |_| {},
        |rig| {
            talk(rig, 1);
            for f in FAMILIES {
                rig.age_all(f);
            }
            assert_eq!(count(rig, &Filter::default()), Count::default());
            assert!(list(rig, &Filter::default()).is_empty());
        },
    );
}

#[test]
fn an_ended_flow_is_gone_at_once_and_others_are_not() {
    with(
        |_| {},
        |rig| {
            talk(rig, 3);
            for f in FAMILIES {
                let one = Filter {
                    ports: vec![4001],
                    v4: Some(f.is_v4()),
                    ..Filter::default()
                };
                assert_eq!(end(rig, &one), 1);
                assert_eq!(end(rig, &one), 0, "it is ended already");
                let half = Filter {
                    ports: vec![99],
                    v4: Some(f.is_v4()),
                    ..Filter::default()
                };
                assert_eq!(end(rig, &half), 1);
                let rest = Filter {
                    v4: Some(f.is_v4()),
                    ..Filter::default()
                };
                assert_eq!(count(rig, &rest).flows, 2);
                // The next packet finds no flow and begins another.
                let again = udp(at(f.left(10), 4001), at(f.right(10), 53));
                let begun = rig.rises(Reason::FlowCreated, || {
                    rig.send(Left, &again);
                });
                assert_eq!(begun, 1);
                let kept = udp(at(f.left(10), 4002), at(f.right(10), 53));
                let known = rig.rises(Reason::ForwardFlow, || {
                    rig.send(Left, &kept);
                });
                assert_eq!(known, 1);
            }
        },
    );
}

#[test]
fn shunned_sources_are_dropped_until_they_are_taken_off_or_their_time_is_out() {
    with(
        |_| {},
        |rig| {
            let shuns = Shuns::new(tables(rig), HZ).unwrap();
            for f in FAMILIES {
                let net = Prefix::containing(f.left(10), if f.is_v4() { 24 } else { 64 });
                for source in [host(f.left(10)), net] {
                    let passes = udp(at(f.left(10), 5), at(f.right(10), 5));
                    let dropped = || {
                        rig.rises(Reason::DropShun, || {
                            rig.send(Left, &passes);
                        }) == 1
                    };
                    assert!(!dropped());
                    shuns
                        .add(source, now(), Duration::from_secs(60), 3)
                        .unwrap();
                    assert!(dropped(), "{source}");
                    // Once more is no second entry.
                    shuns
                        .add(source, now(), Duration::from_secs(90), 4)
                        .unwrap();
                    let mut listed = Vec::new();
                    shuns.each(now(), |entry| listed.push(entry)).unwrap();
                    assert_eq!(listed.len(), 1);
                    assert_eq!((listed[0].source, listed[0].reason), (source, 4));
                    assert!(listed[0].left > Duration::from_secs(60));
                    assert!(shuns.remove(source).unwrap());
                    assert!(!shuns.remove(source).unwrap());
                    assert!(!dropped(), "{source}");
                    assert_eq!(shuns.held(), Held::default());

                    // Its time was out a jiffy ago.
                    let past = now().wrapping_sub(HZ * 2);
                    shuns.add(source, past, Duration::from_secs(1), 0).unwrap();
                    assert!(!dropped(), "{source}");
                    assert_ne!(shuns.held(), Held::default());
                    assert_eq!(shuns.sweep(now()).unwrap(), 1);
                    assert_eq!(shuns.held(), Held::default());
                }
            }
        },
    );
}

#[test]
fn counts_that_a_dead_process_left_too_high_are_mended_and_never_fall_too_low() {
    with(
        |_| {},
        |rig| {
            let shuns = Shuns::new(tables(rig), HZ).unwrap();
            for f in FAMILIES {
                for n in 0..100 {
                    shuns
                        .add(host(f.left(n)), now(), Duration::from_secs(60), 0)
                        .unwrap();
                }
                let net = Prefix::containing(f.right(0), 24);
                shuns.add(net, now(), Duration::from_secs(60), 0).unwrap();
            }
            let held = shuns.held();
            assert_eq!((held.addresses_v4, held.addresses_v6), (100, 100));
            assert_eq!((held.prefixes_v4, held.prefixes_v6), (1, 1));
            for table in 0..4u32 {
                rig.loaded.set("shun_counts", table, 1000u64);
            }
            shuns.recount().unwrap();
            assert_eq!(shuns.held(), held);
            assert_eq!(shuns.flush().unwrap(), 202);
            assert_eq!(shuns.held(), Held::default());
            shuns.recount().unwrap();
            assert_eq!(shuns.held(), Held::default());
        },
    );
}

#[test]
fn a_full_shun_list_and_a_prefix_of_everybody_are_refused() {
    with(
        |setup| setup.shuns = 16,
        |rig| {
            let shuns = Shuns::new(tables(rig), HZ).unwrap();
            let add = |source: Prefix| shuns.add(source, now(), Duration::from_secs(60), 0);
            for everybody in ["0.0.0.0/0", "::/0"] {
                let refused = add(everybody.parse().unwrap());
                assert!(matches!(refused, Err(ShunError::Everybody(_))));
            }
            for f in FAMILIES {
                for bits in [if f.is_v4() { 32 } else { 128 }, 28] {
                    let source = |n: u8| match f {
                        Family::V4 => {
                            Prefix::containing(format!("10.9.{n}.0").parse().unwrap(), bits)
                        }
                        Family::V6 => Prefix::containing(
                            format!("{:x}::", 0x2001 + u32::from(n) * 16)
                                .parse()
                                .unwrap(),
                            bits,
                        ),
                    };
                    // A table may find room for a few more than it says.
                    let refused = (0..200).map(|n| add(source(n))).find(Result::is_err);
                    assert!(
                        matches!(refused, Some(Err(ShunError::Full { capacity: 16, .. }))),
                        "{refused:?}"
                    );
                }
            }
            let held = shuns.held();
            shuns.recount().unwrap();
            assert_eq!(shuns.held(), held);
        },
    );
}

#[test]
fn every_packet_is_counted_once_and_tables_say_how_full_they_are() {
    with(
        |_| {},
        |rig| {
            talk(rig, 10);
            for f in FAMILIES {
                rig.send(Left, &udp(at(f.left(10), 1), at(f.host(BLACKHOLE, 1), 1)));
                rig.send(Left, &udp(at(f.left(10), 1), at(f.left(1), 1)));
            }
            let stats = Stats::read(tables(rig)).unwrap();
            assert_eq!(stats.reasons, rig.counters());
            let ends = [End::Sent, End::Passed, End::Dropped].map(|end| stats.packets(end));
            assert_eq!(ends.iter().sum::<u64>(), 46, "{ends:?}");
            assert_eq!(stats.of(Reason::DropBlackhole), 2);
            assert_eq!(stats.of(Reason::PassLocal), 2);
            let stages: u64 = STAGES.iter().map(|stage| stats.decided_in(stage)).sum();
            assert_eq!(stages, 46);
            let fill = |name: &str| -> Fill {
                *stats.tables.iter().find(|fill| fill.table == name).unwrap()
            };
            for (family, name) in ["flows_v4", "flows_v6"].iter().enumerate() {
                assert_eq!((fill(name).held, fill(name).capacity), (10, 4096));
                assert_eq!(slots_held(tables(rig), family).unwrap(), 10);
            }
            assert_eq!(fill("half_open_v4").held, 1);
            assert_eq!(fill("half_open_v6").held, 1);
        },
    );
}

#[test]
fn slots_that_were_given_back_are_not_held() {
    with(
        |setup| setup.settings.half_mask = 4095,
        |rig| {
            // Enough for full magazines to go to the depot and come from there.
            for f in FAMILIES {
                let family = usize::from(!f.is_v4());
                for round in 0..2 {
                    for n in 0..1000u16 {
                        let (client, server) = (at(f.left(10), 4000 + n), at(f.right(10), 53));
                        rig.send(Left, &udp(client, server));
                        rig.send(Right, &udp(server, client));
                    }
                    let held = slots_held(tables(rig), family).unwrap();
                    let meant = Filter {
                        v4: Some(f.is_v4()),
                        ..Filter::default()
                    };
                    assert_eq!(held, count(rig, &meant).flows, "round {round}");
                    rig.age_all(f);
                    // Each packet finds its flow expired, and removes it.
                    for n in 0..1000u16 {
                        rig.send(Left, &udp(at(f.left(10), 4000 + n), at(f.right(10), 53)));
                    }
                    assert_eq!(slots_held(tables(rig), family).unwrap(), 0);
                    rig.age_all(f);
                }
            }
        },
    );
}

/// Two interfaces of a router, and where its fast path is pinned.
struct World {
    router: Namespace,
    _hosts: Namespace,
    root: String,
}

impl World {
    fn new() -> Self {
        let [router, hosts] = [(); 2].map(|()| Namespace::new().unwrap());
        veth(&router, "r0", &hosts, "h0").unwrap();
        veth(&router, "r1", &hosts, "h1").unwrap();
        Self {
            router,
            _hosts: hosts,
            root: format!("/sys/fs/bpf/hg-see-{}", process::id()),
        }
    }

    fn config(&self) -> Config {
        let text = format!(
            "fast_path:
  interfaces: [r0, {{name: r1, mode: generic}}]
  pin: {}
  tables: {{flows_v4: 4096, flows_v6: 2048, half_open: 1024, shuns: 1024}}
  source_nat: [{{name: office, from: [10.0.0.0/8, 'fd00::/8']}}]
pools:
  dns: {{members: [{{name: a, address: '10.2.0.2:53'}}, {{name: b, address: '[fd02::2]:53'}}]}}
virtuals:
  dns:
    {{protocol: fast, transport: udp, listen: ['192.0.2.1:53', '192.0.2.1:5300-5399', '[2001:db8::1]:53'], pool: dns}}
",
            self.root
        );
        model::parse_text(Path::new("test.yaml"), &text, &MemorySource::default())
            .unwrap_or_else(|errors| panic!("{errors}\n{text}"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let pins = Pins::at(&self.root);
        drop(self.router.run(|| detach(&pins)));
    }
}

#[test]
fn with_the_process_gone_the_pins_tell_what_is_attached_and_take_orders() {
    if let Err(missing) = xdp::require::check() {
        println!("passed over: {missing}");
        return;
    }
    let world = World::new();
    let pins = Pins::at(&world.root);
    let none = Sight::open(&pins).unwrap_err().to_string();
    assert!(none.contains("no fast path is attached here"), "{none}");
    assert!(none.contains(&world.root), "{none}");

    let config = world.config();
    world.router.run(|| {
        drop(FastPath::start(&config, &|_, _| None).unwrap().unwrap());
        let sight = Sight::open(&pins).unwrap();
        let show = sight.show().unwrap();
        let interfaces: Vec<_> = show
            .interfaces
            .iter()
            .map(|interface| (&*interface.name, interface.mode, interface.current))
            .collect();
        assert_eq!(
            interfaces,
            [("r0", "native", true), ("r1", "generic", true)]
        );
        assert_eq!(show.forward, "tracked");
        assert_eq!(show.rules, ["office"]);
        let capacity = |name: &str| {
            let fill = show.tables.iter().find(|fill| fill.table == name);
            fill.unwrap().capacity
        };
        assert_eq!((capacity("flows_v4"), capacity("flows_v6")), (4096, 2048));
        let listens: Vec<&str> = show
            .virtuals
            .iter()
            .flat_map(|one| one.listen.iter().map(String::as_str))
            .collect();
        for listen in [
            "udp/192.0.2.1:53",
            "udp/192.0.2.1:5300-5399",
            "udp/[2001:db8::1]:53",
        ] {
            assert!(listens.contains(&listen), "{listen}: {listens:?}");
        }
        let mut members: Vec<_> = show.members.iter().map(|member| &*member.name).collect();
        members.sort_unstable();
        members.dedup();
        assert_eq!(members, ["dns/a", "dns/b"]);

        let shuns = sight.shuns().unwrap();
        let source: Prefix = "192.0.2.9".parse().unwrap();
        let now = sight.now().unwrap();
        shuns.add(source, now, Duration::from_secs(60), 0).unwrap();
        let other = Sight::open(&pins).unwrap();
        let mut seen = Vec::new();
        let list = other.shuns().unwrap();
        list.each(now, |entry| seen.push(entry.source)).unwrap();
        assert_eq!(seen, [source]);
        let stats = other.stats().unwrap();
        assert!(stats.virtuals.contains_key("dns"));
        assert_eq!(other.count(&Filter::default()).unwrap().flows, 0);

        assert_eq!(detach(&pins).unwrap(), ["r0", "r1"]);
        assert!(Sight::open(&pins).is_err());
    });
}
