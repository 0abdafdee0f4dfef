//! The report: what was measured, as tables for people, as JSON for programs, as a picture.

use crate::peer::Peer;
use crate::plot;
use crate::proxies::{Case, Measured};
use crate::scripts::Timed;
use anyhow::{Context, Result};
use headgate_benches::machine::Machine;
use headgate_benches::median;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// How fast the time stamp counter counts.
    pub(crate) megahertz: f64,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) events: Events,
    pub(crate) proxies: Vec<Measured>,
    pub(crate) tclsh: String,
    pub(crate) scripts: Vec<Timed>,
    /// What went wrong, for the reader.
    pub(crate) notes: Vec<String>,
}

/// What the engine alone was measured by.
#[derive(Clone, Debug, Default, Serialize, serde::Deserialize)]
pub(crate) struct Events {
    pub(crate) events: Vec<Event>,
    /// Bytes that 100,000 tokens take in the engine, for each set of rules and round.
    pub(crate) memory: Vec<f64>,
}

/// What one handler of one rule takes in the engine alone.
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
pub(crate) struct Event {
    /// The rule's file.
    pub(crate) rule: String,
    pub(crate) event: String,
    /// What it finds.
    pub(crate) case: String,
    /// How often it ran in a round.
    pub(crate) count: u64,
    /// Cycles (TSC), round by round.
    pub(crate) average: Vec<f64>,
    pub(crate) minimum: Vec<f64>,
    /// What F5 publishes for it: average and minimum.
    pub(crate) published: Option<(f64, f64)>,
    /// What the average must not exceed.
    pub(crate) target: Option<f64>,
}

impl Events {
    /// Take another round, or other rules, in.
    pub(crate) fn add(&mut self, other: Self) {
        self.memory.extend(other.memory);
        for event in other.events {
            let same = |known: &&mut Event| {
                (&known.rule, &known.event, &known.case) == (&event.rule, &event.event, &event.case)
            };
            match self.events.iter_mut().find(same) {
                Some(known) => {
                    known.average.extend(event.average);
                    known.minimum.extend(event.minimum);
                }
                None => self.events.push(event),
            }
        }
    }
}

/// A rival's cost over Headgate's must be this at least.
const PEERS_GOAL: f64 = 5.0;
/// Half of the scripts must be so many times faster than tclsh, and none slower than it.
const MOST: f64 = 2.0;

/// The report as Markdown.
pub(crate) fn markdown(report: &Report) -> String {
    let mut text = String::new();
    introduce(&mut text, report);
    events(&mut text, report);
    costs(&mut text, report);
    figures(&mut text, report);
    memory(&mut text, report);
    scripts(&mut text, report);
    if !report.notes.is_empty() {
        text.push_str("\n## Notes of the run\n\n");
        for note in &report.notes {
            let _ = writeln!(text, "- {note}");
        }
    }
    text
}

/// Write the report into a folder.
pub(crate) fn write(report: &Report, text: &str, folder: &Path) -> Result<()> {
    let write = |name: &str, content: &str| {
        let file = folder.join(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    };
    write("rules.md", text)?;
    write(
        "rules.json",
        &(serde_json::to_string_pretty(report)? + "\n"),
    )?;
    write("rules.svg", &plot::svg(report))
}

fn introduce(text: &mut String, report: &Report) {
    let machine = &report.machine;
    text.push_str("# The rules engine\n\n");
    let _ = writeln!(
        text,
        "{} × {}, {}, Linux {}, time stamp counter {:.0} MHz; commit {}, {}.\n",
        machine.cores,
        machine.processor,
        machine.memory,
        machine.kernel,
        report.megahertz,
        machine.commit,
        machine.date
    );
    let mut versions: Vec<String> = report
        .proxies
        .iter()
        .map(|measured| format!("{} {}", measured.peer.title(), measured.version))
        .collect();
    if !report.tclsh.is_empty() {
        versions.push(format!("tclsh {}", report.tclsh));
    }
    let _ = writeln!(
        text,
        "{}.\n\n{} rounds, everybody in turn; medians, in brackets the lowest and the highest round.",
        versions.join("; "),
        report.rounds
    );
    text.push_str("\n![What the rule costs, and scripts beside tclsh](rules.svg)\n");
}

fn events(text: &mut String, report: &Report) {
    if report.events.events.is_empty() {
        return;
    }
    text.push_str(
        "\n## Cycles an event, in the engine alone\n\n\
         | rule | event | | times | average | minimum | F5: average, minimum | target | |\n\
         | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    for event in &report.events.events {
        let average = median(event.average.clone());
        let published = event.published.map_or_else(
            || "–".to_owned(),
            |(average, least)| format!("{average:.0}, {least:.0}"),
        );
        let target = event
            .target
            .map_or_else(|| "–".to_owned(), |target| format!("{target:.0}"));
        let verdict = event.target.map_or("", |target| met(average <= target));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.0} | {published} | {target} | {verdict} |",
            event.rule,
            event.event,
            event.case,
            event.count,
            spread(&event.average, 0),
            median(event.minimum.clone()),
        );
    }
    let _ = writeln!(
        text,
        "\nTime stamp counter around each event, without the proxy; 100,000 tokens cached. F5's figures are the rule's author's, \
         from an LTM 1600, whose processor is another: they compare scales alone. 100,000 tokens take {:.1} MB in the \
         engine (growth of PSS; F5: 17.5 MB).",
        median(report.events.memory.clone()) / 1e6
    );
}

