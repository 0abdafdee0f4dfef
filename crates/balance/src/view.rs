//! An immutable picture of a pool: who takes new requests, in which order and with which weights. It is replaced whole
//! when anything of that changes, so that choosing needs no lock. When to replace it is the pool's business.

use crate::Millis;
use crate::hash::{hash_bytes, mix};
use crate::member::{Health, Member, MemberId, TENTHS};
use crate::pool::{Ask, Pick};
use crate::ring::{POINTS, Ring, Share};
use crate::schedule::schedule;
use crate::settings::{Admin, Algorithm, HashMethod, PoolSettings, RetryBudget};
use crate::slot::Slot;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Debug)]
pub(crate) struct View {
    /// All members in configuration order.
    pub(crate) all: Vec<Arc<Member>>,
    /// Those of `all` by identity, for persistence.
    by_id: Vec<(MemberId, u32)>,
    /// Those that take new requests.
    entries: Vec<Entry>,
    /// Indices of `entries` in the order of a weighted rotation.
    schedule: Vec<u32>,
    total_weight: u64,
    ring: Option<Ring>,
    algorithm: Algorithm,
    /// When time alone changes the picture.
    pub(crate) rebuild_at: Millis,
    pub(crate) queue: usize,
    pub(crate) queue_timeout: Millis,
    pub(crate) retry_budget: Option<RetryBudget>,
}

#[derive(Debug)]
struct Entry {
    id: MemberId,
    /// In tenths of the configured weight.
    weight: u32,
    member: Arc<Member>,
}

impl View {
    pub(crate) fn new(settings: &PoolSettings, members: &[Arc<Member>], now: Millis) -> Self {
        let entries: Vec<Entry> = usable(members)
            .map(|member| Entry {
                id: member.id(),
                weight: member.effective_weight(now),
                member: member.clone(),
            })
            .collect();
        let weights: Vec<u32> = entries.iter().map(|entry| entry.weight).collect();
        let consistent = matches!(
            settings.algorithm,
            Algorithm::Hash(HashMethod::Consistent { .. })
        );
        let steps = entries
            .iter()
            .filter_map(|entry| entry.member.next_step(now));
        let returns = members
            .iter()
            .filter(|member| member.is_ejected())
            .map(|member| member.ejection_end());
        let mut by_id: Vec<(MemberId, u32)> = members
            .iter()
            .zip(0..)
            .map(|(member, i)| (member.id(), i))
            .collect();
        by_id.sort_unstable();
        Self {
            all: members.to_vec(),
            by_id,
            schedule: schedule(&weights),
            total_weight: weights.iter().copied().map(u64::from).sum(),
            ring: if consistent {
                Ring::new(&shares(&entries, members))
            } else {
                None
            },
            algorithm: settings.algorithm,
            rebuild_at: steps.chain(returns).min().unwrap_or(Millis::MAX),
            queue: settings.queue,
            queue_timeout: settings.queue_timeout,
            retry_budget: settings.retry_budget,
            entries,
        }
    }

    /// Chooses a member that takes new requests and takes a unit of it. `turn` is the pool's rotation.
    pub(crate) fn choose(&self, ask: &Ask<'_>, turn: &AtomicU64) -> Pick {
        if self.entries.is_empty() {
            return Pick::Down;
        }
        match ask.algorithm.unwrap_or(self.algorithm) {
            Algorithm::RoundRobin => self.rotate(turn.fetch_add(1, Relaxed), ask),
            Algorithm::LeastConnections => self.least(turn.fetch_add(1, Relaxed), ask),
            Algorithm::PowerOfTwo => self.better_of_two(ask),
            Algorithm::First => self.sweep(0, ask),
            Algorithm::Hash(method) => match (ask.hash, method, &self.ring) {
                (Some(hash), HashMethod::Consistent { load_factor }, Some(ring)) => {
                    self.consistent(ring, hash, f64::from(load_factor), ask)
                }
                (Some(hash), ..) => self.rotate(mix(hash), ask),
                (None, ..) => self.rotate(turn.fetch_add(1, Relaxed), ask),
            },
        }
    }

