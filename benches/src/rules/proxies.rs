//! The HMAC cookie logic in proxies: each has a listener past the rule and one through it, and what the rule costs is the
//! difference of processor time for a request. Everybody takes turns, with the rule and without.

use crate::Options;
use crate::peer::Peer;
use crate::sessions::Sessions;
use anyhow::{Context, Result, bail};
use headgate_benches::machine::Place;
use headgate_benches::median;
use headgate_benches::process::{self, Process};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};
use traffic::http::load;
use traffic::http::watch::Tree;

/// What a request finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    OneUser,
    AllUsers,
    Response,
    Miss,
    Login,
}

/// One proxy's figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) peer: Peer,
    pub(crate) version: String,
    /// Bytes that 100,000 tokens have added to its memory.
    pub(crate) memory: Option<f64>,
    pub(crate) cases: BTreeMap<Case, Vec<Pair>>,
}

/// One round: requests per CPU-second of the proxy without the rule and with it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) off: f64,
    pub(crate) on: f64,
}

/// Who runs what, where.
pub(crate) struct Runner<'a> {
    options: &'a Options,
    place: &'a Place,
    rules: PathBuf,
    this: PathBuf,
    peers: Vec<Peer>,
    interrupted: Arc<AtomicBool>,
    pub(crate) notes: Vec<String>,
}

/// Tokens that a worker keeps, as the rule bounds them.
const TOKENS: usize = 100_000;
/// Sessions that nobody knows yet: more than are asked for in a run, and than are kept.
const UNKNOWN: usize = 150_000;
/// Connections of the load.
const CONNECTIONS: &str = "4";
/// Seconds of load before each measured time.
const WARM_UP: &str = "0.15";
const PROXY_CORE: &str = "0";
const LOAD_CORE: &str = "1";

impl Case {
    pub(crate) const ALL: [Self; 5] = [
        Self::OneUser,
        Self::AllUsers,
        Self::Response,
        Self::Miss,
        Self::Login,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::OneUser => "request of one user, token cached",
            Self::AllUsers => "requests of 100,000 users, tokens cached",
            Self::Response => "response that sets a session, token cached",
            Self::Miss => "request, token not cached",
            Self::Login => "response that sets a session, token not cached",
        }
    }

    /// Whether each run needs sessions that nobody has seen.
    fn is_unknown(self) -> bool {
        matches!(self, Self::Miss | Self::Login)
    }
}

impl Pair {
    /// What the rule costs a request, in microseconds of processor time.
    pub(crate) fn cost(self) -> f64 {
        1e6 / self.on - 1e6 / self.off
    }
}

impl Measured {
    /// What the rule costs a request, in microseconds: the median of the rounds.
    pub(crate) fn cost(&self, case: Case) -> Option<f64> {
        let pairs = self.cases.get(&case)?;
        Some(median(pairs.iter().map(|pair| pair.cost()).collect()))
    }
}

impl<'a> Runner<'a> {
    pub(crate) fn new(
        options: &'a Options,
        place: &'a Place,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self> {
        let mut runner = Self {
            options,
            place,
            rules: options.rules_folder(place),
            this: std::env::current_exe().context("cannot find this program")?,
            peers: Vec::new(),
            interrupted,
            notes: Vec::new(),
        };
        let wanted = if options.peer.is_empty() {
            Peer::ALL.to_vec()
        } else {
            options.peer.clone()
        };
        for peer in wanted {
            match peer.fetch(place, &runner.interrupted) {
                Ok(()) => runner.peers.push(peer),
                Err(error) => runner.note(format!("{} takes no part: {error:#}", peer.title())),
            }
        }
        if runner.peers.is_empty() {
            bail!("nobody to measure");
        }
        Ok(runner)
    }

