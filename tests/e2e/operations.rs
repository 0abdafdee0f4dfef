//! Changes to a running Headgate: nothing that is under way may notice them.

use crate::support::{config, echo, in_front_of, ok, web, websocket, websocket_echo};
use headgate_tests::{Authority, Builder, Headgate, Load, Origin, Wire, eventually, noise, within};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A configuration that differs by a number: weights, fields, a virtual that comes and goes.
fn variant(members: &[SocketAddr], n: usize) -> String {
    let members: Vec<String> = members
        .iter()
        .enumerate()
        .map(|(i, address)| format!("{{address: '{address}', weight: {}}}", 1 + (n + i) % 3))
        .collect();
    let extra = match n % 2 {
        0 => "",
        _ => "  other: {listen: '$IP:8081', pool: app}\n",
    };
    format!(
        "workers: 2\npools:\n  app: {{members: [{}]}}\n\
         virtuals:\n  web: {{listen: '$IP:8080', pool: app, headers: {{response: [{{set: {{name: X-Variant, value: v{n}}}}}]}}}}\n{extra}",
        members.join(", ")
    )
}

#[test]
fn a_hundred_reloads_under_load_fail_not_one_request() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let members = [a.address(), b.address()];
    let gate = Headgate::start(&variant(&members, 0));
    let kept = Load::start(gate.at(8080), 8, "/");
    let fresh = Load::start_closing(gate.at(8080), 4, "/");
    for n in 1..=100 {
        gate.reconfigure(&variant(&members, n));
        kept.more(5);
    }
    let response = Wire::connect(gate.at(8080)).get("/");
    assert_eq!(response.field("x-variant"), Some("v100"));
    kept.finish().assert_clean();
    fresh.finish().assert_clean();
    assert!(gate.read("/v1/status")["generation"].as_u64().unwrap() >= 100);
}

#[test]
fn websockets_and_downloads_survive_reloads_even_of_their_virtual_and_pool() {
    let echoing = websocket_echo();
    let body = noise(3, 8 << 20);
    let sent = body.clone();
    let origin = Origin::scripted(move |mut wire, _| {
        wire.request();
        wire.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            sent.len()
        ));
        for part in sent.chunks(sent.len() / 40) {
            wire.send(part);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let gate = web(echoing.address(), "");
    let (mut socket, _) = websocket(gate.at(8080));
    gate.reconfigure(&config(origin.address(), "", ""));
    let mut download = Wire::connect(gate.at(8080));
    download.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("the download has its member", || {
        (origin.accepted() > 0).then_some(())
    });
    for n in 0..10 {
        gate.reconfigure(&variant(&[Origin::refusing()], n));
        echo(&mut socket, "still there");
    }
    gate.reconfigure("virtuals: {none: {listen: '$IP:8082', routes: [{respond: {body: hi}}]}}");
    echo(&mut socket, "even now");
    assert!(download.response().body == body);
    assert!(
        Wire::try_connect(gate.at(8080)).is_err(),
        "its address is gone"
    );
}

#[test]
fn a_reload_comes_by_signal_and_by_change_of_a_file_too() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let gate = in_front_of(&a);
    assert_eq!(Wire::connect(gate.at(8080)).get("/").text(), "a");
    gate.configure(&config(b.address(), "", ""));
    gate.signal("HUP");
    eventually("the signal is followed", || {
        (Wire::connect(gate.at(8080)).get("/").text() == "b").then_some(())
    });
    std::thread::sleep(Duration::from_millis(1100));
    gate.configure(&config(a.address(), "", ""));
    eventually("the change is seen", || {
        (Wire::connect(gate.at(8080)).get("/").text() == "a").then_some(())
    });
}

#[test]
fn a_bad_configuration_changes_nothing_and_is_explained() {
    let a = Origin::named("a");
    let gate = in_front_of(&a);
    let load = Load::start(gate.at(8080), 2, "/");
    for (bad, why) in [
        (
            "virtuals: {web: {listen: '$IP:8080', pol: app}}",
            "did you mean `pool`",
        ),
        (
            "virtuals: {web: {listen: '$IP:8080', pool: ap}}\npools: {app: {members: ['127.0.0.1:1']}}",
            "app",
        ),
        ("pools: [", "headgate.yaml"),
    ] {
        gate.configure(bad);
        let (status, answer) = gate.api("POST", "/v1/reload", "");
        assert!(status >= 400, "{status} {answer}");
        assert!(answer.to_string().contains(why), "{answer}");
        let last = &gate.read("/v1/status")["last_reload"];
        assert_eq!(last["ok"], false, "{last}");
        assert!(last["error"].as_str().unwrap().contains(why), "{last}");
    }
    load.more(20);
    load.finish().assert_clean();
    assert!(gate.log().contains("did you mean"), "the log says it too");
}

