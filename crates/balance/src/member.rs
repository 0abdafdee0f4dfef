//! One member: its counters, its limit and what is known of its health. Who may use it is decided in `view`.

use crate::Millis;
use crate::pool::Pool;
use crate::queue::Waiting;
use crate::settings::{Admin, MemberSettings};
use crossbeam_utils::CachePadded;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use std::sync::{Arc, Weak};

/// A member within its pool: never used again for another one, also when this one is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub(crate) u32);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What monitors say of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// It answers.
    Up,
    /// It does not.
    Down,
}

/// How a request to a member ended, for passive ejection and the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It answered and the answer is no sign of trouble.
    Ok,
    /// No connection could be made.
    ConnectError,
    /// The connection broke before the answer was complete.
    Reset,
    /// It answered with a status from 500 to 599.
    Status5xx,
    /// It did not answer in time.
    Timeout,
}

/// What a member has done since it was first configured. Adding is relaxed; read at leisure.
#[derive(Debug, Default)]
pub struct Counters {
    /// Failures of any kind.
    pub failures: AtomicU64,
    /// Connections that could not be made.
    pub connect_errors: AtomicU64,
    /// Connections that broke.
    pub resets: AtomicU64,
    /// Answers with a status from 500 to 599.
    pub status_5xx: AtomicU64,
    /// Answers that did not come in time.
    pub timeouts: AtomicU64,
    /// Times it was ejected for failures.
    pub ejections: AtomicU64,
    /// Bytes sent to it; added by the caller.
    pub bytes_sent: AtomicU64,
    /// Bytes received from it; added by the caller.
    pub bytes_received: AtomicU64,
}

/// A server of a pool. It outlives its place in the pool as long as somebody holds it or a slot of it.
pub struct Member {
    id: MemberId,
    name: Arc<str>,
    address: SocketAddr,
    load: CachePadded<Load>,
    state: CachePadded<State>,
    counters: CachePadded<Counters>,
    /// How many wait in the pool's queue, here so that a release need not reach the pool to see that nobody does.
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) pool: Weak<Pool>,
}

/// What every pick and release touches: one cache line.
#[derive(Default)]
struct Load {
    /// The requests it has now in the low [`ACTIVE_BITS`] bits, above them those it was given so far: one atomic operation
    /// changes both.
    requests: AtomicU64,
    limit: AtomicU32,
}

/// What changes seldom. Written under the pool's lock, except for the run of failures.
struct State {
    admin: AtomicU8,
    up: AtomicBool,
    backup: AtomicBool,
    weight: AtomicU16,
    /// In the current view's set of those that take new requests.
    usable: AtomicBool,
    failures_in_row: AtomicU32,
    /// When the first of them was.
    run_began: AtomicU64,
    /// Failures in a row that eject; 0 for never.
    eject_after: AtomicU32,
    /// The milliseconds within which they must lie.
    eject_within: AtomicU64,
    ejected_until: AtomicU64,
    /// How often the next ejection doubles the first one's time.
    ejection_power: AtomicU32,
    /// Since when it is in service, or `NEVER` if from the start.
    up_since: AtomicU64,
    slow_start: AtomicU64,
}

impl Member {
    /// Its identity within the pool.
    pub fn id(&self) -> MemberId {
        self.id
    }

    /// Its configured name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Where it is reached.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests it has now.
    pub fn active(&self) -> u32 {
        (self.load.requests.load(SeqCst) & ACTIVE) as u32
    }

    /// The most requests it may have at once; 0 for no limit.
    pub fn limit(&self) -> u32 {
        self.load.limit.load(Relaxed)
    }

    /// Requests it was given so far, retries included. Starts over after 4 398 046 511 104 (2⁴²).
    pub fn requests(&self) -> u64 {
        self.load.requests.load(Relaxed) >> ACTIVE_BITS
    }

    /// What its monitors say.
    pub fn health(&self) -> Health {
        if self.state.up.load(Relaxed) {
            Health::Up
        } else {
            Health::Down
        }
    }

    /// What the operator wants with it.
    pub fn admin(&self) -> Admin {
        match self.state.admin.load(Relaxed) {
            0 => Admin::Enabled,
            1 => Admin::Drain,
            _ => Admin::Disabled,
        }
    }

    /// Whether it is used only while no other can be.
    pub fn backup(&self) -> bool {
        self.state.backup.load(Relaxed)
    }

    /// Its weight without slow start.
    pub fn weight(&self) -> u16 {
        self.state.weight.load(Relaxed)
    }

    /// Its weight at `now` in tenths: ten times [`Member::weight`], or less of it during slow start.
    pub fn effective_weight(&self, now: Millis) -> u32 {
        u32::from(self.weight()) * self.ramp(now)
    }

