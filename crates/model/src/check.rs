//! What no single field can tell: fields that need or exclude each other, and addresses that are taken twice. Each
//! function sees one value whose fields are good, and the node it came from.

pub(crate) mod fast;
mod listeners;

pub(crate) use listeners::listeners;

use std::collections::HashMap;

use crate::FieldName;
use crate::config::raw::{MonitorFields, MonitorType, RouteFields, RuleFields};
use crate::config::{
    Admin, ClientAuthMode, ClientTls, HeaderEdit, HeaderEdits, HeaderPolicy, Match, PathMatch,
    Pool, Protocol, Redirect, TlsProfile, Virtual,
};
use crate::decode_text::is_token;
use crate::error::ErrorKind;
use crate::node::Node;
use crate::setting::{Context, shorten};

/// An HTTP virtual's TLS profile offers no protocol but the one it speaks.
pub(crate) fn offered_protocols(root: &Node, cx: &mut Context<'_>) {
    for (_, server) in root.get("virtuals").map_or(&[][..], Node::entries) {
        let http = server
            .get("protocol")
            .and_then(Node::scalar)
            .is_none_or(|protocol| protocol == "http");
        let Some(tls) = server.get("tls").filter(|_| http) else {
            continue;
        };
        let profile = tls
            .scalar()
            .and_then(|name| root.get("tls_profiles")?.get(name));
        let alpn = profile
            .and_then(|profile| profile.get("alpn"))
            .filter(|alpn| !alpn.is_null());
        let offered = alpn.map_or(&[][..], Node::items);
        if offered
            .iter()
            .any(|protocol| !matches!(protocol.scalar(), Some("http/1.1" | "http/1.0")))
        {
            let what = "the `alpn` of this profile offers more than http/1.1, which is what an HTTP virtual speaks";
            cx.error(tls.span, ErrorKind::Needs(what));
        }
    }
}

pub(crate) fn admin(admin: &Admin, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    if let Some(listen) = admin.listen.filter(|_| admin.token.is_none()) {
        if !listen.ip().to_canonical().is_loopback() {
            good.needs(
                "listen",
                "an admin interface on an address that others can reach needs `token_file`",
            );
        } else if !admin.insecure_no_token {
            good.needs("listen", "an admin interface on TCP needs `token_file`, or `insecure_no_token: true` on loopback");
        }
    }
    if admin.token.is_some() && admin.insecure_no_token {
        good.misplaced("insecure_no_token", "there is a `token_file`");
    }
    good.good
}

pub(crate) fn pool(pool: &Pool, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = true;
    let nodes = node.get("members").map_or(&[][..], Node::items);
    let mut first = HashMap::new();
    for (member, node) in pool.members.iter().zip(nodes) {
        let label = member.label();
        if let Some(&span) = first.get(&label) {
            let first = cx.place(span);
            cx.error(
                node.span,
                ErrorKind::Duplicate {
                    name: label.to_string(),
                    first,
                },
            );
            good = false;
        } else {
            first.insert(label, node.span);
        }
    }
    good
}

pub(crate) fn rule(rule: &RuleFields, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    match (&rule.file, &rule.text) {
        (Some(_), Some(_)) => good.misplaced("text", "there is a `file`"),
        (None, None) => good.needs("file", "a rule needs a `file` or a `text`"),
        _ => {}
    }
    good.good
}

pub(crate) fn monitor(monitor: &MonitorFields, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    let http = matches!(monitor.kind, MonitorType::Http | MonitorType::Https);
    let text = monitor.kind == MonitorType::SendExpect;
    if !http {
        for field in ["path", "host", "method", "headers"] {
            good.misplaced(field, "it is for monitors of type http and https");
        }
    }
    if !text {
        good.misplaced("send", "it is for monitors of type send_expect");
    }
    match monitor.kind {
        MonitorType::Tcp | MonitorType::Tls => {
            good.misplaced("expect", "nothing is read by monitors of this type");
        }
        MonitorType::Http | MonitorType::Https if monitor.expect.text.is_some() => {
            good.needs(
                "expect",
                "monitors of type http and https expect a map such as `{status: 200-399}`",
            );
        }
        MonitorType::SendExpect if monitor.expect.http.is_some() => {
            good.needs("expect", "monitors of type send_expect expect a text");
        }
        _ => {}
    }
    if matches!(monitor.kind, MonitorType::Tcp | MonitorType::Http) && monitor.tls.is_some() {
        good.misplaced(
            "tls",
            "monitors of this type speak plain text; there are the types tls and https",
        );
    }
    if !is_token(&monitor.method) {
        good.bad_value("method", &monitor.method, "an HTTP method");
    }
    if !monitor.path.starts_with('/') || !is_target(&monitor.path) {
        good.bad_value(
            "path",
            &monitor.path,
            "a path: it begins with `/` and has no spaces",
        );
    }
    if let Some(host) = monitor
        .host
        .as_deref()
        .filter(|host| host.is_empty() || !is_target(host))
    {
        good.bad_value("host", host, "a host");
    }
    if monitor.port == Some(0) {
        good.bad_value("port", "0", "a port");
    }
    good.good
}

