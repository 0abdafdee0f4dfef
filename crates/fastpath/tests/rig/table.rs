//! The flows of the tables, as a test looks at them: of both families in one form.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use fastpath::abi::{Flow4, Flow6, HOP_SHIFT, Hop, SlotCache, SlotState, State, Way};
use xdp::libbpf_rs::{MapCore, MapFlags};
use xdp::map::{Mapped, possible_cpus};

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

/// The flow in a slot of a table, if there is one.
pub fn flow_in(table: &Mapped, family: Family, half: bool, slot: usize) -> Option<Flow> {
    match family {
        Family::V4 => flow!(table.read::<Flow4>(slot)?, half, slot as u32),
        Family::V6 => flow!(table.read::<Flow6>(slot)?, half, slot as u32),
    }
}

impl Rig<'_> {
    /// All flows of a family: of the table, then half-open ones.
    pub fn flows(&self, family: Family) -> Vec<Flow> {
        let mut flows = Vec::new();
        for half in [false, true] {
            let table = self.flow_table(family, half);
            flows.extend((0..table.len()).filter_map(|slot| flow_in(&table, family, half, slot)));
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

    /// Makes a flow's next hops look as if they had been looked up so many seconds earlier.
    pub fn age_hops(&self, family: Family, flow: &Flow, seconds: u32) {
        let table = self.flow_table(family, flow.half);
        let at = match family {
            Family::V4 => std::mem::offset_of!(Flow4, fresh),
            Family::V6 => std::mem::offset_of!(Flow6, fresh),
        };
        let word = &table.element(flow.slot as usize).unwrap()[at / 4];
        let earlier = (seconds * self.loaded.settings.hz) >> HOP_SHIFT;
        let word_now = word.load(Ordering::Relaxed);
        let [a, b] = [word_now as u16, (word_now >> 16) as u16]
            .map(|stamp| stamp.wrapping_sub(earlier as u16));
        word.store(u32::from(a) | u32::from(b) << 16, Ordering::Relaxed);
    }

    /// Makes the kernel's last sight of each neighbour so many seconds older.
    pub fn age_neighbours(&self, seconds: u32) {
        let map = self.loaded.map("neighbours");
        let mut seen = Vec::new();
        xdp::map::entries(map, |hop: Hop, last: u32| seen.push((hop, last))).unwrap();
        for (hop, last) in seen {
            self.loaded.set(
                "neighbours",
                hop,
                last.wrapping_sub(seconds * self.loaded.settings.hz),
            );
        }
    }

    /// The kernel's time, as the programs see it.
    pub fn jiffies(&self) -> u32 {
        let clock = fastpath::Clock::with_hz(self.loaded.settings.hz).unwrap();
        clock.now().unwrap()
    }

    /// Sets a flow's state.
    pub fn set_state(&self, family: Family, flow: &Flow, state: State) {
        let table = self.flow_table(family, flow.half);
        let at = match family {
            Family::V4 => std::mem::offset_of!(Flow4, state),
            Family::V6 => std::mem::offset_of!(Flow6, state),
        };
        let word = &table.element(flow.slot as usize).unwrap()[at / 4];
        let mut bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        bytes[at % 4] = state as u8;
        word.store(u32::from_ne_bytes(bytes), Ordering::Relaxed);
    }

    /// Empties the tables of a family, as if nothing had ever been seen.
    pub fn forget(&self, family: Family) {
        let family = family.number();
        for name in ["flows", "index", "half_flows", "half_index"] {
            let table = self.loaded.mapped(&format!("{name}{family}"));
            for word in table.long_words() {
                word.store(0, Ordering::Relaxed);
            }
        }
        let at = u32::from(family == 6);
        self.loaded.set("slot_states", at, SlotState::default());
        let caches = self.loaded.map("slot_caches");
        let nothing = vec![vec![0; size_of::<SlotCache>()]; possible_cpus().unwrap()];
        caches
            .update_percpu(&at.to_ne_bytes(), &nothing, MapFlags::ANY)
            .unwrap();
    }

    /// The table of flows, or of half-open ones.
    pub fn flow_table(&self, family: Family, half: bool) -> Mapped {
        let half = if half { "half_" } else { "" };
        self.loaded
            .mapped(&format!("{half}flows{}", family.number()))
    }
}
