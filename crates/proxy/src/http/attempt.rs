//! Sending a request to a member, and to another when that one fails.
//!
//! What may be sent again: anything that reached no member; what is idempotent and was sent whole,
//! when the member gave no byte of an answer or a status on the list. A connection that was kept
//! and turns out to be closed costs no attempt: the member never saw the request.

use super::body::{self, PumpEnd};
use super::edit::Edits;
use super::exchange::{Outcome, Refusal};
use super::facts::Facts;
use super::request::{Left, raise};
use super::respond::{Broken, Responded, respond};
use crate::access::{By, Ending, Phase};
use crate::client::Client;
use crate::counters::add;
use crate::events::{Event, Verdict};
use crate::snapshot::Backend;
use crate::tunnel;
use crate::upstream::{self, Upstream};
use crate::worker::Worker;
use balance::{Ask, MemberId, Pick, Slot, TicketState};
use reactor::Deadline;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
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
    /// The head as it came, for handlers; empty where there is none.
    pub(super) raw_head: Vec<u8>,
    /// The most a body may have; 0 for no limit.
    pub(super) body_limit: u64,
    /// How much of it was read with the head.
    pub(super) body_seen: u64,
}

/// Why an attempt failed without anything having gone to the client.
enum Failed {
    /// A kept connection was closed: another will do.
    Stale,
    /// This member did not do it; another may.
    Member(Refusal, balance::Outcome, Again),
    /// No member will do.
    Final(Refusal),
    /// The client is gone, or the response is broken off: nothing more can be said.
    Broken,
}

/// On what a retry depends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
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
    mut left: Left,
    rest: &mut Vec<u8>,
) -> Outcome {
    let backend = job.backend;
    let cells = job.client.service.state.counters.of(job.worker.index);
    let mut tried: Vec<MemberId> = Vec::new();
    facts.pool = Some(backend.name.clone());
    loop {
        let slot = match select(job, &tried, facts).await {
            Ok(slot) => slot,
            Err(refusal) => return Outcome::Refused(refusal),
        };
        facts.attempts += 1;
        facts.member = Some(Arc::clone(slot.member()));
        let mut fresh = false;
        let failed = loop {
            match attempt(job, response, facts, out, &mut left, rest, &slot, fresh).await {
                Ok(outcome) => return outcome,
                Err(Failed::Stale) => fresh = true,
                Err(failed) => break failed,
            }
        };
        let (refusal, outcome, again) = match failed {
            Failed::Member(refusal, outcome, again) => (refusal, outcome, again),
            Failed::Final(refusal) => return Outcome::Refused(refusal),
            Failed::Stale | Failed::Broken => return Outcome::Broken,
        };
        slot.member().report(outcome, job.worker.now());
        let verdict = raise(
            job.client,
            Event::MemberFailed,
            &job.raw_head,
            Some(slot.member().name()),
            refusal.status,
        );
        match verdict.await {
            Verdict::Continue => {}
            Verdict::Answer(status) => return Outcome::Refused(Refusal::new(status, "handler")),
            Verdict::Close => return Outcome::Broken,
        }
        tried.push(slot.member().id());
        drop(slot);
        if !may_retry(job, facts, &left, again) {
            add(&cells.aborted_by_member, 1);
            return Outcome::Refused(refusal);
        }
        add(&cells.retries, 1);
    }
}

/// Chooses a member and takes a unit of it, waiting for one if all that could are full.
async fn select(job: &Job<'_>, tried: &[MemberId], facts: &mut Facts) -> Result<Slot, Refusal> {
    let worker = job.worker;
    let pool = &job.backend.pool;
    let mut ask = Ask {
        hash: job.hash,
        random: worker.random(),
        exclude: tried,
        only: None,
    };
    let down = || Refusal::new(503, "no-member").at(By::Member, Phase::Connect);
    let mut pick = pool.pick(&ask, worker.now());
    if matches!(pick, Pick::Down) && !tried.is_empty() {
        // All that are left were tried: better the same again than none.
        ask.exclude = &[];
        pick = pool.pick(&ask, worker.now());
    }
    let slot = match pick {
        Pick::Slot(slot) => slot,
        Pick::Down => return Err(down()),
        Pick::Full => queue(job).await?,
    };
    facts.phase(|l| &mut l.queue);
    Ok(slot)
}

