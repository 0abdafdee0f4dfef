//! Tcl's own commands, but for those that the compiler knows.

#[cfg(test)]
mod against_tclsh;
mod array;
mod binary;
mod clock;
mod ensemble;
mod format;
#[cfg(test)]
mod hostile;
mod info;
mod later;
mod list;
pub(crate) mod regexp;
mod scan;
mod scopes;
mod string;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use ensemble::sub;

use crate::command::Command;
use crate::regex::glob;

/// The tables of all of them.
pub(crate) const TABLES: &[&[Command]] = &[
    array::COMMANDS,
    binary::COMMANDS,
    clock::COMMANDS,
    format::COMMANDS,
    info::COMMANDS,
    later::COMMANDS,
    list::COMMANDS,
    regexp::COMMANDS,
    scan::COMMANDS,
    scopes::COMMANDS,
    string::COMMANDS,
];

/// Texts put together with spaces between, as `concat` and `eval` do.
pub(crate) fn concat(args: &[crate::value::Value]) -> crate::value::Value {
    let mut text = Vec::new();
    for arg in args {
        let part = arg.bytes();
        let part = list::trimmed(&part);
        if !part.is_empty() {
            if !text.is_empty() {
                text.push(b' ');
            }
            text.extend_from_slice(part);
        }
    }
    crate::value::Value::from(text)
}
