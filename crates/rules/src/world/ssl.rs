//! `SSL::` commands: what TLS handshakes have shown. What is in certificates is `x509`'s.

use super::ip::CONNECTION;
use crate::command::{Command, Ctx};
use crate::event::{Event, Events, Side};
use crate::fault::Fault;
use crate::flow::TlsFacts;
use crate::value::Value;
use std::rc::Rc;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("SSL::cert", "index | count", 1, 1, cert)
        .at(CONNECTION)
        .differs("`issuer` and `mode` are not there"),
    Command::new("SSL::cipher", "name | version | bits", 1, 1, cipher)
        .at(CONNECTION)
        .differs("`clientlist` is not there"),
    Command::new("SSL::sni", "name", 1, 1, sni)
        .at(CONNECTION)
        .differs("`required` is not there"),
    Command::new(
        "SSL::extensions",
        "?count | exists -type type | -index index | -type type?",
        0,
        3,
        extensions,
    )
    .at(CONNECTION)
    .differs("those of the client's ClientHello only; `insert` is not there"),
    Command::new("SSL::verify_result", "?code?", 0, 1, verify_result).at(CONNECTION),
    Command::new("SSL::mode", "", 0, 0, |ctx, _| {
        Ok(facts(ctx).is_some().into())
    })
    .at(CONNECTION),
    Command::new("SSL::alpn", "", 0, 0, |ctx, _| {
        let alpn = facts(ctx).and_then(|facts| facts.alpn.as_deref());
        Ok(alpn.map_or(Value::Empty, Value::new))
    })
    .at(CONNECTION)
    .differs("tells what was agreed upon; it can't be set"),
    Command::new(
        "SSL::disable",
        "?clientside|serverside?",
        0,
        1,
        |ctx, args| server_tls(ctx, args, true),
    )
    .at(BEFORE_MEMBERS)
    .differs("towards members only; on the client's side it is an error"),
    Command::new(
        "SSL::enable",
        "?clientside|serverside?",
        0,
        1,
        |ctx, args| server_tls(ctx, args, false),
    )
    .at(BEFORE_MEMBERS)
    .differs("takes back an SSL::disable; it does not add TLS to a pool that has none"),
];

/// Events before TLS with a member begins.
const BEFORE_MEMBERS: Events = Events::of(&[
    Event::ClientAccepted,
    Event::ClientsslClienthello,
    Event::ClientsslClientcert,
    Event::ClientsslHandshake,
    Event::ClientData,
    Event::HttpRequest,
    Event::HttpRequestData,
    Event::LbSelected,
    Event::LbFailed,
    Event::LbQueued,
    Event::PersistDown,
    Event::ServerConnected,
]);

/// What TLS has shown on the side that commands speak of.
fn facts<'a>(ctx: &'a Ctx<'_>) -> Option<&'a TlsFacts> {
    match ctx.side() {
        Side::Client => ctx.flow.client_tls.as_deref(),
        Side::Server => ctx.flow.server_tls.as_deref(),
    }
}

fn cert(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let certificates = facts(ctx).map_or(&[][..], |facts| &facts.certificates);
    if args[0].is(b"count") {
        return Ok(certificates.len().into());
    }
    let index = match args[0].int() {
        Ok(index) => usize::try_from(index).unwrap_or(usize::MAX),
        Err(_) => {
            return Err(Fault::error(format!(
                "SSL::cert {} is not implemented: must be an index or count",
                args[0].lossy()
            )));
        }
    };
    Ok(certificates
        .get(index)
        .map_or(Value::Empty, |der| Value::new(der)))
}

fn cipher(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let facts = facts(ctx);
    match &*args[0].bytes() {
        b"name" => Ok(Value::from(facts.map_or("(NONE)", |facts| &facts.cipher))),
        b"version" => Ok(Value::from(facts.map_or("none", |facts| facts.version))),
        b"bits" => Ok(Value::Int(facts.map_or(0, |facts| facts.bits.into()))),
        other => Err(Fault::bad("option", other, &["name", "version", "bits"])),
    }
}

fn sni(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if !args[0].is(b"name") {
        return Err(Fault::bad("option", &args[0].bytes(), &["name"]));
    }
    if let Some(name) = facts(ctx).and_then(|facts| facts.sni.as_deref()) {
        return Ok(Value::from(name));
    }
    // Before the handshake is done, the ClientHello itself tells.
    let hello = hello(ctx)?;
    let extension = Extensions(extensions_of(&hello)).find(|extension| extension.kind() == 0);
    let name = extension.and_then(|extension| server_name(extension.data()));
    Ok(name.map_or(Value::Empty, Value::new))
}

/// The host name in a `server_name` extension (RFC 6066 section 3).
fn server_name(data: &[u8]) -> Option<&[u8]> {
    let (mut names, _) = vector(data, 2)?;
    while let [kind, rest @ ..] = names {
        let (name, rest) = vector(rest, 2)?;
        if *kind == 0 {
            return Some(name);
        }
        names = rest;
    }
    None
}

