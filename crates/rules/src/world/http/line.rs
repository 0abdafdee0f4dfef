//! What the first lines of an exchange say: `HTTP::uri` and its parts, method, version, status, and who asks.

use super::{EXCHANGE, exchange, header, is_response, open};
use crate::command::{Command, Ctx};
use crate::event::Event;
use crate::fault::Fault;
use crate::flow::Http;
use crate::value::Value;
use crate::world::{strings, uri};
use std::ops::Range;

pub(in crate::world) const COMMANDS: &[Command] = &[
    Command::new("HTTP::uri", "?-normalized? ?uri?", 0, 1, uri)
        .at(EXCHANGE)
        .differs(READABLE),
    Command::new("http_uri", "", 0, 0, uri).at(EXCHANGE),
    Command::new("HTTP::path", "?-normalized? ?path?", 0, 1, path)
        .at(EXCHANGE)
        .differs(READABLE),
    Command::new("http_path", "", 0, 0, path).at(EXCHANGE),
    Command::new("HTTP::query", "?-normalized? ?query?", 0, 1, query)
        .at(EXCHANGE)
        .differs(READABLE),
    Command::new("http_query", "", 0, 0, query).at(EXCHANGE),
    Command::new("HTTP::host", "?host?", 0, 1, host)
        .at(EXCHANGE)
        .differs(READABLE),
    Command::new("http_host", "", 0, 0, host).at(EXCHANGE),
    Command::new("HTTP::method", "?method?", 0, 1, method)
        .at(EXCHANGE)
        .differs(READABLE),
    Command::new("http_method", "", 0, 0, method).at(EXCHANGE),
    Command::new("HTTP::version", "?version?", 0, 1, version).at(EXCHANGE),
    Command::new("http_version", "", 0, 0, version).at(EXCHANGE),
    Command::new("HTTP::status", "", 0, 0, status).at(EXCHANGE),
    Command::new("HTTP::request", "", 0, 0, request).at(EXCHANGE),
    Command::new("HTTP::request_num", "", 0, 0, |ctx, _| {
        Ok(Value::Int(exchange(ctx)?.earlier as i64 + 1))
    })
    .at(EXCHANGE),
    Command::new("HTTP::username", "", 0, 0, |ctx, _| credential(ctx, 0)).at(EXCHANGE),
    Command::new("HTTP::password", "", 0, 0, |ctx, _| credential(ctx, 1)).at(EXCHANGE),
];

const READABLE: &str = "can also be read in response events, where it is the request's";

/// The exchange, so long as the request may be changed.
fn changeable<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a mut Http, Fault> {
    let event = ctx.event;
    let http = open(ctx)?;
    if is_response(event, http) {
        return Err(super::answered());
    }
    Ok(http)
}

fn uri(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    match args {
        [] => Ok(Value::new(open(ctx)?.request.part(1))),
        [flag] if flag.is(b"-normalized") => {
            let target = open(ctx)?.request.part(1);
            Ok(uri::normalized(target).into())
        }
        [uri, ..] => {
            changeable(ctx)?.request.set_part(1, uri.clone());
            Ok(Value::Empty)
        }
    }
}

fn path(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    match args {
        [] => {
            let target = open(ctx)?.request.part(1);
            Ok(Value::new(&target[path_of(target)]))
        }
        [flag] if flag.is(b"-normalized") => {
            let target = open(ctx)?.request.part(1);
            Ok(uri::normalized(&target[path_of(target)]).into())
        }
        [path, ..] => {
            let request = &mut changeable(ctx)?.request;
            let target = request.part(1);
            let at = path_of(target);
            let new = [&target[..at.start], &path.bytes(), &target[at.end..]].concat();
            request.set_part(1, new.into());
            Ok(Value::Empty)
        }
    }
}

fn query(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    match args {
        [] => Ok(Value::new(query_of(open(ctx)?.request.part(1)))),
        [flag] if flag.is(b"-normalized") => {
            let query = query_of(open(ctx)?.request.part(1));
            Ok(uri::unescaped_unreserved(query).into())
        }
        [query, ..] => {
            let request = &mut changeable(ctx)?.request;
            let target = request.part(1);
            let mut new = target[..path_of(target).end].to_vec();
            let query = query.bytes();
            if !query.is_empty() {
                new.push(b'?');
                new.extend_from_slice(&query);
            }
            request.set_part(1, new.into());
            Ok(Value::Empty)
        }
    }
}

/// Where the path stands in a request's target, which may name scheme and host too (RFC 9112 section 3.2.2).
fn path_of(target: &[u8]) -> Range<usize> {
    let start = if target.first() == Some(&b'/') {
        0
    } else {
        let authority = uri::authority(target);
        if authority.is_empty() {
            0
        } else {
            authority.end
        }
    };
    let end = memchr::memchr(b'?', &target[start..]).map_or(target.len(), |at| start + at);
    start..end
}

fn query_of(target: &[u8]) -> &[u8] {
    match memchr::memchr(b'?', target) {
        Some(at) => &target[at + 1..],
        None => b"",
    }
}

fn host(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if let [host, ..] = args {
        header::put(
            &mut changeable(ctx)?.request,
            Value::from("Host"),
            host.clone(),
        );
        return Ok(Value::Empty);
    }
    let request = &open(ctx)?.request;
    if let Some(host) = request.values(b"Host").next_back() {
        return Ok(Value::new(host));
    }
    let target = request.part(1);
    Ok(Value::new(&target[uri::authority(target)]))
}

