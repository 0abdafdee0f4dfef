//! A rule's text: its event handlers and procedures. Whether an event exists, and what the bodies mean, is left to the
//! compiler.

use super::script::script;
use super::{SyntaxError, cursor::Cursor, line_column, offset};
use crate::ast::{At, Command, Script, Word, WordKind};
use crate::value::{List, Value};
use std::ops::{Range, RangeInclusive};

/// What a handler's priority may be; the lowest runs first.
pub const PRIORITIES: RangeInclusive<i32> = 1..=1000;

/// After that many errors the rest of a rule is not looked at.
pub const MOST_ERRORS: usize = 20;

/// A rule: what `when` and `proc` stand for at its top.
#[derive(Clone, Debug, Default)]
pub struct RuleAst {
    /// In their order.
    pub handlers: Vec<HandlerAst>,
    /// In their order.
    pub procs: Vec<ProcAst>,
}

/// `when EVENT ?priority N? ?timing on|off? { … }`
#[derive(Clone, Debug)]
pub struct HandlerAst {
    /// The event's name as it was written.
    pub event: String,
    /// Where it stands.
    pub event_at: At,
    /// Its own, or that of the last `priority` above it.
    pub priority: Option<i32>,
    /// Its own, or that of the last `timing` above it.
    pub timing: Option<bool>,
    /// What it does.
    pub body: Script,
    /// Where that stands, without its braces.
    pub body_range: Range<u32>,
    /// Where its `when` stands.
    pub at: At,
}

/// `proc name parameters { … }`
#[derive(Clone, Debug)]
pub struct ProcAst {
    /// As it was written.
    pub name: Vec<u8>,
    /// In their order; one called `args`, where it is the last, takes what is left.
    pub params: Vec<Param>,
    /// What it does.
    pub body: Script,
    /// Where that stands, without its braces.
    pub body_range: Range<u32>,
    /// Where its `proc` stands.
    pub at: At,
}

/// A parameter of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is when nothing is given for it.
    pub default: Option<Vec<u8>>,
}

/// Reads the text of a rule.
///
/// # Errors
///
/// What is wrong with it, in order; at most [`MOST_ERRORS`].
pub fn rule(source: &[u8]) -> Result<RuleAst, Vec<SyntaxError>> {
    let mut reader = Reader {
        source,
        rule: RuleAst::default(),
        errors: Vec::new(),
        priority: None,
        timing: None,
    };
    let mut cursor = Cursor::new(source, 0);
    loop {
        cursor.between_commands();
        if cursor.peek().is_none() || reader.errors.len() >= MOST_ERRORS {
            break;
        }
        let start = cursor.at;
        let command = match tight_event(&source[start..]) {
            None => cursor.command(false, None),
            Some((blanks, event)) => {
                let when = cursor.bare(b"when".len());
                cursor.at += blanks;
                let event = cursor.bare(event);
                cursor.command(false, None).map(|mut command| {
                    command.words.splice(0..0, [when, event]);
                    command.at = offset(start);
                    command
                })
            }
        };
        match command {
            Ok(command) => reader.top(&command),
            Err(error) => {
                let from = (error.at as usize).max(start);
                let next = next_at_top(source, from);
                cursor = Cursor::new(source, next.unwrap_or(source.len()));
                reader.errors.push(match next {
                    Some(next) if error.message == "missing close-brace" => {
                        inside(source, error, next)
                    }
                    _ => error,
                });
            }
        }
    }
    if reader.errors.is_empty() {
        return Ok(reader.rule);
    }
    reader.errors.sort_by_key(|error| error.at);
    Err(reader.errors)
}

struct Reader<'a> {
    source: &'a [u8],
    rule: RuleAst,
    errors: Vec<SyntaxError>,
    priority: Option<i32>,
    timing: Option<bool>,
}

