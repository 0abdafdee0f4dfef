//! Interfaces, addresses, routes and neighbours of a namespace.

use std::io::{self, Write};
use std::net::IpAddr;
use std::process::{Output, Stdio};

use super::Namespace;
use crate::interface;

/// Joins two namespaces by a pair of Ethernet interfaces, one in each, both up, with one queue each way.
///
/// Neither end has an XDP program or GRO yet: XDP can redirect into an end only when the other end has one of them
/// ([`Namespace::gro`]), and kernel endpoints need [`Namespace::offloads_off`].
pub fn veth(a: &Namespace, name_a: &str, b: &Namespace, name_b: &str) -> io::Result<()> {
    veth_with_queues(a, name_a, b, name_b, 1)
}

/// The same with as many queues each way at both ends.
pub fn veth_with_queues(
    a: &Namespace,
    name_a: &str,
    b: &Namespace,
    name_b: &str,
    queues: u32,
) -> io::Result<()> {
    let queues = format!("numtxqueues {queues} numrxqueues {queues}");
    a.ip(&[&format!(
        "link add {name_a} {queues} type veth peer name {name_b} netns {} {queues}",
        b.name()
    )])?;
    a.run(|| interface::set_up(name_a, true))?;
    b.run(|| interface::set_up(name_b, true))
}

impl Namespace {
    /// Runs `ip` in the namespace, each line the words after `ip`; it stops at the first that fails.
    pub fn ip(&self, lines: &[&str]) -> io::Result<()> {
        let mut child = self
            .command("ip")
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("cannot run `ip`, of iproute2: {error}"),
                )
            })?;
        if let Some(mut stdin) = child.stdin.take() {
            // Should `ip` have ended already, its own message says more than this error.
            drop(stdin.write_all((lines.join("\n") + "\n").as_bytes()));
        }
        let Output { status, stderr, .. } = child.wait_with_output()?;
        if !status.success() {
            return Err(io::Error::other(format!(
                "`ip {}` in {}: {}",
                lines.join("; "),
                self.name(),
                String::from_utf8_lossy(&stderr).trim()
            )));
        }
        Ok(())
    }

    /// Gives an interface an address, with its network's length: `192.0.2.1/24`. It can be used at once.
    pub fn address(&self, interface: &str, address: &str) -> io::Result<()> {
        let at_once = if address.contains(':') { " nodad" } else { "" };
        self.ip(&[&format!("address add {address} dev {interface}{at_once}")])
    }

    /// Routes packets to `prefix` (or `default`) by the neighbour `via`.
    pub fn route(&self, prefix: &str, via: &str) -> io::Result<()> {
        self.ip(&[&format!("route add {prefix} via {via}")])
    }

    /// Tells the namespace a neighbour's Ethernet address, for good.
    pub fn neighbour(
        &self,
        interface: &str,
        ip: impl Into<IpAddr>,
        mac: [u8; 6],
    ) -> io::Result<()> {
        let [a, b, c, d, e, f] = mac;
        self.ip(&[&format!(
            "neighbour replace {} lladdr {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} dev {interface} nud permanent",
            ip.into()
        )])
    }

    /// The number of an interface in the namespace.
    pub fn ifindex(&self, interface: &str) -> io::Result<u32> {
        self.run(|| interface::ifindex(interface))
    }

    /// The Ethernet address of an interface.
    pub fn mac(&self, interface: &str) -> io::Result<[u8; 6]> {
        self.run(|| interface::mac(interface))
    }

    /// What an interface has received and sent.
    pub fn counters(&self, interface: &str) -> io::Result<interface::Counters> {
        self.run(|| interface::counters(interface))
    }

    /// As [`interface::offloads_off`].
    pub fn offloads_off(&self, interface: &str) -> io::Result<()> {
        self.run(|| interface::offloads_off(interface))
    }

    /// As [`interface::set_gro`].
    pub fn gro(&self, interface: &str, on: bool) -> io::Result<()> {
        self.run(|| interface::set_gro(interface, on))
    }
}
