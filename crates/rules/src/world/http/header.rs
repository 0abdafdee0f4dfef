//! `HTTP::header`: a head's fields.
//!
//! Where a name occurs several times, the last field of it is meant unless a command says otherwise.

use super::{EXCHANGE, exchange, head, is_response};
use crate::command::{ANY, Command, Ctx};
use crate::event::Event;
use crate::fault::Fault;
use crate::flow::Http;
use crate::message::Message;
use crate::value::Value;

pub(in crate::world) const COMMANDS: &[Command] = &[
    Command::new(
        "HTTP::header",
        "?value? name ?value? | values name | names | count ?name? | at index | exists name | \
         insert ?lws? name value ?name value ...? | is_keepalive | is_redirect | lws | replace name ?value? | \
         remove name | sanitize ?name ...?",
        1,
        ANY,
        header,
    )
    .at(EXCHANGE)
    .differs(
        "`insert lws` does not fold long values and `lws` is always 0, since RFC 9112 forbids folding; \
         `sanitize` also keeps the fields without which a message could not be read; \
         `insert_modssl_fields` is not there",
    ),
    Command::new("http_header", "name", 1, 1, |ctx, args| value(ctx, &args[0].bytes())).at(EXCHANGE),
    Command::new("HTTP::is_keepalive", "", 0, 0, |ctx, _| keeps_alive(ctx)).at(EXCHANGE),
    Command::new("HTTP::is_redirect", "", 0, 0, |ctx, _| redirects(ctx)).at(EXCHANGE),
];

/// What `sanitize` keeps in any case.
const KEPT: &[&[u8]] = &[
    b"Connection",
    b"Content-Encoding",
    b"Content-Length",
    b"Content-Type",
    b"Host",
    b"Proxy-Connection",
    b"Set-Cookie",
    b"Set-Cookie2",
    b"Transfer-Encoding",
];

fn header(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let sub = args[0].bytes();
    match (&*sub, &args[1..]) {
        (b"value", [name]) => value(ctx, &name.bytes()),
        (b"insert", pairs @ [_, ..]) => insert(ctx, pairs),
        (b"exists", [name]) => {
            let name = name.bytes();
            let found = head(ctx)?.places(bare(&name)).next().is_some();
            Ok(found.into())
        }
        (b"value" | b"replace", [name, value]) => replace(ctx, name, value.clone()),
        (b"replace", [name]) => replace(ctx, name, Value::Empty),
        (b"remove", [name]) => {
            let name = name.bytes();
            let name = bare(&name);
            head(ctx)?.retain(|field, _| !field.eq_ignore_ascii_case(name));
            Ok(Value::Empty)
        }
        (b"values", [name]) => {
            let name = name.bytes();
            let values = head(ctx)?.values(bare(&name)).map(Value::new).collect();
            Ok(Value::list_of(values))
        }
        (b"names", []) => {
            let names = head(ctx)?.fields().map(|(name, _)| Value::new(name));
            Ok(Value::list_of(names.collect()))
        }
        (b"count", []) => Ok(head(ctx)?.len().into()),
        (b"count", [name]) => {
            let name = name.bytes();
            Ok(head(ctx)?.places(bare(&name)).count().into())
        }
        (b"at", [index]) => {
            let at = usize::try_from(index.int()?).unwrap_or(usize::MAX);
            let field = head(ctx)?.field(at);
            Ok(field.map_or(Value::Empty, |(name, _)| Value::new(name)))
        }
        (b"is_keepalive", []) => keeps_alive(ctx),
        (b"is_redirect", []) => redirects(ctx),
        (b"lws", []) => head(ctx).map(|_| Value::Int(0)),
        (b"sanitize", names) => {
            head(ctx)?.retain(|field, _| {
                let is_field = |name: &Value| bare(&name.bytes()).eq_ignore_ascii_case(field);
                KEPT.iter().any(|kept| kept.eq_ignore_ascii_case(field))
                    || names.iter().any(is_field)
            });
            Ok(Value::Empty)
        }
        (b"insert_modssl_fields", _) => Err(Fault::error(
            "HTTP::header insert_modssl_fields is not implemented",
        )),
        (name, []) => value(ctx, name),
        (_, [value]) if !is_subcommand(&sub) => replace(ctx, &args[0], value.clone()),
        _ => Err(COMMANDS[0].wrong_args()),
    }
}

fn is_subcommand(word: &[u8]) -> bool {
    matches!(
        word,
        b"value"
            | b"values"
            | b"names"
            | b"count"
            | b"at"
            | b"exists"
            | b"insert"
            | b"is_keepalive"
            | b"is_redirect"
            | b"lws"
            | b"replace"
            | b"remove"
            | b"sanitize"
    )
}

/// A name as it stands in heads: rules also write it with its colon.
#[inline]
fn bare(name: &[u8]) -> &[u8] {
    name.strip_suffix(b":").unwrap_or(name)
}

