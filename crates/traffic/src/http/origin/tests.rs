//! The origin over real sockets.

use super::super::Stop;
use super::{Args, Origin};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};

struct Running {
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        let args = Args {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            tls_listen: Vec::new(),
            certificate: None,
            key: None,
            name: Some("one".to_owned()),
        };
        let origin = Origin::bind(&args).unwrap();
        let address = origin.addresses()[0];
        let stop = Stop::default();
        let stopped = stop.clone();
        let thread = Some(thread::spawn(move || origin.run(&stopped).unwrap()));
        Self {
            address,
            stop,
            thread,
        }
    }

    /// Send all this, in pieces of `piece` bytes, and read until the end. What is sent behind a last request is never
    /// read, which makes the end a reset.
    fn ask(&self, request: &[u8], piece: usize) -> Vec<u8> {
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.set_nodelay(true).unwrap();
        for piece in request.chunks(piece) {
            if socket.write_all(piece).is_err() {
                break;
            }
        }
        let mut answer = Vec::new();
        match socket.read_to_end(&mut answer) {
            Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
            _ => answer,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn body(answer: &[u8]) -> &[u8] {
    let head = memchr::memmem::find(answer, b"\r\n\r\n").unwrap();
    &answer[head + 4..]
}

#[test]
fn bodies_of_every_size_arrive_whole() {
    let origin = Running::start();
    for size in [0, 1, 1024, 24 * 1024, 24 * 1024 + 1, 3_000_000] {
        let request = format!("GET /bytes/{size} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = origin.ask(request.as_bytes(), 1 << 20);
        let expected: Vec<u8> = (b'a'..=b'z').cycle().take(size).collect();
        assert!(body(&answer) == expected, "{size}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_however_they_are_split() {
    let origin = Running::start();
    let requests = b"GET /status/201 HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n\
        POST /bytes/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /\
        HEAD /bytes/99 HTTP/1.1\r\nHost: a\r\n\r\n\
        GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    for piece in [1, 7, 1 << 20] {
        let answer = String::from_utf8(origin.ask(requests, piece)).unwrap();
        let heads: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).collect();
        assert_eq!(heads.len(), 5, "{answer}");
        assert!(heads[0].starts_with("201 "));
        assert!(heads[1].ends_with("\r\n\r\nabcde"));
        assert!(heads[2].ends_with("\r\n\r\nab"));
        assert!(heads[3].contains("Content-Length: 99\r\n") && heads[3].ends_with("\r\n\r\n"));
        assert!(heads[4].ends_with("\r\n\r\none\n") && heads[4].contains("Connection: close"));
    }
}

#[test]
fn a_waiting_client_is_told_to_go_on() {
    let origin = Running::start();
    let mut socket = TcpStream::connect(origin.address).unwrap();
    let head = b"POST /echo HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    socket.write_all(head).unwrap();
    let mut interim = [0; 25];
    socket.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"xyz").unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    assert_eq!(body(&answer), b"xyz");
}

#[test]
fn a_cookie_is_set_as_asked() {
    let origin = Running::start();
    let answer = origin.ask(
        b"GET /cookie/a=b%3D HTTP/1.1\r\nConnection: close\r\n\r\n",
        5,
    );
    let text = String::from_utf8(answer).unwrap();
    assert!(
        text.contains("\r\nSet-Cookie: a=b%3D; path=/; HttpOnly\r\n"),
        "{text}"
    );
    assert!(
        text.contains("Content-Length: 6\r\n") && text.ends_with("\r\n\r\na=b%3D"),
        "{text}"
    );
}

#[test]
fn nonsense_is_refused() {
    let origin = Running::start();
    let answer = origin.ask(b"what?\r\n\r\n", 1 << 20);
    assert!(answer.starts_with(b"HTTP/1.1 400 "));
}
