//! A worker's engine: it loads the rules of virtuals, and runs them at the events of connections.

mod failure;
mod load;
mod program;

pub use failure::Failure;
pub(crate) use program::Core;
pub use program::{Connection, Program};

use crate::code::Commands;
use crate::command::{Ctx, Meter};
use crate::event::Event;
use crate::fault::{Fault, Kind};
use crate::flow::Flow;
use crate::host::{Host, Wait};
use crate::map::Map;
use crate::value::Value;
use crate::vm::{Fiber, FrameKind, Later, Machine, Ran, Statics, frame};
use std::collections::VecDeque;
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
        fiber.scratch.clear();
        fiber.scratch.shrink_to(4096);
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
        // Processors' counters need not agree.
        run.spent = run.spent.saturating_add(now.saturating_sub(run.began));
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
        if let Work::Scripts(scripts) = &mut run.work {
            // Those that run again and again are there still.
            let once = scripts.drain(..).filter(|later| later.every.is_none());
            connection.session.later.extend(once);
        }
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
                let (code, side) = (Rc::clone(&handler.code), run.event.side());
                let entry = frame(code, 0, FrameKind::Handler, 0, side);
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