/// Waits in the pool's queue.
async fn queue(job: &Job<'_>) -> Result<Slot, Refusal> {
    let (worker, pool) = (job.worker, &job.backend.pool);
    let cells = job.client.service.state.counters.of(worker.index);
    add(&cells.queued, 1);
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let full = |_| Refusal::new(503, "queue-full").at(By::Resources, Phase::Queue);
    let mut ticket = pool.enqueue(waker, worker.now()).map_err(full)?;
    let wait = ticket.deadline().saturating_sub(worker.now()).max(1);
    job.client.deadline.set(Duration::from_millis(wait));
    poll_fn(|_| {
        match ticket.poll(worker.now()) {
            TicketState::Granted(slot) => return Poll::Ready(Ok(slot)),
            TicketState::TimedOut => {}
            TicketState::Waiting => {
                if job.client.channel.with(|s| s.tcp().is_broken()) {
                    return Poll::Ready(Err(
                        Refusal::new(503, "client-gone").at(By::Client, Phase::Queue)
                    ));
                }
                if job.client.deadline.poll_past().is_pending() {
                    return Poll::Pending;
                }
                if let TicketState::Granted(slot) = ticket.poll(worker.now() + 1) {
                    return Poll::Ready(Ok(slot));
                }
            }
        }
        Poll::Ready(Err(
            Refusal::new(503, "queue-timeout").at(By::MemberTimeout, Phase::Queue)
        ))
    })
    .await
}

/// Whether a failed attempt may be followed by another.
fn may_retry(job: &Job<'_>, facts: &Facts, left: &Left, again: Again) -> bool {
    let on = &job.backend.retry_on;
    let listed = match again {
        Again::Connect => on.connect_failure,
        Again::Reset => on.reset,
        Again::Timeout => on.response_timeout,
        // Only what is on the list fails by its status.
        Again::Status => true,
    };
    let repeatable = again == Again::Connect || (job.method.is_idempotent() && left.is_done());
    listed
        && repeatable
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
    if job.client.service.handler.is_some() {
        handle_selected(job, slot).await?;
    }
    send(job, &upstream, slot, out).await?;
    let pumping = Cell::new(!left.is_done());
    let responded = if left.is_done() {
        respond(
            job,
            &upstream,
            slot,
            response,
            facts,
            &pumping,
            may_retry_status(job, facts),
        )
        .await
    } else {
        Box::pin(both(
            job, &upstream, slot, response, facts, left, rest, &pumping,
        ))
        .await?
    };
    match responded {
        Ok(Responded::Done { keep, reusable }) => {
            slot.member()
                .report(outcome_of(facts.status), job.worker.now());
            if reusable && left.is_done() {
                upstream::give_back(job.worker, job.backend, upstream);
            }
            if left.is_done() {
                return Ok(Outcome::Served { keep });
            }
            Ok(Outcome::Unread)
        }
        Ok(Responded::Upgraded { early }) => {
            slot.member().report(balance::Outcome::Ok, job.worker.now());
            add(&cells.upgrades, 1);
            Box::pin(upgraded(job, &upstream, facts, &early, rest)).await;
            Ok(Outcome::Served { keep: false })
        }
        Err(broken) => Err(judge(job, facts, &upstream, slot, broken)),
    }
}

