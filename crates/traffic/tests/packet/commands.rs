//! The commands, given as they would be on the command line.

use crate::world::World;
use clap::Parser;
use traffic::http::Stop;
use traffic::packet::command::{
    PacketsArgs, PacketsReport, SearchArgs, TcpArgs, TcpReport, packets, search, tcp,
};
use traffic::packet::{PacketError, Receiver, Receiving};

#[derive(Parser)]
enum Line {
    Packets(PacketsArgs),
    Tcp(TcpArgs),
    Search(SearchArgs),
}

fn line(world: &World, words: &str, more: &str) -> Line {
    let line = format!(
        "gen {words} --interface near0 --netns {} --peer-interface far0 --peer-netns {} {more}",
        world.near.name(),
        world.far.name()
    );
    Line::try_parse_from(line.split_whitespace()).expect("a good line")
}

fn run_packets(world: &World, more: &str) -> Result<PacketsReport, PacketError> {
    let Line::Packets(args) = line(world, "packets", more) else {
        panic!("another command");
    };
    packets(&args, &Stop::default())
}

fn run_tcp(world: &World, more: &str) -> Result<TcpReport, PacketError> {
    let Line::Tcp(args) = line(world, "tcp", more) else {
        panic!("another command");
    };
    tcp(&args, &Stop::default())
}

#[test]
fn frames_both_ways_are_told_with_what_arrived() {
    let world = World::new();
    for far in ["192.0.2.2", "2001:db8::2"] {
        let report = run_packets(
            &world,
            &format!("--dst {far} --both -n 10k --grace 10s --rate 100k --imix --latency --sport 1024-2023"),
        )
        .expect("a report");
        assert_eq!(report.directions.len(), 2);
        for direction in &report.directions {
            let arrived = direction.arrived.as_ref().expect("a receiver");
            assert_eq!(direction.sent, 10_000, "{report}");
            assert_eq!(arrived.received + direction.refused, 10_000, "{report}");
            assert_eq!(arrived.lost, direction.refused, "{report}");
            assert!(arrived.delay_p50.is_some_and(|delay| delay > 0), "{report}");
        }
    }
}

#[test]
fn held_connections_are_asked_whether_they_live() {
    let world = World::new();
    for (near, far) in [
        ("10.0.0.0/24", "192.0.2.2"),
        ("2001:db8::1:0/120", "2001:db8::2"),
    ] {
        for cores in ["0", "0,1"] {
            let report = run_tcp(
                &world,
                &format!(
                    "--src {near} --dst {far} -n 101 --rate 20k --hold 10ms --sample 50 --cores {cores}"
                ),
            )
            .expect("a report");
            assert_eq!((report.started, report.refused), (101, 0), "{report}");
            assert_eq!((report.established, report.failed), (101, 0), "{report}");
            assert_eq!(
                (report.asked, report.alive),
                (Some(50), Some(50)),
                "{report}"
            );
            assert_eq!(report.server.map(|server| server.accepted), Some(101));
        }
    }
}

#[test]
fn more_connections_than_there_can_be_are_a_mistake() {
    let world = World::new();
    let error =
        run_tcp(&world, "--dst 192.0.2.2 --sport 1-10 -n 11 --hold 1s").expect_err("a mistake");
    assert!(error.to_string().contains("make up only 10"), "{error}");
}

#[test]
fn a_search_knows_good_rates_from_bad_ones() {
    let world = World::new();
    let search_with = |peer: &str| {
        let line = format!(
            "gen search --from 500 --to 600 --trial 100ms tcp --interface near0 --netns {} --dst 192.0.2.2 {peer}",
            world.near.name()
        );
        let Ok(Line::Search(args)) = Line::try_parse_from(line.split_whitespace()) else {
            panic!("{line}");
        };
        search(&args, &Stop::default()).expect("a report")
    };
    let peer = format!("--peer-interface far0 --peer-netns {}", world.far.name());
    assert!(search_with(&peer).rate.is_some());
    // The kernel there listens on no port, and refuses every connection.
    let _far = Receiver::attach(&world.to(), Receiving::default()).expect("a receiver");
    let report = search_with("");
    assert_eq!(report.rate, None);
    assert_eq!(report.trials.len(), 2);
}
