//! Edits of fields on their way through, compiled: what to leave out while copying, what to add after.

use super::vars::{Vars, push_ip, push_node, push_number};
use model::{FieldName, HeaderEdit, HeaderEdits, HeaderPolicy, Template};
use wire::h1::{self, Known, RequestHead, ResponseHead, TargetForm};

/// The edits of a virtual, or of one of its routes with the virtual's before them.
#[derive(Default)]
pub(crate) struct Edits {
    forwarded: model::Forwarded,
    request: Vec<Edit>,
    response: Vec<Edit>,
    /// Whether the request's Host is one of the edits.
    sets_host: bool,
}

struct Edit {
    name: Name,
    action: Change,
}

enum Change {
    /// Leaves out what came.
    Drop,
    /// Adds a field; `only` leaves out what came.
    Put { value: Template, only: bool },
    /// Replaces a text in what came.
    Replace { from: String, to: Template },
}

/// A field's name, compared the fastest way it can be.
struct Name {
    text: String,
    known: Known,
}

impl Name {
    fn new(name: &FieldName) -> Self {
        Name {
            text: name.as_str().to_owned(),
            known: Known::of(name.as_str().as_bytes()),
        }
    }

    fn is(&self, known: Known, name: &[u8]) -> bool {
        if self.known == Known::Other {
            known == Known::Other && name.eq_ignore_ascii_case(self.text.as_bytes())
        } else {
            known == self.known
        }
    }
}

impl Edits {
    /// Compiles the virtual's policy and, after it, a route's own edits.
    pub(crate) fn compile(policy: &HeaderPolicy, route: Option<&HeaderEdits>) -> Self {
        let of_route = |pick: fn(&HeaderEdits) -> &Vec<HeaderEdit>| {
            route.map_or(&[][..], |edits| pick(edits).as_slice())
        };
        let request = compile(policy.request.iter().chain(of_route(|e| &e.request)));
        Edits {
            forwarded: policy.forwarded.clone(),
            sets_host: request
                .iter()
                .any(|e| e.name.known == Known::Host && matches!(e.action, Change::Put { .. })),
            request,
            response: compile(policy.response.iter().chain(of_route(|e| &e.response))),
        }
    }

    /// Writes the request's line and fields for the member, all but the head's end. What tells of
    /// the client is believed only from `trusted` ones.
    pub(crate) fn write_request(&self, out: &mut Vec<u8>, vars: &Vars<'_>, trusted: bool) {
        let (head, buf) = (vars.head, vars.buf);
        let forwarded = &self.forwarded;
        let id = forwarded
            .request_id
            .as_ref()
            .map(|id| Name::new(&id.header));
        let start = out.len();
        h1::write_request(out, buf, head, |known, name| {
            let about_client = match known {
                Known::XForwardedFor => !trusted || forwarded.x_forwarded_for,
                Known::Forwarded => !trusted || forwarded.forwarded,
                Known::XForwardedProto | Known::XForwardedHost | Known::XForwardedPort => !trusted,
                Known::Other => !trusted && is_forwarded(name),
                _ => false,
            };
            about_client
                || id.as_ref().is_some_and(|id| id.is(known, name))
                || self.request.iter().any(|edit| edit.drops(known, name))
        });
        if self.sets_host && head.form == TargetForm::Absolute {
            // There the authority became the Host, right behind the request's line.
            let mut lines = memchr::memmem::find_iter(&out[start..], b"\r\n");
            if let (Some(line), Some(host)) = (lines.next(), lines.next()) {
                out.drain(start + line..start + host);
            }
        }
        self.push_forwarded(out, vars, trusted);
        if let Some(id) = &id {
            h1::push_field(out, &id.text, vars.request_id);
        }
        for edit in &self.request {
            match &edit.action {
                Change::Drop => {}
                Change::Put { value, .. } => {
                    push_rendered(out, &edit.name.text, |out| vars.render(value, out));
                }
                Change::Replace { from, to } => {
                    let mut text = Vec::new();
                    vars.render(to, &mut text);
                    for value in h1::named(&head.fields, buf, &edit.name.text) {
                        h1::push_field(out, &edit.name.text, &replace(value, from, &text));
                    }
                }
            }
        }
    }

    /// Whether the request's Host is written by an edit.
    pub(crate) fn sets_host(&self) -> bool {
        self.sets_host
    }

    /// Whether responses pass as they come.
    pub(crate) fn leaves_responses(&self) -> bool {
        self.response.is_empty()
    }

    /// The texts of the response's edits, made while the request is at hand.
    pub(crate) fn render_response(&self, vars: &Vars<'_>) -> Vec<Vec<u8>> {
        let render = |edit: &Edit| {
            let mut text = Vec::new();
            match &edit.action {
                Change::Put { value, .. } => vars.render(value, &mut text),
                Change::Replace { to, .. } => vars.render(to, &mut text),
                Change::Drop => {}
            }
            text
        };
        self.response.iter().map(render).collect()
    }

    /// Writes the response's line and fields for the client, all but the head's end. `rendered` is
    /// what [`render_response`](Edits::render_response) made of the request; `drop` leaves out more.
    pub(crate) fn write_response(
        &self,
        out: &mut Vec<u8>,
        head: &ResponseHead,
        buf: &[u8],
        rendered: &[Vec<u8>],
        drop: impl Fn(Known) -> bool,
    ) {
        h1::write_response(out, buf, head, |known, name| {
            drop(known) || self.response.iter().any(|edit| edit.drops(known, name))
        });
        for (edit, text) in self.response.iter().zip(rendered) {
            match &edit.action {
                Change::Drop => {}
                Change::Put { .. } => h1::push_field(out, &edit.name.text, text),
                Change::Replace { from, .. } => {
                    for value in h1::named(&head.fields, buf, &edit.name.text) {
                        h1::push_field(out, &edit.name.text, &replace(value, from, text));
                    }
                }
            }
        }
    }

