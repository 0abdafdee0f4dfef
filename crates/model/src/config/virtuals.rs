//! Virtuals: where clients connect, what is expected of them, and where they are sent.

use std::time::Duration;

use crate::check;
use crate::config::{
    AccessLog, AddressEntry, Affinity, FastMode, FastVirtual, HeaderPolicy, Route, Snat, Transport,
};
use crate::node::Node;
use crate::setting::{Context, Setting};
use crate::{Bytes, HostPattern, Listen, PoolName, RuleName, TlsProfileName};

config! {
    /// A service: where clients connect and what happens to them.
    pub struct Virtual check(check::virtual_server) {
        /// Addresses with ports that clients connect to. With protocol fast, also with ranges of ports: `192.0.2.1:8000-8099`.
        pub listen: Vec<Listen>,
        /// What is spoken there.
        pub protocol: Protocol = Protocol::Http,
        /// The TLS profile. With it, TLS ends here; without it clients speak plain text.
        pub tls: Option<TlsProfileName> = None,
        /// PROXY protocol headers from those in front of Headgate.
        pub proxy_protocol: Option<AcceptProxyProtocol> = None,
        /// Whose `X-Forwarded-*` and `Forwarded` fields are believed and kept; from all others they are removed.
        pub trusted_proxies: Vec<AddressEntry> = Vec::new(),
        /// Client addresses that are let in; empty for all.
        pub allow: Vec<AddressEntry> = Vec::new(),
        /// Client addresses that are not let in, also where `allow` has them.
        pub deny: Vec<AddressEntry> = Vec::new(),
        /// The pool for what no route takes.
        pub pool: Option<PoolName> = None,
        /// Rules that run at the events of its connections, in this order where their priorities are the same.
        pub rules: Vec<RuleName> = Vec::new(),
        /// HTTP: the first that matches decides.
        pub routes: Vec<Route> = Vec::new(),
        /// TLS passthrough, and TCP with TLS: pools by server name; the first that matches decides.
        pub sni_routes: Vec<SniRoute> = Vec::new(),
        /// HTTP: fields that are added, changed and removed.
        pub headers: HeaderPolicy = HeaderPolicy::default(),
        /// Limits on what clients may ask for.
        pub limits: VirtualLimits = VirtualLimits::default(),
        /// How long clients may take.
        pub timeouts: VirtualTimeouts = VirtualTimeouts::default(),
        /// This virtual's own logs.
        pub log: VirtualLog = VirtualLog::default(),
        /// Fast: the transport protocol. Without it, `tcp`.
        pub transport: Option<Transport> = None,
        /// Fast: how packets reach the member. Without it, `nat`.
        pub mode: Option<FastMode> = None,
        /// Fast, with `mode: nat`: what clients' addresses are translated to. Without it, `none`.
        pub snat: Option<Snat> = None,
        /// Fast: which of a client's connections go to the same member. Without it, `none`.
        pub affinity: Option<Affinity> = None,
        /// Fast: how long an open flow is kept without a packet: whole seconds, rounded up, and more than 65,535 count as
        /// that many. Without it, as long as the fast path's `timeouts` say.
        #[range(0.1, 604800)]
        pub idle: Option<Duration> = None,
    }
}

impl Virtual {
    /// What concerns the fast path, where the protocol is [`Protocol::Fast`].
    #[must_use]
    pub fn fast(&self) -> Option<FastVirtual<'_>> {
        let pool = self.pool.as_ref();
        pool.filter(|_| self.protocol == Protocol::Fast)
            .map(|pool| FastVirtual {
                listen: &self.listen,
                transport: self.transport.unwrap_or(Transport::Tcp),
                mode: self.mode.unwrap_or(FastMode::Nat),
                snat: self.snat.clone().unwrap_or(Snat::None),
                affinity: self.affinity.clone().unwrap_or(Affinity::None),
                idle: self.idle,
                pool,
            })
    }
}

