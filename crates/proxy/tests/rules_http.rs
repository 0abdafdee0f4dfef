//! HTTP virtuals with rules, as clients and members see them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod common;

use common::script::{Member, Proxy, Wire, ok};
use common::{config, start, until};
use std::time::Duration;

/// A virtual whose one rule is `rule`, before a member that answers with `answer`.
fn proxy(rule: &str, member: &Member) -> Proxy {
    with(rule, &[member], "")
}

fn with(rule: &str, members: &[&Member], more: &str) -> Proxy {
    Proxy::of(start(&text(rule, members, more)))
}

fn text(rule: &str, members: &[&Member], more: &str) -> String {
    let mut text = Proxy::text(members, "", "rules: [r]");
    text.push_str("rules:\n  r:\n    text: |\n");
    for line in rule.lines() {
        text.push_str("      ");
        text.push_str(line);
        text.push('\n');
    }
    text.push_str(more);
    text
}

/// A member that answers with the head that it was sent, and the body behind it.
fn mirror() -> Member {
    Member::new(|_, mut wire| {
        while let Some((head, body)) = wire.request() {
            wire.send(&ok(&(head + &body)));
        }
    })
}

fn status(head: &str) -> &str {
    &head[9..12]
}

#[test]
fn a_rule_answers_redirects_and_keeps_the_connection() {
    let member = mirror();
    let proxy = proxy(
        "when HTTP_REQUEST {\n  if { [HTTP::path] eq \"/own\" } { HTTP::respond 403 content \"no\" X-Why rule } elseif { [HTTP::path] eq \"/old\" } { HTTP::redirect \"https://[HTTP::host]/new\" }\n}",
        &member,
    );
    let mut client = proxy.connect();
    let (head, body) = client.get("/own");
    assert_eq!((status(&head), body.as_str()), ("403", "no"), "{head}");
    assert!(head.contains("\r\nX-Why: rule\r\n"), "{head}");
    let (head, _) = client.get("/old");
    assert_eq!(status(&head), "302", "{head}");
    assert!(
        head.contains("\r\nLocation: https://test/new\r\n"),
        "{head}"
    );
    assert!(client.get("/x").1.starts_with("GET /x "));
    assert_eq!(member.connections(), 1);
}

