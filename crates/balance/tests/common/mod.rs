//! What the tests of a pool share.

#![allow(dead_code, clippy::unwrap_used)]

use balance::{
    Algorithm, Ask, Member, MemberSettings, Millis, Pick, Pool, PoolSettings, Slot, Ticket,
    TicketState,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Wake, Waker};

pub(crate) fn address(i: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, i).into()
}

/// Members `m0`, `m1`, … of those weights.
pub(crate) fn members(weights: &[u16]) -> Vec<MemberSettings> {
    let member = |(&weight, i)| MemberSettings {
        weight,
        ..MemberSettings::new(format!("m{i}"), address(i))
    };
    weights.iter().zip(0..).map(member).collect()
}

pub(crate) fn settings(algorithm: Algorithm, weights: &[u16]) -> PoolSettings {
    PoolSettings {
        algorithm,
        members: members(weights),
        ..PoolSettings::default()
    }
}

/// A pool of one member with a queue of ten, each waiting at most a second.
pub(crate) fn queued(limit: u32) -> PoolSettings {
    let mut settings = PoolSettings {
        queue: 10,
        queue_timeout: 1000,
        ..settings(Algorithm::RoundRobin, &[1])
    };
    settings.members[0].limit = limit;
    settings
}

pub(crate) fn take(pool: &Pool, now: Millis) -> Slot {
    match pool.pick(&Ask::default(), now) {
        Pick::Slot(slot) => slot,
        other => panic!("{other:?}"),
    }
}

/// How often each of `count` members is chosen, one request at a time, with every hash and random number another.
pub(crate) fn spread(pool: &Pool, picks: u64, now: Millis) -> Vec<u64> {
    let members = pool.members();
    let before: Vec<u64> = members.iter().map(|member| member.requests()).collect();
    for i in 0..picks {
        let random = balance::hash_bytes(&i.to_le_bytes());
        let ask = Ask {
            hash: Some(random.rotate_left(17)),
            random,
            ..Ask::default()
        };
        assert!(matches!(pool.pick(&ask, now), Pick::Slot(_)));
    }
    members
        .iter()
        .zip(before)
        .map(|(member, before)| member.requests() - before)
        .collect()
}

pub(crate) fn member(pool: &Pool, name: &str) -> Arc<Member> {
    pool.members()
        .into_iter()
        .find(|member| **member.name() == *name)
        .unwrap()
}

/// One who waits.
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    woken: Arc<Woken>,
}

impl Waiter {
    pub(crate) fn new(pool: &Pool, now: Millis) -> Self {
        let woken = Arc::new(Woken::default());
        Self {
            ticket: pool.enqueue(Waker::from(woken.clone()), now).unwrap(),
            woken,
        }
    }

    pub(crate) fn woken(&self) -> usize {
        self.woken.0.load(SeqCst)
    }

    pub(crate) fn waits(&mut self, now: Millis) -> bool {
        matches!(self.ticket.poll(now), TicketState::Waiting)
    }

    pub(crate) fn granted(&mut self, now: Millis) -> Option<Slot> {
        match self.ticket.poll(now) {
            TicketState::Granted(slot) => Some(slot),
            TicketState::Waiting | TicketState::TimedOut => None,
        }
    }
}

#[derive(Default)]
pub(crate) struct Woken(pub(crate) AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}
