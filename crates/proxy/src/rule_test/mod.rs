//! Rules under test: runs test files, which say what comes and what is expected, without a network.
//!
//! The form of the files is in `text`, what they say in `plan`; `driver` raises events as the proxy does, on the surroundings
//! of `host`, and `judge` compares. `docs/rules.md` describes the files for those who write them.

mod choose;
mod driver;
mod exchange;
mod host;
mod judge;
mod parse;
mod parse_expect;
mod plan;
mod text;
mod units;

use crate::rules::table::SharedTable;
use balance::store::{Bounds, Store};
use driver::Driver;
use host::DryHost;
use plan::{Action, Asked, Expect, Setup, Step, Test, shown};
use rules::data_group::{DataGroup, Kind};
use rules::host::Table;
use rules::{Diagnostic, Engine, Limits, ProfileRow, RuleSource};
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the rule that asks what a test file wants asked.
pub const CHECKS: &str = "checks";

/// How a test went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// Its line in the file.
    pub line: u32,
    /// What was not as expected; nothing where it passed.
    pub complaints: Vec<Complaint>,
}

/// Something that was not as expected.
#[derive(Clone, Debug)]
pub struct Complaint {
    /// The line of the file that expects it.
    pub line: u32,
    /// What was expected, and what came. May be of several lines.
    pub text: String,
}

/// Why a test file can't be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TestFileError {
    /// The file.
    pub file: PathBuf,
    /// The line; 0 where it is the file itself.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

/// Runs the tests of a file, of which those whose names contain `only`.
///
/// # Errors
///
/// The file can't be read, or is not a test file.
pub fn run(file: &Path, only: &str) -> Result<Vec<Outcome>, TestFileError> {
    let tests = read(file)?;
    let tests = tests.iter().filter(|test| test.name.contains(only));
    Ok(tests.map(|test| run_test(test, 1, None).0).collect())
}

/// Runs the tests of a file `rounds` times each, and counts what events take, and `commands` too if that is wanted.
///
/// # Errors
///
/// The file can't be read, or is not a test file.
pub fn profile(
    file: &Path,
    rounds: u32,
    commands: bool,
) -> Result<Vec<(Outcome, Vec<ProfileRow>)>, TestFileError> {
    let tests = read(file)?;
    Ok(tests
        .iter()
        .map(|test| run_test(test, rounds, Some(commands)))
        .collect())
}

/// The test files of a folder and the folders in it, in the order of their names: those that end in `.test`.
///
/// # Errors
///
/// A folder can't be read.
pub fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|end| end == "test") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(file: &Path) -> Result<Vec<Test>, TestFileError> {
    let named = |error: TestFileError| TestFileError {
        file: file.to_owned(),
        ..error
    };
    let text = fs::read_to_string(file)
        .map_err(|error| named(TestFileError::new(0, format!("cannot be read: {error}"))))?;
    let folder = file.parent().unwrap_or(Path::new("."));
    parse::tests(&text, folder).map_err(named)
}

fn run_test(test: &Test, rounds: u32, profile: Option<bool>) -> (Outcome, Vec<ProfileRow>) {
    let mut run = Run {
        outcome: Outcome {
            name: test.name.clone(),
            line: test.line,
            complaints: Vec::new(),
        },
        asked: Vec::new(),
        profile,
    };
    let rows = run.whole(test, rounds);
    (run.outcome, rows)
}

/// A test that runs.
struct Run<'a> {
    outcome: Outcome,
    /// The checks' scripts, by their number.
    asked: Vec<(&'a Asked, usize)>,
    /// Whether cycles are counted, and those of commands too.
    profile: Option<bool>,
}

impl<'a> Run<'a> {
    fn whole(&mut self, test: &'a Test, rounds: u32) -> Vec<ProfileRow> {
        let mut driver = match self.load(test) {
            Ok(driver) => driver,
            Err(diagnostics) => {
                self.refused(test, &diagnostics);
                return Vec::new();
            }
        };
        let mut line = test.line;
        for step in &test.steps {
            self.step(&mut driver, step, &mut line);
        }
        self.leftover(&mut driver, line);
        self.answered(&mut driver);
        // What a round leaves behind in tables and variables is there in the next, so that only the first is judged.
        for _ in 1..rounds {
            if !self.outcome.passed() {
                break;
            }
            driver.close();
            driver.seen.failures.clear();
            for step in &test.steps {
                if !matches!(step.action, Action::Expect(_)) {
                    self.step(&mut driver, step, &mut line);
                }
                driver.seen.failures.clear();
            }
            driver.host.log.clear();
            driver.host.found.clear();
        }
        driver.program.profile()
    }

