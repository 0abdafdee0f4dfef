//! Instructions that are not worth a place in the machine's loop.

use super::arith;
use super::machine::{Machine, join_into, place};
use super::scope::Place;
use crate::code::{Matching, Op, Turn, over};
use crate::event::Side;
use crate::fault::{Error, Fault, Kind, Message, Return};
use crate::value::{Number, Value};

impl Machine<'_, '_> {
    /// Instructions that are not worth a place in the loop.
    pub(super) fn seldom(&mut self, op: Op, scope: u32) -> Result<(), Fault> {
        let stack = &mut self.fiber.stack;
        let mut pop = || stack.pop().unwrap_or_default();
        match op {
            Op::LoadNamed => {
                let name = pop();
                let value = self.ctx.get(&name)?;
                self.fiber.stack.push(value);
            }
            Op::StoreNamed => {
                let (value, name) = (pop(), pop());
                self.ctx.set(&name, value.clone())?;
                self.fiber.stack.push(value);
            }
            Op::StoreNamedBelow => {
                let (name, value) = (pop(), pop());
                self.ctx.set(&name, value)?;
            }
            Op::Increment(var, by) => {
                let by = Value::Int(i64::from(by));
                let sum = self.increment(place(var, scope), None, &by)?;
                self.fiber.stack.push(sum);
            }
            Op::PushPop(var, many) => {
                let item = pop();
                self.push(place(var, scope), None, item, many)?;
            }
            Op::IncrementBy(var) => {
                let amount = pop();
                let sum = self.increment(place(var, scope), None, &amount)?;
                self.fiber.stack.push(sum);
            }
            Op::IncrementElement(var, n) => {
                let amount = pop();
                let index = self.index(n);
                let sum = self.increment(place(var, scope), Some(&index), &amount)?;
                self.fiber.stack.push(sum);
            }
            Op::IncrementNamed => {
                let (amount, name) = (pop(), pop());
                let sum = self.ctx.get(&name)?.int()?.wrapping_add(amount.int()?);
                self.ctx.set(&name, Value::Int(sum))?;
                self.fiber.stack.push(Value::Int(sum));
            }
            Op::Append(var) => {
                let more = pop();
                let whole = self.append(place(var, scope), None, more)?;
                self.fiber.stack.push(whole);
            }
            Op::AppendElement(var, n) => {
                let more = pop();
                let index = self.index(n);
                let whole = self.append(place(var, scope), Some(&index), more)?;
                self.fiber.stack.push(whole);
            }
            Op::AppendNamed => {
                let (more, name) = (pop(), pop());
                let (at, index) = self.named(&name);
                let whole = self.append(at, index.as_deref(), more)?;
                self.fiber.stack.push(whole);
            }
            Op::List(n) => {
                let at = stack.len() - usize::from(n);
                let items = stack.split_off(at);
                let list = Value::list_of(items);
                self.ctx.meter.made(&list)?;
                self.fiber.stack.push(list);
            }
            Op::Push(var, many) => {
                let item = pop();
                let whole = self.push(place(var, scope), None, item, many)?;
                self.fiber.stack.push(whole);
            }
            Op::PushElement(var, n, many) => {
                let item = pop();
                let index = self.index(n);
                let whole = self.push(place(var, scope), Some(&index), item, many)?;
                self.fiber.stack.push(whole);
            }
            Op::PushNamed(many) => {
                let (item, name) = (pop(), pop());
                let (at, index) = self.named(&name);
                let whole = self.push(at, index.as_deref(), item, many)?;
                self.fiber.stack.push(whole);
            }
            Op::Exists(var) => {
                let there = self
                    .ctx
                    .scopes
                    .exists(self.ctx.statics, place(var, scope), None);
                stack.push(Value::from(there));
            }
            Op::ExistsElement(var, n) => {
                let index = self.index(n);
                let place = place(var, scope);
                let there = self
                    .ctx
                    .scopes
                    .exists(self.ctx.statics, place, Some(&index));
                self.fiber.stack.push(Value::from(there));
            }
            Op::ExistsNamed => {
                let name = pop();
                let there = self.ctx.exists(&name);
                self.fiber.stack.push(Value::from(there));
            }
            Op::Unset(var, complain) => {
                let place = place(var, scope);
                if !self.ctx.scopes.unset(self.ctx.statics, place, None) && complain {
                    return Err(self.cant_unset(place, None));
                }
            }
            Op::UnsetElement(var, n, complain) => {
                let index = self.index(n);
                let place = place(var, scope);
                if !self.ctx.scopes.unset(self.ctx.statics, place, Some(&index)) && complain {
                    return Err(self.cant_unset(place, Some(&index)));
                }
            }
            Op::UnsetNamed(complain) => {
                let name = pop();
                let there = self.ctx.scopes.unset_named(self.ctx.statics, &name.bytes());
                if !there && complain {
                    let (place, index) = self.named(&name);
                    return Err(self.cant_unset(place, index.as_deref()));
                }
            }
            Op::Matches(matching) => {
                let (pattern, value) = (pop(), pop());
                let fits = match matching {
                    Matching::Exact => value.same_text(&pattern),
                    Matching::Glob => crate::regex::glob(&pattern.bytes(), &value.bytes(), false),
                    Matching::Regex => {
                        let steps = &mut self.ctx.meter.steps;
                        crate::commands::regexp::matches(&pattern, &value.bytes(), steps)?
                    }
                };
                self.fiber.stack.push(Value::from(fits));
            }
            Op::ForeachBegin(n) => {
                let at = stack.len() - usize::from(n);
                for value in &mut stack[at..] {
                    if !matches!(value, Value::List(_) | Value::Empty) {
                        let items = value.list()?.to_vec();
                        *value = Value::list_of(items);
                    }
                }
                stack.push(Value::Int(0));
            }
            Op::Function(function, n) => {
                let at = stack.len() - usize::from(n);
                let host = &mut *self.ctx.host;
                let value = arith::function(function, &stack[at..], || host.random())?;
                stack.truncate(at);
                stack.push(value);
            }
            Op::Proc => {
                let (body, params, name) = (pop(), pop(), pop());
                self.define(&name, &params, &body)?;
                self.fiber.stack.push(Value::Empty);
            }
            Op::RaiseReturn => return Err(returned(pop())),
            Op::ReturnWith => {
                let (value, error_code, info, code) = (pop(), pop(), pop(), pop());
                let code = return_code(&code)?;
                let some = |value: Value| (!value.is_empty()).then_some(value);
                return Err(Fault::from(Kind::Return(Return {
                    value,
                    code,
                    info: some(info),
                    error_code: some(error_code),
                })));
            }
            Op::Error => {
                let (code, info, message) = (pop(), pop(), pop());
                let some = |value: Value| (!value.is_empty()).then_some(value);
                return Err(Fault::from(Kind::Error(Error {
                    message: Message::Value(message),
                    code: some(code),
                    info: some(info),
                    trace: Vec::new(),
                })));
            }
            Op::Break => return Err(Fault::from(Kind::Break)),
            Op::Continue => return Err(Fault::from(Kind::Continue)),
            Op::CaughtCode => {
                let code = match &self.fiber.caught {
                    Some(Kind::Error(_)) => 1,
                    Some(Kind::Return(_)) => 2,
                    Some(Kind::Break) => 3,
                    Some(Kind::Continue) => 4,
                    Some(Kind::Code(code, _)) => *code,
                    _ => 0,
                };
                if let Some(Kind::Error(error)) = self.fiber.caught.take() {
                    self.ctx.statics.note_error(error);
                }
                self.fiber.stack.push(Value::Int(code));
            }
            Op::CaughtValue => {
                let value = match &self.fiber.caught {
                    Some(Kind::Error(error)) => error.message.value(),
                    Some(Kind::Return(returned)) => returned.value.clone(),
                    Some(Kind::Code(_, value)) => value.clone(),
                    _ => Value::Empty,
                };
                self.fiber.stack.push(value);
            }
            Op::EnterSide(turn) => {
                let was = self.ctx.flow.side;
                stack.push(Value::Int(i64::from(was == Side::Server)));
                self.ctx.flow.side = match turn {
                    Turn::To(side) => side,
                    Turn::Over => over(was),
                };
            }
            Op::LeaveSide => {
                let value = pop();
                let was = pop();
                self.ctx.flow.side = match was {
                    Value::Int(0) => Side::Client,
                    _ => Side::Server,
                };
                self.fiber.stack.push(value);
            }
            Op::SetSide(side) => {
                if let Some(frame) = self.fiber.frames.last() {
                    self.ctx.flow.side = side.of(frame.side);
                }
            }
            Op::IsSide(side) => {
                let is = self.ctx.flow.side == side;
                self.fiber.stack.push(Value::from(is));
            }
            other => unreachable!("{other:?} is run in the loop"),
        }
        Ok(())
    }

