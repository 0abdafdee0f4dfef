//! TCP virtuals, TLS passed through by server name, and the PROXY protocol on both sides.

use crate::support::config;
use headgate_tests::{Authority, Builder, Headgate, Origin, Program, Wire, eventually, noise, run};
use std::time::Duration;

#[test]
fn bytes_pass_both_ways_and_each_way_ends_by_itself() {
    let origin = Origin::scripted(|mut wire, _| {
        wire.send("hello ");
        let all = wire.to_end();
        wire.send(all);
    });
    let gate = Headgate::start(&config(origin.address(), "protocol: tcp", ""));
    let mut wire = Wire::connect(gate.at(8080));
    assert_eq!(
        wire.exactly(6).unwrap(),
        b"hello ",
        "the server may speak first"
    );
    let body = noise(1, 1 << 20);
    let mut other = Wire::of(wire.stream().try_clone().unwrap());
    let sent = body.clone();
    let sender = std::thread::spawn(move || {
        other.send(sent);
        other.finish();
    });
    assert!(wire.to_end() == body);
    sender.join().unwrap();
    let line = gate.access_line(|line| line["protocol"] == "tcp");
    assert_eq!(line["bytes_in"], body.len());
    assert_eq!(line["bytes_out"], body.len() + 6);
}

#[test]
fn a_tcp_member_that_refuses_is_passed_over() {
    let origin = Origin::scripted(|mut wire, _| wire.send("up"));
    let gate = Headgate::start(&format!(
        "pools: {{app: {{balance: first, members: ['{}', '{}']}}}}\n\
         virtuals: {{db: {{listen: '$IP:8080', protocol: tcp, pool: app}}}}",
        Origin::refusing(),
        origin.address()
    ));
    for _ in 0..5 {
        assert_eq!(Wire::connect(gate.at(8080)).to_end(), b"up");
    }
}

#[test]
fn a_silent_tcp_connection_is_closed_after_its_time() {
    let origin = Origin::scripted(|mut wire, _| {
        wire.to_end();
    });
    let gate = Headgate::start(&config(
        origin.address(),
        "protocol: tcp, timeouts: {tunnel: 300ms}",
        "",
    ));
    Wire::connect(gate.at(8080)).assert_closed();
}

#[test]
fn a_trusted_proxys_header_tells_who_the_client_is_and_is_passed_on() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&config(
        origin.address(),
        "proxy_protocol: {from: [127.0.0.0/24], required: true}",
        "",
    ));
    let mut wire = Wire::connect(gate.at(8080));
    wire.send("PROXY TCP4 203.0.113.7 192.0.2.1 5555 80\r\nGET /v1 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(wire.response().status(), 200);
    assert_eq!(origin.last().field("x-forwarded-for"), Some("203.0.113.7"));
    let mut wire = Wire::connect(gate.at(8080));
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
    header.extend([203, 0, 113, 8, 192, 0, 2, 1, 0x15, 0xb3, 0, 80]);
    // In pieces, as it may come.
    for part in header.chunks(5) {
        wire.send(part);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(wire.get("/v2").status(), 200);
    assert_eq!(origin.last().field("x-forwarded-for"), Some("203.0.113.8"));
    let mut without = Wire::connect(gate.at(8080));
    without.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(without.try_response("GET").is_err(), "it is required");
    let mut stranger = Wire::connect_from("127.0.1.9".parse().unwrap(), gate.at(8080));
    stranger.send("PROXY TCP4 203.0.113.7 192.0.2.1 5555 80\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let believed = stranger
        .try_response("GET")
        .is_ok_and(|r| r.status() == 200);
    assert!(!believed, "a stranger's header is not believed");
}

#[test]
fn members_are_told_the_client_by_version_1_and_2() {
    for (version, expected) in [
        ("v1", &b"PROXY TCP4 127.0.0.1 "[..]),
        ("v2", b"\r\n\r\n\0\r\nQUIT\n\x21\x11"),
    ] {
        let origin = Origin::scripted(move |mut wire, _| {
            let begin = wire.exactly(expected.len()).unwrap_or_default();
            wire.send(if begin == expected { "right" } else { "wrong" });
        });
        let gate = Headgate::start(&config(
            origin.address(),
            "protocol: tcp",
            &format!("proxy_protocol: {version}"),
        ));
        let mut wire = Wire::connect(gate.at(8080));
        wire.send("x");
        assert_eq!(wire.to_end(), b"right", "{version}");
    }
}

#[test]
fn clients_do_not_share_a_connection_that_names_one_of_them() {
    let origin = Origin::scripted(|mut wire, _| {
        let line = wire.line().unwrap();
        while wire.request().is_some() {
            wire.send(crate::support::ok(&line[..22]));
        }
    });
    let gate = Headgate::start(&config(origin.address(), "", "proxy_protocol: v1"));
    for _ in 0..3 {
        let mut wire = Wire::connect(gate.at(8080));
        assert_eq!(wire.get("/").text(), "PROXY TCP4 127.0.0.1 1");
    }
    assert_eq!(origin.accepted(), 3);
}

#[test]
fn tls_goes_by_its_server_name_unopened() {
    let authority = Authority::new("authority");
    let builder = Builder::new();
    for name in ["a", "b", "rest"] {
        authority.issue(builder.dir(), name, &[&format!("{name}.example")]);
    }
    let origin_ip = headgate_tests::address();
    let _servers: Vec<Program> = ["a", "b", "rest"]
        .iter()
        .zip(8001..)
        .map(|(name, port)| {
            let file = |kind| {
                builder
                    .dir()
                    .path()
                    .join(format!("{name}.{kind}"))
                    .display()
                    .to_string()
            };
            let accept = format!("{origin_ip}:{port}");
            let args = [
                "s_server",
                "-accept",
                &accept,
                "-cert",
                &file("pem"),
                "-key",
                &file("key"),
                "-www",
            ];
            Program::start("openssl", &args)
        })
        .collect();
    let gate = builder.start(&format!(
        r#"
pools:
  a: {{members: ['{origin_ip}:8001']}}
  b: {{members: ['{origin_ip}:8002']}}
  rest: {{members: ['{origin_ip}:8003']}}
virtuals:
  front:
    listen: '$IP:8443'
    protocol: tls-passthrough
    sni_routes:
      - {{sni: a.example, pool: a}}
      - {{sni: "*.b.example", pool: b}}
    pool: rest
"#
    ));
    let to = gate.at(8443).to_string();
    for (asked, shown) in [
        ("a.example", "CN = a.example"),
        ("x.b.example", "CN = b.example"),
        ("elsewhere.example", "CN = rest.example"),
    ] {
        eventually(asked, || {
            let args = ["s_client", "-connect", &to, "-servername", asked];
            run("openssl", &args, "").1.contains(shown).then_some(())
        });
    }
    let mut plain = Wire::connect(gate.at(8443));
    plain.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(
        plain.try_response("GET").is_err(),
        "what is no TLS goes nowhere"
    );
}
