//! Scripts: commands, one after the other.

use super::SyntaxError;
use super::cursor::Cursor;
use crate::ast::Script;
use std::ops::Range;

/// Reads the commands in `range` of `source`, as Tcl 8.4 does and with what BIG-IP allows beyond it: a word may begin
/// right after a closing brace, or be an opening brace right after a closing quote, and an `else` or `elseif` may begin
/// the line after its `if`.
///
/// Offsets in what comes of it count from the start of `source`.
///
/// # Errors
///
/// Tcl's for text that is no script.
pub fn script(source: &[u8], range: Range<u32>) -> Result<Script, SyntaxError> {
    cursor(source, range).commands(None)
}

/// At the start of `range`, with its end for an end.
pub(super) fn cursor(source: &[u8], range: Range<u32>) -> Cursor<'_> {
    let end = (range.end as usize).min(source.len());
    let start = (range.start as usize).min(end);
    Cursor::new(&source[..end], start)
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
