//! The measuring itself: peers started, scenarios run round by round, everybody in turn.

use crate::counts::{self, Counts};
use crate::peer::Peer;
use crate::scenario::Scenario;
use crate::{Options, report};
use anyhow::{Context, Result, bail};
use headgate_benches::machine::{Machine, Place};
use headgate_benches::process::{self, Process};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traffic::http::load;

/// Everything that a report is made of.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measurements {
    pub(crate) machine: Machine,
    pub(crate) versions: BTreeMap<Peer, String>,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) scenarios: Vec<Measured>,
    pub(crate) counts: Vec<Counts>,
    pub(crate) memory: Vec<Memory>,
    /// What went wrong, for the reader.
    pub(crate) notes: Vec<String>,
}

/// All runs of one scenario.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    #[serde(flatten)]
    pub(crate) scenario: Scenario,
    pub(crate) runs: BTreeMap<Peer, Vec<load::Report>>,
}

/// What idle connections cost a peer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Memory {
    pub(crate) peer: Peer,
    pub(crate) connections: usize,
    /// Bytes, for each round.
    pub(crate) per_connection: Vec<f64>,
}

/// Who runs what, where.
pub(crate) struct Runner {
    options: Options,
    pub(crate) place: Place,
    peers: Vec<Peer>,
    machine: Machine,
    this: PathBuf,
    interrupted: Arc<AtomicBool>,
    notes: Vec<String>,
}

/// The cores of the two sides.
pub(crate) struct Cores {
    pub(crate) proxy: String,
    pub(crate) load: String,
}

/// Seconds of load before each measured time.
const WARM_UP: f64 = 0.4;
/// Connections held open to see what they cost.
const IDLE: usize = 10_000;

