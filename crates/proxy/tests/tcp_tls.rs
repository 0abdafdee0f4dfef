//! TCP virtuals that end TLS, and pools that begin it again.

#![expect(clippy::unwrap_used, reason = "a test ends where what it needs fails")]

use proxy::{Engine, Inherited, Options};
use reactor::{ConnectOptions, Tcp};
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use tls::{ClientContext, ClientSettings, ServerName, Stream};
use wire::proxy_protocol;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn tls_ends_here_and_its_end_of_data_is_passed_on_both_ways() {
    let certificate = Files::new("echo");
    let member = echo();
    let (_engine, address) = start(&certificate, &format!("members: [\"{member}\"]"));
    let data = bytes(1_500_000);
    assert!(ask(address, &data) == data);
}

#[test]
fn tls_to_the_member_begins_behind_the_proxy_header() {
    let certificate = Files::new("twice");
    let inner = echo();
    // The member is a virtual too: it wants a PROXY header, and then TLS.
    let (_member, at) = start_with(
        &certificate,
        "proxy_protocol: {from: [127.0.0.0/8]}, ",
        &format!("members: [\"{inner}\"]"),
    );
    let pool = format!("members: [\"{at}\"], proxy_protocol: v2, tls: {{verify: false}}");
    let (_engine, address) = start(&certificate, &pool);
    let data = bytes(400_000);
    assert!(ask(address, &data) == data);
}

#[test]
fn a_member_learns_of_the_clients_tls_by_the_proxy_header() {
    let certificate = Files::new("header");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let member = thread::spawn(move || {
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        got
    });
    let pool = format!("members: [\"{at}\"], proxy_protocol: v2");
    let (_engine, address) = start(&certificate, &pool);
    assert_eq!(ask(address, b"hello"), b"");
    let got = member.join().unwrap();
    let (header, len) = proxy_protocol::parse(&got).unwrap().unwrap();
    assert_eq!(&got[len..], b"hello");
    assert_eq!(header.authority.as_deref(), Some("a.example"));
    let tls = header.tls.unwrap();
    assert_eq!((tls.client, tls.verify), (1, 1));
    assert_eq!(tls.version.as_deref(), Some("TLSv1.3"));
}

#[test]
fn who_speaks_no_tls_is_turned_away_and_counted() {
    let certificate = Files::new("plain");
    let (engine, address) = start(&certificate, "members: [\"127.0.0.1:1\"]");
    let answer = reactor::block_on(reactor::timeout(LONG, async {
        let tcp = Tcp::connect(address, &ConnectOptions::default())
            .await
            .unwrap();
        tcp.write_all(b"\0\x01\x02 no TLS at all").await.unwrap();
        let mut buf = [0; 100];
        tcp.read(&mut buf).await
    }));
    assert!(answer.is_ok());
    let snapshot = engine.0.snapshot();
    let counters = &snapshot.virtuals["web"].state.counters;
    // The connection is closed before it is counted.
    let counted = || counters.refusals().get("not-tls") == Some(&1);
    let deadline = Instant::now() + LONG;
    while !(counted() && counters.totals().tls_failed == 1) {
        assert!(Instant::now() < deadline, "never counted");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Says `data` over TLS, ends its side, and hears all that comes back.
fn ask(address: SocketAddr, data: &[u8]) -> Vec<u8> {
    let settings = ClientSettings {
        verify: false,
        ..ClientSettings::default()
    };
    let context = ClientContext::new(&settings).unwrap();
    let name = ServerName::try_from("a.example").unwrap();
    let talk = async {
        let tcp = Tcp::connect(address, &ConnectOptions::default()).await?;
        let mut stream = tls::connect(tcp, &name, &context).await.unwrap();
        let mut got = Vec::new();
        let mut left = data;
        let mut buf = vec![0; 30_000];
        while !left.is_empty() {
            let n = stream.try_write(left)?;
            left = &left[n..];
            if n == 0 {
                take(&mut stream, &mut got, &mut buf)?;
                reactor::sleep(Duration::from_millis(1)).await;
            }
        }
        stream.finish().await?;
        loop {
            match stream.read(&mut buf).await? {
                0 => return Ok(got),
                n => got.extend_from_slice(&buf[..n]),
            }
        }
    };
    let got: Result<std::io::Result<_>, _> = reactor::block_on(reactor::timeout(LONG, talk));
    got.expect("it is done in time").unwrap()
}

fn take(stream: &mut Stream, got: &mut Vec<u8>, buf: &mut [u8]) -> std::io::Result<()> {
    while let Some(n) = stream.try_read(buf)? {
        assert!(n > 0, "it ended early");
        got.extend_from_slice(&buf[..n]);
    }
    Ok(())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

/// A certificate for `a.example` and its key.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hg-tcp-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Files(folder)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Stops with the test.
struct Running(Engine);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn start(certificate: &Files, pool: &str) -> (Running, SocketAddr) {
    start_with(certificate, "", pool)
}

fn start_with(certificate: &Files, settings: &str, pool: &str) -> (Running, SocketAddr) {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let folder = certificate.0.to_str().unwrap();
    let (cert, key) = (format!("{folder}/cert.pem"), format!("{folder}/key.pem"));
    let text = format!(
        "workers: 1\nlog: {{access: off}}\n\
         virtuals: {{web: {{listen: [\"{address}\"], protocol: tcp, tls: site, {settings}pool: app}}}}\n\
         pools: {{app: {{{pool}}}}}\n\
         tls_profiles: {{site: {{certificates: [{{certificate: {cert}, key: {key}}}]}}}}\n"
    );
    let source = model::MemorySource::default()
        .file(&cert, "")
        .file(&key, "");
    let config = model::parse_text(Path::new("test.yaml"), &text, &source)
        .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let engine = Engine::start(config, Inherited::none(), Options::default()).unwrap();
    (Running(engine), address)
}

/// A member for one connection that sends back what it gets.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut reader = listener.accept().unwrap().0;
        let mut writer = reader.try_clone().unwrap();
        let _ = std::io::copy(&mut reader, &mut writer);
    });
    address
}
