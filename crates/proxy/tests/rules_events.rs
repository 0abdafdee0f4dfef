//! Events that come seldom: interim responses, HTTP that is left, queues, members that clients come back to in vain. And the
//! cookies by which they do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod common;

use common::script::{Member, Proxy, Wire, ok};
use common::{start, until};
use std::sync::Mutex;

fn text(rule: &str, members: &[&Member], pool: &str) -> String {
    let mut text = Proxy::text(members, pool, "rules: [r]");
    text.push_str("rules:\n  r:\n    text: |\n");
    for line in rule.lines() {
        text.push_str(&format!("      {line}\n"));
    }
    text
}

fn proxy(rule: &str, members: &[&Member], pool: &str) -> Proxy {
    Proxy::of(start(&text(rule, members, pool)))
}

#[test]
fn an_interim_response_is_shown_and_what_is_made_of_it_goes_on() {
    let member = Member::new(|_, mut wire| {
        while wire.request().is_some() {
            wire.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
            wire.send(&ok("fine"));
        }
    });
    let rule = "when HTTP_REQUEST { set seen {} }
when HTTP_RESPONSE_CONTINUE { append seen [HTTP::status]; HTTP::header insert X-Hint 1 }
when HTTP_RESPONSE { HTTP::header insert X-Seen \"$seen [HTTP::status]\" }";
    let proxy = proxy(rule, &[&member], "");
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        let hint = client.head().unwrap();
        assert!(hint.starts_with("HTTP/1.1 103"), "{hint}");
        assert!(hint.contains("Link: </a.css>\r\n"), "{hint}");
        assert!(hint.contains("X-Hint: 1\r\n"), "{hint}");
        let (head, body) = client.response();
        assert!(head.contains("X-Seen: 103 200\r\n"), "{head}");
        assert!(!head.contains("X-Hint"), "{head}");
        assert_eq!(body, "fine");
    }
}

#[test]
fn an_interim_response_cannot_become_a_final_one() {
    let member = Member::new(|_, mut wire| {
        wire.request();
        wire.send("HTTP/1.1 103 Early Hints\r\n\r\n");
        wire.send(&ok("fine"));
    });
    let rule = "when HTTP_RESPONSE_CONTINUE { HTTP::respond 200 content no }";
    let proxy = proxy(rule, &[&member], "");
    let mut client = proxy.connect();
    let (head, body) = client.get("/");
    // An answer of the rule's own is another thing: it takes the member's place.
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "no");
}

#[test]
fn leaving_http_is_told() {
    let member = Member::new(|_, mut wire| {
        let Some((head, _)) = wire.request() else {
            return;
        };
        if head.starts_with("GET /upgrade") {
            wire.send("HTTP/1.1 101 Switching\r\nUpgrade: chat\r\nConnection: Upgrade\r\n\r\n");
        } else if !head.starts_with("GET /raw") {
            wire.send(&ok(""));
            return;
        }
        wire.send("raw\n");
    });
    let rule = "when HTTP_REQUEST { if { [HTTP::path] eq \"/raw\" } { HTTP::disable } }
when HTTP_DISABLED { table incr left }
when HTTP_RESPONSE { HTTP::header insert X-Left [table lookup left] }";
    let proxy = proxy(rule, &[&member], "");
    let left = || {
        let (head, _) = proxy.connect().get("/");
        let left = head.split("X-Left: ").nth(1).unwrap();
        left.split("\r\n").next().unwrap().to_owned()
    };
    assert_eq!(left(), "");
    let mut client = proxy.connect();
    client.send("GET /raw HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.bytes(4).unwrap(), "raw\n");
    assert_eq!(left(), "1");
    let mut client = proxy.connect();
    client.send(
        "GET /upgrade HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n",
    );
    assert!(client.head().unwrap().starts_with("HTTP/1.1 101"));
    assert_eq!(client.bytes(4).unwrap(), "raw\n");
    assert_eq!(left(), "2");
}

#[test]
fn a_request_that_waits_for_a_member_is_told() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let member = Member::new(move |_, mut wire| {
        while let Some((head, _)) = wire.request() {
            if head.contains("/held") {
                gate.lock().unwrap().recv().unwrap();
            }
            wire.send(&ok("fine"));
        }
    });
    let rule = "when HTTP_REQUEST { set queued 0 }
when LB_QUEUED { incr queued }
when HTTP_RESPONSE { HTTP::header insert X-Queued $queued }";
    let limits = "limits: {member_connections: 1, queue: 1, queue_timeout: 30s}";
    let proxy = proxy(rule, &[&member], limits);
    let mut first = proxy.connect();
    first.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n");
    until("it is held", || proxy.member(0).active == 1);
    let mut second = proxy.connect();
    second.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    until("it waits", || proxy.totals().queued == 1);
    release.send(()).unwrap();
    assert!(first.response().0.contains("X-Queued: 0\r\n"));
    assert!(second.response().0.contains("X-Queued: 1\r\n"));
}

