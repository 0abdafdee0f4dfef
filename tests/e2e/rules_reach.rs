//! What rules reach besides the connection: logs, names, other servers, lists, and connections that are not HTTP.

use crate::support::{config, mirror, ok, ruled, rules};
use headgate_tests::{Builder, Headgate, Origin, PATIENCE, Wire, eventually};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

#[test]
fn logs_go_to_real_sockets_over_udp_and_tcp() {
    let udp = UdpSocket::bind((headgate_tests::address(), 0)).unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    let tcp = TcpListener::bind((headgate_tests::address(), 0)).unwrap();
    let rule = "when CLIENT_ACCEPTED {
    set udp [HSL::open -proto UDP -pool datagrams]
    set tcp [HSL::open -proto TCP -pool lines]
}
when HTTP_RESPONSE {
    HSL::send $udp \"<190> [HTTP::status]\"
    HSL::send $tcp \"<190>|[IP::client_addr]|[HTTP::status]\\n\"
}
";
    let pools = format!(
        "pools:\n  datagrams: {{members: ['{}']}}\n  lines: {{members: ['{}']}}\n",
        udp.local_addr().unwrap(),
        tcp.local_addr().unwrap()
    );
    let origin = mirror();
    let gate = Headgate::start(&format!(
        "workers: 1\n{}",
        ruled(rule, origin.address()).replace("pools:\n", &pools)
    ));
    let mut client = Wire::connect_from(Ipv4Addr::LOCALHOST.into(), gate.at(8080));
    for _ in 0..3 {
        client.get("/");
        let mut bytes = [0; 100];
        let n = udp.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..n], b"<190> 200");
    }
    let (stream, _) = tcp.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let lines: Vec<String> = BufReader::new(stream)
        .lines()
        .take(3)
        .map(Result::unwrap)
        .collect();
    assert_eq!(lines, ["<190>|127.0.0.1|200"; 3]);
}

