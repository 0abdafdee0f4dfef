//! Operators and functions of expressions.

use crate::ast::{Binary, Function, Unary};
use crate::fault::{Fault, Kind, error_code};
use crate::value::{Number, Value};
use std::cmp::Ordering;

/// The result of an operator with one operand.
pub(crate) fn unary(operator: Unary, value: &Value) -> Result<Value, Fault> {
    if operator == Unary::Not {
        return match value.number() {
            Some(number) => Ok(Value::from(number.is_zero())),
            None if !value.is_empty() => match value.truth() {
                Ok(truth) => Ok(Value::from(!truth)),
                Err(_) => Err(operand_fault(value, "!")),
            },
            None => Err(operand_fault(value, "!")),
        };
    }
    let symbol = match operator {
        Unary::Minus => "-",
        Unary::Plus => "+",
        Unary::BitNot | Unary::Not => "~",
    };
    match (operator, number(value, symbol)?) {
        (Unary::Minus, Number::Int(int)) => Ok(Value::Int(int.wrapping_neg())),
        (Unary::Minus, Number::Double(double)) => Ok(Value::Double(-double)),
        (Unary::Plus, number) => Ok(Value::from(number)),
        (_, Number::Int(int)) => Ok(Value::Int(!int)),
        (_, Number::Double(_)) => Err(float_fault(symbol)),
    }
}

/// The result of an operator with two operands.
pub(crate) fn binary(
    operator: Binary,
    a: &Value,
    b: &Value,
    steps: &mut u64,
) -> Result<Value, Fault> {
    if let (Value::Int(a), Value::Int(b)) = (a, b)
        && let Some(value) = integers(operator, *a, *b)
    {
        return Ok(value);
    }
    slowly(operator, a, b, steps)
}

/// Whether a comparison of integers holds, if it is one.
#[inline]
pub(crate) fn compare(operator: Binary, a: i64, b: i64) -> Option<bool> {
    use Binary as B;
    match operator {
        B::Less => Some(a < b),
        B::Greater => Some(a > b),
        B::LessEqual => Some(a <= b),
        B::GreaterEqual => Some(a >= b),
        B::Equal | B::TextEqual => Some(a == b),
        B::NotEqual | B::TextNotEqual => Some(a != b),
        _ => None,
    }
}

/// Whether a comparison holds.
pub(crate) fn holds(
    operator: Binary,
    a: &Value,
    b: &Value,
    steps: &mut u64,
) -> Result<bool, Fault> {
    use Binary as B;
    if let (Value::Int(a), Value::Int(b)) = (a, b)
        && let Some(holds) = compare(operator, *a, *b)
    {
        return Ok(holds);
    }
    match operator {
        B::TextEqual => {
            read_through(a.weight().min(b.weight()), steps)?;
            return Ok(a.same_text(b));
        }
        B::TextNotEqual => {
            read_through(a.weight().min(b.weight()), steps)?;
            return Ok(!a.same_text(b));
        }
        B::Equal | B::NotEqual | B::Less | B::Greater | B::LessEqual | B::GreaterEqual => {
            read_through(a.weight().max(b.weight()), steps)?;
            let ordering = match (a.number(), b.number()) {
                (Some(a), Some(b)) => compare_numbers(a, b),
                _ => Some(a.bytes().cmp(&b.bytes())),
            };
            return Ok(match operator {
                B::Equal => ordering == Some(Ordering::Equal),
                B::NotEqual => ordering != Some(Ordering::Equal),
                B::Less => ordering == Some(Ordering::Less),
                B::Greater => ordering == Some(Ordering::Greater),
                B::LessEqual => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
                _ => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
            });
        }
        _ => {}
    }
    let (text, other) = (a.bytes(), b.bytes());
    read_through(text.len(), steps)?;
    if operator == B::MatchesGlob {
        read_through(text.len().saturating_mul(other.len()), steps)?;
    }
    Ok(match operator {
        B::Contains => memchr::memmem::find(&text, &other).is_some(),
        B::StartsWith => text.starts_with(&other),
        B::EndsWith => text.ends_with(&other),
        B::MatchesGlob => crate::regex::glob(&other, &text, false),
        _ => crate::commands::regexp::matches(b, &text, steps)?,
    })
}

/// Counts the steps of reading so many bytes, where they are many.
#[inline]
fn read_through(bytes: usize, steps: &mut u64) -> Result<(), Fault> {
    match (bytes as u64) >> 10 {
        0 => Ok(()),
        more => match steps.checked_sub(more) {
            Some(left) => {
                *steps = left;
                Ok(())
            }
            None => {
                *steps = 0;
                Err(Fault::exhausted("instructions"))
            }
        },
    }
}

