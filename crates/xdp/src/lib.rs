//! The way to the kernel for eBPF: what loading needs, loading, attaching to interfaces, pinning, running programs on
//! made-up packets, tables shared with programs, and network namespaces to try it all in.
//!
//! It knows nothing of what the programs do; that is left to the crates that bring them.

pub mod attach;
pub mod interface;
pub mod map;
pub mod netns;
pub mod object;
pub mod pin;
pub mod require;
pub mod run;

mod ethtool;
mod sys;

pub use libbpf_rs;
