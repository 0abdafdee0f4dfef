//! What a test file says: the surroundings of each test, and its steps.

use rules::event::Event;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A test.
#[derive(Clone, Debug)]
pub(super) struct Test {
    /// Its name.
    pub(super) name: String,
    /// Its line in the file.
    pub(super) line: u32,
    /// What surrounds its rules.
    pub(super) setup: Setup,
    /// What happens, and what is expected, in order.
    pub(super) steps: Vec<Step>,
}

/// What surrounds the rules of a test.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The rules in their order: name and text.
    pub(super) rules: Vec<(String, Vec<u8>)>,
    /// What is asked at events.
    pub(super) checks: Vec<Check>,
    /// The virtual's name.
    pub(super) virtual_name: String,
    /// What the virtual speaks.
    pub(super) protocol: Protocol,
    /// Its pool, where it is not the first.
    pub(super) default_pool: Option<String>,
    /// Names of other virtuals.
    pub(super) virtuals: Vec<String>,
    /// Pools.
    pub(super) pools: Vec<Pool>,
    /// Data groups: name, kind, and records with their values.
    pub(super) data_groups: Vec<DataGroup>,
    /// Files that rules can read, by name.
    pub(super) ifiles: Vec<(String, Vec<u8>)>,
    /// What stands in the table from the start.
    pub(super) table: Vec<Entry>,
    /// What is known of addresses: `country.iso_code` and its kin, with their values.
    pub(super) geography: Vec<(IpAddr, u8, String, Vec<u8>)>,
    /// Categories of addresses of bad repute.
    pub(super) reputation: Vec<(IpAddr, u8, String)>,
    /// What names resolve to.
    pub(super) names: Vec<Name>,
    /// What sideband connections receive.
    pub(super) sidebands: Vec<Sideband>,
    /// The time at the start, since the Unix epoch.
    pub(super) now: Duration,
    /// Which worker, and of how many.
    pub(super) worker: (u32, u32),
    /// What random numbers begin with.
    pub(super) seed: u64,
    /// Budgets, where they differ from the defaults: instructions, bytes, depth.
    pub(super) limits: (Option<u64>, Option<u64>, Option<usize>),
}

/// What a virtual speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP.
    Http,
    /// TCP alone.
    Tcp,
    /// UDP.
    Udp,
}

/// A script whose value is looked at each time an event comes.
#[derive(Clone, Debug)]
pub(super) struct Check {
    /// At which event.
    pub(super) event: Event,
    /// With which priority; 1000 unless it is given.
    pub(super) priority: u32,
    /// The scripts with what is expected of each.
    pub(super) asked: Vec<Asked>,
}

/// A script and what is expected of it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Its line in the file.
    pub(super) line: u32,
    /// The script.
    pub(super) script: String,
    /// What its value, or its error, is to be.
    pub(super) expected: Expected,
}

/// What is expected of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected {
    /// Whether it is an error's message.
    pub(super) error: bool,
    /// The text.
    pub(super) text: Text,
}

/// A text that is looked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Text {
    /// This one.
    Is(Vec<u8>),
    /// One that this pattern matches, with `*` and `?`.
    Like(Vec<u8>),
    /// Any but this one.
    IsNot(Vec<u8>),
}

/// What a name resolves to: the name, the record's type, and the answer as a list or why there is none.
pub(super) type Name = (Vec<u8>, String, Result<Vec<u8>, String>);

/// Where a sideband connection goes, and what comes on it in which order; nothing where it can't be opened.
pub(super) type Sideband = (Vec<u8>, Option<Vec<Vec<u8>>>);

/// A pool.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// Its name.
    pub(super) name: String,
    /// Its members.
    pub(super) members: Vec<Member>,
}

/// A pool's member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its name.
    pub(super) name: String,
    /// Its address.
    pub(super) address: SocketAddr,
    /// Whether its monitors say it works.
    pub(super) up: bool,
    /// Whether it is enabled.
    pub(super) enabled: bool,
    /// Whether it refuses connections, which its monitors have not seen yet.
    pub(super) refuses: bool,
    /// Its weight.
    pub(super) ratio: u32,
    /// Its priority group.
    pub(super) priority: u32,
    /// How many connections it has.
    pub(super) connections: u64,
}

/// A data group.
#[derive(Clone, Debug)]
pub(super) struct DataGroup {
    /// Its name.
    pub(super) name: String,
    /// `string`, `integer` or `address`.
    pub(super) kind: String,
    /// Its records: names and values.
    pub(super) records: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An entry of the table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its subtable; empty for none.
    pub(super) subtable: Vec<u8>,
    /// Its key.
    pub(super) key: Vec<u8>,
    /// Its value.
    pub(super) value: Vec<u8>,
}

/// A step of a test.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Its line in the file.
    pub(super) line: u32,
    /// What it is.
    pub(super) action: Action,
}

/// What a step does.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A client connects.
    Connect(Box<Connect>),
    /// A request comes, which members answer so.
    Request(Request, Vec<Answer>),
    /// Bytes come from the client, or a datagram.
    Send(Vec<u8>),
    /// Bytes come from the member.
    MemberSends(Vec<u8>),
    /// Time passes.
    Wait(Duration),
    /// The client closes.
    Close,
    /// A member changes: pool, member, and the words for its state.
    Member(String, String, Vec<String>),
    /// Something is to be so.
    Expect(Expect),
}

