//! The flows of the tables, as a test looks at them: of both families in one form.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use fastpath::abi::{Flow4, Flow6, State, Way};
use xdp::map::Mapped;

use super::{Family, Rig};

/// A flow and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Whether it waits among the half-open ones.
    pub half: bool,
    pub slot: u32,
    pub proto: u8,
    pub state: State,
    pub way: Way,
    pub flags: u8,
    /// The first packet's ends as it came, and as it left.
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub nsrc: SocketAddr,
    pub ndst: SocketAddr,
    pub seen: u32,
    pub created: u32,
    pub idle: u16,
    pub member: u16,
    pub virtual_server: u16,
    pub rule: u16,
    /// Ports of the next hops.
    pub hops: [u8; 2],
}

macro_rules! flow {
    ($flow:expr, $half:expr, $slot:expr) => {{
        let flow = $flow;
        State::of(flow.state)
            .filter(|state| *state != State::Free)
            .map(|state| Flow {
                half: $half,
                slot: $slot,
                proto: flow.proto,
                state,
                way: Way::of(flow.way).unwrap(),
                flags: flow.flags,
                src: SocketAddr::new(IpAddr::from(flow.src), flow.sport.get()),
                dst: SocketAddr::new(IpAddr::from(flow.dst), flow.dport.get()),
                nsrc: SocketAddr::new(IpAddr::from(flow.nsrc), flow.nsport.get()),
                ndst: SocketAddr::new(IpAddr::from(flow.ndst), flow.ndport.get()),
                seen: flow.seen,
                created: flow.created,
                idle: flow.idle,
                member: flow.member,
                virtual_server: flow.virtual_server,
                rule: flow.rule,
                hops: flow.hops.map(|hop| hop.port),
            })
    }};
}

impl Rig<'_> {
    /// All flows of a family: of the table, then half-open ones.
    pub fn flows(&self, family: Family) -> Vec<Flow> {
        let mut flows = Vec::new();
        for half in [false, true] {
            let table = self.flow_table(family, half);
            for slot in 0..table.len() {
                let flow = match family {
                    Family::V4 => flow!(table.read::<Flow4>(slot).unwrap(), half, slot as u32),
                    Family::V6 => flow!(table.read::<Flow6>(slot).unwrap(), half, slot as u32),
                };
                flows.extend(flow);
            }
        }
        flows
    }

    /// The only flow there is.
    #[track_caller]
    pub fn only_flow(&self, family: Family) -> Flow {
        let flows = self.flows(family);
        assert_eq!(flows.len(), 1, "not one flow: {flows:?}");
        flows[0]
    }

    /// Makes a flow look as if its last packet had come so many seconds earlier.
    pub fn age(&self, family: Family, flow: &Flow, seconds: u32) {
        let table = self.flow_table(family, flow.half);
        let at = match family {
            Family::V4 => std::mem::offset_of!(Flow4, seen),
            Family::V6 => std::mem::offset_of!(Flow6, seen),
        };
        table.element(flow.slot as usize).unwrap()[at / 4]
            .fetch_sub(seconds * self.loaded.settings.hz, Ordering::Relaxed);
    }

    /// Ends all flows of a family by their time, as if nothing had been heard of them for a day.
    pub fn age_all(&self, family: Family) {
        for flow in self.flows(family) {
            self.age(family, &flow, 86_400);
        }
    }

    fn flow_table(&self, family: Family, half: bool) -> Mapped {
        let half = if half { "half_" } else { "" };
        self.loaded
            .mapped(&format!("{half}flows{}", family.number()))
    }
}
