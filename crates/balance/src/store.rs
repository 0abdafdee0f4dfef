//! Entries that all workers share, each under a key in a subtable, and each for a time: what rules' `table` and the like
//! keep. Time is an argument: the duration since any fixed origin.
//!
//! Entries are spread over many shards, each behind a lock that is held for tens of nanoseconds. Those of the nameless
//! subtable are spread by their keys; a named subtable is in one shard as a whole, so that counting, listing and deleting it
//! is one short visit. Nothing runs in the background: who writes clears away a little of what has expired.

mod shard;

pub use shard::{Datum, Life, NoNumber};

use crossbeam_utils::CachePadded;
use foldhash::fast::FixedState;
use shard::Shard;
use std::hash::BuildHasher;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A table of entries that expire.
pub struct Store {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    hasher: FixedState,
    bounds: Bounds,
    totals: Totals,
}

/// What names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// Its subtable; empty for the nameless one.
    pub subtable: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
}

/// How much a store holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Entries.
    pub entries: u64,
    /// Bytes of keys and values, with [`OVERHEAD`] for each entry.
    pub bytes: u64,
}

/// How full a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries that are there, expired ones that nobody has met yet included.
    pub entries: u64,
    /// Their bytes, as [`Bounds::bytes`] counts them.
    pub bytes: u64,
    /// Entries that had to go before their time, since the start.
    pub evicted: u64,
}

/// When [`Store::put`] puts a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In any case.
    Always,
    /// If there is none.
    IfAbsent,
    /// If there is one.
    IfPresent,
}

/// What [`Store::put`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was no entry, and now there is.
    Added,
    /// The entry has the new value.
    Replaced,
    /// The entry was left as it is.
    Kept,
    /// There is no entry, and none was made.
    Absent,
}

/// How long an entry is to live. `None` leaves it as it is, or gives a new entry its default; the inner `None` is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Since it was last used. By default [`DEFAULT_TIMEOUT`].
    pub timeout: Option<Option<Duration>>,
    /// Since it was put there, or since this was set. By default for ever.
    pub lifetime: Option<Option<Duration>>,
    /// Whether this is a use of an entry that is there, at which its timeout begins anew.
    pub touch: bool,
}

/// The timeout of an entry for which none is given.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(180);

/// What an entry takes beside its key and value, bytes, about.
pub const OVERHEAD: u64 = 128;

#[derive(Default)]
struct Totals {
    // Shards add what they gained or lost; no order between them is needed.
    entries: AtomicI64,
    bytes: AtomicI64,
    evicted: AtomicU64,
}

/// Where an entry is: its shard, and its hash there.
#[derive(Clone, Copy)]
struct Spot<'a> {
    key: Key<'a>,
    hash: u64,
    shard: usize,
}

impl Store {
    /// An empty store. `seed` keeps strangers from choosing keys that collide.
    pub fn new(bounds: Bounds, seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Store {
            shards: (0..SHARDS)
                .map(|_| CachePadded::new(Mutex::new(Shard::new(hasher.clone()))))
                .collect(),
            hasher,
            bounds,
            totals: Totals::default(),
        }
    }

