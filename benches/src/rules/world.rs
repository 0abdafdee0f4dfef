//! A world for rules that run without a proxy: it has a clock and a country, and else nothing. The rules that are measured ask
//! for no more.

use crate::clock;
use rules::data_group::DataGroup;
use rules::host::{EntryTimes, Host, Key, LogLine, LogTarget, PoolView, Put, Table, Times};
use rules::value::Value;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The surroundings of one worker.
pub(crate) struct World {
    random: u64,
    country: Value,
    /// Lines that rules have logged, warnings and worse.
    pub(crate) complaints: Vec<String>,
}

/// 2026-11-21: any time will do.
const NOW: Duration = Duration::from_secs(1_795_219_200);
/// Syslog's level of warnings.
const WARNING: u8 = 4;

impl World {
    pub(crate) fn new() -> Self {
        Self {
            random: 1,
            country: Value::from("DE"),
            complaints: Vec::new(),
        }
    }
}

impl Host for World {
    fn now(&self) -> Duration {
        NOW
    }

    fn cycles(&self) -> u64 {
        clock::ticks()
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d) | 1;
        self.random
    }

    fn worker(&self) -> (u32, u32) {
        (0, 1)
    }

    fn log(&mut self, line: LogLine<'_>) {
        if line.level <= WARNING {
            let text = String::from_utf8_lossy(line.text);
            self.complaints.push(format!("{}: {text}", line.event));
        }
    }

    fn table(&self) -> &dyn Table {
        &Nothing
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
        Some(self.country.clone())
    }

    fn reputation(&self, _: IpAddr) -> Vec<Value> {
        Vec::new()
    }

    fn shun(&mut self, _: IpAddr, _: Duration) -> bool {
        false
    }

    fn open_log(&mut self, _: LogTarget) -> Result<u64, String> {
        Err("there is no syslog server".to_owned())
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

/// A table that stays empty.
struct Nothing;

impl Table for Nothing {
    fn get(&self, _: Key<'_>, _: Duration, _: bool) -> Option<Value> {
        None
    }

    fn put(
        &self,
        _: Key<'_>,
        _: &Value,
        _: Put,
        _: Times,
        _: Duration,
        _: bool,
    ) -> (Option<Value>, bool) {
        (None, false)
    }

    fn increment(
        &self,
        _: Key<'_>,
        _: i64,
        _: bool,
        _: Times,
        _: Duration,
        _: bool,
    ) -> Result<Option<i64>, Value> {
        Ok(None)
    }

    fn append(
        &self,
        _: Key<'_>,
        _: &[u8],
        _: bool,
        _: Times,
        _: Duration,
        _: bool,
    ) -> Option<Value> {
        None
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
