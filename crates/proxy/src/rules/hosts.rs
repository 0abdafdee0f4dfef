//! The machine's own list of hosts (hosts(5)), which is asked before DNS is. Read again when it has changed.

use std::cell::RefCell;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

const FILE: &str = "/etc/hosts";

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Addresses and the names of each.
#[derive(Default)]
pub(super) struct Hosts(Vec<(IpAddr, Vec<String>)>);

struct Known {
    hosts: Hosts,
    of: Option<SystemTime>,
    at: Option<Instant>,
}

thread_local! {
    static KNOWN: RefCell<Known> = const {
        RefCell::new(Known {
            hosts: Hosts(Vec::new()),
            of: None,
            at: None,
        })
    };
}

/// Asks the machine's list.
pub(super) fn ask<R>(ask: impl FnOnce(&Hosts) -> R) -> R {
    KNOWN.with_borrow_mut(|known| {
        if known.at.is_none_or(|at| at.elapsed() >= EVERY) {
            known.at = Some(Instant::now());
            let changed = std::fs::metadata(FILE)
                .and_then(|data| data.modified())
                .ok();
            if changed != known.of || changed.is_none() {
                known.of = changed;
                known.hosts = Hosts::read(&std::fs::read_to_string(FILE).unwrap_or_default());
            }
        }
        ask(&known.hosts)
    })
}

impl Hosts {
    fn read(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace();
            let address: IpAddr = words.next()?.parse().ok()?;
            Some((address, words.map(str::to_owned).collect()))
        });
        Hosts(lines.collect())
    }

    /// The addresses of a name, of one family.
    pub(super) fn addresses(&self, name: &str, v6: bool) -> Vec<IpAddr> {
        let mut found = Vec::new();
        for (address, names) in &self.0 {
            let named = names.iter().any(|known| known.eq_ignore_ascii_case(name));
            if named && address.is_ipv6() == v6 && !found.contains(address) {
                found.push(*address);
            }
        }
        found
    }

    /// The first name of an address.
    pub(super) fn name(&self, address: IpAddr) -> Option<&str> {
        let mut entries = self.0.iter().filter(|(known, _)| *known == address);
        entries.find_map(|(_, names)| names.first().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_found_both_ways() {
        let hosts = Hosts::read(
            "127.0.0.1 localhost # the machine\n# 192.0.2.9 gone\n192.0.2.1\tOne.example one\n2001:db8::1 one\n192.0.2.2 one\nfrob one\n",
        );
        let of = |name, v6| {
            let found = hosts.addresses(name, v6);
            found.iter().map(IpAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of("ONE", false), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(of("one", true), ["2001:db8::1"]);
        assert!(of("gone", false).is_empty());
        let name = |text: &str| hosts.name(text.parse().unwrap());
        assert_eq!(name("192.0.2.1"), Some("One.example"));
        assert_eq!(name("192.0.2.9"), None);
    }
}
