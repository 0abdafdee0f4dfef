//! The shun list: whose packets are dropped before any other work.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use std::net::IpAddr;

use fastpath::abi::{Reason, Shun, ShunPrefix4, ShunPrefix6};
use rig::*;

/// Shuns an address for so many seconds from now on; fewer than none if it is over.
fn shun(rig: &Rig<'_>, ip: IpAddr, seconds: i32) {
    let shun = until(rig, seconds);
    match ip {
        IpAddr::V4(ip) => rig.loaded.set("shuns4", ip.octets(), shun),
        IpAddr::V6(ip) => rig.loaded.set("shuns6", ip.octets(), shun),
    }
    rig.loaded.set("shun_counts", u32::from(ip.is_ipv6()), 1u64);
}

fn shun_prefix(rig: &Rig<'_>, ip: IpAddr, bits: u32, seconds: i32) {
    let shun = until(rig, seconds);
    match ip {
        IpAddr::V4(ip) => {
            let addr = ip.octets();
            rig.loaded
                .set("shun_prefixes4", ShunPrefix4 { bits, addr }, shun);
        }
        IpAddr::V6(ip) => {
            let addr = ip.octets();
            rig.loaded
                .set("shun_prefixes6", ShunPrefix6 { bits, addr }, shun);
        }
    }
    rig.loaded
        .set("shun_counts", 2 + u32::from(ip.is_ipv6()), 1u64);
}

fn until(rig: &Rig<'_>, seconds: i32) -> Shun {
    let until = rig.jiffies().wrapping_add_signed(seconds * HZ as i32);
    Shun { until, reason: 7 }
}

/// A packet of each kind from `src`.
fn from(f: Family, src: IpAddr) -> Vec<Packet> {
    let (client, server) = (at(src, 4000), at(f.right(10), 80));
    let mut packets = vec![
        tcp(client, server, SYN),
        tcp(client, server, ACK).payload(b"data"),
        udp(client, server),
        echo(client.ip(), server.ip(), 1),
        other(client.ip(), server.ip(), 47),
        udp(client, at(f.left(1), 22)),
    ];
    packets.extend(udp(client, server).payload(&[0; 100]).fragments(48));
    packets.push(match f {
        Family::V4 => udp(client, server).options(&[0x94, 4, 0, 0]),
        Family::V6 => udp(client, server).extension(60),
    });
    // These would else be left to the kernel, whoever has sent them.
    let elsewhere: &[&str] = match f {
        Family::V4 => &["224.0.0.5", "255.255.255.255"],
        Family::V6 => &["ff02::1", "fe80::1"],
    };
    packets.extend(
        elsewhere
            .iter()
            .map(|to| udp(client, at(to.parse().unwrap(), 53))),
    );
    packets
}

#[test]
fn all_packets_of_a_shunned_source_are_dropped() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                // One has a flow already.
                let known = tcp(at(f.left(10), 4000), at(f.right(10), 80), SYN);
                rig.send(Left, &known);
                shun(rig, f.left(10), 60);
                for p in from(f, f.left(10)) {
                    rig.case("shunned", Left, &p, Verdict::Drop, Reason::DropShun);
                }
                let created = rig.rises(Reason::FlowCreated, || {
                    for p in from(f, f.left(10)) {
                        rig.send(Left, &p);
                    }
                });
                assert_eq!(created, 0, "it makes no work");
                // Even what could not be read any further.
                let cut = tcp(at(f.left(10), 4000), at(f.right(10), 80), SYN);
                let frame = rig.arriving(Left, &cut);
                let mut frame = frame[..frame.len() - 12].to_vec();
                let (at, len) = if f.is_v4() { (16, 28u16) } else { (18, 8) };
                frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
                rig.frame_case("cut short", Left, &frame, Verdict::Drop, Reason::DropShun);
            }
        },
    );
}

