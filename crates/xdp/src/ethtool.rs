//! The requests of `ethtool` that are needed here, by ioctl in the namespace of the calling thread.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sys::checked_errno;

/// Features that can be switched, by the request that sets them (linux/ethtool.h).
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub(crate) enum Feature {
    /// Checksums of sent packets are left to the interface.
    TxChecksum = 0x17,
    /// Segmentation of sent TCP is left to the interface.
    Tso = 0x1f,
    /// Segmentation happens late, below the stack.
    Gso = 0x24,
    /// Received packets are merged; on a veth this also starts NAPI.
    Gro = 0x2c,
}

pub(crate) fn set(interface: &str, feature: Feature, on: bool) -> io::Result<()> {
    let mut value = Value {
        cmd: feature as u32,
        data: on.into(),
    };
    request(interface, &mut value)
}

pub(crate) fn is_on(interface: &str, feature: Feature) -> io::Result<bool> {
    let mut value = Value {
        // Each request that sets is preceded by the one that asks.
        cmd: feature as u32 - 1,
        data: 0,
    };
    request(interface, &mut value)?;
    Ok(value.data != 0)
}

/// How many queues the interface has in use for receiving and for sending.
pub(crate) fn queues(interface: &str) -> io::Result<(u32, u32)> {
    let mut channels = Channels {
        cmd: GET_CHANNELS,
        ..Default::default()
    };
    match request(interface, &mut channels) {
        // A driver without the request has one of each.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok((1, 1)),
        other => other?,
    }
    let [_, _, _, _, rx, tx, _, combined] = channels.counts;
    Ok((rx + combined, tx + combined))
}

/// A socket to send requests by, and the request's head with the interface's name in it.
pub(crate) fn socket_and_request(interface: &str) -> io::Result<(OwnedFd, libc::ifreq)> {
    // SAFETY: an interface request is plain data, valid as zeroes.
    #[expect(unsafe_code, reason = "a C struct")]
    let mut head: libc::ifreq = unsafe { mem::zeroed() };
    if interface.is_empty() || interface.len() >= head.ifr_name.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("\"{interface}\" cannot be an interface's name: it has 1 to 15 bytes"),
        ));
    }
    for (to, from) in head.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: no pointers; what the call returns is a new descriptor or an error.
    #[expect(unsafe_code, reason = "socket")]
    let socket = unsafe {
        let fd = checked_errno(libc::socket(
            libc::AF_INET,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        ))?;
        OwnedFd::from_raw_fd(fd)
    };
    Ok((socket, head))
}

fn request<T: Request>(interface: &str, request: &mut T) -> io::Result<()> {
    let (socket, mut head) = socket_and_request(interface)?;
    head.ifr_ifru.ifru_data = std::ptr::from_mut(request).cast();
    // SAFETY: `head` points to a request that, as its type promises, is as long as its command says.
    #[expect(unsafe_code, reason = "SIOCETHTOOL")]
    let returned = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut head) };
    checked_errno(returned)
        .map(|_| ())
        .map_err(|error| named(error, interface))
}

/// The error with the interface in its message and its kind kept; the number is kept where others look at it.
fn named(error: io::Error, interface: &str) -> io::Error {
    if error.raw_os_error() == Some(libc::EOPNOTSUPP) {
        return error;
    }
    io::Error::new(error.kind(), format!("interface {interface}: {error}"))
}

/// A request of ethtool's, laid out as its command wants it.
trait Request {}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    cmd: u32,
    data: u32,
}

impl Request for Value {}

/// `struct ethtool_channels`: the four maxima, then the four counts of receiving, sending, other and combined ones.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    counts: [u32; 8],
}

impl Request for Channels {}

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GET_CHANNELS: u32 = 0x3c;
