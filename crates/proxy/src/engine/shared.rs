//! What all workers share: the process's counts, and the way to each other.

use crate::accept::Arrival;
use crate::listen::Socket;
use crate::rules::{Common, RuleProfile};
use crate::shun::{ShunList, Shunned};
use crate::snapshot::Snapshot;
use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;
use reactor::Mailbox;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Where in its life the process, or one of its workers, is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It serves.
    Running,
    /// It takes no new connections; idle ones close, and responses say that theirs will.
    Draining,
    /// Time is up: connections end where they are.
    Stopping,
}

/// How many connections a worker has.
pub(crate) type Gauge = CachePadded<AtomicUsize>;

/// What all workers share.
pub(crate) struct Shared {
    /// The origin of the clock that `balance` is asked by.
    pub(crate) started: Instant,
    /// Client connections of the whole process.
    pub(crate) connections: CachePadded<AtomicUsize>,
    /// The most there may be.
    pub(crate) connection_limit: AtomicUsize,
    /// Times that a worker stopped accepting for want of descriptors or memory.
    pub(crate) accept_pauses: AtomicU64,
    /// When that was last complained of, in milliseconds from `started`; 0 for never.
    pub(crate) complained: AtomicU64,
    /// Workers that take new connections.
    pub(crate) peers: ArcSwap<Vec<Peer>>,
    /// What rules share.
    pub(crate) rules: Common,
    /// Whose connections are turned away.
    pub(crate) shunned: Shunned,
    /// Who drops their packets, where somebody does.
    shun: Option<Arc<dyn ShunList>>,
}

/// A worker, as the others see it.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) index: usize,
    pub(crate) load: Arc<Gauge>,
    pub(crate) mail: Mailbox<Message>,
}

/// What a worker is told.
pub(crate) enum Message {
    /// Another configuration is in force.
    Snapshot(Arc<Snapshot>),
    /// These are the sockets it serves from now on.
    Listen(Vec<Arc<Socket>>),
    /// A connection that another worker accepted, to be served.
    Serve(Arrival),
    Phase(Phase),
    /// It tells what its rules take.
    Profile(Sender<Vec<RuleProfile>>),
    /// It takes nothing new and ends with its last connection.
    Retire,
}

impl Shared {
    pub(crate) fn new(
        connection_limit: usize,
        rules: Common,
        shun: Option<Arc<dyn ShunList>>,
    ) -> Arc<Self> {
        Arc::new(Shared {
            started: Instant::now(),
            connections: CachePadded::default(),
            connection_limit: AtomicUsize::new(connection_limit),
            accept_pauses: AtomicU64::new(0),
            complained: AtomicU64::new(0),
            peers: ArcSwap::from_pointee(Vec::new()),
            rules,
            shunned: Shunned::default(),
            shun,
        })
    }

    /// The clock that `balance` is asked by, for threads other than workers.
    pub(crate) fn now(&self) -> balance::Millis {
        self.started.elapsed().as_millis() as u64
    }

    /// Has an offender turned away for so long. Returns whether somebody sees to it.
    pub(crate) fn shun(&self, address: IpAddr, lasting: Duration) -> bool {
        match &self.shun {
            Some(list) => list.shun(address, lasting),
            None => self.shunned.add(address, self.now(), lasting),
        }
    }

    /// The worker that a new connection of worker `own` had better go to, if not to itself.
    pub(crate) fn relief_for(&self, own: usize) -> Option<Peer> {
        let peers = self.peers.load();
        if peers.len() < 2 {
            return None;
        }
        let load = |peer: &Peer| peer.load.load(Relaxed);
        let mine = peers.iter().find(|peer| peer.index == own).map(load)?;
        let least = relief(mine, peers.iter().map(load))?;
        peers.get(least).cloned()
    }
}

/// Which of `loads` a connection goes to whose own worker has `own`: the least, if that is so much
/// less that the way there pays, which costs a wake-up of another thread. A few long connections
/// are spread evenly by it, while many short ones mostly stay where the kernel put them.
fn relief(own: usize, loads: impl Iterator<Item = usize>) -> Option<usize> {
    let (index, least) = loads.enumerate().min_by_key(|&(_, load)| load)?;
    // Few are dealt out exactly; of many a quarter more is no matter.
    let slack = if least < FEW { 1 } else { 1 + least / 4 };
    (own > least + slack).then_some(index)
}

/// Connections on a worker up to which each of them counts.
const FEW: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_connection_stays_unless_another_worker_has_clearly_fewer() {
        assert_eq!(relief(1, [1, 0].into_iter()), None);
        assert_eq!(relief(2, [2, 0].into_iter()), Some(1));
        assert_eq!(relief(6, [6, 5, 4].into_iter()), Some(2));
        assert_eq!(relief(165, [165, 160].into_iter()), None);
        assert_eq!(relief(202, [202, 160].into_iter()), Some(1));
    }

    proptest! {
        /// However the kernel deals connections out, no worker gets far above the least loaded.
        #[test]
        fn long_connections_end_up_spread(arrivals in proptest::collection::vec(0usize..4, 1..400)) {
            let mut loads = [0usize; 4];
            for own in arrivals {
                let to = relief(loads[own], loads.iter().copied()).unwrap_or(own);
                loads[to] += 1;
            }
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            prop_assert!(*most <= least + 2 + least / 4, "{loads:?}");
        }
    }
}
