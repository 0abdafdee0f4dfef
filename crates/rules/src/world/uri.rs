//! `URI::` commands: URIs taken apart, compared and escaped (RFC 3986).

use crate::command::{Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;
use std::ops::Range;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("URI::basename", "uri", 1, 1, |_, args| {
        let uri = args[0].bytes();
        let path = &uri[path_of(&uri)];
        Ok(Value::new(&path[directory(path).len()..]))
    }),
    Command::new("URI::path", "uri ?depth | start ?end??", 1, 3, path),
    Command::new("URI::query", "uri ?parameter?", 1, 2, query),
    Command::new("URI::host", "uri", 1, 1, |_, args| {
        let uri = args[0].bytes();
        Ok(Value::new(host_and_port(&uri).0))
    }),
    Command::new("URI::port", "uri", 1, 1, |_, args| {
        let uri = args[0].bytes();
        Ok(Value::literal(port(&uri)))
    }),
    Command::new("URI::protocol", "uri", 1, 1, |_, args| {
        Ok(Value::new(protocol(&args[0].bytes())))
    }),
    Command::new("URI::compare", "uri uri", 2, 2, |_, args| {
        Ok(same(&args[0].bytes(), &args[1].bytes()).into())
    }),
    Command::new("URI::decode", "uri", 1, 1, |_, args| decode(&args[0])),
    Command::new("decode_uri", "uri", 1, 1, |_, args| decode(&args[0])),
    Command::new("URI::encode", "string", 1, 1, encode),
];

/// Where host and port of a URI stand; nothing where it begins with its path.
pub(super) fn authority(uri: &[u8]) -> Range<usize> {
    let Some(scheme) = memchr::memmem::find(uri, b"://") else {
        return 0..0;
    };
    if uri[..scheme]
        .iter()
        .any(|byte| matches!(byte, b'/' | b'?' | b'#'))
    {
        return 0..0;
    }
    let start = scheme + 3;
    let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#');
    let end = uri[start..]
        .iter()
        .position(ends)
        .map_or(uri.len(), |at| start + at);
    start..end
}

/// A URI's path and query without needless escapes, doubled slashes, `.` and `..`.
pub(super) fn normalized(uri: &[u8]) -> Vec<u8> {
    let at = path_of(uri);
    let mut out = uri[..at.start].to_vec();
    let path = unescaped_unreserved(&uri[at.clone()]);
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut ends_in_slash = false;
    for segment in path.split(|byte| *byte == b'/') {
        ends_in_slash = true;
        match segment {
            b"" | b"." => {}
            b".." => {
                kept.pop();
            }
            _ => {
                kept.push(segment);
                ends_in_slash = false;
            }
        }
    }
    if path.first() == Some(&b'/') {
        out.push(b'/');
    }
    out.extend_from_slice(&kept.join(&b'/'));
    if ends_in_slash && !kept.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(&unescaped_unreserved(&uri[at.end..]));
    out
}

/// The text with escapes of unreserved characters taken back (RFC 3986 section 6.2.2.2).
pub(super) fn unescaped_unreserved(text: &[u8]) -> Vec<u8> {
    unescape(text, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
    })
}

fn path_of(uri: &[u8]) -> Range<usize> {
    let start = match uri.first() {
        Some(b'/') => 0,
        _ => authority(uri).end,
    };
    let rest = &uri[start..];
    let end = memchr::memchr2(b'?', b'#', rest).map_or(uri.len(), |at| start + at);
    start..end
}

/// The path up to its last slash.
fn directory(path: &[u8]) -> &[u8] {
    match memchr::memrchr(b'/', path) {
        Some(at) => &path[..=at],
        None => b"",
    }
}

