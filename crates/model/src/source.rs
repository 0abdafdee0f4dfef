//! Where configuration comes from. The one that reads the real files and environment is the caller's.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Files and environment, as the configuration sees them.
///
/// Everything that is looked at is asked for here, so an implementation that notes the paths knows what to watch for
/// changes.
pub trait Source {
    /// The text of a file.
    ///
    /// # Errors
    /// When it cannot be read, or is not UTF-8.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// The bytes of a file, which need not be UTF-8.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read(path).map(String::into_bytes)
    }

    /// Whether a file can be opened for reading; its content is read later by another.
    ///
    /// # Errors
    /// When it cannot.
    fn check(&self, path: &Path) -> io::Result<()>;

    /// The paths of the files of a folder, in any order.
    ///
    /// # Errors
    /// When it cannot be read.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// An environment variable.
    fn env(&self, name: &str) -> Option<String>;
}

/// A [`Source`] in memory, for tests and for checking a text that is no file.
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    files: BTreeMap<PathBuf, String>,
    env: BTreeMap<String, String>,
}

impl MemorySource {
    /// With this file.
    #[must_use]
    pub fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.to_owned());
        self
    }

    /// With this environment variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl Source for MemorySource {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.files.get(path).cloned().ok_or_else(missing)
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        self.files.get(path).map(|_| ()).ok_or_else(missing)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self
            .files
            .keys()
            .filter(|path| path.parent() == Some(folder))
            .cloned()
            .collect())
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }
}

fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "no such file")
}
