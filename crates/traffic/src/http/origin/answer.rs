//! Answers, head and body in one piece and prepared once: small ones in memory, large ones in a memory file that the kernel
//! sends without copying.

use super::super::sys;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// One answer as it goes over the wire.
pub(super) struct Answer {
    /// Length of the head, in bytes: what a HEAD request is sent.
    pub(super) head: u64,
    /// Length of head and body, in bytes.
    pub(super) length: u64,
    pub(super) content: Content,
}

pub(super) enum Content {
    Memory(Vec<u8>),
    File(File),
}

/// The answers prepared so far.
pub(super) struct Answers {
    name: Option<String>,
    known: Vec<(What, bool, Arc<Answer>)>,
}

/// What is asked for, and answered without looking at the request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Bytes(u64),
    Chunked(u64),
    Status(u16),
    Name,
}

/// What a request's target stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The request's own body.
    Echo,
    /// The request's own head.
    Request,
    /// A cookie, set.
    Cookie,
    /// Something prepared.
    Known(Prepared),
}

/// Something that needs nothing of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prepared(What);

/// Targets that set a cookie begin so.
const COOKIE: &[u8] = b"/cookie/";
/// Bodies above this many bytes are sent from a file.
const FILE_FROM: u64 = 24 * 1024;
/// The largest body there is, in bytes.
const LARGEST: u64 = 1 << 30;
/// More different answers than this are not kept.
const KEPT: usize = 64;

impl Answers {
    pub(super) fn new(name: Option<&str>) -> Self {
        Self {
            name: name.map(str::to_owned),
            known: Vec::new(),
        }
    }

    /// A prepared answer, made now if it is asked for the first time.
    pub(super) fn find(
        &mut self,
        Prepared(what): Prepared,
        close: bool,
    ) -> io::Result<Arc<Answer>> {
        for (known, closes, answer) in &self.known {
            if *known == what && *closes == close {
                return Ok(Arc::clone(answer));
            }
        }
        let answer = Arc::new(self.make(what, close)?);
        if self.known.len() < KEPT {
            self.known.push((what, close, Arc::clone(&answer)));
        }
        Ok(answer)
    }

    /// An answer made for one request.
    pub(super) fn of(&self, body: &[u8], close: bool) -> Answer {
        let length = body.len() as u64;
        let mut content = self.head(200, Some(length), "application/octet-stream", close);
        let head = content.len() as u64;
        content.extend_from_slice(body);
        Answer::memory(content, head)
    }

    /// An answer that sets the cookie that stands in `target`.
    pub(super) fn cookie(&self, target: &[u8], close: bool) -> Answer {
        let pair = memchr::memmem::find(target, COOKIE).map(|at| &target[at + COOKIE.len()..]);
        let pair = pair.unwrap_or_default();
        let mut answer = self.of(pair, close);
        if let Content::Memory(content) = &mut answer.content {
            let end = usize::try_from(answer.head).unwrap_or(0) - 2;
            let field = [b"Set-Cookie: ", pair, b"; path=/; HttpOnly\r\n"].concat();
            answer.head += field.len() as u64;
            answer.length += field.len() as u64;
            content.splice(end..end, field);
        }
        answer
    }

    fn make(&self, what: What, close: bool) -> io::Result<Answer> {
        match what {
            What::Bytes(size) if size > FILE_FROM => {
                let head = self.head(200, Some(size), "text/plain", close);
                let mut file = sys::memory_file()?;
                file.write_all(&head)?;
                let alphabet = pattern(64 * 1024);
                let mut left = size;
                let mut at = 0;
                while left > 0 {
                    let piece = &alphabet[at..];
                    let n = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
                    file.write_all(&piece[..n])?;
                    left -= n as u64;
                    at = (at + n) % 26;
                }
                Ok(Answer {
                    head: head.len() as u64,
                    length: head.len() as u64 + size,
                    content: Content::File(file),
                })
            }
            What::Bytes(size) => {
                let mut content = self.head(200, Some(size), "text/plain", close);
                let head = content.len() as u64;
                content.extend(pattern(size));
                Ok(Answer::memory(content, head))
            }
            What::Chunked(size) => {
                let mut content = self.head(200, None, "text/plain", close);
                let head = content.len() as u64;
                for chunk in pattern(size).chunks(4096) {
                    content.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    content.extend_from_slice(chunk);
                    content.extend_from_slice(b"\r\n");
                }
                content.extend_from_slice(b"0\r\n\r\n");
                Ok(Answer::memory(content, head))
            }
            What::Status(status) => {
                let empty = (status != 204 && status != 304).then_some(0);
                let mut content = self.head(status, empty, "text/plain", close);
                if empty.is_none() {
                    let field = b"Transfer-Encoding: chunked\r\n";
                    let at = memchr::memmem::find(&content, field).unwrap_or(content.len());
                    content.drain(at..at + field.len());
                }
                let head = content.len() as u64;
                Ok(Answer::memory(content, head))
            }
            What::Name => {
                let body = format!("{}\n", self.name.as_deref().unwrap_or("origin"));
                let mut content = self.head(200, Some(body.len() as u64), "text/plain", close);
                let head = content.len() as u64;
                content.extend_from_slice(body.as_bytes());
                Ok(Answer::memory(content, head))
            }
        }
    }

