//! Session cookies that rules sign and bind to their clients, before an application like those of ASP.NET. The rules are those
//! in `data/rules`, and those that were published for BIG-IP where they are at hand.

use crate::support::{config, ok};
use headgate_tests::{
    Authority, Builder, Headgate, Message, Origin, Wire, countries, eventually, run,
};
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const SESSION: &str = "ASP.NET_SessionId";
const TOKEN: &str = "ASP.NET_SessionId_HMAC";

/// A set of rules: three that say whom a session belongs to, two that sign it.
struct Set {
    folder: PathBuf,
    address: &'static str,
    country: &'static str,
    subject: &'static str,
    signers: [&'static str; 2],
    key: &'static str,
    /// The array in which proven tokens are kept.
    cache: &'static str,
}

/// The sets that are there.
fn sets() -> Vec<Set> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let own = Set {
        folder: here.join("data/rules"),
        address: "bind_address.tcl",
        country: "bind_country.tcl",
        subject: "bind_subject.tcl",
        signers: ["sign.tcl", "sign_by_hand.tcl"],
        key: "a key that is used in tests alone",
        cache: "static::signed",
    };
    let published = Set {
        folder: here.join("../../shared/fixtures/irules"),
        address: "hmac_bind_client_ip.tcl",
        country: "hmac_bind_country.tcl",
        subject: "hmac_bind_x509_subject.tcl",
        signers: ["hmac_cookie.tcl", "hmac_cookie_v10.tcl"],
        key: "AzaZ5678901234567XYZ34567XYZ",
        cache: "static::hmac_cache",
    };
    let mut sets = vec![own];
    match published.folder.is_dir() {
        true => sets.push(published),
        // Past the test's own capture of what is printed.
        false => drop(writeln!(
            std::io::stderr(),
            "SKIPPED: the published rules are not in {}",
            published.folder.display()
        )),
    }
    sets
}

impl Set {
    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap()
    }

    /// What a session of an owner is to be signed with, by another implementation.
    fn token(&self, session: &str, owner: &str) -> String {
        let script =
            "printf %s \"$1\" | openssl dgst -sha256 -hmac \"$2\" -binary | openssl base64";
        let text = format!("{session}:{owner}");
        let (done, token) = run("sh", &["-c", script, "sh", &text, self.key], "");
        assert!(done, "{token}");
        token.trim().to_owned()
    }
}

/// An application that begins a session for whoever comes without, and tells who came.
fn application() -> Origin {
    let given = AtomicUsize::new(0);
    Origin::answering(move |request| match cookie(request, SESSION) {
        Some(session) => ok(&format!("welcome back {session}")),
        None => {
            let session = format!("new{}", given.fetch_add(1, SeqCst));
            format!(
                "HTTP/1.1 200 OK\r\nSet-Cookie: {SESSION}={session}; path=/; HttpOnly; SameSite=Lax\r\nContent-Length: 7\r\n\r\nwelcome"
            )
            .into_bytes()
        }
    })
}

/// A cookie of a request.
fn cookie(request: &Message, name: &str) -> Option<String> {
    request.field("cookie")?.split("; ").find_map(|pair| {
        pair.strip_prefix(name)?
            .strip_prefix('=')
            .map(str::to_owned)
    })
}

/// A cookie that a response sets.
fn set_cookie(response: &Message, name: &str) -> Option<String> {
    let lines = response.all("set-cookie");
    let mut found = lines.iter().filter_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix('=')?;
        Some(value.split(';').next().unwrap_or_default().to_owned())
    });
    let value = found.next();
    assert_eq!(found.next(), None, "{name} is set twice: {lines:?}");
    value
}

/// A Headgate with TLS, the application behind it, a rule that binds and one that signs.
struct Site {
    gate: Headgate,
    origin: Origin,
}

/// The configuration: files of certificates and rules stand in the folder.
fn site_config(origin: &Origin, clients: &str) -> String {
    format!(
        "tls_profiles:\n  site:\n    certificates: [{{certificate: $DIR/site.pem, key: $DIR/site.key}}]\n{clients}\
         geography: $DIR/countries.mmdb\n\
         rules: {{bind: {{file: $DIR/bind.tcl}}, sign: {{file: $DIR/sign.tcl}}}}\n{}",
        config(origin.address(), "tls: site, rules: [bind, sign]", "")
    )
}

/// Of the TLS profile: the rule decides about those who come without a certificate.
const CLIENTS: &str = "    client_auth: {mode: optional, ca: $DIR/ca.pem}\n";

