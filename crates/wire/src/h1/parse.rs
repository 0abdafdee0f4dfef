//! The scan over a head: start line, then field lines, resumable at any byte. What the fields mean is `meaning`'s work.

use super::head::{Field, HeadLimits, Method, Progress, RequestHead, ResponseHead, Span, Version};
use super::scan::{TARGET, TOKEN, run, token_run, until_control};
use super::{HeadError, Known, meaning};

/// Longest method that is looked at, in bytes.
const METHOD_BYTES: usize = 32;

/// Where a scan stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    state: State,
    /// The next byte to look at.
    pub(super) pos: usize,
    /// Where the token under way began.
    mark: usize,
    /// The name of the field under way.
    name: Span,
    known: Known,
    /// The known names met so far, each as its bit.
    pub(super) present: u64,
    /// Connection names fields that are to be removed.
    pub(super) listed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Method,
    Target,
    Version,
    Status,
    Reason,
    Line,
    Name,
    Before,
    Value,
    Done,
}

/// What a part of the scan came to; `None` asks for more bytes.
type Step = Result<Option<()>, HeadError>;

pub(super) fn request(
    head: &mut RequestHead,
    buf: &[u8],
    limits: &HeadLimits,
) -> Result<Progress, HeadError> {
    if head.scan.state == State::Done {
        head.clear();
    }
    let window = window(buf, limits);
    let mut step = request_line(head, window, limits);
    if let Ok(Some(())) = step {
        step = fields(&mut head.scan, &mut head.fields, window, limits.fields);
    }
    let progress = settle(&mut head.scan, step, buf, limits)?;
    if progress == Progress::Complete {
        head.len = head.scan.pos;
        meaning::request(head, buf)?;
    }
    Ok(progress)
}

pub(super) fn response(
    head: &mut ResponseHead,
    buf: &[u8],
    limits: &HeadLimits,
    request: Method,
) -> Result<Progress, HeadError> {
    if head.scan.state == State::Done {
        head.clear();
    }
    let window = window(buf, limits);
    let mut step = status_line(head, window);
    if let Ok(Some(())) = step {
        step = fields(&mut head.scan, &mut head.fields, window, limits.fields);
    }
    let progress = settle(&mut head.scan, step, buf, limits)?;
    if progress == Progress::Complete {
        head.len = head.scan.pos;
        meaning::response(head, buf, request)?;
    }
    Ok(progress)
}

/// What may be looked at: nothing beyond the limit, so that the outcome is the same however much is there already.
fn window<'b>(buf: &'b [u8], limits: &HeadLimits) -> &'b [u8] {
    &buf[..buf.len().min(limits.head_bytes).min(u32::MAX as usize)]
}

fn settle(
    scan: &mut Scan,
    step: Step,
    buf: &[u8],
    limits: &HeadLimits,
) -> Result<Progress, HeadError> {
    let outcome = match step {
        Ok(Some(())) => Ok(Progress::Complete),
        Ok(None) if buf.len() < limits.head_bytes => return Ok(Progress::Partial),
        Ok(None) => Err(HeadError::HeadTooLong),
        Err(error) => Err(error),
    };
    scan.state = State::Done;
    outcome
}

