//! The events of a connection's life, at each of which a handler can run, and wait.
//!
//! A virtual without a handler pays one test of a pointer an event. A handler's future is polled
//! by the connection's own task: while it waits the connection waits, and its worker does not.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

/// A moment in a connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A connection was accepted, its TLS handshake, if any, done.
    ClientAccepted,
    /// A request's head was read; where it goes is not yet decided.
    HttpRequest,
    /// A member was chosen.
    MemberSelected,
    /// The request's head is about to be sent to the member.
    HttpRequestSend,
    /// A response's head came from the member.
    HttpResponse,
    /// An attempt at a member failed; another may follow.
    MemberFailed,
    /// The response was sent to the client.
    HttpResponseRelease,
    /// The connection is over.
    ClientClosed,
}

/// What a handler sees of the moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The virtual's name.
    pub virtual_name: &'a str,
    /// The client.
    pub client: SocketAddr,
    /// The head that the event is about, as it was received; empty where there is none.
    pub head: &'a [u8],
    /// The member chosen, by name.
    pub member: Option<&'a str>,
    /// The status of the response, 0 before it.
    pub status: u16,
}

/// What becomes of the connection after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Continue,
    /// The client gets this status from Headgate itself, where no response was begun; else its
    /// connection is closed.
    Answer(u16),
    /// The connection is closed.
    Close,
}

/// A handler's work at an event, which may wait.
pub type Handling<'a> = Pin<Box<dyn Future<Output = Verdict> + 'a>>;

/// What runs at a virtual's events. Each worker has it run on its own thread.
pub trait Handler: Send + Sync {
    /// Whether the event is of interest; the others are not brought to it.
    fn wants(&self, event: Event) -> bool;

    /// Handles an event.
    fn handle<'a>(&'a self, event: Event, view: View<'a>) -> Handling<'a>;
}

impl fmt::Debug for dyn Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}
