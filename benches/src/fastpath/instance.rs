//! The fast path as measured: loaded with the capacities and the work that a row asks for.

use crate::world::{Family, MEMBERS, World};
use anyhow::Result;
use fastpath::abi;
use fastpath::{Capacities, Clock, Tables};
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;
use xdp::interface;
use xdp::libbpf_rs::{self, MapCore, MapFlags, MapHandle, MapType};
use xdp::map::{self, Mapped};

/// How long flows are kept that no row is to lose.
const LONG: Duration = Duration::from_secs(3600);

/// Protocols of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Its counters, by reason; beyond those that there are, zeroes.
pub(crate) type Counts = [u64; 64];

/// What it is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Room for so many flows of each family.
    pub(crate) flows4: u32,
    pub(crate) flows6: u32,
    /// And for those of each that were not answered yet.
    pub(crate) half_open: u32,
    pub(crate) forward: u8,
    /// A virtual on port 80, and how its members are reached.
    pub(crate) virtual_server: Option<abi::Way>,
    /// Whether the virtual's clients are translated as well.
    pub(crate) automap: bool,
    /// Whether clients' sources are translated.
    pub(crate) masquerade: bool,
    /// Room in the shun list.
    pub(crate) shuns: u32,
    /// Whether flows end after the usual time.
    pub(crate) ends: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            flows4: 1 << 16,
            flows6: 1 << 16,
            half_open: 131_072,
            forward: abi::FORWARD_TRACKED,
            virtual_server: None,
            automap: false,
            masquerade: false,
            shuns: 1,
            ends: false,
        }
    }
}

/// The programs and tables.
pub(crate) struct Instance {
    loaded: fastpath::Instance,
    clock: Clock,
}

impl Instance {
    /// Loads it for a world's device; attached it is not.
    pub(crate) fn load(world: &World, shape: &Shape) -> Result<Self> {
        world.device.run(|| Self::load_here(world, shape))
    }

    /// The program that interfaces run.
    pub(crate) fn program(&self) -> Result<BorrowedFd<'_>> {
        Ok(self.loaded.program()?)
    }

    /// Its counters by reason, all cores' together.
    pub(crate) fn counts(&self) -> Result<Counts> {
        Ok(map::per_cpu_sum(self.tables().table("counters")?, &0u32)?)
    }

    /// Shuns `count` addresses from `first` on.
    pub(crate) fn shun(&self, first: IpAddr, count: u32) -> Result<()> {
        let entry = abi::Shun {
            until: self.clock.now()?.wrapping_add(self.clock.jiffies(LONG)),
            reason: 0,
        };
        let (name, number) = match first {
            IpAddr::V4(_) => ("shuns4", 0u32),
            IpAddr::V6(_) => ("shuns6", 1),
        };
        let table = self.tables().table(name)?;
        for at in 0..count {
            match first {
                IpAddr::V4(first) => {
                    let addr = (u32::from(first) + at).to_be_bytes();
                    map::set(table, &addr, &entry)?;
                }
                IpAddr::V6(first) => {
                    let addr = (u128::from(first) + u128::from(at)).to_be_bytes();
                    map::set(table, &addr, &entry)?;
                }
            }
        }
        self.tables()
            .set("shun_counts", &number, &u64::from(count))?;
        Ok(())
    }

    /// Its flows.
    pub(crate) fn flows(&self, family: Family) -> Result<Flows> {
        // The word with protocol, state, flags and way.
        let (name, at) = match family {
            Family::V4 => ("flows4", std::mem::offset_of!(abi::Flow4, proto)),
            Family::V6 => ("flows6", std::mem::offset_of!(abi::Flow6, proto)),
        };
        Ok(Flows {
            table: self.tables().mapped(name)?,
            word: at / 4,
        })
    }

    /// Bytes of memory that its tables take, as the kernel counts them.
    pub(crate) fn memory(&self) -> Result<u64> {
        let mut bytes = 0;
        for (_, table) in self.tables().iter() {
            let fd = table.as_fd().as_raw_fd();
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
            let line = text.lines().find_map(|line| line.strip_prefix("memlock:"));
            bytes += line
                .and_then(|line| line.trim().parse::<u64>().ok())
                .unwrap_or(0);
        }
        Ok(bytes)
    }

    fn load_here(world: &World, shape: &Shape) -> Result<Self> {
        let clock = Clock::start()?;
        let capacities = Capacities {
            flows_v4: shape.flows4,
            flows_v6: shape.flows6,
            half_open: shape.half_open,
            shuns: shape.shuns,
            ..Capacities::default()
        };
        let instance = Self {
            loaded: fastpath::Instance::load(&capacities, &settings(shape, &clock))?,
            clock,
        };
        instance.ports(world)?;
        if let Some(way) = shape.virtual_server {
            instance.serve(way, shape.automap)?;
        }
        if shape.masquerade {
            instance.masquerade(world)?;
        }
        Ok(instance)
    }

    fn tables(&self) -> &Tables {
        self.loaded.tables()
    }

    fn ports(&self, world: &World) -> Result<()> {
        for (number, name) in [(1u32, world.inward()), (2, world.outward())] {
            let ifindex = interface::ifindex(&name)?;
            let port = abi::Port {
                ifindex,
                mac: interface::mac(&name)?,
                mtu: interface::mtu(&name)? as u16,
            };
            self.tables().set("ports", &number, &port)?;
            self.tables().set("port_devices", &number, &ifindex)?;
            self.tables().set("port_numbers", &ifindex, &number)?;
        }
        Ok(())
    }

    /// A virtual of each family, with a pool of its own.
    fn serve(&self, way: abi::Way, automap: bool) -> Result<()> {
        const PLACES: u32 = 65537;
        for (number, family) in (1u32..).zip(Family::BOTH) {
            let first = number * 16;
            for member in 0..MEMBERS {
                let record = abi::Member {
                    addr: abi::widened(family.member(member)),
                    port: 80.into(),
                    family: if family == Family::V4 { 4 } else { 6 },
                    state: abi::MEMBER_UP,
                    ..Default::default()
                };
                let at = first + u32::from(member);
                self.tables().set("members", &at, &record)?;
            }
            let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
                sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
                map_flags: libbpf_rs::libbpf_sys::BPF_F_INNER_MAP,
                ..Default::default()
            };
            let ring = MapHandle::create(MapType::Array, Some("ring"), 4, 4, PLACES, &options)?;
            for place in 0..PLACES {
                // What Maglev would make of equal weights, as evenly and without its order.
                let member = first + place.wrapping_mul(2_654_435_761) % u32::from(MEMBERS);
                map::set(&ring, &place, &member)?;
            }
            let rings = self.tables().table("rings")?;
            rings.update(
                &number.to_ne_bytes(),
                &ring.as_fd().as_raw_fd().to_ne_bytes(),
                MapFlags::ANY,
            )?;
            let server = abi::VirtualServer {
                way: way as u8,
                members: MEMBERS.into(),
                ring: number,
                ring_size: PLACES,
                source: if automap {
                    source()
                } else {
                    abi::Source::default()
                },
                ..Default::default()
            };
            self.tables().set("virtual_servers", &number, &server)?;
            for proto in [TCP, UDP] {
                let key = abi::VipKey {
                    addr: abi::widened(family.virtual_server()),
                    port: 80.into(),
                    proto,
                    family: if family == Family::V4 { 4 } else { 6 },
                };
                self.tables().set("vips", &key, &number)?;
            }
        }
        Ok(())
    }

    /// Source NAT of clients, by a rule of each family.
    fn masquerade(&self, world: &World) -> Result<()> {
        let out = interface::ifindex(&world.outward())?;
        let IpAddr::V4(clients) = Family::V4.clients() else {
            anyhow::bail!("clients of IPv4 have no IPv4 address");
        };
        let IpAddr::V6(clients6) = Family::V6.clients() else {
            anyhow::bail!("clients of IPv6 have no IPv6 address");
        };
        let mut rule = abi::NatRule4 {
            from: clients.octets(),
            from_mask: [255, 240, 0, 0],
            out,
            id: 1,
            ..Default::default()
        };
        rule.source = source();
        self.tables().set("nat_rules4", &0u32, &rule)?;
        let mut mask = [0; 16];
        mask[..8].fill(255);
        let mut rule = abi::NatRule6 {
            from: clients6.octets(),
            from_mask: mask,
            out,
            id: 1,
            ..Default::default()
        };
        rule.source = source();
        self.tables().set("nat_rules6", &0u32, &rule)?;
        Ok(())
    }
}

