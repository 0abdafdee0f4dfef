//! Waiting for a slot: who gets it, who is woken, and who gives up.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use balance::{
    Admin, Ask, Health, MemberId, MemberSettings, Pick, Pool, PoolSettings, QueueFull, TicketState,
};
use common::{Waiter, Woken, member, queued, take};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Waker;

#[test]
fn a_freed_slot_goes_to_the_one_who_waits_longest() {
    let pool = Pool::new(queued(1), 0);
    let mut slot = take(&pool, 0);
    let mut waiters: Vec<Waiter> = (0..5).map(|_| Waiter::new(&pool, 0)).collect();
    for i in 0..5 {
        drop(slot);
        let woken: Vec<usize> = waiters.iter().map(Waiter::woken).collect();
        assert_eq!(woken.iter().sum::<usize>(), i + 1, "exactly one is woken");
        slot = waiters[i].granted(1).expect("the next in line has it");
        pool.check_invariants();
    }
    assert_eq!(member(&pool, "m0").active(), 1);
    assert_eq!(member(&pool, "m0").requests(), 6);
}

#[test]
fn newcomers_do_not_pass_those_who_wait() {
    let pool = Pool::new(queued(1), 0);
    let slot = take(&pool, 0);
    let mut waiter = Waiter::new(&pool, 0);
    drop(slot);
    assert!(
        matches!(pool.pick(&Ask::default(), 0), Pick::Full),
        "the slot is promised"
    );
    assert!(waiter.granted(0).is_some());
}

#[test]
fn a_grant_that_is_not_taken_goes_to_the_next() {
    let pool = Pool::new(queued(1), 0);
    let slot = take(&pool, 0);
    let first = Waiter::new(&pool, 0);
    let mut second = Waiter::new(&pool, 0);
    drop(slot);
    assert!(second.waits(0));
    drop(first);
    assert_eq!(second.woken(), 1);
    assert!(second.granted(0).is_some());
    assert!(
        matches!(pool.pick(&Ask::default(), 0), Pick::Slot(_)),
        "and then to anybody"
    );
}

#[test]
fn who_leaves_or_times_out_is_passed_over() {
    let pool = Pool::new(queued(1), 0);
    let slot = take(&pool, 0);
    let left = Waiter::new(&pool, 0);
    let mut late = Waiter::new(&pool, 0);
    let mut patient = Waiter::new(&pool, 500);
    drop(left);
    assert!(late.waits(999));
    assert_eq!(late.ticket.deadline(), 1000);
    assert!(matches!(late.ticket.poll(1000), TicketState::TimedOut));
    assert!(matches!(late.ticket.poll(1001), TicketState::TimedOut));
    assert_eq!(pool.waiting(), 1);
    drop(slot);
    assert_eq!((late.woken(), patient.woken()), (0, 1));
    assert!(patient.granted(1001).is_some());
}

#[test]
fn a_slot_granted_in_time_is_good_after_it() {
    let pool = Pool::new(queued(1), 0);
    let slot = take(&pool, 0);
    let mut waiter = Waiter::new(&pool, 0);
    drop(slot);
    assert!(waiter.granted(5000).is_some());
}

#[test]
fn the_queue_holds_no_more_than_it_may() {
    let pool = Pool::new(queued(1), 0);
    let _slot = take(&pool, 0);
    let mut waiters: Vec<Waiter> = (0..10).map(|_| Waiter::new(&pool, 0)).collect();
    assert_eq!(
        pool.enqueue(Waker::noop().clone(), 0).unwrap_err(),
        QueueFull
    );
    waiters.pop();
    assert!(pool.enqueue(Waker::noop().clone(), 0).is_ok());

    let none = Pool::new(
        PoolSettings {
            queue: 0,
            ..queued(1)
        },
        0,
    );
    assert!(none.enqueue(Waker::noop().clone(), 0).is_err());
}

#[test]
fn who_joins_when_a_slot_is_free_has_it_at_once() {
    // Between the pick that found nothing and the place in the queue a slot was freed.
    let pool = Pool::new(queued(1), 0);
    let slot = take(&pool, 0);
    assert!(matches!(pool.pick(&Ask::default(), 0), Pick::Full));
    drop(slot);
    assert!(Waiter::new(&pool, 0).granted(0).is_some());
}

