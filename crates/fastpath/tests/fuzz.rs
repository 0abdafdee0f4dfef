//! Random and broken packets through the programs with everything switched on: whatever comes, the verdict has its place,
//! what is not sent on is as it was, and what is sent is as whole as before.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use std::fmt::Write as _;
use std::net::IpAddr;

use fastpath::abi::{FORWARD_OFF, FORWARD_ROUTED, FORWARD_TRACKED, Reason, Shun};
use fastpath::check::check;
use rig::*;
use xdp::map::Mapped;

#[test]
fn random_packets_have_no_verdict_out_of_place() {
    with(
        |setup| {
            armed(setup);
            crowded(setup);
        },
        |rig| fuzz(rig, 1, 130_000),
    );
}

#[test]
fn nor_have_they_when_the_kernel_forwards() {
    with(
        |setup| {
            armed(setup);
            crowded(setup);
            setup.settings.forward = FORWARD_OFF;
        },
        |rig| fuzz(rig, 2, 40_000),
    );
}

#[test]
fn nor_have_they_without_state() {
    with(
        |setup| setup.settings.forward = FORWARD_ROUTED,
        |rig| fuzz(rig, 3, 30_000),
    );
}

/// Tables that are soon full.
fn crowded(setup: &mut Setup) {
    assert_eq!(setup.settings.forward, FORWARD_TRACKED);
    setup.settings.slots4 = 512;
    setup.settings.slots6 = 512;
    setup.settings.buckets4 = 192;
    setup.settings.buckets6 = 192;
    setup.settings.half_mask = 63;
    setup.fragments = 64;
}

fn fuzz(rig: &Rig<'_>, seed: u64, packets: usize) {
    rig.arm();
    let never = Shun {
        until: rig.jiffies().wrapping_add(1 << 30),
        reason: 0,
    };
    for f in FAMILIES {
        match f.left(19) {
            IpAddr::V4(ip) => rig.loaded.set("shuns4", ip.octets(), never),
            IpAddr::V6(ip) => rig.loaded.set("shuns6", ip.octets(), never),
        }
        rig.loaded.set("shun_counts", u32::from(!f.is_v4()), 1u64);
    }
    let mut maker = Maker::new(rig, seed);
    let mut seen = rig.counters();
    let first = seen.clone();
    for n in 0..packets {
        let side = maker.random.pick(&[Left, Left, Right, Right, Aside]);
        let frame = maker.frame(side);
        let outcome = rig.run(side, &frame);
        let now = rig.counters();
        let reasons = verdicts(&rise(&seen, &now));
        seen = now;
        let wrong = match &reasons[..] {
            [(reason, 1)] => wrong(rig, &frame, outcome.verdict, &outcome.packet, *reason),
            _ => Some("not counted once".to_owned()),
        };
        if let Some(wrong) = wrong {
            panic!(
                "packet {n} of seed {seed}, from the {}: {wrong}\nverdict {}, counted {reasons:?}\n in {}\nout {}",
                side.name(),
                outcome.verdict,
                hex(&frame),
                hex(&outcome.packet)
            );
        }
    }
    for f in FAMILIES {
        let report = check(f.number(), &rig.loaded.settings, &rig.loaded.tables).unwrap();
        assert_eq!((&report.wrong[..], report.lost), (&[][..], 0), "{f:?}");
    }
    println!("{:?}", rise(&first, &seen));
}

fn hex(frame: &[u8]) -> String {
    frame.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// What is wrong with what became of a frame, if anything is.
fn wrong(rig: &Rig<'_>, frame: &[u8], verdict: u32, out: &[u8], reason: Reason) -> Option<String> {
    let kind = reason.name().split('_').next().unwrap();
    let expected = match kind {
        "pass" => XDP_PASS,
        "drop" => XDP_DROP,
        "reply" => XDP_TX,
        _ => XDP_REDIRECT,
    };
    if reason == Reason::DropInternal {
        return Some("what cannot happen".to_owned());
    }
    // An answer may have to leave by another interface.
    if verdict != expected && (kind, verdict) != ("reply", XDP_REDIRECT) {
        return Some(format!("a verdict that is not its reason's, {expected}"));
    }
    let before = View::of(frame);
    match (kind, before) {
        ("drop", _) if out == frame => None,
        // An error is rewritten before it is known where it would go.
        ("drop", Some(before)) if before.is_error() && reason == Reason::DropBlackhole => None,
        ("drop", _) => Some("dropped, but changed".to_owned()),
        ("pass", _) if out == frame => None,
        (_, None) => Some("broken, but touched".to_owned()),
        ("pass", Some(before)) => changed(&before, out, None),
        ("reply", Some(before)) => answered(&before, out),
        (_, Some(before)) => {
            if !is_unicast(before.dst) {
                return Some("sent on, but not to one host".to_owned());
            }
            if !ethernet_is_right(rig, out) {
                return Some("sent to no neighbour".to_owned());
            }
            changed(&before, out, Some(before.ttl.wrapping_sub(1)))
        }
    }
}

fn is_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] < 224,
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unicast_link_local(),
    }
}

