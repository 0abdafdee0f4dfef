//! Conditions, loops, `catch`, and what leaves them.

use super::{Around, Compiler};
use crate::ast::{Command, Expr, Word};
use crate::code::{Foreach, Holds, Op, Turn};
use crate::event::Side;
use crate::parse::SyntaxError;
use crate::value::{List, Value};

impl Compiler<'_, '_> {
    /// A command that the compiler knows itself: false if it is none.
    pub(super) fn special(&mut self, name: &[u8], command: &Command, want: bool) -> bool {
        let words = &command.words;
        match name {
            b"set" => self.set(command, want),
            b"incr" => self.incr(command, want),
            b"append" => self.append(command, want, false),
            b"lappend" => self.append(command, want, true),
            b"unset" => self.unset(command, want),
            b"if" => self.if_(command, want),
            b"while" => self.while_(command, want),
            b"for" => self.for_(command, want),
            b"foreach" => self.foreach(command, want),
            b"switch" => self.switch(command, want),
            b"catch" => self.catch(command, want),
            b"expr" => self.expr_command(command, want),
            b"break" => self.leave(command, want, true),
            b"continue" => self.leave(command, want, false),
            b"return" => self.return_(command, want),
            b"error" => self.error(command, want),
            b"eval" => self.eval(command, want),
            b"uplevel" => self.uplevel(command, want),
            b"subst" => self.subst(command, want),
            b"proc" => self.proc(command, want),
            b"call" => self.call(command, want),
            b"clientside" => self.turn(command, Turn::To(Side::Client), want),
            b"serverside" => self.turn(command, Turn::To(Side::Server), want),
            b"peer" => self.turn(command, Turn::Over, want),
            b"info" if words.len() == 3 && words[1].literal() == Some(b"exists") => {
                self.exists(&words[2], want);
                true
            }
            _ => false,
        }
    }

    /// A condition in a word: jumps if it is not true. Returns the jump to be pointed.
    fn unless(&mut self, word: &Word) -> Vec<usize> {
        match self.expr_of(word) {
            Some(Ok(expr)) => self.jump_unless(&expr),
            Some(Err(error)) => {
                self.syntax_error(error);
                self.constant(Value::Int(0));
                self.depth -= 1;
                vec![self.emit(Op::JumpIfNot(0))]
            }
            None => {
                self.warn(
                    word.at,
                    "a condition without braces is put together and compiled each time it is run",
                );
                self.word(word);
                self.emit(Op::EvalExpr(1));
                self.depth -= 1;
                vec![self.emit(Op::JumpIfNot(0))]
            }
        }
    }

    /// The expression in a word, where its text is known.
    pub(super) fn expr_of(&self, word: &Word) -> Option<Result<Expr, SyntaxError>> {
        if let Some(inner) = &word.inner {
            return Some(crate::parse::expr(&self.source.text, inner.clone()));
        }
        let text = word.literal()?;
        let parsed = crate::parse::expr(text, 0..text.len() as u32);
        Some(parsed.map_err(|mut error| {
            error.at = word.at;
            error
        }))
    }

    fn if_(&mut self, command: &Command, want: bool) -> bool {
        let words = &command.words;
        let mut at = 1;
        let mut ends = Vec::new();
        let before = self.depth;
        loop {
            let Some(condition) = words.get(at) else {
                let before = words[at - 1].literal().unwrap_or(b"if");
                let message = format!(
                    "wrong # args: no expression after \"{}\" argument",
                    String::from_utf8_lossy(before)
                );
                self.raise(command, &message, want);
                for end in ends {
                    self.land(end);
                }
                return true;
            };
            let jumps = self.unless(condition);
            at += 1;
            if words.get(at).is_some_and(|w| w.literal() == Some(b"then")) {
                at += 1;
            }
            let Some(body) = words.get(at) else {
                let message = format!(
                    "wrong # args: no script following \"{}\" argument",
                    String::from_utf8_lossy(words[at - 1].literal().unwrap_or(b"then"))
                );
                for jump in jumps {
                    self.land(jump);
                }
                self.raise(command, &message, want);
                for end in ends {
                    self.land(end);
                }
                return true;
            };
            self.body(body, want);
            at += 1;
            ends.push(self.emit(Op::Jump(0)));
            for jump in jumps {
                self.land(jump);
            }
            self.depth = before;
            let Some(next) = words.get(at) else {
                self.nothing(want);
                break;
            };
            match next.literal() {
                Some(b"elseif") => at += 1,
                other => {
                    if other == Some(b"else") {
                        at += 1;
                    }
                    let Some(body) = words.get(at) else {
                        self.raise(
                            command,
                            "wrong # args: no script following \"else\" argument",
                            want,
                        );
                        break;
                    };
                    self.body(body, want);
                    if words.len() > at + 1 {
                        self.depth = before;
                        self.raise(
                            command,
                            "wrong # args: extra words after \"else\" clause in \"if\" command",
                            want,
                        );
                    }
                    break;
                }
            }
        }
        for end in ends {
            self.land(end);
        }
        self.depth = before + u32::from(want);
        true
    }

