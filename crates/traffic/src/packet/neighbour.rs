//! Whose Ethernet address frames go to: asked of the kernel's routes and neighbours, by way of iproute2.

use super::error::PacketError;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How long a neighbour has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the table is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// The port of the discard protocol, to which the packet goes that has the kernel ask for its neighbour.
const DISCARD: u16 = 9;

/// The Ethernet address to which the kernel would send a packet to `destination` out of `interface`; in the namespace of
/// the calling thread.
pub(super) fn find(interface: &str, destination: IpAddr) -> Result<[u8; 6], PacketError> {
    let failed = |source| PacketError::Route {
        address: destination,
        source,
    };
    let family = if destination.is_ipv4() { "-4" } else { "-6" };
    let to = destination.to_string();
    let route = ip(&[family, "-o", "route", "get", &to, "oif", interface]).map_err(failed)?;
    let hop = after(&route, "via").unwrap_or(&to).to_owned();
    let end = Instant::now() + PATIENCE;
    loop {
        let table = ip(&[family, "neigh", "show", &hop, "dev", interface]).map_err(failed)?;
        if let Some(mac) = after(&table, "lladdr").and_then(parse_mac) {
            return Ok(mac);
        }
        if Instant::now() > end {
            return Err(PacketError::Neighbour {
                interface: interface.to_owned(),
                address: hop.parse().unwrap_or(destination),
            });
        }
        // What becomes of the packet does not matter.
        let any = if destination.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        if let Ok(socket) = UdpSocket::bind(any) {
            let _ = socket.send_to(&[], (destination, DISCARD));
        }
        thread::sleep(LOOK);
    }
}

/// An Ethernet address as it is usually written.
pub(super) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// The word after `word`.
fn after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    text.split_whitespace()
        .skip_while(|own| *own != word)
        .nth(1)
}

fn ip(words: &[&str]) -> io::Result<String> {
    let output = Command::new("ip").args(words).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(said.trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses_are_read() {
        assert_eq!(
            parse_mac("02:00:5e:10:ab:0f"),
            Some([2, 0, 0x5e, 0x10, 0xab, 15])
        );
        for wrong in [
            "02:00:5e:10:ab",
            "02:00:5e:10:ab:0f:1",
            "02:00:5e:10:ab:0g",
            "",
            "2:0:0:0:0:+1:",
        ] {
            assert_eq!(parse_mac(wrong), None, "{wrong}");
        }
    }
}
