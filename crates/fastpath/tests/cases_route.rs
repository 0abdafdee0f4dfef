//! Packets that are routed, and those that are the kernel's.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use fastpath::abi::{FORWARD_ROUTED, Reason};
use rig::*;

fn routed(setup: &mut Setup) {
    setup.settings.forward = FORWARD_ROUTED;
}

#[test]
fn packets_go_to_the_next_hop_one_hop_fewer() {
    with(routed, |rig| {
        for f in FAMILIES {
            let (client, server) = (at(f.left(10), 40000), at(f.right(10), 80));
            for packet in [
                tcp(client, server, SYN),
                tcp(client, server, ACK | PSH).payload(b"some data"),
                udp(client, server),
                udp(client, server).tos(0xb9),
                echo(client.ip(), server.ip(), 7),
                echo_reply(client.ip(), server.ip(), 7),
                other(client.ip(), server.ip(), 132),
            ] {
                rig.case(
                    "on a link",
                    Left,
                    &packet,
                    to(Right, packet.clone().hop()),
                    Reason::ForwardRoute,
                );
            }
        }
    });
}
