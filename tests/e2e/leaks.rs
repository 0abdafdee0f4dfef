//! What must be as before once everybody has gone: no connection, unit of a member, descriptor or waiting request may stay.

use crate::support::{ok, websocket};
use headgate_tests::{Headgate, Origin, Wire, eventually, noise};
use std::time::Duration;

/// Goes through a connection in one of many ways, most of them rude.
fn misbehave(gate: &Headgate, n: usize) {
    let Ok(mut wire) = Wire::try_connect(gate.at(8080)) else {
        return;
    };
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
    let pause = || std::thread::sleep(Duration::from_millis(n as u64 % 7));
    let _ = match n % 16 {
        0 => return wire.reset(),
        1 => wire.try_send("GET / HT"),
        2 => wire.try_send(get("/slow")),
        3 => wire
            .try_send(get("/large"))
            .and_then(|()| wire.exactly(1000).map(drop)),
        4 => wire.try_send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nsome"),
        5 => {
            wire.try_send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe")
        }
        6 => wire
            .try_send(get("/reset"))
            .and_then(|()| wire.try_response("GET").map(drop)),
        7 => wire
            .try_send(get("/garbage"))
            .and_then(|()| wire.try_response("GET").map(drop)),
        8 => wire.try_send(get("/").repeat(50)),
        9 => wire
            .try_send("POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\nx")
            .and_then(|()| wire.try_response("POST").map(drop)),
        10 => wire.try_send("GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n"),
        11 => wire
            .try_send(get("/until-close"))
            .and_then(|()| wire.exactly(10).map(drop)),
        12 => {
            let _ = wire.try_send(get("/slow"));
            pause();
            return wire.reset();
        }
        13 => wire.try_send(get("/")).and_then(|()| {
            wire.finish();
            wire.try_response("GET").map(drop)
        }),
        14 => wire
            .try_send("GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
            .and_then(|()| wire.try_response("GET").map(drop)),
        _ => wire
            .try_send(get("/"))
            .and_then(|()| wire.try_response("GET").map(drop)),
    };
    pause();
}

fn origin() -> Origin {
    Origin::scripted(|mut wire, _| {
        while let Ok(Some(head)) = wire.head() {
            let length = head.length().unwrap_or_default();
            let sent = match head.target() {
                "/early" => wire.try_send(ok("early")),
                "/slow" => {
                    std::thread::sleep(Duration::from_millis(30));
                    wire.try_send(ok("slow"))
                }
                "/large" => wire
                    .try_send("HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n")
                    .and_then(|()| wire.try_send(noise(1, 4 << 20))),
                "/reset" => return wire.reset(),
                "/garbage" => wire.try_send("garbage\r\n\r\n"),
                "/until-close" => {
                    let _ = wire.try_send("HTTP/1.1 200 OK\r\n\r\n");
                    let _ = wire.try_send(noise(1, 100_000));
                    return;
                }
                "/chat" => {
                    let _ = wire.try_send(
                        "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
                    );
                    wire.to_end();
                    return;
                }
                _ => wire.exactly(length).and_then(|_| wire.try_send(ok("ok"))),
            };
            if sent.is_err() {
                return;
            }
        }
    })
}

#[test]
fn after_every_kind_of_rude_client_nothing_is_left() {
    let origin = origin();
    let gate = Headgate::start(&format!(
        "pools: {{app: {{members: [{{address: '{}', connections: 8}}], ejection: off, keepalive: {{idle: 1s}}}}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', pool: app, timeouts: {{head: 1s, idle: 1s, body: 1s, send: 1s}}}}}}",
        origin.address()
    ));
    assert_eq!(Wire::connect(gate.at(8080)).get("/").text(), "ok");
    upgraded(&gate);
    let before = gate.descriptors();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let gate = &gate;
            scope.spawn(move || {
                for n in 0..150 {
                    misbehave(gate, thread * 5 + n);
                }
            });
        }
    });
    let name = origin.address().to_string();
    eventually("all connections are over", || {
        let status = gate.read("/v1/status");
        let workers = status["workers"].as_array()?;
        let idle = workers.iter().all(|worker| worker["connections"] == 0);
        (status["connections"] == 0 && idle).then_some(())
    });
    eventually("the member has nothing under way and nobody waits", || {
        let pool = gate.read("/v1/pools/app");
        (gate.member("app", &name)["active"] == 0 && pool["waiting"] == 0).then_some(())
    });
    assert_eq!(gate.read("/v1/virtuals/web")["active"], 0);
    eventually("sockets are given back", || {
        (gate.descriptors()["socket"] <= before["socket"]).then_some(())
    });
    assert_eq!(Wire::connect(gate.at(8080)).get("/").text(), "ok");
}

/// An upgrade that ends at once, so that all that is made but once is there.
fn upgraded(gate: &Headgate) {
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(wire.response().status(), 101);
}

#[test]
fn workers_that_came_and_went_leave_nothing_behind() {
    let echoing = crate::support::websocket_echo();
    let with = |n: usize| {
        format!(
            "workers: {}\npools: {{app: {{members: ['{}']}}}}\n\
             virtuals: {{web: {{listen: ['$IP:8080', '$IP:81{n:02}'], pool: app}}}}",
            1 + n % 3,
            echoing.address()
        )
    };
    let gate = Headgate::start(&with(0));
    let settled = |gate: &Headgate| {
        let mut last = std::collections::BTreeMap::new();
        eventually("descriptors are at rest", || {
            std::thread::sleep(Duration::from_millis(300));
            let now = gate.descriptors();
            let same = now == last;
            last.clone_from(&now);
            same.then_some(now)
        })
    };
    let before = settled(&gate);
    for n in 1..=36 {
        let socket = websocket(gate.at(8080));
        gate.reconfigure(&with(n % 12));
        drop(socket);
    }
    let after = settled(&gate);
    assert_eq!(
        after["anon_inode"], before["anon_inode"],
        "what a worker waits with"
    );
    // Where there were three workers, two more sockets of each of two addresses stay and are served.
    assert!(
        after["socket"] <= before["socket"] + 4,
        "{after:?} after {before:?}"
    );
}
