//! Test files as they are read: the statements of `text` become tests. What is expected of something is read in
//! `parse_expect`.

use super::TestFileError;
use super::parse_expect::{expect, text_of};
use super::plan::{
    Action, Answer, Asked, Check, Connect, DataGroup, Entry, Expected, Member, Pool, Protocol,
    Request, Setup, Step, Test, Text, Tls,
};
use super::text::{Line, Node, lines, names, nodes, split_word, value};
use super::units::{certificates, duration, time};
use rules::event::Event;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

type Parsed<T> = Result<T, TestFileError>;

/// The tests of a file. Files that it names are relative to `folder`.
pub(super) fn tests(text: &str, folder: &Path) -> Parsed<Vec<Test>> {
    let mut setup = Setup::default();
    let mut tests = Vec::new();
    for node in nodes(&lines(text))? {
        let (keyword, rest) = node.keyword();
        if keyword == "test" {
            tests.push(test(&node, rest, setup.clone(), folder)?);
        } else if !surroundings(&node, &mut setup, folder)? {
            return Err(wrong(
                &node,
                format!("`{keyword}` is no statement; a step belongs under a `test NAME`"),
            ));
        }
    }
    Ok(tests)
}

fn test(node: &Node, name: &str, mut setup: Setup, folder: &Path) -> Parsed<Test> {
    let mut steps: Vec<Step> = Vec::new();
    for node in node.nodes()? {
        if surroundings(&node, &mut setup, folder)? {
            continue;
        }
        if let Some(action) = step(&node, &mut steps, folder)? {
            steps.push(Step {
                line: node.line,
                action,
            });
        }
    }
    if name.is_empty() {
        return Err(wrong(node, "a test has a name"));
    }
    Ok(Test {
        name: name.to_owned(),
        line: node.line,
        setup,
        steps,
    })
}

/// Takes a statement that says what surrounds the rules: whether it is one.
fn surroundings(node: &Node, setup: &mut Setup, folder: &Path) -> Parsed<bool> {
    let (keyword, rest) = node.keyword();
    let all = || names(rest, node.line);
    match keyword {
        "rule" => rule(node, rest, setup, folder)?,
        "at" => setup.checks.push(check(node, rest)?),
        "virtual" => virtual_server(node, &all()?, setup)?,
        "virtuals" => setup.virtuals.extend(all()?),
        "pool" => {
            let members = node.nodes()?.iter().map(member).collect::<Parsed<_>>()?;
            setup.pools.push(Pool {
                name: rest.to_owned(),
                members,
            });
        }
        "data-group" => setup.data_groups.push(data_group(node, &all()?)?),
        "ifile" => {
            let name = split_word(rest).0.to_owned();
            let content = match (node.block.is_empty(), split_word(rest).1) {
                (true, file) if !file.is_empty() && !file.starts_with('"') => {
                    read(node, &folder.join(file))?
                }
                (true, text) => value(text, node.line)?,
                (false, _) => joined(&node.dedented()),
            };
            setup.ifiles.push((name, content));
        }
        "entry" => {
            let (left, text) = split_at(node, rest, " = ")?;
            let (key, subtable) = key_of(left, node.line)?;
            setup.table.push(Entry {
                subtable,
                key,
                value: value(text, node.line)?,
            });
        }
        "country" | "geo" => geography(node, keyword, &all()?, setup)?,
        "reputation" => {
            let all = all()?;
            let (address, length) = prefix(node, all.first())?;
            let categories = all.iter().skip(1);
            setup
                .reputation
                .extend(categories.map(|category| (address, length, category.clone())));
        }
        "name" => {
            let (left, answer) = match rest.split_once(" fails") {
                Some((left, why)) => (left, Err(why.trim().to_owned())),
                None => {
                    let (left, text) = split_at(node, rest, " = ")?;
                    (left, Ok(value(text, node.line)?))
                }
            };
            let (name, record) = split_word(left);
            let record = if record.is_empty() { "a" } else { record };
            let name = name.as_bytes().to_vec();
            setup.names.push((name, record.to_owned(), answer));
        }
        "sideband" => {
            let (target, rest) = split_word(rest);
            let received = match rest {
                "fails" => None,
                _ => Some(
                    node.dedented()
                        .iter()
                        .map(|line| value(&line.text, line.number))
                        .collect::<Parsed<_>>()?,
                ),
            };
            setup.sidebands.push((target.as_bytes().to_vec(), received));
        }
        "time" => {
            let known = time(rest);
            setup.now = known.ok_or_else(|| {
                wrong(
                    node,
                    "`time` wants seconds since 1970 or 2026-01-31T12:00:00Z",
                )
            })?;
        }
        "worker" => {
            let (n, of) = rest.split_once(" of ").unwrap_or((rest, "1"));
            setup.worker = (number(node, n)?, number(node, of)?);
        }
        "seed" => setup.seed = number(node, rest)?,
        "limit" => match split_word(rest) {
            ("instructions", n) => setup.limits.0 = Some(number(node, n)?),
            ("memory", n) => setup.limits.1 = Some(number(node, n)?),
            ("recursion", n) => setup.limits.2 = Some(number(node, n)?),
            _ => {
                return Err(wrong(
                    node,
                    "`limit` wants instructions, memory or recursion, and a number",
                ));
            }
        },
        _ => return Ok(false),
    }
    Ok(true)
}