    /// Until when failures keep it out, if they do at `now`.
    pub fn ejected_until(&self, now: Millis) -> Option<Millis> {
        Some(self.state.ejected_until.load(Relaxed)).filter(|&until| until > now)
    }

    /// What it has done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Tells how a request to it ended. Returns whether that ejected it just now.
    pub fn report(&self, outcome: Outcome, now: Millis) -> bool {
        let counters = &self.counters;
        let kind = match outcome {
            Outcome::Ok => {
                // Reads first: the line stays shared between workers while all goes well.
                if self.state.failures_in_row.load(Relaxed) != 0 {
                    self.state.failures_in_row.store(0, Relaxed);
                }
                return false;
            }
            Outcome::ConnectError => &counters.connect_errors,
            Outcome::Reset => &counters.resets,
            Outcome::Status5xx => &counters.status_5xx,
            Outcome::Timeout => &counters.timeouts,
        };
        kind.fetch_add(1, Relaxed);
        counters.failures.fetch_add(1, Relaxed);
        let eject_after = self.state.eject_after.load(Relaxed);
        // What still fails of the requests it had when it was ejected says nothing new.
        if eject_after == 0 || self.ejected_until(now).is_some() {
            return false;
        }
        let run_is_over = now.saturating_sub(self.state.run_began.load(Relaxed))
            > self.state.eject_within.load(Relaxed);
        if run_is_over {
            self.state.failures_in_row.store(0, Relaxed);
        }
        let in_row = self.state.failures_in_row.fetch_add(1, Relaxed) + 1;
        if in_row == 1 {
            self.state.run_began.store(now, Relaxed);
        }
        in_row >= eject_after
            && self
                .pool
                .upgrade()
                .is_some_and(|pool| pool.eject(self, now))
    }

    pub(crate) fn new(
        id: MemberId,
        settings: &MemberSettings,
        waiting: Arc<Waiting>,
        pool: Weak<Pool>,
    ) -> Self {
        Self {
            id,
            name: settings.name.clone(),
            address: settings.address,
            load: CachePadded::default(),
            state: CachePadded::new(State {
                admin: AtomicU8::new(settings.admin as u8),
                up: AtomicBool::new(true),
                backup: AtomicBool::new(settings.backup),
                weight: AtomicU16::new(settings.weight),
                usable: AtomicBool::new(false),
                failures_in_row: AtomicU32::new(0),
                run_began: AtomicU64::new(0),
                eject_after: AtomicU32::new(0),
                eject_within: AtomicU64::new(0),
                ejected_until: AtomicU64::new(0),
                ejection_power: AtomicU32::new(0),
                up_since: AtomicU64::new(NEVER),
                slow_start: AtomicU64::new(0),
            }),
            counters: CachePadded::default(),
            waiting,
            pool,
        }
    }

    /// Takes a unit of its concurrency, if one is free.
    pub(crate) fn try_enter(&self) -> bool {
        let limit = self.load.limit.load(Relaxed);
        if limit == 0 {
            self.load.requests.fetch_add(ENTER, SeqCst);
            return true;
        }
        // Sequentially consistent: whoever joined the queue before this must see what was freed before it.
        let below =
            |load: u64| (load & ACTIVE < u64::from(limit)).then(|| load.wrapping_add(ENTER));
        self.load
            .requests
            .fetch_update(SeqCst, SeqCst, below)
            .is_ok()
    }

    pub(crate) fn leave(&self) {
        let before = self.load.requests.fetch_sub(1, SeqCst);
        debug_assert!(
            before & ACTIVE > 0,
            "a slot of {} was released twice",
            self.name
        );
    }

    pub(crate) fn count_request(&self) {
        self.load.requests.fetch_add(1 << ACTIVE_BITS, Relaxed);
    }

    /// How many requests it has, if it may have another.
    pub(crate) fn room(&self) -> Option<u32> {
        let limit = self.load.limit.load(Relaxed);
        Some(self.active()).filter(|&active| limit == 0 || active < limit)
    }

    /// Whether it has no more than its limit; more is possible after the limit was lowered.
    pub(crate) fn within_limit(&self) -> bool {
        let limit = self.load.limit.load(Relaxed);
        limit == 0 || self.active() <= limit
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.state.usable.load(SeqCst)
    }

    /// Whether only an ejection can keep it from taking requests.
    pub(crate) fn is_candidate(&self) -> bool {
        self.admin() == Admin::Enabled && self.health() == Health::Up && self.weight() > 0
    }

    /// How far slow start has come, in tenths from 1 to 10.
    pub(crate) fn ramp(&self, now: Millis) -> u32 {
        let slow_start = self.state.slow_start.load(Relaxed);
        match self.time_in_service(now) {
            Some(elapsed) if elapsed < slow_start => {
                ((elapsed * TENTHS / slow_start) + 1).min(TENTHS) as u32
            }
            _ => TENTHS as u32,
        }
    }

