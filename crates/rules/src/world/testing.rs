//! A world for tests of single commands: a connection, and a process whose every answer a test can set.

use super::TABLES;
use crate::command::{ANY, Command, Ctx, Meter};
use crate::data_group::{DataGroup, Kind};
use crate::event::Event;
use crate::fault::{self, Fault};
use crate::flow::{Ends, Flow};
use crate::host::{
    EntryTimes, Host, Key, LogLine, LogTarget, MemberView, PoolView, Put, Table, Times, Wait,
};
use crate::value::{Value, parse_integer};
use crate::vm::{Layout, Scope, Scopes, Session, Statics};
use balance::store::{self, Datum, Store};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A connection at an event, in a world of its own.
pub(crate) struct World {
    pub(crate) flow: Flow,
    pub(crate) host: Fake,
    pub(crate) event: Event,
    pub(crate) session: Session,
    scopes: Scopes,
    statics: Statics,
    meter: Meter,
    core: crate::engine::Core,
    rule: Rc<str>,
}

/// A process whose answers are set by hand.
pub(crate) struct Fake {
    pub(crate) now: Duration,
    pub(crate) random: u64,
    pub(crate) log: Vec<String>,
    pub(crate) data_groups: HashMap<Vec<u8>, Arc<DataGroup>>,
    pub(crate) ifiles: Vec<(Value, Value)>,
    pub(crate) pools: Vec<PoolView>,
    pub(crate) virtuals: Vec<&'static str>,
    pub(crate) geography: Vec<(IpAddr, &'static str, &'static str)>,
    pub(crate) reputation: Vec<(IpAddr, &'static str)>,
    pub(crate) shunned: Vec<(IpAddr, Duration)>,
    pub(crate) takes_shunned: bool,
    pub(crate) log_targets: Vec<LogTarget>,
    pub(crate) sent: Vec<(u64, Vec<u8>)>,
    pub(crate) closed: Vec<u64>,
    pub(crate) counters: HashMap<Vec<u8>, i64>,
    table: Shared,
}

struct Shared(Store);

impl World {
    /// At `HTTP_REQUEST` of a connection from 192.0.2.1:40000 to 198.51.100.1:80.
    pub(crate) fn new() -> Self {
        let ends = Ends {
            remote: "192.0.2.1:40000".parse().unwrap(),
            local: "198.51.100.1:80".parse().unwrap(),
        };
        let mut scopes = Scopes::default();
        scopes.list.push(Scope::new(Rc::new(Layout::default())));
        let bounds = store::Bounds {
            entries: 1000,
            bytes: 1 << 20,
        };
        World {
            flow: Flow::new("www".into(), ends),
            host: Fake {
                now: Duration::from_secs(1_700_000_000),
                random: 0,
                log: Vec::new(),
                data_groups: HashMap::new(),
                ifiles: Vec::new(),
                pools: Vec::new(),
                virtuals: Vec::new(),
                geography: Vec::new(),
                reputation: Vec::new(),
                shunned: Vec::new(),
                takes_shunned: true,
                log_targets: Vec::new(),
                sent: Vec::new(),
                closed: Vec::new(),
                counters: HashMap::new(),
                table: Shared(Store::new(bounds, 1)),
            },
            event: Event::HttpRequest,
            session: Session::default(),
            scopes,
            statics: Statics::new(1),
            meter: Meter {
                steps: 1 << 40,
                bytes: 1 << 40,
            },
            core: crate::engine::Core::default(),
            rule: "rule".into(),
        }
    }

    /// Adds a data group.
    pub(crate) fn data_group(&mut self, name: &str, kind: Kind, pairs: &[(&str, &str)]) {
        let group = DataGroup::new(kind, pairs.iter().copied()).unwrap();
        let groups = &mut self.host.data_groups;
        groups.insert(name.into(), Arc::new(group));
    }

    /// Adds a pool with members at these addresses: whether each is up.
    pub(crate) fn pool(&mut self, name: &str, members: &[(&str, bool)]) {
        let member = |(address, up): &(&str, bool)| MemberView {
            name: (*address).into(),
            address: address.parse().unwrap(),
            up: *up,
            enabled: true,
            ratio: 1,
            priority: 0,
            connections: 0,
        };
        self.host.pools.push(PoolView {
            name: name.into(),
            members: members.iter().map(member).collect(),
        });
    }

