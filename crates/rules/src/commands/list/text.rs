//! From texts to lists and back: `split`, `join`, `concat`.

use crate::command::Ctx;
use crate::fault::Fault;
use crate::value::Value;

pub(super) fn split(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    let chars = args.get(1).map(Value::bytes);
    let chars: &[u8] = chars.as_deref().unwrap_or(b" \n\t\r");
    if text.is_empty() {
        return Ok(Value::Empty);
    }
    let mut parts = Vec::new();
    match chars {
        [] => {
            ctx.charge(text.len() * size_of::<Value>())?;
            // Each byte becomes a value once, however often it stands in the text.
            let mut made: Vec<Value> = vec![Value::Empty; 256];
            parts.reserve_exact(text.len());
            for &byte in &*text {
                let value = &mut made[usize::from(byte)];
                if let Value::Empty = value {
                    *value = Value::literal(&[byte]);
                }
                parts.push(value.clone());
            }
        }
        [byte] => cut(ctx, &mut parts, &text, memchr::memchr_iter(*byte, &text))?,
        [a, b] => cut(ctx, &mut parts, &text, memchr::memchr2_iter(*a, *b, &text))?,
        [a, b, c] => cut(
            ctx,
            &mut parts,
            &text,
            memchr::memchr3_iter(*a, *b, *c, &text),
        )?,
        _ => {
            let mut set = [false; 256];
            for &byte in chars {
                set[usize::from(byte)] = true;
            }
            let found = text
                .iter()
                .enumerate()
                .filter(|(_, byte)| set[usize::from(**byte)]);
            cut(ctx, &mut parts, &text, found.map(|(at, _)| at))?;
        }
    }
    Ok(Value::list_of(parts))
}

fn cut(
    ctx: &mut Ctx<'_>,
    parts: &mut Vec<Value>,
    text: &[u8],
    at: impl Iterator<Item = usize>,
) -> Result<(), Fault> {
    ctx.spend(text.len() as u64 >> 6)?;
    let mut from = 0;
    for at in at {
        parts.push(Value::literal(&text[from..at]));
        from = at + 1;
        if parts.len().is_multiple_of(256) {
            ctx.charge(256 * PART)?;
        }
    }
    parts.push(Value::literal(&text[from..]));
    ctx.charge(parts.len() % 256 * PART + text.len())
}

/// What a part takes beside its text, roughly.
const PART: usize = 64;

pub(super) fn join(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let items = args[0].list()?;
    let separator = args.get(1).map(Value::bytes);
    let separator: &[u8] = separator.as_deref().unwrap_or(b" ");
    let mut text = Vec::new();
    match &*items {
        [] => return Ok(Value::Empty),
        [only] => return Ok(only.clone()),
        [first, rest @ ..] => {
            let guess = items.len().saturating_mul(separator.len() + 8);
            ctx.charge(guess)?;
            text.reserve(guess);
            text.extend_from_slice(&first.bytes());
            let mut charged = guess;
            for item in rest {
                text.extend_from_slice(separator);
                text.extend_from_slice(&item.bytes());
                if text.len() > charged {
                    ctx.charge(text.len())?;
                    charged += text.len();
                }
            }
        }
    }
    Ok(Value::from(text))
}

pub(super) fn concat(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if args
        .iter()
        .all(|arg| matches!(arg, Value::List(_) | Value::Empty | Value::Int(_)))
    {
        let mut items = Vec::new();
        for arg in args {
            let more = arg.list()?;
            ctx.charge(more.len() * size_of::<Value>())?;
            items.extend_from_slice(&more);
        }
        return Ok(Value::list_of(items));
    }
    ctx.charge(args.iter().map(|arg| arg.len() + 1).sum())?;
    Ok(crate::commands::concat(args))
}

/// Without blanks at its ends, but for one behind a backslash.
pub(in crate::commands) fn trimmed(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let from = text
        .iter()
        .position(|byte| !blank(byte))
        .unwrap_or(text.len());
    let mut text = &text[from..];
    while let [rest @ .., last] = text
        && blank(last)
        && rest.last() != Some(&b'\\')
    {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};

    #[test]
    fn texts_are_split_at_characters() {
        check(&[
            ("split {a b\tc}", "a b c"),
            ("split a,b,,c ,", "a b {} c"),
            ("split ,a, ,", "{} a {}"),
            ("split {} ,", ""),
            ("split abc {}", "a b c"),
            ("split a1b {}", "a 1 b"),
            ("split a/b?c&d=e /?&=", "a b c d e"),
            ("split a-b_c -_", "a b c"),
            ("split a-b_c.d -_.", "a b c d"),
            ("split 10.0.0.1 .", "10 0 0 1"),
            ("split 010.1 .", "010 1"),
            ("split {a {b} c} { }", "a {{b}} c"),
            (
                "split",
                "!wrong # args: should be \"split string ?splitChars?\"",
            ),
        ]);
    }

    #[test]
    fn lists_are_joined_and_put_behind_each_other() {
        check(&[
            ("join {a b c}", "a b c"),
            ("join {a b c} ,", "a,b,c"),
            ("join {a {b c} {}} -", "a-b c-"),
            ("join {} ,", ""),
            ("join {{a b}} ,", "a b"),
            ("join {1 2 3} {}", "123"),
            ("join \"{a\" ,", "!unmatched open brace in list"),
            ("concat", ""),
            ("concat a b", "a b"),
            ("concat { a b } {c {d e}}", "a b c {d e}"),
            ("concat a {} { } b", "a b"),
            ("concat 1 2", "1 2"),
        ]);
    }

    #[test]
    fn what_is_joined_stays_within_the_memory_that_an_event_has() {
        let mut bench = Bench::new();
        bench.limit(1 << 20, 20_000);
        let long = "x".repeat(1000);
        let command = format!("join {{{}}} {long}", "a ".repeat(100));
        assert!(bench.run(&command).unwrap_err().contains("memory"));
        let command = format!("join {{{}}} ,", format!("{long} ").repeat(30));
        assert!(bench.run(&command).unwrap_err().contains("memory"));
    }
}
