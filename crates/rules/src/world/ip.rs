//! `IP::` commands: addresses of a connection, comparisons with networks, reputation.

use crate::command::{Command, Ctx};
use crate::event::{Event, Events, Side};
use crate::fault::Fault;
use crate::flow::Transport;
use crate::value::Value;
use addr::Prefix;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("IP::client_addr", "", 0, 0, client).at(CONNECTION),
    Command::new("client_addr", "", 0, 0, client).at(CONNECTION),
    Command::new("IP::server_addr", "", 0, 0, server).at(CONNECTION),
    Command::new("server_addr", "", 0, 0, server).at(CONNECTION),
    Command::new("IP::local_addr", "?clientside|serverside?", 0, 1, local).at(CONNECTION),
    Command::new("local_addr", "", 0, 0, local).at(CONNECTION),
    Command::new("IP::remote_addr", "?clientside|serverside?", 0, 1, remote).at(CONNECTION),
    Command::new("remote_addr", "", 0, 0, remote).at(CONNECTION),
    Command::new(
        "IP::addr",
        "address?/mask? equals address?/mask? | address mask mask | parse ?-ipv4|-ipv6? ?-swap? bytes ?offset?",
        2,
        5,
        addr,
    ),
    Command::new("IP::protocol", "", 0, 0, protocol).at(CONNECTION),
    Command::new("ip_protocol", "", 0, 0, protocol).at(CONNECTION),
    Command::new("IP::version", "", 0, 0, |ctx, _| {
        let address = far(ctx, ctx.side()).map(|address| address.ip().to_canonical());
        Ok(Value::Int(match address {
            Some(IpAddr::V6(_)) => 6,
            Some(IpAddr::V4(_)) => 4,
            None => 0,
        }))
    })
    .at(CONNECTION),
    Command::new("IP::stats", "bytes ?in|out? | age", 1, 2, stats)
        .at(CONNECTION)
        .differs("TCP's payload on the client's side, as the kernel counts it; packets are not counted: `pkts` is an error"),
    Command::new("IP::idle_timeout", "?seconds?", 0, 1, idle_timeout)
        .at(CONNECTION)
        .differs("on an HTTP virtual: how long the next request may be in coming; a member may take as long to answer"),
    Command::new("IP::reputation", "address", 1, 1, reputation)
        .differs("the categories are those of the configuration's address lists"),
];

/// Events at which there is a connection.
pub(super) const CONNECTION: Events = Events::but(&[Event::RuleInit]);

/// An address as rules see it.
pub(super) fn address_value(address: IpAddr) -> Value {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let mut text = [0; 15];
            let mut at = 0;
            for (n, octet) in v4.octets().into_iter().enumerate() {
                if n > 0 {
                    text[at] = b'.';
                    at += 1;
                }
                if octet >= 100 {
                    text[at] = b'0' + octet / 100;
                    at += 1;
                }
                if octet >= 10 {
                    text[at] = b'0' + octet / 10 % 10;
                    at += 1;
                }
                text[at] = b'0' + octet % 10;
                at += 1;
            }
            Value::new(&text[..at])
        }
        IpAddr::V6(v6) => {
            let mut text = [0; 48];
            let room = text.len();
            let mut rest = &mut text[..];
            // The longest form has 45 bytes.
            let _ = write!(rest, "{v6}");
            let left = rest.len();
            Value::new(&text[..room - left])
        }
    }
}

/// The far end on a side.
pub(super) fn far(ctx: &Ctx<'_>, side: Side) -> Option<SocketAddr> {
    match side {
        Side::Client => Some(ctx.flow.client.remote),
        Side::Server => ctx.flow.server.map(|ends| ends.remote),
    }
}

/// Our end on a side.
pub(super) fn near(ctx: &Ctx<'_>, side: Side) -> Option<SocketAddr> {
    match side {
        Side::Client => Some(ctx.flow.client.local),
        Side::Server => ctx.flow.server.map(|ends| ends.local),
    }
}

/// The side that a command names, or else that of its event.
pub(super) fn side(ctx: &Ctx<'_>, args: &[Value]) -> Result<Side, Fault> {
    match args.first() {
        None => Ok(ctx.side()),
        Some(word) => match &*word.bytes() {
            b"clientside" => Ok(Side::Client),
            b"serverside" => Ok(Side::Server),
            other => Err(Fault::bad("side", other, &["clientside", "serverside"])),
        },
    }
}

