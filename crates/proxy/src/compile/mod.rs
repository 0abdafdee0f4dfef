//! A configuration made ready to serve: certificates read, pools and monitors prepared, routes and
//! logs set up. All that is wrong is told at once, and nothing that runs is touched: what is made
//! here takes effect when `engine` publishes it.

mod monitor;
mod pool;
mod rules;
mod tls;

pub(crate) use monitor::{Clock, targets};
pub(crate) use pool::settings as pool_settings;

use crate::access::AccessLog;
use crate::http::edit::Edits;
use crate::http::route::Route;
use crate::resolve::Table;
use crate::rules::{World, policy};
use crate::snapshot::{Backend, Snapshot, Virtual, VirtualState};
use balance::{Millis, Pool, PoolSettings};
use model::Name;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

/// Something in the configuration that cannot be put to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct CompileError {
    /// Where it is asked for: `tls_profiles.site.certificates[0]`.
    pub at: String,
    /// What is wrong, and what helps.
    pub problem: String,
}

/// What one snapshot passes on to the next.
#[derive(Clone, Default)]
pub(crate) struct Kept {
    states: BTreeMap<Name, Arc<VirtualState>>,
    pools: BTreeMap<Name, (u32, Arc<Pool>)>,
    next_pool: u32,
    tls: tls::Kept,
    logs: Vec<(model::AccessLog, Option<Arc<AccessLog>>)>,
    rules: rules::Kept,
}

/// A configuration made ready.
pub(crate) struct Compiled {
    config: Arc<model::Config>,
    virtuals: BTreeMap<Name, Arc<Virtual>>,
    backends: BTreeMap<Name, Arc<Backend>>,
    world: Arc<World>,
    /// Settings for the pools that were there before.
    pub(crate) pools: Vec<(Arc<Pool>, PoolSettings)>,
    /// Logs that were open before: to be opened anew, as a reload is asked to.
    pub(crate) reopen: Vec<Arc<AccessLog>>,
    pub(crate) kept: Kept,
    /// What is worth a warning but no refusal.
    pub(crate) warnings: Vec<String>,
}

impl Compiled {
    /// The snapshot, once it is known where each virtual is bound.
    pub(crate) fn snapshot(
        &self,
        generation: u64,
        bound: impl Iterator<Item = (Name, SocketAddr)>,
    ) -> Arc<Snapshot> {
        let by_address = bound.filter_map(|(name, address)| {
            let service = self.virtuals.get(&name)?;
            Some((address, Arc::clone(service)))
        });
        Arc::new(Snapshot {
            generation,
            config: Arc::clone(&self.config),
            by_address: by_address.collect(),
            virtuals: self.virtuals.clone(),
            backends: self.backends.clone(),
            world: Arc::clone(&self.world),
        })
    }
}

/// Makes a configuration ready; `before` is what the last one left, `names` what host names mean.
///
/// # Errors
///
/// Everything that is wrong.
pub(crate) fn compile(
    config: &Arc<model::Config>,
    before: &Kept,
    names: &Table,
    now: Millis,
) -> Result<Compiled, Vec<CompileError>> {
    let mut compiler = Compiler::new(config, before);
    let mut backends = BTreeMap::new();
    for (name, pool) in &config.pools {
        if let Some(backend) = compiler.backend(name, pool, names, now) {
            backends.insert(name.clone(), Arc::new(backend));
        }
    }
    let mut virtuals = BTreeMap::new();
    for (name, service) in &config.virtuals {
        if service.protocol == model::Protocol::Fast {
            continue; // not ours: the fast path's
        }
        if let Some(service) = compiler.service(name, service, &backends) {
            virtuals.insert(name.clone(), Arc::new(service));
        }
    }
    let world = compiler.world();
    compiler.monitor_tls();
    compiler.unused_profiles();
    if !compiler.errors.is_empty() {
        return Err(compiler.errors);
    }
    Ok(Compiled {
        config: Arc::clone(config),
        virtuals,
        backends,
        world: Arc::new(world),
        pools: compiler.pools,
        reopen: compiler.reopen,
        kept: compiler.kept,
        warnings: compiler.warnings,
    })
}

/// All that is wrong with a configuration's rules and with what they look things up in. Nothing is opened for it but files
/// that are read.
pub fn check_rules(config: &model::Config) -> Vec<CompileError> {
    let before = Kept::default();
    let mut compiler = Compiler::new(config, &before);
    for (name, service) in &config.virtuals {
        compiler.rules(name, service);
    }
    compiler.world();
    compiler.errors
}

/// A configuration on its way.
struct Compiler<'a> {
    config: &'a model::Config,
    before: &'a Kept,
    kept: Kept,
    pools: Vec<(Arc<Pool>, PoolSettings)>,
    reopen: Vec<Arc<AccessLog>>,
    errors: Vec<CompileError>,
    warnings: Vec<String>,
}

