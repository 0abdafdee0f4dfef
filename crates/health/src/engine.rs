//! The thread that asks: it launches what the plan says, and tells listeners what came of it.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use reactor::{Deadline, Either, Mailbox, MailboxReceiver, block_on, mailbox, now, race, spawn};
use tracing::{debug, error, info, warn};

use crate::check::{self, Conn};
use crate::failure::Failure;
use crate::plan::{Finding, Id, Launch, Plan, Report};
use crate::target::{Target, TargetKey, TargetStatus};

/// Checks at once.
const AT_ONCE: usize = 256;

/// Connections at once that are done with and wait for their peer's end.
const LINGERING: usize = 256;

/// Time between two complaints about checks that could not be made.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Asks members, on a thread of its own. Made once for the life of a process; it ends when dropped.
pub struct Engine {
    plan: Arc<Mutex<Plan>>,
    mail: Mailbox<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the thread, which has nobody to ask yet.
    ///
    /// # Errors
    ///
    /// When the thread or what it waits by can't be made.
    pub fn start(thread_name: &str) -> io::Result<Engine> {
        let seed = RandomState::new().build_hasher().finish();
        let plan = Arc::new(Mutex::new(Plan::new(AT_ONCE, seed)));
        let (mail, receiver) = mailbox();
        let (started, running) = mpsc::channel();
        let thread = {
            let (plan, mail) = (Arc::clone(&plan), mail.clone());
            let body = move || {
                let worker = Worker::new(plan, mail);
                block_on(async {
                    // Whoever starts this waits for it.
                    let _ = started.send(());
                    worker.work(receiver).await;
                });
            };
            thread::Builder::new()
                .name(thread_name.to_owned())
                .spawn(body)?
        };
        running
            .recv()
            .map_err(|_| io::Error::other("the thread that asks members ended at its start"))?;
        Ok(Engine {
            plan,
            mail,
            thread: Some(thread),
        })
    }

    /// Takes a whole new set of targets. One with the same key and settings as before is not
    /// disturbed (its new listener is told at once how things stand); one with other settings keeps
    /// its verdict and is asked anew; one that is not in the set any more is forgotten. A listener
    /// may still be told of a check that ends while this is called.
    pub fn set_targets(&self, targets: Vec<Target>) {
        let retired = lock(&self.plan).set_targets(targets, Instant::now());
        self.nudge();
        drop(retired);
    }

    /// Asks a target at once. False if there is no such target.
    pub fn check_now(&self, key: &TargetKey) -> bool {
        let known = lock(&self.plan).check_now(key, Instant::now());
        self.nudge();
        known
    }

    /// What is known of every target, ordered by key.
    pub fn statuses(&self) -> Vec<TargetStatus> {
        let mut statuses = lock(&self.plan).statuses();
        statuses.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        statuses
    }

    /// Ends the thread; checks under way are left.
    pub fn stop(self) {
        drop(self);
    }

