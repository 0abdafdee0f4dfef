//! Consistent hashing: points of every member on a ring of 64-bit numbers; a key belongs to the next point after it.
//!
//! A ring, not rendezvous hashing, because a look-up must not cost a hash a member; not a Maglev table, because that
//! moves some keys between members that stay. Here a key moves only away from a member that goes or to one that comes.

use crate::hash::mix;

/// One member of a ring: a stable key and how many points it has.
pub(crate) struct Share {
    pub(crate) key: u64,
    pub(crate) points: u32,
}

/// Points in order, with a directory that finds the neighbourhood of a hash in one access.
#[derive(Debug)]
pub(crate) struct Ring {
    points: Vec<(u64, u32)>,
    /// For each value of the top bits of a hash, the first point that is not below it.
    directory: Vec<u32>,
    shift: u32,
}

impl Ring {
    /// A ring over `shares`; points refer to them by index. `None` if no share has a point.
    pub(crate) fn new(shares: &[Share]) -> Option<Self> {
        let mut points = Vec::with_capacity(shares.iter().map(|share| share.points as usize).sum());
        for (index, share) in shares.iter().enumerate() {
            points.extend(
                (0..u64::from(share.points)).map(|k| (mix(share.key ^ mix(k + 1)), index as u32)),
            );
        }
        points.sort_unstable();
        let bits = points
            .len()
            .checked_next_power_of_two()?
            .trailing_zeros()
            .max(1);
        if points.is_empty() {
            return None;
        }
        let shift = 64 - bits;
        let mut directory = Vec::with_capacity(1 << bits);
        let mut next = 0;
        for top in 0..1u64 << bits {
            while next < points.len() && points[next].0 < top << shift {
                next += 1;
            }
            directory.push(next as u32);
        }
        Some(Self {
            points,
            directory,
            shift,
        })
    }

    /// The members from `hash` on around the ring, once a point.
    pub(crate) fn walk(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let hash = mix(hash);
        let mut start = self.directory[(hash >> self.shift) as usize] as usize;
        while start < self.points.len() && self.points[start].0 < hash {
            start += 1;
        }
        let (before, after) = self.points.split_at(start);
        after.iter().chain(before).map(|&(_, index)| index)
    }
}

/// Points of a member of average weight: the shares of equal members differ by about a tenth.
pub(crate) const POINTS: u32 = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring(members: &[(u64, u32)]) -> Ring {
        let shares: Vec<Share> = members
            .iter()
            .map(|&(key, points)| Share {
                key: mix(key),
                points,
            })
            .collect();
        Ring::new(&shares).unwrap()
    }

    fn owner(ring: &Ring, key: u64) -> u32 {
        ring.walk(key).next().unwrap()
    }

    #[test]
    fn a_key_moves_only_if_its_member_is_lost() {
        let all: Vec<(u64, u32)> = (0..10).map(|key| (key, POINTS)).collect();
        let whole = ring(&all);
        let without_last = ring(&all[..9]);
        let mut moved = 0;
        for key in 0..20_000 {
            let before = owner(&whole, key);
            if before == 9 {
                moved += 1;
            } else {
                assert_eq!(before, owner(&without_last, key));
            }
        }
        assert!((1400..2600).contains(&moved), "{moved} of 20000 keys moved");
    }

    #[test]
    fn shares_follow_the_points() {
        let ring = ring(&[(1, POINTS), (2, POINTS), (3, 2 * POINTS)]);
        let mut counts = [0; 3];
        for key in 0..40_000 {
            counts[owner(&ring, key) as usize] += 1;
        }
        assert!((8_000..12_000).contains(&counts[0]), "{counts:?}");
        assert!((8_000..12_000).contains(&counts[1]), "{counts:?}");
        assert!((17_000..23_000).contains(&counts[2]), "{counts:?}");
    }

    proptest! {
        #[test]
        fn the_directory_finds_the_next_point(keys in prop::collection::vec(any::<u64>(), 1..20), hash: u64) {
            let ring = ring(&keys.iter().map(|&key| (key, 3)).collect::<Vec<_>>());
            let target = mix(hash);
            let expected = ring.points.iter().find(|point| point.0 >= target).unwrap_or(&ring.points[0]);
            prop_assert_eq!(owner(&ring, hash), expected.1);
            prop_assert_eq!(ring.walk(hash).count(), ring.points.len());
        }
    }

    #[test]
    fn no_points_no_ring() {
        assert!(Ring::new(&[]).is_none());
        assert!(Ring::new(&[Share { key: 1, points: 0 }]).is_none());
    }
}
