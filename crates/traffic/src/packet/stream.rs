//! What frames a stream consists of. `Stream::frame` says each of them byte by byte; the eBPF program makes the same
//! from a template, and the tests hold the two against each other.

use super::abi;
use super::checksum::{finish, sum};
use super::cookie::{cookie, mixed, server_isn};
use super::range::{Addresses, Ports};
use super::sizes::{SHORTEST, Sizes};
use std::net::IpAddr;
use thiserror::Error;

/// The flag of a TCP segment with FIN.
pub const FIN: u8 = 1;
/// The flag of a TCP segment with SYN.
pub const SYN: u8 = 2;
/// The flag of a TCP segment with RST.
pub const RST: u8 = 4;
/// The flag of a TCP segment with PSH.
pub const PSH: u8 = 8;
/// The flag of a TCP segment with ACK.
pub const ACK: u8 = 16;

const ETHERNET: usize = 14;

/// The options of an acted SYN: MSS 1460, SACK permitted, window scale 7.
const SYN_OPTIONS: [u8; 12] = [2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7];

/// The request of the acted client. Short, so that the answer of a kernel to the SYN has room for it.
pub(super) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Frames that differ in addresses, ports, sizes and sequence number.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The Ethernet address that frames come from.
    pub source_mac: [u8; 6],
    /// The Ethernet address that frames go to.
    pub destination_mac: [u8; 6],
    /// The IP addresses that frames come from.
    pub source: Addresses,
    /// The IP addresses that frames go to, of the same family.
    pub destination: Addresses,
    /// The ports that frames come from; the identifiers of echo requests.
    pub source_ports: Ports,
    /// The ports that frames go to; the sequence numbers of echo requests.
    pub destination_ports: Ports,
    /// What is in the packets.
    pub protocol: Protocol,
    /// How long the frames are. Sizes too small for headers and signature are raised.
    pub sizes: Sizes,
    /// How one flow follows another.
    pub order: Order,
    /// Whether the payload starts with our signature, by which receivers find loss and reordering.
    pub signed: bool,
    /// Whether the signature says when the frame was sent.
    pub stamped: bool,
    /// The number of the stream in the signature, up to 255.
    pub number: u8,
    /// How many frames of the order to leave out, of each part: a stream goes on where another one stopped.
    pub skip: u64,
}

/// What is in a stream's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// UDP datagrams.
    Udp,
    /// TCP segments with these flags, which belong to no connection.
    Tcp {
        /// [`SYN`], [`ACK`] and so on.
        flags: u8,
    },
    /// Echo requests of ICMP or ICMPv6.
    Echo,
    /// Segments of TCP connections whose other end is [`super::tcp`].
    Act(Act),
}

/// Which segment of an acted TCP connection is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The first.
    Syn,
    /// A keep-alive in a connection that has carried nothing yet.
    KeepAlive,
    /// The request, in a connection that has carried nothing yet.
    Request,
    /// A reset of a connection that has carried nothing yet.
    Reset,
}

/// How flows follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Source ports first, then destination ports, source addresses, destination addresses.
    Sequential,
    /// Each frame's addresses and ports are drawn.
    Random {
        /// The same seed draws the same.
        seed: u64,
    },
}

/// The share of one thread: part `index` of `of` parts of the flows, with signatures of an own stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which part, from 0.
    pub index: u32,
    /// How many parts there are.
    pub of: u32,
}

impl Part {
    /// All there is.
    pub const WHOLE: Self = Self { index: 0, of: 1 };
}

impl Stream {
    /// Unpaced UDP frames of the smallest size, from one Ethernet address to another.
    pub fn new(source: impl Into<Addresses>, destination: impl Into<Addresses>) -> Self {
        Self {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source: source.into(),
            destination: destination.into(),
            source_ports: Ports::from(1024),
            destination_ports: Ports::from(9),
            protocol: Protocol::Udp,
            sizes: Sizes::fixed(SHORTEST),
            order: Order::Sequential,
            signed: true,
            stamped: false,
            number: 0,
            skip: 0,
        }
    }

    /// How many flows there are.
    pub fn flows(&self) -> u64 {
        [
            self.source_ports.count(),
            self.destination_ports.count(),
            self.source.count(),
            self.destination.count(),
        ]
        .into_iter()
        .fold(1, |flows: u64, count| flows.saturating_mul(count.into()))
    }

    /// Frame `number` of a part, counted from 0; time stamps are 0.
    pub fn frame(&self, part: Part, number: u64) -> Result<Vec<u8>, StreamError> {
        self.frame_at(part, number, 0, &self.true_sizes())
    }

