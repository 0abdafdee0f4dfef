//! Which member a connection or request goes to, as rules and the state of pools have it.

use super::driver::{Driver, TURNS};
use rules::event::Event;
use rules::flow::{Ends, Mode, Persist, Selected, Snat, Steering, Target};
use std::net::{IpAddr, SocketAddr};

/// A member that was found.
struct Found {
    selected: Selected,
    refuses: bool,
}

impl Driver {
    /// Chooses a member and connects to it, unless that is done: whether there is one.
    pub(super) fn reach_member(&mut self) -> bool {
        if self.upstream.is_some() && self.setup.protocol != super::plan::Protocol::Http {
            return true;
        }
        let mut tried = Vec::new();
        for _ in 0..TURNS {
            let Some(found) = self.find(&tried) else {
                return self.failed(&mut tried) && self.reach_again(tried);
            };
            let address = found.selected.address;
            self.seen.pool = Some(found.selected.pool.to_string());
            self.seen.member = Some((found.selected.name.to_string(), address));
            let Some(flow) = self.flow() else {
                return false;
            };
            flow.selected = Some(found.selected);
            if !self.raise(Event::LbSelected) {
                return false;
            }
            if self.takes_reselect() {
                continue;
            }
            if found.refuses {
                tried.push(address);
                self.seen.member = None;
                if self.failed(&mut tried) {
                    continue;
                }
                return false;
            }
            return self.open(address);
        }
        false
    }

    fn reach_again(&mut self, tried: Vec<SocketAddr>) -> bool {
        let Some(found) = self.find(&tried) else {
            return false;
        };
        let address = found.selected.address;
        self.seen.pool = Some(found.selected.pool.to_string());
        self.seen.member = Some((found.selected.name.to_string(), address));
        if let Some(flow) = self.flow() {
            flow.selected = Some(found.selected);
        }
        self.raise(Event::LbSelected) && !found.refuses && self.open(address)
    }

    /// No member can be had: whether a rule wants another.
    fn failed(&mut self, tried: &mut Vec<SocketAddr>) -> bool {
        if !self.raise(Event::LbFailed) {
            return false;
        }
        if let Some(flow) = self.flow()
            && matches!(
                flow.steering.target,
                Target::Pool {
                    member: Some(_),
                    ..
                } | Target::Node(_)
            )
        {
            // What the rule names is tried, even if it was before.
            tried.clear();
        }
        self.takes_reselect()
    }

    fn takes_reselect(&mut self) -> bool {
        self.flow()
            .is_some_and(|flow| std::mem::take(&mut flow.steering.reselect))
    }

    /// Connects to a member, if another or none is connected to.
    fn open(&mut self, address: SocketAddr) -> bool {
        if self.upstream == Some(address) {
            return true;
        }
        if self.upstream.take().is_some() && !self.raise(Event::ServerClosed) {
            return false;
        }
        self.upstream = Some(address);
        if let Some(flow) = self.flow() {
            let local = match address {
                SocketAddr::V4(_) => SocketAddr::from(([10, 255, 0, 1], 50_000)),
                SocketAddr::V6(_) => {
                    SocketAddr::new(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]), 50_000)
                }
            };
            let local = match &flow.steering.snat {
                Some(Snat::Address(address)) => *address,
                Some(Snat::None) => flow.client.remote,
                _ => local,
            };
            flow.server = Some(Ends {
                remote: address,
                local,
            });
        }
        self.raise(Event::ServerConnected)
    }

    /// The member that the rules, or else the configuration, want.
    fn find(&mut self, tried: &[SocketAddr]) -> Option<Found> {
        let target = self.flow()?.steering.target.clone();
        let flow_mode = self.flow()?.steering.mode;
        let (pool, member) = match &target {
            Target::Default | Target::Virtual(_) => (self.default_pool().to_owned(), None),
            Target::Pool { pool, member } => (pool.lossy(), member.clone()),
            Target::Node(address) => return Some(node(*address, tried)),
        };
        self.seen.pool = Some(pool.clone());
        let pool = self.host.pool_named(pool.as_bytes())?;
        let fits = |one: &super::plan::Member| match &member {
            Some((wanted, port)) => {
                let named = wanted.is(one.name.as_bytes())
                    || wanted.is(one.address.ip().to_string().as_bytes());
                named && (*port == 0 || *port == one.address.port())
            }
            None => one.up && one.enabled,
        };
        let can = || {
            let members = pool.members.iter();
            members.filter(|one| fits(one) && !tried.contains(&one.address))
        };
        let highest = can().map(|one| one.priority).max()?;
        let mut best = can().filter(|one| one.priority == highest);
        let one = match flow_mode {
            Some(Mode::LeastConnections) => {
                let load = |one: &&super::plan::Member| {
                    (one.connections << 16) / u64::from(one.ratio.max(1))
                };
                best.min_by_key(load)?
            }
            Some(Mode::RoundRobin) | None => best.next()?,
        };
        Some(Found {
            selected: Selected {
                pool: pool.name.as_str().into(),
                name: one.name.as_str().into(),
                address: one.address,
            },
            refuses: one.refuses || !one.up,
        })
    }
}

fn node(address: SocketAddr, tried: &[SocketAddr]) -> Found {
    Found {
        selected: Selected {
            pool: "".into(),
            name: address.to_string().as_str().into(),
            address,
        },
        refuses: tried.contains(&address),
    }
}

/// What a rule has chosen, as tests write it.
pub(super) fn said(steering: &Steering, what: &str) -> String {
    match what {
        "snat" => match &steering.snat {
            None => String::new(),
            Some(Snat::None) => "none".to_owned(),
            Some(Snat::Automap) => "automap".to_owned(),
            Some(Snat::Address(address)) if address.port() == 0 => address.ip().to_string(),
            Some(Snat::Address(address)) => address.to_string(),
            Some(Snat::Pool(name)) => format!("pool {}", name.lossy()),
        },
        "persist" => match &steering.persist {
            None => String::new(),
            Some(Persist::None) => "none".to_owned(),
            Some(Persist::Source { prefix, timeout }) => format!("source /{prefix} {timeout}"),
            Some(Persist::Universal { key, timeout }) => {
                format!("universal {} {timeout}", key.lossy())
            }
            Some(Persist::Cookie {
                mode,
                name,
                timeout,
            }) => format!("cookie {mode} {} {timeout}", name.lossy()),
            Some(Persist::Hash(key)) => format!("hash {}", key.lossy()),
        },
        "mode" => match steering.mode {
            None => String::new(),
            Some(Mode::RoundRobin) => "rr".to_owned(),
            Some(Mode::LeastConnections) => "least".to_owned(),
        },
        _ => match &steering.target {
            Target::Default => "default".to_owned(),
            Target::Pool { pool, member: None } => format!("pool {}", pool.lossy()),
            Target::Pool {
                pool,
                member: Some((member, port)),
            } => format!("pool {} member {} {port}", pool.lossy(), member.lossy()),
            Target::Node(address) => format!("node {address}"),
            Target::Virtual(name) => format!("virtual {}", name.lossy()),
        },
    }
}
