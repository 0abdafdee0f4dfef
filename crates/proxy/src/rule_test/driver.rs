//! Raises events in the order in which a connection meets them, without a network. HTTP exchanges are in `exchange`, members
//! in `choose`; what came of it all is gathered for `judge`.

use super::host::DryHost;
use super::parse::default_ends;
use super::plan::{Connect, Protocol, Setup, Tls};
use rules::event::{Event, Side};
use rules::flow::{Ended, Ends, Flow, Held, Http, Steering, TlsFacts, Transport};
use rules::value::Value;
use rules::{Connection, Engine, Failure, Program, Step};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How often one event may collect, choose or send anew before the driver gives up.
pub(super) const TURNS: usize = 32;

/// A virtual with its rules, and one client.
pub(super) struct Driver {
    pub(super) engine: Engine,
    pub(super) program: Rc<Program>,
    pub(super) host: DryHost,
    pub(super) setup: Setup,
    pub(super) connection: Option<Box<Connection>>,
    /// What a rule has said of members before requests came: it holds for each of them.
    pub(super) lasting: Steering,
    /// The member's connection stands, to this address.
    pub(super) upstream: Option<SocketAddr>,
    /// HTTP was left on this connection.
    pub(super) relayed: bool,
    pub(super) seen: Seen,
}

/// What was seen since the last step that did something; what ends stays seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) events: Vec<Event>,
    pub(super) response: Option<Head>,
    pub(super) request: Option<Head>,
    pub(super) failures: Vec<Failure>,
    pub(super) ended: Option<&'static str>,
    pub(super) pool: Option<String>,
    pub(super) member: Option<(String, SocketAddr)>,
    pub(super) to_client: Vec<u8>,
    pub(super) to_member: Vec<u8>,
}

/// A head as it went out, and its body.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub(super) start: [String; 3],
    pub(super) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

impl Driver {
    pub(super) fn new(
        mut engine: Engine,
        program: Rc<Program>,
        mut host: DryHost,
        setup: Setup,
    ) -> Self {
        let failures = engine.init(&program, &mut host);
        Driver {
            engine,
            program,
            host,
            setup,
            connection: None,
            lasting: Steering::default(),
            upstream: None,
            relayed: false,
            seen: Seen {
                failures,
                ..Seen::default()
            },
        }
    }

    /// A client connects.
    pub(super) fn connect(&mut self, connect: &Connect) {
        self.close();
        self.seen = Seen::default();
        let ends = Ends {
            remote: connect.from,
            local: connect.to,
        };
        let mut flow = Flow::new(self.setup.virtual_name.as_str().into(), ends);
        flow.default_pool = self.default_pool().into();
        flow.began = self.host.now;
        flow.transport = match self.setup.protocol {
            Protocol::Udp => Transport::Udp,
            Protocol::Http | Protocol::Tcp => Transport::Tcp,
        };
        if self.setup.protocol == Protocol::Http {
            flow.http = Some(Box::default());
        }
        self.connection = Some(Box::new(Connection::new(&self.program, flow)));
        self.upstream = None;
        self.relayed = false;
        self.raise(Event::ClientAccepted);
        if let Some(tls) = &connect.tls {
            self.handshake(tls);
        }
        if self.http().is_some_and(|http| http.disabled) {
            self.relayed = true;
        }
        self.lasting = match &self.connection {
            Some(connection) => connection.flow.steering.clone(),
            None => Steering::default(),
        };
        if self.setup.protocol == Protocol::Tcp && self.wanted(Side::Client).is_none() {
            self.reach_member();
        }
    }

    /// Connects with addresses of the driver's own if no connection stands.
    pub(super) fn connected(&mut self) {
        if !matches!(self.seen.ended, None | Some("close")) {
            // Whoever was turned away stays so until he connects again.
            self.look_anew();
        } else if self.connection.is_none() || self.seen.ended.is_some() {
            let (from, to) = default_ends();
            self.connect(&Connect {
                from,
                to,
                tls: None,
            });
        } else {
            self.look_anew();
        }
    }

    /// Forgets what was seen before; a TCP connection's member stays.
    fn look_anew(&mut self) {
        let before = std::mem::take(&mut self.seen);
        self.seen.ended = before.ended;
        if self.setup.protocol != Protocol::Http {
            self.seen.pool = before.pool;
            self.seen.member = before.member;
        }
    }

