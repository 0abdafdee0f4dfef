//! Bodies that rules hold back, look at and change, and bodies that are searched on their way to the client.

use super::attempt::Job;
use super::body::{self, Silence, hear};
use super::facts::Facts;
use super::request::Left;
use super::respond::{Broken, Responded, finish, push_connection};
use super::ruled::{self, Collected, Next};
use super::upload::Upload;
use crate::client::Client;
use crate::rules::Ruled;
use crate::upstream::Upstream;
use crate::worker::Worker;
use ::rules::event::Event;
use ::rules::flow::Held;
use ::rules::value::Value;
use balance::Slot;
use reactor::Buf;
use std::sync::atomic::Ordering::Relaxed;
use wire::h1::{
    self, ChunkLimits, ChunkedDecoder, Framing, Known, Method, Piece, RequestHead, ResponseHead,
};

/// What is read at once.
const READ: usize = 64 * 1024;

/// Holds a request's body back as far as the rules want it, and lets them see and change it.
pub(super) async fn request(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    head: &RequestHead,
    buf: &[u8],
    filled: usize,
) -> Result<Collected, Next> {
    let most = worker.in_force().world.limits.collect;
    let mut body = Body::new(head.framing, most);
    let mut rest = body.take(&buf[head.len..filled])?;
    let mut bytes_in = (filled - rest.len()) as u64;
    if head.expect_continue && !body.is_done() {
        continue_request(client, rules).await?;
    }
    let mut seen = None;
    loop {
        let most = wanted(rules, true);
        // They see what they have seen only with something new behind it.
        while !body.has(most) || seen == Some(body.bytes.len()) {
            // How long one in chunks will be nobody knows.
            if body.is_over() {
                return Err(Next::TooLarge);
            }
            client.deadline.set(client.service.config.timeouts.body);
            let read = {
                let mut buf = Buf::take();
                match client.channel.try_read(&mut buf[..READ]) {
                    Ok(Some(0)) | Err(_) => return Err(Next::Stop(crate::rules::Stop::Gone)),
                    Ok(Some(n)) => {
                        rest = body.take(&buf[..n])?;
                        bytes_in += (n - rest.len()) as u64;
                        true
                    }
                    Ok(None) => false,
                }
            };
            if !read {
                match client.deadline.guard(client.channel.readable()).await {
                    Ok(Ok(())) => {}
                    _ => return Err(Next::Stop(crate::rules::Stop::Gone)),
                }
            }
        }
        body.show(rules, true);
        ruled::raise(worker, client, rules, Event::HttpRequestData).await?;
        body.take_back(rules, true);
        // A rule may ask for more than it has seen.
        if wanted(rules, true).is_none() || body.is_done() || body.is_full() {
            break;
        }
        seen = Some(body.bytes.len());
    }
    let chunked = matches!(head.framing, Framing::Chunked);
    let length = body.length();
    if let Some(http) = &mut rules.flow().http {
        // A rule may have written another length.
        if chunked || body.changed || http.request.is_changed() {
            http.request.retain(|name, _| !ruled::is_framing(name));
            let length = Value::from(length as i64);
            http.request
                .insert(None, Value::from("Content-Length"), length);
        }
    }
    Ok(Collected {
        left: body.left(),
        body: body.bytes,
        rest,
        bytes_in,
    })
}

/// Tells a client that waits for it to go on, and takes the expectation out of the head.
async fn continue_request(client: &Client, rules: &Ruled) -> Result<(), Next> {
    if let Some(http) = &mut rules.flow().http {
        http.request
            .retain(|name, _| !name.eq_ignore_ascii_case(b"Expect"));
    }
    client.deadline.set(client.service.config.timeouts.send);
    let go_on = client.channel.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
    match client.deadline.guard(go_on).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(Next::Stop(crate::rules::Stop::Gone)),
    }
}

