//! Message heads as offsets into the buffer that holds them, and the small types they are made of.

use super::parse::Scan;
use super::{HeadError, Known};

/// Bytes `start..end` of the caller's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// The bytes themselves. `buf` must be the buffer that was parsed (its head, at least, unchanged).
    #[inline]
    pub fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.end as usize]
    }

    /// Whether there is nothing in it.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Bytes in it.
    #[inline]
    pub const fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Offsets fit because no more of a buffer is looked at than the limit on heads, which is capped to 32 bits.
    #[inline]
    pub(super) const fn new(start: usize, end: usize) -> Span {
        Span {
            start: start as u32,
            end: end as u32,
        }
    }
}

/// One field line. The line, with its CRLF, runs from `name.start` to the next field's `name.start`, the last one's to
/// two bytes before the head's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// The name, as it was sent.
    pub name: Span,
    /// The value, without white space around it.
    pub value: Span,
    /// The name, recognised.
    pub known: Known,
}

/// A request method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the method of that name")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Trace,
    Connect,
    Patch,
    /// Any other token; its text is in [`RequestHead::method_span`].
    Other,
}

impl Method {
    /// Recognises a method. Methods are case-sensitive (RFC 9110 section 9.1).
    #[inline]
    pub fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            b"PATCH" => Method::Patch,
            _ => Method::Other,
        }
    }

    /// Whether sending it twice has the effect of sending it once (RFC 9110 section 9.2.2). Unknown methods are not.
    pub const fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }

    /// Whether it only reads (RFC 9110 section 9.2.1). Unknown methods do not.
    pub const fn is_safe(self) -> bool {
        matches!(
            self,
            Method::Get | Method::Head | Method::Options | Method::Trace
        )
    }

    /// The name, where it is known.
    pub const fn as_str(self) -> Option<&'static str> {
        Some(match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Patch => "PATCH",
            Method::Other => return None,
        })
    }
}

/// The version in a start line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

/// How a message's body ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// After that many bytes.
    Length(u64),
    /// By the last chunk: [`super::ChunkedDecoder`].
    Chunked,
    /// When the connection closes; responses only.
    UntilClose,
}

/// The four forms of a request target (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`.
    #[default]
    Origin,
    /// `http://host/path?query`.
    Absolute,
    /// `host:port`, of CONNECT.
    Authority,
    /// `*`, of OPTIONS.
    Asterisk,
}

/// What a head may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, its last CRLF included.
    pub head_bytes: usize,
    /// Field lines.
    pub fields: usize,
    /// Bytes of the request target.
    pub target_bytes: usize,
    /// Whether CONNECT is accepted.
    pub connect: bool,
}

impl Default for HeadLimits {
    /// 16 KiB, 100 fields, a target of 8 KiB, no CONNECT.
    fn default() -> Self {
        HeadLimits {
            head_bytes: 16 << 10,
            fields: 100,
            target_bytes: 8 << 10,
            connect: false,
        }
    }
}

/// Whether a head is all there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Parsed and valid.
    Complete,
    /// More bytes are needed.
    Partial,
}

/// A request's head. Spans point into the buffer it was parsed from; keep it for many requests, its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The method's text.
    pub method_span: Span,
    /// The target as it was sent.
    pub target: Span,
    /// The target's form.
    pub form: TargetForm,
    /// Path and query. For an absolute target without a path it is empty or begins with `?`: see
    /// [`RequestHead::path_and_query`]. For `*` it is that; for CONNECT it is empty.
    pub path: Span,
    /// Where in the buffer the `?` stands.
    pub query_at: Option<u32>,
    /// Host and port that the request is for: of the absolute target, or of Host. Empty only in HTTP/1.0.
    pub authority: Span,
    /// The version.
    pub version: Version,
    /// The fields in their order.
    pub fields: Vec<Field>,
    /// How the body ends.
    pub framing: Framing,
    /// Whether the client would send another request on this connection.
    pub keep_alive: bool,
    /// Whether the client waits for 100 before the body.
    pub expect_continue: bool,
    /// The value of Upgrade, if the client asks for one in a way that counts (RFC 9110 section 7.8).
    pub upgrade: Option<Span>,
    /// Bytes of the head, its last CRLF and an empty line before it included. The body begins there.
    pub len: usize,
    pub(super) scan: Scan,
}

