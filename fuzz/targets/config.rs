#![no_main]

use model::MemorySource;
use std::path::Path;

// Any text is either a configuration or errors that each name a place; never a panic.
libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Err(errors) = model::parse_text(Path::new("fuzz.yaml"), text, &MemorySource::default()) {
        assert!(!errors.to_string().is_empty());
    }
});
