//! What is particular to HTTP virtuals: routes, and the editing of fields.

use std::collections::BTreeMap;

use addr::Prefix;

use crate::check;
use crate::node::Node;
use crate::setting::Context;
use crate::{Content, FieldName, FieldValue, HostPattern, PoolName, Template};

/// A route: which requests it is for and what happens to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Which requests.
    pub when: Match,
    /// What happens to them.
    pub action: Action,
    /// Edits after those of the virtual.
    pub headers: HeaderEdits,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It goes to a pool.
    Pool(PoolName),
    /// The client is sent elsewhere.
    Redirect(Redirect),
    /// Headgate answers itself.
    Respond(Respond),
}

config! {
    /// Which requests a route is for: those for which everything given is true.
    pub struct Match check(check::matching) {
        /// One of these hosts: `a.example`, `*.b.example`, `*`.
        pub host: Vec<HostPattern> = Vec::new(),
        /// One of these paths.
        pub path: Vec<PathMatch> = Vec::new(),
        /// One of these methods.
        pub method: Vec<String> = Vec::new(),
        /// All of these fields.
        pub headers: Vec<HeaderMatch> = Vec::new(),
        /// All of these cookies.
        pub cookies: Vec<CookieMatch> = Vec::new(),
        /// A client whose address is in one of these prefixes.
        pub address: Vec<Prefix> = Vec::new(),
        /// A client in one of these countries: two letters, as `geography` tells them.
        pub country: Vec<String> = Vec::new(),
    }
}

config! {
    /// Which paths. The path is compared as it was sent, without its query.
    pub enum PathMatch short("an exact path", short_path) {
        /// This path alone.
        Exact(String) = "exact",
        /// Those that begin so. `/api` does not match `/apis`, but `/api` and `/api/x`; `/api/` does not match `/api`.
        Prefix(String) = "prefix",
        /// Those that end so.
        Suffix(String) = "suffix",
    }
}

impl PathMatch {
    /// Whether `path` (without query) is meant.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => path == exact,
            Self::Prefix(prefix) => path.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/')
            }),
            Self::Suffix(suffix) => path.ends_with(suffix.as_str()),
        }
    }
}

config! {
    /// A field that a request must have.
    pub struct HeaderMatch {
        /// Its name.
        pub name: FieldName,
        /// Its value; without it, any.
        pub value: Option<FieldValue> = None,
    }
}

config! {
    /// A cookie that a request must have.
    pub struct CookieMatch {
        /// Its name, letters' case as it is.
        pub name: String,
        /// Its value; without it, any.
        pub value: Option<String> = None,
    }
}

config! {
    /// An answer that sends the client elsewhere.
    pub struct Redirect check(check::redirect) {
        /// Where: may have places such as `{host}` and `{uri}`.
        pub to: Template,
        /// The status: 301, 302, 303, 307 or 308.
        #[range(301, 308)]
        pub status: u16 = 308,
    }
}

config! {
    /// An answer of Headgate's own.
    pub struct Respond {
        /// The status.
        #[range(200, 599)]
        pub status: u16 = 200,
        /// The body: a text, or `{file: path}`.
        pub body: Content = Content::default(),
        /// The `Content-Type` of a body.
        pub content_type: FieldValue = FieldValue("text/plain; charset=utf-8".into()),
        /// Further fields.
        pub headers: BTreeMap<FieldName, FieldValue> = BTreeMap::new(),
    }
}

config! {
    /// The fields of a virtual's requests and responses.
    pub struct HeaderPolicy check(check::header_policy) {
        /// Fields that tell members about the client.
        pub forwarded: Forwarded = Forwarded::default(),
        /// Edits of requests on their way to members.
        pub request: Vec<HeaderEdit> = Vec::new(),
        /// Edits of responses on their way to clients.
        pub response: Vec<HeaderEdit> = Vec::new(),
    }
}

config! {
    /// Edits of fields.
    pub struct HeaderEdits check(check::header_edits) {
        /// Edits of requests on their way to members.
        pub request: Vec<HeaderEdit> = Vec::new(),
        /// Edits of responses on their way to clients.
        pub response: Vec<HeaderEdit> = Vec::new(),
    }
}

config! {
    /// Fields that tell members about the client.
    pub struct Forwarded {
        /// `X-Forwarded-For`: the client's address.
        pub x_forwarded_for: bool = true,
        /// `X-Forwarded-Proto`: `http` or `https`.
        pub x_forwarded_proto: bool = true,
        /// `X-Forwarded-Host`: the `Host` the client asked for.
        pub x_forwarded_host: bool = false,
        /// `X-Forwarded-Port`: the port the client connected to.
        pub x_forwarded_port: bool = false,
        /// `Forwarded` (RFC 7239).
        pub forwarded: bool = false,
        /// A field with an id for each request.
        pub request_id: Option<RequestId> = None,
    }
}

config! {
    /// The field with a request's id.
    pub struct RequestId {
        /// Its name.
        pub header: FieldName = FieldName("X-Request-Id".into()),
        /// Whether an id that the client sends is kept, if it is short and plain.
        pub keep: bool = false,
    }
}

config! {
    /// One edit of a message's fields.
    pub enum HeaderEdit {
        /// Makes this the only field of its name.
        Set(HeaderSet) = "set",
        /// Adds a field, beside others of its name.
        Add(HeaderSet) = "add",
        /// Removes all fields of a name.
        Delete(FieldName) = "delete",
        /// Replaces a text in the values of a name.
        Replace(HeaderReplace) = "replace",
    }
}

config! {
    /// A field and its value.
    pub struct HeaderSet {
        /// Its name.
        pub name: FieldName,
        /// Its value: may have places such as `{client_ip}`.
        pub value: Template,
    }
}

config! {
    /// A text to replace in the values of a field.
    pub struct HeaderReplace {
        /// The field's name.
        pub name: FieldName,
        /// The text that is looked for, every occurrence.
        pub from: String,
        /// What stands there instead.
        pub to: Template,
    }
}

fn short_path(node: &Node, cx: &mut Context<'_>) -> Option<PathMatch> {
    let path = cx.text(
        node,
        "a path, or one of `exact`, `prefix`, `suffix` with one",
    )?;
    Some(PathMatch::Exact(path.to_owned()))
}