/// Holds a response's body back as far as the rules want it, or searches it on its way. `first` is what was read so
/// far, the head at its front.
pub(super) async fn response(
    job: &Job<'_>,
    upstream: &Upstream,
    slot: &Slot,
    head: &mut ResponseHead,
    facts: &mut Facts,
    upload: &Upload,
    first: Vec<u8>,
) -> Result<Responded, Broken> {
    let Some(rules) = job.rules else {
        return Err(Broken::NoAnswer);
    };
    let (worker, client) = (job.worker, job.client);
    let reusable = head.keep_alive;
    let most = worker.in_force().world.limits.collect;
    let mut body = Body::new(head.framing, most);
    let mut surplus = !body.take(&first[head.len..])?.is_empty();
    let mut whole = first.len() as u64;
    let bodiless = matches!(head.framing, Framing::None | Framing::Length(0));
    let mut ended = false;
    if wanted(rules, false).is_some() && !bodiless {
        let mut seen = None;
        loop {
            let most = wanted(rules, false);
            let new = |body: &Body| seen != Some(body.bytes.len());
            while !(ended || body.is_full() || body.has(most) && new(&body)) {
                match read(job, upstream).await? {
                    None if body.until_close() => ended = true,
                    None => return Err(Broken::Truncated),
                    Some(bytes) => {
                        whole += bytes.len() as u64;
                        surplus |= !body.take(&bytes)?.is_empty();
                    }
                }
            }
            body.show(rules, false);
            ruled::raise(worker, client, rules, Event::HttpResponseData).await?;
            body.take_back(rules, false);
            if wanted(rules, false).is_none() || body.is_done() || ended || body.is_full() {
                break;
            }
            seen = Some(body.bytes.len());
        }
    }
    if ended {
        body.end();
    }
    let streams = rules.flow().stream.enabled && !bodiless;
    let chunks = (streams || !body.is_countable()) && !bodiless;
    let keep = job.keep_alive
        && upload.is_sent()
        && !ruled::closes(rules)
        && worker.phase() == crate::engine::Phase::Running
        && !(chunks && job.is_10);
    let mut out = rewritten(job, rules, head, &first, &body, chunks, bodiless, keep).await?;
    facts.begun = true;
    facts.until_close = chunks && job.is_10;
    let form = match (chunks, job.is_10) {
        (false, _) => Form::Plain,
        (true, true) => Form::UntilClose,
        (true, false) => Form::Chunks,
    };
    let mut search = super::stream::Search::new(rules, streams);
    let begun = std::mem::take(&mut body.bytes);
    if job.method == Method::Head {
        body.end();
    } else {
        search
            .feed(worker, client, rules, &begun, &mut out, form)
            .await?;
    }
    while !body.is_done() {
        body::send(job, &out, true).await?;
        facts.bytes_out += out.len() as u64;
        out.clear();
        match read(job, upstream).await? {
            None if body.until_close() => body.end(),
            None => return Err(Broken::Truncated),
            Some(bytes) => {
                whole += bytes.len() as u64;
                surplus |= !body.take(&bytes)?.is_empty();
            }
        }
        let part = std::mem::take(&mut body.bytes);
        search
            .feed(worker, client, rules, &part, &mut out, form)
            .await?;
        reactor::yield_now().await;
    }
    search.end(&mut out, form);
    if matches!(form, Form::Chunks) && job.method != Method::Head {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    body::send(job, &out, false).await?;
    facts.bytes_out += out.len() as u64;
    worker.give_vec(out);
    let received = &slot.member().counters().bytes_received;
    received.fetch_add(whole, Relaxed);
    let closed = ended || surplus;
    head.keep_alive = reusable;
    finish(job, head, upstream, whole, keep, closed).await
}

/// How a body goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is: its length was told.
    Plain,
    /// In chunks.
    Chunks,
    /// Up to the connection's end.
    UntilClose,
}

