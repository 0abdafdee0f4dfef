//! The fast path of a configuration: loaded, filled, attached, and kept so while configurations follow each other.
//!
//! All that packets need is in the kernel and pinned: when the process ends, however it does, packets are handled as
//! before, and the next process goes on with the same tables.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use addr::Prefix;
use model::Config;
use tracing::{info, warn};
use xdp::attach::Wanted;
use xdp::interface;
use xdp::libbpf_rs::MapType;
use xdp::map;
use xdp::require;

use crate::abi::{Addr6, Settings};
use crate::attached::{self, Attached};
use crate::clock::Clock;
use crate::error::StartError;
use crate::instance::{self, Instance};
use crate::interfaces::{self, Facts};
use crate::members::Balancer;
use crate::names;
use crate::nat::Pools;
use crate::pins::{Pins, Set};
use crate::plan::{self, Plan};
use crate::shun::{ShunError, Shuns};
use crate::tables::Tables;
use crate::takeover::{self, Drain};
use crate::virtuals::{self, Verdicts};

/// The fast path that runs. Shared by whoever has to do with it.
#[derive(Debug)]
pub struct FastPath {
    state: Mutex<State>,
    /// What is read and written without waiting for whoever changes the state.
    view: Mutex<Arc<View>>,
    clock: Clock,
    fresh: bool,
}

#[derive(Debug)]
struct View {
    tables: Arc<Tables>,
    settings: Settings,
}

impl FastPath {
    /// Attaches the fast path that the configuration describes, or takes over the one that an earlier process has left.
    /// `None` where it describes none.
    ///
    /// # Errors
    ///
    /// What is missing or wrong. What was attached before stays as it was; where there was nothing, nothing is left.
    pub fn start(config: &Config, verdicts: &Verdicts<'_>) -> Result<Option<Self>, StartError> {
        let Some(path) = &config.fast_path else {
            return Ok(None);
        };
        require::check()?;
        let pins = Pins::at(&path.pin);
        pins.prepare()?;
        let was_there = pins.current().map_err(table)?.is_some();
        let started = State::start(pins.clone(), config, verdicts);
        if started.is_err()
            && !was_there
            && let Err(error) = detach(&pins)
        {
            warn!("not all of the fast path could be removed: {error}");
        }
        let state = started?;
        Ok(Some(Self {
            clock: Clock::with_hz(state.clock.hz())?,
            view: Mutex::new(state.view()),
            state: Mutex::new(state),
            fresh: !was_there,
        }))
    }

    /// Whether nothing was attached before: then whoever cannot go on should [`detach`] it again.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Puts another configuration in force, which must have a fast path pinned in the same folder.
    ///
    /// # Errors
    ///
    /// What is wrong with it; what was in force stays.
    pub fn apply(&self, config: &Config, verdicts: &Verdicts<'_>) -> Result<(), StartError> {
        let mut state = self.state();
        let applied = state.apply(config, verdicts);
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = state.view();
        applied
    }

    /// Brings the members to what is said of them. `config` must be that in force.
    ///
    /// # Errors
    ///
    /// When a table cannot be written.
    pub fn members(&self, config: &Config, verdicts: &Verdicts<'_>) -> Result<(), StartError> {
        let mut state = self.state();
        let mut pools = state.pools.clone();
        let state = &mut *state;
        let tables = state.instance.tables();
        virtuals::apply(&mut state.balancer, tables, config, &mut pools, verdicts)?;
        Ok(())
    }

    /// What is to be done each second: flows of an earlier table move here, what has expired is swept, and an interface that
    /// came again has its program.
    ///
    /// # Errors
    ///
    /// When a table cannot be read or written, or an interface that came again cannot be attached to; it may go better the
    /// next time.
    pub fn tick(&self) -> Result<(), StartError> {
        self.state().tick()
    }

    /// Has packets from a source dropped for so long.
    ///
    /// # Errors
    ///
    /// When the list is full, or the source everybody.
    pub fn shun(&self, source: Prefix, lasting: Duration, reason: u32) -> Result<(), ShunError> {
        let view = self.now_in_force();
        let now = self.clock.now()?;
        Shuns::new(&view.tables, self.clock.hz())?.add(source, now, lasting, reason)
    }

