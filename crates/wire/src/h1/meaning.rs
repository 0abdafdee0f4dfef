//! What a head means once it is read: where the request goes, how the body ends, whether the connection lives on.

use super::head::{
    Field, Framing, HeadLimits, Method, RequestHead, ResponseHead, Span, TargetForm, Version,
};
use super::scan::{TOKEN, run, trim_ows};
use super::{HeadError, Known};
use crate::uri;

/// Fields that decide framing, routing or the connection, in either kind of head.
const DECISIVE: u64 = Known::Host.bit()
    | Known::Connection.bit()
    | Known::TransferEncoding.bit()
    | Known::ContentLength.bit()
    | Known::Upgrade.bit()
    | Known::Expect.bit();

/// Takes the target apart (RFC 9112 section 3.2), as soon as the request line is there.
pub(super) fn target(
    head: &mut RequestHead,
    buf: &[u8],
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    let Span { start, end } = head.target;
    let text = head.target.of(buf);
    if head.method == Method::Connect {
        if !limits.connect {
            return Err(HeadError::ConnectRefused);
        }
        if text.contains(&b'@') {
            return Err(HeadError::UserinfoInTarget);
        }
        if !uri::is_authority(text) || uri::port(text).is_none() {
            return Err(HeadError::BadAuthority);
        }
        head.form = TargetForm::Authority;
        head.authority = head.target;
        head.path = Span { start: end, end };
        return Ok(());
    }
    match text {
        [b'/', ..] => {
            head.form = TargetForm::Origin;
            head.path = head.target;
        }
        b"*" if head.method == Method::Options => {
            head.form = TargetForm::Asterisk;
            head.path = head.target;
            return Ok(());
        }
        b"*" => return Err(HeadError::AsteriskNotOptions),
        _ => {
            let scheme = uri::scheme(text).ok_or(HeadError::BadTarget)?.prefix_len();
            let rest = &text[scheme..];
            let length = rest
                .iter()
                .position(|b| matches!(b, b'/' | b'?'))
                .unwrap_or(rest.len());
            let authority = &rest[..length];
            if authority.contains(&b'@') {
                return Err(HeadError::UserinfoInTarget);
            }
            if !uri::is_authority(authority) {
                return Err(HeadError::BadAuthority);
            }
            let path = start + (scheme + length) as u32;
            head.form = TargetForm::Absolute;
            head.authority = Span {
                start: start + scheme as u32,
                end: path,
            };
            head.path = Span { start: path, end };
        }
    }
    head.query_at = memchr::memchr(b'?', head.path.of(buf)).map(|at| head.path.start + at as u32);
    Ok(())
}

/// Judges a whole request head.
pub(super) fn request(head: &mut RequestHead, buf: &[u8]) -> Result<(), HeadError> {
    let mut host = None;
    let mut body = Body::default();
    let mut options = Options::default();
    let mut upgrade = None;
    if head.scan.present & DECISIVE != 0 {
        for field in &head.fields {
            if field.known.bit() & DECISIVE == 0 {
                continue;
            }
            let value = field.value.of(buf);
            match field.known {
                Known::Host if host.is_some() => return Err(HeadError::RepeatedHost),
                Known::Host if !uri::is_authority(value) => return Err(HeadError::BadHost),
                Known::Host => host = Some(field.value),
                Known::Connection => options.read(value)?,
                Known::Upgrade => upgrade = upgrade.or(Some(field.value)),
                Known::Expect if head.version == Version::Http10 => {}
                Known::Expect if value.eq_ignore_ascii_case(b"100-continue") => {
                    head.expect_continue = true;
                }
                Known::Expect => return Err(HeadError::UnsupportedExpectation),
                _ => body.read(field, value)?,
            }
        }
    }
    match host {
        None if head.version == Version::Http11 => return Err(HeadError::MissingHost),
        None => {}
        Some(host) => match head.form {
            TargetForm::Origin | TargetForm::Asterisk => head.authority = host,
            TargetForm::Absolute | TargetForm::Authority => {
                let default = uri::scheme(head.target.of(buf)).map(uri::Scheme::port);
                if !uri::same_authority(head.authority.of(buf), host.of(buf), default) {
                    return Err(HeadError::HostMismatch);
                }
            }
        },
    }
    head.framing = body.framing(head.version)?.unwrap_or(Framing::None);
    head.keep_alive = options.keep_alive(head.version);
    head.scan.listed = options.listed;
    head.upgrade = upgrade
        .filter(|value| options.upgrade && head.version == Version::Http11 && !value.is_empty());
    Ok(())
}

