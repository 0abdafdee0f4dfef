//! F5's commands on texts and numbers: `getfield`, `findstr`, base64, digests, byte order.

use crate::command::{Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;
use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use md5::{Digest, Md5};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("getfield", "string split index", 3, 3, getfield),
    Command::new(
        "findstr",
        "string search ?skip? ?terminator?",
        2,
        4,
        findstr,
    ),
    Command::new("substr", "string skip ?terminator?", 2, 3, substr),
    Command::new("domain", "name count", 2, 2, domain),
    Command::new("b64encode", "string", 1, 1, |ctx, args| {
        read(ctx, &args[0])?;
        ctx.charge(args[0].len() / 3 * 4)?;
        Ok(base64(&args[0].bytes()).into())
    }),
    Command::new("b64decode", "string", 1, 1, |ctx, args| {
        read(ctx, &args[0])?;
        ctx.charge(args[0].len() / 4 * 3)?;
        Ok(unbase64(&args[0].bytes()).map_or(Value::Empty, Value::from))
    })
    .differs("what is not base64 gives an empty string; blanks and line ends in it are skipped"),
    Command::new("md5", "string", 1, 1, |ctx, args| {
        read(ctx, &args[0])?;
        Ok(Value::new(&Md5::digest(&*args[0].bytes())))
    }),
    Command::new("sha1", "string", 1, 1, |ctx, args| {
        read(ctx, &args[0])?;
        Ok(hash(&SHA1_FOR_LEGACY_USE_ONLY, &args[0]))
    }),
    Command::new("sha256", "string", 1, 1, |ctx, args| {
        read(ctx, &args[0])?;
        Ok(hash(&SHA256, &args[0]))
    }),
    Command::new("sha384", "string", 1, 1, |ctx, args| {
        read(ctx, &args[0])?;
        Ok(hash(&SHA384, &args[0]))
    }),
    Command::new("sha512", "string", 1, 1, |ctx, args| {
        read(ctx, &args[0])?;
        Ok(hash(&SHA512, &args[0]))
    }),
    Command::new("crc32", "string", 1, 1, |ctx, args| {
        read(ctx, &args[0])?;
        Ok(Value::Int(crc32fast::hash(&args[0].bytes()).into()))
    }),
    Command::new("htonl", "number", 1, 1, swap_long),
    Command::new("ntohl", "number", 1, 1, swap_long),
    Command::new("htons", "number", 1, 1, swap_short),
    Command::new("ntohs", "number", 1, 1, swap_short),
];

/// Counts the steps of going through a text, where it is long.
fn read(ctx: &mut Ctx<'_>, text: &Value) -> Result<(), Fault> {
    ctx.spend(text.weight() as u64 >> 8)
}

/// Base64 of bytes (RFC 4648 section 4).
pub(super) fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| DIGITS[(bits & 63) as usize];
    let mut out = vec![b'='; bytes.len().div_ceil(3) * 4];
    let mut chunks = bytes.chunks_exact(3);
    let mut places = out.chunks_exact_mut(4);
    for (chunk, place) in chunks.by_ref().zip(places.by_ref()) {
        let bits = u32::from(chunk[0]) << 16 | u32::from(chunk[1]) << 8 | u32::from(chunk[2]);
        place.copy_from_slice(&[
            digit(bits >> 18),
            digit(bits >> 12),
            digit(bits >> 6),
            digit(bits),
        ]);
    }
    if let Some(place) = places.next() {
        match chunks.remainder() {
            [a] => {
                place[0] = digit(u32::from(*a) >> 2);
                place[1] = digit(u32::from(*a) << 4);
            }
            [a, b] => {
                let bits = u32::from(*a) << 8 | u32::from(*b);
                place[0] = digit(bits >> 10);
                place[1] = digit(bits >> 4);
                place[2] = digit(bits << 2);
            }
            _ => {}
        }
    }
    out
}

/// The bytes that base64 stands for. Blanks and line ends are skipped, padding may be left out.
pub(super) fn unbase64(text: &[u8]) -> Option<Vec<u8>> {
    const OTHER: u8 = 64;
    const BLANK: u8 = 65;
    const PAD: u8 = 66;
    const VALUES: [u8; 256] = {
        let mut values = [OTHER; 256];
        let mut n = 0;
        while n < 26 {
            values[b'A' as usize + n] = n as u8;
            values[b'a' as usize + n] = n as u8 + 26;
            n += 1;
        }
        let mut n = 0;
        while n < 10 {
            values[b'0' as usize + n] = n as u8 + 52;
            n += 1;
        }
        values[b'+' as usize] = 62;
        values[b'/' as usize] = 63;
        values[b'=' as usize] = PAD;
        values[b' ' as usize] = BLANK;
        values[b'\t' as usize] = BLANK;
        values[b'\r' as usize] = BLANK;
        values[b'\n' as usize] = BLANK;
        values
    };
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count, mut padded) = (0_u32, 0, false);
    for byte in text {
        match VALUES[usize::from(*byte)] {
            BLANK => {}
            PAD => padded = true,
            OTHER => return None,
            _ if padded => return None,
            value => {
                bits = bits << 6 | u32::from(value);
                count += 1;
                if count == 4 {
                    out.extend_from_slice(&bits.to_be_bytes()[1..]);
                    (bits, count) = (0, 0);
                }
            }
        }
    }
    match count {
        0 => {}
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => return None,
    }
    Some(out)
}

/// Bytes in hexadecimal, two digits each.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}

fn hash(algorithm: &'static Algorithm, value: &Value) -> Value {
    Value::new(digest(algorithm, &value.bytes()).as_ref())
}

