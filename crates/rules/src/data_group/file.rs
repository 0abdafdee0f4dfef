//! F5's form of a data group's external file: a record a line, `name := value,`.

use super::{DataGroup, Kind, RecordError};
use addr::Prefix;
use std::net::IpAddr;

/// Why a text is no data group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// A quoted text has no end.
    #[error("line {line}: a quote is not closed")]
    Quote {
        /// The line's number, from 1.
        line: usize,
    },
    /// Something stands where a record should end.
    #[error("line {line}: `{text}` stands where a comma or the end of the line should")]
    Tail {
        /// The line's number, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A name is not of the group's kind.
    #[error("line {line}: {reason}")]
    Record {
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: RecordError,
    },
}

/// Reads an address or a prefix as rules and F5's files write it: `10.0.0.1`, `10.0.0.0/8`,
/// `10.0.0.0/255.0.0.0`, with or without a route domain (`%1`). Bits behind the prefix are cleared.
pub fn parse_address(text: &[u8]) -> Option<Prefix> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let bare = address.split_once('%').map_or(address, |(bare, _)| bare);
    let address: IpAddr = bare.parse().ok()?;
    let length = match length {
        None => return Some(Prefix::from(address.to_canonical())),
        Some(length) => {
            let length = length.split_once('%').map_or(length, |(bare, _)| bare);
            match length.parse::<u8>() {
                Ok(length) => length,
                Err(_) => mask_length(length.parse().ok()?)?,
            }
        }
    };
    let width = if address.is_ipv4() { 32 } else { 128 };
    (length <= width).then(|| Prefix::containing(address, length))
}

/// The length of the prefix that a mask stands for, if its bits are in one piece.
fn mask_length(mask: IpAddr) -> Option<u8> {
    let (ones, zeros) = match mask {
        IpAddr::V4(mask) => (mask.to_bits().leading_ones(), mask.to_bits().count_ones()),
        IpAddr::V6(mask) => (mask.to_bits().leading_ones(), mask.to_bits().count_ones()),
    };
    (ones == zeros).then_some(ones as u8)
}

pub(super) fn parse(kind: Option<Kind>, text: &[u8]) -> Result<DataGroup, FileError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut kind = kind;
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (n, raw) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = n + 1;
        let mut rest = raw.trim_ascii();
        // A file may have all its records on one line.
        while !rest.is_empty() && !rest.starts_with(b"#") {
            let (name, quoted, after) = name(rest, line)?;
            rest = after.trim_ascii_start();
            let mut value = Vec::new();
            if let Some(after) = rest.strip_prefix(b":=") {
                (value, _, rest) = word(after.trim_ascii_start(), line)?;
                rest = rest.trim_ascii_start();
            }
            if let Some(after) = rest.strip_prefix(b",") {
                rest = after.trim_ascii_start();
            } else if !rest.is_empty() && !rest.starts_with(b"#") {
                let text = String::from_utf8_lossy(rest).into_owned();
                return Err(FileError::Tail { line, text });
            }
            let kind = *kind.get_or_insert_with(|| guess(&name, quoted));
            check(kind, &name).map_err(|reason| FileError::Record { line, reason })?;
            pairs.push((name, value));
        }
    }
    let kind = kind.unwrap_or(Kind::String);
    DataGroup::new(kind, pairs).map_err(|reason| FileError::Record { line: 0, reason })
}

/// A record's name, whether it was quoted, and what follows. `host` and `network` give addresses.
fn name(text: &[u8], line: usize) -> Result<(Vec<u8>, bool, &[u8]), FileError> {
    let (first, quoted, rest) = word(text, line)?;
    if quoted || !matches!(&first[..], b"host" | b"network") {
        return Ok((first, quoted, rest));
    }
    let (mut name, _, mut rest) = word(rest.trim_ascii_start(), line)?;
    let (next, quoted, after) = word(rest.trim_ascii_start(), line)?;
    if !quoted && matches!(&next[..], b"mask" | b"prefixlen") {
        let (mask, _, after) = word(after.trim_ascii_start(), line)?;
        name.push(b'/');
        name.extend_from_slice(&mask);
        rest = after;
    }
    Ok((name, false, rest))
}

