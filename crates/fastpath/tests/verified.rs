//! How much the kernel's verifier has to walk through before it accepts each program: printed, and kept away from its
//! limit, so that no kernel refuses the next change.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use std::os::fd::AsFd;

use fastpath::abi::FORWARD_TRACKED;
use rig::*;
use xdp::object;

/// Of the kernel.
const LIMIT: u32 = 1_000_000;

#[test]
fn programs_are_far_from_the_verifiers_limit() {
    with(
        |setup| {
            // Everything is switched on: what a setting switches off is not walked through.
            setup.all_programs = true;
            let settings = &mut setup.settings;
            settings.forward = FORWARD_TRACKED;
            settings.virtuals = 100;
            settings.nat_rules4 = 64;
            settings.nat_rules6 = 64;
            settings.drains = 1;
            settings.half_mask = 16_383;
        },
        |rig| {
            println!("instructions verified (the limit is {LIMIT}):");
            for program in rig.loaded.object.progs() {
                let name = program.name().to_string_lossy().into_owned();
                let program = object::program(&rig.loaded.object, &name).unwrap();
                let verified = object::verified_instructions(&program.as_fd()).unwrap();
                println!("{verified:>9}  {name}");
                assert!(verified < LIMIT * 3 / 4, "{name}: {verified} of {LIMIT}");
            }
        },
    );
}
