//! What policies of the configuration ask of a request beyond F5's commands.

use crate::command::{Command, Ctx};
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::value::{Chars, Value};

pub(super) const COMMANDS: &[Command] = &[Command::new("HEADGATE::host", "", 0, 0, host)
    .at(Events::of(&[Event::HttpRequest]))
    .differs(
        "Headgate's own: the host that is asked for, in lower case, without port and trailing dot",
    )];

fn host(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    let Some(http) = &ctx.flow.http else {
        return Ok(Value::Empty);
    };
    let request = &http.request;
    let target = request.part(1);
    // An absolute target names the host, whatever the field says (RFC 9112 section 3.2.2).
    let authority = match memchr::memmem::find(target, b"://") {
        Some(at) if target.first() != Some(&b'/') => {
            let rest = &target[at + 3..];
            let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#'));
            &rest[..end.unwrap_or(rest.len())]
        }
        _ => request.values(b"host").next().unwrap_or_default(),
    };
    let host = match authority {
        [b'[', rest @ ..] => {
            let end = memchr::memchr(b']', rest).map_or(authority.len(), |at| at + 2);
            &authority[..end.min(authority.len())]
        }
        _ => &authority[..memchr::memchr(b':', authority).unwrap_or(authority.len())],
    };
    let host = host.strip_suffix(b".").unwrap_or(host);
    let mut lower = Chars::from_slice(host);
    lower.make_ascii_lowercase();
    Ok(Value::from_chars(lower))
}

#[cfg(test)]
mod tests {
    use crate::world::testing::World;

    #[test]
    fn the_host_is_that_of_the_target_or_of_the_field() {
        for (target, field, host) in [
            ("/", "WWW.Example.com", "www.example.com"),
            ("/", "a.example:8080", "a.example"),
            ("/x://y", "a.example.", "a.example"),
            ("/", "[2001:DB8::1]:80", "[2001:db8::1]"),
            ("http://B.example:1/x", "a.example", "b.example"),
        ] {
            let mut world = World::new();
            let raw = format!("GET {target} HTTP/1.1\r\nHost: {field}\r\n\r\n");
            let version = 5 + target.len()..13 + target.len();
            let name = version.end + 2..version.end + 6;
            let value = name.end + 2..name.end + 2 + field.len();
            let http = world.flow.http.get_or_insert_default();
            let start = [0..3, 4..4 + target.len(), version];
            http.request.set(raw.as_bytes(), start, [(name, value)]);
            assert_eq!(world.text("HEADGATE::host"), host, "{target} {field}");
        }
    }
}
