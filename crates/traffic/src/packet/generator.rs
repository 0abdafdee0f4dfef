//! A generator: threads, each with a sender and a part of the flows, that start together and stop together.

use super::error::PacketError;
use super::place::{Place, pin_to_core, wake_in_time};
use super::sender::{LONGEST_LIVE, Sender, Sent, What};
use super::socket::SocketSender;
use super::stream::Part;
use crate::http::Stop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a generator is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where frames leave.
    pub place: Place,
    /// What is sent.
    pub what: What,
    /// The cores to send from, a thread each. Empty: one thread, on any core.
    pub cores: Vec<usize>,
    /// Frames a second in all. None: as many as go.
    pub rate: Option<f64>,
    /// End after so many frames in all.
    pub count: Option<u64>,
    /// End after so long.
    pub time: Option<Duration>,
    /// Frames sent together.
    pub batch: u32,
    /// By which way they leave.
    pub way: Way,
}

/// By which way frames leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// As live frames if they fit, else by a socket.
    #[default]
    Auto,
    /// As live frames of eBPF, up to [`LONGEST_LIVE`] bytes each, to an interface whose driver takes them.
    Live,
    /// By a packet socket: frames of every length, on every interface, an order of magnitude slower.
    Socket,
}

impl Plan {
    /// Sends `what` as fast as it goes, until stopped.
    pub fn new(place: Place, what: What) -> Self {
        Self {
            place,
            what,
            cores: Vec::new(),
            rate: None,
            count: None,
            time: None,
            batch: super::sender::BATCH,
            way: Way::Auto,
        }
    }

    /// The way that frames of this plan leave by: never [`Way::Auto`].
    pub fn true_way(&self) -> Way {
        match self.way {
            Way::Auto if self.what.longest() > LONGEST_LIVE => Way::Socket,
            Way::Auto => Way::Live,
            way => way,
        }
    }
}

/// Threads that send.
pub struct Generator {
    threads: Vec<JoinHandle<Result<Duration, PacketError>>>,
    progress: Arc<Vec<Progress>>,
    stop: Stop,
}

/// What a generator has done in the end.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// What was sent.
    pub sent: Sent,
    /// How long the longest thread took.
    pub took: Duration,
}

impl Generator {
    /// Starts sending once every thread is ready.
    pub fn start(plan: &Plan) -> Result<Self, PacketError> {
        let cores: Vec<Option<usize>> = match plan.cores.as_slice() {
            [] => vec![None],
            cores => cores.iter().copied().map(Some).collect(),
        };
        let progress: Arc<Vec<Progress>> =
            Arc::new(cores.iter().map(|_| Progress::default()).collect());
        let stop = Stop::default();
        let barrier = Arc::new(Barrier::new(cores.len()));
        let (ready, readiness) = mpsc::channel();
        let mut threads = Vec::new();
        for (index, core) in cores.iter().copied().enumerate() {
            let part = Part {
                index: index as u32,
                of: cores.len() as u32,
            };
            let (plan, stop, barrier) = (plan.clone(), stop.clone(), Arc::clone(&barrier));
            let (progress, ready) = (Arc::clone(&progress), ready.clone());
            let thread = thread::Builder::new()
                .name(format!("gen-{index}"))
                .spawn(move || {
                    let prepared = prepare(&plan, core, part);
                    let told = ready.send(prepared.is_ok());
                    barrier.wait();
                    let mut sender = prepared?;
                    if told.is_err() {
                        return Ok(Duration::ZERO);
                    }
                    let count = plan.count.map(|count| share(count, part));
                    work(&mut *sender, count, plan.time, &stop, &progress[index])
                })
                .map_err(PacketError::Thread)?;
            threads.push(thread);
        }
        drop(ready);
        let generator = Self {
            threads,
            progress,
            stop,
        };
        if readiness.iter().take(cores.len()).all(|ready| ready) {
            Ok(generator)
        } else {
            generator.stop();
            generator
                .join()
                .map(|_| Err(PacketError::Thread(std::io::Error::other("it ended"))))?
        }
    }

