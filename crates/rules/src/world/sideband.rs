//! Sideband connections of rules' own: `connect`, `send`, `recv`, `close`. The driver opens and uses them while the rule
//! waits.
//!
//! What a wait gives comes straight from the driver, so a command that also sets a variable (`-status`) becomes a small script
//! around its plain form.

use crate::command::{ANY, Command, Ctx};
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::host::Wait;
use crate::value::{Value, push_element};
use std::time::Duration;

const WAITING: Events = Events::but(&[Event::RuleInit, Event::ClientClosed, Event::ServerClosed]);

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "connect",
        "?-protocol tcp|udp? ?-timeout ms? ?-idle seconds? ?-status name? destination",
        1,
        ANY,
        connect,
    )
    .at(WAITING)
    .differs("the status is connected or timeout; -myaddr, -rtdom and -tos are not known; connect info is not"),
    Command::new("send", "?-timeout ms? ?-status name? connection data", 2, ANY, send)
        .at(WAITING)
        .differs("the status is sent or error"),
    Command::new(
        "recv",
        "?-peek? ?-timeout ms? ?-status name? ?-eol text? ?bytes? connection ?name?",
        1,
        ANY,
        receive,
    )
    .at(WAITING)
    .differs("the status is received or timeout"),
    Command::new("close", "connection", 1, 1, close),
];

/// Milliseconds, where a rule doesn't say: of connecting; of sending and receiving it is F5's "at once".
const CONNECT_TIMEOUT: u64 = 5000;
const IDLE: u64 = 300;

#[derive(Default)]
struct Options<'a> {
    udp: bool,
    peek: bool,
    timeout: Option<Duration>,
    idle: Option<Duration>,
    status: Option<&'a Value>,
    until: Option<&'a Value>,
}

fn connect(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let usage = "connect ?options? destination";
    let known = ["-protocol", "-timeout", "-idle", "-status"];
    let (options, [to]) = options(args, &known)? else {
        return Err(Fault::usage(usage));
    };
    if let Some(status) = options.status {
        let plain = without_status("connect", args);
        return Err(with_status(&plain, status, "$ne", "connected", "timeout"));
    }
    if super::pool::address_port(std::slice::from_ref(to)).is_err()
        && !ctx.host.has_virtual(&to.bytes())
    {
        return Err(Fault::error(format!(
            "connect: \"{}\" is neither a virtual server nor an address with its port",
            to.lossy()
        )));
    }
    Err(Fault::wait(Wait::Connect {
        udp: options.udp,
        to: to.clone(),
        timeout: options
            .timeout
            .unwrap_or(Duration::from_millis(CONNECT_TIMEOUT)),
        idle: options.idle.unwrap_or(Duration::from_secs(IDLE)),
    }))
}

fn send(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (options, [handle, data]) = options(args, &["-timeout", "-status"])? else {
        return Err(Fault::usage("send ?options? connection data"));
    };
    if let Some(status) = options.status {
        let plain = without_status("send", args);
        return Err(with_status(&plain, status, "> 0", "sent", "error"));
    }
    Err(Fault::wait(Wait::Send {
        handle: handle_of(handle)?,
        data: data.clone(),
        timeout: options.timeout.unwrap_or(Duration::ZERO),
    }))
}

fn receive(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let known = ["-peek", "-timeout", "-status", "-eol"];
    let (options, words) = options(args, &known)?;
    // A number of bytes stands before the connection, a variable's name behind it.
    let is_number = |word: &Value| word.int().is_ok();
    let (bytes, handle, variable) = match words {
        [handle] => (None, handle, None),
        [bytes, handle] if is_number(bytes) && is_number(handle) => (Some(bytes), handle, None),
        [handle, name] => (None, handle, Some(name)),
        [bytes, handle, name] => (Some(bytes), handle, Some(name)),
        _ => return Err(Fault::usage("recv ?options? ?bytes? connection ?name?")),
    };
    if let Some(status) = options.status {
        let plain = without_status("recv", args);
        let test = if variable.is_some() { "> 0" } else { "$ne" };
        return Err(with_status(&plain, status, test, "received", "timeout"));
    }
    if let Some(name) = variable {
        // The bytes go to the variable, their number is the value.
        let mut plain = Value::from("recv");
        for word in &args[..args.len() - 1] {
            plain.push(word.clone())?;
        }
        let set = words_of(&[b"set", &name.bytes()]);
        let script = [b"string length [", &set[..], b" [", &plain.bytes(), b"]]"].concat();
        return Err(Fault::eval(Value::from(script)));
    }
    let least = match bytes {
        Some(bytes) => usize::try_from(bytes.int()?)
            .map_err(|_| Fault::error(format!("invalid number of bytes \"{}\"", bytes.lossy())))?,
        None => 0,
    };
    Err(Fault::wait(Wait::Receive {
        handle: handle_of(handle)?,
        peek: options.peek,
        least,
        most: least,
        until: options.until.cloned(),
        timeout: options.timeout.unwrap_or(Duration::ZERO),
    }))
}

fn close(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let handle = handle_of(&args[0])?;
    ctx.host.close_sideband(handle);
    Ok(Value::Empty)
}

fn handle_of(word: &Value) -> Result<u64, Fault> {
    let number = word.int().ok().and_then(|int| u64::try_from(int).ok());
    number.ok_or_else(|| Fault::error(format!("invalid connection \"{}\"", word.lossy())))
}

