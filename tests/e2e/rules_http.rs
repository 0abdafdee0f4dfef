//! What rules do with requests and responses: answers of their own, bodies, members, waiting.

use crate::support::{config, mirror, ok, ruled, rules};
use headgate_tests::{Authority, Builder, Headgate, Origin, Wire, eventually, noise, run};
use std::time::{Duration, Instant};

#[test]
fn a_virtual_needs_no_pool_where_a_rule_answers_all() {
    let rule = "when HTTP_REQUEST {
    set path [HTTP::path]
    switch -glob $path {
        /moved* { HTTP::redirect \"http://[HTTP::host]/own?from=[URI::encode [HTTP::uri]]\" }
        /own { HTTP::respond 403 content \"no: [HTTP::query]\" X-Why rule Content-Type text/plain }
        /file { HTTP::respond 503 content [ifile get page] Retry-After 60 }
        /lost { }
        default { HTTP::respond 200 -version 1.0 content [HTTP::method] }
    }
    log local0.info \"$path [HTTP::has_responded]\"
}
";
    let builder = Builder::new();
    builder.dir().write("page.html", "<p>back soon</p>");
    let gate = builder.start(&format!(
        "{}ifiles: {{page: $DIR/page.html}}\nvirtuals: {{web: {{listen: '$IP:8080', rules: [r]}}}}\n",
        rules(&[("r", rule)])
    ));
    let mut client = Wire::connect(gate.at(8080));
    let answer = client.get("/own?a=b");
    assert_eq!((answer.status(), answer.text()), (403, "no: a=b".into()));
    assert_eq!(answer.field("x-why"), Some("rule"));
    assert_eq!(answer.all("content-type"), ["text/plain"]);
    let answer = client.get("/file");
    assert_eq!(
        (answer.status(), answer.text()),
        (503, "<p>back soon</p>".into())
    );
    assert_eq!(answer.field("retry-after"), Some("60"));
    let url = format!("http://{}/moved?x=1", gate.at(8080));
    let (done, text) = run(
        "curl",
        &["-sS", "-L", "-w", " %{num_redirects} %{http_code}", &url],
        "",
    );
    assert!(done && text.ends_with(" 1 403"), "{text}");
    assert!(text.contains("no: from="), "{text}");
    // Where the rule says nothing, there is nobody to ask.
    let lost = Wire::connect(gate.at(8080)).get("/lost");
    assert!(lost.status() == 503 || lost.status() == 404, "{lost:?}");
    let (done, text) = run(
        "curl",
        &["-sS", "-I", "-X", "HEAD", &url.replace("moved", "else")],
        "",
    );
    assert!(done && text.contains(" 200 "), "{text}");
    eventually("the log has what the rule said", || {
        gate.log().contains("/own 1").then_some(())
    });
    assert!(gate.log().contains("/lost 0"), "{}", gate.log());
}

#[test]
fn bodies_are_collected_and_replaced_both_ways() {
    let rule = "when HTTP_REQUEST {
    if { [HTTP::method] eq \"POST\" } { HTTP::collect [HTTP::header Content-Length] }
}
when HTTP_REQUEST_DATA {
    set old [HTTP::payload]
    HTTP::payload replace 0 [HTTP::payload length] [string map {secret ******} $old]
    HTTP::release
}
when HTTP_RESPONSE {
    if { [HTTP::header exists X-Big] } { return }
    if { [HTTP::header exists Content-Length] } { HTTP::collect [HTTP::header Content-Length] } else { HTTP::collect 1000000 }
}
when HTTP_RESPONSE_DATA {
    HTTP::payload replace 0 0 \"<[HTTP::payload length]>\"
    HTTP::release
}
";
    let big = noise(5, 600_000);
    let sent = big.clone();
    let origin = Origin::answering(move |request| match request.target() {
        "/big" => {
            let head = format!(
                "HTTP/1.1 200 OK\r\nX-Big: 1\r\nContent-Length: {}\r\n\r\n",
                sent.len()
            );
            [head.as_bytes(), &sent].concat()
        }
        "/chunked" => {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
                .to_vec()
        }
        "/long" => ok(&"x".repeat(300_000)),
        _ => ok(&request.text()),
    });
    let gate = Headgate::start(&ruled(rule, origin.address()));
    let mut client = Wire::connect(gate.at(8080));
    for _ in 0..2 {
        client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\n\r\na secre");
        client.send("t is a.");
        assert_eq!(client.response().text(), "<14>a ****** is a.");
        assert_eq!(client.get("/chunked").text(), "<5>abcde");
        let long = client.get("/long").text();
        assert_eq!(long.len(), 300_008);
        assert!(long.starts_with("<300000>xx"));
        assert!(
            client.get("/big").body == big,
            "what is not collected passes as it is"
        );
    }
    // A body that is longer after than before.
    let text = "secret".repeat(50_000);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ));
    assert_eq!(
        client.response().text(),
        format!("<300000>{}", "******".repeat(50_000))
    );
    assert_eq!(origin.last().length(), Some(300_000));
}

