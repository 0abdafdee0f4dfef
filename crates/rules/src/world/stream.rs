//! `STREAM::` commands: what is looked for in the bytes that pass, and what it becomes.

use super::ip::CONNECTION;
use crate::command::{Command, Ctx};
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("STREAM::expression", "expression", 1, 1, expression).at(CONNECTION),
    Command::new("STREAM::enable", "", 0, 0, |ctx, _| {
        ctx.flow.stream.enabled = true;
        Ok(Value::Empty)
    })
    .at(CONNECTION),
    Command::new("STREAM::disable", "", 0, 0, |ctx, _| {
        ctx.flow.stream.enabled = false;
        Ok(Value::Empty)
    })
    .at(CONNECTION),
    Command::new("STREAM::match", "", 0, 0, |ctx, _| {
        Ok(ctx.flow.stream.matched.clone())
    })
    .at(MATCHED),
    Command::new("STREAM::replace", "?text?", 0, 1, |ctx, args| {
        let text = args.first().unwrap_or(&ctx.flow.stream.matched).clone();
        ctx.flow.stream.replacement = Some(text);
        Ok(Value::Empty)
    })
    .at(MATCHED),
    Command::new("STREAM::max_matchsize", "?size?", 0, 1, max_match).at(CONNECTION),
    Command::new("STREAM::encoding", "?encoding?", 0, 1, encoding)
        .at(CONNECTION)
        .differs("texts are bytes, so that utf-8 and ascii are the same; others are an error"),
];

const MATCHED: Events = Events::of(&[Event::StreamMatched]);

fn expression(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let mut pairs = Vec::new();
    let plain = !matches!(args[0], Value::List(_));
    if !(plain && read(&args[0].bytes(), &mut pairs).is_ok()) {
        // A list whose elements have blanks in them, and so braces around.
        pairs.clear();
        for item in &*args[0].list()? {
            read(&item.bytes(), &mut pairs)?;
        }
    }
    ctx.flow.stream.replace = pairs;
    Ok(Value::Empty)
}

/// Reads `@find@replacement@`, one behind the other. The first byte of each says what it is divided by.
fn read(text: &[u8], pairs: &mut Vec<(Value, Option<Value>)>) -> Result<(), Fault> {
    let mut rest = text.trim_ascii();
    while let [divider, behind @ ..] = rest {
        if !b".*/-:_?=@,&".contains(divider) {
            return Err(malformed(text));
        }
        let mut parts = behind.splitn(3, |byte| byte == divider);
        let (Some(find), Some(replacement), Some(more)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed(text));
        };
        if find.is_empty() {
            return Err(malformed(text));
        }
        pairs.push((Value::new(find), Some(Value::new(replacement))));
        rest = more.trim_ascii_start();
    }
    Ok(())
}

fn malformed(text: &[u8]) -> Fault {
    Fault::error(format!(
        "Illegal argument. \"{}\" is not of the form \"@find@replacement@ ...\"",
        String::from_utf8_lossy(text)
    ))
}

fn max_match(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if let [size] = args {
        ctx.flow.stream.max_match = usize::try_from(size.int()?)
            .map_err(|_| Fault::error("Illegal argument. A size can't be negative"))?;
        return Ok(Value::Empty);
    }
    Ok(ctx.flow.stream.max_match.into())
}

fn encoding(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if let [encoding] = args {
        let name = encoding.bytes().to_ascii_lowercase();
        if !matches!(&*name, b"ascii" | b"utf-8" | b"utf8") {
            return Err(Fault::bad(
                "encoding",
                &encoding.bytes(),
                &["ascii", "utf-8"],
            ));
        }
        ctx.flow.stream.encoding = Some(encoding.clone());
        return Ok(Value::Empty);
    }
    let encoding = ctx.flow.stream.encoding.clone();
    Ok(encoding.unwrap_or_else(|| Value::from("ascii")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event::{HttpResponse, StreamMatched};
    use crate::world::http::testing::Bench;

    fn pairs(bench: &Bench) -> Vec<(String, String)> {
        let pairs = bench.flow.stream.replace.iter();
        let text = |value: &Option<Value>| value.as_ref().unwrap().lossy();
        pairs.map(|(find, new)| (find.lossy(), text(new))).collect()
    }

    #[test]
    fn an_expression_is_read_as_pairs() {
        let mut bench = Bench::new();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        for (line, expected) in [
            ("@http://@https://@", vec![pair("http://", "https://")]),
            ("{@a b@c@ /d/e/}", vec![pair("a b", "c"), pair("d", "e")]),
            ("{{@a b@c@} =d==}", vec![pair("a b", "c"), pair("d", "")]),
            ("{=d== {@a b@c@}}", vec![pair("d", ""), pair("a b", "c")]),
            ("{@a@@@b@c@}", vec![pair("a", ""), pair("b", "c")]),
            ("{}", vec![]),
        ] {
            let gives = bench.run(
                HttpResponse,
                COMMANDS,
                &format!("STREAM::expression {line}"),
            );
            assert_eq!(gives, "", "{line}");
            assert_eq!(pairs(&bench), expected, "{line}");
        }
        for line in ["x", "@a", "@a@b", "@@b@", "@a@b@ x"] {
            let gives = bench.run(
                HttpResponse,
                COMMANDS,
                &format!("STREAM::expression {{{line}}}"),
            );
            assert!(gives.starts_with("error: "), "{line}: {gives}");
        }
    }

    #[test]
    fn what_was_found_is_replaced_or_left() {
        let mut bench = Bench::new();
        bench.run(HttpResponse, COMMANDS, "STREAM::enable");
        bench.flow.stream.matched = Value::from("http://a");
        assert_eq!(
            bench.run(StreamMatched, COMMANDS, "STREAM::match"),
            "http://a"
        );
        bench.run(StreamMatched, COMMANDS, "STREAM::replace https://a");
        assert!(
            bench
                .flow
                .stream
                .replacement
                .take()
                .unwrap()
                .is(b"https://a")
        );
        bench.run(StreamMatched, COMMANDS, "STREAM::replace");
        assert!(
            bench
                .flow
                .stream
                .replacement
                .take()
                .unwrap()
                .is(b"http://a")
        );
        bench.run(StreamMatched, COMMANDS, "STREAM::max_matchsize 200");
        assert_eq!(
            bench.run(StreamMatched, COMMANDS, "STREAM::max_matchsize"),
            "200"
        );
        assert_eq!(
            bench.run(HttpResponse, COMMANDS, "STREAM::encoding"),
            "ascii"
        );
        assert_eq!(
            bench.run(HttpResponse, COMMANDS, "STREAM::encoding utf-8"),
            ""
        );
        let bad = bench.run(HttpResponse, COMMANDS, "STREAM::encoding utf-16");
        assert!(bad.starts_with("error: "), "{bad}");
        bench.run(HttpResponse, COMMANDS, "STREAM::disable");
        assert!(!bench.flow.stream.enabled);
    }
}
