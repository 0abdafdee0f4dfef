//! `log`: a line in the log.

use crate::command::{Command, Ctx};
use crate::fault::Fault;
use crate::host::LogLine;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] = &[Command::new(
    "log",
    "?-noname? ?facility.?level?? message",
    1,
    4,
    log,
)
.differs(
    "lines go to the process's log, where they keep facility and level; a remote address is an error (HSL::open is \
     for that); lines without a facility are local0.info and held back no more than others",
)];

/// Longer lines are cut, as BIG-IP's syslog does; bytes.
const LONGEST: usize = 1024;

const FACILITIES: [&str; 20] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

const LEVELS: [(&str, u8); 14] = [
    ("emerg", 0),
    ("emergency", 0),
    ("panic", 0),
    ("alert", 1),
    ("crit", 2),
    ("critical", 2),
    ("err", 3),
    ("error", 3),
    ("warning", 4),
    ("warn", 4),
    ("notice", 5),
    ("info", 6),
    ("informational", 6),
    ("debug", 7),
];

fn log(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (named, args) = match args {
        [flag, rest @ ..] if flag.is(b"-noname") => (false, rest),
        _ => (true, args),
    };
    let (facility, level, message) = match args {
        [message] => ("local0", 6, message),
        [place, message] => {
            let (facility, level) = place_of(&place.bytes())?;
            (facility, level, message)
        }
        [_, _, _] => {
            return Err(Fault::error(
                "log to a remote address is not implemented: use HSL::open",
            ));
        }
        _ => return Err(COMMANDS[0].wrong_args()),
    };
    let text = message.bytes();
    ctx.host.log(LogLine {
        facility,
        level,
        rule: named.then_some(&**ctx.rule),
        event: ctx.event.name(),
        text: &text[..text.len().min(LONGEST)],
    });
    Ok(Value::Empty)
}

/// Facility and level of `local0.info`, `local0.` or `local0`.
fn place_of(text: &[u8]) -> Result<(&'static str, u8), Fault> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let facility = parts.next().unwrap_or_default();
    let level = parts.next().unwrap_or_default();
    let known = FACILITIES
        .iter()
        .find(|name| name.as_bytes().eq_ignore_ascii_case(facility));
    let Some(facility) = known else {
        return Err(invalid("facility", facility));
    };
    if level.is_empty() {
        return Ok((facility, 6));
    }
    let known = LEVELS
        .iter()
        .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(level));
    match known {
        Some((_, level)) => Ok((facility, *level)),
        None => Err(invalid("level", level)),
    }
}

fn invalid(what: &str, given: &[u8]) -> Fault {
    Fault::error(format!(
        "Illegal argument. Unknown syslog {what} \"{}\"",
        String::from_utf8_lossy(given)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event::HttpRequest;
    use crate::world::http::testing::Bench;

    #[test]
    fn a_line_has_its_place_its_rule_and_its_event() {
        let mut bench = Bench::new();
        for (line, logged) in [
            ("log hello", "local0.6 test HTTP_REQUEST: hello"),
            ("log local0. {a b}", "local0.6 test HTTP_REQUEST: a b"),
            ("log -noname local1.debug x", "local1.7 - HTTP_REQUEST: x"),
            ("log -noname x", "local0.6 - HTTP_REQUEST: x"),
            ("log LOCAL7.Error x", "local7.3 test HTTP_REQUEST: x"),
            ("log user x", "user.6 test HTTP_REQUEST: x"),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), "", "{line}");
            assert_eq!(bench.host.lines.pop().unwrap(), logged, "{line}");
        }
        for line in [
            "log local9.info x",
            "log local0.loud x",
            "log 10.0.0.1 local0.info x",
            "log -noname",
        ] {
            let gives = bench.run(HttpRequest, COMMANDS, line);
            assert!(gives.starts_with("error: "), "{line}: {gives}");
        }
        assert!(bench.host.lines.is_empty());
    }

    #[test]
    fn long_lines_are_cut() {
        let mut bench = Bench::new();
        bench.run(HttpRequest, COMMANDS, &format!("log {}", "x".repeat(2000)));
        let line = bench.host.lines.pop().unwrap();
        assert_eq!(line.len(), "local0.6 test HTTP_REQUEST: ".len() + 1024);
    }
}
