//! What must hold of any bytes at all. The fuzz targets under `fuzz/` and the bounded run in `fuzz_smoke.rs` share it.

#[path = "../nowhere/mod.rs"]
mod nowhere;

use nowhere::Nowhere;
use rules::ast::{Part, Script, Var};
use rules::event::Event;
use rules::parse::{self, SyntaxError};
use rules::value::Value;
use rules::{Connection, Engine, Limits, RuleSource, Step};
use std::ops::Range;
use std::sync::Arc;

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

/// Any text that is a rule runs, and any text runs as a script, within bounds and without a panic, over and over.
pub(crate) fn rule_run(data: &[u8]) {
    let limits = Limits {
        steps: 20_000,
        bytes: 1 << 20,
        depth: 50,
    };
    let mut engine = Engine::new(limits, 1);
    let load = |engine: &mut Engine, text: &[u8]| {
        let name = "fuzz".into();
        let text = text.into();
        engine.load(&[Arc::new(RuleSource { name, text })])
    };
    if let Ok(program) = load(&mut engine, data) {
        engine.init(&program, &mut Nowhere);
        let mut connection = Connection::new(&program, nowhere::flow());
        for event in [Event::ClientAccepted, Event::HttpRequest, Event::ClientData] {
            let mut step = engine.start(&mut connection, event, &mut Nowhere);
            for _ in 0..10 {
                let Step::Wait(_) = step else { break };
                step = engine.resume(&mut connection, Ok(Value::Empty), &mut Nowhere);
            }
            if let Step::Failed(failure) = &step {
                assert!(!failure.message.is_empty() || failure.exhausted.is_none());
            }
            engine.abandon(&mut connection);
        }
    }
    let procs =
        b"proc double {x {times 2}} { return [expr {$x * $times}] }\nwhen CLIENT_ACCEPTED {}";
    let program = load(&mut engine, procs).expect("it is a rule");
    let mut connection = Connection::new(&program, nowhere::flow());
    for _ in 0..2 {
        let _ = engine.eval(&mut connection, &Value::new(data), &mut Nowhere);
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
