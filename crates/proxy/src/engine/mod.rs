//! The process's side of serving: workers, and how a configuration takes the place of another.
//!
//! A configuration is made ready and bound as a whole before anything changes; what can fail has
//! failed by then. Connections are the workers' own, and go on with what they began with.

mod apply;
mod changes;
mod shared;
mod status;
mod thread;

pub use apply::{Applied, ApplyError};
pub use shared::Phase;
pub(crate) use shared::{Gauge, Message, Shared};
pub use status::{MemberChange, MemberStatus, NoSuchMember};

use crate::access::AccessLog;
use crate::listen::Inherited;
use crate::resolve::{Names, Resolver};
use crate::rules::{self, Common, RuleCounts, RuleProfile};
use crate::shun::ShunList;
use crate::snapshot::Snapshot;
use apply::{Control, PhaseCell};
use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread as threads;
use std::time::{Duration, Instant};

/// How often somebody who waits for connections to end looks.
const LOOK: Duration = Duration::from_millis(10);

/// How an engine is to run, beside what the configuration says.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What workers draw their random numbers from; another each time if not given.
    pub seed: Option<u64>,
    /// Whether each worker stays on a processor of its own, when there are as many workers as
    /// processors that the process may use.
    pub pin: bool,
    /// Who drops the packets of offenders that rules hand over; without it their connections are turned
    /// away.
    pub shun: Option<Arc<dyn ShunList>>,
}

/// Serves the virtuals of a configuration until it is stopped. Shared by whoever steers it.
pub struct Engine {
    core: Arc<Core>,
    /// Ends when the engine does.
    _resolver: Resolver,
}

/// What the threads beside the workers share.
struct Core {
    shared: Arc<Shared>,
    snapshot: ArcSwap<Snapshot>,
    phase: PhaseCell,
    names: Arc<Names>,
    monitors: health::Engine,
    options: Options,
    seed: u64,
    control: Mutex<Control>,
}

impl Engine {
    /// Starts to serve `config`, on sockets of `inherited` where there are such.
    ///
    /// # Errors
    ///
    /// All that is wrong with the configuration or its addresses, or what the system refuses.
    /// Nothing is left behind then.
    pub fn start(
        config: model::Config,
        inherited: Inherited,
        options: Options,
    ) -> Result<Engine, ApplyError> {
        let seed = options
            .seed
            .unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let core = Arc::new(Core {
            shared: Shared::new(
                config.limits.connections,
                Common::new(&config.rule_limits, seed),
                options.shun.clone(),
            ),
            snapshot: ArcSwap::from_pointee(Snapshot::empty()),
            phase: PhaseCell::default(),
            names: Arc::default(),
            monitors: health::Engine::start("hg-health").map_err(ApplyError::Start)?,
            options,
            seed,
            control: Mutex::default(),
        });
        let weak = Arc::downgrade(&core);
        let resolver = Resolver::start(&core.names, move || {
            if let Some(core) = weak.upgrade() {
                core.addresses_changed();
            }
        });
        let engine = Engine {
            core,
            _resolver: resolver.map_err(ApplyError::Start)?,
        };
        engine.core.apply(config, inherited)?;
        Ok(engine)
    }

    /// Puts another configuration in force: whole, or not at all. Connections go on as they are.
    ///
    /// # Errors
    ///
    /// All that is wrong with it; what was in force before stays.
    pub fn apply(&self, config: model::Config) -> Result<Applied, ApplyError> {
        self.core.apply(config, Inherited::none())
    }

