//! A request's body on its way to the member, while the response is awaited and relayed beside it.

use super::Turns;
use super::attempt::{Failed, Job};
use super::body::{READ, SPLICE_FROM, splice_in, splice_out};
use super::exchange::Refusal;
use super::facts::Facts;
use super::request::Left;
use super::respond::{Broken, Responded, respond};
use crate::access::{By, Ending, Phase};
use crate::counters::add;
use crate::upstream::Upstream;
use balance::Slot;
use reactor::{Buf, Deadline, Pipe};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use wire::h1::{ChunkError, ResponseHead};

/// How far a request's body has come, as its response sees it.
pub(super) struct Upload {
    stage: Cell<Stage>,
    /// Bytes taken from the client that can't be had again.
    taken: Cell<u64>,
    /// Whether the response to the client has begun.
    answered: Cell<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    UnderWay,
    /// The member has all of it.
    Sent,
    /// The member gets no more of it.
    Stopped,
}

impl Upload {
    /// One that the client has still to send.
    pub(super) fn under_way() -> Self {
        Upload {
            stage: Cell::new(Stage::UnderWay),
            taken: Cell::new(0),
            answered: Cell::new(false),
        }
    }

    /// One that was sent with the head: `whole` if the member took it all.
    pub(super) fn with_head(whole: bool) -> Self {
        let upload = Upload::under_way();
        upload
            .stage
            .set(if whole { Stage::Sent } else { Stage::Stopped });
        upload
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.stage.get() == Stage::UnderWay
    }

    /// Whether the member has the whole request, so that what comes next on its connection is read
    /// as the next one.
    pub(super) fn is_sent(&self) -> bool {
        self.stage.get() == Stage::Sent
    }

    /// Whether the request can be sent once more from its start.
    pub(super) fn is_repeatable(&self) -> bool {
        self.taken.get() == 0
    }

    /// The response has begun: what it says can't be unsaid.
    pub(super) fn answer_begins(&self) {
        self.answered.set(true);
    }
}

/// Why the request's body did not come through.
enum PumpEnd {
    ClientGone,
    ClientTimeout,
    MemberGone,
    MemberTimeout,
    TooLarge,
    Chunks(ChunkError),
}

/// Sends on the rest of the body while the response is waited for and relayed.
#[expect(clippy::too_many_arguments, reason = "both halves of an attempt")]
pub(super) async fn both(
    job: &Job<'_>,
    upstream: &Upstream,
    slot: &Slot,
    response: &mut ResponseHead,
    facts: &mut Facts,
    left: &mut Left,
    rest: &mut Vec<u8>,
    upload: &Upload,
) -> Result<Result<Responded, Broken>, Failed> {
    let deadline = Deadline::new();
    let ended = {
        let mut pump = pin!(pump(job, upstream, left, rest, &deadline, &upload.taken));
        let mut answer = pin!(respond(job, upstream, slot, response, facts, upload));
        poll_fn(|cx| {
            if upload.is_under_way()
                && let Poll::Ready(ended) = pump.as_mut().poll(cx)
            {
                match ended {
                    Ok(()) => upload.stage.set(Stage::Sent),
                    // A member that takes no more may still have an answer.
                    Err(PumpEnd::MemberGone) => upload.stage.set(Stage::Stopped),
                    // One that has answered already may well leave the rest where it is.
                    Err(PumpEnd::ClientTimeout | PumpEnd::MemberTimeout)
                        if upload.answered.get() =>
                    {
                        upload.stage.set(Stage::Stopped);
                    }
                    Err(end) => return Poll::Ready(Err(end)),
                }
            }
            answer.as_mut().poll(cx).map(Ok)
        })
        .await
    };
    facts.bytes_in += upload.taken.get();
    let refusal = match ended {
        Ok(responded) => return Ok(responded),
        Err(PumpEnd::ClientGone | PumpEnd::MemberGone) => {
            facts.ending = Ending::new(By::Client, Phase::Data);
            let cells = job.client.service.state.counters.of(job.worker.index);
            add(&cells.aborted_by_client, 1);
            return Err(Failed::Broken);
        }
        Err(PumpEnd::ClientTimeout) => {
            Refusal::new(408, "body-timeout").at(By::ClientTimeout, Phase::Data)
        }
        Err(PumpEnd::MemberTimeout) => {
            let now = job.worker.now();
            slot.member().report(balance::Outcome::Timeout, now);
            Refusal::new(504, "member-takes-nothing").at(By::MemberTimeout, Phase::Data)
        }
        Err(PumpEnd::TooLarge) => Refusal::new(413, "body-too-large"),
        Err(PumpEnd::Chunks(error)) => error.into(),
    };
    if facts.begun {
        facts.ending = refusal.ending.because(refusal.reason);
        return Err(Failed::Broken);
    }
    Err(Failed::Final(refusal))
}

