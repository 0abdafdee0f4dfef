//! What rules see and decide of one connection. The driver fills it before an event and reads after it what was decided.

use crate::event::Side;
use crate::message::Message;
use crate::value::Value;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// A connection, as its rules see it.
#[derive(Debug)]
pub struct Flow {
    /// The virtual's name.
    pub virtual_name: Rc<str>,
    /// The pool that the virtual uses unless a rule chooses another; empty for none.
    pub default_pool: Rc<str>,
    /// The transport.
    pub transport: Transport,
    /// The client's side: `remote` is the client.
    pub client: Ends,
    /// The member's side, once there is one: `remote` is the member.
    pub server: Option<Ends>,
    /// What the client's TLS handshake has shown.
    pub client_tls: Option<Rc<TlsFacts>>,
    /// What the member's TLS handshake has shown.
    pub server_tls: Option<Rc<TlsFacts>>,
    /// The ClientHello, as it came: for `CLIENTSSL_CLIENTHELLO` and `CLIENT_DATA` of passed-through TLS.
    pub client_hello: Option<Rc<[u8]>>,
    /// The exchange at hand, on HTTP virtuals.
    pub http: Option<Box<Http>>,
    /// Bytes of the client's that rules hold back.
    pub client_data: Held,
    /// Bytes of the member's that rules hold back.
    pub server_data: Held,
    /// Where the connection or request is to go.
    pub steering: Steering,
    /// The member that was chosen.
    pub selected: Option<Selected>,
    /// How a rule has ended the connection.
    pub ended: Option<Ended>,
    /// Texts to be replaced in bodies: `STREAM::`.
    pub stream: Stream,
    /// After how long without a byte the connection is closed, where a rule has set that.
    pub idle_timeout: Option<Duration>,
    /// Which side commands speak of: set by the machine before each handler.
    pub side: Side,
    /// When the connection began, since the Unix epoch.
    pub began: Duration,
    /// Bytes from the client and to it, so far.
    pub bytes: (u64, u64),
    /// TCP's own figures of the client's side, where the driver has them: smoothed round trip in microseconds.
    pub round_trip: Option<Duration>,
    /// Sides on which Nagle's algorithm is to be on or off: what rules have set with `TCP::nagle` and the driver has not
    /// taken yet.
    pub nagle: Vec<(Side, bool)>,
    /// Who is behind the connection, where that is known.
    pub identity: Option<Value>,
}

/// A connection's transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The other side's.
    pub remote: SocketAddr,
    /// Ours.
    pub local: SocketAddr,
}

/// What a TLS handshake has shown.
#[derive(Clone, Debug, Default)]
pub struct TlsFacts {
    /// The server name that was asked for.
    pub sni: Option<String>,
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite by its OpenSSL name.
    pub cipher: String,
    /// The strength of its key, bits.
    pub bits: u16,
    /// The protocol agreed upon by ALPN.
    pub alpn: Option<Vec<u8>>,
    /// The peer's certificates in DER, its own first.
    pub certificates: Vec<Vec<u8>>,
    /// OpenSSL's code of what verification said: 0 for ok.
    pub verify_result: u32,
    /// Whether it was resumed.
    pub resumed: bool,
}

/// An HTTP exchange.
#[derive(Debug, Default)]
pub struct Http {
    /// The request.
    pub request: Message,
    /// The response, once there is one.
    pub response: Message,
    /// Whether the member's response has come.
    pub has_response: bool,
    /// An answer that a rule gives instead of a member.
    pub respond: Option<Respond>,
    /// Whether the answer went out, or is beyond change, so that more can't be said.
    pub responded: bool,
    /// The body of the request: what `HTTP::collect` asks for, and what came.
    pub request_body: Held,
    /// The body of the response.
    pub response_body: Held,
    /// Whether the client's connection is to be closed after the exchange: `HTTP::close`.
    pub close: bool,
    /// Whether HTTP is to be left: `HTTP::disable`; bytes are relayed as they come from here on.
    pub disabled: bool,
    /// A request that a rule wants sent once more: `HTTP::retry`. The whole of its head and body.
    pub retry: Option<Value>,
    /// How many requests came before on this connection.
    pub earlier: u64,
}

/// An answer of a rule's own.
#[derive(Clone, Debug, Default)]
pub struct Respond {
    /// Its status.
    pub status: u16,
    /// Its version: `1.0` or `1.1`.
    pub version: &'static str,
    /// Its fields.
    pub fields: Vec<(Value, Value)>,
    /// Its body.
    pub body: Value,
    /// Whether the `Server` field that F5 adds by itself is left out.
    pub no_server: bool,
    /// Whether the connection ends with it.
    pub close: bool,
}

