//! A worker's engine: it loads the rules of virtuals, and runs them at the events of connections.

use crate::check::{Diagnostic, Severity, nearest};
use crate::code::{Code, Commands, Source};
use crate::command::{Ctx, Meter};
use crate::compile::{Compiler, Env, Problem, Procs, Slots};
use crate::event::{Event, Events};
use crate::fault::{Fault, Kind, TraceLine};
use crate::flow::Flow;
use crate::host::{Host, Wait};
use crate::map::Map;
use crate::parse::{RuleAst, line_column};
use crate::policy::Case;
use crate::profile::{Profile, ProfileRow};
use crate::value::Value;
use crate::vm::{
    Fiber, FrameKind, Later, Layout, Machine, Ran, Scope, Scopes, Session, Statics, compile_proc,
    frame,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A rule as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSource {
    /// Its name.
    pub name: Arc<str>,
    /// Its text.
    pub text: Arc<[u8]>,
}

/// What one event may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps: rounds of loops, calls of commands and procedures, and the like.
    pub steps: u64,
    /// Bytes of values that are made.
    pub bytes: u64,
    /// How deep calls may stand in each other.
    pub depth: usize,
}

/// What runs the rules of one worker.
pub struct Engine {
    limits: Limits,
    statics: Statics,
    /// The rules whose `RULE_INIT` has run, and the scripts that they have run later.
    inits: Map<Arc<str>, Init>,
    spare: Vec<Fiber>,
    profiling: bool,
}

struct Init {
    text: Arc<[u8]>,
    connection: Connection,
}

/// The rules of a virtual, compiled.
pub struct Program {
    rules: Vec<Rc<str>>,
    sources: Vec<Arc<[u8]>>,
    handlers: Vec<Vec<Handler>>,
    wanted: Events,
    layout: Rc<Layout>,
    core: Core,
    warnings: Vec<Diagnostic>,
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

struct Handler {
    rule: usize,
    priority: i32,
    code: Rc<Code>,
    timing: bool,
}

/// A connection's rules: their variables, and what they wait for.
pub struct Connection {
    /// What they see and decide.
    pub flow: Flow,
    /// Which events are off, and what runs later.
    pub session: Session,
    program: Rc<Program>,
    scopes: Scopes,
    run: Option<Box<Run>>,
}

/// A run that is under way.
struct Run {
    work: Work,
    rule: Rc<str>,
    event: Event,
    fiber: Fiber,
    meter: Meter,
    began: u64,
    /// Cycles of what ran before it waited.
    spent: u64,
    /// What the last handler gave.
    value: Value,
}

enum Work {
    /// An event's handlers from the one with this number on.
    Event(usize),
    /// Scripts that are due.
    Scripts(VecDeque<Later>),
}

/// How far a run has come.
#[derive(Debug)]
pub enum Step {
    /// All of it is done.
    Done,
    /// It waits; [`Engine::resume`] goes on with the value.
    Wait(Wait),
    /// It failed, and the connection is to be aborted.
    Failed(Failure),
}

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

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps: 10_000_000,
            bytes: 64 << 20,
            depth: 200,
        }
    }
}

/// The commands of the language and of the world.
pub(crate) fn commands() -> &'static Commands {
    static COMMANDS: OnceLock<Commands> = OnceLock::new();
    COMMANDS.get_or_init(|| Commands::new(&[crate::commands::TABLES, crate::world::TABLES]))
}

