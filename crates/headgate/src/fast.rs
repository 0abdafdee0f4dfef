//! The fast path beside the engine: started before it, told what monitors know, reloaded together with it. The work is the
//! crate `fastpath`'s.

use addr::Prefix;
use control::Beside;
use fastpath::members::Verdict;
use fastpath::{FastPath, StartError};
use model::{Config, Name};
use proxy::{Engine, ShunList};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// How often members' states are looked at.
const LOOK_AT_MEMBERS: Duration = Duration::from_millis(100);

/// How often what has expired is swept, and flows of earlier tables are moved.
const SWEEP: Duration = Duration::from_secs(1);

/// How often exhaustion is told at most.
const TELL: Duration = Duration::from_secs(10);

/// The fast path, if the configuration has one.
#[derive(Clone)]
pub(crate) struct Fast {
    path: Option<Arc<FastPath>>,
    known: Arc<Mutex<Known>>,
}

/// What the fast path was told last. While it is held nobody else tells it anything.
struct Known {
    /// The configuration that is in force there; the engine's may be older for a moment.
    config: Arc<Config>,
    members: Verdicts,
}

type Verdicts = HashMap<(Name, SocketAddr), Verdict>;

impl Fast {
    /// Starts it or takes it over. Packets go their new ways from here on.
    pub(crate) fn start(config: &Config) -> Result<Self, StartError> {
        Ok(Fast {
            path: FastPath::start(config, &|_, _| None)?.map(Arc::new),
            known: Arc::new(Mutex::new(Known {
                config: Arc::new(config.clone()),
                members: Verdicts::new(),
            })),
        })
    }

    /// The fast path itself.
    pub(crate) fn path(&self) -> Option<&Arc<FastPath>> {
        self.path.as_ref()
    }

    /// Takes it off again, if it was this process that put it there.
    pub(crate) fn undo(&self) {
        if let Some(path) = self.path.as_ref().filter(|path| path.is_fresh()) {
            self.detach(path);
        }
    }

    /// At the end of the process: packets go on as before, unless the configuration wants otherwise.
    pub(crate) fn end(&self, config: &Config) {
        let keep = config.fast_path.as_ref().is_none_or(|path| path.keep);
        if let Some(path) = &self.path {
            if keep {
                info!("the fast path stays in force; `headgate fastpath detach` takes it off");
            } else {
                self.detach(path);
            }
        }
    }

    fn detach(&self, path: &FastPath) {
        match fastpath::detach(&path.pins()) {
            Ok(names) => info!(interfaces = names.join(" "), "fast path taken off"),
            Err(error) => error!("not all of the fast path could be taken off: {error}"),
        }
    }

    /// Who drops offenders' packets.
    pub(crate) fn shun_list(&self) -> Option<Arc<dyn ShunList>> {
        let path = Arc::clone(self.path.as_ref()?);
        Some(Arc::new(Shun {
            path,
            told: AtomicBool::new(false),
        }))
    }

    /// Looks after it until the returned is dropped.
    pub(crate) fn look_after(&self, engine: &Arc<Engine>) -> io::Result<Option<Carer>> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let care = Care {
            path: Arc::clone(path),
            engine: Arc::clone(engine),
            known: Arc::clone(&self.known),
            told: HashMap::new(),
        };
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("hg-fastpath".to_owned())
            .spawn(move || care.run(&stopped))?;
        Ok(Some(Carer {
            stop,
            thread: Some(thread),
        }))
    }
}

impl Beside for Fast {
    fn apply(&self, config: &Config) -> Result<(), String> {
        match (&self.path, &config.fast_path) {
            (None, None) => Ok(()),
            (None, Some(_)) => {
                Err("fast_path: it needs rights that are given up after the start: restart Headgate to have it".to_owned())
            }
            (Some(path), _) => {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                path.apply(config, &|pool, address| {
                    verdict(&known.members, pool, address)
                })
                .map_err(|error| error.to_string())?;
                known.config = Arc::new(config.clone());
                Ok(())
            }
        }
    }
}

