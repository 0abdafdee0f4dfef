//! A routing daemon beside the fast path: BIRD as `examples/bird` has it, a neighbour that sends a table, a cache of RPKI.

use fastpath::abi::Reason;
use headgate_tests::network::{FAMILIES, Family, Network, at, possible, run_in, wait_for};
use headgate_tests::routes::{Prefix, Roa, Rtr, table4, table6};
use headgate_tests::{Bird, Dir, within};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

/// The neighbour's, and those of the networks behind it: a group of routes has `ORIGIN` and its number.
const NEIGHBOUR: u32 = 200_001;
const ORIGIN: u32 = 200_100;
const GROUPS: usize = 16;

/// How many routes: a table like the Internet's of a few years on if that is asked for.
fn sizes() -> (usize, usize) {
    match std::env::var_os("HEADGATE_FULL_TABLE") {
        Some(_) => (1_000_000, 200_000),
        None => (50_000, 10_000),
    }
}

/// The neighbour: servers 1 and 2 of the network. Routes of odd groups are by server 2.
struct Neighbour {
    bird: Bird,
    tables: [Vec<Prefix>; 2],
    _dir: Dir,
}

impl Neighbour {
    fn start(network: &Network) -> Self {
        let dir = Dir::new();
        let (count4, count6) = sizes();
        let tables = [table4(4, count4), table6(6, count6)];
        let mut config = format!(
            "router id 10.2.0.11;\nprotocol device {{}}\n\
             template bgp session {{ local as {NEIGHBOUR}; graceful restart off; connect delay time 1; connect retry time 1; }}\n"
        );
        for (family, table) in FAMILIES.into_iter().zip(&tables) {
            let channel = channel(family);
            let aside = family.host(2, 12);
            let router = family.host(2, 1);
            let digit = number(family);
            writeln!(
                config,
                "protocol bgp to{digit} from session {{ neighbor {router} as 64500; {channel} {{ import none;
                   export filter {{ if preference = 201 then bgp_next_hop = {aside}; accept; }}; }}; }}"
            )
            .unwrap();
            for group in 0..GROUPS {
                let name = format!("group{digit}_{group}");
                let preference = 200 + group % 2;
                let origin = ORIGIN + group as u32;
                let mut routes = String::new();
                for (address, len) in table.iter().skip(group).step_by(GROUPS) {
                    writeln!(routes, "route {address}/{len} blackhole;").unwrap();
                }
                dir.write(&name, routes);
                writeln!(
                    config,
                    "protocol static {name} {{ {channel} {{ preference {preference};
                       import filter {{ bgp_path.prepend({origin}); accept; }}; }};\ninclude \"{name}\";\n}}"
                )
                .unwrap();
            }
        }
        let path = dir.write("bird.conf", config);
        let bird = Bird::start(&network.servers[0], &dir, &path);
        Self {
            bird,
            tables,
            _dir: dir,
        }
    }

    fn table(&self, family: Family) -> &[Prefix] {
        &self.tables[usize::from(family == Family::V6)]
    }

    /// Who is the rightful origin of the route of this number.
    fn origin(nth: usize) -> u32 {
        ORIGIN + (nth % GROUPS) as u32
    }
}

/// A BIRD on the router, of the example with a site of the test's.
fn router(network: &Network, dir: &Dir) -> Bird {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/bird/bird.conf");
    let config = std::fs::read_to_string(example).unwrap();
    let path = dir.write("bird.conf", config);
    dir.write(
        "site.conf",
        "define ROUTER_ID = 10.2.0.1; define OUR_AS = 64500;
         define FIRST_AS = 200001; define FIRST4 = 10.2.0.11; define FIRST6 = fd00:2::11;
         define RPKI_CACHE = 127.0.0.1; define RPKI_PORT = 3323;
         define OUR_NETWORKS4 = [ 10.0.0.0/8+ ]; define OUR_NETWORKS6 = [ fd00::/8+ ];
         protocol static announced4 { ipv4; route 10.9.0.0/24 unreachable; }
         protocol static announced6 { ipv6; route fd00:9::/64 unreachable; }",
    );
    Bird::start(&network.router, dir, &path)
}

