//! The report: what was measured, as a table for people, as JSON for programs, as a picture.

use crate::counts::What;
use crate::measure::{Measured, Measurements};
use crate::peer::Peer;
use crate::plot;
use anyhow::{Context, Result};
use headgate_benches::median;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use traffic::http::load;

/// A load whose core was busier than this may have been what held the others up.
const FULL: f64 = 0.95;

/// The medians of one peer's runs.
pub(crate) struct Medians {
    pub(crate) per_cpu_second: f64,
    per_second: f64,
    p50: f64,
    p99: f64,
    proxy_busy: f64,
    load_busy: f64,
}

impl Medians {
    fn of(runs: &[load::Report]) -> Self {
        let of = |value: fn(&load::Report) -> f64| median(runs.iter().map(value).collect());
        Self {
            per_cpu_second: of(|run| run.requests_per_cpu_second.unwrap_or(0.0)),
            per_second: of(|run| run.requests_per_second),
            p50: of(|run| run.latency.p50),
            p99: of(|run| run.latency.p99),
            proxy_busy: of(|run| run.cores_busy.first().copied().unwrap_or(0.0)),
            load_busy: of(|run| run.cores_busy.last().copied().unwrap_or(0.0)),
        }
    }
}

impl Measured {
    /// Everybody's medians, in the order of the table.
    pub(crate) fn medians(&self) -> Vec<(Peer, Medians)> {
        self.runs
            .iter()
            .map(|(peer, runs)| (*peer, Medians::of(runs)))
            .collect()
    }

    /// Headgate's figure over the best rival's.
    fn ratio(&self) -> Option<f64> {
        let medians = self.medians();
        let own = medians
            .iter()
            .find(|(peer, _)| *peer == Peer::Headgate)?
            .1
            .per_cpu_second;
        let best = medians
            .iter()
            .filter(|(peer, _)| self.scenario.is_against(*peer))
            .map(|(_, medians)| medians.per_cpu_second);
        best.reduce(f64::max)
            .filter(|best| *best > 0.0)
            .map(|best| own / best)
    }
}

/// One scenario in one line, for whoever waits.
pub(crate) fn line(measured: &Measured) -> String {
    let mut line = format!("{:20}", measured.scenario.name);
    for (peer, medians) in measured.medians() {
        let _ = write!(line, "  {} {:.0}", peer.name(), medians.per_cpu_second);
    }
    if let Some(ratio) = measured.ratio() {
        let _ = write!(line, "  × {ratio:.2}");
    }
    line
}

/// Write report.md, report.json and report.svg.
pub(crate) fn write(measurements: &Measurements, markdown: &str, folder: &Path) -> Result<()> {
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    put("report.md", markdown)?;
    put("report.json", &serde_json::to_string_pretty(measurements)?)?;
    put("report.svg", &plot::svg(&measurements.scenarios))
}

/// The table for people.
pub(crate) fn markdown(measurements: &Measurements) -> String {
    let mut text = String::new();
    introduce(&mut text, measurements);
    figures(&mut text, measurements);
    rates(&mut text, measurements);
    memory(&mut text, measurements);
    counts(&mut text, measurements);
    if !measurements.notes.is_empty() {
        text.push_str("\n## Notes of the run\n\n");
        for note in &measurements.notes {
            let _ = writeln!(text, "- {note}");
        }
    }
    text
}

fn introduce(text: &mut String, measurements: &Measurements) {
    let machine = &measurements.machine;
    text.push_str("# Headgate and its peers\n\n");
    let _ = writeln!(
        text,
        "{} × {}, {}, Linux {}; commit {}, {}.\n",
        machine.cores,
        machine.processor,
        machine.memory,
        machine.kernel,
        machine.commit,
        machine.date
    );
    let versions: Vec<String> = measurements
        .versions
        .iter()
        .map(|(peer, version)| format!("{} {version}", peer.title()))
        .collect();
    let _ = writeln!(text, "{}.\n", versions.join(", "));
    let _ = writeln!(
        text,
        "{} rounds of {} s, everybody in turn; medians. With one worker the proxy has core 0 for itself, load and origin share \
         the last one.",
        measurements.rounds, measurements.seconds
    );
}

