#![no_main]

#[path = "../../crates/wire/tests/bodies/mod.rs"]
#[allow(dead_code, reason = "each target uses one")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::chunked(data));
