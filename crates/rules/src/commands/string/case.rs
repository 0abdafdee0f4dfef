//! Upper and lower case.

use crate::command::Ctx;
use crate::commands::ensemble::{index, span};
use crate::fault::Fault;
use crate::value::{Chars, Value};

pub(super) fn lower(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    change(ctx, args, <[u8]>::make_ascii_lowercase)
}

pub(super) fn upper(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    change(ctx, args, <[u8]>::make_ascii_uppercase)
}

pub(super) fn title(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    change(ctx, args, |part| {
        if let [first, rest @ ..] = part {
            first.make_ascii_uppercase();
            rest.make_ascii_lowercase();
        }
    })
}

fn change(ctx: &mut Ctx<'_>, args: &[Value], change: fn(&mut [u8])) -> Result<Value, Fault> {
    let (value, part) = match args {
        [only @ (Value::Int(_) | Value::Empty)] => return Ok(only.clone()),
        [value, part @ ..] => (value, part),
        [] => return Ok(Value::Empty),
    };
    let text = value.bytes();
    let mut range = 0..text.len();
    if let Some(first) = part.first() {
        let end = text.len() as i64 - 1;
        let first = index(first, end)?.max(0);
        let last = part.get(1).map_or(Ok(first), |last| index(last, end))?;
        range = span(first, last, text.len());
    }
    ctx.charge(text.len())?;
    let mut chars = Chars::from_slice(&text);
    change(&mut chars[range]);
    Ok(Value::from_chars(chars))
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::check;

    #[test]
    fn case_changes_for_all_or_a_part() {
        check(&[
            ("string tolower AbC", "abc"),
            ("string toupper AbC", "ABC"),
            ("string totitle aBC", "Abc"),
            ("string toupper abcdef 1", "aBcdef"),
            ("string toupper abcdef 1 3", "aBCDef"),
            ("string toupper abcdef end-1 end", "abcdEF"),
            ("string toupper abcdef 3 1", "abcdef"),
            ("string toupper abcdef -3 -1", "abcdef"),
            ("string totitle abcDEF 2 4", "abCdeF"),
            ("string tolower {}", ""),
            ("string toupper 12", "12"),
            (
                "string toupper abc x",
                "!bad index \"x\": must be integer or end?-integer?",
            ),
        ]);
    }
}