#[test]
fn a_member_that_comes_back_serves_as_many_as_it_can() {
    let mut settings = queued(2);
    settings.members.push(MemberSettings {
        limit: 3,
        ..MemberSettings::new("m1", common::address(1))
    });
    let pool = Pool::new(settings, 0);
    let id = member(&pool, "m1").id();
    type Change = fn(&Pool, MemberId) -> bool;
    let out_and_in: [(Change, Change); 3] = [
        (
            |pool, id| pool.set_health(id, Health::Down, 0),
            |pool, id| pool.set_health(id, Health::Up, 0),
        ),
        (
            |pool, id| pool.set_admin(id, Admin::Drain, 0),
            |pool, id| pool.set_admin(id, Admin::Enabled, 0),
        ),
        (
            |pool, id| pool.set_weight(id, 0, 0),
            |pool, id| pool.set_weight(id, 1, 0),
        ),
    ];
    for (goes_out, comes_in) in out_and_in {
        assert!(goes_out(&pool, id));
        let _held = [take(&pool, 0), take(&pool, 0)];
        let waiters: Vec<Waiter> = (0..5).map(|_| Waiter::new(&pool, 0)).collect();
        assert_eq!(pool.waiting(), 5);
        assert!(comes_in(&pool, id));
        let woken: Vec<usize> = waiters.iter().map(Waiter::woken).collect();
        assert_eq!(woken, [1, 1, 1, 0, 0]);
        pool.check_invariants();
    }
}

#[test]
fn a_raised_limit_serves_those_who_wait_and_a_lowered_one_lets_nobody_in_until_it_is_kept() {
    let pool = Pool::new(queued(1), 0);
    let first = take(&pool, 0);
    let mut waiters: Vec<Waiter> = (0..4).map(|_| Waiter::new(&pool, 0)).collect();
    pool.reconfigure(queued(3), 0);
    let second = waiters[0].granted(0).unwrap();
    let third = waiters[1].granted(0).unwrap();
    pool.reconfigure(queued(1), 0);
    drop(first);
    drop(second);
    assert!(
        waiters[2].waits(0),
        "two of three left, and only one may be there"
    );
    drop(third);
    assert!(waiters[2].granted(0).is_some());
    assert!(waiters[3].granted(0).is_some());
}

#[test]
fn those_who_wait_outlive_a_reconfiguration_that_removes_the_member() {
    let pool = Pool::new(queued(1), 0);
    let slot = take(&pool, 0);
    let mut waiter = Waiter::new(&pool, 0);
    let mut settings = queued(1);
    settings.members[0].address = common::address(99);
    pool.reconfigure(settings, 0);
    let granted = waiter.granted(0).unwrap();
    assert_eq!(granted.member().address(), common::address(99));
    // The old member's slot is of no use to the one who waits now.
    let mut next = Waiter::new(&pool, 0);
    drop(slot);
    assert!(next.waits(0));
    drop(granted);
    assert!(next.granted(0).is_some());
}

#[test]
fn a_slot_of_a_drained_member_is_not_handed_on() {
    let pool = Pool::new(queued(1), 0);
    let slot = take(&pool, 0);
    let mut waiter = Waiter::new(&pool, 0);
    pool.set_admin(slot.member().id(), Admin::Drain, 0);
    drop(slot);
    assert!(waiter.waits(0));
    assert_eq!(member(&pool, "m0").active(), 0);
}

#[test]
fn another_waker_is_the_one_woken() {
    let pool = Pool::new(queued(1), 0);
    let slot = take(&pool, 0);
    let mut waiter = Waiter::new(&pool, 0);
    let other = Arc::new(Woken::default());
    waiter.ticket.set_waker(&Waker::from(other.clone()));
    drop(slot);
    assert_eq!((waiter.woken(), other.0.load(SeqCst)), (0, 1));
    // Set too late to be woken by the grant, it is woken at once.
    let late = Arc::new(Woken::default());
    waiter.ticket.set_waker(&Waker::from(late.clone()));
    assert_eq!(late.0.load(SeqCst), 1);
}

#[test]
fn the_pool_goes_with_its_last_holder() {
    let pool = Pool::new(queued(1), 0);
    let slot = take(&pool, 0);
    let waiter = Waiter::new(&pool, 0);
    let weak = Arc::downgrade(&pool);
    drop(pool);
    drop(slot);
    assert!(weak.upgrade().is_some(), "the ticket holds it");
    drop(waiter);
    assert!(weak.upgrade().is_none());
}
