//! What is checked of the fast path: interfaces, source NAT, and virtuals of protocol fast with their pools.

use std::collections::HashMap;
use std::net::IpAddr;

use addr::Prefix;

use super::Verdict;
use crate::config::{
    Action, Config, FastMode, FastPath, FastVirtual, Forwarding, HeaderPolicy, Member, Pool, Snat,
    SourceNat, Translation, Virtual, VirtualLimits, VirtualLog, VirtualTimeouts,
};
use crate::error::ErrorKind;
use crate::node::Node;
use crate::setting::{Context, shorten};
use crate::{InterfaceName, Listen, MemberAddress};

/// Prefixes of one pool of addresses.
const MOST_PREFIXES: usize = 64;
/// Bits of an address that its prefix in such a pool may leave open.
const MOST_OPEN_BITS: u8 = 16;

pub(crate) fn fast_path(path: &FastPath, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    if path.interfaces.is_empty() {
        good.needs("interfaces", "the fast path needs at least one interface");
    }
    if path.forward != Forwarding::Tracked && !path.source_nat.is_empty() {
        good.misplaced("source_nat", "it needs `forward: tracked`");
    }
    let mut good = good.good;
    let interfaces = path.interfaces.iter();
    let names = interfaces.map(|interface| interface.name.to_string());
    good &= no_name_twice(names, items(node, "interfaces"), cx);
    let names = path.source_nat.iter().map(|rule| rule.name.to_string());
    good &= no_name_twice(names, items(node, "source_nat"), cx);
    for (rule, node) in path.source_nat.iter().zip(items(node, "source_nat")) {
        let mut verdict = Verdict { node, cx, good };
        if rule.from.is_empty() {
            verdict.needs("from", "source NAT needs the sources that it is for");
        }
        let known = |out: &InterfaceName| path.interfaces.iter().any(|one| one.name == *out);
        if let Some(out) = rule.out.as_ref().filter(|out| !known(out)) {
            verdict.bad_value("out", out.as_str(), "an interface of the fast path");
        }
        good = verdict.good;
        if let Translation::Pool(prefixes) = &rule.translate {
            good &= addresses(prefixes, node, "translate", cx);
        }
    }
    good
}

/// Reports what virtuals of other protocols cannot have.
pub(super) fn no_fast_virtual(server: &Virtual, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = true;
    for (listen, node) in server.listen.iter().zip(items(node, "listen")) {
        if listen.is_range() {
            let expected =
                "one address and port: ranges of ports are for virtuals of protocol fast";
            cx.bad_value(node, expected);
            good = false;
        }
    }
    let mut good = Verdict { node, cx, good };
    for field in ["transport", "mode", "snat", "affinity", "idle"] {
        good.misplaced(field, "it is for virtuals of protocol fast");
    }
    good.good
}

pub(super) fn fast_virtual(server: &Virtual, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    for (field, given) in [
        ("tls", server.tls.is_some()),
        ("proxy_protocol", server.proxy_protocol.is_some()),
        ("trusted_proxies", !server.trusted_proxies.is_empty()),
        ("allow", !server.allow.is_empty()),
        ("deny", !server.deny.is_empty()),
        ("rules", !server.rules.is_empty()),
        ("routes", !server.routes.is_empty()),
        ("sni_routes", !server.sni_routes.is_empty()),
        ("headers", server.headers != HeaderPolicy::default()),
        ("limits", server.limits != VirtualLimits::default()),
        ("timeouts", server.timeouts != VirtualTimeouts::default()),
        ("log", server.log != VirtualLog::default()),
    ] {
        if given {
            good.misplaced(
                field,
                "virtuals of protocol fast pass packets on, and end no connection",
            );
        }
    }
    let Some(fast) = server.fast() else {
        good.needs("", "a virtual of protocol fast needs a `pool`");
        return false;
    };
    if fast.mode != FastMode::Nat && fast.snat != Snat::None {
        good.misplaced(
            "snat",
            "members answer clients themselves; it is for `mode: nat`",
        );
        return false;
    }
    let mut good = good.good;
    for (listen, node) in fast.listen.iter().zip(items(node, "listen")) {
        if !is_own(listen) {
            let expected =
                "an address and port of one machine, as a virtual of protocol fast needs";
            cx.bad_value(node, expected);
            good = false;
        }
    }
    if let Snat::Pool(prefixes) = &fast.snat {
        let listens = Families::of(fast.listen.iter().map(Listen::address));
        good &=
            addresses(prefixes, node, "snat", cx) && covers(prefixes, listens, node, "snat", cx);
    }
    good
}

