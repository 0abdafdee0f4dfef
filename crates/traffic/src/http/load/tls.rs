//! The client's half of TLS 1.3, as cheap as it can be: one suite, one group with a key made once, no verification, records
//! decrypted where they lie. It measures servers and must never be used to talk to anybody.

use super::super::{Error, sys};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup, aws_lc_rs as provider};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, DigitallySignedStruct, NamedGroup, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use socket2::Socket;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

/// What all sessions have in common.
pub(super) struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// One connection's TLS.
pub(super) struct Session {
    connection: UnbufferedClientConnection,
    /// The beginning of a record whose rest has not arrived.
    held: Vec<u8>,
    /// To be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    established: bool,
}

/// What to do once the handshake is over.
#[derive(Clone, Copy, Debug)]
pub(super) enum Want<'a> {
    Nothing,
    Send(&'a [u8]),
    Close,
}

impl Client {
    /// `host` is the name to ask for; without a usable one it is the address.
    pub(super) fn new(host: &str, address: SocketAddr) -> Result<Self, Error> {
        let mut crypto = provider::default_provider();
        crypto.kx_groups = vec![&REUSED_X25519];
        crypto.cipher_suites = vec![provider::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let mut config = ClientConfig::builder_with_provider(Arc::new(crypto))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        let bare = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let name = ServerName::try_from(bare.to_owned()).unwrap_or_else(|_| address.ip().into());
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }
}

impl Session {
    pub(super) fn new(client: &Client) -> io::Result<Self> {
        let connection =
            UnbufferedClientConnection::new(Arc::clone(&client.config), client.name.clone())
                .map_err(io::Error::other)?;
        Ok(Self {
            connection,
            held: Vec::new(),
            out: Vec::new(),
            sent: 0,
            established: false,
        })
    }

    pub(super) fn is_established(&self) -> bool {
        self.established
    }

    /// Put back at the beginning of `buffer` what was kept of an unfinished record; says how much.
    pub(super) fn restore(&mut self, buffer: &mut [u8]) -> usize {
        let n = self.held.len();
        buffer[..n].copy_from_slice(&self.held);
        self.held.clear();
        n
    }

    /// Take in records, hand out their content, and do what is wanted as soon as the handshake allows it.
    pub(super) fn advance(
        &mut self,
        mut wire: &mut [u8],
        want: Want<'_>,
        mut content: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        loop {
            let UnbufferedStatus {
                mut discard, state, ..
            } = self.connection.process_tls_records(wire);
            let mut finished = false;
            match state.map_err(io::Error::other)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(io::Error::other)?;
                        discard += record.discard;
                        content(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => append(&mut self.out, 1024, |out| {
                    data.encode(out).map_err(|error| match error {
                        EncodeError::InsufficientSize(size) => Short::By(size.required_size),
                        error => Short::Failed(io::Error::other(error)),
                    })
                })?,
                // What is to be transmitted leaves together with what follows.
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::WriteTraffic(mut traffic) => {
                    self.established = true;
                    let encrypted = |error| match error {
                        EncryptError::InsufficientSize(size) => Short::By(size.required_size),
                        error => Short::Failed(io::Error::other(error)),
                    };
                    match want {
                        Want::Nothing => {}
                        Want::Send(data) => append(&mut self.out, data.len() + 64, |out| {
                            traffic.encrypt(data, out).map_err(encrypted)
                        })?,
                        Want::Close => append(&mut self.out, 64, |out| {
                            traffic.queue_close_notify(out).map_err(encrypted)
                        })?,
                    }
                    finished = true;
                }
                ConnectionState::BlockedHandshake
                | ConnectionState::PeerClosed
                | ConnectionState::Closed => finished = true,
                state => return Err(io::Error::other(format!("unexpected state {state:?}"))),
            }
            wire = &mut wire[discard..];
            if finished {
                break;
            }
        }
        self.held.extend_from_slice(wire);
        Ok(())
    }

    /// Send what is to be sent.
    pub(super) fn send(&mut self, socket: &Socket) -> io::Result<()> {
        while self.sent < self.out.len() {
            self.sent += sys::send(socket, &self.out[self.sent..])?;
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }
}

/// Why something could not be written.
enum Short {
    By(usize),
    Failed(io::Error),
}

/// Let `write` write behind what `out` holds, with `room` bytes at first and as many as it asks for then.
fn append(
    out: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Short>,
) -> io::Result<()> {
    let at = out.len();
    let mut room = room;
    loop {
        out.resize(at + room, 0);
        match write(&mut out[at..]) {
            Ok(n) => {
                out.truncate(at + n);
                return Ok(());
            }
            Err(Short::By(required)) if required > room => room = required,
            Err(Short::By(_)) => {
                return Err(io::Error::other("TLS wants no room that it can be given"));
            }
            Err(Short::Failed(error)) => return Err(error),
        }
    }
}

/// X25519 with one key pair for all handshakes: the server pays for two operations, this client for one.
#[derive(Debug)]
struct ReusedX25519;

static REUSED_X25519: ReusedX25519 = ReusedX25519;

struct Pair {
    private: PrivateKey,
    public: Vec<u8>,
}

struct Exchange(&'static Pair);

fn pair() -> Option<&'static Pair> {
    static PAIR: OnceLock<Option<Pair>> = OnceLock::new();
    let pair = PAIR.get_or_init(|| {
        let private = PrivateKey::generate(&agreement::X25519).ok()?;
        let public = private.compute_public_key().ok()?.as_ref().to_vec();
        Some(Pair { private, public })
    });
    pair.as_ref()
}

impl SupportedKxGroup for ReusedX25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        let pair = pair().ok_or(rustls::Error::FailedToGetRandomBytes)?;
        Ok(Box::new(Exchange(pair)))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, rustls::Error> {
        let peer = UnparsedPublicKey::new(&agreement::X25519, peer);
        let failed = rustls::Error::General("the key exchange failed".to_owned());
        agreement::agree(&self.0.private, peer, failed, |secret| {
            Ok(SharedSecret::from(secret))
        })
    }

    fn pub_key(&self) -> &[u8] {
        &self.0.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange")
    }
}

/// Every certificate and every signature is taken.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::RSA_PSS_SHA256,
        ]
    }
}
