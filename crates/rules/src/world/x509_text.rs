//! How the parts of certificates are written: names as RFC 2253 does, extensions and errors as OpenSSL does.

use super::strings::hex;
use crate::value::Value;
use std::net::IpAddr;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{AttributeTypeAndValue, X509Extension, X509Name};

/// A name's text, its most specific part first.
pub(super) fn name_text(name: &X509Name<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for (n, part) in parts.into_iter().rev().enumerate() {
        if n > 0 {
            text.push(b',');
        }
        for (n, attribute) in part.iter().enumerate() {
            if n > 0 {
                text.push(b'+');
            }
            let oid = attribute.attr_type().to_id_string();
            let short = object_name(&oid).map_or(oid.as_str(), |(short, _)| short);
            text.extend_from_slice(short.as_bytes());
            text.push(b'=');
            push_escaped(&mut text, &value_text(attribute));
        }
    }
    text
}

/// An attribute's value, as UTF-8 where its type says what it is.
pub(super) fn value_text(attribute: &AttributeTypeAndValue<'_>) -> Vec<u8> {
    const BMP: u32 = 30;
    const UNIVERSAL: u32 = 28;
    let value = attribute.attr_value();
    let text = |code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    match value.tag().0 {
        BMP => {
            let units = value.data.chunks_exact(2);
            let units = units.map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
            let chars = char::decode_utf16(units);
            let chars = chars.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
            chars.collect::<String>().into_bytes()
        }
        UNIVERSAL => {
            let units = value.data.chunks_exact(4);
            let units = units.map(|u| text(u32::from_be_bytes([u[0], u[1], u[2], u[3]])));
            units.collect::<String>().into_bytes()
        }
        _ => value.data.to_vec(),
    }
}

/// Writes a value with what would be read as something else escaped (RFC 2253 section 2.4).
fn push_escaped(text: &mut Vec<u8>, value: &[u8]) {
    let last = value.len().wrapping_sub(1);
    for (n, byte) in value.iter().enumerate() {
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                text.extend_from_slice(&[b'\\', *byte]);
            }
            b'#' if n == 0 => text.extend_from_slice(b"\\#"),
            b' ' if n == 0 || n == last => text.extend_from_slice(b"\\ "),
            // A line end in a name must not become one in a header.
            0..=31 | 127 => {
                text.push(b'\\');
                text.extend_from_slice(hex(&[*byte]).to_ascii_uppercase().as_bytes());
            }
            _ => text.push(*byte),
        }
    }
}

/// The short and long name of an attribute's type.
pub(super) fn object_name(oid: &str) -> Option<(&'static str, &'static str)> {
    Some(match oid {
        "2.5.4.3" => ("CN", "commonName"),
        "2.5.4.4" => ("SN", "surname"),
        "2.5.4.5" => ("serialNumber", "serialNumber"),
        "2.5.4.6" => ("C", "countryName"),
        "2.5.4.7" => ("L", "localityName"),
        "2.5.4.8" => ("ST", "stateOrProvinceName"),
        "2.5.4.9" => ("street", "streetAddress"),
        "2.5.4.10" => ("O", "organizationName"),
        "2.5.4.11" => ("OU", "organizationalUnitName"),
        "2.5.4.12" => ("title", "title"),
        "2.5.4.13" => ("description", "description"),
        "2.5.4.15" => ("businessCategory", "businessCategory"),
        "2.5.4.17" => ("postalCode", "postalCode"),
        "2.5.4.41" => ("name", "name"),
        "2.5.4.42" => ("GN", "givenName"),
        "2.5.4.43" => ("initials", "initials"),
        "2.5.4.44" => ("generationQualifier", "generationQualifier"),
        "2.5.4.46" => ("dnQualifier", "dnQualifier"),
        "2.5.4.65" => ("pseudonym", "pseudonym"),
        "0.9.2342.19200300.100.1.1" => ("UID", "userId"),
        "0.9.2342.19200300.100.1.25" => ("DC", "domainComponent"),
        "1.2.840.113549.1.9.1" => ("emailAddress", "emailAddress"),
        _ => return None,
    })
}

