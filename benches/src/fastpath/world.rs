//! Three namespaces in a row: a generator on the left, the device under test, a sink on the right. Every row of the report
//! is measured in one made anew, so that none inherits the other's tables.

use anyhow::{Context, Result};
use std::net::IpAddr;
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

    /// The device's, towards the sink.
    pub(crate) fn outside(self) -> IpAddr {
        self.pick("10.2.0.1", "fd00:2::1")
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

/// The device's interface on the left.
pub(crate) const IN: &str = "hgin";
/// The device's interface on the right.
pub(crate) const OUT: &str = "hgout";
/// The generator's interface.
pub(crate) const LEFT: &str = "hgleft";
/// The sink's interface.
pub(crate) const RIGHT: &str = "hgright";

/// Three namespaces in a row.
pub(crate) struct World {
    pub(crate) left: Namespace,
    pub(crate) device: Namespace,
    pub(crate) right: Namespace,
}

impl World {
    /// Made anew: addresses, routes and neighbours are there, forwarding is on, nothing is attached.
    pub(crate) fn new() -> Result<Self> {
        let world = Self {
            left: Namespace::new()?,
            device: Namespace::new()?,
            right: Namespace::new()?,
        };
        world
            .wire()
            .context("cannot set up namespaces to measure in")?;
        Ok(world)
    }

    fn wire(&self) -> Result<()> {
        let Self {
            left,
            device,
            right,
        } = self;
        veth(left, LEFT, device, IN)?;
        veth(device, OUT, right, RIGHT)?;
        for (namespace, interface, address) in [
            (left, LEFT, "10.1.0.2/16"),
            (left, LEFT, "fd00:1::2/64"),
            (device, IN, "10.1.0.1/16"),
            (device, IN, "fd00:1::1/64"),
            (device, OUT, "10.2.0.1/16"),
            (device, OUT, "fd00:2::1/64"),
            (right, RIGHT, "10.2.0.2/16"),
            (right, RIGHT, "fd00:2::2/64"),
        ] {
            namespace.address(interface, address)?;
        }
        for (namespace, interface) in [(left, LEFT), (device, IN), (device, OUT), (right, RIGHT)] {
            namespace.offloads_off(interface)?;
            namespace.sysctl(&format!("net.ipv4.conf.{interface}.rp_filter"), "0")?;
        }
        device.sysctl("net.ipv4.conf.all.rp_filter", "0")?;
        device.sysctl("net.ipv4.ip_forward", "1")?;
        device.sysctl("net.ipv6.conf.all.forwarding", "1")?;
        let (left_mac, right_mac) = (left.mac(LEFT)?, right.mac(RIGHT)?);
        for client in ["10.1.0.2", "fd00:1::2"] {
            device.neighbour(IN, client.parse::<IpAddr>()?, left_mac)?;
        }
        for family in Family::BOTH {
            device.neighbour(OUT, family.sink(), right_mac)?;
            for member in 0..MEMBERS {
                device.neighbour(OUT, family.member(member), right_mac)?;
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
