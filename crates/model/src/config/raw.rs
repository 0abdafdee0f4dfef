//! Monitors, routes, address lists and what rules need as they are written: flat maps, from which their types are made.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "one macro declares all types, and these stay in the crate"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use addr::{Prefix, parse_feed};
use serde_json::{Value as Json, json};

use crate::check;
use crate::config::{
    Action, AddressList, ClientTls, DataGroupType, HeaderEdits, HttpExpect, HttpProbe, Match,
    Monitor, Probe, Redirect, Respond, Route,
};
use crate::error::ErrorKind;
use crate::node::{Node, Span, Value};
use crate::setting::{Context, Setting};
use crate::shape::Shape;
use crate::{FieldName, FieldValue, FilePath, Percent, PoolName};

config! {
    /// A way to see whether a member works: what is asked of it, how often, and how answers become a verdict.
    pub struct MonitorFields check(check::monitor) {
        /// What is asked.
        pub kind: MonitorType as "type",
        /// `http`, `https`: path and query of the request.
        pub path: String = "/".to_owned(),
        /// `http`, `https`: the `Host` field. Without it, the member's address and port.
        pub host: Option<String> = None,
        /// `http`, `https`: the method.
        pub method: String = "GET".to_owned(),
        /// `http`, `https`: further fields of the request.
        pub headers: BTreeMap<FieldName, FieldValue> = BTreeMap::new(),
        /// `send_expect`: what is sent after connecting.
        pub send: String = String::new(),
        /// `http`, `https`: `{status: 200-399, body: text}`. `send_expect`: a text that must come back.
        pub expect: Expect = Expect::default(),
        /// Time from one probe's start to the next's.
        #[range(0.05, 86400)]
        pub interval: Duration = Duration::from_secs(2),
        /// Time a probe may take, from connecting to its verdict.
        #[range(0.001, 3600)]
        pub timeout: Duration = Duration::from_secs(1),
        /// Good probes in a row that bring a member up.
        #[range(1, 1000)]
        pub rise: u32 = 2,
        /// Bad probes in a row that take a member down.
        #[range(1, 1000)]
        pub fall: u32 = 3,
        /// How far each interval may differ, so that probes of many members spread.
        pub jitter: Percent = Percent(10.0),
        /// The port to ask, where it is not the member's.
        pub port: Option<u16> = None,
        /// `tls`, `https`, `send_expect`: settings of TLS.
        pub tls: Option<ClientTls> = None,
    }
}

config! {
    /// What a monitor asks of a member.
    pub enum MonitorType {
        /// A TCP connection is accepted.
        Tcp = "tcp",
        /// A TLS handshake succeeds.
        Tls = "tls",
        /// A request is answered as expected.
        Http = "http",
        /// The same over TLS.
        Https = "https",
        /// Bytes are sent, others are expected.
        SendExpect = "send_expect",
    }
}

/// What must come back, as the monitor's type has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expect {
    pub text: Option<String>,
    pub http: Option<HttpExpect>,
}

impl Setting for Expect {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        if node.is_map() {
            return HttpExpect::decode(node, cx).map(|http| Self {
                text: None,
                http: Some(http),
            });
        }
        let text = cx.text(node, "a text, or a map with `status` and `body`")?;
        Some(Self {
            text: Some(text.to_owned()),
            http: None,
        })
    }

    fn encode(&self) -> Json {
        match (&self.text, &self.http) {
            (Some(text), _) => text.encode(),
            (None, Some(http)) => http.encode(),
            (None, None) => json!({}),
        }
    }

    fn shape() -> Shape {
        let Shape::Struct(shape) = HttpExpect::shape() else {
            unreachable!("it is declared as a struct")
        };
        Shape::Struct(crate::shape::Struct {
            short: Some("a text"),
            ..shape
        })
    }
}

