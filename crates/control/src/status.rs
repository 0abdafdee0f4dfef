//! `headgate status`: how everything stands, as a table for people.

use crate::client::{Client, ClientError};
use crate::human::{Cell, Table, Tone, bytes, count, printable, seconds};
use crate::view::{Check, Condition, Member, Phase, Pool, Status, Virtual, unix_seconds};
use serde::Serialize;
use std::fmt::Write;
use std::time::SystemTime;

/// How everything stands at a moment.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    /// The process.
    pub status: Status,
    /// Its virtuals.
    pub virtuals: Vec<Virtual>,
    /// Its pools.
    pub pools: Vec<Pool>,
}

impl Picture {
    /// Asks a running process.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn take(client: &Client) -> Result<Self, ClientError> {
        Ok(Picture {
            status: client.get("/v1/status")?,
            virtuals: client.get("/v1/virtuals")?,
            pools: client.get("/v1/pools")?,
        })
    }

    /// The picture as text, with colours if wanted.
    pub fn render(&self, colour: bool) -> String {
        let mut out = head(&self.status, colour);
        if let Some(line) = reload(&self.status, unix_seconds(SystemTime::now()), colour) {
            out.push_str(&line);
        }
        if !self.virtuals.is_empty() {
            out.push('\n');
            out.push_str(&virtuals(&self.virtuals).render(colour));
        }
        if !self.pools.is_empty() {
            out.push('\n');
            out.push_str(&pools(&self.pools).render(colour));
        }
        out
    }
}

/// The first lines, of this and of `top`.
pub(crate) fn head(status: &Status, colour: bool) -> String {
    let (phase, tone) = match status.phase {
        Phase::Running => ("running", Tone::Good),
        Phase::Draining => ("draining", Tone::Watch),
        Phase::Stopping => ("stopping", Tone::Bad),
    };
    let of_workers: Vec<_> = status
        .workers
        .iter()
        .map(|w| w.connections.to_string())
        .collect();
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{} {}  {}  up {}  pid {}  generation {}  {}",
        Tone::Strong.paint("headgate", colour),
        printable(&status.version),
        tone.paint(phase, colour),
        seconds(status.uptime),
        status.pid,
        status.generation,
        printable(&status.config),
    );
    let _ = writeln!(
        out,
        "connections {} of {}  workers {} ({})",
        count(status.connections as u64),
        count(status.connection_limit as u64),
        status.workers.len(),
        of_workers.join(", "),
    );
    out
}

/// The word for what a member is, and how it is to look.
pub(crate) fn condition(condition: Condition) -> (&'static str, Tone) {
    match condition {
        Condition::Up => ("up", Tone::Good),
        Condition::Unknown => ("unknown", Tone::Watch),
        Condition::Down => ("down", Tone::Bad),
        Condition::Ejected => ("ejected", Tone::Bad),
        Condition::Draining => ("draining", Tone::Watch),
        Condition::Disabled => ("disabled", Tone::Faint),
    }
}

/// Protocol, with TLS if it has that.
pub(crate) fn protocol(service: &Virtual) -> String {
    match service.tls {
        Some(_) => format!("{}+tls", service.protocol),
        None => service.protocol.clone(),
    }
}

/// One of the counters.
pub(crate) fn counted(counters: &std::collections::BTreeMap<String, u64>, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or_default()
}

fn reload(status: &Status, now: u64, colour: bool) -> Option<String> {
    let reload = status.last_reload.as_ref()?;
    let ago = match now.saturating_sub(reload.at) {
        0 => "just now".to_owned(),
        n => format!("{} ago", seconds(n as f64)),
    };
    let cause = printable(&reload.cause);
    Some(match &reload.error {
        None => {
            let changes = reload.changes.len();
            let plural = if changes == 1 { "" } else { "s" };
            format!("last reload {ago} by {cause}: ok, {changes} change{plural}\n")
        }
        Some(error) => {
            let failed = Tone::Bad.paint("FAILED", colour);
            let mut out =
                format!("last reload {ago} by {cause}: {failed}, what was in force stays\n");
            for line in error.lines() {
                out.push_str("  ");
                out.push_str(&printable(line));
                out.push('\n');
            }
            out
        }
    })
}