/// 0 stands for the address of a connection that is not there yet.
fn shown(address: Option<SocketAddr>) -> Value {
    address.map_or(Value::Int(0), |address| address_value(address.ip()))
}

fn client(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    Ok(address_value(ctx.flow.client.remote.ip()))
}

fn server(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    Ok(shown(far(ctx, Side::Server)))
}

fn local(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let side = side(ctx, args)?;
    Ok(shown(near(ctx, side)))
}

fn remote(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let side = side(ctx, args)?;
    Ok(shown(far(ctx, side)))
}

fn protocol(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    Ok(Value::Int(match ctx.flow.transport {
        Transport::Tcp => 6,
        Transport::Udp => 17,
    }))
}

fn addr(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if args[0].is(b"parse") {
        return parse(&args[1..]);
    }
    match args {
        [a, word, b] if word.is(b"equals") => {
            let (a, b) = (network(a)?, network(b)?);
            // An address in a network, whichever side the mask stands on; or a network within another.
            let whole = |prefix: &Prefix| prefix.len() == width(prefix.network());
            let within = if whole(&b) && !whole(&a) {
                a.contains(b.network())
            } else {
                a.len() >= b.len() && b.contains(a.network())
            };
            Ok(within.into())
        }
        [a, word, mask] if word.is(b"mask") => {
            let address = address(&a.bytes())?;
            let length = mask_length(&mask.bytes(), address)?;
            Ok(address_value(Prefix::containing(address, length).network()))
        }
        _ => Err(Fault::usage("IP::addr address equals address")),
    }
}

