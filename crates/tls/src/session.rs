//! A connection under TLS: ciphertext between the socket and the engine.
//!
//! Ciphertext passes through one scratch buffer a thread; an idle connection holds none. What a read
//! or a write leaves over waits in small buffers of the connection's own, freed when empty.

use crate::engine::{Conn, Outgoing};
use crate::error::is_gone;
use crate::names;
use crate::resolve;
use crate::stream::TlsInfo;
use reactor::Tcp;
use rustls::{HandshakeKind, ProtocolVersion};
use std::cell::RefCell;
use std::io;
use std::task::Poll;

/// Plaintext encrypted in one go: eight full records.
const BURST: usize = 128 * 1024;

/// A record's largest plaintext (RFC 8446 section 5.1).
const RECORD: usize = 16 * 1024;

/// Ciphertext that waits and is at most this long is sent together with what comes next.
const PREFIX: usize = 4 * 1024;

/// A burst encrypted (a record adds at most 29 bytes), with what waits before it and a KeyUpdate.
pub(crate) const SCRATCH: usize = BURST + BURST / RECORD * 64 + PREFIX + 1024;

thread_local! {
    static CIPHERTEXT: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH]);
}

/// A connection under TLS.
pub struct TlsStream {
    pub(crate) tcp: Tcp,
    pub(crate) conn: Conn,
    /// Ciphertext received that waits for its rest, or for room for its plaintext.
    pub(crate) inbox: Vec<u8>,
    /// Plaintext that a caller's buffer had no room for, from `plain_at` on.
    plain: Vec<u8>,
    plain_at: usize,
    /// Ciphertext to be sent, from `outbox_at` on.
    pub(crate) outbox: Vec<u8>,
    outbox_at: usize,
    /// How much plaintext the next write encrypts at most: less where the socket takes less.
    burst: usize,
    /// Whether there may be plaintext that no more ciphertext is needed for.
    pub(crate) more: bool,
    /// Whether the outbox holds but session tickets, which can wait for the first data.
    pub(crate) tickets_wait: bool,
    /// Whether the end of data was seen.
    closed: bool,
    sent_close: bool,
    lenient: bool,
    failed: Option<Failure>,
    /// The name that the client asked for.
    pub(crate) sni: Option<Box<str>>,
}

/// Why a stream can't go on, to be told again at each call.
#[derive(Clone, Debug)]
enum Failure {
    Tls(rustls::Error),
    Truncated,
    Socket(io::ErrorKind),
}

/// Why a handshake stopped.
pub(crate) enum Fault {
    Tls(rustls::Error),
    Gone,
    Io(io::Error),
}

/// Where a handshake stands.
#[derive(PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    Wait,
}

impl TlsStream {
    pub(crate) fn new(tcp: Tcp, conn: Conn, lenient: bool) -> Self {
        TlsStream {
            tcp,
            conn,
            inbox: Vec::new(),
            plain: Vec::new(),
            plain_at: 0,
            outbox: Vec::new(),
            outbox_at: 0,
            burst: BURST,
            more: true,
            tickets_wait: false,
            closed: false,
            sent_close: false,
            lenient,
            failed: None,
            sni: None,
        }
    }

    /// Takes the handshake as far as what the socket holds allows. `first` gathers the first bytes.
    pub(crate) fn step(&mut self, first: &mut Vec<u8>) -> Result<Step, Fault> {
        CIPHERTEXT.with_borrow_mut(|scratch| {
            let mut end = self.inbox.len();
            scratch[..end].copy_from_slice(&self.inbox);
            let mut at = 0;
            loop {
                if self.more {
                    let ciphertext = &mut scratch[at..end];
                    let progress = self.conn.pump(ciphertext, &mut [], None, &mut self.outbox);
                    at += progress.used;
                    self.more = progress.more;
                    // Before anything else runs on this thread.
                    self.sni = resolve::take_asked().or(self.sni.take());
                    if let Some(error) = progress.error {
                        return Err(Fault::Tls(error));
                    }
                    let handshaking = self.conn.common().is_handshaking();
                    if progress.closed && handshaking {
                        return Err(Fault::Gone);
                    }
                    self.closed = progress.closed;
                    if !handshaking || !self.outbox.is_empty() {
                        self.keep(&scratch[at..end]);
                        return Ok(if handshaking { Step::Wait } else { Step::Done });
                    }
                    scratch.copy_within(at..end, 0);
                    (at, end) = (0, end - at);
                }
                let room = (end + RECORD + 512).min(scratch.len());
                match self.tcp.try_read(&mut scratch[end..room]) {
                    Ok(None) => {
                        self.keep(&scratch[..end]);
                        return Ok(Step::Wait);
                    }
                    Ok(Some(0)) => return Err(Fault::Gone),
                    Ok(Some(n)) => {
                        if first.len() < 16 {
                            let take = n.min(16 - first.len());
                            first.extend_from_slice(&scratch[end..end + take]);
                        }
                        end += n;
                        self.more = true;
                    }
                    Err(error) if is_gone(&error) => return Err(Fault::Gone),
                    Err(error) => return Err(Fault::Io(error)),
                }
            }
        })
    }

