//! Sending a request to a member, and to another when that one fails.
//!
//! What may be sent again: anything that reached no member; what is idempotent and came whole with
//! its head, when the member gave no byte of an answer or a status on the list. A body that had to
//! be passed on as it came is gone. A connection that was kept and turns out to be closed costs no
//! attempt: the member never saw the request.

use super::choose::select;
use super::edit::Edits;
use super::exchange::{Outcome, Refusal};
use super::facts::Facts;
use super::request::Left;
use super::respond::{Broken, Responded, respond};
use super::ruled::{self, Next};
use super::upload::{self, Upload};
use crate::access::{By, Ending, Phase};
use crate::client::Client;
use crate::counters::add;
use crate::rules::persist::Cookie;
use crate::rules::{Ruled, facts_of};
use crate::snapshot::Backend;
use crate::tunnel;
use crate::upstream::{self, ConnectFailure, Upstream};
use crate::worker::Worker;
use ::rules::event::Event;
use balance::{MemberId, Slot};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wire::h1::{Method, ResponseHead};

/// A request on its way: what all its attempts share.
pub(super) struct Job<'a> {
    pub(super) worker: &'a Rc<Worker>,
    pub(super) client: &'a Client,
    pub(super) backend: &'a Arc<Backend>,
    pub(super) edits: &'a Edits,
    /// The texts of the response's edits.
    pub(super) rendered: Vec<Vec<u8>>,
    pub(super) method: Method,
    /// Whether the client speaks HTTP/1.0.
    pub(super) is_10: bool,
    /// Whether an upgrade was asked for, and may be.
    pub(super) upgrade: bool,
    /// Whether the client's connection may go on after the response.
    pub(super) keep_alive: bool,
    pub(super) hash: Option<u64>,
    /// Whether all of the body was read with the head, so that the request can be repeated.
    pub(super) whole: bool,
    /// The most a body may have; 0 for no limit.
    pub(super) body_limit: u64,
    /// The virtual's rules.
    pub(super) rules: Option<&'a Ruled>,
    /// Only this member will do.
    pub(super) only: Option<MemberId>,
    /// The address that the member is to see.
    pub(super) source: Option<SocketAddr>,
    /// A cookie by which the client comes back to its member.
    pub(super) cookie: RefCell<Option<Cookie>>,
    /// Whether HTTP is left: bytes are relayed from the head on.
    pub(super) raw: bool,
}

/// Why an attempt failed.
pub(super) enum Failed {
    /// A kept connection was closed: another will do.
    Stale,
    /// This member did not do it; another may.
    Member(Refusal, balance::Outcome, Again),
    /// No member will do.
    Final(Refusal),
    /// The client is gone, or the response is broken off: nothing more can be said. How it ended
    /// is noted.
    Broken,
    /// A rule has decided what comes next.
    Ruled(Next),
}

impl From<Next> for Failed {
    fn from(next: Next) -> Self {
        Failed::Ruled(next)
    }
}

/// On what a retry depends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    Connect,
    Reset,
    Timeout,
    Status,
}

