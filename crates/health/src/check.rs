//! One check of one member: connect, ask, judge, and end the connection in good order.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use memchr::memmem;
use reactor::{ConnectOptions, Tcp, timeout};
use tls::Stream;

use crate::failure::{Failure, Phase};
use crate::http;
use crate::settings::{Kind, Settings, TlsCheck};

/// Bytes of an answer that are looked at.
pub(crate) const BODY_MAX: usize = 64 << 10;

/// Bytes read in one call.
const READ: usize = 8 << 10;

/// How long a connection may take to end after its verdict.
const LINGER: Duration = Duration::from_millis(500);

/// Asks the member at `address`, within the time it has. Tells what was good about the answer or
/// what was wrong, and leaves the connection, if one stands, to be ended with [`Conn::end`].
pub(crate) async fn run(
    address: SocketAddr,
    settings: &Settings,
) -> (Result<String, Failure>, Option<Conn>) {
    let phase = Cell::new(Phase::Connecting);
    let mut conn = None;
    // Zero would be no limit at all.
    let limit = settings.timeout.max(Duration::from_millis(1));
    let result = timeout(limit, ask(address, settings, &phase, &mut conn)).await;
    let result = result.unwrap_or_else(|_| {
        Err(Failure::Timeout {
            phase: phase.get(),
            after: limit,
        })
    });
    (result, conn)
}

async fn ask(
    address: SocketAddr,
    settings: &Settings,
    phase: &Cell<Phase>,
    slot: &mut Option<Conn>,
) -> Result<String, Failure> {
    let options = ConnectOptions {
        from: settings.source.map(|ip| SocketAddr::new(ip, 0)),
    };
    let tcp = Tcp::connect(address, &options)
        .await
        .map_err(Failure::Connect)?;
    let stream = match tls_of(&settings.kind) {
        None => Stream::Plain(tcp),
        Some(tls) => {
            phase.set(Phase::Securing);
            let mut stream = tls::connect(tcp, &tls.name, &tls.context)
                .await
                .map_err(Failure::Tls)?;
            // The end of our part of the handshake may not have left yet.
            stream.flush().await.map_err(Failure::Broken)?;
            stream
        }
    };
    let conn = slot.insert(Conn(stream));
    phase.set(Phase::Asking);
    match &settings.kind {
        Kind::Tcp => Ok("connected".to_owned()),
        Kind::Tls(_) => Ok(conn
            .0
            .info()
            .map_or("connected", |info| info.version)
            .to_owned()),
        Kind::Http(check) => http::ask(conn, check, address, phase).await,
        Kind::SendExpect { send, expect, .. } => converse(conn, send, expect, phase).await,
    }
}

fn tls_of(kind: &Kind) -> Option<&TlsCheck> {
    match kind {
        Kind::Tcp => None,
        Kind::Tls(tls) => Some(tls),
        Kind::Http(check) => check.tls.as_ref(),
        Kind::SendExpect { tls, .. } => tls.as_ref(),
    }
}

async fn converse(
    conn: &mut Conn,
    send: &[u8],
    expect: &[u8],
    phase: &Cell<Phase>,
) -> Result<String, Failure> {
    conn.write_all(send).await.map_err(Failure::Broken)?;
    let mut answer = Vec::new();
    while memmem::find(&answer, expect).is_none() {
        if answer.len() >= BODY_MAX {
            return Err(Failure::AnswerLacks(expect.to_vec()));
        }
        if read_more(conn, &mut answer).await? == 0 {
            return Err(if answer.is_empty() {
                Failure::Closed
            } else {
                Failure::AnswerLacks(expect.to_vec())
            });
        }
        phase.set(Phase::Reading);
    }
    Ok("answer as expected".to_owned())
}

/// Reads what comes next behind what `buf` holds; 0 is the end.
pub(crate) async fn read_more(conn: &mut Conn, buf: &mut Vec<u8>) -> Result<usize, Failure> {
    let len = buf.len();
    buf.resize(len + READ, 0);
    let read = conn.read(&mut buf[len..]).await;
    buf.truncate(len + *read.as_ref().unwrap_or(&0));
    read.map_err(Failure::Broken)
}

/// A connection to a member.
pub(crate) struct Conn(Stream);

impl Conn {
    pub(crate) async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).await
    }

    pub(crate) async fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        self.0.write_all(buf).await
    }

    /// Ends it as its peer would like: says that nothing more comes and takes what the peer still
    /// sends, so that no reset reaches it. A peer that goes on for too long is left.
    pub(crate) async fn end(mut self) {
        let end = async {
            self.0.finish().await?;
            let mut buf = vec![0; READ];
            let mut left = BODY_MAX;
            loop {
                // What it says does not matter any more, so it is not deciphered either.
                let n = self.0.tcp().read(&mut buf).await?;
                if n == 0 || n >= left {
                    return Ok::<(), io::Error>(());
                }
                left -= n;
            }
        };
        // However it ends, it is the end.
        let _ = timeout(LINGER, end).await;
    }
}
