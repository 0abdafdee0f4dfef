//! Pipes through which bytes go from socket to socket without being copied, kept for reuse.

use crate::sys;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// What a pipe is asked to hold: enough for a large receive window in one call.
const CAPACITY: usize = 512 * 1024;

/// Empty pipes kept by a thread. More than were ever in use at once are never made.
const KEEP: usize = 256;

thread_local! {
    static POOL: RefCell<Vec<(OwnedFd, OwnedFd)>> = const { RefCell::new(Vec::new()) };
}

/// A pipe lent by this thread's pool. Dropped empty it goes back; dropped with bytes in it, it is
/// closed with them.
pub struct Pipe {
    ends: Option<(OwnedFd, OwnedFd)>,
    len: usize,
}

impl Pipe {
    /// An empty pipe. Fails when the process has no descriptors left.
    pub fn take_one() -> io::Result<Self> {
        let ends = match POOL.with_borrow_mut(Vec::pop) {
            Some(ends) => ends,
            None => sys::pipe(CAPACITY)?,
        };
        Ok(Pipe {
            ends: Some(ends),
            len: 0,
        })
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn put(&mut self, n: usize) {
        self.len += n;
    }

    pub(crate) fn take(&mut self, n: usize) {
        self.len -= n;
    }

    pub(crate) fn read_fd(&self) -> RawFd {
        self.ends.as_ref().map_or(-1, |(read, _)| read.as_raw_fd())
    }

    pub(crate) fn write_fd(&self) -> RawFd {
        self.ends
            .as_ref()
            .map_or(-1, |(_, write)| write.as_raw_fd())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if self.len > 0 {
            return;
        }
        if let Some(ends) = self.ends.take() {
            // The thread-local is gone only while the thread itself ends.
            let _ = POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                if pool.len() < KEEP {
                    pool.push(ends);
                }
            });
        }
    }
}
