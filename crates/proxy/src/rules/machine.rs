//! A worker's engine and the programs it has loaded.

use super::host::{Files, WorkerHost};
use super::policy::Policy;
use super::profile::RuleProfile;
use super::sideband::Sidebands;
use super::syslog::Ways;
use super::world::{Limits, RuleSet};
use crate::client::Client;
use crate::snapshot::{Snapshot, Virtual};
use crate::sys;
use crate::worker::Worker;
use rules::{Engine, Failure, Program};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tracing::error;
use wire::h1::RequestHead;

/// What a worker needs to run rules.
#[derive(Default)]
pub(crate) struct Machine {
    /// Made when there is a rule to run.
    engine: RefCell<Option<(Limits, Engine)>>,
    loaded: RefCell<HashMap<model::Name, Loaded>>,
    policies: RefCell<HashMap<model::Name, Rc<Policy>>>,
    /// Whether a task waits for scripts that `RULE_INIT` has set.
    waits: Cell<bool>,
    entropy: RefCell<Vec<u64>>,
    pub(super) files: RefCell<Files>,
    pub(super) ways: Ways,
    pub(super) sidebands: Sidebands,
}

/// A virtual's rules, loaded.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) set: Arc<RuleSet>,
    pub(super) program: Rc<Program>,
    pub(super) name: Rc<str>,
    pub(super) pool: Rc<str>,
}

impl Machine {
    /// Loads the rules of the configuration in force, and runs `RULE_INIT` of those that are new.
    pub(crate) fn prepare(&self, worker: &Worker) {
        let snapshot = worker.snapshot();
        self.files.borrow_mut().forget();
        if snapshot
            .virtuals
            .values()
            .all(|v| v.rules.is_none() && v.routes.is_empty())
        {
            self.loaded.borrow_mut().clear();
            self.policies.borrow_mut().clear();
            return;
        }
        self.limit(worker, &snapshot);
        self.prepare_policies(&snapshot);
        let mut loaded = HashMap::new();
        let before = self.loaded.take();
        let mut failures = Vec::new();
        for (name, service) in &snapshot.virtuals {
            let Some(set) = &service.rules else { continue };
            let known = before
                .get(name)
                .filter(|known| Arc::ptr_eq(&known.set, set));
            let program = match known {
                Some(known) => Rc::clone(&known.program),
                None => match self.with(|engine| engine.load(&set.sources)) {
                    Ok(program) => program,
                    Err(problems) => {
                        // They were compiled before the configuration was taken.
                        for problem in problems {
                            let (rule, line) = (&problem.rule, problem.line);
                            error!(%rule, line, "a rule cannot be loaded: {}", problem.message);
                        }
                        continue;
                    }
                },
            };
            let mut host = WorkerHost::new(worker);
            failures.extend(self.with(|engine| engine.init(&program, &mut host)));
            let pool = service.config.pool.as_ref();
            let entry = Loaded {
                set: Arc::clone(set),
                program,
                name: name.as_str().into(),
                pool: pool.map_or("", |pool| pool.as_str()).into(),
            };
            loaded.insert(name.clone(), entry);
        }
        self.loaded.replace(loaded);
        let configured = &snapshot.config.rules;
        self.with(|engine| engine.retain(|name| configured.contains_key(name)));
        for failure in failures {
            report(worker, &failure);
        }
        self.wait(worker);
    }

    /// Compiles the routes of the virtuals, where they are not the same as before.
    fn prepare_policies(&self, snapshot: &Snapshot) {
        let before = self.policies.take();
        let mut policies = HashMap::new();
        for (name, service) in &snapshot.virtuals {
            let known = before.get(name).filter(|known| known.is_of(&service.cases));
            let policy = match known {
                Some(known) => Some(Rc::clone(known)),
                None if service.routes.is_empty() => None,
                None => self.with(|engine| Policy::load(engine, name.as_str(), &service.cases)),
            };
            policies.extend(policy.map(|policy| (name.clone(), policy)));
        }
        self.policies.replace(policies);
    }

