//! Host names of members: looked up by one thread, since the system's resolver blocks, and again
//! at intervals. What a change does to pools is for `engine`.

use model::{MemberAddress, ResolveMode};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// What is known of every name.
pub(crate) type Table = BTreeMap<String, Known>;

/// What a name was found to mean. It stays when a later lookup fails or finds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Ascending.
    all: Vec<IpAddr>,
    /// The first of the answers; it stays as long as it is among them.
    first: Option<IpAddr>,
}

/// Where a member is reached, as far as is known.
pub(crate) fn addresses(table: &Table, of: &MemberAddress, mode: ResolveMode) -> Vec<SocketAddr> {
    let (host, port) = match of {
        MemberAddress::Socket(address) => return vec![*address],
        MemberAddress::Host { host, port } => (host, *port),
    };
    let Some(known) = table.get(host) else {
        return Vec::new();
    };
    let chosen = match mode {
        ResolveMode::First => known.first.as_slice(),
        ResolveMode::All => &known.all,
    };
    chosen.iter().map(|&ip| SocketAddr::new(ip, port)).collect()
}

/// The names that a configuration asks for, each with the shortest interval asked for.
pub(crate) fn names(config: &model::Config) -> BTreeMap<String, Duration> {
    let mut names = BTreeMap::new();
    let members = config.pools.values().flat_map(|pool| &pool.members);
    for member in members {
        if let MemberAddress::Host { host, .. } = &member.address {
            let interval = names.entry(host.clone()).or_insert(member.resolve.interval);
            *interval = member.resolve.interval.min(*interval);
        }
    }
    names
}

/// The names that are looked up, and what is known of them.
#[derive(Default)]
pub(crate) struct Names {
    state: Mutex<State>,
    /// Something is due earlier, something was found out, or it is over.
    news: Condvar,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    over: bool,
}

struct Entry {
    interval: Duration,
    due: Instant,
    /// Whether it was looked up at all.
    tried: bool,
    failing: bool,
    known: Known,
}

impl Names {
    /// Adds names; those that are new are looked up at once.
    pub(crate) fn add(&self, names: &BTreeMap<String, Duration>) {
        let now = Instant::now();
        let mut state = self.lock();
        for (name, &interval) in names {
            let entry = state.entries.entry(name.clone()).or_insert_with(|| Entry {
                interval,
                due: now,
                tried: false,
                failing: false,
                known: Known::default(),
            });
            entry.interval = interval;
            entry.due = entry.due.min(now + interval);
        }
        self.news.notify_all();
    }

    /// Forgets all names but these.
    pub(crate) fn keep(&self, names: &BTreeMap<String, Duration>) {
        let mut state = self.lock();
        state.entries.retain(|name, _| names.contains_key(name));
    }

