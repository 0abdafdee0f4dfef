//! One exchange: a request read, decided, sent to a member or answered here, and its response.

use super::After;
use super::attempt::{self, Job};
use super::facts::{Facts, Logged};
use super::handover;
use super::heads::Heads;
use super::local::{answer, own_answer};
use super::reply::{self, Reply};
use super::report::{note_text, report};
use super::request::{Left, Read, read_head};
use super::route;
use super::ruled::{self, Collected, Next};
use super::sender::{forwarded_client, hash_of, identify};
use super::vars::Vars;
use crate::access::{By, Ending, Phase as LogPhase};
use crate::client::Client;
use crate::counters::add;
use crate::engine::Phase;
use crate::rules::source;
use crate::worker::Worker;
use ::rules::event::Event;
use model::Upgrades;
use reactor::Buf;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use wire::h1::{self, ChunkError, HeadError, Method, Version};

/// Why an exchange gets an answer of Headgate's own instead of a member's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// For counters and logs.
    pub(super) reason: &'static str,
    /// For the client.
    pub(super) text: &'static str,
    pub(super) ending: Ending,
}

impl Refusal {
    pub(super) fn new(status: u16, reason: &'static str) -> Self {
        let by = if status == 408 {
            By::ClientTimeout
        } else {
            By::Proxy
        };
        Refusal {
            status,
            reason,
            text: h1::status_reason(status),
            ending: Ending::new(by, LogPhase::Request),
        }
    }

