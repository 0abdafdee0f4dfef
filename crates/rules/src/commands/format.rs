//! `format`: C's conversions on values. Integers have 64 bits, and `%c` makes one byte.

use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::value::{Chars, Value};

pub(super) const COMMANDS: &[Command] =
    &[
        Command::new("format", "formatString ?arg arg ...?", 1, ANY, format)
            .differs("`%c` makes one byte: the value modulo 256"),
    ];

fn format(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    let mut words = Words {
        args: &args[1..],
        next: 0,
        by_position: None,
    };
    let mut out = Chars::new();
    let mut rest = &text[..];
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let [b'%', after @ ..] = rest {
            out.push(b'%');
            rest = after;
            continue;
        }
        let field = Field::read(&mut rest, &mut words)?;
        ctx.charge(field.width.max(field.precision.unwrap_or(0)))?;
        let value = words.take()?;
        field.write(ctx, &mut out, value)?;
    }
    out.extend_from_slice(rest);
    ctx.charge(out.len())?;
    Ok(Value::from_chars(out))
}

/// The values that are still to be written.
struct Words<'a> {
    args: &'a [Value],
    next: usize,
    /// Whether fields name their values by position; unknown before the first.
    by_position: Option<bool>,
}

impl<'a> Words<'a> {
    fn take(&mut self) -> Result<&'a Value, Fault> {
        match self.args.get(self.next) {
            Some(value) => {
                self.next += 1;
                Ok(value)
            }
            None if self.by_position == Some(true) => Err(out_of_range()),
            None => Err(Fault::error(
                "not enough arguments for all format specifiers",
            )),
        }
    }

    fn position(&mut self, position: Option<usize>) -> Result<(), Fault> {
        let by_position = position.is_some();
        if *self.by_position.get_or_insert(by_position) != by_position {
            return Err(Fault::error(
                "cannot mix \"%\" and \"%n$\" conversion specifiers",
            ));
        }
        if let Some(position) = position {
            self.next = position.checked_sub(1).ok_or_else(out_of_range)?;
        }
        Ok(())
    }
}

fn out_of_range() -> Fault {
    Fault::error("\"%n$\" argument index out of range")
}

/// A field of the format: what stands between `%` and its letter, and that.
#[derive(Default)]
struct Field {
    left: bool,
    plus: bool,
    space: bool,
    zero: bool,
    hash: bool,
    short: bool,
    width: usize,
    precision: Option<usize>,
    letter: u8,
}

/// More is too much for any result.
const WIDEST: i64 = 1 << 32;

impl Field {
    fn read(text: &mut &[u8], words: &mut Words<'_>) -> Result<Self, Fault> {
        let mut field = Field::default();
        let mut ahead = *text;
        match number(&mut ahead) {
            Some(position) if ahead.first() == Some(&b'$') => {
                *text = &ahead[1..];
                words.position(Some(position))?;
            }
            _ => words.position(None)?,
        }
        while let [flag, rest @ ..] = *text {
            match flag {
                b'-' => field.left = true,
                b'+' => field.plus = true,
                b' ' => field.space = true,
                b'0' => field.zero = true,
                b'#' => field.hash = true,
                _ => break,
            }
            *text = rest;
        }
        if let [b'*', rest @ ..] = *text {
            *text = rest;
            let width = words.take()?.int()?.clamp(-WIDEST, WIDEST);
            field.left |= width < 0;
            field.width = width.unsigned_abs() as usize;
        } else if let Some(width) = number(text) {
            field.width = width;
        }
        if let [b'.', rest @ ..] = *text {
            *text = rest;
            if let [b'*', rest @ ..] = *text {
                *text = rest;
                // A negative one is none.
                field.precision = usize::try_from(words.take()?.int()?.min(WIDEST)).ok();
            } else {
                field.precision = Some(number(text).unwrap_or(0));
            }
        }
        if let [size @ (b'h' | b'l'), rest @ ..] = *text {
            field.short = *size == b'h';
            *text = rest;
        }
        match *text {
            [] => Err(Fault::error(
                "format string ended in middle of field specifier",
            )),
            [letter, rest @ ..] if b"diuoxXcsfeEgG".contains(letter) => {
                field.letter = *letter;
                *text = rest;
                Ok(field)
            }
            [letter, ..] => Err(Fault::error(format!(
                "bad field specifier \"{}\"",
                char::from(*letter)
            ))),
        }
    }

