//! What rules take, as workers tell it to whoever asks.

use rules::ProfileRow;

/// What an event of a rule has taken, or a command in it, over all workers. Cycles are those of the processor's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProfile {
    /// The rule.
    pub rule: String,
    /// The event.
    pub event: &'static str,
    /// The command; nothing for the event as a whole.
    pub command: Option<&'static str>,
    /// How often it ran.
    pub count: u64,
    /// Cycles in all.
    pub total: u64,
    /// The fewest.
    pub minimum: u64,
    /// The most.
    pub maximum: u64,
}

impl RuleProfile {
    pub(crate) fn of(row: &ProfileRow) -> Self {
        RuleProfile {
            rule: row.rule.to_string(),
            event: row.event.name(),
            command: row.command,
            count: row.count,
            total: row.total,
            minimum: row.least,
            maximum: row.most,
        }
    }
}

/// Adds rows to those that are there already: of other workers, or of other virtuals with the same rule.
pub(crate) fn add(all: &mut Vec<RuleProfile>, rows: Vec<RuleProfile>) {
    for row in rows {
        let same = |other: &&mut RuleProfile| {
            other.rule == row.rule && other.event == row.event && other.command == row.command
        };
        match all.iter_mut().find(same) {
            Some(other) => {
                other.count += row.count;
                other.total += row.total;
                other.minimum = other.minimum.min(row.minimum);
                other.maximum = other.maximum.max(row.maximum);
            }
            None => all.push(row),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_workers_count_is_one_row() {
        let row = |rule: &str, count, minimum, maximum| RuleProfile {
            rule: rule.to_owned(),
            event: "HTTP_REQUEST",
            command: None,
            count,
            total: 10 * count,
            minimum,
            maximum,
        };
        let mut all = vec![row("a", 2, 5, 9)];
        add(&mut all, vec![row("a", 3, 4, 8), row("b", 1, 1, 1)]);
        assert_eq!(all, [row("a", 5, 4, 9), row("b", 1, 1, 1)]);
    }
}
