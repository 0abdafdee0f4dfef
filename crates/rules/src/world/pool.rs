//! Where a connection or request is to go: `pool`, `node`, `virtual`, `snat`, and what rules may know of pools. Decisions are
//! left in the flow's steering; the driver follows them.

use crate::command::{ANY, Command, Ctx};
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::flow::{Snat, Target};
use crate::host::{MemberView, PoolView};
use crate::value::Value;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Events at which the connection to the member isn't made yet, or another may be.
pub(super) const CHOOSING: Events = Events::but(&[Event::RuleInit]);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("pool", "name ?member address ?port??", 1, 5, pool).at(CHOOSING),
    Command::new("node", "address ?port?", 1, 2, node).at(CHOOSING),
    Command::new("virtual", "?name?", 0, 3, virtual_server)
        .at(CHOOSING)
        .differs("a virtual is named without an address and port behind it; from there on its rules see the request or connection, and these no more"),
    Command::new("sharedvar", "name", 1, 1, sharedvar).at(CHOOSING).differs(
        "the rules of the virtual that the connection is handed to have it from then on, and what they make of it comes back",
    ),
    Command::new("snat", "automap|none|address ?port?", 1, 2, snat)
        .at(CHOOSING)
        .differs("none is as automap: members see an address of the machine's"),
    Command::new("active_members", "?-list? pool", 1, 2, active_members),
    Command::new("members", "?-list? pool", 1, 2, members),
    Command::new("active_nodes", "?-list? pool", 1, 2, active_nodes),
    Command::new("nodes", "?-list? pool", 1, 2, nodes),
    Command::new("use", "pool|node|virtual|snat arg ...", 2, ANY, use_it).at(CHOOSING),
];

/// A pool by the name that a rule gives, with or without its partition.
pub(super) fn find_pool(ctx: &Ctx<'_>, name: &Value) -> Result<PoolView, Fault> {
    let bytes = name.bytes();
    let pool = ctx.host.pool(&bytes);
    pool.or_else(|| ctx.host.pool(without_partition(&bytes)?))
        .ok_or_else(|| Fault::error(format!("pool \"{}\" not found", name.lossy())))
}

/// The last part of a name with its partition: `www` of `/Common/www`.
pub(super) fn without_partition(name: &[u8]) -> Option<&[u8]> {
    if !name.starts_with(b"/") {
        return None;
    }
    let slash = memchr::memrchr(b'/', name)?;
    Some(&name[slash + 1..])
}

/// An address and port, from one word or two: `10.0.0.1 80`, `10.0.0.1:80`, `[2001:db8::1]:80`, `2001:db8::1.80`, with
/// or without a route domain. Port 0 where none is given.
pub(super) fn address_port(words: &[Value]) -> Result<SocketAddr, Fault> {
    let (text, port) = match words {
        [both] => (both.lossy(), None),
        [address, port, ..] => (address.lossy(), Some(port_of(port)?)),
        [] => return Err(Fault::error("an address is missing")),
    };
    let wrong = || Fault::error(format!("invalid address \"{text}\""));
    if let Some(address) = plain_address(&text) {
        return Ok(SocketAddr::new(address, port.unwrap_or(0)));
    }
    if port.is_some() {
        return Err(wrong());
    }
    if let Ok(both) = text.parse() {
        return Ok(both);
    }
    let separator = text.rfind([':', '.']).ok_or_else(wrong)?;
    let address = plain_address(&text[..separator]).ok_or_else(wrong)?;
    let port = text[separator + 1..].parse().map_err(|_| wrong())?;
    Ok(SocketAddr::new(address, port))
}

/// An address, with or without brackets and a route domain.
pub(super) fn plain_address(text: &str) -> Option<IpAddr> {
    let text = text.split_once('%').map_or(text, |(bare, _)| bare);
    let text = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .unwrap_or(text);
    text.parse().ok()
}

/// A port by its number or the name of its service.
pub(super) fn port_of(word: &Value) -> Result<u16, Fault> {
    let named = match &*word.bytes() {
        b"any" => Some(0),
        b"http" => Some(80),
        b"https" => Some(443),
        b"domain" => Some(53),
        b"ldap" => Some(389),
        b"smtp" => Some(25),
        b"ftp" => Some(21),
        b"ssh" => Some(22),
        _ => None,
    };
    let number = word.int().ok().and_then(|port| u16::try_from(port).ok());
    named
        .or(number)
        .ok_or_else(|| Fault::error(format!("invalid port \"{}\"", word.lossy())))
}

