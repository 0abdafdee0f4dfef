use super::*;
use reactor::block_on;

/// Whether a second connection resumes what a first one began.
async fn resumes(
    first: &Arc<ServerContext>,
    second: &Arc<ServerContext>,
    client: &Arc<ClientContext>,
) -> bool {
    let (mut s, mut c) = pair(first, client).await;
    greet(&mut s, &mut c).await;
    let (s, c) = pair(second, client).await;
    let resumed = s.info().unwrap().resumed;
    assert_eq!(resumed, c.info().unwrap().resumed);
    resumed
}

#[test]
fn sessions_resume_with_tickets_and_without_in_both_versions() {
    let authority = Authority::new("a");
    for version in [Version::Tls12, Version::Tls13] {
        for (tickets, sessions, expected) in [(2, 0, true), (0, 64, version == Version::Tls12)] {
            let mut settings = serving(authority.issue(&["localhost"]));
            settings.tickets = tickets;
            settings.max_version = version;
            let resumption = Resumption::new(sessions).unwrap();
            let server = ServerContext::new(&settings, &resumption).unwrap();
            let client = ClientContext::new(&trusting(&authority)).unwrap();
            block_on(async {
                assert_eq!(
                    resumes(&server, &server, &client).await,
                    expected,
                    "{version:?} {tickets}"
                );
            });
        }
    }
}

#[test]
fn a_client_without_cache_does_not_resume() {
    let authority = Authority::new("a");
    let server = server(&serving(authority.issue(&["localhost"])));
    let mut settings = trusting(&authority);
    settings.session_cache = 0;
    let client = ClientContext::new(&settings).unwrap();
    block_on(async {
        assert!(!resumes(&server, &server, &client).await);
    });
}

#[test]
fn sessions_survive_a_reload() {
    let authority = Authority::new("a");
    let resumption = Resumption::new(64).unwrap();
    let fresh = || {
        let settings = serving(authority.issue(&["localhost"]));
        ServerContext::new(&settings, &resumption).unwrap()
    };
    let client = ClientContext::new(&trusting(&authority)).unwrap();
    block_on(async {
        assert!(resumes(&fresh(), &fresh(), &client).await);
    });
}

#[test]
fn a_session_without_certificate_opens_nothing_that_requires_one() {
    let authority = Authority::new("a");
    let resumption = Resumption::new(64).unwrap();
    for version in [Version::Tls12, Version::Tls13] {
        let mut settings = serving(authority.issue(&["localhost"]));
        settings.max_version = version;
        let open = ServerContext::new(&settings, &resumption).unwrap();
        settings.client_auth = ClientAuth::Required {
            ca: authority.pem(),
            crls: vec![],
        };
        let strict = ServerContext::new(&settings, &resumption).unwrap();
        let client = ClientContext::new(&trusting(&authority)).unwrap();
        block_on(async {
            let (mut s, mut c) = pair(&open, &client).await;
            greet(&mut s, &mut c).await;
            let (s, _c) = shake(&strict, &client, "localhost").await;
            assert_eq!(s.err().unwrap().reason(), "certificate-required");
        });
    }
}

#[test]
fn a_resumed_session_still_knows_the_clients_certificate() {
    let authority = Authority::new("a");
    let mut settings = serving(authority.issue(&["localhost"]));
    settings.client_auth = ClientAuth::Required {
        ca: authority.pem(),
        crls: vec![],
    };
    let server = server(&settings);
    let mut settings = trusting(&authority);
    settings.certificate = Some(authority.issue(&["client.example"]));
    let client = ClientContext::new(&settings).unwrap();
    block_on(async {
        assert!(resumes(&server, &server, &client).await);
        let (s, _c) = pair(&server, &client).await;
        assert_eq!(s.info().unwrap().peer_certificates.len(), 1);
    });
}
