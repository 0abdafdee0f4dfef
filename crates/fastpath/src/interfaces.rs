//! The interfaces of the fast path: their numbers as ports, what the programs know of them, and the switches of the kernel
//! that they need. Attaching programs to them is left to others.

use std::fs;
use std::io;
use std::path::PathBuf;

use tracing::{info, warn};
use xdp::interface;

use crate::abi::{PORTS, Port};
use crate::names::{self, Kind};
use crate::tables::Tables;

/// What is known of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) port: Port,
}

impl Facts {
    /// Of an interface in the calling thread's namespace.
    pub(crate) fn of(name: &str) -> io::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            port: Port {
                ifindex: interface::ifindex(name)?,
                mac: interface::mac(name)?,
                mtu: u16::try_from(interface::mtu(name)?).unwrap_or(u16::MAX),
            },
        })
    }
}

/// Makes these interfaces, and no others, the ports that may be forwarded to. Those that were already keep their numbers,
/// which flows have in their next hops. What is there already is written again where it is `doubted`: an earlier process may
/// have died at it.
pub(crate) fn set_ports(tables: &Tables, wanted: &[Facts], doubted: bool) -> io::Result<()> {
    let mut ports: Vec<Port> = Vec::with_capacity(PORTS);
    for number in 0..PORTS as u32 {
        ports.push(tables.get("ports", &number)?.unwrap_or_default());
    }
    let wanted: Vec<Port> = wanted.iter().map(|facts| facts.port).collect();
    let (assigned, gone) = assign(&ports, &wanted);
    for number in gone {
        let ifindex = ports[number as usize].ifindex;
        tables.remove("port_numbers", &ifindex)?;
        // Where the interface itself is gone, so is its entry.
        tables.remove("port_devices", &number)?;
        tables.set("ports", &number, &Port::default())?;
    }
    for (number, port) in assigned {
        if doubted || ports[number as usize] != port {
            tables.set("ports", &number, &port)?;
            tables.set("port_devices", &number, &port.ifindex)?;
            tables.set("port_numbers", &port.ifindex, &number)?;
        }
    }
    Ok(())
}

/// Numbers for the wanted ports, and the numbers that are given up.
fn assign(ports: &[Port], wanted: &[Port]) -> (Vec<(u32, Port)>, Vec<u32>) {
    let number_of = |ifindex| ports.iter().position(|port| port.ifindex == ifindex);
    let mut assigned: Vec<(u32, Port)> = Vec::new();
    for port in wanted {
        let free = || {
            let taken = |number: u32| assigned.iter().any(|(its, _)| *its == number);
            (1..ports.len()).find(|n| ports[*n].ifindex == 0 && !taken(*n as u32))
        };
        if let Some(number) = number_of(port.ifindex).or_else(free) {
            assigned.push((number as u32, *port));
        }
    }
    let gone = (1..ports.len() as u32)
        .filter(|number| ports[*number as usize].ifindex != 0)
        .filter(|number| !assigned.iter().any(|(its, _)| its == number))
        .collect();
    (assigned, gone)
}

/// Sets the switches that packets need which are passed to the kernel translated, and remembers what they were: their
/// source may be an address of this machine.
pub(crate) fn set_switches(tables: &Tables, facts: &Facts) -> io::Result<()> {
    let table = tables.table(names::TABLE)?;
    let before: Vec<String> = SWITCHES
        .iter()
        .map(|(switch, _)| read(&facts.name, switch).map(|value| format!("{switch}={value}")))
        .collect::<io::Result<_>>()?;
    if names::get(table, Kind::Switches, facts.port.ifindex)?.is_none() {
        names::set(table, Kind::Switches, facts.port.ifindex, &before.join(" "))?;
    }
    write(&facts.name, "accept_local", "1")?;
    // Strict filtering of sources does not know that addresses of this machine may come in.
    if effective("rp_filter", &facts.name) == 1 {
        write(&facts.name, "rp_filter", "2")?;
        info!(
            interface = facts.name,
            "rp_filter is loose (2) while the fast path is attached, not strict"
        );
    }
    Ok(())
}

/// Sets the switches to what they were before.
pub(crate) fn restore_switches(tables: &Tables, ifindex: u32) -> io::Result<()> {
    let table = tables.table(names::TABLE)?;
    let Some(before) = names::get(table, Kind::Switches, ifindex)? else {
        return Ok(());
    };
    if let Ok(name) = interface::name(ifindex) {
        for (switch, value) in before.split(' ').filter_map(|part| part.split_once('=')) {
            if SWITCHES.iter().any(|(known, _)| *known == switch) {
                write(&name, switch, value)?;
            }
        }
    }
    names::forget(table, Kind::Switches, ifindex)
}

/// Warns of what would keep packets from being forwarded.
pub(crate) fn warn_of_switches(interfaces: &[Facts]) {
    for facts in interfaces {
        let name = &facts.name;
        for (family, what) in [("ipv4", "IPv4"), ("ipv6", "IPv6")] {
            let path = format!("/proc/sys/net/{family}/conf/{name}/forwarding");
            if fs::read_to_string(path).is_ok_and(|value| value.trim() == "0") {
                warn!(
                    interface = name,
                    "the kernel does not forward {what} here, so the fast path does not: `sysctl net.{family}.conf.{name}.forwarding=1`"
                );
            }
        }
        if !interface::is_up(name).unwrap_or(true) {
            warn!(
                interface = name,
                "the interface is down: `ip link set {name} up`"
            );
        }
    }
}

/// Switches of IPv4 that are changed, and their usual values.
const SWITCHES: [(&str, &str); 2] = [("accept_local", "0"), ("rp_filter", "0")];

fn path(interface: &str, switch: &str) -> PathBuf {
    format!("/proc/sys/net/ipv4/conf/{interface}/{switch}").into()
}

fn read(interface: &str, switch: &str) -> io::Result<String> {
    let path = path(interface, switch);
    let value = fs::read_to_string(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Ok(value.trim().to_owned())
}

fn write(interface: &str, switch: &str, value: &str) -> io::Result<()> {
    // A system whose switches cannot be written may have them right already.
    if read(interface, switch)? == value {
        return Ok(());
    }
    let path = path(interface, switch);
    fs::write(&path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The larger of the interface's and that of all, which is what counts.
fn effective(switch: &str, interface: &str) -> u32 {
    [interface, "all"]
        .iter()
        .filter_map(|scope| read(scope, switch).ok()?.parse().ok())
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(ifindex: u32) -> Port {
        Port {
            ifindex,
            ..Port::default()
        }
    }

    #[test]
    fn interfaces_that_stay_keep_their_numbers() {
        let ports = [port(0), port(10), port(20), port(0), port(0)];
        let (assigned, gone) = assign(&ports, &[port(30), port(20)]);
        assert_eq!(assigned, [(3, port(30)), (2, port(20))]);
        assert_eq!(gone, [1]);
    }

    #[test]
    fn number_0_is_no_port() {
        let ports = [port(0), port(0)];
        let (assigned, _) = assign(&ports, &[port(7), port(8)]);
        assert_eq!(assigned, [(1, port(7))]);
    }
}
