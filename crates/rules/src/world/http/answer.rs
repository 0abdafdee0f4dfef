//! Answers of a rule's own, and the ends of exchanges: `HTTP::respond`, `HTTP::redirect`, `HTTP::retry`, `HTTP::close` …

use super::{EXCHANGE, exchange};
use crate::command::{ANY, Command, Ctx};
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::flow::{Http, Respond};
use crate::value::Value;

pub(in crate::world) const COMMANDS: &[Command] = &[
    Command::new(
        "HTTP::respond",
        "status ?-reset? ?-version auto|1.0|1.1? ?content text | ifile name? ?noserver? ?name value ...?",
        1,
        ANY,
        respond,
    )
    .at(EXCHANGE)
    .differs("`-reset` gives up the connection to the member"),
    Command::new("HTTP::redirect", "url", 1, 1, redirect).at(EXCHANGE),
    Command::new("HTTP::has_responded", "", 0, 0, |ctx, _| {
        let http = exchange(ctx)?;
        Ok((http.respond.is_some() || http.responded).into())
    })
    .at(EXCHANGE),
    Command::new("HTTP::retry", "?-reset? request", 1, 2, retry).at(EXCHANGE),
    Command::new("HTTP::close", "", 0, 0, |ctx, _| {
        exchange(ctx)?.close = true;
        Ok(Value::Empty)
    })
    .at(EXCHANGE),
    Command::new("HTTP::disable", "?discard?", 0, 1, |ctx, _| {
        exchange(ctx)?.disabled = true;
        Ok(Value::Empty)
    })
    .at(EXCHANGE.and(BEFORE))
    .differs("bytes that wait to be parsed are always relayed, never discarded"),
    Command::new("HTTP::enable", "", 0, 0, |ctx, _| {
        exchange(ctx)?.disabled = false;
        Ok(Value::Empty)
    })
    .at(EXCHANGE)
    .differs("takes back an HTTP::disable of the same event; once bytes are relayed they are not parsed again"),
];

/// Events before the first request, at which HTTP can be left.
const BEFORE: Events = Events::of(&[Event::ClientAccepted, Event::ClientsslHandshake]);

/// The exchange, so long as there is no answer yet.
fn unanswered<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a mut Http, Fault> {
    let http = exchange(ctx)?;
    if http.respond.is_some() || http.responded {
        return Err(Fault::error(
            "Operation not supported. Multiple redirect/respond invocations not allowed",
        ));
    }
    Ok(http)
}

fn respond(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let Ok(status @ 100..=999) = u16::try_from(args[0].int()?) else {
        return Err(Fault::error(format!(
            "Illegal argument. Invalid status code \"{}\"",
            args[0].lossy()
        )));
    };
    unanswered(ctx)?;
    let mut answer = Respond {
        status,
        version: "1.1",
        ..Respond::default()
    };
    let mut reset = false;
    let mut rest = &args[1..];
    while let [word, more @ ..] = rest {
        let bytes = word.bytes();
        rest = match (&*bytes, more) {
            (b"noserver", _) => {
                answer.no_server = true;
                more
            }
            (b"-reset", _) => {
                reset = true;
                more
            }
            (b"-version", [version, more @ ..]) => {
                answer.version = match &*version.bytes() {
                    b"1.0" => "1.0",
                    b"1.1" | b"auto" => "1.1",
                    other => return Err(Fault::bad("version", other, &["auto", "1.0", "1.1"])),
                };
                more
            }
            (b"content", [content, more @ ..]) => {
                answer.body = content.clone();
                more
            }
            (b"ifile", [name, more @ ..]) => {
                answer.body = ctx.host.ifile(&name.bytes()).ok_or_else(|| {
                    Fault::error(format!("ifile \"{}\" does not exist", name.lossy()))
                })?;
                more
            }
            (_, [value, more @ ..]) => {
                if bytes.eq_ignore_ascii_case(b"connection") {
                    answer.close |= value.bytes().eq_ignore_ascii_case(b"close");
                }
                let name = bytes.strip_suffix(b":").map(Value::new);
                let name = name.unwrap_or_else(|| word.clone());
                answer.fields.push((name, value.clone()));
                more
            }
            (_, []) => return Err(COMMANDS[0].wrong_args()),
        };
    }
    ctx.flow.steering.detach |= reset;
    exchange(ctx)?.respond = Some(answer);
    Ok(Value::Empty)
}

