//! The report: what was measured, as tables for people, as JSON for programs, as a picture.

use crate::plot;
use crate::row::{Book, Goal, Part, Row, Series};
use anyhow::{Context, Result};
use headgate_benches::machine::Machine;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// All that was measured, and where.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) nftables: String,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    #[serde(flatten)]
    pub(crate) book: Book,
}

impl Report {
    fn of(&self, part: Part) -> Vec<&Row> {
        self.book
            .rows
            .iter()
            .filter(|row| row.part == part)
            .collect()
    }
}

/// Write fastpath.md, fastpath.json and fastpath.svg.
pub(crate) fn write(report: &Report, markdown: &str, folder: &Path) -> Result<()> {
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    put("fastpath.md", markdown)?;
    put("fastpath.json", &serde_json::to_string_pretty(report)?)?;
    put("fastpath.svg", &plot::svg(&report.book.rows))
}

/// The tables for people.
pub(crate) fn markdown(report: &Report) -> String {
    let mut text = String::new();
    introduce(&mut text, report);
    cost(&mut text, &report.of(Part::Cost));
    forward(&mut text, &report.of(Part::Forward));
    articles(&mut text, &report.of(Part::Forward));
    routes(&mut text, &report.of(Part::Routes));
    concurrent(&mut text, &report.of(Part::Concurrent));
    setup(&mut text, &report.of(Part::Setup));
    object(&mut text, &report.of(Part::Object));
    if !report.book.failed.is_empty() {
        text.push_str("\n## Not measured\n\n");
        for failed in &report.book.failed {
            let _ = writeln!(text, "- {failed}");
        }
    }
    text
}

fn introduce(text: &mut String, report: &Report) {
    let machine = &report.machine;
    text.push_str("# The fast path\n\n");
    let _ = writeln!(
        text,
        "{} × {}, {}, Linux {}, nftables {}; commit {}, {}.\n",
        machine.cores,
        machine.processor,
        machine.memory,
        machine.kernel,
        report.nftables,
        machine.commit,
        machine.date
    );
    let goals: Vec<bool> = report.book.rows.iter().filter_map(Row::met).collect();
    let _ = writeln!(
        text,
        "{} of {} goals met. {} rounds, everybody in turn; medians, in brackets the lowest and the highest.{}",
        goals.iter().filter(|met| **met).count(),
        goals.len(),
        report.rounds,
        if report.quick {
            " A quick run: small tables and short rounds, so not what the goals are for."
        } else {
            ""
        }
    );
    text.push_str("\n![The same as bars](fastpath.svg)\n");
}

fn cost(text: &mut String, rows: &[&Row]) {
    if rows.is_empty() {
        return;
    }
    text.push_str(
        "\n## Nanoseconds a packet\n\nIn test runs (BPF_PROG_TEST_RUN), of the program alone: a calling program writes all headers anew, \
         of a random flow, before each run; what it takes itself is measured in turn and taken off. Katran's figures were \
         recorded on this kind of machine with its headers written anew as well; the goal is six tenths of them.\n\n\
         | | ns | Katran, ns | times as fast | goal, ns | |\n| --- | ---: | ---: | ---: | ---: | --- |\n",
    );
    for row in rows {
        let katran = row.peers.first().map(Series::median);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.title,
            spread(&row.ours, 0),
            maybe(katran, |figure| format!("{figure:.0}")),
            maybe(row.times(), |times| format!("{times:.1}")),
            maybe(row.goal, |goal| match goal {
                Goal::Most(most) => format!("{most:.0}"),
                _ => "–".to_owned(),
            }),
            verdict(row),
        );
    }
    notes(text, rows);
}

