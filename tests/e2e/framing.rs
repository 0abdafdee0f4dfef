//! Requests that two parties might frame differently, over real sockets: what is accepted reaches the origin once and with
//! the same meaning; what is refused gets its status, is counted by its reason and never reaches the origin.

use headgate_tests::{Headgate, Message, Origin, Wire, eventually};
use std::net::{TcpListener, TcpStream};

const TABLE: &str = include_str!("../../crates/wire/testdata/framing.txt");

/// A line of the table.
struct Case {
    name: &'static str,
    accepted: usize,
    refused: Option<(u16, &'static str)>,
    bytes: Vec<u8>,
}

#[test]
fn every_request_of_the_table_has_its_outcome() {
    let origin = Origin::named("ok");
    let gate = Headgate::start(&format!(
        "pools: {{app: {{members: ['{}']}}}}\nvirtuals: {{web: {{listen: '$IP:8080', pool: app}}}}",
        origin.address()
    ));
    let mut wrong = Vec::new();
    let cases = cases();
    assert!(cases.len() >= 200, "{} cases", cases.len());
    for case in &cases {
        origin.forget();
        if let Err(why) = replay(case, &gate, &origin) {
            wrong.push(format!("{}: {why}", case.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn replay(case: &Case, gate: &Headgate, origin: &Origin) -> Result<(), String> {
    let meant = match case.accepted {
        0 => Vec::new(),
        n => understood(&case.bytes, n),
    };
    let before = case.refused.map(|(_, reason)| gate.refusals("web", reason));
    let mut wire = Wire::connect(gate.at(8080));
    // A refusal may come before the last byte is taken.
    let _ = wire.try_send(&case.bytes);
    for request in &meant {
        let answer = response(&mut wire, request.method())?;
        if answer.status() != 200 {
            return Err(format!("answered by {}", answer.line));
        }
    }
    if let (Some((status, reason)), Some(before)) = (case.refused, before) {
        let answer = response(&mut wire, "GET")?;
        if answer.status() != status {
            return Err(format!("{} instead of {status} {reason}", answer.line));
        }
        wire.assert_closed();
        eventually("the refusal is counted", || {
            (gate.refusals("web", reason) > before).then_some(())
        });
    } else {
        wire.finish();
        wire.assert_closed();
    }
    let came = origin.requests();
    if came.len() != meant.len() {
        return Err(format!(
            "{} requests came to the origin: {came:?}",
            came.len()
        ));
    }
    for (came, meant) in came.iter().zip(&meant) {
        same(came, meant)?;
    }
    Ok(())
}

fn response(wire: &mut Wire, method: &str) -> Result<Message, String> {
    loop {
        let answer = wire
            .try_response(method)
            .map_err(|error| format!("no answer: {error}"))?;
        if answer.status() >= 200 {
            return Ok(answer);
        }
    }
}

/// Whether a request means at the origin what it meant at the client.
fn same(came: &Message, meant: &Message) -> Result<(), String> {
    let target = meant.target();
    let path = match target.split_once("://") {
        Some((_, rest)) => match rest.find(['/', '?']) {
            Some(at) if rest[at..].starts_with('?') => format!("/{}", &rest[at..]),
            Some(at) => rest[at..].to_owned(),
            None => "/".to_owned(),
        },
        None => target.to_owned(),
    };
    for (what, came, meant) in [
        ("method", came.method(), meant.method()),
        ("target", came.target(), path.as_str()),
    ] {
        if came != meant {
            return Err(format!("{what} {came:?} instead of {meant:?}"));
        }
    }
    if came.body != meant.body {
        return Err(format!("body {:?} instead of {:?}", came.body, meant.body));
    }
    if came.trailers != meant.trailers {
        return Err(format!("trailers {:?}", came.trailers));
    }
    if came.all("host").len() != 1 {
        return Err(format!("hosts {:?}", came.all("host")));
    }
    // An absolute target's authority stands before the Host field (RFC 9112, 3.2.2).
    let authority = target.split_once("://").map(|(_, rest)| {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        &rest[..end]
    });
    if let Some(host) = authority.or(meant.field("host"))
        && came.field("host") != Some(host)
    {
        return Err(format!("host {:?} instead of {host:?}", came.field("host")));
    }
    let x = |message: &Message| {
        let all = message.fields.iter();
        all.filter(|(name, _)| name == "X" || name == "Y")
            .cloned()
            .collect::<Vec<_>>()
    };
    match x(came) == x(meant) {
        true => Ok(()),
        false => Err(format!("fields {:?} instead of {:?}", x(came), x(meant))),
    }
}

/// The first messages as this test's own reader understands them.
fn understood(bytes: &[u8], count: usize) -> Vec<Message> {
    let listener = TcpListener::bind((headgate_tests::address(), 0)).unwrap();
    let mut sender = Wire::of(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    sender.send(bytes);
    sender.finish();
    let mut reader = Wire::of(listener.accept().unwrap().0);
    (0..count).map(|_| reader.request().unwrap()).collect()
}

fn cases() -> Vec<Case> {
    let lines = TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.splitn(3, " | ");
            let (name, outcome, text) = (
                parts.next().unwrap(),
                parts.next().unwrap(),
                parts.next().unwrap(),
            );
            let mut case = Case {
                name,
                accepted: 0,
                refused: None,
                bytes: unescape(text),
            };
            for part in outcome.split(", ") {
                let (first, second) = part.split_once(' ').unwrap_or((part, "1"));
                match first {
                    "partial" => {}
                    "accept" => case.accepted = second.parse().unwrap(),
                    status => case.refused = Some((status.parse().unwrap(), second)),
                }
            }
            case
        })
        .collect()
}

/// Bytes as the table writes them.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.chars().next().unwrap();
        rest = &rest[1..];
        match escape {
            'r' => out.push(b'\r'),
            'n' => out.push(b'\n'),
            't' => out.push(b'\t'),
            '0' => out.push(0),
            '\\' => out.push(b'\\'),
            'x' => {
                out.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                rest = &rest[2..];
            }
            '{' => {
                let (inner, after) = rest.split_once('}').unwrap();
                let (times, text) = inner.split_once('*').unwrap();
                out.extend(unescape(text).repeat(times.parse().unwrap()));
                rest = after;
            }
            other => panic!("unknown escape {other}"),
        }
    }
    out
}
