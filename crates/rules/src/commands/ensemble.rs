//! What commands have in common that are told by a word what to do: finding what the word means, and Tcl's complaints.

pub(crate) use crate::command::Sub;
use crate::command::{ANY, Ctx, Run};
use crate::fault::{Fault, Message};
use crate::value::{Value, parse_integer};

impl Sub {
    pub(super) const fn new(
        name: &'static str,
        usage: &'static str,
        least: u8,
        most: u8,
        run: Run,
    ) -> Self {
        Sub {
            name,
            usage,
            least,
            most,
            run,
        }
    }

    /// Whether it takes that many words.
    pub(crate) fn takes(&self, words: usize) -> bool {
        words >= usize::from(self.least) && (self.most == ANY || words <= usize::from(self.most))
    }

    /// Tcl's complaint about a wrong number of words.
    pub(crate) fn wrong_args(&self, command: &str) -> Fault {
        let space = if self.usage.is_empty() { "" } else { " " };
        Fault::usage(&format!("{command} {}{space}{}", self.name, self.usage))
    }
}

/// Runs what the first of `args` says.
pub(super) fn dispatch(
    ctx: &mut Ctx<'_>,
    command: &str,
    subs: &'static [Sub],
    args: &[Value],
) -> Result<Value, Fault> {
    let Some((word, rest)) = args.split_first() else {
        return Err(Fault::usage(&format!("{command} option arg ?arg ...?")));
    };
    let sub = sub(subs, &word.bytes())?;
    if !sub.takes(rest.len()) {
        return Err(sub.wrong_args(command));
    }
    (sub.run)(ctx, rest)
}

/// The one that a word means: it may be abbreviated.
pub(crate) fn sub(subs: &'static [Sub], word: &[u8]) -> Result<&'static Sub, Fault> {
    if let Some(sub) = subs.iter().find(|sub| sub.name.as_bytes() == word) {
        return Ok(sub);
    }
    let names: Vec<&str> = subs.iter().map(|sub| sub.name).collect();
    choose(&names, word, "option").map(|at| &subs[at])
}

/// Which of `choices` a word means, which may be abbreviated.
///
/// # Errors
///
/// Tcl's `bad option "…": must be …`.
pub(super) fn choose(choices: &[&str], word: &[u8], what: &str) -> Result<usize, Fault> {
    if let Some(at) = choices.iter().position(|choice| choice.as_bytes() == word) {
        return Ok(at);
    }
    let mut found = None;
    let mut several = false;
    for (at, choice) in choices.iter().enumerate() {
        if choice.as_bytes().starts_with(word) {
            several = found.is_some();
            found.get_or_insert(at);
        }
    }
    match found {
        Some(at) if !several && !word.is_empty() => Ok(at),
        Some(_) if several => {
            let must = Fault::bad(what, word, choices);
            Err(Fault::error(match must.kind() {
                crate::fault::Kind::Error(error) => {
                    error
                        .message
                        .value()
                        .lossy()
                        .replacen("bad", "ambiguous", 1)
                }
                _ => String::new(),
            }))
        }
        _ => Err(Fault::bad(what, word, choices)),
    }
}

/// An error that quotes bytes of any kind.
pub(super) fn error_about(before: &str, quoted: &[u8], after: &str) -> Fault {
    let text = [before.as_bytes(), quoted, after.as_bytes()].concat();
    Fault::raise(Message::Value(Value::from(text)))
}

/// The position that an index means: a number, `end`, or `end-` and a number. `end` is that of the last item, -1 where
/// there is none. What it means may lie outside.
///
/// # Errors
///
/// Tcl's `bad index "…": must be integer or end?-integer?`.
#[inline]
pub(crate) fn index(value: &Value, end: i64) -> Result<i64, Fault> {
    match value {
        Value::Int(at) => Ok(*at),
        _ => index_text(&value.bytes(), end),
    }
}

/// The same for an index's text.
pub(super) fn index_text(text: &[u8], end: i64) -> Result<i64, Fault> {
    if text.first() == Some(&b'e') && b"end".starts_with(&text[..text.len().min(3)]) {
        match text.get(3..) {
            None | Some([]) => return Ok(end),
            Some([b'-', back @ ..]) if back.first().is_some_and(u8::is_ascii_digit) => {
                if let Some(back) = parse_integer(back) {
                    return Ok(end.saturating_sub(back));
                }
            }
            _ => {}
        }
    } else if let Some(at) = parse_integer(text) {
        return Ok(at);
    }
    let digits = text.trim_ascii();
    let digits = digits.strip_prefix(b"-").unwrap_or(digits);
    let octal = digits.len() > 1 && digits[0] == b'0' && digits.iter().all(u8::is_ascii_digit);
    Err(error_about(
        "bad index \"",
        text,
        if octal {
            "\": must be integer or end?-integer? (looks like invalid octal number)"
        } else {
            "\": must be integer or end?-integer?"
        },
    ))
}

/// A position within `0..=len`.
pub(super) fn clamp(at: i64, len: usize) -> usize {
    usize::try_from(at).unwrap_or(0).min(len)
}

/// The items from `first` to `last`, both counted, as a range within `0..len`; empty where `last` is before `first`.
pub(super) fn span(first: i64, last: i64, len: usize) -> std::ops::Range<usize> {
    let from = clamp(first, len);
    let to = clamp(last.saturating_add(1), len);
    from..to.max(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_counts_from_either_end() {
        for (text, wanted) in [
            ("0", 0),
            (" 3 ", 3),
            ("-1", -1),
            ("end", 9),
            ("e", 9),
            ("en", 9),
            ("end-1", 8),
            ("end-20", -11),
            ("0x10", 16),
        ] {
            assert_eq!(index(&Value::from(text), 9).unwrap(), wanted, "{text}");
        }
        for text in ["", "x", "end+1", "1+1", "end-", "endx", "1.0", "end--1"] {
            assert!(index(&Value::from(text), 9).is_err(), "{text}");
        }
        let error = index(&Value::from("09"), 9).unwrap_err();
        assert!(format!("{error:?}").contains("invalid octal number"));
    }

    #[test]
    fn options_may_be_abbreviated_as_far_as_they_are_clear() {
        let choices = ["first", "firm", "last"];
        assert_eq!(choose(&choices, b"l", "option").unwrap(), 2);
        assert_eq!(choose(&choices, b"firs", "option").unwrap(), 0);
        let error = choose(&choices, b"fir", "option").unwrap_err();
        assert!(
            format!("{error:?}")
                .contains(r#"ambiguous option \"fir\": must be first, firm, or last"#)
        );
        let error = choose(&choices, b"x", "option").unwrap_err();
        assert!(format!("{error:?}").contains(r#"bad option \"x\": must be"#));
    }

    #[test]
    fn a_span_lies_within_what_there_is() {
        assert_eq!(span(-3, 1, 5), 0..2);
        assert_eq!(span(3, 100, 5), 3..5);
        assert_eq!(span(3, 1, 5), 3..3);
        assert_eq!(span(9, 12, 5), 5..5);
        assert_eq!(span(0, i64::MAX, 5), 0..5);
    }
}
