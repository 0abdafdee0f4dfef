//! Numbers as Tcl 8.4 reads and writes them: 64-bit integers, and doubles with twelve digits.

use super::Bytes;
use std::io::Write;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
}

impl Number {
    /// As a floating-point number.
    pub fn double(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Double(double) => double,
        }
    }

    /// Whether it is 0.
    pub fn is_zero(self) -> bool {
        match self {
            Number::Int(int) => int == 0,
            Number::Double(double) => double == 0.0,
        }
    }
}

/// Reads a number, with blanks around it: decimal, octal after `0`, hexadecimal after `0x`, or
/// floating-point.
pub fn parse_number(text: &[u8]) -> Option<Number> {
    let text = trim(text);
    match text.first()? {
        b'0'..=b'9' | b'+' | b'-' | b'.' | b'i' | b'I' | b'n' | b'N' => {}
        _ => return None,
    }
    if let Some(int) = integer(text) {
        return Some(Number::Int(int));
    }
    double(text).map(Number::Double)
}

/// Reads an integer, with blanks around it.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    integer(trim(text))
}

/// A double as Tcl 8.4 writes it: twelve digits, and a point or exponent that tells it from an
/// integer.
pub fn format_double(double: f64) -> String {
    if double.is_nan() {
        return "NaN".into();
    }
    if double.is_infinite() {
        return if double > 0.0 { "Inf" } else { "-Inf" }.into();
    }
    let mut text = general(double, 12);
    if !text.contains(['.', 'e']) {
        text.push_str(".0");
    }
    text
}

/// C's `%.{precision}g`.
fn general(double: f64, precision: usize) -> String {
    if double == 0.0 {
        return if double.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let scientific = format!("{:.*e}", precision - 1, double);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let shorten = |text: &str| -> String {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", shorten(mantissa), exponent.abs());
    }
    let places = (precision as i32 - 1 - exponent).max(0) as usize;
    shorten(&format!("{double:.places$}"))
}

/// The integer whose plain decimal form the text is, if it is one.
pub(super) fn canonical(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if plain { integer(text) } else { None }
}

/// An integer's text.
pub(super) fn digits(int: i64) -> Bytes<'static> {
    let mut text = [0; 32];
    let mut at = 24;
    let mut rest = int.unsigned_abs();
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if int < 0 {
        at -= 1;
        text[at] = b'-';
    }
    text.copy_within(at..24, 0);
    Bytes::Digits(text, (24 - at) as u8)
}

pub(super) fn double_digits(double: f64) -> Bytes<'static> {
    let mut text = [0; 32];
    let formatted = format_double(double);
    let mut room = &mut text[..];
    // Twelve digits, a sign, a point and an exponent have room.
    let _ = room.write_all(formatted.as_bytes());
    let left = room.len();
    Bytes::Digits(text, (32 - left) as u8)
}

/// One of Tcl's words for true and false, which may be abbreviated.
pub(super) fn boolean_word(text: &[u8]) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let is = |word: &[u8], least: usize| lower.len() >= least && word.starts_with(&lower);
    if is(b"true", 1) || is(b"yes", 1) || is(b"on", 2) {
        Some(true)
    } else if is(b"false", 1) || is(b"no", 1) || is(b"off", 2) {
        Some(false)
    } else {
        None
    }
}

fn trim(mut text: &[u8]) -> &[u8] {
    let blank = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    while let [first, rest @ ..] = text
        && blank(first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && blank(last)
    {
        text = rest;
    }
    text
}

fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (radix, digits) = match digits {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest),
        _ => (10, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &digit in digits {
        let digit = u64::from(char::from(digit).to_digit(radix)?);
        value = value.checked_mul(u64::from(radix))?.checked_add(digit)?;
    }
    // Hexadecimal and octal fill all 64 bits; decimal has its sign.
    if radix == 10 && value > i64::MAX as u64 + u64::from(negative) {
        return None;
    }
    let value = value as i64;
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

fn double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let body = text.trim_start_matches(['+', '-']);
    let plain = body
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if text.len() - body.len() > 1 || (!plain && !body.eq_ignore_ascii_case("inf")) {
        return None;
    }
    // Octal with a digit that is none is no decimal either.
    if body.len() > 1 && body.starts_with('0') && body.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn numbers_are_read_as_tcl_reads_them() {
        let cases: [(&str, Option<Number>); 18] = [
            ("0", Some(Number::Int(0))),
            (" 12\n", Some(Number::Int(12))),
            ("010", Some(Number::Int(8))),
            ("08", None),
            ("0x1F", Some(Number::Int(31))),
            ("0xffffffffffffffff", Some(Number::Int(-1))),
            ("-5", Some(Number::Int(-5))),
            ("--5", None),
            ("1.5", Some(Number::Double(1.5))),
            (".5", Some(Number::Double(0.5))),
            ("5.", Some(Number::Double(5.0))),
            ("1e3", Some(Number::Double(1000.0))),
            ("1e", None),
            ("abc", None),
            ("", None),
            ("1 2", None),
            ("-9223372036854775808", Some(Number::Int(i64::MIN))),
            (
                "9223372036854775808",
                Some(Number::Double(9_223_372_036_854_775_808.0)),
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_number(text.as_bytes()), wanted, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_written_with_twelve_digits() {
        let cases = [
            (0.1 + 0.2, "0.3"),
            (1.0, "1.0"),
            (1e20, "1e+20"),
            (1.0 / 3.0, "0.333333333333"),
            (1e-5, "1e-05"),
            (123_456_789_012.0, "123456789012.0"),
            (-2.5, "-2.5"),
            (0.0, "0.0"),
        ];
        for (double, wanted) in cases {
            assert_eq!(format_double(double), wanted);
        }
    }

    #[test]
    fn integers_are_written_in_full() {
        for int in [0, 7, -1, i64::MAX, i64::MIN] {
            assert_eq!(Value::Int(int).lossy(), int.to_string());
        }
    }

    #[test]
    fn booleans_may_be_abbreviated() {
        assert_eq!(boolean_word(b"TRU"), Some(true));
        assert_eq!(boolean_word(b"n"), Some(false));
        assert_eq!(boolean_word(b"o"), None);
        assert_eq!(boolean_word(b"of"), Some(false));
        assert_eq!(boolean_word(b""), None);
    }
}