fn virtuals(virtuals: &[Virtual]) -> Table {
    let mut table = Table::head([
        Cell::left("VIRTUAL"),
        Cell::left("LISTEN"),
        Cell::left("PROTOCOL"),
        Cell::right("CONNS"),
        Cell::right("REQUESTS"),
        Cell::right("2XX"),
        Cell::right("3XX"),
        Cell::right("4XX"),
        Cell::right("5XX"),
        Cell::right("REFUSED"),
        Cell::right("IN"),
        Cell::right("OUT"),
    ]);
    for service in virtuals {
        let of = |name| counted(&service.counters, name);
        table.row([
            Cell::left(&service.name),
            Cell::left(service.listen.join(" ")),
            Cell::left(protocol(service)),
            Cell::right(count(service.active as u64)),
            Cell::right(count(of("requests"))),
            Cell::right(count(of("responses_2xx"))),
            Cell::right(count(of("responses_3xx"))),
            Cell::count(of("responses_4xx"), Tone::Watch),
            Cell::count(of("responses_5xx"), Tone::Bad),
            Cell::count(service.refusals.values().sum(), Tone::Watch),
            Cell::right(bytes(of("bytes_in") as f64)),
            Cell::right(bytes(of("bytes_out") as f64)),
        ]);
    }
    table
}

fn pools(pools: &[Pool]) -> Table {
    let mut table = Table::head([
        Cell::left("POOL / MEMBER"),
        Cell::left("STATE"),
        Cell::right("WEIGHT"),
        Cell::right("ACTIVE"),
        Cell::right("REQUESTS"),
        Cell::right("FAILURES"),
        Cell::left("LAST CHECK"),
    ]);
    for pool in pools {
        let usable = format!("{}/{} usable", pool.usable, pool.members.len());
        let tone = match pool.usable {
            0 => Tone::Bad,
            n if n < pool.members.len() => Tone::Watch,
            _ => Tone::Good,
        };
        let waiting = match pool.waiting {
            0 => String::new(),
            n => format!("{} waiting", count(n as u64)),
        };
        table.row([
            Cell::left(format!("{} ({})", pool.name, pool.balance)),
            Cell::left(usable).tone(tone),
            Cell::left(""),
            Cell::left(""),
            Cell::left(""),
            Cell::left(""),
            Cell::left(waiting).tone(Tone::Watch),
        ]);
        for member in &pool.members {
            let (word, tone) = condition(member.condition);
            table.row([
                Cell::left(format!("  {}", name(member))),
                Cell::left(word).tone(tone),
                Cell::right(format!(
                    "{}{}",
                    member.weight,
                    if member.backup { " backup" } else { "" }
                )),
                Cell::right(active(member)),
                Cell::right(count(counted(&member.counters, "requests"))),
                Cell::count(counted(&member.counters, "failures"), Tone::Bad),
                Cell::left(last_check(member)),
            ]);
        }
    }
    table
}

fn name(member: &Member) -> String {
    match member.name == member.address {
        true => member.name.clone(),
        false => format!("{} {}", member.name, member.address),
    }
}

fn active(member: &Member) -> String {
    match member.limit {
        0 => count(member.active.into()),
        limit => format!("{}/{}", count(member.active.into()), count(limit.into())),
    }
}

