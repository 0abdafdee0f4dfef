//! The one byte stream that is read and written, with TLS over it or without.

use crate::session::TlsStream;
use reactor::Tcp;
use rustls_pki_types::CertificateDer;
use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::task::Poll;

/// A connection, in the clear or not. Its methods never block; `Ok(None)` means «not now», after
/// which [`readable`](Stream::readable) or [`writable`](Stream::writable) waits until it may be.
pub enum Stream {
    /// In the clear.
    Plain(Tcp),
    /// Under TLS.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Reads what is there. `Some(0)` is the end of data: the peer's FIN, or its close_notify.
    ///
    /// # Errors
    /// The socket's; `UnexpectedEof` for a FIN without close_notify (unless the context is lenient);
    /// `InvalidData` for what is no good TLS, with the alert already sent.
    pub fn try_read(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Stream::Plain(tcp) => tcp.try_read(buf),
            Stream::Tls(tls) => tls.try_read(buf),
        }
    }

    /// Takes bytes to send, and returns how many. Under TLS, what the socket does not take of them is
    /// kept and goes first next time; as long as that blocks, nothing is taken.
    pub fn try_write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.try_write(buf),
            Stream::Tls(tls) => tls.try_write(buf),
        }
    }

    /// Sends what is kept; whether all of it went.
    pub fn try_flush(&mut self) -> io::Result<bool> {
        match self {
            Stream::Plain(_) => Ok(true),
            Stream::Tls(tls) => tls.push(),
        }
    }

    /// Ready when a read may find something; else has the current task woken then. What is kept is
    /// sent in the meantime.
    pub fn poll_readable(&mut self) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(tcp) => tcp.poll_readable(),
            Stream::Tls(tls) => tls.poll_readable(),
        }
    }

    /// Ready when a write may take something; else has the current task woken then.
    pub fn poll_writable(&mut self) -> Poll<io::Result<()>> {
        self.tcp().poll_writable()
    }

    /// Waits until a read may find something.
    pub async fn readable(&mut self) -> io::Result<()> {
        poll_fn(|_| self.poll_readable()).await
    }

    /// Waits until a write may take something.
    pub async fn writable(&mut self) -> io::Result<()> {
        poll_fn(|_| self.poll_writable()).await
    }

    /// Reads at least a byte, or the end of data (0).
    pub async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(n) = self.try_read(buf)? {
                return Ok(n);
            }
            self.readable().await?;
        }
    }

    /// Writes all of `buf`, down to the socket.
    pub async fn write_all(&mut self, mut buf: &[u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let n = self.try_write(buf)?;
            buf = &buf[n..];
            if n == 0 {
                self.writable().await?;
            }
        }
        self.flush().await
    }

    /// Waits until nothing is kept.
    pub async fn flush(&mut self) -> io::Result<()> {
        while !self.try_flush()? {
            self.writable().await?;
        }
        Ok(())
    }

    /// Ends this direction in order: what is kept, close_notify, FIN.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.close_notify();
        self.flush().await?;
        self.tcp().shutdown(Shutdown::Write)
    }

    /// Whether nothing has come in that a next user of the connection could take for an answer, and
    /// nothing is left to be sent: what an idle connection must be to be used again. Session
    /// tickets are taken in. Costs no call if nothing came.
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Stream::Plain(tcp) => tcp.is_quiet(),
            Stream::Tls(tls) => tls.is_settled() && tls.tcp.is_quiet(),
        }
    }

    /// Asks the kernel itself what [`is_quiet`](Stream::is_quiet) tells from memory.
    pub fn probe_quiet(&mut self) -> bool {
        match self {
            Stream::Plain(tcp) => tcp.probe_quiet(),
            Stream::Tls(tls) => tls.is_settled() && tls.tcp.probe_quiet(),
        }
    }

    /// Tells the peer that no more comes (RFC 8446 section 6.1), as far as the socket takes it.
    /// Without TLS it does nothing.
    pub fn close_notify(&mut self) {
        if let Stream::Tls(tls) = self {
            tls.close_notify();
        }
    }

    /// The socket of a connection in the clear, for splicing.
    pub fn plain(&self) -> Option<&Tcp> {
        match self {
            Stream::Plain(tcp) => Some(tcp),
            Stream::Tls(_) => None,
        }
    }

    /// The socket, whatever goes over it.
    pub fn tcp(&self) -> &Tcp {
        match self {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => &tls.tcp,
        }
    }

    /// What was agreed on, under TLS.
    pub fn info(&self) -> Option<TlsInfo<'_>> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(tls) => Some(tls.info()),
        }
    }
}

/// What a handshake agreed on.
#[derive(Clone, Debug)]
pub struct TlsInfo<'a> {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite's IANA name.
    pub suite: &'static str,
    /// The key exchange group, where there was a key exchange.
    pub group: Option<&'static str>,
    /// The server's name as the client gave it; known to servers.
    pub sni: Option<&'a str>,
    /// The protocol agreed on.
    pub alpn: Option<&'a [u8]>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The peer's chain, its own certificate first; empty without one.
    pub peer_certificates: &'a [CertificateDer<'static>],
}
