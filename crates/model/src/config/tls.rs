//! TLS: profiles towards clients, settings towards members and monitors' targets.

use crate::FilePath;
use crate::check;
use crate::node::Node;
use crate::setting::{Context, Setting};

config! {
    /// Settings of TLS towards clients.
    pub struct TlsProfile check(check::tls_profile) {
        /// Certificates, chosen by server name; the first is for clients that name none or another.
        pub certificates: Vec<Certificate>,
        /// The oldest version that is spoken.
        pub min_version: TlsVersion = TlsVersion::V1_2,
        /// The newest version that is spoken.
        pub max_version: TlsVersion = TlsVersion::V1_3,
        /// Cipher suites, the preferred first; empty for the safe default.
        pub suites: Vec<Suite> = Vec::new(),
        /// Key exchange groups, the preferred first; empty for the safe default.
        pub groups: Vec<Group> = Vec::new(),
        /// Protocols offered by ALPN, the preferred first. Empty for `http/1.1` on an HTTP virtual, and none on others.
        pub alpn: Vec<String> = Vec::new(),
        /// Certificates of clients.
        pub client_auth: ClientAuth = ClientAuth::default(),
        /// Session tickets sent after a TLS 1.3 handshake, and whether TLS 1.2 has any; 0 for none.
        #[range(0, 16)]
        pub session_tickets: usize = 2,
        /// Sessions kept for resumption without tickets.
        pub session_cache: usize = 10_000,
        /// Whether a handshake is refused whose server name no certificate is for.
        pub require_sni: bool = false,
    }
}

config! {
    /// A certificate with its key.
    pub struct Certificate {
        /// The certificate chain, PEM, the leaf first.
        pub certificate: FilePath,
        /// Its private key, PEM.
        pub key: FilePath,
    }
}

config! {
    /// A version of TLS.
    pub enum TlsVersion {
        /// TLS 1.2 (RFC 5246).
        V1_2 = "1.2",
        /// TLS 1.3 (RFC 8446).
        V1_3 = "1.3",
    }
}

config! {
    /// A cipher suite by its IANA name.
    pub enum Suite {
        /// TLS 1.3.
        Tls13Aes256Gcm = "TLS13_AES_256_GCM_SHA384",
        /// TLS 1.3.
        Tls13Aes128Gcm = "TLS13_AES_128_GCM_SHA256",
        /// TLS 1.3.
        Tls13Chacha20 = "TLS13_CHACHA20_POLY1305_SHA256",
        /// TLS 1.2, ECDSA certificates.
        EcdsaAes256Gcm = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        /// TLS 1.2, ECDSA certificates.
        EcdsaAes128Gcm = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        /// TLS 1.2, ECDSA certificates.
        EcdsaChacha20 = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        /// TLS 1.2, RSA certificates.
        RsaAes256Gcm = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        /// TLS 1.2, RSA certificates.
        RsaAes128Gcm = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        /// TLS 1.2, RSA certificates.
        RsaChacha20 = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    }
}

config! {
    /// A key exchange group.
    pub enum Group {
        /// X25519 joined with ML-KEM-768, safe from quantum computers.
        X25519MlKem768 = "X25519MLKEM768",
        /// X25519.
        X25519 = "X25519",
        /// NIST P-256.
        Secp256r1 = "secp256r1",
        /// NIST P-384.
        Secp384r1 = "secp384r1",
        /// ML-KEM-768 alone.
        MlKem768 = "MLKEM768",
    }
}

config! {
    /// Certificates of clients.
    pub struct ClientAuth {
        /// Whether clients are asked for one.
        pub mode: ClientAuthMode = ClientAuthMode::Off,
        /// The authorities that may have signed it, PEM.
        pub ca: Option<FilePath> = None,
        /// Lists of revoked certificates, PEM.
        pub crl: Vec<FilePath> = Vec::new(),
    }
}

config! {
    /// Whether clients are asked for a certificate.
    pub enum ClientAuthMode {
        /// They are not asked.
        Off = "off",
        /// They are asked; one that is sent must be valid.
        Optional = "optional",
        /// Without a valid one there is no connection.
        Required = "required",
    }
}

config! {
    /// Settings of TLS where Headgate is the client: towards members and monitors' targets.
    pub struct ClientTls check(check::client_tls) {
        /// Whether the certificate is verified. Without that, anyone on the way can read and change what passes.
        pub verify: bool = true,
        /// The authorities that may have signed it.
        pub ca: TrustRoots = TrustRoots::System,
        /// The name the certificate must be for. Without it, the member's host name or address.
        pub server_name: Option<String> = None,
        /// The server name that is sent. Without it, `server_name` or the member's host name; `off` to send none.
        pub sni: Sni = Sni::Auto,
        /// Headgate's own certificate chain, PEM, for servers that ask.
        pub certificate: Option<FilePath> = None,
        /// The private key of `certificate`, PEM.
        pub key: Option<FilePath> = None,
        /// The oldest version that is spoken.
        pub min_version: TlsVersion = TlsVersion::V1_2,
        /// Protocols offered by ALPN.
        pub alpn: Vec<String> = Vec::new(),
    }
}

config! {
    /// Authorities that are trusted.
    pub enum TrustRoots short("a file", short_roots) {
        /// Those of the operating system.
        System = "system",
        /// Those of a file, PEM.
        File(FilePath) = "file",
    }
}

config! {
    /// The server name that is sent in a handshake.
    pub enum Sni short("a host name", short_sni) {
        /// `server_name`, or the member's host name, or none where it has only an address.
        Auto = "auto",
        /// None.
        Off = "off",
        /// This one.
        Name(String) = "name",
    }
}

impl Suite {
    /// The version of TLS that the suite belongs to.
    #[must_use]
    pub fn version(self) -> TlsVersion {
        match self {
            Self::Tls13Aes256Gcm | Self::Tls13Aes128Gcm | Self::Tls13Chacha20 => TlsVersion::V1_3,
            _ => TlsVersion::V1_2,
        }
    }
}

fn short_roots(node: &Node, cx: &mut Context<'_>) -> Option<TrustRoots> {
    cx.text(node, "`system` or a file")?;
    FilePath::decode(node, cx).map(TrustRoots::File)
}

fn short_sni(node: &Node, cx: &mut Context<'_>) -> Option<Sni> {
    let text = cx.text(node, "`auto`, `off` or a host name")?;
    let name = crate::decode_text::host_name(text);
    if name.is_none() {
        cx.bad_value(node, "a host name");
    }
    name.map(Sni::Name)
}