/// An address or network, kept with its text once it is read.
fn network(value: &Value) -> Result<Prefix, Fault> {
    if let Some(prefix) = value.remembered::<Prefix>() {
        return Ok(*prefix);
    }
    let text = value.bytes();
    let split = memchr::memchr(b'/', &text).map(|at| (at, at + 1));
    let split = split.or_else(|| memchr::memmem::find(&text, b" mask ").map(|at| (at, at + 6)));
    let prefix = match split {
        Some((end, start)) => {
            let address = address(text[..end].trim_ascii())?;
            let length = mask_length(text[start..].trim_ascii(), address)?;
            Prefix::containing(address, length)
        }
        None => {
            let address = address(&text)?;
            Prefix::containing(address, width(address))
        }
    };
    value.remember(Rc::new(prefix));
    Ok(prefix)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn illegal(text: &[u8]) -> Fault {
    Fault::error(format!(
        "Illegal argument. Invalid address \"{}\"",
        String::from_utf8_lossy(text)
    ))
}

/// An address; a route domain behind `%` does not count.
fn address(text: &[u8]) -> Result<IpAddr, Fault> {
    let bare = text.split(|byte| *byte == b'%').next().unwrap_or(text);
    let parsed = std::str::from_utf8(bare)
        .ok()
        .and_then(|text| text.parse().ok());
    let address: IpAddr = parsed.ok_or_else(|| illegal(text))?;
    Ok(address.to_canonical())
}

/// A mask's length: a number of bits, or the mask as an address.
fn mask_length(text: &[u8], address: IpAddr) -> Result<u8, Fault> {
    let width = width(address);
    if let Ok(text) = std::str::from_utf8(text) {
        if let Ok(bits) = text.parse::<u8>() {
            return if bits <= width {
                Ok(bits)
            } else {
                Err(illegal(text.as_bytes()))
            };
        }
        let (bits, of) = match text.parse() {
            Ok(IpAddr::V4(mask)) => (u128::from(mask.to_bits()) << 96, 32),
            Ok(IpAddr::V6(mask)) => (mask.to_bits(), 128),
            Err(_) => return Err(illegal(text.as_bytes())),
        };
        // Its ones stand before its zeros.
        let ones = bits.leading_ones();
        if of == width && bits.count_ones() == ones {
            return Ok(ones as u8);
        }
    }
    Err(illegal(text))
}

fn parse(args: &[Value]) -> Result<Value, Fault> {
    let (mut v6, mut swap) = (false, false);
    let mut rest = args;
    while let [word, more @ ..] = rest {
        match &*word.bytes() {
            b"-ipv4" => v6 = false,
            b"-ipv6" => v6 = true,
            b"-swap" => swap = true,
            _ => break,
        }
        rest = more;
    }
    let (bytes, offset) = match rest {
        [bytes] => (bytes.bytes(), 0),
        [bytes, offset] => (
            bytes.bytes(),
            usize::try_from(offset.int()?).unwrap_or(usize::MAX),
        ),
        _ => {
            return Err(Fault::usage(
                "IP::addr parse ?-ipv4|-ipv6? ?-swap? bytes ?offset?",
            ));
        }
    };
    let bytes = bytes.get(offset..).unwrap_or_default();
    let short = || Fault::error("Illegal argument. Too few bytes for an address");
    let address = if v6 {
        IpAddr::from(*bytes.first_chunk::<16>().ok_or_else(short)?)
    } else {
        let mut octets = *bytes.first_chunk::<4>().ok_or_else(short)?;
        if swap {
            octets.reverse();
        }
        IpAddr::from(octets)
    };
    Ok(address_value(address))
}

fn stats(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (incoming, outgoing) = ctx.flow.bytes;
    let word = |n: usize| args.get(n).map(Value::bytes);
    match (word(0).as_deref(), word(1).as_deref()) {
        (Some(b"age"), None) => {
            let age = ctx.host.now().saturating_sub(ctx.flow.began);
            Ok(Value::Int(age.as_millis() as i64))
        }
        (Some(b"bytes"), Some(b"in")) => Ok(Value::Int(incoming as i64)),
        (Some(b"bytes"), Some(b"out")) => Ok(Value::Int(outgoing as i64)),
        (Some(b"bytes"), None) => Ok(Value::list_of(vec![
            Value::Int(incoming as i64),
            Value::Int(outgoing as i64),
        ])),
        _ => Err(Fault::error(
            "IP::stats is implemented for \"bytes ?in|out?\" and \"age\" only",
        )),
    }
}

fn idle_timeout(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if let [seconds] = args {
        set_idle(ctx, seconds)?;
        return Ok(Value::Empty);
    }
    let timeout = ctx
        .flow
        .idle_timeout
        .map_or(300, |timeout| timeout.as_secs());
    Ok(Value::Int(timeout as i64))
}

/// Sets after how long without a byte the connection is closed.
pub(super) fn set_idle(ctx: &mut Ctx<'_>, seconds: &Value) -> Result<(), Fault> {
    let seconds = match &*seconds.bytes() {
        // As long as anybody waits.
        b"indefinite" | b"immediate" => i64::from(u32::MAX),
        _ => seconds.int()?,
    };
    let seconds = u64::try_from(seconds)
        .map_err(|_| Fault::error("Illegal argument. A timeout can't be negative"))?;
    ctx.flow.idle_timeout = Some(Duration::from_secs(seconds.min(u64::from(u32::MAX))));
    Ok(())
}

fn reputation(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let address = address(&args[0].bytes())?;
    Ok(Value::list_of(ctx.host.reputation(address)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event::{ClientAccepted, RuleInit, ServerConnected};
    use crate::flow::Ends;
    use crate::world::http::testing::Bench;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_those_of_the_side() {
        let mut bench = Bench::new();
        for (line, gives) in [
            ("IP::client_addr", "192.0.2.7"),
            ("client_addr", "192.0.2.7"),
            ("IP::remote_addr", "192.0.2.7"),
            ("IP::local_addr", "198.51.100.1"),
            ("IP::server_addr", "0"),
            ("IP::remote_addr serverside", "0"),
            ("IP::protocol", "6"),
            ("IP::version", "4"),
        ] {
            assert_eq!(bench.run(ClientAccepted, COMMANDS, line), gives, "{line}");
        }
        bench.flow.server = Some(Ends {
            remote: "[2001:db8::5]:80".parse().unwrap(),
            local: "[::ffff:10.0.0.9]:1234".parse().unwrap(),
        });
        bench.flow.transport = Transport::Udp;
        for (line, gives) in [
            ("IP::client_addr", "192.0.2.7"),
            ("IP::remote_addr", "2001:db8::5"),
            ("IP::remote_addr clientside", "192.0.2.7"),
            ("IP::local_addr", "10.0.0.9"),
            ("IP::server_addr", "2001:db8::5"),
            ("ip_protocol", "17"),
            ("IP::version", "6"),
        ] {
            assert_eq!(bench.run(ServerConnected, COMMANDS, line), gives, "{line}");
        }
    }

    #[test]
    fn addresses_are_compared_with_networks() {
        let mut bench = Bench::new();
        for (line, gives) in [
            ("IP::addr 10.1.2.3 equals 10.1.2.3", "1"),
            ("IP::addr 10.1.2.3 equals 10.1.2.4", "0"),
            ("IP::addr 10.1.2.3 equals 10.0.0.0/8", "1"),
            ("IP::addr 10.1.2.3 equals 10.1.0.0/255.255.0.0", "1"),
            ("IP::addr 11.1.2.3 equals {10.0.0.0 mask 255.0.0.0}", "0"),
            ("IP::addr 10.1.2.3/24 equals 10.1.2.0", "1"),
            (
                "IP::addr {10.1.2.3 mask 255.255.255.0} equals 10.1.2.0",
                "1",
            ),
            ("IP::addr 10.1.0.0/16 equals 10.0.0.0/8", "1"),
            ("IP::addr 10.0.0.0/8 equals 10.1.0.0/16", "0"),
            ("IP::addr 10.1.2.3%1 equals 10.1.2.3", "1"),
            ("IP::addr 2001:db8::1 equals 2001:db8::/32", "1"),
            ("IP::addr 2001:db9::1 equals 2001:db8::/32", "0"),
            ("IP::addr ::ffff:10.1.2.3 equals 10.0.0.0/8", "1"),
            ("IP::addr 10.1.2.3 equals ::/0", "0"),
            ("IP::addr 10.1.2.3 mask 255.255.0.0", "10.1.0.0"),
            ("IP::addr 2001:db8:1:2::3 mask ffff:ffff::", "2001:db8::"),
        ] {
            assert_eq!(bench.run(RuleInit, COMMANDS, line), gives, "{line}");
        }
        for line in [
            "IP::addr 10.1.2 equals 10.1.2.3",
            "IP::addr 10.1.2.3 equals 10.0.0.0/33",
            "IP::addr 10.1.2.3 mask 255.0.255.0",
            "IP::addr 10.1.2.3 mask ffff::",
            "IP::addr 10.1.2.3 is 10.1.2.3",
        ] {
            let gives = bench.run(RuleInit, COMMANDS, line);
            assert!(gives.starts_with("error: "), "{line}: {gives}");
        }
    }

    #[test]
    fn bytes_are_read_as_addresses() {
        let mut bench = Bench::new();
        for (line, gives) in [
            ("IP::addr parse \\001\\002\\003\\004", "1.2.3.4"),
            ("IP::addr parse -swap \\001\\002\\003\\004", "4.3.2.1"),
            ("IP::addr parse -ipv4 x\\001\\002\\003\\004 1", "1.2.3.4"),
            (
                "IP::addr parse -ipv6 aaaaaaaaaaaaaaaa",
                "6161:6161:6161:6161:6161:6161:6161:6161",
            ),
        ] {
            assert_eq!(bench.run(RuleInit, COMMANDS, line), gives, "{line}");
        }
        let short = bench.run(RuleInit, COMMANDS, "IP::addr parse abcd 1");
        assert!(short.starts_with("error: "), "{short}");
    }

    #[test]
    fn figures_timeouts_and_reputation_are_told() {
        let mut bench = Bench::new();
        bench.flow.bytes = (10, 20);
        bench.flow.began = Duration::from_millis(1_445_412_479_500);
        for (line, gives) in [
            ("IP::stats bytes in", "10"),
            ("IP::stats bytes out", "20"),
            ("IP::stats bytes", "10 20"),
            ("IP::stats age", "500"),
            ("IP::idle_timeout", "300"),
            ("IP::idle_timeout 60", ""),
            ("IP::idle_timeout", "60"),
            ("IP::reputation 203.0.113.9", "{Spam Sources} Botnets"),
            ("IP::reputation 203.0.113.8", ""),
        ] {
            assert_eq!(bench.run(ClientAccepted, COMMANDS, line), gives, "{line}");
        }
        let pkts = bench.run(ClientAccepted, COMMANDS, "IP::stats pkts in");
        assert!(pkts.starts_with("error: "), "{pkts}");
    }

    proptest! {
        #[test]
        fn addresses_are_written_as_the_standard_library_does(v4: [u8; 4], v6: [u8; 16]) {
            for address in [IpAddr::from(v4), IpAddr::from(v6)] {
                let text = address.to_canonical().to_string();
                prop_assert!(address_value(address).is(text.as_bytes()));
            }
        }
    }
}