#[test]
fn an_address_that_cannot_be_listened_on_leaves_all_as_it_was() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let gate = in_front_of(&a);
    let taken = std::net::TcpListener::bind(gate.at(8081)).unwrap();
    gate.configure(&format!(
        "pools: {{app: {{members: ['{}']}}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', pool: app}}, more: {{listen: ['$IP:8082', '$IP:8081'], pool: app}}}}",
        b.address()
    ));
    let (status, answer) = gate.api("POST", "/v1/reload", "");
    assert!(
        status >= 400 && answer.to_string().contains(":8081"),
        "{answer}"
    );
    assert_eq!(Wire::connect(gate.at(8080)).get("/").text(), "a");
    assert!(
        Wire::try_connect(gate.at(8082)).is_err(),
        "nothing of it is in force"
    );
    drop(taken);
    assert_eq!(gate.api("POST", "/v1/reload", "").0, 200);
    assert_eq!(Wire::connect(gate.at(8082)).get("/").text(), "b");
}

#[test]
fn a_bad_certificate_on_reload_leaves_the_old_one_in_use() {
    let origin = Origin::named("a");
    let authority = Authority::new("authority");
    let builder = Builder::new();
    authority.issue(builder.dir(), "site", &["site.example"]);
    builder.dir().write("ca.pem", authority.pem());
    let tls = format!(
        "tls_profiles: {{site: {{certificates: [{{certificate: $DIR/site.pem, key: $DIR/site.key}}]}}}}\n{}",
        config(origin.address(), "tls: site", "")
    );
    let gate = builder.start(&tls);
    let ca = gate.dir().path().join("ca.pem").display().to_string();
    let works = || {
        let resolve = format!("site.example:8080:{}", gate.at(8080).ip());
        let args = [
            "-sS",
            "--cacert",
            &ca,
            "--resolve",
            &resolve,
            "https://site.example:8080/",
        ];
        let (_, out) = headgate_tests::run("curl", &args, "");
        assert_eq!(out, "a");
    };
    works();
    let good = gate.dir().read("site.pem");
    gate.dir()
        .write("site.pem", "-----BEGIN CERTIFICATE-----\nnonsense\n");
    let (status, answer) = gate.api("POST", "/v1/reload", "");
    assert!(status >= 400, "{answer}");
    assert!(answer.to_string().contains("site.pem"), "{answer}");
    works();
    // A certificate that fits another key is no better.
    Authority::new("other").issue(gate.dir(), "other", &["site.example"]);
    let foreign = gate.dir().read("other.pem");
    gate.dir().write("site.pem", foreign);
    assert!(gate.api("POST", "/v1/reload", "").0 >= 400);
    works();
    gate.dir().write("site.pem", good);
    assert_eq!(gate.api("POST", "/v1/reload", "").0, 200);
    works();
}

#[test]
fn a_changed_certificate_is_taken_over_without_being_told() {
    let origin = Origin::named("a");
    let authority = Authority::new("authority");
    let builder = Builder::new();
    authority.issue(builder.dir(), "site", &["old.example"]);
    let gate = builder.start(&format!(
        "tls_profiles: {{site: {{certificates: [{{certificate: $DIR/site.pem, key: $DIR/site.key}}]}}}}\n{}",
        config(origin.address(), "tls: site", "")
    ));
    std::thread::sleep(Duration::from_millis(1100));
    authority.issue(gate.dir(), "site", &["new.example"]);
    within(
        Duration::from_secs(15),
        "the new certificate is shown",
        || {
            let to = gate.at(8080).to_string();
            let (_, out) = headgate_tests::run("openssl", &["s_client", "-connect", &to], "");
            out.contains("CN = new.example").then_some(())
        },
    );
}

