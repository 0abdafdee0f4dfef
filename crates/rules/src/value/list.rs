//! Lists: their items, and the text that stands for them.

use super::Value;
use crate::fault::Fault;
use std::cell::OnceCell;
use std::ops::Deref;
use std::rc::Rc;

/// A list and, once somebody has asked for it, its text.
#[derive(Default)]
pub struct List {
    items: Vec<Value>,
    text: OnceCell<Box<[u8]>>,
    /// How many bytes its text has, about, if nothing in it needs backslashes.
    weight: usize,
    /// How deep lists stand in it that are kept as lists.
    depth: u16,
}

/// How many items a text may have that is read as a list: each takes many times the bytes that it has there.
const MOST: usize = 1 << 20;

/// A list any deeper is kept as its text, so that a rule cannot drive into a stack overflow what goes through all levels.
const DEEPEST: u16 = 100;

/// A value's items: lent by it, or held together.
pub enum Listed<'a> {
    /// Lent.
    Lent(&'a [Value]),
    /// What a text was read as.
    Shared(Rc<List>),
    /// A number is a list of itself.
    One([Value; 1]),
}

/// Why a text is no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A brace is not closed.
    #[error("unmatched open brace in list")]
    OpenBrace,
    /// A quote is not closed.
    #[error("unmatched open quote in list")]
    OpenQuote,
    /// It has more items than may be.
    #[error("list has too many elements")]
    TooLong,
    /// Something stands right behind a closing brace.
    #[error("list element in braces followed by \"{}\" instead of space", char::from(*.0))]
    AfterBrace(u8),
    /// Something stands right behind a closing quote.
    #[error("list element in quotes followed by \"{}\" instead of space", char::from(*.0))]
    AfterQuote(u8),
}

impl List {
    /// A list of `items`.
    pub fn new(mut items: Vec<Value>) -> Self {
        let depth = items.iter_mut().map(admit).max().unwrap_or(0);
        let weights = items.iter().map(weight_within);
        let spaces = items.len().saturating_sub(1);
        let weight = weights.fold(spaces, usize::saturating_add);
        List {
            items,
            text: OnceCell::new(),
            weight,
            depth,
        }
    }

    /// How many bytes its text has, about: told without writing it.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Its items.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Its items, taken out.
    pub fn into_items(mut self) -> Vec<Value> {
        std::mem::take(&mut self.items)
    }

    /// Its text.
    pub fn text(&self) -> &[u8] {
        self.text.get_or_init(|| {
            let mut text = Vec::new();
            for item in &self.items {
                push_element(&mut text, &item.bytes());
            }
            text.into_boxed_slice()
        })
    }

    /// Returns how long the text was that is to be written anew.
    pub(super) fn push(&mut self, mut item: Value) -> usize {
        self.depth = self.depth.max(admit(&mut item));
        let space = usize::from(!self.items.is_empty());
        self.weight = self.weight.saturating_add(weight_within(&item) + space);
        self.items.push(item);
        self.text.take().map_or(0, |text| text.len())
    }

    /// Reads a text as a list.
    ///
    /// # Errors
    ///
    /// What makes it none.
    pub fn parse(text: &[u8]) -> Result<List, ListError> {
        let mut items = Vec::new();
        let mut at = 0;
        loop {
            while at < text.len() && is_blank(text[at]) {
                at += 1;
            }
            if at == text.len() {
                return Ok(List::new(items));
            }
            let (item, next) = match text[at] {
                b'{' => braced(text, at + 1)?,
                b'"' => quoted(text, at + 1)?,
                _ => bare(text, at),
            };
            if items.len() >= MOST {
                return Err(ListError::TooLong);
            }
            items.push(item);
            at = next;
        }
    }
}

/// What an item adds to a list's text, with its braces.
fn weight_within(item: &Value) -> usize {
    match item {
        Value::Empty => 2,
        // Of the largest number some are left for a space.
        Value::List(list) if list.items.len() > 1 => {
            list.weight.saturating_add(2).min(usize::MAX / 2)
        }
        other => other.weight().min(usize::MAX / 2),
    }
}

/// How deep a list is on account of an item, which becomes a text where that is too deep.
fn admit(item: &mut Value) -> u16 {
    match item {
        Value::List(list) if list.depth < DEEPEST => list.depth + 1,
        Value::List(list) => {
            *item = Value::new(list.text());
            0
        }
        _ => 0,
    }
}

/// Level by level: texts that were read as lists of texts that were read as lists go as deep as a rule likes.
impl Drop for List {
    fn drop(&mut self) {
        if !self.items.iter().any(Value::holds_list) {
            return;
        }
        let mut items = std::mem::take(&mut self.items);
        while let Some(item) = items.pop() {
            if let Some(list) = item.into_only_list() {
                items.append(&mut list.into_items());
            }
        }
    }
}

/// Writes an element behind a list's text, with what keeps it one element.
pub fn push_element(list: &mut Vec<u8>, element: &[u8]) {
    if !list.is_empty() {
        list.push(b' ');
    }
    match quoting(element) {
        Quoting::None => list.extend_from_slice(element),
        Quoting::Braces => {
            list.push(b'{');
            list.extend_from_slice(element);
            list.push(b'}');
        }
        Quoting::Backslashes { braces } => {
            for (n, &byte) in element.iter().enumerate() {
                match byte {
                    b'\n' => list.extend_from_slice(b"\\n"),
                    b'\t' => list.extend_from_slice(b"\\t"),
                    b'\r' => list.extend_from_slice(b"\\r"),
                    0x0b => list.extend_from_slice(b"\\v"),
                    0x0c => list.extend_from_slice(b"\\f"),
                    b'{' | b'}' if !braces && n > 0 => list.push(byte),
                    b' ' | b'{' | b'}' | b'[' | b']' | b'$' | b';' | b'"' | b'\\' => {
                        list.extend_from_slice(&[b'\\', byte]);
                    }
                    _ => list.push(byte),
                }
            }
        }
    }
}