    /// The number of the route of a virtual that takes a request, if one does.
    pub(crate) fn route(
        &self,
        worker: &Worker,
        client: &Client,
        service: &Virtual,
        head: &RequestHead,
        buf: &[u8],
    ) -> Option<usize> {
        let policy = self.policies.borrow().get(&service.name).cloned();
        match policy {
            Some(policy) if policy.is_of(&service.cases) => {
                policy.decide(worker, client, head, buf)
            }
            // The virtual is one of a configuration that is no longer in force, for this last exchange.
            _ => {
                let policy = self
                    .with(|engine| Policy::load(engine, service.name.as_str(), &service.cases))?;
                policy.decide(worker, client, head, buf)
            }
        }
    }

    /// A virtual's rules, as this worker has loaded them.
    pub(super) fn loaded(&self, name: &model::Name) -> Option<Loaded> {
        self.loaded.borrow().get(name).cloned()
    }

    /// Asks something of the engine. Not to be nested.
    pub(super) fn with<R>(&self, ask: impl FnOnce(&mut Engine) -> R) -> R {
        let mut engine = self.engine.borrow_mut();
        let (_, engine) = engine.get_or_insert_with(|| {
            let limits = Limits::default();
            (limits, Engine::new(limits.for_engine(), self.random()))
        });
        ask(engine)
    }

    /// 64 bits that nobody can foresee.
    pub(super) fn random(&self) -> u64 {
        let mut entropy = self.entropy.borrow_mut();
        if entropy.is_empty() {
            entropy.resize(64, 0);
            sys::random(&mut entropy);
        }
        entropy.pop().unwrap_or_default()
    }

    /// How often handlers and commands ran, and how long.
    pub(crate) fn profile(&self) -> Vec<RuleProfile> {
        let loaded = self.loaded.borrow();
        let rows = loaded.values().flat_map(|l| l.program.profile());
        rows.map(|row| RuleProfile::of(&row)).collect()
    }

    /// Sees to it that the engine has the limits of the configuration.
    fn limit(&self, worker: &Worker, snapshot: &Snapshot) {
        let limits = snapshot.world.limits;
        let mut engine = self.engine.borrow_mut();
        match &mut *engine {
            Some((known, _)) if *known == limits => {}
            Some((known, engine)) => {
                *known = limits;
                engine.set_limits(limits.for_engine());
            }
            None => {
                let seed = worker.random();
                let mut made = Engine::new(limits.for_engine(), seed);
                made.set_profiling(true);
                *engine = Some((limits, made));
            }
        }
    }

    /// Has scripts run that `RULE_INIT` has set for later.
    fn wait(&self, worker: &Worker) {
        if self.waits.get() || self.with(|engine| engine.next_due()).is_none() {
            return;
        }
        let Some(worker) = worker.me.upgrade() else {
            return;
        };
        self.waits.set(true);
        reactor::spawn(async move {
            while let Some(due) = worker.rules.with(|engine| engine.next_due()) {
                sleep_until(due).await;
                let mut host = WorkerHost::new(&worker);
                let failures = worker.rules.with(|engine| engine.run_due(&mut host));
                drop(host);
                for failure in failures {
                    report(&worker, &failure);
                }
            }
            worker.rules.waits.set(false);
        });
    }
}

/// Time since the Unix epoch.
pub(super) fn now() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Waits until that time, a millisecond at least: what is due at once still lets others go first.
pub(super) async fn sleep_until(due: Duration) {
    let left = due.saturating_sub(now());
    reactor::sleep(left.max(Duration::from_millis(1))).await;
}

/// Counts and logs what has ended an event early.
pub(super) fn report(worker: &Worker, failure: &Failure) {
    let exhausted = failure.exhausted.is_some();
    let common = &worker.shared.rules;
    common.count_failure(&failure.rule, exhausted);
    error!(
        rule = %failure.rule,
        event = %failure.event,
        line = failure.line,
        command = failure.command,
        "TCL error: {}",
        failure.stack,
    );
}
