//! Procedures, by number and name.

use crate::code::Proc;
use crate::map::Map;
use std::rc::Rc;

/// Procedures by number and name; those that are called before they are defined have their number already.
#[derive(Debug, Default)]
pub(crate) struct Procs {
    pub(crate) list: Vec<Option<Rc<Proc>>>,
    pub(crate) names: Vec<Rc<str>>,
    index: Map<Rc<str>, u16>,
}

/// How many procedures there may be before code that runs can define no more.
const MOST: usize = 10_000;

impl Procs {
    pub(crate) fn number(&mut self, name: &str) -> u16 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let number = self.list.len() as u16;
        let name: Rc<str> = name.into();
        self.list.push(None);
        self.names.push(Rc::clone(&name));
        self.index.insert(name, number);
        number
    }

    pub(crate) fn find(&self, name: &str) -> Option<u16> {
        self.index.get(name).copied()
    }

    /// Whether a procedure of that name can be defined by code that runs.
    pub(crate) fn has_room(&self, name: &str) -> bool {
        self.list.len() < MOST || self.find(name).is_some()
    }

    /// The number of a procedure as code of a rule names it: one of its own first.
    pub(crate) fn seen_from(&self, rule: &str, name: &[u8]) -> Option<u16> {
        let name = std::str::from_utf8(name).ok()?;
        self.find(&format!("{rule}::{name}"))
            .or_else(|| self.find(name))
    }

    /// The procedure that code of a rule names so, if it is defined.
    pub(crate) fn get(&self, rule: &str, name: &[u8]) -> Option<Rc<Proc>> {
        self.list[usize::from(self.seen_from(rule, name)?)].clone()
    }
}
