//! Address feeds as plain text: one prefix a line, with comments. Other formats of feeds are not known here.

use crate::{Prefix, PrefixError};

/// Reads a feed: one prefix or address a line; `#` and `;` start a comment; empty lines are skipped.
///
/// # Errors
/// Every line that is no prefix, in order, so that all can be put right at once.
pub fn parse_feed(text: &str) -> Result<Vec<Prefix>, Vec<FeedError>> {
    let (mut prefixes, mut errors) = (Vec::new(), Vec::new());
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let content = line.split(['#', ';']).next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        match content.parse() {
            Ok(prefix) => prefixes.push(prefix),
            Err(reason) => {
                let column = line.chars().take_while(|c| c.is_whitespace()).count() + 1;
                errors.push(FeedError {
                    line: index + 1,
                    column,
                    text: content.to_owned(),
                    reason,
                });
            }
        }
    }
    if errors.is_empty() {
        Ok(prefixes)
    } else {
        Err(errors)
    }
}

/// A line of a feed that is no prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{text}`: {reason}")]
pub struct FeedError {
    /// The line's number, from 1.
    pub line: usize,
    /// Where the text begins in the line, in characters from 1.
    pub column: usize,
    /// The line without its comment.
    pub text: String,
    /// What is wrong with it.
    pub reason: PrefixError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_skipped() {
        let prefixes = parse_feed("# list\n\n10.0.0.0/8 ; office\r\n  ::1#self\n").expect("valid");
        let shown: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.0/8", "::1/128"]);
    }

    #[test]
    fn every_bad_line_is_reported_with_its_number() {
        let errors = parse_feed("10.0.0.0/8\nten\n\n10.0.0.1/8\n").expect_err("two bad lines");
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "line 2: `ten`: `ten` is not an IPv4 or IPv6 address",
                "line 4: `10.0.0.1/8`: bits are set after the prefix length; the block that holds this address is 10.0.0.0/8",
            ]
        );
    }
}
