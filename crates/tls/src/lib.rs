//! TLS on the reactor: handshakes, records, certificates and what is known of the peer.
//!
//! rustls does the protocol, without I/O; this crate moves the bytes and chooses the settings. Where
//! the settings come from, what is said over the stream, and how long a handshake may take is for others.

mod client;
mod engine;
mod error;
mod facts;
mod handshake;
mod load;
mod names;
mod resolve;
mod resumption;
mod server;
mod session;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

pub use client::ClientContext;
pub use error::{AcceptError, ConnectError};
pub use facts::{CertificateFacts, FactsError};
pub use handshake::{accept, connect};
pub use names::{GROUPS, SUITES};
pub use resumption::Resumption;
pub use rustls_pki_types::{CertificateDer, ServerName};
pub use server::ServerContext;
pub use session::TlsStream;
pub use settings::{
    Certificate, ClientAuth, ClientSettings, Expiry, Pem, ServerSettings, SettingsError, Version,
};
pub use stream::{Stream, TlsInfo};
