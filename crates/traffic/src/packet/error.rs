//! What can go wrong with generating and receiving packets.

use super::capture::CaptureError;
use super::range::RangeError;
use super::stream::StreamError;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use thiserror::Error;
use xdp::attach::AttachError;
use xdp::object::LoadError;

/// Why packets could not be made or taken in.
#[derive(Debug, Error)]
pub enum PacketError {
    /// No way into a network namespace.
    #[error("network namespace {}: {source}; `ip netns` lists those there are", path.display())]
    Namespace {
        /// Its file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// No such interface, or nothing to be learnt of it.
    #[error("interface {interface}: {source}; `ip link` lists those there are")]
    Interface {
        /// Its name.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody answers for an address.
    #[error(
        "interface {interface}: no Ethernet address is known for {address}; name it with --dst-mac"
    )]
    Neighbour {
        /// The interface.
        interface: String,
        /// The address, or that of the gateway to it.
        address: IpAddr,
    },
    /// The kernel's tables cannot be asked.
    #[error("cannot ask the kernel for the route to {address}: {source}")]
    Route {
        /// The destination.
        address: IpAddr,
        /// What went wrong.
        source: io::Error,
    },
    /// The thread cannot be bound to a core.
    #[error(
        "cannot bind a thread to core {core}: {source}; `nproc` says how many there are, from 0 on"
    )]
    Core {
        /// The core.
        core: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// The frames are not sensible.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A range is not sensible.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// A file of packets cannot be used.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A program cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A program cannot be put on an interface.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A table of a program cannot be used.
    #[error("the generator's tables in the kernel: {0}")]
    Table(io::Error),
    /// The kernel does not send.
    #[error("interface {interface}: cannot send: {source}")]
    Send {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The interface does not take the frames.
    #[error(
        "interface {interface} does not take live frames: {source}; it must be up, and its MTU and its peer's large enough; a veth \
         takes them when its other end has a native XDP program or GRO (ethtool -K PEER gro on), and every interface takes \
         frames from a socket"
    )]
    Refused {
        /// Its name.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Frames longer than the way they are sent can take.
    #[error(
        "frames of {size} bytes cannot be sent by live frames, {most} is the most; send them by a socket"
    )]
    TooLong {
        /// The longest frame, bytes.
        size: usize,
        /// The most, bytes.
        most: usize,
    },
    /// What the command line asks for does not fit together.
    #[error("{0}")]
    Usage(String),
}
