//! `headgate fastpath stats`.

use super::args::{Stats as Args, Where};
use super::show::fills;
use super::text::{bytes, count, table};
use super::{Error, print, print_json, sight};
use fastpath::abi::Reason;
use fastpath::stats::{Counted, STAGES, Stats, Verdict};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Shows what was counted, or what is counted a second.
pub(super) fn stats(place: &Where, args: &Args) -> Result<(), Error> {
    let read = || sight(place)?.stats().map_err(Error::Table);
    let Some(seconds) = args.watch else {
        let stats = read()?;
        return match args.json {
            true => print_json(&json(&stats)),
            false => print(&render(&stats, args.all)),
        };
    };
    let mut before = read()?;
    let mut at = Instant::now();
    let mut left = args.times;
    while left != Some(0) {
        thread::sleep(Duration::from_secs(seconds.into()));
        let now = read()?;
        let passed = at.elapsed().as_secs_f64();
        at = Instant::now();
        match args.json {
            true => print_json(&json(&since(&before, &now, passed)))?,
            false => print(&format!("{}\n", rates(&before, &now, passed)))?,
        }
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn render(stats: &Stats, all: bool) -> String {
    let mut out = String::new();
    for verdict in Verdict::ALL {
        let mut rows: Vec<Vec<String>> = Reason::all()
            .filter(|reason| reason.verdict() == verdict && (all || stats.of(*reason) > 0))
            .map(|reason| {
                vec![
                    count(stats.of(reason)),
                    reason.name().to_owned(),
                    reason.help().to_owned(),
                ]
            })
            .collect();
        let title = match verdict {
            Verdict::Sent => "SENT ON",
            Verdict::Passed => "TO THE KERNEL",
            Verdict::Dropped => "DROPPED",
            Verdict::Event => "BESIDE",
        };
        if verdict != Verdict::Event {
            rows.insert(
                0,
                vec![
                    count(stats.packets(verdict)),
                    "packets".to_owned(),
                    String::new(),
                ],
            );
        }
        if !rows.is_empty() {
            out.push_str(&table(&["COUNT", title, ""], &["COUNT"], &rows));
            out.push('\n');
        }
    }
    let rows: Vec<Vec<String>> = STAGES
        .iter()
        .map(|stage| vec![(*stage).to_owned(), count(stats.decided_in(stage))])
        .collect();
    out.push_str(&table(&["STAGE", "DECIDED"], &["DECIDED"], &rows));
    for (title, counted) in [("VIRTUAL", &stats.virtuals), ("MEMBER", &stats.members)] {
        if !counted.is_empty() {
            out.push('\n');
            out.push_str(&tallies(title, counted));
        }
    }
    out.push('\n');
    out.push_str(&fills(&stats.tables));
    out
}

fn tallies(title: &str, counted: &BTreeMap<String, Counted>) -> String {
    let rows: Vec<Vec<String>> = counted
        .iter()
        .map(|(name, sum)| {
            vec![
                name.clone(),
                count(sum.flows),
                count(sum.packets),
                bytes(sum.bytes),
            ]
        })
        .collect();
    table(
        &[title, "FLOWS", "PACKETS", "BYTES"],
        &["FLOWS", "PACKETS", "BYTES"],
        &rows,
    )
}

/// What changed, a second.
fn since(before: &Stats, now: &Stats, seconds: f64) -> Stats {
    let rate = |before: u64, now: u64| {
        (now.saturating_sub(before) as f64 / seconds.max(0.001)).round() as u64
    };
    let of = |before: &BTreeMap<String, Counted>, now: &BTreeMap<String, Counted>| {
        now.iter()
            .map(|(name, now)| {
                let before = before.get(name).copied().unwrap_or_default();
                let counted = Counted {
                    packets: rate(before.packets, now.packets),
                    bytes: rate(before.bytes, now.bytes),
                    flows: rate(before.flows, now.flows),
                };
                (name.clone(), counted)
            })
            .collect()
    };
    Stats {
        reasons: Reason::all()
            .map(|reason| rate(before.of(reason), now.of(reason)))
            .collect(),
        virtuals: of(&before.virtuals, &now.virtuals),
        members: of(&before.members, &now.members),
        tables: now.tables.clone(),
    }
}

fn rates(before: &Stats, now: &Stats, seconds: f64) -> String {
    let rate = since(before, now, seconds);
    let rows: Vec<Vec<String>> = Reason::all()
        .filter(|reason| rate.of(*reason) > 0)
        .map(|reason| {
            vec![
                count(rate.of(reason)),
                reason.name().to_owned(),
                reason.help().to_owned(),
            ]
        })
        .collect();
    let mut out = format!(
        "a second: {} sent on, {} to the kernel, {} dropped\n",
        count(rate.packets(Verdict::Sent)),
        count(rate.packets(Verdict::Passed)),
        count(rate.packets(Verdict::Dropped)),
    );
    if !rows.is_empty() {
        out.push_str(&table(&["A SECOND", "REASON", ""], &["A SECOND"], &rows));
    }
    out
}

fn json(stats: &Stats) -> Value {
    let reasons: Map<String, Value> = Reason::all()
        .map(|reason| (reason.name().to_owned(), stats.of(reason).into()))
        .collect();
    let verdicts: Map<String, Value> = Verdict::ALL[..3]
        .iter()
        .map(|verdict| (verdict.name().to_owned(), stats.packets(*verdict).into()))
        .collect();
    let stages: Map<String, Value> = STAGES
        .iter()
        .map(|stage| ((*stage).to_owned(), stats.decided_in(stage).into()))
        .collect();
    json!({
        "reasons": reasons,
        "verdicts": verdicts,
        "stages": stages,
        "virtuals": stats.virtuals,
        "members": stats.members,
        "tables": stats.tables,
    })
}
