//! The pool: what all workers share. It owns the members' configuration and publishes views of it; how a view chooses is
//! left to `view`, how those who wait stand in line to `queue`.

use crate::member::{Health, Member, MemberId};
use crate::queue::{Queue, QueueFull, Ticket};
use crate::retry::RetryWindow;
use crate::settings::{Admin, Algorithm, MemberSettings, PoolSettings};
use crate::slot::Slot;
use crate::view::View;
use crate::{Millis, lock};
use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;
use std::fmt;
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::task::Waker;

/// What a request wants of a member.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// The key's hash, for [`crate::Algorithm::Hash`]; see [`crate::hash_bytes`].
    pub hash: Option<u64>,
    /// 64 random bits, for [`crate::Algorithm::PowerOfTwo`].
    pub random: u64,
    /// Members that must not be chosen: those already tried.
    pub exclude: &'a [MemberId],
    /// Only this member will do: persistence. It may be drained, a backup or of weight 0, but not disabled, down or
    /// ejected.
    pub only: Option<MemberId>,
    /// How it is chosen this time, instead of by the pool's own algorithm. A consistent hash needs the pool's to be one.
    pub algorithm: Option<Algorithm>,
}

impl Ask<'_> {
    pub(crate) fn excludes(&self, id: MemberId) -> bool {
        self.exclude.contains(&id)
    }
}

/// The answer to an [`Ask`].
#[derive(Debug)]
#[must_use]
pub enum Pick {
    /// A member, and a unit of its concurrency.
    Slot(Slot),
    /// Members could take it but for their limits, or others wait already: take a place in the queue. For a certain
    /// member ([`Ask::only`]) there is no queue of its own; a place in the pool's may end at another member.
    Full,
    /// No member can take it. If some were excluded, it may help to ask without.
    Down,
}

/// The members of one service and the rules by which requests are spread over them.
pub struct Pool {
    me: Weak<Pool>,
    view: ArcSwap<View>,
    /// The position of all rotations.
    turn: CachePadded<AtomicU64>,
    queue: Queue,
    retries: Mutex<RetryWindow>,
    config: Mutex<Config>,
}

/// What views are made of. `members[i]` was configured by `settings.members[i]`.
struct Config {
    settings: PoolSettings,
    members: Vec<Arc<Member>>,
    next_id: u32,
}

