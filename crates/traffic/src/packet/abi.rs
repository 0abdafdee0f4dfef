//! The mirror of `bpf/abi.h`: what the eBPF programs and this side exchange.

use std::mem::size_of;
use xdp::map::Pod;

pub(super) const TEMPLATE: usize = 112;
pub(super) const PATTERN: usize = 128;
pub(super) const REPLAY_FRAME: usize = 3520;
pub(super) const STREAMS: usize = 256;
pub(super) const DELAYS: usize = 40;
pub(super) const REQUEST: usize = 64;
pub(super) const RESPONSE: usize = 1448;
pub(super) const SIGNATURE: usize = 16;
pub(super) const SIGNATURE_MAGIC: u16 = 0x4847;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u32,
    pub(super) count: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) template: [u8; TEMPLATE],
    pub(super) ip_sum: u32,
    pub(super) transport_sum: u32,
    pub(super) family: u8,
    pub(super) protocol: u8,
    pub(super) act: u8,
    pub(super) random: u8,
    pub(super) signed: u8,
    pub(super) stamped: u8,
    pub(super) paced: u8,
    pub(super) words: u8,
    pub(super) header: u16,
    pub(super) room: u16,
    pub(super) pattern_len: u16,
    pub(super) pad: u16,
    pub(super) pattern: [u16; PATTERN],
    pub(super) source: Range,
    pub(super) destination: Range,
    pub(super) sport: Range,
    pub(super) dport: Range,
    pub(super) flow_first: u64,
    pub(super) flow_count: u64,
    pub(super) seed: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) sent: u64,
    pub(super) bytes: u64,
    pub(super) limit: u64,
    pub(super) next: u64,
    pub(super) interval: u64,
    pub(super) gap: u64,
    pub(super) earliest: u64,
    pub(super) missed: u64,
    pub(super) flow: u64,
    pub(super) refused: u64,
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) sport: u32,
    pub(super) dport: u32,
    pub(super) size: u32,
    pub(super) epoch: u32,
    pub(super) error: u32,
    pub(super) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Device {
    pub(super) namespace_inode: u64,
    pub(super) ifindex: u32,
    pub(super) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Replayed {
    pub(super) len: u32,
    pub(super) pad: u32,
    pub(super) data: [u8; REPLAY_FRAME],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Receiving {
    pub(super) all: u8,
    pub(super) pass: u8,
    pub(super) pad: [u8; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) other: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamReceived {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) lowest: u64,
    pub(super) highest: u64,
    pub(super) late: u64,
    pub(super) farthest: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acting {
    pub(super) hold: u8,
    pub(super) pad: u8,
    pub(super) request_len: u16,
    pub(super) response_len: u16,
    pub(super) pad2: u16,
    pub(super) request_sum: u32,
    pub(super) response_sum: u32,
}

/// One CPU's share of what the acted ends of TCP saw; see `struct acted`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acted(pub(super) [u64; 13]);

macro_rules! shared {
    ($($name:ty = $size:expr),* $(,)?) => {$(
        const _: () = assert!(size_of::<$name>() == $size);
        // SAFETY: repr(C), of integers alone, and with no padding: the assertion is the sum of the fields.
        #[expect(unsafe_code, reason = "what is shared with the kernel as bytes")]
        unsafe impl Pod for $name {}
    )*};
}

shared! {
    Stream = TEMPLATE + 2 * 4 + 8 + 4 * 2 + 2 * PATTERN + 4 * 8 + 3 * 8,
    State = 10 * 8 + 8 * 4,
    Device = 16,
    Replayed = 8 + REPLAY_FRAME,
    Receiving = 8,
    Received = 3 * 8,
    StreamReceived = 6 * 8,
    Acting = 16,
    Acted = 13 * 8,
}
