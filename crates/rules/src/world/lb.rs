//! `LB::`: the member that was chosen, and how another is.

use crate::command::{ANY, Command, Ctx};
use crate::event::{Event, Events};
use crate::fault::Fault;
use crate::flow::{Mode, Selected, Snat, Target};
use crate::host::MemberView;
use crate::value::Value;
use std::net::SocketAddr;

use super::pool::{
    CHOOSING, find_member, find_pool, node_target, plain_address, pool_target, port_of,
    snat_choice, virtual_target,
};

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "LB::server",
        "?addr|name|pool|port|priority|ratio|weight?",
        0,
        1,
        server,
    )
    .at(CHOOSING)
    .differs("before a member is chosen it gives the pool alone; no ripeness and route_domain"),
    Command::new(
        "LB::reselect",
        "?pool|node|virtual|snat arg ...?",
        0,
        ANY,
        reselect,
    )
    .at(Events::of(&[
        Event::LbSelected,
        Event::LbFailed,
        Event::LbQueued,
        Event::PersistDown,
        Event::ServerConnected,
        Event::HttpResponse,
        Event::HttpRequestSend,
    ]))
    .differs("without clone"),
    Command::new("LB::mode", "method", 1, 1, mode)
        .at(CHOOSING)
        .differs("rr, ratio (both go by the members' weights), leastconns and default; others are an error"),
    Command::new("LB::select", "?pool name ?member address ?port?? | node address ?port??", 0, 6, select)
        .at(CHOOSING)
        .differs("the member goes by the pool's balancing, whatever persist says, and is the one that is used"),
    Command::new("LB::snat", "", 0, 0, snat).at(CHOOSING),
    Command::new("LB::detach", "", 0, 0, detach).at(CHOOSING),
    Command::new(
        "LB::status",
        "?pool name member address ?port? | node address? ?state?",
        0,
        7,
        status,
    )
    .at(CHOOSING)
    .differs(
        "a node is up while a member of the chosen pool or of the virtual's pool at its address is",
    ),
];

fn server(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let pool = Value::from(pool_name(ctx));
    let selected = ctx.flow.selected.clone();
    let Some(what) = args.first() else {
        let mut all = vec![pool];
        if let Some(selected) = &selected {
            all.push(Value::from(selected.address.ip().to_string()));
            all.push(Value::Int(selected.address.port().into()));
        }
        return Ok(Value::list_of(all));
    };
    let of = |give: fn(&Selected) -> Value| Ok(selected.as_ref().map(give).unwrap_or_default());
    let of_view = |give: fn(&MemberView) -> Value| {
        let view = selected
            .as_ref()
            .and_then(|selected| view_of(ctx, selected));
        Ok(view.as_ref().map(give).unwrap_or_default())
    };
    match &*what.bytes() {
        b"pool" => Ok(pool),
        b"addr" => of(|selected| Value::from(selected.address.ip().to_string())),
        b"port" => of(|selected| Value::Int(selected.address.port().into())),
        b"name" => of(|selected| Value::from(&*selected.name)),
        b"priority" => of_view(|view| Value::Int(view.priority.into())),
        b"ratio" | b"weight" => of_view(|view| Value::Int(view.ratio.into())),
        other => Err(Fault::bad(
            "option",
            other,
            &[
                "addr", "name", "pool", "port", "priority", "ratio", "weight",
            ],
        )),
    }
}

/// The chosen member's pool, or else the one from which a member will be chosen.
fn pool_name(ctx: &Ctx<'_>) -> String {
    match (&ctx.flow.selected, &ctx.flow.steering.target) {
        (Some(selected), _) => selected.pool.as_ref().into(),
        (None, Target::Pool { pool, .. }) => pool.lossy(),
        (None, Target::Default) => ctx.flow.default_pool.as_ref().into(),
        (None, _) => String::new(),
    }
}

fn view_of(ctx: &Ctx<'_>, selected: &Selected) -> Option<MemberView> {
    let pool = ctx.host.pool(selected.pool.as_bytes())?;
    let is = |member: &MemberView| member.address == selected.address;
    pool.members.into_iter().find(is)
}