    /// The field that bears the request's id, and whether one that the client sent is kept.
    pub(crate) fn request_id(&self) -> Option<&model::RequestId> {
        self.forwarded.request_id.as_ref()
    }

    fn push_forwarded(&self, out: &mut Vec<u8>, vars: &Vars<'_>, trusted: bool) {
        let forwarded = &self.forwarded;
        let (head, buf) = (vars.head, vars.buf);
        let peer = vars.client.peer;
        let kept = |known| trusted && head.has(known);
        if forwarded.x_forwarded_for {
            push_rendered(out, "X-Forwarded-For", |out| {
                push_earlier(out, head, buf, trusted, Known::XForwardedFor);
                push_ip(out, peer.ip());
            });
        }
        if forwarded.x_forwarded_proto && !kept(Known::XForwardedProto) {
            h1::push_field(out, "X-Forwarded-Proto", vars.proto().as_bytes());
        }
        if forwarded.x_forwarded_host && !kept(Known::XForwardedHost) && !head.authority.is_empty()
        {
            h1::push_field(out, "X-Forwarded-Host", head.authority.of(buf));
        }
        if forwarded.x_forwarded_port && !kept(Known::XForwardedPort) {
            push_rendered(out, "X-Forwarded-Port", |out| {
                push_number(out, vars.client.local.port());
            });
        }
        if forwarded.forwarded {
            push_rendered(out, "Forwarded", |out| {
                push_earlier(out, head, buf, trusted, Known::Forwarded);
                out.extend_from_slice(b"for=");
                push_node(out, peer);
                if !head.authority.is_empty() {
                    out.extend_from_slice(b";host=\"");
                    out.extend_from_slice(head.authority.of(buf));
                    out.push(b'"');
                }
                out.extend_from_slice(b";proto=");
                out.extend_from_slice(vars.proto().as_bytes());
            });
        }
    }
}

impl Edit {
    fn drops(&self, known: Known, name: &[u8]) -> bool {
        !matches!(self.action, Change::Put { only: false, .. }) && self.name.is(known, name)
    }
}

/// Edits in their order: one that sets or deletes a name undoes what those before it added.
fn compile<'e>(edits: impl Iterator<Item = &'e HeaderEdit>) -> Vec<Edit> {
    let mut compiled: Vec<Edit> = Vec::new();
    for edit in edits {
        let (name, action) = match edit {
            HeaderEdit::Set(set) => (
                &set.name,
                Change::Put {
                    value: set.value.clone(),
                    only: true,
                },
            ),
            HeaderEdit::Add(set) => (
                &set.name,
                Change::Put {
                    value: set.value.clone(),
                    only: false,
                },
            ),
            HeaderEdit::Delete(name) => (name, Change::Drop),
            HeaderEdit::Replace(replace) => (
                &replace.name,
                Change::Replace {
                    from: replace.from.clone(),
                    to: replace.to.clone(),
                },
            ),
        };
        let name = Name::new(name);
        let action = match action {
            // There is but one Host.
            Change::Put { value, .. } if name.known == Known::Host => {
                Change::Put { value, only: true }
            }
            action => action,
        };
        if matches!(action, Change::Drop | Change::Put { only: true, .. }) {
            compiled.retain(|e| !e.name.text.eq_ignore_ascii_case(&name.text));
        }
        compiled.push(Edit { name, action });
    }
    compiled
}

/// Writes a field whose value `render` writes.
fn push_rendered(out: &mut Vec<u8>, name: &str, render: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    render(out);
    out.extend_from_slice(b"\r\n");
}

/// Writes the list so far, if its sender is believed, up to where this hop's own part begins.
fn push_earlier(out: &mut Vec<u8>, head: &RequestHead, buf: &[u8], trusted: bool, known: Known) {
    if !trusted || !head.has(known) {
        return;
    }
    for field in h1::known(&head.fields, known) {
        if field.value.is_empty() {
            continue;
        }
        out.extend_from_slice(field.value.of(buf));
        out.extend_from_slice(b", ");
    }
}

/// Whether a name that is not a known one tells of what was in front: `X-Forwarded-Prefix` and its like, also where they
/// and the known ones are written with `_`, which many a server takes for `-`.
fn is_forwarded(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"x-forwarded-";
    name.len() > PREFIX.len()
        && name.iter().zip(PREFIX).all(|(&is, &wanted)| {
            is.eq_ignore_ascii_case(&wanted) || (is == b'_' && wanted == b'-')
        })
}

fn replace(value: &[u8], from: &str, to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut last = 0;
    if !from.is_empty() {
        for at in memchr::memmem::find_iter(value, from.as_bytes()) {
            out.extend_from_slice(&value[last..at]);
            out.extend_from_slice(to);
            last = at + from.len();
        }
    }
    out.extend_from_slice(&value[last..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_occurrence_is_replaced_once() {
        assert_eq!(replace(b"a-b-a", "a", b"aa"), b"aa-b-aa");
        assert_eq!(replace(b"abc", "x", b"y"), b"abc");
        assert_eq!(replace(b"abc", "", b"y"), b"abc");
    }

    #[test]
    fn every_spelling_of_forwarded_fields_is_known() {
        for name in ["X-Forwarded-Prefix", "x_forwarded_for", "X-FORWARDED_Ssl"] {
            assert!(is_forwarded(name.as_bytes()), "{name}");
        }
        for name in ["X-Forwarded-", "X-Forward-For", "Forwarded-X"] {
            assert!(!is_forwarded(name.as_bytes()), "{name}");
        }
    }
}
