use super::*;
use reactor::block_on;
use rustls::AlertDescription;

fn only(version: Version) -> impl Fn(&mut ServerSettings) {
    move |settings| {
        settings.min_version = version;
        settings.max_version = version;
    }
}

#[test]
fn both_ends_agree_on_the_newest_version_that_both_speak() {
    let authority = Authority::new("a");
    let certificate = authority.issue(&["localhost"]);
    let client = ClientContext::new(&trusting(&authority)).unwrap();
    for (version, name) in [(Version::Tls12, "TLSv1.2"), (Version::Tls13, "TLSv1.3")] {
        let mut settings = serving(certificate.clone());
        settings.max_version = version;
        let server = server(&settings);
        block_on(async {
            let (s, c) = pair(&server, &client).await;
            for info in [s.info().unwrap(), c.info().unwrap()] {
                assert_eq!(info.version, name);
                assert!(!info.resumed);
                assert!(info.group.is_some());
                assert!(SUITES.contains(&info.suite));
            }
            assert_eq!(s.info().unwrap().sni, Some("localhost"));
        });
    }
}

#[test]
fn the_first_bytes_may_have_been_read_before() {
    let (server, client) = contexts();
    block_on(async {
        let (a, b) = sockets();
        let name = ClientContext::server_name("localhost").unwrap();
        let accepting = async {
            let mut first = [0; 11];
            assert_eq!(a.read(&mut first).await.unwrap(), 11);
            accept(a, &first, &server).await
        };
        let connecting = async {
            let mut stream = connect(b, &name, &client).await.unwrap();
            stream.flush().await.unwrap();
            stream
        };
        let (s, mut c) = reactor::join(accepting, connecting).await;
        greet(&mut s.unwrap(), &mut c).await;
    });
}

#[test]
fn a_listed_suite_and_group_are_the_ones_used() {
    let authority = Authority::new("a");
    let mut settings = serving(authority.issue(&["localhost"]));
    settings.suites = vec!["TLS_CHACHA20_POLY1305_SHA256".into()];
    settings.groups = vec!["P-384".into()];
    let server = server(&settings);
    let client = ClientContext::new(&trusting(&authority)).unwrap();
    block_on(async {
        let (s, _c) = pair(&server, &client).await;
        let info = s.info().unwrap();
        assert_eq!(info.suite, "TLS_CHACHA20_POLY1305_SHA256");
        assert_eq!(info.group, Some("secp384r1"));
        assert_eq!(info.version, "TLSv1.3");
    });
}

#[test]
fn a_protocol_is_agreed_on_or_the_handshake_fails() {
    let authority = Authority::new("a");
    let mut settings = serving(authority.issue(&["localhost"]));
    settings.alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = server(&settings);
    let speaking = |protocol: &[u8]| {
        let mut settings = trusting(&authority);
        settings.alpn = vec![protocol.to_vec()];
        ClientContext::new(&settings).unwrap()
    };
    block_on(async {
        let (s, c) = pair(&server, &speaking(b"http/1.1")).await;
        assert_eq!(s.info().unwrap().alpn, Some(&b"http/1.1"[..]));
        assert_eq!(c.info().unwrap().alpn, Some(&b"http/1.1"[..]));
        let (s, c) = shake(&server, &speaking(b"smtp"), "localhost").await;
        assert_eq!(s.err().unwrap().reason(), "no-shared-protocol");
        assert_eq!(c.err().unwrap().reason(), "alert-no-application-protocol");
    });
}

#[test]
fn no_shared_version_is_told_to_both() {
    let authority = Authority::new("a");
    let mut settings = serving(authority.issue(&["localhost"]));
    only(Version::Tls13)(&mut settings);
    let server = server(&settings);
    let mut settings = trusting(&authority);
    settings.max_version = Version::Tls12;
    let client = ClientContext::new(&settings).unwrap();
    block_on(async {
        let (s, c) = shake(&server, &client, "localhost").await;
        assert_eq!(s.err().unwrap().reason(), "no-shared-version");
        assert_eq!(c.err().unwrap().reason(), "alert-protocol-version");
    });
}