/// Has the request served by a member of the pool. `out` is its head, and its body as far as it
/// came with the head; `left` what is still to come.
pub(super) async fn forward(
    job: &Job<'_>,
    response: &mut ResponseHead,
    facts: &mut Facts,
    out: &[u8],
    left: &mut Left,
    rest: &mut Vec<u8>,
) -> Outcome {
    let backend = job.backend;
    let cells = job.client.service.state.counters.of(job.worker.index);
    let mut tried: Vec<MemberId> = Vec::new();
    facts.pool = Some(backend.name.clone());
    loop {
        let slot = match select(job, &tried, facts).await {
            Ok(slot) => slot,
            Err(Failed::Final(refusal)) => {
                return match lb_failed(job).await {
                    Ok(()) => Outcome::Refused(refusal),
                    Err(next) => Outcome::Ruled(next),
                };
            }
            Err(Failed::Ruled(next)) => return Outcome::Ruled(next),
            Err(_) => return Outcome::Broken,
        };
        if let Some(rules) = job.rules {
            let (pool, member) = (backend.name.as_str(), slot.member());
            let seen = ruled::selected(job.worker, job.client, rules, pool, member);
            if let Err(next) = seen.await {
                return Outcome::Ruled(next);
            }
        }
        facts.attempts += 1;
        facts.member = Some(Arc::clone(slot.member()));
        let mut fresh = false;
        let failed = loop {
            match attempt(job, response, facts, out, left, rest, &slot, fresh).await {
                Ok(outcome) => return outcome,
                Err(Failed::Stale) => fresh = true,
                Err(failed) => break failed,
            }
        };
        let (refusal, outcome, again) = match failed {
            Failed::Member(refusal, outcome, again) => (refusal, outcome, again),
            Failed::Final(refusal) => return Outcome::Refused(refusal),
            Failed::Ruled(next) => return Outcome::Ruled(next),
            Failed::Stale | Failed::Broken => return Outcome::Broken,
        };
        slot.member().report(outcome, job.worker.now());
        if again == Again::Connect
            && let Err(next) = lb_failed(job).await
        {
            return Outcome::Ruled(next);
        }
        tried.push(slot.member().id());
        drop(slot);
        if !may_retry(job, facts, again) {
            add(&cells.aborted_by_member, 1);
            return Outcome::Refused(refusal);
        }
        add(&cells.retries, 1);
    }
}

/// Tells the rules that no member could be had.
async fn lb_failed(job: &Job<'_>) -> Result<(), Next> {
    match job.rules {
        None => Ok(()),
        Some(rules) => Box::pin(ruled::failed(job.worker, job.client, rules)).await,
    }
}

/// Whether a failed attempt may be followed by another.
fn may_retry(job: &Job<'_>, facts: &Facts, again: Again) -> bool {
    let on = &job.backend.retry_on;
    let listed = match again {
        Again::Connect => on.connect_failure,
        Again::Reset => on.reset,
        Again::Timeout => on.response_timeout,
        // It was asked when the status came: else the client would have been sent the response.
        Again::Status => return true,
    };
    let repeatable =
        again == Again::Connect || (job.method.is_idempotent() && job.whole && !facts.interim);
    listed
        && repeatable
        && facts.attempts < job.backend.config.retry.attempts
        && job.backend.pool.retry_allowed(job.worker.now())
}

/// Whether a response with that status is left aside and the request sent again.
pub(super) fn may_retry_status(job: &Job<'_>, facts: &Facts, status: u16) -> bool {
    job.backend.retry_on.statuses.contains(&status)
        && job.method.is_idempotent()
        && job.whole
        && !facts.interim
        && facts.attempts < job.backend.config.retry.attempts
        && job.backend.pool.retry_allowed(job.worker.now())
}

#[expect(
    clippy::too_many_arguments,
    reason = "one attempt of a job, taken apart only here"
)]
async fn attempt(
    job: &Job<'_>,
    response: &mut ResponseHead,
    facts: &mut Facts,
    out: &[u8],
    left: &mut Left,
    rest: &mut Vec<u8>,
    slot: &Slot,
    fresh: bool,
) -> Result<Outcome, Failed> {
    let cells = job.client.service.state.counters.of(job.worker.index);
    let upstream = connect(job, slot, fresh).await?;
    facts.phase(|l| &mut l.connect);
    let mut edited = None;
    if let Some(rules) = job.rules {
        edited = Box::pin(connected(job, rules, &upstream, slot, out)).await?;
    }
    let out = edited.as_deref().unwrap_or(out);
    let sent = send(job, &upstream, slot, out).await?;
    if job.raw {
        slot.member().report(balance::Outcome::Ok, job.worker.now());
        return Ok(Box::pin(upgraded(job, &upstream, facts, &[], rest)).await);
    }
    let (upload, responded);
    if left.is_done() || !sent {
        upload = Upload::with_head(sent);
        responded = respond(job, &upstream, slot, response, facts, &upload).await;
    } else {
        upload = Upload::under_way();
        responded = Box::pin(upload::both(
            job, &upstream, slot, response, facts, left, rest, &upload,
        ))
        .await?;
    }
    match responded {
        Ok(Responded::Done { keep, reusable }) => {
            slot.member()
                .report(outcome_of(facts.status), job.worker.now());
            // What is left of a body would be taken for the next request.
            let detached = job.rules.is_some_and(|rules| rules.flow().steering.detach);
            if reusable && upload.is_sent() && job.source.is_none() && !detached {
                upstream::give_back(job.worker, job.backend, upstream);
            } else if let Some(rules) = job.rules {
                server_closed(job, rules).await?;
            }
            if left.is_done() {
                return Ok(Outcome::Served { keep });
            }
            Ok(Outcome::Unread)
        }
        Ok(Responded::Upgraded { early }) => {
            slot.member().report(balance::Outcome::Ok, job.worker.now());
            add(&cells.upgrades, 1);
            Ok(Box::pin(upgraded(job, &upstream, facts, &early, rest)).await)
        }
        Err(broken) => Err(judge(job, facts, &upstream, &upload, slot, broken)),
    }
}

