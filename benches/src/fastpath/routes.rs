//! Forwarding with a full routing table beside forwarding with a handful of routes: what the kernel's look-up takes when a million
//! prefixes are there, each packet to another of them.

use crate::cost::fill;
use crate::instance::{Instance, Shape, count, said};
use crate::meter::{Meter, Packets, XDP_REDIRECT};
use crate::row::{Book, Part, Row, Series};
use crate::world::{Family, World};
use crate::{Options, Stop};
use anyhow::{Context, Result, ensure};
use fastpath::abi::{FORWARD_ROUTED, FORWARD_TRACKED, Reason, State};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Stdio;

/// How many prefixes of each length the Internet's tables have, in hundredths, shortest last; of IPv4 without the rare ones that would
/// make a million reach beyond 127.0.0.0.
const LENGTHS_V4: [(u32, u32); 7] = [
    (24, 67),
    (23, 10),
    (22, 12),
    (21, 5),
    (20, 3),
    (19, 2),
    (18, 1),
];
const LENGTHS_V6: [(u32, u32); 5] = [(48, 60), (44, 14), (40, 12), (36, 8), (32, 6)];

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    Family::BOTH.map(name).to_vec()
}

fn name(family: Family) -> String {
    format!("routes-{}", family.name())
}

/// Who forwards and to how many destinations: as in the articles, and another for each packet; a flow remembers its next hop.
const WAYS: [(u8, u32, &str); 3] = [
    (FORWARD_ROUTED, 10_000, "routed, 10 k destinations"),
    (
        FORWARD_ROUTED,
        4_000_000,
        "routed, each packet to another destination",
    ),
    (
        FORWARD_TRACKED,
        10_000,
        "tracked, 10 k flows to as many destinations",
    ),
];

/// Measures what the options want, and says each row as it is done.
pub(crate) fn run(options: &Options, stop: &Stop, book: &mut Book) -> Result<()> {
    for family in Family::BOTH {
        if options.wants(&name(family)) {
            stop.check()?;
            let result = measure(options, stop, family, book)
                .with_context(|| format!("{} cannot be measured", name(family)));
            book.tried(stop, result)?;
        }
    }
    Ok(())
}

fn measure(options: &Options, stop: &Stop, family: Family, book: &mut Book) -> Result<()> {
    let routes = match family {
        _ if options.quick => 20_000,
        Family::V4 => 1_000_000,
        Family::V6 => 200_000,
    };
    let few = Table::new(family, 0)?;
    let full = Table::new(family, routes)?;
    for (forward, flows, title) in WAYS {
        let mut with_full = Series::new(format!("Headgate, {routes} routes"));
        let mut with_few = Series::new("Headgate, a handful of routes");
        for round in 0..=options.rounds() {
            for (table, series) in [(&few, &mut with_few), (&full, &mut with_full)] {
                stop.check()?;
                let nanos = table.run(options, stop, forward, flows)?;
                if round > 0 {
                    series.rounds.push(nanos);
                }
            }
        }
        book.row(Row {
            part: Part::Routes,
            name: match forward {
                FORWARD_TRACKED => format!("{}-tracked-{flows}", name(family)),
                _ => format!("{}-{flows}", name(family)),
            },
            title: format!("{} {title}", family.name()),
            unit: "ns",
            ours: with_full,
            peers: vec![with_few],
            goal: None,
            floor: 0.0,
            note: String::new(),
        });
    }
    Ok(())
}

/// A device with so many routes.
struct Table {
    routed: Instance,
    tracked: Instance,
    world: World,
    family: Family,
    /// Destinations are below this from the first on, in units of the longest prefix.
    units: u32,
}

