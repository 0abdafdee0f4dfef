//! Answers that a route has Headgate itself give.

use super::After;
use super::exchange::Outcome;
use super::facts::Facts;
use super::reply::Reply;
use super::route::{Action, Decision};
use super::vars::Vars;
use crate::access::{By, Ending, Phase as LogPhase};
use crate::client::Client;
use crate::counters::add;
use crate::worker::Worker;
use wire::h1::{Known, Method};

/// What the route says Headgate itself is to answer.
pub(super) fn own_answer<'d>(decision: &'d Decision<'_>, vars: &Vars<'_>) -> Option<OwnAnswer<'d>> {
    match decision.action? {
        Action::Pool(_) => None,
        Action::Redirect(redirect) => {
            let mut to = Vec::new();
            vars.render(&redirect.to, &mut to);
            Some(OwnAnswer {
                status: redirect.status,
                location: Some(to),
                respond: None,
            })
        }
        Action::Respond(respond) => Some(OwnAnswer {
            status: respond.status,
            location: None,
            respond: Some(respond),
        }),
    }
}

pub(super) struct OwnAnswer<'d> {
    status: u16,
    location: Option<Vec<u8>>,
    respond: Option<&'d model::Respond>,
}

/// Sends it.
pub(super) async fn answer(
    worker: &Worker,
    client: &Client,
    facts: &mut Facts,
    own: &OwnAnswer<'_>,
    method: Method,
    keep: bool,
) -> Outcome {
    let mut reply = Reply::text(own.status, b"");
    if let Some(location) = &own.location {
        reply.fields.push(("Location", location));
    }
    if let Some(respond) = own.respond {
        reply.body = respond.body.text.as_bytes();
        reply.content_type = respond.content_type.as_str();
        for (name, value) in &respond.headers {
            match Known::of(name.as_str().as_bytes()) {
                // Where the message ends and what becomes of the connection is not for sale.
                Known::ContentLength | Known::TransferEncoding | Known::Connection => {}
                Known::ContentType => reply.content_type = value.as_str(),
                _ => reply
                    .fields
                    .push((name.as_str(), value.as_str().as_bytes())),
            }
        }
    }
    let (sent, after) = reply.send(client, method, keep).await;
    facts.status = own.status;
    facts.bytes_out = sent;
    facts.ending = Ending::new(By::Local, LogPhase::Request);
    add(
        &client.service.state.counters.of(worker.index).own_responses,
        1,
    );
    Outcome::Served {
        keep: after == After::Next,
    }
}