/// Takes a kept connection, or opens one.
async fn connect(job: &Job<'_>, slot: &Slot, fresh: bool) -> Result<Upstream, Failed> {
    let (worker, backend, member) = (job.worker, job.backend, slot.member());
    let cells = job.client.service.state.counters.of(worker.index);
    let now = worker.now();
    if !fresh {
        let within =
            (!job.method.is_idempotent()).then_some(backend.config.keepalive.unsafe_reuse_within);
        if let Some(kept) = worker.upstreams.link(backend, member).take(now, within) {
            add(&cells.upstream_reuses, 1);
            return Ok(kept);
        }
    }
    add(&cells.upstream_connects, 1);
    let preface = tunnel::proxy_header(job.client, &backend.config.proxy_protocol);
    match upstream::open(worker, backend, member, &preface, &job.client.deadline).await {
        Ok(upstream) => Ok(upstream),
        Err(error) => {
            tracing::debug!(pool = %backend.name, member = %member.name(), %error, "no connection");
            Err(connect_failed(matches!(
                error,
                upstream::ConnectFailure::Timeout
            )))
        }
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

async fn handle_selected(job: &Job<'_>, slot: &Slot) -> Result<(), Failed> {
    for event in [Event::MemberSelected, Event::HttpRequestSend] {
        let member = Some(&**slot.member().name());
        match raise(job.client, event, &job.raw_head, member, 0).await {
            Verdict::Continue => {}
            Verdict::Answer(status) => return Err(Failed::Final(Refusal::new(status, "handler"))),
            Verdict::Close => return Err(Failed::Broken),
        }
    }
    Ok(())
}

/// Sends head and early body. On a new connection this is where it turns out whether it stands.
async fn send(job: &Job<'_>, upstream: &Upstream, slot: &Slot, out: &[u8]) -> Result<(), Failed> {
    let mut part = out;
    while !part.is_empty() {
        match upstream.channel.try_write(part) {
            Ok(0) => {
                // The deadline is the one set for connecting; a kept connection gets its own.
                if upstream.is_reused() {
                    job.client.deadline.set(job.backend.config.timeouts.idle);
                }
                let writable = job.client.deadline.guard(upstream.channel.writable());
                match writable.await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Err(send_failed(upstream)),
                    Err(_) => return Err(connect_failed(true)),
                }
            }
            Ok(n) => part = &part[n..],
            Err(_) => return Err(send_failed(upstream)),
        }
    }
    slot.member()
        .counters()
        .bytes_sent
        .fetch_add(out.len() as u64, std::sync::atomic::Ordering::Relaxed);
    Ok(())
}

fn send_failed(upstream: &Upstream) -> Failed {
    if upstream.is_reused() {
        Failed::Stale
    } else {
        connect_failed(false)
    }
}

/// Sends on the rest of the body while the response is waited for and relayed.
#[expect(clippy::too_many_arguments, reason = "both halves of an attempt")]
async fn both(
    job: &Job<'_>,
    upstream: &Upstream,
    slot: &Slot,
    response: &mut ResponseHead,
    facts: &mut Facts,
    left: &mut Left,
    rest: &mut Vec<u8>,
    pumping: &Cell<bool>,
) -> Result<Result<Responded, Broken>, Failed> {
    let pump_deadline = Deadline::new();
    let received = Cell::new(0u64);
    let begun = Cell::new(false);
    let ended = {
        let mut pump = pin!(body::pump(
            job,
            upstream,
            left,
            rest,
            &pump_deadline,
            &received
        ));
        let mut answer = pin!(async {
            let responded = respond(job, upstream, slot, response, facts, pumping, false).await;
            begun.set(facts.begun);
            responded
        });
        poll_fn(|cx| {
            if pumping.get()
                && let Poll::Ready(ended) = pump.as_mut().poll(cx)
            {
                match ended {
                    // A member that takes no more may still have an answer.
                    Ok(()) | Err(PumpEnd::MemberGone) => {
                        pumping.set(false);
                        job.client
                            .deadline
                            .set(job.backend.config.timeouts.response);
                    }
                    Err(end) => return Poll::Ready(Err(end)),
                }
            }
            answer.as_mut().poll(cx).map(Ok)
        })
        .await
    };
    facts.bytes_in += received.get();
    match ended {
        Ok(responded) => Ok(responded),
        Err(end) => {
            let refusal = match end {
                PumpEnd::ClientGone | PumpEnd::MemberGone => {
                    facts.ending = Ending::new(By::Client, Phase::Data);
                    let cells = job.client.service.state.counters.of(job.worker.index);
                    add(&cells.aborted_by_client, 1);
                    return Err(Failed::Broken);
                }
                PumpEnd::ClientTimeout => {
                    Refusal::new(408, "body-timeout").at(By::ClientTimeout, Phase::Data)
                }
                PumpEnd::MemberTimeout => {
                    Refusal::new(504, "member-takes-nothing").at(By::MemberTimeout, Phase::Data)
                }
                PumpEnd::TooLarge => Refusal::new(413, "body-too-large"),
                PumpEnd::Chunks(error) => error.into(),
            };
            if facts.begun {
                facts.ending = refusal.ending;
                return Err(Failed::Broken);
            }
            Err(Failed::Final(refusal))
        }
    }
}

/// Relays an upgraded connection until both sides are done with it.
async fn upgraded(
    job: &Job<'_>,
    upstream: &Upstream,
    facts: &mut Facts,
    early: &[u8],
    rest: &mut Vec<u8>,
) {
    let (client, idle) = (job.client, job.client.service.config.timeouts.tunnel);
    client.deadline.set(client.service.config.timeouts.send);
    let first = client.deadline.guard(async {
        client.channel.write_all(early).await?;
        upstream.channel.write_all(rest).await
    });
    if !matches!(first.await, Ok(Ok(()))) {
        return;
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
}

/// What a response that did not come, or not whole, means for the exchange.
fn judge(
    job: &Job<'_>,
    facts: &mut Facts,
    upstream: &Upstream,
    slot: &Slot,
    broken: Broken,
) -> Failed {
    let now = job.worker.now();
    let cells = job.client.service.state.counters.of(job.worker.index);
    match broken {
        Broken::NoAnswer if upstream.is_reused() && job.method.is_idempotent() => Failed::Stale,
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
        Broken::Status(status) => Failed::Member(
            Refusal::new(status, "retried-status").at(By::Member, Phase::Header),
            balance::Outcome::Status5xx,
            Again::Status,
        ),
        Broken::ByHandler(status) if !facts.begun && status > 0 => {
            Failed::Final(Refusal::new(status, "handler"))
        }
        Broken::ByHandler(_) => Failed::Broken,
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

/// Whether a status on the list leads to another attempt, so far as is known before it comes.
fn may_retry_status(job: &Job<'_>, facts: &Facts) -> bool {
    !job.backend.retry_on.statuses.is_empty()
        && job.method.is_idempotent()
        && facts.attempts < job.backend.config.retry.attempts
}

fn outcome_of(status: u16) -> balance::Outcome {
    if status >= 500 {
        balance::Outcome::Status5xx
    } else {
        balance::Outcome::Ok
    }
}
