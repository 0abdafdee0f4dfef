//! HTTP/1.1 virtuals: a client's connection from its first request to its end.
//!
//! A connection that waits is a small future and nothing else. When bytes come, a larger one is
//! put beside it, which stays while requests keep coming and goes when they do not.

mod attempt;
mod body;
pub(crate) mod edit;
mod exchange;
mod facts;
mod reply;
mod request;
mod respond;
pub(crate) mod route;
mod vars;

use crate::client::Client;
use crate::engine::Phase;
use crate::events::{Event, Verdict, View};
use crate::worker::Worker;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// How long a connection is kept ready for its next request before it is folded up.
const LINGER: Duration = Duration::from_secs(2);

/// How long an idle connection of a draining process stays. A client that uses it within this time
/// gets its answer, and with it the word that the connection closes.
const LAST_CHANCE: Duration = Duration::from_secs(2);

/// Requests after which it is.
const CHATTY: u64 = 2;

/// What becomes of the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The next request may come.
    Next,
    /// It is over.
    Close,
}

/// Serves a client's connection to its end.
pub(crate) fn serve(worker: Rc<Worker>, client: Client) -> impl Future<Output = ()> {
    // Boxed, because a future would hold a client that it was given twice: as given and as used.
    live(worker, Box::new(client))
}

async fn live(worker: Rc<Worker>, mut client: Box<Client>) {
    if raise(&client, Event::ClientAccepted).await != Verdict::Continue {
        return;
    }
    let mut served = 0;
    let mut wait = client.service.config.timeouts.head;
    loop {
        if client.pending.is_empty() && !next_request(&worker, &client, wait, served == 0).await {
            break;
        }
        // Boxed, so that an idle connection is as small as what it waits for.
        let Some(waited) = Box::pin(busy(&worker, &mut client, &mut served)).await else {
            break;
        };
        wait = client.service.config.timeouts.idle.saturating_sub(waited);
    }
    if !client.channel.is_plain() {
        client.channel.with(tls::Stream::close_notify);
    }
    raise(&client, Event::ClientClosed).await;
}

/// Serves requests as long as they follow closely. Returns how long it has waited for the next one
/// when it did not, or `None` when the connection is over.
async fn busy(worker: &Rc<Worker>, client: &mut Client, served: &mut u64) -> Option<Duration> {
    let mut heads = exchange::Heads::default();
    let chatty = *served + CHATTY;
    loop {
        if exchange::exchange(worker, client, &mut heads, *served).await == After::Close {
            return None;
        }
        *served += 1;
        if !client.pending.is_empty() || client.channel.with(|s| s.tcp().is_readable()) {
            continue;
        }
        // Who has sent one request alone may not send another for long.
        if *served < chatty {
            return Some(Duration::ZERO);
        }
        let linger = LINGER.min(client.service.config.timeouts.idle);
        if !next_request(worker, client, linger, false).await {
            return Some(linger);
        }
    }
}

/// Waits for the first bytes of a request: false when none came in time. A process that drains
/// gives a client that is about to send a last chance to, and then closes.
async fn next_request(worker: &Worker, client: &Client, wait: Duration, first: bool) -> bool {
    client.deadline.set(wait.max(Duration::from_millis(1)));
    let mut last_chance = first;
    poll_fn(|_| {
        if client.channel.poll_readable().is_ready() {
            return Poll::Ready(true);
        }
        match worker.phase() {
            Phase::Draining if !last_chance => {
                client
                    .deadline
                    .set(wait.clamp(Duration::from_millis(1), LAST_CHANCE));
                last_chance = true;
            }
            Phase::Stopping => return Poll::Ready(false),
            _ => {}
        }
        client.deadline.poll_past().map(|()| false)
    })
    .await
}

/// Brings an event that is about no head to the virtual's handler.
async fn raise(client: &Client, event: Event) -> Verdict {
    match &client.service.handler {
        Some(handler) if handler.wants(event) => {
            let view = View {
                virtual_name: client.service.name.as_str(),
                client: client.peer,
                head: &[],
                member: None,
                status: 0,
            };
            handler.handle(event, view).await
        }
        _ => Verdict::Continue,
    }
}
