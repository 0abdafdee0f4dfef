//! The load: so many connections, each with one request under way at any time, for so long; bodies are dropped inside the
//! kernel. Measures how many were answered and how fast, and what other processes and the cores spent meanwhile.

mod connection;
mod report;
mod requests;
mod response;
mod tls;

pub use report::{Latency, Report};

use super::sys::{self, Epoll};
use super::target::Target;
use super::watch::{Cores, Tree};
use super::{Error, Histogram, Stop};
use connection::{Connection, Exchange, Outcome, Shared};
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to ask, of whom, how often.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "load")]
pub struct Args {
    /// What to get: http://host:port/path or https://…
    pub url: String,
    /// Connections open at any time
    #[arg(short, long, default_value_t = 64)]
    pub connections: usize,
    /// How long to measure, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 5.0)]
    pub duration: f64,
    /// How long to go on before measuring, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    pub warm_up: f64,
    /// End after this many answers, if that is sooner
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub requests: Option<u64>,
    /// What each connection is for
    #[arg(short, long, value_enum, default_value_t = Mode::KeepAlive)]
    pub mode: Mode,
    /// Number of source addresses, 127.0.0.1 and on, that connections are spread over (loopback only; 0: let the kernel choose)
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub sources: u8,
    /// File with a request a line, asked in turn instead of what stands in the URL: a path, and behind a space the value of a
    /// Cookie field, if any
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Host to ask for, and server name over TLS, instead of what stands in the URL
    #[arg(long)]
    pub host: Option<String>,
    /// Process whose processor time (with that of its descendants) is measured too
    #[arg(long, value_name = "PID")]
    pub watch: Option<u32>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// One request after the other
    KeepAlive,
    /// One request, then a new connection
    Close,
    /// A full TLS 1.3 handshake, then a new connection
    Handshake,
    /// One request, then held open until the end
    Idle,
}

/// A target that fails this often without answering once is given up.
const HOPELESS: u64 = 2000;

/// Put the load on the target until its time is over or `stop` says so. `Idle` prints the line `ready` once all connections
/// are open.
///
/// # Errors
/// If the target cannot be understood, never answers, or the event loop fails.
pub fn run(args: &Args, stop: &Stop) -> Result<Report, Error> {
    let target = Target::parse(&args.url)?;
    let shared = Shared::new(args, &target)?;
    let mut load = Load::new(args, shared)?;
    load.run(args, &target, stop)
}

/// A load under way.
struct Load {
    epoll: Epoll,
    shared: Shared,
    connections: Vec<Connection>,
    /// Connections to be opened again a little later.
    failed: Vec<usize>,
    started: Instant,
    counts: Counts,
    total: Counts,
    held: usize,
    reasons: HashMap<String, u64>,
}

/// What happened in the measured time.
#[derive(Clone, Debug, Default)]
struct Counts {
    answers: u64,
    bytes: u64,
    other_status: u64,
    errors: u64,
    latency: Histogram,
}

impl Load {
    fn new(args: &Args, shared: Shared) -> Result<Self, Error> {
        Ok(Self {
            epoll: Epoll::new(args.connections.clamp(64, 1024))?,
            shared,
            connections: Vec::with_capacity(args.connections),
            failed: Vec::new(),
            started: Instant::now(),
            counts: Counts::default(),
            total: Counts::default(),
            held: 0,
            reasons: HashMap::new(),
        })
    }

