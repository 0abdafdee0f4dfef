//! TCP virtuals with rules, and what rules reach beside the connection: logs, other servers, names, the shared table.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod common;

use common::script::{Member, Proxy, Wire, ok};
use common::{start, until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, UdpSocket};
use std::time::Duration;

fn text(rule: &str, members: &[&Member], service: &str, more: &str) -> String {
    let mut text = Proxy::text(members, "", &format!("rules: [r], {service}"));
    text.push_str("rules:\n  r:\n    text: |\n");
    for line in rule.lines() {
        text.push_str(&format!("      {line}\n"));
    }
    text + more
}

fn tcp(rule: &str, members: &[&Member]) -> Proxy {
    Proxy::of(start(&text(rule, members, "protocol: tcp", "")))
}

fn http(rule: &str, members: &[&Member], more: &str) -> Proxy {
    Proxy::of(start(&text(rule, members, "", more)))
}

/// Says its name, and then what it hears, a line at a time.
fn echo(name: &'static str) -> Member {
    Member::new(move |_, mut wire| {
        while let Some(line) = line(&mut wire) {
            wire.send(&format!("{name}:{line}"));
        }
    })
}

fn line(wire: &mut Wire) -> Option<String> {
    let mut line = String::new();
    while !line.ends_with('\n') {
        line.push_str(&wire.bytes(1)?);
    }
    Some(line)
}

fn mirror() -> Member {
    Member::answering(ok)
}

#[test]
fn a_rule_looks_at_the_first_bytes_and_chooses_the_pool() {
    let (a, b) = (echo("a"), echo("b"));
    let rule = "when CLIENT_ACCEPTED { TCP::collect 5 }\nwhen CLIENT_DATA {\n  if { [TCP::payload] starts_with \"to-b\" } { pool other }\n  TCP::release\n}";
    let base = text(rule, &[&a], "protocol: tcp", "").replace(
        "pools: {app:",
        &format!("pools: {{other: {{members: [\"{}\"]}}, app:", b.address),
    );
    let proxy = Proxy::of(start(&base));
    for (said, heard) in [("to-a\n", "a:to-a\n"), ("to-b\n", "b:to-b\n")] {
        let mut client = proxy.connect();
        client.send(&said[..2]);
        client.send(&said[2..]);
        assert_eq!(line(&mut client).unwrap(), heard);
        client.send("more\n");
        assert!(line(&mut client).unwrap().ends_with(":more\n"));
    }
}

#[test]
fn bytes_are_changed_both_ways_as_long_as_a_rule_collects() {
    let proxy = tcp(
        "when CLIENT_ACCEPTED { TCP::collect }\nwhen CLIENT_DATA {\n  TCP::payload replace 0 [TCP::payload length] [string toupper [TCP::payload]]\n  TCP::release; TCP::collect\n}\nwhen SERVER_CONNECTED { TCP::collect }\nwhen SERVER_DATA {\n  TCP::payload replace 0 0 \">\"\n  TCP::release; TCP::collect\n}",
        &[&echo("a")],
    );
    let mut client = proxy.connect();
    for _ in 0..3 {
        client.send("hello\n");
        assert_eq!(line(&mut client).unwrap(), ">a:HELLO\n");
    }
    client.end();
    assert!(client.is_ended());
}

#[test]
fn a_rule_speaks_first_and_may_turn_a_client_away() {
    let proxy = tcp(
        "when CLIENT_ACCEPTED {\n  if { [IP::addr [IP::client_addr] equals 127.0.0.0/8] } { TCP::respond \"hello\\n\" }\n  TCP::collect\n}\nwhen CLIENT_DATA { if { [TCP::payload] contains \"bad\" } { reject } else { TCP::release } }",
        &[&echo("a")],
    );
    let mut client = proxy.connect();
    assert_eq!(line(&mut client).unwrap(), "hello\n");
    client.send("fine\n");
    assert_eq!(line(&mut client).unwrap(), "a:fine\n");
    let mut client = proxy.connect();
    assert_eq!(line(&mut client).unwrap(), "hello\n");
    client.send("bad\n");
    assert!(client.rest().is_err(), "a reset");
}