#[test]
fn packets_follow_the_routes_of_a_bgp_session_of_which_invalid_ones_are_left_out() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let neighbour = Neighbour::start(&network);
    // Of both families: the first route may be announced by its origin; the second by another; the third is too long.
    let mut roas = Vec::new();
    for family in FAMILIES {
        for (nth, wrong, short) in [(0, 0, 0), (1, 9, 0), (2, 0, 1)] {
            let prefix = neighbour.table(family)[nth];
            let asn = Neighbour::origin(nth) + wrong;
            let (address, len) = (prefix.0, prefix.1 - short);
            roas.push(Roa {
                prefix: (network_of(address, len), len),
                max: len,
                asn,
            });
        }
    }
    let rpki = |roas: &[Roa]| {
        let at = (IpAddr::from(Ipv4Addr::LOCALHOST), 3323);
        network.router.run(|| Rtr::start(at, roas.to_vec()))
    };
    let cache = rpki(&roas);
    let dir = Dir::new();
    let begun = Instant::now();
    let bird = router(&network, &dir);
    let expected: Vec<usize> = FAMILIES
        .into_iter()
        .map(|family| valid(&roas, neighbour.table(family)))
        .collect();
    for (family, expected) in FAMILIES.into_iter().zip(&expected) {
        let protocol = format!("first{}", number(family));
        within(Duration::from_secs(240), "the table has come in", || {
            (bird.imported(&protocol) == *expected).then_some(())
        });
        within(Duration::from_secs(240), "the kernel has the table", || {
            (in_kernel(&network, family) >= *expected).then_some(())
        });
    }
    eprintln!(
        "{expected:?} routes in the kernel after {:.1?}; BIRD holds {} MiB, the neighbour's {} MiB",
        begun.elapsed(),
        bird.memory() >> 20,
        neighbour.bird.memory() >> 20
    );
    for family in FAMILIES {
        let has = |nth: usize| has_route(&network, neighbour.table(family)[nth]);
        assert_eq!([has(0), has(1), has(2), has(3)], [true, false, false, true]);
    }

    // The cache changes its mind: what was invalid comes, and goes again.
    cache.replace(Vec::new());
    reconsider(&bird, 0);
    for family in FAMILIES {
        wait_for("routes that are no longer invalid are there", || {
            [1, 2].map(|n| has_route(&network, neighbour.table(family)[n])) == [true, true]
        });
    }
    cache.replace(roas);
    reconsider(&bird, 3);
    for family in FAMILIES {
        wait_for("invalid routes are gone", || {
            [1, 2].map(|n| has_route(&network, neighbour.table(family)[n])) == [false, false]
        });
    }
    forward(&network, &neighbour);
}

/// Waits until BIRD has so many ROAs a family, and has it look at its routes again: by itself it takes its time.
fn reconsider(bird: &Bird, roas: usize) {
    wait_for("what the cache says is known", || {
        let known =
            bird.ask("show route table rpki4 count") + &bird.ask("show route table rpki6 count");
        known.matches(&format!("{roas} of {roas} routes")).count() == 2
    });
    for protocol in ["first4", "first6"] {
        bird.ask(&format!("reload in {protocol}"));
    }
}

/// Packets to some of the networks go where the routes say, past the kernel, until the routes are withdrawn.
fn forward(network: &Network, neighbour: &Neighbour) {
    let _gate = network.start(&network.fast_path("  forward: routed"));
    let servers = network.services(80);
    let samples = [0, 3, 16, 17, 30, 4_001, 9_000, 9_999];
    for family in FAMILIES {
        let table = neighbour.table(family);
        // The networks are at the servers; the last address of each is asked for. A longer prefix in it may lead to the
        // other server: samples with one are none.
        let samples: Vec<(IpAddr, String)> = samples
            .iter()
            .filter(|nth| {
                !table
                    .iter()
                    .any(|other| within_prefix(*other, table[**nth]))
            })
            .map(|nth| {
                let (address, len) = table[*nth];
                for server in &network.servers {
                    let local = format!("route add local {address}/{len} dev lo");
                    server.ip(&[&local]).unwrap();
                }
                (last_of(table[*nth]), format!("s{}", 1 + nth % GROUPS % 2))
            })
            .collect();
        assert!(samples.len() >= 4, "{samples:?}");
        let fetch = |(address, server): &(IpAddr, String)| {
            let said = network.curl(&format!("http://{}/", at(*address, 80)), &[]);
            let expected = format!("{server} {}", family.host(1, 2));
            assert_eq!(said, Ok(expected), "{address}");
        };
        // The kernel finds the neighbours.
        samples.iter().for_each(fetch);
        let kernel = forwarded_by_kernel(network, family);
        let routed = network.counted(Reason::ForwardRoute);
        let to_kernel =
            || [Reason::PassProbe, Reason::PassNoNeighbour].map(|reason| network.counted(reason));
        let passed = to_kernel();
        for _ in 0..3 {
            samples.iter().for_each(fetch);
        }
        let sent = network.counted(Reason::ForwardRoute) - routed;
        assert!(sent >= 3 * 8 * samples.len() as u64, "{sent}");
        let passed: u64 = to_kernel().iter().sum::<u64>() - passed.iter().sum::<u64>();
        assert_eq!(forwarded_by_kernel(network, family) - kernel, passed);
        assert!(passed < 8, "{passed} of {sent}");

        let group = format!("group{}_0", number(family));
        let (gone, _) = &samples[0];
        neighbour.bird.ask(&format!("disable {group}"));
        wait_for("its routes are withdrawn", || !has_route(network, table[0]));
        let url = format!("http://{}/", at(*gone, 80));
        assert!(network.curl(&url, &["-m", "2"]).is_err());
        neighbour.bird.ask(&format!("enable {group}"));
        wait_for("it is announced again", || {
            network.curl(&url, &["-m", "1"]).is_ok()
        });
    }
    drop(servers);
}

