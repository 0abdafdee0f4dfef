//! Ranges of addresses and of ports, as the command line spells them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// Addresses that follow one another: at least one, and all alike but for their last 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    first: IpAddr,
    count: u32,
}

impl Addresses {
    /// The first of them.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// How many they are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether they are IPv6 addresses.
    pub fn is_v6(&self) -> bool {
        self.first.is_ipv6()
    }

    /// The address `offset` after the first.
    pub fn at(&self, offset: u32) -> IpAddr {
        with_low(self.first, low(self.first).wrapping_add(offset))
    }

    /// The last 32 bits of the first.
    pub(super) fn low(&self) -> u32 {
        low(self.first)
    }

    fn between(first: IpAddr, last: IpAddr, text: &str) -> Result<Self, RangeError> {
        let alike = with_low(first, 0) == with_low(last, 0);
        match low(last)
            .checked_sub(low(first))
            .and_then(|n| n.checked_add(1))
        {
            Some(count) if alike => Ok(Self { first, count }),
            _ if !alike && first.is_ipv4() == last.is_ipv4() && first < last => {
                Err(RangeError::TooMany(text.to_owned()))
            }
            None if alike && first < last => Err(RangeError::TooMany(text.to_owned())),
            _ => Err(RangeError::Backwards(text.to_owned())),
        }
    }
}

impl From<IpAddr> for Addresses {
    fn from(first: IpAddr) -> Self {
        Self { first, count: 1 }
    }
}

impl FromStr for Addresses {
    type Err = RangeError;

    /// An address, a prefix (`10.0.0.0/24`: all its addresses) or the first and the last (`10.0.0.1-10.0.0.9`).
    fn from_str(text: &str) -> Result<Self, RangeError> {
        let address = |part: &str| {
            part.parse::<IpAddr>()
                .map_err(|_| RangeError::Address(part.to_owned()))
        };
        if let Some((first, last)) = text.split_once('-') {
            return Self::between(address(first)?, address(last)?, text);
        }
        let Some((first, length)) = text.split_once('/') else {
            return Ok(address(text)?.into());
        };
        let first = address(first)?;
        let width: u32 = if first.is_ipv4() { 32 } else { 128 };
        let host = length
            .parse::<u32>()
            .ok()
            .and_then(|length| width.checked_sub(length))
            .ok_or_else(|| RangeError::Prefix(text.to_owned()))?;
        if host >= 32 {
            return Err(RangeError::TooMany(text.to_owned()));
        }
        let hosts = (1u32 << host) - 1;
        let first = with_low(first, low(first) & !hosts);
        Self::between(first, with_low(first, low(first) | hosts), text)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "{}", self.first),
            count => write!(f, "{}-{}", self.first, self.at(count - 1)),
        }
    }
}

/// Ports that follow one another: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// The first of them.
    pub fn first(&self) -> u16 {
        self.first
    }

    /// How many they are, up to 65,536.
    pub fn count(&self) -> u32 {
        u32::from(self.last - self.first) + 1
    }
}

impl From<u16> for Ports {
    fn from(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }
}

impl FromStr for Ports {
    type Err = RangeError;

    /// A port, or the first and the last (`1024-65535`).
    fn from_str(text: &str) -> Result<Self, RangeError> {
        let port = |part: &str| {
            part.parse::<u16>()
                .map_err(|_| RangeError::Port(part.to_owned()))
        };
        let Some((first, last)) = text.split_once('-') else {
            return Ok(port(text)?.into());
        };
        let (first, last) = (port(first)?, port(last)?);
        if last < first {
            return Err(RangeError::Backwards(text.to_owned()));
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// What is wrong with a range.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RangeError {
    /// Not an address.
    #[error(
        "{0:?} is not an IP address; write 10.0.0.1, 2001:db8::1, a prefix, or the first and last with - between"
    )]
    Address(String),
    /// Not a prefix length.
    #[error("{0:?} is not a prefix; its length is at most 32 for IPv4 and 128 for IPv6")]
    Prefix(String),
    /// Not a port.
    #[error("{0:?} is not a port; write 80, or the first and last with - between")]
    Port(String),
    /// The last comes before the first, or is of the other family.
    #[error("{0:?} does not go from a first to a later last of the same kind")]
    Backwards(String),
    /// More than a generator counts.
    #[error("{0:?} is more than 4,294,967,295 addresses; name a part of it")]
    TooMany(String),
}

fn low(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => address.to_bits() as u32,
    }
}

fn with_low(address: IpAddr, low: u32) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::from_bits(low).into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !0xffff_ffff | u128::from(low)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_in_every_spelling() {
        for (text, first, count) in [
            ("10.0.0.7", "10.0.0.7", 1),
            ("10.0.0.7/30", "10.0.0.4", 4),
            ("10.0.0.7/32", "10.0.0.7", 1),
            ("10.0.0.250-10.0.1.5", "10.0.0.250", 12),
            ("2001:db8::7", "2001:db8::7", 1),
            ("2001:db8::7/120", "2001:db8::", 256),
            ("2001:db8::1-2001:db8::1:0", "2001:db8::1", 65_536),
        ] {
            let addresses: Addresses = text.parse().expect(text);
            assert_eq!(addresses.first().to_string(), first, "{text}");
            assert_eq!(addresses.count(), count, "{text}");
        }
        assert_eq!("1024-65535".parse::<Ports>().map(|p| p.count()), Ok(64_512));
        assert_eq!("0-65535".parse::<Ports>().map(|p| p.count()), Ok(65_536));
        assert_eq!("53".parse::<Ports>().map(|p| p.count()), Ok(1));
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        let address = |text: &str| text.parse::<Addresses>().expect_err(text);
        assert!(matches!(address("10.0.0"), RangeError::Address(_)));
        assert!(matches!(address("10.0.0.0/33"), RangeError::Prefix(_)));
        assert!(matches!(address("10.0.0.0/x"), RangeError::Prefix(_)));
        assert!(matches!(address("0.0.0.0/0"), RangeError::TooMany(_)));
        assert!(matches!(address("2001:db8::/64"), RangeError::TooMany(_)));
        assert!(matches!(
            address("2001:db8::1-2001:db8:1::1"),
            RangeError::TooMany(_)
        ));
        assert!(matches!(
            address("10.0.0.9-10.0.0.1"),
            RangeError::Backwards(_)
        ));
        assert!(matches!(
            address("10.0.0.9-2001:db8::1"),
            RangeError::Backwards(_)
        ));
        assert!(matches!(
            "9-1".parse::<Ports>(),
            Err(RangeError::Backwards(_))
        ));
        assert!(matches!("65536".parse::<Ports>(), Err(RangeError::Port(_))));
    }

    #[test]
    fn addresses_are_counted_from_the_first() {
        let addresses: Addresses = "2001:db8::fffe-2001:db8::2:0".parse().expect("a range");
        assert_eq!(addresses.at(0).to_string(), "2001:db8::fffe");
        assert_eq!(addresses.at(2).to_string(), "2001:db8::1:0");
        assert_eq!(addresses.to_string(), "2001:db8::fffe-2001:db8::2:0");
    }
}
