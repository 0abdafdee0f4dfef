//! The fast path as measured: loaded with the capacities and the work that a row asks for.

use crate::world::{Family, MEMBERS, World};
use anyhow::Result;
use fastpath::abi;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use xdp::libbpf_rs::{self, MapCore, MapFlags, MapHandle, MapType, Object};
use xdp::{interface, map, object};

/// Jiffies a second of this kernel.
const HZ: u32 = 250;

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
    /// Buckets of eight half-open flows, a power of two.
    pub(crate) half_buckets: u32,
    pub(crate) forward: u8,
    /// A virtual on port 80, and how its members are reached.
    pub(crate) virtual_server: Option<abi::Way>,
    /// Whether the virtual's clients are translated as well.
    pub(crate) automap: bool,
    /// Whether clients' sources are translated.
    pub(crate) masquerade: bool,
    /// Room in the shun list.
    pub(crate) shuns: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            flows4: 1 << 16,
            flows6: 1 << 16,
            half_buckets: 1 << 14,
            forward: abi::FORWARD_TRACKED,
            virtual_server: None,
            automap: false,
            masquerade: false,
            shuns: 1,
        }
    }
}

/// The programs and tables.
pub(crate) struct Instance {
    object: Object,
    // The tables of tables hold them too, but only while they are in the kernel's hands alone.
    _rings: Vec<MapHandle>,
}

impl Instance {
    /// Loads it for a world's device; attached it is not.
    pub(crate) fn load(world: &World, shape: &Shape) -> Result<Self> {
        world.device.run(|| Self::load_here(world, shape))
    }

    /// The program that interfaces run.
    pub(crate) fn program(&self) -> Result<BorrowedFd<'_>> {
        Ok(object::program(&self.object, "headgate")?)
    }

    /// Its counters by reason, all cores' together.
    pub(crate) fn counts(&self) -> Result<Counts> {
        let table = object::map(&self.object, "counters")?;
        Ok(map::per_cpu_sum(&table, &0u32)?)
    }

    /// Shuns `count` addresses from `first` on.
    pub(crate) fn shun(&self, first: IpAddr, count: u32) -> Result<()> {
        let entry = abi::Shun {
            until: now() + 3600 * HZ,
            reason: 0,
        };
        let (name, number) = match first {
            IpAddr::V4(_) => ("shuns4", 0u32),
            IpAddr::V6(_) => ("shuns6", 1),
        };
        let table = object::map(&self.object, name)?;
        for at in 0..count {
            match first {
                IpAddr::V4(first) => {
                    let addr = (u32::from(first) + at).to_be_bytes();
                    map::set(&table, &addr, &entry)?;
                }
                IpAddr::V6(first) => {
                    let addr = (u128::from(first) + u128::from(at)).to_be_bytes();
                    map::set(&table, &addr, &entry)?;
                }
            }
        }
        let counts = object::map(&self.object, "shun_counts")?;
        map::set(&counts, &number, &u64::from(count))?;
        Ok(())
    }

    fn load_here(world: &World, shape: &Shape) -> Result<Self> {
        let settings = settings(shape);
        let object = object::load("headgate", abi::OBJECT, |open| {
            object::set_constants(open, &settings)?;
            for (name, entries) in [
                ("flows4", settings.slots4),
                ("flows6", settings.slots6),
                ("index4", settings.buckets4),
                ("index6", settings.buckets6),
                ("half_index4", shape.half_buckets),
                ("half_index6", shape.half_buckets),
                ("half_flows4", shape.half_buckets * 8),
                ("half_flows6", shape.half_buckets * 8),
                ("users", 65536),
                ("fragments", 16384),
                ("shuns4", shape.shuns),
                ("shuns6", shape.shuns),
            ] {
                object::set_capacity(open, name, entries)?;
            }
            Ok(())
        })?;
        let mut instance = Self {
            object,
            _rings: Vec::new(),
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

    fn ports(&self, world: &World) -> Result<()> {
        let map = |name| object::map(&self.object, name);
        for (number, name) in [(1u32, world.inward()), (2, world.outward())] {
            let ifindex = interface::ifindex(&name)?;
            let port = abi::Port {
                ifindex,
                mac: interface::mac(&name)?,
                mtu: interface::mtu(&name)? as u16,
            };
            map::set(&map("ports")?, &number, &port)?;
            map::set(&map("port_devices")?, &number, &ifindex)?;
            map::set(&map("port_numbers")?, &ifindex, &number)?;
        }
        Ok(())
    }

    /// A virtual of each family, with a pool of its own.
    fn serve(&mut self, way: abi::Way, automap: bool) -> Result<()> {
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
                map::set(&object::map(&self.object, "members")?, &at, &record)?;
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
            let rings = object::map(&self.object, "rings")?;
            rings.update(
                &number.to_ne_bytes(),
                &ring.as_fd().as_raw_fd().to_ne_bytes(),
                MapFlags::ANY,
            )?;
            self._rings.push(ring);
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
            map::set(
                &object::map(&self.object, "virtual_servers")?,
                &number,
                &server,
            )?;
            for proto in [TCP, UDP] {
                let key = abi::VipKey {
                    addr: abi::widened(family.virtual_server()),
                    port: 80.into(),
                    proto,
                    family: if family == Family::V4 { 4 } else { 6 },
                };
                map::set(&object::map(&self.object, "vips")?, &key, &number)?;
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
        map::set(&object::map(&self.object, "nat_rules4")?, &0u32, &rule)?;
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
        map::set(&object::map(&self.object, "nat_rules6")?, &0u32, &rule)?;
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

fn settings(shape: &Shape) -> abi::Settings {
    let buckets = |flows: u32| (u64::from(flows) * 3).div_ceil(8) as u32;
    let mut settings = abi::Settings {
        seed: [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210],
        buckets4: buckets(shape.flows4),
        buckets6: buckets(shape.flows6),
        slots4: shape.flows4,
        slots6: shape.flows6,
        half_mask: shape.half_buckets - 1,
        fragment_timeout: 5 * HZ,
        hz: HZ,
        virtuals: if shape.virtual_server.is_some() { 2 } else { 0 },
        nat_rules4: shape.masquerade.into(),
        nat_rules6: shape.masquerade.into(),
        forward: shape.forward,
        ..Default::default()
    };
    settings.timeout = [3600 * HZ; abi::STATES];
    settings.timeout[abi::State::SynSent as usize] = 30 * HZ;
    settings
}

/// The kernel's jiffies as the programs read them: they begin five minutes before an overflow.
fn now() -> u32 {
    let up = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds: f64 = up
        .split(' ')
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0);
    ((seconds * f64::from(HZ)) as u32).wrapping_sub(300 * HZ)
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