fn channel(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

fn number(family: Family) -> u8 {
    match family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}

/// How many routes of a table are not invalid.
fn valid(roas: &[Roa], table: &[Prefix]) -> usize {
    let invalid = |nth: usize, route: Prefix| {
        let mut covering = roas
            .iter()
            .filter(|roa| roa.prefix == route || within_prefix(route, roa.prefix))
            .peekable();
        covering.peek().is_some()
            && !covering.any(|roa| roa.asn == Neighbour::origin(nth) && route.1 <= roa.max)
    };
    let routes = table.iter().enumerate();
    routes
        .filter(|(nth, route)| !invalid(*nth, **route))
        .count()
}

/// Whether one prefix is longer than another and in it.
fn within_prefix(longer: Prefix, prefix: Prefix) -> bool {
    longer.0.is_ipv4() == prefix.0.is_ipv4()
        && longer.1 > prefix.1
        && network_of(longer.0, prefix.1) == prefix.0
}

fn network_of(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => Ipv4Addr::from(u32::from(a) & (u32::MAX << (32 - len))).into(),
        IpAddr::V6(a) => {
            std::net::Ipv6Addr::from(u128::from(a) & (u128::MAX << (128 - len))).into()
        }
    }
}

fn last_of((address, len): Prefix) -> IpAddr {
    match address {
        // Not the broadcast address.
        IpAddr::V4(a) => Ipv4Addr::from((u32::from(a) | (u32::MAX >> len)) - 1).into(),
        IpAddr::V6(a) => std::net::Ipv6Addr::from(u128::from(a) | (u128::MAX >> len)).into(),
    }
}

/// About how many routes the router's kernel has: its own few are among them.
fn in_kernel(network: &Network, family: Family) -> usize {
    match family {
        Family::V4 => {
            let text = of_kernel(network, "fib_triestat");
            let counts = text
                .lines()
                .filter_map(|l| l.trim().strip_prefix("Prefixes:"));
            counts
                .map(|n| n.trim().parse::<usize>().unwrap())
                .max()
                .unwrap_or_default()
        }
        Family::V6 => {
            let text = of_kernel(network, "rt6_stats");
            let entries = text.split_whitespace().nth(3).unwrap();
            usize::from_str_radix(entries, 16).unwrap()
        }
    }
}

fn has_route(network: &Network, (address, len): Prefix) -> bool {
    let prefix = format!("{address}/{len}");
    let family = if address.is_ipv4() { "-4" } else { "-6" };
    let args = [family, "route", "show", "exact", &prefix, "proto", "bird"];
    let (good, text) = run_in(&network.router, "ip", &args);
    assert!(good, "{text}");
    !text.is_empty()
}

/// How many packets the router's kernel has forwarded.
fn forwarded_by_kernel(network: &Network, family: Family) -> u64 {
    match family {
        Family::V4 => {
            let text = of_kernel(network, "snmp");
            let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
            let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
            let mut both = names.split(' ').zip(values.split(' '));
            let (_, value) = both.find(|(name, _)| *name == "ForwDatagrams").unwrap();
            value.parse().unwrap()
        }
        Family::V6 => {
            let text = of_kernel(network, "snmp6");
            let line = text.lines().find(|l| l.starts_with("Ip6OutForwDatagrams"));
            line.unwrap()
                .split_whitespace()
                .nth(1)
                .unwrap()
                .parse()
                .unwrap()
        }
    }
}

fn of_kernel(network: &Network, name: &str) -> String {
    let path = format!("/proc/thread-self/net/{name}");
    network
        .router
        .run(|| std::fs::read_to_string(path).unwrap())
}
