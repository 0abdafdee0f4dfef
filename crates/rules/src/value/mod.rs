//! Values: everything is a byte string, kept in the form in which it was last wanted.
//!
//! A value is two words and cheap to clone. Numbers and lists stay what they are until somebody asks for their text; a text
//! remembers the number, list or script that it was read as. What a value means as a number is in `number`, as a list in
//! `list`.

mod list;
mod number;

pub use list::{List, ListError, Listed, push_element};
pub use number::{Number, format_double, parse_integer, parse_number};

use crate::fault::Fault;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

/// A value of the language.
#[derive(Clone, Default)]
pub enum Value {
    /// The empty string.
    #[default]
    Empty,
    /// An integer, whose text is its plain decimal form.
    Int(i64),
    /// A floating-point number, whose text is [`format_double`]'s.
    Double(f64),
    /// A text.
    Text(Rc<Text>),
    /// A list.
    List(Rc<List>),
}

/// A text's bytes, in place when there are few.
pub type Chars = SmallVec<[u8; 48]>;

/// A text, and what it was last read as.
#[derive(Default)]
pub struct Text {
    chars: Chars,
    read_as: OnceCell<Box<Reading>>,
}

/// What a text was read as.
enum Reading {
    Number(Option<Number>),
    List(Rc<List>),
    /// Something that another part of the engine made of it: a compiled script, pattern, or format.
    Other(Rc<dyn Any>),
}

/// A value's bytes: lent by the value, or written out in place.
pub enum Bytes<'a> {
    /// Lent.
    Lent(&'a [u8]),
    /// A number's text, and how long it is.
    Digits([u8; 32], u8),
}