fn costs(text: &mut String, report: &Report) {
    if report.proxies.is_empty() {
        return;
    }
    text.push_str(
        "\n## What the rule costs a request\n\n\
         Microseconds of processor time, in brackets cycles of the time stamp counter, then how many times Headgate's cost it is.\n\n",
    );
    let _ = writeln!(
        text,
        "| | {} |",
        titles(report, |measured| measured.peer.title()).join(" | ")
    );
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(report.proxies.len()));
    for case in Case::ALL {
        let own = own(report).and_then(|own| own.cost(case));
        let cells: Vec<String> = report
            .proxies
            .iter()
            .map(|measured| {
                let Some(cost) = measured.cost(case) else {
                    return "–".to_owned();
                };
                let times = match own {
                    Some(own) if own > 0.0 && measured.peer != Peer::Headgate => {
                        format!(" × {:.1}", cost / own)
                    }
                    _ => String::new(),
                };
                format!("{cost:.2} ({:.0}){times}", cost * report.megahertz)
            })
            .collect();
        let _ = writeln!(text, "| {} | {} |", case.title(), cells.join(" | "));
    }
    text.push_str("\nLowest and highest round, in microseconds:\n\n");
    let _ = writeln!(
        text,
        "| | {} |",
        titles(report, |measured| measured.peer.title()).join(" | ")
    );
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(report.proxies.len()));
    for case in Case::ALL {
        let cells: Vec<String> = report
            .proxies
            .iter()
            .map(|measured| {
                let rounds = measured.cases.get(&case).into_iter().flatten();
                let costs: Vec<f64> = rounds.map(|pair| pair.cost()).collect();
                bounds(&costs, 2)
            })
            .collect();
        let _ = writeln!(text, "| {} | {} |", case.title(), cells.join(" | "));
    }
    let _ = writeln!(
        text,
        "\nOne worker, alone on its core; {} s a run. The same process is asked past the rule and through it, and the difference \
         of processor time for a request is the rule's: the events of the request and of its response together, and for Headgate \
         its work around them.",
        report.seconds
    );
    let Some(own) = own(report).and_then(|own| own.cost(Case::AllUsers)) else {
        return;
    };
    text.push('\n');
    for measured in report.proxies.iter().filter(|one| one.peer.is_rival()) {
        if let Some(cost) = measured.cost(Case::AllUsers).filter(|_| own > 0.0) {
            let _ = writeln!(
                text,
                "- {PEERS_GOAL:.0} × less time than {}, tokens cached: × {:.1}, {}.",
                measured.peer.title(),
                cost / own,
                met(cost / own >= PEERS_GOAL)
            );
        }
    }
}

