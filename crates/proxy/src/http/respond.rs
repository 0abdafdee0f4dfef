//! A member's response: its head awaited, rewritten, and sent on with the body behind it.

use super::attempt::{Job, may_retry_status};
use super::body::{self, BodyEnd, Silence, hear};
use super::exchange::is_http;
use super::facts::Facts;
use super::request::Left;
use super::ruled::{self, Next};
use super::upload::Upload;
use crate::engine::Phase;
use crate::rules::Ruled;
use crate::upstream::Upstream;
use ::rules::event::Event;
use balance::Slot;
use reactor::{Buf, HEADROOM};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use wire::h1::{self, HeadLimits, Known, Progress, ResponseHead, Version};

/// Heads of members may be this large, in bytes and in fields.
pub(super) const LIMITS: HeadLimits = HeadLimits {
    head_bytes: 64 * 1024,
    fields: 500,
    target_bytes: 0,
    connect: false,
};

/// The first read of a response: so much that most come whole.
const FIRST_READ: usize = 32 * 1024;
/// The same, where the last body was one that is better moved than read.
const FIRST_READ_MIDDLING: usize = 8 * 1024;
/// The same, for bodies so large that the first part matters little.
const FIRST_READ_LARGE: usize = 16 * 1024;

/// What came of a response that came to its end.
pub(super) enum Responded {
    /// It was sent on. `keep`: the client was told that its connection stays; `reusable`: so may
    /// the member's.
    Done { keep: bool, reusable: bool },
    /// The connection was upgraded; `early` is what the member sent behind the head.
    Upgraded { early: Vec<u8> },
}

