//! The shun list: addresses and prefixes whose packets the programs drop before any other work. Who belongs on it is
//! decided elsewhere.
//!
//! Programs look into a table only while its count is not zero. So the count goes up before an entry is written and down
//! after it is removed: whatever ends a process in between leaves a count that is too high, which costs a look-up and
//! lets nobody pass. [`Shuns::recount`] mends it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use addr::Prefix;
use thiserror::Error;
use xdp::libbpf_rs::MapCore;
use xdp::map::{self, Mapped, Pod, Write};

use crate::abi::{Addr4, Addr6, Shun, ShunPrefix4, ShunPrefix6};
use crate::tables::Tables;

/// For how long a source is shunned at most: times are compared as signed numbers of jiffies, and a kernel may have a
/// thousand of those in a second.
pub const LONGEST: Duration = Duration::from_secs(24 * 86_400);

/// The shun list in the tables of an instance.
#[derive(Debug)]
pub struct Shuns<'t> {
    tables: &'t Tables,
    counts: Mapped,
    hz: u32,
}

/// A source that is shunned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The address, or the prefix.
    pub source: Prefix,
    /// How long it still is.
    pub left: Duration,
    /// Whatever the one who added it meant by it.
    pub reason: u32,
}

/// Entries of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Addresses of IPv4.
    pub addresses_v4: u64,
    /// Addresses of IPv6.
    pub addresses_v6: u64,
    /// Prefixes of IPv4.
    pub prefixes_v4: u64,
    /// Prefixes of IPv6.
    pub prefixes_v6: u64,
}

/// Why a source was not put on the list, or not taken off.
#[derive(Debug, Error)]
pub enum ShunError {
    /// It would be everybody.
    #[error("{0}: this would shun everybody; give a longer prefix")]
    Everybody(Prefix),
    /// There is no room.
    #[error(
        "{source_prefix}: the shun list is full ({capacity} entries of its kind); raise `fast_path.tables.shuns`"
    )]
    Full {
        /// What was to be added.
        source_prefix: Prefix,
        /// How many there may be.
        capacity: u32,
    },
    /// The table could not be read or written.
    #[error("the shun list: {0}")]
    Table(#[from] io::Error),
}

impl<'t> Shuns<'t> {
    /// The list in these tables, where a second has `hz` jiffies.
    pub fn new(tables: &'t Tables, hz: u32) -> io::Result<Self> {
        Ok(Self {
            tables,
            counts: tables.mapped("shun_counts")?,
            hz: hz.max(1),
        })
    }

    /// Has packets from `source` dropped for so long from `now` (jiffies) on, at most [`LONGEST`]. What was said of the
    /// same source before is replaced.
    pub fn add(
        &self,
        source: Prefix,
        now: u32,
        lasting: Duration,
        reason: u32,
    ) -> Result<(), ShunError> {
        if source.len() == 0 {
            return Err(ShunError::Everybody(source));
        }
        let shun = Shun {
            until: now.wrapping_add(self.jiffies(lasting)),
            reason,
        };
        match Key::of(source) {
            Key::V4(key) => self.put(Kind::V4, &key, &shun, source),
            Key::V6(key) => self.put(Kind::V6, &key, &shun, source),
            Key::Prefix4(key) => self.put(Kind::Prefixes4, &key, &shun, source),
            Key::Prefix6(key) => self.put(Kind::Prefixes6, &key, &shun, source),
        }
    }

    /// Takes a source off the list and tells whether it was there. A prefix is taken off as it was put on; addresses and
    /// prefixes within it stay.
    pub fn remove(&self, source: Prefix) -> Result<bool, ShunError> {
        Ok(match Key::of(source) {
            Key::V4(key) => self.take(Kind::V4, &key),
            Key::V6(key) => self.take(Kind::V6, &key),
            Key::Prefix4(key) => self.take(Kind::Prefixes4, &key),
            Key::Prefix6(key) => self.take(Kind::Prefixes6, &key),
        }?)
    }

