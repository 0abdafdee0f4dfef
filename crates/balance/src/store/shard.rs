//! One shard of a store: its entries, which subtable each is in, and when each ends.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasher;
use std::time::Duration;

use super::{DEFAULT_TIMEOUT, OVERHEAD, Spot, Times};

/// A value, lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datum<'a> {
    /// An integer.
    Int(i64),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// How long an entry lives. `None` for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its timeout.
    pub timeout: Option<Duration>,
    /// What is left of it.
    pub timeout_left: Option<Duration>,
    /// Its lifetime.
    pub lifetime: Option<Duration>,
    /// What is left of it.
    pub lifetime_left: Option<Duration>,
}

/// What should be added to is no number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value is not an integer")]
pub struct NoNumber(
    /// What is there instead.
    pub Vec<u8>,
);

pub(super) struct Shard {
    table: HashTable<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    subtables: Vec<Subtable>,
    subtables_free: Vec<u32>,
    subtable_index: HashTable<u32>,
    hasher: FixedState,
    /// When entries end: one record for each that is not later than its end, and some that are out of date.
    ends: BinaryHeap<Reverse<(u64, u32, u32)>>,
    change: (i64, i64),
}

struct Slot {
    /// Tells records of an earlier entry in this place from those of this one.
    generation: u32,
    entry: Option<Entry>,
}

struct Entry {
    key: Box<[u8]>,
    value: Stored,
    hash: u64,
    subtable: u32,
    previous: u32,
    next: u32,
    /// Nanoseconds; `FOREVER` for no end.
    timeout: u64,
    lifetime: u64,
    used: u64,
    born: u64,
    /// The earliest end that is recorded for it.
    recorded: u64,
}

enum Stored {
    Int(i64),
    Bytes(Vec<u8>),
}

/// A subtable's entries, as a chain through them.
struct Subtable {
    name: Box<[u8]>,
    first: u32,
    last: u32,
    len: usize,
}

const NONE: u32 = u32::MAX;
/// The subtable without a name.
const NAMELESS: u32 = 0;
const FOREVER: u64 = u64::MAX;
/// Records that a write looks through for what has expired: more than it adds, so that they get fewer.
const SWEEP: usize = 4;
/// Records that a count looks through before it counts one by one.
const LONG_SWEEP: usize = 1024;

impl Shard {
    pub(super) fn new(hasher: FixedState) -> Self {
        Shard {
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            subtables: vec![Subtable::named(b"")],
            subtables_free: Vec::new(),
            subtable_index: HashTable::new(),
            hasher,
            ends: BinaryHeap::new(),
            change: (0, 0),
        }
    }

    /// The place of an entry that has not expired.
    pub(super) fn find(&mut self, spot: Spot<'_>, now: Duration) -> Option<u32> {
        let at = *self.table.find(spot.hash, |at| {
            self.slots[*at as usize]
                .entry
                .as_ref()
                .is_some_and(|e| *e.key == *spot.key.key && self.is_in(e, spot.key.subtable))
        })?;
        if self.entry(at).end() <= nanos(now) {
            self.remove(at);
            return None;
        }
        Some(at)
    }

