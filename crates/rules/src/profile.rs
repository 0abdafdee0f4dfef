//! How many cycles events and commands take.

use crate::event::Event;
use std::cell::RefCell;
use std::rc::Rc;

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    rows: RefCell<Vec<ProfileRow>>,
}

/// What an event of a rule has taken, or a command in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRow {
    /// The rule.
    pub rule: Rc<str>,
    /// The event.
    pub event: Event,
    /// The command; nothing for the event as a whole.
    pub command: Option<&'static str>,
    /// How often.
    pub count: u64,
    /// Cycles in all.
    pub total: u64,
    /// The fewest.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Profile {
    pub(crate) fn event(&self, rule: &Rc<str>, event: Event, cycles: u64) {
        self.add(rule, event, None, cycles);
    }

    pub(crate) fn command(&self, rule: &Rc<str>, event: Event, command: &'static str, cycles: u64) {
        self.add(rule, event, Some(command), cycles);
    }

    fn add(&self, rule: &Rc<str>, event: Event, command: Option<&'static str>, cycles: u64) {
        let mut rows = self.rows.borrow_mut();
        let same = |row: &&mut ProfileRow| {
            row.event == event
                && row.command == command
                && (Rc::ptr_eq(&row.rule, rule) || row.rule == *rule)
        };
        if let Some(row) = rows.iter_mut().find(same) {
            row.count += 1;
            row.total += cycles;
            row.least = row.least.min(cycles);
            row.most = row.most.max(cycles);
            return;
        }
        rows.push(ProfileRow {
            rule: Rc::clone(rule),
            event,
            command,
            count: 1,
            total: cycles,
            least: cycles,
            most: cycles,
        });
    }

    pub(crate) fn rows(&self) -> Vec<ProfileRow> {
        self.rows.borrow().clone()
    }
}