impl Reader<'_> {
    fn top(&mut self, command: &Command) {
        let read = match command.words[0].literal() {
            Some(b"when") => self.when(command),
            Some(b"proc") => self.procedure(command),
            Some(b"priority") => self.setting(command).and_then(|word| {
                self.priority = Some(priority(word)?);
                Ok(())
            }),
            Some(b"timing") => self.setting(command).and_then(|word| {
                self.timing = Some(timing(word)?);
                Ok(())
            }),
            name => Err(stray(command, name)),
        };
        if let Err(error) = read {
            self.errors.push(error);
        }
    }

    fn when(&mut self, command: &Command) -> Result<(), SyntaxError> {
        let wrong = |word: &Word, message: &str| {
            SyntaxError::new(word.at as usize, message)
                .hint("when EVENT ?priority N? ?timing on|off? { … }")
        };
        let [when, event, options @ ..] = command.words.as_slice() else {
            return Err(wrong(&command.words[0], "when has no event"));
        };
        let name = match event.literal() {
            Some(name) if event.kind == WordKind::Bare => String::from_utf8_lossy(name),
            _ => return Err(wrong(event, "an event's name cannot be computed")),
        };
        let Some((body, options)) = options.split_last() else {
            return Err(wrong(event, "when has no body"));
        };
        let Some(range) = body.inner.clone() else {
            return Err(wrong(body, "the body of when must be in braces"));
        };
        let (mut own_priority, mut own_timing) = (None, None);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let value = options.next();
            let needed = || value.ok_or_else(|| wrong(option, "an option without a value"));
            match option.literal() {
                Some(b"priority") if own_priority.is_none() => {
                    own_priority = Some(priority(needed()?)?);
                }
                Some(b"timing") if own_timing.is_none() => {
                    own_timing = Some(timing(needed()?)?);
                }
                Some(b"priority" | b"timing") => return Err(wrong(option, "given twice")),
                _ => return Err(wrong(option, "only priority and timing go with when")),
            }
        }
        let handler = HandlerAst {
            event: name.into_owned(),
            event_at: event.at,
            priority: own_priority.or(self.priority),
            timing: own_timing.or(self.timing),
            body: script(self.source, range.clone())?,
            body_range: range,
            at: when.at,
        };
        self.rule.handlers.push(handler);
        Ok(())
    }

    fn procedure(&mut self, command: &Command) -> Result<(), SyntaxError> {
        let at = command.at as usize;
        let [proc, name, params, body] = command.words.as_slice() else {
            let usage = "wrong # args: should be \"proc name args body\"";
            return Err(SyntaxError::new(at, usage));
        };
        let (Some(name), Some(list)) = (name.literal(), params.literal()) else {
            let message = "the name and the parameters of a procedure cannot be computed";
            return Err(SyntaxError::new(at, message));
        };
        let Some(range) = body.inner.clone() else {
            let message = "the body of proc must be in braces";
            return Err(SyntaxError::new(body.at as usize, message));
        };
        let params = parameters(name, list)
            .map_err(|message| SyntaxError::new(params.at as usize, message))?;
        let procedure = ProcAst {
            name: name.to_vec(),
            params,
            body: script(self.source, range.clone())?,
            body_range: range,
            at: proc.at,
        };
        self.rule.procs.push(procedure);
        Ok(())
    }

    /// The one word after `priority` or `timing` at the top.
    fn setting<'c>(&self, command: &'c Command) -> Result<&'c Word, SyntaxError> {
        match command.words.as_slice() {
            [_, value] => Ok(value),
            _ => {
                let message = "one value must follow";
                Err(SyntaxError::new(command.at as usize, message))
            }
        }
    }
}

fn priority(word: &Word) -> Result<i32, SyntaxError> {
    let number = word
        .literal()
        .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
        .filter(|number| PRIORITIES.contains(number));
    number.ok_or_else(|| {
        let message = "a priority is a number from 1 to 1000";
        SyntaxError::new(word.at as usize, message).hint("the lowest runs first, 500 is usual")
    })
}

fn timing(word: &Word) -> Result<bool, SyntaxError> {
    match word.literal() {
        Some(b"on") => Ok(true),
        Some(b"off") => Ok(false),
        _ => {
            let message = "timing is on or off";
            Err(SyntaxError::new(word.at as usize, message))
        }
    }
}

/// The parameters of the procedure `name`.
fn parameters(name: &[u8], list: &[u8]) -> Result<Vec<Param>, String> {
    let items = |text: &[u8]| List::parse(text).map(List::into_items);
    let bytes = |value: &Value| value.bytes().to_vec();
    let mut params = Vec::new();
    for item in items(list).map_err(|error| error.to_string())? {
        let fields = items(&item.bytes()).map_err(|error| error.to_string())?;
        match fields.as_slice() {
            [param, default @ ..] if !param.is_empty() && default.len() < 2 => {
                params.push(Param {
                    name: bytes(param),
                    default: default.first().map(bytes),
                });
            }
            [param, ..] if !param.is_empty() => {
                let text = item.lossy();
                return Err(format!("too many fields in argument specifier \"{text}\""));
            }
            _ => {
                let name = String::from_utf8_lossy(name);
                return Err(format!("procedure \"{name}\" has argument with no name"));
            }
        }
    }
    Ok(params)
}

/// For an event right before the brace of its body, as many a rule has it: the number of blanks after `when`, and the
/// length of the event's name.
fn tight_event(text: &[u8]) -> Option<(usize, usize)> {
    let rest = text.strip_prefix(b"when")?;
    let length = |text: &[u8], is: fn(&u8) -> bool| text.iter().take_while(|byte| is(byte)).count();
    let blanks = length(rest, |byte| matches!(byte, b' ' | b'\t'));
    let rest = &rest[blanks..];
    let name = length(rest, |byte| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_'
    });
    (blanks > 0 && name > 0 && rest.get(name) == Some(&b'{')).then_some((blanks, name))
}

fn stray(command: &Command, name: Option<&[u8]>) -> SyntaxError {
    let error = SyntaxError::new(
        command.at as usize,
        "only when and proc may stand at the top of a rule",
    );
    match name {
        Some(b"ltm" | b"rule") => {
            error.hint("a rule's text is what stands between the braces of its object")
        }
        Some(b"}") => error.hint("this brace closes nothing: there may be one too many above"),
        Some(_) => error.hint("what is to be done once belongs into when RULE_INIT"),
        None => error,
    }
}

/// The first line after `from` that looks like the start of a handler or procedure.
fn next_at_top(source: &[u8], from: usize) -> Option<usize> {
    let starts = |line: &[u8]| line.starts_with(b"when ") || line.starts_with(b"proc ");
    memchr::memchr_iter(b'\n', source.get(from..)?)
        .map(|newline| from + newline + 1)
        .find(|&start| starts(&source[start..]))
}

/// A brace that is not closed swallows all that follows, of which the first begins at `next`.
fn inside(source: &[u8], error: SyntaxError, next: usize) -> SyntaxError {
    let (line, _) = line_column(source, offset(next));
    error.hint(format!(
        "line {line} looks as if it stood outside these braces: one is probably missing above it"
    ))
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
