//! `array`: whole arrays, and walks through them.

use super::ensemble::{Sub, choose, dispatch, error_about};
use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::regex::{Flags, Regex, glob};
use crate::value::Value;

pub(super) const COMMANDS: &[Command] =
    &[Command::new("array", "option arrayName ?arg ...?", 1, ANY, array).differs(
        "a search goes on when elements are added or taken away: it meets those that were there when it began and still are",
    ).with(SUBS)];

/// What `array` does.
pub(crate) const SUBS: &[Sub] = &[
    Sub::new("anymore", "arrayName searchId", 2, 2, anymore),
    Sub::new("donesearch", "arrayName searchId", 2, 2, donesearch),
    Sub::new("exists", "arrayName", 1, 1, exists),
    Sub::new("get", "arrayName ?pattern?", 1, 2, get),
    Sub::new("names", "arrayName ?mode? ?pattern?", 1, 3, names),
    Sub::new("nextelement", "arrayName searchId", 2, 2, nextelement),
    Sub::new("set", "arrayName list", 2, 2, set),
    Sub::new("size", "arrayName", 1, 1, size),
    Sub::new("startsearch", "arrayName", 1, 1, startsearch),
    Sub::new("statistics", "arrayName", 1, 1, statistics),
    Sub::new("unset", "arrayName ?pattern?", 1, 2, unset),
];

/// With this begin the names of variables in which searches are kept.
pub(super) const SEARCH: &[u8] = b"\0search ";

fn array(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if args.len() < 2 {
        return Err(Fault::usage("array option arrayName ?arg ...?"));
    }
    dispatch(ctx, "array", SUBS, args)
}

fn exists(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let array = ctx.scopes.array_named(ctx.statics, &args[0].bytes());
    Ok(Value::from(array.is_some()))
}

fn size(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let array = ctx.scopes.array_named(ctx.statics, &args[0].bytes());
    Ok(Value::from(array.map_or(0, hashbrown::HashMap::len)))
}

fn get(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let Some(array) = ctx.scopes.array_named(ctx.statics, &args[0].bytes()) else {
        return Ok(Value::Empty);
    };
    let mut pairs = Vec::new();
    let pattern = args.get(1).map(Value::bytes);
    match pattern.as_deref() {
        Some(key) if is_plain(key) => {
            if let Some(value) = array.get(key) {
                pairs = vec![Value::literal(key), value.clone()];
            }
            return Ok(Value::list_of(pairs));
        }
        pattern => {
            ctx.meter.spend(array.len() as u64)?;
            for (key, value) in array {
                if pattern.is_none_or(|pattern| glob(pattern, key, false)) {
                    pairs.push(Value::literal(key));
                    pairs.push(value.clone());
                }
            }
        }
    }
    ctx.charge(pairs.len() * ITEM)?;
    Ok(Value::list_of(pairs))
}

/// What an item of a list takes, roughly.
const ITEM: usize = 64;

fn names(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    const MODES: [&str; 3] = ["-exact", "-glob", "-regexp"];
    let (mode, pattern) = match args {
        [_, mode, pattern] => (choose(&MODES, &mode.bytes(), "option")?, Some(pattern)),
        [_, pattern] => (1, Some(pattern)),
        _ => (1, None),
    };
    let name = args[0].bytes();
    let pattern = pattern.map(Value::bytes);
    let pattern = pattern.as_deref();
    let regex = match (mode, pattern) {
        (2, Some(pattern)) => Some(compile(pattern)?),
        _ => None,
    };
    let Some(array) = ctx.scopes.array_named(ctx.statics, &name) else {
        return Ok(Value::Empty);
    };
    let mut names = Vec::new();
    match pattern {
        Some(key) if mode == 0 || (mode == 1 && is_plain(key)) => {
            if array.contains_key(key) {
                names.push(Value::literal(key));
            }
        }
        _ => {
            ctx.meter.spend(array.len() as u64)?;
            for key in array.keys() {
                let wanted = match (&regex, pattern) {
                    (Some(regex), _) => regex
                        .is_match(key, &mut ctx.meter.steps)
                        .map_err(|error| Fault::error(error.to_string()))?,
                    (None, Some(pattern)) => glob(pattern, key, false),
                    (None, None) => true,
                };
                if wanted {
                    names.push(Value::literal(key));
                }
            }
        }
    }
    ctx.charge(names.len() * ITEM)?;
    Ok(Value::list_of(names))
}

fn compile(pattern: &[u8]) -> Result<Regex, Fault> {
    Regex::new(pattern, Flags::default()).map_err(|error| Fault::error(error.to_string()))
}

/// Whether a glob pattern matches nothing but itself.
fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| b"*?[\\".contains(byte))
}

