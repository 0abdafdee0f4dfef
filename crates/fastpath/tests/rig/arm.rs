//! Virtuals, members and rules of source NAT in the tables, as the engine would write them: one by one, or all kinds at
//! once for tests that throw everything at the programs.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use fastpath::abi::{
    Be16, MEMBER_UP, Member, NatRule4, NatRule6, SNAT_AUTOMAP, SNAT_POOL, Source, Span, Spans,
    VipKey, VirtualServer, Way, widened,
};
use xdp::libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};

use super::{BEYOND, FAMILIES, Family, NARROW, Rig, Setup};

/// The network of the virtuals' addresses.
pub const VIPS: u8 = 200;
/// The network of the pools' addresses.
pub const POOL: u8 = 210;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// No translation of sources.
pub fn no_source() -> Source {
    Source::default()
}

/// The address of the interface a packet leaves by.
pub fn automap(first: u16, last: u16) -> Source {
    let mut source = Source {
        kind: SNAT_AUTOMAP,
        ..Source::default()
    };
    source.ports[0] = [first, last];
    source
}

impl Rig<'_> {
    /// Makes `number` a virtual on these addresses and ports, for TCP and UDP, with these members, by their numbers.
    pub fn add_virtual(
        &self,
        number: u32,
        what: VirtualServer,
        listens: &[(IpAddr, u16)],
        members: &[u32],
    ) {
        let ring: Vec<u32> = members
            .iter()
            .copied()
            .cycle()
            .take(members.len() * 50)
            .collect();
        let what = VirtualServer {
            members: members.len() as u16,
            ring: number,
            ring_size: ring.len() as u32,
            ..what
        };
        if !ring.is_empty() {
            self.set_ring(number, &ring);
        }
        self.loaded.set("virtual_servers", number, what);
        for (ip, port) in listens {
            for proto in [TCP, UDP] {
                let key = |port: u16| VipKey {
                    addr: widened(*ip),
                    port: Be16::from(port),
                    proto,
                    family: if ip.is_ipv4() { 4 } else { 6 },
                };
                self.loaded.set("vips", key(*port), number);
                self.loaded.set("vip_spans", key(0), Spans::default());
            }
        }
    }

    /// Gives a virtual a range of ports on an address.
    pub fn add_span(&self, number: u32, ip: IpAddr, proto: u8, first: u16, last: u16) {
        let key = VipKey {
            addr: widened(ip),
            port: Be16::from(0),
            proto,
            family: if ip.is_ipv4() { 4 } else { 6 },
        };
        let mut spans = Spans::default();
        spans.span[0] = Span {
            first,
            last,
            virtual_server: number,
        };
        self.loaded.set("vip_spans", key, spans);
    }

    /// Writes a Maglev table.
    pub fn set_ring(&self, number: u32, places: &[u32]) {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
            map_flags: libbpf_sys::BPF_F_INNER_MAP,
            ..Default::default()
        };
        let ring = MapHandle::create(
            MapType::Array,
            Some("ring"),
            4,
            4,
            places.len() as u32,
            &options,
        )
        .unwrap();
        for (at, member) in (0u32..).zip(places) {
            ring.update(&at.to_ne_bytes(), &member.to_ne_bytes(), MapFlags::ANY)
                .unwrap();
        }
        let fd = ring.as_fd().as_raw_fd().to_ne_bytes();
        self.loaded
            .map("rings")
            .update(&number.to_ne_bytes(), &fd, MapFlags::ANY)
            .unwrap();
    }

    /// Makes `number` a member that is up.
    pub fn add_member(&self, number: u32, ip: IpAddr, port: u16) {
        self.set_member(number, ip, port, MEMBER_UP);
    }

    pub fn set_member(&self, number: u32, ip: IpAddr, port: u16, state: u8) {
        let member = Member {
            addr: widened(ip),
            port: Be16::from(port),
            family: if ip.is_ipv4() { 4 } else { 6 },
            state,
            ..Member::default()
        };
        self.loaded.set("members", number, member);
    }

    /// The rule of source NAT in this place: from the clients' link to a network beyond.
    pub fn add_nat_rule(&self, f: Family, place: u32, to: u8, source: Source) {
        match (f.host(0, 0), f.host(to, 0)) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mask = [255, 255, 255, 0];
                let rule = NatRule4 {
                    from: from.octets(),
                    from_mask: mask,
                    to: to.octets(),
                    to_mask: mask,
                    id: place + 1,
                    source,
                    ..NatRule4::default()
                };
                self.loaded.set("nat_rules4", place, rule);
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mask = (u128::MAX << 64).to_be_bytes();
                let rule = NatRule6 {
                    from: from.octets(),
                    from_mask: mask,
                    to: to.octets(),
                    to_mask: mask,
                    id: place + 1,
                    source,
                    ..NatRule6::default()
                };
                self.loaded.set("nat_rules6", place, rule);
            }
            _ => unreachable!("hosts of one family"),
        }
    }

    /// A pool of so many addresses from `POOL`, beginning at this place of their table.
    pub fn add_pool(
        &self,
        f: Family,
        first: u32,
        count: u8,
        ports: [u16; 2],
        per_user: u32,
    ) -> Source {
        for n in 0..count {
            match f.host(POOL, 10 + n) {
                IpAddr::V4(ip) => self
                    .loaded
                    .set("nat_addrs4", first + u32::from(n), ip.octets()),
                IpAddr::V6(ip) => self
                    .loaded
                    .set("nat_addrs6", first + u32::from(n), ip.octets()),
            }
        }
        let mut source = Source {
            kind: SNAT_POOL,
            first,
            count: count.into(),
            per_user,
            ..Source::default()
        };
        source.ports[0] = ports;
        source
    }
}

