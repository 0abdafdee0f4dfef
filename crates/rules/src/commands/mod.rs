//! Tcl's own commands, but for those that the compiler knows.

use crate::command::Command;

/// The tables of all of them.
pub(crate) const TABLES: &[&[Command]] = &[];
