//! Heads shown to rules: as they were read, with the places of their parts, so that nothing is taken apart again.

use crate::rules::Ruled;
use ::rules::message::Message;
use std::ops::Range;
use wire::h1::{Field, RequestHead, ResponseHead, Span};

/// Shows the rules the request's head, which stands at the front of `buf`.
pub(super) fn fill_request(rules: &Ruled, head: &RequestHead, buf: &[u8]) {
    let mut flow = rules.flow();
    let Some(http) = &mut flow.http else { return };
    show_request(&mut http.request, head, buf);
}

/// Shows a request's head, which stands at the front of `buf`.
pub(crate) fn show_request(message: &mut Message, head: &RequestHead, buf: &[u8]) {
    let raw = &buf[..head.len];
    let method = range(head.method_span);
    let target = range(head.target);
    // The line has one space between its parts, and the version's text is of one length.
    let version = target.end + 1..target.end + 1 + b"HTTP/1.1".len();
    message.set(raw, [method, target, version], fields(&head.fields));
}

/// Shows a response's head, which begins at the front of `bytes`.
pub(super) fn fill_response(message: &mut Message, head: &ResponseHead, bytes: &[u8]) {
    let raw = &bytes[..head.len];
    let status = b"HTTP/1.1 ".len();
    let parts = [0..status - 1, status..status + 3, range(head.reason)];
    message.set(raw, parts, fields(&head.fields));
}

fn fields(fields: &[Field]) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + '_ {
    fields.iter().map(|f| (range(f.name), range(f.value)))
}

fn range(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}
