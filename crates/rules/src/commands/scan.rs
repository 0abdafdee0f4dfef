//! `scan`: reading a text by C's conversions.

use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] =
    &[
        Command::new("scan", "string format ?varName varName ...?", 2, ANY, scan)
            .differs("integers have 64 bits; `%c` reads one byte"),
    ];

fn scan(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let [text, format, names @ ..] = args else {
        return Err(Fault::usage("scan string format ?varName varName ...?"));
    };
    let inline = names.is_empty();
    let format = format.bytes();
    let (pieces, count) = read_format(&format, names.len())?;
    ctx.charge(count * size_of::<Option<Value>>())?;
    let text = text.bytes();
    let mut found: Vec<Option<Value>> = vec![None; count];
    let nothing = run(&pieces, &text, &mut found);
    if inline {
        if nothing {
            return Ok(Value::Empty);
        }
        let values = found.into_iter().map(Option::unwrap_or_default);
        return Ok(Value::list_of(values.collect()));
    }
    if nothing {
        return Ok(Value::Int(-1));
    }
    let mut set = 0;
    for (name, value) in names.iter().zip(found) {
        if let Some(value) = value {
            ctx.set(name, value)?;
            set += 1;
        }
    }
    Ok(Value::Int(set))
}

/// A part of a format.
enum Piece<'a> {
    Blank,
    Literal(u8),
    Field {
        /// Which value it sets; `None` where it is read and left.
        to: Option<usize>,
        width: usize,
        what: What<'a>,
    },
}

enum What<'a> {
    /// In this base; 0 for what the text says by itself.
    Integer(u8),
    Unsigned,
    Real,
    Word,
    Set(Set<'a>),
    Byte,
    Position,
}

struct Set<'a> {
    negated: bool,
    chars: &'a [u8],
}

/// Takes a format apart. Its parts, and how many values they set.
fn read_format(format: &[u8], names: usize) -> Result<(Vec<Piece<'_>>, usize), Fault> {
    let mut pieces = Vec::new();
    let mut by_position: Option<bool> = None;
    let mut uses: Vec<u32> = vec![0; names];
    let mut next = 0;
    let mut rest = format;
    while let [first, after @ ..] = rest {
        rest = after;
        if is_blank(*first) {
            pieces.push(Piece::Blank);
            continue;
        }
        if *first != b'%' {
            pieces.push(Piece::Literal(*first));
            continue;
        }
        if let [b'%', after @ ..] = rest {
            pieces.push(Piece::Literal(b'%'));
            rest = after;
            continue;
        }
        let mut left = false;
        let mut width = None;
        if let [b'*', after @ ..] = rest {
            left = true;
            rest = after;
        } else if let Some(value) = number(&mut rest) {
            if let [b'$', after @ ..] = rest {
                rest = after;
                mixed(&mut by_position, true)?;
                if value == 0 || (names > 0 && value > names) || value > MOST_VALUES {
                    return Err(Fault::error("\"%n$\" argument index out of range"));
                }
                next = value - 1;
            } else {
                width = Some(value);
                mixed(&mut by_position, false)?;
            }
        } else {
            mixed(&mut by_position, false)?;
        }
        width = width.or_else(|| number(&mut rest));
        if let [b'h' | b'l' | b'L', after @ ..] = rest {
            rest = after;
        }
        let what = conversion(&mut rest, width)?;
        let to = (!left).then_some(next);
        if !left {
            if next >= uses.len() {
                if names > 0 {
                    return Err(different());
                }
                uses.resize(next + 1, 0);
            }
            uses[next] += 1;
            next += 1;
        }
        pieces.push(Piece::Field {
            to,
            width: width.filter(|width| *width > 0).unwrap_or(usize::MAX),
            what,
        });
    }
    for count in &uses {
        match count {
            0 if by_position == Some(true) && names == 0 => {}
            0 if by_position == Some(true) => {
                return Err(Fault::error(
                    "variable is not assigned by any conversion specifiers",
                ));
            }
            0 => return Err(different()),
            1 => {}
            _ => {
                return Err(Fault::error(
                    "variable is assigned by multiple \"%n$\" conversion specifiers",
                ));
            }
        }
    }
    Ok((pieces, uses.len()))
}

/// More than this many values no format may name by position.
const MOST_VALUES: usize = 10_000;

fn different() -> Fault {
    Fault::error("different numbers of variable names and field specifiers")
}

fn mixed(by_position: &mut Option<bool>, this: bool) -> Result<(), Fault> {
    if *by_position.get_or_insert(this) == this {
        Ok(())
    } else {
        Err(Fault::error(
            "cannot mix \"%\" and \"%n$\" conversion specifiers",
        ))
    }
}

