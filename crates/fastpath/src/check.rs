//! Whether the connection table is sound: what its entries and slots promise each other is looked up from user space,
//! whatever state the programs have left them in. Repairing is left to nobody: a wrong table is a mistake in a program.
//!
//! Packets may change the table meanwhile, and what is half done looks wrong: a finding counts if it stays.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use xdp::map::{self, Mapped, Pod};

use crate::abi::{
    Addr6, FLOW_COUNTED, Flow4, Flow6, MAGAZINE, Magazine, Settings, SlotCache, SlotState, State,
    WAYS, Way, narrowed, widened,
};
use crate::hash::{End, half_bucket, half_tag, hash, places, tag};
use crate::tables::Tables;

/// Looks through the tables of one family (4 or 6) of programs that were told `settings`.
///
/// Fails when a table is missing, cannot be read or is not of this layout.
pub fn check(family: u8, settings: &Settings, tables: &Tables) -> io::Result<Report> {
    let mapped = |name: &str| tables.mapped(&format!("{name}{family}"));
    let flows = |name: &str| {
        Ok::<_, io::Error>(Flows {
            table: mapped(name)?,
            family,
        })
    };
    let mut check = Check {
        family,
        seed: settings.seed,
        flows: flows("flows")?,
        index: mapped("index")?,
        half_flows: flows("half_flows")?,
        half_index: mapped("half_index")?,
        report: Report::default(),
    };
    let at = u32::from(family == 6);
    let state: SlotState = tables.get("slot_states", &at)?.unwrap_or_default();
    let caches: Option<Vec<SlotCache>> = map::per_cpu(tables.table("slot_caches")?, &at)?;
    let entries = check.entries();
    check.slots(&entries);
    check.free_slots(&state, &caches.unwrap_or_default());
    check.half_open();
    check.users(&tables.entries("users")?);
    Ok(check.report)
}

/// The same of a table that packets change meanwhile: it looks twice, and reports what is wrong both times.
pub fn check_live(family: u8, settings: &Settings, tables: &Tables) -> io::Result<Report> {
    let first = check(family, settings, tables)?;
    if first.wrong.is_empty() && first.lost == 0 {
        return Ok(first);
    }
    let mut second = check(family, settings, tables)?;
    second.wrong.retain(|wrong| first.wrong.contains(wrong));
    second.lost = second.lost.min(first.lost);
    Ok(second)
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Flows in the table, those whose time is out among them.
    pub flows: usize,
    /// Flows that wait for an answer, likewise.
    pub half_open: usize,
    /// Slots that are free.
    pub free: usize,
    /// Slots that are neither: lost until the table is made anew.
    pub lost: usize,
    /// What is wrong.
    pub wrong: Vec<Wrong>,
}

/// A promise that is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// An entry of the index leads to no slot, to a free one, or to a flow that does not belong there.
    Entry {
        /// The bucket and the place in it.
        bucket: usize,
        /// From 0 to 7.
        way: usize,
        /// The slot it leads to.
        slot: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A flow has not the entries by which its packets find it, each once.
    Slot {
        /// The slot.
        slot: usize,
        /// The flow in it.
        flow: Tuple,
        /// How many entries lead to it.
        entries: usize,
    },
    /// A slot is free twice, or free and in use.
    Free {
        /// The slot.
        slot: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two translated flows have the same replies.
    Replies {
        /// The slots of both.
        slots: [usize; 2],
        /// One of them.
        flow: Tuple,
    },
    /// A half-open flow whose packets do not find it.
    HalfOpen {
        /// Its slot.
        slot: usize,
        /// The flow.
        flow: Tuple,
    },
    /// A user's count of flows is not that of its flows.
    User {
        /// The user.
        user: IpAddr,
        /// The count.
        counted: u32,
        /// The flows.
        flows: u32,
    },
}

/// A flow's ends: as its first packet came, and as it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuple {
    /// The IP protocol.
    pub proto: u8,
    /// Source and destination.
    pub original: [SocketAddr; 2],
    /// After translation.
    pub translated: [SocketAddr; 2],
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [src, dst] = self.original;
        write!(f, "protocol {} {src} > {dst}", self.proto)?;
        if self.translated != self.original {
            let [src, dst] = self.translated;
            write!(f, " as {src} > {dst}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry {
                bucket,
                way,
                slot,
                why,
            } => {
                write!(
                    f,
                    "entry {way} of bucket {bucket} leads to slot {slot}: {why}"
                )
            }
            Self::Slot {
                slot,
                flow,
                entries,
            } => {
                write!(
                    f,
                    "slot {slot} ({flow}) has {entries} entries, not one for each way it is looked for"
                )
            }
            Self::Free { slot, why } => write!(f, "slot {slot} is free and {why}"),
            Self::Replies {
                slots: [a, b],
                flow,
            } => {
                write!(f, "slots {a} and {b} ({flow}) have the same replies")
            }
            Self::HalfOpen { slot, flow } => {
                write!(f, "half-open slot {slot} ({flow}) has no entry")
            }
            Self::User {
                user,
                counted,
                flows,
            } => {
                write!(f, "user {user} counts {counted} flows and has {flows}")
            }
        }
    }
}

