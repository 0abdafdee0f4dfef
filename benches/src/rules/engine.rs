//! The engine as the measurements use it: rules loaded, connections made, events run and timed.

use crate::client::Heads;
use crate::clock;
use crate::world::World;
use anyhow::{Result, bail};
use rules::event::Event;
use rules::{Connection, Limits, Program, RuleSource, Step};
use std::rc::Rc;
use std::sync::Arc;

/// One worker's engine with its rules.
pub(crate) struct Engine {
    engine: rules::Engine,
    program: Rc<Program>,
    sources: Vec<Arc<RuleSource>>,
    world: World,
}

/// A connection.
pub(crate) struct Client {
    connection: Connection,
    pub(crate) heads: Heads,
}

/// Scripts run as long as they are asked to.
const LIMITS: Limits = Limits {
    steps: u64::MAX,
    bytes: u64::MAX,
    depth: 200,
};
const SEED: u64 = 7;

impl Engine {
    /// Load rules, by name and text, and run their `RULE_INIT`.
    pub(crate) fn load(rules: &[(String, Vec<u8>)]) -> Result<Self> {
        let source = |(name, text): &(String, Vec<u8>)| {
            Arc::new(RuleSource {
                name: name.as_str().into(),
                text: text.as_slice().into(),
            })
        };
        Self::of(rules.iter().map(source).collect())
    }

    /// The same rules on another worker.
    pub(crate) fn another(&self) -> Result<Self> {
        Self::of(self.sources.clone())
    }

    fn of(sources: Vec<Arc<RuleSource>>) -> Result<Self> {
        let mut engine = rules::Engine::new(LIMITS, SEED);
        let program = match engine.load(&sources) {
            Ok(program) => program,
            Err(problems) => bail!("the rules don't load: {problems:?}"),
        };
        let mut world = World::new();
        if let Some(failure) = engine.init(&program, &mut world).first() {
            bail!("RULE_INIT fails: {}", failure.stack);
        }
        Ok(Self {
            engine,
            program,
            sources,
            world,
        })
    }

    /// A connection comes, and its event runs: how many cycles that takes.
    pub(crate) fn connect(&mut self, event: Event) -> Result<(Client, u64)> {
        let (heads, flow) = Heads::new();
        let mut client = Client {
            connection: Connection::new(&self.program, flow),
            heads,
        };
        let cycles = self.run(&mut client, event)?;
        Ok((client, cycles))
    }

    /// Run the handlers of an event: how many cycles they take.
    pub(crate) fn run(&mut self, client: &mut Client, event: Event) -> Result<u64> {
        let connection = &mut client.connection;
        let began = clock::ticks();
        let step = self.engine.start(connection, event, &mut self.world);
        let cycles = clock::ticks().saturating_sub(began);
        match step {
            Step::Done => {}
            Step::Wait(wait) => bail!("{event}: the rule waits: {wait:?}"),
            Step::Failed(failure) => bail!("{event}: {}", failure.stack),
        }
        if client.connection.flow.ended.is_some() {
            bail!("{event}: the rule ends the connection");
        }
        if let Some(complaint) = self.world.complaints.first() {
            bail!("{complaint}");
        }
        Ok(cycles)
    }

    /// The value of `static::NAME`.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.engine
            .static_value(&format!("static::{name}"))
            .map(|value| value.lossy())
    }
}

impl Client {
    /// A request for an object comes, with these cookies if any.
    pub(crate) fn ask(&mut self, cookies: &str, object: usize) {
        self.heads.ask(&mut self.connection.flow, cookies, object);
    }

    /// The answer comes; it sets the session's cookie if there is an id.
    pub(crate) fn answer(&mut self, id: &str) {
        self.heads.answer(&mut self.connection.flow, id);
    }

    /// The token that a rule has set beside the session's cookie.
    pub(crate) fn token(&self) -> Option<&str> {
        let http = self.connection.flow.http.as_ref()?;
        let fields = http.response.values(b"set-cookie");
        let mut tokens = fields.filter_map(|field| {
            let value = field.strip_prefix(b"ASP.NET_SessionId_HMAC=")?;
            std::str::from_utf8(value.split(|byte| *byte == b';').next()?).ok()
        });
        tokens.next()
    }

    /// Whether a rule has changed the request.
    pub(crate) fn is_request_changed(&self) -> bool {
        let http = self.connection.flow.http.as_ref();
        http.is_some_and(|http| http.request.is_changed())
    }

    /// Whether the request still has this text among its cookies.
    pub(crate) fn has_cookie(&self, text: &str) -> bool {
        let http = self.connection.flow.http.as_ref();
        http.is_some_and(|http| {
            http.request
                .values(b"cookie")
                .any(|value| String::from_utf8_lossy(value).contains(text))
        })
    }
}