fn conversion<'a>(rest: &mut &'a [u8], width: Option<usize>) -> Result<What<'a>, Fault> {
    let text = *rest;
    let Some((&letter, after)) = text.split_first() else {
        return Err(Fault::error("bad scan conversion character \"\""));
    };
    *rest = after;
    Ok(match letter {
        b'd' => What::Integer(10),
        b'i' => What::Integer(0),
        b'o' => What::Integer(8),
        b'x' | b'X' => What::Integer(16),
        b'u' => What::Unsigned,
        b'e' | b'f' | b'g' => What::Real,
        b's' => What::Word,
        b'n' => What::Position,
        b'c' if width.is_some() => {
            return Err(Fault::error(
                "field width may not be specified in %c conversion",
            ));
        }
        b'c' => What::Byte,
        b'[' => {
            let negated = after.first() == Some(&b'^');
            let chars = &after[usize::from(negated)..];
            // A bracket that comes first is one of the characters.
            let skip = usize::from(chars.first() == Some(&b']'));
            let Some(end) = memchr::memchr(b']', &chars[skip..]) else {
                return Err(Fault::error("unmatched [ in format string"));
            };
            *rest = &chars[skip + end + 1..];
            What::Set(Set {
                negated,
                chars: &chars[..skip + end],
            })
        }
        other => {
            return Err(Fault::error(format!(
                "bad scan conversion character \"{}\"",
                char::from(other)
            )));
        }
    })
}

/// Reads the text. Whether it was over before anything was read.
fn run(pieces: &[Piece<'_>], text: &[u8], found: &mut [Option<Value>]) -> bool {
    let mut at = 0;
    let mut fields = 0;
    for piece in pieces {
        let (to, width, what) = match piece {
            Piece::Blank => {
                at += blanks(&text[at..]);
                continue;
            }
            Piece::Literal(byte) => match text.get(at) {
                None => return fields == 0,
                Some(other) if other != byte => return false,
                Some(_) => {
                    at += 1;
                    continue;
                }
            },
            Piece::Field { to, width, what } => (to, *width, what),
        };
        if let What::Position = what {
            if let Some(to) = to {
                found[*to] = Some(Value::from(at));
            }
            fields += 1;
            continue;
        }
        if !matches!(what, What::Byte | What::Set(_)) {
            at += blanks(&text[at..]);
        }
        let rest = &text[at..];
        if rest.is_empty() {
            return fields == 0;
        }
        let rest = &rest[..rest.len().min(width)];
        let read = match what {
            What::Byte => Some((1, Value::Int(i64::from(rest[0])))),
            What::Word => {
                let len = rest.iter().take_while(|byte| !is_blank(**byte)).count();
                Some((len, Value::new(&rest[..len])))
            }
            What::Set(set) => {
                let table = set.table();
                let len = rest
                    .iter()
                    .take_while(|byte| table[usize::from(**byte)])
                    .count();
                (len > 0).then(|| (len, Value::new(&rest[..len])))
            }
            What::Integer(base) => integer(rest, *base),
            What::Unsigned => integer(rest, 10).map(|(len, value)| match value {
                Value::Int(int) if int < 0 => (len, Value::from((int as u64).to_string())),
                other => (len, other),
            }),
            What::Real => real(rest),
            What::Position => None,
        };
        let Some((len, value)) = read else {
            return false;
        };
        at += len;
        fields += 1;
        if let Some(to) = to {
            found[*to] = Some(value);
        }
    }
    false
}

impl Set<'_> {
    fn table(&self) -> [bool; 256] {
        let mut table = [self.negated; 256];
        let mut put = |from: u8, to: u8| {
            for byte in from.min(to)..=from.max(to) {
                table[usize::from(byte)] = !self.negated;
            }
        };
        let mut rest = self.chars;
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            put(first, first);
            if let [b'-', to, after @ ..] = rest {
                put(first, *to);
                rest = after;
            }
        }
        table
    }
}

fn integer(text: &[u8], base: u8) -> Option<(usize, Value)> {
    let negative = text.first() == Some(&b'-');
    let mut at = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let mut radix = if base == 0 { 10 } else { base };
    if (base == 0 || base == 16)
        && let [b'0', b'x' | b'X', digit, ..] = &text[at..]
        && digit.is_ascii_hexdigit()
    {
        at += 2;
        radix = 16;
    } else if base == 0 && text.get(at) == Some(&b'0') {
        radix = 8;
    }
    let start = at;
    let mut value: u64 = 0;
    let mut over = false;
    while let Some(digit) = text
        .get(at)
        .and_then(|b| char::from(*b).to_digit(radix.into()))
    {
        match value
            .checked_mul(radix.into())
            .and_then(|v| v.checked_add(digit.into()))
        {
            Some(next) => value = next,
            None => over = true,
        }
        at += 1;
    }
    if at == start {
        return None;
    }
    // Numbers out of bounds are read as the bound.
    let over = over || (radix == 10 && value > i64::MAX as u64 + u64::from(negative));
    let value = match (over, negative) {
        (true, true) => i64::MIN,
        (true, false) => i64::MAX,
        (false, true) => (value as i64).wrapping_neg(),
        (false, false) => value as i64,
    };
    Some((at, Value::Int(value)))
}

