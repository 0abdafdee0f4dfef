//! Members on loopback that answer, or do not, in every way a monitor must tell apart.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use health::{Engine, HttpCheck, Kind, Settings, StatusSet, Target, TargetKey, Verdict};

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_member_that_accepts_is_up() {
    let member = member(drop);
    let verdict = first(member, settings(Kind::Tcp));
    assert!(verdict.up && verdict.changed && verdict.ok);
    assert_eq!(verdict.reason, "connected");
}

#[test]
fn a_member_that_refuses_is_down() {
    let verdict = first(nobody(), settings(Kind::Tcp));
    assert!(!verdict.up && verdict.changed);
    assert_eq!(verdict.reason, "connection refused");
}

#[test]
fn verdicts_change_after_rise_and_fall() {
    let well = Arc::new(AtomicBool::new(true));
    let answer = Arc::clone(&well);
    let member = member(move |mut stream| {
        read_request(&mut stream);
        let status = if answer.load(Ordering::SeqCst) {
            200
        } else {
            503
        };
        let _ = write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
    });
    let (engine, verdicts) = watch(member, settings(Kind::Http(HttpCheck::default())));
    assert!(next(&verdicts).up);
    well.store(false, Ordering::SeqCst);
    let mut bad = 0;
    let down = loop {
        let verdict = next(&verdicts);
        bad += usize::from(!verdict.ok);
        if verdict.changed {
            break verdict;
        }
    };
    assert_eq!(bad, 3);
    assert!(!down.up);
    assert_eq!(down.reason, "status 503, expected 200-399");
    well.store(true, Ordering::SeqCst);
    let mut good = 0;
    let up = loop {
        let verdict = next(&verdicts);
        good += usize::from(verdict.ok);
        if verdict.changed {
            break verdict;
        }
    };
    assert_eq!(good, 2);
    assert!(up.up);
    engine.stop();
}

