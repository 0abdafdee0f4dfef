//! `clock`. The time is the host's, and the local zone UTC.

mod civil;
mod format;
mod parse;
mod words;

use super::ensemble::{Sub, choose, dispatch, error_about};
use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] =
    &[Command::new("clock", "option ?arg ...?", 1, ANY, clock).differs(
        "the local time zone is UTC; `clock clicks` are microseconds; `clock scan` knows no abbreviations of zones beyond \
         those of Europe and North America",
    )];

/// What `clock` does.
pub(crate) const SUBS: &[Sub] = &[
    Sub::new("clicks", "?-milliseconds?", 0, 1, clicks),
    Sub::new("format", FORMAT, 1, 5, format),
    Sub::new("scan", SCAN, 1, 5, scan),
    Sub::new("seconds", "", 0, 0, seconds),
];

const FORMAT: &str = "clockval ?-format string? ?-gmt boolean?";
const SCAN: &str = "dateString ?-base clockValue? ?-gmt boolean?";

fn clock(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    dispatch(ctx, "clock", SUBS, args)
}

fn seconds(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    Ok(Value::Int(ctx.host.now().as_secs() as i64))
}

fn clicks(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let now = ctx.host.now();
    let Some(option) = args.first() else {
        return Ok(Value::Int(now.as_micros() as i64));
    };
    let option = option.bytes();
    if option.len() < 2 || !b"-milliseconds".starts_with(&option) {
        return Err(error_about(
            "bad switch \"",
            &option,
            "\": must be -milliseconds",
        ));
    }
    Ok(Value::Int(now.as_millis() as i64))
}

fn format(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let time = args[0].int()?;
    let mut format = None;
    let mut gmt = false;
    for pair in args[1..].chunks(2) {
        let [option, value] = pair else {
            return Err(Fault::usage(&format!("clock format {FORMAT}")));
        };
        match choose(&["-format", "-gmt"], &option.bytes(), "switch")? {
            0 => format = Some(value.bytes()),
            _ => gmt = value.truth()?,
        }
    }
    let format = format.as_deref().unwrap_or(b"%a %b %d %H:%M:%S %Z %Y");
    ctx.charge(format.len() * 8)?;
    let zone = if gmt { "GMT" } else { "UTC" };
    Ok(Value::from(format::format(time, format, zone)))
}

fn scan(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let mut base = None;
    for pair in args[1..].chunks(2) {
        let [option, value] = pair else {
            return Err(Fault::usage(&format!("clock scan {SCAN}")));
        };
        match choose(&["-base", "-gmt"], &option.bytes(), "switch")? {
            0 => base = Some(value.int()?),
            // The local zone is the same.
            _ => {
                value.truth()?;
            }
        }
    }
    let text = args[0].bytes();
    ctx.spend(text.len() as u64 >> 3)?;
    let base = base.unwrap_or_else(|| ctx.host.now().as_secs() as i64);
    match parse::parse(&text, base) {
        Some(time) => Ok(Value::Int(time)),
        None => Err(error_about(
            "unable to convert date-time string \"",
            &text,
            "\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::check;

    #[test]
    fn the_clock_tells_the_time() {
        check(&[
            ("clock seconds", "1234567890"),
            ("clock clicks", "1234567890123456"),
            ("clock clicks -milliseconds", "1234567890123"),
            ("clock clicks -m", "1234567890123"),
            (
                "clock clicks -x",
                "!bad switch \"-x\": must be -milliseconds",
            ),
            ("clock format 0", "Thu Jan 01 00:00:00 UTC 1970"),
            ("clock format 0 -gmt 1", "Thu Jan 01 00:00:00 GMT 1970"),
            ("clock format 0 -format %Y", "1970"),
            ("clock format x", "!expected integer but got \"x\""),
            (
                "clock format 0 -x 1",
                "!bad switch \"-x\": must be -format or -gmt",
            ),
            (
                "clock format 0 -gmt",
                "!wrong # args: should be \"clock format clockval ?-format string? ?-gmt boolean?\"",
            ),
            (
                "clock x",
                "!bad option \"x\": must be clicks, format, scan, or seconds",
            ),
            ("clock scan now", "1234567890"),
            ("clock scan {1 day} -base 0", "86400"),
            (
                "clock scan nonsense",
                "!unable to convert date-time string \"nonsense\"",
            ),
        ]);
    }
}