/// What a step does; nothing where it belongs to an earlier one.
fn step(node: &Node, steps: &mut [Step], folder: &Path) -> Parsed<Option<Action>> {
    let (keyword, rest) = node.keyword();
    Ok(Some(match keyword {
        "connect" => Action::Connect(Box::new(connect(node, rest, folder)?)),
        "request" => Action::Request(request(node, rest)?, Vec::new()),
        "answer" => {
            let answer = answer(node, rest)?;
            let before = steps.iter_mut().rev();
            let mut requests = before.filter_map(|step| match &mut step.action {
                Action::Request(_, answers) => Some(answers),
                _ => None,
            });
            match requests.next() {
                Some(answers) => answers.push(answer),
                None => return Err(wrong(node, "`answer` follows the request that it is to")),
            }
            return Ok(None);
        }
        "send" => Action::Send(value(rest, node.line)?),
        "reply" => Action::MemberSends(value(rest, node.line)?),
        "wait" => Action::Wait(
            duration(rest).ok_or_else(|| wrong(node, "`wait` wants a time such as 500ms or 5m"))?,
        ),
        "close" => Action::Close,
        "member" => {
            let words = names(rest, node.line)?;
            let (pool, member) = words
                .first()
                .and_then(|word| word.split_once('/'))
                .ok_or_else(|| wrong(node, "`member` wants POOL/MEMBER and its state"))?;
            Action::Member(pool.to_owned(), member.to_owned(), words[1..].to_vec())
        }
        "expect" => Action::Expect(expect(node, rest)?),
        other => return Err(wrong(node, format!("`{other}` is no statement"))),
    }))
}

fn rule(node: &Node, rest: &str, setup: &mut Setup, folder: &Path) -> Parsed<()> {
    if !node.block.is_empty() {
        let name = if rest.is_empty() { "inline" } else { rest };
        // Lines of the rule are to have the file's numbers.
        let first = node.block[0].number as usize;
        let mut text = vec![b'\n'; first - 1];
        text.extend(joined(&node.dedented()));
        text.push(b'\n');
        setup.rules.push((name.to_owned(), text));
        return Ok(());
    }
    for file in names(rest, node.line)? {
        let path = folder.join(&file);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = read(node, &path)?;
        setup.rules.push((name.into_owned(), text));
    }
    Ok(())
}

