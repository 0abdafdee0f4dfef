//! The same over TCP against another implementation. Each peer runs under a time limit of its own.

use super::*;
use reactor::{ConnectOptions, Listener, block_on, timeout};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// A folder of its own for a test's files.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("headgate-tls-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `openssl` under a limit, with the output of a shell's commands on its standard input.
fn openssl(arguments: &str, typing: &str) -> Child {
    Command::new("timeout")
        .args(["10", "sh", "-c"])
        .arg(format!("({typing}) | openssl {arguments}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What it said, on both outputs.
fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

/// Waits on another thread, so that the reactor goes on.
async fn outcome(child: Child) -> Output {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    loop {
        if let Ok(output) = receiver.try_recv() {
            return output;
        }
        reactor::sleep(Duration::from_millis(10)).await;
    }
}

/// Serves one connection of `openssl s_client`: echoes until its end. Returns what accept said,
/// and the peer's words.
fn serve_one(
    context: &Arc<ServerContext>,
    arguments: &str,
    typing: &str,
) -> (Result<Vec<u8>, String>, String) {
    let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listening.local_addr().unwrap().port();
    let child = openssl(
        &format!("s_client -connect 127.0.0.1:{port} -servername localhost {arguments}"),
        typing,
    );
    block_on(timeout(LIMIT, async {
        let listener = Listener::new(&listening).unwrap();
        let serving = async {
            let (fd, _) = listener.accept().await.unwrap();
            let tcp = Tcp::from_fd(fd).unwrap();
            let mut stream = accept(tcp, b"", context)
                .await
                .map_err(|error| error.reason().to_owned())?;
            let mut all = Vec::new();
            let mut buf = [0; 4096];
            loop {
                match stream.read(&mut buf).await {
                    Ok(0) => break,
                    Ok(n) => {
                        all.extend_from_slice(&buf[..n]);
                        stream.write_all(&buf[..n]).await.unwrap();
                    }
                    Err(error) => return Err(error.to_string()),
                }
            }
            let _ = stream.finish().await;
            Ok(all)
        };
        let (served, output) = reactor::join(serving, outcome(child)).await;
        (served, said(&output))
    }))
    .expect("within the limit")
}

#[test]
fn openssl_s_client_is_served_in_both_versions() {
    let authority = Authority::new("a");
    let folder = Folder::new("client");
    let ca = folder.write("ca.pem", &authority.pem().bytes);
    let context = server(&serving(authority.issue(&["localhost"])));
    for (flag, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let arguments =
            format!("{flag} -CAfile {ca} -verify_return_error -verify_hostname localhost");
        let (served, words) = serve_one(&context, &arguments, "echo hello there; sleep 0.5");
        assert_eq!(served.unwrap(), b"hello there\n", "{words}");
        assert!(words.contains("Verify return code: 0"), "{words}");
        assert!(words.contains(version), "{words}");
        assert!(words.matches("hello there").count() >= 1, "{words}");
    }
}

#[test]
fn openssl_s_client_asking_to_renegotiate_is_refused() {
    let authority = Authority::new("a");
    let context = server(&serving(authority.issue(&["localhost"])));
    let (_, words) = serve_one(&context, "-tls1_2", "echo R; sleep 1");
    assert!(words.contains("no renegotiation"), "{words}");
}

#[test]
fn openssl_s_client_changing_keys_is_followed() {
    let authority = Authority::new("a");
    let context = server(&serving(authority.issue(&["localhost"])));
    let (served, words) = serve_one(
        &context,
        "-tls1_3",
        "sleep 0.3; echo K; sleep 0.3; echo under new keys; sleep 0.3",
    );
    assert!(words.contains("KEYUPDATE"), "{words}");
    assert_eq!(served.unwrap(), b"under new keys\n", "{words}");
}

#[test]
fn openssl_s_client_gets_the_alert_it_deserves() {
    let authority = Authority::new("a");
    let mut settings = serving(authority.issue(&["localhost"]));
    settings.min_version = Version::Tls13;
    let context = server(&settings);
    let (served, words) = serve_one(&context, "-tls1_2", "sleep 0.1");
    assert_eq!(served.unwrap_err(), "no-shared-version");
    assert!(words.contains("alert protocol version"), "{words}");
    settings.client_auth = ClientAuth::Required {
        ca: authority.pem(),
        crls: vec![],
    };
    let (served, words) = serve_one(&server(&settings), "-tls1_3", "sleep 0.5");
    assert_eq!(served.unwrap_err(), "certificate-required");
    assert!(words.contains("alert certificate required"), "{words}");
}

#[test]
fn openssl_s_server_is_spoken_to_in_both_versions() {
    let authority = Authority::new("a");
    let folder = Folder::new("server");
    let certificate = authority.issue(&["localhost"]);
    let chain = folder.write("cert.pem", &certificate.chain.bytes);
    let key = folder.write("key.pem", &certificate.key.bytes);
    let context = ClientContext::new(&trusting(&authority)).unwrap();
    for (flag, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        // A port that was free a moment ago.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let arguments = format!(
            "s_server -accept 127.0.0.1:{port} -cert {chain} -key {key} {flag} -naccept 1 -rev"
        );
        let child = openssl(&arguments, "sleep 3");
        block_on(timeout(LIMIT, async {
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let tcp = loop {
                match Tcp::connect(to, &ConnectOptions::default()).await {
                    Ok(tcp) => break tcp,
                    Err(_) => reactor::sleep(Duration::from_millis(20)).await,
                }
            };
            let name = ClientContext::server_name("localhost").unwrap();
            let mut stream = connect(tcp, &name, &context).await.unwrap();
            assert_eq!(stream.info().unwrap().version, version);
            stream.write_all(b"stressed\n").await.unwrap();
            let mut got = Vec::new();
            let mut buf = [0; 64];
            while !got.ends_with(b"\n") {
                let n = stream.read(&mut buf).await.unwrap();
                got.extend_from_slice(&buf[..n]);
            }
            assert_eq!(got, b"desserts\n");
            stream.finish().await.unwrap();
            outcome(child).await;
        }))
        .expect("within the limit");
    }
}
