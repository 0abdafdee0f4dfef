//! The part of test files that says what is expected.

use super::TestFileError;
use super::parse::{body, key_of, number, wrong};
use super::plan::{Entry, Expect, Head, Text};
use super::text::{Node, names, split_word, value};
use super::units::duration;

type Parsed<T> = Result<T, TestFileError>;

/// What is behind `expect`.
pub(super) fn expect(node: &Node, rest: &str) -> Parsed<Expect> {
    let (what, rest) = split_word(rest);
    let line = node.line;
    // Without an operator: a pattern for what is rarely known to the letter, else the text.
    let pattern = |rest: &str| -> Parsed<Text> {
        match text_of(rest, line)? {
            Some(text) => Ok(text),
            None => Ok(Text::Like(value(rest, line)?)),
        }
    };
    let exact = |rest: &str| -> Parsed<Text> {
        match text_of(rest, line)? {
            Some(text) => Ok(text),
            None => Ok(Text::Is(value(rest, line)?)),
        }
    };
    Ok(match what {
        "no" => return refuse(node, rest),
        "response" => Expect::Response(
            match rest {
                "" => None,
                status => Some(number(node, status)?),
            },
            head(node)?,
        ),
        "request" => Expect::Request(
            match &*names(rest, line)? {
                [] => None,
                [method, target] => Some((method.clone(), target.clone())),
                _ => return Err(wrong(node, "`expect request` wants METHOD TARGET")),
            },
            head(node)?,
        ),
        "pool" => Expect::Pool(rest.to_owned()),
        "member" if rest.starts_with("gets ") => Expect::MemberGets(exact(split_word(rest).1)?),
        "member" => Expect::Member(rest.to_owned()),
        "client" if rest.starts_with("gets ") => Expect::ClientGets(exact(split_word(rest).1)?),
        "snat" => Expect::Steering("snat", exact(rest)?),
        "persist" => Expect::Steering("persist", exact(rest)?),
        "mode" => Expect::Steering("mode", exact(rest)?),
        "target" => Expect::Steering("target", exact(rest)?),
        "log" => Expect::Log(pattern(rest)?),
        "logs" => Expect::Logs(node.dedented().into_iter().map(|line| line.text).collect()),
        "entry" => {
            let (left, text) = cut(rest)
                .ok_or_else(|| wrong(node, "`expect entry` wants KEY = VALUE, or KEY ~ PATTERN"))?;
            let (key, subtable) = key_of(left, line)?;
            let entry = Entry {
                subtable,
                key,
                value: Vec::new(),
            };
            Expect::Entry(entry, exact(text)?)
        }
        "count" => {
            let (subtable, count) = rest
                .rsplit_once(' ')
                .ok_or_else(|| wrong(node, "`expect count` wants SUBTABLE N"))?;
            Expect::Count(value(subtable, line)?, number(node, count)?)
        }
        "variable" => {
            let (name, text) =
                cut(rest).ok_or_else(|| wrong(node, "`expect variable` wants NAME = VALUE"))?;
            Expect::Variable(name.to_owned(), Some(exact(text)?))
        }
        "ended" => Expect::Ended(rest.to_owned()),
        "open" => Expect::Ended("open".to_owned()),
        "failure" => Expect::Failure(pattern(rest)?),
        "load" => {
            let rest = rest.strip_prefix("error").unwrap_or(rest).trim_start();
            Expect::LoadError(pattern(rest)?)
        }
        "events" => Expect::Events(names(rest, line)?),
        "shun" => {
            let (address, lasting) = split_word(rest);
            let address = address
                .parse()
                .map_err(|_| wrong(node, "`expect shun` wants an address"))?;
            let lasting = match lasting {
                "" => None,
                text => Some(duration(text).ok_or_else(|| wrong(node, "wants a time such as 5m"))?),
            };
            Expect::Shun(address, lasting)
        }
        "syslog" => Expect::Syslog(exact(rest)?),
        "sideband" => Expect::Sideband(exact(rest)?),
        other => {
            return Err(wrong(
                node,
                format!("`{other}` is nothing that can be expected"),
            ));
        }
    })
}

