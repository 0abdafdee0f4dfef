//! Expressions: constants are folded, and conditions become jumps.

use super::Compiler;
use crate::ast::{Binary, Command, Expr, Unary};
use crate::code::Op;
use crate::value::Value;
use crate::vm::arith;

impl Compiler<'_, '_> {
    /// The command `expr`.
    pub(super) fn expr_command(&mut self, command: &Command, want: bool) -> bool {
        match &command.words[1..] {
            [] => self.usage(command, "expr arg ?arg ...?", want),
            [only] if only.literal().is_some() => match self.expr_of(only) {
                Some(Ok(expr)) => {
                    self.expr(&expr);
                    if !is_number(&expr) {
                        self.emit(Op::Number);
                    }
                    self.keep(want);
                }
                Some(Err(error)) => {
                    self.syntax_error(error);
                    self.nothing(want);
                }
                None => {}
            },
            words => {
                for (n, word) in words.iter().enumerate() {
                    if n > 0 {
                        self.literal(b" ");
                    }
                    self.word(word);
                }
                let count = 2 * words.len() - 1;
                self.emit(Op::EvalExpr(count as u16));
                self.depth -= count as u32 - 1;
                self.keep(want);
            }
        }
        true
    }

    /// An expression that leaves its value.
    pub(super) fn expr(&mut self, expr: &Expr) {
        if !self.deeper() {
            return self.constant(Value::Empty);
        }
        self.expr_here(expr);
        self.deep -= 1;
    }

    fn expr_here(&mut self, expr: &Expr) {
        if let Some(value) = fold(expr) {
            self.constant_exactly(value);
            return;
        }
        match expr {
            Expr::Literal(value) => self.constant_exactly(value.clone()),
            Expr::Var(var) => self.load(&var.name, var.index.as_deref()),
            Expr::Script(script) => self.part(&crate::ast::Part::Script(script.clone())),
            Expr::Quoted(parts) => self.parts(parts),
            Expr::Unary(operator, operand) => {
                self.expr(operand);
                self.emit(Op::Unary(*operator));
            }
            Expr::Binary(operator, operands) => {
                self.expr(&operands.0);
                self.expr(&operands.1);
                self.emit(Op::Binary(*operator));
                self.depth -= 1;
            }
            Expr::And(_) | Expr::Or(_) => {
                let jumps = self.jump_unless(expr);
                self.constant(Value::Int(1));
                let done = self.emit(Op::Jump(0));
                self.depth -= 1;
                for jump in jumps {
                    self.land(jump);
                }
                self.constant(Value::Int(0));
                self.land(done);
            }
            Expr::Choose(three) => {
                let jumps = self.jump_unless(&three.0);
                self.expr(&three.1);
                let done = self.emit(Op::Jump(0));
                self.depth -= 1;
                for jump in jumps {
                    self.land(jump);
                }
                self.expr(&three.2);
                self.land(done);
            }
            Expr::Call(function, args) => {
                for arg in args {
                    self.expr(arg);
                }
                self.emit(Op::Function(*function, args.len() as u8));
                self.depth = self.depth + 1 - args.len() as u32;
            }
        }
    }

    /// A constant of an expression: a double must not become the integer of the same text.
    fn constant_exactly(&mut self, value: Value) {
        if matches!(value, Value::Double(_)) {
            let number = self.consts.len() as u32;
            self.consts.push(value);
            self.emit(Op::Const(number));
            self.depth += 1;
        } else {
            self.constant(value);
        }
    }

    /// Jumps if the expression is not true; the jumps are to be pointed.
    pub(super) fn jump_unless(&mut self, expr: &Expr) -> Vec<usize> {
        if !self.deeper() {
            return vec![self.emit(Op::JumpIfNot(0))];
        }
        let jumps = self.jump_unless_here(expr);
        self.deep -= 1;
        jumps
    }

