//! What comes from elsewhere: included files, feeds, the environment; and texts that mean harm.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop at what it did not expect"
)]

use std::path::Path;

use model::{Config, HostPattern, MemorySource, PathMatch};
use proptest::prelude::*;

fn read(source: &MemorySource) -> Result<Config, String> {
    model::parse(Path::new("/etc/main.yaml"), source).map_err(|errors| errors.to_string())
}

fn text(text: &str) -> Result<Config, String> {
    read(&MemorySource::default().file("/etc/main.yaml", text))
}

#[test]
fn a_name_in_two_files_names_both_places() {
    let source = MemorySource::default()
        .file(
            "/etc/main.yaml",
            "include: conf.d/*.yaml\npools:\n  app: {members: []}\n",
        )
        .file("/etc/conf.d/a.yaml", "pools:\n  app: {members: []}\n");
    assert_eq!(
        read(&source).unwrap_err(),
        "/etc/conf.d/a.yaml:2:3: `app` is given twice; the first is at /etc/main.yaml:3:3\n \
         2 |   app: {members: []}\n   |   ^^^"
    );
}

#[test]
fn included_files_hold_shared_sections_alone() {
    let source = MemorySource::default()
        .file("/etc/main.yaml", "include: [a.yaml, missing.yaml]\n")
        .file("/etc/a.yaml", "workers: 2\npools:\n");
    assert_eq!(
        read(&source).unwrap_err(),
        "/etc/a.yaml:1:1: `workers` belongs in the main file; included files hold virtuals, pools, monitors, \
         tls_profiles, address_lists, rules, data_groups and ifiles\n \
         1 | workers: 2\n   | ^^^^^^^\n\
         /etc/main.yaml:1:19: cannot read `/etc/missing.yaml`: no such file\n \
         1 | include: [a.yaml, missing.yaml]\n   |                   ^^^^^^^^^^^^"
    );
}

#[test]
fn references_reach_across_files() {
    let main = "include: b.yaml\nvirtuals:\n  v: {listen: 127.0.0.1:80, pool: app}\n";
    let source = MemorySource::default().file("/etc/main.yaml", main).file(
        "/etc/b.yaml",
        "pools: {app: {members: [a.example:80], monitors: m}}\nmonitors: {m: {type: tcp}}\n",
    );
    assert_eq!(read(&source).unwrap().pools.len(), 1);
}

#[test]
fn paths_are_relative_to_the_file_they_stand_in() {
    let source = MemorySource::default()
        .file("/etc/main.yaml", "include: sites/a.yaml\n")
        .file(
            "/etc/sites/a.yaml",
            "address_lists: {bad: {file: bad.txt}}\n",
        )
        .file("/etc/sites/bad.txt", "192.0.2.0/24\n");
    let config = read(&source).unwrap();
    assert_eq!(
        config.address_lists["bad"].feed[0].to_string(),
        "192.0.2.0/24"
    );
    assert_eq!(
        config.address_lists["bad"].file.as_ref().unwrap().as_path(),
        Path::new("/etc/sites/bad.txt")
    );
}

#[test]
fn a_bad_line_of_a_feed_is_shown_in_the_feed() {
    let source = MemorySource::default()
        .file("/etc/main.yaml", "address_lists: {bad: {file: bad.txt}}\n")
        .file("/etc/bad.txt", "# bad ones\n  192.0.2.1/24 # typo\n");
    assert_eq!(
        read(&source).unwrap_err(),
        "/etc/bad.txt:2:3: bits are set after the prefix length; the block that holds this address is 192.0.2.0/24\n \
         2 |   192.0.2.1/24 # typo\n   |   ^^^^^^^^^^^^"
    );
}

#[test]
fn the_environment_fills_values_and_defaults_fill_gaps() {
    let main = "user: ${WHO}\ngroup: \"${NONE:-g}-$${x}\"\nworkers: ${N:-3}\n";
    let source = MemorySource::default()
        .file("/etc/main.yaml", main)
        .variable("WHO", "someone");
    let config = read(&source).unwrap();
    assert_eq!(
        (config.user.as_deref(), config.group.as_deref()),
        (Some("someone"), Some("g-${x}"))
    );
    assert_eq!(config.workers, model::Workers::Count(3));
}

#[test]
fn a_variable_cannot_bring_in_structure() {
    let source = MemorySource::default()
        .file("/etc/main.yaml", "user: ${WHO}\n")
        .variable("WHO", "x\nworkers: 7");
    assert_eq!(
        read(&source).unwrap().user.as_deref(),
        Some("x\nworkers: 7")
    );
}

