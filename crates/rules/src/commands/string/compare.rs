//! Comparing strings, and matching them with glob patterns.

use crate::command::Ctx;
use crate::commands::ensemble::{choose, error_about};
use crate::commands::glob;
use crate::fault::Fault;
use crate::value::Value;
use std::cmp::Ordering;

pub(super) const USAGE: &str = "?-nocase? ?-length int? string1 string2";

pub(super) fn compare(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if let [a, b] = args {
        return Ok(Value::Int(a.bytes().cmp(&b.bytes()) as i64));
    }
    let Options { nocase, length } = options("compare", args)?;
    let [.., a, b] = args else {
        return Err(usage("compare"));
    };
    let (a, b) = (a.bytes(), b.bytes());
    let (a, b) = (head(&a, length), head(&b, length));
    let ordering = if nocase { cmp_nocase(a, b) } else { a.cmp(b) };
    Ok(Value::Int(ordering as i64))
}

pub(super) fn equal(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if let [a, b] = args {
        return Ok(Value::from(a.same_text(b)));
    }
    let Options { nocase, length } = options("equal", args)?;
    let [.., a, b] = args else {
        return Err(usage("equal"));
    };
    let (a, b) = (a.bytes(), b.bytes());
    let (a, b) = (head(&a, length), head(&b, length));
    let equal = if nocase {
        a.eq_ignore_ascii_case(b)
    } else {
        a == b
    };
    Ok(Value::from(equal))
}

pub(super) fn matches(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (nocase, pattern, text) = match args {
        [pattern, text] => (false, pattern, text),
        [option, pattern, text] => {
            let option = option.bytes();
            if option.len() < 2 || !b"-nocase".starts_with(&option) {
                return Err(error_about("bad option \"", &option, "\": must be -nocase"));
            }
            (true, pattern, text)
        }
        _ => return Err(Fault::usage("string match ?-nocase? pattern string")),
    };
    let (pattern, text) = (pattern.bytes(), text.bytes());
    ctx.spend((pattern.len() as u64 * text.len() as u64) >> 10)?;
    Ok(Value::from(glob(&pattern, &text, nocase)))
}

struct Options {
    nocase: bool,
    length: Option<usize>,
}

fn options(name: &str, args: &[Value]) -> Result<Options, Fault> {
    let mut options = Options {
        nocase: false,
        length: None,
    };
    let mut rest = &args[..args.len() - 2];
    while let [option, after @ ..] = rest {
        let text = option.bytes();
        if text.len() < 2 {
            return Err(bad(&text));
        }
        match choose(&["-nocase", "-length"], &text, "option") {
            Ok(0) => {
                options.nocase = true;
                rest = after;
            }
            Ok(_) => {
                let [length, after @ ..] = after else {
                    return Err(usage(name));
                };
                // A negative one is none.
                options.length = usize::try_from(length.int()?).ok();
                rest = after;
            }
            Err(_) => return Err(bad(&text)),
        }
    }
    Ok(options)
}

fn bad(option: &[u8]) -> Fault {
    error_about("bad option \"", option, "\": must be -nocase or -length")
}

fn usage(name: &str) -> Fault {
    Fault::usage(&format!("string {name} {USAGE}"))
}

fn head(text: &[u8], length: Option<usize>) -> &[u8] {
    match length {
        Some(length) if length < text.len() => &text[..length],
        _ => text,
    }
}

/// Without regard to the case of ASCII letters.
pub(in crate::commands) fn cmp_nocase(a: &[u8], b: &[u8]) -> Ordering {
    match a.iter().zip(b).find(|(a, b)| !a.eq_ignore_ascii_case(b)) {
        Some((a, b)) => a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::check;

    #[test]
    fn strings_compare_by_their_bytes() {
        check(&[
            ("string compare a b", "-1"),
            ("string compare b a", "1"),
            ("string compare ab ab", "0"),
            ("string compare a ab", "-1"),
            ("string compare -nocase A a", "0"),
            ("string compare -nocase aB Ac", "-1"),
            ("string compare -length 2 abc abd", "0"),
            ("string compare -length -1 abc abd", "-1"),
            ("string compare -nocase -length 1 Abc ad", "0"),
            ("string compare -length 1 -nocase Abc ad", "0"),
            ("string equal a a", "1"),
            ("string equal 1 1.0", "0"),
            ("string equal -nocase A a", "1"),
            ("string equal -n A b", "0"),
            ("string equal -length 3 abcd abcx", "1"),
            (
                "string equal -x a b",
                "!bad option \"-x\": must be -nocase or -length",
            ),
            (
                "string equal -length a b",
                "!wrong # args: should be \"string equal ?-nocase? ?-length int? string1 string2\"",
            ),
            (
                "string equal a",
                "!wrong # args: should be \"string equal ?-nocase? ?-length int? string1 string2\"",
            ),
        ]);
    }

    #[test]
    fn strings_match_patterns_as_a_whole() {
        check(&[
            ("string match *.gif a.gif", "1"),
            ("string match *.gif a.gift", "0"),
            ("string match a?c abc", "1"),
            (r"string match {[a-c]x} bx", "1"),
            ("string match -nocase ABC abc", "1"),
            (
                "string match -x ABC abc",
                "!bad option \"-x\": must be -nocase",
            ),
        ]);
    }
}
