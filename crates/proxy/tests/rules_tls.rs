//! Rules at the events of TLS: what they learn of the handshake and of the client's certificate.

#![expect(clippy::unwrap_used, reason = "a test ends where what it needs fails")]

mod common;

use common::script::{Member, ok};
use proxy::{Engine, Inherited, Options};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use reactor::{ConnectOptions, Tcp};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tls::{Certificate, ClientContext, ClientSettings, Pem, ServerName};

const LONG: Duration = Duration::from_secs(20);

const RULE: &str = "when CLIENT_ACCEPTED { set order accepted }
when CLIENTSSL_CLIENTHELLO { append order ,hello }
when CLIENTSSL_CLIENTCERT { append order ,cert[SSL::cert count] }
when CLIENTSSL_HANDSHAKE {
  append order ,handshake
  set subject \"\"
  if { [SSL::cert count] > 0 } { set subject [X509::subject [SSL::cert 0]] }
  if { $subject contains \"mallory\" } { reject }
}
when HTTP_REQUEST {
  HTTP::header insert X-Order $order
  HTTP::header insert X-Subject $subject
  HTTP::header insert X-Version [SSL::cipher version]
  HTTP::header insert X-Bits [SSL::cipher bits]
}";

#[test]
fn rules_learn_of_the_handshake_in_its_order() {
    let site = Site::new("order");
    let (engine, address) = site.start();
    let seen = site.ask(address, None).unwrap();
    assert!(
        seen.contains("X-Order: accepted,hello,cert0,handshake\r\n"),
        "{seen}"
    );
    assert!(seen.contains("X-Version: TLSv1.3\r\n"), "{seen}");
    assert!(
        seen.contains("X-Bits: 256\r\n") || seen.contains("X-Bits: 128\r\n"),
        "{seen}"
    );
    engine.stop();
}

#[test]
fn a_rule_binds_to_the_subject_of_the_clients_certificate() {
    let site = Site::new("subject");
    let (engine, address) = site.start();
    let seen = site.ask(address, Some("alice")).unwrap();
    assert!(seen.contains(",cert1,"), "{seen}");
    assert!(seen.contains("X-Subject: CN=alice\r\n"), "{seen}");
    assert!(site.ask(address, Some("mallory")).is_none());
    engine.stop();
}

/// An authority, a server's certificate of it, and a folder of their files.
struct Site {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Site {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("hg-rules-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let ca = params.self_signed(&key).unwrap();
        std::fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
        let site = Site {
            folder,
            issuer: Issuer::new(params, key),
        };
        let (cert, key) = site.certificate("a.example");
        std::fs::write(site.folder.join("cert.pem"), cert).unwrap();
        std::fs::write(site.folder.join("key.pem"), key).unwrap();
        site
    }

    /// A certificate for a name, and its key.
    fn certificate(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let made = params.signed_by(&key, &self.issuer).unwrap();
        (made.pem(), key.serialize_pem())
    }

    fn start(&self) -> (Engine, SocketAddr) {
        let member = Member::answering(ok);
        let folder = self.folder.to_str().unwrap();
        let [cert, key, ca] = ["cert.pem", "key.pem", "ca.pem"].map(|f| format!("{folder}/{f}"));
        let mut text = format!(
            "workers: 1\nlog: {{access: off}}\n\
             virtuals: {{web: {{listen: \"127.0.0.1:0\", tls: site, pool: app, rules: r}}}}\n\
             pools: {{app: {{members: [\"{}\"]}}}}\n\
             tls_profiles: {{site: {{certificates: [{{certificate: {cert}, key: {key}}}], \
             client_auth: {{mode: optional, ca: {ca}}}}}}}\n\
             rules:\n  r:\n    text: |\n",
            member.address
        );
        for line in RULE.lines() {
            text.push_str(&format!("      {line}\n"));
        }
        let mut source = model::MemorySource::default();
        for file in [&cert, &key, &ca] {
            source = source.file(file, "");
        }
        let config = model::parse_text(Path::new("test.yaml"), &text, &source)
            .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let engine = Engine::start(config, Inherited::none(), Options::default()).unwrap();
        let address = engine.snapshot().addresses("web")[0];
        (engine, address)
    }

    /// What the member was sent of a request by a client with such a certificate; none where there was no answer.
    fn ask(&self, address: SocketAddr, client: Option<&str>) -> Option<String> {
        let certificate = client.map(|name| {
            let pem = |text: String| Pem {
                label: name.to_owned(),
                bytes: text.into_bytes(),
            };
            let (chain, key) = self.certificate(name);
            Certificate {
                chain: pem(chain),
                key: pem(key),
            }
        });
        let settings = ClientSettings {
            verify: false,
            certificate,
            ..ClientSettings::default()
        };
        let context = ClientContext::new(&settings).unwrap();
        let name = ServerName::try_from("a.example").unwrap();
        let talk = async {
            let options = ConnectOptions::default();
            let tcp = Tcp::connect(address, &options).await.ok()?;
            let mut stream = tls::connect(tcp, &name, &context).await.ok()?;
            let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
            stream.write_all(request).await.ok()?;
            let mut got = Vec::new();
            let mut buf = vec![0; 10_000];
            loop {
                match stream.read(&mut buf).await.ok()? {
                    0 => break,
                    n => got.extend_from_slice(&buf[..n]),
                }
            }
            (!got.is_empty()).then(|| String::from_utf8_lossy(&got).into_owned())
        };
        reactor::block_on(reactor::timeout(LONG, talk)).expect("it is done in time")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