/// Two members that say who they are.
fn pair() -> [Member; 2] {
    ["a", "b"].map(|name| Member::answering(move |_| ok(name)))
}

#[test]
fn a_member_that_a_client_comes_back_to_in_vain_is_told_and_replaced() {
    let members = pair();
    let rule = "when HTTP_REQUEST {
  set down 0
  if { [HTTP::path] eq \"/cookie\" } { persist cookie insert MINE } else { persist uie one 60 }
}
when PERSIST_DOWN { incr down }
when HTTP_RESPONSE { HTTP::header insert X-Down $down }";
    let proxy = proxy(rule, &[&members[0], &members[1]], "");
    let mut client = proxy.connect();
    let (head, body) = client.get("/");
    assert!(head.contains("X-Down: 0\r\n"), "{head}");
    assert_eq!(body, "a");
    let (head, body) = client.get("/cookie");
    assert_eq!(body, "a");
    let first = cookie(&head);
    let off = proxy::MemberChange {
        admin: Some(balance::Admin::Disabled),
        weight: None,
    };
    let name = members[0].address.to_string();
    assert_eq!(proxy.engine.set_member("app", &name, off), Ok(1));
    let (head, body) = client.get("/");
    assert!(head.contains("X-Down: 1\r\n"), "{head}");
    assert_eq!(body, "b");
    // From now on it is the other.
    let (head, body) = client.get("/");
    assert!(head.contains("X-Down: 0\r\n"), "{head}");
    assert_eq!(body, "b");
    let (head, body) = ask(&mut client, "/cookie", &first);
    assert!(head.contains("X-Down: 1\r\n"), "{head}");
    assert_eq!(body, "b");
    let second = cookie(&head);
    assert_ne!(first, second);
    let (head, _) = ask(&mut client, "/cookie", &second);
    assert!(!head.contains("Set-Cookie"), "{head}");
}

fn ask(client: &mut Wire, path: &str, cookie: &str) -> (String, String) {
    client.send(&format!(
        "GET {path} HTTP/1.1\r\nHost: test\r\nCookie: {cookie}\r\n\r\n"
    ));
    client.response()
}

/// The name and value of the cookie that a response sets.
fn cookie(head: &str) -> String {
    let field = head.split("Set-Cookie: ").nth(1).expect("a cookie");
    field.split(';').next().unwrap().to_owned()
}

#[test]
fn a_cookie_that_the_member_sets_gets_our_value_and_no_other_does() {
    let members = ["a", "b"].map(|name| {
        Member::answering(move |head| {
            let blank = match head.contains("GET /set") {
                true => "Set-Cookie: other=1\r\nSet-Cookie: MINE=0000; path=/app; Secure\r\n",
                false => "",
            };
            format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{blank}\r\n{name}")
        })
    });
    let rule = "when HTTP_REQUEST { persist cookie rewrite MINE 60 }";
    let text = text(rule, &[&members[0], &members[1]], "");
    let proxy = Proxy::of(start(
        &text.replace("balance: first", "balance: round-robin"),
    ));
    let mut client = proxy.connect();
    let (head, _) = client.get("/");
    assert!(!head.contains("Set-Cookie"), "{head}");
    let (head, body) = client.get("/set");
    assert!(head.contains("Set-Cookie: other=1\r\n"), "{head}");
    let set = head.split("Set-Cookie: MINE=").nth(1).unwrap();
    let set = set.split("\r\n").next().unwrap();
    let (value, rest) = set.split_once(';').unwrap();
    assert_ne!(value, "0000");
    assert_eq!(rest, " path=/app; Secure; max-age=60");
    for _ in 0..4 {
        let (head, again) = ask(&mut client, "/set", &format!("MINE={value}"));
        assert_eq!(again, body);
        assert!(head.contains(&format!("MINE={value};")), "{head}");
    }
}