/// Takes a kept connection, or opens one.
async fn connect(job: &Job<'_>, slot: &Slot, fresh: bool) -> Result<Upstream, Failed> {
    let (worker, backend, member) = (job.worker, job.backend, slot.member());
    let cells = job.client.service.state.counters.of(worker.index);
    let now = worker.now();
    let bare = backend.tls.is_some() && job.rules.is_some_and(in_the_clear);
    if !fresh && job.source.is_none() && !job.raw && !bare {
        let repeatable = job.method.is_idempotent() && job.whole;
        let within = (!repeatable).then_some(backend.config.keepalive.unsafe_reuse_within);
        if let Some(kept) = worker.upstreams.link(backend, member).take(now, within) {
            add(&cells.upstream_reuses, 1);
            return Ok(kept);
        }
    }
    add(&cells.upstream_connects, 1);
    let preface = tunnel::proxy_header(job.client, &backend.config.proxy_protocol);
    let deadline = &job.client.deadline;
    let failed = |error| not_open(job, member, error);
    let Some(rules) = job.rules.filter(|_| backend.tls.is_some()) else {
        let opened = upstream::open(worker, backend, member, &preface, job.source, deadline);
        return opened.await.map_err(failed);
    };
    // Rules may leave TLS out up to the moment when it would begin.
    let begun = upstream::begin(backend, member, &preface, job.source, deadline);
    let tcp = begun.await.map_err(failed)?;
    match deadline.guard(tcp.connected()).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => return Err(connect_failed(false)),
        Err(_) => return Err(connect_failed(true)),
    }
    ruled::connected(rules, member.address(), &tcp);
    Box::pin(ruled::raise(
        worker,
        job.client,
        rules,
        Event::ServerConnected,
    ))
    .await?;
    deadline.set(backend.config.timeouts.connect);
    let encrypts = !in_the_clear(rules);
    let opened = upstream::finish(worker, backend, member, tcp, encrypts, deadline);
    opened.await.map_err(failed)
}

/// Whether rules want TLS left out towards the member.
fn in_the_clear(rules: &Ruled) -> bool {
    rules.flow().steering.server_tls_off
}

fn not_open(job: &Job<'_>, member: &balance::Member, error: ConnectFailure) -> Failed {
    let pool = &job.backend.name;
    tracing::debug!(%pool, member = %member.name(), %error, "no connection");
    match error {
        ConnectFailure::Timeout => connect_failed(true),
        // Not the member's fault, and another's connection would fail in the same way.
        error if error.is_own() => {
            Failed::Final(Refusal::new(503, "no-resources").at(By::Resources, Phase::Connect))
        }
        _ => connect_failed(false),
    }
}

fn connect_failed(timeout: bool) -> Failed {
    let refusal = if timeout {
        Refusal::new(504, "connect-timeout").at(By::MemberTimeout, Phase::Connect)
    } else {
        Refusal::new(502, "connect-failed").at(By::Member, Phase::Connect)
    };
    Failed::Member(refusal, balance::Outcome::ConnectError, Again::Connect)
}