/// Whether a frame goes from a port of the fast path to a neighbour there.
fn ethernet_is_right(rig: &Rig<'_>, out: &[u8]) -> bool {
    [Left, Right].into_iter().any(|side| {
        let link = side as u8;
        out[6..12] == rig.mac(side) && (10..30).any(|n| out[..6] == neighbour(link, n))
    })
}

/// What is wrong with a packet as it was sent (`ttl` is what it must have now), or changed and passed up.
fn changed(before: &View<'_>, out: &[u8], ttl: Option<u8>) -> Option<String> {
    let Some(after) = View::of(out) else {
        return Some("broken by us".to_owned());
    };
    let all = &out[ETHERNET..];
    // To a member as it is: by direct return, or in a tunnel.
    if all.starts_with(before.ip) {
        return None;
    }
    if matches!(after.proto, 4 | 41) && after.body().starts_with(before.ip) {
        let right =
            normal(after.header_residue()) == 0 && after.body() == before.ip && after.ttl == 64;
        return (!right).then(|| "in a tunnel that is not right".to_owned());
    }
    if let Some(ttl) = ttl
        && (after.ttl != ttl || before.ttl <= 1)
    {
        return Some(format!("TTL {} after {}", after.ttl, before.ttl));
    }
    if ttl.is_none() && after.ttl != before.ttl {
        return Some("not sent, but a hop was counted".to_owned());
    }
    if before.ip.len() != after.ip.len() || before.l4 != after.l4 || before.proto != after.proto {
        return Some("not as long as it was".to_owned());
    }
    if normal(before.header_residue()) != normal(after.header_residue()) {
        return Some("the checksum of the header".to_owned());
    }
    if before.is_error() {
        let was_right = before.residue() == Some(0);
        return (was_right && after.residue() != Some(0))
            .then(|| "the checksum of an error".to_owned());
    }
    if before.residue().map(normal) != after.residue().map(normal) {
        return Some("the checksum of layer 4".to_owned());
    }
    if before.untranslated() != after.untranslated() {
        return Some("bytes that are the ends'".to_owned());
    }
    let same_ends = before.src == after.src && before.dst == after.dst;
    if same_ends && before.body() != after.body() {
        return Some("ports, but not addresses".to_owned());
    }
    // Between its lengths and its addresses nothing changes but TTL and checksum.
    let fixed: &[std::ops::Range<usize>] = match before.src {
        IpAddr::V4(_) => &[0..8, 9..10, 20..60],
        IpAddr::V6(_) => &[0..7, 40..2000],
    };
    for range in fixed {
        let range = range.start..range.end.min(before.l4);
        if range.start < range.end && before.ip[range.clone()] != after.ip[range] {
            return Some("the header".to_owned());
        }
    }
    None
}

/// What is wrong with an ICMP error that answers a packet.
fn answered(before: &View<'_>, out: &[u8]) -> Option<String> {
    let Some(after) = View::of(out) else {
        return Some("an answer that is broken".to_owned());
    };
    if !after.is_error() || after.dst != before.src {
        return Some("no answer to its sender".to_owned());
    }
    if normal(after.header_residue()) != 0 || after.residue().map(normal) != Some(0) {
        return Some("an answer's checksum".to_owned());
    }
    let quoted = &after.body()[8..];
    // RFC 1812 and RFC 4443: no longer than any link must carry.
    let longest = if before.src.is_ipv4() { 576 } else { 1280 };
    if after.ip.len() > longest
        || !before.ip.starts_with(quoted)
        || quoted.len() < 28.min(before.ip.len())
    {
        return Some("an answer that quotes too much, too little, or something else".to_owned());
    }
    if before.is_error() || before.is_later() {
        return Some("an answer to what must have none".to_owned());
    }
    None
}

/// Zero has two forms.
fn normal(residue: u16) -> u16 {
    if residue == 0xffff { 0 } else { residue }
}

/// Makes frames of all kinds.
struct Maker<'r> {
    random: Random,
    rig: &'r Rig<'r>,
    tables: [[Mapped; 2]; 2],
}

