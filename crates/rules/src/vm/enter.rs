//! Entering procedures, scripts and expressions that turn up at run time; and leaving by what is raised.

use super::frame::FrameKind;
use super::machine::{Machine, Next, frame};
use super::scope::Layout;
use crate::code::{Code, Holds, Op, Proc, Source};
use crate::command::Ctx;
use crate::compile::{Compiler, Env, SPECIAL, Slots};
use crate::fault::{Error, Fault, Kind, Return, TraceLine};
use crate::value::{Value, push_element};
use std::rc::Rc;

/// A script that was compiled, kept with its text.
struct Compiled {
    layout: Rc<Layout>,
    code: Rc<Code>,
}

/// A text with substitutions that was compiled, kept with it.
struct Substituted {
    without: u8,
    layout: Rc<Layout>,
    code: Rc<Code>,
}

/// A parameter's name, and its default.
type Parameter = (Rc<[u8]>, Option<Value>);

/// How much of a command an error's stack shows.
const SHOWN: usize = 150;

/// How many bytes a text takes for each of its own when it is compiled.
const COMPILED: usize = 16;

/// How deep texts may stand in a text that is kept compiled.
const DEEPEST: u32 = 100;

/// How long an expression may be that is kept compiled.
const LONGEST: usize = 4096;

/// How many expressions that were put together at run time are kept compiled.
const EXPRESSIONS: usize = 512;

impl Machine<'_, '_> {
    fn check_depth(&self) -> Result<(), Fault> {
        if self.fiber.frames.len() >= self.ctx.program.depth {
            return Err(Fault::exhausted("recursion"));
        }
        Ok(())
    }

    /// Begins a procedure, with the `n` values on top of the stack as its arguments.
    pub(super) fn enter_proc(&mut self, proc: Rc<Proc>, n: usize) -> Result<(), Fault> {
        self.ctx.meter.spend(1)?;
        self.check_depth()?;
        let base = self.fiber.stack.len() - n;
        let scope = self.ctx.scopes.begin(&proc.layout);
        if let Err(fault) = bind(self.ctx, &proc, scope, &mut self.fiber.stack, base) {
            self.ctx.scopes.end(scope);
            self.fiber.stack.truncate(base);
            return Err(fault);
        }
        let code = Rc::clone(&proc.code);
        let side = self.ctx.flow.side;
        let frame = frame(code, base, FrameKind::Proc, scope as u32, side);
        self.fiber.frames.push(frame);
        Ok(())
    }

    /// Begins a script in a scope.
    pub(crate) fn enter_script(&mut self, script: Value, scope: u32) -> Result<(), Fault> {
        self.ctx.meter.spend(1)?;
        self.check_depth()?;
        let code = compile_script(self.ctx, &script, scope)?;
        self.enter(code, scope);
        Ok(())
    }

    fn enter(&mut self, code: Rc<Code>, scope: u32) {
        let base = self.fiber.stack.len();
        let side = self.ctx.flow.side;
        let frame = frame(code, base, FrameKind::Script, scope, side);
        self.fiber.frames.push(frame);
    }

    /// Begins an expression.
    pub(super) fn enter_expr(&mut self, text: &Value, scope: u32) -> Result<(), Fault> {
        self.check_depth()?;
        let layout = Rc::clone(self.ctx.scopes.list[scope as usize].layout());
        let key = text.bytes();
        let found = self.ctx.program.expressions.borrow().get(&*key).cloned();
        if let Some((of, code)) = found
            && Rc::ptr_eq(&of, &layout)
        {
            self.enter(code, scope);
            return Ok(());
        }
        self.ctx.meter.charge(key.len().saturating_mul(COMPILED))?;
        let source = source_of(self.ctx, &key, "expr");
        let expr = crate::parse::expr(&key, 0..key.len() as u32)
            .map_err(|error| Fault::error(error.message))?;
        let mut env = env(self.ctx);
        let compiler = Compiler::new(&mut env, Slots::Fixed(Rc::clone(&layout)), source);
        let code = settled(compiler.expr_code(&expr))?;
        let mut kept = self.ctx.program.expressions.borrow_mut();
        if kept.len() >= EXPRESSIONS {
            kept.clear();
        }
        if key.len() <= LONGEST {
            kept.insert((&*key).into(), (layout, Rc::clone(&code)));
        }
        drop(kept);
        self.enter(code, scope);
        Ok(())
    }

