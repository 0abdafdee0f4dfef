//! `regexp` and `regsub`, and matching for `matches_regex` and `switch -regexp`.
//!
//! A compiled pattern stays with the value it was made from, as a script's literals are; patterns that are put together
//! anew every time are found in a bounded cache of the thread.

use super::ensemble::{clamp, index};
use crate::command::{ANY, Command, Ctx};
use crate::fault::{Error, Fault, Kind, Message, error_code};
use crate::regex::{Flags, Regex, RegexError};
use crate::value::{Chars, Value};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::rc::Rc;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "regexp",
        "?switches? exp string ?matchVar? ?subMatchVar subMatchVar ...?",
        2,
        ANY,
        regexp,
    )
    .differs(
        "characters are bytes: classes know ASCII only and `\\u` above 255 matches nothing; an expression takes at most \
         20,000 states and eight lookaheads",
    ),
    Command::new(
        "regsub",
        "?switches? exp string subSpec ?varName?",
        3,
        ANY,
        regsub,
    ),
];

/// Whether the pattern matches anywhere in the text.
///
/// # Errors
///
/// The pattern does not compile, or the match takes too many steps.
pub(crate) fn matches(pattern: &Value, text: &[u8], steps: &mut u64) -> Result<bool, Fault> {
    let regex = compiled(pattern, Flags::default(), steps)?;
    within(steps, |budget| regex.is_match(text, budget))
}

/// The most steps that one search may take: what the automata take is far less, and a search for back-references that
/// takes more would take for ever.
const MOST_STEPS: u64 = 4_000_000;

/// Patterns that a thread keeps in each of two generations, and the size of the largest it keeps.
const MOST_KEPT: usize = 128;
const LARGEST_KEPT: u64 = 2_000;

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::new(Cache::default());
}

fn regexp(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    const NAMES: &[&str] = &[
        "-all",
        "-about",
        "-indices",
        "-inline",
        "-expanded",
        "-line",
        "-linestop",
        "-lineanchor",
        "-nocase",
        "-start",
        "--",
    ];
    let (switches, words) = switches(args, NAMES, &COMMANDS[0])?;
    let [pattern, rest @ ..] = words else {
        return Err(COMMANDS[0].wrong_args());
    };
    if switches.about {
        let regex = compiled(pattern, switches.flags, ctx.steps())?;
        let about = regex.about().into_iter().map(Value::from).collect();
        return Ok(Value::list_of(vec![
            Value::from(regex.groups()),
            Value::list_of(about),
        ]));
    }
    let [subject, variables @ ..] = rest else {
        return Err(COMMANDS[0].wrong_args());
    };
    if switches.inline && !variables.is_empty() {
        return Err(Fault::error(
            "regexp match variables not allowed when using -inline",
        ));
    }
    let regex = compiled(pattern, switches.flags, ctx.steps())?;
    let text = subject.bytes();
    let mut at = switches.start(text.len())?.min(text.len());
    if variables.is_empty() && !switches.inline && !switches.all && at == 0 {
        return within(ctx.steps(), |budget| regex.is_match(&text, budget)).map(Value::from);
    }
    let mut slots = Vec::new();
    let mut found = Vec::new();
    let mut count = 0;
    while within(ctx.steps(), |budget| {
        regex.find_at(&text, at, &mut slots, budget, in_line(&text, at))
    })? {
        count += 1;
        let part = |slot: Option<(u32, u32)>| match slot {
            slot if switches.indices => {
                let (first, last) = slot.map_or((-1, -1), |(begin, end)| {
                    (i64::from(begin), i64::from(end) - 1)
                });
                Value::list_of(vec![Value::Int(first), Value::Int(last)])
            }
            Some((begin, end)) => Value::new(&text[begin as usize..end as usize]),
            None => Value::Empty,
        };
        let (begin, end) = whole(&slots);
        if switches.inline {
            ctx.charge(slots.len() * size_of::<Value>() + (end - begin))?;
            found.extend(slots.iter().copied().map(part));
        } else {
            for (number, variable) in variables.iter().enumerate() {
                let value = part(slots.get(number).copied().flatten());
                ctx.charge(value.len())?;
                ctx.set(variable, value)
                    .map_err(|fault| cant_set(fault, variable))?;
            }
        }
        if !switches.all {
            break;
        }
        // past an empty match too
        at = end + usize::from(begin == end);
        if at >= text.len() {
            break;
        }
        ctx.spend(1)?;
    }
    Ok(if switches.inline {
        Value::list_of(found)
    } else {
        Value::Int(count)
    })
}