impl Form {
    /// Puts a part of a body behind what goes out.
    pub(super) fn push(self, part: &[u8], out: &mut Vec<u8>) {
        if part.is_empty() {
            return;
        }
        if self == Form::Chunks {
            out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        }
        out.extend_from_slice(part);
        if self == Form::Chunks {
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The response's head for the client, with the length that its body has now.
#[expect(clippy::too_many_arguments, reason = "all that a head depends on")]
async fn rewritten(
    job: &Job<'_>,
    rules: &Ruled,
    head: &mut ResponseHead,
    first: &[u8],
    body: &Body,
    chunks: bool,
    bodiless: bool,
    keep: bool,
) -> Result<Vec<u8>, Broken> {
    let mut made = Vec::new();
    // A rule may have changed the head again when it saw the body.
    let changed = rules
        .flow()
        .http
        .as_ref()
        .is_some_and(|http| http.has_response && http.response.is_changed());
    let bytes = if changed {
        ruled::written(rules, &mut made);
        ruled::reparse(head, &made, job.method)?;
        &made[..]
    } else {
        &first[..head.len]
    };
    let mut out = job.worker.take_vec();
    job.edits
        .write_response(&mut out, head, bytes, &job.rendered, |known| {
            !bodiless
                && matches!(
                    known,
                    Known::ContentLength | Known::TransferEncoding | Known::Trailer
                )
        });
    if !bodiless && !chunks {
        let length = body.length().to_string();
        h1::push_field(&mut out, "Content-Length", length.as_bytes());
    } else if chunks && !job.is_10 {
        h1::push_field(&mut out, "Transfer-Encoding", b"chunked");
    }
    push_connection(job, keep, &mut out);
    h1::finish(&mut out);
    if rules.wants(Event::HttpResponseRelease) {
        ruled::release(job, rules, &mut out).await?;
    }
    Ok(out)
}

/// What the member sends next; `None` at its end.
async fn read(job: &Job<'_>, upstream: &Upstream) -> Result<Option<Vec<u8>>, Broken> {
    loop {
        let limit = job.backend.config.timeouts.idle;
        {
            let mut buf = Buf::take();
            match upstream.channel.try_read(&mut buf[..READ]) {
                Ok(Some(0)) => return Ok(None),
                Ok(Some(n)) => return Ok(Some(buf[..n].to_vec())),
                Ok(None) => {}
                Err(_) => return Err(Broken::Truncated),
            }
        }
        hear(job, upstream, limit, || false)
            .await
            .map_err(|silence| match silence {
                Silence::Long => Broken::Stalled,
                Silence::ClientGone => Broken::ClientGone,
                Silence::Failed => Broken::Truncated,
            })?;
    }
}

fn held(rules: &Ruled, of_request: bool, ask: impl FnOnce(&mut Held)) {
    let mut flow = rules.flow();
    if let Some(http) = &mut flow.http {
        ask(if of_request {
            &mut http.request_body
        } else {
            &mut http.response_body
        });
    }
}

/// How many bytes the rules want to see; 0 for all.
fn wanted(rules: &Ruled, of_request: bool) -> Option<u64> {
    let mut wanted = None;
    held(rules, of_request, |held| wanted = held.wanted);
    wanted
}

/// A body on its way through a rule: what has come of it, without its framing.
struct Body {
    bytes: Vec<u8>,
    framing: Framed,
    most: usize,
    changed: bool,
}

enum Framed {
    Length(u64),
    Chunked(Box<ChunkedDecoder>, bool),
    UntilClose,
    Done,
}

impl Body {
    fn new(framing: Framing, most: usize) -> Self {
        Body {
            bytes: Vec::new(),
            framing: match framing {
                Framing::None | Framing::Length(0) => Framed::Done,
                Framing::Length(n) => Framed::Length(n),
                Framing::Chunked => {
                    let decoder = ChunkedDecoder::new(ChunkLimits::default());
                    Framed::Chunked(Box::new(decoder), false)
                }
                Framing::UntilClose => Framed::UntilClose,
            },
            most,
            changed: false,
        }
    }

    /// Takes what belongs to the body; returns what lies behind it.
    fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Next> {
        let mut rest = bytes;
        match &mut self.framing {
            Framed::Done => {}
            Framed::Length(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                self.bytes.extend_from_slice(&rest[..n]);
                rest = &rest[n..];
                *left -= n as u64;
                if *left == 0 {
                    self.framing = Framed::Done;
                }
            }
            Framed::UntilClose => {
                self.bytes.extend_from_slice(rest);
                rest = &[];
            }
            Framed::Chunked(decoder, done) => {
                while !rest.is_empty() && !*done {
                    let (n, piece) = decoder
                        .next(rest)
                        .map_err(|error| Next::BadHead(error.reason()))?;
                    if matches!(piece, Piece::Data) {
                        self.bytes.extend_from_slice(&rest[..n]);
                    }
                    rest = &rest[n..];
                    *done = matches!(piece, Piece::End) || decoder.is_done();
                }
                if *done {
                    self.framing = Framed::Done;
                }
            }
        }
        Ok(rest.to_vec())
    }

    fn is_done(&self) -> bool {
        matches!(self.framing, Framed::Done)
    }

    fn until_close(&self) -> bool {
        matches!(self.framing, Framed::UntilClose)
    }

    fn end(&mut self) {
        self.framing = Framed::Done;
    }

    /// Whether as much has come as the rules want. Of chunks all is wanted in any case.
    fn has(&self, wanted: Option<u64>) -> bool {
        let enough = |n: u64| n > 0 && self.bytes.len() as u64 >= n;
        self.is_done()
            || wanted.is_none()
            || (self.is_full() && matches!(self.framing, Framed::Length(_)))
            || (wanted.is_some_and(enough) && !matches!(self.framing, Framed::Chunked(..)))
    }

    /// Whether no more is held back.
    fn is_full(&self) -> bool {
        self.bytes.len() >= self.most
    }

    /// Whether it is known how long it is in all.
    fn is_countable(&self) -> bool {
        matches!(self.framing, Framed::Done | Framed::Length(_))
    }

    /// Whether more was held back than may be.
    fn is_over(&self) -> bool {
        self.bytes.len() > self.most
    }

    /// How long it is in all, as it goes on.
    fn length(&self) -> u64 {
        let left = match self.framing {
            Framed::Length(left) => left,
            _ => 0,
        };
        self.bytes.len() as u64 + left
    }

    /// What is still to come.
    fn left(&self) -> Left {
        match self.framing {
            Framed::Length(left) => Left::Length(left),
            _ => Left::Done,
        }
    }

    fn show(&mut self, rules: &Ruled, of_request: bool) {
        let bytes = std::mem::take(&mut self.bytes);
        held(rules, of_request, |held| {
            held.wanted = None;
            held.released = None;
            held.changed = false;
            held.bytes = Value::from(bytes);
        });
    }

    fn take_back(&mut self, rules: &Ruled, of_request: bool) {
        held(rules, of_request, |held| {
            self.changed |= held.changed;
            self.bytes = std::mem::take(&mut held.bytes).bytes().to_vec();
        });
    }
}