impl Engine {
    /// An engine without rules. `seed` keeps strangers from choosing keys of arrays that collide.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Engine {
            limits,
            statics: Statics::new(seed),
            inits: Map::default(),
            spare: Vec::new(),
            profiling: false,
        }
    }

    /// Sets what one event may use up, from the next program on that is loaded.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Whether the cycles of every event are counted, and not only of those that say `timing on`.
    pub fn set_profiling(&mut self, on: bool) {
        self.profiling = on;
    }

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

    /// Which case of a policy a request is: `None` for none of them. `connection` is of the policy's
    /// program, with the request in its flow; it can be used again and again.
    ///
    /// # Errors
    ///
    /// What kept a condition from being found out.
    pub fn decide(
        &mut self,
        connection: &mut Connection,
        host: &mut dyn Host,
    ) -> Result<Option<usize>, Failure> {
        self.begin(connection, Event::HttpRequest, Work::Event(0), host);
        match self.one(connection, host) {
            Step::Failed(failure) => return Err(failure),
            Step::Done => {}
            Step::Wait(_) => {
                self.end(connection);
                return Ok(None);
            }
        }
        let value = connection
            .run
            .as_mut()
            .map(|run| std::mem::take(&mut run.value));
        self.end(connection);
        match value {
            Some(Value::Int(number)) => Ok(usize::try_from(number).ok()),
            _ => Ok(None),
        }
    }

    /// Runs `RULE_INIT` of those of a program's rules for which it has not run on this worker, or
    /// that have another text now. What they had set before stays until they set it anew.
    pub fn init(&mut self, program: &Rc<Program>, host: &mut dyn Host) -> Vec<Failure> {
        let mut failures = Vec::new();
        for (number, name) in program.rules.iter().enumerate() {
            let name: Arc<str> = (&**name).into();
            let text = &program.sources[number];
            if self.inits.get(&name).is_some_and(|init| init.text == *text) {
                continue;
            }
            let mut connection = Connection::new(program, nobody());
            for (at, handler) in program.handlers[Event::RuleInit as usize]
                .iter()
                .enumerate()
            {
                if handler.rule != number {
                    continue;
                }
                self.begin(&mut connection, Event::RuleInit, Work::Event(at), host);
                match self.one(&mut connection, host) {
                    Step::Done => {}
                    Step::Failed(failure) => failures.push(failure),
                    Step::Wait(_) => {
                        self.end(&mut connection);
                        failures.push(Failure::of(
                            name.as_ref().into(),
                            Event::RuleInit,
                            Fault::error("RULE_INIT can't wait"),
                        ));
                    }
                }
            }
            let text = Arc::clone(text);
            self.inits.insert(name, Init { text, connection });
        }
        failures
    }

    /// Forgets what rules have run later that are no longer configured.
    pub fn retain(&mut self, mut is_configured: impl FnMut(&str) -> bool) {
        self.inits.retain(|name, _| is_configured(name));
    }

    /// When the next script is due that a `RULE_INIT` has run later; since the Unix epoch.
    pub fn next_due(&self) -> Option<Duration> {
        let due = |init: &Init| init.connection.session.next_due();
        self.inits.values().filter_map(due).min()
    }

    /// Runs the scripts of `RULE_INIT`s that are due.
    pub fn run_due(&mut self, host: &mut dyn Host) -> Vec<Failure> {
        let names: Vec<Arc<str>> = self.inits.keys().cloned().collect();
        let mut failures = Vec::new();
        for name in names {
            let Some(mut init) = self.inits.remove(&name) else {
                continue;
            };
            match self.run_later(&mut init.connection, host) {
                Step::Done => {}
                Step::Failed(failure) => failures.push(failure),
                Step::Wait(_) => self.end(&mut init.connection),
            }
            self.inits.insert(name, init);
        }
        failures
    }

    /// Runs the handlers of an event of a connection.
    pub fn start(
        &mut self,
        connection: &mut Connection,
        event: Event,
        host: &mut dyn Host,
    ) -> Step {
        if !connection.wants(event) {
            return Step::Done;
        }
        self.begin(connection, event, Work::Event(0), host);
        self.go(connection, host)
    }

    /// Goes on with a run that has waited, and for what: an error's message is what the command
    /// raises.
    pub fn resume(
        &mut self,
        connection: &mut Connection,
        answer: Result<Value, String>,
        host: &mut dyn Host,
    ) -> Step {
        let Some(run) = &mut connection.run else {
            return Step::Done;
        };
        run.began = host.cycles();
        match answer {
            Ok(value) => run.fiber.stack.push(value),
            Err(message) => run.fiber.failed = Some(Fault::error(message)),
        }
        self.go(connection, host)
    }

    /// Runs the scripts of a connection that are due.
    pub fn run_later(&mut self, connection: &mut Connection, host: &mut dyn Host) -> Step {
        let due = connection.session.take_due(host.now());
        let Some(first) = due.front() else {
            return Step::Done;
        };
        let event = first.event;
        self.begin(connection, event, Work::Scripts(due), host);
        self.go(connection, host)
    }

    /// Gives up a run that waits: its connection is closed.
    pub fn abandon(&mut self, connection: &mut Connection) {
        self.end(connection);
        connection.session.later.clear();
    }

    /// Runs a script among a connection's variables, outside of any event.
    ///
    /// # Errors
    ///
    /// What it raises; and that it waits, which it can't.
    pub fn eval(
        &mut self,
        connection: &mut Connection,
        script: &Value,
        host: &mut dyn Host,
    ) -> Result<Value, Failure> {
        self.begin(
            connection,
            Event::ClientAccepted,
            Work::Scripts(VecDeque::new()),
            host,
        );
        let program = Rc::clone(&connection.program);
        let Some(mut run) = connection.run.take() else {
            return Ok(Value::Empty);
        };
        let mut ctx = ctx(
            connection,
            &program,
            &mut run.meter,
            &mut self.statics,
            &run.rule,
            run.event,
            host,
        );
        let mut machine = Machine {
            ctx: &mut ctx,
            fiber: &mut run.fiber,
        };
        let ran = match machine.enter_script(script.clone(), 0) {
            Ok(()) => machine.run(0),
            Err(fault) => Err(fault),
        };
        connection.scopes.end(1);
        self.give_back(run.fiber);
        match ran {
            Ok(Ran::Value(value)) => Ok(value),
            Ok(Ran::Wait(_)) => Err(Failure::of(
                run.rule,
                run.event,
                Fault::error("a script on its own can't wait"),
            )),
            Err(fault) => match ended(fault) {
                Ok(value) => Ok(value),
                Err(fault) => Err(Failure::of(run.rule, run.event, fault)),
            },
        }
    }

    /// The value of a worker's variable, as rules name it: `static::name`.
    pub fn static_value(&self, name: &str) -> Option<Value> {
        self.statics.peek(name)
    }

    fn begin(
        &mut self,
        connection: &mut Connection,
        event: Event,
        work: Work,
        host: &mut dyn Host,
    ) {
        let fiber = self.spare.pop().unwrap_or_default();
        connection.run = Some(Box::new(Run {
            work,
            rule: connection
                .program
                .rules
                .first()
                .cloned()
                .unwrap_or_else(|| "".into()),
            event,
            fiber,
            meter: Meter {
                steps: self.limits.steps,
                bytes: self.limits.bytes,
            },
            began: host.cycles(),
            spent: 0,
            value: Value::Empty,
        }));
    }

    fn end(&mut self, connection: &mut Connection) {
        connection.scopes.end(1);
        if let Some(run) = connection.run.take() {
            self.give_back(run.fiber);
        }
    }

    fn give_back(&mut self, mut fiber: Fiber) {
        fiber.stack.clear();
        fiber.frames.clear();
        fiber.caught = None;
        fiber.failed = None;
        if self.spare.len() < 16 && fiber.stack.capacity() < 4096 {
            self.spare.push(fiber);
        }
    }

    /// Runs one handler or script, or what is left of it.
    fn one(&mut self, connection: &mut Connection, host: &mut dyn Host) -> Step {
        let program = Rc::clone(&connection.program);
        let Some(mut run) = connection.run.take() else {
            return Step::Done;
        };
        let entered = self.enter(connection, &program, &mut run, host);
        let ran = match entered {
            Ok(()) => {
                let mut ctx = ctx(
                    connection,
                    &program,
                    &mut run.meter,
                    &mut self.statics,
                    &run.rule,
                    run.event,
                    host,
                );
                Machine {
                    ctx: &mut ctx,
                    fiber: &mut run.fiber,
                }
                .run(0)
            }
            Err(fault) => Err(fault),
        };
        let now = host.cycles();
        run.spent += now.wrapping_sub(run.began);
        run.began = now;
        let fault = match ran {
            Ok(Ran::Wait(wait)) => {
                connection.run = Some(run);
                return Step::Wait(wait);
            }
            Ok(Ran::Value(value)) => {
                run.value = value;
                None
            }
            Err(fault) => ended(fault).err(),
        };
        if let Work::Event(at) = run.work
            && let Some(handler) = program.handlers[run.event as usize].get(at)
            && (handler.timing || self.profiling)
        {
            let profile = &program.core.profile;
            profile.event(&program.rules[handler.rule], run.event, run.spent);
        }
        run.spent = 0;
        let Some(fault) = fault else {
            connection.run = Some(run);
            return Step::Done;
        };
        let failure = Failure::of(Rc::clone(&run.rule), run.event, fault);
        connection.run = Some(run);
        self.end(connection);
        Step::Failed(failure)
    }

    /// Puts what is to run next onto an empty fiber.
    fn enter(
        &mut self,
        connection: &mut Connection,
        program: &Rc<Program>,
        run: &mut Run,
        host: &mut dyn Host,
    ) -> Result<(), Fault> {
        if !run.fiber.frames.is_empty() {
            return Ok(());
        }
        run.fiber.stack.clear();
        match &mut run.work {
            Work::Event(at) => {
                let handler = &program.handlers[run.event as usize][*at];
                run.rule = Rc::clone(&program.rules[handler.rule]);
                connection.flow.side = run.event.side();
                let entry = frame(Rc::clone(&handler.code), 0, FrameKind::Handler, 0);
                run.fiber.frames.push(entry);
                Ok(())
            }
            Work::Scripts(scripts) => {
                let Some(later) = scripts.pop_front() else {
                    return Ok(());
                };
                run.rule = Rc::clone(&later.rule);
                run.event = later.event;
                connection.flow.side = run.event.side();
                let mut ctx = ctx(
                    connection,
                    program,
                    &mut run.meter,
                    &mut self.statics,
                    &run.rule,
                    run.event,
                    host,
                );
                Machine {
                    ctx: &mut ctx,
                    fiber: &mut run.fiber,
                }
                .enter_script(later.script, 0)
            }
        }
    }

    fn go(&mut self, connection: &mut Connection, host: &mut dyn Host) -> Step {
        loop {
            let more = match &connection.run {
                None => return Step::Done,
                Some(run) if !run.fiber.frames.is_empty() => true,
                Some(run) => match &run.work {
                    Work::Event(at) => {
                        connection.wants(run.event)
                            && *at < connection.program.handlers[run.event as usize].len()
                    }
                    Work::Scripts(scripts) => !scripts.is_empty(),
                },
            };
            if !more {
                self.end(connection);
                return Step::Done;
            }
            match self.one(connection, host) {
                Step::Done => {
                    if let Some(run) = &mut connection.run
                        && let Work::Event(at) = &mut run.work
                    {
                        *at += 1;
                    }
                }
                other => return other,
            }
        }
    }
}