impl Runner {
    pub(crate) fn new(options: &Options, interrupted: Arc<AtomicBool>) -> Result<Self> {
        let place = Place::find()?;
        let mut runner = Self {
            options: options.clone(),
            peers: Vec::new(),
            machine: Machine::this(),
            this: std::env::current_exe().context("cannot find this program")?,
            interrupted,
            notes: Vec::new(),
            place,
        };
        let wanted = if options.peer.is_empty() {
            Peer::USUAL.to_vec()
        } else {
            options.peer.clone()
        };
        for peer in wanted {
            match runner.fetch(peer) {
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
    pub(crate) fn run(&mut self) -> Result<Measurements> {
        let versions = self
            .peers
            .iter()
            .map(|peer| (*peer, peer.version(&self.place)))
            .collect();
        let wanted: Vec<Scenario> = Scenario::all()
            .into_iter()
            .filter(|scenario| self.options.wants(scenario.name))
            .collect();
        let mut scenarios = Vec::new();
        let mut counts = Vec::new();
        for workers in [1, 2] {
            let group: Vec<Scenario> = wanted
                .iter()
                .filter(|scenario| scenario.workers == workers)
                .copied()
                .collect();
            let counting = workers == 1 && self.options.wants("counts");
            if group.is_empty() && !counting {
                continue;
            }
            let cores = self.cores(workers);
            let _origin = self.origin(&cores)?;
            let running = self.start_all(workers, &cores)?;
            for scenario in group {
                scenarios.push(self.scenario(scenario, &running, &cores)?);
            }
            if counting {
                self.count_system_calls(&running, &cores, &mut counts)?;
            }
        }
        if self.options.wants("counts") {
            self.count_instructions(&mut counts)?;
        }
        let memory = if self.options.wants("memory") {
            self.memory()?
        } else {
            Vec::new()
        };
        Ok(Measurements {
            machine: self.machine.clone(),
            versions,
            rounds: self.options.rounds(),
            seconds: self.options.duration(),
            scenarios,
            counts,
            memory,
            notes: self.notes.clone(),
        })
    }

    /// The command for a load of this kind, pinned to its cores.
    pub(crate) fn load(&self, cores: &Cores, url: &str, args: &[&str]) -> Vec<String> {
        let this = self.this.display().to_string();
        let fixed = [
            "taskset",
            "-c",
            &cores.load,
            &this,
            "load",
            url,
            "--json",
            "--host",
            "bench.test",
        ];
        fixed
            .iter()
            .chain(args)
            .map(|&arg| arg.to_owned())
            .collect()
    }

    /// Run a load to its end.
    pub(crate) fn run_load(&self, command: &[String]) -> Result<load::Report> {
        let mut program = Command::new(&command[0]);
        program.args(&command[1..]);
        let text = process::output(program, Duration::from_secs(120), &self.interrupted)?;
        serde_json::from_str(&text).with_context(|| format!("the load said {text:?}"))
    }

    pub(crate) fn note(&mut self, text: String) {
        eprintln!("! {text}");
        self.notes.push(text);
    }

    pub(crate) fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// The proxy has the first cores for itself as long as one is left for load and origin.
    pub(crate) fn cores(&self, workers: usize) -> Cores {
        let last = self.machine.cores.max(1) - 1;
        if workers > last {
            let all = format!("0-{last}");
            return Cores {
                proxy: all.clone(),
                load: all,
            };
        }
        Cores {
            proxy: format!("0-{}", workers - 1),
            load: format!("{workers}-{last}"),
        }
    }

    pub(crate) fn origin(&self, cores: &Cores) -> Result<Process> {
        let certs = self.place.cache.join("certs");
        process::output(
            Command::new(self.place.peers.join("certs.sh")),
            Duration::from_secs(30),
            &self.interrupted,
        )?;
        let file = |name: &str| certs.join(name).display().to_string();
        let this = self.this.display().to_string();
        let (certificate, key) = (file("p256.pem"), file("p256-key.pem"));
        let args = [
            "origin",
            "--listen",
            "127.0.0.1:7001",
            "--tls-listen",
            "127.0.0.1:7002",
        ];
        let files = ["--certificate", &certificate, "--key", &key];
        let command: Vec<String> = [this.as_str()]
            .iter()
            .chain(&args)
            .chain(&files)
            .map(|&arg| arg.to_owned())
            .collect();
        Process::start(
            "origin",
            &cores.load,
            &command,
            &[],
            &self.place.scratch.join("origin.log"),
        )
    }

    fn fetch(&self, peer: Peer) -> Result<()> {
        match peer {
            Peer::Headgate if self.place.headgate.exists() => Ok(()),
            Peer::Headgate => bail!("{} is not built", self.place.headgate.display()),
            Peer::Relay => Ok(()),
            _ => {
                let mut command = Command::new(self.place.peers.join("fetch.sh"));
                command.arg(peer.name());
                process::output(command, Duration::from_secs(1800), &self.interrupted).map(drop)
            }
        }
    }

    fn start_all(&mut self, workers: usize, cores: &Cores) -> Result<Vec<(Peer, Process)>> {
        let mut running = Vec::new();
        for peer in self.peers.clone() {
            if workers > 1 && peer == Peer::Relay {
                continue; // it has one
            }
            self.check_interrupted()?;
            match peer.start(&self.place, workers, &cores.proxy, "") {
                Ok(process) => running.push((peer, process)),
                Err(error) => self.note(format!(
                    "{} with {workers} workers: {error:#}",
                    peer.title()
                )),
            }
        }
        Ok(running)
    }

    fn scenario(
        &mut self,
        scenario: Scenario,
        running: &[(Peer, Process)],
        cores: &Cores,
    ) -> Result<Measured> {
        let mut runs: BTreeMap<Peer, Vec<load::Report>> = BTreeMap::new();
        let patience = scenario.patience();
        let connections = scenario.connections.to_string();
        let duration = (self.options.duration() * patience).to_string();
        let warm_up = (WARM_UP * patience).to_string();
        for _ in 0..self.options.rounds() {
            for (peer, process) in running.iter().filter(|(peer, _)| scenario.is_for(*peer)) {
                let watch = process.id().to_string();
                let command = self.load(
                    cores,
                    &scenario.url(*peer),
                    &[
                        "-c",
                        &connections,
                        "-d",
                        &duration,
                        "-w",
                        &warm_up,
                        "-m",
                        scenario.mode.name(),
                        "--watch",
                        &watch,
                        "--sources",
                        if scenario.mode == crate::scenario::Mode::KeepAlive {
                            "0"
                        } else {
                            "64"
                        },
                    ],
                );
                match self.run_load(&command) {
                    Ok(run) => {
                        if run.errors + run.other_status > 0 {
                            let (errors, other) = (run.errors, run.other_status);
                            self.note(format!(
                                "{}, {}: {errors} failed, {other} not answered 200",
                                scenario.name,
                                peer.title()
                            ));
                        }
                        runs.entry(*peer).or_default().push(run);
                    }
                    Err(error) => {
                        self.check_interrupted()?;
                        self.note(format!("{}, {}: {error:#}", scenario.name, peer.title()));
                    }
                }
            }
        }
        let measured = Measured { scenario, runs };
        eprintln!("{}", report::line(&measured));
        Ok(measured)
    }

    fn count_system_calls(
        &mut self,
        running: &[(Peer, Process)],
        cores: &Cores,
        counts: &mut Vec<Counts>,
    ) -> Result<()> {
        for (peer, process) in running {
            self.check_interrupted()?;
            match counts::system_calls(self, *peer, process, cores) {
                Ok(counted) => counts.extend(counted),
                Err(error) => self.note(format!("system calls of {}: {error:#}", peer.title())),
            }
        }
        Ok(())
    }

    fn count_instructions(&mut self, counts: &mut Vec<Counts>) -> Result<()> {
        for peer in [Peer::Headgate, Peer::Relay] {
            if !self.peers.contains(&peer) {
                continue;
            }
            self.check_interrupted()?;
            match counts::instructions(self, peer) {
                Ok(counted) => counts.extend(counted),
                Err(error) => self.note(format!("instructions of {}: {error:#}", peer.title())),
            }
        }
        Ok(())
    }

    fn memory(&mut self) -> Result<Vec<Memory>> {
        let cores = self.cores(1);
        let mut memory = Vec::new();
        let rounds = self.options.rounds().min(3);
        for peer in self.peers.clone() {
            let mut per_connection = Vec::new();
            for _ in 0..rounds {
                self.check_interrupted()?;
                match counts::idle_memory(self, peer, &cores, IDLE) {
                    Ok(bytes) => per_connection.push(bytes),
                    Err(error) => self.note(format!("memory of {}: {error:#}", peer.title())),
                }
            }
            if !per_connection.is_empty() {
                memory.push(Memory {
                    peer,
                    connections: IDLE,
                    per_connection,
                });
            }
        }
        Ok(memory)
    }
}
