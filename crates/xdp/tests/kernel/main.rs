//! What the crate does with a real kernel. Needs root and eBPF; where they are missing, each test says so and passes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod attach;
mod map;
mod netns;
mod object;
mod pin;
mod run;
mod tiny;

use std::thread;
use std::time::{Duration, Instant};

/// Whether the kernel can be tested here; the reason is printed when not.
fn kernel() -> bool {
    match xdp::require::check() {
        Ok(()) => true,
        Err(missing) => {
            eprintln!("passed over: {missing}");
            false
        }
    }
}

/// Waits until `happened`, and panics after ten seconds.
fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(10), "in vain: {what}");
        thread::yield_now();
    }
}

/// Runs `unprivileged` on a thread without any capability. The threads it starts have none either.
#[expect(unsafe_code, reason = "capset")]
fn without_capabilities<T: Send>(unprivileged: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                // linux/capability.h: version 3, this thread, and no capability in any of the sets.
                let header: [u32; 2] = [0x2008_0522, 0];
                let none = [0u32; 6];
                // SAFETY: header and sets are laid out as version 3 wants them.
                let returned =
                    unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
                assert_eq!(returned, 0);
                unprivileged()
            })
            .join()
            .unwrap()
    })
}
