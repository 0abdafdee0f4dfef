//! Where rules send requests and connections: to members chosen by a method of their own, to those that clients come back
//! to, from an address of their choice, and to other virtuals with rules of their own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod common;

use common::script::{Member, Proxy, Wire, ok};
use common::{start, until};

/// A member that answers each request with its name and the path.
fn named(name: &'static str) -> Member {
    Member::answering(move |head| {
        let path = head.split(' ').nth(1).unwrap_or("");
        ok(&format!("{name} {path}"))
    })
}

/// A member that says its name and who has come, and then what it hears.
fn greeter(name: &'static str) -> Member {
    Member::new(move |_, mut wire| {
        let peer = wire.sender().peer_addr().unwrap().ip();
        wire.send(&format!("{name} {peer}\n"));
        while let Some(byte) = wire.bytes(1) {
            wire.send(&byte);
        }
    })
}

fn line(wire: &mut Wire) -> String {
    let mut line = String::new();
    while !line.ends_with('\n') {
        line.push_str(&wire.bytes(1).unwrap());
    }
    line
}

/// The virtual `web` with the rule `r`, and what else there is: virtuals, pools and rules as they are written.
fn proxy(members: &[&Member], service: &str, rule: &str, more: &[(&str, &str)]) -> Proxy {
    let list: Vec<_> = members.iter().map(|m| m.address.to_string()).collect();
    let mut text =
        format!("workers: 1\nlog: {{access: off}}\npools:\n  app: {{members: {list:?}}}\n");
    let indented = |rule: &str| {
        let lines = rule.lines().map(|line| format!("      {line}\n"));
        lines.collect::<String>()
    };
    let of = |kind: &str| {
        let lines = more.iter().filter(move |(what, _)| *what == kind);
        lines
            .map(|(_, line)| format!("  {line}\n"))
            .collect::<String>()
    };
    text += &of("pool");
    text += &format!(
        "virtuals:\n  web: {{listen: \"127.0.0.1:0\", pool: app, rules: [r], {service}}}\n"
    );
    text += &of("virtual");
    text += &format!("rules:\n  r:\n    text: |\n{}", indented(rule));
    for (name, rule) in more.iter().filter(|(what, _)| what.starts_with("rule ")) {
        let name = name.trim_start_matches("rule ");
        text += &format!("  {name}:\n    text: |\n{}", indented(rule));
    }
    Proxy::of(start(&text))
}

#[test]
fn what_is_chosen_before_the_first_request_holds_for_each() {
    let (a, b) = (named("a"), named("b"));
    let other = format!("other: {{members: [\"{}\"]}}", b.address);
    let proxy = proxy(
        &[&a],
        "",
        "when CLIENT_ACCEPTED { pool other }\nwhen HTTP_REQUEST { if { [HTTP::path] eq \"/app\" } { pool app } }",
        &[("pool", &other)],
    );
    let mut client = proxy.connect();
    for (path, wanted) in [("/1", "b /1"), ("/app", "a /app"), ("/2", "b /2")] {
        assert_eq!(client.get(path).1, wanted);
    }
}

#[test]
fn a_rule_chooses_the_method_and_the_member_at_once() {
    let (a, b) = (named("a"), named("b"));
    let rule = "when HTTP_REQUEST {\n  if { [HTTP::path] eq \"/select\" } { set chosen [LB::select pool app] } else { LB::mode rr }\n}\nwhen HTTP_RESPONSE { if { [info exists chosen] } { HTTP::header insert X-Chosen $chosen } }";
    let text = format!(
        "workers: 1\nlog: {{access: off}}\npools: {{app: {{balance: first, members: [\"{}\", \"{}\"]}}}}\nvirtuals: {{web: {{listen: \"127.0.0.1:0\", pool: app, rules: [r]}}}}\nrules:\n  r:\n    text: |\n{}",
        a.address,
        b.address,
        rule.lines()
            .map(|l| format!("      {l}\n"))
            .collect::<String>()
    );
    let proxy = Proxy::of(start(&text));
    let mut client = proxy.connect();
    let mut seen: Vec<_> = (0..4).map(|_| client.get("/").1).collect();
    seen.sort();
    assert_eq!(seen, ["a /", "a /", "b /", "b /"]);
    let (head, body) = client.get("/select");
    assert_eq!(body, "a /select");
    let chosen = format!(
        "X-Chosen: pool app member {} {}\r\n",
        a.address.ip(),
        a.address.port()
    );
    assert!(head.contains(&chosen), "{head}");
}

#[test]
fn a_tcp_client_comes_back_to_its_member() {
    let (a, b) = (greeter("a"), greeter("b"));
    let proxy = proxy(
        &[&a, &b],
        "protocol: tcp",
        "when CLIENT_ACCEPTED { persist source_addr 60 }",
        &[],
    );
    let first = line(&mut proxy.connect());
    for _ in 0..3 {
        assert_eq!(line(&mut proxy.connect()), first);
    }
}