impl Pool {
    /// A pool whose members are all up.
    pub fn new(settings: PoolSettings, now: Millis) -> Arc<Self> {
        let empty = PoolSettings::default();
        let pool = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            view: ArcSwap::from_pointee(View::new(&empty, &[], now)),
            turn: CachePadded::default(),
            queue: Queue::new(Arc::default()),
            retries: Mutex::new(RetryWindow::new(now)),
            config: Mutex::new(Config {
                settings: empty,
                members: Vec::new(),
                next_id: 0,
            }),
        });
        pool.change(now, |config| {
            pool.install(config, settings, now);
            // At the start all are equally cold.
            config
                .members
                .iter()
                .for_each(|member| member.end_slow_start());
        });
        pool
    }

    /// Gives the pool other settings. It stays the same pool: members of the same name and address stay themselves, with
    /// their requests, health and counters; those who wait go on waiting. What was set at run time ([`Pool::set_admin`],
    /// [`Pool::set_weight`]) stays unless the setting itself is another than in the last settings.
    pub fn reconfigure(&self, settings: PoolSettings, now: Millis) {
        self.change(now, |config| self.install(config, settings, now));
    }

    /// Chooses a member by the pool's algorithm and takes a unit of it.
    pub fn pick(&self, ask: &Ask<'_>, now: Millis) -> Pick {
        let mut view = self.view.load();
        if now >= view.rebuild_at {
            drop(view);
            self.refresh(now);
            view = self.view.load();
        }
        let somebody_waits = self.queue.waiting() > 0;
        if let Some(id) = ask.only {
            return if ask.excludes(id) {
                Pick::Down
            } else {
                view.take(id, somebody_waits)
            };
        }
        if somebody_waits {
            // What is free or becomes so is theirs.
            return if view.exhausted(ask.exclude) {
                Pick::Down
            } else {
                Pick::Full
            };
        }
        view.choose(ask, &self.turn)
    }

    /// Takes a place in the queue. Poll the ticket at once: it may be granted already. When it is granted later, `waker`
    /// is woken, once; nobody wakes it for the deadline.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] if as many wait as the settings allow.
    pub fn enqueue(&self, waker: Waker, now: Millis) -> Result<Ticket, QueueFull> {
        let (capacity, timeout) = {
            let view = self.view.load();
            (view.queue, view.queue_timeout)
        };
        let pool = self.me.upgrade().ok_or(QueueFull)?;
        let waiter = self.queue.join(waker, capacity)?;
        // From here on a panic or return would leave the queue by the ticket's drop.
        let ticket = Ticket::new(pool, waiter, now.saturating_add(timeout));
        self.refresh(now);
        self.serve_queue();
        Ok(ticket)
    }

    /// Whether the budget allows another retry; if so, counts it.
    pub fn retry_allowed(&self, now: Millis) -> bool {
        let view = self.view.load();
        let Some(budget) = view.retry_budget else {
            return true;
        };
        let mut window = lock(&self.retries);
        window.sample(total_requests(&view.all), now);
        window.allow(budget)
    }

    /// Lets time pass: ends ejections, goes on with slow start, serves the queue. [`Pool::pick`] does it by itself, but
    /// somebody may wait while nobody picks; call it every second or so.
    pub fn tick(&self, now: Millis) {
        self.refresh(now);
        lock(&self.retries).sample(total_requests(&self.view.load().all), now);
    }

    /// All members, in configuration order.
    pub fn members(&self) -> Vec<Arc<Member>> {
        self.view.load().all.clone()
    }

    /// The member of that identity, if it is still in the pool.
    pub fn member(&self, id: MemberId) -> Option<Arc<Member>> {
        self.view.load().member(id).cloned()
    }

    /// How many members take new requests now.
    pub fn usable(&self) -> usize {
        self.view.load().usable_members().count()
    }

    /// How many requests wait in the queue.
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Sets what the operator wants with a member. Enabling it also ends an ejection. False if there is no such member.
    pub fn set_admin(&self, id: MemberId, admin: Admin, now: Millis) -> bool {
        self.change_member(id, now, |member| member.set_admin(admin, now))
    }

    /// Sets a member's weight. False if there is no such member.
    pub fn set_weight(&self, id: MemberId, weight: u16, now: Millis) -> bool {
        self.change_member(id, now, |member| member.set_weight(weight))
    }

    /// Tells the monitors' verdict on a member. Coming up also ends an ejection. False if there is no such member.
    pub fn set_health(&self, id: MemberId, health: Health, now: Millis) -> bool {
        let unchanged = self
            .view
            .load()
            .member(id)
            .is_some_and(|member| member.health() == health);
        unchanged || self.change_member(id, now, |member| member.set_health(health, now))
    }

    /// Tells what a name resolves to now: as many members of that name, each with its settings. Those whose address is
    /// still among them stay themselves. Nothing resolved changes nothing. Returns whether anything changed.
    pub fn set_addresses(&self, name: &str, addresses: &[SocketAddr], now: Millis) -> bool {
        let mut wanted = addresses.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let mut changed = false;
        self.change(now, |config| {
            let of_name = |member: &&MemberSettings| *member.name == *name;
            let Some(template) = config.settings.members.iter().find(of_name).cloned() else {
                return;
            };
            let mut present: Vec<_> = config
                .settings
                .members
                .iter()
                .filter(of_name)
                .map(|m| m.address)
                .collect();
            present.sort_unstable();
            changed = !wanted.is_empty() && wanted != present;
            if changed {
                let mut settings = config.settings.clone();
                settings.members = replace_addresses(&config.settings.members, &template, &wanted);
                self.install(config, settings, now);
            }
        });
        changed
    }

    /// Panics if the pool contradicts itself. For tests: true only while no other thread uses the pool.
    pub fn check_invariants(&self) {
        let config = lock(&self.config);
        let view = self.view.load();
        view.check_invariants();
        self.queue.check_invariants();
        let (candidates, ejected) = config.ejected();
        assert!(
            ejected <= config.may_be_ejected(candidates),
            "{ejected} of {candidates} are ejected"
        );
        assert_eq!(config.members.len(), config.settings.members.len());
        if self.queue.waiting() > 0 {
            let free = view.usable_members().find(|member| member.room().is_some());
            assert!(free.is_none(), "somebody waits while {free:?} is free");
        }
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Gives what is free to those who wait.
    pub(crate) fn serve_queue(&self) {
        self.queue.serve(|| {
            let random = crate::hash::mix(self.turn.load(Relaxed));
            match self.view.load().choose(
                &Ask {
                    random,
                    ..Ask::default()
                },
                &self.turn,
            ) {
                Pick::Slot(slot) => Some(slot),
                Pick::Full | Pick::Down => None,
            }
        });
    }

    /// Passes a unit of `member` that its holder gives up to whoever waits longest.
    pub(crate) fn hand_over(&self, member: &Arc<Member>) {
        if !self.queue.hand_over(member) {
            self.serve_queue();
        }
    }

    /// Takes `member` out because of failures, unless too many are out. Returns whether it did.
    pub(crate) fn eject(&self, member: &Member, now: Millis) -> bool {
        let mut ejected = false;
        self.change(now, |config| {
            config.end_ejections(now);
            let Some(settings) = config.settings.ejection else {
                return;
            };
            let (candidates, already) = config.ejected();
            let is_of_pool = config.members.iter().any(|other| other.id() == member.id());
            ejected = is_of_pool
                && member.is_candidate()
                && !member.is_ejected()
                && already < config.may_be_ejected(candidates);
            if ejected {
                member.begin_ejection(settings.time, now);
            } else {
                // Another run of failures before it is tried again: each trial costs the lock.
                member.forgive();
            }
        });
        ejected
    }

    /// Renews the view if time alone has changed it. If another thread is at it, the old one will do a moment longer.
    pub(crate) fn refresh(&self, now: Millis) {
        if now < self.view.load().rebuild_at {
            return;
        }
        let mut config = match self.config.try_lock() {
            Ok(config) => config,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if now < self.view.load().rebuild_at {
            return;
        }
        self.publish(&mut config, now);
        drop(config);
        self.serve_queue();
    }

    fn change_member(&self, id: MemberId, now: Millis, change: impl FnOnce(&Member)) -> bool {
        let mut found = false;
        self.change(now, |config| {
            if let Some(member) = config.members.iter().find(|member| member.id() == id) {
                found = true;
                change(member);
            }
        });
        found
    }

    /// Makes a change and everybody see it.
    fn change(&self, now: Millis, change: impl FnOnce(&mut Config)) {
        let mut config = lock(&self.config);
        change(&mut config);
        self.publish(&mut config, now);
        drop(config);
        self.serve_queue();
    }

    fn publish(&self, config: &mut Config, now: Millis) {
        config.end_ejections(now);
        let view = View::new(&config.settings, &config.members, now);
        let mut usable = view.usable_members().peekable();
        for member in &config.members {
            member.set_usable(usable.next_if(|next| Arc::ptr_eq(next, member)).is_some());
        }
        drop(usable);
        self.view.store(Arc::new(view));
    }

    fn install(&self, config: &mut Config, settings: PoolSettings, now: Millis) {
        let mut window = lock(&self.retries);
        window.sample(total_requests(&config.members), now);
        let before = mem::take(&mut config.settings.members);
        let mut old: Vec<_> = mem::take(&mut config.members)
            .into_iter()
            .zip(before)
            .map(Some)
            .collect();
        for wanted in &settings.members {
            let same = |was: &&mut Option<(Arc<Member>, MemberSettings)>| {
                was.as_ref().is_some_and(|(_, was)| {
                    was.address == wanted.address && was.name == wanted.name
                })
            };
            let member = match old.iter_mut().find(same).and_then(Option::take) {
                Some((member, was)) => {
                    update(&member, &was, wanted, now);
                    member
                }
                None => self.admit(config, wanted, now),
            };
            member.set_backup(wanted.backup);
            member.set_limit(wanted.limit);
            member.set_slow_start(settings.slow_start);
            let (failures, within) = settings.ejection.map_or((0, 0), |ejection| {
                (ejection.failures.max(1), ejection.within)
            });
            member.set_eject_after(failures, within);
            config.members.push(member);
        }
        for (gone, _) in old.into_iter().flatten() {
            gone.set_usable(false);
        }
        window.rebase(total_requests(&config.members));
        config.settings = settings;
    }

    fn admit(&self, config: &mut Config, settings: &MemberSettings, now: Millis) -> Arc<Member> {
        let id = MemberId(config.next_id);
        config.next_id += 1;
        let member = Member::new(
            id,
            settings,
            self.queue.shared_waiting().clone(),
            self.me.clone(),
        );
        member.start_slowly(now);
        Arc::new(member)
    }
}

impl Config {
    /// How many members are enabled and up, and how many of those are ejected.
    fn ejected(&self) -> (usize, usize) {
        let candidates = || self.members.iter().filter(|member| member.is_candidate());
        (
            candidates().count(),
            candidates().filter(|member| member.is_ejected()).count(),
        )
    }

    fn may_be_ejected(&self, candidates: usize) -> usize {
        let percent = self
            .settings
            .ejection
            .map_or(0, |ejection| ejection.max_percent.min(100));
        candidates * usize::from(percent) / 100
    }

    /// Puts back whose time has come, and some before their time if too many are out since others went down.
    fn end_ejections(&mut self, now: Millis) {
        for member in &self.members {
            if member.is_ejected() && member.ejection_end() <= now {
                member.end_ejection(now);
            }
        }
        loop {
            let (candidates, ejected) = self.ejected();
            if ejected <= self.may_be_ejected(candidates) {
                break;
            }
            let out = self
                .members
                .iter()
                .filter(|member| member.is_candidate() && member.is_ejected());
            if let Some(next) = out.min_by_key(|member| member.ejection_end()) {
                next.end_ejection(now);
            }
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("members", &self.view.load().all)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// Carries what configuration changed over to a member that stays, and nothing else.
fn update(member: &Member, was: &MemberSettings, wanted: &MemberSettings, now: Millis) {
    if was.admin != wanted.admin {
        member.set_admin(wanted.admin, now);
    }
    if was.weight != wanted.weight {
        member.set_weight(wanted.weight);
    }
    if was.monitored && !wanted.monitored {
        member.set_health(Health::Up, now);
    }
}

/// `members` with those named like `template` replaced, at the place of the first of them.
fn replace_addresses(
    members: &[MemberSettings],
    template: &MemberSettings,
    addresses: &[SocketAddr],
) -> Vec<MemberSettings> {
    let at = members
        .iter()
        .position(|member| member.name == template.name)
        .unwrap_or(members.len());
    let mut replaced: Vec<_> = members
        .iter()
        .filter(|member| member.name != template.name)
        .cloned()
        .collect();
    let fresh = addresses.iter().map(|&address| MemberSettings {
        address,
        ..template.clone()
    });
    replaced.splice(at..at, fresh);
    replaced
}

fn total_requests(members: &[Arc<Member>]) -> u64 {
    members.iter().map(|member| member.requests()).sum()
}