/// The check that tells most: a bad one, or else the latest.
fn last_check(member: &Member) -> String {
    if let Some(left) = member.ejected_for {
        return format!("ejected for another {}", seconds(left));
    }
    let age = |check: &&Check| check.age.map_or(u64::MAX, |age| (age * 1000.0) as u64);
    let done = || member.checks.iter().filter(|check| check.reason.is_some());
    let bad = done()
        .filter(|check| check.ok == Some(false))
        .min_by_key(age);
    match bad.or_else(|| done().min_by_key(age)) {
        Some(check) => {
            let reason = check.reason.as_deref().unwrap_or_default();
            format!(
                "{}: {reason}, {} ago",
                check.monitor,
                seconds(check.age.unwrap_or_default())
            )
        }
        None if member.checks.is_empty() => "not monitored".to_owned(),
        None => "none yet".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::view::{MemberState, Reload, Worker};
    use std::collections::BTreeMap;

    /// A process with one virtual of so many requests, and one pool whose second member is down.
    pub(crate) fn picture(requests: u64) -> Picture {
        let counters = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect()
        };
        let member = |name: &str, up: bool| Member {
            name: name.to_owned(),
            address: format!("10.0.0.{}:80", name.len()),
            condition: if up { Condition::Up } else { Condition::Down },
            state: MemberState::Enabled,
            up,
            backup: false,
            weight: 1,
            active: 2,
            limit: 0,
            ejected_for: None,
            counters: counters(&[("requests", requests), ("failures", u64::from(!up))]),
            checks: vec![Check {
                pool: "app".to_owned(),
                member: name.to_owned(),
                address: String::new(),
                monitor: "web".to_owned(),
                up: Some(up),
                since: Some(60.0),
                ok: Some(up),
                reason: Some(
                    if up {
                        "status 200"
                    } else {
                        "connection refused"
                    }
                    .to_owned(),
                ),
                age: Some(0.25),
                latency: Some(0.001),
                checks: 9,
                failures: 0,
                skipped: 0,
            }],
        };
        Picture {
            status: Status {
                version: "1.0".to_owned(),
                pid: 7,
                uptime: 61.0,
                generation: 3,
                phase: Phase::Running,
                config: "a.yaml".to_owned(),
                connections: 5,
                connection_limit: 1000,
                workers: vec![
                    Worker {
                        index: 0,
                        connections: 2,
                    },
                    Worker {
                        index: 1,
                        connections: 3,
                    },
                ],
                last_reload: None,
            },
            virtuals: vec![Virtual {
                name: "web".to_owned(),
                listen: vec!["0.0.0.0:443".to_owned()],
                protocol: "http".to_owned(),
                tls: Some("site".to_owned()),
                pool: Some("app".to_owned()),
                active: 5,
                connection_limit: 100,
                counters: counters(&[
                    ("requests", requests),
                    ("responses_2xx", requests),
                    ("responses_5xx", 1),
                    ("bytes_out", requests * 1024),
                ]),
                refusals: counters(&[("bare-lf", 2)]),
            }],
            pools: vec![Pool {
                name: "app".to_owned(),
                balance: "round-robin".to_owned(),
                usable: 1,
                waiting: 0,
                members: vec![member("a1", true), member("a-2", false)],
            }],
        }
    }

    #[test]
    fn the_table_tells_what_is_wrong_and_why() {
        let text = picture(1234).render(false);
        let expected = "\
headgate 1.0  running  up 1m 1s  pid 7  generation 3  a.yaml
connections 5 of 1 000  workers 2 (2, 3)

VIRTUAL  LISTEN       PROTOCOL  CONNS  REQUESTS    2XX  3XX  4XX  5XX  REFUSED   IN      OUT
web      0.0.0.0:443  http+tls      5     1 234  1 234    0    0    1        2  0 B  1.2 MiB

POOL / MEMBER      STATE       WEIGHT  ACTIVE  REQUESTS  FAILURES  LAST CHECK
app (round-robin)  1/2 usable
  a1 10.0.0.2:80   up               1       2     1 234         0  web: status 200, 250ms ago
  a-2 10.0.0.3:80  down             1       2     1 234         1  web: connection refused, 250ms ago
";
        assert_eq!(text, expected);
        assert!(picture(1).render(true).contains("\x1b[31mdown\x1b[0m"));
    }

    #[test]
    fn a_failed_reload_stands_out_with_its_errors() {
        let mut picture = picture(1);
        picture.status.last_reload = Some(Reload {
            at: unix_seconds(SystemTime::now()) - 90,
            cause: "file".to_owned(),
            ok: false,
            generation: 3,
            changes: Vec::new(),
            error: Some("a.yaml:3:1: unknown field\n 3 | x".to_owned()),
        });
        let text = picture.render(false);
        assert!(
            text.contains("last reload 1m 30s ago by file: FAILED"),
            "{text}"
        );
        assert!(
            text.contains("\n  a.yaml:3:1: unknown field\n   3 | x\n"),
            "{text}"
        );
    }
}
