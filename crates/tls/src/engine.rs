//! rustls' unbuffered connections driven one step at a time, whichever side they are.
//!
//! Nothing here knows of sockets: ciphertext comes in as a slice and goes out into a buffer.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{CommonState, Error};

/// A connection of either side.
pub(crate) enum Conn {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// How a run over ciphertext ended.
pub(crate) struct Progress {
    /// Bytes of ciphertext that are done with. What is left must come again, as it is: parts of
    /// it may be decrypted already.
    pub(crate) used: usize,
    /// Bytes of plaintext put out.
    pub(crate) read: usize,
    /// Whether there may be plaintext yet that no more ciphertext is needed for.
    pub(crate) more: bool,
    /// Whether the peer's close_notify came, after which nothing counts.
    pub(crate) closed: bool,
    /// What is wrong with the ciphertext, after what was put out before it.
    pub(crate) error: Option<Error>,
}

/// What is to be encrypted.
pub(crate) enum Outgoing<'a> {
    Data(&'a [u8]),
    CloseNotify,
}

impl Conn {
    pub(crate) fn common(&self) -> &CommonState {
        match self {
            Conn::Server(conn) => conn,
            Conn::Client(conn) => conn,
        }
    }

    /// Processes ciphertext. Plaintext goes to `out`; what it has no room for goes to `spill`, or
    /// stays inside if there is none. What must be sent to the peer goes to the end of `outbox`:
    /// replies, and the alert that tells of an error.
    pub(crate) fn pump(
        &mut self,
        tls: &mut [u8],
        out: &mut [u8],
        spill: Option<&mut Vec<u8>>,
        outbox: &mut Vec<u8>,
    ) -> Progress {
        match self {
            Conn::Server(conn) => pump(conn, tls, out, spill, outbox),
            Conn::Client(conn) => pump(conn, tls, out, spill, outbox),
        }
    }

    /// Encrypts into `sealed`, with `tls` the ciphertext that waits for its rest. To be called after
    /// a `pump` that left nothing inside.
    pub(crate) fn seal(
        &mut self,
        tls: &mut [u8],
        outgoing: Outgoing<'_>,
        sealed: &mut [u8],
    ) -> Result<usize, SealError> {
        match self {
            Conn::Server(conn) => seal(conn, tls, outgoing, sealed),
            Conn::Client(conn) => seal(conn, tls, outgoing, sealed),
        }
    }

    /// Begins a change of keys: the next `pump` puts out a KeyUpdate that asks the peer for its own.
    #[cfg(test)]
    pub(crate) fn refresh_keys(&mut self) {
        let Conn::Client(conn) = self else {
            unreachable!("tests do so as clients")
        };
        match conn.process_tls_records(&mut []).state {
            Ok(ConnectionState::WriteTraffic(traffic)) => traffic.refresh_traffic_keys().unwrap(),
            _ => unreachable!("an established connection"),
        }
    }
}

/// Nothing could be encrypted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    #[error("TLS: the connection's keys are used up")]
    Exhausted,
    #[error("TLS: {0}")]
    Tls(Error),
    #[error("TLS: the connection takes no data in this state")]
    NotWritable,
}

/// What both sides' connections do, under different types.
trait Process {
    type Data;
    fn process<'c, 'i>(&'c mut self, tls: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn common(&self) -> &CommonState;
}

impl Process for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        tls: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
        self.process_tls_records(tls)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

impl Process for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        tls: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
        self.process_tls_records(tls)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

fn pump<C: Process>(
    conn: &mut C,
    tls: &mut [u8],
    out: &mut [u8],
    mut spill: Option<&mut Vec<u8>>,
    outbox: &mut Vec<u8>,
) -> Progress {
    let mut progress = Progress {
        used: 0,
        read: 0,
        more: false,
        closed: false,
        error: None,
    };
    loop {
        let UnbufferedStatus { discard, state } = conn.process(&mut tls[progress.used..]);
        // The discard counts once the state has been dealt with; nothing looks at it before.
        progress.used += discard;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(len) = traffic.peek_len() {
                    let room = out.len() - progress.read;
                    let fits = len.get() <= room;
                    if !fits && (progress.read > 0 || spill.is_none()) {
                        progress.more = true;
                        return progress;
                    }
                    let Some(Ok(record)) = traffic.next_record() else {
                        break;
                    };
                    let (now, later) = record.payload.split_at(record.payload.len().min(room));
                    out[progress.read..progress.read + now.len()].copy_from_slice(now);
                    progress.read += now.len();
                    progress.used += record.discard;
                    if let Some(spill) = &mut spill {
                        spill.extend_from_slice(later);
                    }
                }
                if !out.is_empty() && progress.read == out.len() {
                    progress.more = true;
                    return progress;
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outbox),
            // It is in the outbox, which the caller sends when nothing more is to be had.
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                progress.used = tls.len();
                progress.closed = true;
                return progress;
            }
            Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                return progress;
            }
            // Early data is never offered, nor accepted.
            Ok(_) => {
                progress.error = Some(Error::General("unexpected state".into()));
                return progress;
            }
            Err(error) => {
                progress.error = Some(error);
                take_alerts(conn, outbox);
                return progress;
            }
        }
    }
}

/// Moves the alerts that an error left behind. They are handed out before any ciphertext is looked
/// at, and only as long as there are some may the connection be asked without its ciphertext: it
/// remembers how far into that it has come.
fn take_alerts<C: Process>(conn: &mut C, outbox: &mut Vec<u8>) {
    while conn.common().wants_write() {
        match conn.process(&mut []).state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outbox),
            _ => return,
        }
    }
}

/// Appends a message. It must not be dropped: it was taken from the connection's queue.
fn encode<D>(data: &mut rustls::unbuffered::EncodeTlsData<'_, D>, outbox: &mut Vec<u8>) {
    let at = outbox.len();
    if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
        data.encode(&mut [])
    {
        outbox.resize(at + required_size, 0);
        let written = data.encode(&mut outbox[at..]).unwrap_or(0);
        outbox.truncate(at + written);
    }
}

fn seal<C: Process>(
    conn: &mut C,
    tls: &mut [u8],
    outgoing: Outgoing<'_>,
    sealed: &mut [u8],
) -> Result<usize, SealError> {
    let result = match conn.process(tls).state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => match outgoing {
            Outgoing::Data(data) => traffic.encrypt(data, sealed),
            Outgoing::CloseNotify => traffic.queue_close_notify(sealed),
        },
        Ok(_) => return Err(SealError::NotWritable),
        Err(error) => return Err(SealError::Tls(error)),
    };
    result.map_err(|error| match error {
        EncryptError::EncryptExhausted => SealError::Exhausted,
        EncryptError::InsufficientSize(_) => SealError::NotWritable,
    })
}
