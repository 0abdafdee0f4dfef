//! Deadlines on a timing wheel, made for being moved far more often than they pass.
//!
//! A deadline that moves later costs a store: its place on the wheel stays where it was, and when
//! that comes round the deadline is looked at and, if it has moved, put in again (Varghese and
//! Lauck's hashed wheel, with lazy re-insertion).

use crate::core::CORE;
use crate::slab::{Key, Slab};
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// The wheel's resolution, in milliseconds: a deadline passes up to this much late.
const TICK: u64 = 4;

const SLOTS: usize = 2048;

const NEVER: u64 = u64::MAX;

struct Timer {
    /// When it passes, in milliseconds of the reactor's clock.
    at: u64,
    /// The tick at which the wheel will look at it.
    placed: u64,
    task: Key,
}

pub(crate) struct Wheel {
    timers: Slab<Timer>,
    slots: Vec<Vec<Key>>,
    occupied: Vec<u64>,
    /// The next tick to look at.
    tick: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Wheel {
            timers: Slab::new(),
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: vec![0; SLOTS / 64],
            tick: 0,
        }
    }

    fn add(&mut self) -> Key {
        self.timers.insert_with(|_| Timer {
            at: NEVER,
            placed: NEVER,
            task: Key::NONE,
        })
    }

    /// Has `task` woken when the deadline passes.
    fn watch(&mut self, key: Key, task: Key) {
        let Some(timer) = self.timers.get_mut(key) else {
            return;
        };
        timer.task = task;
        if timer.at == NEVER {
            return;
        }
        let want = timer.at.div_ceil(TICK).max(self.tick);
        if timer.placed > want {
            let (placed, slot) = place(self.tick, want);
            timer.placed = placed;
            self.slots[slot].push(key);
            self.occupied[slot / 64] |= 1 << (slot % 64);
        }
    }

    /// Milliseconds until the wheel must be looked at, or `None` when it is empty.
    pub(crate) fn next_in(&self, now: u64) -> Option<u64> {
        let first = self.tick as usize % SLOTS;
        let words = self.occupied.len();
        let mut found = None;
        for step in 0..=words {
            let word = (first / 64 + step) % words;
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (first % 64);
            } else if step == words {
                bits &= !(u64::MAX << (first % 64));
            }
            if bits != 0 {
                found = Some(word * 64 + bits.trailing_zeros() as usize);
                break;
            }
        }
        let slot = found?;
        let ticks = (slot + SLOTS - first) % SLOTS;
        Some(((self.tick + ticks as u64) * TICK).saturating_sub(now))
    }

    /// Looks at every tick up to `now`; tasks whose deadline passed are added to `fired`.
    pub(crate) fn advance(&mut self, now: u64, fired: &mut Vec<Key>) {
        while self.tick * TICK <= now {
            let tick = self.tick;
            let slot = tick as usize % SLOTS;
            self.tick += 1;
            if self.occupied[slot / 64] & (1 << (slot % 64)) == 0 {
                continue;
            }
            self.occupied[slot / 64] &= !(1 << (slot % 64));
            let mut entries = std::mem::take(&mut self.slots[slot]);
            for key in entries.drain(..) {
                let Some(timer) = self.timers.get_mut(key) else {
                    continue;
                };
                // An entry left behind by a deadline that was moved earlier.
                if timer.placed != tick {
                    continue;
                }
                timer.placed = NEVER;
                let task = timer.task;
                if timer.at <= now {
                    fired.push(task);
                } else {
                    self.watch(key, task);
                }
            }
            if self.slots[slot].is_empty() {
                self.slots[slot] = entries;
            }
        }
    }
}

/// The tick and slot for something that is due at tick `want`: beyond the wheel's span it is put
/// at its far end, to be looked at again.
fn place(tick: u64, want: u64) -> (u64, usize) {
    let placed = want.min(tick + SLOTS as u64 - 1);
    (placed, placed as usize % SLOTS)
}

/// A deadline that one task sets and moves, phase after phase.
pub struct Deadline(Key);

/// The deadline passed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline passed")
    }
}

impl std::error::Error for Elapsed {}

impl Deadline {
    /// One that never passes, until it is set.
    pub fn new() -> Self {
        Deadline(CORE.with(|core| core.timers.borrow_mut().add()))
    }

