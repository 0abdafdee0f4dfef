//! The origin: answers requests from memory. What it serves:
//!
//! - `/bytes/N`: N bytes; `/chunked/N`: the same, chunked
//! - `/health`: 200; `/status/N`: an empty answer of that status; `/`: its own name
//! - `/echo`: the request's body; `/request`: the request's head
//! - `/cookie/NAME=VALUE`: sets this cookie, which is the body too
//!
//! Bodies of requests are read and thrown away elsewhere. Speed for large bodies comes from sending them out of a memory file.

mod answer;
mod request;
mod serve;
mod transport;

use super::sys::{Epoll, Interest};
use super::{Error, Stop};
use answer::Answers;
use rustls::crypto::aws_lc_rs;
use rustls::{CipherSuite, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serve::Connection;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// What an origin listens on and how it calls itself.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Address to serve HTTP on; may be given several times
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7001")]
    pub listen: Vec<SocketAddr>,
    /// Address to serve HTTP over TLS on; may be given several times
    #[arg(long, value_name = "ADDRESS", requires_all = ["certificate", "key"])]
    pub tls_listen: Vec<SocketAddr>,
    /// Certificate chain for TLS (PEM)
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Private key for TLS (PEM)
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Name to answer with, at `/` and in the field X-Origin
    #[arg(long)]
    pub name: Option<String>,
}

/// A bound origin, not yet serving.
pub struct Origin {
    listeners: Vec<Listener>,
    tls: Option<Arc<ServerConfig>>,
    answers: Answers,
}

struct Listener {
    socket: Socket,
    tls: bool,
}

/// Connections are found by their descriptor's number; listeners have numbers beyond any descriptor's.
const LISTENER: u64 = 1 << 32;

/// The largest part of a request or of a TLS stream read at once, in bytes.
const SCRATCH: usize = 64 * 1024;

impl Origin {
    /// Bind all listeners.
    ///
    /// # Errors
    /// If an address cannot be listened on, or certificate and key cannot be read.
    pub fn bind(args: &Args) -> Result<Self, Error> {
        let plain = args.listen.iter().map(|address| (address, false));
        let over_tls = args.tls_listen.iter().map(|address| (address, true));
        let listeners = plain
            .chain(over_tls)
            .map(|(&address, tls)| {
                let socket = listen(address).map_err(|source| Error::Listen { address, source })?;
                Ok(Listener { socket, tls })
            })
            .collect::<Result<_, Error>>()?;
        let tls = match (&args.certificate, &args.key) {
            _ if args.tls_listen.is_empty() => None,
            (Some(certificate), Some(key)) => Some(Arc::new(server_config(certificate, key)?)),
            _ => return Err(Error::NoCertificate),
        };
        Ok(Self {
            listeners,
            tls,
            answers: Answers::new(args.name.as_deref()),
        })
    }

    /// The addresses that are listened on, plain ones first, in the order they were given.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|listener| listener.socket.local_addr().ok()?.as_socket())
            .collect()
    }

    /// Serve until `stop` says so; open connections are then dropped.
    ///
    /// # Errors
    /// If the event loop fails.
    pub fn run(mut self, stop: &Stop) -> Result<(), Error> {
        let mut epoll = Epoll::new(512)?;
        for (index, listener) in self.listeners.iter().enumerate() {
            epoll.add(&listener.socket, LISTENER + index as u64, Interest::Accept)?;
        }
        let mut connections: Vec<Option<Box<Connection>>> = Vec::new();
        let mut scratch = vec![0; SCRATCH];
        while !stop.is_stopped() {
            for index in 0..epoll.wait(200)? {
                let event = epoll.event(index);
                if event.token >= LISTENER {
                    let listener = usize::try_from(event.token - LISTENER).unwrap_or(usize::MAX);
                    self.accept(listener, &epoll, &mut connections);
                    continue;
                }
                let slot = usize::try_from(event.token).unwrap_or(usize::MAX);
                let Some(connection) = connections.get_mut(slot).and_then(Option::as_mut) else {
                    continue;
                };
                if connection
                    .ready(event, &mut self.answers, &mut scratch)
                    .is_done()
                {
                    connections[slot] = None;
                }
            }
        }
        Ok(())
    }

    fn accept(
        &self,
        listener: usize,
        epoll: &Epoll,
        connections: &mut Vec<Option<Box<Connection>>>,
    ) {
        let listener = &self.listeners[listener];
        // A few at a time, so that connections already open are not kept waiting.
        for _ in 0..64 {
            let Ok((socket, _)) = listener.socket.accept4(nonblocking()) else {
                return;
            };
            let _ = socket.set_tcp_nodelay(true);
            let slot =
                usize::try_from(std::os::fd::AsRawFd::as_raw_fd(&socket)).unwrap_or_default();
            if epoll
                .add(&socket, slot as u64, Interest::ReadWrite)
                .is_err()
            {
                continue;
            }
            let tls = self.tls.as_ref().filter(|_| listener.tls);
            if connections.len() <= slot {
                connections.resize_with(slot + 1, || None);
            }
            connections[slot] = Connection::new(socket, tls).map(Box::new);
        }
    }
}

fn nonblocking() -> std::ffi::c_int {
    libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC
}

fn listen(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(8192)?;
    Ok(socket)
}

fn server_config(certificate: &Path, key: &Path) -> Result<ServerConfig, Error> {
    let read = |path: &Path| {
        fs::read(path).map_err(|error| Error::Pem {
            path: path.to_owned(),
            why: error.to_string(),
        })
    };
    let bad = |path: &Path, error: rustls_pki_types::pem::Error| Error::Pem {
        path: path.to_owned(),
        why: error.to_string(),
    };
    let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad(certificate, error))?;
    let key_der = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| bad(key, error))?;
    let mut provider = aws_lc_rs::default_provider();
    // All clients get the same suite, the cheapest, so that what they are measured by is the same.
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key_der)?;
    config.ignore_client_order = true;
    Ok(config)
}

#[cfg(test)]
mod tests;
