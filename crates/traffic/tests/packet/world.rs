//! Two namespaces joined by a pair of interfaces.

use std::time::{Duration, Instant};
use traffic::packet::{Place, Stream};
use xdp::netns::{Namespace, veth};

/// How long to wait for what will come.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) const NEAR: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
pub(crate) const FAR: [&str; 2] = ["192.0.2.2", "2001:db8::2"];

/// A generator's namespace and a receiver's.
pub(crate) struct World {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
}

impl World {
    pub(crate) fn new() -> Self {
        let (near, far) = (
            Namespace::new().expect("a namespace"),
            Namespace::new().expect("a namespace"),
        );
        veth(&near, "near0", &far, "far0").expect("a pair of interfaces");
        for (namespace, device, addresses) in [(&near, "near0", NEAR), (&far, "far0", FAR)] {
            namespace.offloads_off(device).expect("offloads off");
            namespace.gro(device, true).expect("GRO");
            for (address, length) in addresses.iter().zip(["/24", "/64"]) {
                namespace
                    .address(device, &format!("{address}{length}"))
                    .expect("an address");
            }
        }
        Self { near, far }
    }

    pub(crate) fn from(&self) -> Place {
        Place::within(self.near.name(), "near0")
    }

    pub(crate) fn to(&self) -> Place {
        Place::within(self.far.name(), "far0")
    }

    /// A stream from an address to an address, with the right Ethernet addresses.
    pub(crate) fn stream(&self, source: &str, destination: &str) -> Stream {
        Stream {
            source_mac: self.from().mac().expect("an Ethernet address"),
            destination_mac: self.to().mac().expect("an Ethernet address"),
            ..Stream::new(addresses(source), addresses(destination))
        }
    }
}

pub(crate) fn addresses(text: &str) -> traffic::packet::Addresses {
    text.parse().expect("addresses")
}

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
