//! TCP sockets on the reactor: readiness is known before the call, so that no call is made to
//! learn that there is nothing to do.

use crate::pipe::Pipe;
use crate::source::Source;
use crate::sys;
use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;

/// A connected socket. Its methods never block; `Ok(None)` means «not now», after which
/// [`readable`](Tcp::readable) or [`writable`](Tcp::writable) waits until it may be.
pub struct Tcp {
    source: Rc<Source>,
}

/// How to open a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectOptions {
    /// The local address to connect from.
    pub from: Option<SocketAddr>,
}

impl Tcp {
    /// Takes over a connected stream socket, of any family.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        sys::set_nonblocking(&fd)?;
        Ok(Tcp {
            source: Source::new(fd),
        })
    }

    /// Takes over a socket that is non-blocking already, as those of [`Listener`] are: costs no call.
    pub fn from_accepted(fd: OwnedFd) -> Self {
        Tcp {
            source: Source::new(fd),
        }
    }

    /// Begins a connection and returns at once. The first write sends when the handshake is
    /// done, and reports what became of it.
    pub fn start_connect(to: SocketAddr, options: &ConnectOptions) -> io::Result<Self> {
        let fd = sys::connect(to, options.from)?;
        Ok(Tcp {
            source: Source::connecting(fd),
        })
    }

    /// Opens a connection and waits until it stands.
    pub async fn connect(to: SocketAddr, options: &ConnectOptions) -> io::Result<Self> {
        let tcp = Tcp::start_connect(to, options)?;
        tcp.connected().await?;
        Ok(tcp)
    }

    /// Lets the peer send so many bytes ahead of the reading, where the system's default for new connections is less and
    /// its limit is not. The kernel goes on to raise it for a connection that needs more.
    pub fn widen(&self, bytes: u32) {
        sys::widen(self.source.fd(), bytes);
    }

    /// Waits until a connection that was begun stands.
    pub async fn connected(&self) -> io::Result<()> {
        if sys::is_connected(self.source.fd())? {
            return Ok(());
        }
        self.source.full();
        self.writable().await?;
        match sys::take_error(self.source.fd())? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Reads what is there. `Some(0)` is the peer's end of data.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.source.is_readable() {
            return Ok(None);
        }
        match sys::recv(self.source.fd(), buf, 0) {
            Ok(n) => {
                if n < buf.len() {
                    self.source.drained();
                }
                Ok(Some(n))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.source.empty();
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Sends what fits. Fewer than all means that [`writable`](Tcp::writable) is next.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.send(buf, 0)
    }

    /// As [`try_write`](Tcp::try_write), and more follows at once: a segment that is not full waits for it.
    pub fn try_write_more(&self, buf: &[u8]) -> io::Result<usize> {
        self.send(buf, libc::MSG_MORE)
    }

    /// Sends now what [`try_write_more`](Tcp::try_write_more) or a splice with more to follow holds back.
    pub fn push(&self) {
        // Said again, it sends. A connection that is gone has nothing to send.
        let _ = sys::set_nodelay(self.source.fd(), true);
        if self.source.delays() {
            let _ = sys::set_nodelay(self.source.fd(), false);
        }
    }

    fn send(&self, buf: &[u8], flags: i32) -> io::Result<usize> {
        if buf.is_empty() || !self.source.is_writable() {
            return Ok(0);
        }
        match sys::send(self.source.fd(), buf, flags) {
            Ok(n) => {
                if n < buf.len() {
                    self.source.full();
                }
                Ok(n)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.source.full();
                Ok(0)
            }
            Err(e) => Err(e),
        }
    }

    /// Reads at least a byte, or the end of data (0).
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(n) = self.try_read(buf)? {
                return Ok(n);
            }
            self.readable().await?;
        }
    }

    /// Writes all of `buf`.
    pub async fn write_all(&self, mut buf: &[u8]) -> io::Result<()> {
        loop {
            let n = self.try_write(buf)?;
            buf = &buf[n..];
            if buf.is_empty() {
                return Ok(());
            }
            self.writable().await?;
        }
    }

    /// Waits until a read may find something. One task at a time.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|_| self.source.poll_readable()).await
    }

    /// Waits until a write may take something. One task at a time.
    pub async fn writable(&self) -> io::Result<()> {
        poll_fn(|_| self.source.poll_writable()).await
    }

    /// As [`readable`](Tcp::readable), for hand-written futures.
    pub fn poll_readable(&self) -> Poll<io::Result<()>> {
        self.source.poll_readable()
    }

    /// As [`writable`](Tcp::writable), for hand-written futures.
    pub fn poll_writable(&self) -> Poll<io::Result<()>> {
        self.source.poll_writable()
    }

    /// Whether a read is worth trying.
    pub fn is_readable(&self) -> bool {
        self.source.is_readable()
    }

    /// Whether the peer's FIN or a break was seen (by a registered socket).
    pub fn is_hung_up(&self) -> bool {
        self.source.is_hung_up()
    }

    /// Whether the connection is broken, or ended by both sides.
    pub fn is_broken(&self) -> bool {
        self.source.is_broken()
    }

    /// Ready when the connection is broken, as far as a registered one is known to be. Else the
    /// current task is woken by whatever comes in: for a wait on something else that is to end
    /// when this peer goes.
    pub fn poll_broken(&self) -> Poll<()> {
        self.source.poll_broken()
    }

    /// Whether nothing has come in since the last read: no data, no FIN, no error. What an idle
    /// connection must be to be used again. Costs no call; a FIN that is on its way is not seen.
    pub fn is_quiet(&self) -> bool {
        self.source.is_registered() && !self.source.is_readable() && !self.source.is_hung_up()
    }

    /// As [`is_quiet`](Tcp::is_quiet), but where a read stopped at what it asked for, so that
    /// nothing is known of what lies behind, the kernel is asked.
    pub fn probe_quiet(&self) -> bool {
        if self.source.is_hung_up() {
            return false;
        }
        let mut byte = [0];
        match sys::recv(self.source.fd(), &mut byte, libc::MSG_PEEK) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.source.empty();
                self.source.watch().is_ok()
            }
            _ => false,
        }
    }

    /// Has the kernel tell of readiness and hang-ups from now on, without waiting for either.
    pub fn watch(&self) -> io::Result<()> {
        self.source.watch()
    }

    /// Looks at what is there and leaves it there.
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match sys::recv(self.source.fd(), buf, libc::MSG_PEEK) {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.source.empty();
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Moves up to `limit` bytes into `pipe`, which must be empty, without copying them.
    /// `Some(0)` is the end of data.
    pub fn try_splice_in(&self, pipe: &mut Pipe, limit: usize) -> io::Result<Option<usize>> {
        debug_assert!(
            pipe.is_empty(),
            "a full pipe and an empty socket look alike"
        );
        if !self.source.is_readable() {
            return Ok(None);
        }
        match sys::splice(self.source.fd(), pipe.write_fd(), limit, 0) {
            Ok(n) => {
                pipe.put(n);
                Ok(Some(n))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.source.empty();
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Moves what `pipe` holds into the socket; `more` says that more follows at once.
    /// Returns how many bytes went; fewer than all means that the socket is full.
    pub fn try_splice_out(&self, pipe: &mut Pipe, more: bool) -> io::Result<usize> {
        if !self.source.is_writable() || pipe.is_empty() {
            return Ok(0);
        }
        let flags = if more { libc::SPLICE_F_MORE } else { 0 };
        match sys::splice(pipe.read_fd(), self.source.fd(), pipe.len(), flags) {
            Ok(n) => {
                pipe.take(n);
                if !pipe.is_empty() {
                    self.source.full();
                }
                Ok(n)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.source.full();
                Ok(0)
            }
            Err(e) => Err(e),
        }
    }

    /// Ends one direction or both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        sys::shutdown(self.source.fd(), how)
    }

    /// Makes the close that follows a reset instead of an orderly end.
    pub fn reset_on_close(&self) -> io::Result<()> {
        sys::set_linger_zero(self.source.fd())
    }

    /// Makes the close that follows say nothing at all: the peer finds out when it speaks next.
    ///
    /// # Errors
    ///
    /// The kernel's, where the process lacks the right to (CAP_NET_ADMIN).
    pub fn vanish_on_close(&self) -> io::Result<()> {
        sys::set_repair(self.source.fd())
    }

    /// A hand on the connection's settings and figures that does not keep it open.
    pub fn control(&self) -> Control {
        Control(Rc::downgrade(&self.source))
    }

    /// The far end's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        sys::peer_addr(self.source.fd())
    }

    /// This end's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::local_addr(self.source.fd())
    }

    /// Takes the descriptor out of the reactor, so that another thread can have it.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        let fd = sys::duplicate(self.source.fd())?;
        self.source.withdraw();
        Ok(fd)
    }
}

