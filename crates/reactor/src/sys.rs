//! System calls, each wrapped once: a descriptor and slices in, `io::Result` out.
//!
//! Those of the hot path go to the kernel by `syscall`: the C library's own functions are points at
//! which a thread can be cancelled, and they prepare for it at every call.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The null pointer, where a call takes one.
const NOTHING: *mut libc::c_void = std::ptr::null_mut();

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Calls again when a signal cut the call short.
fn retry(mut call: impl FnMut() -> libc::ssize_t) -> io::Result<usize> {
    loop {
        match check_len(call()) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: called only with a descriptor that the kernel has just made for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Event(libc::epoll_event);

impl Event {
    pub(crate) const EMPTY: Event = Event(libc::epoll_event { events: 0, u64: 0 });

    pub(crate) fn token(&self) -> u64 {
        self.0.u64
    }

    pub(crate) fn events(&self) -> u32 {
        self.0.events
    }
}

pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(|fd| Epoll(own(fd)))
    }

    /// Edge-triggered, both directions and the peer's FIN.
    pub(crate) fn add_edge(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.add(fd, token, events as u32)
    }

    /// Level-triggered, reading only.
    pub(crate) fn add_level(&self, fd: RawFd, token: u64) -> io::Result<()> {
        self.add(fd, token, libc::EPOLLIN as u32)
    }

    fn add(&self, fd: RawFd, token: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the event lives through the call; the kernel keeps a copy.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) })?;
        Ok(())
    }

    /// Forgets a descriptor. Closing it does as much, but only when no duplicate of it is left.
    pub(crate) fn remove(&self, fd: RawFd) {
        // SAFETY: no memory is passed. One that is not in the set is forgotten already.
        unsafe {
            libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                fd,
                std::ptr::null_mut(),
            )
        };
    }

    /// Waits up to `timeout` milliseconds (`None`: without end) and returns the events that came.
    /// A signal ends the wait with none.
    pub(crate) fn wait<'a>(&self, events: &'a mut [Event], timeout: Option<u64>) -> &'a [Event] {
        let timeout = timeout.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX));
        // SAFETY: `Event` is a transparent wrapper of the kernel's structure, and the slice's
        // length bounds what is written.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait,
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as i32,
                timeout,
                NOTHING,
                0usize,
            )
        };
        &events[..usize::try_from(n).unwrap_or(0)]
    }
}

pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) }).map(own)
}

pub(crate) fn eventfd_signal(fd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight readable bytes. A full counter wakes the reader all the same.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

pub(crate) fn eventfd_clear(fd: &OwnedFd) {
    let mut count = [0u8; 8];
    // SAFETY: eight writable bytes. An empty counter would block, which is as good as cleared.
    unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}

pub(crate) fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

pub(crate) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) }).map(own)
}

pub(crate) fn pipe(capacity: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for the two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) })?;
    let (read, write) = (own(ends[0]), own(ends[1]));
    // A smaller pipe (the user's quota is used up) still works, in more calls.
    // SAFETY: no memory is passed.
    unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, capacity as i32) };
    Ok((read, write))
}

pub(crate) fn recv(fd: RawFd, buf: &mut [u8], flags: i32) -> io::Result<usize> {
    let (start, len) = (buf.as_mut_ptr(), buf.len());
    // SAFETY: the slice bounds what the kernel writes; no address is asked for.
    retry(|| unsafe {
        libc::syscall(libc::SYS_recvfrom, fd, start, len, flags, NOTHING, NOTHING) as libc::ssize_t
    })
}

pub(crate) fn send(fd: RawFd, buf: &[u8], flags: i32) -> io::Result<usize> {
    let flags = flags | libc::MSG_NOSIGNAL;
    let (start, len) = (buf.as_ptr(), buf.len());
    // SAFETY: the slice bounds what the kernel reads; no address is given.
    retry(|| unsafe {
        libc::syscall(libc::SYS_sendto, fd, start, len, flags, NOTHING, 0usize) as libc::ssize_t
    })
}

pub(crate) fn splice(from: RawFd, to: RawFd, len: usize, flags: u32) -> io::Result<usize> {
    let flags = flags | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE;
    // SAFETY: no offsets are passed, so no memory is.
    retry(|| unsafe {
        libc::syscall(libc::SYS_splice, from, NOTHING, to, NOTHING, len, flags) as libc::ssize_t
    })
}

pub(crate) fn accept(fd: RawFd) -> io::Result<(OwnedFd, SocketAddr)> {
    with_address(|address, len| {
        // SAFETY: address and length are those of one large enough buffer.
        unsafe {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            libc::syscall(libc::SYS_accept4, fd, address, len, flags) as libc::c_int
        }
    })
    .map(|(fd, address)| (own(fd), address))
}

