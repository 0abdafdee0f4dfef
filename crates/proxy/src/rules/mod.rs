//! Rules of virtuals: loaded by each worker, run at the events of its connections.
//!
//! What a rule means is the `rules` crate's; where in a connection's life an event lies is for `prelude`, `http` and
//! `tcp`. Here is what joins them: one engine a worker, one state a connection, and what the process offers to both.

mod datagram;
mod dns;
mod driver;
mod facts;
mod geography;
mod host;
mod hosts;
mod machine;
pub(crate) mod persist;
pub(crate) mod policy;
pub(crate) mod profile;
mod sideband;
mod steer;
mod syslog;
pub(crate) mod table;
mod world;

pub(crate) use driver::{Ruled, Stop};
pub(crate) use facts::facts_of;
pub(crate) use geography::Geography;
pub(crate) use machine::Machine;
pub use profile::RuleProfile;
pub(crate) use steer::{handed_to, method, source, target};
pub use world::RuleCounts;
pub(crate) use world::{Common, Limits, RuleSet, World};
