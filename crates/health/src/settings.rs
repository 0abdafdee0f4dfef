//! What is asked of a member, how often, and what counts as a good answer.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tls::{ClientContext, ServerName};

use crate::state::Thresholds;

/// A monitor. Two that are equal ask the same; a target whose settings stay equal is not disturbed.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What is asked.
    pub kind: Kind,
    /// Time from one check's start to the next's.
    pub interval: Duration,
    /// Time a whole check may take, from connecting to the last byte that is needed. At least 1 ms.
    pub timeout: Duration,
    /// Good results in a row that bring a member up.
    pub rise: u32,
    /// Bad results in a row that take it down.
    pub fall: u32,
    /// How much longer or shorter an interval may be, as a part of it from 0 to 1.
    pub jitter: f32,
    /// The port to ask, where it is not the member's.
    pub port: Option<u16>,
    /// The local address to ask from.
    pub source: Option<IpAddr>,
}

impl Settings {
    /// `kind` every 5 s with 10 % of jitter, 2 s each, up after 2 good ones, down after 3 bad ones.
    pub fn new(kind: Kind) -> Self {
        Settings {
            kind,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            rise: 2,
            fall: 3,
            jitter: 0.1,
            port: None,
            source: None,
        }
    }

    pub(crate) fn thresholds(&self) -> Thresholds {
        Thresholds {
            rise: self.rise,
            fall: self.fall,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A TCP connection is accepted.
    Tcp,
    /// A TLS handshake succeeds, as far as the server's side of it tells.
    Tls(TlsCheck),
    /// An HTTP/1.1 request is answered as expected.
    Http(HttpCheck),
    /// Bytes are sent, others come back.
    SendExpect {
        /// Sent after connecting; may be empty.
        send: Vec<u8>,
        /// Must occur in the first 64 KiB that come; empty asks for nothing.
        expect: Vec<u8>,
        /// The TLS under it.
        tls: Option<TlsCheck>,
    },
}

/// The TLS under a check.
#[derive(Clone, Debug)]
pub struct TlsCheck {
    /// What is asked of the certificate, and shown of ours. One that remembers no sessions verifies
    /// the certificate each time; where one is resumed, that is left out.
    pub context: Arc<ClientContext>,
    /// The name that is asked for, where the context has none of its own.
    pub name: ServerName<'static>,
}

impl PartialEq for TlsCheck {
    /// Two contexts are the same when they are one: what they were made of is not compared.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.context, &other.context) && self.name == other.name
    }
}

/// An HTTP request and what must come back. The parts of the request go on the wire as they are:
/// that they hold no white space or line ends where none may be is for the configuration to see to.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpCheck {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The `Host` field; without it the address and port that are asked.
    pub host: Option<String>,
    /// Further fields. A `User-Agent` here takes the place of `headgate`.
    pub headers: Vec<(String, String)>,
    /// Good statuses.
    pub expect_status: StatusSet,
    /// Must occur in the first 64 KiB of the body.
    pub expect_body: Option<Vec<u8>>,
    /// The TLS under it.
    pub tls: Option<TlsCheck>,
}

impl Default for HttpCheck {
    /// `GET /`, any status from 200 to 399.
    fn default() -> Self {
        HttpCheck {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            host: None,
            headers: Vec::new(),
            expect_status: StatusSet::default(),
            expect_body: None,
            tls: None,
        }
    }
}

/// HTTP statuses, as ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSet(Vec<RangeInclusive<u16>>);

impl StatusSet {
    /// Those in any of the ranges.
    pub fn new(ranges: impl IntoIterator<Item = RangeInclusive<u16>>) -> Self {
        StatusSet(ranges.into_iter().collect())
    }

    /// Whether it is one of them.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }
}

impl Default for StatusSet {
    /// 200 to 399.
    fn default() -> Self {
        StatusSet::new([200..=399])
    }
}

impl fmt::Display for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.0.iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            match (range.start(), range.end()) {
                (start, end) if start == end => write!(f, "{comma}{start}")?,
                (start, end) => write!(f, "{comma}{start}-{end}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_as_they_were_configured() {
        let set = StatusSet::new([200..=399, 404..=404]);
        assert_eq!(set.to_string(), "200-399, 404");
        assert!(set.contains(200) && set.contains(399) && set.contains(404));
        assert!(!set.contains(199) && !set.contains(400) && !set.contains(503));
    }
}
