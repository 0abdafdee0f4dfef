//! TCP virtuals: a member for each connection, by the server name where TLS tells one, and then bytes both ways.
//!
//! TLS that passes through is read only as far as its ClientHello. How members are chosen is left to `balance`, how bytes
//! are moved to `tunnel`.

use crate::access::{By, Ending, Phase as LogPhase, Record};
use crate::client::{Channel, Client};
use crate::counters::{Cells, add};
use crate::engine::Phase;
use crate::prelude;
use crate::rules::{Stop, method, persist, source};
use crate::snapshot::{Backend, Virtual};
use crate::tunnel::{self, End, Side};
use crate::upstream::ConnectFailure;
use crate::worker::Worker;
use ::rules::event::Event;
use balance::{Ask, Member, MemberId, Outcome, Pick, Slot, TicketState};
use reactor::{Buf, ConnectOptions, Elapsed, Tcp};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};
use tls::{ServerName, Stream};
use tracing::debug;
use wire::client_hello::HelloError;

mod hello;
mod ruled;

use hello::{Alert, NoHello, alert, hello};

/// Serves a connection of a TCP virtual, whose TLS, if any, has ended here.
pub(crate) async fn serve(worker: Rc<Worker>, mut client: Client) {
    let mut notes = Notes::new(&client);
    let backend = client.channel.with(|stream| {
        let name = stream.info().and_then(|info| info.sni);
        backend_for(&client.service, name).cloned()
    });
    let ending = match (&client.rules, backend) {
        (Some(_), backend) => {
            Box::pin(ruled::serve(&worker, &mut client, backend, &mut notes)).await
        }
        (None, Some(backend)) => converse(&worker, &client, &backend, &mut notes).await,
        (None, None) => refused("no-pool", By::Proxy, LogPhase::Request),
    };
    let over_tls = !client.channel.is_plain();
    let protocol = if over_tls { "tls" } else { "tcp" };
    conclude(&worker, &client, &notes, protocol, ending).await;
}

/// Serves a connection whose TLS is passed on as it is.
pub(crate) async fn serve_passthrough(worker: Rc<Worker>, mut client: Client) {
    let mut notes = Notes::new(&client);
    client.deadline.set(client.service.config.timeouts.head);
    let ending = match hello(&client.channel, &client.deadline, &mut client.pending).await {
        Ok(hello) => {
            let backend = backend_for(&client.service, hello.server_name.as_deref()).cloned();
            notes.server_name = hello.server_name;
            match backend {
                backend if client.rules.is_some() => {
                    let hello: Rc<[u8]> = client.pending.as_slice().into();
                    if let Some(rules) = &client.rules {
                        rules.flow().client_hello = Some(hello);
                    }
                    Box::pin(ruled::serve(&worker, &mut client, backend, &mut notes)).await
                }
                Some(backend) => converse(&worker, &client, &backend, &mut notes).await,
                None => {
                    alert(&client.channel, Alert::UnrecognizedName);
                    refused("unrecognized-name", By::Proxy, LogPhase::Request)
                }
            }
        }
        Err(error) => {
            if let NoHello::Bad(error) = error
                && error != HelloError::NotTls
            {
                alert(&client.channel, Alert::DecodeError);
            }
            debug!(virtual = %client.service.name, peer = %client.peer, %error, "no ClientHello");
            error.ending()
        }
    };
    conclude(&worker, &client, &notes, "tls-passthrough", ending).await;
}

/// What is noted of a connection for its log.
struct Notes {
    at: SystemTime,
    begin: Instant,
    server_name: Option<String>,
    backend: Option<Arc<Backend>>,
    member: Option<Arc<Member>>,
    attempts: u32,
    /// How often rules have handed it to another virtual.
    handed: u32,
    queue: Duration,
    connect: Duration,
    bytes_in: u64,
    bytes_out: u64,
}

