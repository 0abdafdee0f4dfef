//! What a TLS server or client is told, as plain values, and what can be wrong with it.
//!
//! Files are read by the caller: PEM comes in as bytes, with a label that errors name.

use std::time::SystemTime;

/// PEM text and where it came from.
#[derive(Clone, Debug, Default)]
pub struct Pem {
    /// What errors call it: a file's path, say.
    pub label: String,
    /// The text.
    pub bytes: Vec<u8>,
}

/// A certificate chain, the subject's own certificate first, and its private key.
#[derive(Clone, Debug, Default)]
pub struct Certificate {
    /// The chain.
    pub chain: Pem,
    /// The key: PKCS#8, PKCS#1 or SEC1, unencrypted; RSA, ECDSA P-256/P-384/P-521 or Ed25519.
    pub key: Pem,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// What a server asks of its clients' certificates.
#[derive(Clone, Debug, Default)]
pub enum ClientAuth {
    /// None is asked for.
    #[default]
    Off,
    /// One is asked for; without one the client may pass, with a bad one it may not.
    Optional {
        /// The authorities that may have signed it.
        ca: Pem,
        /// Their revocation lists. With any given, a certificate of an authority without one is refused.
        crls: Vec<Pem>,
    },
    /// No client passes without one.
    Required {
        /// The authorities that must have signed it.
        ca: Pem,
        /// As for `Optional`.
        crls: Vec<Pem>,
    },
}

/// How to serve TLS.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// At least one. The first is served where no name matches.
    pub certificates: Vec<Certificate>,
    /// The oldest version spoken.
    pub min_version: Version,
    /// The newest version spoken.
    pub max_version: Version,
    /// Cipher suites by name, best first; empty for the default. See [`SUITES`](crate::SUITES).
    pub suites: Vec<String>,
    /// Key exchange groups by name, best first; empty for the default. See [`GROUPS`](crate::GROUPS).
    pub groups: Vec<String>,
    /// Protocols to agree on, best first (RFC 7301); empty for none.
    pub alpn: Vec<Vec<u8>>,
    /// Clients' certificates.
    pub client_auth: ClientAuth,
    /// Tickets given after a TLS 1.3 handshake. Zero turns tickets off, for TLS 1.2 too.
    pub tickets: usize,
    /// Refuses clients that name no server or one that no certificate is for, by the alert unrecognized_name.
    pub require_sni: bool,
    /// Takes a FIN without close_notify for an end of data, not an error.
    pub lenient_close: bool,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            certificates: Vec::new(),
            min_version: Version::Tls12,
            max_version: Version::Tls13,
            suites: Vec::new(),
            groups: Vec::new(),
            alpn: Vec::new(),
            client_auth: ClientAuth::Off,
            tickets: 2,
            require_sni: false,
            lenient_close: false,
        }
    }
}

/// How to speak TLS to a server.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Whether the server's certificate must be good. Without, anyone in the path can read along.
    pub verify: bool,
    /// The authorities to trust, needed if `verify`.
    pub ca: Pem,
    /// Whether a certificate in `ca` that cannot be used is passed over: so for a system's bundle.
    pub ca_is_bundle: bool,
    /// Revocation lists of those authorities; empty for no such check.
    pub crls: Vec<Pem>,
    /// Names the server, whatever it is called by [`connect`](crate::connect): in SNI and for the check.
    pub server_name: Option<String>,
    /// Whether the name is sent (SNI).
    pub send_sni: bool,
    /// This side's certificate, shown if the server asks.
    pub certificate: Option<Certificate>,
    /// Protocols to offer, best first.
    pub alpn: Vec<Vec<u8>>,
    /// The oldest version spoken.
    pub min_version: Version,
    /// The newest version spoken.
    pub max_version: Version,
    /// As for servers.
    pub suites: Vec<String>,
    /// As for servers.
    pub groups: Vec<String>,
    /// Servers whose sessions are remembered, to resume them; zero for none.
    pub session_cache: usize,
    /// Takes a FIN without close_notify for an end of data, not an error.
    pub lenient_close: bool,
}

