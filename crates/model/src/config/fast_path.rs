//! The fast path: the interfaces whose packets are handled as they come in, the tables for them, and source NAT.

use std::path::PathBuf;
use std::time::Duration;

use addr::Prefix;

use crate::check::fast as check;
use crate::config::AddressEntry;
use crate::node::Node;
use crate::setting::{Context, Setting, unknown_word};
use crate::{InterfaceName, Listen, Name, PoolName, PortSet};

config! {
    /// The fast path: packets that come in at these interfaces are forwarded, balanced, translated and dropped by eBPF
    /// programs, before the kernel's own network stack sees them.
    pub struct FastPath check(check::fast_path) {
        /// The interfaces: those towards clients and those towards members. Packets are also sent out of these alone.
        pub interfaces: Vec<Interface> = Vec::new(),
        /// The folder of a BPF file system where programs and tables stay while the process is replaced.
        pub pin: PathBuf = PathBuf::from("/sys/fs/bpf/headgate"),
        /// Whether it stays in force when Headgate is told to end, as it does when Headgate dies. `headgate fastpath detach`
        /// takes it off.
        pub keep: bool = true,
        /// What becomes of packets that are for no virtual and not for this machine.
        pub forward: Forwarding = Forwarding::Tracked,
        /// How much the tables hold.
        pub tables: FastPathTables = FastPathTables::default(),
        /// How long flows are kept without a packet.
        pub timeouts: FastPathTimeouts = FastPathTimeouts::default(),
        /// Whose addresses are translated on the way out; the first that matches decides.
        pub source_nat: Vec<SourceNat> = Vec::new(),
    }
}

config! {
    /// An interface of the fast path.
    pub struct Interface short("an interface's name", short_interface) {
        /// Its name, as `ip link` shows it.
        pub name: InterfaceName,
        /// Where in the way of a packet the program runs.
        pub mode: InterfaceMode = InterfaceMode::Auto,
    }
}

config! {
    /// Where in the way of a packet the program runs.
    pub enum InterfaceMode {
        /// In the driver, or if it cannot, as `generic`, with a warning.
        Auto = "auto",
        /// In the driver. If it cannot, that is an error.
        Native = "native",
        /// In the kernel's stack, once it has made its own buffer of the packet: works on every interface, several times slower.
        Generic = "generic",
    }
}

config! {
    /// What becomes of packets that are for no virtual and not for this machine.
    pub enum Forwarding {
        /// The kernel decides.
        Off = "off",
        /// They are forwarded by the kernel's routes; no state is kept.
        Routed = "routed",
        /// They are forwarded by the kernel's routes, and their flows are kept in the connection table.
        Tracked = "tracked",
    }
}

config! {
    /// How much the tables of the fast path hold. Memory for flows is taken when the tables are made. A change makes new tables,
    /// beside which the old are used until their flows have ended.
    pub struct FastPathTables {
        /// Flows of IPv4: 64 bytes each, and their index.
        #[range(64, 268435456)]
        pub flows_v4: u32 = 1_000_000,
        /// Flows of IPv6: 128 bytes each, and their index.
        #[range(64, 134217728)]
        pub flows_v6: u32 = 250_000,
        /// Flows that have not been answered yet. When it is full, the oldest give way.
        #[range(64, 16777216)]
        pub half_open: u32 = 131_072,
        /// Fragmented packets whose later fragments are still expected.
        #[range(64, 16777216)]
        pub fragments: u32 = 16_384,
        /// Addresses that are shunned, and as many prefixes.
        #[range(64, 67108864)]
        pub shuns: u32 = 1_000_000,
        /// Addresses whose flows are counted for `per_user` of source NAT.
        #[range(64, 16777216)]
        pub users: u32 = 65_536,
    }
}

config! {
    /// How long a flow is kept without a packet.
    pub struct FastPathTimeouts {
        /// TCP, until the handshake is complete.
        #[range(0.1, 604800)]
        pub tcp_syn: Duration = Duration::from_secs(30),
        /// TCP, while the connection is open. A virtual's `idle` is used in its place.
        #[range(0.1, 604800)]
        pub tcp_established: Duration = Duration::from_secs(3600),
        /// TCP, after the first side has closed.
        #[range(0.1, 604800)]
        pub tcp_closing: Duration = Duration::from_secs(60),
        /// TCP, after both sides have closed.
        #[range(0.1, 604800)]
        pub tcp_time_wait: Duration = Duration::from_secs(10),
        /// TCP, after a reset.
        #[range(0.1, 604800)]
        pub tcp_reset: Duration = Duration::from_secs(5),
        /// UDP, until both sides have sent.
        #[range(0.1, 604800)]
        pub udp: Duration = Duration::from_secs(30),
        /// UDP, once both sides have sent. A virtual's `idle` is used in its place.
        #[range(0.1, 604800)]
        pub udp_stream: Duration = Duration::from_secs(180),
        /// ICMP and ICMPv6 requests.
        #[range(0.1, 604800)]
        pub icmp: Duration = Duration::from_secs(10),
        /// The later fragments of a packet, after its first.
        #[range(0.1, 600)]
        pub fragment: Duration = Duration::from_secs(5),
        /// All other protocols.
        #[range(0.1, 604800)]
        pub other: Duration = Duration::from_secs(60),
    }
}

