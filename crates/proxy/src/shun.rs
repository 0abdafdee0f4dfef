//! Offenders whose connections are turned away for a while.
//!
//! Rules hand them over. Where something drops their packets before they cost anything ([`ShunList`]), it is told; else
//! their connections are closed as they are accepted.

use crate::engine::Shared;
use balance::Millis;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Who drops the packets of offenders.
pub trait ShunList: Send + Sync {
    /// Has an address dropped for so long: whether it is.
    fn shun(&self, address: IpAddr, lasting: Duration) -> bool;
}

impl fmt::Debug for dyn ShunList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShunList")
    }
}

/// Addresses that are turned away, each until its time.
#[derive(Default)]
pub(crate) struct Shunned {
    /// So that nobody looks where there is none.
    count: AtomicUsize,
    until: Mutex<HashMap<IpAddr, Millis>>,
}

/// The most addresses that are kept.
const MOST: usize = 100_000;

impl Shunned {
    /// Turns an address away for so long. False where there is no more room.
    pub(crate) fn add(&self, address: IpAddr, now: Millis, lasting: Duration) -> bool {
        let until = now.saturating_add(u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX));
        let mut map = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if map.len() >= MOST {
            map.retain(|_, until| *until > now);
        }
        let room = map.len() < MOST || map.contains_key(&address);
        if room {
            map.insert(address.to_canonical(), until);
        }
        self.count.store(map.len(), Relaxed);
        room
    }

    /// Whether an address is turned away.
    pub(crate) fn has(&self, address: IpAddr, shared: &Shared) -> bool {
        self.count.load(Relaxed) > 0 && self.has_at(address, shared.now())
    }

    fn has_at(&self, address: IpAddr, now: Millis) -> bool {
        let address = address.to_canonical();
        let mut map = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        match map.get(&address) {
            Some(&until) if until > now => true,
            Some(_) => {
                map.remove(&address);
                self.count.store(map.len(), Relaxed);
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shunned_until_its_time() {
        let shunned = Shunned::default();
        let address = "192.0.2.1".parse().unwrap();
        assert!(shunned.add(address, 100, Duration::from_millis(50)));
        assert!(shunned.has_at("::ffff:192.0.2.1".parse().unwrap(), 149));
        assert!(!shunned.has_at("192.0.2.2".parse().unwrap(), 149));
        assert!(!shunned.has_at(address, 150));
        assert_eq!(shunned.count.load(Relaxed), 0);
    }
}
