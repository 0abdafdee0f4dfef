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
            "set a x; for {set i 0} {$i < 1500} {incr i} {set a [list $a b]}; llength $a",
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
        (
            "set x ab; for {set i 0} {$i < 60} {incr i} {set x [list $x $x]}; string length $x",
            "memory",
        ),
        (
            "set x ab; for {set i 0} {$i < 60} {incr i} {lappend y $x $x; set x $y; unset y}; string length $x",
            "memory",
        ),
        (
            "set x {a b}; for {set i 0} {$i < 60} {incr i} {lset x 0 $x; lset x 1 $x}; string length $x",
            "memory",
        ),
        (
            "set x {a b}; for {set i 0} {$i < 60} {incr i} {set x [linsert $x 0 $x]}; string length $x",
            "memory",
        ),
        ("set x a; while 1 {set y [append x a]}", "memory"),
        ("set x a; while 1 {set y [lappend x a]}", "memory"),
        ("while 1 {lappend x a; string length $x}", "memory"),
        ("while 1 {append x { a}; llength $x}", "memory"),
        (
            "set i 0; while 1 {incr i; set name v$i; set $name 1}",
            "memory",
        ),
        (
            "set x [string repeat a 4000000]; set a($x) 1; set a(${x}b) 1; set y 1",
            "memory",
        ),
        ("set i 0; while 1 {eval \"set x [incr i]\"}", "memory"),
    ] {
        let message = format!("the event has used up its {what}");
        assert_eq!(eval(script), Err(message), "{script}");
    }
}

#[test]
fn reading_long_texts_takes_steps() {
    for command in [
        "md5 $x",
        "sha512 $x",
        "crc32 $x",
        "b64decode $x",
        "string equal $x $y",
        "string tolower $x",
        "string match *b*b $x",
        "expr {$x eq $y}",
        "expr {$x == $y}",
        "expr {$x contains \"ab\"}",
        "expr {$x matches_glob \"*b*b\"}",
        "switch $x {a {} b {} c {} d {} e {}}",
        "set z($x)",
        "info exists z($x)",
        "getfield $x b 2",
        "URI::path $x",
        "string length [list $x]",
        "scan $x %d",
        "regexp b $x",
        "string map {b c} $x",
        "string trim $x",
        "string is alpha $x",
    ] {
        let script = format!(
            "set x [string repeat a 1000000]; set y [string repeat a 1000000]; set z(a) 1; while 1 {{catch {{{command}}}}}"
        );
        let began = std::time::Instant::now();
        let ended = eval(&script);
        assert!(
            ended.as_ref().is_err_and(|e| e.contains("used up")),
            "{command}: {ended:?}"
        );
        let took = began.elapsed();
        assert!(took.as_secs() < 60, "{command} took {took:?}");
    }
}

#[test]
fn a_concatenation_is_counted_before_it_is_made() {
    let parts = "$x".repeat(20_000);
    let script = format!("set x [string repeat a 4000000]; set y {parts}; string length $y");
    assert!(eval(&script).unwrap_err().ends_with("memory"));
    for command in ["expr", "eval", "uplevel 0", "list", "concat"] {
        let words = "$x ".repeat(20_000);
        let script = format!("set x [string repeat a 4000000]; set y [{command} {words}]");
        assert!(eval(&script).unwrap_err().contains("used up"), "{command}");
    }
}

#[test]
fn what_is_too_much_for_the_machine_is_an_error() {
    let many = "set l [string repeat {a } 70000]; eval list $l";
    assert_eq!(eval(many), Err("too many words in one command".into()));
    let parts = format!("set a 1; set b {}", "$a".repeat(70_000));
    assert_eq!(eval(&parts), Err("too many parts in one word".into()));
    let loops = format!("if 0 {{{}}}", "foreach a b {};".repeat(70_000));
    assert!(eval(&loops).is_err());
    assert_eq!(
        eval("llength [string repeat {a } 2000000]"),
        Err("list has too many elements".into())
    );
    let procs = "set i 0; while 1 {incr i; set n p$i; proc $n {} {}}";
    assert_eq!(eval(procs), Err("too many procedures".into()));
}

#[test]
fn an_if_that_ends_too_early_runs_no_further() {
    assert_eq!(
        eval("set s {if 1 {set a 1} elseif 1}; eval $s"),
        Ok("1".into())
    );
    assert_eq!(
        eval("set s {if 1 {set a 1} elseif 1 then}; eval $s; set s {if 1 {set a 2} else}; eval $s"),
        Ok("2".into())
    );
}

#[test]
fn scripts_that_hold_scripts_are_dropped_one_by_one() {
    let levels = 3000;
    let script = "set y {".repeat(levels) + &"}".repeat(levels);
    let run = format!(
        "set y {{{script}}}; for {{set i 0}} {{$i < {levels}}} {{incr i}} {{eval $y}}; set y"
    );
    let mut engine = Engine::new(
        Limits {
            bytes: 1 << 34,
            ..Limits::default()
        },
        1,
    );
    let program = engine.load(&[]).unwrap();
    let mut connection = Connection::new(&program, nowhere::flow());
    let value = engine.eval(&mut connection, &Value::from(run.as_str()), &mut Nowhere);
    assert!(value.unwrap().is_empty());
    drop(connection);
}

#[test]
fn a_workers_variable_cannot_stand_for_one_of_a_connection() {
    for script in [
        "upvar 0 x static::y",
        "upvar 0 x ::y",
        "upvar #0 a(1) static::y",
        "set l {upvar 1 x static::y}; proc p {} { upvar 1 x static::y }; p",
    ] {
        let error = eval(script).unwrap_err();
        assert!(error.contains("won't create"), "{script}: {error}");
    }
    assert_eq!(
        eval("set static::y 5; upvar 0 static::y x; set x"),
        Ok("5".into())
    );
}

#[test]
fn a_script_that_fails_takes_no_other_with_it() {
    let mut engine = engine();
    let rule = "when RULE_INIT { after 0 { error a }; after 0 { set static::b 1 } }";
    let program = engine.load(&[source(rule)]).unwrap();
    assert!(engine.init(&program, &mut Nowhere).is_empty());
    assert_eq!(engine.run_due(&mut Nowhere).len(), 1);
    assert!(engine.run_due(&mut Nowhere).is_empty());
    assert_eq!(engine.static_value("static::b"), Some(Value::from(1_i64)));
    assert_eq!(engine.next_due(), None);
}

#[test]
fn a_side_is_left_however_its_script_is_left() {
    for script in [
        "foreach a {1 2} { serverside { break } }",
        "foreach a {1 2} { serverside { continue } }",
        "set s break; foreach a {1 2} { serverside { eval $s } }",
        "while 1 { peer { catch { serverside { error a } }; break } }",
        "call turned",
        "catch { serverside { error a } }",
        "catch { serverside { return a } }",
        "serverside { call caught }; clientside",
    ] {
        assert_eq!(
            eval(&format!("{script}; clientside")),
            Ok("1".into()),
            "{script}"
        );
    }
    assert_eq!(
        eval("serverside { call caught; serverside }"),
        Ok("1".into())
    );
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
        .load(&[source(
            "proc endless {} { call endless }\n\
             proc turned {} { serverside { return a } }\n\
             proc caught {} { catch { error a } }",
        )])
        .map_err(|errors| format!("{errors:?}"))?;
    let mut connection = Connection::new(&program, nowhere::flow());
    match engine.eval(&mut connection, &Value::from(script), &mut Nowhere) {
        Ok(value) => Ok(value.lossy()),
        Err(failure) => Err(failure.message),
    }
}
