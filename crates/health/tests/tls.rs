//! Members that speak TLS, well or badly.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use health::{Engine, HttpCheck, Kind, Settings, Target, TargetKey, TlsCheck, Verdict};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reactor::{Listener, Tcp, block_on, spawn};
use tls::{Certificate, ClientContext, ClientSettings, Pem, ServerContext, ServerSettings};

#[test]
fn a_handshake_with_a_good_certificate_is_up() {
    let authority = Authority::new();
    let check = authority.check("member.example");
    let verdict = first(authority.member(""), Kind::Tls(check));
    assert!(verdict.up, "{}", verdict.reason);
    assert_eq!(verdict.reason, "TLSv1.3");
}

#[test]
fn a_certificate_of_an_unknown_authority_is_down() {
    let check = Authority::new().check("member.example");
    let verdict = first(Authority::new().member(""), Kind::Tls(check));
    assert!(!verdict.up);
    assert!(
        verdict.reason.starts_with("server's certificate: "),
        "{}",
        verdict.reason
    );
}

#[test]
fn a_certificate_for_another_name_is_down() {
    let authority = Authority::new();
    let check = authority.check("other.example");
    let verdict = first(authority.member(""), Kind::Tls(check));
    assert!(!verdict.up);
    assert!(
        verdict.reason.starts_with("server's certificate: "),
        "{}",
        verdict.reason
    );
}

#[test]
fn a_member_without_tls_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let verdict = first(address, Kind::Tls(Authority::new().check("member.example")));
    assert_eq!(verdict.reason, "the server does not speak TLS on this port");
}

#[test]
fn silence_in_the_handshake_is_down_in_the_time_given() {
    // Never accepted from: the kernel completes connections by itself.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let check = Authority::new().check("member.example");
    let settings = Settings {
        timeout: Duration::from_millis(150),
        ..slow(Kind::Tls(check))
    };
    let verdict = first_with(address, settings);
    assert_eq!(verdict.reason, "no TLS handshake in 150ms");
}

#[test]
fn https_is_answered_as_expected() {
    let authority = Authority::new();
    let member = authority.member("HTTP/1.1 200 OK\r\n\r\nall is well");
    let check = |text: &str| {
        Kind::Http(HttpCheck {
            expect_body: Some(text.into()),
            tls: Some(authority.check("member.example")),
            ..HttpCheck::default()
        })
    };
    assert_eq!(first(member, check("well")).reason, "status 200");
    assert_eq!(first(member, check("ill")).reason, "body lacks \"ill\"");
}

#[test]
fn what_is_sent_under_tls_is_answered_as_expected() {
    let authority = Authority::new();
    let kind = Kind::SendExpect {
        send: b"PING\r\n\r\n".to_vec(),
        expect: b"PONG".to_vec(),
        tls: Some(authority.check("member.example")),
    };
    let verdict = first(authority.member("+PONG\r\n"), kind);
    assert!(verdict.up, "{}", verdict.reason);
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A check that trusts this authority.
    fn check(&self, name: &str) -> TlsCheck {
        let settings = ClientSettings {
            ca: pem("ca.pem", self.0.pem()),
            session_cache: 0,
            ..ClientSettings::default()
        };
        TlsCheck {
            context: ClientContext::new(&settings).unwrap(),
            name: ClientContext::server_name(name).unwrap(),
        }
    }

    /// A member with a certificate for `member.example`, that answers whatever ends in an empty
    /// line with `answer`.
    fn member(&self, answer: &'static str) -> SocketAddr {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["member.example".to_owned()]).unwrap();
        let chain = params.signed_by(&key, &self.0).unwrap().pem();
        let settings = ServerSettings {
            certificates: vec![Certificate {
                chain: pem("cert.pem", chain),
                key: pem("key.pem", key.serialize_pem()),
            }],
            ..ServerSettings::default()
        };
        let sessions = tls::Resumption::new(0).unwrap();
        let context = ServerContext::new(&settings, &sessions).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            block_on(async move {
                let listener = Listener::new(&listener).unwrap();
                loop {
                    let (fd, _) = listener.accept().await.unwrap();
                    let tcp = Tcp::from_fd(fd).unwrap();
                    spawn(serve(tcp, Arc::clone(&context), answer));
                }
            })
        });
        address
    }
}

async fn serve(tcp: Tcp, context: Arc<ServerContext>, answer: &str) {
    let Ok(mut stream) = tls::accept(tcp, &[], &context).await else {
        return;
    };
    let mut asked = Vec::new();
    let mut buf = [0; 1024];
    while !asked.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buf).await {
            Ok(n @ 1..) => asked.extend_from_slice(&buf[..n]),
            _ => return,
        }
    }
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.finish().await;
}

fn pem(label: &str, text: String) -> Pem {
    Pem {
        label: label.to_owned(),
        bytes: text.into_bytes(),
    }
}

fn slow(kind: Kind) -> Settings {
    Settings {
        interval: Duration::from_secs(1000),
        timeout: Duration::from_secs(5),
        ..Settings::new(kind)
    }
}

fn first(address: SocketAddr, kind: Kind) -> Verdict {
    first_with(address, slow(kind))
}

fn first_with(address: SocketAddr, settings: Settings) -> Verdict {
    let (tell, told) = mpsc::channel();
    let engine = Engine::start("monitors").unwrap();
    engine.set_targets(vec![Target {
        key: TargetKey {
            pool: "pool".into(),
            member: "member".into(),
            monitor: "tls".into(),
            address,
        },
        settings,
        on_verdict: Arc::new(move |verdict| {
            let _ = tell.send(verdict);
        }),
        start: None,
    }]);
    let verdict = told.recv_timeout(Duration::from_secs(10)).unwrap();
    engine.stop();
    verdict
}