    /// Compiles the rules, and what is asked as one more.
    fn load(&mut self, test: &'a Test) -> Result<Driver, Vec<Diagnostic>> {
        let setup = &test.setup;
        let defaults = Limits::default();
        let limits = Limits {
            steps: setup.limits.0.unwrap_or(defaults.steps),
            bytes: setup.limits.1.unwrap_or(defaults.bytes),
            depth: setup.limits.2.unwrap_or(defaults.depth),
        };
        let mut sources: Vec<Arc<RuleSource>> = Vec::new();
        for (name, text) in &setup.rules {
            sources.push(source(name, text));
        }
        let checks = self.checks(setup);
        if !checks.is_empty() {
            sources.push(source(CHECKS, checks.as_bytes()));
        }
        let mut engine = Engine::new(limits, setup.seed);
        engine.set_profiling(self.profile.is_some());
        let program = engine.load(&sources)?;
        program.profile_commands(self.profile == Some(true));
        let groups = match data_groups(setup) {
            Ok(groups) => groups,
            Err(error) => {
                self.complain(test.line, error);
                HashMap::new()
            }
        };
        let host = DryHost::new(setup, table(), groups);
        for entry in &setup.table {
            let key = rules::host::Key {
                subtable: &entry.subtable,
                key: &entry.key,
            };
            host.table.put(
                key,
                &rules::value::Value::new(&entry.value),
                rules::host::Put::Always,
                rules::host::Times::default(),
                setup.now,
                true,
            );
        }
        Ok(Driver::new(engine, program, host, setup.clone()))
    }

    /// A rule that asks what the test wants asked. Its lines have the file's numbers.
    fn checks(&mut self, setup: &'a Setup) -> String {
        let mut text = String::new();
        let mut line = 1;
        for check in &setup.checks {
            for (n, asked) in check.asked.iter().enumerate() {
                while line < asked.line {
                    text.push('\n');
                    line += 1;
                }
                if n == 0 {
                    text.push_str(&format!(
                        "when {} priority {} {{",
                        check.event, check.priority
                    ));
                }
                let number = self.asked.len();
                self.asked.push((asked, 0));
                text.push_str(&format!(
                    "if {{[catch {{{}}} _value]}} {{log -noname local0.debug \"\\001check {number} error $_value\"}} \
                     else {{log -noname local0.debug \"\\001check {number} value $_value\"}}",
                    asked.script
                ));
            }
            if !check.asked.is_empty() {
                text.push_str("}\n");
                line += 1;
            }
        }
        text
    }

    fn step(&mut self, driver: &mut Driver, step: &Step, line: &mut u32) {
        match &step.action {
            Action::Expect(expect) => {
                if let Err(text) = judge::judge(driver, expect) {
                    self.complain(step.line, text);
                }
                return;
            }
            _ => {
                self.leftover(driver, *line);
                *line = step.line;
            }
        }
        match &step.action {
            Action::Connect(connect) => driver.connect(connect),
            Action::Request(request, answers) => driver.request(request, answers),
            Action::Send(bytes) => driver.send(bytes),
            Action::MemberSends(bytes) => driver.reply(bytes),
            Action::Wait(time) => driver.wait(*time),
            Action::Close => {
                driver.seen.events.clear();
                driver.close();
            }
            Action::Member(pool, name, words) => {
                let mut members = driver.host.pools.iter_mut();
                let members = members
                    .find(|one| one.name == *pool)
                    .map(|pool| pool.members.iter_mut());
                let member = members.into_iter().flatten();
                let mut member = member.filter(|one| one.name == *name);
                match member.next() {
                    Some(member) => {
                        if let Err(error) = parse::set_member(step.line, member, words) {
                            self.complain(step.line, error.message);
                        }
                    }
                    None => self.complain(step.line, format!("there is no member {pool}/{name}")),
                }
            }
            Action::Expect(_) => {}
        }
    }

