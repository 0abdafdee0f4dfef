//! Looking fields up by name, for both kinds of head.

use super::{Field, Known};

/// The first value of the field of that name, in any case.
pub fn get<'b>(fields: &[Field], buf: &'b [u8], name: &str) -> Option<&'b [u8]> {
    fields
        .iter()
        .find(|f| f.name.of(buf).eq_ignore_ascii_case(name.as_bytes()))
        .map(|f| f.value.of(buf))
}

/// Every value of the field of that name, in any case.
pub fn named<'b>(
    fields: &'b [Field],
    buf: &'b [u8],
    name: &'b str,
) -> impl Iterator<Item = &'b [u8]> {
    fields
        .iter()
        .filter(move |f| f.name.of(buf).eq_ignore_ascii_case(name.as_bytes()))
        .map(|f| f.value.of(buf))
}

/// Every field of that known name.
#[inline]
pub fn known(fields: &[Field], known: Known) -> impl Iterator<Item = &Field> {
    fields.iter().filter(move |f| f.known == known)
}
