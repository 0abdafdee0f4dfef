//! The world as rules reach it: what a machine's surroundings have to offer it.
//!
//! What belongs to the connection is in [`Flow`](crate::flow::Flow), which the driver fills before an event and reads after
//! it. What belongs to the process is behind [`Host`].

use crate::flow::Mode;
use crate::value::Value;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What a rule's surroundings offer.
pub trait Host {
    /// Time since the Unix epoch.
    fn now(&self) -> Duration;

    /// A clock that counts the processor's cycles (TSC), for profiles.
    fn cycles(&self) -> u64;

    /// 64 random bits that nobody can foresee.
    fn random(&mut self) -> u64;

    /// Which worker this is, from 0, and how many there are.
    fn worker(&self) -> (u32, u32);

    /// Writes a line to the log.
    fn log(&mut self, line: LogLine<'_>);

    /// The table that all workers share.
    fn table(&self) -> &dyn Table;

    /// A data group by its name.
    fn data_group(&self, name: &[u8]) -> Option<Arc<crate::data_group::DataGroup>>;

    /// A file that the configuration names, by that name.
    fn ifile(&self, name: &[u8]) -> Option<Value>;

    /// The names of the files that the configuration names.
    fn ifiles(&self) -> Vec<Value>;

    /// A pool by its name.
    fn pool(&self, name: &[u8]) -> Option<PoolView>;

    /// The member of a pool that its balancing chooses now, by `mode` where that is given; nothing is counted for it.
    fn choose(&mut self, pool: &[u8], mode: Option<Mode>) -> Option<MemberView> {
        let mut members = self.pool(pool)?.members;
        members.retain(MemberView::is_active);
        let highest = members.iter().map(|member| member.priority).max()?;
        members.retain(|member| member.priority == highest);
        match mode {
            Some(Mode::LeastConnections) => members
                .into_iter()
                .min_by_key(|member| (member.connections << 16) / u64::from(member.ratio.max(1))),
            Some(Mode::RoundRobin) | None => members.into_iter().next(),
        }
    }

    /// Whether there is a virtual of that name.
    fn has_virtual(&self, name: &[u8]) -> bool;

    /// A MaxMind database's word on an address: the text at `path` in its record
    /// (`["country", "iso_code"]`).
    fn geography(&self, address: IpAddr, path: &[&str]) -> Option<Value>;

    /// The categories in which an address is listed for its bad reputation.
    fn reputation(&self, address: IpAddr) -> Vec<Value>;

    /// Hands an offender to the shun list for that long. False where nobody takes it.
    fn shun(&mut self, address: IpAddr, lasting: Duration) -> bool;

    /// Opens a way to a syslog server: a handle for [`send_log`](Host::send_log).
    fn open_log(&mut self, to: LogTarget) -> Result<u64, String>;

    /// Sends data on such a way, without waiting.
    fn send_log(&mut self, handle: u64, data: &[u8]) -> bool;

    /// Closes a sideband connection.
    fn close_sideband(&mut self, handle: u64);

    /// The state of a sideband connection: `connected`, `closed` …
    fn sideband_state(&self, handle: u64) -> &'static str;

    /// What is counted under a name for `ISTATS::` and other counters of rules.
    fn counter(&mut self, name: &[u8], add: i64) -> i64;

    /// Makes what is counted under a name another number at one go, or forgets it where that is `None`.
    fn change_counter(&mut self, name: &[u8], change: &mut dyn FnMut(i64) -> Option<i64>) {
        let was = self.counter(name, 0);
        let new = change(was).unwrap_or(0);
        self.counter(name, new.wrapping_sub(was));
    }
}

/// A line for the log.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
    /// Syslog's facility: `local0` …
    pub facility: &'a str,
    /// Syslog's level, 0 (emergency) to 7 (debug).
    pub level: u8,
    /// The rule that writes it, unless it asked not to be named (`-noname`).
    pub rule: Option<&'a str>,
    /// The event at which it does.
    pub event: &'a str,
    /// The text.
    pub text: &'a [u8],
}

/// Where `HSL::open` sends its data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogTarget {
    /// TCP, or else UDP.
    pub tcp: bool,
    /// The pool whose members get it, or a publisher's name.
    pub pool: Vec<u8>,
}

