//! The processor's time stamp counter: how fast it counts.

use std::time::{Duration, Instant};

/// Ticks of the counter in a microsecond; 0 where there is none.
pub(crate) fn megahertz() -> f64 {
    let (began, first) = (Instant::now(), ticks());
    while began.elapsed() < Duration::from_millis(200) {
        std::hint::spin_loop();
    }
    let (last, elapsed) = (ticks(), began.elapsed());
    last.saturating_sub(first) as f64 / elapsed.as_secs_f64() / 1e6
}

/// The counter as it stands.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    0
}
