//! Monitors: members are asked at intervals whether they work, and who wants to know is told.
//!
//! One thread asks for the whole process. What a verdict does to a pool is the caller's affair, as
//! are names, their resolution and configuration: targets come here as addresses and settings.

mod check;
mod combined;
mod engine;
mod failure;
mod http;
mod plan;
mod schedule;
mod settings;
mod state;
mod target;

pub use combined::Combined;
pub use engine::Engine;
pub use settings::{HttpCheck, Kind, Settings, StatusSet, TlsCheck};
pub use state::{Change, State, Thresholds};
pub use target::{OnVerdict, Target, TargetKey, TargetStatus, Verdict};
