//! What users of streams would notice breaking, over sockets on loopback, and the certificates for it.

mod certificates;
mod handshake;
mod openssl;
mod resumption;
mod stream;

use crate::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
};
use reactor::Tcp;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// An authority that tests sign with.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> Pem {
        pem("ca.pem", &self.0.pem())
    }

    pub(super) fn issue(&self, names: &[&str]) -> Certificate {
        self.issue_with(names, KeyPair::generate().unwrap(), |_| {})
    }

    pub(super) fn issue_with(
        &self,
        names: &[&str],
        key: KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Certificate {
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(
            DnType::CommonName,
            names.first().map_or("nobody", String::as_str),
        );
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certificate {
            chain: pem("cert.pem", &certificate.pem()),
            key: pem("key.pem", &key.serialize_pem()),
        }
    }

    /// A revocation list with this serial number.
    pub(super) fn revoke(&self, serial: u64) -> Pem {
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2020, 1, 1),
            next_update: rcgen::date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: rcgen::date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        pem("crl.pem", &list.signed_by(&self.0).unwrap().pem().unwrap())
    }
}

pub(super) fn pem(label: &str, text: &str) -> Pem {
    Pem {
        label: label.to_owned(),
        bytes: text.as_bytes().to_vec(),
    }
}

pub(super) fn server(settings: &ServerSettings) -> Arc<ServerContext> {
    ServerContext::new(settings, &Resumption::new(64).unwrap()).unwrap()
}

pub(super) fn serving(certificate: Certificate) -> ServerSettings {
    ServerSettings {
        certificates: vec![certificate],
        ..ServerSettings::default()
    }
}

pub(super) fn trusting(authority: &Authority) -> ClientSettings {
    ClientSettings {
        ca: authority.pem(),
        ..ClientSettings::default()
    }
}

/// A server of `localhost` and a client that trusts it.
pub(super) fn contexts() -> (Arc<ServerContext>, Arc<ClientContext>) {
    let authority = Authority::new("test authority");
    (
        server(&serving(authority.issue(&["localhost"]))),
        ClientContext::new(&trusting(&authority)).unwrap(),
    )
}

/// Two ends of a connection.
pub(super) fn sockets() -> (Tcp, Tcp) {
    let (a, b) = UnixStream::pair().unwrap();
    let tcp = |end| Tcp::from_fd(OwnedFd::from(end)).unwrap();
    (tcp(a), tcp(b))
}

/// A handshake's outcome at both ends, the server's first.
pub(super) async fn shake(
    server: &Arc<ServerContext>,
    client: &Arc<ClientContext>,
    name: &str,
) -> (Result<Stream, AcceptError>, Result<Stream, ConnectError>) {
    let (a, b) = sockets();
    let name = ClientContext::server_name(name).unwrap();
    let connecting = async {
        let mut stream = connect(b, &name, client).await?;
        stream.flush().await.map_err(ConnectError::Io)?;
        Ok(stream)
    };
    reactor::join(accept(a, b"", server), connecting).await
}

/// A handshake that succeeds.
pub(super) async fn pair(
    server: &Arc<ServerContext>,
    client: &Arc<ClientContext>,
) -> (Stream, Stream) {
    let (server, client) = shake(server, client, "localhost").await;
    (server.unwrap(), client.unwrap())
}

/// Sends a byte from the server to the client, and with it the tickets.
pub(super) async fn greet(server: &mut Stream, client: &mut Stream) {
    server.write_all(b"!").await.unwrap();
    let mut byte = [0];
    assert_eq!(client.read(&mut byte).await.unwrap(), 1);
}
