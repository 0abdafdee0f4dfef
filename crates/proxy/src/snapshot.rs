//! The configuration as the workers use it: immutable, looked up without a lock, replaced as a whole.
//!
//! What outlives a snapshot (pools with their members' state, counters, logs) is held by `Arc` and
//! handed from one snapshot to the next; how that is done is in `compile`.

use crate::access::AccessLog;
use crate::counters::VirtualCounters;
use crate::http::edit::Edits;
use crate::http::route::Route;
use crate::rules::{RuleSet, World};
use addr::PrefixSet;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// An applied configuration.
pub struct Snapshot {
    /// Counts up with every configuration applied.
    pub generation: u64,
    /// What it was made from.
    pub config: Arc<model::Config>,
    /// By name.
    pub virtuals: BTreeMap<model::Name, Arc<Virtual>>,
    /// By name.
    pub backends: BTreeMap<model::Name, Arc<Backend>>,
    /// Which virtual is served at an address.
    pub(crate) by_address: HashMap<SocketAddr, Arc<Virtual>>,
    /// What rules look things up in.
    pub(crate) world: Arc<World>,
}

impl Snapshot {
    /// Where a virtual is bound; port 0 is replaced by the port it got.
    pub fn addresses(&self, name: &str) -> Vec<SocketAddr> {
        let bound = self.by_address.iter();
        let own = bound.filter(|(_, service)| *service.name == *name);
        let mut addresses: Vec<_> = own.map(|(&address, _)| address).collect();
        addresses.sort_unstable();
        addresses
    }

    /// What is in force before the first configuration: nothing.
    pub(crate) fn empty() -> Self {
        Snapshot {
            generation: 0,
            config: Arc::default(),
            virtuals: BTreeMap::new(),
            backends: BTreeMap::new(),
            by_address: HashMap::new(),
            world: Arc::default(),
        }
    }
}

/// A virtual, ready to serve.
pub struct Virtual {
    /// Its name.
    pub name: model::Name,
    /// Its configuration.
    pub config: model::Virtual,
    /// What outlives this snapshot.
    pub state: Arc<VirtualState>,
    pub(crate) tls: Option<Arc<tls::ServerContext>>,
    /// Those who may send PROXY headers.
    pub(crate) proxy_from: PrefixSet,
    pub(crate) trusted_proxies: PrefixSet,
    pub(crate) allow: PrefixSet,
    pub(crate) deny: PrefixSet,
    /// For what no route takes.
    pub(crate) default: Option<Arc<Backend>>,
    pub(crate) routes: Vec<Route>,
    /// What each route asks of a request.
    pub(crate) cases: Arc<[rules::policy::Case]>,
    pub(crate) sni_routes: Vec<(Vec<model::HostPattern>, Arc<Backend>)>,
    pub(crate) edits: Edits,
    pub(crate) head_limits: wire::h1::HeadLimits,
    pub(crate) log: Option<Arc<AccessLog>>,
    /// What runs at the events of its connections.
    pub(crate) rules: Option<Arc<RuleSet>>,
}

/// What stays of a virtual from one snapshot to the next.
#[derive(Default)]
pub struct VirtualState {
    /// Its counters.
    pub counters: VirtualCounters,
    /// Its open connections.
    pub active: AtomicUsize,
    pub(crate) per_address: crate::limit::PerAddress,
}

/// A pool, ready to be asked for members.
pub struct Backend {
    /// Its number, the same in every snapshot.
    pub(crate) id: u32,
    /// Its name.
    pub name: model::Name,
    /// Its configuration.
    pub config: model::Pool,
    /// Members with their state; the same in every snapshot.
    pub pool: Arc<balance::Pool>,
    pub(crate) tls: Option<Arc<tls::ClientContext>>,
    /// The name to verify and to send by member name; members that are not here go by their address.
    pub(crate) host_names: HashMap<Arc<str>, Arc<str>>,
    pub(crate) retry_on: RetryOn,
    pub(crate) keep_idle: Duration,
}

/// `retry.on`, as questions that are cheap to ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryOn {
    pub(crate) connect_failure: bool,
    pub(crate) reset: bool,
    pub(crate) response_timeout: bool,
    pub(crate) statuses: Vec<u16>,
}
