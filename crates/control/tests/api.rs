//! The API over its sockets, in front of an engine that runs.
#![allow(missing_docs, clippy::unwrap_used)]

mod rig;

use control::client::ClientError;
use control::view::{Condition, Done, MemberChange, MemberState, Pool, Status};
use rig::{Rig, ask_tcp};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const OPEN: &str = "listen: '127.0.0.1:0', insecure_no_token: true";
const TOKEN: &str = "listen: '127.0.0.1:0', token_file: token";
const BEARER: &str = "Authorization: Bearer s3cret\r\n";

#[test]
fn every_route_of_the_document_answers_as_the_document_says() {
    let (rig, _) = Rig::start("");
    let (_, text) = rig.ask("GET", "/v1/openapi.json", "");
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let list = path.split('/').nth(2).unwrap_or_default();
        let path = path
            .replace("{pool}", "app")
            .replace("{member}", "a%2F1")
            .replace("{name}", if list == "pools" { "app" } else { "web" });
        for (method, operation) in methods.as_object().unwrap() {
            // The last one that can be asked: nothing comes after it.
            if path == "/v1/drain" {
                continue;
            }
            let body = if method == "patch" {
                r#"{"weight": 3}"#
            } else {
                ""
            };
            let (status, text) = rig.ask(&method.to_uppercase(), &path, body);
            let expected = if path == "/v1/upgrade" { 422 } else { 200 };
            assert_eq!(status, expected, "{method} {path}: {text}");
            let described = &operation["responses"][status.to_string()];
            assert!(
                described.is_object(),
                "{method} {path}: {status} is not described"
            );
            asked += 1;
        }
    }
    assert_eq!(asked, 17);
    assert_eq!(rig.ask("POST", "/v1/drain", "").0, 200);
    assert_eq!(rig.ask("GET", "/readyz", "").0, 503);
    let status: Status = rig.client().get("/v1/status").unwrap();
    assert_eq!(status.phase, control::view::Phase::Draining);
}

