//! Where a request goes: the routes of a virtual, compiled.

use super::edit::Edits;
use crate::snapshot::{Backend, Virtual};
use model::{HostPattern, PathMatch};
use std::sync::Arc;
use wire::h1::RequestHead;

/// A route, ready to be asked.
pub(crate) struct Route {
    hosts: Vec<HostPattern>,
    paths: Vec<PathMatch>,
    methods: Vec<String>,
    headers: Vec<model::HeaderMatch>,
    pub(crate) action: Action,
    /// The virtual's edits and then the route's own.
    pub(crate) edits: Edits,
}

/// What happens to a request.
pub(crate) enum Action {
    Pool(Arc<Backend>),
    Redirect(model::Redirect),
    Respond(model::Respond),
}

/// What was decided for a request.
pub(crate) struct Decision<'v> {
    pub(crate) action: Option<&'v Action>,
    pub(crate) backend: Option<&'v Arc<Backend>>,
    pub(crate) edits: &'v Edits,
}

impl Route {
    /// Compiles a route; `backend` finds a pool by its name, which was checked to exist.
    pub(crate) fn compile(
        route: &model::Route,
        policy: &model::HeaderPolicy,
        backend: impl Fn(&model::PoolName) -> Option<Arc<Backend>>,
    ) -> Option<Self> {
        let action = match &route.action {
            model::Action::Pool(name) => Action::Pool(backend(name)?),
            model::Action::Redirect(redirect) => Action::Redirect(redirect.clone()),
            model::Action::Respond(respond) => Action::Respond(respond.clone()),
        };
        Some(Route {
            hosts: route.when.host.clone(),
            paths: route.when.path.clone(),
            methods: route.when.method.clone(),
            headers: route.when.headers.clone(),
            action,
            edits: Edits::compile(policy, Some(&route.headers)),
        })
    }

    fn matches(&self, head: &RequestHead, buf: &[u8]) -> bool {
        (self.hosts.is_empty() || {
            let host = host(head, buf);
            self.hosts.iter().any(|pattern| pattern.matches(host))
        }) && (self.paths.is_empty() || {
            let path = head.path_only(buf);
            self.paths.iter().any(|wanted| path_matches(wanted, path))
        }) && (self.methods.is_empty() || {
            let method = head.method_span.of(buf);
            self.methods.iter().any(|m| m.as_bytes() == method)
        }) && self.headers.iter().all(|wanted| {
            let mut values = wire::h1::named(&head.fields, buf, wanted.name.as_str());
            match &wanted.value {
                Some(value) => values.any(|v| v == value.as_str().as_bytes()),
                None => values.next().is_some(),
            }
        })
    }
}

/// The first route that takes the request, or else the virtual's own pool.
pub(crate) fn decide<'v>(service: &'v Virtual, head: &RequestHead, buf: &[u8]) -> Decision<'v> {
    for route in &service.routes {
        if route.matches(head, buf) {
            let backend = match &route.action {
                Action::Pool(backend) => Some(backend),
                Action::Redirect(_) | Action::Respond(_) => None,
            };
            return Decision {
                action: Some(&route.action),
                backend,
                edits: &route.edits,
            };
        }
    }
    Decision {
        action: None,
        backend: service.default.as_ref(),
        edits: &service.edits,
    }
}

/// The host that is asked for, without its port; empty where there is none.
pub(crate) fn host<'b>(head: &RequestHead, buf: &'b [u8]) -> &'b str {
    let host = wire::uri::host(head.authority.of(buf));
    // An authority is plain ASCII: the parser has seen to it.
    std::str::from_utf8(host)
        .unwrap_or("")
        .trim_end_matches('.')
}

/// [`PathMatch::matches`] on bytes: a path need not be UTF-8.
fn path_matches(wanted: &PathMatch, path: &[u8]) -> bool {
    match wanted {
        PathMatch::Exact(exact) => path == exact.as_bytes(),
        PathMatch::Prefix(prefix) => path
            .strip_prefix(prefix.as_bytes())
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || prefix.ends_with('/')),
        PathMatch::Suffix(suffix) => path.ends_with(suffix.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_bytes_as_the_configuration_says() {
        let texts = ["/api", "/api/", "/apis", "/api/x", "/x/api", "/", ""];
        let wanted = [
            PathMatch::Exact("/api".into()),
            PathMatch::Prefix("/api".into()),
            PathMatch::Prefix("/api/".into()),
            PathMatch::Suffix("/api".into()),
        ];
        for wanted in &wanted {
            for text in texts {
                assert_eq!(
                    path_matches(wanted, text.as_bytes()),
                    wanted.matches(text),
                    "{wanted:?} {text}"
                );
            }
        }
        assert!(path_matches(&wanted[1], b"/api/\xff"));
    }
}
