//! Hours of traffic in simulated time: requests come, wait, are served and leave, while members fail and come back, are
//! drained and enabled, and the pool is reconfigured. One seed gives one run.

#![allow(missing_docs, clippy::unwrap_used)]

use balance::{
    Admin, Algorithm, Ask, Ejection, HashMethod, Health, Member, MemberSettings, Millis, Outcome,
    Pick, Pool, PoolSettings, Slot, Ticket, TicketState,
};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Wake, Waker};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pool_keeps_its_promises(seed: u64, algorithm in algorithms(), queue in 0usize..40, ejection: bool) {
        let mut simulation = Simulation::new(seed, algorithm, queue, ejection);
        simulation.run(4_000);
        simulation.settle();
    }
}

#[test]
fn the_simulation_comes_by_every_case() {
    let mut simulations: Vec<_> = (1..30)
        .map(|seed| Simulation::new(seed * 77, Algorithm::RoundRobin, 10, true))
        .collect();
    simulations
        .iter_mut()
        .for_each(|simulation| simulation.run(2_000));
    let sum = |count: fn(&Simulation) -> u64| simulations.iter().map(count).sum::<u64>();
    for count in [
        sum(|s| s.served),
        sum(|s| s.refused),
        sum(|s| s.timed_out),
        sum(|s| s.abandoned),
        sum(|s| s.granted_later),
    ] {
        assert!(count > 100, "{count}");
    }
    let members = simulations
        .iter()
        .flat_map(|simulation| simulation.pool.members());
    assert!(
        members
            .map(|member| member.counters().ejections.load(SeqCst))
            .sum::<u64>()
            > 10
    );
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::RoundRobin),
        Just(Algorithm::LeastConnections),
        Just(Algorithm::PowerOfTwo),
        Just(Algorithm::First),
        Just(Algorithm::Hash(HashMethod::Modulo)),
        Just(Algorithm::Hash(HashMethod::Consistent { load_factor: 0.0 })),
        Just(Algorithm::Hash(HashMethod::Consistent {
            load_factor: 1.25
        })),
    ]
}

struct Simulation {
    pool: Arc<Pool>,
    settings: PoolSettings,
    now: Millis,
    random: Random,
    /// Requests in service by when they end, and the slots they hold.
    ends: BinaryHeap<Reverse<(Millis, usize)>>,
    slots: Vec<Option<Slot>>,
    /// Those who wait, in the order they came.
    waiting: VecDeque<Waiting>,
    arrived: u64,
    served: u64,
    refused: u64,
    timed_out: u64,
    abandoned: u64,
    granted_later: u64,
}

struct Waiting {
    ticket: Ticket,
    woken: Arc<Woken>,
    came: Millis,
}

impl Simulation {
    fn new(seed: u64, algorithm: Algorithm, queue: usize, ejection: bool) -> Self {
        let mut random = Random(seed | 1);
        let count = 1 + random.below(8) as u8;
        let members = (0..count).map(|i| random_member(&mut random, i)).collect();
        let ejection = ejection.then_some(Ejection {
            failures: 3,
            within: 10_000,
            time: 300,
            max_percent: 50,
        });
        let settings = PoolSettings {
            algorithm,
            members,
            queue,
            queue_timeout: 200,
            slow_start: random.below(2) * 500,
            ejection,
            retry_budget: None,
        };
        Self {
            pool: Pool::new(settings.clone(), 0),
            settings,
            now: 0,
            random,
            ends: BinaryHeap::new(),
            slots: Vec::new(),
            waiting: VecDeque::new(),
            arrived: 0,
            served: 0,
            refused: 0,
            timed_out: 0,
            abandoned: 0,
            granted_later: 0,
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.now += self.random.below(4);
            self.finish_due();
            match self.random.below(100) {
                0 => self.change_member(),
                1 => self.reconfigure(),
                2 => self.abandon(),
                3 => self.pool.tick(self.now),
                _ => self.arrive(),
            }
            self.collect();
            self.check();
        }
    }

