//! Runs single commands for tests, in a world where nothing happens.

use super::TABLES;
use crate::command::Ctx;
use crate::event::Event;
use crate::fault::{Fault, Kind};
use crate::value::Value;
use crate::world::testing::World;
use std::time::Duration;

/// Variables, and what else commands of a connection share.
pub(crate) struct Bench {
    world: World,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let mut world = World::new();
        world.event = Event::RuleInit;
        world.host.now = Duration::new(1_234_567_890, 123_456_000);
        Bench { world }
    }

    /// What an event may use up.
    pub(crate) fn limit(&mut self, steps: u64, bytes: u64) {
        self.world.limit(steps, bytes);
    }

    pub(crate) fn ctx(&mut self) -> Ctx<'_> {
        self.world.ctx()
    }

    /// Runs a command by its words.
    pub(crate) fn words(&mut self, words: &[Value]) -> Result<Value, Fault> {
        self.world.words_of(TABLES, words)
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