    fn write(&self, ctx: &mut Ctx<'_>, out: &mut Chars, value: &Value) -> Result<(), Fault> {
        match self.letter {
            b's' => {
                let text = value.bytes();
                let len = self
                    .precision
                    .map_or(text.len(), |most| text.len().min(most));
                ctx.charge(len)?;
                self.pad(out, b"", &text[..len], false);
            }
            b'c' => self.pad(out, b"", &[value.int()? as u8], false),
            b'd' | b'i' => {
                let mut int = value.int()?;
                if self.short {
                    int = i64::from(int as i16);
                }
                let mut room = [0; 64];
                let digits = digits(&mut room, int.unsigned_abs(), 10, false);
                self.integer(out, self.sign(int < 0), digits);
            }
            b'u' | b'o' | b'x' | b'X' => {
                let mut int = value.int()? as u64;
                if self.short {
                    int = u64::from(int as u16);
                }
                let (radix, prefix) = match self.letter {
                    b'u' => (10, &b""[..]),
                    b'o' => (8, &b"0"[..]),
                    b'x' => (16, &b"0x"[..]),
                    _ => (16, &b"0X"[..]),
                };
                let prefix = if self.hash && int != 0 { prefix } else { b"" };
                let mut room = [0; 64];
                let digits = digits(&mut room, int, radix, self.letter == b'X');
                self.integer(out, prefix, digits);
            }
            _ => self.real(out, value.double()?),
        }
        Ok(())
    }

    fn sign(&self, negative: bool) -> &'static [u8] {
        match (negative, self.plus, self.space) {
            (true, ..) => b"-",
            (_, true, _) => b"+",
            (_, _, true) => b" ",
            _ => b"",
        }
    }

    fn integer(&self, out: &mut Chars, prefix: &[u8], digits: &[u8]) {
        match self.precision {
            Some(0) if digits == b"0" => self.pad(out, prefix, b"", false),
            Some(least) if least > digits.len() => {
                let mut longer = vec![b'0'; least - digits.len()];
                longer.extend_from_slice(digits);
                self.pad(out, prefix, &longer, false);
            }
            precision => self.pad(out, prefix, digits, precision.is_none()),
        }
    }

    fn real(&self, out: &mut Chars, double: f64) {
        let sign = self.sign(double.is_sign_negative() && !double.is_nan());
        let double = double.abs();
        let upper = self.letter.is_ascii_uppercase();
        if !double.is_finite() {
            let text = if double.is_nan() { "nan" } else { "inf" };
            let text = if upper {
                text.to_uppercase()
            } else {
                text.into()
            };
            self.pad(out, sign, text.as_bytes(), false);
            return;
        }
        let precision = self.precision.unwrap_or(6);
        let mut text = match self.letter {
            b'f' => fixed(double, precision),
            b'e' | b'E' => scientific(double, precision),
            _ => general(double, precision.max(1), self.hash),
        };
        if self.hash && precision == 0 && !text.contains('.') {
            let at = text.find('e').unwrap_or(text.len());
            text.insert(at, '.');
        }
        if upper {
            text.make_ascii_uppercase();
        }
        self.pad(out, sign, text.as_bytes(), true);
    }

    /// Writes a text behind its sign or prefix, as wide as the field. `zeros` may fill it up.
    fn pad(&self, out: &mut Chars, prefix: &[u8], text: &[u8], zeros: bool) {
        let fill = self.width.saturating_sub(prefix.len() + text.len());
        let zeros = (zeros || b"sc".contains(&self.letter)) && self.zero && !self.left;
        if !self.left && !zeros {
            out.resize(out.len() + fill, b' ');
        }
        out.extend_from_slice(prefix);
        if zeros {
            out.resize(out.len() + fill, b'0');
        }
        out.extend_from_slice(text);
        if self.left {
            out.resize(out.len() + fill, b' ');
        }
    }
}

/// Reads a number; `None` where there is none.
fn number(text: &mut &[u8]) -> Option<usize> {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if len == 0 {
        return None;
    }
    let (digits, rest) = text.split_at(len);
    *text = rest;
    let value = digits.iter().fold(0_i64, |value, digit| {
        (value * 10 + i64::from(digit - b'0')).min(WIDEST)
    });
    Some(value as usize)
}

fn digits(room: &mut [u8; 64], mut int: u64, radix: u64, upper: bool) -> &[u8] {
    let figures = if upper {
        b"0123456789ABCDEF"
    } else {
        b"0123456789abcdef"
    };
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = figures[(int % radix) as usize];
        int /= radix;
        if int == 0 {
            return &room[at..];
        }
    }
}

/// No double has more digits behind its point.
const MOST_DIGITS: usize = 1100;

/// C's `%.{precision}f`.
fn fixed(double: f64, precision: usize) -> String {
    let mut text = format!("{double:.*}", precision.min(MOST_DIGITS));
    text.extend(std::iter::repeat_n(
        '0',
        precision.saturating_sub(MOST_DIGITS),
    ));
    text
}

/// C's `%.{precision}e`.
fn scientific(double: f64, precision: usize) -> String {
    let text = format!("{double:.*e}", precision.min(MOST_DIGITS));
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut text = mantissa.to_owned();
    text.extend(std::iter::repeat_n(
        '0',
        precision.saturating_sub(MOST_DIGITS),
    ));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    text + &format!("e{sign}{exponent:0>2}")
}

