//! What the tables hold of virtuals and members, and how to get from one such state to another.

use std::collections::BTreeMap;
use std::net::IpAddr;

use balance::maglev;

use crate::abi::{self, Member, SPANS, Span, Spans, VipKey, VirtualServer};

/// A write to the tables. A number that is `new` was nobody's, or somebody's who is gone: what was counted of it begins at 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Into `members`.
    Member {
        /// Its number.
        id: u16,
        /// The record. One whose state is 0 may be gone for good.
        record: Member,
        /// Whether the number is given anew.
        new: bool,
    },
    /// Into `rings`: a new array of these numbers of members takes the place of the one there.
    Ring {
        /// Index of the array, the virtual's number.
        ring: u32,
        /// A member for each place; [`RING_SIZE`](super::RING_SIZE) of them.
        places: Vec<u32>,
    },
    /// Into `virtual_servers`. All zeroes where it is gone.
    Virtual {
        /// Its number.
        number: u32,
        /// The record.
        record: VirtualServer,
        /// Whether the number is given anew.
        new: bool,
    },
    /// Into `vip_spans`.
    Spans {
        /// Address and protocol.
        key: VipKey,
        /// Its ranges, often none.
        spans: Box<Spans>,
    },
    /// Into `vips`.
    Vip {
        /// Address, protocol, port.
        key: VipKey,
        /// The virtual's number.
        number: u32,
    },
    /// Out of `vips`.
    NoVip(VipKey),
    /// Out of `vip_spans`.
    NoSpans(VipKey),
    /// Out of `rings`.
    NoRing(u32),
}

/// A member's part of a Maglev table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) id: u16,
    /// The same on every machine.
    pub(super) hash: u64,
    pub(super) weight: u32,
}

/// An address that virtuals have, of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Vip {
    pub(super) address: IpAddr,
    pub(super) proto: u8,
}

/// The same with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) vip: Vip,
    pub(super) port: u16,
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) members: BTreeMap<u16, Member>,
    pub(super) virtuals: BTreeMap<u16, VirtualServer>,
    /// Who is in the Maglev table of each virtual, from which the table follows.
    pub(super) shares: BTreeMap<u16, Vec<Share>>,
    pub(super) vips: BTreeMap<Port, u16>,
    /// First and last port and the virtual. Each address has its list, if only an empty one.
    pub(super) spans: BTreeMap<Vip, Vec<(u16, u16, u16)>>,
}

impl State {
    pub(super) fn restored(
        members: &[(u32, Member)],
        virtuals: &[(u32, VirtualServer)],
        vips: &[(VipKey, u32)],
        spans: &[(VipKey, Spans)],
    ) -> Self {
        let mut state = Self::default();
        for (id, member) in members {
            if let (Ok(id @ 1..), 4 | 6) = (u16::try_from(*id), member.family) {
                // where it is reached from was found by the programs
                let record = Member {
                    source: [0; 16],
                    ..*member
                };
                state.members.insert(id, record);
            }
        }
        for (number, record) in virtuals {
            if let (Ok(number @ 1..), true) = (u16::try_from(*number), record.way > 0) {
                state.virtuals.insert(number, *record);
            }
        }
        for (key, number) in vips {
            let port = Port {
                vip: vip_of(key),
                port: key.port.get(),
            };
            state.vips.insert(port, *number as u16);
        }
        for (key, spans) in spans {
            let used = spans.span.iter().take_while(|span| span.virtual_server > 0);
            let list = used.map(|span| (span.first, span.last, span.virtual_server as u16));
            state.spans.insert(vip_of(key), list.collect());
        }
        state
    }

    /// The virtual that has just these ports of an address.
    pub(super) fn who_has(&self, vip: Vip, (first, last): (u16, u16)) -> Option<u16> {
        if first == last {
            return self.vips.get(&Port { vip, port: first }).copied();
        }
        let spans = self.spans.get(&vip)?;
        let found = spans.iter().find(|span| (span.0, span.1) == (first, last));
        found.map(|span| span.2)
    }

