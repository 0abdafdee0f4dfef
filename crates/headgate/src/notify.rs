//! Telling the service manager how things stand (`sd_notify(3)`). Without one, nothing happens.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// It serves.
pub(crate) fn ready() {
    tell("READY=1\nSTATUS=serving\n");
}

/// It reads its configuration anew; `ready` says when that is over.
pub(crate) fn reloading() {
    if let Some(now) = monotonic_microseconds() {
        tell(&format!("RELOADING=1\nMONOTONIC_USEC={now}\n"));
    }
}

/// It ends.
pub(crate) fn stopping(why: &str) {
    tell(&format!("STOPPING=1\nSTATUS={why}\n"));
}

/// Another process is the main one from now on.
pub(crate) fn replaced_by(pid: u32) {
    tell(&format!("MAINPID={pid}\n"));
}

fn tell(text: &str) {
    if let Some(path) = env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&path, text)
    {
        tracing::debug!(%error, "cannot tell the service manager");
    }
}

fn send(path: &OsStr, text: &str) -> io::Result<()> {
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}

#[expect(unsafe_code, reason = "the standard library does not show this clock")]
fn monotonic_microseconds() -> Option<u64> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec, and is given one.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).ok()?;
    let nanoseconds = u64::try_from(now.tv_nsec).ok()?;
    (result == 0).then_some(seconds * 1_000_000 + nanoseconds / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives_at_paths_and_at_abstract_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("headgate-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (listener, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (
                UnixDatagram::bind_addr(&abstract_address).unwrap(),
                format!("@{name}").into(),
            ),
        ] {
            send(&address, "READY=1\n").unwrap();
            let mut buffer = [0; 64];
            let length = listener.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1\n");
        }
    }
}
