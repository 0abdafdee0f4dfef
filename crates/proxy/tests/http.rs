//! HTTP virtuals as clients see them: order, versions, expectations, upgrades, refusals, reloads.

mod common;

use common::script::{Member, Proxy, answer, ok};
use common::{config, until};
use std::io::Write as _;
use std::thread;
use std::time::Duration;

fn closes(head: &str) -> bool {
    head.to_ascii_lowercase()
        .contains("\r\nconnection: close\r\n")
}

/// A member that answers with the head it was sent.
fn mirror() -> Member {
    Member::answering(ok)
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let member = Member::answering(|head| ok(head.split(' ').nth(1).unwrap()));
    let routes = "routes: [{match: {path: /own}, respond: {body: own}}]";
    let proxy = Proxy::new(&[&member], "", routes);
    let mut client = proxy.connect();
    let paths: Vec<_> = (0..200)
        .map(|n| {
            if n % 3 == 0 {
                "/own".into()
            } else {
                format!("/{n}")
            }
        })
        .collect();
    let requests: String = paths
        .iter()
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
        .collect();
    client.send(&requests);
    for path in &paths {
        let body = client.response().1;
        assert_eq!(body, if path == "/own" { "own" } else { path });
    }
}

#[test]
fn a_client_that_never_stops_leaves_others_their_turn() {
    let routes = "routes: [{match: {path: /own}, respond: {body: own}}]";
    let proxy = Proxy::new(&[&mirror()], "", routes);
    let client = proxy.connect();
    let (mut sender, mut drain) = (client.sender(), client);
    let requests = "GET /own HTTP/1.1\r\nHost: test\r\n\r\n".repeat(1000);
    let busy = thread::spawn(move || {
        for _ in 0..40 {
            sender.write_all(requests.as_bytes()).unwrap();
        }
    });
    let drained = thread::spawn(move || {
        for _ in 0..40_000 {
            assert_eq!(drain.response().1, "own");
        }
    });
    for _ in 0..20 {
        assert!(proxy.connect().get("/").0.starts_with("HTTP/1.1 200"));
    }
    busy.join().unwrap();
    drained.join().unwrap();
}

#[test]
fn a_client_that_ends_its_side_still_gets_its_response() {
    let member = Member::answering(|_| {
        thread::sleep(Duration::from_millis(100));
        ok("late")
    });
    let proxy = Proxy::new(&[&member], "", "");
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    client.end();
    assert_eq!(client.response().1, "late");
    assert!(client.is_ended());
}

#[test]
fn what_comes_behind_the_last_request_does_not_cost_its_response() {
    let body = "x".repeat(300_000);
    let answer = ok(&body);
    let member = Member::answering(move |_| answer.clone());
    let proxy = Proxy::new(&[&member], "", "");
    for _ in 0..5 {
        let mut client = proxy.connect();
        let mut sender = client.sender();
        let more = "GET / HTTP/1.1\r\nHost: test\r\n\r\n".repeat(5000);
        let sent = thread::spawn(move || {
            let last = "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".to_owned();
            let _ = sender.write_all((last + &more).as_bytes());
        });
        thread::sleep(Duration::from_millis(20));
        let (head, got) = client.response();
        assert!(closes(&head), "{head}");
        assert!(got == body);
        sent.join().unwrap();
    }
}

