//! `binary scan`.

use super::{Count, bad_field, field, no_count, no_words};
use crate::command::Ctx;
use crate::fault::Fault;
use crate::value::{Chars, Value};

pub(super) fn scan(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let [value, format, names @ ..] = args else {
        return Err(no_words());
    };
    let (value, format) = (value.bytes(), format.bytes());
    let bytes = &value[..];
    let mut format = &format[..];
    let mut at = 0;
    let mut set = 0;
    while let Some((letter, count)) = field(&mut format) {
        match letter {
            b'x' => {
                at = match count {
                    Count::All => bytes.len(),
                    Count::One => at + 1,
                    Count::Number(count) => at.saturating_add(count),
                }
                .min(bytes.len());
                continue;
            }
            b'X' => {
                at = match count {
                    Count::All => 0,
                    Count::One => at.saturating_sub(1),
                    Count::Number(count) => at.saturating_sub(count),
                };
                continue;
            }
            b'@' => {
                at = match count {
                    Count::One => return Err(no_count()),
                    Count::All => bytes.len(),
                    Count::Number(count) => count.min(bytes.len()),
                };
                continue;
            }
            b'a' | b'A' | b'b' | b'B' | b'h' | b'H' | b'c' | b's' | b'S' | b'i' | b'I' | b'w'
            | b'W' | b'f' | b'd' => {}
            _ => return Err(bad_field(letter)),
        }
        let name = names.get(set).ok_or_else(no_words)?;
        let Some((used, found)) = read(ctx, letter, count, &bytes[at..])? else {
            break;
        };
        ctx.set(name, found)?;
        set += 1;
        at += used;
    }
    Ok(Value::from(set))
}

