//! Why there is no fast path, or not the one that was asked for.

use std::io;

use thiserror::Error;
use xdp::attach::{AttachError, LinkError};
use xdp::object::LoadError;
use xdp::pin::PinError;
use xdp::require::Missing;

use crate::clock::ClockError;
use crate::nat::NatError;
use crate::virtuals::VirtualsError;

/// Why the fast path of a configuration is not in force.
#[derive(Debug, Error)]
pub enum StartError {
    /// The machine or the process lacks something.
    #[error("fast_path: {0}")]
    Missing(#[from] Missing),
    /// An interface is not there.
    #[error("fast_path: interface {name}: {source}; `ip link` lists those there are")]
    Interface {
        /// Its name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// Source NAT cannot be as it is configured.
    #[error("fast_path: {0}")]
    Nat(#[from] NatError),
    /// Virtuals cannot be as they are configured.
    #[error("fast_path: {0}")]
    Virtuals(#[from] VirtualsError),
    /// Nothing can be pinned.
    #[error("fast_path: {0}")]
    Pin(#[from] PinError),
    /// The clock cannot be read.
    #[error("fast_path: {0}")]
    Clock(#[from] ClockError),
    /// The programs were not loaded.
    #[error("fast_path: {0}")]
    Load(#[from] LoadError),
    /// The programs were not attached.
    #[error("fast_path: {0}")]
    Attach(#[from] AttachError),
    /// What is attached could not be changed.
    #[error("fast_path: {0}")]
    Link(#[from] LinkError),
    /// A table could not be read or written.
    #[error("fast_path: {0}")]
    Table(io::Error),
    /// A reload cannot move it.
    #[error(
        "fast_path: `pin` cannot change while it runs; detach it with `headgate fastpath detach` and restart"
    )]
    Moved,
    /// A reload cannot remove it.
    #[error(
        "fast_path: it cannot be left out while it runs; stop Headgate and detach it with `headgate fastpath detach`"
    )]
    Gone,
}
