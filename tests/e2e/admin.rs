//! The admin interface: over TCP with its token, metrics, the document of the API, and the commands.

use crate::support::config;
use headgate_tests::{Builder, Headgate, Load, Message, Origin, Wire};

fn with_token(origin: &Origin) -> Headgate {
    let builder = Builder::new();
    builder
        .dir()
        .write("token", "s3cret-token-of-some-length\n");
    builder.start(&format!(
        "admin: {{socket: $DIR/admin.sock, listen: '$IP:9900', token_file: $DIR/token}}\n{}",
        config(origin.address(), "", "")
    ))
}

fn ask(gate: &Headgate, path: &str, field: &str) -> Message {
    let mut wire = Wire::connect(gate.at(9900));
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{field}\r\n"));
    wire.response()
}

#[test]
fn the_api_over_tcp_asks_for_its_token() {
    let origin = Origin::named("a");
    let gate = with_token(&origin);
    for (field, status) in [
        ("Authorization: Bearer s3cret-token-of-some-length\r\n", 200),
        ("Authorization: Bearer s3cret-token-of-some-lengtH\r\n", 401),
        ("Authorization: Bearer \r\n", 401),
        ("", 401),
    ] {
        assert_eq!(ask(&gate, "/v1/status", field).status(), status, "{field}");
        let mut wire = Wire::connect(gate.at(9900));
        wire.send(format!(
            "POST /v1/reload HTTP/1.1\r\nHost: h\r\n{field}Content-Length: 0\r\n\r\n"
        ));
        assert_eq!(wire.response().status(), status, "{field}");
    }
    assert_eq!(ask(&gate, "/metrics", "").status(), 200, "metrics are free");
    assert!(!gate.log().contains("s3cret"), "the token is not logged");
    let config = gate.read("/v1/config").to_string();
    assert!(!config.contains("s3cret"), "nor told");
}

#[test]
fn the_socket_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let origin = Origin::named("a");
    let gate = with_token(&origin);
    let socket = std::fs::metadata(gate.dir().path().join("admin.sock")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
}

#[test]
fn metrics_add_up_to_what_was_done() {
    let origin = Origin::named("a");
    let gate = with_token(&origin);
    let load = Load::start(gate.at(8080), 4, "/");
    load.more(100);
    let done = load.finish();
    done.assert_clean();
    let metrics = gate.metrics();
    let sum = |name: &str, label: &str| -> f64 {
        let all = metrics.iter();
        all.filter(|(key, _)| key.starts_with(name) && key.contains(label))
            .map(|(_, value)| value)
            .sum()
    };
    let total = done.total() as f64;
    assert!(
        (sum("headgate_virtual_requests", "virtual=\"web\"") - total).abs() < 0.5,
        "{metrics:?}"
    );
    assert!(
        (sum("headgate_member_requests", "pool=\"app\"") - total).abs() < 0.5,
        "{metrics:?}"
    );
}

#[test]
fn the_document_of_the_api_tells_every_path_and_only_true_ones() {
    let origin = Origin::named("a");
    let gate = with_token(&origin);
    let document = gate.read("/v1/openapi.json");
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 12, "{:?}", paths.keys());
    let text = document.to_string();
    for (path, operations) in paths {
        if operations.get("get").is_none() {
            continue;
        }
        let filled = path.replace(
            "{name}",
            if path.contains("virtual") {
                "web"
            } else {
                "app"
            },
        );
        let filled = filled.replace("{virtual}", "web").replace("{pool}", "app");
        let answer = gate.read(&filled);
        assert!(!answer.is_null(), "{filled}");
        assert!(operations["get"]["responses"]["200"].is_object(), "{path}");
    }
    // Every reference leads somewhere.
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}

#[test]
fn what_is_wrong_with_a_request_is_explained() {
    let origin = Origin::named("a");
    let gate = with_token(&origin);
    for (method, path, body, status) in [
        ("GET", "/v1/pools/none", "", 404),
        ("GET", "/v1/nothing", "", 404),
        ("DELETE", "/v1/status", "", 405),
        (
            "PATCH",
            "/v1/pools/app/members/none",
            r#"{"state":"drain"}"#,
            404,
        ),
        (
            "PATCH",
            "/v1/pools/app/members/none",
            r#"{"stat":"drain"}"#,
            422,
        ),
        ("PATCH", "/v1/pools/app/members/none", "{", 400),
    ] {
        let (got, answer) = gate.api(method, path, body);
        assert!((400..500).contains(&got), "{method} {path}: {got} {answer}");
        if status != 422 {
            assert_eq!(got, status, "{method} {path} {answer}");
        }
        assert!(
            !answer["detail"].as_str().unwrap_or_default().is_empty(),
            "{answer}"
        );
    }
}

#[test]
fn commands_show_and_change_what_runs() {
    let origin = Origin::named("a");
    let gate = with_token(&origin);
    let name = origin.address().to_string();
    let member = format!("app/{name}");
    let run = |args: &[&str], expected: &str| {
        let (good, out) = gate.command(args);
        assert!(good && out.contains(expected), "{args:?}: {out}");
    };
    run(&["status"], &name);
    run(&["status", "--json"], "\"virtuals\"");
    run(&["top", "--once"], "web");
    run(&["counters"], "requests");
    run(&["drain", &member], "drain");
    run(&["status"], "drain");
    run(&["enable", &member], "");
    run(&["weight", &member, "7"], "7");
    assert_eq!(gate.member("app", &name)["weight"], 7);
    run(&["disable", &member], "disabled");
    assert_eq!(Wire::connect(gate.at(8080)).get("/").status(), 503);
    run(&["reload"], "reload");
    gate.configure("virtuals: 7");
    let (good, out) = gate.command(&["reload"]);
    assert!(!good && out.contains("headgate.yaml"), "{out}");
    let (good, out) = gate.command(&["drain", "app/none"]);
    assert!(!good && out.contains("none"), "{out}");
}

#[test]
fn a_configuration_is_checked_without_being_run() {
    let dir = headgate_tests::Dir::new();
    let binary = headgate_tests::binary().display().to_string();
    let good = dir.write(
        "good.yaml",
        "virtuals: {web: {listen: '127.0.0.1:80', routes: [{respond: {body: hi}}]}}",
    );
    let bad = dir.write(
        "bad.yaml",
        "virtuals:\n  web:\n    lisen: 127.0.0.1:80\n    timeouts: {head: 10}\n",
    );
    let check = |path: &std::path::Path| {
        headgate_tests::run(&binary, &["check", &path.display().to_string()], "")
    };
    let (fine, out) = check(&good);
    assert!(fine && out.contains("ok"), "{out}");
    let (fine, out) = check(&bad);
    assert!(!fine, "{out}");
    for part in ["bad.yaml:3:5", "did you mean `listen`", "bad.yaml:4:"] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let (fine, schema) = headgate_tests::run(&binary, &["schema"], "");
    assert!(fine && schema.contains("\"$schema\""), "{schema}");
}
