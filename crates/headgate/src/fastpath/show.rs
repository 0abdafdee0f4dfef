//! `headgate fastpath show`.

use super::args::Where;
use super::text::{bytes, count, table, time};
use super::{Error, print, print_json, sight};
use fastpath::see::Show;
use fastpath::stats::Fill;
use std::time::Duration;

/// Shows what is attached where.
pub(super) fn show(place: &Where, json: bool) -> Result<(), Error> {
    let show = sight(place)?.show().map_err(Error::Table)?;
    match json {
        true => print_json(&show),
        false => print(&render(&show)),
    }
}

/// Tables and how full they are.
pub(super) fn fills(fills: &[Fill]) -> String {
    let rows: Vec<Vec<String>> = fills
        .iter()
        .map(|fill| {
            let share = fill.held as f64 * 100.0 / fill.capacity.max(1) as f64;
            vec![
                fill.table.to_owned(),
                count(fill.held),
                count(fill.capacity),
                format!("{share:.1} %"),
            ]
        })
        .collect();
    table(
        &["TABLE", "HELD", "CAPACITY", "FULL"],
        &["HELD", "CAPACITY", "FULL"],
        &rows,
    )
}

fn render(show: &Show) -> String {
    let mut out = format!(
        "pinned {}  layout {}  forward {}  memory {}\n",
        show.pins.display(),
        show.layout,
        show.forward,
        bytes(show.memory),
    );
    for earlier in &show.draining {
        out.push_str(&format!(
            "an earlier table, {}, drains: {} flows left\n",
            earlier.layout,
            count(earlier.flows)
        ));
    }
    let timeouts: Vec<String> = show
        .timeouts
        .iter()
        .map(|(state, seconds)| format!("{state} {}", time(Duration::from_secs_f64(*seconds))))
        .collect();
    out.push_str(&format!("timeouts: {}\n", timeouts.join(", ")));
    if !show.rules.is_empty() {
        out.push_str(&format!("source NAT: {}\n", show.rules.join(", ")));
    }
    let rows: Vec<Vec<String>> = show
        .interfaces
        .iter()
        .map(|interface| {
            vec![
                interface.name.clone(),
                interface.ifindex.to_string(),
                interface.mode.to_owned(),
                match (interface.program, interface.current) {
                    (Some(id), true) => id.to_string(),
                    (Some(id), false) => format!("{id} (not this table's)"),
                    (None, _) => "none".to_owned(),
                },
                interface.queues.to_string(),
                interface.mtu.to_string(),
                if interface.up { "up" } else { "down" }.to_owned(),
            ]
        })
        .collect();
    out.push('\n');
    out.push_str(&table(
        &[
            "INTERFACE",
            "NUMBER",
            "MODE",
            "PROGRAM",
            "QUEUES",
            "MTU",
            "LINK",
        ],
        &["NUMBER", "QUEUES", "MTU"],
        &rows,
    ));
    out.push('\n');
    out.push_str(&fills(&show.tables));
    if !show.virtuals.is_empty() {
        out.push('\n');
        let rows: Vec<Vec<String>> = show
            .virtuals
            .iter()
            .map(|one| {
                vec![
                    one.name.clone(),
                    one.mode.to_owned(),
                    one.snat.to_owned(),
                    one.affinity.to_owned(),
                    one.members.to_string(),
                    one.listen.join(" "),
                ]
            })
            .collect();
        out.push_str(&table(
            &["VIRTUAL", "MODE", "SNAT", "AFFINITY", "MEMBERS", "LISTEN"],
            &["MEMBERS"],
            &rows,
        ));
    }
    if !show.members.is_empty() {
        out.push('\n');
        let rows: Vec<Vec<String>> = show
            .members
            .iter()
            .map(|member| {
                vec![
                    member.name.clone(),
                    member.address.to_string(),
                    member.state.to_owned(),
                ]
            })
            .collect();
        out.push_str(&table(&["MEMBER", "ADDRESS", "STATE"], &[], &rows));
    }
    out
}
