//! Limits on what strangers can make long, many or slow.

use crate::support::{config, ok, web};
use headgate_tests::{Headgate, Origin, Wire, eventually, noise, run};
use socket2::{Domain, Socket, Type};
use std::time::{Duration, Instant};

#[test]
fn heads_beyond_their_limits_are_refused_by_name() {
    let origin = Origin::named("a");
    let gate = web(
        origin.address(),
        "limits: {head_bytes: 1KiB, headers: 5, uri_bytes: 64, body_bytes: 10}",
    );
    let long = "a".repeat(2000);
    for (request, status, reason) in [
        (format!("GET / HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n"), 431, "head-too-long"),
        (
            format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(5)),
            431,
            "too-many-fields",
        ),
        (
            format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", &long[..64]),
            414,
            "target-too-long",
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n".to_owned(),
            413,
            "body-too-large",
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n"
                .to_owned(),
            413,
            "body-too-large",
        ),
    ] {
        let before = gate.refusals("web", reason);
        let mut wire = Wire::connect(gate.at(8080));
        wire.send(request);
        assert_eq!(wire.response().status(), status, "{reason}");
        wire.assert_closed();
        assert_eq!(gate.refusals("web", reason), before + 1, "{reason}");
    }
    assert_eq!(origin.count(), 0);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789");
    assert_eq!(wire.response().status(), 200);
}

#[test]
fn a_virtual_takes_so_many_connections_and_no_more() {
    let origin = Origin::named("a");
    let gate = web(origin.address(), "limits: {connections: 4}");
    let mut held: Vec<Wire> = (0..4).map(|_| Wire::connect(gate.at(8080))).collect();
    for wire in &mut held {
        assert_eq!(wire.get("/").status(), 200);
    }
    assert!(is_turned_away(&gate));
    assert!(gate.counter("web", "connections_refused") >= 1);
    held.pop();
    eventually("there is room again", || {
        (!is_turned_away(&gate)).then_some(())
    });
}

#[test]
fn the_process_takes_so_many_connections_whatever_the_worker() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&format!(
        "limits: {{connections: 7}}\n{}",
        config(origin.address(), "", "")
    ));
    let mut served = 0;
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut wire = Wire::connect(gate.at(8080));
        let _ = wire.try_send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        served += usize::from(wire.try_response("GET").is_ok());
        held.push(wire);
    }
    assert_eq!(served, 7);
}

#[test]
fn one_address_has_its_share_and_others_theirs() {
    let origin = Origin::named("a");
    let gate = web(origin.address(), "limits: {connections_per_address: 2}");
    let from = |address: &str| {
        let mut wire = Wire::connect_from(address.parse().unwrap(), gate.at(8080));
        let _ = wire.try_send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        wire.try_response("GET").is_ok().then_some(wire)
    };
    let (first, second) = (from("127.0.0.2"), from("127.0.0.2"));
    assert!(first.is_some() && second.is_some());
    assert!(from("127.0.0.2").is_none(), "a third");
    assert!(from("127.0.0.3").is_some(), "another address");
    drop(first);
    eventually("there is room again", || from("127.0.0.2"));
}

#[test]
fn addresses_are_let_in_or_not_by_list() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&format!(
        "address_lists: {{bad: [127.0.0.66]}}\n{}",
        config(origin.address(), "allow: [127.0.0.0/24], deny: [bad]", "")
    ));
    for (address, in_) in [
        ("127.0.0.1", true),
        ("127.0.0.66", false),
        ("127.0.1.1", false),
    ] {
        let mut wire = Wire::connect_from(address.parse().unwrap(), gate.at(8080));
        let _ = wire.try_send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(wire.try_response("GET").is_ok(), in_, "{address}");
    }
    assert_eq!(gate.counter("web", "connections_refused"), 2);
}

#[test]
fn a_connection_ends_after_so_many_requests() {
    let origin = Origin::named("a");
    let gate = web(origin.address(), "limits: {requests_per_connection: 3}");
    let mut wire = Wire::connect(gate.at(8080));
    assert!(!wire.get("/").closes());
    assert!(!wire.get("/").closes());
    assert!(wire.get("/").closes());
    wire.assert_closed();
}

