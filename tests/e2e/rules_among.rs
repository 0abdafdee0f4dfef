//! Rules among what else a proxy does: reloads under load, uploads that wait to be asked for, upgrades, rude clients. And the
//! rules that come with Headgate, on its own.

use crate::support::{config, echo, mirror, ok, ruled, websocket, websocket_echo};
use headgate_tests::{Authority, Builder, Headgate, Load, Origin, Wire, eventually, noise, run};
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn rules_that_change_under_load_fail_not_one_request() {
    let origin = Origin::named("a");
    let config = |n: usize| {
        let rule = format!(
            "when RULE_INIT {{ set static::version {n}; after 20 -periodic {{ incr static::ticks }}; set static::ticks 0 }}
when CLIENT_ACCEPTED {{ set mine 0 }}
when HTTP_REQUEST {{ incr mine; table incr all; if {{ $mine % 3 == 0 }} {{ after 1 }} }}
when HTTP_RESPONSE {{ HTTP::header replace X-Version $static::version; HTTP::header insert X-Mine $mine }}
"
        );
        ruled(&rule, origin.address())
    };
    let gate = Headgate::start(&config(0));
    let kept = Load::start(gate.at(8080), 8, "/");
    let fresh = Load::start_closing(gate.at(8080), 4, "/");
    for n in 1..=40 {
        gate.reconfigure(&config(n));
        kept.more(10);
    }
    kept.finish().assert_clean();
    fresh.finish().assert_clean();
    let answer = Wire::connect(gate.at(8080)).get("/");
    assert_eq!(answer.field("x-version"), Some("40"));
    assert!(!gate.log().contains("TCL error"), "{}", gate.log());
}

#[test]
fn an_upload_that_waits_to_be_asked_for_is_collected() {
    let rule = "when HTTP_REQUEST { HTTP::collect [HTTP::header Content-Length] }
when HTTP_REQUEST_DATA { HTTP::header insert X-Size [HTTP::payload length]; HTTP::release }
";
    let origin = Origin::answering(|request| {
        ok(&format!(
            "{} {}",
            request.field("x-size").unwrap_or("none"),
            request.body.len()
        ))
    });
    let gate = Headgate::start(&ruled(rule, origin.address()));
    let body = noise(9, 700_000);
    let file = gate.dir().write("body", &body);
    let data = format!("@{}", file.display());
    let url = format!("http://{}/", gate.at(8080));
    let args = [
        "-sS",
        "--max-time",
        "10",
        "-H",
        "Expect: 100-continue",
        "--expect100-timeout",
        "9",
        "--data-binary",
        &data,
        &url,
    ];
    let (done, text) = run("curl", &args, "");
    assert!(done, "{text}");
    assert_eq!(text, "700000 700000");
    assert!(origin.last().body == body);
}

#[test]
fn an_answer_of_a_rules_own_leaves_the_connection_in_order() {
    let origin = mirror();
    let rule = "when HTTP_REQUEST {
    switch [HTTP::path] {
        /refuse { HTTP::respond 403 content no }
        /close { HTTP::respond 200 content bye; HTTP::close }
    }
}
when HTTP_RESPONSE {
    if { [HTTP::header exists X-Replace] } { HTTP::respond 200 content replaced X-Was [HTTP::status] }
}
";
    let gate = Headgate::start(&ruled(rule, origin.address()));
    let mut client = Wire::connect(gate.at(8080));
    for _ in 0..3 {
        // A body that nobody wanted, and a request behind it in the same breath.
        client.send("POST /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET /next HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.response().status(), 403);
        assert!(client.response().text().starts_with("GET /next "));
    }
    client.send("HEAD /refuse HTTP/1.1\r\nHost: h\r\n\r\n");
    let answer = client.try_response("HEAD").unwrap();
    assert_eq!((answer.status(), answer.length()), (403, Some(2)));
    assert_eq!(client.get("/close").text(), "bye");
    client.assert_closed();
    assert_eq!(origin.count(), 3);
}

