//! What a certificate says of its subject, for headers, logs and rules. Nothing here verifies anything.

use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use std::fmt::Write as _;
use std::net::IpAddr;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, ParsedExtension};
use x509_parser::revocation_list::CertificateRevocationList;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The subject's distinguished name, as `CN=…, O=…`.
    pub subject: String,
    /// The subject's common name, if it has one.
    pub common_name: Option<String>,
    /// The issuer's distinguished name.
    pub issuer: String,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// Alternative names, each with its kind: `DNS:…`, `IP:…`, `email:…`, `URI:…`.
    pub san: Vec<String>,
    /// Seconds since 1970 from which it is valid.
    pub not_before: i64,
    /// Seconds since 1970 up to which it is valid.
    pub not_after: i64,
    /// SHA-256 of the whole certificate, in hexadecimal.
    pub sha256: String,
}

/// A certificate that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an X.509 certificate: {0}")]
pub struct FactsError(String);

impl CertificateFacts {
    /// Reads a certificate in DER.
    pub fn parse(der: &[u8]) -> Result<Self, FactsError> {
        let certificate = decode(der)?;
        let common_name = certificate
            .subject()
            .iter_common_name()
            .next()
            .and_then(|name| name.as_str().ok())
            .map(ToOwned::to_owned);
        Ok(CertificateFacts {
            subject: certificate.subject().to_string(),
            common_name,
            issuer: certificate.issuer().to_string(),
            serial: hex(certificate.raw_serial()),
            san: alternative_names(&certificate)
                .filter_map(name_text)
                .collect(),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            sha256: hex(&sha256(der)),
        })
    }
}

/// What loading needs to know.
pub(crate) struct Parsed {
    pub(crate) subject: String,
    pub(crate) issuer: String,
    /// DNS names and addresses that it is for; the common name if there are no others.
    pub(crate) names: Vec<String>,
    pub(crate) has_san: bool,
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    pub(crate) not_before_text: String,
    pub(crate) not_after_text: String,
}

pub(crate) fn parse(der: &[u8]) -> Result<Parsed, FactsError> {
    let certificate = decode(der)?;
    let names = alternative_names(&certificate)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            GeneralName::IPAddress(bytes) => ip(bytes).map(|ip| ip.to_string()),
            _ => None,
        })
        .collect::<Vec<_>>();
    let has_san = !names.is_empty();
    let validity = certificate.validity();
    Ok(Parsed {
        subject: certificate.subject().to_string(),
        issuer: certificate.issuer().to_string(),
        names: if has_san {
            names
        } else {
            let common = certificate.subject().iter_common_name().next();
            common
                .and_then(|name| name.as_str().ok())
                .map(str::to_ascii_lowercase)
                .into_iter()
                .collect()
        },
        has_san,
        not_before: validity.not_before.timestamp(),
        not_after: validity.not_after.timestamp(),
        not_before_text: validity.not_before.to_string(),
        not_after_text: validity.not_after.to_string(),
    })
}

pub(crate) fn parse_crl(der: &[u8]) -> Result<(), String> {
    match CertificateRevocationList::from_der(der) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn sha256(data: &[u8]) -> Vec<u8> {
    let suite = TLS13_AES_128_GCM_SHA256
        .tls13()
        .expect("a suite of TLS 1.3");
    suite.common.hash_provider.hash(data).as_ref().to_vec()
}

fn decode(der: &[u8]) -> Result<X509Certificate<'_>, FactsError> {
    X509Certificate::from_der(der)
        .map(|(_, certificate)| certificate)
        .map_err(|error| FactsError(error.to_string()))
}

fn alternative_names<'a>(
    certificate: &'a X509Certificate<'a>,
) -> impl Iterator<Item = &'a GeneralName<'a>> {
    certificate
        .extensions()
        .iter()
        .filter_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(san) => Some(&san.general_names),
            _ => None,
        })
        .flatten()
}

fn name_text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(format!("DNS:{name}")),
        GeneralName::RFC822Name(name) => Some(format!("email:{name}")),
        GeneralName::URI(name) => Some(format!("URI:{name}")),
        GeneralName::IPAddress(bytes) => ip(bytes).map(|ip| format!("IP:{ip}")),
        _ => None,
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