/// What virtuals, pools and source NAT cannot tell by themselves.
pub(crate) fn services(config: &Config, root: &Node, cx: &mut Context<'_>) {
    for (name, server) in &config.virtuals {
        let node = entry(root, "virtuals", name);
        if let (Some(fast), Some(node)) = (server.fast(), node) {
            if config.fast_path.is_none() {
                let what = "virtuals of protocol fast need a `fast_path` with its `interfaces`";
                cx.error(node.key_span("protocol"), ErrorKind::Needs(what));
            }
            if let Some(pool) = config.pools.get(fast.pool.as_str()) {
                members(name, &fast, pool, (root, node), cx);
            }
        }
    }
    for (name, pool) in &config.pools {
        member_ports(config, name, pool, root, cx);
    }
    let rules = config.fast_path.iter().flat_map(|path| &path.source_nat);
    let nodes = root
        .get("fast_path")
        .map_or(&[][..], |node| items(node, "source_nat"));
    for (rule, node) in rules.zip(nodes) {
        source_nat(config, rule, node, cx);
    }
}

/// The members of a fast virtual can be reached in its mode.
fn members(
    name: &str,
    fast: &FastVirtual<'_>,
    pool: &Pool,
    (root, server): (&Node, &Node),
    cx: &mut Context<'_>,
) {
    let listens = Families::of(fast.listen.iter().map(Listen::address));
    let mut served = Families::default();
    for (member, node) in pool.members.iter().zip(member_nodes(root, fast.pool)) {
        let MemberAddress::Socket(address) = member.address else {
            let why = "the fast path has no host names; write the addresses";
            unusable(member, node, name, why, cx);
            continue;
        };
        served.add(address.ip());
        if fast.mode != FastMode::Ipip && !listens.has(address.ip()) {
            let why = "none of its addresses is of this family, and only `mode: ipip` leads from IPv4 to IPv6 or back";
            unusable(member, node, name, why, cx);
        }
        let own = |listen: &Listen| listen.ports() == (address.port()..=address.port());
        let rewritten = address.port() > 0 && !fast.listen.iter().all(own);
        if fast.mode != FastMode::Nat && rewritten {
            let why = "its port is not the virtual's, and only `mode: nat` translates ports; port 0 stands for the virtual's";
            unusable(member, node, name, why, cx);
        }
    }
    if fast.mode == FastMode::Ipip || pool.members.is_empty() {
        return;
    }
    for (listen, node) in fast.listen.iter().zip(items(server, "listen")) {
        if !served.has(listen.address()) {
            let expected = "served: no member of the pool is of this family, and only `mode: ipip` leads from IPv4 to IPv6 or back";
            cx.bad_value(node, expected);
        }
    }
}

/// Port 0, for the virtual's own, is used only where there is one virtual's port to stand for.
fn member_ports(config: &Config, name: &str, pool: &Pool, root: &Node, cx: &mut Context<'_>) {
    let uses = |server: &&Virtual| {
        let routes = server
            .routes
            .iter()
            .filter_map(|route| match &route.action {
                Action::Pool(pool) => Some(pool),
                _ => None,
            });
        let by_name = server.sni_routes.iter().map(|route| &route.pool);
        let mut pools = server.pool.iter().chain(routes).chain(by_name);
        pools.any(|pool| pool.as_str() == name)
    };
    for (member, node) in pool.members.iter().zip(member_nodes(root, name)) {
        if member.address.port() > 0 {
            continue;
        }
        let mut fast = false;
        for (service, server) in config.virtuals.iter().filter(|(_, server)| uses(server)) {
            fast |= server.fast().is_some();
            if server.fast().is_none() {
                let why = "port 0 stands for the virtual's port with protocol fast alone";
                unusable(member, node, service, why, cx);
            }
        }
        if !fast {
            let expected = "usable: port 0 stands for the virtual's port in pools of virtuals of protocol fast";
            bad_member(member, node, expected, cx);
        }
        let monitors = member.monitors.as_ref().unwrap_or(&pool.monitors);
        let mut monitors = monitors
            .iter()
            .filter_map(|m| config.monitors.get(m.as_str()));
        if monitors.any(|monitor| monitor.port.is_none()) {
            let expected = "monitored: with port 0, its monitors need a `port` of their own";
            bad_member(member, node, expected, cx);
        }
    }
}

/// A rule of source NAT has addresses for those it is for, and no others.
fn source_nat(config: &Config, rule: &SourceNat, node: &Node, cx: &mut Context<'_>) {
    let families = |entries| {
        let prefixes = config.prefix_set(entries).prefixes();
        Families::of(prefixes.iter().map(Prefix::network))
    };
    let mut needed = families(&rule.from);
    // a list that is empty for now, such as a feed, is no mistake
    if needed == Families::default() {
        return;
    }
    if !rule.to.is_empty() {
        let to = families(&rule.to);
        needed.v4 &= to.v4;
        needed.v6 &= to.v6;
        if needed == Families::default() {
            let what =
                "nothing goes from one to the other: `from` and `to` share neither IPv4 nor IPv6";
            cx.error(node.key_span("to"), ErrorKind::Needs(what));
            return;
        }
    }
    if let Translation::Pool(prefixes) = &rule.translate {
        covers(prefixes, needed, node, "translate", cx);
    }
}

/// Which families there are.
#[derive(Clone, Copy, Default, PartialEq)]
struct Families {
    v4: bool,
    v6: bool,
}

impl Families {
    fn of(addresses: impl Iterator<Item = IpAddr>) -> Self {
        let mut families = Self::default();
        addresses.for_each(|address| families.add(address));
        families
    }

