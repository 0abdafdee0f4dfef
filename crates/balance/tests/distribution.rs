//! How requests are spread: weights, load, hashes, slow start.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use balance::{
    Admin, Algorithm, Ask, HashMethod, Health, MemberId, Pick, Pool, PoolSettings, Slot,
};
use common::{member, settings, spread, take};
use proptest::prelude::*;
use std::sync::Arc;

const CONSISTENT: Algorithm = Algorithm::Hash(HashMethod::Consistent { load_factor: 0.0 });
const BOUNDED: Algorithm = Algorithm::Hash(HashMethod::Consistent { load_factor: 1.25 });

proptest! {
    #[test]
    fn a_round_of_round_robin_is_exact(weights in prop::collection::vec(1u16..50, 1..10)) {
        let pool = Pool::new(settings(Algorithm::RoundRobin, &weights), 0);
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        let expected: Vec<u64> = weights.iter().map(|&weight| 3 * u64::from(weight)).collect();
        prop_assert_eq!(spread(&pool, 3 * total, 0), expected);
    }

    #[test]
    fn held_requests_of_least_connections_follow_the_weights(weights in prop::collection::vec(1u16..20, 1..10), rounds in 1u64..4) {
        let pool = Pool::new(settings(Algorithm::LeastConnections, &weights), 0);
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        let _held: Vec<Slot> = (0..rounds * total).map(|_| take(&pool, 0)).collect();
        for member in pool.members() {
            prop_assert_eq!(u64::from(member.active()), rounds * u64::from(member.weight()));
        }
    }
}

#[test]
fn weights_count_in_all_algorithms_but_first() {
    let tolerance = |algorithm| if algorithm == CONSISTENT { 0.2 } else { 0.05 };
    for algorithm in [
        Algorithm::RoundRobin,
        Algorithm::LeastConnections,
        Algorithm::Hash(HashMethod::Modulo),
        CONSISTENT,
    ] {
        let pool = Pool::new(settings(algorithm, &[1, 2, 5, 0]), 0);
        let counts = spread(&pool, 40_000, 0);
        for (count, share) in counts.iter().zip([5_000.0, 10_000.0, 25_000.0, 0.0]) {
            assert!(
                (*count as f64 - share).abs() <= share * tolerance(algorithm),
                "{algorithm:?}: {counts:?}"
            );
        }
    }
}

#[test]
fn power_of_two_keeps_the_load_even_by_weight() {
    let pool = Pool::new(settings(Algorithm::PowerOfTwo, &[1, 1, 2, 4]), 0);
    let held = hold(&pool, 4_000);
    for (member, share) in pool.members().iter().zip([500, 500, 1000, 2000]) {
        assert!(
            member.active().abs_diff(share) < share / 10,
            "{:?}",
            pool.members()
        );
    }
    drop(held);
    let alone = Pool::new(settings(Algorithm::PowerOfTwo, &[7]), 0);
    assert_eq!(spread(&alone, 10, 0), [10]);
}

#[test]
fn the_least_loaded_is_chosen_and_equals_take_turns() {
    let pool = Pool::new(settings(Algorithm::LeastConnections, &[1, 1, 1]), 0);
    let mut held = [take(&pool, 0), take(&pool, 0), take(&pool, 0)].map(Some);
    assert!(pool.members().iter().all(|member| member.active() == 1));
    let free = held[1].take().unwrap().member().id();
    assert_eq!(take(&pool, 0).member().id(), free);
    drop(held);
    assert_eq!(spread(&pool, 300, 0), [100, 100, 100]);
}

#[test]
fn first_fills_one_member_after_the_other() {
    let mut settings = settings(Algorithm::First, &[1, 9, 1]);
    settings
        .members
        .iter_mut()
        .for_each(|member| member.limit = 2);
    let pool = Pool::new(settings, 0);
    let held: Vec<Slot> = (0..6).map(|_| take(&pool, 0)).collect();
    let names: Vec<_> = held
        .iter()
        .map(|slot| slot.member().name().to_string())
        .collect();
    assert_eq!(names, ["m0", "m0", "m1", "m1", "m2", "m2"]);
    assert!(matches!(pool.pick(&Ask::default(), 0), Pick::Full));
}

