//! What the parser makes of a rule's text, and the compiler makes bytecode of.
//!
//! Every node knows where it stands, as an offset into the whole text of its rule, so that an error found late can still
//! name its line and column.

use crate::value::Value;
use std::ops::Range;

/// Where something stands: bytes from the start of the rule's text.
pub type At = u32;

/// A sequence of commands.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// In their order.
    pub commands: Vec<Command>,
}

/// A command: its words, the first of which names it.
#[derive(Clone, Debug)]
pub struct Command {
    /// At least one.
    pub words: Vec<Word>,
    /// Where its first word begins.
    pub at: At,
    /// Where its last word ends.
    pub end: At,
}

/// One word of a command.
#[derive(Clone, Debug)]
pub struct Word {
    /// What it is put together of; nothing for an empty word. Neighbouring texts are one part.
    pub parts: Vec<Part>,
    /// Where it begins, its quote or brace included.
    pub at: At,
    /// How it was written.
    pub kind: WordKind,
    /// For a word in braces: the bytes of the text between them, as they stand in the rule.
    pub inner: Option<Range<u32>>,
}

/// How a word was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordKind {
    /// Without quotes.
    Bare,
    /// In double quotes.
    Quoted,
    /// In braces: nothing in it is substituted.
    Braced,
}

/// A part of a word.
#[derive(Clone, Debug)]
pub enum Part {
    /// Text, its backslashes substituted.
    Text(Vec<u8>),
    /// A variable's value.
    Var(Var),
    /// The result of a script in brackets.
    Script(Script),
}

/// A variable that is read: `$name`, `${name}`, `$name(index)`.
#[derive(Clone, Debug)]
pub struct Var {
    /// Without its index; `::` and all that stands before are part of it.
    pub name: Vec<u8>,
    /// What stands in parentheses, for an array's element.
    pub index: Option<Vec<Part>>,
    /// Where its `$` stands.
    pub at: At,
}

impl Word {
    /// The word's text, where nothing is substituted at run time.
    pub fn literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A number, a word that is a boolean, or text in braces, without anything substituted.
    Literal(Value),
    /// A variable's value.
    Var(Var),
    /// The result of a script in brackets.
    Script(Script),
    /// Text in double quotes with substitutions.
    Quoted(Vec<Part>),
    /// An operator before its operand.
    Unary(Unary, Box<Expr>),
    /// An operator between its operands, both of which are always evaluated.
    Binary(Binary, Box<(Expr, Expr)>),
    /// `&&`, `and`: the right one is evaluated only if the left one is true.
    And(Box<(Expr, Expr)>),
    /// `||`, `or`.
    Or(Box<(Expr, Expr)>),
    /// `a ? b : c`.
    Choose(Box<(Expr, Expr, Expr)>),
    /// A function of mathematics by its name, which was checked to exist, with the arguments it takes.
    Call(Function, Vec<Expr>),
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is its name")]
pub enum Unary {
    Minus,
    Plus,
    /// `~`
    BitNot,
    /// `!` and F5's `not`
    Not,
}

/// Operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is its name")]
pub enum Binary {
    Multiply,
    Divide,
    Modulo,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    /// `==`: as numbers if both are, else as text
    Equal,
    /// `!=`
    NotEqual,
    /// `eq` and F5's `equals`: as text
    TextEqual,
    /// `ne`
    TextNotEqual,
    BitAnd,
    BitXor,
    BitOr,
    /// F5's `contains`
    Contains,
    /// F5's `starts_with`
    StartsWith,
    /// F5's `ends_with`
    EndsWith,
    /// F5's `matches_glob` and `matches`: the whole of the text
    MatchesGlob,
    /// F5's `matches_regex`
    MatchesRegex,
}

/// Functions of mathematics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is its name")]
pub enum Function {
    Abs,
    Acos,
    Asin,
    Atan,
    Atan2,
    Ceil,
    Cos,
    Cosh,
    Double,
    Exp,
    Floor,
    Fmod,
    Hypot,
    Int,
    Log,
    Log10,
    Pow,
    Rand,
    Round,
    Sin,
    Sinh,
    Sqrt,
    Srand,
    Tan,
    Tanh,
    Wide,
}
