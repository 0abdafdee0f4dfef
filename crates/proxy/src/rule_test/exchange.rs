//! HTTP exchanges without a network.

use super::driver::{Driver, Head, TURNS};
use super::plan::{Answer, Request};
use rules::event::Event;
use rules::flow::{Held, Http, Respond};
use rules::message::Message;
use rules::value::Value;
use std::ops::Range;

/// Which body.
#[derive(Clone, Copy)]
enum Body {
    Request,
    Response,
}

impl Driver {
    /// A request comes, and members answer.
    pub(super) fn request(&mut self, request: &Request, answers: &[Answer]) {
        self.connected();
        if self.seen.ended.is_some() {
            return;
        }
        if self.relayed {
            self.seen.request = Some(as_head(request));
            self.seen.response = answers.first().map(answered);
            return;
        }
        let lasting = self.lasting.clone();
        let Some(flow) = self.flow() else {
            return;
        };
        flow.steering = lasting;
        flow.selected = None;
        flow.stream = rules::flow::Stream::default();
        let earlier = flow.http.as_ref().map_or(0, |http| http.earlier);
        let first = flow
            .http
            .as_ref()
            .is_none_or(|http| http.request.is_absent());
        let mut http = Box::<Http>::default();
        http.earlier = if first { earlier } else { earlier + 1 };
        set(
            &mut http.request,
            &request.start.each_ref().map(String::as_bytes),
            &request.fields,
        );
        flow.http = Some(http);
        self.run(request, answers);
        if self.http().is_some_and(|http| http.close) {
            self.close();
        }
    }

    fn run(&mut self, request: &Request, answers: &[Answer]) {
        if !self.raise(Event::HttpRequest) {
            return;
        }
        let mut body = request.body.clone();
        if !self.collect(Body::Request, &mut body) || self.responded() {
            return;
        }
        if self.http().is_some_and(|http| http.disabled) {
            self.relayed = true;
            self.raise(Event::HttpDisabled);
        }
        let none = Answer {
            status: 200,
            reason: "OK".to_owned(),
            fields: vec![(b"Content-Length".to_vec(), b"0".to_vec())],
            body: Vec::new(),
        };
        let mut answers = answers.iter();
        for turn in 0..TURNS {
            if !self.reach_member() {
                if self.responded() || self.seen.ended.is_some() {
                    return;
                }
                self.seen.response = Some(unavailable());
                return;
            }
            if self.responded() {
                return;
            }
            if !self.raise(Event::HttpRequestSend)
                || self.responded()
                || !self.raise(Event::HttpRequestRelease)
            {
                return;
            }
            let Some(http) = self.http() else {
                return;
            };
            self.seen.request = Some(written(&http.request, &body));
            let answer = match (answers.next(), turn) {
                (Some(answer), _) => answer,
                (None, _) => &none,
            };
            match self.respond(answer) {
                Some(again) => {
                    let (head, rest) = split(&again);
                    body = rest;
                    if let Some(http) = self.http() {
                        set(
                            &mut http.request,
                            &head.start.each_ref().map(String::as_bytes),
                            &head.fields,
                        );
                        http.response.clear();
                        http.has_response = false;
                    }
                }
                None => return,
            }
        }
    }

    /// A member answers: a request that a rule wants sent instead.
    fn respond(&mut self, answer: &Answer) -> Option<Vec<u8>> {
        if self.relayed {
            self.seen.response = Some(answered(answer));
            return None;
        }
        let version = b"HTTP/1.1";
        let status = answer.status.to_string();
        let http = self.http()?;
        set(
            &mut http.response,
            &[version, status.as_bytes(), answer.reason.as_bytes()],
            &answer.fields,
        );
        http.has_response = true;
        if !self.raise(Event::HttpResponse) {
            return None;
        }
        let mut body = answer.body.clone();
        if !self.collect(Body::Response, &mut body) {
            return None;
        }
        if let Some(again) = self.http()?.retry.take() {
            return Some(again.bytes().to_vec());
        }
        if self.responded() {
            return None;
        }
        let body = self.replaced(body)?;
        if !self.raise(Event::HttpResponseRelease) || self.responded() {
            return None;
        }
        let http = self.http()?;
        let mut response = written(&http.response, &body);
        if body != answer.body {
            relength(&mut response);
        }
        self.seen.response = Some(response);
        if self.flow()?.steering.detach {
            self.upstream = None;
            self.raise(Event::ServerClosed);
        }
        None
    }

    /// Raises data events for what rules collect of a body: whether the connection goes on.
    fn collect(&mut self, which: Body, body: &mut Vec<u8>) -> bool {
        for _ in 0..TURNS {
            let Some(held) = self.body(which) else {
                return true;
            };
            let Some(wanted) = held.wanted.take() else {
                return true;
            };
            let all = usize::try_from(wanted).unwrap_or(usize::MAX);
            let count = if all == 0 {
                body.len()
            } else {
                all.min(body.len())
            };
            held.bytes = Value::new(&body[..count]);
            held.changed = false;
            held.released = None;
            let event = match which {
                Body::Request => Event::HttpRequestData,
                Body::Response => Event::HttpResponseData,
            };
            if !self.raise(event) {
                return false;
            }
            let Some(held) = self.body(which) else {
                return true;
            };
            if held.changed {
                let rest = body.split_off(count);
                *body = held.bytes.bytes().to_vec();
                body.extend(rest);
                if let Some(http) = self.http() {
                    let message = match which {
                        Body::Request => &mut http.request,
                        Body::Response => &mut http.response,
                    };
                    let place = message.places(b"content-length").next();
                    if let Some(place) = place {
                        message.replace(place, Value::Int(body.len() as i64));
                    }
                }
            }
        }
        true
    }

