//! However a message is cut into pieces, the outcome is the same as in one piece; and what is written anew reads the same.

use proptest::prelude::*;
use wire::h1::{
    ChunkError, ChunkLimits, ChunkedDecoder, HeadError, HeadLimits, Known, Method, Piece, Progress,
    RequestHead, ResponseHead, TargetForm, Version, finish, write_request, write_response,
};

/// Mostly sound requests, with the parts that matter in every combination and now and then a broken byte.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let method = prop_oneof![
        Just("GET"),
        Just("POST"),
        Just("OPTIONS"),
        Just("CONNECT"),
        Just("PURGE"),
        Just("G(T")
    ];
    let target = prop_oneof![
        Just("/".to_owned()),
        Just("*".to_owned()),
        Just("/#".to_owned()),
        "/[a-z/?&=]{0,40}",
        "http://[a-z]{1,5}(:80)?/[a-z?]{0,10}",
        "[ -~]{0,6}",
    ];
    let version = prop_oneof![4 => Just("1.1"), 2 => Just("1.0"), 1 => Just("2.0")];
    let field = prop_oneof![
        4 => "[A-Za-z-]{1,12}:[ \t]{0,2}[ -~]{0,30}[ \t]{0,2}",
        2 => Just("Host: a".to_owned()),
        1 => Just("Content-Length: 12".to_owned()),
        1 => Just("Transfer-Encoding: chunked".to_owned()),
        1 => Just("Connection: close, x-a, upgrade".to_owned()),
        1 => Just("Upgrade: websocket".to_owned()),
        1 => Just("Expect: 100-continue".to_owned()),
        1 => "[ -~\t]{0,20}",
    ];
    let empty = prop_oneof![6 => Just(""), 1 => Just("\r\n")];
    let broken = proptest::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (
        empty,
        method,
        target,
        version,
        proptest::collection::vec(field, 0..8),
        broken,
    )
        .prop_map(|(empty, method, target, version, fields, broken)| {
            let mut text = format!("{empty}{method} {target} HTTP/{version}\r\nHost: a\r\n");
            fields.iter().for_each(|field| text.extend([field, "\r\n"]));
            let mut bytes = (text + "\r\nrest").into_bytes();
            if let Some((at, byte)) = broken {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        })
}

