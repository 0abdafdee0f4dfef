//! Records as lines. What others have sent is escaped here and nowhere else.

use super::record::Record;
use std::cell::RefCell;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Appends the record as a JSON object with its newline.
pub(super) fn json(record: &Record<'_>, out: &mut Vec<u8>) {
    let r = record;
    out.extend_from_slice(b"{\"time\":\"");
    push_time(out, r.time);
    out.extend_from_slice(b"\",\"virtual\":");
    push_json(out, r.virtual_name.as_bytes());
    out.extend_from_slice(b",\"client\":\"");
    push_addr(out, r.client);
    out.extend_from_slice(b"\",\"local\":\"");
    push_addr(out, r.local);
    out.push(b'"');
    for (key, value) in [
        ("protocol", r.protocol.as_bytes()),
        ("method", r.method),
        ("target", r.target),
        ("version", r.version.as_bytes()),
        ("host", r.host),
    ] {
        push_json_field(out, key, value);
    }
    if r.status != 0 {
        push_json_number(out, "status", u64::from(r.status));
    }
    push_json_number(out, "bytes_in", r.bytes_in);
    push_json_number(out, "bytes_out", r.bytes_out);
    push_json_field(out, "pool", r.pool.unwrap_or_default().as_bytes());
    push_json_field(out, "member", r.member.unwrap_or_default().as_bytes());
    push_json_number(out, "attempts", u64::from(r.attempts));
    push_json_field(out, "request_id", r.request_id.as_bytes());
    if let Some(tls) = r.tls {
        push_json_field(out, "tls_version", tls.version.as_bytes());
        push_json_field(out, "tls_cipher", tls.suite.as_bytes());
        push_json_field(out, "sni", tls.sni.unwrap_or_default().as_bytes());
        push_json_field(out, "identity", r.identity().unwrap_or_default().as_bytes());
    }
    push_json_field(out, "user_agent", r.user_agent);
    push_json_field(out, "referer", r.referer);
    for (key, value) in [
        ("request_us", r.request_us),
        ("queue_us", r.queue_us),
        ("connect_us", r.connect_us),
        ("response_us", r.response_us),
        ("total_us", r.total_us),
    ] {
        push_json_number(out, key, value);
    }
    out.extend_from_slice(b",\"ending\":\"");
    out.extend_from_slice(&r.ending.letters());
    out.push(b'"');
    push_json_field(
        out,
        "reason",
        r.ending.reason.unwrap_or_default().as_bytes(),
    );
    out.extend_from_slice(b"}\n");
}

/// Appends the record as a line of the text form with its newline.
pub(super) fn text(record: &Record<'_>, out: &mut Vec<u8>) {
    let r = record;
    push_time(out, r.time);
    out.push(b' ');
    push_addr(out, r.client);
    out.push(b' ');
    push_word(out, r.virtual_name);
    out.push(b' ');
    push_word(out, r.pool.unwrap_or_default());
    out.push(b'/');
    push_word(out, r.member.unwrap_or_default());
    out.push(b' ');
    for timer in [r.request_us, r.queue_us, r.connect_us, r.response_us] {
        push_millis(out, timer);
        out.push(b'/');
    }
    push_millis(out, r.total_us);
    out.push(b' ');
    if r.status == 0 {
        out.push(b'-');
    } else {
        push_number(out, u64::from(r.status));
    }
    out.push(b' ');
    push_number(out, r.bytes_in);
    out.push(b'/');
    push_number(out, r.bytes_out);
    out.push(b' ');
    out.extend_from_slice(&r.ending.letters());
    out.push(b' ');
    push_number(out, u64::from(r.attempts));
    if r.method.is_empty() {
        out.extend_from_slice(b" -");
    } else {
        out.extend_from_slice(b" \"");
        push_quoted(out, r.method);
        out.push(b' ');
        push_quoted(out, r.target);
        out.push(b' ');
        push_quoted(out, r.version.as_bytes());
        out.push(b'"');
    }
    push_pair(
        out,
        "reason",
        r.ending.reason.unwrap_or_default().as_bytes(),
    );
    push_pair(out, "host", r.host);
    push_pair(out, "id", r.request_id.as_bytes());
    out.extend_from_slice(b" local=\"");
    push_addr(out, r.local);
    out.push(b'"');
    push_pair(out, "proto", r.protocol.as_bytes());
    if let Some(tls) = r.tls {
        push_pair(out, "tls", tls.version.as_bytes());
        push_pair(out, "cipher", tls.suite.as_bytes());
        push_pair(out, "sni", tls.sni.unwrap_or_default().as_bytes());
        push_pair(out, "identity", r.identity().unwrap_or_default().as_bytes());
    }
    push_pair(out, "agent", r.user_agent);
    push_pair(out, "referer", r.referer);
    out.push(b'\n');
}