    fn jump_unless_here(&mut self, expr: &Expr) -> Vec<usize> {
        match expr {
            Expr::And(both) => {
                let mut jumps = self.jump_unless(&both.0);
                jumps.extend(self.jump_unless(&both.1));
                jumps
            }
            Expr::Or(both) => {
                let hits = self.jump_if(&both.0);
                let jumps = self.jump_unless(&both.1);
                for hit in hits {
                    self.land(hit);
                }
                jumps
            }
            Expr::Unary(Unary::Not, operand) if is_truth(operand) => self.jump_if(operand),
            Expr::Binary(operator, operands)
                if is_comparison(*operator) && fold(expr).is_none() =>
            {
                if let Some(jump) = self.compare_with_constant(*operator, &operands.0, &operands.1)
                {
                    return vec![jump];
                }
                self.expr(&operands.0);
                self.expr(&operands.1);
                self.depth -= 2;
                vec![self.emit(Op::JumpUnless(*operator, 0))]
            }
            _ => {
                self.expr(expr);
                self.depth -= 1;
                vec![self.emit(Op::JumpIfNot(0))]
            }
        }
    }

    /// A comparison of a plain variable with a constant: the jump where it does not hold.
    fn compare_with_constant(&mut self, operator: Binary, a: &Expr, b: &Expr) -> Option<usize> {
        let (Expr::Var(var), Some(value)) = (a, fold(b)) else {
            return None;
        };
        if var.index.is_some() {
            return None;
        }
        let var = self.slot(&var.name)?;
        let constant = u16::try_from(self.consts.len()).ok()?;
        self.consts.push(value);
        self.emit(Op::Compare(operator, var, constant));
        Some(self.emit(Op::Jump(0)))
    }

    /// Jumps if the expression is true.
    fn jump_if(&mut self, expr: &Expr) -> Vec<usize> {
        if !self.deeper() {
            return vec![self.emit(Op::JumpIf(0))];
        }
        let jumps = self.jump_if_here(expr);
        self.deep -= 1;
        jumps
    }

    fn jump_if_here(&mut self, expr: &Expr) -> Vec<usize> {
        match expr {
            Expr::Or(both) => {
                let mut jumps = self.jump_if(&both.0);
                jumps.extend(self.jump_if(&both.1));
                jumps
            }
            Expr::And(both) => {
                let misses = self.jump_unless(&both.0);
                let jumps = self.jump_if(&both.1);
                for miss in misses {
                    self.land(miss);
                }
                jumps
            }
            Expr::Unary(Unary::Not, operand) if is_truth(operand) => self.jump_unless(operand),
            _ => {
                self.expr(expr);
                self.depth -= 1;
                vec![self.emit(Op::JumpIf(0))]
            }
        }
    }
}

fn is_comparison(operator: Binary) -> bool {
    use Binary as B;
    matches!(
        operator,
        B::Less
            | B::Greater
            | B::LessEqual
            | B::GreaterEqual
            | B::Equal
            | B::NotEqual
            | B::TextEqual
            | B::TextNotEqual
            | B::Contains
            | B::StartsWith
            | B::EndsWith
            | B::MatchesGlob
            | B::MatchesRegex
    )
}

/// Whether the expression's value is always 0 or 1, so that its negation is the other jump. Of other values `!` has its
/// own errors.
fn is_truth(expr: &Expr) -> bool {
    match expr {
        Expr::Binary(operator, _) => is_comparison(*operator),
        Expr::And(_) | Expr::Or(_) | Expr::Unary(Unary::Not, _) => true,
        _ => false,
    }
}

/// Whether its value is a number already.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Binary(..) | Expr::Unary(..) | Expr::And(_) | Expr::Or(_) | Expr::Call(..) => true,
        Expr::Literal(value) => matches!(value, Value::Int(_) | Value::Double(_)),
        _ => false,
    }
}

/// The value of an expression that has nothing to be found out at run time. One that fails is left
/// to fail then.
fn fold(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::Literal(value) => Some(value.clone()),
        Expr::Unary(operator, operand) => {
            let value = fold(operand)?;
            arith::unary(*operator, &value).ok()
        }
        Expr::Binary(Binary::MatchesRegex, _) => None,
        Expr::Binary(operator, operands) => {
            let (a, b) = (fold(&operands.0)?, fold(&operands.1)?);
            arith::binary(*operator, &a, &b, &mut u64::MAX.clone()).ok()
        }
        _ => None,
    }
}