    /// Its tables as they are now; a configuration may put others in their place.
    pub fn with_tables<T>(&self, f: impl FnOnce(&Tables, &Settings) -> T) -> T {
        let view = self.now_in_force();
        f(&view.tables, &view.settings)
    }

    /// The time in jiffies.
    pub fn now(&self) -> io::Result<u32> {
        self.clock.now()
    }

    /// Jiffies a second.
    pub fn hz(&self) -> u32 {
        self.clock.hz()
    }

    /// Where it is pinned.
    pub fn pins(&self) -> Pins {
        self.state().pins.clone()
    }

    fn now_in_force(&self) -> Arc<View> {
        Arc::clone(&self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the fast path that is pinned in this folder off its interfaces and removes its tables, whether a process looks
/// after it or not. Names the interfaces.
pub fn detach(pins: &Pins) -> Result<Vec<String>, StartError> {
    let tables = match pins.current().map_err(table)? {
        Some(set) => set.tables().map_err(table)?,
        None => Tables::default(),
    };
    let mut names = Vec::new();
    for link in pins.links().map_err(table)? {
        names.push(attached::release(link, &tables)?);
    }
    pins.remove()?;
    Ok(names)
}

#[derive(Debug)]
struct State {
    pins: Pins,
    clock: Clock,
    set: Set,
    instance: Instance,
    /// Those that are wanted, some of which may be gone for now.
    interfaces: Vec<(String, Wanted)>,
    attached: Vec<Attached>,
    drains: Vec<Drain>,
    balancer: Balancer,
    pools: Pools,
}

impl State {
    fn view(&self) -> Arc<View> {
        Arc::new(View {
            tables: self.instance.shared_tables(),
            settings: *self.instance.settings(),
        })
    }

    fn start(pins: Pins, config: &Config, verdicts: &Verdicts<'_>) -> Result<Self, StartError> {
        let Some(path) = &config.fast_path else {
            return Err(StartError::Gone);
        };
        let plan = Plan::of(config, path)?;
        let set = pins.set(&instance::layout(&plan.capacities)?);
        let clock = match told(&set) {
            Some(settings) => Clock::with_hz(settings.hz)?,
            None => Clock::start()?,
        };
        pins.remove_dead_links().map_err(table)?;
        let instance = load(&pins, &set, &plan, config, path, &clock)?;
        let balancer = virtuals::restored(instance.tables()).map_err(table)?;
        let down = virtuals::down(instance.tables()).map_err(table)?;
        // Until monitors know better, a member is as an earlier process knew it.
        let verdicts: &Verdicts<'_> = &|pool, address| {
            verdicts(pool, address).or_else(|| down.contains(&address).then_some(virtuals::DOWN))
        };
        let mut state = Self {
            pins,
            clock,
            set,
            instance,
            interfaces: Vec::new(),
            attached: Vec::new(),
            drains: Vec::new(),
            balancer,
            pools: Pools::default(),
        };
        state.fill(config, path, &plan, verdicts)?;
        state.put_in_force(&plan)?;
        Ok(state)
    }

    fn apply(&mut self, config: &Config, verdicts: &Verdicts<'_>) -> Result<(), StartError> {
        let Some(path) = &config.fast_path else {
            return Err(StartError::Gone);
        };
        if path.pin != self.pins.root() {
            return Err(StartError::Moved);
        }
        let plan = Plan::of(config, path)?;
        let set = self.pins.set(&instance::layout(&plan.capacities)?);
        let settings = plan.settings(config, path, *self.instance.settings());
        if set != self.set || settings != *self.instance.settings() {
            self.instance = load(&self.pins, &set, &plan, config, path, &self.clock)?;
            if set != self.set {
                self.balancer = virtuals::restored(self.instance.tables()).map_err(table)?;
            }
            self.set = set;
        }
        self.fill(config, path, &plan, verdicts)?;
        self.put_in_force(&plan)
    }

    /// Writes what the configuration says to the tables.
    fn fill(
        &mut self,
        config: &Config,
        path: &model::FastPath,
        plan: &Plan,
        verdicts: &Verdicts<'_>,
    ) -> Result<(), StartError> {
        let tables = self.instance.tables();
        let facts = plan.facts();
        interfaces::set_ports(tables, &facts, true).map_err(table)?;
        // Where their addresses are is settled before virtuals are told.
        let mut pools = plan.pools.clone();
        for server in config.virtuals.values() {
            if let Some(model::Snat::Pool(prefixes)) = server.fast().map(|fast| fast.snat) {
                pools.add(&prefixes)?;
            }
        }
        plan::write_nat(tables, path, plan, &pools).map_err(table)?;
        self.pools = pools.clone();
        virtuals::apply(&mut self.balancer, tables, config, &mut pools, verdicts)?;
        Ok(())
    }

    /// Has the interfaces run the programs, and earlier tables drain.
    fn put_in_force(&mut self, plan: &Plan) -> Result<(), StartError> {
        let earlier: Vec<Set> = self.pins.sets().map_err(table)?;
        let earlier: Vec<Set> = earlier.into_iter().filter(|set| *set != self.set).collect();
        self.set.keep_tables(self.instance.tables())?;
        let drains = takeover::chain(&self.instance, earlier).map_err(table)?;
        let facts = plan.facts();
        let known = self.attached.is_empty();
        for (facts, wanted) in &plan.interfaces {
            self.attach(facts, *wanted)?;
        }
        let interfaces = plan.interfaces.iter();
        self.interfaces = interfaces
            .map(|(facts, wanted)| (facts.name.clone(), *wanted))
            .collect();
        for drain in &drains {
            drain.retire().map_err(table)?;
        }
        self.drains = drains;
        let wanted = |ifindex| facts.iter().any(|facts| facts.port.ifindex == ifindex);
        for link in self.pins.links().map_err(table)? {
            if !wanted(link.ifindex()) {
                self.attached
                    .retain(|other| other.ifindex() != link.ifindex());
                let name = attached::release(link, self.instance.tables())?;
                info!(interface = name, "fast path taken off");
            }
        }
        if known {
            interfaces::warn_of_switches(&facts);
        }
        // A program that was replaced may still be at work on a packet, and its chain must not end before it.
        thread::sleep(PACKET);
        self.set.keep_programs(&self.instance).map_err(table)
    }

    fn tick(&mut self) -> Result<(), StartError> {
        self.sweep().map_err(table)?;
        self.drain().map_err(table)?;
        self.refresh_ports()
    }

    fn sweep(&self) -> io::Result<()> {
        let now = self.clock.now()?;
        Shuns::new(self.instance.tables(), self.clock.hz())?.sweep(now)?;
        self.forget_users()
    }

    /// Users without flows need no entry.
    fn forget_users(&self) -> io::Result<()> {
        let users = self.instance.tables().entries::<Addr6, u32>("users")?;
        let idle = users.into_iter().filter(|(_, flows)| *flows == 0);
        let idle: Vec<Addr6> = idle.map(|(user, _)| user).collect();
        // Should one of them begin a flow at this moment, it is not counted: its limit is one too high until it ends.
        map::remove_many(self.instance.tables().table("users")?, &idle).map(|_| ())
    }

    /// An interface's address and MTU may change, and it may go and come again under another number.
    fn refresh_ports(&mut self) -> Result<(), StartError> {
        let interfaces = self.interfaces.iter();
        let there: Vec<(Facts, Wanted)> = interfaces
            .filter_map(|(name, wanted)| Some((Facts::of(name).ok()?, *wanted)))
            .collect();
        let facts: Vec<Facts> = there.iter().map(|(facts, _)| facts.clone()).collect();
        interfaces::set_ports(self.instance.tables(), &facts, false).map_err(table)?;
        for (facts, wanted) in there {
            let known = |one: &Attached| one.ifindex() == facts.port.ifindex;
            if !self.attached.iter().any(known) {
                self.pins.remove_dead_links().map_err(table)?;
                self.attach(&facts, wanted)?;
            }
        }
        Ok(())
    }

    fn attach(&mut self, facts: &Facts, wanted: Wanted) -> Result<(), StartError> {
        interfaces::set_switches(self.instance.tables(), facts).map_err(table)?;
        let program = self.instance.program().map_err(table)?;
        let attached = attached::attach(&self.pins, facts, wanted, program)?;
        info!(
            interface = facts.name,
            mode = attached.mode().as_str(),
            taken_over = attached.taken_over(),
            "fast path attached"
        );
        // The interface of this number, or an earlier one of this name.
        self.attached.retain(|other| {
            other.ifindex() != attached.ifindex() && interface::name(other.ifindex()).is_ok()
        });
        self.attached.push(attached);
        Ok(())
    }

    /// Moves flows of earlier tables here; those that are empty go.
    fn drain(&mut self) -> io::Result<()> {
        let mut gone = Vec::new();
        let mut left = Vec::new();
        for mut drain in self.drains.drain(..) {
            let over = drain
                .step(&self.instance, &self.clock)
                .unwrap_or_else(|error| {
                    warn!("moving flows from an earlier table: {error}");
                    false
                });
            if over {
                gone.push(drain);
            } else {
                left.push(drain);
            }
        }
        self.drains = left;
        if gone.is_empty() {
            return Ok(());
        }
        takeover::join(&self.instance, &self.drains)?;
        // Programs of those that go may still have packets.
        thread::sleep(PACKET);
        for drain in gone {
            drain.set().remove().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// Longer than a program takes for the packets that it is given together.
const PACKET: Duration = Duration::from_millis(20);

/// The name of the table with what programs were told.
pub(crate) const SETTINGS: &str = "settings";

/// What the programs of a set were told.
pub(crate) fn told(set: &Set) -> Option<Settings> {
    let settings = set.table(SETTINGS).ok()?;
    map::get::<u32, Settings>(&settings, &0).ok()?
}

/// Loads the programs for a set, with its tables where it has any.
fn load(
    pins: &Pins,
    set: &Set,
    plan: &Plan,
    config: &Config,
    path: &model::FastPath,
    clock: &Clock,
) -> Result<Instance, StartError> {
    let earlier = told(set);
    let base = match earlier {
        Some(settings) => settings,
        None => Settings::new(clock.hz(), seed()),
    };
    let mut settings = plan.settings(config, path, base);
    let others = pins.sets().map_err(table)?;
    settings.drains = others.iter().any(|other| other != set).into();
    let maps = set.maps();
    let reused = earlier.is_some().then_some(&*maps);
    if earlier.is_none() {
        // What a start that failed has left.
        set.remove()?;
    }
    let own = match reused {
        Some(_) => vec![
            (SETTINGS, set.table(SETTINGS).map_err(table)?),
            (names::TABLE, set.table(names::TABLE).map_err(table)?),
        ],
        None => {
            let (key, value) = (size_of::<u32>(), size_of::<Settings>());
            let told = map::create(MapType::Array, SETTINGS, key as u32, value as u32, 1, 0);
            vec![
                (SETTINGS, told.map_err(table)?),
                (names::TABLE, names::create().map_err(table)?),
            ]
        }
    };
    let instance = Instance::load_with(&plan.capacities, &settings, reused, own)?;
    let settings = *instance.settings();
    instance
        .tables()
        .set(SETTINGS, &0u32, &settings)
        .map_err(table)?;
    instance
        .tables()
        .set("retired", &0u32, &0u32)
        .map_err(table)?;
    if earlier.is_none()
        && let Some(before) = others.iter().find(|other| !other.is_retired())
    {
        takeover::inherit(before, instance.tables()).map_err(table)?;
    }
    Ok(instance)
}

/// Nobody must be able to guess it, else one could fill one bucket of the index.
fn seed() -> [u64; 2] {
    use std::hash::{BuildHasher, Hasher, RandomState};
    [(); 2].map(|()| RandomState::new().build_hasher().finish())
}

fn table(source: io::Error) -> StartError {
    StartError::Table(source)
}
