//! A connection's rules: an event run from its beginning to its end, with whatever it waits for on the way, and scripts
//! that run between events.
//!
//! One event of a connection runs at a time; those that come meanwhile wait for their turn.

use super::host::WorkerHost;
use super::machine::{self, report};
use super::{dns, sideband};
use crate::snapshot::Virtual;
use crate::worker::Worker;
use reactor::{Control, Tcp};
use rules::event::{Event, Side};
use rules::flow::{Ended, Ends, Flow, Steering, Target};
use rules::host::Wait;
use rules::value::Value;
use rules::{Connection, Program, Step};
use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A connection, as its rules have it.
pub(crate) struct Ruled {
    me: Weak<Ruled>,
    program: Rc<Program>,
    connection: RefCell<Connection>,
    /// Whether an event is under way.
    busy: Cell<bool>,
    turns: RefCell<Vec<Waker>>,
    /// When a task will run scripts that were set for later.
    due: Cell<Option<Duration>>,
    /// Whether no rule runs any more.
    over: Cell<bool>,
    /// Whether `CLIENT_ACCEPTED` was raised.
    accepted: Cell<bool>,
    /// What was decided before the first request: it holds for each.
    lasting: RefCell<Option<Box<Steering>>>,
    /// Whether a request has come.
    begun: Cell<bool>,
    /// Those of virtuals that these have handed the connection to.
    inner: RefCell<Vec<Rc<Ruled>>>,
    /// What a script that ran between events has decided.
    stop: Cell<Option<Stop>>,
    watcher: RefCell<Option<Waker>>,
    /// The client's socket.
    client: Control,
    /// The member's, once there is one.
    member: RefCell<Control>,
    /// Whether the rules ask for what the kernel counts.
    figures: bool,
    /// After how long without a byte the configuration has the connection closed.
    idle: Duration,
}

/// Why a connection does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A rule has failed: it is reset.
    Failed,
    /// A rule has ended it.
    Ended(Ended),
    /// The client has gone while a rule waited.
    Gone,
}

impl Stop {
    /// Has the close that follows tell the client as much as it is to be told: a reset, an orderly end, or nothing.
    pub(crate) fn mark(self, client: &Tcp) {
        // Of a connection that is broken already neither is left. Where the process may not be silent, it ends in order.
        let _ = match self {
            Stop::Failed | Stop::Ended(Ended::Reject) => client.reset_on_close(),
            Stop::Ended(Ended::Drop) => client.vanish_on_close(),
            Stop::Ended(Ended::Close) | Stop::Gone => Ok(()),
        };
    }

    /// Whether the client is to be told by a reset.
    pub(crate) fn resets(self) -> bool {
        matches!(self, Stop::Failed | Stop::Ended(Ended::Reject))
    }

    /// For the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Stop::Failed => "rule-error",
            Stop::Ended(Ended::Reject) => "rule-reject",
            Stop::Ended(Ended::Drop) => "rule-drop",
            Stop::Ended(Ended::Close) => "rule-close",
            Stop::Gone => "client-gone",
        }
    }
}

impl Ruled {
    /// The rules of a virtual for a new connection; none if it has none.
    pub(crate) fn new(
        worker: &Worker,
        service: &Virtual,
        peer: SocketAddr,
        local: SocketAddr,
        client: Control,
    ) -> Option<Rc<Self>> {
        service.rules.as_ref()?;
        let loaded = worker.rules.loaded(&service.name)?;
        let ends = Ends {
            remote: peer,
            local,
        };
        let mut flow = Flow::new(loaded.name, ends);
        flow.default_pool = loaded.pool;
        flow.began = machine::now();
        let timeouts = &service.config.timeouts;
        let idle = match service.config.protocol {
            model::Protocol::Http => timeouts.idle,
            _ => timeouts.tunnel,
        };
        if service.config.protocol == model::Protocol::Http {
            flow.http = Some(Box::default());
        }
        flow.idle_timeout = Some(idle);
        Some(Rc::new_cyclic(|me| Ruled {
            me: Weak::clone(me),
            connection: RefCell::new(Connection::new(&loaded.program, flow)),
            program: loaded.program,
            busy: Cell::new(false),
            turns: RefCell::default(),
            due: Cell::new(None),
            over: Cell::new(false),
            accepted: Cell::new(false),
            lasting: RefCell::default(),
            begun: Cell::new(false),
            inner: RefCell::default(),
            stop: Cell::new(None),
            watcher: RefCell::default(),
            client,
            member: RefCell::default(),
            figures: loaded.set.figures,
            idle,
        }))
    }

    /// The socket to the member, from now on.
    pub(crate) fn reached(&self, member: Control) {
        self.member.replace(member);
    }

    /// After how long without a byte the connection is to be closed, where a rule has said so.
    pub(crate) fn idle(&self) -> Option<Duration> {
        let set = self.connection.borrow().flow.idle_timeout;
        set.filter(|set| *set != self.idle)
    }

