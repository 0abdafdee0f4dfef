//! `table`: the entries that all workers share, and `session`, its older form. Where entries are kept is the host's.

use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::host::{Key, Put, Times};
use crate::value::Value;
use std::time::Duration;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("table", "option ?arg ...?", 1, ANY, table).differs(
        "-georedundancy is not known; an entry's number of bytes is bounded by the configuration alone",
    ),
    Command::new("session", "add|lookup|delete mode key ?value ?timeout??", 3, 5, session).differs(
        "keys of all modes are plain texts beside the table; the scopes any virtual, service and pool are told apart",
    ),
];

const OPTIONS: &[&str] = &[
    "add", "append", "delete", "incr", "keys", "lifetime", "lookup", "replace", "set", "timeout",
];

/// What may stand before a key.
#[derive(Default)]
struct Flags<'a> {
    subtable: Option<&'a Value>,
    notouch: bool,
    must_exist: bool,
    exclusive: bool,
    remaining: bool,
    count: bool,
    all: bool,
}

fn table(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let option = args[0].bytes();
    let rest = &args[1..];
    match &*option {
        b"lookup" => lookup(ctx, rest),
        b"incr" => increment(ctx, rest),
        b"set" => put(ctx, "set", rest),
        b"add" => put(ctx, "add", rest),
        b"replace" => put(ctx, "replace", rest),
        b"append" => append(ctx, rest),
        b"delete" => delete(ctx, rest),
        b"timeout" => times(ctx, "timeout", rest),
        b"lifetime" => times(ctx, "lifetime", rest),
        b"keys" => keys(ctx, rest),
        _ => Err(Fault::bad("option", &option, OPTIONS)),
    }
}

fn lookup(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (flags, [key]) = flags(args, &["-notouch", "-subtable"])? else {
        return Err(Fault::usage("table lookup ?options? key"));
    };
    let now = ctx.host.now();
    let (subtable, key) = (flags.subtable(), key.bytes());
    let key = Key {
        subtable: &subtable,
        key: &key,
    };
    let found = ctx.host.table().get(key, now, !flags.notouch);
    Ok(found.unwrap_or_default())
}

fn put(ctx: &mut Ctx<'_>, option: &str, args: &[Value]) -> Result<Value, Fault> {
    let allowed: &[&str] = match option {
        "set" => &["-notouch", "-subtable", "-mustexist", "-excl"],
        _ => &["-notouch", "-subtable"],
    };
    let (flags, words) = flags(args, allowed)?;
    let ([key, value] | [key, value, _] | [key, value, _, _]) = words else {
        return Err(Fault::usage(&format!(
            "table {option} ?options? key value ?timeout ?lifetime??"
        )));
    };
    let mode = match option {
        "add" => Put::IfAbsent,
        "replace" => Put::IfPresent,
        _ if flags.exclusive => Put::IfAbsent,
        _ if flags.must_exist => Put::IfPresent,
        _ => Put::Always,
    };
    let times = Times {
        timeout: words.get(2).map(lasting).transpose()?,
        lifetime: words.get(3).map(lasting).transpose()?,
    };
    let now = ctx.host.now();
    let (subtable, key) = (flags.subtable(), key.bytes());
    let key = Key {
        subtable: &subtable,
        key: &key,
    };
    let table = ctx.host.table();
    let (there, _) = table.put(key, value, mode, times, now, !flags.notouch);
    Ok(there.unwrap_or_default())
}

fn increment(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (flags, words) = flags(args, &["-notouch", "-subtable", "-mustexist"])?;
    let ([key] | [key, _]) = words else {
        return Err(Fault::usage("table incr ?options? key ?delta?"));
    };
    let by = match words.get(1) {
        Some(by) => by.int()?,
        None => 1,
    };
    let now = ctx.host.now();
    let (subtable, key) = (flags.subtable(), key.bytes());
    let key = Key {
        subtable: &subtable,
        key: &key,
    };
    let (must, touch) = (flags.must_exist, !flags.notouch);
    let table = ctx.host.table();
    match table.increment(key, by, must, Times::default(), now, touch) {
        Ok(sum) => Ok(sum.map(Value::Int).unwrap_or_default()),
        Err(there) => Err(Fault::error(format!(
            "expected integer but got \"{}\"",
            there.lossy()
        ))),
    }
}

fn append(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (flags, [key, more]) = flags(args, &["-notouch", "-subtable", "-mustexist"])? else {
        return Err(Fault::usage("table append ?options? key string"));
    };
    let now = ctx.host.now();
    let (subtable, key, more) = (flags.subtable(), key.bytes(), more.bytes());
    let key = Key {
        subtable: &subtable,
        key: &key,
    };
    let (must, touch) = (flags.must_exist, !flags.notouch);
    let table = ctx.host.table();
    let whole = table.append(key, &more, must, Times::default(), now, touch);
    let whole = whole.unwrap_or_default();
    ctx.charge(whole.len())?;
    Ok(whole)
}

