//! Attributes of the cookies that a response sets (RFC 6265 section 4.1): `HTTP::cookie path`, `secure`, `attribute` …

use super::cookie::{cookies, in_set_cookie};
use crate::command::Ctx;
use crate::fault::Fault;
use crate::message::Message;
use crate::value::Value;
use crate::world::date::http_date;

/// Runs the subcommands that are about an attribute; `None` for others.
pub(super) fn run(ctx: &mut Ctx<'_>, sub: &[u8], words: &[Value]) -> Option<Result<Value, Fault>> {
    let attribute = match sub {
        b"path" => "Path",
        b"domain" => "Domain",
        b"ports" => "Port",
        b"comment" => "Comment",
        b"commenturl" => "CommentURL",
        b"version" => "Version",
        b"maxage" => "Max-Age",
        b"secure" => return Some(flag(ctx, "Secure", words)),
        b"httponly" => return Some(flag(ctx, "HttpOnly", words)),
        b"expires" => return Some(expires(ctx, words)),
        b"attribute" => return Some(generic(ctx, words)),
        _ => return None,
    };
    Some(text(ctx, attribute, words))
}

/// Takes all attributes of a cookie out but those.
pub(super) fn sanitize(ctx: &mut Ctx<'_>, name: &[u8], kept: &[Value]) -> Result<Value, Fault> {
    change(ctx, name, |field| {
        let mut parts = field.split(|byte| *byte == b';');
        let mut new = parts.next().unwrap_or_default().to_vec();
        for part in parts {
            let key = key(part);
            if kept
                .iter()
                .any(|kept| kept.bytes().eq_ignore_ascii_case(key))
            {
                new.push(b';');
                new.extend_from_slice(part);
            }
        }
        new
    })
}

fn text(ctx: &mut Ctx<'_>, attribute: &str, words: &[Value]) -> Result<Value, Fault> {
    match words {
        [name] => {
            let value = read(ctx, &name.bytes(), attribute.as_bytes())?;
            Ok(match value {
                None if attribute == "Version" => Value::Int(0),
                other => other.unwrap_or_default(),
            })
        }
        [name, value] => {
            if attribute == "Max-Age" {
                value.int()?;
            }
            put(
                ctx,
                &name.bytes(),
                attribute.as_bytes(),
                Some(&value.bytes()),
            )
        }
        _ => Err(usage()),
    }
}

fn flag(ctx: &mut Ctx<'_>, attribute: &str, words: &[Value]) -> Result<Value, Fault> {
    match words {
        [name] => {
            let value = read(ctx, &name.bytes(), attribute.as_bytes())?;
            Ok(value.is_some().into())
        }
        [name, word] => match &*word.bytes() {
            b"enable" => put(ctx, &name.bytes(), attribute.as_bytes(), None),
            b"disable" => take(ctx, &name.bytes(), attribute.as_bytes()),
            other => Err(Fault::bad("argument", other, &["enable", "disable"])),
        },
        _ => Err(usage()),
    }
}

fn expires(ctx: &mut Ctx<'_>, words: &[Value]) -> Result<Value, Fault> {
    let (name, seconds, absolute) = match words {
        [name] => {
            let value = read(ctx, &name.bytes(), b"Expires")?;
            return Ok(value.unwrap_or_default());
        }
        [name, seconds] => (name, seconds, false),
        [name, seconds, word] => match &*word.bytes() {
            b"absolute" => (name, seconds, true),
            b"relative" => (name, seconds, false),
            other => return Err(Fault::bad("argument", other, &["absolute", "relative"])),
        },
        _ => return Err(usage()),
    };
    let base = if absolute {
        0
    } else {
        ctx.host.now().as_secs() as i64
    };
    let date = http_date(base.saturating_add(seconds.int()?));
    put(ctx, &name.bytes(), b"Expires", Some(date.as_bytes()))
}

fn generic(ctx: &mut Ctx<'_>, words: &[Value]) -> Result<Value, Fault> {
    let [name, sub, rest @ ..] = words else {
        return Err(usage());
    };
    let name = name.bytes();
    match (&*sub.bytes(), rest) {
        (b"exists", [attribute]) => Ok(read(ctx, &name, &attribute.bytes())?.is_some().into()),
        (b"value", [attribute]) => Ok(read(ctx, &name, &attribute.bytes())?.unwrap_or_default()),
        (b"value" | b"insert", [attribute, value]) => {
            put(ctx, &name, &attribute.bytes(), Some(&value.bytes()))
        }
        (b"insert", [attribute]) => put(ctx, &name, &attribute.bytes(), None),
        (b"remove", [attribute]) => take(ctx, &name, &attribute.bytes()),
        (b"names", []) => Ok(Value::list_of(keys(ctx, &name)?)),
        (b"count", []) => Ok(keys(ctx, &name)?.len().into()),
        (b"exists" | b"value" | b"insert" | b"remove" | b"names" | b"count", _) => Err(usage()),
        (other, _) => {
            let choices = ["exists", "value", "insert", "remove", "names", "count"];
            Err(Fault::bad("subcommand", other, &choices))
        }
    }
}

fn usage() -> Fault {
    super::cookie::COMMANDS[0].wrong_args()
}

/// An attribute's name, in what stands between two semicolons.
fn key(part: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'=', part).unwrap_or(part.len());
    part[..end].trim_ascii()
}

fn field_of<'a>(head: &'a Message, name: &[u8]) -> Option<&'a [u8]> {
    let mut fields = head.values(b"Set-Cookie");
    fields.find(|field| in_set_cookie(field, name).is_some())
}

