//! The hash of a tuple as the programs have it (`bpf/hash.h`), and where it leads in the indexes. What is found there is
//! left to others.

use std::net::{IpAddr, SocketAddr};

use crate::abi::{Be16, narrowed};

/// An end as the hash takes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct End {
    words: [u32; 4],
    port: Be16,
}

impl End {
    pub(crate) fn of(addr: &[u8], port: Be16) -> Self {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(addr.chunks_exact(4)) {
            *word = bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        Self { words, port }
    }

    pub(crate) fn address(&self, family: u8) -> IpAddr {
        let mut addr = [0; 16];
        for (bytes, word) in addr.chunks_exact_mut(4).zip(self.words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        narrowed(addr, family)
    }

    pub(crate) fn socket(&self, family: u8) -> SocketAddr {
        SocketAddr::new(self.address(family), self.port.get())
    }

    /// `mix4` and `mix6` of bpf/hash.h.
    fn mix(&self, family: u8, seed: [u64; 2]) -> u64 {
        let port = u64::from(u16::from_le_bytes(self.port.0));
        let [a, b, c, d] = self.words.map(u64::from);
        if family == 4 {
            let mut x = (a << 16 | port).wrapping_add(seed[0]).wrapping_mul(K1);
            x ^= x >> 32;
            return x.wrapping_mul(K2);
        }
        let mut x = (a << 32 | b).wrapping_add(seed[0]).wrapping_mul(K1);
        let mut y = (c << 32 | d).wrapping_add(seed[1]).wrapping_mul(K4);
        x ^= x >> 32;
        y ^= y >> 29;
        x = x.wrapping_add(y).wrapping_add(port).wrapping_mul(K2);
        x ^= x >> 31;
        x.wrapping_mul(K1)
    }
}

pub(crate) fn hash(ends: &[End; 2], proto: u8, family: u8, seed: [u64; 2]) -> u64 {
    let [a, b] = ends.map(|end| end.mix(family, seed));
    let mut h = a
        .wrapping_add(b)
        .wrapping_add(u64::from(proto).wrapping_mul(K4));
    h ^= h >> 32;
    h = h.wrapping_mul(K3);
    h ^ h >> 29
}

pub(crate) fn tag(hash: u64) -> u32 {
    hash as u32 | 0x8000_0000
}

/// The two buckets of a hash.
pub(crate) fn places(hash: u64, buckets: usize) -> [usize; 2] {
    [hash, hash.wrapping_mul(K5)].map(|hash| (((hash >> 32) * buckets as u64) >> 32) as usize)
}

/// The tag under which half-open flows are entered, and their bucket of so many.
pub(crate) fn half_tag(hash: u64) -> u32 {
    tag(hash) & !1
}

pub(crate) fn half_bucket(hash: u64, buckets: usize) -> usize {
    (hash >> 32) as usize & (buckets - 1)
}

const K1: u64 = 0x9e37_79b9_7f4a_7c15;
const K2: u64 = 0xbf58_476d_1ce4_e5b9;
const K3: u64 = 0x94d0_49bb_1331_11eb;
const K4: u64 = 0xd6e8_feb8_6659_fd93;
const K5: u64 = 0xff51_afd7_ed55_8ccd;

#[cfg(test)]
mod tests {
    use super::*;

    fn end(ip: &str, port: u16) -> End {
        match ip.parse().unwrap() {
            IpAddr::V4(ip) => End::of(&ip.octets(), port.into()),
            IpAddr::V6(ip) => End::of(&ip.octets(), port.into()),
        }
    }

    #[test]
    fn a_tuple_and_its_reverse_have_the_same_hash() {
        for (family, a, b) in [
            (4, end("192.0.2.1", 80), end("198.51.100.7", 40000)),
            (6, end("2001:db8::1", 80), end("2001:db8:7::9", 40000)),
        ] {
            let seed = [1, 2];
            assert_eq!(
                hash(&[a, b], 6, family, seed),
                hash(&[b, a], 6, family, seed)
            );
            assert_ne!(
                hash(&[a, b], 6, family, seed),
                hash(&[a, b], 17, family, seed)
            );
            assert_ne!(
                hash(&[a, b], 6, family, seed),
                hash(&[a, b], 6, family, [3, 4])
            );
        }
    }

    #[test]
    fn ends_keep_their_addresses() {
        for (family, text) in [(4, "192.0.2.1:80"), (6, "[2001:db8::1]:443")] {
            let socket: SocketAddr = text.parse().unwrap();
            let end = end(&socket.ip().to_string(), socket.port());
            assert_eq!(end.socket(family), socket);
        }
    }

    #[test]
    fn buckets_are_within_the_index() {
        for hash in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            assert!(places(hash, 7).iter().all(|bucket| *bucket < 7));
            assert!(half_bucket(hash, 8) < 8);
        }
    }
}