    pub(super) fn value(&self, at: u32) -> Datum<'_> {
        match &self.entry(at).value {
            Stored::Int(int) => Datum::Int(*int),
            Stored::Bytes(bytes) => Datum::Bytes(bytes),
        }
    }

    /// Begins a timeout anew.
    pub(super) fn touch(&mut self, at: u32, now: Duration) {
        let entry = self.entry_mut(at);
        // Clocks of workers differ a little; none sets another's back.
        entry.used = entry.used.max(nanos(now));
    }

    /// Sets the times that are given.
    pub(super) fn renew(&mut self, at: u32, times: Times, now: Duration) {
        let now = nanos(now);
        let entry = self.entry_mut(at);
        if let Some(timeout) = times.timeout {
            entry.timeout = optional(timeout);
        }
        if let Some(lifetime) = times.lifetime {
            entry.lifetime = optional(lifetime);
            entry.born = now;
        }
        if times.touch {
            entry.used = entry.used.max(now);
        }
        let end = entry.end();
        if end < entry.recorded {
            entry.recorded = end;
            self.record(end, at);
        }
    }

    pub(super) fn insert(
        &mut self,
        spot: Spot<'_>,
        value: Datum<'_>,
        times: Times,
        now: Duration,
    ) -> u32 {
        self.sweep(nanos(now), SWEEP);
        let subtable = self.subtable_named(spot.key.subtable);
        let value = value.stored();
        self.change.0 += 1;
        self.change.1 += weight(spot.key.key.len() + value.len());
        let mut entry = Entry {
            key: spot.key.key.into(),
            value,
            hash: spot.hash,
            subtable,
            previous: self.subtables[subtable as usize].last,
            next: NONE,
            timeout: optional(times.timeout.unwrap_or(Some(DEFAULT_TIMEOUT))),
            lifetime: optional(times.lifetime.unwrap_or(None)),
            used: nanos(now),
            born: nanos(now),
            recorded: 0,
        };
        let end = entry.end();
        entry.recorded = end;
        let previous = entry.previous;
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize].entry = Some(entry);
                at
            }
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    entry: Some(entry),
                });
                (self.slots.len() - 1) as u32
            }
        };
        let chain = &mut self.subtables[subtable as usize];
        chain.last = at;
        chain.len += 1;
        if previous == NONE {
            chain.first = at;
        } else {
            self.entry_mut(previous).next = at;
        }
        let slots = &self.slots;
        self.table
            .insert_unique(spot.hash, at, |at| hash_of(slots, *at));
        self.record(end, at);
        at
    }

    pub(super) fn replace(&mut self, at: u32, value: Datum<'_>) {
        let entry = self.entry_mut(at);
        let before = entry.value.len();
        match (&mut entry.value, value) {
            (Stored::Bytes(bytes), Datum::Bytes(new)) => {
                bytes.clear();
                bytes.extend_from_slice(new);
                // A large value's memory is not kept for a small one.
                if bytes.capacity() / 4 > new.len() + 64 {
                    bytes.shrink_to_fit();
                }
            }
            (stored, value) => *stored = value.stored(),
        }
        let after = entry.value.len();
        self.change.1 += after as i64 - before as i64;
    }

    pub(super) fn add(
        &mut self,
        at: u32,
        by: i64,
        number: impl FnOnce(&[u8]) -> Option<i64>,
    ) -> Result<i64, NoNumber> {
        let entry = self.entry_mut(at);
        let before = entry.value.len();
        let sum = match &entry.value {
            Stored::Int(int) => int.wrapping_add(by),
            Stored::Bytes(bytes) => match number(bytes) {
                Some(int) => int.wrapping_add(by),
                None => return Err(NoNumber(bytes.clone())),
            },
        };
        entry.value = Stored::Int(sum);
        self.change.1 += INT_LEN as i64 - before as i64;
        Ok(sum)
    }

    pub(super) fn append(&mut self, at: u32, more: &[u8]) {
        let entry = self.entry_mut(at);
        let before = entry.value.len();
        match &mut entry.value {
            Stored::Bytes(bytes) => bytes.extend_from_slice(more),
            Stored::Int(int) => {
                let mut bytes = int.to_string().into_bytes();
                bytes.extend_from_slice(more);
                entry.value = Stored::Bytes(bytes);
            }
        }
        let after = entry.value.len();
        self.change.1 += after as i64 - before as i64;
    }

    pub(super) fn remove(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let Some(entry) = slot.entry.take() else {
            return;
        };
        slot.generation = slot.generation.wrapping_add(1);
        if let Ok(found) = self.table.find_entry(entry.hash, |other| *other == at) {
            found.remove();
        }
        self.free.push(at);
        self.change.0 -= 1;
        self.change.1 -= weight(entry.key.len() + entry.value.len());
        if entry.previous != NONE {
            self.entry_mut(entry.previous).next = entry.next;
        }
        if entry.next != NONE {
            self.entry_mut(entry.next).previous = entry.previous;
        }
        let chain = &mut self.subtables[entry.subtable as usize];
        chain.len -= 1;
        if entry.previous == NONE {
            chain.first = entry.next;
        }
        if entry.next == NONE {
            chain.last = entry.previous;
        }
        if chain.len == 0 {
            self.forget_subtable(entry.subtable);
        }
    }

    pub(super) fn delete_subtable(&mut self, subtable: &[u8], now: Duration) -> usize {
        let mut live = 0;
        let mut next = self.first_of(subtable);
        while next != NONE {
            let entry = self.entry(next);
            let at = next;
            next = entry.next;
            live += usize::from(entry.end() > nanos(now));
            self.remove(at);
        }
        live
    }

    pub(super) fn keys(
        &mut self,
        subtable: &[u8],
        now: Duration,
        limit: usize,
        touch: bool,
        mut read: impl FnMut(&[u8]),
    ) {
        let mut left = limit;
        let mut next = self.first_of(subtable);
        while next != NONE && left > 0 {
            let entry = self.entry_mut(next);
            next = entry.next;
            if entry.end() > nanos(now) {
                left -= 1;
                if touch {
                    entry.used = entry.used.max(nanos(now));
                }
                read(&entry.key);
            }
        }
    }

    pub(super) fn count(&mut self, subtable: &[u8], now: Duration) -> usize {
        let now = nanos(now);
        // What has expired is cleared away first, so that what is left needs no look at each.
        self.sweep(now, LONG_SWEEP);
        let Some(id) = self.find_subtable(subtable) else {
            return 0;
        };
        if self.ends.peek().is_none_or(|Reverse((end, ..))| *end > now) {
            return self.subtables[id as usize].len;
        }
        let mut live = 0;
        let mut next = self.subtables[id as usize].first;
        while next != NONE {
            let entry = self.entry(next);
            live += usize::from(entry.end() > now);
            next = entry.next;
        }
        live
    }

    pub(super) fn life(&self, at: u32, now: Duration) -> Life {
        let entry = self.entry(at);
        let left = |since: u64, lasting: u64| {
            lasting_of(lasting).map(|lasting| {
                (Duration::from_nanos(since).saturating_add(lasting)).saturating_sub(now)
            })
        };
        Life {
            timeout: lasting_of(entry.timeout),
            timeout_left: left(entry.used, entry.timeout),
            lifetime: lasting_of(entry.lifetime),
            lifetime_left: left(entry.born, entry.lifetime),
        }
    }

    /// Takes out the entry that is nearest to its end: whether there was one.
    pub(super) fn evict(&mut self) -> bool {
        let mut patience = 64;
        while let Some(Reverse((end, at, generation))) = self.ends.pop() {
            match self.recorded(end, at, generation) {
                None => {}
                Some(later) if later > end && patience > 0 => {
                    patience -= 1;
                    self.entry_mut(at).recorded = later;
                    self.record(later, at);
                }
                Some(_) => {
                    self.remove(at);
                    return true;
                }
            }
        }
        false
    }

    /// What entries and bytes have come and gone since this was last asked.
    pub(super) fn take_change(&mut self) -> (i64, i64) {
        std::mem::take(&mut self.change)
    }

    #[cfg(test)]
    pub(super) fn records(&self) -> usize {
        self.ends.len()
    }

    /// Looks through some records and takes out entries that have expired.
    fn sweep(&mut self, now: u64, most: usize) {
        for _ in 0..most {
            match self.ends.peek() {
                Some(Reverse((end, ..))) if *end <= now => {}
                _ => return,
            }
            let Some(Reverse((end, at, generation))) = self.ends.pop() else {
                return;
            };
            match self.recorded(end, at, generation) {
                None => {}
                Some(end) if end <= now => self.remove(at),
                Some(later) => {
                    self.entry_mut(at).recorded = later;
                    self.record(later, at);
                }
            }
        }
    }

    /// The end of the entry that a record is about, unless the record is out of date.
    fn recorded(&self, end: u64, at: u32, generation: u32) -> Option<u64> {
        let slot = &self.slots[at as usize];
        let entry = slot.entry.as_ref()?;
        (slot.generation == generation && entry.recorded == end).then(|| entry.end())
    }

    fn record(&mut self, end: u64, at: u32) {
        // Records that are out of date go when they are the most.
        if self.ends.len() > 2 * self.table.len() + 64 {
            let slots = &self.slots;
            let live = slots.iter().enumerate().filter_map(|(at, slot)| {
                let entry = slot.entry.as_ref()?;
                Some(Reverse((entry.recorded, at as u32, slot.generation)))
            });
            self.ends = live.collect();
            return;
        }
        let generation = self.slots[at as usize].generation;
        self.ends.push(Reverse((end, at, generation)));
    }

    fn is_in(&self, entry: &Entry, subtable: &[u8]) -> bool {
        // Not by comparing empty names: where these stand nowhere in memory, that is slow on some processors.
        if subtable.is_empty() {
            return entry.subtable == NAMELESS;
        }
        *self.subtables[entry.subtable as usize].name == *subtable
    }

    fn first_of(&self, subtable: &[u8]) -> u32 {
        match self.find_subtable(subtable) {
            Some(id) => self.subtables[id as usize].first,
            None => NONE,
        }
    }

    fn find_subtable(&self, name: &[u8]) -> Option<u32> {
        if name.is_empty() {
            return Some(NAMELESS);
        }
        let same = |id: &u32| *self.subtables[*id as usize].name == *name;
        self.subtable_index
            .find(self.hasher.hash_one(name), same)
            .copied()
    }

    fn subtable_named(&mut self, name: &[u8]) -> u32 {
        if let Some(id) = self.find_subtable(name) {
            return id;
        }
        let subtable = Subtable::named(name);
        let id = match self.subtables_free.pop() {
            Some(id) => {
                self.subtables[id as usize] = subtable;
                id
            }
            None => {
                self.subtables.push(subtable);
                (self.subtables.len() - 1) as u32
            }
        };
        let (hasher, subtables) = (&self.hasher, &self.subtables);
        let hash = |id: &u32| hasher.hash_one(&*subtables[*id as usize].name);
        self.subtable_index
            .insert_unique(hasher.hash_one(name), id, hash);
        id
    }

    /// Takes out an empty subtable; the nameless one stays.
    fn forget_subtable(&mut self, id: u32) {
        if id == NAMELESS {
            return;
        }
        let name = std::mem::take(&mut self.subtables[id as usize].name);
        let hash = self.hasher.hash_one(&*name);
        if let Ok(found) = self.subtable_index.find_entry(hash, |other| *other == id) {
            found.remove();
        }
        self.subtables_free.push(id);
    }

    fn entry(&self, at: u32) -> &Entry {
        self.slots[at as usize]
            .entry
            .as_ref()
            .expect("places that are handed around are of entries that are there")
    }

    fn entry_mut(&mut self, at: u32) -> &mut Entry {
        self.slots[at as usize]
            .entry
            .as_mut()
            .expect("places that are handed around are of entries that are there")
    }
}

