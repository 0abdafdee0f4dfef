//! The routes of the API. Who may use them is decided in `gate`, what they tell is made in `collect`.

mod gate;
mod handlers;
mod problem;

pub(crate) use gate::Entry;

use crate::process::Process;
use crate::view;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{MethodRouter, get, patch, post};
use handlers as on;
use proxy::Engine;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};
use utoipa::OpenApi;

/// The largest body of a request, in bytes.
const BODY_BYTES: usize = 64 * 1024;

/// What requests are answered from.
pub(crate) struct Context {
    pub(crate) engine: Arc<Engine>,
    pub(crate) process: Arc<Process>,
    /// Requests that came without the right to.
    pub(crate) refused: AtomicU64,
    settings: RwLock<Arc<model::Admin>>,
}

impl Context {
    pub(crate) fn new(engine: Arc<Engine>, process: Arc<Process>) -> Self {
        Context {
            engine,
            process,
            refused: AtomicU64::new(0),
            settings: RwLock::default(),
        }
    }

    /// Who may come in.
    pub(crate) fn settings(&self) -> Arc<model::Admin> {
        let settings = self.settings.read();
        Arc::clone(&settings.unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_settings(&self, settings: model::Admin) {
        let mut place = self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(settings);
    }
}

/// Everything, behind the gate.
pub(crate) fn router(context: &Arc<Context>) -> Router {
    let mut router = Router::new();
    for (path, methods) in routes() {
        router = router.route(path, methods);
    }
    router
        .fallback(on::nothing_here)
        .method_not_allowed_fallback(on::not_so)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(middleware::from_fn_with_state(
            Arc::clone(context),
            gate::check,
        ))
        .with_state(Arc::clone(context))
}

fn routes() -> Vec<(&'static str, MethodRouter<Arc<Context>>)> {
    vec![
        ("/healthz", get(on::healthz)),
        ("/readyz", get(on::readyz)),
        ("/metrics", get(on::metrics)),
        ("/v1/status", get(on::status)),
        ("/v1/virtuals", get(on::virtuals)),
        ("/v1/virtuals/{name}", get(on::one_virtual)),
        ("/v1/pools", get(on::pools)),
        ("/v1/pools/{name}", get(on::one_pool)),
        (
            "/v1/pools/{pool}/members/{member}",
            patch(on::change_member),
        ),
        ("/v1/monitors", get(on::monitors)),
        ("/v1/certificates", get(on::certificates)),
        ("/v1/counters", get(on::counters)),
        ("/v1/rules/profile", get(on::rule_profile)),
        ("/v1/config", get(on::config)),
        ("/v1/reload", post(on::reload)),
        ("/v1/upgrade", post(on::upgrade)),
        ("/v1/drain", post(on::drain)),
        ("/v1/openapi.json", get(on::openapi)),
    ]
}

/// The document that describes the API (OpenAPI 3.1).
pub fn openapi() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Headgate admin API",
        description = "State of everything, and what can be changed while it runs. Over TCP every request but those for \
            /healthz, /readyz and (unless configured otherwise) /metrics bears the token: `Authorization: Bearer …`. \
            What goes wrong is told as RFC 9457 problem details."
    ),
    paths(
        on::healthz, on::readyz, on::metrics, on::status, on::virtuals, on::one_virtual, on::pools, on::one_pool,
        on::change_member, on::monitors, on::certificates, on::counters, on::rule_profile, on::config, on::reload, on::upgrade,
        on::drain, on::openapi,
    ),
    components(schemas(view::Problem)),
    modifiers(&Token),
    security(("token" = [])),
)]
struct Document;

struct Token;

impl utoipa::Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", scheme);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_document_has_every_route_and_no_other() {
        let document = openapi();
        let described: BTreeSet<&str> = document.paths.paths.keys().map(String::as_str).collect();
        let routes = routes();
        let served: BTreeSet<&str> = routes.iter().map(|(path, _)| *path).collect();
        assert_eq!(described, served);
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        let document = serde_json::to_value(openapi()).unwrap();
        let text = document.to_string();
        let references: BTreeSet<&str> = text
            .split("\"$ref\":\"#/components/schemas/")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert!(references.contains("Status"), "{references:?}");
        for name in references {
            let schema = &document["components"]["schemas"][name];
            assert!(schema.is_object(), "no schema {name}");
        }
    }
}
