//! The other end of `mode: ipip`: a program on a member's interface that unpacks what balancers send there. It stays when
//! the process ends; what needs a process is putting it there and taking it off.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use thiserror::Error;
use xdp::attach::{self, AttachError, Attachment, LinkError, Mode, Wanted};
use xdp::libbpf_rs::{MapCore, Object};
use xdp::map::{self, Pod};
use xdp::object::{self, LoadError};
use xdp::pin::{self, PinError};
use xdp::{interface, libbpf_rs};

use crate::abi::{self, Addr6};

/// Where the programs are pinned, a folder for each interface's number.
pub const ROOT: &str = "/sys/fs/bpf/headgate-decap";
/// Addresses at most.
pub const MOST_ADDRESSES: usize = 1024;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/decap.bpf.o"));
const ADDRESSES: &str = "decap_addresses";
const COUNTERS: &str = "decap_counters";
const LINK: &str = "link";

/// What was done with the packets that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Unpacked.
    pub decapsulated: u64,
    /// Passed up as they were: no tunnel's, to none of the addresses, or fragments.
    pub passed: u64,
    /// Dropped: what was inside was cut short, or no IP.
    pub malformed: u64,
    /// Dropped: congestion was met on the way, of which what was inside cannot tell (RFC 6040, section 4.2).
    pub congested: u64,
}

/// A program on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The interface.
    pub interface: String,
    /// Where in the receive path the program runs.
    pub mode: Mode,
    /// Where tunnels may end.
    pub addresses: Vec<IpAddr>,
    /// What it did since it was put there.
    pub stats: Stats,
}

/// Why a program cannot be put on an interface, taken off, or looked at.
#[derive(Debug, Error)]
pub enum DecapError {
    /// There is no such interface.
    #[error("interface «{interface}»: {source}")]
    Interface {
        /// Its name.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// No address was given, and it has none.
    #[error(
        "interface «{0}» has no address at which a tunnel could end: give it one, or name the addresses"
    )]
    NoAddress(String),
    /// Too many addresses were given.
    #[error("{0} addresses are more than the {MOST_ADDRESSES} there is room for")]
    TooMany(usize),
    /// The program was refused.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It cannot be put on the interface.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// What is on the interface cannot be changed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The pins cannot be kept.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// A table cannot be read, written or pinned.
    #[error("{}: {source}", what.display())]
    Table {
        /// Its pin, or its name.
        what: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Puts the program on an interface, or in the place of an earlier one without a packet lost. Tunnels end at `addresses`;
/// without any, at those that the interface has now.
///
/// # Errors
/// When there is no such interface or no address, the process lacks privileges, or another program is there.
pub fn attach(interface: &str, wanted: Wanted, addresses: &[IpAddr]) -> Result<Status, DecapError> {
    attach_at(Path::new(ROOT), interface, wanted, addresses)
}

/// Takes the program off an interface; `false` when there was none.
///
/// # Errors
/// When there is no such interface, or the kernel refuses.
pub fn detach(interface: &str) -> Result<bool, DecapError> {
    detach_at(Path::new(ROOT), interface)
}

/// What is known of the program on an interface, `None` when there is none.
///
/// # Errors
/// When there is no such interface, or its pins cannot be read.
pub fn status(interface: &str) -> Result<Option<Status>, DecapError> {
    status_at(Path::new(ROOT), interface)
}

/// As [`attach()`], pinned under another root.
///
/// # Errors
/// As [`attach()`].
pub fn attach_at(
    root: &Path,
    interface: &str,
    wanted: Wanted,
    addresses: &[IpAddr],
) -> Result<Status, DecapError> {
    let ifindex = number(interface)?;
    let own;
    let addresses = if addresses.is_empty() {
        own = own_addresses(interface)?;
        &own
    } else {
        addresses
    };
    let program = Program::load(addresses)?;
    let folder = folder(root, ifindex);
    pin::mounted(&folder)?;
    let link = folder.join(LINK);
    // a pin whose interface is gone may bear the number of this one
    let mode = match Attachment::open(&link) {
        Ok(there) => {
            there.update(program.fd()?)?;
            there.mode()
        }
        Err(_) => {
            pin::unpin(&link).map_err(|source| at(&link, source))?;
            let mut attachment = attach::attach(program.fd()?, ifindex, wanted)?;
            attachment.pin(&link)?;
            attachment.mode()
        }
    };
    for name in [ADDRESSES, COUNTERS] {
        let path = folder.join(name);
        let table = object::map(&program.object, name).map_err(|source| at(&path, source))?;
        pin::unpin(&path).map_err(|source| at(&path, source))?;
        pin::pin(std::os::fd::AsFd::as_fd(&table), &path).map_err(|source| at(&path, source))?;
    }
    Ok(Status {
        interface: interface.to_owned(),
        mode,
        addresses: addresses.to_vec(),
        stats: Stats::default(),
    })
}

/// As [`detach`], pinned under another root.
///
/// # Errors
/// As [`detach`].
pub fn detach_at(root: &Path, interface: &str) -> Result<bool, DecapError> {
    let folder = folder(root, number(interface)?);
    if !folder.exists() {
        return Ok(false);
    }
    let there = match Attachment::open(folder.join(LINK)) {
        Ok(attachment) => {
            attachment.detach()?;
            true
        }
        Err(_) => false,
    };
    pin::remove_tree(&folder)?;
    // empty once nothing is left, and then gone
    let _ = fs::remove_dir(root);
    Ok(there)
}

/// As [`status`], pinned under another root.
///
/// # Errors
/// As [`status`].
pub fn status_at(root: &Path, interface: &str) -> Result<Option<Status>, DecapError> {
    let folder = folder(root, number(interface)?);
    let Ok(attachment) = Attachment::open(folder.join(LINK)) else {
        return Ok(None);
    };
    let open = |name: &str| {
        let path = folder.join(name);
        pin::open_map(&path).map_err(|source| at(&path, source))
    };
    let (table, counters) = (open(ADDRESSES)?, open(COUNTERS)?);
    let mut addresses = Vec::new();
    map::entries(&table, |key: Key, _: u32| addresses.push(key.address()))
        .map_err(|source| at(&folder.join(ADDRESSES), source))?;
    addresses.sort_unstable();
    addresses.dedup();
    Ok(Some(Status {
        interface: interface.to_owned(),
        mode: attachment.mode(),
        addresses,
        stats: read(&counters).map_err(|source| at(&folder.join(COUNTERS), source))?,
    }))
}

/// The program, loaded and on no interface.
#[derive(Debug)]
pub struct Program {
    object: Object,
}

impl Program {
    /// With addresses where tunnels may end.
    ///
    /// # Errors
    /// When the kernel refuses it, or there are too many.
    pub fn load(addresses: &[IpAddr]) -> Result<Self, DecapError> {
        if addresses.len() > MOST_ADDRESSES {
            return Err(DecapError::TooMany(addresses.len()));
        }
        let object = object::load("decap", OBJECT, |_| Ok::<(), libbpf_rs::Error>(()))?;
        let wrong = |source| at(Path::new(ADDRESSES), source);
        let table = object::map(&object, ADDRESSES).map_err(wrong)?;
        for address in addresses {
            map::set(&table, &Key::of(*address), &1u32).map_err(wrong)?;
        }
        Ok(Self { object })
    }

    /// The program itself.
    ///
    /// # Errors
    /// Never, as long as the object has it.
    pub fn fd(&self) -> Result<BorrowedFd<'_>, DecapError> {
        object::program(&self.object, "headgate_decap")
            .map_err(|source| at(Path::new("headgate_decap"), source))
    }

    /// What it did so far.
    ///
    /// # Errors
    /// When the kernel does not let the table be read.
    pub fn stats(&self) -> Result<Stats, DecapError> {
        object::map(&self.object, COUNTERS)
            .and_then(|counters| read(&counters))
            .map_err(|source| at(Path::new(COUNTERS), source))
    }
}

