//! HTTP/1.1 between client and origin: connections, framing both ways, interim responses, upgrades.

use crate::support::{in_front_of, web};
use headgate_tests::{Headgate, Origin, Wire, eventually};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[test]
fn a_connection_serves_request_after_request() {
    let origin = Origin::answering(|request| answer(request.target()));
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    for target in ["/1", "/2", "/3"] {
        let response = wire.get(target);
        assert_eq!(response.status(), 200);
        assert_eq!(response.text(), target);
        assert!(!response.closes());
    }
    assert_eq!(gate.counter("web", "connections"), 1);
    assert_eq!(origin.accepted(), 1, "the member's connection is kept too");
}

#[test]
fn a_client_that_asks_for_it_is_closed_after_its_response() {
    let origin = Origin::named("a");
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(wire.response().closes());
    wire.assert_closed();
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let origin = Origin::answering(|request| {
        if request.target() == "/0" {
            std::thread::sleep(Duration::from_millis(100));
        }
        answer(request.target())
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    let all: String = (0..50)
        .map(|n| format!("GET /{n} HTTP/1.1\r\nHost: h\r\n\r\n"))
        .collect();
    wire.send(all);
    for n in 0..50 {
        assert_eq!(wire.response().text(), format!("/{n}"));
    }
}

#[test]
fn pipelined_requests_with_bodies_keep_their_bodies() {
    let origin = Origin::answering(|request| answer(&request.text()));
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send(
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nfirst\
         POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nsec\r\n3\r\nond\r\n0\r\n\r\n\
         POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nthird",
    );
    for body in ["first", "second", "third"] {
        assert_eq!(wire.response().text(), body);
    }
}

#[test]
fn a_head_that_comes_byte_by_byte_is_understood() {
    let origin = Origin::named("a");
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    for byte in b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" {
        wire.send([*byte]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(wire.response().text(), "a");
    assert_eq!(origin.last().text(), "abc");
}

#[test]
fn chunks_and_trailers_pass_both_ways() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
          5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nX-Sum: 11\r\n\r\n"
            .to_vec()
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send(
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Check\r\n\r\n\
         3\r\nabc\r\n2\r\nde\r\n0\r\nX-Check: 5\r\n\r\n",
    );
    let response = wire.response();
    assert_eq!(response.text(), "hello world");
    assert_eq!(response.trailers, [("X-Sum".to_owned(), "11".to_owned())]);
    let request = origin.last();
    assert_eq!(request.text(), "abcde");
    assert_eq!(request.trailers, [("X-Check".to_owned(), "5".to_owned())]);
    assert_eq!(wire.get("/").status(), 200, "the connection goes on");
}

#[test]
fn an_expectation_is_passed_on_and_the_interim_response_comes_back() {
    let (sender, order) = mpsc::channel();
    let origin = Origin::scripted(move |mut wire, _| {
        let head = wire.head().unwrap().unwrap();
        assert_eq!(head.field("expect"), Some("100-continue"));
        sender.send("head").unwrap();
        wire.send("HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(wire.exactly(4).unwrap(), b"body");
        wire.send(answer("done"));
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(wire.response().status(), 100);
    assert_eq!(order.recv().unwrap(), "head");
    wire.send("body");
    assert_eq!(wire.response().text(), "done");
}

#[test]
fn an_expectation_can_be_turned_down_before_the_body() {
    let origin = Origin::scripted(|mut wire, _| {
        wire.head().unwrap();
        wire.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        wire.to_end();
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    let response = wire.response();
    assert_eq!((response.status(), response.text()), (403, "no".to_owned()));
}

#[test]
fn an_early_response_reaches_the_client_while_its_body_still_comes() {
    let origin = Origin::scripted(|mut wire, _| {
        wire.head().unwrap();
        wire.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge");
        wire.to_end();
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nsome");
    let response = wire.response();
    assert_eq!((response.status(), response.text()), (413, "large".into()));
}

#[test]
fn interim_responses_pass_in_their_order() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n\
          HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            .to_vec()
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(wire.response().status(), 102);
    let hints = wire.response();
    assert_eq!(hints.status(), 103);
    assert_eq!(hints.field("link"), Some("</a.css>"));
    assert_eq!(wire.response().text(), "ok");
    assert_eq!(wire.get("/").status(), 102, "the connection goes on");
}

#[test]
fn responses_without_body_end_with_their_head() {
    let origin = Origin::answering(|request| {
        match request.target() {
            "/head" => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            "/head-chunked" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "/204" => "HTTP/1.1 204 No Content\r\n\r\n",
            _ => "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 1000\r\n\r\n",
        }
        .into()
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    for (method, target, status) in [
        ("HEAD", "/head", 200),
        ("HEAD", "/head-chunked", 200),
        ("GET", "/204", 204),
        ("GET", "/304", 304),
        ("HEAD", "/head", 200),
    ] {
        wire.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let response = wire.try_response(method).unwrap();
        assert_eq!(response.status(), status, "{target}");
        assert!(wire.is_silent(Duration::from_millis(30)), "{target}");
    }
    assert_eq!(gate.counter("web", "connections"), 1);
}

#[test]
fn a_websocket_is_relayed_both_ways() {
    let server = crate::support::websocket_echo();
    let gate = web(server.address(), "");
    let (mut socket, response) = crate::support::websocket(gate.at(8080));
    assert_eq!(response.status(), 101);
    let large = String::from_utf8_lossy(&headgate_tests::noise(1, 300_000)).into_owned();
    for text in ["hello", "", large.as_str()] {
        socket.send(text.into()).unwrap();
        assert_eq!(socket.read().unwrap().into_text().unwrap(), text);
    }
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
    eventually("the upgrade is counted", || {
        (gate.counter("web", "upgrades") == 1).then_some(())
    });
}

#[test]
fn bytes_sent_along_with_an_upgrade_are_not_lost() {
    let origin = Origin::scripted(|mut wire, _| {
        let head = wire.head().unwrap().unwrap();
        assert_eq!(head.field("upgrade"), Some("echo"));
        wire.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nfirst",
        );
        let early = wire.exactly(5).unwrap();
        wire.send(early);
        let rest = wire.to_end();
        wire.send(rest);
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly");
    assert_eq!(wire.response().status(), 101);
    assert_eq!(wire.exactly(10).unwrap(), b"firstearly");
    wire.send("last");
    wire.finish();
    assert_eq!(wire.to_end(), b"last", "each way ends by itself");
}

#[test]
fn an_upgrade_that_the_origin_overlooks_is_a_plain_exchange() {
    let origin = Origin::named("plain");
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(wire.response().text(), "plain");
    assert_eq!(wire.get("/").text(), "plain");
}

#[test]
fn upgrades_that_are_denied_are_not_asked_of_the_origin() {
    let origin = Origin::named("plain");
    let gate = web(origin.address(), "limits: {upgrades: deny}");
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(wire.response().text(), "plain");
    assert_eq!(origin.last().field("upgrade"), None);
}

#[test]
fn an_absolute_target_becomes_a_path_and_its_host_counts() {
    let origin = Origin::named("a");
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET http://site.example/x?y=1 HTTP/1.1\r\nHost: site.example\r\n\r\n");
    assert_eq!(wire.response().status(), 200);
    let request = origin.last();
    assert_eq!(request.target(), "/x?y=1");
    assert_eq!(request.field("host"), Some("site.example"));
}

#[test]
fn a_client_that_has_finished_sending_still_gets_its_response() {
    let origin = Origin::answering(|_| {
        std::thread::sleep(Duration::from_millis(200));
        answer("late")
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
    wire.finish();
    assert_eq!(wire.response().text(), "late");
    wire.assert_closed();
}

#[test]
fn a_client_of_http_1_0_gets_what_it_understands() {
    let origin = Origin::answering(|request| match request.target() {
        "/chunked" => {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_vec()
        }
        "/interim" => {
            let mut bytes = b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec();
            bytes.extend(answer("final"));
            bytes
        }
        _ => answer("plain"),
    });
    let gate = in_front_of(&origin);
    for (target, body) in [("/", "plain"), ("/chunked", "hello"), ("/interim", "final")] {
        let mut wire = Wire::connect(gate.at(8080));
        wire.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
        let response = wire.response();
        assert_eq!(response.text(), body, "{target}");
        assert!(!response.is_chunked(), "{target}");
        wire.assert_closed();
        assert!(origin.last().field("host").is_some());
    }
    let mut wire = Wire::connect(gate.at(8080));
    for _ in 0..2 {
        wire.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = wire.response();
        assert_eq!(response.field("connection"), Some("keep-alive"));
    }
}

#[test]
fn an_origin_of_http_1_0_is_understood_and_its_connection_not_reused() {
    let origin = Origin::answering(|_| b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    for _ in 0..3 {
        let response = wire.get("/");
        assert_eq!(response.text(), "ok");
        assert!(response.line.starts_with("HTTP/1.1 "), "{}", response.line);
    }
    assert_eq!(origin.accepted(), 3);
}

#[test]
fn a_response_that_ends_with_its_connection_is_passed_whole() {
    let body = headgate_tests::noise(2, 300_000);
    let sent = body.clone();
    let origin = Origin::scripted(move |mut wire, _| {
        wire.request();
        wire.send("HTTP/1.1 200 OK\r\n\r\n");
        wire.send(&sent);
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    let response = wire.get("/");
    assert!(response.body == body, "{} bytes", response.body.len());
    assert!(response.closes());
}

#[test]
fn an_idle_connection_that_the_origin_closes_is_never_a_clients_error() {
    let count = Arc::new(AtomicUsize::new(0));
    let served = count.clone();
    // Every connection serves a few requests, then closes without saying so, sometimes at once and sometimes later.
    let origin = Origin::scripted(move |mut wire, nth| {
        for n in 0..1 + nth % 4 {
            if wire.request().is_none() {
                return;
            }
            served.fetch_add(1, SeqCst);
            wire.send(answer("ok"));
            if n == nth % 4 && nth % 3 > 0 {
                std::thread::sleep(Duration::from_micros(100 * (nth as u64 % 17)));
            }
        }
        if nth % 5 == 0 {
            wire.reset();
        }
    });
    let gate = Headgate::start(&format!(
        "pools: {{app: {{members: ['{}'], ejection: off, retry: {{budget: 100%}}}}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', pool: app}}}}",
        origin.address()
    ));
    let load = headgate_tests::Load::start(gate.at(8080), 8, "/");
    load.more(3000);
    load.finish().assert_clean();
    assert!(count.load(SeqCst) >= 3000);
}

fn answer(body: &str) -> Vec<u8> {
    crate::support::ok(body)
}
