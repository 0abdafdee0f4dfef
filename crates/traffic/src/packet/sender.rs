//! One thread's sender: our program run on live frames, which the kernel hands it in batches and sends as it says.

use super::abi;
use super::capture::Capture;
use super::error::PacketError;
use super::kernel::{self, Attached};
use super::place::{Place, monotonic, namespace_inode};
use super::stream::{Part, Stream, room};
use crate::http::Stop;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use xdp::attach::Wanted;
use xdp::libbpf_rs::Link;
use xdp::map::{self, Mapped};
use xdp::netns::{self, Namespace};
use xdp::{object, run};

/// Frames sent together, unless another number is set: what a network device takes in one go.
pub const BATCH: u32 = 64;

/// Bytes of the longest live frame: a page less what the kernel keeps in it.
pub const LONGEST_LIVE: usize = 3400;

/// Frames a call of the kernel, at full speed: a few milliseconds' worth, between which a wish to stop is seen.
const CALL: u64 = 32_768;

/// The same while a rate is kept: most of these runs only find that no frame is due.
const PACED_CALL: u64 = 4096;

/// By how much longer calls are when each costs milliseconds before it starts: see [`Parking`].
const UNPARKED: u64 = 64;

/// Below this many frames a second the thread sleeps between bursts instead of looking for when the next is due.
const SLEEPS_BELOW: f64 = 600_000.0;

/// How many frames fall due while it sleeps, unless that is too long a time: what rings have room for several times over.
const BURST: f64 = 64.0;

/// How long it sleeps at most.
const LONGEST_NAP: Duration = Duration::from_millis(20);

/// How long it sleeps at least: as the clock of sleepers goes.
const SHORTEST_NAP: Duration = Duration::from_micros(50);

/// How long it sleeps for a burst at most; at low rates frames are sent one by one.
const NAP: Duration = Duration::from_millis(1);

/// As many frames are sent after a nap at most: what rings take at once.
const LARGEST_BURST: u64 = 128;

/// The programs that count refused frames.
const REFUSALS: [&str; 2] = ["refused", "impossible"];

/// What is sent.
#[derive(Clone, Debug)]
pub enum What {
    /// Frames made as they are sent.
    Stream(Stream),
    /// Frames of a file, in order, round and round; every thread sends all of them.
    Capture(Arc<Capture>),
}

impl What {
    /// Bytes of the longest frame.
    pub fn longest(&self) -> usize {
        match self {
            Self::Stream(stream) => stream.true_sizes().longest().into(),
            Self::Capture(capture) => capture.longest(),
        }
    }
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames handed to the interface.
    pub frames: u64,
    /// Their bytes, from the Ethernet header on and without checksums.
    pub bytes: u64,
    /// Of the frames, how many the interface did not take, as what it hands them to had no room.
    pub refused: u64,
}

/// Sends from one thread. The thread that makes it must be in the interface's namespace and stay there.
pub struct Sender {
    interface: String,
    ifindex: u32,
    program: OwnedFd,
    state: Mapped,
    frame: Vec<u8>,
    batch: u32,
    rate: Option<f64>,
    // Count refused frames as long as they live.
    _refusals: Vec<Link>,
    parking: Option<Parking>,
}

impl Sender {
    /// Gets ready to send part `part` of something out of an interface of this thread's namespace. With `paced`,
    /// [`Sender::pace`] can set a rate.
    pub fn new(place: &Place, what: &What, part: Part, paced: bool) -> Result<Self, PacketError> {
        let longest = what.longest();
        if longest > LONGEST_LIVE {
            return Err(PacketError::TooLong {
                size: longest,
                most: LONGEST_LIVE,
            });
        }
        let ifindex = place.ifindex()?;
        let device = abi::Device {
            namespace_inode: namespace_inode().map_err(PacketError::Table)?,
            ifindex,
            pad: 0,
        };
        let (constants, start, name) = match what {
            What::Stream(stream) => (stream.program(part, paced)?, stream.start(part)?, "send"),
            What::Capture(capture) => (capture.program(paced), abi::State::default(), "replay"),
        };
        let object = object::load("send", kernel::SEND, |open| {
            kernel::only(open, &[name, REFUSALS[0], REFUSALS[1]]);
            kernel::set_section(open, ".rodata.config", &constants)?;
            kernel::set_section(open, ".rodata.device", &device)?;
            kernel::set_section(open, ".data.state", &start)?;
            if let What::Capture(capture) = what {
                object::set_capacity(open, "capture", capture.frames().len() as u32)?;
            }
            Ok(())
        })?;
        if let What::Capture(capture) = what {
            let table = kernel::table(&object, "capture")?;
            for (at, frame) in (0u32..).zip(capture.frames()) {
                map::set(&table, &at, &replayed(frame)).map_err(PacketError::Table)?;
            }
        }
        // One counts for all threads. Without it, refused frames are lost ones.
        let refusals = object
            .progs_mut()
            .filter(|program| {
                part.index == 0 && REFUSALS.iter().any(|name| program.name() == *name)
            })
            .filter_map(|program| program.attach().ok())
            .collect();
        let state = kernel::table(&object, ".data.state")?;
        let state = Mapped::new(&state).map_err(PacketError::Table)?;
        let program = kernel::program(&object, name)?;
        Ok(Self {
            interface: place.interface().to_owned(),
            ifindex,
            parking: Parking::of(&program).ok(),
            program,
            state,
            frame: vec![0; usize::from(room(longest as u16))],
            batch: BATCH,
            rate: None,
            _refusals: refusals,
        })
    }