/// Reads a field off the bytes: how many it takes and what it is; `None` where there are too few.
fn read(
    ctx: &mut Ctx<'_>,
    letter: u8,
    count: Count,
    bytes: &[u8],
) -> Result<Option<(usize, Value)>, Fault> {
    let per_byte = match letter {
        b'b' | b'B' => 8,
        b'h' | b'H' => 2,
        b'a' | b'A' => 1,
        _ => return numbers(ctx, letter, count, bytes),
    };
    let len = match count {
        Count::All => bytes.len() * per_byte,
        Count::One => 1,
        Count::Number(count) => count,
    };
    if len > bytes.len() * per_byte {
        return Ok(None);
    }
    let used = len.div_ceil(per_byte);
    let bytes = &bytes[..used];
    ctx.charge(len)?;
    let value = match letter {
        b'a' => Value::new(bytes),
        b'A' => {
            let kept = bytes.iter().rposition(|byte| !matches!(byte, 0 | b' '));
            Value::new(&bytes[..kept.map_or(0, |last| last + 1)])
        }
        b'h' | b'H' => {
            let mut figures = Chars::with_capacity(used * 2);
            for byte in bytes {
                let pair = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                let pair = if letter == b'H' {
                    pair
                } else {
                    [pair[1], pair[0]]
                };
                figures.extend_from_slice(&pair);
            }
            figures.truncate(len);
            Value::from_chars(figures)
        }
        _ => {
            let mut bits = Chars::with_capacity(used * 8);
            for byte in bytes {
                let mut eight = [0; 8];
                for (n, bit) in eight.iter_mut().enumerate() {
                    let shift = if letter == b'b' { n } else { 7 - n };
                    *bit = b'0' + (byte >> shift & 1);
                }
                bits.extend_from_slice(&eight);
            }
            bits.truncate(len);
            Value::from_chars(bits)
        }
    };
    Ok(Some((used, value)))
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn numbers(
    ctx: &mut Ctx<'_>,
    letter: u8,
    count: Count,
    bytes: &[u8],
) -> Result<Option<(usize, Value)>, Fault> {
    let (size, read): (usize, fn(&[u8]) -> Value) = match letter {
        b'c' => (1, |b| int(b[0] as i8)),
        b's' => (2, |b| int(i16::from_le_bytes(fixed(b)))),
        b'S' => (2, |b| int(i16::from_be_bytes(fixed(b)))),
        b'i' => (4, |b| int(i32::from_le_bytes(fixed(b)))),
        b'I' => (4, |b| int(i32::from_be_bytes(fixed(b)))),
        b'w' => (8, |b| int(i64::from_le_bytes(fixed(b)))),
        b'W' => (8, |b| int(i64::from_be_bytes(fixed(b)))),
        b'f' => (4, |b| Value::Double(f32::from_ne_bytes(fixed(b)).into())),
        _ => (8, |b| Value::Double(f64::from_ne_bytes(fixed(b)))),
    };
    let count = match count {
        Count::One => {
            return Ok(bytes.get(..size).map(|bytes| (size, read(bytes))));
        }
        Count::All => bytes.len() / size,
        Count::Number(count) => count,
    };
    if count > bytes.len() / size {
        return Ok(None);
    }
    ctx.charge(count * size_of::<Value>())?;
    let used = count * size;
    let values = bytes[..used].chunks_exact(size).map(read).collect();
    Ok(Some((used, Value::list_of(values))))
}

fn int(int: impl Into<i64>) -> Value {
    Value::Int(int.into())
}

/// The bytes of a number; there are as many as it has.
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut fixed = [0; N];
    fixed.copy_from_slice(bytes);
    fixed
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};
    use crate::value::Value;

    fn scan(bytes: &[u8], format: &str) -> (String, Vec<String>) {
        let mut bench = Bench::new();
        let mut words = vec![
            Value::from("binary"),
            Value::from("scan"),
            Value::new(bytes),
            Value::from(format),
        ];
        words.extend(["a", "b", "c"].map(Value::from));
        let count = bench.words(&words).unwrap().lossy();
        let set = words[4..]
            .iter()
            .filter_map(|name| bench.ctx().get(name).ok());
        let values = set.map(|value| value.lossy()).collect();
        (count, values)
    }

    #[test]
    fn bytes_become_values() {
        let cases: [(&[u8], &str, &[&str]); 30] = [
            (b"abc", "a", &["a"]),
            (b"abc", "a2", &["ab"]),
            (b"abc", "a*", &["abc"]),
            (b"ab \0", "A*", &["ab"]),
            (b"ab \0", "A3 c", &["ab", "0"]),
            (b"  ", "A*", &[""]),
            (b"A", "B8", &["01000001"]),
            (b"A", "b8", &["10000010"]),
            (b"A@", "B*", &["0100000101000000"]),
            (b"A", "B3", &["010"]),
            (b"\x1f\xa0", "H*", &["1fa0"]),
            (b"\x1f\xa0", "h3", &["f10"]),
            (b"\x1f\xa0", "@1H2", &["a0"]),
            (b"\xff\x01", "cc", &["-1", "1"]),
            (b"\xff\x01", "c*", &["-1 1"]),
            (b"\x01\x02", "s", &["513"]),
            (b"\x01\x02", "S", &["258"]),
            (b"\xff\xff\xff\xff", "i", &["-1"]),
            (b"\0\0\x01\0", "I", &["256"]),
            (b"\x01\0\0\0\0\0\0\0", "w", &["1"]),
            (b"\0\0\0\0\0\0\0\x01", "W", &["1"]),
            (b"abcd", "x2a", &["c"]),
            (b"abcd", "a2X1a", &["ab", "b"]),
            (b"abcd", "x*X2a*", &["cd"]),
            (b"ab", "a3", &[]),
            (b"ab", "a a a", &["a", "b"]),
            (b"a", "s", &[]),
            (b"", "c*", &[""]),
            (b"abc", "s*", &["25185"]),
            (b"ab", "a0a", &["", "a"]),
        ];
        for (bytes, format, wanted) in cases {
            let (count, values) = scan(bytes, format);
            assert_eq!(values, wanted, "{format}");
            assert_eq!(count, wanted.len().to_string(), "{format}");
        }
    }

    #[test]
    fn numbers_come_back_as_they_were() {
        let (_, values) = scan(&1.5_f32.to_ne_bytes(), "f");
        assert_eq!(values, ["1.5"]);
        let (_, values) = scan(&(-0.1_f64).to_ne_bytes(), "d");
        assert_eq!(values, ["-0.1"]);
    }

    #[test]
    fn formats_that_do_not_fit_are_told() {
        check(&[
            (
                "binary scan abc a",
                "!not enough arguments for all format specifiers",
            ),
            ("binary scan abc y x", "!bad field specifier \"y\""),
            (
                "binary scan abc @a x",
                "!missing count for \"@\" field specifier",
            ),
        ]);
    }
}