/// Tells the rules of the connection to the member and of the request on its way there. Returns what is to be sent
/// instead, where they have changed it.
async fn connected(
    job: &Job<'_>,
    rules: &Ruled,
    upstream: &Upstream,
    slot: &Slot,
    out: &[u8],
) -> Result<Option<Vec<u8>>, Failed> {
    let (worker, client) = (job.worker, job.client);
    let address = slot.member().address();
    upstream
        .channel
        .with(|stream| ruled::connected(rules, address, stream.tcp()));
    if !upstream.is_reused() {
        if rules.wants(Event::ServerConnected) && job.backend.tls.is_none() {
            let stands = client.deadline.guard(upstream.channel.writable());
            let stands = stands.await.map_err(|_| connect_failed(true))?;
            let peer = upstream.channel.with(|s| s.tcp().peer_addr());
            if stands.is_err() || peer.is_err() {
                return Err(connect_failed(false));
            }
            ruled::raise(worker, client, rules, Event::ServerConnected).await?;
        }
        let facts = upstream
            .channel
            .with(|stream| stream.info().map(|info| facts_of(&info)));
        if facts.is_some() {
            rules.flow().server_tls = facts;
            ruled::raise(worker, client, rules, Event::ServersslHandshake).await?;
        }
    }
    let mut edited = None;
    for event in [Event::HttpRequestSend, Event::HttpRequestRelease] {
        if rules.wants(event) {
            let out = edited.get_or_insert_with(|| out.to_vec());
            ruled::send(worker, client, rules, event, out).await?;
        }
    }
    Ok(edited)
}

/// Tells the rules that the connection to the member is no more.
async fn server_closed(job: &Job<'_>, rules: &Ruled) -> Result<(), Failed> {
    let closed = ruled::raise(job.worker, job.client, rules, Event::ServerClosed);
    match closed.await {
        Err(next @ Next::Stop(_)) => Err(next.into()),
        // The response is out: nothing else can come of it.
        _ => Ok(()),
    }
}

/// Sends head and early body. On a new connection this is where it turns out whether it stands.
/// False when the member took a part and no more: it may have an answer all the same.
async fn send(job: &Job<'_>, upstream: &Upstream, slot: &Slot, out: &[u8]) -> Result<bool, Failed> {
    let mut part = out;
    loop {
        let sent = upstream.channel.try_write(part);
        let begun = part.len() < out.len();
        match sent {
            Ok(n) => part = &part[n..],
            Err(_) if begun => return Ok(false),
            Err(_) if upstream.is_reused() => return Err(Failed::Stale),
            Err(_) => return Err(connect_failed(false)),
        }
        if part.is_empty() {
            break;
        }
        // Until a new connection stands, the deadline is the one set for connecting.
        let stands = upstream.is_reused() || part.len() < out.len();
        if stands {
            job.client.deadline.set(job.backend.config.timeouts.idle);
        }
        let writable = job.client.deadline.guard(upstream.channel.writable());
        match writable.await {
            // What became of it, the next write tells.
            Ok(_) => {}
            Err(_) if stands => {
                let refusal =
                    Refusal::new(504, "member-takes-nothing").at(By::MemberTimeout, Phase::Data);
                let outcome = balance::Outcome::Timeout;
                return Err(Failed::Member(refusal, outcome, Again::Timeout));
            }
            Err(_) => return Err(connect_failed(true)),
        }
    }
    let sent = out.len() as u64;
    slot.member().counters().bytes_sent.fetch_add(sent, Relaxed);
    Ok(true)
}

