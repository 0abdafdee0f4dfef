//! `string` and all it does. Characters are bytes, and letters those of ASCII: text in UTF-8 comes through whole.

mod case;
mod class;
mod compare;
mod map;
mod part;
mod trim;

use super::ensemble::{Sub, dispatch};
use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("string", "option arg ?arg ...?", 1, ANY, string).differs(
        "characters are bytes: letters, digits and blanks are those of ASCII, case changes for ASCII letters only, and \
         `string bytelength` is `string length`",
    ).with(SUBS),
];

/// What `string` does.
pub(crate) const SUBS: &[Sub] = &[
    Sub::new("bytelength", "string", 1, 1, part::length),
    Sub::new("compare", compare::USAGE, 2, 5, compare::compare),
    Sub::new("equal", compare::USAGE, 2, 5, compare::equal),
    Sub::new("first", "subString string ?startIndex?", 2, 3, part::first),
    Sub::new("index", "string charIndex", 2, 2, part::index),
    Sub::new(
        "is",
        "class ?-strict? ?-failindex var? str",
        2,
        5,
        class::is,
    ),
    Sub::new("last", "subString string ?startIndex?", 2, 3, part::last),
    Sub::new("length", "string", 1, 1, part::length),
    Sub::new("map", "?-nocase? charMap string", 2, 3, map::map),
    Sub::new("match", "?-nocase? pattern string", 2, 3, compare::matches),
    Sub::new("range", "string first last", 3, 3, part::range),
    Sub::new("repeat", "string count", 2, 2, part::repeat),
    Sub::new("replace", "string first last ?string?", 3, 4, part::replace),
    Sub::new("tolower", "string ?first? ?last?", 1, 3, case::lower),
    Sub::new("toupper", "string ?first? ?last?", 1, 3, case::upper),
    Sub::new("totitle", "string ?first? ?last?", 1, 3, case::title),
    Sub::new("trim", "string ?chars?", 1, 2, trim::trim),
    Sub::new("trimleft", "string ?chars?", 1, 2, trim::left),
    Sub::new("trimright", "string ?chars?", 1, 2, trim::right),
    Sub::new("wordend", "string index", 2, 2, part::word_end),
    Sub::new("wordstart", "string index", 2, 2, part::word_start),
];

fn string(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    dispatch(ctx, "string", SUBS, args)
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::check;

    #[test]
    fn what_string_does_may_be_abbreviated_where_it_is_clear() {
        check(&[
            ("string len abc", "3"),
            ("string ran abcdef 1 2", "bc"),
            (
                "string l abc",
                "!ambiguous option \"l\": must be bytelength, compare, equal, first, index, is, last, length, map, match, \
                 range, repeat, replace, tolower, toupper, totitle, trim, trimleft, trimright, wordend, or wordstart",
            ),
            (
                "string",
                "!wrong # args: should be \"string option arg ?arg ...?\"",
            ),
            (
                "string length",
                "!wrong # args: should be \"string length string\"",
            ),
            (
                "string length a b",
                "!wrong # args: should be \"string length string\"",
            ),
            (
                "string index a",
                "!wrong # args: should be \"string index string charIndex\"",
            ),
        ]);
    }
}
