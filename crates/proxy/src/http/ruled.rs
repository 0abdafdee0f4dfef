//! Rules of HTTP virtuals: a request's and a response's events, and what their decisions mean for the exchange.
//!
//! A rule sees the head that was parsed. What it changes is written out and parsed again by the same parser, so that
//! nothing a rule does can make a message that others would read differently.

mod answer;
mod response;
mod show;

pub(super) use answer::{OwnAnswer, answer};
pub(super) use response::{interim, release, reparse, response, written};
pub(crate) use show::show_request;

use self::show::fill_request;
use super::exchange::Refusal;
use super::heads::Heads;
use super::request::Left;
use crate::access::{By, Phase as LogPhase};
use crate::client::Client;
use crate::rules::{Ruled, Stop, handed_to, target};
use crate::snapshot::{Backend, Virtual};
use crate::worker::Worker;
use ::rules::event::Event;
use ::rules::flow::{Ends, Held, Http, Selected};
use ::rules::message::Message;
use ::rules::value::Value;
use balance::{Member, MemberId};
use reactor::{Buf, Tcp};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::h1::{Field, Framing, HeadLimits, Method, Progress, RequestHead, Version};

/// How often a rule may have a member chosen anew, or a request sent once more, in one exchange.
pub(super) const TURNS: u32 = 10;

/// What becomes of an exchange after a rule has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The rule's own answer is sent.
    Answer,
    /// A member is chosen anew, as the rule says now.
    Elsewhere,
    /// The request is sent once more: `HTTP::retry`.
    Retry,
    /// The connection ends.
    Stop(Stop),
    /// What a rule made of a head is no head.
    BadHead(&'static str),
    /// A body that is to be held back as a whole is too large for that.
    TooLarge,
}

impl From<Stop> for Next {
    fn from(stop: Stop) -> Self {
        Next::Stop(stop)
    }
}

/// A request's body as far as rules have held it back.
pub(super) struct Collected {
    /// What the member gets of it first.
    pub(super) body: Vec<u8>,
    /// What is still to come.
    pub(super) left: Left,
    /// What the client has sent behind it.
    pub(super) rest: Vec<u8>,
    /// How many bytes the client has sent of the head and the body so far.
    pub(super) bytes_in: u64,
}

/// Runs the rules of a request whose head is at the front of `buf`; afterwards what they made of it is there. Its body
/// is collected only if it is still there: `may_collect`.
#[expect(clippy::too_many_arguments, reason = "a request, as it was read")]
pub(super) async fn request(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    heads: &mut Heads,
    buf: &mut Buf,
    filled: &mut usize,
    served: u64,
    may_collect: bool,
) -> Result<Option<Collected>, Next> {
    begin(rules, served);
    if !rules.wants(Event::HttpRequest) && !rules.wants(Event::HttpRequestData) {
        fill_request(rules, &heads.request, buf);
        return Ok(None);
    }
    fill_request(rules, &heads.request, buf);
    let gone = || client.channel.is_gone();
    rules.raise(worker, Event::HttpRequest, &gone).await?;
    let (collects, changed) = {
        let flow = rules.flow();
        let Some(http) = &flow.http else {
            return Ok(None);
        };
        if http.respond.is_some() {
            return Err(Next::Answer);
        }
        (
            may_collect && http.request_body.wanted.is_some(),
            http.request.is_changed(),
        )
    };
    let mut collected = None;
    if collects && !matches!(heads.request.framing, Framing::None | Framing::Length(0)) {
        let held = super::collect::request(worker, client, rules, &heads.request, buf, *filled);
        collected = Some(Box::pin(held).await?);
    }
    let changed = changed || {
        let flow = rules.flow();
        let http = flow.http.as_ref();
        http.is_some_and(|http| http.request.is_changed())
    };
    if changed {
        if collected.is_none()
            && let Some(http) = &mut rules.flow().http
        {
            keep_framing(&mut http.request, &heads.request.fields, buf);
        }
        rewrite(client, rules, heads, buf, filled)?;
    }
    Ok(collected)
}

/// Puts the head as the rules have made it where it was, what is behind it after it.
fn rewrite(
    client: &Client,
    rules: &Ruled,
    heads: &mut Heads,
    buf: &mut Buf,
    filled: &mut usize,
) -> Result<(), Next> {
    let mut out = Vec::with_capacity(heads.request.len + 256);
    {
        let flow = rules.flow();
        if let Some(http) = &flow.http {
            http.request.write(&mut out);
        }
    }
    let behind = heads.request.len..*filled;
    let end = out.len() + behind.len();
    if end > buf.len() {
        return Err(Next::BadHead("rule-head-too-large"));
    }
    buf.copy_within(behind, out.len());
    buf[..out.len()].copy_from_slice(&out);
    *filled = end;
    let head = &mut heads.request;
    let asked = Asked::of(head);
    head.clear();
    let limits = relaxed(&client.service.head_limits);
    match head.parse(&buf[..out.len()], &limits) {
        Ok(Progress::Complete) if head.len == out.len() => asked.stays(head),
        Ok(_) => Err(Next::BadHead("rule-bad-head")),
        Err(error) => Err(Next::BadHead(error.reason())),
    }
}