    /// Begins a text with substitutions.
    pub(super) fn enter_subst(
        &mut self,
        text: &Value,
        without: u8,
        scope: u32,
    ) -> Result<(), Fault> {
        self.ctx.meter.spend(1)?;
        self.check_depth()?;
        let layout = Rc::clone(self.ctx.scopes.list[scope as usize].layout());
        if let Some(kept) = text.remembered::<Substituted>()
            && kept.without == without
            && Rc::ptr_eq(&kept.layout, &layout)
        {
            let code = Rc::clone(&kept.code);
            self.enter(code, scope);
            return Ok(());
        }
        let value = text;
        let text = text.bytes();
        self.ctx.meter.charge(text.len().saturating_mul(COMPILED))?;
        let parts =
            crate::parse::subst(&text, without & 1 == 0, without & 2 == 0, without & 4 == 0)
                .map_err(|error| Fault::error(error.message))?;
        let source = source_of(self.ctx, &text, "subst");
        let mut env = env(self.ctx);
        let compiler = Compiler::new(&mut env, Slots::Fixed(Rc::clone(&layout)), source);
        let code = settled(compiler.parts_code(&parts))?;
        if is_shallow(&text) {
            value.remember(Rc::new(Substituted {
                without,
                layout,
                code: Rc::clone(&code),
            }));
        }
        self.enter(code, scope);
        Ok(())
    }

    /// Runs the command whose name and arguments are the `n` values on top of the stack. Whether another
    /// frame runs now; else its value is pushed.
    pub(super) fn invoke(&mut self, n: usize) -> Result<bool, Fault> {
        let at = self.fiber.stack.len() - n;
        let words = self.fiber.stack.split_off(at);
        self.invoke_words(&words)
    }

    pub(crate) fn invoke_words(&mut self, words: &[Value]) -> Result<bool, Fault> {
        let Some((name, args)) = words.split_first() else {
            self.fiber.stack.push(Value::Empty);
            return Ok(false);
        };
        self.ctx.meter.spend(1)?;
        let text = name.bytes();
        let plain = text.strip_prefix(b"::").unwrap_or(&text);
        if let Some(number) = crate::engine::commands().find(plain) {
            let command = crate::engine::commands().list[usize::from(number)];
            let n = args.len();
            let most = usize::from(command.most);
            if n < usize::from(command.least) || (n > most && command.most != crate::command::ANY) {
                return Err(command.wrong_args());
            }
            if !command.events.has(self.ctx.event) {
                let event = self.ctx.event;
                return Err(Fault::error(format!(
                    "{} can't be used in {event}",
                    command.name
                )));
            }
            let value = (command.run)(self.ctx, args)?;
            self.ctx.meter.made(&value)?;
            self.fiber.stack.push(value);
            return Ok(false);
        }
        let proc = self.ctx.program.procs.borrow().get(self.ctx.rule, plain);
        if let Some(proc) = proc {
            let n = args.len();
            self.fiber.stack.extend_from_slice(args);
            self.enter_proc(proc, n)?;
            return Ok(true);
        }
        if SPECIAL.iter().any(|known| known.as_bytes() == plain) {
            // Its words are known now, and stand for themselves.
            let mut script = Vec::new();
            for word in words {
                push_element(&mut script, &word.bytes());
            }
            let scope = self.ctx.scopes.current as u32;
            self.enter_script(Value::from(script), scope)?;
            return Ok(true);
        }
        Err(Fault::error(format!(
            "invalid command name \"{}\"",
            name.lossy()
        )))
    }

