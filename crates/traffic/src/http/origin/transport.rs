//! Bytes to and from a client, in the clear or over TLS.

use super::super::sys;
use super::answer::{Answer, Content};
use rustls::{ServerConfig, ServerConnection};
use socket2::Socket;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// A client's connection.
pub(super) struct Transport {
    socket: Socket,
    tls: Option<Box<ServerConnection>>,
}

impl Transport {
    pub(super) fn new(socket: Socket, tls: Option<&Arc<ServerConfig>>) -> Option<Self> {
        let tls = match tls {
            Some(config) => Some(Box::new(ServerConnection::new(Arc::clone(config)).ok()?)),
            None => None,
        };
        Some(Self { socket, tls })
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Receive once into `scratch`; 0 is the end. Over TLS the content is appended to `content` instead and what is counted
    /// is what came over the wire.
    pub(super) fn receive(
        &mut self,
        scratch: &mut [u8],
        content: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let n = sys::receive(&self.socket, scratch)?;
        let Some(tls) = &mut self.tls else {
            return Ok(n);
        };
        let mut wire = &scratch[..n];
        while !wire.is_empty() {
            tls.read_tls(&mut wire)?;
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            let at = content.len();
            content.resize(at + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut content[at..])?;
        }
        flush(&self.socket, tls)?;
        Ok(n)
    }

    /// Send once from `answer`, what stands from `at` to `end`; says how much of it has left.
    pub(super) fn send(
        &mut self,
        answer: &Answer,
        at: u64,
        end: u64,
        scratch: &mut [u8],
    ) -> io::Result<u64> {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX);
        let Some(tls) = &mut self.tls else {
            let sent = match &answer.content {
                Content::Memory(bytes) => {
                    let at = usize::try_from(at).unwrap_or(bytes.len());
                    sys::send(&self.socket, &bytes[at..at + most])
                }
                Content::File(file) => sys::send_file(&self.socket, file, at, most),
            };
            return sent.map(|n| n as u64);
        };
        flush(&self.socket, tls)?;
        let n = answer.read(at, end, scratch)?;
        let taken = tls.writer().write(&scratch[..n])?;
        match flush(&self.socket, tls) {
            // It is encrypted already and goes out with the next call.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => result?,
        }
        Ok(taken as u64)
    }

    /// Send what TLS still holds.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => flush(&self.socket, tls),
            None => Ok(()),
        }
    }
}

fn flush(socket: &Socket, tls: &mut ServerConnection) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut Out(socket))?;
    }
    Ok(())
}

struct Out<'a>(&'a Socket);

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sys::send(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