/// Judges a whole response head, the answer to `request`.
pub(super) fn response(
    head: &mut ResponseHead,
    buf: &[u8],
    request: Method,
) -> Result<(), HeadError> {
    let mut body = Body::default();
    let mut options = Options::default();
    let mut upgrade = None;
    if head.scan.present & DECISIVE != 0 {
        for field in &head.fields {
            let value = field.value.of(buf);
            match field.known {
                Known::Connection => options.read(value)?,
                Known::Upgrade => upgrade = upgrade.or(Some(field.value)),
                Known::ContentLength | Known::TransferEncoding => body.read(field, value)?,
                _ => {}
            }
        }
    }
    let told = body.framing(head.version)?;
    let bodiless = head.status < 200 || head.status == 204;
    if bodiless && !matches!(told, None | Some(Framing::Length(0))) {
        return Err(HeadError::BodyForbidden);
    }
    let tunnel = request == Method::Connect && (200..300).contains(&head.status);
    head.framing = if bodiless || tunnel || head.status == 304 || request == Method::Head {
        Framing::None
    } else {
        told.unwrap_or(Framing::UntilClose)
    };
    head.keep_alive =
        options.keep_alive(head.version) && head.framing != Framing::UntilClose && !tunnel;
    head.scan.listed = options.listed;
    head.upgrade =
        upgrade.filter(|value| head.status == 101 && options.upgrade && !value.is_empty());
    Ok(())
}

/// The elements of a comma-separated list, without the white space around them and without empty ones.
pub(super) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(trim_ows)
        .filter(|element| !element.is_empty())
}

/// The options of Connection (RFC 9110 section 7.6.1).
#[derive(Default)]
struct Options {
    close: bool,
    keep_alive: bool,
    upgrade: bool,
    listed: bool,
}

impl Options {
    #[inline]
    fn read(&mut self, value: &[u8]) -> Result<(), HeadError> {
        // By far the most frequent.
        if value.eq_ignore_ascii_case(b"keep-alive") {
            self.keep_alive = true;
            return Ok(());
        }
        for option in list(value) {
            if run(option, &TOKEN) != option.len() {
                return Err(HeadError::BadConnection);
            }
            match option {
                _ if option.eq_ignore_ascii_case(b"close") => self.close = true,
                _ if option.eq_ignore_ascii_case(b"keep-alive") => self.keep_alive = true,
                _ if option.eq_ignore_ascii_case(b"upgrade") => self.upgrade = true,
                _ => match Known::of(option) {
                    Known::Host | Known::ContentLength | Known::TransferEncoding => {
                        return Err(HeadError::ConnectionNamesFraming);
                    }
                    _ => self.listed = true,
                },
            }
        }
        Ok(())
    }

    fn keep_alive(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }
}

/// What the fields say of the body (RFC 9112 section 6).
#[derive(Default)]
struct Body {
    length: Option<u64>,
    chunked: bool,
}

impl Body {
    fn read(&mut self, field: &Field, value: &[u8]) -> Result<(), HeadError> {
        if field.known == Known::ContentLength {
            if self.length.is_some() || value.contains(&b',') {
                return Err(HeadError::RepeatedLength);
            }
            self.length = Some(decimal(value).ok_or(HeadError::BadLength)?);
        } else {
            if self.chunked {
                return Err(HeadError::RepeatedTransferEncoding);
            }
            self.chunked = true;
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(wrong_coding(value));
            }
        }
        Ok(())
    }

    fn framing(&self, version: Version) -> Result<Option<Framing>, HeadError> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(HeadError::LengthWithTransferEncoding),
            (true, None) if version == Version::Http10 => Err(HeadError::TransferEncodingInHttp10),
            (true, None) => Ok(Some(Framing::Chunked)),
            (false, length) => Ok(length.map(Framing::Length)),
        }
    }
}

