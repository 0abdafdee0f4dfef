//! Maglev tables: a fixed number of slots, each with the member that takes the keys that fall there. One access finds a
//! key's member, with no state and the same on every machine. Hashing keys, and who is up, are left to the caller.
//!
//! After "Maglev: A Fast and Reliable Software Network Load Balancer" (NSDI 2016), section 3.4: every member has its own
//! order of all slots, and members take turns to claim the next free one in theirs. Weights decide how often a member has
//! a turn, as in Katran; but its turns here come at times of its own, whoever else there is, so that the loss even of the
//! heaviest member leaves the others' turns in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hash::mix;

/// The slots of a table where nothing else is asked for, as in the paper and in Katran: 100 members of equal weight get
/// shares that differ by less than 1 %, and the loss of one moves less than 1 % of the others' slots.
pub const SIZE: usize = 65_537;

/// For each of `size` slots, the index of its member in `members`, which are (a stable hash of the member's name, its weight).
///
/// Shares of the slots are in proportion to weight, to within two slots. A member of weight 0 gets none; without any weight
/// the table is empty. The order of `members` decides only the indices. Where there are more members than slots, some get none.
///
/// # Panics
/// When `size` is no prime that fits 32 bits: a member's order would leave slots out.
#[must_use]
pub fn table(members: &[(u64, u32)], size: usize) -> Vec<u32> {
    assert!(
        u32::try_from(size).is_ok_and(is_prime),
        "a Maglev table's size must be a prime below 2^32, not {size}"
    );
    let mut claims: Vec<Claim> = members
        .iter()
        .zip(0..)
        .filter(|((_, weight), _)| *weight > 0)
        .map(|(&(hash, weight), index)| Claim::new(hash, weight, index, size))
        .collect();
    if claims.is_empty() {
        return Vec::new();
    }
    // turns at the same time go by the hash, which stays when others come and go
    claims.sort_unstable_by_key(|claim| (claim.hash, claim.weight, claim.index));
    let mut turns: BinaryHeap<Reverse<(u64, u32)>> = claims
        .iter()
        .zip(0..)
        .map(|(claim, position)| Reverse((claim.time(), position)))
        .collect();
    let mut table = vec![0; size];
    let mut taken = vec![0u64; size.div_ceil(64)];
    for _ in 0..size {
        let Some(mut next) = turns.peek_mut() else {
            break;
        };
        let position = next.0.1;
        let claim = &mut claims[position as usize];
        let slot = claim.next_free(&taken, size);
        taken[slot / 64] |= 1 << (slot % 64);
        table[slot] = claim.index;
        claim.turns += 1;
        *next = Reverse((claim.time(), position));
    }
    table
}

/// What a member still wants.
struct Claim {
    hash: u64,
    weight: u32,
    index: u32,
    /// The next slot in its order.
    slot: usize,
    /// From one slot of its order to the next.
    step: usize,
    /// How many it has had.
    turns: u32,
}

impl Claim {
    fn new(hash: u64, weight: u32, index: u32, size: usize) -> Self {
        let draw = |salt: u64, below: usize| (mix(hash ^ mix(salt)) % below.max(1) as u64) as usize;
        Self {
            hash,
            weight,
            index,
            slot: draw(1, size),
            step: draw(2, size - 1) + 1,
            turns: 0,
        }
    }

    /// When its next turn comes. The k-th of a member of weight w comes at (k - 1/2) / w, so that at no time any member has
    /// had much more or less than its share.
    fn time(&self) -> u64 {
        ((2 * u64::from(self.turns) + 1) << 31) / u64::from(self.weight)
    }

    /// The next slot in its order that is free, of which there must be one.
    fn next_free(&mut self, taken: &[u64], size: usize) -> usize {
        loop {
            let slot = self.slot;
            self.slot += self.step;
            if self.slot >= size {
                self.slot -= size;
            }
            if taken[slot / 64] & (1 << (slot % 64)) == 0 {
                return slot;
            }
        }
    }
}

