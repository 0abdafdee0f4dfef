//! What reads, sets and takes away variables.

use super::{Compiler, Named, named};
use crate::ast::{Command, Part, Word};
use crate::code::{Op, Target, Var};
use crate::value::{Value, parse_integer};

/// What a name turned out to be.
enum Where {
    /// A slot.
    Slot(Var),
    /// An element: its array's slot, and how many parts of the index were pushed.
    Element(Var, u16),
    /// Its name was pushed.
    Named,
}

impl Compiler<'_, '_> {
    /// The value of a variable.
    pub(super) fn load(&mut self, name: &[u8], index: Option<&[Part]>) {
        match self.place(name, index) {
            Where::Slot(var) => {
                self.emit(Op::Load(var));
                self.depth += 1;
            }
            Where::Element(var, n) => {
                self.emit(Op::LoadElement(var, n));
                self.depth = self.depth + 1 - u32::from(n);
            }
            Where::Named => {
                self.emit(Op::LoadNamed);
            }
        }
    }

    /// Finds a variable's slot, pushing what its index is made of; or pushes its name.
    fn place(&mut self, name: &[u8], index: Option<&[Part]>) -> Where {
        match (self.slot(name), index) {
            (Some(var), None) => Where::Slot(var),
            (Some(var), Some([])) => {
                self.constant(Value::Empty);
                Where::Element(var, 1)
            }
            (Some(var), Some(parts)) => {
                self.push_parts(parts);
                Where::Element(var, parts.len() as u16)
            }
            (None, None) => {
                self.literal(name);
                Where::Named
            }
            (None, Some(parts)) => {
                let mut whole = vec![Part::Text([name, b"("].concat())];
                whole.extend_from_slice(parts);
                whole.push(Part::Text(b")".to_vec()));
                self.parts(&whole);
                Where::Named
            }
        }
    }

    /// The same for a word that names a variable.
    fn place_of(&mut self, word: &Word) -> Where {
        match named(word) {
            Named::Plain(name, index) => self.place(name, index.as_deref()),
            Named::Computed => {
                self.word(word);
                Where::Named
            }
        }
    }

    /// The variable that a loop or `catch` sets: a slot, or a name. Names that are computed or of an
    /// element are none.
    pub(super) fn target(&mut self, text: &[u8]) -> Target {
        let plain = !text.contains(&b'(');
        match if plain { self.slot(text) } else { None } {
            Some(var) => Target::Slot(var),
            None => Target::Name(Value::new(text)),
        }
    }

    /// Stores the value on top of the stack in the variable that `word` names; leaves nothing.
    pub(super) fn store_top(&mut self, word: &Word) {
        if let Named::Plain(name, None) = named(word)
            && let Some(var) = self.slot(name)
        {
            self.emit(Op::StorePop(var));
            self.depth -= 1;
            return;
        }
        self.word(word);
        self.emit(Op::StoreNamedBelow);
        self.depth -= 2;
    }

    pub(super) fn set(&mut self, command: &Command, want: bool) -> bool {
        match &command.words[1..] {
            [name] => {
                match self.place_of(name) {
                    Where::Slot(var) => {
                        self.emit(Op::Load(var));
                        self.depth += 1;
                    }
                    Where::Element(var, n) => {
                        self.emit(Op::LoadElement(var, n));
                        self.depth = self.depth + 1 - u32::from(n);
                    }
                    Where::Named => {
                        self.emit(Op::LoadNamed);
                    }
                }
                self.keep(want);
            }
            [name, value] => match self.place_of(name) {
                Where::Slot(var) => {
                    self.word(value);
                    if want {
                        self.emit(Op::Store(var));
                    } else {
                        self.emit(Op::StorePop(var));
                        self.depth -= 1;
                    }
                }
                Where::Element(var, n) => {
                    self.word(value);
                    self.emit(Op::StoreElement(var, n));
                    self.depth -= u32::from(n);
                    self.keep(want);
                }
                Where::Named => {
                    self.word(value);
                    self.emit(Op::StoreNamed);
                    self.depth -= 1;
                    self.keep(want);
                }
            },
            _ => self.usage(command, "set varName ?newValue?", want),
        }
        true
    }

    pub(super) fn incr(&mut self, command: &Command, want: bool) -> bool {
        let (name, amount) = match &command.words[1..] {
            [name] => (name, None),
            [name, amount] => (name, Some(amount)),
            _ => {
                self.usage(command, "incr varName ?increment?", want);
                return true;
            }
        };
        let small = match amount {
            None => Some(1),
            Some(word) => word
                .literal()
                .and_then(parse_integer)
                .and_then(|n| i16::try_from(n).ok()),
        };
        let place = self.place_of(name);
        if let (Where::Slot(var), Some(small)) = (&place, small) {
            self.emit(Op::Increment(*var, small));
            self.depth += 1;
            self.keep(want);
            return true;
        }
        match amount {
            Some(word) => self.word(word),
            None => self.constant(Value::Int(1)),
        }
        match place {
            Where::Slot(var) => {
                self.emit(Op::IncrementBy(var));
            }
            Where::Element(var, n) => {
                self.emit(Op::IncrementElement(var, n));
                self.depth -= u32::from(n);
            }
            Where::Named => {
                self.emit(Op::IncrementNamed);
                self.depth -= 1;
            }
        }
        self.keep(want);
        true
    }

