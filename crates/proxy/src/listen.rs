//! Listening sockets: bound before a configuration is applied, and kept from one to the next.
//!
//! They belong to the process. Each worker has one of its own at every address; when there are
//! fewer workers than sockets, those that remain serve the rest too, since a socket that is closed
//! takes with it the connections that wait in it. Accepting is left to `accept`.

use crate::sys;
use model::Name;
use socket2::{Domain, SockRef, Socket as RawSocket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tracing::{debug, warn};

/// Connections that may wait to be accepted; the kernel lowers it to its `somaxconn`.
const BACKLOG: i32 = 4096;

/// The first descriptor that service managers pass (`sd_listen_fds(3)`).
const FIRST_PASSED: RawFd = 3;

/// An address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{at}: cannot listen on {address}: {source}{}", advice(.source, .address))]
pub struct BindError {
    /// Where the configuration asks for it.
    pub at: String,
    /// The address.
    pub address: SocketAddr,
    /// Why not.
    pub source: io::Error,
}

/// Listening sockets that this process was started with: from the process it replaces, or from a
/// service manager. Those that no virtual asks for are closed.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<(SocketAddr, TcpListener)>,
}

impl Inherited {
    /// None.
    pub fn none() -> Self {
        Inherited::default()
    }

    /// These; what is no listening TCP socket is closed.
    pub fn new(descriptors: impl IntoIterator<Item = OwnedFd>) -> Self {
        let sockets = descriptors.into_iter().filter_map(|fd| {
            let socket = RawSocket::from(fd);
            let listens = socket.is_listener().unwrap_or(false);
            let address = socket.local_addr().ok().and_then(|a| a.as_socket());
            match address {
                Some(address) if listens => Some((address, socket.into())),
                _ => {
                    warn!(
                        "a descriptor that was passed to this process is no listening TCP socket"
                    );
                    None
                }
            }
        });
        Inherited {
            sockets: sockets.collect(),
        }
    }

    /// Those that a service manager passed by `LISTEN_FDS` (`sd_listen_fds(3)`), if it did. To be
    /// called once, early in the process.
    #[expect(unsafe_code, reason = "descriptors come as numbers in the environment")]
    pub fn from_service_manager() -> Self {
        let number = |name| std::env::var(name).ok()?.parse::<usize>().ok();
        let Some(count) = number("LISTEN_FDS") else {
            return Inherited::none();
        };
        if number("LISTEN_PID") != Some(std::process::id() as usize) {
            return Inherited::none();
        }
        // SAFETY: the variables say that these descriptors were opened for this process and left
        // to it; nothing else here knows their numbers.
        Inherited::new(unsafe { sys::adopt(FIRST_PASSED, count.min(4096)) })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Where they are bound.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(|&(address, _)| address)
    }

    fn take(&mut self, address: SocketAddr) -> Vec<TcpListener> {
        let taken = self.sockets.extract_if(.., |(at, _)| *at == address);
        taken.map(|(_, listener)| listener).collect()
    }
}

/// One listening socket.
#[derive(Debug)]
pub(crate) struct Socket {
    /// Never used again for another.
    pub(crate) id: u64,
    /// Where it is bound, port 0 replaced by the port it got.
    pub(crate) local: SocketAddr,
    pub(crate) listener: TcpListener,
    /// Its address is no longer asked for: what waits is still accepted, then it is closed.
    pub(crate) closing: AtomicBool,
}

/// What a listening address is known by: itself or, for port 0, which is another port each time,
/// also whose it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    address: SocketAddr,
    owner: Option<(Name, usize)>,
}

/// An address that the configuration asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    /// Where the configuration asks for it.
    pub(crate) at: String,
    /// Seconds for which the kernel may wait for the client's first bytes; 0 where the client
    /// need not speak first.
    pub(crate) defer: u32,
}

impl Wanted {
    /// Every address of the configuration, save those of the fast path, which no socket listens on.
    pub(crate) fn all(config: &model::Config) -> Vec<(Name, Wanted)> {
        let mut all = Vec::new();
        let fast = |service: &model::Virtual| service.protocol == model::Protocol::Fast;
        for (name, service) in config.virtuals.iter().filter(|(_, service)| !fast(service)) {
            for (n, address) in service.listen.iter().map(model::Listen::socket).enumerate() {
                let key = Key {
                    address,
                    owner: (address.port() == 0).then(|| (name.clone(), n)),
                };
                let wanted = Wanted {
                    key,
                    at: format!("virtuals.{name}.listen[{n}]"),
                    defer: defer(service),
                };
                all.push((name.clone(), wanted));
            }
        }
        all
    }
}