#[test]
fn a_member_can_be_drained_and_weighed_and_only_as_far_as_that_makes_sense() {
    let (rig, _) = Rig::start("");
    let client = rig.client();
    let path = "/v1/pools/app/members/a%2F1";
    let change = MemberChange {
        state: Some(MemberState::Drain),
        weight: Some(7),
    };
    let pool: Pool = client.send("PATCH", path, Some(&change)).unwrap();
    assert_eq!(
        (pool.members[0].condition, pool.members[0].weight),
        (Condition::Draining, 7)
    );
    assert_eq!(pool.members[1].condition, Condition::Up);
    let wrong = [
        "",
        "{}",
        r#"{"weight": 257}"#,
        r#"{"weight": -1}"#,
        r#"{"state": "gone"}"#,
        r#"{"wait": 1}"#,
    ];
    for body in wrong {
        let (status, text) = rig.ask("PATCH", path, body);
        assert_eq!(status, 400, "{body}: {text}");
        assert!(text.contains("\"help\":"), "{text}");
    }
    let error = client
        .send::<Pool>("PATCH", "/v1/pools/app/members/c", Some(&change))
        .unwrap_err();
    let ClientError::Refused(problem) = error else {
        panic!("{error}");
    };
    assert_eq!(
        (problem.status, &*problem.help),
        (404, "its members are: a/1, b")
    );
    assert_eq!(
        rig.ask("PATCH", "/v1/pools/x/members/c", r#"{"weight": 1}"#)
            .0,
        404
    );
}

#[test]
fn what_is_not_there_or_too_large_is_told_as_a_problem() {
    let (rig, _) = Rig::start("");
    for (method, path, status) in [
        ("GET", "/v1/pools/none", 404),
        ("GET", "/v1/virtuals/none", 404),
        ("GET", "/nothing", 404),
        ("DELETE", "/v1/pools", 405),
        ("GET", "/v1/reload", 405),
    ] {
        let (answered, text) = rig.ask(method, path, "");
        assert_eq!(answered, status, "{method} {path}");
        let problem: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(problem["status"], json!(status));
    }
    let large = format!(r#"{{"weight": 1{}}}"#, " ".repeat(100_000));
    let (status, _) = rig.ask("PATCH", "/v1/pools/app/members/b", &large);
    assert!(matches!(status, 400 | 413), "{status}");
}

#[test]
fn the_unix_socket_is_its_owners_alone() {
    let (rig, _) = Rig::start("");
    let mode = fs::metadata(rig.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let left_over = fs::read_dir(rig.folder.path()).unwrap();
    let hidden = left_over.filter(|e| {
        e.as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with('.')
    });
    assert_eq!(hidden.count(), 0);
}

#[test]
fn over_tcp_the_token_is_asked_for_and_wrong_ones_are_counted() {
    let (rig, address) = Rig::start(TOKEN);
    let address = address.unwrap();
    assert_eq!(ask_tcp(address, "/v1/status", "").0, 401);
    assert_eq!(
        ask_tcp(address, "/v1/config", "Authorization: Bearer s3cre\r\n").0,
        401
    );
    let (status, text) = ask_tcp(address, "/v1/config", BEARER);
    assert_eq!(status, 200);
    assert!(
        !text.contains("s3cret"),
        "the token must not be shown: {text}"
    );
    for free in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(ask_tcp(address, free, "").0, 200, "{free}");
    }
    let (_, counters) = rig.ask("GET", "/v1/counters", "");
    assert!(counters.contains(r#""admin_refused":2"#), "{counters}");
}

#[test]
fn metrics_can_be_kept_behind_the_token() {
    let (_rig, address) = Rig::start(&format!("{TOKEN}, metrics_without_token: false"));
    let address = address.unwrap();
    assert_eq!(ask_tcp(address, "/metrics", "").0, 401);
    assert_eq!(ask_tcp(address, "/metrics", BEARER).0, 200);
}

#[test]
fn without_a_token_a_web_page_gets_nothing() {
    let (_rig, address) = Rig::start(OPEN);
    let address = address.unwrap();
    assert_eq!(ask_tcp(address, "/v1/status", "").0, 200);
    assert_eq!(
        ask_tcp(address, "/v1/status", "Origin: http://evil.example\r\n").0,
        403
    );
}

#[test]
fn another_token_and_another_address_take_effect_by_a_reload() {
    let (rig, first) = Rig::start(TOKEN);
    let first = first.unwrap();
    fs::write(rig.folder.path().join("token"), "other").unwrap();
    rig.configure(
        "socket: admin.sock, listen: '127.0.0.1:0', token_file: token",
        "",
    );
    let _: Done = rig
        .client()
        .send("POST", "/v1/reload", None::<&()>)
        .unwrap();
    assert_eq!(
        rig.address(),
        Some(first),
        "an address that stays is not bound anew"
    );
    assert_eq!(ask_tcp(first, "/v1/status", BEARER).0, 401);
    assert_eq!(
        ask_tcp(first, "/v1/status", "Authorization: Bearer other\r\n").0,
        200
    );
    rig.configure("socket: second.sock", "");
    let _: Done = rig
        .client()
        .send("POST", "/v1/reload", None::<&()>)
        .unwrap();
    assert_eq!(rig.address(), None);
    assert!(!rig.socket().exists());
    let moved = control::client::Client::new(rig.folder.path().join("second.sock"));
    assert_eq!(moved.get::<Status>("/v1/status").unwrap().generation, 3);
}

#[test]
fn a_wrong_configuration_changes_nothing_and_stands_in_the_status() {
    let (rig, _) = Rig::start("");
    for (more, why) in [
        ("wurkers: 2\n", "did you mean `workers`?"),
        // Nobody may listen on an address that is nobody's here.
        ("include: [extra.yaml]\n", "192.0.2.1:1"),
    ] {
        fs::write(
            rig.folder.path().join("extra.yaml"),
            "virtuals: {more: {listen: '192.0.2.1:1', pool: app}}",
        )
        .unwrap();
        rig.configure("socket: third.sock", more);
        let (status, text) = rig.ask("POST", "/v1/reload", "");
        assert_eq!(status, 422, "{text}");
        let now: Status = rig.client().get("/v1/status").unwrap();
        let last = now.last_reload.unwrap();
        assert!(!last.ok && last.error.unwrap().contains(why));
        assert_eq!(now.generation, 1);
        assert!(!rig.folder.path().join("third.sock").exists());
    }
    rig.configure("socket: admin.sock", "monitors: {port: {type: tcp}}\n");
    assert_eq!(rig.ask("POST", "/v1/reload", "").0, 200);
    let now: Status = rig.client().get("/v1/status").unwrap();
    assert_eq!(now.last_reload.unwrap().changes, ["monitor port added"]);
}

#[test]
fn metrics_have_each_sample_once_and_under_its_type() {
    let (rig, _) = Rig::start("");
    let (_, text) = rig.ask("GET", "/metrics", "");
    let (mut types, mut samples) = (HashSet::new(), HashSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let family = rest.split(' ').next().unwrap();
            assert!(types.insert(family), "{family} has two types");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let family = series.split('{').next().unwrap();
        assert!(types.contains(family), "{line} comes before its type");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(samples.insert(series), "{series} is there twice");
    }
    for series in [
        "headgate_virtual_requests_total{virtual=\"web\"}",
        "headgate_member_up{pool=\"app\",member=\"a/1\",address=\"127.0.0.1:9\"}",
        "headgate_connections",
    ] {
        assert!(samples.contains(series), "no {series} in\n{text}");
    }
}

#[test]
fn status_and_top_can_be_had_as_text() {
    let (rig, _) = Rig::start("");
    let picture = control::status::Picture::take(&rig.client()).unwrap();
    let text = picture.render(false);
    assert!(
        text.contains("a/1 127.0.0.1:9") && text.contains("1 backup"),
        "{text}"
    );
    let mut out = Vec::new();
    control::top::once(&rig.client(), &mut out, false).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("REQ/S") && text.contains("app/b"), "{text}");
}
