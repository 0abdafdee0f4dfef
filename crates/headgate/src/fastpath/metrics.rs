//! What the fast path counts, among the process's metrics.

use control::Exposition;
use fastpath::abi::Reason;
use fastpath::stats::{Counted, Stats, Verdict};
use std::collections::BTreeMap;

/// Writes them.
pub(crate) fn write(out: &mut Exposition, stats: &Stats) {
    out.family(
        "fastpath_packets_total",
        "counter",
        "Packets that interfaces of the fast path received, by what became of them, why, and the stage that decided it.",
    );
    for reason in Reason::all() {
        if let Some(stage) = reason.stage() {
            let labels = [
                ("verdict", reason.verdict().name()),
                ("reason", reason.name()),
                ("stage", stage),
            ];
            out.sample("fastpath_packets_total", &labels, stats.of(reason));
        }
    }
    for reason in Reason::all().filter(|reason| reason.verdict() == Verdict::Event) {
        let name = format!("fastpath_{}_total", reason.name());
        out.family(&name, "counter", &capitalised(reason.help()));
        out.sample(&name, &[], stats.of(reason));
    }
    tallies(out, "virtual", &stats.virtuals);
    tallies(out, "member", &stats.members);
    out.family(
        "fastpath_table_entries",
        "gauge",
        "Entries of a table of the fast path; those whose time is out count until somebody comes across them.",
    );
    for fill in &stats.tables {
        out.sample(
            "fastpath_table_entries",
            &[("table", fill.table)],
            fill.held,
        );
    }
    out.family(
        "fastpath_table_capacity",
        "gauge",
        "Entries that a table of the fast path has room for.",
    );
    for fill in &stats.tables {
        out.sample(
            "fastpath_table_capacity",
            &[("table", fill.table)],
            fill.capacity,
        );
    }
}

fn tallies(out: &mut Exposition, what: &str, counted: &BTreeMap<String, Counted>) {
    type Of = fn(&Counted) -> u64;
    let kinds: [(&str, Of); 3] = [
        ("packets", |counted| counted.packets),
        ("bytes", |counted| counted.bytes),
        ("flows", |counted| counted.flows),
    ];
    for (unit, of) in kinds {
        let name = format!("fastpath_{what}_{unit}_total");
        out.family(&name, "counter", "Of the fast path's virtuals and members.");
        for (label, counted) in counted {
            out.sample(&name, &[(what, label)], of(counted));
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}
