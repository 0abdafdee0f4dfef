//! The machine that runs bytecode.

mod scope;
mod session;

pub(crate) use scope::{Layout, Place, Scope, Slot, cant, split_name, static_name};
pub use scope::{Scopes, Statics};
pub use session::{Later, Session};
