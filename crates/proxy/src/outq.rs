//! How much of what was written to a socket its peer has not acknowledged yet.

use std::os::fd::AsRawFd;

/// Bytes that were written and not acknowledged; `None` where the kernel does not say.
pub(crate) fn unacknowledged(socket: &impl AsRawFd) -> Option<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) stores one integer, for which there is room.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    (result == 0)
        .then_some(bytes)
        .and_then(|bytes| usize::try_from(bytes).ok())
}