fn reselect(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    if let [what, rest @ ..] = args {
        let target = match &*what.bytes() {
            b"pool" => pool_target(ctx, rest)?,
            b"node" => node_target(ctx, rest)?,
            b"virtual" if rest.len() == 1 => virtual_target(ctx, &rest[0])?,
            b"snat" => {
                ctx.flow.steering.snat = Some(snat_choice(rest)?);
                ctx.flow.steering.reselect = true;
                return Ok(Value::Empty);
            }
            other => {
                return Err(Fault::bad(
                    "option",
                    other,
                    &["node", "pool", "snat", "virtual"],
                ));
            }
        };
        ctx.flow.steering.target = target;
    }
    ctx.flow.steering.reselect = true;
    Ok(Value::Empty)
}

/// `LB::mode METHOD`: how the member of this request or connection is chosen.
fn mode(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    ctx.flow.steering.mode = match &*args[0].bytes() {
        b"default" => None,
        b"rr" | b"roundrobin" | b"round_robin" | b"round-robin" | b"ratio" | b"ratio_member"
        | b"ratio-member" => Some(Mode::RoundRobin),
        b"least"
        | b"leastconns"
        | b"least_conns"
        | b"leastconnections"
        | b"least_connections"
        | b"least-connections"
        | b"least-connections-member" => Some(Mode::LeastConnections),
        other => {
            return Err(Fault::bad(
                "method",
                other,
                &["default", "leastconns", "ratio", "rr"],
            ));
        }
    };
    Ok(Value::Empty)
}

/// Chooses now. The value is the command that sends the connection there: `pool www member 10.0.0.1 80`.
fn select(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let target = match args {
        [] => ctx.flow.steering.target.clone(),
        [what, rest @ ..] if what.is(b"pool") => pool_target(ctx, rest)?,
        [what, rest @ ..] if what.is(b"node") => node_target(ctx, rest)?,
        _ => {
            return Err(Fault::usage(
                "LB::select ?pool name ?member address ?port?? | node address ?port??",
            ));
        }
    };
    let chosen = match target {
        Target::Default | Target::Pool { member: None, .. } => {
            let pool = match target {
                Target::Pool { pool, .. } => pool,
                _ => Value::from(&*ctx.flow.default_pool),
            };
            let mode = ctx.flow.steering.mode;
            let Some(member) = ctx.host.choose(&pool.bytes(), mode) else {
                return Err(Fault::error(format!(
                    "no member of pool \"{}\" can be chosen",
                    pool.lossy()
                )));
            };
            let address = Value::from(member.address.ip().to_string());
            let member = Some((address, member.address.port()));
            Target::Pool { pool, member }
        }
        fixed => fixed,
    };
    let command = match &chosen {
        Target::Pool {
            pool,
            member: Some((address, port)),
        } => vec![
            Value::from("pool"),
            pool.clone(),
            Value::from("member"),
            address.clone(),
            Value::Int((*port).into()),
        ],
        Target::Node(address) => vec![
            Value::from("node"),
            Value::from(address.ip().to_string()),
            Value::Int(address.port().into()),
        ],
        Target::Virtual(name) => vec![Value::from("virtual"), name.clone()],
        Target::Default | Target::Pool { .. } => Vec::new(),
    };
    ctx.flow.steering.target = chosen;
    Ok(Value::list_of(command))
}

/// The source address towards the member, as `snat` takes it.
fn snat(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    Ok(match &ctx.flow.steering.snat {
        None | Some(Snat::Automap) => Value::from("automap"),
        Some(Snat::None) => Value::from("none"),
        Some(Snat::Address(address)) if address.port() == 0 => {
            Value::from(address.ip().to_string())
        }
        Some(Snat::Address(address)) => Value::list_of(vec![
            Value::from(address.ip().to_string()),
            Value::Int(address.port().into()),
        ]),
        Some(Snat::Pool(name)) => name.clone(),
    })
}

