//! What the connections of one worker share: the snapshot, idle upstream connections, spare memory.
//!
//! A worker is a thread with a reactor of its own. How workers start, get their connections and
//! end is in `engine` and `accept`.

use crate::engine::{Gauge, Phase, Shared};
use crate::nodes::Nodes;
use crate::rules::Machine;
use crate::snapshot::Snapshot;
use crate::upstream::Upstreams;
use std::cell::{Cell, Ref, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Spare vectors kept by a worker, and the largest that is worth keeping.
const SPARE: usize = 256;
const SPARE_BYTES: usize = 64 * 1024;

/// What a worker's connections share. Never leaves its thread.
pub(crate) struct Worker {
    /// Which worker this is, from 0.
    pub(crate) index: usize,
    /// What all workers share.
    pub(crate) shared: Arc<Shared>,
    /// How many client connections it has.
    pub(crate) load: Arc<Gauge>,
    /// Idle connections to members.
    pub(crate) upstreams: Upstreams,
    /// Members that no pool has.
    pub(crate) nodes: Nodes,
    /// What runs the virtuals' rules.
    pub(crate) rules: Machine,
    /// Itself, for tasks that outlast a call.
    pub(crate) me: Weak<Worker>,
    snapshot: RefCell<Arc<Snapshot>>,
    phase: Cell<Phase>,
    random: Cell<u64>,
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        load: Arc<Gauge>,
        snapshot: Arc<Snapshot>,
        seed: u64,
    ) -> Rc<Self> {
        Rc::new_cyclic(|me| Worker {
            me: Weak::clone(me),
            rules: Machine::default(),
            nodes: Nodes::default(),
            index,
            shared,
            load,
            upstreams: Upstreams::default(),
            snapshot: RefCell::new(snapshot),
            phase: Cell::new(Phase::Running),
            random: Cell::new(seed | 1),
            spare: RefCell::new(Vec::new()),
        })
    }

    /// The clock that `balance` is asked by: milliseconds, the same for all workers.
    pub(crate) fn now(&self) -> balance::Millis {
        let since = reactor::now().saturating_duration_since(self.shared.started);
        since.as_millis() as u64
    }

    /// The configuration in force.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// The configuration in force, for the time of a call.
    pub(crate) fn in_force(&self) -> Ref<'_, Arc<Snapshot>> {
        self.snapshot.borrow()
    }

    /// Which configuration is in force; changes with each one applied.
    pub(crate) fn generation(&self) -> u64 {
        self.snapshot.borrow().generation
    }

    pub(crate) fn set_snapshot(&self, snapshot: Arc<Snapshot>) {
        self.snapshot.replace(snapshot);
        self.nodes.forget();
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Enters a phase, and has every connection look at it.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.set(phase);
        reactor::wake_all();
    }

    /// 64 bits that are random enough for balancing and sampling (xorshift64*).
    pub(crate) fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// An empty vector, with memory if there is one to spare.
    pub(crate) fn take_vec(&self) -> Vec<u8> {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives a vector back.
    pub(crate) fn give_vec(&self, mut vec: Vec<u8>) {
        if vec.capacity() == 0 || vec.capacity() > SPARE_BYTES {
            return;
        }
        vec.clear();
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE {
            spare.push(vec);
        }
    }
}