fn figures(text: &mut String, report: &Report) {
    if report.proxies.is_empty() {
        return;
    }
    text.push_str("\n## Requests per CPU-second of the proxy\n\nWithout the rule → with it.\n\n");
    let _ = writeln!(
        text,
        "| | {} |",
        titles(report, |measured| measured.peer.title()).join(" | ")
    );
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(report.proxies.len()));
    for case in Case::ALL {
        let cells: Vec<String> = report
            .proxies
            .iter()
            .map(|measured| {
                let Some(pairs) = measured.cases.get(&case) else {
                    return "–".to_owned();
                };
                let off = median(pairs.iter().map(|pair| pair.off).collect());
                let on = median(pairs.iter().map(|pair| pair.on).collect());
                format!("{off:.0} → {on:.0}")
            })
            .collect();
        let _ = writeln!(text, "| {} | {} |", case.title(), cells.join(" | "));
    }
}

fn memory(text: &mut String, report: &Report) {
    let rows: Vec<_> = report
        .proxies
        .iter()
        .filter_map(|measured| Some((measured.peer.title(), measured.memory?)))
        .collect();
    if rows.is_empty() {
        return;
    }
    text.push_str("\n## Memory of 100,000 tokens\n\n| | MB a worker |\n| --- | ---: |\n");
    for (title, bytes) in rows {
        let _ = writeln!(text, "| {title} | {:.1} |", bytes / 1e6);
    }
    text.push_str(
        "| F5 (published, longer tokens' input) | 17.5 |\n\n\
         Growth of the worker's own memory (PSS) while 100,000 sessions are seen for the first time. HAProxy's converters keep \
         nothing.\n",
    );
}

fn scripts(text: &mut String, report: &Report) {
    if report.scripts.is_empty() {
        return;
    }
    text.push_str("\n## Small scripts beside tclsh\n\n| | what it does | engine, ns | tclsh, ns | times as fast | |\n| --- | --- | ---: | ---: | ---: | --- |\n");
    for timed in &report.scripts {
        let ratio = timed.ratio();
        let verdict = match ratio {
            Some(ratio) if ratio < 1.0 => "**slower**",
            Some(ratio) if ratio >= MOST => "",
            Some(_) => "less than 2 ×",
            None => "not run",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {:.0} | {} | {verdict} |",
            timed.name,
            timed.title,
            median(timed.engine.clone()),
            median(timed.tclsh.clone()),
            ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
        );
    }
    let ratios: Vec<f64> = report.scripts.iter().filter_map(Timed::ratio).collect();
    let slower = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    let fast = ratios.iter().filter(|ratio| **ratio >= MOST).count();
    let _ = writeln!(
        text,
        "\n{} of {} at least {MOST:.0} × as fast: {}; {slower} slower than tclsh: {}. The time of one turn of a loop in a \
         procedure, loop included; each result is the same in both.",
        fast,
        report.scripts.len(),
        met(2 * fast > report.scripts.len()),
        met(slower == 0 && ratios.len() == report.scripts.len()),
    );
}

fn own(report: &Report) -> Option<&Measured> {
    let mut proxies = report.proxies.iter();
    proxies.find(|measured| measured.peer == Peer::Headgate)
}

fn titles<'a>(report: &'a Report, title: impl Fn(&Measured) -> &'a str) -> Vec<&'a str> {
    report.proxies.iter().map(title).collect()
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**not met**" }
}

/// The median and, in brackets, the lowest and the highest value.
fn spread(values: &[f64], digits: usize) -> String {
    let middle = median(values.to_vec());
    format!("{middle:.digits$} ({})", bounds(values, digits))
}

fn bounds(values: &[f64], digits: usize) -> String {
    if values.is_empty() {
        return "–".to_owned();
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.digits$} – {most:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_the_same_event_are_joined() {
        let event = |case: &str, average| Event {
            rule: "rule".to_owned(),
            event: "HTTP_REQUEST".to_owned(),
            case: case.to_owned(),
            count: 1,
            average: vec![average],
            minimum: vec![1.0],
            published: None,
            target: None,
        };
        let round = |average| Events {
            events: vec![event("a", average), event("b", average)],
            memory: vec![1.0],
        };
        let mut all = round(1.0);
        all.add(round(2.0));
        assert_eq!(all.events.len(), 2);
        assert_eq!(all.events[1].average, [1.0, 2.0]);
        assert_eq!(all.memory.len(), 2);
    }

    #[test]
    fn a_spread_names_middle_and_ends() {
        assert_eq!(spread(&[3.0, 1.0, 2.0], 1), "2.0 (1.0 – 3.0)");
        assert_eq!(bounds(&[], 1), "–");
    }
}