    /// The configuration in force, with everything that is counted.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.core.snapshot.load_full()
    }

    /// How many workers take connections.
    pub fn workers(&self) -> usize {
        self.core.shared.peers.load().len()
    }

    /// How many client connections each of those has.
    pub fn connections_by_worker(&self) -> Vec<usize> {
        let peers = self.core.shared.peers.load();
        peers.iter().map(|peer| peer.load.load(Relaxed)).collect()
    }

    /// How many workers take none any more, and end with those they have.
    pub fn retiring_workers(&self) -> usize {
        self.core.control().retiring()
    }

    /// How many client connections there are.
    pub fn connections(&self) -> usize {
        self.core.shared.connections.load(Relaxed)
    }

    /// How often accepting paused for want of descriptors or memory.
    pub fn accept_pauses(&self) -> u64 {
        self.core.shared.accept_pauses.load(Relaxed)
    }

    /// Events of rules that ended early, by rule.
    pub fn rule_failures(&self) -> BTreeMap<String, RuleCounts> {
        self.core.shared.rules.failures()
    }

    /// What events of rules have taken on all workers, so far as that is counted. May wait for workers
    /// for a second.
    pub fn rule_profile(&self) -> Vec<RuleProfile> {
        let (to, rows) = mpsc::channel();
        let mut asked = 0;
        for peer in self.core.shared.peers.load().iter() {
            asked += usize::from(peer.mail.send(Message::Profile(to.clone())).is_ok());
        }
        let until = Instant::now() + Duration::from_secs(1);
        let mut all = Vec::new();
        for _ in 0..asked {
            match rows.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(rows) => rules::profile::add(&mut all, rows),
                Err(_) => break,
            }
        }
        all
    }

    /// Connections that wait within a rule, and log data of rules that found no room.
    pub fn rules_waiting(&self) -> (u64, u64) {
        let rules = &self.core.shared.rules;
        (rules.parked.load(Relaxed), rules.log_dropped.load(Relaxed))
    }

    /// Where in its life it is.
    pub fn phase(&self) -> Phase {
        self.core.phase.get()
    }

    /// How long it has been running.
    pub fn uptime(&self) -> Duration {
        self.core.shared.started.elapsed()
    }

    /// The clock that pools are asked by.
    pub fn now(&self) -> balance::Millis {
        self.core.shared.now()
    }

    /// The access logs that are open.
    pub fn access_logs(&self) -> Vec<Arc<AccessLog>> {
        let mut logs: Vec<Arc<AccessLog>> = Vec::new();
        for service in self.snapshot().virtuals.values() {
            if let Some(log) = &service.log
                && !logs.iter().any(|known| Arc::ptr_eq(known, log))
            {
                logs.push(Arc::clone(log));
            }
        }
        logs
    }

    /// When certificates shown to clients end, by virtual.
    pub fn certificates(&self) -> Vec<(model::Name, tls::Expiry)> {
        let snapshot = self.snapshot();
        let of = |service: &Arc<crate::Virtual>| {
            let expiries = service.tls.as_ref().map_or(&[][..], |tls| tls.expiries());
            let name = service.name.clone();
            let named = expiries.iter().map(move |e| (name.clone(), e.clone()));
            named.collect::<Vec<_>>()
        };
        snapshot.virtuals.values().flat_map(of).collect()
    }

    /// The listening sockets with their addresses, for the process that takes over. They stay open
    /// here too.
    ///
    /// # Errors
    ///
    /// When there are no descriptors left.
    pub fn listeners(&self) -> std::io::Result<Vec<(SocketAddr, OwnedFd)>> {
        let control = self.core.control();
        let sockets = control.listening.sockets();
        sockets
            .map(|socket| Ok((socket.local, socket.listener.try_clone()?.into())))
            .collect()
    }

    /// Takes no new connections, closes idle ones, and lets the others end. There is no way back.
    pub fn drain(&self) {
        self.core.enter(Phase::Draining);
    }

    /// Waits until there are no connections, but no longer than `limit`; tells whether there are
    /// none.
    pub fn wait_drained(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while self.connections() > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            threads::sleep(LOOK.min(left));
        }
        true
    }

    /// Ends every connection and the workers.
    pub fn stop(&self) {
        self.core.enter(Phase::Stopping);
        let handles = self.core.control().take_threads();
        for handle in handles {
            // A worker that panicked has been mourned by the panic hook already.
            let _ = handle.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Core {
    fn control(&self) -> std::sync::MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
