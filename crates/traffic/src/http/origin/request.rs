//! The little of HTTP/1.1 that an origin must understand of a request: where its head ends, what is asked for, how long its
//! body is, and whether the connection goes on. Anything unclear is refused.

use std::ops::Range;

/// A request's head, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Its length, the empty line included, in bytes.
    pub(super) length: usize,
    /// Where the target stands in it.
    pub(super) target: Range<usize>,
    /// The answer must have no body.
    pub(super) head_only: bool,
    /// The connection ends with this exchange.
    pub(super) close: bool,
    /// The client waits to be told to go on.
    pub(super) expects: bool,
    pub(super) body: Body,
}

/// How a request's body is delimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Chunked),
}

/// Where in a chunked body the reader is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chunked {
    /// In the line with the size, so far this.
    Size(u64, bool),
    /// In a chunk's data, this many bytes before its end.
    Data(u64),
    /// At the line end behind a chunk's data.
    DataEnd,
    /// In the trailers; whether the line has anything in it.
    Trailer(bool),
    Done,
}

/// The request makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Head {
    /// Understand the head at the beginning of `data`; nothing if it is not all there.
    pub(super) fn parse(data: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some(end) = memchr::memmem::find(data, b"\r\n\r\n") else {
            return Ok(None);
        };
        let mut lines = Lines {
            data: &data[..end + 2],
            at: 0,
        };
        let (start, line) = lines.next().ok_or(Malformed)?;
        let space = memchr::memchr(b' ', line).ok_or(Malformed)?;
        let version = memchr::memrchr(b' ', line).ok_or(Malformed)?;
        let old = match &line[version + 1..] {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ => return Err(Malformed),
        };
        if version <= space + 1 {
            return Err(Malformed);
        }
        let mut head = Self {
            length: end + 4,
            target: start + space + 1..start + version,
            head_only: &line[..space] == b"HEAD",
            close: old,
            expects: false,
            body: Body::Length(0),
        };
        for (_, line) in lines {
            let colon = memchr::memchr(b':', line).ok_or(Malformed)?;
            let value = line[colon + 1..].trim_ascii();
            match &line[..colon] {
                name if name.eq_ignore_ascii_case(b"connection") => {
                    if value.eq_ignore_ascii_case(b"close") {
                        head.close = true;
                    } else if value.eq_ignore_ascii_case(b"keep-alive") {
                        head.close = false;
                    }
                }
                name if name.eq_ignore_ascii_case(b"content-length") => {
                    let length = std::str::from_utf8(value)
                        .ok()
                        .and_then(|text| text.parse().ok());
                    head.body = Body::Length(length.ok_or(Malformed)?);
                }
                name if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                    if !value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Malformed);
                    }
                    head.body = Body::Chunked(Chunked::Size(0, false));
                }
                name if name.eq_ignore_ascii_case(b"expect") => {
                    head.expects = value.eq_ignore_ascii_case(b"100-continue");
                }
                _ => {}
            }
        }
        Ok(Some(head))
    }
}

impl Body {
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunked::Done))
    }

    /// Take what belongs to the body off the beginning of `data`, its content into `content` if that is wanted;
    /// says how much was taken.
    pub(super) fn take(
        &mut self,
        data: &[u8],
        mut content: Option<&mut Vec<u8>>,
    ) -> Result<usize, Malformed> {
        let mut keep = |bytes: &[u8]| {
            if let Some(content) = &mut content {
                content.extend_from_slice(bytes);
            }
        };
        let chunked = match self {
            Self::Length(left) => {
                let n = part(data.len(), *left);
                *left -= n as u64;
                keep(&data[..n]);
                return Ok(n);
            }
            Self::Chunked(chunked) => chunked,
        };
        let mut at = 0;
        while at < data.len() {
            let byte = data[at];
            match *chunked {
                Chunked::Data(left) => {
                    let n = part(data.len() - at, left);
                    keep(&data[at..at + n]);
                    at += n;
                    *chunked = match left - n as u64 {
                        0 => Chunked::DataEnd,
                        left => Chunked::Data(left),
                    };
                    continue;
                }
                Chunked::Size(size, any) => {
                    *chunked = match (byte, char::from(byte).to_digit(16)) {
                        (_, Some(digit)) if size < 1 << 56 => {
                            Chunked::Size(size << 4 | u64::from(digit), true)
                        }
                        (b'\r', _) if any => Chunked::Size(size, true),
                        (b'\n', _) if any && size == 0 => Chunked::Trailer(false),
                        (b'\n', _) if any => Chunked::Data(size),
                        _ => return Err(Malformed),
                    };
                }
                Chunked::DataEnd => match byte {
                    b'\r' => {}
                    b'\n' => *chunked = Chunked::Size(0, false),
                    _ => return Err(Malformed),
                },
                Chunked::Trailer(any) => match byte {
                    b'\r' => {}
                    b'\n' if any => *chunked = Chunked::Trailer(false),
                    b'\n' => *chunked = Chunked::Done,
                    _ => *chunked = Chunked::Trailer(true),
                },
                Chunked::Done => break,
            }
            at += 1;
        }
        Ok(at)
    }
}

/// The lines of a head, each with where it starts.
struct Lines<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let rest = self.data.get(start..)?;
        let end = memchr::memchr(b'\n', rest)?;
        self.at = start + end + 1;
        Some((
            start,
            rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]),
        ))
    }
}

fn part(have: usize, left: u64) -> usize {
    usize::try_from(left).map_or(have, |left| left.min(have))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Option<Head>, Malformed> {
        Head::parse(text.as_bytes())
    }

    #[test]
    fn a_head_is_understood() {
        let text = "HEAD /bytes/10 HTTP/1.1\r\nHost: a\r\nconnection:close\r\n\r\nGET";
        let head = parse(text).unwrap().unwrap();
        assert_eq!(&text[head.target.clone()], "/bytes/10");
        assert_eq!(head.length, text.len() - 3);
        assert!(head.head_only && head.close && head.body.is_done() && !head.expects);
    }

    #[test]
    fn old_clients_close_unless_they_say_otherwise() {
        assert!(parse("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap().close);
        assert!(
            !parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                .unwrap()
                .unwrap()
                .close
        );
    }

    #[test]
    fn half_a_head_is_waited_for_and_nonsense_refused() {
        assert_eq!(parse("GET / HTTP/1.1\r\nHost: a\r\n"), Ok(None));
        for bad in [
            "GET /\r\n\r\n",
            "GET HTTP/1.1\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
            "GET / HTTP/1.1\r\nnothing\r\n\r\n",
        ] {
            assert_eq!(parse(bad), Err(Malformed), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_chunked_body_reads_the_same_however_it_is_split(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..5), split in 1..20_usize,
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\n");
            let mut body = Body::Chunked(Chunked::Size(0, false));
            let mut content = Vec::new();
            let mut taken = 0;
            for piece in wire.chunks(split) {
                taken += body.take(piece, Some(&mut content)).unwrap();
            }
            prop_assert!(body.is_done());
            prop_assert_eq!(content, chunks.concat());
            prop_assert_eq!(&wire[taken..], b"GET / HTTP/1.1\r\n");
        }
    }
}
