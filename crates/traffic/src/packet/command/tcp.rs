//! `headgate gen tcp`: TCP connections acted out, to see how many can be set up a second, and how many can be held.

use super::frames::{Amount, Ends, Tuples};
use super::numbers::{parse_count, parse_time, short};
use super::progress::{Growth, settle, watch};
use crate::http::Stop;
use crate::packet::tcp::{Acted, Actor, End, RESPONSE};
use crate::packet::{Act, Done, Generator, PacketError, Place, Plan, Protocol, Stream, What};
use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};
use xdp::attach::Wanted;

/// In how many places of all connections a sample is taken.
const STRETCHES: u64 = 8;

/// Connections to act.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "tcp")]
pub struct TcpArgs {
    /// Where SYNs leave and arrive; without a peer, a true server must answer.
    #[command(flatten)]
    pub ends: Ends,
    /// From whom to whom.
    #[command(flatten)]
    pub tuples: Tuples,
    /// How many.
    #[command(flatten)]
    pub amount: Amount,
    /// Start connections for so long [default: 10s, or until --count are started]
    #[arg(short, long, value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Complete handshakes and hold the connections for so long, instead of going on with request, response and end
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    pub hold: Option<Duration>,
    /// How many of the connections held are asked in the end whether they live
    #[arg(long, default_value = "100k", value_parser = parse_count, value_name = "COUNT", requires = "hold")]
    pub sample: u64,
    /// Bytes of a response with its head
    #[arg(long, default_value_t = RESPONSE, value_parser = clap::value_parser!(u16).range(64..=1448))]
    pub response: u16,
    /// How long to wait for the last answers
    #[arg(long, default_value = "2s", value_parser = parse_time, value_name = "TIME")]
    pub grace: Duration,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Acts connections out and tells how they went.
pub fn tcp(args: &TcpArgs, stop: &Stop) -> Result<TcpReport, PacketError> {
    let mut trial = Trial::new(args)?;
    let mut time = args.time;
    if time.is_none() && args.amount.count.is_none() {
        time = Some(Duration::from_secs(10));
    }
    let mut report = trial.connect(args.amount.rate, args.amount.count, time, stop, true)?;
    let Some(hold) = args.hold else {
        return Ok(report);
    };
    let start = Instant::now();
    watch(
        stop,
        Some(hold),
        || Ok::<_, PacketError>(false),
        |_| {
            let left = hold.saturating_sub(start.elapsed()).as_secs_f64();
            Ok(format!(
                "holding {} connections, {left:.0} s to go",
                report.established
            ))
        },
    )?;
    report.held_seconds = Some(start.elapsed().as_secs_f64());
    let (asked, alive) = trial.sample(report.started, args, stop)?;
    report.asked = Some(asked);
    report.alive = Some(alive);
    let now = trial.client.acted()?;
    report.resets = now.resets;
    report.client = now;
    report.server = trial.server_acted()?;
    Ok(report)
}

/// How connections went.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TcpReport {
    /// How long connections were started.
    pub seconds: f64,
    /// Connections started: SYNs sent.
    pub started: u64,
    /// The same a second.
    pub started_per_second: f64,
    /// SYNs that the interface had no room for.
    pub refused: u64,
    /// Connections whose SYN was answered.
    pub established: u64,
    /// Connections ended by both sides, after request and response; of those held, none.
    pub completed: u64,
    /// Connections that did not come as far as they should: established or, if they are not held, completed.
    pub failed: u64,
    /// Connections reset by the other side.
    pub resets: u64,
    /// How long connections were held.
    pub held_seconds: Option<f64>,
    /// Connections asked in the end whether they live.
    pub asked: Option<u64>,
    /// Of those, how many answered.
    pub alive: Option<u64>,
    /// What the client saw.
    pub client: Acted,
    /// What the server saw, if it was acted.
    pub server: Option<Acted>,
}

impl TcpReport {
    fn of(done: &Done, client: Acted, server: Option<Acted>, held: bool) -> Self {
        let seconds = done.took.as_secs_f64();
        let started = done.sent.frames;
        let done_well = if held {
            client.established
        } else {
            client.closed
        };
        Self {
            seconds,
            started,
            started_per_second: started as f64 / seconds.max(1e-9),
            refused: done.sent.refused,
            established: client.established,
            completed: client.closed,
            failed: started.saturating_sub(done_well),
            resets: client.resets,
            client,
            server,
            ..Self::default()
        }
    }
}

impl fmt::Display for TcpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "started      {} connections in {:.2} s, {}/s",
            self.started,
            self.seconds,
            short(self.started_per_second)
        )?;
        writeln!(f, "established  {}", self.established)?;
        if self.held_seconds.is_none() {
            writeln!(f, "completed    {}", self.completed)?;
        }
        write!(
            f,
            "failed       {} ({} resets, {} SYNs refused by the interface, {} segments of no connection)",
            self.failed, self.resets, self.refused, self.client.strange
        )?;
        if let (Some(seconds), Some(asked), Some(alive)) =
            (self.held_seconds, self.asked, self.alive)
        {
            write!(
                f,
                "\nheld         for {seconds:.1} s; of {asked} asked then, {alive} live"
            )?;
        }
        if let Some(server) = &self.server {
            write!(
                f,
                "\nserver       {} SYNs, {} handshakes completed, {} requests, {} FINs, {} ends",
                server.syns,
                server.accepted + server.requests,
                server.requests,
                server.fins,
                server.ends
            )?;
        }
        Ok(())
    }
}

