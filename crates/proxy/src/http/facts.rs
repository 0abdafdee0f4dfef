//! What is noted of an exchange while it goes on, for counters and the access log.

use crate::access::Ending;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Notes of one exchange.
pub(super) struct Facts {
    /// Whether it is to be logged: only then are texts copied and clocks read.
    pub(super) logged: Option<Box<Logged>>,
    pub(super) status: u16,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) attempts: u32,
    pub(super) member: Option<Arc<balance::Member>>,
    pub(super) pool: Option<model::Name>,
    pub(super) ending: Ending,
    /// Who the client is, where a trusted proxy stands before it.
    pub(super) client_ip: Option<IpAddr>,
    /// The request's id, where it has one and is logged.
    pub(super) request_id: String,
    /// Bytes relayed after an upgrade, from and to the client, which were counted as they went.
    pub(super) relayed: (u64, u64),
    /// Whether the final response to the client has begun.
    pub(super) begun: bool,
    /// Whether an interim response came before it.
    pub(super) interim: bool,
    /// Whether the client takes the connection's end for the response's.
    pub(super) until_close: bool,
    /// Whether the client's connection can go on after a refusal: the request was read whole.
    pub(super) settled: bool,
    /// Whether the client's connection is to be reset.
    pub(super) reset: bool,
}

/// Texts and times of an exchange that is logged.
pub(super) struct Logged {
    pub(super) at: SystemTime,
    pub(super) begin: Instant,
    pub(super) method: Vec<u8>,
    pub(super) target: Vec<u8>,
    pub(super) host: Vec<u8>,
    pub(super) user_agent: Vec<u8>,
    pub(super) referer: Vec<u8>,
    pub(super) version: wire::h1::Version,
    pub(super) request: Duration,
    pub(super) queue: Duration,
    pub(super) connect: Duration,
    pub(super) response: Duration,
    mark: Instant,
}

impl Logged {
    pub(super) fn new() -> Box<Self> {
        let now = Instant::now();
        Box::new(Logged {
            at: SystemTime::now(),
            begin: now,
            method: Vec::new(),
            target: Vec::new(),
            host: Vec::new(),
            user_agent: Vec::new(),
            referer: Vec::new(),
            version: wire::h1::Version::default(),
            request: Duration::ZERO,
            queue: Duration::ZERO,
            connect: Duration::ZERO,
            response: Duration::ZERO,
            mark: now,
        })
    }
}

impl Facts {
    pub(super) fn new() -> Self {
        Facts {
            logged: None,
            status: 0,
            bytes_in: 0,
            bytes_out: 0,
            attempts: 0,
            member: None,
            pool: None,
            ending: Ending::default(),
            client_ip: None,
            request_id: String::new(),
            relayed: (0, 0),
            begun: false,
            interim: false,
            until_close: false,
            settled: false,
            reset: false,
        }
    }

    /// The client's address for the log; a port is known only of who connected.
    pub(super) fn client(&self, peer: SocketAddr) -> SocketAddr {
        match self.client_ip {
            Some(ip) if ip != peer.ip() => SocketAddr::new(ip, 0),
            _ => peer,
        }
    }

    /// Ends a phase: its time goes where `of` says, if anybody will read it.
    pub(super) fn phase(&mut self, of: impl FnOnce(&mut Logged) -> &mut Duration) {
        if let Some(logged) = &mut self.logged {
            let now = Instant::now();
            let took = now - logged.mark;
            logged.mark = now;
            *of(logged) += took;
        }
    }
}
