//! The text of `subst`: substitutions without words.

use super::SyntaxError;
use super::cursor::{Cursor, substituted};
use crate::ast::Part;

/// Reads `source` as the command `subst` does, with those substitutions that are asked for. What stands in brackets or
/// in an index is read with all of them.
///
/// # Errors
///
/// Tcl's for a bracket, an index or a name that does not end.
pub fn subst(
    source: &[u8],
    backslashes: bool,
    commands: bool,
    variables: bool,
) -> Result<Vec<Part>, SyntaxError> {
    Cursor::new(source, 0).parts(substituted(backslashes, commands, variables))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::testing::show_parts;

    #[test]
    fn only_what_is_asked_for_is_substituted() {
        let text = br#"a\n$x(\t[y])"{ }[z \[;w]]\"#;
        for (choice, shown) in [
            (
                (true, true, true),
                "<a\n>$x(<\t>[<y>])<\"{ }>[<z> <[>; <w>]<]\\>",
            ),
            (
                (false, true, true),
                "<a\\n>$x(<\t>[<y>])<\"{ }>[<z> <[>; <w>]<]\\>",
            ),
            ((true, false, true), "<a\n>$x(<\t>[<y>])<\"{ }[z [;w]]\\>"),
            (
                (true, true, false),
                "<a\n$x(\t>[<y>]<)\"{ }>[<z> <[>; <w>]<]\\>",
            ),
            ((false, false, false), r#"<a\n$x(\t[y])"{ }[z \[;w]]\>"#),
        ] {
            let (backslashes, commands, variables) = choice;
            let parts = subst(text, backslashes, commands, variables).unwrap();
            assert_eq!(show_parts(&parts), shown, "{choice:?}");
        }
        assert!(subst(b"", true, true, true).unwrap().is_empty());
    }

    #[test]
    fn a_bracket_without_its_pair_is_an_error_where_it_stands() {
        let error = subst(b"ab[c", true, true, true).unwrap_err();
        assert_eq!(
            (error.at, error.message.as_str()),
            (2, "missing close-bracket")
        );
        assert!(subst(b"ab[c", true, false, true).is_ok());
    }
}