/// What a client goes by when it reads the answer, whatever rules make of its request.
struct Asked {
    method: Method,
    version: Version,
    keep_alive: bool,
}

impl Asked {
    fn of(head: &RequestHead) -> Self {
        Asked {
            method: head.method,
            version: head.version,
            keep_alive: head.keep_alive,
        }
    }

    /// Has a head that a rule has made be answered as the client expects.
    fn stays(&self, head: &mut RequestHead) -> Result<(), Next> {
        // These say whether a body follows the answer's head.
        for method in [Method::Head, Method::Connect] {
            if (head.method == method) != (self.method == method) {
                return Err(Next::BadHead("rule-bad-method"));
            }
        }
        head.keep_alive &= self.keep_alive;
        if self.version == Version::Http10 {
            head.version = Version::Http10;
        }
        Ok(())
    }
}

/// Puts back what says where a message's body ends, as it stood in the `fields` of its head: it ends there, whatever a
/// rule has written.
fn keep_framing(message: &mut Message, fields: &[Field], bytes: &[u8]) {
    let came: Vec<_> = fields
        .iter()
        .map(|field| (field.name.of(bytes), field.value.of(bytes)))
        .filter(|(name, _)| is_framing(name))
        .collect();
    let mut now = message.fields().filter(|(name, _)| is_framing(name));
    let stays = came
        .iter()
        .all(|(name, value)| now.next().is_some_and(|(n, v)| n == *name && v == *value));
    if stays && now.next().is_none() {
        return;
    }
    drop(now);
    message.retain(|name, _| !is_framing(name));
    for (name, value) in came {
        message.insert(None, Value::new(name), Value::new(value));
    }
}

/// Whether a field of that name says where a body ends.
pub(super) fn is_framing(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"Content-Length") || name.eq_ignore_ascii_case(b"Transfer-Encoding")
}

/// The limits on what a rule makes of a head: it may add to one that was as large as it could be.
fn relaxed(limits: &HeadLimits) -> HeadLimits {
    HeadLimits {
        head_bytes: limits.head_bytes + 64 * 1024,
        fields: limits.fields + 100,
        target_bytes: limits.target_bytes + 8 * 1024,
        connect: limits.connect,
    }
}

/// Forgets the last exchange's decisions.
fn begin(rules: &Ruled, served: u64) {
    let lasting = rules.lasting();
    let mut flow = rules.flow();
    flow.steering = lasting;
    flow.selected = None;
    let http = flow.http.get_or_insert_default();
    let Http {
        request, response, ..
    } = std::mem::take(&mut **http);
    **http = Http {
        request,
        response,
        earlier: served,
        ..Http::default()
    };
    if !http.response.is_absent() {
        http.response.clear();
    }
}

/// Where a request goes that a rule has steered.
pub(super) struct Destination {
    pub(super) backend: Arc<Backend>,
    /// Only this member will do.
    pub(super) only: Option<MemberId>,
}

/// Where the rules want a request to go; `None` for where the configuration says.
pub(super) fn destination(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
) -> Result<Option<Destination>, Refusal> {
    let refused = |reason| Refusal::new(503, reason).at(By::Proxy, LogPhase::Connect);
    let place = target(worker, client, rules).map_err(refused)?;
    Ok(place.map(|(backend, only)| Destination { backend, only }))
}

/// The virtual whose routes are to be asked instead of the client's own.
///
/// # Errors
///
/// There is none of that name that serves HTTP.
pub(super) fn host(worker: &Worker, rules: &Ruled) -> Result<Option<Arc<Virtual>>, Refusal> {
    let refused = |reason| Refusal::new(503, reason).at(By::Proxy, LogPhase::Connect);
    handed_to(worker, rules, true).map_err(refused)
}

/// Tells the rules of the member that was chosen.
pub(super) async fn selected(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    pool: &str,
    member: &Member,
) -> Result<(), Next> {
    {
        let mut flow = rules.flow();
        flow.steering.reselect = false;
        // Names are kept where they are the same as before.
        let same = flow
            .selected
            .as_ref()
            .is_some_and(|known| *known.pool == *pool && known.address == member.address());
        if !same {
            flow.selected = Some(Selected {
                pool: pool.into(),
                name: (&**member.name()).into(),
                address: member.address(),
            });
        }
    }
    if !rules.wants(Event::LbSelected) {
        return Ok(());
    }
    let before = rules.flow().steering.target.clone();
    raise(worker, client, rules, Event::LbSelected).await?;
    let flow = rules.flow();
    if flow.steering.reselect || flow.steering.target != before {
        return Err(Next::Elsewhere);
    }
    Ok(())
}

