//! Heads written anew for the other side. Field lines that stay are copied as they stood, a run of them at once; what
//! belongs to one connection alone is left out (RFC 9110 section 7.6.1). The caller adds fields and ends the head.

use super::head::{Field, Method, RequestHead, ResponseHead, TargetForm, Version};
use super::{Known, meaning};

/// Fields that end at this hop.
const HOP_BY_HOP: u64 = Known::Connection.bit()
    | Known::KeepAlive.bit()
    | Known::ProxyConnection.bit()
    | Known::Te.bit()
    | Known::Upgrade.bit()
    | Known::Http2Settings.bit();

/// Writes a request line in origin form and HTTP/1.1, then the fields that go on to the server, but not the head's end.
///
/// `buf` is what `head` was parsed from. `drop` says which further fields to leave out, by known name or else by name as
/// it was sent. An absolute target becomes a path, its authority stays as Host; HTTP/1.0 without Host gets none. A valid
/// Content-Length or `Transfer-Encoding: chunked` stays as it was. Where an upgrade is to go on, the caller pushes
/// `Connection` and `Upgrade` itself. Then come [`push_field`] and [`finish`].
#[inline]
pub fn write_request(
    out: &mut Vec<u8>,
    buf: &[u8],
    head: &RequestHead,
    drop: impl Fn(Known, &[u8]) -> bool,
) {
    out.reserve(head.len + 64);
    match head.form {
        TargetForm::Origin | TargetForm::Authority | TargetForm::Asterisk => {
            // Method and target are one run of bytes.
            out.extend_from_slice(&buf[head.method_span.start as usize..head.target.end as usize]);
        }
        TargetForm::Absolute => {
            out.extend_from_slice(head.method_span.of(buf));
            out.push(b' ');
            match head.path.of(buf) {
                [] if head.method == Method::Options => out.push(b'*'),
                path @ [b'/', ..] => out.extend_from_slice(path),
                query => {
                    out.push(b'/');
                    out.extend_from_slice(query);
                }
            }
        }
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let moved = head.form == TargetForm::Absolute;
    if moved {
        push_field(out, "Host", head.authority.of(buf));
    }
    let mut set = HOP_BY_HOP;
    if moved {
        set |= Known::Host.bit();
    }
    if head.version == Version::Http10 {
        // There it means nothing, and its sender does not wait (RFC 9110 section 10.1.1).
        set |= Known::Expect.bit();
    }
    copy_fields(
        out,
        buf,
        head.len,
        &head.fields,
        set,
        head.scan.listed,
        drop,
    );
}

/// Writes a status line in HTTP/1.1, then the fields that go on to the client, but not the head's end.
///
/// As [`write_request`]. `drop` leaves out [`Known::TransferEncoding`] where the body is to be unchunked for an HTTP/1.0
/// client. Content-Length is left out of 1xx and 204 (RFC 9110 section 8.6).
#[inline]
pub fn write_response(
    out: &mut Vec<u8>,
    buf: &[u8],
    head: &ResponseHead,
    drop: impl Fn(Known, &[u8]) -> bool,
) {
    out.reserve(head.len + 64);
    let status = head.status;
    let digit = |n: u16| b'0' + (n % 10) as u8;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status), b' ']);
    out.extend_from_slice(head.reason.of(buf));
    out.extend_from_slice(b"\r\n");
    let bodiless = status < 200 || status == 204;
    let set = HOP_BY_HOP
        | if bodiless {
            Known::ContentLength.bit()
        } else {
            0
        };
    copy_fields(
        out,
        buf,
        head.len,
        &head.fields,
        set,
        head.scan.listed,
        drop,
    );
}

/// Writes `HTTP/1.1 status reason` and CRLF for a response of our own.
pub fn write_status_line(out: &mut Vec<u8>, status: u16) {
    let digit = |n: u16| b'0' + (n % 10) as u8;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status), b' ']);
    out.extend_from_slice(status_reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes one field line. `name` must be a token and `value` free of control characters: both are the caller's own, or
/// were checked when they were read.
#[inline]
pub fn push_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(
        !value.iter().any(|&b| b < 0x20 && b != b'\t'),
        "a value that would break the head"
    );
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Ends the head.
#[inline]
pub fn finish(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// The usual reason phrase of a status (RFC 9110 section 15); empty for one that is not registered.
pub const fn status_reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        511 => "Network Authentication Required",
        _ => "",
    }
}

/// Copies the field lines that are not in `set`, not named by Connection and not dropped.
#[inline]
fn copy_fields(
    out: &mut Vec<u8>,
    buf: &[u8],
    head_len: usize,
    fields: &[Field],
    set: u64,
    listed: bool,
    drop: impl Fn(Known, &[u8]) -> bool,
) {
    let Some(first) = fields.first() else { return };
    // Lines wait from `kept` on until one is left out.
    let mut kept = first.name.start as usize;
    for (i, field) in fields.iter().enumerate() {
        let out_of_place = set & field.known.bit() != 0
            || drop(field.known, field.name.of(buf))
            || (listed && is_listed(buf, fields, field));
        if out_of_place {
            out.extend_from_slice(&buf[kept..field.name.start as usize]);
            kept = fields
                .get(i + 1)
                .map_or(head_len - 2, |next| next.name.start as usize);
        }
    }
    out.extend_from_slice(&buf[kept..head_len - 2]);
}