impl<'r> Maker<'r> {
    fn new(rig: &'r Rig<'r>, seed: u64) -> Self {
        let tables = FAMILIES.map(|f| [false, true].map(|half| rig.flow_table(f, half)));
        Self {
            random: Random::new(seed),
            rig,
            tables,
        }
    }

    /// A frame as it comes in by a side, perhaps broken.
    fn frame(&mut self, side: Side) -> Vec<u8> {
        let packet = self.packet(side);
        let mut frame = self.rig.arriving(side, &packet);
        match self.random.below(10) {
            0 => self.flip(&mut frame),
            1 => {
                let len = ETHERNET + self.random.below(frame.len() - ETHERNET + 1);
                frame.truncate(len);
            }
            2 => frame.resize(frame.len() + self.random.below(40), 0),
            3 if self.random.one_in(4) => {
                for byte in &mut frame[ETHERNET..] {
                    *byte = self.random.next() as u8;
                }
                // What says that it is IP.
                frame[ETHERNET] = self.random.pick(&[0x45, 0x46, 0x60, frame[ETHERNET]]);
            }
            _ => {}
        }
        frame
    }

    fn flip(&mut self, frame: &mut [u8]) {
        for _ in 0..=self.random.below(3) {
            // Mostly in the headers.
            let end = if self.random.one_in(4) {
                frame.len()
            } else {
                frame.len().min(80)
            };
            let at = self.random.below(end);
            match self.random.below(3) {
                0 => frame[at] ^= 1 << self.random.below(8),
                1 => frame[at] = self.random.next() as u8,
                _ => frame[at] = self.random.pick(&[0, 0xff, 1, 0x7f, 0x80]),
            }
        }
    }

    fn packet(&mut self, side: Side) -> Packet {
        let f = self.random.pick(&FAMILIES);
        let mut packet = match self.random.below(10) {
            0..3 => self.of_a_flow(f).unwrap_or_else(|| self.fresh(f, side)),
            3 => self.error(f, side),
            _ => self.fresh(f, side),
        };
        if self.random.one_in(20) {
            packet = packet.ttl(self.random.pick(&[0, 1, 2, 255]));
        }
        if self.random.one_in(10) {
            packet = packet
                .tos(self.random.next() as u8)
                .df(self.random.one_in(2) && f.is_v4());
        }
        if self.random.one_in(10) {
            let bytes: Vec<u8> = (0..self.random.below(900))
                .map(|_| self.random.next() as u8)
                .collect();
            packet = packet.payload(&bytes);
        }
        if self.random.one_in(25) {
            // About as long as a link takes, or a tunnel, or more.
            packet = packet.payload(&vec![7; 1300 + self.random.below(300)]);
        }
        if self.random.one_in(20) {
            packet = if f.is_v4() {
                packet.options(self.random.pick(&[
                    &[1, 1, 1, 0][..],
                    &[0x94, 4, 0, 0],
                    &[7, 7, 4, 0, 0, 0, 0, 0],
                ]))
            } else {
                let kind = self.random.pick(&[0, 43, 60]);
                (0..self.random.below(8)).fold(packet, |packet, _| packet.extension(kind))
            };
        }
        if self.random.one_in(12) {
            let id = self.random.below(50) as u32;
            let mut fragments = packet
                .clone()
                .id(id)
                .fragments(8 * (1 + self.random.below(8)));
            // One without any bytes of layer 4 has none.
            fragments.push(packet);
            let last = self.random.below(fragments.len());
            let at = if self.random.one_in(2) { 0 } else { last };
            packet = fragments.swap_remove(at);
        }
        if self.random.one_in(100) {
            packet = packet.vlan(5);
        }
        packet
    }

    /// What one of its ends says in a flow there is.
    fn of_a_flow(&mut self, f: Family) -> Option<Packet> {
        let flow = self.any_flow(f)?;
        let back = self.random.one_in(2);
        let (src, dst) = if back {
            (flow.ndst, flow.nsrc)
        } else {
            (flow.src, flow.dst)
        };
        Some(match flow.proto {
            TCP => tcp(src, dst, self.flags()),
            UDP => udp(src, dst),
            1 | 58 if back => echo_reply(src.ip(), dst.ip(), dst.port()),
            1 | 58 => echo(src.ip(), dst.ip(), src.port()),
            proto => other(src.ip(), dst.ip(), proto),
        })
    }

    fn any_flow(&mut self, f: Family) -> Option<Flow> {
        let half = self.random.below(2);
        let table = &self.tables[f as usize][half];
        // Many slots may be free.
        (0..8).find_map(|_| flow_in(table, f, half == 1, self.random.below(table.len())))
    }

