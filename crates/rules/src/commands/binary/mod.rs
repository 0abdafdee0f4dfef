//! `binary format` and `binary scan`: values as fields of bytes, and back.

mod format;
mod scan;

use super::ensemble::{Sub, dispatch};
use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] =
    &[Command::new("binary", "option ?arg arg ...?", 1, ANY, binary).with(SUBS)];

/// What `binary` does.
pub(crate) const SUBS: &[Sub] = &[
    Sub::new(
        "format",
        "formatString ?arg arg ...?",
        1,
        ANY,
        format::format,
    ),
    Sub::new(
        "scan",
        "value formatString ?varName varName ...?",
        2,
        ANY,
        scan::scan,
    ),
];

fn binary(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    dispatch(ctx, "binary", SUBS, args)
}

/// How often a field is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// Nothing is said.
    One,
    /// `*`.
    All,
    Number(usize),
}

/// Takes the next field off a format: its letter and its count.
#[inline]
fn field(format: &mut &[u8]) -> Option<(u8, Count)> {
    let mut rest = *format;
    while let [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, after @ ..] = rest {
        rest = after;
    }
    let (&letter, mut rest) = rest.split_first()?;
    let count = match rest {
        [b'*', after @ ..] => {
            rest = after;
            Count::All
        }
        [b'0'..=b'9', ..] => {
            let mut number = 0_usize;
            while let [digit @ b'0'..=b'9', after @ ..] = rest {
                number = number
                    .saturating_mul(10)
                    .saturating_add(usize::from(digit - b'0'));
                rest = after;
            }
            Count::Number(number)
        }
        _ => Count::One,
    };
    *format = rest;
    Some((letter, count))
}

fn no_words() -> Fault {
    Fault::error("not enough arguments for all format specifiers")
}

fn bad_field(letter: u8) -> Fault {
    Fault::error(format!("bad field specifier \"{}\"", char::from(letter)))
}

fn no_count() -> Fault {
    Fault::error("missing count for \"@\" field specifier")
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::check;

    #[test]
    fn binary_names_what_it_does() {
        check(&[
            ("binary x", "!bad option \"x\": must be format or scan"),
            (
                "binary format",
                "!wrong # args: should be \"binary format formatString ?arg arg ...?\"",
            ),
            (
                "binary scan a",
                "!wrong # args: should be \"binary scan value formatString ?varName varName ...?\"",
            ),
        ]);
    }
}
