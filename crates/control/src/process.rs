//! What the API knows of the process beside its traffic, and what it can ask of it. Doing it is the binary's work.

use crate::metrics::Exposition;
use crate::view::Reload;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, oneshot};

/// How many wishes may wait.
const WAITING: usize = 16;

/// The process, as the API sees it.
#[derive(Debug)]
pub struct Process {
    /// The version of the program.
    pub version: &'static str,
    /// The main file of the configuration.
    pub config: PathBuf,
    /// When the process started.
    pub started: SystemTime,
    last_reload: Mutex<Option<Reload>>,
    exposed: Mutex<Vec<Exposed>>,
    requests: mpsc::Sender<Request>,
}

/// Metrics that a part of the process adds to those of the traffic.
#[derive(Clone)]
struct Exposed(Arc<dyn Fn(&mut Exposition) + Send + Sync>);

impl fmt::Debug for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exposed")
    }
}

/// Something asked of the process, to be answered when it is done.
#[derive(Debug)]
pub struct Request {
    /// What.
    pub wish: Wish,
    /// Where the answer goes: what was done, or why not.
    pub answer: oneshot::Sender<Result<String, String>>,
}

/// What can be asked of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To read the configuration anew.
    Reload,
    /// To be replaced by the program that now stands in its file.
    Upgrade,
    /// To take nothing new, finish, and end.
    Drain,
}

impl Process {
    /// A process that has just started, and where its requests arrive.
    pub fn new(version: &'static str, config: PathBuf) -> (Self, mpsc::Receiver<Request>) {
        let (requests, receiver) = mpsc::channel(WAITING);
        let process = Process {
            version,
            config,
            started: SystemTime::now(),
            last_reload: Mutex::default(),
            exposed: Mutex::default(),
            requests,
        };
        (process, receiver)
    }

    /// Asks something of the process and waits for it, but no longer than `limit`.
    ///
    /// # Errors
    ///
    /// Why it was not done, for people.
    pub async fn ask(&self, wish: Wish, limit: Duration) -> Result<String, String> {
        let (answer, answered) = oneshot::channel();
        let gone = || "the process is ending".to_owned();
        let sent = self.requests.try_send(Request { wish, answer });
        match sent {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Err("too many requests wait for the process already".to_owned());
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(gone()),
        }
        match tokio::time::timeout(limit, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
            Err(_) => Err(format!("not done within {} s", limit.as_secs())),
        }
    }

    /// Has metrics of another part of the process shown with those of the traffic: `write` is called each time they are
    /// asked for, and should take no more than milliseconds.
    pub fn expose(&self, write: impl Fn(&mut Exposition) + Send + Sync + 'static) {
        let mut exposed = self.exposed.lock().unwrap_or_else(PoisonError::into_inner);
        exposed.push(Exposed(Arc::new(write)));
    }

    /// Writes what was handed to [`Process::expose`].
    pub(crate) fn write_exposed(&self, out: &mut Exposition) {
        let exposed = self
            .exposed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for Exposed(write) in exposed {
            write(out);
        }
    }

    /// How the last reload went; `None` if there was none.
    pub fn last_reload(&self) -> Option<Reload> {
        let last = self.last_reload.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes how a reload went.
    pub fn note_reload(&self, reload: Reload) {
        let mut last = self
            .last_reload
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(reload);
    }
}
