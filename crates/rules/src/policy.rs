//! Policies: conditions of the configuration on a request, compiled to the same bytecode as rules.
//!
//! A policy is a list of cases. What a request's case is asked by [`Engine::decide`](crate::Engine::decide); what is then
//! done is left to whoever asked.

use crate::ast::{At, Binary, Command, Expr, Part, Script, Var, Word, WordKind};
use crate::value::Value;

/// A case of a policy: all of its conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// A condition: one of its tests must hold.
#[derive(Clone, Debug)]
pub struct Condition {
    /// What is looked at.
    pub subject: Subject,
    /// What it is tested for.
    pub any: Vec<Test>,
}

/// What a condition looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The host that is asked for, in lower case, without its port.
    Host,
    /// The path as it was sent, without the query.
    Path,
    /// The method.
    Method,
    /// The values of a field; a test holds if it does for one of them.
    Header(String),
    /// A cookie's value; empty where there is none.
    Cookie(String),
    /// The client's address.
    Address,
    /// The country of the client's address, two letters.
    Country,
}

/// What something is tested for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// It is there: of fields and cookies.
    Present,
    /// It is this text.
    Is(Vec<u8>),
    /// It begins so.
    StartsWith(Vec<u8>),
    /// It ends so, with something before.
    EndsWith(Vec<u8>),
    /// It ends so.
    EndsWithOrIs(Vec<u8>),
    /// It is this text, or begins with it and a `/`.
    Under(Vec<u8>),
    /// It is an address within this prefix: `10.0.0.0/8`.
    Within(String),
}