fn extensions(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let hello = hello(ctx)?;
    let all = extensions_of(&hello);
    let of_type = |kind: &Value| -> Result<Option<Extension<'_>>, Fault> {
        let kind = kind.int()?;
        Ok(Extensions(all).find(|extension| i64::from(extension.kind()) == kind))
    };
    let whole = |extension: Option<Extension<'_>>| {
        extension.map_or(Value::Empty, |extension| Value::new(extension.0))
    };
    match args {
        [] => Ok(Value::new(all)),
        [word] if word.is(b"count") => Ok(Extensions(all).count().into()),
        [word, kind] if word.is(b"-type") => Ok(whole(of_type(kind)?)),
        [word, index] if word.is(b"-index") => {
            let index = usize::try_from(index.int()?).unwrap_or(usize::MAX);
            Ok(whole(Extensions(all).nth(index)))
        }
        [word, flag, kind] if word.is(b"exists") && flag.is(b"-type") => {
            Ok(of_type(kind)?.is_some().into())
        }
        _ => Err(Fault::usage(
            "SSL::extensions ?count | exists -type type | -index index | -type type?",
        )),
    }
}

/// The ClientHello's body, or nothing.
fn hello(ctx: &Ctx<'_>) -> Result<Rc<[u8]>, Fault> {
    if ctx.side() == Side::Server {
        return Err(Fault::error(
            "Operation not supported. Only the client's ClientHello is known",
        ));
    }
    Ok(ctx.flow.client_hello.clone().unwrap_or_default())
}

/// The extensions of a ClientHello (RFC 8446 section 4.1.2), which may still be in its records.
fn extensions_of(hello: &[u8]) -> &[u8] {
    // Where it takes several records, the parts that matter are found in the first in practice.
    let message = match hello {
        [22, 3, _, high, low, rest @ ..] => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            &rest[..length.min(rest.len())]
        }
        other => other,
    };
    let found = || {
        let body = match message {
            [1, body @ ..] => vector_or_rest(body),
            _ => return None,
        };
        let (_, rest) = vector(body.get(34..)?, 1)?;
        let (_, rest) = vector(rest, 2)?;
        let (_, rest) = vector(rest, 1)?;
        Some(vector(rest, 2)?.0)
    };
    found().unwrap_or_default()
}

/// A length of `width` bytes, and as many bytes; then the rest.
fn vector(bytes: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length
        .iter()
        .fold(0, |all, byte| all << 8 | usize::from(*byte));
    rest.split_at_checked(length)
}

/// A handshake message's body, as far as it is there.
fn vector_or_rest(bytes: &[u8]) -> &[u8] {
    vector(bytes, 3).map_or(bytes.get(3..).unwrap_or_default(), |(body, _)| body)
}

/// An extension: its type, length and data.
struct Extension<'a>(&'a [u8]);

struct Extensions<'a>(&'a [u8]);

impl<'a> Extension<'a> {
    fn kind(&self) -> u16 {
        u16::from_be_bytes([self.0[0], self.0[1]])
    }

    fn data(&self) -> &'a [u8] {
        &self.0[4..]
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Extension<'a>;

    fn next(&mut self) -> Option<Extension<'a>> {
        let (data, rest) = vector(self.0.get(2..)?, 2)?;
        let (whole, _) = self.0.split_at(4 + data.len());
        self.0 = rest;
        Some(Extension(whole))
    }
}

fn verify_result(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let side = ctx.side();
    let facts = match side {
        Side::Client => &mut ctx.flow.client_tls,
        Side::Server => &mut ctx.flow.server_tls,
    };
    match args {
        [code] => {
            let code = u32::try_from(code.int()?)
                .map_err(|_| Fault::error("Illegal argument. A code can't be negative"))?;
            if let Some(facts) = facts {
                Rc::make_mut(facts).verify_result = code;
            }
            Ok(Value::Empty)
        }
        _ => Ok(Value::Int(
            facts.as_ref().map_or(0, |facts| facts.verify_result.into()),
        )),
    }
}

