//! Replacing many texts by others in one pass: `string map`.

use crate::command::Ctx;
use crate::commands::ensemble::error_about;
use crate::fault::Fault;
use crate::value::{Bytes, Value};
use memchr::memmem;
use smallvec::SmallVec;

pub(super) fn map(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (nocase, map, value) = match args {
        [map, value] => (false, map, value),
        [option, map, value] => {
            let option = option.bytes();
            if option.len() < 2 || !b"-nocase".starts_with(&option) {
                return Err(error_about("bad option \"", &option, "\": must be -nocase"));
            }
            (true, map, value)
        }
        _ => return Err(Fault::usage("string map ?-nocase? charMap string")),
    };
    let list = map.list()?;
    if list.len() % 2 != 0 {
        return Err(Fault::error("char map list unbalanced"));
    }
    let text = value.bytes();
    ctx.spend((text.len() as u64 >> 6) + list.len() as u64)?;
    let mapped = match &*list {
        [] => None,
        [from, to] if !nocase => replace_one(ctx, &from.bytes(), &to.bytes(), &text)?,
        pairs => replace_many(ctx, pairs, &text, nocase)?,
    };
    Ok(mapped.unwrap_or_else(|| value.clone()))
}

/// `None` where nothing changes.
fn replace_one(
    ctx: &mut Ctx<'_>,
    from: &[u8],
    to: &[u8],
    text: &[u8],
) -> Result<Option<Value>, Fault> {
    match from {
        [] => Ok(None),
        [byte] => replace_each(ctx, memchr::memchr_iter(*byte, text), 1, to, text),
        _ => replace_each(ctx, memmem::find_iter(text, from), from.len(), to, text),
    }
}

fn replace_each(
    ctx: &mut Ctx<'_>,
    found: impl Iterator<Item = usize>,
    len: usize,
    to: &[u8],
    text: &[u8],
) -> Result<Option<Value>, Fault> {
    let mut mapped = Vec::new();
    let mut done = 0;
    for at in found {
        if mapped.is_empty() {
            mapped.reserve(text.len() + to.len());
        }
        mapped.extend_from_slice(&text[done..at]);
        mapped.extend_from_slice(to);
        done = at + len;
        ctx.charge(to.len())?;
    }
    if done == 0 {
        return Ok(None);
    }
    ctx.charge(text.len())?;
    mapped.extend_from_slice(&text[done..]);
    Ok(Some(Value::from(mapped)))
}

struct Pair<'a> {
    from: Bytes<'a>,
    to: Bytes<'a>,
    /// The next pair that begins with the same byte, 0 for none; else its number from 1.
    next: u32,
}

fn replace_many(
    ctx: &mut Ctx<'_>,
    list: &[Value],
    text: &[u8],
    nocase: bool,
) -> Result<Option<Value>, Fault> {
    // By the byte that begins a text, the first pair whose text it is: the order of the map decides.
    let mut heads = [0_u32; 256];
    let mut pairs: SmallVec<[Pair<'_>; 8]> = SmallVec::new();
    for pair in list.chunks_exact(2) {
        pairs.push(Pair {
            from: pair[0].bytes(),
            to: pair[1].bytes(),
            next: 0,
        });
    }
    for n in (0..pairs.len()).rev() {
        let Some(&first) = pairs[n].from.first() else {
            continue;
        };
        let mut link = |byte: u8| {
            pairs[n].next = heads[usize::from(byte)];
            heads[usize::from(byte)] = n as u32 + 1;
        };
        link(if nocase {
            first.to_ascii_lowercase()
        } else {
            first
        });
    }
    if nocase {
        for upper in b'A'..=b'Z' {
            heads[usize::from(upper)] = heads[usize::from(upper.to_ascii_lowercase())];
        }
    }
    let mut mapped = Vec::new();
    let (mut at, mut done, mut tried) = (0, 0, 0_u64);
    while at < text.len() {
        let mut n = heads[usize::from(text[at])];
        while n != 0 {
            let pair = &pairs[n as usize - 1];
            tried += 1;
            if tried.is_multiple_of(1024) {
                ctx.spend(128)?;
            }
            let here = text.get(at..at + pair.from.len());
            let fits = here.is_some_and(|here| {
                *here == *pair.from || (nocase && here.eq_ignore_ascii_case(&pair.from))
            });
            if fits {
                if mapped.is_empty() {
                    mapped.reserve(text.len() + pair.to.len());
                }
                mapped.extend_from_slice(&text[done..at]);
                mapped.extend_from_slice(&pair.to);
                ctx.charge(pair.to.len())?;
                at += pair.from.len();
                done = at;
                break;
            }
            n = pair.next;
        }
        if n == 0 {
            at += 1;
        }
    }
    if done == 0 {
        return Ok(None);
    }
    ctx.charge(text.len())?;
    mapped.extend_from_slice(&text[done..]);
    Ok(Some(Value::from(mapped)))
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};

    #[test]
    fn texts_are_replaced_in_the_order_of_the_map() {
        check(&[
            ("string map {a b} banana", "bbnbnb"),
            ("string map {an X} banana", "bXXa"),
            (
                "string map {abc 1 ab 2 a 3 1 0} 1abcaababcabababc",
                "01321221",
            ),
            ("string map {a 1 ab 2} ab", "1b"),
            ("string map {a {} b {}} abcab", "c"),
            ("string map {a {}} aaa", ""),
            ("string map {} abc", "abc"),
            ("string map {{} x} abc", "abc"),
            ("string map {{} x b y} abc", "ayc"),
            ("string map {x y} abc", "abc"),
            ("string map -nocase {A 1 b 2} aBAb", "1212"),
            ("string map -nocase {aB x} ABab", "xx"),
            ("string map -nocase {1 x} 1a1", "xax"),
            ("string map {a} abc", "!char map list unbalanced"),
            (
                "string map -x {a b} abc",
                "!bad option \"-x\": must be -nocase",
            ),
            ("string map {+ - / _ = {}} a+b/c==", "a-b_c"),
        ]);
    }

    #[test]
    fn what_a_map_makes_stays_within_the_memory_that_an_event_has() {
        let mut bench = Bench::new();
        bench.limit(1 << 20, 2000);
        let command = format!("string map {{a {}}} aaaaa", "x".repeat(500));
        assert!(bench.run(&command).unwrap_err().contains("memory"));
    }
}