impl Table {
    fn new(family: Family, routes: u32) -> Result<Self> {
        let world = World::new()?;
        let (text, units) = prefixes(family, routes);
        let mut child = world
            .device
            .command("ip")
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot run ip; install iproute2")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(text.as_bytes())?;
        }
        ensure!(child.wait()?.success(), "ip refuses the routes");
        let routed = Shape {
            forward: FORWARD_ROUTED,
            ..Shape::default()
        };
        Ok(Self {
            routed: Instance::load(&world, &routed)?,
            tracked: Instance::load(&world, &Shape::default())?,
            world,
            family,
            units,
        })
    }

    /// Nanoseconds a packet.
    fn run(&self, options: &Options, stop: &Stop, forward: u8, flows: u32) -> Result<f64> {
        const RUNS: u32 = 1_000_000;
        let packets = Packets {
            spread: self.units,
            ..Packets::new(self.family, first(self.family), 1, flows)
        };
        let (instance, reason) = match forward {
            FORWARD_TRACKED => (&self.tracked, Reason::ForwardFlow),
            _ => (&self.routed, Reason::ForwardRoute),
        };
        let (before, nanos) = self.world.device.run(|| -> Result<_> {
            xdp::netns::pin_to_core(0, options.core())?;
            let meter = Meter::load(xdp::interface::ifindex(&self.world.inward())?, 1)?;
            if forward == FORWARD_TRACKED
                && instance.flows(self.family)?.all(State::Established) == 0
            {
                fill(instance, &meter, packets, flows, false, stop)?;
            }
            let before = instance.counts()?;
            let nothing = meter.run_nothing(&packets, RUNS)?;
            let all = meter.run(instance.program()?, &packets, RUNS, XDP_REDIRECT)?;
            Ok((before, all - nothing))
        })?;
        let after = instance.counts()?;
        let sent = count(&after, reason) - count(&before, reason);
        ensure!(
            sent == u64::from(RUNS),
            "not all packets were sent on as they should be: {}",
            said(&before, &after)
        );
        Ok(nanos)
    }
}

/// Where the prefixes begin.
fn first(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(20, 0, 0, 0).into(),
        Family::V6 => Ipv6Addr::new(0x2400, 0, 0, 0, 0, 0, 0, 1).into(),
    }
}

/// So many prefixes one after the other, below a few that cover all of them, as lines for `ip`; and how many of the longest they make
/// up together. None are as large as a million would be.
fn prefixes(family: Family, routes: u32) -> (String, u32) {
    let (lengths, via): (&[(u32, u32)], _) = match family {
        Family::V4 => (&LENGTHS_V4, Family::V4.sink()),
        Family::V6 => (&LENGTHS_V6, Family::V6.sink()),
    };
    let covers: &[&str] = match family {
        Family::V4 => &["16.0.0.0/4", "32.0.0.0/3", "64.0.0.0/2", "128.0.0.0/2"],
        Family::V6 => &["2400::/8"],
    };
    let longest = lengths[0].0;
    let mut text = String::new();
    for cover in covers {
        let _ = writeln!(text, "route add {cover} via {via}");
    }
    if routes == 0 {
        return (text, 1 << 22);
    }
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    // In units of the longest prefix.
    let mut at = 0u32;
    for _ in 0..routes {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut drawn = (random >> 32) as u32 % 100;
        let length = lengths
            .iter()
            .find(|(_, share)| {
                let found = drawn < *share;
                drawn = drawn.saturating_sub(*share);
                found
            })
            .map_or(longest, |(length, _)| *length);
        // A shorter one begins where its own length allows; what is skipped is the covers'.
        let units = 1 << (longest - length);
        let start = at.next_multiple_of(units);
        let _ = match family {
            Family::V4 => {
                let address = Ipv4Addr::from((20 << 24) + (start << 8));
                writeln!(text, "route add {address}/{length} via {via}")
            }
            Family::V6 => {
                let address = Ipv6Addr::from((0x2400u128 << 112) + (u128::from(start) << 80));
                writeln!(text, "route add {address}/{length} via {via}")
            }
        };
        at = start + units;
    }
    (text, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_prefixes_stay_clear_of_what_is_nobodys_to_route() {
        let (text, units) = prefixes(Family::V4, 1_000_000);
        assert_eq!(text.lines().count(), 1_000_000 + 4);
        assert!((20 << 24) + (units << 8) <= 127 << 24, "{units}");
    }

    #[test]
    fn prefixes_of_ipv6_stay_below_the_route_that_covers_them() {
        let (text, units) = prefixes(Family::V6, 200_000);
        assert_eq!(text.lines().count(), 200_000 + 1);
        assert!(units < 1 << 31, "{units}");
    }
}
