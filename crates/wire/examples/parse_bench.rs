//! Nanoseconds to parse a head and to write it anew, for a few heads of everyday size:
//! `cargo run --release -p wire --example parse_bench`.
//!
//! Medians over many short rounds, so that a noisy neighbour moves them little.

use std::hint::black_box;
use std::time::Instant;
use wire::h1::{
    ChunkLimits, ChunkedDecoder, HeadLimits, Known, Method, Progress, RequestHead, ResponseHead,
    finish, push_field, write_request, write_response,
};

const ROUNDS: usize = 201;
const TIMES: u32 = 2_000;

const SHORT: &[u8] = b"GET /1k HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: bench\r\n\r\n";

const EVERYDAY: &[u8] = b"GET /assets/app.3f9c2.js?v=12 HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: */*\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Connection: keep-alive\r\n\
    Cookie: sid=0123456789abcdef\r\n\r\n";

const BROWSER: &[u8] = b"GET /path/to/a/page.html?with=a&query=string HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    Connection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"128\", \"Not;A=Brand\";v=\"24\", \"Google Chrome\";v=\"128\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\n\
    Sec-Fetch-Site: none\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-User: ?1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-US,en;q=0.9\r\n\
    Cookie: _ga=GA1.2.1234567890.1234567890; session=eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Server: nginx/1.30.0\r\n\
    Date: Thu, 01 Oct 2026 10:00:00 GMT\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 1024\r\n\
    Last-Modified: Thu, 01 Oct 2026 09:00:00 GMT\r\n\
    Connection: keep-alive\r\n\
    ETag: \"66fbd2a0-400\"\r\n\
    Accept-Ranges: bytes\r\n\r\n";

fn main() {
    let limits = HeadLimits::default();
    println!(
        "{:<24} {:>6} {:>9} {:>9}",
        "head", "bytes", "parse ns", "write ns"
    );
    for (name, bytes) in [
        ("request, short", SHORT),
        ("request, everyday", EVERYDAY),
        ("request, browser", BROWSER),
    ] {
        let mut head = RequestHead::default();
        let parse = median(|| {
            assert_eq!(
                head.parse(black_box(bytes), &limits),
                Ok(Progress::Complete)
            );
            black_box(&head);
        });
        let mut out = Vec::with_capacity(4096);
        let write = median(|| {
            out.clear();
            write_request(&mut out, black_box(bytes), &head, |known, _| {
                known == Known::XForwardedFor
            });
            push_field(&mut out, "X-Forwarded-For", b"192.0.2.1");
            finish(&mut out);
            black_box(&out);
        });
        println!("{name:<24} {:>6} {parse:>9.1} {write:>9.1}", bytes.len());
    }
    let mut head = RequestHead::default();
    let mut turn = 0;
    let mixed = median(|| {
        // Lengths that a processor cannot learn by heart.
        turn = (turn * 5 + 3) & 0xffff;
        let bytes = [SHORT, EVERYDAY, BROWSER][(turn >> 7) % 3];
        assert_eq!(
            head.parse(black_box(bytes), &limits),
            Ok(Progress::Complete)
        );
        black_box(&head);
    });
    println!(
        "{:<24} {:>6} {mixed:>9.1}",
        "the three, mixed",
        (SHORT.len() + EVERYDAY.len() + BROWSER.len()) / 3
    );
    let mut head = ResponseHead::default();
    let parse = median(|| {
        assert_eq!(
            head.parse(black_box(RESPONSE), &limits, Method::Get),
            Ok(Progress::Complete)
        );
        black_box(&head);
    });
    let mut out = Vec::with_capacity(4096);
    let write = median(|| {
        out.clear();
        write_response(&mut out, black_box(RESPONSE), &head, |_, _| false);
        finish(&mut out);
        black_box(&out);
    });
    println!(
        "{:<24} {:>6} {parse:>9.1} {write:>9.1}",
        "response",
        RESPONSE.len()
    );

    let mut body = Vec::new();
    for _ in 0..4 {
        body.extend_from_slice(b"1000\r\n");
        body.resize(body.len() + 0x1000, b'x');
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    let follow = median(|| {
        let mut decoder = ChunkedDecoder::new(ChunkLimits::default());
        assert!(
            decoder
                .advance(black_box(&body))
                .is_ok_and(|advance| advance.done)
        );
    });
    println!(
        "{:<24} {:>6} {follow:>9.1}",
        "four chunks of 4 KiB",
        body.len()
    );
}

/// Nanoseconds a call.
fn median(mut call: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..TIMES).for_each(|_| call());
            start.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}
