//! Where packets come in and go out, as it is written: addresses with ranges of ports, sets of ports, interfaces' names.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// An address with a port, or with a range of ports: `192.0.2.1:80`, `[2001:db8::1]:8000-8099`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listen {
    first: SocketAddr,
    last: u16,
}

impl Listen {
    /// The address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.first.ip()
    }

    /// The ports. One port alone is a range of one.
    #[must_use]
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.first.port()..=self.last
    }

    /// The address with its first port, which is the only one save for virtuals of protocol fast.
    #[must_use]
    pub fn socket(&self) -> SocketAddr {
        self.first
    }

    /// Whether there are several ports.
    #[must_use]
    pub fn is_range(&self) -> bool {
        self.first.port() < self.last
    }

    /// The same address with `ports` alone.
    pub(crate) fn among(self, ports: RangeInclusive<u16>) -> Self {
        let mut first = self.first;
        first.set_port(*ports.start());
        Self {
            first,
            last: *ports.end(),
        }
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(address.into());
        }
        let (first, last) = text.rsplit_once('-')?;
        let (first, last) = (first.parse::<SocketAddr>().ok()?, port(last)?);
        (first.port() > 0 && first.port() <= last).then_some(Self { first, last })
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self {
            first: address,
            last: address.port(),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.is_range() {
            write!(f, "-{}", self.last)?;
        }
        Ok(())
    }
}

/// Ports: at least one, never 0, in at most [`PortSet::MOST_RANGES`] ranges. Written `1024-32767,61000-65535`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortSet(Vec<RangeInclusive<u16>>);

impl PortSet {
    /// Ranges at most.
    pub const MOST_RANGES: usize = 8;

    /// The ranges, in order, none touching the next.
    #[must_use]
    pub fn ranges(&self) -> &[RangeInclusive<u16>] {
        &self.0
    }

    /// How many ports there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0
            .iter()
            .map(|range| u32::from(*range.end()) - u32::from(*range.start()) + 1)
            .sum()
    }

    /// Whether `port` is one of them.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(&port))
    }

    /// The ports that no program asks for by number, without those that Linux gives to its own sockets
    /// (`net.ipv4.ip_local_port_range`, 32768 to 60999).
    #[must_use]
    pub fn outside_the_kernels() -> Self {
        Self(vec![1024..=32767, 61000..=65535])
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high) = (port(low.trim())?, port(high.trim())?);
            if low == 0 || low > high {
                return None;
            }
            ranges.push(low..=high);
        }
        ranges.sort_by_key(|range| *range.start());
        ranges.dedup_by(|next, range| {
            let touches = u32::from(*next.start()) <= u32::from(*range.end()) + 1;
            if touches {
                *range = *range.start()..=(*range.end()).max(*next.end());
            }
            touches
        });
        (ranges.len() <= Self::MOST_RANGES).then_some(Self(ranges))
    }
}

impl fmt::Display for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}", range.start())?;
            if range.start() < range.end() {
                write!(f, "-{}", range.end())?;
            }
        }
        Ok(())
    }
}

/// The name of a network interface: 1 to 15 bytes of visible ASCII without `/` and `:` (`dev_valid_name` in the kernel).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceName(Arc<str>);

impl InterfaceName {
    /// The name, where `text` can be one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=15).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'/' && b != b':')
            && text != "."
            && text != "..";
        fits.then(|| Self(text.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn listens_are_one_port_or_a_range() {
        let one = Listen::from_text("192.0.2.1:80").unwrap();
        assert_eq!((one.ports(), one.is_range()), (80..=80, false));
        let range = Listen::from_text("[2001:db8::1]:8000-8099").unwrap();
        assert_eq!(range.address().to_string(), "2001:db8::1");
        assert_eq!((range.ports(), range.is_range()), (8000..=8099, true));
        for bad in [
            "192.0.2.1",
            "192.0.2.1:",
            "192.0.2.1:9-8",
            "192.0.2.1:0-8",
            "192.0.2.1:1-65536",
            "192.0.2.1:1-+2",
            "2001:db8::1:1-2",
        ] {
            assert_eq!(Listen::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn ports_that_touch_are_one_range() {
        let ports = PortSet::from_text("5, 1024-2000,2001-3000,1500-1600,3002").unwrap();
        assert_eq!(ports.ranges(), [5..=5, 1024..=3000, 3002..=3002]);
        assert_eq!(ports.to_string(), "5,1024-3000,3002");
        assert_eq!(ports.count(), 1979);
        assert_eq!(PortSet::from_text("1-65535").unwrap().count(), 65_535);
        for bad in ["", "0", "1,", "2-1", "1-65536", "1,3,5,7,9,11,13,15,17"] {
            assert_eq!(PortSet::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn interfaces_have_names_that_the_kernel_takes() {
        for good in ["eth0", "eth0.100", "a23456789012345"] {
            assert!(InterfaceName::new(good).is_some(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a:b", "a b", "a234567890123456"] {
            assert!(InterfaceName::new(bad).is_none(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_set_has_the_ports_of_its_ranges(
            ranges in prop::collection::vec((1..400u16, 0..50u16), 1..=8),
            port in 1..500u16,
        ) {
            let text: Vec<String> = ranges.iter().map(|(low, more)| format!("{low}-{}", low + more)).collect();
            let set = PortSet::from_text(&text.join(",")).unwrap();
            let within = ranges.iter().any(|&(low, more)| (low..=low + more).contains(&port));
            prop_assert_eq!(set.contains(port), within);
            prop_assert_eq!(PortSet::from_text(&set.to_string()), Some(set));
        }

        #[test]
        fn a_listen_is_read_as_it_is_shown(v6: bool, address: u128, low in 1..u16::MAX, more: u16) {
            let address: IpAddr = if v6 {
                std::net::Ipv6Addr::from_bits(address).into()
            } else {
                std::net::Ipv4Addr::from_bits(address as u32).into()
            };
            let listen = Listen {
                first: SocketAddr::new(address, low),
                last: low.saturating_add(more),
            };
            prop_assert_eq!(Listen::from_text(&listen.to_string()), Some(listen));
        }
    }
}