    /// The writes by which `self` becomes `next`. What is referred to is there before it is referred to, and goes after;
    /// members go last, so that the flows they lose find those that are left.
    pub(super) fn writes_to(&self, next: &Self) -> Vec<Write> {
        let mut writes = Vec::new();
        let changed = next
            .members
            .iter()
            .filter(|(id, new)| self.members.get(id) != Some(new));
        let (later, sooner): (Vec<_>, Vec<_>) =
            changed.partition(|(id, new)| new.state == 0 && self.members.contains_key(id));
        let same = |one: &Member, other: &Member| {
            (one.addr, one.port, one.family, one.pool)
                == (other.addr, other.port, other.family, other.pool)
        };
        let write = |(id, record): (&u16, &Member)| Write::Member {
            id: *id,
            record: *record,
            new: self.members.get(id).is_none_or(|old| !same(old, record)),
        };
        writes.extend(sooner.into_iter().map(write));
        for (number, shares) in &next.shares {
            if !shares.is_empty() && self.shares.get(number) != Some(shares) {
                writes.push(Write::Ring {
                    ring: (*number).into(),
                    places: places(shares),
                });
            }
        }
        for (number, record) in &next.virtuals {
            if self.virtuals.get(number) != Some(record) {
                let new = !self.virtuals.contains_key(number);
                writes.push(Write::Virtual {
                    number: (*number).into(),
                    record: *record,
                    new,
                });
            }
        }
        for (vip, list) in &next.spans {
            if self.spans.get(vip) != Some(list) {
                writes.push(Write::Spans {
                    key: key_of(*vip, 0),
                    spans: Box::new(spans_of(list)),
                });
            }
        }
        for (port, number) in &next.vips {
            if self.vips.get(port) != Some(number) {
                let key = key_of(port.vip, port.port);
                writes.push(Write::Vip {
                    key,
                    number: (*number).into(),
                });
            }
        }
        let gone = self
            .vips
            .keys()
            .filter(|port| !next.vips.contains_key(port));
        writes.extend(gone.map(|port| Write::NoVip(key_of(port.vip, port.port))));
        let gone = self
            .spans
            .keys()
            .filter(|vip| !next.spans.contains_key(vip));
        writes.extend(gone.map(|vip| Write::NoSpans(key_of(*vip, 0))));
        for number in self
            .virtuals
            .keys()
            .filter(|one| !next.virtuals.contains_key(one))
        {
            let number = u32::from(*number);
            writes.push(Write::Virtual {
                number,
                record: VirtualServer::default(),
                new: false,
            });
            writes.push(Write::NoRing(number));
        }
        writes.extend(later.into_iter().map(write));
        for (id, old) in self
            .members
            .iter()
            .filter(|(id, _)| !next.members.contains_key(id))
        {
            if old.state > 0 {
                let record = Member { state: 0, ..*old };
                writes.push(Write::Member {
                    id: *id,
                    record,
                    new: false,
                });
            }
        }
        writes
    }
}

/// The Maglev table.
fn places(shares: &[Share]) -> Vec<u32> {
    let weights: Vec<_> = shares
        .iter()
        .map(|share| (share.hash, share.weight))
        .collect();
    let mut places = maglev::table(&weights, maglev::SIZE);
    for place in &mut places {
        *place = shares[*place as usize].id.into();
    }
    places
}

fn vip_of(key: &VipKey) -> Vip {
    Vip {
        address: abi::narrowed(key.addr, key.family),
        proto: key.proto,
    }
}

fn key_of(vip: Vip, port: u16) -> VipKey {
    VipKey {
        addr: abi::widened(vip.address),
        port: port.into(),
        proto: vip.proto,
        family: if vip.address.is_ipv4() { 4 } else { 6 },
    }
}

fn spans_of(list: &[(u16, u16, u16)]) -> Spans {
    let mut span = [Span::default(); SPANS];
    for (span, (first, last, number)) in span.iter_mut().zip(list) {
        *span = Span {
            first: *first,
            last: *last,
            virtual_server: (*number).into(),
        };
    }
    Spans { span }
}
