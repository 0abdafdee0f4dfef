//! The loop itself: run what is ready, wait for readiness or a timer, hand both to their tasks.

use crate::slab::{Key, Slab};
use crate::source::Source;
use crate::sys::{Epoll, Event};
use crate::task::Tasks;
use crate::timer::Wheel;
use crate::waker::{self, Remote};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

thread_local! {
    pub(crate) static CORE: Core = Core::new();
}

/// Readiness events taken in one wait.
const BATCH: usize = 256;

/// The epoll token of the eventfd by which other threads end the wait.
const REMOTE_TOKEN: u64 = u64::MAX - 1;

/// The key under which the future given to `block_on` is woken.
const MAIN: u64 = (1 << 48) - 2;

pub(crate) struct Core {
    pub(crate) thread: u16,
    pub(crate) epoll: Epoll,
    pub(crate) sources: RefCell<Slab<Rc<Source>>>,
    tasks: RefCell<Tasks>,
    pub(crate) timers: RefCell<Wheel>,
    /// The task being polled.
    pub(crate) current: Cell<Key>,
    main_woken: Cell<bool>,
    started: Instant,
    now: Cell<Instant>,
    millis: Cell<u64>,
    remote: Arc<Remote>,
    events: RefCell<Box<[Event]>>,
}

/// Runs `main` and everything it spawns on this thread, until `main` is done.
///
/// Tasks that are still there then stay parked, and go on with the next call.
pub fn block_on<F: Future>(main: F) -> F::Output {
    let mut main = pin!(main);
    CORE.with(|core| {
        let main_key = Key::from_bits(MAIN);
        let main_waker = waker::waker(core.thread, main_key);
        core.main_woken.set(true);
        core.tick();
        loop {
            if core.main_woken.replace(false) {
                core.current.set(main_key);
                if let Poll::Ready(output) =
                    main.as_mut().poll(&mut Context::from_waker(&main_waker))
                {
                    core.current.set(Key::NONE);
                    return output;
                }
            }
            core.run_ready();
            core.wait();
        }
    })
}

/// Starts a task on this thread. It is first polled in the loop's next turn.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    CORE.with(|core| core.tasks.borrow_mut().spawn(Box::pin(future)));
}

/// How many tasks this thread has.
pub fn tasks() -> usize {
    CORE.with(|core| core.tasks.borrow().len())
}

/// Polls every task of this thread once, so that each can look at a change of the whole
/// (a drain, say) without each of them being subscribed to it.
pub fn wake_all() {
    CORE.with(|core| core.tasks.borrow_mut().schedule_all());
}

/// Lets every other task that is ready have its turn, and the kernel be asked, before this one goes on.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The time at which this turn of the loop began: read from the clock once a turn.
pub fn now() -> Instant {
    CORE.with(|core| core.now.get())
}

/// Milliseconds from this thread's first use of the reactor to [`now`].
pub fn millis() -> u64 {
    CORE.with(|core| core.millis.get())
}

impl Core {
    fn new() -> Self {
        let epoll = Epoll::new().expect("a thread that runs a reactor can make an epoll instance");
        let (thread, remote) = Remote::register();
        epoll
            .add_level(remote.eventfd.as_raw_fd(), REMOTE_TOKEN)
            .expect("a new epoll instance takes an eventfd");
        let now = Instant::now();
        Core {
            thread,
            epoll,
            sources: RefCell::new(Slab::new()),
            tasks: RefCell::new(Tasks::new()),
            timers: RefCell::new(Wheel::new()),
            current: Cell::new(Key::NONE),
            main_woken: Cell::new(false),
            started: now,
            now: Cell::new(now),
            millis: Cell::new(0),
            remote,
            events: RefCell::new(vec![Event::EMPTY; BATCH].into_boxed_slice()),
        }
    }

    pub(crate) fn schedule(&self, key: Key) {
        if key.bits() == MAIN {
            self.main_woken.set(true);
        } else {
            self.tasks.borrow_mut().schedule(key);
        }
    }

