//! What rules set and learn of the connections themselves: addresses, idleness, small segments, TLS towards members, silence.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod common;

use common::script::{Member, Proxy, Wire, ok};
use common::{LONG, start};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

fn proxy(rule: &str, member: &Member, pool: &str, service: &str) -> Proxy {
    let mut text = Proxy::text(&[member], pool, &format!("rules: [r], {service}"));
    text.push_str("rules:\n  r:\n    text: |\n");
    for line in rule.lines() {
        text.push_str(&format!("      {line}\n"));
    }
    Proxy::of(start(&text))
}

/// Sends back what it hears.
fn echo() -> Member {
    Member::new(|_, mut wire| {
        while let Some(byte) = wire.bytes(1) {
            wire.send(&byte);
        }
    })
}

#[test]
fn members_see_the_address_that_a_rule_has_chosen() {
    for (service, event) in [("", "HTTP_REQUEST"), ("protocol: tcp", "CLIENT_ACCEPTED")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = std::thread::spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            let body = peer.ip().to_string();
            stream.write_all(ok(&body).as_bytes()).unwrap();
        });
        let rule = format!("when {event} {{ snat 127.0.0.77; node {address} }}");
        let proxy = proxy(&rule, &echo(), "", service);
        let mut client = proxy.connect();
        assert_eq!(client.get("/").1, "127.0.0.77", "{service}");
        seen.join().unwrap();
    }
}

#[test]
fn a_rule_says_how_long_a_connection_may_be_idle() {
    let rule = "when CLIENT_ACCEPTED { IP::idle_timeout 1 }";
    let tcp = proxy(rule, &echo(), "", "protocol: tcp");
    let mut client = tcp.connect();
    client.send("x");
    assert_eq!(client.bytes(1).unwrap(), "x");
    ends_soon(&mut client);
    let rule = "when HTTP_REQUEST { TCP::idletime 1 }";
    let http = proxy(rule, &Member::answering(ok), "", "");
    let mut client = http.connect();
    client.get("/");
    ends_soon(&mut client);
}

fn ends_soon(client: &mut Wire) {
    let begin = Instant::now();
    assert!(client.is_ended());
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(500), "at once: {took:?}");
    assert!(took < LONG / 2, "{took:?}");
}

#[test]
fn what_the_configuration_says_of_idleness_is_told() {
    let rule = "when HTTP_REQUEST { HTTP::header insert X-Idle [IP::idle_timeout] }";
    let service = "timeouts: {idle: 33s}";
    let proxy = proxy(rule, &Member::answering(ok), "", service);
    assert!(proxy.connect().get("/").1.contains("X-Idle: 33\r\n"));
}

#[test]
fn a_rule_learns_what_the_kernel_counts() {
    let rule = "when HTTP_REQUEST {
  HTTP::header insert X-In [IP::stats bytes in]
  HTTP::header insert X-Out [IP::stats bytes out]
}";
    let proxy = proxy(rule, &Member::answering(ok), "", "");
    let mut client = proxy.connect();
    let request = "GET / HTTP/1.1\r\nHost: test\r\n\r\n".len();
    let (head, body) = client.get("/");
    assert!(body.contains(&format!("X-In: {request}\r\n")), "{body}");
    assert!(body.contains("X-Out: 0\r\n"), "{body}");
    let out = head.len() + body.len();
    let (_, body) = client.get("/");
    assert!(
        body.contains(&format!("X-In: {}\r\n", 2 * request)),
        "{body}"
    );
    assert!(body.contains(&format!("X-Out: {out}\r\n")), "{body}");
}

