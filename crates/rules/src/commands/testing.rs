//! Runs single commands for tests, in a world where nothing happens.

use super::TABLES;
use crate::command::{ANY, Ctx, Meter};
use crate::data_group::DataGroup;
use crate::event::Event;
use crate::fault::{Fault, Kind};
use crate::flow::{Ends, Flow};
use crate::host::{Host, LogLine, LogTarget, PoolView, Table};
use crate::value::Value;
use crate::vm::{Layout, Scope, Scopes, Session, Statics};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Variables, and what else commands of a connection share.
pub(crate) struct Bench {
    flow: Flow,
    host: Nowhere,
    session: Session,
    scopes: Scopes,
    statics: Statics,
    meter: Meter,
    core: crate::engine::Core,
    rule: Rc<str>,
}

/// A process without anything but a clock.
pub(crate) struct Nowhere {
    pub(crate) now: Duration,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let nowhere = (IpAddr::from(Ipv4Addr::LOCALHOST), 0).into();
        let ends = Ends {
            remote: nowhere,
            local: nowhere,
        };
        let mut scopes = Scopes::default();
        scopes.list.push(Scope::new(Rc::new(Layout::default())));
        Bench {
            flow: Flow::new("test".into(), ends),
            host: Nowhere {
                now: Duration::new(1_234_567_890, 123_456_000),
            },
            session: Session::default(),
            scopes,
            statics: Statics::new(1),
            meter: Meter {
                steps: 1 << 40,
                bytes: 1 << 40,
            },
            core: crate::engine::Core::default(),
            rule: "test".into(),
        }
    }

    /// What an event may use up.
    pub(crate) fn limit(&mut self, steps: u64, bytes: u64) {
        self.meter = Meter { steps, bytes };
    }

    pub(crate) fn ctx(&mut self) -> Ctx<'_> {
        Ctx {
            flow: &mut self.flow,
            host: &mut self.host,
            event: Event::RuleInit,
            session: &mut self.session,
            rule: &self.rule,
            scopes: &mut self.scopes,
            statics: &mut self.statics,
            meter: &mut self.meter,
            program: &self.core,
            nested: 0,
        }
    }

    /// Runs a command by its words.
    pub(crate) fn words(&mut self, words: &[Value]) -> Result<Value, Fault> {
        let name = words[0].lossy();
        let command = TABLES
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

    /// Runs a command that is written as a list. Its result, or its error's message.
    pub(crate) fn run(&mut self, command: &str) -> Result<String, String> {
        let words = Value::from(command).into_items().unwrap();
        self.words(&words)
            .map(|value| value.lossy())
            .map_err(|fault| message(&fault))
    }

    /// A variable's value.
    pub(crate) fn var(&mut self, name: &str) -> String {
        self.ctx().get(&Value::from(name)).unwrap().lossy()
    }
}

/// An error's message.
pub(crate) fn message(fault: &Fault) -> String {
    match fault.kind() {
        Kind::Error(error) => error.message.value().lossy(),
        other => format!("{other:?}"),
    }
}

/// Checks commands, each written as a list, against their results; an error's message begins with `!`.
pub(crate) fn check(cases: &[(&str, &str)]) {
    let mut bench = Bench::new();
    for (command, wanted) in cases {
        let given = bench
            .run(command)
            .unwrap_or_else(|error| format!("!{error}"));
        assert_eq!(given, *wanted, "{command}");
    }
}

/// A sequence of numbers that looks random and is the same each time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// A text of up to `most` of these characters.
    pub(crate) fn text(&mut self, chars: &str, most: usize) -> String {
        let len = self.below(most + 1);
        (0..len)
            .map(|_| char::from(chars.as_bytes()[self.below(chars.len())]))
            .collect()
    }
}

impl Host for Nowhere {
    fn now(&self) -> Duration {
        self.now
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
        panic!("there is no table here")
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
