//! Answers of a rule's own: `HTTP::respond` and `HTTP::redirect`.

use crate::rules::Ruled;
use wire::h1::{self, Method};

/// The answer that a rule gives.
pub(in crate::http) struct OwnAnswer {
    pub(in crate::http) status: u16,
    pub(in crate::http) head: Vec<u8>,
    pub(in crate::http) body: Vec<u8>,
    pub(in crate::http) keep: bool,
}

/// Takes the rules' answer, for a request with this method. `keep` says whether the connection may stay.
pub(in crate::http) fn answer(rules: &Ruled, method: Method, keep: bool) -> Option<OwnAnswer> {
    let mut flow = rules.flow();
    let http = flow.http.as_mut()?;
    let respond = http.respond.take()?;
    http.responded = true;
    let mut keep = keep && !respond.close && !http.close;
    let mut fields = Vec::new();
    let mut has_server = respond.no_server;
    for (name, value) in &respond.fields {
        let (name, value) = (name.bytes(), value.bytes());
        if name.eq_ignore_ascii_case(b"Connection") {
            keep &= !value.eq_ignore_ascii_case(b"close");
            continue;
        }
        // Where the message ends is not for sale.
        if name.eq_ignore_ascii_case(b"Content-Length")
            || name.eq_ignore_ascii_case(b"Transfer-Encoding")
            || !is_token(&name)
        {
            continue;
        }
        has_server |= name.eq_ignore_ascii_case(b"Server");
        fields.extend_from_slice(&name);
        fields.extend_from_slice(b": ");
        let start = fields.len();
        fields.extend_from_slice(&value);
        for byte in &mut fields[start..] {
            if matches!(*byte, b'\r' | b'\n' | 0) {
                *byte = b' ';
            }
        }
        fields.extend_from_slice(b"\r\n");
    }
    let version = if respond.version == "1.0" {
        "1.0"
    } else {
        "1.1"
    };
    let (status, reason) = (respond.status, h1::status_reason(respond.status));
    let mut head = format!("HTTP/{version} {status} {reason}\r\n").into_bytes();
    head.extend_from_slice(&fields);
    if !has_server {
        h1::push_field(&mut head, "Server", b"Headgate");
    }
    let bodiless = status < 200 || status == 204 || status == 304;
    let body = match bodiless {
        true => Vec::new(),
        false => respond.body.bytes().to_vec(),
    };
    if !bodiless {
        h1::push_field(
            &mut head,
            "Content-Length",
            body.len().to_string().as_bytes(),
        );
    }
    let connection: &[u8] = if keep { b"Keep-Alive" } else { b"Close" };
    h1::push_field(&mut head, "Connection", connection);
    h1::finish(&mut head);
    Some(OwnAnswer {
        status,
        head,
        body: if method == Method::Head {
            Vec::new()
        } else {
            body
        },
        keep,
    })
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
}
