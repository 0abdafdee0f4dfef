//! `HTTP::` commands: an exchange's heads, cookies and bodies, and answers of a rule's own.
//!
//! They read and change the [`Http`] of the flow; what is sent is the driver's business.

pub(super) mod answer;
pub(super) mod body;
pub(super) mod cookie;
mod cookie_attribute;
mod cookie_crypt;
pub(super) mod header;
pub(super) mod line;
#[cfg(test)]
pub(super) mod testing;

use crate::command::Ctx;
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::flow::Http;
use crate::message::Message;

/// Events at which there can be an exchange.
pub(super) const EXCHANGE: Events = Events::of(&[
    Event::HttpRequest,
    Event::HttpRequestData,
    Event::LbSelected,
    Event::LbFailed,
    Event::LbQueued,
    Event::PersistDown,
    Event::ServerConnected,
    Event::ServersslHandshake,
    Event::HttpRequestSend,
    Event::HttpRequestRelease,
    Event::HttpResponse,
    Event::HttpResponseData,
    Event::HttpResponseRelease,
    Event::HttpResponseContinue,
    Event::StreamMatched,
    Event::HttpDisabled,
]);

/// The exchange.
pub(super) fn exchange<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a mut Http, Fault> {
    match ctx.flow.http.as_deref_mut() {
        Some(http) => Ok(http),
        None => Err(no_exchange()),
    }
}

/// Whether the event is about the response rather than the request.
#[inline]
fn is_response(event: Event, http: &Http) -> bool {
    match event {
        Event::HttpResponse
        | Event::HttpResponseData
        | Event::HttpResponseRelease
        | Event::HttpResponseContinue => true,
        Event::StreamMatched => http.has_response,
        _ => false,
    }
}

/// The head that the event is about, so long as it may be looked at.
#[inline]
fn head<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a mut Message, Fault> {
    let event = ctx.event;
    let http = open(ctx)?;
    Ok(if is_response(event, http) {
        &mut http.response
    } else {
        &mut http.request
    })
}

/// The exchange, so long as no rule has answered it.
#[inline]
fn open<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a mut Http, Fault> {
    let event = ctx.event;
    let Some(http) = ctx.flow.http.as_deref_mut() else {
        return Err(no_exchange());
    };
    // The head that goes out at last is a rule's answer as much as a member's.
    if (http.respond.is_some() || http.responded) && event != Event::HttpResponseRelease {
        return Err(answered());
    }
    Ok(http)
}

#[cold]
fn answered() -> Fault {
    Fault::error("Illegal argument. Can't execute in the current context")
}

#[cold]
fn no_exchange() -> Fault {
    Fault::error("Operation not supported. No HTTP on this connection")
}
