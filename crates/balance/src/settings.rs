//! What a pool is told: plain values, already validated by whoever read the configuration.

use crate::Millis;
use std::net::SocketAddr;
use std::sync::Arc;

/// Everything about a pool that configuration decides.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSettings {
    /// How a member is chosen.
    pub algorithm: Algorithm,
    /// The members, in order of preference for [`Algorithm::First`].
    pub members: Vec<MemberSettings>,
    /// How many requests may wait when every member is at its limit; 0 for none.
    pub queue: usize,
    /// How long a request may wait, in milliseconds.
    pub queue_timeout: Millis,
    /// For how many milliseconds a member that comes back takes less than its share; 0 for full weight at once.
    pub slow_start: Millis,
    /// When errors seen in traffic take a member out; `None` for never.
    pub ejection: Option<Ejection>,
    /// How much of the traffic may be retries; `None` for no bound.
    pub retry_budget: Option<RetryBudget>,
}

impl Default for PoolSettings {
    /// Round robin over no members: no queue, no slow start, no ejection, the default retry budget.
    fn default() -> Self {
        Self {
            algorithm: Algorithm::RoundRobin,
            members: Vec::new(),
            queue: 0,
            queue_timeout: 0,
            slow_start: 0,
            ejection: None,
            retry_budget: Some(RetryBudget::default()),
        }
    }
}

/// Everything about a member that configuration decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    /// The name operators know it by. Several members may share a name if their addresses differ.
    pub name: Arc<str>,
    /// Where it is reached.
    pub address: SocketAddr,
    /// Its share relative to the other members; 0 takes only what persistence sends.
    pub weight: u16,
    /// Used only while no member that is not a backup can be used.
    pub backup: bool,
    /// The most requests it may have at once; 0 for no limit.
    pub limit: u32,
    /// What the operator wants with it.
    pub admin: Admin,
    /// Whether somebody reports its health. It starts up in either case; one that is no longer monitored goes back up,
    /// since nobody would ever say so.
    pub monitored: bool,
}

impl MemberSettings {
    /// An enabled primary member of weight 1 without limit and without monitor.
    pub fn new(name: impl Into<Arc<str>>, address: SocketAddr) -> Self {
        Self {
            name: name.into(),
            address,
            weight: 1,
            backup: false,
            limit: 0,
            admin: Admin::Enabled,
            monitored: false,
        }
    }
}

/// What the operator wants with a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Admin {
    /// Takes its share.
    #[default]
    Enabled,
    /// Keeps what it has and what persistence sends it, and takes nothing else.
    Drain,
    /// Takes nothing.
    Disabled,
}

/// How a member is chosen. Weights count in all of them but [`Algorithm::First`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Algorithm {
    /// Each in turn, heavier members more often, interleaved.
    #[default]
    RoundRobin,
    /// The member with the fewest requests for its weight; equals take turns.
    LeastConnections,
    /// Two at random, by weight; the one with fewer requests for its weight.
    PowerOfTwo,
    /// The first in configuration order that has room, so that the last ones idle.
    First,
    /// By a hash of the request (see [`crate::Ask::hash`]); without one, round robin.
    Hash(HashMethod),
}

/// How a hash becomes a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HashMethod {
    /// Hash modulo weights: perfectly even, but nearly every key moves when a member comes or goes.
    Modulo,
    /// A ring: a key moves only if its member went or a new one claims it.
    Consistent {
        /// The most a member may have, as a multiple of its fair share of the requests in progress (1.25 is usual); what
        /// is above goes to the next on the ring. 0 or anything not above 1 means no bound.
        load_factor: f32,
    },
}

/// When errors seen in traffic take a member out for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// So many failures in a row; 0 is taken as 1.
    pub failures: u32,
    /// Milliseconds within which they must lie, from the first of them.
    pub within: Millis,
    /// Milliseconds out at the first time. Doubles at each further time up to tenfold, and starts over once the member
    /// has served for ten times this long.
    pub time: Millis,
    /// The most members that may be out at once, as a percentage (rounded down) of those that are enabled and up.
    pub max_percent: u8,
}

/// How many retries are allowed over the last ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// Retries per hundred first attempts.
    pub percent: u32,
    /// Retries allowed on top, per second, so that a quiet pool can retry at all.
    pub min_per_second: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            percent: 20,
            min_per_second: 3,
        }
    }
}
