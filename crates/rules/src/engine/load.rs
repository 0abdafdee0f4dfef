//! Rules and policies compiled into programs.

use super::program::{Core, Handler, Program};
use super::{Engine, RuleSource, commands};
use crate::check::{Diagnostic, Severity, nearest};
use crate::code::Source;
use crate::compile::{Compiler, Env, Problem, Procs, Slots};
use crate::event::{Event, Events};
use crate::parse::{RuleAst, line_column};
use crate::policy::Case;
use crate::value::Value;
use crate::vm::{Layout, compile_proc};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

impl Engine {
    /// Compiles the rules of a virtual, in their order.
    ///
    /// # Errors
    ///
    /// All that is wrong with them.
    pub fn load(&mut self, sources: &[Arc<RuleSource>]) -> Result<Rc<Program>, Vec<Diagnostic>> {
        let mut loading = Loading::default();
        let mut rules = Vec::new();
        for source in sources {
            match crate::parse::rule(&source.text) {
                Ok(ast) => rules.push((source, ast)),
                Err(errors) => {
                    for error in errors {
                        loading.note(source, error.into());
                    }
                }
            }
        }
        let procs = RefCell::new(Procs::default());
        for (source, ast) in &rules {
            for proc in &ast.procs {
                procs.borrow_mut().number(&qualified(source, &proc.name));
            }
        }
        let mut env = Env {
            commands: commands(),
            procs: &procs,
            statics: &mut self.statics,
            event: None,
            strict: true,
        };
        let mut layout = Layout::default();
        let mut handlers: Vec<Vec<Handler>> = Event::ALL.iter().map(|_| Vec::new()).collect();
        for (number, (source, ast)) in rules.iter().enumerate() {
            loading.procs(&mut env, source, ast);
            loading.handlers(&mut env, &mut layout, number, source, ast, &mut handlers);
        }
        if loading
            .diagnostics
            .iter()
            .any(|d| d.severity == Severity::Error)
        {
            return Err(loading.diagnostics);
        }
        let mut wanted = Events::NONE;
        for (event, handlers) in Event::ALL.iter().zip(&mut handlers) {
            // Equals stay in the order of the rules.
            handlers.sort_by_key(|handler| handler.priority);
            if !handlers.is_empty() {
                wanted.insert(*event);
            }
        }
        let error_info = sources.iter().any(|source| {
            [&b"errorInfo"[..], b"errorCode"]
                .iter()
                .any(|word| memchr::memmem::find(&source.text, word).is_some())
        });
        Ok(Rc::new(Program {
            rules: sources
                .iter()
                .map(|source| (&*source.name).into())
                .collect(),
            sources: sources
                .iter()
                .map(|source| Arc::clone(&source.text))
                .collect(),
            handlers,
            wanted,
            layout: Rc::new(layout),
            core: Core {
                procs,
                depth: self.limits.depth,
                error_info: error_info || sources.is_empty(),
                ..Core::default()
            },
            warnings: loading.diagnostics,
        }))
    }

    /// Compiles the cases of a policy, to be asked by [`decide`](Engine::decide).
    ///
    /// # Errors
    ///
    /// What of a case can't be compiled.
    pub fn policy(&mut self, name: &str, cases: &[Case]) -> Result<Rc<Program>, Vec<Diagnostic>> {
        let source = RuleSource {
            name: name.into(),
            text: Arc::from(&b""[..]),
        };
        let procs = RefCell::new(Procs::default());
        let mut env = Env {
            commands: commands(),
            procs: &procs,
            statics: &mut self.statics,
            event: Some(Event::HttpRequest),
            strict: true,
        };
        let mut layout = Layout::default();
        let of = Rc::new(Source {
            rule: name.into(),
            within: "policy".into(),
            text: Arc::clone(&source.text),
        });
        let compiler = Compiler::new(&mut env, Slots::Grow(&mut layout), of);
        let (code, problems) = compiler.cases_code(cases);
        if !problems.is_empty() {
            let mut loading = Loading::default();
            for problem in problems {
                loading.note(&source, problem);
            }
            return Err(loading.diagnostics);
        }
        let mut handlers: Vec<Vec<Handler>> = Event::ALL.iter().map(|_| Vec::new()).collect();
        handlers[Event::HttpRequest as usize].push(Handler {
            rule: 0,
            priority: 500,
            code: Rc::new(code),
            timing: false,
        });
        Ok(Rc::new(Program {
            rules: vec![name.into()],
            sources: vec![source.text],
            handlers,
            wanted: Events::of(&[Event::HttpRequest]),
            layout: Rc::new(layout),
            core: Core {
                depth: self.limits.depth,
                error_info: false,
                ..Core::default()
            },
            warnings: Vec::new(),
        }))
    }
}

