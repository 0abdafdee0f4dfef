//! What results in a row make of a member: up, down, or not known yet.

use std::time::Instant;

/// How many results in a row, against what is believed, change a verdict. Zero counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Good results that bring a member up.
    pub rise: u32,
    /// Bad results that take it down.
    pub fall: u32,
}

/// What one monitor believes of one member. Small and copied freely, to be carried over a reload.
///
/// As long as nothing is known the first result decides, whichever it is: a member that has just
/// been configured and answers is of use at once, one that does not answer never was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    up: Option<bool>,
    against: u32,
    since: Option<Instant>,
}

/// A verdict that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The new verdict.
    pub up: bool,
    /// There was none before.
    pub first: bool,
}

impl State {
    /// Nothing known.
    pub fn unknown() -> Self {
        State::default()
    }

    /// A verdict from elsewhere, that holds since then.
    pub fn known(up: bool, since: Instant) -> Self {
        State {
            up: Some(up),
            against: 0,
            since: Some(since),
        }
    }

    /// The verdict, if there is one.
    pub fn up(&self) -> Option<bool> {
        self.up
    }

    /// Since when the verdict holds.
    pub fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Results in a row that speak against the verdict, so far too few.
    pub fn against(&self) -> u32 {
        self.against
    }

    /// Takes in a result; tells if it changes the verdict.
    pub fn observe(&mut self, ok: bool, thresholds: Thresholds, now: Instant) -> Option<Change> {
        let needed = if ok { thresholds.rise } else { thresholds.fall };
        match self.up {
            Some(up) if up == ok => {
                self.against = 0;
                return None;
            }
            Some(_) => {
                self.against += 1;
                if self.against < needed {
                    return None;
                }
            }
            None => {}
        }
        let first = self.up.is_none();
        *self = State::known(ok, now);
        Some(Change { up: ok, first })
    }

    /// The verdict alone, without the results that had begun to speak against it: for a monitor
    /// whose question has changed.
    pub fn verdict_only(&self) -> Self {
        State {
            against: 0,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const THRESHOLDS: Thresholds = Thresholds { rise: 2, fall: 3 };

    fn run(state: &mut State, results: &str) -> String {
        let now = Instant::now();
        results
            .chars()
            .map(|c| match state.observe(c == '+', THRESHOLDS, now) {
                Some(Change { up: true, .. }) => 'U',
                Some(Change { up: false, .. }) => 'D',
                None => '.',
            })
            .collect()
    }

    #[test]
    fn the_first_result_decides() {
        assert_eq!(run(&mut State::unknown(), "+"), "U");
        assert_eq!(run(&mut State::unknown(), "-"), "D");
    }

    #[test]
    fn only_results_in_a_row_count() {
        let mut state = State::unknown();
        assert_eq!(run(&mut state, "+--+--+---"), "U........D");
        assert_eq!(run(&mut state, "+-+-++"), ".....U");
    }

    #[test]
    fn a_verdict_carried_over_needs_the_full_number_against_it() {
        let mut state = State::known(true, Instant::now());
        assert_eq!(run(&mut state, "--"), "..");
        let mut state = state.verdict_only();
        assert_eq!(run(&mut state, "---"), "..D");
    }

    #[test]
    fn zero_counts_as_one() {
        let mut state = State::known(true, Instant::now());
        let zero = Thresholds { rise: 0, fall: 0 };
        let change = state.observe(false, zero, Instant::now());
        assert_eq!(
            change,
            Some(Change {
                up: false,
                first: false
            })
        );
    }

    proptest! {
        /// Against the definition: the verdict is the last run of `rise` good or `fall` bad ones.
        #[test]
        fn the_verdict_is_that_of_the_last_run_long_enough(
            results in proptest::collection::vec(any::<bool>(), 1..60),
            rise in 1u32..5,
            fall in 1u32..5,
        ) {
            let thresholds = Thresholds { rise, fall };
            let now = Instant::now();
            let mut state = State::unknown();
            for end in 1..=results.len() {
                let before = state.up();
                let change = state.observe(results[end - 1], thresholds, now);
                let decided = (1..=end).rev().find_map(|n| {
                    let last = results[n - 1];
                    let run = results[..n].iter().rev().take_while(|r| **r == last).count();
                    let needed = if last { rise } else { fall } as usize;
                    (run >= needed).then_some(last)
                });
                // Before any run is long enough the first result stands.
                let expected = decided.unwrap_or(results[0]);
                prop_assert_eq!(state.up(), Some(expected));
                prop_assert_eq!(change.is_some(), before != Some(expected));
            }
        }
    }
}
