//! Facts about the network interfaces in the namespace of the calling thread, and the few switches that XDP asks for.
//!
//! Everything goes by socket requests and /proc, never by /sys, which shows the namespace it was mounted in.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use crate::ethtool::{self, Feature, socket_and_request};
use crate::sys::checked_errno;

/// The number of the interface of this name.
pub fn ifindex(name: &str) -> io::Result<u32> {
    let c = CString::new(name).map_err(|_| missing(name))?;
    // SAFETY: a C string that lives over the call.
    #[expect(unsafe_code, reason = "if_nametoindex")]
    match unsafe { libc::if_nametoindex(c.as_ptr()) } {
        0 => Err(missing(name)),
        index => Ok(index),
    }
}

/// The name of the interface of this number.
pub fn name(ifindex: u32) -> io::Result<String> {
    let mut buffer = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer is as long as the call demands.
    #[expect(unsafe_code, reason = "if_indextoname")]
    let found = unsafe { libc::if_indextoname(ifindex, buffer.as_mut_ptr()) };
    if found.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call wrote a C string into the buffer.
    #[expect(unsafe_code, reason = "a C string")]
    Ok(unsafe { CStr::from_ptr(buffer.as_ptr()) }
        .to_string_lossy()
        .into_owned())
}

/// The names of all interfaces, loopback among them.
pub fn names() -> io::Result<Vec<String>> {
    let text = fs::read_to_string(NET_DEV)?;
    Ok(device_lines(&text)
        .map(|(name, _)| name.to_owned())
        .collect())
}

/// The Ethernet address.
pub fn mac(name: &str) -> io::Result<[u8; 6]> {
    let answer = ask(name, libc::SIOCGIFHWADDR)?;
    // SAFETY: the kernel answered this request with a hardware address.
    #[expect(unsafe_code, reason = "a C union")]
    let bytes = unsafe { answer.ifr_ifru.ifru_hwaddr.sa_data };
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(bytes) {
        *to = from as u8;
    }
    Ok(mac)
}

/// The largest packet in bytes, without the Ethernet header.
pub fn mtu(name: &str) -> io::Result<u32> {
    let answer = ask(name, libc::SIOCGIFMTU)?;
    // SAFETY: the kernel answered this request with an MTU.
    #[expect(unsafe_code, reason = "a C union")]
    let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
    Ok(mtu as u32)
}

/// Whether the interface is administratively up.
pub fn is_up(name: &str) -> io::Result<bool> {
    Ok(flags(name)? & libc::IFF_UP != 0)
}

/// Brings the interface up or down. Needs CAP_NET_ADMIN.
pub fn set_up(name: &str, up: bool) -> io::Result<()> {
    let before = flags(name)?;
    let wanted = if up {
        before | libc::IFF_UP
    } else {
        before & !libc::IFF_UP
    };
    let (socket, mut request) = socket_and_request(name)?;
    request.ifr_ifru.ifru_flags = wanted as libc::c_short;
    // SAFETY: the request is what this ioctl takes.
    #[expect(unsafe_code, reason = "ioctl")]
    checked_errno(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &mut request) })
        .map(|_| ())
}

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Bits of it that are the network's.
    pub prefix: u8,
}