    fn body(&mut self, which: Body) -> Option<&mut Held> {
        let http = self.http()?;
        Some(match which {
            Body::Request => &mut http.request_body,
            Body::Response => &mut http.response_body,
        })
    }

    /// Takes the answer that a rule gives by itself: whether there is one.
    fn responded(&mut self) -> bool {
        let Some(respond) = self.http().and_then(|http| http.respond.take()) else {
            return false;
        };
        self.seen.response = Some(own(&respond));
        if respond.close {
            self.close();
        }
        true
    }

    /// The body with what `STREAM::` replaces in it; nothing where the connection ends.
    fn replaced(&mut self, body: Vec<u8>) -> Option<Vec<u8>> {
        let stream = self.flow()?.stream.clone();
        if !stream.enabled || stream.replace.is_empty() {
            return Some(body);
        }
        let mut out = Vec::with_capacity(body.len());
        let mut at = 0;
        while at < body.len() {
            let rest = &body[at..];
            let found = stream.replace.iter().find(|(text, _)| {
                let text = text.bytes();
                !text.is_empty() && rest.starts_with(&text)
            });
            let Some((text, replacement)) = found else {
                out.push(body[at]);
                at += 1;
                continue;
            };
            let flow = self.flow()?;
            flow.stream.matched = text.clone();
            flow.stream.replacement = None;
            if !self.raise(Event::StreamMatched) {
                return None;
            }
            let flow = self.flow()?;
            let own = flow.stream.replacement.take().or(replacement.clone());
            out.extend_from_slice(&own.as_ref().unwrap_or(text).bytes());
            at += text.len();
        }
        Some(out)
    }
}

/// Puts a head into a message.
fn set(message: &mut Message, start: &[&[u8]; 3], fields: &[(Vec<u8>, Vec<u8>)]) {
    let mut raw = Vec::new();
    let put = |raw: &mut Vec<u8>, bytes: &[u8], behind: &[u8]| -> Range<usize> {
        let from = raw.len();
        raw.extend_from_slice(bytes);
        let range = from..raw.len();
        raw.extend_from_slice(behind);
        range
    };
    let start = [
        put(&mut raw, start[0], b" "),
        put(&mut raw, start[1], b" "),
        put(&mut raw, start[2], b"\r\n"),
    ];
    let spans: Vec<(Range<usize>, Range<usize>)> = fields
        .iter()
        .map(|(name, value)| (put(&mut raw, name, b": "), put(&mut raw, value, b"\r\n")))
        .collect();
    raw.extend_from_slice(b"\r\n");
    message.set(&raw, start, spans);
}

fn written(message: &Message, body: &[u8]) -> Head {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    bytes.extend_from_slice(body);
    let (mut head, body) = split(&bytes);
    head.body = body;
    head
}

/// A head as it is written on the wire, and what follows it.
fn split(bytes: &[u8]) -> (Head, Vec<u8>) {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n").unwrap_or(bytes.len());
    let body = bytes.get(end + 4..).unwrap_or_default().to_vec();
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut words = text.lines().next().unwrap_or_default().splitn(3, ' ');
    let start = [(); 3].map(|()| words.next().unwrap_or_default().to_owned());
    let fields = bytes[..end].split(|byte| *byte == b'\n').skip(1);
    let fields = fields.filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = memchr::memchr(b':', line)?;
        let value = line[colon + 1..].trim_ascii();
        Some((line[..colon].to_vec(), value.to_vec()))
    });
    let head = Head {
        start,
        fields: fields.collect(),
        body: Vec::new(),
    };
    (head, body)
}

fn as_head(request: &Request) -> Head {
    Head {
        start: request.start.clone(),
        fields: request.fields.clone(),
        body: request.body.clone(),
    }
}

fn answered(answer: &Answer) -> Head {
    Head {
        start: [
            "HTTP/1.1".to_owned(),
            answer.status.to_string(),
            answer.reason.clone(),
        ],
        fields: answer.fields.clone(),
        body: answer.body.clone(),
    }
}

/// A rule's own answer as it goes out.
fn own(respond: &Respond) -> Head {
    let bytes = |value: &Value| value.bytes().to_vec();
    let mut head = Head {
        start: [
            format!("HTTP/{}", respond.version),
            respond.status.to_string(),
            String::new(),
        ],
        fields: respond
            .fields
            .iter()
            .map(|(name, value)| (bytes(name), bytes(value)))
            .collect(),
        body: bytes(&respond.body),
    };
    relength(&mut head);
    head
}

/// What a client gets where no member can be had.
fn unavailable() -> Head {
    Head {
        start: [
            "HTTP/1.1".to_owned(),
            "503".to_owned(),
            "Service Unavailable".to_owned(),
        ],
        ..Head::default()
    }
}

fn relength(head: &mut Head) {
    let length = head.body.len().to_string().into_bytes();
    let is_length = |name: &[u8]| name.eq_ignore_ascii_case(b"content-length");
    match head.fields.iter_mut().find(|(name, _)| is_length(name)) {
        Some((_, value)) => *value = length,
        None => head.fields.push((b"Content-Length".to_vec(), length)),
    }
}
