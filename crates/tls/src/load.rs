//! PEM to certificates, keys, authorities and revocation lists, with errors that name the place.

use crate::facts::{self, Parsed};
use crate::settings::{Certificate, Expiry, Pem, SettingsError};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A certificate that can be served, and what was found out about it on the way.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) expiry: Expiry,
    pub(crate) warnings: Vec<String>,
}

/// Reads a chain and its key, and checks that they belong together.
pub(crate) fn certificate(
    certificate: &Certificate,
    provider: &CryptoProvider,
) -> Result<Loaded, SettingsError> {
    let label = &certificate.chain.label;
    let chain = certificates(&certificate.chain)?;
    let parsed = parse_all(label, &chain)?;
    let key = provider
        .key_provider
        .load_private_key(private_key(&certificate.key)?)
        .map_err(|error| SettingsError::BadKey {
            label: certificate.key.label.clone(),
            problem: error.to_string(),
        })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
        Err(rustls::Error::InconsistentKeys(_)) => {
            return Err(SettingsError::KeyMismatch {
                chain: label.clone(),
                key: certificate.key.label.clone(),
            });
        }
        Err(error) => {
            return Err(SettingsError::BadCertificate {
                label: label.clone(),
                index: 1,
                problem: error.to_string(),
            });
        }
    }
    let names = parsed
        .first()
        .map_or_else(Vec::new, |leaf| leaf.names.clone());
    let not_after = parsed.iter().map(|p| p.not_after).min().unwrap_or(0);
    Ok(Loaded {
        key: Arc::new(certified),
        warnings: warnings(label, &parsed, SystemTime::now()),
        expiry: Expiry {
            label: label.clone(),
            names,
            not_after: time(not_after),
        },
    })
}

/// Authorities to trust. In a system's bundle what cannot be used is passed over.
pub(crate) fn authorities(ca: &Pem, is_bundle: bool) -> Result<Arc<RootCertStore>, SettingsError> {
    if ca.bytes.is_empty() {
        return Err(SettingsError::NoAuthorities);
    }
    let mut roots = RootCertStore::empty();
    let found = certificates(ca)?;
    if is_bundle {
        roots.add_parsable_certificates(found);
    } else {
        for (i, certificate) in found.into_iter().enumerate() {
            roots
                .add(certificate)
                .map_err(|error| SettingsError::BadCertificate {
                    label: ca.label.clone(),
                    index: i + 1,
                    problem: error.to_string(),
                })?;
        }
    }
    if roots.is_empty() {
        return Err(SettingsError::Missing {
            label: ca.label.clone(),
            expected: "usable CERTIFICATE",
        });
    }
    Ok(Arc::new(roots))
}

/// Revocation lists.
pub(crate) fn revocation_lists(
    crls: &[Pem],
) -> Result<Vec<CertificateRevocationListDer<'static>>, SettingsError> {
    let mut lists = Vec::new();
    for pem in crls {
        let before = lists.len();
        for list in CertificateRevocationListDer::pem_slice_iter(&pem.bytes) {
            let list = list.map_err(|error| bad_pem(pem, &error))?;
            facts::parse_crl(&list).map_err(|problem| SettingsError::BadCrl {
                label: pem.label.clone(),
                problem,
            })?;
            lists.push(list);
        }
        if lists.len() == before {
            return Err(SettingsError::Missing {
                label: pem.label.clone(),
                expected: "X509 CRL",
            });
        }
    }
    Ok(lists)
}

fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let found = CertificateDer::pem_slice_iter(&pem.bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad_pem(pem, &error))?;
    if found.is_empty() {
        return Err(SettingsError::Missing {
            label: pem.label.clone(),
            expected: "CERTIFICATE",
        });
    }
    Ok(found)
}

fn private_key(pem: &Pem) -> Result<PrivateKeyDer<'static>, SettingsError> {
    if contains(&pem.bytes, b"BEGIN ENCRYPTED PRIVATE KEY")
        || contains(&pem.bytes, b"Proc-Type: 4,ENCRYPTED")
    {
        return Err(SettingsError::EncryptedKey {
            label: pem.label.clone(),
        });
    }
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(&pem.bytes) {
        let (kind, der) = section.map_err(|error| bad_pem(pem, &error))?;
        if let Some(key) = PrivateKeyDer::from_pem(kind, der) {
            return Ok(key);
        }
    }
    Err(SettingsError::Missing {
        label: pem.label.clone(),
        expected: "PRIVATE KEY",
    })
}

fn parse_all(label: &str, chain: &[CertificateDer<'_>]) -> Result<Vec<Parsed>, SettingsError> {
    chain
        .iter()
        .enumerate()
        .map(|(i, der)| {
            facts::parse(der).map_err(|error| SettingsError::BadCertificate {
                label: label.to_owned(),
                index: i + 1,
                problem: error.to_string(),
            })
        })
        .collect()
}

fn warnings(label: &str, chain: &[Parsed], now: SystemTime) -> Vec<String> {
    const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);
    let mut warnings = Vec::new();
    for (i, certificate) in chain.iter().enumerate() {
        let which = format!("{label}: certificate {} ({})", i + 1, certificate.subject);
        let not_after = time(certificate.not_after);
        if not_after <= now {
            warnings.push(format!("{which} expired on {}", certificate.not_after_text));
        } else if not_after <= now + SOON {
            warnings.push(format!("{which} expires on {}", certificate.not_after_text));
        }
        if time(certificate.not_before) > now {
            warnings.push(format!(
                "{which} is not valid before {}",
                certificate.not_before_text
            ));
        }
    }
    if chain.first().is_some_and(|leaf| !leaf.has_san) {
        warnings.push(format!(
            "{label}: certificate has no subject alternative name; clients will refuse it"
        ));
    }
    for (i, pair) in chain.windows(2).enumerate() {
        if pair[0].issuer != pair[1].subject {
            warnings.push(format!(
                "{label}: certificate {} ({}) did not sign certificate {}; the chain is out of order or incomplete",
                i + 2,
                pair[1].subject,
                i + 1,
            ));
        }
    }
    warnings
}

fn bad_pem(pem: &Pem, error: &rustls_pki_types::pem::Error) -> SettingsError {
    SettingsError::BadPem {
        label: pem.label.clone(),
        problem: error.to_string(),
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}

/// A time in seconds since 1970, which for certificates may lie before.
fn time(seconds: i64) -> SystemTime {
    let span = Duration::from_secs(seconds.unsigned_abs());
    let moved = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(span)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(span)
    };
    moved.unwrap_or(SystemTime::UNIX_EPOCH)
}
