//! The fuzz targets' bodies on real messages and on what a seeded generator makes of them: a bounded run for machines
//! without a fuzzer. The same seed gives the same run.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bodies;

/// Tries for each body; all of them together take a few seconds in a debug build.
const TRIES: usize = 200_000;

const RESPONSES: &[&[u8]] = &[
    b"\0HTTP/1.1 200 OK\r\nServer: nginx/1.30.0\r\nDate: Thu, 01 Oct 2026 10:00:00 GMT\r\nContent-Length: 1024\r\n\
      Connection: keep-alive\r\nETag: \"66fbd2a0-400\"\r\n\r\nbody",
    b"\x01HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nConnection: close, x-a\r\nX-A: b\r\n\r\n",
    b"\x02HTTP/1.1 200 Connection established\r\n\r\n",
    b"\x03HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
    b"\0HTTP/1.0 404 Not Found\r\nContent-Type: text/html\r\n\r\n<html>",
    b"\0HTTP/1.1 204 \r\nContent-Length: 0\r\n\r\n",
    b"\0HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
    b"\0HTTP/1.1 100\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
];

const PROXY: &[&[u8]] = &[
    b"PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\nGET / HTTP/1.1\r\n",
    b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbb",
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x19\xc0\0\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbb\x01\0\x02h2\x02\0\x05h.com",
    b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\x10\x20\0\x0d\x01\0\0\0\0\x21\0\x05TLSv1",
];

const HELLOS: &[&[u8]] = &[
    include_bytes!("../testdata/hello/tls13.bin"),
    include_bytes!("../testdata/hello/tls12.bin"),
];

#[test]
fn requests_hold_under_mutation() {
    run(&requests(), bodies::h1_request);
}

#[test]
fn responses_hold_under_mutation() {
    run(
        &RESPONSES
            .iter()
            .map(|bytes| bytes.to_vec())
            .collect::<Vec<_>>(),
        bodies::h1_response,
    );
}

#[test]
fn chunked_bodies_hold_under_mutation() {
    let bodies: Vec<Vec<u8>> = requests()
        .iter()
        .filter_map(|request| {
            let at = request.windows(4).position(|end| end == b"\r\n\r\n")?;
            let body = &request[at + 4..];
            (!body.is_empty()).then(|| body.to_vec())
        })
        .collect();
    assert!(bodies.len() > 40);
    run(&bodies, bodies::chunked);
}

#[test]
fn proxy_headers_hold_under_mutation() {
    run(
        &PROXY.iter().map(|bytes| bytes.to_vec()).collect::<Vec<_>>(),
        bodies::proxy_protocol,
    );
}

#[test]
fn client_hellos_hold_under_mutation() {
    let whole = HELLOS.iter().map(|bytes| bytes.to_vec());
    let split = HELLOS.iter().map(|bytes| {
        // The same message in records of 100 bytes.
        let pieces = bytes[5..].chunks(100);
        pieces
            .flat_map(|piece| [&[22, 3, 1, 0, piece.len() as u8][..], piece].concat())
            .collect()
    });
    run(
        &whole.chain(split).collect::<Vec<_>>(),
        bodies::client_hello,
    );
}

#[test]
fn the_hellos_are_sound() {
    let hello = wire::client_hello::parse(HELLOS[0]).unwrap().unwrap();
    assert_eq!(hello.server_name.as_deref(), Some("www.example.com"));
    assert_eq!(hello.alpn, [&b"h2"[..], b"http/1.1"]);
    assert_eq!(hello.versions, [0x0304, 0x0303]);
    let hello = wire::client_hello::parse(HELLOS[1]).unwrap().unwrap();
    assert_eq!(
        (hello.server_name.as_deref(), &hello.versions[..]),
        (Some("example.org"), &[0x0303][..])
    );
}

fn requests() -> Vec<Vec<u8>> {
    include_str!("../testdata/framing.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.contains("\\{"))
        .map(|line| unescape(line.splitn(3, " | ").nth(2).unwrap()))
        .collect()
}

/// The plain escapes of the table; the others are left as they are.
fn unescape(text: &str) -> Vec<u8> {
    let replaced = text
        .replace("\\r", "\r")
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\0", "\0");
    replaced.into_bytes()
}

fn run(corpus: &[Vec<u8>], body: impl Fn(&[u8])) {
    corpus.iter().for_each(|bytes| body(bytes));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..TRIES {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(3) {
            mutate(&mut bytes, corpus, &mut random);
        }
        body(&bytes);
    }
}

fn mutate(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    const TELLING: &[u8] = b"\r\n\t \0:;,=\"\\/?#@*%019afAFx\x7f\x80\xff\x01";
    const PHRASES: &[&[u8]] = &[
        b"\r\n",
        b"\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 3\r\n",
        b"Host: h\r\n",
        b"chunked",
        b"Connection: close, te\r\n",
        b"HTTP/1.0",
        b"Upgrade: x\r\n",
        b"Expect: 100-continue\r\n",
        b"http://h",
        b"0\r\n",
    ];
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(24)).min(bytes.len());
    match random.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = TELLING[random.below(TELLING.len())],
        2 => bytes.insert(at, TELLING[random.below(TELLING.len())]),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let again = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, again));
        }
        5 => bytes.truncate(at),
        6 => drop(bytes.splice(at..at, PHRASES[random.below(PHRASES.len())].iter().copied())),
        _ => {
            let other = &corpus[random.below(corpus.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % limit
    }
}
