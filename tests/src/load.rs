//! Load that counts: so many connections, each asking again as soon as it was answered, and not one request forgotten.

use crate::{PATIENCE, Wire, within};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Load under way.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Tally>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answers: AtomicUsize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Answers by body, where the status was 200.
    pub answers: BTreeMap<String, usize>,
    /// Everything else: other statuses, connections that ended without an answer or could not be made.
    pub failures: Vec<String>,
}

impl Load {
    /// Gets a target over connections that are kept as long as the server keeps them.
    pub fn start(to: SocketAddr, connections: usize, target: &str) -> Self {
        Self::with(to, connections, &get(target), true)
    }

    /// Gets a target over a new connection each time.
    pub fn start_closing(to: SocketAddr, connections: usize, target: &str) -> Self {
        Self::with(to, connections, &get(target), false)
    }

    /// Sends these bytes, one request, again and again.
    pub fn with(to: SocketAddr, connections: usize, request: &str, keep: bool) -> Self {
        let shared = Arc::new(Shared::default());
        let threads = (0..connections)
            .map(|_| {
                let (shared, request) = (shared.clone(), request.to_owned());
                std::thread::spawn(move || ask(to, &request, keep, &shared))
            })
            .collect();
        Self { shared, threads }
    }

    /// How many requests were answered so far.
    pub fn count(&self) -> usize {
        self.shared.answers.load(Relaxed)
    }

    /// Waits until so many more are answered.
    pub fn more(&self, requests: usize) {
        let goal = self.count() + requests;
        within(PATIENCE * 3, "load is answered", || {
            (self.count() >= goal).then_some(())
        });
    }

    /// Lets every connection have its last answer, and counts.
    pub fn finish(self) -> Tally {
        self.shared.stop.store(true, Relaxed);
        let mut sum = Tally::default();
        for thread in self.threads {
            let tally = thread.join().unwrap();
            sum.failures.extend(tally.failures);
            for (body, count) in tally.answers {
                *sum.answers.entry(body).or_default() += count;
            }
        }
        sum
    }
}

impl Tally {
    /// How many were answered with 200.
    pub fn total(&self) -> usize {
        self.answers.values().sum()
    }

    /// How many were answered by a body.
    pub fn of(&self, body: &str) -> usize {
        self.answers.get(body).copied().unwrap_or_default()
    }

    /// Checks that not one request failed, and that there were some.
    ///
    /// # Panics
    /// If one did.
    pub fn assert_clean(&self) {
        assert!(
            self.failures.is_empty(),
            "{} of {} failed: {:?}",
            self.failures.len(),
            self.total() + self.failures.len(),
            &self.failures[..self.failures.len().min(5)]
        );
        assert!(self.total() > 0, "nothing was asked");
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn ask(to: SocketAddr, request: &str, keep: bool, shared: &Shared) -> Tally {
    let mut tally = Tally::default();
    let mut kept: Option<(Wire, usize)> = None;
    let fail = |what: String, tally: &mut Tally| {
        tally.failures.push(what);
        std::thread::sleep(Duration::from_millis(5));
    };
    while !shared.stop.load(Relaxed) && tally.failures.len() < 100 {
        let (mut wire, nth) = match kept.take() {
            Some(kept) => kept,
            None => match Wire::try_connect(to) {
                Ok(wire) => (wire, 0),
                Err(error) => {
                    fail(format!("connect: {error}"), &mut tally);
                    continue;
                }
            },
        };
        let answer = wire
            .try_send(request)
            .and_then(|()| wire.try_response("GET"));
        match answer {
            Ok(answer) if answer.status() == 200 => {
                *tally.answers.entry(answer.text()).or_default() += 1;
                shared.answers.fetch_add(1, Relaxed);
                if keep && !answer.closes() {
                    kept = Some((wire, nth + 1));
                }
            }
            Ok(answer) => fail(format!("{}: {}", answer.line, answer.text()), &mut tally),
            Err(error) => fail(
                format!("request {nth} of its connection: {error}"),
                &mut tally,
            ),
        }
    }
    tally
}