    /// When the next step of slow start is due, if it is not at its end.
    pub(crate) fn next_step(&self, now: Millis) -> Option<Millis> {
        let ramp = u64::from(self.ramp(now));
        let slow_start = self.state.slow_start.load(Relaxed);
        (ramp < TENTHS)
            .then(|| self.state.up_since.load(Relaxed) + (ramp * slow_start).div_ceil(TENTHS))
    }

    pub(crate) fn set_usable(&self, usable: bool) {
        self.state.usable.store(usable, SeqCst);
    }

    pub(crate) fn set_admin(&self, admin: Admin, now: Millis) {
        let before = self.admin();
        self.state.admin.store(admin as u8, Relaxed);
        if admin == Admin::Enabled && before != Admin::Enabled {
            self.state.ejected_until.store(0, Relaxed);
            if before == Admin::Disabled {
                self.start_slowly(now);
            }
        }
    }

    pub(crate) fn set_health(&self, health: Health, now: Millis) {
        let before = self.health();
        self.state.up.store(health == Health::Up, Relaxed);
        if before != health && health == Health::Up {
            self.state.ejected_until.store(0, Relaxed);
            self.state.failures_in_row.store(0, Relaxed);
            self.start_slowly(now);
        }
    }

    pub(crate) fn set_weight(&self, weight: u16) {
        self.state.weight.store(weight, Relaxed);
    }

    pub(crate) fn set_backup(&self, backup: bool) {
        self.state.backup.store(backup, Relaxed);
    }

    pub(crate) fn set_limit(&self, limit: u32) {
        self.load.limit.store(limit, SeqCst);
    }

    pub(crate) fn set_slow_start(&self, slow_start: Millis) {
        self.state.slow_start.store(slow_start, Relaxed);
    }

    pub(crate) fn set_eject_after(&self, failures: u32, within: Millis) {
        self.state.eject_after.store(failures, Relaxed);
        self.state.eject_within.store(within, Relaxed);
        if failures == 0 {
            self.state.ejected_until.store(0, Relaxed);
        }
    }

    pub(crate) fn forgive(&self) {
        self.state.failures_in_row.store(0, Relaxed);
    }

    /// Takes it out for `time` or, if that was not long ago, for twice as long as the last time, up to tenfold.
    pub(crate) fn begin_ejection(&self, time: Millis, now: Millis) {
        self.forgive();
        self.counters.ejections.fetch_add(1, Relaxed);
        let longest = time.saturating_mul(10);
        let reformed = self
            .time_in_service(now)
            .is_none_or(|served| served >= longest);
        let power = if reformed {
            0
        } else {
            self.state.ejection_power.load(Relaxed)
        };
        self.state.ejection_power.store((power + 1).min(4), Relaxed);
        let out = (time << power).min(longest).max(1);
        self.state
            .ejected_until
            .store(now.saturating_add(out), Relaxed);
    }

    /// Whether failures keep it out, including one whose time has come and which nobody ended yet.
    pub(crate) fn is_ejected(&self) -> bool {
        self.state.ejected_until.load(Relaxed) != 0
    }

    pub(crate) fn ejection_end(&self) -> Millis {
        self.state.ejected_until.load(Relaxed)
    }

    /// Puts it back after an ejection.
    pub(crate) fn end_ejection(&self, now: Millis) {
        self.state.ejected_until.store(0, Relaxed);
        self.forgive();
        self.start_slowly(now);
    }

    /// How long it has been in service, if it ever was out of it.
    pub(crate) fn time_in_service(&self, now: Millis) -> Option<Millis> {
        let since = self.state.up_since.load(Relaxed);
        (since != NEVER).then(|| now.saturating_sub(since))
    }

    pub(crate) fn end_slow_start(&self) {
        self.state.up_since.store(NEVER, Relaxed);
    }

    pub(crate) fn start_slowly(&self, now: Millis) {
        self.state.up_since.store(now, Relaxed);
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("address", &self.address)
            .field("active", &self.active())
            .field("limit", &self.limit())
            .field("health", &self.health())
            .field("admin", &self.admin())
            .finish_non_exhaustive()
    }
}

/// Bits for the requests that a member has at once: four million, more than it has ports for.
const ACTIVE_BITS: u32 = 22;
const ACTIVE: u64 = (1 << ACTIVE_BITS) - 1;
/// One request more, now and so far.
const ENTER: u64 = (1 << ACTIVE_BITS) + 1;
/// Steps of slow start.
pub(crate) const TENTHS: u64 = 10;
/// Marks a member that has been in service from the start.
const NEVER: u64 = u64::MAX;