#[test]
fn texts_are_replaced_in_streams() {
    let origin = Origin::scripted(|mut wire, _| {
        while let Some(request) = wire.request() {
            wire.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            for piece in [
                "see htt",
                "p://old.exam",
                "ple/a",
                " and http://old.example/b",
                " http://ol",
            ] {
                wire.send(format!("{:x}\r\n{piece}\r\n", piece.len()));
                std::thread::sleep(Duration::from_millis(5));
            }
            wire.send(format!(
                "{:x}\r\n{}\r\n0\r\n\r\n",
                request.body.len().max(1),
                "d"
            ));
        }
    });
    let rule = "when HTTP_REQUEST { set matched 0; STREAM::disable }
when HTTP_RESPONSE {
    if { [HTTP::header Content-Type] starts_with \"text/\" } {
        STREAM::expression {@http://old.example@https://new.example.org@}
        STREAM::enable
    }
}
when STREAM_MATCHED {
    incr matched
    if { $matched == 2 } { STREAM::replace \"second\" }
}
";
    let gate = Headgate::start(&ruled(rule, origin.address()));
    let text = Wire::connect(gate.at(8080)).get("/").text();
    assert_eq!(
        text,
        "see https://new.example.org/a and second/b http://old"
    );
}

#[test]
fn rules_choose_pools_members_and_nodes() {
    let (a, b, c) = (Origin::named("a"), Origin::named("b"), Origin::named("c"));
    let rule = "when HTTP_REQUEST {
    switch [HTTP::path] {
        /other { pool other }
        /member { pool other member IP_C PORT_C }
        /node { node IP_B PORT_B }
    }
}
when LB_SELECTED { set to \"[LB::server pool] [LB::server addr] [LB::server port]\" }
when HTTP_RESPONSE { HTTP::header insert X-To $to }
";
    let rule = rule
        .replace("IP_C", &c.address().ip().to_string())
        .replace("PORT_C", &c.address().port().to_string())
        .replace("IP_B", &b.address().ip().to_string())
        .replace("PORT_B", &b.address().port().to_string());
    let other = format!(
        "pools:\n  other: {{members: ['{}', '{}']}}\n",
        b.address(),
        c.address()
    );
    let gate = Headgate::start(&ruled(&rule, a.address()).replace("pools:\n", &other));
    let mut client = Wire::connect(gate.at(8080));
    let to = |origin: &Origin| format!("{} {}", origin.address().ip(), origin.address().port());
    for _ in 0..3 {
        let answer = client.get("/");
        assert_eq!(answer.text(), "a");
        assert_eq!(answer.field("x-to"), Some(&*format!("app {}", to(&a))));
        let answer = client.get("/member");
        assert_eq!(answer.text(), "c");
        assert_eq!(answer.field("x-to"), Some(&*format!("other {}", to(&c))));
        let answer = client.get("/node");
        assert_eq!(answer.text(), "b");
        assert!(
            answer.field("x-to").unwrap().ends_with(&to(&b)),
            "{answer:?}"
        );
    }
    let mut seen: Vec<String> = (0..4).map(|_| client.get("/other").text()).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["b", "c"], "the pool balances");
}

#[test]
fn a_failed_choice_is_made_again_or_answered() {
    let good = Origin::named("good");
    let rule = "when CLIENT_ACCEPTED { set failed 0 }
when LB_FAILED {
    incr failed
    if { [HTTP::path] eq \"/sorry\" } {
        HTTP::respond 503 content \"sorry\"
    } elseif { [HTTP::path] eq \"/again\" } {
        LB::reselect pool spare
    }
}
when HTTP_RESPONSE { HTTP::header insert X-Failed $failed }
";
    let spare = format!("pools:\n  spare: {{members: ['{}']}}\n", good.address());
    let gate = Headgate::start(&ruled(rule, Origin::refusing()).replace("pools:\n", &spare));
    let mut client = Wire::connect(gate.at(8080));
    let answer = client.get("/again");
    assert_eq!(answer.text(), "good");
    assert!(answer.field("x-failed").unwrap().parse::<u32>().unwrap() >= 1);
    let answer = client.get("/sorry");
    assert_eq!((answer.status(), answer.text()), (503, "sorry".into()));
    let answer = Wire::connect(gate.at(8080)).get("/nothing");
    assert!([502, 503].contains(&answer.status()), "{answer:?}");
}

#[test]
fn a_rule_that_waits_holds_nobody_else_up() {
    let origin = mirror();
    let rule = "when HTTP_REQUEST {
    if { [HTTP::path] eq \"/wait\" } {
        set begun [clock clicks -milliseconds]
        after 700
        HTTP::header insert X-Waited [expr { [clock clicks -milliseconds] - $begun }]
    }
}
";
    let gate = Headgate::start(&format!("workers: 1\n{}", ruled(rule, origin.address())));
    let begun = Instant::now();
    let mut waiting: Vec<Wire> = (0..20)
        .map(|_| {
            let mut client = Wire::connect(gate.at(8080));
            client.send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
            client
        })
        .collect();
    let mut other = Wire::connect(gate.at(8080));
    let mut served = 0;
    while begun.elapsed() < Duration::from_millis(400) {
        assert_eq!(other.get("/").status(), 200);
        served += 1;
    }
    assert!(served >= 20, "{served} in the meantime");
    let gone = waiting.pop().unwrap();
    gone.reset();
    for client in &mut waiting {
        let text = client.response().text();
        let (_, rest) = text.split_once("X-Waited: ").expect("it waited");
        let waited: u64 = rest.split('\n').next().unwrap().parse().unwrap();
        assert!((650..5000).contains(&waited), "{waited}");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "they waited together"
    );
    eventually("nobody waits any more", || {
        let all = gate.metrics();
        let (_, n) = all
            .iter()
            .find(|(name, _)| name.contains("rules_waiting"))?;
        (*n == 0.0).then_some(())
    });
    let waits = origin
        .requests()
        .iter()
        .filter(|r| r.target() == "/wait")
        .count();
    assert_eq!(waits, 19, "what has gone is not asked for");
}