    /// Pops the texts of an index, put together.
    fn index(&mut self, n: u16) -> Box<[u8]> {
        let at = self.fiber.stack.len() - usize::from(n);
        let scratch = &mut self.fiber.scratch;
        join_into(scratch, &self.fiber.stack[at..]);
        let index = scratch.as_slice().into();
        self.fiber.stack.truncate(at);
        index
    }

    /// A name's place, and its index.
    fn named(&mut self, name: &Value) -> (Place, Option<Box<[u8]>>) {
        let name = name.bytes();
        let (base, index) = super::scope::split_name(&name);
        let current = self.ctx.scopes.current;
        let place = self.ctx.scopes.place(self.ctx.statics, current, base);
        (place, index.map(Into::into))
    }

    pub(super) fn increment(
        &mut self,
        place: Place,
        index: Option<&[u8]>,
        amount: &Value,
    ) -> Result<Value, Fault> {
        let amount = amount.int()?;
        let scopes = &mut *self.ctx.scopes;
        match scopes.value_mut(self.ctx.statics, place, index) {
            Some(value) => {
                let sum = value.int()?.wrapping_add(amount);
                *value = Value::Int(sum);
                Ok(Value::Int(sum))
            }
            None => Err(missing(match index {
                Some(index) => scopes.load_element(self.ctx.statics, place, index),
                None => scopes.load(self.ctx.statics, place),
            })),
        }
    }

