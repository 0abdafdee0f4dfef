//! Names: of the compiler's own commands and of those that BIG-IP disables; of variables in words; and the places of texts
//! that stand nowhere in their rule.

use crate::ast::{At, Part, Script, Word};
use crate::vm::split_name;

/// Tcl commands that BIG-IP disables: why, and which.
pub(crate) const DISABLED: &[(&str, &[&str])] = &[
    (
        "rules have no files and start no programs",
        &[
            "cd",
            "eof",
            "exec",
            "fblocked",
            "fconfigure",
            "fcopy",
            "file",
            "fileevent",
            "filename",
            "flush",
            "gets",
            "glob",
            "open",
            "pid",
            "puts",
            "pwd",
            "read",
            "seek",
            "tell",
        ],
    ),
    ("use connect, send and recv", &["socket"]),
    (
        "a rule is one text, and nothing is loaded from elsewhere",
        &[
            "auto_execok",
            "auto_import",
            "auto_load",
            "auto_mkindex",
            "auto_mkindex_old",
            "auto_qualify",
            "auto_reset",
            "load",
            "package",
            "pkg::create",
            "pkg_mkIndex",
            "source",
            "unknown",
            "unload",
        ],
    ),
    (
        "it would reach beyond the rule",
        &[
            "bgerror",
            "encoding",
            "exit",
            "history",
            "http",
            "interp",
            "memory",
            "namespace",
            "rename",
            "tcl_findLibrary",
            "trace",
        ],
    ),
    (
        "a rule waits by after, collect and their like",
        &["time", "update", "vwait"],
    ),
];

/// Why BIG-IP disables a command, if it does.
pub(crate) fn disabled(name: &str) -> Option<&'static str> {
    let (why, _) = DISABLED.iter().find(|(_, names)| names.contains(&name))?;
    Some(why)
}

/// Commands that the compiler knows itself.
pub(crate) const SPECIAL: &[&str] = &[
    "append",
    "break",
    "call",
    "catch",
    "clientside",
    "continue",
    "error",
    "eval",
    "expr",
    "for",
    "foreach",
    "if",
    "incr",
    "lappend",
    "peer",
    "proc",
    "return",
    "serverside",
    "set",
    "subst",
    "switch",
    "unset",
    "uplevel",
    "while",
];

/// Has all of a script stand at one place.
pub(super) fn settle(script: &mut Script, at: At) {
    for command in &mut script.commands {
        (command.at, command.end) = (at, at);
        for word in &mut command.words {
            word.at = at;
            // Where its text was, it is not any more.
            word.inner = None;
            settle_parts(&mut word.parts, at);
        }
    }
}

fn settle_parts(parts: &mut [Part], at: At) {
    for part in parts {
        match part {
            Part::Text(_) => {}
            Part::Script(script) => settle(script, at),
            Part::Var(var) => {
                var.at = at;
                settle_parts(var.index.as_deref_mut().unwrap_or(&mut []), at);
            }
        }
    }
}

/// A variable's word: its name, and the parts of its index.
pub(crate) enum Named<'w> {
    /// Known now.
    Plain(&'w [u8], Option<Vec<Part>>),
    /// Known when it is run.
    Computed,
}

/// Takes a word that names a variable apart: `a`, `a(b)`, `a($i)`.
pub(crate) fn named(word: &Word) -> Named<'_> {
    match word.parts.as_slice() {
        [Part::Text(text)] => {
            let (name, index) = split_name(text);
            Named::Plain(name, index.map(|index| vec![Part::Text(index.to_vec())]))
        }
        [Part::Text(first), rest @ ..] => {
            let Some(open) = memchr::memchr(b'(', first) else {
                return Named::Computed;
            };
            let Some(Part::Text(last)) = rest.last() else {
                return Named::Computed;
            };
            if last.last() != Some(&b')') {
                return Named::Computed;
            }
            let mut index = Vec::new();
            if open + 1 < first.len() {
                index.push(Part::Text(first[open + 1..].to_vec()));
            }
            index.extend_from_slice(&rest[..rest.len() - 1]);
            if last.len() > 1 {
                index.push(Part::Text(last[..last.len() - 1].to_vec()));
            }
            Named::Plain(&first[..open], Some(index))
        }
        _ => Named::Computed,
    }
}
