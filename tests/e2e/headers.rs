//! Fields on their way through, and where requests go by host and path.

use crate::support::{in_front_of, ok, web};
use headgate_tests::{Headgate, Origin, Wire};

#[test]
fn hop_by_hop_fields_stay_on_their_hop() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nConnection: X-Own, keep-alive\r\nX-Own: 1\r\nKeep-Alive: timeout=9\r\n\
          Proxy-Connection: keep-alive\r\nX-Kept: 1\r\nContent-Length: 2\r\n\r\nok"
            .to_vec()
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send(
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n\
         Proxy-Connection: keep-alive\r\nTE: trailers, deflate\r\nUpgrade: h2c\r\nX-Kept: 1\r\n\r\n",
    );
    let response = wire.response();
    let request = origin.last();
    for gone in ["x-mine", "keep-alive", "proxy-connection", "upgrade"] {
        assert_eq!(request.field(gone), None, "{gone} in the request");
    }
    for gone in ["x-own", "keep-alive", "proxy-connection"] {
        assert_eq!(response.field(gone), None, "{gone} in the response");
    }
    assert_eq!(request.field("x-kept"), Some("1"));
    assert_eq!(response.field("x-kept"), Some("1"));
}

#[test]
fn a_strangers_account_of_himself_is_replaced() {
    let origin = Origin::named("a");
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send(
        "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n\r\n",
    );
    wire.response();
    let request = origin.last();
    assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(request.all("x-forwarded-proto"), ["http"]);
}

#[test]
fn a_trusted_proxys_account_is_kept_and_added_to() {
    let origin = Origin::named("a");
    let gate = web(
        origin.address(),
        "trusted_proxies: [127.0.0.0/8], headers: {forwarded: {forwarded: true, x_forwarded_host: true, \
         x_forwarded_port: true}}",
    );
    let mut wire = Wire::connect(gate.at(8080));
    wire.send(
        "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n\
         Forwarded: for=1.2.3.4;proto=https\r\n\r\n",
    );
    wire.response();
    let request = origin.last();
    assert_eq!(
        request.all("x-forwarded-for").join(", "),
        "1.2.3.4, 127.0.0.1"
    );
    assert_eq!(request.all("x-forwarded-proto"), ["https"]);
    let forwarded = request.all("forwarded").join(", ");
    assert!(
        forwarded.starts_with("for=1.2.3.4;proto=https, ") && forwarded.contains("for=127.0.0.1"),
        "{forwarded}"
    );
}

#[test]
fn every_form_of_forwarding_says_what_is_so() {
    let origin = Origin::named("a");
    let gate = web(
        origin.address(),
        "headers: {forwarded: {forwarded: true, x_forwarded_host: true, x_forwarded_port: true}}",
    );
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: site.example\r\n\r\n");
    wire.response();
    let request = origin.last();
    assert_eq!(request.field("x-forwarded-host"), Some("site.example"));
    assert_eq!(request.field("x-forwarded-port"), Some("8080"));
    let forwarded = request.field("forwarded").unwrap();
    for part in ["for=127.0.0.1", "proto=http", "host=\"site.example\""] {
        assert!(forwarded.contains(part), "{forwarded}");
    }
}

#[test]
fn every_request_has_an_id_of_its_own_unless_the_clients_is_kept() {
    let origin = Origin::named("a");
    let gate = web(
        origin.address(),
        "headers: {forwarded: {request_id: {header: X-Request-Id, keep: true}}}",
    );
    let mut wire = Wire::connect(gate.at(8080));
    wire.get("/1");
    wire.get("/2");
    wire.send("GET /3 HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine-3\r\n\r\n");
    wire.response();
    wire.send("GET /4 HTTP/1.1\r\nHost: h\r\nX-Request-Id: not a plain id\r\n\r\n");
    wire.response();
    let ids: Vec<String> = origin
        .requests()
        .iter()
        .map(|request| request.field("x-request-id").unwrap().to_owned())
        .collect();
    assert_eq!(ids[2], "mine-3");
    assert_ne!(ids[3], "not a plain id");
    assert!(ids[0].len() >= 16 && ids[0] != ids[1], "{ids:?}");
    let line = gate.access_line(|line| line["target"] == "/1");
    assert_eq!(line["request_id"], ids[0].as_str());
}

#[test]
fn edits_change_requests_and_responses() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 302 Found\r\nLocation: http://inner/x\r\nServer: origin/1\r\nContent-Length: 0\r\n\r\n"
            .to_vec()
    });
    let gate = Headgate::start(&format!(
        r#"
pools:
  app: {{members: ['{}']}}
virtuals:
  web:
    listen: '$IP:8080'
    pool: app
    headers:
      request:
        - set: {{name: X-Client, value: "{{client_ip}} {{method}} {{path}}?{{query}} {{host}}"}}
        - add: {{name: X-Many, value: b}}
        - delete: X-Debug
      response:
        - replace: {{name: Location, from: "http://", to: "https://"}}
        - set: {{name: X-Frame-Options, value: DENY}}
        - delete: Server
"#,
        origin.address()
    ));
    let mut wire = Wire::connect(gate.at(8080));
    wire.send(
        "GET /a?b=c HTTP/1.1\r\nHost: h\r\nX-Client: forged\r\nx-client: again\r\nX-Many: a\r\nX-Debug: 1\r\n\r\n",
    );
    let response = wire.response();
    let request = origin.last();
    assert_eq!(request.all("x-client"), ["127.0.0.1 GET /a?b=c h"]);
    assert_eq!(request.all("x-many"), ["a", "b"]);
    assert_eq!(request.field("x-debug"), None);
    assert_eq!(response.field("location"), Some("https://inner/x"));
    assert_eq!(response.field("x-frame-options"), Some("DENY"));
    assert_eq!(response.field("server"), None);
}

