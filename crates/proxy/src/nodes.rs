//! Members that no pool has: addresses that rules send requests to. Each worker makes a pool of one for each, with the
//! settings of the virtual's own pool.

use crate::snapshot::Backend;
use balance::{MemberSettings, Pool, PoolSettings};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// The nodes of a worker.
#[derive(Default)]
pub(crate) struct Nodes {
    known: RefCell<Known>,
    /// Numbers given so far: none is given twice, for connections are kept by them.
    given: Cell<u32>,
}

/// By address, and the number of the pool whose settings they have.
type Known = HashMap<(SocketAddr, Option<u32>), Arc<Backend>>;

/// Beyond this many, all are forgotten.
const MOST: usize = 4096;

/// Numbers of nodes' pools begin here, those of the configuration's are below.
const FIRST_ID: u32 = 1 << 31;

impl Nodes {
    /// A pool of that address alone, with the settings of `like`.
    pub(crate) fn backend(&self, address: SocketAddr, like: Option<&Backend>) -> Arc<Backend> {
        let mut known = self.known.borrow_mut();
        let key = (address, like.map(|backend| backend.id));
        if let Some(backend) = known.get(&key) {
            return Arc::clone(backend);
        }
        if known.len() >= MOST {
            known.clear();
        }
        let given = self.given.get();
        self.given.set(given.wrapping_add(1) % FIRST_ID);
        let backend = Arc::new(make(address, like, FIRST_ID + given));
        known.insert(key, Arc::clone(&backend));
        backend
    }

    /// Forgets them: another configuration is in force.
    pub(crate) fn forget(&self) {
        self.known.borrow_mut().clear();
    }
}

fn make(address: SocketAddr, like: Option<&Backend>, id: u32) -> Backend {
    let name = address.to_string();
    let settings = PoolSettings {
        members: vec![MemberSettings::new(name.as_str(), address)],
        ..PoolSettings::default()
    };
    let config = like.map_or_else(plain_pool, |like| like.config.clone());
    Backend {
        id,
        name: model::Name::new(&name).expect("an address with its port can be a name"),
        pool: Pool::new(settings, 0),
        tls: like.and_then(|like| like.tls.clone()),
        host_names: HashMap::new(),
        retry_on: like.map_or_else(Default::default, |like| like.retry_on.clone()),
        keep_idle: config.keepalive.idle,
        config,
    }
}

/// The settings of a pool about which nothing is said.
fn plain_pool() -> model::Pool {
    model::Pool {
        balance: model::Balance::First,
        monitors: Vec::new(),
        members: Vec::new(),
        limits: model::PoolLimits::default(),
        slow_start: std::time::Duration::ZERO,
        retry: model::Retry::default(),
        timeouts: model::PoolTimeouts::default(),
        keepalive: model::Keepalive::default(),
        ejection: None,
        tls: None,
        proxy_protocol: model::ProxyProtocol::Off,
    }
}
