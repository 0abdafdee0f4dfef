//! Who is in the pool and may be used: operators, monitors, ejection, backups, reconfiguration, names.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use balance::{
    Admin, Algorithm, Ask, Ejection, Health, Member, MemberSettings, Millis, Outcome, Pick, Pool,
    PoolSettings, RetryBudget,
};
use common::{address, member, settings, spread, take};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn round_robin(weights: &[u16]) -> PoolSettings {
    settings(Algorithm::RoundRobin, weights)
}

fn only(pool: &Pool, member: &Member) -> Pick {
    pool.pick(
        &Ask {
            only: Some(member.id()),
            ..Ask::default()
        },
        0,
    )
}

#[test]
fn a_drained_member_takes_only_what_persistence_sends() {
    let pool = Pool::new(round_robin(&[1, 1]), 0);
    let m0 = member(&pool, "m0");
    pool.set_admin(m0.id(), Admin::Drain, 0);
    assert_eq!(spread(&pool, 10, 0), [0, 10]);
    assert!(matches!(only(&pool, &m0), Pick::Slot(slot) if Arc::ptr_eq(slot.member(), &m0)));
    pool.set_admin(m0.id(), Admin::Disabled, 0);
    assert!(matches!(only(&pool, &m0), Pick::Down));
    pool.set_admin(m0.id(), Admin::Enabled, 0);
    pool.set_health(m0.id(), Health::Down, 0);
    assert!(matches!(only(&pool, &m0), Pick::Down));
}

#[test]
fn with_all_down_nothing_is_picked() {
    let pool = Pool::new(round_robin(&[1, 1]), 0);
    assert_eq!(pool.usable(), 2);
    pool.members()
        .iter()
        .for_each(|member| assert!(pool.set_health(member.id(), Health::Down, 0)));
    assert!(matches!(pool.pick(&Ask::default(), 0), Pick::Down));
    assert_eq!(pool.usable(), 0);
    assert!(matches!(
        Pool::new(PoolSettings::default(), 0).pick(&Ask::default(), 0),
        Pick::Down
    ));
}

#[test]
fn backups_are_used_only_while_no_primary_is() {
    let mut settings = round_robin(&[1, 1, 1]);
    settings.members[1].backup = true;
    settings.members[2].backup = true;
    let pool = Pool::new(settings, 0);
    assert_eq!(spread(&pool, 10, 0), [10, 0, 0]);
    pool.set_health(member(&pool, "m0").id(), Health::Down, 0);
    assert_eq!(spread(&pool, 10, 0), [0, 5, 5]);
    pool.set_health(member(&pool, "m0").id(), Health::Up, 0);
    assert_eq!(spread(&pool, 10, 0), [10, 0, 0]);
}

#[test]
fn a_full_member_is_full_for_persistence_too() {
    let mut settings = round_robin(&[1, 1]);
    settings.members[0].limit = 1;
    let pool = Pool::new(settings, 0);
    let m0 = member(&pool, "m0");
    let _held = only(&pool, &m0);
    assert!(matches!(only(&pool, &m0), Pick::Full));
    assert!(matches!(
        pool.pick(
            &Ask {
                only: Some(m0.id()),
                exclude: &[m0.id()],
                ..Ask::default()
            },
            0
        ),
        Pick::Down
    ));
}

fn ejecting(count: usize, max_percent: u8) -> Arc<Pool> {
    let ejection = Some(Ejection {
        failures: 3,
        within: 5_000,
        time: 1_000,
        max_percent,
    });
    Pool::new(
        PoolSettings {
            ejection,
            ..round_robin(&vec![1; count])
        },
        0,
    )
}

fn fail(member: &Member, times: u32, now: Millis) -> bool {
    (0..times).fold(false, |_, _| member.report(Outcome::ConnectError, now))
}

#[test]
fn failures_that_lie_far_apart_eject_nobody() {
    let pool = ejecting(4, 50);
    let m0 = member(&pool, "m0");
    for n in 0..20 {
        assert!(!fail(&m0, 1, n * 3_000), "failure {n}");
    }
    assert!(fail(&m0, 1, 58_000), "the third within five seconds");
}

