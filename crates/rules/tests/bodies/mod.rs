//! What must hold of any bytes at all. The fuzz targets under `fuzz/` and the bounded run in `fuzz_smoke.rs` share it.

use rules::ast::{Part, Script, Var};
use rules::parse::{self, SyntaxError};
use std::ops::Range;

/// Any text is a rule or errors within it. So is every text in braces within one, as a script and as an expression, and
/// nothing that is found in it lies outside of it.
pub(crate) fn rule_parse(data: &[u8]) {
    match parse::rule(data) {
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= parse::MOST_ERRORS);
            for error in &errors {
                fault(error, data, 0..data.len() as u32);
            }
        }
        Ok(rule) => {
            let handlers = rule.handlers.iter().map(|h| (&h.body, &h.body_range));
            let procs = rule.procs.iter().map(|p| (&p.body, &p.body_range));
            for (body, range) in handlers.chain(procs) {
                script(body, data, range, 0);
            }
        }
    }
    let whole = 0..data.len() as u32;
    if let Ok(read) = parse::script(data, whole.clone()) {
        script(&read, data, &whole, 0);
    }
    if let Err(error) = parse::expr(data, whole.clone()) {
        fault(&error, data, whole.clone());
    }
    if let Ok(read) = parse::subst(data, true, true, true) {
        parts(&read, data, &whole, 0);
    }
}

fn script(script: &Script, data: &[u8], range: &Range<u32>, depth: u32) {
    let mut end = range.start;
    for command in &script.commands {
        assert!(end <= command.at && command.at < command.end && command.end <= range.end);
        end = command.end;
        assert!(!command.words.is_empty());
        for word in &command.words {
            assert!(command.at <= word.at && word.at < command.end);
            parts(&word.parts, data, range, depth);
            let Some(inner) = word.inner.clone() else {
                continue;
            };
            assert_eq!(data[inner.start as usize - 1], b'{');
            assert_eq!(data[inner.end as usize], b'}');
            if depth > 4 {
                continue;
            }
            match parse::script(data, inner.clone()) {
                Ok(read) => self::script(&read, data, &inner, depth + 1),
                Err(error) => fault(&error, data, inner.clone()),
            }
            if let Err(error) = parse::expr(data, inner.clone()) {
                fault(&error, data, inner);
            }
        }
    }
}

fn parts(parts: &[Part], data: &[u8], range: &Range<u32>, depth: u32) {
    let mut text_before = false;
    for part in parts {
        let text = matches!(part, Part::Text(_));
        assert!(!(text && text_before), "neighbouring texts are one");
        text_before = text;
        match part {
            Part::Text(text) => assert!(!text.is_empty()),
            Part::Var(Var { index, at, .. }) => {
                assert_eq!(data[*at as usize], b'$');
                self::parts(index.as_deref().unwrap_or_default(), data, range, depth);
            }
            Part::Script(inner) => script(inner, data, range, depth),
        }
    }
}

fn fault(error: &SyntaxError, data: &[u8], range: Range<u32>) {
    assert!((range.start..=range.end).contains(&error.at), "{error:?}");
    assert!(!error.message.is_empty());
    let (line, column) = parse::line_column(data, error.at);
    assert!(line >= 1 && column as usize <= parse::line_text(data, error.at).len() + 2);
}
