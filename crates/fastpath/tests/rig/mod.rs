//! A router in a namespace of its own, and the programs run on packets as if it had received them
//! (BPF_PROG_TEST_RUN): the cases say what goes in and what must come out, byte by byte, and why.
//!
//! ```text
//! clients 10.0.0.10-29 ── left ─┐          ┌─ right ── servers 10.0.1.10-29
//!    2001:db8:0::10-29          ├─ router ─┤              2001:db8:1::10-29
//!                               │          └─ aside ── 10.0.2.10-29, not in the fast path
//! ```
//!
//! The router is `.1` on each link. Addresses from 10 to 29 (decimal 4, and the same digits in IPv6) have neighbours
//! whose Ethernet addresses are `neighbour(link, n)`; others have none. Beyond the links, see [`ROUTES`].

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    reason = "each test uses a part of it, and may panic"
)]

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use fastpath::abi::Reason;
use xdp::interface;
use xdp::netns::{self, Namespace};
use xdp::run::{self, Run};

mod arm;
mod load;
pub mod packet;
mod table;
mod view;

pub use arm::*;
pub use load::{HZ, Loaded, Setup, TIMEOUTS};
pub use packet::*;
pub use table::{Flow, flow_in};
pub use view::*;

/// Both, for what is written once for both.
pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// A link of the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
    /// It has no fast path.
    Aside,
}
pub use Side::{Aside, Left, Right};

/// Links, routes and routers beyond them: `10.0.LINK.0/24` and `2001:db8:LINK::/64`.
pub const BLACKHOLE: u8 = 101;
pub const UNREACHABLE: u8 = 102;
pub const PROHIBIT: u8 = 103;
/// By the neighbour 10 on the right, with an MTU of 1400.
pub const NARROW: u8 = 104;
/// By the neighbour 11 on the right.
pub const BEYOND: u8 = 105;
/// By a router on the right that does not answer.
pub const LOST: u8 = 106;
/// By the neighbour 12 on the left.
pub const BEHIND: u8 = 107;
/// There is no route to this one.
pub const NOWHERE: u8 = 120;

/// The MTU of all links.
pub const MTU: usize = 1500;

impl Family {
    /// Host `n` of a link or network.
    pub fn host(self, link: u8, n: u8) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(10, 0, link, n).into(),
            Self::V6 => format!("2001:db8:{link}::{n}")
                .parse::<Ipv6Addr>()
                .unwrap()
                .into(),
        }
    }

    /// A client, on the left.
    pub fn left(self, n: u8) -> IpAddr {
        self.host(0, n)
    }

    /// A server, on the right.
    pub fn right(self, n: u8) -> IpAddr {
        self.host(1, n)
    }

    pub fn is_v4(self) -> bool {
        self == Self::V4
    }

    /// 4 or 6, as the tables have it.
    pub fn number(self) -> u8 {
        if self.is_v4() { 4 } else { 6 }
    }
}

/// An address and a port.
pub fn at(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
}

/// The Ethernet address of neighbour `n` on a link.
pub fn neighbour(link: u8, n: u8) -> [u8; 6] {
    [0x02, 0, 0, 0xaa, link, n]
}

impl Side {
    fn link(self) -> u8 {
        self as u8
    }

    pub fn name(self) -> &'static str {
        ["left", "right", "aside"][self as usize]
    }
}

impl Packet {
    /// One hop further.
    pub fn hop(self) -> Self {
        let ttl = self.ttl - 1;
        self.ttl(ttl)
    }
}

/// What must become of a packet.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// Passed to the kernel as it was.
    Pass,
    /// Passed to the kernel, but changed.
    PassAs(Box<Packet>),
    /// Dropped, unchanged.
    Drop,
    /// Sent out by a side to a neighbour there, as this packet. Its Ethernet addresses are filled in.
    Send(Side, u8, Box<Packet>),
}

/// Sent to the host it is for, which is on the link.
pub fn to(side: Side, packet: Packet) -> Verdict {
    let n = match packet.dst {
        IpAddr::V4(ip) => ip.octets()[3],
        // The same digits: ::10 is 16.
        IpAddr::V6(ip) => format!("{:x}", ip.octets()[15]).parse().unwrap(),
    };
    Verdict::Send(side, n, Box::new(packet))
}

/// Sent by way of a neighbour.
pub fn via(side: Side, n: u8, packet: Packet) -> Verdict {
    Verdict::Send(side, n, Box::new(packet))
}

/// Passed to the kernel, changed to this.
pub fn pass_as(packet: Packet) -> Verdict {
    Verdict::PassAs(Box::new(packet))
}

/// The router, its interfaces and the programs.
pub struct Rig<'r> {
    pub loaded: Loaded,
    pub router: &'r Namespace,
    ifindexes: [u32; 3],
    macs: [[u8; 6]; 3],
}

