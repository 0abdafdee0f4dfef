//! Members and clients that do what a script says, byte by byte, and an engine between them.

use super::{LONG, connect, start};
use proxy::{Engine, MemberStatus, Totals};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A member whose connections each follow the script, which is told their number, from 0.
pub(crate) struct Member {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Member {
    pub(crate) fn new(script: impl Fn(usize, Wire) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, script) = (Arc::clone(&connections), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let script = Arc::clone(&script);
                thread::spawn(move || script(number, Wire::new(stream)));
            }
        });
        Member {
            address,
            connections,
        }
    }

    /// One that answers every request by `answer`, which is given the head, on connections that stay.
    pub(crate) fn answering(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Member::new(move |_, mut wire| {
            while let Some((head, _)) = wire.request() {
                wire.send(&answer(&head));
            }
        })
    }

    /// How many connections it was given.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A response with a body.
pub(crate) fn ok(body: &str) -> String {
    answer(200, body)
}

pub(crate) fn answer(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A virtual `web` with a pool `app`, each with further settings, on one worker.
pub(crate) struct Proxy {
    pub(crate) engine: Engine,
    pub(crate) address: SocketAddr,
}

impl Proxy {
    pub(crate) fn new(members: &[&Member], pool: &str, service: &str) -> Self {
        Proxy::of(start(&Proxy::text(members, pool, service)))
    }

    pub(crate) fn of(engine: Engine) -> Self {
        let address = engine.snapshot().addresses("web")[0];
        Proxy { engine, address }
    }

    pub(crate) fn text(members: &[&Member], pool: &str, service: &str) -> String {
        let members: Vec<_> = members.iter().map(|m| m.address.to_string()).collect();
        format!(
            "workers: 1
log: {{access: off}}
pools: {{app: {{members: {members:?}, balance: first, {pool}}}}}
virtuals: {{web: {{listen: \"127.0.0.1:0\", pool: app, {service}}}}}
"
        )
    }

    pub(crate) fn connect(&self) -> Wire {
        Wire::new(connect(self.address))
    }

    pub(crate) fn totals(&self) -> Totals {
        self.engine.snapshot().virtuals["web"]
            .state
            .counters
            .totals()
    }

    pub(crate) fn member(&self, number: usize) -> MemberStatus {
        self.engine.members().remove(number)
    }
}

/// One end of a connection.
pub(crate) struct Wire {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Wire { stream, reader }
    }

    /// Another hand on the same connection, to send while this one reads.
    pub(crate) fn sender(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// Sends what the other side takes; whether it takes it is seen by its answers.
    pub(crate) fn send(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes());
    }

    /// Sends a request without a body.
    pub(crate) fn get(&mut self, path: &str) -> (String, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.response()
    }

    /// The next head; `None` at the end of the connection.
    pub(crate) fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        loop {
            let before = head.len();
            if self.reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
            if &head[before..] == "\r\n" {
                return Some(head);
            }
        }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<String> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).ok()?;
        Some(String::from_utf8(bytes).unwrap())
    }

    /// The next request and its body of a known length.
    pub(crate) fn request(&mut self) -> Option<(String, String)> {
        let head = self.head()?;
        let body = self.bytes(length(&head))?;
        Some((head, body))
    }

    /// The next response and its body: of its length, or all until the end.
    pub(crate) fn response(&mut self) -> (String, String) {
        let head = self.head().expect("a response");
        let lower = head.to_ascii_lowercase();
        let body = if lower.contains("content-length:") || is_bodiless(&head) {
            self.bytes(length(&head)).expect("the whole body")
        } else {
            self.rest().expect("an orderly end")
        };
        (head, body)
    }

    /// All that comes until the connection's orderly end.
    pub(crate) fn rest(&mut self) -> std::io::Result<String> {
        let mut text = String::new();
        self.reader.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Whether the other side has ended the connection, one way or the other.
    pub(crate) fn is_ended(&mut self) -> bool {
        matches!(self.reader.read(&mut [0]), Ok(0) | Err(_))
    }

    /// Whether nothing comes for a while.
    pub(crate) fn is_silent(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let read = self.reader.read(&mut [0]);
        self.stream.set_read_timeout(Some(LONG)).unwrap();
        read.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
    }

    pub(crate) fn end(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    pub(crate) fn reset(self) {
        let socket = socket2::SockRef::from(&self.stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }
}

fn is_bodiless(head: &str) -> bool {
    [" 101 ", " 100 ", " 103 ", " 204 ", " 304 "]
        .iter()
        .any(|status| head.get(8..13) == Some(*status))
}

fn length(head: &str) -> usize {
    let lower = head.to_ascii_lowercase();
    let mut lines = lower.lines();
    lines
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap())
}