fn attributes(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|byte| *byte == b';').skip(1)
}

fn keys(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<Vec<Value>, Fault> {
    let (head, response) = cookies(ctx)?;
    let field = field_of(head, name)
        .filter(|_| response)
        .unwrap_or_default();
    Ok(attributes(field)
        .map(|part| Value::new(key(part)))
        .collect())
}

/// An attribute's value; empty for one that has none.
fn read(ctx: &mut Ctx<'_>, name: &[u8], attribute: &[u8]) -> Result<Option<Value>, Fault> {
    let (head, response) = cookies(ctx)?;
    let Some(field) = field_of(head, name).filter(|_| response) else {
        return Ok(None);
    };
    let part = attributes(field).find(|part| key(part).eq_ignore_ascii_case(attribute));
    Ok(part.map(|part| match memchr::memchr(b'=', part) {
        Some(at) => Value::new(part[at + 1..].trim_ascii()),
        None => Value::Empty,
    }))
}

/// Writes the fields of a cookie anew.
fn change(
    ctx: &mut Ctx<'_>,
    name: &[u8],
    write: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<Value, Fault> {
    let (head, response) = cookies(ctx)?;
    if response {
        for at in 0..head.len() {
            if let Some((field, text)) = head.field(at)
                && field.eq_ignore_ascii_case(b"Set-Cookie")
                && in_set_cookie(text, name).is_some()
            {
                let new = write(text);
                if new != text {
                    head.replace(at, new.into());
                }
            }
        }
    }
    Ok(Value::Empty)
}

fn without(field: &[u8], attribute: &[u8]) -> Vec<u8> {
    let mut parts = field.split(|byte| *byte == b';');
    let mut new = parts.next().unwrap_or_default().to_vec();
    for part in parts.filter(|part| !key(part).eq_ignore_ascii_case(attribute)) {
        new.push(b';');
        new.extend_from_slice(part);
    }
    new
}

fn take(ctx: &mut Ctx<'_>, name: &[u8], attribute: &[u8]) -> Result<Value, Fault> {
    change(ctx, name, |field| without(field, attribute))
}

fn put(
    ctx: &mut Ctx<'_>,
    name: &[u8],
    attribute: &[u8],
    value: Option<&[u8]>,
) -> Result<Value, Fault> {
    change(ctx, name, |field| {
        let mut new = without(field, attribute);
        new.extend_from_slice(b"; ");
        new.extend_from_slice(attribute);
        if let Some(value) = value {
            new.push(b'=');
            new.extend_from_slice(value);
        }
        new
    })
}

#[cfg(test)]
mod tests {
    use super::super::cookie::COMMANDS;
    use super::super::testing::Bench;
    use crate::event::Event::{HttpRequest, HttpResponse};

    #[test]
    fn attributes_are_read_set_and_removed() {
        let response = "HTTP/1.1 200 OK\nSet-Cookie: a=1; Path=/p; Secure; Expires=Wed, 21 Oct 2015 07:28:00 GMT\n\n";
        let mut bench = Bench::http("GET / HTTP/1.1\nCookie: a=1\n\n", response);
        for (line, gives) in [
            ("HTTP::cookie path a", "/p"),
            ("HTTP::cookie path b", ""),
            ("HTTP::cookie secure a", "1"),
            ("HTTP::cookie httponly a", "0"),
            ("HTTP::cookie expires a", "Wed, 21 Oct 2015 07:28:00 GMT"),
            ("HTTP::cookie version a", "0"),
            ("HTTP::cookie attribute a names", "Path Secure Expires"),
            ("HTTP::cookie attribute a count", "3"),
            ("HTTP::cookie attribute a exists SameSite", "0"),
            ("HTTP::cookie attribute a insert SameSite Lax", ""),
            ("HTTP::cookie attribute a value samesite", "Lax"),
            ("HTTP::cookie attribute a insert Partitioned", ""),
            ("HTTP::cookie attribute a remove Path", ""),
            ("HTTP::cookie secure a disable", ""),
            ("HTTP::cookie httponly a enable", ""),
            ("HTTP::cookie httponly a enable", ""),
            ("HTTP::cookie domain a .example.com", ""),
            ("HTTP::cookie maxage a 60", ""),
            ("HTTP::cookie expires a 60", ""),
        ] {
            assert_eq!(bench.run(HttpResponse, COMMANDS, line), gives, "{line}");
        }
        assert_eq!(
            bench.response(),
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; SameSite=Lax; Partitioned; HttpOnly; Domain=.example.com; \
             Max-Age=60; Expires=Wed, 21 Oct 2015 07:29:00 GMT\r\n\r\n"
        );
        bench.run(
            HttpResponse,
            COMMANDS,
            "HTTP::cookie sanitize a httponly domain",
        );
        bench.run(HttpResponse, COMMANDS, "HTTP::cookie expires a 0 absolute");
        assert_eq!(
            bench.response(),
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; HttpOnly; Domain=.example.com; \
             Expires=Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"
        );
        assert_eq!(bench.run(HttpRequest, COMMANDS, "HTTP::cookie path a"), "");
        assert_eq!(
            bench.run(HttpRequest, COMMANDS, "HTTP::cookie secure a enable"),
            ""
        );
        assert!(!bench.flow.http.as_ref().unwrap().request.is_changed());
        let bad = bench.run(HttpResponse, COMMANDS, "HTTP::cookie secure a maybe");
        assert_eq!(
            bad,
            "error: bad argument \"maybe\": must be enable or disable"
        );
    }
}
