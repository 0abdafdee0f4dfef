//! Which target is due when, how many checks run at once, and what their results change. The clock
//! is the caller's, so that a day of ten thousand members passes in a test's second.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::schedule::{Random, first_gap, gap};
use crate::settings::Settings;
use crate::state::{Change, State};
use crate::target::{OnVerdict, Target, TargetKey, TargetStatus, Verdict};

pub(crate) struct Plan {
    entries: HashMap<Id, Entry>,
    ids: HashMap<TargetKey, Id>,
    due: BTreeSet<(Instant, Id)>,
    /// Kept targets whose new listener has yet to hear how things stand.
    untold: Vec<Id>,
    running: usize,
    at_once: usize,
    random: Random,
    next_id: u64,
}

/// A target as long as its settings last: never used again, so that a late result finds nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(u64);

struct Entry {
    key: TargetKey,
    settings: Arc<Settings>,
    on_verdict: OnVerdict,
    state: State,
    progress: Progress,
    last: Option<Verdict>,
    checks: u64,
    failures: u64,
    skipped: u64,
}

enum Progress {
    Due(Instant),
    Running { since: Instant, again: bool },
}

/// A check to be made.
pub(crate) struct Launch {
    pub(crate) id: Id,
    pub(crate) address: SocketAddr,
    pub(crate) settings: Arc<Settings>,
}

/// How a check ended.
pub(crate) enum Finding {
    /// With a result, told in words.
    Result { ok: bool, reason: String },
    /// Without one, by no fault of the member's.
    Skipped,
}

/// Something to tell a target's listener.
pub(crate) struct Report {
    pub(crate) key: TargetKey,
    pub(crate) verdict: Verdict,
    pub(crate) change: Option<Change>,
    pub(crate) on_verdict: OnVerdict,
}

impl Plan {
    /// Nobody to ask yet; never more than `at_once` checks at a time.
    pub(crate) fn new(at_once: usize, seed: u64) -> Self {
        Plan {
            entries: HashMap::new(),
            ids: HashMap::new(),
            due: BTreeSet::new(),
            untold: Vec::new(),
            running: 0,
            at_once,
            random: Random::new(seed),
            next_id: 0,
        }
    }

    /// Takes the difference to a whole new set. A target that stays goes on undisturbed; one whose
    /// settings are others keeps its verdict and is asked anew at once. Of two with one key the
    /// first counts. Listeners that hear nothing more are handed back, for their end may run code
    /// that comes back here.
    pub(crate) fn set_targets(&mut self, targets: Vec<Target>, now: Instant) -> Vec<OnVerdict> {
        let mut retired = Vec::new();
        let mut gone = std::mem::take(&mut self.ids);
        let mut fresh = Vec::new();
        for target in targets {
            if self.ids.contains_key(&target.key) {
                continue;
            }
            let key = target.key.clone();
            let before = gone.remove(&key);
            let id = match before {
                Some(id) if self.entries[&id].settings.as_ref() == &target.settings => {
                    retired.extend(self.keep(id, target.on_verdict));
                    id
                }
                _ => {
                    let before = before.and_then(|id| self.remove(id));
                    let id = self.add(target, before.as_ref(), now);
                    retired.extend(before.map(|entry| entry.on_verdict));
                    fresh.push(id);
                    id
                }
            };
            self.ids.insert(key, id);
        }
        for id in gone.into_values() {
            retired.extend(self.remove(id).map(|entry| entry.on_verdict));
        }
        for &id in &fresh {
            let random = self.random.unit();
            let entry = &self.entries[&id];
            let wait = first_gap(entry.settings.interval, fresh.len(), random);
            self.schedule(id, now + wait);
        }
        retired
    }

    /// Lets a target be asked at once. False if there is no such target.
    pub(crate) fn check_now(&mut self, key: &TargetKey, now: Instant) -> bool {
        let Some(&id) = self.ids.get(key) else {
            return false;
        };
        match self.entries.get_mut(&id).map(|e| &mut e.progress) {
            Some(Progress::Running { again, .. }) => *again = true,
            _ => self.schedule(id, now),
        }
        true
    }

