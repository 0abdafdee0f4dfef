//! Which member a request goes to, and what monitors and operators say to that.

use crate::support::ok;
use headgate_tests::{Headgate, Load, Origin, Wire, eventually};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A Headgate in front of members, each written as YAML with `@` for its address.
fn pool(members: &[(&Origin, &str)], of_pool: &str) -> Headgate {
    let members: Vec<String> = members
        .iter()
        .map(|(origin, form)| form.replace('@', &origin.address().to_string()))
        .collect();
    Headgate::start(&format!(
        "monitors: {{web: {{type: http, path: /health, interval: 100ms, timeout: 1s, rise: 2, fall: 2}}}}\n\
         pools: {{app: {{members: [{}], {of_pool}}}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', pool: app}}}}",
        members.join(", ")
    ))
}

/// Asks so often, over one connection, and counts the answers.
fn ask(to: SocketAddr, times: usize, target: &str) -> BTreeMap<String, usize> {
    let mut wire = Wire::connect(to);
    let mut counts = BTreeMap::new();
    for _ in 0..times {
        *counts.entry(wire.get(target).text()).or_default() += 1;
    }
    counts
}

#[test]
fn round_robin_goes_by_turns_and_by_weight() {
    let (a, b, c) = (Origin::named("a"), Origin::named("b"), Origin::named("c"));
    let gate = pool(
        &[
            (&a, "'@'"),
            (&b, "{address: '@', weight: 2}"),
            (&c, "{address: '@', weight: 5}"),
        ],
        "",
    );
    let counts = ask(gate.at(8080), 80, "/");
    let expected = [("a", 10), ("b", 20), ("c", 50)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn least_connections_avoids_the_busy_whatever_the_worker() {
    let slow = Origin::answering(|_| {
        std::thread::sleep(Duration::from_millis(300));
        ok("slow")
    });
    let fast = Origin::named("fast");
    let gate = pool(
        &[(&slow, "'@'"), (&fast, "'@'")],
        "balance: least-connections",
    );
    let load = Load::start(gate.at(8080), 6, "/");
    load.more(600);
    let tally = load.finish();
    tally.assert_clean();
    assert!(
        tally.of("fast") > tally.of("slow") * 5,
        "{:?}",
        tally.answers
    );
}

#[test]
fn a_key_stays_with_its_member_and_others_spread() {
    let origins = ["a", "b", "c", "d"].map(Origin::named);
    let members: Vec<(&Origin, &str)> = origins.iter().map(|origin| (origin, "'@'")).collect();
    for method in ["modulo", "consistent"] {
        let gate = pool(
            &members,
            &format!("balance: {{hash: {{on: path, method: {method}}}}}"),
        );
        let mut used = BTreeMap::new();
        for key in 0..40 {
            let counts = ask(gate.at(8080), 3, &format!("/key/{key}?{method}"));
            assert_eq!(counts.len(), 1, "{method}: one member for one key");
            *used.entry(counts.into_keys().next().unwrap()).or_insert(0) += 1;
        }
        assert_eq!(used.len(), 4, "{method}: {used:?}");
    }
}

#[test]
fn backups_serve_only_when_nothing_else_does() {
    let (main, backup) = (Origin::named("main"), Origin::named("backup"));
    let gate = pool(
        &[(&main, "'@'"), (&backup, "{address: '@', backup: true}")],
        "",
    );
    assert_eq!(ask(gate.at(8080), 10, "/")["main"], 10);
    let name = main.address().to_string();
    gate.set_member("app", &name, r#"{"state":"drain"}"#);
    assert_eq!(ask(gate.at(8080), 10, "/")["backup"], 10);
    gate.set_member("app", &name, r#"{"state":"enabled"}"#);
    assert_eq!(ask(gate.at(8080), 10, "/")["main"], 10);
}

#[test]
fn a_members_limit_holds_over_all_workers_and_the_queue_keeps_the_rest() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, peak) = (now.clone(), most.clone());
    let origin = Origin::answering(move |_| {
        let n = count.fetch_add(1, SeqCst) + 1;
        peak.fetch_max(n, SeqCst);
        std::thread::sleep(Duration::from_millis(3));
        count.fetch_sub(1, SeqCst);
        ok("a")
    });
    let gate = pool(&[(&origin, "{address: '@', connections: 3}")], "");
    let load = Load::start(gate.at(8080), 24, "/");
    load.more(800);
    load.finish().assert_clean();
    assert_eq!(most.load(SeqCst), 3);
    assert!(gate.counter("web", "queued") > 100);
}

#[test]
fn the_queue_has_its_length_and_its_patience() {
    let origin = Origin::scripted(|mut wire, _| {
        wire.request();
        wire.to_end();
    });
    let gate = pool(
        &[(&origin, "{address: '@', connections: 1}")],
        "limits: {queue: 1, queue_timeout: 400ms}",
    );
    let send = || {
        let mut wire = Wire::connect(gate.at(8080));
        wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        wire
    };
    let _holds = send();
    eventually("the member is full", || {
        (origin.accepted() == 1).then_some(())
    });
    let begun = Instant::now();
    let mut waits = send();
    eventually("one waits", || {
        (gate.counter("web", "queued") == 1).then_some(())
    });
    let mut too_many = send();
    assert_eq!(too_many.response().status(), 503);
    assert_eq!(gate.refusals("web", "queue-full"), 1);
    assert_eq!(waits.response().status(), 503);
    assert!(begun.elapsed() >= Duration::from_millis(380));
    assert_eq!(gate.refusals("web", "queue-timeout"), 1);
}

#[test]
fn a_drained_member_finishes_and_gets_nothing_new() {
    let slow = Origin::answering(|_| {
        std::thread::sleep(Duration::from_millis(500));
        ok("slow")
    });
    let other = Origin::named("other");
    let gate = pool(&[(&slow, "'@'"), (&other, "'@'")], "balance: first");
    let mut under_way = Wire::connect(gate.at(8080));
    under_way.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("it is under way", || (slow.accepted() == 1).then_some(()));
    gate.set_member("app", &slow.address().to_string(), r#"{"state":"drain"}"#);
    assert_eq!(ask(gate.at(8080), 20, "/")["other"], 20);
    assert_eq!(under_way.response().text(), "slow");
    assert_eq!(slow.count(), 1);
}

#[test]
fn a_weight_set_by_hand_counts_at_once_and_stays_over_a_reload() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let gate = pool(&[(&a, "'@'"), (&b, "'@'")], "");
    gate.set_member("app", &a.address().to_string(), r#"{"weight":3}"#);
    assert_eq!(ask(gate.at(8080), 40, "/")["a"], 30);
    gate.set_member("app", &a.address().to_string(), r#"{"weight":0}"#);
    assert_eq!(ask(gate.at(8080), 40, "/")["b"], 40);
    assert_eq!(gate.api("POST", "/v1/reload", "").0, 200);
    assert_eq!(
        ask(gate.at(8080), 40, "/")["b"],
        40,
        "nothing of it was changed"
    );
}

#[test]
fn a_monitor_takes_a_member_out_and_brings_it_back() {
    let healthy = Arc::new(AtomicBool::new(true));
    let state = healthy.clone();
    let a = Origin::answering(move |request| match request.target() {
        "/health" if !state.load(SeqCst) => {
            b"HTTP/1.1 500 Ill\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        _ => ok("a"),
    });
    let b = Origin::named("b");
    let gate = pool(&[(&a, "'@'"), (&b, "'@'")], "monitors: web");
    let name = a.address().to_string();
    let condition = |wanted: &'static str| {
        eventually(wanted, || {
            (gate.member("app", &name)["condition"] == wanted).then_some(())
        });
    };
    condition("up");
    assert_eq!(ask(gate.at(8080), 20, "/")["a"], 10);
    healthy.store(false, SeqCst);
    condition("down");
    assert_eq!(ask(gate.at(8080), 20, "/")["b"], 20);
    let checks = &gate.member("app", &name)["checks"];
    assert!(
        checks.to_string().contains("500"),
        "the reason is told: {checks}"
    );
    healthy.store(true, SeqCst);
    condition("up");
    assert_eq!(ask(gate.at(8080), 20, "/")["a"], 10);
    let address = a.address();
    drop(a);
    condition("down");
    let _again = Origin::named_at(address, "a");
    condition("up");
}

#[test]
fn a_member_is_probed_once_by_the_process_and_not_by_each_worker() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&format!(
        "workers: 4\nmonitors: {{web: {{type: http, path: /health, interval: 200ms, jitter: 0%}}}}\n\
         pools: {{app: {{monitors: web, members: ['{}']}}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', pool: app}}}}",
        origin.address()
    ));
    let begun = Instant::now();
    let before = origin.count();
    eventually("some probes", || {
        (origin.count() >= before + 8).then_some(())
    });
    assert!(
        begun.elapsed() > Duration::from_millis(1200),
        "{:?}",
        begun.elapsed()
    );
    drop(gate);
}

#[test]
fn a_member_that_comes_up_is_brought_to_its_share_slowly() {
    let healthy = Arc::new(AtomicBool::new(false));
    let state = healthy.clone();
    let a = Origin::answering(move |request| match request.target() {
        "/health" if !state.load(SeqCst) => {
            b"HTTP/1.1 500 Ill\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        _ => ok("a"),
    });
    let b = Origin::named("b");
    let gate = pool(&[(&a, "'@'"), (&b, "'@'")], "monitors: web, slow_start: 4s");
    let name = a.address().to_string();
    eventually("it is down", || {
        (gate.member("app", &name)["condition"] == "down").then_some(())
    });
    healthy.store(true, SeqCst);
    eventually("it is up", || {
        (gate.member("app", &name)["condition"] == "up").then_some(())
    });
    let early = ask(gate.at(8080), 100, "/");
    let early = early.get("a").copied().unwrap_or_default();
    assert!(early < 35, "{early} of 100 at once");
    eventually("it has its share", || {
        let counts = ask(gate.at(8080), 100, "/");
        (counts.get("a").copied().unwrap_or_default() >= 48).then_some(())
    });
}
