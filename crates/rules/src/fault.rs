//! What keeps a command from giving a value: an error, an exit from a loop or procedure, or a wait.
//!
//! A fault is one pointer, so that results stay small; the message of an error that nobody reads is never written.

use crate::host::Wait;
use crate::value::{Value, push_element};
use std::fmt;
use std::rc::Rc;

/// Why a command gives no value.
pub struct Fault(Box<Kind>);

/// The kinds of faults.
#[derive(Debug)]
pub enum Kind {
    /// An error.
    Error(Error),
    /// `return`, with the code that its caller is to see.
    Return(Return),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// A code of a rule's own: `return -code 7`, or `error`'s kin.
    Code(i64, Value),
    /// The command's value comes later: the machine is to be parked until the wait is over.
    Wait(Wait),
    /// The command's value is that of a script, which the machine is to run in the same scope.
    Eval(Value),
    /// The event's handling ends here, without an error.
    Exit,
    /// A budget is used up: no `catch` holds it.
    Exhausted(Exhausted),
}

/// A budget that is used up.
#[derive(Debug)]
pub struct Exhausted {
    /// Of what: `instructions`, `memory` or `recursion`.
    pub what: &'static str,
    /// Where, and what called that, innermost first: filled by the machine.
    pub trace: Vec<TraceLine>,
}

/// `return` and its options.
#[derive(Debug, Default)]
pub struct Return {
    /// What is returned.
    pub value: Value,
    /// 0 ok, 1 error, 2 return, 3 break, 4 continue, others are a rule's own.
    pub code: i64,
    /// For errors: what `errorInfo` is to begin with.
    pub info: Option<Value>,
    /// For errors: `errorCode`.
    pub error_code: Option<Value>,
}

/// An error.
#[derive(Debug)]
pub struct Error {
    /// What is wrong.
    pub message: Message,
    /// What `errorCode` becomes; nothing for `NONE`.
    pub code: Option<Value>,
    /// What `errorInfo` is to begin with, instead of the message.
    pub info: Option<Value>,
    /// Where it was raised and what called that, innermost first: filled by the machine.
    pub trace: Vec<TraceLine>,
}

/// One level of an error's stack.
#[derive(Clone, Debug)]
pub struct TraceLine {
    /// The rule's name.
    pub rule: Rc<str>,
    /// The procedure, or the event.
    pub within: Rc<str>,
    /// The line in the rule's text, from 1.
    pub line: u32,
    /// The command, shortened.
    pub command: String,
}

/// An error's message, which is written out when it is read.
pub enum Message {
    /// A text.
    Text(String),
    /// A text with bytes of any kind.
    Value(Value),
    /// `can't read "…": no such variable`.
    NoVariable(Rc<[u8]>),
    /// `can't read "…(…)": no such element in array`.
    NoElement(Rc<[u8]>, Value),
}

impl Fault {
    /// An error with a message.
    pub fn error(message: impl Into<String>) -> Self {
        Fault::raise(Message::Text(message.into()))
    }

    /// An error with a message that is written when it is read.
    pub fn raise(message: Message) -> Self {
        Fault::from(Kind::Error(Error {
            message,
            code: None,
            info: None,
            trace: Vec::new(),
        }))
    }

    /// Tcl's `wrong # args: should be "…"`.
    pub fn usage(usage: &str) -> Self {
        Fault::error(format!("wrong # args: should be \"{usage}\""))
    }

    /// Tcl's `bad option "…": must be a, b, or c`.
    pub fn bad(what: &str, given: &[u8], choices: &[&str]) -> Self {
        let mut list = String::new();
        for (n, choice) in choices.iter().enumerate() {
            if n > 0 {
                list.push_str(match (n + 1 == choices.len(), choices.len()) {
                    (true, 2) => " or ",
                    (true, _) => ", or ",
                    _ => ", ",
                });
            }
            list.push_str(choice);
        }
        Fault::error(format!(
            "bad {what} \"{}\": must be {list}",
            String::from_utf8_lossy(given)
        ))
    }

    /// Has the machine parked until the wait is over.
    pub fn wait(wait: Wait) -> Self {
        Fault::from(Kind::Wait(wait))
    }

    /// Has the machine run a script in the caller's scope, whose value is the command's.
    pub fn eval(script: Value) -> Self {
        Fault::from(Kind::Eval(script))
    }

    /// The end of an event that has used up its budget.
    pub fn exhausted(what: &'static str) -> Self {
        Fault::from(Kind::Exhausted(Exhausted {
            what,
            trace: Vec::new(),
        }))
    }

    /// What kind it is.
    pub fn kind(&self) -> &Kind {
        &self.0
    }

    /// What kind it is, taken out.
    pub fn into_kind(self) -> Kind {
        *self.0
    }

    /// The same, to be added to.
    pub fn kind_mut(&mut self) -> &mut Kind {
        &mut self.0
    }
}

impl From<Kind> for Fault {
    fn from(kind: Kind) -> Self {
        Fault(Box::new(kind))
    }
}

impl Message {
    /// The message's text.
    pub fn value(&self) -> Value {
        match self {
            Message::Text(text) => Value::from(text.as_str()),
            Message::Value(value) => value.clone(),
            Message::NoVariable(name) => {
                let mut text = b"can't read \"".to_vec();
                text.extend_from_slice(name);
                text.extend_from_slice(b"\": no such variable");
                Value::from(text)
            }
            Message::NoElement(array, index) => {
                let mut text = b"can't read \"".to_vec();
                text.extend_from_slice(array);
                text.push(b'(');
                text.extend_from_slice(&index.bytes());
                text.extend_from_slice(b")\": no such element in array");
                Value::from(text)
            }
        }
    }
}

impl Error {
    /// What `errorInfo` says of it.
    pub fn stack(&self) -> Value {
        let mut text = match &self.info {
            Some(info) => info.bytes().to_vec(),
            None => self.message.value().bytes().to_vec(),
        };
        for (n, line) in self.trace.iter().enumerate() {
            let lead: &[u8] = if n == 0 && self.info.is_none() {
                b"\n    while executing\n\""
            } else {
                b"\n    invoked from within\n\""
            };
            text.extend_from_slice(lead);
            text.extend_from_slice(line.command.as_bytes());
            text.extend_from_slice(
                format!("\"\n    ({} {} line {})", line.rule, line.within, line.line).as_bytes(),
            );
        }
        Value::from(text)
    }

    /// What `errorCode` becomes.
    pub fn error_code(&self) -> Value {
        self.code.clone().unwrap_or_else(|| Value::from("NONE"))
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceLine {
            rule,
            within,
            line,
            command,
        } = self;
        write!(f, "    {rule}, {within}, line {line}: {command}")
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// An `errorCode` of several words.
pub fn error_code(words: &[&str]) -> Value {
    let mut list = Vec::new();
    for word in words {
        push_element(&mut list, word.as_bytes());
    }
    Value::from(list)
}
