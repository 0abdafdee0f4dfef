//! The stack of a run, which can be put aside while it waits.

use crate::code::Code;
use crate::event::Side;
use crate::fault::{Fault, Kind};
use crate::value::Value;
use std::rc::Rc;

/// A run: its values, and the texts it is in.
#[derive(Default)]
pub(crate) struct Fiber {
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// Where texts are put together that nobody keeps.
    pub(crate) scratch: Vec<u8>,
    /// What the `catch` that runs now holds.
    pub(crate) caught: Option<Kind>,
    /// What the wait has ended with instead of a value.
    pub(crate) failed: Option<Fault>,
}

/// A text that is run.
pub(crate) struct Frame {
    pub(crate) code: Rc<Code>,
    /// The next instruction.
    pub(crate) pc: u32,
    /// Where its part of the stack begins.
    pub(crate) base: u32,
    pub(crate) kind: FrameKind,
    /// The scope in which it runs.
    pub(crate) scope: u32,
    /// The side that commands spoke of when it began, and do again when it ends.
    pub(crate) side: Side,
}

/// What a text is run as.
pub(crate) enum FrameKind {
    /// An event's handler.
    Handler,
    /// A procedure, with a scope of its own that ends with it.
    Proc,
    /// A script in the scope of whoever runs it.
    Script,
}