#[test]
fn a_response_can_be_replaced_or_redirected_once_it_has_come() {
    let origin = Origin::answering(|request| match request.target() {
        "/login" => {
            b"HTTP/1.1 302 Found\r\nLocation: http://inside.example/x\r\nContent-Length: 0\r\n\r\n"
                .to_vec()
        }
        "/bad" => [
            b"HTTP/1.1 500 Oops\r\nContent-Length: 100000\r\n\r\n".to_vec(),
            vec![b'x'; 100_000],
        ]
        .concat(),
        "/empty" => b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n".to_vec(),
        _ => ok("fine"),
    });
    let rule = "when HTTP_RESPONSE {
    if { [HTTP::is_redirect] } {
        HTTP::header replace Location [string map {http://inside.example https://outside.example} [HTTP::header Location]]
    } elseif { [HTTP::status] == 500 } {
        HTTP::respond 503 content \"sorry\" X-Was [HTTP::status]
    } else {
        HTTP::collect
    }
}
when HTTP_RESPONSE_DATA { HTTP::payload replace 0 0 \"> \"; HTTP::release }
";
    let gate = Headgate::start(&ruled(rule, origin.address()));
    let mut client = Wire::connect(gate.at(8080));
    for _ in 0..2 {
        let answer = client.get("/login");
        assert_eq!(answer.field("location"), Some("https://outside.example/x"));
        let answer = client.get("/bad");
        assert_eq!((answer.status(), answer.text()), (503, "sorry".into()));
        assert_eq!(answer.field("x-was"), Some("500"));
        assert_eq!(client.get("/empty").status(), 304);
        assert_eq!(client.get("/").text(), "> fine");
        client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.try_response("HEAD").unwrap().status(), 200);
        // The connection is in order behind it, which a body too many would upset.
        assert_eq!(client.get("/").text(), "> fine");
    }
}

#[test]
fn websockets_pass_rules_and_stay_over_reloads() {
    let origin = websocket_echo();
    let rule = "when HTTP_REQUEST { set up [string tolower [HTTP::header Upgrade]]; HTTP::header insert X-Up $up }
when HTTP_RESPONSE { HTTP::header insert X-Up $up }
when CLIENT_CLOSED { log local0. \"closed $up\" }
";
    let gate = Headgate::start(&ruled(rule, origin.address()));
    let (mut socket, response) = websocket(gate.at(8080));
    assert_eq!(response.headers()["x-up"], "websocket");
    echo(&mut socket, "one");
    gate.reconfigure(&ruled("when HTTP_REQUEST { reject }", origin.address()));
    echo(&mut socket, "two");
    socket.close(None).unwrap();
    drop(socket);
    eventually("its end is seen", || {
        gate.log().contains("closed websocket").then_some(())
    });
}

#[test]
fn rude_clients_leave_nothing_behind() {
    let origin = Origin::answering(|request| match request.target() {
        "/slow" => {
            std::thread::sleep(Duration::from_millis(30));
            ok("slow")
        }
        _ => ok(&request.text()),
    });
    let rule =
        "when CLIENT_ACCEPTED { set id [table incr clients]; after 60000 { log local0. late } }
when HTTP_REQUEST {
    switch [HTTP::path] {
        /wait { after 5000 }
        /brief { after 5 }
        /fail { error oops }
        /reject { reject }
    }
    if { [HTTP::method] eq \"POST\" } { HTTP::collect }
}
when HTTP_REQUEST_DATA { HTTP::release }
when HTTP_RESPONSE { HTTP::collect }
when HTTP_RESPONSE_DATA { HTTP::payload replace 0 0 x; HTTP::release }
when CLIENT_CLOSED { table incr closed }
";
    let gate = Headgate::start(&ruled(rule, origin.address()));
    // What stays open for good is there after the first requests.
    for _ in 0..20 {
        Wire::connect(gate.at(8080)).get("/slow");
    }
    let active = || gate.read("/v1/virtuals/web")["active"].as_u64().unwrap();
    eventually("the first have gone", || (active() == 0).then_some(()));
    let sockets = || {
        gate.descriptors()
            .get("socket")
            .copied()
            .unwrap_or_default()
    };
    let before = sockets();
    let paths = ["/", "/wait", "/brief", "/fail", "/reject", "/slow"];
    for n in 0..300 {
        let mut wire = Wire::connect(gate.at(8080));
        let path = paths[n % paths.len()];
        let request = match n % 4 {
            0 => format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab"),
            1 => format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").repeat(3),
            2 => format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"),
            _ => format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"),
        };
        let _ = wire.try_send(request);
        if n % 3 == 0 {
            std::thread::sleep(Duration::from_millis(n as u64 % 8));
        }
        if n % 2 == 0 {
            wire.reset();
        }
    }
    eventually("all connections end", || (active() == 0).then_some(()));
    eventually("nobody waits in a rule", || {
        let all = gate.metrics();
        let (_, n) = all
            .iter()
            .find(|(name, _)| name.contains("rules_waiting"))?;
        (*n == 0.0).then_some(())
    });
    eventually(
        "sockets are closed, but for those kept to the member",
        || (sockets() <= before + 20).then_some(()),
    );
    assert_eq!(Wire::connect(gate.at(8080)).get("/slow").text(), "xslow");
    assert!(!gate.log().contains("late"));
}

/// A rule that comes with Headgate.
fn canned(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../rules");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn the_rules_that_come_along_do_what_they_say() {
    let origin = mirror();
    let builder = Builder::new();
    let dir = builder.dir();
    dir.write("page.html", "<p>soon</p>");
    let limit = canned("rate_limit.tcl")
        .replace("rate_limit_requests 100", "rate_limit_requests 5")
        .replace("rate_limit_window 10", "rate_limit_window 600");
    for (file, text) in [
        ("redirect.tcl", canned("https_redirect.tcl")),
        ("maintenance.tcl", canned("maintenance.tcl")),
        ("cleanup.tcl", canned("header_cleanup.tcl")),
        ("activesync.tcl", canned("activesync.tcl")),
        ("limit.tcl", limit),
    ] {
        dir.write(file, text);
    }
    let gate = builder.start(&format!(
        "rules: {{redirect: {{file: $DIR/redirect.tcl}}, maintenance: {{file: $DIR/maintenance.tcl}}, cleanup: {{file: $DIR/cleanup.tcl}}, activesync: {{file: $DIR/activesync.tcl}}, limit: {{file: $DIR/limit.tcl}}}}\n\
         ifiles: {{maintenance_page: $DIR/page.html}}\n\
         data_groups: {{maintenance_exempt: {{type: address, records: [127.0.0.2]}}}}\n\
         pools: {{app: {{members: ['{}']}}}}\n\
         virtuals:\n  plain: {{listen: '$IP:8080', rules: [redirect]}}\n  web: {{listen: '$IP:8081', pool: app, rules: [maintenance, activesync, cleanup]}}\n  api: {{listen: '$IP:8082', pool: app, rules: [limit, cleanup]}}\n",
        origin.address()
    ));
    let mut client = Wire::connect(gate.at(8080));
    client.send("GET /a?b=1 HTTP/1.1\r\nHost: Shop.example:80\r\n\r\n");
    let answer = client.response();
    assert_eq!(answer.status(), 301);
    assert_eq!(answer.field("location"), Some("https://shop.example/a?b=1"));
    let from = |last: u8, port: u16| {
        let address = std::net::Ipv4Addr::new(127, 0, 0, last);
        Wire::connect_from(address.into(), gate.at(port))
    };
    let answer = from(1, 8081).get("/");
    assert_eq!(
        (answer.status(), answer.text()),
        (503, "<p>soon</p>".into())
    );
    assert!(from(2, 8081).get("/").text().starts_with("GET / "));
    let mut client = from(1, 8082);
    let statuses: Vec<u16> = (0..8).map(|_| client.get("/").status()).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    assert_eq!(
        from(3, 8082).get("/").status(),
        200,
        "others are not limited"
    );
    assert!(!gate.log().contains("TCL error"), "{}", gate.log());
}

#[test]
fn the_signing_rule_that_comes_along_holds_what_is_forged() {
    let builder = Builder::new();
    let dir = builder.dir();
    let authority = Authority::new("authority");
    dir.write("ca.pem", authority.pem());
    authority.issue(dir, "site", &["site.example"]);
    dir.write("sign.tcl", canned("hmac_cookie.tcl"));
    dir.write("keys", "a key of more than thirty-two characters\n");
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nSet-Cookie: ASP.NET_SessionId=abc; path=/; HttpOnly\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let gate = builder.start(&format!(
        "tls_profiles:\n  site:\n    certificates: [{{certificate: $DIR/site.pem, key: $DIR/site.key}}]\n\
         rules: {{sign: {{file: $DIR/sign.tcl}}}}\nifiles: {{hmac_cookie_key: $DIR/keys}}\n{}",
        config(origin.address(), "tls: site, rules: [sign]", "")
    ));
    let home = gate.dir().path().display().to_string();
    let (ca, jar) = (format!("{home}/ca.pem"), format!("{home}/jar"));
    let resolve = format!("site.example:8080:{}", gate.at(8080).ip());
    let ask = |more: &[&str]| {
        let mut args = vec![
            "-sS",
            "-i",
            "--max-time",
            "10",
            "--cacert",
            &ca,
            "--resolve",
            &resolve,
        ];
        args.extend(more);
        args.push("https://site.example:8080/");
        let (done, text) = run("curl", &args, "");
        assert!(done, "{text}");
        origin.last().field("cookie").map(str::to_owned)
    };
    assert_eq!(ask(&["-c", &jar]), None);
    for _ in 0..3 {
        let seen = ask(&["-b", &jar]);
        assert_eq!(seen.as_deref(), Some("ASP.NET_SessionId=abc"));
        let elsewhere = ask(&["-b", &jar, "--interface", "127.0.0.2"]);
        assert_eq!(elsewhere, None);
        let forged = ask(&[
            "-b",
            "ASP.NET_SessionId=abc; ASP.NET_SessionId_HMAC=Zm9yZ2Vk",
        ]);
        assert_eq!(forged, None);
        // A second one beside the proven one, in a field of its own.
        let tampered = ask(&["-b", &jar, "-H", "Cookie: lang=de; ASP.NET_SessionId=other"]);
        assert_eq!(tampered.as_deref(), Some("lang=de"));
    }
}