fn regsub(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    const NAMES: &[&str] = &[
        "-all",
        "-nocase",
        "-expanded",
        "-line",
        "-linestop",
        "-lineanchor",
        "-start",
        "--",
    ];
    let (switches, words) = switches(args, NAMES, &COMMANDS[1])?;
    let (pattern, subject, replacement, variable) = match words {
        [pattern, subject, replacement] => (pattern, subject, replacement, None),
        [pattern, subject, replacement, variable] => {
            (pattern, subject, replacement, Some(variable))
        }
        _ => return Err(COMMANDS[1].wrong_args()),
    };
    let regex = compiled(pattern, switches.flags, ctx.steps())?;
    let (text, template) = (subject.bytes(), replacement.bytes());
    let mut at = switches.start(text.len())?;
    let mut slots = Vec::new();
    let mut result = Chars::new();
    let mut copied = 0;
    let mut count = 0;
    while at <= text.len()
        && within(ctx.steps(), |budget| {
            regex.find_at(&text, at, &mut slots, budget, in_line(&text, at))
        })?
    {
        count += 1;
        let before = result.len();
        let (begin, end) = whole(&slots);
        result.extend_from_slice(&text[copied..begin]);
        substitute(&template, &text, &slots, &mut result);
        copied = end;
        at = end + usize::from(begin == end);
        ctx.charge(result.len() - before)?;
        if !switches.all {
            break;
        }
        ctx.spend(1)?;
    }
    let result = if count == 0 {
        subject.clone()
    } else {
        ctx.charge(text.len() - copied)?;
        result.extend_from_slice(&text[copied..]);
        Value::from_chars(result)
    };
    match variable {
        None => Ok(result),
        Some(variable) => {
            ctx.set(variable, result)
                .map_err(|fault| cant_set(fault, variable))?;
            Ok(Value::Int(count))
        }
    }
}

/// Puts what replaces a match behind `result`: `&` and `\0` are the match, `\1` to `\9` what groups captured, `\&` and
/// `\\` those characters.
fn substitute(template: &[u8], text: &[u8], slots: &[Option<(u32, u32)>], result: &mut Chars) {
    let mut rest = template;
    while let Some(at) = memchr::memchr2(b'&', b'\\', rest) {
        result.extend_from_slice(&rest[..at]);
        let (number, taken) = match rest[at..] {
            [b'&', ..] => (0, 1),
            [_, digit @ b'0'..=b'9', ..] => (usize::from(digit - b'0'), 2),
            [_, mark @ (b'&' | b'\\'), ..] => {
                result.push(mark);
                rest = &rest[at + 2..];
                continue;
            }
            _ => {
                result.push(b'\\');
                rest = &rest[at + 1..];
                continue;
            }
        };
        if let Some(&Some((begin, end))) = slots.get(number) {
            result.extend_from_slice(&text[begin as usize..end as usize]);
        }
        rest = &rest[at + taken..];
    }
    result.extend_from_slice(rest);
}

#[derive(Default)]
struct Switches<'a> {
    flags: Flags,
    all: bool,
    about: bool,
    indices: bool,
    inline: bool,
    start: Option<&'a Value>,
}

