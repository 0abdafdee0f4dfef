//! Cycles an event takes in the engine alone: the HMAC cookie rules on connections and heads as the proxy would hand them over.

use crate::Options;
use crate::engine::{Client, Engine};
use crate::report::{Event, Events};
use crate::sessions::Sessions;
use anyhow::{Context, Result, bail};
use headgate_benches::machine::Place;
use headgate_benches::process;
use rules::event;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use traffic::http::watch::Tree;

/// Rules that work together: one that says what a token is bound to, and one that signs and verifies.
pub(crate) struct Set {
    /// As the command line calls it.
    name: &'static str,
    title: &'static str,
    files: [&'static str; 2],
    /// The event of the first.
    binds: event::Event,
    /// F5's average and minimum for the request and the response.
    published: [(f64, f64); 2],
    target: Option<f64>,
}

/// The rules, and what their author measured on F5's system.
const SETS: [Set; 4] = [
    Set {
        name: "address",
        title: "hmac_cookie, bound to the client's address",
        files: ["hmac_bind_client_ip.tcl", "hmac_cookie.tcl"],
        binds: event::Event::ClientAccepted,
        published: [(67_600.0, 27_200.0), (29_900.0, 19_400.0)],
        target: Some(1500.0),
    },
    Set {
        name: "country",
        title: "hmac_cookie, bound to the country",
        files: ["hmac_bind_country.tcl", "hmac_cookie.tcl"],
        binds: event::Event::ClientAccepted,
        published: [(67_600.0, 27_200.0), (29_900.0, 19_400.0)],
        target: Some(1500.0),
    },
    Set {
        name: "x509",
        title: "hmac_cookie, bound to the certificate's subject",
        files: ["hmac_bind_x509_subject.tcl", "hmac_cookie.tcl"],
        binds: event::Event::ClientsslHandshake,
        published: [(67_600.0, 27_200.0), (29_900.0, 19_400.0)],
        target: Some(1500.0),
    },
    Set {
        name: "v10",
        title: "hmac_cookie_v10, bound to the client's address",
        files: ["hmac_bind_client_ip.tcl", "hmac_cookie_v10.tcl"],
        binds: event::Event::ClientAccepted,
        published: [(69_700.0, 32_800.0), (30_600.0, 17_700.0)],
        target: Some(1500.0),
    },
];

/// Tokens that the rules keep, and new ones that drive them out.
const TOKENS: usize = 100_000;
/// Bytes of a token: 32 in base64.
const TOKEN: usize = 44;
/// The author's set-up: connections, and requests of one user over them, which are repeated.
const CONNECTIONS: usize = 4;
const REQUESTS: usize = 1000;
const REPEATED: usize = 20;
const CORE: &str = "0";

/// Run all sets, round by round, each in a process of its own.
pub(crate) fn run(
    options: &Options,
    place: &Place,
    interrupted: &AtomicBool,
    notes: &mut Vec<String>,
) -> Result<Events> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let mut all = Events::default();
    for _ in 0..options.rounds().min(7) {
        for set in &SETS {
            let mut command = Command::new("taskset");
            command
                .args(["-c", CORE])
                .arg(&this)
                .args(["events", set.name])
                .arg(options.rules_folder(place));
            let said = process::output(command, Duration::from_secs(120), interrupted)
                .and_then(|text| Ok(serde_json::from_str::<Events>(&text)?));
            match said {
                Ok(said) => all.add(said),
                Err(error) => {
                    let note = format!("{}: {error:#}", set.title);
                    eprintln!("! {note}");
                    if !notes.contains(&note) {
                        notes.push(note);
                    }
                }
            }
        }
    }
    Ok(all)
}

/// One round of one set: prints what [`run`] reads.
pub(crate) fn round(name: &str, folder: &Path) -> Result<()> {
    let set = SETS
        .iter()
        .find(|set| set.name == name)
        .with_context(|| format!("there is no set {name:?}"))?;
    let round = Round::new(set, folder)?.measure()?;
    println!("{}", serde_json::to_string(&round)?);
    Ok(())
}

/// A round under way.
struct Round {
    set: &'static Set,
    engine: Engine,
    clients: Vec<Client>,
    events: Vec<Event>,
}

/// What was counted of one kind of event.
#[derive(Default)]
struct Tally {
    count: u64,
    sum: u64,
    least: Option<u64>,
}

impl Tally {
    fn add(&mut self, cycles: u64) {
        self.count += 1;
        self.sum += cycles;
        self.least = Some(self.least.map_or(cycles, |least| least.min(cycles)));
    }
}

impl Round {
    fn new(set: &'static Set, folder: &Path) -> Result<Self> {
        let rules: Vec<(String, Vec<u8>)> = set
            .files
            .iter()
            .map(|file| {
                let path = folder.join(file);
                let text =
                    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                Ok(((*file).to_owned(), text))
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            set,
            engine: Engine::load(&rules)?,
            clients: Vec::new(),
            events: Vec::new(),
        })
    }