fn forward(text: &mut String, rows: &[&Row]) {
    if rows.is_empty() {
        return;
    }
    text.push_str(
        "\n## Forwarding, side by side\n\nFrames of 60 bytes (IPv6: 62) from a generator, through a device in a namespace of its own, to a sink \
         that drops; veth pairs between them. The time is that of the device's receiving thread for a packet: it has a core for \
         itself and does all that the device does; generator and sink have the other core. A bare program that writes an Ethernet \
         header and redirects is what receiving and sending take by themselves; *net* is without that. The goal is for the \
         net times of both.\n\n\
         | | Headgate, ns (M/s) | beside it, ns (M/s) | times as fast | net | goal | |\n\
         | --- | ---: | --- | ---: | ---: | ---: | --- |\n",
    );
    let figure = |series: &Series| {
        let rate = headgate_benches::median(series.rates.clone());
        format!("{:.0} ({rate:.2})", series.median())
    };
    for row in rows {
        let peers: Vec<String> = row
            .peers
            .iter()
            .map(|peer| format!("{} {}", peer.name, figure(peer)))
            .collect();
        let gross = row
            .peers
            .first()
            .map(|peer| peer.median() / row.ours.median());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            row.title,
            figure(&row.ours),
            peers.join(", "),
            maybe(gross, |times| format!("{times:.1}")),
            maybe(row.times(), |times| format!("{times:.1}")),
            maybe(row.goal, |goal| match goal {
                Goal::Times(times) => format!("{times:.0}"),
                _ => "–".to_owned(),
            }),
            verdict(row),
        );
    }
    notes(text, rows);
}

/// What the articles measured with one core: a name of ours, flows, what it is, their packets a second in millions and on what.
const ARTICLES: [(&str, u32, &str, &str); 8] = [
    ("kernel", 1, "kernel forwarding", "1.4, one core"),
    (
        "kernel",
        10_000,
        "kernel forwarding",
        "14 on some 16 cores: 0.88 a core",
    ),
    (
        "nftables, ct state",
        1,
        "stateful rules",
        "1.4, one core (iptables)",
    ),
    (
        "nftables, ct state",
        10_000,
        "stateful rules",
        "14, on more cores than without",
    ),
    (
        "nftables masquerade",
        1,
        "source NAT",
        "1.1, one core (iptables)",
    ),
    (
        "nftables masquerade",
        10_000,
        "source NAT",
        "3.2 on 29 cores: 0.11 a core (iptables)",
    ),
    (
        "bare FIB forward",
        1,
        "XDP, a look-up each",
        "4.6, one core",
    ),
    (
        "bare FIB forward",
        10_000,
        "XDP, a look-up each",
        "14 on 4 cores: 3.5 a core",
    ),
];

fn articles(text: &mut String, rows: &[&Row]) {
    let rows: Vec<&&Row> = rows
        .iter()
        .filter(|row| row.name.contains("-v4-"))
        .collect();
    if rows.is_empty() {
        return;
    }
    text.push_str(
        "\n## Beside the articles\n\nThe articles' router had 32 cores of its own and Intel X710 cards, ours has one virtual core and veth \
         pairs: compare lines with each other rather than columns. Millions of packets a second that came out, \
         IPv4, one direction; ours is the device's one core.\n\n\
         | | flows | the articles, M/s | the same here, M/s | Headgate doing the same, M/s |\n| --- | ---: | --- | ---: | ---: |\n",
    );
    let rate = |series: &Series| format!("{:.2}", headgate_benches::median(series.rates.clone()));
    for (who, flows, what, theirs) in ARTICLES {
        let ending = format!("-{flows}");
        let found = rows.iter().find_map(|row| {
            let peer = row.peers.iter().find(|peer| peer.name == who)?;
            // Beside the kernel without state stands what keeps none either.
            let stateless = who != "kernel" || row.name.contains("routed");
            (row.name.ends_with(&ending) && stateless).then_some((peer, &row.ours))
        });
        let _ = writeln!(
            text,
            "| {what} | {flows} | {theirs} | {} | {} |",
            maybe(found, |(peer, _)| rate(peer)),
            maybe(found, |(_, ours)| rate(ours)),
        );
    }
    text.push_str(
        "\nFor comparison, VPP with DPDK in the same series: 8 M/s with one flow and 14 M/s on two cores with 10,000; with NAT 4.3 M/s, \
         and 3.2 M/s on two cores with 16,000 sessions.\n",
    );
}

fn routes(text: &mut String, rows: &[&Row]) {
    if rows.is_empty() {
        return;
    }
    text.push_str(
        "\n## A full routing table\n\nNanoseconds a packet in test runs, as above, on the kernel's table with a handful of routes and with \
         1,000,000 of IPv4 or 200,000 of IPv6, their lengths mixed as in the Internet.\n\n\
         | | full table, ns | a handful of routes, ns |\n| --- | ---: | ---: |\n",
    );
    for row in rows {
        let few = row.peers.first().map(|few| spread(few, 0));
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            row.title,
            spread(&row.ours, 0),
            maybe(few, |few| few)
        );
    }
    notes(text, rows);
}

