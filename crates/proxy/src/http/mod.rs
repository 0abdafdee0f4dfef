//! HTTP/1.1 virtuals: a client's connection from its first request to its end.
//!
//! A connection that waits is a small future and nothing else. When bytes come, a larger one is
//! put beside it, which stays while requests keep coming and goes when they do not.

mod attempt;
mod body;
mod choose;
mod collect;
pub(crate) mod edit;
mod exchange;
mod facts;
mod handover;
mod heads;
mod local;
mod reply;
mod report;
mod request;
mod respond;
pub(crate) mod route;
mod ruled;
mod sender;
mod stream;
mod upload;
mod vars;

pub(crate) use ruled::show_request;

use crate::client::Client;
use crate::engine::Phase;
use crate::rules::{Ruled, Stop};
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
    /// It is cut off, so that what was sent of a response is not taken for all of it.
    Cut,
}

/// Serves a client's connection to its end.
pub(crate) fn serve(worker: Rc<Worker>, client: Client) -> impl Future<Output = ()> {
    // Boxed, because a future would hold a client that it was given twice: as given and as used.
    live(worker, Box::new(client))
}

async fn live(worker: Rc<Worker>, mut client: Box<Client>) {
    let mut served = 0;
    let mut cut = false;
    if let Some(rules) = client.rules.clone() {
        let gone = || client.channel.is_gone();
        if let Err(stop) = Box::pin(rules.accept(&worker, &gone)).await {
            end_ruled(&worker, &client, &rules, stop).await;
            return;
        }
    }
    if client.rules.as_deref().is_some_and(ruled::is_disabled) {
        // There never was a request.
        Box::pin(crate::tcp::serve(worker, *client)).await;
        return;
    }
    let mut wait = client.service.config.timeouts.head;
    loop {
        if client.pending.is_empty() && !next_request(&worker, &client, wait, served == 0).await {
            break;
        }
        // Boxed, so that an idle connection is as small as what it waits for.
        match Box::pin(busy(&worker, &mut client, &mut served)).await {
            Ok(waited) => wait = idle(&client).saturating_sub(waited),
            Err(end) => {
                cut = end == After::Cut;
                break;
            }
        }
    }
    if cut {
        // A connection that is broken already is cut.
        let _ = client.channel.with(|stream| stream.tcp().reset_on_close());
    } else if !client.channel.is_plain() {
        client.channel.with(tls::Stream::close_notify);
    }
    if let Some(rules) = &client.rules {
        Box::pin(rules.close(&worker)).await;
    }
}

/// Ends a connection as its rules say.
async fn end_ruled(worker: &Worker, client: &Client, rules: &Ruled, stop: Stop) {
    client.service.state.counters.refuse(stop.reason());
    client.channel.with(|stream| stop.mark(stream.tcp()));
    rules.close(worker).await;
}

/// Serves requests as long as they follow closely. Returns how long it has waited for the next one
/// when it did not, or how the connection ends.
async fn busy(
    worker: &Rc<Worker>,
    client: &mut Client,
    served: &mut u64,
) -> Result<Duration, After> {
    let mut lent = heads::Lent::take();
    let chatty = *served + CHATTY;
    let mut turns = Turns::default();
    loop {
        match exchange::exchange(worker, client, lent.heads(), *served).await {
            After::Next => {}
            end => return Err(end),
        }
        *served += 1;
        if !client.pending.is_empty() || client.channel.with(|s| s.tcp().is_readable()) {
            turns.next().await;
            continue;
        }
        // Who has sent one request alone may not send another for long.
        if *served < chatty {
            return Ok(Duration::ZERO);
        }
        let linger = LINGER.min(idle(client));
        if !next_request(worker, client, linger, false).await {
            return Ok(linger);
        }
    }
}

/// How long the next request may take to begin.
fn idle(client: &Client) -> Duration {
    let ruled = client.rules.as_ref().and_then(|rules| rules.idle());
    ruled.unwrap_or(client.service.config.timeouts.idle)
}

/// Waits for the first bytes of a request: false when none came in time. A process that drains
/// gives a client that is about to send a last chance to, and then closes.
async fn next_request(worker: &Worker, client: &Client, wait: Duration, first: bool) -> bool {
    client.deadline.set(wait.max(Duration::from_millis(1)));
    let mut last_chance = first;
    poll_fn(|cx| {
        if client.channel.poll_readable().is_ready() {
            return Poll::Ready(true);
        }
        // A script that runs between requests may end the connection.
        if let Some(rules) = &client.rules
            && let Poll::Ready(stop) = rules.poll_stop(cx.waker())
        {
            client.service.state.counters.refuse(stop.reason());
            client.channel.with(|stream| stop.mark(stream.tcp()));
            return Poll::Ready(false);
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

/// Counts rounds of work that find what they need without a wait, and has others go first after a
/// number of them: who is never short of bytes must not keep the worker.
#[derive(Default)]
struct Turns(u32);

impl Turns {
    async fn next(&mut self) {
        const ROUNDS: u32 = 32;
        self.0 += 1;
        if self.0 < ROUNDS {
            return;
        }
        self.0 = 0;
        reactor::yield_now().await;
    }
}
