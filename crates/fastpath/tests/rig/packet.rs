//! Packets, built from what they are to say: lengths and checksums are computed here, over the whole packet, so that
//! they prove what the programs adjust bit by bit. Where one comes from and goes to (Ethernet) is the rig's business.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// A packet. Every field may be set; the functions below are shorter.
#[derive(Debug, Clone)]
pub struct Packet {
    /// Ethernet addresses: to, from.
    pub macs: [[u8; 6]; 2],
    /// Tags of 802.1Q, the outermost first.
    pub vlans: Vec<u16>,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ttl: u8,
    pub tos: u8,
    /// Identification; of IPv6 only fragments have one.
    pub id: u32,
    pub df: bool,
    /// IP options of IPv4, padded to words of four bytes.
    pub options: Vec<u8>,
    /// Extension headers of IPv6: type, and what follows the two bytes every one begins with.
    pub extensions: Vec<(u8, Vec<u8>)>,
    /// Which bytes of layer 4 this fragment has; none for a whole packet.
    pub piece: Option<Range<usize>>,
    pub body: Body,
    pub payload: Vec<u8>,
}

/// Layer 4.
#[derive(Debug, Clone)]
pub enum Body {
    Tcp {
        sport: u16,
        dport: u16,
        seq: u32,
        ack: u32,
        flags: u8,
        options: Vec<u8>,
    },
    Udp {
        sport: u16,
        dport: u16,
        /// Whether it has a checksum.
        summed: bool,
    },
    /// ICMP or ICMPv6, as the addresses say.
    Icmp { kind: u8, code: u8, rest: [u8; 4] },
    /// Another protocol, whose bytes are the payload.
    Other(u8),
}

/// A TCP segment without data.
pub fn tcp(src: SocketAddr, dst: SocketAddr, flags: u8) -> Packet {
    let body = Body::Tcp {
        sport: src.port(),
        dport: dst.port(),
        seq: 0x0102_0304,
        ack: if flags & ACK == 0 { 0 } else { 0x0a0b_0c0d },
        flags,
        options: Vec::new(),
    };
    Packet::new(src.ip(), dst.ip(), body)
}

/// A UDP datagram of a few bytes.
pub fn udp(src: SocketAddr, dst: SocketAddr) -> Packet {
    let body = Body::Udp {
        sport: src.port(),
        dport: dst.port(),
        summed: true,
    };
    Packet::new(src.ip(), dst.ip(), body).payload(b"payload")
}

/// An echo request.
pub fn echo(src: IpAddr, dst: IpAddr, id: u16) -> Packet {
    let kind = if src.is_ipv4() { 8 } else { 128 };
    icmp(src, dst, kind, 0, echo_rest(id)).payload(b"are you there")
}

/// Its answer.
pub fn echo_reply(src: IpAddr, dst: IpAddr, id: u16) -> Packet {
    let kind = if src.is_ipv4() { 0 } else { 129 };
    icmp(src, dst, kind, 0, echo_rest(id)).payload(b"are you there")
}

/// ICMP or ICMPv6 with these bytes after the checksum.
pub fn icmp(src: IpAddr, dst: IpAddr, kind: u8, code: u8, rest: [u8; 4]) -> Packet {
    Packet::new(src, dst, Body::Icmp { kind, code, rest })
}

/// An ICMP error about a packet, of which it quotes the first `quoted` bytes of IP.
pub fn icmp_error(
    src: IpAddr,
    dst: IpAddr,
    kind: u8,
    code: u8,
    rest: [u8; 4],
    about: &Packet,
    quoted: usize,
) -> Packet {
    let about = about.ip_bytes();
    icmp(src, dst, kind, code, rest).payload(&about[..quoted.min(about.len())])
}

/// Bytes of another protocol.
pub fn other(src: IpAddr, dst: IpAddr, proto: u8) -> Packet {
    Packet::new(src, dst, Body::Other(proto)).payload(b"of another protocol")
}

/// A packet in a packet, of whichever families.
pub fn tunnelled(src: IpAddr, dst: IpAddr, inner: &Packet) -> Packet {
    let proto = if inner.src.is_ipv4() { 4 } else { 41 };
    Packet::new(src, dst, Body::Other(proto)).payload(&inner.ip_bytes())
}

impl Packet {
    pub fn new(src: IpAddr, dst: IpAddr, body: Body) -> Self {
        assert_eq!(src.is_ipv4(), dst.is_ipv4(), "both ends are of one family");
        Self {
            macs: [[0x02, 0, 0, 0, 0, 0xfe], [0x02, 0, 0, 0, 0, 0xff]],
            vlans: Vec::new(),
            src,
            dst,
            ttl: 64,
            tos: 0,
            id: 0x1234,
            df: src.is_ipv4(),
            options: Vec::new(),
            extensions: Vec::new(),
            piece: None,
            body,
            payload: Vec::new(),
        }
    }