fn source() -> abi::Source {
    let mut source = abi::Source {
        kind: abi::SNAT_AUTOMAP,
        ..Default::default()
    };
    source.ports[0] = [1024, 32767];
    source.ports[1] = [61000, 65535];
    source
}

fn settings(shape: &Shape, clock: &Clock) -> abi::Settings {
    let seed = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
    let mut settings = abi::Settings {
        virtuals: if shape.virtual_server.is_some() { 2 } else { 0 },
        nat_rules4: shape.masquerade.into(),
        nat_rules6: shape.masquerade.into(),
        forward: shape.forward,
        ..abi::Settings::new(clock.hz(), seed)
    };
    if !shape.ends {
        for state in [
            abi::State::Established,
            abi::State::Udp,
            abi::State::UdpStream,
        ] {
            settings.timeout[state as usize] = clock.jiffies(LONG);
        }
    }
    settings
}

/// The flows of one family, as they are.
pub(crate) struct Flows {
    table: Mapped,
    word: usize,
}

impl Flows {
    /// How many there are in a state, in some of the slots.
    pub(crate) fn count(&self, state: abi::State, slots: Range<usize>) -> u64 {
        let stride = self.table.stride() / 4;
        let last = slots.end.min(self.table.len());
        let words = &self.table.words()[slots.start.min(last) * stride..last * stride];
        let found = words.iter().skip(self.word).step_by(stride).filter(|word| {
            let [_, its, _, _] = word.load(Ordering::Relaxed).to_ne_bytes();
            its == state as u8
        });
        found.count() as u64
    }

    /// How many there are in a state at all.
    pub(crate) fn all(&self, state: abi::State) -> u64 {
        self.count(state, 0..usize::MAX)
    }
}

/// The count of one reason.
pub(crate) fn count(counts: &Counts, reason: abi::Reason) -> u64 {
    counts[reason as usize]
}

/// What was counted between two looks, by name, where it was anything.
pub(crate) fn said(before: &Counts, after: &Counts) -> String {
    let counts: Vec<String> = abi::Reason::all()
        .zip(before.iter().zip(after))
        .filter(|(_, (before, after))| after > before)
        .map(|(reason, (before, after))| format!("{} {}", reason.name(), after - before))
        .collect();
    counts.join(", ")
}
