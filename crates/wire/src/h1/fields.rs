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

#[cfg(test)]
mod tests {
    use crate::h1::{HeadLimits, Known, Progress, RequestHead};

    #[test]
    fn fields_are_found_by_name_in_any_case_and_in_order() {
        let buf = b"GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nCookie: c\r\nx-a: 2\r\n\r\n";
        let mut head = RequestHead::default();
        assert_eq!(
            head.parse(buf, &HeadLimits::default()),
            Ok(Progress::Complete)
        );
        assert_eq!(head.get(buf, "X-a"), Some(&b"1"[..]));
        assert_eq!(
            head.fields_named(buf, "x-A").collect::<Vec<_>>(),
            [b"1", b"2"]
        );
        assert_eq!(head.get_known(buf, Known::Cookie), Some(&b"c"[..]));
        assert_eq!(
            (head.get(buf, "x"), head.get_known(buf, Known::Range)),
            (None, None)
        );
        assert!(head.has(Known::Cookie) && !head.has(Known::Range));
    }
}
