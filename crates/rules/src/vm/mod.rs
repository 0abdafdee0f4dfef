//! The machine that runs bytecode: `machine` is its loop, `seldom` what is not worth a place in it, `enter` what begins and leaves procedures and scripts, `arith` its
//! operators, `scope` its variables, `frame` its stack, `session` what it keeps for a connection.

pub(crate) mod arith;
mod enter;
mod frame;
mod machine;
mod named;
mod scope;
mod seldom;
mod session;

pub(crate) use enter::compile_proc;
pub(crate) use frame::{Fiber, FrameKind};
pub(crate) use machine::{Machine, Ran, frame};
pub(crate) use scope::{Layout, Scope, split_name, static_name};
pub use scope::{Scopes, Statics};
pub use session::{Later, Session};
