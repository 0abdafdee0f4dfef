//! Ends of connections (`reject`, `drop`), events switched off and on, files, counters, workers, and the shun list.

use crate::command::{Command, Ctx};
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::flow::Ended;
use crate::value::Value;
use std::time::Duration;

const ON_CONNECTION: Events = Events::but(&[Event::RuleInit]);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("reject", "", 0, 0, reject).at(ON_CONNECTION),
    Command::new("drop", "", 0, 0, drop_it)
        .at(ON_CONNECTION)
        .differs("silent where the process has CAP_NET_ADMIN; else the connection ends in order"),
    Command::new("discard", "", 0, 0, drop_it)
        .at(ON_CONNECTION)
        .differs("as drop"),
    Command::new("event", "?name? enable|disable ?all?", 1, 2, event)
        .at(ON_CONNECTION)
        .differs("without event info"),
    Command::new("ifile", "get|listall|size ?name?", 1, 2, ifile)
        .differs("without attributes, checksum, last_updated_by, last_update_time and revision"),
    Command::new("ISTATS::get", "key", 1, 1, istats_get)
        .differs("the key names a counter as a whole; counters are the process's"),
    Command::new("ISTATS::incr", "key delta", 2, 2, istats_incr)
        .differs("the key names a counter as a whole; counters are the process's"),
    Command::new("ISTATS::set", "key value", 2, 2, istats_set)
        .differs("the key names a counter as a whole; texts are not kept"),
    Command::new("ISTATS::remove", "key", 1, 1, istats_remove)
        .differs("the key names a counter as a whole"),
    Command::new("STATS::set", "profile counter ?value?", 2, 3, stats_set)
        .differs("counters need no profile: its name is a part of theirs"),
    Command::new("STATS::setmax", "profile counter value", 3, 3, stats_setmax)
        .differs("counters need no profile: its name is a part of theirs"),
    Command::new("STATS::setmin", "profile counter value", 3, 3, stats_setmin)
        .differs("counters need no profile: its name is a part of theirs"),
    Command::new("STATS::get", "profile counter", 2, 2, stats_get)
        .differs("counters need no profile: its name is a part of theirs"),
    Command::new("STATS::incr", "profile counter ?delta?", 2, 3, stats_incr)
        .differs("counters need no profile: its name is a part of theirs"),
    Command::new("TMM::cmp_unit", "", 0, 0, unit).differs("the worker's number, from 0"),
    Command::new("TMM::cmp_count", "", 0, 0, count).differs("the number of workers"),
    Command::new("SHUN::add", "address ?seconds?", 1, 2, shun).differs(
        "Headgate's own: hands an address to the shun list, for 600 seconds unless told; gives 0 where nobody takes it",
    ),
];

fn reject(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    ctx.flow.ended = Some(Ended::Reject);
    Ok(Value::Empty)
}

fn drop_it(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    ctx.flow.ended = Some(Ended::Drop);
    Ok(Value::Empty)
}

/// `event NAME enable|disable`, `event enable|disable`, `event enable|disable all`.
fn event(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let usage = || Fault::usage("event ?name? enable|disable ?all?");
    let switch = |word: &Value| match &*word.bytes() {
        b"enable" => Some(true),
        b"disable" => Some(false),
        _ => None,
    };
    match args {
        [word] => switch_event(ctx, ctx.event, switch(word).ok_or_else(usage)?),
        [word, all] if all.is(b"all") => {
            let on = switch(word).ok_or_else(usage)?;
            ctx.session.all_disabled = !on;
            if on {
                ctx.session.disabled = Events::NONE;
            }
        }
        [name, word] => {
            let on = switch(word).ok_or_else(usage)?;
            let event = Event::named(&name.lossy())
                .ok_or_else(|| Fault::error(format!("unknown event \"{}\"", name.lossy())))?;
            switch_event(ctx, event, on);
        }
        _ => return Err(usage()),
    }
    Ok(Value::Empty)
}

fn switch_event(ctx: &mut Ctx<'_>, event: Event, on: bool) {
    if on {
        ctx.session.disabled.remove(event);
    } else {
        ctx.session.disabled.insert(event);
    }
}

fn ifile(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let find = |ctx: &Ctx<'_>, name: &Value| {
        let bytes = name.bytes();
        let found = ctx.host.ifile(&bytes);
        found
            .or_else(|| ctx.host.ifile(super::pool::without_partition(&bytes)?))
            .ok_or_else(|| Fault::error(format!("ifile \"{}\" not found", name.lossy())))
    };
    match (&*args[0].bytes(), &args[1..]) {
        (b"get", [name]) => find(ctx, name),
        (b"size", [name]) => Ok(Value::from(find(ctx, name)?.len())),
        (b"listall", []) => Ok(Value::list_of(ctx.host.ifiles())),
        (b"get" | b"size" | b"listall", _) => Err(Fault::usage("ifile get|listall|size ?name?")),
        (other, _) => Err(Fault::bad("option", other, &["get", "listall", "size"])),
    }
}

fn istats_get(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(Value::Int(ctx.host.counter(&args[0].bytes(), 0)))
}

fn istats_incr(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let by = args[1].int()?;
    Ok(Value::Int(ctx.host.counter(&args[0].bytes(), by)))
}

fn istats_set(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    change(ctx, &args[0].bytes(), &args[1], |_, new| new)
}

