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
///
/// The message may be cut into several records (RFC 8446 section 5.1). What follows it is not looked at.
pub fn parse(buf: &[u8]) -> Result<Option<ClientHello>, HelloError> {
    let mut message = Vec::new();
    let mut whole = None;
    let mut rest = buf;
    for count in 0.. {
        let Some((fragment, after)) = record(rest)? else {
            return Ok(None);
        };
        if count == 0 && fragment[0] != CLIENT_HELLO {
            return Err(HelloError::NotClientHello);
        }
        if count > 0 || needed(fragment).is_none_or(|len| len > fragment.len()) {
            message.extend_from_slice(fragment);
        } else {
            // By far the most frequent: one record holds it all.
            whole = Some(fragment);
        }
        let bytes = whole.unwrap_or(&message);
        if let Some(len) = needed(bytes) {
            if len > MAX_BYTES {
                return Err(HelloError::TooLong);
            }
            if let Some(message) = bytes.get(..len) {
                return hello(&message[4..]).map(Some);
            }
        }
        if count == MAX_RECORDS {
            return Err(HelloError::TooLong);
        }
        rest = after;
    }
    Ok(None)
}

/// Records that one message may be cut into.
const MAX_RECORDS: usize = 64;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// A record's payload, and what follows it.
type Split<'b> = (&'b [u8], &'b [u8]);

/// The payload of the first record, once it is all there, and what follows.
fn record(buf: &[u8]) -> Result<Option<Split<'_>>, HelloError> {
    match *buf {
        [kind, ..] if kind != HANDSHAKE => return Err(HelloError::NotTls),
        [_, major, ..] if major != 3 => return Err(HelloError::NotTls),
        _ => {}
    }
    let Some((&[_, _, _, high, low], rest)) = buf.split_first_chunk() else {
        return Ok(None);
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len == 0 || len > 1 << 14 {
        return Err(HelloError::BadRecord);
    }
    Ok(rest.split_at_checked(len))
}

/// Bytes of the message with its header, as soon as the header is there.
fn needed(message: &[u8]) -> Option<usize> {
    let &[_, a, b, c] = message.first_chunk()?;
    Some(4 + u32::from_be_bytes([0, a, b, c]) as usize)
}

/// The body of the message.
fn hello(body: &[u8]) -> Result<ClientHello, HelloError> {
    let mut reader = Reader(body);
    let legacy_version = reader.u16()?;
    reader.take(32)?;
    let session = reader.sized8()?;
    if session.0.len() > 32 {
        return Err(HelloError::Malformed);
    }
    let mut hello = ClientHello {
        cipher_suites: reader.sized16()?.numbers()?,
        ..ClientHello::default()
    };
    if reader.sized8()?.0.is_empty() || hello.cipher_suites.is_empty() {
        return Err(HelloError::Malformed);
    }
    // TLS 1.2 and older may end here.
    let mut extensions = if reader.0.is_empty() {
        Reader(&[])
    } else {
        reader.sized16()?
    };
    if !reader.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    let mut seen = Vec::new();
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let mut extension = extensions.sized16()?;
        if seen.contains(&kind) {
            return Err(HelloError::RepeatedExtension);
        }
        seen.push(kind);
        if seen.len() > MAX_EXTENSIONS {
            return Err(HelloError::Malformed);
        }
        match kind {
            SERVER_NAME => hello.server_name = server_name(extension.sized16()?)?,
            ALPN => {
                let mut list = extension.sized16()?;
                while !list.0.is_empty() {
                    let name = list.sized8()?.0;
                    if name.is_empty() {
                        return Err(HelloError::Malformed);
                    }
                    hello.alpn.push(name.to_vec());
                }
                if hello.alpn.is_empty() {
                    return Err(HelloError::Malformed);
                }
            }
            SUPPORTED_VERSIONS => {
                hello.versions = extension.sized8()?.numbers()?;
                if hello.versions.is_empty() {
                    return Err(HelloError::Malformed);
                }
            }
            _ => continue,
        }
        if !extension.0.is_empty() {
            return Err(HelloError::Malformed);
        }
    }
    if hello.versions.is_empty() {
        hello.versions.push(legacy_version);
    }
    Ok(hello)
}

/// Extensions that one message may hold; browsers send about twenty.
const MAX_EXTENSIONS: usize = 128;

/// The list of names of the server (RFC 6066 section 3), of which one kind exists.
fn server_name(mut list: Reader<'_>) -> Result<Option<String>, HelloError> {
    let kind = list.take(1)?[0];
    let name = list.sized16()?.0;
    if kind != 0 || !list.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    let name = std::str::from_utf8(name).map_err(|_| HelloError::BadServerName)?;
    // Forbidden by the RFC, yet sent by clients that were given an address.
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Ok(None);
    }
    if is_host_name(name) {
        Ok(Some(name.to_ascii_lowercase()))
    } else {
        Err(HelloError::BadServerName)
    }
}

/// A DNS name without final dot; the underscore is taken as it is widely used.
fn is_host_name(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        })
}

