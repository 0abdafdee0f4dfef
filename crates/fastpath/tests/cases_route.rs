//! Packets that are routed, with and without state, and those that are the kernel's or nobody's.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use fastpath::abi::{FORWARD_OFF, FORWARD_ROUTED, FORWARD_TRACKED, Reason};
use rig::*;

fn mode(forward: u8) -> impl FnOnce(&mut Setup) {
    move |setup| setup.settings.forward = forward
}

/// Cases for both ways to forward: without state, and with it. The reason is what a forwarded packet is counted as.
fn both_ways(cases: impl Fn(&Rig<'_>, Reason) + Copy + Send + Sync) {
    with(mode(FORWARD_ROUTED), |rig| cases(rig, Reason::ForwardRoute));
    with(mode(FORWARD_TRACKED), |rig| cases(rig, Reason::ForwardFlow));
}

/// One of each kind, from a client to a server.
fn kinds(f: Family) -> Vec<Packet> {
    let (client, server) = (at(f.left(10), 40000), at(f.right(10), 80));
    let mut kinds = vec![
        tcp(client, server, SYN),
        tcp(client, server, ACK | PSH).payload(b"some data"),
        udp(client, server),
        udp(client, server).tos(0xb9).payload(b"odd"),
        echo(client.ip(), server.ip(), 7),
        other(client.ip(), server.ip(), 132),
    ];
    if f.is_v4() {
        kinds.push(udp(client, server).unsummed().dport(81));
        kinds.push(udp(client, server).df(false).dport(82));
    }
    kinds
}

#[test]
fn packets_go_to_the_next_hop_one_hop_fewer() {
    both_ways(|rig, forward| {
        for f in FAMILIES {
            for p in kinds(f) {
                rig.case(
                    "to a neighbour",
                    Left,
                    &p,
                    to(Right, p.clone().hop()),
                    forward,
                );
                rig.case("again", Left, &p, to(Right, p.clone().hop()), forward);
                let p = p.sent_to(at(f.host(BEYOND, 7), 80));
                rig.case(
                    "by a router",
                    Left,
                    &p,
                    via(Right, 11, p.clone().hop()),
                    forward,
                );
                let p = p
                    .sent_to(at(f.host(BEHIND, 7), 80))
                    .sent_from(at(f.right(12), 9));
                rig.case(
                    "back to the left",
                    Right,
                    &p,
                    via(Left, 12, p.clone().hop()),
                    forward,
                );
                let p = p.sent_from(at(f.left(13), 9));
                rig.case(
                    "out where it came in",
                    Left,
                    &p,
                    via(Left, 12, p.clone().hop()),
                    forward,
                );
            }
        }
    });
}

#[test]
fn the_checksum_of_the_header_is_right_for_every_ttl() {
    with(mode(FORWARD_ROUTED), |rig| {
        for ttl in 2..=255 {
            // The identification moves the checksum through its carries.
            for id in [0, 1, 0x3a5c, 0xfeff, 0xffff] {
                let p = udp(at(Family::V4.left(10), 1), at(Family::V4.right(10), 2))
                    .ttl(ttl)
                    .id(id);
                rig.case(
                    "any",
                    Left,
                    &p,
                    to(Right, p.clone().hop()),
                    Reason::ForwardRoute,
                );
            }
        }
    });
}

#[test]
fn packets_whose_hops_are_used_up_are_the_kernels() {
    both_ways(|rig, forward| {
        for p in FAMILIES.into_iter().flat_map(kinds) {
            for ttl in [0, 1] {
                rig.case(
                    "used up",
                    Left,
                    &p.clone().ttl(ttl),
                    Verdict::Pass,
                    Reason::PassTtl,
                );
            }
            let p = p.ttl(2);
            rig.case("one is left", Left, &p, to(Right, p.clone().hop()), forward);
            // Now that a flow may be known.
            rig.case(
                "used up later",
                Left,
                &p.ttl(1),
                Verdict::Pass,
                Reason::PassTtl,
            );
        }
    });
}

#[test]
fn packets_larger_than_the_mtu_are_the_kernels() {
    both_ways(|rig, forward| {
        for f in FAMILIES {
            let (client, server) = (at(f.left(10), 40000), at(f.right(10), 80));
            for df in [f.is_v4(), false] {
                let p = udp(client, server).df(df);
                let big = p.clone().size(MTU + 1);
                rig.case("first", Left, &big, Verdict::Pass, Reason::PassTooBig);
                let fits = p.clone().size(MTU);
                rig.case(
                    "as large as may be",
                    Left,
                    &fits,
                    to(Right, fits.clone().hop()),
                    forward,
                );
                rig.case("of a flow", Left, &big, Verdict::Pass, Reason::PassTooBig);

                let narrow = p.sent_to(at(f.host(NARROW, 5), 80));
                let big = narrow.clone().size(1401);
                rig.case("narrow", Left, &big, Verdict::Pass, Reason::PassTooBig);
                let fits = narrow.size(1400);
                rig.case(
                    "narrow, fits",
                    Left,
                    &fits,
                    via(Right, 10, fits.clone().hop()),
                    forward,
                );
                rig.case(
                    "narrow, later",
                    Left,
                    &big,
                    Verdict::Pass,
                    Reason::PassTooBig,
                );
            }
        }
    });
}

#[test]
fn what_routes_say_is_done() {
    both_ways(|rig, _| {
        for f in FAMILIES {
            for (what, dst, verdict, reason) in [
                (
                    "no neighbour",
                    f.right(99),
                    Verdict::Pass,
                    Reason::PassNoNeighbour,
                ),
                (
                    "a lost router",
                    f.host(LOST, 1),
                    Verdict::Pass,
                    Reason::PassNoNeighbour,
                ),
                (
                    "a blackhole",
                    f.host(BLACKHOLE, 1),
                    Verdict::Drop,
                    Reason::DropBlackhole,
                ),
                (
                    "unreachable",
                    f.host(UNREACHABLE, 1),
                    Verdict::Pass,
                    Reason::PassUnreachable,
                ),
                (
                    "prohibited",
                    f.host(PROHIBIT, 1),
                    Verdict::Pass,
                    Reason::PassUnreachable,
                ),
                (
                    "no route",
                    f.host(NOWHERE, 1),
                    Verdict::Pass,
                    Reason::PassLocal,
                ),
                (
                    "the router itself",
                    f.left(1),
                    Verdict::Pass,
                    Reason::PassLocal,
                ),
                (
                    "its other address",
                    f.right(1),
                    Verdict::Pass,
                    Reason::PassLocal,
                ),
                (
                    "a port outside",
                    f.host(2, 10),
                    Verdict::Pass,
                    Reason::PassPort,
                ),
            ] {
                for p in kinds(f) {
                    let p = p.sent_to(at(dst, 80));
                    rig.case(what, Left, &p, verdict.clone(), reason);
                    rig.case(what, Left, &p, verdict.clone(), reason);
                }
            }
        }
    });
}

#[test]
fn multicast_and_what_neighbours_say_is_the_kernels() {
    both_ways(|rig, _| {
        let v4 = Family::V4.left(10);
        for dst in ["224.0.0.5", "239.1.2.3", "240.0.0.1", "255.255.255.255"] {
            let p = udp(at(v4, 1), at(dst.parse().unwrap(), 2));
            rig.case(dst, Left, &p, Verdict::Pass, Reason::PassMulticast);
        }
        let p = udp(at(v4, 1), at(Family::V4.right(255), 2));
        rig.case(
            "a network's broadcast",
            Left,
            &p,
            Verdict::Pass,
            Reason::PassLocal,
        );
        let v6 = Family::V6.left(10);
        for dst in ["ff02::1", "ff05::2", "ff0e::1:2"] {
            let p = udp(at(v6, 1), at(dst.parse().unwrap(), 2));
            rig.case(dst, Left, &p, Verdict::Pass, Reason::PassMulticast);
        }
        let p = udp(at(v6, 1), at("fe80::1".parse().unwrap(), 2));
        rig.case("link-local", Left, &p, Verdict::Pass, Reason::PassNeighbour);
        let p = udp(
            at("fe80::1".parse().unwrap(), 1),
            at(Family::V6.right(10), 2),
        );
        rig.case(
            "from a link",
            Left,
            &p,
            Verdict::Pass,
            Reason::PassNeighbour,
        );
        // Listener discovery, router and neighbour discovery, redirects.
        for kind in [130, 131, 132, 133, 134, 135, 136, 137, 143] {
            let p = icmp(v6, Family::V6.left(1), kind, 0, [0; 4])
                .ttl(255)
                .payload(&[0; 16]);
            rig.case(
                "neighbour discovery",
                Left,
                &p,
                Verdict::Pass,
                Reason::PassNeighbour,
            );
        }
    });
}

#[test]
fn icmp_that_is_no_echo_is_routed() {
    both_ways(|rig, _| {
        for f in FAMILIES {
            let (client, server) = (f.left(10), f.right(10));
            let about = udp(at(server, 53), at(client, 9000));
            let (unreachable, timestamp) = if f.is_v4() { (3, 13) } else { (1, 200) };
            for p in [
                icmp_error(client, server, unreachable, 1, [0; 4], &about, 1000),
                icmp(client, server, timestamp, 0, [0; 4]).payload(&[0; 12]),
                echo_reply(client, server, 99),
            ] {
                let reason = Reason::ForwardRoute;
                rig.case("routed", Left, &p, to(Right, p.clone().hop()), reason);
            }
        }
    });
}

#[test]
fn options_and_extension_headers_are_the_kernels() {
    both_ways(|rig, forward| {
        for p in kinds(Family::V4) {
            // Router alert; record route.
            for options in [&[0x94, 4, 0, 0][..], &[7, 7, 4, 0, 0, 0, 0, 0]] {
                let p = p.clone().options(options);
                rig.case("options", Left, &p, Verdict::Pass, Reason::PassOptions);
            }
        }
        for p in kinds(Family::V6) {
            for kind in [0, 43, 60] {
                let p = p.clone().extension(kind);
                rig.case("an extension", Left, &p, Verdict::Pass, Reason::PassOptions);
                let p = p.extension(60);
                rig.case("two", Left, &p, Verdict::Pass, Reason::PassOptions);
                let p = p
                    .extension(60)
                    .extension(60)
                    .extension(60)
                    .extension(60)
                    .extension(60);
                rig.case("many", Left, &p, Verdict::Pass, Reason::PassOptions);
            }
            let mut atomic = p.clone();
            atomic.piece = Some(0..atomic.bytes().len() - 54);
            let sent = to(Right, atomic.clone().hop());
            rig.case("an atomic fragment", Left, &atomic, sent, forward);
        }
    });
}

#[test]
fn known_flows_with_options_are_the_kernels_too() {
    with(mode(FORWARD_TRACKED), |rig| {
        let (client, server) = (at(Family::V4.left(10), 40000), at(Family::V4.right(10), 80));
        let p = udp(client, server);
        rig.case(
            "without",
            Left,
            &p,
            to(Right, p.clone().hop()),
            Reason::ForwardFlow,
        );
        let p = p.options(&[0x94, 4, 0, 0]);
        rig.case("with", Left, &p, Verdict::Pass, Reason::PassOptions);
    });
}

#[test]
fn what_is_no_ip_is_the_kernels() {
    both_ways(|rig, _| {
        let p = udp(at(Family::V4.left(10), 1), at(Family::V4.right(10), 2));
        let mut arp = p.bytes();
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        rig.frame_case("ARP", Left, &arp, Verdict::Pass, Reason::PassNotIp);
        rig.frame_case(
            "Ethernet alone",
            Left,
            &arp[..14],
            Verdict::Pass,
            Reason::PassNotIp,
        );
        for p in [p.vlan(7), kinds(Family::V6)[0].clone().vlan(7).vlan(8)] {
            rig.case("a VLAN", Left, &p, Verdict::Pass, Reason::PassNotIp);
        }
    });
}

#[test]
fn packets_cut_short_anywhere_are_dropped() {
    both_ways(|rig, forward| {
        for p in FAMILIES.into_iter().flat_map(kinds) {
            let frame = rig.arriving(Left, &p);
            for len in 14..frame.len() {
                let cut = &frame[..len];
                let what = format!("{len} of {} bytes of {:?}", frame.len(), p.body);
                rig.frame_case(&what, Left, cut, Verdict::Drop, Reason::DropMalformed);
            }
            // What Ethernet pads a short packet with is not part of it.
            let mut padded = frame.clone();
            padded.resize(frame.len() + 9, 0xee);
            let mut sent = rig.leaving(Right, 10, &p.clone().hop());
            sent.resize(padded.len(), 0xee);
            let before = rig.counters();
            let outcome = rig.run(Left, &padded);
            assert_eq!(outcome.packet, sent, "padding of {:?}", p.body);
            assert_eq!(verdicts(&rise(&before, &rig.counters())), [(forward, 1)]);
        }
    });
}

#[test]
fn headers_that_end_before_they_are_whole_are_dropped() {
    both_ways(|rig, _| {
        for p in FAMILIES.into_iter().flat_map(kinds) {
            let header = match p.body {
                Body::Tcp { .. } => 20,
                Body::Udp { .. } | Body::Icmp { .. } => 8,
                Body::Other(_) => continue,
            };
            for len in 0..header {
                // The same bytes are there, but the length of the IP packet says that they are not of it.
                for padding in [0, header - len] {
                    let frame = shortened(&rig.arriving(Left, &p), len, padding);
                    let what = format!("{len} bytes of {:?}, padded with {padding}", p.body);
                    rig.frame_case(&what, Left, &frame, Verdict::Drop, Reason::DropMalformed);
                }
            }
        }
    });
}

/// A frame whose layer 4 has `len` bytes, as the length of the IP packet says, and `padding` more of its own.
fn shortened(frame: &[u8], len: usize, padding: usize) -> Vec<u8> {
    let v4 = frame[12] == 0x08;
    let l4 = if v4 { 34 } else { 54 };
    let mut frame = frame[..l4 + len + padding].to_vec();
    if v4 {
        frame[16..18].copy_from_slice(&(20 + len as u16).to_be_bytes());
        frame[24..26].fill(0);
        let check = checksum(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&check.to_be_bytes());
    } else {
        frame[18..20].copy_from_slice(&(len as u16).to_be_bytes());
    }
    frame
}

#[test]
fn headers_at_odds_are_dropped() {
    both_ways(|rig, _| {
        let v4 = rig.arriving(Left, &kinds(Family::V4)[0]);
        let v6 = rig.arriving(Left, &kinds(Family::V6)[0]);
        let changed = |frame: &[u8], at: usize, byte: u8| {
            let mut frame = frame.to_vec();
            frame[at] = byte;
            frame
        };
        for (what, frame) in [
            ("IPv4 that says it is 6", changed(&v4, 14, 0x65)),
            ("a header of 16 bytes", changed(&v4, 14, 0x44)),
            ("a header longer than the packet", changed(&v4, 14, 0x4f)),
            ("a packet shorter than its header", changed(&v4, 17, 19)),
            ("longer than the frame", changed(&v4, 16, 2)),
            ("a TCP header of 16 bytes", changed(&v4, 14 + 20 + 12, 0x40)),
            ("IPv6 that says it is 4", changed(&v6, 14, 0x40)),
            ("IPv6 longer than the frame", changed(&v6, 18, 2)),
            ("a TCP header of no bytes", changed(&v6, 14 + 40 + 12, 0)),
        ] {
            rig.frame_case(what, Left, &frame, Verdict::Drop, Reason::DropMalformed);
        }
        // An extension header that is longer than the packet.
        let mut long = rig.arriving(Left, &kinds(Family::V6)[0].clone().extension(60));
        long[14 + 40 + 1] = 9;
        rig.frame_case(
            "a long extension",
            Left,
            &long,
            Verdict::Drop,
            Reason::DropMalformed,
        );
        // One that is not in the packet, as its length says, but in the frame.
        for kind in [0, 43, 60] {
            let mut empty = rig.arriving(Left, &kinds(Family::V6)[5].clone().extension(kind));
            empty[18..20].fill(0);
            let verdict = Verdict::Drop;
            rig.frame_case("no extension", Left, &empty, verdict, Reason::DropMalformed);
        }
        let mut empty = rig.arriving(Left, &kinds(Family::V6)[5]);
        empty[18..20].fill(0);
        empty[20] = 44;
        empty[54..62].copy_from_slice(&[132, 0, 0, 0, 0, 0, 0, 1]);
        let verdict = Verdict::Drop;
        rig.frame_case("no fragment", Left, &empty, verdict, Reason::DropMalformed);
    });
}

#[test]
fn with_forwarding_off_all_is_the_kernels() {
    with(mode(FORWARD_OFF), |rig| {
        for p in FAMILIES.into_iter().flat_map(kinds) {
            rig.case("off", Left, &p, Verdict::Pass, Reason::PassOff);
        }
    });
    both_ways(|rig, forward| {
        for (f, switch) in [
            (Family::V4, "net.ipv4.conf.left.forwarding"),
            (Family::V6, "net.ipv6.conf.left.forwarding"),
        ] {
            rig.router.sysctl(switch, "0").unwrap();
            for p in kinds(f) {
                rig.case("off on the left", Left, &p, Verdict::Pass, Reason::PassOff);
            }
            rig.router.sysctl(switch, "1").unwrap();
            for p in kinds(f) {
                rig.case("on again", Left, &p, to(Right, p.clone().hop()), forward);
            }
        }
    });
}

#[test]
fn a_changed_route_or_neighbour_is_followed_by_packets_without_state() {
    with(mode(FORWARD_ROUTED), |rig| {
        for f in FAMILIES {
            let p = udp(at(f.left(10), 1), at(f.host(BEYOND, 7), 2));
            let send = |n| via(Right, n, p.clone().hop());
            rig.case("before", Left, &p, send(11), Reason::ForwardRoute);
            let net = if f.is_v4() {
                "10.0.105.0/24"
            } else {
                "2001:db8:105::/64"
            };
            let line = format!("route replace {net} via {} dev right", f.right(13));
            rig.router.ip(&[&line]).unwrap();
            rig.case("after", Left, &p, send(13), Reason::ForwardRoute);
        }
    });
}
