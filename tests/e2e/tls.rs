//! TLS towards clients and members, with real programs on the other side.

use crate::support::config;
use headgate_tests::{Authority, Builder, Headgate, Origin, Program, eventually, run};

/// A Headgate with certificates for `one.example` (the first) and `two.example`, and `ca.pem`.
fn with_tls(profile: &str) -> (Headgate, Origin, Authority) {
    let origin = Origin::named("a");
    let authority = Authority::new("authority");
    let builder = Builder::new();
    authority.issue(builder.dir(), "one", &["one.example"]);
    authority.issue(builder.dir(), "two", &["two.example", "*.two.example"]);
    authority.issue_numbered(builder.dir(), "good", &["good client"], 10);
    authority.issue_numbered(builder.dir(), "revoked", &["revoked client"], 11);
    builder.dir().write("ca.pem", authority.pem());
    builder.dir().write("list.crl", authority.revoke(11));
    let gate = builder.start(&format!(
        "tls_profiles:\n  site:\n    certificates:\n      \
         - {{certificate: $DIR/one.pem, key: $DIR/one.key}}\n      \
         - {{certificate: $DIR/two.pem, key: $DIR/two.key}}\n{profile}{}",
        config(
            origin.address(),
            "tls: site, headers: {request: [{set: {name: X-Who, value: '{client_cert_subject}'}}]}",
            ""
        )
    ));
    (gate, origin, authority)
}

/// Asks by openssl's client: what it says of the session, and the response.
fn s_client(gate: &Headgate, args: &[&str]) -> String {
    let to = gate.at(8080).to_string();
    let ca = gate.dir().path().join("ca.pem").display().to_string();
    let mut all = vec!["s_client", "-connect", &to, "-CAfile", &ca, "-ign_eof"];
    all.extend(args);
    run(
        "openssl",
        &all,
        "GET / HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n\r\n",
    )
    .1
}

#[test]
fn both_versions_are_spoken_and_older_ones_not() {
    let (gate, _origin, _) = with_tls("");
    for (option, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let out = s_client(&gate, &[option, "-servername", "one.example"]);
        assert!(out.contains("HTTP/1.1 200 OK"), "{out}");
        assert!(out.contains(&format!("{version}, Cipher is")), "{out}");
        assert!(out.contains("Verification: OK"), "{out}");
    }
    let out = s_client(&gate, &["-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"]);
    assert!(!out.contains("HTTP/1.1 200"), "{out}");
    eventually("the failure is counted", || {
        (gate.counter("web", "tls_failed") >= 1).then_some(())
    });
}

#[test]
fn the_least_version_is_held() {
    let (gate, _origin, _) = with_tls("    min_version: \"1.3\"\n");
    assert!(!s_client(&gate, &["-tls1_2"]).contains("HTTP/1.1 200"));
    assert!(s_client(&gate, &["-tls1_3"]).contains("HTTP/1.1 200"));
}

#[test]
fn the_certificate_fits_the_name_that_is_asked_for() {
    let (gate, _origin, _) = with_tls("");
    for (asked, shown) in [
        ("one.example", "CN = one.example"),
        ("two.example", "CN = two.example"),
        ("x.two.example", "CN = two.example"),
        ("other.example", "CN = one.example"),
    ] {
        let out = s_client(&gate, &["-servername", asked]);
        assert!(out.contains(shown), "{asked}: {out}");
    }
    assert!(s_client(&gate, &["-noservername"]).contains("CN = one.example"));
}

#[test]
fn application_protocols_are_agreed_on() {
    let (gate, _origin, _) = with_tls("    alpn: [http/1.1]\n");
    let out = s_client(&gate, &["-alpn", "h2,http/1.1"]);
    assert!(out.contains("ALPN protocol: http/1.1"), "{out}");
}

#[test]
fn sessions_are_resumed_in_both_versions() {
    let (gate, _origin, _) = with_tls("");
    for option in ["-tls1_2", "-tls1_3"] {
        let file = gate.dir().path().join("session").display().to_string();
        let first = s_client(&gate, &[option, "-sess_out", &file]);
        assert!(first.contains("New, "), "{first}");
        let second = s_client(&gate, &[option, "-sess_in", &file]);
        assert!(second.contains("Reused, "), "{option}: {second}");
        assert!(second.contains("HTTP/1.1 200 OK"));
    }
    assert_eq!(gate.counter("web", "tls_resumed"), 2);
}