/// What is found while rules are loaded.
#[derive(Default)]
struct Loading {
    diagnostics: Vec<Diagnostic>,
}

impl Loading {
    fn note(&mut self, source: &RuleSource, problem: Problem) {
        let (line, column) = line_column(&source.text, problem.at);
        self.diagnostics.push(Diagnostic {
            severity: if problem.warning {
                Severity::Warning
            } else {
                Severity::Error
            },
            rule: source.name.to_string(),
            line,
            column,
            message: problem.message,
            hint: problem.hint,
        });
    }

    fn procs(&mut self, env: &mut Env<'_>, source: &RuleSource, ast: &RuleAst) {
        for proc in &ast.procs {
            let name = String::from_utf8_lossy(&proc.name);
            let of = Rc::new(Source {
                rule: (&*source.name).into(),
                within: (&*name).into(),
                text: Arc::clone(&source.text),
            });
            let params = proc.params.iter().map(|param| {
                let default = param.default.as_deref().map(Value::literal);
                (param.name.as_slice().into(), default)
            });
            let range = proc.body_range.start as usize..proc.body_range.end as usize;
            let body = Value::new(&source.text[range]);
            env.event = None;
            let (compiled, problems) =
                compile_proc(env, of, &name, params.collect(), &proc.body, body);
            for problem in problems {
                self.note(source, problem);
            }
            let mut procs = env.procs.borrow_mut();
            let number = procs.number(&qualified(source, &proc.name));
            procs.list[usize::from(number)] = Some(Rc::new(compiled));
        }
    }

    fn handlers(
        &mut self,
        env: &mut Env<'_>,
        layout: &mut Layout,
        rule: usize,
        source: &RuleSource,
        ast: &RuleAst,
        handlers: &mut [Vec<Handler>],
    ) {
        for handler in &ast.handlers {
            let Some(event) = Event::named(&handler.event) else {
                let problem = unknown_event(&handler.event, handler.event_at);
                self.note(source, problem);
                continue;
            };
            let of = Rc::new(Source {
                rule: (&*source.name).into(),
                within: event.name().into(),
                text: Arc::clone(&source.text),
            });
            env.event = Some(event);
            let compiler = Compiler::new(env, Slots::Grow(layout), of);
            let (code, problems) = compiler.script_code(&handler.body);
            for problem in problems {
                self.note(source, problem);
            }
            handlers[event as usize].push(Handler {
                rule,
                priority: handler.priority.unwrap_or(500),
                code: Rc::new(code),
                timing: handler.timing.unwrap_or(false),
            });
        }
    }
}

/// A procedure's name with its rule's before it.
fn qualified(source: &RuleSource, proc: &[u8]) -> String {
    format!("{}::{}", source.name, String::from_utf8_lossy(proc))
}

fn unknown_event(name: &str, at: u32) -> Problem {
    let (message, hint) = match crate::world::missing(name) {
        Some(reason) => (
            format!("the event {name} is not implemented"),
            (!reason.is_empty()).then(|| reason.to_owned()),
        ),
        None => {
            let near = nearest(name, Event::ALL.iter().map(|event| event.name()));
            (
                format!("there is no event {name}"),
                near.map(|near| format!("did you mean {near}?")),
            )
        }
    };
    Problem {
        at,
        warning: false,
        message,
        hint,
    }
}