/// Why a transfer coding that is not exactly `chunked` is refused.
fn wrong_coding(value: &[u8]) -> HeadError {
    let is_chunked = |coding: &&[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let tokens = list(value).all(|coding| run(coding, &TOKEN) == coding.len());
    let times = list(value).filter(is_chunked).count();
    match list(value).last() {
        Some(last) if tokens && is_chunked(&last) && times == 1 => {
            if list(value).count() == 1 {
                HeadError::ChunkedNotLast
            } else {
                HeadError::UnsupportedCoding
            }
        }
        Some(_) if times > 1 => HeadError::RepeatedTransferEncoding,
        _ => HeadError::ChunkedNotLast,
    }
}

/// Digits and nothing else, as a number that fits.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, &b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::Progress;

    fn request(text: &str) -> RequestHead {
        let mut head = RequestHead::default();
        let limits = HeadLimits {
            connect: true,
            ..HeadLimits::default()
        };
        assert_eq!(
            head.parse(text.as_bytes(), &limits),
            Ok(Progress::Complete),
            "{text:?}"
        );
        head
    }

    fn response(text: &str, request: Method) -> Result<ResponseHead, HeadError> {
        let mut head = ResponseHead::default();
        let progress = head.parse(text.as_bytes(), &HeadLimits::default(), request)?;
        assert_eq!(progress, Progress::Complete, "{text:?}");
        Ok(head)
    }

    #[test]
    fn targets_are_taken_apart() {
        for (line, form, authority, path, query) in [
            ("GET / ", TargetForm::Origin, "h", "/", None),
            ("GET /a?b?c ", TargetForm::Origin, "h", "/a", Some("b?c")),
            ("GET //x/y? ", TargetForm::Origin, "h", "//x/y", Some("")),
            ("GET http://H ", TargetForm::Absolute, "H", "/", None),
            (
                "GET HTTPS://h:443?q ",
                TargetForm::Absolute,
                "h:443",
                "/",
                Some("q"),
            ),
            (
                "GET http://h/a/?q ",
                TargetForm::Absolute,
                "h",
                "/a/",
                Some("q"),
            ),
            ("OPTIONS * ", TargetForm::Asterisk, "h", "*", None),
        ] {
            let text = format!("{line}HTTP/1.1\r\nHost: h\r\n\r\n");
            let head = request(&text);
            let buf = text.as_bytes();
            assert_eq!(head.form, form, "{line}");
            assert_eq!(head.authority.of(buf), authority.as_bytes(), "{line}");
            assert_eq!(head.path_only(buf), path.as_bytes(), "{line}");
            assert_eq!(head.query(buf), query.map(str::as_bytes), "{line}");
        }
        let text = "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n";
        let head = request(text);
        assert_eq!(
            (head.form, head.authority.of(text.as_bytes())),
            (TargetForm::Authority, &b"h:443"[..])
        );
        for bad in [
            "CONNECT h HTTP/1.1\r\n",
            "CONNECT /x HTTP/1.1\r\n",
            "CONNECT h: HTTP/1.1\r\n",
            "CONNECT u@h:1 HTTP/1.1\r\n",
        ] {
            let limits = HeadLimits {
                connect: true,
                ..HeadLimits::default()
            };
            assert!(
                RequestHead::default()
                    .parse(bad.as_bytes(), &limits)
                    .is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_connection_lives_on_where_both_sides_say_so() {
        for (version, connection, keep_alive) in [
            ("1.1", "", true),
            ("1.1", "Connection: close\r\n", false),
            ("1.1", "Connection: CLOSE\r\n", false),
            ("1.1", "Connection: x, close\r\n", false),
            ("1.1", "Connection: x\r\nConnection: close\r\n", false),
            ("1.1", "Connection: keep-alive, close\r\n", false),
            ("1.1", "Connection: closed\r\n", true),
            ("1.0", "", false),
            ("1.0", "Connection: keep-alive\r\n", true),
            ("1.0", "Connection: Keep-Alive, close\r\n", false),
            ("1.0", "Proxy-Connection: keep-alive\r\n", false),
        ] {
            let text = format!("GET / HTTP/{version}\r\nHost: h\r\n{connection}\r\n");
            assert_eq!(request(&text).keep_alive, keep_alive, "{text:?}");
            let text = format!("HTTP/{version} 200 OK\r\nContent-Length: 0\r\n{connection}\r\n");
            assert_eq!(
                response(&text, Method::Get).unwrap().keep_alive,
                keep_alive,
                "{text:?}"
            );
        }
    }

    #[test]
    fn an_upgrade_counts_only_when_connection_names_it() {
        for (version, fields, upgrade) in [
            (
                "1.1",
                "Connection: Upgrade\r\nUpgrade: websocket\r\n",
                Some("websocket"),
            ),
            (
                "1.1",
                "Upgrade: websocket\r\nConnection: keep-alive, upgrade\r\n",
                Some("websocket"),
            ),
            ("1.1", "Upgrade: websocket\r\n", None),
            ("1.1", "Connection: upgrade\r\n", None),
            ("1.1", "Connection: upgrade\r\nUpgrade:\r\n", None),
            ("1.0", "Connection: upgrade\r\nUpgrade: websocket\r\n", None),
        ] {
            let text = format!("GET / HTTP/{version}\r\nHost: h\r\n{fields}\r\n");
            assert_eq!(
                request(&text).upgrade.map(|u| u.of(text.as_bytes())),
                upgrade.map(str::as_bytes),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_response_ends_as_request_and_status_say() {
        let length = "Content-Length: 5\r\n";
        let chunked = "Transfer-Encoding: chunked\r\n";
        for (status, fields, method, framing) in [
            (200, length, Method::Get, Ok(Framing::Length(5))),
            (200, chunked, Method::Get, Ok(Framing::Chunked)),
            (200, "", Method::Get, Ok(Framing::UntilClose)),
            (200, length, Method::Head, Ok(Framing::None)),
            (200, chunked, Method::Head, Ok(Framing::None)),
            (200, "", Method::Head, Ok(Framing::None)),
            (304, length, Method::Get, Ok(Framing::None)),
            (304, chunked, Method::Get, Ok(Framing::None)),
            (204, "", Method::Get, Ok(Framing::None)),
            (204, "Content-Length: 0\r\n", Method::Get, Ok(Framing::None)),
            (204, length, Method::Get, Err(HeadError::BodyForbidden)),
            (204, chunked, Method::Get, Err(HeadError::BodyForbidden)),
            (100, "", Method::Post, Ok(Framing::None)),
            (103, length, Method::Get, Err(HeadError::BodyForbidden)),
            (200, length, Method::Connect, Ok(Framing::None)),
            (407, length, Method::Connect, Ok(Framing::Length(5))),
            (
                200,
                "Content-Length: 5\r\nContent-Length: 5\r\n",
                Method::Get,
                Err(HeadError::RepeatedLength),
            ),
            (
                200,
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                Method::Get,
                Err(HeadError::LengthWithTransferEncoding),
            ),
            (
                200,
                "Transfer-Encoding: gzip, chunked\r\n",
                Method::Get,
                Err(HeadError::UnsupportedCoding),
            ),
        ] {
            let text = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
            assert_eq!(
                response(&text, method).map(|head| head.framing),
                framing,
                "{text:?} to {method:?}"
            );
        }
        let text = "HTTP/1.0 200 x\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(
            response(text, Method::Get).err(),
            Some(HeadError::TransferEncodingInHttp10)
        );
    }

    #[test]
    fn a_response_without_length_ends_the_connection() {
        assert!(
            !response("HTTP/1.1 200 OK\r\n\r\n", Method::Get)
                .unwrap()
                .keep_alive
        );
        assert!(
            response("HTTP/1.1 304 Not Modified\r\n\r\n", Method::Get)
                .unwrap()
                .keep_alive
        );
    }

    #[test]
    fn status_lines_that_bend_the_grammar_are_refused() {
        for (line, error) in [
            ("HTTP/1.1 99 x\r\n", HeadError::BadStatus),
            ("HTTP/1.1 099 x\r\n", HeadError::BadStatus),
            ("HTTP/1.1 2000 x\r\n", HeadError::BadStatusLine),
            ("HTTP/1.1  200 x\r\n", HeadError::BadStatus),
            ("HTTP/1.1\t200 x\r\n", HeadError::BadStatusLine),
            ("HTTP/1.1 200\tx\r\n", HeadError::BadStatusLine),
            ("HTTP/1.1 200 x\n", HeadError::BareLf),
            ("HTTP/1.1 200\n", HeadError::BareLf),
            ("HTTP/1.1 200 \0\r\n", HeadError::Nul),
            ("HTTP/1.1 200 \x1b\r\n", HeadError::ControlInValue),
            ("HTTP/2.0 200 x\r\n", HeadError::UnsupportedVersion),
            ("ICY 200 OK\r\n", HeadError::BadVersion),
            ("HTTP/1.1 200 x\r\n A: b\r\n", HeadError::LeadingSpace),
        ] {
            assert_eq!(
                response(&format!("{line}\r\n"), Method::Get).err(),
                Some(error),
                "{line:?}"
            );
        }
    }

    #[test]
    fn a_switch_of_protocols_names_the_protocol() {
        let text = "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        assert_eq!(
            response(text, Method::Get)
                .unwrap()
                .upgrade
                .map(|u| u.of(text.as_bytes())),
            Some(&b"websocket"[..])
        );
        let text =
            "HTTP/1.1 200 x\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(response(text, Method::Get).unwrap().upgrade, None);
    }
}
