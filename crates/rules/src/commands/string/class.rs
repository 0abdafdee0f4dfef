//! What a string is made of: `string is`.

use crate::command::Ctx;
use crate::commands::ensemble::choose;
use crate::fault::Fault;
use crate::value::{Number, Value, parse_number};

const CLASSES: [&str; 18] = [
    "alnum", "alpha", "ascii", "boolean", "control", "digit", "double", "false", "graph",
    "integer", "lower", "print", "punct", "space", "true", "upper", "wordchar", "xdigit",
];

const USAGE: &str = "string is class ?-strict? ?-failindex var? str";

pub(super) fn is(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let class = choose(&CLASSES, &args[0].bytes(), "class")?;
    let mut strict = false;
    let mut fail = None;
    let [options @ .., value] = &args[1..] else {
        return Err(Fault::usage(USAGE));
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let text = option.bytes();
        if text.len() > 1 && b"-strict".starts_with(&text) {
            strict = true;
        } else if text.len() > 1 && b"-failindex".starts_with(&text) {
            fail = Some(options.next().ok_or_else(|| Fault::usage(USAGE))?);
        } else {
            return Err(Fault::bad("option", &text, &["-strict", "-failindex"]));
        }
    }
    let failed = if value.is_empty() {
        strict.then_some(0)
    } else {
        failure(CLASSES[class], value)
    };
    if let (Some(at), Some(name)) = (failed, fail) {
        ctx.set(name, Value::Int(at))?;
    }
    Ok(Value::from(failed.is_none()))
}

/// Where the value, which is not empty, is not of the class: -1 for a number that is too large.
fn failure(class: &str, value: &Value) -> Option<i64> {
    let text = value.bytes();
    let is: fn(u8) -> bool = match class {
        "alnum" => |b| b.is_ascii_alphanumeric(),
        "alpha" => |b| b.is_ascii_alphabetic(),
        "ascii" => |b| b.is_ascii(),
        "control" => |b| b.is_ascii_control(),
        "digit" => |b| b.is_ascii_digit(),
        "graph" => |b| b.is_ascii_graphic(),
        "lower" => |b| b.is_ascii_lowercase(),
        "print" => |b| b.is_ascii_graphic() || b == b' ',
        // Unicode counts the others of ASCII's as symbols.
        "punct" => |b| b.is_ascii_punctuation() && !b"$+<=>^`|~".contains(&b),
        "space" => |b| b.is_ascii_whitespace() || b == 0x0b,
        "upper" => |b| b.is_ascii_uppercase(),
        "wordchar" => |b| b.is_ascii_alphanumeric() || b == b'_',
        "xdigit" => |b| b.is_ascii_hexdigit(),
        "boolean" => return value.truth().is_err().then_some(0),
        "true" => return (!value.truth().unwrap_or(false)).then_some(0),
        "false" => return value.truth().unwrap_or(true).then_some(0),
        "double" => {
            return match value.number() {
                Some(_) => None,
                // Here zeros may lead.
                None if is_decimal(&text) => None,
                None => Some(number_end(&text, true)),
            };
        }
        _ => {
            return match value.number() {
                Some(Number::Int(_)) => None,
                Some(Number::Double(double)) if double.abs() > 9e18 && is_digits(&text) => Some(-1),
                _ => Some(number_end(&text, false)),
            };
        }
    };
    text.iter().position(|&byte| !is(byte)).map(|at| at as i64)
}

fn is_decimal(text: &[u8]) -> bool {
    let digits = text.trim_ascii();
    let digits = digits.strip_prefix(b"-").unwrap_or(digits);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn is_digits(text: &[u8]) -> bool {
    text.iter()
        .all(|b| b.is_ascii_digit() || b"+- \t\n\r".contains(b))
}

/// Up to where the text is a number, as `strtol` and `strtod` read it; 0 where it does not begin with one.
fn number_end(text: &[u8], real: bool) -> i64 {
    let blank = text.len() - text.trim_ascii_start().len();
    let mut end = text.len();
    // What begins a number is no longer than this, whatever follows it.
    end = end.min(blank + 400);
    while end > blank {
        let read = parse_number(&text[blank..end]);
        if match read {
            Some(Number::Int(_)) => true,
            Some(Number::Double(_)) => real,
            None => false,
        } && !text[end - 1].is_ascii_whitespace()
        {
            return end as i64;
        }
        end -= 1;
    }
    0
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, check};

    #[test]
    fn strings_are_told_by_what_they_are_made_of() {
        check(&[
            ("string is alnum a1", "1"),
            ("string is alpha a1", "0"),
            ("string is ascii a", "1"),
            ("string is digit 0129", "1"),
            ("string is digit 1.0", "0"),
            ("string is integer 12", "1"),
            ("string is integer { 12 }", "1"),
            ("string is integer 0x1F", "1"),
            ("string is integer 08", "0"),
            ("string is integer 1.0", "0"),
            ("string is integer 9223372036854775808", "0"),
            ("string is double 1.0", "1"),
            ("string is double 1", "1"),
            ("string is double 08", "1"),
            ("string is double 1e", "0"),
            ("string is double .5e3", "1"),
            ("string is boolean yes", "1"),
            ("string is boolean maybe", "0"),
            ("string is true on", "1"),
            ("string is true off", "0"),
            ("string is false 0", "1"),
            ("string is false x", "0"),
            ("string is punct !", "1"),
            ("string is punct +", "0"),
            ("string is space { }", "1"),
            ("string is xdigit dEaD", "1"),
            ("string is wordchar a_1", "1"),
            ("string is print {a b}", "1"),
            ("string is graph {a b}", "0"),
            ("string is alpha {}", "1"),
            ("string is alpha -strict {}", "0"),
            ("string is int -strict 5", "1"),
            ("string is upper AB", "1"),
        ]);
    }

    #[test]
    fn where_a_string_fails_is_told() {
        let mut bench = Bench::new();
        for (class, text, at) in [
            ("alpha", "ab1c", "2"),
            ("integer", "12x", "2"),
            ("integer", "x", "0"),
            ("integer", "1.5", "1"),
            ("integer", "99999999999999999999", "-1"),
            ("double", "1.5x", "3"),
            ("boolean", "maybe", "0"),
        ] {
            let command = format!("string is {class} -failindex at {text}");
            assert_eq!(bench.run(&command).as_deref(), Ok("0"), "{command}");
            assert_eq!(bench.var("at"), at, "{command}");
        }
    }

    #[test]
    fn unknown_classes_and_options_are_named() {
        check(&[
            (
                "string is foo a",
                "!bad class \"foo\": must be alnum, alpha, ascii, boolean, control, digit, double, false, graph, integer, \
                 lower, print, punct, space, true, upper, wordchar, or xdigit",
            ),
            (
                "string is alpha -x a",
                "!bad option \"-x\": must be -strict or -failindex",
            ),
            (
                "string is alpha -failindex a",
                "!wrong # args: should be \"string is class ?-strict? ?-failindex var? str\"",
            ),
        ]);
    }
}