struct Check {
    family: u8,
    seed: [u64; 2],
    flows: Flows,
    index: Mapped,
    half_flows: Flows,
    half_index: Mapped,
    report: Report,
}

impl Check {
    /// For each slot, how many entries lead to it under its original tuple, and under that of its replies. Entries that
    /// lead nowhere are wrong.
    fn entries(&mut self) -> Vec<[u8; 2]> {
        let mut leading = vec![[0; 2]; self.flows.len()];
        let buckets = self.index.len();
        for bucket in 0..buckets {
            for (way, entry) in self.bucket(&self.index, bucket).into_iter().enumerate() {
                if entry == 0 {
                    continue;
                }
                let (entered, slot) = ((entry >> 32) as u32, entry as u32);
                let mut wrong = |why| {
                    self.report.wrong.push(Wrong::Entry {
                        bucket,
                        way,
                        slot,
                        why,
                    });
                };
                let Some(flow) = self.flows.get(slot as usize) else {
                    wrong("there is no such slot");
                    continue;
                };
                if !flow.is_there() {
                    wrong("it is free");
                    continue;
                }
                let hashes = flow.hashes(self.family, self.seed);
                match hashes.iter().position(|hash| {
                    tag(*hash) == entered && places(*hash, buckets).contains(&bucket)
                }) {
                    Some(which) => leading[slot as usize][which] += 1,
                    None => wrong("its flow does not belong there"),
                }
            }
        }
        leading
    }

    /// Each flow has an entry for each way it is looked for, and no two translated ones the same replies.
    fn slots(&mut self, entries: &[[u8; 2]]) {
        // By hash, since a table of all tuples would be larger than that of the flows.
        let mut replies = Vec::new();
        for (slot, leading) in entries.iter().enumerate() {
            let Some(flow) = self.flows.get(slot).filter(Flow::is_there) else {
                continue;
            };
            self.report.flows += 1;
            let hashes = flow.hashes(self.family, self.seed);
            let wanted = match hashes[..] {
                [original, reply] if original == reply => [2, 0],
                [_, _] => [1, 1],
                _ => [1, 0],
            };
            if *leading != wanted {
                let (flow, entries) = (flow.tuple(self.family), leading.iter().sum::<u8>().into());
                self.report.wrong.push(Wrong::Slot {
                    slot,
                    flow,
                    entries,
                });
            }
            if let [_, reply] = hashes[..] {
                replies.push((reply, slot));
            }
        }
        replies.sort_unstable();
        for pair in replies.windows(2) {
            let slots = [pair[0].1, pair[1].1];
            if pair[0].0 == pair[1].0
                && let [Some(a), Some(b)] = slots.map(|slot| self.flows.get(slot))
                && (a.proto, a.ends[1]) == (b.proto, b.ends[1])
            {
                let flow = b.tuple(self.family);
                self.report.wrong.push(Wrong::Replies { slots, flow });
            }
        }
    }

    /// Every slot is free once, or in use.
    fn free_slots(&mut self, state: &SlotState, caches: &[SlotCache]) {
        let slots = self.flows.len() as u32;
        let mut free = vec![false; self.flows.len()];
        let mut found = Vec::new();
        for cache in caches {
            for magazine in [cache.loaded, cache.spare] {
                found.extend(self.chain(magazine));
            }
            found.extend(cache.next..cache.end);
        }
        let mut depot = state.depot as u32;
        // No longer than there are magazines, should the chain go round.
        for _ in 0..=slots / MAGAZINE {
            let Some(head) = depot.checked_sub(1) else {
                break;
            };
            found.extend(self.chain(Magazine {
                head,
                count: MAGAZINE,
            }));
            depot = self.flows.words(head as usize)[1];
        }
        found.extend(state.fresh.min(slots)..slots);
        for slot in found {
            let Some(known) = free.get_mut(slot as usize) else {
                let why = "there is none of that number";
                self.report.wrong.push(Wrong::Free { slot, why });
                continue;
            };
            if *known {
                let why = "free another time";
                self.report.wrong.push(Wrong::Free { slot, why });
                continue;
            }
            *known = true;
            self.report.free += 1;
            if self
                .flows
                .get(slot as usize)
                .is_some_and(|flow| flow.is_there())
            {
                let why = "holds a flow";
                self.report.wrong.push(Wrong::Free { slot, why });
            }
        }
        self.report.lost = (0..self.flows.len())
            .filter(|slot| {
                !free[*slot] && !self.flows.get(*slot).is_some_and(|flow| flow.is_there())
            })
            .count();
    }