    /// The same with a time stamp, and with the result of [`Stream::true_sizes`].
    pub(super) fn frame_at(
        &self,
        part: Part,
        number: u64,
        time: u64,
        sizes: &Sizes,
    ) -> Result<Vec<u8>, StreamError> {
        self.checked()?;
        let pattern = sizes.pattern();
        let size = pattern[(number % pattern.len() as u64) as usize];
        let (first, count) = self.flows_of(part)?;
        let (digits, epoch) = match self.order {
            Order::Sequential => {
                let place = self.skip + number;
                (self.digits(first + place % count), place / count)
            }
            Order::Random { seed } => (self.drawn(self.part_seed(seed, part), number), 0),
        };
        let mut frame = self.headers(&Fields {
            source: self.source.at(digits.source),
            destination: self.destination.at(digits.destination),
            sport: (u32::from(self.source_ports.first()) + digits.sport) as u16,
            dport: (u32::from(self.destination_ports.first()) + digits.dport) as u16,
            sequence: number as u32,
            stream: self.stream_number(part),
            epoch: epoch as u32,
            time,
        });
        let content = frame.len();
        if !matches!(self.protocol, Protocol::Act(_)) {
            frame.resize(size.into(), 0);
        }
        finish(&mut frame, content, self.source.is_v6());
        frame.resize(size.into(), 0);
        Ok(frame)
    }

    /// The sizes of frames, none too small for headers and signature.
    pub(super) fn true_sizes(&self) -> Sizes {
        let least = self.headers(&Fields::none(self, Part::WHOLE)).len();
        let sizes = match self.protocol {
            Protocol::Act(_) => &Sizes::fixed(SHORTEST),
            _ => &self.sizes,
        };
        sizes.at_least((least as u16).max(SHORTEST))
    }

    /// The stream as the program of one thread needs it; `paced` says whether that thread keeps a rate.
    pub(super) fn program(&self, part: Part, paced: bool) -> Result<abi::Stream, StreamError> {
        self.checked()?;
        let (flow_first, flow_count) = self.flows_of(part)?;
        let v6 = self.source.is_v6();
        let mut frame = self.headers(&Fields::none(self, part));
        if let Protocol::Act(_) = self.protocol {
            // The program writes sequence and acknowledgement.
            let numbers = ETHERNET + if self.source.is_v6() { 44 } else { 24 };
            frame[numbers..numbers + 8].fill(0);
        }
        let header = frame.len() - if self.is_signed() { abi::SIGNATURE } else { 0 };
        let transport = ETHERNET + if v6 { 40 } else { 20 };
        // Without a length, which varies; the program adds it.
        let protocol = protocol_number(self.protocol, v6);
        let pseudo = match (v6, protocol) {
            (_, 1) => 0,
            (true, _) => sum(&frame[ETHERNET + 8..transport]) + sum(&[0, protocol]),
            (false, _) => sum(&[0, protocol]),
        };
        let sizes = self.true_sizes();
        let mut pattern = [0; abi::PATTERN];
        pattern[..sizes.pattern().len()].copy_from_slice(sizes.pattern());
        let (random, seed) = match self.order {
            Order::Sequential => (0, 0),
            Order::Random { seed } => (1, self.part_seed(seed, part)),
        };
        let ip_sum = if v6 {
            0
        } else {
            sum(&frame[ETHERNET..transport])
        };
        let transport_sum = pseudo + sum(&frame[transport..]);
        let words = frame.len().div_ceil(8);
        frame.resize(abi::TEMPLATE, 0);
        let mut template = [0; abi::TEMPLATE];
        template.copy_from_slice(&frame);
        Ok(abi::Stream {
            template,
            ip_sum,
            transport_sum,
            family: if v6 { 6 } else { 4 },
            protocol,
            act: match self.protocol {
                Protocol::Act(act) => act_number(act),
                _ => 0,
            },
            random,
            signed: self.is_signed().into(),
            stamped: self.stamped.into(),
            paced: paced.into(),
            words: words as u8,
            header: header as u16,
            room: room(sizes.longest()),
            pattern_len: sizes.pattern().len() as u16,
            pad: 0,
            pattern,
            source: addresses(&self.source),
            destination: addresses(&self.destination),
            sport: ports(&self.source_ports),
            dport: ports(&self.destination_ports),
            flow_first,
            flow_count,
            seed,
        })
    }

    /// Where the program of a part starts.
    pub(super) fn start(&self, part: Part) -> Result<abi::State, StreamError> {
        let (first, count) = self.flows_of(part)?;
        let flow = self.skip % count;
        let digits = self.digits(first + flow);
        Ok(abi::State {
            flow,
            epoch: (self.skip / count) as u32,
            source: digits.source,
            destination: digits.destination,
            sport: digits.sport,
            dport: digits.dport,
            ..abi::State::default()
        })
    }

    /// The number in the signatures of a part.
    pub(super) fn stream_number(&self, part: Part) -> u16 {
        (u32::from(self.number) + part.index) as u16 % abi::STREAMS as u16
    }