fn method(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if let [method, ..] = args {
        changeable(ctx)?.request.set_part(0, method.clone());
        return Ok(Value::Empty);
    }
    Ok(Value::new(open(ctx)?.request.part(0)))
}

fn version(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let event = ctx.event;
    let http = open(ctx)?;
    let (head, part) = if is_response(event, http) {
        (&mut http.response, 0)
    } else {
        (&mut http.request, 2)
    };
    if let [version, ..] = args {
        let version = version.bytes();
        if !matches!(&*version, b"0.9" | b"1.0" | b"1.1") {
            return Err(Fault::bad("version", &version, &["0.9", "1.0", "1.1"]));
        }
        head.set_part(part, [b"HTTP/", &*version].concat().into());
        return Ok(Value::Empty);
    }
    let text = head.part(part);
    Ok(Value::new(text.strip_prefix(b"HTTP/").unwrap_or(text)))
}

fn status(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    let http = open(ctx)?;
    if !http.has_response && ctx.event != Event::HttpResponseRelease {
        return Ok(Value::Empty);
    }
    Ok(Value::literal(exchange(ctx)?.response.part(1)))
}

fn request(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    let mut out = Vec::new();
    open(ctx)?.request.write(&mut out);
    ctx.charge(out.len())?;
    Ok(out.into())
}

/// The user's name or password (RFC 7617).
fn credential(ctx: &mut Ctx<'_>, which: usize) -> Result<Value, Fault> {
    let Some(field) = open(ctx)?.request.values(b"Authorization").next_back() else {
        return Ok(Value::Empty);
    };
    let Some((scheme, coded)) = field.split_at_checked(6) else {
        return Ok(Value::Empty);
    };
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return Ok(Value::Empty);
    }
    let pair = strings::unbase64(coded.trim_ascii()).unwrap_or_default();
    let part = pair.splitn(2, |byte| *byte == b':').nth(which);
    Ok(part.map_or(Value::Empty, Value::new))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::COMMANDS;
    use crate::event::Event::{HttpRequest, HttpResponse};

    const REQUEST: &str = "GET /a/b.html?x=1&y=2 HTTP/1.1\nHost: www.example.com:8080\n\
                           Authorization: Basic dXNlcjpwYXNzOndvcmQ=\n\n";

    #[test]
    fn the_parts_of_the_first_line_are_read() {
        let mut bench = Bench::http(REQUEST, "HTTP/1.0 404 Not Found\n\n");
        for (line, gives) in [
            ("HTTP::uri", "/a/b.html?x=1&y=2"),
            ("http_uri", "/a/b.html?x=1&y=2"),
            ("HTTP::path", "/a/b.html"),
            ("HTTP::query", "x=1&y=2"),
            ("HTTP::host", "www.example.com:8080"),
            ("HTTP::method", "GET"),
            ("HTTP::version", "1.1"),
            ("HTTP::request_num", "1"),
            ("HTTP::username", "user"),
            ("HTTP::password", "pass:word"),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), gives, "{line}");
        }
        assert_eq!(bench.run(HttpResponse, COMMANDS, "HTTP::status"), "404");
        assert_eq!(bench.run(HttpResponse, COMMANDS, "HTTP::version"), "1.0");
        assert_eq!(bench.run(HttpResponse, COMMANDS, "HTTP::path"), "/a/b.html");
        let late = bench.run(HttpResponse, COMMANDS, "HTTP::uri /c");
        assert!(late.starts_with("error: Illegal argument"), "{late}");
    }

    #[test]
    fn each_part_is_changed_without_the_others() {
        let mut bench = Bench::http(REQUEST, "");
        for (line, uri) in [
            ("HTTP::path /c", "/c?x=1&y=2"),
            ("HTTP::query z=3", "/c?z=3"),
            ("HTTP::query {}", "/c"),
            ("HTTP::uri /d?e", "/d?e"),
            ("HTTP::path {/f}", "/f?e"),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), "", "{line}");
            assert_eq!(bench.run(HttpRequest, COMMANDS, "HTTP::uri"), uri, "{line}");
        }
        bench.run(HttpRequest, COMMANDS, "HTTP::method POST");
        bench.run(HttpRequest, COMMANDS, "HTTP::version 1.0");
        bench.run(HttpRequest, COMMANDS, "HTTP::host other");
        assert_eq!(
            bench.run(HttpRequest, COMMANDS, "HTTP::request"),
            "POST /f?e HTTP/1.0\r\nHost: other\r\nAuthorization: Basic dXNlcjpwYXNzOndvcmQ=\r\n\r\n"
        );
    }

    #[test]
    fn a_target_with_scheme_and_host_has_its_path_behind_them() {
        let mut bench = Bench::http("GET http://h:81?q HTTP/1.1\n\n", "");
        for (line, gives) in [
            ("HTTP::host", "h:81"),
            ("HTTP::path", ""),
            ("HTTP::query", "q"),
            ("HTTP::path /x", ""),
            ("HTTP::uri", "http://h:81/x?q"),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), gives, "{line}");
        }
    }

    #[test]
    fn normalized_forms_hide_no_path_behind_escapes() {
        let mut bench = Bench::http("GET /a/../%62//c%2fd/./?%61=%26 HTTP/1.1\n\n", "");
        for (line, gives) in [
            ("HTTP::path -normalized", "/b/c%2fd/"),
            ("HTTP::query -normalized", "a=%26"),
            ("HTTP::uri -normalized", "/b/c%2fd/?a=%26"),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), gives, "{line}");
        }
    }
}
