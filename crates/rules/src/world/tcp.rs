//! `TCP::` commands: ports, bytes that rules hold back, and the connection's end.

use super::ip::{CONNECTION, far, near, set_idle, side};
use super::payload;
use crate::command::{Command, Ctx};
use crate::event::Side;
use crate::fault::Fault;
use crate::flow::{Ended, Flow, Held};
use crate::value::Value;
use std::net::SocketAddr;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("TCP::client_port", "", 0, 0, client_port).at(CONNECTION),
    Command::new("client_port", "", 0, 0, client_port).at(CONNECTION),
    Command::new("TCP::server_port", "", 0, 0, server_port).at(CONNECTION),
    Command::new("server_port", "", 0, 0, server_port).at(CONNECTION),
    Command::new(
        "TCP::local_port",
        "?clientside|serverside?",
        0,
        1,
        local_port,
    )
    .at(CONNECTION),
    Command::new("local_port", "", 0, 0, local_port).at(CONNECTION),
    Command::new(
        "TCP::remote_port",
        "?clientside|serverside?",
        0,
        1,
        remote_port,
    )
    .at(CONNECTION),
    Command::new("remote_port", "", 0, 0, remote_port).at(CONNECTION),
    Command::new("TCP::collect", "?length? ?skip?", 0, 2, collect).at(CONNECTION),
    Command::new("TCP::release", "?length?", 0, 1, release).at(CONNECTION),
    Command::new(
        "TCP::payload",
        "?length? | offset length | length | replace offset length data",
        0,
        4,
        |ctx, args| {
            ctx.charge(payload::growth(args))?;
            payload::payload("TCP::payload", held(ctx), args)
        },
    )
    .at(CONNECTION),
    Command::new("TCP::respond", "data", 1, 1, |ctx, args| {
        ctx.charge(16 + args[0].len())?;
        held(ctx).respond.push(args[0].clone());
        Ok(Value::Empty)
    })
    .at(CONNECTION),
    Command::new("TCP::close", "", 0, 0, |ctx, _| {
        ctx.flow.ended = Some(Ended::Close);
        Ok(Value::Empty)
    })
    .at(CONNECTION)
    .differs("both sides are closed, whichever it is said on"),
    Command::new("TCP::rtt", "", 0, 0, rtt)
        .at(CONNECTION)
        .differs("the client's side is meant on either side; 0 where it is not known"),
    Command::new("TCP::nagle", "enable|disable|auto", 1, 1, nagle)
        .at(CONNECTION)
        .differs("auto is disable"),
    Command::new("TCP::idletime", "seconds", 1, 1, |ctx, args| {
        set_idle(ctx, &args[0])?;
        Ok(Value::Empty)
    })
    .at(CONNECTION)
    .differs("as IP::idle_timeout, on either side"),
];

/// The bytes held back on the side that commands speak of.
pub(super) fn held<'a>(ctx: &'a mut Ctx<'_>) -> &'a mut Held {
    let Flow {
        client_data,
        server_data,
        side,
        ..
    } = &mut *ctx.flow;
    match side {
        Side::Client => client_data,
        Side::Server => server_data,
    }
}

/// 0 stands for the port of a connection that is not there yet.
fn port(address: Option<SocketAddr>) -> Value {
    Value::Int(address.map_or(0, |address| address.port().into()))
}

pub(super) fn client_port(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    Ok(port(far(ctx, Side::Client)))
}

pub(super) fn server_port(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    Ok(port(far(ctx, Side::Server)))
}

pub(super) fn local_port(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let side = side(ctx, args)?;
    Ok(port(near(ctx, side)))
}

pub(super) fn remote_port(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let side = side(ctx, args)?;
    Ok(port(far(ctx, side)))
}

fn collect(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let wanted = payload::count(args.first())?.unwrap_or(0);
    let skip = payload::count(args.get(1))?.unwrap_or(0);
    let held = held(ctx);
    held.wanted = Some(wanted);
    held.skip = skip;
    Ok(Value::Empty)
}

fn release(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let wanted = payload::count(args.first())?;
    let held = held(ctx);
    let there = held.bytes.len() as u64;
    held.wanted = None;
    held.released = Some(wanted.unwrap_or(u64::MAX));
    Ok(Value::Int(
        wanted.map_or(there, |wanted| wanted.min(there)) as i64
    ))
}

/// In the unit of BIG-IP: 1/32 of a millisecond.
fn rtt(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    let micros = ctx.flow.round_trip.map_or(0, |time| time.as_micros());
    Ok(Value::Int((micros * 32 / 1000) as i64))
}

