//! Pools and their members: balancing, limits, retries, and the connections to members.

use std::time::Duration;

use crate::check;
use crate::config::ClientTls;
use crate::node::Node;
use crate::setting::{Context, Setting, in_range, unknown_word};
use crate::{FieldName, MemberAddress, MonitorName, Name, Percent};

config! {
    /// A group of members that serve the same.
    pub struct Pool check(check::pool) {
        /// How a member is chosen.
        pub balance: Balance = Balance::RoundRobin,
        /// Monitors that every member must pass. Without any, a member is taken to work.
        pub monitors: Vec<MonitorName> = Vec::new(),
        /// The members.
        pub members: Vec<Member>,
        /// Limits and the queue behind them.
        pub limits: PoolLimits = PoolLimits::default(),
        /// Time over which a member that came up is brought from little to its full share; `0s` for at once.
        pub slow_start: Duration = Duration::ZERO,
        /// What is tried again on another member.
        pub retry: Retry = Retry::default(),
        /// How long members may take.
        pub timeouts: PoolTimeouts = PoolTimeouts::default(),
        /// Connections that are kept for further requests.
        pub keepalive: Keepalive = Keepalive::default(),
        /// Members that fail real traffic are left out for a while; `off` to leave that to monitors.
        pub ejection: Option<Ejection> = Some(Ejection::default()),
        /// TLS towards the members. Without it, plain text.
        pub tls: Option<ClientTls> = None,
        /// The PROXY protocol header sent at the start of each connection. Connections that bear one are not reused for
        /// other clients.
        pub proxy_protocol: ProxyProtocol = ProxyProtocol::Off,
    }
}

config! {
    /// How a member is chosen.
    pub enum Balance {
        /// By turns, in proportion to weight.
        RoundRobin = "round-robin",
        /// The fewest connections or requests under way for its weight.
        LeastConnections = "least-connections",
        /// The less busy of two drawn at random.
        PowerOfTwo = "power-of-two",
        /// The first in the list that can take more.
        First = "first",
        /// The same member for the same key.
        Hash(Hash) = "hash",
    }
}

config! {
    /// Balancing by a key of the request.
    pub struct Hash {
        /// What the key is.
        pub on: HashKey = HashKey::Source,
        /// How a key becomes a member.
        pub method: HashMethod = HashMethod::Consistent,
        /// With `consistent`: how far a member may exceed its fair share before its keys overflow to the next; at least 1.
        #[range(1, 100)]
        pub load_factor: f64 = 1.25,
    }
}

config! {
    /// The key of hash balancing.
    pub enum HashKey {
        /// The client's address.
        Source = "source",
        /// Path and query.
        Uri = "uri",
        /// The path.
        Path = "path",
        /// The value of a request header; requests without it are balanced round-robin.
        Header(FieldName) = "header",
        /// The value of a URL parameter; requests without it are balanced round-robin.
        Parameter(String) = "parameter",
    }
}

config! {
    /// How a key becomes a member.
    pub enum HashMethod {
        /// Modulo the weights: most even, but nearly all keys move when a member comes or goes.
        Modulo = "modulo",
        /// On a ring with bounded load: few keys move.
        Consistent = "consistent",
    }
}

config! {
    /// A member of a pool.
    pub struct Member short("an address with a port", short_member) {
        /// Where it is reached: an address or a host name, with a port.
        pub address: MemberAddress,
        /// Its name in logs, metrics and the API. Without it, the address.
        pub name: Option<Name> = None,
        /// Its share relative to the others; 0 for nothing new.
        #[range(0, 256)]
        pub weight: u32 = 1,
        /// Whether it is used only when no other member works.
        pub backup: bool = false,
        /// Connections or requests at a time; 0 for the pool's `member_connections`.
        pub connections: u32 = 0,
        /// How a host name is resolved.
        pub resolve: Resolve = Resolve::default(),
        /// What the operator wants of it.
        pub state: MemberState = MemberState::Enabled,
        /// Monitors in place of the pool's.
        pub monitors: Option<Vec<MonitorName>> = None,
    }
}

impl Member {
    /// The member at `address`, with defaults.
    #[must_use]
    pub fn new(address: MemberAddress) -> Self {
        Self {
            address,
            name: None,
            weight: 1,
            backup: false,
            connections: 0,
            resolve: Resolve::default(),
            state: MemberState::Enabled,
            monitors: None,
        }
    }

    /// The name: the one given, or else the address.
    #[must_use]
    pub fn label(&self) -> Name {
        self.name
            .clone()
            .unwrap_or_else(|| Name::of_address(&self.address))
    }
}

