//! Many threads on one pool: no limit is passed, no wake-up lost, nothing left over.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use balance::{Admin, Algorithm, Ask, HashMethod, Pick, Pool, PoolSettings, Slot, TicketState};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

#[test]
fn limits_hold_and_nobody_is_forgotten() {
    run(false);
}

#[test]
fn nor_while_members_go_and_come() {
    run(true);
}

fn run(disturbed: bool) {
    for algorithm in [
        Algorithm::RoundRobin,
        Algorithm::LeastConnections,
        Algorithm::PowerOfTwo,
        Algorithm::First,
        Algorithm::Hash(HashMethod::Consistent { load_factor: 1.25 }),
    ] {
        let mut settings = PoolSettings {
            queue: 100,
            queue_timeout: 1,
            ..common::settings(algorithm, &[1, 2, 3])
        };
        settings
            .members
            .iter_mut()
            .for_each(|member| member.limit = 1);
        let pool = Pool::new(settings, 0);
        let held: HashMap<_, _> = pool
            .members()
            .iter()
            .map(|member| (member.id(), AtomicU32::new(0)))
            .collect();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..8)
                .map(|seed| {
                    scope.spawn({
                        let (pool, held) = (&pool, &held);
                        move || work(pool, held, seed)
                    })
                })
                .collect();
            // What comes and goes has the queue served again and again, and would hide who is forgotten otherwise.
            if disturbed {
                scope.spawn(|| disturb(&pool, &done));
            }
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
            done.store(true, SeqCst);
        });
        pool.check_invariants();
        assert_eq!(pool.waiting(), 0);
        assert_eq!(
            pool.members()
                .iter()
                .map(|member| member.requests())
                .sum::<u64>(),
            8 * ROUNDS
        );
        pool.members()
            .iter()
            .for_each(|member| assert_eq!(member.active(), 0));
    }
}

/// Takes and gives back slots. The clock stands still: who is forgotten waits until the test gives up.
fn work(pool: &Pool, held: &HashMap<balance::MemberId, AtomicU32>, seed: u64) {
    for i in 0..ROUNDS {
        let random = balance::hash_bytes(&(seed << 32 | i).to_le_bytes());
        let ask = Ask {
            hash: Some(random),
            random,
            ..Ask::default()
        };
        let slot = loop {
            match pool.pick(&ask, 0) {
                Pick::Slot(slot) => break slot,
                Pick::Full => break wait(pool),
                Pick::Down => thread::yield_now(),
            }
        };
        let holders = &held[&slot.member().id()];
        assert_eq!(holders.fetch_add(1, SeqCst), 0, "two hold the only slot");
        if random.is_multiple_of(7) {
            thread::yield_now();
        }
        holders.fetch_sub(1, SeqCst);
        drop(slot);
    }
}

fn wait(pool: &Pool) -> Slot {
    let unpark = Arc::new(Unpark {
        thread: thread::current(),
        woken: AtomicBool::new(false),
    });
    let mut ticket = pool.enqueue(Waker::from(unpark.clone()), 0).unwrap();
    loop {
        if let TicketState::Granted(slot) = ticket.poll(0) {
            return slot;
        }
        let start = Instant::now();
        while !unpark.woken.swap(false, SeqCst) {
            thread::park_timeout(Duration::from_secs(1));
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "never woken: {pool:?}"
            );
        }
    }
}

/// Takes one member after the other out and in again.
fn disturb(pool: &Pool, done: &AtomicBool) {
    let members = pool.members();
    for member in members.iter().cycle() {
        pool.set_admin(member.id(), Admin::Drain, 0);
        thread::yield_now();
        pool.set_admin(member.id(), Admin::Enabled, 0);
        if done.load(SeqCst) {
            break;
        }
    }
}

struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, SeqCst);
        self.thread.unpark();
    }
}

const ROUNDS: u64 = 4_000;
