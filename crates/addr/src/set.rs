//! A set of prefixes, aggregated into disjoint ranges so that a lookup is one binary search. Which prefix matched is
//! not kept: longest-prefix lookup with values is another structure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Prefix;

/// Addresses given by prefixes. Cheap to ask: one binary search over sorted, disjoint ranges, no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixSet {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl PrefixSet {
    /// Whether `address` lies in one of the prefixes. IPv4-mapped IPv6 addresses are asked for as IPv4 too.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(a) => holds(&self.v4, a.to_bits()),
            IpAddr::V6(a) => {
                holds(&self.v6, a.to_bits())
                    || a.to_ipv4_mapped()
                        .is_some_and(|a| holds(&self.v4, a.to_bits()))
            }
        }
    }

    /// Whether no address is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// The fewest prefixes that cover exactly the set, IPv4 first, ascending.
    #[must_use]
    pub fn prefixes(&self) -> Vec<Prefix> {
        let mut out = Vec::new();
        for &(first, last) in &self.v4 {
            cover(first.into(), last.into(), 32, &mut out);
        }
        for &(first, last) in &self.v6 {
            cover(first, last, 128, &mut out);
        }
        out
    }
}

impl FromIterator<Prefix> for PrefixSet {
    fn from_iter<I: IntoIterator<Item = Prefix>>(prefixes: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for prefix in prefixes {
            match (prefix.network(), prefix.last()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => v4.push((first.to_bits(), last.to_bits())),
                (IpAddr::V6(first), IpAddr::V6(last)) => v6.push((first.to_bits(), last.to_bits())),
                _ => unreachable!("both ends of a prefix are of one family"),
            }
        }
        Self {
            v4: merge(v4, |a| a.checked_add(1)),
            v6: merge(v6, |a| a.checked_add(1)),
        }
    }
}

impl<'a> FromIterator<&'a Prefix> for PrefixSet {
    fn from_iter<I: IntoIterator<Item = &'a Prefix>>(prefixes: I) -> Self {
        prefixes.into_iter().copied().collect()
    }
}

fn holds<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= address);
    after > 0 && address <= ranges[after - 1].1
}

/// Sorts `ranges` and joins those that overlap or touch.
fn merge<T: Ord + Copy>(mut ranges: Vec<(T, T)>, next: impl Fn(T) -> Option<T>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut out: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match out.last_mut() {
            // `next` is none at the family's last address, beyond which nothing can start
            Some(previous) if next(previous.1).is_none_or(|after| first <= after) => {
                previous.1 = previous.1.max(last);
            }
            _ => out.push((first, last)),
        }
    }
    out.shrink_to_fit();
    out
}

/// Splits one range of a family `width` bits wide into the fewest prefixes.
fn cover(mut first: u128, last: u128, width: u8, out: &mut Vec<Prefix>) {
    loop {
        let aligned = first.trailing_zeros().min(width.into());
        let mut bits = aligned;
        // the largest aligned block that starts here and does not reach over the end
        while bits > 0 && block_end(first, bits) > last {
            bits -= 1;
        }
        let network = match width {
            32 => IpAddr::V4(Ipv4Addr::from_bits(first as u32)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(first)),
        };
        out.push(Prefix::containing(network, width - bits as u8));
        let end = block_end(first, bits);
        if end >= last {
            return;
        }
        first = end + 1;
    }
}

fn block_end(first: u128, bits: u32) -> u128 {
    first | 1u128.checked_shl(bits).map_or(u128::MAX, |bit| bit - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(prefixes: &[&str]) -> PrefixSet {
        prefixes
            .iter()
            .map(|p| p.parse::<Prefix>().expect("valid"))
            .collect()
    }

    #[test]
    fn neighbours_become_one_prefix() {
        let joined = set(&["10.0.1.0/24", "10.0.0.0/24", "10.0.0.7", "::/1", "8000::/1"]);
        let shown: Vec<String> = joined.prefixes().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.0/23", "::/0"]);
    }

    #[test]
    fn the_whole_of_a_family_is_held_to_its_last_address() {
        let all = set(&["0.0.0.0/0", "255.255.255.255"]);
        assert!(all.contains(IpAddr::from([255, 255, 255, 255])));
        assert!(!all.contains("::1".parse().expect("valid")));
        assert_eq!(all.prefixes().len(), 1);
    }

    #[test]
    fn an_empty_set_holds_nothing() {
        assert!(set(&[]).is_empty());
        assert!(!set(&[]).contains(IpAddr::from([127, 0, 0, 1])));
    }

    /// Addresses close together, so that prefixes overlap, touch and nest.
    fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            (0u32..512).prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + bits))),
            (0u128..512)
                .prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) + bits))),
            any::<u32>().prop_map(|bits| IpAddr::V6(
                Ipv4Addr::from_bits(bits & 0x0a00_01ff).to_ipv6_mapped()
            )),
        ]
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        (address(), 0u8..12).prop_map(|(address, host)| {
            let width = if address.is_ipv4() { 32 } else { 128 };
            Prefix::containing(address, width - host)
        })
    }

    proptest! {
        #[test]
        fn the_set_agrees_with_asking_every_prefix(
            prefixes in prop::collection::vec(prefix(), 0..40),
            addresses in prop::collection::vec(address(), 1..60),
        ) {
            let set: PrefixSet = prefixes.iter().collect();
            let again: PrefixSet = set.prefixes().into_iter().collect();
            prop_assert_eq!(&again, &set);
            for address in addresses {
                let naive = prefixes.iter().any(|p| p.contains(address));
                prop_assert_eq!(set.contains(address), naive, "{}", address);
            }
        }
    }
}