/// All sockets of the process.
#[derive(Default)]
pub(crate) struct Listening(BTreeMap<Key, Vec<Arc<Socket>>>);

impl Listening {
    /// What will be listened on: sockets that are there stay, others are taken from `inherited` or
    /// bound anew. Nothing changes for those in use until [`Listening::replace`].
    pub(crate) fn prepare<'a>(
        &self,
        wanted: impl Iterator<Item = &'a Wanted>,
        workers: usize,
        inherited: &mut Inherited,
    ) -> Result<Listening, Vec<BindError>> {
        let mut next = BTreeMap::new();
        let mut errors = Vec::new();
        for wanted in wanted {
            let mut sockets = self.0.get(&wanted.key).cloned().unwrap_or_default();
            let passed = inherited.take(wanted.key.address).into_iter();
            sockets.extend(passed.filter_map(|listener| Socket::new(listener).ok()));
            match fill(&mut sockets, wanted.key.address, workers) {
                Ok(()) => {
                    next.insert(wanted.key.clone(), sockets);
                }
                Err(source) => errors.push(BindError {
                    at: wanted.at.clone(),
                    address: wanted.key.address,
                    source,
                }),
            }
        }
        if errors.is_empty() {
            Ok(Listening(next))
        } else {
            Err(errors)
        }
    }

    /// Puts `next` in this one's place and marks what is not in it as closing. Returns the
    /// addresses that came and those that went.
    pub(crate) fn replace(&mut self, next: Listening) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        let before = std::mem::replace(self, next);
        let local = |sockets: &[Arc<Socket>]| sockets.first().map(|socket| socket.local);
        let came = self.0.iter().filter(|(key, _)| !before.0.contains_key(key));
        let came = came.filter_map(|(_, sockets)| local(sockets)).collect();
        let gone = before.0.iter().filter(|(key, _)| !self.0.contains_key(key));
        let gone = gone.filter_map(|(_, sockets)| {
            for socket in sockets {
                socket.closing.store(true, Ordering::Relaxed);
            }
            local(sockets)
        });
        (came, gone.collect())
    }

    /// Where `key` is bound.
    pub(crate) fn local(&self, key: &Key) -> Option<SocketAddr> {
        self.0.get(key)?.first().map(|socket| socket.local)
    }

    /// Tells the kernel who speaks first at `key`.
    pub(crate) fn set_defer(&self, key: &Key, seconds: u32) {
        for socket in self.0.get(key).into_iter().flatten() {
            if let Err(error) = sys::set_defer_accept(&socket.listener, seconds) {
                debug!(address = %socket.local, %error, "TCP_DEFER_ACCEPT");
            }
        }
    }

    pub(crate) fn sockets(&self) -> impl Iterator<Item = &Arc<Socket>> {
        self.0.values().flatten()
    }

    /// The sockets that each of so many workers serves.
    pub(crate) fn shares(&self, workers: usize) -> Vec<Vec<Arc<Socket>>> {
        let mut shares = vec![Vec::new(); workers];
        for sockets in self.0.values() {
            for (n, socket) in sockets.iter().enumerate() {
                shares[server_of(n, workers)].push(Arc::clone(socket));
            }
        }
        shares
    }
}

/// Which of so many workers serves an address's socket number `socket`. What a worker serves with
/// its own number stays with it however many others there are.
fn server_of(socket: usize, workers: usize) -> usize {
    socket % workers
}

impl Socket {
    fn new(listener: TcpListener) -> io::Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Arc::new(Socket {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            local: listener.local_addr()?,
            listener,
            closing: AtomicBool::new(false),
        }))
    }
}

