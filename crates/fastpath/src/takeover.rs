//! From one set of tables to another while packets come: the new programs ask the earlier ones for packets of no flow of
//! their own, and the earlier flows are entered in the new tables meanwhile. When none is left, the earlier set goes.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tracing::{info, warn};
use xdp::libbpf_rs::MapHandle;
use xdp::map::{self, Mapped, Pod, bytes_of, from_bytes};
use xdp::run::{self, Run};

use crate::abi::{
    Addr4, Addr6, Flow4, Flow6, LAYOUT_VERSION, Settings, Shun, ShunPrefix4, ShunPrefix6,
    SlotState, State,
};
use crate::clock::Clock;
use crate::engine::told;
use crate::instance::Instance;
use crate::names;
use crate::pins::Set;
use crate::shun::Shuns;
use crate::tables::Tables;

/// An earlier set of tables whose flows have not all ended or moved.
#[derive(Debug)]
pub(crate) struct Drain {
    set: Set,
    tables: Tables,
    /// `None` where its records are of another kind than ours.
    settings: Option<Settings>,
    since: Instant,
}

impl Drain {
    /// Has the set's programs begin no flows any more.
    pub(crate) fn retire(&self) -> io::Result<()> {
        self.tables.set("retired", &0u32, &1u32)
    }

    pub(crate) fn set(&self) -> &Set {
        &self.set
    }

    /// Moves flows to the instance's tables, and tells whether none is left.
    pub(crate) fn step(&mut self, to: &Instance, clock: &Clock) -> io::Result<bool> {
        let Some(settings) = &self.settings else {
            // What can't be read can't be counted either.
            return Ok(self.since.elapsed() > UNREADABLE);
        };
        let now = clock.now()?;
        let mut left = 0;
        left += mover::<Flow4>(&self.tables, settings, now).run(to)?;
        left += mover::<Flow6>(&self.tables, settings, now).run(to)?;
        if left == 0 {
            info!(
                layout = self.set.layout(),
                "the earlier table has no flow left and goes"
            );
        }
        Ok(left == 0)
    }
}

/// Has the instance's programs ask those of the earlier sets, one after the other, and the last of these go on with the
/// instance's. Sets of which there is not everything are removed.
pub(crate) fn chain(instance: &Instance, earlier: Vec<Set>) -> io::Result<Vec<Drain>> {
    let mut drains = Vec::new();
    for set in earlier {
        if !set.is_complete() {
            set.remove().map_err(io::Error::other)?;
            continue;
        }
        let same = set.layout().starts_with(&format!("v{LAYOUT_VERSION}-"));
        drains.push(Drain {
            tables: set.tables()?,
            settings: told(&set).filter(|_| same),
            set,
            since: Instant::now(),
        });
    }
    join(instance, &drains)?;
    Ok(drains)
}

/// Writes the chains of all programs.
pub(crate) fn join(instance: &Instance, drains: &[Drain]) -> io::Result<()> {
    // From the end, so that what a program goes on with is ready before.
    for (at, drain) in drains.iter().enumerate().rev() {
        let chain = drain.set.chain()?;
        map::remove(&chain, &EARLIER)?;
        match drains.get(at + 1) {
            Some(next) => set_program(&chain, LATER, next.set.program("headgate")?.as_fd())?,
            None => set_program(&chain, LATER, instance.program_named("headgate_resume")?)?,
        }
    }
    let chain = instance.tables().table("chain")?;
    match drains.first() {
        Some(first) => set_program(chain, EARLIER, first.set.program("headgate")?.as_fd()),
        None => map::remove(chain, &EARLIER).map(|_| ()),
    }
}

/// Copies to new tables what an earlier set knows beside flows: names, so that numbers stay, and the shun list.
pub(crate) fn inherit(before: &Set, tables: &Tables) -> io::Result<()> {
    let earlier = before.tables()?;
    if !before.layout().starts_with(&format!("v{LAYOUT_VERSION}-")) {
        warn!("the earlier tables are of another version: their shun list is not taken over");
        return Ok(());
    }
    copy::<u64, [u8; names::LONGEST]>(&earlier, tables, names::TABLE)?;
    copy::<u32, crate::abi::Member>(&earlier, tables, "members")?;
    copy::<u32, crate::abi::VirtualServer>(&earlier, tables, "virtual_servers")?;
    copy::<crate::abi::VipKey, u32>(&earlier, tables, "vips")?;
    copy::<crate::abi::VipKey, crate::abi::Spans>(&earlier, tables, "vip_spans")?;
    let fits = copy::<Addr4, Shun>(&earlier, tables, "shuns4")
        .and_then(|()| copy::<Addr6, Shun>(&earlier, tables, "shuns6"))
        .and_then(|()| copy::<ShunPrefix4, Shun>(&earlier, tables, "shun_prefixes4"))
        .and_then(|()| copy::<ShunPrefix6, Shun>(&earlier, tables, "shun_prefixes6"));
    if let Err(error) = fits {
        warn!("not all of the shun list fits in the new table: {error}");
    }
    Shuns::new(tables, 1)?.recount()
}

/// Places in a program's chain.
const EARLIER: u32 = 0;
const LATER: u32 = 1;

/// For how long flows that this version cannot read are served.
const UNREADABLE: Duration = Duration::from_secs(3600);

