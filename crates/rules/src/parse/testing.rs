//! Syntax written out in a line, for tables of tests: words in `<>`, scripts in `[]`, commands apart by `; `.

use crate::ast::{Expr, Part, Script, Word, WordKind};

pub(super) fn show_script(script: &Script) -> String {
    let commands = script.commands.iter();
    let words = |words: &[Word]| words.iter().map(show_word).collect::<Vec<_>>().join(" ");
    commands
        .map(|command| words(&command.words))
        .collect::<Vec<_>>()
        .join("; ")
}

fn show_word(word: &Word) -> String {
    let mark = match word.kind {
        WordKind::Bare => "",
        WordKind::Quoted => "'",
        WordKind::Braced => "=",
    };
    format!("{mark}{}", show_parts(&word.parts))
}

pub(super) fn show_parts(parts: &[Part]) -> String {
    if parts.is_empty() {
        return "<>".to_string();
    }
    let show = |part: &Part| match part {
        Part::Text(text) => format!("<{}>", latin1(text)),
        Part::Var(var) => {
            let name = latin1(&var.name);
            match &var.index {
                None => format!("${name}"),
                Some(index) => format!("${name}({})", show_parts(index)),
            }
        }
        Part::Script(script) => format!("[{}]", show_script(script)),
    };
    parts.iter().map(show).collect()
}

/// With all its parentheses.
pub(super) fn show_expr(expr: &Expr) -> String {
    let two = |name: &str, both: &(Expr, Expr)| {
        format!("({} {name} {})", show_expr(&both.0), show_expr(&both.1))
    };
    match expr {
        Expr::Literal(value) => latin1(&value.bytes()),
        Expr::Var(var) => show_parts(&[Part::Var(var.clone())]),
        Expr::Script(script) => format!("[{}]", show_script(script)),
        Expr::Quoted(parts) => format!("'{}", show_parts(parts)),
        Expr::Unary(operator, operand) => format!("({operator:?} {})", show_expr(operand)),
        Expr::Binary(operator, both) => two(&format!("{operator:?}"), both),
        Expr::And(both) => two("and", both),
        Expr::Or(both) => two("or", both),
        Expr::Choose(all) => {
            let (condition, yes, no) = (&all.0, &all.1, &all.2);
            let [condition, yes, no] = [condition, yes, no].map(show_expr);
            format!("({condition} ? {yes} : {no})")
        }
        Expr::Call(function, arguments) => {
            let arguments: Vec<String> = arguments.iter().map(show_expr).collect();
            format!("{function:?}({})", arguments.join(", "))
        }
    }
}

fn latin1(text: &[u8]) -> String {
    text.iter().map(|&byte| char::from(byte)).collect()
}
