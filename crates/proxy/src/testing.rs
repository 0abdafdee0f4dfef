//! What the unit tests of several modules need.

use model::{Config, Source};
use std::io;
use std::path::{Path, PathBuf};

/// The configuration that `text` means, whatever files it names.
pub(crate) fn config(text: &str) -> Config {
    model::parse_text(Path::new("test.yaml"), text, &AnyFile)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// Every file is there as long as nobody reads it.
struct AnyFile;

impl Source for AnyFile {
    fn read(&self, _: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn check(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }
}
