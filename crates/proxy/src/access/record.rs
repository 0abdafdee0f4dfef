//! What is known of an exchange or a TCP connection when it is over.

use std::net::SocketAddr;
use std::time::SystemTime;
use tls::{CertificateFacts, TlsInfo};

/// What an access log says of an exchange or a TCP connection. Empty or 0 is what is not known.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When the request began, or the connection was accepted.
    pub time: SystemTime,
    /// The virtual's name.
    pub virtual_name: &'a str,
    /// The client.
    pub client: SocketAddr,
    /// Where the client connected to.
    pub local: SocketAddr,
    /// What was spoken with the client: `http`, `https`, `tcp`, `tls`, `tls-passthrough`.
    pub protocol: &'a str,
    /// The request's method.
    pub method: &'a [u8],
    /// The request's target, as it came.
    pub target: &'a [u8],
    /// The host that was asked for; of TLS that passes through, the server name.
    pub host: &'a [u8],
    /// The request's version: `HTTP/1.1`.
    pub version: &'a str,
    /// The response's status.
    pub status: u16,
    /// Bytes from the client: of the exchange with its heads, or of the connection.
    pub bytes_in: u64,
    /// Bytes to the client: likewise.
    pub bytes_out: u64,
    /// The pool's name.
    pub pool: Option<&'a str>,
    /// The member's name.
    pub member: Option<&'a str>,
    /// How often it was sent to a member.
    pub attempts: u32,
    /// The request's id.
    pub request_id: &'a str,
    /// What the client's TLS agreed on; its certificate is who it is.
    pub tls: Option<&'a TlsInfo<'a>>,
    /// The request's `User-Agent`.
    pub user_agent: &'a [u8],
    /// The request's `Referer`.
    pub referer: &'a [u8],
    /// Microseconds from the request's first byte to the end of its head.
    pub request_us: u64,
    /// Microseconds in the queue for a member.
    pub queue_us: u64,
    /// Microseconds of connecting to the member, with its TLS handshake.
    pub connect_us: u64,
    /// Microseconds from the request sent to the head of the response.
    pub response_us: u64,
    /// Microseconds of all of it, from the request's first byte or the accept.
    pub total_us: u64,
    /// How it ended.
    pub ending: Ending,
}

impl<'a> Record<'a> {
    /// A record of which nothing but this is known.
    pub fn new(
        time: SystemTime,
        virtual_name: &'a str,
        client: SocketAddr,
        local: SocketAddr,
    ) -> Self {
        Record {
            time,
            virtual_name,
            client,
            local,
            protocol: "",
            method: b"",
            target: b"",
            host: b"",
            version: "",
            status: 0,
            bytes_in: 0,
            bytes_out: 0,
            pool: None,
            member: None,
            attempts: 0,
            request_id: "",
            tls: None,
            user_agent: b"",
            referer: b"",
            request_us: 0,
            queue_us: 0,
            connect_us: 0,
            response_us: 0,
            total_us: 0,
            ending: Ending::default(),
        }
    }

    /// Who the client is: the subject of its certificate.
    pub fn identity(&self) -> Option<String> {
        let certificate = self.tls?.peer_certificates.first()?;
        let facts = CertificateFacts::parse(certificate).ok()?;
        Some(facts.subject)
    }
}

/// How an exchange or connection ended; see the table in [`crate::access`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Who ended it.
    pub who: By,
    /// In which phase.
    pub phase: Phase,
    /// Why, in a fixed word; the same by which refusals are counted.
    pub reason: Option<&'static str>,
}

impl Ending {
    /// In order.
    pub const DONE: Ending = Ending {
        who: By::Nobody,
        phase: Phase::Done,
        reason: None,
    };

    /// An ending without a reason of its own.
    pub const fn new(who: By, phase: Phase) -> Self {
        Ending {
            who,
            phase,
            reason: None,
        }
    }

    /// The same, with its reason.
    pub const fn because(self, reason: &'static str) -> Self {
        Ending {
            reason: Some(reason),
            ..self
        }
    }

    /// Whether it is an error of Headgate's own, which sampling never leaves out: a refusal, a lack of resources, no
    /// member.
    pub const fn is_own_error(self) -> bool {
        matches!(self.who, By::Proxy | By::Resources | By::Internal)
            || matches!(self.phase, Phase::Queue | Phase::Connect)
    }

    /// The two letters.
    pub const fn letters(self) -> [u8; 2] {
        [self.who as u8, self.phase as u8]
    }
}

/// Who ended an exchange or connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum By {
    /// Nobody: it ended in order.
    #[default]
    Nobody = b'-',
    /// The client closed or broke it.
    Client = b'C',
    /// The member closed, broke or refused it.
    Member = b'S',
    /// Headgate: the protocol was broken, or a rule says so.
    Proxy = b'P',
    /// The client was silent for too long.
    ClientTimeout = b'c',
    /// The member was silent for too long.
    MemberTimeout = b's',
    /// A limit or lack of resources.
    Resources = b'R',
    /// Headgate answered itself: redirects, fixed responses.
    Local = b'L',
    /// The operator: a drain, a stop.
    Killed = b'K',
    /// The member was taken out of service.
    Down = b'D',
    /// An error within Headgate.
    Internal = b'I',
}

/// The phase in which an exchange or connection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// All was done.
    #[default]
    Done = b'-',
    /// The request was being read; on TCP, what comes before the data.
    Request = b'R',
    /// Waiting for a member.
    Queue = b'Q',
    /// Connecting to the member.
    Connect = b'C',
    /// Waiting for the response's head.
    Header = b'H',
    /// Data was passing.
    Data = b'D',
    /// The last data was on its way to the client.
    Last = b'L',
    /// Held back on purpose.
    Tarpit = b'T',
}
