//! What comes before the first byte of a virtual's own protocol: the PROXY header and the TLS handshake of the client,
//! and the PROXY header that a member is sent. Whether the client may come in is left to `accept`.

use crate::accept::Counted;
use crate::client::{Channel, Client};
use crate::counters::add;
use crate::rules::{Ruled, Stop, facts_of};
use crate::snapshot::Virtual;
use crate::worker::Worker;
use ::rules::event::Event;
use reactor::{Deadline, Tcp};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tls::{AcceptError, CertificateFacts, Stream};
use tracing::debug;
use wire::proxy_protocol::{self as proxy, ProxyError, ProxyHeader, ProxyTls};

/// Meets a client: reads its PROXY header where one may come, and shakes hands where TLS ends here. `None`: it is not
/// served, which has been counted.
pub(crate) async fn meet(
    worker: &Rc<Worker>,
    tcp: Tcp,
    peer: SocketAddr,
    local: SocketAddr,
    service: Arc<Virtual>,
    counted: Counted,
) -> Option<Client> {
    let deadline = Deadline::new();
    let mut arrived = Arrived {
        peer,
        local,
        pending: Vec::new(),
    };
    if service.config.proxy_protocol.is_some() && service.proxy_from.contains(peer.ip()) {
        deadline.set(service.config.timeouts.tls_handshake);
        // Boxed, so that connections without one are small.
        let greeted = Box::pin(greeted(worker, &tcp, &service, &deadline, &mut arrived));
        if let Err(error) = greeted.await {
            let reason = error.reason();
            debug!(virtual = %service.name, %peer, reason, %error, "no PROXY header");
            service.state.counters.refuse(reason);
            return None;
        }
    }
    let rules = Ruled::new(worker, &service, arrived.peer, arrived.local, tcp.control());
    if rules.is_none() && service.rules.is_some() {
        service.state.counters.refuse("rules-not-loaded");
        return None;
    }
    let tls = service.tls.as_ref();
    if let Some(rules) = rules.as_deref().filter(|_| tls.is_some()) {
        let begun = Box::pin(begin(
            worker,
            &tcp,
            &service,
            &deadline,
            rules,
            &mut arrived,
        ));
        if let Err(stop) = begun.await {
            service.state.counters.refuse(stop.reason());
            stop.mark(&tcp);
            return None;
        }
    }
    let stream = match tls {
        None => Stream::Plain(tcp),
        Some(context) => {
            deadline.set(service.config.timeouts.tls_handshake);
            let pending = std::mem::take(&mut arrived.pending);
            let accepted = Box::pin(handshake(
                worker, tcp, &service, context, &deadline, &pending,
            ));
            match accepted.await {
                Ok(stream) => stream,
                Err(error) => {
                    let (peer, reason) = (arrived.peer, error.reason());
                    debug!(virtual = %service.name, %peer, reason, %error, "no TLS");
                    if let Some(rules) = rules {
                        rules.close(worker).await;
                    }
                    return None;
                }
            }
        }
    };
    deadline.clear();
    if let Some(rules) = rules.as_deref().filter(|_| tls.is_some()) {
        let shaken = Box::pin(shaken(worker, &stream, &service, rules));
        if let Err(stop) = shaken.await {
            service.state.counters.refuse(stop.reason());
            stop.mark(stream.tcp());
            rules.close(worker).await;
            return None;
        }
    }
    Some(Client {
        rules,
        channel: Channel::new(stream),
        peer: arrived.peer,
        local: arrived.local,
        service,
        deadline,
        pending: arrived.pending,
        _counted: counted,
    })
}

/// The PROXY header for a connection to a member, on behalf of this client; empty where none is to be sent. It goes
/// before all else, also before a TLS handshake with the member.
pub(crate) fn proxy_header(client: &Client, version: &model::ProxyProtocol) -> Vec<u8> {
    let mut out = Vec::new();
    let addresses = Some((client.peer, client.local));
    match version {
        model::ProxyProtocol::Off => {}
        model::ProxyProtocol::V1 => proxy::encode_v1(addresses, &mut out),
        model::ProxyProtocol::V2 => {
            let header = client.channel.with(|stream| ProxyHeader {
                addresses,
                ..stream.info().map(tls_facts).unwrap_or_default()
            });
            proxy::encode_v2(&header, &mut out);
        }
    }
    out
}

/// Runs the rules that come before a TLS handshake.
async fn begin(
    worker: &Worker,
    tcp: &Tcp,
    service: &Virtual,
    deadline: &Deadline,
    rules: &Ruled,
    arrived: &mut Arrived,
) -> Result<(), Stop> {
    let gone = || is_gone(tcp);
    rules.accept(worker, &gone).await?;
    if !rules.wants(Event::ClientsslClienthello) && !rules.wants(Event::ClientsslHandshake) {
        return Ok(());
    }
    deadline.set(service.config.timeouts.tls_handshake);
    let mut bytes = std::mem::take(&mut arrived.pending);
    // What is no ClientHello, or does not come, is for the handshake to refuse.
    while let Ok(None) = wire::client_hello::parse(&bytes)
        && bytes.len() < wire::client_hello::MAX_BYTES
    {
        let had = bytes.len();
        bytes.resize(had + READ, 0);
        let read = deadline.guard(tcp.read(&mut bytes[had..])).await;
        let n = read.map_or(0, |n| n.unwrap_or(0));
        bytes.truncate(had + n);
        if n == 0 {
            break;
        }
    }
    rules.flow().client_hello = Some(bytes.as_slice().into());
    arrived.pending = bytes;
    rules
        .raise(worker, Event::ClientsslClienthello, &gone)
        .await
}

