//! TCP virtuals with rules: bytes that rules hold back and look at, and where they send a connection.

use super::{NotReached, Notes, backend_for, converse, idle, reach, refused, relay, stopped};
use crate::access::{By, Ending, Phase as LogPhase};
use crate::client::{Channel, Client};
use crate::engine::Phase;
use crate::rules::{Ruled, Stop, facts_of, handed_to, target};
use crate::snapshot::Backend;
use crate::worker::Worker;
use ::rules::event::Event;
use ::rules::flow::{Ended, Ends, Held, Selected};
use ::rules::value::Value;
use balance::Member;
use reactor::{Buf, Either, Tcp, race};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tls::Stream;

/// How often rules may have a member chosen anew.
const TURNS: u32 = 10;

/// What is read at once.
const READ: usize = 16 * 1024;

/// Serves a connection that has rules. `routed` is where the configuration sends it.
pub(super) async fn serve(
    worker: &Worker,
    client: &mut Client,
    routed: Option<Arc<Backend>>,
    notes: &mut Notes,
) -> Ending {
    let Some(rules) = client.rules.clone() else {
        return refused("no-pool", By::Proxy, LogPhase::Request);
    };
    match talk(worker, client, &rules, routed, notes).await {
        Ok(ending) => ending,
        Err(stop) => {
            if matches!(stop, Stop::Ended(Ended::Close)) {
                // What was said before the close is still to arrive.
                let _ = answer(&rules, &client.channel).await;
            }
            stopped(client, stop)
        }
    }
}

async fn talk(
    worker: &Worker,
    client: &mut Client,
    rules: &Ruled,
    routed: Option<Arc<Backend>>,
    notes: &mut Notes,
) -> Result<Ending, Stop> {
    {
        let gone = || client.channel.is_gone();
        rules.accept(worker, &gone).await?;
    }
    answer(rules, &client.channel).await?;
    let (passed, held) = hold_back(worker, client, rules).await?;
    client.pending = passed;
    if rules.hands_over() {
        client.pending.extend_from_slice(&held);
        return Box::pin(hand_over(worker, client, rules, notes)).await;
    }
    let mut turns = 0;
    let (slot, member) = loop {
        turns += 1;
        let destination = match target(worker, client, rules) {
            Ok(destination) => destination,
            Err(reason) => return Ok(refused(reason, By::Proxy, LogPhase::Connect)),
        };
        let (backend, only) = match destination {
            Some((backend, only)) => (Some(backend), only),
            None => (routed.clone(), None),
        };
        let Some(backend) = backend else {
            return Ok(refused("no-pool", By::Proxy, LogPhase::Request));
        };
        notes.backend = Some(Arc::clone(&backend));
        match Box::pin(reach(worker, client, &backend, notes, only)).await {
            Ok(reached) => break reached,
            Err(NotReached::Ended(ending)) => return Ok(ending),
            Err(NotReached::Elsewhere) if turns < TURNS => {}
            Err(NotReached::Elsewhere) => {
                return Ok(refused("rule-loops", By::Proxy, LogPhase::Connect));
            }
        }
    };
    let told = notes.backend.as_ref().is_some_and(|b| b.tls.is_some());
    reached(worker, client, rules, &member, slot.member(), told).await?;
    let ending = if holds(rules) || !held.is_empty() {
        let relayed = between(worker, client, rules, &member, held, notes).await;
        relayed?
    } else {
        relay(worker, client, &slot, &member, notes).await
    };
    let gone = || false;
    rules.raise(worker, Event::ServerClosed, &gone).await?;
    Ok(ending)
}

/// Serves a connection as the virtual does that it is handed to.
async fn hand_over(
    worker: &Worker,
    client: &mut Client,
    rules: &Ruled,
    notes: &mut Notes,
) -> Result<Ending, Stop> {
    let service = match handed_to(worker, rules, false) {
        Ok(Some(service)) => service,
        Ok(None) => return Ok(refused("no-pool", By::Proxy, LogPhase::Request)),
        Err(reason) => return Ok(refused(reason, By::Proxy, LogPhase::Connect)),
    };
    if notes.handed >= TURNS {
        return Ok(refused("rule-loops", By::Proxy, LogPhase::Connect));
    }
    notes.handed += 1;
    let routed = client.channel.with(|stream| {
        let info = stream.info();
        let name = notes.server_name.as_deref();
        let name = name.or(info.as_ref().and_then(|info| info.sni));
        backend_for(&service, name).cloned()
    });
    let inner = {
        let gone = || client.channel.is_gone();
        rules.handed_to(worker, &service, &gone).await?
    };
    let before = std::mem::replace(&mut client.rules, inner.clone());
    let ending = match (inner, routed) {
        (Some(inner), routed) => {
            let ending = talk(worker, client, &inner, routed, notes).await;
            inner.share_with(rules);
            ending
        }
        (None, Some(backend)) => Ok(converse(worker, client, &backend, notes).await),
        (None, None) => Ok(refused("no-pool", By::Proxy, LogPhase::Request)),
    };
    client.rules = before;
    ending
}