fn set_program(chain: &MapHandle, place: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    map::set(chain, &place, &program.as_raw_fd())
}

fn copy<K: Pod, V: Pod>(from: &Tables, to: &Tables, name: &str) -> io::Result<()> {
    let (keys, values): (Vec<K>, Vec<V>) = from.entries::<K, V>(name)?.into_iter().unzip();
    map::set_many(to.table(name)?, &keys, &values)
}

/// A flow's record.
trait Record: Pod {
    const FLOWS: &'static str;
    const HALF_OPEN: &'static str;
    const PROGRAM: &'static str;
    const FAMILY: usize;
    /// The place of protocol, state, flags and way, in words.
    const STATE_WORD: usize;

    fn left(&self, settings: &Settings, now: u32) -> bool;
}

macro_rules! record {
    ($record:ty, $flows:literal, $half:literal, $program:literal, $family:literal) => {
        impl Record for $record {
            const FLOWS: &'static str = $flows;
            const HALF_OPEN: &'static str = $half;
            const PROGRAM: &'static str = $program;
            const FAMILY: usize = $family;
            const STATE_WORD: usize = offset_of!($record, proto) / size_of::<u32>();

            fn left(&self, settings: &Settings, now: u32) -> bool {
                let Some(mut allowed) = settings.timeout.get(usize::from(self.state)).copied()
                else {
                    return false;
                };
                let open = [State::Established as u8, State::UdpStream as u8].contains(&self.state);
                if open && self.idle > 0 {
                    allowed = u32::from(self.idle) * settings.hz;
                }
                self.state != 0 && (now.wrapping_sub(self.seen) as i32) < allowed as i32
            }
        }
    };
}
record!(Flow4, "flows4", "half_flows4", "headgate_import4", 0);
record!(Flow6, "flows6", "half_flows6", "headgate_import6", 1);

fn mover<'t, R: Record>(tables: &'t Tables, settings: &'t Settings, now: u32) -> Mover<'t, R> {
    Mover {
        tables,
        settings,
        now,
        batch: Vec::new(),
        left: 0,
    }
}

/// Moves the flows of one family.
struct Mover<'t, R> {
    tables: &'t Tables,
    settings: &'t Settings,
    now: u32,
    /// Slots with their records.
    batch: Vec<(usize, R)>,
    left: u64,
}

impl<R: Record> Mover<'_, R> {
    /// How many are left.
    fn run(mut self, to: &Instance) -> io::Result<u64> {
        let half = self.tables.mapped(R::HALF_OPEN)?;
        // These come to the table when they are answered, or end soon.
        for slot in 0..half.len() {
            self.left += u64::from(self.living(&half, slot).is_some());
        }
        let program = to.program_named(R::PROGRAM)?;
        let flows = self.tables.mapped(R::FLOWS)?;
        let states = self.tables.mapped("slot_states")?;
        let used = states
            .read::<SlotState>(R::FAMILY)
            .map_or(0, |state| state.fresh as usize);
        let together = BYTES / size_of::<R>();
        for slot in 0..used.min(flows.len()) {
            if let Some(record) = self.living(&flows, slot) {
                self.batch.push((slot, record));
                if self.batch.len() == together {
                    self.hand_over(program, &flows)?;
                }
            }
        }
        self.hand_over(program, &flows)?;
        Ok(self.left)
    }

    fn living(&self, flows: &Mapped, slot: usize) -> Option<R> {
        let word = flows.element(slot)?.get(R::STATE_WORD)?;
        // Most slots of a large table say here that there is nothing to see.
        if state_of(word.load(Ordering::Relaxed)) == 0 {
            return None;
        }
        let record: R = flows.read(slot)?;
        record.left(self.settings, self.now).then_some(record)
    }

    fn hand_over(&mut self, program: BorrowedFd<'_>, flows: &Mapped) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let packet: Vec<u8> = self
            .batch
            .iter()
            .flat_map(|(_, record)| bytes_of(record).iter().copied())
            .collect();
        let outcome = run::test_run(program, &Run::new(&packet))?;
        for ((slot, _), after) in self
            .batch
            .drain(..)
            .zip(outcome.packet.chunks_exact(size_of::<R>()))
        {
            let word = |bytes| from_bytes::<u32>(bytes);
            let state = word(&after[R::STATE_WORD * size_of::<u32>()..]).map_or(0, state_of);
            if state != 0 {
                self.left += 1;
            } else if let Some(word) = flows.element(slot).and_then(|it| it.get(R::STATE_WORD)) {
                end(word);
            }
        }
        Ok(())
    }
}

/// Bytes that a test run takes, with records of any family.
const BYTES: usize = 3456;

/// In the word that begins with the protocol.
const STATE_BYTE: usize = 1;

fn state_of(word: u32) -> u8 {
    word.to_ne_bytes()[STATE_BYTE]
}

/// Ends a flow that is another table's now, if it is still there.
fn end(word: &AtomicU32) {
    let was = word.load(Ordering::Acquire);
    let mut bytes = was.to_ne_bytes();
    if bytes[STATE_BYTE] != 0 {
        bytes[STATE_BYTE] = State::Ended as u8;
        // Should a packet change it at this moment, it is found here, and handed over, the next time.
        let _ = word.compare_exchange(
            was,
            u32::from_ne_bytes(bytes),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }
}
