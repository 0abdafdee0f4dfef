//! `binary format`.

use super::{Count, bad_field, field, no_count, no_words};
use crate::command::Ctx;
use crate::commands::ensemble::error_about;
use crate::fault::Fault;
use crate::value::{Chars, Value};

pub(super) fn format(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    let mut format = &text[..];
    let mut words = args[1..].iter();
    let mut out = Out::default();
    while let Some((letter, count)) = field(&mut format) {
        match letter {
            b'x' => match count {
                Count::All => {
                    return Err(Fault::error("cannot use \"*\" in format string with \"x\""));
                }
                Count::One => out.zeros(ctx, 1)?,
                Count::Number(count) => out.zeros(ctx, count)?,
            },
            b'X' => {
                out.at = match count {
                    Count::All => 0,
                    Count::One => out.at.saturating_sub(1),
                    Count::Number(count) => out.at.saturating_sub(count),
                };
            }
            b'@' => match count {
                Count::One => return Err(no_count()),
                Count::All => out.at = out.bytes.len(),
                Count::Number(at) => {
                    if at > out.bytes.len() {
                        ctx.charge(at - out.bytes.len())?;
                        out.bytes.resize(at, 0);
                    }
                    out.at = at;
                }
            },
            b'a' | b'A' => {
                let value = words.next().ok_or_else(no_words)?.bytes();
                let len = match count {
                    Count::All => value.len(),
                    Count::One => 1,
                    Count::Number(count) => count,
                };
                let fill = if letter == b'a' { 0 } else { b' ' };
                let room = out.room(ctx, len)?;
                let have = value.len().min(len);
                room[..have].copy_from_slice(&value[..have]);
                room[have..].fill(fill);
            }
            b'b' | b'B' => {
                let value = words.next().ok_or_else(no_words)?.bytes();
                let len = figures(count, value.len());
                let room = out.room(ctx, len.div_ceil(8))?;
                room.fill(0);
                for (n, &bit) in value.iter().take(len).enumerate() {
                    let shift = if letter == b'b' { n % 8 } else { 7 - n % 8 };
                    match bit {
                        b'0' => {}
                        b'1' => room[n / 8] |= 1 << shift,
                        _ => return Err(unexpected("binary", &value)),
                    }
                }
            }
            b'h' | b'H' => {
                let value = words.next().ok_or_else(no_words)?.bytes();
                let len = figures(count, value.len());
                let room = out.room(ctx, len.div_ceil(2))?;
                room.fill(0);
                for (n, &figure) in value.iter().take(len).enumerate() {
                    let Some(nibble) = char::from(figure).to_digit(16) else {
                        return Err(unexpected("hexadecimal", &value));
                    };
                    let low = (letter == b'h') == (n % 2 == 0);
                    room[n / 2] |= (nibble as u8) << if low { 0 } else { 4 };
                }
            }
            b'c' | b's' | b'S' | b'i' | b'I' | b'w' | b'W' | b'f' | b'd' => {
                let value = words.next().ok_or_else(no_words)?;
                numbers(ctx, &mut out, letter, count, value)?;
            }
            _ => return Err(bad_field(letter)),
        }
    }
    Ok(Value::from_chars(out.bytes))
}

/// The bytes so far, and where the next go: they may go over what is there.
#[derive(Default)]
struct Out {
    bytes: Chars,
    at: usize,
}

impl Out {
    /// Room for `len` bytes.
    fn room(&mut self, ctx: &mut Ctx<'_>, len: usize) -> Result<&mut [u8], Fault> {
        let end = self.at.saturating_add(len);
        if end > self.bytes.len() {
            ctx.charge(end - self.bytes.len())?;
            self.bytes.resize(end, 0);
        }
        let room = &mut self.bytes[self.at..end];
        self.at = end;
        Ok(room)
    }

    fn zeros(&mut self, ctx: &mut Ctx<'_>, len: usize) -> Result<(), Fault> {
        self.room(ctx, len).map(|room| room.fill(0))
    }
}

fn figures(count: Count, len: usize) -> usize {
    match count {
        Count::All => len,
        Count::One => 1,
        Count::Number(count) => count,
    }
}

fn unexpected(what: &str, value: &[u8]) -> Fault {
    error_about(
        &format!("expected {what} string but got \""),
        value,
        "\" instead",
    )
}

fn numbers(
    ctx: &mut Ctx<'_>,
    out: &mut Out,
    letter: u8,
    count: Count,
    value: &Value,
) -> Result<(), Fault> {
    if count == Count::One {
        return number(ctx, out, letter, value);
    }
    let items = value.list()?;
    let count = match count {
        Count::Number(count) => count,
        _ => items.len(),
    };
    let Some(items) = items.get(..count) else {
        return Err(Fault::error(
            "number of elements in list does not match count",
        ));
    };
    items
        .iter()
        .try_for_each(|item| number(ctx, out, letter, item))
}