    /// Takes a unit of one certain member, also of one that is drained.
    pub(crate) fn take(&self, id: MemberId, somebody_waits: bool) -> Pick {
        let Some(member) = self.member(id) else {
            return Pick::Down;
        };
        if member.admin() == Admin::Disabled
            || member.health() == Health::Down
            || member.is_ejected()
        {
            return Pick::Down;
        }
        // What is freed of a usable member belongs to those who wait; the others' is of no use to them.
        if somebody_waits && member.is_usable() {
            return Pick::Full;
        }
        Slot::acquire(member).map_or(Pick::Full, Pick::Slot)
    }

    pub(crate) fn member(&self, id: MemberId) -> Option<&Arc<Member>> {
        let at = self.by_id.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        self.all.get(self.by_id[at].1 as usize)
    }

    /// Whether there is nobody to take new requests but those excluded.
    pub(crate) fn exhausted(&self, exclude: &[MemberId]) -> bool {
        self.entries.iter().all(|entry| exclude.contains(&entry.id))
    }

    pub(crate) fn usable_members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.entries.iter().map(|entry| &entry.member)
    }

    pub(crate) fn check_invariants(&self) {
        let usable: Vec<MemberId> = usable(&self.all).map(|member| member.id()).collect();
        let entries: Vec<MemberId> = self.entries.iter().map(|entry| entry.id).collect();
        assert_eq!(entries, usable, "the view is not of the members' state");
        for member in &self.all {
            assert_eq!(
                member.is_usable(),
                usable.contains(&member.id()),
                "{member:?} is marked wrongly"
            );
        }
        let mut visited = vec![false; entries.len()];
        self.schedule
            .iter()
            .for_each(|&index| visited[index as usize] = true);
        assert!(
            visited.iter().all(|&visited| visited),
            "the schedule leaves a member out"
        );
    }

    /// The schedule's turn, or the next in it with room.
    fn rotate(&self, turn: u64, ask: &Ask<'_>) -> Pick {
        let round = self.schedule.len();
        let mut at = (turn % round as u64) as usize;
        for _ in 0..round.min(PATIENCE) {
            let entry = &self.entries[self.schedule[at] as usize];
            if !ask.excludes(entry.id)
                && let Some(slot) = Slot::acquire(&entry.member)
            {
                return Pick::Slot(slot);
            }
            at += 1;
            if at == round {
                at = 0;
            }
        }
        self.sweep(self.schedule[at] as usize, ask)
    }

    /// The least loaded for its weight. Of equals, the first from the schedule's turn on: an idle pool rotates by weight.
    fn least(&self, turn: u64, ask: &Ask<'_>) -> Pick {
        let start = self.schedule[(turn % self.schedule.len() as u64) as usize] as usize;
        for _ in 0..PATIENCE {
            let (before, after) = self.entries.split_at(start);
            let mut best: Option<(&Entry, u64)> = None;
            for entry in [after, before].into_iter().flatten() {
                if ask.excludes(entry.id) {
                    continue;
                }
                let Some(active) = entry.member.room() else {
                    continue;
                };
                let active = u64::from(active);
                if best.is_none_or(|(best, load)| {
                    active * u64::from(best.weight) < load * u64::from(entry.weight)
                }) {
                    best = Some((entry, active));
                    if active == 0 {
                        break;
                    }
                }
            }
            let Some((entry, _)) = best else { break };
            if let Some(slot) = Slot::acquire(&entry.member) {
                return Pick::Slot(slot);
            }
        }
        self.sweep(start, ask)
    }

    /// The less loaded of two different members drawn by weight: positions in the schedule are drawn evenly.
    fn better_of_two(&self, ask: &Ask<'_>) -> Pick {
        let round = self.schedule.len() as u64;
        let draw = |random: u64| (((random & 0xffff_ffff) * round) >> 32) as usize;
        let first = self.schedule[draw(ask.random)] as usize;
        let mut at = draw(ask.random >> 32);
        let mut second = self.schedule[at] as usize;
        for _ in 0..PATIENCE {
            if second != first {
                break;
            }
            at = (at + 1) % self.schedule.len();
            second = self.schedule[at] as usize;
        }
        if second == first {
            // A heavy member fills this stretch of the schedule; all others are about equally light.
            second = (first + 1) % self.entries.len();
        }
        let (one, other) = (&self.entries[first], &self.entries[second]);
        let room = |entry: &Entry| {
            entry
                .member
                .room()
                .filter(|_| !ask.excludes(entry.id))
                .map(u64::from)
        };
        let chosen = match (room(one), room(other)) {
            (Some(a), Some(b)) if a * u64::from(other.weight) <= b * u64::from(one.weight) => one,
            (_, Some(_)) => other,
            (Some(_), None) => one,
            (None, None) => return self.rotate(ask.random, ask),
        };
        match Slot::acquire(&chosen.member) {
            Some(slot) => Pick::Slot(slot),
            None => self.rotate(ask.random, ask),
        }
    }

    /// The first on the ring that has room and is within its bound.
    fn consistent(&self, ring: &Ring, hash: u64, load_factor: f64, ask: &Ask<'_>) -> Pick {
        let bounded = load_factor > 1.0;
        for index in ring.walk(hash).take(4 * self.entries.len() + 64) {
            let entry = &self.entries[index as usize];
            if ask.excludes(entry.id) || bounded && !self.within_bound(entry, load_factor) {
                continue;
            }
            if let Some(slot) = Slot::acquire(&entry.member) {
                return Pick::Slot(slot);
            }
        }
        self.rotate(mix(hash), ask)
    }

    /// Whether one request more leaves the member at no more than `load_factor` times its share of all requests, rounded
    /// up. An idle member always is, without a look at the others.
    fn within_bound(&self, entry: &Entry, load_factor: f64) -> bool {
        let active = entry.member.active();
        if active == 0 {
            return true;
        }
        let needed =
            f64::from(active) * self.total_weight as f64 / (load_factor * f64::from(entry.weight));
        let mut sum = 1;
        self.entries.iter().any(|entry| {
            sum += u64::from(entry.member.active());
            sum as f64 > needed
        })
    }

    /// The first with room in configuration order from `start` on.
    fn sweep(&self, start: usize, ask: &Ask<'_>) -> Pick {
        let (before, after) = self.entries.split_at(start);
        let mut nobody = true;
        for entry in after
            .iter()
            .chain(before)
            .filter(|entry| !ask.excludes(entry.id))
        {
            if let Some(slot) = Slot::acquire(&entry.member) {
                return Pick::Slot(slot);
            }
            nobody = false;
        }
        if nobody { Pick::Down } else { Pick::Full }
    }
}

