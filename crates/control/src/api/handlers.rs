//! What each route does.

use super::Context;
use crate::process::Wish;
use crate::view::{
    Certificate, Check, Counters, Done, MemberChange, MemberState, Pool, Problem, ProfiledEvent,
    Status, Virtual,
};
use crate::{collect, metrics as exposition};
use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use balance::Admin;
use proxy::{NoSuchMember, Phase};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

type Here = State<Arc<Context>>;

/// How long the process may take to do what it is asked.
const RELOAD_LIMIT: Duration = Duration::from_secs(30);
const UPGRADE_LIMIT: Duration = Duration::from_secs(30);

/// The largest weight.
const MAX_WEIGHT: u16 = 256;

/// Whether the process is alive
#[utoipa::path(get, path = "/healthz", security(()), responses((status = 200, description = "It is", body = String)))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the process takes new connections
#[utoipa::path(get, path = "/readyz", security(()), responses(
    (status = 200, description = "It does", body = String),
    (status = 503, description = "It is ending", body = String),
))]
pub(super) async fn readyz(State(context): Here) -> (StatusCode, &'static str) {
    match context.engine.phase() {
        Phase::Running => (StatusCode::OK, "ready\n"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
    }
}

/// Everything that is counted, for Prometheus
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "Prometheus' text form", body = String, content_type = "text/plain; version=0.0.4"),
))]
pub(super) async fn metrics(State(context): Here) -> Response {
    let refused = context.refused.load(Relaxed);
    let engine = Arc::clone(&context.engine);
    // Workers are waited for.
    let events = tokio::task::spawn_blocking(move || collect::rule_profile(&engine)).await;
    let events = events.unwrap_or_default();
    let text = exposition::text(&context.engine, &context.process, refused, &events);
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
        .into_response()
}

/// The process
#[utoipa::path(get, path = "/v1/status", responses((status = 200, description = "The process", body = Status)))]
pub(super) async fn status(State(context): Here) -> Json<Status> {
    Json(collect::status(&context.engine, &context.process))
}

/// All virtuals
#[utoipa::path(get, path = "/v1/virtuals", responses((status = 200, description = "All virtuals", body = Vec<Virtual>)))]
pub(super) async fn virtuals(State(context): Here) -> Json<Vec<Virtual>> {
    Json(collect::virtuals(&context.engine))
}

/// One virtual
#[utoipa::path(get, path = "/v1/virtuals/{name}",
    params(("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "The virtual", body = Virtual),
        (status = 404, description = "There is none of that name", body = Problem),
    ))]
pub(super) async fn one_virtual(
    State(context): Here,
    Path(name): Path<String>,
) -> Result<Json<Virtual>, Problem> {
    let mut all = collect::virtuals(&context.engine).into_iter();
    all.find(|service| service.name == name)
        .map(Json)
        .ok_or_else(|| missing("virtual", &name, "/v1/virtuals"))
}

/// All pools with their members
#[utoipa::path(get, path = "/v1/pools", responses((status = 200, description = "All pools", body = Vec<Pool>)))]
pub(super) async fn pools(State(context): Here) -> Json<Vec<Pool>> {
    Json(collect::pools(&context.engine))
}

/// One pool with its members
#[utoipa::path(get, path = "/v1/pools/{name}",
    params(("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "The pool", body = Pool),
        (status = 404, description = "There is none of that name", body = Problem),
    ))]
pub(super) async fn one_pool(
    State(context): Here,
    Path(name): Path<String>,
) -> Result<Json<Pool>, Problem> {
    let mut all = collect::pools(&context.engine).into_iter();
    all.find(|pool| pool.name == name)
        .map(Json)
        .ok_or_else(|| missing("pool", &name, "/v1/pools"))
}

/// Sets a member's state or weight
///
/// It stays so until the configuration sets the same field to something else, or the process ends.
#[utoipa::path(patch, path = "/v1/pools/{pool}/members/{member}",
    params(
        ("pool" = String, Path, description = "The pool's name"),
        ("member" = String, Path, description = "The member's name or address"),
    ),
    request_body = MemberChange,
    responses(
        (status = 200, description = "The pool after it", body = Pool),
        (status = 400, description = "Not a change", body = Problem),
        (status = 404, description = "No such member", body = Problem),
    ))]