#[test]
fn what_a_rule_changes_of_a_head_the_member_sees() {
    let proxy = proxy(
        "when HTTP_REQUEST {\n  HTTP::uri \"/api[HTTP::uri]\"\n  HTTP::header insert X-Client [IP::client_addr]\n  HTTP::header remove Cookie\n}",
        &mirror(),
    );
    let mut client = proxy.connect();
    client.send("GET /a?b=1 HTTP/1.1\r\nHost: test\r\nCookie: a=b\r\n\r\n");
    let (_, seen) = client.response();
    assert!(seen.starts_with("GET /api/a?b=1 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("\r\nX-Client: 127.0.0.1\r\n"), "{seen}");
    assert!(!seen.contains("Cookie"), "{seen}");
}

#[test]
fn what_a_rule_changes_of_a_response_the_client_sees() {
    let member = Member::answering(|_| {
        "HTTP/1.1 200 OK\r\nServer: origin\r\nContent-Length: 4\r\n\r\nfine".to_owned()
    });
    let proxy = proxy(
        "when HTTP_RESPONSE {\n  HTTP::header remove Server\n  HTTP::header insert X-Long [string repeat x 5000]\n  HTTP::header insert X-Status [HTTP::status]\n}",
        &member,
    );
    let mut client = proxy.connect();
    for _ in 0..2 {
        let (head, body) = client.get("/");
        assert!(
            !head.contains("Server") && head.contains("\r\nX-Status: 200\r\n"),
            "{head}"
        );
        assert_eq!(body, "fine");
    }
}

#[test]
fn variables_live_as_long_as_the_connection() {
    let proxy = proxy(
        "when CLIENT_ACCEPTED { set n 0 }\nwhen HTTP_REQUEST { incr n; HTTP::header insert X-N $n }\nwhen HTTP_RESPONSE { HTTP::header insert X-M $n }",
        &mirror(),
    );
    let mut client = proxy.connect();
    for n in 1..4 {
        let (head, body) = client.get("/");
        assert!(head.contains(&format!("X-M: {n}\r\n")), "{head}");
        assert!(body.contains(&format!("X-N: {n}\r\n")), "{body}");
    }
    assert!(proxy.connect().get("/").1.contains("X-N: 1\r\n"));
}

#[test]
fn a_rule_chooses_the_pool_and_it_wins_over_routes() {
    let (a, b) = (
        Member::answering(|_| ok("a")),
        Member::answering(|_| ok("b")),
    );
    let base = text(
        "when HTTP_REQUEST { if { [HTTP::path] starts_with \"/b\" } { pool other } }\nwhen LB_SELECTED { set to [LB::server pool] }\nwhen HTTP_RESPONSE { HTTP::header insert X-Pool $to }",
        &[&a],
        "",
    );
    let base = base.replace(
        "pools: {app:",
        &format!("pools: {{other: {{members: [\"{}\"]}}, app:", b.address),
    );
    let proxy = Proxy::of(start(&base));
    let mut client = proxy.connect();
    let (head, body) = client.get("/a");
    assert!(
        body == "a" && head.contains("X-Pool: app\r\n"),
        "{head}{body}"
    );
    let (head, body) = client.get("/b");
    assert!(
        body == "b" && head.contains("X-Pool: other\r\n"),
        "{head}{body}"
    );
}

#[test]
fn a_rule_sends_a_request_to_a_node() {
    let (a, b) = (
        Member::answering(|_| ok("a")),
        Member::answering(|_| ok("b")),
    );
    let rule = format!(
        "when HTTP_REQUEST {{ if {{ [HTTP::path] eq \"/b\" }} {{ node {} {} }} }}",
        b.address.ip(),
        b.address.port()
    );
    let proxy = proxy(&rule, &a);
    let mut client = proxy.connect();
    assert_eq!(client.get("/a").1, "a");
    assert_eq!(client.get("/b").1, "b");
    assert_eq!(client.get("/b").1, "b");
}

#[test]
fn an_error_in_a_rule_resets_the_connection_and_no_other() {
    let proxy = proxy(
        "when HTTP_REQUEST { if { [HTTP::path] eq \"/bad\" } { set x $nothing } }",
        &mirror(),
    );
    let mut other = proxy.connect();
    assert_eq!(status(&other.get("/").0), "200");
    let mut client = proxy.connect();
    client.send("GET /bad HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(client.rest().is_err(), "a reset");
    assert_eq!(status(&other.get("/").0), "200");
    let failures = proxy.engine.rule_failures();
    assert_eq!((failures["r"].errors, failures["r"].exhausted), (1, 0));
}

#[test]
fn a_rule_that_runs_away_is_stopped() {
    let proxy = with(
        "when HTTP_REQUEST { set n 0; while { 1 } { incr n } }",
        &[&mirror()],
        "rule_limits: {instructions: 10000}\n",
    );
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(client.rest().is_err(), "a reset");
    assert_eq!(proxy.engine.rule_failures()["r"].exhausted, 1);
}

#[test]
fn a_rule_waits_while_its_worker_serves_others() {
    let proxy = proxy(
        "when HTTP_REQUEST { if { [HTTP::path] eq \"/wait\" } { after 300; HTTP::header insert X-After 1 } }",
        &mirror(),
    );
    let mut waiting = proxy.connect();
    waiting.send("GET /wait HTTP/1.1\r\nHost: test\r\n\r\n");
    let mut client = proxy.connect();
    for _ in 0..5 {
        assert_eq!(status(&client.get("/").0), "200");
    }
    assert!(waiting.is_silent(Duration::from_millis(20)));
    assert!(waiting.response().1.contains("X-After: 1"));
}

#[test]
fn a_client_that_goes_while_its_rule_waits_is_given_up() {
    let proxy = proxy("when HTTP_REQUEST { after 600000 }", &mirror());
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    until("the rule waits", || proxy.engine.rules_waiting().0 == 1);
    client.reset();
    until("it is given up", || proxy.engine.rules_waiting().0 == 0);
    until("the connection too", || proxy.engine.connections() == 0);
}

#[test]
fn scripts_run_later_between_requests_and_may_end_the_connection() {
    let proxy = proxy(
        "when CLIENT_ACCEPTED { after 100 { set late 1 }; after 400 { reject } }\nwhen HTTP_REQUEST { HTTP::header insert X-Late [info exists late] }",
        &mirror(),
    );
    let mut client = proxy.connect();
    assert!(client.get("/").1.contains("X-Late: 0"));
    std::thread::sleep(Duration::from_millis(200));
    assert!(client.get("/").1.contains("X-Late: 1"));
    assert!(client.is_ended());
}

#[test]
fn a_body_that_is_collected_can_be_replaced() {
    let proxy = proxy(
        "when HTTP_REQUEST { HTTP::collect }\nwhen HTTP_REQUEST_DATA { HTTP::payload replace 0 [HTTP::payload length] \"was [HTTP::payload]\"; HTTP::release }",
        &mirror(),
    );
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhe");
        client.send("llo");
        let (_, seen) = client.response();
        assert!(
            seen.contains("Content-Length: 9\r\n") && seen.ends_with("was hello"),
            "{seen}"
        );
    }
    client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    let (_, seen) = client.response();
    assert!(
        seen.ends_with("was abcde") && !seen.contains("chunked"),
        "{seen}"
    );
    // A request without a body has nothing to collect.
    assert_eq!(status(&client.get("/").0), "200");
}

#[test]
fn a_responses_body_can_be_collected_and_replaced() {
    let member = Member::answering(|head| match head.contains("/chunked") {
        true => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            .to_owned(),
        false => ok("hello"),
    });
    let proxy = proxy(
        "when HTTP_RESPONSE { if { [HTTP::header exists Content-Length] } { HTTP::collect [HTTP::header Content-Length] } else { HTTP::collect } }\nwhen HTTP_RESPONSE_DATA { HTTP::payload replace 0 5 goodbye; HTTP::release }",
        &member,
    );
    let mut client = proxy.connect();
    for path in ["/", "/chunked", "/"] {
        let (head, body) = client.get(path);
        assert!(head.contains("Content-Length: 7\r\n"), "{head}");
        assert_eq!(body, "goodbye");
    }
    assert_eq!(member.connections(), 1);
}

#[test]
fn texts_are_replaced_in_bodies_that_pass() {
    let member = Member::new(|_, mut wire| {
        while wire.request().is_some() {
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\nsee http:");
            std::thread::sleep(Duration::from_millis(30));
            wire.send("//a/ now");
            wire.send("\n");
        }
    });
    let proxy = proxy(
        "when HTTP_REQUEST { STREAM::disable }\nwhen HTTP_RESPONSE { STREAM::expression {@http://@https://@}; STREAM::enable }",
        &member,
    );
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = client.head().unwrap();
    assert!(head.contains("chunked"), "{head}");
    let mut body = String::new();
    while !body.ends_with("\r\n0\r\n\r\n") {
        body.push_str(&client.bytes(1).unwrap());
    }
    let text: String = body.split("\r\n").skip(1).step_by(2).collect();
    assert_eq!(text, "see https://a/ now\n");
}

#[test]
fn a_rule_that_is_wrong_keeps_the_old_configuration() {
    let member = mirror();
    let proxy = proxy("when HTTP_REQUEST { HTTP::header insert X-Old 1 }", &member);
    let wrong = text("when HTTP_REQUEST {\n  HTTP::nothing\n}", &[&member], "");
    let error = proxy.engine.apply(config(&wrong)).unwrap_err().to_string();
    assert!(
        error.contains("line 2") && error.contains("HTTP::nothing"),
        "{error}"
    );
    assert!(proxy.connect().get("/").1.contains("X-Old: 1"));
    let right = text(
        "when HTTP_REQUEST { HTTP::header insert X-New 1 }",
        &[&member],
        "",
    );
    proxy.engine.apply(config(&right)).unwrap();
    until("the new rule runs", || {
        proxy.connect().get("/").1.contains("X-New: 1")
    });
}

#[test]
fn rule_init_runs_once_a_worker_and_statics_stay_over_a_reload() {
    let member = mirror();
    let rule = "when RULE_INIT { if { ![info exists static::inits] } { set static::inits 0 }; incr static::inits; set static::hits 0 }\nwhen HTTP_REQUEST { incr static::hits; HTTP::header insert X-Hits $static::hits; HTTP::header insert X-Inits $static::inits }";
    let proxy = proxy(rule, &member);
    assert!(proxy.connect().get("/").1.contains("X-Hits: 1\r\n"));
    let again = text(rule, &[&member], "limits: {connections: 5000}\n");
    proxy.engine.apply(config(&again)).unwrap();
    let address = proxy.engine.snapshot().addresses("web")[0];
    let (_, seen) = Wire::new(common::connect(address)).get("/");
    assert!(
        seen.contains("X-Hits: 2\r\n") && seen.contains("X-Inits: 1\r\n"),
        "{seen}"
    );
}

#[test]
fn lb_failed_may_choose_another_pool_or_answer() {
    let member = Member::answering(|_| ok("fine"));
    let base = text(
        "when LB_FAILED {\n  if { [HTTP::path] eq \"/sorry\" } { HTTP::respond 503 content sorry } else { pool good; LB::reselect }\n}",
        &[&member],
        "",
    );
    // Nobody listens there any more.
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let base = base.replace(
        "pools: {app: {members: [",
        &format!("pools: {{good: {{members: [\"{}\"]}}, app: {{members: [\"{gone}\"], retry: {{attempts: 1}}}}, unused: {{members: [", member.address),
    );
    let proxy = Proxy::of(start(&base));
    let mut client = proxy.connect();
    assert_eq!(client.get("/").1, "fine");
    assert_eq!(client.get("/sorry").1, "sorry");
}

#[test]
fn a_request_can_be_sent_once_more() {
    let member = Member::answering(|head| match head.contains("X-Again") {
        true => ok("second"),
        false => common::script::answer(500, "first"),
    });
    let proxy = proxy(
        "when HTTP_REQUEST { set request [HTTP::request] }\nwhen HTTP_RESPONSE {\n  if { [HTTP::status] == 500 } { HTTP::retry \"[string trimright $request]\\r\\nX-Again: 1\\r\\n\\r\\n\" }\n}",
        &member,
    );
    let mut client = proxy.connect();
    let (head, body) = client.get("/");
    assert_eq!((status(&head), body.as_str()), ("200", "second"));
}
#[test]
fn reject_ends_the_connection_without_an_answer() {
    let proxy = proxy(
        "when CLIENT_ACCEPTED { set n 0 }\nwhen HTTP_REQUEST { if { [HTTP::path] eq \"/reject\" } { reject } }",
        &mirror(),
    );
    let mut client = proxy.connect();
    client.send("GET /reject HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(client.rest().is_err(), "a reset");
}

/// A member that answers with the head that it was sent, and everything behind it that comes with it.
fn raw_mirror() -> Member {
    Member::new(|_, mut wire| {
        while let Some(head) = wire.head() {
            let lower = head.to_ascii_lowercase();
            let mut body = String::new();
            if lower.contains("transfer-encoding: chunked") {
                while !body.ends_with("0\r\n\r\n") {
                    body.push_str(&wire.bytes(1).unwrap());
                }
            } else if let Some(at) = lower.find("content-length: ") {
                let digits: String = lower[at + 16..]
                    .chars()
                    .take_while(char::is_ascii_digit)
                    .collect();
                body = wire.bytes(digits.parse().unwrap()).unwrap();
            }
            wire.send(&ok(&(head + &body)));
        }
    })
}

#[test]
fn a_body_ends_where_it_did_whatever_a_rule_says_of_its_length() {
    let within = "GET /within HTTP/1.1\r\nHost: test\r\n\r\n";
    let chunked = format!(
        "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{within}\r\n0\r\n\r\n",
        within.len()
    );
    let counted = format!("Content-Length: {}\r\n\r\n{within}", within.len());
    for change in [
        "HTTP::header remove Content-Length; HTTP::header remove Transfer-Encoding",
        "HTTP::header remove Transfer-Encoding; HTTP::header replace Content-Length 3",
        "HTTP::header insert Content-Length 1",
        "HTTP::header insert Transfer-Encoding chunked",
        "HTTP::header replace Transfer-Encoding identity",
        "HTTP::method GET; HTTP::header remove Content-Length",
    ] {
        let proxy = proxy(&format!("when HTTP_REQUEST {{ {change} }}"), &raw_mirror());
        for body in [&chunked, &counted] {
            let mut client = proxy.connect();
            client.send(&format!("POST /a HTTP/1.1\r\nHost: test\r\n{body}"));
            let (_, seen) = client.response();
            assert!(
                seen.contains(" /a ") && seen.contains(within),
                "{change}: {seen}"
            );
            client.send("GET /last HTTP/1.1\r\nHost: test\r\n\r\n");
            let (_, seen) = client.response();
            assert!(seen.starts_with("GET /last "), "{change}: {seen}");
        }
    }
}

#[test]
fn a_response_ends_where_it_did_whatever_a_rule_says_of_its_length() {
    for change in [
        "HTTP::header remove Content-Length",
        "HTTP::header replace Content-Length 2",
        "HTTP::header replace Content-Length 200",
        "HTTP::header insert Transfer-Encoding chunked",
    ] {
        for length in [6, 0] {
            let member = Member::new(move |_, mut wire| {
                while wire.request().is_some() {
                    wire.send(&ok(&"answer"[..length]));
                }
            });
            let proxy = proxy(&format!("when HTTP_RESPONSE {{ {change} }}"), &member);
            let mut client = proxy.connect();
            for _ in 0..3 {
                assert_eq!(client.get("/").1, "answer"[..length], "{change}");
            }
            assert_eq!(member.connections(), 1, "{change}");
        }
    }
}

#[test]
fn an_answer_to_head_has_no_body_whatever_a_rule_makes_of_the_method() {
    let member = Member::answering(|head| match head.starts_with("HEAD") {
        true => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n".to_owned(),
        false => ok("body"),
    });
    let proxy = proxy("when HTTP_REQUEST { HTTP::method GET }", &member);
    let mut client = proxy.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n");
    let seen = client.rest().unwrap_or_default();
    assert!(!seen.contains("body"), "{seen}");
    assert_eq!(proxy.connect().get("/").1, "body");
}

#[test]
fn a_body_in_chunks_is_held_back_only_up_to_the_limit() {
    let proxy = with(
        "when HTTP_REQUEST { HTTP::collect }\nwhen HTTP_REQUEST_DATA { HTTP::release }",
        &[&mirror()],
        "rule_limits: {collect: 64KiB}\n",
    );
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    let mut sender = client.sender();
    for _ in 0..6 {
        if std::io::Write::write_all(&mut sender, chunk.as_bytes()).is_err() {
            break;
        }
    }
    let (head, _) = client.response();
    assert_eq!(status(&head), "413", "{head}");
}

#[test]
fn a_rule_that_wants_ever_more_of_a_body_waits_for_it() {
    let proxy = with(
        "when HTTP_REQUEST { HTTP::collect 1 }\nwhen HTTP_REQUEST_DATA { incr seen; HTTP::header replace X-Seen $seen; HTTP::collect 1 }\nwhen CLIENT_ACCEPTED { set seen 0 }",
        &[&mirror()],
        "rule_limits: {collect: 1KiB}\n",
    );
    for length in [10, 100_000] {
        let mut client = proxy.connect();
        client.send(&format!(
            "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n123"
        ));
        std::thread::sleep(Duration::from_millis(100));
        client.send(&"y".repeat(length - 3));
        let (_, seen) = client.response();
        assert!(
            seen.contains("\r\nX-Seen: ") && seen.contains("123y"),
            "{}",
            &seen[..200]
        );
    }
    assert!(proxy.connect().get("/").1.starts_with("GET / "));
}
