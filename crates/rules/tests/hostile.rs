//! Scripts that mean harm: each ends with an error or a value, and the process goes on.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nowhere;

use nowhere::Nowhere;
use rules::value::Value;
use rules::{Connection, Engine, Limits, RuleSource};
use std::sync::Arc;

const TOO_DEEP: &str = "scripts stand too deep in each other";

#[test]
fn texts_in_texts_do_not_overflow_the_stack() {
    for (before, after) in [
        ("[expr {", format!("}}]{}", "+1".repeat(490))),
        ("[expr {------------------------", "}]".to_string()),
        ("[expr {!!!!!!!!!!!!!!!!!!!!!!!!!", "}]".to_string()),
        (
            "[expr {1?2:1?2:1?2:1?2:1?2:1?2:1?2:1?2:1?2:1?2:",
            "}]".to_string(),
        ),
        (
            "[expr {$a($a($a($a($a($a($a($a($a($a(",
            "))))))))))}]".to_string(),
        ),
        ("[if 1 {list ", "}]".to_string()),
        ("[eval {list ", "}]".to_string()),
    ] {
        let nested = before.repeat(99) + "1" + &after.repeat(99);
        assert_eq!(eval(&format!("expr {{{nested}}}")), Err(TOO_DEEP.into()));
        let rule = format!("when CLIENT_ACCEPTED {{ if {{{nested}}} {{}} }}");
        let loaded = engine().load(&[source(&rule)]);
        let errors = loaded.err().unwrap();
        assert_eq!(errors[0].message, TOO_DEEP, "{before}");
    }
}

#[test]
fn bodies_in_bodies_do_not_overflow_the_stack() {
    for (before, after) in [("if 1 {", "}"), ("catch {", "}"), ("switch a {a {", "}}")] {
        let nested = before.repeat(10_000) + &after.repeat(10_000);
        assert_eq!(eval(&nested), Err(TOO_DEEP.into()), "{before}");
    }
}

#[test]
fn lists_in_lists_do_not_overflow_the_stack() {
    for (script, value) in [
        (
            "set a x; for {set i 0} {$i < 100000} {incr i} {set a [list $a]}; string length $a",
            "1",
        ),
        (
            "set a x; for {set i 0} {$i < 3000} {incr i} {set a [list $a b]}; llength $a",
            "2",
        ),
    ] {
        assert_eq!(eval(script), Ok(value.to_string()), "{script}");
    }
    let braces = "{".repeat(5_000) + &"}".repeat(5_000);
    let zeros = "0 ".repeat(5_000);
    assert_eq!(
        eval(&format!("lindex {{{braces}}} {zeros}")),
        Ok(String::new())
    );
}

#[test]
fn what_never_ends_is_ended() {
    for (script, what) in [
        ("while 1 {}", "instructions"),
        ("for {} 1 {} {}", "instructions"),
        ("set a x; while 1 {append a $a}", "memory"),
        ("set a x; while 1 {set a [concat $a $a]}", "memory"),
        ("string repeat abc 1000000000", "memory"),
        ("set i 0; while 1 {set a([incr i]) x}", "memory"),
        ("set i 0; while 1 {incr i; set a($i) x}", "memory"),
        ("format %1000000000d 1", "memory"),
        ("binary format x1000000000", "memory"),
        ("set s {eval $s}; eval $s", "recursion"),
        ("set s {catch $s}; eval $s", "recursion"),
        ("set s {[subst $s]}; subst $s", "recursion"),
        ("call endless", "recursion"),
    ] {
        let message = format!("the event has used up its {what}");
        assert_eq!(eval(script), Err(message), "{script}");
    }
}

fn engine() -> Engine {
    let limits = Limits {
        steps: 1_000_000,
        bytes: 8 << 20,
        depth: 100,
    };
    Engine::new(limits, 1)
}

fn source(text: &str) -> Arc<RuleSource> {
    Arc::new(RuleSource {
        name: "hostile".into(),
        text: text.as_bytes().into(),
    })
}

/// A script's value, or its error's message.
fn eval(script: &str) -> Result<String, String> {
    let mut engine = engine();
    let program = engine
        .load(&[source("proc endless {} { call endless }")])
        .map_err(|errors| format!("{errors:?}"))?;
    let mut connection = Connection::new(&program, nowhere::flow());
    match engine.eval(&mut connection, &Value::from(script), &mut Nowhere) {
        Ok(value) => Ok(value.lossy()),
        Err(failure) => Err(failure.message),
    }
}