    /// A loop's body, guarded, with its `break`s and `continue`s pointed to `again` and behind.
    fn round(&mut self, body: &Word) -> (u32, Vec<usize>, Vec<usize>) {
        let start = self.here();
        self.around.push(Around::Loop {
            depth: self.depth,
            side: self.side,
            outs: Vec::new(),
            agains: Vec::new(),
        });
        self.body(body, false);
        match self.around.pop() {
            Some(Around::Loop { outs, agains, .. }) => (start, outs, agains),
            _ => (start, Vec::new(), Vec::new()),
        }
    }

    fn while_(&mut self, command: &Command, want: bool) -> bool {
        let [_, condition, body] = command.words.as_slice() else {
            self.usage(command, "while test command", want);
            return true;
        };
        let top = self.here();
        let jumps = self.unless(condition);
        let (start, outs, agains) = self.round(body);
        let end = self.here();
        self.emit(Op::Loop(top));
        let out = self.here();
        self.loop_guard(start, end, out, top);
        for jump in jumps.into_iter().chain(outs) {
            self.land(jump);
        }
        for jump in agains {
            self.point(jump, top);
        }
        self.nothing(want);
        true
    }

    fn for_(&mut self, command: &Command, want: bool) -> bool {
        let [_, start, condition, next, body] = command.words.as_slice() else {
            self.usage(command, "for start test next command", want);
            return true;
        };
        self.body(start, false);
        let top = self.here();
        let jumps = self.unless(condition);
        let (begin, outs, agains) = self.round(body);
        let again = self.here();
        // A `break` in what is done between rounds ends the loop as well.
        let (_, more_outs, more_agains) = self.round(next);
        let end = self.here();
        self.emit(Op::Loop(top));
        let out = self.here();
        self.loop_guard(begin, again, out, again);
        self.loop_guard(again, end, out, top);
        for jump in jumps.into_iter().chain(outs).chain(more_outs) {
            self.land(jump);
        }
        for jump in agains {
            self.point(jump, again);
        }
        for jump in more_agains {
            self.point(jump, top);
        }
        self.nothing(want);
        true
    }

    fn loop_guard(&mut self, start: u32, end: u32, out: u32, again: u32) {
        let depth = self.depth;
        self.guards.push(crate::code::Guard {
            start,
            end,
            depth,
            side: self.side,
            holds: Holds::Loop { out, again },
        });
    }

    fn foreach(&mut self, command: &Command, want: bool) -> bool {
        let words = &command.words;
        if words.len() < 4 || !words.len().is_multiple_of(2) {
            self.usage(
                command,
                "foreach varList list ?varList list ...? command",
                want,
            );
            return true;
        }
        let pairs = &words[1..words.len() - 1];
        let mut lists = Vec::new();
        for pair in pairs.chunks(2) {
            let names = match pair[0].literal().map(List::parse) {
                Some(Ok(names)) if !names.items().is_empty() => names,
                Some(Ok(_)) => {
                    self.raise(command, "foreach varlist is empty", want);
                    return true;
                }
                Some(Err(error)) => {
                    self.raise(command, &error.to_string(), want);
                    return true;
                }
                None => {
                    // Its variables are known only when it runs: it is compiled then.
                    self.plain_words(command);
                    self.keep(want);
                    return true;
                }
            };
            let targets = names.items().iter();
            let targets: Vec<_> = targets.map(|name| self.target(&name.bytes())).collect();
            lists.push(targets);
        }
        for pair in pairs.chunks(2) {
            self.word(&pair[1]);
        }
        let count = lists.len() as u32;
        if self.foreachs.len() >= usize::from(u16::MAX) {
            self.problem(command.at, "too many loops in one text");
        }
        let number = self.foreachs.len() as u16;
        self.foreachs.push(Foreach { lists });
        self.emit(Op::ForeachBegin(count as u16));
        self.depth += 1;
        let top = self.here();
        let step = self.emit(Op::ForeachStep(number, 0));
        let (start, outs, agains) = self.round(&words[words.len() - 1]);
        let end = self.here();
        self.emit(Op::Loop(top));
        let out = self.here();
        self.loop_guard(start, end, out, top);
        for jump in outs {
            self.land(jump);
        }
        self.land(step);
        for jump in agains {
            self.point(jump, top);
        }
        for _ in 0..=count {
            self.pop();
        }
        self.nothing(want);
        true
    }

