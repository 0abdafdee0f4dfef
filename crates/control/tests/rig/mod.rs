//! A process without a process: an engine, its admin API, and a loop that does what it is asked.
#![allow(
    clippy::unwrap_used,
    reason = "a rig that cannot be set up fails the test"
)]

use control::client::Client;
use control::{Process, Request, Server, Wish};
use proxy::{Engine, Inherited, Options};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// What every rig serves; `admin` is added to it.
const CONFIG: &str = "
workers: 1
log: {access: off}
pools:
  app:
    members:
      - {address: '127.0.0.1:9', name: a/1}
      - {address: '127.0.0.1:9', name: b, backup: true}
virtuals:
  web: {listen: '127.0.0.1:0', pool: app}
";

pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    /// Where the TCP listener is after each reload.
    addresses: Receiver<Option<SocketAddr>>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Rig {
    /// With the Unix socket `admin.sock`, and `more` of the section `admin`.
    pub(crate) fn start(more: &str) -> (Self, Option<SocketAddr>) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "s3cret\n").unwrap();
        let path = folder.path().join("headgate.yaml");
        write_config(&path, &format!("socket: admin.sock, {more}"), "");
        let config = control::read(&path)
            .0
            .unwrap_or_else(|errors| panic!("{errors}"));
        let options = Options::default();
        let engine = Engine::start(config.clone(), Inherited::none(), options).unwrap();
        let (told, addresses) = channel();
        let (end, ended) = oneshot::channel();
        let owned = Arc::new(engine);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let beside: Arc<dyn control::Beside> = Arc::new(Nothing);
                let (process, mut requests) = Process::new("0.0.0", path);
                let process = Arc::new(process);
                let mut server = Server::start(
                    Arc::clone(&owned),
                    Arc::clone(&process),
                    &config.admin,
                    None,
                )
                .unwrap();
                told.send(server.tcp_address()).unwrap();
                let serve = async {
                    while let Some(Request { wish, answer }) = requests.recv().await {
                        let result = match wish {
                            Wish::Reload => {
                                let (_, result) =
                                    control::reload(&owned, &beside, &process, &mut server, "api")
                                        .await;
                                told.send(server.tcp_address()).unwrap();
                                result.map(|_| "reloaded".to_owned())
                            }
                            Wish::Upgrade => Err("no newer program".to_owned()),
                            Wish::Drain => {
                                owned.drain();
                                Ok("draining".to_owned())
                            }
                        };
                        let _ = answer.send(result);
                    }
                };
                tokio::select! {
                    () = serve => {}
                    _ = ended => {}
                }
            });
        });
        let rig = Rig {
            folder,
            addresses,
            end: Some(end),
            thread: Some(thread),
        };
        let address = rig.address();
        (rig, address)
    }

    /// Where the TCP listener is, after the start and after each reload.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.addresses
            .recv_timeout(Duration::from_secs(20))
            .unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("admin.sock")
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.socket())
    }

    /// Writes another configuration: of `admin`, and whatever else.
    pub(crate) fn configure(&self, admin: &str, more: &str) {
        write_config(&self.folder.path().join("headgate.yaml"), admin, more);
    }

    /// Status and text of the answer to a request through the Unix socket.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        exchange(&mut stream, method, path, "", body)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.end.take().map(|end| end.send(()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the thread of the API panicked");
        }
    }
}

/// Status and text of the answer to a request over TCP, with such fields.
pub(crate) fn ask_tcp(address: SocketAddr, path: &str, fields: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    exchange(&mut stream, "GET", path, fields, "")
}

fn exchange(
    stream: &mut (impl Read + Write),
    method: &str,
    path: &str,
    fields: &str,
    body: &str,
) -> (u16, String) {
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\n{fields}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // An answer may come before all was taken.
    let _ = stream.write_all(body.as_bytes());
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut part) {
        answer.extend_from_slice(&part[..length]);
    }
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{answer:?}"));
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn write_config(path: &Path, admin: &str, more: &str) {
    fs::write(path, format!("admin: {{{admin}}}\n{CONFIG}{more}")).unwrap();
}

/// No engine beside the proxy.
struct Nothing;

impl control::Beside for Nothing {
    fn apply(&self, _: &model::Config) -> Result<(), String> {
        Ok(())
    }
}