#[test]
fn rules_know_the_handshake_and_the_certificate_as_openssl_does() {
    let rule = "when CLIENTSSL_CLIENTHELLO { set sni [SSL::sni name] }
when CLIENTSSL_HANDSHAKE { set cert [SSL::cert 0] }
when HTTP_REQUEST {
    set out \"\"
    foreach {name value} [list \\
        subject [X509::subject $cert] issuer [X509::issuer $cert] serial [X509::serial_number $cert] \\
        hash [X509::hash $cert] version [X509::version $cert] until [X509::not_valid_after $cert] \\
        verify [SSL::verify_result] sni $sni \\
        cipher [SSL::cipher name] tls [SSL::cipher version] pem [b64encode [X509::whole $cert]]] {
        append out \"$name=$value\\n\"
    }
    HTTP::respond 200 content $out
}
";
    let builder = Builder::new();
    let dir = builder.dir();
    let authority = Authority::new("authority");
    dir.write("ca.pem", authority.pem());
    authority.issue(dir, "site", &["site.example"]);
    authority.issue_numbered(dir, "alice", &["alice"], 0x1234_abcd);
    let gate = builder.start(&format!(
        "tls_profiles:\n  site:\n    certificates: [{{certificate: $DIR/site.pem, key: $DIR/site.key}}]\n    client_auth: {{mode: required, ca: $DIR/ca.pem}}\n{}{}",
        rules(&[("r", rule)]),
        config(Origin::refusing(), "tls: site, rules: [r]", "")
    ));
    let file = |name: &str| gate.dir().path().join(name).display().to_string();
    let to = gate.at(8080).to_string();
    let (alice, key, ca) = (file("alice.pem"), file("alice.key"), file("ca.pem"));
    let args = [
        "s_client",
        "-connect",
        &to,
        "-CAfile",
        &ca,
        "-cert",
        &alice,
        "-key",
        &key,
        "-servername",
        "site.example",
        "-ign_eof",
    ];
    let request = "GET / HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n";
    let (_, out) = run("openssl", &args, request);
    let of = |name: &str| {
        let start = format!("{name}=");
        let mut lines = out.lines().filter_map(|line| line.strip_prefix(&start));
        // openssl has a word about some of them as well, before the answer.
        lines
            .next_back()
            .unwrap_or_else(|| panic!("no {name}: {out}"))
            .to_owned()
    };
    let ask = |what: &str| {
        let args = [
            "x509", "-in", &alice, "-noout", "-nameopt", "rfc2253", "-md5", what,
        ];
        let (done, text) = run("openssl", &args, "");
        assert!(done, "{text}");
        text.trim().split_once('=').unwrap().1.trim().to_owned()
    };
    assert_eq!(of("subject"), ask("-subject"));
    assert_eq!(of("issuer"), ask("-issuer"));
    assert_eq!(of("serial").replace(':', "").to_uppercase(), ask("-serial"));
    assert_eq!(of("until"), ask("-enddate"));
    assert_eq!(of("hash"), ask("-fingerprint"));
    assert_eq!(of("verify"), "0");
    assert_eq!(of("sni"), "site.example");
    assert_eq!(of("tls"), "TLSv1.3");
    assert!(
        out.contains(&format!("Cipher is {}", of("cipher"))),
        "{out}"
    );
    let (_, pem) = run("openssl", &["base64", "-d", "-A"], &of("pem"));
    assert_eq!(pem.trim(), gate.dir().read("alice.pem").trim());
}
