//! How texts with a grammar of their own are read and written: each by one function that says what it expects.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use addr::Prefix;
use serde_json::{Value as Json, json};

use crate::error::{ErrorKind, nearest};
use crate::node::Node;
use crate::setting::{Context, Kind, MapKey, Setting, shorten};
use crate::shape::Shape;
use crate::units::{format_duration, parse_bytes, parse_duration, parse_percent};
use crate::{
    AddressListName, Bytes, Content, FieldName, FieldValue, FilePath, HostPattern, InterfaceName,
    Listen, MemberAddress, MonitorName, Name, Percent, PoolName, PortSet, RuleName, Secret,
    StatusSet, Template, TemplatePart, TlsProfileName, Variable,
};

/// A setting that is a text: what is expected, and the functions either way.
macro_rules! text_setting {
    ($type:ty, $name:literal, $form:literal, $parse:expr, $show:expr $(, $magnitude:expr, $bound:expr)?) => {
        impl Setting for $type {
            fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
                let parse: fn(&str) -> Option<Self> = $parse;
                let value = parse(cx.text(node, $form)?);
                if value.is_none() {
                    cx.bad_value(node, $form);
                }
                value
            }

            fn encode(&self) -> Json {
                let show: fn(&Self) -> String = $show;
                json!(show(self))
            }

            fn shape() -> Shape {
                Shape::text($name, $form)
            }

            $(
                fn magnitude(&self) -> f64 {
                    let magnitude: fn(&Self) -> f64 = $magnitude;
                    magnitude(self)
                }

                fn bound(point: f64) -> String {
                    let bound: fn(f64) -> String = $bound;
                    bound(point)
                }
            )?
        }
    };
}

text_setting!(
    Duration,
    "duration",
    "a duration with its unit, such as `250ms`, `2s`, `1m30s` or `1h`",
    parse_duration,
    |d| format_duration(*d),
    Duration::as_secs_f64,
    |seconds| format_duration(Duration::from_secs_f64(seconds))
);
text_setting!(
    Percent,
    "percent",
    "a share from `0%` to `100%`",
    parse_percent,
    ToString::to_string,
    |p| p.0,
    |p| format!("{p}%")
);
text_setting!(
    SocketAddr,
    "address:port",
    "an IP address with a port, such as `127.0.0.1:8080` or `[::]:8080`",
    |text| text.parse().ok(),
    ToString::to_string
);
text_setting!(
    Listen,
    "address:port",
    "an IP address with a port, such as `127.0.0.1:8080` or `[::]:8080`",
    Listen::from_text,
    ToString::to_string
);
text_setting!(
    PortSet,
    "ports",
    "ports from 1 to 65535 in at most 8 ranges, such as `1024-32767,61000-65535`",
    PortSet::from_text,
    ToString::to_string
);
text_setting!(
    InterfaceName,
    "interface",
    "the name of a network interface: at most 15 bytes, without spaces, `/` and `:`",
    InterfaceName::new,
    ToString::to_string
);
text_setting!(
    MemberAddress,
    "address:port",
    "an IP address or host name with a port, such as `10.0.0.1:80`, `[2001:db8::1]:80` or `app.internal:80`",
    member_address,
    ToString::to_string
);
text_setting!(
    Name,
    "name",
    "a name: up to 128 letters, digits, `.`, `_`, `-`, `:`, `/`",
    Name::new,
    ToString::to_string
);
text_setting!(
    FieldName,
    "field name",
    "a header name: letters, digits and `-`",
    FieldName::from_text,
    |name| name.as_str().to_owned()
);
text_setting!(
    FieldValue,
    "field value",
    "a header value: one line without control characters",
    |text| field_value(text).then(|| FieldValue(text.into())),
    |value| value.as_str().to_owned()
);
text_setting!(
    HostPattern,
    "host pattern",
    "a host name or pattern: `a.example`, `*.b.example` or `*`",
    host_pattern,
    ToString::to_string
);
text_setting!(
    StatusSet,
    "statuses",
    "a set of statuses from 100 to 599, such as `200-299,304`",
    status_set,
    ToString::to_string
);
// a path that need not exist yet; relative ones are resolved where the file is known
impl Setting for PathBuf {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let text = cx.text(node, "a path")?;
        Some(cx.resolve(text, node.span))
    }

    fn encode(&self) -> Json {
        json!(self.to_string_lossy())
    }

    fn shape() -> Shape {
        Shape::text("path", "a path")
    }
}