/// Binds what is missing for each of `count` workers to have a socket.
fn fill(sockets: &mut Vec<Arc<Socket>>, address: SocketAddr, count: usize) -> io::Result<()> {
    if sockets.is_empty() {
        ensure_free(address)?;
    }
    while sockets.len() < count.max(1) {
        let to = sockets.first().map_or(address, |socket| socket.local);
        match bind(to).and_then(Socket::new) {
            Ok(socket) => sockets.push(socket),
            // A socket that was passed may not allow others beside it; workers then share it.
            Err(error) if !sockets.is_empty() => {
                warn!(address = %to, %error, "no further socket at this address: workers share what there is");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// With SO_REUSEPORT two processes of one user would share a port without noticing. A bind
/// without it tells whether somebody else is there.
fn ensure_free(address: SocketAddr) -> io::Result<()> {
    // This process's own sockets of before may be on their way out.
    let mut tries = 10;
    loop {
        match open(address)?.bind(&address.into()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {
                tries -= 1;
                thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

fn open(address: SocketAddr) -> io::Result<RawSocket> {
    let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        SockRef::from(&socket).set_only_v6(true)?;
    }
    Ok(socket)
}

/// For how many seconds the kernel may hold a connection back until the client speaks.
fn defer(service: &model::Virtual) -> u32 {
    let client_first = service.protocol != model::Protocol::Tcp
        || service.tls.is_some()
        || service.proxy_protocol.as_ref().is_some_and(|p| p.required);
    let seconds = service.timeouts.head.as_secs().clamp(1, 30);
    if client_first { seconds as u32 } else { 0 }
}

fn advice(error: &io::Error, address: &SocketAddr) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let port = address.port();
            format!("; another program has it: `ss -ltnp 'sport = :{port}'` tells which")
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or the capability CAP_NET_BIND_SERVICE".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "; no interface of this machine has that address".to_owned()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::TcpStream;

    fn wanted(address: &str) -> Wanted {
        Wanted {
            key: Key {
                address: address.parse().unwrap(),
                owner: None,
            },
            at: "virtuals.test.listen[0]".to_owned(),
            defer: 0,
        }
    }

    fn prepare(before: &Listening, wanted: &[Wanted], workers: usize) -> Listening {
        before
            .prepare(wanted.iter(), workers, &mut Inherited::none())
            .unwrap()
    }

    fn ids(listening: &Listening) -> BTreeSet<u64> {
        listening.sockets().map(|socket| socket.id).collect()
    }

    #[test]
    fn every_socket_is_served_by_one_worker_and_no_worker_by_more_than_its_share() {
        for workers in 1..9 {
            for sockets in 1..20 {
                let mut load = vec![0; workers];
                for socket in 0..sockets {
                    load[server_of(socket, workers)] += 1;
                }
                assert_eq!(load.iter().sum::<usize>(), sockets);
                let (least, most) = (load.iter().min().unwrap(), load.iter().max().unwrap());
                assert!(most - least <= 1, "{workers} workers, {sockets} sockets");
            }
        }
    }

    #[test]
    fn sockets_stay_when_workers_become_fewer_and_are_added_when_they_become_more() {
        let wanted = [wanted("127.0.0.1:0")];
        let three = prepare(&Listening::default(), &wanted, 3);
        let one = prepare(&three, &wanted, 1);
        assert_eq!(ids(&one), ids(&three));
        assert_eq!(one.shares(1)[0].len(), 3);
        let five = prepare(&one, &wanted, 5);
        assert!(ids(&five).is_superset(&ids(&three)));
        assert_eq!(five.sockets().count(), 5);
        let ports: BTreeSet<_> = five.sockets().map(|s| s.local.port()).collect();
        assert_eq!(ports.len(), 1);
    }

    #[test]
    fn an_address_that_goes_away_is_marked_for_closing() {
        let wanted = [wanted("127.0.0.1:0")];
        let mut listening = prepare(&Listening::default(), &wanted, 2);
        let sockets: Vec<_> = listening.sockets().cloned().collect();
        let next = prepare(&listening, &[], 2);
        let (came, gone) = listening.replace(next);
        assert_eq!((came.len(), gone), (0, vec![sockets[0].local]));
        assert!(sockets.iter().all(|s| s.closing.load(Ordering::Relaxed)));
    }

    #[test]
    fn an_address_that_somebody_listens_on_is_refused_and_named() {
        let other = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = other.local_addr().unwrap().to_string();
        let result =
            Listening::default().prepare([wanted(&address)].iter(), 1, &mut Inherited::none());
        let errors = result.err().unwrap();
        let text = errors[0].to_string();
        assert!(text.contains("virtuals.test.listen[0]"), "{text}");
        assert!(
            text.contains(&address) && text.contains("ss -ltnp"),
            "{text}"
        );
    }

    #[test]
    fn a_passed_socket_is_taken_over_with_what_waits_in_it() {
        let passed = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = passed.local_addr().unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let mut inherited = Inherited::new([
            passed.into(),
            bind("127.0.0.1:0".parse().unwrap()).unwrap().into(),
        ]);
        assert_eq!(inherited.len(), 2);
        let wanted = [wanted(&address.to_string())];
        let listening = Listening::default()
            .prepare(wanted.iter(), 2, &mut inherited)
            .unwrap();
        assert_eq!(inherited.len(), 1);
        assert_eq!(listening.sockets().count(), 2);
        let first = listening.sockets().next().unwrap();
        first.listener.set_nonblocking(true).unwrap();
        assert!(first.listener.accept().is_ok());
    }
}
