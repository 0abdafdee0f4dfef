//! What the programs have counted, and how full their tables are.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;

use serde::Serialize;
use xdp::libbpf_rs::MapCore;
use xdp::map::{self, Mapped};

use crate::abi::{
    Flow4, Flow6, Fragment, FragmentKey, MAGAZINE, Reason, SlotCache, SlotState, Tally,
};
use crate::names::{self, Kind};
use crate::shun::Shuns;
use crate::tables::Tables;

/// What was counted since the tables were made, over all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets, and what happened to flows, by reason, in the order of [`Reason::all`].
    pub reasons: Vec<u64>,
    /// By virtual's name.
    pub virtuals: BTreeMap<String, Counted>,
    /// By member's name.
    pub members: BTreeMap<String, Counted>,
    /// How full the tables are.
    pub tables: Vec<Fill>,
}

/// What is counted of a virtual or a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Packets in both directions, as far as they pass here.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
    /// Flows begun.
    pub flows: u64,
}

/// How full a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fill {
    /// Its name, as the configuration's `tables` have it, with the family where there are two.
    pub table: &'static str,
    /// Entries, those whose time is out and that nobody came across since among them.
    pub held: u64,
    /// Room for entries.
    pub capacity: u64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It was sent on.
    Sent,
    /// It was left to the kernel.
    Passed,
    /// It was dropped.
    Dropped,
    /// This is no verdict, but something that happened beside one.
    Event,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sent, Self::Passed, Self::Dropped, Self::Event];

    /// As users see it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Passed => "passed",
            Self::Dropped => "dropped",
            Self::Event => "event",
        }
    }
}

/// The stages of a packet's way, in their order.
pub const STAGES: [&str; 8] = [
    "parse", "shun", "fragment", "flow", "icmp", "virtual", "nat", "route",
];

impl Reason {
    /// What it says about the packet.
    pub fn verdict(self) -> Verdict {
        match self.name().split('_').next() {
            Some("forward" | "reply") => Verdict::Sent,
            Some("pass") => Verdict::Passed,
            Some("drop") => Verdict::Dropped,
            _ => Verdict::Event,
        }
    }

    /// The one of [`STAGES`] in which the packet's way was decided; none for an event.
    pub fn stage(self) -> Option<&'static str> {
        if self.verdict() == Verdict::Event {
            return None;
        }
        Some(match self {
            Self::PassNotIp
            | Self::PassMulticast
            | Self::PassNeighbour
            | Self::PassOtherHost
            | Self::DropMalformed => "parse",
            Self::DropShun => "shun",
            Self::ForwardFragment | Self::PassFragment | Self::DropFragment => "fragment",
            Self::ForwardFlow => "flow",
            Self::ForwardIcmp | Self::ReplyIcmp | Self::PassIcmp => "icmp",
            Self::DropNoMember | Self::DropNoNeighbour | Self::DropNotAStart => "virtual",
            Self::DropNoPort | Self::DropNoAddress | Self::DropUserLimit | Self::DropTableFull => {
                "nat"
            }
            _ => "route",
        })
    }
}

impl Stats {
    /// Reads everything. Programs go on counting meanwhile.
    pub fn read(tables: &Tables) -> io::Result<Self> {
        Ok(Self {
            reasons: reasons(tables)?,
            virtuals: counted(tables, "virtual_tallies", Kind::Virtual)?,
            members: counted(tables, "member_tallies", Kind::Member)?,
            tables: fills(tables)?,
        })
    }

