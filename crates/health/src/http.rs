//! An HTTP/1.1 check: one request, and as much of the response as the verdict needs.

use std::cell::Cell;
use std::net::SocketAddr;

use memchr::memmem;
use wire::h1::{
    ChunkLimits, ChunkedDecoder, Framing, HeadLimits, Method, Piece, Progress, ResponseHead,
};

use crate::check::{BODY_MAX, Conn, read_more};
use crate::failure::{Failure, Phase};
use crate::settings::HttpCheck;

/// Asks `check` of the member behind `conn`; tells what was good about the answer.
pub(crate) async fn ask(
    conn: &mut Conn,
    check: &HttpCheck,
    address: SocketAddr,
    phase: &Cell<Phase>,
) -> Result<String, Failure> {
    conn.write_all(&request(check, address))
        .await
        .map_err(Failure::Broken)?;
    let mut buf = Vec::new();
    let head = head(conn, check, &mut buf, phase).await?;
    if !check.expect_status.contains(head.status) {
        return Err(Failure::Status {
            got: head.status,
            expected: check.expect_status.clone(),
        });
    }
    if let Some(expected) = &check.expect_body {
        buf.drain(..head.len);
        let mut search = Search::new(head.framing, expected);
        while !search.take(&buf)? {
            buf.clear();
            if search.is_over() || read_more(conn, &mut buf).await? == 0 {
                return Err(Failure::BodyLacks(expected.clone()));
            }
        }
    }
    Ok(format!("status {}", head.status))
}

/// The request as it goes on the wire.
fn request(check: &HttpCheck, address: SocketAddr) -> Vec<u8> {
    let named = |name: &str| {
        let mut names = check.headers.iter().map(|(n, _)| n);
        names.any(|n| n.eq_ignore_ascii_case(name))
    };
    let host = check.host.clone().unwrap_or_else(|| address.to_string());
    let mut text = format!(
        "{} {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n",
        check.method, check.path
    );
    if !named("user-agent") {
        text.push_str("User-Agent: headgate\r\n");
    }
    // A method that means something with a body says that there is none (RFC 9110 section 8.6).
    if matches!(check.method.as_str(), "POST" | "PUT" | "PATCH") && !named("content-length") {
        text.push_str("Content-Length: 0\r\n");
    }
    for (name, value) in &check.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// Reads the head of the final response to the front of `buf`.
async fn head(
    conn: &mut Conn,
    check: &HttpCheck,
    buf: &mut Vec<u8>,
    phase: &Cell<Phase>,
) -> Result<ResponseHead, Failure> {
    let limits = HeadLimits::default();
    let method = Method::of(check.method.as_bytes());
    let mut head = ResponseHead::default();
    loop {
        match head.parse(buf, &limits, method).map_err(Failure::NotHttp)? {
            Progress::Complete if matches!(head.status, 100 | 102..=199) => {
                buf.drain(..head.len);
            }
            Progress::Complete => return Ok(head),
            Progress::Partial => {
                if read_more(conn, buf).await? == 0 {
                    return Err(if phase.get() == Phase::Asking {
                        Failure::Closed
                    } else {
                        Failure::CutShort
                    });
                }
                phase.set(Phase::Reading);
            }
        }
    }
}

/// Looks for a text in a body that comes in pieces.
struct Search<'a> {
    expected: &'a [u8],
    /// What of the body's first bytes could still be part of it.
    seen: Vec<u8>,
    /// Bytes that may still be looked at.
    budget: usize,
    body: Body,
}

enum Body {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    Over,
}

impl<'a> Search<'a> {
    fn new(framing: Framing, expected: &'a [u8]) -> Self {
        let body = match framing {
            Framing::None | Framing::Length(0) => Body::Over,
            Framing::Length(bytes) => Body::Length(bytes),
            Framing::Chunked => {
                Body::Chunked(Box::new(ChunkedDecoder::new(ChunkLimits::default())))
            }
            Framing::UntilClose => Body::UntilClose,
        };
        Search {
            expected,
            seen: Vec::new(),
            budget: BODY_MAX,
            body,
        }
    }