#[test]
fn a_head_that_dribbles_is_timed_out_as_a_whole() {
    let origin = Origin::named("a");
    let gate = web(origin.address(), "timeouts: {head: 400ms}");
    let mut wire = Wire::connect(gate.at(8080));
    let begun = Instant::now();
    for byte in b"GET / HTTP/1.1\r\nHost: h\r\nX-Padding: abcdefghijklmnopqrst" {
        if wire.try_send([*byte]).is_err() || begun.elapsed() > Duration::from_secs(2) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        if begun.elapsed() > Duration::from_millis(700) {
            break;
        }
    }
    assert_eq!(wire.response().status(), 408);
    wire.assert_closed();
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let origin = Origin::named("a");
    let gate = web(origin.address(), "timeouts: {idle: 200ms}");
    let mut wire = Wire::connect(gate.at(8080));
    assert_eq!(wire.get("/").status(), 200);
    let begun = Instant::now();
    wire.assert_closed();
    assert!(begun.elapsed() >= Duration::from_millis(190));
}

#[test]
fn a_body_that_stops_coming_is_timed_out() {
    let origin = Origin::named("a");
    let gate = web(origin.address(), "timeouts: {body: 300ms}");
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf");
    assert_eq!(wire.response().status(), 408);
    wire.assert_closed();
    assert_eq!(gate.refusals("web", "body-timeout"), 1);
    assert_eq!(origin.count(), 0, "the origin never saw a whole request");
}

#[test]
fn a_client_that_takes_nothing_is_let_go() {
    let origin = Origin::scripted(|mut wire, _| {
        wire.request();
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
        let piece = noise(1, 1 << 20);
        while wire.try_send(&piece).is_ok() {}
    });
    let gate = web(origin.address(), "timeouts: {send: 300ms}");
    let mut wire = Wire::connect_small(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("its connection is closed", || {
        let line = gate.access_log().pop()?;
        (line["ending"].as_str()?.starts_with('c')).then_some(())
    });
}

#[test]
fn an_origin_that_does_not_answer_is_a_gateway_timeout() {
    let origin = Origin::scripted(|mut wire, _| {
        wire.request();
        wire.to_end();
    });
    let gate = Headgate::start(&config(origin.address(), "", "timeouts: {response: 300ms}"));
    let response = Wire::connect(gate.at(8080)).get("/");
    assert_eq!(response.status(), 504);
    let line = gate.access_line(|line| line["status"] == 504);
    assert!(line["total_us"].as_u64().unwrap() >= 290_000, "{line}");
}

#[test]
fn an_origin_that_falls_silent_amid_its_answer_is_given_up() {
    let origin = Origin::scripted(|mut wire, _| {
        wire.request();
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        wire.to_end();
    });
    let gate = Headgate::start(&config(origin.address(), "", "timeouts: {idle: 300ms}"));
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(wire.try_response("GET").is_err());
}

#[test]
fn an_origin_that_does_not_accept_is_timed_out() {
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let address = std::net::SocketAddr::from((headgate_tests::address(), 0));
    full.bind(&address.into()).unwrap();
    full.listen(1).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    // Nobody accepts, and when the backlog is full, connecting takes forever.
    let fillers: Vec<Socket> = (0..4)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address.into());
            socket
        })
        .collect();
    let gate = Headgate::start(&config(
        address,
        "",
        "timeouts: {connect: 300ms}, retry: {attempts: 1}",
    ));
    let begun = Instant::now();
    assert_eq!(Wire::connect(gate.at(8080)).get("/").status(), 504);
    assert!(begun.elapsed() < Duration::from_secs(3));
    drop(fillers);
}

#[test]
fn a_thousand_slow_clients_do_not_slow_the_others() {
    let me = std::process::id().to_string();
    let (raised, why) = run("prlimit", &["--pid", &me, "--nofile=8192:"], "");
    assert!(raised, "{why}");
    let origin = Origin::answering(|_| ok("fast"));
    let gate = web(origin.address(), "timeouts: {head: 60s}");
    let before = gate.memory();
    let mut slow: Vec<Wire> = (0..1000).map(|_| Wire::connect(gate.at(8080))).collect();
    for wire in &mut slow {
        wire.send("GET / HTTP/1.1\r\nHost:");
    }
    let load = headgate_tests::Load::start(gate.at(8080), 4, "/");
    for byte in " example\r\nX-Slow: yes".bytes() {
        for wire in &mut slow {
            wire.send([byte]);
        }
    }
    load.more(200);
    load.finish().assert_clean();
    let each = (gate.memory() - before) / 1000;
    assert!(each < 64 * 1024, "{each} bytes for each slow client");
    for wire in &mut slow {
        wire.send("\r\n\r\n");
    }
    for wire in &mut slow {
        assert_eq!(wire.response().text(), "fast");
    }
}

fn is_turned_away(gate: &Headgate) -> bool {
    let mut wire = Wire::connect(gate.at(8080));
    let _ = wire.try_send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    wire.try_response("GET").is_err()
}
