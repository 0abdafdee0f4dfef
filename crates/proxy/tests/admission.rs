//! Who is let in, and which members are used.

mod common;

use balance::Health;
use common::{Http, connect, echo, http, start, talk, until};
use proxy::{Engine, MemberChange};
use std::io::Read;
use std::net::{SocketAddr, TcpListener};

fn tcp(more: &str) -> Engine {
    start(&format!(
        "workers: 2
log: {{access: off}}
limits: {{connections: 5}}
pools: {{echo: {{members: [\"{}\"]}}}}
virtuals:
  echo: {{listen: \"127.0.0.1:0\", protocol: tcp, pool: echo, {more}}}
",
        echo()
    ))
}

fn address(engine: &Engine, name: &str) -> SocketAddr {
    engine.snapshot().addresses(name)[0]
}

fn refused(engine: &Engine, reason: &str) -> u64 {
    let counters = &engine.snapshot().virtuals["echo"].state.counters;
    counters.refusals().get(reason).copied().unwrap_or(0)
}

/// So many connections are served and one more is not, until one of them ends.
fn holds(engine: &Engine, limit: usize, reason: &str) {
    let to = address(engine, "echo");
    let mut open: Vec<_> = (0..limit).map(|_| connect(to)).collect();
    for tunnel in &mut open {
        talk(tunnel, "hello");
    }
    assert!(matches!(connect(to).read(&mut [0]), Ok(0) | Err(_)));
    until("the refusal is counted", || refused(engine, reason) == 1);
    assert_eq!(engine.connections(), limit);
    open.pop();
    until("its place is free", || engine.connections() == limit - 1);
    talk(&mut connect(to), "hello again");
}

#[test]
fn the_process_has_its_limit() {
    holds(&tcp("limits: {connections: 10}"), 5, "process-connections");
}

#[test]
fn a_virtual_has_its_limit() {
    holds(&tcp("limits: {connections: 3}"), 3, "connections");
}

#[test]
fn an_address_has_its_limit() {
    let engine = tcp("limits: {connections_per_address: 2}");
    holds(&engine, 2, "connections-per-address");
}

#[test]
fn denied_addresses_are_turned_away() {
    for (more, reason) in [
        ("deny: [127.0.0.0/8]", "denied"),
        ("allow: [10.0.0.0/8]", "not-allowed"),
        ("allow: [127.0.0.1], deny: [127.0.0.1]", "denied"),
    ] {
        let engine = tcp(more);
        let mut turned_away = connect(address(&engine, "echo"));
        assert!(matches!(turned_away.read(&mut [0]), Ok(0) | Err(_)));
        until("the refusal is counted", || refused(&engine, reason) == 1);
        assert_eq!(engine.connections(), 0);
        let totals = engine.snapshot().virtuals["echo"].state.counters.totals();
        assert_eq!((totals.connections, totals.connections_refused), (0, 1));
    }
}

#[test]
fn a_monitor_takes_a_dead_member_out_and_brings_it_back() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = free.local_addr().unwrap();
    drop(free);
    let alive = http("alive");
    let engine = start(&format!(
        "workers: 2
log: {{access: off}}
monitors: {{port: {{type: tcp, interval: 50ms, timeout: 40ms, rise: 1, fall: 1}}}}
pools: {{web: {{members: [\"{dead}\", \"{alive}\"], monitors: [port]}}}}
virtuals: {{web: {{listen: \"127.0.0.1:0\", pool: web}}}}
"
    ));
    let health = |address| {
        let members = engine.members();
        let member = members.iter().find(|m| m.address == address).unwrap();
        (member.health, member.monitors.len())
    };
    until("it is seen to be dead", || {
        health(dead) == (Health::Down, 1)
    });
    let mut client = Http::connect(address(&engine, "web"));
    for _ in 0..10 {
        assert_eq!(client.get("/"), "alive");
    }
    let requests = |address| {
        let members = engine.members();
        members
            .iter()
            .find(|m| m.address == address)
            .unwrap()
            .requests
    };
    assert_eq!(requests(dead), 0);
    let _back = TcpListener::bind(dead).unwrap();
    until("it is seen to be back", || health(dead) == (Health::Up, 1));
}

#[test]
fn an_operator_sets_a_member_and_a_reload_leaves_it_so() {
    let (one, two) = (http("one"), http("two"));
    let text = format!(
        "log: {{access: off}}
pools: {{web: {{members: [{{address: \"{one}\", name: one}}, {{address: \"{two}\", name: two}}]}}}}
virtuals: {{web: {{listen: \"127.0.0.1:0\", pool: web}}}}
"
    );
    let engine = start(&text);
    let drain = MemberChange {
        admin: Some(balance::Admin::Drain),
        weight: None,
    };
    assert_eq!(engine.set_member("web", "one", drain), Ok(1));
    assert!(engine.set_member("web", "three", drain).is_err());
    engine.apply(common::config(&text)).unwrap();
    let mut client = Http::connect(address(&engine, "web"));
    for _ in 0..6 {
        assert_eq!(client.get("/"), "two");
    }
}

#[test]
fn a_member_known_by_its_host_name_is_found_and_watched() {
    let origin = http("by name");
    let name = format!("localhost:{}", origin.port());
    let engine = start(&format!(
        "log: {{access: off}}
monitors: {{port: {{type: tcp, interval: 50ms, timeout: 40ms}}}}
pools:
  web:
    monitors: [port]
    members: [{{address: \"{name}\", resolve: {{mode: all}}}}, \"nowhere.invalid:80\"]
virtuals: {{web: {{listen: \"127.0.0.1:0\", pool: web}}}}
"
    ));
    let found = || {
        let members = engine.members();
        assert!(members.iter().all(|member| *member.name == *name));
        members.into_iter().find(|member| member.address == origin)
    };
    until("its verdict is there", || {
        found().is_some_and(|m| m.monitors.iter().any(|status| status.checks > 0))
    });
    assert_eq!(Http::connect(address(&engine, "web")).get("/"), "by name");
}
