//! The programs, loaded but attached to nothing, with small tables.

use std::os::fd::BorrowedFd;

use fastpath::Tables;
use fastpath::abi::{self, FORWARD_TRACKED, Port, STATES, Settings, State};
use xdp::libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use xdp::map::{Mapped, Pod};
use xdp::object;

/// What a rig is made with.
#[derive(Debug, Clone)]
pub struct Setup {
    pub settings: Settings,
    /// Entries of fragments, users, and each table of the shun list.
    pub fragments: u32,
    pub users: u32,
    pub shuns: u32,
    /// Whether to load what no packet of one instance comes to: programs that take over and move flows.
    pub all_programs: bool,
    /// More lines for `ip -batch` in the router: routes, addresses.
    pub routes: Vec<String>,
}

/// Jiffies a second, which the programs take from the settings.
pub const HZ: u32 = 250;

impl Default for Setup {
    fn default() -> Self {
        let mut settings = Settings {
            seed: [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210],
            slots4: 4096,
            slots6: 4096,
            buckets4: 1537,
            buckets6: 1537,
            half_mask: 255,
            timeout: [1000 * HZ; STATES],
            fragment_timeout: 5 * HZ,
            hz: HZ,
            forward: FORWARD_TRACKED,
            ..Settings::default()
        };
        for (state, seconds) in TIMEOUTS {
            settings.timeout[state as usize] = seconds * HZ;
        }
        settings.timeout[State::Ended as usize] = 0;
        Self {
            settings,
            fragments: 1024,
            users: 1024,
            shuns: 1024,
            all_programs: false,
            routes: Vec::new(),
        }
    }
}

/// The programs that packets come to.
const OF_PACKETS: [&str; 3] = ["headgate", "headgate_new4", "headgate_new6"];

/// In seconds.
pub const TIMEOUTS: [(State, u32); 12] = [
    (State::SynSent, 30),
    (State::SynReceived, 30),
    (State::Established, 3600),
    (State::FinClient, 60),
    (State::FinServer, 60),
    (State::Closing, 60),
    (State::TimeWait, 10),
    (State::Reset, 5),
    (State::Udp, 30),
    (State::UdpStream, 180),
    (State::Icmp, 10),
    (State::Other, 60),
];

/// What was loaded.
pub struct Loaded {
    pub object: Object,
    pub tables: Tables,
    pub settings: Settings,
}

impl Loaded {
    pub fn new(setup: &Setup) -> Self {
        let settings = &setup.settings;
        let half = settings.half_mask + 1;
        let capacities = [
            ("flows4", settings.slots4),
            ("flows6", settings.slots6),
            ("index4", settings.buckets4),
            ("index6", settings.buckets6),
            ("half_flows4", half * abi::WAYS as u32),
            ("half_flows6", half * abi::WAYS as u32),
            ("half_index4", half),
            ("half_index6", half),
            ("fragments", setup.fragments),
            ("users", setup.users),
            ("shuns4", setup.shuns),
            ("shuns6", setup.shuns),
            ("shun_prefixes4", setup.shuns),
            ("shun_prefixes6", setup.shuns),
        ];
        let object = object::load("headgate", abi::OBJECT, |open| {
            for (map, entries) in capacities {
                object::set_capacity(open, map, entries)?;
            }
            for mut program in open.progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                program.set_autoload(setup.all_programs || OF_PACKETS.contains(&&*name));
            }
            object::set_constants(open, settings)
        })
        .unwrap_or_else(|error| panic!("{error}"));
        let mut tables = Tables::default();
        for map in object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            tables.insert(name, MapHandle::try_from(&map).unwrap());
        }
        Self {
            object,
            tables,
            settings: *settings,
        }
    }

    /// The program that interfaces run.
    pub fn program(&self) -> BorrowedFd<'_> {
        object::program(&self.object, "headgate").unwrap()
    }

    /// A table.
    pub fn map(&self, name: &str) -> &MapHandle {
        self.tables.table(name).unwrap()
    }

    /// A table in memory.
    pub fn mapped(&self, name: &str) -> Mapped {
        self.tables.mapped(name).unwrap()
    }

    /// Writes an entry of a table.
    pub fn set<K: Pod, V: Pod>(&self, name: &str, key: K, value: V) {
        self.tables.set(name, &key, &value).unwrap();
    }

    /// Lets an interface be forwarded to.
    pub fn add_port(&self, number: u32, ifindex: u32, mac: [u8; 6], mtu: u16) {
        self.set("ports", number, Port { ifindex, mac, mtu });
        self.set("port_devices", number, ifindex);
        self.set("port_numbers", ifindex, number);
    }

    /// Counters by reason, over all CPUs.
    pub fn counters(&self) -> Vec<u64> {
        let map = self.map("counters");
        let values = map
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .unwrap()
            .unwrap();
        let mut sums = vec![0; abi::Reason::COUNT];
        for value in values {
            for (sum, word) in sums.iter_mut().zip(value.chunks_exact(8)) {
                *sum += u64::from_ne_bytes(word.try_into().unwrap());
            }
        }
        sums
    }
}