/// Notes the member that was chosen.
pub(super) fn select(rules: &Ruled, pool: &str, member: &Member) {
    let mut flow = rules.flow();
    flow.steering.reselect = false;
    flow.selected = Some(Selected {
        pool: pool.into(),
        name: (&**member.name()).into(),
        address: member.address(),
    });
}

/// Whether the rules want another member.
pub(super) fn reselects(rules: &Ruled) -> bool {
    std::mem::take(&mut rules.flow().steering.reselect)
}

/// Lets the rules see what the client says first, until they let something go on. Returns that, and what they still hold
/// back.
async fn hold_back(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
) -> Result<(Vec<u8>, Vec<u8>), Stop> {
    let most = worker.in_force().world.limits.collect;
    let mut bytes = client.pending.clone();
    let mut passed = Vec::new();
    // How much the rules have seen and left as it is: they see it again only with more behind it.
    let mut seen = 0;
    while let Some(wanted) = pass_by(rules, true, &mut bytes, &mut passed) {
        let enough = usize::try_from(wanted.max(1))
            .unwrap_or(usize::MAX)
            .min(most);
        let mut ended = false;
        while (bytes.len() < enough || bytes.len() <= seen) && !ended {
            client.deadline.set(idle(client));
            match read(client, &client.channel).await {
                Ok(part) if part.is_empty() => ended = true,
                Ok(part) => bytes.extend_from_slice(&part),
                Err(_) => return Err(Stop::Gone),
            }
        }
        if ended {
            break;
        }
        see(worker, client, rules, true, &mut bytes, &mut passed).await?;
        answer(rules, &client.channel).await?;
        if !passed.is_empty() {
            break;
        }
        seen = bytes.len();
        within(rules, true, seen, most)?;
    }
    if rules.flow().client_data.wanted.is_none() {
        passed.append(&mut bytes);
    }
    Ok((passed, bytes))
}

/// Passes by what the rules have asked to skip. Returns how much they want to see then.
fn pass_by(
    rules: &Ruled,
    from_client: bool,
    bytes: &mut Vec<u8>,
    passed: &mut Vec<u8>,
) -> Option<u64> {
    let mut flow = rules.flow();
    let held = match from_client {
        true => &mut flow.client_data,
        false => &mut flow.server_data,
    };
    let wanted = held.wanted?;
    let n = usize::try_from(held.skip)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    passed.extend(bytes.drain(..n));
    held.skip -= n as u64;
    Some(wanted.saturating_add(held.skip))
}

/// Runs the data event of a side. What the rules release goes from `bytes` to `passed`.
async fn see(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    from_client: bool,
    bytes: &mut Vec<u8>,
    passed: &mut Vec<u8>,
) -> Result<(), Stop> {
    fn held(flow: &mut ::rules::flow::Flow, from_client: bool) -> &mut Held {
        match from_client {
            true => &mut flow.client_data,
            false => &mut flow.server_data,
        }
    }
    {
        let mut flow = rules.flow();
        let held = held(&mut flow, from_client);
        held.wanted = None;
        held.released = None;
        held.changed = false;
        held.bytes = Value::from(std::mem::take(bytes));
    }
    let event = match from_client {
        true => Event::ClientData,
        false => Event::ServerData,
    };
    let gone = || client.channel.is_gone();
    rules.raise(worker, event, &gone).await?;
    let mut flow = rules.flow();
    let held = held(&mut flow, from_client);
    *bytes = std::mem::take(&mut held.bytes).bytes().to_vec();
    let released = match (held.released.take(), held.wanted) {
        (Some(n), _) => usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len()),
        // More is to come before any goes on.
        (None, Some(_)) => 0,
        (None, None) => bytes.len(),
    };
    passed.extend(bytes.drain(..released));
    Ok(())
}

/// Sends the client what the rules have for it.
async fn answer(rules: &Ruled, channel: &Channel) -> Result<(), Stop> {
    let out = std::mem::take(&mut rules.flow().client_data.respond);
    for part in out {
        let sent = channel.write_all(&part.bytes()).await;
        sent.map_err(|_| Stop::Gone)?;
    }
    Ok(())
}

/// Tells the rules of the connection to the member.
pub(super) async fn connected(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    tcp: &Tcp,
    member: &Member,
) -> Result<(), Stop> {
    note(rules, tcp, member);
    let gone = || client.channel.is_gone();
    rules.raise(worker, Event::ServerConnected, &gone).await
}

fn note(rules: &Ruled, tcp: &Tcp, member: &Member) {
    rules.reached(tcp.control());
    let unknown = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    rules.flow().server = Some(Ends {
        remote: member.address(),
        local: tcp.local_addr().unwrap_or(unknown),
    });
}

