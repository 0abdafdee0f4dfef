//! The fast path as it stands, seen from its pins alone: by whoever asks, whether the process that attached it lives or
//! not. How it is shown to people is left to others.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;

use serde::Serialize;
use thiserror::Error;
use xdp::interface;
use xdp::libbpf_rs::{MapCore, MapHandle, MapType};
use xdp::map;
use xdp::require::{self, Missing};

use crate::abi::{
    FORWARD_OFF, FORWARD_ROUTED, MEMBER_DRAIN, MEMBER_UP, Member, SNAT_AUTOMAP, SNAT_POOL,
    Settings, Spans, State, VipKey, VirtualServer, Way, narrowed,
};
use crate::check::{Report, check_live};
use crate::clock::{Clock, ClockError};
use crate::flows::{self, Count, Filter, Flow};
use crate::names::{self, Kind};
use crate::pins::{Pins, Set};
use crate::shun::Shuns;
use crate::stats::{Fill, Stats, slots_held};
use crate::tables::Tables;

/// The fast path behind some pins.
#[derive(Debug)]
pub struct Sight {
    pins: Pins,
    clock: Clock,
    current: Seen,
    draining: Vec<Seen>,
}

/// A set of tables and what its programs were told.
#[derive(Debug)]
struct Seen {
    set: Set,
    tables: Tables,
    settings: Settings,
}

/// Why the fast path cannot be seen.
#[derive(Debug, Error)]
pub enum SeeError {
    /// The machine or the process lacks something.
    #[error("cannot look at the fast path: {0}")]
    Missing(#[from] Missing),
    /// There is none.
    #[error(
        "no fast path is attached here (looked in {}); a `fast_path` in the configuration of `headgate run` attaches one, and --pin or --config tell where else to look", .0.display()
    )]
    None(PathBuf),
    /// The clock cannot be read.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// A pin or a table cannot be read.
    #[error("cannot look at the fast path in {}: {source}", root.display())]
    Table {
        /// Where it is pinned.
        root: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Sight {
    /// Looks at what is pinned there.
    pub fn open(pins: &Pins) -> Result<Self, SeeError> {
        require::check()?;
        let failed = |source| SeeError::Table {
            root: pins.root().to_owned(),
            source,
        };
        let current = pins
            .current()
            .map_err(failed)?
            .ok_or_else(|| SeeError::None(pins.root().to_owned()))?;
        let mut draining = Vec::new();
        for set in pins.sets().map_err(failed)? {
            if set != current && set.is_retired() {
                // One that is gone by now, or of another version, says nothing.
                draining.extend(Seen::open(set).ok());
            }
        }
        let current = Seen::open(current).map_err(failed)?;
        Ok(Self {
            pins: pins.clone(),
            clock: Clock::with_hz(current.settings.hz)?,
            current,
            draining,
        })
    }

    /// The time in jiffies.
    pub fn now(&self) -> io::Result<u32> {
        self.clock.now()
    }

    /// The shun list.
    pub fn shuns(&self) -> io::Result<Shuns<'_>> {
        Shuns::new(&self.current.tables, self.clock.hz())
    }

    /// What was counted, by tables that drain as well.
    pub fn stats(&self) -> io::Result<Stats> {
        let mut stats = Stats::read(&self.current.tables)?;
        for seen in &self.draining {
            stats.add(&Stats::read(&seen.tables)?);
        }
        Ok(stats)
    }

    /// The first `limit` flows that are meant.
    pub fn flows(&self, filter: &Filter, limit: usize) -> io::Result<Vec<Flow>> {
        let now = self.now()?;
        let mut all = Vec::new();
        for seen in self.all() {
            let room = limit - all.len();
            all.extend(flows::list(
                &seen.tables,
                &seen.settings,
                now,
                filter,
                room,
            )?);
        }
        Ok(all)
    }

    /// Counts the flows that are meant.
    pub fn count(&self, filter: &Filter) -> io::Result<Count> {
        let now = self.now()?;
        let mut sum = Count::default();
        for seen in self.all() {
            sum.add(&flows::count(&seen.tables, &seen.settings, now, filter)?);
        }
        Ok(sum)
    }

    /// Ends the flows that are meant, and tells how many.
    pub fn end(&self, filter: &Filter) -> io::Result<u64> {
        let now = self.now()?;
        let mut ended = 0;
        for seen in self.all() {
            ended += flows::end(&seen.tables, &seen.settings, now, filter)?;
        }
        Ok(ended)
    }

    /// Looks whether the tables are sound: those of each layout, and of IPv4 (4) and IPv6 (6) in them.
    pub fn check(&self) -> io::Result<Vec<(String, u8, Report)>> {
        let mut checked = Vec::new();
        for seen in self.all() {
            for family in [4, 6] {
                let report = check_live(family, &seen.settings, &seen.tables)?;
                checked.push((seen.set.layout(), family, report));
            }
        }
        Ok(checked)
    }

    /// What the numbers of one kind are called.
    pub fn names(&self, kind: Kind) -> io::Result<BTreeMap<u32, String>> {
        names::of_kind(self.current.tables.table(names::TABLE)?, kind)
    }

    /// What is attached where, and how it is set.
    pub fn show(&self) -> io::Result<Show> {
        let tables = &self.current.tables;
        let settings = &self.current.settings;
        let seconds = |jiffies: u32| f64::from(jiffies) / f64::from(settings.hz.max(1));
        let states = State::ALL.iter().filter(|state| {
            !matches!(
                state,
                State::Free | State::Ended | State::SynReceived | State::FinServer
            )
        });
        Ok(Show {
            pins: self.pins.root().to_owned(),
            layout: self.current.set.layout(),
            interfaces: self.interfaces()?,
            forward: match settings.forward {
                FORWARD_OFF => "off",
                FORWARD_ROUTED => "routed",
                _ => "tracked",
            },
            memory: memory(tables),
            tables: Stats::read(tables)?.tables,
            timeouts: states
                .map(|state| (state.name(), seconds(settings.timeout[*state as usize])))
                .collect(),
            virtuals: virtuals(tables)?,
            members: members(tables)?,
            rules: self.names(Kind::Rule)?.into_values().collect(),
            draining: self
                .draining
                .iter()
                .map(|seen| {
                    Ok(Draining {
                        layout: seen.set.layout(),
                        flows: slots_held(&seen.tables, 0)? + slots_held(&seen.tables, 1)?,
                    })
                })
                .collect::<io::Result<_>>()?,
        })
    }

    fn all(&self) -> impl Iterator<Item = &Seen> {
        std::iter::once(&self.current).chain(&self.draining)
    }

    fn interfaces(&self) -> io::Result<Vec<Interface>> {
        let current = self.current.set.program("headgate")?;
        let current = xdp::object::id(&current.as_fd())?;
        let mut shown = Vec::new();
        for link in self.pins.links()? {
            let ifindex = link.ifindex();
            let name = interface::name(ifindex)?;
            let program = xdp::attach::attached(ifindex)?.map(|attached| attached.program);
            shown.push(Interface {
                mtu: interface::mtu(&name)?,
                up: interface::is_up(&name)?,
                queues: interface::queues(&name).map_or(1, |(rx, _)| rx),
                ifindex,
                name,
                mode: link.mode().as_str(),
                program,
                current: program == Some(current),
            });
        }
        Ok(shown)
    }
}

