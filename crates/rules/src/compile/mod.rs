//! From syntax to bytecode: variables become slots, constants are folded, and commands that steer the run of a script become
//! jumps.
//!
//! Here are scripts, commands and words; `control` has conditions and loops, `variables` what sets and reads variables, `expr`
//! expressions.

mod control;
mod expr;
mod names;
mod procs;
mod switch;
mod variables;

pub(crate) use names::{DISABLED, Named, SPECIAL, disabled, named};
pub(crate) use procs::Procs;

use crate::ast::{At, Command, Part, Script, Word};
use crate::code::{Code, Commands, Foreach, Guard, Op, Sided, Source, Var};
use crate::event::Event;
use crate::map::Map;
use crate::parse::SyntaxError;
use crate::value::Value;
use crate::vm::{Layout, Statics, static_name};
use names::settle;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// What a compiler knows of its surroundings.
pub(crate) struct Env<'e> {
    pub(crate) commands: &'e Commands,
    pub(crate) procs: &'e RefCell<Procs>,
    pub(crate) statics: &'e mut Statics,
    /// The event whose handler is compiled, where commands are to be held to those that they may stand in.
    pub(crate) event: Option<Event>,
    /// Whether names that no command has are errors now, or when they are run.
    pub(crate) strict: bool,
}

/// Which names become slots.
pub(crate) enum Slots<'e> {
    /// Every name gets one.
    Grow(&'e mut Layout),
    /// Only those that have one; others are looked up by name when the code runs.
    Fixed(Rc<Layout>),
}

/// Something wrong, found while compiling.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) at: At,
    pub(crate) warning: bool,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl From<SyntaxError> for Problem {
    fn from(error: SyntaxError) -> Self {
        Problem {
            at: error.at,
            warning: false,
            message: error.message,
            hint: error.hint,
        }
    }
}

/// Compiles one text.
pub(crate) struct Compiler<'c, 'e> {
    env: &'c mut Env<'e>,
    slots: Slots<'c>,
    source: Rc<Source>,
    ops: Vec<Op>,
    consts: Vec<Value>,
    const_index: Map<Box<[u8]>, u32>,
    guards: Vec<Guard>,
    foreachs: Vec<Foreach>,
    switches: Vec<Map<Box<[u8]>, u32>>,
    defaults: Vec<u32>,
    marks: Vec<(u32, At, At)>,
    /// Values on the frame's part of the stack at this point.
    depth: u32,
    /// Loops and catches around this point, innermost last.
    around: Vec<Around>,
    /// The side that commands are turned to here by a command around them.
    side: Sided,
    nesting: u32,
    /// How deep parts of words and of expressions stand in each other here, through all the texts around.
    deep: u32,
    problems: Vec<Problem>,
}

/// What a point in the code is inside of.
enum Around {
    Loop {
        depth: u32,
        side: Sided,
        /// Jumps to be pointed behind the loop, and to its next round.
        outs: Vec<usize>,
        agains: Vec<usize>,
    },
    Catch,
}

/// How many words a command may have, and parts a word.
const MOST_WORDS: usize = 30_000;

/// How deep bodies may stand in bodies.
const NESTING: u32 = 100;

/// How deep parts of words and of expressions may stand in each other: each is a few calls on the stack.
const DEPTH: u32 = 800;

impl<'c, 'e> Compiler<'c, 'e> {
    pub(crate) fn new(env: &'c mut Env<'e>, slots: Slots<'c>, source: Rc<Source>) -> Self {
        Compiler {
            env,
            slots,
            source,
            ops: Vec::new(),
            consts: Vec::new(),
            const_index: Map::default(),
            guards: Vec::new(),
            foreachs: Vec::new(),
            switches: Vec::new(),
            defaults: Vec::new(),
            marks: Vec::new(),
            depth: 0,
            around: Vec::new(),
            side: Sided::Own,
            nesting: 0,
            deep: 0,
            problems: Vec::new(),
        }
    }

    /// Compiles a script that leaves its value.
    pub(crate) fn script_code(mut self, script: &Script) -> (Code, Vec<Problem>) {
        self.script(script, true);
        self.emit(Op::End);
        self.finish()
    }