/// What is behind `expect no`.
fn refuse(node: &Node, rest: &str) -> Parsed<Expect> {
    let line = node.line;
    Ok(match split_word(rest) {
        ("response", _) => Expect::NoResponse,
        ("request", _) => Expect::NoRequest,
        ("member", _) => Expect::NoMember,
        ("shun", _) => Expect::NoShun,
        ("log", rest) => Expect::NoLog(match text_of(rest, line)? {
            Some(text) => text,
            None => Text::Like(value(rest, line)?),
        }),
        ("entry", rest) => {
            let (key, subtable) = key_of(rest, line)?;
            Expect::NoEntry(subtable, key)
        }
        ("variable", rest) => Expect::Variable(rest.to_owned(), None),
        (other, _) => {
            return Err(wrong(
                node,
                format!("`no {other}` is nothing that can be expected"),
            ));
        }
    })
}

/// A text behind an operator: `= TEXT`, `~ PATTERN` or `!= TEXT`.
pub(super) fn text_of(text: &str, line: u32) -> Parsed<Option<Text>> {
    let (operator, rest) = split_word(text);
    Ok(Some(match operator {
        "=" => Text::Is(value(rest, line)?),
        "~" => Text::Like(value(rest, line)?),
        "!=" => Text::IsNot(value(rest, line)?),
        _ => return Ok(None),
    }))
}

/// What is left of an operator, and the operator with its text.
fn cut(text: &str) -> Option<(&str, &str)> {
    let first = [" = ", " ~ ", " != "]
        .iter()
        .filter_map(|operator| text.find(operator));
    match first.min() {
        Some(at) => Some((&text[..at], &text[at + 1..])),
        None => text.strip_suffix(" =").map(|left| (left, "=")),
    }
}

/// What is expected of a head and its body: fields, then behind an empty line the body.
fn head(node: &Node) -> Parsed<Head> {
    let mut head = Head::default();
    let lines = node.dedented();
    let end = lines.iter().position(|line| line.text.is_empty());
    for line in &lines[..end.unwrap_or(lines.len())] {
        let text = &*line.text;
        let (name, operator) = split_word(text);
        if name == "no" {
            head.absent
                .extend(operator.split(',').map(|name| name.trim().to_owned()));
        } else if let Some(text) = text_of(operator, line.number)? {
            match name {
                "body" => head.body = Some(text),
                _ => head.fields.push((name.to_owned(), text)),
            }
        } else if let Some((name, text)) = text.split_once(':') {
            let text = Text::Is(value(text.trim(), line.number)?);
            head.fields.push((name.to_owned(), text));
        } else {
            return Err(TestFileError::new(
                line.number,
                "wants NAME: VALUE, NAME ~ PATTERN or no NAME",
            ));
        }
    }
    if let Some(end) = end {
        head.body = Some(Text::Is(body(&lines[end + 1..])?));
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule_test::text::{lines, nodes};

    fn one(text: &str) -> Parsed<Expect> {
        let all = nodes(&lines(text)).unwrap();
        expect(&all[0], all[0].keyword().1)
    }

    #[test]
    fn a_response_is_its_status_its_fields_and_its_body() {
        let text = "expect response 200\n  A: b: c\n  D ~ e*\n  no F, G\n\n  \"h\\n\"\n";
        let Ok(Expect::Response(Some(200), head)) = one(text) else {
            panic!();
        };
        let fields = [
            ("A".to_owned(), Text::Is(b"b: c".to_vec())),
            ("D".to_owned(), Text::Like(b"e*".to_vec())),
        ];
        assert_eq!(head.fields, fields);
        assert_eq!(head.absent, ["F", "G"]);
        assert_eq!(head.body, Some(Text::Is(b"h\n".to_vec())));
    }

    #[test]
    fn keys_may_name_their_subtable() {
        let Ok(Expect::Entry(entry, text)) = one("expect entry \"a b\" in c = 1 = 2") else {
            panic!();
        };
        assert_eq!((&*entry.key, &*entry.subtable), (&b"a b"[..], &b"c"[..]));
        assert_eq!(text, Text::Is(b"1 = 2".to_vec()));
    }

    #[test]
    fn what_cannot_be_expected_is_an_error() {
        assert!(one("expect wonders").is_err());
        assert!(one("expect no wonders").is_err());
    }
}
