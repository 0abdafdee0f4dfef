//! What tests of commands stand on: a host that has next to nothing, and a connection with an exchange.

use crate::command::{Command, Ctx, Meter};
use crate::event::{Event, Side};
use crate::fault::{Fault, Kind};
use crate::flow::{Ends, Flow, Http};
use crate::host::{Host, LogLine, LogTarget, PoolView, Table};
use crate::message::Message;
use crate::value::Value;
use crate::vm::{Scopes, Session, Statics};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A host that keeps log lines and gives fixed answers.
#[derive(Default)]
pub(in crate::world) struct Sparse {
    pub(in crate::world) lines: Vec<String>,
    random: u64,
}

/// A connection on which commands are run.
pub(in crate::world) struct Bench {
    pub(in crate::world) flow: Flow,
    pub(in crate::world) host: Sparse,
}

impl Bench {
    /// A connection without HTTP, from 192.0.2.7:40000 to 198.51.100.1:443.
    pub(in crate::world) fn new() -> Self {
        let client = Ends {
            remote: "192.0.2.7:40000".parse().unwrap(),
            local: "198.51.100.1:443".parse().unwrap(),
        };
        Bench {
            flow: Flow::new("web".into(), client),
            host: Sparse::default(),
        }
    }

    /// One with a request, and a response unless its text is empty.
    pub(in crate::world) fn http(request: &str, response: &str) -> Self {
        let mut bench = Bench::new();
        let mut http = Http::default();
        fill(&mut http.request, request);
        if !response.is_empty() {
            fill(&mut http.response, response);
            http.has_response = true;
        }
        bench.flow.http = Some(Box::new(http));
        bench
    }

    /// Runs a command of `table`, as words of a list. What it gives, or `error: ` and its message.
    pub(in crate::world) fn run(&mut self, event: Event, table: &[Command], line: &str) -> String {
        let words = Value::from(line).list().unwrap().to_vec();
        let name = words[0].lossy();
        let command = table.iter().find(|command| command.name == name).unwrap();
        let words = &words[1..];
        assert!(command.events.has(event), "{line} is not for {event}");
        if words.len() < usize::from(command.least) || words.len() > usize::from(command.most) {
            return text(Err(command.wrong_args()));
        }
        text(self.call(event, command, words))
    }

    /// Runs a command with these words.
    pub(in crate::world) fn call(
        &mut self,
        event: Event,
        command: &Command,
        words: &[Value],
    ) -> Result<Value, Fault> {
        self.flow.side = event.side();
        self.call_at(event, command, words)
    }

    fn call_at(
        &mut self,
        event: Event,
        command: &Command,
        words: &[Value],
    ) -> Result<Value, Fault> {
        let mut ctx = Ctx {
            flow: &mut self.flow,
            host: &mut self.host,
            event,
            session: &mut Session::default(),
            rule: &"test".into(),
            scopes: &mut Scopes::default(),
            statics: &mut Statics::new(0),
            meter: &mut Meter {
                steps: 1 << 20,
                bytes: 1 << 24,
            },
            program: &crate::engine::Core::default(),
            nested: 0,
        };
        (command.run)(&mut ctx, words)
    }

    /// The same as [`run`](Bench::run) with commands that speak of `side`.
    pub(in crate::world) fn on(
        &mut self,
        side: Side,
        event: Event,
        table: &[Command],
        line: &str,
    ) -> String {
        let words = Value::from(line).list().unwrap().to_vec();
        let name = words[0].lossy();
        let command = table.iter().find(|command| command.name == name).unwrap();
        self.flow.side = side;
        text(self.call_at(event, command, &words[1..]))
    }

    /// The request's head as it would be sent.
    pub(in crate::world) fn request(&self) -> String {
        written(&self.flow.http.as_ref().unwrap().request)
    }

    /// The response's head as it would be sent.
    pub(in crate::world) fn response(&self) -> String {
        written(&self.flow.http.as_ref().unwrap().response)
    }
}

fn written(message: &Message) -> String {
    let mut out = Vec::new();
    message.write(&mut out);
    String::from_utf8(out).unwrap()
}

fn text(result: Result<Value, Fault>) -> String {
    match result {
        Ok(value) => value.lossy(),
        Err(fault) => match fault.kind() {
            Kind::Error(error) => format!("error: {}", error.message.value().lossy()),
            other => format!("{other:?}"),
        },
    }
}

/// Fills a head from lines that end with a line feed each.
fn fill(message: &mut Message, text: &str) {
    let mut fields = Vec::new();
    let mut start = [0..0, 0..0, 0..0];
    let mut at = 0;
    for (n, line) in text.split('\n').enumerate() {
        if n == 0 {
            let mut from = 0;
            for (part, word) in start.iter_mut().zip(line.splitn(3, ' ')) {
                *part = from..from + word.len();
                from += word.len() + 1;
            }
        } else if let Some((name, value)) = line.split_once(": ") {
            let from = at + name.len() + 2;
            let field: (Range<usize>, Range<usize>) =
                (at..at + name.len(), from..from + value.len());
            fields.push(field);
        }
        at += line.len() + 1;
    }
    message.set(text.as_bytes(), start, fields);
}

impl Host for Sparse {
    fn now(&self) -> Duration {
        Duration::from_secs(1_445_412_480)
    }

    fn cycles(&self) -> u64 {
        0
    }

    fn random(&mut self) -> u64 {
        self.random += 1;
        self.random
    }

    fn worker(&self) -> (u32, u32) {
        (0, 1)
    }

    fn log(&mut self, line: LogLine<'_>) {
        let text = String::from_utf8_lossy(line.text);
        self.lines.push(format!(
            "{}.{} {} {}: {text}",
            line.facility,
            line.level,
            line.rule.unwrap_or("-"),
            line.event
        ));
    }

    fn table(&self) -> &dyn Table {
        unreachable!("commands here use no table")
    }

    fn data_group(&self, _: &[u8]) -> Option<Arc<crate::data_group::DataGroup>> {
        None
    }

    fn ifile(&self, name: &[u8]) -> Option<Value> {
        (name == b"page").then(|| Value::from("the file"))
    }

    fn ifiles(&self) -> Vec<Value> {
        Vec::new()
    }

    fn pool(&self, _: &[u8]) -> Option<PoolView> {
        None
    }

    fn has_virtual(&self, _: &[u8]) -> bool {
        false
    }

    fn geography(&self, _: IpAddr, _: &[&str]) -> Option<Value> {
        None
    }

    fn reputation(&self, address: IpAddr) -> Vec<Value> {
        if address == IpAddr::from([203, 0, 113, 9]) {
            return vec![Value::from("Spam Sources"), Value::from("Botnets")];
        }
        Vec::new()
    }

    fn shun(&mut self, _: IpAddr, _: Duration) -> bool {
        false
    }

    fn open_log(&mut self, _: LogTarget) -> Result<u64, String> {
        Err("none".into())
    }

    fn send_log(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }

    fn close_sideband(&mut self, _: u64) {}

    fn sideband_state(&self, _: u64) -> &'static str {
        "closed"
    }

    fn counter(&mut self, _: &[u8], _: i64) -> i64 {
        0
    }
}