#[inline]
pub(crate) fn integers(operator: Binary, a: i64, b: i64) -> Option<Value> {
    use Binary as B;
    let truth = |truth: bool| Some(Value::Int(i64::from(truth)));
    match operator {
        B::Add => Some(Value::Int(a.wrapping_add(b))),
        B::Subtract => Some(Value::Int(a.wrapping_sub(b))),
        B::Multiply => Some(Value::Int(a.wrapping_mul(b))),
        B::Less => truth(a < b),
        B::Greater => truth(a > b),
        B::LessEqual => truth(a <= b),
        B::GreaterEqual => truth(a >= b),
        B::Equal => truth(a == b),
        B::NotEqual => truth(a != b),
        B::BitAnd => Some(Value::Int(a & b)),
        B::BitOr => Some(Value::Int(a | b)),
        B::BitXor => Some(Value::Int(a ^ b)),
        B::Divide if b != 0 => Some(Value::Int(floor_div(a, b))),
        B::Modulo if b != 0 => Some(Value::Int(a.wrapping_sub(floor_div(a, b).wrapping_mul(b)))),
        _ => None,
    }
}

fn floor_div(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) {
        quotient - 1
    } else {
        quotient
    }
}

fn slowly(operator: Binary, a: &Value, b: &Value, steps: &mut u64) -> Result<Value, Fault> {
    use Binary as B;
    let symbol = match operator {
        B::Multiply => "*",
        B::Divide => "/",
        B::Modulo => "%",
        B::Add => "+",
        B::Subtract => "-",
        B::ShiftLeft => "<<",
        B::ShiftRight => ">>",
        B::BitAnd => "&",
        B::BitXor => "^",
        B::BitOr => "|",
        _ => return Ok(Value::from(holds(operator, a, b, steps)?)),
    };
    match (number(a, symbol)?, number(b, symbol)?) {
        (Number::Int(a), Number::Int(b)) => match operator {
            B::Divide | B::Modulo if b == 0 => Err(division_by_zero()),
            B::ShiftLeft | B::ShiftRight if b < 0 => Err(Fault::error("negative shift argument")),
            B::ShiftLeft => Ok(Value::Int(if b > 63 { 0 } else { a << b })),
            B::ShiftRight => Ok(Value::Int(a >> b.min(63))),
            _ => Ok(integers(operator, a, b).unwrap_or_default()),
        },
        (a, b) => {
            let (x, y) = (a.double(), b.double());
            let result = match operator {
                B::Multiply => x * y,
                B::Divide if y == 0.0 => return Err(division_by_zero()),
                B::Divide => x / y,
                B::Add => x + y,
                B::Subtract => x - y,
                _ => return Err(float_fault(symbol)),
            };
            finite(result)
        }
    }
}

fn compare_numbers(a: Number, b: Number) -> Option<Ordering> {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
        (a, b) => a.double().partial_cmp(&b.double()),
    }
}

/// The result of a function of mathematics. `random` is 64 bits, where it wants some.
pub(crate) fn function(
    function: Function,
    args: &[Value],
    random: impl FnOnce() -> u64,
) -> Result<Value, Fault> {
    use Function as F;
    let argument = |n: usize| -> Result<Number, Fault> {
        args.get(n)
            .and_then(Value::number)
            .ok_or_else(|| match args.get(n) {
                Some(value) if !value.is_empty() => {
                    Fault::error("argument to math function didn't have numeric value")
                }
                _ => Fault::error("argument to math function didn't have numeric value"),
            })
    };
    let real = |f: fn(f64) -> f64| -> Result<Value, Fault> {
        let x = argument(0)?.double();
        let y = f(x);
        if y.is_nan() && !x.is_nan() {
            return Err(domain());
        }
        finite(y)
    };
    match function {
        F::Abs => Ok(match argument(0)? {
            Number::Int(int) => Value::Int(int.wrapping_abs()),
            Number::Double(double) => Value::Double(double.abs()),
        }),
        F::Acos => real(f64::acos),
        F::Asin => real(f64::asin),
        F::Atan => real(f64::atan),
        F::Atan2 => finite(argument(0)?.double().atan2(argument(1)?.double())),
        F::Ceil => real(f64::ceil),
        F::Cos => real(f64::cos),
        F::Cosh => real(f64::cosh),
        F::Double => Ok(Value::Double(argument(0)?.double())),
        F::Exp => real(f64::exp),
        F::Floor => real(f64::floor),
        F::Fmod => {
            let (x, y) = (argument(0)?.double(), argument(1)?.double());
            if y == 0.0 {
                return Err(domain());
            }
            finite(x % y)
        }
        F::Hypot => finite(argument(0)?.double().hypot(argument(1)?.double())),
        F::Int | F::Wide => match argument(0)? {
            Number::Int(int) => Ok(Value::Int(int)),
            Number::Double(double) => integral(double.trunc()),
        },
        F::Log => positive(argument(0)?).and_then(|x| finite(x.ln())),
        F::Log10 => positive(argument(0)?).and_then(|x| finite(x.log10())),
        F::Pow => {
            let (x, y) = (argument(0)?, argument(1)?);
            let result = x.double().powf(y.double());
            if result.is_nan() {
                return Err(domain());
            }
            finite(result)
        }
        // 53 bits make a double from 0 to 1.
        F::Rand | F::Srand => Ok(Value::Double(
            (random() >> 11) as f64 / (1_u64 << 53) as f64,
        )),
        F::Round => match argument(0)? {
            Number::Int(int) => Ok(Value::Int(int)),
            Number::Double(double) => integral(double.round()),
        },
        F::Sin => real(f64::sin),
        F::Sinh => real(f64::sinh),
        F::Sqrt => real(f64::sqrt),
        F::Tan => real(f64::tan),
        F::Tanh => real(f64::tanh),
    }
}

