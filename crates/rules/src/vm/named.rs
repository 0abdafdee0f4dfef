//! Variables by names that are known only when code runs, and scopes by their levels.

use super::scope::{Array, Scopes, Statics, cant, split_name};
use crate::fault::{Fault, Message};
use crate::value::Value;
use std::rc::Rc;

impl Scopes {
    pub(crate) fn get_named(&self, statics: &Statics, name: &[u8]) -> Result<Value, Fault> {
        let (base, index) = split_name(name);
        match (self.existing_place(statics, base), index) {
            (Some(place), None) => self.load(statics, place),
            (Some(place), Some(index)) => self.load_element(statics, place, index),
            (None, None) => Err(Fault::raise(Message::NoVariable(name.into()))),
            (None, Some(index)) => Err(cant("read", base, Some(index), "no such variable")),
        }
    }

    pub(crate) fn set_named(
        &mut self,
        statics: &mut Statics,
        name: &[u8],
        value: Value,
    ) -> Result<(), Fault> {
        let (base, index) = split_name(name);
        let place = self.place(statics, self.current, base);
        match index {
            None => self.store(statics, place, value),
            Some(index) => self.store_element(statics, place, index, value),
        }
    }

    /// Whether there is a place for a variable of that name already.
    pub(crate) fn has_name(&self, statics: &Statics, name: &[u8]) -> bool {
        self.existing_place(statics, name).is_some()
    }

    pub(crate) fn exists_named(&self, statics: &Statics, name: &[u8]) -> bool {
        let (base, index) = split_name(name);
        self.existing_place(statics, base)
            .is_some_and(|place| self.exists(statics, place, index))
    }

    pub(crate) fn unset_named(&mut self, statics: &mut Statics, name: &[u8]) -> bool {
        let (base, index) = split_name(name);
        self.existing_place(statics, base)
            .is_some_and(|place| self.unset(statics, place, index))
    }

    pub(crate) fn take_named(&mut self, statics: &mut Statics, name: &[u8]) -> Value {
        let (base, index) = split_name(name);
        self.existing_place(statics, base)
            .and_then(|place| self.value_mut(statics, place, index))
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Puts an empty array where there is no variable: `array set a {}`.
    pub(crate) fn make_array(&mut self, statics: &mut Statics, name: &[u8]) -> Result<(), Fault> {
        let place = self.place(statics, self.current, name);
        self.array_mut(statics, place, "array set", b"").map(|_| ())
    }

    /// The array of that name, if there is one.
    pub(crate) fn array_named<'a>(
        &'a self,
        statics: &'a Statics,
        name: &[u8],
    ) -> Option<&'a Array> {
        self.array(statics, self.existing_place(statics, name)?)
    }

    /// Names of the current scope's variables.
    pub(crate) fn local_names(&self) -> Vec<Rc<[u8]>> {
        self.list[self.current].names().collect()
    }

    /// The scope of a level: `#n` counted from the connection's, or `n` calls out of the current one.
    pub(crate) fn level(&self, text: &[u8]) -> Option<usize> {
        let mut at = self.current;
        if let Some(absolute) = text.strip_prefix(b"#") {
            let wanted = crate::value::parse_integer(absolute)?;
            while i64::from(self.list[at].level) > wanted && at != self.list[at].parent {
                at = self.list[at].parent;
            }
            return (i64::from(self.list[at].level) == wanted).then_some(at);
        }
        let out = crate::value::parse_integer(text).filter(|n| *n >= 0)?;
        for _ in 0..out {
            if self.list[at].level == 0 {
                return None;
            }
            at = self.list[at].parent;
        }
        Some(at)
    }
}