impl Setting for Bytes {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        const FORM: &str = "a size, such as `4096`, `16KiB` or `1MB`";
        let size = parse_bytes(cx.text(node, FORM)?);
        if size.is_none() {
            cx.bad_value(node, FORM);
        }
        size
    }

    fn encode(&self) -> Json {
        json!(self.to_string())
    }

    fn shape() -> Shape {
        let schema = json!({"type": ["string", "integer"], "minimum": 0});
        Shape::scalar("size", "a size, such as `4096`, `16KiB` or `1MB`", schema)
    }

    fn magnitude(&self) -> f64 {
        self.0 as f64
    }

    fn bound(point: f64) -> String {
        Self(point as u64).to_string()
    }
}

impl Setting for Prefix {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let text = cx.text(node, "a prefix or address, such as `10.0.0.0/8` or `::1`")?;
        match Prefix::from_str(text) {
            Ok(prefix) => Some(prefix),
            Err(error) => {
                cx.error(node.span, ErrorKind::Prefix(error));
                None
            }
        }
    }

    fn encode(&self) -> Json {
        json!(self.to_string())
    }

    fn shape() -> Shape {
        Shape::text(
            "prefix",
            "a prefix or address, such as `10.0.0.0/8` or `::1`",
        )
    }
}

impl Setting for Template {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        const FORM: &str = "a line of text without control characters";
        let text = cx.text(node, FORM)?;
        if !field_value(text) {
            cx.bad_value(node, FORM);
            return None;
        }
        template(text)
            .map_err(|kind| cx.error(node.span, kind))
            .ok()
    }

    fn encode(&self) -> Json {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Literal(text) => text
                .replace('{', "{{")
                .replace('}', "}}")
                .replace("${", "$${"),
            TemplatePart::Variable(variable) => format!("{{{}}}", variable.as_str()),
        };
        json!(self.0.iter().map(part).collect::<String>())
    }

    fn shape() -> Shape {
        Shape::text("template", "a text with places such as `{client_ip}`")
    }
}

impl Setting for FilePath {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let path = PathBuf::decode(node, cx)?;
        cx.check(&path, node)?;
        Some(Self(path))
    }

    fn encode(&self) -> Json {
        self.0.encode()
    }

    fn shape() -> Shape {
        Shape::text("file", "a path of a file that exists")
    }
}

impl Setting for Secret {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let path = PathBuf::decode(node, cx)?;
        let text = cx.read(&path, node)?;
        let value: std::sync::Arc<str> = text.trim().into();
        if value.is_empty() {
            cx.error(
                node.span,
                ErrorKind::Unreadable {
                    path,
                    reason: "it is empty".to_owned(),
                },
            );
            return None;
        }
        Some(Self {
            file: FilePath(path),
            value,
        })
    }

    fn encode(&self) -> Json {
        self.file.encode()
    }

    fn shape() -> Shape {
        FilePath::shape()
    }
}

impl Setting for Content {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        if let [(key, value)] = node.entries()
            && key.text == "file"
        {
            let path = PathBuf::decode(value, cx)?;
            let text = cx.read(&path, value)?.into();
            return Some(Self {
                text,
                file: Some(FilePath(path)),
            });
        }
        let text = cx.text(node, "a text or `{file: path}`")?.into();
        Some(Self { text, file: None })
    }

    fn encode(&self) -> Json {
        match &self.file {
            Some(file) => json!({"file": file.encode()}),
            None => json!(&*self.text),
        }
    }

    fn shape() -> Shape {
        let file = json!({"type": "object", "required": ["file"], "additionalProperties": false,
            "properties": {"file": {"type": "string"}}});
        Shape::scalar(
            "text",
            "a text or `{file: path}`",
            json!({"anyOf": [{"type": "string"}, file]}),
        )
    }
}