/// The settings for [`Rig::arm`].
pub fn armed(setup: &mut Setup) {
    setup.settings.virtuals = 5;
    setup.settings.nat_rules4 = 2;
    setup.settings.nat_rules6 = 2;
}

/// The virtuals that [`Rig::arm`] makes: on port 80 of the host of this number in [`VIPS`].
pub const BY_NAT: u8 = 10;
pub const BY_NAT_WITH_AUTOMAP: u8 = 11;
pub const BY_NAT_WITH_POOL: u8 = 12;
pub const DIRECT: u8 = 13;
pub const TUNNELLED: u8 = 14;

impl Rig<'_> {
    /// Every way there is, in both families: source NAT to [`BEYOND`] (a pool of 200 ports, 20 flows a user) and to
    /// [`NARROW`] (masquerade), and a virtual of each kind.
    pub fn arm(&self) {
        for f in FAMILIES {
            let number = |n: u32| if f.is_v4() { n } else { 100 + n };
            let pool = self.add_pool(f, 0, 2, [2000, 2099], 20);
            self.add_nat_rule(f, 0, BEYOND, pool);
            self.add_nat_rule(f, 1, NARROW, automap(3000, 3099));
            for n in 0..4 {
                self.add_member(number(1 + n), f.right(10 + n as u8), 8080);
                // Where ports can't be rewritten.
                self.add_member(number(11 + n), f.right(14 + n as u8), 0);
            }
            let rewritten: Vec<u32> = (1..5).map(number).collect();
            let as_asked: Vec<u32> = (11..15).map(number).collect();
            let pool = self.add_pool(f, 0, 2, [2000, 2099], 0);
            for (n, vip, way, source, members) in [
                (1, BY_NAT, Way::Translate, no_source(), &rewritten),
                (
                    2,
                    BY_NAT_WITH_AUTOMAP,
                    Way::Translate,
                    automap(3000, 3099),
                    &rewritten,
                ),
                (3, BY_NAT_WITH_POOL, Way::Translate, pool, &rewritten),
                (4, DIRECT, Way::Direct, no_source(), &as_asked),
                (5, TUNNELLED, Way::Tunnel, no_source(), &as_asked),
            ] {
                let what = VirtualServer {
                    way: way as u8,
                    source,
                    ..VirtualServer::default()
                };
                self.add_virtual(number(n), what, &[(f.host(VIPS, vip), 80)], members);
            }
        }
    }
}
