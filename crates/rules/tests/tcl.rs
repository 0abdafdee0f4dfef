//! The language's cases in `testdata/tcl/`: each a script, and what it gives or the error it raises, byte for byte.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nowhere;

use nowhere::Nowhere;
use rules::ast::Part;
use rules::event::Event;
use rules::value::Value;
use rules::{Connection, Engine, Limits, Program, RuleSource, Step, parse};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// A script of a table.
struct Case {
    /// File and line of its result.
    place: String,
    script: String,
    /// Without escapes.
    result: Result<Vec<u8>, Vec<u8>>,
}

#[test]
fn scripts_give_what_they_should_when_they_are_evaluated() {
    check(&cases(), |case| Some(evaluated(case)));
}

#[test]
fn scripts_give_what_they_should_when_they_are_compiled_into_a_handler() {
    check(&cases(), compiled);
}

/// Tells of all cases at once that give something else.
fn check(cases: &[Case], run: impl Fn(&Case) -> Option<Result<Vec<u8>, Vec<u8>>>) {
    assert!(cases.len() > 1000);
    let mut wrong = String::new();
    for case in cases {
        let Some(given) = run(case) else { continue };
        if given != case.result {
            wrong += &format!(
                "{}: {:?}\n  gives {}\n  not   {}\n",
                case.place,
                case.script,
                show(&given),
                show(&case.result)
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// What the script gives as the text of an `eval` at run time.
fn evaluated(case: &Case) -> Result<Vec<u8>, Vec<u8>> {
    let (procs, script) = split(&case.script);
    let mut engine = Engine::new(Limits::default(), 1);
    // A rule that asks for it has it filled.
    let rule = format!("# errorInfo\n{procs}");
    let program = load(&mut engine, &rule).map_err(String::into_bytes)?;
    let mut connection = Connection::new(&program, nowhere::flow());
    match engine.eval(&mut connection, &Value::from(script.as_str()), &mut Nowhere) {
        Ok(value) => Ok(value.bytes().to_vec()),
        Err(failure) => Err(failure.message.into_bytes()),
    }
}

/// What the script gives as a part of a handler; nothing where it cannot be a part of one.
fn compiled(case: &Case) -> Option<Result<Vec<u8>, Vec<u8>>> {
    let (procs, script) = split(&case.script);
    let body = format!("{{\n{script}\n}}");
    let text = format!("set static::code [catch {body} static::result]");
    let catch = parse::script(text.as_bytes(), 0..text.len() as u32).ok()?;
    let whole = match catch.commands.as_slice() {
        [set] => match set.words.last()?.parts.as_slice() {
            [Part::Script(inner)] => {
                matches!(inner.commands.as_slice(), [catch] if catch.words.len() == 3)
            }
            _ => false,
        },
        _ => false,
    };
    if !whole {
        return None;
    }
    let rule = format!("{procs}\nwhen CLIENT_ACCEPTED {{\n{text}\n}}\n");
    let mut engine = Engine::new(Limits::default(), 1);
    let program = match load(&mut engine, &rule) {
        Ok(program) => program,
        // What is found wrong before it runs is no result, but must be wrong indeed.
        Err(error) if case.result.is_ok() && !caught(case) => {
            return Some(Err(error.into_bytes()));
        }
        Err(_) => return None,
    };
    let mut connection = Connection::new(&program, nowhere::flow());
    match engine.start(&mut connection, Event::ClientAccepted, &mut Nowhere) {
        Step::Done => {}
        step => return Some(Err(format!("{step:?}").into_bytes())),
    }
    let value = |name: &str| engine.static_value(name).unwrap().bytes().to_vec();
    let result = value("static::result");
    Some(match value("static::code").as_slice() {
        b"0" => Ok(result),
        _ => Err(result),
    })
}

/// Whether a case runs into an error on purpose and goes on.
fn caught(case: &Case) -> bool {
    ["catch", "nothing", "none"]
        .iter()
        .any(|word| case.script.contains(word))
}

fn load(engine: &mut Engine, rule: &str) -> Result<Rc<Program>, String> {
    let source = RuleSource {
        name: "test".into(),
        text: rule.as_bytes().into(),
    };
    engine.load(&[Arc::new(source)]).map_err(|errors| {
        let messages = errors.into_iter().map(|error| error.message);
        messages.collect::<Vec<_>>().join("\n")
    })
}

/// Procedures stand at the top of a rule: apart from the rest.
fn split(script: &str) -> (String, String) {
    let (mut procs, mut rest) = (String::new(), script);
    while rest.starts_with("proc ") {
        let read = parse::script(rest.as_bytes(), 0..rest.len() as u32).unwrap();
        let end = read.commands[0].end as usize;
        procs += &rest[..end];
        procs.push('\n');
        rest = rest[end..].trim_start();
    }
    (procs, rest.to_string())
}

fn show(result: &Result<Vec<u8>, Vec<u8>>) -> String {
    let (mark, text) = match result {
        Ok(text) => ("==>", text),
        Err(text) => ("==!", text),
    };
    format!("{mark} {}", text.escape_ascii())
}

fn cases() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tcl");
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files.iter().flat_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy();
    let mut cases = Vec::new();
    let mut script = String::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with("##") || line.starts_with("#:") {
            continue;
        }
        let result = match line.split_at_checked(3) {
            Some(("==>", text)) => Ok(unescape(text.strip_prefix(' ').unwrap_or(text))),
            Some(("==!", text)) => Err(unescape(text.strip_prefix(' ').unwrap_or(text))),
            _ => {
                if !script.is_empty() {
                    script.push('\n');
                }
                script.push_str(line);
                continue;
            }
        };
        cases.push(Case {
            place: format!("{name}:{}", number + 1),
            script: std::mem::take(&mut script),
            result,
        });
    }
    assert!(script.is_empty(), "{name}: a case without a result");
    cases
}

/// `\n`, `\\` and `\xhh`.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let (escape, tail) = rest.split_first().unwrap();
        rest = tail;
        match escape {
            b'n' => out.push(b'\n'),
            b'x' => {
                let (digits, tail) = rest.split_at(2);
                rest = tail;
                out.push(u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap());
            }
            other => out.push(*other),
        }
    }
    out
}