fn redirect(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    unanswered(ctx)?.respond = Some(Respond {
        status: 302,
        version: "1.1",
        fields: vec![(Value::from("Location"), args[0].clone())],
        ..Respond::default()
    });
    Ok(Value::Empty)
}

fn retry(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let request = match args {
        [request] => request,
        [flag, request] if flag.is(b"-reset") => {
            ctx.flow.steering.detach = true;
            request
        }
        _ => return Err(Fault::usage("HTTP::retry ?-reset? request")),
    };
    unanswered(ctx)?.retry = Some(request.clone());
    Ok(Value::Empty)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::COMMANDS;
    use crate::event::Event::{HttpRequest, HttpResponse};

    const REQUEST: &str = "GET / HTTP/1.1\nHost: a\n\n";

    #[test]
    fn an_answer_has_its_status_body_and_fields() {
        let mut bench = Bench::http(REQUEST, "");
        let line = "HTTP::respond 503 -version 1.0 content {so sorry} noserver Retry-After: 60 Connection Close";
        assert_eq!(bench.run(HttpRequest, COMMANDS, "HTTP::has_responded"), "0");
        assert_eq!(bench.run(HttpRequest, COMMANDS, line), "");
        assert_eq!(bench.run(HttpRequest, COMMANDS, "HTTP::has_responded"), "1");
        let answer = bench.flow.http.as_mut().unwrap().respond.take().unwrap();
        assert_eq!((answer.status, answer.version), (503, "1.0"));
        assert!(answer.body.is(b"so sorry") && answer.no_server && answer.close);
        let fields: Vec<_> = answer
            .fields
            .iter()
            .map(|(n, v)| (n.lossy(), v.lossy()))
            .collect();
        assert_eq!(
            fields,
            [
                ("Retry-After".into(), "60".into()),
                ("Connection".into(), "Close".into())
            ]
        );
        assert_eq!(
            bench.run(HttpRequest, COMMANDS, "HTTP::respond 200 ifile page"),
            ""
        );
        let answer = bench.flow.http.as_mut().unwrap().respond.take().unwrap();
        assert!(answer.body.is(b"the file") && !answer.no_server);
    }

    #[test]
    fn a_second_answer_is_an_error() {
        let mut bench = Bench::http(REQUEST, "");
        assert_eq!(
            bench.run(HttpRequest, COMMANDS, "HTTP::redirect https://a/b"),
            ""
        );
        for line in ["HTTP::redirect /c", "HTTP::respond 200", "HTTP::retry x"] {
            assert_eq!(
                bench.run(HttpRequest, COMMANDS, line),
                "error: Operation not supported. Multiple redirect/respond invocations not allowed"
            );
        }
        let answer = bench.flow.http.as_ref().unwrap().respond.as_ref().unwrap();
        assert_eq!(answer.status, 302);
        assert!(answer.fields[0].1.is(b"https://a/b"));
    }

    #[test]
    fn answers_that_make_no_sense_are_errors() {
        let mut bench = Bench::http(REQUEST, "");
        for line in [
            "HTTP::respond abc",
            "HTTP::respond 99",
            "HTTP::respond 200 content",
            "HTTP::respond 200 X",
            "HTTP::respond 200 -version 3",
            "HTTP::respond 200 ifile none",
        ] {
            let gives = bench.run(HttpRequest, COMMANDS, line);
            assert!(gives.starts_with("error: "), "{line}: {gives}");
        }
        assert!(bench.flow.http.unwrap().respond.is_none());
    }

    #[test]
    fn retry_close_and_disable_are_left_for_the_driver() {
        let mut bench = Bench::http(REQUEST, "HTTP/1.1 500 x\n\n");
        bench.run(
            HttpResponse,
            COMMANDS,
            "HTTP::retry -reset {GET /again HTTP/1.1}",
        );
        bench.run(HttpResponse, COMMANDS, "HTTP::close");
        bench.run(HttpResponse, COMMANDS, "HTTP::disable");
        assert!(bench.flow.steering.detach);
        let http = bench.flow.http.as_ref().unwrap();
        assert!(http.retry.as_ref().unwrap().is(b"GET /again HTTP/1.1"));
        assert!(http.close && http.disabled);
        bench.run(HttpResponse, COMMANDS, "HTTP::enable");
        assert!(!bench.flow.http.unwrap().disabled);
    }
}