fn is_prime(number: u32) -> bool {
    let mut divisors = (2..).take_while(|d| u64::from(*d) * u64::from(*d) <= u64::from(number));
    number > 1 && divisors.all(|d: u32| !number.is_multiple_of(d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_bytes;
    use proptest::prelude::*;

    fn members(weights: &[u32]) -> Vec<(u64, u32)> {
        let name = |n: usize| hash_bytes(format!("10.0.0.{n}:80").as_bytes());
        weights
            .iter()
            .enumerate()
            .map(|(n, &weight)| (name(n), weight))
            .collect()
    }

    /// Slots a member.
    fn counts(table: &[u32], members: usize) -> Vec<usize> {
        let mut counts = vec![0; members];
        for &index in table {
            counts[index as usize] += 1;
        }
        counts
    }

    /// Of the slots that `members[lost]` does not have, the share that is another's without it.
    fn moved(members: &[(u64, u32)], lost: usize) -> f64 {
        let without = [&members[..lost], &members[lost + 1..]].concat();
        let (before, after) = (table(members, SIZE), table(&without, SIZE));
        let old = |new: u32| new + u32::from(new as usize >= lost);
        let others = || {
            let slots = before.iter().zip(&after);
            slots.filter(|(before, _)| **before as usize != lost)
        };
        let moved = others().filter(|(before, after)| **before != old(**after));
        moved.count() as f64 / others().count() as f64
    }

    #[test]
    fn tables_never_change_between_releases() {
        // Instances of other versions must send a flow to the same member.
        let table = table(&members(&[1, 2, 0, 3]), 13);
        assert_eq!(table, [1, 3, 1, 3, 3, 3, 3, 0, 1, 3, 0, 1, 3]);
    }

    #[test]
    fn without_weight_there_is_no_table() {
        assert!(table(&[], SIZE).is_empty());
        assert!(table(&members(&[0, 0]), SIZE).is_empty());
    }

    #[test]
    fn members_beyond_the_slots_get_none() {
        let slots = table(&members(&[1; 20]), 7);
        assert!(counts(&slots, 20).iter().all(|&count| count <= 1));
    }

    #[test]
    fn members_of_one_name_share() {
        let twins = [(7, 1), (7, 1), (8, 2)];
        assert_eq!(counts(&table(&twins, 101), 3), [25, 25, 51]);
    }

    #[test]
    #[should_panic(expected = "must be a prime")]
    fn a_size_that_leaves_slots_out_is_refused() {
        let _ = table(&members(&[1]), 65_536);
    }

    #[test]
    fn primes_are_told_from_others() {
        let primes: Vec<u32> = (0..30).filter(|n| is_prime(*n)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert!(is_prime(SIZE as u32) && is_prime(4_294_967_291) && !is_prime(u32::MAX));
    }

    #[test]
    fn of_a_hundred_members_one_goes_and_the_others_keep_theirs() {
        let members = members(&[1; 100]);
        for lost in [0, 50, 99] {
            let moved = moved(&members, lost);
            assert!(moved < 0.01, "{moved}");
        }
    }

    #[test]
    fn whoever_comes_or_goes_moves_little_else() {
        let draw = |pool: u64, n: u64| mix(mix(pool) ^ n);
        let mut moves: Vec<f64> = (0..300)
            .map(|pool| {
                let count = 3 + draw(pool, 0) % 20;
                let members: Vec<(u64, u32)> = (1..=count)
                    .map(|n| (draw(pool, n), 1 + (draw(pool, !n) % 256) as u32))
                    .collect();
                moved(&members, (draw(pool, 999) % count) as usize)
            })
            .collect();
        moves.sort_by(f64::total_cmp);
        // now and then two members' orders are in step, and more moves when a third that kept them apart is lost
        assert!(moves[150] < 0.005, "half: {}", moves[150]);
        assert!(moves[297] < 0.02, "99 %: {}", moves[297]);
    }

    fn some_members() -> impl Strategy<Value = Vec<(u64, u32)>> {
        prop::collection::vec((any::<u64>(), 0..=256u32), 1..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn shares_follow_the_weights(members in some_members()) {
            let total: u32 = members.iter().map(|(_, weight)| weight).sum();
            let counts = counts(&table(&members, SIZE), members.len());
            for (count, (_, weight)) in counts.iter().zip(&members).filter(|_| total > 0) {
                let share = SIZE as f64 * f64::from(*weight) / f64::from(total);
                prop_assert!((*count as f64 - share).abs() <= 2.0, "{count} for {share}");
            }
        }

        #[test]
        fn the_order_of_members_does_not_matter(
            (members, shuffled) in some_members().prop_flat_map(|members| (Just(members.clone()), Just(members).prop_shuffle()))
        ) {
            let named = |members: &[(u64, u32)]| -> Vec<u64> {
                let slots = table(members, 1009);
                slots.iter().map(|&index| members[index as usize].0).collect()
            };
            prop_assert_eq!(named(&members), named(&shuffled));
        }
    }
}