    pub(super) fn at(mut self, by: By, phase: LogPhase) -> Self {
        self.ending = Ending::new(by, phase);
        self
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Self {
        Refusal::new(error.status(), error.reason())
    }
}

impl From<ChunkError> for Refusal {
    fn from(error: ChunkError) -> Self {
        Refusal::new(error.status(), error.reason()).at(By::Proxy, LogPhase::Data)
    }
}

/// What became of an exchange that was begun.
pub(super) enum Outcome {
    /// Served; `keep` if the client's connection can take the next.
    Served { keep: bool },
    /// Served, but part of the request is still on its way: the connection ends slowly.
    Unread,
    /// Not served, and nothing of a response has gone out.
    Refused(Refusal),
    /// Broken off in the midst: the connection is of no use any more.
    Broken,
    /// A rule has decided what comes next.
    Ruled(Next),
}

/// Serves the next request of a connection.
pub(super) async fn exchange(
    worker: &Rc<Worker>,
    client: &mut Client,
    heads: &mut Heads,
    served: u64,
) -> After {
    if heads.generation != worker.generation() {
        renew(worker, client, heads);
    }
    let mut facts = Facts::new();
    if client.service.log.is_some() {
        facts.logged = Some(Logged::new());
    }
    let (mut buf, mut filled) = match read_head(worker, client, &mut heads.request).await {
        Read::Head(buf, filled) => (buf, filled),
        Read::Ended => return After::Close,
        Read::Broken => {
            facts.ending = Ending::new(By::Client, LogPhase::Request);
            add(
                &client
                    .service
                    .state
                    .counters
                    .of(worker.index)
                    .aborted_by_client,
                1,
            );
            report(worker, client, &facts);
            return After::Close;
        }
        Read::Refused(refusal) => {
            // Of a head that can't be trusted no text is logged.
            return refuse(worker, client, facts, refusal, Method::Get, false).await;
        }
    };
    facts.phase(|l| &mut l.request);
    note_text(&mut facts, &heads.request, &buf);
    let method = heads.request.method;
    let cells = client.service.state.counters.of(worker.index);
    add(&cells.requests, 1);
    let mut rest = Vec::new();
    let mut outer = None;
    let rules = client.rules.clone();
    let outcome = match &rules {
        None => {
            let early = Early::Behind(filled);
            handle(
                worker, client, heads, &mut facts, buf, early, served, &mut rest,
            )
            .await
        }
        Some(rules) => {
            let rules = Rc::clone(rules);
            let seen = ruled::request(
                worker,
                client,
                &rules,
                heads,
                &mut buf,
                &mut filled,
                served,
                true,
            );
            let mut seen = seen.await;
            if let Ok(collected) = seen.as_mut()
                && rules.hands_over()
            {
                let collected = collected.take();
                outer = Some((Arc::clone(&client.service), Rc::clone(&rules)));
                let inner = handover::enter(
                    worker,
                    client,
                    heads,
                    &mut buf,
                    &mut filled,
                    served,
                    collected,
                );
                seen = Box::pin(inner).await;
            }
            match seen {
                Ok(collected) => {
                    let early = match collected {
                        Some(collected) => Early::Collected(Box::new(collected)),
                        None => Early::Behind(filled),
                    };
                    handle(
                        worker, client, heads, &mut facts, buf, early, served, &mut rest,
                    )
                    .await
                }
                Err(next) => {
                    settle(client, heads, &mut facts, &buf, filled, &mut rest);
                    Outcome::Ruled(next)
                }
            }
        }
    };
    let mut outcome = outcome;
    let mut turns = 0;
    while let (Outcome::Ruled(Next::Retry), Some(rules)) = (&outcome, &client.rules) {
        turns += 1;
        if turns > ruled::TURNS {
            break;
        }
        outcome = match ruled::retry(client, rules, heads, facts.settled) {
            Ok((buf, filled)) => {
                let early = Early::Behind(filled);
                let mut none = Vec::new();
                let again = handle(
                    worker, client, heads, &mut facts, buf, early, served, &mut none,
                );
                Box::pin(again).await
            }
            Err(next) => Outcome::Ruled(next),
        };
    }
    client.pending = rest;
    let outcome = match outcome {
        Outcome::Ruled(next) => {
            let settled = facts.settled;
            Box::pin(follow(worker, client, &mut facts, next, method, settled)).await
        }
        outcome => outcome,
    };
    if let Some((service, rules)) = outer {
        handover::leave(client, service, rules);
    }
    match outcome {
        Outcome::Served { keep } => {
            report(worker, client, &facts);
            if keep {
                return After::Next;
            }
            // What the client has sent on must not turn the close into a reset, by which it could
            // lose the end of the response.
            let more = client
                .channel
                .with(|s| s.tcp().is_readable() && !s.tcp().is_hung_up());
            if facts.status != 101 && (more || !client.pending.is_empty()) {
                reply::linger(client).await;
            }
            After::Close
        }
        Outcome::Unread => {
            report(worker, client, &facts);
            reply::linger(client).await;
            After::Close
        }
        Outcome::Refused(refusal) => {
            let keep = facts.settled && worker.phase() == Phase::Running;
            refuse(worker, client, facts, refusal, method, keep).await
        }
        Outcome::Broken => {
            report(worker, client, &facts);
            if (facts.begun && facts.until_close) || facts.reset {
                After::Cut
            } else {
                After::Close
            }
        }
        Outcome::Ruled(_) => After::Close,
    }
}

/// The part of a request's body that is there.
enum Early {
    /// Behind the head in the buffer, up to there.
    Behind(usize),
    /// Held back by rules.
    Collected(Box<Collected>),
}

/// Does what a rule has decided for an exchange that ends with it.
async fn follow(
    worker: &Worker,
    client: &Client,
    facts: &mut Facts,
    next: Next,
    method: Method,
    keep: bool,
) -> Outcome {
    let Some(rules) = &client.rules else {
        return Outcome::Broken;
    };
    facts.ending = match next {
        Next::Answer => {
            let keep = keep && worker.phase() == Phase::Running;
            let Some(answer) = ruled::answer(rules, method, keep) else {
                return Outcome::Broken;
            };
            return reply::send_ruled(worker, client, facts, answer, keep).await;
        }
        Next::Stop(stop) => {
            facts.reset = stop.resets();
            client.channel.with(|stream| stop.mark(stream.tcp()));
            Ending::new(By::Proxy, LogPhase::Request).because(stop.reason())
        }
        Next::BadHead(reason) => {
            tracing::error!(virtual = %client.service.name, reason, "a rule made a head that is none");
            facts.reset = true;
            Ending::new(By::Proxy, LogPhase::Request).because(reason)
        }
        Next::TooLarge => return Outcome::Refused(Refusal::new(413, "body-too-large")),
        Next::Elsewhere | Next::Retry => {
            facts.reset = true;
            Ending::new(By::Proxy, LogPhase::Request).because("rule-loops")
        }
    };
    if let Some(reason) = facts.ending.reason {
        client.service.state.counters.refuse(reason);
    }
    Outcome::Broken
}

/// Finds out whether a request that a rule answers is there as a whole, so that the next one can be read.
fn settle(
    client: &Client,
    heads: &Heads,
    facts: &mut Facts,
    buf: &[u8],
    filled: usize,
    rest: &mut Vec<u8>,
) {
    let head = &heads.request;
    if head.len > filled {
        return;
    }
    let mut body = Left::new(head.framing);
    let Ok(n) = body.take(&buf[head.len..filled]) else {
        return;
    };
    facts.bytes_in = (head.len + n) as u64;
    facts.settled = body.is_done() && head.keep_alive && !heads.gone;
    let _ = client;
    rest.extend_from_slice(&buf[head.len + n..filled]);
}

/// Decides what becomes of a request whose head is at the front of `buf`, and does it. Bytes of
/// the next request are left in `rest`.
#[expect(
    clippy::too_many_arguments,
    reason = "the whole of an exchange, taken apart only here"
)]
async fn handle(
    worker: &Rc<Worker>,
    client: &Client,
    heads: &mut Heads,
    facts: &mut Facts,
    buf: Buf,
    early: Early,
    served: u64,
    rest: &mut Vec<u8>,
) -> Outcome {
    let rules = client.rules.as_deref();
    let host = match rules.map(|rules| ruled::host(worker, rules)) {
        None => None,
        Some(Ok(host)) => host,
        Some(Err(refusal)) => return Outcome::Refused(refusal),
    };
    let service = host.as_deref().unwrap_or(&client.service);
    let head = &heads.request;
    let limits = &service.config.limits;
    let raw = rules.is_some_and(ruled::is_disabled);
    if let Some(rules) = rules.filter(|_| raw)
        && let Err(next) = Box::pin(ruled::raise(worker, client, rules, Event::HttpDisabled)).await
    {
        return Outcome::Ruled(next);
    }
    let mut body = if raw {
        Left::Done
    } else {
        Left::new(head.framing)
    };
    let most = limits.body_bytes.get();
    if body.exceeds(most) {
        return Outcome::Refused(Refusal::new(413, "body-too-large"));
    }
    let (collected, body_end);
    match early {
        Early::Behind(filled) => {
            body_end = match body.take(&buf[head.len..filled]) {
                Ok(n) => head.len + n,
                Err(error) => return Outcome::Refused(error.into()),
            };
            if body.exceeds(most) {
                return Outcome::Refused(Refusal::new(413, "body-too-large"));
            }
            facts.bytes_in = body_end as u64;
            if body_end < filled {
                let mut pending = worker.take_vec();
                pending.extend_from_slice(&buf[body_end..filled]);
                *rest = pending;
            }
            collected = Vec::new();
        }
        Early::Collected(early) => {
            body_end = head.len;
            facts.bytes_in = early.bytes_in;
            *rest = early.rest;
            body = early.left;
            collected = early.body;
        }
    }
    let used_up =
        limits.requests_per_connection > 0 && served + 1 >= limits.requests_per_connection;
    let keep_alive = head.keep_alive
        && !used_up
        && !heads.gone
        && worker.phase() == Phase::Running
        && !rules.is_some_and(ruled::closes);
    facts.settled = keep_alive && body.is_done();
    let decision = route::decide(worker, client, service, head, &buf);
    let mut request_id = Vec::new();
    if let Some(config) = decision.edits.request_id() {
        identify(worker, client, head, &buf, config, &mut request_id);
        if facts.logged.is_some() {
            facts.request_id = String::from_utf8_lossy(&request_id).into_owned();
        }
    }
    let trusted =
        !service.trusted_proxies.is_empty() && service.trusted_proxies.contains(client.peer.ip());
    let client_ip = if trusted {
        forwarded_client(client, head, &buf)
    } else {
        client.peer.ip()
    };
    facts.client_ip = Some(client_ip);
    let vars = Vars {
        client,
        client_ip,
        head,
        buf: &buf,
        request_id: &request_id,
    };
    let destination = match rules.map(|rules| ruled::destination(worker, client, rules)) {
        None | Some(Ok(None)) => None,
        Some(Ok(destination)) => destination,
        Some(Err(refusal)) => return Outcome::Refused(refusal),
    };
    let backend = match &destination {
        Some(destination) => Some(&destination.backend),
        None => decision.backend,
    };
    let Some(backend) = backend else {
        let bytes = own_answer(&decision, &vars);
        let Some(reply) = bytes else {
            return Outcome::Refused(Refusal::new(404, "no-route"));
        };
        return answer(
            worker,
            client,
            facts,
            &reply,
            head.method,
            keep_alive && body.is_done(),
        )
        .await;
    };
    let mut out = worker.take_vec();
    if raw {
        out.extend_from_slice(&buf[..head.len]);
    } else {
        decision.edits.write_request(&mut out, &vars, trusted);
    }
    let upgrade = head.upgrade.filter(|protocol| {
        !raw && limits.upgrades == Upgrades::Allow && body.is_done() && !is_http(protocol.of(&buf))
    });
    if let Some(upgrade) = upgrade {
        h1::push_field(&mut out, "Connection", b"Upgrade");
        h1::push_field(&mut out, "Upgrade", upgrade.of(&buf));
    }
    if head.authority.is_empty() && !decision.edits.sets_host() && !raw {
        // HTTP/1.0 may leave out what HTTP/1.1 must have.
        push_address(&mut out, client.local);
    }
    if !raw {
        h1::finish(&mut out);
    }
    out.extend_from_slice(&buf[head.len..body_end]);
    if raw {
        out.append(rest);
    }
    out.extend_from_slice(&collected);
    drop(collected);
    let hash = hash_of(&backend.config.balance, client_ip, head, &buf);
    let rendered = decision.edits.render_response(&vars);
    let job = Job {
        worker,
        client,
        backend,
        edits: decision.edits,
        rendered,
        method: head.method,
        is_10: head.version == Version::Http10,
        upgrade: upgrade.is_some(),
        keep_alive,
        hash,
        whole: body.is_done(),
        body_limit: most,
        rules,
        only: destination
            .as_ref()
            .and_then(|destination| destination.only),
        source: rules.and_then(source),
        cookie: RefCell::default(),
        raw,
    };
    // From here on nothing of the request's own buffer is needed.
    drop(buf);
    let mut outcome =
        attempt::forward(&job, &mut heads.response, facts, &out, &mut body, rest).await;
    let mut turns = 0;
    while let (Outcome::Ruled(Next::Elsewhere), Some(rules)) = (&outcome, rules) {
        turns += 1;
        if turns > ruled::TURNS {
            break;
        }
        let destination = match ruled::destination(worker, client, rules) {
            Ok(destination) => destination,
            Err(refusal) => {
                outcome = Outcome::Refused(refusal);
                break;
            }
        };
        let backend = destination.as_ref().map(|d| &d.backend);
        let Some(backend) = backend.or(decision.backend) else {
            outcome = Outcome::Refused(Refusal::new(404, "no-route"));
            break;
        };
        let job = Job {
            backend,
            only: destination.as_ref().and_then(|d| d.only),
            source: source(rules),
            rendered: job.rendered.clone(),
            cookie: RefCell::default(),
            ..job
        };
        let again = attempt::forward(&job, &mut heads.response, facts, &out, &mut body, rest);
        outcome = Box::pin(again).await;
    }
    worker.give_vec(out);
    outcome
}