fn positive(number: Number) -> Result<f64, Fault> {
    let x = number.double();
    if x < 0.0 { Err(domain()) } else { Ok(x) }
}

fn integral(double: f64) -> Result<Value, Fault> {
    // From -2^63 on, and below 2^63.
    let range = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    if !range.contains(&double) {
        return Err(coded(
            "integer value too large to represent",
            &["ARITH", "IOVERFLOW", "integer value too large to represent"],
        ));
    }
    Ok(Value::Int(double as i64))
}

fn number(value: &Value, symbol: &str) -> Result<Number, Fault> {
    value.number().ok_or_else(|| operand_fault(value, symbol))
}

fn operand_fault(value: &Value, symbol: &str) -> Fault {
    let what = if value.is_empty() {
        "empty string"
    } else {
        "non-numeric string"
    };
    Fault::error(format!("can't use {what} as operand of \"{symbol}\""))
}

fn float_fault(symbol: &str) -> Fault {
    Fault::error(format!(
        "can't use floating-point value as operand of \"{symbol}\""
    ))
}

fn division_by_zero() -> Fault {
    coded("divide by zero", &["ARITH", "DIVZERO", "divide by zero"])
}

fn domain() -> Fault {
    let message = "domain error: argument not in valid range";
    coded(message, &["ARITH", "DOMAIN", message])
}

fn finite(double: f64) -> Result<Value, Fault> {
    if double.is_infinite() {
        let message = "floating-point value too large to represent";
        return Err(coded(message, &["ARITH", "OVERFLOW", message]));
    }
    Ok(Value::Double(double))
}

fn coded(message: &str, code: &[&str]) -> Fault {
    let mut fault = Fault::error(message);
    if let Kind::Error(error) = fault.kind_mut() {
        error.code = Some(error_code(code));
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calculate(a: &str, operator: Binary, b: &str) -> String {
        match binary(
            operator,
            &Value::literal(a.as_bytes()),
            &Value::literal(b.as_bytes()),
            &mut 1000,
        ) {
            Ok(value) => value.lossy(),
            Err(fault) => format!("{fault:?}"),
        }
    }

    #[test]
    fn division_rounds_down_and_the_remainder_has_the_divisors_sign() {
        for (a, b, quotient, remainder) in [
            ("7", "2", "3", "1"),
            ("-7", "2", "-4", "1"),
            ("7", "-2", "-4", "-1"),
            ("-7", "-2", "3", "-1"),
        ] {
            assert_eq!(calculate(a, Binary::Divide, b), quotient);
            assert_eq!(calculate(a, Binary::Modulo, b), remainder);
        }
        assert!(calculate("1", Binary::Divide, "0").contains("divide by zero"));
        assert!(calculate("1.0", Binary::Modulo, "2").contains("floating-point"));
    }

    #[test]
    fn what_looks_like_numbers_is_compared_as_numbers() {
        assert_eq!(calculate("010", Binary::Equal, "8"), "1");
        assert_eq!(calculate("1.0", Binary::Equal, "1"), "1");
        assert_eq!(calculate("10", Binary::Less, "9"), "0");
        assert_eq!(calculate("10a", Binary::Less, "9a"), "1");
        assert_eq!(calculate("010", Binary::TextEqual, "8"), "0");
    }
}
