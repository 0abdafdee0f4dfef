//! What is told about a text that is no configuration.

use std::path::Path;

use model::MemorySource;

pub(crate) fn told(text: &str) -> String {
    let source = MemorySource::default();
    match model::parse_text(Path::new("/etc/headgate.yaml"), text, &source) {
        Ok(config) => panic!("taken: {config:?}"),
        Err(errors) => errors.to_string().replace("/etc/headgate.yaml", "F"),
    }
}

/// A test for each mistake: the text, and all that is told about it.
macro_rules! mistakes {
    ($($name:ident: $text:literal => $expected:literal)*) => {$(
        #[test]
        fn $name() {
            let (text, expected) = ($text.strip_prefix('\n').unwrap(), $expected.trim_matches('\n'));
            let told = $crate::common::told(text);
            assert_eq!(told, expected, "\n{told}\n");
        }
    )*};
}
