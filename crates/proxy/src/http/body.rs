//! Bodies on their way: relayed as they arrive, held back when the other side is slow.
//!
//! Between two plain connections what is long enough is spliced and never seen; all else goes
//! through a buffer that is held only while there is something in it.

use super::Turns;
use super::attempt::Job;
use super::facts::Facts;
use super::request::Left;
use super::respond::{Broken, Responded, finish, push_connection};
use crate::client::Channel;
use crate::upstream::Upstream;
use balance::Slot;
use reactor::{Buf, Pipe};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;
use wire::h1::{self, ChunkLimits, ChunkedDecoder, Known, Piece, ResponseHead};

/// What is left of a body is spliced from here on.
pub(super) const SPLICE_FROM: u64 = 16 * 1024;

/// What is left of a body is large from here on.
pub(super) const LARGE: u64 = 256 * 1024;

/// The most that is read at once.
pub(super) const READ: usize = Buf::CAPACITY;
/// The same, for a client that did not take the last part at once.
const READ_SLOW: usize = 16 * 1024;

/// How a response's body ended, and how much of it was moved.
pub(super) struct Relayed {
    pub(super) moved: u64,
    pub(super) end: BodyEnd,
}

pub(super) enum BodyEnd {
    /// Whole.
    Done,
    /// Whole, and the member sent more than it had announced.
    Surplus,
    Broken(Broken),
}

/// Sends bytes to the client; `more` says that more follow at once.
pub(super) async fn send(job: &Job<'_>, mut bytes: &[u8], more: bool) -> Result<(), Broken> {
    loop {
        bytes = &bytes[try_send(job, bytes, more)?..];
        if bytes.is_empty() {
            return Ok(());
        }
        client_writable(job).await?;
    }
}

/// Sends a part of a buffer to the client. The buffer is not kept for one that takes its time: what
/// it has not taken at once needs less room.
pub(super) async fn send_part(
    job: &Job<'_>,
    buf: Buf,
    part: Range<usize>,
    more: bool,
) -> Result<Option<Buf>, Broken> {
    let rest = part.start + try_send(job, &buf[part.clone()], more)?..part.end;
    if rest.is_empty() {
        return Ok(Some(buf));
    }
    let rest = buf[rest].to_vec();
    drop(buf);
    send(job, &rest, more).await?;
    Ok(None)
}

fn try_send(job: &Job<'_>, bytes: &[u8], more: bool) -> io::Result<usize> {
    let channel = &job.client.channel;
    match more {
        true => match channel.with_plain(|tcp| tcp.try_write_more(bytes)) {
            Some(sent) => sent,
            None => channel.try_write(bytes),
        },
        false => channel.try_write(bytes),
    }
}

/// Waits until the client has taken what TLS holds.
pub(super) async fn flush(job: &Job<'_>) -> Result<(), Broken> {
    while !job.client.channel.with(tls::Stream::try_flush)? {
        client_writable(job).await?;
    }
    Ok(())
}

async fn client_writable(job: &Job<'_>) -> Result<(), Broken> {
    let deadline = &job.client.deadline;
    deadline.set(job.client.service.config.timeouts.send);
    match deadline.guard(job.client.channel.writable()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Broken::ClientGone),
        Err(_) => Err(Broken::ClientStalled),
    }
}

/// After so long a wait it is worth a call to hear of the client's going away, where it is not
/// heard of anyway. As long as connections are kept ready, so that the two share their timer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a wait for the member was in vain.
pub(super) enum Silence {
    /// It took too long.
    Long,
    ClientGone,
    Failed,
}