impl Subtable {
    fn named(name: &[u8]) -> Self {
        Subtable {
            name: name.into(),
            first: NONE,
            last: NONE,
            len: 0,
        }
    }
}

impl Entry {
    fn end(&self) -> u64 {
        let idle = self.used.saturating_add(self.timeout);
        idle.min(self.born.saturating_add(self.lifetime))
    }
}

impl Datum<'_> {
    fn stored(self) -> Stored {
        match self {
            Datum::Int(int) => Stored::Int(int),
            Datum::Bytes(bytes) => Stored::Bytes(bytes.to_vec()),
        }
    }
}

impl Stored {
    fn len(&self) -> usize {
        match self {
            Stored::Int(_) => INT_LEN,
            Stored::Bytes(bytes) => bytes.len(),
        }
    }
}

fn hash_of(slots: &[Slot], at: u32) -> u64 {
    slots[at as usize].entry.as_ref().map_or(0, |e| e.hash)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(FOREVER - 1)
}

fn optional(lasting: Option<Duration>) -> u64 {
    lasting.map_or(FOREVER, nanos)
}

fn lasting_of(nanos: u64) -> Option<Duration> {
    (nanos != FOREVER).then(|| Duration::from_nanos(nanos))
}

fn weight(len: usize) -> i64 {
    len as i64 + OVERHEAD as i64
}

const INT_LEN: usize = 8;
