//! Lengths, places and parts of strings.

use crate::command::Ctx;
use crate::commands::ensemble::{clamp, index as position, span};
use crate::fault::Fault;
use crate::value::{Chars, Value};

pub(super) fn length(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(Value::from(args[0].len()))
}

pub(super) fn index(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    let at = position(&args[1], text.len() as i64 - 1)?;
    let byte = usize::try_from(at).ok().and_then(|at| text.get(at));
    Ok(byte.map_or(Value::Empty, |&byte| Value::literal(&[byte])))
}

pub(super) fn range(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    let end = text.len() as i64 - 1;
    let range = span(
        position(&args[1], end)?,
        position(&args[2], end)?,
        text.len(),
    );
    if range.len() == text.len() {
        return Ok(args[0].clone());
    }
    Ok(Value::new(&text[range]))
}

pub(super) fn first(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (wanted, text) = (args[0].bytes(), args[1].bytes());
    let start = match args.get(2) {
        Some(start) => position(start, text.len() as i64 - 1)?,
        None => 0,
    };
    let start = clamp(start, text.len());
    ctx.spend(text.len() as u64 >> 6)?;
    let found = match &*wanted {
        [] => None,
        [byte] => memchr::memchr(*byte, &text[start..]),
        wanted => find(&text[start..], wanted),
    };
    Ok(Value::Int(found.map_or(-1, |at| (start + at) as i64)))
}

pub(super) fn last(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (wanted, text) = (args[0].bytes(), args[1].bytes());
    let mut end = text.len();
    if let Some(last) = args.get(2) {
        end = clamp(position(last, end as i64 - 1)?.saturating_add(1), end);
    }
    ctx.spend(text.len() as u64 >> 6)?;
    let found = match &*wanted {
        [] => None,
        [byte] => memchr::memrchr(*byte, &text[..end]),
        wanted => rfind(&text[..end], wanted),
    };
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

/// Texts up to this length are searched by their first byte alone: setting up a better search takes longer.
const SHORT: usize = 256;

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    if text.len() > SHORT {
        return memchr::memmem::find(text, wanted);
    }
    let places = text.len().checked_sub(wanted.len() - 1)?;
    memchr::memchr_iter(wanted[0], &text[..places]).find(|at| text[*at..].starts_with(wanted))
}

fn rfind(text: &[u8], wanted: &[u8]) -> Option<usize> {
    if text.len() > SHORT {
        return memchr::memmem::rfind(text, wanted);
    }
    let places = text.len().checked_sub(wanted.len() - 1)?;
    memchr::memchr_iter(wanted[0], &text[..places])
        .rev()
        .find(|at| text[*at..].starts_with(wanted))
}

pub(super) fn repeat(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let count = args[1].int()?;
    let text = args[0].bytes();
    if count == 1 {
        return Ok(args[0].clone());
    }
    let Ok(count) = usize::try_from(count) else {
        return Ok(Value::Empty);
    };
    let len = text.len().saturating_mul(count);
    if len == 0 {
        return Ok(Value::Empty);
    }
    ctx.charge(len)?;
    if let [byte] = *text {
        return Ok(Value::from_chars(Chars::from_elem(byte, len)));
    }
    Ok(Value::from(text.repeat(count)))
}

pub(super) fn replace(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    let end = text.len() as i64 - 1;
    let (first, last) = (position(&args[1], end)?, position(&args[2], end)?);
    if last < first || last < 0 || first > end {
        return Ok(args[0].clone());
    }
    let range = span(first, last, text.len());
    let new = args.get(3).map(Value::bytes);
    let new = new.as_deref().unwrap_or_default();
    let len = text.len() - range.len() + new.len();
    ctx.charge(len)?;
    let mut chars = Chars::with_capacity(len);
    chars.extend_from_slice(&text[..range.start]);
    chars.extend_from_slice(new);
    chars.extend_from_slice(&text[range.end..]);
    Ok(Value::from_chars(chars))
}

pub(super) fn word_end(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    let at = clamp(position(&args[1], text.len() as i64 - 1)?, text.len());
    let word = text[at..].iter().take_while(|byte| is_word(**byte)).count();
    // What is no word's character is a word by itself.
    Ok(Value::from((at + word.max(1)).min(text.len())))
}