/// Waits until the member has sent something, or the client has gone. The time is not measured
/// while `held`.
pub(super) async fn hear(
    job: &Job<'_>,
    upstream: &Upstream,
    limit: Duration,
    held: impl Fn() -> bool,
) -> Result<(), Silence> {
    let deadline = &job.client.deadline;
    let first = limit.min(PATIENCE);
    let mut left = None;
    poll_fn(|_| {
        match upstream.channel.poll_readable() {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(_)) => return Poll::Ready(Err(Silence::Failed)),
            Poll::Pending => {}
        }
        if held() {
            return Poll::Pending;
        }
        if left.is_none() {
            deadline.set(first);
            left = Some(limit - first);
        }
        if job.client.channel.poll_broken().is_ready() {
            return Poll::Ready(Err(Silence::ClientGone));
        }
        while deadline.poll_past().is_ready() {
            let Some(more) = left.replace(Duration::ZERO).filter(|left| !left.is_zero()) else {
                return Poll::Ready(Err(Silence::Long));
            };
            // Where its going can't be known, the time still ends the wait.
            let _ = job.client.channel.with(|stream| stream.tcp().watch());
            deadline.set(more);
        }
        Poll::Pending
    })
    .await
}

/// Waits until the member has sent more of a response, or the client has gone.
async fn member_readable(job: &Job<'_>, upstream: &Upstream) -> Result<(), Broken> {
    let limit = job.backend.config.timeouts.idle;
    let heard = hear(job, upstream, limit, || false).await;
    heard.map_err(|silence| match silence {
        Silence::Long => Broken::Stalled,
        Silence::ClientGone => Broken::ClientGone,
        Silence::Failed => Broken::Truncated,
    })
}

/// Relays what is left of a response's body.
pub(super) async fn relay(
    job: &Job<'_>,
    upstream: &Upstream,
    buf: Option<Buf>,
    left: &mut Left,
    facts: &mut Facts,
) -> Relayed {
    let mut moved = 0;
    let plain = job.client.channel.is_plain() && upstream.channel.is_plain();
    let pipe = (plain && left.opaque() >= SPLICE_FROM).then(Pipe::take_one);
    let end = match pipe {
        Some(Ok(pipe)) => {
            drop(buf);
            splice(job, upstream, pipe, left, &mut moved).await
        }
        // Without descriptors for a pipe the body is copied.
        Some(Err(_)) | None => copy(job, upstream, buf, left, &mut moved).await,
    };
    facts.bytes_out += moved;
    Relayed {
        moved,
        end: match end {
            Ok(end) => end,
            Err(broken) => BodyEnd::Broken(broken),
        },
    }
}

async fn splice(
    job: &Job<'_>,
    upstream: &Upstream,
    mut pipe: Pipe,
    left: &mut Left,
    moved: &mut u64,
) -> Result<BodyEnd, Broken> {
    if left.opaque() >= LARGE {
        upstream.widen();
    }
    while !left.is_done() {
        let limit = left.at_most(usize::MAX);
        let moving = match splice_in(&upstream.channel, &mut pipe, limit) {
            Ok(Some(0)) | Err(_) => return Err(Broken::Truncated),
            Ok(Some(n)) => n,
            Ok(None) => {
                member_readable(job, upstream).await?;
                continue;
            }
        };
        left.skip(moving as u64);
        // In bulk more is about to come, and the last segment is better sent full. A trickle is not
        // held back.
        let more = !left.is_done() && moving as u64 >= SPLICE_FROM;
        while !pipe.is_empty() {
            let sent = splice_out(&job.client.channel, &mut pipe, more)?;
            *moved += sent as u64;
            if !pipe.is_empty() {
                client_writable(job).await?;
            }
        }
        if !left.is_done() {
            // What was read makes room for more, which comes in larger parts when it is not asked
            // for at once.
            reactor::yield_now().await;
        }
    }
    Ok(BodyEnd::Done)
}

