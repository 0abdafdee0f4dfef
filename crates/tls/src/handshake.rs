//! Handshakes, of either side.

use crate::client::ClientContext;
use crate::engine::Conn;
use crate::error::{AcceptError, ConnectError};
use crate::server::ServerContext;
use crate::session::{Fault, SCRATCH, Step, TlsStream};
use crate::stream::Stream;
use reactor::Tcp;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{Error, ProtocolVersion};
use rustls_pki_types::ServerName;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;

/// A fatal alert unrecognized_name as a record in the clear (RFC 6066 section 3).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// What a browser is told that speaks HTTP to a TLS port.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\
    Content-Type: text/plain\r\nContent-Length: 44\r\n\r\n\
    This port speaks TLS: use https:// instead.\n";

/// Shakes hands with a client. `first` is what was read from the socket already, 64 KiB at most.
///
/// It takes as long as the client does: the caller sets the limit by dropping the future.
/// TLS 1.3's session tickets leave together with the first data or the close.
pub async fn accept(
    tcp: Tcp,
    first: &[u8],
    server: &Arc<ServerContext>,
) -> Result<Stream, AcceptError> {
    if first.len() > SCRATCH / 2 {
        return Err(AcceptError::Protocol(Error::PeerSentOversizedRecord));
    }
    let conn = UnbufferedServerConnection::new(Arc::clone(&server.config))
        .map_err(AcceptError::Protocol)?;
    let mut tls = Box::new(TlsStream::new(
        tcp,
        Conn::Server(conn),
        server.lenient_close,
    ));
    tls.inbox.extend_from_slice(first);
    let mut seen = first[..first.len().min(16)].to_vec();
    match shake(&mut tls, &mut seen).await {
        Ok(()) => {}
        Err(Fault::Gone) => return Err(AcceptError::Gone),
        Err(Fault::Io(error)) => return Err(AcceptError::Io(error)),
        Err(Fault::Tls(error)) => {
            let error = AcceptError::from_rustls(error, &seen, server.require_sni);
            match error {
                AcceptError::NotTls { http } => {
                    tls.outbox = if http {
                        PLAIN_HTTP.to_vec()
                    } else {
                        Vec::new()
                    };
                }
                AcceptError::UnrecognizedName => tls.outbox = UNRECOGNIZED_NAME.to_vec(),
                _ => {}
            }
            give_up(&mut tls);
            return Err(error);
        }
    }
    if tls.conn.common().protocol_version() == Some(ProtocolVersion::TLSv1_3) {
        tls.tickets_wait = true;
    } else {
        // The client waits for the server's Finished.
        tls.push().map_err(AcceptError::Io)?;
    }
    Ok(Stream::Tls(tls))
}

/// Shakes hands with a server, which `name` is asked for and verified by, unless the context names
/// another. The connection may still be on its way ([`Tcp::start_connect`]).
///
/// The last message of the handshake leaves with the first data, or with the first wait for some.
pub async fn connect(
    tcp: Tcp,
    name: &ServerName<'static>,
    client: &Arc<ClientContext>,
) -> Result<Stream, ConnectError> {
    let name = client.server_name.as_ref().unwrap_or(name).clone();
    let conn = UnbufferedClientConnection::new(Arc::clone(&client.config), name)
        .map_err(ConnectError::Protocol)?;
    let mut tls = Box::new(TlsStream::new(
        tcp,
        Conn::Client(conn),
        client.lenient_close,
    ));
    let mut seen = Vec::new();
    match shake(&mut tls, &mut seen).await {
        Ok(()) => Ok(Stream::Tls(tls)),
        Err(Fault::Gone) => Err(ConnectError::Gone),
        Err(Fault::Io(error)) => Err(ConnectError::Io(error)),
        Err(Fault::Tls(error)) => {
            let error = ConnectError::from_rustls(error, &seen);
            if !matches!(error, ConnectError::NotTls) {
                give_up(&mut tls);
            }
            Err(error)
        }
    }
}

async fn shake(tls: &mut TlsStream, seen: &mut Vec<u8>) -> Result<(), Fault> {
    while tls.step(seen)? == Step::Wait {
        while !tls.push().map_err(fault)? {
            tls.tcp.writable().await.map_err(fault)?;
        }
        tls.tcp.readable().await.map_err(fault)?;
    }
    Ok(())
}

/// Sends the alert that tells why, and the end.
fn give_up(tls: &mut TlsStream) {
    // The peer may be gone by now, which is as well.
    let _ = tls.push();
    let _ = tls.tcp.shutdown(Shutdown::Write);
}

fn fault(error: io::Error) -> Fault {
    if crate::error::is_gone(&error) {
        Fault::Gone
    } else {
        Fault::Io(error)
    }
}
