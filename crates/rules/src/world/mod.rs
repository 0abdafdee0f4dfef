//! F5's commands: HTTP, TCP, balancing, tables, cryptography and the rest of the world of a rule.

use crate::command::Command;

/// The tables of all of them.
pub(crate) const TABLES: &[&[Command]] = &[];