impl AsRawFd for Tcp {
    fn as_raw_fd(&self) -> RawFd {
        self.source.fd()
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.source.release();
    }
}

/// A connection's settings and figures, for those who do not own it. Of one that is closed nothing is known.
#[derive(Clone, Default)]
pub struct Control(Weak<Source>);

/// What the kernel counts of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The smoothed time of a round trip.
    pub round_trip: Duration,
    /// Bytes that came in.
    pub received: u64,
    /// Bytes that went out, those that were sent again among them.
    pub sent: u64,
}

impl Control {
    /// Has small segments wait for the acknowledgement of those before them (Nagle's algorithm), or, as is the rule
    /// here, not.
    pub fn delay(&self, delays: bool) {
        if let Some(source) = self.0.upgrade() {
            source.set_delays(delays);
            // A connection that is gone sends nothing in either way.
            let _ = sys::set_nodelay(source.fd(), !delays);
        }
    }

    /// Takes back [`delay`](Control::delay), where that was set.
    pub fn hurry(&self) {
        if self.0.upgrade().is_some_and(|source| source.delays()) {
            self.delay(false);
        }
    }

    /// What the kernel counts of it.
    pub fn figures(&self) -> Option<Figures> {
        let source = self.0.upgrade()?;
        let (micros, received, sent) = sys::tcp_figures(source.fd()).ok()?;
        Some(Figures {
            round_trip: Duration::from_micros(micros.into()),
            received,
            sent,
        })
    }
}

