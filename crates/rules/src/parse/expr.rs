//! Expressions: Tcl 8.4's, with the word operators of BIG-IP.

use super::SyntaxError;
use super::cursor::Cursor;
use super::script::cursor;
use crate::ast::{Binary, Expr, Function, Part, Unary};
use crate::value::Value;
use std::ops::Range;

/// How deep the tree of an expression may be, which long chains of operators deepen without any parentheses. Chains of
/// `&&` and of `||` may be as long as they like.
pub const HEIGHT: u32 = 500;

/// Reads the expression in `range` of `source`. Offsets in what comes of it count from the start of `source`.
///
/// The operators of BIG-IP that compare (`contains`, `starts_with`, …) bind as `==` and `eq` do, `and` as `&&`, `or` as
/// `||`; `not` binds as `!` does, tighter than all of them.
///
/// # Errors
///
/// Those of Tcl 8.4 for what is no expression, an unknown function or a wrong number of arguments.
pub fn expr(source: &[u8], range: Range<u32>) -> Result<Expr, SyntaxError> {
    let cursor = cursor(source, range);
    let mut parser = Parser {
        start: cursor.at,
        cursor,
    };
    let node = parser.choice()?;
    match parser.token() {
        None => Ok(node.expr),
        Some(b')') => Err(parser.error("unexpected close parenthesis")),
        Some(b',') => Err(parser.error("commas can only separate function arguments")),
        Some(b':') => Err(parser.error("unexpected ternary 'else' separator")),
        Some(b'=') => Err(parser.single_equality()),
        Some(_) => Err(parser.extra_tokens()),
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    /// Where the expression begins.
    start: usize,
}

/// An expression and how deep its tree is.
struct Node {
    expr: Expr,
    height: u32,
}

impl Node {
    fn leaf(expr: Expr) -> Self {
        Self { expr, height: 1 }
    }
}

impl Parser<'_> {
    /// `a ? b : c`, or what binds tighter.
    fn choice(&mut self) -> Result<Node, SyntaxError> {
        let condition = self.chain(1)?;
        if self.token() != Some(b'?') {
            return Ok(condition);
        }
        self.cursor.at += 1;
        self.cursor.enter()?;
        let yes = self.choice()?;
        if self.token() != Some(b':') {
            return Err(self.error("missing colon from ternary conditional"));
        }
        self.cursor.at += 1;
        let no = self.choice()?;
        self.cursor.leave();
        let height = condition.height.max(yes.height).max(no.height);
        let expr = Expr::Choose(Box::new((condition.expr, yes.expr, no.expr)));
        self.node(expr, height)
    }

    /// Operators that bind at least as tight as `least`, and their operands.
    fn chain(&mut self, least: u8) -> Result<Node, SyntaxError> {
        let mut left = self.unary()?;
        while let Some((operator, length)) = self.operator() {
            let tightness = operator.tightness();
            if tightness < least {
                break;
            }
            self.cursor.at += length;
            self.cursor.enter()?;
            left = match operator {
                Operator::Binary(operator) => {
                    let right = self.chain(tightness + 1)?;
                    let height = left.height.max(right.height);
                    let expr = Expr::Binary(operator, Box::new((left.expr, right.expr)));
                    self.node(expr, height)?
                }
                lazy => self.lazy_chain(lazy, left)?,
            };
            self.cursor.leave();
        }
        Ok(left)
    }

    /// `&&` or `||`, as many as follow each other. Their tree is kept shallow: how they are grouped makes no difference.
    fn lazy_chain(&mut self, operator: Operator, first: Node) -> Result<Node, SyntaxError> {
        let mut terms = vec![first];
        loop {
            terms.push(self.chain(operator.tightness() + 1)?);
            match self.operator() {
                Some((next, length)) if next == operator => self.cursor.at += length,
                _ => break,
            }
        }
        while terms.len() > 1 {
            let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
            let mut rest = terms.into_iter();
            while let Some(left) = rest.next() {
                let Some(right) = rest.next() else {
                    pairs.push(left);
                    break;
                };
                let height = left.height.max(right.height);
                let both = Box::new((left.expr, right.expr));
                let expr = match operator {
                    Operator::And => Expr::And(both),
                    _ => Expr::Or(both),
                };
                pairs.push(self.node(expr, height)?);
            }
            terms = pairs;
        }
        terms
            .pop()
            .ok_or_else(|| self.error("premature end of expression"))
    }

    fn unary(&mut self) -> Result<Node, SyntaxError> {
        let (operator, length) = match self.token() {
            Some(b'-') => (Unary::Minus, 1),
            Some(b'+') => (Unary::Plus, 1),
            Some(b'~') => (Unary::BitNot, 1),
            Some(b'!') if !self.follows(b"!=") => (Unary::Not, 1),
            Some(b'n') if self.word() == b"not" => (Unary::Not, 3),
            _ => return self.primary(),
        };
        self.cursor.at += length;
        self.cursor.enter()?;
        let operand = self.unary()?;
        self.cursor.leave();
        let expr = Expr::Unary(operator, Box::new(operand.expr));
        self.node(expr, operand.height)
    }

    fn primary(&mut self) -> Result<Node, SyntaxError> {
        let Some(byte) = self.token() else {
            return Err(self.error("premature end of expression"));
        };
        let expr = match byte {
            b'(' => return self.parenthesized(),
            b'$' => match self.cursor.variable()? {
                Some(var) => Expr::Var(var),
                None => return Err(self.error("character not legal in expressions")),
            },
            b'[' => Expr::Script(self.cursor.bracketed()?),
            b'"' => quoted(self.cursor.quoted()?),
            b'{' => Expr::Literal(Value::literal(&self.cursor.braced()?)),
            b'0'..=b'9' | b'.' => match self.number() {
                0 => return Err(self.error("character not legal in expressions")),
                length => {
                    let text = &self.rest()[..length];
                    let literal = Value::literal(text);
                    self.cursor.at += length;
                    Expr::Literal(literal)
                }
            },
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => return self.named(),
            _ => return Err(self.no_operand(byte)),
        };
        Ok(Node::leaf(expr))
    }

    fn parenthesized(&mut self) -> Result<Node, SyntaxError> {
        let open = self.cursor.at;
        self.cursor.at += 1;
        self.cursor.enter()?;
        let inner = self.choice()?;
        self.cursor.leave();
        if self.token() != Some(b')') {
            if self.token() == Some(b'=') {
                return Err(self.single_equality());
            }
            return Err(self.error_at(open, "looking for close parenthesis"));
        }
        self.cursor.at += 1;
        Ok(inner)
    }

    /// A boolean or a function.
    fn named(&mut self) -> Result<Node, SyntaxError> {
        let at = self.cursor.at;
        let name = self.word();
        if BOOLEANS.contains(&name) {
            let literal = Value::new(name);
            self.cursor.at += name.len();
            return Ok(Node::leaf(Expr::Literal(literal)));
        }
        let known = FUNCTIONS.iter().find(|known| known.0.as_bytes() == name);
        let quoted = String::from_utf8_lossy(name).into_owned();
        self.cursor.at += name.len();
        if self.token() != Some(b'(') {
            let error = match known {
                Some(_) => "expected parenthesis enclosing function arguments",
                None => "variable references require preceding $",
            };
            return Err(self.error_at(at, error));
        }
        let Some(&(_, function, arity)) = known else {
            let message = format!("unknown math function \"{quoted}\"");
            return Err(SyntaxError::new(at, message));
        };
        let open = self.cursor.at;
        self.cursor.at += 1;
        self.cursor.enter()?;
        let mut arguments = Vec::new();
        let mut height = 0;
        while self.token() != Some(b')') {
            let argument = self.choice()?;
            height = height.max(argument.height);
            arguments.push(argument.expr);
            match self.token() {
                Some(b',') => self.cursor.at += 1,
                Some(b')') => {}
                _ => {
                    let message = "missing close parenthesis at end of function call";
                    return Err(self.error_at(open, message));
                }
            }
        }
        self.cursor.at += 1;
        self.cursor.leave();
        if arguments.len() != arity {
            let many = if arguments.len() > arity {
                "many"
            } else {
                "few"
            };
            let message = format!("too {many} arguments for math function");
            let takes = format!("{quoted} takes {arity}");
            return Err(SyntaxError::new(at, message).hint(takes));
        }
        self.node(Expr::Call(function, arguments), height)
    }

    /// One level above subtrees of which the deepest is `below` deep.
    fn node(&self, expr: Expr, below: u32) -> Result<Node, SyntaxError> {
        if below >= HEIGHT {
            return Err(SyntaxError::new(self.cursor.at, "expression is too long"));
        }
        let height = below + 1;
        Ok(Node { expr, height })
    }

    /// The operator between two operands that is next, and its length.
    fn operator(&mut self) -> Option<(Operator, usize)> {
        use Binary::*;
        let first = self.token()?;
        let second = self.rest().get(1).copied().unwrap_or(0);
        let (binary, length) = match (first, second) {
            (b'|', b'|') => return Some((Operator::Or, 2)),
            (b'&', b'&') => return Some((Operator::And, 2)),
            (b'<', b'<') => (ShiftLeft, 2),
            (b'>', b'>') => (ShiftRight, 2),
            (b'<', b'=') => (LessEqual, 2),
            (b'>', b'=') => (GreaterEqual, 2),
            (b'=', b'=') => (Equal, 2),
            (b'!', b'=') => (NotEqual, 2),
            (b'|', _) => (BitOr, 1),
            (b'^', _) => (BitXor, 1),
            (b'&', _) => (BitAnd, 1),
            (b'<', _) => (Less, 1),
            (b'>', _) => (Greater, 1),
            (b'+', _) => (Add, 1),
            (b'-', _) => (Subtract, 1),
            (b'*', _) => (Multiply, 1),
            (b'/', _) => (Divide, 1),
            (b'%', _) => (Modulo, 1),
            (b'a'..=b'z', _) => {
                let word = self.word();
                let binary = match word {
                    b"and" => return Some((Operator::And, 3)),
                    b"or" => return Some((Operator::Or, 2)),
                    b"eq" | b"equals" => TextEqual,
                    b"ne" => TextNotEqual,
                    b"contains" => Contains,
                    b"starts_with" => StartsWith,
                    b"ends_with" => EndsWith,
                    b"matches_glob" | b"matches" => MatchesGlob,
                    b"matches_regex" => MatchesRegex,
                    // Tcl takes these two from whatever they begin.
                    [b'e', b'q', ..] => return Some((Operator::Binary(TextEqual), 2)),
                    [b'n', b'e', ..] => return Some((Operator::Binary(TextNotEqual), 2)),
                    _ => return None,
                };
                (binary, word.len())
            }
            _ => return None,
        };
        Some((Operator::Binary(binary), length))
    }

    /// The next byte that is no space.
    fn token(&mut self) -> Option<u8> {
        loop {
            self.cursor.blanks();
            match self.cursor.peek() {
                Some(b'\n') => self.cursor.at += 1,
                other => return other,
            }
        }
    }

    fn rest(&self) -> &[u8] {
        &self.cursor.text[self.cursor.at..]
    }

    fn follows(&self, text: &[u8]) -> bool {
        self.rest().starts_with(text)
    }

    /// The letters, digits and underscores that are next.
    fn word(&self) -> &[u8] {
        let rest = self.rest();
        let length = rest
            .iter()
            .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
        &rest[..length.unwrap_or(rest.len())]
    }

    /// The length of the number that is next.
    fn number(&self) -> usize {
        let rest = self.rest();
        let digits = |from: usize| {
            let tail = rest[from..].iter();
            from + tail.take_while(|byte| byte.is_ascii_digit()).count()
        };
        if let [b'0', b'x' | b'X', tail @ ..] = rest {
            let hex = tail.iter().take_while(|byte| byte.is_ascii_hexdigit());
            return match hex.count() {
                0 => 1,
                length => 2 + length,
            };
        }
        let mut end = digits(0);
        if rest.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            if fraction == 1 {
                return 0;
            }
            end = fraction;
        }
        if let Some(b'e' | b'E') = rest.get(end) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let first = (end + 1 + sign).min(rest.len());
            let exponent = digits(first);
            if exponent > first {
                end = exponent;
            }
        }
        end
    }

    fn no_operand(&self, byte: u8) -> SyntaxError {
        let operator = match byte {
            b')' => return self.error("unexpected close parenthesis"),
            b',' => return self.error("commas can only separate function arguments"),
            b'?' => return self.error("unexpected ternary 'then' separator"),
            b':' => return self.error("unexpected ternary 'else' separator"),
            b'=' if !self.follows(b"==") => return self.single_equality(),
            b'=' | b'!' | b'<' | b'>' | b'|' | b'&' | b'^' | b'*' | b'/' | b'%' => {
                let two: [&[u8]; 8] = [b"==", b"!=", b"<<", b">>", b"<=", b">=", b"||", b"&&"];
                let length = if two.iter().any(|two| self.follows(two)) {
                    2
                } else {
                    1
                };
                String::from_utf8_lossy(&self.rest()[..length]).into_owned()
            }
            _ => return self.error("character not legal in expressions"),
        };
        self.error(&format!("unexpected operator {operator}"))
    }

    fn extra_tokens(&self) -> SyntaxError {
        let error = self.error("extra tokens at end of expression");
        match self.word() {
            b"" => error,
            b"in" => error.hint("in is no operator: it is younger than this Tcl"),
            b"ni" => error.hint("ni is no operator: it is younger than this Tcl"),
            word => error.hint(format!("{} is no operator", String::from_utf8_lossy(word))),
        }
    }

    fn single_equality(&self) -> SyntaxError {
        self.error("single equality character not legal in expressions")
            .hint("numbers compare by ==, texts by eq")
    }

    fn error(&self, problem: &str) -> SyntaxError {
        self.error_at(self.cursor.at, problem)
    }

    fn error_at(&self, at: usize, problem: &str) -> SyntaxError {
        let text = &self.cursor.text[self.start..];
        let shown = String::from_utf8_lossy(&text[..text.len().min(60)]);
        let more = if text.len() > 60 { "..." } else { "" };
        let message = format!("syntax error in expression \"{shown}{more}\": {problem}");
        SyntaxError::new(at, message)
    }
}