/// Tells the rules of the connection to the member as it stands at last, with its TLS or without.
async fn reached(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    channel: &Channel,
    member: &Member,
    told: bool,
) -> Result<(), Stop> {
    let gone = || client.channel.is_gone();
    if !told {
        channel.with(|stream| note(rules, stream.tcp(), member));
        rules.raise(worker, Event::ServerConnected, &gone).await?;
    }
    let facts = channel.with(|stream| stream.info().map(|info| facts_of(&info)));
    if facts.is_none() {
        return Ok(());
    }
    rules.flow().server_tls = facts;
    rules.raise(worker, Event::ServersslHandshake, &gone).await
}

/// Whether the rules want to see more of either side.
fn holds(rules: &Ruled) -> bool {
    let flow = rules.flow();
    flow.client_data.wanted.is_some()
        || flow.server_data.wanted.is_some()
        || !flow.server_data.respond.is_empty()
}

/// Relays while rules look at what passes.
async fn between(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    member: &Channel,
    held: Vec<u8>,
    notes: &mut Notes,
) -> Result<Ending, Stop> {
    let moved = (Cell::new(0), Cell::new(0));
    let up = way(worker, client, rules, member, true, held, &moved.0);
    let down = way(worker, client, rules, member, false, Vec::new(), &moved.1);
    let both = reactor::join(up, down);
    let stop = std::future::poll_fn(|cx| {
        if worker.phase() == Phase::Stopping {
            return std::task::Poll::Ready(Stop::Ended(Ended::Close));
        }
        rules.poll_stop(cx.waker())
    });
    let ended = match race(both, stop).await {
        Either::Left((up, down)) => up.and(down),
        Either::Right(stop) => Err(stop),
    };
    notes.bytes_in += moved.0.get();
    notes.bytes_out += moved.1.get();
    ended.map(|()| Ending::DONE)
}

/// Relays one direction to its end.
async fn way(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    member: &Channel,
    from_client: bool,
    mut bytes: Vec<u8>,
    moved: &Cell<u64>,
) -> Result<(), Stop> {
    let (from, to) = match from_client {
        true => (&client.channel, member),
        false => (member, &client.channel),
    };
    let most = worker.in_force().world.limits.collect;
    loop {
        let part = read(client, from).await.map_err(|_| Stop::Gone)?;
        let ended = part.is_empty();
        bytes.extend_from_slice(&part);
        let mut passed = Vec::new();
        while let Some(wanted) = pass_by(rules, from_client, &mut bytes, &mut passed) {
            let enough = usize::try_from(wanted.max(1))
                .unwrap_or(usize::MAX)
                .min(most);
            if bytes.len() < enough || ended {
                break;
            }
            let before = bytes.len();
            see(worker, client, rules, from_client, &mut bytes, &mut passed).await?;
            let to_member = std::mem::take(&mut rules.flow().server_data.respond);
            for part in to_member {
                member
                    .write_all(&part.bytes())
                    .await
                    .map_err(|_| Stop::Gone)?;
            }
            answer(rules, &client.channel).await?;
            // What they leave as it is they see again with more behind it.
            if bytes.len() >= before {
                within(rules, from_client, bytes.len(), most)?;
                break;
            }
        }
        if !wants(rules, from_client) || ended {
            passed.append(&mut bytes);
        }
        if !passed.is_empty() {
            moved.set(moved.get() + passed.len() as u64);
            let sent = async {
                to.write_all(&passed).await?;
                to.flush().await
            };
            sent.await.map_err(|_| Stop::Gone)?;
        }
        if ended {
            to.with(Stream::close_notify);
            // Of one that is gone nothing more is wanted.
            let _ = to.with(|s| s.tcp().shutdown(std::net::Shutdown::Write));
            return Ok(());
        }
    }
}

/// Ends a connection of which rules would hold back more than they may.
fn within(rules: &Ruled, from_client: bool, held: usize, most: usize) -> Result<(), Stop> {
    if held < most || !wants(rules, from_client) {
        return Ok(());
    }
    tracing::error!(held, "a rule holds back more than it may");
    Err(Stop::Failed)
}

/// Whether the rules want to see more of a side.
fn wants(rules: &Ruled, from_client: bool) -> bool {
    let flow = rules.flow();
    match from_client {
        true => flow.client_data.wanted.is_some(),
        false => flow.server_data.wanted.is_some(),
    }
}

/// What a side says next; nothing at its end.
async fn read(client: &Client, from: &Channel) -> io::Result<Vec<u8>> {
    loop {
        {
            let mut buf = Buf::take();
            if let Some(n) = from.try_read(&mut buf[..READ])? {
                return Ok(buf[..n].to_vec());
            }
        }
        client.deadline.set(idle(client));
        match client.deadline.guard(from.readable()).await {
            Ok(ready) => ready?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