    /// Defines a procedure.
    pub(super) fn define(
        &mut self,
        name: &Value,
        params: &Value,
        body: &Value,
    ) -> Result<(), Fault> {
        self.ctx
            .meter
            .charge(body.weight().saturating_mul(COMPILED))?;
        if !self.ctx.program.procs.borrow().has_room(&name.lossy()) {
            return Err(Fault::error("too many procedures"));
        }
        let text: Rc<[u8]> = (&*body.bytes()).into();
        let source = source_of(self.ctx, &text, &name.lossy());
        let params = parameters(params)?;
        let script = crate::parse::script(&text, 0..text.len() as u32)
            .map_err(|error| Fault::error(error.message))?;
        let mut env = env(self.ctx);
        let (proc, problems) = compile_proc(
            &mut env,
            source,
            &name.lossy(),
            params,
            &script,
            body.clone(),
        );
        if let Some(problem) = problems.into_iter().find(|p| !p.warning) {
            return Err(Fault::error(problem.message));
        }
        let mut procs = self.ctx.program.procs.borrow_mut();
        let number = procs.number(&name.lossy());
        procs.list[usize::from(number)] = Some(Rc::new(proc));
        Ok(())
    }

    /// Finds who holds what was raised, and goes on there.
    ///
    /// # Errors
    ///
    /// What was raised, when nobody above `floor` holds it.
    pub(super) fn unwind(&mut self, mut fault: Fault, floor: usize) -> Result<Next, Fault> {
        loop {
            let Some(top) = self.fiber.frames.last() else {
                return Err(fault);
            };
            let at = top.pc.saturating_sub(1);
            let guard = top.code.guards.iter().find(|guard| {
                (guard.start..guard.end).contains(&at)
                    && match (fault.kind(), guard.holds) {
                        (Kind::Exhausted(_) | Kind::Exit | Kind::Wait(_) | Kind::Eval(_), _) => {
                            false
                        }
                        (Kind::Break | Kind::Continue, _) => true,
                        (_, Holds::All(_)) => true,
                        (_, Holds::Loop { .. }) => false,
                    }
            });
            if let Some(guard) = guard {
                let (base, depth, holds) = (top.base, guard.depth, guard.holds);
                self.ctx.flow.side = guard.side.of(top.side);
                let to = match (holds, fault.kind()) {
                    (Holds::Loop { again, .. }, Kind::Continue) => again,
                    (Holds::Loop { out, .. }, _) => out,
                    (Holds::All(to), _) => to,
                };
                if let Holds::All(_) = holds {
                    if self.ctx.program.error_info {
                        self.trace(&mut fault);
                    }
                    if let Some(Kind::Error(error)) = self.fiber.caught.replace(fault.into_kind()) {
                        self.ctx.statics.note_error(error);
                    }
                }
                self.fiber.stack.truncate((base + depth) as usize);
                self.save(to as usize);
                return Ok(Next::Frame);
            }
            self.trace(&mut fault);
            let frame = self.drop_frame();
            let left = self.fiber.frames.len() <= floor;
            if let Some(FrameKind::Proc) = frame.map(|frame| frame.kind) {
                match leave_proc(fault) {
                    Ok(value) if left => return Ok(Next::Done(value)),
                    Ok(value) => {
                        self.fiber.stack.push(value);
                        return Ok(Next::Frame);
                    }
                    Err(other) => fault = other,
                }
            }
            if left {
                return Err(fault);
            }
        }
    }

    /// Adds the command that runs in the frame on top to an error's stack.
    fn trace(&self, fault: &mut Fault) {
        let (trace, told) = match fault.kind_mut() {
            Kind::Error(error) => (&mut error.trace, error.info.is_some()),
            Kind::Exhausted(exhausted) => (&mut exhausted.trace, false),
            _ => return,
        };
        let Some(frame) = self.fiber.frames.last() else {
            return;
        };
        // Of deep recursion the innermost levels tell enough. What `error` was given to begin with says
        // where it came from.
        let at = frame.pc.saturating_sub(1);
        if trace.len() >= 32 || (told && matches!(frame.code.ops[at as usize], Op::Error)) {
            return;
        }
        let source = &frame.code.source;
        let (start, end) = frame.code.place(at).unwrap_or((0, 0));
        let text = source.text.get(start as usize..end as usize).unwrap_or(b"");
        let mut command = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]).into_owned();
        if text.len() > SHOWN {
            command.push_str("...");
        }
        trace.push(TraceLine {
            rule: Rc::clone(&source.rule),
            within: Rc::clone(&source.within),
            line: crate::parse::line_column(&source.text, start).0,
            command,
        });
    }
}

