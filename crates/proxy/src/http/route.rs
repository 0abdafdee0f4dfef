//! Where a request goes: what the routes of a virtual do. Which of them takes a request is a policy's to say.

use super::edit::Edits;
use crate::client::Client;
use crate::snapshot::{Backend, Virtual};
use crate::worker::Worker;
use std::sync::Arc;
use wire::h1::RequestHead;

/// What a route does.
pub(crate) struct Route {
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
            action,
            edits: Edits::compile(policy, Some(&route.headers)),
        })
    }
}

/// The first route that takes the request, or else the virtual's own pool.
pub(crate) fn decide<'v>(
    worker: &Worker,
    client: &Client,
    service: &'v Virtual,
    head: &RequestHead,
    buf: &[u8],
) -> Decision<'v> {
    let route = if service.routes.is_empty() {
        None
    } else {
        let number = worker.rules.route(worker, client, service, head, buf);
        number.and_then(|number| service.routes.get(number))
    };
    match route {
        Some(route) => Decision {
            action: Some(&route.action),
            backend: match &route.action {
                Action::Pool(backend) => Some(backend),
                Action::Redirect(_) | Action::Respond(_) => None,
            },
            edits: &route.edits,
        },
        None => Decision {
            action: None,
            backend: service.default.as_ref(),
            edits: &service.edits,
        },
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