    /// Whether any rule is to see the event.
    pub(crate) fn wants(&self, event: Event) -> bool {
        self.program.wants(event)
    }

    /// What the rules see and have decided. Not to be held over a wait.
    pub(crate) fn flow(&self) -> RefMut<'_, Flow> {
        RefMut::map(self.connection.borrow_mut(), |c| &mut c.flow)
    }

    /// What was decided of where things go before the first request: asked at each.
    pub(crate) fn lasting(&self) -> Steering {
        if !self.begun.replace(true) {
            let steering = self.flow().steering.clone();
            let said = steering != Steering::default();
            self.lasting.replace(said.then(|| Box::new(steering)));
        }
        self.lasting
            .borrow()
            .as_deref()
            .cloned()
            .unwrap_or_default()
    }

    /// Whether these hand the request or connection to another virtual.
    pub(crate) fn hands_over(&self) -> bool {
        let connection = self.connection.borrow();
        matches!(connection.flow.steering.target, Target::Virtual(_))
    }

    /// The rules of a virtual that these hand the connection to; none if it has none.
    pub(crate) async fn handed_to(
        &self,
        worker: &Worker,
        service: &Virtual,
        gone: &dyn Fn() -> bool,
    ) -> Result<Option<Rc<Ruled>>, Stop> {
        let is = |inner: &&Rc<Ruled>| *inner.flow().virtual_name == *service.name.as_str();
        let known = self.inner.borrow().iter().find(is).cloned();
        let inner = match known {
            Some(inner) => inner,
            None => {
                let ends = self.flow().client;
                let client = self.client.clone();
                let made = Ruled::new(worker, service, ends.remote, ends.local, client);
                let Some(inner) = made else { return Ok(None) };
                {
                    let (own, mut flow) = (self.flow(), inner.flow());
                    flow.client_tls = own.client_tls.clone();
                    flow.client_hello = own.client_hello.clone();
                    flow.identity = own.identity.clone();
                }
                self.inner.borrow_mut().push(Rc::clone(&inner));
                inner
            }
        };
        self.share_with(&inner);
        inner.accept(worker, gone).await?;
        Ok(Some(inner))
    }

    /// Gives others the variables that these share with them.
    pub(crate) fn share_with(&self, other: &Ruled) {
        let own = self.connection.borrow();
        own.share_with(&mut other.connection.borrow_mut());
    }

    /// Runs what the rules have for an event, to its end. While it waits, `gone` is asked whether there
    /// is still a client.
    pub(crate) async fn raise(
        &self,
        worker: &Worker,
        event: Event,
        gone: &dyn Fn() -> bool,
    ) -> Result<(), Stop> {
        if !self.wants(event) || self.over.get() {
            return self.verdict();
        }
        if self.busy.get() {
            Box::pin(self.turn(gone)).await?;
        }
        let step = self.step(worker, |engine, connection, host| {
            engine.start(connection, event, host)
        });
        self.finish(worker, step, gone).await
    }

    /// Runs `CLIENT_ACCEPTED`, unless it ran.
    pub(crate) async fn accept(
        &self,
        worker: &Worker,
        gone: &dyn Fn() -> bool,
    ) -> Result<(), Stop> {
        if self.accepted.replace(true) {
            return Ok(());
        }
        self.raise(worker, Event::ClientAccepted, gone).await
    }

    /// Runs `CLIENT_CLOSED`, after which nothing runs any more.
    pub(crate) async fn close(&self, worker: &Worker) {
        let inner = self.inner.take();
        for inner in inner {
            Box::pin(inner.close(worker)).await;
        }
        // What is parked is given up.
        if !self.busy.get() && self.accepted.get() {
            self.flow().ended = None;
            // It is over whatever the rules say.
            let _ = self.raise(worker, Event::ClientClosed, &|| false).await;
        }
        self.over.set(true);
    }

    /// Ready with what a script that ran between events has decided, if that ends the connection.
    pub(crate) fn poll_stop(&self, waker: &Waker) -> Poll<Stop> {
        if let Some(stop) = self.stop.get() {
            return Poll::Ready(stop);
        }
        self.watcher.replace(Some(waker.clone()));
        Poll::Pending
    }

    /// Goes on with an event until it is over.
    async fn finish(
        &self,
        worker: &Worker,
        step: Step,
        gone: &dyn Fn() -> bool,
    ) -> Result<(), Stop> {
        match step {
            Step::Done => {}
            Step::Failed(failure) => {
                report(worker, &failure);
                return Err(Stop::Failed);
            }
            Step::Wait(wait) => Box::pin(self.park(worker, wait, gone)).await?,
        }
        self.schedule(worker);
        self.verdict()
    }

    fn verdict(&self) -> Result<(), Stop> {
        if let Some(stop) = self.stop.get() {
            return Err(stop);
        }
        match self.connection.borrow().flow.ended {
            None => Ok(()),
            Some(ended) => Err(Stop::Ended(ended)),
        }
    }

    fn step(
        &self,
        worker: &Worker,
        run: impl FnOnce(&mut rules::Engine, &mut Connection, &mut WorkerHost<'_>) -> Step,
    ) -> Step {
        let mut host = WorkerHost::new(worker);
        let mut connection = self.connection.borrow_mut();
        if self.figures
            && let Some(figures) = self.client.figures()
        {
            let flow = &mut connection.flow;
            flow.round_trip = Some(figures.round_trip);
            flow.bytes = (figures.received, figures.sent);
        }
        let step = worker
            .rules
            .with(|engine| run(engine, &mut connection, &mut host));
        for (side, delays) in connection.flow.nagle.drain(..) {
            match side {
                Side::Client => self.client.delay(delays),
                Side::Server => self.member.borrow().delay(delays),
            }
        }
        step
    }

    /// Does what a rule waits for, as often as it does.
    async fn park(
        &self,
        worker: &Worker,
        mut wait: Wait,
        gone: &dyn Fn() -> bool,
    ) -> Result<(), Stop> {
        self.busy.set(true);
        let _parked = Parked::new(self, worker);
        loop {
            let answered = {
                let mut answer = std::pin::pin!(answer(worker, &wait));
                poll_fn(|cx| {
                    if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                        return Poll::Ready(Some(answer));
                    }
                    if gone() {
                        return Poll::Ready(None);
                    }
                    Poll::Pending
                })
                .await
            };
            // One that was closed meanwhile runs no more.
            let Some(answer) = answered.filter(|_| !self.over.get()) else {
                self.over.set(true);
                return Err(Stop::Gone);
            };
            let step = self.step(worker, |engine, connection, host| {
                engine.resume(connection, answer, host)
            });
            match step {
                Step::Done => return Ok(()),
                Step::Wait(next) => wait = next,
                Step::Failed(failure) => {
                    report(worker, &failure);
                    return Err(Stop::Failed);
                }
            }
        }
    }

    /// Waits until no other event is under way.
    async fn turn(&self, gone: &dyn Fn() -> bool) -> Result<(), Stop> {
        poll_fn(|cx| {
            if !self.busy.get() {
                return Poll::Ready(Ok(()));
            }
            if gone() {
                return Poll::Ready(Err(Stop::Gone));
            }
            self.turns.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await?;
        self.verdict()
    }

    /// Has a task run the scripts that were set for later.
    fn schedule(&self, worker: &Worker) {
        let next = self.connection.borrow().session.next_due();
        let Some(next) = next else { return };
        if self.due.get().is_some_and(|due| due <= next) {
            return;
        }
        self.due.set(Some(next));
        if let Some(worker) = worker.me.upgrade() {
            reactor::spawn(later(worker, Weak::clone(&self.me), next));
        }
    }
}

/// Counts a connection that waits within a rule, and lets the next event in when it does no more.
struct Parked<'a> {
    ruled: &'a Ruled,
    worker: &'a Worker,
}

