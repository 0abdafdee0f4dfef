//! The order in which a weighted rotation visits members, computed once so that a turn is one array access.

/// Visits index `i` exactly `weights[i] / gcd` times a round, spread evenly. Rounds longer than [`MAX_ROUND`] turns (or
/// 4 turns a member, if that is more) are shortened by rounding the weights, each to at least one turn. A weight of 0 is
/// never visited.
///
/// Turn `k` of `w` is due at `(2k + 1) / 2w` of the round, and turns are taken in the order they are due: no member is
/// visited twice in a row unless its weight demands it.
pub(crate) fn schedule(weights: &[u32]) -> Vec<u32> {
    let turns = turns(weights);
    let mut due: Vec<(u64, u32)> = Vec::with_capacity(turns.iter().map(|&t| t as usize).sum());
    for (index, &count) in turns.iter().enumerate() {
        due.extend(
            (0..u64::from(count)).map(|k| (((2 * k + 1) << 32) / u64::from(count), index as u32)),
        );
    }
    due.sort_unstable();
    due.into_iter().map(|(_, index)| index).collect()
}

/// The longest round of a pool of up to a quarter as many members.
pub(crate) const MAX_ROUND: u64 = 8192;

fn turns(weights: &[u32]) -> Vec<u32> {
    let divisor = weights.iter().fold(0, |a, &b| gcd(a, b)).max(1);
    let total: u64 = weights.iter().map(|&w| u64::from(w / divisor)).sum();
    let longest = MAX_ROUND.max(4 * weights.len() as u64);
    let shorten = |w: u32| {
        let turns = u64::from(w / divisor);
        if total <= longest || turns == 0 {
            turns as u32
        } else {
            ((turns * longest + total / 2) / total).max(1) as u32
        }
    };
    weights.iter().map(|&w| shorten(w)).collect()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(order: &[u32], members: usize) -> Vec<u64> {
        let mut counts = vec![0; members];
        for &index in order {
            counts[index as usize] += 1;
        }
        counts
    }

    proptest! {
        #[test]
        fn a_round_has_exactly_the_weights(weights in prop::collection::vec(0u32..300, 1..20)) {
            let order = schedule(&weights);
            let counts = counts(&order, weights.len());
            let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
            for (&weight, &count) in weights.iter().zip(&counts) {
                prop_assert_eq!(count * total, u64::from(weight) * order.len() as u64);
            }
        }

        #[test]
        fn every_prefix_is_close_to_the_weights(weights in prop::collection::vec(1u32..100, 1..12)) {
            let order = schedule(&weights);
            let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
            let mut seen = vec![0.0; weights.len()];
            for (turn, &index) in order.iter().enumerate() {
                seen[index as usize] += 1.0;
                for (&weight, &seen) in weights.iter().zip(&seen) {
                    let share = (turn + 1) as f64 * f64::from(weight) / total;
                    prop_assert!((seen - share).abs() < 2.0 + weights.len() as f64 / 2.0);
                }
            }
        }

        #[test]
        fn long_rounds_are_shortened_and_leave_nobody_out(weights in prop::collection::vec(1u32..=65_535, 2..60)) {
            let order = schedule(&weights);
            prop_assert!(order.len() as u64 <= MAX_ROUND + weights.len() as u64);
            let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
            for (&weight, &count) in weights.iter().zip(&counts(&order, weights.len())) {
                prop_assert!(count >= 1);
                let share = f64::from(weight) / total * MAX_ROUND as f64;
                prop_assert!((count as f64 - share).abs() <= 1.0 || order.len() as u64 <= MAX_ROUND);
            }
        }
    }

    #[test]
    fn heavy_members_are_interleaved() {
        assert_eq!(schedule(&[3, 1, 1]), [0, 0, 1, 2, 0]);
        assert_eq!(schedule(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(schedule(&[2, 2]), [0, 1]);
        assert_eq!(schedule(&[0, 0]), [0u32; 0]);
    }
}