    /// What has been sent so far.
    pub fn sent(&self) -> Sent {
        self.progress.iter().fold(Sent::default(), |all, own| Sent {
            frames: all.frames + own.frames.load(Ordering::Relaxed),
            bytes: all.bytes + own.bytes.load(Ordering::Relaxed),
            refused: all.refused + own.refused.load(Ordering::Relaxed),
        })
    }

    /// Whether every thread has done what it should.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Has the threads stop; [`Generator::join`] waits for them.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Waits until every thread has done what it should.
    pub fn join(mut self) -> Result<Done, PacketError> {
        let mut took = Duration::ZERO;
        let mut failed = None;
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(own)) => took = took.max(own),
                Ok(Err(error)) => failed = failed.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Done {
                sent: self.sent(),
                took,
            }),
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.stop.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Something that sends, one thread's.
pub(super) trait Steps {
    /// Sends some of at most `left` frames.
    fn step(&mut self, left: u64) -> Result<(), PacketError>;
    /// Allows so many frames in all.
    fn limit(&mut self, limit: u64);
    /// Starts to keep a rate.
    fn pace(&mut self, rate: Option<f64>);
    /// What was sent so far.
    fn sent(&self) -> Sent;
}

impl Steps for Sender {
    fn step(&mut self, left: u64) -> Result<(), PacketError> {
        Sender::step(self, left)
    }

    fn limit(&mut self, limit: u64) {
        Sender::limit(self, limit);
    }

    fn pace(&mut self, rate: Option<f64>) {
        Sender::pace(self, rate);
    }

    fn sent(&self) -> Sent {
        Sender::sent(self)
    }
}

#[derive(Default)]
struct Progress {
    frames: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
}

impl Progress {
    fn tell(&self, sent: Sent) {
        self.frames.store(sent.frames, Ordering::Relaxed);
        self.bytes.store(sent.bytes, Ordering::Relaxed);
        self.refused.store(sent.refused, Ordering::Relaxed);
    }
}

fn prepare(plan: &Plan, core: Option<usize>, part: Part) -> Result<Box<dyn Steps>, PacketError> {
    plan.place.enter()?;
    wake_in_time();
    if let Some(core) = core {
        pin_to_core(core)?;
    }
    let rate = plan.rate.map(|rate| rate / f64::from(part.of));
    let mut sender: Box<dyn Steps> = match plan.true_way() {
        Way::Socket => Box::new(SocketSender::new(&plan.place, &plan.what, part)?),
        _ => {
            let mut sender = Sender::new(&plan.place, &plan.what, part, rate.is_some())?;
            sender.batch(plan.batch);
            Box::new(sender)
        }
    };
    sender.pace(rate);
    Ok(sender)
}

fn work(
    sender: &mut dyn Steps,
    count: Option<u64>,
    time: Option<Duration>,
    stop: &Stop,
    progress: &Progress,
) -> Result<Duration, PacketError> {
    let start = Instant::now();
    let limit = count.unwrap_or(u64::MAX);
    sender.limit(limit);
    loop {
        let left = limit - sender.sent().frames;
        if left == 0 || stop.is_stopped() || time.is_some_and(|time| start.elapsed() >= time) {
            break;
        }
        let result = sender.step(left);
        progress.tell(sender.sent());
        result?;
    }
    Ok(start.elapsed())
}

/// A thread's share of a number, such that all shares make up the number.
fn share(count: u64, part: Part) -> u64 {
    let (index, of) = (u64::from(part.index), u64::from(part.of));
    count / of + u64::from(index < count % of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_shares_make_up_the_whole() {
        for count in [0, 1, 7, 8, 1_000_003] {
            for of in 1..9 {
                let shares = (0..of).map(|index| share(count, Part { index, of }));
                assert_eq!(shares.sum::<u64>(), count);
            }
        }
    }
}
