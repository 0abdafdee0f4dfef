//! What can be wrong with a member, in words for the person who has to mend it.

use std::io;
use std::time::Duration;

use thiserror::Error;
use tls::ConnectError;
use wire::h1::{ChunkError, HeadError};

use crate::settings::StatusSet;

/// Why a check failed.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// No connection came about.
    #[error("{}", told(.0))]
    Connect(io::Error),
    /// No TLS on it.
    #[error("{0}")]
    Tls(ConnectError),
    /// The connection broke.
    #[error("{} before the answer was complete", told(.0))]
    Broken(io::Error),
    /// Time was up.
    #[error("{phase} in {after:?}")]
    Timeout { phase: Phase, after: Duration },
    /// The member ended the connection.
    #[error("connection closed without an answer")]
    Closed,
    /// The member ended the connection within its answer.
    #[error("connection closed before the answer was complete")]
    CutShort,
    /// An answer that is no HTTP.
    #[error("not a valid HTTP response: {0}")]
    NotHttp(HeadError),
    /// A body that breaks its framing.
    #[error("not a valid chunked body: {0}")]
    Chunks(ChunkError),
    /// The wrong status.
    #[error("status {got}, expected {expected}")]
    Status { got: u16, expected: StatusSet },
    /// The body is not as it should be.
    #[error("body lacks {}", quoted(.0))]
    BodyLacks(Vec<u8>),
    /// The answer is not as it should be.
    #[error("answer lacks {}", quoted(.0))]
    AnswerLacks(Vec<u8>),
}

impl Failure {
    /// The error of this machine's own that kept the check from being made, if it was one.
    pub(crate) fn shortage(&self) -> Option<&io::Error> {
        let (Failure::Connect(error)
        | Failure::Broken(error)
        | Failure::Tls(ConnectError::Io(error))) = self
        else {
            return None;
        };
        // ENOSPC is what epoll says at its limit of watched descriptors.
        match error.raw_os_error()? {
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC => {
                Some(error)
            }
            _ => None,
        }
    }
}

/// How far a check has got, told by what has not happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Phase {
    #[error("no connection")]
    Connecting,
    #[error("no TLS handshake")]
    Securing,
    #[error("no answer")]
    Asking,
    #[error("no complete answer")]
    Reading,
}

/// An error in words, without its number where the words are plain.
fn told(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "connection reset",
        io::ErrorKind::HostUnreachable => "host unreachable",
        io::ErrorKind::NetworkUnreachable => "network unreachable",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::AddrNotAvailable => "no local address to connect from",
        _ => return error.to_string(),
    };
    text.to_owned()
}

/// Bytes as a person would write them, cut where they get long.
fn quoted(bytes: &[u8]) -> String {
    const MAX: usize = 64;
    let shown = &bytes[..bytes.len().min(MAX)];
    let dots = if bytes.len() > MAX { "..." } else { "" };
    match std::str::from_utf8(shown) {
        Ok(text) => format!("{text:?}{dots}"),
        Err(_) => format!("\"{}\"{dots}", shown.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_reads_as_a_person_would_tell_it() {
        let timeout = Failure::Timeout {
            phase: Phase::Asking,
            after: Duration::from_secs(1),
        };
        assert_eq!(timeout.to_string(), "no answer in 1s");
        let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        assert_eq!(Failure::Connect(refused).to_string(), "connection refused");
        let lacks = Failure::BodyLacks(b"ok".to_vec());
        assert_eq!(lacks.to_string(), "body lacks \"ok\"");
        let lacks = Failure::AnswerLacks(vec![0xff, b'\n']);
        assert_eq!(lacks.to_string(), "answer lacks \"\\xff\\n\"");
        let status = Failure::Status {
            got: 503,
            expected: StatusSet::default(),
        };
        assert_eq!(status.to_string(), "status 503, expected 200-399");
    }

    #[test]
    fn only_a_want_of_this_machine_is_not_the_members_fault() {
        let connect = |code| Failure::Connect(io::Error::from_raw_os_error(code));
        assert!(connect(libc::EMFILE).shortage().is_some());
        assert!(connect(libc::ENFILE).shortage().is_some());
        assert!(connect(libc::ECONNREFUSED).shortage().is_none());
        assert!(connect(libc::EHOSTUNREACH).shortage().is_none());
        assert!(Failure::Closed.shortage().is_none());
    }
}
