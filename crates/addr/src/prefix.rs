//! One prefix of IPv4 or IPv6 addresses: its text form and what it covers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A block of addresses: a network address and the number of its leading bits that count.
///
/// The bits after the length are always zero. An IPv4 prefix covers IPv4 addresses and the IPv4-mapped form of them
/// (`::ffff:a.b.c.d`, RFC 4291 section 2.5.5.2), which is how a dual-stack socket reports an IPv4 peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    network: IpAddr,
    length: u8,
}

impl Prefix {
    /// The prefix of `length` bits at `network`.
    ///
    /// # Errors
    /// When `length` exceeds the family's width, or `network` has bits set after `length`.
    pub fn new(network: IpAddr, length: u8) -> Result<Self, PrefixError> {
        let width = width(network);
        if length > width {
            return Err(PrefixError::TooLong {
                length: length.into(),
                width,
            });
        }
        let masked = mask(network, length);
        if masked != network {
            return Err(PrefixError::HostBits {
                meant: Self {
                    network: masked,
                    length,
                },
            });
        }
        Ok(Self { network, length })
    }

    /// The prefix of `length` bits that holds `address`, or of the whole address where `length` exceeds its width.
    #[must_use]
    pub fn containing(address: IpAddr, length: u8) -> Self {
        let length = length.min(width(address));
        Self {
            network: mask(address, length),
            length,
        }
    }

    /// The first address of the block.
    #[must_use]
    pub fn network(&self) -> IpAddr {
        self.network
    }

    /// The last address of the block.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        match self.network {
            IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(
                a.to_bits() | low_bits(32 - self.length) as u32,
            )),
            IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(
                a.to_bits() | low_bits(128 - self.length),
            )),
        }
    }

    /// How many leading bits count: 0..=32 for IPv4, 0..=128 for IPv6.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a length in bits; no prefix is empty"
    )]
    pub fn len(&self) -> u8 {
        self.length
    }

    /// Whether `address` lies in the block.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = match self.network {
            IpAddr::V4(_) => address.to_canonical(),
            IpAddr::V6(_) => address,
        };
        address.is_ipv4() == self.network.is_ipv4() && mask(address, self.length) == self.network
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// `10.0.0.0/8`, `2001:db8::/32`, or a bare address, which stands for itself alone.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().map_err(|_| PrefixError::Address {
            text: address.to_owned(),
        })?;
        let Some(length) = length else {
            return Ok(Self {
                network,
                length: width(network),
            });
        };
        let digits =
            !length.is_empty() && length.len() <= 4 && length.bytes().all(|b| b.is_ascii_digit());
        let length: u16 = match length.parse() {
            Ok(length) if digits => length,
            _ => {
                return Err(PrefixError::Length {
                    text: length.to_owned(),
                });
            }
        };
        match u8::try_from(length) {
            Ok(length) => Self::new(network, length),
            Err(_) => Err(PrefixError::TooLong {
                length,
                width: width(network),
            }),
        }
    }
}

impl From<IpAddr> for Prefix {
    fn from(network: IpAddr) -> Self {
        Self {
            network,
            length: width(network),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text or a pair is not a prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// What stands before the slash is no IPv4 or IPv6 address.
    #[error("`{text}` is not an IPv4 or IPv6 address")]
    Address {
        /// The offending part.
        text: String,
    },
    /// What stands after the slash is no number.
    #[error("`{text}` is not a prefix length")]
    Length {
        /// The offending part.
        text: String,
    },
    /// The length exceeds the width of the family.
    #[error("the prefix length {length} is too large: at most {width}")]
    TooLong {
        /// The length asked for.
        length: u16,
        /// 32 or 128.
        width: u8,
    },
    /// Bits are set after the length, so that the text says two things.
    #[error("bits are set after the prefix length; the block that holds this address is {meant}")]
    HostBits {
        /// The same with those bits cleared.
        meant: Prefix,
    },
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(
            a.to_bits() & !(low_bits(32 - length) as u32),
        )),
        IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & !low_bits(128 - length))),
    }
}

/// A number with its `count` lowest bits set.
fn low_bits(count: u8) -> u128 {
    1u128
        .checked_shl(count.into())
        .map_or(u128::MAX, |bit| bit - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        text.parse::<Prefix>().expect_err("no prefix").to_string()
    }

    #[test]
    fn a_bare_address_is_a_prefix_of_itself() {
        let prefix: Prefix = "::1".parse().expect("valid");
        assert_eq!(prefix.to_string(), "::1/128");
        assert!(prefix.contains(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])));
        assert!(!prefix.contains(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 2])));
    }

    #[test]
    fn host_bits_are_refused_and_the_right_prefix_named() {
        assert_eq!(
            error("10.1.2.3/8"),
            "bits are set after the prefix length; the block that holds this address is 10.0.0.0/8"
        );
        assert_eq!(
            error("2001:db8::1/32"),
            "bits are set after the prefix length; the block that holds this address is 2001:db8::/32"
        );
    }

    #[test]
    fn errors_name_the_wrong_part() {
        assert_eq!(error("10.0.0/8"), "`10.0.0` is not an IPv4 or IPv6 address");
        assert_eq!(error("10.0.0.0/"), "`` is not a prefix length");
        assert_eq!(error("10.0.0.0/+8"), "`+8` is not a prefix length");
        assert_eq!(
            error("10.0.0.0/33"),
            "the prefix length 33 is too large: at most 32"
        );
        assert_eq!(
            error("::/300"),
            "the prefix length 300 is too large: at most 128"
        );
    }

    #[test]
    fn a_mapped_address_is_covered_by_the_ipv4_prefix() {
        let prefix: Prefix = "10.0.0.0/8".parse().expect("valid");
        assert!(prefix.contains("::ffff:10.2.3.4".parse().expect("valid")));
        assert!(!prefix.contains("::ffff:11.2.3.4".parse().expect("valid")));
    }

    proptest! {
        #[test]
        fn text_comes_back_as_it_was(bits: u128, length in 0u8..=128, v4: bool) {
            let address = if v4 { IpAddr::V4(Ipv4Addr::from_bits(bits as u32)) } else { IpAddr::V6(Ipv6Addr::from_bits(bits)) };
            let prefix = Prefix::containing(address, length);
            prop_assert_eq!(prefix.to_string().parse::<Prefix>(), Ok(prefix));
            prop_assert!(prefix.contains(address) && prefix.contains(prefix.network()) && prefix.contains(prefix.last()));
        }
    }
}
