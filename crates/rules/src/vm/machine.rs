//! The loop that runs bytecode.

use super::arith;
use super::frame::{Fiber, Frame, FrameKind};
use super::scope::{Place, Scopes, Slot, Statics};
use super::seldom::returned;
use crate::code::{Code, Op, Target, Var};
use crate::command::{ANY, Ctx, Run};
use crate::event::Side;
use crate::fault::{Fault, Kind};
use crate::host::Wait;
use crate::value::Value;
use std::rc::Rc;

/// Runs the texts of a fiber.
pub(crate) struct Machine<'m, 'a> {
    pub(crate) ctx: &'m mut Ctx<'a>,
    pub(crate) fiber: &'m mut Fiber,
}

/// How a run stops.
pub(crate) enum Ran {
    /// It is over.
    Value(Value),
    /// It waits: the value that it waits for is to be pushed.
    Wait(Wait),
}

/// Whether the frame that runs is another one now.
pub(super) enum Next {
    Frame,
    Done(Value),
}

impl Machine<'_, '_> {
    /// Runs until the frames above `floor` are done.
    ///
    /// # Errors
    ///
    /// What was raised and nobody held.
    pub(crate) fn run(&mut self, floor: usize) -> Result<Ran, Fault> {
        if let Some(fault) = self.fiber.failed.take()
            && let Next::Done(value) = self.unwind(fault, floor)?
        {
            return Ok(Ran::Value(value));
        }
        let commands = crate::engine::commands();
        'frame: loop {
            let Some(frame) = self.fiber.frames.last() else {
                return Ok(Ran::Value(Value::Empty));
            };
            let code = Rc::clone(&frame.code);
            let ops = code.ops.as_slice();
            let mut pc = frame.pc as usize;
            let scope = frame.scope;
            self.ctx.scopes.current = scope as usize;
            'next: loop {
                let op = ops[pc];
                pc += 1;
                let fault = 'op: {
                    // Gives a result's value, or goes to where faults are dealt with.
                    macro_rules! ok {
                        ($result:expr) => {
                            match $result {
                                Ok(value) => value,
                                Err(fault) => break 'op fault,
                            }
                        };
                    }
                    let stack = &mut self.fiber.stack;
                    match op {
                        Op::Const(n) => push_copy(stack, &code.consts[n as usize]),
                        Op::Pop => {
                            stack.pop();
                        }
                        Op::Dup => {
                            let top = top(stack).clone();
                            stack.push(top);
                        }
                        Op::Concat(n) => {
                            let at = stack.len() - usize::from(n);
                            let scratch = &mut self.fiber.scratch;
                            ok!(self.ctx.meter.charge(length(&stack[at..])));
                            join_into(scratch, &stack[at..]);
                            stack.truncate(at);
                            stack.push(Value::new(scratch));
                        }
                        Op::Load(var) => {
                            let scopes = &*self.ctx.scopes;
                            let place = place(var, scope);
                            match scopes.slot(self.ctx.statics, place) {
                                Slot::Scalar(value) => push_copy(stack, value),
                                _ => stack.push(ok!(scopes.load(self.ctx.statics, place))),
                            }
                        }
                        Op::LoadElement(var, n) => {
                            let at = stack.len() - usize::from(n);
                            let scopes = &*self.ctx.scopes;
                            let place = place(var, scope);
                            let loaded = if n == 1 {
                                scopes.load_element(self.ctx.statics, place, &stack[at].bytes())
                            } else {
                                let scratch = &mut self.fiber.scratch;
                                join_into(scratch, &stack[at..]);
                                ok!(self.ctx.meter.look(scratch.len()));
                                scopes.load_element(self.ctx.statics, place, scratch)
                            };
                            stack.truncate(at);
                            stack.push(ok!(loaded));
                        }
                        Op::Store(var) => {
                            let value = top(stack).clone();
                            ok!(self
                                .ctx
                                .scopes
                                .store(self.ctx.statics, place(var, scope), value));
                        }
                        Op::StorePop(var) => {
                            let place = place(var, scope);
                            let slot = self.ctx.scopes.slot_mut(self.ctx.statics, place);
                            match (slot, stack.last()) {
                                (Slot::Scalar(old), Some(Value::Int(int))) => {
                                    *old = Value::Int(*int);
                                    stack.pop();
                                }
                                (Slot::Scalar(old), _) => *old = stack.pop().unwrap_or_default(),
                                _ => {
                                    let value = stack.pop().unwrap_or_default();
                                    ok!(self.ctx.scopes.store(self.ctx.statics, place, value));
                                }
                            }
                        }
                        Op::StoreElement(var, n) => {
                            let value = stack.pop().unwrap_or_default();
                            let at = stack.len() - usize::from(n);
                            ok!(self.ctx.meter.charge(64 + length(&stack[at..])));
                            let scratch = &mut self.fiber.scratch;
                            join_into(scratch, &stack[at..]);
                            stack.truncate(at);
                            let place = place(var, scope);
                            let scopes = &mut *self.ctx.scopes;
                            ok!(scopes.store_element(
                                self.ctx.statics,
                                place,
                                scratch,
                                value.clone()
                            ));
                            stack.push(value);
                        }
                        Op::IncrementPop(var, by) => {
                            let place = place(var, scope);
                            match self.ctx.scopes.slot_mut(self.ctx.statics, place) {
                                Slot::Scalar(Value::Int(int)) => {
                                    *int = int.wrapping_add(i64::from(by));
                                }
                                _ => {
                                    let by = Value::Int(i64::from(by));
                                    ok!(self.increment(place, None, &by));
                                }
                            }
                        }
                        Op::IncrementByPop(var) => {
                            let place = place(var, scope);
                            let slot = self.ctx.scopes.slot_mut(self.ctx.statics, place);
                            match (slot, stack.last()) {
                                (Slot::Scalar(Value::Int(int)), Some(Value::Int(by))) => {
                                    *int = int.wrapping_add(*by);
                                    stack.pop();
                                }
                                _ => {
                                    let by = stack.pop().unwrap_or_default();
                                    ok!(self.increment(place, None, &by));
                                }
                            }
                        }
                        Op::AppendPop(var) => {
                            let more = stack.pop().unwrap_or_default();
                            let place = place(var, scope);
                            ok!(self.ctx.meter.charge(more.len()));
                            match self.ctx.scopes.slot_mut(self.ctx.statics, place) {
                                Slot::Scalar(value) => {
                                    let anew = value.append(&more.bytes());
                                    ok!(self.ctx.meter.charge(anew));
                                }
                                _ => {
                                    ok!(self.append(place, None, more));
                                }
                            }
                        }
                        Op::PushPop(var, false) => {
                            let item = stack.pop().unwrap_or_default();
                            let place = place(var, scope);
                            ok!(self.ctx.meter.charge(16 + item.weight()));
                            match self.ctx.scopes.slot_mut(self.ctx.statics, place) {
                                Slot::Scalar(value) => {
                                    let anew = ok!(value.push(item));
                                    ok!(self.ctx.meter.charge(anew));
                                }
                                _ => {
                                    ok!(self.push(place, None, item, false));
                                }
                            }
                        }
                        Op::Jump(to) => pc = to as usize,
                        Op::Loop(to) => {
                            pc = to as usize;
                            ok!(self.ctx.meter.spend(1));
                        }
                        Op::JumpIf(to) => {
                            let truth = ok!(truth(stack.last()));
                            stack.pop();
                            if truth {
                                pc = to as usize;
                            }
                        }
                        Op::JumpIfNot(to) => {
                            let truth = ok!(truth(stack.last()));
                            stack.pop();
                            if !truth {
                                pc = to as usize;
                            }
                        }
                        Op::JumpUnless(operator, to) => {
                            // Values are looked at where they are: moving what was just written is slow.
                            let at = stack.len() - 2;
                            let holds = match &stack[at..] {
                                [Value::Int(a), Value::Int(b)] => arith::compare(operator, *a, *b),
                                _ => None,
                            };
                            let holds = match holds {
                                Some(holds) => holds,
                                None => {
                                    let steps = &mut self.ctx.meter.steps;
                                    ok!(arith::holds(operator, &stack[at], &stack[at + 1], steps))
                                }
                            };
                            stack.truncate(at);
                            if !holds {
                                pc = to as usize;
                            }
                        }
                        Op::Compare(operator, var, constant) => {
                            let place = place(var, scope);
                            let constant = &code.consts[usize::from(constant)];
                            let steps = &mut self.ctx.meter.steps;
                            let holds = match self.ctx.scopes.slot(self.ctx.statics, place) {
                                Slot::Scalar(value) => {
                                    let quick = match (value, constant) {
                                        (Value::Int(a), Value::Int(b)) => {
                                            arith::compare(operator, *a, *b)
                                        }
                                        _ => None,
                                    };
                                    match quick {
                                        Some(holds) => holds,
                                        None => ok!(arith::holds(operator, value, constant, steps)),
                                    }
                                }
                                _ => {
                                    let scopes = &*self.ctx.scopes;
                                    let value = ok!(scopes.load(self.ctx.statics, place));
                                    ok!(arith::holds(operator, &value, constant, steps))
                                }
                            };
                            pc += usize::from(holds);
                        }
                        Op::Binary(operator) => {
                            let at = stack.len() - 2;
                            let quick = match &stack[at..] {
                                [Value::Int(a), Value::Int(b)] => arith::integers(operator, *a, *b),
                                _ => None,
                            };
                            let value = match quick {
                                Some(value) => value,
                                None => {
                                    let steps = &mut self.ctx.meter.steps;
                                    ok!(arith::binary(operator, &stack[at], &stack[at + 1], steps))
                                }
                            };
                            stack.truncate(at);
                            stack.push(value);
                        }
                        Op::Unary(operator) => {
                            let a = stack.pop().unwrap_or_default();
                            stack.push(ok!(arith::unary(operator, &a)));
                        }
                        Op::Number => {
                            let top = top(stack);
                            if matches!(top, Value::Text(_) | Value::List(_))
                                && let Some(number) = top.number()
                            {
                                *top = Value::from(number);
                            }
                        }
                        Op::Call(number, n) => {
                            let command = commands.list[usize::from(number)];
                            let at = stack.len() - usize::from(n);
                            if n < u16::from(command.least)
                                || (n > u16::from(command.most) && command.most != ANY)
                            {
                                stack.truncate(at);
                                break 'op command.wrong_args();
                            }
                            if !command.events.has(self.ctx.event) {
                                stack.truncate(at);
                                break 'op misplaced(command.name, self.ctx.event);
                            }
                            let steps = 1 + (length(&stack[at..]) >> 12);
                            ok!(self.ctx.meter.spend(steps as u64));
                            let result = if self.ctx.program.profile_commands.get() {
                                timed(self.ctx, command.name, command.run, &stack[at..])
                            } else {
                                (command.run)(self.ctx, &stack[at..])
                            };
                            stack.truncate(at);
                            let value = ok!(result);
                            ok!(self.ctx.meter.made(&value));
                            stack.push(value);
                        }
                        Op::CallSub(number, sub, n) => {
                            let command = commands.list[usize::from(number)];
                            let at = stack.len() - usize::from(n);
                            if !command.events.has(self.ctx.event) {
                                stack.truncate(at);
                                break 'op misplaced(command.name, self.ctx.event);
                            }
                            let steps = 1 + (length(&stack[at..]) >> 12);
                            ok!(self.ctx.meter.spend(steps as u64));
                            let run = command.subs[usize::from(sub)].run;
                            let result = if self.ctx.program.profile_commands.get() {
                                timed(self.ctx, command.name, run, &stack[at..])
                            } else {
                                run(self.ctx, &stack[at..])
                            };
                            stack.truncate(at);
                            let value = ok!(result);
                            ok!(self.ctx.meter.made(&value));
                            stack.push(value);
                        }
                        Op::CallProc(number, n) => {
                            let known =
                                self.ctx.program.procs.borrow().list[usize::from(number)].clone();
                            let Some(proc) = known else {
                                let name = Rc::clone(
                                    &self.ctx.program.procs.borrow().names[usize::from(number)],
                                );
                                let at = stack.len() - usize::from(n);
                                stack.truncate(at);
                                break 'op Fault::error(format!("invalid command name \"{name}\""));
                            };
                            self.save(pc);
                            ok!(self.enter_proc(proc, usize::from(n)));
                            continue 'frame;
                        }
                        Op::End => {
                            let value = stack.pop().unwrap_or_default();
                            match self.leave(value, floor) {
                                Next::Frame => continue 'frame,
                                Next::Done(value) => return Ok(Ran::Value(value)),
                            }
                        }
                        Op::Return => {
                            let value = stack.pop().unwrap_or_default();
                            let frame = self.fiber.frames.last();
                            if frame.is_some_and(|f| matches!(f.kind, FrameKind::Script)) {
                                break 'op returned(value);
                            }
                            match self.leave(value, floor) {
                                Next::Frame => continue 'frame,
                                Next::Done(value) => return Ok(Ran::Value(value)),
                            }
                        }
                        Op::ForeachStep(number, out) => {
                            let info = &code.foreachs[usize::from(number)];
                            let top = stack.len() - 1;
                            let Value::Int(round) = &mut stack[top] else {
                                break 'op Fault::error("foreach lost its place");
                            };
                            let at = *round as usize;
                            *round += 1;
                            let base = top - info.lists.len();
                            // One list, as most have, and variables with slots.
                            if let ([names], [Value::List(list)]) =
                                (&*info.lists, &stack[base..top])
                            {
                                let first = at * names.len();
                                if first >= list.items().len() {
                                    pc = out as usize;
                                    continue 'next;
                                }
                                let rest = list.items()[first..]
                                    .iter()
                                    .chain(std::iter::repeat(&Value::Empty));
                                for (target, item) in names.iter().zip(rest) {
                                    if let Target::Slot(var) = target
                                        && let Slot::Scalar(old) = self
                                            .ctx
                                            .scopes
                                            .slot_mut(self.ctx.statics, place(*var, scope))
                                    {
                                        *old = match item {
                                            Value::Int(int) => Value::Int(*int),
                                            Value::Text(text) => Value::Text(Rc::clone(text)),
                                            other => other.clone(),
                                        };
                                        continue;
                                    }
                                    ok!(assign(
                                        self.ctx.scopes,
                                        self.ctx.statics,
                                        target,
                                        item.clone(),
                                        scope
                                    ));
                                }
                                continue 'next;
                            }
                            let lists = info.lists.iter().zip(&stack[base..top]);
                            let mut more = false;
                            for (names, list) in lists.clone() {
                                more |= items(list).len() > at * names.len();
                            }
                            if !more {
                                pc = out as usize;
                                continue 'next;
                            }
                            for (names, list) in lists {
                                for (n, target) in names.iter().enumerate() {
                                    let item = items(list).get(at * names.len() + n);
                                    let item = item.cloned().unwrap_or_default();
                                    ok!(assign(
                                        self.ctx.scopes,
                                        self.ctx.statics,
                                        target,
                                        item,
                                        scope
                                    ));
                                }
                            }
                        }
                        Op::Switch(table) => {
                            let value = stack.pop().unwrap_or_default();
                            let table = table as usize;
                            ok!(self.ctx.meter.look(value.weight()));
                            let found = code.switches[table].get(&*value.bytes());
                            pc = *found.unwrap_or(&code.defaults[table]) as usize;
                        }
                        Op::Eval(n) => {
                            if n > 1 {
                                let at = stack.len() - usize::from(n);
                                ok!(self.ctx.meter.charge(length(&stack[at..])));
                            }
                            let script = take_script(stack, usize::from(n));
                            self.save(pc);
                            ok!(self.enter_script(script, scope));
                            continue 'frame;
                        }
                        Op::Invoke(n) => {
                            self.save(pc);
                            if ok!(self.invoke(usize::from(n))) {
                                continue 'frame;
                            }
                        }
                        Op::Uplevel(n) => {
                            if n > 1 {
                                let at = stack.len() - usize::from(n);
                                ok!(self.ctx.meter.charge(length(&stack[at..])));
                            }
                            let script = take_script(stack, usize::from(n));
                            let level = stack.pop().unwrap_or_default();
                            let Some(scope) = self.ctx.scopes.level(&level.bytes()) else {
                                break 'op Fault::error(format!("bad level \"{}\"", level.lossy()));
                            };
                            self.save(pc);
                            ok!(self.enter_script(script, scope as u32));
                            continue 'frame;
                        }
                        Op::EvalExpr(n) => {
                            let at = stack.len() - usize::from(n);
                            let text = if n == 1 {
                                stack[at].clone()
                            } else {
                                ok!(self.ctx.meter.charge(length(&stack[at..])));
                                let scratch = &mut self.fiber.scratch;
                                join_into(scratch, &stack[at..]);
                                Value::new(scratch)
                            };
                            stack.truncate(at);
                            if let Some(number) = text.number() {
                                stack.push(Value::from(number));
                                continue 'next;
                            }
                            ok!(self.ctx.meter.spend(1));
                            self.save(pc);
                            ok!(self.enter_expr(&text, scope));
                            continue 'frame;
                        }
                        Op::Subst(without) => {
                            let text = stack.pop().unwrap_or_default();
                            self.save(pc);
                            ok!(self.enter_subst(&text, without, scope));
                            continue 'frame;
                        }
                        other => ok!(self.seldom(other, scope)),
                    }
                    continue 'next;
                };
                self.save(pc);
                match fault.kind() {
                    Kind::Wait(_) => {
                        let Kind::Wait(wait) = fault.into_kind() else {
                            continue;
                        };
                        return Ok(Ran::Wait(wait));
                    }
                    Kind::Eval(_) => {
                        let Kind::Eval(script) = fault.into_kind() else {
                            continue;
                        };
                        if let Err(fault) = self.enter_script(script, scope) {
                            match self.unwind(fault, floor)? {
                                Next::Frame => continue 'frame,
                                Next::Done(value) => return Ok(Ran::Value(value)),
                            }
                        }
                        continue 'frame;
                    }
                    _ => match self.unwind(fault, floor)? {
                        Next::Frame => continue 'frame,
                        Next::Done(value) => return Ok(Ran::Value(value)),
                    },
                }
            }
        }
    }

    pub(super) fn save(&mut self, pc: usize) {
        if let Some(frame) = self.fiber.frames.last_mut() {
            frame.pc = pc as u32;
        }
    }

    /// Ends the frame on top with a value.
    pub(super) fn leave(&mut self, value: Value, floor: usize) -> Next {
        self.drop_frame();
        if self.fiber.frames.len() <= floor {
            return Next::Done(value);
        }
        self.fiber.stack.push(value);
        Next::Frame
    }

    pub(super) fn drop_frame(&mut self) -> Option<Frame> {
        let frame = self.fiber.frames.pop()?;
        self.fiber.stack.truncate(frame.base as usize);
        self.ctx.flow.side = frame.side;
        if let FrameKind::Proc = frame.kind {
            self.ctx.scopes.end(frame.scope as usize);
        }
        Some(frame)
    }
}