    fn nudge(&self) {
        // A thread that is gone has been mourned by the panic hook already.
        let _ = self.mail.send(Message::Changed);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.mail.send(Message::Stop);
        if let Some(thread) = self.thread.take()
            // Dropped by a listener: the thread can't wait for itself.
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

enum Message {
    /// The plan is another.
    Changed,
    /// A check has ended.
    Done(Id, Finding),
    Stop,
}

struct Worker {
    plan: Arc<Mutex<Plan>>,
    mail: Mailbox<Message>,
    shortages: Shortages,
    lingering: Rc<Cell<usize>>,
}

impl Worker {
    fn new(plan: Arc<Mutex<Plan>>, mail: Mailbox<Message>) -> Self {
        Worker {
            plan,
            mail,
            shortages: Shortages::default(),
            lingering: Rc::default(),
        }
    }

    async fn work(&self, mut receiver: MailboxReceiver<Message>) {
        let deadline = Deadline::new();
        loop {
            self.launch_due();
            match lock(&self.plan).next_due() {
                Some(at) => deadline.set(millis_until(at)),
                None => deadline.clear(),
            }
            let past = poll_fn(|_| deadline.poll_past());
            match race(receiver.receive(), past).await {
                Either::Left(Message::Stop) => return,
                Either::Left(Message::Changed) => {
                    let untold = lock(&self.plan).untold();
                    untold.into_iter().for_each(tell);
                }
                Either::Left(Message::Done(id, finding)) => {
                    let report = lock(&self.plan).finish(id, finding, now());
                    if let Some(report) = report {
                        log(&report);
                        tell(report);
                    }
                }
                Either::Right(()) => {}
            }
        }
    }

    fn launch_due(&self) {
        loop {
            let launch = lock(&self.plan).launch(now());
            let Some(launch) = launch else { return };
            self.launch(launch);
        }
    }

    fn launch(&self, launch: Launch) {
        let mut done = Done {
            id: launch.id,
            mail: self.mail.clone(),
            finding: None,
        };
        let shortages = self.shortages.clone();
        let lingering = Rc::clone(&self.lingering);
        spawn(async move {
            let (result, conn) = check::run(launch.address, &launch.settings).await;
            done.finding = Some(judge(result, &shortages));
            drop(done);
            if let Some(conn) = conn {
                linger(conn, &lingering).await;
            }
        });
    }
}

/// Sends word that a check has ended, also when it ended in a panic.
struct Done {
    id: Id,
    mail: Mailbox<Message>,
    finding: Option<Finding>,
}

impl Drop for Done {
    fn drop(&mut self) {
        let finding = self.finding.take().unwrap_or(Finding::Skipped);
        let _ = self.mail.send(Message::Done(self.id, finding));
    }
}

fn judge(result: Result<String, Failure>, shortages: &Shortages) -> Finding {
    match result {
        Ok(reason) => Finding::Result { ok: true, reason },
        Err(failure) => match failure.shortage() {
            Some(shortage) => {
                shortages.note(shortage);
                Finding::Skipped
            }
            None => Finding::Result {
                ok: false,
                reason: failure.to_string(),
            },
        },
    }
}

async fn linger(conn: Conn, lingering: &Cell<usize>) {
    if lingering.get() < LINGERING {
        lingering.set(lingering.get() + 1);
        conn.end().await;
        lingering.set(lingering.get() - 1);
    }
}

fn tell(report: Report) {
    let Report {
        key,
        verdict,
        on_verdict,
        ..
    } = report;
    // A listener's panic must not leave every other member unwatched.
    if catch_unwind(AssertUnwindSafe(|| on_verdict(verdict))).is_err() {
        error!(target = %key, "the listener of a monitor panicked");
    }
}

/// Only what has changed is worth a line.
fn log(report: &Report) {
    let Some(change) = report.change else { return };
    let key = &report.key;
    let (pool, member, monitor) = (&*key.pool, &*key.member, &*key.monitor);
    let (address, reason) = (key.address, &*report.verdict.reason);
    match (change.up, change.first) {
        (true, true) => debug!(pool, member, monitor, %address, reason, "member is up"),
        (true, false) => info!(pool, member, monitor, %address, reason, "member is up again"),
        (false, _) => warn!(pool, member, monitor, %address, reason, "member is down"),
    }
}

/// Checks that could not be made: complained of now and then, not each time.
#[derive(Clone, Default)]
struct Shortages {
    since_complaint: Rc<Cell<u64>>,
    complained: Rc<Cell<Option<Instant>>>,
}

impl Shortages {
    fn note(&self, shortage: &io::Error) {
        let skipped = self.since_complaint.get() + 1;
        self.since_complaint.set(skipped);
        let last = self.complained.get();
        if last.is_none_or(|at| now().saturating_duration_since(at) >= COMPLAIN_EVERY) {
            warn!(error = %shortage, skipped, "checks of members skipped for want of resources");
            self.complained.set(Some(now()));
            self.since_complaint.set(0);
        }
    }
}

fn lock(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time to `at` in whole milliseconds, rounded up and at least one: zero would mean never.
fn millis_until(at: Instant) -> Duration {
    let left = at.saturating_duration_since(now());
    Duration::from_millis(left.as_millis() as u64 + 1)
}