    fn head(&self, status: u16, length: Option<u64>, kind: &str, close: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        match length {
            Some(length) => head.push_str(&format!("Content-Length: {length}\r\n")),
            None => head.push_str("Transfer-Encoding: chunked\r\n"),
        }
        head.push_str(&format!("Content-Type: {kind}\r\n"));
        if let Some(name) = &self.name {
            head.push_str(&format!("X-Origin: {name}\r\n"));
        }
        if close {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

impl Answer {
    fn memory(content: Vec<u8>, head: u64) -> Self {
        Self {
            head,
            length: content.len() as u64,
            content: Content::Memory(content),
        }
    }

    /// An interim answer, exactly these bytes.
    pub(super) fn interim(bytes: &[u8]) -> Self {
        Self::memory(bytes.to_vec(), bytes.len() as u64)
    }

    /// Copy what there is from `at` up to `end` into `buffer`; says how much.
    pub(super) fn read(&self, at: u64, end: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        let buffer = &mut buffer[..most];
        match &self.content {
            Content::Memory(bytes) => {
                let at = usize::try_from(at).unwrap_or(bytes.len());
                buffer.copy_from_slice(&bytes[at..at + most]);
                Ok(most)
            }
            Content::File(file) => file.read_at(buffer, at),
        }
    }
}

impl Wanted {
    /// What a target stands for. What is unknown is answered 404, sizes beyond all bounds too.
    pub(super) fn of(target: &[u8]) -> Self {
        let target = target.split(|byte| *byte == b'?').next().unwrap_or(target);
        let target = match memchr::memmem::find(target, b"://") {
            // A proxy may be asked, and ask, in absolute form.
            Some(scheme) => match memchr::memchr(b'/', &target[scheme + 3..]) {
                Some(slash) => &target[scheme + 3 + slash..],
                None => b"/",
            },
            None => target,
        };
        let number = |prefix: &[u8]| -> Option<u64> {
            let digits = target.strip_prefix(prefix)?;
            std::str::from_utf8(digits).ok()?.parse().ok()
        };
        let what = match target {
            b"/echo" => return Self::Echo,
            b"/request" => return Self::Request,
            _ if target.starts_with(COOKIE) => return Self::Cookie,
            b"/" => What::Name,
            b"/health" => What::Bytes(2),
            _ => match (
                number(b"/bytes/"),
                number(b"/chunked/"),
                number(b"/status/"),
            ) {
                (Some(size @ ..=LARGEST), _, _) => What::Bytes(size),
                (_, Some(size @ ..=LARGEST), _) => What::Chunked(size),
                (_, _, Some(status @ 200..=599)) => {
                    What::Status(u16::try_from(status).unwrap_or(500))
                }
                _ => What::Status(404),
            },
        };
        Self::Known(Prepared(what))
    }

    /// Whether the request's body must be kept.
    pub(super) fn keeps_body(self) -> bool {
        self == Self::Echo
    }
}

impl Prepared {
    /// An empty answer of this status.
    pub(super) fn status(status: u16) -> Self {
        Self(What::Status(status))
    }
}

fn pattern(size: u64) -> Vec<u8> {
    (b'a'..=b'z')
        .cycle()
        .take(usize::try_from(size).unwrap_or(usize::MAX))
        .collect()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
