//! `HTTP::cookie`: what requests bring in `Cookie` fields, and responses set by `Set-Cookie` fields, one each.
//!
//! Reading one by its name is on the path of every request of many rules: it looks at the field's bytes where they are.
//! Attributes of `Set-Cookie` are in `cookie_attribute`.

use super::{EXCHANGE, cookie_attribute, cookie_crypt, is_response, open};
use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::message::Message;
use crate::value::Value;

pub(in crate::world) const COMMANDS: &[Command] = &[
    Command::new(
        "HTTP::cookie",
        "?value? name ?value? | names | count | exists name | \
         insert name name value value ?path path? ?domain domain? ?version version? | remove name | \
         sanitize ?-attributes? name ?attribute ...? | sanitize -names ?name ...? | \
         attribute name exists|value|remove|insert|names|count ?attribute? ?value? | \
         path|domain|ports|comment|commenturl|version name ?value? | maxage name ?seconds? | \
         expires name ?seconds? ?absolute|relative? | secure|httponly name ?enable|disable? | \
         encrypt|decrypt name passphrase ?128|192|256?",
        1,
        ANY,
        cookie,
    )
    .at(EXCHANGE)
    .differs(
        "attributes stand in responses only: requests have none (RFC 6265); `expires` gives the date as it is written; \
         `encrypt` writes base64 of nonce, AES-256-GCM ciphertext and tag under a key that HKDF-SHA256 makes of the \
         passphrase, whatever key length is asked for, so that cookies of a BIG-IP can't be decrypted",
    ),
    Command::new("http_cookie", "name", 1, 1, |ctx, args| value(ctx, &args[0].bytes())).at(EXCHANGE),
];

fn cookie(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let sub = args[0].bytes();
    match (&*sub, &args[1..]) {
        (b"value", [name]) => value(ctx, &name.bytes()),
        (b"remove", [name]) => remove(ctx, &name.bytes()),
        (b"exists", [name]) => {
            let (head, response) = cookies(ctx)?;
            Ok(found(head, response, &name.bytes()).is_some().into())
        }
        (b"value", [name, value]) => put(ctx, &name.bytes(), &value.bytes()),
        (b"insert", words) => insert(ctx, words),
        (b"names", []) => Ok(Value::list_of(names(ctx)?)),
        (b"count", []) => Ok(names(ctx)?.len().into()),
        (b"encrypt", [name, passphrase]) => cookie_crypt::encrypt(ctx, name, passphrase),
        (b"encrypt", [name, passphrase, bits]) => {
            cookie_crypt::check(bits)?;
            cookie_crypt::encrypt(ctx, name, passphrase)
        }
        (b"decrypt", [name, passphrase]) => cookie_crypt::decrypt(ctx, name, passphrase),
        (b"decrypt", [name, passphrase, bits]) => {
            cookie_crypt::check(bits)?;
            cookie_crypt::decrypt(ctx, name, passphrase)
        }
        (b"sanitize", words) => sanitize(ctx, words),
        (name, []) => value(ctx, name),
        (sub, words) => {
            if let Some(done) = cookie_attribute::run(ctx, sub, words) {
                return done;
            }
            match words {
                [value] => put(ctx, sub, &value.bytes()),
                _ => Err(COMMANDS[0].wrong_args()),
            }
        }
    }
}

/// The head that has the cookies, and whether it is the response's.
#[inline]
pub(super) fn cookies<'a>(ctx: &'a mut Ctx<'_>) -> Result<(&'a mut Message, bool), Fault> {
    let event = ctx.event;
    let http = open(ctx)?;
    Ok(if is_response(event, http) {
        (&mut http.response, true)
    } else {
        (&mut http.request, false)
    })
}

