//! The ClientHello of TLS that passes through, read as far as it goes and no further.

use super::refused;
use crate::access::{By, Ending, Phase as LogPhase};
use crate::client::Channel;
use reactor::Buf;
use wire::client_hello::{self, ClientHello, HelloError};

/// Why there is no ClientHello.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum NoHello {
    #[error(transparent)]
    Bad(#[from] HelloError),
    #[error("it did not come in time")]
    Timeout,
    #[error("the client went away before")]
    Gone,
}

impl NoHello {
    pub(super) fn ending(self) -> Ending {
        match self {
            NoHello::Bad(error) => refused(error.reason(), By::Proxy, LogPhase::Request),
            NoHello::Timeout => {
                refused("client-hello-timeout", By::ClientTimeout, LogPhase::Request)
            }
            NoHello::Gone => refused("client-gone", By::Client, LogPhase::Request),
        }
    }
}

/// Room for the longest ClientHello and the headers of its records.
const HELLO_ROOM: usize = client_hello::MAX_BYTES + 1024;

/// Reads up to the end of the ClientHello, and perhaps beyond.
pub(super) async fn hello(
    channel: &Channel,
    deadline: &reactor::Deadline,
    pending: &mut Vec<u8>,
) -> Result<ClientHello, NoHello> {
    loop {
        if !pending.is_empty()
            && let Some(hello) = client_hello::parse(pending)?
        {
            return Ok(hello);
        }
        if pending.len() >= HELLO_ROOM {
            return Err(HelloError::TooLong.into());
        }
        let mut buf = Buf::take();
        match channel.try_read(&mut buf[..HELLO_ROOM - pending.len()]) {
            Ok(Some(n)) if n > 0 => pending.extend_from_slice(&buf[..n]),
            Ok(None) => {
                drop(buf);
                match deadline.guard(channel.readable()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Err(NoHello::Gone),
                    Err(_) => return Err(NoHello::Timeout),
                }
            }
            Ok(Some(_)) | Err(_) => return Err(NoHello::Gone),
        }
    }
}

/// A TLS alert's description (RFC 8446 section 6).
#[derive(Clone, Copy)]
pub(super) enum Alert {
    DecodeError = 50,
    UnrecognizedName = 112,
}

/// Sends a fatal alert in the clear, as far as the socket takes it: why a client that speaks TLS is not served.
pub(super) fn alert(channel: &Channel, alert: Alert) {
    const ALERT: u8 = 21;
    const FATAL: u8 = 2;
    // The connection is closed either way.
    let _ = channel.try_write(&[ALERT, 3, 3, 0, 2, FATAL, alert as u8]);
}