    /// Waits until all names were looked up once, but no longer than `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let untried = |state: &mut State| !state.over && state.entries.values().any(|e| !e.tried);
        let waited = self.news.wait_timeout_while(self.lock(), limit, untried);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// What is known now.
    pub(crate) fn table(&self) -> Table {
        let state = self.lock();
        let entries = state.entries.iter();
        entries
            .map(|(name, entry)| (name.clone(), entry.known.clone()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name that is to be looked up next, waited for; `None` when it is over.
    fn next(&self) -> Option<String> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            let next = state.entries.iter().min_by_key(|(_, entry)| entry.due);
            let now = Instant::now();
            state = match next {
                None => self
                    .news
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some((name, entry)) if entry.due <= now => return Some(name.clone()),
                Some((_, entry)) => {
                    let left = entry.due - now;
                    let waited = self.news.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Takes in an answer. Returns whether it changes what is known.
    fn learn(&self, name: &str, answer: io::Result<Vec<IpAddr>>) -> bool {
        let mut state = self.lock();
        // It may have gone out of the configuration meanwhile.
        let Some(entry) = state.entries.get_mut(name) else {
            return false;
        };
        entry.tried = true;
        entry.due = Instant::now() + entry.interval;
        let failure = match answer {
            Ok(answers) if answers.is_empty() => Some("no address".to_owned()),
            Ok(answers) => {
                let known = entry.known.updated(&answers);
                let changed = known != entry.known;
                if changed || entry.failing {
                    info!(name, addresses = ?known.all, "member's name resolved");
                }
                entry.failing = false;
                entry.known = known;
                self.news.notify_all();
                return changed;
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failure
            && !std::mem::replace(&mut entry.failing, true)
        {
            warn!(name, error, kept = ?entry.known.all, "member's name does not resolve");
        }
        self.news.notify_all();
        false
    }
}

impl Known {
    fn updated(&self, answers: &[IpAddr]) -> Known {
        let mut all = answers.to_vec();
        all.sort_unstable();
        all.dedup();
        let stays = self.first.filter(|first| all.contains(first));
        Known {
            first: stays.or(answers.first().copied()),
            all,
        }
    }
}

/// The thread that looks names up.
pub(crate) struct Resolver {
    names: Arc<Names>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    /// Starts it; `changed` is called after every lookup that changed what is known.
    pub(crate) fn start(
        names: &Arc<Names>,
        changed: impl Fn() + Send + 'static,
    ) -> io::Result<Resolver> {
        Resolver::with_lookup(names, changed, look_up)
    }

    fn with_lookup(
        names: &Arc<Names>,
        changed: impl Fn() + Send + 'static,
        mut look_up: impl FnMut(&str) -> io::Result<Vec<IpAddr>> + Send + 'static,
    ) -> io::Result<Resolver> {
        let known = Arc::clone(names);
        let thread = thread::Builder::new()
            .name("hg-resolve".to_owned())
            .spawn(move || {
                while let Some(name) = known.next() {
                    let answer = look_up(&name);
                    if known.learn(&name, answer) {
                        changed();
                    }
                }
            })?;
        Ok(Resolver {
            names: Arc::clone(names),
            thread: Some(thread),
        })
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.names.lock().over = true;
        self.names.news.notify_all();
        // Not waited for: a lookup under way may take the system's resolver many seconds.
        drop(self.thread.take());
    }
}

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|a| a.ip()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn ips(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_first_address_stays_while_it_is_among_the_answers() {
        let known = Known::default().updated(&ips(&["10.0.0.2", "10.0.0.1"]));
        assert_eq!(known.first, Some(ips(&["10.0.0.2"])[0]));
        let rotated = known.updated(&ips(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]));
        assert_eq!(rotated.first, known.first);
        let gone = rotated.updated(&ips(&["10.0.0.3", "10.0.0.1"]));
        assert_eq!(gone.first, Some(ips(&["10.0.0.3"])[0]));
        assert_eq!(gone.all, ips(&["10.0.0.1", "10.0.0.3"]));
    }

    #[test]
    fn a_lookup_that_fails_keeps_what_is_known() {
        let names = Arc::new(Names::default());
        names.add(&BTreeMap::from([("a".to_owned(), Duration::from_secs(1))]));
        assert!(names.learn("a", Ok(ips(&["10.0.0.1"]))));
        assert!(!names.learn("a", Err(io::ErrorKind::TimedOut.into())));
        assert!(!names.learn("a", Ok(Vec::new())));
        assert_eq!(names.table()["a"].all, ips(&["10.0.0.1"]));
        assert!(names.learn("a", Ok(ips(&["10.0.0.2"]))));
    }

    #[test]
    fn new_names_are_looked_up_at_once_and_changes_told() {
        let names = Arc::new(Names::default());
        let (sender, told) = mpsc::channel();
        let changed = move || {
            let _ = sender.send(());
        };
        let resolver = Resolver::with_lookup(&names, changed, |name| match name {
            "good" => Ok(ips(&["10.0.0.1", "10.0.0.2"])),
            _ => Err(io::ErrorKind::NotFound.into()),
        });
        let hour = Duration::from_secs(3600);
        names.add(&BTreeMap::from([
            ("bad".to_owned(), hour),
            ("good".to_owned(), hour),
        ]));
        names.wait(Duration::from_secs(30));
        told.recv_timeout(Duration::from_secs(30)).unwrap();
        let table = names.table();
        let of = |host: &str, mode| {
            let host = host.to_owned();
            addresses(&table, &MemberAddress::Host { host, port: 80 }, mode).len()
        };
        assert_eq!(of("good", ResolveMode::First), 1);
        assert_eq!(of("good", ResolveMode::All), 2);
        assert_eq!(of("bad", ResolveMode::All), 0);
        drop(resolver);
    }
}