    /// Hands over every entry whose time is not out.
    pub fn each(&self, now: u32, mut f: impl FnMut(Entry)) -> io::Result<()> {
        let mut hand = |source: Option<Prefix>, shun: Shun| {
            let left = shun.until.wrapping_sub(now) as i32;
            if let (Some(source), true) = (source, left > 0) {
                let left =
                    Duration::from_millis(u64::from(left as u32) * 1000 / u64::from(self.hz));
                f(Entry {
                    source,
                    left,
                    reason: shun.reason,
                });
            }
        };
        self.entries(Kind::V4, |key: Addr4, shun| hand(key.source(), shun))?;
        self.entries(Kind::V6, |key: Addr6, shun| hand(key.source(), shun))?;
        self.entries(Kind::Prefixes4, |key: ShunPrefix4, shun| {
            hand(key.source(), shun);
        })?;
        self.entries(Kind::Prefixes6, |key: ShunPrefix6, shun| {
            hand(key.source(), shun);
        })
    }

    /// Removes the entries whose time is out, and tells how many. The programs heed them no more in any case.
    pub fn sweep(&self, now: u32) -> io::Result<u64> {
        self.clear(|shun| shun.until.wrapping_sub(now) as i32 <= 0)
    }

    /// Empties the list, and tells how many entries it had.
    pub fn flush(&self) -> io::Result<u64> {
        self.clear(|_| true)
    }

    /// How many entries there are, those whose time is out but that are not swept yet among them.
    pub fn held(&self) -> Held {
        let of = |kind| {
            self.count(kind)
                .map_or(0, |count| count.load(Ordering::Relaxed))
        };
        Held {
            addresses_v4: of(Kind::V4),
            addresses_v6: of(Kind::V6),
            prefixes_v4: of(Kind::Prefixes4),
            prefixes_v6: of(Kind::Prefixes6),
        }
    }

    /// Counts anew what a process that died may have miscounted. What others do with the list meanwhile makes it try
    /// again, and in the end leave the count as it is: never too low.
    pub fn recount(&self) -> io::Result<()> {
        for kind in Kind::ALL {
            let count = self.count(kind)?;
            for _ in 0..8 {
                let before = count.load(Ordering::Acquire);
                let mut found = 0u64;
                match kind {
                    Kind::V4 => self.entries(kind, |_: Addr4, _| found += 1),
                    Kind::V6 => self.entries(kind, |_: Addr6, _| found += 1),
                    Kind::Prefixes4 => self.entries(kind, |_: ShunPrefix4, _| found += 1),
                    Kind::Prefixes6 => self.entries(kind, |_: ShunPrefix6, _| found += 1),
                }?;
                if count
                    .compare_exchange(before, found, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    break;
                }
            }
        }
        Ok(())
    }

