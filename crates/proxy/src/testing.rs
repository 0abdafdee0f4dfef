//! What the unit tests of several modules need.

use model::{Config, MemorySource};
use std::path::Path;

/// The configuration that `text` means.
pub(crate) fn config(text: &str) -> Config {
    model::parse_text(Path::new("test.yaml"), text, &MemorySource::default())
        .unwrap_or_else(|errors| panic!("{errors}"))
}