#[test]
fn closes_are_seen_and_the_table_is_shared() {
    let proxy = tcp(
        "when CLIENT_ACCEPTED { table incr open }\nwhen CLIENT_CLOSED { table incr open -1 }\nwhen SERVER_CONNECTED { clientside { TCP::respond \"[table lookup open]\\n\" } }",
        &[&echo("a")],
    );
    let first = proxy.connect();
    let mut second = proxy.connect();
    second.send("x\n");
    drop(first);
    until("the connections end", || proxy.engine.connections() == 1);
    drop(second);
    until("the last ends", || proxy.engine.connections() == 0);
}

#[test]
fn logs_go_to_a_pools_members_over_udp_and_tcp() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(common::LONG)).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let pools = format!(
        "pools: {{logs: {{members: [\"{}\"]}}, lines: {{members: [\"{}\"]}}, app:",
        udp.local_addr().unwrap(),
        tcp.local_addr().unwrap()
    );
    let rule = "when HTTP_REQUEST {\n  HSL::send [HSL::open -proto UDP -pool logs] \"<190> [HTTP::uri]\"\n  HSL::send [HSL::open -proto TCP -pool lines] \"<190> [HTTP::uri]\\n\"\n}";
    let base = text(rule, &[&mirror()], "", "").replace("pools: {app:", &pools);
    let proxy = Proxy::of(start(&base));
    proxy.connect().get("/logged");
    let mut bytes = [0; 100];
    let n = udp.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..n], b"<190> /logged");
    let (mut stream, _) = tcp.accept().unwrap();
    let mut line = [0; 14];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"<190> /logged\n");
}

#[test]
fn a_rule_asks_another_server_and_waits_for_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = [0; 4];
            stream.read_exact(&mut asked).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            stream.write_all(b"yes\n").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        }
    });
    let rule = format!(
        "when HTTP_REQUEST {{\n  set c [connect -timeout 3000 {address}]\n  send -timeout 1000 $c \"may?\"\n  set answer [recv -timeout 3000 4 $c]\n  close $c\n  HTTP::header insert X-Answer [string trim $answer]\n}}"
    );
    let proxy = http(&rule, &[&mirror()], "");
    assert!(proxy.connect().get("/").1.contains("X-Answer: yes\r\n"));
}

#[test]
fn a_rule_looks_a_name_up() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((n, from)) = server.recv_from(&mut bytes) {
            let mut answer = bytes[..n].to_vec();
            answer[2] |= 0x80;
            answer[7] = 1;
            answer.extend_from_slice(&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7]);
            server.send_to(&answer, from).unwrap();
        }
    });
    let rule = format!(
        "when HTTP_REQUEST {{ HTTP::header insert X-Found [RESOLV::lookup @{}:{} -a a.example] }}",
        address.ip(),
        address.port()
    );
    let proxy = http(&rule, &[&mirror()], "");
    let (_, seen) = proxy.connect().get("/");
    assert!(seen.contains("X-Found: 192.0.2.7\r\n"), "{seen}");
}

#[test]
fn data_groups_files_and_reputation_come_from_the_configuration() {
    let rule = "when HTTP_REQUEST {\n  HTTP::header insert X-Class [class match -value [HTTP::path] equals paths]\n  HTTP::header insert X-Net [class match [IP::client_addr] equals nets]\n}";
    let more = "data_groups:\n  paths: {records: {/a: first}}\n  nets: {type: address, records: [127.0.0.0/8]}\n";
    let proxy = http(rule, &[&mirror()], more);
    let (_, seen) = proxy.connect().get("/a");
    assert!(seen.contains("X-Class: first\r\n"), "{seen}");
    assert!(seen.contains("X-Net: 1\r\n"), "{seen}");
}

