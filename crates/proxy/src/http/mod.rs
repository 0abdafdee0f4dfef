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

/// What becomes of the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The next request may come.
    Next,
    /// It is over.
    Close,
}

/// Serves a client's connection to its end.
pub(crate) async fn serve(worker: Rc<Worker>, mut client: Client) {
    if raise(&client, Event::ClientAccepted).await != Verdict::Continue {
        return;
    }
    let mut first = true;
    loop {
        let wait = if first {
            client.service.config.timeouts.head
        } else {
            client.service.config.timeouts.idle.saturating_sub(LINGER)
        };
        if client.pending.is_empty() && !next_request(&worker, &client, wait, first).await {
            break;
        }
        // Boxed, so that an idle connection is as small as what it waits for.
        if Box::pin(busy(&worker, &mut client)).await == After::Close {
            break;
        }
        first = false;
    }
    if !client.channel.is_plain() {
        client.channel.with(tls::Stream::close_notify);
    }
    raise(&client, Event::ClientClosed).await;
}

/// Serves requests as long as they follow closely.
async fn busy(worker: &Rc<Worker>, client: &mut Client) -> After {
    let mut heads = exchange::Heads::default();
    let mut served = 0;
    loop {
        let after = exchange::exchange(worker, client, &mut heads, served).await;
        if after == After::Close {
            return After::Close;
        }
        served += 1;
        if client.pending.is_empty() && !client.channel.with(|s| s.tcp().is_readable()) {
            let idle = client.service.config.timeouts.idle;
            if !next_request(worker, client, LINGER.min(idle), false).await {
                let over = idle <= LINGER || worker.phase() != Phase::Running;
                return if over { After::Close } else { After::Next };
            }
        }
    }
}

/// Waits for the first bytes of a request: false when none came in time, or the process drains.
async fn next_request(worker: &Worker, client: &Client, wait: Duration, first: bool) -> bool {
    client.deadline.set(wait.max(Duration::from_millis(1)));
    poll_fn(|_| {
        if client.channel.poll_readable().is_ready() {
            return Poll::Ready(true);
        }
        let leave = match worker.phase() {
            Phase::Running => false,
            Phase::Draining => !first,
            Phase::Stopping => true,
        };
        if leave {
            return Poll::Ready(false);
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
