//! HTTP/1.1 traffic: the [`origin`] that answers and the [`load`] that asks, over TCP or TLS.
//! Both are single-threaded epoll loops; a program runs one of them in a thread or process of its own, pinned as it likes.

mod error;
mod histogram;
pub mod load;
pub mod origin;
mod stop;
mod sys;
pub mod target;
pub mod watch;

pub use error::Error;
pub use histogram::Histogram;
pub use stop::Stop;