#[test]
fn failures_in_a_row_eject_and_time_brings_back() {
    let pool = ejecting(4, 50);
    let m0 = member(&pool, "m0");
    assert!(!fail(&m0, 2, 0));
    assert!(!m0.report(Outcome::Ok, 0), "a success ends the run");
    assert!(!fail(&m0, 2, 0));
    assert!(m0.report(Outcome::Status5xx, 0));
    assert_eq!(m0.ejected_until(0), Some(1_000));
    assert_eq!(spread(&pool, 9, 999), [0, 3, 3, 3]);
    assert_eq!(spread(&pool, 8, 1_000), [2, 2, 2, 2]);
    assert!(!fail(&m0, 2, 1_000), "it starts with a clean sheet");
    let counters = m0.counters();
    assert_eq!(
        (
            counters.failures.load(Relaxed),
            counters.connect_errors.load(Relaxed)
        ),
        (7, 6)
    );
    assert_eq!(
        (
            counters.status_5xx.load(Relaxed),
            counters.ejections.load(Relaxed)
        ),
        (1, 1)
    );
}

#[test]
fn an_ejection_lasts_longer_each_time_up_to_tenfold_and_starts_over_after_good_service() {
    let pool = ejecting(4, 50);
    let m0 = member(&pool, "m0");
    let mut now = 0;
    for seconds in [1, 2, 4, 8, 10, 10] {
        assert!(fail(&m0, 3, now));
        let back = now + seconds * 1_000;
        assert_eq!(m0.ejected_until(now), Some(back));
        now = back;
        pool.tick(now);
    }
    now += 10_000;
    assert!(fail(&m0, 3, now));
    assert_eq!(m0.ejected_until(now), Some(now + 1_000));
}

#[test]
fn no_more_than_the_allowed_share_is_ejected() {
    let pool = ejecting(5, 50);
    let ejected: Vec<bool> = pool
        .members()
        .iter()
        .map(|member| fail(member, 3, 0))
        .collect();
    assert_eq!(ejected, [true, true, false, false, false]);
    // With two of the others down, two of three would be out.
    pool.set_health(member(&pool, "m3").id(), Health::Down, 0);
    pool.set_health(member(&pool, "m4").id(), Health::Down, 0);
    pool.check_invariants();
    assert_eq!(pool.usable(), 2);

    let all = ejecting(1, 100);
    assert!(fail(&member(&all, "m0"), 3, 0));
    assert!(matches!(all.pick(&Ask::default(), 0), Pick::Down));
    let none = ejecting(1, 99);
    assert!(!fail(&member(&none, "m0"), 3, 0));
}

#[test]
fn an_operator_or_a_monitor_ends_an_ejection() {
    let pool = ejecting(2, 50);
    let m0 = member(&pool, "m0");
    assert!(fail(&m0, 3, 0));
    assert!(matches!(only(&pool, &m0), Pick::Down));
    pool.set_admin(m0.id(), Admin::Drain, 0);
    pool.set_admin(m0.id(), Admin::Enabled, 0);
    assert_eq!(pool.usable(), 2);
    assert!(fail(&m0, 3, 0));
    pool.set_health(m0.id(), Health::Down, 0);
    pool.set_health(m0.id(), Health::Up, 0);
    assert_eq!(pool.usable(), 2);
    assert!(fail(&m0, 3, 0));
    pool.reconfigure(round_robin(&[1, 1]), 0);
    assert_eq!(pool.usable(), 2, "without ejection nobody is ejected");
    assert!(!fail(&m0, 10, 0));
}

#[test]
fn members_that_stay_keep_their_state() {
    let pool = Pool::new(round_robin(&[1, 1, 1]), 0);
    let old = pool.members();
    let held = take(&pool, 0);
    pool.set_admin(old[1].id(), Admin::Drain, 0);
    pool.set_health(old[2].id(), Health::Down, 0);
    let mut next = round_robin(&[1, 1, 1, 1]);
    next.members.swap(0, 2);
    pool.reconfigure(next, 0);
    let new = pool.members();
    assert!(
        Arc::ptr_eq(&new[2], &old[0])
            && Arc::ptr_eq(&new[1], &old[1])
            && Arc::ptr_eq(&new[0], &old[2])
    );
    assert_eq!(new[2].active(), 1);
    assert_eq!(
        (new[1].admin(), new[0].health()),
        (Admin::Drain, Health::Down)
    );
    assert_eq!(spread(&pool, 10, 0), [0, 0, 5, 5]);
    pool.reconfigure(round_robin(&[1]), 0);
    pool.reconfigure(round_robin(&[1, 1]), 0);
    assert!(
        pool.members()
            .iter()
            .all(|member| member.id() != old[1].id()),
        "an identity is never used again"
    );
    assert!(!pool.set_health(old[1].id(), Health::Up, 0));
    assert!(matches!(only(&pool, &old[1]), Pick::Down));
    drop(held);
    assert_eq!(old[0].active(), 0);
}

