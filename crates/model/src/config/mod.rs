//! What can be configured, type by type, as the file is laid out. Engines read these; only this crate makes them.

mod fast_path;
mod global;
mod http;
mod monitor;
mod pool;
pub(crate) mod raw;
mod rules;
mod tls;
mod virtuals;

pub use fast_path::*;
pub use global::*;
pub use http::*;
pub use monitor::*;
pub use pool::*;
pub use rules::{DataGroup, DataGroupType, Geography, ReputationList, Rule, RuleFile, RuleLimits};
pub use tls::*;
pub use virtuals::*;
