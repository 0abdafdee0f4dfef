//! Bytecode: what the compiler writes and the machine runs.
//!
//! The machine has a stack of values. Each instruction says what it takes from its top (the right end, in brackets) and what
//! it leaves there: `[a b] → [c]`.

use crate::ast::{At, Binary, Function, Unary};
use crate::command::Command;
use crate::event::Side;
use crate::map::Map;
use crate::value::Value;
use crate::vm::Layout;
use std::rc::Rc;
use std::sync::Arc;

/// A variable's slot: in the scope of the code, or among the worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Var(u32);

impl Var {
    const STATIC: u32 = 1 << 31;

    pub(crate) fn local(slot: u32) -> Self {
        Var(slot)
    }

    pub(crate) fn of_worker(slot: u32) -> Self {
        Var(slot | Self::STATIC)
    }

    pub(crate) fn is_static(self) -> bool {
        self.0 & Self::STATIC != 0
    }

    pub(crate) fn slot(self) -> u32 {
        self.0 & !Self::STATIC
    }
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// `[] → [constant]`
    Const(u32),
    /// `[a] → []`
    Pop,
    /// `[a] → [a a]`
    Dup,
    /// `[n texts] → [their concatenation]`
    Concat(u16),
    /// `[] → [value]`
    Load(Var),
    /// `[n texts of the index] → [value]`
    LoadElement(Var, u16),
    /// `[name] → [value]`
    LoadNamed,
    /// `[value] → [value]`, or `[value] → []`
    Store(Var),
    StorePop(Var),
    /// `[n texts of the index, value] → [value]`
    StoreElement(Var, u16),
    /// `[name, value] → [value]`
    StoreNamed,
    /// `[value, name] → []`
    StoreNamedBelow,
    /// `[] → [new value]`, or `[] → []`
    Increment(Var, i16),
    IncrementPop(Var, i16),
    /// `[amount] → [new value]`, or `[amount] → []`
    IncrementBy(Var),
    IncrementByPop(Var),
    /// `[n texts of the index, amount] → [new value]`
    IncrementElement(Var, u16),
    /// `[name, amount] → [new value]`
    IncrementNamed,
    /// `[value] → [whole value]`, or `[value] → []`
    Append(Var),
    AppendPop(Var),
    /// `[n texts of the index, value] → [whole value]`
    AppendElement(Var, u16),
    /// `[name, value] → [whole value]`
    AppendNamed,
    /// `[n values] → [list of them]`
    List(u16),
    /// `[item] → [list]`; the item is a list of several if the flag says so
    Push(Var, bool),
    PushPop(Var, bool),
    /// `[n texts of the index, item] → [list]`
    PushElement(Var, u16, bool),
    /// `[name, item] → [list]`
    PushNamed(bool),
    /// `[] → [truth]`
    Exists(Var),
    /// `[n texts of the index] → [truth]`
    ExistsElement(Var, u16),
    /// `[name] → [truth]`
    ExistsNamed,
    /// `[] → []`; whether a missing one is an error
    Unset(Var, bool),
    /// `[n texts of the index] → []`
    UnsetElement(Var, u16, bool),
    /// `[name] → []`
    UnsetNamed(bool),

    Jump(u32),
    /// Backwards: a step is counted.
    Loop(u32),
    /// `[condition] → []`
    JumpIf(u32),
    JumpIfNot(u32),
    /// `[a b] → []`: the comparison and the jump where it does not hold
    JumpUnless(Binary, u32),
    /// Compares a variable with a constant: where it holds, the next instruction, a jump, is left out.
    Compare(Binary, Var, u16),
    /// `[value] → []`: to where a table says
    Switch(u32),
    /// `[value pattern] → [truth]`
    Matches(Matching),
    /// `[n lists] → [n lists, 0]`
    ForeachBegin(u16),
    /// Sets the variables of the next round, or jumps: the number of the loop, and where to.
    ForeachStep(u16, u32),

    /// `[a b] → [result]`
    Binary(Binary),
    /// `[a] → [result]`
    Unary(Unary),
    /// `[arguments] → [result]`
    Function(Function, u8),
    /// `[a] → [the number that it is, or else a]`
    Number,
    /// `[n texts] → [value of the expression that they make]`
    EvalExpr(u16),

    /// `[arguments] → [result]`: the command's number, how many arguments
    Call(u16, u16),
    /// The same with a word of the command's that says what to do, by its number.
    CallSub(u16, u8, u16),
    /// `[arguments] → [result]`: the procedure's number
    CallProc(u16, u16),
    /// `[name and arguments] → [result]`
    Invoke(u16),
    /// `[n texts] → [result of the script that they make]`
    Eval(u16),
    /// `[level, n texts] → [result]`
    Uplevel(u16),
    /// `[text] → [text with substitutions]`: 1 without backslashes, 2 commands, 4 variables
    Subst(u8),
    /// `[name parameters body] → [""]`
    Proc,

