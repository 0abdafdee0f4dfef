//! Who is asked, and who is told.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::settings::Settings;
use crate::state::State;

/// What a target is known by: one monitor on one member at one address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetKey {
    /// The pool's name.
    pub pool: Arc<str>,
    /// The member's name.
    pub member: Arc<str>,
    /// The monitor's name.
    pub monitor: Arc<str>,
    /// Where the member is reached. The monitor's own port, if it has one, takes the place of this one's.
    pub address: SocketAddr,
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TargetKey {
            pool,
            member,
            monitor,
            address,
        } = self;
        write!(f, "{pool}/{member} ({address}) by {monitor}")
    }
}

/// Told of every check's outcome, on the engine's thread: it must neither block nor take long. It
/// may call the engine.
pub type OnVerdict = Arc<dyn Fn(Verdict) + Send + Sync>;

/// A member to ask, and whom to tell.
#[derive(Clone)]
pub struct Target {
    /// Its identity.
    pub key: TargetKey,
    /// What is asked.
    pub settings: Settings,
    /// Who is told.
    pub on_verdict: OnVerdict,
    /// What was known before, if the engine does not know the target itself.
    pub start: Option<State>,
}

/// What a check found, and what the member is taken for after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the member works.
    pub up: bool,
    /// Whether that is news: it was not so before, or nothing was known.
    pub changed: bool,
    /// What this check came to; a single one may differ from the verdict.
    pub ok: bool,
    /// What was found, for people: `status 503, expected 200-399`.
    pub reason: String,
    /// Time the check took.
    pub latency: Duration,
    /// When it ended.
    pub at: Instant,
}

/// What the engine knows of a target.
#[derive(Clone, Debug)]
pub struct TargetStatus {
    /// Its identity.
    pub key: TargetKey,
    /// The verdict and what speaks against it.
    pub state: State,
    /// The last check's outcome.
    pub last: Option<Verdict>,
    /// Checks that came to a result.
    pub checks: u64,
    /// Those that failed.
    pub failures: u64,
    /// Checks that could not be made for want of something on this machine.
    pub skipped: u64,
    /// Whether a check is under way.
    pub running: bool,
}