#[test]
fn the_number_of_workers_changes_under_load_and_loses_nothing() {
    let (origin, echoing) = (Origin::named("a"), websocket_echo());
    let with = |workers: usize| {
        format!(
            "workers: {workers}\npools: {{app: {{members: ['{}']}}, ws: {{members: ['{}']}}}}\n\
             virtuals: {{web: {{listen: '$IP:8080', pool: app, routes: [{{match: {{path: /chat}}, pool: ws}}]}}}}",
            origin.address(),
            echoing.address()
        )
    };
    let gate = Headgate::start(&with(1));
    let kept = Load::start(gate.at(8080), 8, "/");
    let fresh = Load::start_closing(gate.at(8080), 4, "/");
    let (mut socket, _) = websocket(gate.at(8080));
    for workers in [2, 1, 3, 1, 2] {
        gate.reconfigure(&with(workers));
        kept.more(100);
        fresh.more(100);
        echo(&mut socket, "still there");
    }
    kept.finish().assert_clean();
    fresh.finish().assert_clean();
}

#[test]
fn an_upgrade_under_load_fails_not_one_request() {
    let (origin, echoing) = (Origin::named("a"), websocket_echo());
    let gate = Headgate::start(&format!(
        "pools: {{app: {{members: ['{}']}}, ws: {{members: ['{}']}}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', pool: app, routes: [{{match: {{path: /chat}}, pool: ws}}]}}}}",
        origin.address(),
        echoing.address()
    ));
    let kept = Load::start(gate.at(8080), 8, "/");
    let fresh = Load::start_closing(gate.at(8080), 4, "/");
    let (mut socket, _) = websocket(gate.at(8080));
    kept.more(200);
    let before = gate.pid();
    let mut pid = before;
    for _ in 0..3 {
        let (status, answer) = gate.api("POST", "/v1/upgrade", "");
        assert!(status < 300, "{answer}");
        pid = within(Duration::from_secs(15), "another process serves", || {
            let now = gate.pid();
            (now != pid).then_some(now)
        });
        kept.more(300);
        fresh.more(100);
        echo(&mut socket, "the old process has it still");
    }
    kept.finish().assert_clean();
    fresh.finish().assert_clean();
    assert!(gate.is_running(), "the first process serves the WebSocket");
    drop(socket);
    gate.wait(Duration::from_secs(15));
}

#[test]
fn an_upgrade_that_cannot_be_leaves_the_old_process_serving() {
    let origin = Origin::named("a");
    let gate = in_front_of(&origin);
    let before = gate.pid();
    gate.configure("virtuals: nonsense");
    let (status, answer) = gate.api("POST", "/v1/upgrade", "");
    assert!(status >= 400, "{status} {answer}");
    assert_eq!(gate.pid(), before);
    assert_eq!(Wire::connect(gate.at(8080)).get("/").text(), "a");
}

#[test]
fn a_terminated_process_finishes_what_it_has() {
    let origin = Origin::answering(|request| {
        if request.target() == "/slow" {
            std::thread::sleep(Duration::from_millis(800));
        }
        ok("done")
    });
    let gate = in_front_of(&origin);
    let mut slow = Wire::connect(gate.at(8080));
    slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut idle = Wire::connect(gate.at(8080));
    idle.get("/");
    eventually("the slow one is under way", || {
        (gate.counter("web", "requests") == 2).then_some(())
    });
    gate.signal("TERM");
    eventually("nothing new is taken", || {
        Wire::try_connect(gate.at(8080)).is_err().then_some(())
    });
    idle.assert_closed();
    let response = slow.response();
    assert_eq!(response.text(), "done");
    assert!(response.closes());
    assert!(gate.wait(Duration::from_secs(10)).success());
}

#[test]
fn a_terminated_process_waits_only_so_long() {
    let origin = Origin::scripted(|mut wire, _| {
        wire.request();
        wire.to_end();
    });
    let gate = Headgate::start(&format!(
        "limits: {{drain: 500ms}}\n{}",
        config(origin.address(), "", "")
    ));
    let mut stuck = Wire::connect(gate.at(8080));
    stuck.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("the request is under way", || {
        (gate.counter("web", "requests") == 1).then_some(())
    });
    let begun = Instant::now();
    gate.signal("TERM");
    gate.wait(Duration::from_secs(5));
    assert!(begun.elapsed() >= Duration::from_millis(450));
}

#[test]
fn long_connections_spread_over_the_workers() {
    let echoing = websocket_echo();
    let gate = web(echoing.address(), "");
    let held: Vec<_> = (0..40).map(|_| websocket(gate.at(8080))).collect();
    let status = gate.read("/v1/status");
    let workers: Vec<u64> = status["workers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|worker| worker["connections"].as_u64().unwrap())
        .collect();
    assert_eq!(workers.iter().sum::<u64>(), 40);
    assert!(workers.iter().all(|count| *count >= 15), "{workers:?}");
    drop(held);
}