fn istats_remove(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    ctx.host.change_counter(&args[0].bytes(), &mut |_| None);
    Ok(Value::Empty)
}

fn stats_set(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let zero = Value::Int(0);
    let to = args.get(2).unwrap_or(&zero);
    change(ctx, &stats_name(args), to, |_, new| new)
}

fn stats_setmax(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    change(ctx, &stats_name(args), &args[2], i64::max)
}

fn stats_setmin(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    change(ctx, &stats_name(args), &args[2], i64::min)
}

/// Makes a counter what `of` says of its value and the number given. Returns what it is then.
fn change(
    ctx: &mut Ctx<'_>,
    name: &[u8],
    to: &Value,
    of: fn(i64, i64) -> i64,
) -> Result<Value, Fault> {
    let (to, mut now) = (to.int()?, 0);
    ctx.host.change_counter(name, &mut |was| {
        now = of(was, to);
        Some(now)
    });
    Ok(Value::Int(now))
}

fn stats_name(args: &[Value]) -> Vec<u8> {
    [&*args[0].bytes(), b" ", &*args[1].bytes()].concat()
}

fn stats_get(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(Value::Int(ctx.host.counter(&stats_name(args), 0)))
}

fn stats_incr(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let by = match args.get(2) {
        Some(by) => by.int()?,
        None => 1,
    };
    Ok(Value::Int(ctx.host.counter(&stats_name(args), by)))
}

fn unit(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    Ok(Value::Int(ctx.host.worker().0.into()))
}

fn count(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    Ok(Value::Int(ctx.host.worker().1.into()))
}

fn shun(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].lossy();
    let address = super::pool::plain_address(&text)
        .ok_or_else(|| Fault::error(format!("invalid address \"{text}\"")))?;
    let seconds = match args.get(1) {
        None => SHUN_SECONDS,
        Some(word) => match word.int()? {
            seconds @ 1.. => seconds as u64,
            _ => {
                return Err(Fault::error(format!(
                    "expected a number of seconds but got \"{}\"",
                    word.lossy()
                )));
            }
        },
    };
    let lasting = Duration::from_secs(seconds);
    Ok(Value::from(ctx.host.shun(address.to_canonical(), lasting)))
}

/// How long an address is shunned unless a rule says otherwise.
const SHUN_SECONDS: u64 = 600;

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use crate::event::{Event, Events};
    use crate::flow::Ended;
    use crate::value::Value;
    use std::time::Duration;

    #[test]
    fn a_connection_is_ended() {
        let mut world = World::new();
        world.check(&[("reject", "")]);
        assert_eq!(world.flow.ended, Some(Ended::Reject));
        for command in ["drop", "discard"] {
            world.check(&[(command, "")]);
            assert_eq!(world.flow.ended, Some(Ended::Drop));
        }
    }

    #[test]
    fn events_are_switched_off_and_on() {
        let mut world = World::new();
        world.check(&[("event HTTP_RESPONSE disable", ""), ("event disable", "")]);
        let off = Events::of(&[Event::HttpResponse, Event::HttpRequest]);
        assert_eq!(world.session.disabled, off);
        world.check(&[
            ("event HTTP_RESPONSE enable", ""),
            ("event disable all", ""),
        ]);
        assert_eq!(world.session.disabled, Events::of(&[Event::HttpRequest]));
        assert!(world.session.all_disabled);
        world.check(&[("event enable all", "")]);
        assert!(!world.session.all_disabled && world.session.disabled == Events::NONE);
        world.check(&[
            ("event FROB disable", "!unknown event \"FROB\""),
            (
                "event frob",
                "!wrong # args: should be \"event ?name? enable|disable ?all?\"",
            ),
        ]);
    }

    #[test]
    fn files_counters_and_workers_are_told() {
        let mut world = World::new();
        world.host.ifiles = vec![(Value::from("page"), Value::from("<html>"))];
        world.check(&[
            ("ifile get page", "<html>"),
            ("ifile get /Common/page", "<html>"),
            ("ifile size page", "6"),
            ("ifile listall", "page"),
            ("ifile get none", "!ifile \"none\" not found"),
            (
                "ifile frob",
                "!bad option \"frob\": must be get, listall, or size",
            ),
            ("ISTATS::incr {ltm.pool p hits} 2", "2"),
            ("ISTATS::incr {ltm.pool p hits} 1", "3"),
            ("ISTATS::get {ltm.pool p hits}", "3"),
            ("STATS::incr mine hits", "1"),
            ("STATS::incr mine hits 4", "5"),
            ("STATS::get mine hits", "5"),
            ("TMM::cmp_unit", "1"),
            ("TMM::cmp_count", "4"),
        ]);
    }

    #[test]
    fn an_offender_is_handed_over() {
        let mut world = World::new();
        world.check(&[
            ("SHUN::add 192.0.2.7", "1"),
            ("SHUN::add ::ffff:192.0.2.8%1 30", "1"),
            ("SHUN::add someone", "!invalid address \"someone\""),
            (
                "SHUN::add 192.0.2.7 0",
                "!expected a number of seconds but got \"0\"",
            ),
        ]);
        world.host.takes_shunned = false;
        world.check(&[("SHUN::add 192.0.2.9", "0")]);
        let first = ("192.0.2.7".parse().unwrap(), Duration::from_secs(600));
        let second = ("192.0.2.8".parse().unwrap(), Duration::from_secs(30));
        assert_eq!(world.host.shunned[..2], [first, second]);
    }
}
