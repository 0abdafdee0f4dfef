//! Version 1: one line of text.

use super::{ProxyError, ProxyHeader};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

pub(super) const SIGNATURE: &[u8] = b"PROXY ";

/// Longest line, CRLF included.
const LINE_BYTES: usize = 107;

pub(super) fn parse(buf: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyError> {
    let window = &buf[..buf.len().min(LINE_BYTES)];
    let Some(lf) = memchr::memchr(b'\n', window) else {
        return if window.len() == LINE_BYTES {
            Err(ProxyError::LineTooLong)
        } else {
            Ok(None)
        };
    };
    let line = window[..lf]
        .strip_suffix(b"\r")
        .ok_or(ProxyError::BadLine)?;
    let line = std::str::from_utf8(line).map_err(|_| ProxyError::BadLine)?;
    let words = line.get(SIGNATURE.len()..).ok_or(ProxyError::BadLine)?;
    let addresses = match words.split_once(' ').unwrap_or((words, "")) {
        // Whatever follows UNKNOWN is to be ignored.
        ("UNKNOWN", _) => None,
        ("TCP4", rest) => Some(pair::<Ipv4Addr>(rest)?),
        ("TCP6", rest) => Some(pair::<Ipv6Addr>(rest)?),
        _ => return Err(ProxyError::BadLine),
    };
    Ok(Some((
        ProxyHeader {
            addresses,
            ..ProxyHeader::default()
        },
        lf + 1,
    )))
}

/// Writes a line of version 1 for a TCP connection; `PROXY UNKNOWN` without addresses or with two families.
pub fn encode_v1(addresses: Option<(SocketAddr, SocketAddr)>, out: &mut Vec<u8>) {
    let line = match addresses {
        Some((SocketAddr::V4(from), SocketAddr::V4(to))) => {
            format!(
                "PROXY TCP4 {} {} {} {}\r\n",
                from.ip(),
                to.ip(),
                from.port(),
                to.port()
            )
        }
        Some((SocketAddr::V6(from), SocketAddr::V6(to))) => {
            format!(
                "PROXY TCP6 {} {} {} {}\r\n",
                from.ip(),
                to.ip(),
                from.port(),
                to.port()
            )
        }
        _ => "PROXY UNKNOWN\r\n".to_owned(),
    };
    out.extend_from_slice(line.as_bytes());
}

/// `source destination source-port destination-port`, a single space between.
fn pair<A: FromStr + Into<std::net::IpAddr>>(
    text: &str,
) -> Result<(SocketAddr, SocketAddr), ProxyError> {
    let mut words = text.split(' ');
    let mut next = || words.next().ok_or(ProxyError::BadLine);
    let (from, to, from_port, to_port) = (next()?, next()?, next()?, next()?);
    if words.next().is_some() {
        return Err(ProxyError::BadLine);
    }
    let address = |text: &str| {
        text.parse::<A>()
            .map(Into::into)
            .map_err(|_| ProxyError::BadLine)
    };
    Ok((
        (address(from)?, port(from_port)?).into(),
        (address(to)?, port(to_port)?).into(),
    ))
}

/// A port without sign and without leading zeros.
fn port(text: &str) -> Result<u16, ProxyError> {
    let canonical = text == "0" || text.starts_with(|c: char| c.is_ascii_digit() && c != '0');
    text.parse()
        .ok()
        .filter(|_| canonical)
        .ok_or(ProxyError::BadLine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_protocol::parse;

    #[test]
    fn lines_that_bend_the_grammar_are_refused() {
        for (line, error) in [
            ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", ProxyError::BadLine),
            ("PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::BadLine),
            ("PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::BadLine),
            ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n", ProxyError::BadLine),
            ("PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n", ProxyError::BadLine),
            ("PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n", ProxyError::BadLine),
            (
                "PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n",
                ProxyError::BadLine,
            ),
            ("PROXY TCP4 1.2.3.04 5.6.7.8 1 2\r\n", ProxyError::BadLine),
            ("PROXY TCP4 ::1 ::2 1 2\r\n", ProxyError::BadLine),
            ("PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::BadLine),
            ("PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::BadLine),
            ("PROXY \r\n", ProxyError::BadLine),
            ("PROXY\r\n", ProxyError::NotProxy),
            ("proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::NotProxy),
            ("GET / HTTP/1.1\r\n", ProxyError::NotProxy),
        ] {
            assert_eq!(parse(line.as_bytes()), Err(error), "{line:?}");
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
        assert_eq!(parse(long.as_bytes()), Err(ProxyError::LineTooLong));
    }

    #[test]
    fn unknown_says_nothing_whatever_follows() {
        let (header, len) = parse(b"PROXY UNKNOWN ffff::1 nonsense 1\r\nGET")
            .unwrap()
            .unwrap();
        assert_eq!((header, len), (ProxyHeader::default(), 34));
    }
}