    /// Complains of failures that the test does not expect.
    fn leftover(&mut self, driver: &mut Driver, line: u32) {
        for failure in std::mem::take(&mut driver.seen.failures) {
            self.complain(
                line,
                format!(
                    "rule {} failed at {} in its line {}: {}\n  {}",
                    failure.rule,
                    failure.event,
                    failure.line,
                    failure.message,
                    failure.stack.replace('\n', "\n  ")
                ),
            );
        }
    }

    /// Compares what checks have found.
    fn answered(&mut self, driver: &mut Driver) {
        let mut complaints = Vec::new();
        for (number, error, text) in driver.host.found.drain(..) {
            let Some((asked, times)) = self.asked.get_mut(number) else {
                continue;
            };
            *times += 1;
            let expected = &asked.expected;
            if expected.error != error || !expected.text.fits(&text) {
                let kind = |error| if error { "error " } else { "" };
                complaints.push(Complaint {
                    line: asked.line,
                    text: format!(
                        "{}\n  expected {}{}\n  got      {}{}",
                        asked.script,
                        kind(expected.error),
                        expected.text.said(),
                        kind(error),
                        shown(&text)
                    ),
                });
            }
        }
        complaints.dedup_by(|a, b| a.line == b.line && a.text == b.text);
        self.outcome.complaints.extend(complaints);
        let never: Vec<u32> = self
            .asked
            .iter()
            .filter(|(_, times)| *times == 0)
            .map(|(asked, _)| asked.line)
            .collect();
        for line in never {
            self.complain(line, "was never asked: its event did not come".to_owned());
        }
    }

    /// The rules can't be loaded: that is what the test expects, or not.
    fn refused(&mut self, test: &Test, diagnostics: &[Diagnostic]) {
        let mut left: Vec<&Diagnostic> = diagnostics.iter().collect();
        let mut expected = false;
        for step in &test.steps {
            if let Action::Expect(Expect::LoadError(text)) = &step.action {
                expected = true;
                let at = left
                    .iter()
                    .position(|one| text.fits(one.message.as_bytes()));
                match at {
                    Some(at) => {
                        left.remove(at);
                    }
                    None => {
                        let got: Vec<String> = left
                            .iter()
                            .map(|one| shown(one.message.as_bytes()))
                            .collect();
                        self.complain(
                            step.line,
                            format!("load: expected {}\n  got {}", text.said(), got.join("\n  ")),
                        );
                    }
                }
            }
        }
        if !expected {
            for one in diagnostics {
                let text = format!(
                    "rule {}, line {}, column {}: {}",
                    one.rule, one.line, one.column, one.message
                );
                self.complain(test.line, text);
            }
        }
    }

    fn complain(&mut self, line: u32, text: String) {
        self.outcome.complaints.push(Complaint { line, text });
    }
}

impl Outcome {
    /// Whether all was as expected.
    pub fn passed(&self) -> bool {
        self.complaints.is_empty()
    }
}

impl TestFileError {
    fn new(line: u32, message: impl Into<String>) -> Self {
        TestFileError {
            file: PathBuf::new(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for TestFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        write!(f, " {}", self.message)
    }
}

/// A clock of cycles, for profiles.
fn cycles() -> u64 {
    crate::sys::cycles()
}

fn source(name: &str, text: &[u8]) -> Arc<RuleSource> {
    Arc::new(RuleSource {
        name: name.into(),
        text: text.into(),
    })
}

fn table() -> Box<dyn Table> {
    let bounds = Bounds {
        entries: 1 << 20,
        bytes: 1 << 28,
    };
    Box::new(SharedTable(Arc::new(Store::new(bounds, 1))))
}

type DataGroups = HashMap<Vec<u8>, Arc<DataGroup>>;

fn data_groups(setup: &Setup) -> Result<DataGroups, String> {
    let made = setup.data_groups.iter().map(|group| {
        let kind = match &*group.kind {
            "string" => Kind::String,
            "integer" => Kind::Integer,
            "address" => Kind::Address,
            other => return Err(format!("`{other}` is no kind of data group")),
        };
        let records = group.records.iter().cloned();
        let made = DataGroup::new(kind, records).map_err(|error| error.to_string())?;
        Ok((group.name.clone().into_bytes(), Arc::new(made)))
    });
    made.collect()
}