/// C's `%.{precision}g`.
fn general(double: f64, precision: usize, keep_zeros: bool) -> String {
    let rounded = format!("{double:.*e}", (precision - 1).min(MOST_DIGITS));
    let exponent: i64 = rounded
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or(0);
    let text = if exponent < -4 || exponent >= precision as i64 {
        scientific(double, precision - 1)
    } else {
        fixed(double, (precision as i64 - 1 - exponent) as usize)
    };
    if keep_zeros || !text.contains('.') {
        return text;
    }
    let (mantissa, exponent) = match text.find('e') {
        Some(at) => text.split_at(at),
        None => (&text[..], ""),
    };
    mantissa
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
        + exponent
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};
    use crate::value::Value;

    #[test]
    fn integers_are_formatted() {
        check(&[
            ("format %d 42", "42"),
            ("format %i -42", "-42"),
            ("format %5d| 42", "   42|"),
            ("format %-5d| 42", "42   |"),
            ("format %05d -42", "-0042"),
            ("format %+d 42", "+42"),
            ("format {% d} 42", " 42"),
            ("format %.5d 42", "00042"),
            ("format %8.5d 42", "   00042"),
            ("format %x 255", "ff"),
            ("format %X 255", "FF"),
            ("format %#x 255", "0xff"),
            ("format %#o 8", "010"),
            ("format %o 8", "10"),
            ("format %u -1", "18446744073709551615"),
            ("format %x -1", "ffffffffffffffff"),
            ("format %hd 65537", "1"),
            ("format %hx -1", "ffff"),
            ("format %ld 5000000000", "5000000000"),
            ("format %d 0x1F", "31"),
            ("format %02x%02x 10 11", "0a0b"),
            ("format %*d 5 42", "   42"),
            ("format %*d| -5 42", "42   |"),
            ("format %.*d 4 42", "0042"),
        ]);
    }

    #[test]
    fn other_conversions_are_formatted() {
        check(&[
            ("format abc", "abc"),
            ("format {100%% sure}", "100% sure"),
            ("format %s abc", "abc"),
            ("format %5s| abc", "  abc|"),
            ("format %-5s| abc", "abc  |"),
            ("format %.2s abc", "ab"),
            ("format %c 65", "A"),
            ("format %3c 65", "  A"),
            ("format %f 1.5", "1.500000"),
            ("format %.2f 2.675", "2.67"),
            ("format %.0f 2.5", "2"),
            ("format %8.3f 3.14159", "   3.142"),
            ("format %08.3f -3.14159", "-003.142"),
            ("format %e 12345.678", "1.234568e+04"),
            ("format %.2E 0.00012", "1.20E-04"),
            ("format %g 0.0001", "0.0001"),
            ("format %g 0.00001", "1e-05"),
            ("format %g 1000000", "1e+06"),
            ("format %g 100000", "100000"),
            ("format %.3g 1234.5", "1.23e+03"),
            ("format %G 1e-10", "1E-10"),
            ("format %#.0f 1", "1."),
            ("format {%2$s %1$s} a b", "b a"),
            ("format {%1$s %1$s} a", "a a"),
        ]);
    }

    #[test]
    fn what_cannot_be_formatted_is_told() {
        check(&[
            (
                "format %d",
                "!not enough arguments for all format specifiers",
            ),
            ("format %d abc", "!expected integer but got \"abc\""),
            ("format %d 1.5", "!expected integer but got \"1.5\""),
            (
                "format %f abc",
                "!expected floating-point number but got \"abc\"",
            ),
            ("format %y 1", "!bad field specifier \"y\""),
            (
                "format %5 1",
                "!format string ended in middle of field specifier",
            ),
            (
                "format {%1$s %s} a b",
                "!cannot mix \"%\" and \"%n$\" conversion specifiers",
            ),
            ("format %3\\$s a", "!\"%n$\" argument index out of range"),
            ("format %0\\$s a", "!\"%n$\" argument index out of range"),
            (
                "format",
                "!wrong # args: should be \"format formatString ?arg arg ...?\"",
            ),
        ]);
    }

    #[test]
    fn a_character_is_one_byte() {
        let mut bench = Bench::new();
        let words = ["format", "%c%c", "233", "256"].map(Value::from);
        assert!(bench.words(&words).unwrap().is(&[233, 0]));
    }

    #[test]
    fn widths_stay_within_the_memory_that_an_event_has() {
        let mut bench = Bench::new();
        bench.limit(1000, 100_000);
        for command in [
            "format %1000000d 1",
            "format %.99999999999999999999d 1",
            "format %.1000000f 1",
            "format %*s 1000000000000 x",
        ] {
            assert!(
                bench.run(command).unwrap_err().contains("memory"),
                "{command}"
            );
        }
        bench.limit(1000, 1 << 30);
        assert_eq!(bench.run("format %.70000f 1").unwrap().len(), 70002);
        assert_eq!(bench.run("format %.70000e 1").unwrap().len(), 70006);
    }
}