    fn add(&mut self, address: IpAddr) {
        self.v4 |= address.is_ipv4();
        self.v6 |= address.is_ipv6();
    }

    fn has(self, address: IpAddr) -> bool {
        if address.is_ipv4() { self.v4 } else { self.v6 }
    }
}

/// Whether packets to `listen` are packets to one machine, on a port.
fn is_own(listen: &Listen) -> bool {
    let mapped = listen.address().to_canonical() != listen.address();
    let scoped =
        matches!(listen.socket(), std::net::SocketAddr::V6(address) if address.scope_id() > 0);
    !mapped && !scoped && is_unicast(listen.address()) && listen.socket().port() > 0
}

fn is_unicast(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::from([255; 4]);
    !(address.is_unspecified() || address.is_multicast() || broadcast)
}

/// The addresses of `field`, which are `{pool: prefixes}`, can be translated to.
fn addresses(prefixes: &[Prefix], node: &Node, field: &str, cx: &mut Context<'_>) -> bool {
    let mut good = true;
    if prefixes.is_empty() || prefixes.len() > MOST_PREFIXES {
        let what = "a pool of addresses needs from 1 to 64 prefixes";
        cx.error(node.key_span(field), ErrorKind::Needs(what));
        good = false;
    }
    let nodes = node.get(field).map_or(&[][..], |node| items(node, "pool"));
    for (index, (prefix, node)) in prefixes.iter().zip(nodes).enumerate() {
        let width = if prefix.network().is_ipv4() { 32 } else { 128 };
        let mut earlier = prefixes[..index].iter().zip(nodes);
        let twice = |one: &Prefix| one.contains(prefix.network()) || prefix.contains(one.network());
        if width - prefix.len() > MOST_OPEN_BITS {
            let expected =
                "a prefix of at most 65,536 addresses: from /16 on, of IPv6 from /112 on";
            cx.bad_value(node, expected);
        } else if !is_unicast(prefix.network()) {
            cx.bad_value(node, "a prefix of addresses that machines can have");
        } else if let Some((_, first)) = earlier.find(|(one, _)| twice(one)) {
            let first = cx.place(first.span);
            let name = shorten(&prefix.to_string());
            cx.error(node.span, ErrorKind::Duplicate { name, first });
        } else {
            continue;
        }
        good = false;
    }
    good
}

/// The addresses of `field` are of those families that are needed, and of no others.
fn covers(
    prefixes: &[Prefix],
    needed: Families,
    node: &Node,
    field: &str,
    cx: &mut Context<'_>,
) -> bool {
    let mut good = true;
    let have = Families::of(prefixes.iter().map(Prefix::network));
    for (missing, what) in [
        (
            needed.v4 && !have.v4,
            "IPv4 packets are translated, but the pool has no IPv4 address",
        ),
        (
            needed.v6 && !have.v6,
            "IPv6 packets are translated, but the pool has no IPv6 address",
        ),
    ] {
        if missing {
            cx.error(node.key_span(field), ErrorKind::Needs(what));
            good = false;
        }
    }
    let nodes = node.get(field).map_or(&[][..], |node| items(node, "pool"));
    for (prefix, node) in prefixes.iter().zip(nodes) {
        if !needed.has(prefix.network()) {
            cx.bad_value(node, "of use: no packet of this family is translated here");
            good = false;
        }
    }
    good
}

fn no_name_twice(
    names: impl Iterator<Item = String>,
    nodes: &[Node],
    cx: &mut Context<'_>,
) -> bool {
    let mut first = HashMap::new();
    let mut good = true;
    for (name, node) in names.zip(nodes) {
        let span = node.get("name").unwrap_or(node).span;
        if let Some(&first) = first.get(&name) {
            let first = cx.place(first);
            cx.error(span, ErrorKind::Duplicate { name, first });
            good = false;
        } else {
            first.insert(name, span);
        }
    }
    good
}

fn unusable(member: &Member, node: &Node, service: &str, why: &'static str, cx: &mut Context<'_>) {
    let kind = ErrorKind::UnusableMember {
        member: member.address.to_string(),
        service: service.to_owned(),
        why,
    };
    cx.error(node.get("address").unwrap_or(node).span, kind);
}

fn bad_member(member: &Member, node: &Node, expected: &str, cx: &mut Context<'_>) {
    let kind = ErrorKind::BadValue {
        text: member.address.to_string(),
        expected: expected.to_owned(),
    };
    cx.error(node.get("address").unwrap_or(node).span, kind);
}

fn member_nodes<'n>(root: &'n Node, pool: &str) -> &'n [Node] {
    entry(root, "pools", pool).map_or(&[][..], |node| items(node, "members"))
}

fn entry<'n>(root: &'n Node, section: &str, name: &str) -> Option<&'n Node> {
    root.get(section).and_then(|node| node.get(name))
}

fn items<'n>(node: &'n Node, field: &str) -> &'n [Node] {
    node.get(field).map_or(&[][..], Node::items)
}