fn concurrent(text: &mut String, rows: &[&Row]) {
    if rows.is_empty() {
        return;
    }
    text.push_str(
        "\n## Concurrent connections\n\nEstablished by handshakes of the generator through the device, held, then asked by keep-alives. \
         Published of the F5 10200v: 36,000,291 for 60 s.\n\n| | | goal | |\n| --- | ---: | ---: | --- |\n",
    );
    for row in rows {
        let figure = row.ours.median();
        let digits = if row.unit == "GiB" { 2 } else { 0 };
        let goal = match row.goal {
            Some(Goal::Most(most)) => format!("at most {most:.0}"),
            Some(Goal::Least(least)) => format!("{least:.0}"),
            _ => "–".to_owned(),
        };
        let _ = writeln!(
            text,
            "| {} | {figure:.digits$} {} | {goal} | {} |",
            row.title,
            row.unit,
            verdict(row)
        );
    }
    notes(text, rows);
}

fn setup(text: &mut String, rows: &[&Row]) {
    if rows.is_empty() {
        return;
    }
    text.push_str(
        "\n## New connections a second\n\nHandshake, GET, 1 KB, FIN of both ends; the highest rate without a failure, found by halving and then \
         held. Generator and both ends share one core, the device has the other: *alone* is what a second of the device's core sets \
         up, twice for two cores.\n\n| | a second | alone, two cores | F5 10200v, published | |\n| --- | ---: | ---: | ---: | --- |\n",
    );
    for row in rows {
        let alone = row.peers.get(1).map_or(0.0, Series::median) * 2.0;
        let published = row.peers.first().map_or(0.0, Series::median);
        let _ = writeln!(
            text,
            "| {} | {:.0} | {alone:.0} | {published:.0} | {} |",
            row.title,
            row.ours.median(),
            verdict(row)
        );
    }
    notes(text, rows);
}

fn object(text: &mut String, rows: &[&Row]) {
    if rows.is_empty() {
        return;
    }
    text.push_str(
        "\n## One object of 512 KB a connection\n\nThrough a virtual (NAT), between TCP endpoints of the kernel, both on one core; the device has the \
         other. The kernel's device joins segments as they come in (GRO) and forwards them together; XDP sees each by itself, and the kernel \
         first copies it into a page, since it comes from a socket and not from a card.\n\n\
         | | Headgate | nftables DNAT |\n| --- | ---: | ---: |\n",
    );
    for row in rows {
        let digits = if row.unit == "µs" { 0 } else { 2 };
        let peer = row.peers.first().map(|peer| spread(peer, digits));
        let _ = writeln!(
            text,
            "| {}, {} | {} | {} |",
            row.title,
            row.unit,
            spread(&row.ours, digits),
            maybe(peer, |peer| peer)
        );
    }
    notes(text, rows);
}

fn notes(text: &mut String, rows: &[&Row]) {
    let noted: Vec<&&Row> = rows.iter().filter(|row| !row.note.is_empty()).collect();
    if !noted.is_empty() {
        text.push('\n');
    }
    for row in noted {
        let _ = writeln!(text, "- {}: {}", row.title, row.note);
    }
}

fn verdict(row: &Row) -> &'static str {
    match row.met() {
        Some(true) => "met",
        Some(false) => "**not met**",
        None => "",
    }
}

fn maybe<T>(figure: Option<T>, text: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| "–".to_owned(), text)
}

/// The median and, in brackets, the lowest and the highest value.
fn spread(series: &Series, digits: usize) -> String {
    let least = series.rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = series
        .rounds
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    if series.rounds.is_empty() {
        return "–".to_owned();
    }
    format!(
        "{:.digits$} ({least:.digits$} – {most:.digits$})",
        series.median()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_names_middle_and_ends() {
        let series = Series {
            rounds: vec![3.0, 1.0, 2.0],
            ..Series::new("x")
        };
        assert_eq!(spread(&series, 1), "2.0 (1.0 – 3.0)");
        assert_eq!(spread(&Series::new("x"), 1), "–");
    }
}
