//! CRC-32C (Castagnoli), as the PROXY protocol uses it. Headers are short: a table of 256 entries will do.

/// The checksum of several pieces, one after the other.
pub(super) fn of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut crc = !0u32;
    for &b in pieces.into_iter().flatten() {
        crc = crc >> 8 ^ TABLE[usize::from(crc as u8 ^ b)];
    }
    !crc
}

static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_published_values() {
        // RFC 3720, appendix B.4.
        assert_eq!(super::of([&b"123456789"[..]]), 0xe306_9283);
        assert_eq!(super::of([&[0u8; 16][..], &[0u8; 16][..]]), 0x8a91_36aa);
        assert_eq!(super::of([&[0xffu8; 32][..]]), 0x62a8_ab43);
    }
}
