//! Latencies counted in buckets that grow with the value: 64 to each doubling, so a quantile is off by 1.6 % at most.

const FINE_BITS: u32 = 6;
const FINE: u64 = 1 << FINE_BITS;

/// A histogram of nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            counts: vec![0; bucket(u64::MAX) + 1],
            total: 0,
            sum: 0,
            max: 0,
        }
    }

    /// Count one value, in nanoseconds.
    pub fn record(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
        self.sum += u128::from(nanoseconds);
        self.max = self.max.max(nanoseconds);
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The largest value, in nanoseconds.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean, in nanoseconds; 0 if there are no values.
    pub fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.total)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// The value that `share` (0 to 1) of all values do not exceed, in nanoseconds; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(index).min(self.max);
            }
        }
        self.max
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Values below `FINE` have a bucket each; above, the leading bit and the `FINE_BITS` after it choose.
fn bucket(value: u64) -> usize {
    let index = if value < FINE {
        value
    } else {
        let shift = value.ilog2() - FINE_BITS;
        u64::from(shift + 1) * FINE + ((value >> shift) - FINE)
    };
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The largest value that falls into a bucket.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    if index < FINE {
        return index;
    }
    let shift = index / FINE - 1;
    let base = u128::from(index % FINE + FINE + 1) << shift;
    u64::try_from(base - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_a_known_series() {
        let mut histogram = Histogram::new();
        for value in 1..=1000 {
            histogram.record(value * 1000);
        }
        for (share, exact) in [
            (0.5, 500_000_f64),
            (0.9, 900_000.0),
            (0.99, 990_000.0),
            (1.0, 1_000_000.0),
        ] {
            let off = (histogram.quantile(share) as f64 - exact) / exact;
            assert!((0.0..0.016).contains(&off), "{share}: {off}");
        }
        assert_eq!(
            (histogram.count(), histogram.max(), histogram.mean()),
            (1000, 1_000_000, 500_500)
        );
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        let histogram = Histogram::new();
        assert_eq!(
            (histogram.quantile(0.99), histogram.mean(), histogram.max()),
            (0, 0, 0)
        );
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_own_bucket(value: u64) {
            let index = bucket(value);
            prop_assert!(value <= upper(index));
            prop_assert!(index == 0 || value > upper(index - 1));
        }
    }
}
