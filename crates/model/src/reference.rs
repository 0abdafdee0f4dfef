//! The reference of the configuration as Markdown, from the types.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::Value as Json;

use crate::Variable;
use crate::config::Config;
use crate::setting::{Setting, phrase};
use crate::shape::{Enum, Field, Shape, Struct};

/// The reference of the configuration, in Markdown: every field with its form, default and meaning.
#[must_use]
pub fn reference() -> String {
    let places = Variable::ALL
        .map(|variable| format!("`{{{}}}`", variable.as_str()))
        .join(", ");
    let mut out = INTRODUCTION.replace("TEMPLATE_PLACES", &places);
    let mut seen = HashSet::new();
    section(&Config::shape(), &mut seen, &mut out);
    out
}

const INTRODUCTION: &str = "# Configuration

<!-- Generated from the types of crates/model: UPDATE_DOCS=1 cargo test -p model -->

Headgate reads one YAML file and those it includes. `headgate check FILE` says whether it is good, and if not, what is
wrong in which line. `headgate schema` prints a JSON Schema, with which editors complete and check the file while you
type. A change is taken over as a whole or not at all.

What holds everywhere:

- An unknown field is an error, as is a field given twice.
- A list of one entry may be written as the entry alone: `monitors: web`.
- Durations have a unit: `250ms`, `2s`, `1m30s`, `1h`; the units are `us`, `ms`, `s`, `m`, `h` and `d`.
- Sizes are bytes, or have a unit: `4096`, `16KiB`, `1MB`.
- Paths are relative to the file they stand in.
- `${NAME}` in a value is the environment variable; without it being set that is an error. `${NAME:-text}` has a
  default. `$${` stands for `${` itself.
- Secrets stand in files of their own, never in the configuration.
- Where templates are allowed, these places are filled in: TEMPLATE_PLACES.
  `{{` and `}}` stand for the braces themselves.
- Where a whole group is optional, `off` stands for its absence.
";

fn section(shape: &Shape, seen: &mut HashSet<&'static str>, out: &mut String) {
    match shape {
        Shape::Scalar { .. } => {}
        Shape::Optional { of, .. } | Shape::List(of) | Shape::Map(of) => section(of, seen, out),
        Shape::Struct(shape) => {
            if seen.insert(shape.name) {
                of_struct(shape, out);
                shape
                    .fields
                    .iter()
                    .for_each(|field| section(&field.shape, seen, out));
            }
        }
        Shape::Enum(shape) => {
            if seen.insert(shape.name) {
                of_enum(shape, out);
                let carried = shape
                    .variants
                    .iter()
                    .filter_map(|variant| variant.of.as_ref());
                carried.for_each(|shape| section(shape, seen, out));
            }
        }
    }
}

fn of_struct(shape: &Struct, out: &mut String) {
    put(
        out,
        format_args!("\n## {}\n\n{}\n", title(shape.name), shape.doc),
    );
    if let Some(short) = shape.short {
        put(out, format_args!("\nMay also be written as {short}.\n"));
    }
    put(
        out,
        format_args!("\n| field | form | default | meaning |\n| --- | --- | --- | --- |\n"),
    );
    for field in &shape.fields {
        let (form, default) = (form(&field.shape), default(field));
        let range = field.range.as_ref().map_or(String::new(), |r| {
            format!(" From {} to {}.", r.text.0, r.text.1)
        });
        put(
            out,
            format_args!(
                "| `{}` | {form} | {default} | {}{range} |\n",
                field.name,
                cell(&field.doc)
            ),
        );
    }
}

fn of_enum(shape: &Enum, out: &mut String) {
    put(
        out,
        format_args!("\n## {}\n\n{}\n", title(shape.name), shape.doc),
    );
    if let Some(short) = shape.short {
        put(out, format_args!("\nMay also be written as {short}.\n"));
    }
    put(out, format_args!("\n| value | meaning |\n| --- | --- |\n"));
    for variant in &shape.variants {
        let value = match &variant.of {
            None => format!("`{}`", variant.word),
            Some(of) => format!("`{}:` {}", variant.word, form(of)),
        };
        put(out, format_args!("| {value} | {} |\n", cell(&variant.doc)));
    }
}

fn form(shape: &Shape) -> String {
    match shape {
        Shape::Scalar { name, .. } => (*name).to_owned(),
        Shape::Optional { of, off: false } => form(of),
        Shape::Optional { of, off: true } => format!("{} or `off`", form(of)),
        Shape::List(of) => format!("list of {}", form(of)),
        Shape::Map(of) => format!("map of names to {}", form(of)),
        Shape::Struct(Struct { name, .. }) | Shape::Enum(Enum { name, .. }) => {
            let title = title(name);
            format!(
                "[{}](#{})",
                phrase(name),
                title.to_lowercase().replace(' ', "-")
            )
        }
    }
}

fn default(field: &Field) -> String {
    match &field.default {
        None => "required".to_owned(),
        Some(Json::Null) => String::new(),
        Some(Json::Object(map)) if map.is_empty() => String::new(),
        // its own table has the defaults
        Some(Json::Object(_)) => "as there".to_owned(),
        Some(Json::Array(items)) if items.is_empty() => String::new(),
        Some(Json::String(text)) if text.is_empty() => String::new(),
        Some(Json::String(text)) => format!("`{text}`"),
        Some(Json::Array(items)) => {
            let items: Vec<_> = items
                .iter()
                .map(|item| item.as_str().map_or(item.to_string(), str::to_owned))
                .collect();
            format!("`[{}]`", items.join(", "))
        }
        Some(other) => format!("`{other}`"),
    }
}

fn title(name: &str) -> String {
    let phrase = phrase(name);
    let phrase = phrase.strip_prefix("the ").unwrap_or(&phrase);
    let first = phrase
        .chars()
        .next()
        .map(|c| c.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}", phrase.get(1..).unwrap_or_default())
}

/// Text that stays within its cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes what is written");
}