fn request_line(head: &mut RequestHead, buf: &[u8], limits: &HeadLimits) -> Step {
    let scan = &mut head.scan;
    if scan.state == State::Start {
        if empty_line(scan, buf)?.is_none() {
            return Ok(None);
        }
        scan.mark = scan.pos;
        scan.state = State::Method;
    }
    if scan.state == State::Method {
        scan.pos += run(&buf[scan.pos..], &TOKEN);
        if scan.pos - scan.mark > METHOD_BYTES {
            scan.pos = scan.mark + METHOD_BYTES;
            return Err(HeadError::MethodTooLong);
        }
        let Some(&stop) = buf.get(scan.pos) else {
            return Ok(None);
        };
        match stop {
            b' ' if scan.pos > scan.mark => {}
            b' ' | b'\r' => return Err(HeadError::BadRequestLine),
            b'\n' => return Err(HeadError::BareLf),
            0 => return Err(HeadError::Nul),
            _ => return Err(HeadError::BadMethod),
        }
        head.method_span = Span::new(scan.mark, scan.pos);
        head.method = Method::of(head.method_span.of(buf));
        scan.pos += 1;
        scan.mark = scan.pos;
        scan.state = State::Target;
    }
    if scan.state == State::Target {
        scan.pos += run(&buf[scan.pos..], &TARGET);
        if scan.pos - scan.mark > limits.target_bytes {
            scan.pos = scan.mark + limits.target_bytes;
            return Err(HeadError::TargetTooLong);
        }
        let Some(&stop) = buf.get(scan.pos) else {
            return Ok(None);
        };
        match stop {
            b' ' if scan.pos > scan.mark => {}
            b' ' | b'\t' | b'\r' => return Err(HeadError::BadRequestLine),
            b'\n' => return Err(HeadError::BareLf),
            0 => return Err(HeadError::Nul),
            b'#' => return Err(HeadError::FragmentInTarget),
            _ => return Err(HeadError::BadTarget),
        }
        head.target = Span::new(scan.mark, scan.pos);
        scan.pos += 1;
        scan.mark = scan.pos;
        scan.state = State::Version;
    }
    if scan.state == State::Version {
        let line = &buf[scan.mark..];
        let preface = || head.method_span.of(buf) == b"PRI" && head.target.of(buf) == b"*";
        head.version = match line.first_chunk() {
            Some(b"HTTP/1.1\r\n") => Version::Http11,
            Some(b"HTTP/1.0\r\n") => Version::Http10,
            _ => match version(line) {
                Ok(None) => return Ok(None),
                Err(HeadError::UnsupportedVersion) if preface() => {
                    return Err(HeadError::Http2Preface);
                }
                Err(error) => return Err(error),
                Ok(Some(version)) => match line.get(8..) {
                    None | Some([] | [b'\r']) => return Ok(None),
                    Some([b'\r', b'\n', ..]) => version,
                    Some([b'\r', ..]) => return Err(HeadError::BareCr),
                    Some([b'\n', ..]) => return Err(HeadError::BareLf),
                    Some(_) => return Err(HeadError::BadRequestLine),
                },
            },
        };
        scan.pos = scan.mark + 10;
        scan.state = State::Line;
        meaning::target(head, buf, limits)?;
    }
    Ok(Some(()))
}

/// Passes over the one empty line that may stand before a request (RFC 9112 section 2.2).
fn empty_line(scan: &mut Scan, buf: &[u8]) -> Step {
    loop {
        match buf.get(scan.pos..) {
            None | Some([] | [b'\r']) if scan.pos == 0 => return Ok(None),
            None | Some([]) => return Ok(None),
            Some([b'\r', ..]) if scan.pos > 0 => return Err(HeadError::EmptyLines),
            Some([b'\r', b'\n', ..]) => scan.pos = 2,
            Some([b'\r', ..]) => return Err(HeadError::BareCr),
            Some([0x16, ..]) => return Err(HeadError::TlsOnPlainPort),
            Some(_) => return Ok(Some(())),
        }
    }
}

/// The version at the front of `line`: `None` while it is too short to tell.
fn version(line: &[u8]) -> Result<Option<Version>, HeadError> {
    for (&is, &wanted) in line.iter().zip(b"HTTP/d.d") {
        let fits = if wanted == b'd' {
            is.is_ascii_digit()
        } else {
            is == wanted
        };
        if !fits {
            return Err(if is == b'\n' {
                HeadError::BareLf
            } else {
                HeadError::BadVersion
            });
        }
    }
    match line.get(5..8) {
        None => Ok(None),
        Some(b"1.1") => Ok(Some(Version::Http11)),
        Some(b"1.0") => Ok(Some(Version::Http10)),
        Some(_) => Err(HeadError::UnsupportedVersion),
    }
}

