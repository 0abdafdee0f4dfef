//! YAML as a tree whose every value knows its place: from the parser's events, with limits on size, with anchors
//! followed and environment variables put in. What the values mean is not known here.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use crate::error::ErrorKind;
use crate::setting::Context;

/// Where a value stands: a file of the context, and a stretch of one of its lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) file: usize,
    /// From 1.
    pub(crate) line: usize,
    /// From 1.
    pub(crate) column: usize,
    /// In characters; cut at the line's end when shown.
    pub(crate) width: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar {
        text: String,
        /// Not in quotes, so that `off`, `null` and the like can be meant.
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) span: Span,
    pub(crate) text: String,
}

impl Node {
    pub(crate) fn entries(&self) -> &[(Key, Node)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries()
            .iter()
            .find(|(k, _)| k.text == key)
            .map(|(_, node)| node)
    }

    /// Where the key `key` stands, or else the whole.
    pub(crate) fn key_span(&self, key: &str) -> Span {
        self.entries()
            .iter()
            .find(|(k, _)| k.text == key)
            .map_or(self.span, |(k, _)| k.span)
    }

    /// The values of a list, or the value itself: a list of one may be written without brackets.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }

    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// The text, if it is not in quotes.
    pub(crate) fn plain(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, plain: true } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.plain(), Some("" | "~" | "null"))
    }

    /// How the value is called in a message.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Scalar { .. } if self.is_null() => "nothing".to_owned(),
            Value::Scalar { text, .. } => format!("`{}`", crate::setting::shorten(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    fn size(&self) -> usize {
        match &self.value {
            Value::Scalar { .. } => 1,
            Value::List(items) => 1 + items.iter().map(Node::size).sum::<usize>(),
            Value::Map(entries) => 1 + entries.iter().map(|(_, node)| node.size()).sum::<usize>(),
        }
    }
}

/// Bytes of one file.
const MAX_BYTES: usize = 16 << 20;
/// Lists and maps within each other.
const MAX_DEPTH: usize = 32;
/// Values of one file, those behind aliases counted each time.
const MAX_VALUES: usize = 1_000_000;

/// The tree of the context's file `file`. None after an error, which the context then has.
pub(crate) fn read(file: usize, cx: &mut Context<'_>) -> Option<Node> {
    let text = cx.file_text(file);
    if text.len() > MAX_BYTES {
        cx.error(
            Span {
                file,
                line: 1,
                column: 1,
                width: 1,
            },
            ErrorKind::TooLarge("the file exceeds 16 MiB"),
        );
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut builder = Builder {
        file,
        open: Vec::new(),
        root: None,
        anchors: HashMap::new(),
        values: 0,
        documents: 0,
    };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => {
                let at = builder.span(span.start, span.end);
                if let Err(kind) = builder.take(event, at, cx) {
                    cx.error(at, kind);
                    return None;
                }
            }
            Err(error) => {
                let at = builder.span(*error.marker(), *error.marker());
                cx.error(at, ErrorKind::Syntax(error.info().to_owned()));
                return None;
            }
        }
    }
    let empty = Span {
        file,
        line: 1,
        column: 1,
        width: 1,
    };
    Some(builder.root.unwrap_or(Node {
        span: empty,
        value: Value::Map(Vec::new()),
    }))
}

struct Builder {
    file: usize,
    open: Vec<Open>,
    root: Option<Node>,
    anchors: HashMap<usize, Node>,
    values: usize,
    documents: usize,
}

/// A list or map that is not at its end.
struct Open {
    node: Node,
    anchor: usize,
    key: Option<Key>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Span, cx: &mut Context<'_>) -> Result<(), ErrorKind> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(ErrorKind::TooLarge("there are more than 1,000,000 values"));
        }
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(ErrorKind::SecondDocument);
                }
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(ErrorKind::Syntax(
                        "an alias within its own anchor".to_owned(),
                    ));
                };
                self.values += node.size();
                if self.values > MAX_VALUES {
                    return Err(ErrorKind::TooLarge(
                        "aliases make more than 1,000,000 values",
                    ));
                }
                let node = node.clone();
                self.put(node, 0)?;
            }
            Event::Scalar(text, style, anchor, _) => {
                let plain = style == ScalarStyle::Plain;
                let text = if self.expects_key() || self.is_rule() {
                    text.into_owned()
                } else {
                    expand(&text, at, cx)
                };
                self.put(
                    Node {
                        span: at,
                        value: Value::Scalar { text, plain },
                    },
                    anchor,
                )?;
            }
            Event::SequenceStart(anchor, _) => self.open(Value::List(Vec::new()), at, anchor)?,
            Event::MappingStart(anchor, _) => self.open(Value::Map(Vec::new()), at, anchor)?,
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { node, anchor, .. }) = self.open.pop() {
                    self.put(node, anchor)?;
                }
            }
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        self.open
            .last()
            .is_some_and(|open| open.key.is_none() && open.node.is_map())
    }

    /// Whether what comes is a rule's text, in which `${` is the rule's own.
    fn is_rule(&self) -> bool {
        let [_, section, rule] = &self.open[..] else {
            return false;
        };
        let is = |open: &Open, name| open.key.as_ref().is_some_and(|key| key.text == name);
        is(&self.open[0], "rules") && section.key.is_some() && is(rule, "text")
    }

    fn open(&mut self, value: Value, span: Span, anchor: usize) -> Result<(), ErrorKind> {
        if self.expects_key() {
            return Err(ErrorKind::Syntax("a key must be a plain text".to_owned()));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(ErrorKind::TooLarge(
                "lists and maps are nested more than 32 deep",
            ));
        }
        // a map's span ends where it does, which is no use: its beginning is what can be shown
        let node = Node {
            span: Span { width: 1, ..span },
            value,
        };
        self.open.push(Open {
            node,
            anchor,
            key: None,
        });
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<(), ErrorKind> {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.node.value {
            Value::List(items) => items.push(node),
            Value::Map(entries) => match (open.key.take(), node) {
                (Some(key), node) => entries.push((key, node)),
                (
                    None,
                    Node {
                        span,
                        value: Value::Scalar { text, .. },
                    },
                ) => open.key = Some(Key { span, text }),
                (None, _) => {
                    return Err(ErrorKind::Syntax("a key must be a plain text".to_owned()));
                }
            },
            Value::Scalar { .. } => unreachable!("only lists and maps are opened"),
        }
        Ok(())
    }

    fn span(&self, start: Marker, end: Marker) -> Span {
        let width = end.index().saturating_sub(start.index()).max(1);
        Span {
            file: self.file,
            line: start.line().max(1),
            column: start.col() + 1,
            width,
        }
    }
}

/// Puts environment variables in: `${NAME}` and `${NAME:-default}`; `$${` stands for `${`.
fn expand(text: &str, at: Span, cx: &mut Context<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find("${") {
        let (before, after) = (&rest[..dollar], &rest[dollar + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let Some(end) = after.find('}') else {
            cx.error(at, ErrorKind::BadVariable);
            return out;
        };
        let (name, default) = match after[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&after[..end], None),
        };
        rest = &after[end + 1..];
        let valid =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        match cx
            .env(name)
            .filter(|value| !value.is_empty() || default.is_none())
        {
            _ if !valid => cx.error(at, ErrorKind::BadVariable),
            Some(value) => out.push_str(&value),
            None => match default {
                Some(default) => out.push_str(default),
                None => cx.error(at, ErrorKind::NoVariable(name.to_owned())),
            },
        }
    }
    out.push_str(rest);
    out
}