impl Setting for Monitor {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let raw = MonitorFields::decode(node, cx)?;
        let (probe, tls) = match raw.kind {
            MonitorType::Tcp => (Probe::Tcp, None),
            MonitorType::Tls => (Probe::Tls, Some(raw.tls.unwrap_or_default())),
            MonitorType::SendExpect => {
                let expect = raw.expect.text.unwrap_or_default().into_bytes();
                (
                    Probe::SendExpect {
                        send: raw.send.into_bytes(),
                        expect,
                    },
                    raw.tls,
                )
            }
            MonitorType::Http | MonitorType::Https => {
                let tls = (raw.kind == MonitorType::Https).then(|| raw.tls.unwrap_or_default());
                let expect = raw.expect.http.unwrap_or_default();
                let MonitorFields {
                    method,
                    path,
                    host,
                    headers,
                    ..
                } = raw;
                let probe = Probe::Http(HttpProbe {
                    method,
                    path,
                    host,
                    headers,
                    expect,
                });
                (probe, tls)
            }
        };
        Some(Self {
            probe,
            tls,
            interval: raw.interval,
            timeout: raw.timeout,
            rise: raw.rise,
            fall: raw.fall,
            jitter: raw.jitter,
            port: raw.port,
        })
    }

    fn encode(&self) -> Json {
        let mut map = serde_json::Map::new();
        let mut put = |name: &str, value: Json| drop(map.insert(name.to_owned(), value));
        let kind = match (&self.probe, &self.tls) {
            (Probe::Tcp, _) => MonitorType::Tcp,
            (Probe::Tls, _) => MonitorType::Tls,
            (Probe::Http(_), None) => MonitorType::Http,
            (Probe::Http(_), Some(_)) => MonitorType::Https,
            (Probe::SendExpect { .. }, _) => MonitorType::SendExpect,
        };
        put("type", kind.encode());
        match &self.probe {
            Probe::Tcp | Probe::Tls => {}
            Probe::Http(http) => {
                put("path", http.path.encode());
                put("host", http.host.encode());
                put("method", http.method.encode());
                put("headers", http.headers.encode());
                put("expect", http.expect.encode());
            }
            Probe::SendExpect { send, expect } => {
                put("send", String::from_utf8_lossy(send).into_owned().encode());
                put(
                    "expect",
                    String::from_utf8_lossy(expect).into_owned().encode(),
                );
            }
        }
        put("interval", self.interval.encode());
        put("timeout", self.timeout.encode());
        put("rise", self.rise.encode());
        put("fall", self.fall.encode());
        put("jitter", self.jitter.encode());
        put("port", self.port.encode());
        if let Some(tls) = &self.tls {
            put("tls", tls.encode());
        }
        Json::Object(map)
    }

    fn shape() -> Shape {
        MonitorFields::shape()
    }
}

config! {
    /// Which requests a route is for and what happens to them: one of `pool`, `redirect` and `respond`.
    pub struct RouteFields check(check::route) {
        /// Which requests; without it, all.
        pub when: Match as "match" = Match::default(),
        /// They go to this pool.
        pub pool: Option<PoolName> = None,
        /// The client is sent elsewhere.
        pub redirect: Option<Redirect> = None,
        /// Headgate answers itself.
        pub respond: Option<Respond> = None,
        /// Edits after those of the virtual.
        pub headers: HeaderEdits = HeaderEdits::default(),
    }
}

impl Setting for Route {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let RouteFields {
            when,
            pool,
            redirect,
            respond,
            headers,
        } = RouteFields::decode(node, cx)?;
        let action = match (pool, redirect, respond) {
            (Some(pool), None, None) => Action::Pool(pool),
            (None, Some(redirect), None) => Action::Redirect(redirect),
            (None, None, Some(respond)) => Action::Respond(respond),
            _ => unreachable!("`check::route` lets only one through"),
        };
        Some(Self {
            when,
            action,
            headers,
        })
    }

    fn encode(&self) -> Json {
        let (name, action) = match &self.action {
            Action::Pool(pool) => ("pool", pool.encode()),
            Action::Redirect(redirect) => ("redirect", redirect.encode()),
            Action::Respond(respond) => ("respond", respond.encode()),
        };
        json!({"match": self.when.encode(), name: action, "headers": self.headers.encode()})
    }

    fn shape() -> Shape {
        RouteFields::shape()
    }
}