fn delete(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (flags, words) = flags(args, &["-subtable", "-all"])?;
    let now = ctx.host.now();
    let subtable = flags.subtable();
    match (words, flags.all) {
        ([key], false) => {
            let key = key.bytes();
            let key = Key {
                subtable: &subtable,
                key: &key,
            };
            Ok(Value::from(ctx.host.table().delete(key, now)))
        }
        ([], true) if flags.subtable.is_some() => {
            let gone = ctx.host.table().delete_subtable(&subtable, now);
            ctx.spend(gone as u64)?;
            Ok(Value::from(gone))
        }
        _ => Err(Fault::usage("table delete ?-subtable name? ?--? key|-all")),
    }
}

fn times(ctx: &mut Ctx<'_>, option: &'static str, args: &[Value]) -> Result<Value, Fault> {
    let (flags, words) = flags(args, &["-subtable", "-remaining"])?;
    let ([key] | [key, _]) = words else {
        return Err(Fault::usage(&format!(
            "table {option} ?options? key ?value?"
        )));
    };
    let new = words.get(1).map(lasting).transpose()?;
    let now = ctx.host.now();
    let (subtable, key) = (flags.subtable(), key.bytes());
    let key = Key {
        subtable: &subtable,
        key: &key,
    };
    let table = ctx.host.table();
    if new.is_some() {
        let times = match option {
            "timeout" => Times {
                timeout: new,
                lifetime: None,
            },
            _ => Times {
                timeout: None,
                lifetime: new,
            },
        };
        table.set_times(key, times, now);
    }
    let Some(life) = table.times(key, now) else {
        return Ok(Value::Int(-1));
    };
    let lasting = match (option, flags.remaining) {
        ("timeout", false) => life.timeout,
        ("timeout", true) => life.timeout_left,
        (_, false) => life.lifetime,
        (_, true) => life.lifetime_left,
    };
    Ok(match lasting {
        Some(lasting) => Value::Int(lasting.as_secs() as i64),
        None => Value::from("indefinite"),
    })
}

fn keys(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (flags, []) = flags(args, &["-subtable", "-notouch", "-count"])? else {
        return Err(Fault::usage("table keys -subtable name ?-notouch|-count?"));
    };
    if flags.subtable.is_none() {
        return Err(Fault::usage("table keys -subtable name ?-notouch|-count?"));
    }
    let now = ctx.host.now();
    let subtable = flags.subtable();
    let table = ctx.host.table();
    if flags.count {
        return Ok(Value::from(table.count(&subtable, now)));
    }
    let keys = table.keys(&subtable, now, 0, !flags.notouch);
    ctx.spend(keys.len() as u64)?;
    ctx.charge(keys.iter().map(|key| key.len() + 48).sum())?;
    Ok(Value::list_of(keys))
}

impl Flags<'_> {
    fn subtable(&self) -> crate::value::Bytes<'_> {
        match self.subtable {
            Some(name) => name.bytes(),
            None => crate::value::Bytes::Lent(b""),
        }
    }
}

/// The flags that stand first, and the words behind them.
fn flags<'a>(args: &'a [Value], allowed: &[&str]) -> Result<(Flags<'a>, &'a [Value]), Fault> {
    let mut flags = Flags::default();
    let mut at = 0;
    while at < args.len() {
        let word = args[at].bytes();
        if word.first() != Some(&b'-') || matches!(args[at], Value::Int(_)) {
            break;
        }
        at += 1;
        if &*word == b"--" {
            break;
        }
        if !allowed.iter().any(|allowed| allowed.as_bytes() == &*word) {
            return Err(Fault::bad("option", &word, allowed));
        }
        match &*word {
            b"-notouch" => flags.notouch = true,
            b"-mustexist" => flags.must_exist = true,
            b"-excl" => flags.exclusive = true,
            b"-remaining" => flags.remaining = true,
            b"-count" => flags.count = true,
            b"-all" => flags.all = true,
            _ => {
                let Some(name) = args.get(at) else {
                    return Err(Fault::error("-subtable needs a name"));
                };
                flags.subtable = Some(name);
                at += 1;
            }
        }
    }
    Ok((flags, &args[at..]))
}

/// A number of seconds, or `indefinite`.
fn lasting(word: &Value) -> Result<Option<Duration>, Fault> {
    if word.is(b"indefinite") {
        return Ok(None);
    }
    match word.int()? {
        seconds @ 0.. => Ok(Some(Duration::from_secs(seconds as u64))),
        _ => Err(Fault::error(format!(
            "expected a number of seconds or \"indefinite\" but got \"{}\"",
            word.lossy()
        ))),
    }
}

const SESSION_MODES: &[&str] = &[
    "simple",
    "source_addr",
    "sticky",
    "dest_addr",
    "ssl",
    "uie",
    "universal",
    "hash",
    "sip",
];