    /// The next check to be made now, if one is due and may run. Every launch must be finished.
    pub(crate) fn launch(&mut self, now: Instant) -> Option<Launch> {
        let &(at, id) = self.due.first()?;
        if at > now || self.running >= self.at_once {
            return None;
        }
        self.due.pop_first();
        let entry = self.entries.get_mut(&id).expect("what is due is an entry");
        self.running += 1;
        entry.progress = Progress::Running {
            since: now,
            again: false,
        };
        let mut address = entry.key.address;
        if let Some(port) = entry.settings.port {
            address.set_port(port);
        }
        Some(Launch {
            id,
            address,
            settings: Arc::clone(&entry.settings),
        })
    }

    /// When the next check is due, unless a running one has to end first.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        if self.running >= self.at_once {
            return None;
        }
        self.due.first().map(|&(at, _)| at)
    }

    /// Takes in what a launched check found.
    pub(crate) fn finish(&mut self, id: Id, finding: Finding, now: Instant) -> Option<Report> {
        self.running -= 1;
        let entry = self.entries.get_mut(&id)?;
        let Progress::Running { since, again } = entry.progress else {
            return None;
        };
        let next = if again {
            now
        } else {
            let random = self.random.unit();
            let gap = gap(entry.settings.interval, entry.settings.jitter, random);
            later(since, gap).max(now)
        };
        let report = match finding {
            Finding::Result { ok, reason } => Some(entry.observe(ok, reason, since, now)),
            Finding::Skipped => {
                entry.skipped += 1;
                None
            }
        };
        self.schedule(id, next);
        report
    }

    /// What the new listeners of kept targets are to be told: how things stand.
    pub(crate) fn untold(&mut self) -> Vec<Report> {
        let untold = std::mem::take(&mut self.untold);
        let report = |id| self.entries.get(&id).and_then(Entry::standing);
        untold.into_iter().filter_map(report).collect()
    }

    /// What is known of every target, in no order.
    pub(crate) fn statuses(&self) -> Vec<TargetStatus> {
        self.entries.values().map(Entry::status).collect()
    }

    /// Gives a target a new listener; returns the old one.
    fn keep(&mut self, id: Id, on_verdict: OnVerdict) -> Option<OnVerdict> {
        let entry = self.entries.get_mut(&id)?;
        if Arc::ptr_eq(&entry.on_verdict, &on_verdict) {
            return None;
        }
        self.untold.push(id);
        Some(std::mem::replace(&mut entry.on_verdict, on_verdict))
    }

    fn add(&mut self, target: Target, before: Option<&Entry>, now: Instant) -> Id {
        let state = match (target.start, before) {
            (Some(start), _) => start,
            (None, Some(before)) => before.state.verdict_only(),
            (None, None) => State::unknown(),
        };
        let id = Id(self.next_id);
        self.next_id += 1;
        let entry = Entry {
            key: target.key,
            settings: Arc::new(target.settings),
            on_verdict: target.on_verdict,
            state,
            progress: Progress::Due(now),
            last: before.and_then(|entry| entry.last.clone()),
            checks: 0,
            failures: 0,
            skipped: 0,
        };
        self.entries.insert(id, entry);
        self.due.insert((now, id));
        id
    }

    fn remove(&mut self, id: Id) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if let Progress::Due(at) = entry.progress {
            self.due.remove(&(at, id));
        }
        Some(entry)
    }

    fn schedule(&mut self, id: Id, at: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            if let Progress::Due(before) = entry.progress {
                self.due.remove(&(before, id));
            }
            entry.progress = Progress::Due(at);
            self.due.insert((at, id));
        }
    }
}

impl Entry {
    fn observe(&mut self, ok: bool, reason: String, since: Instant, now: Instant) -> Report {
        self.checks += 1;
        self.failures += u64::from(!ok);
        let change = self.state.observe(ok, self.settings.thresholds(), now);
        let verdict = Verdict {
            up: self.state.up().unwrap_or(ok),
            changed: change.is_some(),
            ok,
            reason,
            latency: now.saturating_duration_since(since),
            at: now,
        };
        self.last = Some(verdict.clone());
        self.report(verdict, change)
    }

    /// The verdict as it is, for someone who has just come.
    fn standing(&self) -> Option<Report> {
        let verdict = Verdict {
            up: self.state.up()?,
            changed: false,
            ..self.last.clone()?
        };
        Some(self.report(verdict, None))
    }

