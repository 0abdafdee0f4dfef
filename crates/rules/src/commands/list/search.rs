//! `lsearch`.

use super::order::{Kind, compare, real};
use crate::command::Ctx;
use crate::commands::ensemble::{choose, clamp, index};
use crate::commands::glob;
use crate::fault::Fault;
use crate::regex::{Flags, Regex};
use crate::value::{Bytes, Value};
use std::cmp::Ordering;

pub(super) const USAGE: &str = "?options? list pattern";

const OPTIONS: [&str; 14] = [
    "-all",
    "-ascii",
    "-decreasing",
    "-dictionary",
    "-exact",
    "-glob",
    "-increasing",
    "-inline",
    "-integer",
    "-not",
    "-real",
    "-regexp",
    "-sorted",
    "-start",
];

pub(super) fn lsearch(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let [options @ .., list, pattern] = args else {
        return Err(Fault::usage(&format!("lsearch {USAGE}")));
    };
    let how = How::read(options)?;
    let items = list.list()?;
    let start = match how.start {
        Some(start) => clamp(index(start, items.len() as i64 - 1)?, items.len()),
        None => 0,
    };
    ctx.spend((items.len() - start) as u64 >> 2)?;
    if how.mode == Mode::Sorted && !how.all && !how.not {
        let found = find_sorted(&how, &items, start, pattern)?;
        return Ok(answer(&how, &items, found));
    }
    let mut found = Vec::new();
    let matcher = Matcher::new(&how, pattern)?;
    for (at, item) in items.iter().enumerate().skip(start) {
        if matcher.matches(ctx, item)? == how.not {
            continue;
        }
        if !how.all {
            return Ok(answer(&how, &items, Some(at)));
        }
        found.push(if how.inline {
            item.clone()
        } else {
            Value::from(at)
        });
    }
    if how.all {
        ctx.charge(found.len() * size_of::<Value>())?;
        return Ok(Value::list_of(found));
    }
    Ok(answer(&how, &items, None))
}

fn answer(how: &How<'_>, items: &[Value], found: Option<usize>) -> Value {
    match found {
        Some(at) if how.inline => items[at].clone(),
        Some(at) => Value::from(at),
        None if how.inline => Value::Empty,
        None => Value::Int(-1),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Exact,
    Glob,
    Regexp,
    Sorted,
}

struct How<'a> {
    mode: Mode,
    kind: Kind,
    decreasing: bool,
    all: bool,
    inline: bool,
    not: bool,
    start: Option<&'a Value>,
}

impl<'a> How<'a> {
    fn read(options: &'a [Value]) -> Result<Self, Fault> {
        let mut how = How {
            mode: Mode::Glob,
            kind: Kind::Ascii,
            decreasing: false,
            all: false,
            inline: false,
            not: false,
            start: None,
        };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match OPTIONS[choose(&OPTIONS, &option.bytes(), "option")?] {
                "-all" => how.all = true,
                "-inline" => how.inline = true,
                "-not" => how.not = true,
                "-ascii" => how.kind = Kind::Ascii,
                "-dictionary" => how.kind = Kind::Dictionary,
                "-integer" => how.kind = Kind::Integer,
                "-real" => how.kind = Kind::Real,
                "-decreasing" => how.decreasing = true,
                "-increasing" => how.decreasing = false,
                "-exact" => how.mode = Mode::Exact,
                "-glob" => how.mode = Mode::Glob,
                "-regexp" => how.mode = Mode::Regexp,
                "-sorted" => how.mode = Mode::Sorted,
                _ => {
                    how.start = Some(
                        options
                            .next()
                            .ok_or_else(|| Fault::error("missing starting index"))?,
                    );
                }
            }
        }
        Ok(how)
    }
}

/// The first place of the pattern in a list that is sorted.
fn find_sorted(
    how: &How<'_>,
    items: &[Value],
    start: usize,
    pattern: &Value,
) -> Result<Option<usize>, Fault> {
    let (mut from, mut to) = (start, items.len());
    let mut found = None;
    while from < to {
        let middle = from + (to - from) / 2;
        let mut order = compare(how.kind, pattern, &items[middle])?;
        if how.decreasing {
            order = order.reverse();
        }
        match order {
            Ordering::Greater => from = middle + 1,
            Ordering::Less => to = middle,
            Ordering::Equal => {
                found = Some(middle);
                to = middle;
            }
        }
    }
    Ok(found)
}

