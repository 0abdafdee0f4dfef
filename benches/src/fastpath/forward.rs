//! Forwarding side by side: the kernel, nftables, bare programs and the fast path, each in namespaces of its own, in turn. The
//! figure is the time of the device's receiving thread for a packet; it has a core for itself, and does all of the device's work.

use crate::device::{Device, Shown, Who};
use crate::row::{Book, Goal, Part, Row, Series};
use crate::world::Family;
use crate::{Options, Stop};
use anyhow::{Context, Result};
use headgate_benches::median;
use std::time::Duration;

/// One comparison: ours, and against whom; the goal is against the first of them.
struct Match {
    name: &'static str,
    ours: Who,
    peers: &'static [Who],
    goal: Option<f64>,
}

const MATCHES: [Match; 7] = [
    Match {
        name: "forwarded",
        ours: Who::Tracked,
        peers: &[Who::Kernel],
        goal: Some(5.0),
    },
    Match {
        name: "routed",
        ours: Who::Routed,
        peers: &[Who::Kernel, Who::Fib, Who::Redirect, Who::Drop],
        goal: Some(5.0),
    },
    Match {
        name: "tracked",
        ours: Who::Tracked,
        peers: &[Who::Conntrack, Who::Kernel, Who::Fib],
        goal: Some(5.0),
    },
    Match {
        name: "snat",
        ours: Who::Snat,
        peers: &[Who::Masquerade],
        goal: Some(6.0),
    },
    Match {
        name: "balanced",
        ours: Who::Balanced,
        peers: &[Who::Dnat],
        goal: Some(5.0),
    },
    Match {
        name: "direct",
        ours: Who::Direct,
        peers: &[Who::Dnat],
        goal: None,
    },
    Match {
        name: "ipip",
        ours: Who::Tunnel,
        peers: &[Who::Dnat],
        goal: None,
    },
];

const FLOWS: [u32; 2] = [1, 10_000];

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    let mut names = Vec::new();
    for family in Family::BOTH {
        for flows in FLOWS {
            names.extend(MATCHES.iter().map(|one| name(one, family, flows)));
        }
    }
    names
}

fn name(one: &Match, family: Family, flows: u32) -> String {
    format!("forward-{}-{}-{flows}", one.name, family.name())
}

/// Measures what the options want, and says each row as it is done.
pub(crate) fn run(options: &Options, stop: &Stop, book: &mut Book) -> Result<()> {
    for family in Family::BOTH {
        for flows in FLOWS {
            let matches: Vec<&Match> = MATCHES
                .iter()
                .filter(|one| options.wants(&name(one, family, flows)))
                .collect();
            stop.check()?;
            let result = measure(options, stop, &matches, family, flows, book);
            book.tried(stop, result)?;
        }
    }
    Ok(())
}

fn measure(
    options: &Options,
    stop: &Stop,
    matches: &[&Match],
    family: Family,
    flows: u32,
    book: &mut Book,
) -> Result<()> {
    if matches.is_empty() {
        return Ok(());
    }
    // What receiving and sending take by themselves.
    let mut all = vec![Who::Redirect];
    for one in matches {
        for who in one.peers.iter().chain([&one.ours]) {
            if !all.contains(who) {
                all.push(*who);
            }
        }
    }
    let time = Duration::from_millis(if options.quick { 200 } else { 400 });
    let mut shown: Vec<(Who, Vec<Shown>)> = Vec::new();
    let mut devices = Vec::new();
    for who in all {
        stop.check()?;
        let device = Device::new(options, who, family, flows)
            .with_context(|| format!("{} cannot be set up", who.title()))?;
        devices.push(device);
        shown.push((who, Vec::new()));
    }
    for _ in 0..options.rounds() {
        for (device, (who, rounds)) in devices.iter().zip(&mut shown) {
            stop.check()?;
            let one = device
                .run(options, time)
                .with_context(|| format!("{} cannot be measured", who.title()))?;
            rounds.push(one);
        }
    }
    for one in matches {
        book.row(row(one, family, flows, &shown));
    }
    Ok(())
}

fn row(one: &Match, family: Family, flows: u32, shown: &[(Who, Vec<Shown>)]) -> Row {
    let of = |who: Who| {
        let found = shown.iter().find(|(shown, _)| *shown == who);
        found.map_or(&[][..], |(_, rounds)| rounds.as_slice())
    };
    let mut notes = Vec::new();
    let mut series = |who: Who| {
        let rounds = of(who);
        let middle = |value: fn(&Shown) -> f64| median(rounds.iter().map(value).collect());
        let (delivered, busy) = (middle(|one| one.delivered), middle(|one| one.busy));
        if delivered < 0.98 {
            notes.push(format!(
                "{}: {:.0} % came out",
                who.title(),
                delivered * 100.0
            ));
        }
        // Then it slept and was woken, which takes time too.
        if busy < 0.9 {
            notes.push(format!("{}: {:.0} % busy", who.title(), busy * 100.0));
        }
        Series {
            name: who.title().to_owned(),
            rounds: rounds.iter().map(|one| one.nanos).collect(),
            rates: rounds.iter().map(|one| one.rate).collect(),
        }
    };
    let ours = series(one.ours);
    let peers = one.peers.iter().map(|who| series(*who)).collect();
    let floor = median(of(Who::Redirect).iter().map(|one| one.nanos).collect());
    let many = if flows == 1 { "1 flow" } else { "10 k flows" };
    Row {
        part: Part::Forward,
        name: name(one, family, flows),
        title: format!("{} {}, {many}", family.name(), ours.name),
        unit: "ns",
        ours,
        peers,
        goal: one.goal.map(Goal::Times),
        floor,
        note: notes.join("; "),
    }
}