impl Ctx<'_> {
    /// Runs a command in the current scope from within another one: it can't wait.
    ///
    /// # Errors
    ///
    /// What it raises.
    pub fn call(&mut self, words: &[Value]) -> Result<Value, Fault> {
        let mut fiber = super::frame::Fiber::default();
        let scope = self.scopes.current;
        let depth = self.nested;
        if depth >= 16 {
            return Err(Fault::exhausted("recursion"));
        }
        self.nested += 1;
        let scopes = self.scopes.list.len();
        let mut machine = Machine {
            ctx: self,
            fiber: &mut fiber,
        };
        let entered = match machine.invoke_words(words) {
            Err(fault) => match fault.into_kind() {
                Kind::Eval(script) => machine.enter_script(script, scope as u32).map(|()| true),
                Kind::Wait(_) => Err(called_back_waits()),
                other => Err(Fault::from(other)),
            },
            entered => entered,
        };
        let result = match entered {
            Ok(false) => Ok(fiber.stack.pop().unwrap_or_default()),
            Ok(true) => match machine.run(0) {
                Ok(super::machine::Ran::Value(value)) => Ok(value),
                Ok(super::machine::Ran::Wait(_)) => Err(called_back_waits()),
                Err(fault) => Err(fault),
            },
            Err(fault) => Err(fault),
        };
        // Of what waits nothing goes on.
        self.scopes.end(scopes);
        self.nested = depth;
        self.scopes.current = scope;
        result
    }
}

fn called_back_waits() -> Fault {
    Fault::error("a command that is called back can't wait")
}

fn env<'e>(ctx: &'e mut Ctx<'_>) -> Env<'e> {
    Env {
        commands: crate::engine::commands(),
        procs: &ctx.program.procs,
        statics: ctx.statics,
        event: None,
        strict: false,
    }
}

fn source_of(ctx: &Ctx<'_>, text: &[u8], within: &str) -> Rc<Source> {
    Rc::new(Source {
        rule: Rc::clone(ctx.rule),
        within: within.into(),
        text: text.into(),
    })
}

fn settled((code, problems): (Code, Vec<crate::compile::Problem>)) -> Result<Rc<Code>, Fault> {
    match problems.into_iter().find(|problem| !problem.warning) {
        Some(problem) => Err(Fault::error(problem.message)),
        None => Ok(Rc::new(code)),
    }
}

/// The code of a script, compiled for a scope; kept with its text.
fn compile_script(ctx: &mut Ctx<'_>, script: &Value, scope: u32) -> Result<Rc<Code>, Fault> {
    let layout = Rc::clone(ctx.scopes.list[scope as usize].layout());
    if let Some(compiled) = script.remembered::<Compiled>()
        && Rc::ptr_eq(&compiled.layout, &layout)
    {
        return Ok(Rc::clone(&compiled.code));
    }
    ctx.charge(script.weight().saturating_mul(COMPILED))?;
    let text = script.bytes();
    let source = source_of(ctx, &text, "script");
    let syntax = crate::parse::script(&text, 0..text.len() as u32)
        .map_err(|error| Fault::error(error.message))?;
    let mut env = env(ctx);
    let compiler = Compiler::new(&mut env, Slots::Fixed(Rc::clone(&layout)), source);
    let code = settled(compiler.script_code(&syntax))?;
    if is_shallow(&text) {
        script.remember(Rc::new(Compiled {
            layout,
            code: Rc::clone(&code),
        }));
    }
    Ok(code)
}