fn ctx<'a>(
    connection: &'a mut Connection,
    program: &'a Rc<Program>,
    meter: &'a mut Meter,
    statics: &'a mut Statics,
    rule: &'a Rc<str>,
    event: Event,
    host: &'a mut dyn Host,
) -> Ctx<'a> {
    Ctx {
        flow: &mut connection.flow,
        host,
        event,
        session: &mut connection.session,
        rule,
        scopes: &mut connection.scopes,
        statics,
        meter,
        program: &program.core,
        nested: 0,
    }
}

/// What is left of a fault where a handler ends: `return` is no error there.
fn ended(fault: Fault) -> Result<Value, Fault> {
    match fault.kind() {
        Kind::Exit => return Ok(Value::Empty),
        Kind::Break => return Err(Fault::error("invoked \"break\" outside of a loop")),
        Kind::Continue => return Err(Fault::error("invoked \"continue\" outside of a loop")),
        Kind::Return(returned) if returned.code == 1 => {
            return Err(Fault::error(returned.value.lossy()));
        }
        Kind::Return(_) => {}
        Kind::Code(_, value) => return Ok(value.clone()),
        _ => return Err(fault),
    }
    match fault.into_kind() {
        Kind::Return(returned) => Ok(returned.value),
        _ => Ok(Value::Empty),
    }
}

/// The connection of `RULE_INIT`, which is nobody's.
fn nobody() -> Flow {
    let none = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    Flow::new(
        "".into(),
        crate::flow::Ends {
            remote: none,
            local: none,
        },
    )
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

impl Failure {
    fn of(rule: Rc<str>, event: Event, fault: Fault) -> Self {
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