/// Bytes that rules look at before they go on.
#[derive(Debug, Default)]
pub struct Held {
    /// How many bytes are to come before the data event: set by `collect`. `Some(0)` for all (HTTP) or any (TCP).
    pub wanted: Option<u64>,
    /// Bytes to be passed by before collecting: `TCP::collect`'s second argument.
    pub skip: u64,
    /// What has come.
    pub bytes: Value,
    /// Whether a rule has changed it.
    pub changed: bool,
    /// How many of the bytes `release` lets go: `Some(u64::MAX)` for all.
    pub released: Option<u64>,
    /// Bytes of a rule's own to be sent to this side's peer at once: `TCP::respond`.
    pub respond: Vec<Value>,
}

/// Where a connection or request is to go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steering {
    /// Where to, where a rule has chosen.
    pub target: Target,
    /// Whether a member is to be chosen anew: `LB::reselect`.
    pub reselect: bool,
    /// Whether the connection to the member is to be given up after the response: `LB::detach`.
    pub detach: bool,
    /// The address that the member is to see, where a rule has chosen.
    pub snat: Option<Snat>,
    /// Persistence, where a rule has chosen.
    pub persist: Option<Persist>,
    /// The balancing method, where a rule has chosen: `LB::mode`.
    pub mode: Option<Mode>,
    /// Whether TLS is left out towards the member: `SSL::disable serverside`.
    pub server_tls_off: bool,
}

/// How members are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each in turn, by their weights.
    RoundRobin,
    /// The one with the fewest connections for its weight.
    LeastConnections,
}

/// Where to.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Target {
    /// As the configuration says.
    #[default]
    Default,
    /// A pool; `member` for one of its members by address or name, and its port.
    Pool {
        /// Its name.
        pool: Value,
        /// The member.
        member: Option<(Value, u16)>,
    },
    /// An address.
    Node(SocketAddr),
    /// Another virtual.
    Virtual(Value),
}

/// The source address towards the member.
#[derive(Clone, Debug, PartialEq)]
pub enum Snat {
    /// The client's own.
    None,
    /// One of the machine's.
    Automap,
    /// This one, and port 0 for any.
    Address(SocketAddr),
    /// One of a pool of addresses.
    Pool(Value),
}

/// Persistence as a rule asks for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Persist {
    /// None.
    None,
    /// By the client's address with a mask.
    Source {
        /// The mask's prefix length.
        prefix: u8,
        /// Seconds.
        timeout: u64,
    },
    /// By a text of the rule's own.
    Universal {
        /// The text.
        key: Value,
        /// Seconds.
        timeout: u64,
    },
    /// By a cookie that is inserted.
    Cookie {
        /// `insert`, `rewrite`, `passive` or `hash`.
        mode: &'static str,
        /// Its name.
        name: Value,
        /// Seconds; 0 for a session's.
        timeout: u64,
    },
    /// By a hash of a text, without state.
    Hash(Value),
}

/// A member that was chosen.
#[derive(Clone, Debug)]
pub struct Selected {
    /// Its pool; empty where it is a node.
    pub pool: Rc<str>,
    /// Its name.
    pub name: Rc<str>,
    /// Its address.
    pub address: SocketAddr,
}

/// How a rule ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With a reset: `reject`.
    Reject,
    /// Without a word: `drop`, `discard`.
    Drop,
    /// After what was sent: `TCP::close`.
    Close,
}

/// Texts to be replaced in bodies.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Whether it is on.
    pub enabled: bool,
    /// Pairs of what is found and what it becomes; `None` only has the event raised.
    pub replace: Vec<(Value, Option<Value>)>,
    /// What was found, at `STREAM_MATCHED`.
    pub matched: Value,
    /// What it becomes, where the rule says so at `STREAM_MATCHED`.
    pub replacement: Option<Value>,
    /// The largest text that is held back to be searched, bytes.
    pub max_match: usize,
    /// The body's coding is taken off by the driver first.
    pub encoding: Option<Value>,
}

impl Flow {
    /// A connection between `client`'s ends, about which nothing is known yet.
    pub fn new(virtual_name: Rc<str>, client: Ends) -> Self {
        Flow {
            virtual_name,
            default_pool: "".into(),
            transport: Transport::Tcp,
            client,
            server: None,
            client_tls: None,
            server_tls: None,
            client_hello: None,
            http: None,
            client_data: Held::default(),
            server_data: Held::default(),
            steering: Steering::default(),
            selected: None,
            ended: None,
            stream: Stream::default(),
            idle_timeout: None,
            side: Side::Client,
            began: Duration::ZERO,
            bytes: (0, 0),
            round_trip: None,
            nagle: Vec::new(),
            identity: None,
        }
    }
}