fn path(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let uri = args[0].bytes();
    let path = &uri[path_of(&uri)];
    let directory = directory(path);
    let names = || {
        let names = directory.split(|byte| *byte == b'/');
        names.filter(|name| !name.is_empty())
    };
    let (start, end) = match &args[1..] {
        [] => return Ok(Value::new(directory)),
        [word] if word.is(b"depth") => return Ok(names().count().into()),
        [start] => (start.int()?, i64::MAX),
        [start, end, ..] => (start.int()?, end.int()?),
    };
    let start = usize::try_from(start).unwrap_or(0).max(1);
    let end = usize::try_from(end).unwrap_or(0);
    let mut part = vec![b'/'];
    for name in names().take(end).skip(start - 1) {
        part.extend_from_slice(name);
        part.push(b'/');
    }
    Ok(part.into())
}

fn query(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let uri = args[0].bytes();
    let Some(at) = memchr::memchr(b'?', &uri) else {
        return Ok(Value::Empty);
    };
    let query = &uri[at + 1..];
    let Some(name) = args.get(1) else {
        return Ok(Value::new(query));
    };
    let name = name.bytes();
    for pair in query.split(|byte| *byte == b'&') {
        match pair.strip_prefix(&*name) {
            Some([b'=', value @ ..]) => return Ok(Value::new(value)),
            Some([]) => return Ok(Value::Empty),
            _ => {}
        }
    }
    Ok(Value::Empty)
}

fn protocol(uri: &[u8]) -> &[u8] {
    match authority(uri).start.checked_sub(3) {
        Some(end) => &uri[..end],
        None => b"",
    }
}