fn session(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (option, mode) = (args[0].bytes(), args[1].bytes());
    if !SESSION_MODES.iter().any(|known| known.as_bytes() == &*mode) {
        return Err(Fault::bad("session mode", &mode, SESSION_MODES));
    }
    // Modes that are names of the same.
    let mode: &[u8] = match &*mode {
        b"source_addr" => b"simple",
        b"dest_addr" => b"sticky",
        b"universal" => b"uie",
        other => other,
    };
    let subtable = [b"/session/", mode].concat();
    let text = super::persist::scoped_key(ctx, &args[2])?;
    let key = Key {
        subtable: &subtable,
        key: &text,
    };
    let now = ctx.host.now();
    match (&*option, &args[3..]) {
        (b"add", [value]) | (b"add", [value, _]) => {
            let timeout = args.get(4).map(lasting).transpose()?;
            let times = Times {
                timeout,
                lifetime: None,
            };
            ctx.host
                .table()
                .put(key, value, Put::Always, times, now, true);
            Ok(Value::Empty)
        }
        (b"lookup", []) => Ok(ctx.host.table().get(key, now, true).unwrap_or_default()),
        (b"delete", []) => {
            ctx.host.table().delete(key, now);
            Ok(Value::Empty)
        }
        (b"add" | b"lookup" | b"delete", _) => Err(Fault::usage(
            "session add|lookup|delete mode key ?value ?timeout??",
        )),
        _ => Err(Fault::bad("option", &option, &["add", "lookup", "delete"])),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use std::time::Duration;

    #[test]
    fn entries_are_put_read_and_deleted() {
        World::new().check(&[
            ("table lookup a", ""),
            ("table set a 1", "1"),
            ("table lookup a", "1"),
            ("table add a 2", "1"),
            ("table replace a 3", "3"),
            ("table replace b 3", ""),
            ("table set -excl a 9", "3"),
            ("table set -mustexist b 9", ""),
            ("table incr a", "4"),
            ("table incr a -10", "-6"),
            ("table incr -mustexist b", ""),
            ("table incr b 5", "5"),
            ("table append b x", "5x"),
            ("table append -mustexist c x", ""),
            ("table incr b", "!expected integer but got \"5x\""),
            ("table delete b", "1"),
            ("table lookup b", ""),
            ("table set -subtable s -- -k v", "v"),
            ("table lookup -subtable s -- -k", "v"),
            ("table lookup -- -k", ""),
        ]);
    }

    #[test]
    fn timeouts_and_lifetimes_are_told_and_kept() {
        let mut world = World::new();
        world.check(&[
            ("table set a 1", "1"),
            ("table timeout a", "180"),
            ("table lifetime a", "indefinite"),
            ("table set b 1 10 20", "1"),
            ("table set c 1 indefinite 20", "1"),
            ("table timeout c", "indefinite"),
            ("table timeout nobody", "-1"),
        ]);
        world.host.now += Duration::from_secs(8);
        world.check(&[
            ("table timeout -remaining b", "2"),
            ("table lookup -notouch b", "1"),
            ("table timeout -remaining b", "2"),
            ("table set -notouch b 2", "2"),
            ("table timeout -remaining b", "2"),
            ("table lookup b", "2"),
            ("table timeout -remaining b", "10"),
            ("table lifetime -remaining b", "12"),
            ("table timeout b 50", "50"),
        ]);
        world.host.now += Duration::from_secs(12);
        world.check(&[("table lookup b", ""), ("table lookup c", "")]);
    }

    #[test]
    fn subtables_have_keys_of_their_own() {
        let mut world = World::new();
        world.check(&[
            ("table set -subtable s x 1 10", "1"),
            ("table set -subtable s {y z} 1 20", "1"),
            ("table keys -subtable s", "x {y z}"),
            ("table keys -subtable s -count", "2"),
            (
                "table keys",
                "!wrong # args: should be \"table keys -subtable name ?-notouch|-count?\"",
            ),
        ]);
        world.host.now += Duration::from_secs(9);
        world.check(&[("table keys -subtable s -notouch", "x {y z}")]);
        world.host.now += Duration::from_secs(2);
        world.check(&[
            ("table keys -subtable s", "{y z}"),
            ("table delete -subtable s -all", "1"),
            ("table keys -count -subtable s", "0"),
        ]);
    }

    #[test]
    fn wrong_words_are_told() {
        World::new().check(&[
            ("table frob a", "!bad option \"frob\": must be add, append, delete, incr, keys, lifetime, lookup, replace, set, or timeout"),
            ("table lookup -count a", "!bad option \"-count\": must be -notouch or -subtable"),
            ("table set a 1 soon", "!expected integer but got \"soon\""),
            ("table set a 1 -1", "!expected a number of seconds or \"indefinite\" but got \"-1\""),
            ("table lookup", "!wrong # args: should be \"table lookup ?options? key\""),
        ]);
    }

    #[test]
    fn sessions_are_kept_by_mode_and_scope() {
        World::new().check(&[
            ("session add uie k v 100", ""),
            ("session lookup uie k", "v"),
            ("session lookup simple k", ""),
            ("session lookup {universal} k", "v"),
            ("session add uie {k any virtual} w", ""),
            ("session lookup uie {k any virtual}", "w"),
            ("session lookup uie k", "v"),
            ("session delete uie k", ""),
            ("session lookup uie k", ""),
        ]);
    }
}
