//! The rules of a virtual, compiled, and what a connection keeps of them.

use super::{Limits, Run};
use crate::check::Diagnostic;
use crate::code::Code;
use crate::compile::Procs;
use crate::event::{Event, Events};
use crate::flow::Flow;
use crate::map::Map;
use crate::profile::{Profile, ProfileRow};
use crate::vm::{Layout, Scope, Scopes, Session};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The rules of a virtual, compiled.
pub struct Program {
    pub(super) rules: Vec<Rc<str>>,
    pub(super) sources: Vec<Arc<[u8]>>,
    pub(super) handlers: Vec<Vec<Handler>>,
    pub(super) wanted: Events,
    pub(super) layout: Rc<Layout>,
    pub(super) core: Core,
    pub(super) warnings: Vec<Diagnostic>,
}

/// What running code needs of its program.
pub(crate) struct Core {
    pub(crate) procs: RefCell<Procs>,
    pub(crate) expressions: Expressions,
    pub(crate) depth: usize,
    /// Whether any rule asks for `errorInfo` or `errorCode`.
    pub(crate) error_info: bool,
    pub(crate) profile: Profile,
    pub(crate) profile_commands: Cell<bool>,
}

/// Expressions that were put together at run time, compiled for a layout.
type Expressions = RefCell<Map<Box<[u8]>, (Rc<Layout>, Rc<Code>)>>;

pub(super) struct Handler {
    pub(super) rule: usize,
    pub(super) priority: i32,
    pub(super) code: Rc<Code>,
    pub(super) timing: bool,
}

/// A connection's rules: their variables, and what they wait for.
pub struct Connection {
    /// What they see and decide.
    pub flow: Flow,
    /// Which events are off, and what runs later.
    pub session: Session,
    pub(super) program: Rc<Program>,
    pub(super) scopes: Scopes,
    pub(super) run: Option<Box<Run>>,
}

impl Default for Core {
    fn default() -> Self {
        Core {
            procs: RefCell::default(),
            expressions: RefCell::default(),
            depth: Limits::default().depth,
            error_info: true,
            profile: Profile::default(),
            profile_commands: Cell::new(false),
        }
    }
}

impl Program {
    /// Whether anything runs at an event.
    pub fn wants(&self, event: Event) -> bool {
        self.wanted.has(event)
    }

    /// The rules' names, in their order.
    pub fn rules(&self) -> &[Rc<str>] {
        &self.rules
    }

    /// What looked odd in them.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// What events have taken, where that was counted; with `commands` also what commands have.
    pub fn profile(&self) -> Vec<ProfileRow> {
        self.core.profile.rows()
    }

    /// Whether each command's cycles are counted as well, which makes them more.
    pub fn profile_commands(&self, on: bool) {
        self.core.profile_commands.set(on);
    }
}

impl Connection {
    /// A connection about which nothing has run yet.
    pub fn new(program: &Rc<Program>, flow: Flow) -> Self {
        Connection {
            flow,
            session: Session::default(),
            program: Rc::clone(program),
            scopes: Scopes::of(Scope::new(Rc::clone(&program.layout))),
            run: None,
        }
    }

    /// Whether anything runs at an event, which rules may have switched off.
    pub fn wants(&self, event: Event) -> bool {
        self.program.wanted.has(event)
            && !self.session.all_disabled
            && !self.session.disabled.has(event)
    }

    /// Its rules.
    pub fn program(&self) -> &Rc<Program> {
        &self.program
    }

    /// Gives another connection's rules the variables that these share, as they are now.
    pub fn share_with(&self, other: &mut Connection) {
        for name in &self.session.shared {
            other.scopes.adopt(&self.scopes, name);
            if !other.session.shared.contains(name) {
                other.session.shared.push(Rc::clone(name));
            }
        }
    }

    /// Whether a run waits.
    pub fn is_waiting(&self) -> bool {
        self.run.is_some()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("flow", &self.flow)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