    fn measure(mut self) -> Result<Events> {
        self.connections()?;
        let known = Sessions::new(TOKENS, 1);
        // What is kept of the tokens here has its memory before, so that only the rules' own is counted.
        let mut tokens: Vec<String> = (0..TOKENS).map(|_| "=".repeat(TOKEN)).collect();
        let before = Tree::of(std::process::id()).memory();
        let case = "sets a session, token not cached";
        self.logins(case, &known, |n| n, Some(&mut tokens))?;
        let memory = Tree::of(std::process::id()).memory() as f64 - before as f64;
        self.user(known.id(0), &tokens[0])?;
        // Any order in which no neighbours follow one another.
        let scattered = |n: usize| n * 48_271 % TOKENS;
        self.requests("100,000 users, tokens cached", &known, &tokens, scattered)?;
        self.logins("sets a session, token cached", &known, scattered, None)?;
        let unknown = Sessions::new(TOKENS, 2);
        let tokens = self.tokens_of(&unknown)?;
        self.requests("token not cached", &unknown, &tokens, |n| n)?;
        self.refused(unknown.id(0))?;
        Ok(Events {
            events: self.events,
            memory: vec![memory],
        })
    }

    /// Connections that come and bind what follows on them.
    fn connections(&mut self) -> Result<()> {
        let mut tally = Tally::default();
        for _ in 0..REQUESTS {
            let (client, cycles) = self.engine.connect(self.set.binds)?;
            tally.add(cycles);
            self.clients.push(client);
        }
        self.clients.truncate(CONNECTIONS);
        self.keep(self.set.binds, "connection", &tally, None, None);
        Ok(())
    }

    /// The author's user: every request and its response.
    fn user(&mut self, id: &str, token: &str) -> Result<()> {
        let (mut requests, mut responses) = (Tally::default(), Tally::default());
        for n in 0..REQUESTS * REPEATED {
            let client = &mut self.clients[n % CONNECTIONS];
            client.ask(&cookie(id, token), n);
            requests.add(self.engine.run(client, event::Event::HttpRequest)?);
            if client.is_request_changed() {
                bail!("a right token was not accepted");
            }
            client.answer("");
            responses.add(self.engine.run(client, event::Event::HttpResponse)?);
        }
        let [request, response] = self.set.published;
        let (published, target) = (Some(request), self.set.target);
        self.keep(
            event::Event::HttpRequest,
            "one user, token cached",
            &requests,
            published,
            target,
        );
        let published = Some(response);
        self.keep(
            event::Event::HttpResponse,
            "sets no session",
            &responses,
            published,
            None,
        );
        Ok(())
    }

    fn requests(
        &mut self,
        case: &str,
        sessions: &Sessions,
        tokens: &[String],
        order: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let mut tally = Tally::default();
        for n in 0..tokens.len() {
            let at = order(n);
            let client = &mut self.clients[n % CONNECTIONS];
            client.ask(&cookie(sessions.id(at), &tokens[at]), n);
            tally.add(self.engine.run(client, event::Event::HttpRequest)?);
            if client.is_request_changed() {
                bail!("a right token was not accepted");
            }
        }
        self.keep(event::Event::HttpRequest, case, &tally, None, None);
        Ok(())
    }

    /// Responses that set the sessions' cookies. `tokens` become those that the rule has set beside.
    fn logins(
        &mut self,
        case: &str,
        sessions: &Sessions,
        order: impl Fn(usize) -> usize,
        mut tokens: Option<&mut Vec<String>>,
    ) -> Result<()> {
        let mut tally = Tally::default();
        for n in 0..TOKENS {
            let client = &mut self.clients[n % CONNECTIONS];
            client.ask("", n);
            client.answer(sessions.id(order(n)));
            tally.add(self.engine.run(client, event::Event::HttpResponse)?);
            let token = client.token().context("a session was not signed")?;
            if let Some(tokens) = &mut tokens {
                tokens[n].clear();
                tokens[n].push_str(token);
            }
        }
        self.keep(event::Event::HttpResponse, case, &tally, None, None);
        Ok(())
    }

    /// The tokens that the same rules on another worker give to sessions.
    fn tokens_of(&mut self, sessions: &Sessions) -> Result<Vec<String>> {
        let mut other = self.engine.another()?;
        let (mut client, _) = other.connect(self.set.binds)?;
        (0..TOKENS)
            .map(|n| {
                client.ask("", n);
                client.answer(sessions.id(n));
                other.run(&mut client, event::Event::HttpResponse)?;
                let token = client.token().context("a session was not signed")?;
                Ok(token.to_owned())
            })
            .collect()
    }

    /// A wrong token is refused: what was measured does what it is for.
    fn refused(&mut self, id: &str) -> Result<()> {
        let client = &mut self.clients[0];
        client.ask(&cookie(id, "wrong"), 0);
        self.engine.run(client, event::Event::HttpRequest)?;
        if client.has_cookie(id) {
            bail!("a wrong token was accepted");
        }
        Ok(())
    }

    fn keep(
        &mut self,
        event: event::Event,
        case: &str,
        tally: &Tally,
        published: Option<(f64, f64)>,
        target: Option<f64>,
    ) {
        self.events.push(Event {
            rule: self.set.title.to_owned(),
            event: event.name().to_owned(),
            case: case.to_owned(),
            count: tally.count,
            average: vec![tally.sum as f64 / tally.count.max(1) as f64],
            minimum: vec![tally.least.unwrap_or(0) as f64],
            published,
            target,
        });
    }
}

fn cookie(id: &str, token: &str) -> String {
    format!("ASP.NET_SessionId={id}; ASP.NET_SessionId_HMAC={token}")
}
