//! What rules find in a configuration, made ready: data groups, files, geography, reputation. And what they share over
//! all workers and configurations: the table, counters.

use super::geography::Geography;
use super::table::SharedTable;
use addr::PrefixSet;
use balance::store::{Bounds, Store};
use rules::RuleSource;
use rules::data_group::DataGroup;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// The rules of a virtual, in their order.
pub(crate) struct RuleSet {
    pub(crate) sources: Vec<Arc<RuleSource>>,
    /// Whether they ask for what the kernel counts of a connection, which is not had for nothing.
    pub(crate) figures: bool,
}

impl RuleSet {
    pub(crate) fn new(sources: Vec<Arc<RuleSource>>) -> Self {
        let asks = |source: &Arc<RuleSource>| {
            let asked: [&[u8]; 2] = [b"TCP::rtt", b"IP::stats"];
            let mut asked = asked.into_iter();
            asked.any(|command| memchr::memmem::find(&source.text, command).is_some())
        };
        RuleSet {
            figures: sources.iter().any(asks),
            sources,
        }
    }
}

/// What rules look things up in.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) limits: Limits,
    pub(crate) groups: HashMap<String, Arc<DataGroup>>,
    pub(crate) files: BTreeMap<String, Arc<[u8]>>,
    pub(crate) geography: Geography,
    /// Categories and who is in them.
    pub(crate) reputation: Vec<(String, PrefixSet)>,
}

/// What a rule may use up, as the engine counts it; and how much is held back for one, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) instructions: u64,
    pub(crate) memory: u64,
    pub(crate) recursion: usize,
    pub(crate) collect: usize,
}

/// What the rules of all workers share.
pub(crate) struct Common {
    pub(crate) table: SharedTable,
    /// By rule.
    failures: Mutex<BTreeMap<String, RuleCounts>>,
    /// Counters of the rules' own, by name.
    counters: Mutex<HashMap<Vec<u8>, i64>>,
    /// Connections that wait within a rule.
    pub(crate) parked: AtomicU64,
    /// Log data that found no room.
    pub(crate) log_dropped: AtomicU64,
}

/// What became of a rule's handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Events that ended in an error.
    pub errors: u64,
    /// Events that ended because a budget was used up.
    pub exhausted: u64,
}

/// Names of counters that rules may make.
const COUNTERS: usize = 100_000;

impl Common {
    /// With a table within these bounds.
    pub(crate) fn new(limits: &model::RuleLimits, seed: u64) -> Self {
        let bounds = Bounds {
            entries: limits.table_entries as u64,
            bytes: limits.table_memory.get(),
        };
        Common {
            table: SharedTable(Arc::new(Store::new(bounds, seed))),
            failures: Mutex::default(),
            counters: Mutex::default(),
            parked: AtomicU64::new(0),
            log_dropped: AtomicU64::new(0),
        }
    }

    /// Counts an event that ended early.
    pub(crate) fn count_failure(&self, rule: &str, exhausted: bool) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = failures.entry(rule.to_owned()).or_default();
        if exhausted {
            counts.exhausted += 1;
        } else {
            counts.errors += 1;
        }
    }

    /// Events that ended early, by rule.
    pub(crate) fn failures(&self) -> BTreeMap<String, RuleCounts> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.clone()
    }

    /// Adds to a counter of the rules' own.
    pub(crate) fn add(&self, name: &[u8], by: i64) -> i64 {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = counters.get_mut(name) {
            *value = value.wrapping_add(by);
            return *value;
        }
        if by != 0 && counters.len() < COUNTERS {
            counters.insert(name.to_vec(), by);
            return by;
        }
        0
    }

    /// Makes a counter of the rules' own another number, or forgets it.
    pub(crate) fn change(&self, name: &[u8], change: &mut dyn FnMut(i64) -> Option<i64>) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        match change(counters.get(name).copied().unwrap_or(0)) {
            None => _ = counters.remove(name),
            Some(new) => {
                if let Some(value) = counters.get_mut(name) {
                    *value = new;
                } else if counters.len() < COUNTERS {
                    counters.insert(name.to_vec(), new);
                }
            }
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::of(&model::RuleLimits::default())
    }
}

impl Limits {
    pub(crate) fn of(limits: &model::RuleLimits) -> Self {
        Limits {
            instructions: limits.instructions,
            memory: limits.memory.get(),
            recursion: limits.recursion,
            collect: limits.collect.as_usize(),
        }
    }

    pub(crate) fn for_engine(self) -> rules::Limits {
        rules::Limits {
            steps: self.instructions,
            bytes: self.memory,
            depth: self.recursion,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_start_at_zero_and_keep_their_sum() {
        let common = Common::new(&model::RuleLimits::default(), 1);
        assert_eq!(common.add(b"a", 0), 0);
        assert_eq!(common.add(b"a", 5), 5);
        assert_eq!(common.add(b"a", -2), 3);
    }

    #[test]
    fn counters_are_changed_and_forgotten() {
        let common = Common::new(&model::RuleLimits::default(), 1);
        common.change(b"a", &mut |was| Some(was + 7));
        common.change(b"a", &mut |was| Some(was.max(3)));
        assert_eq!(common.add(b"a", 1), 8);
        common.change(b"a", &mut |_| None);
        assert_eq!(common.add(b"a", 0), 0);
    }

    #[test]
    fn failures_are_counted_by_rule_and_kind() {
        let common = Common::new(&model::RuleLimits::default(), 1);
        common.count_failure("a", false);
        common.count_failure("a", true);
        common.count_failure("b", true);
        let failures = common.failures();
        let of = |rule: &str| (failures[rule].errors, failures[rule].exhausted);
        assert_eq!((of("a"), of("b")), ((1, 1), (0, 1)));
    }
}
