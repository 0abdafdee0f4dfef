//! The store that all workers share, as rules see it: `table` and what is kept in the same way.

use balance::store::{self, Datum, Store};
use rules::host::{EntryTimes, Key, Put, Table, Times};
use rules::value::{Value, parse_integer};
use std::sync::Arc;
use std::time::Duration;

/// Rules' view of the store.
#[derive(Clone, Debug)]
pub(crate) struct SharedTable(pub Arc<Store>);

impl Table for SharedTable {
    fn get(&self, key: Key<'_>, now: Duration, touch: bool) -> Option<Value> {
        self.0.get(store_key(key), now, touch, value)
    }

    fn put(
        &self,
        key: Key<'_>,
        new: &Value,
        mode: Put,
        times: Times,
        now: Duration,
        touch: bool,
    ) -> (Option<Value>, bool) {
        let mode = match mode {
            Put::Always => store::Mode::Always,
            Put::IfAbsent => store::Mode::IfAbsent,
            Put::IfPresent => store::Mode::IfPresent,
        };
        let times = store_times(times, touch);
        let put = |datum: Datum<'_>| self.0.put(store_key(key), datum, mode, times, now, value);
        let (outcome, there) = match new {
            Value::Int(int) => put(Datum::Int(*int)),
            other => put(Datum::Bytes(&other.bytes())),
        };
        let is_new = matches!(outcome, store::Outcome::Added | store::Outcome::Replaced);
        (there, is_new)
    }

    fn increment(
        &self,
        key: Key<'_>,
        by: i64,
        must_exist: bool,
        times: Times,
        now: Duration,
        touch: bool,
    ) -> Result<Option<i64>, Value> {
        let times = store_times(times, touch);
        self.0
            .increment(store_key(key), by, must_exist, times, now, parse_integer)
            .map_err(|there| Value::from(there.0))
    }

    fn append(
        &self,
        key: Key<'_>,
        more: &[u8],
        must_exist: bool,
        times: Times,
        now: Duration,
        touch: bool,
    ) -> Option<Value> {
        let times = store_times(times, touch);
        self.0
            .append(store_key(key), more, must_exist, times, now, value)
    }

    fn delete(&self, key: Key<'_>, now: Duration) -> bool {
        self.0.delete(store_key(key), now)
    }

    fn delete_subtable(&self, subtable: &[u8], now: Duration) -> usize {
        self.0.delete_subtable(subtable, now)
    }

    fn keys(&self, subtable: &[u8], now: Duration, limit: usize, touch: bool) -> Vec<Value> {
        let limit = if limit == 0 { usize::MAX } else { limit };
        self.0.keys(subtable, now, limit, touch, Value::new)
    }

    fn count(&self, subtable: &[u8], now: Duration) -> usize {
        self.0.count(subtable, now)
    }

    fn times(&self, key: Key<'_>, now: Duration) -> Option<EntryTimes> {
        let life = self.0.times(store_key(key), now)?;
        Some(EntryTimes {
            timeout: life.timeout,
            timeout_left: life.timeout_left,
            lifetime: life.lifetime,
            lifetime_left: life.lifetime_left,
        })
    }

    fn set_times(&self, key: Key<'_>, times: Times, now: Duration) -> bool {
        self.0
            .set_times(store_key(key), store_times(times, true), now)
    }
}

fn store_key(key: Key<'_>) -> store::Key<'_> {
    store::Key {
        subtable: key.subtable,
        key: key.key,
    }
}

fn store_times(times: Times, touch: bool) -> store::Times {
    store::Times {
        timeout: times.timeout,
        lifetime: times.lifetime,
        touch,
    }
}

fn value(datum: Datum<'_>) -> Value {
    match datum {
        Datum::Int(int) => Value::Int(int),
        Datum::Bytes(bytes) => Value::new(bytes),
    }
}
