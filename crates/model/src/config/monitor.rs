//! Monitors: how Headgate sees whether a member works.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::ClientTls;
use crate::{FieldName, FieldValue, Percent, StatusSet};

/// A monitor: what is asked of a member, how often, and how answers become a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Monitor {
    /// What is asked.
    pub probe: Probe,
    /// The TLS under it, with its settings. Always there for [`Probe::Tls`].
    pub tls: Option<ClientTls>,
    /// Time from one probe's start to the next's.
    pub interval: Duration,
    /// Time a probe may take, from connecting to its verdict.
    pub timeout: Duration,
    /// Good probes in a row that bring a member up.
    pub rise: u32,
    /// Bad probes in a row that take a member down.
    pub fall: u32,
    /// How far each interval may differ, so that probes of many members spread.
    pub jitter: Percent,
    /// The port to ask, where it is not the member's.
    pub port: Option<u16>,
}

/// What a monitor asks of a member.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// A TCP connection is accepted.
    Tcp,
    /// A TLS handshake succeeds.
    Tls,
    /// An HTTP/1.1 request is answered as expected.
    Http(HttpProbe),
    /// Bytes are sent, others are expected.
    SendExpect {
        /// Sent after connecting; may be empty.
        send: Vec<u8>,
        /// Must occur in what the member sends; empty asks for nothing.
        expect: Vec<u8>,
    },
}

/// The request of an HTTP monitor and what must come back.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpProbe {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The `Host` field; without it the member's address and port.
    pub host: Option<String>,
    /// Further fields of the request.
    pub headers: BTreeMap<FieldName, FieldValue>,
    /// What the answer must be.
    pub expect: HttpExpect,
}

config! {
    /// What the answer to an HTTP monitor must be.
    pub struct HttpExpect {
        /// Statuses that are good.
        pub status: StatusSet = StatusSet::range(200..=399),
        /// A text that must occur in the first 64 KiB of the body.
        pub body: Option<String> = None,
    }
}
