//! Log data that rules send straight to the members of a pool: `HSL::`. Nobody waits for it: what finds no room is
//! dropped and counted.

use super::host::plain;
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use reactor::{ConnectOptions, Tcp};
use rules::host::LogTarget;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Bytes that may wait for one server.
const ROOM: usize = 4 * 1024 * 1024;

/// How long a new connection may take, and how long one rests that has failed.
const CONNECT: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_secs(1);

/// The ways of one worker's rules to their servers.
#[derive(Default)]
pub(crate) struct Ways {
    known: RefCell<Known>,
    v4: RefCell<Option<UdpSocket>>,
    v6: RefCell<Option<UdpSocket>>,
}

#[derive(Default)]
struct Known {
    by_target: HashMap<LogTarget, u64>,
    ways: Vec<Rc<Way>>,
}

struct Way {
    target: LogTarget,
    queue: RefCell<VecDeque<Vec<u8>>>,
    queued: Cell<usize>,
    /// Whether a task sends what is queued.
    sends: Cell<bool>,
}

impl Ways {
    /// Opens a way; the same one for the same target.
    pub(super) fn open(&self, snapshot: &Snapshot, target: LogTarget) -> Result<u64, String> {
        if !snapshot.backends.contains_key(plain(&target.pool)) {
            let name = String::from_utf8_lossy(&target.pool);
            return Err(format!("no pool is named \"{name}\""));
        }
        let mut known = self.known.borrow_mut();
        if let Some(&handle) = known.by_target.get(&target) {
            return Ok(handle);
        }
        known.ways.push(Rc::new(Way {
            target: target.clone(),
            queue: RefCell::default(),
            queued: Cell::new(0),
            sends: Cell::new(false),
        }));
        let handle = known.ways.len() as u64;
        known.by_target.insert(target, handle);
        Ok(handle)
    }

    /// Sends on a way: whether the data was taken.
    pub(super) fn send(&self, worker: &Worker, handle: u64, data: &[u8]) -> bool {
        let place = usize::try_from(handle).ok().and_then(|n| n.checked_sub(1));
        let way = place.and_then(|n| self.known.borrow().ways.get(n).cloned());
        let taken = match way {
            None => false,
            Some(way) if way.target.tcp => enqueue(worker, &way, data),
            Some(way) => self.datagram(worker, &way.target, data).is_ok(),
        };
        if !taken {
            worker.shared.rules.log_dropped.fetch_add(1, Relaxed);
        }
        taken
    }

    fn datagram(&self, worker: &Worker, target: &LogTarget, data: &[u8]) -> io::Result<usize> {
        let to = member(worker, target).ok_or(io::ErrorKind::NotFound)?;
        let (socket, from): (_, SocketAddr) = match to {
            SocketAddr::V4(_) => (&self.v4, (Ipv4Addr::UNSPECIFIED, 0).into()),
            SocketAddr::V6(_) => (&self.v6, (Ipv6Addr::UNSPECIFIED, 0).into()),
        };
        let mut socket = socket.borrow_mut();
        if socket.is_none() {
            let made = UdpSocket::bind(from)?;
            made.set_nonblocking(true)?;
            *socket = Some(made);
        }
        let socket = socket.as_ref().ok_or(io::ErrorKind::NotFound)?;
        socket.send_to(data, to)
    }
}

/// A member of the pool, by its balancing.
fn member(worker: &Worker, target: &LogTarget) -> Option<SocketAddr> {
    let snapshot = worker.in_force();
    let backend = snapshot.backends.get(plain(&target.pool))?;
    let ask = balance::Ask {
        random: worker.random(),
        ..balance::Ask::default()
    };
    match backend.pool.pick(&ask, worker.now()) {
        balance::Pick::Slot(slot) => Some(slot.member().address()),
        balance::Pick::Full | balance::Pick::Down => None,
    }
}

fn enqueue(worker: &Worker, way: &Rc<Way>, data: &[u8]) -> bool {
    if way.queued.get() + data.len() > ROOM {
        return false;
    }
    way.queued.set(way.queued.get() + data.len());
    way.queue.borrow_mut().push_back(data.to_vec());
    if let Some(worker) = worker.me.upgrade()
        && !way.sends.replace(true)
    {
        reactor::spawn(drain(worker, Rc::clone(way)));
    }
    true
}

/// Sends what is queued over one connection, until nothing is left.
async fn drain(worker: Rc<Worker>, way: Rc<Way>) {
    let mut tcp: Option<Tcp> = None;
    let mut failures = 0;
    loop {
        let Some(data) = way.queue.borrow_mut().pop_front() else {
            break;
        };
        way.queued.set(way.queued.get() - data.len());
        let sent = async {
            if tcp.as_ref().is_none_or(Tcp::is_hung_up) {
                let to = member(&worker, &way.target).ok_or(io::ErrorKind::NotFound)?;
                let options = ConnectOptions::default();
                let opened = reactor::timeout(CONNECT, Tcp::connect(to, &options)).await;
                tcp = Some(opened.map_err(|_| io::ErrorKind::TimedOut)??);
            }
            match &tcp {
                Some(tcp) => tcp.write_all(&data).await,
                None => Err(io::ErrorKind::NotFound.into()),
            }
        };
        if sent.await.is_ok() {
            failures = 0;
            // The connection stays for what comes soon.
            if way.queue.borrow().is_empty() {
                reactor::sleep(REST).await;
            }
            continue;
        }
        tcp = None;
        failures += 1;
        if failures <= 3 {
            way.queued.set(way.queued.get() + data.len());
            way.queue.borrow_mut().push_front(data);
        } else {
            worker.shared.rules.log_dropped.fetch_add(1, Relaxed);
        }
        reactor::sleep(REST).await;
    }
    way.sends.set(false);
}