impl Site {
    fn new(bind: &str, sign: &str, clients: &str) -> Self {
        let (builder, origin) = (Builder::new(), application());
        let dir = builder.dir();
        let authority = Authority::new("authority");
        dir.write("ca.pem", authority.pem());
        authority.issue(dir, "site", &["site.example"]);
        authority.issue(dir, "alice", &["alice"]);
        authority.issue(dir, "bob", &["bob"]);
        Authority::new("stranger").issue(dir, "forged", &["alice"]);
        dir.write(
            "countries.mmdb",
            countries(&[
                (Ipv4Addr::new(127, 0, 0, 0), 30, "AT"),
                (Ipv4Addr::new(127, 0, 0, 4), 30, "DE"),
            ]),
        );
        dir.write("bind.tcl", bind);
        dir.write("sign.tcl", sign);
        let gate = builder.start(&site_config(&origin, clients));
        Self { gate, origin }
    }

    /// Asks by curl with more arguments: whether that worked, and the response.
    fn curl(&self, client: &[&str], cookies: &str) -> Result<Message, String> {
        let dir = self.gate.dir().path().display().to_string();
        let resolve = format!("site.example:8080:{}", self.gate.at(8080).ip());
        let ca = format!("{dir}/ca.pem");
        let client: Vec<String> = client.iter().map(|arg| arg.replace("$DIR", &dir)).collect();
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
        args.extend(client.iter().map(String::as_str));
        if !cookies.is_empty() {
            args.extend(["-b", cookies]);
        }
        args.push("https://site.example:8080/app");
        match run("curl", &args, "") {
            (true, text) => {
                let (head, body) = text.split_once("\r\n\r\n").expect("a head");
                let mut message = Message::parse(format!("{head}\r\n\r\n").as_bytes());
                message.body = body.into();
                Ok(message)
            }
            (false, text) => Err(text),
        }
    }

    /// The session that the application sees when these cookies are sent.
    fn seen(&self, client: &[&str], session: &str, token: &str) -> Option<String> {
        let mut cookies = format!("lang=de; {SESSION}={session}");
        if !token.is_empty() {
            cookies += &format!("; {TOKEN}={token}");
        }
        let response = self.curl(client, &cookies).unwrap();
        assert_eq!(response.status(), 200, "{response:?}");
        let request = self.origin.last();
        assert_eq!(
            cookie(&request, "lang").as_deref(),
            Some("de"),
            "others stay: {request:?}"
        );
        cookie(&request, SESSION)
    }

    /// Signs in as `good`, whom rules know by `owner`, and tries what `good` and `bad` may do.
    fn try_all(&self, set: &Set, good: &[&str], owner: &str, bad: &[&str]) {
        let first = self.curl(good, "").unwrap();
        let session = set_cookie(&first, SESSION).expect("a session begins");
        let token = set_cookie(&first, TOKEN).expect("it is signed");
        assert_eq!(token, set.token(&session, owner), "{session} of {owner}");
        let signed = first
            .all("set-cookie")
            .into_iter()
            .find(|line| line.starts_with(TOKEN));
        assert!(
            signed.unwrap().ends_with("; HttpOnly; Secure; Path=/"),
            "{signed:?}"
        );

        let here = Some(session.clone());
        // Several times, so that each worker has had its miss and its hit.
        for _ in 0..4 {
            assert_eq!(
                self.seen(good, &session, &token),
                here,
                "what is signed passes"
            );
            assert_eq!(
                self.seen(good, &session, &flipped(&token)),
                None,
                "another token"
            );
            assert_eq!(
                self.seen(good, &flipped(&session), &token),
                None,
                "another session"
            );
            assert_eq!(self.seen(good, &session, ""), None, "no token");
            assert_eq!(self.seen(bad, &session, &token), None, "another client");
        }
        // Its owner is not harmed by what others have tried.
        assert_eq!(self.seen(good, &session, &token), here);
    }
}

/// The text with its first character replaced by another.
fn flipped(text: &str) -> String {
    let first = if text.starts_with('x') { 'y' } else { 'x' };
    format!("{first}{}", &text[1..])
}

#[test]
fn signed_sessions_are_bound_to_the_clients_address() {
    for set in sets() {
        for signer in set.signers {
            let site = Site::new(&set.text(set.address), &set.text(signer), "");
            let (here, there) = (["--interface", "127.0.0.1"], ["--interface", "127.0.0.2"]);
            site.try_all(&set, &here, "127.0.0.1", &there);
        }
    }
}

#[test]
fn signed_sessions_are_bound_to_the_clients_country() {
    for set in sets() {
        let sign = set.text(set.signers[0]);
        let site = Site::new(&set.text(set.country), &sign, "");
        let from = |address| ["--interface", address];
        site.try_all(&set, &from("127.0.0.1"), "AT", &from("127.0.0.5"));
        // Of the same country, from another address.
        let token = set.token("mine", "AT");
        let seen = site.seen(&from("127.0.0.2"), "mine", &token);
        assert_eq!(seen.as_deref(), Some("mine"));
        // The database knows nothing of these.
        site.try_all(&set, &from("127.0.0.9"), "", &from("127.0.0.1"));
    }
}

