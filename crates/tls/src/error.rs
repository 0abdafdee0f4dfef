//! Why a handshake failed, in words for a log and in a fixed word for a counter.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};
use std::io;

/// Why a client was not let in.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The first bytes are no TLS.
    #[error("not TLS{}", if *.http { ": plain HTTP on a TLS port" } else { "" })]
    NotTls {
        /// Whether it looks like an HTTP request, which then got an answer saying so.
        http: bool,
    },
    /// Asked for a name that no certificate is for, where one is required.
    #[error("no certificate for the name asked for")]
    UnrecognizedName,
    /// The client showed no certificate and must.
    #[error("client showed no certificate")]
    CertificateRequired,
    /// The client's certificate is not good.
    #[error("client's certificate: {0}")]
    ClientCertificate(CertificateError),
    /// Nothing in common to speak.
    #[error("nothing in common with the client: {0:?}")]
    Incompatible(PeerIncompatible),
    /// The client gave up with an alert, which tells why.
    #[error("client ended the handshake: {0:?}")]
    Alert(AlertDescription),
    /// The client went away within the handshake.
    #[error("client went away during the handshake")]
    Gone,
    /// The client breaks the protocol.
    #[error("TLS: {0}")]
    Protocol(Error),
    /// The socket failed.
    #[error("socket: {0}")]
    Io(io::Error),
}

impl AcceptError {
    /// A fixed word for it, for counters and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            AcceptError::NotTls { .. } => "not-tls",
            AcceptError::UnrecognizedName => "unrecognized-name",
            AcceptError::CertificateRequired => "certificate-required",
            AcceptError::ClientCertificate(error) => certificate_reason(error),
            AcceptError::Incompatible(error) => incompatible_reason(error),
            AcceptError::Alert(alert) => alert_reason(*alert),
            AcceptError::Gone => "client-gone",
            AcceptError::Protocol(error) => protocol_reason(error),
            AcceptError::Io(_) => "socket-error",
        }
    }

    /// What rustls, and the first bytes that came, say of a failure.
    pub(crate) fn from_rustls(error: Error, first: &[u8], require_sni: bool) -> Self {
        match error {
            Error::InvalidMessage(_) if !looks_like_tls(first) => AcceptError::NotTls {
                http: looks_like_http(first),
            },
            Error::NoCertificatesPresented => AcceptError::CertificateRequired,
            Error::InvalidCertificate(error) => AcceptError::ClientCertificate(error),
            Error::PeerIncompatible(error) => AcceptError::Incompatible(error),
            Error::AlertReceived(alert) => AcceptError::Alert(alert),
            // What rustls says when the resolver found no certificate.
            Error::General(_) if require_sni => AcceptError::UnrecognizedName,
            error => AcceptError::Protocol(error),
        }
    }
}

/// Why no TLS connection came about with a server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// What answered is no TLS.
    #[error("the server does not speak TLS on this port")]
    NotTls,
    /// The server's certificate is not good.
    #[error("server's certificate: {0}")]
    ServerCertificate(CertificateError),
    /// Nothing in common to speak.
    #[error("nothing in common with the server: {0:?}")]
    Incompatible(PeerIncompatible),
    /// The server gave up with an alert, which tells why.
    #[error("server ended the handshake: {0:?}")]
    Alert(AlertDescription),
    /// The server went away within the handshake.
    #[error("server went away during the handshake")]
    Gone,
    /// The server breaks the protocol.
    #[error("TLS: {0}")]
    Protocol(Error),
    /// The socket failed.
    #[error("socket: {0}")]
    Io(io::Error),
}

impl ConnectError {
    /// A fixed word for it, for counters and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            ConnectError::NotTls => "not-tls",
            ConnectError::ServerCertificate(error) => certificate_reason(error),
            ConnectError::Incompatible(error) => incompatible_reason(error),
            ConnectError::Alert(alert) => alert_reason(*alert),
            ConnectError::Gone => "server-gone",
            ConnectError::Protocol(error) => protocol_reason(error),
            ConnectError::Io(_) => "socket-error",
        }
    }

    pub(crate) fn from_rustls(error: Error, first: &[u8]) -> Self {
        match error {
            Error::InvalidMessage(_) if !looks_like_tls(first) => ConnectError::NotTls,
            Error::InvalidCertificate(error) => ConnectError::ServerCertificate(error),
            Error::PeerIncompatible(error) => ConnectError::Incompatible(error),
            Error::AlertReceived(alert) => ConnectError::Alert(alert),
            error => ConnectError::Protocol(error),
        }
    }
}