#[test]
fn a_tcp_member_sees_the_address_that_a_rule_names() {
    let a = greeter("a");
    let proxy = proxy(
        &[&a],
        "protocol: tcp",
        "when CLIENT_ACCEPTED { snat 127.0.0.77 }",
        &[],
    );
    assert_eq!(line(&mut proxy.connect()), "a 127.0.0.77\n");
}

#[test]
fn a_request_is_handed_to_another_virtual_and_its_rules() {
    let (a, b) = (named("a"), named("b"));
    let other = format!("other: {{members: [\"{}\"]}}", b.address);
    let proxy = proxy(
        &[&a],
        "",
        "when CLIENT_ACCEPTED { set tenant outer; sharedvar tenant; set own 1 }
when HTTP_REQUEST {
  if { [HTTP::path] starts_with \"/in\" } { virtual inner }
  if { [HTTP::path] eq \"/tenant\" } { HTTP::respond 200 content $tenant }
}
when HTTP_RESPONSE { HTTP::header insert X-Outer 1 }",
        &[
            ("pool", &other),
            (
                "virtual",
                "inner: {listen: \"127.0.0.1:0\", pool: other, rules: [second]}",
            ),
            (
                "rule second",
                "when CLIENT_ACCEPTED { table incr entered }
when HTTP_REQUEST {
  if { [HTTP::path] eq \"/in/own\" } { HTTP::respond 200 content \"[virtual] $tenant [info exists own] [table lookup entered]\"; return }
  append tenant +inner
  HTTP::uri /seen[HTTP::uri]
}
when HTTP_RESPONSE { HTTP::header insert X-Inner 1 }
when CLIENT_CLOSED { table incr entered 10 }",
            ),
        ],
    );
    let mut client = proxy.connect();
    assert_eq!(client.get("/x").1, "a /x");
    let (head, body) = client.get("/in/1");
    assert_eq!(body, "b /seen/in/1");
    assert!(head.contains("X-Inner: 1"), "{head}");
    assert!(!head.contains("X-Outer: 1"), "{head}");
    assert_eq!(client.get("/in/own").1, "inner outer+inner 0 1");
    assert_eq!(client.get("/tenant").1, "outer+inner");
    let (head, body) = client.get("/y");
    assert_eq!(body, "a /y");
    assert!(head.contains("X-Outer: 1"), "{head}");
    drop(client);
    until("the connection ends", || proxy.engine.connections() == 0);
    assert_eq!(proxy.connect().get("/in/own").1, "inner outer 0 12");
}

#[test]
fn virtuals_that_hand_on_to_each_other_do_not_do_so_for_ever() {
    let a = named("a");
    let proxy = proxy(
        &[&a],
        "",
        "when HTTP_REQUEST { virtual inner }",
        &[
            (
                "virtual",
                "inner: {listen: \"127.0.0.1:0\", pool: app, rules: [second]}",
            ),
            ("rule second", "when HTTP_REQUEST { virtual web }"),
        ],
    );
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(client.is_ended());
    assert_eq!(a.connections(), 0);
}

#[test]
fn a_connection_is_handed_to_another_virtual_and_its_rules() {
    let (a, b) = (greeter("a"), greeter("b"));
    let other = format!("other: {{members: [\"{}\"]}}", b.address);
    let proxy = proxy(
        &[&a],
        "protocol: tcp",
        "when CLIENT_ACCEPTED { TCP::collect 4 }\nwhen CLIENT_DATA {\n  set first [TCP::payload]\n  sharedvar first\n  TCP::release\n  if { $first starts_with \"in\" } { virtual inner }\n  if { $first starts_with \"no\" } { virtual plain }\n}",
        &[
            ("pool", &other),
            (
                "virtual",
                "inner: {listen: \"127.0.0.1:0\", protocol: tcp, pool: other, rules: [second]}",
            ),
            (
                "virtual",
                "plain: {listen: \"127.0.0.1:0\", protocol: tcp, pool: other}",
            ),
            (
                "rule second",
                "when CLIENT_ACCEPTED { TCP::respond \"inner $first\\n\" }",
            ),
        ],
    );
    let mut client = proxy.connect();
    client.send("in-1");
    assert_eq!(line(&mut client), "inner in-1\n");
    assert_eq!(line(&mut client), "b 127.0.0.1\n");
    assert_eq!(client.bytes(4).unwrap(), "in-1");
    let mut client = proxy.connect();
    client.send("no-1");
    assert_eq!(line(&mut client), "b 127.0.0.1\n");
    let mut client = proxy.connect();
    client.send("else");
    assert_eq!(line(&mut client), "a 127.0.0.1\n");
}

#[test]
fn a_connection_that_leaves_http_before_its_first_request_is_relayed() {
    let a = greeter("a");
    let proxy = proxy(
        &[&a],
        "",
        "when CLIENT_ACCEPTED { HTTP::disable }\nwhen CLIENT_CLOSED { table incr closed }",
        &[],
    );
    // The kernel hands on a connection to such a virtual when the client has spoken.
    let mut client = proxy.connect();
    client.send("\0\x01 no HTTP\n");
    assert_eq!(line(&mut client), "a 127.0.0.1\n");
    assert_eq!(line(&mut client), "\0\x01 no HTTP\n");
}
