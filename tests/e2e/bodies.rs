//! Bodies of any size, streamed both ways without being held.

use crate::support::{in_front_of, ok};
use headgate_tests::{Origin, Wire, eventually, noise};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LARGE: usize = 100 << 20;
/// The longest part of the noise; bodies are it again and again.
const PIECE: usize = 1 << 20;

#[test]
fn a_large_response_arrives_byte_for_byte() {
    let origin = Origin::scripted(|mut wire, _| {
        while let Some(request) = wire.request() {
            let head = match request.target() {
                "/chunked" => "Transfer-Encoding: chunked".to_owned(),
                _ => format!("Content-Length: {LARGE}"),
            };
            wire.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"));
            let piece = noise(7, PIECE);
            for _ in 0..LARGE / PIECE {
                if request.target() == "/chunked" {
                    wire.send(format!("{PIECE:x}\r\n"));
                }
                wire.send(&piece);
                if request.target() == "/chunked" {
                    wire.send("\r\n");
                }
            }
            if request.target() == "/chunked" {
                wire.send("0\r\n\r\n");
            }
        }
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    for target in ["/length", "/chunked", "/length"] {
        wire.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let body = wire.response().body;
        assert_eq!(body.len(), LARGE, "{target}");
        check(&body);
    }
    assert!(
        gate.memory() < 60 << 20,
        "{} bytes of memory",
        gate.memory()
    );
}

#[test]
fn a_large_request_arrives_byte_for_byte() {
    let came = Arc::new(Mutex::new(Vec::new()));
    let keep = came.clone();
    let origin = Origin::scripted(move |mut wire, _| {
        while let Some(request) = wire.request() {
            *keep.lock().unwrap() = request.body;
            wire.send(ok("taken"));
        }
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    let piece = noise(7, PIECE);
    for chunked in [false, true] {
        match chunked {
            true => wire.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"),
            false => wire.send(format!(
                "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {LARGE}\r\n\r\n"
            )),
        }
        for _ in 0..LARGE / PIECE {
            if chunked {
                wire.send(format!("{PIECE:x}\r\n"));
            }
            wire.send(&piece);
            if chunked {
                wire.send("\r\n");
            }
        }
        if chunked {
            wire.send("0\r\n\r\n");
        }
        assert_eq!(wire.response().text(), "taken");
        let body = std::mem::take(&mut *came.lock().unwrap());
        assert_eq!(body.len(), LARGE, "chunked: {chunked}");
        check(&body);
    }
    assert!(
        gate.memory() < 60 << 20,
        "{} bytes of memory",
        gate.memory()
    );
}

#[test]
fn a_client_that_does_not_read_holds_up_the_origin_and_not_memory() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let origin = Origin::scripted(move |mut wire, _| {
        wire.request();
        wire.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"
        ));
        push(&wire, &count);
    });
    let gate = in_front_of(&origin);
    let before = gate.memory();
    let mut wire = Wire::connect_small(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let stuck = at_rest(&sent);
    assert!(stuck < LARGE / 2, "{stuck} bytes left the origin");
    assert!(gate.memory() < before + (20 << 20));
    let body = wire.response().body;
    assert_eq!(body.len(), LARGE);
    check(&body);
}

#[test]
fn an_origin_that_does_not_read_holds_up_the_client_and_not_memory() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::scripted(move |mut wire, _| {
        wire.head().unwrap();
        wait.lock().unwrap().recv().unwrap();
        let body = wire.exactly(LARGE).unwrap();
        check(&body);
        wire.send(ok("taken"));
    });
    let gate = in_front_of(&origin);
    let before = gate.memory();
    let wire = Wire::connect(gate.at(8080));
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let sender = std::thread::spawn(move || {
        let mut wire = wire;
        wire.send(format!(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {LARGE}\r\n\r\n"
        ));
        push(&wire, &count);
        wire.response()
    });
    let stuck = at_rest(&sent);
    assert!(stuck < LARGE / 2, "{stuck} bytes left the client");
    assert!(gate.memory() < before + (20 << 20));
    go.send(()).unwrap();
    assert_eq!(sender.join().unwrap().text(), "taken");
}

#[test]
fn a_response_cut_short_by_the_origin_is_not_passed_off_as_whole() {
    let origin = Origin::scripted(|mut wire, _| {
        let request = wire.request().unwrap();
        let framing = match request.target() {
            "/chunked" => "Transfer-Encoding: chunked\r\n\r\n64\r\n",
            _ => "Content-Length: 100\r\n\r\n",
        };
        wire.send(format!("HTTP/1.1 200 OK\r\n{framing}half"));
    });
    let gate = in_front_of(&origin);
    for target in ["/length", "/chunked"] {
        let mut wire = Wire::connect(gate.at(8080));
        wire.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert!(wire.try_response("GET").is_err(), "{target}");
    }
    eventually("both are counted", || {
        (gate.counter("web", "aborted_by_member") == 2).then_some(())
    });
}

#[test]
fn a_client_that_leaves_lets_go_of_the_origin() {
    let (gone, wait) = std::sync::mpsc::channel();
    let origin = Origin::scripted(move |mut wire, _| {
        wire.request();
        wire.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"
        ));
        let piece = noise(7, PIECE);
        while wire.try_send(&piece).is_ok() {}
        gone.send(()).unwrap();
    });
    let gate = in_front_of(&origin);
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    wire.head().unwrap();
    drop(wire);
    wait.recv_timeout(headgate_tests::PATIENCE)
        .expect("the origin's connection is closed");
    eventually("it is counted", || {
        (gate.counter("web", "aborted_by_client") == 1).then_some(())
    });
}

/// Sends a large body and counts what was taken of it.
fn push(wire: &Wire, count: &AtomicUsize) {
    let piece = noise(7, PIECE);
    wire.stream().set_write_timeout(None).unwrap();
    for _ in 0..LARGE / PIECE {
        for part in piece.chunks(16 * 1024) {
            if wire.stream().write_all(part).is_err() {
                return;
            }
            count.fetch_add(part.len(), SeqCst);
        }
    }
}

/// Waits until a count stays as it is.
fn at_rest(count: &AtomicUsize) -> usize {
    let mut last = 0;
    eventually("the sender is held up", || {
        std::thread::sleep(Duration::from_millis(150));
        let now = count.load(SeqCst);
        let same = now == last && now > 0;
        last = now;
        same.then_some(now)
    })
}

fn check(body: &[u8]) {
    let piece = noise(7, PIECE);
    for (n, part) in body.chunks(PIECE).enumerate() {
        assert!(part == piece, "part {n} differs");
    }
}
