//! The XDP data path: programs in C under `bpf/`, and what loads, fills and reads them.

pub mod abi;
pub mod capacity;
pub mod check;
pub mod clock;
pub mod constants;
pub mod flows;
mod hash;
mod instance;
pub mod names;
pub mod pins;
mod settings;
pub mod shun;
pub mod stats;
pub mod tables;

pub use capacity::Capacities;
pub use clock::Clock;
pub use instance::Instance;
pub use pins::{Pins, Set};
pub use settings::Timeouts;
pub use tables::Tables;
