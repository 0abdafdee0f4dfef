//! Packets made for measuring: streams of frames sent by eBPF on live frames, received and counted by eBPF on the other
//! side, and TCP connections acted out from both ends. What rates mean is left to `benches`; real connections with
//! content are made by [`crate::http`].

mod abi;
mod capture;
mod checksum;
pub mod command;
mod cookie;
mod error;
mod generator;
mod kernel;
mod neighbour;
mod place;
mod range;
mod receiver;
mod sender;
mod sizes;
mod socket;
mod stream;
pub mod tcp;

pub use capture::{Capture, CaptureError, ParseError};
pub use error::PacketError;
pub use generator::{Done, Generator, Plan, Way};
pub use place::{Place, pin_to_core};
pub use range::{Addresses, Ports, RangeError};
pub use receiver::{Received, Receiver, Receiving, StreamReceived};
pub use sender::{BATCH, LONGEST_LIVE, Sender, Sent, What};
pub use sizes::{LONGEST, SHORTEST, SizeError, Sizes};
pub use socket::SocketSender;
pub use stream::{ACK, Act, FIN, Order, PSH, Part, Protocol, RST, SYN, Stream, StreamError};