    pub fn is_v4(&self) -> bool {
        self.src.is_ipv4()
    }

    pub fn macs(mut self, to: [u8; 6], from: [u8; 6]) -> Self {
        self.macs = [to, from];
        self
    }

    pub fn vlan(mut self, tag: u16) -> Self {
        self.vlans.push(tag);
        self
    }

    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    pub fn id(mut self, id: u32) -> Self {
        self.id = id;
        self
    }

    pub fn df(mut self, df: bool) -> Self {
        self.df = df;
        self
    }

    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// Makes the IP packet so many bytes long, by its payload.
    pub fn size(mut self, bytes: usize) -> Self {
        self.payload.clear();
        let bare = self.ip_bytes().len();
        self.payload = (0..bytes - bare).map(|i| i as u8).collect();
        self
    }

    /// Adds IP options (IPv4), a multiple of four bytes.
    pub fn options(mut self, options: &[u8]) -> Self {
        assert!(self.is_v4() && options.len().is_multiple_of(4));
        self.options.extend_from_slice(options);
        self
    }

    /// Adds an extension header (IPv6) of this type, of eight bytes.
    pub fn extension(mut self, kind: u8) -> Self {
        assert!(!self.is_v4());
        // A PadN option of six bytes where options are; elsewhere the bytes have no meaning to us.
        self.extensions.push((kind, vec![1, 4, 0, 0, 0, 0]));
        self
    }

    /// The source's port or the destination's, of TCP and UDP.
    pub fn sport(mut self, port: u16) -> Self {
        match &mut self.body {
            Body::Tcp { sport, .. } | Body::Udp { sport, .. } => *sport = port,
            Body::Icmp { rest, .. } => rest[..2].copy_from_slice(&port.to_be_bytes()),
            Body::Other(_) => {}
        }
        self
    }

    pub fn dport(mut self, port: u16) -> Self {
        match &mut self.body {
            Body::Tcp { dport, .. } | Body::Udp { dport, .. } => *dport = port,
            Body::Icmp { rest, .. } => rest[..2].copy_from_slice(&port.to_be_bytes()),
            Body::Other(_) => {}
        }
        self
    }

    /// The same packet from another end: what a translation of the source makes of it. The port is an echo's id.
    pub fn sent_from(self, src: SocketAddr) -> Self {
        let mut changed = self.sport(src.port());
        changed.src = src.ip();
        changed
    }

    /// The same packet to another end.
    pub fn sent_to(self, dst: SocketAddr) -> Self {
        let mut changed = self.dport(dst.port());
        changed.dst = dst.ip();
        changed
    }

    /// Without a checksum, which UDP of IPv4 may be.
    pub fn unsummed(mut self) -> Self {
        if let Body::Udp { summed, .. } = &mut self.body {
            *summed = false;
        }
        self
    }

    /// The packet cut into fragments, each with so many bytes of layer 4 (a multiple of eight) but the last.
    pub fn fragments(&self, bytes: usize) -> Vec<Self> {
        assert!(bytes.is_multiple_of(8));
        let all = self.l4_bytes().len();
        (0..all)
            .step_by(bytes)
            .map(|start| Self {
                piece: Some(start..(start + bytes).min(all)),
                df: false,
                ..self.clone()
            })
            .collect()
    }

