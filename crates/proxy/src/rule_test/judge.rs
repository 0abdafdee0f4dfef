//! Compares what was seen with what a test expects, and says how they differ.

use super::choose;
use super::driver::{Driver, Head};
use super::plan::{self, Expect, Text, shown};
use rules::host::{Host, Key};

/// Whether it is as expected; if not, how it is instead.
pub(super) fn judge(driver: &mut Driver, expect: &Expect) -> Result<(), String> {
    match expect {
        Expect::Response(status, head) => {
            let seen = seen(driver.seen.response.as_ref(), "response", driver)?;
            if let Some(status) = status {
                same(
                    "status",
                    &Text::Is(status.to_string().into_bytes()),
                    seen.start[1].as_bytes(),
                )?;
            }
            compare(head, seen)
        }
        Expect::NoResponse => absent(driver.seen.response.as_ref(), "response"),
        Expect::Request(start, head) => {
            let seen = seen(driver.seen.request.as_ref(), "request to a member", driver)?;
            if let Some((method, target)) = start {
                same(
                    "method",
                    &Text::Is(method.clone().into()),
                    seen.start[0].as_bytes(),
                )?;
                same(
                    "target",
                    &Text::Is(target.clone().into()),
                    seen.start[1].as_bytes(),
                )?;
            }
            compare(head, seen)
        }
        Expect::NoRequest => absent(driver.seen.request.as_ref(), "request to a member"),
        Expect::Pool(name) => same_name("pool", name, driver.seen.pool.as_deref()),
        Expect::Member(name) => match &driver.seen.member {
            Some((own, address)) if own == name || address.to_string() == *name => Ok(()),
            Some((own, _)) => Err(format!("member: expected {name}, got {own}")),
            None => Err(format!("member: expected {name}, got none")),
        },
        Expect::NoMember => match &driver.seen.member {
            Some((own, _)) => Err(format!("member: expected none, got {own}")),
            None => Ok(()),
        },
        Expect::Steering(what, text) => {
            let said = match driver.flow() {
                Some(flow) => choose::said(&flow.steering, what),
                None => String::new(),
            };
            same(what, text, said.as_bytes())
        }
        Expect::Log(text) => take("log", text, &mut driver.host.log),
        Expect::NoLog(text) => match driver.host.log.iter().find(|line| text.fits(line)) {
            Some(line) => Err(format!("log: did not expect {}", shown(line))),
            None => Ok(()),
        },
        Expect::Logs(lines) => {
            let wanted: Vec<String> = lines.iter().map(|line| shown(line.as_bytes())).collect();
            let got: Vec<String> = driver.host.log.iter().map(|line| shown(line)).collect();
            driver.host.log.clear();
            match wanted == got {
                true => Ok(()),
                false => Err(format!(
                    "log: expected{}\n  got{}",
                    listed(&wanted),
                    listed(&got)
                )),
            }
        }
        Expect::Entry(entry, text) => {
            let value = driver.host.table().get(key(entry), driver.host.now, false);
            match value {
                Some(value) => same(&said(entry), text, &value.bytes()),
                None => Err(format!(
                    "{}: expected {}, there is none",
                    said(entry),
                    text.said()
                )),
            }
        }
        Expect::NoEntry(subtable, name) => {
            let key = Key {
                subtable,
                key: name,
            };
            match driver.host.table().get(key, driver.host.now, false) {
                Some(value) => Err(format!(
                    "entry {}: expected none, got {}",
                    shown(name),
                    shown(&value.bytes())
                )),
                None => Ok(()),
            }
        }
        Expect::Count(subtable, count) => {
            match driver.host.table().count(subtable, driver.host.now) {
                got if got == *count => Ok(()),
                got => Err(format!(
                    "subtable {}: expected {count} entries, got {got}",
                    shown(subtable)
                )),
            }
        }
        Expect::Variable(name, text) => match (driver.variable(name), text) {
            (Some(value), Some(text)) => same(&format!("variable {name}"), text, &value),
            (Some(value), None) => Err(format!(
                "variable {name}: expected none, got {}",
                shown(&value)
            )),
            (None, Some(text)) => Err(format!(
                "variable {name}: expected {}, there is none",
                text.said()
            )),
            (None, None) => Ok(()),
        },
        Expect::Ended(how) => {
            let got = driver.seen.ended.unwrap_or("open");
            same("connection", &Text::Is(how.clone().into()), got.as_bytes())
        }
        Expect::Failure(text) => {
            let failures = &mut driver.seen.failures;
            match failures
                .iter()
                .position(|one| text.fits(one.message.as_bytes()))
            {
                Some(at) => {
                    failures.remove(at);
                    Ok(())
                }
                None => {
                    let got: Vec<String> = failures
                        .drain(..)
                        .map(|one| shown(one.message.as_bytes()))
                        .collect();
                    Err(format!(
                        "failure: expected {}, got{}",
                        text.said(),
                        listed(&got)
                    ))
                }
            }
        }
        Expect::LoadError(text) => Err(format!(
            "load: expected {}, but the rules load",
            text.said()
        )),
        Expect::Events(names) => {
            let got: Vec<&str> = driver
                .seen
                .events
                .iter()
                .map(|event| event.name())
                .collect();
            match got == *names {
                true => Ok(()),
                false => Err(format!(
                    "events: expected {}\n  got {}",
                    names.join(" "),
                    got.join(" ")
                )),
            }
        }
        Expect::Shun(address, lasting) => {
            let shunned = &driver.host.shunned;
            let fits = |(own, time): &(_, _)| own == address && lasting.is_none_or(|l| l == *time);
            match shunned.iter().any(fits) {
                true => Ok(()),
                false => Err(format!(
                    "shun: expected {address} {lasting:?}, got {shunned:?}"
                )),
            }
        }
        Expect::NoShun => match driver.host.shunned.first() {
            Some((address, _)) => Err(format!("shun: expected none, got {address}")),
            None => Ok(()),
        },
        Expect::ClientGets(text) => same("to the client", text, &driver.seen.to_client),
        Expect::MemberGets(text) => same("to the member", text, &driver.seen.to_member),
        Expect::Syslog(text) => take("syslog", text, &mut driver.host.syslog),
        Expect::Sideband(text) => take("sideband", text, &mut driver.host.sideband_sent),
    }
}