/// Relays an upgraded connection until both sides are done with it.
async fn upgraded(
    job: &Job<'_>,
    upstream: &Upstream,
    facts: &mut Facts,
    early: &[u8],
    rest: &mut Vec<u8>,
) -> Outcome {
    let client = job.client;
    let mut idle = client.service.config.timeouts.tunnel;
    if let Some(rules) = job.rules.filter(|_| !job.raw) {
        // From here on nobody reads requests.
        let left = ruled::raise(job.worker, client, rules, Event::HttpDisabled).await;
        if let Err(Next::Stop(stop)) = left {
            client.channel.with(|stream| stop.mark(stream.tcp()));
            facts.reset = stop.resets();
            facts.ending = Ending::new(By::Proxy, Phase::Data).because(stop.reason());
            return Outcome::Broken;
        }
    }
    idle = job.rules.and_then(Ruled::idle).unwrap_or(idle);
    client.deadline.set(client.service.config.timeouts.send);
    let first = client.deadline.guard(async {
        client.channel.write_all(early).await?;
        upstream.channel.write_all(rest).await
    });
    if !matches!(first.await, Ok(Ok(()))) {
        return Outcome::Served { keep: false };
    }
    facts.bytes_in += rest.len() as u64;
    facts.bytes_out += early.len() as u64;
    rest.clear();
    let counters = &client.service.state.counters;
    let relayed = tunnel::relay(
        job.worker,
        &client.channel,
        &upstream.channel,
        &client.deadline,
        idle,
        counters,
    )
    .await;
    facts.relayed = (relayed.bytes_up, relayed.bytes_down);
    facts.ending = relayed.ending;
    Outcome::Served { keep: false }
}

/// What a response that did not come, or not whole, means for the exchange.
fn judge(
    job: &Job<'_>,
    facts: &mut Facts,
    upstream: &Upstream,
    upload: &Upload,
    slot: &Slot,
    broken: Broken,
) -> Failed {
    let now = job.worker.now();
    let cells = job.client.service.state.counters.of(job.worker.index);
    match broken {
        Broken::NoAnswer
            if upstream.is_reused()
                && job.method.is_idempotent()
                && upload.is_repeatable()
                && !facts.interim =>
        {
            Failed::Stale
        }
        // Members close what is idle, and requests that do not get on. Neither is a sign of
        // trouble, and a client that sends slowly must not put them out of service.
        Broken::NoAnswer if upstream.is_reused() || !(job.whole || upload.is_sent()) => {
            add(&cells.aborted_by_member, 1);
            Failed::Final(Refusal::new(502, "member-reset").at(By::Member, Phase::Header))
        }
        Broken::NoAnswer => Failed::Member(
            Refusal::new(502, "member-reset").at(By::Member, Phase::Header),
            balance::Outcome::Reset,
            Again::Reset,
        ),
        Broken::Timeout => Failed::Member(
            Refusal::new(504, "response-timeout").at(By::MemberTimeout, Phase::Header),
            balance::Outcome::Timeout,
            Again::Timeout,
        ),
        Broken::Bad(reason) => {
            slot.member().report(balance::Outcome::Reset, now);
            add(&cells.aborted_by_member, 1);
            Failed::Final(Refusal::new(502, reason).at(By::Proxy, Phase::Header))
        }
        Broken::Short => {
            slot.member().report(balance::Outcome::Reset, now);
            add(&cells.aborted_by_member, 1);
            Failed::Final(Refusal::new(502, "member-truncated").at(By::Member, Phase::Header))
        }
        Broken::Status(status) => Failed::Member(
            Refusal::new(status, "retried-status").at(By::Member, Phase::Header),
            outcome_of(status),
            Again::Status,
        ),
        Broken::Ruled(next) => Failed::Ruled(next),
        Broken::Truncated => {
            slot.member().report(balance::Outcome::Reset, now);
            add(&cells.aborted_by_member, 1);
            facts.ending = Ending::new(By::Member, Phase::Data);
            Failed::Broken
        }
        Broken::Stalled => {
            slot.member().report(balance::Outcome::Timeout, now);
            add(&cells.aborted_by_member, 1);
            facts.ending = Ending::new(By::MemberTimeout, Phase::Data);
            Failed::Broken
        }
        Broken::ClientGone => {
            add(&cells.aborted_by_client, 1);
            let phase = if facts.begun {
                Phase::Data
            } else {
                Phase::Header
            };
            facts.ending = Ending::new(By::Client, phase);
            Failed::Broken
        }
        Broken::ClientStalled => {
            add(&cells.aborted_by_client, 1);
            facts.ending = Ending::new(By::ClientTimeout, Phase::Data);
            Failed::Broken
        }
    }
}

fn outcome_of(status: u16) -> balance::Outcome {
    if status >= 500 {
        balance::Outcome::Status5xx
    } else {
        balance::Outcome::Ok
    }
}
