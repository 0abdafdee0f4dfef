//! A client's connection as rules see it, and the heads that go over it.

use rules::flow::{Ends, Flow, Http, TlsFacts};
use rules::message::Message;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::rc::Rc;

/// Writes heads, in memory that is used again.
pub(crate) struct Heads {
    raw: Vec<u8>,
}

/// The certificate that clients show.
const CERTIFICATE: &[u8] = include_bytes!("../../rules/client.der");
/// What a browser sends with every request.
const USUAL: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5\r\n\
    Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n\
    Referer: https://bench.test/application/\r\n";

impl Heads {
    /// A new connection from 127.0.0.1, with a certificate.
    pub(crate) fn new() -> (Self, Flow) {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut flow = Flow::new(
            "bench".into(),
            Ends {
                remote: at(40_000),
                local: at(443),
            },
        );
        flow.client_tls = Some(Rc::new(TlsFacts {
            version: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256".to_owned(),
            bits: 128,
            certificates: vec![CERTIFICATE.to_vec()],
            ..TlsFacts::default()
        }));
        flow.http = Some(Box::new(Http::default()));
        (Self { raw: Vec::new() }, flow)
    }

    /// A request for an object comes, with these cookies if any.
    pub(crate) fn ask(&mut self, flow: &mut Flow, cookies: &str, object: usize) {
        let mut head = format!(
            "GET /application/objects/{:04}.png HTTP/1.1\r\nHost: bench.test\r\n{USUAL}",
            object % 1000
        );
        if !cookies.is_empty() {
            head.push_str(&format!("Cookie: {cookies}\r\n"));
        }
        head.push_str("Connection: keep-alive\r\n\r\n");
        let raw = &mut self.raw;
        let Some(http) = &mut flow.http else {
            return;
        };
        fill(&mut http.request, &head, raw);
        http.response.clear();
        http.has_response = false;
    }

    /// The answer comes; it sets the session's cookie if there is an id.
    pub(crate) fn answer(&mut self, flow: &mut Flow, id: &str) {
        let mut head = "HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Type: image/png\r\n\
            Server: Microsoft-IIS/10.0\r\n"
            .to_owned();
        if !id.is_empty() {
            head.push_str(&format!(
                "Set-Cookie: ASP.NET_SessionId={id}; path=/; HttpOnly; SameSite=Lax\r\n"
            ));
        }
        head.push_str("X-Powered-By: ASP.NET\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\nContent-Length: 1024\r\n\r\n");
        let raw = &mut self.raw;
        if let Some(http) = &mut flow.http {
            fill(&mut http.response, &head, raw);
            http.has_response = true;
        }
    }
}

/// Hand a head over as a parser would: its bytes, and where its parts stand in them.
fn fill(message: &mut Message, head: &str, raw: &mut Vec<u8>) {
    raw.clear();
    raw.extend_from_slice(head.as_bytes());
    let first = head.find("\r\n").unwrap_or(head.len());
    let mut spaces = head[..first].match_indices(' ').map(|(at, _)| at);
    let one = spaces.next().unwrap_or(first);
    let two = spaces.next().unwrap_or(first);
    let start = [0..one, one + 1..two, two + 1..first];
    let mut fields: Vec<(Range<usize>, Range<usize>)> = Vec::with_capacity(16);
    let mut at = first + 2;
    while let Some(length) = head[at..].find("\r\n").filter(|length| *length > 0) {
        if let Some(colon) = head[at..at + length].find(':') {
            fields.push((at..at + colon, at + colon + 2..at + length));
        }
        at += length + 2;
    }
    message.set(raw, start, fields);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_handed_over_in_parts() {
        let (mut heads, mut flow) = Heads::new();
        heads.ask(&mut flow, "a=b", 7);
        heads.answer(&mut flow, "id");
        let http = flow.http.as_ref().unwrap();
        assert_eq!(http.request.values(b"cookie").collect::<Vec<_>>(), [b"a=b"]);
        assert_eq!(http.request.part(1), b"/application/objects/0007.png");
        assert_eq!(http.request.part(2), b"HTTP/1.1");
        assert_eq!(http.response.part(1), b"200");
        assert_eq!(http.response.len(), 7);
        assert_eq!(http.response.values(b"set-cookie").count(), 1);
    }
}