config! {
    /// A list of addresses.
    pub struct AddressListFields short("a list of prefixes", short_address_list) {
        /// Prefixes and addresses.
        pub prefixes: Vec<Prefix> = Vec::new(),
        /// A file of more: one a line, `#` starts a comment.
        pub file: Option<FilePath> = None,
    }
}

fn short_address_list(node: &Node, cx: &mut Context<'_>) -> Option<AddressListFields> {
    let prefixes = Vec::decode(node, cx)?;
    Some(AddressListFields {
        prefixes,
        file: None,
    })
}

impl Setting for AddressList {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let AddressListFields { prefixes, file } = AddressListFields::decode(node, cx)?;
        let feed = match (&file, node.get("file")) {
            (Some(file), Some(node)) => feed(file, node, cx)?,
            _ => Vec::new(),
        };
        Some(Self {
            prefixes,
            file,
            feed,
        })
    }

    fn encode(&self) -> Json {
        AddressListFields {
            prefixes: self.prefixes.clone(),
            file: self.file.clone(),
        }
        .encode()
    }

    fn shape() -> Shape {
        AddressListFields::shape()
    }
}

/// The prefixes of a file that `node` names.
pub(crate) fn feed(path: &FilePath, node: &Node, cx: &mut Context<'_>) -> Option<Vec<Prefix>> {
    let text = cx.read(path.as_path(), node)?;
    let errors = match parse_feed(&text) {
        Ok(prefixes) => return Some(prefixes),
        Err(errors) => errors,
    };
    let file = cx.add_file(path.0.clone(), &text);
    for error in errors {
        let span = Span {
            file,
            line: error.line,
            column: error.column,
            width: error.text.chars().count(),
        };
        cx.error(span, ErrorKind::Feed(error));
    }
    None
}

config! {
    /// A rule: an iRule in a file or in place.
    pub struct RuleFields check(check::rule) {
        /// The file it stands in.
        pub file: Option<FilePath> = None,
        /// The rule itself. Environment variables are not put in: `${` is the rule's own.
        pub text: Option<String> = None,
    }
}

config! {
    /// A list that rules look things up in.
    pub struct DataGroupFields {
        /// What its keys are.
        pub kind: DataGroupType as "type" = DataGroupType::String,
        /// Keys with their values, or a list of keys alone.
        pub records: Records = Records::default(),
        /// A file of more, in the form in which BIG-IP keeps external data groups: `"key" := "value",`.
        pub file: Option<FilePath> = None,
    }
}

config! {
    /// A list of addresses with a bad reputation.
    pub struct ReputationListFields {
        /// A file of prefixes: one a line, `#` starts a comment.
        pub file: FilePath,
        /// What rules are told of them: `Spam Sources`.
        pub category: String,
    }
}

/// Keys with their values, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records(pub Vec<(String, String)>);

impl Setting for Records {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        if node.is_null() {
            return Some(Self::default());
        }
        let mut records = Vec::new();
        if let Value::Map(entries) = &node.value {
            for (key, value) in entries {
                let text = match value.is_null() {
                    true => "",
                    false => cx.text(value, "a text")?,
                };
                records.push((key.text.clone(), text.to_owned()));
            }
            let mut seen = BTreeMap::new();
            let mut good = true;
            for (key, _) in entries {
                if let Some(&first) = seen.get(&key.text) {
                    let first = cx.place(first);
                    let name = crate::setting::shorten(&key.text);
                    cx.error(key.span, ErrorKind::Duplicate { name, first });
                    good = false;
                } else {
                    seen.insert(&key.text, key.span);
                }
            }
            return good.then_some(Self(records));
        }
        for item in node.items() {
            records.push((cx.text(item, "a text")?.to_owned(), String::new()));
        }
        Some(Self(records))
    }

    fn encode(&self) -> Json {
        let entries = self.0.iter();
        Json::Object(entries.map(|(k, v)| (k.clone(), json!(v))).collect())
    }

    fn shape() -> Shape {
        let schema = json!({"anyOf": [
            {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
            {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
            {"type": ["string", "number", "null"]},
        ]});
        Shape::scalar(
            "records",
            "a map of keys to values, or a list of keys",
            schema,
        )
    }
}
