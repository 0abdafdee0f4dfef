//! Rules and what they look things up in, as the configuration gives them.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop at what it did not expect"
)]

use std::path::Path;

use model::{Config, DataGroupType, MemorySource};

fn read(text: &str) -> Result<Config, String> {
    let source = MemorySource::default()
        .file("/etc/main.yaml", text)
        .file("/etc/a.tcl", "when RULE_INIT { }\n")
        .file("/etc/g.txt", "\"a\" := \"1\",\n")
        .file("/etc/bad.txt", "10.0.0.0/8\nten\n")
        .file("/etc/geo.mmdb", "")
        .variable("x", "not this");
    model::parse(Path::new("/etc/main.yaml"), &source).map_err(|errors| errors.to_string())
}

#[test]
fn a_rule_is_kept_as_its_text_and_a_virtual_runs_it() {
    let config = read(
        "rules:\n  a: {file: a.tcl}\n  b:\n    text: |\n      log local0. \"${x}\"\n\
         virtuals:\n  v: {listen: 127.0.0.1:80, pool: p, rules: [a, b]}\npools: {p: {members: []}}\n",
    )
    .unwrap();
    assert_eq!(&*config.rules["a"].text, b"when RULE_INIT { }\n");
    assert_eq!(&*config.rules["b"].text, b"log local0. \"${x}\"\n");
    assert_eq!(config.virtuals["v"].rules.len(), 2);
}

#[test]
fn a_rule_that_is_not_there_is_told_where_it_is_asked_for() {
    let wrong = read(
        "rules: {redirect: {file: a.tcl}, both: {file: a.tcl, text: x}, none: {}}\n\
         virtuals: {v: {listen: 127.0.0.1:80, pool: p, rules: [redirct]}}\npools: {p: {members: []}}\n",
    )
    .unwrap_err();
    for expected in [
        "/etc/main.yaml:1:54: `text` has no place here: there is a `file`",
        "a rule needs a `file` or a `text`",
        "/etc/main.yaml:2:55: no rule is named `redirct`; did you mean `redirect`?",
    ] {
        assert!(wrong.contains(expected), "{expected}\n{wrong}");
    }
}

#[test]
fn data_groups_take_maps_lists_and_files() {
    let config = read(
        "data_groups:\n  m: {records: {a: 1, b: , '10': x}}\n  l: {type: integer, records: [5, 6]}\n  \
         f: {type: string, file: g.txt}\nifiles: {page: g.txt}\n",
    )
    .unwrap();
    let text = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        pairs.iter().map(own).collect()
    };
    let groups = &config.data_groups;
    assert_eq!(
        groups["m"].records,
        text(&[("a", "1"), ("b", ""), ("10", "x")])
    );
    assert_eq!(groups["l"].kind, DataGroupType::Integer);
    assert_eq!(groups["l"].records, text(&[("5", ""), ("6", "")]));
    assert_eq!(&*groups["f"].content, b"\"a\" := \"1\",\n");
    assert_eq!(&*config.ifiles["page"].content, b"\"a\" := \"1\",\n");
}

#[test]
fn a_wrong_line_of_a_reputation_list_is_told_with_its_place() {
    let wrong = read("geography: geo.mmdb\nreputation: [{file: bad.txt, category: Spam}]\n");
    assert!(
        wrong.unwrap_err().contains("/etc/bad.txt:2:1: "),
        "the list's own line"
    );
}

#[test]
fn limits_have_safe_defaults_and_bounds() {
    let limits = Config::default().rule_limits;
    assert_eq!(limits.instructions, 10_000_000);
    assert_eq!(limits.memory.get(), 64 << 20);
    assert_eq!(limits.recursion, 200);
    let wrong = read("rule_limits: {recursion: 100000}\n").unwrap_err();
    assert!(wrong.contains("out of range"), "{wrong}");
}