/// A word, quoted or up to a blank, comma or `:=`.
fn word(text: &[u8], line: usize) -> Result<(Vec<u8>, bool, &[u8]), FileError> {
    let Some(inner) = text.strip_prefix(b"\"") else {
        let ends =
            |at: &usize| matches!(text[*at], b' ' | b'\t' | b',') || text[*at..].starts_with(b":=");
        let end = (0..text.len()).find(ends).unwrap_or(text.len());
        return Ok((text[..end].to_vec(), false, &text[end..]));
    };
    let mut plain = Vec::new();
    let mut at = 0;
    while at < inner.len() {
        match inner[at] {
            b'"' => return Ok((plain, true, &inner[at + 1..])),
            b'\\' if matches!(inner.get(at + 1), Some(b'"' | b'\\')) => {
                at += 1;
                plain.push(inner[at]);
            }
            byte => plain.push(byte),
        }
        at += 1;
    }
    Err(FileError::Quote { line })
}

fn guess(name: &[u8], quoted: bool) -> Kind {
    if quoted {
        Kind::String
    } else if crate::value::parse_integer(name).is_some() {
        Kind::Integer
    } else if parse_address(name).is_some() {
        Kind::Address
    } else {
        Kind::String
    }
}

fn check(kind: Kind, name: &[u8]) -> Result<(), RecordError> {
    let text = || String::from_utf8_lossy(name).into_owned();
    match kind {
        Kind::Integer if crate::value::parse_integer(name).is_none() => {
            Err(RecordError::Integer { name: text() })
        }
        Kind::Address if parse_address(name).is_none() => {
            Err(RecordError::Address { name: text() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> (Kind, Vec<(String, String)>) {
        let group = parse(None, text.as_bytes()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let records = group.records().iter();
        let pairs = records.map(|r| (text(&r.name), text(&r.value))).collect();
        (group.kind(), pairs)
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect()
    }

    #[test]
    fn every_form_of_a_record_is_read() {
        assert_eq!(
            shown("# list\n\"/a b\" := \"x, \\\"y\\\"\",\r\n\"b\",\n\n\"c\":=\"z\"\n"),
            (
                Kind::String,
                pairs(&[("/a b", "x, \"y\""), ("b", ""), ("c", "z")])
            )
        );
        assert_eq!(
            shown("80 := \"http\",\n443 := https,"),
            (Kind::Integer, pairs(&[("80", "http"), ("443", "https")]))
        );
        assert_eq!(
            shown(
                "host 10.0.0.1,\nnetwork 10.0.0.0/8 := \"x\",\nnetwork 10.1.0.0 mask 255.255.0.0 := \"y\",\n\
                 network 2001:db8:: prefixlen 32,\n192.168.0.0/16 := \"z\","
            ),
            (
                Kind::Address,
                pairs(&[
                    ("10.0.0.1", ""),
                    ("10.0.0.0/8", "x"),
                    ("10.1.0.0/255.255.0.0", "y"),
                    ("2001:db8::/32", ""),
                    ("192.168.0.0/16", "z"),
                ])
            )
        );
    }

    #[test]
    fn what_is_no_record_is_told_with_its_line() {
        let error = |text: &str| parse(None, text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("\"a\",\n\"b"), "line 2: a quote is not closed");
        assert_eq!(
            error("\"a\" \"b\""),
            "line 1: `\"b\"` stands where a comma or the end of the line should"
        );
        assert_eq!(
            error("80,\nhost 10.0.0.1,"),
            "line 2: `10.0.0.1` is not an integer"
        );
    }

    #[test]
    fn masks_and_route_domains_are_understood() {
        let read = |text: &str| parse_address(text.as_bytes()).map(|p| p.to_string());
        assert_eq!(read("10.1.2.3%5/24").unwrap(), "10.1.2.0/24");
        assert_eq!(read("10.1.2.3/255.255.0.0").unwrap(), "10.1.0.0/16");
        assert_eq!(read("10.1.2.3/255.0.255.0"), None);
        assert_eq!(read("::1").unwrap(), "::1/128");
        assert_eq!(read("10.0.0.1/33"), None);
    }
}
