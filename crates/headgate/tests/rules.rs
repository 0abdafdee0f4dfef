//! Rules that come with Headgate, tests of commands, and what `headgate rule` says.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn headgate(words: &[&str], folder: &Path) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_headgate"))
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

/// Runs the tests of a folder: how many there are.
fn all_pass(folder: &str) -> usize {
    let mut count = 0;
    let mut failed = Vec::new();
    for file in proxy::rule_test::files(&root().join(folder)).unwrap() {
        let outcomes = match proxy::rule_test::run(&file, "") {
            Ok(outcomes) => outcomes,
            Err(error) => panic!("{error}"),
        };
        for outcome in outcomes {
            count += 1;
            for complaint in outcome.complaints {
                failed.push(format!(
                    "{}:{}: {}\n  {}",
                    file.display(),
                    complaint.line,
                    outcome.name,
                    complaint.text
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    count
}

#[test]
fn the_commands_of_rules_do_what_their_tests_say() {
    assert!(all_pass("tests/rules") >= 200);
}

#[test]
fn each_rule_that_comes_along_has_tests_that_pass() {
    all_pass("rules/tests");
    for entry in fs::read_dir(root().join("rules")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "tcl") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let test = root().join(format!("rules/tests/{name}.test"));
            assert!(test.exists(), "{}", test.display());
        }
    }
}

#[test]
fn rules_that_come_along_are_looked_over_without_a_warning() {
    let rules = root().join("rules");
    let mut words = vec!["rule".to_owned(), "check".to_owned()];
    for entry in fs::read_dir(&rules).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "tcl") {
            words.push(path.display().to_string());
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (output, text) = headgate(&words, &rules);
    assert!(output.status.success(), "{text}");
    assert!(text.ends_with("0 errors, 0 warnings\n"), "{text}");
}

#[test]
fn a_wrong_rule_is_shown_with_its_line_and_a_caret() {
    let folder = tempfile::tempdir().unwrap();
    let rule = "when HTTP_REQUEST {\n    HTTP::urri /x\n}\n";
    fs::write(folder.path().join("wrong.tcl"), rule).unwrap();
    let (output, text) = headgate(&["rule", "check", "wrong.tcl"], folder.path());
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("wrong.tcl:2:5: error: "), "{text}");
    assert!(
        text.contains("\n        HTTP::urri /x\n        ^\n"),
        "{text}"
    );
    assert!(text.contains("HTTP::uri"), "{text}");
    let words = ["rule", "check", "--json", "wrong.tcl"];
    let (output, text) = headgate(&words, folder.path());
    assert_eq!(output.status.code(), Some(1));
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list[0]["line"], 2);
    assert_eq!(list[0]["column"], 5);
    assert_eq!(list[0]["severity"], "error");
}

#[test]
fn a_test_that_fails_says_what_was_expected_and_what_came() {
    let folder = tempfile::tempdir().unwrap();
    let tests = "rule\n    when HTTP_REQUEST { HTTP::respond 404 }\n\ntest right\n    request GET /\n    expect response 404\n\ntest wrong\n    request GET /\n    expect response 200\n";
    fs::write(folder.path().join("a.test"), tests).unwrap();
    let (output, text) = headgate(&["rule", "test", "."], folder.path());
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("ok   ./a.test:4: right\n"), "{text}");
    assert!(text.contains("FAIL ./a.test:8: wrong\n"), "{text}");
    assert!(text.contains("line 10: status: expected \"200\""), "{text}");
    assert!(text.contains("1 test passed, 1 failed"), "{text}");
    let words = ["rule", "test", "--only", "right", "a.test"];
    let (output, text) = headgate(&words, folder.path());
    assert!(output.status.success(), "{text}");
}

#[test]
fn a_profile_of_tests_counts_events_and_commands() {
    let folder = tempfile::tempdir().unwrap();
    let tests = "rule mine\n    when HTTP_REQUEST { HTTP::header insert A [string length [HTTP::uri]] }\n\ntest a\n    request GET /\n";
    fs::write(folder.path().join("a.test"), tests).unwrap();
    let words = [
        "rule",
        "profile",
        "--rounds",
        "7",
        "--commands",
        "--json",
        "a.test",
    ];
    let (output, text) = headgate(&words, folder.path());
    assert!(output.status.success(), "{text}");
    let rows: Vec<control::view::ProfiledEvent> = serde_json::from_str(&text).unwrap();
    let event = rows.iter().find(|row| row.command.is_none()).unwrap();
    assert_eq!((&*event.rule, &*event.event), ("mine", "HTTP_REQUEST"));
    assert_eq!(event.count, 7);
    assert!(event.minimum <= event.average() && event.average() <= event.maximum);
    let command = rows
        .iter()
        .find(|row| row.command.as_deref() == Some("HTTP::uri"));
    assert_eq!(command.unwrap().count, 7);
}
