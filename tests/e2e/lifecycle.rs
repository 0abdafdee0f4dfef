//! Times and ends of connections that the other files have not: handshakes that stall, streams through a changing process.

use crate::support::{config, echo, web, websocket, websocket_echo};
use headgate_tests::{Authority, Builder, Headgate, Load, Origin, Wire, eventually, within};
use std::time::{Duration, Instant};

#[test]
fn a_handshake_that_stalls_is_given_up() {
    let origin = Origin::named("a");
    let authority = Authority::new("authority");
    let builder = Builder::new();
    authority.issue(builder.dir(), "site", &["site.example"]);
    let gate = builder.start(&format!(
        "tls_profiles: {{site: {{certificates: [{{certificate: $DIR/site.pem, key: $DIR/site.key}}]}}}}\n{}",
        config(origin.address(), "tls: site, timeouts: {tls_handshake: 300ms}", "")
    ));
    let mut wire = Wire::connect(gate.at(8080));
    // The beginning of a ClientHello.
    wire.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    let begun = Instant::now();
    wire.to_end();
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_proxy_header_that_stalls_is_given_up() {
    let origin = Origin::named("a");
    let gate = web(
        origin.address(),
        "proxy_protocol: {from: [127.0.0.0/8], required: true}, timeouts: {tls_handshake: 300ms}",
    );
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("PROXY TCP4 203.0.113.7");
    let begun = Instant::now();
    wire.to_end();
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn a_websocket_outlives_the_upgrade_of_the_process_until_its_drain_ends() {
    let echoing = websocket_echo();
    let gate = Headgate::start(&format!(
        "limits: {{upgrade_drain: 2s}}\n{}",
        config(echoing.address(), "", "")
    ));
    let (mut socket, _) = websocket(gate.at(8080));
    let before = gate.pid();
    assert!(gate.api("POST", "/v1/upgrade", "").0 < 300);
    eventually("another process serves", || {
        (gate.pid() != before).then_some(())
    });
    echo(&mut socket, "from the old process");
    eventually("the old one takes nothing new", || {
        gate.log().contains("draining").then_some(())
    });
    let (mut fresh, _) = websocket(gate.at(8080));
    gate.wait(Duration::from_secs(10));
    assert!(socket.read().is_err(), "its time is over");
    echo(&mut fresh, "from the new one");
}

#[test]
fn members_by_host_name_are_found() {
    let origin = Origin::answering_at("127.0.0.1:0".parse().unwrap(), |_| crate::support::ok("a"));
    let port = origin.address().port();
    let gate = Headgate::start(&format!(
        "pools: {{app: {{members: [{{address: 'localhost:{port}', resolve: {{mode: first}}}}]}}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', pool: app}}}}"
    ));
    eventually("its address is found", || {
        let mut wire = Wire::connect(gate.at(8080));
        (wire.get("/").status() == 200).then_some(())
    });
}

#[test]
fn connections_to_members_are_kept_and_let_go_in_time() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&config(origin.address(), "", "keepalive: {idle: 500ms}"));
    let mut wire = Wire::connect(gate.at(8080));
    for _ in 0..5 {
        wire.get("/");
    }
    assert_eq!(origin.accepted(), 1);
    assert_eq!(gate.counter("web", "upstream_reuses"), 4);
    std::thread::sleep(Duration::from_millis(2500));
    wire.get("/");
    assert_eq!(origin.accepted(), 2, "the idle one was closed");
}

#[test]
fn connections_to_members_end_after_so_many_requests() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&config(
        origin.address(),
        "",
        "keepalive: {max_requests: 2}",
    ));
    let mut wire = Wire::connect(gate.at(8080));
    for _ in 0..6 {
        assert_eq!(wire.get("/").text(), "a");
    }
    assert_eq!(origin.accepted(), 3);
}

#[test]
fn connections_to_members_are_opened_ahead() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&format!(
        "workers: 1\n{}",
        config(origin.address(), "", "keepalive: {pre_connect: 3}")
    ));
    let mut wire = Wire::connect(gate.at(8080));
    wire.get("/");
    within(Duration::from_secs(5), "three are ready", || {
        (origin.accepted() >= 3).then_some(())
    });
}

#[test]
fn a_virtual_that_goes_lets_its_requests_finish() {
    let origin = Origin::answering(|_| {
        std::thread::sleep(Duration::from_millis(700));
        crate::support::ok("done")
    });
    let gate = web(origin.address(), "");
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("it is under way", || (origin.accepted() == 1).then_some(()));
    gate.reconfigure("virtuals: {other: {listen: '$IP:8081', routes: [{respond: {body: hi}}]}}");
    assert_eq!(wire.response().text(), "done");
    assert_eq!(Wire::connect(gate.at(8081)).get("/").text(), "hi");
}

#[test]
fn members_change_under_load_and_no_request_fails() {
    let origins = ["a", "b", "c"].map(Origin::named);
    let with = |used: &[usize]| {
        let members: Vec<String> = used
            .iter()
            .map(|n| format!("'{}'", origins[*n].address()))
            .collect();
        format!(
            "pools: {{app: {{members: [{}]}}}}\nvirtuals: {{web: {{listen: '$IP:8080', pool: app}}}}",
            members.join(", ")
        )
    };
    let gate = Headgate::start(&with(&[0]));
    let load = Load::start(gate.at(8080), 8, "/");
    for used in [&[0, 1][..], &[1, 2], &[2], &[0, 1, 2], &[1]] {
        gate.reconfigure(&with(used));
        load.more(200);
    }
    // What was under way at the change has had its end; from here on it is b's alone.
    let others = || origins[0].count() + origins[2].count();
    let before = others();
    load.more(200);
    assert_eq!(others(), before, "members that went get nothing");
    load.finish().assert_clean();
}

#[test]
fn the_text_log_tells_timers_and_how_it_ended() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&format!(
        "log: {{access: {{format: text, output: {{file: $DIR/access.log}}}}}}\n{}",
        config(origin.address(), "", "")
    ));
    let mut wire = Wire::connect(gate.at(8080));
    wire.get("/page");
    wire.send("GET /x HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n");
    assert_eq!(wire.response().status(), 400);
    let lines = eventually("both are logged", || {
        let log = gate.dir().read("access.log");
        let lines: Vec<String> = log.lines().map(str::to_owned).collect();
        (lines.len() == 2).then_some(lines)
    });
    assert!(
        lines[0].contains(" -- 1 \"GET /page HTTP/1.1\""),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].contains("reason=\"repeated-host\""),
        "{}",
        lines[1]
    );
    assert!(lines[1].contains(" 400 "), "{}", lines[1]);
}

#[test]
fn a_sampled_log_has_its_share_and_every_refusal() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&format!(
        "log: {{access: {{format: json, sample: 0.1, output: {{file: $DIR/access.log}}}}}}\n{}",
        config(origin.address(), "", "")
    ));
    let mut wire = Wire::connect(gate.at(8080));
    for _ in 0..1000 {
        wire.get("/");
    }
    for _ in 0..20 {
        let mut bad = Wire::connect(gate.at(8080));
        bad.send("GET / HTTP/9.9\r\n\r\n");
        bad.response();
    }
    eventually("all refusals are logged", || {
        let log = gate.access_log();
        let refused = log.iter().filter(|line| line["status"] == 505).count();
        (refused == 20).then_some(())
    });
    let served = gate.access_log().len() - 20;
    assert!((50..200).contains(&served), "{served} of 1000");
}