/// An extension, as OpenSSL prints it.
pub(super) fn extension_text(extension: &X509Extension<'_>) -> String {
    let (name, value) = match extension.parsed_extension() {
        ParsedExtension::BasicConstraints(basic) => {
            let mut text = format!("CA:{}", if basic.ca { "TRUE" } else { "FALSE" });
            if let Some(length) = basic.path_len_constraint {
                text.push_str(&format!(", pathlen:{length}"));
            }
            ("X509v3 Basic Constraints".into(), text)
        }
        ParsedExtension::SubjectAlternativeName(names) => {
            let names: Vec<_> = names.general_names.iter().map(general_name).collect();
            ("X509v3 Subject Alternative Name".into(), names.join(", "))
        }
        ParsedExtension::KeyUsage(usage) => ("X509v3 Key Usage".into(), key_usage(usage.flags)),
        ParsedExtension::ExtendedKeyUsage(usage) => {
            let mut names: Vec<String> = Vec::new();
            for (set, name) in [
                (usage.any, "Any Extended Key Usage"),
                (usage.server_auth, "TLS Web Server Authentication"),
                (usage.client_auth, "TLS Web Client Authentication"),
                (usage.code_signing, "Code Signing"),
                (usage.email_protection, "E-mail Protection"),
                (usage.time_stamping, "Time Stamping"),
                (usage.ocsp_signing, "OCSP Signing"),
            ] {
                if set {
                    names.push(name.into());
                }
            }
            names.extend(usage.other.iter().map(|oid| match oid.to_id_string() {
                oid if oid == "1.3.6.1.4.1.311.20.2.2" => "Microsoft Smartcard Login".into(),
                oid => oid,
            }));
            ("X509v3 Extended Key Usage".into(), names.join(", "))
        }
        ParsedExtension::SubjectKeyIdentifier(id) => {
            ("X509v3 Subject Key Identifier".into(), key_id(id.0))
        }
        ParsedExtension::AuthorityKeyIdentifier(id) => {
            let id = id
                .key_identifier
                .as_ref()
                .map_or(String::new(), |id| key_id(id.0));
            (
                "X509v3 Authority Key Identifier".into(),
                format!("keyid:{id}"),
            )
        }
        _ => (extension.oid.to_id_string(), hex(extension.value)),
    };
    let critical = if extension.critical { " critical" } else { "" };
    format!("{name}:{critical}\n    {value}\n")
}

fn key_id(bytes: &[u8]) -> String {
    let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

fn key_usage(flags: u16) -> String {
    const NAMES: [&str; 9] = [
        "Digital Signature",
        "Non Repudiation",
        "Key Encipherment",
        "Data Encipherment",
        "Key Agreement",
        "Certificate Sign",
        "CRL Sign",
        "Encipher Only",
        "Decipher Only",
    ];
    let set = NAMES
        .iter()
        .enumerate()
        .filter(|(bit, _)| flags >> bit & 1 == 1);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

fn general_name(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => format!("DNS:{name}"),
        GeneralName::RFC822Name(name) => format!("email:{name}"),
        GeneralName::URI(uri) => format!("URI:{uri}"),
        GeneralName::IPAddress(bytes) => {
            match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
                (Ok(v4), _) => format!("IP Address:{}", IpAddr::from(v4)),
                (_, Ok(v6)) => format!("IP Address:{}", IpAddr::from(v6)),
                _ => "IP Address:<invalid>".into(),
            }
        }
        GeneralName::RegisteredID(oid) => format!("Registered ID:{}", oid.to_id_string()),
        GeneralName::DirectoryName(name) => {
            format!("DirName:{}", String::from_utf8_lossy(&name_text(name)))
        }
        _ => "othername:<unsupported>".into(),
    }
}

/// What OpenSSL says of a verification's result.
pub(super) fn verify_error(code: i64) -> Value {
    let text = match code {
        0 => "ok",
        1 => "unspecified certificate verification error",
        2 => "unable to get issuer certificate",
        3 => "unable to get certificate CRL",
        4 => "unable to decrypt certificate's signature",
        5 => "unable to decrypt CRL's signature",
        6 => "unable to decode issuer public key",
        7 => "certificate signature failure",
        8 => "CRL signature failure",
        9 => "certificate is not yet valid",
        10 => "certificate has expired",
        11 => "CRL is not yet valid",
        12 => "CRL has expired",
        13 => "format error in certificate's notBefore field",
        14 => "format error in certificate's notAfter field",
        15 => "format error in CRL's lastUpdate field",
        16 => "format error in CRL's nextUpdate field",
        17 => "out of memory",
        18 => "self signed certificate",
        19 => "self signed certificate in certificate chain",
        20 => "unable to get local issuer certificate",
        21 => "unable to verify the first certificate",
        22 => "certificate chain too long",
        23 => "certificate revoked",
        24 => "invalid CA certificate",
        25 => "path length constraint exceeded",
        26 => "unsupported certificate purpose",
        27 => "certificate not trusted",
        28 => "certificate rejected",
        29 => "subject issuer mismatch",
        30 => "authority and subject key identifier mismatch",
        31 => "authority and issuer serial number mismatch",
        32 => "key usage does not include certificate signing",
        50 => "application verification failure",
        62 => "Hostname mismatch",
        63 => "Email address mismatch",
        64 => "IP address mismatch",
        other => return Value::from(format!("error number {other}")),
    };
    Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_passes_for_another_part_of_it() {
        let mut text = Vec::new();
        push_escaped(&mut text, b" #a,b=c+\"d\";<e>\\\r\n ");
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"\ #a\,b=c\+\"d\"\;\<e\>\\\0D\0A\ "#
        );
        let mut text = Vec::new();
        push_escaped(&mut text, b"#x");
        assert_eq!(text, b"\\#x");
    }
}