/// Whether the client is known to have gone; else the current task is woken when it becomes known.
fn is_gone(tcp: &Tcp) -> bool {
    // Where it can't be known, it isn't.
    let _ = tcp.watch();
    tcp.poll_broken().is_ready()
}

/// Runs the rules that come after a TLS handshake.
async fn shaken(
    worker: &Worker,
    stream: &Stream,
    service: &Virtual,
    rules: &Ruled,
) -> Result<(), Stop> {
    let gone = || is_gone(stream.tcp());
    rules.flow().client_tls = stream.info().map(|info| facts_of(&info));
    let asks = |profile: &model::TlsProfile| profile.client_auth.mode != model::ClientAuthMode::Off;
    let snapshot = worker.snapshot();
    let profile = service.config.tls.as_ref();
    let profile = profile.and_then(|name| snapshot.config.tls_profiles.get(name.as_str()));
    if profile.is_some_and(asks) {
        rules
            .raise(worker, Event::ClientsslClientcert, &gone)
            .await?;
    }
    rules.raise(worker, Event::ClientsslHandshake, &gone).await
}

/// What is known of a connection before its own protocol begins.
struct Arrived {
    peer: SocketAddr,
    local: SocketAddr,
    pending: Vec<u8>,
}

/// Why a PROXY header did not come.
#[derive(Debug, thiserror::Error)]
enum GreetError {
    #[error(transparent)]
    Header(#[from] ProxyError),
    #[error("the PROXY header did not come in time")]
    Timeout,
    #[error("the peer went away before its PROXY header")]
    Gone,
}

impl GreetError {
    fn reason(&self) -> &'static str {
        match self {
            GreetError::Header(error) => error.reason(),
            GreetError::Timeout => "proxy-header-timeout",
            GreetError::Gone => "client-gone",
        }
    }
}

/// Why no TLS connection came about.
#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    #[error(transparent)]
    Accept(#[from] AcceptError),
    #[error("the handshake took too long")]
    Timeout,
}

impl HandshakeError {
    fn reason(&self) -> &'static str {
        match self {
            HandshakeError::Accept(error) => error.reason(),
            HandshakeError::Timeout => "tls-timeout",
        }
    }
}

/// How much is read at once for a header; more would only have to be handed on.
const READ: usize = 4096;

/// Reads a PROXY header and believes it. What follows it is pending.
async fn greeted(
    worker: &Worker,
    tcp: &Tcp,
    service: &Virtual,
    deadline: &Deadline,
    arrived: &mut Arrived,
) -> Result<(), GreetError> {
    let required = service
        .config
        .proxy_protocol
        .as_ref()
        .is_some_and(|proxy| proxy.required);
    let mut bytes = worker.take_vec();
    loop {
        match proxy::parse(&bytes) {
            Ok(None) => {}
            Ok(Some((header, len))) => {
                if !header.local
                    && let Some((peer, local)) = header.addresses
                {
                    (arrived.peer, arrived.local) = (peer, local);
                }
                bytes.drain(..len);
                break;
            }
            Err(ProxyError::NotProxy) if !required => break,
            Err(error) => return Err(error.into()),
        }
        let had = bytes.len();
        bytes.resize(had + READ, 0);
        let read = deadline.guard(tcp.read(&mut bytes[had..])).await;
        bytes.truncate(
            had + *read
                .as_ref()
                .ok()
                .and_then(|n| n.as_ref().ok())
                .unwrap_or(&0),
        );
        match read {
            // A peer that need not send a header, and has not spoken, may wait for the member's first word.
            Err(_) if had == 0 && !required => break,
            Err(_) => return Err(GreetError::Timeout),
            Ok(Ok(n)) if n > 0 => {}
            Ok(_) => return Err(GreetError::Gone),
        }
    }
    arrived.pending = bytes;
    Ok(())
}

async fn handshake(
    worker: &Worker,
    tcp: Tcp,
    service: &Virtual,
    context: &Arc<tls::ServerContext>,
    deadline: &Deadline,
    pending: &[u8],
) -> Result<Stream, HandshakeError> {
    let counters = &service.state.counters;
    let cells = counters.of(worker.index);
    let accepted = match deadline.guard(tls::accept(tcp, pending, context)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(HandshakeError::Timeout),
    };
    match &accepted {
        Ok(stream) => {
            add(&cells.tls_handshakes, 1);
            if stream.info().is_some_and(|info| info.resumed) {
                add(&cells.tls_resumed, 1);
            }
        }
        Err(error) => {
            add(&cells.tls_failed, 1);
            counters.refuse(error.reason());
        }
    }
    accepted
}

/// What the client's TLS is to a member (PP2_TYPE_ALPN, AUTHORITY and SSL).
fn tls_facts(info: tls::TlsInfo<'_>) -> ProxyHeader {
    /// The client came over TLS; it showed a certificate on this connection, in this session.
    const TLS: u8 = 1;
    const CERTIFICATE: u8 = 2 | 4;
    let certificate = info.peer_certificates.first();
    let facts = certificate.and_then(|der| CertificateFacts::parse(der).ok());
    ProxyHeader {
        alpn: info.alpn.map(ToOwned::to_owned),
        authority: info.sni.map(ToOwned::to_owned),
        tls: Some(ProxyTls {
            client: if certificate.is_some() {
                TLS | CERTIFICATE
            } else {
                TLS
            },
            // One that does not verify is not let in; 0 says that there was one.
            verify: u32::from(certificate.is_none()),
            version: Some(info.version.to_owned()),
            common_name: facts.and_then(|facts| facts.common_name),
            cipher: Some(info.suite.to_owned()),
            ..ProxyTls::default()
        }),
        ..ProxyHeader::default()
    }
}
