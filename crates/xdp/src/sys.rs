//! Turning what libbpf's and libc's calls return into `io::Result`, and paths into C strings.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What one of libbpf's calls returned: an error is the negated errno.
pub(crate) fn checked(returned: i32) -> io::Result<i32> {
    if returned < 0 {
        return Err(io::Error::from_raw_os_error(-returned));
    }
    Ok(returned)
}

/// What one of libc's calls returned: -1 is an error, told in errno.
pub(crate) fn checked_errno(returned: i32) -> io::Result<i32> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(returned)
}

/// A path for the kernel.
pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} has a NUL byte in it", path.display()),
        )
    })
}
