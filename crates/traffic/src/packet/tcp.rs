//! The two ends of acted TCP connections. The client's first segments are a [`super::Stream`] of [`super::Act::Syn`];
//! everything after them is answered by the programs here from each segment alone.

use super::abi;
use super::checksum::sum;
use super::error::PacketError;
use super::kernel::{self, Attached};
use super::place::Place;
use super::stream::REQUEST;
use serde::Serialize;
use xdp::attach::Wanted;
use xdp::libbpf_rs::MapHandle;
use xdp::{map, object};

/// Which end is acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// On the interface that the SYNs leave by.
    Client {
        /// Completes handshakes and leaves it at that, instead of going on with a request and the end.
        hold: bool,
    },
    /// On the interface that the SYNs arrive at.
    Server {
        /// Bytes of the response, its head included: 64 to 1448.
        response: u16,
    },
}

/// Bytes of the response, unless another number is asked for: its body is 1 KB.
pub const RESPONSE: u16 = 1024 + HEAD as u16;

/// Bytes of the response's head, which is of the same length whatever the length it tells.
const HEAD: usize = 41;

/// An acted end, until it is dropped.
///
/// It sends its answers back out of the interface they came in by. On a veth they arrive only if the other end has an XDP
/// program too; GRO there does not suffice.
pub struct Actor {
    _attached: Attached,
    counts: MapHandle,
}

impl Actor {
    /// Puts an end's program on an interface.
    pub fn attach(place: &Place, end: End, wanted: Wanted) -> Result<Self, PacketError> {
        let (name, hold, length) = match end {
            End::Client { hold } => ("client", hold, RESPONSE),
            End::Server { response } => ("server", false, response),
        };
        let mut request = [0; abi::REQUEST];
        request[..REQUEST.len()].copy_from_slice(REQUEST);
        let response = response(length);
        let length = length.clamp(HEAD as u16, abi::RESPONSE as u16);
        let constants = abi::Acting {
            hold: hold.into(),
            request_len: REQUEST.len() as u16,
            response_len: length,
            request_sum: sum(REQUEST),
            response_sum: sum(&response[..length.into()]),
            ..abi::Acting::default()
        };
        place.run(|| {
            let object = object::load("tcp", kernel::TCP, |open| {
                kernel::only(open, &[name]);
                kernel::set_section(open, ".rodata.config", &constants)?;
                kernel::set_section(open, ".rodata.request", &request)?;
                kernel::set_section(open, ".rodata.response", &response)
            })?;
            let program = kernel::program(&object, name)?;
            Ok(Self {
                _attached: Attached::new(&program, place.ifindex()?, wanted)?,
                counts: kernel::table(&object, "acted")?,
            })
        })
    }

    /// What it has seen since it was attached.
    pub fn acted(&self) -> Result<Acted, PacketError> {
        let all = map::per_cpu_sum::<u32, 13>(&self.counts, &0).map_err(PacketError::Table)?;
        let [
            established,
            responses,
            closed,
            resets,
            alive,
            strange,
            syns,
            accepted,
            requests,
            fins,
            ends,
            keep_alives,
            no_room,
        ] = all;
        Ok(Acted {
            established,
            responses,
            closed,
            resets,
            alive,
            strange,
            syns,
            accepted,
            requests,
            fins,
            ends,
            keep_alives,
            no_room,
        })
    }
}

/// What an end has seen: segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Acted {
    /// Client: SYN-ACKs of its connections.
    pub established: u64,
    /// Client: segments with data.
    pub responses: u64,
    /// Client: connections ended by both sides.
    pub closed: u64,
    /// Client: connections reset.
    pub resets: u64,
    /// Client: keep-alives answered.
    pub alive: u64,
    /// Client: segments that belong to no connection of its own, which it leaves to the kernel.
    pub strange: u64,
    /// Server: SYNs.
    pub syns: u64,
    /// Server: handshakes completed by a segment without data.
    pub accepted: u64,
    /// Server: requests.
    pub requests: u64,
    /// Server: FINs.
    pub fins: u64,
    /// Server: last acknowledgements and resets.
    pub ends: u64,
    /// Server: keep-alives.
    pub keep_alives: u64,
    /// Either: answers longer than what the frame they answer can grow to.
    pub no_room: u64,
}

impl Acted {
    /// What has been seen since an earlier look.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            established: self.established - before.established,
            responses: self.responses - before.responses,
            closed: self.closed - before.closed,
            resets: self.resets - before.resets,
            alive: self.alive - before.alive,
            strange: self.strange - before.strange,
            syns: self.syns - before.syns,
            accepted: self.accepted - before.accepted,
            requests: self.requests - before.requests,
            fins: self.fins - before.fins,
            ends: self.ends - before.ends,
            keep_alives: self.keep_alives - before.keep_alives,
            no_room: self.no_room - before.no_room,
        }
    }
}

/// A response of HTTP whose length is `length` in all.
fn response(length: u16) -> [u8; abi::RESPONSE] {
    let body = usize::from(length).saturating_sub(HEAD);
    let mut response = [b'x'; abi::RESPONSE];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length:{body:>5}\r\n\r\n");
    response[..head.len()].copy_from_slice(head.as_bytes());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_is_as_long_as_it_says() {
        for length in [HEAD as u16, 64, RESPONSE, 1448] {
            let response = response(length);
            let text = String::from_utf8_lossy(&response[..length.into()]);
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            let told = head.rsplit(':').next().map(|told| told.trim().parse());
            assert_eq!(told, Some(Ok(body.len())), "{length}");
        }
    }
}
