//! Three namespaces in a row: a generator on the left, the device under test, a sink on the right. Every row of the report
//! is measured in one made anew, so that none inherits the other's tables.

use anyhow::{Context, Result};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use xdp::netns::{Namespace, veth};

/// The families of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        }
    }

    /// Of clients, which follow one another from here.
    pub(crate) fn clients(self) -> IpAddr {
        self.pick("10.16.0.0", "fd00:16::")
    }

    /// Of hosts behind the device.
    pub(crate) fn targets(self) -> IpAddr {
        self.pick("10.32.0.0", "fd00:32::")
    }

    /// Of the virtual.
    pub(crate) fn virtual_server(self) -> IpAddr {
        self.pick("192.0.2.1", "fd00:80::1")
    }

    /// The sink's own.
    pub(crate) fn sink(self) -> IpAddr {
        self.pick("10.2.0.2", "fd00:2::2")
    }

    /// A member, `number` from 0 to 3.
    pub(crate) fn member(self, number: u8) -> IpAddr {
        match self {
            Self::V4 => [10, 2, 1, number + 1].into(),
            Self::V6 => [0xfd00, 2, 0, 0, 0, 0, 1, u16::from(number) + 1].into(),
        }
    }

    fn pick(self, four: &str, six: &str) -> IpAddr {
        let text = match self {
            Self::V4 => four,
            Self::V6 => six,
        };
        text.parse().expect("the addresses above are addresses")
    }
}

/// How many members the pool has.
pub(crate) const MEMBERS: u8 = 4;

/// Three namespaces in a row.
pub(crate) struct World {
    pub(crate) left: Namespace,
    pub(crate) device: Namespace,
    pub(crate) right: Namespace,
    /// Interfaces are found by name alone where the kernel's threads are, so no two worlds' have the same.
    number: u32,
}

impl World {
    /// Made anew: addresses, routes and neighbours are there, forwarding is on, nothing is attached.
    pub(crate) fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let world = Self {
            left: Namespace::new()?,
            device: Namespace::new()?,
            right: Namespace::new()?,
            number: COUNT.fetch_add(1, Ordering::Relaxed),
        };
        world
            .wire()
            .context("cannot set up namespaces to measure in")?;
        Ok(world)
    }

    /// The device's interface on the left.
    pub(crate) fn inward(&self) -> String {
        format!("hgi{}", self.number)
    }

    /// The device's interface on the right.
    pub(crate) fn outward(&self) -> String {
        format!("hgo{}", self.number)
    }

    /// The generator's interface.
    pub(crate) fn leftmost(&self) -> String {
        format!("hgl{}", self.number)
    }

    /// The sink's interface.
    pub(crate) fn rightmost(&self) -> String {
        format!("hgr{}", self.number)
    }

    fn wire(&self) -> Result<()> {
        let Self {
            left,
            device,
            right,
            ..
        } = self;
        let (leftmost, inward) = (&*self.leftmost(), &*self.inward());
        let (outward, rightmost) = (&*self.outward(), &*self.rightmost());
        veth(left, leftmost, device, inward)?;
        veth(device, outward, right, rightmost)?;
        for (namespace, interface, address) in [
            (left, leftmost, "10.1.0.2/16"),
            (left, leftmost, "fd00:1::2/64"),
            (device, inward, "10.1.0.1/16"),
            (device, inward, "fd00:1::1/64"),
            (device, outward, "10.2.0.1/16"),
            (device, outward, "fd00:2::1/64"),
            (right, rightmost, "10.2.0.2/16"),
            (right, rightmost, "fd00:2::2/64"),
        ] {
            namespace.address(interface, address)?;
        }
        for (namespace, interface) in [
            (left, leftmost),
            (device, inward),
            (device, outward),
            (right, rightmost),
        ] {
            namespace.offloads_off(interface)?;
            namespace.sysctl(&format!("net.ipv4.conf.{interface}.rp_filter"), "0")?;
        }
        device.sysctl("net.ipv4.conf.all.rp_filter", "0")?;
        device.sysctl("net.ipv4.ip_forward", "1")?;
        device.sysctl("net.ipv6.conf.all.forwarding", "1")?;
        let (left_mac, right_mac) = (left.mac(leftmost)?, right.mac(rightmost)?);
        for client in ["10.1.0.2", "fd00:1::2"] {
            device.neighbour(inward, client.parse::<IpAddr>()?, left_mac)?;
        }
        for family in Family::BOTH {
            device.neighbour(outward, family.sink(), right_mac)?;
            for member in 0..MEMBERS {
                device.neighbour(outward, family.member(member), right_mac)?;
            }
        }
        device.ip(&[
            "route add 10.16.0.0/12 via 10.1.0.2",
            "route add 10.32.0.0/12 via 10.2.0.2",
            "route add fd00:16::/64 via fd00:1::2",
            "route add fd00:32::/64 via fd00:2::2",
        ])?;
        Ok(())
    }
}