#[test]
fn small_segments_wait_where_a_rule_has_said_so() {
    let rule = "when CLIENT_ACCEPTED { TCP::nagle enable }
when HTTP_REQUEST { if { [HTTP::path] eq \"/off\" } { TCP::nagle disable } }
when SERVER_CONNECTED { TCP::nagle enable }";
    let (sent, ports) = std::sync::mpsc::channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, from) = listener.accept().unwrap();
        sent.send(from).unwrap();
        let mut wire = Wire::new(stream);
        while wire.request().is_some() {
            wire.send(&ok(&sends_at_once(from, address).to_string()));
        }
    });
    let rule = format!("{rule}\nwhen HTTP_REQUEST priority 1 {{ node {address} }}");
    let proxy = proxy(&rule, &echo(), "", "");
    let stream = common::connect(proxy.address);
    let (local, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    let mut client = Wire::new(stream);
    assert_eq!(client.get("/").1, "false", "the member's end");
    assert!(!sends_at_once(peer, local), "the client's end");
    let from = ports.recv().unwrap();
    common::until("it is kept, for others", || sends_at_once(from, address));
    client.get("/off");
    assert!(sends_at_once(peer, local), "the client's end");
}

/// Whether the socket of this process between these addresses has TCP_NODELAY set.
fn sends_at_once(local: std::net::SocketAddr, peer: std::net::SocketAddr) -> bool {
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let number: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
        let Some(copy) = copy_of(number) else {
            continue;
        };
        if copy.local_addr().ok() == Some(local) && copy.peer_addr().ok() == Some(peer) {
            return copy.nodelay().unwrap();
        }
    }
    panic!("no socket between {local} and {peer}");
}

fn copy_of(number: i32) -> Option<TcpStream> {
    // SAFETY: the copy is the process's own; what is copied is only looked at.
    #[expect(unsafe_code, reason = "there is no other way to another's socket")]
    let copy = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) }.try_clone_to_owned();
    copy.ok().map(TcpStream::from)
}

#[test]
fn a_member_is_spoken_to_in_the_clear_where_a_rule_leaves_tls_out() {
    for (service, event) in [
        ("", "HTTP_REQUEST"),
        ("", "SERVER_CONNECTED"),
        ("protocol: tcp", "CLIENT_ACCEPTED"),
        ("protocol: tcp", "SERVER_CONNECTED"),
    ] {
        let rule = format!("when {event} {{ SSL::disable serverside }}");
        let member = Member::answering(|_| ok("in the clear"));
        let tls = "tls: {verify: false}, retry: {attempts: 1}";
        let proxy = proxy(&rule, &member, tls, service);
        let mut client = proxy.connect();
        assert_eq!(client.get("/").1, "in the clear", "{service} {event}");
    }
}

#[test]
fn what_was_sent_in_the_clear_is_not_kept_for_those_who_ask_for_tls() {
    let rule =
        "when HTTP_REQUEST { if { [HTTP::path] eq \"/clear\" } { SSL::disable serverside } }";
    let member = Member::answering(|_| ok("in the clear"));
    let proxy = proxy(
        rule,
        &member,
        "tls: {verify: false}, retry: {attempts: 1}",
        "",
    );
    let mut client = proxy.connect();
    assert_eq!(client.get("/clear").1, "in the clear");
    assert!(client.get("/").0.starts_with("HTTP/1.1 502"));
}

#[test]
fn a_connection_that_is_dropped_hears_nothing() {
    // Where the process may: else it ends in order.
    let silent = reactor::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let tcp = reactor::Tcp::from_fd(stream.into()).unwrap();
        tcp.vanish_on_close().is_ok()
    });
    for (service, event) in [
        ("", "CLIENT_ACCEPTED"),
        ("", "HTTP_REQUEST"),
        ("protocol: tcp", "CLIENT_ACCEPTED"),
    ] {
        let rule = format!("when {event} {{ drop }}");
        let proxy = proxy(&rule, &echo(), "", service);
        let mut client = proxy.connect();
        // What comes later than the end is reset.
        if service.is_empty() {
            client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        }
        common::until("it is gone", || {
            proxy.totals().connections == 1 && proxy.engine.connections() == 0
        });
        if silent {
            assert!(
                client.is_silent(Duration::from_millis(200)),
                "{service} {event}"
            );
        } else {
            assert!(client.is_ended());
        }
    }
}