#[test]
fn equal_hashes_go_to_the_same_member_and_without_one_all_take_turns() {
    for algorithm in [Algorithm::Hash(HashMethod::Modulo), CONSISTENT] {
        let pool = Pool::new(settings(algorithm, &[1; 5]), 0);
        for hash in 0..100 {
            assert_eq!(owner(&pool, hash), owner(&pool, hash));
        }
        (0..50).for_each(|_| drop(take(&pool, 0)));
        assert!(pool.members().iter().all(|member| member.requests() >= 10));
    }
}

#[test]
fn a_key_keeps_its_member_while_others_come_and_go() {
    let pool = Pool::new(settings(CONSISTENT, &[1; 10]), 0);
    let owners =
        |pool: &Pool| -> Vec<MemberId> { (0..20_000).map(|key| owner(pool, key)).collect() };
    let lost = member(&pool, "m3").id();
    let before = owners(&pool);
    pool.set_health(lost, Health::Down, 0);
    let without = owners(&pool);
    for (before, after) in before.iter().zip(&without) {
        assert!(before == after || *before == lost);
    }
    let moved = before.iter().filter(|&&owner| owner == lost).count();
    assert!((1_500..2_500).contains(&moved), "{moved} of 20000 moved");
    pool.set_health(lost, Health::Up, 0);
    assert_eq!(owners(&pool), before, "all come home");
    pool.reconfigure(settings(CONSISTENT, &[1; 11]), 0);
    let new = member(&pool, "m10").id();
    let moved = owners(&pool)
        .iter()
        .zip(&before)
        .filter(|(after, before)| after != before)
        .inspect(|(after, _)| assert_eq!(**after, new))
        .count();
    assert!((1_300..2_400).contains(&moved), "{moved} of 20000 moved");
}

#[test]
fn all_instances_agree_on_the_member_of_a_key() {
    // Pinned: another release must agree too.
    let pool = Pool::new(settings(CONSISTENT, &[1; 5]), 0);
    let names: String = (0..12)
        .map(|key| pool.member(owner(&pool, key)).unwrap().name()[1..].to_owned())
        .collect();
    assert_eq!(names, "003302002321");
}

#[test]
fn one_hot_key_loads_no_member_above_its_bound() {
    let pool = Pool::new(settings(BOUNDED, &[1, 1, 1, 2]), 0);
    let ask = Ask {
        hash: Some(42),
        ..Ask::default()
    };
    let mut held = Vec::new();
    for total in 1..=500u32 {
        let Pick::Slot(slot) = pool.pick(&ask, 0) else {
            panic!("no limit is set")
        };
        let bound = (1.25 * f64::from(total) * f64::from(slot.member().weight()) / 5.0).ceil();
        assert!(
            f64::from(slot.member().active()) <= bound,
            "{:?} of {total}",
            slot.member()
        );
        held.push(slot);
    }
    drop(held);
    let spread: Vec<u64> = (0..10)
        .map(|_| owner(&pool, 42))
        .map(|id| u64::from(id == owner(&pool, 42)))
        .collect();
    assert_eq!(spread, [1; 10], "below the bound the key has one member");
}

#[test]
fn slow_start_raises_a_members_share_step_by_step() {
    let slow = PoolSettings {
        slow_start: 10_000,
        ..settings(Algorithm::RoundRobin, &[10, 10])
    };
    let pool = Pool::new(slow, 0);
    assert_eq!(
        spread(&pool, 100, 0),
        [50, 50],
        "at the start all are equally cold"
    );
    let back = member(&pool, "m1");
    pool.set_health(back.id(), Health::Down, 0);
    pool.set_health(back.id(), Health::Up, 1_000);
    for (now, weight) in [
        (1_000, 10),
        (1_999, 10),
        (2_000, 20),
        (5_999, 50),
        (6_000, 60),
        (10_000, 100),
        (20_000, 100),
    ] {
        assert_eq!(back.effective_weight(now), weight, "at {now}");
        let total = u64::from(100 + weight);
        assert_eq!(
            spread(&pool, total, now),
            [100, u64::from(weight)],
            "at {now}"
        );
        pool.check_invariants();
    }
}

