//! From a rule's text to its syntax: scripts, expressions, whole rules, and the text of `subst`. What the commands
//! mean, and which of their words are scripts or expressions, is left to the compiler.
//!
//! All of it takes time in proportion to the text, whatever the text is, and recurses no deeper than [`NESTING`].

mod cursor;
mod expr;
mod position;
mod rule;
mod script;
mod subst;

pub use cursor::backslash;
pub use expr::{HEIGHT, expr};
pub use position::{line_column, line_text};
pub use rule::{HandlerAst, MOST_ERRORS, PRIORITIES, Param, ProcAst, RuleAst, rule};
pub use script::script;
pub use subst::subst;

use crate::ast::At;

/// How deep brackets, indices and parentheses may stand in each other within one text.
pub const NESTING: u32 = 200;

/// A text that is no script, expression or rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Where it went wrong; for a bracket, brace or quote without its pair, where that stands.
    pub at: At,
    /// What is wrong, in Tcl's words where it has some: scripts see it, when it is raised by `eval` or `expr`.
    pub message: String,
    /// What may help the author; scripts do not see it.
    pub hint: Option<String>,
}

impl SyntaxError {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self {
            at: offset(at),
            message: message.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Texts are far shorter than 4 GiB: both a rule's size and a script's memory are bounded before they come here.
fn offset(at: usize) -> At {
    At::try_from(at).unwrap_or(At::MAX)
}

#[cfg(test)]
mod testing;