/// A name server that knows one name: `a.example` is 192.0.2.7 and 192.0.2.8. To others it says that there is no such name,
/// to `slow.example` nothing.
fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind((headgate_tests::address(), 0)).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut bytes) {
            let mut answer = bytes[..n].to_vec();
            let is = |name: &[u8]| bytes[12..n].starts_with(name);
            if is(b"\x04stop") {
                return;
            }
            if is(b"\x04slow\x07example\0") {
                continue;
            }
            answer[2] |= 0x80;
            if is(b"\x01a\x07example\0\0\x01") {
                answer[7] = 2;
                for last in [7, 8] {
                    answer.extend_from_slice(&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4]);
                    answer.extend_from_slice(&[192, 0, 2, last]);
                }
            } else {
                answer[3] |= 3;
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

#[test]
fn names_are_looked_up_while_others_are_served() {
    let server = name_server();
    let rule = "when HTTP_REQUEST {
    if { [HTTP::path] eq \"/\" } { HTTP::respond 200 content none; return }
    set name [string range [HTTP::path] 1 end]
    HTTP::respond 200 content \"found: [RESOLV::lookup @SERVER -a $name]\"
}
";
    let rule = rule.replace("SERVER", &server.to_string());
    let virtuals = "virtuals: {web: {listen: '$IP:8080', rules: [r]}}\n";
    let gate = Headgate::start(&format!("workers: 1\n{}{virtuals}", rules(&[("r", &rule)])));
    let mut slow = Wire::connect(gate.at(8080));
    slow.send("GET /slow.example HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut client = Wire::connect(gate.at(8080));
    assert_eq!(
        client.get("/a.example").text(),
        "found: 192.0.2.7 192.0.2.8"
    );
    assert_eq!(client.get("/b.example").text(), "found: ");
    assert_eq!(client.get("/").text(), "none");
    assert_eq!(slow.response().text(), "found: ", "at last it gives up");
    let stop = [0; 12].iter().chain(b"\x04stop\0\0\x01\0\x01").copied();
    let ours = UdpSocket::bind((headgate_tests::address(), 0)).unwrap();
    ours.send_to(&stop.collect::<Vec<u8>>(), server).unwrap();
}

#[test]
fn a_rule_talks_to_another_server_before_it_decides() {
    let oracle = Origin::scripted(|mut wire, _| {
        while let Ok(line) = wire.line() {
            let answer = match line.as_str() {
                "may alice?" => "yes\r\n",
                "wait" => {
                    std::thread::sleep(Duration::from_millis(600));
                    "late\r\n"
                }
                _ => "no\r\n",
            };
            if wire.try_send(answer).is_err() {
                return;
            }
        }
    });
    let rule = "when HTTP_REQUEST {
    set to [expr { [HTTP::path] eq \"/down\" ? \"DOWN\" : \"ORACLE\" }]
    set side [connect -timeout 2000 -idle 30 -status how $to]
    if { $side eq \"\" } { HTTP::respond 502 content \"none: $how\"; return }
    if { [HTTP::path] eq \"/wait\" } {
        send $side \"wait\\r\\n\"
        set early [recv -timeout 100 -status what $side]
        set late [recv -timeout 5000 -eol \"\\r\\n\" $side]
        HTTP::respond 200 content \"$early $what [string trim $late]\"
    } else {
        set sent [send -timeout 1000 -status what $side \"may [HTTP::header X-Who]?\\r\\n\"]
        set answer [string trim [recv -timeout 3000 -eol \"\\r\\n\" $side]]
        HTTP::respond 200 content \"$how $what $sent $answer\"
    }
    close $side
}
";
    let rule = rule
        .replace("DOWN", &Origin::refusing().to_string())
        .replace("ORACLE", &oracle.address().to_string());
    let virtuals = "virtuals: {web: {listen: '$IP:8080', rules: [r]}}\n";
    let gate = Headgate::start(&(rules(&[("r", &rule)]) + virtuals));
    let mut client = Wire::connect(gate.at(8080));
    for (who, answer) in [
        ("alice", "connected sent 12 yes"),
        ("bob", "connected sent 10 no"),
    ] {
        client.send(format!("GET / HTTP/1.1\r\nHost: h\r\nX-Who: {who}\r\n\r\n"));
        assert_eq!(client.response().text(), answer);
    }
    assert_eq!(client.get("/wait").text(), " timeout late");
    let answer = client.get("/down");
    assert_eq!(answer.status(), 502, "{}", answer.text());
}

#[test]
fn data_groups_of_files_are_taken_over_when_they_change() {
    let builder = Builder::new();
    let dir = builder.dir();
    dir.write(
        "paths.txt",
        "\"/old\" := \"first\",\n\"/app\" := \"second\",\n",
    );
    dir.write(
        "nets.txt",
        "network 127.0.0.0/30,\nhost 127.0.0.9 := \"one\",\n",
    );
    let rule = "when HTTP_REQUEST {
    HTTP::respond 200 content \"[class match -value [HTTP::path] starts_with paths] [class match [IP::client_addr] equals nets] [class size paths]\"
}
";
    let config = format!(
        "{}data_groups:\n  paths: {{type: string, file: $DIR/paths.txt}}\n  nets: {{type: address, file: $DIR/nets.txt}}\n\
         virtuals: {{web: {{listen: '$IP:8080', rules: [r]}}}}\n",
        rules(&[("r", rule)])
    );
    let gate = builder.start(&config);
    let from = |last: u8| Wire::connect_from(Ipv4Addr::new(127, 0, 0, last).into(), gate.at(8080));
    let mut open = from(1);
    assert_eq!(open.get("/app/x").text(), "second 1 2");
    assert_eq!(from(9).get("/old").text(), "first 1 2");
    assert_eq!(from(8).get("/none").text(), " 0 2");
    gate.dir().write("paths.txt", "\"/app\" := \"changed\",\n");
    let (status, answer) = gate.api("POST", "/v1/reload", "");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(from(1).get("/app/x").text(), "changed 1 1");
    assert_eq!(
        open.get("/app/x").text(),
        "changed 1 1",
        "open connections see it too"
    );
    gate.dir().write("paths.txt", "\"/app\" := \"unended\n");
    let (status, answer) = gate.api("POST", "/v1/reload", "");
    assert!(
        status >= 400 && answer.to_string().contains("paths"),
        "{answer}"
    );
    assert_eq!(open.get("/app/x").text(), "changed 1 1");
}

#[test]
fn an_offender_that_a_rule_hands_over_is_turned_away_for_a_while() {
    let rule = "when HTTP_REQUEST {
    if { [HTTP::path] eq \"/attack\" } { HTTP::respond 200 content [SHUN::add [IP::client_addr] 2] } else { HTTP::respond 200 content hi }
}
";
    let virtuals = "virtuals: {web: {listen: '$IP:8080', rules: [r]}}\n";
    let gate = Headgate::start(&(rules(&[("r", rule)]) + virtuals));
    let ask = |last: u8, path: &str| {
        let address = IpAddr::from(Ipv4Addr::new(127, 0, 0, last));
        let mut client = Wire::connect_from(address, gate.at(8080));
        let sent = client.try_send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        sent.and_then(|()| client.try_response("GET"))
            .ok()
            .map(|answer| answer.text())
    };
    assert_eq!(ask(1, "/").as_deref(), Some("hi"));
    let begun = Instant::now();
    assert_eq!(ask(1, "/attack").as_deref(), Some("1"));
    assert_eq!(ask(1, "/"), None, "turned away");
    assert_eq!(ask(2, "/").as_deref(), Some("hi"), "others are not");
    assert!(gate.refusals("web", "shunned") >= 1, "it is counted");
    eventually("it is let in again", || ask(1, "/"));
    assert!(
        begun.elapsed() >= Duration::from_millis(1900),
        "not before its time"
    );
}

#[test]
fn tcp_connections_are_looked_into_answered_and_their_end_seen() {
    let origin = Origin::scripted(|mut wire, _| {
        while let Ok(line) = wire.line() {
            if wire.try_send(format!("echo {line}\r\n")).is_err() {
                return;
            }
        }
    });
    let rule = "when CLIENT_ACCEPTED {
    set bytes 0
    TCP::respond \"hello [IP::client_addr]\\r\\n\"
    TCP::collect 4
}
when CLIENT_DATA {
    incr bytes [TCP::payload length]
    if { [TCP::payload] starts_with \"QUIT\" } {
        TCP::respond \"bye\\r\\n\"
        TCP::close
        return
    }
    TCP::payload replace 0 [TCP::payload length] [string toupper [TCP::payload]]
    TCP::release
    TCP::collect
}
when SERVER_CONNECTED { TCP::collect }
when SERVER_DATA {
    TCP::payload replace 0 0 \"> \"
    TCP::release
    TCP::collect
}
when CLIENT_CLOSED { log local0.info \"gone after $bytes bytes\" }
when SERVER_CLOSED { log local0.info \"server gone\" }
";
    let config = rules(&[("r", rule)]) + &config(origin.address(), "protocol: tcp, rules: [r]", "");
    let gate = Headgate::start(&config);
    let mut client = Wire::connect_from(Ipv4Addr::LOCALHOST.into(), gate.at(8080));
    assert_eq!(client.line().unwrap(), "hello 127.0.0.1");
    client.send("on");
    assert!(
        client.is_silent(Duration::from_millis(100)),
        "two bytes are not enough"
    );
    assert_eq!(origin.accepted(), 0, "the member waits too");
    client.send("e\r\n");
    assert_eq!(client.line().unwrap(), "> echo ONE");
    client.send("two\r\n");
    assert_eq!(client.line().unwrap(), "> echo TWO");
    client.finish();
    client.assert_closed();
    let logged = |text: &str| {
        eventually(text, || gate.log().contains(text).then_some(()));
    };
    logged("gone after 10 bytes");
    logged("server gone");
    let mut client = Wire::connect(gate.at(8080));
    client.line().unwrap();
    client.send("QUIT\r\n");
    assert_eq!(client.line().unwrap(), "bye");
    client.assert_closed();
    logged("gone after 6 bytes");
    assert_eq!(origin.accepted(), 1, "it was not asked");
}

#[test]
fn a_response_that_a_rule_collects_counts_its_bytes_in_a_shared_table() {
    let origin = Origin::answering(|_| ok("12345"));
    let rule = "when HTTP_RESPONSE { HTTP::collect [HTTP::header Content-Length] }
when HTTP_RESPONSE_DATA { table incr -subtable sizes [IP::client_addr] [HTTP::payload length]; HTTP::release }
when CLIENT_CLOSED { log local0.info \"[IP::client_addr] had [table lookup -subtable sizes [IP::client_addr]], keys [table keys -subtable sizes -count]\" }
";
    let gate = Headgate::start(&ruled(rule, origin.address()));
    for last in [1, 2, 1] {
        let address = Ipv4Addr::new(127, 0, 0, last);
        let mut client = Wire::connect_from(address.into(), gate.at(8080));
        assert_eq!(client.get("/").text(), "12345");
        assert_eq!(client.get("/").text(), "12345");
        client.finish();
        client.assert_closed();
    }
    eventually("all are gone", || {
        gate.log()
            .contains("127.0.0.1 had 20, keys 2")
            .then_some(())
    });
}