impl Notes {
    fn new(client: &Client) -> Self {
        Notes {
            at: match client.service.log {
                Some(_) => SystemTime::now(),
                None => SystemTime::UNIX_EPOCH,
            },
            begin: Instant::now(),
            server_name: None,
            backend: None,
            member: None,
            attempts: 0,
            handed: 0,
            queue: Duration::ZERO,
            connect: Duration::ZERO,
            bytes_in: 0,
            bytes_out: 0,
        }
    }
}

/// The backend for a server name: the first route that has it, or else the virtual's pool.
fn backend_for<'a>(service: &'a Virtual, name: Option<&str>) -> Option<&'a Arc<Backend>> {
    let routed = service.sni_routes.iter().find(|(patterns, _)| {
        patterns.iter().any(|pattern| match name {
            Some(name) => pattern.matches(name),
            None => *pattern == model::HostPattern::Any,
        })
    });
    routed
        .map(|(_, backend)| backend)
        .or(service.default.as_ref())
}

/// Finds a member and relays until the end.
async fn converse(
    worker: &Worker,
    client: &Client,
    backend: &Arc<Backend>,
    notes: &mut Notes,
) -> Ending {
    notes.backend = Some(Arc::clone(backend));
    let (slot, member) = match reach(worker, client, backend, notes, None).await {
        Ok(reached) => reached,
        Err(NotReached::Ended(ending)) => return ending,
        Err(NotReached::Elsewhere) => return refused("rule-loops", By::Proxy, LogPhase::Connect),
    };
    relay(worker, client, &slot, &member, notes).await
}

/// After how long without a byte a connection is closed.
fn idle(client: &Client) -> Duration {
    let ruled = client.rules.as_ref().and_then(|rules| rules.idle());
    ruled.unwrap_or(client.service.config.timeouts.tunnel)
}

/// Relays between a client and its member until the end.
async fn relay(
    worker: &Worker,
    client: &Client,
    slot: &Slot,
    member: &Channel,
    notes: &mut Notes,
) -> Ending {
    let cells = cells(worker, client);
    let counters = slot.member().counters();
    let relayed = tunnel::relay_counting(
        &client.channel,
        member,
        &client.deadline,
        idle(client),
        || worker.phase() == Phase::Stopping,
        |up, down| {
            add(&cells.bytes_in, up);
            add(&cells.bytes_out, down);
            counters.bytes_sent.fetch_add(up, Relaxed);
            counters.bytes_received.fetch_add(down, Relaxed);
        },
    )
    .await;
    notes.bytes_in += relayed.bytes_up;
    notes.bytes_out += relayed.bytes_down;
    let outcome = match relayed.end {
        End::Broken(Side::Member) => {
            add(&cells.aborted_by_member, 1);
            Outcome::Reset
        }
        End::Broken(Side::Client) => {
            add(&cells.aborted_by_client, 1);
            Outcome::Ok
        }
        End::Done | End::Idle(_) | End::Stopped => Outcome::Ok,
    };
    slot.member().report(outcome, worker.now());
    relayed.ending
}