/// Why it did not.
pub(super) enum Broken {
    /// Closed or reset before a byte of it.
    NoAnswer,
    /// Not a byte of it in time.
    Timeout,
    /// Closed or reset within its head.
    Short,
    /// Not HTTP, or HTTP that is not safe to pass on.
    Bad(&'static str),
    /// A status that is to be tried again.
    Status(u16),
    /// A rule has decided what comes next.
    Ruled(Next),
    /// Closed or reset in its midst.
    Truncated,
    /// Silent in its midst.
    Stalled,
    /// The client went away.
    ClientGone,
    /// The client took nothing for too long.
    ClientStalled,
}

/// Awaits a response and sends it on. While the `upload` is under way the member may take its time.
pub(super) async fn respond(
    job: &Job<'_>,
    upstream: &Upstream,
    slot: &Slot,
    head: &mut ResponseHead,
    facts: &mut Facts,
    upload: &Upload,
) -> Result<Responded, Broken> {
    await_answer(job, upstream, upload).await?;
    let mut buf = Buf::take();
    let (mut start, mut end) = (HEADROOM, HEADROOM);
    let mut room = first_read(upstream.link.last_body.get());
    head.clear();
    loop {
        if end > start {
            match head.parse(&buf[start..end], &LIMITS, job.method) {
                Err(error) => return Err(Broken::Bad(error.reason())),
                Ok(Progress::Complete) if head.status >= 200 || head.status == 101 => break,
                Ok(Progress::Complete) => {
                    let len = head.len;
                    let changed = match job.rules {
                        None => None,
                        Some(rules) => {
                            let seen = ruled::interim(job, rules, head, &buf[start..start + len]);
                            Box::pin(seen).await?
                        }
                    };
                    // HTTP/1.0 knows no interim responses.
                    if !job.is_10 {
                        let bytes = changed.as_deref().unwrap_or(&buf[start..end]);
                        facts.bytes_out += interim(job, head, bytes).await?;
                    }
                    facts.interim = true;
                    start += len;
                    head.clear();
                    continue;
                }
                Ok(Progress::Partial) => room = room.max(LIMITS.head_bytes),
            }
        }
        let until = buf.len().min(start + room);
        match upstream.channel.try_read(&mut buf[end..until]) {
            Ok(Some(n)) if n > 0 => end += n,
            Ok(Some(_)) | Err(_) if end > HEADROOM => return Err(Broken::Short),
            Ok(Some(_)) | Err(_) => return Err(Broken::NoAnswer),
            Ok(None) => await_answer(job, upstream, upload).await?,
        }
    }
    facts.phase(|l| &mut l.response);
    if !job.backend.retry_on.statuses.is_empty() && may_retry_status(job, facts, head.status) {
        return Err(Broken::Status(head.status));
    }
    let mut held = false;
    if let Some(rules) = job.rules {
        let seen = ruled::response(job, rules, head, &mut buf, &mut start, &mut end);
        held = seen.await?;
    }
    facts.status = head.status;
    if head.status == 101 {
        return upgrade(job, head, facts, &buf[start..end]).await;
    }
    if held {
        let first = buf[start..end].to_vec();
        drop(buf);
        upload.answer_begins();
        let held = super::collect::response(job, upstream, slot, head, facts, upload, first);
        return Box::pin(held).await;
    }
    let mut left = Left::new(head.framing);
    let body_start = start + head.len;
    let dechunk = job.is_10 && matches!(left, Left::Chunked(_));
    let keep = job.keep_alive
        && !dechunk
        && upload.is_sent()
        && !matches!(left, Left::UntilClose)
        && job.worker.phase() == Phase::Running
        && !job.rules.is_some_and(ruled::closes);
    if dechunk {
        upload.answer_begins();
        return body::dechunk(job, upstream, slot, head, facts, &buf[start..end]).await;
    }
    let taken = match left.take(&buf[body_start..end]) {
        Ok(n) => n,
        Err(error) => return Err(Broken::Bad(error.reason())),
    };
    let body_end = body_start + taken;
    let surplus = body_end < end;
    let bodiless = body_start == body_end;
    let from = write_head(job, head, &mut buf, facts, start, keep, bodiless).await?;
    facts.begun = true;
    facts.until_close = matches!(left, Left::UntilClose);
    upload.answer_begins();
    // What is left of a body that is already here follows at once.
    let more = !left.is_done() && upstream.channel.with(|s| s.tcp().is_readable());
    let buf = body::send_part(job, buf, from..body_end, more).await?;
    facts.bytes_out += (body_end - from) as u64;
    let mut whole = taken as u64;
    if !left.is_done() {
        let ended = body::relay(job, upstream, buf, &mut left, facts).await;
        whole += ended.moved;
        let bytes = (end - start) as u64 + ended.moved;
        slot.member()
            .counters()
            .bytes_received
            .fetch_add(bytes, Relaxed);
        match ended.end {
            BodyEnd::Done => {}
            BodyEnd::Surplus => return finish(job, head, upstream, whole, keep, true).await,
            BodyEnd::Broken(broken) => return Err(broken),
        }
    } else {
        drop(buf);
        let bytes = (end - start) as u64;
        slot.member()
            .counters()
            .bytes_received
            .fetch_add(bytes, Relaxed);
    }
    finish(job, head, upstream, whole, keep, surplus).await
}

/// Ends a response that was sent whole.
pub(super) async fn finish(
    job: &Job<'_>,
    head: &ResponseHead,
    upstream: &Upstream,
    whole: u64,
    keep: bool,
    surplus: bool,
) -> Result<Responded, Broken> {
    upstream.link.last_body.set(whole);
    if !job.client.channel.is_plain() {
        body::flush(job).await?;
    }
    Ok(Responded::Done {
        keep,
        reusable: head.keep_alive && !surplus,
    })
}

/// Waits for a byte of the response, or the client's going away.
async fn await_answer(job: &Job<'_>, upstream: &Upstream, upload: &Upload) -> Result<(), Broken> {
    let limit = job.backend.config.timeouts.response;
    // Who lets a connection be silent for longer lets its member be.
    let limit = limit.max(job.rules.and_then(Ruled::idle).unwrap_or_default());
    let heard = hear(job, upstream, limit, || upload.is_under_way()).await;
    heard.map_err(|silence| match silence {
        Silence::Long => Broken::Timeout,
        Silence::ClientGone => Broken::ClientGone,
        Silence::Failed => Broken::NoAnswer,
    })
}

/// Sends an interim response on (RFC 9110 section 15.2). Returns its length.
async fn interim(job: &Job<'_>, head: &ResponseHead, buf: &[u8]) -> Result<u64, Broken> {
    let mut out = job.worker.take_vec();
    h1::write_response(&mut out, buf, head, |_, _| false);
    h1::finish(&mut out);
    body::send(job, &out, false).await?;
    let sent = out.len() as u64;
    job.worker.give_vec(out);
    Ok(sent)
}

/// Puts the client's form of the head in front of the body's bytes in `buf`; returns where it
/// begins. A head that is the same for the client stays where it is.
async fn write_head(
    job: &Job<'_>,
    head: &ResponseHead,
    buf: &mut Buf,
    facts: &mut Facts,
    start: usize,
    keep: bool,
    bodiless: bool,
) -> Result<usize, Broken> {
    let hops = [
        Known::Connection,
        Known::KeepAlive,
        Known::ProxyConnection,
        Known::Te,
        Known::Upgrade,
    ];
    let releases = job
        .rules
        .is_some_and(|r| r.wants(Event::HttpResponseRelease));
    let as_it_is = keep
        && !job.is_10
        && job.edits.leaves_responses()
        && !releases
        && job.cookie.borrow().is_none()
        && head.version == Version::Http11
        && !hops.into_iter().any(|hop| head.has(hop));
    if as_it_is {
        return Ok(start);
    }
    let mut out = job.worker.take_vec();
    job.edits
        .write_response(&mut out, head, &buf[start..], &job.rendered, |known| {
            // Of a response without a body: HTTP/1.0 knows no codings at all.
            job.is_10 && matches!(known, Known::TransferEncoding | Known::Trailer)
        });
    push_connection(job, keep, &mut out);
    h1::finish(&mut out);
    if let Some(rules) = job.rules.filter(|_| releases) {
        Box::pin(ruled::release(job, rules, &mut out)).await?;
    }
    let body_start = start + head.len;
    let from = if out.len() <= body_start {
        let from = body_start - out.len();
        buf[from..body_start].copy_from_slice(&out);
        from
    } else {
        // Edits beyond the headroom: the head goes out by itself.
        body::send(job, &out, !bodiless).await?;
        facts.bytes_out += out.len() as u64;
        body_start
    };
    job.worker.give_vec(out);
    Ok(from)
}

/// Says what becomes of the connection, where it is not what the version implies.
pub(super) fn push_connection(job: &Job<'_>, keep: bool, out: &mut Vec<u8>) {
    if let Some(cookie) = job.cookie.take().filter(|cookie| !cookie.rewrites) {
        h1::push_field(out, "Set-Cookie", &cookie.field());
    }
    if !keep {
        h1::push_field(out, "Connection", b"close");
    } else if job.is_10 {
        h1::push_field(out, "Connection", b"keep-alive");
    }
}

async fn upgrade(
    job: &Job<'_>,
    head: &ResponseHead,
    facts: &mut Facts,
    buf: &[u8],
) -> Result<Responded, Broken> {
    let protocol = head
        .upgrade
        .filter(|protocol| job.upgrade && !is_http(protocol.of(buf)));
    let Some(protocol) = protocol else {
        return Err(Broken::Bad("unasked-upgrade"));
    };
    let mut out = job.worker.take_vec();
    job.edits
        .write_response(&mut out, head, buf, &job.rendered, |_| false);
    h1::push_field(&mut out, "Connection", b"Upgrade");
    h1::push_field(&mut out, "Upgrade", protocol.of(buf));
    h1::finish(&mut out);
    body::send(job, &out, false).await?;
    facts.begun = true;
    facts.bytes_out += out.len() as u64;
    job.worker.give_vec(out);
    Ok(Responded::Upgraded {
        early: buf[head.len..].to_vec(),
    })
}

fn first_read(last_body: u64) -> usize {
    if last_body > body::LARGE {
        FIRST_READ_LARGE
    } else if last_body >= body::SPLICE_FROM {
        FIRST_READ_MIDDLING
    } else {
        FIRST_READ
    }
}

impl From<Next> for Broken {
    fn from(next: Next) -> Self {
        Broken::Ruled(next)
    }
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Broken::ClientGone
    }
}
