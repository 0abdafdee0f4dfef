//! Throws words at random at the world's commands: whatever they are, a command ends soon and without a panic.

use super::TABLES;
use super::testing::World;
use crate::command::ANY;
use crate::commands::testing::Dice;
use crate::data_group::Kind;
use crate::event::Event;
use crate::flow::{Held, Http};
use crate::value::Value;

const WORDS: [&str; 40] = [
    "",
    "0",
    "1",
    "-1",
    "65536",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "{",
    "a {b c} {}",
    "a=b; c=\"d",
    "/a/b?c=d&e=%zz%",
    "http://[::1]:99999/x?",
    "10.0.0.0/33",
    "255.255.255.255%9",
    "::ffff:1.2.3.4",
    "1.2.3.4:80",
    "www.example.com",
    "..",
    "%41%",
    "names",
    "strings",
    "-normalized",
    "-subtable",
    "-notouch",
    "-index",
    "-value",
    "-key",
    "-alg",
    "hmac-sha256",
    "aes-256-cbc",
    "AES 128 00112233445566778899aabbccddeeff",
    "group",
    "contains",
    "starts_with",
    "pool",
    "member",
    "Set-Cookie",
    "Cookie",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
];

#[test]
fn no_words_make_a_command_of_the_world_panic_or_run_on() {
    let mut dice = Dice(7);
    let mut world = world();
    for round in 0..60_000 {
        if round % 500 == 0 {
            world = self::world();
        }
        let table = TABLES[dice.below(TABLES.len())];
        let command = &table[dice.below(table.len())];
        let known: Vec<&str> = command
            .usage
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
            .filter(|word| !word.is_empty())
            .chain(command.subs.iter().map(|sub| sub.name))
            .collect();
        let mut words = Vec::new();
        for _ in 0..dice.below(6) {
            words.push(match dice.below(4) {
                0 => {
                    let len = dice.below(40);
                    let bytes: Vec<u8> = (0..len).map(|_| dice.below(256) as u8).collect();
                    Value::from(bytes)
                }
                1 if !known.is_empty() => Value::from(known[dice.below(known.len())]),
                _ => Value::from(dice.pick(&WORDS)),
            });
        }
        let (least, most) = (usize::from(command.least), usize::from(command.most));
        if words.len() < least || (words.len() > most && command.most != ANY) {
            continue;
        }
        world.event = match dice.below(3) {
            0 => Event::HttpRequest,
            1 => Event::HttpResponse,
            _ => Event::ClientData,
        };
        if !command.events.has(world.event) {
            continue;
        }
        let mut ctx = world.ctx();
        *ctx.steps() = 1_000_000;
        if let Ok(value) = (command.run)(&mut ctx, &words) {
            assert!(value.len() < 1 << 20, "{} {words:?}", command.name);
        }
    }
}

/// A connection amid an exchange, with something of everything.
fn world() -> World {
    let mut world = World::new();
    world.data_group("group", Kind::String, &[("a", "1"), ("www", "2")]);
    world.pool("pool", &[("10.0.0.1:80", true), ("10.0.0.2:80", false)]);
    let mut http = Http::default();
    let request = b"GET /a?b HTTP/1.1\r\nHost: x\r\nCookie: a=b; c\r\n\r\n";
    let fields = [(19..23, 25..26), (28..34, 36..42)];
    http.request.set(request, [0..3, 4..8, 9..17], fields);
    let response = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; path=/; secure\r\n\r\n";
    http.response
        .set(response, [0..8, 9..12, 13..15], [(17..27, 29..48)]);
    http.has_response = true;
    let held = || Held {
        bytes: Value::from("some bytes"),
        ..Held::default()
    };
    (http.request_body, http.response_body) = (held(), held());
    world.flow.http = Some(Box::new(http));
    world.flow.client_data = held();
    world
}
