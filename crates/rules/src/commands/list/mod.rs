//! Lists: making them, looking into them, changing them, and going over to texts and back.

mod change;
mod order;
mod search;
mod sort;
mod text;

pub(in crate::commands) use text::trimmed;

use super::ensemble::{index, span};
use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("concat", "?arg arg ...?", 0, ANY, text::concat),
    Command::new("join", "list ?joinString?", 1, 2, text::join),
    Command::new("lindex", "list ?index...?", 1, ANY, lindex),
    Command::new(
        "linsert",
        "list index element ?element ...?",
        3,
        ANY,
        change::linsert,
    ),
    Command::new("list", "?arg arg ...?", 0, ANY, list),
    Command::new("llength", "list", 1, 1, llength),
    Command::new("lrange", "list first last", 3, 3, lrange),
    Command::new(
        "lreplace",
        "list first last ?element element ...?",
        3,
        ANY,
        change::lreplace,
    ),
    Command::new("lsearch", search::USAGE, 2, ANY, search::lsearch),
    Command::new(
        "lset",
        "listVar index ?index...? value",
        2,
        ANY,
        change::lset,
    ),
    Command::new("lsort", "?options? list", 1, ANY, sort::lsort),
    Command::new("split", "string ?splitChars?", 1, 2, text::split),
];

fn list(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(Value::list_of(args.to_vec()))
}

fn llength(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(Value::from(args[0].list()?.len()))
}

fn lindex(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    match args {
        [list] => Ok(list.clone()),
        [list, at] => match at {
            Value::Int(_) => item(list, at),
            Value::List(path) => follow(list, path.items()),
            _ => match item(list, at) {
                Ok(item) => Ok(item),
                // What is no index may be a list of them.
                Err(bad) => match at.list() {
                    Ok(path) if path.len() != 1 => follow(list, &path),
                    _ => Err(bad),
                },
            },
        },
        [list, path @ ..] => follow(list, path),
        [] => Ok(Value::Empty),
    }
}

/// The item of a list at an index; empty where there is none.
fn item(list: &Value, at: &Value) -> Result<Value, Fault> {
    if let (Value::List(list), Value::Int(at)) = (list, at) {
        let item = usize::try_from(*at)
            .ok()
            .and_then(|at| list.items().get(at));
        return Ok(item.cloned().unwrap_or_default());
    }
    let items = list.list()?;
    let at = index(at, items.len() as i64 - 1)?;
    let item = usize::try_from(at).ok().and_then(|at| items.get(at));
    Ok(item.cloned().unwrap_or_default())
}

/// The item that indices lead to, one in the other.
fn follow(list: &Value, path: &[Value]) -> Result<Value, Fault> {
    let mut found = list.clone();
    for at in path {
        found = item(&found, at)?;
    }
    Ok(found)
}

fn lrange(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let items = args[0].list()?;
    let end = items.len() as i64 - 1;
    let range = span(index(&args[1], end)?, index(&args[2], end)?, items.len());
    ctx.charge(range.len() * size_of::<Value>())?;
    Ok(Value::list_of(items[range].to_vec()))
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::check;

    #[test]
    fn lists_are_made_and_looked_into() {
        check(&[
            ("list", ""),
            ("list a {b c} {}", "a {b c} {}"),
            ("llength {a b {c d}}", "3"),
            ("llength {}", "0"),
            (r"llength a\ \{b", "!unmatched open brace in list"),
            ("llength", "!wrong # args: should be \"llength list\""),
            ("lindex {a b c} 1", "b"),
            ("lindex {a b c} end", "c"),
            ("lindex {a b c} end-1", "b"),
            ("lindex {a b c} 3", ""),
            ("lindex {a b c} -1", ""),
            ("lindex {a b c}", "a b c"),
            ("lindex {a b c} {}", "a b c"),
            ("lindex {{a b} {c d}} 1 0", "c"),
            ("lindex {{a b} {c d}} {1 0}", "c"),
            ("lindex {{a b} {c {d e}}} 1 end end", "e"),
            ("lindex {{a b} {c d}} 5 0", ""),
            (
                "lindex {a b} x",
                "!bad index \"x\": must be integer or end?-integer?",
            ),
            ("lindex 5 0", "5"),
            ("lrange {a b c d} 1 2", "b c"),
            ("lrange {a b c d} -1 1", "a b"),
            ("lrange {a b c d} 2 end", "c d"),
            ("lrange {a  b {c}} 0 end", "a b c"),
            ("lrange {a b c d} 3 1", ""),
        ]);
    }
}
