//! The XDP data path: programs in C under `bpf/`, and what loads, fills and reads them.

pub mod abi;
mod attached;
pub mod capacity;
pub mod check;
pub mod clock;
pub mod decap;
mod engine;
mod error;
pub mod flows;
mod hash;
mod instance;
mod interfaces;
pub mod members;
pub mod names;
pub mod nat;
pub mod pins;
mod plan;
pub mod see;
mod settings;
pub mod shun;
pub mod stats;
pub mod tables;
mod takeover;
mod virtuals;

pub use capacity::Capacities;
pub use clock::Clock;
pub use engine::{FastPath, detach};
pub use error::StartError;
pub use instance::Instance;
pub use pins::{Pins, Set};
pub use plan::fits;
pub use see::Sight;
pub use settings::Timeouts;
pub use tables::Tables;
pub use virtuals::{Verdicts, VirtualsError};
