//! HTTP virtuals whose members fail, lag, answer early or close: what is sent again, what is reused, who is blamed.

mod common;

use common::script::{Member, Proxy, Wire, answer, ok};
use common::{config, until};
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const RETRY_ALL: &str = "retry: {attempts: 3, on: [connect-failure, reset, response-timeout, 503]}";

fn put(path: &str, length: usize) -> String {
    format!(
        "PUT {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{}",
        "x".repeat(length)
    )
}

#[test]
fn what_a_kept_connection_loses_is_sent_again() {
    let member = Member::new(|number, mut wire| {
        while wire.request().is_some() {
            wire.send(&ok("fine"));
            if number == 0 {
                // Taken by the next request before it is known to be gone.
                let _ = wire.head();
                return wire.reset();
            }
        }
    });
    let proxy = Proxy::new(&[&member], "retry: {attempts: 1}", "");
    let mut client = proxy.connect();
    for _ in 0..4 {
        assert_eq!(client.get("/").1, "fine");
    }
    assert_eq!(member.connections(), 2);
    assert_eq!(proxy.member(0).failures, 0);
}

#[test]
fn a_body_that_was_streamed_is_never_sent_in_part() {
    const LENGTH: usize = 400_000;
    // The connection is new, or kept; the body is taken whole, or in part, before it breaks.
    for (kept, taken) in [(false, LENGTH), (true, LENGTH), (false, 9), (true, 100_000)] {
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&seen);
        let member = Member::new(move |_, mut wire| {
            while let Some(head) = wire.head() {
                if head.starts_with("GET") {
                    wire.send(&ok("fine"));
                    continue;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = wire.bytes(taken);
                return wire.reset();
            }
        });
        let proxy = Proxy::new(&[&member], RETRY_ALL, "");
        let mut client = proxy.connect();
        if kept {
            assert_eq!(client.get("/").1, "fine");
        }
        client.send(&put("/", LENGTH));
        let (head, _) = client.response();
        assert!(head.starts_with("HTTP/1.1 502"), "{kept} {taken}: {head}");
        assert_eq!(seen.load(Ordering::SeqCst), 1, "{kept} {taken}");
        assert_eq!(proxy.connect().get("/").1, "fine");
    }
}

#[test]
fn a_request_that_cannot_be_repeated_is_sent_once() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let member = Member::new(move |_, mut wire| {
        while let Some((head, _)) = wire.request() {
            if head.starts_with("POST") {
                counted.fetch_add(1, Ordering::SeqCst);
                return wire.reset();
            }
            wire.send(&ok("fine"));
        }
    });
    let proxy = Proxy::new(&[&member], RETRY_ALL, "");
    let mut client = proxy.connect();
    assert_eq!(client.get("/").1, "fine");
    client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nhi");
    assert!(client.response().0.starts_with("HTTP/1.1 502"));
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[test]
fn what_must_not_be_repeated_takes_no_connection_that_has_long_been_idle() {
    let member = Member::answering(|_| ok("fine"));
    let pool = "keepalive: {unsafe_reuse_within: 1ms}";
    let proxy = Proxy::new(&[&member], pool, "");
    let mut client = proxy.connect();
    client.get("/");
    thread::sleep(Duration::from_millis(20));
    client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.response().1, "fine");
    assert_eq!(member.connections(), 2);
    client.get("/");
    assert_eq!(member.connections(), 2);
}

#[test]
fn a_member_that_answers_early_gets_no_request_within_a_body() {
    for length in (1..=70).map(|n| n * 100_000) {
        let member = Member::new(move |_, mut wire| {
            while let Some(head) = wire.head() {
                if head.starts_with("GET") {
                    wire.send(&ok("got"));
                    continue;
                }
                // By now all of the body that has a place is on its way, and with some lengths all of
                // it has left the client.
                thread::sleep(Duration::from_millis(30));
                wire.send(&ok("early"));
                thread::sleep(Duration::from_millis(10));
                if wire.bytes(length).is_none() {
                    return;
                }
            }
        });
        let proxy = Proxy::new(&[&member], "", "");
        let mut client = proxy.connect();
        let mut sender = client.sender();
        let sent = thread::spawn(move || {
            let _ = sender.write_all(put("/", length).as_bytes());
        });
        assert_eq!(client.response().1, "early");
        assert_eq!(proxy.connect().get("/").1, "got", "{length}");
        drop(client);
        sent.join().unwrap();
    }
}

#[test]
fn a_response_that_begins_during_the_upload_is_relayed_to_its_end() {
    let member = Member::new(|_, mut wire| {
        wire.head();
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
        thread::sleep(Duration::from_millis(300));
        wire.send("later");
        wire.is_ended();
    });
    let proxy = Proxy::new(&[&member], "", "timeouts: {body: 100ms}");
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\npart");
    let (head, body) = client.response();
    assert!(
        head.to_ascii_lowercase().contains("connection: close"),
        "{head}"
    );
    assert_eq!(body, "firstlater");
    assert!(client.is_ended());
}

