//! `RESOLV::lookup`: names and addresses asked of DNS while the rule waits.

use crate::command::{Command, Ctx};
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::host::Wait;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] = &[Command::new(
    "RESOLV::lookup",
    "?@server? ?inet|inet6? ?-type? name",
    1,
    4,
    lookup,
)
.at(Events::but(&[
    Event::RuleInit,
    Event::ClientClosed,
    Event::ServerClosed,
]))
.differs("-a, -aaaa, -ptr, -txt, -mx and -srv; the server is an address, not a virtual")];

fn lookup(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let Some((name, options)) = args.split_last() else {
        return Err(Fault::usage(
            "RESOLV::lookup ?@server? ?inet|inet6? ?-type? name",
        ));
    };
    let mut server = None;
    let mut record = None;
    for option in options {
        let bytes = option.bytes();
        match &*bytes {
            [b'@', address @ ..] => {
                let mut address = super::pool::address_port(&[Value::new(address)])?;
                if address.port() == 0 {
                    address.set_port(53);
                }
                server = Some(address);
            }
            b"inet" => record = record.or(Some("a")),
            b"inet6" => record = record.or(Some("aaaa")),
            b"-a" => record = Some("a"),
            b"-aaaa" => record = Some("aaaa"),
            b"-ptr" => record = Some("ptr"),
            b"-txt" => record = Some("txt"),
            b"-mx" => record = Some("mx"),
            b"-srv" => record = Some("srv"),
            other => {
                let choices = ["-a", "-aaaa", "-ptr", "-txt", "-mx", "-srv"];
                return Err(Fault::bad("option", other, &choices));
            }
        }
    }
    if name.is_empty() {
        return Err(Fault::error("the name to be looked up is empty"));
    }
    // An address is asked for its name, a name for its addresses, unless the rule says otherwise.
    let is_address = super::pool::plain_address(&name.lossy()).is_some();
    Err(Fault::wait(Wait::Resolve {
        name: name.clone(),
        record: record.unwrap_or(if is_address { "ptr" } else { "a" }),
        server,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, address};
    use crate::host::Wait;
    use crate::value::Value;

    #[test]
    fn questions_are_put_as_the_words_say() {
        let mut world = World::new();
        for (command, name, record, server) in [
            (
                "RESOLV::lookup www.example.com",
                "www.example.com",
                "a",
                None,
            ),
            ("RESOLV::lookup 192.0.2.1", "192.0.2.1", "ptr", None),
            (
                "RESOLV::lookup @192.0.2.53 -txt example.com",
                "example.com",
                "txt",
                Some("192.0.2.53:53"),
            ),
            (
                "RESOLV::lookup @192.0.2.53:5353 -mx example.com",
                "example.com",
                "mx",
                Some("192.0.2.53:5353"),
            ),
            (
                "RESOLV::lookup inet6 example.com",
                "example.com",
                "aaaa",
                None,
            ),
        ] {
            let wanted = Wait::Resolve {
                name: Value::from(name),
                record,
                server: server.map(address),
            };
            assert_eq!(world.wait(command), wanted, "{command}");
        }
        world.check(&[
            (
                "RESOLV::lookup -frob x",
                "!bad option \"-frob\": must be -a, -aaaa, -ptr, -txt, -mx, or -srv",
            ),
            (
                "RESOLV::lookup @somewhere x",
                "!invalid address \"somewhere\"",
            ),
            ("RESOLV::lookup {}", "!the name to be looked up is empty"),
        ]);
    }
}