fn status_line(head: &mut ResponseHead, buf: &[u8]) -> Step {
    let scan = &mut head.scan;
    if scan.state == State::Start {
        match version(buf)? {
            None => return Ok(None),
            Some(version) => head.version = version,
        }
        scan.pos = 8;
        scan.state = State::Status;
    }
    if scan.state == State::Status {
        let part = &buf[scan.pos..];
        for (i, &b) in part.iter().take(5).enumerate() {
            match (i, b) {
                (0, b' ') | (1, b'1'..=b'9') | (2 | 3, b'0'..=b'9') | (4, b' ' | b'\r') => {}
                (_, b'\n') => return Err(HeadError::BareLf),
                (1..=3, _) => return Err(HeadError::BadStatus),
                _ => return Err(HeadError::BadStatusLine),
            }
        }
        let Some(&[_, a, b, c, stop]) = part.first_chunk() else {
            return Ok(None);
        };
        head.status = [a, b, c]
            .iter()
            .fold(0, |n, d| n * 10 + u16::from(d - b'0'));
        // Some servers leave out the space before an empty reason.
        scan.pos += if stop == b' ' { 5 } else { 4 };
        scan.mark = scan.pos;
        scan.state = State::Reason;
    }
    if scan.state == State::Reason {
        let Some(end) = value(scan, buf)? else {
            return Ok(None);
        };
        head.reason = Span::new(scan.mark, end);
        scan.state = State::Line;
    }
    Ok(Some(()))
}

/// Field lines up to and with the empty line that ends them.
fn fields(scan: &mut Scan, fields: &mut Vec<Field>, buf: &[u8], max: usize) -> Step {
    let mut state = scan.state;
    loop {
        if state == State::Line {
            match buf.get(scan.pos..) {
                None | Some([] | [b'\r']) => break,
                Some([b'\r', b'\n', ..]) => {
                    scan.pos += 2;
                    return Ok(Some(()));
                }
                Some([b'\r', ..]) => return Err(HeadError::BareCr),
                Some([b' ' | b'\t', ..]) if fields.is_empty() => {
                    return Err(HeadError::LeadingSpace);
                }
                Some([b' ' | b'\t', ..]) => return Err(HeadError::ObsFold),
                Some([b':', ..]) => return Err(HeadError::EmptyName),
                Some(_) if fields.len() >= max => return Err(HeadError::TooManyFields),
                Some(_) => {}
            }
            scan.mark = scan.pos;
            state = State::Name;
        }
        if state == State::Name {
            scan.pos += token_run(&buf[scan.pos..]);
            let Some(&stop) = buf.get(scan.pos) else {
                break;
            };
            match stop {
                b':' => {}
                b' ' | b'\t' => return Err(HeadError::SpaceBeforeColon),
                b'\r' => return Err(HeadError::MissingColon),
                b'\n' => return Err(HeadError::BareLf),
                0 => return Err(HeadError::Nul),
                _ => return Err(HeadError::BadName),
            }
            scan.name = Span::new(scan.mark, scan.pos);
            scan.known = Known::of(&buf[scan.mark..scan.pos]);
            scan.pos += 1;
            state = State::Before;
        }
        if state == State::Before {
            while let Some(b' ' | b'\t') = buf.get(scan.pos) {
                scan.pos += 1;
            }
            if scan.pos == buf.len() {
                break;
            }
            scan.mark = scan.pos;
            state = State::Value;
        }
        let Some(end) = value(scan, buf)? else { break };
        scan.present |= scan.known.bit();
        fields.push(Field {
            name: scan.name,
            value: Span::new(scan.mark, end),
            known: scan.known,
        });
        state = State::Line;
    }
    scan.state = state;
    Ok(None)
}

/// The rest of a line whose text began at `mark`: passes over its CRLF and returns where the text ends, without the white
/// space after it.
#[inline]
fn value(scan: &mut Scan, buf: &[u8]) -> Result<Option<usize>, HeadError> {
    loop {
        scan.pos += until_control(&buf[scan.pos..]);
        match &buf[scan.pos..] {
            [b'\r', b'\n', ..] => break,
            [] | [b'\r'] => return Ok(None),
            [b'\t', ..] => scan.pos += 1,
            [b'\r', ..] => return Err(HeadError::BareCr),
            [b'\n', ..] => return Err(HeadError::BareLf),
            [0, ..] => return Err(HeadError::Nul),
            [..] => return Err(HeadError::ControlInValue),
        }
    }
    let text = &buf[scan.mark..scan.pos];
    let blank = text
        .iter()
        .rev()
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count();
    let end = scan.pos - blank;
    scan.pos += 2;
    Ok(Some(end))
}
