//! Cipher suites and key exchange groups by the names that people know them by.

use crate::settings::{SettingsError, Version};
use rustls::crypto::aws_lc_rs::{self, cipher_suite as cs, kx_group as kx};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{NamedGroup, SupportedCipherSuite, SupportedProtocolVersion};
use std::sync::Arc;

/// The cipher suites there are, by their IANA names; OpenSSL's names are understood too.
pub const SUITES: [&str; 9] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// The key exchange groups there are; `P-256` and `P-384` are understood too.
pub const GROUPS: [&str; 5] = [
    "X25519MLKEM768",
    "SecP256r1MLKEM768",
    "X25519",
    "secp256r1",
    "secp384r1",
];

/// In the order of [`SUITES`], with OpenSSL's names.
static SUITE_TABLE: [(&str, SupportedCipherSuite); 9] = [
    ("TLS_AES_128_GCM_SHA256", cs::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", cs::TLS13_AES_256_GCM_SHA384),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        cs::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        cs::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        cs::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        cs::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        cs::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        cs::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        cs::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The provider of cryptography with these suites and groups alone.
pub(crate) fn provider(
    suites: &[String],
    groups: &[String],
    versions: (Version, Version),
) -> Result<Arc<CryptoProvider>, SettingsError> {
    let (min, max) = versions;
    if min > max {
        return Err(SettingsError::VersionsReversed { min, max });
    }
    let mut provider = aws_lc_rs::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites = suites
            .iter()
            .map(|name| suite(name))
            .collect::<Result<_, _>>()?;
    }
    if !groups.is_empty() {
        provider.kx_groups = groups
            .iter()
            .map(|name| group(name))
            .collect::<Result<_, _>>()?;
    }
    let speaks = |suite: &SupportedCipherSuite| match suite {
        SupportedCipherSuite::Tls12(_) => min == Version::Tls12,
        SupportedCipherSuite::Tls13(_) => max == Version::Tls13,
    };
    if !provider.cipher_suites.iter().any(speaks) {
        return Err(SettingsError::NoSuiteForVersions { min, max });
    }
    Ok(Arc::new(provider))
}

/// The versions between two, both included, that the provider has suites for.
pub(crate) fn versions(
    provider: &CryptoProvider,
    (min, max): (Version, Version),
) -> Vec<&'static SupportedProtocolVersion> {
    let has = |tls13: bool| {
        provider
            .cipher_suites
            .iter()
            .any(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)) == tls13)
    };
    let mut versions = Vec::new();
    if max == Version::Tls13 && has(true) {
        versions.push(&rustls::version::TLS13);
    }
    if min == Version::Tls12 && has(false) {
        versions.push(&rustls::version::TLS12);
    }
    versions
}

/// A suite's IANA name.
pub(crate) fn suite_name(suite: SupportedCipherSuite) -> &'static str {
    SUITE_TABLE
        .iter()
        .position(|(_, known)| *known == suite)
        .map_or("unknown", |i| SUITES[i])
}

/// A group's name.
pub(crate) fn group_name(group: NamedGroup) -> &'static str {
    match group {
        NamedGroup::X25519MLKEM768 => "X25519MLKEM768",
        NamedGroup::secp256r1MLKEM768 => "SecP256r1MLKEM768",
        NamedGroup::X25519 => "X25519",
        NamedGroup::secp256r1 => "secp256r1",
        NamedGroup::secp384r1 => "secp384r1",
        _ => "unknown",
    }
}

fn suite(name: &str) -> Result<SupportedCipherSuite, SettingsError> {
    SUITES
        .iter()
        .zip(&SUITE_TABLE)
        .find(|(iana, (openssl, _))| {
            name.eq_ignore_ascii_case(iana) || name.eq_ignore_ascii_case(openssl)
        })
        .map(|(_, (_, suite))| *suite)
        .ok_or_else(|| {
            let openssl = SUITE_TABLE.iter().map(|(name, _)| *name);
            SettingsError::UnknownSuite {
                name: name.to_owned(),
                nearest: nearest(name, SUITES.into_iter().chain(openssl)),
            }
        })
}

fn group(name: &str) -> Result<&'static dyn SupportedKxGroup, SettingsError> {
    let known = name.to_ascii_lowercase();
    Ok(match known.as_str() {
        "x25519mlkem768" => kx::X25519MLKEM768,
        "secp256r1mlkem768" => kx::SECP256R1MLKEM768,
        "x25519" => kx::X25519,
        "secp256r1" | "prime256v1" | "p-256" | "p256" => kx::SECP256R1,
        "secp384r1" | "p-384" | "p384" => kx::SECP384R1,
        _ => {
            return Err(SettingsError::UnknownGroup {
                name: name.to_owned(),
                nearest: nearest(name, GROUPS.into_iter().chain(["P-256", "P-384"])),
            });
        }
    })
}

/// The one of `names` that takes the fewest edits to become.
fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> &'static str {
    names
        .min_by_key(|known| distance(name, known))
        .unwrap_or_default()
}

/// Levenshtein's distance, letters' case aside.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = diagonal + usize::from(!x.eq_ignore_ascii_case(&y));
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: (Version, Version) = (Version::Tls12, Version::Tls13);

    #[test]
    fn every_listed_name_is_known_and_comes_back() {
        for name in SUITES {
            assert_eq!(suite_name(suite(name).unwrap()), name);
        }
        for name in GROUPS {
            assert_eq!(group_name(group(name).unwrap().name()), name);
        }
    }

    #[test]
    fn a_mistyped_name_is_answered_with_the_nearest() {
        let error = provider(&["TLS_AES_128_GCM_SHA265".into()], &[], BOTH).unwrap_err();
        assert!(error.to_string().contains("«TLS_AES_128_GCM_SHA256»"));
        let error = provider(&[], &["X25591".into()], BOTH).unwrap_err();
        assert!(error.to_string().contains("«X25519»"), "{error}");
    }

    #[test]
    fn suites_of_another_version_are_refused() {
        let error = provider(
            &["TLS_AES_128_GCM_SHA256".into()],
            &[],
            (Version::Tls12, Version::Tls12),
        )
        .unwrap_err();
        assert!(matches!(error, SettingsError::NoSuiteForVersions { .. }));
    }

    #[test]
    fn a_version_without_a_suite_is_not_offered() {
        let provider = provider(&["TLS_AES_128_GCM_SHA256".into()], &[], BOTH).unwrap();
        assert_eq!(versions(&provider, BOTH), [&rustls::version::TLS13]);
    }
}