fn check(node: &Node, rest: &str) -> Parsed<Check> {
    let (name, rest) = split_word(rest);
    let event =
        Event::named(name).ok_or_else(|| wrong(node, format!("there is no event {name:?}")))?;
    let priority = match split_word(rest) {
        ("", _) => 1000,
        ("priority", n) => number(node, n)?,
        _ => return Err(wrong(node, "`at EVENT` takes nothing but `priority N`")),
    };
    let mut asked = Vec::new();
    for line in node.dedented() {
        let text = line.text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (script, wanted) = match text.strip_suffix(" =>") {
            Some(script) => (script, "= "),
            None => text.rsplit_once(" => ").ok_or_else(|| {
                TestFileError::new(line.number, "wants SCRIPT => VALUE under `at`")
            })?,
        };
        let (error, wanted) = match wanted.strip_prefix("error ") {
            Some(rest) => (true, rest),
            None => (false, wanted),
        };
        let text = match text_of(wanted, line.number)? {
            Some(text) => text,
            None => Text::Is(value(wanted, line.number)?),
        };
        asked.push(Asked {
            line: line.number,
            script: script.to_owned(),
            expected: Expected { error, text },
        });
    }
    Ok(Check {
        event,
        priority,
        asked,
    })
}

fn virtual_server(node: &Node, words: &[String], setup: &mut Setup) -> Parsed<()> {
    let mut words = words.iter();
    setup.virtual_name = words
        .next()
        .ok_or_else(|| wrong(node, "`virtual` wants a name"))?
        .clone();
    while let Some(word) = words.next() {
        match &**word {
            "http" => setup.protocol = Protocol::Http,
            "tcp" => setup.protocol = Protocol::Tcp,
            "udp" => setup.protocol = Protocol::Udp,
            "pool" => setup.default_pool = words.next().cloned(),
            other => {
                return Err(wrong(
                    node,
                    format!("`{other}` is none of http, tcp, udp and pool NAME"),
                ));
            }
        }
    }
    Ok(())
}

fn member(node: &Node) -> Parsed<Member> {
    let words = names(&node.text, node.line)?;
    let address = words[0]
        .parse()
        .map_err(|_| wrong(node, "a member is ADDRESS:PORT"))?;
    let mut member = Member {
        name: words[0].clone(),
        address,
        up: true,
        enabled: true,
        refuses: false,
        ratio: 1,
        priority: 0,
        connections: 0,
    };
    set_member(node.line, &mut member, &words[1..])?;
    Ok(member)
}

/// Takes words on a member's state.
pub(super) fn set_member(line: u32, member: &mut Member, words: &[String]) -> Parsed<()> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut next = || {
            let word = words.next().and_then(|word| word.parse().ok());
            word.ok_or_else(|| TestFileError::new(line, "wants a number"))
        };
        match &**word {
            "up" => member.up = true,
            "down" => member.up = false,
            "enabled" => member.enabled = true,
            "disabled" => member.enabled = false,
            "refuses" => member.refuses = true,
            "accepts" => member.refuses = false,
            "ratio" => member.ratio = next()?,
            "priority" => member.priority = next()?,
            "connections" => member.connections = u64::from(next()?),
            "name" => member.name = words.next().cloned().unwrap_or_default(),
            other => {
                return Err(TestFileError::new(
                    line,
                    format!("`{other}` says nothing of a member"),
                ));
            }
        }
    }
    Ok(())
}

fn data_group(node: &Node, words: &[String]) -> Parsed<DataGroup> {
    let [name, kind] = words else {
        return Err(wrong(
            node,
            "`data-group` wants its name and string, integer or address",
        ));
    };
    let record = |line: &Line| {
        let (name, text) = match line.text.split_once(" := ") {
            Some((name, text)) => (name, value(text.trim_start(), line.number)?),
            None => (&*line.text, Vec::new()),
        };
        Ok((value(name.trim_end(), line.number)?, text))
    };
    let lines = node.dedented();
    let filled = lines.iter().filter(|line| !line.text.is_empty());
    Ok(DataGroup {
        name: name.clone(),
        kind: kind.clone(),
        records: filled.map(record).collect::<Parsed<_>>()?,
    })
}

fn geography(node: &Node, keyword: &str, words: &[String], setup: &mut Setup) -> Parsed<()> {
    let (address, length) = prefix(node, words.first())?;
    for word in words.iter().skip(1) {
        let (path, text) = match keyword {
            "country" => ("country.iso_code", &**word),
            _ => word
                .split_once('=')
                .ok_or_else(|| wrong(node, "`geo` wants PREFIX PATH=VALUE…"))?,
        };
        setup
            .geography
            .push((address, length, path.to_owned(), text.as_bytes().to_vec()));
    }
    Ok(())
}

