//! `after`: waiting, and scripts that run later.

use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::host::Wait;
use crate::value::Value;
use crate::vm::Later;
use std::rc::Rc;
use std::time::Duration;

pub(super) const COMMANDS: &[Command] = &[Command::new(
    "after",
    "ms ?-periodic? ?script? | cancel id | info ?id ...?",
    1,
    ANY,
    after,
)];

/// The shortest time between two runs of a script that runs again and again.
const SHORTEST: u64 = 1;

/// Scripts of a connection that may wait at a time.
const MOST: usize = 1000;

fn after(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let first = args[0].bytes();
    match (&*first, &args[1..]) {
        (b"cancel", [id]) => {
            if let Some(id) = number(id) {
                ctx.session.cancel(id);
            }
            Ok(Value::Empty)
        }
        (b"info", []) => {
            let ids = ctx.session.later.iter().map(|later| name(later.id));
            Ok(Value::list_of(ids.collect()))
        }
        (b"info", ids) => {
            let mut told = Vec::new();
            for id in ids {
                let known = number(id);
                let Some(later) = ctx.session.later.iter().find(|l| Some(l.id) == known) else {
                    return Err(Fault::error(format!(
                        "event \"{}\" doesn't exist",
                        id.lossy()
                    )));
                };
                told.push(Value::list_of(vec![
                    later.script.clone(),
                    Value::from("timer"),
                ]));
            }
            match told.pop() {
                Some(only) if told.is_empty() => Ok(only),
                Some(last) => {
                    told.push(last);
                    Ok(Value::list_of(told))
                }
                None => Ok(Value::Empty),
            }
        }
        (b"cancel", _) => Err(Fault::usage("after cancel id")),
        (_, rest) => {
            let Ok(ms) = args[0].int() else {
                return Err(Fault::bad(
                    "argument",
                    &first,
                    &["cancel", "info", "a number"],
                ));
            };
            let ms = u64::try_from(ms).unwrap_or(0);
            match rest {
                [] => Err(Fault::wait(Wait::Sleep(Duration::from_millis(ms)))),
                [option, script @ ..] if option.is(b"-periodic") => {
                    if script.is_empty() {
                        return Err(Fault::usage("after ms -periodic script"));
                    }
                    schedule(ctx, ms.max(SHORTEST), true, script)
                }
                script => schedule(ctx, ms, false, script),
            }
        }
    }
}

fn schedule(ctx: &mut Ctx<'_>, ms: u64, again: bool, script: &[Value]) -> Result<Value, Fault> {
    if ctx.session.later.len() >= MOST {
        return Err(Fault::error(format!(
            "more than {MOST} scripts wait already"
        )));
    }
    let script = match script {
        [only] => only.clone(),
        several => super::concat(several),
    };
    let wait = Duration::from_millis(ms);
    let id = ctx.session.schedule(Later {
        id: 0,
        script,
        due: ctx.host.now() + wait,
        every: again.then_some(wait),
        rule: Rc::clone(ctx.rule),
        event: ctx.event,
    });
    Ok(name(id))
}

fn name(id: u64) -> Value {
    Value::from(format!("after#{id}"))
}

fn number(name: &Value) -> Option<u64> {
    let name = name.bytes();
    let digits = name.strip_prefix(b"after#")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}