/// Tells the rules that no member could be had. `Ok` where they leave it at that.
pub(super) async fn failed(worker: &Worker, client: &Client, rules: &Ruled) -> Result<(), Next> {
    if !rules.wants(Event::LbFailed) {
        return Ok(());
    }
    let before = {
        let mut flow = rules.flow();
        flow.steering.reselect = false;
        flow.steering.target.clone()
    };
    raise(worker, client, rules, Event::LbFailed).await?;
    let flow = rules.flow();
    if flow.steering.reselect || flow.steering.target != before {
        return Err(Next::Elsewhere);
    }
    Ok(())
}

/// Runs an event amid an exchange; an answer that a rule gives ends it.
pub(super) async fn raise(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    event: Event,
) -> Result<(), Next> {
    if !rules.wants(event) {
        return Ok(());
    }
    let gone = || client.channel.is_gone();
    rules.raise(worker, event, &gone).await?;
    let flow = rules.flow();
    if flow
        .http
        .as_ref()
        .is_some_and(|http| http.respond.is_some())
    {
        return Err(Next::Answer);
    }
    Ok(())
}

/// Shows the rules the head of a request as it goes to the member, at the front of `out`; what they change is changed
/// there.
pub(super) async fn send(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    event: Event,
    out: &mut Vec<u8>,
) -> Result<(), Next> {
    let limits = relaxed(&client.service.head_limits);
    let mut head = RequestHead::default();
    match head.parse(out, &limits) {
        Ok(Progress::Complete) => {}
        _ => return Err(Next::BadHead("rule-bad-head")),
    }
    fill_request(rules, &head, out);
    raise(worker, client, rules, event).await?;
    let mut changed = Vec::new();
    {
        let flow = rules.flow();
        let Some(http) = flow.http.as_ref().filter(|h| h.request.is_changed()) else {
            return Ok(());
        };
        http.request.write(&mut changed);
    }
    let (framing, old) = (head.framing, head.len);
    head.clear();
    match head.parse(&changed, &limits) {
        // The body's end is settled by now.
        Ok(Progress::Complete) if head.len == changed.len() && head.framing == framing => {}
        _ => return Err(Next::BadHead("rule-bad-head")),
    }
    out.splice(..old, changed);
    Ok(())
}

/// Whether the rules want the client's connection closed after the exchange.
pub(super) fn closes(rules: &Ruled) -> bool {
    rules.flow().http.as_ref().is_some_and(|http| http.close)
}

/// Whether the rules leave HTTP.
pub(super) fn is_disabled(rules: &Ruled) -> bool {
    rules.flow().http.as_ref().is_some_and(|http| http.disabled)
}

/// Takes the request that a rule wants sent instead, and forgets what came of the last. `settled` says whether all
/// of the client's own request was read, so that its connection can take another.
pub(super) fn retry(
    client: &Client,
    rules: &Ruled,
    heads: &mut Heads,
    settled: bool,
) -> Result<(Buf, usize), Next> {
    let retry = {
        let mut flow = rules.flow();
        let Some(http) = &mut flow.http else {
            return Err(Next::BadHead("rule-bad-head"));
        };
        http.has_response = false;
        http.response.clear();
        http.response_body = Held::default();
        http.retry.take().unwrap_or_default()
    };
    let bytes = retry.bytes();
    let mut buf = Buf::take();
    if bytes.len() > buf.len() {
        return Err(Next::BadHead("rule-head-too-large"));
    }
    buf[..bytes.len()].copy_from_slice(&bytes);
    let head = &mut heads.request;
    let mut asked = Asked::of(head);
    asked.keep_alive &= settled;
    head.clear();
    match head.parse(&bytes, &relaxed(&client.service.head_limits)) {
        Ok(Progress::Complete) => asked.stays(head)?,
        _ => return Err(Next::BadHead("rule-bad-head")),
    }
    // It must be whole: nobody sends the rest of it.
    let mut body = Left::new(head.framing);
    match body.take(&bytes[head.len..]) {
        Ok(n) if body.is_done() && head.len + n == bytes.len() => {}
        _ => return Err(Next::BadHead("rule-bad-body")),
    }
    fill_request(rules, head, &bytes);
    Ok((buf, bytes.len()))
}

/// Notes the connection to the member.
pub(super) fn connected(rules: &Ruled, remote: SocketAddr, member: &Tcp) {
    rules.reached(member.control());
    let unknown = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    rules.flow().server = Some(Ends {
        remote,
        local: member.local_addr().unwrap_or(unknown),
    });
}
