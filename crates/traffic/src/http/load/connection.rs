//! One connection of the load: opened, asked, read to the end of the answer, asked again or replaced.

use super::super::Error;
use super::super::sys::{self, Epoll, Event, Interest};
use super::super::target::Target;
use super::requests::Requests;
use super::response::{Left, Read, Response};
use super::tls::{Client, Session, Want};
use super::{Args, Mode};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::time::Instant;

/// What all connections have in common.
pub(super) struct Shared {
    address: SocketAddr,
    requests: Requests,
    mode: Mode,
    sources: u8,
    next_source: u8,
    scratch: Vec<u8>,
    /// How much to read at first: all of a small answer at once, of a large one little more than its head.
    first_read: usize,
    tls: Option<Client>,
}

/// A connection, open or about to be.
pub(super) struct Connection {
    slot: usize,
    socket: Option<Socket>,
    session: Option<Box<Session>>,
    /// When the request (or the connection made for it) began, in nanoseconds since the load did.
    began: u64,
    response: Response,
    /// The number of the request that is under way.
    request: usize,
    /// How much of the request has left.
    sent: usize,
    /// The request has been handed to TLS.
    asked: bool,
    /// The answer is whole and no other will be asked for.
    done: bool,
}

/// One request and its answer (or one handshake).
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) status: u16,
    pub(super) bytes: u64,
    pub(super) nanoseconds: u64,
}

/// What became of a connection.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) exchange: Option<Exchange>,
    /// It is over, as it should, or why.
    pub(super) ended: Option<Result<(), String>>,
}

/// How the connection stands after its socket has been served.
enum Stand {
    Open,
    Ended,
}

/// An answer up to this size is read at once, in bytes.
const SMALL: usize = 20 * 1024;
/// Of a larger one, this much is read to find its head.
const PEEK: usize = 2 * 1024;
/// The most that TLS takes at once, in bytes.
const SCRATCH: usize = 256 * 1024;

impl Shared {
    pub(super) fn new(args: &Args, target: &Target) -> Result<Self, Error> {
        let host = args.host.as_deref().unwrap_or(&target.authority);
        let tls = match target.tls {
            true => Some(Client::new(host, target.address)?),
            false if args.mode == Mode::Handshake => {
                return Err(Error::Target {
                    url: args.url.clone(),
                    why: "handshakes need https",
                });
            }
            false => None,
        };
        Ok(Self {
            address: target.address,
            requests: Requests::new(args, target)?,
            mode: args.mode,
            sources: args.sources,
            next_source: 0,
            scratch: vec![0; SCRATCH],
            first_read: SMALL,
            tls,
        })
    }

    fn connect(&mut self) -> io::Result<Socket> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(self.address), kind, Some(Protocol::TCP))?;
        if self.sources > 0 && self.address.is_ipv4() {
            self.next_source = self.next_source % self.sources + 1;
            let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, self.next_source)), 0);
            // The port is then chosen at connect, where it need only be free towards this target.
            sys::choose_port_late(&socket)?;
            socket.bind(&source.into())?;
        }
        match socket.connect(&SockAddr::from(self.address)) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    }
}

impl Connection {
    pub(super) fn new(slot: usize) -> Self {
        Self {
            slot,
            socket: None,
            session: None,
            began: 0,
            response: Response::default(),
            request: 0,
            sent: 0,
            asked: false,
            done: false,
        }
    }

    /// Connect (anew) and send as much as can be sent.
    pub(super) fn open(&mut self, shared: &mut Shared, epoll: &Epoll, start: Instant) -> Outcome {
        *self = Self::new(self.slot);
        self.request = shared.requests.turn();
        self.began = nanoseconds(start);
        let opened = self.try_open(shared, epoll);
        Outcome {
            exchange: None,
            ended: opened.err().map(|error| Err(format!("connect: {error}"))),
        }
    }

    fn try_open(&mut self, shared: &mut Shared, epoll: &Epoll) -> io::Result<()> {
        if let Some(client) = &shared.tls {
            let mut session = Session::new(client)?;
            session.advance(&mut [], Want::Nothing, |_| ())?;
            self.session = Some(Box::new(session));
        }
        let socket = self.socket.insert(shared.connect()?);
        // On loopback the connection usually stands by now.
        let sent = match &mut self.session {
            Some(session) => session.send(socket),
            None => send_rest(socket, shared.requests.get(self.request), &mut self.sent),
        };
        let interest = match sent {
            Ok(()) if self.session.is_none() => Interest::Read,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => Interest::ReadWrite,
        };
        epoll.add(socket, self.slot as u64, interest)
    }

    /// Do what can be done now.
    pub(super) fn ready(&mut self, event: Event, shared: &mut Shared, start: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        let result = match self.session {
            Some(_) => self.serve_tls(event, shared, start, &mut outcome.exchange),
            None => self.serve(event, shared, start, &mut outcome.exchange),
        };
        outcome.ended = match result {
            Ok(Stand::Open) => None,
            Ok(Stand::Ended) => Some(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(error.to_string())),
        };
        if outcome.ended.is_some() {
            self.socket = None;
        }
        outcome
    }