#[test]
fn signed_sessions_are_bound_to_the_clients_certificate() {
    let alice = ["--cert", "$DIR/alice.pem", "--key", "$DIR/alice.key"];
    let bob = ["--cert", "$DIR/bob.pem", "--key", "$DIR/bob.key"];
    let forged = ["--cert", "$DIR/forged.pem", "--key", "$DIR/forged.key"];
    for set in sets() {
        let sign = set.text(set.signers[0]);
        let site = Site::new(&set.text(set.subject), &sign, CLIENTS);
        site.try_all(&set, &alice, "CN=alice", &bob);
        let before = site.origin.count();
        for stranger in [&[][..], &forged[..]] {
            let answer = site.curl(stranger, "");
            assert!(answer.is_err(), "{answer:?}");
        }
        assert_eq!(
            site.origin.count(),
            before,
            "nothing of theirs came through"
        );
    }
}

#[test]
fn what_one_signer_has_signed_the_other_takes() {
    let here = ["--interface", "127.0.0.1"];
    for set in sets() {
        let [one, other] = set.signers;
        let site = Site::new(&set.text(set.address), &set.text(one), "");
        for next in [other, one] {
            let first = site.curl(&here, "").unwrap();
            let session = set_cookie(&first, SESSION).unwrap();
            let token = set_cookie(&first, TOKEN).unwrap();
            site.gate.dir().write("sign.tcl", set.text(next));
            let (status, answer) = site.gate.api("POST", "/v1/reload", "");
            assert_eq!(status, 200, "{answer}");
            // The new rule's RULE_INIT has emptied the cache: it has to sign for itself.
            assert_eq!(site.seen(&here, &session, &token), Some(session));
        }
    }
}

#[test]
fn the_cache_of_tokens_is_bound_and_recycled() {
    for set in sets() {
        for signer in set.signers {
            let sign = set.text(signer);
            let text = sign.replace("100000", "3");
            assert_ne!(text, sign);
            let origin = application();
            let gate = counting(&set, &text, &origin);
            let mut client = Wire::connect_from(LOCAL, gate.at(8080));
            let counts: Vec<String> = (0..7)
                .map(|_| {
                    let response = client.get("/");
                    response.field("x-cached").expect("a count").to_owned()
                })
                .collect();
            // Entries with the count itself: the fourth session finds no room, and begins anew.
            let expected = ["1/2", "2/3", "3/4", "1/2", "2/3", "3/4", "1/2"];
            assert_eq!(counts, expected, "{signer}");
            // Verifying fills it as well.
            for n in 0..4 {
                let session = format!("verified{n}");
                let token = set.token(&session, "127.0.0.1");
                let mut client = Wire::connect_from(LOCAL, gate.at(8080));
                client.send(format!(
                    "GET / HTTP/1.1\r\nHost: h\r\nCookie: {SESSION}={session}; {TOKEN}={token}\r\n\r\n"
                ));
                let response = client.response();
                assert_eq!(response.text(), format!("welcome back {session}"));
                let count = response.field("x-cached").unwrap();
                assert_eq!(count, ["2/3", "3/4", "1/2", "2/3"][n], "{signer}");
            }
        }
    }
}

#[test]
fn the_cache_of_tokens_is_emptied_from_time_to_time() {
    for set in sets() {
        let sign = set.text(set.signers[0]);
        let text = sign.replace("86400000", "250");
        assert_ne!(text, sign);
        let origin = application();
        let gate = counting(&set, &text, &origin);
        for _ in 0..2 {
            let mut client = Wire::connect(gate.at(8080));
            client.get("/");
            eventually("the cache is emptied", || {
                (client.get("/count").text() == "0").then_some(())
            });
        }
        eventually("the log says so", || {
            let log = gate.log();
            (log.matches("Cache Array Recycling").count() >= 2).then_some(())
        });
    }
}

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// One worker with the rules that sign, and one that tells how full the cache is.
fn counting(set: &Set, sign: &str, origin: &Origin) -> Headgate {
    let builder = Builder::new();
    let dir = builder.dir();
    dir.write("bind.tcl", set.text(set.address));
    dir.write("sign.tcl", sign);
    let cache = set.cache;
    let count = format!(
        "when HTTP_REQUEST priority 900 {{
  if {{ [HTTP::path] eq \"/count\" }} {{ HTTP::respond 200 content ${cache}(count) }}
}}
when HTTP_RESPONSE priority 900 {{ HTTP::header insert X-Cached \"${cache}(count)/[array size {cache}]\" }}
"
    );
    dir.write("count.tcl", count);
    builder.start(&format!(
        "workers: 1\nlog: {{level: debug, access: off}}\n\
         rules: {{bind: {{file: $DIR/bind.tcl}}, sign: {{file: $DIR/sign.tcl}}, count: {{file: $DIR/count.tcl}}}}\n{}",
        config(origin.address(), "rules: [bind, sign, count]", "")
    ))
}
