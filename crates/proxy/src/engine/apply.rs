//! One configuration in the place of another: everything that can fail first, then the change.

use super::shared::{Message, Peer, Phase};
use super::thread::{self, Handle, Start, tell};
use super::{Core, changes};
use crate::compile::{self, Clock, CompileError, Compiled, Kept};
use crate::listen::{BindError, Inherited, Listening, Wanted};
use crate::resolve;
use crate::snapshot::Snapshot;
use crate::sys;
use model::MemberAddress;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{info, warn};

/// How long a configuration waits for names of members that are new to it. Those that are found
/// later join their pools then.
const FIRST_LOOKUP: Duration = Duration::from_secs(2);

/// A configuration that has taken effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its number: they count up from 1.
    pub generation: u64,
    /// What it has changed, for people: `pool app: member 10.0.0.3:80 added`.
    pub changes: Vec<String>,
}

/// Why a configuration has not taken effect.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Something in it cannot be put to use.
    #[error("the configuration cannot be used:\n{}", lines(.0))]
    Compile(Vec<CompileError>),
    /// Addresses that cannot be listened on.
    #[error("the configuration cannot be used:\n{}", lines(.0))]
    Bind(Vec<BindError>),
    /// A thread, or what it waits by, could not be made.
    #[error("cannot start a thread: {0}")]
    Start(io::Error),
    /// It is too late for another configuration.
    #[error("this process is ending and takes no other configuration")]
    Ending,
}

/// What is needed to change things; one at a time.
#[derive(Default)]
pub(super) struct Control {
    generation: u64,
    pub(super) kept: Kept,
    pub(super) listening: Listening,
    workers: Vec<Handle>,
    /// Workers that end with their last connection.
    retired: Vec<Handle>,
}

impl Control {
    /// Every worker's thread, to be waited for.
    pub(super) fn take_threads(&mut self) -> Vec<JoinHandle<()>> {
        let all = self.workers.drain(..).chain(self.retired.drain(..));
        all.map(|handle| handle.thread).collect()
    }

    /// How many workers are on their way out.
    pub(super) fn retiring(&self) -> usize {
        let there = |worker: &&Handle| !worker.thread.is_finished();
        self.retired.iter().filter(there).count()
    }

    fn everyone(&self) -> impl Iterator<Item = &Handle> {
        self.workers.iter().chain(&self.retired)
    }
}

/// A phase that all threads can look at.
#[derive(Default)]
pub(super) struct PhaseCell(AtomicU8);

impl PhaseCell {
    pub(super) fn get(&self) -> Phase {
        match self.0.load(Relaxed) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Stopping,
        }
    }

    /// Phases follow each other one way only.
    fn advance(&self, to: Phase) -> bool {
        self.0.fetch_max(to as u8, Relaxed) < to as u8
    }
}

impl Core {
    pub(super) fn apply(
        self: &Arc<Self>,
        config: model::Config,
        mut inherited: Inherited,
    ) -> Result<Applied, ApplyError> {
        let names = resolve::names(&config);
        self.names.add(&names);
        // Before anything is locked: whoever looks names up must get at the pools meanwhile.
        self.names.wait(FIRST_LOOKUP);
        let mut control = self.control();
        let result = self.replace(&mut control, Arc::new(config), &mut inherited);
        let in_force = resolve::names(&self.snapshot.load().config);
        // Somebody else's configuration may have put them out meanwhile.
        self.names.add(&in_force);
        self.names.keep(&in_force);
        if result.is_ok() {
            for address in inherited.addresses() {
                info!(%address, "a listening socket that was passed is not asked for and closed");
            }
        }
        result
    }

    fn replace(
        self: &Arc<Self>,
        control: &mut Control,
        config: Arc<model::Config>,
        inherited: &mut Inherited,
    ) -> Result<Applied, ApplyError> {
        if self.phase.get() != Phase::Running {
            return Err(ApplyError::Ending);
        }
        let table = self.names.table();
        let compiled = compile::compile(&config, &control.kept, &table, self.shared.now())
            .map_err(ApplyError::Compile)?;
        let count = workers(&config.workers);
        let wanted = Wanted::all(&config);
        let listening = control
            .listening
            .prepare(wanted.iter().map(|(_, wanted)| wanted), count, inherited)
            .map_err(ApplyError::Bind)?;
        let bound = wanted
            .iter()
            .filter_map(|(name, wanted)| Some((name.clone(), listening.local(&wanted.key)?)));
        let snapshot = compiled.snapshot(control.generation + 1, bound);
        let started = self
            .start_workers(control.workers.len(), count, &snapshot)
            .map_err(ApplyError::Start)?;
        // Nothing fails from here on.
        let before = self.snapshot.load_full();
        let mut changes = changes::between(&before.config, &config);
        changes.extend(changes::tls(&before, &snapshot));
        changes.extend(changes::workers(control.workers.len(), count));
        for (_, wanted) in &wanted {
            listening.set_defer(&wanted.key, wanted.defer);
        }
        self.publish(control, &snapshot, compiled);
        let (came, gone) = control.listening.replace(listening);
        changes.extend(came.iter().map(|a| format!("listening on {a}")));
        changes.extend(gone.iter().map(|a| format!("no longer listening on {a}")));
        self.set_workers(control, started, count);
        self.watch(control, &snapshot);
        Ok(Applied {
            generation: control.generation,
            changes,
        })
    }