macro_rules! references {
    ($($type:ident: $kind:ident, $label:literal, $form:literal;)*) => {$(
        impl Setting for $type {
            fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
                let name = Name::new(cx.text(node, $form)?);
                let Some(name) = name else {
                    cx.bad_value(node, $form);
                    return None;
                };
                cx.references.push((Kind::$kind, name.clone(), node.span));
                Some(Self(name))
            }

            fn encode(&self) -> Json {
                self.0.encode()
            }

            fn shape() -> Shape {
                Shape::text($label, $form)
            }
        }
    )*};
}
references! {
    PoolName: Pool, "pool", "the name of a pool";
    MonitorName: Monitor, "monitor", "the name of a monitor";
    TlsProfileName: TlsProfile, "TLS profile", "the name of a TLS profile";
    RuleName: Rule, "rule", "the name of a rule";
    AddressListName: AddressList, "address list", "the name of an address list";
}

impl MapKey for Name {
    const EXPECTED: &'static str = "a name: up to 128 letters, digits, `.`, `_`, `-`, `:`, `/`";

    fn from_text(text: &str) -> Option<Self> {
        Self::new(text)
    }

    fn as_text(&self) -> &str {
        self
    }
}

impl MapKey for FieldName {
    const EXPECTED: &'static str = "a header name: letters, digits and `-`";

    fn from_text(text: &str) -> Option<Self> {
        is_token(text).then(|| Self(text.into()))
    }

    fn as_text(&self) -> &str {
        self.as_str()
    }
}

/// Whether `text` is a token (RFC 9110 section 5.6.2): the form of methods and field names.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// A host name in lower case without its last dot, if `text` is one.
pub(crate) fn host_name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (text.len() <= 253 && text.split('.').all(label)).then(|| text.to_ascii_lowercase())
}

fn field_value(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && c != '\t') && text.trim() == text
}

fn member_address(text: &str) -> Option<MemberAddress> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        // whether port 0 can be meant is seen where all virtuals are known
        return Some(MemberAddress::Socket(address));
    }
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| port.parse().ok())??;
    let host = host_name(host)?;
    // what ends in a number is an address mistyped, never a name (RFC 1123 section 2.1)
    let numeric = host
        .rsplit('.')
        .next()
        .is_some_and(|label| label.bytes().all(|b| b.is_ascii_digit()));
    (port > 0 && !numeric).then_some(MemberAddress::Host { host, port })
}

fn host_pattern(text: &str) -> Option<HostPattern> {
    if text == "*" {
        return Some(HostPattern::Any);
    }
    if let Some(rest) = text.strip_prefix("*.") {
        return host_name(rest).map(|name| HostPattern::Suffix(format!(".{name}")));
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Some(IpAddr::V6(_)) = bare.and_then(|text| text.parse().ok()) {
        return Some(HostPattern::Exact(text.to_ascii_lowercase()));
    }
    host_name(text).map(HostPattern::Exact)
}

fn status_set(text: &str) -> Option<StatusSet> {
    let status = |text: &str| {
        let text = text.trim();
        let digits = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
        digits
            .then(|| text.parse().ok())
            .flatten()
            .filter(|status| (100..=599u16).contains(status))
    };
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = status(first)?..=status(last)?;
        (!range.is_empty()).then_some(range)
    };
    text.split(',')
        .map(range)
        .collect::<Option<Vec<_>>>()
        .map(StatusSet)
}

fn template(text: &str) -> Result<Template, ErrorKind> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let brace = &rest[at..at + 1];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            literal.push_str(brace);
            rest = after;
            continue;
        }
        let bad = || ErrorKind::BadValue {
            text: shorten(text),
            expected: "a template: write `{{` and `}}` for braces that are meant as such"
                .to_owned(),
        };
        let end = rest.find('}').filter(|_| brace == "{").ok_or_else(bad)?;
        let name = &rest[..end];
        let words = Variable::ALL.map(Variable::as_str);
        let known = Variable::ALL
            .into_iter()
            .find(|variable| variable.as_str() == name);
        let unknown = || ErrorKind::UnknownWord {
            text: shorten(name),
            of: "place in a template".to_owned(),
            nearest: nearest(name, words),
            valid: words.to_vec(),
        };
        let variable = known.ok_or_else(unknown)?;
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(std::mem::take(&mut literal)));
        }
        parts.push(TemplatePart::Variable(variable));
        rest = &rest[end + 1..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(TemplatePart::Literal(literal));
    }
    Ok(Template(parts))
}