#[test]
fn a_required_certificate_is_asked_for_verified_and_told() {
    let (gate, origin, _) =
        with_tls("    client_auth: {mode: required, ca: $DIR/ca.pem, crl: [$DIR/list.crl]}\n");
    let file = |name: &str| gate.dir().path().join(name).display().to_string();
    for option in ["-tls1_2", "-tls1_3"] {
        let none = s_client(&gate, &[option]);
        assert!(!none.contains("HTTP/1.1 200"), "{none}");
        let revoked = [
            "-cert",
            &file("revoked.pem"),
            "-key",
            &file("revoked.key"),
            option,
        ];
        let out = s_client(&gate, &revoked);
        assert!(!out.contains("HTTP/1.1 200"), "{out}");
        let good = [
            "-cert",
            &file("good.pem"),
            "-key",
            &file("good.key"),
            option,
        ];
        let out = s_client(&gate, &good);
        assert!(out.contains("HTTP/1.1 200"), "{out}");
        assert_eq!(origin.last().field("x-who"), Some("CN=good client"));
    }
    let stranger = Authority::new("stranger");
    stranger.issue(gate.dir(), "stranger", &["stranger"]);
    let out = s_client(
        &gate,
        &[
            "-cert",
            &file("stranger.pem"),
            "-key",
            &file("stranger.key"),
        ],
    );
    assert!(!out.contains("HTTP/1.1 200"), "{out}");
}

#[test]
fn an_optional_certificate_may_be_missing_but_not_bad() {
    let (gate, origin, _) =
        with_tls("    client_auth: {mode: optional, ca: $DIR/ca.pem, crl: [$DIR/list.crl]}\n");
    let file = |name: &str| gate.dir().path().join(name).display().to_string();
    assert!(s_client(&gate, &[]).contains("HTTP/1.1 200"));
    assert_eq!(origin.last().field("x-who").unwrap_or_default(), "");
    let revoked = ["-cert", &file("revoked.pem"), "-key", &file("revoked.key")];
    assert!(!s_client(&gate, &revoked).contains("HTTP/1.1 200"));
}

#[test]
fn a_name_is_required_where_that_is_asked() {
    let (gate, _origin, _) = with_tls("    require_sni: true\n");
    assert!(s_client(&gate, &["-servername", "one.example"]).contains("HTTP/1.1 200"));
    assert!(!s_client(&gate, &["-noservername"]).contains("HTTP/1.1 200"));
    assert!(!s_client(&gate, &["-servername", "x.example"]).contains("HTTP/1.1 200"));
}

#[test]
fn curl_is_served_over_tls_and_its_proto_is_told() {
    let (gate, origin, _) = with_tls("");
    let ca = gate.dir().path().join("ca.pem").display().to_string();
    let resolve = format!("one.example:8080:{}", gate.at(8080).ip());
    let url = "https://one.example:8080/x";
    let args = [
        "-sS",
        "--http1.1",
        "--cacert",
        &ca,
        "--resolve",
        &resolve,
        url,
        url,
        url,
    ];
    let (good, out) = run("curl", &args, "");
    assert!(good && out == "aaa", "{out}");
    assert_eq!(origin.last().field("x-forwarded-proto"), Some("https"));
    assert_eq!(
        gate.counter("web", "tls_handshakes"),
        1,
        "curl keeps its connection"
    );
}

#[test]
fn what_is_no_tls_is_no_request_either() {
    let (gate, origin, _) = with_tls("");
    let mut wire = headgate_tests::Wire::connect(gate.at(8080));
    wire.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    wire.to_end();
    eventually("the failure is counted", || {
        (gate.counter("web", "tls_failed") == 1).then_some(())
    });
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn members_are_reached_over_tls_and_only_if_they_are_who_they_should_be() {
    let authority = Authority::new("authority");
    let builder = Builder::new();
    authority.issue(builder.dir(), "member", &["member.internal"]);
    builder.dir().write("ca.pem", authority.pem());
    builder
        .dir()
        .write("other.pem", Authority::new("other").pem());
    let address = headgate_tests::address();
    let file = |name: &str| builder.dir().path().join(name).display().to_string();
    let accept = format!("{address}:8443");
    let args = [
        "s_server",
        "-accept",
        &accept,
        "-cert",
        &file("member.pem"),
        "-key",
        &file("member.key"),
        "-www",
    ];
    let _server = Program::start("openssl", &args);
    let pool = |tls: &str| format!("{{members: ['{accept}'], tls: {tls}, ejection: off}}");
    let gate = builder.start(&format!(
        r#"
pools:
  right: {}
  name: {}
  authority: {}
  careless: {}
virtuals:
  web:
    listen: '$IP:8080'
    routes:
      - {{match: {{path: /right}}, pool: right}}
      - {{match: {{path: /name}}, pool: name}}
      - {{match: {{path: /authority}}, pool: authority}}
      - {{match: {{path: /careless}}, pool: careless}}
"#,
        pool("{ca: $DIR/ca.pem, server_name: member.internal}"),
        pool("{ca: $DIR/ca.pem, server_name: another.internal}"),
        pool("{ca: $DIR/other.pem, server_name: member.internal}"),
        pool("{verify: false}"),
    ));
    let status = |path: &str| {
        let mut wire = headgate_tests::Wire::connect(gate.at(8080));
        wire.get(path).status()
    };
    eventually("the member serves", || {
        (status("/right") == 200).then_some(())
    });
    assert_eq!(status("/careless"), 200);
    assert_eq!(status("/name"), 502, "a certificate for another name");
    assert_eq!(
        status("/authority"),
        502,
        "an authority that is not trusted"
    );
}