#[test]
fn a_client_that_waits_for_100_gets_it_from_the_member() {
    let member = Member::new(|_, mut wire| {
        while let Some(head) = wire.head() {
            assert!(head.contains("\r\nExpect: 100-continue\r\n"), "{head}");
            wire.send("HTTP/1.1 100 Continue\r\n\r\n");
            let body = wire.bytes(5).unwrap();
            wire.send(&ok(&body));
        }
    });
    let proxy = Proxy::new(&[&member], "", "");
    let mut client = proxy.connect();
    for body in ["hello", "again"] {
        client.send(
            "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        );
        assert_eq!(client.head().unwrap(), "HTTP/1.1 100 Continue\r\n\r\n");
        client.send(body);
        let (head, echoed) = client.response();
        assert_eq!(echoed, body, "{head}");
    }
}

#[test]
fn a_client_that_waits_for_100_may_get_the_final_answer_instead() {
    let member = Member::new(|_, mut wire| {
        wire.head();
        wire.send(&answer(401, "who are you?"));
        assert!(wire.is_ended(), "the body is not to be sent on later");
    });
    let proxy = Proxy::new(&[&member], "", "");
    let mut client = proxy.connect();
    client
        .send("POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let (head, body) = client.response();
    assert!(closes(&head), "{head}");
    assert_eq!(body, "who are you?");
    assert!(client.is_ended());
}

#[test]
fn http_1_0_gets_nothing_it_does_not_know() {
    let member = Member::new(|_, mut wire| {
        while let Some(head) = wire.head() {
            assert!(!head.contains("Expect"), "{head}");
            let body = if head.starts_with("HEAD") {
                ""
            } else {
                "3\r\nabc\r\n0\r\n\r\n"
            };
            wire.send(&format!(
                "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
            ));
        }
    });
    let proxy = Proxy::new(&[&member], "", "");
    for (method, expected) in [("GET", "abc"), ("HEAD", "")] {
        let mut client = proxy.connect();
        client.send(&format!(
            "{method} / HTTP/1.0\r\nExpect: 100-continue\r\nConnection: keep-alive\r\n\r\n"
        ));
        let head = client.head().unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(!head.contains("chunked"), "{head}");
        assert_eq!(closes(&head), method == "GET", "{head}");
        client.end();
        assert_eq!(client.rest().unwrap(), expected);
    }
}

#[test]
fn an_upgraded_connection_belongs_to_the_two_alone() {
    let member = Member::new(|_, mut wire| {
        let head = wire.head().unwrap();
        assert!(head.contains("\r\nUpgrade: websocket\r\n"), "{head}");
        wire.send("HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly");
        assert_eq!(wire.bytes(9).unwrap(), "from afar");
        wire.send("GET / HTTP/1.1\r\n\r\n");
        wire.end();
        assert!(wire.is_ended());
    });
    let proxy = Proxy::new(&[&member], "limits: {member_connections: 1}", "");
    let mut client = proxy.connect();
    client.send(
        "GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfrom ",
    );
    let head = client.head().unwrap();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert_eq!(client.bytes(5).unwrap(), "early");
    assert_eq!(proxy.member(0).active, 1);
    client.send("afar");
    client.end();
    assert_eq!(client.rest().unwrap(), "GET / HTTP/1.1\r\n\r\n");
    until("the member is free", || proxy.member(0).active == 0);
    assert_eq!(proxy.totals().upgrades, 1);
}

#[test]
fn no_upgrade_leads_to_another_http() {
    let member = Member::new(|_, mut wire| {
        wire.head();
        wire.send("HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
        assert!(wire.is_ended());
    });
    let proxy = Proxy::new(&[&member], "", "");
    let mut client = proxy.connect();
    client
        .send("GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(client.response().0.starts_with("HTTP/1.1 502"));
}

#[test]
fn a_refusal_of_a_whole_request_keeps_the_connection() {
    let member = mirror();
    let proxy = Proxy::new(&[&member], "", "");
    let drain = |admin| proxy::MemberChange {
        admin: Some(admin),
        weight: None,
    };
    let name = member.address.to_string();
    let set = |admin| proxy.engine.set_member("app", &name, drain(admin)).unwrap();
    set(balance::Admin::Disabled);
    let mut client = proxy.connect();
    for _ in 0..3 {
        let (head, body) = client.get("/");
        assert!(head.starts_with("HTTP/1.1 503") && !closes(&head), "{head}");
        assert_eq!(body, "503 Service Unavailable\n");
    }
    client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhe");
    assert!(closes(&client.response().0), "its body is still to come");
    set(balance::Admin::Enabled);
    assert!(proxy.connect().get("/").0.starts_with("HTTP/1.1 200"));
}

#[test]
fn forwarded_fields_of_strangers_are_gone_in_every_spelling() {
    let lie = "X-Forwarded-For: 6.6.6.6\r\nx_forwarded_for: 6.6.6.6\r\nX-Forwarded-Prefix: /6.6.6.6\r\n\
               X-Forwarded-Proto: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n";
    let request = format!("GET / HTTP/1.1\r\nHost: test\r\n{lie}\r\n");
    let member = mirror();
    let proxy = Proxy::new(&[&member], "", "");
    let mut client = proxy.connect();
    client.send(&request);
    let (_, seen) = client.response();
    assert!(!seen.contains("6.6.6.6"), "{seen}");
    assert!(seen.contains("X-Forwarded-For: 127.0.0.1\r\n"), "{seen}");
    let proxy = Proxy::new(&[&member], "", "trusted_proxies: [127.0.0.0/8]");
    let mut client = proxy.connect();
    client.send(&request);
    let (_, seen) = client.response();
    assert!(
        seen.contains("X-Forwarded-For: 6.6.6.6, 127.0.0.1\r\n"),
        "{seen}"
    );
    assert!(seen.contains("x_forwarded_for"), "{seen}");
}

#[test]
fn a_host_that_is_set_is_the_only_one() {
    let edits = "headers: {request: [{set: {name: Host, value: inner}}]}";
    let proxy = Proxy::new(&[&mirror()], "", edits);
    for request in [
        "GET / HTTP/1.1\r\nHost: test\r\n\r\n",
        "GET http://test/ HTTP/1.1\r\nHost: test\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ] {
        let mut client = proxy.connect();
        client.send(request);
        let seen = client.response().1.to_ascii_lowercase();
        assert_eq!(seen.matches("\r\nhost: ").count(), 1, "{seen}");
        assert!(seen.contains("\r\nhost: inner\r\n"), "{seen}");
        assert!(seen.starts_with("get / http/1.1\r\n"), "{seen}");
    }
}

#[test]
fn slow_clients_run_out_of_time_phase_by_phase() {
    let times = "timeouts: {head: 150ms, body: 150ms, idle: 150ms}";
    let proxy = Proxy::new(&[&mirror()], "", times);
    assert!(proxy.connect().is_ended(), "nothing was sent");
    let mut client = proxy.connect();
    client.get("/");
    assert!(client.is_ended(), "nothing more was sent");
    let patient = Member::new(|_, mut wire| while wire.head().is_some() {});
    let proxy = Proxy::new(&[&patient], "", times);
    for part in [
        "GET / HTTP/1.1\r\nHo",
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\npart",
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npart",
    ] {
        let mut client = proxy.connect();
        client.send(part);
        let (head, _) = client.response();
        assert!(head.starts_with("HTTP/1.1 408") && closes(&head), "{head}");
    }
    // Each byte is in time, the head is not.
    let mut client = proxy.connect();
    let mut sender = client.sender();
    thread::spawn(move || {
        for byte in b"GET / HTTP/1.1\r\nHost: a-rather-long-name.example\r\n\r\n" {
            thread::sleep(Duration::from_millis(40));
            if sender.write_all(&[*byte]).is_err() {
                return;
            }
        }
    });
    assert!(client.response().0.starts_with("HTTP/1.1 408"));
}

#[test]
fn a_virtual_that_is_gone_serves_what_was_sent_and_closes() {
    let proxy = Proxy::new(&[&mirror()], "", "");
    let mut client = proxy.connect();
    assert!(!closes(&client.get("/").0));
    proxy.engine.apply(config("log: {access: off}\n")).unwrap();
    let (head, _) = client.get("/");
    assert!(head.starts_with("HTTP/1.1 200") && closes(&head), "{head}");
    assert!(client.is_ended());
}