/// Both ends, over one or more rounds of connections.
pub(super) struct Trial {
    from: Place,
    stream: Stream,
    cores: Vec<usize>,
    batch: u32,
    held: bool,
    grace: Duration,
    client: Actor,
    server: Option<Actor>,
}

impl Trial {
    pub(super) fn new(args: &TcpArgs) -> Result<Self, PacketError> {
        let from = args.ends.place();
        let mut stream = args.tuples.stream(&from)?;
        if args.tuples.sport.is_none() {
            stream.source_ports = "1024-65535".parse()?;
        }
        if args.tuples.dport.is_none() {
            stream.destination_ports = 80.into();
        }
        let held = args.hold.is_some();
        if held
            && let Some(count) = args.amount.count
            && count > stream.flows()
        {
            return Err(PacketError::Usage(format!(
                "--hold of {count} connections, but addresses and ports make up only {}; widen --src, --dst, --sport or --dport",
                stream.flows()
            )));
        }
        let server = match args.ends.peer() {
            None => None,
            Some(peer) => {
                let response = args.response;
                Some(Actor::attach(
                    &peer,
                    End::Server { response },
                    Wanted::Auto,
                )?)
            }
        };
        Ok(Self {
            client: Actor::attach(&from, End::Client { hold: held }, Wanted::Auto)?,
            server,
            from,
            stream,
            cores: args.ends.cores(),
            batch: args.ends.batch,
            held,
            grace: args.grace,
        })
    }

    /// Starts connections and waits until they are done, or not.
    pub(super) fn connect(
        &mut self,
        rate: Option<f64>,
        count: Option<u64>,
        time: Option<Duration>,
        stop: &Stop,
        tell: bool,
    ) -> Result<TcpReport, PacketError> {
        let before = self.client.acted()?;
        let server_before = self.server_acted()?;
        let generator = Generator::start(&Plan {
            rate,
            count,
            time,
            ..self.plan(self.act(Act::Syn))
        })?;
        let held = self.held;
        let done_well = |acted: &Acted| {
            if held {
                acted.established
            } else {
                acted.closed
            }
        };
        let mut last = [Growth::default(), Growth::default()];
        watch(
            stop,
            None,
            || Ok(generator.is_finished()),
            |second| {
                if !tell {
                    return Ok(String::new());
                }
                let now = self.client.acted()?.since(&before);
                let sent = generator.sent().frames;
                Ok::<_, PacketError>(format!(
                    "started {sent}, {}/s; {} {}, {}/s; resets {}",
                    short(last[0].rate(sent, second)),
                    if held { "established" } else { "completed" },
                    done_well(&now),
                    short(last[1].rate(done_well(&now), second)),
                    now.resets
                ))
            },
        )?;
        generator.stop();
        let done = generator.join()?;
        settle(self.grace, done.sent.frames, || {
            let now = self.client.acted()?.since(&before);
            Ok::<_, PacketError>(done_well(&now) + now.resets)
        })?;
        // The next round goes on where this one stopped, so that no connection is there twice.
        let threads = self.cores.len().max(1) as u64;
        self.stream.skip += done.sent.frames.div_ceil(threads);
        let client = self.client.acted()?.since(&before);
        let server = self
            .server_acted()?
            .zip(server_before)
            .map(|(now, before)| now.since(&before));
        Ok(TcpReport::of(&done, client, server, held))
    }

    /// Asks connections, of those that were started first, whether they live: how many were asked, and how many do.
    fn sample(&self, started: u64, args: &TcpArgs, stop: &Stop) -> Result<(u64, u64), PacketError> {
        let before = self.client.acted()?.alive;
        let threads = self.cores.len().max(1) as u64;
        // What every thread has started for certain.
        let each = started / threads;
        let sample = args.sample.min(each * threads) / threads;
        let mut asked = 0;
        for stretch in 0..STRETCHES {
            let from = u128::from(each) * u128::from(stretch) / u128::from(STRETCHES);
            let count = sample * (stretch + 1) / STRETCHES - sample * stretch / STRETCHES;
            if count == 0 || stop.is_stopped() {
                continue;
            }
            let mut stream = self.act(Act::KeepAlive);
            stream.skip = from as u64;
            let done = Generator::start(&Plan {
                count: Some(count * threads),
                rate: Some(args.amount.rate.unwrap_or(100_000.0).min(100_000.0)),
                ..self.plan(stream)
            })?
            .join()?;
            asked += done.sent.frames;
        }
        settle(self.grace, asked, || {
            Ok::<_, PacketError>(self.client.acted()?.alive - before)
        })?;
        Ok((asked, self.client.acted()?.alive - before))
    }

    fn act(&self, act: Act) -> Stream {
        Stream {
            protocol: Protocol::Act(act),
            ..self.stream.clone()
        }
    }

    fn plan(&self, stream: Stream) -> Plan {
        Plan {
            cores: self.cores.clone(),
            batch: self.batch,
            ..Plan::new(self.from.clone(), What::Stream(stream))
        }
    }

    fn server_acted(&self) -> Result<Option<Acted>, PacketError> {
        self.server.as_ref().map(Actor::acted).transpose()
    }
}
