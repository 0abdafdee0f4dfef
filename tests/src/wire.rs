//! A TCP connection on which a test says exact bytes and reads messages.

use crate::PATIENCE;
use crate::message::{Message, field};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A connection, and what was read from it too early.
pub struct Wire {
    stream: TcpStream,
    early: Vec<u8>,
}

impl Wire {
    /// Connects.
    ///
    /// # Panics
    /// If that fails.
    pub fn connect(to: SocketAddr) -> Self {
        Self::try_connect(to).unwrap_or_else(|error| panic!("cannot connect to {to}: {error}"))
    }

    /// Connects, if that can be done.
    ///
    /// # Errors
    /// As the system has them.
    pub fn try_connect(to: SocketAddr) -> io::Result<Self> {
        Ok(Self::of(TcpStream::connect_timeout(&to, PATIENCE)?))
    }

    /// Connects from an address.
    pub fn connect_from(from: IpAddr, to: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        Self::of(socket.into())
    }

    /// Connects with a receive buffer so small that a sender notices soon when nothing is read.
    pub fn connect_small(to: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&to.into()).unwrap();
        Self::of(socket.into())
    }

    /// Takes over a connection.
    pub fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            early: Vec::new(),
        }
    }

    /// The socket itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The socket, where nothing was read from it too early.
    pub fn into_stream(self) -> TcpStream {
        assert!(self.early.is_empty(), "bytes were read already");
        self.stream
    }

    /// The other end.
    pub fn peer(&self) -> SocketAddr {
        self.stream.peer_addr().unwrap()
    }

    /// How long reads may take from now on.
    pub fn patience(&self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).unwrap();
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// If that fails.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the other end takes bytes");
    }

    /// Sends bytes, if the other end is there.
    ///
    /// # Errors
    /// As the system has them.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Says that nothing more is sent.
    pub fn finish(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Ends the connection by a reset.
    pub fn reset(self) {
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Sends a GET for a target, host `h`, and reads the response.
    pub fn get(&mut self, target: &str) -> Message {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        self.response()
    }

    /// The next response (to anything but HEAD).
    ///
    /// # Panics
    /// If the connection ends before it is whole.
    pub fn response(&mut self) -> Message {
        self.try_response("GET").expect("a whole response")
    }

    /// The next response to a request of that method.
    ///
    /// # Errors
    /// If the connection ends before it is whole.
    pub fn try_response(&mut self, method: &str) -> io::Result<Message> {
        let mut message = self.head()?.ok_or(ErrorKind::UnexpectedEof)?;
        let status = message.status();
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Ok(message);
        }
        if !self.body(&mut message)? {
            message.body = self.to_end();
        }
        Ok(message)
    }

    /// The next request with its body; none when the connection ends instead.
    pub fn request(&mut self) -> Option<Message> {
        let mut message = self.head().ok()??;
        self.body(&mut message).ok()?;
        Some(message)
    }

    /// The next head; none when the connection ends before its first byte.
    ///
    /// # Errors
    /// If the connection ends in its midst, or breaks.
    pub fn head(&mut self) -> io::Result<Option<Message>> {
        let mut head = Vec::new();
        while head.len() < 5 || !head.ends_with(b"\r\n\r\n") {
            match self.byte()? {
                Some(byte) => head.push(byte),
                None if head.is_empty() => return Ok(None),
                None => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(Some(Message::parse(&head)))
    }

    /// That many bytes.
    ///
    /// # Errors
    /// If the connection ends before.
    pub fn exactly(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut out = vec![0; len];
        let early = self.early.len().min(len);
        out[..early].copy_from_slice(&self.early[..early]);
        self.early.drain(..early);
        self.stream.read_exact(&mut out[early..])?;
        Ok(out)
    }

    /// All that comes until the connection ends, in whatever way.
    pub fn to_end(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.early);
        let mut piece = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return out,
                Ok(n) => out.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("the connection stays open after {:?}", tail(&out))
                }
                Err(_) => return out,
            }
        }
    }

    /// Whether nothing comes in that time, neither bytes nor the end.
    pub fn is_silent(&mut self, time: Duration) -> bool {
        if !self.early.is_empty() {
            return false;
        }
        self.patience(time);
        let mut piece = [0; 1024];
        let silent = match self.stream.read(&mut piece) {
            Ok(n) => {
                self.early.extend_from_slice(&piece[..n]);
                false
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        self.patience(PATIENCE);
        silent
    }

    /// Checks that the other end closes the connection and says nothing more.
    ///
    /// # Panics
    /// If it does not.
    pub fn assert_closed(&mut self) {
        let rest = self.to_end();
        assert!(rest.is_empty(), "more came: {:?}", tail(&rest));
    }

    /// Reads the body that the head announces; false where it announces none that has an end.
    fn body(&mut self, message: &mut Message) -> io::Result<bool> {
        if message.is_chunked() {
            loop {
                let line = self.line()?;
                let size = line.split(';').next().unwrap_or_default();
                let size = usize::from_str_radix(size, 16)
                    .unwrap_or_else(|_| panic!("no size of a chunk: {line:?}"));
                if size == 0 {
                    break;
                }
                let chunk = self.exactly(size)?;
                message.body.extend(chunk);
                assert_eq!(self.line()?, "", "a line end behind a chunk");
            }
            loop {
                match self.line()?.as_str() {
                    "" => return Ok(true),
                    line => message.trailers.push(field(line)),
                }
            }
        }
        let Some(length) = message.length() else {
            return Ok(false);
        };
        message.body = self.exactly(length)?;
        Ok(true)
    }

    /// A line, without its end.
    ///
    /// # Errors
    /// If the connection ends before.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        while !line.ends_with("\r\n") {
            let byte = self.byte()?.ok_or(ErrorKind::UnexpectedEof)?;
            line.push(char::from(byte));
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        if self.early.is_empty() {
            let mut piece = [0; 4096];
            let n = self.stream.read(&mut piece)?;
            self.early.extend_from_slice(&piece[..n]);
        }
        if self.early.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.early.remove(0)))
    }
}

fn tail(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(300)..]).into_owned()
}
