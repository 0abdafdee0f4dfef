//! The calls to the kernel that the libraries have no safe form of.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Has a listening socket tell of a connection only when the client has sent something, or after
/// `seconds`; 0 for at once.
pub(crate) fn set_defer_accept(listener: &TcpListener, seconds: u32) -> io::Result<()> {
    let value = libc::c_int::try_from(seconds).unwrap_or(libc::c_int::MAX);
    // SAFETY: pointer and length are those of one integer that lives through the call.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The processors that this thread may run on, ascending.
pub(crate) fn processors() -> Vec<usize> {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives through the call, its size is told.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    if result != 0 {
        return Vec::new();
    }
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the set is initialised and every index is below its size.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// A clock that counts the processor's cycles, or nanoseconds where that is not to be had.
pub(crate) fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter that every x86-64 processor has; no memory is touched.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Fills `words` with bits that nobody can foresee.
pub(crate) fn random(words: &mut [u64]) {
    let mut done = 0;
    let all = size_of_val(words);
    while done < all {
        // SAFETY: what is left of the words lies behind the pointer, and any bits make a word.
        let n = unsafe {
            let rest = words.as_mut_ptr().cast::<u8>().add(done);
            libc::getrandom(rest.cast(), all - done, 0)
        };
        // It fails only where it is interrupted.
        done += usize::try_from(n).unwrap_or(0);
    }
}

/// Has this thread run on `processor` alone.
pub(crate) fn pin_to(processor: usize) -> io::Result<()> {
    if processor >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is initialised and the index was seen to be below its size.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the set lives through the call, its size is told.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Takes over descriptors that whoever started the process left open for it, and has none of them
/// passed on by accident.
///
/// # Safety
///
/// Nothing else in the process may own them.
pub(crate) unsafe fn adopt(first: RawFd, count: usize) -> Vec<OwnedFd> {
    (first..)
        .take(count)
        .filter(|&fd| {
            // SAFETY: no memory is passed; of a descriptor that is not open the kernel says so.
            let result = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
            result == 0
        })
        // SAFETY: open, and by this function's contract owned by nobody.
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .collect()
}