impl RequestHead {
    /// Parses, or goes on parsing, the head at the front of `buf`.
    ///
    /// After [`Progress::Partial`] call it again with the same bytes and more after them (the buffer may have moved): it
    /// goes on where it stood, so that a head in many pieces costs one pass. After `Complete` or an error the next call begins anew, as does one after
    /// [`RequestHead::clear`]. The outcome does not depend on how the bytes were cut.
    pub fn parse(&mut self, buf: &[u8], limits: &HeadLimits) -> Result<Progress, HeadError> {
        super::parse::request(self, buf, limits)
    }

    /// Forgets everything but the memory of the fields.
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = RequestHead {
            fields,
            ..RequestHead::default()
        };
    }

    /// How far parsing got: after an error, the byte at fault or the end of the head.
    pub fn position(&self) -> usize {
        self.scan.pos
    }

    /// Path and query as a server wants them: never empty, beginning with `/` unless the query follows at once.
    #[inline]
    pub fn path_and_query<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        if self.path.is_empty() {
            b"/"
        } else {
            self.path.of(buf)
        }
    }

    /// The path without the query; `/` if there is none.
    #[inline]
    pub fn path_only<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        let end = self.query_at.unwrap_or(self.path.end);
        if end == self.path.start {
            b"/"
        } else {
            &buf[self.path.start as usize..end as usize]
        }
    }

    /// The query without its `?`.
    #[inline]
    pub fn query<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        self.query_at
            .map(|at| &buf[at as usize + 1..self.path.end as usize])
    }

    /// The first value of the field of that name, in any case.
    pub fn get<'b>(&self, buf: &'b [u8], name: &str) -> Option<&'b [u8]> {
        super::get(&self.fields, buf, name)
    }

    /// The first value of that field.
    #[inline]
    pub fn get_known<'b>(&self, buf: &'b [u8], known: Known) -> Option<&'b [u8]> {
        if !self.has(known) {
            return None;
        }
        super::known(&self.fields, known)
            .next()
            .map(|f| f.value.of(buf))
    }

    /// Every value of the field of that name, in any case.
    pub fn fields_named<'b>(
        &'b self,
        buf: &'b [u8],
        name: &'b str,
    ) -> impl Iterator<Item = &'b [u8]> {
        super::named(&self.fields, buf, name)
    }

    /// Whether such a field is there; costs nothing.
    #[inline]
    pub const fn has(&self, known: Known) -> bool {
        self.scan.present & known.bit() != 0
    }
}

/// A response's head. Spans point into the buffer it was parsed from; keep it for many responses, its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// The status, 100 to 999.
    pub status: u16,
    /// The reason phrase; may be empty.
    pub reason: Span,
    /// The version.
    pub version: Version,
    /// The fields in their order.
    pub fields: Vec<Field>,
    /// How the body ends, given the request's method.
    pub framing: Framing,
    /// Whether the server would take another request on this connection.
    pub keep_alive: bool,
    /// The value of Upgrade in a 101 that also has `Connection: upgrade`.
    pub upgrade: Option<Span>,
    /// Bytes of the head, its last CRLF included. The body begins there.
    pub len: usize,
    pub(super) scan: Scan,
}

impl ResponseHead {
    /// Parses, or goes on parsing, the head at the front of `buf`; `request` is the method that it answers.
    ///
    /// The same rules as in [`RequestHead::parse`]. Interim responses (1xx) are heads of their own.
    pub fn parse(
        &mut self,
        buf: &[u8],
        limits: &HeadLimits,
        request: Method,
    ) -> Result<Progress, HeadError> {
        super::parse::response(self, buf, limits, request)
    }

    /// Forgets everything but the memory of the fields.
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = ResponseHead {
            fields,
            ..ResponseHead::default()
        };
    }

    /// How far parsing got: after an error, the byte at fault or the end of the head.
    pub fn position(&self) -> usize {
        self.scan.pos
    }

    /// The first value of the field of that name, in any case.
    pub fn get<'b>(&self, buf: &'b [u8], name: &str) -> Option<&'b [u8]> {
        super::get(&self.fields, buf, name)
    }

    /// The first value of that field.
    #[inline]
    pub fn get_known<'b>(&self, buf: &'b [u8], known: Known) -> Option<&'b [u8]> {
        if !self.has(known) {
            return None;
        }
        super::known(&self.fields, known)
            .next()
            .map(|f| f.value.of(buf))
    }

    /// Every value of the field of that name, in any case.
    pub fn fields_named<'b>(
        &'b self,
        buf: &'b [u8],
        name: &'b str,
    ) -> impl Iterator<Item = &'b [u8]> {
        super::named(&self.fields, buf, name)
    }

    /// Whether such a field is there; costs nothing.
    #[inline]
    pub const fn has(&self, known: Known) -> bool {
        self.scan.present & known.bit() != 0
    }
}