fn options<'a>(args: &'a [Value], known: &[&str]) -> Result<(Options<'a>, &'a [Value]), Fault> {
    let mut options = Options::default();
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let bytes = word.bytes();
        if bytes.first() != Some(&b'-') {
            break;
        }
        at += 1;
        if &*bytes == b"--" {
            break;
        }
        if !known.iter().any(|known| known.as_bytes() == &*bytes) {
            return Err(Fault::bad("option", &bytes, known));
        }
        if &*bytes == b"-peek" {
            options.peek = true;
            continue;
        }
        let Some(value) = args.get(at) else {
            return Err(Fault::error(format!("{} needs a value", word.lossy())));
        };
        at += 1;
        match &*bytes {
            b"-protocol" => {
                options.udp = match &*value.bytes() {
                    b"tcp" | b"TCP" => false,
                    b"udp" | b"UDP" => true,
                    other => return Err(Fault::bad("protocol", other, &["tcp", "udp"])),
                }
            }
            b"-timeout" => options.timeout = Some(Duration::from_millis(count(value)?)),
            b"-idle" => options.idle = Some(Duration::from_secs(count(value)?)),
            b"-status" => options.status = Some(value),
            _ => options.until = Some(value),
        }
    }
    Ok((options, &args[at..]))
}

fn count(word: &Value) -> Result<u64, Fault> {
    u64::try_from(word.int()?)
        .map_err(|_| Fault::error(format!("invalid time \"{}\"", word.lossy())))
}

/// The command without its `-status` and the name behind it, as a list.
fn without_status(command: &str, args: &[Value]) -> Vec<u8> {
    let mut list = command.as_bytes().to_vec();
    let mut skip = 0;
    for word in args {
        if skip > 0 {
            skip -= 1;
        } else if word.is(b"-status") {
            skip = 1;
        } else {
            push_element(&mut list, &word.bytes());
        }
    }
    list
}

/// A script whose value is that of `plain`, and which sets the variable `status` by it: to `good` where the
/// test holds, which is `$ne` for "not empty".
fn with_status(plain: &[u8], status: &Value, test: &str, good: &str, bad: &str) -> Fault {
    let set = words_of(&[b"set", &status.bytes()]);
    let test = match test {
        "$ne" => "ne {}",
        other => other,
    };
    let mut script = b"lindex [list [".to_vec();
    script.extend_from_slice(&set);
    script.extend_from_slice(b" [");
    script.extend_from_slice(plain);
    script.extend_from_slice(b"]] [");
    script.extend_from_slice(&set);
    script.extend_from_slice(b" [expr {[");
    script.extend_from_slice(&set);
    script.extend_from_slice(format!("] {test} ? \"{good}\" : \"{bad}\"}}]]] 0").as_bytes());
    Fault::eval(Value::from(script))
}

fn words_of(words: &[&[u8]]) -> Vec<u8> {
    let mut list = Vec::new();
    for word in words {
        push_element(&mut list, word);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use crate::host::Wait;
    use crate::value::Value;
    use std::time::Duration;

    #[test]
    fn a_connection_is_opened_used_and_closed() {
        let mut world = World::new();
        world.host.virtuals = vec!["side"];
        let connect = |udp, to: &str, timeout, idle| Wait::Connect {
            udp,
            to: Value::from(to),
            timeout: Duration::from_millis(timeout),
            idle: Duration::from_secs(idle),
        };
        assert_eq!(
            world.wait("connect 10.0.0.1:80"),
            connect(false, "10.0.0.1:80", 5000, 300)
        );
        assert_eq!(
            world.wait("connect -protocol UDP -timeout 10 -idle 20 side"),
            connect(true, "side", 10, 20)
        );
        let send = Wait::Send {
            handle: 7,
            data: Value::from("a b"),
            timeout: Duration::from_millis(5),
        };
        assert_eq!(world.wait("send -timeout 5 7 {a b}"), send);
        let receive = |peek, bytes, until: Option<&str>| Wait::Receive {
            handle: 7,
            peek,
            least: bytes,
            most: bytes,
            until: until.map(Value::from),
            timeout: Duration::from_millis(9),
        };
        assert_eq!(world.wait("recv -timeout 9 7"), receive(false, 0, None));
        assert_eq!(
            world.wait("recv -peek -timeout 9 100 7"),
            receive(true, 100, None)
        );
        assert_eq!(
            world.wait("recv -timeout 9 -eol {\n} 7"),
            receive(false, 0, Some("\n"))
        );
        world.check(&[
            ("close 7", ""),
            ("close x", "!invalid connection \"x\""),
            (
                "connect nowhere",
                "!connect: \"nowhere\" is neither a virtual server nor an address with its port",
            ),
            (
                "connect -protocol sctp side",
                "!bad protocol \"sctp\": must be tcp or udp",
            ),
            (
                "connect -frob 1 side",
                "!bad option \"-frob\": must be -protocol, -timeout, -idle, or -status",
            ),
        ]);
        assert_eq!(world.host.closed, [7]);
    }

    #[test]
    fn variables_are_set_by_a_script_around_the_plain_command() {
        World::new().check(&[
            (
                "connect -timeout 5 -status st 10.0.0.1:80",
                "eval lindex [list [set st [connect -timeout 5 10.0.0.1:80]] [set st [expr {[set st] ne {} ? \"connected\" : \"timeout\"}]]] 0",
            ),
            (
                "send -status {a b} 7 {x y}",
                "eval lindex [list [set {a b} [send 7 {x y}]] [set {a b} [expr {[set {a b}] > 0 ? \"sent\" : \"error\"}]]] 0",
            ),
            (
                "recv -timeout 5 100 7 data",
                "eval string length [set data [recv -timeout 5 100 7]]",
            ),
            (
                "recv -status st 7 data",
                "eval lindex [list [set st [recv 7 data]] [set st [expr {[set st] > 0 ? \"received\" : \"timeout\"}]]] 0",
            ),
        ]);
    }
}
