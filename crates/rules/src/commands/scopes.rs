//! Commands about variables of other scopes, and `info` about code.

use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;
use crate::vm::split_name;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "upvar",
        "?level? otherVar localVar ?otherVar localVar ...?",
        2,
        ANY,
        upvar,
    ),
    Command::new("global", "varName ?varName ...?", 1, ANY, global)
        .differs("names a variable of the connection; ::name and static::name are the worker's"),
];

fn upvar(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (level, pairs) = if args.len().is_multiple_of(2) {
        (Value::Int(1), args)
    } else {
        (args[0].clone(), &args[1..])
    };
    let Some(scope) = ctx.scopes.level(&level.bytes()) else {
        return Err(Fault::error(format!("bad level \"{}\"", level.lossy())));
    };
    for pair in pairs.chunks(2) {
        link(ctx, scope, &pair[0], &pair[1])?;
    }
    Ok(Value::Empty)
}

fn global(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if ctx.scopes.current == 0 {
        return Ok(Value::Empty);
    }
    for name in args {
        link(ctx, 0, name, name)?;
    }
    Ok(Value::Empty)
}

/// Has `here` stand for `other` of another scope.
fn link(ctx: &mut Ctx<'_>, scope: usize, other: &Value, here: &Value) -> Result<(), Fault> {
    let name = other.bytes();
    let (base, index) = split_name(&name);
    let special = scope == 0 && matches!(base, b"errorInfo" | b"errorCode");
    let whole;
    let base = if special {
        whole = [b"::", base].concat();
        &whole
    } else {
        base
    };
    let to = ctx.scopes.place(ctx.statics, scope, base);
    let current = ctx.scopes.current;
    let place = ctx.scopes.place(ctx.statics, current, &here.bytes());
    ctx.scopes
        .link(ctx.statics, place, to, index.map(Value::new))
}