/// The thread that looks after the fast path; it ends when this is dropped. Packets need it not.
pub(crate) struct Carer {
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Carer {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            // Should it have panicked, the panic hook has said so.
            let _ = thread.join();
        }
    }
}

struct Care {
    path: Arc<FastPath>,
    engine: Arc<Engine>,
    known: Arc<Mutex<Known>>,
    /// Counters of what users must know of, as they were last told.
    told: HashMap<&'static str, u64>,
}

impl Care {
    fn run(mut self, stopped: &mpsc::Receiver<()>) {
        let mut swept = Instant::now();
        let mut told = Instant::now();
        let mut failing = false;
        while stopped.recv_timeout(LOOK_AT_MEMBERS) == Err(mpsc::RecvTimeoutError::Timeout) {
            self.members();
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                let result = self.path.tick();
                if let (Err(error), false) = (&result, failing) {
                    warn!("fast path: {error}");
                }
                failing = result.is_err();
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                self.tell();
            }
        }
    }

    /// Tells the fast path of members that are not as they were.
    fn members(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let config = Arc::clone(&known.config);
        let virtuals = config.virtuals.values();
        let pools: BTreeSet<&str> = virtuals
            .filter_map(|server| server.fast().map(|fast| fast.pool.as_str()))
            .collect();
        if pools.is_empty() {
            return;
        }
        let members = self.engine.members().into_iter();
        let now: Verdicts = members
            .filter(|member| pools.contains(member.pool.as_str()))
            .map(|member| {
                let verdict = Verdict {
                    health: member.health,
                    admin: member.admin,
                    weight: member.weight.into(),
                };
                ((member.pool, member.address), verdict)
            })
            .collect();
        if known.members == now {
            return;
        }
        let result = self
            .path
            .members(&config, &|pool, address| verdict(&now, pool, address));
        match result {
            Ok(()) => known.members = now,
            Err(error) => error!("fast path: members are not as monitors say: {error}"),
        }
    }

    /// Logs what was lost for want of room since it was last told.
    fn tell(&mut self) {
        let counts = self
            .path
            .with_tables(|tables, _| fastpath::stats::Stats::read(tables));
        let Ok(counts) = counts else { return };
        for reason in EXHAUSTION {
            let count = counts.of(reason);
            let before = self.told.insert(reason.name(), count).unwrap_or(count);
            if count > before {
                warn!(
                    reason = reason.name(),
                    packets = count - before,
                    "fast path: {}",
                    reason.help()
                );
            }
        }
    }
}

/// What is lost for want of room, addresses or ports.
const EXHAUSTION: [fastpath::abi::Reason; 5] = [
    fastpath::abi::Reason::DropNoPort,
    fastpath::abi::Reason::DropNoAddress,
    fastpath::abi::Reason::DropUserLimit,
    fastpath::abi::Reason::DropTableFull,
    fastpath::abi::Reason::FlowNotPromoted,
];

fn verdict(known: &Verdicts, pool: &str, address: SocketAddr) -> Option<Verdict> {
    let pool = known
        .keys()
        .find(|(name, _)| name.as_str() == pool)?
        .0
        .clone();
    known.get(&(pool, address)).copied()
}

/// Offenders that rules hand over.
struct Shun {
    path: Arc<FastPath>,
    /// Whether it was logged that one could not be shunned.
    told: AtomicBool,
}

impl ShunList for Shun {
    fn shun(&self, address: IpAddr, lasting: Duration) -> bool {
        let address = address.to_canonical();
        let all = if address.is_ipv4() { 32 } else { 128 };
        match self
            .path
            .shun(Prefix::containing(address, all), lasting, BY_RULE)
        {
            Ok(()) => true,
            Err(error) => {
                if !self.told.swap(true, Relaxed) {
                    warn!("fast path: {error}");
                }
                false
            }
        }
    }
}

/// Why an address is shunned: a rule said so.
const BY_RULE: u32 = 1;
