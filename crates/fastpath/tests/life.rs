//! The life of the fast path in namespaces: loading, attaching, restarting. Needs root; without it, it says so and passes.

use fastpath::abi::{Settings, State};
use fastpath::{Capacities, Clock, Instance};

/// Whether these tests can do anything here.
fn able() -> bool {
    match xdp::require::check() {
        Ok(()) => true,
        Err(missing) => {
            eprintln!("passed over: {missing}");
            false
        }
    }
}

fn small() -> Capacities {
    Capacities {
        flows_v4: 4096,
        flows_v6: 4096,
        half_open: 1024,
        fragments: 256,
        shuns: 1024,
        users: 256,
    }
}

#[test]
fn the_programs_load_and_know_their_capacities() {
    if !able() {
        return;
    }
    let clock = Clock::start().unwrap();
    let instance = Instance::load(&small(), &Settings::new(clock.hz(), [1, 2])).unwrap();
    assert_eq!(instance.settings().slots6, 4096);
    assert_eq!(instance.tables().mapped("flows4").unwrap().len(), 4096);
    for name in instance.programs() {
        instance.program_named(&name).unwrap();
    }
    assert_eq!(
        instance.settings().timeout[State::Udp as usize],
        30 * clock.hz()
    );
}

#[test]
fn the_clock_ticks_as_the_kernel_does() {
    if !able() {
        return;
    }
    let clock = Clock::start().unwrap();
    let before = clock.now().unwrap();
    let mut now = before;
    while now == before {
        now = clock.now().unwrap();
    }
    assert!(now.wrapping_sub(before) < clock.hz());
}