    /// `append` and `lappend`: `list` for the latter.
    pub(super) fn append(&mut self, command: &Command, want: bool, list: bool) -> bool {
        let [_, name, values @ ..] = command.words.as_slice() else {
            let usage = if list {
                "lappend varName ?value value ...?"
            } else {
                "append varName ?value value ...?"
            };
            self.usage(command, usage, want);
            return true;
        };
        if values.is_empty() {
            if list {
                self.append_values(name, &[], true);
                self.keep(want);
                return true;
            }
            let read = Command {
                words: vec![command.words[0].clone(), name.clone()],
                ..*command
            };
            return self.set(&read, want);
        }
        self.append_values(name, values, list);
        self.keep(want);
        true
    }

    /// Appends texts, or items, all of which are there before the variable is touched.
    fn append_values(&mut self, name: &Word, values: &[Word], list: bool) {
        let place = self.place_of(name);
        for value in values {
            self.word(value);
        }
        let count = values.len() as u16;
        if list && count != 1 {
            self.emit(Op::List(count));
            self.depth = self.depth + 1 - u32::from(count);
        } else if count > 1 {
            self.emit(Op::Concat(count));
            self.depth -= u32::from(count) - 1;
        }
        let many = list && count != 1;
        let op = match (place, list) {
            (Where::Slot(var), false) => Op::Append(var),
            (Where::Slot(var), true) => Op::Push(var, many),
            (Where::Element(var, n), list) => {
                self.depth -= u32::from(n);
                if list {
                    Op::PushElement(var, n, many)
                } else {
                    Op::AppendElement(var, n)
                }
            }
            (Where::Named, list) => {
                self.depth -= 1;
                if list {
                    Op::PushNamed(many)
                } else {
                    Op::AppendNamed
                }
            }
        };
        self.emit(op);
    }

    pub(super) fn unset(&mut self, command: &Command, want: bool) -> bool {
        let mut names = &command.words[1..];
        let mut complain = true;
        if let [first, rest @ ..] = names
            && first.literal() == Some(b"-nocomplain")
        {
            complain = false;
            names = rest;
        }
        if let [first, rest @ ..] = names
            && first.literal() == Some(b"--")
        {
            names = rest;
        }
        for name in names {
            let op = match self.place_of(name) {
                Where::Slot(var) => Op::Unset(var, complain),
                Where::Element(var, n) => {
                    self.depth -= u32::from(n);
                    Op::UnsetElement(var, n, complain)
                }
                Where::Named => {
                    self.depth -= 1;
                    Op::UnsetNamed(complain)
                }
            };
            self.emit(op);
        }
        self.nothing(want);
        true
    }

    /// `info exists`.
    pub(super) fn exists(&mut self, name: &Word, want: bool) {
        let op = match self.place_of(name) {
            Where::Slot(var) => {
                self.depth += 1;
                Op::Exists(var)
            }
            Where::Element(var, n) => {
                self.depth = self.depth + 1 - u32::from(n);
                Op::ExistsElement(var, n)
            }
            Where::Named => Op::ExistsNamed,
        };
        self.emit(op);
        self.keep(want);
    }

    /// Drops the value on top unless it is wanted. It is the last instruction's, behind which nothing
    /// jumps.
    pub(super) fn keep(&mut self, want: bool) {
        if want {
            return;
        }
        let without = match self.ops.last() {
            Some(Op::Increment(var, by)) => Op::IncrementPop(*var, *by),
            Some(Op::IncrementBy(var)) => Op::IncrementByPop(*var),
            Some(Op::Append(var)) => Op::AppendPop(*var),
            Some(Op::Push(var, many)) => Op::PushPop(*var, *many),
            _ => return self.pop(),
        };
        self.ops.pop();
        self.ops.push(without);
        self.depth -= 1;
    }

    /// The empty value, if one is wanted.
    pub(super) fn nothing(&mut self, want: bool) {
        if want {
            self.constant(Value::Empty);
        }
    }

    /// A command with a wrong number of words: an error now, or when it is run.
    pub(super) fn usage(&mut self, command: &Command, usage: &str, want: bool) {
        let message = format!("wrong # args: should be \"{usage}\"");
        self.raise(command, &message, want);
    }

    /// An error that is sure: found now, or raised when the code runs.
    pub(super) fn raise(&mut self, command: &Command, message: &str, want: bool) {
        if self.env.strict {
            self.problem(command.at, message);
        }
        self.constant(Value::from(message));
        self.constant(Value::Empty);
        self.constant(Value::Empty);
        self.emit(Op::Error);
        self.depth -= 3;
        self.nothing(want);
    }
}
