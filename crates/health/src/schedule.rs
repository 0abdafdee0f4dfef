//! When the next check is due. The clock and randomness are the caller's.

use std::time::Duration;

/// The shortest time between two checks of a target.
const MIN_GAP: Duration = Duration::from_millis(10);

/// How far apart the first checks of targets that come together are, on average.
const SPREAD: Duration = Duration::from_micros(100);

/// Time from one check's start to the next's: `interval`, longer or shorter by up to `jitter` of it.
/// `random` is from 0 to 1.
pub(crate) fn gap(interval: Duration, jitter: f32, random: f32) -> Duration {
    let jitter = if jitter.is_finite() {
        jitter.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let factor = 1.0 + jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0);
    scale(interval, factor).max(MIN_GAP)
}

/// Time to the first check of one of `together` new targets: next to nothing for a few, spread
/// over a second for ten thousand, and never beyond the interval.
pub(crate) fn first_gap(interval: Duration, together: usize, random: f32) -> Duration {
    let together = u32::try_from(together).unwrap_or(u32::MAX);
    let spread = SPREAD.saturating_mul(together).min(interval);
    scale(spread, random.clamp(0.0, 1.0))
}

/// An endless row of numbers that look random; the same seed gives the same row (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Begins a row.
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number, from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    }
}

fn scale(time: Duration, factor: f32) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * f64::from(factor)).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_jitter_the_gap_is_the_interval() {
        let interval = Duration::from_secs(5);
        for random in [0.0, 0.3, 1.0] {
            assert_eq!(gap(interval, 0.0, random), interval);
            assert_eq!(gap(interval, f32::NAN, random), interval);
        }
    }

    #[test]
    fn one_new_target_is_checked_at_once_and_ten_thousand_over_a_second() {
        let interval = Duration::from_secs(5);
        assert!(first_gap(interval, 1, 1.0) < Duration::from_millis(1));
        assert_eq!(first_gap(interval, 10_000, 1.0), Duration::from_secs(1));
        assert_eq!(first_gap(interval, 10_000_000, 1.0), interval);
    }

    #[test]
    fn gaps_are_spread_evenly_over_the_jitter() {
        let mut random = Random::new(7);
        let interval = Duration::from_secs(10);
        let gaps: Vec<_> = (0..10_000)
            .map(|_| gap(interval, 0.2, random.unit()).as_secs_f64())
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 10.0).abs() < 0.05, "{mean}");
        let early = gaps.iter().filter(|g| **g < 9.0).count();
        assert!((2_200..2_800).contains(&early), "{early}");
    }

    proptest! {
        #[test]
        fn the_gap_stays_within_the_jitter(ms in 100u64..1_000_000, jitter in 0.0f32..1.0, random in 0.0f32..1.0) {
            let interval = Duration::from_millis(ms);
            let gap = gap(interval, jitter, random).as_secs_f64() / interval.as_secs_f64();
            let jitter = f64::from(jitter) + 1e-5;
            let least = (1.0 - jitter).min(1.0);
            prop_assert!(gap >= least && gap <= 1.0 + jitter, "{}", gap);
        }

        #[test]
        fn no_interval_makes_checks_follow_without_a_pause(jitter in any::<f32>(), random in any::<f32>()) {
            prop_assert!(gap(Duration::ZERO, jitter, random) >= MIN_GAP);
        }
    }
}
