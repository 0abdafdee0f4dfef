//! What the API tells, as it stands in JSON. Clients read the same types.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::SystemTime;
use utoipa::ToSchema;

/// What an event of a rule has taken, or a command in it, over all workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProfiledEvent {
    /// The rule.
    pub rule: String,
    /// The event.
    pub event: String,
    /// The command; null for the event as a whole.
    pub command: Option<String>,
    /// How often it ran.
    pub count: u64,
    /// Cycles of the processor's clock in all.
    pub total: u64,
    /// The fewest cycles.
    pub minimum: u64,
    /// The most cycles.
    pub maximum: u64,
}

impl ProfiledEvent {
    /// Cycles on the average.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or_default()
    }

    /// Whether both are about the same event, or the same command at it.
    #[must_use]
    pub fn is_of(&self, other: &Self) -> bool {
        self.rule == other.rule && self.event == other.event && self.command == other.command
    }

    /// Adds what another worker has counted.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.total += other.total;
        self.minimum = self.minimum.min(other.minimum);
        self.maximum = self.maximum.max(other.maximum);
    }
}

/// The process.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// The process's number.
    pub pid: u32,
    /// Seconds for which it has been running.
    pub uptime: f64,
    /// Which configuration is in force; counts up with every one.
    pub generation: u64,
    /// Whether it serves or ends.
    pub phase: Phase,
    /// The main file of the configuration.
    pub config: String,
    /// Client connections, over all workers.
    pub connections: usize,
    /// The most there may be.
    pub connection_limit: usize,
    /// Threads that serve traffic.
    pub workers: Vec<Worker>,
    /// How the last reload went; null if there was none.
    pub last_reload: Option<Reload>,
}

/// Where in its life the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It serves.
    Running,
    /// It takes no new connections and ends when those it has are over.
    Draining,
    /// It ends now.
    Stopping,
}

/// A thread that serves traffic.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Which one, from 0.
    pub index: usize,
    /// Client connections it has.
    pub connections: usize,
}

/// How a reload went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reload {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Who asked for it: `signal`, `file`, `api`.
    pub cause: String,
    /// Whether the configuration was taken over.
    pub ok: bool,
    /// Which configuration was in force after it.
    pub generation: u64,
    /// What it changed.
    pub changes: Vec<String>,
    /// Why it was not taken over.
    pub error: Option<String>,
}

/// A virtual server.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Virtual {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub listen: Vec<String>,
    /// What it speaks: `http`, `tcp`, `tls-passthrough`.
    pub protocol: String,
    /// Its TLS profile.
    pub tls: Option<String>,
    /// The pool for what no route takes.
    pub pool: Option<String>,
    /// Connections that it has now.
    pub active: usize,
    /// The most it may have.
    pub connection_limit: usize,
    /// What it has counted since it was first configured, by name.
    pub counters: BTreeMap<String, u64>,
    /// What it refused, by reason.
    pub refusals: BTreeMap<String, u64>,
}

/// A pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// How members are chosen.
    pub balance: String,
    /// Members that take new requests now.
    pub usable: usize,
    /// Requests that wait for a member.
    pub waiting: usize,
    /// Its members.
    pub members: Vec<Member>,
}

/// A member of a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub address: String,
    /// All things considered, what it is.
    pub condition: Condition,
    /// What the operator wants of it.
    pub state: MemberState,
    /// What its monitors say; true if it has none.
    pub up: bool,
    /// Whether it is used only when no other member works.
    pub backup: bool,
    /// Its share relative to the others.
    pub weight: u16,
    /// Requests that it has now.
    pub active: u32,
    /// The most it may have; 0 for no limit.
    pub limit: u32,
    /// Seconds for which it is still left out for failures of traffic; null if it is not.
    pub ejected_for: Option<f64>,
    /// What it has counted since it was first configured, by name.
    pub counters: BTreeMap<String, u64>,
    /// What its monitors found last.
    pub checks: Vec<Check>,
}

/// What a member is, all things considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// It takes traffic.
    Up,
    /// It takes traffic, and no monitor has come to a verdict yet.
    Unknown,
    /// Its monitors say that it does not work.
    Down,
    /// It is left out for a while, since traffic failed there.
    Ejected,
    /// It finishes what it has.
    Draining,
    /// The operator wants nothing to go there.
    Disabled,
}

/// What the operator wants of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// It takes traffic.
    Enabled,
    /// It finishes what it has and gets nothing new.
    Drain,
    /// It gets nothing.
    Disabled,
}

/// What to set of a member. What is left out stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberChange {
    /// What is wanted of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<MemberState>,
    /// Its share relative to the others, 0 to 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 256)]
    pub weight: Option<u16>,
}

/// What a monitor knows of a member.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// The pool.
    pub pool: String,
    /// The member.
    pub member: String,
    /// Where it is reached.
    pub address: String,
    /// The monitor.
    pub monitor: String,
    /// Its verdict; null as long as there is none.
    pub up: Option<bool>,
    /// Seconds since when.
    pub since: Option<f64>,
    /// Whether the last check was good; null if there was none.
    pub ok: Option<bool>,
    /// What the last check found.
    pub reason: Option<String>,
    /// Seconds since it ended.
    pub age: Option<f64>,
    /// Seconds that it took.
    pub latency: Option<f64>,
    /// Checks that came to a result.
    pub checks: u64,
    /// Those that failed.
    pub failures: u64,
    /// Checks that could not be made for want of resources of this machine.
    pub skipped: u64,
}

/// A certificate shown to clients.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Certificate {
    /// The virtual that shows it.
    #[serde(rename = "virtual")]
    pub service: String,
    /// Where it was read from.
    pub source: String,
    /// The names it is for.
    pub names: Vec<String>,
    /// When it, or one of its chain, ends, in seconds since 1970.
    pub not_after: u64,
    /// Days until then; negative when that was in the past.
    pub days_left: f64,
}

/// Everything that is counted.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Counters {
    /// Of the whole process, by name.
    pub process: BTreeMap<String, u64>,
    /// Of virtuals: by virtual, then by name.
    pub virtuals: BTreeMap<String, BTreeMap<String, u64>>,
    /// What virtuals refused: by virtual, then by reason.
    pub refusals: BTreeMap<String, BTreeMap<String, u64>>,
    /// Of members: by `pool/member` and address where several share a name, then by name.
    pub members: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Something was done.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// What.
    pub message: String,
}

/// Something was not done (RFC 9457).
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind of thing went wrong.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong.
    pub detail: String,
    /// What to do about it.
    pub help: String,
}

/// Whole seconds since 1970.
pub fn unix_seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