impl Value {
    /// The text `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Value::Empty;
        }
        Value::from_chars(Chars::from_slice(bytes))
    }

    /// The text `chars`, without a copy.
    pub fn from_chars(chars: Chars) -> Self {
        if chars.is_empty() {
            return Value::Empty;
        }
        Value::Text(Rc::new(Text {
            chars,
            read_as: OnceCell::new(),
        }))
    }

    /// A list of `items`.
    pub fn list_of(items: Vec<Value>) -> Self {
        if items.is_empty() {
            return Value::Empty;
        }
        Value::List(Rc::new(List::new(items)))
    }

    /// A text literal as the compiler keeps it: an integer where the text is one in its plain form.
    pub fn literal(bytes: &[u8]) -> Self {
        match number::canonical(bytes) {
            Some(int) => Value::Int(int),
            None => Value::new(bytes),
        }
    }

    /// The value's text.
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        match self {
            Value::Empty => Bytes::Lent(b""),
            Value::Text(text) => Bytes::Lent(&text.chars),
            Value::List(list) => Bytes::Lent(list.text()),
            Value::Int(int) => number::digits(*int),
            Value::Double(double) => number::double_digits(*double),
        }
    }

    /// The value's text as a `String`, with what is not UTF-8 replaced; for messages.
    pub fn lossy(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// How many bytes its text has.
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Whether its text is empty.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Empty => true,
            Value::Int(_) | Value::Double(_) => false,
            Value::Text(text) => text.chars.is_empty(),
            Value::List(list) => list.items().is_empty(),
        }
    }

    /// Whether both have the same text.
    pub fn same_text(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => Rc::ptr_eq(a, b) || a.chars == b.chars,
            (Value::List(a), Value::List(b)) if Rc::ptr_eq(a, b) => true,
            // Not by comparing no bytes: where these stand nowhere in memory, that is slow on some processors.
            (Value::Empty, other) | (other, Value::Empty) => other.is_empty(),
            _ => *self.bytes() == *other.bytes(),
        }
    }

    /// Whether its text is `bytes`.
    pub fn is(&self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return self.is_empty();
        }
        *self.bytes() == *bytes
    }

    /// How many bytes its text has, or would have if a list's were written: about, and quickly told.
    pub fn weight(&self) -> usize {
        match self {
            Value::Empty => 0,
            Value::Int(_) => 8,
            Value::Double(_) => 16,
            Value::Text(text) => text.chars.len(),
            Value::List(list) => list.weight(),
        }
    }

    /// Puts `more` behind the text; without a copy of what is there when nobody else holds it. Returns how many
    /// bytes were copied, or are to be read anew as what the text had been read as.
    pub fn append(&mut self, more: &[u8]) -> usize {
        if more.is_empty() {
            return 0;
        }
        if let Value::Text(text) = self
            && let Some(text) = Rc::get_mut(text)
        {
            let read = matches!(
                text.read_as.take().as_deref(),
                Some(Reading::List(_) | Reading::Other(_))
            );
            let anew = if read { text.chars.len() } else { 0 };
            text.chars.extend_from_slice(more);
            return anew;
        }
        let anew = self.weight();
        let chars = {
            let have = self.bytes();
            let mut chars = Chars::with_capacity((have.len() + more.len()).next_power_of_two());
            chars.extend_from_slice(&have);
            chars.extend_from_slice(more);
            chars
        };
        *self = Value::from_chars(chars);
        anew
    }

    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<Number> {
        match self {
            Value::Int(int) => Some(Number::Int(*int)),
            Value::Double(double) => Some(Number::Double(*double)),
            Value::Empty => None,
            Value::Text(text) => {
                if let Some(Reading::Number(number)) = text.read_as.get().map(|r| &**r) {
                    return *number;
                }
                let number = parse_number(&text.chars);
                // What it was read as before stays, if there is something.
                let _ = text.read_as.set(Box::new(Reading::Number(number)));
                number
            }
            Value::List(list) => match list.items() {
                [only] => only.number(),
                _ => parse_number(list.text()),
            },
        }
    }

    /// The value as an integer.
    ///
    /// # Errors
    ///
    /// Tcl's `expected integer but got "…"`.
    pub fn int(&self) -> Result<i64, Fault> {
        match self {
            Value::Int(int) => Ok(*int),
            _ => match self.number() {
                Some(Number::Int(int)) => Ok(int),
                _ => Err(Fault::error(format!(
                    "expected integer but got \"{}\"",
                    self.lossy()
                ))),
            },
        }
    }

    /// The value as a floating-point number.
    ///
    /// # Errors
    ///
    /// Tcl's `expected floating-point number but got "…"`.
    pub fn double(&self) -> Result<f64, Fault> {
        match self.number() {
            Some(number) => Ok(number.double()),
            None => Err(Fault::error(format!(
                "expected floating-point number but got \"{}\"",
                self.lossy()
            ))),
        }
    }

    /// The value as a boolean: a number, or one of Tcl's words for it.
    ///
    /// # Errors
    ///
    /// Tcl's `expected boolean value but got "…"`.
    pub fn truth(&self) -> Result<bool, Fault> {
        match self {
            Value::Int(int) => Ok(*int != 0),
            _ => match self.number() {
                Some(number) => Ok(!number.is_zero()),
                None => number::boolean_word(&self.bytes()).ok_or_else(|| {
                    Fault::error(format!(
                        "expected boolean value but got \"{}\"",
                        self.lossy()
                    ))
                }),
            },
        }
    }

    /// The value as a list.
    ///
    /// # Errors
    ///
    /// What makes its text no list, in Tcl's words.
    pub fn list(&self) -> Result<Listed<'_>, Fault> {
        match self {
            Value::Empty => Ok(Listed::Lent(&[])),
            Value::List(list) => Ok(Listed::Lent(list.items())),
            Value::Int(_) | Value::Double(_) => Ok(Listed::One([self.clone()])),
            Value::Text(text) => {
                if let Some(Reading::List(list)) = text.read_as.get().map(|r| &**r) {
                    return Ok(Listed::Lent(list.items()));
                }
                let list = Rc::new(List::parse(&text.chars)?);
                let _ = text.read_as.set(Box::new(Reading::List(Rc::clone(&list))));
                Ok(Listed::Shared(list))
            }
        }
    }

    /// The value's items to be changed in place: without a copy when nobody else holds them. What
    /// they become is put back with [`list_of`](Value::list_of).
    ///
    /// # Errors
    ///
    /// As [`list`](Value::list).
    pub fn into_items(self) -> Result<Vec<Value>, Fault> {
        match self {
            Value::Empty => Ok(Vec::new()),
            Value::List(list) => Ok(match Rc::try_unwrap(list) {
                Ok(list) => list.into_items(),
                Err(shared) => shared.items().to_vec(),
            }),
            other => Ok(other.list()?.to_vec()),
        }
    }

    /// Puts an item behind the list; without a copy of what is there when nobody else holds it. Returns how many
    /// bytes were copied, or are to be written anew as the list's text.
    ///
    /// # Errors
    ///
    /// As [`list`](Value::list); the value is then as it was.
    pub fn push(&mut self, item: Value) -> Result<usize, Fault> {
        if let Value::List(list) = self
            && let Some(list) = Rc::get_mut(list)
        {
            return Ok(list.push(item));
        }
        let mut items = Vec::with_capacity(4);
        items.extend_from_slice(&self.list()?);
        let anew = items.len() * size_of::<Value>();
        items.push(item);
        *self = Value::list_of(items);
        Ok(anew)
    }

    /// What [`remember`](Value::remember) was given for this text, if it was a `T`.
    pub fn remembered<T: Any>(&self) -> Option<Rc<T>> {
        let Value::Text(text) = self else { return None };
        match text.read_as.get().map(|r| &**r) {
            Some(Reading::Other(any)) => Rc::clone(any).downcast().ok(),
            _ => None,
        }
    }

    /// Keeps with this text what was made of it, unless something else is kept already.
    pub fn remember(&self, what: Rc<dyn Any>) {
        if let Value::Text(text) = self {
            let _ = text.read_as.set(Box::new(Reading::Other(what)));
        }
    }

    /// Whether a list goes with it.
    fn holds_list(&self) -> bool {
        match self {
            Value::List(_) => true,
            Value::Text(text) => matches!(text.read_as.get().map(|r| &**r), Some(Reading::List(_))),
            _ => false,
        }
    }

    /// The list that goes with it, if nobody else holds it.
    fn into_only_list(self) -> Option<List> {
        match self {
            Value::List(list) => Rc::into_inner(list),
            Value::Text(text) => match *Rc::into_inner(text)?.read_as.into_inner()? {
                Reading::List(list) => Rc::into_inner(list),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether two values are one and the same text or list in memory.
    pub fn is_same_object(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => Rc::ptr_eq(a, b),
            (Value::List(a), Value::List(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Text {
    /// Its bytes.
    pub fn chars(&self) -> &[u8] {
        &self.chars
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Lent(bytes) => bytes,
            Bytes::Digits(digits, len) => &digits[..usize::from(*len)],
        }
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lossy())
    }
}

/// Same text.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.same_text(other)
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Self {
        Value::Int(int)
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Self {
        Value::Int(n as i64)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Value::Int(i64::from(truth))
    }
}

impl From<f64> for Value {
    fn from(double: f64) -> Self {
        Value::Double(double)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::new(text.as_bytes())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::from(text.into_bytes())
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Value::new(bytes)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.len() <= 48 {
            return Value::new(&bytes);
        }
        Value::from_chars(Chars::from_vec(bytes))
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(int) => Value::Int(int),
            Number::Double(double) => Value::Double(double),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_two_words() {
        assert_eq!(size_of::<Value>(), 16);
        assert_eq!(size_of::<Result<Value, Fault>>(), 16);
    }

    #[test]
    fn what_is_appended_to_a_shared_text_leaves_the_other_as_it_is() {
        let mut a = Value::new(b"abc");
        let b = a.clone();
        a.append(b"def");
        assert!(a.is(b"abcdef") && b.is(b"abc"));
        a.append(&[b'x'; 100]);
        assert_eq!(a.len(), 106);
    }

    #[test]
    fn a_text_read_as_number_and_list_keeps_its_spelling() {
        let v = Value::new(b" 0x10 ");
        assert_eq!(v.int().unwrap(), 16);
        assert_eq!(v.list().unwrap().len(), 1);
        assert!(v.is(b" 0x10 "));
    }

    #[test]
    fn literals_become_integers_only_in_their_plain_form() {
        assert!(matches!(Value::literal(b"10"), Value::Int(10)));
        for text in ["010", "+1", "-0", "1 ", "0x1", "9223372036854775808", "-"] {
            assert!(
                matches!(Value::literal(text.as_bytes()), Value::Text(_)),
                "{text}"
            );
        }
    }
}
