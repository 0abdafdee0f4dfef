//! The first message of a TLS client (RFC 8446 section 4.1.2), read without answering it: enough to route a connection
//! that is passed through. Nothing here terminates TLS.

use thiserror::Error;

/// Longest ClientHello that is read, in bytes of the handshake message.
pub const MAX_BYTES: usize = 32 << 10;

/// What a client says first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The host name asked for (SNI), in lower case. `None` too if it is an address.
    pub server_name: Option<String>,
    /// The protocols offered (ALPN), in the client's order.
    pub alpn: Vec<Vec<u8>>,
    /// The versions offered, as numbers on the wire (0x0304 is TLS 1.3). From the old field if there is no extension.
    pub versions: Vec<u16>,
    /// The cipher suites offered, as numbers on the wire.
    pub cipher_suites: Vec<u16>,
}

/// Why a ClientHello was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum HelloError {
    /// The connection does not begin with a TLS handshake record.
    #[error("not TLS")]
    NotTls,
    /// A TLS record of another kind, or an empty or oversized one.
    #[error("a TLS record is malformed")]
    BadRecord,
    /// The first handshake message is not a ClientHello.
    #[error("the TLS handshake does not begin with a ClientHello")]
    NotClientHello,
    /// More than [`MAX_BYTES`], or cut into too many records.
    #[error("the ClientHello is too long")]
    TooLong,
    /// A length inside does not fit what is around it.
    #[error("the ClientHello is malformed")]
    Malformed,
    /// An extension comes twice.
    #[error("the ClientHello repeats an extension")]
    RepeatedExtension,
    /// The server name is no host name.
    #[error("the ClientHello's server name is not a host name")]
    BadServerName,
}

impl HelloError {
    /// A short name that never changes, for counters and logs.
    pub const fn reason(self) -> &'static str {
        match self {
            HelloError::NotTls => "not-tls",
            HelloError::BadRecord => "bad-tls-record",
            HelloError::NotClientHello => "not-client-hello",
            HelloError::TooLong => "client-hello-too-long",
            HelloError::Malformed => "bad-client-hello",
            HelloError::RepeatedExtension => "repeated-tls-extension",
            HelloError::BadServerName => "bad-server-name",
        }
    }
}

/// Reads the ClientHello at the front of a connection: `None` while bytes are missing.
pub fn parse(buf: &[u8]) -> Result<Option<ClientHello>, HelloError> {
    let _ = buf;
    Ok(None)
}
