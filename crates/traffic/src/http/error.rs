//! What can go wrong before traffic flows; what goes wrong while it flows is counted instead.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why an origin or a load could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target's address could not be read.
    #[error("cannot read the address {url:?}: {why}")]
    Target {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A name did not resolve.
    #[error("cannot resolve {name:?}: {source}")]
    Resolve {
        /// The name with its port.
        name: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// A list of requests could not be read.
    #[error("cannot read the requests in {path}: {why}")]
    List {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate or key could not be read.
    #[error("cannot read {path}: {why}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A TLS listener was asked for without certificate and key.
    #[error("a TLS listener needs both --certificate and --key")]
    NoCertificate,
    /// TLS could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The target never answered.
    #[error("{target} does not answer: {failed} attempts failed, the last one with: {why}")]
    Unreachable {
        /// Who was asked.
        target: SocketAddr,
        /// How many attempts failed in a row.
        failed: u64,
        /// Why the last one did.
        why: String,
    },
    /// The event loop itself failed.
    #[error("event loop: {0}")]
    Loop(#[from] io::Error),
}
