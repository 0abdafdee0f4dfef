//! The member that a request goes to: chosen, or waited for in the pool's queue.

use super::attempt::{Failed, Job};
use super::exchange::Refusal;
use super::facts::Facts;
use super::ruled;
use crate::access::{By, Ending, Phase};
use crate::counters::add;
use crate::rules::{method, persist};
use ::rules::event::Event;
use balance::{Ask, MemberId, Pick, Slot, TicketState};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// Chooses a member and takes a unit of it, waiting for one if all that could are full.
pub(super) async fn select(
    job: &Job<'_>,
    tried: &[MemberId],
    facts: &mut Facts,
) -> Result<Slot, Failed> {
    let worker = job.worker;
    let pool = &job.backend.pool;
    let mut only = job.only;
    let mut kept = persist::Remember::Nothing;
    if let Some(rules) = job.rules.filter(|_| only.is_none()) {
        let known;
        (known, kept) = persist::recall(worker, job.backend, job.client.peer.ip(), rules);
        // Where it was tried in vain, another will do, and is remembered in its place.
        only = known.filter(|_| tried.is_empty());
    }
    let mut ask = Ask {
        hash: job.hash,
        random: worker.random(),
        exclude: tried,
        only,
        algorithm: job.rules.and_then(method),
    };
    let mut pick = pool.pick(&ask, worker.now());
    if let Some(rules) = job.rules
        && matches!(pick, Pick::Down)
        && only.is_some()
        && job.only.is_none()
    {
        // The one that the client comes back to is gone.
        ruled::raise(worker, job.client, rules, Event::PersistDown).await?;
        ask.only = None;
        pick = pool.pick(&ask, worker.now());
    }
    if matches!(pick, Pick::Down) && !tried.is_empty() {
        // All that are left were tried: better the same again than none.
        ask.exclude = &[];
        pick = pool.pick(&ask, worker.now());
    }
    let slot = match pick {
        Pick::Slot(slot) => Ok(slot),
        Pick::Down => {
            let refusal = Refusal::new(503, "no-member").at(By::Member, Phase::Connect);
            Err(Failed::Final(refusal))
        }
        Pick::Full => Box::pin(queue(job, facts)).await,
    };
    facts.phase(|l| &mut l.queue);
    if let Ok(slot) = &slot {
        let cookie = persist::remember(worker, job.backend, kept, slot.member());
        job.cookie.replace(cookie);
    }
    slot
}

/// Waits in the pool's queue.
async fn queue(job: &Job<'_>, facts: &mut Facts) -> Result<Slot, Failed> {
    let (worker, pool) = (job.worker, &job.backend.pool);
    let cells = job.client.service.state.counters.of(worker.index);
    let refused = |reason, by| Failed::Final(Refusal::new(503, reason).at(by, Phase::Queue));
    add(&cells.queued, 1);
    if let Some(rules) = job.rules {
        ruled::raise(worker, job.client, rules, Event::LbQueued).await?;
    }
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let mut ticket = pool
        .enqueue(waker, worker.now())
        .map_err(|_| refused("queue-full", By::Resources))?;
    let wait = ticket.deadline().saturating_sub(worker.now()).max(1);
    job.client.deadline.set(Duration::from_millis(wait));
    // Nobody is to wait for a client that has gone. Where that can't be known, it isn't.
    let _ = job.client.channel.with(|stream| stream.tcp().watch());
    let waited = poll_fn(|_| {
        // Asked before the client and the time are: a slot that was granted is used.
        match ticket.poll(worker.now()) {
            TicketState::Granted(slot) => return Poll::Ready(Ok(slot)),
            TicketState::TimedOut => return Poll::Ready(Err(true)),
            TicketState::Waiting => {}
        }
        if job.client.channel.poll_broken().is_ready() {
            return Poll::Ready(Err(false));
        }
        if job.client.deadline.poll_past().is_pending() {
            return Poll::Pending;
        }
        // The two clocks may differ by a part of a millisecond.
        Poll::Ready(match ticket.poll(ticket.deadline()) {
            TicketState::Granted(slot) => Ok(slot),
            _ => Err(true),
        })
    });
    waited.await.map_err(|in_vain| {
        if in_vain {
            return refused("queue-timeout", By::MemberTimeout);
        }
        add(&cells.aborted_by_client, 1);
        facts.ending = Ending::new(By::Client, Phase::Queue);
        Failed::Broken
    })
}
