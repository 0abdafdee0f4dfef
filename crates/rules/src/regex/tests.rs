//! The engine against tclsh, against a fixed table, and against garbage.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{Flags, Regex, RegexError, glob};

const BUDGET: u64 = 50_000_000;

fn find(pattern: &[u8], flags: Flags, text: &[u8], start: usize) -> Result<Vec<(i64, i64)>, RegexError> {
    let regex = Regex::new(pattern, flags)?;
    let mut slots = Vec::new();
    let found = regex.find_at(text, start, &mut slots, &mut BUDGET.clone(), start > 0 && text[start - 1] != b'\n')?;
    assert_eq!(regex.is_match(&text[start..], &mut BUDGET.clone()), Ok(found || differs_at_start(&regex, text, start)));
    let indices = slots.iter().map(|slot| match slot {
        Some((begin, end)) => (i64::from(*begin), i64::from(*end) - 1),
        None => (-1, -1),
    });
    Ok(if found { indices.collect() } else { Vec::new() })
}

/// Whether a match is there only when the start counts as the start of a line.
fn differs_at_start(regex: &Regex, text: &[u8], start: usize) -> bool {
    start > 0 && regex.find_at(&text[start..], 0, &mut Vec::new(), &mut BUDGET.clone(), false) == Ok(true)
}

fn inline(pattern: &str, text: &str) -> Vec<String> {
    let indices = find(pattern.as_bytes(), Flags::default(), text.as_bytes(), 0);
    let text = |(begin, end): (i64, i64)| if begin < 0 { "-".into() } else { text[begin as usize..(end + 1) as usize].into() };
    indices.expect(pattern).into_iter().map(text).collect()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// A pattern that mostly compiles.
fn pattern(random: &mut Random, depth: usize, back_references: bool, out: &mut String) {
    for branch in 0..=random.below(10) / 7 {
        if branch > 0 {
            out.push('|');
        }
        for _ in 0..random.below(4) {
            match random.below(16) {
                0..=5 => out.push_str(random.pick(&["a", "b", "c", "ab", "bc", "."])),
                6 => out.push_str(random.pick(&["[ab]", "[^a]", "[[:alpha:]]", "\\w", "\\s", "\\d", "\\W", "[b-d]", "\\n"])),
                7 => {
                    out.push_str(random.pick(&["^", "$", "\\m", "\\M", "\\y", "\\Y", "\\A", "\\Z", "[[:<:]]", "[[:>:]]"]));
                    continue;
                }
                8 if depth > 0 => {
                    out.push_str(random.pick(&["(?=", "(?!"]));
                    pattern(random, depth - 1, false, out);
                    out.push(')');
                    continue;
                }
                9 if back_references => out.push_str(random.pick(&["\\1", "\\1", "\\2"])),
                10..=14 if depth > 0 => {
                    out.push_str(random.pick(&["(", "(", "(", "(?:"]));
                    pattern(random, depth - 1, back_references, out);
                    out.push(')');
                }
                _ => out.push_str(random.pick(&["a", "b"])),
            }
            if random.below(3) == 0 {
                out.push_str(random.pick(&["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}", "{1,}", "{2,3}?", "{0}"]));
            }
        }
    }
}

fn text(random: &mut Random) -> String {
    (0..random.below(12)).map(|_| random.pick(&["a", "a", "b", "b", "c", "d", " ", "\n", "A", "1"])).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a script in tclsh with one line of input a case; its lines of output, or nothing if there is no tclsh.
fn tclsh(script: &str, input: String) -> Option<Vec<String>> {
    let mut child = Command::new("timeout").args(["20", "tclsh8.6"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let file = std::env::temp_dir().join(format!("regex-{}-{}", std::process::id(), input.len()));
    std::fs::write(&file, input).unwrap();
    let script = format!("set in [open {{{}}}]\n{script}\nexit\n", file.display());
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    std::fs::remove_file(file).unwrap();
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

const REGEXP: &str = r#"
while {[gets $in line] >= 0} {
    lassign $line flags start pattern text
    set pattern [binary decode hex $pattern]
    set text [binary decode hex $text]
    set switches [lmap flag [split $flags ""] {
        dict get {n -nocase x -expanded l -line s -linestop a -lineanchor} $flag
    }]
    if {[catch {regexp {*}$switches -start $start -inline -indices -- $pattern $text} result]} {
        puts "error $result"
    } else {
        puts [join $result " "]
    }
    flush stdout
}
"#;

/// Compares with tclsh over cases of flags, start, pattern and text.
fn compare(cases: &[(&str, usize, String, String)]) {
    let hexed = |text: &str| if text.is_empty() { "{}".into() } else { hex(text.as_bytes()) };
    let lines = cases.iter().map(|(flags, start, pattern, text)| {
        let flags = if flags.is_empty() { "{}" } else { flags };
        format!("{flags} {start} {} {}\n", hexed(pattern), hexed(text))
    });
    let Some(expected) = tclsh(REGEXP, lines.collect()) else { return };
    if expected.len() < cases.len() { println!("HANG {:?}", cases[expected.len()]); }
    let mut wrong = 0;
    for ((letters, start, pattern, text), expected) in cases.iter().zip(&expected) {
        let flags = Flags {
            nocase: letters.contains('n'),
            expanded: letters.contains('x'),
            line: letters.contains('l'),
            linestop: letters.contains('s'),
            lineanchor: letters.contains('a'),
        };
        let got = match find(pattern.as_bytes(), flags, text.as_bytes(), *start) {
            Err(error) => format!("error {error}"),
            Ok(slots) => slots.iter().map(|(begin, end)| format!("{begin} {end}")).collect::<Vec<_>>().join(" "),
        };
        if got != *expected {
            wrong += 1;
            if wrong <= 20 {
                println!("{letters:4} {start} {pattern:30?} {text:?}\n     tcl {expected}\n     got {got}");
            }
        }
    }
    assert_eq!(wrong, 0, "of {}", cases.len());
}

fn random_cases(seed: u64, count: usize, back_references: bool) -> Vec<(&'static str, usize, String, String)> {
    let mut random = Random(seed);
    (0..count)
        .map(|_| {
            let flags = random.pick(&["", "", "", "", "n", "l", "s", "a"]);
            let mut source = String::new();
            pattern(&mut random, 3, back_references, &mut source);
            let text = text(&mut random);
            let start = if random.below(5) == 0 { random.below(text.len() + 1) } else { 0 };
            (flags, start, source, text)
        })
        .collect()
}

#[test]
fn finds_what_tclsh_finds() {
    compare(&random_cases(0x5eed_0001, 6_000, false));
}

#[test]
fn finds_what_tclsh_finds_with_back_references() {
    compare(&random_cases(0x5eed_0002, 3_000, true));
}