    /// Reads the value under a key. With `touch` its timeout begins anew.
    pub fn get<R>(
        &self,
        key: Key<'_>,
        now: Duration,
        touch: bool,
        read: impl FnOnce(Datum<'_>) -> R,
    ) -> Option<R> {
        let spot = self.spot(key);
        self.visit(spot.shard, |shard| {
            let at = shard.find(spot, now)?;
            if touch {
                shard.touch(at, now);
            }
            Some(read(shard.value(at)))
        })
    }

    /// Puts a value under a key as `mode` says, and reads what is there afterwards. An entry that was there keeps the
    /// times that are not given.
    pub fn put<R>(
        &self,
        key: Key<'_>,
        value: Datum<'_>,
        mode: Mode,
        times: Times,
        now: Duration,
        read: impl FnOnce(Datum<'_>) -> R,
    ) -> (Outcome, Option<R>) {
        let spot = self.spot(key);
        self.visit(spot.shard, |shard| match shard.find(spot, now) {
            Some(at) if mode == Mode::IfAbsent => {
                if times.touch {
                    shard.touch(at, now);
                }
                (Outcome::Kept, Some(read(shard.value(at))))
            }
            Some(at) => {
                shard.replace(at, value);
                shard.renew(at, times, now);
                (Outcome::Replaced, Some(read(shard.value(at))))
            }
            None if mode == Mode::IfPresent => (Outcome::Absent, None),
            None => {
                let at = shard.insert(spot, value, times, now);
                (Outcome::Added, Some(read(shard.value(at))))
            }
        })
    }

    /// Adds to the number under a key and returns the sum, which wraps around. What is not there counts as 0, or is left so
    /// if `must_exist`. `number` reads a text as a number.
    ///
    /// # Errors
    ///
    /// What is there is no number.
    pub fn increment(
        &self,
        key: Key<'_>,
        by: i64,
        must_exist: bool,
        times: Times,
        now: Duration,
        number: impl FnOnce(&[u8]) -> Option<i64>,
    ) -> Result<Option<i64>, NoNumber> {
        let spot = self.spot(key);
        self.visit(spot.shard, |shard| match shard.find(spot, now) {
            Some(at) => {
                let sum = shard.add(at, by, number)?;
                shard.renew(at, times, now);
                Ok(Some(sum))
            }
            None if must_exist => Ok(None),
            None => {
                shard.insert(spot, Datum::Int(by), times, now);
                Ok(Some(by))
            }
        })
    }

    /// Puts bytes behind those under a key and reads the whole. What is not there counts as empty, or is left so if
    /// `must_exist`.
    pub fn append<R>(
        &self,
        key: Key<'_>,
        more: &[u8],
        must_exist: bool,
        times: Times,
        now: Duration,
        read: impl FnOnce(Datum<'_>) -> R,
    ) -> Option<R> {
        let spot = self.spot(key);
        self.visit(spot.shard, |shard| {
            let at = match shard.find(spot, now) {
                Some(at) => {
                    shard.append(at, more);
                    shard.renew(at, times, now);
                    at
                }
                None if must_exist => return None,
                None => shard.insert(spot, Datum::Bytes(more), times, now),
            };
            Some(read(shard.value(at)))
        })
    }

    /// Deletes an entry: whether there was one.
    pub fn delete(&self, key: Key<'_>, now: Duration) -> bool {
        let spot = self.spot(key);
        self.visit(spot.shard, |shard| match shard.find(spot, now) {
            Some(at) => {
                shard.remove(at);
                true
            }
            None => false,
        })
    }

    /// Deletes a subtable with all that is in it: how many entries there were.
    pub fn delete_subtable(&self, subtable: &[u8], now: Duration) -> usize {
        self.places(subtable)
            .map(|at| self.visit(at, |shard| shard.delete_subtable(subtable, now)))
            .sum()
    }

    /// Reads the keys of a subtable, in the order in which they were put there, at most `limit` of them. With `touch`
    /// their timeouts begin anew.
    pub fn keys<R>(
        &self,
        subtable: &[u8],
        now: Duration,
        limit: usize,
        touch: bool,
        mut read: impl FnMut(&[u8]) -> R,
    ) -> Vec<R> {
        let mut keys = Vec::new();
        for at in self.places(subtable) {
            if keys.len() < limit {
                let room = limit - keys.len();
                let push = |key: &[u8]| keys.push(read(key));
                self.visit(at, |shard| shard.keys(subtable, now, room, touch, push));
            }
        }
        keys
    }

    /// How many entries a subtable has.
    pub fn count(&self, subtable: &[u8], now: Duration) -> usize {
        self.places(subtable)
            .map(|at| self.visit(at, |shard| shard.count(subtable, now)))
            .sum()
    }

    /// How long an entry lives.
    pub fn times(&self, key: Key<'_>, now: Duration) -> Option<Life> {
        let spot = self.spot(key);
        self.visit(spot.shard, |shard| {
            shard.find(spot, now).map(|at| shard.life(at, now))
        })
    }

    /// Sets how long an entry lives, from now on: whether there is one.
    pub fn set_times(&self, key: Key<'_>, times: Times, now: Duration) -> bool {
        let spot = self.spot(key);
        self.visit(spot.shard, |shard| match shard.find(spot, now) {
            Some(at) => {
                shard.renew(at, times, now);
                true
            }
            None => false,
        })
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        let read = |total: &AtomicI64| total.load(Ordering::Relaxed).max(0) as u64;
        Usage {
            entries: read(&self.totals.entries),
            bytes: read(&self.totals.bytes),
            evicted: self.totals.evicted.load(Ordering::Relaxed),
        }
    }

    fn spot<'a>(&self, key: Key<'a>) -> Spot<'a> {
        let hash = self.hasher.hash_one(key.key);
        if key.subtable.is_empty() {
            let shard = shard_of(hash);
            return Spot { key, hash, shard };
        }
        let place = self.hasher.hash_one(key.subtable);
        Spot {
            key,
            hash: hash ^ place.rotate_left(23),
            shard: shard_of(place),
        }
    }

    /// The shards in which a subtable may be.
    fn places(&self, subtable: &[u8]) -> std::ops::Range<usize> {
        if subtable.is_empty() {
            return 0..SHARDS;
        }
        let shard = shard_of(self.hasher.hash_one(subtable));
        shard..shard + 1
    }

    /// Does something in a shard, adds up what it gained or lost, and makes room if that is too much.
    fn visit<R>(&self, at: usize, act: impl FnOnce(&mut Shard) -> R) -> R {
        let (done, (entries, bytes)) = {
            let mut shard = crate::lock(&self.shards[at]);
            (act(&mut shard), shard.take_change())
        };
        self.settle(entries, bytes);
        if bytes > 0 && self.is_over() {
            self.make_room(at);
        }
        done
    }

    fn settle(&self, entries: i64, bytes: i64) {
        if entries != 0 {
            self.totals.entries.fetch_add(entries, Ordering::Relaxed);
        }
        if bytes != 0 {
            self.totals.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        let usage = self.usage();
        usage.entries > self.bounds.entries || usage.bytes > self.bounds.bytes
    }

    /// Evicts what is nearest to its end in a shard, then in the next ones.
    #[cold]
    fn make_room(&self, at: usize) {
        for n in 0..SHARDS {
            while self.is_over() {
                let (gone, (entries, bytes)) = {
                    let mut shard = crate::lock(&self.shards[(at + n) % SHARDS]);
                    (shard.evict(), shard.take_change())
                };
                self.settle(entries, bytes);
                if !gone {
                    break;
                }
                self.totals.evicted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("bounds", &self.bounds)
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}

/// Bits that a shard's own table of hashes doesn't go by: that uses the lowest and the topmost.
fn shard_of(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}

/// So many that workers seldom meet in one.
const SHARDS: usize = 64;

#[cfg(test)]
mod tests;
