//! Receiving by threads of the kernel's own, which can be put on a core of their own, so that measurements know who
//! works where.

use std::fs;
use std::io;
use std::mem;
use std::path::Path;

use super::{Namespace, mount};
use crate::sys::checked_errno;

impl Namespace {
    /// Has the interface receive by kernel threads (threaded NAPI), one a queue, or no longer.
    ///
    /// The threads of a veth exist while it receives by NAPI: once GRO is on or an XDP program attached.
    pub fn threaded(&self, interface: &str, on: bool) -> io::Result<()> {
        self.run(|| {
            // The switch is in /sys, and /sys shows the namespace it was mounted in: mount it anew, for this thread.
            // SAFETY: changes the mounts that this thread alone, which ends below, sees.
            #[expect(unsafe_code, reason = "unshare")]
            checked_errno(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
            mount(None, Path::new("/"), libc::MS_PRIVATE | libc::MS_REC)?;
            mount_sysfs()?;
            let path = format!("/sys/class/net/{interface}/threaded");
            fs::write(&path, if on { "1" } else { "0" }).map_err(|error| {
                io::Error::new(error.kind(), format!("{path} in {}: {error}", self.name()))
            })
        })
    }

    /// The process numbers of the kernel threads that receive for the interface, queue by queue.
    ///
    /// They are found by the interface's name alone: give interfaces of other namespaces other names.
    pub fn napi_threads(&self, interface: &str) -> io::Result<Vec<i32>> {
        let mut threads = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok())
            else {
                continue;
            };
            // A process may have ended since it was listed.
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            if let Some(number) = napi_number(name.trim_end(), interface) {
                threads.push((number, pid));
            }
        }
        // Drivers number NAPI instances upwards with their queues; the kernel starts threads the other way round.
        threads.sort_unstable();
        Ok(threads.into_iter().map(|(_, pid)| pid).collect())
    }
}

/// Keeps a process or thread on one core; process 0 is the calling thread.
pub fn pin_to_core(pid: i32, core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("there is no core {core}"),
        ));
    }
    // SAFETY: a set of cores is plain data, valid as zeroes, with room for `CPU_SETSIZE` of them.
    #[expect(unsafe_code, reason = "sched_setaffinity")]
    let returned = unsafe {
        let mut cores: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(core, &mut cores);
        libc::sched_setaffinity(pid, size_of_val(&cores), &cores)
    };
    checked_errno(returned).map(|_| ())
}

/// The number of the NAPI instance that a thread named `napi/INTERFACE-NUMBER` serves.
fn napi_number(thread: &str, interface: &str) -> Option<u32> {
    let rest = thread.strip_prefix("napi/")?.strip_prefix(interface)?;
    rest.strip_prefix('-')?.parse().ok()
}

fn mount_sysfs() -> io::Result<()> {
    // SAFETY: C strings that live over the call; no data is given.
    #[expect(unsafe_code, reason = "mount")]
    let returned = unsafe {
        libc::mount(
            c"sysfs".as_ptr(),
            c"/sys".as_ptr(),
            c"sysfs".as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    checked_errno(returned).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_by_the_whole_name_of_the_interface() {
        assert_eq!(napi_number("napi/veth0-8193", "veth0"), Some(8193));
        assert_eq!(napi_number("napi/veth0-1-8193", "veth0-1"), Some(8193));
        assert_eq!(napi_number("napi/veth0-1-8193", "veth0"), None);
        assert_eq!(napi_number("napi/veth01-8193", "veth0"), None);
        assert_eq!(napi_number("kworker/0:1", "veth0"), None);
    }
}