impl Seen {
    fn open(set: Set) -> io::Result<Self> {
        let settings = map::get::<u32, Settings>(&set.table(crate::engine::SETTINGS)?, &0)?
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Self {
            tables: set.tables()?,
            set,
            settings,
        })
    }
}

/// What is attached where, and how it is set.
#[derive(Clone, Debug, Serialize)]
pub struct Show {
    /// Where it is pinned.
    pub pins: PathBuf,
    /// The name of its tables' layout.
    pub layout: String,
    /// Interfaces in this network namespace.
    pub interfaces: Vec<Interface>,
    /// `off`, `routed` or `tracked`.
    pub forward: &'static str,
    /// Bytes of its tables, without what the kernel needs to manage them.
    pub memory: u64,
    /// How full they are.
    pub tables: Vec<Fill>,
    /// Seconds that flows are kept without a packet, by state.
    pub timeouts: Vec<(&'static str, f64)>,
    /// Fast virtuals.
    pub virtuals: Vec<Virtual>,
    /// Their members.
    pub members: Vec<MemberShown>,
    /// Names of rules of source NAT, in their order.
    pub rules: Vec<String>,
    /// Earlier tables whose flows have not all ended.
    pub draining: Vec<Draining>,
}

/// An interface of the fast path.
#[derive(Clone, Debug, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub ifindex: u32,
    /// `native` or `generic`.
    pub mode: &'static str,
    /// The kernel's number of the program that it runs.
    pub program: Option<u32>,
    /// Whether that is the program of these tables.
    pub current: bool,
    /// Its largest packet in bytes.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// Its receive queues.
    pub queues: u32,
}

/// A fast virtual.
#[derive(Clone, Debug, Serialize)]
pub struct Virtual {
    /// Its name.
    pub name: String,
    /// Protocol, address and port, or ports.
    pub listen: Vec<String>,
    /// `nat`, `direct-return` or `ipip`.
    pub mode: &'static str,
    /// `none`, `automap` or `pool`.
    pub snat: &'static str,
    /// `none` or `source`.
    pub affinity: &'static str,
    /// Members that get new flows.
    pub members: u16,
}

/// A member as one family of addresses reaches it.
#[derive(Clone, Debug, Serialize)]
pub struct MemberShown {
    /// Its name.
    pub name: String,
    /// Its address; port 0 is the port that was asked for.
    pub address: SocketAddr,
    /// `up`, `drain` or `down`.
    pub state: &'static str,
}

