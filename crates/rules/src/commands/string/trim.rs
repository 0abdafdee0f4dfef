//! Cutting characters off the ends.

use crate::command::Ctx;
use crate::fault::Fault;
use crate::value::Value;

pub(super) fn trim(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(cut(args, true, true))
}

pub(super) fn left(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(cut(args, true, false))
}

pub(super) fn right(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    Ok(cut(args, false, true))
}

fn cut(args: &[Value], left: bool, right: bool) -> Value {
    let text = args[0].bytes();
    let chars = args.get(1).map(Value::bytes);
    let chars: &[u8] = chars.as_deref().unwrap_or(b" \t\n\r");
    let (mut from, mut to) = (0, text.len());
    while left && from < to && chars.contains(&text[from]) {
        from += 1;
    }
    while right && from < to && chars.contains(&text[to - 1]) {
        to -= 1;
    }
    if to - from == text.len() {
        return args[0].clone();
    }
    Value::new(&text[from..to])
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::check;

    #[test]
    fn ends_are_cut_off() {
        check(&[
            ("string trim {  a b\t}", "a b"),
            ("string trimleft {  a b }", "a b "),
            ("string trimright {  a b }", "  a b"),
            ("string trim xxaxx x", "a"),
            ("string trim xyaxy yx", "a"),
            ("string trim xxx x", ""),
            ("string trim abc {}", "abc"),
            ("string trimright 1000 0", "1"),
        ]);
    }
}
