//! Tcl's own commands, but for those that the compiler knows.

mod ensemble;
mod glob;
mod string;
#[cfg(test)]
pub(crate) mod testing;

use crate::command::Command;
use glob::glob;

/// The tables of all of them.
pub(crate) const TABLES: &[&[Command]] = &[string::COMMANDS];