/// A subject, its variable, and the command that gives its value.
type Kept = (Subject, &'static [u8], &'static [&'static [u8]]);

/// The names of the variables in which subjects are kept that are asked for more than once.
const KEPT: &[Kept] = &[
    (Subject::Host, b"host", &[b"HEADGATE::host"]),
    (Subject::Path, b"path", &[b"HTTP::path"]),
    (Subject::Method, b"method", &[b"HTTP::method"]),
    (Subject::Address, b"address", &[b"IP::client_addr"]),
];

/// What is kept before the cases are asked: variables and the commands that give their values.
pub(crate) fn prelude(cases: &[Case]) -> Vec<(&'static [u8], Script)> {
    let asked = |subject: &Subject| {
        let mut conditions = cases.iter().flat_map(|case| &case.conditions);
        conditions.any(|condition| {
            condition.subject == *subject
                || (*subject == Subject::Address && condition.subject == Subject::Country)
        })
    };
    KEPT.iter()
        .filter(|(subject, _, _)| asked(subject))
        .map(|(_, name, words)| (*name, script(words)))
        .collect()
}

/// A case's conditions as one expression.
pub(crate) fn expression(case: &Case) -> Expr {
    let conditions = case.conditions.iter().map(|condition| {
        let tests = condition
            .any
            .iter()
            .map(|test| tested(&condition.subject, test));
        tests
            .reduce(|a, b| Expr::Or(Box::new((a, b))))
            .unwrap_or_else(|| truth(false))
    });
    conditions
        .reduce(|a, b| Expr::And(Box::new((a, b))))
        .unwrap_or_else(|| truth(true))
}

fn tested(subject: &Subject, test: &Test) -> Expr {
    match (subject, test) {
        (Subject::Header(name), Test::Present) => {
            called(&[b"HTTP::header", b"exists", name.as_bytes()])
        }
        (Subject::Header(name), Test::Is(text)) => {
            // One of several fields of the name is enough.
            let values = part(&[b"HTTP::header", b"values", name.as_bytes()]);
            let found = command(vec![
                word(Part::Text(b"lsearch".to_vec())),
                word(Part::Text(b"-exact".to_vec())),
                word(values),
                literal(text),
            ]);
            let found = Expr::Script(Script {
                commands: vec![found],
            });
            Expr::Binary(
                Binary::GreaterEqual,
                Box::new((found, Expr::Literal(Value::Int(0)))),
            )
        }
        (Subject::Cookie(name), Test::Present) => {
            called(&[b"HTTP::cookie", b"exists", name.as_bytes()])
        }
        (_, Test::Present) => truth(true),
        (_, Test::Is(text)) => compare(subject, Binary::TextEqual, text),
        (_, Test::StartsWith(text)) => compare(subject, Binary::StartsWith, text),
        (_, Test::EndsWithOrIs(text)) => compare(subject, Binary::EndsWith, text),
        (_, Test::EndsWith(text)) => Expr::And(Box::new((
            compare(subject, Binary::EndsWith, text),
            compare(subject, Binary::TextNotEqual, text),
        ))),
        (_, Test::Under(text)) => {
            let mut below = text.clone();
            if !below.ends_with(b"/") {
                below.push(b'/');
            }
            Expr::Or(Box::new((
                compare(subject, Binary::TextEqual, text),
                compare(subject, Binary::StartsWith, &below),
            )))
        }
        (_, Test::Within(prefix)) => Expr::Script(Script {
            commands: vec![command(vec![
                word(Part::Text(b"IP::addr".to_vec())),
                word(variable(b"address")),
                word(Part::Text(b"equals".to_vec())),
                literal(prefix.as_bytes()),
            ])],
        }),
    }
}

fn compare(subject: &Subject, operator: Binary, text: &[u8]) -> Expr {
    Expr::Binary(
        operator,
        Box::new((value(subject), Expr::Literal(Value::new(text)))),
    )
}

/// What gives a subject's value.
fn value(subject: &Subject) -> Expr {
    if let Some((_, name, _)) = KEPT.iter().find(|(kept, _, _)| kept == subject) {
        return Expr::Var(Var {
            name: name.to_vec(),
            index: None,
            at: 0,
        });
    }
    match subject {
        Subject::Header(name) => called(&[b"HTTP::header", b"value", name.as_bytes()]),
        Subject::Cookie(name) => called(&[b"HTTP::cookie", b"value", name.as_bytes()]),
        _ => Expr::Script(Script {
            commands: vec![command(vec![
                word(Part::Text(b"whereis".to_vec())),
                word(variable(b"address")),
                word(Part::Text(b"country".to_vec())),
            ])],
        }),
    }
}

fn truth(truth: bool) -> Expr {
    Expr::Literal(Value::from(truth))
}

fn called(words: &[&[u8]]) -> Expr {
    Expr::Script(script(words))
}

fn part(words: &[&[u8]]) -> Part {
    Part::Script(script(words))
}

fn script(words: &[&[u8]]) -> Script {
    Script {
        commands: vec![command(words.iter().map(|text| literal(text)).collect())],
    }
}

fn command(words: Vec<Word>) -> Command {
    const NOWHERE: At = 0;
    Command {
        words,
        at: NOWHERE,
        end: NOWHERE,
    }
}

fn literal(text: &[u8]) -> Word {
    word(Part::Text(text.to_vec()))
}

fn variable(name: &[u8]) -> Part {
    Part::Var(Var {
        name: name.to_vec(),
        index: None,
        at: 0,
    })
}

fn word(part: Part) -> Word {
    Word {
        parts: vec![part],
        at: 0,
        kind: WordKind::Bare,
        inner: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::testing::World;
    use crate::{Connection, Engine, Limits};

    fn case(conditions: Vec<(Subject, Vec<Test>)>) -> Case {
        let conditions = conditions.into_iter();
        Case {
            conditions: conditions
                .map(|(subject, any)| Condition { subject, any })
                .collect(),
        }
    }

    fn is(text: &str) -> Test {
        Test::Is(text.into())
    }

    /// Puts a request into the world, with its fields.
    fn ask(world: &mut World, method: &str, path: &str, fields: &[(&str, &str)]) {
        let mut raw = format!("{method} {path} HTTP/1.1\r\n");
        let target = method.len() + 1..method.len() + 1 + path.len();
        let version = target.end + 1..target.end + 9;
        let mut spans = Vec::new();
        for (name, value) in fields {
            let start = raw.len();
            raw.push_str(&format!("{name}: {value}\r\n"));
            let end = start + name.len();
            spans.push((start..end, end + 2..end + 2 + value.len()));
        }
        raw.push_str("\r\n");
        let http = world.flow.http.get_or_insert_default();
        let parts = [0..method.len(), target, version];
        http.request.set(raw.as_bytes(), parts, spans);
    }

    #[test]
    fn the_first_case_whose_conditions_all_hold_is_the_one() {
        let cases = [
            case(vec![
                (
                    Subject::Host,
                    vec![is("a.example"), Test::EndsWith(b".b.example".to_vec())],
                ),
                (Subject::Path, vec![Test::Under(b"/api".to_vec())]),
            ]),
            case(vec![(Subject::Cookie("beta".into()), vec![is("yes")])]),
            case(vec![(Subject::Cookie("seen".into()), vec![Test::Present])]),
            case(vec![(Subject::Header("x-a".into()), vec![is("2")])]),
            case(vec![
                (Subject::Method, vec![is("POST"), is("PUT")]),
                (
                    Subject::Address,
                    vec![
                        Test::Within("192.0.2.0/24".into()),
                        Test::Within("2001:db8::/32".into()),
                    ],
                ),
            ]),
            case(vec![(Subject::Country, vec![is("NL")])]),
            case(vec![(
                Subject::Path,
                vec![Test::EndsWithOrIs(b".css".to_vec())],
            )]),
        ];
        let mut engine = Engine::new(Limits::default(), 1);
        let program = engine.policy("web", &cases).unwrap();
        let country = ("198.51.100.9".parse().unwrap(), "country/iso_code", "NL");
        let mut decide = |client: &str, method: &str, path: &str, fields: &[(&str, &str)]| {
            let mut world = World::new();
            world.host.geography.push(country);
            world.flow.client.remote = client.parse().unwrap();
            ask(&mut world, method, path, fields);
            let World { flow, mut host, .. } = world;
            let mut connection = Connection::new(&program, flow);
            engine.decide(&mut connection, &mut host).unwrap()
        };
        let (here, there) = ("192.0.2.1:1", "203.0.113.1:1");
        for (client, method, path, fields, wanted) in [
            (
                there,
                "GET",
                "/api/x?y",
                &[("Host", "A.example:80")][..],
                Some(0),
            ),
            (there, "GET", "/api", &[("Host", "x.b.example")], Some(0)),
            (there, "GET", "/apis", &[("Host", "a.example")], None),
            (there, "GET", "/api", &[("Host", "b.example")], None),
            (there, "GET", "/", &[("Cookie", "a=1; beta=yes")], Some(1)),
            (there, "GET", "/", &[("Cookie", "beta=no; seen=")], Some(2)),
            (there, "GET", "/", &[("X-A", "1"), ("x-a", "2")], Some(3)),
            (here, "PUT", "/", &[], Some(4)),
            (there, "PUT", "/", &[], None),
            ("[2001:db8::5]:9", "POST", "/", &[], Some(4)),
            ("198.51.100.9:1", "GET", "/", &[], Some(5)),
            (there, "GET", "/a/b.css", &[], Some(6)),
        ] {
            assert_eq!(
                decide(client, method, path, fields),
                wanted,
                "{client} {method} {path} {fields:?}"
            );
        }
    }
}
