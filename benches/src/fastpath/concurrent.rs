//! As many connections at once as the appliance of the article held, each established by a handshake and asked again after a minute.

use crate::acted::{Acting, PORTS};
use crate::instance::{Shape, count, said};
use crate::meter::{Meter, Packets, XDP_REDIRECT};
use crate::row::{Book, Goal, Part, Row, Series};
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

/// Measures what the options want, and says each row as it is done. While some connections are held the next are established.
pub(crate) fn run(options: &Options, stop: &Stop, book: &mut Book) -> Result<()> {
    let mut held: Option<Held> = None;
    for case in CASES {
        if !options.wants(case.name) {
            continue;
        }
        stop.check()?;
        let next = Held::begin(options, stop, case);
        let failed = |case: Case| move || format!("{} cannot be measured", case.name);
        if let Some(before) = held.take() {
            let name = failed(before.case);
            let result = before.end(options, stop, book).with_context(name);
            book.tried(stop, result)?;
        }
        let result = next
            .with_context(failed(case))
            .map(|next| held = Some(next));
        book.tried(stop, result)?;
    }
    if let Some(last) = held {
        let name = last.case.name;
        let result = last
            .end(options, stop, book)
            .with_context(|| format!("{name} cannot be measured"));
        book.tried(stop, result)?;
    }
    Ok(())
}

/// Connections that are established.
struct Held {
    case: Case,
    acting: Acting,
    many: u64,
    /// How many there were at first.
    begun: u64,
    since: Instant,
    took: Duration,
    resent: u64,
}

impl Held {
    fn begin(options: &Options, stop: &Stop, case: Case) -> Result<Self> {
        let many = if options.quick { FEWER } else { MANY };
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
        let begun = acting.instance.flows(case.family)?.all(State::Established);
        Ok(Self {
            case,
            acting,
            many,
            begun,
            since: Instant::now(),
            took,
            resent,
        })
    }

    fn end(self, options: &Options, stop: &Stop, book: &mut Book) -> Result<()> {
        let Self {
            case, acting, many, ..
        } = self;
        let hold = Duration::from_secs(if options.quick { 5 } else { 60 });
        while self.since.elapsed() < hold {
            stop.check()?;
            thread::sleep(Duration::from_millis(100));
        }
        let lasted = self.since.elapsed();
        let left = acting.instance.flows(case.family)?.all(State::Established);
        let (asked, alive) = ask(options, stop, &acting, many)?;
        let memory = acting.instance.memory()? as f64;
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
            &format!("held for {} s", lasted.as_secs()),
            left.min(self.begun) as f64,
            Goal::Least(many as f64),
            format!(
                "{:.0} s to establish, {:.0} a second; {} first segments sent in tries that lost some; {refused} flows refused \
                 or pushed out; of {asked} asked at the end {alive} answered",
                self.took.as_secs_f64(),
                many as f64 / self.took.as_secs_f64(),
                self.resent
            ),
        ));
        let gibibytes = memory / f64::from(1 << 30);
        book.row(row(
            "GiB",
            "memory of all tables",
            gibibytes,
            Goal::Most(case.memory),
            format!("{:.0} bytes a connection", memory / many as f64),
        ));
        book.row(cost(options, stop, case, &acting, many)?);
        Ok(())
    }
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
    let flows = acting.instance.flows(family)?;
    let established =
        |first: u64, last: u64| flows.count(State::Established, first as usize..last as usize);
    let mut rate = 400_000.0;
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
            let now = before + established(first, done + chunk + AROUND);
            if now >= done + chunk {
                if tries == 0 {
                    rate = f64::min(rate * 1.1, 1_000_000.0);
                }
                break;
            }
            rate = f64::max(rate * 0.85, 80_000.0);
            resent += chunk;
            tries += 1;
            if tries > 40 {
                bail!(
                    "of {} connections {now} are established: {}",
                    done + chunk,
                    said(&counts, &acting.counts()?)
                );
            }
        }
        done += chunk;
        let next = done.saturating_sub(AROUND);
        before += established(first, next);
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
        for _ in 0..12 {
            let before = acting.acted()?.0.alive;
            acting.send(options, Act::KeepAlive, skip, EACH, 20_000.0)?;
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