    fn serve(
        &mut self,
        event: Event,
        shared: &mut Shared,
        start: Instant,
        exchange: &mut Option<Exchange>,
    ) -> io::Result<Stand> {
        let Some(socket) = &self.socket else {
            return Ok(Stand::Open);
        };
        if event.writable {
            send_rest(socket, shared.requests.get(self.request), &mut self.sent)?;
        }
        if !event.readable {
            return Ok(Stand::Open);
        }
        while !self.done {
            let (asked, got) = match self.response.left() {
                None => {
                    let buffer = &mut shared.scratch[..shared.first_read];
                    (buffer.len(), sys::receive(socket, buffer)?)
                }
                Some(left) => {
                    let most = match left {
                        Left::Bytes(left) => usize::try_from(left).unwrap_or(MOST).min(MOST),
                        Left::UntilEnd => MOST,
                    };
                    (most, sys::discard(socket, most)?)
                }
            };
            let read = match (got, self.response.left()) {
                (0, _) => self.response.end(),
                (_, None) => self.response.feed(&shared.scratch[..got]),
                (_, Some(_)) => self.response.skip(got as u64),
            };
            match read.map_err(io::Error::other)? {
                Read::Whole {
                    status,
                    bytes,
                    last,
                } => {
                    let now = nanoseconds(start);
                    *exchange = Some(Exchange {
                        status,
                        bytes,
                        nanoseconds: now - self.began,
                    });
                    shared.first_read = if bytes <= SMALL as u64 { SMALL } else { PEEK };
                    if shared.mode == Mode::KeepAlive && !last {
                        self.began = now;
                        self.sent = 0;
                        self.request = shared.requests.turn();
                        send_rest(socket, shared.requests.get(self.request), &mut self.sent)?;
                        return Ok(Stand::Open);
                    }
                    self.done = true;
                }
                // A short read has emptied the socket; only its end can still be behind it.
                Read::More if got < asked && !event.ended => return Ok(Stand::Open),
                Read::More => {}
            }
        }
        self.wait_for_end(event, shared.mode)
    }

    fn serve_tls(
        &mut self,
        event: Event,
        shared: &mut Shared,
        start: Instant,
        exchange: &mut Option<Exchange>,
    ) -> io::Result<Stand> {
        let (Some(socket), Some(session)) = (&self.socket, &mut self.session) else {
            return Ok(Stand::Open);
        };
        if event.writable {
            session.send(socket)?;
        }
        if !event.readable {
            return Ok(Stand::Open);
        }
        while !self.done {
            let held = session.restore(&mut shared.scratch);
            let room = &mut shared.scratch[held..];
            let (asked, got) = (room.len(), sys::receive(socket, room)?);
            if got == 0 && self.asked {
                self.response.end().map_err(io::Error::other)?;
            } else if got == 0 {
                return Err(io::Error::other(
                    "the connection ended within the handshake",
                ));
            }
            let want = match (self.asked, shared.mode) {
                (true, _) => Want::Nothing,
                (false, Mode::Handshake) => Want::Close,
                (false, _) => Want::Send(shared.requests.get(self.request)),
            };
            let mut read = Ok(Read::More);
            let response = &mut self.response;
            session.advance(&mut shared.scratch[..held + got], want, |content| {
                if read == Ok(Read::More) {
                    read = response.feed(content);
                }
            })?;
            if session.is_established() && !self.asked {
                self.asked = true;
                session.send(socket)?;
                if shared.mode == Mode::Handshake {
                    *exchange = Some(Exchange {
                        status: 200,
                        bytes: 0,
                        nanoseconds: nanoseconds(start) - self.began,
                    });
                    self.done = true;
                    socket.shutdown(Shutdown::Write)?;
                    break;
                }
            } else {
                session.send(socket)?;
            }
            if let Read::Whole {
                status,
                bytes,
                last,
            } = read.map_err(io::Error::other)?
            {
                let now = nanoseconds(start);
                *exchange = Some(Exchange {
                    status,
                    bytes,
                    nanoseconds: now - self.began,
                });
                if shared.mode == Mode::KeepAlive && !last {
                    self.began = now;
                    self.request = shared.requests.turn();
                    let request = shared.requests.get(self.request);
                    session.advance(&mut [], Want::Send(request), |_| ())?;
                    session.send(socket)?;
                } else {
                    self.done = true;
                    continue;
                }
            }
            if got < asked && !event.ended {
                return Ok(Stand::Open);
            }
        }
        self.wait_for_end(event, shared.mode)
    }

    /// All that was wanted has arrived. The other side ends the connection, so that it keeps no port of ours waiting.
    fn wait_for_end(&self, event: Event, mode: Mode) -> io::Result<Stand> {
        if mode == Mode::Idle && event.ended {
            return Err(io::Error::other("an idle connection was ended"));
        }
        if mode == Mode::Idle || !event.ended {
            return Ok(Stand::Open);
        }
        if let (Some(socket), true) = (&self.socket, self.session.is_some()) {
            // Unread tickets and alerts would make closing a reset.
            let _ = sys::discard(socket, MOST);
        }
        Ok(Stand::Ended)
    }
}

/// The most taken off a socket at once, in bytes.
const MOST: usize = 1 << 30;

fn send_rest(socket: &Socket, request: &[u8], sent: &mut usize) -> io::Result<()> {
    while *sent < request.len() {
        *sent += sys::send(socket, &request[*sent..])?;
    }
    Ok(())
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
