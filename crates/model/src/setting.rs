//! The trait by which a value is read from a node, written back, and described; what readers share while they work;
//! and the trait for plain values and containers.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Value as Json, json};

use crate::Name;
use crate::error::{Error, ErrorKind, Place};
use crate::node::{Node, Span, Value};
use crate::shape::{Shape, TEXT};
use crate::source::Source;

/// A value that can be configured.
pub(crate) trait Setting: Sized {
    /// Whether a plain `off` stands for none where the value is optional.
    const OFF_IS_NONE: bool = false;

    /// The value that `node` means. None after at least one error, which the context then has.
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self>;

    /// What [`Setting::decode`] reads as this value.
    fn encode(&self) -> Json;

    /// What can be written.
    fn shape() -> Shape;

    /// Where the value lies on the scale that its range is given in.
    fn magnitude(&self) -> f64 {
        0.0
    }

    /// A point on that scale as it is written.
    fn bound(point: f64) -> String {
        point.to_string()
    }
}

/// The kinds of things that are referred to by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pool,
    Monitor,
    TlsProfile,
    AddressList,
    Rule,
}

/// What readers share: files, environment, the errors so far and the references to look up at the end.
pub(crate) struct Context<'a> {
    source: &'a dyn Source,
    files: Vec<(PathBuf, Rc<str>)>,
    pub(crate) errors: Vec<Error>,
    pub(crate) references: Vec<(Kind, Name, Span)>,
}

const MAX_ERRORS: usize = 100;
/// Characters of a line that are shown.
const LINE_SHOWN: usize = 160;

impl<'a> Context<'a> {
    pub(crate) fn new(source: &'a dyn Source) -> Self {
        Self {
            source,
            files: Vec::new(),
            errors: Vec::new(),
            references: Vec::new(),
        }
    }

    pub(crate) fn add_file(&mut self, path: PathBuf, text: &str) -> usize {
        self.files.push((path, text.into()));
        self.files.len() - 1
    }

    pub(crate) fn file_text(&self, file: usize) -> Rc<str> {
        self.files[file].1.clone()
    }

    /// Whether further errors would not be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() > MAX_ERRORS
    }

    pub(crate) fn error(&mut self, span: Span, kind: ErrorKind) {
        if self.is_full() {
            return;
        }
        let kind = if self.errors.len() == MAX_ERRORS {
            ErrorKind::TooMany
        } else {
            kind
        };
        let (path, text) = &self.files[span.file];
        let line = text
            .strip_prefix('\u{feff}')
            .unwrap_or(text)
            .lines()
            .nth(span.line - 1)
            .unwrap_or_default();
        // of a long line, what is around the place; control characters would make the terminal do things
        let skipped = if span.column > LINE_SHOWN {
            span.column - LINE_SHOWN / 2
        } else {
            0
        };
        let clean = |c: char| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        };
        let source_line: String = line
            .trim_end()
            .chars()
            .skip(skipped)
            .take(LINE_SHOWN)
            .map(clean)
            .collect();
        let indent = span.column - 1 - skipped;
        let width = span
            .width
            .min(source_line.chars().count().saturating_sub(indent))
            .max(1);
        let place = Place {
            file: path.clone(),
            line: span.line,
            column: span.column,
        };
        self.errors.push(Error {
            place,
            kind,
            source_line,
            indent,
            width,
        });
    }

    pub(crate) fn bad_value(&mut self, node: &Node, expected: impl Into<String>) {
        let text = shorten(node.scalar().unwrap_or_default());
        self.error(
            node.span,
            ErrorKind::BadValue {
                text,
                expected: expected.into(),
            },
        );
    }

    /// The node's text. `expected` with its article, for the error where it is not a text.
    pub(crate) fn text<'n>(&mut self, node: &'n Node, expected: &str) -> Option<&'n str> {
        if let Some(text) = node.scalar().filter(|_| !node.is_null()) {
            return Some(text);
        }
        let kind = ErrorKind::WrongType {
            expected: expected.to_owned(),
            found: node.describe(),
        };
        self.error(node.span, kind);
        None
    }

    pub(crate) fn place(&self, span: Span) -> Place {
        Place {
            file: self.files[span.file].0.clone(),
            line: span.line,
            column: span.column,
        }
    }

    /// `path` as it is meant in the file of `span`: relative to it.
    pub(crate) fn resolve(&self, path: &str, span: Span) -> PathBuf {
        self.files[span.file]
            .0
            .parent()
            .unwrap_or(Path::new(""))
            .join(path)
    }

    /// The text of the file that `node` names by `path`.
    pub(crate) fn read(&mut self, path: &Path, node: &Node) -> Option<String> {
        let read = self.source.read(path);
        self.readable(read, path, node)
    }

    /// The bytes of the file that `node` names by `path`.
    pub(crate) fn read_bytes(&mut self, path: &Path, node: &Node) -> Option<Vec<u8>> {
        let read = self.source.read_bytes(path);
        self.readable(read, path, node)
    }

    /// Checks that the file that `node` names by `path` can be read.
    pub(crate) fn check(&mut self, path: &Path, node: &Node) -> Option<()> {
        let check = self.source.check(path);
        self.readable(check, path, node)
    }

    pub(crate) fn list(&mut self, folder: &Path, node: &Node) -> Option<Vec<PathBuf>> {
        let list = self.source.list(folder);
        self.readable(list, folder, node)
    }

    pub(crate) fn env(&self, name: &str) -> Option<String> {
        self.source.env(name)
    }

    fn readable<T>(&mut self, result: io::Result<T>, path: &Path, node: &Node) -> Option<T> {
        let report = |error: io::Error| {
            let kind = ErrorKind::Unreadable {
                path: path.to_owned(),
                reason: error.to_string(),
            };
            self.error(node.span, kind);
        };
        result.map_err(report).ok()
    }
}