fn set(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let pairs = args[1].list()?;
    if pairs.len() % 2 != 0 {
        return Err(Fault::error("list must have an even number of elements"));
    }
    let name = args[0].bytes();
    ctx.spend(pairs.len() as u64)?;
    ctx.charge(pairs.len() * ITEM)?;
    if pairs.is_empty() {
        let isnt = ctx.exists(&args[0]) && ctx.scopes.array_named(ctx.statics, &name).is_none();
        if isnt {
            return Err(error_about(
                "can't array set \"",
                &name,
                "\": variable isn't array",
            ));
        }
        return ctx
            .scopes
            .make_array(ctx.statics, &name)
            .map(|()| Value::Empty);
    }
    let current = ctx.scopes.current;
    let place = ctx.scopes.place(ctx.statics, current, &name);
    for pair in pairs.chunks_exact(2) {
        ctx.scopes
            .store_element(ctx.statics, place, &pair[0].bytes(), pair[1].clone())?;
    }
    Ok(Value::Empty)
}

fn unset(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let name = args[0].bytes();
    let Some(array) = ctx.scopes.array_named(ctx.statics, &name) else {
        return Ok(Value::Empty);
    };
    let Some(pattern) = args.get(1) else {
        ctx.scopes.unset_named(ctx.statics, &name);
        return Ok(Value::Empty);
    };
    let pattern = pattern.bytes();
    let keys: Vec<Box<[u8]>> = if is_plain(&pattern) {
        vec![(*pattern).into()]
    } else {
        ctx.meter.spend(array.len() as u64)?;
        array
            .keys()
            .filter(|key| glob(&pattern, key, false))
            .cloned()
            .collect()
    };
    let current = ctx.scopes.current;
    let place = ctx.scopes.place(ctx.statics, current, &name);
    for key in keys {
        ctx.scopes.unset(ctx.statics, place, Some(&key));
    }
    Ok(Value::Empty)
}

fn statistics(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let name = args[0].bytes();
    let Some(array) = ctx.scopes.array_named(ctx.statics, &name) else {
        return Err(no_array(&name));
    };
    Ok(Value::from(format!(
        "{} entries in table, {} buckets",
        array.len(),
        array.capacity()
    )))
}

fn no_array(name: &[u8]) -> Fault {
    error_about("\"", name, "\" isn't an array")
}

fn startsearch(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let name = args[0].bytes();
    let Some(array) = ctx.scopes.array_named(ctx.statics, &name) else {
        return Err(no_array(&name));
    };
    // What is still to come, in reverse.
    let keys: Vec<Value> = array.keys().map(|key| Value::new(key)).collect();
    ctx.charge(keys.len() * ITEM)?;
    let mut number = 1;
    while ctx.exists(&keeper(number)) {
        number += 1;
    }
    ctx.set(&keeper(number), Value::list_of(keys))?;
    let id = [format!("s-{number}-").as_bytes(), &name].concat();
    Ok(Value::from(id))
}

/// The variable in which a search is kept: as a list of what is still to come.
fn keeper(number: u64) -> Value {
    let number = number.to_string();
    Value::from([SEARCH, number.as_bytes()].concat())
}

/// The variable of a search by its id.
fn search(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (name, id) = (args[0].bytes(), args[1].bytes());
    if ctx.scopes.array_named(ctx.statics, &name).is_none() {
        return Err(no_array(&name));
    }
    let illegal = || error_about("illegal search identifier \"", &id, "\"");
    let rest = id.strip_prefix(b"s-").ok_or_else(illegal)?;
    let dash = memchr::memchr(b'-', rest).ok_or_else(illegal)?;
    let number = std::str::from_utf8(&rest[..dash])
        .ok()
        .and_then(|n| n.parse().ok());
    let number = number.ok_or_else(illegal)?;
    if rest[dash + 1..] != *name {
        return Err(error_about(
            "search identifier \"",
            &id,
            &format!("\" isn't for variable \"{}\"", args[0].lossy()),
        ));
    }
    let keeper = keeper(number);
    if !ctx.exists(&keeper) {
        return Err(error_about("couldn't find search \"", &id, "\""));
    }
    Ok(keeper)
}

/// The next element of a search, which stays the next one unless it is `taken`.
fn next(ctx: &mut Ctx<'_>, args: &[Value], taken: bool) -> Result<Option<Value>, Fault> {
    let keeper = search(ctx, args)?;
    let name = args[0].bytes();
    let mut left = ctx.take(&keeper).into_items()?;
    let array = ctx.scopes.array_named(ctx.statics, &name);
    // Those that are gone by now are passed over.
    let there = |key: &Value| array.is_some_and(|array| array.contains_key(&*key.bytes()));
    while left.last().is_some_and(|key| !there(key)) {
        left.pop();
    }
    let next = if taken {
        left.pop()
    } else {
        left.last().cloned()
    };
    ctx.set(&keeper, Value::list_of(left))?;
    Ok(next)
}

