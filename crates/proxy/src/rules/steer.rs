//! Where rules send a connection or request.

use super::Ruled;
use super::host::{algorithm, plain};
use crate::client::Client;
use crate::snapshot::{Backend, Virtual};
use crate::worker::Worker;
use balance::{Algorithm, Member, MemberId};
use rules::flow::{Snat, Target};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A pool, and the one member of it that will do.
type Place = (Arc<Backend>, Option<MemberId>);

/// Where the rules want it to go; `None` for where the configuration says.
///
/// # Errors
///
/// Why there is no such place, for the log.
pub(crate) fn target(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
) -> Result<Option<Place>, &'static str> {
    let target = rules.flow().steering.target.clone();
    match target {
        // Which virtual's routes are asked is decided before.
        Target::Default | Target::Virtual(_) => Ok(None),
        Target::Pool { pool, member } => {
            let snapshot = worker.in_force();
            let name = pool.bytes();
            let backend = snapshot.backends.get(plain(&name));
            let backend = backend.ok_or("rule-no-such-pool")?;
            let only = match member {
                None => None,
                Some((name, port)) => {
                    let found = find(backend, &name.bytes(), port);
                    Some(found.ok_or("rule-no-such-member")?.id())
                }
            };
            Ok(Some((Arc::clone(backend), only)))
        }
        Target::Node(address) => {
            let like = client.service.default.as_deref();
            Ok(Some((worker.nodes.backend(address, like), None)))
        }
    }
}

/// The virtual that the rules hand the request or connection to, if they do.
///
/// # Errors
///
/// There is none of that name, or it speaks another protocol: why, for the log.
pub(crate) fn handed_to(
    worker: &Worker,
    rules: &Ruled,
    http: bool,
) -> Result<Option<Arc<Virtual>>, &'static str> {
    let Target::Virtual(name) = rules.flow().steering.target.clone() else {
        return Ok(None);
    };
    let snapshot = worker.in_force();
    let service = snapshot.virtuals.get(plain(&name.bytes()));
    let fits = |service: &&Arc<Virtual>| (service.config.protocol == model::Protocol::Http) == http;
    match service.filter(fits) {
        Some(service) => Ok(Some(Arc::clone(service))),
        None => Err("rule-no-such-virtual"),
    }
}

/// The method by which a member is chosen, where a rule has said so.
pub(crate) fn method(rules: &Ruled) -> Option<Algorithm> {
    rules.flow().steering.mode.map(algorithm)
}

/// The address that the member is to see, where a rule has chosen one.
pub(crate) fn source(rules: &Ruled) -> Option<SocketAddr> {
    match rules.flow().steering.snat {
        Some(Snat::Address(address)) => Some(address),
        _ => None,
    }
}

/// A pool's member by its name or address, and its port; port 0 for any.
fn find(backend: &Backend, name: &[u8], port: u16) -> Option<Arc<Member>> {
    let text = std::str::from_utf8(name).ok()?;
    let ip = text.parse::<IpAddr>().ok();
    let whole = text.parse::<SocketAddr>().ok();
    let mut members = backend.pool.members().into_iter();
    members.find(|member| {
        let address = member.address();
        let port_fits = port == 0 || address.port() == port;
        port_fits
            && (&**member.name() == text || ip == Some(address.ip()) || whole == Some(address))
    })
}