/// The member of a pool at an address, or of that name.
pub(super) fn find_member<'a>(
    pool: &'a PoolView,
    member: &Value,
    port: u16,
) -> Option<&'a MemberView> {
    let text = member.lossy();
    let given = address_port(std::slice::from_ref(member)).ok();
    pool.members.iter().find(|view| match given {
        Some(given) => {
            let port = if given.port() == 0 {
                port
            } else {
                given.port()
            };
            view.address.ip() == given.ip() && (port == 0 || view.address.port() == port)
        }
        None => *view.name == *text && (port == 0 || view.address.port() == port),
    })
}

/// `NAME ?member ADDRESS ?PORT??`: a pool as a target. The pool has to be there, and the member in it.
pub(super) fn pool_target(ctx: &Ctx<'_>, args: &[Value]) -> Result<Target, Fault> {
    let usage = || Fault::usage("pool name ?member address ?port??");
    let pool = find_pool(ctx, args.first().ok_or_else(usage)?)?;
    let member = match &args[1..] {
        [] => None,
        [word, member @ ..] if word.is(b"member") && matches!(member.len(), 1 | 2) => {
            let port = match member.get(1) {
                Some(port) => port_of(port)?,
                None => 0,
            };
            let found = find_member(&pool, &member[0], port).ok_or_else(|| {
                Fault::error(format!(
                    "pool \"{}\" has no member \"{}\"",
                    pool.name,
                    member[0].lossy()
                ))
            })?;
            let address = Value::from(found.address.ip().to_string());
            Some((address, found.address.port()))
        }
        _ => return Err(usage()),
    };
    let pool = Value::from(&*pool.name);
    Ok(Target::Pool { pool, member })
}

/// `ADDRESS ?PORT?`: a node as a target. Without a port it is the one that the client came to.
pub(super) fn node_target(ctx: &Ctx<'_>, args: &[Value]) -> Result<Target, Fault> {
    let mut address = address_port(args)?;
    if address.port() == 0 {
        address.set_port(ctx.flow.client.local.port());
    }
    Ok(Target::Node(address))
}

/// A virtual as a target. It has to be there.
pub(super) fn virtual_target(ctx: &Ctx<'_>, name: &Value) -> Result<Target, Fault> {
    let bytes = name.bytes();
    if ctx.host.has_virtual(&bytes) {
        return Ok(Target::Virtual(name.clone()));
    }
    match without_partition(&bytes) {
        Some(bare) if ctx.host.has_virtual(bare) => Ok(Target::Virtual(Value::new(bare))),
        _ => Err(Fault::error(format!(
            "virtual server \"{}\" not found",
            name.lossy()
        ))),
    }
}

/// `automap`, `none` or `ADDRESS ?PORT?`.
pub(super) fn snat_choice(args: &[Value]) -> Result<Snat, Fault> {
    match args {
        [word] if word.is(b"automap") => Ok(Snat::Automap),
        [word] if word.is(b"none") => Ok(Snat::None),
        _ => address_port(args).map(Snat::Address),
    }
}

fn pool(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    ctx.flow.steering.target = pool_target(ctx, args)?;
    Ok(Value::Empty)
}

fn node(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    ctx.flow.steering.target = node_target(ctx, args)?;
    Ok(Value::Empty)
}

fn virtual_server(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    match args {
        [] => Ok(Value::from(&*ctx.flow.virtual_name)),
        [word] if word.is(b"name") && !ctx.host.has_virtual(b"name") => {
            Ok(Value::from(&*ctx.flow.virtual_name))
        }
        [name] => {
            ctx.flow.steering.target = virtual_target(ctx, name)?;
            Ok(Value::Empty)
        }
        _ => Err(Fault::error(
            "virtual: an address and port behind the name are not implemented",
        )),
    }
}