    pub(crate) fn ctx(&mut self) -> Ctx<'_> {
        Ctx {
            flow: &mut self.flow,
            host: &mut self.host,
            event: self.event,
            session: &mut self.session,
            rule: &self.rule,
            scopes: &mut self.scopes,
            statics: &mut self.statics,
            meter: &mut self.meter,
            program: &self.core,
            nested: 0,
        }
    }

    /// Takes a variable out.
    pub(crate) fn unset(&mut self, name: &str) {
        self.ctx().take(&Value::from(name));
    }

    /// What an event may use up.
    pub(crate) fn limit(&mut self, steps: u64, bytes: u64) {
        self.meter = Meter { steps, bytes };
    }

    /// Runs a command by its words.
    pub(crate) fn words(&mut self, words: &[Value]) -> Result<Value, Fault> {
        self.words_of(TABLES, words)
    }

    /// Runs a command of these tables by its words.
    pub(crate) fn words_of(
        &mut self,
        tables: &[&'static [Command]],
        words: &[Value],
    ) -> Result<Value, Fault> {
        let name = words[0].lossy();
        let command = tables
            .iter()
            .flat_map(|table| table.iter())
            .find(|command| command.name == name)
            .unwrap_or_else(|| panic!("no command {name}"));
        let count = words.len() - 1;
        if count < usize::from(command.least)
            || (command.most != ANY && count > usize::from(command.most))
        {
            return Err(command.wrong_args());
        }
        (command.run)(&mut self.ctx(), &words[1..])
    }

    /// Runs a command that is written as a list: its value, or its fault as it was raised.
    pub(crate) fn run(&mut self, command: &str) -> Result<Value, Fault> {
        let words = Value::from(command).into_items().unwrap();
        self.words(&words)
    }

    /// A command's value as text; an error's message begins with `!`.
    pub(crate) fn text(&mut self, command: &str) -> String {
        match self.run(command) {
            Ok(value) => value.lossy(),
            Err(fault) => match fault.kind() {
                fault::Kind::Error(error) => format!("!{}", error.message.value().lossy()),
                fault::Kind::Eval(script) => format!("eval {}", script.lossy()),
                other => format!("{other:?}"),
            },
        }
    }

    /// What a command waits for.
    pub(crate) fn wait(&mut self, command: &str) -> Wait {
        match self.run(command).map_err(Fault::into_kind) {
            Err(fault::Kind::Wait(wait)) => wait,
            other => panic!("{command} does not wait: {other:?}"),
        }
    }

    /// Checks commands against their texts.
    pub(crate) fn check(&mut self, cases: &[(&str, &str)]) {
        for (command, wanted) in cases {
            assert_eq!(self.text(command), *wanted, "{command}");
        }
    }
}

impl Host for Fake {
    fn now(&self) -> Duration {
        self.now
    }
    fn cycles(&self) -> u64 {
        0
    }
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random
    }
    fn worker(&self) -> (u32, u32) {
        (1, 4)
    }
    fn log(&mut self, line: LogLine<'_>) {
        let text = String::from_utf8_lossy(line.text).into_owned();
        self.log.push(match line.rule {
            Some(rule) => format!(
                "{}.{} {rule} {}: {text}",
                line.facility, line.level, line.event
            ),
            None => format!("{}.{} {text}", line.facility, line.level),
        });
    }
    fn table(&self) -> &dyn Table {
        &self.table
    }
    fn data_group(&self, name: &[u8]) -> Option<Arc<DataGroup>> {
        self.data_groups.get(name).cloned()
    }
    fn ifile(&self, name: &[u8]) -> Option<Value> {
        let found = self.ifiles.iter().find(|(file, _)| file.is(name));
        found.map(|(_, content)| content.clone())
    }
    fn ifiles(&self) -> Vec<Value> {
        self.ifiles.iter().map(|(name, _)| name.clone()).collect()
    }
    fn pool(&self, name: &[u8]) -> Option<PoolView> {
        let found = self.pools.iter().find(|pool| pool.name.as_bytes() == name);
        found.cloned()
    }
    fn has_virtual(&self, name: &[u8]) -> bool {
        self.virtuals.iter().any(|virt| virt.as_bytes() == name)
    }
    fn geography(&self, address: IpAddr, path: &[&str]) -> Option<Value> {
        let path = path.join("/");
        let found = |(of, at, _): &&(IpAddr, &str, &str)| *of == address && *at == path;
        let (_, _, text) = self.geography.iter().find(found)?;
        Some(Value::from(*text))
    }
    fn reputation(&self, address: IpAddr) -> Vec<Value> {
        let listed = self.reputation.iter().filter(|(of, _)| *of == address);
        listed.map(|(_, category)| Value::from(*category)).collect()
    }
    fn shun(&mut self, address: IpAddr, lasting: Duration) -> bool {
        self.shunned.push((address, lasting));
        self.takes_shunned
    }
    fn open_log(&mut self, to: LogTarget) -> Result<u64, String> {
        if to.pool.is_empty() {
            return Err("no pool".into());
        }
        self.log_targets.push(to);
        Ok(self.log_targets.len() as u64)
    }
    fn send_log(&mut self, handle: u64, data: &[u8]) -> bool {
        self.sent.push((handle, data.to_vec()));
        true
    }
    fn close_sideband(&mut self, handle: u64) {
        self.closed.push(handle);
    }
    fn sideband_state(&self, handle: u64) -> &'static str {
        if self.closed.contains(&handle) {
            "closed"
        } else {
            "connected"
        }
    }
    fn counter(&mut self, name: &[u8], add: i64) -> i64 {
        let counter = self.counters.entry(name.to_vec()).or_default();
        *counter += add;
        *counter
    }
}

