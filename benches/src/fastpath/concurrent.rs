//! As many connections at once as the appliance of the article held, each established by a handshake and asked again after a minute.

use crate::acted::{Acting, PORTS};
use crate::instance::{Shape, count, said};
use crate::meter::{Meter, Packets, XDP_REDIRECT};
use crate::row::Book;
use crate::row::{Goal, Part, Row, Series};
use crate::world::Family;
use crate::{Options, Stop};
use anyhow::{Context, Result, bail};
use fastpath::abi::{FORWARD_OFF, Reason, State, Way};
use std::thread;
use std::time::{Duration, Instant};
use traffic::packet::Act;

/// As many as the article's appliance held for a minute.
const MANY: u64 = 36_000_291;
/// The same for a first look.
const FEWER: u64 = 1_000_291;

/// Connections begun before anybody looks whether all are there.
const CHUNK: u64 = 250_000;

/// What holds them.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    title: &'static str,
    family: Family,
    way: Option<Way>,
    /// GiB that the tables may take.
    memory: f64,
}

const CASES: [Case; 4] = [
    Case {
        name: "concurrent-tracked-v4",
        title: "v4 forwarded, tracked",
        family: Family::V4,
        way: None,
        memory: 4.0,
    },
    Case {
        name: "concurrent-tracked-v6",
        title: "v6 forwarded, tracked",
        family: Family::V6,
        way: None,
        memory: 6.0,
    },
    Case {
        name: "concurrent-nat-v4",
        title: "v4 to a virtual, NAT",
        family: Family::V4,
        way: Some(Way::Translate),
        memory: 4.0,
    },
    Case {
        name: "concurrent-nat-v6",
        title: "v6 to a virtual, NAT",
        family: Family::V6,
        way: Some(Way::Translate),
        memory: 6.0,
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
            let result = measure(options, stop, case, book)
                .with_context(|| format!("{} cannot be measured", case.name));
            book.tried(stop, result)?;
        }
    }
    Ok(())
}

fn measure(options: &Options, stop: &Stop, case: Case, book: &mut Book) -> Result<()> {
    let many = if options.quick { FEWER } else { MANY };
    let hold = Duration::from_secs(if options.quick { 5 } else { 60 });
    // Each core keeps a few free slots to itself.
    let room = many as u32 + 4096;
    let mut shape = Shape {
        flows4: 1024,
        flows6: 1024,
        half_open: 262_144,
        virtual_server: case.way,
        ..Shape::default()
    };
    match case.family {
        Family::V4 => shape.flows4 = room,
        Family::V6 => shape.flows6 = room,
    }
    if case.way.is_some() {
        shape.forward = FORWARD_OFF;
    }
    let acting = Acting::new(options, case.family, &shape, true)?;
    let start = Instant::now();
    let resent = establish(options, stop, &acting, case.family, many)?;
    let took = start.elapsed();
    let begun = acting.instance.flows(case.family, State::Established)?;
    wait(stop, hold)?;
    let held = acting.instance.flows(case.family, State::Established)?;
    let (asked, alive) = ask(options, stop, &acting, many)?;
    let memory = acting.instance.memory()? as f64 / f64::from(1 << 30);
    let counts = acting.counts()?;
    let refused = count(&counts, Reason::FlowNotPromoted) + count(&counts, Reason::FlowEvicted);
    let row = |unit, what: &str, figure, goal, note| Row {
        part: Part::Concurrent,
        name: format!("{}-{unit}", case.name),
        title: format!("{}: {what}", case.title),
        unit,
        ours: Series::fixed("Headgate", figure),
        peers: Vec::new(),
        goal: Some(goal),
        floor: 0.0,
        note,
    };
    book.row(row(
        "connections",
        &format!("established for {} s", hold.as_secs()),
        held.min(begun) as f64,
        Goal::Least(many as f64),
        format!(
            "{:.0} s to build up, {:.0} a second; {resent} first segments sent again; {refused} flows refused or pushed out; \
             of {asked} asked at the end {alive} answered",
            took.as_secs_f64(),
            many as f64 / took.as_secs_f64()
        ),
    ));
    book.row(row(
        "GiB",
        "memory of all tables",
        memory,
        Goal::Most(case.memory),
        format!(
            "{:.0} bytes a connection",
            memory * f64::from(1 << 30) / many as f64
        ),
    ));
    book.row(cost(options, stop, case, &acting, many)?);
    Ok(())
}

