//! A process in which nothing is but a clock, and somewhere to write.

use rules::data_group::DataGroup;
use rules::flow::{Ends, Flow};
use rules::host::{EntryTimes, Host, Key, LogLine, LogTarget, PoolView, Put, Table, Times};
use rules::value::Value;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The host of scripts that need none.
pub(crate) struct Nowhere;

/// A connection from nobody.
pub(crate) fn flow() -> Flow {
    let local = ([127, 0, 0, 1], 0).into();
    Flow::new(
        "test".into(),
        Ends {
            remote: local,
            local,
        },
    )
}

impl Host for Nowhere {
    fn now(&self) -> Duration {
        Duration::new(1_234_567_890, 123_456_000)
    }
    fn cycles(&self) -> u64 {
        0
    }
    fn random(&mut self) -> u64 {
        4
    }
    fn worker(&self) -> (u32, u32) {
        (0, 1)
    }
    fn log(&mut self, _: LogLine<'_>) {}
    fn table(&self) -> &dyn Table {
        self
    }
    fn data_group(&self, _: &[u8]) -> Option<Arc<DataGroup>> {
        None
    }
    fn ifile(&self, _: &[u8]) -> Option<Value> {
        None
    }
    fn ifiles(&self) -> Vec<Value> {
        Vec::new()
    }
    fn pool(&self, _: &[u8]) -> Option<PoolView> {
        None
    }
    fn has_virtual(&self, _: &[u8]) -> bool {
        false
    }
    fn geography(&self, _: IpAddr, _: &[&str]) -> Option<Value> {
        None
    }
    fn reputation(&self, _: IpAddr) -> Vec<Value> {
        Vec::new()
    }
    fn shun(&mut self, _: IpAddr, _: Duration) -> bool {
        false
    }
    fn open_log(&mut self, _: LogTarget) -> Result<u64, String> {
        Err("there is no network here".into())
    }
    fn send_log(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }
    fn close_sideband(&mut self, _: u64) {}
    fn sideband_state(&self, _: u64) -> &'static str {
        "closed"
    }
    fn counter(&mut self, _: &[u8], add: i64) -> i64 {
        add
    }
}

/// A table that keeps nothing.
impl Table for Nowhere {
    fn get(&self, _: Key<'_>, _: Duration, _: bool) -> Option<Value> {
        None
    }
    fn put(
        &self,
        _: Key<'_>,
        value: &Value,
        _: Put,
        _: Times,
        _: Duration,
        _: bool,
    ) -> (Option<Value>, bool) {
        (Some(value.clone()), true)
    }
    fn increment(
        &self,
        _: Key<'_>,
        by: i64,
        must_exist: bool,
        _: Times,
        _: Duration,
        _: bool,
    ) -> Result<Option<i64>, Value> {
        Ok((!must_exist).then_some(by))
    }
    fn append(
        &self,
        _: Key<'_>,
        more: &[u8],
        must_exist: bool,
        _: Times,
        _: Duration,
        _: bool,
    ) -> Option<Value> {
        (!must_exist).then(|| Value::from(more))
    }
    fn delete(&self, _: Key<'_>, _: Duration) -> bool {
        false
    }
    fn delete_subtable(&self, _: &[u8], _: Duration) -> usize {
        0
    }
    fn keys(&self, _: &[u8], _: Duration, _: usize, _: bool) -> Vec<Value> {
        Vec::new()
    }
    fn count(&self, _: &[u8], _: Duration) -> usize {
        0
    }
    fn times(&self, _: Key<'_>, _: Duration) -> Option<EntryTimes> {
        None
    }
    fn set_times(&self, _: Key<'_>, _: Times, _: Duration) -> bool {
        false
    }
}