#[test]
fn others_and_answers_to_shunned_addresses_pass() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                shun(rig, f.left(10), 60);
                let p = udp(at(f.left(11), 1), at(f.right(10), 2));
                rig.case(
                    "another",
                    Left,
                    &p,
                    to(Right, p.clone().hop()),
                    Reason::ForwardFlow,
                );
                let p = udp(at(f.right(10), 2), at(f.left(10), 1));
                rig.case(
                    "towards it",
                    Right,
                    &p,
                    to(Left, p.clone().hop()),
                    Reason::ForwardFlow,
                );
            }
        },
    );
}

#[test]
fn an_entry_holds_until_its_time_is_out() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                let p = udp(at(f.left(10), 1), at(f.right(10), 2));
                let sent = || to(Right, p.clone().hop());
                shun(rig, f.left(10), 2);
                rig.case("in time", Left, &p, Verdict::Drop, Reason::DropShun);
                shun(rig, f.left(10), 0);
                rig.case("over", Left, &p, sent(), Reason::ForwardFlow);
                shun(rig, f.left(10), -100_000);
                rig.case("long over", Left, &p, sent(), Reason::ForwardFlow);
                shun(rig, f.left(10), 1_000_000);
                rig.case(
                    "longer than a week",
                    Left,
                    &p,
                    Verdict::Drop,
                    Reason::DropShun,
                );
            }
        },
    );
}

#[test]
fn a_prefix_is_shunned_to_its_last_address() {
    with(
        |_| {},
        |rig| {
            for f in FAMILIES {
                // The hosts 16 to 23, which in IPv6 are written 10 to 17.
                let host = |n: u8| match f {
                    Family::V4 => f.left(n),
                    Family::V6 => format!("2001:db8::{n:x}").parse().unwrap(),
                };
                let bits = if f.is_v4() { 29 } else { 125 };
                shun_prefix(rig, host(16), bits, 60);
                for n in 10..=29 {
                    let p = udp(at(host(n), 1), at(f.right(10), 2));
                    if (16..=23).contains(&n) {
                        rig.case("inside", Left, &p, Verdict::Drop, Reason::DropShun);
                    } else {
                        rig.case(
                            "outside",
                            Left,
                            &p,
                            to(Right, p.clone().hop()),
                            Reason::ForwardFlow,
                        );
                    }
                }
                shun_prefix(rig, host(16), bits, -1);
                let p = udp(at(host(17), 1), at(f.right(10), 2));
                rig.case(
                    "over",
                    Left,
                    &p,
                    to(Right, p.clone().hop()),
                    Reason::ForwardFlow,
                );
                let zero = if f.is_v4() { "0.0.0.0" } else { "::" };
                shun_prefix(rig, zero.parse().unwrap(), 0, 60);
                let p = udp(at(host(10), 1), at(f.right(10), 2));
                rig.case("everybody", Left, &p, Verdict::Drop, Reason::DropShun);
            }
        },
    );
}

#[test]
fn families_are_shunned_apart() {
    with(
        |_| {},
        |rig| {
            // The same first bytes: an address of IPv4, and one of IPv6 that begins with them.
            let v6: IpAddr = "0a00:000a::".parse().unwrap();
            shun(rig, Family::V4.left(10), 60);
            let p = udp(at(v6, 1), at(Family::V6.right(10), 2));
            rig.case(
                "IPv6",
                Left,
                &p,
                to(Right, p.clone().hop()),
                Reason::ForwardFlow,
            );
            shun(rig, Family::V4.left(10), -1);
            shun(rig, v6, 60);
            rig.case("IPv6, shunned", Left, &p, Verdict::Drop, Reason::DropShun);
            let p = udp(at(Family::V4.left(10), 1), at(Family::V4.right(10), 2));
            rig.case(
                "IPv4",
                Left,
                &p,
                to(Right, p.clone().hop()),
                Reason::ForwardFlow,
            );
        },
    );
}