    /// Lets it pass `after` from now. Zero means never.
    pub fn set(&self, after: Duration) {
        CORE.with(|core| {
            if let Some(timer) = core.timers.borrow_mut().timers.get_mut(self.0) {
                timer.at = if after.is_zero() {
                    NEVER
                } else {
                    core.millis().saturating_add(after.as_millis() as u64)
                };
            }
        });
    }

    /// Lets it never pass.
    pub fn clear(&self) {
        self.set(Duration::ZERO);
    }

    /// Whether it has passed.
    pub fn is_past(&self) -> bool {
        CORE.with(|core| {
            core.timers
                .borrow()
                .timers
                .get(self.0)
                .is_some_and(|timer| timer.at <= core.millis())
        })
    }

    /// Ready when it has passed; else has the current task woken then.
    pub fn poll_past(&self) -> Poll<()> {
        if self.is_past() {
            return Poll::Ready(());
        }
        CORE.with(|core| core.timers.borrow_mut().watch(self.0, core.current.get()));
        Poll::Pending
    }

    /// Waits until it passes.
    pub async fn past(&self) {
        poll_fn(|_| self.poll_past()).await;
    }

    /// Waits for `future`, but no longer than to the deadline. `future` is asked first.
    pub async fn guard<F: Future>(&self, future: F) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            self.poll_past().map(|()| Err(Elapsed))
        })
        .await
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Deadline::new()
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // The thread-local is gone only while the thread itself ends.
        let _ = CORE.try_with(|core| core.timers.borrow_mut().timers.remove(self.0));
    }
}

/// Waits for a time.
pub async fn sleep(time: Duration) {
    if time.is_zero() {
        return;
    }
    let deadline = Deadline::new();
    deadline.set(time);
    deadline.past().await;
}

/// Waits for `future`, but no longer than `time`.
pub async fn timeout<F: Future>(time: Duration, future: F) -> Result<F::Output, Elapsed> {
    let deadline = Deadline::new();
    deadline.set(time);
    deadline.guard(future).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wheel_with(at: &[u64]) -> (Wheel, Vec<Key>) {
        let mut wheel = Wheel::new();
        let keys: Vec<_> = at
            .iter()
            .enumerate()
            .map(|(n, &at)| {
                let key = wheel.add();
                wheel.timers.get_mut(key).unwrap().at = at;
                wheel.watch(key, Key::new(n, 0));
                key
            })
            .collect();
        (wheel, keys)
    }

    #[test]
    fn deadlines_pass_in_their_tick_and_not_before() {
        let times: Vec<u64> = (0..300).map(|n| 1 + n * n % 40_000).collect();
        let (mut wheel, _) = wheel_with(&times);
        let mut seen = vec![None; times.len()];
        for now in 0..50_000 {
            let mut fired = Vec::new();
            wheel.advance(now, &mut fired);
            for key in fired {
                assert_eq!(seen[key.index()].replace(now), None);
            }
        }
        for (n, at) in times.iter().enumerate() {
            let passed = seen[n].unwrap();
            assert!(passed >= *at && passed < at + 2 * TICK, "{at} at {passed}");
        }
    }

    #[test]
    fn a_deadline_moved_later_passes_later_and_once() {
        let (mut wheel, keys) = wheel_with(&[10]);
        wheel.timers.get_mut(keys[0]).unwrap().at = 9_000;
        let mut fired = Vec::new();
        wheel.advance(8_990, &mut fired);
        assert!(fired.is_empty());
        wheel.advance(9_010, &mut fired);
        assert_eq!(fired.len(), 1);
        wheel.advance(60_000, &mut fired);
        assert_eq!(fired.len(), 1);
    }

    #[test]
    fn a_deadline_moved_earlier_passes_earlier_and_once() {
        let (mut wheel, keys) = wheel_with(&[5_000]);
        wheel.timers.get_mut(keys[0]).unwrap().at = 20;
        wheel.watch(keys[0], Key::new(0, 0));
        let mut fired = Vec::new();
        wheel.advance(30, &mut fired);
        assert_eq!(fired.len(), 1);
        wheel.advance(60_000, &mut fired);
        assert_eq!(fired.len(), 1);
    }

    #[test]
    fn the_wait_is_as_long_as_to_the_next_deadline() {
        let (mut wheel, _) = wheel_with(&[100, 4_000]);
        let mut fired = Vec::new();
        assert_eq!(wheel.next_in(0), Some(100));
        wheel.advance(101, &mut fired);
        assert_eq!(wheel.next_in(101), Some(3_899));
        wheel.advance(4_001, &mut fired);
        assert_eq!(wheel.next_in(4_001), None);
    }
}
