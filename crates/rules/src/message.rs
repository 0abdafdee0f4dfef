//! The head of an HTTP message, to be read and changed in place.
//!
//! A head that came from the network is one copy of its bytes and where its parts stand in it; only what a rule changes is
//! put beside it.

use crate::value::Value;
use std::ops::Range;

/// A request's or response's head.
#[derive(Debug, Default)]
pub struct Message {
    raw: Vec<u8>,
    start: [Part; 3],
    fields: Vec<Field>,
    changed: bool,
}

/// A part of a head: where it stands in what came, or what a rule has put in its place.
#[derive(Clone, Debug)]
enum Part {
    At(u32, u32),
    New(Value),
}

#[derive(Clone, Debug)]
struct Field {
    name: Part,
    value: Part,
}

impl Message {
    /// Takes a head's bytes: its first line's three parts and its fields, as spans of `raw`. Memory of
    /// an earlier head is used again.
    pub fn set(
        &mut self,
        raw: &[u8],
        start: [Range<usize>; 3],
        fields: impl IntoIterator<Item = (Range<usize>, Range<usize>)>,
    ) {
        let at = |range: Range<usize>| Part::At(range.start as u32, range.end as u32);
        self.raw.clear();
        self.raw.extend_from_slice(raw);
        self.start = start.map(at);
        self.fields.clear();
        self.fields
            .extend(fields.into_iter().map(|(name, value)| Field {
                name: at(name),
                value: at(value),
            }));
        self.changed = false;
    }

    /// Forgets the head; its memory stays.
    pub fn clear(&mut self) {
        self.set(b"", [0..0, 0..0, 0..0], []);
    }

    /// Whether there is none.
    pub fn is_absent(&self) -> bool {
        self.raw.is_empty() && !self.changed
    }

    /// The first, second (0, 1) or third (2) part of the first line: method, target, version of a
    /// request; version, status, reason of a response.
    pub fn part(&self, n: usize) -> &[u8] {
        static NONE: &[u8] = b"";
        match self.start.get(n) {
            Some(part) => self.bytes(part),
            None => NONE,
        }
    }

    /// Puts another text in a part of the first line.
    pub fn set_part(&mut self, n: usize, value: Value) {
        if let Some(part) = self.start.get_mut(n) {
            *part = Part::New(text(value));
            self.changed = true;
        }
    }

    /// Whether a rule has changed it.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Fields in their order: name and value.
    pub fn fields(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|field| (self.bytes(&field.name), self.bytes(&field.value)))
    }

    /// The name and value of the field at a place.
    pub fn field(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let field = self.fields.get(at)?;
        Some((self.bytes(&field.name), self.bytes(&field.value)))
    }

    /// The places of the fields of that name, whatever their letters' case.
    pub fn places<'a>(&'a self, name: &'a [u8]) -> impl DoubleEndedIterator<Item = usize> + 'a {
        self.fields
            .iter()
            .enumerate()
            .filter(move |(_, field)| self.bytes(&field.name).eq_ignore_ascii_case(name))
            .map(|(at, _)| at)
    }

    /// The values of the fields of that name.
    pub fn values<'a>(&'a self, name: &'a [u8]) -> impl DoubleEndedIterator<Item = &'a [u8]> + 'a {
        self.places(name)
            .map(|at| self.bytes(&self.fields[at].value))
    }

    /// Puts a field at a place, or behind all others.
    pub fn insert(&mut self, at: Option<usize>, name: Value, value: Value) {
        let at = at.unwrap_or(self.fields.len()).min(self.fields.len());
        let (name, value) = (Part::New(text(name)), Part::New(text(value)));
        self.fields.insert(at, Field { name, value });
        self.changed = true;
    }

    /// Puts another value in the field at a place.
    pub fn replace(&mut self, at: usize, value: Value) {
        if let Some(field) = self.fields.get_mut(at) {
            field.value = Part::New(text(value));
            self.changed = true;
        }
    }

    /// Takes the field at a place out.
    pub fn remove(&mut self, at: usize) {
        if at < self.fields.len() {
            self.fields.remove(at);
            self.changed = true;
        }
    }

    /// Keeps only the fields of which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) {
        let before = self.fields.len();
        let raw = &self.raw;
        self.fields
            .retain(|field| keep(of(raw, &field.name), of(raw, &field.value)));
        self.changed |= self.fields.len() != before;
    }

    /// Writes the head as it stands now, its empty line included. Bytes that would end a line early
    /// become spaces.
    pub fn write(&self, out: &mut Vec<u8>) {
        for n in 0..3 {
            if n > 0 {
                out.push(b' ');
            }
            push_clean(out, self.part(n));
        }
        out.extend_from_slice(b"\r\n");
        for (name, value) in self.fields() {
            push_clean(out, name);
            out.extend_from_slice(b": ");
            push_clean(out, value);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The bytes that came from the network.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    fn bytes<'a>(&'a self, part: &'a Part) -> &'a [u8] {
        of(&self.raw, part)
    }
}

impl Default for Part {
    fn default() -> Self {
        Part::At(0, 0)
    }
}

fn of<'a>(raw: &'a [u8], part: &'a Part) -> &'a [u8] {
    match part {
        Part::At(start, end) => &raw[*start as usize..*end as usize],
        Part::New(Value::Text(text)) => text.chars(),
        Part::New(_) => b"",
    }
}

/// The value as a text that can be lent for as long as it is kept.
fn text(value: Value) -> Value {
    match value {
        Value::Text(_) | Value::Empty => value,
        other => Value::new(&other.bytes()),
    }
}

fn push_clean(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.extend_from_slice(bytes);
    for byte in &mut out[start..] {
        if matches!(*byte, b'\r' | b'\n' | 0) {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let raw = b"GET /a HTTP/1.1\r\nHost: x\r\nA: 1\r\na: 2\r\n\r\n";
        let mut message = Message::default();
        let fields = [(17..21, 23..24), (26..27, 29..30), (32..33, 35..36)];
        message.set(raw, [0..3, 4..6, 7..15], fields);
        message
    }

    #[test]
    fn an_unchanged_head_is_written_as_it_came() {
        let message = message();
        let mut out = Vec::new();
        message.write(&mut out);
        assert_eq!(out, message.raw());
        assert!(!message.is_changed());
    }

    #[test]
    fn fields_are_found_inserted_replaced_and_removed() {
        let mut message = message();
        assert_eq!(message.values(b"a").collect::<Vec<_>>(), [b"1", b"2"]);
        message.insert(Some(1), Value::from("B"), Value::from(7_i64));
        message.replace(0, Value::from("y\r\nEvil: 1"));
        message.retain(|name, _| name != b"A");
        message.set_part(1, Value::from("/b"));
        let mut out = Vec::new();
        message.write(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "GET /b HTTP/1.1\r\nHost: y  Evil: 1\r\nB: 7\r\na: 2\r\n\r\n"
        );
        assert!(message.is_changed());
    }
}