/// Builds a rig as `setup` changes the defaults, and gives it to `cases`, which runs on a thread in the router's
/// namespace. Without root's powers it says so and passes over.
pub fn with(setup: impl FnOnce(&mut Setup), cases: impl FnOnce(&Rig<'_>) + Send) {
    if let Err(missing) = xdp::require::check() {
        println!("passed over: {missing}");
        return;
    }
    let mut what = Setup::default();
    setup(&mut what);
    let router = Namespace::new().unwrap();
    let outside = Namespace::new().unwrap();
    for side in SIDES {
        let peer = format!("{}-peer", side.name());
        netns::veth(&router, side.name(), &outside, &peer).unwrap();
    }
    router.sysctl("net.ipv4.ip_forward", "1").unwrap();
    router.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
    let mut lines = addresses();
    lines.extend(routes());
    lines.extend(what.routes.iter().cloned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    router.ip(&lines).unwrap();
    router.run(|| {
        let rig = Rig {
            loaded: Loaded::new(&what),
            router: &router,
            ifindexes: SIDES.map(|side| interface::ifindex(side.name()).unwrap()),
            macs: SIDES.map(|side| interface::mac(side.name()).unwrap()),
        };
        for side in [Left, Right] {
            let i = side as usize;
            rig.loaded
                .add_port(rig.port(side), rig.ifindexes[i], rig.macs[i], MTU as u16);
        }
        cases(&rig);
    });
}

const SIDES: [Side; 3] = [Left, Right, Aside];

fn addresses() -> Vec<String> {
    let mut lines = Vec::new();
    for (side, family) in SIDES
        .iter()
        .flat_map(|side| FAMILIES.map(|family| (side, family)))
    {
        let (dev, link) = (side.name(), side.link());
        let how = if family.is_v4() { "/24" } else { "/64 nodad" };
        let (bits, flags) = how.split_once(' ').unwrap_or((how, ""));
        lines.push(format!(
            "address add {}{bits} dev {dev} {flags}",
            family.host(link, 1)
        ));
        for n in 10..30 {
            let mac = neighbour(link, n)
                .map(|byte| format!("{byte:02x}"))
                .join(":");
            let ip = family.host(link, n);
            lines.push(format!(
                "neighbour replace {ip} lladdr {mac} dev {dev} nud permanent"
            ));
        }
    }
    lines
}

fn routes() -> Vec<String> {
    let mut lines = Vec::new();
    for family in FAMILIES {
        let mut route = |kind: &str, link: u8, rest: &str| {
            let net = match family {
                Family::V4 => format!("10.0.{link}.0/24"),
                Family::V6 => format!("2001:db8:{link}::/64"),
            };
            lines.push(format!("route add {kind} {net} {rest}"));
        };
        route("blackhole", BLACKHOLE, "");
        route("unreachable", UNREACHABLE, "");
        route("prohibit", PROHIBIT, "");
        // IPv4 heeds a route's MTU when it forwards only if that is locked.
        route(
            "",
            NARROW,
            &format!("via {} dev right mtu lock 1400", family.right(10)),
        );
        route("", BEYOND, &format!("via {} dev right", family.right(11)));
        route("", LOST, &format!("via {} dev right", family.right(99)));
        route("", BEHIND, &format!("via {} dev left", family.left(12)));
    }
    lines
}

impl Rig<'_> {
    /// The number of a side's interface.
    pub fn ifindex(&self, side: Side) -> u32 {
        self.ifindexes[side as usize]
    }

    /// Its Ethernet address.
    pub fn mac(&self, side: Side) -> [u8; 6] {
        self.macs[side as usize]
    }

    /// Its number among the ports of the fast path.
    pub fn port(&self, side: Side) -> u32 {
        side as u32 + 1
    }

    /// The frame of a packet as the router receives it on a side.
    pub fn arriving(&self, side: Side, packet: &Packet) -> Vec<u8> {
        packet
            .clone()
            .macs(self.mac(side), neighbour(side.link(), 10))
            .bytes()
    }

    /// The frame of a packet as the router sends it to neighbour `n`.
    pub fn leaving(&self, side: Side, n: u8, packet: &Packet) -> Vec<u8> {
        packet
            .clone()
            .macs(neighbour(side.link(), n), self.mac(side))
            .bytes()
    }

    /// Runs the program on a frame that came in by a side.
    pub fn run(&self, from: Side, frame: &[u8]) -> run::Outcome {
        let run = Run::new(frame).from_interface(self.ifindex(from));
        run::test_run(self.loaded.program(), &run).unwrap()
    }

    /// The same for a packet.
    pub fn send(&self, from: Side, packet: &Packet) -> run::Outcome {
        self.run(from, &self.arriving(from, packet))
    }

    /// Runs the program on a packet: what becomes of it, how it looks afterwards, and the one reason that is counted
    /// must be these. `what` is said when they are not.
    #[track_caller]
    pub fn case(&self, what: &str, from: Side, packet: &Packet, verdict: Verdict, reason: Reason) {
        self.frame_case(what, from, &self.arriving(from, packet), verdict, reason);
    }

    /// The same with a frame that no packet describes.
    #[track_caller]
    pub fn frame_case(
        &self,
        what: &str,
        from: Side,
        frame: &[u8],
        verdict: Verdict,
        reason: Reason,
    ) {
        let before = self.counters();
        let outcome = self.run(from, frame);
        let reasons = verdicts(&rise(&before, &self.counters()));
        let (action, expected) = match &verdict {
            Verdict::Pass => (XDP_PASS, frame.to_vec()),
            Verdict::Drop => (XDP_DROP, frame.to_vec()),
            Verdict::PassAs(packet) => (XDP_PASS, self.arriving(from, packet)),
            Verdict::Send(side, n, packet) => (XDP_REDIRECT, self.leaving(*side, *n, packet)),
        };
        let mut wrong = String::new();
        if outcome.verdict != action {
            writeln!(
                wrong,
                "verdict {}, not {}",
                action_name(outcome.verdict),
                action_name(action)
            )
            .unwrap();
        }
        if reasons != [(reason, 1)] {
            writeln!(wrong, "counted {reasons:?}, not {reason:?} once").unwrap();
        }
        if outcome.packet != expected {
            writeln!(
                wrong,
                "packet\n{}",
                differences(frame, &outcome.packet, &expected)
            )
            .unwrap();
        }
        assert!(wrong.is_empty(), "{what}:\n{wrong}");
    }

    /// What runs the program on frames from any thread.
    pub fn injector(&self) -> Injector<'_> {
        Injector {
            program: self.loaded.program(),
            ifindexes: self.ifindexes,
            macs: self.macs,
        }
    }

    /// Counters by reason, over all CPUs.
    pub fn counters(&self) -> Vec<u64> {
        self.loaded.counters()
    }

    /// How much each counter rises while `what` is done; those that do not are left out.
    pub fn counted(&self, what: impl FnOnce()) -> Vec<(Reason, u64)> {
        let before = self.counters();
        what();
        rise(&before, &self.counters())
    }

    /// How much one counter rises while `what` is done.
    pub fn rises(&self, reason: Reason, what: impl FnOnce()) -> u64 {
        self.counted(what)
            .iter()
            .find(|(found, _)| *found == reason)
            .map_or(0, |(_, by)| *by)
    }
}

