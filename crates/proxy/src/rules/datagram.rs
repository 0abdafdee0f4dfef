//! A UDP socket on the reactor, connected to one peer.

use reactor::Tcp;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The largest datagram that is taken.
const MOST: usize = 64 * 1024;

/// A connected socket.
pub(super) struct Datagram {
    socket: UdpSocket,
    /// The same socket, by whose readiness is waited.
    ready: Tcp,
}

impl Datagram {
    pub(super) fn connect(to: SocketAddr) -> io::Result<Self> {
        let from: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(from)?;
        socket.set_nonblocking(true)?;
        socket.connect(to)?;
        let ready = Tcp::from_fd(socket.try_clone()?.into())?;
        Ok(Datagram { socket, ready })
    }

    /// Sends, or drops what finds no room.
    pub(super) fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.socket.send(data)
    }

    /// The next datagram.
    pub(super) async fn receive(&self) -> io::Result<Vec<u8>> {
        loop {
            let mut bytes = vec![0; MOST];
            match self.socket.recv(&mut bytes) {
                Ok(n) => {
                    bytes.truncate(n);
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            // Finds out that there is nothing, unless something has come since.
            if self.ready.try_peek(&mut [0])?.is_none() {
                self.ready.readable().await?;
            }
        }
    }
}
