//! The XDP data path: programs in C under `bpf/`, and what loads, fills and reads them.

pub mod abi;
mod attached;
pub mod capacity;
pub mod check;
pub mod clock;
pub mod decap;
mod engine;
pub mod flows;
mod hash;
mod instance;
mod interfaces;
pub mod members;
pub mod names;
pub mod nat;
pub mod pins;
pub mod see;
mod settings;
pub mod shun;
pub mod stats;
pub mod tables;
mod takeover;
mod virtuals;

pub use capacity::Capacities;
pub use clock::Clock;
pub use engine::{FastPath, StartError, detach, fits};
pub use instance::Instance;
pub use pins::{Pins, Set};
pub use see::Sight;
pub use settings::Timeouts;
pub use tables::Tables;
pub use virtuals::{Verdicts, VirtualsError};