    /// Everybody leaves; nothing may be left over.
    fn settle(&mut self) {
        while let Some(&Reverse((end, _))) = self.ends.peek() {
            self.now = self.now.max(end);
            self.finish_due();
            self.collect();
            self.check();
        }
        self.now += self.settings.queue_timeout;
        self.collect();
        assert!(self.waiting.is_empty());
        assert_eq!(self.pool.waiting(), 0);
        self.pool
            .members()
            .iter()
            .for_each(|member| assert_eq!(member.active(), 0, "{member:?}"));
        assert_eq!(
            self.arrived,
            self.served + self.refused + self.timed_out + self.abandoned
        );
    }

    fn arrive(&mut self) {
        self.arrived += 1;
        let members = self.pool.members();
        let any = members[self.random.below(members.len() as u64) as usize].clone();
        let only = (self.random.below(20) == 0).then_some(any.id());
        let exclude = if self.random.below(20) == 0 {
            vec![any.id()]
        } else {
            vec![]
        };
        let excluded = only.is_none() && !exclude.is_empty();
        let ask = Ask {
            hash: Some(self.random.next()),
            random: self.random.next(),
            exclude: if only.is_some() { &[] } else { &exclude },
            only,
            algorithm: None,
        };
        // What time alone brings back goes to those who wait, so that this one may find room after them.
        self.pool.tick(self.now);
        let somebody_waits = self.pool.waiting() > 0;
        match self.pool.pick(&ask, self.now) {
            Pick::Slot(slot) => {
                if let Some(only) = only {
                    assert_eq!(slot.member().id(), only);
                    assert_ne!(slot.member().admin(), Admin::Disabled);
                    assert_eq!(slot.member().health(), Health::Up);
                } else {
                    assert!(!somebody_waits, "a newcomer went before those who wait");
                    assert!(!excluded || slot.member().id() != any.id());
                    check_takes_new(slot.member(), &members, self.now);
                }
                self.serve(slot);
            }
            Pick::Full => {
                let woken = Arc::new(Woken::default());
                match self.pool.enqueue(Waker::from(woken.clone()), self.now) {
                    Ok(ticket) => self.waiting.push_back(Waiting {
                        ticket,
                        woken,
                        came: self.now,
                    }),
                    Err(_) => {
                        assert!(self.pool.waiting() >= self.settings.queue);
                        self.refused += 1;
                    }
                }
            }
            Pick::Down => {
                if only.is_none() && !excluded {
                    assert!(
                        !members.iter().any(|member| takes_new(member, self.now)),
                        "{members:?}"
                    );
                }
                self.refused += 1;
            }
        }
    }

    /// Polls all who wait: those woken before, of whom the first in line must be, and those whose time is up.
    fn collect(&mut self) {
        let mut still = VecDeque::new();
        let mut somebody_waits = false;
        let mut granted = Vec::new();
        for mut waiting in self.waiting.drain(..) {
            let state = waiting.ticket.poll(self.now);
            let woken = waiting.woken.0.load(SeqCst);
            match state {
                TicketState::Granted(slot) => {
                    assert_eq!(woken, 1, "a grant wakes once");
                    assert!(
                        !somebody_waits,
                        "somebody was served before one who came earlier"
                    );
                    granted.push(slot);
                    self.granted_later += u64::from(self.now > waiting.came);
                }
                TicketState::TimedOut => {
                    assert!(self.now >= waiting.came + 200);
                    self.timed_out += 1;
                }
                TicketState::Waiting => {
                    assert!(self.now < waiting.came + 200);
                    somebody_waits = true;
                    still.push_back(waiting);
                }
            }
        }
        self.waiting = still;
        let nobody = granted.is_empty();
        granted.into_iter().for_each(|slot| self.serve(slot));
        // What is reported of a request may eject the last primary, and so bring a backup to those who wait.
        if !nobody {
            self.collect();
        }
    }