enum Quoting {
    None,
    Braces,
    /// `braces` if they are not balanced.
    Backslashes {
        braces: bool,
    },
}

fn quoting(element: &[u8]) -> Quoting {
    let Some(&first) = element.first() else {
        return Quoting::Braces;
    };
    let mut wants_braces = matches!(first, b'{' | b'"');
    let mut quotes = false;
    let mut depth = 0_i32;
    let mut balanced = true;
    let mut at = 0;
    while at < element.len() {
        match element[at] {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                balanced &= depth >= 0;
            }
            b'\\' => match element.get(at + 1) {
                // In braces it would become a space; at the end it would escape the brace.
                None | Some(b'\n') => balanced = false,
                Some(_) => {
                    wants_braces = true;
                    at += 1;
                }
            },
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | b'[' | b'$' | b';' => wants_braces = true,
            b']' | b'"' => quotes = true,
            _ => {}
        }
        at += 1;
    }
    if !balanced || depth != 0 {
        Quoting::Backslashes { braces: true }
    } else if wants_braces {
        Quoting::Braces
    } else if quotes {
        Quoting::Backslashes { braces: false }
    } else {
        Quoting::None
    }
}

fn braced(text: &[u8], start: usize) -> Result<(Value, usize), ListError> {
    let mut depth = 1;
    let mut at = start;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return match text.get(at + 1) {
                        Some(&next) if !is_blank(next) => Err(ListError::AfterBrace(next)),
                        _ => Ok((Value::literal(&text[start..at]), at + 1)),
                    };
                }
            }
            _ => {}
        }
        at += 1;
    }
    Err(ListError::OpenBrace)
}

fn quoted(text: &[u8], start: usize) -> Result<(Value, usize), ListError> {
    let mut at = start;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'"' => {
                return match text.get(at + 1) {
                    Some(&next) if !is_blank(next) => Err(ListError::AfterQuote(next)),
                    _ => Ok((unescaped(&text[start..at]), at + 1)),
                };
            }
            _ => {}
        }
        at += 1;
    }
    Err(ListError::OpenQuote)
}

fn bare(text: &[u8], start: usize) -> (Value, usize) {
    let mut at = start;
    while at < text.len() && !is_blank(text[at]) {
        if text[at] == b'\\' {
            at += 1;
        }
        at += 1;
    }
    let at = at.min(text.len());
    (unescaped(&text[start..at]), at)
}

fn unescaped(text: &[u8]) -> Value {
    if memchr::memchr(b'\\', text).is_none() {
        return Value::literal(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        plain.extend_from_slice(&rest[..at]);
        let used = crate::parse::backslash(&rest[at..], &mut plain);
        rest = &rest[at + used..];
    }
    plain.extend_from_slice(rest);
    Value::from(plain)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

impl Deref for Listed<'_> {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        match self {
            Listed::Lent(items) => items,
            Listed::Shared(list) => list.items(),
            Listed::One(one) => one,
        }
    }
}

impl From<ListError> for Fault {
    fn from(error: ListError) -> Fault {
        Fault::error(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Vec<String> {
        let list = List::parse(text.as_bytes()).unwrap();
        list.items().iter().map(Value::lossy).collect()
    }

    #[test]
    fn texts_are_read_as_lists() {
        assert_eq!(items(" a  b\tc "), ["a", "b", "c"]);
        assert_eq!(items("{a b} {} {c {d e}}"), ["a b", "", "c {d e}"]);
        assert_eq!(items(r#""a b" c\ d "e\"f""#), ["a b", "c d", "e\"f"]);
        assert_eq!(items(r"{a\}b}"), [r"a\}b"]);
        for (text, error) in [
            ("{a", ListError::OpenBrace),
            ("\"a", ListError::OpenQuote),
            ("{a}b", ListError::AfterBrace(b'b')),
            ("\"a\"b", ListError::AfterQuote(b'b')),
        ] {
            assert_eq!(List::parse(text.as_bytes()).err(), Some(error));
        }
    }

    #[test]
    fn lists_in_lists_are_no_deeper_than_the_stack() {
        let mut list = Value::from("x y");
        for _ in 0..1000 {
            list = Value::list_of(vec![list]);
        }
        assert_eq!(list.len(), "{{{x y}}}".len() - 6 + 2 * 1000);
        drop(list);
        let deep = Value::from("{".repeat(10_000) + &"}".repeat(10_000));
        let mut level = deep.clone();
        for _ in 0..10_000 {
            let next = level.list().unwrap().first().cloned();
            level = next.unwrap_or_default();
        }
        assert!(level.is_empty());
        drop(deep);
    }

    #[test]
    fn every_list_reads_back_as_it_was() {
        let texts: [&[u8]; 12] = [
            b"", b"a", b"a b", b"{", b"}", b"a{b", b"\\", b"a\\\nb", b"$x", b"#c", b"\"q",
            b"a]b[c;",
        ];
        let list = List::new(texts.iter().map(|t| Value::new(t)).collect());
        let again = List::parse(list.text()).unwrap();
        assert_eq!(again.items(), list.items());
    }
}