#[test]
fn a_member_that_takes_no_body_may_still_answer() {
    let member = Member::new(|_, mut wire| {
        wire.head();
        wire.send(&answer(413, "too much for me"));
        wire.end();
        thread::sleep(Duration::from_millis(50));
    });
    let proxy = Proxy::new(&[&member], "", "");
    let mut client = proxy.connect();
    let mut sender = client.sender();
    let sent = thread::spawn(move || {
        let _ = sender.write_all(put("/", 4_000_000).as_bytes());
    });
    assert_eq!(client.response().1, "too much for me");
    sent.join().unwrap();
    assert_eq!(proxy.member(0).resets, 0);
}

#[test]
fn a_client_that_sends_slowly_puts_no_member_out_of_service() {
    let member = Member::new(|_, mut wire| {
        let head = wire.head().unwrap_or_default();
        if head.starts_with("GET") {
            wire.send(&ok("fine"));
            wire.is_ended();
        }
        // It waits for no body and closes.
    });
    let pool = "ejection: {errors: 1, max_ejected: 100%}";
    let proxy = Proxy::new(&[&member], pool, "");
    for _ in 0..3 {
        let mut client = proxy.connect();
        client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\npart");
        assert!(client.response().0.starts_with("HTTP/1.1 502"));
    }
    assert_eq!(proxy.member(0).ejections, 0);
    assert_eq!(proxy.connect().get("/").1, "fine");
    assert_eq!(proxy.totals().aborted_by_member, 3);
}

#[test]
fn listed_statuses_are_tried_elsewhere() {
    let (one, two) = (
        Member::answering(|_| answer(503, "busy")),
        Member::answering(|_| ok("fine")),
    );
    let proxy = Proxy::new(&[&one, &two], RETRY_ALL, "");
    assert_eq!(proxy.connect().get("/").1, "fine");
    assert_eq!(proxy.totals().retries, 1);
}

#[test]
fn without_a_retry_left_the_client_gets_what_the_member_says() {
    for retry in [
        "retry: {attempts: 3, on: [503], budget: 0%}",
        "retry: {attempts: 2, on: [503]}",
    ] {
        let busy = Member::answering(|_| answer(503, "busy, says the member"));
        let proxy = Proxy::new(&[&busy], retry, "");
        let (head, body) = proxy.connect().get("/");
        assert_eq!(body, "busy, says the member", "{head}");
    }
}

#[test]
fn a_response_that_does_not_come_in_time_is_tried_elsewhere_or_given_up() {
    let silent = || Member::new(|_, mut wire| while wire.head().is_some() {});
    let (lost, fine) = (silent(), Member::answering(|_| ok("fine")));
    let timeouts = "timeouts: {response: 100ms}";
    let proxy = Proxy::new(&[&lost], timeouts, "");
    let (head, _) = proxy.connect().get("/");
    assert!(head.starts_with("HTTP/1.1 504"), "{head}");
    let proxy = Proxy::new(&[&lost, &fine], &format!("{timeouts}, {RETRY_ALL}"), "");
    assert_eq!(proxy.connect().get("/").1, "fine");
    assert_eq!(proxy.member(0).timeouts, 1);
}

#[test]
fn after_an_interim_response_nothing_is_tried_again() {
    let member = Member::new(|_, mut wire| {
        wire.head();
        wire.send("HTTP/1.1 103 Early Hints\r\nConnection: x-hop\r\nX-Hop: 1\r\nLink: <a>\r\n\r\n");
        thread::sleep(Duration::from_millis(20));
    });
    let proxy = Proxy::new(&[&member], RETRY_ALL, "");
    let mut client = proxy.connect();
    let (hints, _) = client.get("/");
    assert_eq!(hints, "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n");
    assert!(client.response().0.starts_with("HTTP/1.1 502"));
    assert_eq!(member.connections(), 1);
}

#[test]
fn a_member_that_refuses_is_passed_over_also_with_a_body() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = free.local_addr().unwrap();
    drop(free);
    let fine = Member::new(|_, mut wire| {
        while let Some((_, body)) = wire.request() {
            wire.send(&ok(&body.len().to_string()));
        }
    });
    let text = Proxy::text(&[&fine], "", "");
    let text = text.replace("members: [", &format!("members: [\"{refusing}\", "));
    let proxy = Proxy::of(common::start(&text));
    let mut client = proxy.connect();
    client.send(&put("/", 300_000));
    assert_eq!(client.response().1, "300000");
    assert_eq!(proxy.member(0).connect_errors, 1);
}

