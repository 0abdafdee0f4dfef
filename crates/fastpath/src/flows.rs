//! The flows of an instance: listed, counted, ended. They are read from memory that the programs go on writing; what is
//! said about a flow was true at one moment, and about all of them at no single one.

use std::io;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use addr::Prefix;
use xdp::map::{Mapped, Pod, from_bytes};

use crate::abi::{FLOW_PICKED_UP, Flow4, Flow6, STATES, Settings, SlotState, State, Way};
use crate::tables::Tables;

/// A flow. The source and destination are those of its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The IP protocol.
    pub protocol: u8,
    /// Where it is in its life.
    pub state: State,
    /// How its packets are changed.
    pub way: Way,
    /// Whether it waits for an answer among the half-open flows.
    pub half_open: bool,
    /// Whether its beginning was not seen.
    pub picked_up: bool,
    /// The sender of its first packet; without ports, 0. Of an echo, the identifier is the port.
    pub source: SocketAddr,
    /// Whom that packet was for.
    pub destination: SocketAddr,
    /// The sender of the packet as it left here.
    pub new_source: SocketAddr,
    /// Whom it was for then.
    pub new_destination: SocketAddr,
    /// The virtual's number, 0 for none.
    pub virtual_server: u16,
    /// The member's number, 0 for none.
    pub member: u16,
    /// The number of the rule of source NAT, 0 for none.
    pub rule: u16,
    /// Since it began.
    pub age: Duration,
    /// Since its last packet.
    pub silent: Duration,
    /// Until it ends if no packet comes.
    pub left: Duration,
}

/// Which flows are meant: those of which everything given is true.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// One of the ends, as they came or as they left, is in one of these; none for all.
    pub addresses: Vec<Prefix>,
    /// One of the ends has one of these ports; none for all.
    pub ports: Vec<u16>,
    /// It is of one of these IP protocols; none for all.
    pub protocols: Vec<u8>,
    /// It is in one of these states; none for all.
    pub states: Vec<State>,
    /// Its packets go one of these ways; none for all.
    pub ways: Vec<Way>,
    /// It belongs to one of these virtuals; `None` for all flows.
    pub virtuals: Option<Vec<u16>>,
    /// It goes to one of these members; `None` for all flows.
    pub members: Option<Vec<u16>>,
    /// It is translated by one of these rules; `None` for all flows.
    pub rules: Option<Vec<u16>>,
    /// IPv4 (`true`) or IPv6 (`false`) alone.
    pub v4: Option<bool>,
    /// Nothing was heard of it for so long.
    pub silent: Duration,
}

/// How many flows there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All.
    pub flows: u64,
    /// Those of IPv4.
    pub v4: u64,
    /// Those of IPv6.
    pub v6: u64,
    /// Those that wait for an answer.
    pub half_open: u64,
    /// By state, in the order of [`State::ALL`].
    pub states: [u64; STATES],
    /// By way, in the order of [`Way::ALL`].
    pub ways: [u64; 4],
}