    pub(super) fn append(
        &mut self,
        place: Place,
        index: Option<&[u8]>,
        more: Value,
    ) -> Result<Value, Fault> {
        self.ctx.meter.charge(more.len())?;
        let scopes = &mut *self.ctx.scopes;
        let whole = match scopes.value_mut(self.ctx.statics, place, index) {
            Some(value) => {
                let anew = value.append(&more.bytes());
                self.ctx.meter.charge(anew)?;
                value.clone()
            }
            None => {
                match index {
                    Some(index) => {
                        scopes.store_element(self.ctx.statics, place, index, more.clone())?;
                    }
                    None => scopes.store(self.ctx.statics, place, more.clone())?,
                }
                more
            }
        };
        Ok(whole)
    }

    /// Puts an item behind a list, or all items of one.
    pub(super) fn push(
        &mut self,
        place: Place,
        index: Option<&[u8]>,
        item: Value,
        many: bool,
    ) -> Result<Value, Fault> {
        let count = if many { item.list()?.len() } else { 1 };
        self.ctx
            .meter
            .charge((16 * count).saturating_add(item.weight()))?;
        let scopes = &mut *self.ctx.scopes;
        let whole = match scopes.value_mut(self.ctx.statics, place, index) {
            Some(value) => {
                let mut anew: usize = 0;
                if many {
                    for item in item.list()?.iter() {
                        anew = anew.saturating_add(value.push(item.clone())?);
                    }
                } else {
                    anew = value.push(item)?;
                }
                self.ctx.meter.charge(anew)?;
                value.clone()
            }
            None => {
                let list = if many {
                    item
                } else {
                    Value::list_of(vec![item])
                };
                match index {
                    Some(index) => {
                        scopes.store_element(self.ctx.statics, place, index, list.clone())?;
                    }
                    None => scopes.store(self.ctx.statics, place, list.clone())?,
                }
                list
            }
        };
        Ok(whole)
    }

    fn cant_unset(&mut self, place: Place, index: Option<&[u8]>) -> Fault {
        let name = self.ctx.scopes.name_of(self.ctx.statics, place);
        let why = match (index, self.ctx.scopes.array(self.ctx.statics, place)) {
            (Some(_), Some(_)) => "no such element in array",
            (Some(_), None) if self.ctx.scopes.exists(self.ctx.statics, place, None) => {
                "variable isn't array"
            }
            _ => "no such variable",
        };
        super::scope::cant("unset", &name, index, why)
    }
}

pub(super) fn returned(value: Value) -> Fault {
    Fault::from(Kind::Return(Return {
        value,
        ..Return::default()
    }))
}

/// The fault of reading what is not there.
fn missing(read: Result<Value, Fault>) -> Fault {
    match read {
        Err(fault) => fault,
        Ok(_) => Fault::error("variable is array"),
    }
}

fn return_code(code: &Value) -> Result<i64, Fault> {
    Ok(match &*code.bytes() {
        b"" | b"ok" => 0,
        b"error" => 1,
        b"return" => 2,
        b"break" => 3,
        b"continue" => 4,
        _ => match code.number() {
            Some(Number::Int(code)) => code,
            _ => {
                return Err(Fault::error(format!(
                    "bad completion code \"{}\": must be ok, error, return, break, continue, or an integer",
                    code.lossy()
                )));
            }
        },
    })
}
