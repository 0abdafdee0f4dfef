//! What can be seen of members, and what an operator can set while they run.

use super::Engine;
use balance::{Admin, Health, MemberId};
use health::TargetStatus;
use model::Name;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A member, as it is at a moment.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Its pool.
    pub pool: Name,
    /// Its name. Members of one host name share it.
    pub name: Arc<str>,
    /// What it is known by in its pool.
    pub id: MemberId,
    /// Where it is reached.
    pub address: SocketAddr,
    /// What its monitors say; up if it has none.
    pub health: Health,
    /// What the operator wants of it.
    pub admin: Admin,
    /// Its share relative to the others.
    pub weight: u16,
    /// Whether it is used only when no other member works.
    pub backup: bool,
    /// Requests and connections that it has now.
    pub active: u32,
    /// The most it may have; 0 for no limit.
    pub limit: u32,
    /// For how much longer it is left out for its failures.
    pub ejected_for: Option<Duration>,
    /// Requests and connections that it was given.
    pub requests: u64,
    /// Those that failed, in any way.
    pub failures: u64,
    /// Connections that could not be made.
    pub connect_errors: u64,
    /// Connections that broke.
    pub resets: u64,
    /// Answers with a status from 500 to 599.
    pub status_5xx: u64,
    /// Answers that did not come in time.
    pub timeouts: u64,
    /// Times it was left out for its failures.
    pub ejections: u64,
    /// Bytes sent to it.
    pub bytes_sent: u64,
    /// Bytes received from it.
    pub bytes_received: u64,
    /// What each of its monitors knows.
    pub monitors: Vec<TargetStatus>,
}

/// What an operator sets of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberChange {
    /// What is wanted of it.
    pub admin: Option<Admin>,
    /// Its share relative to the others.
    pub weight: Option<u16>,
}

/// There is no such pool, or no such member in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchMember {
    /// No such pool.
    #[error("there is no pool «{0}»")]
    Pool(String),
    /// No such member.
    #[error("pool «{pool}» has no member «{member}»")]
    Member {
        /// The pool.
        pool: String,
        /// What was looked for.
        member: String,
    },
}

impl Engine {
    /// Every member of every pool.
    pub fn members(&self) -> Vec<MemberStatus> {
        let monitors = self.monitors();
        let now = self.now();
        let mut statuses = Vec::new();
        for (pool, backend) in &self.snapshot().backends {
            for member in backend.pool.members() {
                let counters = member.counters();
                let own = monitors.iter().filter(|status| {
                    let key = &status.key;
                    *key.pool == **pool
                        && key.member == *member.name()
                        && key.address == member.address()
                });
                let ejected = member.ejected_until(now);
                statuses.push(MemberStatus {
                    pool: pool.clone(),
                    name: Arc::clone(member.name()),
                    id: member.id(),
                    address: member.address(),
                    health: member.health(),
                    admin: member.admin(),
                    weight: member.weight(),
                    backup: member.backup(),
                    active: member.active(),
                    limit: member.limit(),
                    ejected_for: ejected
                        .map(|until| Duration::from_millis(until.saturating_sub(now))),
                    requests: member.requests(),
                    failures: counters.failures.load(Relaxed),
                    connect_errors: counters.connect_errors.load(Relaxed),
                    resets: counters.resets.load(Relaxed),
                    status_5xx: counters.status_5xx.load(Relaxed),
                    timeouts: counters.timeouts.load(Relaxed),
                    ejections: counters.ejections.load(Relaxed),
                    bytes_sent: counters.bytes_sent.load(Relaxed),
                    bytes_received: counters.bytes_received.load(Relaxed),
                    monitors: own.cloned().collect(),
                });
            }
        }
        statuses
    }

    /// What every monitor knows of every member it asks.
    pub fn monitors(&self) -> Vec<TargetStatus> {
        self.core.monitors.statuses()
    }

    /// Sets something of a member, named by its name or its address, until the configuration sets
    /// it otherwise. Of a host name all addresses are meant. Returns how many members that were.
    ///
    /// # Errors
    ///
    /// [`NoSuchMember`] if nothing is named so.
    pub fn set_member(
        &self,
        pool: &str,
        member: &str,
        change: MemberChange,
    ) -> Result<usize, NoSuchMember> {
        let snapshot = self.snapshot();
        let backend = snapshot
            .backends
            .get(pool)
            .ok_or_else(|| NoSuchMember::Pool(pool.to_owned()))?;
        let now = self.now();
        let mut found = 0;
        for candidate in backend.pool.members() {
            if **candidate.name() != *member && candidate.address().to_string() != member {
                continue;
            }
            found += 1;
            if let Some(admin) = change.admin {
                backend.pool.set_admin(candidate.id(), admin, now);
            }
            if let Some(weight) = change.weight {
                backend.pool.set_weight(candidate.id(), weight, now);
            }
        }
        if found == 0 {
            return Err(NoSuchMember::Member {
                pool: pool.to_owned(),
                member: member.to_owned(),
            });
        }
        Ok(found)
    }
}
