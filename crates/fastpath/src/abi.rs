//! The records that the programs share with user space: mirrors of `bpf/abi.h`, compared with the compiled object by a
//! test. What they mean is said there, and what is done with them is left to others.
//!
//! Addresses and ports are in network order, as bytes; times in jiffies, unless a field says otherwise.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use xdp::map::Pod;

mod words;
pub use words::{Reason, State, Way};

/// Part of the name under which tables are pinned.
pub const LAYOUT_VERSION: u32 = 1;
/// Entries a bucket of the indexes.
pub const WAYS: usize = 8;
/// Interfaces that may be forwarded to; 0 is none.
pub const PORTS: usize = 256;
/// Ranges of ports that a translation may take its ports from.
pub const PORT_RANGES: usize = 4;
/// Rules of source NAT a family.
pub const NAT_RULES: usize = 64;
/// Ranges of ports of virtuals on one address and protocol.
pub const SPANS: usize = 16;
/// Flows' stamps of next hops are jiffies shifted right by this.
pub const HOP_SHIFT: u32 = 4;
/// How many states there are.
pub const STATES: usize = 14;
/// Free slots that go from one CPU to another together.
pub const MAGAZINE: u32 = 64;

/// A port in network order.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Be16(pub [u8; 2]);

impl Be16 {
    /// In the order of this machine.
    pub fn get(self) -> u16 {
        u16::from_be_bytes(self.0)
    }
}

impl From<u16> for Be16 {
    fn from(port: u16) -> Self {
        Self(port.to_be_bytes())
    }
}

impl fmt::Debug for Be16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

// SAFETY: two bytes.
#[expect(unsafe_code, reason = "plain data")]
unsafe impl Pod for Be16 {}

/// An address of IPv4.
pub type Addr4 = [u8; 4];
/// An address of IPv6.
pub type Addr6 = [u8; 16];

