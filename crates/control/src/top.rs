//! `headgate top`: what is going on, live, the busiest first. Rates are differences of two pictures.

mod terminal;

use crate::client::{Client, ClientError};
use crate::human::{Cell, Table, Tone, bytes, count, rate};
use crate::status::{Picture, condition, counted, head, protocol};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};
use terminal::{Key, Terminal};

/// Between two pictures.
const PERIOD: Duration = Duration::from_secs(1);

/// Why it ended.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The process does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The terminal cannot be used.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[from] io::Error),
}

/// Shows what is going on until `q` or ctrl-c is pressed.
///
/// # Errors
///
/// [`TopError`].
pub fn live(client: &Client, colour: bool) -> Result<(), TopError> {
    let mut before = (Instant::now(), Picture::take(client)?);
    let mut terminal = Terminal::enter()?;
    terminal.show("one moment…")?;
    loop {
        if terminal.key(PERIOD)? == Some(Key::Quit) {
            return Ok(());
        }
        let now = (Instant::now(), Picture::take(client)?);
        let text = render(&before.1, &now.1, (now.0 - before.0).as_secs_f64(), colour);
        terminal.show(&text)?;
        before = now;
    }
}

/// Prints what went on in one second.
///
/// # Errors
///
/// [`TopError`].
pub fn once(client: &Client, out: &mut dyn Write, colour: bool) -> Result<(), TopError> {
    let began = Instant::now();
    let before = Picture::take(client)?;
    thread::sleep(PERIOD);
    let after = Picture::take(client)?;
    let text = render(&before, &after, began.elapsed().as_secs_f64(), colour);
    out.write_all(text.as_bytes())?;
    Ok(())
}

/// What went on between two pictures that so many seconds lie between.
fn render(before: &Picture, after: &Picture, elapsed: f64, colour: bool) -> String {
    // Another process counts from zero.
    let same = before.status.pid == after.status.pid;
    let per_second = |was: Option<u64>, is: u64| match same {
        true => is.saturating_sub(was.unwrap_or(0)) as f64 / elapsed.max(0.001),
        false => 0.0,
    };
    let mut out = head(&after.status, colour);
    out.push('\n');
    out.push_str(&virtuals(before, after, &per_second).render(colour));
    out.push('\n');
    out.push_str(&members(before, after, &per_second).render(colour));
    out
}

type PerSecond<'a> = &'a dyn Fn(Option<u64>, u64) -> f64;

fn virtuals(before: &Picture, after: &Picture, per_second: PerSecond<'_>) -> Table {
    let was: BTreeMap<&str, _> = before
        .virtuals
        .iter()
        .map(|v| (&*v.name, &v.counters))
        .collect();
    let mut rows: Vec<_> = after
        .virtuals
        .iter()
        .map(|service| {
            let rate_of = |name: &str| {
                let was = was
                    .get(&*service.name)
                    .map(|counters| counted(counters, name));
                per_second(was, counted(&service.counters, name))
            };
            let busy = rate_of("requests") + rate_of("connections");
            (
                busy,
                service,
                [
                    rate_of("connections"),
                    rate_of("requests"),
                    rate_of("responses_4xx"),
                    rate_of("responses_5xx"),
                    rate_of("bytes_in"),
                    rate_of("bytes_out"),
                ],
            )
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    let mut table = Table::head([
        Cell::left("VIRTUAL"),
        Cell::left("PROTOCOL"),
        Cell::right("CONNS"),
        Cell::right("CONN/S"),
        Cell::right("REQ/S"),
        Cell::right("4XX/S"),
        Cell::right("5XX/S"),
        Cell::right("IN/S"),
        Cell::right("OUT/S"),
    ]);
    for (_, service, [connections, requests, client_errors, errors, received, sent]) in rows {
        table.row([
            Cell::left(&service.name),
            Cell::left(protocol(service)),
            Cell::right(count(service.active as u64)),
            Cell::right(rate(connections)),
            Cell::right(rate(requests)),
            toned(client_errors, Tone::Watch),
            toned(errors, Tone::Bad),
            Cell::right(bytes(received)),
            Cell::right(bytes(sent)),
        ]);
    }
    table
}

fn members(before: &Picture, after: &Picture, per_second: PerSecond<'_>) -> Table {
    let all = |picture: &'_ Picture| -> Vec<_> {
        let pools = picture.pools.iter();
        let members =
            pools.flat_map(|p| p.members.iter().map(move |m| (p.name.clone(), m.clone())));
        members.collect()
    };
    let was: BTreeMap<_, _> = all(before)
        .into_iter()
        .map(|(pool, m)| ((pool, m.name, m.address), m.counters))
        .collect();
    let mut rows: Vec<_> = all(after)
        .into_iter()
        .map(|(pool, member)| {
            let key = (pool.clone(), member.name.clone(), member.address.clone());
            let rate_of = |name: &str| {
                let was = was.get(&key).map(|counters| counted(counters, name));
                per_second(was, counted(&member.counters, name))
            };
            let (requests, failures) = (rate_of("requests"), rate_of("failures"));
            (requests, failures, pool, member)
        })
        .collect();
    rows.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then_with(|| (&a.2, &a.3.name).cmp(&(&b.2, &b.3.name)))
    });
    let mut table = Table::head([
        Cell::left("MEMBER"),
        Cell::left("STATE"),
        Cell::right("ACTIVE"),
        Cell::right("REQ/S"),
        Cell::right("FAIL/S"),
    ]);
    for (requests, failures, pool, member) in rows {
        let (word, tone) = condition(member.condition);
        table.row([
            Cell::left(format!("{pool}/{}", member.name)),
            Cell::left(word).tone(tone),
            Cell::right(count(member.active.into())),
            Cell::right(rate(requests)),
            toned(failures, Tone::Bad),
        ]);
    }
    table
}

fn toned(value: f64, tone: Tone) -> Cell {
    let tone = if value < 0.05 { Tone::Plain } else { tone };
    Cell::right(rate(value)).tone(tone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::picture;

    #[test]
    fn rates_are_differences_over_time_and_the_busiest_comes_first() {
        let (before, mut after) = (picture(1000), picture(1500));
        let mut idle = after.virtuals[0].clone();
        idle.name = "idle".to_owned();
        idle.counters.clear();
        after.virtuals.insert(0, idle);
        after.pools[0].members[0]
            .counters
            .insert("requests".to_owned(), 1000);
        let text = render(&before, &after, 2.0, false);
        let expected = "
VIRTUAL  PROTOCOL  CONNS  CONN/S  REQ/S  4XX/S  5XX/S  IN/S      OUT/S
web      http+tls      5       0    250      0      0   0 B  250.0 KiB
idle     http+tls      5       0      0      0      0   0 B        0 B

MEMBER   STATE  ACTIVE  REQ/S  FAIL/S
app/a-2  down        2    250       0
app/a1   up          2      0       0
";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn another_process_begins_at_no_rate() {
        let (before, mut after) = (picture(0), picture(1_000_000));
        after.status.pid += 1;
        let text = render(&before, &after, 1.0, false);
        assert!(!text.contains("1 000 000"), "{text}");
    }
}
