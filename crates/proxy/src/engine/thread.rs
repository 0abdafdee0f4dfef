//! A worker's thread: it does what it is told through its mailbox, and everything else happens in
//! its connections' tasks.

use super::shared::{Gauge, Message, Peer, Phase, Shared};
use crate::accept::{self, Stop};
use crate::listen::Socket;
use crate::snapshot::Snapshot;
use crate::sys;
use crate::worker::Worker;
use reactor::{Either, Mailbox, MailboxReceiver, block_on, mailbox, race, sleep, spawn};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::{debug, warn};

/// Between two rounds of housekeeping.
const ROUND: Duration = Duration::from_secs(1);

/// How often a worker that is to end looks whether it can.
const LOOK: Duration = Duration::from_millis(50);

/// How many such looks connections have to end in once time is up.
const LAST_LOOKS: u32 = 10;

/// A worker's thread, from outside.
pub(crate) struct Handle {
    pub(crate) peer: Peer,
    pub(crate) thread: JoinHandle<()>,
}

/// What a worker begins with.
pub(crate) struct Start {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) seed: u64,
    /// The processor it is to stay on.
    pub(crate) processor: Option<usize>,
}

/// Starts a worker, which serves nothing until it is told to listen.
pub(crate) fn start(start: Start) -> io::Result<Handle> {
    let (mail, receiver) = mailbox();
    let peer = Peer {
        index: start.index,
        load: Arc::new(Gauge::default()),
        mail,
    };
    let load = Arc::clone(&peer.load);
    let thread = thread::Builder::new()
        .name(format!("hg-worker-{}", start.index))
        .spawn(move || run(start, load, receiver))?;
    Ok(Handle { peer, thread })
}

/// Sends to a worker; one that has ended needs to know nothing.
pub(crate) fn tell(mail: &Mailbox<Message>, message: Message) {
    let _ = mail.send(message);
}

fn run(start: Start, load: Arc<Gauge>, receiver: MailboxReceiver<Message>) {
    if let Some(processor) = start.processor
        && let Err(error) = sys::pin_to(processor)
    {
        warn!(worker = start.index, processor, %error, "cannot stay on one processor");
    }
    let Start {
        index,
        shared,
        snapshot,
        seed,
        ..
    } = start;
    let worker = Worker::new(index, shared, load, snapshot, seed);
    block_on(async move {
        worker.upstreams.prepare(&worker);
        worker.rules.prepare(&worker);
        spawn(keep_house(Rc::clone(&worker)));
        work(&worker, receiver).await;
    });
    debug!(worker = index, "a worker has ended");
}

async fn work(worker: &Rc<Worker>, mut mail: MailboxReceiver<Message>) {
    let mut serving: HashMap<u64, Rc<Stop>> = HashMap::new();
    let mut retired = false;
    let mut looks = 0;
    loop {
        let message = if retired || worker.phase() == Phase::Stopping {
            match race(mail.receive(), sleep(LOOK)).await {
                Either::Left(message) => Some(message),
                Either::Right(()) => None,
            }
        } else {
            Some(mail.receive().await)
        };
        match message {
            Some(Message::Snapshot(snapshot)) => {
                worker.set_snapshot(snapshot);
                worker.upstreams.prepare(worker);
                worker.rules.prepare(worker);
            }
            Some(Message::Listen(sockets)) => listen(worker, &mut serving, sockets),
            Some(Message::Serve(arrival)) => accept::serve(worker, arrival),
            // A worker that is draining is not set running again: nothing ends a drain.
            Some(Message::Phase(phase)) => worker.set_phase(phase),
            // Whoever asked may have gone.
            Some(Message::Profile(to)) => drop(to.send(worker.rules.profile())),
            Some(Message::Retire) => {
                retired = true;
                worker.set_phase(Phase::Draining);
            }
            None => {
                // What is on its way here is counted here already.
                if worker.load.load(Relaxed) == 0 {
                    return;
                }
                if worker.phase() == Phase::Stopping {
                    looks += 1;
                    if looks == LAST_LOOKS {
                        return;
                    }
                }
            }
        }
    }
}

/// Serves these sockets, and no others.
fn listen(worker: &Rc<Worker>, serving: &mut HashMap<u64, Rc<Stop>>, sockets: Vec<Arc<Socket>>) {
    serving.retain(|id, stop| {
        let stays = sockets.iter().any(|socket| socket.id == *id);
        if !stays {
            stop.stop();
        }
        stays
    });
    for socket in sockets {
        serving.entry(socket.id).or_insert_with(|| {
            let stop = Rc::new(Stop::default());
            spawn(accept::accept(Rc::clone(worker), socket, Rc::clone(&stop)));
            stop
        });
    }
}

/// What is to be done now and then.
async fn keep_house(worker: Rc<Worker>) {
    loop {
        sleep(ROUND).await;
        worker.upstreams.sweep(&worker);
        // The first worker is always there.
        if worker.index == 0 {
            let now = worker.now();
            for backend in worker.snapshot().backends.values() {
                backend.pool.tick(now);
            }
        }
    }
}