    /// The frame.
    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.extend_from_slice(&self.macs[0]);
        frame.extend_from_slice(&self.macs[1]);
        for tag in &self.vlans {
            frame.extend_from_slice(&0x8100u16.to_be_bytes());
            frame.extend_from_slice(&tag.to_be_bytes());
        }
        let ethertype: u16 = if self.is_v4() { 0x0800 } else { 0x86dd };
        frame.extend_from_slice(&ethertype.to_be_bytes());
        frame.extend_from_slice(&self.ip_bytes());
        frame
    }

    /// The frame without the Ethernet header.
    pub fn ip_bytes(&self) -> Vec<u8> {
        let whole = self.l4_bytes();
        let piece = self.piece.clone().unwrap_or(0..whole.len());
        let more = piece.end < whole.len();
        let l4 = &whole[piece.clone()];
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = 20 + self.options.len();
                let flags = (u16::from(self.df) << 14) | (u16::from(more) << 13);
                let mut ip = vec![0x40 | (header / 4) as u8, self.tos];
                ip.extend_from_slice(&((header + l4.len()) as u16).to_be_bytes());
                ip.extend_from_slice(&(self.id as u16).to_be_bytes());
                ip.extend_from_slice(&(flags | (piece.start / 8) as u16).to_be_bytes());
                ip.extend_from_slice(&[self.ttl, self.protocol(), 0, 0]);
                ip.extend_from_slice(&src.octets());
                ip.extend_from_slice(&dst.octets());
                ip.extend_from_slice(&self.options);
                let check = checksum(&[&ip]);
                ip[10..12].copy_from_slice(&check.to_be_bytes());
                ip.extend_from_slice(l4);
                ip
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut extensions = self.extensions.clone();
                if self.piece.is_some() {
                    let offset = (piece.start as u16) | u16::from(more);
                    let mut rest = offset.to_be_bytes().to_vec();
                    rest.extend_from_slice(&self.id.to_be_bytes());
                    extensions.push((44, rest));
                }
                let mut chain = Vec::new();
                for (i, (kind, rest)) in extensions.iter().enumerate() {
                    chain.push(extensions.get(i + 1).map_or(self.protocol(), |next| next.0));
                    // A fragment header's second byte is reserved; elsewhere it is the length.
                    chain.push(if *kind == 44 {
                        0
                    } else {
                        ((rest.len() + 2) / 8 - 1) as u8
                    });
                    chain.extend_from_slice(rest);
                }
                let mut ip = vec![0x60 | self.tos >> 4, self.tos << 4, 0, 0];
                ip.extend_from_slice(&((chain.len() + l4.len()) as u16).to_be_bytes());
                ip.extend_from_slice(&[
                    extensions.first().map_or(self.protocol(), |first| first.0),
                    self.ttl,
                ]);
                ip.extend_from_slice(&src.octets());
                ip.extend_from_slice(&dst.octets());
                ip.extend_from_slice(&chain);
                ip.extend_from_slice(l4);
                ip
            }
            _ => unreachable!("both ends are of one family"),
        }
    }

    fn protocol(&self) -> u8 {
        match self.body {
            Body::Tcp { .. } => 6,
            Body::Udp { .. } => 17,
            Body::Icmp { .. } if self.is_v4() => 1,
            Body::Icmp { .. } => 58,
            Body::Other(proto) => proto,
        }
    }

    fn l4_bytes(&self) -> Vec<u8> {
        let mut l4 = Vec::new();
        let at = match &self.body {
            Body::Tcp {
                sport,
                dport,
                seq,
                ack,
                flags,
                options,
            } => {
                l4.extend_from_slice(&sport.to_be_bytes());
                l4.extend_from_slice(&dport.to_be_bytes());
                l4.extend_from_slice(&seq.to_be_bytes());
                l4.extend_from_slice(&ack.to_be_bytes());
                l4.extend_from_slice(&[
                    ((20 + options.len()) << 2) as u8,
                    *flags,
                    0x20,
                    0,
                    0,
                    0,
                    0,
                    0,
                ]);
                l4.extend_from_slice(options);
                16
            }
            Body::Udp { sport, dport, .. } => {
                l4.extend_from_slice(&sport.to_be_bytes());
                l4.extend_from_slice(&dport.to_be_bytes());
                l4.extend_from_slice(&((8 + self.payload.len()) as u16).to_be_bytes());
                l4.extend_from_slice(&[0, 0]);
                6
            }
            Body::Icmp { kind, code, rest } => {
                l4.extend_from_slice(&[*kind, *code, 0, 0]);
                l4.extend_from_slice(rest);
                2
            }
            Body::Other(_) => usize::MAX,
        };
        l4.extend_from_slice(&self.payload);
        let summed = !matches!(self.body, Body::Other(_) | Body::Udp { summed: false, .. });
        if summed {
            let mut check = if self.is_v4() && matches!(self.body, Body::Icmp { .. }) {
                checksum(&[&l4])
            } else {
                checksum(&[
                    &pseudo_header(self.src, self.dst, self.protocol(), l4.len()),
                    &l4,
                ])
            };
            // 0 would say that there is none.
            if check == 0 && matches!(self.body, Body::Udp { .. }) {
                check = 0xffff;
            }
            l4[at..at + 2].copy_from_slice(&check.to_be_bytes());
        }
        l4
    }
}

/// The Internet checksum over the parts, each of an even length but the last (RFC 1071).
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What TCP, UDP and ICMPv6 sum up beside themselves (RFC 9293, RFC 8200).
pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> Vec<u8> {
    let mut header = Vec::new();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            header.extend_from_slice(&src.octets());
            header.extend_from_slice(&dst.octets());
            header.extend_from_slice(&[0, protocol]);
            header.extend_from_slice(&(len as u16).to_be_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            header.extend_from_slice(&src.octets());
            header.extend_from_slice(&dst.octets());
            header.extend_from_slice(&(len as u32).to_be_bytes());
            header.extend_from_slice(&[0, 0, 0, protocol]);
        }
        _ => unreachable!("both ends are of one family"),
    }
    header
}

fn echo_rest(id: u16) -> [u8; 4] {
    let [a, b] = id.to_be_bytes();
    [a, b, 0, 7]
}