    pub(crate) fn millis(&self) -> u64 {
        self.millis.get()
    }

    fn tick(&self) {
        let now = Instant::now();
        self.now.set(now);
        self.millis
            .set(now.duration_since(self.started).as_millis() as u64);
    }

    /// Polls what was ready when the turn began: what these wake runs in the next, after the
    /// kernel was asked again, so that a busy task can't starve readiness.
    fn run_ready(&self) {
        let turn = self.tasks.borrow().ready();
        for _ in 0..turn {
            let Some((key, mut future)) = self.tasks.borrow_mut().next() else {
                break;
            };
            self.current.set(key);
            let waker = waker::waker(self.thread, key);
            let polled = catch_unwind(AssertUnwindSafe(|| {
                future.as_mut().poll(&mut Context::from_waker(&waker))
            }));
            match polled {
                Ok(Poll::Pending) => self.tasks.borrow_mut().park(key, future),
                // A panic ends its own task alone; the panic hook has reported it.
                Ok(Poll::Ready(())) | Err(_) => {
                    self.tasks.borrow_mut().finish(key);
                    drop(future);
                }
            }
        }
        self.current.set(Key::NONE);
    }

    fn wait(&self) {
        let busy = self.main_woken.get() || self.tasks.borrow().ready() > 0;
        let timeout = if busy {
            Some(0)
        } else {
            self.timers.borrow().next_in(self.millis.get())
        };
        let mut events = self.events.borrow_mut();
        let ready = self.epoll.wait(&mut events[..], timeout);
        self.tick();
        for event in ready {
            let token = event.token();
            if token == REMOTE_TOKEN {
                self.take_remote();
                continue;
            }
            let source = self.sources.borrow().get(Key::from_bits(token)).cloned();
            if let Some(source) = source {
                let (reader, writer) = source.on_event(event.events());
                if reader != Key::NONE {
                    self.schedule(reader);
                }
                if writer != Key::NONE {
                    self.schedule(writer);
                }
            }
        }
        let mut fired = Vec::new();
        self.timers
            .borrow_mut()
            .advance(self.millis.get(), &mut fired);
        for key in fired {
            self.schedule(key);
        }
    }

    fn take_remote(&self) {
        let mut woken = Vec::new();
        self.remote.drain(&mut woken);
        for key in woken {
            self.schedule(key);
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        Remote::unregister(self.thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sleep, spawn};
    use std::time::Duration;

    #[test]
    fn a_task_that_panics_ends_alone() {
        let seen = Rc::new(Cell::new(0));
        let counter = Rc::clone(&seen);
        block_on(async move {
            spawn(async { panic!("on purpose") });
            spawn(async move { counter.set(counter.get() + 1) });
            sleep(Duration::from_millis(20)).await;
        });
        assert_eq!(seen.get(), 1);
        assert_eq!(tasks(), 0);
    }

    #[test]
    fn a_waker_wakes_its_task_from_another_thread() {
        let woken = block_on(async {
            let mut handed = false;
            poll_fn(move |cx| {
                if handed {
                    return Poll::Ready(true);
                }
                handed = true;
                let waker = cx.waker().clone();
                std::thread::spawn(move || waker.wake());
                Poll::Pending
            })
            .await
        });
        assert!(woken);
    }

    #[test]
    fn a_spawned_task_is_woken_from_another_thread() {
        let seen = Rc::new(Cell::new(false));
        let flag = Rc::clone(&seen);
        block_on(async move {
            spawn(async move {
                let mut handed = false;
                poll_fn(|cx| {
                    if handed {
                        return Poll::Ready(());
                    }
                    handed = true;
                    let waker = cx.waker().clone();
                    std::thread::spawn(move || waker.wake());
                    Poll::Pending
                })
                .await;
                flag.set(true);
            });
            for _ in 0..200 {
                sleep(Duration::from_millis(5)).await;
                if seen.get() {
                    return;
                }
            }
            panic!("never woken");
        });
    }
}