impl Switches<'_> {
    /// Where to begin: at most one past the end of a text of `len` bytes.
    fn start(&self, len: usize) -> Result<usize, Fault> {
        match self.start {
            None => Ok(0),
            Some(start) => Ok(clamp(index(start, len as i64 - 1)?, len + 1)),
        }
    }
}

/// Reads the switches before a command's words.
fn switches<'a>(
    args: &'a [Value],
    names: &[&str],
    command: &Command,
) -> Result<(Switches<'a>, &'a [Value]), Fault> {
    let mut switches = Switches::default();
    let mut words = args;
    while let [first, rest @ ..] = words {
        let word = first.bytes();
        if word.first() != Some(&b'-') {
            break;
        }
        if !names.iter().any(|name| name.as_bytes() == &*word) {
            return Err(Fault::bad("switch", &word, names));
        }
        words = rest;
        match &*word {
            b"-all" => switches.all = true,
            b"-about" => switches.about = true,
            b"-indices" => switches.indices = true,
            b"-inline" => switches.inline = true,
            b"-expanded" => switches.flags.expanded = true,
            b"-line" => switches.flags.line = true,
            b"-linestop" => switches.flags.linestop = true,
            b"-lineanchor" => switches.flags.lineanchor = true,
            b"-nocase" => switches.flags.nocase = true,
            b"-start" => {
                let [start, rest @ ..] = rest else {
                    return Err(command.wrong_args());
                };
                switches.start = Some(start);
                words = rest;
            }
            _ => break,
        }
    }
    Ok((switches, words))
}

/// Whether `at` is within a line.
fn in_line(text: &[u8], at: usize) -> bool {
    at > 0 && text[at - 1] != b'\n'
}

fn whole(slots: &[Option<(u32, u32)>]) -> (usize, usize) {
    let (begin, end) = slots.first().copied().flatten().unwrap_or_default();
    (begin as usize, end as usize)
}

fn cant_set(fault: Fault, variable: &Value) -> Fault {
    match fault.kind() {
        Kind::Error(_) => {
            let text = [
                b"couldn't set variable \"".as_slice(),
                &variable.bytes(),
                b"\"",
            ]
            .concat();
            Fault::raise(Message::Value(Value::from(text)))
        }
        _ => fault,
    }
}

/// Runs a search on the steps that are left, but not on more than one search may take.
fn within<T>(
    steps: &mut u64,
    search: impl FnOnce(&mut u64) -> Result<T, RegexError>,
) -> Result<T, Fault> {
    let given = (*steps).min(MOST_STEPS);
    let mut budget = given;
    let result = search(&mut budget);
    *steps -= given - budget;
    result.map_err(|error| match error {
        RegexError::TooExpensive if *steps == 0 => Fault::exhausted("instructions"),
        error => fault(error),
    })
}

fn fault(error: RegexError) -> Fault {
    let message = error.to_string();
    let reason = message
        .rsplit_once("pattern: ")
        .map_or(&*message, |(_, reason)| reason);
    let code = error
        .code()
        .map(|code| error_code(&["REGEXP", code, reason]));
    Fault::from(Kind::Error(Error {
        message: Message::Text(message.clone()),
        code,
        info: None,
        trace: Vec::new(),
    }))
}

/// A compiled pattern as its value keeps it.
struct Compiled {
    flags: Flags,
    regex: Rc<Regex>,
}

#[derive(Default)]
struct Cache {
    /// By flags and text. What is not asked for while the young fill up goes with the old.
    young: HashMap<Box<[u8]>, Rc<Regex>, FixedState>,
    old: HashMap<Box<[u8]>, Rc<Regex>, FixedState>,
}

impl Cache {
    fn find(&mut self, key: &[u8]) -> Option<Rc<Regex>> {
        if let Some(regex) = self.young.get(key) {
            return Some(Rc::clone(regex));
        }
        let (key, regex) = self.old.remove_entry(key)?;
        self.keep(key, Rc::clone(&regex));
        Some(regex)
    }

