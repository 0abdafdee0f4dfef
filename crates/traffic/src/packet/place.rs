//! Where frames leave and arrive: an interface in a network namespace, and threads that work there.

use super::error::PacketError;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use xdp::interface;

/// An interface, in this network namespace or in a named one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    netns: Option<PathBuf>,
    interface: String,
}

impl Place {
    /// The interface of this name in the namespace of the calling thread.
    pub fn here(interface: impl Into<String>) -> Self {
        Self {
            netns: None,
            interface: interface.into(),
        }
    }

    /// The interface of this name in a namespace: a name that `ip netns` knows, or the path of a namespace's file.
    pub fn within(netns: impl AsRef<Path>, interface: impl Into<String>) -> Self {
        // A name joined to a folder is in it, an absolute path stays itself.
        Self {
            netns: Some(Path::new("/run/netns").join(netns)),
            interface: interface.into(),
        }
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Runs something in the namespace, on a thread of its own, and waits for it.
    pub fn run<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, PacketError> + Send,
    ) -> Result<T, PacketError> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                work()
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Moves the calling thread into the namespace, for good.
    pub(super) fn enter(&self) -> Result<(), PacketError> {
        let Some(path) = &self.netns else {
            return Ok(());
        };
        let failed = |source| PacketError::Namespace {
            path: path.clone(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        // SAFETY: the descriptor is open; only this thread's namespace changes.
        #[expect(unsafe_code, reason = "setns")]
        let moved = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
        if moved < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        Ok(())
    }

    /// The interface's number; for threads in the namespace.
    pub(super) fn ifindex(&self) -> Result<u32, PacketError> {
        interface::ifindex(&self.interface).map_err(|source| PacketError::Interface {
            interface: self.interface.clone(),
            source,
        })
    }

    /// The interface's Ethernet address.
    pub fn mac(&self) -> Result<[u8; 6], PacketError> {
        self.run(|| {
            interface::mac(&self.interface).map_err(|source| PacketError::Interface {
                interface: self.interface.clone(),
                source,
            })
        })
    }

    /// The Ethernet address of whom the kernel would hand a packet to `destination` over this interface.
    ///
    /// It is looked up in the kernel's table of IPv4 neighbours after having asked for it.
    pub fn neighbour(&self, destination: IpAddr) -> Result<[u8; 6], PacketError> {
        self.run(|| super::neighbour::find(&self.interface, destination))
    }
}

/// The number of the calling thread's network namespace, as the kernel counts them.
pub(super) fn namespace_inode() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// Binds the calling thread to a core.
pub fn pin_to_core(core: usize) -> Result<(), PacketError> {
    xdp::netns::pin_to_core(0, core).map_err(|source| PacketError::Core { core, source })
}

/// Has the calling thread wake up from sleep when it should, and not up to 50 µs later.
pub(super) fn wake_in_time() {
    #[expect(unsafe_code, reason = "std has no such setting")]
    // SAFETY: a number is all that is passed. Should it fail, the thread sleeps longer.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1)
    };
}

/// Nanoseconds on the clock that programs in the kernel read.
pub(super) fn monotonic() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[expect(unsafe_code, reason = "std does not give its clock's number")]
    // SAFETY: the struct outlives the call; this clock exists everywhere.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time)
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
