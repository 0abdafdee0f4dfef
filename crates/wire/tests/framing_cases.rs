//! The table of `testdata/framing.txt`: requests that two parties might frame differently, each with its one outcome,
//! whether its bytes come at once or one by one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wire::h1::{ChunkLimits, ChunkedDecoder, Framing, HeadLimits, Progress, RequestHead};

const TABLE: &str = include_str!("../testdata/framing.txt");

#[test]
fn each_request_has_its_one_outcome_however_it_is_cut() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let mut parts = line.splitn(3, " | ");
        let (name, expected, text) = (
            parts.next().unwrap(),
            parts.next().unwrap(),
            parts.next().unwrap(),
        );
        let bytes = unescape(text);
        for piece in [bytes.len(), 1, 3] {
            let outcome = outcome(&bytes, piece);
            if outcome != expected {
                wrong.push(format!(
                    "{name}, in pieces of {piece}: {outcome} instead of {expected}"
                ));
            }
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 150, "{count} cases");
}

/// What becomes of `bytes` when they arrive in pieces of that size.
fn outcome(bytes: &[u8], piece: usize) -> String {
    let mut head = RequestHead::default();
    let mut accepted = 0;
    let mut start = 0;
    let mut end = 0;
    let mut body: Option<Body> = None;
    let with = |accepted: usize, refused: String| {
        if accepted == 0 {
            refused
        } else {
            format!("accept {accepted}, {refused}")
        }
    };
    loop {
        let there = &bytes[start..end];
        let step = match &mut body {
            None => match head.parse(there, &HeadLimits::default()) {
                Err(error) => {
                    return with(accepted, format!("{} {}", error.status(), error.reason()));
                }
                Ok(Progress::Partial) => None,
                Ok(Progress::Complete) => {
                    start += head.len;
                    body = Some(match head.framing {
                        Framing::Length(len) => Body::Length(len),
                        Framing::Chunked => {
                            Body::Chunked(ChunkedDecoder::new(ChunkLimits::default()))
                        }
                        Framing::None | Framing::UntilClose => Body::Length(0),
                    });
                    Some(false)
                }
            },
            Some(Body::Length(left)) => {
                let taken = there.len().min(*left as usize);
                *left -= taken as u64;
                start += taken;
                (*left == 0).then_some(true)
            }
            Some(Body::Chunked(decoder)) => match decoder.advance(there) {
                Err(error) => {
                    return with(accepted, format!("{} {}", error.status(), error.reason()));
                }
                Ok(advance) => {
                    start += advance.consumed;
                    advance.done.then_some(true)
                }
            },
        };
        match step {
            Some(true) => {
                accepted += 1;
                body = None;
            }
            Some(false) => {}
            None if end < bytes.len() => end = bytes.len().min(end + piece),
            None if start == end && body.is_none() && accepted > 0 => break,
            None => return with(accepted, "partial".to_owned()),
        }
    }
    if accepted == 1 {
        "accept".to_owned()
    } else {
        format!("accept {accepted}")
    }
}

enum Body {
    Length(u64),
    Chunked(ChunkedDecoder),
}

/// Bytes as the table writes them.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.chars().next().unwrap();
        rest = &rest[1..];
        match escape {
            'r' => out.push(b'\r'),
            'n' => out.push(b'\n'),
            't' => out.push(b'\t'),
            '0' => out.push(0),
            '\\' => out.push(b'\\'),
            'x' => {
                out.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                rest = &rest[2..];
            }
            '{' => {
                let (inner, after) = rest.split_once('}').unwrap();
                let (times, text) = inner.split_once('*').unwrap();
                out.extend(unescape(text).repeat(times.parse().unwrap()));
                rest = after;
            }
            other => panic!("unknown escape {other}"),
        }
    }
    out
}
