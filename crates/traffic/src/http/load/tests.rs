//! The load against this crate's own origin.

use super::super::origin::{self, Origin};
use super::super::{Error, Stop};
use super::{Args, Mode, Report, run};
use std::fs;
use std::net::SocketAddr;
use std::thread;

/// Run a load against an origin that serves HTTP on the first of its addresses and HTTPS on the second.
fn measure(tls: bool, path: &str, mode: Mode, change: impl FnOnce(&mut Args)) -> Report {
    let folder = std::env::temp_dir().join(format!(
        "headgate-load-{}-{:?}",
        std::process::id(),
        thread::current().id()
    ));
    fs::create_dir_all(&folder).unwrap();
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(folder.join("cert.pem"), key.cert.pem()).unwrap();
    fs::write(folder.join("key.pem"), key.signing_key.serialize_pem()).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let origin = Origin::bind(&origin::Args {
        listen: vec![any],
        tls_listen: vec![any],
        certificate: Some(folder.join("cert.pem")),
        key: Some(folder.join("key.pem")),
        name: None,
    });
    fs::remove_dir_all(&folder).unwrap();
    let origin = origin.unwrap();
    let address = origin.addresses()[usize::from(tls)];
    let scheme = if tls { "https" } else { "http" };
    let mut args = args(&format!("{scheme}://{address}{path}"), mode);
    change(&mut args);
    let stop = Stop::default();
    thread::scope(|scope| {
        scope.spawn(|| origin.run(&stop));
        let _stopper = Stopper(&stop);
        run(&args, &stop).unwrap()
    })
}

fn tempfile(content: &str) -> std::path::PathBuf {
    let name = format!(
        "headgate-list-{}-{:?}",
        std::process::id(),
        thread::current().id()
    );
    let path = std::env::temp_dir().join(name);
    fs::write(&path, content).unwrap();
    path
}

/// Ends the origin also when the load panics.
struct Stopper<'a>(&'a Stop);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn args(url: &str, mode: Mode) -> Args {
    Args {
        url: url.to_owned(),
        connections: 3,
        duration: 20.0,
        warm_up: 0.0,
        requests: Some(50),
        mode,
        sources: 0,
        from: None,
        host: None,
        watch: None,
        json: false,
    }
}

#[track_caller]
fn assert_clean(report: &Report, size: u64) {
    assert_eq!((report.errors, report.other_status), (0, 0), "{report}");
    assert!(report.requests >= 50, "{report}");
    let head = report.bytes / report.requests - size;
    assert!((30..200).contains(&head), "{report}");
    assert!(report.latency.p50 > 0.0 && report.latency.p50 <= report.latency.max);
}

#[test]
fn answers_of_every_size_are_counted_on_kept_connections() {
    for size in [1024, 10 * 1024, 512 * 1024] {
        assert_clean(
            &measure(false, &format!("/bytes/{size}"), Mode::KeepAlive, |_| ()),
            size,
        );
    }
}

#[test]
fn a_connection_for_each_request_leaves_no_error() {
    assert_clean(
        &measure(false, "/bytes/1024", Mode::Close, |args| args.sources = 5),
        1024,
    );
    assert_clean(
        &measure(false, "/bytes/300000", Mode::Close, |_| ()),
        300_000,
    );
}

#[test]
fn answers_over_tls_are_decrypted_and_counted() {
    assert_clean(
        &measure(true, "/bytes/10240", Mode::KeepAlive, |_| ()),
        10_240,
    );
    assert_clean(
        &measure(true, "/bytes/524288", Mode::KeepAlive, |_| ()),
        524_288,
    );
    assert_clean(&measure(true, "/bytes/1024", Mode::Close, |_| ()), 1024);
}

#[test]
fn handshakes_are_counted_without_requests() {
    let report = measure(true, "/", Mode::Handshake, |_| ());
    assert_eq!((report.errors, report.bytes), (0, 0), "{report}");
    assert!(report.requests >= 50);
}

#[test]
fn idle_connections_stay_open_until_the_end() {
    let report = measure(false, "/bytes/1", Mode::Idle, |args| {
        args.connections = 200;
        args.duration = 0.3;
    });
    assert_eq!((report.requests, report.errors), (200, 0), "{report}");
}

#[test]
fn a_watched_process_is_charged_for_its_time() {
    let report = measure(false, "/bytes/1024", Mode::KeepAlive, |args| {
        args.requests = None;
        args.duration = 0.3;
        args.watch = Some(std::process::id());
    });
    assert!(report.watched_cpu_seconds.is_some(), "{report}");
}

#[test]
fn other_statuses_are_told_apart() {
    let report = measure(false, "/status/503", Mode::KeepAlive, |_| ());
    assert_eq!(
        (report.errors, report.other_status),
        (0, report.requests),
        "{report}"
    );
}

#[test]
fn the_lines_of_a_file_are_asked_in_turn() {
    let list = tempfile("/bytes/100\n\n/status/503 a=1; b=2\n");
    let report = measure(false, "/", Mode::KeepAlive, |args| {
        args.connections = 1;
        args.from = Some(list.clone());
    });
    assert_eq!((report.requests, report.other_status), (50, 25), "{report}");
    fs::write(&list, "\n").unwrap();
    let mut empty = args("http://127.0.0.1:1/", Mode::KeepAlive);
    empty.from = Some(list.clone());
    let result = run(&empty, &Stop::default());
    fs::remove_file(&list).unwrap();
    assert!(matches!(result, Err(Error::List { .. })), "{result:?}");
}

#[test]
fn a_line_s_cookie_is_sent() {
    let list = tempfile("/request a=1; b=2\n");
    let size = |from: Option<&std::path::PathBuf>| {
        let report = measure(false, "/request", Mode::KeepAlive, |args| {
            args.from = from.cloned();
            args.host = Some("a".to_owned());
        });
        report.bytes / report.requests
    };
    assert_eq!(
        size(Some(&list)),
        size(None) + "Cookie: a=1; b=2\r\n".len() as u64
    );
    fs::remove_file(&list).unwrap();
}

#[test]
fn a_target_that_is_not_there_is_given_up() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let result = run(
        &args(&format!("http://{closed}/"), Mode::KeepAlive),
        &Stop::default(),
    );
    assert!(
        matches!(result, Err(Error::Unreachable { .. })),
        "{result:?}"
    );
}