/// Opens a connection to a member, to another one if that fails, and sends what is to be sent first.
async fn reach(
    worker: &Worker,
    client: &Client,
    backend: &Arc<Backend>,
    notes: &mut Notes,
    only: Option<MemberId>,
) -> Result<(Slot, Channel), NotReached> {
    let cells = cells(worker, client);
    // What the client has said already goes along, and finds out whether the connection stands.
    let first =
        first_bytes(worker, client).map_err(|_| Ending::new(By::Client, LogPhase::Request))?;
    let mut tried = Vec::new();
    loop {
        let begin = Instant::now();
        let slot = match select(worker, client, backend, &tried, only).await {
            Ok(slot) => slot,
            Err(NotReached::Elsewhere) => return Err(NotReached::Elsewhere),
            Err(NotReached::Ended(ending)) => {
                lb_failed(worker, client).await?;
                return Err(ending.into());
            }
        };
        let selected = Instant::now();
        notes.queue += selected - begin;
        notes.attempts += 1;
        notes.member = Some(Arc::clone(slot.member()));
        if let Some(rules) = &client.rules {
            ruled::select(rules, &backend.name, slot.member());
            raise(worker, client, Event::LbSelected).await?;
            if ruled::reselects(rules) {
                return Err(NotReached::Elsewhere);
            }
        }
        add(&cells.upstream_connects, 1);
        let opened = open(worker, client, backend, slot.member(), &first).await;
        notes.connect += selected.elapsed();
        let error = match opened {
            Ok(channel) => {
                let sent = first.len() as u64;
                notes.bytes_in += sent;
                add(&cells.bytes_in, sent);
                slot.member().counters().bytes_sent.fetch_add(sent, Relaxed);
                worker.give_vec(first);
                return Ok((slot, channel));
            }
            Err(NotOpen::Connect(error)) => error,
            Err(NotOpen::Ended(ending)) => return Err(ending.into()),
        };
        let (pool, member, now) = (&backend.name, slot.member(), worker.now());
        debug!(%pool, member = %member.name(), %error, "no connection");
        member.report(Outcome::ConnectError, now);
        lb_failed(worker, client).await?;
        tried.push(member.id());
        drop(slot);
        let retries = backend.retry_on.connect_failure
            && notes.attempts < backend.config.retry.attempts
            && worker.phase() != Phase::Stopping
            && backend.pool.retry_allowed(now);
        if !retries {
            add(&cells.aborted_by_member, 1);
            let ending = match error {
                ConnectFailure::Timeout => {
                    refused("connect-timeout", By::MemberTimeout, LogPhase::Connect)
                }
                _ => refused("connect-failed", By::Member, LogPhase::Connect),
            };
            return Err(ending.into());
        }
        add(&cells.retries, 1);
    }
}

/// Why there is no connection to a member.
enum NotReached {
    Ended(Ending),
    /// A rule wants another member.
    Elsewhere,
}

impl From<Ending> for NotReached {
    fn from(ending: Ending) -> Self {
        NotReached::Ended(ending)
    }
}

/// Tells the rules that a member could not be had.
async fn lb_failed(worker: &Worker, client: &Client) -> Result<(), NotReached> {
    let Some(rules) = &client.rules else {
        return Ok(());
    };
    raise(worker, client, Event::LbFailed).await?;
    if ruled::reselects(rules) {
        return Err(NotReached::Elsewhere);
    }
    Ok(())
}

/// Chooses a member and takes a unit of it, waiting for one if all that could are full.
async fn select(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    tried: &[MemberId],
    only: Option<MemberId>,
) -> Result<Slot, NotReached> {
    let rules = client.rules.as_deref();
    let (mut known, mut kept) = (None, persist::Remember::Nothing);
    if let Some(rules) = rules.filter(|_| only.is_none()) {
        (known, kept) = persist::recall(worker, backend, client.peer.ip(), rules);
        // Where it was tried in vain, another will do, and is remembered in its place.
        known = known.filter(|_| tried.is_empty());
    }
    let mut ask = Ask {
        hash: Some(balance::hash_addr(client.peer.ip())),
        random: worker.random(),
        exclude: tried,
        only: only.or(known),
        algorithm: rules.and_then(method),
    };
    let mut pick = backend.pool.pick(&ask, worker.now());
    if matches!(pick, Pick::Down) && known.is_some() {
        // The one that the client comes back to is gone.
        raise(worker, client, Event::PersistDown).await?;
        ask.only = None;
        pick = backend.pool.pick(&ask, worker.now());
    }
    if matches!(pick, Pick::Down) && !tried.is_empty() {
        // All that are left were tried: better the same again than none.
        ask.exclude = &[];
        pick = backend.pool.pick(&ask, worker.now());
    }
    let slot = match pick {
        Pick::Slot(slot) => slot,
        Pick::Down => return Err(refused("no-member", By::Member, LogPhase::Connect).into()),
        Pick::Full => {
            raise(worker, client, Event::LbQueued).await?;
            Box::pin(queue(worker, client, backend)).await?
        }
    };
    // Of cookies there are none here.
    let _ = persist::remember(worker, backend, kept, slot.member());
    Ok(slot)
}