impl Default for ClientSettings {
    fn default() -> Self {
        ClientSettings {
            verify: true,
            ca: Pem::default(),
            ca_is_bundle: false,
            crls: Vec::new(),
            server_name: None,
            send_sni: true,
            certificate: None,
            alpn: Vec::new(),
            min_version: Version::Tls12,
            max_version: Version::Tls13,
            suites: Vec::new(),
            groups: Vec::new(),
            session_cache: 256,
            lenient_close: false,
        }
    }
}

/// When a certificate ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Where its chain came from.
    pub label: String,
    /// The names it is for.
    pub names: Vec<String>,
    /// The first moment at which it, or one of its chain, is no longer good.
    pub not_after: SystemTime,
}

/// What is wrong with settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A server has nothing to show.
    #[error("no certificate: a TLS server needs at least one")]
    NoCertificates,
    /// PEM that does not parse.
    #[error("{label}: bad PEM: {problem}")]
    BadPem {
        /// Where it came from.
        label: String,
        /// What is wrong.
        problem: String,
    },
    /// PEM without what was looked for.
    #[error("{label}: no {expected} found in it")]
    Missing {
        /// Where it came from.
        label: String,
        /// What should be there, as its PEM header says.
        expected: &'static str,
    },
    /// A certificate that does not parse.
    #[error("{label}: certificate {index} of the file: {problem}")]
    BadCertificate {
        /// Where it came from.
        label: String,
        /// Which, from 1.
        index: usize,
        /// What is wrong.
        problem: String,
    },
    /// A private key that cannot be used.
    #[error(
        "{label}: private key cannot be used: {problem}; RSA of 2048 to 8192 bits, ECDSA (P-256, P-384, P-521) and Ed25519 can"
    )]
    BadKey {
        /// Where it came from.
        label: String,
        /// What is wrong.
        problem: String,
    },
    /// A private key that is locked by a passphrase.
    #[error(
        "{label}: private key is encrypted; give it without a passphrase, readable by its owner alone"
    )]
    EncryptedKey {
        /// Where it came from.
        label: String,
    },
    /// Certificate and key are not a pair.
    #[error("{key}: private key does not belong to the certificate in {chain}")]
    KeyMismatch {
        /// Where the chain came from.
        chain: String,
        /// Where the key came from.
        key: String,
    },
    /// A revocation list that cannot be used.
    #[error("{label}: bad revocation list: {problem}")]
    BadCrl {
        /// Where it came from.
        label: String,
        /// What is wrong.
        problem: String,
    },
    /// Verification without an authority to trust.
    #[error("certificates are to be verified, but no authority is given to verify them by")]
    NoAuthorities,
    /// A suite that does not exist.
    #[error("unknown cipher suite «{name}»; the nearest is «{nearest}»")]
    UnknownSuite {
        /// As given.
        name: String,
        /// What was perhaps meant.
        nearest: &'static str,
    },
    /// A group that does not exist.
    #[error("unknown key exchange group «{name}»; the nearest is «{nearest}»")]
    UnknownGroup {
        /// As given.
        name: String,
        /// What was perhaps meant.
        nearest: &'static str,
    },
    /// Settings that leave nothing to agree on.
    #[error("no cipher suite in the list is for the versions {min:?} to {max:?}")]
    NoSuiteForVersions {
        /// The oldest version.
        min: Version,
        /// The newest version.
        max: Version,
    },
    /// The oldest version is newer than the newest.
    #[error("the minimum version {min:?} is newer than the maximum {max:?}")]
    VersionsReversed {
        /// The oldest version.
        min: Version,
        /// The newest version.
        max: Version,
    },
    /// A name that no server can have.
    #[error("«{0}» is neither a DNS name nor an IP address")]
    BadServerName(String),
    /// The library refused the settings for a reason not told above.
    #[error("TLS settings refused: {0}")]
    Refused(String),
    /// The system gave no random bytes.
    #[error("no random bytes from the system for ticket keys")]
    NoRandomness,
}