pub(crate) fn peer_addr(fd: RawFd) -> io::Result<SocketAddr> {
    // SAFETY: address and length are those of one large enough buffer.
    with_address(|address, len| unsafe { libc::getpeername(fd, address, len) }).map(|(_, a)| a)
}

pub(crate) fn local_addr(fd: RawFd) -> io::Result<SocketAddr> {
    // SAFETY: address and length are those of one large enough buffer.
    with_address(|address, len| unsafe { libc::getsockname(fd, address, len) }).map(|(_, a)| a)
}

fn with_address(
    call: impl Fn(*mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int,
) -> io::Result<(RawFd, SocketAddr)> {
    // SAFETY: all zeroes is a valid (empty) address.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let result = check(call((&raw mut storage).cast(), &mut len))?;
    Ok((result, from_storage(&storage)?))
}

fn from_storage(storage: &libc::sockaddr_storage) -> io::Result<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which structure the storage holds.
            let v4: &libc::sockaddr_in = unsafe { &*(&raw const *storage).cast() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says which structure the storage holds.
            let v6: &libc::sockaddr_in6 = unsafe { &*(&raw const *storage).cast() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        // A Unix socket's peer has no address worth the name.
        libc::AF_UNIX => Ok(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0).into()),
        family => Err(io::Error::other(format!("address family {family}"))),
    }
}

/// The kernel's form of an address, and its length.
fn to_storage(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeroes is a valid (empty) address.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let len = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*v4.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough and aligned for every family.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}

pub(crate) fn connect(to: SocketAddr, from: Option<SocketAddr>) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let fd = own(check(unsafe { libc::socket(family, kind, 0) })?);
    set_nodelay(fd.as_raw_fd(), true)?;
    if let Some(from) = from {
        set_option(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            &1i32,
        )?;
        let (storage, len) = to_storage(from);
        // SAFETY: the storage holds an address of `len` bytes.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const storage).cast(), len) })?;
    }
    let (storage, len) = to_storage(to);
    // SAFETY: the storage holds an address of `len` bytes.
    match check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const storage).cast(), len) }) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(fd),
    }
}

/// Whether the handshake is done; an error when it has failed.
pub(crate) fn is_connected(fd: RawFd) -> io::Result<bool> {
    if let Some(error) = take_error(fd)? {
        return Err(error);
    }
    match peer_addr(fd) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(e) => Err(e),
    }
}

pub(crate) fn take_error(fd: RawFd) -> io::Result<Option<io::Error>> {
    let mut code: i32 = 0;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: room for one integer.
    check(unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut code).cast(),
            &mut len,
        )
    })?;
    Ok((code != 0).then(|| io::Error::from_raw_os_error(code)))
}

pub(crate) fn set_option<T>(fd: RawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is `len` bytes long.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const *value).cast(), len) })?;
    Ok(())
}

pub(crate) fn set_nodelay(fd: RawFd, on: bool) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &i32::from(on))
}

/// Takes a connection's words off the wire: a close says nothing (tcp(7): for those who move connections).
pub(crate) fn set_repair(fd: RawFd) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR, &1i32)
}

/// The smoothed round trip in microseconds, bytes received and bytes sent, of `struct tcp_info` in linux/tcp.h. A kernel
/// that knows fewer fields leaves them 0.
pub(crate) fn tcp_figures(fd: RawFd) -> io::Result<(u32, u64, u64)> {
    const RTT: usize = 68;
    const BYTES_RECEIVED: usize = 128;
    const BYTES_SENT: usize = 200;
    let mut info = [0u64; 27];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `len` writable bytes.
    check(unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut len,
        )
    })?;
    let half = info[RTT / 8].to_ne_bytes();
    let round_trip = u32::from_ne_bytes([half[4], half[5], half[6], half[7]]);
    Ok((round_trip, info[BYTES_RECEIVED / 8], info[BYTES_SENT / 8]))
}

/// Raises the receive buffer, as far as the system lets it. SO_RCVBUF would end the kernel's own tuning and has a lower
/// limit; a low-water mark makes room for itself, which stays when the mark is taken back.
pub(crate) fn widen(fd: RawFd, bytes: u32) {
    let mark = i32::try_from(bytes).unwrap_or(i32::MAX);
    // Without it the connection is but slower to begin with.
    if set_option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &mark).is_ok() {
        let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &1i32);
    }
}

pub(crate) fn set_linger_zero(fd: RawFd) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

pub(crate) fn shutdown(fd: RawFd, how: Shutdown) -> io::Result<()> {
    let how = match how {
        Shutdown::Read => libc::SHUT_RD,
        Shutdown::Write => libc::SHUT_WR,
        Shutdown::Both => libc::SHUT_RDWR,
    };
    // SAFETY: no memory is passed.
    check(unsafe { libc::shutdown(fd, how) })?;
    Ok(())
}
