//! Bodies on their way: relayed as they arrive, held back when the other side is slow.
//!
//! Between two plain connections what is long enough is spliced and never seen; all else goes
//! through a buffer that is held only while there is something in it.

use super::attempt::Job;
use super::facts::Facts;
use super::request::Left;
use super::respond::{Broken, Responded, push_connection};
use crate::client::Channel;
use crate::upstream::Upstream;
use reactor::{Buf, Deadline, Pipe};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use wire::h1::{self, ChunkError, ChunkLimits, ChunkedDecoder, Known, Piece, ResponseHead};

/// What is left of a body is spliced from here on.
pub(super) const SPLICE_FROM: u64 = 16 * 1024;

/// The most that is read at once.
const READ: usize = Buf::CAPACITY;

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

/// Why the request's body did not come through.
pub(super) enum PumpEnd {
    ClientGone,
    ClientTimeout,
    MemberGone,
    MemberTimeout,
    TooLarge,
    Chunks(ChunkError),
}

/// Sends bytes to the client; `more` says that more follow at once.
pub(super) async fn send(job: &Job<'_>, mut bytes: &[u8], more: bool) -> Result<(), Broken> {
    let channel = &job.client.channel;
    loop {
        let sent = match more {
            true => match channel.with_plain(|tcp| tcp.try_write_more(bytes)) {
                Some(sent) => sent,
                None => channel.try_write(bytes),
            },
            false => channel.try_write(bytes),
        };
        let sent = sent?;
        bytes = &bytes[sent..];
        if bytes.is_empty() {
            return Ok(());
        }
        client_writable(job).await?;
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

/// Waits until the member has sent more, or the client has gone.
async fn member_readable(job: &Job<'_>, upstream: &Upstream) -> Result<(), Broken> {
    let deadline = &job.client.deadline;
    deadline.set(job.backend.config.timeouts.idle);
    poll_fn(|_| {
        match upstream.channel.poll_readable() {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(_)) => return Poll::Ready(Err(Broken::Truncated)),
            Poll::Pending => {}
        }
        if job
            .client
            .channel
            .with(|s| s.tcp().poll_broken())
            .is_ready()
        {
            return Poll::Ready(Err(Broken::ClientGone));
        }
        deadline.poll_past().map(|()| Err(Broken::Stalled))
    })
    .await
}

/// Relays what is left of a response's body.
pub(super) async fn relay(
    job: &Job<'_>,
    upstream: &Upstream,
    buf: Buf,
    left: &mut Left,
    facts: &mut Facts,
) -> Relayed {
    let mut moved = 0;
    let plain = job.client.channel.is_plain() && upstream.channel.is_plain();
    let end = if plain && left.opaque() >= SPLICE_FROM {
        drop(buf);
        splice(job, upstream, left, &mut moved).await
    } else {
        copy(job, upstream, buf, left, &mut moved).await
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
    left: &mut Left,
    moved: &mut u64,
) -> Result<BodyEnd, Broken> {
    let mut pipe = Pipe::take_one().map_err(|_| Broken::Truncated)?;
    while !left.is_done() {
        let limit = left.at_most(usize::MAX);
        match splice_in(&upstream.channel, &mut pipe, limit) {
            Ok(Some(0)) | Err(_) => return Err(Broken::Truncated),
            Ok(Some(n)) => left.skip(n as u64),
            Ok(None) => {
                member_readable(job, upstream).await?;
                continue;
            }
        }
        let more = !left.is_done() && upstream.channel.with(|s| s.tcp().is_readable());
        while !pipe.is_empty() {
            let sent = splice_out(&job.client.channel, &mut pipe, more)?;
            *moved += sent as u64;
            if !pipe.is_empty() {
                client_writable(job).await?;
            }
        }
    }
    Ok(BodyEnd::Done)
}

async fn copy(
    job: &Job<'_>,
    upstream: &Upstream,
    buf: Buf,
    left: &mut Left,
    moved: &mut u64,
) -> Result<BodyEnd, Broken> {
    let mut held = Some(buf);
    loop {
        let buf = held.get_or_insert_with(Buf::take);
        let room = left.at_most(READ);
        let n = match upstream.channel.try_read(&mut buf[..room]) {
            Ok(Some(0)) if matches!(left, Left::UntilClose) => return Ok(BodyEnd::Done),
            Ok(Some(0)) | Err(_) => return Err(Broken::Truncated),
            Ok(Some(n)) => n,
            Ok(None) => {
                // Nobody holds a buffer while waiting.
                held = None;
                member_readable(job, upstream).await?;
                continue;
            }
        };
        let taken = left.take(&buf[..n]).map_err(|_| Broken::Truncated)?;
        let more = !left.is_done() && upstream.channel.with(|s| s.tcp().is_readable());
        send(job, &buf[..taken], more).await?;
        *moved += taken as u64;
        if left.is_done() {
            return Ok(if taken < n {
                BodyEnd::Surplus
            } else {
                BodyEnd::Done
            });
        }
    }
}

/// Relays a chunked response to a client of HTTP/1.0, which knows no chunks: the data alone, its
/// end told by the connection's. `first` is what was read so far, the head at its front.
pub(super) async fn dechunk(
    job: &Job<'_>,
    upstream: &Upstream,
    head: &ResponseHead,
    facts: &mut Facts,
    first: &[u8],
) -> Result<Responded, Broken> {
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
        done = pieces(&mut decoder, &buf[..n], &mut out)?;
    }
    job.worker.give_vec(out);
    flush(job).await?;
    Ok(Responded::Done {
        keep: false,
        reusable: false,
    })
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

/// Sends what is left of a request's body to the member. What the client sends behind it is put
/// into `rest`; `received` counts as it goes.
pub(super) async fn pump(
    job: &Job<'_>,
    upstream: &Upstream,
    left: &mut Left,
    rest: &mut Vec<u8>,
    deadline: &Deadline,
    received: &Cell<u64>,
) -> Result<(), PumpEnd> {
    let client = &job.client.channel;
    if client.is_plain() && upstream.channel.is_plain() && left.opaque() >= SPLICE_FROM {
        let mut pipe = Pipe::take_one().map_err(|_| PumpEnd::MemberGone)?;
        while !left.is_done() {
            match splice_in(client, &mut pipe, left.at_most(usize::MAX)) {
                Ok(Some(0)) | Err(_) => return Err(PumpEnd::ClientGone),
                Ok(Some(n)) => {
                    left.skip(n as u64);
                    received.set(received.get() + n as u64);
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
        }
        return Ok(());
    }
    let mut seen = job.body_seen;
    let mut held = None;
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
        let taken = left.take(&buf[..n]).map_err(PumpEnd::Chunks)?;
        received.set(received.get() + taken as u64);
        seen += taken as u64;
        if job.body_limit > 0 && seen > job.body_limit {
            return Err(PumpEnd::TooLarge);
        }
        rest.extend_from_slice(&buf[taken..n]);
        let mut part = &buf[..taken];
        loop {
            let sent = upstream.channel.try_write(part);
            part = &part[sent.map_err(|_| PumpEnd::MemberGone)?..];
            if part.is_empty() {
                break;
            }
            member_writable(job, upstream, deadline).await?;
        }
    }
    while !upstream
        .channel
        .with(tls::Stream::try_flush)
        .map_err(|_| PumpEnd::MemberGone)?
    {
        member_writable(job, upstream, deadline).await?;
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

/// Splices in from a channel that was found to be plain.
fn splice_in(channel: &Channel, pipe: &mut Pipe, limit: usize) -> io::Result<Option<usize>> {
    channel
        .with_plain(|tcp| tcp.try_splice_in(pipe, limit))
        .unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
}

/// Splices out to a channel that was found to be plain.
fn splice_out(channel: &Channel, pipe: &mut Pipe, more: bool) -> io::Result<usize> {
    channel
        .with_plain(|tcp| tcp.try_splice_out(pipe, more))
        .unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()))
}
