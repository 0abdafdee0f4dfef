//! A descriptor in the reactor's epoll set, with what is known of its readiness.
//!
//! Registered once, for both directions and edge-triggered: the flags here say what the kernel
//! last told, and are cleared by whoever finds that it is no longer so.

use crate::core::CORE;
use crate::slab::Key;
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::Poll;

const READ: u8 = 1;
const WRITE: u8 = 2;
/// The peer has sent its FIN, or the connection is broken: what is left is read to the end.
const HUP: u8 = 4;
/// The connection is broken, or ended in both directions.
const BROKEN: u8 = 8;

pub(crate) struct Source {
    fd: OwnedFd,
    key: Cell<Key>,
    ready: Cell<u8>,
    reader: Cell<Key>,
    writer: Cell<Key>,
    delays: Cell<bool>,
}

impl Source {
    /// Takes a non-blocking descriptor. It joins the epoll set when something first waits for it,
    /// so that a connection served without a wait costs no registration. Until the kernel says
    /// otherwise both directions count as ready.
    pub(crate) fn new(fd: OwnedFd) -> Rc<Self> {
        Rc::new(Source {
            fd,
            key: Cell::new(Key::NONE),
            ready: Cell::new(READ | WRITE),
            reader: Cell::new(Key::NONE),
            writer: Cell::new(Key::NONE),
            delays: Cell::new(false),
        })
    }

    /// As [`new`](Source::new), for a connection that is being made: nothing can have come yet.
    pub(crate) fn connecting(fd: OwnedFd) -> Rc<Self> {
        let source = Source::new(fd);
        source.empty();
        source
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Whether small segments are to wait for others: not, unless it was set.
    pub(crate) fn delays(&self) -> bool {
        self.delays.get()
    }

    pub(crate) fn set_delays(&self, delays: bool) {
        self.delays.set(delays);
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.ready.get() & READ != 0
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.ready.get() & WRITE != 0
    }

    pub(crate) fn is_hung_up(&self) -> bool {
        self.ready.get() & HUP != 0
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.ready.get() & BROKEN != 0
    }

    /// Ready when the connection is broken; else the current task is woken by whatever comes in.
    /// A connection that is not registered is not registered for this.
    pub(crate) fn poll_broken(&self) -> Poll<()> {
        if self.is_broken() {
            return Poll::Ready(());
        }
        self.reader.set(CORE.with(|core| core.current.get()));
        Poll::Pending
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.key.get() != Key::NONE
    }

    /// A read would block. After the peer's FIN it is kept readable: the end is still to be read.
    pub(crate) fn drained(&self) {
        if !self.is_hung_up() {
            self.ready.set(self.ready.get() & !READ);
        }
    }

    /// A read did block.
    pub(crate) fn empty(&self) {
        self.ready.set(self.ready.get() & !READ);
    }

    pub(crate) fn full(&self) {
        self.ready.set(self.ready.get() & !WRITE);
    }

    pub(crate) fn poll_readable(self: &Rc<Self>) -> Poll<io::Result<()>> {
        if self.is_readable() {
            return Poll::Ready(Ok(()));
        }
        self.reader.set(CORE.with(|core| core.current.get()));
        self.register_once()
    }

    pub(crate) fn poll_writable(self: &Rc<Self>) -> Poll<io::Result<()>> {
        if self.is_writable() {
            return Poll::Ready(Ok(()));
        }
        self.writer.set(CORE.with(|core| core.current.get()));
        self.register_once()
    }

    /// Registers without waiting: from here on readiness and hang-ups are known as they happen.
    pub(crate) fn watch(self: &Rc<Self>) -> io::Result<()> {
        if self.is_registered() {
            return Ok(());
        }
        CORE.with(|core| {
            let key = core.sources.borrow_mut().insert_with(|_| Rc::clone(self));
            core.epoll
                .add_edge(self.fd(), key.bits())
                .inspect_err(|_| {
                    core.sources.borrow_mut().remove(key);
                })?;
            self.key.set(key);
            Ok(())
        })
    }

    fn register_once(self: &Rc<Self>) -> Poll<io::Result<()>> {
        match self.watch() {
            // Adding reports what is ready already, so nothing that came before is missed.
            Ok(()) => Poll::Pending,
            Err(e) => Poll::Ready(Err(e)),
        }
    }

    /// Notes what the kernel told; returns the tasks to wake, of the reading and the writing side.
    pub(crate) fn on_event(&self, events: u32) -> (Key, Key) {
        const GONE: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;
        let mut ready = self.ready.get();
        let (mut reader, mut writer) = (Key::NONE, Key::NONE);
        if events & (libc::EPOLLIN as u32 | libc::EPOLLRDHUP as u32 | GONE) != 0 {
            ready |= READ;
            reader = self.reader.replace(Key::NONE);
        }
        if events & (libc::EPOLLOUT as u32 | GONE) != 0 {
            ready |= WRITE;
            writer = self.writer.replace(Key::NONE);
        }
        if events & (libc::EPOLLRDHUP as u32 | GONE) != 0 {
            ready |= HUP;
        }
        if events & GONE != 0 {
            ready |= BROKEN;
        }
        self.ready.set(ready);
        (reader, writer)
    }

    /// Leaves the reactor while a duplicate of the descriptor stays open elsewhere, which would
    /// keep it in the epoll set.
    pub(crate) fn withdraw(&self) {
        if self.is_registered() {
            // The thread-local is gone only while the thread itself ends.
            let _ = CORE.try_with(|core| core.epoll.remove(self.fd()));
        }
        self.release();
    }

    /// Leaves the reactor; the descriptor closes with the last owner.
    pub(crate) fn release(&self) {
        let key = self.key.replace(Key::NONE);
        if key != Key::NONE {
            // The thread-local is gone only while the thread itself ends.
            let removed = CORE.try_with(|core| core.sources.borrow_mut().remove(key));
            drop(removed);
        }
    }
}
