//! The events at which rules run.

use std::fmt;

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $side:ident;)+) => {
        /// A moment of a connection's life at which a rule can run, by F5's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Event {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Event {
            /// All of them, in the order in which a connection meets them.
            pub const ALL: &[Event] = &[$(Event::$variant,)+];

            /// Its name in rules.
            pub fn name(self) -> &'static str {
                match self { $(Event::$variant => $name,)+ }
            }

            /// What it is about, in a sentence.
            pub fn about(self) -> &'static str {
                match self { $(Event::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// Which side of the proxy its commands speak of, unless they say otherwise.
            pub fn side(self) -> Side {
                match self { $(Event::$variant => Side::$side,)+ }
            }
        }
    };
}

/// A side of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Side {
    /// Towards the client.
    #[default]
    Client,
    /// Towards the member.
    Server,
}

events! {
    /// The rule was loaded: once on each worker.
    RuleInit = "RULE_INIT", Client;
    /// A connection was accepted.
    ClientAccepted = "CLIENT_ACCEPTED", Client;
    /// A TLS ClientHello came.
    ClientsslClienthello = "CLIENTSSL_CLIENTHELLO", Client;
    /// The client's certificate was asked for and came, or did not.
    ClientsslClientcert = "CLIENTSSL_CLIENTCERT", Client;
    /// The TLS handshake with the client is done.
    ClientsslHandshake = "CLIENTSSL_HANDSHAKE", Client;
    /// Bytes that were asked for by TCP::collect came from the client, or a datagram.
    ClientData = "CLIENT_DATA", Client;
    /// A request's head came.
    HttpRequest = "HTTP_REQUEST", Client;
    /// The part of a request's body that HTTP::collect asked for came.
    HttpRequestData = "HTTP_REQUEST_DATA", Client;
    /// A member was chosen.
    LbSelected = "LB_SELECTED", Client;
    /// No member could be chosen or reached.
    LbFailed = "LB_FAILED", Client;
    /// The connection waits in its pool's queue.
    LbQueued = "LB_QUEUED", Client;
    /// The member that persistence names is down.
    PersistDown = "PERSIST_DOWN", Client;
    /// The connection to the member stands.
    ServerConnected = "SERVER_CONNECTED", Server;
    /// The TLS handshake with the member is done.
    ServersslHandshake = "SERVERSSL_HANDSHAKE", Server;
    /// A request is about to be sent to the member.
    HttpRequestSend = "HTTP_REQUEST_SEND", Server;
    /// A request's head is written as it is to be sent; what is changed now is not seen by other events.
    HttpRequestRelease = "HTTP_REQUEST_RELEASE", Server;
    /// Bytes that were asked for by TCP::collect came from the member, or a datagram.
    ServerData = "SERVER_DATA", Server;
    /// A response's head came.
    HttpResponse = "HTTP_RESPONSE", Server;
    /// The part of a response's body that HTTP::collect asked for came.
    HttpResponseData = "HTTP_RESPONSE_DATA", Server;
    /// A response's head is about to be sent to the client.
    HttpResponseRelease = "HTTP_RESPONSE_RELEASE", Client;
    /// An interim response came.
    HttpResponseContinue = "HTTP_RESPONSE_CONTINUE", Server;
    /// The stream profile's expression found something.
    StreamMatched = "STREAM_MATCHED", Server;
    /// The connection to the member is closed.
    ServerClosed = "SERVER_CLOSED", Server;
    /// The client's connection is closed.
    ClientClosed = "CLIENT_CLOSED", Client;
    /// HTTP::disable, or an upgrade to another protocol, has ended HTTP on this connection.
    HttpDisabled = "HTTP_DISABLED", Client;
}

impl Event {
    /// The event of that name.
    pub fn named(name: &str) -> Option<Event> {
        Event::ALL
            .iter()
            .copied()
            .find(|event| event.name() == name)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Events(u64);

impl Events {
    /// None of them.
    pub const NONE: Events = Events(0);

    /// All of them.
    pub const ALL: Events = Events(u64::MAX);

    /// These.
    pub const fn of(events: &[Event]) -> Self {
        let mut bits = 0;
        let mut n = 0;
        while n < events.len() {
            bits |= 1 << events[n] as u8;
            n += 1;
        }
        Events(bits)
    }

    /// All but these.
    pub const fn but(events: &[Event]) -> Self {
        Events(!Events::of(events).0)
    }

    /// These and others.
    pub const fn and(self, others: Events) -> Self {
        Events(self.0 | others.0)
    }

    /// Whether the event is one of them.
    pub const fn has(self, event: Event) -> bool {
        self.0 & (1 << event as u8) != 0
    }

    /// Adds one.
    pub fn insert(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    /// Takes one out.
    pub fn remove(&mut self, event: Event) {
        self.0 &= !(1 << event as u8);
    }
}