fn server_tls(ctx: &mut Ctx<'_>, args: &[Value], off: bool) -> Result<Value, Fault> {
    if super::ip::side(ctx, args)? == Side::Client {
        return Err(Fault::error(
            "Operation not supported. TLS can be left out towards members only: say serverside",
        ));
    }
    ctx.flow.steering.server_tls_off = off;
    Ok(Value::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event::{ClientsslClienthello, ClientsslHandshake, HttpResponse};
    use crate::world::http::testing::Bench;

    /// A ClientHello with a server name and an empty extension 23, in a record or not.
    fn client_hello(name: &str, in_record: bool) -> Rc<[u8]> {
        let long = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
        let names = long(&[&[0][..], &long(name.as_bytes())].concat());
        let extensions = [&[0, 0][..], &long(&names), &[0, 23, 0, 0]].concat();
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([2, 1, 2]);
        body.extend(long(&[0x13, 1, 0x13, 2]));
        body.extend([1, 0]);
        body.extend(long(&extensions));
        let message = [&[1, 0][..], &long(&body)].concat();
        if in_record {
            [&[22, 3, 1][..], &long(&message)].concat().into()
        } else {
            message.into()
        }
    }

    #[test]
    fn what_a_handshake_showed_is_told_on_its_side() {
        let mut bench = Bench::new();
        for (line, gives) in [
            ("SSL::cert count", "0"),
            ("SSL::cert 0", ""),
            ("SSL::cipher name", "(NONE)"),
            ("SSL::cipher bits", "0"),
            ("SSL::mode", "0"),
            ("SSL::sni name", ""),
            ("SSL::verify_result", "0"),
        ] {
            assert_eq!(
                bench.run(ClientsslHandshake, COMMANDS, line),
                gives,
                "{line}"
            );
        }
        bench.flow.client_tls = Some(Rc::new(TlsFacts {
            sni: Some("www.example.com".into()),
            version: "TLSv1.2",
            cipher: "ECDHE-RSA-AES128-GCM-SHA256".into(),
            bits: 128,
            alpn: Some(b"http/1.1".to_vec()),
            certificates: vec![b"first".to_vec(), b"second".to_vec()],
            verify_result: 20,
            resumed: false,
        }));
        for (line, gives) in [
            ("SSL::cert count", "2"),
            ("SSL::cert 1", "second"),
            ("SSL::cert 2", ""),
            ("SSL::cert -1", ""),
            ("SSL::cipher name", "ECDHE-RSA-AES128-GCM-SHA256"),
            ("SSL::cipher version", "TLSv1.2"),
            ("SSL::cipher bits", "128"),
            ("SSL::mode", "1"),
            ("SSL::alpn", "http/1.1"),
            ("SSL::sni name", "www.example.com"),
            ("SSL::verify_result", "20"),
            ("SSL::verify_result 0", ""),
            ("SSL::verify_result", "0"),
        ] {
            assert_eq!(
                bench.run(ClientsslHandshake, COMMANDS, line),
                gives,
                "{line}"
            );
        }
        assert_eq!(bench.run(HttpResponse, COMMANDS, "SSL::mode"), "0");
        let bad = bench.run(ClientsslHandshake, COMMANDS, "SSL::cert mode");
        assert!(bad.starts_with("error: "), "{bad}");
    }

    #[test]
    fn a_client_hello_s_extensions_are_found_in_and_out_of_records() {
        for in_record in [true, false] {
            let mut bench = Bench::new();
            bench.flow.client_hello = Some(client_hello("a.example", in_record));
            for (line, gives) in [
                ("SSL::sni name", "a.example"),
                ("SSL::extensions count", "2"),
                ("SSL::extensions exists -type 0", "1"),
                ("SSL::extensions exists -type 23", "1"),
                ("SSL::extensions exists -type 16", "0"),
                ("SSL::extensions -type 23", "\0\u{17}\0\0"),
                ("SSL::extensions -index 1", "\0\u{17}\0\0"),
                ("SSL::extensions -index 2", ""),
            ] {
                assert_eq!(
                    bench.run(ClientsslClienthello, COMMANDS, line),
                    gives,
                    "{line}"
                );
            }
            let all = bench.run(ClientsslClienthello, COMMANDS, "SSL::extensions");
            assert!(all.contains("a.example") && all.ends_with("\0\u{17}\0\0"));
        }
    }

    #[test]
    fn no_piece_of_a_client_hello_is_read_beyond_its_end() {
        let whole = client_hello("a.example", true);
        for end in 0..whole.len() {
            let mut bench = Bench::new();
            bench.flow.client_hello = Some(whole[..end].into());
            assert_eq!(
                bench.run(ClientsslClienthello, COMMANDS, "SSL::extensions count"),
                "0"
            );
            assert_eq!(
                bench.run(ClientsslClienthello, COMMANDS, "SSL::sni name"),
                ""
            );
        }
    }

    #[test]
    fn tls_is_left_out_towards_members_only() {
        let mut bench = Bench::new();
        assert_eq!(
            bench.run(ClientsslHandshake, COMMANDS, "SSL::disable serverside"),
            ""
        );
        assert!(bench.flow.steering.server_tls_off);
        assert_eq!(
            bench.run(ClientsslHandshake, COMMANDS, "SSL::enable serverside"),
            ""
        );
        assert!(!bench.flow.steering.server_tls_off);
        let client = bench.run(ClientsslHandshake, COMMANDS, "SSL::disable");
        assert!(client.starts_with("error: "), "{client}");
    }
}
