//! Virtuals of L7 and TCP: listeners, workers, connections to clients and members, and the life of an exchange between them.
//!
//! Bytes are understood by `wire`, members chosen by `balance`, descriptors waited for by
//! `reactor`. The API and the command line talk to [`Engine`].

mod accept;
pub mod access;
mod client;
mod compile;
mod counters;
mod engine;
mod http;
mod limit;
mod listen;
mod nodes;
#[expect(unsafe_code, reason = "a question to the kernel that no library asks")]
mod outq;
mod prelude;
mod resolve;
pub mod rule_test;
mod rules;
mod shun;
mod snapshot;
#[expect(unsafe_code, reason = "calls to the kernel that no library wraps")]
mod sys;
mod tcp;
#[cfg(test)]
mod testing;
mod tunnel;
mod upstream;
mod worker;

pub use compile::{CompileError, check_rules};
pub use counters::{Totals, VirtualCounters};
pub use engine::{
    Applied, ApplyError, Engine, MemberChange, MemberStatus, NoSuchMember, Options, Phase,
};
pub use listen::{BindError, Inherited};
pub use rules::{RuleCounts, RuleProfile};
pub use shun::ShunList;
pub use snapshot::{Backend, Snapshot, Virtual, VirtualState};