/// Establishes the connections chunk by chunk, as fast as goes without loss; what is lost is sent again, as a client would. How many
/// first segments were sent more than once.
fn establish(
    options: &Options,
    stop: &Stop,
    acting: &Acting,
    family: Family,
    many: u64,
) -> Result<u64> {
    // Slots are given out in order, but for those that cores keep to themselves.
    const AROUND: u64 = 8192;
    let established = |first: u64, last: u64| {
        let slots = first as usize..last as usize;
        acting.instance.flows_in(family, State::Established, slots)
    };
    let mut rate = 300_000.0;
    let (mut resent, mut done) = (0, 0);
    // All before a slot, and that slot.
    let (mut before, mut first) = (0, 0);
    while done < many {
        let chunk = CHUNK.min(many - done);
        let mut tries = 0;
        loop {
            stop.check()?;
            let counts = acting.counts()?;
            let seen = acting.acted()?.0.established;
            acting.send(options, Act::Syn, done, chunk, rate)?;
            acting.settle(stop, seen + chunk, |acted| acted.established)?;
            // The last acknowledgements may be under way still.
            thread::sleep(Duration::from_millis(5));
            let now = before + established(first, done + chunk + AROUND)?;
            if now >= done + chunk {
                if tries == 0 {
                    rate = f64::min(rate * 1.05, 1_000_000.0);
                }
                break;
            }
            rate = f64::max(rate * 0.8, 20_000.0);
            resent += chunk;
            tries += 1;
            if tries > 20 {
                bail!(
                    "of {} connections {now} are established: {}",
                    done + chunk,
                    said(&counts, &acting.counts()?)
                );
            }
        }
        done += chunk;
        let next = done.saturating_sub(AROUND);
        before += established(first, next)?;
        first = next;
    }
    Ok(resent)
}

/// Sends a keep-alive in some of the connections, from the first to the last; again where one or its answer was lost. How many
/// connections, and how many answered.
fn ask(options: &Options, stop: &Stop, acting: &Acting, many: u64) -> Result<(u64, u64)> {
    const SAMPLES: u64 = 20;
    const EACH: u64 = 5000;
    let mut alive = 0;
    for sample in 0..SAMPLES {
        let skip = (many - EACH) / (SAMPLES - 1) * sample;
        let mut most = 0;
        for _ in 0..5 {
            let before = acting.acted()?.0.alive;
            acting.send(options, Act::KeepAlive, skip, EACH, 50_000.0)?;
            let seen = acting.settle(stop, before + EACH, |acted| acted.alive)? - before;
            most = most.max(seen);
            if most >= EACH {
                break;
            }
        }
        alive += most;
    }
    Ok((SAMPLES * EACH, alive))
}

/// Nanoseconds a packet of a random one of them.
fn cost(options: &Options, stop: &Stop, case: Case, acting: &Acting, many: u64) -> Result<Row> {
    let (family, instance) = (case.family, &acting.instance);
    let clients = (many / u64::from(PORTS)).max(1) as u32;
    // A power of two: all but the last few.
    let clients = 1 << clients.ilog2();
    let flows = clients * PORTS;
    let to = if case.way.is_some() {
        family.virtual_server()
    } else {
        family.targets()
    };
    let packets = Packets {
        sources: clients,
        ..Packets::new(family, to, 1, flows)
    };
    let runs = 2_000_000;
    let before = acting.counts()?;
    let ours = acting.world.device.run(|| -> Result<Series> {
        xdp::netns::pin_to_core(0, options.core())?;
        let meter = Meter::load(xdp::interface::ifindex(&acting.world.inward())?, 1)?;
        let mut ours = Series::new("Headgate");
        for round in 0..=options.rounds() {
            stop.check()?;
            let nothing = meter.run_nothing(&packets, runs)?;
            let all = meter.run(instance.program()?, &packets, runs, XDP_REDIRECT)?;
            if round > 0 {
                ours.rounds.push(all - nothing);
            }
        }
        Ok(ours)
    })?;
    let after = acting.counts()?;
    let of = |reason| count(&after, reason) - count(&before, reason);
    let total = u64::from(runs) * (options.rounds() as u64 + 1);
    Ok(Row {
        part: Part::Cost,
        name: case.name.replace("concurrent", "cost-many"),
        title: format!(
            "{}, flow known, {:.0} M of {:.0} M flows",
            case.title,
            f64::from(flows) / 1e6,
            many as f64 / 1e6
        ),
        unit: "ns",
        ours,
        peers: Vec::new(),
        goal: None,
        floor: 0.0,
        note: format!(
            "{:.0} % of a known flow, {:.0} % of the next hops looked up again",
            of(Reason::ForwardFlow) as f64 / total as f64 * 100.0,
            of(Reason::HopRefreshed) as f64 / total as f64 * 100.0
        ),
    })
}

fn wait(stop: &Stop, time: Duration) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < time {
        stop.check()?;
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
