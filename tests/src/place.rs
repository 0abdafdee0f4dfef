//! Places of a test's own: a directory and a loopback address.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A directory that goes when it is dropped.
pub struct Dir(PathBuf);

impl Dir {
    /// Makes one.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "headgate-tests-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it, as a whole: whoever reads sees the old one or the new one.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        let new = self.0.join(format!(".{name}.new"));
        fs::write(&new, content).unwrap();
        fs::rename(&new, &path).unwrap();
        path
    }

    /// Reads a file in it; nothing where there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read(self.0.join(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

impl Default for Dir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A loopback address that nobody else uses, so that every port of it is free.
pub fn address() -> Ipv4Addr {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let pid = std::process::id();
    let count = COUNT.fetch_add(1, Relaxed);
    assert!(count < 254 * 4, "addresses of one process are used up");
    let [_, _, high, low] = pid.to_be_bytes();
    Ipv4Addr::new(
        127,
        64 + (high % 32) * 4 + (count / 254) as u8,
        low,
        1 + (count % 254) as u8,
    )
}