    /// An ICMP error about a flow's packet, or about one of none.
    fn error(&mut self, f: Family, side: Side) -> Packet {
        let about = self.of_a_flow(f).unwrap_or_else(|| self.fresh(f, side));
        let about = match self.any_flow(f) {
            // As it left.
            Some(flow) if self.random.one_in(2) => match flow.proto {
                TCP => tcp(flow.nsrc, flow.ndst, ACK),
                UDP => udp(flow.nsrc, flow.ndst),
                _ => echo(flow.nsrc.ip(), flow.ndst.ip(), flow.nsrc.port()),
            },
            _ => about,
        };
        let (kind, code) = if f.is_v4() {
            self.random
                .pick(&[(3, 1), (3, 3), (3, 4), (11, 0), (12, 0), (4, 0)])
        } else {
            self.random
                .pick(&[(1, 0), (1, 4), (2, 0), (3, 0), (4, 1), (100, 0)])
        };
        let quoted = self.random.pick(&[20, 27, 28, 40, 48, 60, 200, 1000]);
        let from = if self.random.one_in(2) {
            about.dst
        } else {
            self.address(f, side)
        };
        icmp_error(from, about.src, kind, code, [0, 0, 5, 0], &about, quoted)
    }

    fn flags(&mut self) -> u8 {
        self.random
            .pick(&[SYN, SYN, ACK, ACK | PSH, FIN | ACK, RST, SYN | ACK, 0, 0xff])
    }

    fn fresh(&mut self, f: Family, side: Side) -> Packet {
        let src = self.address(f, side);
        let dst = match side {
            Left => {
                let vip = self.random.pick(&[
                    BY_NAT,
                    BY_NAT_WITH_AUTOMAP,
                    BY_NAT_WITH_POOL,
                    DIRECT,
                    TUNNELLED,
                ]);
                match self.random.below(5) {
                    0 => f.right(10),
                    1 => f.host(BEYOND, 7),
                    2 => f.host(NARROW, 7),
                    3 => f.host(VIPS, vip),
                    _ => self.anywhere(f),
                }
            }
            _ => self.anywhere(f),
        };
        let sport = self.random.pick(&[0, 53, 1024, 4000, 4001, 4002, 65535]);
        let dport = self.random.pick(&[80, 80, 80, 53, 0, 2000, 3000, 3001]);
        let (from, to) = (at(src, sport), at(dst, dport));
        match self.random.below(12) {
            0..5 => tcp(from, to, self.flags()),
            5..8 => udp(from, to),
            8 if f.is_v4() => udp(from, to).unsummed(),
            9 => echo_reply(src, dst, sport),
            10 => {
                let kind = self.random.next() as u8;
                icmp(src, dst, kind, 0, [1, 2, 3, 4]).payload(&[0; 20])
            }
            11 => match self.random.below(3) {
                0 => tunnelled(src, dst, &udp(from, to)),
                1 => other(src, dst, self.random.pick(&[47, 50, 51, 132, 255])),
                // A protocol of the other family.
                _ => other(src, dst, if f.is_v4() { 58 } else { 1 }),
            },
            _ => echo(src, dst, sport),
        }
    }

    /// Whoever may have sent something on this side.
    fn address(&mut self, f: Family, side: Side) -> IpAddr {
        match self.random.below(12) {
            0 => self.anywhere(f),
            // One of them is shunned.
            _ => f.host(side as u8, 10 + self.random.below(10) as u8),
        }
    }

    fn anywhere(&mut self, f: Family) -> IpAddr {
        let link = self.random.pick(&[
            0,
            1,
            2,
            BLACKHOLE,
            UNREACHABLE,
            PROHIBIT,
            NARROW,
            BEYOND,
            LOST,
            BEHIND,
            NOWHERE,
            VIPS,
            POOL,
        ]);
        let special: &[&str] = match f {
            Family::V4 => &[
                "0.0.0.0",
                "127.0.0.1",
                "224.0.0.1",
                "255.255.255.255",
                "10.0.1.255",
                "169.254.1.1",
            ],
            Family::V6 => &[
                "::",
                "::1",
                "ff02::1",
                "fe80::1",
                "::ffff:10.0.1.10",
                "2002:a00:10a::1",
            ],
        };
        match self.random.below(8) {
            0 => self.random.pick(special).parse().unwrap(),
            1 => match f {
                Family::V4 => IpAddr::from((self.random.next() as u32).to_be_bytes()),
                Family::V6 => {
                    IpAddr::from((u128::from(self.random.next()) << 64 | 7).to_be_bytes())
                }
            },
            _ => f.host(link, self.random.pick(&[1, 10, 11, 12, 13, 14, 99])),
        }
    }
}
