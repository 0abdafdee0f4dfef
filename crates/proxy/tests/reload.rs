//! One configuration after another, with connections open all the while.

mod common;

use common::{Http, LONG, config, connect, echo, http, start, talk, until};
use proxy::{ApplyError, Engine, Inherited, Options, Phase};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A TCP and an HTTP virtual.
fn both(workers: usize, echo: SocketAddr, http: SocketAddr) -> String {
    format!(
        "workers: {workers}
log: {{access: off}}
pools:
  echo: {{members: [\"{echo}\"]}}
  web: {{members: [\"{http}\"]}}
virtuals:
  echo: {{listen: \"127.0.0.1:0\", protocol: tcp, pool: echo}}
  web: {{listen: \"127.0.0.1:0\", pool: web}}
"
    )
}

fn address(engine: &Engine, name: &str) -> SocketAddr {
    engine.snapshot().addresses(name)[0]
}

#[test]
fn a_reload_keeps_connections_and_turns_to_the_new_pool() {
    let (old, new, echo) = (http("old"), http("new"), echo());
    let engine = start(&both(2, echo, old));
    let (tcp, web) = (address(&engine, "echo"), address(&engine, "web"));
    let mut tunnel = connect(tcp);
    let mut client = Http::connect(web);
    talk(&mut tunnel, "before");
    assert_eq!(client.get("/"), "old");
    let applied = engine.apply(config(&both(2, echo, new))).unwrap();
    assert_eq!(applied.generation, 2);
    assert_eq!(
        applied.changes,
        [
            format!("pool web: member {old} removed"),
            format!("pool web: member {new} added")
        ]
    );
    assert_eq!(
        (address(&engine, "echo"), address(&engine, "web")),
        (tcp, web)
    );
    talk(&mut tunnel, "after");
    until("requests go to the new member", || client.get("/") == "new");
    assert_eq!(engine.connections(), 2);
}

#[test]
fn workers_become_more_and_fewer_under_connections() {
    let (web, echo) = (http("web"), echo());
    let engine = start(&both(1, echo, web));
    let to = address(&engine, "echo");
    let mut open: Vec<TcpStream> = Vec::new();
    for workers in [1, 3, 1, 2] {
        engine.apply(config(&both(workers, echo, web))).unwrap();
        assert_eq!(engine.workers(), workers);
        for _ in 0..12 {
            open.push(connect(to));
        }
        for tunnel in &mut open {
            talk(tunnel, "still here");
        }
    }
    assert_eq!(engine.connections(), open.len());
    assert_eq!(engine.retiring_workers(), 2);
    drop(open);
    until("all are gone", || engine.connections() == 0);
    until("their workers have ended", || {
        engine.retiring_workers() == 0
    });
}

#[test]
fn no_connection_is_lost_while_workers_come_and_go() {
    let (web, echo) = (http("web"), echo());
    let engine = start(&both(2, echo, web));
    let to = address(&engine, "web");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = || {
            let mut served = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(Http::connect(to).get("/"), "web");
                served += 1;
            }
            served
        };
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(client)).collect();
        for workers in [1, 3, 2, 4].into_iter().cycle().take(40) {
            engine.apply(config(&both(workers, echo, web))).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        over.store(true, Ordering::Relaxed);
        let served: Vec<u32> = clients.into_iter().map(|c| c.join().unwrap()).collect();
        assert!(served.iter().sum::<u32>() > 40, "{served:?}");
    });
    let totals = engine.snapshot().virtuals["web"].state.counters.totals();
    assert_eq!(totals.connections_refused, 0);
}

#[test]
fn few_long_connections_are_spread_evenly() {
    let echo = echo();
    let engine = start(&both(3, echo, http("web")));
    let to = address(&engine, "echo");
    let mut open = Vec::new();
    for _ in 0..30 {
        let mut tunnel = connect(to);
        talk(&mut tunnel, "hello");
        open.push(tunnel);
    }
    let loads = engine.connections_by_worker();
    let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
    assert_eq!(loads.iter().sum::<usize>(), 30);
    assert!(most - least <= 2, "{loads:?}");
}

#[test]
fn connections_that_wait_in_a_passed_socket_are_served() {
    let (web, echo) = (http("web"), echo());
    let passed = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = passed.local_addr().unwrap();
    let mut waiting: Vec<_> = (0..20).map(|_| connect(to)).collect();
    for stream in &mut waiting {
        stream.write_all(b"early").unwrap();
    }
    let text = both(3, echo, web).replacen("127.0.0.1:0", &to.to_string(), 1);
    let inherited = Inherited::new([passed.into()]);
    let engine = Engine::start(config(&text), inherited, Options::default()).unwrap();
    for stream in &mut waiting {
        let mut back = [0; 5];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"early");
    }
    // The next process takes over from this one in turn.
    let descriptors = engine.listeners().unwrap().into_iter().map(|(_, fd)| fd);
    let inherited = Inherited::new(descriptors);
    engine.drain();
    let mut late = connect(to);
    let next = Engine::start(config(&text), inherited, Options::default()).unwrap();
    talk(&mut late, "late");
    talk(&mut waiting[0], "still");
    assert_eq!(engine.connections() + next.connections(), 21);
}

#[test]
fn what_cannot_be_used_changes_nothing() {
    let (web, echo) = (http("web"), echo());
    let good = both(2, echo, web);
    let engine = start(&good);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|a| (a, taken)).unwrap();
    let mut bad_address = good.clone();
    let _ = writeln!(
        bad_address,
        "  more: {{listen: [\"127.0.0.1:0\", \"{}\"], pool: web}}",
        taken.0
    );
    let error = engine.apply(config(&bad_address)).unwrap_err();
    assert!(matches!(&error, ApplyError::Bind(errors) if errors.len() == 1));
    assert!(
        error.to_string().contains("virtuals.more.listen[1]"),
        "{error}"
    );
    assert_eq!(engine.snapshot().generation, 1);
    assert!(!engine.snapshot().virtuals.contains_key("more"));
    assert_eq!(engine.listeners().unwrap().len(), 4);
    assert_eq!(Http::connect(address(&engine, "web")).get("/"), "web");
}

#[test]
fn an_address_that_goes_is_closed_and_its_connections_stay() {
    let (web, echo) = (http("web"), echo());
    let both = both(2, echo, web);
    let engine = start(&both);
    let to = address(&engine, "echo");
    let mut tunnel = connect(to);
    talk(&mut tunnel, "hello");
    let without = both
        .lines()
        .filter(|line| !line.starts_with("  echo: {listen"));
    let without: Vec<&str> = without.collect();
    let applied = engine.apply(config(&without.join("\n"))).unwrap();
    assert_eq!(
        applied.changes,
        [
            "virtual echo removed".to_owned(),
            format!("no longer listening on {to}")
        ]
    );
    until("connections are refused", || {
        TcpStream::connect(to).is_err()
    });
    talk(&mut tunnel, "still here");
}

#[test]
fn a_drain_closes_idle_connections_and_waits_for_the_others() {
    let (web, echo) = (http("web"), echo());
    let engine = start(&both(2, echo, web));
    let to = address(&engine, "web");
    let mut idle = Http::connect(to);
    assert_eq!(idle.get("/"), "web");
    let mut tunnel = connect(address(&engine, "echo"));
    talk(&mut tunnel, "hello");
    engine.drain();
    assert_eq!(engine.phase(), Phase::Draining);
    assert!(idle.is_ended());
    until("connections are refused", || {
        TcpStream::connect(to).is_err()
    });
    talk(&mut tunnel, "still here");
    assert!(!engine.wait_drained(Duration::from_millis(20)));
    drop(tunnel);
    assert!(engine.wait_drained(LONG));
    assert!(matches!(
        engine.apply(config("{}")),
        Err(ApplyError::Ending)
    ));
    engine.stop();
}

#[test]
fn stopping_ends_connections_that_would_not_end() {
    let engine = start(&both(2, echo(), http("web")));
    let mut tunnel = connect(address(&engine, "echo"));
    talk(&mut tunnel, "hello");
    engine.stop();
    assert!(matches!(tunnel.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(engine.connections(), 0);
}