    /// Compiles an expression that leaves its value.
    pub(crate) fn expr_code(mut self, expr: &crate::ast::Expr) -> (Code, Vec<Problem>) {
        self.expr(expr);
        self.emit(Op::Number);
        self.emit(Op::End);
        self.finish()
    }

    /// Compiles the cases of a policy: code that gives the number of the first that holds.
    pub(crate) fn cases_code(mut self, cases: &[crate::policy::Case]) -> (Code, Vec<Problem>) {
        for (name, script) in crate::policy::prelude(cases) {
            self.script(&script, true);
            if let Some(var) = self.slot(name) {
                self.emit(Op::StorePop(var));
                self.depth -= 1;
            }
        }
        for (number, case) in cases.iter().enumerate() {
            let misses = self.jump_unless(&crate::policy::expression(case));
            self.constant(Value::from(number));
            self.emit(Op::Return);
            self.depth -= 1;
            for miss in misses {
                self.land(miss);
            }
        }
        self.constant(Value::Empty);
        self.emit(Op::End);
        self.finish()
    }

    /// Compiles parts that are put together.
    pub(crate) fn parts_code(mut self, parts: &[Part]) -> (Code, Vec<Problem>) {
        self.parts(parts);
        self.emit(Op::End);
        self.finish()
    }

    fn finish(self) -> (Code, Vec<Problem>) {
        let code = Code {
            ops: self.ops,
            consts: self.consts,
            guards: self.guards,
            foreachs: self.foreachs,
            switches: self.switches,
            defaults: self.defaults,
            marks: self.marks,
            source: self.source,
        };
        (code, self.problems)
    }

    fn emit(&mut self, op: Op) -> usize {
        self.ops.push(op);
        self.ops.len() - 1
    }

    fn here(&self) -> u32 {
        self.ops.len() as u32
    }