fn detach(ctx: &mut Ctx<'_>, _: &[Value]) -> Result<Value, Fault> {
    ctx.flow.steering.detach = true;
    Ok(Value::Empty)
}

fn status(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (state, asked) = match args {
        [] | [_] => {
            let selected = ctx.flow.selected.clone();
            let view = selected.and_then(|selected| view_of(ctx, &selected));
            (view.map(|view| state_of(&view)), args)
        }
        [what, address, asked @ ..] if what.is(b"node") => (node_state(ctx, address)?, asked),
        [what, name, word, member, rest @ ..] if what.is(b"pool") && word.is(b"member") => {
            let (port, asked) = match rest {
                [port, asked @ ..] if !is_state(port) => (port_of(port)?, asked),
                asked => (0, asked),
            };
            let pool = find_pool(ctx, name)?;
            let Some(view) = find_member(&pool, member, port) else {
                return Err(Fault::error(format!(
                    "pool \"{}\" has no member \"{}\"",
                    pool.name,
                    member.lossy()
                )));
            };
            (Some(state_of(view)), asked)
        }
        _ => {
            return Err(Fault::usage(
                "LB::status ?pool name member address ?port? | node address? ?state?",
            ));
        }
    };
    match asked {
        [] => Ok(state.map(Value::from).unwrap_or_default()),
        [word] if is_state(word) => {
            let word = word.bytes();
            Ok(Value::from(match (&*word, state) {
                (b"session_enabled", Some(state)) => state != "session_disabled",
                (word, Some(state)) => word == state.as_bytes(),
                (_, None) => false,
            }))
        }
        [word, ..] => Err(Fault::bad("state", &word.bytes(), STATES)),
    }
}

const STATES: &[&str] = &["up", "down", "session_enabled", "session_disabled"];

fn is_state(word: &Value) -> bool {
    STATES.iter().any(|state| word.is(state.as_bytes()))
}

fn state_of(member: &MemberView) -> &'static str {
    match (member.enabled, member.up) {
        (false, _) => "session_disabled",
        (true, true) => "up",
        (true, false) => "down",
    }
}