#[test]
fn bytes_behind_a_response_are_no_response() {
    let member = Member::new(|_, mut wire| {
        while wire.request().is_some() {
            wire.send(&(ok("mine") + &ok("poison")));
        }
    });
    let proxy = Proxy::new(&[&member], "", "");
    for _ in 0..5 {
        assert_eq!(proxy.connect().get("/").1, "mine");
    }
    assert_eq!(member.connections(), 5);
}

#[test]
fn a_response_that_breaks_off_before_its_end_by_close_is_cut() {
    let member = Member::new(|_, mut wire| {
        let head = wire.head().unwrap_or_default();
        wire.send("HTTP/1.1 200 OK\r\n\r\nall of it");
        if head.contains("/broken") {
            thread::sleep(Duration::from_millis(50));
            wire.reset();
        }
    });
    let proxy = Proxy::new(&[&member], "", "");
    assert_eq!(proxy.connect().get("/whole").1, "all of it");
    let mut client = proxy.connect();
    client.send("GET /broken HTTP/1.1\r\nHost: test\r\n\r\n");
    client.head();
    assert!(client.rest().is_err(), "it looks whole");
}

#[test]
fn a_full_member_has_others_wait_and_give_up() {
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
    let limits =
        |time: &str| format!("limits: {{member_connections: 1, queue: 1, queue_timeout: {time}}}");
    let proxy = Proxy::new(&[&member], &limits("100ms"), "");
    let mut first = proxy.connect();
    first.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n");
    until("it is held", || proxy.member(0).active == 1);
    let mut second = proxy.connect();
    let (head, _) = second.get("/");
    assert!(
        head.starts_with("HTTP/1.1 503") && head.contains("Retry-After"),
        "{head}"
    );
    let roomy = config(&Proxy::text(&[&member], &limits("30s"), ""));
    proxy.engine.apply(roomy).unwrap();
    second.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    until("it waits", || proxy.totals().queued == 2);
    let (head, _) = proxy.connect().get("/");
    assert!(
        head.starts_with("HTTP/1.1 503"),
        "a second one waits: {head}"
    );
    // Who goes leaves the queue.
    second.reset();
    until("its going is seen", || {
        proxy.totals().aborted_by_client == 1
    });
    let mut third = proxy.connect();
    third.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    until("it waits", || proxy.totals().queued == 4);
    release.send(()).unwrap();
    assert_eq!(
        (first.response().1, third.response().1),
        ("fine".into(), "fine".into())
    );
    until("it is free", || proxy.member(0).active == 0);
}

#[test]
fn a_client_that_goes_while_the_member_thinks_frees_it() {
    let member = Member::new(|_, mut wire| while wire.head().is_some() {});
    let proxy = Proxy::new(&[&member], "", "");
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    until("it is sent", || proxy.member(0).active == 1);
    let gone = Instant::now();
    client.reset();
    until("the member is free", || proxy.member(0).active == 0);
    assert!(gone.elapsed() < Duration::from_secs(10));
    assert_eq!(proxy.member(0).failures, 0);
}

#[test]
fn connections_are_opened_in_advance_and_used() {
    let member = Member::answering(|_| ok("fine"));
    let proxy = Proxy::new(&[&member], "keepalive: {pre_connect: 2}", "");
    until("they are there", || member.connections() >= 2);
    assert_eq!(proxy.connect().get("/").1, "fine");
    assert_eq!(proxy.totals().upstream_reuses, 1);
}

#[test]
fn connections_in_the_clear_end_where_tls_is_asked_for() {
    let member = Member::new(|number, mut wire: Wire| {
        while number == 0 && wire.request().is_some() {
            wire.send(&ok("in the clear"));
        }
    });
    let proxy = Proxy::new(&[&member], "retry: {attempts: 1}", "");
    let mut client = proxy.connect();
    assert_eq!(client.get("/").1, "in the clear");
    let encrypted = config(&Proxy::text(&[&member], "tls: {verify: false}", ""));
    proxy.engine.apply(encrypted).unwrap();
    assert!(client.get("/").0.starts_with("HTTP/1.1 502"));
    assert!(member.connections() >= 2);
}

#[test]
fn a_slow_client_gets_all_of_a_response_that_is_not_spliced() {
    let body = "0123456789abcdef".repeat(500_000);
    let chunks: String = body
        .as_bytes()
        .chunks(100_000)
        .map(|chunk| {
            format!(
                "{:x}\r\n{}\r\n",
                chunk.len(),
                str::from_utf8(chunk).unwrap()
            )
        })
        .collect();
    let response =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
    let expected = chunks + "0\r\n\r\n";
    let member = Member::new(move |_, mut wire| {
        wire.head();
        wire.send(&response);
    });
    let proxy = Proxy::new(&[&member], "", "");
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    client.head().unwrap();
    let mut got = String::new();
    while let Some(part) = client.bytes(200_000.min(expected.len() - got.len())) {
        thread::sleep(Duration::from_millis(2));
        got += &part;
        if got.len() == expected.len() {
            break;
        }
    }
    assert!(got == expected);
}
