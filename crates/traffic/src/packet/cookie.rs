//! Numbers that both sides of the kernel compute alike: which initial sequence number a connection has, and what is drawn.

use std::net::IpAddr;

/// See `cookie` in bpf/headers.h.
pub(super) fn cookie(source: IpAddr, destination: IpAddr, sport: u16, dport: u16) -> u32 {
    let folded = |address: IpAddr| match address {
        IpAddr::V4(address) => u32::from_ne_bytes(address.octets()),
        IpAddr::V6(address) => address
            .octets()
            .as_chunks::<4>()
            .0
            .iter()
            .fold(0, |folded, word| folded ^ u32::from_ne_bytes(*word)),
    };
    let port = |port: u16| u64::from(u16::from_ne_bytes(port.to_be_bytes()));
    let addresses = u64::from(folded(source)) << 32 | u64::from(folded(destination));
    let ports = port(sport) << 16 | port(dport);
    (mixed(addresses.wrapping_add(ports.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 40) as u32
}

/// See `server_isn` in bpf/headers.h.
pub(super) fn server_isn(client: u32) -> u32 {
    mixed(u64::from(client).wrapping_add(0x5851_f42d_4c95_7f2d)) as u32
}

/// See `mixed` in bpf/headers.h.
pub(super) fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
