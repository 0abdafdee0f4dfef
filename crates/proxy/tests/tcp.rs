//! TCP virtuals over real sockets: who is connected to whom, with which header in front, and what is counted and logged.

#![expect(clippy::unwrap_used, reason = "a test ends where what it needs fails")]

use model::MemorySource;
use proxy::{Engine, Inherited, Options, VirtualState};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use wire::proxy_protocol;

const LONG: Duration = Duration::from_secs(10);

#[test]
fn bytes_go_both_ways_and_are_counted_and_logged() {
    let member = echo(1);
    let log = LogFile::new("both-ways");
    let virtuals = format!(
        "log: {{access: {{format: text, output: {{file: {}}}}}}}",
        log.path()
    );
    let proxy = Proxy::start(&virtuals, &format!("members: [\"{}\"]", member.address));
    let data: Vec<u8> = (0..700_000u32).map(|n| (n % 251) as u8).collect();
    let mut client = proxy.connect();
    let mut reader = client.try_clone().unwrap();
    let got = thread::spawn(move || read_to_end(&mut reader));
    client.write_all(&data).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(got.join().unwrap() == data);
    drop(client);
    let line = log.line();
    assert!(line.contains(" web app/"), "{line}");
    assert!(line.contains(" - 700000/700000 -- 1 - "), "{line}");
    let totals = proxy.state().counters.totals();
    assert_eq!((totals.bytes_in, totals.bytes_out), (700_000, 700_000));
    assert_eq!((totals.connections, totals.upstream_connects), (1, 1));
}

#[test]
fn a_member_may_speak_first() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let member = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(b"220 hello\r\n").unwrap();
        read_to_end(&mut stream)
    });
    let proxy = Proxy::start("", &format!("members: [\"{address}\"]"));
    let mut client = proxy.connect();
    assert_eq!(read_some(&mut client), b"220 hello\r\n");
    client.write_all(b"QUIT\r\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(member.join().unwrap(), b"QUIT\r\n");
}

#[test]
fn a_member_that_refuses_is_passed_over() {
    let member = echo(1);
    let pool = format!(
        "balance: first, members: [\"{}\", \"{}\"]",
        unused(),
        member.address
    );
    let proxy = Proxy::start("", &pool);
    assert_eq!(proxy.ask(b"anyone?"), b"anyone?");
    assert_eq!(proxy.state().counters.totals().retries, 1);
}