    fn run(&mut self, args: &Args, target: &Target, stop: &Stop) -> Result<Report, Error> {
        let warm_up = Duration::from_secs_f64(args.warm_up.max(0.0));
        let end = warm_up + Duration::from_secs_f64(args.duration.max(0.0));
        let most = args.requests.unwrap_or(u64::MAX);
        let tree = args.watch.map(Tree::of);
        let mut window: Option<Window> = None;
        let mut announced = false;
        self.started = Instant::now();
        loop {
            self.open_more(args);
            let n = self
                .epoll
                .wait(if self.failed.is_empty() { 20 } else { 1 })?;
            let now = self.started.elapsed();
            if window.is_none() && now >= warm_up {
                window = Some(Window::open(tree.as_ref()));
                self.counts = Counts::default();
            }
            for index in 0..n {
                let event = self.epoll.event(index);
                let slot = usize::try_from(event.token).unwrap_or(usize::MAX);
                let Some(connection) = self.connections.get_mut(slot) else {
                    continue;
                };
                let outcome = connection.ready(event, &mut self.shared, self.started);
                self.settle(slot, outcome);
            }
            if self.total.errors >= HOPELESS && self.total.answers == 0 {
                let why = self.reasons.keys().next().cloned().unwrap_or_default();
                return Err(Error::Unreachable {
                    target: target.address,
                    failed: self.total.errors,
                    why,
                });
            }
            if args.mode == Mode::Idle && !announced && self.held >= args.connections {
                announced = true;
                println!("ready");
                let _ = std::io::stdout().flush();
            }
            if now >= end
                || self.total.answers >= most && args.mode != Mode::Idle
                || stop.is_stopped()
            {
                let window = window.unwrap_or_else(|| Window::open(tree.as_ref()));
                return Ok(window.close(args, &self.counts, &self.reasons, tree.as_ref()));
            }
        }
    }

    /// Open what is still missing, a few at a time while the first ones come up, and what has failed.
    fn open_more(&mut self, args: &Args) {
        let opening = self.connections.len() - self.held.min(self.connections.len());
        let batch = match args.mode {
            Mode::Idle => 64_usize.saturating_sub(opening),
            _ => 64,
        };
        for _ in 0..batch.min(args.connections - self.connections.len()) {
            let slot = self.connections.len();
            self.connections.push(Connection::new(slot));
            self.open(slot);
        }
        for slot in std::mem::take(&mut self.failed) {
            self.open(slot);
        }
    }

    fn open(&mut self, slot: usize) {
        let outcome = self.connections[slot].open(&mut self.shared, &self.epoll, self.started);
        self.settle(slot, outcome);
    }

    /// Count what a connection has done, and open it again if it is over.
    fn settle(&mut self, slot: usize, outcome: Outcome) {
        if let Some(exchange) = outcome.exchange {
            self.counts.add(exchange);
            self.total.answers += 1;
            self.held += 1;
        }
        match outcome.ended {
            None => {}
            Some(Ok(())) => self.open(slot),
            Some(Err(why)) => {
                self.counts.errors += 1;
                self.total.errors += 1;
                *self.reasons.entry(why).or_default() += 1;
                self.failed.push(slot);
            }
        }
    }
}

impl Counts {
    fn add(&mut self, exchange: Exchange) {
        self.answers += 1;
        self.bytes += exchange.bytes;
        self.other_status += u64::from(exchange.status != 200);
        self.latency.record(exchange.nanoseconds);
    }
}

/// The measured time and what was read at its beginning.
struct Window {
    opened: Instant,
    own: u64,
    watched: Option<u64>,
    cores: Cores,
}

impl Window {
    fn open(tree: Option<&Tree>) -> Self {
        Self {
            cores: Cores::now(),
            own: sys::own_cpu(),
            watched: tree.map(Tree::cpu),
            opened: Instant::now(),
        }
    }

    fn close(
        self,
        args: &Args,
        counts: &Counts,
        reasons: &HashMap<String, u64>,
        tree: Option<&Tree>,
    ) -> Report {
        let seconds = self.opened.elapsed().as_secs_f64();
        let watched = tree.map(Tree::cpu);
        let own = sys::own_cpu() - self.own;
        let cores = Cores::now().busy_since(&self.cores);
        let watched = watched
            .zip(self.watched)
            .map(|(now, then)| now.saturating_sub(then) as f64 / 1e9);
        let rate = |per: f64| {
            if per > 0.0 {
                counts.answers as f64 / per
            } else {
                0.0
            }
        };
        Report {
            url: args.url.clone(),
            connections: args.connections,
            seconds,
            requests: counts.answers,
            bytes: counts.bytes,
            errors: counts.errors,
            other_status: counts.other_status,
            requests_per_second: rate(seconds),
            latency: Latency::of(&counts.latency),
            load_cpu_seconds: own as f64 / 1e9,
            watched_cpu_seconds: watched,
            requests_per_cpu_second: watched.map(rate),
            cores_busy: cores,
            reasons: reasons
                .iter()
                .map(|(why, count)| (why.clone(), *count))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