    /// Puts a snapshot in force.
    fn publish(&self, control: &mut Control, snapshot: &Arc<Snapshot>, compiled: Compiled) {
        for warning in &compiled.warnings {
            warn!("{warning}");
        }
        for log in &compiled.reopen {
            log.reopen();
        }
        for (pool, settings) in compiled.pools {
            pool.reconfigure(settings, self.shared.now());
        }
        control.generation = snapshot.generation;
        control.kept = compiled.kept;
        let limit = snapshot.config.limits.connections;
        self.shared.connection_limit.store(limit, Relaxed);
        self.snapshot.store(Arc::clone(snapshot));
        for worker in control.everyone() {
            let snapshot = Arc::clone(snapshot);
            tell(&worker.peer.mail, Message::Snapshot(snapshot));
        }
    }

    /// Starts the workers from number `from` to `to`.
    fn start_workers(
        &self,
        from: usize,
        to: usize,
        snapshot: &Arc<Snapshot>,
    ) -> io::Result<Vec<Handle>> {
        let processors = if self.options.pin {
            sys::processors()
        } else {
            Vec::new()
        };
        let mut started: Vec<Handle> = Vec::new();
        for index in from..to {
            let worker = thread::start(Start {
                index,
                shared: Arc::clone(&self.shared),
                snapshot: Arc::clone(snapshot),
                seed: scatter(self.seed.wrapping_add(index as u64)),
                processor: processors
                    .get(index)
                    .copied()
                    .filter(|_| processors.len() == to),
            });
            match worker {
                Ok(worker) => started.push(worker),
                Err(error) => {
                    for worker in started {
                        tell(&worker.peer.mail, Message::Retire);
                    }
                    return Err(error);
                }
            }
        }
        Ok(started)
    }

    /// Lets `count` workers serve, those `started` among them, and the rest end.
    fn set_workers(&self, control: &mut Control, started: Vec<Handle>, count: usize) {
        control.workers.extend(started);
        let retire = control.workers.split_off(count.min(control.workers.len()));
        let peers: Vec<Peer> = control.workers.iter().map(|w| w.peer.clone()).collect();
        self.shared.peers.store(Arc::new(peers));
        let shares = control.listening.shares(count);
        for (worker, share) in control.workers.iter().zip(shares) {
            tell(&worker.peer.mail, Message::Listen(share));
        }
        for worker in &retire {
            tell(&worker.peer.mail, Message::Listen(Vec::new()));
            tell(&worker.peer.mail, Message::Retire);
        }
        control
            .retired
            .retain(|worker| !worker.thread.is_finished());
        control.retired.extend(retire);
    }

    /// Has members watched as the configuration in force says.
    fn watch(self: &Arc<Self>, control: &Control, snapshot: &Snapshot) {
        let shared = Arc::clone(&self.shared);
        let clock: Clock = Arc::new(move || shared.now());
        let names = self.names.table();
        let targets = compile::targets(&snapshot.config, &control.kept, &names, &clock);
        self.monitors.set_targets(targets);
    }

    /// Brings pools and monitors to what host names mean now.
    pub(super) fn addresses_changed(self: &Arc<Self>) {
        let control = self.control();
        let snapshot = self.snapshot.load_full();
        let names = self.names.table();
        for backend in snapshot.backends.values() {
            let has_names =
                |member: &model::Member| matches!(member.address, MemberAddress::Host { .. });
            if backend.config.members.iter().any(has_names) {
                let settings = compile::pool_settings(&backend.config, &names);
                backend.pool.reconfigure(settings, self.shared.now());
            }
        }
        self.watch(&control, &snapshot);
    }

    /// Enters a phase, unless it is in that or a later one.
    pub(super) fn enter(&self, phase: Phase) {
        let mut control = self.control();
        if !self.phase.advance(phase) {
            return;
        }
        self.shared.peers.store(Arc::default());
        control.listening.replace(Listening::default());
        for worker in control.everyone() {
            tell(&worker.peer.mail, Message::Listen(Vec::new()));
            tell(&worker.peer.mail, Message::Phase(phase));
        }
    }
}

/// How many workers are asked for.
fn workers(wanted: &model::Workers) -> usize {
    match wanted {
        model::Workers::Count(count) => (*count).max(1),
        model::Workers::Auto => {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        }
    }
}

/// Spreads numbers that lie together (the finishing step of SplitMix64).
fn scatter(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn lines(errors: &[impl Display]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("  {error}")).collect();
    lines.join("\n")
}
