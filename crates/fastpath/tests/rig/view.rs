//! Packets read again, by other code than what built them or what is tested.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{checksum, pseudo_header};

/// What a frame says, if nothing in it is cut short or at odds.
#[derive(Debug, Clone)]
pub struct View<'f> {
    /// Without what Ethernet has put behind it.
    pub ip: &'f [u8],
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ttl: u8,
    pub proto: u8,
    /// Where layer 4 begins in `ip`.
    pub l4: usize,
    /// Options of IPv4, or extension headers other than a fragment's.
    pub options: bool,
    /// Units of eight bytes before this fragment, and whether more follow.
    pub fragment: Option<(u16, bool)>,
}

pub const ETHERNET: usize = 14;

/// The ethertype of a frame.
pub fn ethertype(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[12], frame[13]])
}

impl<'f> View<'f> {
    /// `None` for what is no IP or broken.
    pub fn of(frame: &'f [u8]) -> Option<Self> {
        let view = match ethertype(frame) {
            0x0800 => Self::v4(&frame[ETHERNET..])?,
            0x86dd => Self::v6(&frame[ETHERNET..])?,
            _ => return None,
        };
        let header = match view.proto {
            _ if view.is_later() => 0,
            6 => 20,
            17 => 8,
            1 if view.src.is_ipv4() => 8,
            58 if view.src.is_ipv6() => 8,
            _ => 0,
        };
        if view.body().len() < header || (header == 20 && view.body()[12] >> 4 < 5) {
            return None;
        }
        Some(view)
    }

    fn v4(rest: &'f [u8]) -> Option<Self> {
        if rest.len() < 20 || rest[0] >> 4 != 4 {
            return None;
        }
        let header = usize::from(rest[0] & 15) * 4;
        let size = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        if header < 20 || size < header || size > rest.len() {
            return None;
        }
        let flags = u16::from_be_bytes([rest[6], rest[7]]);
        let fragment = (flags & 0x3fff != 0).then_some((flags & 0x1fff, flags & 0x2000 != 0));
        let address = |at: usize| -> IpAddr {
            let bytes: [u8; 4] = rest[at..at + 4].try_into().unwrap();
            Ipv4Addr::from(bytes).into()
        };
        Some(Self {
            ip: &rest[..size],
            src: address(12),
            dst: address(16),
            ttl: rest[8],
            proto: rest[9],
            l4: header,
            options: header > 20,
            fragment,
        })
    }

    fn v6(rest: &'f [u8]) -> Option<Self> {
        if rest.len() < 40 || rest[0] >> 4 != 6 {
            return None;
        }
        let size = 40 + usize::from(u16::from_be_bytes([rest[4], rest[5]]));
        if size > rest.len() {
            return None;
        }
        let ip = &rest[..size];
        let address = |at: usize| -> IpAddr {
            let bytes: [u8; 16] = rest[at..at + 16].try_into().unwrap();
            Ipv6Addr::from(bytes).into()
        };
        let mut view = Self {
            ip,
            src: address(8),
            dst: address(24),
            ttl: rest[7],
            proto: rest[6],
            l4: 40,
            options: false,
            fragment: None,
        };
        while matches!(view.proto, 0 | 43 | 44 | 60) && !view.is_later() {
            let header = ip.get(view.l4..view.l4 + 8)?;
            if view.proto == 44 {
                let offset = u16::from_be_bytes([header[2], header[3]]);
                if offset & 0xfff9 != 0 {
                    view.fragment = Some((offset >> 3, offset & 1 != 0));
                }
                view.l4 += 8;
            } else {
                view.options = true;
                view.l4 += (usize::from(header[1]) + 1) * 8;
            }
            view.proto = header[0];
        }
        (view.l4 <= size).then_some(view)
    }

    /// Whether it is a fragment that has no header of layer 4.
    pub fn is_later(&self) -> bool {
        self.fragment.is_some_and(|(offset, _)| offset > 0)
    }

    /// Layer 4.
    pub fn body(&self) -> &'f [u8] {
        &self.ip[self.l4..]
    }

    pub fn is_icmp(&self) -> bool {
        self.proto == if self.src.is_ipv4() { 1 } else { 58 }
    }

    /// Whether it is an ICMP error.
    pub fn is_error(&self) -> bool {
        self.is_icmp()
            && !self.is_later()
            && match self.src {
                IpAddr::V4(_) => matches!(self.body()[0], 3 | 4 | 11 | 12),
                IpAddr::V6(_) => self.body()[0] < 128,
            }
    }

    /// What the checksum of the IP header leaves when all is summed up: 0 if it is right. IPv6 has none.
    pub fn header_residue(&self) -> u16 {
        match self.src {
            IpAddr::V4(_) => checksum(&[&self.ip[..self.l4]]),
            IpAddr::V6(_) => 0,
        }
    }

    /// The same of layer 4; `None` where there is no checksum.
    pub fn residue(&self) -> Option<u16> {
        let body = self.body();
        let pseudo = pseudo_header(self.src, self.dst, self.proto, body.len());
        match self.proto {
            _ if self.is_later() => None,
            6 => Some(checksum(&[&pseudo, body])),
            17 if body[6..8] == [0, 0] => None,
            17 => Some(checksum(&[&pseudo, body])),
            1 if self.src.is_ipv4() => Some(checksum(&[body])),
            58 if self.src.is_ipv6() => Some(checksum(&[&pseudo, body])),
            _ => None,
        }
    }

    /// Layer 4 without what translation may change: ports, echoes' identifiers, checksums.
    pub fn untranslated(&self) -> Vec<u8> {
        let mut body = self.body().to_vec();
        let zero: &[(usize, usize)] = match self.proto {
            _ if self.is_later() => &[],
            6 => &[(0, 4), (16, 18)],
            17 => &[(0, 4), (6, 8)],
            _ if self.is_icmp() => &[(2, 6)],
            _ => &[],
        };
        for (start, end) in zero {
            body[*start..*end].fill(0);
        }
        body
    }
}
