//! The language's cases in `testdata/tcl/`: each a script, and what it gives or the error it raises, byte for byte.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use rules::parse;
use std::path::Path;

/// A script of a table.
struct Case {
    /// File and line of its result.
    place: String,
    script: String,
    /// Without escapes.
    result: Result<Vec<u8>, Vec<u8>>,
}

#[test]
fn cases_are_scripts_unless_their_error_says_otherwise() {
    let cases = cases();
    assert!(cases.len() > 1000);
    for case in &cases {
        let range = 0..case.script.len() as u32;
        let Err(error) = parse::script(case.script.as_bytes(), range) else {
            continue;
        };
        let raised = Err(error.message.into_bytes());
        assert_eq!(raised, case.result, "{}", case.place);
    }
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
