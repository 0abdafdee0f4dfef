//! Routes as policies: their conditions compiled to the bytecode of rules, and asked once a request.

use super::host::WorkerHost;
use crate::client::Client;
use crate::worker::Worker;
use model::{HostPattern, PathMatch};
use rules::flow::{Ends, Flow};
use rules::policy::{Case, Condition, Subject, Test};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tracing::error;
use wire::h1::RequestHead;

/// A virtual's routes, compiled on a worker, and the memory in which each request is put before them.
pub(super) struct Policy {
    cases: Arc<[Case]>,
    connection: RefCell<rules::Connection>,
}

impl Policy {
    /// Compiles cases.
    pub(super) fn load(
        engine: &mut rules::Engine,
        name: &str,
        cases: &Arc<[Case]>,
    ) -> Option<Rc<Self>> {
        let program = match engine.policy(name, cases) {
            Ok(program) => program,
            Err(problems) => {
                // The configuration's types leave nothing that could be wrong.
                for problem in problems {
                    error!(virtual = name, "routes cannot be compiled: {}", problem.message);
                }
                return None;
            }
        };
        let nobody = ([0, 0, 0, 0], 0).into();
        let ends = Ends {
            remote: nobody,
            local: nobody,
        };
        let mut flow = Flow::new(name.into(), ends);
        flow.http = Some(Box::default());
        Some(Rc::new(Policy {
            cases: Arc::clone(cases),
            connection: RefCell::new(rules::Connection::new(&program, flow)),
        }))
    }

    /// Whether it was made of these cases.
    pub(super) fn is_of(&self, cases: &Arc<[Case]>) -> bool {
        Arc::ptr_eq(&self.cases, cases)
    }

    /// The number of the first case that holds for a request.
    pub(super) fn decide(
        &self,
        worker: &Worker,
        client: &Client,
        head: &RequestHead,
        buf: &[u8],
    ) -> Option<usize> {
        let mut connection = self.connection.borrow_mut();
        connection.flow.client = Ends {
            remote: client.peer,
            local: client.local,
        };
        if let Some(http) = &mut connection.flow.http {
            crate::http::show_request(&mut http.request, head, buf);
        }
        let mut host = WorkerHost::new(worker);
        let decided = worker
            .rules
            .with(|engine| engine.decide(&mut connection, &mut host));
        decided.unwrap_or_else(|failure| {
            super::machine::report(worker, &failure);
            None
        })
    }
}

/// What a route asks of a request.
pub(crate) fn case(when: &model::Match) -> Case {
    let mut conditions = Vec::new();
    let mut ask = |subject, any: Vec<Test>| {
        if !any.is_empty() {
            conditions.push(Condition { subject, any });
        }
    };
    let is = |text: &String| Test::Is(text.clone().into_bytes());
    // What is cheap to ask comes first.
    ask(Subject::Method, when.method.iter().map(is).collect());
    ask(Subject::Host, when.host.iter().map(host).collect());
    ask(Subject::Path, when.path.iter().map(path).collect());
    let within = |prefix: &addr::Prefix| Test::Within(prefix.to_string());
    ask(Subject::Address, when.address.iter().map(within).collect());
    for header in &when.headers {
        let value = header.value.as_ref();
        let test = value.map_or(Test::Present, |value| Test::Is(value.as_str().into()));
        ask(Subject::Header(header.name.as_str().to_owned()), vec![test]);
    }
    for cookie in &when.cookies {
        let test = cookie.value.as_ref().map_or(Test::Present, is);
        ask(Subject::Cookie(cookie.name.clone()), vec![test]);
    }
    let country = |code: &String| Test::Is(code.to_ascii_uppercase().into_bytes());
    ask(Subject::Country, when.country.iter().map(country).collect());
    Case { conditions }
}

fn host(pattern: &HostPattern) -> Test {
    match pattern {
        HostPattern::Any => Test::Present,
        HostPattern::Exact(name) => Test::Is(name.to_ascii_lowercase().into_bytes()),
        HostPattern::Suffix(suffix) => Test::EndsWith(suffix.to_ascii_lowercase().into_bytes()),
    }
}

fn path(wanted: &PathMatch) -> Test {
    match wanted {
        PathMatch::Exact(path) => Test::Is(path.clone().into_bytes()),
        PathMatch::Prefix(prefix) if prefix.ends_with('/') => {
            Test::StartsWith(prefix.clone().into_bytes())
        }
        PathMatch::Prefix(prefix) => Test::Under(prefix.clone().into_bytes()),
        PathMatch::Suffix(suffix) => Test::EndsWithOrIs(suffix.clone().into_bytes()),
    }
}
