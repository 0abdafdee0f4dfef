//! iRules: Tcl as F5 BIG-IP runs it, compiled to bytecode and run by a machine that can wait.
//!
//! A rule's text becomes a tree (`parse`), the tree bytecode (`compile`), and the bytecode runs on the machine (`vm`). Tcl's
//! own commands are in `commands`, F5's in `world`; what they need of the process they ask of a [`Host`](host::Host).
//! The crate has no clock, no input or output and no threads.

#![forbid(unsafe_code)]

pub mod ast;
mod check;
mod code;
pub mod command;
pub mod commands;
mod compile;
pub mod data_group;
mod engine;
pub mod event;
pub mod fault;
pub mod flow;
pub mod host;
mod map;
pub mod message;
pub mod parse;
pub mod policy;
mod profile;
mod reference;
pub mod regex;
pub mod value;
pub mod vm;
pub mod world;

pub use check::{Diagnostic, Severity, check};
pub use engine::{Connection, Engine, Failure, Limits, Program, RuleSource, Step};
pub use profile::ProfileRow;
pub use reference::reference;
