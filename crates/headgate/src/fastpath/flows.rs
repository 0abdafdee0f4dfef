//! `headgate flows`.

use super::args::{FlowsCommand, Kind, Where, Which};
use super::text::{count, table, time};
use super::{Error, numbers, print, print_json, sight};
use fastpath::Sight;
use fastpath::abi::{State, Way};
use fastpath::flows::{Count, Filter, Flow};
use fastpath::see::{name, protocol};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Lists, counts or ends flows.
pub(super) fn flows(place: &Where, what: &FlowsCommand) -> Result<(), Error> {
    match what {
        FlowsCommand::List { which, limit, json } => list(place, which, *limit, *json),
        FlowsCommand::Count { which, json } => {
            let sight = sight(place)?;
            let count = sight.count(&filter(&sight, which)?).map_err(Error::Table)?;
            match json {
                true => print_json(&counted(&count)),
                false => print(&render(&count)),
            }
        }
        FlowsCommand::End { which, all } => {
            if which.is_all() && !all {
                return Err(Error::EveryFlow);
            }
            let sight = sight(place)?;
            let ended = sight.end(&filter(&sight, which)?).map_err(Error::Table)?;
            print(&format!("{} flows ended\n", count(ended)))
        }
    }
}

fn filter(sight: &Sight, which: &Which) -> Result<Filter, Error> {
    which.filter(|kind, name| numbers(sight, kind, name))
}

fn list(place: &Where, which: &Which, limit: usize, json: bool) -> Result<(), Error> {
    let sight = sight(place)?;
    let filter = filter(&sight, which)?;
    // One more, to know whether there are more.
    let mut flows = sight
        .flows(&filter, limit.saturating_add(1))
        .map_err(Error::Table)?;
    let more = flows.len() > limit;
    flows.truncate(limit);
    let names = Names::read(&sight)?;
    if json {
        let rows: Vec<Value> = flows.iter().map(|flow| names.json(flow)).collect();
        return print_json(&rows);
    }
    let rows: Vec<Vec<String>> = flows.iter().map(|flow| names.row(flow)).collect();
    let mut out = table(
        &[
            "PROTO",
            "STATE",
            "SOURCE",
            "DESTINATION",
            "WAY",
            "LEAVES AS",
            "VIRTUAL",
            "MEMBER",
            "RULE",
            "AGE",
            "SILENT",
            "LEFT",
        ],
        &["AGE", "SILENT", "LEFT"],
        &rows,
    );
    if more {
        out.push_str(&format!(
            "the first {} are shown; --limit shows more, `headgate flows count` counts\n",
            count(limit as u64)
        ));
    }
    print(&out)
}

/// What numbers are called.
struct Names {
    virtuals: BTreeMap<u32, String>,
    members: BTreeMap<u32, String>,
    rules: BTreeMap<u32, String>,
}

impl Names {
    fn read(sight: &Sight) -> Result<Self, Error> {
        let of = |kind| sight.names(kind).map_err(Error::Table);
        Ok(Self {
            virtuals: of(Kind::Virtual)?,
            members: of(Kind::Member)?,
            rules: of(Kind::Rule)?,
        })
    }

    fn of(names: &BTreeMap<u32, String>, number: u16) -> Option<String> {
        (number != 0).then(|| name(names, number.into()))
    }

    fn row(&self, flow: &Flow) -> Vec<String> {
        let named = |names, number| Self::of(names, number).unwrap_or_else(|| "-".to_owned());
        let leaves = match flow.way {
            Way::Translate => format!("{} > {}", flow.new_source, flow.new_destination),
            _ => "-".to_owned(),
        };
        vec![
            protocol(flow.protocol),
            state(flow),
            flow.source.to_string(),
            flow.destination.to_string(),
            flow.way.name().to_owned(),
            leaves,
            named(&self.virtuals, flow.virtual_server),
            named(&self.members, flow.member),
            named(&self.rules, flow.rule),
            time(flow.age),
            time(flow.silent),
            time(flow.left),
        ]
    }

    fn json(&self, flow: &Flow) -> Value {
        let translated = flow.way == Way::Translate;
        json!({
            "protocol": protocol(flow.protocol),
            "state": flow.state.name(),
            "half_open": flow.half_open,
            "picked_up": flow.picked_up,
            "way": flow.way.name(),
            "source": flow.source,
            "destination": flow.destination,
            "new_source": translated.then_some(flow.new_source),
            "new_destination": translated.then_some(flow.new_destination),
            "virtual": Self::of(&self.virtuals, flow.virtual_server),
            "member": Self::of(&self.members, flow.member),
            "rule": Self::of(&self.rules, flow.rule),
            "age": flow.age.as_secs_f64(),
            "silent": flow.silent.as_secs_f64(),
            "left": flow.left.as_secs_f64(),
        })
    }
}

/// The state; one that waits for an answer is marked so where the state does not say it.
fn state(flow: &Flow) -> String {
    let name = flow.state.name();
    match flow.half_open && !matches!(flow.state, State::SynSent | State::Udp) {
        true => format!("{name} (half-open)"),
        false => name.to_owned(),
    }
}

fn render(counted: &Count) -> String {
    let mut rows = vec![
        vec!["all".to_owned(), count(counted.flows)],
        vec!["IPv4".to_owned(), count(counted.v4)],
        vec!["IPv6".to_owned(), count(counted.v6)],
        vec!["half-open".to_owned(), count(counted.half_open)],
    ];
    let states = State::ALL.iter().map(|state| state.name());
    let ways = Way::ALL.iter().map(|way| way.name());
    for (name, number) in states
        .zip(counted.states)
        .chain(ways.zip(counted.ways))
        .filter(|(_, number)| *number > 0)
    {
        rows.push(vec![name.to_owned(), count(number)]);
    }
    table(&["FLOWS", "COUNT"], &["COUNT"], &rows)
}

fn counted(count: &Count) -> Value {
    let states: Map<String, Value> = State::ALL
        .iter()
        .zip(count.states)
        .skip(1)
        .map(|(state, number)| (state.name().to_owned(), number.into()))
        .collect();
    let ways: Map<String, Value> = Way::ALL
        .iter()
        .zip(count.ways)
        .map(|(way, number)| (way.name().to_owned(), number.into()))
        .collect();
    json!({
        "flows": count.flows,
        "ipv4": count.v4,
        "ipv6": count.v6,
        "half_open": count.half_open,
        "states": states,
        "ways": ways,
    })
}
