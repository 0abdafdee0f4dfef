#![no_main]

#[path = "../../crates/rules/tests/bodies/mod.rs"]
#[allow(dead_code, reason = "each target uses one")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::rule_run(data));