/// The first `limit` flows that are meant. `now` is in jiffies.
pub fn list(
    tables: &Tables,
    settings: &Settings,
    now: u32,
    filter: &Filter,
    limit: usize,
) -> io::Result<Vec<Flow>> {
    let mut flows = Vec::new();
    if limit == 0 {
        return Ok(flows);
    }
    each(tables, settings, now, filter, &mut |flow, _| {
        flows.push(*flow);
        if flows.len() < limit {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(flows)
}

/// Counts the flows that are meant: tens of millions a second.
pub fn count(tables: &Tables, settings: &Settings, now: u32, filter: &Filter) -> io::Result<Count> {
    let mut count = Count::default();
    each(tables, settings, now, filter, &mut |flow, _| {
        count.flows += 1;
        count.half_open += u64::from(flow.half_open);
        if flow.source.is_ipv4() {
            count.v4 += 1;
        } else {
            count.v6 += 1;
        }
        count.states[flow.state as usize] += 1;
        count.ways[flow.way as usize] += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// Ends the flows that are meant, and tells how many. A packet that still comes begins a new flow where it may, which
/// for a virtual it may not in the middle of a connection.
pub fn end(tables: &Tables, settings: &Settings, now: u32, filter: &Filter) -> io::Result<u64> {
    let mut ended = 0;
    each(tables, settings, now, filter, &mut |_, place| {
        ended += u64::from(place.end());
        ControlFlow::Continue(())
    })?;
    Ok(ended)
}

impl Count {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.flows += other.flows;
        self.v4 += other.v4;
        self.v6 += other.v6;
        self.half_open += other.half_open;
        for (sum, more) in self.states.iter_mut().zip(other.states) {
            *sum += more;
        }
        for (sum, more) in self.ways.iter_mut().zip(other.ways) {
            *sum += more;
        }
    }
}

impl Filter {
    /// Whether the flow is meant.
    fn admits(&self, flow: &Flow) -> bool {
        fn none_or<T: PartialEq>(wanted: &[T], has: T) -> bool {
            wanted.is_empty() || wanted.contains(&has)
        }
        let ends = [
            flow.source,
            flow.destination,
            flow.new_source,
            flow.new_destination,
        ];
        none_or(&self.protocols, flow.protocol)
            && none_or(&self.states, flow.state)
            && none_or(&self.ways, flow.way)
            && self.v4.is_none_or(|v4| v4 == flow.source.is_ipv4())
            && flow.silent >= self.silent
            && named(self.virtuals.as_deref(), flow.virtual_server)
            && named(self.members.as_deref(), flow.member)
            && named(self.rules.as_deref(), flow.rule)
            && (self.ports.is_empty() || ends.iter().any(|end| self.ports.contains(&end.port())))
            && (self.addresses.is_empty()
                || ends
                    .iter()
                    .any(|end| self.addresses.iter().any(|net| net.contains(end.ip()))))
    }
}

fn named(wanted: Option<&[u16]>, has: u16) -> bool {
    wanted.is_none_or(|wanted| has != 0 && wanted.contains(&has))
}

/// Where a flow is, and what its state word was when it was read.
struct Place<'m> {
    state: &'m AtomicU32,
    was: u32,
}

impl Place<'_> {
    /// Ends the flow unless it changes at this moment, or is no longer there.
    fn end(&self) -> bool {
        // Programs write state and flags as bytes of their own: a packet may undo this, as one that came just later would
        // begin the flow anew.
        let mut bytes = self.was.to_ne_bytes();
        bytes[STATE_BYTE] = State::Ended as u8;
        self.state
            .compare_exchange(
                self.was,
                u32::from_ne_bytes(bytes),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}

/// In the word that begins with the protocol.
const STATE_BYTE: usize = offset_of!(Flow4, state) - offset_of!(Flow4, proto);
const _: () = assert!(STATE_BYTE == offset_of!(Flow6, state) - offset_of!(Flow6, proto));

type Each<'f> = dyn FnMut(&Flow, &Place<'_>) -> ControlFlow<()> + 'f;

/// Hands over each live flow that is meant.
fn each(
    tables: &Tables,
    settings: &Settings,
    now: u32,
    filter: &Filter,
    f: &mut Each<'_>,
) -> io::Result<()> {
    let reader = Reader {
        settings,
        now,
        filter,
    };
    let used = used(tables)?;
    if filter.v4 != Some(false) {
        if reader
            .each_of::<Flow4>(&tables.mapped("flows4")?, used[0], false, f)
            .is_break()
        {
            return Ok(());
        }
        let half = tables.mapped("half_flows4")?;
        if reader
            .each_of::<Flow4>(&half, half.len(), true, f)
            .is_break()
        {
            return Ok(());
        }
    }
    if filter.v4 != Some(true) {
        if reader
            .each_of::<Flow6>(&tables.mapped("flows6")?, used[1], false, f)
            .is_break()
        {
            return Ok(());
        }
        let half = tables.mapped("half_flows6")?;
        // It is the last.
        let _ = reader.each_of::<Flow6>(&half, half.len(), true, f);
    }
    Ok(())
}

/// How many slots of both families were ever used: beyond them is nothing to look for.
fn used(tables: &Tables) -> io::Result<[usize; 2]> {
    let states = tables.mapped("slot_states")?;
    Ok([0, 1].map(|family| {
        states
            .read::<SlotState>(family)
            .map_or(0, |state| state.fresh as usize)
    }))
}

struct Reader<'r> {
    settings: &'r Settings,
    now: u32,
    filter: &'r Filter,
}

impl Reader<'_> {
    fn each_of<R: Record>(
        &self,
        table: &Mapped,
        used: usize,
        half_open: bool,
        f: &mut Each<'_>,
    ) -> ControlFlow<()> {
        let stride = table.stride() / size_of::<u32>();
        for words in table
            .words()
            .chunks_exact(stride)
            .take(used.min(table.len()))
        {
            let Some(state) = words.get(R::STATE_WORD) else {
                continue;
            };
            // Most slots of a large table say here that there is nothing to see.
            if state.load(Ordering::Relaxed).to_ne_bytes()[STATE_BYTE] == 0 {
                continue;
            }
            let Some((flow, was)) = consistent::<R>(words) else {
                continue;
            };
            let Some(flow) = flow.flow(self.settings, self.now, half_open) else {
                continue;
            };
            if self.filter.admits(&flow) {
                f(&flow, &Place { state, was })?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The record in these words and its state word, read until its ends are the same twice; `None` for a slot that is free or
/// changes all the time.
fn consistent<R: Record>(words: &[AtomicU32]) -> Option<(R, u32)> {
    let mut last = read::<R>(words)?;
    for _ in 0..4 {
        let again = read::<R>(words)?;
        if last.ends() == again.ends() {
            return Some((again, again.state_word()));
        }
        last = again;
    }
    None
}

fn read<R: Record>(words: &[AtomicU32]) -> Option<R> {
    let mut bytes = [0; 128];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
    }
    from_bytes(&bytes)
}

/// A flow's record of one family.
trait Record: Pod {
    /// The place of protocol, state, flags and way, in words.
    const STATE_WORD: usize;

    /// That word.
    fn state_word(&self) -> u32;

    /// Ends as they came and as they left.
    fn ends(&self) -> [SocketAddr; 4];

    /// What it says at the time `now`; `None` where that is no flow, or one whose time is out.
    fn flow(&self, settings: &Settings, now: u32, half_open: bool) -> Option<Flow>;
}

macro_rules! record {
    ($record:ty) => {
        impl Record for $record {
            const STATE_WORD: usize = offset_of!($record, proto) / size_of::<u32>();

            fn state_word(&self) -> u32 {
                u32::from_ne_bytes([self.proto, self.state, self.flags, self.way])
            }

            fn ends(&self) -> [SocketAddr; 4] {
                [
                    SocketAddr::new(IpAddr::from(self.src), self.sport.get()),
                    SocketAddr::new(IpAddr::from(self.dst), self.dport.get()),
                    SocketAddr::new(IpAddr::from(self.nsrc), self.nsport.get()),
                    SocketAddr::new(IpAddr::from(self.ndst), self.ndport.get()),
                ]
            }

            fn flow(&self, settings: &Settings, now: u32, half_open: bool) -> Option<Flow> {
                let state = State::of(self.state).filter(|state| *state != State::Free)?;
                let idle = matches!(state, State::Established | State::UdpStream)
                    .then_some(self.idle)
                    .filter(|idle| *idle != 0);
                let allowed = match idle {
                    Some(seconds) => u32::from(seconds).wrapping_mul(settings.hz),
                    None => settings.timeout[state as usize],
                };
                // A program may have written a later time than `now`.
                let silent = now.wrapping_sub(self.seen) as i32;
                if silent >= allowed as i32 {
                    return None;
                }
                let silent = silent.max(0) as u32;
                let [source, destination, new_source, new_destination] = self.ends();
                let time = |jiffies: u32| {
                    Duration::from_millis(u64::from(jiffies) * 1000 / u64::from(settings.hz.max(1)))
                };
                Some(Flow {
                    protocol: self.proto,
                    state,
                    way: Way::of(self.way)?,
                    half_open,
                    picked_up: self.flags & FLOW_PICKED_UP != 0,
                    source,
                    destination,
                    new_source,
                    new_destination,
                    virtual_server: self.virtual_server,
                    member: self.member,
                    rule: self.rule,
                    age: time((now.wrapping_sub(self.created) as i32).max(0) as u32),
                    silent: time(silent),
                    left: time(allowed.saturating_sub(silent)),
                })
            }
        }
    };
}

record!(Flow4);
record!(Flow6);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Be16;

    fn record(state: State, seen: u32) -> Flow4 {
        Flow4 {
            src: [10, 0, 0, 1],
            dst: [192, 0, 2, 1],
            sport: Be16::from(40_000),
            dport: Be16::from(53),
            nsrc: [10, 0, 0, 1],
            ndst: [10, 0, 1, 9],
            nsport: Be16::from(40_000),
            ndport: Be16::from(5353),
            proto: 17,
            state: state as u8,
            way: Way::Translate as u8,
            virtual_server: 3,
            seen,
            created: seen.wrapping_sub(500),
            ..Flow4::default()
        }
    }

    fn settings() -> Settings {
        Settings::new(250, [0; 2])
    }

    fn words<R: Pod>(record: &R) -> Vec<AtomicU32> {
        let bytes = xdp::map::bytes_of(record).chunks_exact(4);
        bytes
            .map(|word| AtomicU32::new(from_bytes(word).unwrap()))
            .collect()
    }

    #[test]
    fn a_flow_lives_as_long_as_its_state_allows_across_the_clocks_running_over() {
        let now = 100u32;
        let live = |state, silent: u32| {
            let record = record(state, now.wrapping_sub(silent * 250));
            record.flow(&settings(), now, false)
        };
        let flow = live(State::Udp, 29).unwrap();
        assert_eq!(flow.silent, Duration::from_secs(29));
        assert_eq!(flow.left, Duration::from_secs(1));
        assert_eq!(flow.age, Duration::from_secs(31));
        assert_eq!(live(State::Udp, 30), None);
        assert!(live(State::UdpStream, 179).is_some());
        assert_eq!(live(State::Ended, 0), None);
        assert_eq!(live(State::Free, 0), None);
        let mut own = record(State::UdpStream, now.wrapping_sub(11 * 250));
        own.idle = 10;
        assert_eq!(own.flow(&settings(), now, false), None);
    }

    #[test]
    fn a_packet_that_came_after_the_clock_was_read_does_not_end_its_flow() {
        let flow = record(State::Udp, 1001).flow(&settings(), 1000, true);
        assert_eq!(flow.unwrap().silent, Duration::ZERO);
    }

    #[test]
    fn filters_look_at_all_four_ends_and_everything_given_must_hold() {
        let flow = record(State::Udp, 0).flow(&settings(), 0, false).unwrap();
        let admits = |change: &dyn Fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            filter.admits(&flow)
        };
        let net = |text: &str| text.parse::<Prefix>().unwrap();
        assert!(admits(&|_| ()));
        for inside in ["10.0.0.1/32", "192.0.2.0/24", "10.0.1.0/24"] {
            assert!(admits(&|f| f.addresses = vec![net(inside)]), "{inside}");
        }
        assert!(!admits(&|f| f.addresses = vec![net("10.0.2.0/24")]));
        assert!(admits(&|f| f.ports = vec![1, 5353]));
        assert!(!admits(&|f| f.ports = vec![5354]));
        assert!(!admits(&|f| {
            f.ports = vec![53];
            f.protocols = vec![6];
        }));
        assert!(admits(&|f| f.virtuals = Some(vec![3])));
        assert!(!admits(&|f| f.virtuals = Some(Vec::new())));
        assert!(!admits(&|f| f.members = Some(vec![0])));
        assert!(!admits(&|f| f.v4 = Some(false)));
        assert!(!admits(&|f| f.silent = Duration::from_secs(1)));
    }

    #[test]
    fn ending_leaves_a_slot_alone_that_changed_meanwhile() {
        let record = record(State::Udp, 0);
        let memory = words(&record);
        let (read, was) = consistent::<Flow4>(&memory).unwrap();
        assert_eq!(read, record);
        let place = Place {
            state: &memory[Flow4::STATE_WORD],
            was,
        };
        assert!(place.end());
        assert_eq!(
            super::read::<Flow4>(&memory).unwrap().state,
            State::Ended as u8
        );
        assert!(!place.end(), "its state is another by now");
    }

    #[test]
    fn both_families_are_read_alike() {
        let six = Flow6 {
            src: [1; 16],
            dport: Be16::from(443),
            proto: 6,
            state: State::Established as u8,
            ..Flow6::default()
        };
        let (read, _) = consistent::<Flow6>(&words(&six)).unwrap();
        let flow = read.flow(&settings(), 0, false).unwrap();
        assert_eq!(flow.destination.port(), 443);
        assert_eq!((flow.protocol, flow.way), (6, Way::Plain));
    }
}