/// Waits in the pool's queue.
async fn queue(worker: &Worker, client: &Client, backend: &Backend) -> Result<Slot, Ending> {
    add(&cells(worker, client).queued, 1);
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let mut ticket = backend
        .pool
        .enqueue(waker, worker.now())
        .map_err(|_| refused("queue-full", By::Resources, LogPhase::Queue))?;
    let wait = ticket.deadline().saturating_sub(worker.now()).max(1);
    client.deadline.set(Duration::from_millis(wait));
    // Its end is to be noticed while nobody reads from it.
    let _ = client.channel.with(|stream| stream.tcp().watch());
    poll_fn(|_| {
        match ticket.poll(worker.now()) {
            TicketState::Granted(slot) => return Poll::Ready(Ok(slot)),
            TicketState::TimedOut => {}
            TicketState::Waiting => {
                if worker.phase() == Phase::Stopping {
                    return Poll::Ready(Err(Ending::new(By::Killed, LogPhase::Queue)));
                }
                if client.channel.with(|s| s.tcp().poll_broken()).is_ready() {
                    return Poll::Ready(Err(Ending::new(By::Client, LogPhase::Queue)));
                }
                if client.deadline.poll_past().is_pending() {
                    return Poll::Pending;
                }
            }
        }
        let ending = refused("queue-timeout", By::MemberTimeout, LogPhase::Queue);
        Poll::Ready(Err(ending))
    })
    .await
}

/// The most that is read of a client before there is a member to hear it.
const FIRST: usize = 16 * 1024;

/// What a member may send ahead, bytes. Each connection is new here and would begin with a small window, and every part of
/// an answer that the member sends only when it is told of room costs a round trip and both ends a wake-up.
const WINDOW: u32 = 1024 * 1024;

/// What a client has said before there is a member to hear it, as far as it is there.
fn first_bytes(worker: &Worker, client: &Client) -> io::Result<Vec<u8>> {
    let mut first = worker.take_vec();
    first.extend_from_slice(&client.pending);
    if first.is_empty() {
        let mut buf = Buf::take();
        // An end of data is found again by the tunnel.
        if let Some(n) = client.channel.try_read(&mut buf[..FIRST])? {
            first.extend_from_slice(&buf[..n]);
        }
    }
    Ok(first)
}

/// Opens a connection to a member, within the pool's time, and sends it the first bytes.
async fn open(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    member: &Member,
    first: &[u8],
) -> Result<Channel, NotOpen> {
    let deadline = &client.deadline;
    deadline.set(backend.config.timeouts.connect);
    let from = client.rules.as_deref().and_then(source);
    let tcp = Tcp::start_connect(member.address(), &ConnectOptions { from })?;
    tcp.widen(WINDOW);
    let mut header = prelude::proxy_header(client, &backend.config.proxy_protocol);
    let mut context = backend.tls.as_ref();
    if let Some(rules) = client.rules.as_deref().filter(|_| context.is_some()) {
        // Rules may leave TLS out up to the moment when it would begin.
        deadline.guard(tcp.connected()).await??;
        let seen = Box::pin(ruled::connected(worker, client, rules, &tcp, member));
        seen.await.map_err(|stop| stopped(client, stop))?;
        context = context.filter(|_| !rules.flow().steering.server_tls_off);
        deadline.set(backend.config.timeouts.connect);
    }
    if let Some(context) = context {
        let shaken = Box::pin(open_tls(tcp, backend, member, context, &header));
        let channel = Channel::new(deadline.guard(shaken).await??);
        deadline.guard(channel.write_all(first)).await??;
        deadline.guard(channel.flush()).await??;
        return Ok(channel);
    }
    let opening = if header.is_empty() {
        first
    } else {
        header.extend_from_slice(first);
        &header
    };
    if opening.is_empty() {
        deadline.guard(tcp.connected()).await??;
    } else {
        deadline.guard(tcp.write_all(opening)).await??;
    }
    Ok(Channel::new(Stream::Plain(tcp)))
}

