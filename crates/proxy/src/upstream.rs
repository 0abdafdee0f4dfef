//! Connections to members: kept between requests by each worker, opened when there is none.
//!
//! The last one used is the next one taken, so that the rest grow old and close. One that the
//! member closed meanwhile is noticed without a call where it was seen, and by the caller's retry
//! where it was not.

use crate::client::Channel;
use crate::snapshot::Backend;
use crate::worker::Worker;
use balance::{Member, MemberId, Millis};
use reactor::{ConnectOptions, Deadline, Elapsed, Tcp};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tls::{ServerName, Stream};

/// What a member may send ahead of a large response, in bytes.
const WINDOW: u32 = 1024 * 1024;

/// One worker's idle connections.
#[derive(Default)]
pub(crate) struct Upstreams {
    links: RefCell<Links>,
}

/// By the pool's number and the member's.
type Links = HashMap<(u32, MemberId), Rc<Link>, BuildHasherDefault<Mixer>>;

/// Mixes the two small numbers that a link is known by (Fibonacci hashing). They are our own, so
/// that nobody can choose them to collide.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write_u32(&mut self, n: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(n)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u32(u32::from(b)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What a worker keeps for one member.
pub(crate) struct Link {
    /// How its connections are encrypted. With a change of that none of them may be used again.
    tls: Option<Arc<tls::ClientContext>>,
    idle: RefCell<Vec<Idle>>,
    /// Bytes of the last response's body, by which the next first read is measured.
    pub(crate) last_body: Cell<u64>,
}

struct Idle {
    channel: Channel,
    since: Millis,
    requests: u64,
    widened: bool,
}

/// A connection to a member, in use.
pub(crate) struct Upstream {
    pub(crate) channel: Channel,
    pub(crate) link: Rc<Link>,
    /// Requests sent over it before this one.
    pub(crate) requests: u64,
    widened: Cell<bool>,
    /// Whether it is in the clear though its pool has TLS: of no use to any other request.
    bare: bool,
}

impl Upstream {
    /// Whether it was kept, and so may have been closed by the member unnoticed.
    pub(crate) fn is_reused(&self) -> bool {
        self.requests > 0
    }

    /// Makes room for a large response, once in the connection's life: a member that must wait to be
    /// told of room sends in small parts, each of which wakes both ends.
    pub(crate) fn widen(&self) {
        if !self.widened.replace(true) {
            self.channel.with_plain(|tcp| tcp.widen(WINDOW));
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectFailure {
    #[error("not connected in time")]
    Timeout,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] tls::ConnectError),
    #[error("no name to verify the member by")]
    NoName,
}

impl ConnectFailure {
    /// Whether it is this process that lacks something, and not the member.
    pub(crate) fn is_own(&self) -> bool {
        const LACKS: [i32; 5] = [
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOBUFS,
            libc::ENOMEM,
            libc::EADDRNOTAVAIL,
        ];
        matches!(self, ConnectFailure::Io(error) if error.raw_os_error().is_some_and(|code| LACKS.contains(&code)))
    }
}

impl From<Elapsed> for ConnectFailure {
    fn from(_: Elapsed) -> Self {
        ConnectFailure::Timeout
    }
}

impl Upstreams {
    /// What this worker keeps for a member.
    pub(crate) fn link(&self, backend: &Backend, member: &Member) -> Rc<Link> {
        let key = (backend.id, member.id());
        if let Some(link) = self.links.borrow().get(&key)
            && link.is_of(backend)
        {
            return Rc::clone(link);
        }
        let link = Rc::new(Link {
            tls: backend.tls.clone(),
            idle: RefCell::default(),
            last_body: Cell::default(),
        });
        self.links.borrow_mut().insert(key, Rc::clone(&link));
        link
    }

    /// Closes what has been idle for too long, or was closed by its member; opens what is to be
    /// open in advance. Called every second.
    pub(crate) fn sweep(&self, worker: &Rc<Worker>) {
        let now = worker.now();
        let snapshot = worker.snapshot();
        let mut wanted = Vec::new();
        self.links.borrow_mut().retain(|(backend, member), link| {
            let backend = snapshot.backends.values().find(|b| b.id == *backend);
            let member = backend.and_then(|b| b.pool.member(*member));
            let (Some(backend), Some(member)) = (backend.filter(|b| link.is_of(b)), member) else {
                // Out of the configuration: whoever still uses a connection holds the link.
                link.idle.borrow_mut().clear();
                return false;
            };
            let keep = backend.keep_idle.as_millis() as u64;
            let mut idle = link.idle.borrow_mut();
            idle.retain(|i| i.channel.with(Stream::is_quiet) && now.saturating_sub(i.since) < keep);
            let up =
                member.health() == balance::Health::Up && member.admin() == balance::Admin::Enabled;
            let missing = backend
                .config
                .keepalive
                .pre_connect
                .saturating_sub(idle.len());
            if up && missing > 0 && !keep_alive_is_off(backend) {
                wanted.push((Arc::clone(backend), member, missing));
            }
            true
        });
        for (backend, member, missing) in wanted {
            pre_connect(worker, &backend, &member, missing);
        }
    }

    /// Makes sure that members which are to have connections in advance have a place for them.
    pub(crate) fn prepare(&self, worker: &Worker) {
        for backend in worker.snapshot().backends.values() {
            if backend.config.keepalive.pre_connect > 0 {
                for member in backend.pool.members() {
                    self.link(backend, &member);
                }
            }
        }
    }
}

impl Link {
    fn is_of(&self, backend: &Backend) -> bool {
        self.tls.as_ref().map(Arc::as_ptr) == backend.tls.as_ref().map(Arc::as_ptr)
    }

