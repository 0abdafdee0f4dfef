//! What rules look up: where an address is, what it is known for, names over TCP and in the machine's own list.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod common;
#[expect(unreachable_pub, reason = "it is another crate's too")]
#[path = "../../../tests/src/geography.rs"]
mod geography;

use common::LONG;
use common::script::{Member, Proxy, ok};
use proxy::{Engine, Inherited, Options};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;

/// A proxy whose rule shows what it finds in the fields of the request.
fn proxy(rule: &str, more: &str, files: &[(&str, &str)]) -> (Proxy, Member) {
    let member = Member::answering(ok);
    let mut text = Proxy::text(&[&member], "", "rules: [r]");
    text.push_str("rules:\n  r:\n    text: |\n");
    for line in rule.lines() {
        text.push_str(&format!("      {line}\n"));
    }
    text.push_str(more);
    let mut source = model::MemorySource::default();
    for (name, content) in files {
        source = source.file(name, content);
    }
    let config = model::parse_text(Path::new("test.yaml"), &text, &source)
        .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let engine = Engine::start(config, Inherited::none(), Options::default()).unwrap();
    (Proxy::of(engine), member)
}

#[test]
fn a_database_tells_the_country_of_an_address() {
    let database = geography::countries(&[
        (Ipv4Addr::new(127, 0, 0, 0), 8, "NO"),
        (Ipv4Addr::new(192, 0, 2, 0), 24, "DE"),
    ]);
    let file = std::env::temp_dir().join(format!("hg-geography-{}.mmdb", std::process::id()));
    std::fs::write(&file, database).unwrap();
    let name = file.to_str().unwrap();
    let rule = "when HTTP_REQUEST {
  HTTP::header insert X-Mine [whereis [IP::client_addr] country]
  HTTP::header insert X-Other [whereis 192.0.2.7 country]
  HTTP::header insert X-None <[whereis 198.51.100.1 country]>
}";
    let more = format!("geography: {name}\n");
    let (proxy, _member) = proxy(rule, &more, &[(name, "")]);
    std::fs::remove_file(&file).unwrap();
    let (_, seen) = proxy.connect().get("/");
    assert!(seen.contains("X-Mine: NO\r\n"), "{seen}");
    assert!(seen.contains("X-Other: DE\r\n"), "{seen}");
    assert!(seen.contains("X-None: <>\r\n"), "{seen}");
}

#[test]
fn lists_tell_what_an_address_is_known_for() {
    let rule = "when HTTP_REQUEST {
  HTTP::header insert X-Mine [IP::reputation [IP::client_addr]]
  HTTP::header insert X-Both [IP::reputation 192.0.2.7]
  HTTP::header insert X-None <[IP::reputation 198.51.100.1]>
}";
    let more =
        "reputation:\n- {file: spam, category: Spam Sources}\n- {file: bots, category: Botnets}\n";
    let files = [
        ("spam", "# senders\n127.0.0.0/8\n192.0.2.7\n"),
        ("bots", "192.0.2.0/24\n"),
    ];
    let (proxy, _member) = proxy(rule, more, &files);
    let (_, seen) = proxy.connect().get("/");
    assert!(seen.contains("X-Mine: {Spam Sources}\r\n"), "{seen}");
    assert!(
        seen.contains("X-Both: {Spam Sources} Botnets\r\n"),
        "{seen}"
    );
    assert!(seen.contains("X-None: <>\r\n"), "{seen}");
}

#[test]
fn an_answer_too_long_for_a_datagram_is_fetched_over_tcp() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).unwrap();
    udp.set_read_timeout(Some(LONG)).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        let (n, from) = udp.recv_from(&mut bytes).unwrap();
        let mut answer = bytes[..n].to_vec();
        // Truncated, without a record.
        answer[2] |= 0x82;
        udp.send_to(&answer, from).unwrap();
        let (mut stream, _) = tcp.accept().unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut asked = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut asked).unwrap();
        asked[2] |= 0x80;
        asked[7] = 200;
        for last in 0..200 {
            asked.extend_from_slice(&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, last]);
        }
        let length = u16::try_from(asked.len()).unwrap().to_be_bytes();
        stream.write_all(&length).unwrap();
        stream.write_all(&asked).unwrap();
    });
    let (ip, port) = (address.ip(), address.port());
    let rule = format!(
        "when HTTP_REQUEST {{
  set found [RESOLV::lookup @{ip}:{port} -a many.example]
  HTTP::header insert X-Found \"[llength $found] [lindex $found 199]\"
}}"
    );
    let (proxy, _member) = proxy(&rule, "", &[]);
    let (_, seen) = proxy.connect().get("/");
    assert!(seen.contains("X-Found: 200 192.0.2.199\r\n"), "{seen}");
}

#[test]
fn the_machines_own_names_are_known() {
    // Every machine has this one.
    let rule = "when HTTP_REQUEST {
  HTTP::header insert X-Found [lsearch -exact [RESOLV::lookup -a localhost] 127.0.0.1]
  HTTP::header insert X-Name <[RESOLV::lookup -ptr 127.0.0.1]>
}";
    let (proxy, _member) = proxy(rule, "", &[]);
    let (_, seen) = proxy.connect().get("/");
    assert!(seen.contains("X-Found: 0\r\n"), "{seen}");
    assert!(!seen.contains("X-Name: <>\r\n"), "{seen}");
}
