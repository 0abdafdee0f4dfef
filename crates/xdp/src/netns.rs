//! Network namespaces for tests and measurements: made, wired up with veth pairs, entered, and removed again.
//!
//! Links, addresses and routes are made by iproute2's `ip`, which must be installed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::thread;

use crate::interface;
use crate::sys::{c_path, checked_errno};

mod links;
mod napi;

pub use links::{veth, veth_with_queues};
pub use napi::pin_to_core;

/// A network namespace of its own, with loopback up, removed when this is dropped, also by a panic.
///
/// It has a name under which `ip netns exec` finds it. Processes started inside keep its interfaces alive until they
/// end.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    descriptor: Arc<OwnedFd>,
}

impl Namespace {
    /// A namespace with a unique name. Needs CAP_SYS_ADMIN.
    pub fn new() -> io::Result<Self> {
        static SWEPT: Once = Once::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        SWEPT.call_once(sweep);
        Self::named(&format!(
            "{PREFIX}{}-{}",
            process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ))
    }

    /// A namespace of this name; fails with `AlreadyExists` when there is one.
    pub fn named(name: &str) -> io::Result<Self> {
        prepare_folder()?;
        let path = path_of(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        let made = thread::scope(|scope| {
            joined(scope.spawn(|| {
                // SAFETY: changes the network namespace of this new thread alone.
                #[expect(unsafe_code, reason = "unshare")]
                checked_errno(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
                bind(Path::new(OWN), &path)?;
                interface::set_up("lo", true)?;
                // An address that the kernel first looks for twins of cannot be used for a second.
                for scope in ["all", "default"] {
                    let switch = format!("/proc/sys/net/ipv6/conf/{scope}/accept_dad");
                    match fs::write(&switch, "0") {
                        // A kernel without IPv6.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        other => other?,
                    }
                }
                Ok(OwnedFd::from(File::open(OWN)?))
            }))
        });
        match made {
            Ok(descriptor) => Ok(Self {
                name: name.to_owned(),
                descriptor: Arc::new(descriptor),
            }),
            Err(error) => {
                remove(&path);
                Err(error)
            }
        }
    }

    /// Its name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `inside` on a new thread in the namespace, waits for it and gives what it returns. A panic goes on here.
    ///
    /// Mounts are those of the process: /sys still shows the interfaces of the namespace it was mounted in.
    /// Threads and sockets made inside belong to the namespace.
    ///
    /// # Panics
    ///
    /// When `inside` does, and when the process has given up CAP_SYS_ADMIN since it made the namespace.
    pub fn run<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> T {
        let descriptor = self.descriptor.as_raw_fd();
        thread::scope(|scope| {
            joined(scope.spawn(move || {
                enter(descriptor).expect("whoever could make the namespace can enter it");
                inside()
            }))
        })
    }

    /// A command that will run in the namespace.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let descriptor = Arc::clone(&self.descriptor);
        // SAFETY: between fork and exec there is one system call, which is allowed there; the closure keeps the
        // descriptor open for as long as the command can be started.
        #[expect(unsafe_code, reason = "a call between fork and exec")]
        unsafe {
            command.pre_exec(move || enter(descriptor.as_raw_fd()));
        }
        command
    }

    /// Sets a switch of the kernel's in the namespace, by its dotted name: `net.ipv4.ip_forward`. Parts with dots in
    /// them (an interface named `eth0.5`) are written with slashes between the parts, as sysctl(8) has it.
    pub fn sysctl(&self, name: &str, value: &str) -> io::Result<()> {
        let path = sysctl_path(name);
        self.run(|| fs::write(&path, value))
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&path_of(&self.name));
    }
}

const PREFIX: &str = "hg-";

/// Where `ip netns` looks.
const FOLDER: &str = "/run/netns";

/// The calling thread's network namespace.
const OWN: &str = "/proc/thread-self/ns/net";

