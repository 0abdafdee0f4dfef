//! The system calls that std and socket2 do not wrap: epoll, sendfile from memory, receiving without copying.
//! The only unsafe code of this crate.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// An epoll instance with room for the events of one wait.
pub(super) struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// What is wanted of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Interest {
    /// Connections to accept; reported as long as there are some.
    Accept,
    /// Data or its end; reported once for each arrival.
    Read,
    /// Data, its end, or room to send; reported once for each change.
    ReadWrite,
}

/// One report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// The number the descriptor was added with.
    pub(super) token: u64,
    /// Data, an end or an error can be read.
    pub(super) readable: bool,
    /// There is room to send, or the connection is established.
    pub(super) writable: bool,
    /// The other side has sent all that it will.
    pub(super) ended: bool,
}

impl Epoll {
    pub(super) fn new(capacity: usize) -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            fd,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; capacity],
        })
    }

    pub(super) fn add(&self, fd: &impl AsRawFd, token: u64, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Accept => libc::EPOLLIN,
            Interest::Read => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET,
            Interest::ReadWrite => {
                libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET
            }
        };
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), events, token)
    }

    /// Wait for at most `milliseconds` (for ever if negative); says how many events there are.
    pub(super) fn wait(&mut self, milliseconds: i32) -> io::Result<usize> {
        let room = c_int::try_from(self.events.len()).unwrap_or(c_int::MAX);
        // SAFETY: `events` is writable for `room` entries.
        let n = unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                room,
                milliseconds,
            )
        };
        match check(n) {
            Ok(n) => Ok(usize::try_from(n).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// An event of the last wait.
    pub(super) fn event(&self, index: usize) -> Event {
        let event = self.events[index];
        let (bits, token) = (event.events, event.u64);
        let is = |wanted: c_int| bits & wanted.cast_unsigned() != 0;
        Event {
            token,
            readable: is(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
            writable: is(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR),
            ended: is(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR),
        }
    }

    fn control(&self, what: c_int, fd: RawFd, events: c_int, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events.cast_unsigned(),
            u64: token,
        };
        // SAFETY: `event` outlives the call.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd, &raw mut event) }).map(drop)
    }
}

/// Receive into `buffer`; 0 is the end.
pub(super) fn receive(fd: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buffer` is writable for its length.
    let n = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    check_size(n)
}

/// Take up to `most` bytes off a TCP socket's queue without copying them; 0 is the end.
pub(super) fn discard(fd: &impl AsRawFd, most: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC, TCP drops the bytes and never writes to the buffer (tcp(7)).
    let n = unsafe { libc::recv(fd.as_raw_fd(), ptr::null_mut(), most, libc::MSG_TRUNC) };
    check_size(n)
}

/// Send from `buffer`, without a signal if the other side is gone.
pub(super) fn send(fd: &impl AsRawFd, buffer: &[u8]) -> io::Result<usize> {
    // SAFETY: `buffer` is readable for its length.
    let n = unsafe {
        libc::send(
            fd.as_raw_fd(),
            buffer.as_ptr().cast(),
            buffer.len(),
            libc::MSG_NOSIGNAL,
        )
    };
    check_size(n)
}

/// Send up to `most` bytes of `file` from `offset`, without copying them.
pub(super) fn send_file(
    fd: &impl AsRawFd,
    file: &File,
    offset: u64,
    most: usize,
) -> io::Result<usize> {
    let mut offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    // SAFETY: `offset` outlives the call.
    let n = unsafe { libc::sendfile(fd.as_raw_fd(), file.as_raw_fd(), &raw mut offset, most) };
    check_size(n)
}

/// Let binding to an address leave the port to be chosen when the socket connects.
pub(super) fn choose_port_late(fd: &impl AsRawFd) -> io::Result<()> {
    let on: c_int = 1;
    // SAFETY: the option is an int, and `on` outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// A file that lives in memory.
pub(super) fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a C string.
    let fd = check(unsafe { libc::memfd_create(c"body".as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The processor time this process has used, in nanoseconds.
pub(super) fn own_cpu() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn check_size(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