pub(crate) fn tls_profile(profile: &TlsProfile, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    if profile.certificates.is_empty() {
        good.needs(
            "certificates",
            "a TLS profile needs at least one certificate",
        );
    }
    let (min, max) = (profile.min_version, profile.max_version);
    if min.as_str() > max.as_str() {
        good.needs("min_version", "`min_version` is above `max_version`");
    }
    let usable = |version: &str| (min.as_str()..=max.as_str()).contains(&version);
    if !profile.suites.is_empty()
        && !profile
            .suites
            .iter()
            .any(|suite| usable(suite.version().as_str()))
    {
        good.needs(
            "suites",
            "none of these suites belongs to the versions that are spoken",
        );
    }
    if profile.client_auth.mode != ClientAuthMode::Off && profile.client_auth.ca.is_none() {
        good.needs(
            "client_auth",
            "client certificates need a `ca` to verify them by",
        );
    }
    alpn(&profile.alpn, &mut good);
    good.good
}

pub(crate) fn client_tls(tls: &ClientTls, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    match (&tls.certificate, &tls.key) {
        (Some(_), None) => good.needs("certificate", "`certificate` needs its `key`"),
        (None, Some(_)) => good.needs("key", "`key` needs its `certificate`"),
        _ => {}
    }
    alpn(&tls.alpn, &mut good);
    good.good
}

pub(crate) fn virtual_server(server: &Virtual, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    if server.listen.is_empty() {
        good.needs(
            "listen",
            "a virtual needs at least one address to listen on",
        );
    }
    if server.protocol == Protocol::Fast {
        let good = good.good;
        return fast::fast_virtual(server, node, cx) && good;
    }
    let http = server.protocol == Protocol::Http;
    let sni = !server.sni_routes.is_empty();
    if http && sni {
        good.misplaced("sni_routes", "an HTTP virtual has `routes`");
    }
    for (field, given) in [
        ("routes", !server.routes.is_empty()),
        ("headers", server.headers != HeaderPolicy::default()),
        ("trusted_proxies", !server.trusted_proxies.is_empty()),
    ] {
        if given && !http {
            good.misplaced(field, "it is for virtuals of protocol http");
        }
    }
    if server.protocol == Protocol::TlsPassthrough {
        good.misplaced(
            "tls",
            "TLS is passed on as it is; the protocols http and tcp can end it",
        );
    }
    if server.protocol == Protocol::Tcp && server.tls.is_none() && sni {
        good.misplaced(
            "sni_routes",
            "without `tls` there is no server name; or set `protocol: tls-passthrough`",
        );
    }
    let leads = !server.routes.is_empty() || !server.sni_routes.is_empty();
    if server.pool.is_none() && !leads && server.rules.is_empty() {
        good.needs(
            "",
            "a virtual needs a `pool`, routes or rules, to know where to send clients",
        );
    }
    if server.limits.uri_bytes > server.limits.head_bytes {
        good.needs(
            "limits",
            "`uri_bytes` is above `head_bytes`, of which the target is a part",
        );
    }
    let good = good.good;
    fast::no_fast_virtual(server, node, cx) && good
}

pub(crate) fn route(route: &RouteFields, node: &Node, cx: &mut Context<'_>) -> bool {
    let actions = [
        route.pool.is_some(),
        route.redirect.is_some(),
        route.respond.is_some(),
    ];
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    if actions.into_iter().filter(|given| *given).count() != 1 {
        good.needs(
            "",
            "a route needs one of `pool`, `redirect` and `respond`, and no more",
        );
    }
    good.good
}

