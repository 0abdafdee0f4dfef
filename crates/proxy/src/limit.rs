//! How many connections each client address has, where a virtual limits that.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Parts that are locked apart, so that workers seldom meet.
const SHARDS: usize = 64;

type Shard = Mutex<HashMap<IpAddr, u32>>;

/// Connections by client address. Takes no memory until it is first used, nor for an address that
/// has none.
#[derive(Default)]
pub(crate) struct PerAddress(OnceLock<Box<[Shard]>>);

impl PerAddress {
    /// Counts one more, unless the address has `limit` already. What was counted must be given to
    /// [`leave`](PerAddress::leave) once.
    pub(crate) fn enter(&self, address: IpAddr, limit: u32) -> bool {
        let address = address.to_canonical();
        let mut shard = self
            .shard(address)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = shard.entry(address).or_default();
        if *count >= limit {
            return false;
        }
        *count += 1;
        true
    }

    /// Counts one less.
    pub(crate) fn leave(&self, address: IpAddr) {
        let address = address.to_canonical();
        let mut shard = self
            .shard(address)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = shard.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                shard.remove(&address);
            }
        }
    }

    fn shard(&self, address: IpAddr) -> &Shard {
        let shards = self
            .0
            .get_or_init(|| (0..SHARDS).map(|_| Shard::default()).collect());
        &shards[balance::hash_addr(address) as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(counts: &PerAddress) -> usize {
        let shards = counts.0.get().map_or(&[][..], |shards| &shards[..]);
        shards.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }

    #[test]
    fn an_address_at_its_limit_gets_no_more_until_one_leaves() {
        let counts = PerAddress::default();
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        assert!(counts.enter(a, 2) && counts.enter(a, 2));
        assert!(!counts.enter(a, 2));
        assert!(counts.enter(b, 2));
        counts.leave(a);
        assert!(counts.enter(a, 2));
    }

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        let counts = PerAddress::default();
        assert!(counts.enter("::ffff:10.0.0.1".parse().unwrap(), 1));
        assert!(!counts.enter("10.0.0.1".parse().unwrap(), 1));
    }

    #[test]
    fn addresses_without_connections_take_no_memory() {
        let counts = PerAddress::default();
        for n in 0..1000u32 {
            assert!(counts.enter(IpAddr::from(n.to_be_bytes()), 1));
        }
        assert_eq!(held(&counts), 1000);
        for n in 0..1000u32 {
            counts.leave(IpAddr::from(n.to_be_bytes()));
        }
        assert_eq!(held(&counts), 0);
    }
}
