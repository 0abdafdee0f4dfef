//! `UDP::` commands: ports and datagrams.

use super::ip::CONNECTION;
use super::payload;
use super::tcp::{client_port, held, local_port, remote_port, server_port};
use crate::command::Command;
use crate::flow::Ended;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("UDP::client_port", "", 0, 0, client_port).at(CONNECTION),
    Command::new("UDP::server_port", "", 0, 0, server_port).at(CONNECTION),
    Command::new(
        "UDP::local_port",
        "?clientside|serverside?",
        0,
        1,
        local_port,
    )
    .at(CONNECTION),
    Command::new(
        "UDP::remote_port",
        "?clientside|serverside?",
        0,
        1,
        remote_port,
    )
    .at(CONNECTION),
    Command::new(
        "UDP::payload",
        "?length? | offset length | length | replace offset length data",
        0,
        4,
        |ctx, args| {
            ctx.charge(payload::growth(args))?;
            payload::payload("UDP::payload", held(ctx), args)
        },
    )
    .at(CONNECTION),
    Command::new("UDP::respond", "data", 1, 1, |ctx, args| {
        ctx.charge(16 + args[0].len())?;
        held(ctx).respond.push(args[0].clone());
        Ok(Value::Empty)
    })
    .at(CONNECTION),
    Command::new("UDP::drop", "", 0, 0, |ctx, _| {
        ctx.flow.ended = Some(Ended::Drop);
        Ok(Value::Empty)
    })
    .at(CONNECTION),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event::ClientData;
    use crate::world::http::testing::Bench;

    #[test]
    fn a_datagram_is_read_changed_answered_and_dropped() {
        let mut bench = Bench::new();
        bench.flow.client_data.bytes = Value::from("query");
        for (line, gives) in [
            ("UDP::client_port", "40000"),
            ("UDP::local_port", "443"),
            ("UDP::server_port", "0"),
            ("UDP::payload", "query"),
            ("UDP::payload length", "5"),
            ("UDP::payload replace 0 1 Q", ""),
            ("UDP::respond answer", ""),
            ("UDP::drop", ""),
        ] {
            assert_eq!(bench.run(ClientData, COMMANDS, line), gives, "{line}");
        }
        let held = &bench.flow.client_data;
        assert!(held.bytes.is(b"Query") && held.respond[0].is(b"answer"));
        assert_eq!(bench.flow.ended, Some(Ended::Drop));
    }
}