/// Runs the program on frames, from any thread that a thread of the rig has started.
#[derive(Clone, Copy)]
pub struct Injector<'r> {
    program: BorrowedFd<'r>,
    ifindexes: [u32; 3],
    macs: [[u8; 6]; 3],
}

impl Injector<'_> {
    /// As [`Rig::send`].
    pub fn send(&self, from: Side, packet: &Packet) -> run::Outcome {
        let i = from as usize;
        let frame = packet
            .clone()
            .macs(self.macs[i], neighbour(from.link(), 10))
            .bytes();
        let run = Run::new(&frame).from_interface(self.ifindexes[i]);
        run::test_run(self.program, &run).unwrap()
    }
}

/// Numbers that are the same in every run with the same seed (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Whether one of `n` has come.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

pub const XDP_DROP: u32 = 1;
pub const XDP_PASS: u32 = 2;
pub const XDP_TX: u32 = 3;
pub const XDP_REDIRECT: u32 = 4;

fn action_name(action: u32) -> &'static str {
    match action {
        XDP_DROP => "drop",
        XDP_PASS => "pass",
        XDP_TX => "tx",
        XDP_REDIRECT => "redirect",
        _ => "aborted or unknown",
    }
}

pub fn rise(before: &[u64], after: &[u64]) -> Vec<(Reason, u64)> {
    Reason::all()
        .zip(before.iter().zip(after))
        .filter(|(_, (before, after))| before != after)
        .map(|(reason, (before, after))| (reason, after - before))
        .collect()
}

/// Those of the reasons that say what became of a packet, not what happened beside it.
pub fn verdicts(counted: &[(Reason, u64)]) -> Vec<(Reason, u64)> {
    let of_verdict = |reason: Reason| {
        ["forward_", "reply_", "pass_", "drop_"]
            .iter()
            .any(|prefix| reason.name().starts_with(prefix))
    };
    counted
        .iter()
        .copied()
        .filter(|(reason, _)| of_verdict(*reason))
        .collect()
}

/// The bytes of a packet that went in, came out, and should have, in lines of sixteen; lines that differ are marked.
fn differences(went_in: &[u8], came_out: &[u8], expected: &[u8]) -> String {
    let hex = |bytes: &[u8], line: usize| -> String {
        bytes
            .chunks(16)
            .nth(line)
            .unwrap_or(&[])
            .iter()
            .map(|byte| format!("{byte:02x} "))
            .collect()
    };
    let lines = came_out
        .len()
        .max(expected.len())
        .max(went_in.len())
        .div_ceil(16);
    let mut text = format!(
        "    in {} bytes, out {}, expected {}\n",
        went_in.len(),
        came_out.len(),
        expected.len()
    );
    for line in 0..lines {
        let (given, got, wanted) = (hex(went_in, line), hex(came_out, line), hex(expected, line));
        if got == wanted && line >= 8 {
            continue;
        }
        if got == wanted {
            writeln!(text, "    {:04x}  {got}", line * 16).unwrap();
        } else {
            writeln!(
                text,
                "  i {:04x}  {given}\n  o {:04x}  {got}\n  e {:04x}  {wanted}",
                line * 16,
                line * 16,
                line * 16
            )
            .unwrap();
        }
    }
    text
}
