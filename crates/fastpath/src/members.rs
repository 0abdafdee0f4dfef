//! The members of fast virtuals: from the configuration and what monitors say to what the tables must hold, and the writes
//! that lead there in an order in which every packet in between finds its way. Writing is left to others.
//!
//! Numbers of members and virtuals stay as long as they do: flows bear them. A virtual with addresses of both families has
//! a number for each.

mod ids;
mod state;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use balance::maglev;
use balance::{Admin, Health, hash_bytes};
use model::{Config, FastMode, FastVirtual, MemberAddress, MemberState, Pool, Snat, Transport};
use thiserror::Error;

use crate::abi::{
    self, MEMBER_DRAIN, MEMBER_UP, Member, SPANS, Source, VipKey, VirtualServer, Way,
};
use ids::Ids;
pub use state::Write;
use state::{Port, Share, State, Vip};

/// Places of a virtual's Maglev table.
pub const RING_SIZE: u32 = maglev::SIZE as u32;
/// Virtuals at most, those with addresses of both families counted twice.
pub const MOST_VIRTUALS: u16 = 4095;
/// Members at most.
pub const MOST_MEMBERS: u16 = u16::MAX;
/// Addresses of virtuals at most, by transport protocol.
pub const MOST_ADDRESSES: usize = 4096;
/// Addresses with ports of virtuals at most, ranges aside.
pub const MOST_PORTS: usize = 65_536;

/// How a member is, at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What its monitors say.
    pub health: Health,
    /// What the operator wants of it.
    pub admin: Admin,
    /// Its share relative to the others.
    pub weight: u32,
}

/// A virtual in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedVirtual {
    /// Its number.
    pub number: u32,
    /// Its name in the configuration.
    pub name: String,
    /// 4 or 6: of the addresses that have this number.
    pub family: u8,
}

/// A member in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMember {
    /// Its number.
    pub id: u16,
    /// The name of its pool.
    pub pool: String,
    /// Its own name.
    pub name: String,
    /// Where it is reached.
    pub address: SocketAddr,
    /// `MEMBER_…`, or 0.
    pub state: u8,
}

/// What does not fit in the tables.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TooMany {
    /// Virtuals.
    #[error(
        "the fast path has room for {MOST_VIRTUALS} virtuals, those with addresses of both families counted twice: «{0}» is one more"
    )]
    Virtuals(String),
    /// Members.
    #[error(
        "the fast path has room for {MOST_MEMBERS} members: {member} of pool «{pool}» is one more"
    )]
    Members {
        /// The pool.
        pool: String,
        /// The member.
        member: SocketAddr,
    },
    /// Ranges of ports.
    #[error("{address} has more than {SPANS} ranges of ports: merge some, or list single ports")]
    Ranges {
        /// The virtuals' address.
        address: IpAddr,
    },
    /// Addresses.
    #[error(
        "the fast path has room for {MOST_ADDRESSES} addresses of virtuals, those for TCP and UDP counted twice"
    )]
    Addresses,
    /// Addresses with ports.
    #[error("the fast path has room for {MOST_PORTS} ports of virtuals, ranges aside")]
    Ports,
}

/// What the tables hold of virtuals and members, and who has which number.
#[derive(Clone, Debug)]
pub struct Balancer {
    member_ids: Ids<MemberKey>,
    virtual_numbers: Ids<(String, u8)>,
    state: State,
    /// By virtual: to be known again by an address, where an earlier process gave the number.
    virtuals: Vec<NamedVirtual>,
    members: Vec<NamedMember>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MemberKey {
    /// As in its record.
    pool: u32,
    address: SocketAddr,
}

impl Default for Balancer {
    fn default() -> Self {
        Self {
            member_ids: Ids::new(MOST_MEMBERS),
            virtual_numbers: Ids::new(MOST_VIRTUALS),
            state: State::default(),
            virtuals: Vec::new(),
            members: Vec::new(),
        }
    }
}

impl Balancer {
    /// With empty tables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With tables as an earlier process has left them: entries of `members`, `virtual_servers`, `vips` and `vip_spans`.
    /// Members and virtuals get back the numbers they had; what there is no more goes with the first [`Balancer::apply`].
    #[must_use]
    pub fn restored(
        members: &[(u32, Member)],
        virtuals: &[(u32, VirtualServer)],
        vips: &[(VipKey, u32)],
        spans: &[(VipKey, abi::Spans)],
    ) -> Self {
        let mut balancer = Self {
            state: State::restored(members, virtuals, vips, spans),
            ..Self::default()
        };
        for (id, member) in &balancer.state.members {
            let ip = abi::narrowed(member.addr, member.family);
            let key = MemberKey {
                pool: member.pool,
                address: SocketAddr::new(ip, member.port.get()),
            };
            balancer.member_ids.remember(Some(key), *id);
        }
        for number in balancer.state.virtuals.keys() {
            balancer.virtual_numbers.remember(None, *number);
        }
        balancer
    }