#[test]
fn a_client_comes_back_to_its_member_by_key_and_by_cookie() {
    let members = [
        Member::answering(|_| ok("a")),
        Member::answering(|_| ok("b")),
    ];
    let members = [&members[0], &members[1]];
    let rule = "when HTTP_REQUEST {\n  if { [HTTP::header exists X-Key] } { persist uie [HTTP::header X-Key] 60 } else { persist cookie insert MINE }\n}";
    let base = text(rule, &members, "", "").replace("balance: first", "balance: round-robin");
    let proxy = Proxy::of(start(&base));
    let mut client = proxy.connect();
    let ask = |client: &mut Wire, field: &str| {
        client.send(&format!("GET / HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n"));
        client.response()
    };
    for key in ["X-Key: 1", "X-Key: 2", "X-Key: 3"] {
        let first = ask(&mut client, key).1;
        for _ in 0..3 {
            assert_eq!(ask(&mut client, key).1, first);
        }
    }
    let (head, first) = ask(&mut client, "X: 1");
    let cookie = head.split("Set-Cookie: ").nth(1).unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with("MINE="), "{cookie}");
    for _ in 0..3 {
        let (head, body) = ask(&mut client, &format!("Cookie: {cookie}"));
        assert_eq!(body, first);
        assert!(!head.contains("Set-Cookie"), "{head}");
    }
}

#[test]
fn bytes_pass_as_they_are_once_http_is_left() {
    let member = Member::new(|_, mut wire| {
        let (head, _) = wire.request().unwrap();
        assert!(head.starts_with("GET /raw"));
        wire.send("not HTTP at all\n");
        let said = line(&mut wire).unwrap();
        wire.send(&said);
    });
    let proxy = http(
        "when HTTP_REQUEST { if { [HTTP::path] eq \"/raw\" } { HTTP::disable } }",
        &[&member],
        "",
    );
    let mut client = proxy.connect();
    client.send("GET /raw HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(line(&mut client).unwrap(), "not HTTP at all\n");
    client.send("back\n");
    assert_eq!(line(&mut client).unwrap(), "back\n");
}

#[test]
fn an_offender_is_turned_away_from_its_next_connection_on() {
    let proxy = http(
        "when HTTP_REQUEST { if { [HTTP::path] eq \"/bad\" } { SHUN::add [IP::client_addr] 60 } }",
        &[&mirror()],
        "",
    );
    let mut client = proxy.connect();
    client.get("/bad");
    let mut refused = proxy.connect();
    refused.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(refused.is_ended());
    // The one that is there goes on.
    assert!(client.get("/").0.starts_with("HTTP/1.1 200"));
}

#[test]
fn what_events_take_is_told() {
    let proxy = http("when HTTP_REQUEST { set a 1 }", &[&mirror()], "");
    proxy.connect().get("/");
    until("it is counted", || {
        let rows = proxy.engine.rule_profile();
        rows.iter()
            .any(|row| row.rule == "r" && row.event == "HTTP_REQUEST" && row.count == 1)
    });
}

#[test]
fn a_rule_that_wants_ever_more_bytes_sees_them_when_they_come_and_has_an_end() {
    let rule = "when CLIENT_ACCEPTED { TCP::collect }\nwhen CLIENT_DATA { if { [TCP::payload] contains \"\\n\" } { TCP::release } else { TCP::collect } }";
    let proxy = tcp(rule, &[&echo("a")]);
    let mut client = proxy.connect();
    for part in ["o", "n", "e\n"] {
        client.send(part);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(line(&mut client).unwrap(), "a:one\n");
    let mut client = proxy.connect();
    let mut sender = client.sender();
    for _ in 0..400 {
        if sender.write_all(&[b'x'; 16 * 1024]).is_err() {
            break;
        }
    }
    assert!(client.is_ended(), "a limit to what is held back");
    let mut client = proxy.connect();
    client.send("two\n");
    assert_eq!(line(&mut client).unwrap(), "a:two\n");
}
