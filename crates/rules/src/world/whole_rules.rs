//! Whole rules with commands that wait, become scripts, or keep something between events, run through the engine.

use super::testing::{Fake, World};
use crate::data_group::Kind;
use crate::engine::{Connection, Engine, Limits, RuleSource, Step};
use crate::event::Event;
use crate::flow::Flow;
use crate::host::Wait;
use crate::value::Value;
use std::sync::Arc;

/// A connection with its rule, in a world of its own.
struct Running {
    engine: Engine,
    connection: Connection,
    host: Fake,
}

impl Running {
    fn new(world: World, rule: &str) -> Self {
        let mut engine = Engine::new(Limits::default(), 1);
        let source = RuleSource {
            name: "rule".into(),
            text: rule.as_bytes().into(),
        };
        let program = engine.load(&[Arc::new(source)]).unwrap();
        let mut host = world.host;
        let failures = engine.init(&program, &mut host);
        assert!(failures.is_empty(), "{failures:?}");
        let flow: Flow = world.flow;
        let connection = Connection::new(&program, flow);
        Running {
            engine,
            connection,
            host,
        }
    }

    fn start(&mut self, event: Event) -> Step {
        self.engine
            .start(&mut self.connection, event, &mut self.host)
    }

    fn done(&mut self, event: Event) {
        let step = self.start(event);
        assert!(matches!(step, Step::Done), "{step:?}");
    }

    /// Gives what is waited for; what is waited for next.
    fn answer(&mut self, value: &str) -> Option<Wait> {
        let value = Ok(Value::from(value));
        let step = self
            .engine
            .resume(&mut self.connection, value, &mut self.host);
        match step {
            Step::Wait(wait) => Some(wait),
            Step::Done => None,
            Step::Failed(failure) => panic!("{failure:?}"),
        }
    }

    /// What was logged, without what stands before each text.
    fn log(&self) -> Vec<&str> {
        let text = |line: &'_ String| line.find(": ").map_or(0, |at| at + 2);
        self.host
            .log
            .iter()
            .map(|line| &line[text(line)..])
            .collect()
    }
}

#[test]
fn a_sideband_sets_the_variables_that_it_is_given() {
    let mut running = Running::new(
        World::new(),
        r#"when CLIENT_ACCEPTED {
            set conn [connect -timeout 100 -status st 10.0.0.1:80]
            log local0. "$conn $st"
            set n [send -status st $conn "GET /"]
            log local0. "$n $st"
            set n [recv -timeout 50 -status st $conn data]
            log local0. "$n $st <$data>"
            set n [recv -timeout 50 -status st $conn data]
            log local0. "$n $st <$data>"
            set conn [connect -status st 10.0.0.2:80]
            log local0. "<$conn> $st"
        }"#,
    );
    let step = running.start(Event::ClientAccepted);
    assert!(matches!(step, Step::Wait(Wait::Connect { .. })), "{step:?}");
    assert!(matches!(
        running.answer("7"),
        Some(Wait::Send { handle: 7, .. })
    ));
    assert!(matches!(
        running.answer("5"),
        Some(Wait::Receive { handle: 7, .. })
    ));
    assert!(matches!(running.answer("body"), Some(Wait::Receive { .. })));
    assert!(matches!(running.answer(""), Some(Wait::Connect { .. })));
    assert_eq!(running.answer(""), None);
    let wanted = [
        "7 connected",
        "5 sent",
        "4 received <body>",
        "0 timeout <>",
        "<> timeout",
    ];
    assert_eq!(running.log(), wanted);
}

#[test]
fn a_rule_waits_for_names_and_goes_on() {
    let mut running = Running::new(
        World::new(),
        r#"when CLIENT_ACCEPTED {
            foreach address [RESOLV::lookup @192.0.2.53 -a www.example.com] {
                log local0. "at $address"
            }
        }"#,
    );
    let step = running.start(Event::ClientAccepted);
    assert!(matches!(step, Step::Wait(Wait::Resolve { .. })), "{step:?}");
    assert_eq!(running.answer("10.0.0.1 10.0.0.2"), None);
    assert_eq!(running.log(), ["at 10.0.0.1", "at 10.0.0.2"]);
}

