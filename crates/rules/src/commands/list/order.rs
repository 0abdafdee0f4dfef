//! The orders in which lists are sorted and searched.

use crate::fault::Fault;
use crate::value::Value;
use std::cmp::Ordering;

/// As what items are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ascii,
    Dictionary,
    Integer,
    Real,
}

/// A floating-point number that has its place among others: 0 and -0 are the same.
pub(super) fn real(value: &Value) -> Result<f64, Fault> {
    Ok(value.double()? + 0.0)
}

/// Compares two values.
pub(super) fn compare(kind: Kind, a: &Value, b: &Value) -> Result<Ordering, Fault> {
    Ok(match kind {
        Kind::Ascii => a.bytes().cmp(&b.bytes()),
        Kind::Dictionary => dictionary(&a.bytes(), &b.bytes()),
        Kind::Integer => a.int()?.cmp(&b.int()?),
        Kind::Real => real(a)?.total_cmp(&real(b)?),
    })
}

/// The order of a dictionary: without regard to case, and with numbers inside by their value, unless nothing else tells
/// two texts apart.
pub(super) fn dictionary(left: &[u8], right: &[u8]) -> Ordering {
    let at = |text: &[u8], n: usize| text.get(n).copied().unwrap_or(0);
    let (mut l, mut r) = (0, 0);
    let mut second = Ordering::Equal;
    loop {
        let (a, b) = (at(left, l), at(right, r));
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let (left_zeros, right_zeros) = (zeros(&left[l..]), zeros(&right[r..]));
            second = second.then(left_zeros.cmp(&right_zeros));
            l += left_zeros;
            r += right_zeros;
            let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
            let (left_digits, right_digits) = (digits(&left[l..]), digits(&right[r..]));
            let by_value = left_digits
                .cmp(&right_digits)
                .then_with(|| left[l..l + left_digits].cmp(&right[r..r + right_digits]));
            if by_value.is_ne() {
                return by_value;
            }
            l += left_digits;
            r += right_digits;
            continue;
        }
        if l >= left.len() || r >= right.len() {
            return (l < left.len()).cmp(&(r < right.len())).then(second);
        }
        let by_letter = a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase());
        if by_letter.is_ne() {
            return by_letter;
        }
        if a != b {
            // Capitals come first.
            second = second.then(a.cmp(&b));
        }
        l += 1;
        r += 1;
    }
}

/// How many zeros lead a number, but for its last digit.
fn zeros(text: &[u8]) -> usize {
    let mut n = 0;
    while text[n] == b'0' && text.get(n + 1).is_some_and(u8::is_ascii_digit) {
        n += 1;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_puts_numbers_by_value_and_capitals_first() {
        let sorted = [
            "", "A", "a", "A1", "a01", "a2", "a10", "B", "b", "bigBoy", "bigboy2",
        ];
        for (n, a) in sorted.iter().enumerate() {
            for (m, b) in sorted.iter().enumerate() {
                assert_eq!(dictionary(a.as_bytes(), b.as_bytes()), n.cmp(&m), "{a} {b}");
            }
        }
    }
}
