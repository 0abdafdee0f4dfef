//! The PROXY protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt): who a forwarded connection really comes from.
//! Whether the peer may be believed is the caller's question, to be answered before this is asked.

use std::net::SocketAddr;
use thiserror::Error;

/// What a PROXY header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyHeader {
    /// LOCAL: the sender speaks for itself (a health check); the connection's own addresses count.
    pub local: bool,
    /// Whether the flow is of datagrams (UDP); otherwise of a stream (TCP).
    pub datagram: bool,
    /// Source and destination, of one family. `None`: unknown, local, or a Unix socket.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The application protocol that TLS settled on.
    pub alpn: Option<Vec<u8>>,
    /// The host name that the client asked for (SNI).
    pub authority: Option<String>,
    /// An opaque name of the connection, up to 128 bytes.
    pub unique_id: Option<Vec<u8>>,
    /// What is known of the client's TLS.
    pub tls: Option<ProxyTls>,
    /// Whether the header carries (is to carry) a CRC-32C. One that was received has been verified.
    pub checksum: bool,
    /// All other TLVs: type and value, in their order.
    pub other: Vec<(u8, Vec<u8>)>,
}

/// The TLV of TLS (PP2_TYPE_SSL).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyTls {
    /// The client came over TLS, showed a certificate on this connection, showed one in this session: bits 0, 1, 2.
    pub client: u8,
    /// 0 if the client's certificate was verified.
    pub verify: u32,
    /// Such as `TLSv1.3`.
    pub version: Option<String>,
    /// The common name of the client's certificate.
    pub common_name: Option<String>,
    /// Such as `TLS_AES_128_GCM_SHA256`.
    pub cipher: Option<String>,
    /// The algorithm that signed the certificate.
    pub signature_algorithm: Option<String>,
    /// The algorithm of the certificate's key.
    pub key_algorithm: Option<String>,
}

/// Why a PROXY header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The connection does not begin with either signature.
    #[error("no PROXY header where one is expected")]
    NotProxy,
    /// A line of version 1 that breaks its grammar.
    #[error("the PROXY line is malformed")]
    BadLine,
    /// A line of version 1 of more than 107 bytes.
    #[error("the PROXY line is too long")]
    LineTooLong,
    /// A version other than 2 behind the binary signature.
    #[error("the PROXY header has an unknown version")]
    BadVersion,
    /// A command other than LOCAL and PROXY.
    #[error("the PROXY header has an unknown command")]
    BadCommand,
    /// A family or protocol that the specification does not have.
    #[error("the PROXY header has an unknown address family or protocol")]
    BadFamily,
    /// More bytes announced than are accepted.
    #[error("the PROXY header is too long")]
    TooLong,
    /// Fewer bytes announced than the addresses take.
    #[error("the PROXY header is too short for its addresses")]
    TooShort,
    /// A TLV that goes beyond the header, or comes twice, or holds what it may not.
    #[error("a TLV of the PROXY header is malformed")]
    BadTlv,
    /// The CRC-32C does not fit.
    #[error("the PROXY header's checksum is wrong")]
    BadChecksum,
}

impl ProxyError {
    /// A short name that never changes, for counters and logs.
    pub const fn reason(self) -> &'static str {
        match self {
            ProxyError::NotProxy => "no-proxy-header",
            ProxyError::BadLine => "bad-proxy-line",
            ProxyError::LineTooLong => "proxy-line-too-long",
            ProxyError::BadVersion => "bad-proxy-version",
            ProxyError::BadCommand => "bad-proxy-command",
            ProxyError::BadFamily => "bad-proxy-family",
            ProxyError::TooLong => "proxy-header-too-long",
            ProxyError::TooShort => "proxy-header-too-short",
            ProxyError::BadTlv => "bad-proxy-tlv",
            ProxyError::BadChecksum => "bad-proxy-checksum",
        }
    }
}

/// Reads the header at the front of `buf`: `None` while bytes are missing, else what it says and its length in bytes.
pub fn parse(buf: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyError> {
    let _ = buf;
    Ok(None)
}

/// Writes a line of version 1 for a TCP connection; `PROXY UNKNOWN` without addresses or with two families.
pub fn encode_v1(addresses: Option<(SocketAddr, SocketAddr)>, out: &mut Vec<u8>) {
    let _ = (addresses, out);
}

/// Writes a header of version 2.
pub fn encode_v2(header: &ProxyHeader, out: &mut Vec<u8>) {
    let _ = (header, out);
}
