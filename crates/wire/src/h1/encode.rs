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
