//! What end-to-end tests stand on: a Headgate process of their own, origins that follow a script, clients that send exact
//! bytes, certificates, load, and real programs. The tests themselves are in `e2e/`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod bird;
mod certificates;
mod geography;
mod headgate;
mod load;
mod message;
pub mod network;
mod origin;
mod place;
mod program;
pub mod routes;
mod wire;

pub use bird::Bird;
pub use certificates::Authority;
pub use geography::countries;
pub use headgate::{Builder, Headgate, binary};
pub use load::{Load, Tally};
pub use message::Message;
pub use origin::Origin;
pub use place::{Dir, address};
pub use program::{Program, nginx, run};
pub use wire::Wire;

use std::time::{Duration, Instant};

/// How long anything may take that ought to happen at once.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Asks until there is an answer.
///
/// # Panics
/// If there is none within [`PATIENCE`].
pub fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, ask)
}

/// Asks until there is an answer.
///
/// # Panics
/// If there is none in that time.
pub fn within<T>(time: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + time;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "not within {time:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes that look random and are the same for the same seed: bodies whose every byte can be checked.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}