/// A listening socket.
pub struct Listener {
    source: Rc<Source>,
}

impl Listener {
    /// Takes over a listening socket. The reactor uses a duplicate of its descriptor: closing it
    /// does not close the socket while the original is open.
    pub fn new(listener: &TcpListener) -> io::Result<Self> {
        let fd = sys::duplicate(listener.as_raw_fd())?;
        sys::set_nonblocking(&fd)?;
        // What is accepted inherits it, which saves a call a connection.
        sys::set_nodelay(fd.as_raw_fd(), true)?;
        Ok(Listener {
            source: Source::new(fd),
        })
    }

    /// The next connection that waits, if one does.
    pub fn try_accept(&self) -> io::Result<Option<(OwnedFd, SocketAddr)>> {
        if !self.source.is_readable() {
            return Ok(None);
        }
        loop {
            match sys::accept(self.source.fd()) {
                Ok(accepted) => return Ok(Some(accepted)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.source.empty();
                    return Ok(None);
                }
                // The client went away between its SYN and here: its own affair.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Waits until a connection may be there.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|_| self.source.poll_readable()).await
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<(OwnedFd, SocketAddr)> {
        loop {
            if let Some(accepted) = self.try_accept()? {
                return Ok(accepted);
            }
            self.readable().await?;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.source.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn accepted_connections_send_without_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let accepted = crate::block_on(async {
            let listener = Listener::new(&listener).unwrap();
            let _client = Tcp::connect(to, &ConnectOptions::default()).await.unwrap();
            listener.accept().await.unwrap().0
        });
        let stream = std::net::TcpStream::from(accepted.as_fd().try_clone_to_owned().unwrap());
        assert!(stream.nodelay().unwrap());
    }

    #[test]
    fn figures_are_told_while_the_connection_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        crate::block_on(async {
            let listener = Listener::new(&listener).unwrap();
            let client = Tcp::connect(to, &ConnectOptions::default()).await.unwrap();
            let server = Tcp::from_fd(listener.accept().await.unwrap().0).unwrap();
            client.write_all(&[0; 1234]).await.unwrap();
            server.read(&mut [0; 2000]).await.unwrap();
            let (sends, receives) = (client.control(), server.control());
            assert_eq!(sends.figures().unwrap().sent, 1234);
            assert_eq!(receives.figures().unwrap().received, 1234);
            assert!(sends.figures().unwrap().round_trip > Duration::ZERO);
            drop(client);
            assert_eq!(sends.figures(), None);
        });
    }

    #[test]
    fn pushing_leaves_a_connection_that_delays_as_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        crate::block_on(async {
            let client = Tcp::connect(to, &ConnectOptions::default()).await.unwrap();
            let copy = std::net::TcpStream::from(sys::duplicate(client.as_raw_fd()).unwrap());
            let control = client.control();
            assert!(copy.nodelay().unwrap());
            control.delay(true);
            client.push();
            assert!(!copy.nodelay().unwrap());
            control.delay(false);
            client.push();
            assert!(copy.nodelay().unwrap());
        });
    }

    #[test]
    fn what_was_sent_arrives_whole_over_a_slow_reader() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let sent: Vec<u8> = (0..8_000_000u32).map(|n| (n % 251) as u8).collect();
        let expected = sent.clone();
        let got = crate::block_on(async move {
            let listener = Listener::new(&listener).unwrap();
            let client = Tcp::connect(to, &ConnectOptions::default()).await.unwrap();
            crate::spawn(async move {
                client.write_all(&sent).await.unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
            let server = Tcp::from_fd(listener.accept().await.unwrap().0).unwrap();
            let mut got = Vec::new();
            let mut buf = vec![0; 50_000];
            loop {
                crate::sleep(Duration::from_millis(1)).await;
                let n = server.read(&mut buf).await.unwrap();
                if n == 0 {
                    return got;
                }
                got.extend_from_slice(&buf[..n]);
            }
        });
        assert!(got == expected);
    }

    #[test]
    fn spliced_bytes_arrive_whole_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n % 253) as u8).collect();
        let expected = sent.clone();
        let got = crate::block_on(async move {
            let listener = Listener::new(&listener).unwrap();
            let options = ConnectOptions::default();
            let connect = || Tcp::connect(to, &options);
            let source = connect().await.unwrap();
            let from = Tcp::from_fd(listener.accept().await.unwrap().0).unwrap();
            let into = connect().await.unwrap();
            let sink = Tcp::from_fd(listener.accept().await.unwrap().0).unwrap();
            let total = sent.len();
            crate::spawn(async move { source.write_all(&sent).await.unwrap() });
            crate::spawn(async move {
                let mut left = total;
                let mut pipe = Pipe::take_one().unwrap();
                while left > 0 {
                    match from.try_splice_in(&mut pipe, left).unwrap() {
                        Some(n) => left -= n,
                        None => from.readable().await.unwrap(),
                    }
                    while !pipe.is_empty() {
                        if into.try_splice_out(&mut pipe, left > 0).unwrap() == 0 {
                            into.writable().await.unwrap();
                        }
                    }
                }
            });
            let mut got = Vec::new();
            let mut buf = vec![0; 50_000];
            while got.len() < total {
                let n = sink.read(&mut buf).await.unwrap();
                assert!(n > 0);
                got.extend_from_slice(&buf[..n]);
            }
            got
        });
        assert!(got == expected);
    }