/// Those that take new requests: primary members or, if there is none, backups.
fn usable(members: &[Arc<Member>]) -> impl Iterator<Item = &Arc<Member>> {
    let fit = |member: &Arc<Member>| member.is_candidate() && !member.is_ejected();
    let backup = !members.iter().any(|member| fit(member) && !member.backup());
    members
        .iter()
        .filter(move |member| fit(member) && member.backup() == backup)
}

/// How many points each entry has. They are measured against the average of all members that could ever be in the ring,
/// not of those that are: else the points of all would change when one goes down.
fn shares(entries: &[Entry], members: &[Arc<Member>]) -> Vec<Share> {
    let weights = || {
        members
            .iter()
            .map(|member| u64::from(member.weight()))
            .filter(|&weight| weight > 0)
    };
    let (sum, count) = (weights().sum::<u64>().max(1), weights().count() as u64);
    let share = |entry: &Entry| {
        let points = u64::from(POINTS) * u64::from(entry.weight) * count / (sum * TENTHS);
        Share {
            key: key(&entry.member),
            points: points.max(1) as u32,
        }
    };
    entries.iter().map(share).collect()
}

/// The same in every process that knows the member by the same name and address.
fn key(member: &Member) -> u64 {
    let address = member.address();
    hash_bytes(member.name().as_bytes())
        ^ mix(crate::hash_addr(address.ip()) ^ u64::from(address.port()))
}

/// After so many members without room a rotation no longer looks for the one that the weights ask for.
const PATIENCE: usize = 16;
