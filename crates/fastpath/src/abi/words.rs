//! Numbers in records that have names: states, ways, reasons.

/// Defines an enum that a record holds as a byte, with names for users.
macro_rules! bytes {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$what])* $variant,)*
        }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The one of this number.
            pub fn of(number: u8) -> Option<Self> {
                Self::ALL.get(usize::from(number)).copied()
            }

            /// As users see and write it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

bytes! {
    /// The states of a flow.
    State {
        /// The slot holds no flow.
        Free = "free",
        /// The client's SYN was seen.
        SynSent = "syn_sent",
        /// It was answered.
        SynReceived = "syn_received",
        /// The answer was acknowledged.
        Established = "established",
        /// The client has closed its side.
        FinClient = "fin_client",
        /// The server has.
        FinServer = "fin_server",
        /// Both have.
        Closing = "closing",
        /// And the last of them was acknowledged.
        TimeWait = "time_wait",
        /// A reset was seen.
        Reset = "reset",
        /// A datagram was seen.
        Udp = "udp",
        /// And answered.
        UdpStream = "udp_stream",
        /// An echo was asked for.
        Icmp = "icmp",
        /// A packet of another protocol.
        Other = "other",
        /// Somebody ended it.
        Ended = "ended",
    }
}

bytes! {
    /// How packets of a flow are changed on their way.
    Way {
        /// Routed as they are.
        Plain = "plain",
        /// Addresses and ports are rewritten.
        Translate = "translate",
        /// Direct return: only the MAC addresses change.
        Direct = "direct",
        /// Encapsulated towards the member.
        Tunnel = "tunnel",
    }
}

include!(concat!(env!("OUT_DIR"), "/reasons.rs"));

impl Reason {
    /// How many there are: so many counters has each CPU.
    pub const COUNT: usize = REASONS.len();

    /// All of them, in the order of their counters.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        REASONS.iter().map(|(reason, _, _)| *reason)
    }

    /// As users see it.
    pub fn name(self) -> &'static str {
        REASONS[self as usize].1
    }

    /// What it means.
    pub fn help(self) -> &'static str {
        REASONS[self as usize].2
    }
}