/// What a machine waits for. The driver does it and gives the machine the value.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// Time: the value is empty.
    Sleep(Duration),
    /// Names resolved: a list of addresses or texts.
    Resolve {
        /// The name or address that is asked about.
        name: Value,
        /// The record's type: `a`, `aaaa`, `ptr`, `txt`, `mx`, `srv`.
        record: &'static str,
        /// The server to be asked, instead of the system's.
        server: Option<SocketAddr>,
    },
    /// A sideband connection opened: its handle, or an empty value where it fails.
    Connect {
        /// UDP, or else TCP.
        udp: bool,
        /// A virtual's name, or an address with its port.
        to: Value,
        /// How long it may take.
        timeout: Duration,
        /// After how long without use it is closed.
        idle: Duration,
    },
    /// Data sent on one: how many bytes.
    Send {
        /// Which.
        handle: u64,
        /// What.
        data: Value,
        /// How long it may take.
        timeout: Duration,
    },
    /// Data received on one: the bytes.
    Receive {
        /// Which.
        handle: u64,
        /// Whether what is received is left to be received again.
        peek: bool,
        /// How many bytes are waited for; 0 for any that come, up to `most`.
        least: usize,
        /// The most that is taken; 0 for no bound.
        most: usize,
        /// Up to and with which text, instead of a number of bytes.
        until: Option<Value>,
        /// How long it may take: what has come by then is the value.
        timeout: Duration,
    },
}

/// The table that all workers share, in F5's terms. Times are since the Unix epoch.
pub trait Table {
    /// The value under a key; `touch` begins its timeout anew.
    fn get(&self, key: Key<'_>, now: Duration, touch: bool) -> Option<Value>;

    /// Puts a value under a key, as `mode` says. Returns the value that is there afterwards, and whether
    /// it is the new one. No timeouts given (`None`): those that the entry had, or else 180 s and
    /// no end of life. `touch` begins the timeout of an entry that was there anew.
    fn put(
        &self,
        key: Key<'_>,
        value: &Value,
        mode: Put,
        times: Times,
        now: Duration,
        touch: bool,
    ) -> (Option<Value>, bool);

    /// Adds to a number; what is not there counts as 0, or is left so if `must_exist`.
    ///
    /// # Errors
    ///
    /// The value that is there, when it is no number.
    fn increment(
        &self,
        key: Key<'_>,
        by: i64,
        must_exist: bool,
        times: Times,
        now: Duration,
        touch: bool,
    ) -> Result<Option<i64>, Value>;

    /// Puts text behind what is there.
    fn append(
        &self,
        key: Key<'_>,
        more: &[u8],
        must_exist: bool,
        times: Times,
        now: Duration,
        touch: bool,
    ) -> Option<Value>;

    /// Deletes an entry: whether there was one.
    fn delete(&self, key: Key<'_>, now: Duration) -> bool;

    /// Deletes a subtable with all that is in it: how many entries there were.
    fn delete_subtable(&self, subtable: &[u8], now: Duration) -> usize;

    /// The keys of a subtable. At most `limit` of them, 0 for all. `touch` begins their timeouts anew.
    fn keys(&self, subtable: &[u8], now: Duration, limit: usize, touch: bool) -> Vec<Value>;

    /// How many entries a subtable has.
    fn count(&self, subtable: &[u8], now: Duration) -> usize;

    /// An entry's timeout and lifetime, and how much of each is left. `None` inside for "indefinite".
    fn times(&self, key: Key<'_>, now: Duration) -> Option<EntryTimes>;

    /// Sets an entry's times: whether there is one.
    fn set_times(&self, key: Key<'_>, times: Times, now: Duration) -> bool;
}

/// What names an entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<'a> {
    /// Its subtable; empty for the table itself.
    pub subtable: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
}

/// When [`Table::put`] puts a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// In any case; `table set`.
    Always,
    /// If there is none yet; `table add`.
    IfAbsent,
    /// If there is one; `table replace`.
    IfPresent,
}

/// How long an entry lives. The outer `None` leaves it as it is; the inner one is "indefinite".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Since it was last used.
    pub timeout: Option<Option<Duration>>,
    /// Since it was put there.
    pub lifetime: Option<Option<Duration>>,
}

/// An entry's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryTimes {
    /// Its timeout.
    pub timeout: Option<Duration>,
    /// What is left of it.
    pub timeout_left: Option<Duration>,
    /// Its lifetime.
    pub lifetime: Option<Duration>,
    /// What is left of it.
    pub lifetime_left: Option<Duration>,
}

/// A pool as rules see it.
#[derive(Clone, Debug)]
pub struct PoolView {
    /// Its name.
    pub name: Rc<str>,
    /// Its members.
    pub members: Vec<MemberView>,
}

/// A member as rules see it.
#[derive(Clone, Debug)]
pub struct MemberView {
    /// Its name in the configuration.
    pub name: Rc<str>,
    /// Where it is.
    pub address: SocketAddr,
    /// Whether its monitors say that it works.
    pub up: bool,
    /// Whether it takes new connections so far as the operator is concerned.
    pub enabled: bool,
    /// Its weight.
    pub ratio: u32,
    /// Its priority group: higher ones are used first.
    pub priority: u32,
    /// How many connections or requests it has.
    pub connections: u64,
}

impl MemberView {
    /// Whether it may be chosen.
    pub fn is_active(&self) -> bool {
        self.up && self.enabled
    }
}
