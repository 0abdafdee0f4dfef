//! A hash that is the same in every process and on every machine, so that several instances agree on a key's member.
//! It is not meant against people who choose keys to collide.

use std::net::IpAddr;

/// Hashes bytes: sixteen at a time through a 64×64→128-bit multiplication, in the manner of wyhash.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut state = SEED ^ bytes.len() as u64;
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        state = fold(word(&block[..8]) ^ K1, word(&block[8..]) ^ state);
    }
    let rest = blocks.remainder();
    let (low, high) = rest.split_at(rest.len().min(8));
    state = fold(word(low) ^ K1, word(high) ^ state);
    fold(state ^ K2, SEED)
}

/// Hashes an address; an IPv4 address mapped into IPv6 hashes as the IPv4 address it is.
pub fn hash_addr(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(v4) => hash_bytes(&v4.octets()),
        IpAddr::V6(v6) => hash_bytes(&v6.octets()),
    }
}

/// Spreads a hash of unknown quality over all 64 bits (the finalizer of splitmix64; a bijection).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

// Odd 64-bit constants with no pattern: the fractional parts of the square roots of 2, 3 and 5.
const SEED: u64 = 0x6a09_e667_f3bc_c909;
const K1: u64 = 0xbb67_ae85_84ca_a73b;
const K2: u64 = 0x3c6e_f372_fe94_f82b;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_never_change_between_releases() {
        // Other instances, perhaps of another version, must send a key to the same member.
        assert_eq!(hash_bytes(b""), PINNED[0]);
        assert_eq!(hash_bytes(b"a"), PINNED[1]);
        assert_eq!(hash_bytes(b"/index.html?session=0123456789"), PINNED[2]);
        assert_eq!(hash_addr([192, 0, 2, 1].into()), PINNED[3]);
    }

    const PINNED: [u64; 4] = [
        0x8637_9489_1043_0871,
        0x97c3_d726_652f_3a66,
        0x02ed_b71c_f453_c879,
        0xd135_da1e_dbbd_2d39,
    ];

    #[test]
    fn mapped_addresses_hash_as_v4() {
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(hash_addr(mapped), hash_addr([192, 0, 2, 1].into()));
    }

    #[test]
    fn consecutive_addresses_and_zero_padding_spread() {
        let mut buckets = [0u32; 16];
        for i in 0..16_000u32 {
            buckets
                [(hash_addr(std::net::Ipv4Addr::from(0x0a00_0000 + i).into()) >> 60) as usize] += 1;
        }
        assert!(
            buckets.iter().all(|&n| (850..1150).contains(&n)),
            "{buckets:?}"
        );
        assert_ne!(hash_bytes(b"a"), hash_bytes(b"a\0"));
        assert_ne!(hash_bytes(&[0; 16]), hash_bytes(&[0; 32]));
    }
}