config! {
    /// What the operator wants of a member.
    pub enum MemberState {
        /// It takes traffic.
        Enabled = "enabled",
        /// It finishes what it has and gets nothing new.
        Drain = "drain",
        /// It gets nothing, and is not monitored.
        Disabled = "disabled",
    }
}

config! {
    /// How a member's host name is resolved.
    pub struct Resolve {
        /// Which of the addresses count.
        pub mode: ResolveMode = ResolveMode::First,
        /// Time between lookups.
        #[range(1, 86400)]
        pub interval: Duration = Duration::from_secs(10),
    }
}

config! {
    /// Which addresses of a host name count.
    pub enum ResolveMode {
        /// The first; it stays as long as it is among the answers.
        First = "first",
        /// Each is a member of its own.
        All = "all",
    }
}

config! {
    /// Limits of a pool.
    pub struct PoolLimits {
        /// Connections or requests at a time for each member; 0 for no limit.
        pub member_connections: u32 = 0,
        /// Requests that may wait for a member with room; beyond them the answer is 503.
        pub queue: usize = 1000,
        /// How long a request may wait.
        pub queue_timeout: Duration = Duration::from_secs(5),
    }
}

config! {
    /// What is tried again on another member.
    pub struct Retry {
        /// How often a request is sent at most, the first time included.
        #[range(1, 10)]
        pub attempts: u32 = 2,
        /// What is tried again. Save for connect failures, only where the method is idempotent and the body not yet sent on.
        pub on: Vec<RetryOn> = vec![RetryOn::ConnectFailure, RetryOn::Reset],
        /// Retries as a share of requests, so that they never multiply an outage.
        pub budget: Percent = Percent(20.0),
    }
}

config! {
    /// A failure that can be tried again.
    pub enum RetryOn short("a status from 400 to 599", short_retry) {
        /// No connection, no TLS, or not in time.
        ConnectFailure = "connect-failure",
        /// The member closed the connection before a byte of the response.
        Reset = "reset",
        /// The response did not begin in time.
        ResponseTimeout = "response-timeout",
        /// The response has this status, 400 to 599.
        Status(u16) = "status",
    }
}

config! {
    /// How long a pool's members may take.
    pub struct PoolTimeouts {
        /// To accept a connection, and for its TLS handshake.
        #[range(0.001, 3600)]
        pub connect: Duration = Duration::from_secs(3),
        /// From the request's end to the response's first byte.
        #[range(0.001, 86400)]
        pub response: Duration = Duration::from_secs(60),
        /// Silence amid a response, or amid a request that the member does not take.
        #[range(0.001, 86400)]
        pub idle: Duration = Duration::from_secs(60),
    }
}

config! {
    /// Connections to members that are kept.
    pub struct Keepalive {
        /// How long one may be unused; `0s` to keep none.
        pub idle: Duration = Duration::from_secs(30),
        /// Unused ones for each member and worker.
        pub max_idle: usize = 256,
        /// Requests over one connection; 0 for no limit.
        pub max_requests: u64 = 0,
        /// Connections that are opened before they are needed, for each member and worker.
        #[range(0, 1024)]
        pub pre_connect: usize = 0,
        /// A request that cannot be repeated takes only a connection that was used within this time, or a new one.
        pub unsafe_reuse_within: Duration = Duration::from_secs(1),
    }
}

config! {
    /// When a member that fails real traffic is left out.
    pub struct Ejection {
        /// Failures in a row, within `interval`, that put a member out.
        #[range(1, 10000)]
        pub errors: u32 = 5,
        /// The time within which those failures lie.
        #[range(0.001, 3600)]
        pub interval: Duration = Duration::from_secs(10),
        /// How long it stays out.
        #[range(0.001, 86400)]
        pub time: Duration = Duration::from_secs(30),
        /// The share of a pool's members that may be out at a time.
        pub max_ejected: Percent = Percent(50.0),
    }
}

config! {
    /// The PROXY protocol towards members.
    pub enum ProxyProtocol {
        /// None.
        Off = "off",
        /// The text form.
        V1 = "v1",
        /// The binary form.
        V2 = "v2",
    }
}

fn short_member(node: &Node, cx: &mut Context<'_>) -> Option<Member> {
    MemberAddress::decode(node, cx).map(Member::new)
}

fn short_retry(node: &Node, cx: &mut Context<'_>) -> Option<RetryOn> {
    if node
        .scalar()
        .is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit()))
    {
        return in_range(u16::decode(node, cx)?, node, 400.0, 599.0, cx).map(RetryOn::Status);
    }
    unknown_word(
        node,
        "RetryCondition",
        &["connect-failure", "reset", "response-timeout", "status"],
        cx,
    )
}
