//! What must hold of any bytes at all. The fuzz targets under `fuzz/` and the bounded run in `fuzz_smoke.rs` share it.

use wire::h1::{
    ChunkLimits, ChunkedDecoder, HeadLimits, Known, Method, Piece, Progress, RequestHead,
    ResponseHead, TargetForm, finish, push_field, write_request, write_response,
};
use wire::{client_hello, proxy_protocol};

/// A request is read alike in two pieces, and what is made of it is one request of the same framing.
pub(crate) fn h1_request(data: &[u8]) {
    let limits = HeadLimits {
        connect: true,
        ..HeadLimits::default()
    };
    let mut head = RequestHead::default();
    let outcome = head.parse(data, &limits);
    let mut pieces = RequestHead::default();
    let mut second = pieces.parse(&data[..data.len() / 2], &limits);
    if second == Ok(Progress::Partial) {
        second = pieces.parse(data, &limits);
    }
    assert_eq!(second, outcome);
    assert!(head.position() <= data.len());
    if outcome != Ok(Progress::Complete) {
        return;
    }
    assert_eq!(format!("{pieces:?}"), format!("{head:?}"));
    let mut out = Vec::new();
    write_request(&mut out, data, &head, |known, _| {
        known == Known::XForwardedFor
    });
    if head.authority.is_empty() {
        push_field(&mut out, "Host", b"h");
    }
    push_field(&mut out, "X-Forwarded-For", b"192.0.2.1");
    finish(&mut out);
    let mut again = RequestHead::default();
    let room = HeadLimits {
        head_bytes: 1 << 20,
        fields: 1000,
        ..limits
    };
    // A Host beside an absolute target may be long gone, but nothing may be left over or missing.
    assert_eq!(
        again.parse(&out, &room),
        Ok(Progress::Complete),
        "{}",
        out.escape_ascii()
    );
    assert_eq!(again.len, out.len());
    assert_eq!(again.framing, head.framing);
    assert_eq!(again.method_span.of(&out), head.method_span.of(data));
    assert_eq!(again.query(&out), head.query(data));
    assert!(again.form != TargetForm::Absolute && again.upgrade.is_none() && again.keep_alive);
    assert_eq!(
        again.get_known(&out, Known::XForwardedFor),
        Some(&b"192.0.2.1"[..])
    );
}

/// The same of a response. The first byte chooses the request's method.
pub(crate) fn h1_response(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let method =
        [Method::Get, Method::Head, Method::Connect, Method::Post][usize::from(choice % 4)];
    let limits = HeadLimits::default();
    let mut head = ResponseHead::default();
    let outcome = head.parse(data, &limits, method);
    let mut pieces = ResponseHead::default();
    let mut second = pieces.parse(&data[..data.len() / 2], &limits, method);
    if second == Ok(Progress::Partial) {
        second = pieces.parse(data, &limits, method);
    }
    assert_eq!(second, outcome);
    assert!(head.position() <= data.len());
    if outcome != Ok(Progress::Complete) {
        return;
    }
    assert_eq!(format!("{pieces:?}"), format!("{head:?}"));
    let mut out = Vec::new();
    write_response(&mut out, data, &head, |_, _| false);
    finish(&mut out);
    let mut again = ResponseHead::default();
    let room = HeadLimits {
        head_bytes: 1 << 20,
        ..limits
    };
    assert_eq!(
        again.parse(&out, &room, method),
        Ok(Progress::Complete),
        "{}",
        out.escape_ascii()
    );
    assert_eq!(
        (again.len, again.status, again.framing),
        (out.len(), head.status, head.framing)
    );
}

/// A chunked body has one end, however it is cut and whichever way it is followed.
pub(crate) fn chunked(data: &[u8]) {
    let whole = ChunkedDecoder::new(ChunkLimits::default()).advance(data);
    let mut pieces = ChunkedDecoder::new(ChunkLimits::default());
    let mut at = 0;
    let mut content = 0;
    let outcome = 'outcome: {
        for end in [data.len() / 3, data.len() / 2, data.len()] {
            while at < end {
                let left = pieces.data_left();
                match pieces.next(&data[at..end]) {
                    Err(error) => break 'outcome Err(error),
                    Ok((taken, piece)) => {
                        assert!(taken > 0 && at + taken <= end);
                        at += taken;
                        if piece == Piece::Data {
                            assert_eq!(pieces.data_left(), left - taken as u64);
                            content += taken;
                        }
                        if piece == Piece::End {
                            break 'outcome Ok(true);
                        }
                    }
                }
            }
        }
        Ok(false)
    };
    assert!(content <= at);
    match (whole, outcome) {
        (Ok(advance), Ok(done)) => assert_eq!((advance.consumed, advance.done), (at, done)),
        (whole, outcome) => assert_eq!(whole.err(), outcome.err()),
    }
}

/// A PROXY header never needs more than its limit, and survives being written again.
pub(crate) fn proxy_protocol(data: &[u8]) {
    match proxy_protocol::parse(data) {
        Ok(Some((header, len))) => {
            assert!(len <= data.len() && len <= proxy_protocol::MAX_BYTES);
            assert_eq!(
                proxy_protocol::parse(&data[..len]),
                Ok(Some((header.clone(), len)))
            );
            assert_eq!(proxy_protocol::parse(&data[..len - 1]), Ok(None));
            let mut out = Vec::new();
            proxy_protocol::encode_v2(&header, &mut out);
            assert_eq!(proxy_protocol::parse(&out), Ok(Some((header, out.len()))));
        }
        Ok(None) => assert!(data.len() < proxy_protocol::MAX_BYTES),
        Err(_) => {}
    }
}

/// What a ClientHello says does not change by what comes after it, nor is it said too early.
pub(crate) fn client_hello(data: &[u8]) {
    let whole = client_hello::parse(data);
    let first = client_hello::parse(&data[..data.len() / 2]);
    if first != Ok(None) {
        assert_eq!(first, whole);
    }
    if let Ok(Some(hello)) = whole {
        let name = hello.server_name.unwrap_or_default();
        assert!(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b))
        );
        assert!(!hello.versions.is_empty() && !hello.cipher_suites.is_empty());
    }
}