fn real(text: &[u8]) -> Option<(usize, Value)> {
    let digits = |at: usize| text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let whole = digits(at);
    at += whole;
    let mut fraction = 0;
    if text.get(at) == Some(&b'.') {
        fraction = digits(at + 1);
        at += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
        let power = text
            .get(at + 1 + sign..)
            .map_or(0, |_| digits(at + 1 + sign));
        if power > 0 {
            at += 1 + sign + power;
        }
    }
    let double: f64 = std::str::from_utf8(&text[..at]).ok()?.parse().ok()?;
    Some((at, Value::Double(double)))
}

fn number(text: &mut &[u8]) -> Option<usize> {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if len == 0 {
        return None;
    }
    let (digits, rest) = text.split_at(len);
    *text = rest;
    let value = digits.iter().fold(0_u64, |value, digit| {
        (value * 10 + u64::from(digit - b'0')).min(1 << 32)
    });
    Some(value as usize)
}

fn blanks(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_blank(**byte)).count()
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};

    #[test]
    fn texts_are_read_into_a_list() {
        check(&[
            ("scan {10 20} {%d %d}", "10 20"),
            ("scan 010 %d", "10"),
            ("scan 010 %i", "8"),
            ("scan 0x1f %i", "31"),
            ("scan ff %x", "255"),
            ("scan 0xffz %x%s", "255 z"),
            ("scan 17 %o", "15"),
            ("scan -5 %d", "-5"),
            ("scan -1 %u", "18446744073709551615"),
            ("scan 99999999999999999999 %d", "9223372036854775807"),
            ("scan abc %c", "97"),
            ("scan { abc} %c", "32"),
            ("scan {  abc def} %s", "abc"),
            ("scan abcdef %3s%s", "abc def"),
            ("scan 12345 %2d%d", "12 345"),
            ("scan 1.5e3x %f%s", "1500.0 x"),
            ("scan 1.5e %f%s", "1.5 e"),
            ("scan .5 %g", "0.5"),
            (r"scan abc123 {%[a-z]%d}", "abc 123"),
            (r"scan abc,def {%[^,],%s}", "abc def"),
            (r"scan {]a-} {%[]a-]}", r"\]a-"),
            ("scan abc123 {%*[a-z]%d}", "123"),
            ("scan {a b} {%s %s%n}", "a b 3"),
            ("scan 50% %d%%", "50"),
            ("scan {10 x} {%d %d}", "10 {}"),
            ("scan {} %d", ""),
            ("scan x %d", "{}"),
            (r"scan {a b} {%2$s %1$s}", "b a"),
        ]);
    }

    #[test]
    fn texts_are_read_into_variables() {
        let mut bench = Bench::new();
        assert_eq!(bench.run("scan {10:20} %d:%d a b").as_deref(), Ok("2"));
        assert_eq!((bench.var("a"), bench.var("b")), ("10".into(), "20".into()));
        assert_eq!(bench.run("scan {10:x} %d:%d a b").as_deref(), Ok("1"));
        assert_eq!(bench.run("scan {} %d a").as_deref(), Ok("-1"));
        assert_eq!(bench.run("scan x %d a").as_deref(), Ok("0"));
        assert_eq!(bench.run("scan {1 2} {%2$d %1$d} a b").as_deref(), Ok("2"));
        assert_eq!((bench.var("a"), bench.var("b")), ("2".into(), "1".into()));
    }

    #[test]
    fn formats_that_do_not_fit_are_told() {
        check(&[
            (
                "scan a %d%d x",
                "!different numbers of variable names and field specifiers",
            ),
            (
                "scan a %d x y",
                "!different numbers of variable names and field specifiers",
            ),
            ("scan a %y", "!bad scan conversion character \"y\""),
            (
                "scan a %5c",
                "!field width may not be specified in %c conversion",
            ),
            (r"scan a {%[a}", "!unmatched [ in format string"),
            (
                "scan a {%1$d %d} x y",
                "!cannot mix \"%\" and \"%n$\" conversion specifiers",
            ),
            ("scan a {%3$d} x y", "!\"%n$\" argument index out of range"),
            (
                "scan a {%1$d %1$d} x y",
                "!variable is assigned by multiple \"%n$\" conversion specifiers",
            ),
            (
                "scan a {%1$d} x y",
                "!variable is not assigned by any conversion specifiers",
            ),
            (
                "scan a",
                "!wrong # args: should be \"scan string format ?varName varName ...?\"",
            ),
        ]);
    }
}