    fn report(&self, verdict: Verdict, change: Option<Change>) -> Report {
        Report {
            key: self.key.clone(),
            verdict,
            change,
            on_verdict: Arc::clone(&self.on_verdict),
        }
    }

    fn status(&self) -> TargetStatus {
        TargetStatus {
            key: self.key.clone(),
            state: self.state,
            last: self.last.clone(),
            checks: self.checks,
            failures: self.failures,
            skipped: self.skipped,
            running: matches!(self.progress, Progress::Running { .. }),
        }
    }
}

/// A time that can't be told is put off by a year.
fn later(from: Instant, gap: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    from.checked_add(gap).unwrap_or(from + YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Kind;

    fn target(n: u16, interval: Duration) -> Target {
        Target {
            key: TargetKey {
                pool: "web".into(),
                member: format!("m{n}").into(),
                monitor: "tcp".into(),
                address: SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 80)),
            },
            settings: Settings {
                interval,
                ..Settings::new(Kind::Tcp)
            },
            on_verdict: Arc::new(|_| ()),
            start: None,
        }
    }

    fn found(ok: bool) -> Finding {
        Finding::Result {
            ok,
            reason: String::new(),
        }
    }

    /// Launches and finishes the one check that is due.
    fn check(plan: &mut Plan, ok: bool, now: Instant) -> Report {
        let launch = plan.launch(now).expect("a check is due");
        assert!(plan.launch(now).is_none());
        plan.finish(launch.id, found(ok), now).unwrap()
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// Ten minutes of many members that take up to three seconds to answer.
    #[test]
    fn every_target_is_asked_at_its_interval_and_never_too_many_at_once() {
        const AT_ONCE: usize = 40;
        let interval = 10 * SECOND;
        let start = Instant::now();
        let mut plan = Plan::new(AT_ONCE, 1);
        let mut random = Random::new(2);
        plan.set_targets((0..200).map(|n| target(n, interval)).collect(), start);
        let mut running: BTreeSet<(Instant, Id)> = BTreeSet::new();
        let mut launched: HashMap<Id, Vec<Instant>> = HashMap::new();
        let mut now = start;
        while now < start + 600 * SECOND {
            while let Some(launch) = plan.launch(now) {
                let end = now + Duration::from_millis(100) + (2 * SECOND).mul_f32(random.unit());
                running.insert((end, launch.id));
                launched.entry(launch.id).or_default().push(now);
                assert!(running.len() <= AT_ONCE);
            }
            let end = running.first().map(|(at, _)| *at);
            now = end
                .into_iter()
                .chain(plan.next_due())
                .min()
                .unwrap()
                .max(now);
            if let Some(&(at, id)) = running.first()
                && at <= now
            {
                running.pop_first();
                plan.finish(id, found(random.unit() > 0.3), now).unwrap();
            }
        }
        assert_eq!(launched.len(), 200);
        for times in launched.values() {
            assert!(times[0] < start + 12 * SECOND);
            assert!((50..=66).contains(&times.len()), "{}", times.len());
            let least = times.windows(2).map(|w| w[1] - w[0]).min().unwrap();
            assert!(least >= 9 * SECOND, "{least:?}");
        }
    }

    #[test]
    fn a_target_that_stays_goes_on_with_its_counts_and_its_schedule() {
        let start = Instant::now();
        let mut plan = Plan::new(8, 1);
        let stays = target(1, 10 * SECOND);
        plan.set_targets(vec![stays.clone()], start);
        assert!(check(&mut plan, true, start + SECOND).verdict.up);
        for n in 1..=2 {
            assert!(check(&mut plan, false, start + n * 20 * SECOND).verdict.up);
        }
        let now = start + 41 * SECOND;
        plan.set_targets(vec![target(2, SECOND), stays], now);
        let launch = plan.launch(now + SECOND).unwrap();
        assert_eq!(launch.address, SocketAddr::from(([10, 0, 0, 2], 80)));
        assert!(plan.launch(now + SECOND).is_none());
        plan.finish(launch.id, found(true), now + SECOND);
        plan.set_targets(vec![target(1, 10 * SECOND)], now + SECOND);
        let report = check(&mut plan, false, start + 60 * SECOND);
        assert!(!report.verdict.up && report.verdict.changed);
    }

    #[test]
    fn a_target_with_other_settings_keeps_its_verdict_and_is_asked_at_once() {
        let start = Instant::now();
        let mut plan = Plan::new(8, 1);
        plan.set_targets(vec![target(1, 100 * SECOND)], start);
        check(&mut plan, true, start + SECOND);
        let now = start + 2 * SECOND;
        plan.set_targets(vec![target(1, 50 * SECOND)], now);
        assert_eq!(plan.statuses()[0].state.up(), Some(true));
        let report = check(&mut plan, false, now + Duration::from_millis(1));
        assert!(report.verdict.up && !report.verdict.ok);
    }

    #[test]
    fn a_result_of_a_target_that_is_gone_changes_nothing() {
        let start = Instant::now();
        let mut plan = Plan::new(1, 1);
        plan.set_targets(vec![target(1, SECOND)], start);
        let late = plan.launch(start + SECOND).unwrap();
        plan.set_targets(vec![target(1, 2 * SECOND)], start + SECOND);
        assert!(plan.launch(start + 2 * SECOND).is_none(), "one at a time");
        assert!(
            plan.finish(late.id, found(false), start + 2 * SECOND)
                .is_none()
        );
        assert_eq!(plan.statuses()[0].state.up(), None);
        check(&mut plan, true, start + 2 * SECOND);
        plan.set_targets(Vec::new(), start + 3 * SECOND);
        assert_eq!(plan.next_due(), None);
        assert!(plan.statuses().is_empty());
    }

    #[test]
    fn a_skipped_check_speaks_neither_for_nor_against() {
        let start = Instant::now();
        let mut plan = Plan::new(8, 1);
        plan.set_targets(vec![target(1, SECOND)], start);
        check(&mut plan, true, start + SECOND);
        for n in 1..10 {
            let now = start + n * 10 * SECOND;
            let launch = plan.launch(now).unwrap();
            assert!(plan.finish(launch.id, Finding::Skipped, now).is_none());
        }
        let status = &plan.statuses()[0];
        assert_eq!((status.state.up(), status.state.against()), (Some(true), 0));
        assert_eq!((status.checks, status.skipped), (1, 9));
        assert!(plan.next_due().is_some());
    }

    #[test]
    fn a_new_listener_hears_how_things_stand() {
        let start = Instant::now();
        let mut plan = Plan::new(8, 1);
        let old = target(1, SECOND);
        plan.set_targets(vec![old.clone()], start);
        check(&mut plan, false, start + SECOND);
        assert!(plan.set_targets(vec![old], start + SECOND).is_empty());
        assert!(plan.untold().is_empty());
        let retired = plan.set_targets(vec![target(1, SECOND)], start + SECOND);
        assert_eq!(retired.len(), 1);
        let told = plan.untold();
        assert_eq!(told.len(), 1);
        assert!(!told[0].verdict.up && !told[0].verdict.changed);
        assert!(plan.untold().is_empty());
    }

    #[test]
    fn asked_for_while_it_runs_a_check_is_made_once_more() {
        let start = Instant::now();
        let mut plan = Plan::new(8, 1);
        let one = target(1, 100 * SECOND);
        plan.set_targets(vec![one.clone()], start);
        let launch = plan.launch(start + SECOND).unwrap();
        assert!(plan.check_now(&one.key, start + SECOND));
        plan.finish(launch.id, found(true), start + 2 * SECOND);
        check(&mut plan, true, start + 2 * SECOND);
        assert!(plan.launch(start + 3 * SECOND).is_none());
        assert!(plan.check_now(&one.key, start + 3 * SECOND));
        check(&mut plan, true, start + 3 * SECOND);
        assert!(!plan.check_now(&target(9, SECOND).key, start));
    }

    #[test]
    fn what_was_known_before_a_restart_holds() {
        let start = Instant::now();
        let mut plan = Plan::new(8, 1);
        let mut carried = target(1, SECOND);
        carried.start = Some(State::known(true, start));
        plan.set_targets(vec![carried], start);
        let report = check(&mut plan, false, start + SECOND);
        assert!(report.verdict.up && report.change.is_none());
    }
}