/// Shares a variable with the rules of the virtual that the connection is handed to.
fn sharedvar(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let name = args[0].bytes();
    if name.contains(&b'(') || name.starts_with(b"::") || name.starts_with(b"static::") {
        return Err(Fault::error(format!(
            "can't share \"{}\": it is not the name of a connection's variable",
            args[0].lossy()
        )));
    }
    if !ctx.session.shared.iter().any(|known| **known == *name) {
        ctx.charge(name.len() + 64)?;
        ctx.session.shared.push(Rc::from(&*name));
    }
    Ok(Value::Empty)
}

fn snat(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    ctx.flow.steering.snat = Some(snat_choice(args)?);
    Ok(Value::Empty)
}

fn active_members(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    count_or_list(ctx, args, "active_members", MemberView::is_active)
}

fn members(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    count_or_list(ctx, args, "members", |_| true)
}

/// `use pool www`, as older rules say for `pool www`.
fn use_it(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (what, rest) = (args[0].bytes(), &args[1..]);
    let command = COMMANDS[..COMMANDS.len() - 1].iter().find(|command| {
        matches!(
            &*what,
            b"pool" | b"node" | b"virtual" | b"snat" | b"snatpool"
        ) && command.name.as_bytes() == &*what
    });
    match command {
        Some(command) if rest.len() <= usize::from(command.most) => (command.run)(ctx, rest),
        Some(command) => Err(command.wrong_args()),
        None => Err(Fault::bad(
            "option",
            &what,
            &["pool", "node", "virtual", "snat"],
        )),
    }
}

fn active_nodes(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    distinct_nodes(ctx, args, "active_nodes", MemberView::is_active)
}

fn nodes(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    distinct_nodes(ctx, args, "nodes", |_| true)
}

/// The addresses of members that count, each once.
fn distinct_nodes(
    ctx: &mut Ctx<'_>,
    args: &[Value],
    command: &str,
    counts: impl Fn(&MemberView) -> bool,
) -> Result<Value, Fault> {
    let (list, pool) = asked_pool(ctx, args, command)?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for member in pool.members.iter().filter(|member| counts(member)) {
        if !addresses.contains(&member.address.ip()) {
            addresses.push(member.address.ip());
        }
    }
    ctx.spend((addresses.len() * pool.members.len()) as u64 / 16)?;
    if !list {
        return Ok(Value::from(addresses.len()));
    }
    let text = |address: &IpAddr| Value::from(address.to_string());
    Ok(Value::list_of(addresses.iter().map(text).collect()))
}

/// `?-list? pool`: whether a list is wanted, and the pool.
fn asked_pool(ctx: &mut Ctx<'_>, args: &[Value], command: &str) -> Result<(bool, PoolView), Fault> {
    let (list, name) = match args {
        [name] => (false, name),
        [flag, name] if flag.is(b"-list") => (true, name),
        _ => return Err(Fault::usage(&format!("{command} ?-list? pool"))),
    };
    let pool = find_pool(ctx, name)?;
    ctx.spend(pool.members.len() as u64)?;
    Ok((list, pool))
}