/// Host, without an IPv6 address's brackets, and port where there is one.
fn host_and_port(uri: &[u8]) -> (&[u8], Option<&[u8]>) {
    let text = &uri[authority(uri)];
    let text = match memchr::memrchr(b'@', text) {
        Some(at) => &text[at + 1..],
        None => text,
    };
    if let [b'[', rest @ ..] = text
        && let Some(end) = memchr::memchr(b']', rest)
    {
        return (&rest[..end], rest[end + 1..].strip_prefix(b":"));
    }
    match memchr::memrchr(b':', text) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn port(uri: &[u8]) -> &[u8] {
    match host_and_port(uri).1 {
        Some(port) if !port.is_empty() => port,
        _ => match &*protocol(uri).to_ascii_lowercase() {
            b"http" => b"80",
            b"https" => b"443",
            b"ftp" => b"21",
            b"sip" => b"5060",
            b"sips" => b"5061",
            b"rtsp" => b"554",
            _ => b"0",
        },
    }
}

/// Whether two URIs are equivalent: case of scheme and host, ports left out and escapes apart.
fn same(a: &[u8], b: &[u8]) -> bool {
    let rest = |uri: &[u8]| {
        let at = path_of(uri);
        let text = unescape(&uri[at.start..], |_| true);
        match at.is_empty() && uri.len() > at.end {
            true => [b"/", &*text].concat(),
            false if text.is_empty() => b"/".to_vec(),
            false => text,
        }
    };
    protocol(a).eq_ignore_ascii_case(protocol(b))
        && host_and_port(a).0.eq_ignore_ascii_case(host_and_port(b).0)
        && port(a) == port(b)
        && rest(a) == rest(b)
}

fn decode(uri: &Value) -> Result<Value, Fault> {
    let text = uri.bytes();
    if memchr::memchr(b'%', &text).is_none() {
        return Ok(uri.clone());
    }
    Ok(unescape(&text, |_| true).into())
}

/// Takes back escapes of the bytes of which `wanted` is true.
fn unescape(text: &[u8], wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let escaped = match rest[at + 1..] {
            [high, low, ..] => digit(high).zip(digit(low)).map(|(h, l)| h << 4 | l),
            _ => None,
        };
        match escaped {
            Some(byte) if wanted(byte) => {
                out.push(byte);
                rest = &rest[at + 3..];
            }
            _ => {
                out.push(b'%');
                rest = &rest[at + 1..];
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn encode(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let text = args[0].bytes();
    ctx.charge(text.len() * 3)?;
    let mut out = Vec::with_capacity(text.len() * 2);
    for byte in &*text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            _ => out.extend_from_slice(&[
                b'%',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]),
        }
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event::RuleInit;
    use crate::world::http::testing::Bench;
    use proptest::prelude::*;

    const FULL: &str = "https://u:p@www.example.com:8443/a/b/c/index.jsp?x=1&xy=2&flag#top";

    #[test]
    fn a_uri_is_taken_apart() {
        let mut bench = Bench::new();
        for (command, gives) in [
            ("URI::basename {}", "index.jsp"),
            ("URI::path {}", "/a/b/c/"),
            ("URI::path {} depth", "3"),
            ("URI::path {} 2", "/b/c/"),
            ("URI::path {} 1 2", "/a/b/"),
            ("URI::path {} 3 3", "/c/"),
            ("URI::path {} 9", "/"),
            ("URI::host {}", "www.example.com"),
            ("URI::port {}", "8443"),
            ("URI::protocol {}", "https"),
            ("URI::query {} x", "1"),
            ("URI::query {} xy", "2"),
            ("URI::query {} y", ""),
        ] {
            let line = command.replace("{}", FULL);
            assert_eq!(bench.run(RuleInit, COMMANDS, &line), gives, "{line}");
        }
        for (line, gives) in [
            ("URI::basename /main/index.jsp?user=/x", "index.jsp"),
            ("URI::basename /a/", ""),
            ("URI::path /index.jsp", "/"),
            ("URI::path index.jsp", ""),
            ("URI::host /a?u=http://x/", ""),
            ("URI::port /a", "0"),
            ("URI::port http://a/", "80"),
            ("URI::port {http://[2001:db8::1]:81/}", "81"),
            ("URI::host {http://[2001:db8::1]/}", "2001:db8::1"),
            ("URI::query /a?b", "b"),
            ("URI::query /a", ""),
            ("URI::protocol /a", ""),
        ] {
            assert_eq!(bench.run(RuleInit, COMMANDS, line), gives, "{line}");
        }
    }

    #[test]
    fn equivalent_uris_compare_equal() {
        let mut bench = Bench::new();
        for (line, gives) in [
            (
                "URI::compare http://abc.com:80/~smith/home.html http://ABC.com/%7Esmith/home.html",
                "1",
            ),
            ("URI::compare http://abc.com http://abc.com/", "1"),
            ("URI::compare http://abc.com https://abc.com", "0"),
            ("URI::compare http://abc.com/a http://abc.com/A", "0"),
            ("URI::compare http://abc.com:81/ http://abc.com/", "0"),
        ] {
            assert_eq!(bench.run(RuleInit, COMMANDS, line), gives, "{line}");
        }
    }

    #[test]
    fn escapes_are_written_and_taken_back() {
        let mut bench = Bench::new();
        for (line, gives) in [
            ("URI::encode {a b/c?d~e}", "a%20b%2fc%3fd~e"),
            ("URI::decode a%20b%2Fc+d", "a b/c+d"),
            ("decode_uri %41", "A"),
            ("URI::decode 100%", "100%"),
            ("URI::decode %zz%4", "%zz%4"),
            ("URI::decode %2541", "%41"),
        ] {
            assert_eq!(bench.run(RuleInit, COMMANDS, line), gives, "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_what_it_was(bytes: Vec<u8>) {
            let mut bench = Bench::new();
            let command = |name| COMMANDS.iter().find(|c| c.name == name).unwrap();
            let coded = bench.call(RuleInit, command("URI::encode"), &[Value::new(&bytes)]).unwrap();
            let plain = bench.call(RuleInit, command("URI::decode"), &[coded]).unwrap();
            prop_assert_eq!(&*plain.bytes(), &*bytes);
        }

        #[test]
        fn no_normalized_path_climbs(text in "[/.a%2eE?]{0,20}") {
            let out = normalized(format!("/{text}").as_bytes());
            let path = out.split(|byte| *byte == b'?').next().unwrap();
            prop_assert!(path.split(|byte| *byte == b'/').all(|segment| segment != b".."));
        }
    }
}
