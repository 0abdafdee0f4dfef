//! Why an event failed, as logs and tests are told.

use crate::event::Event;
use crate::fault::{Fault, Kind, TraceLine};
use std::fmt;
use std::rc::Rc;

/// Why an event failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The rule.
    pub rule: Rc<str>,
    /// The event.
    pub event: Event,
    /// What is wrong.
    pub message: String,
    /// The line of the rule's text, from 1; 0 where it is unknown.
    pub line: u32,
    /// The command, shortened.
    pub command: String,
    /// Message and all levels of the stack, innermost first.
    pub stack: String,
    /// The budget that was used up, where it was that.
    pub exhausted: Option<&'static str>,
}

impl Failure {
    pub(super) fn of(rule: Rc<str>, event: Event, fault: Fault) -> Self {
        let (message, stack, trace, exhausted) = match fault.kind() {
            Kind::Error(error) => (
                error.message.value().lossy(),
                error.stack().lossy(),
                error.trace.as_slice(),
                None,
            ),
            Kind::Exhausted(exhausted) => {
                let message = format!("the event has used up its {}", exhausted.what);
                let stack = exhausted.trace.iter().map(TraceLine::to_string);
                let stack = std::iter::once(message.clone()).chain(stack);
                let stack = stack.collect::<Vec<_>>().join("\n");
                (
                    message,
                    stack,
                    exhausted.trace.as_slice(),
                    Some(exhausted.what),
                )
            }
            other => (format!("{other:?}"), String::new(), &[][..], None),
        };
        // The line that tells most is one of a rule's own text: a handler's or a procedure's.
        let place = trace.iter().rev().find(|line| line.line > 0);
        Failure {
            line: place.map_or(0, |line| line.line),
            command: trace
                .first()
                .map(|line| line.command.clone())
                .unwrap_or_default(),
            rule,
            event,
            message,
            stack,
            exhausted,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            rule,
            event,
            line,
            message,
            ..
        } = self;
        write!(f, "rule {rule}, {event}, line {line}: {message}")
    }
}