impl<'a> Compiler<'a> {
    fn new(config: &'a model::Config, before: &'a Kept) -> Self {
        Compiler {
            config,
            before,
            kept: Kept {
                next_pool: before.next_pool,
                ..Kept::default()
            },
            pools: Vec::new(),
            reopen: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn error(&mut self, at: impl Into<String>, problem: impl ToString) {
        let error = CompileError {
            at: at.into(),
            problem: problem.to_string(),
        };
        // One profile or log may serve many virtuals.
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn backend(
        &mut self,
        name: &Name,
        config: &model::Pool,
        names: &Table,
        now: Millis,
    ) -> Option<Backend> {
        let tls = match &config.tls {
            None => None,
            Some(tls) => Some(self.client_tls(name, tls)?),
        };
        let settings = pool::settings(config, names);
        let (id, pool) = match self.before.pools.get(name) {
            Some((id, pool)) => {
                self.pools.push((Arc::clone(pool), settings));
                (*id, Arc::clone(pool))
            }
            None => {
                self.kept.next_pool += 1;
                (self.kept.next_pool, Pool::new(settings, now))
            }
        };
        let kept = (id, Arc::clone(&pool));
        self.kept.pools.insert(name.clone(), kept);
        Some(Backend {
            id,
            name: name.clone(),
            pool,
            tls,
            host_names: pool::host_names(config),
            retry_on: pool::retry_on(&config.retry),
            keep_idle: config.keepalive.idle,
            config: config.clone(),
        })
    }

    fn service(
        &mut self,
        name: &Name,
        config: &model::Virtual,
        backends: &BTreeMap<Name, Arc<Backend>>,
    ) -> Option<Virtual> {
        let http = config.protocol == model::Protocol::Http;
        let tls = match &config.tls {
            None => None,
            Some(profile) => Some(self.server_tls(profile, http)?),
        };
        let rules = self.rules(name, config)?;
        let log = self.access_log(name, &config.log.access)?;
        // A pool that is missing could not be made ready, which has been told.
        let find = |pool: &model::PoolName| backends.get(pool.as_str()).cloned();
        let default = match &config.pool {
            None => None,
            Some(pool) => Some(find(pool)?),
        };
        let routes = config.routes.iter();
        let routes = routes.map(|route| Route::compile(route, &config.headers, find));
        let sni_routes = config.sni_routes.iter();
        let sni_routes = sni_routes.map(|route| Some((route.sni.clone(), find(&route.pool)?)));
        let state = self.before.states.get(name).cloned().unwrap_or_default();
        self.kept.states.insert(name.clone(), Arc::clone(&state));
        let set = |entries: &[model::AddressEntry]| self.config.prefix_set(entries);
        Some(Virtual {
            name: name.clone(),
            state,
            tls,
            proxy_from: config
                .proxy_protocol
                .as_ref()
                .map_or_else(Default::default, |accept| set(&accept.from)),
            trusted_proxies: set(&config.trusted_proxies),
            allow: set(&config.allow),
            deny: set(&config.deny),
            default,
            routes: routes.collect::<Option<_>>()?,
            cases: config
                .routes
                .iter()
                .map(|route| policy::case(&route.when))
                .collect(),
            sni_routes: sni_routes.collect::<Option<_>>()?,
            edits: Edits::compile(&config.headers, None),
            head_limits: wire::h1::HeadLimits {
                head_bytes: config.limits.head_bytes.as_usize(),
                fields: config.limits.headers,
                target_bytes: config.limits.uri_bytes.as_usize(),
                connect: false,
            },
            log,
            rules,
            config: config.clone(),
        })
    }

    /// The access log of a virtual; the outer `None` if it cannot be opened.
    #[expect(clippy::option_option, reason = "the inner one is a log that is off")]
    fn access_log(
        &mut self,
        name: &Name,
        wanted: &model::VirtualAccessLog,
    ) -> Option<Option<Arc<AccessLog>>> {
        let (config, at) = match wanted {
            model::VirtualAccessLog::Inherit => (&self.config.log.access, "log.access".to_owned()),
            model::VirtualAccessLog::Own(own) => (own, format!("virtuals.{name}.log.access")),
        };
        let open = |logs: &[(model::AccessLog, Option<Arc<AccessLog>>)]| {
            let found = logs
                .iter()
                .find(|(as_configured, _)| as_configured == config);
            found.map(|(_, log)| log.clone())
        };
        if let Some(log) = open(&self.kept.logs) {
            return Some(log);
        }
        let log = match open(&self.before.logs) {
            Some(log) => {
                self.reopen.extend(log.clone());
                log
            }
            None => match AccessLog::open(config) {
                Ok(log) => log,
                Err(error) => {
                    self.error(at, error);
                    return None;
                }
            },
        };
        self.kept.logs.push((config.clone(), log.clone()));
        Some(log)
    }
}

/// Host names by member name.
type HostNames = HashMap<Arc<str>, Arc<str>>;

#[cfg(test)]
mod tests;
