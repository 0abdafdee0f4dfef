//! `lsort`.

use super::order::{Kind, dictionary, real};
use crate::command::Ctx;
use crate::commands::ensemble::{choose, error_about, index};
use crate::fault::Fault;
use crate::value::Value;
use std::cmp::Ordering;

const OPTIONS: [&str; 9] = [
    "-ascii",
    "-command",
    "-decreasing",
    "-dictionary",
    "-increasing",
    "-index",
    "-integer",
    "-real",
    "-unique",
];

pub(super) fn lsort(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let Some((list, options)) = args.split_last() else {
        return Err(Fault::usage("lsort ?options? list"));
    };
    let how = How::read(options)?;
    let items = list.list()?;
    if items.len() < 2 {
        return Ok(Value::list_of(items.to_vec()));
    }
    let count = items.len() as u64;
    ctx.spend((count * u64::from(count.ilog2())) >> 2)?;
    ctx.charge(items.len() * 3 * size_of::<Value>())?;
    let sorted = match how.index {
        None => order(ctx, &how, &items)?,
        Some(at) => {
            let keys = items
                .iter()
                .map(|item| key(item, at))
                .collect::<Result<Vec<_>, _>>()?;
            order(ctx, &how, &keys)?
        }
    };
    let sorted = sorted.into_iter().map(|n| items[n as usize].clone());
    Ok(Value::list_of(sorted.collect()))
}

struct How<'a> {
    kind: Kind,
    decreasing: bool,
    unique: bool,
    command: Option<&'a Value>,
    index: Option<&'a Value>,
}

impl<'a> How<'a> {
    fn read(options: &'a [Value]) -> Result<Self, Fault> {
        let mut how = How {
            kind: Kind::Ascii,
            decreasing: false,
            unique: false,
            command: None,
            index: None,
        };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match OPTIONS[choose(&OPTIONS, &option.bytes(), "option")?] {
                "-ascii" => (how.kind, how.command) = (Kind::Ascii, None),
                "-dictionary" => (how.kind, how.command) = (Kind::Dictionary, None),
                "-integer" => (how.kind, how.command) = (Kind::Integer, None),
                "-real" => (how.kind, how.command) = (Kind::Real, None),
                "-command" => {
                    how.command = Some(options.next().ok_or_else(|| {
                        Fault::error("\"-command\" option must be followed by comparison command")
                    })?);
                }
                "-index" => {
                    let at = options.next().ok_or_else(|| {
                        Fault::error("\"-index\" option must be followed by list index")
                    })?;
                    index(at, 0)?;
                    how.index = Some(at);
                }
                "-decreasing" => how.decreasing = true,
                "-increasing" => how.decreasing = false,
                _ => how.unique = true,
            }
        }
        Ok(how)
    }
}

/// The item of an item by which it is sorted.
fn key(item: &Value, at: &Value) -> Result<Value, Fault> {
    let inner = item.list()?;
    let place = index(at, inner.len() as i64 - 1)?;
    match usize::try_from(place)
        .ok()
        .and_then(|place| inner.get(place))
    {
        Some(key) => Ok(key.clone()),
        None => Err(error_about(
            &format!("element {} missing from sublist \"", at.lossy()),
            &item.bytes(),
            "\"",
        )),
    }
}

/// The places of the keys in their order.
fn order(ctx: &mut Ctx<'_>, how: &How<'_>, keys: &[Value]) -> Result<Vec<u32>, Fault> {
    if let Some(command) = how.command {
        let mut prefix = command.list()?.to_vec();
        let words = prefix.len();
        let compare = |a: u32, b: u32| {
            prefix.truncate(words);
            prefix.push(keys[a as usize].clone());
            prefix.push(keys[b as usize].clone());
            let answer = ctx.call(&prefix)?;
            let answer = answer
                .int()
                .map_err(|_| Fault::error("-compare command returned non-numeric result"))?;
            Ok(answer.cmp(&0))
        };
        return merge_sort(keys.len(), how, compare);
    }
    match how.kind {
        Kind::Ascii => {
            let texts: Vec<_> = keys.iter().map(Value::bytes).collect();
            // The first bytes tell most texts apart.
            let heads = texts.iter().zip(0_u32..).map(|(text, n)| (head(text), n));
            Ok(sort_by(heads.collect(), how, |a, b| {
                a.0.cmp(&b.0)
                    .then_with(|| texts[a.1 as usize].cmp(&texts[b.1 as usize]))
            }))
        }
        Kind::Integer => {
            let ints = keys.iter().zip(0..).map(|(key, n)| Ok((key.int()?, n)));
            let ints = ints.collect::<Result<Vec<(i64, u32)>, Fault>>()?;
            Ok(sort_by(ints, how, |a, b| a.0.cmp(&b.0)))
        }
        Kind::Real => {
            let reals = keys.iter().zip(0..).map(|(key, n)| Ok((real(key)?, n)));
            let reals = reals.collect::<Result<Vec<(f64, u32)>, Fault>>()?;
            Ok(sort_by(reals, how, |a, b| a.0.total_cmp(&b.0)))
        }
        Kind::Dictionary => {
            let texts: Vec<_> = keys.iter().map(Value::bytes).collect();
            merge_sort(keys.len(), how, |a, b| {
                Ok(dictionary(&texts[a as usize], &texts[b as usize]))
            })
        }
    }
}

/// The first eight bytes of a text as a number, in the texts' order.
fn head(text: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = text.len().min(8);
    head[..len].copy_from_slice(&text[..len]);
    u64::from_be_bytes(head)
}