#[test]
fn without_any_member_the_connection_is_closed_and_the_log_says_why() {
    let log = LogFile::new("refused");
    let virtuals = format!(
        "log: {{access: {{format: json, sample: 0, output: {{file: {}}}}}}}",
        log.path()
    );
    let proxy = Proxy::start(&virtuals, &format!("members: [\"{}\"]", unused()));
    let mut client = proxy.connect();
    assert_eq!(read_to_end(&mut client), b"");
    let line = log.line();
    assert!(
        line.contains(r#""ending":"SC","reason":"connect-failed""#),
        "{line}"
    );
    assert_eq!(proxy.state().counters.refusals()["connect-failed"], 1);
}

#[test]
fn who_is_not_at_once_served_waits_for_a_member_with_room() {
    let member = echo(2);
    let pool = format!(
        "limits: {{member_connections: 1}}, members: [\"{}\"]",
        member.address
    );
    let proxy = Proxy::start("", &pool);
    let mut first = proxy.connect();
    first.write_all(b"first").unwrap();
    assert_eq!(read_some(&mut first), b"first");
    let mut second = proxy.connect();
    second.write_all(b"second").unwrap();
    until(|| proxy.state().counters.totals().queued == 1);
    drop(first);
    assert_eq!(read_some(&mut second), b"second");
}

#[test]
fn a_proxy_header_is_believed_and_sent_on() {
    let (address, member) = one_connection();
    let proxy = Proxy::start(
        "proxy_protocol: {from: [127.0.0.0/8]}",
        &format!("proxy_protocol: v2, members: [\"{address}\"]"),
    );
    let mut client = proxy.connect();
    client
        .write_all(b"PROXY TCP4 192.0.2.7 198.51.100.9 4711 443\r\nhello")
        .unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let got = member.join().unwrap();
    let (header, len) = proxy_protocol::parse(&got).unwrap().unwrap();
    let expected = (
        "192.0.2.7:4711".parse().unwrap(),
        "198.51.100.9:443".parse().unwrap(),
    );
    assert_eq!(header.addresses, Some(expected));
    assert_eq!(&got[len..], b"hello");
}

#[test]
fn a_proxy_header_in_pieces_is_read_whole() {
    let (address, member) = one_connection();
    let proxy = Proxy::start(
        "proxy_protocol: {from: [127.0.0.1]}",
        &format!("proxy_protocol: v1, members: [\"{address}\"]"),
    );
    let mut client = proxy.connect();
    client.set_nodelay(true).unwrap();
    for byte in b"PROXY TCP4 192.0.2.7 198.51.100.9 4711 443\r\nx" {
        client.write_all(&[*byte]).unwrap();
        thread::yield_now();
    }
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(
        member.join().unwrap(),
        b"PROXY TCP4 192.0.2.7 198.51.100.9 4711 443\r\nx"
    );
}

#[test]
fn who_must_send_a_proxy_header_and_does_not_is_refused() {
    let proxy = Proxy::start(
        "proxy_protocol: {from: [127.0.0.0/8]}",
        &format!("members: [\"{}\"]", unused()),
    );
    let mut client = proxy.connect();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut buf = [0; 10];
    // A reset where it was closed with bytes unread.
    assert!(matches!(client.read(&mut buf), Ok(0) | Err(_)));
    assert_eq!(proxy.state().counters.refusals()["no-proxy-header"], 1);
}

#[test]
fn who_may_send_a_proxy_header_need_not() {
    let member = echo(1);
    let proxy = Proxy::start(
        "proxy_protocol: {from: [127.0.0.0/8], required: false}",
        &format!("members: [\"{}\"]", member.address),
    );
    assert_eq!(proxy.ask(b"PRO is no header"), b"PRO is no header");
}

#[test]
fn from_others_a_proxy_header_is_nothing_but_data() {
    let member = echo(1);
    let proxy = Proxy::start(
        "proxy_protocol: {from: [192.0.2.0/24]}",
        &format!("members: [\"{}\"]", member.address),
    );
    let line = b"PROXY TCP4 192.0.2.7 198.51.100.9 4711 443\r\n";
    assert_eq!(proxy.ask(line), line);
}

#[test]
fn tls_passes_through_to_the_pool_of_its_server_name() {
    let (one, member) = one_connection();
    let proxy = Proxy::start_with(&format!(
        "virtuals: {{web: {{listen: [LISTEN], protocol: tls-passthrough, \
           sni_routes: [{{sni: [a.example], pool: other}}, {{sni: [\"*.b.example\"], pool: app}}]}}}}\n\
         pools: {{app: {{members: [\"{one}\"]}}, other: {{members: [\"{}\"]}}}}",
        unused()
    ));
    let hello = client_hello("www.b.example");
    let mut client = proxy.connect();
    client.set_nodelay(true).unwrap();
    let (head, tail) = hello.split_at(60);
    client.write_all(head).unwrap();
    thread::yield_now();
    client.write_all(tail).unwrap();
    client.write_all(b"more").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(member.join().unwrap(), [&hello[..], b"more"].concat());
}

#[test]
fn a_server_name_without_a_pool_gets_an_alert() {
    let proxy = passthrough_to_nobody();
    let mut client = proxy.connect();
    client.write_all(&client_hello("c.example")).unwrap();
    assert_eq!(read_to_end(&mut client), [21, 3, 3, 0, 2, 2, 112]);
    assert_eq!(proxy.state().counters.refusals()["unrecognized-name"], 1);
}

#[test]
fn what_is_not_tls_does_not_pass_through() {
    let proxy = passthrough_to_nobody();
    let mut client = proxy.connect();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(read_to_end(&mut client), b"");
    assert_eq!(proxy.state().counters.refusals()["not-tls"], 1);
}

#[test]
fn a_client_that_never_finishes_its_hello_is_let_go() {
    let proxy = Proxy::start_with(&format!(
        "virtuals: {{web: {{listen: [LISTEN], protocol: tls-passthrough, pool: app, timeouts: {{head: 100ms}}}}}}\n\
         pools: {{app: {{members: [\"{}\"]}}}}",
        unused()
    ));
    let mut client = proxy.connect();
    client.write_all(&client_hello("a.example")[..50]).unwrap();
    assert_eq!(read_to_end(&mut client), b"");
    assert_eq!(proxy.state().counters.refusals()["client-hello-timeout"], 1);
}

/// An engine with one virtual, `web`.
struct Proxy {
    engine: Engine,
    address: SocketAddr,
}

impl Proxy {
    /// A TCP virtual with these settings, over a pool with those.
    fn start(virtual_server: &str, pool: &str) -> Self {
        let comma = if virtual_server.is_empty() { "" } else { ", " };
        Self::start_with(&format!(
            "virtuals: {{web: {{listen: [LISTEN], protocol: tcp, pool: app{comma}{virtual_server}}}}}\n\
             pools: {{app: {{{pool}}}}}"
        ))
    }

    fn start_with(text: &str) -> Self {
        let address = unused();
        let text = format!(
            "workers: 1\n{}",
            text.replace("LISTEN", &format!("\"{address}\""))
        );
        let source = MemorySource::default();
        let config = model::parse_text(Path::new("test.yaml"), &text, &source)
            .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let engine = Engine::start(config, Inherited::none(), Options::default()).unwrap();
        Proxy { engine, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Says something, ends, and hears the answer.
    fn ask(&self, question: &[u8]) -> Vec<u8> {
        let mut client = self.connect();
        client.write_all(question).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        read_to_end(&mut client)
    }

    fn state(&self) -> Arc<VirtualState> {
        Arc::clone(&self.engine.snapshot().virtuals["web"].state)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.engine.stop();
    }
}

fn passthrough_to_nobody() -> Proxy {
    Proxy::start_with(&format!(
        "virtuals: {{web: {{listen: [LISTEN], protocol: tls-passthrough, sni_routes: [{{sni: [a.example], pool: app}}]}}}}\n\
         pools: {{app: {{members: [\"{}\"]}}}}",
        unused()
    ))
}

struct Echo {
    address: SocketAddr,
}

/// A member that sends back what it gets, on so many connections.
fn echo(connections: usize) -> Echo {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for _ in 0..connections {
            let mut reader = listener.accept().unwrap().0;
            thread::spawn(move || {
                let mut writer = reader.try_clone().unwrap();
                let _ = std::io::copy(&mut reader, &mut writer);
                let _ = writer.shutdown(Shutdown::Write);
            });
        }
    });
    Echo { address }
}

/// A member for one connection; all that it gets.
fn one_connection() -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let got = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(LONG)).unwrap();
        read_to_end(&mut stream)
    });
    (address, got)
}

