//! What the fast path is told: how it is read, and the mistakes that are found.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop at what it did not expect"
)]

#[macro_use]
mod common;

use std::path::Path;
use std::time::Duration;

use model::{Affinity, Config, FastMode, Forwarding, InterfaceMode, MemorySource, Snat, Transport};

fn config(text: &str) -> Config {
    let parsed = model::parse_text(Path::new("/f.yaml"), text, &MemorySource::default());
    parsed.unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_fast_virtual_needs_few_words() {
    let config = config(
        "
fast_path: {interfaces: eth0}
pools: {p: {members: ['10.0.0.1:80']}}
virtuals: {v: {protocol: fast, listen: '192.0.2.1:80', pool: p}}
",
    );
    let path = config.fast_path.as_ref().unwrap();
    assert_eq!(path.interfaces[0].name.as_str(), "eth0");
    assert_eq!(path.interfaces[0].mode, InterfaceMode::Auto);
    assert_eq!(path.forward, Forwarding::Tracked);
    assert_eq!(path.pin, Path::new("/sys/fs/bpf/headgate"));
    let fast = config.virtuals["v"].fast().unwrap();
    assert_eq!((fast.transport, fast.mode), (Transport::Tcp, FastMode::Nat));
    assert_eq!((fast.snat, fast.affinity), (Snat::None, Affinity::None));
    assert_eq!((fast.idle, fast.pool.as_str()), (None, "p"));
}

#[test]
fn all_that_can_be_said_is_read_and_written_back() {
    let first = config(
        "
fast_path:
  interfaces: [eth0, {name: eth1, mode: native}, {name: eth2, mode: generic}]
  pin: /run/bpf
  tables: {flows_v4: 36_000_291, half_open: 64}
  timeouts: {tcp_syn: 100ms, udp: 7d}
  source_nat:
    - {name: lab, from: 10.0.0.0/8, to: 192.0.2.0/24, out: eth1, translate: {pool: 198.51.100.0/28}, ports: '2000-2999,5000', per_user: 100, hairpin: false}
    - {name: rest, from: ['10.0.0.0/8', 'fd00::/8']}
monitors: {m: {type: tcp, port: 80}}
pools:
  nat: {monitors: m, members: ['10.0.0.1:0', {address: '[fd00::1]:80', weight: 3}]}
  four: {members: ['10.0.0.1:80']}
  six: {members: ['[fd00::1]:0']}
virtuals:
  a:
    protocol: fast
    listen: ['192.0.2.1:8000-8099', '[2001:db8::1]:80']
    snat: {pool: ['192.0.2.16/28', '2001:db8::/112']}
    affinity: {source: {timeout: 10m}}
    idle: 2h
    pool: nat
  b: {protocol: fast, transport: udp, listen: '192.0.2.1:8050', mode: ipip, affinity: source, pool: six}
  c: {protocol: fast, listen: '[2001:db8::1]:81', mode: direct-return, pool: six}
  d: {protocol: fast, listen: '192.0.2.2:1-65535', snat: automap, pool: four}
  e: {protocol: tcp, listen: '192.0.2.1:8100', pool: four}
",
    );
    let again = config(&first.to_json().to_string());
    assert_eq!(first, again);
    let a = first.virtuals["a"].fast().unwrap();
    assert_eq!(a.listen[0].ports(), 8000..=8099);
    assert_eq!(a.idle, Some(Duration::from_secs(7200)));
    assert!(matches!(&a.snat, Snat::Pool(pool) if pool.len() == 2));
    let Affinity::Source(b) = first.virtuals["b"].fast().unwrap().affinity else {
        panic!("no affinity");
    };
    assert_eq!(b.timeout, Duration::from_secs(180));
    assert_eq!(first.virtuals["e"].fast(), None);
    let rules = &first.fast_path.as_ref().unwrap().source_nat;
    assert_eq!(rules[0].ports.count(), 1001);
    assert!(rules[1].ports.contains(1024) && !rules[1].ports.contains(32_768));
}

mistakes! {
fields_of_the_fast_path_on_other_virtuals: r#"
pools: {p: {members: ['10.0.0.1:80']}}
virtuals:
  v:
    listen: ['192.0.2.1:80-81']
    pool: p
    transport: udp
    mode: ipip
    snat: automap
    affinity: source
    idle: 1h
"# => r#"
F:4:14: `192.0.2.1:80-81` is not one address and port: ranges of ports are for virtuals of protocol fast
 4 |     listen: ['192.0.2.1:80-81']
   |              ^^^^^^^^^^^^^^^^^
F:6:5: `transport` has no place here: it is for virtuals of protocol fast
 6 |     transport: udp
   |     ^^^^^^^^^
F:7:5: `mode` has no place here: it is for virtuals of protocol fast
 7 |     mode: ipip
   |     ^^^^
F:8:5: `snat` has no place here: it is for virtuals of protocol fast
 8 |     snat: automap
   |     ^^^^
F:9:5: `affinity` has no place here: it is for virtuals of protocol fast
 9 |     affinity: source
   |     ^^^^^^^^
F:10:5: `idle` has no place here: it is for virtuals of protocol fast
 10 |     idle: 1h
    |     ^^^^
"#

fields_of_others_on_a_fast_virtual: r#"
fast_path: {interfaces: eth0}
pools: {p: {members: ['10.0.0.1:80']}}
rules: {r: {text: 'when CLIENT_ACCEPTED {}'}}
virtuals:
  v:
    protocol: fast
    listen: 192.0.2.1:80
    pool: p
    rules: r
    routes: [{respond: {}}]
    limits: {connections: 5}
    timeouts: {idle: 5s}
    allow: 10.0.0.0/8
    log: {access: off}
"# => r#"
F:9:5: `rules` has no place here: virtuals of protocol fast pass packets on, and end no connection
 9 |     rules: r
   |     ^^^^^
F:10:5: `routes` has no place here: virtuals of protocol fast pass packets on, and end no connection
 10 |     routes: [{respond: {}}]
    |     ^^^^^^
F:11:5: `limits` has no place here: virtuals of protocol fast pass packets on, and end no connection
 11 |     limits: {connections: 5}
    |     ^^^^^^
F:12:5: `timeouts` has no place here: virtuals of protocol fast pass packets on, and end no connection
 12 |     timeouts: {idle: 5s}
    |     ^^^^^^^^
F:13:5: `allow` has no place here: virtuals of protocol fast pass packets on, and end no connection
 13 |     allow: 10.0.0.0/8
    |     ^^^^^
F:14:5: `log` has no place here: virtuals of protocol fast pass packets on, and end no connection
 14 |     log: {access: off}
    |     ^^^
"#

a_fast_virtual_without_fast_path: r#"
pools: {p: {members: ['10.0.0.1:80']}}
virtuals:
  v: {listen: '192.0.2.1:80', protocol: fast, pool: p}
"# => r#"
F:3:31: virtuals of protocol fast need a `fast_path` with its `interfaces`
 3 |   v: {listen: '192.0.2.1:80', protocol: fast, pool: p}
   |                               ^^^^^^^^
"#

a_fast_virtual_without_a_pool: r#"
fast_path: {interfaces: eth0}
virtuals:
  v: {listen: '192.0.2.1:80', protocol: fast}
"# => r#"
F:3:6: a virtual of protocol fast needs a `pool`
 3 |   v: {listen: '192.0.2.1:80', protocol: fast}
   |      ^
"#

addresses_that_are_no_machines: r#"
fast_path: {interfaces: eth0}
pools: {p: {members: []}}
virtuals:
  v:
    protocol: fast
    pool: p
    listen: ['0.0.0.0:80', '[::]:80', '224.0.0.1:80', '192.0.2.1:0', '[::ffff:192.0.2.1]:80', '[fe80::1%2]:80']
"# => r#"
F:7:14: `0.0.0.0:80` is not an address and port of one machine, as a virtual of protocol fast needs
 7 |     listen: ['0.0.0.0:80', '[::]:80', '224.0.0.1:80', '192.0.2.1:0', '[::ffff:192.0.2.1]:80', '[fe80::1%2]:80']
   |              ^^^^^^^^^^^^
F:7:28: `[::]:80` is not an address and port of one machine, as a virtual of protocol fast needs
 7 |     listen: ['0.0.0.0:80', '[::]:80', '224.0.0.1:80', '192.0.2.1:0', '[::ffff:192.0.2.1]:80', '[fe80::1%2]:80']
   |                            ^^^^^^^^^
F:7:39: `224.0.0.1:80` is not an address and port of one machine, as a virtual of protocol fast needs
 7 |     listen: ['0.0.0.0:80', '[::]:80', '224.0.0.1:80', '192.0.2.1:0', '[::ffff:192.0.2.1]:80', '[fe80::1%2]:80']
   |                                       ^^^^^^^^^^^^^^
F:7:55: `192.0.2.1:0` is not an address and port of one machine, as a virtual of protocol fast needs
 7 |     listen: ['0.0.0.0:80', '[::]:80', '224.0.0.1:80', '192.0.2.1:0', '[::ffff:192.0.2.1]:80', '[fe80::1%2]:80']
   |                                                       ^^^^^^^^^^^^^
F:7:70: `[::ffff:192.0.2.1]:80` is not an address and port of one machine, as a virtual of protocol fast needs
 7 |     listen: ['0.0.0.0:80', '[::]:80', '224.0.0.1:80', '192.0.2.1:0', '[::ffff:192.0.2.1]:80', '[fe80::1%2]:80']
   |                                                                      ^^^^^^^^^^^^^^^^^^^^^^^
F:7:95: `[fe80::1%2]:80` is not an address and port of one machine, as a virtual of protocol fast needs
 7 |     listen: ['0.0.0.0:80', '[::]:80', '224.0.0.1:80', '192.0.2.1:0', '[::ffff:192.0.2.1]:80', '[fe80::1%2]:80']
   |                                                                                               ^^^^^^^^^^^^^^^^
"#

a_range_that_ends_before_it_begins: r#"
virtuals:
  v: {protocol: fast, listen: 192.0.2.1:9-8, pool: p}
pools: {p: {members: []}}
"# => r#"
F:2:31: `192.0.2.1:9-8` is not an IP address with a port, such as `127.0.0.1:8080` or `[::]:8080`
 2 |   v: {protocol: fast, listen: 192.0.2.1:9-8, pool: p}
   |                               ^^^^^^^^^^^^^
"#

no_interface: r#"
fast_path: {interfaces: []}
"# => r#"
F:1:13: the fast path needs at least one interface
 1 | fast_path: {interfaces: []}
   |             ^^^^^^^^^^
"#

mistakes_in_interfaces: r#"
fast_path: {interfaces: [eth0, {name: eth0}, a-name-that-is-too-long, {name: eth1, mode: naive}]}
"# => r#"
F:1:46: `a-name-that-is-too-long` is not the name of a network interface: at most 15 bytes, without spaces, `/` and `:`
 1 | fast_path: {interfaces: [eth0, {name: eth0}, a-name-that-is-too-long, {name: eth1, mode: naive}]}
   |                                              ^^^^^^^^^^^^^^^^^^^^^^^
F:1:90: unknown interface mode `naive`; did you mean `native`?
 1 | fast_path: {interfaces: [eth0, {name: eth0}, a-name-that-is-too-long, {name: eth1, mode: naive}]}
   |                                                                                          ^^^^^
"#

one_interface_twice: r#"
fast_path: {interfaces: [eth0, {name: eth0}]}
"# => r#"
F:1:39: `eth0` is given twice; the first is at F:1:26
 1 | fast_path: {interfaces: [eth0, {name: eth0}]}
   |                                       ^^^^
"#

capacities_and_timeouts_out_of_range: r#"
fast_path:
  interfaces: eth0
  tables: {flows_v4: 10, shuns: 5_000_000_000}
  timeouts: {tcp_syn: 30, udp: 1ms, tcp_established: 8d}
"# => r#"
F:3:22: `10` is out of range: from 64 to 268435456
 3 |   tables: {flows_v4: 10, shuns: 5_000_000_000}
   |                      ^^
F:3:33: `5_000_000_000` is out of range: from 0 to 4294967295
 3 |   tables: {flows_v4: 10, shuns: 5_000_000_000}
   |                                 ^^^^^^^^^^^^^
F:4:23: `30` is not a duration with its unit, such as `250ms`, `2s`, `1m30s` or `1h`
 4 |   timeouts: {tcp_syn: 30, udp: 1ms, tcp_established: 8d}
   |                       ^^
F:4:32: `1ms` is out of range: from 100ms to 7d
 4 |   timeouts: {tcp_syn: 30, udp: 1ms, tcp_established: 8d}
   |                                ^^^
F:4:54: `8d` is out of range: from 100ms to 7d
 4 |   timeouts: {tcp_syn: 30, udp: 1ms, tcp_established: 8d}
   |                                                      ^^
"#

mistakes_in_source_nat: r#"
fast_path:
  interfaces: eth0
  source_nat:
    - {name: a, from: [], translate: {pool: []}}
    - {name: a, from: 10.0.0.0/8, out: eth1, ports: '0-5'}
    - {name: b, from: 10.0.0.0/8, translate: masquerad}
"# => r#"
F:5:53: `0-5` is not ports from 1 to 65535 in at most 8 ranges, such as `1024-32767,61000-65535`
 5 |     - {name: a, from: 10.0.0.0/8, out: eth1, ports: '0-5'}
   |                                                     ^^^^^
F:6:46: unknown translation `masquerad`; did you mean `masquerade`?
 6 |     - {name: b, from: 10.0.0.0/8, translate: masquerad}
   |                                              ^^^^^^^^^
"#

source_nat_that_never_takes_place: r#"
fast_path:
  interfaces: eth0
  source_nat:
    - {name: a, from: [], translate: {pool: []}}
    - {name: a, from: 10.0.0.0/8, out: eth1, translate: {pool: [10.0.0.0/8, 192.0.2.0/28, 192.0.2.1, 'ff02::/112', 192.0.2.0/27]}}
"# => r#"
F:4:17: source NAT needs the sources that it is for
 4 |     - {name: a, from: [], translate: {pool: []}}
   |                 ^^^^
F:4:27: a pool of addresses needs from 1 to 64 prefixes
 4 |     - {name: a, from: [], translate: {pool: []}}
   |                           ^^^^^^^^^
F:5:14: `a` is given twice; the first is at F:4:14
 5 |     - {name: a, from: 10.0.0.0/8, out: eth1, translate: {pool: [10.0.0.0/8, 192.0.2.0/28, 192.0.2.1, 'ff02::/112', 192.0.2.0/27]}}
   |              ^
F:5:40: `eth1` is not an interface of the fast path
 5 |     - {name: a, from: 10.0.0.0/8, out: eth1, translate: {pool: [10.0.0.0/8, 192.0.2.0/28, 192.0.2.1, 'ff02::/112', 192.0.2.0/27]}}
   |                                        ^^^^
F:5:65: `10.0.0.0/8` is not a prefix of at most 65,536 addresses: from /16 on, of IPv6 from /112 on
 5 |     - {name: a, from: 10.0.0.0/8, out: eth1, translate: {pool: [10.0.0.0/8, 192.0.2.0/28, 192.0.2.1, 'ff02::/112', 192.0.2.0/27]}}
   |                                                                 ^^^^^^^^^^
F:5:91: `192.0.2.1/32` is given twice; the first is at F:5:77
 5 |     - {name: a, from: 10.0.0.0/8, out: eth1, translate: {pool: [10.0.0.0/8, 192.0.2.0/28, 192.0.2.1, 'ff02::/112', 192.0.2.0/27]}}
   |                                                                                           ^^^^^^^^^
F:5:102: `ff02::/112` is not a prefix of addresses that machines can have
 5 |     - {name: a, from: 10.0.0.0/8, out: eth1, translate: {pool: [10.0.0.0/8, 192.0.2.0/28, 192.0.2.1, 'ff02::/112', 192.0.2.0/27]}}
   |                                                                                                      ^^^^^^^^^^^^
F:5:116: `192.0.2.0/27` is given twice; the first is at F:5:77
 5 |     - {name: a, from: 10.0.0.0/8, out: eth1, translate: {pool: [10.0.0.0/8, 192.0.2.0/28, 192.0.2.1, 'ff02::/112', 192.0.2.0/27]}}
   |                                                                                                                    ^^^^^^^^^^^^
"#

source_nat_without_tracking: r#"
fast_path:
  interfaces: eth0
  forward: routed
  source_nat: {name: a, from: 10.0.0.0/8}
"# => r#"
F:4:3: `source_nat` has no place here: it needs `forward: tracked`
 4 |   source_nat: {name: a, from: 10.0.0.0/8}
   |   ^^^^^^^^^^
"#

source_nat_between_families: r#"
fast_path:
  interfaces: eth0
  source_nat:
    - {name: a, from: ['10.0.0.0/8', 'fd00::/8'], translate: {pool: 192.0.2.1}}
    - {name: b, from: 10.0.0.0/8, translate: {pool: ['192.0.2.1', '2001:db8::1']}}
    - {name: c, from: 10.0.0.0/8, to: '2001:db8::/32'}
    - {name: d, from: [inside], to: 192.0.2.0/24, translate: {pool: '2001:db8::1'}}
address_lists: {inside: ['10.0.0.0/8', 'fd00::/8']}
"# => r#"
F:4:51: IPv6 packets are translated, but the pool has no IPv6 address
 4 |     - {name: a, from: ['10.0.0.0/8', 'fd00::/8'], translate: {pool: 192.0.2.1}}
   |                                                   ^^^^^^^^^
F:5:67: `2001:db8::1` is not of use: no packet of this family is translated here
 5 |     - {name: b, from: 10.0.0.0/8, translate: {pool: ['192.0.2.1', '2001:db8::1']}}
   |                                                                   ^^^^^^^^^^^^^
F:6:35: nothing goes from one to the other: `from` and `to` share neither IPv4 nor IPv6
 6 |     - {name: c, from: 10.0.0.0/8, to: '2001:db8::/32'}
   |                                   ^^
F:7:51: IPv4 packets are translated, but the pool has no IPv4 address
 7 |     - {name: d, from: [inside], to: 192.0.2.0/24, translate: {pool: '2001:db8::1'}}
   |                                                   ^^^^^^^^^
F:7:69: `2001:db8::1` is not of use: no packet of this family is translated here
 7 |     - {name: d, from: [inside], to: 192.0.2.0/24, translate: {pool: '2001:db8::1'}}
   |                                                                     ^^^^^^^^^^^^^
"#

members_that_a_mode_cannot_reach: r#"
fast_path: {interfaces: eth0}
pools:
  names: {members: ['app.internal:80']}
  six: {members: ['10.0.0.1:80', '[fd00::1]:80']}
  ports: {members: ['10.0.0.1:81', {address: '10.0.0.2:80', name: b}, '10.0.0.3:0']}
virtuals:
  a: {protocol: fast, listen: '192.0.2.1:80', pool: names, mode: ipip}
  b: {protocol: fast, listen: ['192.0.2.2:80'], pool: six}
  c: {protocol: fast, listen: ['192.0.2.3:80'], pool: ports, mode: direct-return}
  d: {protocol: fast, listen: ['192.0.2.4:80-81'], pool: ports, mode: ipip}
  e: {protocol: fast, listen: ['192.0.2.5:80', '[2001:db8::5]:80-81'], pool: ports}
"# => r#"
F:3:21: `app.internal:80` cannot serve the virtual `a`: the fast path has no host names; write the addresses
 3 |   names: {members: ['app.internal:80']}
   |                     ^^^^^^^^^^^^^^^^^
F:4:34: `[fd00::1]:80` cannot serve the virtual `b`: none of its addresses is of this family, and only `mode: ipip` leads from IPv4 to IPv6 or back
 4 |   six: {members: ['10.0.0.1:80', '[fd00::1]:80']}
   |                                  ^^^^^^^^^^^^^^
F:5:21: `10.0.0.1:81` cannot serve the virtual `c`: its port is not the virtual's, and only `mode: nat` translates ports; port 0 stands for the virtual's
 5 |   ports: {members: ['10.0.0.1:81', {address: '10.0.0.2:80', name: b}, '10.0.0.3:0']}
   |                     ^^^^^^^^^^^^^
F:5:21: `10.0.0.1:81` cannot serve the virtual `d`: its port is not the virtual's, and only `mode: nat` translates ports; port 0 stands for the virtual's
 5 |   ports: {members: ['10.0.0.1:81', {address: '10.0.0.2:80', name: b}, '10.0.0.3:0']}
   |                     ^^^^^^^^^^^^^
F:5:46: `10.0.0.2:80` cannot serve the virtual `d`: its port is not the virtual's, and only `mode: nat` translates ports; port 0 stands for the virtual's
 5 |   ports: {members: ['10.0.0.1:81', {address: '10.0.0.2:80', name: b}, '10.0.0.3:0']}
   |                                              ^^^^^^^^^^^^^
F:11:48: `[2001:db8::5]:80-81` is not served: no member of the pool is of this family, and only `mode: ipip` leads from IPv4 to IPv6 or back
 11 |   e: {protocol: fast, listen: ['192.0.2.5:80', '[2001:db8::5]:80-81'], pool: ports}
    |                                                ^^^^^^^^^^^^^^^^^^^^^
"#

port_0_where_none_is_asked_for: r#"
fast_path: {interfaces: eth0}
monitors: {m: {type: tcp}, n: {type: tcp, port: 80}}
pools:
  both: {members: ['10.0.0.1:0']}
  none: {members: [{address: '10.0.0.1:0', name: a}]}
  asked: {monitors: [n, m], members: ['10.0.0.1:0', {address: '10.0.0.2:0', monitors: n}, '10.0.0.3:80']}
virtuals:
  a: {protocol: fast, listen: '192.0.2.1:80', pool: both}
  b: {listen: '192.0.2.2:80', routes: [{pool: both}]}
  c: {protocol: fast, listen: '192.0.2.3:80', pool: asked}
"# => r#"
F:4:20: `10.0.0.1:0` cannot serve the virtual `b`: port 0 stands for the virtual's port with protocol fast alone
 4 |   both: {members: ['10.0.0.1:0']}
   |                    ^^^^^^^^^^^^
F:5:30: `10.0.0.1:0` is not usable: port 0 stands for the virtual's port in pools of virtuals of protocol fast
 5 |   none: {members: [{address: '10.0.0.1:0', name: a}]}
   |                              ^^^^^^^^^^^^
F:6:39: `10.0.0.1:0` is not monitored: with port 0, its monitors need a `port` of their own
 6 |   asked: {monitors: [n, m], members: ['10.0.0.1:0', {address: '10.0.0.2:0', monitors: n}, '10.0.0.3:80']}
   |                                       ^^^^^^^^^^^^
"#

snat_without_nat_and_of_another_family: r#"
fast_path: {interfaces: eth0}
pools: {p: {members: []}}
virtuals:
  a: {protocol: fast, listen: '192.0.2.1:80', pool: p, mode: ipip, snat: automap}
  b: {protocol: fast, listen: ['192.0.2.2:80', '[2001:db8::2]:80'], pool: p, snat: {pool: 192.0.2.9}}
  c: {protocol: fast, listen: 192.0.2.3:80, pool: p, snat: {pool: [192.0.2.9, '2001:db8::9']}}
  d: {protocol: fast, listen: 192.0.2.4:80, pool: p, snat: {pool: []}}
"# => r#"
F:4:68: `snat` has no place here: members answer clients themselves; it is for `mode: nat`
 4 |   a: {protocol: fast, listen: '192.0.2.1:80', pool: p, mode: ipip, snat: automap}
   |                                                                    ^^^^
F:5:78: IPv6 packets are translated, but the pool has no IPv6 address
 5 |   b: {protocol: fast, listen: ['192.0.2.2:80', '[2001:db8::2]:80'], pool: p, snat: {pool: 192.0.2.9}}
   |                                                                              ^^^^
F:6:79: `2001:db8::9` is not of use: no packet of this family is translated here
 6 |   c: {protocol: fast, listen: 192.0.2.3:80, pool: p, snat: {pool: [192.0.2.9, '2001:db8::9']}}
   |                                                                               ^^^^^^^^^^^^^
F:7:54: a pool of addresses needs from 1 to 64 prefixes
 7 |   d: {protocol: fast, listen: 192.0.2.4:80, pool: p, snat: {pool: []}}
   |                                                      ^^^^
"#

ports_that_overlap: r#"
fast_path: {interfaces: eth0}
pools: {p: {members: []}}
virtuals:
  a: {protocol: fast, listen: ['192.0.2.1:80-89', '192.0.2.1:85-95'], pool: p}
  b: {protocol: fast, listen: '192.0.2.1:70-80', transport: udp, pool: p}
  c: {protocol: fast, listen: ['192.0.2.1:60-99', '192.0.2.1:90'], pool: p}
  d: {protocol: tcp, listen: ['192.0.2.1:82', '192.0.2.1:91', '192.0.2.2:82'], pool: p}
"# => r#"
F:4:51: `192.0.2.1:85-89` is already listened on at F:4:32
 4 |   a: {protocol: fast, listen: ['192.0.2.1:80-89', '192.0.2.1:85-95'], pool: p}
   |                                                   ^^^^^^^^^^^^^^^^^
F:6:32: `192.0.2.1:80-89` is already listened on at F:4:32
 6 |   c: {protocol: fast, listen: ['192.0.2.1:60-99', '192.0.2.1:90'], pool: p}
   |                                ^^^^^^^^^^^^^^^^^
F:7:31: `192.0.2.1:82` is already listened on at F:4:32
 7 |   d: {protocol: tcp, listen: ['192.0.2.1:82', '192.0.2.1:91', '192.0.2.2:82'], pool: p}
   |                               ^^^^^^^^^^^^^^
"#

a_port_of_the_admin_interface: r#"
fast_path: {interfaces: eth0}
pools: {p: {members: []}}
virtuals:
  a: {protocol: fast, listen: '127.0.0.1:1-65535', pool: p}
admin: {listen: '127.0.0.1:9900', insecure_no_token: true}
"# => r#"
F:4:31: `127.0.0.1:9900` is already listened on at F:5:17
 4 |   a: {protocol: fast, listen: '127.0.0.1:1-65535', pool: p}
   |                               ^^^^^^^^^^^^^^^^^^^
"#

ranges_beyond_what_is_looked_through: r#"
fast_path: {interfaces: eth0}
pools: {p: {members: []}}
virtuals:
  a:
    protocol: fast
    pool: p
    listen: [192.0.2.1:1-2, 192.0.2.1:4-5, 192.0.2.1:7-8, 192.0.2.1:10-11, 192.0.2.1:13-14, 192.0.2.1:16-17, 192.0.2.1:19-20, 192.0.2.1:22-23]
  b:
    protocol: fast
    pool: p
    listen: [192.0.2.1:101-102, 192.0.2.1:104-105, 192.0.2.1:107-108, 192.0.2.1:110-111, 192.0.2.1:113-114, 192.0.2.1:116-117, 192.0.2.1:119-120, 192.0.2.1:122-123]
  c: {protocol: fast, pool: p, listen: [192.0.2.1:200, 192.0.2.1:201-202, 192.0.2.2:201-202]}
"# => r#"
F:12:56: one address takes at most 16 ranges of ports; list single ports, or join ranges
 12 |   c: {protocol: fast, pool: p, listen: [192.0.2.1:200, 192.0.2.1:201-202, 192.0.2.2:201-202]}
    |                                                        ^^^^^^^^^^^^^^^^^
"#

an_affinity_that_is_unknown: r#"
fast_path: {interfaces: eth0}
pools: {p: {members: []}}
virtuals:
  a: {protocol: fast, listen: '192.0.2.1:80', pool: p, affinity: sorce, snat: pool, transport: sctp}
"# => r#"
F:4:66: unknown affinity `sorce`; did you mean `source`?
 4 |   a: {protocol: fast, listen: '192.0.2.1:80', pool: p, affinity: sorce, snat: pool, transport: sctp}
   |                                                                  ^^^^^
F:4:79: `pool` is not complete: it carries a value, and is written `{pool: …}`
 4 |   a: {protocol: fast, listen: '192.0.2.1:80', pool: p, affinity: sorce, snat: pool, transport: sctp}
   |                                                                               ^^^^
F:4:96: unknown transport `sctp`; there are `tcp`, `udp`
 4 |   a: {protocol: fast, listen: '192.0.2.1:80', pool: p, affinity: sorce, snat: pool, transport: sctp}
   |                                                                                                ^^^^
"#

}
