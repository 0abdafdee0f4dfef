//! A process without a descriptor to spare: its own trouble, which no member may be blamed for.
//! The test runs itself once more under a low limit, so that nothing else suffers.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs::File;
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use health::{Engine, Kind, Settings, Target, TargetKey};

const PATIENCE: Duration = Duration::from_secs(10);

const INSIDE: &str = "HEALTH_TEST_WITH_FEW_DESCRIPTORS";

#[test]
fn a_check_without_a_descriptor_is_skipped_and_not_counted() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let this = std::env::current_exe().unwrap();
    let status = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" --nocapture"])
        .arg(this)
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success());
}

fn inside() {
    // Never accepted from: the kernel completes handshakes by itself.
    let member = TcpListener::bind("127.0.0.1:0").unwrap();
    let (tell, told) = mpsc::channel();
    let engine = Engine::start("monitors").unwrap();
    engine.set_targets(vec![Target {
        key: TargetKey {
            pool: "pool".into(),
            member: "member".into(),
            monitor: "tcp".into(),
            address: member.local_addr().unwrap(),
        },
        settings: Settings {
            interval: Duration::from_millis(20),
            ..Settings::new(Kind::Tcp)
        },
        on_verdict: Arc::new(move |verdict| {
            let _ = tell.send(verdict);
        }),
        start: None,
    }]);
    assert!(told.recv_timeout(PATIENCE).unwrap().up);
    let mut hoard = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hoard.push(file);
    }
    let begun = Instant::now();
    while engine.statuses()[0].skipped < 5 {
        assert!(begun.elapsed() < PATIENCE, "no check was skipped");
        thread::sleep(Duration::from_millis(10));
    }
    let status = &engine.statuses()[0];
    assert_eq!((status.failures, status.state.up()), (0, Some(true)));
    drop(hoard);
    let checks = status.checks;
    while engine.statuses()[0].checks == checks {
        assert!(begun.elapsed() < PATIENCE, "no check was made any more");
        thread::sleep(Duration::from_millis(10));
    }
    engine.stop();
}