fn figures(text: &mut String, measurements: &Measurements) {
    text.push_str("\n## Requests (or handshakes) per CPU-second of the proxy\n\n");
    let peers: Vec<Peer> = measurements.versions.keys().copied().collect();
    let names: Vec<&str> = peers.iter().map(|peer| peer.title()).collect();
    let _ = writeln!(text, "| | {} | × best | target | |", names.join(" | "));
    let _ = writeln!(
        text,
        "| --- |{} ---: | ---: | --- |",
        " ---: |".repeat(peers.len())
    );
    for measured in &measurements.scenarios {
        let medians = measured.medians();
        let own = medians
            .iter()
            .find(|(peer, _)| *peer == Peer::Headgate)
            .map(|(_, medians)| medians.per_cpu_second);
        let cells: Vec<String> = peers
            .iter()
            .map(|peer| {
                let Some((_, medians)) = medians.iter().find(|(measured, _)| measured == peer)
                else {
                    return "–".to_owned();
                };
                let figure = medians.per_cpu_second;
                match own {
                    Some(own) if *peer != Peer::Headgate && figure > 0.0 => {
                        format!("{figure:.0} (× {:.2})", own / figure)
                    }
                    _ => format!("{figure:.0}"),
                }
            })
            .collect();
        let ratio = measured.ratio();
        let target = measured.scenario.target;
        let verdict = match (ratio, target) {
            (Some(ratio), Some(target)) if ratio >= target => "met",
            (Some(_), Some(_)) => "**not met**",
            _ => "",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {verdict} |",
            measured.scenario.title,
            cells.join(" | "),
            ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
            target.map_or_else(|| "–".to_owned(), |target| format!("{target:.1}")),
        );
    }
    text.push_str("\nIn brackets: Headgate's figure over theirs. × best: over the best of them; over TLS and TCP, of \
         HAProxy and nginx.\n\n![The same as bars](report.svg)\n");
}

fn rates(text: &mut String, measurements: &Measurements) {
    text.push_str("\n## Rates and latencies\n\n");
    text.push_str("| | | requests/s | p50 µs | p99 µs | proxy's core busy | load's core busy |\n");
    text.push_str("| --- | --- | ---: | ---: | ---: | ---: | ---: |\n");
    for measured in &measurements.scenarios {
        for (peer, medians) in measured.medians() {
            let full = if medians.load_busy > FULL {
                " (full)"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "| {} | {} | {:.0} | {:.0} | {:.0} | {:.0} % | {:.0} %{full} |",
                measured.scenario.title,
                peer.title(),
                medians.per_second,
                medians.p50,
                medians.p99,
                medians.proxy_busy * 100.0,
                medians.load_busy * 100.0,
            );
        }
    }
    text.push_str(
        "\nWhere the load's core is full, requests/s and latencies say how fast the load is, not the proxy; requests per \
         CPU-second still hold.\n",
    );
}

fn memory(text: &mut String, measurements: &Measurements) {
    if measurements.memory.is_empty() {
        return;
    }
    let of = |peer: Peer| {
        let memory = measurements
            .memory
            .iter()
            .find(|memory| memory.peer == peer)?;
        Some(median(memory.per_connection.clone()))
    };
    text.push_str("\n## Memory for each idle connection\n\n| | bytes | Headgate's share of it |\n| --- | ---: | ---: |\n");
    for memory in &measurements.memory {
        let bytes = median(memory.per_connection.clone());
        let share = match of(Peer::Headgate) {
            Some(own) if memory.peer != Peer::Headgate && bytes > 0.0 => {
                format!("{:.2}", own / bytes)
            }
            _ => String::new(),
        };
        let _ = writeln!(text, "| {} | {bytes:.0} | {share} |", memory.peer.title());
    }
    if let (Some(own), Some(haproxy)) = (of(Peer::Headgate), of(Peer::Haproxy)) {
        let verdict = if own <= haproxy / 2.0 {
            "met"
        } else {
            "**not met**"
        };
        let _ = writeln!(text, "\nTarget: half of HAProxy's: {verdict}.");
    }
    let count = measurements
        .memory
        .first()
        .map_or(0, |memory| memory.connections);
    let _ = writeln!(
        text,
        "\n{count} connections that have asked once and stay; growth of the proxy's own memory (PSS), without the kernel's."
    );
}

fn counts(text: &mut String, measurements: &Measurements) {
    if measurements.counts.is_empty() {
        return;
    }
    text.push_str("\n## Counted for each request\n\n| | | system calls | instructions in user space |\n| --- | --- | ---: | ---: |\n");
    let mut rows: Vec<(&str, Peer)> = Vec::new();
    for count in &measurements.counts {
        if !rows.contains(&(count.traffic, count.peer)) {
            rows.push((count.traffic, count.peer));
        }
    }
    rows.sort_unstable();
    for (traffic, peer) in rows {
        let find = |what: What, digits: usize| {
            let found = measurements
                .counts
                .iter()
                .find(|count| count.what == what && count.peer == peer && count.traffic == traffic);
            found.map_or_else(String::new, |count| {
                format!("{:.digits$}", count.per_request)
            })
        };
        let (calls, instructions) = (find(What::SystemCalls, 2), find(What::Instructions, 0));
        let _ = writeln!(
            text,
            "| {traffic} | {} | {calls} | {instructions} |",
            peer.title()
        );
    }
}
