//! What a configuration and the machine come to, worked out before anything is changed.

use std::io;

use model::{Config, Forwarding};
use xdp::attach::Wanted;
use xdp::map;

use crate::abi::{FORWARD_OFF, FORWARD_ROUTED, FORWARD_TRACKED, Settings};
use crate::attached;
use crate::capacity::Capacities;
use crate::error::StartError;
use crate::interfaces::Facts;
use crate::names::{self, Kind};
use crate::nat::{Nat, Pools};
use crate::tables::Tables;
use crate::virtuals;

/// Whether what a configuration says of the fast path fits in the tables.
///
/// # Errors
///
/// What does not.
pub fn fits(config: &Config) -> Result<(), StartError> {
    let mut pools = Pools::default();
    Nat::of(config, &mut pools, |_| 1)?;
    virtuals::fit(config, &mut pools)?;
    Ok(())
}

/// What a configuration and the machine come to, before anything is changed.
pub(crate) struct Plan {
    pub(crate) capacities: Capacities,
    pub(crate) interfaces: Vec<(Facts, Wanted)>,
    pub(crate) nat: Nat,
    pub(crate) pools: Pools,
}

impl Plan {
    pub(crate) fn of(config: &Config, path: &model::FastPath) -> Result<Self, StartError> {
        fits(config)?;
        let mut interfaces = Vec::new();
        for interface in &path.interfaces {
            let facts =
                Facts::of(interface.name.as_str()).map_err(|source| StartError::Interface {
                    name: interface.name.to_string(),
                    source,
                })?;
            interfaces.push((facts, attached::wanted(interface.mode)));
        }
        let mut pools = Pools::default();
        let number = |name: &str| {
            let found = interfaces.iter().find(|(facts, _)| facts.name == name);
            found.map_or(0, |(facts, _)| facts.port.ifindex)
        };
        Ok(Self {
            capacities: Capacities::from(&path.tables),
            nat: Nat::of(config, &mut pools, number)?,
            interfaces,
            pools,
        })
    }

    pub(crate) fn settings(
        &self,
        config: &Config,
        path: &model::FastPath,
        base: Settings,
    ) -> Settings {
        let mut settings = base;
        settings.set_timeouts(&path.timeouts);
        settings.forward = match path.forward {
            Forwarding::Off => FORWARD_OFF,
            Forwarding::Routed => FORWARD_ROUTED,
            Forwarding::Tracked => FORWARD_TRACKED,
        };
        let fast = config
            .virtuals
            .values()
            .filter(|virtual_server| virtual_server.fast().is_some());
        settings.virtuals = fast.count() as u32;
        settings.nat_rules4 = self.nat.v4.len() as u32;
        settings.nat_rules6 = self.nat.v6.len() as u32;
        self.capacities.tell(&mut settings);
        settings
    }

    /// The interfaces.
    pub(crate) fn facts(&self) -> Vec<Facts> {
        let facts = self.interfaces.iter().map(|(facts, _)| facts.clone());
        facts.collect()
    }
}

/// Writes rules of source NAT and the addresses of all pools.
pub(crate) fn write_nat(
    tables: &Tables,
    path: &model::FastPath,
    plan: &Plan,
    pools: &Pools,
) -> io::Result<()> {
    let places = |count| (0..count as u32).collect::<Vec<u32>>();
    map::set_many(
        tables.table("nat_addrs4")?,
        &places(pools.v4.len()),
        &pools.v4,
    )?;
    map::set_many(
        tables.table("nat_addrs6")?,
        &places(pools.v6.len()),
        &pools.v6,
    )?;
    for (at, rule) in (0u32..).zip(&plan.nat.v4) {
        tables.set("nat_rules4", &at, rule)?;
    }
    for (at, rule) in (0u32..).zip(&plan.nat.v6) {
        tables.set("nat_rules6", &at, rule)?;
    }
    let rules = (1..).zip(&path.source_nat);
    let rules = rules
        .map(|(id, rule)| (id, rule.name.to_string()))
        .collect();
    names::replace(tables.table(names::TABLE)?, Kind::Rule, &rules)
}