    fn chain(&self, magazine: Magazine) -> Vec<u32> {
        let mut chain = Vec::new();
        let mut next = magazine.head;
        for _ in 0..magazine.count {
            chain.push(next);
            if next as usize >= self.flows.len() {
                break;
            }
            next = self.flows.words(next as usize)[0];
        }
        chain
    }

    /// A half-open flow is in the slot that is its entry's place.
    fn half_open(&mut self) {
        for slot in 0..self.half_flows.len() {
            let Some(flow) = self.half_flows.get(slot).filter(Flow::is_there) else {
                continue;
            };
            self.report.half_open += 1;
            let (bucket, way) = (slot / WAYS, slot % WAYS);
            let entry = self.bucket(&self.half_index, bucket)[way];
            let hash = flow.hashes(self.family, self.seed)[0];
            let leads = entry as u32 & HALF_SLOT == slot as u32
                && (entry >> 32) as u32 == half_tag(hash)
                && half_bucket(hash, self.half_index.len()) == bucket;
            if !leads {
                let flow = flow.tuple(self.family);
                self.report.wrong.push(Wrong::HalfOpen { slot, flow });
            }
        }
    }

    /// A user's flows are as many as are counted.
    fn users(&mut self, users: &[(Addr6, u32)]) {
        let mut flows: HashMap<Addr6, u32> = HashMap::new();
        for table in [&self.flows, &self.half_flows] {
            for flow in (0..table.len()).filter_map(|slot| table.get(slot)) {
                if flow.is_there() && flow.flags & FLOW_COUNTED != 0 {
                    let user = widened(flow.ends[0][0].address(self.family));
                    *flows.entry(user).or_default() += 1;
                }
            }
        }
        let counted: HashMap<Addr6, u32> = users.iter().copied().collect();
        for (user, flows) in flows {
            let counted = counted.get(&user).copied().unwrap_or(0);
            if counted != flows {
                let user = narrowed(user, self.family);
                self.report.wrong.push(Wrong::User {
                    user,
                    counted,
                    flows,
                });
            }
        }
    }

    fn bucket(&self, index: &Mapped, bucket: usize) -> [u64; WAYS] {
        index.read(bucket).unwrap_or_default()
    }
}

/// An entry of a half-open flow is tag << 32 | age << 24 | slot.
const HALF_SLOT: u32 = 0xff_ffff;

/// A flow of either family.
struct Flow {
    proto: u8,
    state: u8,
    flags: u8,
    way: u8,
    /// Source and destination, as they came and as they left.
    ends: [[End; 2]; 2],
}

impl Flow {
    fn is_there(&self) -> bool {
        self.state != State::Free as u8
    }

    fn is_translated(&self) -> bool {
        self.way == Way::Translate as u8
    }

    /// The hashes under which it is looked for.
    fn hashes(&self, family: u8, seed: [u64; 2]) -> Vec<u64> {
        let ways = if self.is_translated() { 2 } else { 1 };
        self.ends[..ways]
            .iter()
            .map(|ends| hash(ends, self.proto, family, seed))
            .collect()
    }

    fn tuple(&self, family: u8) -> Tuple {
        let sockets = |ends: &[End; 2]| ends.map(|end| end.socket(family));
        Tuple {
            proto: self.proto,
            original: sockets(&self.ends[0]),
            translated: sockets(&self.ends[1]),
        }
    }
}

/// A table of flows.
struct Flows {
    table: Mapped,
    family: u8,
}

impl Flows {
    fn len(&self) -> usize {
        self.table.len()
    }

    fn get(&self, slot: usize) -> Option<Flow> {
        macro_rules! flow {
            ($flow:expr) => {{
                let flow = $flow;
                Flow {
                    proto: flow.proto,
                    state: flow.state,
                    flags: flow.flags,
                    way: flow.way,
                    ends: [
                        [
                            End::of(&flow.src, flow.sport),
                            End::of(&flow.dst, flow.dport),
                        ],
                        [
                            End::of(&flow.nsrc, flow.nsport),
                            End::of(&flow.ndst, flow.ndport),
                        ],
                    ],
                }
            }};
        }
        match self.family {
            4 => self.read::<Flow4>(slot).map(|flow| flow!(flow)),
            _ => self.read::<Flow6>(slot).map(|flow| flow!(flow)),
        }
    }

    fn read<T: Pod>(&self, slot: usize) -> Option<T> {
        self.table.read(slot)
    }

    /// The first words of a free slot: the next of its magazine, and the next magazine.
    fn words(&self, slot: usize) -> [u32; 2] {
        let both: u64 = self.read(slot).unwrap_or_default();
        [both as u32, (both >> 32) as u32]
    }
}