/// Finds the client's virtual in the configuration in force. One that is no longer there serves what
/// comes in on this connection all the same, once: its sender could not know.
fn renew(worker: &Worker, client: &mut Client, heads: &mut Heads) {
    let snapshot = worker.snapshot();
    heads.generation = snapshot.generation;
    match snapshot.virtuals.get(&client.service.name) {
        Some(service) if service.config.protocol == model::Protocol::Http => {
            client.service = service.clone();
        }
        _ => heads.gone = true,
    }
}

/// Answers what is refused, and ends the connection unless `keep`.
async fn refuse(
    worker: &Worker,
    client: &Client,
    mut facts: Facts,
    refusal: Refusal,
    method: Method,
    keep: bool,
) -> After {
    client.service.state.counters.refuse(refusal.reason);
    add(
        &client.service.state.counters.of(worker.index).own_responses,
        1,
    );
    facts.status = refusal.status;
    facts.ending = refusal.ending.because(refusal.reason);
    let text = format!("{} {}\n", refusal.status, refusal.text);
    let mut reply = Reply::text(refusal.status, text.as_bytes());
    if refusal.status == 503 {
        reply.fields.push(("Retry-After", b"1"));
    }
    let (sent, after) = reply.send(client, method, keep).await;
    facts.bytes_out += sent;
    report(worker, client, &facts);
    after
}

/// Whether an upgrade would lead to another HTTP, whose requests would then pass unseen.
pub(super) fn is_http(protocols: &[u8]) -> bool {
    protocols.split(|&b| b == b',').any(|protocol| {
        let name = protocol.trim_ascii();
        let begins =
            |with: &[u8]| name.len() >= with.len() && name[..with.len()].eq_ignore_ascii_case(with);
        begins(b"h2") || begins(b"http") || begins(b"tls")
    })
}

/// A Host field with the address that the client connected to.
fn push_address(out: &mut Vec<u8>, local: SocketAddr) {
    h1::push_field(out, "Host", local.to_string().as_bytes());
}
