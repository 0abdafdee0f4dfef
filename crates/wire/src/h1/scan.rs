//! Byte classes of HTTP/1 and the loops that run over them, eight bytes at a stride where that pays.

/// Token characters (RFC 9110 section 5.6.2).
pub(super) static TOKEN: [bool; 256] = class(b"!#$%&'*+-.^_`|~", false);

/// What a request target may hold. Laxer than RFC 3986 by the characters that browsers send raw in a query (`|{}[]^` and
/// the backquote), which no party takes for a delimiter; stricter than most servers: no backslash, no quote, no angle.
pub(super) static TARGET: [bool; 256] = class(b"-._~!$&'()*+,;=:@/?%[]|{}^`", false);

/// Characters of a host name or an IPv4 address, without those that RFC 3986 allows but no DNS name has.
pub(crate) static HOST: [bool; 256] = class(b"-._~", false);

/// Characters between the brackets of an IPv6 literal.
pub(crate) static IPV6: [bool; 256] = class(b".:", true);

/// The index of the first byte outside `class`, or the length.
#[inline]
pub(super) fn run(bytes: &[u8], class: &[bool; 256]) -> usize {
    bytes
        .iter()
        .position(|&b| !class[b as usize])
        .unwrap_or(bytes.len())
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);

/// `run` over [`TOKEN`], fast where the token is of letters and hyphens, as names of fields are.
#[inline]
pub(super) fn token_run(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        // Sums that set a byte's top bit for what is at least `a`, and for what is above `z`; seven bits never carry.
        let low = (word | (ONES * 0x20)) & !TOPS;
        let letter = (low + ONES * (0x80 - b'a' as u64)) & !(low + ONES * (0x7f - b'z' as u64));
        let hyphen = word ^ (ONES * b'-' as u64);
        let other = (hyphen & !TOPS) + !TOPS;
        let found = ((!letter | word) & (other | hyphen)) & TOPS;
        if found == 0 {
            at += 8;
            continue;
        }
        at += (found.trailing_zeros() / 8) as usize;
        if !TOKEN[bytes[at] as usize] {
            return at;
        }
        at += 1;
    }
    at + run(&bytes[at..], &TOKEN)
}

/// The index of the first control byte (below 0x20, or 0x7f), or the length.
#[inline]
pub(super) fn until_control(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        // A byte is below 0x20 when its top three bits are clear; a zero byte is found by its borrow. Borrows run only
        // upwards, so the lowest byte found is a true one.
        let high = word & (ONES * 0xe0);
        let low = high.wrapping_sub(ONES) & !high;
        let del = word ^ (ONES * 0x7f);
        let found = (low | (del.wrapping_sub(ONES) & !del)) & TOPS;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = &bytes[at..];
    at + rest
        .iter()
        .position(|&b| b < 0x20 || b == 0x7f)
        .unwrap_or(rest.len())
}

/// Whether `name`, a token in any case, is `lower`, a name of lower-case letters, digits and hyphens.
///
/// Setting bit 5 folds case, and joins no other token character to a letter, digit or hyphen.
#[inline]
pub(super) fn same_name(name: &[u8], lower: &[u8]) -> bool {
    const FOLD: u64 = u64::from_ne_bytes([0x20; 8]);
    if name.len() != lower.len() {
        return false;
    }
    if let (Some(a), Some(b)) = (name.last_chunk::<8>(), lower.last_chunk::<8>()) {
        let (head_a, _) = name.as_chunks::<8>();
        let (head_b, _) = lower.as_chunks::<8>();
        let mut diff = (u64::from_ne_bytes(*a) | FOLD) ^ u64::from_ne_bytes(*b);
        for (a, b) in head_a.iter().zip(head_b) {
            diff |= (u64::from_ne_bytes(*a) | FOLD) ^ u64::from_ne_bytes(*b);
        }
        return diff == 0;
    }
    if let (Some(a), Some(b)) = (name.last_chunk::<4>(), lower.last_chunk::<4>())
        && let (Some(c), Some(d)) = (name.first_chunk::<4>(), lower.first_chunk::<4>())
    {
        let fold = |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes) | FOLD as u32;
        return fold(a) == u32::from_ne_bytes(*b) && fold(c) == u32::from_ne_bytes(*d);
    }
    name.iter().zip(lower).all(|(a, b)| a | 0x20 == *b)
}

/// A field value without the spaces and tabs around it.
#[inline]
pub(super) fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

const fn class(extra: &[u8], hex_only: bool) -> [bool; 256] {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 128 {
        table[b] = if hex_only {
            (b as u8).is_ascii_hexdigit()
        } else {
            (b as u8).is_ascii_alphanumeric()
        };
        b += 1;
    }
    let mut i = 0;
    while i < extra.len() {
        table[extra[i] as usize] = true;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn control_bytes_are_found_where_a_plain_loop_finds_them(bytes in proptest::collection::vec(
            prop_oneof![9 => 0x20u8..=0xff, 1 => any::<u8>()], 0..80)) {
            let plain = bytes.iter().position(|&b| b < 0x20 || b == 0x7f).unwrap_or(bytes.len());
            prop_assert_eq!(until_control(&bytes), plain);
        }

        #[test]
        fn tokens_end_where_a_plain_loop_ends_them(bytes in proptest::collection::vec(
            prop_oneof![9 => b'a'..=b'z', 3 => b'A'..=b'Z', 1 => Just(b'-'), 1 => any::<u8>()], 0..60)) {
            prop_assert_eq!(token_run(&bytes), run(&bytes, &TOKEN));
        }

        #[test]
        fn names_compare_as_ascii_without_case(name in "[A-Za-z0-9!#$%&'*+.^_`|~-]{0,30}", lower in "[a-z0-9-]{0,30}") {
            prop_assert_eq!(same_name(name.as_bytes(), lower.as_bytes()), name.eq_ignore_ascii_case(&lower));
            let upper = lower.to_ascii_uppercase();
            prop_assert!(same_name(upper.as_bytes(), lower.as_bytes()));
        }
    }

    #[test]
    fn every_byte_stops_the_scans_it_should_at_every_offset() {
        for b in 0..=255u8 {
            for at in 0..24 {
                let mut text = [b'a'; 24];
                text[at] = b;
                let expected = if b < 0x20 || b == 0x7f { at } else { 24 };
                assert_eq!(until_control(&text), expected, "byte {b} at {at}");
                assert_eq!(token_run(&text), run(&text, &TOKEN), "byte {b} at {at}");
            }
        }
    }
}
