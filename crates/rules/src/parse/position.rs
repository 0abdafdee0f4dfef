//! Lines and columns of offsets, for messages.

use crate::ast::At;

/// The line and the column, both from 1, of the offset `at`. Columns count characters of UTF-8; what is no UTF-8 counts
/// by the byte, roughly.
pub fn line_column(source: &[u8], at: At) -> (u32, u32) {
    let at = clamp(source, at);
    let start = line_start(source, at);
    let line = memchr::memchr_iter(b'\n', &source[..start]).count();
    let column = source[start..at]
        .iter()
        .filter(|&&byte| byte & 0xc0 != 0x80)
        .count();
    (count(line + 1), count(column + 1))
}

/// The line that holds the offset `at`, without its end.
pub fn line_text(source: &[u8], at: At) -> &[u8] {
    let at = clamp(source, at);
    let rest = &source[at..];
    let end = at + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let line = &source[line_start(source, at)..end];
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn clamp(source: &[u8], at: At) -> usize {
    usize::try_from(at).map_or(source.len(), |at| at.min(source.len()))
}

fn line_start(source: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', &source[..at]).map_or(0, |newline| newline + 1)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one() {
        let source = "when A {\n  é b\r\n}\n".as_bytes();
        for (at, place, text) in [
            (0, (1, 1), "when A {"),
            (8, (1, 9), "when A {"),
            (9, (2, 1), "  é b"),
            (14, (2, 5), "  é b"),
            (17, (3, 1), "}"),
            (19, (4, 1), ""),
            (999, (4, 1), ""),
        ] {
            assert_eq!(line_column(source, at), place, "{at}");
            assert_eq!(line_text(source, at), text.as_bytes(), "{at}");
        }
        assert_eq!(line_column(b"", 0), (1, 1));
        assert_eq!(line_text(b"", 0), b"");
    }
}