fn push_json_number(out: &mut Vec<u8>, key: &str, value: u64) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    push_number(out, value);
}

fn push_json_field(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    push_json(out, value);
}

/// Appends a JSON string. Control characters, the invisible ones of C1 and line separators among them, are escaped.
fn push_json(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'"');
    if value.iter().all(|b| is_plain(*b)) {
        out.extend_from_slice(value);
        out.push(b'"');
        return;
    }
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                    let code = u32::from(c) as u16;
                    out.extend_from_slice(b"\\u");
                    push_hex(out, (code >> 8) as u8);
                    push_hex(out, code as u8);
                }
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(b"\\\\x");
            push_hex(out, *byte);
        }
    }
    out.push(b'"');
}

fn push_pair(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    out.push(b' ');
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"=\"");
    push_quoted(out, value);
    out.push(b'"');
}

/// Appends what stands within quotes.
fn push_quoted(out: &mut Vec<u8>, value: &[u8]) {
    if value.iter().all(|b| is_plain(*b)) {
        out.extend_from_slice(value);
        return;
    }
    for byte in value {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            _ => {
                out.extend_from_slice(b"\\x");
                push_hex(out, *byte);
            }
        }
    }
}

/// Appends a configured name, whose alphabet needs no quotes.
fn push_word(out: &mut Vec<u8>, word: &str) {
    if word.is_empty() {
        out.push(b'-');
    } else {
        push_quoted(out, word.as_bytes());
    }
}

/// Printable ASCII that no form escapes.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

fn push_hex(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

fn push_millis(out: &mut Vec<u8>, micros: u64) {
    push_number(out, micros / 1000);
    out.push(b'.');
    push_digits(out, micros % 1000, 3);
}

fn push_number(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn push_digits(out: &mut Vec<u8>, n: u64, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (n / 10u64.pow(place) % 10) as u8);
    }
}

fn push_addr(out: &mut Vec<u8>, addr: SocketAddr) {
    match addr {
        SocketAddr::V4(v4) => {
            for (n, octet) in v4.ip().octets().into_iter().enumerate() {
                if n > 0 {
                    out.push(b'.');
                }
                push_number(out, u64::from(octet));
            }
            out.push(b':');
            push_number(out, u64::from(v4.port()));
        }
        // Writing to a vector never fails.
        SocketAddr::V6(v6) => drop(write!(out, "[{}]:{}", v6.ip(), v6.port())),
    }
}

/// Appends a time as RFC 3339 in UTC with microseconds. The second's text is kept: most lines share it.
fn push_time(out: &mut Vec<u8>, time: SystemTime) {
    thread_local! {
        static LAST: RefCell<(u64, Vec<u8>)> = const { RefCell::new((u64::MAX, Vec::new())) };
    }
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    LAST.with_borrow_mut(|(second, text)| {
        if *second != since.as_secs() {
            *second = since.as_secs();
            text.clear();
            push_second(text, *second);
        }
        out.extend_from_slice(text);
    });
    out.push(b'.');
    push_digits(out, u64::from(since.subsec_micros()), 6);
    out.push(b'Z');
}

fn push_second(out: &mut Vec<u8>, second: u64) {
    let (year, month, day) = civil(second / 86_400);
    push_digits(out, year, 4);
    out.push(b'-');
    push_digits(out, month, 2);
    out.push(b'-');
    push_digits(out, day, 2);
    out.push(b'T');
    push_digits(out, second / 3600 % 24, 2);
    out.push(b':');
    push_digits(out, second / 60 % 60, 2);
    out.push(b':');
    push_digits(out, second % 60, 2);
}

