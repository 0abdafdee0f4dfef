//! Bodies: `HTTP::collect`, `HTTP::release`, `HTTP::payload`.

use super::{EXCHANGE, exchange, is_response};
use crate::command::{Command, Ctx};
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::flow::Held;
use crate::value::Value;
use crate::world::payload;

pub(in crate::world) const COMMANDS: &[Command] = &[
    Command::new("HTTP::collect", "?length?", 0, 1, collect).at(BODIES),
    Command::new("HTTP::release", "", 0, 0, release).at(BODIES),
    Command::new(
        "HTTP::payload",
        "?length? | offset length | length | replace offset length data | rechunk | unchunk",
        0,
        4,
        http_payload,
    )
    .at(EXCHANGE)
    .differs(
        "the payload never has chunks in it: chunks are taken off before and put on behind, \
         so that rechunk and unchunk find their work done",
    ),
];

/// Events at which a body may be collected.
const BODIES: Events = Events::of(&[
    Event::HttpRequest,
    Event::HttpRequestData,
    Event::HttpRequestSend,
    Event::LbSelected,
    Event::LbFailed,
    Event::HttpResponse,
    Event::HttpResponseData,
]);

fn held<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a mut Held, Fault> {
    let event = ctx.event;
    let http = exchange(ctx)?;
    Ok(if is_response(event, http) {
        &mut http.response_body
    } else {
        &mut http.request_body
    })
}

fn collect(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let wanted = payload::count(args.first())?.unwrap_or(0);
    let held = held(ctx)?;
    held.wanted = Some(wanted);
    held.released = None;
    Ok(Value::Empty)
}

fn release(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    let held = held(ctx)?;
    held.wanted = None;
    held.released = Some(u64::MAX);
    Ok(Value::Empty)
}

fn http_payload(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if let [word] = args
        && (word.is(b"rechunk") || word.is(b"unchunk"))
    {
        return Ok(Value::Empty);
    }
    let charge = payload::growth(args);
    ctx.charge(charge)?;
    payload::payload("HTTP::payload", held(ctx)?, args)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::COMMANDS;
    use crate::event::Event::{HttpRequest, HttpRequestData, HttpResponse, HttpResponseData};
    use crate::value::Value;

    #[test]
    fn each_direction_has_its_body() {
        let mut bench = Bench::http("POST / HTTP/1.1\nHost: a\n\n", "HTTP/1.1 200 OK\n\n");
        bench.run(HttpRequest, COMMANDS, "HTTP::collect 100");
        bench.run(HttpResponse, COMMANDS, "HTTP::collect");
        let http = bench.flow.http.as_mut().unwrap();
        assert_eq!(
            (http.request_body.wanted, http.response_body.wanted),
            (Some(100), Some(0))
        );
        http.request_body.bytes = Value::from("request");
        http.response_body.bytes = Value::from("response");
        assert_eq!(
            bench.run(HttpRequestData, COMMANDS, "HTTP::payload"),
            "request"
        );
        assert_eq!(
            bench.run(HttpResponseData, COMMANDS, "HTTP::payload 3"),
            "res"
        );
        assert_eq!(
            bench.run(HttpResponseData, COMMANDS, "HTTP::payload length"),
            "8"
        );
        bench.run(HttpResponseData, COMMANDS, "HTTP::payload replace 0 8 new");
        bench.run(HttpResponseData, COMMANDS, "HTTP::payload unchunk");
        bench.run(HttpResponseData, COMMANDS, "HTTP::release");
        let http = bench.flow.http.as_ref().unwrap();
        assert!(http.response_body.bytes.is(b"new") && http.response_body.changed);
        assert_eq!(http.response_body.released, Some(u64::MAX));
        assert!(!http.request_body.changed && http.request_body.released.is_none());
        let bad = bench.run(HttpRequest, COMMANDS, "HTTP::collect -1");
        assert!(bad.starts_with("error: "), "{bad}");
    }
}
