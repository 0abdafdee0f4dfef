//! The little of a response that a load must know: its status, where its head ends and how long its body is.

/// Where in a response the reader is.
#[derive(Clone, Debug, Default)]
pub(super) struct Response {
    /// A head of which only a part is there.
    partial: Vec<u8>,
    status: u16,
    /// Bytes of head and body so far.
    bytes: u64,
    body: Option<Left>,
    last: bool,
}

/// How much of the body is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Bytes(u64),
    /// All until the connection ends.
    UntilEnd,
}

/// Whether the response is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    More,
    /// It is; `last` if the server ends the connection behind it.
    Whole {
        status: u16,
        bytes: u64,
        last: bool,
    },
}

/// A head longer than this is no head, in bytes.
const LONGEST_HEAD: usize = 64 * 1024;

impl Response {
    /// What of the body is still to come; nothing as long as the head is not there.
    pub(super) fn left(&self) -> Option<Left> {
        self.body
    }

    /// Take what has arrived. Nothing may follow the response.
    pub(super) fn feed(&mut self, data: &[u8]) -> Result<Read, &'static str> {
        if self.body.is_some() {
            return self.skip(data.len() as u64);
        }
        self.bytes += data.len() as u64;
        let Head {
            status,
            body,
            last,
            length: head,
        } = if self.partial.is_empty() {
            match parse(data)? {
                Some(head) => head,
                None => {
                    self.partial.extend_from_slice(data);
                    return Ok(Read::More);
                }
            }
        } else {
            self.partial.extend_from_slice(data);
            match parse(&self.partial)? {
                Some(head) => head,
                None if self.partial.len() > LONGEST_HEAD => {
                    return Err("the response's head does not end");
                }
                None => return Ok(Read::More),
            }
        };
        let behind = self.partial.len().max(data.len()) - head;
        self.partial.clear();
        if (100..200).contains(&status) {
            // The final response follows; an interim one arrives alone, or before the head's beginning.
            let rest = data[data.len() - behind..].to_vec();
            self.bytes -= rest.len() as u64;
            return if rest.is_empty() {
                Ok(Read::More)
            } else {
                self.feed(&rest)
            };
        }
        self.status = status;
        self.body = Some(body);
        self.last = last;
        self.bytes -= behind as u64;
        self.skip(behind as u64)
    }

    /// Count bytes of the body that are gone already.
    pub(super) fn skip(&mut self, count: u64) -> Result<Read, &'static str> {
        self.bytes += count;
        match &mut self.body {
            Some(Left::Bytes(left)) => {
                *left = left
                    .checked_sub(count)
                    .ok_or("more than the response arrived")?;
            }
            Some(Left::UntilEnd) | None => return Ok(Read::More),
        }
        if self.body == Some(Left::Bytes(0)) {
            Ok(self.finish())
        } else {
            Ok(Read::More)
        }
    }

    /// The connection has ended.
    pub(super) fn end(&mut self) -> Result<Read, &'static str> {
        match self.body {
            Some(Left::UntilEnd) => Ok(self.finish()),
            Some(Left::Bytes(_)) => Err("the connection ended within a response"),
            None if self.bytes == 0 => Err("the connection ended before a response"),
            None => Err("the connection ended within a head"),
        }
    }

    fn finish(&mut self) -> Read {
        let whole = Read::Whole {
            status: self.status,
            bytes: self.bytes,
            last: self.last,
        };
        self.body = None;
        self.bytes = 0;
        whole
    }
}

/// What a head says.
struct Head {
    status: u16,
    body: Left,
    /// Whether the connection ends behind it.
    last: bool,
    /// Bytes of the head.
    length: usize,
}

/// The head at the beginning of `data`; nothing if it is not all there.
fn parse(data: &[u8]) -> Result<Option<Head>, &'static str> {
    let Some(end) = memchr::memmem::find(data, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = &data[..end + 2];
    if !head.starts_with(b"HTTP/1.") {
        return Err("what arrived is no response");
    }
    let status = head
        .get(9..12)
        .and_then(number)
        .ok_or("the response has no status")?;
    let status = u16::try_from(status).map_err(|_| "the response has no status")?;
    let mut body = if matches!(status, 100..200 | 204 | 304) {
        Left::Bytes(0)
    } else {
        Left::UntilEnd
    };
    let mut last = false;
    for field in head.split(|byte| *byte == b'\n').skip(1) {
        // Most fields are told by their length alone.
        if field.len() < 15 || !matches!(field[0], b'c' | b'C' | b't' | b'T') {
            continue;
        }
        if field.len() > 15 && field[..15].eq_ignore_ascii_case(b"content-length:") {
            let length =
                number(field[15..].trim_ascii()).ok_or("the response's length is no number")?;
            body = Left::Bytes(length);
        } else if field
            .trim_ascii_end()
            .eq_ignore_ascii_case(b"connection: close")
        {
            last = true;
        } else if field.len() > 18 && field[..18].eq_ignore_ascii_case(b"transfer-encoding:") {
            return Err("the response is chunked, which this load does not read");
        }
    }
    last |= body == Left::UntilEnd;
    Ok(Some(Head {
        status,
        body,
        last,
        length: end + 4,
    }))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nDate: x\r\ncontent-length: 5\r\n\r\nhello";

    #[test]
    fn a_response_is_whole_at_its_last_byte_however_it_is_split() {
        for split in 1..HELLO.len() {
            let mut response = Response::default();
            let mut whole = 0;
            for piece in HELLO.chunks(split) {
                match response.feed(piece).unwrap() {
                    Read::More => {}
                    Read::Whole { status, bytes, .. } => {
                        assert_eq!((status, bytes), (200, HELLO.len() as u64));
                        whole += 1;
                    }
                }
            }
            assert_eq!(whole, 1, "{split}");
            assert_eq!(response.left(), None);
        }
    }

    #[test]
    fn an_answer_without_length_ends_with_the_connection() {
        let mut response = Response::default();
        assert_eq!(response.feed(b"HTTP/1.0 200 OK\r\n\r\nabc"), Ok(Read::More));
        assert_eq!(
            response.end(),
            Ok(Read::Whole {
                status: 200,
                bytes: 22,
                last: true,
            })
        );
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_an_error() {
        let mut response = Response::default();
        assert!(response.feed(&HELLO[..HELLO.len() - 1]).is_ok());
        assert!(response.end().is_err());
        assert!(
            Response::default()
                .feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab")
                .is_err()
        );
        assert!(Response::default().end().is_err());
    }

    #[test]
    fn a_response_that_ends_the_connection_says_so() {
        let last = |head: &[u8]| match Response::default().feed(head) {
            Ok(Read::Whole { last, .. }) => last,
            other => panic!("{other:?}"),
        };
        assert!(last(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        ));
        assert!(!last(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    }
}