    fn is_signed(&self) -> bool {
        self.signed && !matches!(self.protocol, Protocol::Act(_))
    }

    fn checked(&self) -> Result<(), StreamError> {
        if self.source.is_v6() != self.destination.is_v6() {
            return Err(StreamError::Families {
                source_addresses: self.source,
                destination_addresses: self.destination,
            });
        }
        Ok(())
    }

    /// The first flow of a part, and how many flows it has.
    fn flows_of(&self, part: Part) -> Result<(u64, u64), StreamError> {
        let flows = self.flows();
        let of = u64::from(part.of.max(1));
        // A single flow is sent by every thread.
        if flows == 1 {
            return Ok((0, 1));
        }
        if flows < of {
            return Err(StreamError::FewFlows { flows, threads: of });
        }
        let border = |index: u64| (u128::from(flows) * u128::from(index) / u128::from(of)) as u64;
        let (first, next) = (border(part.index.into()), border(u64::from(part.index) + 1));
        Ok((first, next - first))
    }

    fn digits(&self, flow: u64) -> Digits {
        let mut rest = flow;
        let mut digit = |count: u32| {
            let digit = rest % u64::from(count);
            rest /= u64::from(count);
            digit as u32
        };
        Digits {
            sport: digit(self.source_ports.count()),
            dport: digit(self.destination_ports.count()),
            source: digit(self.source.count()),
            destination: digit(self.destination.count()),
        }
    }

    /// Each thread draws its own.
    fn part_seed(&self, seed: u64, part: Part) -> u64 {
        mixed(seed ^ (u64::from(part.index) << 48)).wrapping_add(self.skip.wrapping_mul(2))
    }

    fn drawn(&self, seed: u64, number: u64) -> Digits {
        let ports = mixed(seed.wrapping_add(number.wrapping_mul(2)));
        let addresses = mixed(seed.wrapping_add(number.wrapping_mul(2)).wrapping_add(1));
        let drawn =
            |from: u64, count: u32| (((from & 0xffff_ffff) * u64::from(count)) >> 32) as u32;
        Digits {
            sport: drawn(ports, self.source_ports.count()),
            dport: drawn(ports >> 32, self.destination_ports.count()),
            source: drawn(addresses, self.source.count()),
            destination: drawn(addresses >> 32, self.destination.count()),
        }
    }

    /// Headers and signature, without lengths and checksums.
    fn headers(&self, fields: &Fields) -> Vec<u8> {
        let mut frame = Vec::with_capacity(self.sizes.longest().into());
        frame.extend(self.destination_mac);
        frame.extend(self.source_mac);
        let v6 = self.source.is_v6();
        let protocol = protocol_number(self.protocol, v6);
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
        } else {
            frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
        }
        for address in [fields.source, fields.destination] {
            match address {
                IpAddr::V4(address) => frame.extend(address.octets()),
                IpAddr::V6(address) => frame.extend(address.octets()),
            }
        }
        let ports = [fields.sport.to_be_bytes(), fields.dport.to_be_bytes()].concat();
        let tcp = |offset: u8, flags: u8| [offset << 4, flags, 0xff, 0xff, 0, 0, 0, 0];
        match self.protocol {
            Protocol::Udp => {
                frame.extend(ports);
                frame.extend([0; 4]);
            }
            Protocol::Tcp { flags } => {
                frame.extend(ports);
                frame.extend([0; 8]);
                frame.extend(tcp(5, flags));
            }
            Protocol::Echo => {
                frame.extend([if v6 { 128 } else { 8 }, 0, 0, 0]);
                frame.extend(ports);
            }
            Protocol::Act(act) => {
                let (seq, ack) = fields.numbers(act);
                frame.extend(ports);
                frame.extend(seq.to_be_bytes());
                frame.extend(ack.to_be_bytes());
                match act {
                    Act::Syn => {
                        frame.extend(tcp(8, SYN));
                        frame.extend(SYN_OPTIONS);
                    }
                    Act::KeepAlive => frame.extend(tcp(5, ACK)),
                    Act::Reset => frame.extend(tcp(5, RST | ACK)),
                    Act::Request => {
                        frame.extend(tcp(5, PSH | ACK));
                        frame.extend(REQUEST);
                    }
                }
            }
        }
        if self.is_signed() {
            frame.extend(abi::SIGNATURE_MAGIC.to_be_bytes());
            frame.extend(fields.stream.to_be_bytes());
            frame.extend(fields.sequence.to_be_bytes());
            frame.extend(fields.time.to_ne_bytes());
        }
        frame
    }
}