fn top(stack: &mut [Value]) -> &mut Value {
    let last = stack.len() - 1;
    &mut stack[last]
}

#[inline]
pub(super) fn place(var: Var, scope: u32) -> Place {
    if var.is_static() {
        Place::Static(var.slot())
    } else {
        Place::Local {
            scope,
            slot: var.slot(),
        }
    }
}

/// The items of a value that is a list already.
fn items(list: &Value) -> &[Value] {
    match list {
        Value::List(list) => list.items(),
        _ => &[],
    }
}

/// How many bytes texts have together, about.
fn length(texts: &[Value]) -> usize {
    let lengths = texts.iter().map(Value::weight);
    lengths.fold(0, usize::saturating_add)
}

pub(super) fn join_into(scratch: &mut Vec<u8>, texts: &[Value]) {
    scratch.clear();
    for text in texts {
        match text {
            Value::Text(text) => scratch.extend_from_slice(text.chars()),
            other => scratch.extend_from_slice(&other.bytes()),
        }
    }
}

/// Sets a loop's variable.
fn assign(
    scopes: &mut Scopes,
    statics: &mut Statics,
    target: &Target,
    value: Value,
    scope: u32,
) -> Result<(), Fault> {
    match target {
        Target::Slot(var) => scopes.store(statics, place(*var, scope), value),
        Target::Name(name) => scopes.set_named(statics, &name.bytes(), value),
    }
}

