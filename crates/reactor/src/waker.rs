//! Wakers without allocation or atomics: the task's key and its thread's number in one word.
//!
//! Woken on its own thread a task goes straight to the run queue; from another, through that
//! thread's remote queue and its eventfd.

use crate::core::CORE;
use crate::slab::Key;
use crate::sys;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{RawWaker, RawWakerVTable, Waker};

const KEY_BITS: u32 = 48;

thread_local! {
    /// The number of this thread's reactor. To ask it makes none, as to ask the reactor would.
    static HERE: Cell<Option<u16>> = const { Cell::new(None) };
}

/// Builds the waker of task `key` on the thread numbered `thread`.
pub(crate) fn waker(thread: u16, key: Key) -> Waker {
    let word = (u64::from(thread) << KEY_BITS) | key.bits();
    let raw = RawWaker::new(
        std::ptr::without_provenance(word as usize),
        &RawWakerVTable::new(clone, wake, wake, forget),
    );
    // SAFETY: the data is a plain number, never dereferenced, so clone and drop have nothing to
    // keep alive, and `wake` may be called from any thread at any time.
    unsafe { Waker::from_raw(raw) }
}

fn clone(data: *const ()) -> RawWaker {
    RawWaker::new(data, &RawWakerVTable::new(clone, wake, wake, forget))
}

fn forget(_: *const ()) {}

fn wake(data: *const ()) {
    let word = data.addr() as u64;
    let thread = (word >> KEY_BITS) as u16;
    let key = Key::from_bits(word);
    if HERE.get() == Some(thread) {
        // The thread-local is gone while a thread ends; its tasks are gone with it.
        let _ = CORE.try_with(|core| core.schedule(key));
    } else {
        let remotes = REMOTES.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(remote)) = remotes.get(usize::from(thread)) {
            remote.push(key);
        }
    }
}

/// What other threads may touch of a reactor: a list of tasks to wake and the eventfd that ends
/// its wait.
pub(crate) struct Remote {
    woken: Mutex<Vec<Key>>,
    signalled: AtomicBool,
    pub(crate) eventfd: OwnedFd,
}

/// By thread number. A number is given only once, so that a waker which outlives its thread wakes nobody.
static REMOTES: RwLock<Vec<Option<Arc<Remote>>>> = RwLock::new(Vec::new());

impl Remote {
    /// A new reactor's number and its remote side.
    pub(crate) fn register() -> (u16, Arc<Remote>) {
        let remote = Arc::new(Remote {
            woken: Mutex::new(Vec::new()),
            signalled: AtomicBool::new(false),
            eventfd: sys::eventfd().expect("a thread that runs a reactor can make an eventfd"),
        });
        let mut remotes = REMOTES.write().unwrap_or_else(PoisonError::into_inner);
        let thread = u16::try_from(remotes.len()).expect("fewer than 65,536 reactor threads");
        remotes.push(Some(Arc::clone(&remote)));
        HERE.set(Some(thread));
        (thread, remote)
    }

    /// Takes back what was registered, when its thread ends.
    pub(crate) fn unregister(thread: u16) {
        let mut remotes = REMOTES.write().unwrap_or_else(PoisonError::into_inner);
        remotes[usize::from(thread)] = None;
    }

    fn push(&self, key: Key) {
        self.woken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(key);
        if !self.signalled.swap(true, Ordering::AcqRel) {
            sys::eventfd_signal(&self.eventfd);
        }
    }

    /// Moves out what was woken since the last call.
    pub(crate) fn drain(&self, into: &mut Vec<Key>) {
        sys::eventfd_clear(&self.eventfd);
        self.signalled.store(false, Ordering::Release);
        into.append(&mut self.woken.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