    pub(crate) fn try_read(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        if self.plain_at < self.plain.len() {
            return Ok(Some(self.take_plain(buf)));
        }
        if buf.is_empty() {
            return Ok(Some(0));
        }
        if self.closed {
            return Ok(Some(0));
        }
        if let Some(failure) = &self.failed {
            return Err(failure.into());
        }
        if !self.more && !self.tcp.is_readable() {
            return Ok(None);
        }
        let n = self.fill(buf)?;
        if n.is_none() && self.plain_at < self.plain.len() {
            return Ok(Some(self.take_plain(buf)));
        }
        Ok(n)
    }

    /// Decrypts what waits and what the socket holds, into `out` first, until there is plaintext or
    /// nothing left to be had. Without room in `out` the plaintext is kept.
    fn fill(&mut self, out: &mut [u8]) -> io::Result<Option<usize>> {
        let result = CIPHERTEXT.with_borrow_mut(|scratch| self.fill_through(scratch, out));
        if !self.outbox.is_empty() && (!self.tickets_wait || self.failed.is_some()) {
            // Replies to the peer, or the alert that says what it did wrong. What was read counts
            // all the same if the socket refuses them: the next write says so.
            let _ = self.push();
        }
        result
    }

    fn fill_through(&mut self, scratch: &mut [u8], out: &mut [u8]) -> io::Result<Option<usize>> {
        let mut end = self.inbox.len();
        scratch[..end].copy_from_slice(&self.inbox);
        // As much ciphertext as makes the plaintext that there is room for, and a record at least.
        let want = (out.len() + out.len() / RECORD * 64 + 512).max(RECORD + 512);
        loop {
            if self.more {
                let progress = self.conn.pump(
                    &mut scratch[..end],
                    out,
                    Some(&mut self.plain),
                    &mut self.outbox,
                );
                scratch.copy_within(progress.used..end, 0);
                end -= progress.used;
                self.more = progress.more;
                self.closed |= progress.closed;
                if let Some(error) = progress.error {
                    self.failed = Some(Failure::Tls(error));
                }
                if progress.read > 0 || !self.plain.is_empty() {
                    self.keep(&scratch[..end]);
                    return Ok((progress.read > 0).then_some(progress.read));
                }
                if let Some(failure) = &self.failed {
                    return Err(failure.into());
                }
                if self.closed {
                    self.keep(&[]);
                    return Ok(Some(0));
                }
            }
            let until = (end + want).min(scratch.len());
            match self.tcp.try_read(&mut scratch[end..until]) {
                Ok(None) => {
                    self.keep(&scratch[..end]);
                    return Ok(None);
                }
                Ok(Some(0)) => {
                    if self.lenient && end == 0 {
                        self.closed = true;
                        return Ok(Some(0));
                    }
                    return Err(self.fail(Failure::Truncated));
                }
                Ok(Some(n)) => {
                    end += n;
                    self.more = true;
                }
                Err(error) => {
                    self.failed = Some(Failure::Socket(error.kind()));
                    return Err(error);
                }
            }
        }
    }

    pub(crate) fn try_write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &self.failed {
            // The peer reads on, for all that is known.
            None | Some(Failure::Truncated) => {}
            Some(failure) => return Err(failure.into()),
        }
        if self.sent_close {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if buf.is_empty() {
            return Ok(0);
        }
        self.settle()?;
        if self.outbox.len() - self.outbox_at > PREFIX && !self.push()? {
            return Ok(0);
        }
        let buf = &buf[..buf.len().min(self.burst)];
        CIPHERTEXT.with_borrow_mut(|scratch| {
            let waiting = &self.outbox[self.outbox_at..];
            let before = waiting.len();
            scratch[..before].copy_from_slice(waiting);
            let sealed = self
                .conn
                .seal(&mut self.inbox, Outgoing::Data(buf), &mut scratch[before..])
                .map_err(io::Error::other)?;
            let ready = &scratch[..before + sealed];
            let sent = self.tcp.try_write(ready)?;
            let rest = &ready[sent..];
            self.tickets_wait = false;
            self.outbox_at = 0;
            if rest.is_empty() {
                self.outbox = Vec::new();
                self.burst = (self.burst * 2).min(BURST);
            } else {
                self.outbox.clear();
                self.outbox.extend_from_slice(rest);
                self.burst = sent.next_multiple_of(RECORD).clamp(RECORD, BURST);
            }
            Ok(buf.len())
        })
    }

