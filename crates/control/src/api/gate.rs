//! Who may use the API. The Unix socket is guarded by its mode; over TCP a token is asked for, or, on loopback and if the
//! configuration says so, nothing, but then web pages are kept out that a browser on this machine may show.

use super::Context;
use crate::view::Problem;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// The longest that an answer may take; the process gives up what it is asked sooner.
const LIMIT: Duration = Duration::from_secs(60);

/// By which way a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The Unix socket.
    Socket,
    /// The TCP address.
    Tcp,
}

/// Lets a request through, or not.
pub(super) async fn check(
    State(context): State<Arc<Context>>,
    request: Request,
    next: Next,
) -> Response {
    let entry = request.extensions().get::<Entry>().copied();
    let settings = context.settings();
    let free = is_free(request.uri().path(), &settings);
    if entry != Some(Entry::Socket)
        && !free
        && let Err(problem) = admit(request.headers(), &settings)
    {
        context.refused.fetch_add(1, Relaxed);
        let status = problem.status;
        let mut response = problem.into_response();
        if status == StatusCode::UNAUTHORIZED.as_u16() {
            let challenge = HeaderValue::from_static("Bearer realm=\"headgate\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        return response;
    }
    match tokio::time::timeout(LIMIT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "the process did not answer in time",
            "look at its log and its load, and try again",
        )
        .into_response(),
    }
}

fn is_free(path: &str, settings: &model::Admin) -> bool {
    match path {
        "/healthz" | "/readyz" => true,
        "/metrics" => settings.metrics_without_token,
        _ => false,
    }
}

fn admit(headers: &HeaderMap, settings: &model::Admin) -> Result<(), Problem> {
    if let Some(token) = &settings.token {
        return match bears(headers, token.reveal()) {
            true => Ok(()),
            false => Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "no token, or not the right one",
                "send `Authorization: Bearer TOKEN` with the token of `admin.token_file`",
            )),
        };
    }
    if !settings.insecure_no_token || headers.contains_key(ORIGIN) || !is_asked_locally(headers) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "without a token this address answers programs on this machine alone, and no web pages",
            "configure `admin.token_file`, or use the Unix socket",
        ));
    }
    Ok(())
}

/// Whether the token comes with the request; takes the same time whatever part of it is right.
fn bears(headers: &HeaderMap, token: &str) -> bool {
    let sent = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let Some((scheme, sent)) = sent.and_then(|value| value.split_at_checked(7)) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"bearer ")
        && !token.is_empty()
        && sent.ct_eq(token.as_bytes()).into()
}

/// Whether the host that is asked for is this machine by an address, or by the one name that cannot be another's: a page
/// whose name was made to mean this machine asks for that name.
fn is_asked_locally(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
        return true;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (name.parse().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn only_the_whole_token_is_right() {
        let right = headers(&[("authorization", "bearer s3cret")]);
        assert!(bears(&right, "s3cret"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer s3cre",
            "Bearer s3crets",
            "Basic s3cret",
        ] {
            assert!(
                !bears(&headers(&[("authorization", wrong)]), "s3cret"),
                "{wrong:?}"
            );
        }
        assert!(!bears(&headers(&[("authorization", "Bearer ")]), ""));
    }

    #[test]
    fn without_a_token_web_pages_are_kept_out() {
        let open = model::Admin {
            insecure_no_token: true,
            ..model::Admin::default()
        };
        let status = |fields: &[(&'static str, &str)]| admit(&headers(fields), &open).err();
        for host in [
            "127.0.0.1:9900",
            "[::1]:9900",
            "localhost:9900",
            "LOCALHOST",
            "[::1]",
        ] {
            assert!(status(&[("host", host)]).is_none(), "{host}");
        }
        for host in [
            "evil.example:9900",
            "127.0.0.1.evil.example",
            "10.0.0.1:9900",
            "",
        ] {
            assert!(status(&[("host", host)]).is_some(), "{host}");
        }
        let page = [
            ("host", "127.0.0.1:9900"),
            ("origin", "http://evil.example"),
        ];
        assert_eq!(status(&page).unwrap().status, 403);
    }

    #[test]
    fn nobody_comes_in_where_nothing_is_configured() {
        assert!(admit(&HeaderMap::new(), &model::Admin::default()).is_err());
    }
}