    /// Whether there is any virtual.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.virtuals.is_empty()
    }

    /// The virtuals, by number.
    #[must_use]
    pub fn virtuals(&self) -> &[NamedVirtual] {
        &self.virtuals
    }

    /// The members, by number.
    #[must_use]
    pub fn members(&self) -> &[NamedMember] {
        &self.members
    }

    /// What has to be written, in this order, so that the tables are as the configuration wants them. `verdict` is asked for
    /// a pool's name and a member's address: what it does not know is up, and as configured. `source` makes of what clients'
    /// addresses are translated to the record for a family (4 or 6).
    ///
    /// When it does not fit, nothing changes.
    pub fn apply(
        &mut self,
        config: &Config,
        verdict: &dyn Fn(&str, SocketAddr) -> Option<Verdict>,
        source: &mut dyn FnMut(&Snat, u8) -> Source,
    ) -> Result<Vec<Write>, TooMany> {
        let mut next = Self {
            state: State::default(),
            virtuals: Vec::new(),
            members: Vec::new(),
            ..self.clone()
        };
        let mut pools: HashMap<&str, Vec<Candidate>> = HashMap::new();
        for (name, server) in &config.virtuals {
            let Some(fast) = server.fast() else { continue };
            let pool = fast.pool.as_str();
            if !pools.contains_key(pool) {
                let candidates = match config.pools.get(pool) {
                    Some(members) => next.candidates(pool, members, verdict)?,
                    None => Vec::new(),
                };
                pools.insert(pool, candidates);
            }
            for family in [4, 6] {
                if fast
                    .listen
                    .iter()
                    .any(|at| family_of(at.address()) == family)
                {
                    next.add(
                        name.as_str(),
                        &fast,
                        family,
                        &pools[pool],
                        &self.state,
                        source,
                    )?;
                }
            }
        }
        if next.state.vips.len() > MOST_PORTS {
            return Err(TooMany::Ports);
        }
        if next.state.spans.len() > MOST_ADDRESSES {
            return Err(TooMany::Addresses);
        }
        next.drop_numbers();
        let writes = self.state.writes_to(&next.state);
        *self = next;
        Ok(writes)
    }