fn connect(node: &Node, rest: &str, folder: &Path) -> Parsed<Connect> {
    let (from, to) = rest.split_once("->").unwrap_or((rest, ""));
    let address = |text: &str, default: SocketAddr| match text.trim() {
        "" => Ok(default),
        text => text
            .parse()
            .or_else(|_| {
                text.parse()
                    .map(|ip: IpAddr| SocketAddr::new(ip, default.port()))
            })
            .map_err(|_| wrong(node, format!("{text:?} is no ADDRESS:PORT"))),
    };
    let mut tls = None;
    for node in node.nodes()? {
        let (keyword, rest) = node.keyword();
        let tls: &mut Tls = tls.get_or_insert_with(Tls::default);
        match keyword {
            "tls" => {}
            "sni" => tls.sni = Some(rest.to_owned()),
            "version" => {
                tls.version = match rest {
                    "TLSv1.2" => "TLSv1.2",
                    "TLSv1.3" => "TLSv1.3",
                    _ => return Err(wrong(&node, "`version` is TLSv1.2 or TLSv1.3")),
                }
            }
            "cipher" => tls.cipher = rest.to_owned(),
            "alpn" => tls.alpn = Some(value(rest, node.line)?),
            "certificate" => {
                tls.asked = true;
                if rest != "none" {
                    let text = read(&node, &folder.join(rest))?;
                    tls.certificates.extend(certificates(&text));
                }
            }
            "verify" => tls.verify = number(&node, rest)?,
            "hello" => tls.hello = Some(value(rest, node.line)?),
            other => return Err(wrong(&node, format!("`{other}` says nothing of TLS"))),
        }
    }
    let port = if tls.is_some() { 443 } else { 80 };
    let (client, here) = default_ends();
    Ok(Connect {
        from: address(from, client)?,
        to: address(to, SocketAddr::new(here.ip(), port))?,
        tls,
    })
}

fn request(node: &Node, rest: &str) -> Parsed<Request> {
    let words = names(rest, node.line)?;
    let (method, target, version) = match &*words {
        [method, target] => (method, target, "HTTP/1.1".to_owned()),
        [method, target, version] => (method, target, version.clone()),
        _ => return Err(wrong(node, "`request` wants METHOD TARGET")),
    };
    let (mut fields, body) = head(&node.dedented())?;
    let has = |name: &[u8], fields: &[(Vec<u8>, Vec<u8>)]| {
        fields
            .iter()
            .any(|(field, _)| field.eq_ignore_ascii_case(name))
    };
    if !has(b"host", &fields) && version == "HTTP/1.1" {
        fields.insert(0, (b"Host".to_vec(), b"www.example.com".to_vec()));
    }
    if !body.is_empty() && !has(b"content-length", &fields) {
        let length = body.len().to_string().into_bytes();
        fields.push((b"Content-Length".to_vec(), length));
    }
    Ok(Request {
        start: [method.clone(), target.clone(), version],
        fields,
        body,
    })
}

fn answer(node: &Node, rest: &str) -> Parsed<Answer> {
    let (status, reason) = split_word(rest);
    let status = number(node, status)?;
    let (mut fields, body) = head(&node.dedented())?;
    let framed = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"content-length")
            || name.eq_ignore_ascii_case(b"transfer-encoding")
    };
    if !fields.iter().any(|(name, _)| framed(name)) && !matches!(status, 204 | 304) {
        let length = body.len().to_string().into_bytes();
        fields.push((b"Content-Length".to_vec(), length));
    }
    Ok(Answer {
        status,
        reason: match reason {
            "" => "OK".to_owned(),
            reason => reason.to_owned(),
        },
        fields,
        body,
    })
}

/// Fields, and behind an empty line the body.
#[allow(clippy::type_complexity)]
fn head(lines: &[Line]) -> Parsed<(Vec<(Vec<u8>, Vec<u8>)>, Vec<u8>)> {
    let mut fields = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at).filter(|line| !line.text.is_empty()) {
        let (name, text) = line
            .text
            .split_once(':')
            .ok_or_else(|| TestFileError::new(line.number, "wants NAME: VALUE"))?;
        let text = value(text.trim(), line.number)?;
        fields.push((name.trim().as_bytes().to_vec(), text));
        at += 1;
    }
    Ok((fields, body(&lines[lines.len().min(at + 1)..])?))
}