#[inline]
fn value(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<Value, Fault> {
    let (head, response) = cookies(ctx)?;
    Ok(found(head, response, name).map_or(Value::Empty, Value::new))
}

/// A cookie's value.
#[inline]
pub(super) fn found<'a>(head: &'a Message, response: bool, name: &[u8]) -> Option<&'a [u8]> {
    if response {
        let mut fields = head.values(b"Set-Cookie");
        fields.find_map(|field| in_set_cookie(field, name))
    } else {
        let mut fields = head.values(b"Cookie");
        fields.find_map(|field| in_cookie(field, name))
    }
}

/// The value of that cookie in a `Cookie` field.
#[inline]
fn in_cookie<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = field;
    loop {
        while let [b' ' | b'\t', tail @ ..] = rest {
            rest = tail;
        }
        if let Some(value) = begins(rest, name) {
            return Some(value);
        }
        rest = &rest[memchr::memchr(b';', rest)? + 1..];
    }
}

/// The value in a `Set-Cookie` field, if it is that cookie's.
#[inline]
pub(super) fn in_set_cookie<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    begins(field.trim_ascii_start(), name)
}

#[inline]
fn begins<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // Most others have no `=` at that place: no need to compare names.
    let (before, value) = match text.get(name.len()) {
        Some(b'=') => (&text[..name.len()], &text[name.len() + 1..]),
        _ => return None,
    };
    if before != name {
        return None;
    }
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    Some(value[..end].trim_ascii_end())
}

/// The pairs of a `Cookie` field, without the blanks around them.
fn pairs(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let pairs = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    pairs.filter(|pair| !pair.is_empty())
}

/// The name of a pair.
pub(super) fn name_of(pair: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'=', b';', pair).unwrap_or(pair.len());
    pair[..end].trim_ascii()
}

fn names(ctx: &mut Ctx<'_>) -> Result<Vec<Value>, Fault> {
    let (head, response) = cookies(ctx)?;
    if response {
        let fields = head.values(b"Set-Cookie");
        return Ok(fields.map(|field| Value::new(name_of(field))).collect());
    }
    let fields = head.values(b"Cookie");
    let pairs = fields.flat_map(pairs).map(name_of);
    // RFC 2965's $Version and $Path are about cookies, not cookies themselves.
    let named = pairs.filter(|name| name.first() != Some(&b'$'));
    Ok(named.map(Value::new).collect())
}

