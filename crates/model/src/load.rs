//! From files to a configuration: the main file, what it includes, and whether every name that is referred to exists.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::check;
use crate::config::Config;
use crate::error::{ErrorKind, Errors, nearest};
use crate::node::{self, Key, Node, Value};
use crate::setting::{Context, Kind, Setting};
use crate::source::Source;

/// Reads the configuration of the file `path` and of those it includes.
///
/// # Errors
/// Everything that is wrong, up to 100 places.
pub fn parse(path: &Path, source: &dyn Source) -> Result<Config, Errors> {
    match source.read(path) {
        Ok(text) => parse_text(path, &text, source),
        Err(error) => {
            let mut cx = Context::new(source);
            let file = cx.add_file(path.to_owned(), "");
            let kind = ErrorKind::Unreadable {
                path: path.to_owned(),
                reason: error.to_string(),
            };
            cx.error(
                node::Span {
                    file,
                    line: 1,
                    column: 1,
                    width: 1,
                },
                kind,
            );
            Err(Errors(cx.errors))
        }
    }
}

/// Reads the configuration `text` as if it stood in the file `path`.
///
/// # Errors
/// Everything that is wrong, up to 100 places.
pub fn parse_text(path: &Path, text: &str, source: &dyn Source) -> Result<Config, Errors> {
    let mut cx = Context::new(source);
    let file = cx.add_file(path.to_owned(), text);
    let config = node::read(file, &mut cx).and_then(|root| decode(root, &mut cx));
    // the order of the text, whatever order the checks ran in
    cx.errors.sort_by(|a, b| {
        (&a.place.file, a.place.line, a.place.column).cmp(&(
            &b.place.file,
            b.place.line,
            b.place.column,
        ))
    });
    match config {
        Some(config) if cx.errors.is_empty() => Ok(config),
        _ => Err(Errors(cx.errors)),
    }
}

/// The sections that included files may have.
const SHARED: [&str; 8] = [
    "virtuals",
    "pools",
    "monitors",
    "tls_profiles",
    "address_lists",
    "rules",
    "data_groups",
    "ifiles",
];

fn decode(mut root: Node, cx: &mut Context<'_>) -> Option<Config> {
    if root.is_null() {
        root.value = Value::Map(Vec::new());
    }
    for path in included(&root, cx) {
        include(&mut root, path, cx);
    }
    let config = Config::decode(&root, cx);
    check_references(&root, cx);
    check::listeners(&root, cx);
    check::offered_protocols(&root, cx);
    if let Some(config) = &config {
        check::fast::services(config, &root, cx);
    }
    config
}

/// The files that the main file includes, each once, those of a pattern in order of their names.
fn included(root: &Node, cx: &mut Context<'_>) -> Vec<(PathBuf, Node)> {
    let mut found: Vec<(PathBuf, Node)> = Vec::new();
    let Some(patterns) = root.get("include").filter(|node| !node.is_null()) else {
        return found;
    };
    for node in patterns.items() {
        // what is no text is reported when the field is decoded
        let Some(pattern) = node.scalar() else {
            continue;
        };
        let path = cx.resolve(pattern, node.span);
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let mut paths = vec![path.clone()];
        if name.contains(['*', '?']) {
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            paths = cx.list(&folder, node).unwrap_or_default();
            paths.retain(|path| {
                path.file_name()
                    .is_some_and(|file| matches(&name, &file.to_string_lossy()))
            });
            paths.sort();
        }
        for path in paths {
            if !found.iter().any(|(known, _)| *known == path) {
                found.push((path, node.clone()));
            }
        }
    }
    found
}

/// Adds what the file `path` has to the main file's sections. Names given twice are found when those are decoded.
fn include(root: &mut Node, (path, from): (PathBuf, Node), cx: &mut Context<'_>) {
    let Some(text) = cx.read(&path, &from) else {
        return;
    };
    let file = cx.add_file(path, &text);
    let Some(tree) = node::read(file, cx).filter(|tree| !tree.is_null()) else {
        return;
    };
    let Value::Map(sections) = tree.value else {
        let kind = ErrorKind::WrongType {
            expected: "a map of sections".to_owned(),
            found: tree.describe(),
        };
        cx.error(tree.span, kind);
        return;
    };
    for (key, section) in sections {
        if !SHARED.contains(&key.text.as_str()) {
            cx.error(key.span, ErrorKind::OnlyInMain(key.text));
        } else if !section.is_null() {
            merge(root, key, section, cx);
        }
    }
}

fn merge(root: &mut Node, key: Key, section: Node, cx: &mut Context<'_>) {
    let Value::Map(sections) = &mut root.value else {
        return;
    };
    match sections
        .iter_mut()
        .find(|(known, _)| known.text == key.text)
    {
        None => sections.push((key, section)),
        Some((_, known)) if known.is_null() => *known = section,
        Some((_, known)) => match (&mut known.value, section) {
            (
                Value::Map(entries),
                Node {
                    value: Value::Map(more),
                    ..
                },
            ) => entries.extend(more),
            (_, section) => {
                let kind = ErrorKind::WrongType {
                    expected: "a map".to_owned(),
                    found: section.describe(),
                };
                cx.error(section.span, kind);
            }
        },
    }
}

fn check_references(root: &Node, cx: &mut Context<'_>) {
    let names = |section| -> HashSet<&str> {
        let entries = root.get(section).map_or(&[][..], Node::entries);
        entries.iter().map(|(key, _)| key.text.as_str()).collect()
    };
    let (pools, monitors) = (names("pools"), names("monitors"));
    let (tls_profiles, address_lists) = (names("tls_profiles"), names("address_lists"));
    let rules = names("rules");
    for (kind, name, span) in std::mem::take(&mut cx.references) {
        let (known, of) = match kind {
            Kind::Pool => (&pools, "pool"),
            Kind::Monitor => (&monitors, "monitor"),
            Kind::TlsProfile => (&tls_profiles, "TLS profile"),
            Kind::AddressList => (&address_lists, "address list"),
            Kind::Rule => (&rules, "rule"),
        };
        if known.contains(name.as_str()) {
            continue;
        }
        if cx.is_full() {
            return;
        }
        let nearest = nearest(&name, known.iter().copied());
        let kind = ErrorKind::UnknownReference {
            of: of.to_owned(),
            name: name.to_string(),
            nearest,
        };
        cx.error(span, kind);
    }
}

/// Whether a file's name fits a pattern of `*` and `?`. Hidden files need a pattern that begins with their dot.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // where the last `*` stood, and how much of the name it has taken so far
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, taken)) = star else {
                    return false;
                };
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_would() {
        for (pattern, name, expected) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", ".yaml", false),
            ("*.yaml", "a.yaml.bak", false),
            ("a*b*c", "a-bb-c", true),
            ("a*b*c", "a-bb-", false),
            ("?.yaml", "ab.yaml", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
