//! Tasks and the queue of those that are ready to run.

use crate::slab::{Key, Slab};
use std::collections::VecDeque;
use std::pin::Pin;

pub(crate) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// Taken out while it is polled.
    future: Option<LocalFuture>,
    queued: bool,
}

pub(crate) struct Tasks {
    slab: Slab<Task>,
    ready: VecDeque<Key>,
}

impl Tasks {
    pub(crate) const fn new() -> Self {
        Tasks {
            slab: Slab::new(),
            ready: VecDeque::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn spawn(&mut self, future: LocalFuture) {
        let key = self.slab.insert_with(|_| Task {
            future: Some(future),
            queued: true,
        });
        self.ready.push_back(key);
    }

    pub(crate) fn schedule(&mut self, key: Key) {
        if let Some(task) = self.slab.get_mut(key)
            && !task.queued
        {
            task.queued = true;
            self.ready.push_back(key);
        }
    }

    pub(crate) fn schedule_all(&mut self) {
        let keys: Vec<_> = self.slab.keys().collect();
        for key in keys {
            self.schedule(key);
        }
    }

    /// The next task to poll, with its future taken out.
    pub(crate) fn next(&mut self) -> Option<(Key, LocalFuture)> {
        while let Some(key) = self.ready.pop_front() {
            if let Some(task) = self.slab.get_mut(key) {
                task.queued = false;
                if let Some(future) = task.future.take() {
                    return Some((key, future));
                }
            }
        }
        None
    }

    /// Puts back a future that is not done.
    pub(crate) fn park(&mut self, key: Key, future: LocalFuture) {
        if let Some(task) = self.slab.get_mut(key) {
            task.future = Some(future);
        }
    }

    pub(crate) fn finish(&mut self, key: Key) {
        self.slab.remove(key);
    }
}