/// Year, month and day of a day counted from 1970 (Howard Hinnant, «chrono-compatible low-level date algorithms»).
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (
        yoe + era * 400 + u64::from(month <= 2),
        month,
        doy - (153 * mp + 2) / 5 + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{By, Ending, Phase};
    use proptest::prelude::*;
    use std::time::Duration;

    fn record() -> Record<'static> {
        let time = UNIX_EPOCH + Duration::from_micros(1_767_323_045_678_901);
        Record {
            protocol: "http",
            method: b"GET",
            target: b"/x",
            version: "HTTP/1.1",
            host: b"a.example",
            status: 200,
            bytes_in: 87,
            bytes_out: 1311,
            pool: Some("app"),
            member: Some("app1"),
            attempts: 1,
            request_us: 412,
            connect_us: 201,
            response_us: 1250,
            total_us: 1998,
            ..Record::new(
                time,
                "web",
                "192.0.2.1:5000".parse().unwrap(),
                "[2001:db8::1]:80".parse().unwrap(),
            )
        }
    }

    fn line(form: fn(&Record<'_>, &mut Vec<u8>), record: &Record<'_>) -> String {
        let mut out = Vec::new();
        form(record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_text_form_is_as_documented() {
        assert_eq!(
            line(text, &record()),
            "2026-01-02T03:04:05.678901Z 192.0.2.1:5000 web app/app1 0.412/0.000/0.201/1.250/1.998 200 87/1311 -- 1 \
             \"GET /x HTTP/1.1\" host=\"a.example\" local=\"[2001:db8::1]:80\" proto=\"http\"\n"
        );
    }

    #[test]
    fn a_connection_without_a_request_keeps_its_columns() {
        let client = "192.0.2.1:5000".parse().unwrap();
        let record = Record {
            ending: Ending::new(By::ClientTimeout, Phase::Request).because("tls-timeout"),
            ..Record::new(UNIX_EPOCH, "ssh", client, client)
        };
        assert_eq!(
            line(text, &record),
            "1970-01-01T00:00:00.000000Z 192.0.2.1:5000 ssh -/- 0.000/0.000/0.000/0.000/0.000 - 0/0 cR 0 - reason=\"tls-timeout\" \
             local=\"192.0.2.1:5000\"\n"
        );
    }

    #[test]
    fn the_json_form_is_an_object_with_what_is_known() {
        assert_eq!(
            line(json, &record()),
            "{\"time\":\"2026-01-02T03:04:05.678901Z\",\"virtual\":\"web\",\"client\":\"192.0.2.1:5000\",\
             \"local\":\"[2001:db8::1]:80\",\"protocol\":\"http\",\"method\":\"GET\",\"target\":\"/x\",\
             \"version\":\"HTTP/1.1\",\"host\":\"a.example\",\"status\":200,\"bytes_in\":87,\"bytes_out\":1311,\
             \"pool\":\"app\",\"member\":\"app1\",\"attempts\":1,\"request_us\":412,\"queue_us\":0,\"connect_us\":201,\
             \"response_us\":1250,\"total_us\":1998,\"ending\":\"--\"}\n"
        );
    }

    #[test]
    fn quotes_controls_and_broken_text_are_escaped_in_both_forms() {
        let record = Record {
            target: b"/\"\\\n\x1b[2J\x00\xff\xe2\x80\xa8\xc3\xa9\x7f",
            ..record()
        };
        let json = line(json, &record);
        assert!(
            json.contains(r#""target":"/\"\\\n\u001b[2J\u0000\\xff\u2028é\u007f","#),
            "{json}"
        );
        let text = line(text, &record);
        assert!(
            text.contains(
                r#" "GET /\"\\\x0a\x1b[2J\x00\xff\xe2\x80\xa8\xc3\xa9\x7f HTTP/1.1" host"#
            ),
            "{text}"
        );
    }

    #[test]
    fn days_become_dates_also_about_leap_days() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_777), (2026, 11, 20));
        assert_eq!(civil(47_540), (2100, 2, 28));
        assert_eq!(civil(47_541), (2100, 3, 1));
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_client_make_a_second_line(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let record = Record { method: b"X", target: &bytes, host: &bytes, user_agent: &bytes, request_id: &String::from_utf8_lossy(&bytes), ..record() };
            for form in [text, json] {
                let mut out = Vec::new();
                form(&record, &mut out);
                let (end, body) = out.split_last().unwrap();
                prop_assert_eq!(*end, b'\n');
                prop_assert!(!body.iter().any(|b| *b < b' ' || *b == 0x7f));
            }
            let mut out = Vec::new();
            text(&record, &mut out);
            // Each quote that is not escaped opens or closes a field: their number is even.
            let mut quotes = 0;
            let mut escaped = false;
            for b in &out {
                if escaped { escaped = false; continue }
                match b { b'\\' => escaped = true, b'"' => quotes += 1, _ => {} }
            }
            prop_assert_eq!(quotes % 2, 0);
        }
    }
}