#[test]
fn a_walk_through_a_data_group_ends() {
    let mut world = World::new();
    world.data_group("ports", Kind::Integer, &[("80", "http"), ("443", "https")]);
    let mut running = Running::new(
        world,
        r#"when CLIENT_ACCEPTED {
            set id [class startsearch ports]
            while { [class anymore ports $id] } {
                set element [class nextelement ports $id]
                log local0. "[lindex $element 0] is [lindex $element 1]"
            }
            class donesearch ports $id
            if { [class match 443 equals ports] and not [class match 22 equals ports] } { log local0. "fits" }
        }"#,
    );
    running.done(Event::ClientAccepted);
    assert_eq!(running.log(), ["80 is http", "443 is https", "fits"]);
}

#[test]
fn requests_are_counted_in_a_sliding_window() {
    let mut running = Running::new(
        World::new(),
        r#"when CLIENT_ACCEPTED {
            set window "win_[IP::client_addr]"
            set n [table incr -notouch -subtable seq [IP::client_addr]]
            table set -subtable $window $n 1 indefinite 10
            if { [table keys -subtable $window -count] > 3 } {
                SHUN::add [IP::client_addr] 60
                reject
            }
        }"#,
    );
    for _ in 0..3 {
        running.done(Event::ClientAccepted);
        assert_eq!(running.connection.flow.ended, None);
    }
    running.host.now += std::time::Duration::from_secs(10);
    for _ in 0..3 {
        running.done(Event::ClientAccepted);
    }
    assert_eq!(running.connection.flow.ended, None);
    running.done(Event::ClientAccepted);
    assert!(running.connection.flow.ended.is_some());
    assert_eq!(running.host.shunned.len(), 1);
}

#[test]
fn later_handlers_and_events_are_left_out_once_switched_off() {
    let mut running = Running::new(
        World::new(),
        r#"when CLIENT_ACCEPTED priority 100 { log local0. "first"; event CLIENT_CLOSED disable; event disable all }
        when CLIENT_ACCEPTED priority 200 { log local0. "second" }
        when SERVER_CONNECTED { log local0. "third" }
        when CLIENT_CLOSED { log local0. "fourth" }"#,
    );
    running.done(Event::ClientAccepted);
    running.done(Event::ServerConnected);
    running.done(Event::ClientClosed);
    assert_eq!(running.log(), ["first"]);
}

#[test]
fn a_digest_goes_on_over_events() {
    let mut running = Running::new(
        World::new(),
        r#"when CLIENT_ACCEPTED { CRYPTO::hash -alg sha256 -ctx digest "a" }
        when SERVER_CONNECTED { CRYPTO::hash -ctx digest "b" }
        when CLIENT_CLOSED {
            set hex [CRYPTO::hash -ctx digest -final "c"]
            binary scan $hex H* hex
            log local0. $hex
            for { set i 0 } { $i < 2 } { incr i } { set tag [CRYPTO::sign -alg hmac-sha1 -key "k" "x$i"] }
            log local0. [expr { $tag eq [CRYPTO::sign -alg hmac-sha1 -key "k" "x1"] }]
        }"#,
    );
    running.done(Event::ClientAccepted);
    running.done(Event::ServerConnected);
    running.done(Event::ClientClosed);
    let wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(running.log(), [wanted, "1"]);
}

#[test]
fn what_is_not_implemented_is_told_at_load() {
    let source = RuleSource {
        name: "rule".into(),
        text: (*b"when HTTP_REQUEST {\n  COMPRESS::disable\n}\nwhen CACHE_REQUEST {}").into(),
    };
    let problems = Engine::new(Limits::default(), 1)
        .load(&[Arc::new(source)])
        .err()
        .unwrap();
    let told: Vec<_> = problems
        .iter()
        .map(|p| (p.line, p.message.as_str()))
        .collect();
    assert!(
        told.contains(&(2, "the command COMPRESS::disable is not implemented")),
        "{told:?}"
    );
    assert!(
        told.contains(&(4, "the event CACHE_REQUEST is not implemented")),
        "{told:?}"
    );
}