#[test]
fn requests_go_where_host_path_method_and_fields_say() {
    let origins = [
        "default", "host", "wild", "prefix", "suffix", "exact", "post", "field",
    ]
    .map(Origin::named);
    let pools: String = [
        "rest", "host", "wild", "prefix", "suffix", "exact", "post", "field",
    ]
    .iter()
    .zip(&origins)
    .map(|(name, origin)| format!("  {name}: {{members: ['{}']}}\n", origin.address()))
    .collect();
    let gate = Headgate::start(&format!(
        r#"
pools:
{pools}
virtuals:
  web:
    listen: '$IP:8080'
    pool: rest
    routes:
      - {{match: {{headers: [{{name: X-Version, value: "2"}}]}}, pool: field}}
      - {{match: {{host: a.example}}, pool: host}}
      - {{match: {{host: "*.b.example"}}, pool: wild}}
      - {{match: {{path: /exact}}, pool: exact}}
      - {{match: {{path: {{prefix: /api}}}}, pool: prefix}}
      - {{match: {{path: {{suffix: .css}}}}, pool: suffix}}
      - {{match: {{method: [POST, PUT]}}, pool: post}}
"#
    ));
    let mut wire = Wire::connect(gate.at(8080));
    for (method, target, host, extra, to) in [
        ("GET", "/", "h", "", "default"),
        ("GET", "/", "a.example", "", "host"),
        ("GET", "/", "A.Example:80", "", "host"),
        ("GET", "/", "x.b.example", "", "wild"),
        ("GET", "/", "b.example", "", "default"),
        ("GET", "/exact", "h", "", "exact"),
        ("GET", "/exact?q", "h", "", "exact"),
        ("GET", "/exact/", "h", "", "default"),
        ("GET", "/api", "h", "", "prefix"),
        ("GET", "/api/x", "h", "", "prefix"),
        ("GET", "/apis", "h", "", "default"),
        ("GET", "/x/y.css?v=1", "h", "", "suffix"),
        ("GET", "/x?y.css", "h", "", "default"),
        ("PUT", "/", "h", "", "post"),
        ("GET", "/", "a.example", "X-Version: 2\r\n", "field"),
        ("GET", "/", "h", "X-Version: 3\r\n", "default"),
    ] {
        wire.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{extra}Content-Length: 0\r\n\r\n"
        ));
        assert_eq!(wire.response().text(), to, "{method} {target} at {host}");
    }
}

#[test]
fn redirects_and_answers_of_its_own_need_no_origin() {
    let gate = Headgate::start(
        r#"
virtuals:
  web:
    listen: '$IP:8080'
    routes:
      - {match: {host: old.example}, redirect: {to: "https://new.example{uri}", status: 301}}
      - {match: {path: /gone}, respond: {status: 410, body: "No more.\n", headers: {X-Why: moved}}}
      - {match: {path: /plain}, redirect: {to: "https://{host}{uri}"}}
"#,
    );
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET /a?b=c HTTP/1.1\r\nHost: old.example\r\n\r\n");
    let moved = wire.response();
    assert_eq!(moved.status(), 301);
    assert_eq!(moved.field("location"), Some("https://new.example/a?b=c"));
    let gone = wire.get("/gone");
    assert_eq!((gone.status(), gone.text()), (410, "No more.\n".into()));
    assert_eq!(gone.field("x-why"), Some("moved"));
    let plain = wire.get("/plain");
    assert_eq!(plain.status(), 308);
    assert_eq!(plain.field("location"), Some("https://h/plain"));
    wire.send("HEAD /gone HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(wire.try_response("HEAD").unwrap().length(), Some(9));
    assert_eq!(wire.get("/elsewhere").status(), 404, "no route takes it");
    assert_eq!(gate.counter("web", "own_responses"), 5);
}

#[test]
fn a_response_that_could_be_split_differently_is_not_passed_on() {
    for (what, response) in [
        (
            "two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        ),
        (
            "length and coding",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "bare line feeds",
            "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        ),
        (
            "folded field",
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
        ),
        ("no http", "SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    ] {
        let origin = Origin::answering(move |_| response.into());
        let gate = in_front_of(&origin);
        let answer = Wire::connect(gate.at(8080)).get("/");
        assert_eq!(answer.status(), 502, "{what}");
    }
}

#[test]
fn bytes_behind_a_response_are_not_taken_for_the_next() {
    let origin = Origin::scripted(|mut wire, nth| {
        while let Some(request) = wire.request() {
            let mut bytes = ok(request.target());
            if nth == 0 {
                bytes.extend(ok("smuggled"));
            }
            wire.send(bytes);
        }
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    for target in ["/1", "/2", "/3"] {
        assert_eq!(wire.get(target).text(), target);
    }
    assert_eq!(origin.accepted(), 2, "the first connection is given up");
}