    fn put<K: Pod>(
        &self,
        kind: Kind,
        key: &K,
        shun: &Shun,
        source: Prefix,
    ) -> Result<(), ShunError> {
        let table = self.tables.table(kind.table())?;
        let count = self.count(kind)?;
        count.fetch_add(1, Ordering::AcqRel);
        let mut result = map::set_if(table, key, shun, Write::New);
        if result.is_ok() {
            return Ok(());
        }
        // A trie has only one of the two words for it.
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            result = map::set_if(table, key, shun, Write::Existing);
            if matches!(&result, Err(error) if error.kind() == io::ErrorKind::NotFound) {
                // Its time was out, and it was swept just now.
                result = map::set_if(table, key, shun, Write::New);
                if result.is_ok() {
                    return Ok(());
                }
            }
        }
        count.fetch_sub(1, Ordering::AcqRel);
        result.map_err(|error| match error.raw_os_error() {
            // A full hash says E2BIG, a full trie ENOSPC.
            Some(E2BIG | ENOSPC) => ShunError::Full {
                source_prefix: source,
                capacity: table.max_entries(),
            },
            _ => error.into(),
        })
    }

    fn take<K: Pod>(&self, kind: Kind, key: &K) -> io::Result<bool> {
        let was_there = map::remove(self.tables.table(kind.table())?, key)?;
        if was_there {
            self.lower(kind)?;
        }
        Ok(was_there)
    }

    fn clear(&self, goes: impl Fn(&Shun) -> bool) -> io::Result<u64> {
        Ok(self.clear_of::<Addr4>(Kind::V4, &goes)?
            + self.clear_of::<Addr6>(Kind::V6, &goes)?
            + self.clear_of::<ShunPrefix4>(Kind::Prefixes4, &goes)?
            + self.clear_of::<ShunPrefix6>(Kind::Prefixes6, &goes)?)
    }

    fn clear_of<K: Pod>(&self, kind: Kind, goes: impl Fn(&Shun) -> bool) -> io::Result<u64> {
        if self.count(kind)?.load(Ordering::Acquire) == 0 {
            return Ok(0);
        }
        let mut keys = Vec::new();
        self.entries(kind, |key: K, shun| {
            if goes(&shun) {
                keys.push(key);
            }
        })?;
        let table = self.tables.table(kind.table())?;
        let mut removed = 0;
        for key in keys {
            // It may have been given more time since.
            let still = map::get::<K, Shun>(table, &key)?.is_some_and(|shun| goes(&shun));
            if still && map::remove(table, &key)? {
                self.lower(kind)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn entries<K: Pod>(&self, kind: Kind, f: impl FnMut(K, Shun)) -> io::Result<()> {
        map::entries(self.tables.table(kind.table())?, f)
    }

    fn lower(&self, kind: Kind) -> io::Result<()> {
        let lowered = |count: u64| Some(count.saturating_sub(1));
        // It never fails: the closure always gives a value.
        let _ = self
            .count(kind)?
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, lowered);
        Ok(())
    }

    fn count(&self, kind: Kind) -> io::Result<&AtomicU64> {
        let counts = self.counts.long_words();
        counts.get(kind as usize).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "table shun_counts has too few entries",
            )
        })
    }

    fn jiffies(&self, lasting: Duration) -> u32 {
        let jiffies = lasting.min(LONGEST).as_millis() * u128::from(self.hz) / 1000;
        u32::try_from(jiffies).map_or(i32::MAX as u32, |jiffies| jiffies.clamp(1, i32::MAX as u32))
    }
}

const E2BIG: i32 = 7;
const ENOSPC: i32 = 28;

/// The tables, in the order of their counts.
#[derive(Clone, Copy, Debug)]
enum Kind {
    V4,
    V6,
    Prefixes4,
    Prefixes6,
}

impl Kind {
    const ALL: [Self; 4] = [Self::V4, Self::V6, Self::Prefixes4, Self::Prefixes6];

    fn table(self) -> &'static str {
        match self {
            Self::V4 => "shuns4",
            Self::V6 => "shuns6",
            Self::Prefixes4 => "shun_prefixes4",
            Self::Prefixes6 => "shun_prefixes6",
        }
    }
}

/// Where a source stands.
enum Key {
    V4(Addr4),
    V6(Addr6),
    Prefix4(ShunPrefix4),
    Prefix6(ShunPrefix6),
}

impl Key {
    fn of(source: Prefix) -> Self {
        let bits = u32::from(source.len());
        match source.network() {
            IpAddr::V4(ip) if bits == 32 => Self::V4(ip.octets()),
            IpAddr::V6(ip) if bits == 128 => Self::V6(ip.octets()),
            IpAddr::V4(ip) => Self::Prefix4(ShunPrefix4 {
                bits,
                addr: ip.octets(),
            }),
            IpAddr::V6(ip) => Self::Prefix6(ShunPrefix6 {
                bits,
                addr: ip.octets(),
            }),
        }
    }
}

/// A key of one of the tables.
trait Source {
    /// What it stands for; `None` for a length that no prefix has.
    fn source(&self) -> Option<Prefix>;
}

impl Source for Addr4 {
    fn source(&self) -> Option<Prefix> {
        Prefix::new(Ipv4Addr::from(*self).into(), 32).ok()
    }
}

impl Source for Addr6 {
    fn source(&self) -> Option<Prefix> {
        Prefix::new(Ipv6Addr::from(*self).into(), 128).ok()
    }
}

impl Source for ShunPrefix4 {
    fn source(&self) -> Option<Prefix> {
        Prefix::new(
            Ipv4Addr::from(self.addr).into(),
            u8::try_from(self.bits).ok()?,
        )
        .ok()
    }
}

impl Source for ShunPrefix6 {
    fn source(&self) -> Option<Prefix> {
        Prefix::new(
            Ipv6Addr::from(self.addr).into(),
            u8::try_from(self.bits).ok()?,
        )
        .ok()
    }
}
