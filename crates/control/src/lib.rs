//! Steering a running Headgate: the admin API with its metrics, and what stands on its other side, a client with tables for
//! people. Reading the configuration and taking it over on changes is here too.
//!
//! Traffic is `proxy`'s; signals, privileges and the life of the process belong to the binary.

pub mod client;
mod collect;
mod files;
mod human;
mod metrics;
mod process;
mod reload;
mod server;
pub mod status;
pub mod top;
pub mod view;

mod api;

pub use api::openapi;
pub use files::{Files, Watch};
pub use human::count;
pub use metrics::Exposition;
pub use process::{Process, Request, Wish};
pub use reload::{Beside, Failure, read, reload};
pub use server::{Server, ServerError};
