//! What can be wrong with a configuration, and how its author is told: where, what, and what was probably meant.

use std::fmt;
use std::path::PathBuf;

use addr::{FeedError, PrefixError};

/// Everything that is wrong with a configuration. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors(pub Vec<Error>);

impl std::error::Error for Errors {}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// Where.
    pub place: Place,
    /// What.
    pub kind: ErrorKind,
    /// The text of the line, or that part of a long line where the place is.
    pub source_line: String,
    /// How many characters of `source_line` stand before the offending text.
    pub indent: usize,
    /// How many characters are meant; at least 1.
    pub width: usize,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    /// `file:line:column: what`, then the line with a mark under the offending text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)?;
        if self.source_line.trim().is_empty() {
            return Ok(());
        }
        // what stands before the mark keeps its tabs, so that the mark stands under its text
        let before = self.source_line.chars().take(self.indent);
        let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let number = self.place.line.to_string();
        let carets = "^".repeat(self.width);
        write!(
            f,
            "\n {number} | {}\n {} | {indent}{carets}",
            self.source_line,
            " ".repeat(number.len())
        )
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The character within the line, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ErrorKind {
    /// The text is not YAML.
    #[error("not valid YAML: {0}")]
    Syntax(String),
    /// More than the parser takes: in bytes, depth, or values.
    #[error("{0}")]
    TooLarge(&'static str),
    /// A file holds more than one YAML document.
    #[error("a second document begins here; one file is one document")]
    SecondDocument,
    /// Two keys of one map are the same.
    #[error("`{name}` is given twice; the first is at {first}")]
    Duplicate {
        /// The key.
        name: String,
        /// Where it stood first.
        first: Place,
    },
    /// A key that does not exist here.
    #[error("unknown field `{name}` in {of}{}", hint(nearest.as_ref(), valid))]
    UnknownField {
        /// The key.
        name: String,
        /// What it stands in.
        of: String,
        /// What was probably meant.
        nearest: Option<String>,
        /// All that there are.
        valid: Vec<&'static str>,
    },
    /// A key that must be there.
    #[error("{of} needs the field `{name}`")]
    MissingField {
        /// The key.
        name: &'static str,
        /// What it is missing in.
        of: String,
    },
    /// A list where a map is expected, and the like.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What is expected.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A text that does not mean what is expected.
    #[error("`{text}` is not {expected}")]
    BadValue {
        /// The text.
        text: String,
        /// What is expected.
        expected: String,
    },
    /// A word that is none of those that are known.
    #[error("unknown {of} `{text}`{}", hint(nearest.as_ref(), valid))]
    UnknownWord {
        /// The word.
        text: String,
        /// What it should be one of.
        of: String,
        /// What was probably meant.
        nearest: Option<String>,
        /// All that there are.
        valid: Vec<&'static str>,
    },
    /// A quantity outside its range.
    #[error("`{text}` is out of range: from {low} to {high}")]
    OutOfRange {
        /// The text.
        text: String,
        /// The least.
        low: String,
        /// The most.
        high: String,
    },
    /// A text that is no prefix.
    #[error("{0}")]
    Prefix(PrefixError),
    /// A line of a feed that is no prefix.
    #[error("{}", .0.reason)]
    Feed(FeedError),
    /// A reference to what does not exist.
    #[error("no {of} is named `{name}`{}", nearest.as_ref().map_or(String::new(), |n| format!("; did you mean `{n}`?")))]
    UnknownReference {
        /// What kind of thing.
        of: String,
        /// The name.
        name: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// A file that cannot be read.
    #[error("cannot read `{}`: {reason}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A section that only the main file may have.
    #[error(
        "`{0}` belongs in the main file; included files hold virtuals, pools, monitors, tls_profiles, address_lists, rules, data_groups and ifiles"
    )]
    OnlyInMain(String),
    /// An environment variable that is not set.
    #[error("the environment variable `{0}` is not set; `${{{0}:-text}}` gives a default")]
    NoVariable(String),
    /// `${` without its end, or without a name.
    #[error(
        "`${{` begins an environment variable and needs a name and `}}`; write `$${{` for the characters themselves"
    )]
    BadVariable,
    /// One address is listened on twice.
    #[error("`{address}` is already listened on at {first}")]
    ListenTwice {
        /// The address.
        address: String,
        /// Where it stood first.
        first: Place,
    },
    /// A member that one of its pool's virtuals cannot use.
    #[error("`{member}` cannot serve the virtual `{service}`: {why}")]
    UnusableMember {
        /// The member's address.
        member: String,
        /// The virtual's name.
        service: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A field that has no meaning beside another.
    #[error("`{field}` has no place here: {why}")]
    Misplaced {
        /// The field.
        field: &'static str,
        /// Why.
        why: &'static str,
    },
    /// What must be given because of what else is given.
    #[error("{0}")]
    Needs(&'static str),
    /// There are more errors than are worth showing.
    #[error("too many errors; the rest is not shown")]
    TooMany,
}

/// The one of `candidates` that `text` is most likely a slip of.
pub(crate) fn nearest<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let text = text.to_lowercase();
    let scored = candidates
        .into_iter()
        .map(|candidate| (distance(&text, &candidate.to_lowercase()), candidate));
    let (distance, candidate) = scored.min()?;
    let far = (text.chars().count().max(candidate.chars().count()) / 3).max(1);
    (distance <= far).then(|| candidate.to_owned())
}

fn hint(nearest: Option<&String>, valid: &[&'static str]) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => format!("; there are {}", list(valid)),
    }
}

fn list(words: &[&str]) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Insertions, deletions, substitutions and swaps of neighbours that make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    // beyond this no slip is likely, and the table would grow with what a stranger typed
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let substitution = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitution.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_a_stranger_none() {
        let fields = ["members", "monitors", "balance"];
        assert_eq!(nearest("membrs", fields).as_deref(), Some("members"));
        assert_eq!(nearest("memebrs", fields).as_deref(), Some("members"));
        assert_eq!(nearest("Balance", fields).as_deref(), Some("balance"));
        assert_eq!(nearest("weather", fields), None);
    }
}