/// Sends what is left of a request's body to the member. What the client sends behind it is put
/// into `rest`; `taken` counts as it goes.
async fn pump(
    job: &Job<'_>,
    upstream: &Upstream,
    left: &mut Left,
    rest: &mut Vec<u8>,
    deadline: &Deadline,
    taken: &Cell<u64>,
) -> Result<(), PumpEnd> {
    let plain = job.client.channel.is_plain() && upstream.channel.is_plain();
    // Without descriptors for a pipe the body is copied.
    if plain
        && left.opaque() >= SPLICE_FROM
        && let Ok(pipe) = Pipe::take_one()
    {
        return pump_spliced(job, upstream, left, pipe, deadline, taken).await;
    }
    let client = &job.client.channel;
    let mut held = None;
    let mut turns = Turns::default();
    while !left.is_done() {
        let buf: &mut Buf = held.get_or_insert_with(Buf::take);
        let room = left.at_most(READ);
        let n = match client.try_read(&mut buf[..room]) {
            Ok(Some(0)) | Err(_) => return Err(PumpEnd::ClientGone),
            Ok(Some(n)) => n,
            Ok(None) => {
                held = None;
                client_readable(job, deadline).await?;
                continue;
            }
        };
        taken.set(taken.get() + n as u64);
        let part = left.take(&buf[..n]).map_err(PumpEnd::Chunks)?;
        // What lies behind it belongs to the next exchange.
        taken.set(taken.get() - (n - part) as u64);
        // A Length over the limit was refused before anything was sent.
        if matches!(left, Left::Chunked(_)) && left.exceeds(job.body_limit) {
            return Err(PumpEnd::TooLarge);
        }
        rest.extend_from_slice(&buf[part..n]);
        let mut part = &buf[..part];
        loop {
            let sent = upstream.channel.try_write(part);
            part = &part[sent.map_err(|_| PumpEnd::MemberGone)?..];
            if part.is_empty() {
                break;
            }
            member_writable(job, upstream, deadline).await?;
        }
        turns.next().await;
    }
    drop(held);
    while !upstream
        .channel
        .with(tls::Stream::try_flush)
        .map_err(|_| PumpEnd::MemberGone)?
    {
        member_writable(job, upstream, deadline).await?;
    }
    Ok(())
}

async fn pump_spliced(
    job: &Job<'_>,
    upstream: &Upstream,
    left: &mut Left,
    mut pipe: Pipe,
    deadline: &Deadline,
    taken: &Cell<u64>,
) -> Result<(), PumpEnd> {
    let client = &job.client.channel;
    let mut turns = Turns::default();
    while !left.is_done() {
        match splice_in(client, &mut pipe, left.at_most(usize::MAX)) {
            Ok(Some(0)) | Err(_) => return Err(PumpEnd::ClientGone),
            Ok(Some(n)) => {
                left.skip(n as u64);
                taken.set(taken.get() + n as u64);
            }
            Ok(None) => {
                client_readable(job, deadline).await?;
                continue;
            }
        }
        while !pipe.is_empty() {
            splice_out(&upstream.channel, &mut pipe, false).map_err(|_| PumpEnd::MemberGone)?;
            if !pipe.is_empty() {
                member_writable(job, upstream, deadline).await?;
            }
        }
        turns.next().await;
    }
    Ok(())
}

async fn client_readable(job: &Job<'_>, deadline: &Deadline) -> Result<(), PumpEnd> {
    deadline.set(job.client.service.config.timeouts.body);
    match deadline.guard(job.client.channel.readable()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(PumpEnd::ClientGone),
        Err(_) => Err(PumpEnd::ClientTimeout),
    }
}

async fn member_writable(
    job: &Job<'_>,
    upstream: &Upstream,
    deadline: &Deadline,
) -> Result<(), PumpEnd> {
    deadline.set(job.backend.config.timeouts.idle);
    match deadline.guard(upstream.channel.writable()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(PumpEnd::MemberGone),
        Err(_) => Err(PumpEnd::MemberTimeout),
    }
}