    fn handshake(&mut self, tls: &Tls) {
        let facts = |certificates: &[Vec<u8>]| {
            Some(Rc::new(TlsFacts {
                sni: tls.sni.clone(),
                version: tls.version,
                cipher: tls.cipher.clone(),
                bits: if tls.cipher.contains("256_") || tls.cipher.contains("AES256") {
                    256
                } else {
                    128
                },
                alpn: tls.alpn.clone(),
                certificates: certificates.to_vec(),
                verify_result: tls.verify,
                resumed: false,
            }))
        };
        if let Some(flow) = self.flow() {
            flow.client_hello = tls.hello.as_deref().map(Rc::from);
            flow.client_tls = facts(&[]);
        }
        self.raise(Event::ClientsslClienthello);
        if let Some(flow) = self.flow() {
            flow.client_tls = facts(&tls.certificates);
        }
        if tls.asked {
            self.raise(Event::ClientsslClientcert);
        }
        self.raise(Event::ClientsslHandshake);
    }

    /// Bytes, or a datagram, come from the client.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.connected();
        if self.seen.ended.is_some() {
            return;
        }
        let udp = self.setup.protocol == Protocol::Udp;
        if let Some(flow) = self.flow() {
            flow.bytes.0 += bytes.len() as u64;
            if udp {
                flow.client_data = Held {
                    bytes: Value::new(bytes),
                    ..Held::default()
                };
            } else {
                flow.client_data.bytes.append(bytes);
            }
        }
        if udp {
            if self.raise(Event::ClientData) {
                self.reach_member();
            }
            self.deliver(Side::Client, u64::MAX);
        } else {
            self.flush(Side::Client);
        }
    }

    /// Bytes, or a datagram, come from the member.
    pub(super) fn reply(&mut self, bytes: &[u8]) {
        self.look_anew();
        let udp = self.setup.protocol == Protocol::Udp;
        if let Some(flow) = self.flow() {
            flow.bytes.1 += bytes.len() as u64;
            flow.server_data.bytes.append(bytes);
        }
        if udp {
            self.raise(Event::ServerData);
            self.deliver(Side::Server, u64::MAX);
        } else {
            self.flush(Side::Server);
        }
    }

    /// Passes on what no rule holds back, after the data events that rules asked for.
    fn flush(&mut self, side: Side) {
        let event = match side {
            Side::Client => Event::ClientData,
            Side::Server => Event::ServerData,
        };
        for _ in 0..TURNS {
            let Some(wanted) = self.wanted(side) else {
                return self.deliver(side, u64::MAX);
            };
            let Some(held) = self.held(side) else {
                return;
            };
            let skipped = held.skip.min(held.bytes.len() as u64);
            if skipped > 0 {
                held.skip -= skipped;
                self.deliver(side, skipped);
            }
            let Some(held) = self.held(side) else {
                return;
            };
            let there = held.bytes.len() as u64;
            if there == 0 || there < wanted {
                return;
            }
            if !self.raise(event) {
                return;
            }
            let Some(held) = self.held(side) else {
                return;
            };
            match held.released.take() {
                Some(count) => {
                    // What the event asked for is over, unless it asked again.
                    self.deliver(side, count);
                }
                None => {
                    self.deliver(side, 0);
                    return;
                }
            }
        }
    }

    /// Sends bytes of one side to the other, and what rules send by themselves.
    fn deliver(&mut self, side: Side, count: u64) {
        if count > 0 && side == Side::Client && self.setup.protocol == Protocol::Tcp {
            self.reach_member();
        }
        let Some(flow) = self.flow() else {
            return;
        };
        // What a rule says of itself goes to the peer of the side it was said on.
        let own: Vec<Value> = flow.client_data.respond.drain(..).collect();
        let own_server: Vec<Value> = flow.server_data.respond.drain(..).collect();
        for text in own {
            self.seen.to_client.extend_from_slice(&text.bytes());
        }
        for text in own_server {
            self.seen.to_member.extend_from_slice(&text.bytes());
        }
        if self.seen.ended.is_some() {
            return;
        }
        let Some(held) = self.held(side) else {
            return;
        };
        let bytes = held.bytes.bytes().to_vec();
        let count = usize::try_from(count).map_or(bytes.len(), |count| count.min(bytes.len()));
        held.bytes = Value::new(&bytes[count..]);
        let out = match side {
            Side::Client => &mut self.seen.to_member,
            Side::Server => &mut self.seen.to_client,
        };
        out.extend_from_slice(&bytes[..count]);
    }

    fn wanted(&mut self, side: Side) -> Option<u64> {
        self.held(side)?.wanted
    }

    fn held(&mut self, side: Side) -> Option<&mut Held> {
        let flow = self.flow()?;
        Some(match side {
            Side::Client => &mut flow.client_data,
            Side::Server => &mut flow.server_data,
        })
    }

    /// The connection's flow.
    pub(super) fn flow(&mut self) -> Option<&mut Flow> {
        self.connection.as_mut().map(|one| &mut one.flow)
    }

    /// The exchange at hand.
    pub(super) fn http(&mut self) -> Option<&mut Http> {
        self.flow()?.http.as_deref_mut()
    }

    /// Raises an event, and does what its rules wait for: whether the connection goes on.
    pub(super) fn raise(&mut self, event: Event) -> bool {
        let Some(connection) = self.connection.as_mut() else {
            return false;
        };
        if self.seen.ended.is_some() && event != Event::ClientClosed && event != Event::ServerClosed
        {
            return false;
        }
        self.seen.events.push(event);
        let step = self.engine.start(connection, event, &mut self.host);
        self.settle(step)
    }

    /// Follows a run to its end: whether the connection goes on.
    fn settle(&mut self, mut step: Step) -> bool {
        loop {
            let Some(connection) = self.connection.as_mut() else {
                return false;
            };
            match step {
                Step::Done => break,
                Step::Wait(wait) => {
                    let answer = self.host.answer(&wait);
                    step = self.engine.resume(connection, answer, &mut self.host);
                }
                Step::Failed(failure) => {
                    self.seen.failures.push(failure);
                    self.seen.ended = self.seen.ended.or(Some("reset"));
                    return false;
                }
            }
        }
        let Some(connection) = self.connection.as_mut() else {
            return false;
        };
        let ended = connection.flow.ended.map(|ended| match ended {
            Ended::Reject => "reject",
            Ended::Drop => "drop",
            Ended::Close => "close",
        });
        self.seen.ended = self.seen.ended.or(ended);
        self.seen.ended.is_none()
    }

    /// Time passes: scripts that were to run later run when they are due.
    pub(super) fn wait(&mut self, time: Duration) {
        self.seen.events.clear();
        self.seen.failures.clear();
        let until = self.host.now + time;
        loop {
            let own = self.connection.as_ref();
            let own = own.and_then(|connection| connection.session.next_due());
            let common = self.engine.next_due();
            let next = own.into_iter().chain(common).min();
            let Some(due) = next.filter(|due| *due <= until) else {
                break;
            };
            self.host.now = self.host.now.max(due);
            if common == Some(due) {
                let failures = self.engine.run_due(&mut self.host);
                self.seen.failures.extend(failures);
            } else if let Some(connection) = self.connection.as_mut() {
                let step = self.engine.run_later(connection, &mut self.host);
                self.settle(step);
            }
        }
        self.host.now = self.host.now.max(until);
    }

    /// The client's connection closes.
    pub(super) fn close(&mut self) {
        if self.upstream.take().is_some() {
            self.raise(Event::ServerClosed);
        }
        if self.connection.is_some() {
            self.raise(Event::ClientClosed);
            self.seen.ended = self.seen.ended.or(Some("close"));
        }
        self.connection = None;
    }

    /// A variable's value: of the connection, or under `static::`.
    pub(super) fn variable(&mut self, name: &str) -> Option<Vec<u8>> {
        let ends = default_ends();
        let ends = Ends {
            remote: ends.0,
            local: ends.1,
        };
        if self.connection.is_none() {
            let flow = Flow::new(self.setup.virtual_name.as_str().into(), ends);
            self.connection = Some(Box::new(Connection::new(&self.program, flow)));
        }
        let connection = self.connection.as_mut()?;
        let script = format!("if {{[info exists {{{name}}}]}} {{list [set {{{name}}}]}}");
        let script = Value::from(script.as_str());
        match self.engine.eval(connection, &script, &mut self.host) {
            Ok(found) => {
                let found = found.into_items().ok()?.into_iter().next()?;
                Some(found.bytes().to_vec())
            }
            Err(failure) => {
                self.seen.failures.push(failure);
                None
            }
        }
    }

    pub(super) fn default_pool(&self) -> &str {
        match &self.setup.default_pool {
            Some(name) => name,
            None => self.setup.pools.first().map_or("", |pool| &pool.name),
        }
    }
}
