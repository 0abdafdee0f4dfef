//! The other end: a program on the interface where frames arrive, which counts and drops them.

use super::abi::{self, DELAYS, STREAMS};
use super::error::PacketError;
use super::kernel::{self, Attached};
use super::place::Place;
use xdp::attach::{Mode, Wanted};
use xdp::libbpf_rs::MapHandle;
use xdp::{map, object};

/// What a receiver does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receiving {
    /// Count every frame but ARP, not only those with a generator's signature.
    pub all: bool,
    /// Hand frames on to the kernel after they were counted, instead of dropping them.
    pub pass: bool,
    /// Where in the receive path it runs.
    pub wanted: Wanted,
}

/// Counts frames that arrive on an interface, until it is dropped.
pub struct Receiver {
    attached: Attached,
    received: MapHandle,
    streams: MapHandle,
    delays: MapHandle,
}

impl Receiver {
    /// Puts the program on the interface.
    pub fn attach(place: &Place, receiving: Receiving) -> Result<Self, PacketError> {
        let constants = abi::Receiving {
            all: receiving.all.into(),
            pass: receiving.pass.into(),
            pad: [0; 6],
        };
        place.run(|| {
            let object = object::load("receive", kernel::RECEIVE, |open| {
                kernel::set_section(open, ".rodata.config", &constants)
            })?;
            let program = kernel::program(&object, "receive")?;
            Ok(Self {
                attached: Attached::new(&program, place.ifindex()?, receiving.wanted)?,
                received: kernel::table(&object, "received")?,
                streams: kernel::table(&object, "streams")?,
                delays: kernel::table(&object, "delays")?,
            })
        })
    }

    /// Where in the receive path the program runs.
    pub fn mode(&self) -> Mode {
        self.attached.mode()
    }

    /// What has arrived since the program was attached.
    pub fn received(&self) -> Result<Received, PacketError> {
        let mut received = Received::default();
        for share in per_cpu::<abi::Received>(&self.received, 0)? {
            received.packets += share.packets;
            received.bytes += share.bytes;
            received.other += share.other;
        }
        for number in 0..STREAMS as u32 {
            let stream = StreamReceived::of(number as u8, &per_cpu(&self.streams, number)?);
            received.streams.extend(stream);
        }
        for power in 0..DELAYS as u32 {
            let count = per_cpu::<u64>(&self.delays, power)?.iter().sum();
            received.delays.push(count);
        }
        Ok(received)
    }

    /// Only the first numbers of [`Receiver::received`]: quick enough to be asked in a loop.
    pub fn packets(&self) -> Result<u64, PacketError> {
        Ok(per_cpu::<abi::Received>(&self.received, 0)?
            .iter()
            .map(|share| share.packets)
            .sum())
    }
}

/// What has arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames that are counted: those with a signature, or all.
    pub packets: u64,
    /// Their bytes, from the Ethernet header on.
    pub bytes: u64,
    /// Frames that are not counted, and were left to the kernel.
    pub other: u64,
    /// The streams seen, by the numbers in signatures.
    pub streams: Vec<StreamReceived>,
    /// How many frames that say when they were sent took from 2^n up to 2^(n+1) nanoseconds, for each n.
    pub delays: Vec<u64>,
}

impl Received {
    /// Frames that came after one that was sent after them.
    pub fn late(&self) -> u64 {
        self.streams.iter().map(|stream| stream.late).sum()
    }

    /// Frames missing between the first and the last that arrived of each stream.
    pub fn missing(&self) -> u64 {
        self.streams.iter().map(StreamReceived::missing).sum()
    }

    /// The delay in nanoseconds, rounded up to a power of two, that `share` of the frames (0.99 for most) do not exceed.
    /// `None` without frames that say when they were sent.
    pub fn delay(&self, share: f64) -> Option<u64> {
        let all: u64 = self.delays.iter().sum();
        let wanted = ((all as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        (1u32..)
            .zip(&self.delays)
            .find(|(_, count)| {
                seen += **count;
                seen >= wanted
            })
            .map(|(power, _)| 1 << power)
    }
}

/// What has arrived of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamReceived {
    /// Its number.
    pub number: u8,
    /// Frames.
    pub packets: u64,
    /// Bytes, from the Ethernet header on.
    pub bytes: u64,
    /// The lowest sequence number.
    pub lowest: u64,
    /// The highest; beyond 32 bits when they did not suffice.
    pub highest: u64,
    /// Frames that came after one that was sent after them, as one CPU of the receiver saw them.
    pub late: u64,
    /// By how many frames at most.
    pub farthest: u64,
}

impl StreamReceived {
    /// Frames missing between the lowest and the highest.
    pub fn missing(&self) -> u64 {
        (self.highest - self.lowest + 1).saturating_sub(self.packets)
    }

    fn of(number: u8, shares: &[abi::StreamReceived]) -> Option<Self> {
        let mut shares = shares.iter().filter(|share| share.packets > 0);
        let first = shares.next()?;
        let mut all = Self {
            number,
            packets: first.packets,
            bytes: first.bytes,
            lowest: first.lowest,
            highest: first.highest,
            late: first.late,
            farthest: first.farthest,
        };
        for share in shares {
            all.packets += share.packets;
            all.bytes += share.bytes;
            all.lowest = all.lowest.min(share.lowest);
            all.highest = all.highest.max(share.highest);
            all.late += share.late;
            all.farthest = all.farthest.max(share.farthest);
        }
        Some(all)
    }
}

fn per_cpu<V: map::Pod>(table: &MapHandle, key: u32) -> Result<Vec<V>, PacketError> {
    Ok(map::per_cpu(table, &key)
        .map_err(PacketError::Table)?
        .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(packets: u64, lowest: u64, highest: u64) -> abi::StreamReceived {
        abi::StreamReceived {
            packets,
            lowest,
            highest,
            ..abi::StreamReceived::default()
        }
    }

    #[test]
    fn a_stream_over_several_cpus_is_one() {
        let none = share(0, 0, 0);
        let stream = StreamReceived::of(3, &[none, share(4, 10, 19), share(3, 5, 12)])
            .expect("something arrived");
        assert_eq!((stream.lowest, stream.highest), (5, 19));
        assert_eq!(stream.missing(), 8);
        assert_eq!(StreamReceived::of(3, &[none, none]), None);
    }

    #[test]
    fn delays_are_told_by_their_share() {
        let mut received = Received::default();
        assert_eq!(received.delay(0.5), None);
        received.delays = vec![0; DELAYS];
        received.delays[10] = 98;
        received.delays[20] = 2;
        assert_eq!(received.delay(0.5), Some(2048));
        assert_eq!(received.delay(0.98), Some(2048));
        assert_eq!(received.delay(0.99), Some(1 << 21));
    }
}
