//! What is said about rules before they run.

use crate::engine::{Engine, Limits, RuleSource};
use std::fmt;
use std::sync::Arc;

/// Something about a rule that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it keeps the rule from being loaded.
    pub severity: Severity,
    /// The rule's name.
    pub rule: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in bytes.
    pub column: u32,
    /// What it is.
    pub message: String,
    /// What may help.
    pub hint: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The rule is not loaded.
    Error,
    /// It is, but may not do what was meant.
    Warning,
}

/// Finds what is wrong with a rule, or odd.
pub fn check(source: &RuleSource) -> Vec<Diagnostic> {
    let mut engine = Engine::new(Limits::default(), 0);
    match engine.load(&[Arc::new(source.clone())]) {
        Ok(program) => program.warnings().to_vec(),
        Err(diagnostics) => diagnostics,
    }
}

/// The name that is likest to one that does not exist, if any is like it.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let most = (name.len() / 3).max(1);
    names
        .map(|other| (distance(name, other), other))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, other)| other)
}

/// How many letters must be changed, put in or taken out to make `a` into `b`; letters' case counts
/// for nothing.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<u8> = b.bytes().map(|b| b.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x.to_ascii_lowercase() != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(
            f,
            "{}:{}:{}: {kind}: {}",
            self.rule, self.line, self.column, self.message
        )?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}
