//! New connections a second: a handshake, a request, a response of 1 KB, and both ends close. The highest rate at which none fails,
//! found by halving, then held for a minute.

use crate::acted::{Acting, PORTS};
use crate::instance::{Shape, count};
use crate::row::{Book, Goal, Part, Row, Series};
use crate::world::Family;
use crate::{Options, Stop};
use anyhow::{Context, Result};
use fastpath::abi::{FORWARD_OFF, Reason, Way};
use std::time::{Duration, Instant};
use traffic::packet::Act;

/// What the article's appliance set up a second, all of it.
const GOAL: f64 = 869_183.0;

/// Below and above this no rate is looked for.
const LOWEST: f64 = 10_000.0;
const HIGHEST: f64 = 1_000_000.0;

/// What sets them up.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    title: &'static str,
    family: Family,
    way: Option<Way>,
}

const CASES: [Case; 2] = [
    Case {
        name: "setup-nat-v4",
        title: "v4 to a virtual, NAT",
        family: Family::V4,
        way: Some(Way::Translate),
    },
    Case {
        name: "setup-nat-v6",
        title: "v6 to a virtual, NAT",
        family: Family::V6,
        way: Some(Way::Translate),
    },
];

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(|case| case.name.to_owned()).collect()
}

/// Measures what the options want, and says each row as it is done.
pub(crate) fn run(options: &Options, stop: &Stop, book: &mut Book) -> Result<()> {
    for case in CASES {
        if options.wants(case.name) {
            stop.check()?;
            let result = measure(options, stop, case)
                .map(|row| book.row(row))
                .with_context(|| format!("{} cannot be measured", case.name));
            book.tried(stop, result)?;
        }
    }
    Ok(())
}

/// One try at a rate.
#[derive(Clone, Copy, Debug, Default)]
struct Try {
    rate: f64,
    failed: u64,
    /// Of a core, what the device took.
    device: f64,
    /// And everything on the other core: generator and both ends.
    others: f64,
}

fn measure(options: &Options, stop: &Stop, case: Case) -> Result<Row> {
    let (short, long) = if options.quick {
        (1.0, 5.0)
    } else {
        (2.0, 60.0)
    };
    let mut shape = Shape {
        // Closed connections stay for ten seconds.
        flows4: 16_000_000,
        flows6: 1024,
        half_open: 1 << 20,
        virtual_server: case.way,
        ends: true,
        ..Shape::default()
    };
    if case.family == Family::V6 {
        (shape.flows4, shape.flows6) = (shape.flows6, shape.flows4);
    }
    if case.way.is_some() {
        shape.forward = FORWARD_OFF;
    }
    let acting = Acting::new(options, case.family, &shape, false)?;
    let mut next = 0;
    let mut at = |rate: f64, seconds: f64| -> Result<Try> {
        stop.check()?;
        attempt(options, stop, &acting, &mut next, rate, seconds)
    };
    // The caches are warm then, and the slots have been used.
    at(LOWEST, short)?;
    let (mut low, mut high) = (LOWEST, HIGHEST);
    while high / low > 1.05 {
        let rate = (low * high).sqrt();
        // A rate has two chances: something else may have run on one of the cores.
        if at(rate, short)?.failed == 0 || at(rate, short)?.failed == 0 {
            low = rate;
        } else {
            high = rate;
        }
    }
    let mut held = at(low, long)?;
    let mut tries = 1;
    while held.failed > 0 && tries < 3 {
        low *= 0.9;
        held = at(low, long)?;
        tries += 1;
    }
    let counts = acting.counts()?;
    let note = if held.failed > 0 {
        format!("{} failed in the last try", held.failed)
    } else {
        String::new()
    };
    let per_core = if held.device > 0.0 {
        held.rate / held.device
    } else {
        0.0
    };
    Ok(Row {
        part: Part::Setup,
        name: case.name.to_owned(),
        title: format!("{}, none failed for {long:.0} s", case.title),
        unit: "connections/s",
        ours: Series::fixed("Headgate", if held.failed == 0 { held.rate } else { 0.0 }),
        peers: vec![
            Series::fixed("F5 10200v, as published", GOAL),
            Series::fixed("a second of the device's core", per_core),
        ],
        goal: Some(Goal::Least(GOAL)),
        floor: 0.0,
        note: [
            format!(
                "the device took {:.0} % of its core, generator and both ends {:.0} % of the other; two cores of the device \
                 alone would set up {:.0} a second; {} flows not entered",
                held.device * 100.0,
                held.others * 100.0,
                per_core * 2.0,
                count(&counts, Reason::FlowNotPromoted) + count(&counts, Reason::DropTableFull)
            ),
            note,
        ]
        .join("; ")
        .trim_end_matches("; ")
        .to_owned(),
    })
}

fn attempt(
    options: &Options,
    stop: &Stop,
    acting: &Acting,
    next: &mut u64,
    rate: f64,
    seconds: f64,
) -> Result<Try> {
    let all = 4096 * u64::from(PORTS);
    let count = (rate * seconds) as u64;
    if *next + count > all {
        *next = 0;
    }
    let before = acting.acted()?.0.closed;
    let (device, others) = (acting.device_ran()?, busy(options.other_core())?);
    let start = Instant::now();
    let sent = acting.send(options, Act::Syn, *next, count, rate)?;
    let took = start.elapsed();
    let (device_after, others_after) = (acting.device_ran()?, busy(options.other_core())?);
    *next += count;
    let closed = acting.settle(stop, before + sent, |acted| acted.closed)? - before;
    let share = |spent: Duration| spent.as_secs_f64() / took.as_secs_f64();
    Ok(Try {
        rate: sent as f64 / took.as_secs_f64(),
        failed: sent.saturating_sub(closed),
        device: share(Duration::from_nanos(device_after - device)),
        others: share(others_after.saturating_sub(others)),
    })
}

/// For how long a core has worked.
fn busy(core: usize) -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let name = format!("cpu{core} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    let ticks: Vec<u64> = line
        .context("the kernel says nothing of a core")?
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    // All but idle and waiting; guests' time is in the user's already. A hundredth of a second each.
    let worked =
        ticks.iter().take(8).sum::<u64>() - ticks.get(3).unwrap_or(&0) - ticks.get(4).unwrap_or(&0);
    Ok(Duration::from_millis(worked * 10))
}