#[test]
fn no_shared_suite_is_told_to_both() {
    let authority = Authority::new("a");
    let mut settings = serving(authority.issue(&["localhost"]));
    settings.suites = vec!["TLS_AES_128_GCM_SHA256".into()];
    let server = server(&settings);
    let mut settings = trusting(&authority);
    settings.suites = vec!["TLS_AES_256_GCM_SHA384".into()];
    let client = ClientContext::new(&settings).unwrap();
    block_on(async {
        let (s, c) = shake(&server, &client, "localhost").await;
        assert_eq!(s.err().unwrap().reason(), "no-shared-cipher");
        assert_eq!(c.err().unwrap().reason(), "alert-handshake-failure");
    });
}

#[test]
fn plain_http_gets_an_answer_that_says_so() {
    let (server, _) = contexts();
    block_on(async {
        let (a, b) = sockets();
        b.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let error = accept(a, b"", &server).await.err().unwrap();
        assert_eq!(error.reason(), "not-tls");
        assert!(error.to_string().contains("plain HTTP"));
        let mut answer = vec![0; 1024];
        let n = b.read(&mut answer).await.unwrap();
        let answer = std::str::from_utf8(&answer[..n]).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())));
    });
}

#[test]
fn a_client_that_leaves_is_told_from_one_that_errs() {
    let (server, _) = contexts();
    block_on(async {
        let (a, b) = sockets();
        b.write_all(&[22, 3, 1, 0, 200, 1]).await.unwrap();
        drop(b);
        assert_eq!(
            accept(a, b"", &server).await.err().unwrap().reason(),
            "client-gone"
        );
        let (a, b) = sockets();
        b.write_all(&[22, 3, 1, 0, 4, 1, 0, 0, 0]).await.unwrap();
        let (refused, mut alert) = (accept(a, b"", &server).await.err().unwrap(), [0; 16]);
        assert!(matches!(refused, AcceptError::Protocol(_)), "{refused}");
        assert_eq!(b.read(&mut alert).await.unwrap(), 7);
        assert_eq!(alert[0], 21);
    });
}

#[test]
fn a_server_that_speaks_no_tls_is_called_so() {
    let (_, client) = contexts();
    block_on(async {
        let (a, b) = sockets();
        let name = ClientContext::server_name("localhost").unwrap();
        a.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        let error = connect(b, &name, &client).await.err().unwrap();
        assert_eq!(error.reason(), "not-tls");
    });
}

#[test]
fn an_untrusted_server_is_refused_and_told_why() {
    let (server, _) = contexts();
    let client = ClientContext::new(&trusting(&Authority::new("another"))).unwrap();
    block_on(async {
        let (s, c) = shake(&server, &client, "localhost").await;
        assert_eq!(c.err().unwrap().reason(), "unknown-ca");
        let error = s.err().unwrap();
        assert!(matches!(
            error,
            AcceptError::Alert(AlertDescription::UnknownCA)
        ));
    });
}

#[test]
fn a_server_of_another_name_is_refused_unless_the_name_is_overridden() {
    let authority = Authority::new("a");
    let server = server(&serving(authority.issue(&["localhost", "10.1.2.3"])));
    let mut settings = trusting(&authority);
    let client = ClientContext::new(&settings).unwrap();
    settings.server_name = Some("localhost".into());
    let overriding = ClientContext::new(&settings).unwrap();
    block_on(async {
        let (_, c) = shake(&server, &client, "elsewhere.example").await;
        assert_eq!(c.err().unwrap().reason(), "wrong-name");
        let (s, c) = shake(&server, &overriding, "elsewhere.example").await;
        assert!(c.is_ok());
        assert_eq!(s.unwrap().info().unwrap().sni, Some("localhost"));
        let (s, c) = shake(&server, &client, "10.1.2.3").await;
        assert!(c.is_ok());
        assert_eq!(s.unwrap().info().unwrap().sni, None);
    });
}

#[test]
fn an_expired_server_is_refused_by_those_who_verify_alone() {
    let authority = Authority::new("a");
    let expired = authority.issue_with(&["localhost"], KeyPair::generate().unwrap(), |params| {
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let server = server(&serving(expired));
    assert!(server.warnings().iter().any(|w| w.contains("expired on")));
    let mut settings = trusting(&authority);
    let verifying = ClientContext::new(&settings).unwrap();
    settings.verify = false;
    let trusting_all = ClientContext::new(&settings).unwrap();
    block_on(async {
        let (_, c) = shake(&server, &verifying, "localhost").await;
        assert_eq!(c.err().unwrap().reason(), "certificate-expired");
        let (_, c) = shake(&server, &trusting_all, "other").await;
        assert!(c.is_ok());
    });
}