/// Why a stream cannot be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StreamError {
    /// IPv4 to IPv6 or the other way round.
    #[error("{source_addresses} and {destination_addresses} are not of the same family")]
    Families {
        /// Where frames should come from.
        source_addresses: Addresses,
        /// Where they should go to.
        destination_addresses: Addresses,
    },
    /// Not each thread has a flow.
    #[error(
        "{flows} flows are too few for {threads} threads; give more ports or addresses, one flow alone, or fewer cores"
    )]
    FewFlows {
        /// How many flows there are.
        flows: u64,
        /// How many threads share them.
        threads: u64,
    },
}

/// The frame that a program gets whose longest is `longest`: longer than that, so that it is always cut, and with room
/// for the template.
pub(super) fn room(longest: u16) -> u16 {
    longest.max(abi::TEMPLATE as u16) + 8
}

struct Digits {
    source: u32,
    destination: u32,
    sport: u32,
    dport: u32,
}

struct Fields {
    source: IpAddr,
    destination: IpAddr,
    sport: u16,
    dport: u16,
    sequence: u32,
    stream: u16,
    epoch: u32,
    time: u64,
}

impl Fields {
    /// What a template has: what varies is zero.
    fn none(stream: &Stream, part: Part) -> Self {
        let base = |addresses: &Addresses| addresses.at(0u32.wrapping_sub(addresses.low()));
        Self {
            source: base(&stream.source),
            destination: base(&stream.destination),
            sport: 0,
            dport: 0,
            sequence: 0,
            stream: stream.stream_number(part),
            epoch: 0,
            time: 0,
        }
    }

    fn cookie(&self) -> u32 {
        cookie(self.source, self.destination, self.sport, self.dport)
    }

    /// Sequence and acknowledgement of a segment of an acted connection.
    fn numbers(&self, act: Act) -> (u32, u32) {
        let isn = (self.epoch << 24).wrapping_add(self.cookie());
        match act {
            Act::Syn => (isn, 0),
            Act::KeepAlive => (isn, server_isn(isn).wrapping_add(1)),
            Act::Request | Act::Reset => (isn.wrapping_add(1), server_isn(isn).wrapping_add(1)),
        }
    }
}

fn protocol_number(protocol: Protocol, v6: bool) -> u8 {
    match protocol {
        Protocol::Udp => 17,
        Protocol::Tcp { .. } | Protocol::Act(_) => 6,
        Protocol::Echo if v6 => 58,
        Protocol::Echo => 1,
    }
}

fn act_number(act: Act) -> u8 {
    match act {
        Act::Syn => 1,
        Act::KeepAlive => 2,
        Act::Request => 3,
        Act::Reset => 4,
    }
}

fn addresses(addresses: &Addresses) -> abi::Range {
    abi::Range {
        first: addresses.low(),
        count: addresses.count(),
    }
}

fn ports(ports: &Ports) -> abi::Range {
    abi::Range {
        first: ports.first().into(),
        count: ports.count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::net::Ipv6Addr;

    fn stream(ports: u16, addresses: u8) -> Stream {
        let last = format!("2001:db8::1-2001:db8::{:x}", addresses.max(1));
        Stream {
            source_ports: format!("1-{ports}").parse().expect("ports"),
            destination: last.parse().expect("addresses"),
            ..Stream::new(
                IpAddr::from(Ipv6Addr::LOCALHOST),
                IpAddr::from(Ipv6Addr::LOCALHOST),
            )
        }
    }

    proptest! {
        #[test]
        fn the_parts_are_all_flows_and_none_twice(
            ports in 1u16..40, addresses in 2u8..40, of in 1u32..5, skip in 0u64..3000,
        ) {
            let stream = Stream { skip, ..stream(ports, addresses) };
            prop_assume!(stream.flows() >= of.into());
            let mut seen = HashSet::new();
            for index in 0..of {
                let part = Part { index, of };
                let (_, count) = stream.flows_of(part).expect("flows for each");
                for number in 0..count {
                    let frame = stream.frame(part, number).expect("a frame");
                    // Addresses and ports.
                    prop_assert!(seen.insert(frame[22..58].to_vec()));
                }
            }
            prop_assert_eq!(seen.len() as u64, stream.flows());
        }
    }

    #[test]
    fn threads_share_a_single_flow_but_not_a_few() {
        let one = stream(1, 1);
        assert!(one.frame(Part { index: 2, of: 3 }, 0).is_ok());
        let error = stream(2, 1).frame(Part { index: 2, of: 3 }, 0);
        assert_eq!(
            error,
            Err(StreamError::FewFlows {
                flows: 2,
                threads: 3
            })
        );
    }

    #[test]
    fn small_frames_are_raised_to_what_must_be_in_them() {
        let six = stream(1, 1);
        assert_eq!(six.true_sizes().longest(), 78);
        let bare = Stream {
            signed: false,
            ..six
        };
        assert_eq!(bare.true_sizes().longest(), 62);
        let four = Stream::new(IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert_eq!(four.true_sizes().longest(), 60);
    }
}
