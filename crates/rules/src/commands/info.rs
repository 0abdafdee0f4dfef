//! `info`: what there is. `info exists` of a name that is known is the compiler's.

use super::ensemble::{Sub, dispatch, error_about};
use crate::code::Proc;
use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::regex::glob;
use crate::value::Value;
use std::rc::Rc;

pub(super) const COMMANDS: &[Command] =
    &[Command::new("info", "option ?arg arg ...?", 1, ANY, info).with(SUBS)];

const SUBS: &[Sub] = &[
    Sub::new("args", "procname", 1, 1, args_of),
    Sub::new("body", "procname", 1, 1, body),
    Sub::new("commands", "?pattern?", 0, 1, commands),
    Sub::new("complete", "command", 1, 1, complete),
    Sub::new("default", "procname arg varname", 3, 3, default),
    Sub::new("exists", "varName", 1, 1, exists),
    Sub::new("globals", "?pattern?", 0, 1, globals),
    Sub::new("level", "", 0, 0, level),
    Sub::new("locals", "?pattern?", 0, 1, locals),
    Sub::new("patchlevel", "", 0, 0, |_, _| Ok(Value::from("8.4.6"))),
    Sub::new("procs", "?pattern?", 0, 1, procs),
    Sub::new("tclversion", "", 0, 0, |_, _| Ok(Value::from("8.4"))),
    Sub::new("vars", "?pattern?", 0, 1, vars),
];

fn info(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    dispatch(ctx, "info", SUBS, args)
}

fn args_of(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let proc = procedure(ctx, &args[0])?;
    let names = proc.params.iter().map(|(name, _)| Value::new(name));
    let rest = proc.rest.then(|| Value::from("args"));
    Ok(Value::list_of(names.chain(rest).collect()))
}

fn body(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(procedure(ctx, &args[0])?.body.clone())
}

fn default(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let proc = procedure(ctx, &args[0])?;
    let wanted = args[1].bytes();
    let Some((_, default)) = proc.params.iter().find(|(name, _)| **name == *wanted) else {
        return Err(Fault::error(format!(
            "procedure \"{}\" doesn't have an argument \"{}\"",
            args[0].lossy(),
            args[1].lossy()
        )));
    };
    ctx.set(&args[2], default.clone().unwrap_or_default())?;
    Ok(Value::from(default.is_some()))
}

fn procedure(ctx: &Ctx<'_>, name: &Value) -> Result<Rc<Proc>, Fault> {
    let proc = ctx.program.procs.borrow().get(ctx.rule, &name.bytes());
    proc.ok_or_else(|| error_about("\"", &name.bytes(), "\" isn't a procedure"))
}

fn procs(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let own = format!("{}::", ctx.rule);
    let procs = ctx.program.procs.borrow();
    let defined = procs
        .names
        .iter()
        .zip(&procs.list)
        .filter(|(_, proc)| proc.is_some());
    let names = defined.map(|(name, _)| name.strip_prefix(&own).unwrap_or(name).as_bytes());
    Ok(matching(names, args))
}

fn commands(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let own = format!("{}::", ctx.rule);
    let procs = ctx.program.procs.borrow();
    let procs = procs
        .names
        .iter()
        .map(|name| name.strip_prefix(&own).unwrap_or(name));
    let commands = crate::engine::commands()
        .list
        .iter()
        .map(|command| command.name);
    let names = crate::compile::SPECIAL
        .iter()
        .copied()
        .chain(commands)
        .chain(procs);
    Ok(matching(names.map(str::as_bytes), args))
}

fn complete(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let whole = match crate::parse::script(&text, 0..end) {
        Ok(_) => true,
        Err(error) => !error.message.starts_with("missing"),
    };
    Ok(Value::from(whole))
}

fn exists(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(Value::from(ctx.exists(&args[0])))
}

fn level(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    let current = &ctx.scopes.list[ctx.scopes.current];
    Ok(Value::Int(current.level.into()))
}

fn vars(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let names = ctx.scopes.local_names();
    Ok(matching(names.iter().map(|name| &**name), args))
}

fn locals(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if ctx.scopes.current == 0 {
        return Ok(Value::Empty);
    }
    vars(ctx, args)
}

fn globals(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let current = std::mem::take(&mut ctx.scopes.current);
    let names = vars(ctx, args);
    ctx.scopes.current = current;
    names
}

/// The names that a pattern matches, where there is one.
fn matching<'a>(names: impl Iterator<Item = &'a [u8]>, pattern: &[Value]) -> Value {
    let pattern = pattern.first().map(Value::bytes);
    let wanted = |name: &&[u8]| match &pattern {
        Some(pattern) => glob(pattern, name, false),
        None => true,
    };
    // Those are no names of the rule's own.
    let names = names.filter(|name| !name.starts_with(super::array::SEARCH));
    Value::list_of(names.filter(wanted).map(Value::new).collect())
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};
    use crate::value::Value;

    #[test]
    fn info_tells_what_there_is() {
        let mut bench = Bench::new();
        for name in ["alpha", "beta"] {
            bench
                .ctx()
                .set(&Value::from(name), Value::from("1"))
                .unwrap();
        }
        for (command, wanted) in [
            ("info exists alpha", "1"),
            ("info exists gamma", "0"),
            ("info vars a*", "alpha"),
            ("info vars", "alpha beta"),
            ("info globals b*", "beta"),
            ("info locals", ""),
            ("info level", "0"),
            ("info commands string", "string"),
            ("info commands whil*", "while"),
            ("info procs", ""),
            ("info tclversion", "8.4"),
        ] {
            assert_eq!(bench.run(command).as_deref(), Ok(wanted), "{command}");
        }
    }

    #[test]
    fn info_knows_whether_a_command_is_complete() {
        check(&[
            ("info complete {set a b}", "1"),
            (r"info complete set\ a\ \{", "0"),
            (r"info complete set\ a\ \[foo", "0"),
            ("info complete {set a \"}", "0"),
            ("info args nobody", "!\"nobody\" isn't a procedure"),
        ]);
    }
}