fn nagle(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let on = match &*args[0].bytes() {
        b"enable" => true,
        b"disable" | b"auto" => false,
        other => {
            return Err(Fault::bad(
                "argument",
                other,
                &["enable", "disable", "auto"],
            ));
        }
    };
    let side = ctx.side();
    ctx.flow.nagle.retain(|(of, _)| *of != side);
    ctx.flow.nagle.push((side, on));
    Ok(Value::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event::{ClientAccepted, ClientData, ServerConnected, ServerData};
    use crate::flow::Ends;
    use crate::world::http::testing::Bench;
    use std::time::Duration;

    #[test]
    fn ports_are_those_of_the_side() {
        let mut bench = Bench::new();
        for (line, gives) in [
            ("TCP::client_port", "40000"),
            ("client_port", "40000"),
            ("TCP::remote_port", "40000"),
            ("TCP::local_port", "443"),
            ("TCP::server_port", "0"),
            ("TCP::local_port serverside", "0"),
        ] {
            assert_eq!(bench.run(ClientAccepted, COMMANDS, line), gives, "{line}");
        }
        bench.flow.server = Some(Ends {
            remote: "10.0.0.5:80".parse().unwrap(),
            local: "10.0.0.9:1234".parse().unwrap(),
        });
        for (line, gives) in [
            ("TCP::client_port", "40000"),
            ("TCP::remote_port", "80"),
            ("TCP::local_port", "1234"),
            ("TCP::local_port clientside", "443"),
            ("server_port", "80"),
        ] {
            assert_eq!(bench.run(ServerConnected, COMMANDS, line), gives, "{line}");
        }
    }

    #[test]
    fn each_side_s_bytes_are_held_and_released() {
        let mut bench = Bench::new();
        bench.run(ClientAccepted, COMMANDS, "TCP::collect 16 4");
        bench.run(ServerConnected, COMMANDS, "TCP::collect");
        let flow = &mut bench.flow;
        assert_eq!(
            (flow.client_data.wanted, flow.client_data.skip),
            (Some(16), 4)
        );
        assert_eq!(
            (flow.server_data.wanted, flow.server_data.skip),
            (Some(0), 0)
        );
        flow.client_data.bytes = Value::from("EHLO client");
        flow.server_data.bytes = Value::from("220 banner");
        for (event, line, gives) in [
            (ClientData, "TCP::payload", "EHLO client"),
            (ServerData, "TCP::payload 3", "220"),
            (ServerData, "TCP::payload replace 4 6 hello", ""),
            (ServerData, "TCP::payload", "220 hello"),
            (ClientData, "TCP::release 4", "4"),
            (ServerData, "TCP::release", "9"),
            (ClientData, "TCP::respond {421 no}", ""),
            (ClientData, "TCP::close", ""),
        ] {
            assert_eq!(bench.run(event, COMMANDS, line), gives, "{line}");
        }
        let flow = &bench.flow;
        assert_eq!(flow.client_data.released, Some(4));
        assert_eq!(flow.server_data.released, Some(u64::MAX));
        assert!(flow.server_data.changed && !flow.client_data.changed);
        assert!(flow.client_data.respond[0].is(b"421 no"));
        assert_eq!(flow.ended, Some(Ended::Close));
    }

    #[test]
    fn commands_follow_the_side_they_are_put_on() {
        let mut bench = Bench::new();
        bench.on(Side::Client, ServerConnected, COMMANDS, "TCP::collect 5");
        assert_eq!(bench.flow.client_data.wanted, Some(5));
        assert_eq!(bench.flow.server_data.wanted, None);
    }

    #[test]
    fn what_is_known_of_tcp_is_told_and_set() {
        let mut bench = Bench::new();
        assert_eq!(bench.run(ClientAccepted, COMMANDS, "TCP::rtt"), "0");
        bench.flow.round_trip = Some(Duration::from_millis(5));
        assert_eq!(bench.run(ClientAccepted, COMMANDS, "TCP::rtt"), "160");
        bench.run(ClientAccepted, COMMANDS, "TCP::nagle enable");
        bench.run(ClientAccepted, COMMANDS, "TCP::idletime 30");
        bench.run(ServerConnected, COMMANDS, "TCP::nagle enable");
        bench.run(ServerConnected, COMMANDS, "TCP::nagle auto");
        let nagle = [(Side::Client, true), (Side::Server, false)];
        assert_eq!(bench.flow.nagle, nagle);
        assert_eq!(bench.flow.idle_timeout, Some(Duration::from_secs(30)));
        let bad = bench.run(ClientAccepted, COMMANDS, "TCP::idletime -1");
        assert!(bad.starts_with("error: "), "{bad}");
    }
}