/// Pushes a copy, written where it is to be: one that is put together elsewhere first comes late.
#[inline(always)]
fn push_copy(stack: &mut Vec<Value>, value: &Value) {
    match value {
        Value::Int(int) => stack.push(Value::Int(*int)),
        Value::Text(text) => stack.push(Value::Text(Rc::clone(text))),
        other => stack.push(other.clone()),
    }
}

#[inline]
fn truth(condition: Option<&Value>) -> Result<bool, Fault> {
    match condition {
        Some(Value::Int(int)) => Ok(*int != 0),
        Some(other) => other.truth(),
        None => Ok(false),
    }
}

/// Pops texts that make a script: put together with spaces between, as `concat` does.
fn take_script(stack: &mut Vec<Value>, n: usize) -> Value {
    let at = stack.len() - n;
    let script = if n == 1 {
        stack[at].clone()
    } else {
        crate::commands::concat(&stack[at..])
    };
    stack.truncate(at);
    script
}

/// Runs a command and counts its cycles.
#[cold]
fn timed(ctx: &mut Ctx<'_>, name: &'static str, run: Run, args: &[Value]) -> Result<Value, Fault> {
    let began = ctx.host.cycles();
    let result = run(ctx, args);
    let cycles = ctx.host.cycles().wrapping_sub(began);
    ctx.program
        .profile
        .command(ctx.rule, ctx.event, name, cycles);
    result
}

fn misplaced(name: &str, event: crate::event::Event) -> Fault {
    Fault::error(format!("{name} can't be used in {event}"))
}

/// What `code` belongs to is at hand in its frame.
pub(crate) fn frame(code: Rc<Code>, base: usize, kind: FrameKind, scope: u32, side: Side) -> Frame {
    Frame {
        code,
        pc: 0,
        base: base as u32,
        kind,
        scope,
        side,
    }
}
