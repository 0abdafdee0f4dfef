//! What `packets`, `tcp` and `search` are told in the same words: where frames leave and arrive, and what they look like.

use super::numbers::{Cores, parse_cores, parse_count};
use crate::packet::neighbour::parse_mac;
use crate::packet::{
    ACK, Addresses, Capture, FIN, Order, PSH, PacketError, Place, Ports, Protocol, RST, Receiver,
    Receiving, SYN, Sizes, Stream, Way, What,
};
use clap::ValueEnum;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use xdp::attach::Mode;
use xdp::interface;

/// Where frames leave and arrive.
#[derive(Clone, Debug, clap::Args)]
pub struct Ends {
    /// Interface to send from
    #[arg(short, long, value_name = "NAME")]
    pub interface: String,
    /// Network namespace that it is in, as `ip netns` names it, or its file
    #[arg(long, value_name = "NAME")]
    pub netns: Option<PathBuf>,
    /// Interface to receive at
    #[arg(short, long, value_name = "NAME")]
    pub peer_interface: Option<String>,
    /// Network namespace that it is in
    #[arg(long, value_name = "NAME", requires = "peer_interface")]
    pub peer_netns: Option<PathBuf>,
    /// Cores to send from, a thread each: 0,2 or 0-3
    #[arg(long, value_parser = parse_cores, value_name = "CORES")]
    pub cores: Option<Cores>,
    /// Frames sent together, 1 to 256
    #[arg(long, default_value_t = crate::packet::BATCH, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub batch: u32,
}

impl Ends {
    pub(super) fn place(&self) -> Place {
        place(self.netns.as_ref(), &self.interface)
    }

    pub(super) fn peer(&self) -> Option<Place> {
        let interface = self.peer_interface.as_ref()?;
        Some(place(self.peer_netns.as_ref(), interface))
    }

    pub(super) fn cores(&self) -> Vec<usize> {
        self.cores.clone().unwrap_or_default().0
    }
}

pub(super) fn place(netns: Option<&PathBuf>, interface: &str) -> Place {
    match netns {
        None => Place::here(interface),
        Some(netns) => Place::within(netns, interface),
    }
}

/// Puts a receiver on an interface, and says so when it will be slow.
pub(super) fn receiver(place: &Place, receiving: Receiving) -> Result<Receiver, PacketError> {
    let receiver = Receiver::attach(place, receiving)?;
    if receiver.mode() == Mode::Generic {
        eprintln!(
            "interface {}: no native XDP, so receiving is slow and may be what is measured",
            place.interface()
        );
    }
    Ok(receiver)
}

/// From whom to whom.
#[derive(Clone, Debug, clap::Args)]
pub struct Tuples {
    /// Addresses to send from: one, a prefix, or the first and last with - between [default: the interface's own]
    #[arg(long, value_name = "ADDRESSES")]
    pub src: Option<Addresses>,
    /// Addresses to send to, likewise
    #[arg(long, value_name = "ADDRESSES")]
    pub dst: Option<Addresses>,
    /// Ports to send from (identifiers of echo requests): one, or the first and last with - between
    #[arg(long, value_name = "PORTS")]
    pub sport: Option<Ports>,
    /// Ports to send to (sequence numbers of echo requests), likewise
    #[arg(long, value_name = "PORTS")]
    pub dport: Option<Ports>,
    /// Ethernet address to send from [default: the interface's own]
    #[arg(long, value_name = "MAC")]
    pub src_mac: Option<Mac>,
    /// Ethernet address to send to [default: that of whom the kernel would hand it to]
    #[arg(long, value_name = "MAC")]
    pub dst_mac: Option<Mac>,
}

impl Tuples {
    /// A stream of the smallest UDP frames between them.
    pub(super) fn stream(&self, from: &Place) -> Result<Stream, PacketError> {
        let destination = self
            .dst
            .ok_or_else(|| PacketError::Usage("where to? say --dst ADDRESSES".to_owned()))?;
        let source = match self.src {
            Some(source) => source,
            None => own_address(from, destination.is_v6())?.into(),
        };
        let mut stream = Stream::new(source, destination);
        stream.source_mac = match self.src_mac {
            Some(Mac(mac)) => mac,
            None => from.mac()?,
        };
        stream.destination_mac = match self.dst_mac {
            Some(Mac(mac)) => mac,
            None => from.neighbour(destination.first())?,
        };
        if let Some(ports) = self.sport {
            stream.source_ports = ports;
        }
        if let Some(ports) = self.dport {
            stream.destination_ports = ports;
        }
        Ok(stream)
    }
}

