//! The PROXY protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt): who a forwarded connection really comes from.
//! Whether the peer may be believed is the caller's question, to be answered before this is asked.

mod crc32c;
mod v1;
mod v2;

pub use v1::encode_v1;
pub use v2::encode_v2;

use std::net::SocketAddr;
use thiserror::Error;

/// Longest header that is accepted, in bytes.
pub const MAX_BYTES: usize = 4096;

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
///
/// No more than [`MAX_BYTES`] are ever needed. Unix addresses are passed over; a TLV that no one knows is kept as it is.
pub fn parse(buf: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyError> {
    let begins_with = |signature: &[u8]| {
        let n = buf.len().min(signature.len());
        buf[..n] == signature[..n]
    };
    if begins_with(v1::SIGNATURE) {
        v1::parse(buf)
    } else if begins_with(v2::SIGNATURE) {
        v2::parse(buf)
    } else {
        Err(ProxyError::NotProxy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn addresses() -> impl Strategy<Value = Option<(SocketAddr, SocketAddr)>> {
        let v4 = any::<([u8; 4], u16, [u8; 4], u16)>()
            .prop_map(|(a, p, b, q)| Some(((a, p).into(), (b, q).into())));
        let v6 = any::<([u16; 8], u16, [u16; 8], u16)>()
            .prop_map(|(a, p, b, q)| Some(((a, p).into(), (b, q).into())));
        prop_oneof![Just(None), v4, v6]
    }

    fn tls() -> impl Strategy<Value = Option<ProxyTls>> {
        let text = || proptest::option::of("[ -~]{0,20}");
        proptest::option::of(
            (
                any::<u8>(),
                any::<u32>(),
                text(),
                text(),
                text(),
                text(),
                text(),
            )
                .prop_map(
                    |(
                        client,
                        verify,
                        version,
                        common_name,
                        cipher,
                        signature_algorithm,
                        key_algorithm,
                    )| ProxyTls {
                        client,
                        verify,
                        version,
                        common_name,
                        cipher,
                        signature_algorithm,
                        key_algorithm,
                    },
                ),
        )
    }

    prop_compose! {
        fn headers()(
            datagram in any::<bool>(),
            addresses in addresses(),
            alpn in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)),
            authority in proptest::option::of("[a-z.]{1,30}"),
            unique_id in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..128)),
            tls in tls(),
            checksum in any::<bool>(),
            other in proptest::collection::vec((0xe0u8..=0xef, proptest::collection::vec(any::<u8>(), 0..20)), 0..4),
            local in any::<bool>(),
        ) -> ProxyHeader {
            let addresses = if local { None } else { addresses };
            let datagram = datagram && addresses.is_some();
            ProxyHeader { local, datagram, addresses, alpn, authority, unique_id, tls, checksum, other }
        }
    }

    proptest! {
        #[test]
        fn version_2_comes_back_as_it_went_and_never_early(header in headers(), rest in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut wire = Vec::new();
            encode_v2(&header, &mut wire);
            let len = wire.len();
            wire.extend_from_slice(&rest);
            for cut in 0..len {
                prop_assert_eq!(parse(&wire[..cut]), Ok(None));
            }
            prop_assert_eq!(parse(&wire), Ok(Some((header, len))));
        }

        #[test]
        fn version_1_comes_back_as_it_went_and_never_early(addresses in addresses(), rest in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut wire = Vec::new();
            encode_v1(addresses, &mut wire);
            let len = wire.len();
            wire.extend_from_slice(&rest);
            for cut in 0..len {
                prop_assert_eq!(parse(&wire[..cut]), Ok(None));
            }
            prop_assert_eq!(parse(&wire), Ok(Some((ProxyHeader { addresses, ..ProxyHeader::default() }, len))));
        }

        #[test]
        fn a_changed_bit_never_passes_the_checksum(header in headers(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let mut wire = Vec::new();
            encode_v2(&ProxyHeader { checksum: true, ..header.clone() }, &mut wire);
            let at = at.index(wire.len());
            wire[at] ^= 1 << bit;
            if let Ok(Some((changed, _))) = parse(&wire) {
                // Only a change that hid the checksum itself goes unseen.
                prop_assert!(!changed.checksum);
            }
        }
    }
}
