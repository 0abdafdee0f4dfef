//! `persist`: which member a client comes back to. Records of a rule's own keys are in the shared table, where the driver
//! puts and finds them too.

use crate::command::{Command, Ctx};
use crate::fault::Fault;
use crate::flow::{Persist, Selected};
use crate::host::{Key, Put, Times};
use crate::value::Value;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("persist", "mode ?arg ...?", 1, 6, persist).differs(
        "modes none, source_addr, simple, dest_addr (without a mask), uie, universal, hash, cookie; ssl, sip and msrdp are not implemented; \
         a cookie without a name is HeadgateServer and the pool's name, and its value the member's address in hexadecimal; \
         the scopes any virtual, any service and any pool of keys are told apart by their words",
    ),
];

/// The subtable of the shared table in which records of persistence are: under the mode (`uie`, `source_addr`), a slash and
/// the key.
pub const SUBTABLE: &[u8] = b"/persist";

/// How long a record lasts unless a rule says otherwise, seconds.
pub const DEFAULT_TIMEOUT: u64 = 180;

/// A record's value: a list of its pool, address and port.
pub fn record(pool: &str, address: SocketAddr) -> Value {
    Value::list_of(vec![
        Value::from(pool),
        Value::from(address.ip().to_string()),
        Value::Int(address.port().into()),
    ])
}

/// What [`record`] was made of.
pub fn read_record(value: &Value) -> Option<(String, SocketAddr)> {
    let list = value.list().ok()?;
    let [pool, address, port] = &list[..] else {
        return None;
    };
    let address: IpAddr = address.lossy().parse().ok()?;
    let port = u16::try_from(port.int().ok()?).ok()?;
    Some((pool.lossy(), SocketAddr::new(address, port)))
}

/// The key under which a record of a rule's own key is.
pub fn record_key(mode: &str, key: &[u8]) -> Vec<u8> {
    [mode.as_bytes(), b"/", key].concat()
}

/// A key with its scope: `key`, or `{key any virtual}`, `{key any pool}`, `{key any service}`, `{key virtual}` …
pub(super) fn scoped_key(ctx: &Ctx<'_>, key: &Value) -> Result<Vec<u8>, Fault> {
    let plain = || [ctx.flow.virtual_name.as_bytes(), b"/", &key.bytes()].concat();
    let Ok(list) = key.list() else {
        return Ok(plain());
    };
    let (text, scope) = match &list[..] {
        [text, any, scope] if any.is(b"any") => (text, scope),
        [text, scope] => (text, scope),
        _ => return Ok(plain()),
    };
    match &*scope.bytes() {
        scope @ (b"virtual" | b"virtuals" | b"service" | b"services" | b"pool" | b"pools") => {
            let scope = scope.strip_suffix(b"s").unwrap_or(scope);
            Ok([b"any ", scope, b"/", &text.bytes()].concat())
        }
        _ => Ok(plain()),
    }
}

fn persist(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let mode = args[0].bytes();
    let rest = &args[1..];
    let chosen = match &*mode {
        b"none" => Persist::None,
        b"source_addr" | b"simple" => source(rest)?,
        b"uie" | b"universal" => {
            let ([key] | [key, _]) = rest else {
                return Err(Fault::usage("persist uie key ?timeout?"));
            };
            Persist::Universal {
                key: Value::from(scoped_key(ctx, key)?),
                timeout: seconds(rest.get(1), DEFAULT_TIMEOUT)?,
            }
        }
        b"dest_addr" => {
            let to = ctx.flow.client.local.ip().to_canonical().to_string();
            let (Persist::Source { timeout, .. }, true) = (source(rest)?, mask_is_whole(rest))
            else {
                return Err(Fault::error("persist dest_addr: a mask is not implemented"));
            };
            Persist::Universal {
                key: Value::from(format!("dest_addr/{to}")),
                timeout,
            }
        }
        b"hash" => {
            let [key] = rest else {
                return Err(Fault::usage("persist hash key"));
            };
            Persist::Hash(key.clone())
        }
        b"cookie" => cookie(rest)?,
        b"add" => return add(ctx, rest),
        b"lookup" => return lookup(ctx, rest),
        b"delete" => {
            let [mode, key] = rest else {
                return Err(Fault::usage("persist delete mode key"));
            };
            let key = key_of(ctx, mode, key)?;
            let now = ctx.host.now();
            ctx.host.table().delete(entry(&key), now);
            return Ok(Value::Empty);
        }
        _ => {
            return Err(Fault::bad(
                "persistence mode",
                &mode,
                &[
                    "add",
                    "cookie",
                    "delete",
                    "dest_addr",
                    "hash",
                    "lookup",
                    "none",
                    "simple",
                    "source_addr",
                    "uie",
                    "universal",
                ],
            ));
        }
    };
    ctx.flow.steering.persist = Some(chosen);
    Ok(Value::Empty)
}