#[test]
fn a_member_enabled_again_or_new_starts_slowly_and_a_drained_one_does_not() {
    let slow = |weights| PoolSettings {
        slow_start: 10_000,
        ..settings(Algorithm::RoundRobin, weights)
    };
    let pool = Pool::new(slow(&[1, 1]), 0);
    let m1 = member(&pool, "m1");
    pool.set_admin(m1.id(), Admin::Drain, 50_000);
    pool.set_admin(m1.id(), Admin::Enabled, 50_000);
    assert_eq!(m1.effective_weight(50_000), 10);
    pool.set_admin(m1.id(), Admin::Disabled, 50_000);
    pool.set_admin(m1.id(), Admin::Enabled, 50_000);
    assert_eq!(m1.effective_weight(50_000), 1);
    pool.reconfigure(slow(&[1, 1, 1]), 90_000);
    assert_eq!(member(&pool, "m0").effective_weight(90_000), 10);
    assert_eq!(member(&pool, "m2").effective_weight(90_000), 1);
}

#[test]
fn full_or_excluded_members_are_passed_over_in_every_algorithm() {
    for algorithm in [
        Algorithm::RoundRobin,
        Algorithm::LeastConnections,
        Algorithm::PowerOfTwo,
        Algorithm::First,
        Algorithm::Hash(HashMethod::Modulo),
        CONSISTENT,
        BOUNDED,
    ] {
        // The last one is alone in having room, and light: no rotation reaches it soon.
        let mut settings = settings(algorithm, &[1000, 1000, 1000, 1000, 1]);
        settings.members[..3]
            .iter_mut()
            .for_each(|member| member.limit = 1);
        let pool = Pool::new(settings, 0);
        let members = pool.members();
        let only = |i: usize| Ask {
            only: Some(members[i].id()),
            ..Ask::default()
        };
        let _full = [0, 1, 2].map(|i| pool.pick(&only(i), 0));
        let exclude = [members[3].id()];
        for random in 0..200u64 {
            let random = balance::hash_bytes(&random.to_le_bytes());
            let ask = Ask {
                hash: Some(random),
                random,
                exclude: &exclude,
                only: None,
                algorithm: None,
            };
            let Pick::Slot(slot) = pool.pick(&ask, 0) else {
                panic!("{algorithm:?}")
            };
            assert!(Arc::ptr_eq(slot.member(), &members[4]));
        }
        let exclude: Vec<MemberId> = members[3..].iter().map(|member| member.id()).collect();
        assert!(matches!(
            pool.pick(
                &Ask {
                    exclude: &exclude,
                    ..Ask::default()
                },
                0
            ),
            Pick::Full
        ));
        let exclude: Vec<MemberId> = members.iter().map(|member| member.id()).collect();
        assert!(matches!(
            pool.pick(
                &Ask {
                    exclude: &exclude,
                    ..Ask::default()
                },
                0
            ),
            Pick::Down
        ));
    }
}

fn owner(pool: &Pool, hash: u64) -> MemberId {
    match pool.pick(
        &Ask {
            hash: Some(hash),
            ..Ask::default()
        },
        0,
    ) {
        Pick::Slot(slot) => slot.member().id(),
        other => panic!("{other:?}"),
    }
}

fn hold(pool: &Pool, count: u64) -> Vec<Slot> {
    let pick = |i: u64| {
        let ask = Ask {
            random: balance::hash_bytes(&i.to_le_bytes()),
            ..Ask::default()
        };
        match pool.pick(&ask, 0) {
            Pick::Slot(slot) => slot,
            other => panic!("{other:?}"),
        }
    };
    (0..count).map(pick).collect()
}
