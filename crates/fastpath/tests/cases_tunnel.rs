//! Members that answer clients themselves: packets encapsulated for them, in and across both families, or delivered to
//! their link address as they are.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests may panic")]

mod rig;

use std::net::{IpAddr, SocketAddr};

use fastpath::abi::{Reason, State, VirtualServer, Way};
use rig::*;

const WEB: u8 = 20;
const MEMBER: u32 = 1;

/// A rig with a virtual on port 80 of host [`WEB`] of each family.
fn web(way: Way, setup: impl Fn(&mut Setup), cases: impl Fn(&Rig<'_>, Family) + Send + Sync) {
    let balancing = |what: &mut Setup| {
        what.settings.virtuals = 1;
        setup(what);
    };
    with(balancing, |rig| {
        for f in FAMILIES {
            let what = VirtualServer {
                way: way as u8,
                ..VirtualServer::default()
            };
            let number = f.number().into();
            rig.add_virtual(number, what, &[(f.host(VIPS, WEB), 80)], &[MEMBER]);
            cases(rig, f);
        }
    });
}

fn vip(f: Family) -> SocketAddr {
    at(f.host(VIPS, WEB), 80)
}

fn client(f: Family) -> SocketAddr {
    at(f.left(10), 1000)
}

/// Makes this host the only member, and forgets all flows.
fn member(rig: &Rig<'_>, ip: IpAddr) {
    for f in FAMILIES {
        rig.forget(f);
    }
    rig.add_member(MEMBER, ip, 0);
}

/// The outer packet, from the router's address on the right.
fn wrapped(to: IpAddr, inner: &Packet) -> Packet {
    let from = if to.is_ipv4() {
        Family::V4.right(1)
    } else {
        Family::V6.right(1)
    };
    tunnelled(from, to, inner).id(0).tos(inner.tos)
}

/// As [`Rig::case`], for packets that leave in an outer one of IPv6: its flow label is whatever the flow has.
#[track_caller]
fn case(rig: &Rig<'_>, what: &str, packet: &Packet, verdict: Verdict, reason: Reason) {
    let (action, expected) = match &verdict {
        Verdict::Send(side, n, out) if !out.is_v4() => (XDP_REDIRECT, rig.leaving(*side, *n, out)),
        Verdict::PassAs(out) if !out.is_v4() => (XDP_PASS, rig.arriving(Left, out)),
        _ => return rig.case(what, Left, packet, verdict, reason),
    };
    let frame = rig.arriving(Left, packet);
    let mut outcome = None;
    let counted = verdicts(&rig.counted(|| outcome = Some(rig.run(Left, &frame))));
    let mut outcome = outcome.unwrap();
    assert_eq!(
        (outcome.verdict, &counted[..]),
        (action, &[(reason, 1)][..]),
        "{what}"
    );
    let label = [
        outcome.packet[15] & 0xf,
        outcome.packet[16],
        outcome.packet[17],
    ];
    assert_ne!(label, [0; 3], "{what}: no flow label");
    outcome.packet[15] &= 0xf0;
    outcome.packet[16..18].fill(0);
    assert_eq!(outcome.packet, expected, "{what}");
}

#[test]
fn each_family_goes_in_each() {
    web(
        Way::Tunnel,
        |_| {},
        |rig, f| {
            for outer in FAMILIES {
                let to = outer.right(10);
                member(rig, to);
                let packets = [
                    ("beginning", tcp(client(f), vip(f), SYN)),
                    ("going on", tcp(client(f), vip(f), ACK).ttl(1)),
                    (
                        "data",
                        tcp(client(f), vip(f), ACK).payload(b"request").tos(0xba),
                    ),
                    ("congestion met", tcp(client(f), vip(f), ACK).tos(3)),
                    ("datagram", udp(client(f), vip(f)).df(false)),
                    (
                        "datagram without checksum",
                        udp(client(f), vip(f)).unsummed(),
                    ),
                ];
                for (what, packet) in packets {
                    if what.contains("without") && !f.is_v4() {
                        continue;
                    }
                    let what = format!("{f:?} in {outer:?}: {what}");
                    let out = via(Right, 10, wrapped(to, &packet));
                    case(rig, &what, &packet, out, Reason::ForwardFlow);
                }
            }
        },
    );
}

#[test]
fn flows_are_followed_by_what_clients_send() {
    for way in [Way::Tunnel, Way::Direct] {
        web(
            way,
            |_| {},
            |rig, f| {
                member(rig, f.right(10));
                for (flags, half, state) in [
                    (SYN, true, State::SynSent),
                    (ACK, false, State::Established),
                    (FIN | ACK, false, State::FinClient),
                ] {
                    rig.send(Left, &tcp(client(f), vip(f), flags));
                    let flow = rig.only_flow(f);
                    assert_eq!((flow.half, flow.state, flow.way), (half, state, way));
                }
                rig.forget(f);
                rig.send(Left, &tcp(client(f), vip(f), SYN));
                rig.send(Left, &tcp(client(f), vip(f), RST));
                assert_eq!(rig.only_flow(f).state, State::Reset);
            },
        );
    }
}

#[test]
fn tunnels_come_from_the_address_that_is_set() {
    let setup = |setup: &mut Setup| {
        setup.settings.tunnel_source4 = [198, 51, 100, 7];
        setup.settings.tunnel_source6 = "2001:db8:77::7"
            .parse::<std::net::Ipv6Addr>()
            .unwrap()
            .octets();
    };
    web(Way::Tunnel, setup, |rig, f| {
        for outer in FAMILIES {
            let to = outer.right(10);
            member(rig, to);
            let packet = tcp(client(f), vip(f), SYN);
            let mut out = wrapped(to, &packet);
            out.src = if outer.is_v4() {
                [198, 51, 100, 7].into()
            } else {
                "2001:db8:77::7".parse().unwrap()
            };
            case(
                rig,
                "from that address",
                &packet,
                via(Right, 10, out),
                Reason::ForwardFlow,
            );
        }
    });
}

#[test]
fn a_packet_that_does_not_fit_with_its_outer_header_is_answered() {
    web(
        Way::Tunnel,
        |_| {},
        |rig, f| {
            for outer in FAMILIES {
                let to = outer.right(10);
                member(rig, to);
                let room = if outer.is_v4() { MTU - 20 } else { MTU - 40 };
                let fits = tcp(client(f), vip(f), ACK).size(room);
                let out = via(Right, 10, wrapped(to, &fits));
                case(rig, "fits", &fits, out, Reason::ForwardFlow);
                let mut answer = None;
                let too_big = tcp(client(f), vip(f), ACK).size(room + 1);
                let counted = rig.counted(|| answer = Some(rig.send(Left, &too_big)));
                assert_eq!(verdicts(&counted), [(Reason::ReplyIcmp, 1)]);
                let answer = answer.unwrap();
                assert_eq!(answer.verdict, XDP_TX);
                // the MTU is in the second half of the word after the checksum, of IPv6 in all of it
                let mtu = if f.is_v4() { 14 + 20 + 6 } else { 14 + 40 + 6 };
                let told = u16::from_be_bytes([answer.packet[mtu], answer.packet[mtu + 1]]);
                assert_eq!(usize::from(told), room, "{f:?} in {outer:?}");
            }
        },
    );
}

#[test]
fn a_route_with_an_mtu_of_its_own_counts() {
    web(
        Way::Tunnel,
        |_| {},
        |rig, f| {
            for outer in FAMILIES {
                let to = outer.host(NARROW, 50);
                member(rig, to);
                let room = if outer.is_v4() { 1400 - 20 } else { 1400 - 40 };
                let fits = tcp(client(f), vip(f), ACK).size(room);
                case(
                    rig,
                    "fits",
                    &fits,
                    via(Right, 10, wrapped(to, &fits)),
                    Reason::ForwardFlow,
                );
                let too_big = tcp(client(f), vip(f), ACK).size(room + 1);
                let counted = rig.counted(|| drop(rig.send(Left, &too_big)));
                assert_eq!(verdicts(&counted), [(Reason::ReplyIcmp, 1)]);
            }
        },
    );
}

#[test]
fn the_kernel_gets_what_it_has_to_send_encapsulated() {
    web(
        Way::Tunnel,
        |_| {},
        |rig, f| {
            for outer in FAMILIES {
                for (what, to, reason) in [
                    ("no neighbour", outer.right(99), Reason::PassNoNeighbour),
                    (
                        "no neighbour on the way",
                        outer.host(LOST, 1),
                        Reason::PassNoNeighbour,
                    ),
                ] {
                    member(rig, to);
                    for flags in [SYN, ACK, ACK] {
                        let packet = tcp(client(f), vip(f), flags);
                        case(rig, what, &packet, pass_as(wrapped(to, &packet)), reason);
                    }
                }
                member(rig, outer.host(BLACKHOLE, 1));
                let packet = tcp(client(f), vip(f), SYN);
                rig.case(
                    "blackhole",
                    Left,
                    &packet,
                    Verdict::Drop,
                    Reason::DropBlackhole,
                );
                // by way of a neighbour
                member(rig, outer.host(BEYOND, 1));
                let out = via(Right, 11, wrapped(outer.host(BEYOND, 1), &packet));
                case(rig, "beyond a router", &packet, out, Reason::ForwardFlow);
                // where the fast path does not lead
                member(rig, outer.host(2, 10));
                let mut out = wrapped(outer.host(2, 10), &packet);
                out.src = outer.host(2, 1);
                case(rig, "aside", &packet, pass_as(out), Reason::PassPort);
            }
        },
    );
}

#[test]
fn the_kernel_looks_after_the_neighbours_of_tunnels() {
    web(
        Way::Tunnel,
        |_| {},
        |rig, f| {
            let to = f.right(10);
            member(rig, to);
            let packet = tcp(client(f), vip(f), ACK);
            case(
                rig,
                "new",
                &packet,
                via(Right, 10, wrapped(to, &packet)),
                Reason::ForwardFlow,
            );
            rig.age_neighbours(60);
            rig.age_hops(f, &rig.only_flow(f), 5);
            case(
                rig,
                "once",
                &packet,
                pass_as(wrapped(to, &packet)),
                Reason::PassProbe,
            );
            case(
                rig,
                "no more",
                &packet,
                via(Right, 10, wrapped(to, &packet)),
                Reason::ForwardFlow,
            );
        },
    );
}

#[test]
fn direct_delivery_changes_link_addresses_alone() {
    web(
        Way::Direct,
        |_| {},
        |rig, f| {
            member(rig, f.right(12));
            for packet in [
                tcp(client(f), vip(f), SYN),
                tcp(client(f), vip(f), ACK).payload(b"request").ttl(1),
                tcp(client(f), vip(f), ACK).size(MTU),
                udp(client(f), vip(f)),
            ] {
                let out = via(Right, 12, packet.clone());
                rig.case("as it is", Left, &packet, out, Reason::ForwardFlow);
            }
            let fragments = udp(client(f), vip(f)).size(1200).fragments(400);
            for piece in &fragments {
                rig.case(
                    "in pieces",
                    Left,
                    piece,
                    via(Right, 12, piece.clone()),
                    Reason::ForwardFlow,
                );
            }
        },
    );
}

#[test]
fn direct_delivery_is_for_neighbours() {
    web(
        Way::Direct,
        |_| {},
        |rig, f| {
            for (what, to, reason) in [
                (
                    "beyond a router",
                    f.host(BEYOND, 1),
                    Reason::DropNoNeighbour,
                ),
                ("no route", f.host(NOWHERE, 1), Reason::DropNoNeighbour),
                (
                    "unreachable",
                    f.host(UNREACHABLE, 1),
                    Reason::DropNoNeighbour,
                ),
                (
                    "outside the fast path",
                    f.host(2, 10),
                    Reason::DropNoNeighbour,
                ),
                ("blackhole", f.host(BLACKHOLE, 1), Reason::DropBlackhole),
            ] {
                member(rig, to);
                let packet = tcp(client(f), vip(f), SYN);
                rig.case(what, Left, &packet, Verdict::Drop, reason);
            }
            // so that the kernel asks for it
            member(rig, f.right(99));
            let packet = tcp(client(f), vip(f), SYN);
            let out = pass_as(wrapped(f.right(99), &packet));
            case(rig, "not known yet", &packet, out, Reason::PassNoNeighbour);
        },
    );
}

#[test]
fn later_fragments_are_encapsulated_too() {
    web(
        Way::Tunnel,
        |_| {},
        |rig, f| {
            for outer in FAMILIES {
                let to = outer.right(10);
                member(rig, to);
                for piece in udp(client(f), vip(f)).size(1200).fragments(400) {
                    let out = via(Right, 10, wrapped(to, &piece));
                    case(rig, "in pieces", &piece, out, Reason::ForwardFlow);
                }
            }
        },
    );
}
