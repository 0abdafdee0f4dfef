//! Members that fail: what is tried again, what is not, and what the client is told.

use crate::support::{config, in_front_of, ok};
use headgate_tests::{Headgate, Load, Origin, Wire, eventually};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// A Headgate in front of several members.
fn several(members: &[SocketAddr], of_pool: &str) -> Headgate {
    let members: Vec<String> = members.iter().map(|m| format!("'{m}'")).collect();
    Headgate::start(&format!(
        "pools: {{app: {{members: [{}], {of_pool}}}}}\nvirtuals: {{web: {{listen: '$IP:8080', pool: app}}}}",
        members.join(", ")
    ))
}

#[test]
fn a_member_that_refuses_is_a_bad_gateway_and_the_log_says_so() {
    let gate = Headgate::start(&config(Origin::refusing(), "", ""));
    let mut wire = Wire::connect(gate.at(8080));
    assert_eq!(wire.get("/x").status(), 502);
    let line = gate.access_line(|line| line["target"] == "/x");
    assert_eq!(line["reason"], "connect-failed");
    assert_eq!(line["status"], 502);
}

#[test]
fn a_member_that_refuses_is_passed_over_for_any_method() {
    let origin = Origin::named("good");
    let gate = several(
        &[Origin::refusing(), origin.address()],
        "retry: {budget: 100%}, ejection: off",
    );
    let mut wire = Wire::connect(gate.at(8080));
    for n in 0..10 {
        let method = if n % 2 == 0 { "GET" } else { "POST" };
        wire.send(format!(
            "{method} / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(wire.response().text(), "good");
    }
    assert!(gate.counter("web", "retries") >= 4);
    gate.access_line(|line| line["attempts"] == 2);
}

#[test]
fn a_request_is_repeated_after_a_reset_only_where_that_is_safe() {
    let cut = Arc::new(AtomicUsize::new(0));
    let count = cut.clone();
    let bad = Origin::scripted(move |mut wire, _| {
        wire.request();
        count.fetch_add(1, SeqCst);
        wire.reset();
    });
    let good = Origin::named("good");
    let gate = several(
        &[bad.address(), good.address()],
        "balance: first, retry: {budget: 100%}, ejection: off",
    );
    let get = Wire::connect(gate.at(8080)).get("/");
    assert_eq!(get.text(), "good");
    assert_eq!(cut.load(SeqCst), 1, "the first member was asked");
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(wire.response().status(), 502);
    assert_eq!(cut.load(SeqCst), 2);
    assert_eq!(good.count(), 1, "the post came to one member only");
}

#[test]
fn a_response_that_has_begun_is_not_repeated() {
    let bad = Origin::scripted(|mut wire, _| {
        wire.request();
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nha");
        std::thread::sleep(Duration::from_millis(50));
        wire.reset();
    });
    let good = Origin::named("good");
    let gate = several(&[bad.address(), good.address()], "balance: first");
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(wire.try_response("GET").is_err());
    assert_eq!(good.count(), 0);
}

#[test]
fn listed_statuses_are_tried_elsewhere_and_others_passed_on() {
    let bad = Origin::answering(|request| {
        let status = match request.target() {
            "/listed" => "503 Service Unavailable",
            _ => "500 Internal Server Error",
        };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into()
    });
    let good = Origin::named("good");
    let gate = several(
        &[bad.address(), good.address()],
        "balance: first, retry: {on: [connect-failure, 503], budget: 100%}, ejection: off",
    );
    let mut wire = Wire::connect(gate.at(8080));
    assert_eq!(wire.get("/listed").text(), "good");
    assert_eq!(wire.get("/other").status(), 500);
}

#[test]
fn the_last_attempts_status_is_passed_on() {
    let bad = Origin::answering(|_| b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy".into());
    let gate = several(
        &[bad.address()],
        "retry: {attempts: 2, on: [503], budget: 100%}, ejection: off",
    );
    let response = Wire::connect(gate.at(8080)).get("/");
    assert_eq!(response.status(), 503);
    assert_eq!(response.text(), "busy", "the member's own words");
}

#[test]
fn retries_stay_within_their_budget() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let bad = Origin::scripted(move |mut wire, _| {
        wire.request();
        count.fetch_add(1, SeqCst);
        wire.reset();
    });
    let gate = several(
        &[bad.address()],
        "retry: {attempts: 5, budget: 10%}, ejection: off",
    );
    for _ in 0..200 {
        assert_eq!(Wire::connect(gate.at(8080)).get("/").status(), 502);
    }
    let asked = asked.load(SeqCst);
    assert!(asked < 300, "{asked} attempts for 200 requests");
    assert!(asked > 200, "{asked} attempts: none was repeated");
}

#[test]
fn a_pool_of_which_nothing_is_left_says_so_at_once() {
    let origin = Origin::named("a");
    let gate = in_front_of(&origin);
    gate.set_member(
        "app",
        &origin.address().to_string(),
        r#"{"state":"disabled"}"#,
    );
    let response = Wire::connect(gate.at(8080)).get("/");
    assert_eq!(response.status(), 503);
    assert!(response.field("retry-after").is_some());
    assert_eq!(gate.refusals("web", "no-member"), 1);
}

#[test]
fn an_origin_killed_under_load_costs_no_idempotent_request() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let gate = several(
        &[a.address(), b.address()],
        "retry: {attempts: 3, budget: 100%}, ejection: {time: 1s}",
    );
    let load = Load::start(gate.at(8080), 16, "/");
    load.more(500);
    let address = a.address();
    drop(a);
    load.more(2000);
    let again = Origin::named_at(address, "a");
    load.more(1000);
    eventually("it gets traffic again", || {
        (again.count() > 0).then_some(())
    });
    let tally = load.finish();
    tally.assert_clean();
    assert!(
        tally.of("a") > 0 && tally.of("b") > 1000,
        "{:?}",
        tally.answers
    );
}

#[test]
fn a_member_that_fails_traffic_is_left_out_for_a_while() {
    let failing = Arc::new(AtomicUsize::new(1));
    let fails = failing.clone();
    let bad = Origin::answering(move |_| match fails.load(SeqCst) {
        0 => ok("healed"),
        _ => b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let good = Origin::named("good");
    let gate = several(
        &[bad.address(), good.address()],
        "ejection: {errors: 3, interval: 10s, time: 1s, max_ejected: 50%}",
    );
    let mut wire = Wire::connect(gate.at(8080));
    let statuses: Vec<u16> = (0..40).map(|_| wire.get("/").status()).collect();
    let failed = statuses.iter().filter(|status| **status == 500).count();
    assert_eq!(failed, 3, "{statuses:?}");
    let name = bad.address().to_string();
    assert_eq!(gate.member("app", &name)["condition"], "ejected");
    failing.store(0, SeqCst);
    eventually("it is tried again", || {
        (wire.get("/").text() == "healed").then_some(())
    });
}
