//! Keeping tables, programs and links alive in the bpf file system, under paths where a later process finds them.
//! Which paths these are is left to others.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::MapHandle;
use thiserror::Error;

use crate::sys::{c_path, checked, checked_errno};

/// Makes sure that `root` is a folder in a bpf file system: it mounts one on `/sys/fs/bpf` when `root` lies there and
/// none is mounted yet, and makes the folders that are missing.
pub fn mounted(root: &Path) -> Result<(), PinError> {
    let standard = Path::new(STANDARD);
    if root.starts_with(standard) && !is_bpffs(standard) {
        mount_bpffs(standard).map_err(|source| PinError::Mount {
            path: standard.to_owned(),
            source,
        })?;
    }
    fs::create_dir_all(root).map_err(|source| PinError::Folder {
        path: root.to_owned(),
        source,
    })?;
    if !is_bpffs(root) {
        return Err(PinError::NotBpf {
            path: root.to_owned(),
        });
    }
    Ok(())
}

/// Pins a table, program or link at `path`, whose folder must exist in a bpf file system. Fails with `AlreadyExists`
/// when something is pinned there, and with `PermissionDenied` when the name has a dot in it (see [`file_name`]).
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the descriptor is open and the path is a C string that lives over the call.
    #[expect(unsafe_code, reason = "BPF_OBJ_PIN")]
    checked(unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), path.as_ptr()) }).map(|_| ())
}

/// A file name for something named `name`. The bpf file system allows no dots in names, which interfaces may have
/// (`eth0.5`): they become colons, which interfaces' names cannot have.
pub fn file_name(name: &str) -> String {
    name.replace('.', ":")
}

/// The table pinned at `path`.
pub fn open_map(path: &Path) -> io::Result<MapHandle> {
    // Of another kind of object libbpf would misread the description.
    drop(open(path, Kind::Map)?);
    MapHandle::from_pinned_path(path).map_err(io::Error::other)
}

/// The program pinned at `path`.
pub fn open_program(path: &Path) -> io::Result<OwnedFd> {
    open(path, Kind::Program)
}

/// Removes a pin; that it is gone already is no error.
pub fn unpin(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes a folder and every pin in it, for good; that it is gone already is no error.
///
/// Refuses a folder that is not in a bpf file system.
pub fn remove_tree(path: &Path) -> Result<(), PinError> {
    if !path.exists() {
        return Ok(());
    }
    if !is_bpffs(path) {
        return Err(PinError::NotBpf {
            path: path.to_owned(),
        });
    }
    fs::remove_dir_all(path).map_err(|source| PinError::Remove {
        path: path.to_owned(),
        source,
    })
}

/// Whether `path` exists and lies in a bpf file system.
pub fn is_bpffs(path: &Path) -> bool {
    let Ok(path) = c_path(path) else {
        return false;
    };
    // SAFETY: a statfs buffer is plain data, and the path a C string that lives over the call.
    #[expect(unsafe_code, reason = "statfs")]
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &mut found) == 0
            && found.f_type as u64 == libc::BPF_FS_MAGIC as u64
    }
}

/// Why pins cannot be kept where they were wanted.
#[derive(Debug, Error)]
pub enum PinError {
    /// The bpf file system is not mounted, and could not be.
    #[error("{}: cannot mount the bpf file system: {source}; mount it with `mount -t bpf bpf {}`", path.display(), path.display())]
    Mount {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A folder is missing, and could not be made.
    #[error("{}: cannot make this folder: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The folder is one of another file system.
    #[error("{}: not in a bpf file system; choose a path under /sys/fs/bpf or mount one there", path.display())]
    NotBpf {
        /// The folder.
        path: PathBuf,
    },
    /// Pins could not be removed.
    #[error("{}: cannot remove what is pinned there: {source}", path.display())]
    Remove {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Where systems have their bpf file system.
const STANDARD: &str = "/sys/fs/bpf";

fn mount_bpffs(on: &Path) -> io::Result<()> {
    let on = c_path(on)?;
    let bpf = CString::from(c"bpf");
    // SAFETY: all are C strings that live over the call; no data is given.
    #[expect(unsafe_code, reason = "mount")]
    checked_errno(unsafe {
        libc::mount(bpf.as_ptr(), on.as_ptr(), bpf.as_ptr(), 0, std::ptr::null())
    })?;
    Ok(())
}

/// What is pinned at `path`, refused with `InvalidData` unless it is of this kind.
pub(crate) fn open(path: &Path, kind: Kind) -> io::Result<OwnedFd> {
    let c = c_path(path)?;
    // SAFETY: `c` is a C string that lives over the call; what it returns is a new descriptor or an error.
    #[expect(unsafe_code, reason = "BPF_OBJ_GET")]
    let object = unsafe { OwnedFd::from_raw_fd(checked(libbpf_sys::bpf_obj_get(c.as_ptr()))?) };
    // The description of each kind is another struct, and only the descriptor's name tells them apart.
    let name = fs::read_link(format!("/proc/self/fd/{}", object.as_raw_fd()))?;
    let (wanted, called) = match kind {
        Kind::Map => ("bpf-map", "table"),
        Kind::Program => ("bpf-prog", "program"),
        Kind::Link => ("bpf-link", "link"),
    };
    let name = name.to_string_lossy().replace('_', "-");
    if name.strip_prefix("anon-inode:") != Some(wanted) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{}: what is pinned there is not a {called}", path.display()),
        ));
    }
    Ok(object)
}

/// The kinds of objects that are pinned.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Map,
    Program,
    Link,
}