/// The rest of a message, read from its front.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, len: usize) -> Result<&'b [u8], HelloError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, HelloError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*taken))
    }

    fn sized8(&mut self) -> Result<Reader<'b>, HelloError> {
        let len = self.take(1)?[0];
        Ok(Reader(self.take(usize::from(len))?))
    }

    fn sized16(&mut self) -> Result<Reader<'b>, HelloError> {
        let len = self.u16()?;
        Ok(Reader(self.take(usize::from(len))?))
    }

    fn numbers(mut self) -> Result<Vec<u16>, HelloError> {
        let mut numbers = Vec::with_capacity(self.0.len() / 2);
        while !self.0.is_empty() {
            numbers.push(self.u16()?);
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sized16(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
    }

    fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &sized16(body)].concat()
    }

    fn sni(name: &[u8]) -> Vec<u8> {
        extension(SERVER_NAME, &sized16(&[&[0][..], &sized16(name)].concat()))
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0],
            &sized16(&[0x13, 0x01, 0xc0, 0x2b]),
            &[1, 0],
            &sized16(extensions),
        ]
        .concat();
        [
            &[CLIENT_HELLO][..],
            &(body.len() as u32).to_be_bytes()[1..],
            &body,
        ]
        .concat()
    }

    fn records(message: &[u8], piece: usize) -> Vec<u8> {
        message
            .chunks(piece)
            .flat_map(|chunk| [&[HANDSHAKE, 3, 1][..], &sized16(chunk)].concat())
            .collect()
    }

    fn one(extensions: &[u8]) -> Result<Option<ClientHello>, HelloError> {
        parse(&records(&message(extensions), 1 << 14))
    }

    #[test]
    fn a_hello_says_name_protocols_versions_and_suites() {
        let extensions = [
            sni(b"WWW.Example.com"),
            extension(ALPN, &sized16(b"\x02h2\x08http/1.1")),
            extension(0x0a0a, b""),
            extension(SUPPORTED_VERSIONS, &[4, 3, 4, 3, 3]),
        ]
        .concat();
        let hello = one(&extensions).unwrap().unwrap();
        assert_eq!(hello.server_name.as_deref(), Some("www.example.com"));
        assert_eq!(hello.alpn, [&b"h2"[..], b"http/1.1"]);
        assert_eq!(hello.versions, [0x0304, 0x0303]);
        assert_eq!(hello.cipher_suites, [0x1301, 0xc02b]);
    }

    #[test]
    fn without_extensions_the_old_version_field_counts() {
        assert_eq!(one(b"").unwrap().unwrap().versions, [0x0303]);
    }

    #[test]
    fn names_that_are_no_host_names_are_refused() {
        for bad in [
            &b""[..],
            b"a..b",
            b".a",
            b"a.",
            b"a b",
            b"a/b",
            b"a\0b",
            b"\xff",
            &[b'a'; 64],
        ] {
            assert_eq!(one(&sni(bad)), Err(HelloError::BadServerName), "{bad:?}");
        }
        assert_eq!(one(&sni(b"192.0.2.1")).unwrap().unwrap().server_name, None);
    }

    #[test]
    fn malformed_hellos_are_refused() {
        let long = [sni(b"a"), sni(b"b")].concat();
        for (name, extensions, error) in [
            ("extension twice", long, HelloError::RepeatedExtension),
            (
                "extension beyond the end",
                vec![0, 0, 0, 9, 0],
                HelloError::Malformed,
            ),
            (
                "ALPN of no names",
                extension(ALPN, &[0, 0]),
                HelloError::Malformed,
            ),
            (
                "ALPN with an empty name",
                extension(ALPN, &[0, 1, 0]),
                HelloError::Malformed,
            ),
            (
                "versions of odd length",
                extension(SUPPORTED_VERSIONS, &[3, 3, 4, 3]),
                HelloError::Malformed,
            ),
            (
                "bytes after a list",
                extension(SUPPORTED_VERSIONS, &[2, 3, 4, 3]),
                HelloError::Malformed,
            ),
            (
                "two server names",
                extension(0, &sized16(&[0, 0, 1, b'a', 0, 0, 1, b'b'])),
                HelloError::Malformed,
            ),
        ] {
            assert_eq!(one(&extensions), Err(error), "{name}");
        }
    }

    #[test]
    fn what_is_no_hello_is_told_at_once() {
        for (wire, error) in [
            (&b"G"[..], HelloError::NotTls),
            (b"SSH-2.0", HelloError::NotTls),
            (&[22, 2], HelloError::NotTls),
            (&[21, 3, 1], HelloError::NotTls),
            (&[22, 3, 1, 0, 0], HelloError::BadRecord),
            (&[22, 3, 1, 0x40, 1], HelloError::BadRecord),
            (&[22, 3, 1, 0, 1, 2], HelloError::NotClientHello),
            (&[22, 3, 1, 0, 4, 1, 0xff, 0, 0], HelloError::TooLong),
        ] {
            assert_eq!(parse(wire), Err(error), "{wire:?}");
        }
        let crumbs = records(&message(&extension(21, &[0; 200])), 1);
        assert_eq!(parse(&crumbs), Err(HelloError::TooLong));
    }

    proptest! {
        #[test]
        fn records_and_pieces_of_any_size_read_alike(
            piece in 8..400usize,
            padding in 0..300usize,
            rest in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let extensions = [sni(b"a.example"), extension(21, &vec![0; padding])].concat();
            let mut wire = records(&message(&extensions), piece);
            let len = wire.len();
            wire.extend_from_slice(&rest);
            for cut in 0..len {
                prop_assert_eq!(parse(&wire[..cut]), Ok(None));
            }
            prop_assert_eq!(parse(&wire), one(&extensions));
        }
    }
}