fn anymore(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(Value::from(next(ctx, args, false)?.is_some()))
}

fn nextelement(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(next(ctx, args, true)?.unwrap_or_default())
}

fn donesearch(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let keeper = search(ctx, args)?;
    ctx.scopes.unset_named(ctx.statics, &keeper.bytes());
    Ok(Value::Empty)
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};
    use crate::value::Value;

    fn sorted(bench: &mut Bench, command: &str) -> Vec<String> {
        let value = bench.run(command).unwrap();
        let mut items: Vec<_> = value.split(' ').map(str::to_owned).collect();
        items.sort();
        items
    }

    #[test]
    fn arrays_are_filled_and_read() {
        let mut bench = Bench::new();
        assert_eq!(bench.run("array exists a").as_deref(), Ok("0"));
        assert_eq!(bench.run("array size a").as_deref(), Ok("0"));
        assert_eq!(bench.run("array get a").as_deref(), Ok(""));
        assert_eq!(bench.run("array set a {x 1 yy 2 yz 3}").as_deref(), Ok(""));
        assert_eq!(bench.run("array exists a").as_deref(), Ok("1"));
        assert_eq!(bench.run("array size a").as_deref(), Ok("3"));
        assert_eq!(bench.var("a(yy)"), "2");
        assert_eq!(sorted(&mut bench, "array names a"), ["x", "yy", "yz"]);
        assert_eq!(sorted(&mut bench, "array names a y*"), ["yy", "yz"]);
        assert_eq!(sorted(&mut bench, "array names a -regexp {^.$}"), ["x"]);
        assert_eq!(sorted(&mut bench, "array names a -exact y*"), [""]);
        assert_eq!(sorted(&mut bench, "array names a x"), ["x"]);
        assert_eq!(bench.run("array get a x").as_deref(), Ok("x 1"));
        assert_eq!(sorted(&mut bench, "array get a y*"), ["2", "3", "yy", "yz"]);
        assert_eq!(bench.run("array unset a y*").as_deref(), Ok(""));
        assert_eq!(bench.run("array get a").as_deref(), Ok("x 1"));
        assert_eq!(bench.run("array unset a").as_deref(), Ok(""));
        assert_eq!(bench.run("array exists a").as_deref(), Ok("0"));
        bench.run("array set static::b {}").unwrap();
        assert_eq!(bench.run("array exists static::b").as_deref(), Ok("1"));
    }

    #[test]
    fn an_array_is_walked_through() {
        let mut bench = Bench::new();
        bench.run("array set a {x 1 y 2 z 3}").unwrap();
        assert_eq!(bench.run("array startsearch a").as_deref(), Ok("s-1-a"));
        assert_eq!(bench.run("array startsearch a").as_deref(), Ok("s-2-a"));
        let mut met = Vec::new();
        while bench.run("array anymore a s-1-a").unwrap() == "1" {
            met.push(bench.run("array nextelement a s-1-a").unwrap());
        }
        met.sort();
        assert_eq!(met, ["x", "y", "z"]);
        bench.run("array unset a x").unwrap();
        bench.run("array unset a y").unwrap();
        assert_eq!(bench.run("array nextelement a s-2-a").as_deref(), Ok("z"));
        assert_eq!(bench.run("array anymore a s-2-a").as_deref(), Ok("0"));
        assert_eq!(bench.run("array donesearch a s-2-a").as_deref(), Ok(""));
        assert_eq!(
            bench.run("array anymore a s-2-a").unwrap_err(),
            "couldn't find search \"s-2-a\""
        );
        assert_eq!(bench.run("info vars").as_deref(), Ok("a"));
    }

    #[test]
    fn what_is_no_array_is_told() {
        let mut bench = Bench::new();
        bench
            .ctx()
            .set(&Value::from("s"), Value::from("1"))
            .unwrap();
        for (command, error) in [
            (
                "array set s {a b}",
                "can't set \"s(a)\": variable isn't array",
            ),
            (
                "array set s {}",
                "can't array set \"s\": variable isn't array",
            ),
            (
                "array set a {x}",
                "list must have an even number of elements",
            ),
            ("array startsearch s", "\"s\" isn't an array"),
            (
                "array names s -x y",
                "bad option \"-x\": must be -exact, -glob, or -regexp",
            ),
            (
                "array x",
                "wrong # args: should be \"array option arrayName ?arg ...?\"",
            ),
            (
                "array exists",
                "wrong # args: should be \"array option arrayName ?arg ...?\"",
            ),
            (
                "array set s",
                "wrong # args: should be \"array set arrayName list\"",
            ),
        ] {
            assert_eq!(bench.run(command).unwrap_err(), error, "{command}");
        }
        check(&[("array get nothing", ""), ("array names nothing x", "")]);
    }
}