/// What frames look like.
#[derive(Clone, Debug, clap::Args)]
pub struct Frames {
    /// What is in the packets
    #[arg(long, value_enum, default_value_t = Kind::Udp)]
    pub protocol: Kind,
    /// Flags of TCP segments: syn, ack, psh, fin, rst, with commas between
    #[arg(long, value_name = "FLAGS", default_value = "ack")]
    pub tcp_flags: Flags,
    /// Bytes of a frame, without its checksum: one size, or sizes with their shares, as 60:58,590:33,1514:9
    #[arg(long, default_value = "60", value_name = "BYTES")]
    pub size: Sizes,
    /// Sizes as seen in the Internet: 58 × 60, 33 × 590, 9 × 1514 bytes
    #[arg(long, conflicts_with = "size")]
    pub imix: bool,
    /// Frames of this file (classic pcap) instead, in order, round and round
    #[arg(long, value_name = "FILE", conflicts_with_all = ["imix", "size", "random", "latency"])]
    pub pcap: Option<PathBuf>,
    /// Draw addresses and ports for each frame, by this seed, instead of taking them in order
    #[arg(long, value_name = "SEED", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u64))]
    pub random: Option<u64>,
    /// Leave the signature out by which loss and reordering are seen
    #[arg(long)]
    pub bare: bool,
    /// Say in each frame when it was sent, so that a receiver on this machine sees how long it took
    #[arg(long, conflicts_with = "bare")]
    pub latency: bool,
    /// Send by a packet socket, which every interface takes, instead of as live frames
    #[arg(long)]
    pub socket: bool,
}

impl Frames {
    /// What is sent from a place.
    pub(super) fn what(&self, tuples: &Tuples, from: &Place) -> Result<What, PacketError> {
        if let Some(path) = &self.pcap {
            let mut capture = Capture::open(path)?;
            let mac = |mac: Option<Mac>| mac.map(|Mac(mac)| mac);
            capture.readdress(mac(tuples.src_mac), mac(tuples.dst_mac));
            return Ok(What::Capture(capture.into()));
        }
        let mut stream = tuples.stream(from)?;
        self.dress(&mut stream);
        Ok(What::Stream(stream))
    }

    /// Gives a stream the looks.
    pub(super) fn dress(&self, stream: &mut Stream) {
        stream.protocol = match self.protocol {
            Kind::Udp => Protocol::Udp,
            Kind::Icmp => Protocol::Echo,
            Kind::Tcp => Protocol::Tcp {
                flags: self.tcp_flags.0,
            },
        };
        stream.sizes = if self.imix {
            Sizes::imix()
        } else {
            self.size.clone()
        };
        stream.order = self
            .random
            .map_or(Order::Sequential, |seed| Order::Random { seed });
        stream.signed = !self.bare;
        stream.stamped = self.latency;
    }

    pub(super) fn way(&self) -> Way {
        if self.socket { Way::Socket } else { Way::Auto }
    }

    /// Whether a receiver can tell the frames by their signatures.
    pub(super) fn is_signed(&self) -> bool {
        !self.bare && self.pcap.is_none()
    }
}

/// What is in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// UDP datagrams
    Udp,
    /// TCP segments that belong to no connection
    Tcp,
    /// Echo requests
    Icmp,
}

/// An Ethernet address on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_mac(text)
            .map(Self)
            .ok_or_else(|| "write it as 02:00:00:00:00:01".to_owned())
    }
}

/// Flags of TCP on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u8);

impl FromStr for Flags {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(|flag| match flag {
                "syn" => Ok(SYN),
                "ack" => Ok(ACK),
                "psh" => Ok(PSH),
                "fin" => Ok(FIN),
                "rst" => Ok(RST),
                _ => Err(format!("{flag:?} is none of syn, ack, psh, fin and rst")),
            })
            .try_fold(0, |flags, flag| Ok(flags | flag?))
            .map(Self)
    }
}

/// How long and how fast.
#[derive(Clone, Debug, clap::Args)]
pub struct Amount {
    /// Frames (of tcp: connections) a second, as 100k or 1.5M [default: as many as go]
    #[arg(short, long, value_parser = super::numbers::parse_number)]
    pub rate: Option<f64>,
    /// End after so many
    #[arg(short = 'n', long, value_parser = parse_count)]
    pub count: Option<u64>,
}

fn own_address(from: &Place, v6: bool) -> Result<IpAddr, PacketError> {
    let interface = from.interface();
    let addresses = from.run(|| {
        interface::addresses(interface).map_err(|source| PacketError::Interface {
            interface: interface.to_owned(),
            source,
        })
    })?;
    let global = |ip: &IpAddr| match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    addresses
        .into_iter()
        .map(|address| address.ip)
        .find(|ip| ip.is_ipv6() == v6 && global(ip))
        .ok_or_else(|| {
            PacketError::Usage(format!(
                "interface {interface} has no address to send from; say --src ADDRESSES"
            ))
        })
}