/// Why there is no connection.
enum NotOpen {
    Connect(ConnectFailure),
    Ended(Ending),
}

impl From<io::Error> for NotOpen {
    fn from(error: io::Error) -> Self {
        NotOpen::Connect(error.into())
    }
}

impl From<Elapsed> for NotOpen {
    fn from(error: Elapsed) -> Self {
        NotOpen::Connect(error.into())
    }
}

impl From<ConnectFailure> for NotOpen {
    fn from(error: ConnectFailure) -> Self {
        NotOpen::Connect(error)
    }
}

impl From<Ending> for NotOpen {
    fn from(ending: Ending) -> Self {
        NotOpen::Ended(ending)
    }
}

async fn open_tls(
    tcp: Tcp,
    backend: &Backend,
    member: &Member,
    context: &Arc<tls::ClientContext>,
    header: &[u8],
) -> Result<Stream, ConnectFailure> {
    let name = match backend.host_names.get(member.name()) {
        Some(host) => ServerName::try_from(host.to_string()).map_err(|_| ConnectFailure::NoName)?,
        None => ServerName::from(member.address().ip()),
    };
    tcp.connected().await?;
    tcp.write_all(header).await?;
    Ok(tls::connect(tcp, &name, context).await?)
}

/// Runs the virtual's rules at an event. They have no answer but to end the connection.
async fn raise(worker: &Worker, client: &Client, event: Event) -> Result<(), Ending> {
    let Some(rules) = &client.rules else {
        return Ok(());
    };
    let gone = || client.channel.is_gone();
    let raised = Box::pin(rules.raise(worker, event, &gone));
    raised.await.map_err(|stop| stopped(client, stop))
}

/// Ends a connection as its rules say.
fn stopped(client: &Client, stop: Stop) -> Ending {
    client.channel.with(|stream| stop.mark(stream.tcp()));
    let by = if stop == Stop::Gone {
        By::Client
    } else {
        By::Proxy
    };
    refused(stop.reason(), by, LogPhase::Request)
}

/// Counts and logs a connection that is over.
async fn conclude(worker: &Worker, client: &Client, notes: &Notes, protocol: &str, ending: Ending) {
    let service = &client.service;
    if let Some(reason) = ending.reason {
        service.state.counters.refuse(reason);
    }
    if let Some(rules) = &client.rules {
        Box::pin(rules.close(worker)).await;
    }
    let Some(log) = &service.log else { return };
    if !log.wants(worker.random(), ending.is_own_error()) {
        return;
    }
    let micros = |time: Duration| time.as_micros() as u64;
    client.channel.with(|stream| {
        log.write(&Record {
            protocol,
            host: notes.server_name.as_deref().unwrap_or_default().as_bytes(),
            bytes_in: notes.bytes_in,
            bytes_out: notes.bytes_out,
            pool: notes.backend.as_ref().map(|backend| backend.name.as_str()),
            member: notes.member.as_ref().map(|member| &**member.name()),
            attempts: notes.attempts,
            tls: stream.info().as_ref(),
            queue_us: micros(notes.queue),
            connect_us: micros(notes.connect),
            total_us: micros(notes.begin.elapsed()),
            ending,
            ..Record::new(notes.at, &service.name, client.peer, client.local)
        });
    });
}

fn cells<'a>(worker: &Worker, client: &'a Client) -> &'a Cells {
    client.service.state.counters.of(worker.index)
}

fn refused(reason: &'static str, by: By, phase: LogPhase) -> Ending {
    Ending::new(by, phase).because(reason)
}