fn quoted(parts: Vec<Part>) -> Expr {
    match parts.as_slice() {
        [] => Expr::Literal(Value::Empty),
        [Part::Text(text)] => Expr::Literal(Value::literal(text)),
        _ => Expr::Quoted(parts),
    }
}

/// What may stand between two operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Binary(Binary),
}

impl Operator {
    /// How tight it binds.
    fn tightness(self) -> u8 {
        use Binary::*;
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Binary(binary) => match binary {
                BitOr => 3,
                BitXor => 4,
                BitAnd => 5,
                Equal | NotEqual | TextEqual | TextNotEqual | Contains | StartsWith | EndsWith
                | MatchesGlob | MatchesRegex => 6,
                Less | Greater | LessEqual | GreaterEqual => 7,
                ShiftLeft | ShiftRight => 8,
                Add | Subtract => 9,
                Multiply | Divide | Modulo => 10,
            },
        }
    }
}

/// The words that Tcl 8.4 takes without quotes; it knows no abbreviations of them here.
const BOOLEANS: [&[u8]; 6] = [b"true", b"false", b"yes", b"no", b"on", b"off"];

/// The functions and how many arguments they take.
const FUNCTIONS: [(&str, Function, usize); 26] = [
    ("abs", Function::Abs, 1),
    ("acos", Function::Acos, 1),
    ("asin", Function::Asin, 1),
    ("atan", Function::Atan, 1),
    ("atan2", Function::Atan2, 2),
    ("ceil", Function::Ceil, 1),
    ("cos", Function::Cos, 1),
    ("cosh", Function::Cosh, 1),
    ("double", Function::Double, 1),
    ("exp", Function::Exp, 1),
    ("floor", Function::Floor, 1),
    ("fmod", Function::Fmod, 2),
    ("hypot", Function::Hypot, 2),
    ("int", Function::Int, 1),
    ("log", Function::Log, 1),
    ("log10", Function::Log10, 1),
    ("pow", Function::Pow, 2),
    ("rand", Function::Rand, 0),
    ("round", Function::Round, 1),
    ("sin", Function::Sin, 1),
    ("sinh", Function::Sinh, 1),
    ("sqrt", Function::Sqrt, 1),
    ("srand", Function::Srand, 1),
    ("tan", Function::Tan, 1),
    ("tanh", Function::Tanh, 1),
    ("wide", Function::Wide, 1),
];

#[cfg(test)]
#[path = "expr_tests.rs"]
mod tests;