/// Whether no more texts stand in a text than can be dropped one within the other: what is compiled holds those in it,
/// which hold what they were compiled to.
fn is_shallow(text: &[u8]) -> bool {
    let mut depth = 0_u32;
    for at in memchr::memchr2_iter(b'{', b'}', text) {
        match text[at] {
            b'{' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        if depth > DEEPEST {
            return false;
        }
    }
    true
}

/// A procedure's parameters: names, or pairs of a name and its default.
fn parameters(list: &Value) -> Result<Vec<Parameter>, Fault> {
    let mut params = Vec::new();
    for param in list.list()?.iter() {
        let pair = param.list()?;
        match &*pair {
            [name] => params.push(((&*name.bytes()).into(), None)),
            [name, default] => params.push(((&*name.bytes()).into(), Some(default.clone()))),
            [] => return Err(Fault::error("procedure has argument with no name")),
            _ => {
                return Err(Fault::error(format!(
                    "too many fields in argument specifier \"{}\"",
                    param.lossy()
                )));
            }
        }
    }
    Ok(params)
}

/// Compiles a procedure.
pub(crate) fn compile_proc(
    env: &mut Env<'_>,
    source: Rc<Source>,
    name: &str,
    mut params: Vec<Parameter>,
    body: &crate::ast::Script,
    text: Value,
) -> (Proc, Vec<crate::compile::Problem>) {
    let rest = params.last().is_some_and(|(name, _)| &**name == b"args");
    let mut layout = Layout::default();
    for (name, _) in &params {
        layout.slot(name);
    }
    if rest {
        params.pop();
    }
    let compiler = Compiler::new(env, Slots::Grow(&mut layout), source);
    let (code, problems) = compiler.script_code(body);
    let proc = Proc {
        name: name.into(),
        params,
        rest,
        layout: Rc::new(layout),
        code: Rc::new(code),
        body: text,
    };
    (proc, problems)
}

/// Gives a procedure its arguments.
fn bind(
    ctx: &mut Ctx<'_>,
    proc: &Proc,
    scope: usize,
    stack: &mut Vec<Value>,
    base: usize,
) -> Result<(), Fault> {
    let given = stack.len() - base;
    let wanted = proc.params.len();
    if given > wanted && !proc.rest {
        return Err(wrong_call(proc));
    }
    if proc.rest {
        let rest = if given > wanted {
            Value::list_of(stack.split_off(base + wanted))
        } else {
            Value::Empty
        };
        ctx.scopes.list[scope].fill(wanted, rest);
    }
    for slot in (given.min(wanted)..wanted).rev() {
        match &proc.params[slot].1 {
            Some(default) => ctx.scopes.list[scope].fill(slot, default.clone()),
            None => return Err(wrong_call(proc)),
        }
    }
    for (slot, value) in stack.drain(base..).enumerate() {
        ctx.scopes.list[scope].fill(slot, value);
    }
    Ok(())
}

fn wrong_call(proc: &Proc) -> Fault {
    let mut usage = proc.name.to_string();
    for (name, default) in &proc.params {
        let name = String::from_utf8_lossy(name);
        usage.push_str(&match default {
            Some(_) => format!(" ?{name}?"),
            None => format!(" {name}"),
        });
    }
    if proc.rest {
        usage.push_str(" args");
    }
    Fault::usage(&usage)
}

/// What leaves a procedure: its value, or what its caller sees raised.
fn leave_proc(fault: Fault) -> Result<Value, Fault> {
    match fault.kind() {
        Kind::Return(_) => {}
        Kind::Break => return Err(Fault::error("invoked \"break\" outside of a loop")),
        Kind::Continue => return Err(Fault::error("invoked \"continue\" outside of a loop")),
        _ => return Err(fault),
    }
    let Kind::Return(returned) = fault.into_kind() else {
        return Ok(Value::Empty);
    };
    let Return {
        value,
        code,
        info,
        error_code,
    } = returned;
    match code {
        0 => Ok(value),
        1 => Err(Fault::from(Kind::Error(Error {
            message: crate::fault::Message::Value(value),
            code: error_code,
            info,
            trace: Vec::new(),
        }))),
        2 => Err(Fault::from(Kind::Return(Return {
            value,
            ..Return::default()
        }))),
        3 => Err(Fault::from(Kind::Break)),
        4 => Err(Fault::from(Kind::Continue)),
        other => Err(Fault::from(Kind::Code(other, value))),
    }
}
