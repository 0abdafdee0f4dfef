//! What persistence that a rule has asked for leads to: for the driver, which chooses the member.

use super::{SUBTABLE, read_record, record, record_key};
use crate::flow::{Flow, Persist, Selected};
use crate::host::{Host, Key, MemberView, PoolView, Put, Times};
use addr::Prefix;
use std::net::SocketAddr;
use std::time::Duration;

/// The member of a pool that the flow's persistence leads to, if it leads to one that takes connections.
pub fn lookup(flow: &Flow, host: &dyn Host, pool: &PoolView) -> Option<SocketAddr> {
    let found = match flow.steering.persist.as_ref()? {
        Persist::Hash(key) => return by_hash(&key.bytes(), pool),
        Persist::None | Persist::Cookie { .. } => return None,
        persist => {
            let (key, _) = key_of(flow, persist)?;
            host.table().get(entry(&key), host.now(), true)?
        }
    };
    let (name, address) = read_record(&found)?;
    let is = |member: &MemberView| member.address == address && member.is_active();
    (name == *pool.name && pool.members.iter().any(is)).then_some(address)
}

/// Records the member that was chosen, so that the next one with the same key comes to it.
pub fn remember(flow: &Flow, host: &dyn Host) {
    let Some(Selected { pool, address, .. }) = &flow.selected else {
        return;
    };
    let persist = flow.steering.persist.as_ref();
    let Some((key, timeout)) = persist.and_then(|persist| key_of(flow, persist)) else {
        return;
    };
    let times = Times {
        timeout: Some(Some(Duration::from_secs(timeout))),
        lifetime: None,
    };
    let record = record(pool, *address);
    let table = host.table();
    table.put(entry(&key), &record, Put::Always, times, host.now(), true);
}

/// The key of the flow's record and its timeout, for modes that have records.
fn key_of(flow: &Flow, persist: &Persist) -> Option<(Vec<u8>, u64)> {
    match persist {
        Persist::Source { prefix, timeout } => {
            let client = flow.client.remote.ip().to_canonical();
            let network = Prefix::containing(client, *prefix).network();
            Some((
                source_key(&flow.virtual_name, &network.to_string()),
                *timeout,
            ))
        }
        Persist::Universal { key, timeout } => Some((record_key("uie", &key.bytes()), *timeout)),
        Persist::None | Persist::Cookie { .. } | Persist::Hash(_) => None,
    }
}

/// The key of the record of a client's address at a virtual.
pub(super) fn source_key(virtual_name: &str, address: &str) -> Vec<u8> {
    record_key(
        "source_addr",
        format!("{virtual_name}/{address}").as_bytes(),
    )
}

/// The active member with the highest score for a key: when one goes, only its keys move.
fn by_hash(key: &[u8], pool: &PoolView) -> Option<SocketAddr> {
    let seed = fnv(0xcbf2_9ce4_8422_2325, key);
    let active = pool.members.iter().filter(|member| member.is_active());
    let score = |member: &&MemberView| mix(fnv(seed, member.address.to_string().as_bytes()));
    active.max_by_key(score).map(|member| member.address)
}

/// FNV-1a: the same in every process, so that several agree on a key's member.
fn fnv(seed: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(seed, step)
}

/// Spreads a hash over all its bits (the finalizer of splitmix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn entry(key: &[u8]) -> Key<'_> {
    Key {
        subtable: SUBTABLE,
        key,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{World, address};
    use super::*;

    fn world() -> World {
        let mut world = World::new();
        world.pool(
            "www",
            &[
                ("10.0.0.1:80", true),
                ("10.0.0.2:80", true),
                ("10.0.0.3:80", true),
            ],
        );
        world
    }

    fn select(world: &mut World, member: &str) {
        world.flow.selected = Some(Selected {
            pool: "www".into(),
            name: member.into(),
            address: address(member),
        });
        remember(&world.flow, &world.host);
        world.flow.selected = None;
    }

    fn found(world: &World) -> Option<SocketAddr> {
        lookup(&world.flow, &world.host, &world.host.pools[0])
    }

    #[test]
    fn a_client_comes_back_to_its_member_while_that_is_up() {
        for command in [
            "persist uie token 60",
            "persist source_addr 255.255.255.0 60",
        ] {
            let mut world = world();
            world.check(&[(command, "")]);
            assert_eq!(found(&world), None);
            select(&mut world, "10.0.0.2:80");
            assert_eq!(found(&world), Some(address("10.0.0.2:80")), "{command}");
            world.flow.client.remote = address("192.0.2.99:1");
            assert_eq!(found(&world), Some(address("10.0.0.2:80")), "{command}");
            world.host.pools[0].members[1].up = false;
            assert_eq!(found(&world), None);
            world.host.pools[0].members[1].up = true;
            world.host.now += Duration::from_secs(61);
            assert_eq!(found(&world), None);
        }
    }

    #[test]
    fn other_clients_and_keys_go_elsewhere() {
        let mut world = world();
        world.check(&[("persist source_addr", "")]);
        select(&mut world, "10.0.0.2:80");
        world.check(&[("persist lookup source_addr 192.0.2.1 node", "10.0.0.2")]);
        world.flow.client.remote = address("192.0.2.2:1");
        assert_eq!(found(&world), None);
        world.check(&[("persist uie a", "")]);
        assert_eq!(found(&world), None);
        world.check(&[("persist none", "")]);
        select(&mut world, "10.0.0.1:80");
        assert_eq!(found(&world), None);
    }

    #[test]
    fn a_hash_keeps_keys_at_their_members_when_another_goes() {
        let mut world = world();
        let places = |world: &mut World| -> Vec<_> {
            (0..200)
                .map(|n| {
                    world.check(&[(&format!("persist hash key{n}"), "")]);
                    found(world).unwrap()
                })
                .collect()
        };
        let before = places(&mut world);
        let gone = address("10.0.0.3:80");
        assert!(before.iter().filter(|at| **at == gone).count() > 30);
        world.host.pools[0].members[2].up = false;
        let after = places(&mut world);
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || *before == gone);
        }
    }
}
