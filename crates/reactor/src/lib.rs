//! A worker's event loop: edge-triggered readiness, local tasks, timers, buffers, splice.
//!
//! One reactor a thread, made on first use. Tasks never leave their thread, so nothing here is
//! atomic but the few bytes that another thread touches to wake one. What is read and written,
//! and what it means, is for others: no protocol lives here.

mod buf;
mod core;
mod join;
mod mailbox;
mod pipe;
mod slab;
mod source;
#[expect(unsafe_code, reason = "the one place that talks to the kernel")]
mod sys;
mod task;
mod tcp;
mod timer;
#[expect(unsafe_code, reason = "a RawWaker is unsafe to build")]
mod waker;

pub use buf::{Buf, HEADROOM};
pub use core::{block_on, millis, now, spawn, tasks, wake_all, yield_now};
pub use join::{Either, join, race};
pub use mailbox::{Mailbox, MailboxReceiver, mailbox};
pub use pipe::Pipe;
pub use tcp::{ConnectOptions, Control, Figures, Listener, Tcp};
pub use timer::{Deadline, Elapsed, sleep, timeout};