/// Whether the socket says that the peer is no longer there.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

fn certificate_reason(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::UnknownIssuer => "unknown-ca",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate-expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "certificate-not-valid-yet"
        }
        CertificateError::Revoked => "certificate-revoked",
        CertificateError::UnknownRevocationStatus
        | CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => "revocation-unknown",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "wrong-name"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "wrong-purpose"
        }
        _ => "bad-certificate",
    }
}

fn incompatible_reason(error: &PeerIncompatible) -> &'static str {
    match error {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::Tls13RequiredForQuic => "no-shared-version",
        PeerIncompatible::NoCipherSuitesInCommon => "no-shared-cipher",
        PeerIncompatible::NoKxGroupsInCommon
        | PeerIncompatible::NoEcPointFormatsInCommon
        | PeerIncompatible::NamedGroupsExtensionRequired
        | PeerIncompatible::KeyShareExtensionRequired => "no-shared-group",
        PeerIncompatible::NoSignatureSchemesInCommon
        | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon
        | PeerIncompatible::SignatureAlgorithmsExtensionRequired => "no-shared-signature",
        _ => "incompatible",
    }
}

fn alert_reason(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::ProtocolVersion => "alert-protocol-version",
        AlertDescription::HandshakeFailure => "alert-handshake-failure",
        AlertDescription::UnknownCA => "alert-unknown-ca",
        AlertDescription::BadCertificate => "alert-bad-certificate",
        AlertDescription::CertificateExpired => "alert-certificate-expired",
        AlertDescription::CertificateRevoked => "alert-certificate-revoked",
        AlertDescription::CertificateUnknown => "alert-certificate-unknown",
        AlertDescription::CertificateRequired => "alert-certificate-required",
        AlertDescription::UnrecognisedName => "alert-unrecognized-name",
        AlertDescription::NoApplicationProtocol => "alert-no-application-protocol",
        AlertDescription::UserCanceled => "alert-user-canceled",
        _ => "alert-other",
    }
}

fn protocol_reason(error: &Error) -> &'static str {
    match error {
        Error::NoApplicationProtocol => "no-shared-protocol",
        Error::InvalidMessage(
            InvalidMessage::MessageTooLarge
            | InvalidMessage::HandshakePayloadTooLarge
            | InvalidMessage::CertificatePayloadTooLarge,
        )
        | Error::PeerSentOversizedRecord => "message-too-large",
        _ => "protocol-error",
    }
}

/// Whether bytes could begin a TLS record: a handshake or an alert, version 3.x.
fn looks_like_tls(first: &[u8]) -> bool {
    matches!(first, [] | [21 | 22]) || matches!(first, [21 | 22, 3, ..])
}

fn looks_like_http(first: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] = [
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"PUT ",
        b"DELETE ",
        b"OPTIONS ",
        b"PATCH ",
        b"CONNECT ",
        b"PRI * ",
    ];
    METHODS.iter().any(|method| first.starts_with(method))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_told_from_broken_tls() {
        let bad = || Error::InvalidMessage(InvalidMessage::InvalidContentType);
        let http = AcceptError::from_rustls(bad(), b"GET / HTTP/1.1\r\n", false);
        assert!(matches!(http, AcceptError::NotTls { http: true }));
        let noise = AcceptError::from_rustls(bad(), b"\x00\x01\x02", false);
        assert!(matches!(noise, AcceptError::NotTls { http: false }));
        let tls = AcceptError::from_rustls(bad(), &[22, 3, 1, 0, 5], false);
        assert_eq!(tls.reason(), "protocol-error");
    }

    #[test]
    fn a_missing_certificate_is_a_name_problem_only_where_names_are_required() {
        let error = || Error::General("no server certificate chain resolved".into());
        assert_eq!(
            AcceptError::from_rustls(error(), &[22, 3, 1], true).reason(),
            "unrecognized-name"
        );
        assert_eq!(
            AcceptError::from_rustls(error(), &[22, 3, 1], false).reason(),
            "protocol-error"
        );
    }
}