impl<'a> Parked<'a> {
    fn new(ruled: &'a Ruled, worker: &'a Worker) -> Self {
        worker.shared.rules.parked.fetch_add(1, Relaxed);
        Parked { ruled, worker }
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.worker.shared.rules.parked.fetch_sub(1, Relaxed);
        self.ruled.busy.set(false);
        for waker in self.ruled.turns.take() {
            waker.wake();
        }
    }
}

/// Runs the scripts that are due, between events.
async fn later(worker: Rc<Worker>, ruled: Weak<Ruled>, due: Duration) {
    machine::sleep_until(due).await;
    let Some(ruled) = ruled.upgrade() else { return };
    // One that is due earlier was set meanwhile, and sees to the rest.
    if ruled.due.get() != Some(due) || ruled.over.get() {
        return;
    }
    ruled.due.set(None);
    let gone = || ruled.over.get();
    if ruled.busy.get() && ruled.turn(&gone).await.is_err() {
        return;
    }
    let step = ruled.step(&worker, |engine, connection, host| {
        engine.run_later(connection, host)
    });
    if let Err(stop) = ruled.finish(&worker, step, &gone).await {
        ruled.stop.set(Some(stop));
        if let Some(waker) = ruled.watcher.take() {
            waker.wake();
        }
    }
}

/// Does what a rule waits for.
async fn answer(worker: &Worker, wait: &Wait) -> Result<Value, String> {
    match wait {
        Wait::Sleep(time) => {
            reactor::sleep((*time).max(Duration::from_millis(1))).await;
            Ok(Value::Empty)
        }
        Wait::Resolve {
            name,
            record,
            server,
        } => {
            let id = worker.rules.random() as u16;
            dns::resolve(name, record, *server, id).await
        }
        Wait::Connect {
            udp,
            to,
            timeout,
            idle,
        } => sideband::connect(worker, *udp, to, *timeout, *idle).await,
        Wait::Send {
            handle,
            data,
            timeout,
        } => sideband::send(worker, *handle, data, *timeout).await,
        Wait::Receive { .. } => sideband::receive(worker, wait).await,
    }
}