    /// How often a reason was counted.
    pub fn of(&self, reason: Reason) -> u64 {
        self.reasons
            .get(reason as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Packets that came to this end.
    pub fn packets(&self, verdict: Verdict) -> u64 {
        self.sum(|reason| reason.verdict() == verdict)
    }

    /// Packets whose way was decided in a stage.
    pub fn decided_in(&self, stage: &str) -> u64 {
        self.sum(|reason| reason.stage() == Some(stage))
    }

    /// Adds what another set of tables has counted: one that drains, for instance. How full tables are stays.
    pub fn add(&mut self, other: &Self) {
        self.reasons
            .resize(self.reasons.len().max(other.reasons.len()), 0);
        for (sum, more) in self.reasons.iter_mut().zip(&other.reasons) {
            *sum += more;
        }
        for (into, from) in [
            (&mut self.virtuals, &other.virtuals),
            (&mut self.members, &other.members),
        ] {
            for (name, counted) in from {
                into.entry(name.clone()).or_default().add(*counted);
            }
        }
    }

    fn sum(&self, wanted: impl Fn(Reason) -> bool) -> u64 {
        Reason::all()
            .filter(|reason| wanted(*reason))
            .map(|reason| self.of(reason))
            .sum()
    }
}

impl Counted {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.flows += other.flows;
    }
}

/// How many flows hold slots of the table of a family: `flows4` or `flows6`.
pub fn slots_held(tables: &Tables, family: usize) -> io::Result<u64> {
    let table = tables.mapped(FLOWS[family & 1])?;
    let states = tables.mapped("slot_states")?;
    let Some(state) = states.read::<SlotState>(family & 1) else {
        return Ok(0);
    };
    let used = u64::from(state.fresh).min(table.len() as u64);
    let caches =
        map::per_cpu::<u32, SlotCache>(tables.table("slot_caches")?, &(family as u32 & 1))?
            .unwrap_or_default();
    let cached: u64 = caches
        .iter()
        .map(|cache| {
            u64::from(cache.loaded.count)
                + u64::from(cache.spare.count)
                + u64::from(cache.end.saturating_sub(cache.next))
        })
        .sum();
    let free = cached + in_depot(&table, state.depot);
    Ok(used.saturating_sub(free))
}

const FLOWS: [&str; 2] = ["flows4", "flows6"];

/// Slots in the depot's magazines. Each begins with the slot after it and the magazine after it, plus one.
fn in_depot(table: &Mapped, depot: u64) -> u64 {
    let mut magazines = 0;
    let mut next = depot as u32;
    // Programs change the chain meanwhile: it must not be followed in a circle.
    let most = table.len() as u64 / u64::from(MAGAZINE);
    while next != 0 && magazines < most {
        let Some(words) = table.element(next as usize - 1) else {
            break;
        };
        magazines += 1;
        next = words
            .get(1)
            .map_or(0, |magazine| magazine.load(Ordering::Relaxed));
    }
    magazines * u64::from(MAGAZINE)
}

fn reasons(tables: &Tables) -> io::Result<Vec<u64>> {
    // The table has room for reasons that are yet to come.
    const COUNTERS: usize = 64;
    let sums: [u64; COUNTERS] = map::per_cpu_sum(tables.table("counters")?, &0u32)?;
    Ok(sums[..Reason::COUNT].to_vec())
}

fn counted(tables: &Tables, tallies: &str, kind: Kind) -> io::Result<BTreeMap<String, Counted>> {
    let names = match tables.table(names::TABLE) {
        Ok(table) => names::of_kind(table, kind)?,
        Err(_) => BTreeMap::new(),
    };
    let table = tables.table(tallies)?;
    let mut all: BTreeMap<String, Counted> = BTreeMap::new();
    if names.is_empty() {
        map::per_cpu_entries(table, |number: u32, values: &[Tally]| {
            let sum = sum(values);
            if sum != Counted::default() {
                all.insert(format!("#{number}"), sum);
            }
        })?;
        return Ok(all);
    }
    for (number, name) in names {
        let values = map::per_cpu::<u32, Tally>(table, &number)?.unwrap_or_default();
        all.entry(name).or_default().add(sum(&values));
    }
    Ok(all)
}

fn sum(values: &[Tally]) -> Counted {
    let mut sum = Counted::default();
    for tally in values {
        sum.add(Counted {
            packets: tally.packets,
            bytes: tally.bytes,
            flows: tally.flows,
        });
    }
    sum
}

fn fills(tables: &Tables) -> io::Result<Vec<Fill>> {
    let capacity = |name: &str| {
        tables
            .table(name)
            .map(|table| u64::from(table.max_entries()))
    };
    let shunned = Shuns::new(tables, 1)?.held();
    let mut fragments = 0;
    map::entries(tables.table("fragments")?, |_: FragmentKey, _: Fragment| {
        fragments += 1;
    })?;
    let mut users = 0;
    map::entries(tables.table("users")?, |_: [u8; 16], flows: u32| {
        users += u64::from(flows != 0);
    })?;
    let fill = |table, of: &str, held| {
        Ok::<_, io::Error>(Fill {
            table,
            held,
            capacity: capacity(of)?,
        })
    };
    Ok(vec![
        fill("flows_v4", "flows4", slots_held(tables, 0)?)?,
        fill("flows_v6", "flows6", slots_held(tables, 1)?)?,
        fill(
            "half_open_v4",
            "half_flows4",
            half_held(tables, "half_flows4", std::mem::offset_of!(Flow4, state))?,
        )?,
        fill(
            "half_open_v6",
            "half_flows6",
            half_held(tables, "half_flows6", std::mem::offset_of!(Flow6, state))?,
        )?,
        fill("fragments", "fragments", fragments)?,
        fill("users", "users", users)?,
        fill("shuns_v4", "shuns4", shunned.addresses_v4)?,
        fill("shuns_v6", "shuns6", shunned.addresses_v6)?,
        fill("shun_prefixes_v4", "shun_prefixes4", shunned.prefixes_v4)?,
        fill("shun_prefixes_v6", "shun_prefixes6", shunned.prefixes_v6)?,
    ])
}

/// Slots of half-open flows that hold one. Their state is at byte `at`.
fn half_held(tables: &Tables, name: &str, at: usize) -> io::Result<u64> {
    let table = tables.mapped(name)?;
    let stride = table.stride() / size_of::<u32>();
    let words = table.words().iter().skip(at / 4).step_by(stride);
    Ok(words
        .filter(|word| word.load(Ordering::Relaxed).to_ne_bytes()[at % 4] != 0)
        .count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_a_packet_has_a_stage_and_events_have_none() {
        for reason in Reason::all() {
            let event = reason.verdict() == Verdict::Event;
            let stage = reason.stage();
            assert_eq!(stage.is_none(), event, "{}", reason.name());
            assert!(stage.is_none_or(|stage| STAGES.contains(&stage)));
        }
        assert_eq!(Reason::TableMiss.verdict(), Verdict::Event);
        assert_eq!(Reason::ReplyIcmp.verdict(), Verdict::Sent);
    }

    #[test]
    fn what_a_set_that_drains_has_counted_is_not_lost() {
        let of = |packets| Stats {
            reasons: vec![packets; Reason::COUNT],
            virtuals: BTreeMap::from([(
                "web".to_owned(),
                Counted {
                    packets,
                    ..Counted::default()
                },
            )]),
            ..Stats::default()
        };
        let mut sum = of(1);
        sum.add(&of(2));
        assert_eq!(sum.of(Reason::ForwardFlow), 3);
        assert_eq!(sum.virtuals["web"].packets, 3);
        let stages: u64 = STAGES.iter().map(|stage| sum.decided_in(stage)).sum();
        let verdicts: u64 = Verdict::ALL[..3].iter().map(|v| sum.packets(*v)).sum();
        assert_eq!(stages, verdicts);
    }
}
