//! A flag that ends a running origin or load from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A shared wish to stop; looked at a few times a second.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ask whoever holds a clone to stop.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether somebody asked.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