config! {
    /// What a virtual speaks with clients.
    pub enum Protocol {
        /// HTTP/1.1.
        Http = "http",
        /// Any protocol over TCP.
        Tcp = "tcp",
        /// TLS that is passed on as it is, to a pool by its server name.
        TlsPassthrough = "tls-passthrough",
        /// TCP or UDP by the packet, on the fast path: of its pool, only the members with their weights, states and monitors
        /// count, and each new flow goes to the member that a Maglev table has for it.
        Fast = "fast",
    }
}

config! {
    /// PROXY protocol headers, versions 1 and 2, that are accepted.
    pub struct AcceptProxyProtocol {
        /// From whom. From all others a header is an error of the protocol that is spoken.
        pub from: Vec<AddressEntry>,
        /// Whether those must send one.
        pub required: bool = true,
    }
}

config! {
    /// A pool by server name.
    pub struct SniRoute {
        /// The server names: `a.example`, `*.b.example`, `*`.
        pub sni: Vec<HostPattern>,
        /// The pool.
        pub pool: PoolName,
    }
}

config! {
    /// Limits on what clients of a virtual may ask for.
    pub struct VirtualLimits {
        /// Connections at a time.
        #[range(1, 100000000)]
        pub connections: usize = 10_000,
        /// Connections at a time from one address; 0 for no limit.
        pub connections_per_address: u32 = 0,
        /// Size of a request's line and fields; beyond it the answer is 431.
        #[range(256, 1048576)]
        pub head_bytes: Bytes = Bytes::kib(16),
        /// Number of a request's fields; beyond it the answer is 431.
        #[range(1, 1000)]
        pub headers: usize = 100,
        /// Size of a request's target; beyond it the answer is 414.
        #[range(64, 1048576)]
        pub uri_bytes: Bytes = Bytes::kib(8),
        /// Size of a request's body; beyond it the answer is 413; 0 for no limit.
        pub body_bytes: Bytes = Bytes(0),
        /// Requests over one connection; 0 for no limit.
        pub requests_per_connection: u64 = 0,
        /// Whether connections may be upgraded, as WebSockets are.
        pub upgrades: Upgrades = Upgrades::Allow,
    }
}

config! {
    /// Whether connections may be upgraded.
    pub enum Upgrades {
        /// They may, if the member agrees.
        Allow = "allow",
        /// The request is passed on without asking for the upgrade.
        Deny = "deny",
    }
}

config! {
    /// How long clients of a virtual may take.
    pub struct VirtualTimeouts {
        /// For the whole head of a request, from its first byte, and for the first request of a connection.
        #[range(0.001, 3600)]
        pub head: Duration = Duration::from_secs(10),
        /// Between requests.
        #[range(0.001, 86400)]
        pub idle: Duration = Duration::from_secs(60),
        /// Silence amid a request's body.
        #[range(0.001, 86400)]
        pub body: Duration = Duration::from_secs(30),
        /// Time in which the client takes nothing of what is sent.
        #[range(0.001, 86400)]
        pub send: Duration = Duration::from_secs(30),
        /// For the TLS handshake, and for a PROXY protocol header.
        #[range(0.001, 3600)]
        pub tls_handshake: Duration = Duration::from_secs(10),
        /// Silence in both directions of a TCP or upgraded connection.
        #[range(0.001, 2592000)]
        pub tunnel: Duration = Duration::from_secs(3600),
    }
}

config! {
    /// A virtual's own logs.
    pub struct VirtualLog {
        /// Its access log.
        pub access: VirtualAccessLog = VirtualAccessLog::Inherit,
    }
}

config! {
    /// The access log of a virtual.
    pub enum VirtualAccessLog short("an access log", short_access) {
        /// That of the process.
        Inherit = "inherit",
        /// Its own.
        Own(AccessLog) = "own",
    }
}

fn short_access(node: &Node, cx: &mut Context<'_>) -> Option<VirtualAccessLog> {
    AccessLog::decode(node, cx).map(VirtualAccessLog::Own)
}