pub(super) async fn change_member(
    State(context): Here,
    Path((pool, member)): Path<(String, String)>,
    change: Result<Json<MemberChange>, JsonRejection>,
) -> Result<Json<Pool>, Problem> {
    const FORM: &str =
        "send {\"state\": \"enabled\"|\"drain\"|\"disabled\"} or {\"weight\": 0..256}, or both";
    let bad = |why: String| Problem::new(StatusCode::BAD_REQUEST, why, FORM);
    let Json(change) = change.map_err(|rejection| bad(rejection.body_text()))?;
    if change == MemberChange::default() {
        return Err(bad("nothing is to be changed".to_owned()));
    }
    if let Some(weight) = change.weight.filter(|&weight| weight > MAX_WEIGHT) {
        return Err(bad(format!("a weight of {weight}")));
    }
    let wanted = proxy::MemberChange {
        admin: change.state.map(|state| match state {
            MemberState::Enabled => Admin::Enabled,
            MemberState::Drain => Admin::Drain,
            MemberState::Disabled => Admin::Disabled,
        }),
        weight: change.weight,
    };
    let changed = context.engine.set_member(&pool, &member, wanted);
    changed.map_err(|error| match error {
        NoSuchMember::Pool(_) => missing("pool", &pool, "/v1/pools"),
        NoSuchMember::Member { .. } => {
            let known = collect::pools(&context.engine).into_iter();
            let known = known.filter(|p| p.name == pool).flat_map(|p| p.members);
            let names: Vec<String> = known.map(|m| m.name).collect();
            Problem::new(
                StatusCode::NOT_FOUND,
                format!("pool {pool:?} has no member {member:?}"),
                format!("its members are: {}", names.join(", ")),
            )
        }
    })?;
    tracing::info!(pool, member, state = ?change.state, weight = change.weight, "member set by the API");
    one_pool(State(context), Path(pool)).await
}

/// What every monitor knows of every member it asks
#[utoipa::path(get, path = "/v1/monitors", responses((status = 200, description = "All monitors", body = Vec<Check>)))]
pub(super) async fn monitors(State(context): Here) -> Json<Vec<Check>> {
    Json(collect::monitors(&context.engine))
}

/// Certificates shown to clients
#[utoipa::path(get, path = "/v1/certificates", responses(
    (status = 200, description = "All certificates", body = Vec<Certificate>),
))]
pub(super) async fn certificates(State(context): Here) -> Json<Vec<Certificate>> {
    Json(collect::certificates(&context.engine))
}

/// Everything that is counted
#[utoipa::path(get, path = "/v1/counters", responses((status = 200, description = "All counters", body = Counters)))]
pub(super) async fn counters(State(context): Here) -> Json<Counters> {
    Json(collect::counters(
        &context.engine,
        context.refused.load(Relaxed),
    ))
}

/// What events of rules take, and commands in them, so far as it is counted: `timing on`
#[utoipa::path(get, path = "/v1/rules/profile", responses(
    (status = 200, description = "By rule, event and command, over all workers", body = Vec<ProfiledEvent>),
))]
pub(super) async fn rule_profile(State(context): Here) -> Json<Vec<ProfiledEvent>> {
    let engine = Arc::clone(&context.engine);
    // Workers are waited for.
    let rows = tokio::task::spawn_blocking(move || collect::rule_profile(&engine)).await;
    Json(rows.unwrap_or_default())
}

/// The configuration in force, defaults filled in, secrets left out
#[utoipa::path(get, path = "/v1/config", responses((status = 200, description = "The configuration", body = Object)))]
pub(super) async fn config(State(context): Here) -> Json<Value> {
    Json(context.engine.snapshot().config.to_json())
}

/// Reads the configuration anew and takes it over, as a whole or not at all
#[utoipa::path(post, path = "/v1/reload", responses(
    (status = 200, description = "It was taken over", body = Done),
    (status = 422, description = "It is wrong; what was in force stays", body = Problem),
))]
pub(super) async fn reload(State(context): Here) -> Result<Json<Done>, Problem> {
    let help = "mend it (`headgate check -c FILE` tells the same) and reload again; what was in force stays";
    wish(&context, Wish::Reload, RELOAD_LIMIT, help).await
}

/// Has the process replaced by the program that now stands in its file
///
/// Listening sockets are passed on; the old process finishes what it has.
#[utoipa::path(post, path = "/v1/upgrade", responses(
    (status = 200, description = "The new process serves", body = Done),
    (status = 422, description = "It does not; the old one goes on", body = Problem),
))]
pub(super) async fn upgrade(State(context): Here) -> Result<Json<Done>, Problem> {
    let help = "the log has what the new process said; this one goes on serving";
    wish(&context, Wish::Upgrade, UPGRADE_LIMIT, help).await
}

/// Takes no new connections, finishes those that are open, and ends the process
#[utoipa::path(post, path = "/v1/drain", responses((status = 200, description = "It has begun", body = Done)))]
pub(super) async fn drain(State(context): Here) -> Result<Json<Done>, Problem> {
    wish(&context, Wish::Drain, RELOAD_LIMIT, "look at /v1/status").await
}

/// This description of the API
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub(super) async fn openapi() -> Response {
    Json(super::openapi()).into_response()
}

pub(super) async fn nothing_here(uri: Uri) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is nothing at {}", uri.path()),
        "/v1/openapi.json has all there is",
    )
}

pub(super) async fn not_so(method: Method, uri: Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} is not for {method}", uri.path()),
        "/v1/openapi.json has all there is",
    )
}

async fn wish(
    context: &Context,
    wish: Wish,
    limit: Duration,
    help: &str,
) -> Result<Json<Done>, Problem> {
    match context.process.ask(wish, limit).await {
        Ok(message) => Ok(Json(Done { message })),
        Err(why) => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why, help)),
    }
}

fn missing(kind: &str, name: &str, list: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is no {kind} {name:?}"),
        format!("{list} has all that there are"),
    )
}