    /// `[value] → `: the end of a text; the value is its own.
    End,
    /// `[value] → `: from the procedure or event; out of a text that was evaluated it is raised.
    Return,
    /// `[value] → `: as an exception, where a `catch` may hold it
    RaiseReturn,
    /// `[code, info, error code, value] → `
    ReturnWith,
    /// `[message, info, error code] → `
    Error,
    Break,
    Continue,
    /// `[] → [the code of what was caught]`
    CaughtCode,
    /// `[] → [the value of what was caught]`
    CaughtValue,

    /// `[] → [the side it was]`
    EnterSide(Turn),
    /// `[the side it was, value] → [value]`
    LeaveSide,
    /// `[] → []`
    SetSide(Sided),
    /// `[] → [truth]`
    IsSide(Side),
}

/// Which side commands turn to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    To(Side),
    /// `peer`
    Over,
}

/// The side that a point in the code is turned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sided {
    /// The one that its text was entered with.
    Own,
    /// The other than that.
    Other,
    To(Side),
}

impl Sided {
    /// The side within a command that turns.
    pub(crate) fn turned(self, turn: Turn) -> Sided {
        match (turn, self) {
            (Turn::To(side), _) => Sided::To(side),
            (Turn::Over, Sided::Own) => Sided::Other,
            (Turn::Over, Sided::Other) => Sided::Own,
            (Turn::Over, Sided::To(side)) => Sided::To(over(side)),
        }
    }

    /// The side itself, for a text that was entered with `own`.
    pub(crate) fn of(self, own: Side) -> Side {
        match self {
            Sided::Own => own,
            Sided::Other => over(own),
            Sided::To(side) => side,
        }
    }
}

/// The other side.
pub(crate) fn over(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

/// How `switch` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    Exact,
    Glob,
    Regex,
}

/// A piece of compiled text.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    pub(crate) consts: Vec<Value>,
    /// Where what is raised is held, innermost first.
    pub(crate) guards: Vec<Guard>,
    pub(crate) foreachs: Vec<Foreach>,
    pub(crate) switches: Vec<Map<Box<[u8]>, u32>>,
    /// Where a switch goes whose table has no entry, by its number.
    pub(crate) defaults: Vec<u32>,
    /// The commands' places: the first instruction of each, and where it stands in the text.
    pub(crate) marks: Vec<(u32, At, At)>,
    pub(crate) source: Rc<Source>,
}

/// What a text is part of.
#[derive(Debug)]
pub(crate) struct Source {
    /// The rule's name.
    pub(crate) rule: Rc<str>,
    /// The procedure's or event's name.
    pub(crate) within: Rc<str>,
    pub(crate) text: Arc<[u8]>,
}

/// A stretch of code in which something that is raised is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// How many values are on the frame's part of the stack when it is held.
    pub(crate) depth: u32,
    /// The side that it is turned to.
    pub(crate) side: Sided,
    pub(crate) holds: Holds,
}

/// What is held, and where it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holds {
    /// Everything: a `catch`.
    All(u32),
    /// `break` and `continue`: a loop.
    Loop { out: u32, again: u32 },
}

/// A `foreach`: for each list the variables that take its items.
#[derive(Debug)]
pub(crate) struct Foreach {
    pub(crate) lists: Vec<Vec<Target>>,
}

/// A variable that is set by its slot or by its name.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Slot(Var),
    Name(Value),
}

/// A procedure.
#[derive(Debug)]
pub(crate) struct Proc {
    pub(crate) name: Rc<str>,
    pub(crate) params: Vec<(Rc<[u8]>, Option<Value>)>,
    /// Whether the last parameter, `args`, takes all that is left.
    pub(crate) rest: bool,
    pub(crate) layout: Rc<Layout>,
    pub(crate) code: Rc<Code>,
    pub(crate) body: Value,
}

/// The commands, by number and name.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) list: Vec<&'static Command>,
    index: Map<&'static str, u16>,
}

impl Commands {
    pub(crate) fn new(tables: &[&'static [&'static [Command]]]) -> Self {
        let list: Vec<&'static Command> = tables
            .iter()
            .flat_map(|tables| tables.iter())
            .flat_map(|table| table.iter())
            .collect();
        let index = list
            .iter()
            .enumerate()
            .map(|(n, command)| (command.name, n as u16))
            .collect();
        Commands { list, index }
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<u16> {
        let name = std::str::from_utf8(name).ok()?;
        let name = name.strip_prefix("::").unwrap_or(name);
        self.index.get(name).copied()
    }
}

impl Code {
    /// Where the command stands to which an instruction belongs: its start and end.
    pub(crate) fn place(&self, pc: u32) -> Option<(At, At)> {
        let after = self.marks.partition_point(|mark| mark.0 <= pc);
        let (_, at, end) = self.marks.get(after.checked_sub(1)?)?;
        Some((*at, *end))
    }
}