fn number(ctx: &mut Ctx<'_>, out: &mut Out, letter: u8, value: &Value) -> Result<(), Fault> {
    match letter {
        b'f' => put(ctx, out, &(value.double()? as f32).to_ne_bytes()),
        b'd' => put(ctx, out, &value.double()?.to_ne_bytes()),
        b'c' => put(ctx, out, &[value.int()? as u8]),
        b's' => put(ctx, out, &(value.int()? as u16).to_le_bytes()),
        b'S' => put(ctx, out, &(value.int()? as u16).to_be_bytes()),
        b'i' => put(ctx, out, &(value.int()? as u32).to_le_bytes()),
        b'I' => put(ctx, out, &(value.int()? as u32).to_be_bytes()),
        b'w' => put(ctx, out, &value.int()?.to_le_bytes()),
        _ => put(ctx, out, &value.int()?.to_be_bytes()),
    }
}

fn put(ctx: &mut Ctx<'_>, out: &mut Out, bytes: &[u8]) -> Result<(), Fault> {
    if out.at == out.bytes.len() {
        ctx.charge(bytes.len())?;
        out.bytes.extend_from_slice(bytes);
        out.at += bytes.len();
        return Ok(());
    }
    out.room(ctx, bytes.len())
        .map(|room| room.copy_from_slice(bytes))
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};
    use crate::value::Value;

    #[test]
    fn values_become_bytes() {
        let mut bench = Bench::new();
        let cases: [(&[&str], &[u8]); 27] = [
            (&["a", "xyz"], b"x"),
            (&["a5", "xyz"], b"xyz\0\0"),
            (&["a2", "xyz"], b"xy"),
            (&["a*", "xyz"], b"xyz"),
            (&["A5", "xyz"], b"xyz  "),
            (&["B8", "01000001"], b"A"),
            (&["B*", "0100000101"], b"A\x40"),
            (&["b8", "10000010"], b"A"),
            (&["b", "1"], &[1]),
            (&["H2", "41"], b"A"),
            (&["H*", "414"], b"A\x40"),
            (&["H6", "41"], b"A\0\0"),
            (&["h2", "14"], b"A"),
            (&["h", "1"], &[1]),
            (&["c", "65"], b"A"),
            (&["c", "-1"], &[255]),
            (&["c3", "1 2 3 4"], &[1, 2, 3]),
            (&["c*", "1 2"], &[1, 2]),
            (&["s", "258"], &[2, 1]),
            (&["S", "258"], &[1, 2]),
            (&["i", "1"], &[1, 0, 0, 0]),
            (&["I", "0xffffffff"], &[255; 4]),
            (&["w", "1"], &[1, 0, 0, 0, 0, 0, 0, 0]),
            (&["W", "-2"], &[255, 255, 255, 255, 255, 255, 255, 254]),
            (&["ax2a", "x", "y"], b"x\0\0y"),
            (&["a3X2a", "xyz", "Q"], b"xQz"),
            (&["a@4a@0a", "x", "y", "z"], b"z\0\0\0y"),
        ];
        for (args, wanted) in cases {
            let mut words = vec![Value::from("binary"), Value::from("format")];
            words.extend(args.iter().copied().map(Value::from));
            let given = bench.words(&words).unwrap();
            assert_eq!(&*given.bytes(), wanted, "{args:?}");
        }
    }

    #[test]
    fn what_does_not_become_bytes_is_told() {
        check(&[
            (
                "binary format a",
                "!not enough arguments for all format specifiers",
            ),
            ("binary format y 1", "!bad field specifier \"y\""),
            (
                "binary format c3 {1 2}",
                "!number of elements in list does not match count",
            ),
            ("binary format c x", "!expected integer but got \"x\""),
            (
                "binary format H2 xy",
                "!expected hexadecimal string but got \"xy\" instead",
            ),
            (
                "binary format b2 12",
                "!expected binary string but got \"12\" instead",
            ),
            (
                "binary format @ 1",
                "!missing count for \"@\" field specifier",
            ),
            (
                "binary format x*",
                "!cannot use \"*\" in format string with \"x\"",
            ),
        ]);
    }

    #[test]
    fn bytes_stay_within_the_memory_that_an_event_has() {
        let mut bench = Bench::new();
        bench.limit(1000, 100_000);
        for command in [
            "binary format a1000000000000 x",
            "binary format x99999999999999999999999",
            "binary format @1000000000000",
            "binary format H1000000000000 0",
        ] {
            assert!(
                bench.run(command).unwrap_err().contains("memory"),
                "{command}"
            );
        }
    }
}