/// An address as keys of both families hold it: IPv4 in the first word.
pub fn widened(ip: IpAddr) -> Addr6 {
    match ip {
        IpAddr::V4(ip) => {
            let mut wide = [0; 16];
            wide[..4].copy_from_slice(&ip.octets());
            wide
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The address in a key of both families, where `family` is 4 or 6.
pub fn narrowed(addr: Addr6, family: u8) -> IpAddr {
    if family == 4 {
        let [a, b, c, d, ..] = addr;
        Ipv4Addr::new(a, b, c, d).into()
    } else {
        Ipv6Addr::from(addr).into()
    }
}

/// Defines records with the same fields as their C structs, and lists what is compared with them.
macro_rules! records {
    ($(
        $(#[$about:meta])*
        $c:literal $record:ident {
            $($(#[$what:meta])* $field:ident: $kind:ty,)*
        }
    )*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(C)]
            pub struct $record {
                $($(#[$what])* pub $field: $kind,)*
            }

            // SAFETY: it is repr(C), all fields are plain data, and that their sizes make up the whole is asserted.
            #[expect(unsafe_code, reason = "plain data")]
            unsafe impl Pod for $record {}

            const _: () = assert!(
                size_of::<$record>() == 0 $(+ size_of::<$kind>())*,
                concat!($c, " has padding")
            );

            impl Default for $record {
                fn default() -> Self {
                    // Every bit pattern is a value of it.
                    let zeroes = [0; size_of::<Self>()];
                    xdp::map::from_bytes(&zeroes).expect("there are as many zeroes as it has bytes")
                }
            }
        )*

        /// Names in C, sizes, and fields with their offsets.
        #[cfg(test)]
        const LAYOUTS: &[(&str, usize, &[(&str, usize)])] = &[
            $(($c, size_of::<$record>(), &[$((stringify!($field), std::mem::offset_of!($record, $field)),)*]),)*
        ];
    };
}

records! {
    /// A bucket of an index. An entry is tag << 32 | slot.
    "bucket" Bucket {
        /// The entries; 0 is a free one.
        entry: [u64; WAYS],
    }

    /// Where the packets of one direction leave.
    "hop" Hop {
        /// Of the neighbour.
        mac: [u8; 6],
        /// Index into the ports; 0 is not known.
        port: u8,
        /// `HOP_…`.
        flags: u8,
    }

    /// A flow of IPv4.
    "flow4" Flow4 {
        /// Source of the first packet as it came.
        src: Addr4,
        /// Its destination.
        dst: Addr4,
        /// Its source port.
        sport: Be16,
        /// Its destination port.
        dport: Be16,
        /// Source of the first packet as it left.
        nsrc: Addr4,
        /// Destination of it.
        ndst: Addr4,
        /// Source port of it.
        nsport: Be16,
        /// Destination port of it.
        ndport: Be16,
        /// When the last packet came.
        seen: u32,
        /// The IP protocol.
        proto: u8,
        /// A [`State`].
        state: u8,
        /// `FLOW_…`.
        flags: u8,
        /// A [`Way`].
        way: u8,
        /// The virtual's number, 0 for none.
        virtual_server: u16,
        /// The member's number, 0 for none.
        member: u16,
        /// The rule of source NAT, 0 for none.
        rule: u16,
        /// Seconds it may be silent once established; 0: what its state says.
        idle: u16,
        /// Next hops of both directions.
        hops: [Hop; 2],
        /// When they were looked up, jiffies >> [`HOP_SHIFT`].
        fresh: [u16; 2],
        /// When it began.
        created: u32,
    }

    /// A flow of IPv6.
    "flow6" Flow6 {
        /// Source of the first packet as it came.
        src: Addr6,
        /// Its destination.
        dst: Addr6,
        /// Its source port.
        sport: Be16,
        /// Its destination port.
        dport: Be16,
        /// Source of the first packet as it left.
        nsrc: Addr6,
        /// Destination of it.
        ndst: Addr6,
        /// Source port of it.
        nsport: Be16,
        /// Destination port of it.
        ndport: Be16,
        /// When the last packet came.
        seen: u32,
        /// The IP protocol.
        proto: u8,
        /// A [`State`].
        state: u8,
        /// `FLOW_…`.
        flags: u8,
        /// A [`Way`].
        way: u8,
        /// The virtual's number, 0 for none.
        virtual_server: u16,
        /// The member's number, 0 for none.
        member: u16,
        /// The rule of source NAT, 0 for none.
        rule: u16,
        /// Seconds it may be silent once established; 0: what its state says.
        idle: u16,
        /// Next hops of both directions.
        hops: [Hop; 2],
        /// When they were looked up, jiffies >> [`HOP_SHIFT`].
        fresh: [u16; 2],
        /// When it began.
        created: u32,
        /// What each direction's rewriting adds to a checksum.
        delta: [u16; 2],
        /// Nothing yet.
        spare: [u32; 3],
    }

    /// An interface that may be forwarded to.
    "port" Port {
        /// Its number.
        ifindex: u32,
        /// Its Ethernet address.
        mac: [u8; 6],
        /// The largest packet in bytes, without the Ethernet header.
        mtu: u16,
    }

    /// The key by which a packet finds its virtual, or the spans of its address.
    "vip_key" VipKey {
        /// IPv4 in the first word.
        addr: Addr6,
        /// 0 for spans.
        port: Be16,
        /// The IP protocol.
        proto: u8,
        /// 4 or 6.
        family: u8,
    }

    /// A range of ports of a virtual, in this machine's order.
    "span" Span {
        /// The first port.
        first: u16,
        /// The last.
        last: u16,
        /// The virtual's number; 0 ends the list.
        virtual_server: u32,
    }

    /// The ranges of an address and protocol.
    "spans" Spans {
        /// The first without a virtual ends them.
        span: [Span; SPANS],
    }

    /// Whence a translation takes source addresses and ports.
    "source" Source {
        /// `SNAT_…`.
        kind: u32,
        /// The first of the pool's addresses.
        first: u32,
        /// How many there are.
        count: u32,
        /// Flows a user may have; 0 for no limit.
        per_user: u32,
        /// First and last ports in this machine's order; `[0, 0]` ends them.
        ports: [[u16; 2]; PORT_RANGES],
    }

    /// A virtual server.
    "virtual_server" VirtualServer {
        /// A [`Way`].
        way: u8,
        /// 1: by the source's address alone.
        affinity: u8,
        /// 1: members are reached at the port that was asked for.
        keep_port: u8,
        /// Nothing yet.
        spare: u8,
        /// Seconds; 0: what the state says.
        idle: u16,
        /// Members in its Maglev table; 0: none can be chosen.
        members: u16,
        /// Index of its Maglev table.
        ring: u32,
        /// Places of that table.
        ring_size: u32,
        /// What clients' addresses are translated to.
        source: Source,
    }

    /// A member of a pool, as one family of addresses reaches it.
    "member" Member {
        /// IPv4 in the first word.
        addr: Addr6,
        /// 0: the port that was asked for.
        port: Be16,
        /// 4 or 6.
        family: u8,
        /// `MEMBER_…`; 0: its flows are given to others.
        state: u8,
        /// Hash of its pool's name: by it and the address a later process knows the member again.
        pool: u32,
        /// Where tunnels to it come from; zeroes while that is not known.
        source: Addr6,
    }

    /// A rule of source NAT for IPv4.
    "nat_rule4" NatRule4 {
        /// The sources' network.
        from: Addr4,
        /// Its mask.
        from_mask: Addr4,
        /// The destinations' network.
        to: Addr4,
        /// Its mask.
        to_mask: Addr4,
        /// The interface packets leave by, or 0 for any.
        out: u32,
        /// Of the rule in the configuration, from 1.
        id: u32,
        /// Not 0: sources reach each other by their translated addresses.
        hairpin: u32,
        /// What they are translated to.
        source: Source,
    }

    /// A rule of source NAT for IPv6.
    "nat_rule6" NatRule6 {
        /// The sources' network.
        from: Addr6,
        /// Its mask.
        from_mask: Addr6,
        /// The destinations' network.
        to: Addr6,
        /// Its mask.
        to_mask: Addr6,
        /// The interface packets leave by, or 0 for any.
        out: u32,
        /// Of the rule in the configuration, from 1.
        id: u32,
        /// Not 0: sources reach each other by their translated addresses.
        hairpin: u32,
        /// What they are translated to.
        source: Source,
    }

    /// An entry of the shun list.
    "shun" Shun {
        /// Jiffies.
        until: u32,
        /// Whatever the one who added it means by it.
        reason: u32,
    }

    /// The key of a shunned prefix of IPv4.
    "shun_prefix4" ShunPrefix4 {
        /// Its length.
        bits: u32,
        /// Its network.
        addr: Addr4,
    }

    /// The key of a shunned prefix of IPv6.
    "shun_prefix6" ShunPrefix6 {
        /// Its length.
        bits: u32,
        /// Its network.
        addr: Addr6,
    }

    /// From a fragment to its datagram.
    "fragment_key" FragmentKey {
        /// Source, IPv4 in the first word.
        src: Addr6,
        /// Destination.
        dst: Addr6,
        /// The datagram's identification.
        id: [u8; 4],
        /// The IP protocol.
        proto: u8,
        /// 4 or 6.
        family: u8,
        /// Nothing yet.
        spare: u16,
    }

    /// The ports of a fragmented datagram.
    "fragment" Fragment {
        /// Source port.
        sport: Be16,
        /// Destination port.
        dport: Be16,
        /// When the first fragment came.
        seen: u32,
    }

    /// What is counted of a virtual or a member.
    "tally" Tally {
        /// Packets.
        packets: u64,
        /// Bytes of IP.
        bytes: u64,
        /// Flows begun.
        flows: u64,
    }

    /// Free slots of one family, chained.
    "magazine" Magazine {
        /// The first slot.
        head: u32,
        /// How many there are.
        count: u32,
    }

    /// What a CPU keeps of the slot arrays.
    "slot_cache" SlotCache {
        /// Slots are taken from and given to this one.
        loaded: Magazine,
        /// Full or empty.
        spare: Magazine,
        /// The first of its slots that were never used.
        next: u32,
        /// Their end.
        end: u32,
        /// The next slot to look over.
        hand: u32,
        /// Where that ends.
        hand_end: u32,
    }

    /// What all CPUs share of a slot array.
    "slot_state" SlotState {
        /// Full magazines: count of changes << 32 | first slot + 1.
        depot: u64,
        /// Nothing.
        pad0: [u64; 7],
        /// The first slot that was never used.
        fresh: u32,
        /// Nothing.
        pad1: [u32; 15],
        /// Where the next to look for expired flows begins.
        hand: u32,
        /// Nothing.
        pad2: [u32; 15],
    }

    /// What is set when the program is loaded.
    "settings" Settings {
        /// Of the hash.
        seed: [u64; 2],
        /// Buckets of the index of IPv4.
        buckets4: u32,
        /// Of IPv6.
        buckets6: u32,
        /// Slots for flows of IPv4.
        slots4: u32,
        /// Of IPv6.
        slots6: u32,
        /// Buckets of the half-open tables, a power of two, less one.
        half_mask: u32,
        /// Jiffies, by [`State`].
        timeout: [u32; STATES],
        /// Jiffies.
        fragment_timeout: u32,
        /// Jiffies a second.
        hz: u32,
        /// How many virtuals there are.
        virtuals: u32,
        /// Rules of source NAT for IPv4.
        nat_rules4: u32,
        /// For IPv6.
        nat_rules6: u32,
        /// Source of encapsulated packets; 0: the route's.
        tunnel_source4: Addr4,
        /// For IPv6.
        tunnel_source6: Addr6,
        /// `FORWARD_…`.
        forward: u8,
        /// 1: an earlier table is asked first.
        drains: u8,
        /// Nothing yet.
        spare: [u8; 10],
    }
}

/// The route has an MTU of its own.
pub const HOP_UNCACHED: u8 = 1;
/// It was answered, or went on where answers do not pass here.
pub const FLOW_CONFIRMED: u8 = 1;
/// It counts against its user's limit.
pub const FLOW_COUNTED: u8 = 2;
/// Its beginning was not seen.
pub const FLOW_PICKED_UP: u8 = 4;
/// Addresses are not translated.
pub const SNAT_NONE: u32 = 0;
/// To the address of the interface that the packet leaves by.
pub const SNAT_AUTOMAP: u32 = 1;
/// To one of a pool.
pub const SNAT_POOL: u32 = 2;
/// New flows may be given to the member.
pub const MEMBER_UP: u8 = 1;
/// Its flows go on, it gets no new ones.
pub const MEMBER_DRAIN: u8 = 2;
/// The kernel forwards.
pub const FORWARD_OFF: u8 = 0;
/// Forwarded without state.
pub const FORWARD_ROUTED: u8 = 1;
/// Forwarded, and flows are kept.
pub const FORWARD_TRACKED: u8 = 2;

/// The compiled programs.
pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/headgate.bpf.o"));

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use xdp::libbpf_rs::HasSize;
    use xdp::libbpf_rs::btf::{Btf, types};

    const HEADER: &str = include_str!("../bpf/abi.h");

    #[test]
    fn records_are_laid_out_as_the_programs_have_them() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(OBJECT).unwrap();
        let btf = Btf::from_path(file.path()).unwrap();
        for (name, size, fields) in LAYOUTS {
            let found: types::Struct<'_> = btf
                .type_by_name(name)
                .unwrap_or_else(|| panic!("the programs use no struct {name}"));
            assert_eq!(found.size(), *size, "bytes of struct {name}");
            let theirs: Vec<(String, usize)> = found
                .iter()
                .map(|member| {
                    let types::MemberAttr::Normal { offset } = member.attr else {
                        panic!("struct {name} has a bit field");
                    };
                    let its = member.name.unwrap().to_str().unwrap().to_owned();
                    (its, offset as usize / 8)
                })
                .collect();
            let ours: Vec<(String, usize)> = fields
                .iter()
                .map(|(name, offset)| ((*name).to_owned(), *offset))
                .collect();
            assert_eq!(theirs, ours, "fields of struct {name}");
        }
    }

    #[test]
    fn states_are_numbered_as_the_programs_number_them() {
        let theirs: Vec<String> = HEADER
            .lines()
            .filter_map(|line| line.strip_prefix("    STATE_"))
            .map(|line| line.split([' ', ',']).next().unwrap().to_lowercase())
            .collect();
        let ours: Vec<&str> = State::ALL.iter().map(|state| state.name()).collect();
        assert_eq!(theirs, ours);
        assert_eq!(ours.len(), STATES);
    }

    #[test]
    fn numbers_are_those_of_the_programs() {
        for (name, ours) in [
            ("LAYOUT_VERSION", LAYOUT_VERSION),
            ("WAYS", WAYS as u32),
            ("PORTS", PORTS as u32),
            ("PORT_RANGES", PORT_RANGES as u32),
            ("NAT_RULES", NAT_RULES as u32),
            ("SPANS", SPANS as u32),
            ("HOP_SHIFT", HOP_SHIFT),
            ("FLOW_COUNTED", FLOW_COUNTED.into()),
            ("MEMBER_DRAIN", MEMBER_DRAIN.into()),
            ("SNAT_POOL", SNAT_POOL),
            ("FORWARD_TRACKED", FORWARD_TRACKED.into()),
        ] {
            let line = format!("#define {name} ");
            let theirs = HEADER.split_once(&line).unwrap().1;
            let theirs = theirs.split_whitespace().next().unwrap();
            assert_eq!(theirs.parse(), Ok(ours), "{name}");
        }
    }

    #[test]
    fn reasons_are_listed_in_the_order_of_their_counters() {
        for (at, reason) in Reason::all().enumerate() {
            assert_eq!(reason as usize, at);
        }
        assert_eq!(Reason::DropShun.name(), "drop_shun");
        assert!(Reason::TableMiss.help().contains("no flow"));
    }

    #[test]
    fn addresses_of_both_families_go_into_keys_and_back() {
        for text in ["192.0.2.1", "2001:db8::1"] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(narrowed(widened(ip), if ip.is_ipv4() { 4 } else { 6 }), ip);
        }
    }
}