/// An address for tests.
pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn value(datum: Datum<'_>) -> Value {
    match datum {
        Datum::Int(int) => Value::Int(int),
        Datum::Bytes(bytes) => Value::new(bytes),
    }
}

fn with_datum<R>(value: &Value, then: impl FnOnce(Datum<'_>) -> R) -> R {
    match value {
        Value::Int(int) => then(Datum::Int(*int)),
        other => then(Datum::Bytes(&other.bytes())),
    }
}

fn key(key: Key<'_>) -> store::Key<'_> {
    store::Key {
        subtable: key.subtable,
        key: key.key,
    }
}

fn times(times: Times, touch: bool) -> store::Times {
    store::Times {
        timeout: times.timeout,
        lifetime: times.lifetime,
        touch,
    }
}

impl Table for Shared {
    fn get(&self, k: Key<'_>, now: Duration, touch: bool) -> Option<Value> {
        self.0.get(key(k), now, touch, value)
    }

    fn put(
        &self,
        k: Key<'_>,
        new: &Value,
        mode: Put,
        t: Times,
        now: Duration,
        touch: bool,
    ) -> (Option<Value>, bool) {
        let mode = match mode {
            Put::Always => store::Mode::Always,
            Put::IfAbsent => store::Mode::IfAbsent,
            Put::IfPresent => store::Mode::IfPresent,
        };
        let (outcome, there) = with_datum(new, |datum| {
            self.0.put(key(k), datum, mode, times(t, touch), now, value)
        });
        let new = matches!(outcome, store::Outcome::Added | store::Outcome::Replaced);
        (there, new)
    }

    fn increment(
        &self,
        k: Key<'_>,
        by: i64,
        must_exist: bool,
        t: Times,
        now: Duration,
        touch: bool,
    ) -> Result<Option<i64>, Value> {
        let times = times(t, touch);
        let sum = self
            .0
            .increment(key(k), by, must_exist, times, now, parse_integer);
        sum.map_err(|there| Value::from(there.0))
    }

    fn append(
        &self,
        k: Key<'_>,
        more: &[u8],
        must_exist: bool,
        t: Times,
        now: Duration,
        touch: bool,
    ) -> Option<Value> {
        let times = times(t, touch);
        self.0.append(key(k), more, must_exist, times, now, value)
    }

    fn delete(&self, k: Key<'_>, now: Duration) -> bool {
        self.0.delete(key(k), now)
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

    fn times(&self, k: Key<'_>, now: Duration) -> Option<EntryTimes> {
        let life = self.0.times(key(k), now)?;
        Some(EntryTimes {
            timeout: life.timeout,
            timeout_left: life.timeout_left,
            lifetime: life.lifetime,
            lifetime_left: life.lifetime_left,
        })
    }

    fn set_times(&self, k: Key<'_>, t: Times, now: Duration) -> bool {
        self.0.set_times(key(k), times(t, true), now)
    }
}