pub(super) fn word_start(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    let end = text.len() as i64 - 1;
    let at = position(&args[1], end)?.min(end);
    let Ok(at) = usize::try_from(at) else {
        return Ok(Value::Int(0));
    };
    let word = text[..=at]
        .iter()
        .rev()
        .take_while(|byte| is_word(**byte))
        .count();
    Ok(Value::from(if word == 0 { at } else { at + 1 - word }))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};
    use crate::value::Value;

    #[test]
    fn parts_are_found_and_cut_out() {
        check(&[
            ("string length {}", "0"),
            ("string bytelength abc", "3"),
            ("string index abc 1", "b"),
            ("string index abc end", "c"),
            ("string index abc end-2", "a"),
            ("string index abc 3", ""),
            ("string index abc -1", ""),
            (
                "string index abc x",
                "!bad index \"x\": must be integer or end?-integer?",
            ),
            ("string range abcdef 1 3", "bcd"),
            ("string range abcdef -5 1", "ab"),
            ("string range abcdef 4 end", "ef"),
            ("string range abcdef 4 100", "ef"),
            ("string range abcdef 3 2", ""),
            ("string range abcdef end-1 end", "ef"),
            ("string first b abcb", "1"),
            ("string first cb abcb", "2"),
            ("string first b abcb 2", "3"),
            ("string first b abcb -9", "1"),
            ("string first b abcb 99", "-1"),
            ("string first x abc", "-1"),
            ("string first {} abc", "-1"),
            ("string last b abcb", "3"),
            ("string last b abcb 2", "1"),
            ("string last ab abcab end-1", "0"),
            ("string last {} abc", "-1"),
            ("string last a abc -1", "-1"),
            ("string first abcd abc", "-1"),
            ("string first ab aab", "1"),
            ("string last abcd abc", "-1"),
            ("string last aa aaa", "1"),
        ]);
    }

    #[test]
    fn long_texts_are_searched_as_short_ones_are() {
        let mut bench = Bench::new();
        for fill in [10, 1000] {
            let text = format!(
                "{}needle{}needle{}",
                "ne".repeat(fill),
                "x".repeat(fill),
                "d".repeat(fill)
            );
            let first = bench.run(&format!("string first needle {text}"));
            assert_eq!(first.unwrap(), (2 * fill).to_string());
            let last = bench.run(&format!("string last needle {text}"));
            assert_eq!(last.unwrap(), (3 * fill + 6).to_string());
        }
    }

    #[test]
    fn parts_are_repeated_and_replaced() {
        check(&[
            ("string repeat ab 3", "ababab"),
            ("string repeat ab 0", ""),
            ("string repeat ab -1", ""),
            ("string repeat a 5", "aaaaa"),
            ("string repeat ab x", "!expected integer but got \"x\""),
            ("string replace abcdef 1 2", "adef"),
            ("string replace abcdef 1 2 XYZ", "aXYZdef"),
            ("string replace abcdef 3 2 X", "abcdef"),
            ("string replace abcdef -3 0 X", "Xbcdef"),
            ("string replace abcdef 9 12 X", "abcdef"),
            ("string replace abcdef end end X", "abcdeX"),
        ]);
    }

    #[test]
    fn words_begin_and_end_where_their_characters_do() {
        check(&[
            ("string wordend {ab cd} 0", "2"),
            ("string wordend {ab cd} 2", "3"),
            ("string wordend {ab cd} 99", "5"),
            ("string wordend {ab cd} -4", "2"),
            ("string wordstart {ab cd} 4", "3"),
            ("string wordstart {ab cd} 2", "2"),
            ("string wordstart {ab cd} 99", "3"),
            ("string wordstart {ab cd} -1", "0"),
            ("string wordstart {} 0", "0"),
        ]);
    }

    #[test]
    fn repeating_stays_within_the_memory_that_an_event_has() {
        let mut bench = Bench::new();
        bench.limit(1000, 1000);
        assert!(
            bench
                .run("string repeat abc 1000000000000")
                .unwrap_err()
                .contains("memory")
        );
        assert!(
            bench
                .run("string repeat abc 9223372036854775807")
                .unwrap_err()
                .contains("memory")
        );
    }

    #[test]
    fn bytes_beyond_ascii_are_characters_of_their_own() {
        let mut bench = Bench::new();
        let text = Value::new("é".as_bytes());
        let length = bench.words(&[Value::from("string"), Value::from("length"), text.clone()]);
        assert_eq!(length.unwrap(), Value::Int(2));
        let upper = bench.words(&[Value::from("string"), Value::from("toupper"), text.clone()]);
        assert_eq!(upper.unwrap(), text);
    }
}