async fn copy(
    job: &Job<'_>,
    upstream: &Upstream,
    mut held: Option<Buf>,
    left: &mut Left,
    moved: &mut u64,
) -> Result<BodyEnd, Broken> {
    let mut most = READ;
    let mut turns = Turns::default();
    loop {
        let mut buf = held.take().unwrap_or_else(Buf::take);
        let room = left.at_most(most);
        let n = match upstream.channel.try_read(&mut buf[..room]) {
            Ok(Some(0)) if matches!(left, Left::UntilClose) => return Ok(BodyEnd::Done),
            Ok(Some(0)) | Err(_) => return Err(Broken::Truncated),
            Ok(Some(n)) => n,
            Ok(None) => {
                // Nobody holds a buffer while waiting.
                drop(buf);
                member_readable(job, upstream).await?;
                continue;
            }
        };
        let taken = left.take(&buf[..n]).map_err(|_| Broken::Truncated)?;
        let more = !left.is_done() && upstream.channel.with(|s| s.tcp().is_readable());
        held = send_part(job, buf, 0..taken, more).await?;
        most = if held.is_some() { READ } else { READ_SLOW };
        *moved += taken as u64;
        if left.is_done() {
            return Ok(if taken < n {
                BodyEnd::Surplus
            } else {
                BodyEnd::Done
            });
        }
        turns.next().await;
    }
}

/// Relays a chunked response to a client of HTTP/1.0, which knows no chunks: the data alone, its
/// end told by the connection's. `first` is what was read so far, the head at its front.
pub(super) async fn dechunk(
    job: &Job<'_>,
    upstream: &Upstream,
    slot: &Slot,
    head: &ResponseHead,
    facts: &mut Facts,
    first: &[u8],
) -> Result<Responded, Broken> {
    let count = |n| {
        let received = &slot.member().counters().bytes_received;
        received.fetch_add(n as u64, Relaxed);
    };
    count(first.len());
    let mut decoder = ChunkedDecoder::new(ChunkLimits::default());
    let mut out = job.worker.take_vec();
    job.edits
        .write_response(&mut out, head, first, &job.rendered, |known| {
            matches!(known, Known::TransferEncoding | Known::Trailer)
        });
    push_connection(job, false, &mut out);
    h1::finish(&mut out);
    let mut done = pieces(&mut decoder, &first[head.len..], &mut out)?;
    facts.begun = true;
    facts.until_close = true;
    let mut turns = Turns::default();
    loop {
        send(job, &out, false).await?;
        facts.bytes_out += out.len() as u64;
        if done {
            break;
        }
        out.clear();
        let mut buf = Buf::take();
        let n = match upstream.channel.try_read(&mut buf[..READ]) {
            Ok(Some(0)) | Err(_) => return Err(Broken::Truncated),
            Ok(Some(n)) => n,
            Ok(None) => {
                drop(buf);
                member_readable(job, upstream).await?;
                continue;
            }
        };
        count(n);
        turns.next().await;
        done = pieces(&mut decoder, &buf[..n], &mut out)?;
    }
    let whole = facts.bytes_out;
    job.worker.give_vec(out);
    // What stood behind the chunks was not looked for.
    finish(job, head, upstream, whole, false, true).await
}

/// Takes the data out of chunks; true at their end.
fn pieces(
    decoder: &mut ChunkedDecoder,
    mut bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, Broken> {
    while !bytes.is_empty() {
        let (n, piece) = decoder.next(bytes).map_err(|_| Broken::Truncated)?;
        match piece {
            Piece::Data => out.extend_from_slice(&bytes[..n]),
            Piece::End => return Ok(true),
            _ => {}
        }
        bytes = &bytes[n..];
    }
    Ok(decoder.is_done())
}

/// Splices in from a channel that was found to be plain.
pub(super) fn splice_in(
    channel: &Channel,
    pipe: &mut Pipe,
    limit: usize,
) -> io::Result<Option<usize>> {
    channel
        .with_plain(|tcp| tcp.try_splice_in(pipe, limit))
        .unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
}

/// Splices out to a channel that was found to be plain.
pub(super) fn splice_out(channel: &Channel, pipe: &mut Pipe, more: bool) -> io::Result<usize> {
    channel
        .with_plain(|tcp| tcp.try_splice_out(pipe, more))
        .unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
}
