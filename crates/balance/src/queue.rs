//! Those who wait for a slot, first come, first served. Who gets which slot is decided by the pool's view.

use crate::Millis;
use crate::lock;
use crate::member::Member;
use crate::pool::Pool;
use crate::slot::Slot;
use crossbeam_utils::CachePadded;
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// The queue holds as many as it may, or there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pool's queue is full")]
pub struct QueueFull;

/// A place in a pool's queue. Dropping it leaves the queue; a slot that was granted but not taken goes to the next.
#[must_use = "dropping a ticket leaves the queue"]
#[derive(Debug)]
pub struct Ticket {
    pool: Arc<Pool>,
    waiter: Arc<Waiter>,
    deadline: Millis,
}

/// What became of a [`Ticket`].
#[derive(Debug)]
pub enum TicketState {
    /// Not yet; the waker will be woken once.
    Waiting,
    /// Here it is. Polled again, the ticket says [`TicketState::TimedOut`].
    Granted(Slot),
    /// The wait is over, without a slot.
    TimedOut,
}

impl Ticket {
    /// Asks what became of it. A slot granted before the deadline is given out also after it.
    pub fn poll(&mut self, now: Millis) -> TicketState {
        self.pool.refresh(now);
        let mut state = lock(&self.waiter.state);
        if matches!(*state, WaiterState::Waiting(_)) && now < self.deadline {
            return TicketState::Waiting;
        }
        let was = mem::replace(&mut *state, WaiterState::Gone);
        drop(state);
        match was {
            WaiterState::Granted(slot) => TicketState::Granted(slot),
            WaiterState::Waiting(_) => {
                self.pool.queue().one_less();
                TicketState::TimedOut
            }
            WaiterState::Gone => TicketState::TimedOut,
        }
    }

    /// When the wait ends: poll then at the latest.
    pub fn deadline(&self) -> Millis {
        self.deadline
    }

    /// Wakes another task from now on.
    pub fn set_waker(&mut self, waker: &Waker) {
        let mut state = lock(&self.waiter.state);
        let old = match &mut *state {
            WaiterState::Waiting(old) if !old.will_wake(waker) => {
                Some(mem::replace(old, waker.clone()))
            }
            WaiterState::Waiting(_) | WaiterState::Gone => None,
            WaiterState::Granted(_) => {
                drop(state);
                waker.wake_by_ref();
                return;
            }
        };
        // Dropping a waker may run anything, so not under the lock.
        drop(state);
        drop(old);
    }

    pub(crate) fn new(pool: Arc<Pool>, waiter: Arc<Waiter>, deadline: Millis) -> Self {
        Self {
            pool,
            waiter,
            deadline,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let was = mem::replace(&mut *lock(&self.waiter.state), WaiterState::Gone);
        if matches!(was, WaiterState::Waiting(_)) {
            self.pool.queue().one_less();
        }
        // A slot that was granted is dropped here, with no lock held, and passes on.
    }
}

/// How many wait; shared with the members.
pub(crate) type Waiting = CachePadded<AtomicUsize>;

/// The line itself. Lock order: the pool's configuration, the line, a waiter.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Arc<Waiting>,
    line: Mutex<VecDeque<Arc<Waiter>>>,
}

impl Queue {
    pub(crate) fn new(waiting: Arc<Waiting>) -> Self {
        Self {
            waiting,
            line: Mutex::default(),
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    pub(crate) fn shared_waiting(&self) -> &Arc<Waiting> {
        &self.waiting
    }

    /// Joins the line, if fewer than `capacity` wait. The caller then serves the queue: a slot may just have been freed.
    pub(crate) fn join(&self, waker: Waker, capacity: usize) -> Result<Arc<Waiter>, QueueFull> {
        let mut line = lock(&self.line);
        if self.waiting() >= capacity {
            return Err(QueueFull);
        }
        // Those who left stay in the line until they reach its head; behind a patient head they would pile up.
        if line.len() > 2 * self.waiting() + 32 {
            line.retain(|waiter| waiter.is_waiting());
        }
        let waiter = Arc::new(Waiter {
            state: Mutex::new(WaiterState::Waiting(waker)),
        });
        self.waiting.fetch_add(1, SeqCst);
        line.push_back(waiter.clone());
        Ok(waiter)
    }

    /// Gives slots from `next` to those at the head until there is none left of one or the other.
    pub(crate) fn serve(&self, mut next: impl FnMut() -> Option<Slot>) {
        let mut granted = Vec::new();
        let mut line = lock(&self.line);
        while let Some(head) = line.front() {
            let mut state = lock(&head.state);
            if matches!(*state, WaiterState::Waiting(_)) {
                // Only now is a slot taken: it will find its taker and never be dropped under the lock.
                let Some(slot) = next() else { break };
                granted.extend(grant(&mut state, slot));
                self.one_less();
            }
            drop(state);
            line.pop_front();
        }
        drop(line);
        granted.into_iter().for_each(Waker::wake);
    }

    /// Passes a unit of `member` that its holder gives up to the head of the line; with none there, frees it.
    /// Returns whether somebody took it.
    pub(crate) fn hand_over(&self, member: &Arc<Member>) -> bool {
        let mut line = lock(&self.line);
        let mut waker = None;
        // Checked under the lock: whoever takes a member out or lowers its limit serves the queue afterwards.
        if member.is_usable() && member.within_limit() {
            while waker.is_none()
                && let Some(head) = line.pop_front()
            {
                let mut state = lock(&head.state);
                if matches!(*state, WaiterState::Waiting(_)) {
                    waker = grant(&mut state, Slot::inherit(member));
                    self.one_less();
                }
            }
        }
        if waker.is_none() {
            member.leave();
        }
        drop(line);
        let taken = waker.is_some();
        waker.into_iter().for_each(Waker::wake);
        taken
    }

    /// Checks that exactly those are counted who wait. True only while nobody else uses the pool.
    pub(crate) fn check_invariants(&self) {
        let live = lock(&self.line)
            .iter()
            .filter(|waiter| waiter.is_waiting())
            .count();
        assert_eq!(self.waiting(), live, "the count of those who wait is wrong");
    }

    fn one_less(&self) {
        self.waiting.fetch_sub(1, SeqCst);
    }
}

/// What a ticket and the line share.
#[derive(Debug)]
pub(crate) struct Waiter {
    state: Mutex<WaiterState>,
}

impl Waiter {
    fn is_waiting(&self) -> bool {
        matches!(*lock(&self.state), WaiterState::Waiting(_))
    }
}

#[derive(Debug)]
enum WaiterState {
    Waiting(Waker),
    Granted(Slot),
    Gone,
}

fn grant(state: &mut WaiterState, slot: Slot) -> Option<Waker> {
    match mem::replace(state, WaiterState::Granted(slot)) {
        WaiterState::Waiting(waker) => Some(waker),
        WaiterState::Granted(_) | WaiterState::Gone => None,
    }
}