/// A key of `decap_addresses`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Key {
    addr: Addr6,
    family: u32,
}

// SAFETY: it is repr(C), of 20 bytes as its fields are, and each value of those is good.
#[expect(unsafe_code, reason = "plain data")]
unsafe impl Pod for Key {}

impl Key {
    fn of(address: IpAddr) -> Self {
        Self {
            addr: abi::widened(address),
            family: if address.is_ipv4() { 4 } else { 6 },
        }
    }

    fn address(self) -> IpAddr {
        abi::narrowed(self.addr, self.family as u8)
    }
}

/// The counters, in the order of `bpf/decap.bpf.c`.
fn read(counters: &impl MapCore) -> io::Result<Stats> {
    let count = |index: u32| map::per_cpu_sum(counters, &index).map(|[n]| n);
    Ok(Stats {
        decapsulated: count(0)?,
        passed: count(1)?,
        malformed: count(2)?,
        congested: count(3)?,
    })
}

fn number(name: &str) -> Result<u32, DecapError> {
    interface::ifindex(name).map_err(|source| DecapError::Interface {
        interface: name.to_owned(),
        source,
    })
}

/// The addresses of an interface that others can send to.
fn own_addresses(name: &str) -> Result<Vec<IpAddr>, DecapError> {
    let all = interface::addresses(name).map_err(|source| DecapError::Interface {
        interface: name.to_owned(),
        source,
    })?;
    let addresses: Vec<IpAddr> = all.iter().map(|one| one.ip).collect();
    if addresses.is_empty() {
        return Err(DecapError::NoAddress(name.to_owned()));
    }
    Ok(addresses)
}

fn folder(root: &Path, ifindex: u32) -> PathBuf {
    root.join(ifindex.to_string())
}

fn at(what: &Path, source: io::Error) -> DecapError {
    DecapError::Table {
        what: what.to_owned(),
        source,
    }
}