fn response() -> impl Strategy<Value = Vec<u8>> {
    let status = prop_oneof![
        Just("100"),
        Just("101"),
        Just("200"),
        Just("204"),
        Just("304"),
        Just("404"),
        Just("099"),
        Just("20")
    ];
    let reason = prop_oneof![
        Just("".to_owned()),
        "[ -~]{0,12}".prop_map(|reason| format!(" {reason}"))
    ];
    let field = prop_oneof![
        4 => "[A-Za-z-]{1,12}: [ -~]{0,30}",
        1 => Just("Content-Length: 12".to_owned()),
        1 => Just("Transfer-Encoding: chunked".to_owned()),
        1 => Just("Connection: keep-alive, x-a, upgrade".to_owned()),
        1 => Just("Upgrade: websocket".to_owned()),
    ];
    let broken = proptest::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (
        0..3u8,
        status,
        reason,
        proptest::collection::vec(field, 0..8),
        broken,
    )
        .prop_map(|(minor, status, reason, fields, broken)| {
            let mut text = format!("HTTP/1.{minor} {status}{reason}\r\n");
            fields.iter().for_each(|field| text.extend([field, "\r\n"]));
            let mut bytes = (text + "\r\nrest").into_bytes();
            if let Some((at, byte)) = broken {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        })
}

fn chunks() -> impl Strategy<Value = Vec<u8>> {
    let chunk = (
        1..40usize,
        prop_oneof![3 => Just(""), 1 => Just(";a"), 1 => Just(";a=b"), 1 => Just(";a=\"b\\\"\"")],
    )
        .prop_map(|(len, extension)| format!("{len:x}{extension}\r\n{}\r\n", "\r".repeat(len)));
    let trailer =
        prop_oneof![3 => Just("X-Sum: 1\r\n"), 1 => Just("Host: h\r\n"), 1 => Just("X\r\n")];
    let broken = proptest::option::weighted(0.5, (any::<prop::sample::Index>(), any::<u8>()));
    (
        proptest::collection::vec(chunk, 0..5),
        proptest::collection::vec(trailer, 0..2),
        broken,
    )
        .prop_map(|(chunks, trailers, broken)| {
            let text = format!(
                "{}0\r\n{}\r\nGET / HTTP/1.1\r\n",
                chunks.concat(),
                trailers.concat()
            );
            let mut bytes = text.into_bytes();
            if let Some((at, byte)) = broken {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        })
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 0..6)
}

/// The lengths at which the bytes are shown: each cut, then all.
fn lengths(cuts: &[prop::sample::Index], len: usize) -> Vec<usize> {
    let mut lengths: Vec<usize> = cuts
        .iter()
        .map(|cut| cut.index(len + 1))
        .chain([len])
        .collect();
    lengths.sort_unstable();
    lengths
}

/// What a parse came to, as text: all that is public, or the error.
fn request_at(head: &mut RequestHead, bytes: &[u8], lengths: &[usize]) -> String {
    let limits = HeadLimits {
        head_bytes: 300,
        fields: 7,
        target_bytes: 30,
        connect: true,
    };
    for &len in lengths {
        match head.parse(&bytes[..len], &limits) {
            Ok(Progress::Partial) => {}
            Ok(Progress::Complete) => return format!("{head:?}"),
            Err(error) => return format!("{error:?} at {}", head.position()),
        }
    }
    "partial".to_owned()
}

fn response_at(head: &mut ResponseHead, bytes: &[u8], lengths: &[usize]) -> String {
    let limits = HeadLimits {
        head_bytes: 200,
        fields: 6,
        ..HeadLimits::default()
    };
    for &len in lengths {
        match head.parse(&bytes[..len], &limits, Method::Get) {
            Ok(Progress::Partial) => {}
            Ok(Progress::Complete) => return format!("{head:?}"),
            Err(error) => return format!("{error:?} at {}", head.position()),
        }
    }
    "partial".to_owned()
}

/// The content and the length on the wire.
fn chunks_at(bytes: &[u8], lengths: &[usize]) -> Result<Option<(Vec<u8>, usize)>, ChunkError> {
    let limits = ChunkLimits {
        extension_bytes: 12,
        trailer_bytes: 12,
        trailer_fields: 1,
    };
    let mut decoder = ChunkedDecoder::new(limits);
    let mut content = Vec::new();
    let mut at = 0;
    for &len in lengths {
        while at < len {
            let (taken, piece) = decoder.next(&bytes[at..len])?;
            if piece == Piece::Data {
                content.extend_from_slice(&bytes[at..at + taken]);
            }
            at += taken;
            if piece == Piece::End {
                return Ok(Some((content, at)));
            }
        }
    }
    Ok(None)
}

/// Name and value of each field, as sent.
fn fields(head: &RequestHead, bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    head.fields
        .iter()
        .map(|field| {
            (
                field.name.of(bytes).to_vec(),
                field.value.of(bytes).to_vec(),
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_request_reads_alike_however_it_is_cut(bytes in request(), cuts in cuts()) {
        let whole = request_at(&mut RequestHead::default(), &bytes, &[bytes.len()]);
        prop_assert_eq!(&request_at(&mut RequestHead::default(), &bytes, &lengths(&cuts, bytes.len())), &whole);
        let each: Vec<usize> = (0..=bytes.len()).collect();
        prop_assert_eq!(&request_at(&mut RequestHead::default(), &bytes, &each), &whole);
    }

    #[test]
    fn a_response_reads_alike_however_it_is_cut(bytes in response(), cuts in cuts()) {
        let whole = response_at(&mut ResponseHead::default(), &bytes, &[bytes.len()]);
        prop_assert_eq!(&response_at(&mut ResponseHead::default(), &bytes, &lengths(&cuts, bytes.len())), &whole);
        let each: Vec<usize> = (0..=bytes.len()).collect();
        prop_assert_eq!(&response_at(&mut ResponseHead::default(), &bytes, &each), &whole);
    }

    #[test]
    fn chunks_read_alike_however_they_are_cut(bytes in chunks(), cuts in cuts()) {
        let whole = chunks_at(&bytes, &[bytes.len()]);
        prop_assert_eq!(&chunks_at(&bytes, &lengths(&cuts, bytes.len())), &whole);
        let each: Vec<usize> = (0..=bytes.len()).collect();
        prop_assert_eq!(&chunks_at(&bytes, &each), &whole);
        // Following the framing and taking out the content agree on where the body ends.
        let limits = ChunkLimits { extension_bytes: 12, trailer_bytes: 12, trailer_fields: 1 };
        let advance = ChunkedDecoder::new(limits).advance(&bytes);
        let end = advance.map(|advance| advance.done.then_some(advance.consumed));
        prop_assert_eq!(end, whole.map(|body| body.map(|(_, len)| len)));
    }

    #[test]
    fn a_head_does_not_remember_the_one_before(first in request(), second in request()) {
        let mut reused = RequestHead::default();
        let _ = request_at(&mut reused, &first, &[first.len()]);
        if reused.len == 0 {
            reused.clear();
        }
        let fresh = request_at(&mut RequestHead::default(), &second, &[second.len()]);
        prop_assert_eq!(request_at(&mut reused, &second, &[second.len()]), fresh);
    }

    #[test]
    fn a_request_written_anew_reads_the_same(bytes in request()) {
        let mut head = RequestHead::default();
        if head.parse(&bytes, &HeadLimits::default()) != Ok(Progress::Complete) {
            return Ok(());
        }
        let mut out = Vec::new();
        write_request(&mut out, &bytes, &head, |_, _| false);
        if !head.has(Known::Host) && head.form != TargetForm::Absolute {
            out.extend_from_slice(b"Host: a\r\n");
        }
        finish(&mut out);
        let mut again = RequestHead::default();
        prop_assert_eq!(again.parse(&out, &HeadLimits::default()), Ok(Progress::Complete));
        prop_assert_eq!(again.len, out.len());
        prop_assert_eq!(again.method_span.of(&out), head.method_span.of(&bytes));
        prop_assert_eq!(again.authority.of(&out), if head.authority.is_empty() { b"a" } else { head.authority.of(&bytes) });
        prop_assert_eq!(again.query(&out), head.query(&bytes));
        prop_assert_eq!(again.framing, head.framing);
        prop_assert_eq!(again.expect_continue, head.expect_continue);
        // The fields that stay, found the plain way.
        let listed: Vec<String> = head
            .fields_named(&bytes, "connection")
            .flat_map(|value| String::from_utf8_lossy(value).to_ascii_lowercase().split(',').map(|o| o.trim().to_owned()).collect::<Vec<_>>())
            .collect();
        let stays = |name: &[u8]| {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            let hop = ["connection", "keep-alive", "proxy-connection", "te", "upgrade", "http2-settings", "host"];
            let ignored = name == "expect" && head.version == Version::Http10;
            !hop.contains(&name.as_str()) && !listed.contains(&name) && !ignored
        };
        let mut before = fields(&head, &bytes);
        let mut after = fields(&again, &out);
        before.retain(|(name, _)| stays(name));
        after.retain(|(name, _)| !name.eq_ignore_ascii_case(b"host"));
        prop_assert_eq!(after, before);
    }

    #[test]
    fn a_response_written_anew_reads_the_same(bytes in response()) {
        let limits = HeadLimits::default();
        let mut head = ResponseHead::default();
        if head.parse(&bytes, &limits, Method::Get) != Ok(Progress::Complete) {
            return Ok(());
        }
        let mut out = Vec::new();
        write_response(&mut out, &bytes, &head, |_, _| false);
        finish(&mut out);
        let mut again = ResponseHead::default();
        prop_assert_eq!(again.parse(&out, &limits, Method::Get), Ok(Progress::Complete));
        prop_assert_eq!(again.status, head.status);
        prop_assert_eq!(again.reason.of(&out), head.reason.of(&bytes));
        prop_assert_eq!(again.framing, head.framing);
        prop_assert!(!again.has(Known::Connection) && !again.has(Known::Upgrade));
    }
}

#[test]
fn a_slow_head_costs_no_more_than_its_length() {
    // A parser that began anew at each byte would look at 12 GB here.
    let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for _ in 0..80 {
        bytes.extend_from_slice(b"X-Filler: ");
        bytes.resize(bytes.len() + 2000, b'a');
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    let limits = HeadLimits {
        head_bytes: 1 << 20,
        ..HeadLimits::default()
    };
    let mut head = RequestHead::default();
    for len in 0..bytes.len() {
        assert_eq!(head.parse(&bytes[..len], &limits), Ok(Progress::Partial));
        assert!(
            head.position() + 10 >= len || len < 14,
            "stuck at {} of {len}",
            head.position()
        );
    }
    assert_eq!(head.parse(&bytes, &limits), Ok(Progress::Complete));
}

#[test]
fn a_head_within_its_limit_passes_and_one_byte_more_does_not() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let at = |head_bytes| HeadLimits {
        head_bytes,
        ..HeadLimits::default()
    };
    assert_eq!(
        RequestHead::default().parse(bytes, &at(bytes.len())),
        Ok(Progress::Complete)
    );
    assert_eq!(
        RequestHead::default().parse(bytes, &at(bytes.len() - 1)),
        Err(HeadError::HeadTooLong)
    );
}