fn remove(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<Value, Fault> {
    let (head, response) = cookies(ctx)?;
    drop_where(head, response, |cookie| cookie == name);
    Ok(Value::Empty)
}

/// Takes out the cookies of whose name `gone` is true.
fn drop_where(head: &mut Message, response: bool, gone: impl Fn(&[u8]) -> bool) {
    if response {
        head.retain(|name, value| {
            !(name.eq_ignore_ascii_case(b"Set-Cookie") && gone(name_of(value)))
        });
        return;
    }
    let mut at = 0;
    while at < head.len() {
        match head.field(at) {
            Some((name, field))
                if name.eq_ignore_ascii_case(b"Cookie")
                    && pairs(field).any(|pair| gone(name_of(pair))) =>
            {
                let mut kept = Vec::with_capacity(field.len());
                for pair in pairs(field).filter(|pair| !gone(name_of(pair))) {
                    push_pair(&mut kept, pair);
                }
                if kept.is_empty() {
                    head.remove(at);
                    continue;
                }
                head.replace(at, kept.into());
            }
            _ => {}
        }
        at += 1;
    }
}

fn push_pair(field: &mut Vec<u8>, pair: &[u8]) {
    if !field.is_empty() {
        field.extend_from_slice(b"; ");
    }
    field.extend_from_slice(pair);
}

/// Puts another value in a cookie that is there.
fn put(ctx: &mut Ctx<'_>, name: &[u8], value: &[u8]) -> Result<Value, Fault> {
    let (head, response) = cookies(ctx)?;
    replace(head, response, name, value);
    Ok(Value::Empty)
}

/// Puts another value in the first cookie of that name: whether there is one.
pub(super) fn replace(head: &mut Message, response: bool, name: &[u8], value: &[u8]) -> bool {
    for at in 0..head.len() {
        let Some((field, text)) = head.field(at) else {
            break;
        };
        let old = match response {
            true if field.eq_ignore_ascii_case(b"Set-Cookie") => in_set_cookie(text, name),
            false if field.eq_ignore_ascii_case(b"Cookie") => in_cookie(text, name),
            _ => None,
        };
        let Some(old) = old else { continue };
        // What was found lies within the field's text.
        let start = old.as_ptr().addr() - text.as_ptr().addr();
        let new = [&text[..start], value, &text[start + old.len()..]].concat();
        head.replace(at, new.into());
        return true;
    }
    false
}

fn insert(ctx: &mut Ctx<'_>, words: &[Value]) -> Result<Value, Fault> {
    if words.len() % 2 == 1 {
        return Err(COMMANDS[0].wrong_args());
    }
    let (mut name, mut value) = (None, None);
    let mut attributes = Vec::new();
    for pair in words.chunks_exact(2) {
        match &*pair[0].bytes() {
            b"name" => name = Some(pair[1].bytes()),
            b"value" => value = Some(pair[1].bytes()),
            b"path" => attributes.push(("Path", pair[1].bytes())),
            b"domain" => attributes.push(("Domain", pair[1].bytes())),
            b"version" => {
                let version = pair[1].int()?;
                if !(0..=2).contains(&version) {
                    return Err(Fault::bad("version", &pair[1].bytes(), &["0", "1", "2"]));
                }
                // Netscape's cookies, which are those of today, tell no version.
                if version > 0 {
                    attributes.push(("Version", pair[1].bytes()));
                }
            }
            other => {
                let choices = ["name", "value", "path", "domain", "version"];
                return Err(Fault::bad("argument", other, &choices));
            }
        }
    }
    let (Some(name), Some(value)) = (name, value) else {
        return Err(COMMANDS[0].wrong_args());
    };
    let mut text = [&*name, b"=", &*value].concat();
    let (head, _) = cookies(ctx)?;
    let there: usize = head.values(b"Cookie").map(<[u8]>::len).sum();
    ctx.charge(64 + there + text.len())?;
    let (head, response) = cookies(ctx)?;
    if response {
        for (attribute, value) in attributes {
            text.extend_from_slice(b"; ");
            text.extend_from_slice(attribute.as_bytes());
            text.push(b'=');
            text.extend_from_slice(&value);
        }
        head.insert(None, Value::from("Set-Cookie"), text.into());
        return Ok(Value::Empty);
    }
    let last = head.places(b"Cookie").next_back();
    match last.and_then(|at| Some((at, head.field(at)?.1))) {
        Some((at, field)) => {
            let mut all = field.to_vec();
            push_pair(&mut all, &text);
            head.replace(at, all.into());
        }
        None => head.insert(None, Value::from("Cookie"), text.into()),
    }
    Ok(Value::Empty)
}

fn sanitize(ctx: &mut Ctx<'_>, words: &[Value]) -> Result<Value, Fault> {
    if let [flag, kept @ ..] = words
        && flag.is(b"-names")
    {
        let (head, response) = cookies(ctx)?;
        drop_where(head, response, |name| {
            !kept.iter().any(|kept| kept.is(name))
        });
        return Ok(Value::Empty);
    }
    let words = match words {
        [flag, rest @ ..] if flag.is(b"-attributes") => rest,
        _ => words,
    };
    let [name, kept @ ..] = words else {
        return Err(COMMANDS[0].wrong_args());
    };
    cookie_attribute::sanitize(ctx, &name.bytes(), kept)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::COMMANDS;
    use crate::event::Event::{HttpRequest, HttpResponse};

    const REQUEST: &str = "GET / HTTP/1.1\nHost: a\nCookie: a=1; ab=2;b = 3;empty=;  q=\"x=y\" ; $Path=/\n\
                           Accept: */*\nCookie: z=26\n\n";
    const RESPONSE: &str =
        "HTTP/1.1 200 OK\nSet-Cookie: a=1; Path=/; Secure\nServer: x\nset-cookie: b=2\n\n";

    #[test]
    fn a_request_s_cookies_are_found_by_their_whole_name() {
        let mut bench = Bench::http(REQUEST, "");
        for (line, gives) in [
            ("HTTP::cookie value a", "1"),
            ("HTTP::cookie ab", "2"),
            ("HTTP::cookie value A", ""),
            ("HTTP::cookie value empty", ""),
            ("HTTP::cookie value q", "\"x=y\""),
            ("HTTP::cookie value z", "26"),
            ("http_cookie z", "26"),
            ("HTTP::cookie value y", ""),
            ("HTTP::cookie exists empty", "1"),
            ("HTTP::cookie exists y", "0"),
            ("HTTP::cookie names", "a ab b empty q z"),
            ("HTTP::cookie count", "6"),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), gives, "{line}");
        }
        assert!(!bench.flow.http.unwrap().request.is_changed());
    }

    #[test]
    fn a_request_s_cookies_are_removed_changed_and_inserted() {
        let mut bench = Bench::http(REQUEST, "");
        let fields = |bench: &Bench| {
            let request = &bench.flow.http.as_ref().unwrap().request;
            let values = request.values(b"Cookie").map(String::from_utf8_lossy);
            values.collect::<Vec<_>>().join(" | ")
        };
        for (line, becomes) in [
            (
                "HTTP::cookie remove ab",
                "a=1; b = 3; empty=; q=\"x=y\"; $Path=/ | z=26",
            ),
            (
                "HTTP::cookie remove none",
                "a=1; b = 3; empty=; q=\"x=y\"; $Path=/ | z=26",
            ),
            (
                "HTTP::cookie remove z",
                "a=1; b = 3; empty=; q=\"x=y\"; $Path=/",
            ),
            (
                "HTTP::cookie value a {9 9}",
                "a=9 9; b = 3; empty=; q=\"x=y\"; $Path=/",
            ),
            (
                "HTTP::cookie empty full",
                "a=9 9; b = 3; empty=full; q=\"x=y\"; $Path=/",
            ),
            ("HTTP::cookie sanitize -names a q", "a=9 9; q=\"x=y\""),
            (
                "HTTP::cookie insert name n value v path /",
                "a=9 9; q=\"x=y\"; n=v",
            ),
            ("HTTP::cookie sanitize -names", ""),
            ("HTTP::cookie insert value v name n", "n=v"),
        ] {
            assert_eq!(bench.run(HttpRequest, COMMANDS, line), "", "{line}");
            assert_eq!(fields(&bench), becomes, "{line}");
        }
    }

    #[test]
    fn a_response_s_cookies_have_a_field_each() {
        let mut bench = Bench::http(REQUEST, RESPONSE);
        for (line, gives) in [
            ("HTTP::cookie value a", "1"),
            ("HTTP::cookie value b", "2"),
            ("HTTP::cookie value Path", ""),
            ("HTTP::cookie names", "a b"),
            ("HTTP::cookie value a 10", ""),
            ("HTTP::cookie remove b", ""),
            (
                "HTTP::cookie insert name c value 3 path /x domain d version 1",
                "",
            ),
        ] {
            assert_eq!(bench.run(HttpResponse, COMMANDS, line), gives, "{line}");
        }
        assert_eq!(
            bench.response(),
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=10; Path=/; Secure\r\nServer: x\r\n\
             Set-Cookie: c=3; Path=/x; Domain=d; Version=1\r\n\r\n"
        );
    }

    #[test]
    fn wrong_words_are_errors() {
        let mut bench = Bench::http(REQUEST, "");
        for line in [
            "HTTP::cookie insert name a",
            "HTTP::cookie insert name a value b path",
            "HTTP::cookie insert name a value b color red",
            "HTTP::cookie insert name a value b version 3",
            "HTTP::cookie a b c",
            "HTTP::cookie sanitize",
        ] {
            let gives = bench.run(HttpRequest, COMMANDS, line);
            assert!(gives.starts_with("error: "), "{line}: {gives}");
        }
    }
}