    /// Measure all that is wanted.
    pub(crate) fn run(&mut self) -> Result<Vec<Measured>> {
        let _origin = self.origin()?;
        let known = Sessions::new(TOKENS, 1);
        let lists = self.place.scratch.join("rules-lists");
        fs::create_dir_all(&lists)?;
        let list = |case: Case| lists.join(format!("{case:?}"));
        known.write_visits(&list(Case::AllUsers))?;
        known.first().write_visits(&list(Case::OneUser))?;
        known.write_logins(&list(Case::Response))?;
        let mut running = Vec::new();
        for peer in self.peers.clone() {
            self.check_interrupted()?;
            match self.start(peer, &list(Case::AllUsers)) {
                Ok(started) => running.push(started),
                Err(error) => self.note(format!("{}: {error:#}", peer.title())),
            }
        }
        // What is not cached comes last: it drives out what is.
        for unknown in [false, true] {
            for round in 0..self.options.rounds() {
                if unknown {
                    let fresh = Sessions::new(UNKNOWN, 2 + round as u64);
                    fresh.write_visits(&list(Case::Miss))?;
                    let fresh = Sessions::new(UNKNOWN, 1002 + round as u64);
                    fresh.write_logins(&list(Case::Login))?;
                }
                for case in Case::ALL {
                    if case.is_unknown() != unknown {
                        continue;
                    }
                    for (process, measured) in &mut running {
                        self.check_interrupted()?;
                        match self.pair(process, measured.peer, &list(case), round) {
                            Ok(pair) => measured.cases.entry(case).or_default().push(pair),
                            Err(error) => self.note(format!(
                                "{}, {}: {error:#}",
                                measured.peer.title(),
                                case.title()
                            )),
                        }
                    }
                }
                eprintln!("round {} of {}", round + 1, self.options.rounds());
            }
        }
        let _ = fs::remove_dir_all(&lists);
        Ok(running.into_iter().map(|(_, measured)| measured).collect())
    }

    /// Start a proxy and fill its cache through its rule; see what that adds to its memory.
    fn start(&self, peer: Peer, list: &std::path::Path) -> Result<(Process, Measured)> {
        let process = peer.start(self.place, PROXY_CORE, &self.rules)?;
        for port in [peer.port(), peer.port() + 1] {
            // Buffers and pools that are there anyway are made first.
            self.load(&process, port, None, &["-n", "5000", "-w", "0", "-d", "20"])?;
        }
        thread::sleep(Duration::from_millis(300));
        let tree = Tree::of(process.id());
        let before = tree.memory();
        let (port, count) = (peer.port() + 1, TOKENS.to_string());
        let filled = self.load(
            &process,
            port,
            Some(list),
            &["-n", &count, "-w", "0", "-d", "90"],
        )?;
        if (filled.requests as usize) < TOKENS {
            bail!("it answered only {} requests in time", filled.requests);
        }
        thread::sleep(Duration::from_millis(300));
        let measured = Measured {
            peer,
            version: peer.version(self.place),
            memory: Some(tree.memory() as f64 - before as f64),
            cases: BTreeMap::new(),
        };
        Ok((process, measured))
    }

    /// One round of one case: without the rule and with it, first the one, then the other.
    fn pair(
        &self,
        process: &Process,
        peer: Peer,
        list: &std::path::Path,
        round: usize,
    ) -> Result<Pair> {
        let duration = self.options.duration().to_string();
        let figure = |port: u16| -> Result<f64> {
            let report = self.load(process, port, Some(list), &["-d", &duration, "-w", WARM_UP])?;
            if report.errors + report.other_status > 0 {
                bail!(
                    "{} failed, {} not answered 200",
                    report.errors,
                    report.other_status
                );
            }
            report
                .requests_per_cpu_second
                .filter(|figure| *figure > 0.0)
                .context("it has used no processor time")
        };
        let (off, on) = (peer.port(), peer.port() + 1);
        Ok(if round.is_multiple_of(2) {
            let off = figure(off)?;
            Pair {
                off,
                on: figure(on)?,
            }
        } else {
            let on = figure(on)?;
            Pair {
                off: figure(off)?,
                on,
            }
        })
    }

    fn load(
        &self,
        process: &Process,
        port: u16,
        list: Option<&std::path::Path>,
        args: &[&str],
    ) -> Result<load::Report> {
        let mut command = Command::new("taskset");
        command
            .args(["-c", LOAD_CORE])
            .arg(&self.this)
            .args(["load", "--json", "--host", "bench.test"])
            .args(["-c", CONNECTIONS, "--watch", &process.id().to_string()])
            .args(args)
            .arg(format!("http://127.0.0.1:{port}/bytes/1024"));
        if let Some(list) = list {
            command.arg("--from").arg(list);
        }
        let text = process::output(command, Duration::from_secs(120), &self.interrupted)?;
        serde_json::from_str(&text).with_context(|| format!("the load said {text:?}"))
    }

    fn origin(&self) -> Result<Process> {
        let command = [
            self.this.display().to_string(),
            "origin".to_owned(),
            "--listen".to_owned(),
            "127.0.0.1:7001".to_owned(),
        ];
        let log = self.place.scratch.join("rules-origin.log");
        Process::start("origin", LOAD_CORE, &command, &[], &log)
    }

    fn note(&mut self, text: String) {
        eprintln!("! {text}");
        self.notes.push(text);
    }

    fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}
