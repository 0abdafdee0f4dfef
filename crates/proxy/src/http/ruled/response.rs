//! Responses as rules see and change them: interim ones, a member's own, and what goes out to the client at last.

use super::show::fill_response;
use super::{Next, keep_framing, raise};
use crate::http::attempt::Job;
use crate::http::respond::LIMITS;
use crate::rules::Ruled;
use ::rules::event::Event;
use reactor::Buf;
use wire::h1::{Method, Progress, ResponseHead};

/// Runs the rules of a response whose head begins at `start`; afterwards what they made of it is there. True where they
/// hold back its body or search it.
pub(in crate::http) async fn response(
    job: &Job<'_>,
    rules: &Ruled,
    head: &mut ResponseHead,
    buf: &mut Buf,
    start: &mut usize,
    end: &mut usize,
) -> Result<bool, Next> {
    let upgrade = head.status == 101;
    let rewrites = job.cookie.borrow().as_ref().is_some_and(|c| c.rewrites);
    if !rules.wants(Event::HttpResponse) && !rewrites {
        let streams = rules.flow().stream.enabled && !upgrade;
        return Ok(streams);
    }
    {
        let mut flow = rules.flow();
        let http = flow.http.get_or_insert_default();
        fill_response(&mut http.response, head, &buf[*start..*end]);
        http.has_response = true;
    }
    raise(job.worker, job.client, rules, Event::HttpResponse).await?;
    if let Some(cookie) = job
        .cookie
        .borrow()
        .as_ref()
        .filter(|cookie| cookie.rewrites)
        && let Some(http) = &mut rules.flow().http
    {
        cookie.rewrite(&mut http.response);
    }
    let (held, changed) = {
        let flow = rules.flow();
        let Some(http) = &flow.http else {
            return Ok(false);
        };
        if http.retry.is_some() {
            return Err(Next::Retry);
        }
        let held = http.response_body.wanted.is_some() || flow.stream.enabled;
        (held, http.response.is_changed())
    };
    if changed {
        if let Some(http) = &mut rules.flow().http {
            keep_framing(&mut http.response, &head.fields, &buf[*start..*end]);
        }
        let mut out = job.worker.take_vec();
        written(rules, &mut out);
        let (len, keep_alive) = (head.len, head.keep_alive);
        reparse(head, &out, job.method)?;
        // What the member has said of its connection stays true.
        head.keep_alive &= keep_alive;
        // In front of the body, or else the body is moved.
        let body = *start + len;
        if out.len() <= body {
            *start = body - out.len();
            buf[*start..body].copy_from_slice(&out);
        } else {
            let moved = out.len() + (*end - body);
            if moved > buf.len() {
                return Err(Next::BadHead("rule-head-too-large"));
            }
            buf.copy_within(body..*end, out.len());
            buf[..out.len()].copy_from_slice(&out);
            (*start, *end) = (0, moved);
        }
        job.worker.give_vec(out);
    }
    Ok(held && !upgrade)
}

/// Shows the rules an interim response, whose head `bytes` is. Returns what they have made of it, if they have.
pub(in crate::http) async fn interim(
    job: &Job<'_>,
    rules: &Ruled,
    head: &mut ResponseHead,
    bytes: &[u8],
) -> Result<Option<Vec<u8>>, Next> {
    if !rules.wants(Event::HttpResponseContinue) {
        return Ok(None);
    }
    if let Some(http) = &mut rules.flow().http {
        fill_response(&mut http.response, head, bytes);
        http.has_response = true;
    }
    raise(job.worker, job.client, rules, Event::HttpResponseContinue).await?;
    let mut changed = None;
    if let Some(http) = &mut rules.flow().http {
        http.has_response = false;
        if http.response.is_changed() {
            http.response.write(changed.insert(Vec::new()));
        }
        http.response.clear();
    }
    if let Some(changed) = &changed {
        let status = head.status;
        reparse(head, changed, job.method)?;
        // The one that ends the exchange is still to come.
        if head.status != status {
            return Err(Next::BadHead("rule-bad-status"));
        }
    }
    Ok(changed)
}

/// Writes the response's head as the rules have it.
pub(in crate::http) fn written(rules: &Ruled, out: &mut Vec<u8>) {
    let flow = rules.flow();
    if let Some(http) = &flow.http {
        http.response.write(out);
    }
}

/// Reads a response's head that a rule has made.
pub(in crate::http) fn reparse(
    head: &mut ResponseHead,
    bytes: &[u8],
    method: Method,
) -> Result<(), Next> {
    head.clear();
    match head.parse(bytes, &LIMITS, method) {
        Ok(Progress::Complete) if head.len == bytes.len() => Ok(()),
        Ok(_) => Err(Next::BadHead("rule-bad-head")),
        Err(error) => Err(Next::BadHead(error.reason())),
    }
}

/// Shows the rules a response's head as it goes to the client; what they change is changed there.
pub(in crate::http) async fn release(
    job: &Job<'_>,
    rules: &Ruled,
    out: &mut Vec<u8>,
) -> Result<(), Next> {
    let mut head = ResponseHead::default();
    reparse(&mut head, out, job.method)?;
    let framing = head.framing;
    {
        let mut flow = rules.flow();
        let http = flow.http.get_or_insert_default();
        fill_response(&mut http.response, &head, out);
        http.has_response = true;
    }
    // An answer of its own comes too late here.
    match raise(job.worker, job.client, rules, Event::HttpResponseRelease).await {
        Ok(()) | Err(Next::Answer) => {}
        Err(next) => return Err(next),
    }
    let changed = rules
        .flow()
        .http
        .as_ref()
        .is_some_and(|h| h.response.is_changed());
    if changed {
        out.clear();
        written(rules, out);
        reparse(&mut head, out, job.method)?;
        if head.framing != framing {
            return Err(Next::BadHead("rule-bad-head"));
        }
    }
    Ok(())
}