    /// A pool's members with their numbers and how much of new flows each wants.
    fn candidates(
        &mut self,
        pool: &str,
        members: &Pool,
        verdict: &dyn Fn(&str, SocketAddr) -> Option<Verdict>,
    ) -> Result<Vec<Candidate>, TooMany> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let tag = hash_bytes(pool.as_bytes()) as u32;
        for member in &members.members {
            let MemberAddress::Socket(address) = member.address else {
                continue;
            };
            let configured = Verdict {
                health: Health::Up,
                admin: match member.state {
                    MemberState::Enabled => Admin::Enabled,
                    MemberState::Drain => Admin::Drain,
                    MemberState::Disabled => Admin::Disabled,
                },
                weight: member.weight,
            };
            let now = verdict(pool, address).unwrap_or(configured);
            let state = match (now.health, now.admin) {
                (Health::Down, _) | (_, Admin::Disabled) => 0,
                (Health::Up, Admin::Enabled) if now.weight > 0 => MEMBER_UP,
                (Health::Up, _) => MEMBER_DRAIN,
            };
            let key = MemberKey { pool: tag, address };
            let id = self.member_ids.take(&key).ok_or_else(|| TooMany::Members {
                pool: pool.to_owned(),
                member: address,
            })?;
            if self.state.members.contains_key(&id) {
                // listed twice: the first counts
                continue;
            }
            let record = Member {
                addr: abi::widened(address.ip()),
                port: address.port().into(),
                family: family_of(address.ip()),
                state,
                pool: tag,
                source: [0; 16],
            };
            self.state.members.insert(id, record);
            self.members.push(NamedMember {
                id,
                pool: pool.to_owned(),
                name: member.label().as_str().to_owned(),
                address,
                state,
            });
            candidates.push(Candidate {
                share: Share {
                    id,
                    hash: hash_bytes(address.to_string().as_bytes()),
                    weight: if state == MEMBER_UP { now.weight } else { 0 },
                },
                family: record.family,
                backup: member.backup,
            });
        }
        Ok(candidates)
    }

    /// Adds what one family's addresses of a virtual need.
    fn add(
        &mut self,
        name: &str,
        fast: &FastVirtual<'_>,
        family: u8,
        candidates: &[Candidate],
        before: &State,
        source: &mut dyn FnMut(&Snat, u8) -> Source,
    ) -> Result<(), TooMany> {
        let key = (name.to_owned(), family);
        let proto = match fast.transport {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        };
        let listens: Vec<(Vip, (u16, u16))> = fast
            .listen
            .iter()
            .filter(|at| family_of(at.address()) == family)
            .map(|at| {
                let vip = Vip {
                    address: at.address(),
                    proto,
                };
                (vip, (*at.ports().start(), *at.ports().end()))
            })
            .collect();
        if let Some(number) = listens
            .iter()
            .find_map(|(vip, ports)| before.who_has(*vip, *ports))
        {
            self.virtual_numbers.claim(&key, number);
        }
        let number = self
            .virtual_numbers
            .take(&key)
            .ok_or_else(|| TooMany::Virtuals(name.to_owned()))?;
        for (vip, (first, last)) in listens {
            let spans = self.state.spans.entry(vip).or_default();
            if first == last {
                self.state.vips.insert(Port { vip, port: first }, number);
            } else if spans.len() < SPANS {
                spans.push((first, last, number));
            } else {
                return Err(TooMany::Ranges {
                    address: vip.address,
                });
            }
        }
        let shares = shares(candidates, family, fast.mode);
        let record = VirtualServer {
            way: match fast.mode {
                FastMode::Nat => Way::Translate,
                FastMode::DirectReturn => Way::Direct,
                FastMode::Ipip => Way::Tunnel,
            } as u8,
            affinity: u8::from(fast.affinity != model::Affinity::None),
            idle: fast.idle.map_or(0, |idle| {
                let seconds = idle.as_millis().div_ceil(1000);
                u16::try_from(seconds).unwrap_or(u16::MAX)
            }),
            members: u16::try_from(shares.len()).unwrap_or(u16::MAX),
            ring: number.into(),
            ring_size: RING_SIZE,
            source: source(&fast.snat, family),
            ..VirtualServer::default()
        };
        self.state.virtuals.insert(number, record);
        self.state.shares.insert(number, shares);
        self.virtuals.push(NamedVirtual {
            number: number.into(),
            name: name.to_owned(),
            family,
        });
        Ok(())
    }

    /// Gives back the numbers of those that are no more.
    fn drop_numbers(&mut self) {
        let Self {
            member_ids,
            virtual_numbers,
            virtuals,
            members,
            ..
        } = self;
        let there: std::collections::HashSet<_> = members
            .iter()
            .map(|member| MemberKey {
                pool: hash_bytes(member.pool.as_bytes()) as u32,
                address: member.address,
            })
            .collect();
        member_ids.keep(|key| there.contains(key));
        let there: std::collections::HashSet<_> = virtuals
            .iter()
            .map(|one| (one.name.clone(), one.family))
            .collect();
        virtual_numbers.keep(|key| there.contains(key));
        virtuals.sort_by_key(|one| one.number);
        members.sort_by_key(|member| member.id);
    }
}

/// A member as a virtual may choose it.
#[derive(Clone, Debug)]
struct Candidate {
    share: Share,
    family: u8,
    backup: bool,
}

/// Who takes part in the Maglev table of a virtual: those that it can reach; backups only where there is no other.
fn shares(candidates: &[Candidate], family: u8, mode: FastMode) -> Vec<Share> {
    let can =
        |one: &&Candidate| one.share.weight > 0 && (mode == FastMode::Ipip || one.family == family);
    let of = |backup| -> Vec<Share> {
        let chosen = candidates.iter().filter(can);
        chosen
            .filter(|one| one.backup == backup)
            .map(|one| one.share)
            .collect()
    };
    let mut shares = of(false);
    if shares.is_empty() {
        shares = of(true);
    }
    // in an order that does not depend on that in the configuration
    shares.sort_unstable_by_key(|share| share.id);
    shares
}

fn family_of(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 4 } else { 6 }
}

#[cfg(test)]
mod tests;