    #[test]
    fn what_waits_for_more_goes_when_pushed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        crate::block_on(async {
            let listener = Listener::new(&listener).unwrap();
            let client = Tcp::connect(to, &ConnectOptions::default()).await.unwrap();
            let server = Tcp::from_fd(listener.accept().await.unwrap().0).unwrap();
            assert_eq!(client.try_write_more(b"part").unwrap(), 4);
            let mut buf = [0; 8];
            assert_eq!(server.try_read(&mut buf).unwrap(), None);
            client.push();
            assert_eq!(server.read(&mut buf).await.unwrap(), 4);
        });
    }

    #[test]
    fn a_widened_connection_takes_in_more_before_it_is_read() {
        fn taken_in(widen: Option<u32>) -> usize {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let to = listener.local_addr().unwrap();
            let near = Tcp::start_connect(to, &ConnectOptions::default()).unwrap();
            if let Some(bytes) = widen {
                near.widen(bytes);
            }
            let (mut far, _) = listener.accept().unwrap();
            // A small send buffer, so that what was written and not taken in does not count for much.
            let size = 64 * 1024i32;
            sys::set_option(far.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &size).unwrap();
            far.set_write_timeout(Some(Duration::from_millis(100)))
                .unwrap();
            let mut written = 0;
            while let Ok(n) = io::Write::write(&mut far, &[0; 16 * 1024]) {
                written += n;
            }
            written
        }
        let (usual, widened) = (taken_in(None), taken_in(Some(1 << 20)));
        assert!(widened > 2 * usual, "{usual} bytes, {widened} bytes");
    }

    #[test]
    fn an_idle_connection_is_quiet_until_its_peer_ends_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        crate::block_on(async {
            let listener = Listener::new(&listener).unwrap();
            let client = Tcp::connect(to, &ConnectOptions::default()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            assert!(client.probe_quiet());
            assert!(client.is_quiet());
            drop(server);
            client.readable().await.unwrap();
            assert!(!client.is_quiet());
            assert!(!client.probe_quiet());
        });
    }

    #[test]
    fn a_socket_can_be_taken_over_again_after_it_was_let_go() {
        let shared = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = shared.local_addr().unwrap();
        crate::block_on(async {
            for _ in 0..3 {
                let listener = Listener::new(&shared).unwrap();
                let accept = listener.accept();
                let options = ConnectOptions::default();
                let connect = Tcp::connect(to, &options);
                let (accepted, connected) = crate::join(accept, connect).await;
                accepted.unwrap();
                connected.unwrap();
                // Registered by now: the descriptor outlives the listener in `shared`.
                let waited = crate::timeout(Duration::from_millis(5), listener.accept()).await;
                assert!(waited.is_err());
            }
        });
    }

    #[test]
    fn a_refused_connection_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let refused = crate::block_on(Tcp::connect(to, &ConnectOptions::default()));
        assert_eq!(
            refused.err().map(|e| e.kind()),
            Some(io::ErrorKind::ConnectionRefused)
        );
    }
}