/// Text as it is shown in a message: one line, not endless.
pub(crate) fn shorten(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(61)
        .collect();
    match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Checks that `value` lies within its range.
pub(crate) fn in_range<T: Setting>(
    value: T,
    node: &Node,
    low: f64,
    high: f64,
    cx: &mut Context<'_>,
) -> Option<T> {
    let magnitude = value.magnitude();
    // only what is optional is read from nothing
    if node.is_null() || (low..=high).contains(&magnitude) {
        return Some(value);
    }
    let text = shorten(node.scalar().unwrap_or_default());
    cx.error(
        node.span,
        ErrorKind::OutOfRange {
            text,
            low: T::bound(low),
            high: T::bound(high),
        },
    );
    None
}

/// Checks that `node` is a map with none but these `fields`, each once.
pub(crate) fn check_fields(
    node: &Node,
    of: &'static str,
    fields: &[&'static str],
    cx: &mut Context<'_>,
) -> bool {
    let Value::Map(entries) = &node.value else {
        cx.error(
            node.span,
            ErrorKind::WrongType {
                expected: format!("a map ({})", phrase(of)),
                found: node.describe(),
            },
        );
        return false;
    };
    let mut good = no_duplicates(entries, cx);
    for (key, _) in entries
        .iter()
        .filter(|(key, _)| !fields.contains(&key.text.as_str()))
    {
        let nearest = crate::error::nearest(&key.text, fields.iter().copied());
        let name = shorten(&key.text);
        cx.error(
            key.span,
            ErrorKind::UnknownField {
                name,
                of: phrase(of),
                nearest,
                valid: fields.to_vec(),
            },
        );
        good = false;
    }
    good
}

/// Reports that a field is missing.
pub(crate) fn missing<T>(
    node: &Node,
    of: &'static str,
    name: &'static str,
    cx: &mut Context<'_>,
) -> Option<T> {
    cx.error(
        node.span,
        ErrorKind::MissingField {
            name,
            of: phrase(of),
        },
    );
    None
}

/// Reports that `node` is none of `words`.
pub(crate) fn unknown_word<T>(
    node: &Node,
    of: &'static str,
    words: &[&'static str],
    cx: &mut Context<'_>,
) -> Option<T> {
    let (span, text) = match &node.value {
        Value::Scalar { text, .. } if !node.is_null() => (node.span, text),
        Value::Map(entries) if entries.len() == 1 => (entries[0].0.span, &entries[0].0.text),
        _ => {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            let expected = format!("one of {}", words.join(", "));
            cx.error(
                node.span,
                ErrorKind::WrongType {
                    expected,
                    found: node.describe(),
                },
            );
            return None;
        }
    };
    if words.contains(&text.as_str()) {
        let expected = format!("complete: it carries a value, and is written `{{{text}: …}}`");
        cx.error(
            span,
            ErrorKind::BadValue {
                text: text.clone(),
                expected,
            },
        );
        return None;
    }
    let nearest = crate::error::nearest(text, words.iter().copied());
    let kind = ErrorKind::UnknownWord {
        text: shorten(text),
        of: phrase(of),
        nearest,
        valid: words.to_vec(),
    };
    cx.error(span, kind);
    None
}

/// A type's name as words: `TlsProfile` is a `TLS profile`.
pub(crate) fn phrase(name: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for c in name.trim_end_matches("Fields").chars() {
        match words.last_mut() {
            Some(word) if !c.is_uppercase() => word.push(c),
            _ => words.push(c.to_lowercase().to_string()),
        }
    }
    let known = |word: String| match word.as_str() {
        "tls" | "http" | "sni" | "nat" | "snat" => word.to_uppercase(),
        "config" => "the configuration".to_owned(),
        _ => word,
    };
    words.into_iter().map(known).collect::<Vec<_>>().join(" ")
}

fn no_duplicates(entries: &[(crate::node::Key, Node)], cx: &mut Context<'_>) -> bool {
    let mut first = BTreeMap::new();
    let mut good = true;
    for (key, _) in entries {
        if let Some(&span) = first.get(&key.text) {
            let first = cx.place(span);
            cx.error(
                key.span,
                ErrorKind::Duplicate {
                    name: shorten(&key.text),
                    first,
                },
            );
            good = false;
        } else {
            first.insert(&key.text, key.span);
        }
    }
    good
}

impl Setting for bool {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        match cx.text(node, "`true` or `false`")? {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                cx.bad_value(node, "`true` or `false`");
                None
            }
        }
    }

    fn encode(&self) -> Json {
        json!(self)
    }

    fn shape() -> Shape {
        Shape::scalar("boolean", "`true` or `false`", json!({"type": "boolean"}))
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
                let text = cx.text(node, "a whole number")?;
                // as people group digits: 100_000
                let digits = text.replace('_', "");
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    cx.bad_value(node, "a whole number");
                    return None;
                }
                let Ok(number) = digits.parse() else {
                    let (low, high) = ("0".to_owned(), <$type>::MAX.to_string());
                    cx.error(node.span, ErrorKind::OutOfRange { text: shorten(text), low, high });
                    return None;
                };
                Some(number)
            }

            fn encode(&self) -> Json {
                json!(self)
            }

            fn shape() -> Shape {
                Shape::scalar("number", "a whole number", json!({"type": "integer", "minimum": 0}))
            }

            fn magnitude(&self) -> f64 {
                *self as f64
            }
        }
    )*};
}
whole_numbers!(u16, u32, u64, usize);