fn sort_by<T>(
    mut sorted: Vec<(T, u32)>,
    how: &How<'_>,
    compare: impl Fn(&(T, u32), &(T, u32)) -> Ordering,
) -> Vec<u32> {
    // Equals stay in their order.
    if how.decreasing {
        sorted.sort_unstable_by(|a, b| compare(b, a).then(a.1.cmp(&b.1)));
    } else {
        sorted.sort_unstable_by(|a, b| compare(a, b).then(a.1.cmp(&b.1)));
    }
    if how.unique {
        // The last of equal ones stays.
        sorted.reverse();
        sorted.dedup_by(|a, b| compare(a, b).is_eq());
        sorted.reverse();
    }
    sorted.into_iter().map(|(_, n)| n).collect()
}

/// A sort that bears comparisons which fail, or contradict each other.
fn merge_sort(
    len: usize,
    how: &How<'_>,
    mut compare: impl FnMut(u32, u32) -> Result<Ordering, Fault>,
) -> Result<Vec<u32>, Fault> {
    let mut sorted: Vec<u32> = (0..len as u32).collect();
    let mut merged = sorted.clone();
    let mut width = 1;
    while width < len {
        for start in (0..len).step_by(width * 2) {
            let middle = (start + width).min(len);
            let end = (middle + width).min(len);
            let (mut left, mut right) = (start, middle);
            for slot in &mut merged[start..end] {
                let take_left = right == end
                    || (left < middle && {
                        let order = compare(sorted[left], sorted[right])?;
                        if how.decreasing {
                            order.is_ge()
                        } else {
                            order.is_le()
                        }
                    });
                let from = if take_left { &mut left } else { &mut right };
                *slot = sorted[*from];
                *from += 1;
            }
        }
        std::mem::swap(&mut sorted, &mut merged);
        width *= 2;
    }
    if how.unique {
        let mut kept: Vec<u32> = Vec::with_capacity(len);
        for &n in &sorted {
            match kept.last_mut() {
                Some(last) if compare(*last, n)?.is_eq() => *last = n,
                _ => kept.push(n),
            }
        }
        return Ok(kept);
    }
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::check;

    #[test]
    fn lists_are_sorted_as_asked() {
        check(&[
            ("lsort {c a b}", "a b c"),
            ("lsort {}", ""),
            ("lsort -decreasing {c a b}", "c b a"),
            ("lsort -decreasing -increasing {c a b}", "a b c"),
            ("lsort {10 9 2}", "10 2 9"),
            ("lsort -integer {10 9 2 0x3}", "2 0x3 9 10"),
            ("lsort -real {1.5 1 .5 1e1}", ".5 1 1.5 1e1"),
            ("lsort -dictionary {a10 a2 B a1 A1}", "A1 a1 a2 a10 B"),
            ("lsort -unique {b a b c a}", "a b c"),
            ("lsort -integer -unique {1 0x1 2 1}", "1 2"),
            ("lsort -integer -unique -decreasing {1 0x1 2}", "2 0x1"),
            ("lsort -dictionary -unique {a b a}", "a b"),
            ("lsort -index 1 {{a 2} {b 1} {c 3}}", "{b 1} {a 2} {c 3}"),
            ("lsort -index end -integer {{a 20} {b 3}}", "{b 3} {a 20}"),
            ("lsort -index 0 -unique {{a 1} {b 2} {a 3}}", "{a 3} {b 2}"),
        ]);
    }

    #[test]
    fn a_command_can_compare() {
        check(&[
            ("lsort -command {string compare} {c a b a}", "a a b c"),
            (
                "lsort -command {string compare} -unique -decreasing {c a b a}",
                "c b a",
            ),
            (
                "lsort -command {string compare} -index 1 {{a 2} {b 1}}",
                "{b 1} {a 2}",
            ),
            (
                "lsort -command list {b a}",
                "!-compare command returned non-numeric result",
            ),
            (
                "lsort -command {string length} {b a}",
                "!wrong # args: should be \"string length string\"",
            ),
        ]);
    }

    #[test]
    fn what_cannot_be_sorted_is_told() {
        check(&[
            (
                "lsort -x {a b}",
                "!bad option \"-x\": must be -ascii, -command, -decreasing, -dictionary, -increasing, -index, -integer, \
                 -real, or -unique",
            ),
            ("lsort -integer {a 1}", "!expected integer but got \"a\""),
            (
                "lsort -real {a 1}",
                "!expected floating-point number but got \"a\"",
            ),
            (
                "lsort -index 1 {{a 2} b}",
                "!element 1 missing from sublist \"b\"",
            ),
            (
                "lsort -index {a b}",
                "!\"-index\" option must be followed by list index",
            ),
            (
                "lsort -command {a b}",
                "!\"-command\" option must be followed by comparison command",
            ),
            (
                "lsort -index x {a b}",
                "!bad index \"x\": must be integer or end?-integer?",
            ),
            ("lsort", "!wrong # args: should be \"lsort ?options? list\""),
        ]);
    }

    #[test]
    fn a_sort_bears_comparisons_that_contradict_each_other() {
        let how = How::read(&[]).unwrap();
        let mut turn = 0;
        let sorted = merge_sort(100, &how, |_, _| {
            turn += 1;
            Ok(if turn % 3 == 0 {
                Ordering::Less
            } else {
                Ordering::Greater
            })
        });
        let mut sorted = sorted.unwrap();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
