//! Texts with a grammar of their own: addresses with ports, header names and values, host patterns, sets of statuses,
//! templates, and what is read from files.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a member is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberAddress {
    /// An address and port; in pools of fast virtuals alone, port 0 for the one that the client asked for.
    Socket(SocketAddr),
    /// A host name that is resolved while running, and a port.
    Host {
        /// The name, in lower case, without a trailing dot.
        host: String,
        /// The TCP port.
        port: u16,
    },
}

impl MemberAddress {
    /// The TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Socket(address) => address.port(),
            Self::Host { port, .. } => *port,
        }
    }
}

impl fmt::Display for MemberAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => write!(f, "{address}"),
            Self::Host { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// An HTTP field name: a token (RFC 9110 section 5.1), in the case it was written in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldName(pub(crate) Arc<str>);

impl FieldName {
    /// The name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An HTTP field value without control characters (RFC 9110 section 5.5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldValue(pub(crate) Arc<str>);

impl FieldValue {
    /// The value as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Host names that a route or certificate is for. Always in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Any host, written `*`.
    Any,
    /// This host alone.
    Exact(String),
    /// Every host that ends in this suffix, which begins with its dot: `.b.example` for `*.b.example`.
    /// Any number of labels may stand before it, but at least one.
    Suffix(String),
}

impl HostPattern {
    /// Whether `host` (no port, any case, no trailing dot) is meant.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(name) => name.eq_ignore_ascii_case(host),
            Self::Suffix(suffix) => {
                let (host, suffix) = (host.as_bytes(), suffix.as_bytes());
                host.len() > suffix.len()
                    && host[host.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(name) => f.write_str(name),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
        }
    }
}

/// A set of HTTP status codes, such as `200-299,304`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatusSet(pub(crate) Vec<RangeInclusive<u16>>);

impl StatusSet {
    /// The set of one range.
    #[must_use]
    pub fn range(range: RangeInclusive<u16>) -> Self {
        Self(vec![range])
    }

    /// Whether `status` is in the set.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }
}

impl fmt::Display for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// A text with places that are filled in from the exchange: `https://{host}{uri}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template(pub(crate) Vec<TemplatePart>);

impl Template {
    /// The parts in order.
    #[must_use]
    pub fn parts(&self) -> &[TemplatePart] {
        &self.0
    }

    /// The text, where no part of it depends on the exchange.
    #[must_use]
    pub fn as_literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [TemplatePart::Literal(text)] => Some(text),
            _ => None,
        }
    }
}

/// A part of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TemplatePart {
    /// Text that stays as it is.
    Literal(String),
    /// A place to be filled.
    Variable(Variable),
}

macro_rules! variables {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// What a [`Template`] can ask of the exchange.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Variable {
            $($(#[$doc])* $name,)*
        }

        impl Variable {
            /// All that there are.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$name),*];

            /// The word between the braces.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

variables! {
    /// `{client_ip}`: the client's address, as the PROXY protocol or trusted proxies report it.
    ClientIp = "client_ip",
    /// `{client_port}`: the client's port.
    ClientPort = "client_port",
    /// `{host}`: the host of the request, without port.
    Host = "host",
    /// `{path}`: the path, without query.
    Path = "path",
    /// `{uri}`: path and query as the client sent them.
    Uri = "uri",
    /// `{query}`: the query without its question mark.
    Query = "query",
    /// `{method}`: the method.
    Method = "method",
    /// `{proto}`: `http` or `https`, as the client speaks.
    Proto = "proto",
    /// `{request_id}`: the request's id.
    RequestId = "request_id",
    /// `{server_ip}`: the local address the client connected to.
    ServerIp = "server_ip",
    /// `{server_port}`: the local port the client connected to.
    ServerPort = "server_port",
    /// `{sni}`: the server name of the TLS handshake.
    Sni = "sni",
    /// `{tls_version}`: `TLSv1.3`, or empty without TLS.
    TlsVersion = "tls_version",
    /// `{tls_cipher}`: the cipher suite, or empty without TLS.
    TlsCipher = "tls_cipher",
    /// `{client_cert_subject}`: the subject of the client's verified certificate, or empty.
    ClientCertSubject = "client_cert_subject",
    /// `{virtual}`: the name of the virtual.
    Virtual = "virtual",
}

/// A file that existed when the configuration was read. Absolute, or relative to the working directory if the
/// configuration itself was.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath(pub PathBuf);

impl FilePath {
    /// The path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

/// A text that stands in the configuration, or in a file it names.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Content {
    /// The text.
    pub text: Arc<str>,
    /// The file it was read from.
    pub file: Option<FilePath>,
}

/// A secret, read from a file. Never shown: its `Debug` form and its JSON name the file alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub(crate) file: FilePath,
    pub(crate) value: Arc<str>,
}

impl Secret {
    /// The secret itself, without the white space around it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.file.0.display())
    }
}