fn getfield(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (text, split) = (args[0].bytes(), args[1].bytes());
    let Some(mut index) = usize::try_from(args[2].int()?)
        .ok()
        .and_then(|n| n.checked_sub(1))
    else {
        return Ok(Value::Empty);
    };
    if split.is_empty() {
        return Ok(if index == 0 {
            args[0].clone()
        } else {
            Value::Empty
        });
    }
    let mut rest = &*text;
    loop {
        let end = memchr::memmem::find(rest, &split);
        if index == 0 {
            return Ok(match end {
                Some(end) => Value::new(&rest[..end]),
                // The field is the whole text: no copy.
                None if rest.len() == text.len() => args[0].clone(),
                None => Value::new(rest),
            });
        }
        match end {
            Some(end) => rest = &rest[end + split.len()..],
            None => return Ok(Value::Empty),
        }
        index -= 1;
    }
}

fn findstr(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].bytes();
    match memchr::memmem::find(&text, &args[1].bytes()) {
        Some(at) => portion(&text[at..], args.get(2), args.get(3)),
        None => Ok(Value::Empty),
    }
}

fn substr(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    portion(&args[0].bytes(), args.get(1), args.get(2))
}

/// What comes after `skip` bytes, for a length or up to a text that ends it.
fn portion(text: &[u8], skip: Option<&Value>, end: Option<&Value>) -> Result<Value, Fault> {
    let skip = match skip {
        Some(skip) => usize::try_from(skip.int()?).unwrap_or(0),
        None => 0,
    };
    let text = text.get(skip..).unwrap_or_default();
    let Some(end) = end else {
        return Ok(Value::new(text));
    };
    let length = match end.int() {
        Ok(length) => usize::try_from(length).unwrap_or(0),
        Err(_) => {
            let found = memchr::memmem::find(text, &end.bytes()).filter(|_| !end.is_empty());
            found.unwrap_or(text.len())
        }
    };
    Ok(Value::new(&text[..length.min(text.len())]))
}

fn domain(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (name, count) = (args[0].bytes(), args[1].int()?);
    let Some(last) = usize::try_from(count).ok().and_then(|n| n.checked_sub(1)) else {
        return Ok(Value::Empty);
    };
    let start = memchr::memrchr_iter(b'.', &name).nth(last);
    Ok(match start {
        Some(at) => Value::new(&name[at + 1..]),
        None => args[0].clone(),
    })
}

fn swap_long(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(Value::Int((args[0].int()? as u32).swap_bytes().into()))
}

fn swap_short(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(Value::Int((args[0].int()? as u16).swap_bytes().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event::HttpRequest;
    use crate::world::http::testing::Bench;
    use proptest::prelude::*;

    #[test]
    fn texts_are_cut_as_f5_cuts_them() {
        let mut bench = Bench::new();
        for (line, gives) in [
            ("getfield a.b.c . 1", "a"),
            ("getfield a.b.c . 3", "c"),
            ("getfield a.b.c . 4", ""),
            ("getfield a.b.c . 0", ""),
            ("getfield a.b.c / 1", "a.b.c"),
            ("getfield a::b::c :: 2", "b"),
            ("getfield a:80 : 2", "80"),
            ("getfield .b . 1", ""),
            ("findstr /p?id=12&x=3 id=", "id=12&x=3"),
            ("findstr /p?id=12&x=3 id= 3", "12&x=3"),
            ("findstr /p?id=12&x=3 id= 3 &", "12"),
            ("findstr /p?id=12&x=3 id= 3 1", "1"),
            ("findstr /p?id=12&x=3 x= 2 &", "3"),
            ("findstr abc x", ""),
            ("findstr abc b 9", ""),
            ("substr abcdef 2", "cdef"),
            ("substr abcdef 2 2", "cd"),
            ("substr abcdef 2 e", "cd"),
            ("substr abcdef 1 99", "bcdef"),
            ("domain www.sub.example.com 2", "example.com"),
            ("domain www.sub.example.com 9", "www.sub.example.com"),
            ("domain www 1", "www"),
            ("domain a.b 0", ""),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), gives, "{line}");
        }
    }

    #[test]
    fn digests_are_bytes_and_numbers_change_their_order() {
        let mut bench = Bench::new();
        for (command, digest) in [
            ("md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "sha256",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            let command = COMMANDS.iter().find(|c| c.name == command).unwrap();
            let value = bench
                .call(HttpRequest, command, &[Value::from("abc")])
                .unwrap();
            assert_eq!(hex(&value.bytes()), digest);
        }
        for (line, gives) in [
            ("crc32 123456789", "3421780262"),
            ("htonl 1", "16777216"),
            ("ntohl 16777216", "1"),
            ("htons 80", "20480"),
            ("ntohs 20480", "80"),
            ("b64encode abc", "YWJj"),
            ("b64encode a", "YQ=="),
            ("b64decode YWI=", "ab"),
            ("b64decode {YW Jj}", "abc"),
            ("b64decode YWI", "ab"),
            ("b64decode Y", ""),
            ("b64decode Y!==", ""),
            ("b64decode YQ==YQ==", ""),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), gives, "{line}");
        }
        for (command, length) in [("sha384", 48), ("sha512", 64)] {
            let command = COMMANDS.iter().find(|c| c.name == command).unwrap();
            let value = bench.call(HttpRequest, command, &[Value::Empty]).unwrap();
            assert_eq!(value.len(), length);
        }
    }

    proptest! {
        #[test]
        fn base64_reads_back_as_it_was(bytes: Vec<u8>) {
            let text = base64(&bytes);
            prop_assert_eq!(text.len() % 4, 0);
            prop_assert_eq!(unbase64(&text), Some(bytes));
        }
    }
}
