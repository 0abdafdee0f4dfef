//! Descriptors run out: a test of its own process, whose limit it lowers.

mod common;

use common::{connect, echo, start, talk, until};
use std::fs::File;
use std::process::Command;
use std::thread;
use std::time::Duration;

#[test]
fn accepting_rests_while_there_are_no_descriptors_and_goes_on_after() {
    let engine = start(&format!(
        "workers: 1
log: {{access: off}}
pools: {{echo: {{members: [\"{}\"]}}}}
virtuals: {{echo: {{listen: \"127.0.0.1:0\", protocol: tcp, pool: echo}}}}
",
        echo()
    ));
    let to = engine.snapshot().addresses("echo")[0];
    talk(&mut connect(to), "before");
    until("that one is gone", || engine.connections() == 0);
    let limited = Command::new("prlimit")
        .args(["--nofile=128:", "--pid", &std::process::id().to_string()])
        .status();
    assert!(limited.expect("util-linux is installed").success());
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    // Room for the client's end alone.
    taken.pop();
    let mut client = connect(to);
    until("accepting has failed", || engine.accept_pauses() > 0);
    let before = engine.accept_pauses();
    thread::sleep(Duration::from_millis(300));
    let pauses = engine.accept_pauses() - before;
    assert!((1..=5).contains(&pauses), "{pauses} pauses in 300 ms");
    drop(taken);
    talk(&mut client, "after");
}