#[test]
fn settings_win_over_the_operator_only_when_they_change() {
    let pool = Pool::new(round_robin(&[1, 1]), 0);
    let m0 = member(&pool, "m0");
    pool.set_admin(m0.id(), Admin::Drain, 0);
    pool.set_weight(m0.id(), 7, 0);
    pool.reconfigure(round_robin(&[1, 2]), 0);
    assert_eq!((m0.admin(), m0.weight()), (Admin::Drain, 7));
    let mut changed = round_robin(&[3, 2]);
    changed.members[0].admin = Admin::Disabled;
    pool.reconfigure(changed, 0);
    assert_eq!((m0.admin(), m0.weight()), (Admin::Disabled, 3));
}

#[test]
fn a_member_no_longer_monitored_is_up() {
    let monitored = |monitored| {
        let mut settings = round_robin(&[1]);
        settings.members[0].monitored = monitored;
        settings
    };
    let pool = Pool::new(monitored(true), 0);
    let m0 = member(&pool, "m0");
    assert_eq!(m0.health(), Health::Up);
    pool.set_health(m0.id(), Health::Down, 0);
    pool.reconfigure(monitored(true), 0);
    assert_eq!(m0.health(), Health::Down);
    pool.reconfigure(monitored(false), 0);
    assert_eq!(m0.health(), Health::Up);
}

#[test]
fn a_name_that_resolves_anew_keeps_the_addresses_that_stay() {
    let mut settings = round_robin(&[1]);
    settings.members.insert(
        0,
        MemberSettings {
            weight: 5,
            ..MemberSettings::new("name", address(100))
        },
    );
    let pool = Pool::new(settings, 0);
    let first = member(&pool, "name");
    let addresses = |pool: &Pool| {
        pool.members()
            .iter()
            .map(|member| member.address().port())
            .collect::<Vec<_>>()
    };
    assert!(pool.set_addresses("name", &[address(101), address(100)], 0));
    assert_eq!(addresses(&pool), [100, 101, 0]);
    assert!(Arc::ptr_eq(&member(&pool, "name"), &first));
    assert_eq!(spread(&pool, 11, 0), [5, 5, 1]);
    assert!(!pool.set_addresses("name", &[address(100), address(101), address(100)], 0));
    assert!(
        !pool.set_addresses("name", &[], 0),
        "a failed resolution empties nothing"
    );
    assert!(!pool.set_addresses("unknown", &[address(7)], 0));
    assert!(pool.set_addresses("name", &[address(102)], 0));
    assert_eq!(addresses(&pool), [102, 0]);
    pool.check_invariants();
}

#[test]
fn retries_are_bounded_by_the_pools_traffic() {
    let budget = Some(RetryBudget {
        percent: 10,
        min_per_second: 1,
    });
    let pool = Pool::new(
        PoolSettings {
            retry_budget: budget,
            ..round_robin(&[1, 1])
        },
        0,
    );
    spread(&pool, 1_000, 0);
    let allowed = |now| (0..10_000).take_while(|_| pool.retry_allowed(now)).count();
    assert_eq!(allowed(100), 110);
    // Counters that leave with their member are no new traffic, nor are those that stay.
    pool.reconfigure(
        PoolSettings {
            retry_budget: budget,
            ..round_robin(&[1])
        },
        200,
    );
    assert_eq!(allowed(300), 0);
    pool.reconfigure(
        PoolSettings {
            retry_budget: None,
            ..round_robin(&[1])
        },
        400,
    );
    assert!(pool.retry_allowed(400));
}