    /// Has `frames` frames sent together, at most 256.
    pub fn batch(&mut self, frames: u32) {
        self.batch = frames.clamp(1, 256);
    }

    /// Keeps to `rate` frames a second from now on, or to none. A sender that was not made paced sends as fast as it can.
    pub fn pace(&mut self, rate: Option<f64>) {
        self.rate = rate.filter(|rate| *rate > 0.0);
        let second = 1e9 * 256.0;
        let interval = self.rate.map_or(0.0, |rate| second / rate);
        let sleeps = self.rate.is_some_and(|rate| rate < SLEEPS_BELOW);
        self.set(Word::Interval, interval as u64);
        self.set(Word::Gap, if sleeps { 0 } else { interval as u64 / 2 });
        self.set(Word::Missed, (second / 10.0).max(interval) as u64);
        self.set(Word::Earliest, 0);
        self.set(Word::Next, monotonic() << 8);
    }

    /// Sends `frames` frames, or fewer when somebody wishes it to stop, and says how long that took.
    pub fn send(&mut self, frames: u64, stop: &Stop) -> Result<Duration, PacketError> {
        let end = self.sent().frames.saturating_add(frames);
        self.set(Word::Limit, end);
        let start = Instant::now();
        while !stop.is_stopped() {
            let left = end.saturating_sub(self.sent().frames);
            if left == 0 {
                break;
            }
            self.step(left)?;
        }
        Ok(start.elapsed())
    }

    /// One call of the kernel for at most `left` more frames.
    pub(super) fn step(&mut self, left: u64) -> Result<(), PacketError> {
        let frames = match self.rate {
            None => left.min(CALL * self.longer()),
            Some(rate) if rate < SLEEPS_BELOW => self.nap(rate).min(left),
            Some(_) => PACED_CALL * self.longer(),
        };
        match run::live(
            self.program.as_fd(),
            &self.frame,
            self.ifindex,
            frames as u32,
            self.batch,
        ) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(PacketError::Send {
                interface: self.interface.clone(),
                source: error,
            }),
            _ => self.possible(),
        }
    }

    /// Whether the interface takes frames at all; there may be no room for some in spite of that.
    fn possible(&self) -> Result<(), PacketError> {
        match self.word(Word::Error) as u32 as i32 {
            0 => Ok(()),
            error => Err(PacketError::Refused {
                interface: self.interface.clone(),
                source: io::Error::from_raw_os_error(error),
            }),
        }
    }

    fn longer(&self) -> u64 {
        if self.parking.is_some() { 1 } else { UNPARKED }
    }

    /// Sleeps until a frame is due and somewhat longer, and gives how many runs of the program are to follow.
    fn nap(&self, rate: f64) -> u64 {
        let next = self.word(Word::Next) >> 8;
        let ahead = Duration::from_nanos(next.saturating_sub(monotonic()));
        let nap = |frames: f64| Duration::from_secs_f64(frames / rate).clamp(SHORTEST_NAP, NAP);
        thread::sleep(if ahead.is_zero() {
            // Kept from its work: it catches up at twice its rate, so that rings are emptied in between.
            nap(LARGEST_BURST as f64 / 2.0)
        } else {
            ahead.max(nap(BURST)).min(LONGEST_NAP)
        });
        // And one for what falls due in the meantime; runs that find no frame due cost little.
        let due = monotonic().saturating_sub(next) as f64 * rate / 1e9;
        (due as u64 + 2).min(LARGEST_BURST)
    }

    /// Allows as many frames as `limit` in all, for [`Sender::step`].
    pub(super) fn limit(&mut self, limit: u64) {
        self.set(Word::Limit, limit);
    }

    /// What was sent so far.
    pub fn sent(&self) -> Sent {
        Sent {
            frames: self.word(Word::Sent),
            bytes: self.word(Word::Bytes),
            refused: self.word(Word::Refused),
        }
    }

    fn word(&self, word: Word) -> u64 {
        self.state.long_words()[word as usize].load(Ordering::Relaxed)
    }

    fn set(&self, word: Word, value: u64) {
        let words: &[AtomicU64] = self.state.long_words();
        words[word as usize].store(value, Ordering::Relaxed);
    }
}

/// An interface nobody uses, to which a sender's program is attached for good.
///
/// The kernel calls attached programs by a table of direct jumps, which it rewrites whenever a program comes or goes.
/// A test run brings its program and takes it away, and waits some milliseconds for every CPU each time; for a program
/// that is in the table anyway it does not.
struct Parking {
    // Taken off before the interface goes.
    _attached: Attached,
    _namespace: Namespace,
}

impl Parking {
    fn of(program: &OwnedFd) -> io::Result<Self> {
        let namespace = Namespace::new()?;
        netns::veth(&namespace, "parking0", &namespace, "parking1")?;
        let ifindex = namespace.ifindex("parking0")?;
        let attached = namespace
            .run(|| Attached::new(program, ifindex, Wanted::Native))
            .map_err(io::Error::other)?;
        Ok(Self {
            _attached: attached,
            _namespace: namespace,
        })
    }
}

/// Places in [`abi::State`].
#[derive(Clone, Copy)]
enum Word {
    Sent,
    Bytes,
    Limit,
    Next,
    Interval,
    Gap,
    Earliest,
    Missed,
    Refused = 9,
    // Its lower half.
    Error = 13,
}

fn replayed(frame: &[u8]) -> abi::Replayed {
    let mut data = [0; abi::REPLAY_FRAME];
    data[..frame.len()].copy_from_slice(frame);
    abi::Replayed {
        len: frame.len() as u32,
        pad: 0,
        data,
    }
}