/// A client's connection.
#[derive(Clone, Debug)]
pub(super) struct Connect {
    /// The client.
    pub(super) from: SocketAddr,
    /// Where it connects to.
    pub(super) to: SocketAddr,
    /// TLS.
    pub(super) tls: Option<Tls>,
}

/// What a TLS handshake shows.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    /// The server's name.
    pub(super) sni: Option<String>,
    /// Its version.
    pub(super) version: &'static str,
    /// Its cipher suite.
    pub(super) cipher: String,
    /// ALPN's choice.
    pub(super) alpn: Option<Vec<u8>>,
    /// Certificates in DER.
    pub(super) certificates: Vec<Vec<u8>>,
    /// Whether a certificate was asked for.
    pub(super) asked: bool,
    /// OpenSSL's code of the verification.
    pub(super) verify: u32,
    /// The bytes of the ClientHello.
    pub(super) hello: Option<Vec<u8>>,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Method, target, version.
    pub(super) start: [String; 3],
    /// The fields.
    pub(super) fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body.
    pub(super) body: Vec<u8>,
}

/// A member's response.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Its status.
    pub(super) status: u16,
    /// Its reason.
    pub(super) reason: String,
    /// The fields.
    pub(super) fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body.
    pub(super) body: Vec<u8>,
}

/// What is expected.
#[derive(Clone, Debug)]
pub(super) enum Expect {
    /// The client got this response.
    Response(Option<u16>, Head),
    /// The client got none.
    NoResponse,
    /// The member got this request; its method and target, where they are given.
    Request(Option<(String, String)>, Head),
    /// No member got it.
    NoRequest,
    /// The pool that was chosen.
    Pool(String),
    /// The member that was chosen: name or address.
    Member(String),
    /// No member was chosen.
    NoMember,
    /// Persistence, source address, balancing method or another virtual that a rule chose, as a text.
    Steering(&'static str, Text),
    /// Lines of the log, in any order.
    Log(Text),
    /// No line like this.
    NoLog(Text),
    /// All lines of the log in their order.
    Logs(Vec<String>),
    /// An entry of the table.
    Entry(Entry, Text),
    /// No such entry: subtable, key.
    NoEntry(Vec<u8>, Vec<u8>),
    /// How many entries a subtable has.
    Count(Vec<u8>, usize),
    /// A variable under `static::`, or the connection's.
    Variable(String, Option<Text>),
    /// How the connection ended: `open`, `reject`, `drop`, `close`.
    Ended(String),
    /// A rule failed with this message.
    Failure(Text),
    /// The rules can't be loaded, and why: diagnostics, in any order.
    LoadError(Text),
    /// The events that came since the last step that did something.
    Events(Vec<String>),
    /// An address that was handed to the shun list.
    Shun(IpAddr, Option<Duration>),
    /// Nobody was.
    NoShun,
    /// What the client got: bytes.
    ClientGets(Text),
    /// What the member got: bytes.
    MemberGets(Text),
    /// What went to a syslog server.
    Syslog(Text),
    /// What was sent on a sideband connection.
    Sideband(Text),
}

/// What is expected of a head and its body.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    /// Fields that are there; how often the name may be there is not asked.
    pub(super) fields: Vec<(String, Text)>,
    /// Fields that are not there.
    pub(super) absent: Vec<String>,
    /// The body.
    pub(super) body: Option<Text>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            rules: Vec::new(),
            checks: Vec::new(),
            virtual_name: "web".to_owned(),
            protocol: Protocol::Http,
            default_pool: None,
            virtuals: Vec::new(),
            pools: Vec::new(),
            data_groups: Vec::new(),
            ifiles: Vec::new(),
            table: Vec::new(),
            geography: Vec::new(),
            reputation: Vec::new(),
            names: Vec::new(),
            sidebands: Vec::new(),
            // 2026-01-01T00:00:00Z.
            now: Duration::from_secs(1_767_225_600),
            worker: (0, 1),
            seed: 1,
            limits: (None, None, None),
        }
    }
}

impl Text {
    /// Whether a text is the one that is looked for.
    pub(super) fn fits(&self, text: &[u8]) -> bool {
        match self {
            Text::Is(wanted) => wanted == text,
            Text::IsNot(unwanted) => unwanted != text,
            Text::Like(pattern) => glob(pattern, text),
        }
    }

    /// How it is said in a report.
    pub(super) fn said(&self) -> String {
        match self {
            Text::Is(text) => shown(text),
            Text::IsNot(text) => format!("not {}", shown(text)),
            Text::Like(pattern) => format!("like {}", shown(pattern)),
        }
    }
}

/// Bytes as they are written in a report: in quotes, with escapes.
pub(super) fn shown(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' => out.extend(['\\', char]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                control if control < ' ' => {
                    out.push_str(&format!("\\x{:02x}", u32::from(control)));
                }
                plain => out.push(plain),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

/// Whether a pattern with `*` and `?` matches the whole of a text.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_the_whole_of_a_text() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("*b*", "abc", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("*ab*ab", "abaab", true),
            ("[x]", "[x]", true),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                fits,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn bytes_are_shown_so_that_they_can_be_told_apart() {
        assert_eq!(shown(b"a\r\n\"\x00\xff\\"), r#""a\r\n\"\x00\xff\\""#);
    }
}
