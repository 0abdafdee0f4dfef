//! What can be written for a setting, as data: the ground of the JSON Schema and of the reference.

use serde_json::{Value as Json, json};

/// What can be written.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Scalar {
        /// A word for tables: `duration`.
        name: &'static str,
        /// With its article and examples.
        form: &'static str,
        schema: Json,
    },
    Optional {
        of: Box<Shape>,
        /// Whether `off` can be written for none.
        off: bool,
    },
    List(Box<Shape>),
    Map(Box<Shape>),
    Struct(Struct),
    Enum(Enum),
}

#[derive(Clone, Debug)]
pub(crate) struct Struct {
    pub(crate) name: &'static str,
    pub(crate) doc: String,
    /// What may be written in place of the map.
    pub(crate) short: Option<&'static str>,
    pub(crate) fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) doc: String,
    pub(crate) shape: Shape,
    /// None where the field must be given.
    pub(crate) default: Option<Json>,
    /// As it is written.
    pub(crate) range: Option<Range>,
}

#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Both as they are written.
    pub(crate) text: (String, String),
}

#[derive(Clone, Debug)]
pub(crate) struct Enum {
    pub(crate) name: &'static str,
    pub(crate) doc: String,
    /// What may be written beside the words.
    pub(crate) short: Option<&'static str>,
    pub(crate) variants: Vec<Variant>,
}

#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) word: &'static str,
    pub(crate) doc: String,
    /// What it carries: `{word: …}`.
    pub(crate) of: Option<Shape>,
}

impl Shape {
    pub(crate) fn scalar(name: &'static str, form: &'static str, schema: Json) -> Self {
        Self::Scalar { name, form, schema }
    }

    /// A scalar that is always a text in JSON's terms.
    pub(crate) fn text(name: &'static str, form: &'static str) -> Self {
        Self::scalar(name, form, json!({"type": "string"}))
    }
}

/// Any text.
pub(crate) const TEXT: fn() -> Shape = || Shape::text("text", "a text");

/// A doc comment as one text.
pub(crate) fn doc(lines: &[&str]) -> String {
    lines
        .iter()
        .map(|line| line.trim())
        .collect::<Vec<_>>()
        .join(" ")
        .trim()
        .to_owned()
}