    fn keep(&mut self, key: Box<[u8]>, regex: Rc<Regex>) {
        if self.young.len() >= MOST_KEPT {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, regex);
    }
}

fn compiled(pattern: &Value, flags: Flags, steps: &mut u64) -> Result<Rc<Regex>, Fault> {
    if let Some(compiled) = pattern.remembered::<Compiled>()
        && compiled.flags == flags
    {
        return Ok(Rc::clone(&compiled.regex));
    }
    let text = pattern.bytes();
    let mut key = Chars::new();
    let bits = [
        flags.nocase,
        flags.expanded,
        flags.line,
        flags.linestop,
        flags.lineanchor,
    ];
    key.push(bits.iter().fold(0, |bits, &bit| bits << 1 | u8::from(bit)));
    key.extend_from_slice(&text);
    let cached = CACHE.with_borrow_mut(|cache| cache.find(&key));
    let regex = match cached {
        Some(regex) => regex,
        None => {
            let regex = Rc::new(Regex::new(&text, flags).map_err(fault)?);
            *steps = steps.saturating_sub(regex.size());
            if regex.size() <= LARGEST_KEPT {
                let key = key.into_vec().into_boxed_slice();
                CACHE.with_borrow_mut(|cache| cache.keep(key, Rc::clone(&regex)));
            }
            regex
        }
    };
    pattern.remember(Rc::new(Compiled {
        flags,
        regex: Rc::clone(&regex),
    }));
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::{Bench, check};

    #[test]
    fn regexp_finds_and_reports_as_tcl_does() {
        check(&[
            ("regexp b abc", "1"),
            ("regexp x abc", "0"),
            ("regexp -nocase B abc", "1"),
            ("regexp -inline {(a)|(b)} b", "b {} b"),
            ("regexp -inline -indices {(a)|(b)} b", "{0 0} {-1 -1} {0 0}"),
            ("regexp -all a banana", "3"),
            ("regexp -all -inline {a(.)} banana!", "an n an n a! !"),
            ("regexp -all -inline -indices b* abc", "{0 -1} {1 1} {2 1}"),
            ("regexp -all -inline {} abc", "{} {} {}"),
            ("regexp -all -inline {^\\w} abc", "a"),
            ("regexp -all -inline {\\m\\w} abc", "a b c"),
            (
                "regexp -all -inline -line {^.*$} \"ab\n\ncd\n\"",
                "ab {} cd {}",
            ),
            ("regexp -start 1 {^b} abc", "0"),
            ("regexp -start 1 -inline {\\Ab} abc", "b"),
            ("regexp -start -3 -inline {^.} abc", "a"),
            ("regexp -start end-1 -inline {.*} abc", "bc"),
            ("regexp -start 10 {^} abc", "0"),
            ("regexp -expanded {a b  # c} ab", "1"),
            ("regexp -- -a x-a", "1"),
            (
                "regexp -about {(?i)a(b)\\1}",
                "1 {REG_UBACKREF REG_UNONPOSIX}",
            ),
            (
                "regexp ( a",
                "!couldn't compile regular expression pattern: parentheses () not balanced",
            ),
            (
                "regexp -inline a b c",
                "!regexp match variables not allowed when using -inline",
            ),
            (
                "regexp -foo a b",
                "!bad switch \"-foo\": must be -all, -about, -indices, -inline, -expanded, -line, -linestop, \
                 -lineanchor, -nocase, -start, or --",
            ),
            (
                "regexp -nocase a",
                "!wrong # args: should be \"regexp ?switches? exp string ?matchVar? ?subMatchVar subMatchVar ...?\"",
            ),
        ]);
    }

    #[test]
    fn regexp_sets_variables_only_when_it_matches() {
        let mut bench = Bench::new();
        assert_eq!(bench.run("regexp {(a)|(b)} b x y z w").unwrap(), "1");
        for (name, value) in [("x", "b"), ("y", ""), ("z", "b"), ("w", "")] {
            assert_eq!(bench.var(name), value, "{name}");
        }
        assert_eq!(bench.run("regexp {(c)} b x").unwrap(), "0");
        assert_eq!(bench.var("x"), "b");
        assert_eq!(
            bench.run("regexp -all -indices {a(n)} banana x y").unwrap(),
            "2"
        );
        assert_eq!(
            (bench.var("x"), bench.var("y")),
            ("3 4".into(), "4 4".into())
        );
    }

    #[test]
    fn regsub_replaces_as_tcl_does() {
        check(&[
            ("regsub b abc X", "aXc"),
            ("regsub -all {x*} abc -", "-a-b-c-"),
            ("regsub -all {b*} abc -", "-a--c-"),
            (
                "regsub {(b)(c)?} abd {[\\0]\\1\\2\\3\\\\\\&&\\q}",
                "a[b]b\\&b\\qd",
            ),
            ("regsub -start 1 -all {^b|c} abc X", "abX"),
            ("regsub -start 10 {} abc x", "abc"),
            ("regsub -all -start 2 {} abcd -", "ab-c-d-"),
            ("regsub -all -line {^} \"a\nb\n\" >", ">a\n>b\n>"),
            ("regsub -all {$} ab >", "ab>"),
            ("regsub -all a {} b", ""),
            ("regsub -all a* {} b", "b"),
            ("regsub -nocase B abc x v", "1"),
            ("regsub x abc y v", "0"),
            (
                "regsub -inline a b c",
                "!bad switch \"-inline\": must be -all, -nocase, -expanded, -line, -linestop, -lineanchor, -start, or --",
            ),
            (
                "regsub a b c d e",
                "!wrong # args: should be \"regsub ?switches? exp string subSpec ?varName?\"",
            ),
        ]);
    }

    #[test]
    fn regsub_sets_its_variable_with_or_without_a_match() {
        let mut bench = Bench::new();
        bench.run("regsub -all a banana o v").unwrap();
        assert_eq!(bench.var("v"), "bonono");
        bench.run("regsub -all x banana o v").unwrap();
        assert_eq!(bench.var("v"), "banana");
    }

    #[test]
    fn a_pattern_is_compiled_again_for_other_switches() {
        let pattern = Value::from("ab");
        let mut steps = 1_000;
        let plain = compiled(&pattern, Flags::default(), &mut steps).unwrap();
        let nocase = Flags {
            nocase: true,
            ..Flags::default()
        };
        let folded = compiled(&pattern, nocase, &mut steps).unwrap();
        assert!(!Rc::ptr_eq(&plain, &folded));
        assert!(Rc::ptr_eq(
            &plain,
            &compiled(&Value::from("ab"), Flags::default(), &mut steps).unwrap()
        ));
        assert!(Rc::ptr_eq(
            &folded,
            &compiled(&pattern, nocase, &mut steps).unwrap()
        ));
    }

    #[test]
    fn patterns_that_never_come_back_are_forgotten() {
        for number in 0..10 * MOST_KEPT {
            compiled(
                &Value::from(format!("x{number}y")),
                Flags::default(),
                &mut 1_000_000,
            )
            .unwrap();
        }
        CACHE.with_borrow(|cache| {
            assert!(cache.young.len() + cache.old.len() <= 2 * MOST_KEPT);
        });
    }

    #[test]
    fn a_search_without_end_is_an_error_and_one_without_steps_ends_the_event() {
        let pattern = Value::from("^(a+)(a+)(a+)(a+)(a+)b\\5\\4\\3\\2\\1a$");
        let text = ["a".repeat(60), "a".repeat(60)].join("b").into_bytes();
        let mut steps = u64::MAX;
        let error = matches(&pattern, &text, &mut steps).unwrap_err();
        assert!(format!("{error:?}").contains("too expensive"), "{error:?}");
        let error = matches(&pattern, &text, &mut 100).unwrap_err();
        assert!(format!("{error:?}").contains("Exhausted"), "{error:?}");
    }
}