/// Whether there is no mask, or one that masks nothing.
fn mask_is_whole(args: &[Value]) -> bool {
    match args {
        [] => true,
        [first, ..] => {
            first.int().is_ok()
                || first.is(b"255.255.255.255")
                || first.is(b"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
        }
    }
}

/// `?mask? ?timeout?`
fn source(args: &[Value]) -> Result<Persist, Fault> {
    let (mask, timeout) = match args {
        [] => (None, None),
        [one] if one.int().is_ok() => (None, Some(one)),
        [mask] => (Some(mask), None),
        [mask, timeout] => (Some(mask), Some(timeout)),
        _ => return Err(Fault::usage("persist source_addr ?mask? ?timeout?")),
    };
    let prefix = match mask {
        None => 128,
        Some(mask) => {
            let text = mask.lossy();
            let wrong = || Fault::error(format!("invalid mask \"{text}\""));
            let (ones, all) = match text.parse().map_err(|_| wrong())? {
                IpAddr::V4(m) => (m.to_bits().leading_ones(), m.to_bits().count_ones()),
                IpAddr::V6(m) => (m.to_bits().leading_ones(), m.to_bits().count_ones()),
            };
            if ones != all {
                return Err(wrong());
            }
            ones as u8
        }
    };
    Ok(Persist::Source {
        prefix,
        timeout: seconds(timeout, DEFAULT_TIMEOUT)?,
    })
}

/// `insert|rewrite|passive|hash ?name? ?expiration?`
fn cookie(args: &[Value]) -> Result<Persist, Fault> {
    let mode = match args.first() {
        None => "insert",
        Some(mode) => match &*mode.bytes() {
            b"insert" => "insert",
            b"rewrite" => "rewrite",
            b"passive" => "passive",
            b"hash" => "hash",
            other => {
                return Err(Fault::bad(
                    "cookie mode",
                    other,
                    &["insert", "rewrite", "passive", "hash"],
                ));
            }
        },
    };
    if args.len() > 3 {
        return Err(Fault::usage("persist cookie mode ?name? ?expiration?"));
    }
    Ok(Persist::Cookie {
        mode,
        name: args.get(1).cloned().unwrap_or_default(),
        timeout: expiration(args.get(2))?,
    })
}

/// `DAYSd HH:MM:SS`, `DAYS HH:MM:SS`, `HH:MM:SS`, or seconds; 0 for a session's.
fn expiration(word: Option<&Value>) -> Result<u64, Fault> {
    let Some(word) = word else { return Ok(0) };
    if word.int().is_ok() {
        return seconds(Some(word), 0);
    }
    let text = word.lossy();
    let wrong = || Fault::error(format!("invalid expiration \"{text}\""));
    let (days, clock) = match text.trim().split_once([' ', 'd']) {
        Some((days, clock)) => (
            days.trim().parse::<u64>().map_err(|_| wrong())?,
            clock.trim(),
        ),
        None => (0, text.trim()),
    };
    let mut total = days.checked_mul(86_400).ok_or_else(wrong)?;
    for (part, unit) in clock.split(':').zip([3600_u64, 60, 1]) {
        let part = part.parse::<u64>().map_err(|_| wrong())?;
        let part = part.checked_mul(unit).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
    }
    Ok(total)
}

fn seconds(word: Option<&Value>, otherwise: u64) -> Result<u64, Fault> {
    let Some(word) = word else {
        return Ok(otherwise);
    };
    u64::try_from(word.int()?)
        .map_err(|_| Fault::error(format!("invalid timeout \"{}\"", word.lossy())))
}

/// `persist add mode key ?timeout?`: the chosen member under a key.
fn add(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let ([mode, key] | [mode, key, _]) = args else {
        return Err(Fault::usage("persist add mode key ?timeout?"));
    };
    let timeout = seconds(args.get(2), DEFAULT_TIMEOUT)?;
    let key = key_of(ctx, mode, key)?;
    let Some(Selected { pool, address, .. }) = &ctx.flow.selected else {
        return Err(Fault::error("persist add: no member is selected yet"));
    };
    let times = Times {
        timeout: Some(Some(Duration::from_secs(timeout))),
        lifetime: None,
    };
    let record = record(pool, *address);
    let now = ctx.host.now();
    let table = ctx.host.table();
    table.put(entry(&key), &record, Put::Always, times, now, true);
    Ok(Value::Empty)
}

/// `persist lookup mode key ?all|node|port|pool?`
fn lookup(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let ([mode, key] | [mode, key, _]) = args else {
        return Err(Fault::usage("persist lookup mode key ?all|node|port|pool?"));
    };
    let key = key_of(ctx, mode, key)?;
    let now = ctx.host.now();
    let found = ctx.host.table().get(entry(&key), now, true);
    let Some((pool, address)) = found.as_ref().and_then(read_record) else {
        return Ok(Value::Empty);
    };
    Ok(match args.get(2).map(Value::bytes).as_deref() {
        None | Some(b"all") => record(&pool, address),
        Some(b"node") => Value::from(address.ip().to_string()),
        Some(b"port") => Value::Int(address.port().into()),
        Some(b"pool") => Value::from(pool),
        Some(other) => {
            return Err(Fault::bad(
                "option",
                other,
                &["all", "node", "port", "pool"],
            ));
        }
    })
}

fn key_of(ctx: &Ctx<'_>, mode: &Value, key: &Value) -> Result<Vec<u8>, Fault> {
    let (mode, key) = match &*mode.bytes() {
        b"uie" | b"universal" => ("uie", scoped_key(ctx, key)?),
        b"source_addr" | b"simple" => {
            let text = key.lossy();
            let address = super::pool::plain_address(&text)
                .ok_or_else(|| Fault::error(format!("invalid address \"{text}\"")))?;
            ("source_addr", address.to_string().into_bytes())
        }
        other => {
            return Err(Fault::bad(
                "persistence mode",
                other,
                &["uie", "universal", "source_addr", "simple"],
            ));
        }
    };
    Ok(record_key(mode, &key))
}

fn entry(key: &[u8]) -> Key<'_> {
    Key {
        subtable: SUBTABLE,
        key,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, address};
    use crate::flow::{Persist, Selected};
    use crate::value::Value;

    #[test]
    fn the_mode_is_left_in_the_flow() {
        let mut world = World::new();
        let source = |prefix, timeout| Persist::Source { prefix, timeout };
        let cookie = |mode, name: &str, timeout| Persist::Cookie {
            mode,
            name: Value::from(name),
            timeout,
        };
        for (command, wanted) in [
            ("persist none", Persist::None),
            ("persist source_addr", source(128, 180)),
            ("persist source_addr 255.255.255.0", source(24, 180)),
            ("persist simple 255.255.0.0 60", source(16, 60)),
            ("persist simple 60", source(128, 60)),
            (
                "persist uie abc 600",
                Persist::Universal {
                    key: Value::from("www/abc"),
                    timeout: 600,
                },
            ),
            (
                "persist universal {abc any virtual}",
                Persist::Universal {
                    key: Value::from("any virtual/abc"),
                    timeout: 180,
                },
            ),
            ("persist hash abc", Persist::Hash(Value::from("abc"))),
            ("persist cookie", cookie("insert", "", 0)),
            ("persist cookie insert BIG", cookie("insert", "BIG", 0)),
            (
                "persist cookie insert BIG {1d 00:01:02}",
                cookie("insert", "BIG", 86_462),
            ),
            ("persist cookie hash BIG 5", cookie("hash", "BIG", 5)),
        ] {
            assert_eq!(world.text(command), "", "{command}");
            assert_eq!(world.flow.steering.persist, Some(wanted), "{command}");
        }
        world.check(&[
            ("persist ssl", "!bad persistence mode \"ssl\": must be add, cookie, delete, dest_addr, hash, lookup, none, simple, source_addr, uie, or universal"),
            ("persist source_addr 255.0.255.0", "!invalid mask \"255.0.255.0\""),
            ("persist cookie insert A soon", "!invalid expiration \"soon\""),
        ]);
    }

    #[test]
    fn records_are_added_found_and_deleted() {
        let mut world = World::new();
        world.check(&[(
            "persist add uie k",
            "!persist add: no member is selected yet",
        )]);
        world.flow.selected = Some(Selected {
            pool: "p".into(),
            name: "m".into(),
            address: address("10.0.0.1:80"),
        });
        world.check(&[
            ("persist add uie k 60", ""),
            ("persist lookup uie k", "p 10.0.0.1 80"),
            ("persist lookup universal k node", "10.0.0.1"),
            ("persist lookup uie k port", "80"),
            ("persist lookup uie k pool", "p"),
            ("persist lookup uie {k any pool}", ""),
            ("persist delete uie k", ""),
            ("persist lookup uie k all", ""),
            ("persist add source_addr 192.0.2.1", ""),
            ("persist lookup simple 192.0.2.1 node", "10.0.0.1"),
        ]);
    }

    #[test]
    fn a_record_reads_back() {
        let record = super::record("p", address("[::1]:80"));
        let again = super::read_record(&Value::new(&record.bytes()));
        assert_eq!(again, Some(("p".into(), address("[::1]:80"))));
    }
}