#[test]
fn silence_after_accepting_is_down_in_the_time_given() {
    let member = member(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut settings = settings(Kind::Http(HttpCheck::default()));
    settings.timeout = Duration::from_millis(150);
    let verdict = first(member, settings);
    assert!(!verdict.up);
    assert_eq!(verdict.reason, "no answer in 150ms");
    assert!(verdict.latency >= Duration::from_millis(150));
    assert!(verdict.latency < Duration::from_secs(2));
}

#[test]
fn an_answer_that_trickles_ends_with_the_whole_checks_time() {
    let member = member(|mut stream| {
        read_request(&mut stream);
        for byte in "HTTP/1.1 200 OK\r\n"
            .bytes()
            .chain("x: y\r\n".bytes().cycle())
        {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let mut settings = settings(Kind::Http(HttpCheck::default()));
    settings.timeout = Duration::from_millis(200);
    assert_eq!(
        first(member, settings).reason,
        "no complete answer in 200ms"
    );
}

#[test]
fn a_connection_closed_without_an_answer_is_down() {
    let member = member(|mut stream| read_request(&mut stream));
    let verdict = first(member, settings(Kind::Http(HttpCheck::default())));
    assert_eq!(verdict.reason, "connection closed without an answer");
}

#[test]
fn an_answer_cut_short_is_down() {
    let verdict = first(
        answering(&["HTTP/1.1 200 OK\r\nServer"]),
        settings(Kind::Http(HttpCheck::default())),
    );
    assert_eq!(
        verdict.reason,
        "connection closed before the answer was complete"
    );
}

#[test]
fn another_protocols_greeting_is_no_http() {
    let verdict = first(
        answering(&["220 mail.example ESMTP\r\n"]),
        settings(Kind::Http(HttpCheck::default())),
    );
    assert!(!verdict.up);
    assert!(
        verdict.reason.starts_with("not a valid HTTP response: "),
        "{}",
        verdict.reason
    );
}

#[test]
fn an_expected_status_may_be_an_error() {
    let check = HttpCheck {
        expect_status: StatusSet::new([401..=401]),
        ..HttpCheck::default()
    };
    let member = answering(&["HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"]);
    assert_eq!(
        first(member, settings(Kind::Http(check))).reason,
        "status 401"
    );
}

#[test]
fn interim_responses_are_passed_over() {
    let member = answering(&[
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 20",
        "0 OK\r\nContent-Length: 0\r\n\r\n",
    ]);
    let verdict = first(member, settings(Kind::Http(HttpCheck::default())));
    assert_eq!(verdict.reason, "status 200");
}

#[test]
fn a_text_split_over_segments_and_chunks_is_found() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let member = answering(&[
        HEAD,
        "3\r\nall",
        "\r\n",
        "5\r\n is w",
        "\r\n4\r\nell.\r\n0\r\n\r\n",
    ]);
    let verdict = first(member, settings(Kind::Http(with_body("all is well"))));
    assert!(verdict.up, "{}", verdict.reason);
}

#[test]
fn a_body_without_the_text_is_down() {
    let member = answering(&["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nal", "l is"]);
    let verdict = first(member, settings(Kind::Http(with_body("ok"))));
    assert!(!verdict.up);
    assert_eq!(verdict.reason, "body lacks \"ok\"");
}

#[test]
fn an_endless_body_is_not_read_to_its_end() {
    let member = member(|mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let verdict = first(member, settings(Kind::Http(with_body("ok"))));
    assert_eq!(verdict.reason, "body lacks \"ok\"");
}

#[test]
fn what_is_sent_is_answered_as_expected() {
    let member = member(|mut stream| {
        let mut ask = [0; 6];
        stream.read_exact(&mut ask).unwrap();
        assert_eq!(&ask, b"PING\r\n");
        let _ = stream.write_all(b"+PO");
        thread::sleep(Duration::from_millis(10));
        let _ = stream.write_all(b"NG\r\n");
    });
    let verdict = first(member, settings(ping()));
    assert!(verdict.up, "{}", verdict.reason);
}

#[test]
fn another_answer_than_expected_is_down() {
    let member = member(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"-LOADING\r\n");
    });
    assert_eq!(
        first(member, settings(ping())).reason,
        "answer lacks \"PONG\""
    );
}

#[test]
fn a_member_sees_an_orderly_end_although_it_has_more_to_say() {
    let (ended, end) = mpsc::channel();
    let member = member(move |mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n");
        let body = stream.write_all(&[b'x'; 20_000]);
        let _ = stream.shutdown(Shutdown::Write);
        let rest = stream.read(&mut [0; 16]);
        let _ = ended.send(body.and(rest).map_err(|e| e.kind()));
    });
    let (engine, verdicts) = watch(member, slow(Kind::Http(HttpCheck::default())));
    assert!(next(&verdicts).up);
    assert_eq!(end.recv_timeout(PATIENCE).unwrap(), Ok(0));
    engine.stop();
}

#[test]
fn the_monitors_port_takes_the_place_of_the_members() {
    let mut settings = settings(Kind::Tcp);
    settings.port = Some(member(drop).port());
    assert!(first(nobody(), settings).up);
}

#[test]
fn a_check_comes_from_the_configured_address() {
    let (seen, peer) = mpsc::channel();
    let member = member(move |stream| {
        let _ = seen.send(stream.peer_addr().unwrap().ip());
    });
    let mut settings = slow(Kind::Tcp);
    settings.source = Some("127.0.0.9".parse().unwrap());
    let (engine, verdicts) = watch(member, settings);
    assert!(next(&verdicts).up);
    let peer = peer.recv_timeout(PATIENCE).unwrap();
    assert_eq!(peer.to_string(), "127.0.0.9");
    engine.stop();
}

#[test]
fn a_changed_target_is_asked_as_it_now_is() {
    let member = answering(&["HTTP/1.1 204 x\r\n\r\n"]);
    let (engine, verdicts) = watch(member, slow(Kind::Tcp));
    assert_eq!(next(&verdicts).reason, "connected");
    let (target, verdicts) = target(member, slow(Kind::Http(HttpCheck::default())));
    engine.set_targets(vec![target]);
    let verdict = next(&verdicts);
    assert_eq!(verdict.reason, "status 204");
    assert!(
        verdict.up && !verdict.changed,
        "the verdict was carried over"
    );
    engine.set_targets(Vec::new());
    assert!(engine.statuses().is_empty());
    engine.stop();
}

#[test]
fn a_target_is_asked_at_once_on_demand() {
    let (engine, verdicts) = watch(member(drop), slow(Kind::Tcp));
    next(&verdicts);
    let key = engine.statuses()[0].key.clone();
    assert!(engine.check_now(&key));
    next(&verdicts);
    let status = &engine.statuses()[0];
    assert_eq!((status.checks, status.failures), (2, 0));
    assert_eq!(status.state.up(), Some(true));
    engine.stop();
}

#[test]
fn a_listener_that_panics_leaves_the_others_watched() {
    let member = member(drop);
    let engine = Engine::start("monitors").unwrap();
    let (mut bad, _) = target(member, settings(Kind::Tcp));
    bad.key.member = "bad".into();
    bad.on_verdict = Arc::new(|_| panic!("on purpose"));
    let (good, verdicts) = target(member, settings(Kind::Tcp));
    engine.set_targets(vec![bad, good]);
    for _ in 0..3 {
        assert!(next(&verdicts).up);
    }
    engine.stop();
}

#[test]
fn a_thousand_targets_get_their_verdicts() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().take(1000) {
            drop(stream);
        }
    });
    let (tell, told) = mpsc::channel();
    let targets = (0..1000u16).map(|n| {
        // A quarter of them nobody listens for.
        let refused = n % 4 == 0;
        let address = if refused {
            nobody()
        } else {
            SocketAddr::from(([127, 0, 0, 1], port))
        };
        let tell = tell.clone();
        let mut target = target(address, slow(Kind::Tcp)).0;
        target.key.member = format!("m{n}").into();
        target.on_verdict = Arc::new(move |verdict| {
            let _ = tell.send((n, verdict));
        });
        target
    });
    let targets: Vec<_> = targets.collect();
    let engine = Engine::start("monitors").unwrap();
    let begun = Instant::now();
    engine.set_targets(targets);
    for _ in 0..1000 {
        let (n, verdict) = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(verdict.up, n % 4 != 0, "{n}: {}", verdict.reason);
    }
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(engine.statuses().len(), 1000);
    engine.stop();
}