/// The best state of the members at an address, as far as the connection's pools know it.
fn node_state(ctx: &Ctx<'_>, address: &Value) -> Result<Option<&'static str>, Fault> {
    let text = address.lossy();
    let address = plain_address(&text)
        .or_else(|| text.parse::<SocketAddr>().ok().map(|both| both.ip()))
        .ok_or_else(|| Fault::error(format!("invalid address \"{text}\"")))?;
    let pools = [pool_name(ctx), ctx.flow.default_pool.as_ref().into()];
    let mut states: Vec<_> = pools
        .iter()
        .filter_map(|name| ctx.host.pool(name.as_bytes()))
        .flat_map(|pool| pool.members)
        .filter(|member| member.address.ip() == address)
        .map(|member| state_of(&member))
        .collect();
    states.sort_unstable_by_key(|state| STATES.iter().position(|known| known == state));
    Ok(states.first().copied())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, address};
    use crate::flow::{Mode, Selected, Snat, Target};
    use crate::value::Value;

    fn world() -> World {
        let mut world = World::new();
        world.pool("www", &[("10.0.0.1:80", true), ("10.0.0.2:80", false)]);
        world.pool("spare", &[("10.0.1.1:80", true)]);
        world.flow.default_pool = "www".into();
        world.event = crate::event::Event::LbSelected;
        world
    }

    fn select(world: &mut World) {
        world.flow.selected = Some(Selected {
            pool: "www".into(),
            name: "one".into(),
            address: address("10.0.0.1:80"),
        });
    }

    #[test]
    fn the_chosen_member_is_told() {
        let mut world = world();
        world.check(&[
            ("LB::server", "www"),
            ("LB::server pool", "www"),
            ("LB::server addr", ""),
        ]);
        world.check(&[("pool spare", ""), ("LB::server pool", "spare")]);
        select(&mut world);
        world.check(&[
            ("LB::server", "www 10.0.0.1 80"),
            ("LB::server pool", "www"),
            ("LB::server addr", "10.0.0.1"),
            ("LB::server port", "80"),
            ("LB::server name", "one"),
            ("LB::server ratio", "1"),
            ("LB::server priority", "0"),
            (
                "LB::server mood",
                "!bad option \"mood\": must be addr, name, pool, port, priority, ratio, or weight",
            ),
        ]);
    }

    #[test]
    fn another_member_is_asked_for() {
        let mut world = world();
        world.check(&[("LB::reselect pool spare", "")]);
        assert!(world.flow.steering.reselect);
        let pool = Value::from("spare");
        assert_eq!(
            world.flow.steering.target,
            Target::Pool { pool, member: None }
        );
        world.check(&[
            ("LB::reselect node 10.9.9.9 99", ""),
            ("LB::reselect snat automap", ""),
            ("LB::detach", ""),
            ("LB::reselect pool none", "!pool \"none\" not found"),
        ]);
        let steering = &world.flow.steering;
        assert_eq!(steering.target, Target::Node(address("10.9.9.9:99")));
        assert_eq!(steering.snat, Some(Snat::Automap));
        assert!(steering.detach);
    }

    #[test]
    fn a_method_is_chosen_or_refused() {
        let mut world = world();
        world.check(&[("LB::mode leastconns", "")]);
        assert_eq!(world.flow.steering.mode, Some(Mode::LeastConnections));
        world.check(&[("LB::mode rr", "")]);
        assert_eq!(world.flow.steering.mode, Some(Mode::RoundRobin));
        world.check(&[
            ("LB::mode default", ""),
            (
                "LB::mode fastest",
                "!bad method \"fastest\": must be default, leastconns, ratio, or rr",
            ),
        ]);
        assert_eq!(world.flow.steering.mode, None);
    }

    #[test]
    fn what_is_chosen_now_is_where_it_goes() {
        let mut world = world();
        world.host.pools[0].members[1].up = true;
        world.host.pools[0].members[0].connections = 5;
        world.check(&[
            ("LB::select", "pool www member 10.0.0.1 80"),
            ("LB::select pool spare", "pool spare member 10.0.1.1 80"),
            ("LB::mode leastconns", ""),
            ("LB::select pool www", "pool www member 10.0.0.2 80"),
            ("LB::select", "pool www member 10.0.0.2 80"),
            ("LB::select node 10.9.9.9 99", "node 10.9.9.9 99"),
        ]);
        let there = Target::Node(address("10.9.9.9:99"));
        assert_eq!(world.flow.steering.target, there);
        world.host.pools[1].members[0].up = false;
        world.check(&[(
            "LB::select pool spare",
            "!no member of pool \"spare\" can be chosen",
        )]);
    }

    #[test]
    fn the_source_address_is_told_as_snat_takes_it() {
        let mut world = world();
        world.check(&[
            ("LB::snat", "automap"),
            ("snat none", ""),
            ("LB::snat", "none"),
            ("snat 10.0.0.9", ""),
            ("LB::snat", "10.0.0.9"),
        ]);
    }

    #[test]
    fn states_of_members_and_nodes_are_told() {
        let mut world = world();
        world.host.pools[1].members[0].enabled = false;
        world.check(&[
            ("LB::status", ""),
            ("LB::status pool www member 10.0.0.1 80", "up"),
            ("LB::status pool www member 10.0.0.2 80", "down"),
            ("LB::status pool www member 10.0.0.2", "down"),
            ("LB::status pool www member 10.0.0.2 80 up", "0"),
            ("LB::status pool www member 10.0.0.2 down", "1"),
            (
                "LB::status pool spare member 10.0.1.1 80",
                "session_disabled",
            ),
            ("LB::status pool www member 10.0.0.1 session_enabled", "1"),
            ("LB::status node 10.0.0.1", "up"),
            ("LB::status node 10.0.0.2 up", "0"),
            (
                "LB::status pool www member 10.0.0.7 80",
                "!pool \"www\" has no member \"10.0.0.7\"",
            ),
        ]);
        select(&mut world);
        world.check(&[("LB::status", "up"), ("LB::status up", "1")]);
    }
}