/// An address at which nobody listens.
fn unused() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    got
}

fn read_some(stream: &mut TcpStream) -> Vec<u8> {
    let mut buf = [0; 1000];
    let n = stream.read(&mut buf).unwrap();
    buf[..n].to_vec()
}

fn until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < end, "it takes too long");
        thread::sleep(Duration::from_millis(2));
    }
}

/// An access log of the test's own.
struct LogFile(PathBuf);

impl LogFile {
    fn new(name: &str) -> Self {
        let name = format!("hg-tcp-{name}-{}.log", std::process::id());
        LogFile(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Its first line, as soon as there is one.
    fn line(&self) -> String {
        let read = || fs::read_to_string(&self.0).unwrap_or_default();
        until(|| read().contains('\n'));
        read().lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The least ClientHello that asks for a name, in one record.
fn client_hello(name: &str) -> Vec<u8> {
    let name = name.as_bytes();
    let len = |n: usize| (n as u16).to_be_bytes();
    let mut extension = vec![0, 0];
    extension.extend(len(name.len() + 5));
    extension.extend(len(name.len() + 3));
    extension.push(0);
    extension.extend(len(name.len()));
    extension.extend(name);
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend(len(extension.len()));
    body.extend(extension);
    let mut record = vec![22, 3, 1];
    record.extend(len(body.len() + 4));
    record.extend([1, 0]);
    record.extend(len(body.len()));
    record.extend(body);
    record
}