fn value(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<Value, Fault> {
    let found = head(ctx)?.values(bare(name)).next_back();
    Ok(found.map_or(Value::Empty, Value::new))
}

fn named(name: &Value) -> Value {
    let bytes = name.bytes();
    match bytes.strip_suffix(b":") {
        Some(bare) => Value::new(bare),
        None => name.clone(),
    }
}

fn insert(ctx: &mut Ctx<'_>, words: &[Value]) -> Result<Value, Fault> {
    let words = match words {
        [lws, pairs @ ..] if words.len() % 2 == 1 && lws.is(b"lws") => pairs,
        _ => words,
    };
    match words {
        [list] => insert_pairs(ctx, &list.list()?),
        pairs => insert_pairs(ctx, pairs),
    }
}

fn insert_pairs(ctx: &mut Ctx<'_>, pairs: &[Value]) -> Result<Value, Fault> {
    if pairs.len() % 2 == 1 {
        return Err(COMMANDS[0].wrong_args());
    }
    ctx.charge(pairs.len() * 32 + pairs.iter().map(Value::len).sum::<usize>())?;
    let head = head(ctx)?;
    for pair in pairs.chunks_exact(2) {
        head.insert(None, named(&pair[0]), pair[1].clone());
    }
    Ok(Value::Empty)
}

fn replace(ctx: &mut Ctx<'_>, name: &Value, value: Value) -> Result<Value, Fault> {
    ctx.charge(64 + value.len())?;
    put(head(ctx)?, named(name), value);
    Ok(Value::Empty)
}

/// Puts a value in the last field of that name, or a field behind all others.
pub(super) fn put(head: &mut Message, name: Value, value: Value) {
    let last = head.places(&name.bytes()).next_back();
    match last {
        Some(at) => head.replace(at, value),
        None => head.insert(None, name, value),
    }
}

fn keeps_alive(ctx: &mut Ctx<'_>) -> Result<Value, Fault> {
    let event = ctx.event;
    let http = exchange(ctx)?;
    let (head, version) = described(http, event);
    let mut keep = !(version.ends_with(b"/1.0") || version.ends_with(b"/0.9"));
    for value in head.values(b"Connection") {
        for token in value.split(|byte| *byte == b',') {
            let token = token.trim_ascii();
            if token.eq_ignore_ascii_case(b"close") {
                return Ok(false.into());
            }
            keep |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    Ok(keep.into())
}

fn described(http: &Http, event: Event) -> (&Message, &[u8]) {
    if is_response(event, http) {
        (&http.response, http.response.part(0))
    } else {
        (&http.request, http.request.part(2))
    }
}

fn redirects(ctx: &mut Ctx<'_>) -> Result<Value, Fault> {
    let http = exchange(ctx)?;
    let status = http.response.part(1);
    let redirect = matches!(status, b"301" | b"302" | b"303" | b"305" | b"307" | b"308");
    Ok((http.has_response && redirect).into())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::COMMANDS;
    use crate::event::Event::{HttpRequest, HttpResponse};

    const REQUEST: &str = "GET / HTTP/1.1\nHost: a\nX-A: 1\nx-a: 2\nConnection: Upgrade, close\n\n";
    const RESPONSE: &str = "HTTP/1.1 302 Found\nServer: IIS\nLocation: /b\nContent-Length: 0\n\n";

    #[test]
    fn a_name_that_occurs_often_means_its_last_field() {
        let mut bench = Bench::http(REQUEST, "");
        for (line, gives) in [
            ("HTTP::header value X-A", "2"),
            ("HTTP::header x-a", "2"),
            ("HTTP::header X-A:", "2"),
            ("http_header host", "a"),
            ("HTTP::header values X-A", "1 2"),
            ("HTTP::header value None", ""),
            ("HTTP::header names", "Host X-A x-a Connection"),
            ("HTTP::header count", "4"),
            ("HTTP::header count X-A", "2"),
            ("HTTP::header at 0", "Host"),
            ("HTTP::header at 9", ""),
            ("HTTP::header exists HOST", "1"),
            ("HTTP::header exists H", "0"),
            ("HTTP::header is_keepalive", "0"),
            ("HTTP::header replace X-A 3", ""),
            ("HTTP::header value X-A", "3"),
            ("HTTP::header values X-A", "1 3"),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), gives, "{line}");
        }
    }

    #[test]
    fn fields_are_inserted_one_by_one_in_pairs_and_from_a_list() {
        let mut bench = Bench::http(REQUEST, "");
        for line in [
            "HTTP::header insert B 1 C: 2",
            "HTTP::header insert {D 3 E {4 5}}",
            "HTTP::header insert lws F 6",
            "HTTP::header replace G 7",
            "HTTP::header H 8",
            "HTTP::header remove X-A",
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), "", "{line}");
        }
        assert_eq!(
            bench.request(),
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\n\
             B: 1\r\nC: 2\r\nD: 3\r\nE: 4 5\r\nF: 6\r\nG: 7\r\nH: 8\r\n\r\n"
        );
        let odd = bench.run(HttpRequest, COMMANDS, "HTTP::header insert A 1 B");
        assert!(odd.starts_with("error: wrong # args"), "{odd}");
    }

    #[test]
    fn response_events_speak_of_the_response() {
        let mut bench = Bench::http(REQUEST, RESPONSE);
        for (line, gives) in [
            ("HTTP::header Server", "IIS"),
            ("HTTP::header is_redirect", "1"),
            ("HTTP::is_redirect", "1"),
            ("HTTP::is_keepalive", "1"),
            ("HTTP::header sanitize Location:", ""),
            ("HTTP::header names", "Location Content-Length"),
        ] {
            assert_eq!(bench.run(HttpResponse, COMMANDS, line), gives, "{line}");
        }
        assert_eq!(bench.run(HttpRequest, COMMANDS, "HTTP::header Host"), "a");
    }

    #[test]
    fn a_head_that_a_rule_has_answered_is_out_of_reach() {
        let mut bench = Bench::http(REQUEST, "");
        bench.flow.http.as_mut().unwrap().respond = Some(Default::default());
        assert_eq!(
            bench.run(HttpRequest, COMMANDS, "HTTP::header Host"),
            "error: Illegal argument. Can't execute in the current context"
        );
        bench.flow.http = None;
        let none = bench.run(HttpRequest, COMMANDS, "HTTP::header Host");
        assert!(none.starts_with("error: Operation not supported"), "{none}");
    }
}
