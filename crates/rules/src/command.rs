//! What a command is: its name, what it takes, where it may stand, and the function that runs it.
//!
//! The tables of commands are in [`commands`](crate::commands) (Tcl's own) and [`world`](crate::world) (F5's). Commands that
//! steer the run of a script (`if`, `while`, `catch`, `proc` …) are the compiler's.

use crate::event::{Event, Events, Side};
use crate::fault::Fault;
use crate::flow::Flow;
use crate::host::Host;
use crate::value::Value;
use crate::vm::{Scopes, Session, Statics};
use std::rc::Rc;

/// A command.
#[derive(Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What it takes, as Tcl writes usages, without its name: `?uri?`.
    pub usage: &'static str,
    /// The fewest words it takes behind its name.
    pub least: u8,
    /// The most; [`ANY`] for any number.
    pub most: u8,
    /// Events at which it may be used; others are an error when the rule is loaded.
    pub events: Events,
    /// What runs it. It is given the words behind the name.
    pub run: Run,
    /// How it differs from F5's, for the compatibility table; empty where it does not.
    pub differs: &'static str,
    /// What its first word can say, where that is all that it goes by.
    pub(crate) subs: &'static [Sub],
}

/// What a command like `string` does for one of its words: `length`.
#[derive(Debug)]
pub(crate) struct Sub {
    /// The word.
    pub(crate) name: &'static str,
    /// What it takes, as Tcl writes usages.
    pub(crate) usage: &'static str,
    /// The fewest words behind it.
    pub(crate) least: u8,
    /// The most.
    pub(crate) most: u8,
    /// What runs it, given the words behind it.
    pub(crate) run: Run,
}

/// For [`Command::most`]: any number of words.
pub const ANY: u8 = u8::MAX;

/// What runs a command.
pub type Run = fn(&mut Ctx<'_>, &[Value]) -> Result<Value, Fault>;

/// What a command can get at.
pub struct Ctx<'a> {
    /// The connection.
    pub flow: &'a mut Flow,
    /// The process around it.
    pub host: &'a mut dyn Host,
    /// The event at which it runs.
    pub event: Event,
    /// What the machine keeps for the connection beside the flow: which events are off, and what runs later.
    pub session: &'a mut Session,
    /// The rule's name.
    pub rule: &'a Rc<str>,
    pub(crate) scopes: &'a mut Scopes,
    pub(crate) statics: &'a mut Statics,
    pub(crate) meter: &'a mut Meter,
    /// What all of a virtual's rules share.
    pub(crate) program: &'a crate::engine::Core,
    /// How many commands that call others back are under way.
    pub(crate) nested: u32,
}

/// What an event may still use up.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Steps: jumps back, calls, and what long commands count themselves.
    pub(crate) steps: u64,
    /// Bytes of new values.
    pub(crate) bytes: u64,
}

impl Command {
    /// A command that may stand anywhere.
    pub const fn new(
        name: &'static str,
        usage: &'static str,
        least: u8,
        most: u8,
        run: Run,
    ) -> Self {
        Command {
            name,
            usage,
            least,
            most,
            events: Events::ALL,
            run,
            differs: "",
            subs: &[],
        }
    }

    /// The same, going by its first word.
    pub(crate) const fn with(mut self, subs: &'static [Sub]) -> Self {
        self.subs = subs;
        self
    }

    /// The same for these events only.
    pub const fn at(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// The same with a word on how it differs from F5's.
    pub const fn differs(mut self, how: &'static str) -> Self {
        self.differs = how;
        self
    }

    /// Tcl's complaint about a wrong number of words.
    pub fn wrong_args(&self) -> Fault {
        if self.usage.is_empty() {
            Fault::usage(self.name)
        } else {
            Fault::usage(&format!("{} {}", self.name, self.usage))
        }
    }
}

impl Ctx<'_> {
    /// The value of the variable `name`, which may name an array's element: `a(b)`.
    ///
    /// # Errors
    ///
    /// Tcl's `can't read "…": no such variable` and its kin.
    pub fn get(&mut self, name: &Value) -> Result<Value, Fault> {
        self.scopes.get_named(self.statics, &name.bytes())
    }

    /// Sets the variable `name`, which may name an array's element.
    ///
    /// # Errors
    ///
    /// Tcl's `can't set "…": variable is array` and its kin.
    pub fn set(&mut self, name: &Value, value: Value) -> Result<(), Fault> {
        let bytes = name.bytes();
        if bytes.last() == Some(&b')') {
            // What an array takes for an element, as for one whose array is known beforehand.
            self.charge(64 + bytes.len())?;
        } else if !self.scopes.has_name(self.statics, &bytes) {
            self.charge(128 + bytes.len())?;
        }
        self.scopes.set_named(self.statics, &name.bytes(), value)
    }

    /// Whether the variable `name` is there.
    pub fn exists(&mut self, name: &Value) -> bool {
        self.scopes.exists_named(self.statics, &name.bytes())
    }

    /// Takes the value out of a variable to change it without a copy: what it becomes is to be
    /// [`set`](Ctx::set). Empty where there is none.
    pub fn take(&mut self, name: &Value) -> Value {
        self.scopes.take_named(self.statics, &name.bytes())
    }

    /// Counts bytes of a value that a command is about to make.
    ///
    /// # Errors
    ///
    /// The event has used up its memory.
    pub fn charge(&mut self, bytes: usize) -> Result<(), Fault> {
        self.meter.charge(bytes)
    }

    /// Counts steps of a command whose work can be long.
    ///
    /// # Errors
    ///
    /// The event has used up its steps.
    pub fn spend(&mut self, steps: u64) -> Result<(), Fault> {
        self.meter.spend(steps)
    }

    /// The steps that are left, for what counts them itself.
    pub fn steps(&mut self) -> &mut u64 {
        &mut self.meter.steps
    }

    /// The side that commands speak of.
    pub fn side(&self) -> Side {
        self.flow.side
    }
}

impl Meter {
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Fault> {
        match self.bytes.checked_sub(bytes as u64) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => Err(Fault::exhausted("memory")),
        }
    }

    /// Counts a list that a command has made: its text, whenever that is wanted.
    #[inline]
    pub(crate) fn made(&mut self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::List(list) if Rc::strong_count(list) == 1 => self.charge(list.weight()),
            _ => Ok(()),
        }
    }

    /// Counts the steps of looking through so many bytes once, where they are many.
    #[inline]
    pub(crate) fn look(&mut self, bytes: usize) -> Result<(), Fault> {
        match bytes / 256 {
            0 => Ok(()),
            steps => self.spend(steps as u64),
        }
    }

    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Fault> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => {
                self.steps = 0;
                Err(Fault::exhausted("instructions"))
            }
        }
    }
}