fn path_of(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// As `ip netns add` does: mounts under the folder spread to other mount namespaces, and so does their removal.
fn prepare_folder() -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    let folder = Path::new(FOLDER);
    if mount(None, folder, libc::MS_SHARED | libc::MS_REC).is_err() {
        mount(Some(folder), folder, libc::MS_BIND | libc::MS_REC)?;
        mount(None, folder, libc::MS_SHARED | libc::MS_REC)?;
    }
    Ok(())
}

fn bind(what: &Path, on: &Path) -> io::Result<()> {
    mount(Some(what), on, libc::MS_BIND)
}

fn mount(what: Option<&Path>, on: &Path, flags: libc::c_ulong) -> io::Result<()> {
    let what = c_path(what.unwrap_or(Path::new("none")))?;
    let on = c_path(on)?;
    // SAFETY: C strings that live over the call; no type and no data are given.
    #[expect(unsafe_code, reason = "mount")]
    let returned = unsafe {
        libc::mount(
            what.as_ptr(),
            on.as_ptr(),
            c"none".as_ptr(),
            flags,
            std::ptr::null(),
        )
    };
    checked_errno(returned).map(|_| ())
}

/// Takes the name away; the namespace goes when nobody is in it any more. There is nobody to tell of an error.
fn remove(path: &Path) {
    if let Ok(c) = c_path(path) {
        // SAFETY: a C string that lives over the call.
        #[expect(unsafe_code, reason = "umount2")]
        unsafe {
            libc::umount2(c.as_ptr(), libc::MNT_DETACH);
        }
    }
    drop(fs::remove_file(path));
}

/// Removes what processes that were killed have left behind.
fn sweep() {
    let Ok(folder) = fs::read_dir(FOLDER) else {
        return;
    };
    for entry in folder.flatten() {
        if let Some(owner) = entry.file_name().to_str().and_then(owner_of)
            && !Path::new("/proc").join(owner.to_string()).exists()
        {
            remove(&entry.path());
        }
    }
}

/// The process that made the namespace of this name, if it is one of ours.
fn owner_of(name: &str) -> Option<u32> {
    let (owner, count) = name.strip_prefix(PREFIX)?.split_once('-')?;
    count.parse::<u32>().ok()?;
    owner.parse().ok()
}

fn enter(namespace: i32) -> io::Result<()> {
    // SAFETY: changes the network namespace of the calling thread alone.
    #[expect(unsafe_code, reason = "setns")]
    checked_errno(unsafe { libc::setns(namespace, libc::CLONE_NEWNET) }).map(|_| ())
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|payload| panic::resume_unwind(payload))
}

fn sysctl_path(name: &str) -> PathBuf {
    let name = if name.contains('/') {
        name.to_owned()
    } else {
        name.replace('.', "/")
    };
    Path::new("/proc/sys").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_ours_have_an_owner() {
        assert_eq!(owner_of("hg-123-4"), Some(123));
        assert_eq!(owner_of("hg-123"), None);
        assert_eq!(owner_of("hg-mine-4"), None);
        assert_eq!(owner_of("blue"), None);
    }

    #[test]
    fn what_a_dead_process_left_behind_is_removed() {
        if crate::require::check().is_err() {
            eprintln!("passed over: this needs root");
            return;
        }
        // Beyond the numbers that processes can have.
        let left = Namespace::named("hg-4194305-0").unwrap();
        let live = Namespace::named(&format!("hg-{}-999999", process::id())).unwrap();
        sweep();
        assert!(!path_of(left.name()).exists());
        assert!(path_of(live.name()).exists());
    }

    #[test]
    fn switches_are_found_by_dotted_and_slashed_names() {
        assert_eq!(
            sysctl_path("net.ipv4.ip_forward"),
            Path::new("/proc/sys/net/ipv4/ip_forward")
        );
        assert_eq!(
            sysctl_path("net/ipv4/conf/eth0.5/forwarding"),
            Path::new("/proc/sys/net/ipv4/conf/eth0.5/forwarding")
        );
    }
}
