//! Large buffers lent for as long as bytes are in hand, so that an idle connection has none.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Bytes kept free before the data, so that a head can be written in front of a body that was
/// read behind it, and both leave in one send.
pub const HEADROOM: usize = 16 * 1024;

/// Bytes of data a buffer holds after the headroom.
const CAPACITY: usize = 128 * 1024;

/// Free buffers kept by a thread: the last one used is the next one lent, still warm.
const KEEP: usize = 64;

thread_local! {
    static POOL: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of [`HEADROOM`] + 128 KiB, lent by this thread's pool. Its contents are whatever the
/// last user left.
pub struct Buf(Option<Box<[u8]>>);

impl Buf {
    /// Bytes of data it holds after the headroom.
    pub const CAPACITY: usize = CAPACITY;

    /// Lends one.
    pub fn take() -> Self {
        let buf = POOL
            .with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| vec![0; HEADROOM + CAPACITY].into_boxed_slice());
        Buf(Some(buf))
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(buf) = self.0.take() {
            // The thread-local is gone only while the thread itself ends.
            let _ = POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                if pool.len() < KEEP {
                    pool.push(buf);
                }
            });
        }
    }
}
