//! Nanoseconds a packet: a program of the fast path called by another that writes a packet of some flow before each call.
//! What that other costs is measured in turn with it, and taken off.

use crate::world::Family;
use anyhow::{Context, Result, bail};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use xdp::libbpf_rs::{MapCore, MapHandle, Object};
use xdp::map::{self, Pod};
use xdp::run::{Run, test_run};
use xdp::{interface, object};

/// XDP's verdicts.
pub(crate) const XDP_DROP: u32 = 1;
/// See there.
pub(crate) const XDP_TX: u32 = 3;
/// See there.
pub(crate) const XDP_REDIRECT: u32 = 4;

/// Bytes of a frame.
const FRAME: usize = 96;

/// Runs between two looks at the clock; the kernel gives none in between.
const MOST: u32 = 4_000_000;

/// In which order flows are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Order {
    /// A random one each time.
    Random,
    /// The first packet of one flow after the other.
    Next,
    /// For each flow its first packet, the answer unless there are only two steps, and a further packet.
    Handshake,
    /// The answer of a random one, as the handshake saw it.
    Reply,
}

/// What packets are run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packets {
    pub(crate) family: Family,
    pub(crate) order: Order,
    /// Flows to choose from.
    pub(crate) flows: u32,
    /// The first of them, where they follow one another.
    pub(crate) next: u32,
    pub(crate) steps: u32,
    /// The first source.
    pub(crate) from: IpAddr,
    /// How many sources there are: a power of two, that the first's lowest bits leave room for.
    pub(crate) sources: u32,
    /// The first destination.
    pub(crate) to: IpAddr,
    /// How many there are, as above.
    pub(crate) targets: u32,
    /// If not 0: each flow is for one of so many networks of 24 bits (of IPv6: 48), of which `to` is in the first.
    pub(crate) spread: u32,
    /// Whether the handshake is to remember its answers.
    pub(crate) record: bool,
}

impl Packets {
    /// Packets of random flows between clients and the hosts at `to`.
    pub(crate) fn new(family: Family, to: IpAddr, targets: u32, flows: u32) -> Self {
        Self {
            family,
            order: Order::Random,
            flows,
            next: 0,
            steps: 3,
            from: family.clients(),
            sources: 4096,
            to,
            targets,
            spread: 0,
            record: false,
        }
    }
}

/// `struct plan` of bpf/meter.bpf.c.
#[derive(Clone, Copy)]
#[repr(C)]
struct Plan {
    frame: [u8; FRAME],
    random: u64,
    order: u32,
    flows: u32,
    next: u32,
    step: u32,
    steps: u32,
    source_mask: u32,
    source_bits: u32,
    target_mask: u32,
    record: u32,
    spread: u32,
    first_flags: u8,
    further_flags: u8,
    spare: [u8; 6],
}

// SAFETY: plain numbers, and as the sizes below say no padding.
#[expect(unsafe_code, reason = "plain data")]
unsafe impl Pod for Plan {}
const _: () = assert!(size_of::<Plan>() == FRAME + 8 + 10 * 4 + 8);

/// The calling program, loaded.
pub(crate) struct Meter {
    object: Object,
    plan: MapHandle,
    under_test: MapHandle,
    ifindex: u32,
    mac: [u8; 6],
}

impl Meter {
    /// Loads it, with room for the answers of `flows` flows; `ifindex` is the interface that packets seem to come in by.
    pub(crate) fn load(ifindex: u32, flows: u32) -> Result<Self> {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/meter.bpf.o"));
        let object = object::load("meter", bytes, |open| {
            object::set_capacity(open, "replies4", flows.max(1))?;
            object::set_capacity(open, "replies6", flows.max(1))
        })?;
        let plan = object
            .maps()
            .find(|map| map.name().as_encoded_bytes().ends_with(b".bss"))
            .context("the meter has no plan")?;
        let plan = MapHandle::try_from(&plan)?;
        let under_test = object::map(&object, "under_test")?;
        Ok(Self {
            object,
            plan,
            under_test,
            ifindex,
            mac: interface::mac(&interface::name(ifindex)?)?,
        })
    }

    /// Nanoseconds a run of `program`, the calling program's own included; `expected` is the verdict it must end with.
    ///
    /// The calling thread must be in the namespace of the interface.
    pub(crate) fn run(
        &self,
        program: BorrowedFd<'_>,
        packets: &Packets,
        runs: u32,
        expected: u32,
    ) -> Result<f64> {
        map::set(&self.under_test, &0u32, &(program.as_raw_fd() as u32))?;
        let plan = plan(packets, self.mac);
        map::set(&self.plan, &0u32, &plan)?;
        let caller = object::program(
            &self.object,
            match packets.family {
                Family::V4 => "meter4",
                Family::V6 => "meter6",
            },
        )?;
        let mut left = runs;
        let start = processor_time();
        while left > 0 {
            let now = left.min(MOST);
            let run = Run::new(&plan.frame)
                .from_interface(self.ifindex)
                .repeat(now);
            let outcome = test_run(caller, &run)?;
            if outcome.verdict != expected {
                bail!(
                    "the last packet's verdict is {}, not {expected}",
                    outcome.verdict
                );
            }
            left -= now;
        }
        Ok((processor_time() - start) as f64 / f64::from(runs))
    }

    /// The same for a program that does nothing, or only makes room for an outer header of 20 bytes.
    pub(crate) fn run_nothing(&self, packets: &Packets, runs: u32) -> Result<f64> {
        let nothing = object::program(&self.object, "nothing")?;
        self.run(nothing, packets, runs, XDP_DROP)
    }

    /// What undoing an encapsulation costs the calling program.
    pub(crate) fn undoing(&self, packets: &Packets, runs: u32) -> Result<f64> {
        let longer = object::program(&self.object, "longer")?;
        let both = self.run(longer, packets, runs, XDP_DROP)?;
        Ok((both - self.run_nothing(packets, runs)?) / 2.0)
    }
}

/// Nanoseconds that this thread has run: what others do on its core meanwhile does not count.
fn processor_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the struct outlives the call, and every thread has this clock.
    #[expect(unsafe_code, reason = "clock_gettime")]
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn plan(packets: &Packets, mac: [u8; 6]) -> Plan {
    Plan {
        frame: frame(packets, mac),
        random: 0x9e37_79b9_7f4a_7c15,
        order: packets.order as u32,
        flows: packets.flows,
        next: packets.next,
        step: 0,
        steps: packets.steps,
        source_mask: packets.sources - 1,
        source_bits: packets.sources.trailing_zeros(),
        target_mask: packets.targets - 1,
        record: packets.record.into(),
        spread: packets.spread,
        first_flags: 0x02,
        further_flags: 0x10,
        spare: [0; 6],
    }
}

/// A TCP segment without data, as long as the calling program's frames: what is beyond the IP packet is padding.
fn frame(packets: &Packets, mac: [u8; 6]) -> [u8; FRAME] {
    let mut bytes = [mac, [2, 0, 0, 0, 0, 2]].concat();
    match (packets.from, packets.to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        _ => {}
    }
    // Ports, numbers, header's length, flags, window, checksum, urgent pointer.
    bytes.extend([
        4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    let mut frame = [0; FRAME];
    frame[..bytes.len()].copy_from_slice(&bytes);
    frame
}