/// The addresses of the interface, of both families, link-local ones too.
pub fn addresses(name: &str) -> io::Result<Vec<Address>> {
    ifindex(name)?;
    let mut list = std::ptr::null_mut();
    // SAFETY: the call writes a list that `freeifaddrs` below frees.
    #[expect(unsafe_code, reason = "getifaddrs")]
    checked_errno(unsafe { libc::getifaddrs(&mut list) })?;
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list, which is not freed yet; its name is a C string.
        #[expect(unsafe_code, reason = "a C list")]
        let (entry, its_name) = unsafe { (&*next, CStr::from_ptr((*next).ifa_name)) };
        if its_name.to_bytes() == name.as_bytes()
            && let Some(ip) = socket_ip(entry.ifa_addr)
            && let Some(mask) = socket_ip(entry.ifa_netmask)
        {
            let prefix = match mask {
                IpAddr::V4(mask) => mask.to_bits().leading_ones(),
                IpAddr::V6(mask) => mask.to_bits().leading_ones(),
            };
            found.push(Address {
                ip,
                prefix: prefix as u8,
            });
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list comes from `getifaddrs`, and nothing of it is kept.
    #[expect(unsafe_code, reason = "freeifaddrs")]
    unsafe {
        libc::freeifaddrs(list);
    }
    Ok(found)
}

/// How many queues the interface receives by, and how many it sends by.
pub fn queues(name: &str) -> io::Result<(u32, u32)> {
    ifindex(name)?;
    ethtool::queues(name)
}

/// Switches the merging of received packets (GRO). On a veth it also makes the interface receive by NAPI, without
/// which XDP cannot redirect into its peer.
pub fn set_gro(name: &str, on: bool) -> io::Result<()> {
    ethtool::set(name, Feature::Gro, on)
}

/// Whether received packets are merged (GRO).
pub fn gro(name: &str) -> io::Result<bool> {
    ethtool::is_on(name, Feature::Gro)
}

/// Whether the interface leaves anything about sent packets to be finished by itself: checksums or segments.
pub fn offloads(name: &str) -> io::Result<bool> {
    for feature in [Feature::TxChecksum, Feature::Tso, Feature::Gso] {
        if ethtool::is_on(name, feature)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the kernel finish checksums and segments before a packet leaves by this interface. The end of a veth must do
/// so when its packets meet a program that redirects them: what the interface was to finish never would be.
pub fn offloads_off(name: &str) -> io::Result<()> {
    ethtool::set(name, Feature::TxChecksum, false)?;
    ethtool::set(name, Feature::Tso, false)?;
    ethtool::set(name, Feature::Gso, false)
}

/// What an interface has received and sent since it exists. A native XDP program on a veth counts what it redirects
/// away as received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets dropped instead of received.
    pub rx_dropped: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped instead of sent.
    pub tx_dropped: u64,
}

/// The interface's counters as they stand.
pub fn counters(name: &str) -> io::Result<Counters> {
    let text = fs::read_to_string(NET_DEV)?;
    device_lines(&text)
        .find(|(found, _)| *found == name)
        .and_then(|(_, figures)| figures_of(figures))
        .ok_or_else(|| missing(name))
}

/// The namespace of the calling thread; /proc/net would be the process's first thread's.
const NET_DEV: &str = "/proc/thread-self/net/dev";

/// Names and the rest of their lines, from below the two lines of headings.
fn device_lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .skip(2)
        .filter_map(|line| line.rsplit_once(':'))
        .map(|(name, figures)| (name.trim_start(), figures))
}

/// Eight figures of receiving, eight of sending: bytes, packets, errors, dropped and four more.
fn figures_of(line: &str) -> Option<Counters> {
    let figures: Vec<u64> = line
        .split_whitespace()
        .map_while(|figure| figure.parse().ok())
        .collect();
    match figures[..] {
        [
            rx_bytes,
            rx_packets,
            _,
            rx_dropped,
            _,
            _,
            _,
            _,
            tx_bytes,
            tx_packets,
            _,
            tx_dropped,
            ..,
        ] => Some(Counters {
            rx_bytes,
            rx_packets,
            rx_dropped,
            tx_bytes,
            tx_packets,
            tx_dropped,
        }),
        _ => None,
    }
}

fn flags(name: &str) -> io::Result<i32> {
    let answer = ask(name, libc::SIOCGIFFLAGS)?;
    // SAFETY: the kernel answered this request with flags.
    #[expect(unsafe_code, reason = "a C union")]
    let flags = unsafe { answer.ifr_ifru.ifru_flags };
    Ok(flags.into())
}

fn ask(name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let (socket, mut request) = socket_and_request(name)?;
    // SAFETY: the request is what the ioctls for which this is called take and answer in.
    #[expect(unsafe_code, reason = "ioctl")]
    let returned = unsafe { libc::ioctl(socket.as_raw_fd(), what, &mut request) };
    match checked_errno(returned) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Err(missing(name)),
        Err(error) => Err(error),
        Ok(_) => Ok(request),
    }
}

fn socket_ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the kernel's address is as long as its family says.
    #[expect(unsafe_code, reason = "a C socket address")]
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let v4 = &*address.cast::<libc::sockaddr_in>();
                Some(Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = &*address.cast::<libc::sockaddr_in6>();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("there is no interface {name} in this network namespace"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_line_of_their_interface() {
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       2    0    0    0     0          0         0      100       2    0    0    0     0       0          0
eth0.5: 7000 70 1 3 0 0 0 0 9000 90 2 4 0 0 0 0
";
        let (name, figures) = device_lines(text).nth(1).unwrap();
        assert_eq!(name, "eth0.5");
        assert_eq!(
            figures_of(figures),
            Some(Counters {
                rx_bytes: 7000,
                rx_packets: 70,
                rx_dropped: 3,
                tx_bytes: 9000,
                tx_packets: 90,
                tx_dropped: 4,
            })
        );
        assert_eq!(figures_of("1 2 3"), None);
    }

    #[test]
    fn loopback_is_known_by_name_and_number() {
        let index = ifindex("lo").unwrap();
        assert_eq!(name(index).unwrap(), "lo");
        assert!(names().unwrap().contains(&"lo".to_owned()));
        assert_eq!(mac("lo").unwrap(), [0; 6]);
        assert!(mtu("lo").unwrap() >= 1280);
        assert_eq!(queues("lo").unwrap(), (1, 1));
        let v4 = Address {
            ip: Ipv4Addr::LOCALHOST.into(),
            prefix: 8,
        };
        assert!(addresses("lo").unwrap().contains(&v4));
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        for error in [
            ifindex("absent0").unwrap_err(),
            mtu("absent0").unwrap_err(),
            addresses("absent0").unwrap_err(),
            queues("absent0").unwrap_err(),
            counters("absent0").unwrap_err(),
        ] {
            assert!(error.to_string().contains("absent0"), "{error}");
        }
        assert!(
            mtu("a-name-that-is-far-too-long")
                .unwrap_err()
                .to_string()
                .contains("15 bytes")
        );
    }
}
