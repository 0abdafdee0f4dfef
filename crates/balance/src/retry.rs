//! How many retries the pool's recent traffic allows, so that retries cannot multiply an overload.

use crate::Millis;
use crate::settings::RetryBudget;

/// Counts of the last [`SECONDS`] seconds. First attempts are read off the members' counters now and then, so that they
/// cost a request nothing.
#[derive(Debug)]
pub(crate) struct RetryWindow {
    /// The second that the newest bucket is of.
    second: u64,
    sampled: Millis,
    /// The total of requests at the last sample.
    seen: u64,
    /// Retries that were allowed and have not shown up in the total yet.
    expected: u64,
    firsts: [u64; SECONDS],
    retries: [u64; SECONDS],
}

impl RetryWindow {
    pub(crate) fn new(now: Millis) -> Self {
        Self {
            second: now / 1000,
            sampled: now,
            seen: 0,
            expected: 0,
            firsts: [0; SECONDS],
            retries: [0; SECONDS],
        }
    }

    /// Takes note of the total number of requests (retries included) so far.
    pub(crate) fn sample(&mut self, total: u64, now: Millis) {
        let now = now.max(self.sampled);
        let second = now / 1000;
        for gone in (self.second + 1..=second).take(SECONDS) {
            self.firsts[gone as usize % SECONDS] = 0;
            self.retries[gone as usize % SECONDS] = 0;
        }
        let elapsed = now - self.sampled;
        let requests = total.saturating_sub(self.seen);
        let retries = self.expected.min(requests);
        self.expected -= retries;
        let new = requests - retries;
        // After a long silence only a part of what came falls into the window.
        let recent = if elapsed > SPAN {
            (u128::from(new) * u128::from(SPAN) / u128::from(elapsed)) as u64
        } else {
            new
        };
        self.firsts[second as usize % SECONDS] += recent;
        (self.second, self.sampled, self.seen) = (second, now, total);
    }

    /// Goes on from another total: members and their counters came or went.
    pub(crate) fn rebase(&mut self, total: u64) {
        self.seen = total;
    }

    /// Counts a retry and allows it, or does neither.
    pub(crate) fn allow(&mut self, budget: RetryBudget) -> bool {
        let retries: u64 = self.retries.iter().sum();
        let firsts: u64 = self.firsts.iter().sum();
        let allowed = firsts * u64::from(budget.percent) / 100
            + u64::from(budget.min_per_second) * SECONDS as u64;
        if retries >= allowed {
            return false;
        }
        self.retries[self.second as usize % SECONDS] += 1;
        self.expected += 1;
        true
    }
}

const SECONDS: usize = 10;
const SPAN: Millis = SECONDS as u64 * 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(window: &mut RetryWindow, budget: RetryBudget) -> u32 {
        (0..100_000).take_while(|_| window.allow(budget)).count() as u32
    }

    #[test]
    fn retries_are_a_share_of_recent_requests() {
        let budget = RetryBudget {
            percent: 20,
            min_per_second: 0,
        };
        let mut window = RetryWindow::new(0);
        window.sample(1000, 500);
        assert_eq!(allowed(&mut window, budget), 200);
        // The retries themselves show up as requests and must not allow further ones.
        window.sample(1200, 600);
        assert_eq!(allowed(&mut window, budget), 0);
        window.sample(2200, 5000);
        assert_eq!(allowed(&mut window, budget), 200);
        window.sample(2400, 5500);
        // The first thousand and its retries have left the window, the second not.
        window.sample(2400, 11_000);
        assert_eq!(allowed(&mut window, budget), 0);
        window.sample(3400, 16_000);
        assert_eq!(allowed(&mut window, budget), 200);
    }

    #[test]
    fn a_quiet_pool_can_retry() {
        let budget = RetryBudget {
            percent: 20,
            min_per_second: 3,
        };
        let mut window = RetryWindow::new(123_456);
        assert_eq!(allowed(&mut window, budget), 30);
        window.sample(0, 140_000);
        assert_eq!(allowed(&mut window, budget), 30);
    }

    #[test]
    fn traffic_before_the_window_does_not_count() {
        let budget = RetryBudget {
            percent: 10,
            min_per_second: 0,
        };
        let mut window = RetryWindow::new(0);
        window.sample(100_000, 1_000_000);
        assert_eq!(allowed(&mut window, budget), 100);
    }

    #[test]
    fn a_clock_that_lags_on_another_thread_is_harmless() {
        let mut window = RetryWindow::new(5000);
        window.sample(10, 3000);
        window.sample(20, 2000);
        assert_eq!(window.second, 5);
        assert!(!window.allow(RetryBudget {
            percent: 4,
            min_per_second: 0
        }));
    }
}