    /// Sends what is kept; whether all of it went.
    pub(crate) fn push(&mut self) -> io::Result<bool> {
        while self.outbox_at < self.outbox.len() {
            let n = self.tcp.try_write(&self.outbox[self.outbox_at..])?;
            if n == 0 {
                return Ok(false);
            }
            self.outbox_at += n;
        }
        self.outbox = Vec::new();
        self.outbox_at = 0;
        self.tickets_wait = false;
        Ok(true)
    }

    pub(crate) fn poll_readable(&mut self) -> Poll<io::Result<()>> {
        let at_hand = self.plain_at < self.plain.len() || self.more || self.closed;
        if at_hand || self.failed.is_some() {
            return Poll::Ready(Ok(()));
        }
        if !self.outbox.is_empty() && !self.tickets_wait {
            // Nobody may be waiting to write, and the peer may be waiting for this.
            loop {
                match self.push() {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
                if self.tcp.poll_writable()?.is_pending() {
                    break;
                }
            }
        }
        self.tcp.poll_readable()
    }

    /// Whether nothing is left over in either direction, once tickets have been taken in.
    pub(crate) fn is_settled(&mut self) -> bool {
        if self.tcp.is_hung_up() {
            return false;
        }
        if self.more || self.tcp.is_readable() {
            // The result shows in what is looked at below.
            let _ = self.fill(&mut []);
        }
        let clear = self.plain_at == self.plain.len() && self.inbox.is_empty() && !self.more;
        clear
            && !self.closed
            && self.failed.is_none()
            && !self.sent_close
            && (self.outbox.is_empty() || self.push().unwrap_or(false))
    }

    pub(crate) fn close_notify(&mut self) {
        if self.sent_close {
            return;
        }
        if self.failed.is_none() && self.settle().is_ok() {
            let mut alert = [0; 64];
            if let Ok(n) = self
                .conn
                .seal(&mut self.inbox, Outgoing::CloseNotify, &mut alert)
            {
                self.outbox.extend_from_slice(&alert[..n]);
            }
        }
        self.sent_close = true;
        // What the socket refuses now can't be helped.
        let _ = self.push();
    }

    /// Makes the connection ready to encrypt: it does so only once everything that it holds, or
    /// could make of the ciphertext at hand, has been taken from it.
    fn settle(&mut self) -> io::Result<()> {
        let idle = !self.more && self.inbox.is_empty() && !self.conn.common().wants_write();
        if idle {
            return Ok(());
        }
        let progress = self.conn.pump(
            &mut self.inbox,
            &mut [],
            Some(&mut self.plain),
            &mut self.outbox,
        );
        self.inbox.drain(..progress.used);
        if self.inbox.is_empty() {
            self.inbox = Vec::new();
        }
        self.more = false;
        self.closed |= progress.closed;
        match progress.error {
            None => Ok(()),
            Some(error) => {
                let error = self.fail(Failure::Tls(error));
                let _ = self.push();
                Err(error)
            }
        }
    }

    /// Bytes that the connection's own buffers hold room for.
    #[cfg(test)]
    pub(crate) fn buffered(&self) -> usize {
        self.inbox.capacity() + self.plain.capacity() + self.outbox.capacity()
    }

    fn take_plain(&mut self, buf: &mut [u8]) -> usize {
        let waiting = &self.plain[self.plain_at..];
        let n = waiting.len().min(buf.len());
        buf[..n].copy_from_slice(&waiting[..n]);
        self.plain_at += n;
        if self.plain_at == self.plain.len() {
            self.plain = Vec::new();
            self.plain_at = 0;
        }
        n
    }

    /// Keeps ciphertext for later, if there is any.
    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            self.inbox = Vec::new();
        } else {
            self.inbox.clear();
            self.inbox.extend_from_slice(rest);
        }
    }

    fn fail(&mut self, failure: Failure) -> io::Error {
        let error = (&failure).into();
        self.failed = Some(failure);
        error
    }

    pub(crate) fn info(&self) -> TlsInfo<'_> {
        let common = self.conn.common();
        TlsInfo {
            version: match common.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            suite: common
                .negotiated_cipher_suite()
                .map_or("unknown", names::suite_name),
            group: common
                .negotiated_key_exchange_group()
                .map(|group| names::group_name(group.name())),
            sni: self.sni.as_deref(),
            alpn: common.alpn_protocol(),
            resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
            peer_certificates: common.peer_certificates().unwrap_or_default(),
        }
    }
}

impl From<&Failure> for io::Error {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Tls(error) => io::Error::new(io::ErrorKind::InvalidData, error.clone()),
            Failure::Truncated => io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection ended without close_notify",
            ),
            Failure::Socket(kind) => (*kind).into(),
        }
    }
}