/// What an item is to be like.
enum Matcher<'a> {
    Same(Bytes<'a>),
    Glob(Bytes<'a>),
    Regexp(Box<Regex>),
    Integer(i64),
    Real(f64),
    Dictionary(&'a Value),
}

impl<'a> Matcher<'a> {
    fn new(how: &How<'_>, pattern: &'a Value) -> Result<Self, Fault> {
        Ok(match (how.mode, how.kind) {
            (Mode::Glob, _) => {
                let glob = pattern.bytes();
                if glob.iter().any(|byte| b"*?[\\".contains(byte)) {
                    Matcher::Glob(glob)
                } else {
                    Matcher::Same(glob)
                }
            }
            (Mode::Regexp, _) => {
                let regex = Regex::new(&pattern.bytes(), Flags::default())
                    .map_err(|error| Fault::error(error.to_string()))?;
                Matcher::Regexp(Box::new(regex))
            }
            (_, Kind::Ascii) => Matcher::Same(pattern.bytes()),
            (_, Kind::Dictionary) => Matcher::Dictionary(pattern),
            (_, Kind::Integer) => Matcher::Integer(pattern.int()?),
            (_, Kind::Real) => Matcher::Real(real(pattern)?),
        })
    }

    fn matches(&self, ctx: &mut Ctx<'_>, item: &Value) -> Result<bool, Fault> {
        Ok(match self {
            Matcher::Same(pattern) => match item {
                Value::Text(text) => *text.chars() == **pattern,
                other => *other.bytes() == **pattern,
            },
            Matcher::Glob(pattern) => glob(pattern, &item.bytes(), false),
            Matcher::Regexp(regex) => regex
                .is_match(&item.bytes(), ctx.steps())
                .map_err(|error| Fault::error(error.to_string()))?,
            Matcher::Integer(int) => *int == item.int()?,
            Matcher::Real(double) => *double == real(item)?,
            Matcher::Dictionary(pattern) => compare(Kind::Dictionary, pattern, item)?.is_eq(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::check;

    #[test]
    fn items_are_found_as_asked() {
        check(&[
            ("lsearch {a b c} b", "1"),
            ("lsearch {a b c} x", "-1"),
            ("lsearch {abc bcd cde} b*", "1"),
            ("lsearch -exact {b* bcd} bcd", "1"),
            ("lsearch -exact {b bcd b*} b*", "2"),
            ("lsearch -regexp {abc bcd cde} ^c.e$", "2"),
            ("lsearch -all {a b a} a", "0 2"),
            ("lsearch -all -inline {ab b ac} a*", "ab ac"),
            ("lsearch -inline {ab b ac} a*", "ab"),
            ("lsearch -inline {ab b ac} x", ""),
            ("lsearch -not {a a b} a", "2"),
            ("lsearch -all -not {a b a c} a", "1 3"),
            ("lsearch -start 1 {a b a} a", "2"),
            ("lsearch -start end {a b a} a", "2"),
            ("lsearch -start 9 {a b a} a", "-1"),
            ("lsearch -exact -integer {1 0x10 3} 16", "1"),
            ("lsearch -exact -real {1 2.0 3} 2", "1"),
            ("lsearch -sorted {a c e g} e", "2"),
            ("lsearch -sorted {a c c c g} c", "1"),
            ("lsearch -sorted -integer {1 5 10 20} 10", "2"),
            ("lsearch -sorted -integer -decreasing {20 10 5} 5", "2"),
            ("lsearch -sorted -dictionary {a1 a2 a10} a10", "2"),
            ("lsearch -sorted {a c} b", "-1"),
            ("lsearch -sorted -all {a c c} c", "1 2"),
        ]);
    }

    #[test]
    fn what_cannot_be_searched_is_told() {
        check(&[
            (
                "lsearch -x {a b} a",
                "!bad option \"-x\": must be -all, -ascii, -decreasing, -dictionary, -exact, -glob, -increasing, -inline, \
                 -integer, -not, -real, -regexp, -sorted, or -start",
            ),
            (
                "lsearch a",
                "!wrong # args: should be \"lsearch ?options? list pattern\"",
            ),
            (
                "lsearch -exact -integer {a 1} 1",
                "!expected integer but got \"a\"",
            ),
            (
                "lsearch -regexp {a 1} (",
                "!couldn't compile regular expression pattern: parentheses () not balanced",
            ),
        ]);
    }
}