    /// Points a jump to what comes next.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        self.point(jump, here);
    }

    fn point(&mut self, jump: usize, to: u32) {
        match &mut self.ops[jump] {
            Op::Jump(at)
            | Op::Loop(at)
            | Op::JumpIf(at)
            | Op::JumpIfNot(at)
            | Op::JumpUnless(_, at)
            | Op::ForeachStep(_, at) => *at = to,
            other => unreachable!("{other:?} is no jump"),
        }
    }

    fn constant(&mut self, value: Value) {
        let key: Box<[u8]> = (&*value.bytes()).into();
        let number = match self.const_index.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.consts.len() as u32;
                self.consts.push(value);
                self.const_index.insert(key, number);
                number
            }
        };
        self.emit(Op::Const(number));
        self.depth += 1;
    }

    fn literal(&mut self, text: &[u8]) {
        self.constant(Value::literal(text));
    }

    fn pop(&mut self) {
        self.emit(Op::Pop);
        self.depth -= 1;
    }

    fn problem(&mut self, at: At, message: impl Into<String>) {
        self.problems.push(Problem {
            at,
            warning: false,
            message: message.into(),
            hint: None,
        });
    }

    fn warn(&mut self, at: At, message: impl Into<String>) {
        self.problems.push(Problem {
            at,
            warning: true,
            message: message.into(),
            hint: None,
        });
    }

    /// A script in place: with `want` it leaves its value, else nothing.
    pub(crate) fn script(&mut self, script: &Script, want: bool) {
        let Some((last, rest)) = script.commands.split_last() else {
            if want {
                self.constant(Value::Empty);
            }
            return;
        };
        for command in rest {
            self.command(command, false);
        }
        self.command(last, want);
    }

    /// The script in a literal word, in place, or the one that a word gives when it is run.
    fn body(&mut self, word: &Word, want: bool) {
        if self.nesting >= NESTING {
            self.problem(word.at, "scripts stand too deep in each other");
            if want {
                self.constant(Value::Empty);
            }
            return;
        }
        self.nesting += 1;
        match self.body_script(word) {
            Some(Ok(script)) => self.script(&script, want),
            Some(Err(error)) => {
                self.syntax_error(error);
                if want {
                    self.constant(Value::Empty);
                }
            }
            None => {
                self.word(word);
                self.emit(Op::Eval(1));
                if !want {
                    self.pop();
                }
            }
        }
        self.nesting -= 1;
    }

    /// A text that is no script or expression: an error now, or when it is run.
    fn syntax_error(&mut self, error: SyntaxError) {
        if self.env.strict {
            self.problems.push(error.into());
            return;
        }
        self.constant(Value::from(error.message));
        self.constant(Value::Empty);
        self.constant(Value::Empty);
        self.emit(Op::Error);
        self.depth -= 3;
    }

    /// The syntax of a literal word that is a script.
    fn body_script(&self, word: &Word) -> Option<Result<Script, SyntaxError>> {
        if let Some(inner) = &word.inner {
            return Some(self.parse_range(inner.clone()));
        }
        let text = word.literal()?;
        // Its backslashes are substituted already: its positions are those of the word.
        let at = word.at;
        let parsed = crate::parse::script(text, 0..text.len() as u32);
        Some(parsed.map(|mut script| {
            settle(&mut script, at);
            script
        }))
    }

    fn parse_range(&self, range: Range<u32>) -> Result<Script, SyntaxError> {
        crate::parse::script(&self.source.text, range)
    }

    /// A command: with `want` it leaves its value, else nothing.
    fn command(&mut self, command: &Command, want: bool) {
        self.marks.push((self.here(), command.at, command.end));
        let before = self.depth;
        let mark = self.marks.len() - 1;
        if command.words.len() > MOST_WORDS {
            self.problem(command.at, "too many words in one command");
            if want {
                self.constant(Value::Empty);
            }
        } else if let Some(name) = command.words[0].literal() {
            let name = name.strip_prefix(b"::").unwrap_or(name).to_vec();
            if !self.special(&name, command, want) {
                self.plain(&name, command);
                if !want {
                    self.pop();
                }
            }
        } else {
            for word in &command.words {
                self.word(word);
            }
            self.emit(Op::Invoke(command.words.len() as u16));
            self.depth -= command.words.len() as u32 - 1;
            if !want {
                self.pop();
            }
        }
        debug_assert_eq!(self.depth, before + u32::from(want), "{command:?}");
        // What follows within the command around this one is its own again.
        if let Some(outer) = self.enclosing(mark) {
            self.marks.push((self.here(), outer.0, outer.1));
        }
    }

    /// The command around the one whose mark has this number.
    fn enclosing(&self, mark: usize) -> Option<(At, At)> {
        let (_, at, end) = self.marks[mark];
        self.marks[..mark]
            .iter()
            .rev()
            .find(|outer| outer.1 <= at && end <= outer.2 && (outer.1, outer.2) != (at, end))
            .map(|outer| (outer.1, outer.2))
    }

    /// A command that is none of the compiler's.
    fn plain(&mut self, name: &[u8], command: &Command) {
        let args = &command.words[1..];
        if let Some(number) = self.env.commands.find(name) {
            let native = self.env.commands.list[usize::from(number)];
            let count = args.len();
            let too_many = native.most != crate::command::ANY && count > usize::from(native.most);
            if self.env.strict && (count < usize::from(native.least) || too_many) {
                let fault = native.wrong_args();
                self.problem(command.at, fault_text(&fault));
            }
            if let Some(event) = self.env.event
                && !native.events.has(event)
            {
                self.problem(
                    command.at,
                    format!("{} can't be used in {event}", native.name),
                );
            }
            if let Some((sub, rest)) = self.sub(native, command) {
                for word in rest {
                    self.word(word);
                }
                self.emit(Op::CallSub(number, sub, rest.len() as u16));
                self.depth = self.depth + 1 - rest.len() as u32;
                return;
            }
            for word in args {
                self.word(word);
            }
            self.emit(Op::Call(number, count as u16));
            self.depth = self.depth + 1 - count as u32;
            return;
        }
        let known = self.env.procs.borrow().seen_from(&self.source.rule, name);
        if let Some(number) = known {
            for word in args {
                self.word(word);
            }
            self.emit(Op::CallProc(number, args.len() as u16));
            self.depth = self.depth + 1 - args.len() as u32;
            return;
        }
        if self.env.strict {
            self.unknown(name, command);
        }
        for word in &command.words {
            self.word(word);
        }
        self.emit(Op::Invoke(command.words.len() as u16));
        self.depth -= args.len() as u32;
    }

    /// What a command's first word says, where it goes by that alone and it is known now: its number, and
    /// the words behind it.
    fn sub<'w>(
        &mut self,
        native: &crate::command::Command,
        command: &'w Command,
    ) -> Option<(u8, &'w [Word])> {
        let (first, rest) = command.words[1..].split_first()?;
        let word = first.literal()?;
        if native.subs.is_empty() {
            return None;
        }
        match crate::commands::sub(native.subs, word) {
            Ok(sub) if sub.takes(rest.len()) => {
                let number = native
                    .subs
                    .iter()
                    .position(|known| std::ptr::eq(known, sub))?;
                return Some((number as u8, rest));
            }
            Ok(sub) if self.env.strict => {
                let message = fault_text(&sub.wrong_args(native.name));
                self.problem(command.at, message);
            }
            Err(fault) if self.env.strict => self.problem(first.at, fault_text(&fault)),
            _ => {}
        }
        None
    }

    fn unknown(&mut self, name: &[u8], command: &Command) {
        let name = String::from_utf8_lossy(name).into_owned();
        let (message, hint) = if let Some(reason) = disabled(&name) {
            (format!("the command {name} is disabled: {reason}"), None)
        } else if let Some(reason) = crate::world::missing(&name) {
            (
                format!("the command {name} is not implemented"),
                (!reason.is_empty()).then(|| reason.to_owned()),
            )
        } else {
            let names = self.env.commands.list.iter().map(|c| c.name);
            let near = crate::check::nearest(&name, names.chain(SPECIAL.iter().copied()));
            (
                format!("invalid command name \"{name}\""),
                near.map(|near| format!("did you mean {near}?")),
            )
        };
        self.problems.push(Problem {
            at: command.at,
            warning: false,
            message,
            hint,
        });
    }

    /// A word: leaves its value.
    fn word(&mut self, word: &Word) {
        self.parts(&word.parts);
    }

    fn parts(&mut self, parts: &[Part]) {
        match parts {
            [] => self.constant(Value::Empty),
            [Part::Text(text)] => self.literal(text),
            [only] => self.part(only),
            several => {
                self.push_parts(several);
                self.emit(Op::Concat(several.len() as u16));
                self.depth -= several.len() as u32 - 1;
            }
        }
    }

    fn push_parts(&mut self, parts: &[Part]) {
        if parts.len() > MOST_WORDS {
            let at = self.marks.last().map_or(0, |mark| mark.1);
            self.problem(at, "too many parts in one word");
        }
        for part in parts {
            match part {
                Part::Text(text) => self.literal(text),
                other => self.part(other),
            }
        }
    }

    fn part(&mut self, part: &Part) {
        if !self.deeper() {
            return self.constant(Value::Empty);
        }
        match part {
            Part::Text(text) => self.literal(text),
            Part::Var(var) => self.load(&var.name, var.index.as_deref()),
            Part::Script(_) if self.nesting >= NESTING => {
                self.too_deep();
                self.constant(Value::Empty);
            }
            Part::Script(script) => {
                self.nesting += 1;
                self.script(script, true);
                self.nesting -= 1;
            }
        }
        self.deep -= 1;
    }

    /// Goes a level deeper, unless that is too deep. Who was let in takes it off `deep` again.
    fn deeper(&mut self) -> bool {
        if self.deep >= DEPTH {
            self.too_deep();
            return false;
        }
        self.deep += 1;
        true
    }

    fn too_deep(&mut self) {
        let at = self.marks.last().map_or(0, |mark| mark.1);
        let message = "scripts stand too deep in each other";
        if self
            .problems
            .last()
            .is_none_or(|last| last.message != message)
        {
            self.problem(at, message);
        }
    }

    /// The slot of a name, if it has one that is known now.
    fn slot(&mut self, name: &[u8]) -> Option<Var> {
        if let Some(name) = static_name(name) {
            return Some(Var::of_worker(self.env.statics.slot(name)));
        }
        if matches!(name, b"errorInfo" | b"errorCode") {
            let name = [b"::", name].concat();
            return Some(Var::of_worker(self.env.statics.slot(&name)));
        }
        match &mut self.slots {
            Slots::Grow(layout) => Some(Var::local(layout.slot(name))),
            Slots::Fixed(layout) => layout.find(name).map(Var::local),
        }
    }
}

/// What an error says.
pub(crate) fn fault_text(fault: &crate::fault::Fault) -> String {
    match fault.kind() {
        crate::fault::Kind::Error(error) => error.message.value().lossy(),
        other => format!("{other:?}"),
    }
}
