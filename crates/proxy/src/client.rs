//! A client's connection, ready to be served: its stream, who it is, and which virtual it came to.

use crate::rules::Ruled;
use crate::snapshot::Virtual;
use reactor::{Deadline, Tcp};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tls::Stream;

/// A byte stream of which one part of a task reads while another writes. Borrowed only within a
/// poll, never across a wait.
pub(crate) struct Channel(RefCell<Stream>);

impl Channel {
    pub(crate) fn new(stream: Stream) -> Self {
        Channel(RefCell::new(stream))
    }

    /// See [`Stream::try_read`].
    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.0.borrow_mut().try_read(buf)
    }

    /// See [`Stream::try_write`].
    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().try_write(buf)
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        poll_fn(|_| self.0.borrow_mut().poll_readable()).await
    }

    pub(crate) fn poll_readable(&self) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_readable()
    }

    /// Ready when the connection is broken, as far as it is known; else as [`poll_readable`](Channel::poll_readable)
    /// the current task is woken by whatever comes in.
    pub(crate) fn poll_broken(&self) -> Poll<()> {
        self.0.borrow().tcp().poll_broken()
    }

    /// Whether the other side is known to have gone. The current task is woken when it becomes known.
    pub(crate) fn is_gone(&self) -> bool {
        self.with(|stream| {
            // Where it can't be known, it isn't.
            let _ = stream.tcp().watch();
            stream.tcp().poll_broken().is_ready()
        })
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        poll_fn(|_| self.0.borrow_mut().poll_writable()).await
    }

    /// Writes all of `buf`, as fast as the other side takes it.
    pub(crate) async fn write_all(&self, mut buf: &[u8]) -> io::Result<()> {
        loop {
            let n = self.try_write(buf)?;
            buf = &buf[n..];
            if buf.is_empty() {
                return Ok(());
            }
            self.writable().await?;
        }
    }

    /// Waits until nothing written is held back on this side of the socket.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        loop {
            if self.0.borrow_mut().try_flush()? {
                return Ok(());
            }
            self.writable().await?;
        }
    }

    /// Asks something of the stream itself.
    pub(crate) fn with<R>(&self, ask: impl FnOnce(&mut Stream) -> R) -> R {
        ask(&mut self.0.borrow_mut())
    }

    /// Asks something of the socket, if the stream is nothing but a socket.
    pub(crate) fn with_plain<R>(&self, ask: impl FnOnce(&Tcp) -> R) -> Option<R> {
        self.0.borrow().plain().map(ask)
    }

    /// Whether bytes can be spliced in and out.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.borrow().plain().is_some()
    }

    /// Ends the direction towards the other side, in order.
    pub(crate) fn end(&self) {
        self.with(|stream| {
            stream.close_notify();
            // A connection that is broken already needs no end.
            let _ = stream.tcp().shutdown(Shutdown::Write);
        });
    }
}

/// A client's connection.
pub(crate) struct Client {
    pub(crate) channel: Channel,
    /// Who it is: as a PROXY header said it, or else the socket.
    pub(crate) peer: SocketAddr,
    /// Where it connected to: likewise.
    pub(crate) local: SocketAddr,
    /// The virtual, in the snapshot of the time; HTTP looks again with every exchange.
    pub(crate) service: Arc<Virtual>,
    /// Its virtual's rules, as they were when it came.
    pub(crate) rules: Option<Rc<Ruled>>,
    /// One deadline for the connection's whole life, set phase by phase.
    pub(crate) deadline: Deadline,
    /// Bytes read and not yet understood.
    pub(crate) pending: Vec<u8>,
    /// Counts the connection for as long as it lives.
    pub(crate) _counted: crate::accept::Counted,
}