/// Whether Connection names this field.
#[cold]
fn is_listed(buf: &[u8], fields: &[Field], field: &Field) -> bool {
    let name = field.name.of(buf);
    super::known(fields, Known::Connection)
        .flat_map(|connection| meaning::list(connection.value.of(buf)))
        .any(|option| option.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::{HeadLimits, Progress};

    fn request(text: &str, drop: impl Fn(Known, &[u8]) -> bool) -> String {
        let limits = HeadLimits {
            connect: true,
            ..HeadLimits::default()
        };
        let mut head = RequestHead::default();
        assert_eq!(
            head.parse(text.as_bytes(), &limits),
            Ok(Progress::Complete),
            "{text:?}"
        );
        let mut out = Vec::new();
        write_request(&mut out, text.as_bytes(), &head, drop);
        String::from_utf8(out).unwrap()
    }

    fn response(text: &str, drop: impl Fn(Known, &[u8]) -> bool) -> String {
        let mut head = ResponseHead::default();
        let progress = head.parse(text.as_bytes(), &HeadLimits::default(), Method::Get);
        assert_eq!(progress, Ok(Progress::Complete), "{text:?}");
        let mut out = Vec::new();
        write_response(&mut out, text.as_bytes(), &head, drop);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_of_the_connection_stay_behind() {
        let written = request(
            "GET /a?b HTTP/1.1\r\nConnection: keep-alive, X-Hop ,x-other\r\nhost: h\r\nKeep-Alive: 5\r\nx-HOP: 1\r\n\
             TE: trailers\r\nA:  b \r\nUpgrade: x\r\nX-Other: 2\r\nProxy-Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
            |_, _| false,
        );
        assert_eq!(
            written,
            "GET /a?b HTTP/1.1\r\nhost: h\r\nA:  b \r\nTransfer-Encoding: chunked\r\n"
        );
    }

    #[test]
    fn the_caller_drops_by_known_and_by_unknown_name() {
        let written = request(
            "POST / HTTP/1.1\r\nX-Forwarded-For: spoofed\r\nHost: h\r\nX-Secret: 1\r\nX-Forwarded-For: again\r\nContent-Length: 1\r\n\r\n",
            |known, name| known == Known::XForwardedFor || name.eq_ignore_ascii_case(b"x-secret"),
        );
        assert_eq!(
            written,
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
        );
    }

    #[test]
    fn an_absolute_target_becomes_a_path_and_a_host() {
        for (target, method, line) in [
            ("http://h:81/a?b", "GET", "/a?b"),
            ("http://h:81?b", "GET", "/?b"),
            ("http://h:81", "GET", "/"),
            ("http://h:81", "OPTIONS", "*"),
            ("https://h:81/", "OPTIONS", "/"),
        ] {
            let written = request(
                &format!("{method} {target} HTTP/1.1\r\nA: b\r\nHost: H:81\r\nC: d\r\n\r\n"),
                |_, _| false,
            );
            assert_eq!(
                written,
                format!("{method} {line} HTTP/1.1\r\nHost: h:81\r\nA: b\r\nC: d\r\n"),
                "{method} {target}"
            );
        }
    }

    #[test]
    fn heads_without_fields_and_without_any_that_stay() {
        assert_eq!(
            request("GET / HTTP/1.0\r\n\r\n", |_, _| false),
            "GET / HTTP/1.1\r\n"
        );
        assert_eq!(
            request("\r\nGET / HTTP/1.0\r\nConnection: close\r\n\r\n", |_, _| {
                false
            }),
            "GET / HTTP/1.1\r\n"
        );
        assert_eq!(
            request("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", |_, _| false),
            "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n"
        );
    }

    #[test]
    fn a_response_keeps_its_status_reason_and_body() {
        assert_eq!(
            response(
                "HTTP/1.0 404 Not here\r\nConnection: close\r\nContent-Length: 3\r\nServer: s\r\n\r\n",
                |known, _| known == Known::Server
            ),
            "HTTP/1.1 404 Not here\r\nContent-Length: 3\r\n"
        );
        assert_eq!(
            response(
                "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n",
                |known, _| known == Known::TransferEncoding
            ),
            "HTTP/1.1 200 \r\n"
        );
        assert_eq!(
            response(
                "HTTP/1.1 204 \r\nContent-Length: 0\r\nA: b\r\n\r\n",
                |_, _| false
            ),
            "HTTP/1.1 204 \r\nA: b\r\n"
        );
    }

    #[test]
    fn our_own_responses_are_whole() {
        let mut out = Vec::new();
        write_status_line(&mut out, 431);
        push_field(&mut out, "Content-Length", b"0");
        finish(&mut out);
        assert_eq!(
            out,
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n"
        );
        let mut head = ResponseHead::default();
        assert_eq!(
            head.parse(&out, &HeadLimits::default(), Method::Get),
            Ok(Progress::Complete)
        );
    }
}
