//! Which member of a pool takes the next request: algorithms, member state, limits, the queue and the retry budget.
//!
//! Nothing here opens a socket, reads a clock or starts a thread: time and randomness are arguments, so whole days of
//! traffic can be simulated in a test. Checking members is left to `health`, connecting to them to `proxy`.
//!
//! A [`Pool`] is shared by all workers. [`Pool::pick`] and the release of a [`Slot`] take no lock while no limit is
//! reached. When every member is at its limit a request takes a [`Ticket`], and whoever frees a slot hands it to the
//! longest-waiting ticket and wakes it.
#![forbid(unsafe_code)]

mod hash;
pub mod maglev;
mod member;
mod pool;
mod queue;
mod retry;
mod ring;
mod schedule;
mod settings;
mod slot;
pub mod store;
mod view;

pub use hash::{hash_addr, hash_bytes};
pub use member::{Counters, Health, Member, MemberId, Outcome};
pub use pool::{Ask, Pick, Pool};
pub use queue::{QueueFull, Ticket, TicketState};
pub use settings::{
    Admin, Algorithm, Ejection, HashMethod, MemberSettings, PoolSettings, RetryBudget,
};
pub use slot::Slot;

/// Monotonic milliseconds from any fixed origin, the same for all callers of one pool.
pub type Millis = u64;

/// Locks a mutex whose data stays consistent even if a holder panicked: every critical section here leaves it so.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
