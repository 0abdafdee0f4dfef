//! Version 2: sixteen bytes, addresses, and TLVs.

use super::{MAX_BYTES, ProxyError, ProxyHeader, ProxyTls, crc32c};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

const HEADER_BYTES: usize = 16;
const UNIQUE_ID_BYTES: usize = 128;

const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const CRC32C: u8 = 0x03;
const NOOP: u8 = 0x04;
const UNIQUE_ID: u8 = 0x05;
const SSL: u8 = 0x20;
const SSL_VERSION: u8 = 0x21;
const SSL_CN: u8 = 0x22;
const SSL_CIPHER: u8 = 0x23;
const SSL_SIG_ALG: u8 = 0x24;
const SSL_KEY_ALG: u8 = 0x25;

pub(super) fn parse(buf: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyError> {
    // What is wrong is said as soon as it is seen, however the bytes arrive.
    let Some(&command) = buf.get(12) else {
        return Ok(None);
    };
    let local = match command {
        0x20 => true,
        0x21 => false,
        _ if command >> 4 == 2 => return Err(ProxyError::BadCommand),
        _ => return Err(ProxyError::BadVersion),
    };
    let Some(&family) = buf.get(13) else {
        return Ok(None);
    };
    let (address_bytes, datagram) = match family {
        0x11 => (12, false),
        0x12 => (12, true),
        0x21 => (36, false),
        0x22 => (36, true),
        0x31 => (216, false),
        0x32 => (216, true),
        // Unspecified: there are no addresses, and what follows is TLVs.
        0x00 => (0, false),
        // LOCAL and unspecified say nothing, whatever is in the other half of the byte (section 2.2).
        _ if local => (0, false),
        _ => return Err(ProxyError::BadFamily),
    };
    let Some(&[high, low]) = buf.get(14..HEADER_BYTES).and_then(<[u8]>::first_chunk) else {
        return Ok(None);
    };
    let len = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if len > MAX_BYTES {
        return Err(ProxyError::TooLong);
    }
    if !local && len < HEADER_BYTES + address_bytes {
        return Err(ProxyError::TooShort);
    }
    let Some(whole) = buf.get(..len) else {
        return Ok(None);
    };
    let mut header = ProxyHeader {
        local,
        ..ProxyHeader::default()
    };
    // A LOCAL header may carry no addresses even where it names a family.
    let tlvs = whole.get(HEADER_BYTES + address_bytes..).unwrap_or(&[]);
    if !local {
        header.addresses = addresses(&whole[HEADER_BYTES..HEADER_BYTES + address_bytes]);
        header.datagram = datagram && header.addresses.is_some();
    }
    read_tlvs(&mut header, whole, tlvs)?;
    Ok(Some((header, len)))
}

/// Writes a header of version 2.
///
/// # Panics
///
/// If the TLVs together come to more than 64 KiB: they are the caller's, and a receiver takes [`MAX_BYTES`] at most.
pub fn encode_v2(header: &ProxyHeader, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(SIGNATURE);
    out.push(if header.local { 0x20 } else { 0x21 });
    let transport = if header.datagram { 2 } else { 1 };
    let addresses = if header.local { None } else { header.addresses };
    match addresses {
        Some((SocketAddr::V4(from), SocketAddr::V4(to))) => {
            out.extend_from_slice(&[0x10 | transport, 0, 0]);
            out.extend_from_slice(&from.ip().octets());
            out.extend_from_slice(&to.ip().octets());
            out.extend_from_slice(&from.port().to_be_bytes());
            out.extend_from_slice(&to.port().to_be_bytes());
        }
        Some((SocketAddr::V6(from), SocketAddr::V6(to))) => {
            out.extend_from_slice(&[0x20 | transport, 0, 0]);
            out.extend_from_slice(&from.ip().octets());
            out.extend_from_slice(&to.ip().octets());
            out.extend_from_slice(&from.port().to_be_bytes());
            out.extend_from_slice(&to.port().to_be_bytes());
        }
        _ => out.extend_from_slice(&[0, 0, 0]),
    }
    write_tlvs(header, out);
    let checksum_at = header.checksum.then(|| {
        tlv(out, CRC32C, &[&[0; 4]]);
        out.len() - 4
    });
    let len = u16::try_from(out.len() - start - HEADER_BYTES)
        .expect("TLVs fit the 16 bits of their length");
    out[start + 14..start + HEADER_BYTES].copy_from_slice(&len.to_be_bytes());
    if let Some(at) = checksum_at {
        let crc = crc32c::of([&out[start..]]);
        out[at..].copy_from_slice(&crc.to_be_bytes());
    }
}

fn addresses(bytes: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (hosts, ports) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let &[a, b, c, d] = ports.first_chunk()?;
    let (from, to) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    match hosts.len() {
        8 => {
            let (source, destination) = (*hosts.first_chunk::<4>()?, *hosts.last_chunk::<4>()?);
            Some((
                (Ipv4Addr::from(source), from).into(),
                (Ipv4Addr::from(destination), to).into(),
            ))
        }
        32 => {
            let (source, destination) = (*hosts.first_chunk::<16>()?, *hosts.last_chunk::<16>()?);
            Some((
                (Ipv6Addr::from(source), from).into(),
                (Ipv6Addr::from(destination), to).into(),
            ))
        }
        // A Unix socket's paths.
        _ => None,
    }
}

fn read_tlvs(header: &mut ProxyHeader, whole: &[u8], tlvs: &[u8]) -> Result<(), ProxyError> {
    let mut rest = tlvs;
    while !rest.is_empty() {
        let (kind, value, after) = next_tlv(rest)?;
        match kind {
            ALPN => once(&mut header.alpn, value.to_vec())?,
            AUTHORITY => once(&mut header.authority, text(value)?)?,
            UNIQUE_ID if value.len() > UNIQUE_ID_BYTES => return Err(ProxyError::BadTlv),
            UNIQUE_ID => once(&mut header.unique_id, value.to_vec())?,
            NOOP => {}
            CRC32C if header.checksum => return Err(ProxyError::BadTlv),
            CRC32C => {
                let told = u32::from_be_bytes(
                    *<&[u8; 4]>::try_from(value).map_err(|_| ProxyError::BadTlv)?,
                );
                // It was computed with zeros in its own place.
                let at = whole.len() - after.len() - 4;
                if crc32c::of([&whole[..at], &[0; 4], &whole[at + 4..]]) != told {
                    return Err(ProxyError::BadChecksum);
                }
                header.checksum = true;
            }
            SSL => once(&mut header.tls, read_tls(value)?)?,
            _ => header.other.push((kind, value.to_vec())),
        }
        rest = after;
    }
    Ok(())
}

fn read_tls(value: &[u8]) -> Result<ProxyTls, ProxyError> {
    let Some((&[client, a, b, c, d], mut rest)) = value.split_first_chunk() else {
        return Err(ProxyError::BadTlv);
    };
    let mut tls = ProxyTls {
        client,
        verify: u32::from_be_bytes([a, b, c, d]),
        ..ProxyTls::default()
    };
    while !rest.is_empty() {
        let (kind, value, after) = next_tlv(rest)?;
        match kind {
            SSL_VERSION => once(&mut tls.version, text(value)?)?,
            SSL_CN => once(&mut tls.common_name, text(value)?)?,
            SSL_CIPHER => once(&mut tls.cipher, text(value)?)?,
            SSL_SIG_ALG => once(&mut tls.signature_algorithm, text(value)?)?,
            SSL_KEY_ALG => once(&mut tls.key_algorithm, text(value)?)?,
            // Newer senders may say more.
            _ => {}
        }
        rest = after;
    }
    Ok(tls)
}

/// Type, value, and what comes after.
fn next_tlv(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), ProxyError> {
    let (&[kind, high, low], rest) = bytes.split_first_chunk().ok_or(ProxyError::BadTlv)?;
    let len = usize::from(u16::from_be_bytes([high, low]));
    let (value, after) = rest.split_at_checked(len).ok_or(ProxyError::BadTlv)?;
    Ok((kind, value, after))
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), ProxyError> {
    if place.replace(value).is_some() {
        Err(ProxyError::BadTlv)
    } else {
        Ok(())
    }
}

fn text(value: &[u8]) -> Result<String, ProxyError> {
    let text = std::str::from_utf8(value).map_err(|_| ProxyError::BadTlv)?;
    // These go into logs and fields.
    if text.chars().any(char::is_control) {
        Err(ProxyError::BadTlv)
    } else {
        Ok(text.to_owned())
    }
}

fn write_tlvs(header: &ProxyHeader, out: &mut Vec<u8>) {
    if let Some(alpn) = &header.alpn {
        tlv(out, ALPN, &[alpn]);
    }
    if let Some(authority) = &header.authority {
        tlv(out, AUTHORITY, &[authority.as_bytes()]);
    }
    if let Some(id) = &header.unique_id {
        tlv(out, UNIQUE_ID, &[id]);
    }
    if let Some(tls) = &header.tls {
        let mut inner = Vec::new();
        for (kind, value) in [
            (SSL_VERSION, &tls.version),
            (SSL_CN, &tls.common_name),
            (SSL_CIPHER, &tls.cipher),
            (SSL_SIG_ALG, &tls.signature_algorithm),
            (SSL_KEY_ALG, &tls.key_algorithm),
        ] {
            if let Some(value) = value {
                tlv(&mut inner, kind, &[value.as_bytes()]);
            }
        }
        tlv(
            out,
            SSL,
            &[&[tls.client], &tls.verify.to_be_bytes(), &inner],
        );
    }
    for (kind, value) in &header.other {
        tlv(out, *kind, &[value]);
    }
}

fn tlv(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let len = u16::try_from(len).expect("a TLV fits the 16 bits of its length");
    out.push(kind);
    out.extend_from_slice(&len.to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut wire = SIGNATURE.to_vec();
        wire.extend_from_slice(&[command, family]);
        wire.extend_from_slice(&(body.len() as u16).to_be_bytes());
        wire.extend_from_slice(body);
        wire
    }

    #[test]
    fn headers_that_do_not_add_up_are_refused() {
        let v4 = [1, 2, 3, 4, 5, 6, 7, 8, 0, 80, 1, 187];
        let with = |tlv: &[u8]| [&v4[..], tlv].concat();
        for (name, wire, error) in [
            (
                "version 1 in binary",
                raw(0x11, 0x11, &v4),
                ProxyError::BadVersion,
            ),
            ("command 2", raw(0x22, 0x11, &v4), ProxyError::BadCommand),
            ("family 4", raw(0x21, 0x41, &v4), ProxyError::BadFamily),
            ("protocol 3", raw(0x21, 0x13, &v4), ProxyError::BadFamily),
            (
                "half an address",
                raw(0x21, 0x11, &v4[..11]),
                ProxyError::TooShort,
            ),
            (
                "v6 with v4's bytes",
                raw(0x21, 0x21, &v4),
                ProxyError::TooShort,
            ),
            (
                "too long",
                raw(0x21, 0x11, &[0; MAX_BYTES]),
                ProxyError::TooLong,
            ),
            (
                "TLV header cut",
                raw(0x21, 0x11, &with(&[1, 0])),
                ProxyError::BadTlv,
            ),
            (
                "TLV beyond the end",
                raw(0x21, 0x11, &with(&[1, 0, 2, b'h'])),
                ProxyError::BadTlv,
            ),
            (
                "ALPN twice",
                raw(0x21, 0x11, &with(&[1, 0, 1, b'h', 1, 0, 1, b'i'])),
                ProxyError::BadTlv,
            ),
            (
                "authority with a line break",
                raw(0x21, 0x11, &with(&[2, 0, 2, b'a', b'\n'])),
                ProxyError::BadTlv,
            ),
            (
                "checksum of 3 bytes",
                raw(0x21, 0x11, &with(&[3, 0, 3, 0, 0, 0])),
                ProxyError::BadTlv,
            ),
            (
                "wrong checksum",
                raw(0x21, 0x11, &with(&[3, 0, 4, 0, 0, 0, 0])),
                ProxyError::BadChecksum,
            ),
            (
                "unique id of 129",
                raw(0x21, 0x11, &with(&[&[5, 0, 129][..], &[7; 129]].concat())),
                ProxyError::BadTlv,
            ),
            (
                "TLS of 4 bytes",
                raw(0x21, 0x11, &with(&[0x20, 0, 4, 0, 0, 0, 0])),
                ProxyError::BadTlv,
            ),
        ] {
            assert_eq!(parse(&wire), Err(error), "{name}");
        }
    }

    #[test]
    fn local_counts_whatever_family_it_names() {
        for (family, body) in [(0x00, &[][..]), (0x11, &[]), (0x11, &[0; 12]), (0x77, &[])] {
            let wire = raw(0x20, family, body);
            let (header, len) = parse(&wire).unwrap().unwrap();
            assert_eq!(
                (header.local, header.addresses, len),
                (true, None, wire.len()),
                "{family:#x}"
            );
        }
    }

    #[test]
    fn unix_addresses_are_passed_over() {
        let wire = raw(
            0x21,
            0x31,
            &[&[b'/'; 216][..], &[1, 0, 2, b'h', b'2']].concat(),
        );
        let (header, len) = parse(&wire).unwrap().unwrap();
        assert_eq!(
            (header.addresses, header.alpn.as_deref(), len),
            (None, Some(&b"h2"[..]), wire.len())
        );
    }

    #[test]
    fn no_op_is_padding() {
        let wire = raw(0x21, 0x00, &[4, 0, 3, 9, 9, 9]);
        assert_eq!(parse(&wire).unwrap().unwrap().0, ProxyHeader::default());
    }
}