config! {
    /// Source NAT: whose addresses are translated on the way out, to what.
    pub struct SourceNat {
        /// Its name in logs, metrics and the API.
        pub name: Name,
        /// The sources that are translated.
        pub from: Vec<AddressEntry>,
        /// Only on the way to these; empty for all.
        pub to: Vec<AddressEntry> = Vec::new(),
        /// Only on the way out of this interface of the fast path.
        pub out: Option<InterfaceName> = None,
        /// What they are translated to.
        pub translate: Translation = Translation::Masquerade,
        /// The ports that translated flows may have. The default leaves the kernel its own (`net.ipv4.ip_local_port_range`).
        pub ports: PortSet = PortSet::outside_the_kernels(),
        /// Flows at a time from one source address; 0 for no limit.
        #[range(0, 10000000)]
        pub per_user: u32 = 0,
        /// Whether translated sources reach each other by the addresses they are translated to.
        pub hairpin: bool = true,
    }
}

config! {
    /// What sources are translated to.
    pub enum Translation {
        /// The address of the interface that the packet leaves by.
        Masquerade = "masquerade",
        /// One of these addresses, the same for all flows of one source as long as it has ports. At most 64 prefixes of
        /// at most 65,536 addresses.
        Pool(Vec<Prefix>) = "pool",
    }
}

config! {
    /// The transport protocol of a fast virtual.
    pub enum Transport {
        /// TCP.
        Tcp = "tcp",
        /// UDP.
        Udp = "udp",
    }
}

config! {
    /// How a fast virtual's packets reach the member.
    pub enum FastMode {
        /// The destination is translated to the member's address and port; answers come back through Headgate. A member with
        /// port 0 is reached at the port that the client asked for.
        Nat = "nat",
        /// The packet is sent to the member's link address, its addresses as they are. The member has the virtual's address
        /// on an interface that does not answer ARP for it, is on a link of ours, and answers the client itself.
        DirectReturn = "direct-return",
        /// The packet is put into another, IPv4 or IPv6, to the member's address. The member unpacks it, has the virtual's
        /// address, and answers the client itself.
        Ipip = "ipip",
    }
}

config! {
    /// What a fast virtual translates clients' addresses to.
    pub enum Snat {
        /// Nothing: members see clients' addresses, and must send their answers through Headgate.
        None = "none",
        /// The address of the interface that leads to the member, with a port outside the kernel's own.
        Automap = "automap",
        /// One of these addresses. At most 64 prefixes of at most 65,536 addresses.
        Pool(Vec<Prefix>) = "pool",
    }
}

config! {
    /// Which of a client's connections go to the same member.
    pub enum Affinity short("`source`", short_affinity) {
        /// Each is balanced by itself.
        None = "none",
        /// All from one address.
        Source(SourceAffinity) = "source",
    }
}

config! {
    /// Affinity by the client's address.
    pub struct SourceAffinity {
        /// How long after its last new connection a client is sent to the same member. It has no effect yet: the member
        /// follows from the client's address alone, and is the same for as long as the pool is.
        #[range(1, 604800)]
        pub timeout: Duration = Duration::from_secs(180),
    }
}

/// What a virtual of protocol fast says, with defaults in place: see [`Virtual::fast`](crate::Virtual::fast).
#[derive(Clone, Debug, PartialEq)]
pub struct FastVirtual<'a> {
    /// Addresses and ports that clients send to; never a wildcard, never port 0.
    pub listen: &'a [Listen],
    /// The transport protocol.
    pub transport: Transport,
    /// How packets reach the member.
    pub mode: FastMode,
    /// What clients' addresses are translated to; [`Snat::None`] unless the mode is [`FastMode::Nat`].
    pub snat: Snat,
    /// Which connections go to the same member.
    pub affinity: Affinity,
    /// How long an open flow is kept without a packet; without it, as long as [`FastPathTimeouts`] says.
    pub idle: Option<Duration>,
    /// The pool. Its members are addresses, not host names.
    pub pool: &'a PoolName,
}

fn short_interface(node: &Node, cx: &mut Context<'_>) -> Option<Interface> {
    InterfaceName::decode(node, cx).map(|name| Interface {
        name,
        mode: InterfaceMode::Auto,
    })
}

fn short_affinity(node: &Node, cx: &mut Context<'_>) -> Option<Affinity> {
    if node.scalar() == Some("source") {
        return Some(Affinity::Source(SourceAffinity::default()));
    }
    unknown_word(node, "Affinity", &["none", "source"], cx)
}