    fn catch(&mut self, command: &Command, want: bool) -> bool {
        let (body, variable) = match command.words.as_slice() {
            [_, body] => (body, None),
            [_, body, variable] => (body, Some(variable)),
            _ => {
                self.usage(command, "catch command ?varName?", want);
                return true;
            }
        };
        let before = self.depth;
        let start = self.here();
        self.around.push(Around::Catch);
        self.body(body, variable.is_some());
        self.around.pop();
        let end = self.here();
        if end == start {
            // There is nothing in it that could fail.
            if want {
                self.constant(Value::Int(0));
            }
            return true;
        }
        if let Some(variable) = variable {
            self.store_top(variable);
        }
        if want {
            self.constant(Value::Int(0));
        }
        let done = self.emit(Op::Jump(0));
        self.depth = before;
        let handler = self.here();
        self.guards.push(crate::code::Guard {
            start,
            end,
            depth: before,
            side: self.side,
            holds: Holds::All(handler),
        });
        if let Some(variable) = variable {
            self.emit(Op::CaughtValue);
            self.depth += 1;
            self.store_top(variable);
        }
        self.emit(Op::CaughtCode);
        self.depth += 1;
        self.keep(want);
        self.land(done);
        true
    }

    fn leave(&mut self, command: &Command, want: bool, out: bool) -> bool {
        let name = if out { "break" } else { "continue" };
        if command.words.len() > 1 {
            self.usage(command, name, want);
            return true;
        }
        if let Some(Around::Loop { depth, side, .. }) = self.around.last() {
            let (extra, side) = (self.depth - depth, *side);
            for _ in 0..extra {
                self.emit(Op::Pop);
            }
            if side != self.side {
                self.emit(Op::SetSide(side));
            }
            let jump = if out { Op::Jump(0) } else { Op::Loop(0) };
            let jump = self.emit(jump);
            if let Some(Around::Loop { outs, agains, .. }) = self.around.last_mut() {
                if out {
                    outs.push(jump);
                } else {
                    agains.push(jump);
                }
            }
        } else {
            self.emit(if out { Op::Break } else { Op::Continue });
        }
        // What follows is never reached, but the stack is counted on.
        self.depth += u32::from(want);
        true
    }

    fn return_(&mut self, command: &Command, want: bool) -> bool {
        let words = &command.words[1..];
        let inside = self.around.iter().any(|a| matches!(a, Around::Catch));
        match words {
            [] => self.constant(Value::Empty),
            [value] => self.word(value),
            _ => {
                let (mut code, mut info, mut error_code) = (None, None, None);
                let mut rest = words;
                while let [option, value, more @ ..] = rest {
                    match option.literal() {
                        Some(b"-code") => code = Some(value),
                        Some(b"-errorinfo") => info = Some(value),
                        Some(b"-errorcode") => error_code = Some(value),
                        _ => {
                            self.usage(
                                command,
                                "return ?-code code? ?-errorinfo info? ?-errorcode code? ?value?",
                                want,
                            );
                            return true;
                        }
                    }
                    rest = more;
                }
                for word in [code, info, error_code] {
                    match word {
                        Some(word) => self.word(word),
                        None => self.constant(Value::Empty),
                    }
                }
                match rest {
                    [] => self.constant(Value::Empty),
                    [value, ..] => self.word(value),
                }
                self.emit(Op::ReturnWith);
                self.depth -= 4;
                self.depth += u32::from(want);
                return true;
            }
        }
        self.emit(if inside { Op::RaiseReturn } else { Op::Return });
        self.depth -= 1;
        self.depth += u32::from(want);
        true
    }

    fn error(&mut self, command: &Command, want: bool) -> bool {
        let words = &command.words[1..];
        if words.is_empty() || words.len() > 3 {
            self.usage(command, "error message ?errorInfo? ?errorCode?", want);
            return true;
        }
        for n in 0..3 {
            match words.get(n) {
                Some(word) => self.word(word),
                None => self.constant(Value::Empty),
            }
        }
        self.emit(Op::Error);
        self.depth -= 3;
        self.depth += u32::from(want);
        true
    }

