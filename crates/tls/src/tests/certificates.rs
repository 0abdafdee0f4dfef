use super::*;
use rcgen::{PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
use reactor::block_on;

/// The alternative names of the certificate that the client was shown.
async fn shown(server: &Arc<ServerContext>, authority: &Authority, name: &str) -> Vec<String> {
    let mut settings = trusting(authority);
    settings.verify = false;
    let client = ClientContext::new(&settings).unwrap();
    let (_s, c) = shake(server, &client, name).await;
    let c = c.unwrap();
    let info = c.info().unwrap();
    CertificateFacts::parse(&info.peer_certificates[0])
        .unwrap()
        .san
}

#[test]
fn the_certificate_is_chosen_by_name_exact_then_wildcard_then_first() {
    let authority = Authority::new("a");
    let mut settings = serving(authority.issue(&["first.example"]));
    settings.certificates.push(authority.issue(&["*.example"]));
    settings
        .certificates
        .push(authority.issue(&["exact.example"]));
    let server = server(&settings);
    block_on(async {
        for (asked, got) in [
            ("exact.example", "DNS:exact.example"),
            ("Exact.Example", "DNS:exact.example"),
            ("any.example", "DNS:*.example"),
            ("two.levels.example", "DNS:first.example"),
            ("elsewhere.test", "DNS:first.example"),
            ("127.0.0.1", "DNS:first.example"),
        ] {
            assert_eq!(shown(&server, &authority, asked).await, [got], "{asked}");
        }
    });
}

#[test]
fn a_name_without_certificate_is_refused_where_names_are_required() {
    let authority = Authority::new("a");
    let mut settings = serving(authority.issue(&["localhost"]));
    settings.require_sni = true;
    let server = server(&settings);
    let client = ClientContext::new(&trusting(&authority)).unwrap();
    block_on(async {
        for asked in ["elsewhere.test", "127.0.0.1"] {
            let (s, c) = shake(&server, &client, asked).await;
            assert_eq!(s.err().unwrap().reason(), "unrecognized-name");
            assert_eq!(c.err().unwrap().reason(), "alert-unrecognized-name");
        }
        let (s, _c) = shake(&server, &client, "localhost").await;
        assert!(s.is_ok());
    });
}

#[test]
fn keys_of_every_kind_serve_in_both_versions() {
    let authority = Authority::new("a");
    let client = ClientContext::new(&trusting(&authority)).unwrap();
    for kind in [&PKCS_RSA_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let key = KeyPair::generate_for(kind).unwrap();
        let mut settings = serving(authority.issue_with(&["localhost"], key, |_| {}));
        for version in [Version::Tls12, Version::Tls13] {
            settings.max_version = version;
            let server = server(&settings);
            block_on(async {
                pair(&server, &client).await;
            });
        }
    }
}

fn with_client_auth(authority: &Authority, auth: ClientAuth) -> Arc<ServerContext> {
    let mut settings = serving(authority.issue(&["localhost"]));
    settings.client_auth = auth;
    server(&settings)
}

fn presenting(authority: &Authority, certificate: Option<Certificate>) -> Arc<ClientContext> {
    let mut settings = trusting(authority);
    settings.certificate = certificate;
    ClientContext::new(&settings).unwrap()
}

/// A client of this serial number.
fn client_certificate(authority: &Authority, serial: u64) -> Certificate {
    authority.issue_with(
        &["client.example"],
        KeyPair::generate().unwrap(),
        |params| params.serial_number = Some(SerialNumber::from(serial)),
    )
}

#[test]
fn a_required_certificate_lets_only_its_bearers_pass() {
    let authority = Authority::new("a");
    let server = with_client_auth(
        &authority,
        ClientAuth::Required {
            ca: authority.pem(),
            crls: vec![],
        },
    );
    block_on(async {
        let (s, _c) = shake(&server, &presenting(&authority, None), "localhost").await;
        assert_eq!(s.err().unwrap().reason(), "certificate-required");
        let bearer = presenting(&authority, Some(client_certificate(&authority, 77)));
        let (s, _c) = shake(&server, &bearer, "localhost").await;
        let s = s.unwrap();
        let chain = s.info().unwrap().peer_certificates;
        let facts = CertificateFacts::parse(&chain[0]).unwrap();
        assert_eq!(facts.subject, "CN=client.example");
        assert_eq!(facts.common_name.as_deref(), Some("client.example"));
        assert_eq!(facts.issuer, "CN=a");
        assert_eq!(facts.serial, "4d");
        assert_eq!(facts.san, ["DNS:client.example"]);
        assert_eq!(facts.sha256.len(), 64);
        let stranger = Authority::new("stranger");
        let foreign = presenting(&authority, Some(client_certificate(&stranger, 1)));
        let (s, _c) = shake(&server, &foreign, "localhost").await;
        assert_eq!(s.err().unwrap().reason(), "unknown-ca");
    });
}

#[test]
fn an_optional_certificate_may_be_missing_but_not_bad() {
    let authority = Authority::new("a");
    let server = with_client_auth(
        &authority,
        ClientAuth::Optional {
            ca: authority.pem(),
            crls: vec![],
        },
    );
    block_on(async {
        let (s, _c) = shake(&server, &presenting(&authority, None), "localhost").await;
        assert!(s.unwrap().info().unwrap().peer_certificates.is_empty());
        let expired = authority.issue_with(
            &["client.example"],
            KeyPair::generate().unwrap(),
            |params| {
                params.not_after = rcgen::date_time_ymd(2021, 1, 1);
            },
        );
        let (s, _c) = shake(&server, &presenting(&authority, Some(expired)), "localhost").await;
        assert_eq!(s.err().unwrap().reason(), "certificate-expired");
    });
}

#[test]
fn a_revoked_certificate_does_not_pass_and_its_neighbour_does() {
    let authority = Authority::new("a");
    let server = with_client_auth(
        &authority,
        ClientAuth::Required {
            ca: authority.pem(),
            crls: vec![authority.revoke(66)],
        },
    );
    block_on(async {
        let revoked = presenting(&authority, Some(client_certificate(&authority, 66)));
        let (s, mut c) = match shake(&server, &revoked, "localhost").await {
            (s, Ok(c)) => (s, c),
            (_, Err(error)) => panic!("TLS 1.3 clients learn of it afterwards: {error}"),
        };
        assert_eq!(s.err().unwrap().reason(), "certificate-revoked");
        let error = c.read(&mut [0; 16]).await.unwrap_err();
        assert!(error.to_string().contains("CertificateRevoked"), "{error}");
        let neighbour = presenting(&authority, Some(client_certificate(&authority, 67)));
        let (s, _c) = shake(&server, &neighbour, "localhost").await;
        assert!(s.is_ok());
    });
}

fn refusal(change: impl FnOnce(&mut Certificate)) -> SettingsError {
    let authority = Authority::new("a");
    let mut certificate = authority.issue(&["localhost"]);
    change(&mut certificate);
    let resumption = Resumption::new(1).unwrap();
    ServerContext::new(&serving(certificate), &resumption).unwrap_err()
}

#[test]
fn errors_of_settings_name_the_file_and_what_is_wrong() {
    let other = Authority::new("a").issue(&["localhost"]);
    let error = refusal(|certificate| certificate.key = other.key.clone());
    assert!(matches!(error, SettingsError::KeyMismatch { .. }));
    assert!(error.to_string().contains("key.pem") && error.to_string().contains("cert.pem"));
    let error = refusal(|c| std::mem::swap(&mut c.key, &mut c.chain));
    assert!(matches!(
        error,
        SettingsError::Missing {
            expected: "CERTIFICATE",
            ..
        }
    ));
    let error = refusal(|c| c.key = pem("k.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n"));
    assert!(matches!(error, SettingsError::BadPem { .. }), "{error}");
    let error = refusal(|c| {
        c.key = pem(
            "k.pem",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        );
    });
    assert!(matches!(error, SettingsError::BadKey { .. }), "{error}");
    let error = refusal(|c| {
        c.chain = pem(
            "c.pem",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        );
    });
    assert!(
        matches!(error, SettingsError::BadCertificate { index: 1, .. }),
        "{error}"
    );
    let error = refusal(|c| c.key = pem("k.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
    assert!(
        matches!(error, SettingsError::EncryptedKey { .. }),
        "{error}"
    );
    let settings = ClientSettings::default();
    assert_eq!(
        ClientContext::new(&settings).unwrap_err(),
        SettingsError::NoAuthorities
    );
}

#[test]
fn expiry_and_names_of_each_certificate_are_known() {
    let authority = Authority::new("a");
    let certificate = authority.issue_with(
        &["One.example", "two.example"],
        KeyPair::generate().unwrap(),
        |params| params.not_after = rcgen::date_time_ymd(2033, 5, 18),
    );
    let server = server(&serving(certificate));
    let [expiry] = server.expiries() else {
        panic!("one certificate")
    };
    assert_eq!(expiry.names, ["one.example", "two.example"]);
    let seconds = expiry.not_after.duration_since(std::time::UNIX_EPOCH);
    assert_eq!(seconds.unwrap().as_secs(), 1_999_987_200);
    assert!(server.warnings().is_empty(), "{:?}", server.warnings());
}

#[test]
fn a_chain_in_the_wrong_order_is_warned_of() {
    let authority = Authority::new("a");
    let mut certificate = authority.issue(&["localhost"]);
    let other = Authority::new("b").pem();
    certificate.chain.bytes.extend_from_slice(&other.bytes);
    let server = server(&serving(certificate));
    assert!(server.warnings()[0].contains("did not sign"));
}
