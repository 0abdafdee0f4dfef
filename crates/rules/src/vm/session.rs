//! What the machine keeps for one connection beside its variables: the events that are off, and scripts that run later.

use crate::event::{Event, Events};
use crate::value::Value;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// A connection's state in the machine that its commands can change.
#[derive(Debug, Default)]
pub struct Session {
    /// Events at which nothing runs any more: `event NAME disable`.
    pub disabled: Events,
    /// Whether no later handler runs at all: `event disable all`.
    pub all_disabled: bool,
    /// Scripts that are to run later.
    pub later: Vec<Later>,
    /// Walks through data groups that are under way: each one's id and the place of its next record.
    pub walks: Vec<(u64, usize)>,
    /// Names of variables that are shared with the rules of the virtual that the connection is handed to: `sharedvar`.
    pub shared: Vec<Rc<[u8]>>,
    next: u64,
}

/// A script that is to run later: `after 100 { … }`.
#[derive(Clone, Debug)]
pub struct Later {
    /// Names it: `after#1`.
    pub id: u64,
    /// What runs.
    pub script: Value,
    /// When, since the Unix epoch.
    pub due: Duration,
    /// How often again.
    pub every: Option<Duration>,
    /// The rule whose it is.
    pub rule: Rc<str>,
    /// The event at which it was set, by whose rules its commands are checked.
    pub event: Event,
}

impl Session {
    /// Has a script run later. Returns its id.
    pub fn schedule(&mut self, mut later: Later) -> u64 {
        self.next += 1;
        later.id = self.next;
        self.later.push(later);
        self.next
    }

    /// Forgets a script that was to run later: whether there was one.
    pub fn cancel(&mut self, id: u64) -> bool {
        let before = self.later.len();
        self.later.retain(|later| later.id != id);
        self.later.len() != before
    }

    /// Takes out the scripts that are due, in their order; those that run again and again stay.
    pub(crate) fn take_due(&mut self, now: Duration) -> VecDeque<Later> {
        self.later.sort_by_key(|later| (later.due, later.id));
        let mut due = VecDeque::new();
        self.later.retain_mut(|later| {
            if later.due > now {
                return true;
            }
            due.push_back(later.clone());
            let Some(every) = later.every else {
                return false;
            };
            // What was missed is not made up for.
            later.due = (later.due + every).max(now + every / 2);
            true
        });
        due
    }

    /// When the next script is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.later.iter().map(|later| later.due).min()
    }
}