    /// The idle connection that was used last, if there is one that its member has not closed as
    /// far as is known. `within` asks for one that was used within that time, and then also the
    /// kernel is asked: for requests that must not be sent twice.
    pub(crate) fn take(self: &Rc<Self>, now: Millis, within: Option<Duration>) -> Option<Upstream> {
        let mut idle = self.idle.borrow_mut();
        loop {
            let last = idle.pop()?;
            if let Some(within) = within
                && now.saturating_sub(last.since) > within.as_millis() as u64
            {
                // Everything below it is older.
                idle.push(last);
                return None;
            }
            let alive = last.channel.with(|stream| match within {
                None => stream.is_quiet() || stream.probe_quiet(),
                Some(_) => stream.probe_quiet(),
            });
            if alive {
                return Some(Upstream {
                    channel: last.channel,
                    link: Rc::clone(self),
                    requests: last.requests,
                    widened: Cell::new(last.widened),
                    bare: false,
                });
            }
        }
    }
}

/// Keeps a connection for the next request, if it may be kept.
pub(crate) fn give_back(worker: &Worker, backend: &Backend, upstream: Upstream) {
    let keepalive = &backend.config.keepalive;
    let requests = upstream.requests + 1;
    let used_up = keepalive.max_requests > 0 && requests >= keepalive.max_requests;
    let mut idle = upstream.link.idle.borrow_mut();
    if used_up || upstream.bare || keep_alive_is_off(backend) || idle.len() >= keepalive.max_idle {
        return;
    }
    upstream
        .channel
        .with(|stream| stream.tcp().control().hurry());
    // Its end must be noticed while nobody waits for it.
    let watched = upstream.channel.with(|stream| stream.tcp().watch().is_ok());
    if watched {
        idle.push(Idle {
            channel: upstream.channel,
            since: worker.now(),
            requests,
            widened: upstream.widened.get(),
        });
    }
}

/// Begins a connection to a member, with TLS if the pool has it. Without TLS it may still be under
/// way: the first write finds out. `preface` goes before all else: a PROXY header, or nothing.
pub(crate) async fn open(
    worker: &Worker,
    backend: &Backend,
    member: &Member,
    preface: &[u8],
    from: Option<SocketAddr>,
    deadline: &Deadline,
) -> Result<Upstream, ConnectFailure> {
    let tcp = begin(backend, member, preface, from, deadline).await?;
    finish(worker, backend, member, tcp, true, deadline).await
}

/// The first part of [`open`]: what comes before TLS.
pub(crate) async fn begin(
    backend: &Backend,
    member: &Member,
    preface: &[u8],
    from: Option<SocketAddr>,
    deadline: &Deadline,
) -> Result<Tcp, ConnectFailure> {
    deadline.set(backend.config.timeouts.connect);
    let tcp = Tcp::start_connect(member.address(), &ConnectOptions { from })?;
    if !preface.is_empty() {
        deadline.guard(tcp.write_all(preface)).await??;
    }
    Ok(tcp)
}

/// The second part of [`open`]; unless `encrypts` it does without the pool's TLS.
pub(crate) async fn finish(
    worker: &Worker,
    backend: &Backend,
    member: &Member,
    tcp: Tcp,
    encrypts: bool,
    deadline: &Deadline,
) -> Result<Upstream, ConnectFailure> {
    let stream = match backend.tls.as_ref().filter(|_| encrypts) {
        None => Stream::Plain(tcp),
        Some(context) => Box::pin(open_tls(tcp, backend, member, context, deadline)).await?,
    };
    Ok(Upstream {
        channel: Channel::new(stream),
        link: worker.upstreams.link(backend, member),
        requests: 0,
        widened: Cell::new(false),
        bare: !encrypts && backend.tls.is_some(),
    })
}

async fn open_tls(
    tcp: Tcp,
    backend: &Backend,
    member: &Member,
    context: &Arc<tls::ClientContext>,
    deadline: &Deadline,
) -> Result<Stream, ConnectFailure> {
    let name = match backend.host_names.get(member.name()) {
        Some(host) => ServerName::try_from(host.to_string()).map_err(|_| ConnectFailure::NoName)?,
        None => ServerName::from(member.address().ip()),
    };
    deadline.guard(tcp.connected()).await??;
    Ok(deadline.guard(tls::connect(tcp, &name, context)).await??)
}

fn keep_alive_is_off(backend: &Backend) -> bool {
    backend.keep_idle.is_zero() || backend.config.proxy_protocol != model::ProxyProtocol::Off
}

fn pre_connect(worker: &Rc<Worker>, backend: &Arc<Backend>, member: &Arc<Member>, count: usize) {
    for _ in 0..count {
        let (worker, backend, member) =
            (Rc::clone(worker), Arc::clone(backend), Arc::clone(member));
        reactor::spawn(async move {
            let deadline = Deadline::new();
            let Ok(upstream) = open(&worker, &backend, &member, &[], None, &deadline).await else {
                return;
            };
            let tcp = deadline.guard(upstream.channel.writable()).await;
            let connected = upstream.channel.with(|s| s.tcp().peer_addr().is_ok());
            if matches!(tcp, Ok(Ok(()))) && connected {
                let mut idle = upstream.link.idle.borrow_mut();
                if upstream.channel.with(|s| s.tcp().watch().is_ok()) {
                    // At the bottom: what has served is warmer.
                    idle.insert(
                        0,
                        Idle {
                            channel: upstream.channel,
                            since: worker.now(),
                            requests: 1,
                            widened: false,
                        },
                    );
                }
            }
        });
    }
}
