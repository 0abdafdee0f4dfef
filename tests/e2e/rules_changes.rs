//! Rules that change while they run, and rules that fail: who notices, who does not, and what the operator is told.

use crate::support::{mirror, ruled, rules};
use headgate_tests::{Builder, Headgate, Wire, eventually};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const COUNTING: &str = "when RULE_INIT {
    if { ![info exists static::inits] } { set static::inits 0 }
    incr static::inits
    set static::hits 0
}
when CLIENT_ACCEPTED { set mine 0 }
when HTTP_REQUEST {
    HTTP::respond 200 content \"v1 mine [incr mine] hits [incr static::hits] inits $static::inits\"
}
";

/// One worker with a rule of a file, and a second one that is changed.
fn in_files(text: &str, more: &str) -> String {
    format!(
        "workers: 1\nrules: {{r: {{file: $DIR/r.tcl}}, {text}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', rules: [r], {more}}}}}\n"
    )
}

#[test]
fn a_changed_rule_that_is_wrong_keeps_the_old_one_and_is_explained() {
    let builder = Builder::new();
    let file = builder.dir().write("r.tcl", COUNTING);
    let gate = builder.start(&in_files("", ""));
    let mut open = Wire::connect(gate.at(8080));
    assert_eq!(open.get("/").text(), "v1 mine 1 hits 1 inits 1");
    for (bad, place, why) in [
        (
            "when HTTP_REQUEST {\n    HTTP::respond 200 content v2\n    HTTP::nothing\n}\n",
            ":3:5",
            "HTTP::nothing",
        ),
        ("when HTTP_REQUEST {\n    if { 1 } {\n", ":1:19", "brace"),
        (
            "when HTTP_REQUEST {\n\n  set x [expr { 1 + }]\n}\n",
            ":3:",
            "expr",
        ),
        ("when NEVER {\n}\n", ":1:6", "NEVER"),
        (
            "when HTTP_REQUEST { ASM::disable }\n",
            ":1:21",
            "ASM::disable",
        ),
        (
            "when RULE_INIT { set f [open /etc/passwd] }\n",
            ":1:25",
            "open",
        ),
    ] {
        gate.dir().write("r.tcl", bad);
        let (status, answer) = gate.api("POST", "/v1/reload", "");
        assert!(status >= 400, "{status} {answer}");
        let at = format!("{}{place}", file.display());
        let answer = answer.to_string();
        for word in [&*at, "rule r:", why] {
            assert!(answer.contains(word), "no {word}: {answer}");
        }
        eventually("the log says it too", || {
            gate.log().contains(&at).then_some(())
        });
        assert!(open.get("/").text().starts_with("v1 "));
        let new = Wire::connect(gate.at(8080)).get("/").text();
        assert!(new.starts_with("v1 mine 1 "), "{new}");
    }
    gate.dir().write("r.tcl", COUNTING.replace("v1", "v2"));
    let (status, answer) = gate.api("POST", "/v1/reload", "");
    assert_eq!(status, 200, "{answer}");
    let new = Wire::connect(gate.at(8080)).get("/").text();
    assert_eq!(
        new, "v2 mine 1 hits 1 inits 2",
        "RULE_INIT ran for what is new"
    );
}

#[test]
fn open_connections_and_statics_of_unchanged_rules_survive_reloads() {
    let builder = Builder::new();
    builder.dir().write("r.tcl", COUNTING);
    let gate = builder.start(&in_files("", ""));
    let mut open = Wire::connect(gate.at(8080));
    assert_eq!(open.get("/").text(), "v1 mine 1 hits 1 inits 1");
    for n in 2..6 {
        let other = format!("other: {{text: 'when RULE_INIT {{ set static::other {n} }}'}}");
        gate.reconfigure(&in_files(
            &other,
            &format!("limits: {{connections: {}}}", 100 + n),
        ));
        let text = open.get("/").text();
        assert_eq!(text, format!("v1 mine {n} hits {n} inits 1"));
    }
    gate.dir().write("r.tcl", COUNTING.replace("v1", "v2"));
    gate.reconfigure(&in_files("", ""));
    let text = open.get("/").text();
    assert!(
        text.contains(" mine 6 "),
        "its variables are still there: {text}"
    );
    let text = Wire::connect(gate.at(8080)).get("/").text();
    assert!(text.starts_with("v2 mine 1 "), "{text}");
    assert!(text.ends_with(" inits 2"), "{text}");
}

#[test]
fn a_change_of_a_rules_file_is_seen_without_being_told() {
    let builder = Builder::new();
    builder.dir().write("r.tcl", COUNTING);
    let gate = builder.start(&in_files("", ""));
    std::thread::sleep(Duration::from_millis(1100));
    gate.dir().write("r.tcl", COUNTING.replace("v1", "v2"));
    eventually("the change is seen", || {
        let text = Wire::connect(gate.at(8080)).get("/").text();
        text.starts_with("v2").then_some(())
    });
}