#[test]
fn an_empty_secret_is_no_secret() {
    let source = MemorySource::default()
        .file(
            "/etc/main.yaml",
            "admin: {listen: 0.0.0.0:9900, token_file: token}\n",
        )
        .file("/etc/token", " \n");
    assert!(
        read(&source)
            .unwrap_err()
            .contains("cannot read `/etc/token`: it is empty")
    );
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(text("").unwrap(), Config::default());
    assert_eq!(text("# nothing\n").unwrap(), Config::default());
}

#[test]
fn an_anchor_stands_for_its_value() {
    let config = text("pools:\n  a: &p {members: [10.0.0.1:80]}\n  b: *p\n").unwrap();
    assert_eq!(config.pools["a"], config.pools["b"]);
}

#[test]
fn aliases_cannot_multiply_without_end() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{below}]\n");
    }
    assert!(
        text(&bomb)
            .unwrap_err()
            .contains("aliases make more than 1,000,000 values")
    );
}

#[test]
fn deep_nesting_is_refused() {
    let told = text(&"[".repeat(100)).unwrap_err();
    assert!(told.contains("nested more than 32 deep"), "{told}");
    let blocks: String = (0..100)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    let told = text(&blocks).unwrap_err();
    assert!(told.contains("nested more than 32 deep"), "{told}");
}

#[test]
fn endless_errors_are_cut_short() {
    let mut many = "pools:\n".to_owned();
    for pool in 0..300 {
        many += &format!("  p{pool}: {{}}\n");
    }
    let errors = model::parse_text(Path::new("x"), &many, &MemorySource::default()).unwrap_err();
    assert_eq!(errors.0.len(), 101);
    assert!(errors.to_string().contains("too many errors"));
}

#[test]
fn a_protocol_that_is_not_spoken_is_not_offered() {
    let source = MemorySource::default().file("/etc/a", "").file(
        "/etc/main.yaml",
        "tls_profiles: {t: {certificates: {certificate: a, key: a}, alpn: [h2, http/1.1]}}\n\
         virtuals: {v: {listen: 127.0.0.1:1, tls: t, routes: {respond: {}}}}\n",
    );
    let told = read(&source).unwrap_err();
    assert!(
        told.starts_with("/etc/main.yaml:2:42: the `alpn` of this profile offers more"),
        "{told}"
    );
}

#[test]
fn a_member_without_a_name_goes_by_its_address_however_odd() {
    let host = format!(
        "{}.example",
        ["a".repeat(60), "b".repeat(60), "c".repeat(60)].join(".")
    );
    let config = text(&format!(
        "pools: {{p: {{members: ['[fe80::1%2]:80', '{host}:80']}}}}"
    ))
    .unwrap();
    assert_eq!(&*config.pools["p"].members[0].label(), "[fe80::1%2]:80");
    assert_eq!(&*config.pools["p"].members[1].label(), format!("{host}:80"));
}

#[test]
fn a_prefix_of_a_path_ends_at_a_segment() {
    let prefix = PathMatch::Prefix("/api".to_owned());
    assert!(prefix.matches("/api") && prefix.matches("/api/x"));
    assert!(!prefix.matches("/apis"));
    assert!(!PathMatch::Prefix("/api/".to_owned()).matches("/api"));
}

#[test]
fn a_wildcard_host_needs_a_label() {
    let pattern = HostPattern::Suffix(".b.example".to_owned());
    assert!(pattern.matches("A.B.example") && pattern.matches("x.a.b.example"));
    assert!(
        !pattern.matches("b.example")
            && !pattern.matches(".b.example")
            && !pattern.matches("ab.example")
    );
}

const FULL: &str = include_str!("../../../examples/full.yaml");

proptest! {
    /// Slips of the hand in a good file: cuts, doubled parts, strange characters.
    #[test]
    fn no_slip_brings_the_reader_down(
        at in 0..FULL.len(), length in 0usize..40, to in 0..FULL.len(),
        with in "[ -~\n\t{}\\[\\]&*!|>'\"%@`é\u{0}]{0,4}",
    ) {
        let cut: String = FULL.chars().take(at).chain(with.chars()).chain(FULL.chars().skip(at + length)).collect();
        let _ = text(&cut);
        let moved: String = FULL.chars().take(to).chain(FULL.chars().skip(at).take(length)).chain(with.chars()).collect();
        let _ = text(&moved);
    }

    #[test]
    fn no_text_brings_the_reader_down(any in "\\PC{0,80}") {
        let _ = text(&any);
        let _ = text(&format!("pools:\n  a: {any}\nvirtuals:\n  {any}: [{any}]\n"));
    }
}