pub(crate) fn matching(matching: &Match, node: &Node, cx: &mut Context<'_>) -> bool {
    let mut good = Verdict {
        node,
        cx,
        good: true,
    };
    for path in &matching.path {
        match path {
            PathMatch::Exact(path) | PathMatch::Prefix(path) if !path.starts_with('/') => {
                good.bad_value("path", path, "a path: it begins with `/`");
            }
            PathMatch::Exact(path) | PathMatch::Prefix(path) | PathMatch::Suffix(path) => {
                if !is_target(path) || path.contains(['?', '#']) {
                    good.bad_value(
                        "path",
                        path,
                        "a path: it has no spaces, `?` or `#`, and other characters as %XX",
                    );
                }
            }
        }
    }
    let is_code = |code: &&String| code.len() == 2 && code.bytes().all(|b| b.is_ascii_alphabetic());
    for code in matching.country.iter().filter(|code| !is_code(code)) {
        good.bad_value(
            "country",
            code,
            "a country's code of two letters (ISO 3166-1)",
        );
    }
    for method in matching.method.iter().filter(|method| !is_token(method)) {
        good.bad_value("method", method, "an HTTP method");
    }
    good.good
}

pub(crate) fn redirect(redirect: &Redirect, node: &Node, cx: &mut Context<'_>) -> bool {
    let good = matches!(redirect.status, 301 | 302 | 303 | 307 | 308);
    if !good {
        let mut verdict = Verdict { node, cx, good };
        verdict.bad_value(
            "status",
            &redirect.status.to_string(),
            "one of 301, 302, 303, 307 and 308",
        );
    }
    good
}

pub(crate) fn header_policy(policy: &HeaderPolicy, node: &Node, cx: &mut Context<'_>) -> bool {
    edits("request", &policy.request, node, cx) & edits("response", &policy.response, node, cx)
}

pub(crate) fn header_edits(policy: &HeaderEdits, node: &Node, cx: &mut Context<'_>) -> bool {
    edits("request", &policy.request, node, cx) & edits("response", &policy.response, node, cx)
}

/// Fields that tell where messages end, or that are each connection's own (RFC 9112 section 6, RFC 9110 section 7.6.1).
const FRAMING: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn edits(section: &str, edits: &[HeaderEdit], node: &Node, cx: &mut Context<'_>) -> bool {
    let nodes = node.get(section).map_or(&[][..], Node::items);
    let mut good = true;
    for (edit, node) in edits.iter().zip(nodes) {
        let (name, removes): (&FieldName, bool) = match edit {
            HeaderEdit::Set(set) | HeaderEdit::Add(set) => (&set.name, false),
            HeaderEdit::Delete(name) => (name, true),
            HeaderEdit::Replace(replace) => (&replace.name, false),
        };
        let name = name.as_str().to_ascii_lowercase();
        let why = if FRAMING.contains(&name.as_str()) {
            "editable: it belongs to the connection, and Headgate writes it itself"
        } else if removes && name == "host" && section == "request" {
            "removable: a request without it is no valid request"
        } else {
            continue;
        };
        cx.error(
            node.span,
            ErrorKind::BadValue {
                text: name,
                expected: why.to_owned(),
            },
        );
        good = false;
    }
    good
}

/// Whether `text` can stand in a request's line: visible ASCII alone.
fn is_target(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_graphic())
}

fn alpn(protocols: &[String], good: &mut Verdict<'_, '_>) {
    for protocol in protocols
        .iter()
        .filter(|protocol| !(1..=255).contains(&protocol.len()))
    {
        good.bad_value("alpn", protocol, "a protocol's name of 1 to 255 bytes");
    }
}

/// A check under way: what it looks at, and whether it found nothing.
struct Verdict<'n, 'c> {
    node: &'n Node,
    cx: &'n mut Context<'c>,
    good: bool,
}

impl Verdict<'_, '_> {
    /// Reports `field`, if it is given at all.
    fn misplaced(&mut self, field: &'static str, why: &'static str) {
        if self.node.get(field).is_some_and(|node| !node.is_null()) {
            self.cx.error(
                self.node.key_span(field),
                ErrorKind::Misplaced { field, why },
            );
            self.good = false;
        }
    }

    /// Reports what is missing, at `field` or, without it, at the whole.
    fn needs(&mut self, field: &str, what: &'static str) {
        self.cx
            .error(self.node.key_span(field), ErrorKind::Needs(what));
        self.good = false;
    }

    fn bad_value(&mut self, field: &str, text: &str, expected: &str) {
        let span = self.node.get(field).map_or(self.node.span, |node| {
            // of a list, the entry itself
            node.items()
                .iter()
                .find(|item| item.scalar() == Some(text))
                .unwrap_or(node)
                .span
        });
        self.cx.error(
            span,
            ErrorKind::BadValue {
                text: shorten(text),
                expected: expected.to_owned(),
            },
        );
        self.good = false;
    }
}