/// Tables that others have replaced.
#[derive(Clone, Debug, Serialize)]
pub struct Draining {
    /// The name of their layout.
    pub layout: String,
    /// Flows they still hold.
    pub flows: u64,
}

/// Bytes that the values of arrays take, by far the most of all, and of entries that hashes hold in advance.
fn memory(tables: &Tables) -> u64 {
    let bytes = |(_, table): (&str, &MapHandle)| {
        let entries = u64::from(table.max_entries());
        let value = u64::from(table.value_size()).next_multiple_of(8);
        match table.map_type() {
            MapType::Array => entries * value,
            MapType::PercpuArray => entries * value * map::possible_cpus().unwrap_or(1) as u64,
            MapType::LruHash => {
                entries * (value + u64::from(table.key_size()).next_multiple_of(8) + 48)
            }
            _ => 0,
        }
    };
    tables.iter().map(bytes).sum()
}

fn virtuals(tables: &Tables) -> io::Result<Vec<Virtual>> {
    let names = names::of_kind(tables.table(names::TABLE)?, Kind::Virtual)?;
    let mut listen: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let transport = |key: &VipKey| protocol(key.proto);
    for (key, number) in tables.entries::<VipKey, u32>("vips")? {
        let at = SocketAddr::new(narrowed(key.addr, key.family), key.port.get());
        let text = format!("{}/{at}", transport(&key));
        listen.entry(number).or_default().push(text);
    }
    for (key, spans) in tables.entries::<VipKey, Spans>("vip_spans")? {
        for span in spans
            .span
            .iter()
            .take_while(|span| span.virtual_server != 0)
        {
            let first = SocketAddr::new(narrowed(key.addr, key.family), span.first);
            let text = format!("{}/{first}-{}", transport(&key), span.last);
            listen.entry(span.virtual_server).or_default().push(text);
        }
    }
    let mut shown = Vec::new();
    for (number, mut listen) in listen {
        let Some(record) = tables.get::<u32, VirtualServer>("virtual_servers", &number)? else {
            continue;
        };
        listen.sort();
        shown.push(Virtual {
            name: name(&names, number),
            listen,
            mode: match Way::of(record.way) {
                Some(Way::Direct) => "direct-return",
                Some(Way::Tunnel) => "ipip",
                _ => "nat",
            },
            snat: match record.source.kind {
                SNAT_AUTOMAP => "automap",
                SNAT_POOL => "pool",
                _ => "none",
            },
            affinity: match record.affinity {
                0 => "none",
                _ => "source",
            },
            members: record.members,
        });
    }
    Ok(shown)
}

fn members(tables: &Tables) -> io::Result<Vec<MemberShown>> {
    let mut shown = Vec::new();
    for (number, name) in names::of_kind(tables.table(names::TABLE)?, Kind::Member)? {
        if let Some(member) = tables.get::<u32, Member>("members", &number)? {
            shown.push(MemberShown {
                name,
                address: SocketAddr::new(narrowed(member.addr, member.family), member.port.get()),
                state: match member.state {
                    MEMBER_UP => "up",
                    MEMBER_DRAIN => "drain",
                    _ => "down",
                },
            });
        }
    }
    Ok(shown)
}

/// The name of a number, or the number as text.
pub fn name(names: &BTreeMap<u32, String>, number: u32) -> String {
    match names.get(&number) {
        Some(name) => name.clone(),
        None => format!("#{number}"),
    }
}

/// The name of an IP protocol, or its number as text.
pub fn protocol(number: u8) -> String {
    match PROTOCOLS.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => (*name).to_owned(),
        None => number.to_string(),
    }
}

/// The number of an IP protocol given by its name or number.
pub fn protocol_number(text: &str) -> Option<u8> {
    let known = PROTOCOLS
        .iter()
        .find(|(_, name)| name.eq_ignore_ascii_case(text));
    known.map_or_else(|| text.parse().ok(), |(number, _)| Some(*number))
}

// IANA's Assigned Internet Protocol Numbers.
const PROTOCOLS: [(u8, &str); 9] = [
    (1, "icmp"),
    (4, "ipip"),
    (6, "tcp"),
    (17, "udp"),
    (41, "ipv6"),
    (47, "gre"),
    (50, "esp"),
    (58, "icmpv6"),
    (132, "sctp"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_known_by_name_and_number() {
        for (number, name) in PROTOCOLS {
            assert_eq!(protocol(number), name);
            assert_eq!(protocol_number(name), Some(number));
        }
        assert_eq!(protocol_number("TCP"), Some(6));
        assert_eq!(protocol(253), "253");
        assert_eq!(protocol_number("253"), Some(253));
        assert_eq!(protocol_number("256"), None);
    }

    #[test]
    fn where_nothing_is_pinned_the_error_says_where_it_looked() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::at(folder.path().join("nothing"));
        let said = Sight::open(&pins).unwrap_err().to_string();
        assert!(
            said.contains("nothing") || said.contains("cannot look"),
            "{said}"
        );
    }
}