fn compare(expected: &plan::Head, seen: &Head) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (name, text) in &expected.fields {
        let values = || {
            let fields = seen.fields.iter();
            fields
                .filter(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()))
                .map(|(_, value)| value)
        };
        if !values().any(|value| text.fits(value)) {
            let got: Vec<String> = values().map(|value| shown(value)).collect();
            let got = if got.is_empty() {
                "none".to_owned()
            } else {
                got.join(", ")
            };
            wrong.push(format!("{name}: expected {}, got {got}", text.said()));
        }
    }
    for name in &expected.absent {
        let mut fields = seen.fields.iter();
        let found = fields.find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
        if let Some((_, value)) = found {
            wrong.push(format!("{name}: expected none, got {}", shown(value)));
        }
    }
    if let Some(text) = &expected.body
        && let Err(difference) = same("body", text, &seen.body)
    {
        wrong.push(difference);
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n  ")),
    }
}

fn same(what: &str, expected: &Text, got: &[u8]) -> Result<(), String> {
    match expected.fits(got) {
        true => Ok(()),
        false => Err(format!(
            "{what}: expected {}\n  {:width$}  got      {}",
            expected.said(),
            "",
            shown(got),
            width = what.len() - 1
        )),
    }
}

fn same_name(what: &str, expected: &str, got: Option<&str>) -> Result<(), String> {
    match got == Some(expected) {
        true => Ok(()),
        false => Err(format!(
            "{what}: expected {expected}, got {}",
            got.unwrap_or("none")
        )),
    }
}

/// Takes the first text that fits.
fn take(what: &str, text: &Text, all: &mut Vec<Vec<u8>>) -> Result<(), String> {
    match all.iter().position(|one| text.fits(one)) {
        Some(at) => {
            all.remove(at);
            Ok(())
        }
        None => {
            let got: Vec<String> = all.iter().map(|one| shown(one)).collect();
            Err(format!(
                "{what}: expected {}, got{}",
                text.said(),
                listed(&got)
            ))
        }
    }
}

fn seen<'a>(head: Option<&'a Head>, what: &str, driver: &Driver) -> Result<&'a Head, String> {
    head.ok_or_else(|| match driver.seen.ended {
        Some(how) => format!("{what}: there was none; the connection ended: {how}"),
        None => format!("{what}: there was none"),
    })
}

fn absent(head: Option<&Head>, what: &str) -> Result<(), String> {
    match head {
        Some(head) => Err(format!(
            "{what}: expected none, got {}",
            head.start.join(" ")
        )),
        None => Ok(()),
    }
}

fn key(entry: &plan::Entry) -> Key<'_> {
    Key {
        subtable: &entry.subtable,
        key: &entry.key,
    }
}

fn said(entry: &plan::Entry) -> String {
    match &*entry.subtable {
        b"" => format!("entry {}", shown(&entry.key)),
        subtable => format!("entry {} in {}", shown(&entry.key), shown(subtable)),
    }
}

fn listed(lines: &[String]) -> String {
    match lines {
        [] => " nothing".to_owned(),
        lines => lines.iter().map(|line| format!("\n    {line}")).collect(),
    }
}