/// A body: lines as they stand, or one line in double quotes.
pub(super) fn body(lines: &[Line]) -> Parsed<Vec<u8>> {
    match lines {
        [line] if line.text.starts_with('"') => value(&line.text, line.number),
        lines => Ok(joined(lines)),
    }
}

/// A key, and the subtable it is in: `KEY in SUBTABLE`.
pub(super) fn key_of(text: &str, line: u32) -> Parsed<(Vec<u8>, Vec<u8>)> {
    match text.rsplit_once(" in ") {
        Some((key, subtable)) => Ok((value(key.trim(), line)?, value(subtable.trim(), line)?)),
        None => Ok((value(text.trim(), line)?, Vec::new())),
    }
}

/// A complaint about a statement.
pub(super) fn wrong(node: &Node, what: impl Into<String>) -> TestFileError {
    TestFileError::new(node.line, what)
}

/// A number.
pub(super) fn number<T: std::str::FromStr>(node: &Node, text: &str) -> Parsed<T> {
    text.trim()
        .parse()
        .map_err(|_| wrong(node, format!("{text:?} is no number that fits here")))
}

/// The client and the address it connects to, where a test does not say.
pub(super) fn default_ends() -> (SocketAddr, SocketAddr) {
    (
        SocketAddr::from(([192, 0, 2, 1], 40_000)),
        SocketAddr::from(([203, 0, 113, 1], 80)),
    )
}

fn split_at<'a>(node: &Node, text: &'a str, at: &str) -> Parsed<(&'a str, &'a str)> {
    if let Some(left) = text.strip_suffix(at.trim_end()) {
        return Ok((left, ""));
    }
    text.split_once(at)
        .ok_or_else(|| wrong(node, format!("wants `{}` and a value", at.trim())))
}

fn prefix(node: &Node, text: Option<&String>) -> Parsed<(IpAddr, u8)> {
    let text = text.map(String::as_str).unwrap_or_default();
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let address: IpAddr = address
        .parse()
        .map_err(|_| wrong(node, format!("{text:?} is no address or prefix")))?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        "" => whole,
        length => number(node, length)?,
    };
    Ok((address, length.min(whole)))
}

fn joined(lines: &[Line]) -> Vec<u8> {
    let texts: Vec<&str> = lines.iter().map(|line| &*line.text).collect();
    texts.join("\n").into_bytes()
}

fn read(node: &Node, path: &Path) -> Parsed<Vec<u8>> {
    fs::read(path).map_err(|error| wrong(node, format!("cannot read {}: {error}", path.display())))
}

impl Default for Tls {
    fn default() -> Self {
        Tls {
            sni: None,
            version: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256".to_owned(),
            alpn: None,
            certificates: Vec::new(),
            asked: false,
            verify: 0,
            hello: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_in_a_test_file_keeps_the_lines_of_the_file() {
        let text = "test a\n  rule\n    when RULE_INIT {\n    }\n";
        let tests = tests(text, Path::new(".")).unwrap();
        assert_eq!(tests[0].setup.rules[0].1, b"\n\nwhen RULE_INIT {\n}\n");
    }

    #[test]
    fn an_answer_goes_with_the_request_before_it() {
        let text = "test a\n  request GET /\n  expect no response\n  answer 204\n";
        let tests = tests(text, Path::new(".")).unwrap();
        let Action::Request(_, answers) = &tests[0].steps[0].action else {
            panic!("{tests:?}");
        };
        assert_eq!(answers[0].status, 204);
    }

    #[test]
    fn what_is_no_statement_is_named_with_its_line() {
        for (text, line) in [("test a\n  reqest GET /\n", 2), ("\nrequest GET /\n", 2)] {
            let error = tests(text, Path::new(".")).unwrap_err();
            assert_eq!(error.line, line, "{error}");
        }
    }
}
