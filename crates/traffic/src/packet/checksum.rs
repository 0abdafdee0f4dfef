//! Lengths and checksums of IP, TCP, UDP and ICMP (RFC 1071), computed plainly over whole packets.

const ETHERNET: usize = 14;

/// Fills in lengths and checksums, plainly from the finished frame, of which all behind the first `content` bytes is zero.
pub(super) fn finish(frame: &mut [u8], content: usize, v6: bool) {
    let transport = ETHERNET + if v6 { 40 } else { 20 };
    let length = (frame.len() - transport) as u16;
    let protocol = if v6 {
        frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
        frame[ETHERNET + 6]
    } else {
        frame[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&(length + 20).to_be_bytes());
        let check = folded(sum(&frame[ETHERNET..transport]));
        frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&check.to_ne_bytes());
        frame[ETHERNET + 9]
    };
    let addresses = ETHERNET + if v6 { 8 } else { 12 };
    let pseudo =
        sum(&frame[addresses..transport]) + sum(&[0, protocol]) + sum(&length.to_be_bytes());
    let (at, pseudo) = match protocol {
        17 => {
            frame[transport + 4..transport + 6].copy_from_slice(&length.to_be_bytes());
            (6, pseudo)
        }
        6 => (16, pseudo),
        1 => (2, 0),
        _ => (2, pseudo),
    };
    let mut check = folded(pseudo + sum(&frame[transport..content]));
    if protocol == 17 && check == 0 {
        check = 0xffff;
    }
    frame[transport + at..transport + at + 2].copy_from_slice(&check.to_ne_bytes());
}

/// The ones' complement sum of 16-bit words in the machine's order, not folded.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|word| {
            u32::from(u16::from_ne_bytes([
                word[0],
                word.get(1).copied().unwrap_or(0),
            ]))
        })
        .sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
