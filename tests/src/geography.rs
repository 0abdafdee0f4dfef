//! A small database in MaxMind's format: which country an address is in. Written by hand after the format's description
//! (MaxMind DB file format 2.0), so that no test needs somebody's data.

use std::net::Ipv4Addr;

/// The file's bytes for addresses, prefix lengths and countries (two letters). Prefixes must not lie within each other.
pub fn countries(prefixes: &[(Ipv4Addr, u8, &str)]) -> Vec<u8> {
    let mut tree = vec![[Next::Nothing; 2]];
    let mut data = Vec::new();
    for (address, length, country) in prefixes {
        let bits = (0..*length).map(|at| (u32::from(*address) >> (31 - at) & 1) as usize);
        let bits: Vec<usize> = bits.collect();
        let (last, way) = bits.split_last().expect("a prefix of a bit or more");
        let mut node = 0;
        for bit in way {
            node = match tree[node][*bit] {
                Next::Node(next) => next,
                Next::Nothing => {
                    tree.push([Next::Nothing; 2]);
                    let next = tree.len() - 1;
                    tree[node][*bit] = Next::Node(next);
                    next
                }
                Next::Record(_) => panic!("a prefix within another: {address}/{length}"),
            };
        }
        tree[node][*last] = Next::Record(data.len());
        map(&mut data, 1);
        text(&mut data, "country");
        map(&mut data, 1);
        text(&mut data, "iso_code");
        text(&mut data, country);
    }
    let nodes = tree.len();
    let mut out = Vec::new();
    for next in tree.into_iter().flatten() {
        let value = match next {
            Next::Node(node) => node,
            Next::Nothing => nodes,
            // The data begins 16 bytes behind the tree.
            Next::Record(at) => nodes + 16 + at,
        };
        // 24 bits a record.
        out.extend_from_slice(&u32::try_from(value).expect("a small tree").to_be_bytes()[1..]);
    }
    out.extend_from_slice(&[0; 16]);
    out.extend(data);
    out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    map(&mut out, 9);
    for (name, kind, value) in [
        ("node_count", UINT32, nodes),
        ("record_size", UINT16, 24),
        ("ip_version", UINT16, 4),
        ("binary_format_major_version", UINT16, 2),
        ("binary_format_minor_version", UINT16, 0),
    ] {
        text(&mut out, name);
        out.push(kind << 5 | 4);
        out.extend_from_slice(&(value as u32).to_be_bytes());
        if kind == UINT16 {
            let at = out.len() - 5;
            out[at] = kind << 5 | 2;
            out.drain(at + 1..at + 3);
        }
    }
    text(&mut out, "build_epoch");
    // An extended type: 64 bits unsigned, one byte long.
    out.extend_from_slice(&[1, 9 - 7, 1]);
    text(&mut out, "database_type");
    text(&mut out, "Test-Country");
    text(&mut out, "languages");
    // An extended type: an empty array.
    out.extend_from_slice(&[0, 11 - 7]);
    text(&mut out, "description");
    map(&mut out, 0);
    out
}

const UINT16: u8 = 5;
const UINT32: u8 = 6;

#[derive(Clone, Copy)]
enum Next {
    Nothing,
    Node(usize),
    Record(usize),
}

fn map(out: &mut Vec<u8>, pairs: u8) {
    out.push(7 << 5 | pairs);
}

fn text(out: &mut Vec<u8>, text: &str) {
    let length = u8::try_from(text.len()).expect("a short text");
    match length {
        0..29 => out.push(2 << 5 | length),
        _ => out.extend_from_slice(&[2 << 5 | 29, length - 29]),
    }
    out.extend_from_slice(text.as_bytes());
}