#[test]
fn checks_leave_no_descriptors_behind() {
    let answers = answering(&["HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\nok"]);
    let silent = member(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut hurried = settings(Kind::Http(HttpCheck::default()));
    hurried.timeout = Duration::from_millis(20);
    let engine = Engine::start("monitors").unwrap();
    let (one, verdicts) = target(answers, settings(Kind::Http(with_body("ok"))));
    let (two, _) = target(silent, hurried);
    let (three, _) = target(nobody(), settings(Kind::Tcp));
    engine.set_targets(vec![one, two, three]);
    for _ in 0..50 {
        next(&verdicts);
    }
    engine.set_targets(Vec::new());
    let ports = [answers.port(), silent.port()];
    let begun = Instant::now();
    while connections_to(&ports) > 0 {
        assert!(begun.elapsed() < PATIENCE, "connections were left open");
        thread::sleep(Duration::from_millis(20));
    }
    engine.stop();
}

fn settings(kind: Kind) -> Settings {
    Settings {
        interval: Duration::from_millis(20),
        timeout: Duration::from_secs(5),
        ..Settings::new(kind)
    }
}

/// For a single check, unless another is asked for.
fn slow(kind: Kind) -> Settings {
    Settings {
        interval: Duration::from_secs(1000),
        timeout: Duration::from_secs(5),
        ..Settings::new(kind)
    }
}

fn with_body(text: &str) -> HttpCheck {
    HttpCheck {
        expect_body: Some(text.into()),
        ..HttpCheck::default()
    }
}

fn ping() -> Kind {
    Kind::SendExpect {
        send: b"PING\r\n".to_vec(),
        expect: b"PONG".to_vec(),
        tls: None,
    }
}

fn target(address: SocketAddr, settings: Settings) -> (Target, mpsc::Receiver<Verdict>) {
    let (tell, told) = mpsc::channel();
    let target = Target {
        key: TargetKey {
            pool: "pool".into(),
            member: "member".into(),
            monitor: "monitor".into(),
            address,
        },
        settings,
        on_verdict: Arc::new(move |verdict| {
            let _ = tell.send(verdict);
        }),
        start: None,
    };
    (target, told)
}

fn watch(address: SocketAddr, settings: Settings) -> (Engine, mpsc::Receiver<Verdict>) {
    let engine = Engine::start("monitors").unwrap();
    let (target, verdicts) = target(address, settings);
    engine.set_targets(vec![target]);
    (engine, verdicts)
}

fn next(verdicts: &mpsc::Receiver<Verdict>) -> Verdict {
    verdicts.recv_timeout(PATIENCE).expect("a verdict")
}

/// The verdict of the first check.
fn first(address: SocketAddr, settings: Settings) -> Verdict {
    let (engine, verdicts) = watch(address, settings);
    let verdict = next(&verdicts);
    engine.stop();
    verdict
}

/// A member that serves each connection in a thread.
fn member(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (serve, stream) = (Arc::clone(&serve), stream.unwrap());
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A member that answers any request with these bytes, a segment each.
fn answering(segments: &'static [&'static str]) -> SocketAddr {
    member(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        read_request(&mut stream);
        for segment in segments {
            if stream.write_all(segment.as_bytes()).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    })
}

/// An address where nobody listens: below the ports that the kernel hands out.
fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

/// Open connections of this process towards any of the ports.
fn connections_to(ports: &[u16]) -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let ours: Vec<_> = fds
        .filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
        .filter_map(|link| {
            let name = link.to_str()?.strip_prefix("socket:[")?;
            name.strip_suffix(']').map(str::to_owned)
        })
        .collect();
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let is_left = |line: &&str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let port = fields[2].rsplit(':').next().unwrap();
        let port = u16::from_str_radix(port, 16).unwrap();
        ports.contains(&port) && ours.iter().any(|inode| inode == fields[9])
    };
    table.lines().skip(1).filter(is_left).count()
}

fn read_request(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        seen.push(byte[0]);
    }
}
