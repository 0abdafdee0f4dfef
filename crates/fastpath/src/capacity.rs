//! How much the tables hold, and how large they must be for that.

use crate::abi::{Settings, WAYS};

/// How much the tables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// Flows of IPv4.
    pub flows_v4: u32,
    /// Flows of IPv6.
    pub flows_v6: u32,
    /// Flows of each family that have not been answered yet; rounded up to a power of two.
    pub half_open: u32,
    /// Fragmented packets whose later fragments are still expected.
    pub fragments: u32,
    /// Entries of each of the four tables of the shun list.
    pub shuns: u32,
    /// Addresses whose flows are counted.
    pub users: u32,
}

impl Default for Capacities {
    fn default() -> Self {
        Self::from(&model::FastPathTables::default())
    }
}

impl From<&model::FastPathTables> for Capacities {
    fn from(tables: &model::FastPathTables) -> Self {
        Self {
            flows_v4: tables.flows_v4,
            flows_v6: tables.flows_v6,
            half_open: tables.half_open,
            fragments: tables.fragments,
            shuns: tables.shuns,
            users: tables.users,
        }
    }
}

impl Capacities {
    /// Entries of each table that a configuration sizes.
    pub fn entries(&self) -> [(&'static str, u32); 14] {
        let half = self.half_buckets();
        [
            ("flows4", self.flows_v4),
            ("flows6", self.flows_v6),
            ("index4", buckets(self.flows_v4)),
            ("index6", buckets(self.flows_v6)),
            ("half_flows4", half * WAYS as u32),
            ("half_flows6", half * WAYS as u32),
            ("half_index4", half),
            ("half_index6", half),
            ("fragments", self.fragments),
            ("users", self.users),
            ("shuns4", self.shuns),
            ("shuns6", self.shuns),
            ("shun_prefixes4", self.shuns),
            ("shun_prefixes6", self.shuns),
        ]
    }

    /// Bytes of the flow tables, by far the most of all.
    pub fn flow_bytes(&self) -> u64 {
        let family = |flows: u32, bytes: u64| {
            let half = u64::from(self.half_buckets());
            u64::from(flows) * bytes
                + u64::from(buckets(flows)) * 64
                + half * (64 + WAYS as u64 * bytes)
        };
        family(self.flows_v4, 64) + family(self.flows_v6, 128)
    }

    /// Has the settings say the same.
    pub(crate) fn tell(&self, settings: &mut Settings) {
        settings.slots4 = self.flows_v4;
        settings.slots6 = self.flows_v6;
        settings.buckets4 = buckets(self.flows_v4);
        settings.buckets6 = buckets(self.flows_v6);
        settings.half_mask = self.half_buckets() - 1;
    }

    fn half_buckets(&self) -> u32 {
        // An entry names its slot by 24 bits.
        let most = (1 << 24) / WAYS as u32;
        self.half_open
            .div_ceil(WAYS as u32)
            .clamp(LEAST_HALF_BUCKETS, most)
            .next_power_of_two()
    }
}

/// With fewer there is hardly a table left that a flood could not fill at once, and the verifier takes longer over a mask of
/// 0 than it has.
const LEAST_HALF_BUCKETS: u32 = 64 / WAYS as u32;

/// Buckets with four entries a flow: a translated flow has two. With three, 25 of a million translated flows found both of a
/// hash's buckets full; at half full none do.
fn buckets(flows: u32) -> u32 {
    (u64::from(flows) * 4)
        .div_ceil(WAYS as u64)
        .try_into()
        .unwrap_or(u32::MAX)
        .max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_six_million_flows_fit_in_the_memory_that_is_promised() {
        let with = |flows_v4, flows_v6| {
            let capacities = Capacities {
                flows_v4,
                flows_v6,
                ..Capacities::default()
            };
            capacities.flow_bytes() as f64 / f64::from(1 << 30)
        };
        assert!(with(36_000_291, 64) < 4.0, "{}", with(36_000_291, 64));
        assert!(with(64, 36_000_291) < 6.0, "{}", with(64, 36_000_291));
    }

    #[test]
    fn half_open_flows_have_buckets_that_a_mask_finds() {
        for half_open in [0, 64, 1000, 131_072, 16_777_216] {
            let capacities = Capacities {
                half_open,
                ..Capacities::default()
            };
            let mut settings = Settings::default();
            capacities.tell(&mut settings);
            assert!((settings.half_mask + 1).is_power_of_two());
            assert!((settings.half_mask + 1) * WAYS as u32 >= 64);
            assert!((settings.half_mask + 1) * WAYS as u32 >= half_open);
            assert!((settings.half_mask + 1) * WAYS as u32 <= 1 << 24);
        }
    }
}