impl Setting for f64 {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let text = cx.text(node, "a number")?;
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        if number.is_none() {
            cx.bad_value(node, "a number");
        }
        number
    }

    fn encode(&self) -> Json {
        json!(self)
    }

    fn shape() -> Shape {
        Shape::scalar("number", "a number", json!({"type": "number"}))
    }

    fn magnitude(&self) -> f64 {
        *self
    }
}

impl Setting for String {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        // a null in quotes is a text
        cx.text(node, "a text").map(str::to_owned)
    }

    fn encode(&self) -> Json {
        json!(self)
    }

    fn shape() -> Shape {
        TEXT()
    }
}

impl<T: Setting> Setting for Option<T> {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        if node.is_null() || (T::OFF_IS_NONE && node.plain() == Some("off")) {
            return Some(None);
        }
        T::decode(node, cx).map(Some)
    }

    fn encode(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::encode)
    }

    fn shape() -> Shape {
        Shape::Optional {
            of: Box::new(T::shape()),
            off: T::OFF_IS_NONE,
        }
    }

    fn magnitude(&self) -> f64 {
        self.as_ref().map_or(0.0, T::magnitude)
    }

    fn bound(point: f64) -> String {
        T::bound(point)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let items: Vec<_> = node
            .items()
            .iter()
            .map(|item| T::decode(item, cx))
            .collect();
        items.into_iter().collect()
    }

    fn encode(&self) -> Json {
        self.iter().map(T::encode).collect()
    }

    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }
}

/// A text that can be a map's key.
pub(crate) trait MapKey: Ord + Sized {
    const EXPECTED: &'static str;
    fn from_text(text: &str) -> Option<Self>;
    fn as_text(&self) -> &str;
}

impl<K: MapKey, T: Setting> Setting for BTreeMap<K, T> {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let entries = match &node.value {
            Value::Map(entries) => entries,
            _ if node.is_null() => return Some(Self::new()),
            _ => {
                let kind = ErrorKind::WrongType {
                    expected: "a map".to_owned(),
                    found: node.describe(),
                };
                cx.error(node.span, kind);
                return None;
            }
        };
        let mut good = no_duplicates(entries, cx);
        let mut map = Self::new();
        for (key, node) in entries {
            let name = K::from_text(&key.text);
            if name.is_none() {
                let kind = ErrorKind::BadValue {
                    text: shorten(&key.text),
                    expected: K::EXPECTED.to_owned(),
                };
                cx.error(key.span, kind);
            }
            match (name, T::decode(node, cx)) {
                (Some(name), Some(value)) => drop(map.insert(name, value)),
                _ => good = false,
            }
        }
        good.then_some(map)
    }

    fn encode(&self) -> Json {
        Json::Object(
            self.iter()
                .map(|(key, value)| (key.as_text().to_owned(), value.encode()))
                .collect(),
        )
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(T::shape()))
    }
}
