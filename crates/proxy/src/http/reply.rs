//! Answers of Headgate's own: refusals, redirects, fixed responses.

use super::After;
use super::exchange::Outcome;
use super::facts::Facts;
use super::ruled::OwnAnswer;
use crate::access::{By, Ending, Phase};
use crate::client::Client;
use crate::counters::add;
use crate::worker::Worker;
use reactor::Buf;
use std::time::Duration;
use wire::h1::{self, Method};

/// How long, and how much, a client may still send after the last answer to it, before the
/// connection is cut: long enough that the answer is not lost to a reset.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_BYTES: usize = 64 << 20;

/// An answer.
pub(super) struct Reply<'a> {
    pub(super) status: u16,
    pub(super) content_type: &'a str,
    pub(super) body: &'a [u8],
    /// Further fields.
    pub(super) fields: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Reply<'a> {
    /// A short text for people: the status, and what was wrong.
    pub(super) fn text(status: u16, body: &'a [u8]) -> Self {
        Reply {
            status,
            content_type: "text/plain; charset=utf-8",
            body,
            fields: Vec::new(),
        }
    }

    /// Sends it. Returns how many bytes went out, and what becomes of the connection: it is closed
    /// unless `keep`.
    pub(super) async fn send(&self, client: &Client, method: Method, keep: bool) -> (u64, After) {
        let mut out = Vec::with_capacity(256 + self.body.len());
        h1::write_status_line(&mut out, self.status);
        let bodiless = self.status == 204 || self.status == 304;
        if !bodiless {
            let length = self.body.len().to_string();
            if !self.body.is_empty() {
                h1::push_field(&mut out, "Content-Type", self.content_type.as_bytes());
            }
            h1::push_field(&mut out, "Content-Length", length.as_bytes());
        }
        for (name, value) in &self.fields {
            h1::push_field(&mut out, name, value);
        }
        let connection: &[u8] = if keep { b"keep-alive" } else { b"close" };
        h1::push_field(&mut out, "Connection", connection);
        h1::finish(&mut out);
        if method != Method::Head && !bodiless {
            out.extend_from_slice(self.body);
        }
        client.deadline.set(client.service.config.timeouts.send);
        let sent = client.deadline.guard(async {
            client.channel.write_all(&out).await?;
            client.channel.flush().await
        });
        if !matches!(sent.await, Ok(Ok(()))) {
            return (0, After::Close);
        }
        if keep {
            return (out.len() as u64, After::Next);
        }
        linger(client).await;
        (out.len() as u64, After::Close)
    }
}

/// Sends the answer of a rule.
pub(super) async fn send_ruled(
    worker: &Worker,
    client: &Client,
    facts: &mut Facts,
    answer: OwnAnswer,
    whole: bool,
) -> Outcome {
    let mut out = answer.head;
    out.extend_from_slice(&answer.body);
    client.deadline.set(client.service.config.timeouts.send);
    let sent = client.deadline.guard(async {
        client.channel.write_all(&out).await?;
        client.channel.flush().await
    });
    facts.status = answer.status;
    facts.ending = Ending::new(By::Local, Phase::Request);
    let cells = client.service.state.counters.of(worker.index);
    add(&cells.own_responses, 1);
    if !matches!(sent.await, Ok(Ok(()))) {
        return Outcome::Broken;
    }
    facts.bytes_out += out.len() as u64;
    match (answer.keep, whole) {
        (true, _) => Outcome::Served { keep: true },
        // What the client still sends of its request must not turn the close into a reset.
        (false, _) => Outcome::Unread,
    }
}

/// Ends the connection in a way that lets the client read what was sent: our side ends, then what
/// the client still sends is read and thrown away for a while.
pub(super) async fn linger(client: &Client) {
    client.channel.end();
    client.deadline.set(LINGER);
    let drained = client.deadline.guard(async {
        let mut left = LINGER_BYTES;
        loop {
            let read = client.channel.try_read(&mut Buf::take());
            match read {
                Ok(Some(0)) | Err(_) => return,
                Ok(Some(n)) => left = left.saturating_sub(n),
                Ok(None) if client.channel.readable().await.is_err() => return,
                Ok(None) => {}
            }
            if left == 0 {
                return;
            }
        }
    });
    // Whoever does not end by then is cut off.
    let _ = drained.await;
}