#[test]
fn a_failing_rule_resets_its_connection_alone_and_the_log_says_where() {
    let origin = mirror();
    let rule = "proc inner { of } {
    return [expr { 1 / $of }]
}
when HTTP_REQUEST {
    if { [HTTP::path] eq \"/bad\" } {
        set x [call inner 0]
    }
    if { [HTTP::path] eq \"/unset\" } { log local0. $nothing }
}
when HTTP_RESPONSE { if { [HTTP::header exists X-None] } { HTTP::uri } }
";
    let gate = Headgate::start(&ruled(rule, origin.address()));
    let mut other = Wire::connect(gate.at(8080));
    assert_eq!(other.get("/").status(), 200);
    for path in ["/bad", "/unset"] {
        let mut client = Wire::connect(gate.at(8080));
        client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert!(client.try_response("GET").is_err(), "no answer to {path}");
        assert_eq!(other.get("/").status(), 200);
    }
    assert_eq!(origin.count(), 3, "what failed went nowhere");
    eventually("the log has both", || {
        (gate.log().matches("TCL error").count() == 2).then_some(())
    });
    let log = gate.log();
    for word in [
        "rule=r",
        "event=HTTP_REQUEST",
        "line=6",
        "divide by zero",
        "call inner 0",
        "line=8",
        "can't read \"nothing\": no such variable",
    ] {
        assert!(log.contains(word), "no {word} in {log}");
    }
    assert_eq!(metric(&gate, "rule_errors_total{rule=\"r\"}"), 2.0);
    assert_eq!(metric(&gate, "rule_exhausted_total{rule=\"r\"}"), 0.0);
}

#[test]
fn a_rule_that_runs_away_is_ended_and_counted_while_others_are_served() {
    let origin = mirror();
    let rule = "when HTTP_REQUEST {
    switch [HTTP::path] {
        /loop { catch { while { 1 } { } } }
        /memory { set x y; while { 1 } { append x $x } }
        /deep { proc_deep }
        default { }
    }
}
";
    let rule = rule.replace("proc_deep", "call deep") + "proc deep { } { call deep }\n";
    let config = format!(
        "workers: 1\nrule_limits: {{instructions: 1000000}}\n{}",
        ruled(&rule, origin.address())
    );
    let gate = Headgate::start(&config);
    let mut other = Wire::connect(gate.at(8080));
    assert_eq!(other.get("/").status(), 200);
    for (n, path) in ["/loop", "/memory", "/deep", "/loop"].iter().enumerate() {
        let mut client = Wire::connect(gate.at(8080));
        client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let begun = Instant::now();
        assert_eq!(other.get("/").status(), 200, "while {path}");
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{path}: {:?}",
            begun.elapsed()
        );
        assert!(client.try_response("GET").is_err(), "no answer to {path}");
        let counted = metric(&gate, "rule_exhausted_total{rule=\"r\"}");
        assert_eq!(counted, (n + 1) as f64, "{path}\n{}", gate.log());
    }
    assert!(gate.memory() < 300 << 20, "{} bytes", gate.memory());
}

#[test]
fn the_table_is_shared_and_statics_are_each_workers_own() {
    let rule = "when RULE_INIT { set static::n 0 }
when HTTP_REQUEST {
    HTTP::respond 200 content \"[TMM::cmp_unit] [TMM::cmp_count] [incr static::n] [table incr total]\"
}
";
    let gate = Headgate::start(
        &(rules(&[("r", rule)])
            + "workers: 2\nvirtuals: {web: {listen: '$IP:8080', rules: [r]}}\n"),
    );
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = 0;
    while total < 8 || seen.len() < 2 {
        let text = Wire::connect(gate.at(8080)).get("/").text();
        let words: Vec<&str> = text.split(' ').collect();
        total += 1;
        let own = seen.entry(words[0].to_owned()).or_default();
        *own += 1;
        assert_eq!(words[1], "2", "{text}");
        assert_eq!(words[2], own.to_string(), "{text}");
        assert_eq!(words[3], total.to_string(), "{text}");
        assert!(total < 200, "one worker has all: {seen:?}");
    }
    let units: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(units, ["0", "1"]);
    // A reload changes neither.
    gate.reconfigure(
        &(rules(&[("r", rule)])
            + "workers: 2\nvirtuals: {web: {listen: '$IP:8080', rules: [r], limits: {connections: 99}}}\n"),
    );
    let text = Wire::connect(gate.at(8080)).get("/").text();
    assert!(text.ends_with(&format!(" {}", total + 1)), "{text}");
}

#[test]
fn a_configuration_with_rules_that_are_wrong_is_refused_by_check_too() {
    let builder = Builder::new();
    let path = builder.dir().write(
        "c.yaml",
        ruled(
            "when HTTP_REQUEST {\n  HTTP::nothing\n}",
            "127.0.0.1:1".parse().unwrap(),
        )
        .replace("$IP", "127.0.0.1"),
    );
    let program = headgate_tests::binary().display().to_string();
    let path = path.display().to_string();
    let (good, text) = headgate_tests::run(&program, &["check", &path], "");
    assert!(
        !good && text.contains("line 2 of its text, column 3"),
        "{text}"
    );
    assert!(text.contains("HTTP::nothing"), "{text}");
}

fn metric(gate: &Headgate, name: &str) -> f64 {
    let all = gate.metrics();
    let found = all.iter().find(|(key, _)| key.ends_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {all:?}")).1
}