    /// Looks at the next bytes from the wire; tells whether the text has been found.
    fn take(&mut self, mut bytes: &[u8]) -> Result<bool, Failure> {
        while !bytes.is_empty() {
            let (taken, is_data) = match &mut self.body {
                Body::Over => break,
                Body::UntilClose => (bytes.len(), true),
                Body::Length(left) => {
                    let taken = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(bytes.len());
                    *left -= taken as u64;
                    if *left == 0 {
                        self.body = Body::Over;
                    }
                    (taken, true)
                }
                Body::Chunked(decoder) => {
                    let (taken, piece) = decoder.next(bytes).map_err(Failure::Chunks)?;
                    if piece == Piece::End {
                        self.body = Body::Over;
                    }
                    (taken, piece == Piece::Data)
                }
            };
            if is_data {
                let looked_at = taken.min(self.budget);
                self.seen.extend_from_slice(&bytes[..looked_at]);
                self.budget -= looked_at;
            }
            bytes = &bytes[taken..];
        }
        let found = memmem::find(&self.seen, self.expected).is_some();
        let keep = self.expected.len().saturating_sub(1).min(self.seen.len());
        self.seen.drain(..self.seen.len() - keep);
        Ok(found)
    }

    /// Whether nothing more is to be looked at.
    fn is_over(&self) -> bool {
        self.budget == 0 || matches!(self.body, Body::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(framing: Framing, expected: &str, pieces: &[&[u8]]) -> bool {
        let mut search = Search::new(framing, expected.as_bytes());
        pieces.iter().any(|piece| search.take(piece).unwrap())
    }

    #[test]
    fn the_request_is_one_that_any_server_takes() {
        let check = HttpCheck {
            headers: vec![("Accept".into(), "*/*".into())],
            ..HttpCheck::default()
        };
        let text = request(&check, "[::1]:8080".parse().unwrap());
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "GET / HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\nUser-Agent: headgate\r\nAccept: */*\r\n\r\n"
        );
    }

    #[test]
    fn a_configured_user_agent_takes_the_place_of_ours() {
        let check = HttpCheck {
            method: "POST".into(),
            host: Some("shop.example".into()),
            headers: vec![("user-agent".into(), "probe/1".into())],
            ..HttpCheck::default()
        };
        let text = String::from_utf8(request(&check, "127.0.0.1:80".parse().unwrap())).unwrap();
        assert_eq!(
            text,
            "POST / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\nContent-Length: 0\r\nuser-agent: probe/1\r\n\r\n"
        );
    }

    #[test]
    fn what_follows_the_body_is_not_searched() {
        assert!(!found(Framing::Length(4), "ok", &[b"nopeok"]));
        assert!(!found(Framing::None, "ok", &[b"ok"]));
    }

    #[test]
    fn what_lies_beyond_the_limit_is_not_searched() {
        let long = vec![b'x'; BODY_MAX - 1];
        assert!(!found(Framing::UntilClose, "ok", &[&long, b"ok"]));
        assert!(found(Framing::UntilClose, "ok", &[&long[1..], b"ok"]));
    }

    proptest! {
        #[test]
        fn the_text_is_found_however_the_body_is_cut(
            before in "[a-z]{0,20}", after in "[a-z]{0,20}", cuts in proptest::collection::vec(0usize..80, 0..6),
            chunked in any::<bool>(), chunk in 1usize..10,
        ) {
            let body = format!("{before}-HIT-{after}");
            let (framing, wire) = if chunked {
                let mut wire = Vec::new();
                for part in body.as_bytes().chunks(chunk) {
                    wire.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                    wire.extend_from_slice(part);
                    wire.extend_from_slice(b"\r\n");
                }
                wire.extend_from_slice(b"0\r\n\r\n");
                (Framing::Chunked, wire)
            } else {
                (Framing::Length(body.len() as u64), body.clone().into_bytes())
            };
            let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(wire.len())).collect();
            cuts.extend([0, wire.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &wire[w[0]..w[1]]).collect();
            prop_assert!(found(framing, "-HIT-", &pieces));
            prop_assert!(!found(framing, "-MISS-", &pieces));
        }
    }
}