    fn eval(&mut self, command: &Command, want: bool) -> bool {
        let words = &command.words[1..];
        match words {
            [] => self.usage(command, "eval arg ?arg ...?", want),
            // What is in braces is known now.
            [only] if only.inner.is_some() => self.body(only, want),
            _ => {
                for word in words {
                    self.word(word);
                }
                self.emit(Op::Eval(words.len() as u16));
                self.depth -= words.len() as u32 - 1;
                self.keep(want);
            }
        }
        true
    }

    fn uplevel(&mut self, command: &Command, want: bool) -> bool {
        let words = &command.words[1..];
        let (level, scripts) = match words {
            [] => {
                self.usage(command, "uplevel ?level? command ?arg ...?", want);
                return true;
            }
            // A level is a number, or one behind `#`; a word that is substituted is one if more follow.
            [first, rest @ ..]
                if !rest.is_empty()
                    && first.literal().is_none_or(|text| {
                        text.first()
                            .is_some_and(|b| *b == b'#' || b.is_ascii_digit())
                    }) =>
            {
                (Some(first), rest)
            }
            all => (None, all),
        };
        match level {
            Some(word) => self.word(word),
            None => self.constant(Value::Int(1)),
        }
        for word in scripts {
            self.word(word);
        }
        self.emit(Op::Uplevel(scripts.len() as u16));
        self.depth -= scripts.len() as u32;
        self.keep(want);
        true
    }

    fn subst(&mut self, command: &Command, want: bool) -> bool {
        const USAGE: &str = "subst ?-nobackslashes? ?-nocommands? ?-novariables? string";
        let Some((text, options)) = command.words[1..].split_last() else {
            self.usage(command, USAGE, want);
            return true;
        };
        let mut without = 0;
        for option in options {
            match option.literal() {
                Some(b"-nobackslashes") => without |= 1,
                Some(b"-nocommands") => without |= 2,
                Some(b"-novariables") => without |= 4,
                _ => {
                    self.usage(command, USAGE, want);
                    return true;
                }
            }
        }
        self.word(text);
        self.emit(Op::Subst(without));
        self.keep(want);
        true
    }

    fn proc(&mut self, command: &Command, want: bool) -> bool {
        let [_, name, params, body] = command.words.as_slice() else {
            self.usage(command, "proc name args body", want);
            return true;
        };
        if let Some(name) = name.literal() {
            let name = String::from_utf8_lossy(name).into_owned();
            let mut procs = self.env.procs.borrow_mut();
            let room = procs.has_room(&name);
            if room {
                procs.number(&name);
            }
            drop(procs);
            if !room {
                self.problem(command.at, "too many procedures");
            }
        }
        for word in [name, params, body] {
            self.word(word);
        }
        self.emit(Op::Proc);
        self.depth -= 2;
        self.keep(want);
        true
    }

    fn call(&mut self, command: &Command, want: bool) -> bool {
        let Some((name, args)) = command.words[1..].split_first() else {
            self.usage(command, "call proc_name ?arg arg ...?", want);
            return true;
        };
        if let Some(text) = name.literal() {
            let found = self.env.procs.borrow().seen_from(&self.source.rule, text);
            let text = String::from_utf8_lossy(text).into_owned();
            if let Some(number) = found {
                for word in args {
                    self.word(word);
                }
                self.emit(Op::CallProc(number, args.len() as u16));
                self.depth = self.depth + 1 - args.len() as u32;
                self.keep(want);
                return true;
            }
            if self.env.strict {
                self.problem(name.at, format!("there is no procedure \"{text}\""));
            }
        }
        for word in &command.words[1..] {
            self.word(word);
        }
        // Whatever its name, it is a procedure that is meant.
        self.emit(Op::Invoke(args.len() as u16 + 1));
        self.depth -= args.len() as u32;
        self.keep(want);
        true
    }

    fn turn(&mut self, command: &Command, turn: Turn, want: bool) -> bool {
        match (&command.words[1..], turn) {
            ([], Turn::To(side)) => {
                self.emit(Op::IsSide(side));
                self.depth += 1;
                self.keep(want);
            }
            ([body], turn) => {
                self.emit(Op::EnterSide(turn));
                self.depth += 1;
                let outer = self.side;
                self.side = outer.turned(turn);
                self.body(body, true);
                self.side = outer;
                self.emit(Op::LeaveSide);
                self.depth -= 1;
                self.keep(want);
            }
            _ => self.usage(command, "clientside ?script?", want),
        }
        true
    }

    /// All words of a command pushed and run by its name, which the machine looks up.
    pub(super) fn plain_words(&mut self, command: &Command) {
        for word in &command.words {
            self.word(word);
        }
        self.emit(Op::Invoke(command.words.len() as u16));
        self.depth -= command.words.len() as u32 - 1;
    }
}