fn count_or_list(
    ctx: &mut Ctx<'_>,
    args: &[Value],
    command: &str,
    counts: impl Fn(&MemberView) -> bool,
) -> Result<Value, Fault> {
    let (list, pool) = asked_pool(ctx, args, command)?;
    let members = pool.members.iter().filter(|member| counts(member));
    if !list {
        return Ok(Value::from(members.count()));
    }
    let pair = |member: &MemberView| {
        Value::list_of(vec![
            Value::from(member.address.ip().to_string()),
            Value::Int(member.address.port().into()),
        ])
    };
    Ok(Value::list_of(members.map(pair).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, address};
    use crate::flow::{Snat, Target};
    use crate::value::Value;

    fn world() -> World {
        let mut world = World::new();
        let members = [
            ("10.0.0.1:80", true),
            ("10.0.0.2:8080", false),
            ("[2001:db8::1]:80", true),
        ];
        world.pool("www", &members);
        world.host.virtuals = vec!["other"];
        world
    }

    #[test]
    fn a_pool_and_its_member_are_chosen() {
        let mut world = world();
        world.check(&[("pool www", "")]);
        let pool = Value::from("www");
        let target = |member| Target::Pool {
            pool: pool.clone(),
            member,
        };
        assert_eq!(world.flow.steering.target, target(None));
        for command in [
            "pool www member 10.0.0.2 8080",
            "pool /Common/www member 10.0.0.2",
            "pool www member 10.0.0.2:8080",
            "pool www member 10.0.0.2%1 8080",
        ] {
            assert_eq!(world.text(command), "", "{command}");
            let member = Some((Value::from("10.0.0.2"), 8080));
            assert_eq!(world.flow.steering.target, target(member));
        }
        world.check(&[
            ("use pool www", ""),
            (
                "use pool",
                "!wrong # args: should be \"use pool|node|virtual|snat arg ...\"",
            ),
            (
                "use members www",
                "!bad option \"members\": must be pool, node, virtual, or snat",
            ),
            ("pool none", "!pool \"none\" not found"),
            (
                "pool www member 10.0.0.3 80",
                "!pool \"www\" has no member \"10.0.0.3\"",
            ),
            (
                "pool www at 10.0.0.3",
                "!wrong # args: should be \"pool name ?member address ?port??\"",
            ),
        ]);
    }

    #[test]
    fn nodes_are_read_in_every_form() {
        let mut world = world();
        for (command, wanted) in [
            ("node 10.0.0.9 81", "10.0.0.9:81"),
            ("node 10.0.0.9:81", "10.0.0.9:81"),
            ("node 10.0.0.9", "10.0.0.9:80"),
            ("node 10.0.0.9%2 https", "10.0.0.9:443"),
            ("node 2001:db8::9 81", "[2001:db8::9]:81"),
            ("node {[2001:db8::9]:81}", "[2001:db8::9]:81"),
            ("node 2001:db8::9.81", "[2001:db8::9]:81"),
            ("node 2001:db8::9", "[2001:db8::9]:80"),
        ] {
            assert_eq!(world.text(command), "", "{command}");
            assert_eq!(world.flow.steering.target, Target::Node(address(wanted)));
        }
        world.check(&[
            ("node here", "!invalid address \"here\""),
            ("node 10.0.0.1 x", "!invalid port \"x\""),
            ("node 10.0.0.1 70000", "!invalid port \"70000\""),
        ]);
    }

    #[test]
    fn virtuals_are_named_and_chosen() {
        let mut world = world();
        world.check(&[
            ("virtual", "www"),
            ("virtual name", "www"),
            ("virtual other", ""),
            ("virtual none", "!virtual server \"none\" not found"),
        ]);
        let chosen = Target::Virtual(Value::from("other"));
        assert_eq!(world.flow.steering.target, chosen);
    }

    #[test]
    fn names_of_shared_variables_are_kept_once() {
        let mut world = world();
        world.check(&[
            ("sharedvar a", ""),
            ("sharedvar b", ""),
            ("sharedvar a", ""),
            (
                "sharedvar static::a",
                "!can't share \"static::a\": it is not the name of a connection's variable",
            ),
        ]);
        let shared: Vec<&[u8]> = world.session.shared.iter().map(|name| &**name).collect();
        assert_eq!(shared, [b"a", b"b"]);
    }

    #[test]
    fn the_source_address_is_chosen() {
        let mut world = world();
        for (command, wanted) in [
            ("snat automap", Snat::Automap),
            ("snat none", Snat::None),
            ("snat 10.9.9.9", Snat::Address(address("10.9.9.9:0"))),
            (
                "snat 10.9.9.9 4000",
                Snat::Address(address("10.9.9.9:4000")),
            ),
        ] {
            assert_eq!(world.text(command), "", "{command}");
            assert_eq!(world.flow.steering.snat, Some(wanted));
        }
    }

    #[test]
    fn members_are_counted_and_listed() {
        world().check(&[
            ("members www", "3"),
            ("active_members www", "2"),
            ("active_members /Common/www", "2"),
            ("active_members -list www", "{10.0.0.1 80} {2001:db8::1 80}"),
            (
                "members -list www",
                "{10.0.0.1 80} {10.0.0.2 8080} {2001:db8::1 80}",
            ),
            ("members none", "!pool \"none\" not found"),
            ("nodes www", "3"),
            ("active_nodes -list www", "10.0.0.1 2001:db8::1"),
        ]);
    }
}
