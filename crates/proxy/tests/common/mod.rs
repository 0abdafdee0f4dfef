//! Origins and clients for tests that drive an engine over loopback.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

pub(crate) mod script;

use model::{Config, MemorySource};
use proxy::{Engine, Inherited, Options};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// More than any step takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn config(text: &str) -> Config {
    model::parse_text(Path::new("test.yaml"), text, &MemorySource::default())
        .unwrap_or_else(|errors| panic!("{errors}"))
}

pub(crate) fn start(text: &str) -> Engine {
    let options = Options {
        seed: Some(1),
        ..Options::default()
    };
    Engine::start(config(text), Inherited::none(), options).unwrap_or_else(|e| panic!("{e}"))
}

/// Sends back what it gets.
pub(crate) fn echo() -> SocketAddr {
    origin(|stream| {
        let mut from = stream.try_clone().unwrap();
        let _ = std::io::copy(&mut from, stream);
        let _ = stream.shutdown(std::net::Shutdown::Write);
    })
}

/// Answers each HTTP request with `body`.
pub(crate) fn http(body: &'static str) -> SocketAddr {
    origin(move |stream| {
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        while read_head(&mut lines).is_some() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream.write_all((head + body).as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn origin(serve: impl Fn(&mut TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(&mut stream));
        }
    });
    address
}

/// A connection on which every read ends in time.
pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, LONG).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends a line and reads it back.
pub(crate) fn talk(stream: &mut TcpStream, line: &str) {
    stream.write_all(line.as_bytes()).unwrap();
    let mut back = vec![0; line.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, line.as_bytes());
}

/// An HTTP connection of a client.
pub(crate) struct Http {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Http {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = connect(to);
        let reader = BufReader::new(stream.try_clone().unwrap());
        Http { stream, reader }
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        self.stream.write_all(request.as_bytes()).unwrap();
    }

    /// The head and the body of a response.
    pub(crate) fn receive(&mut self) -> (String, String) {
        let head = read_head(&mut self.reader).expect("a response");
        let lower = head.to_ascii_lowercase();
        let length = lower
            .lines()
            .find_map(|l| l.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |l| l.parse().unwrap())];
        self.reader.read_exact(&mut body).unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    /// The body of the response to a request.
    pub(crate) fn get(&mut self, path: &str) -> String {
        self.send(path);
        self.receive().1
    }

    /// Waits for the end of the connection.
    pub(crate) fn is_ended(&mut self) -> bool {
        matches!(self.reader.read(&mut [0]), Ok(0) | Err(_))
    }
}

fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if &head[before..] == "\r\n" {
            return Some(head);
        }
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "not within {LONG:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