    fn serve(&mut self, slot: Slot) {
        let member = slot.member();
        let bad =
            self.random.below(100) < 2 + 40 * u64::from(member.id().to_string().ends_with('1'));
        member.report(if bad { Outcome::Timeout } else { Outcome::Ok }, self.now);
        let end = self.now + 1 + self.random.below(60);
        self.ends.push(Reverse((end, self.slots.len())));
        self.slots.push(Some(slot));
        self.served += 1;
    }

    fn finish_due(&mut self) {
        while let Some(&Reverse((end, index))) = self.ends.peek()
            && end <= self.now
        {
            self.ends.pop();
            self.slots[index] = None;
        }
    }

    fn abandon(&mut self) {
        if !self.waiting.is_empty() {
            let index = self.random.below(self.waiting.len() as u64) as usize;
            self.waiting.remove(index);
            self.abandoned += 1;
        }
    }

    fn change_member(&mut self) {
        let members = self.pool.members();
        let member = &members[self.random.below(members.len() as u64) as usize];
        let id = member.id();
        let known = match self.random.below(8) {
            0 => self.pool.set_health(id, Health::Down, self.now),
            1..=3 => self.pool.set_health(id, Health::Up, self.now),
            4 => self.pool.set_admin(id, Admin::Drain, self.now),
            5 => self.pool.set_admin(id, Admin::Disabled, self.now),
            6 => self.pool.set_admin(id, Admin::Enabled, self.now),
            _ => self
                .pool
                .set_weight(id, self.random.below(10) as u16, self.now),
        };
        assert!(known);
    }

    /// Limits only rise here: what is above a lowered limit is another test's subject.
    fn reconfigure(&mut self) {
        match self.random.below(4) {
            0 => {
                let next = self
                    .settings
                    .members
                    .iter()
                    .map(|m| m.address.port() - 1000)
                    .max()
                    .unwrap() as u8
                    + 1;
                self.settings
                    .members
                    .push(random_member(&mut self.random, next));
            }
            1 if self.settings.members.len() > 1 => {
                let gone = self.random.below(self.settings.members.len() as u64) as usize;
                self.settings.members.remove(gone);
            }
            _ => {
                let index = self.random.below(self.settings.members.len() as u64) as usize;
                let member = &mut self.settings.members[index];
                if member.limit > 0 {
                    member.limit += 1;
                }
                member.backup = !member.backup;
            }
        }
        self.pool.reconfigure(self.settings.clone(), self.now);
    }

    fn check(&self) {
        self.pool.check_invariants();
        let held = |member: &Arc<Member>| {
            self.slots
                .iter()
                .flatten()
                .filter(|slot| Arc::ptr_eq(slot.member(), member))
                .count() as u32
        };
        // What the pool counts is what is really held: a slot neither leaks nor is given twice.
        for member in self.pool.members() {
            assert_eq!(member.active(), held(&member), "{member:?}");
            assert!(
                member.limit() == 0 || member.active() <= member.limit(),
                "{member:?} is above its limit"
            );
        }
        assert_eq!(self.pool.waiting(), self.waiting.len());
    }
}

fn random_member(random: &mut Random, i: u8) -> MemberSettings {
    MemberSettings {
        weight: 1 + random.below(5) as u16,
        backup: random.below(5) == 0,
        limit: if random.below(6) == 0 {
            0
        } else {
            1 + random.below(4) as u32
        },
        ..MemberSettings::new(
            format!("m{i}"),
            SocketAddr::from((Ipv4Addr::LOCALHOST, 1000 + u16::from(i))),
        )
    }
}

fn takes_new(member: &Member, now: Millis) -> bool {
    member.admin() == Admin::Enabled
        && member.health() == Health::Up
        && member.weight() > 0
        && member.ejected_until(now).is_none()
}

fn check_takes_new(member: &Member, members: &[Arc<Member>], now: Millis) {
    assert!(takes_new(member, now), "{member:?} takes nothing new");
    if member.backup() {
        let primary = members
            .iter()
            .find(|member| !member.backup() && takes_new(member, now));
        assert!(
            primary.is_none(),
            "a backup was used though {primary:?} is up"
        );
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
