//! The engine against tclsh, against a fixed table, and against garbage.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{Flags, Regex, RegexError, glob};

const BUDGET: u64 = 50_000_000;

fn find(
    pattern: &[u8],
    flags: Flags,
    text: &[u8],
    start: usize,
) -> Result<Vec<(i64, i64)>, RegexError> {
    let regex = Regex::new(pattern, flags)?;
    let mut slots = Vec::new();
    let found = regex.find_at(
        text,
        start,
        &mut slots,
        &mut BUDGET.clone(),
        start > 0 && text[start - 1] != b'\n',
    )?;
    assert_eq!(
        regex.is_match(&text[start..], &mut BUDGET.clone()),
        Ok(found || differs_at_start(&regex, text, start))
    );
    let indices = slots.iter().map(|slot| match slot {
        Some((begin, end)) => (i64::from(*begin), i64::from(*end) - 1),
        None => (-1, -1),
    });
    Ok(if found { indices.collect() } else { Vec::new() })
}

/// Whether a match is there only when the start counts as the start of a line.
fn differs_at_start(regex: &Regex, text: &[u8], start: usize) -> bool {
    start > 0
        && regex.find_at(
            &text[start..],
            0,
            &mut Vec::new(),
            &mut BUDGET.clone(),
            false,
        ) == Ok(true)
}

fn inline(pattern: &str, text: &str) -> Vec<String> {
    let indices = find(pattern.as_bytes(), Flags::default(), text.as_bytes(), 0);
    let text = |(begin, end): (i64, i64)| {
        if begin < 0 {
            "-".into()
        } else {
            text[begin as usize..(end + 1) as usize].into()
        }
    };
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
                6 => out.push_str(random.pick(&[
                    "[ab]",
                    "[^a]",
                    "[[:alpha:]]",
                    "\\w",
                    "\\s",
                    "\\d",
                    "\\W",
                    "[b-d]",
                    "\\n",
                ])),
                7 => {
                    out.push_str(random.pick(&[
                        "^", "$", "\\m", "\\M", "\\y", "\\Y", "\\A", "\\Z", "[[:<:]]", "[[:>:]]",
                    ]));
                    continue;
                }
                8 if depth > 0 => {
                    out.push_str(random.pick(&["(?=", "(?!"]));
                    // a reference to a group in a lookahead is one to freed memory in tclsh
                    let depth = if back_references { 0 } else { depth - 1 };
                    pattern(random, depth, false, out);
                    out.push(')');
                    continue;
                }
                9 if back_references => {
                    out.push_str(random.pick(&["\\1", "\\1", "\\2"]));
                    out.push_str(random.pick(&["", "", "*", "+", "?", "{2}"]));
                    continue;
                }
                10..=14 if depth > 0 => {
                    out.push_str(random.pick(&["(", "(", "(", "(?:"]));
                    pattern(random, depth - 1, back_references, out);
                    out.push(')');
                }
                _ => out.push_str(random.pick(&["a", "b"])),
            }
            if random.below(3) == 0 {
                out.push_str(random.pick(&[
                    "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}", "{1,}", "{2,3}?",
                    "{0}",
                ]));
            }
        }
    }
}

fn text(random: &mut Random) -> String {
    (0..random.below(12))
        .map(|_| random.pick(&["a", "a", "b", "b", "c", "d", " ", "\n", "A", "1"]))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a script in tclsh (for two seconds at most) with one line of input a case; its lines of output, or nothing if there is no tclsh.
fn tclsh(script: &str, input: String) -> Option<Vec<String>> {
    let mut child = Command::new("timeout")
        .args(["2", "tclsh8.6"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let file = std::env::temp_dir().join(format!("regex-{}-{}", std::process::id(), input.len()));
    std::fs::write(&file, input).unwrap();
    let script = format!("set in [open {{{}}}]\n{script}\nexit\n", file.display());
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    std::fs::remove_file(file).unwrap();
    if output.status.code() == Some(127) {
        return None;
    }
    Some(
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect(),
    )
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
    let hexed = |text: &str| {
        if text.is_empty() {
            "{}".into()
        } else {
            hex(text.as_bytes())
        }
    };
    // tclsh 8.6 does not come back from some back-references to groups that matched nothing: those cases are left out
    let mut expected = Vec::new();
    while expected.len() < cases.len() {
        let lines = cases[expected.len()..]
            .iter()
            .map(|(flags, start, pattern, text)| {
                let flags = if flags.is_empty() { "{}" } else { flags };
                format!("{flags} {start} {} {}\n", hexed(pattern), hexed(text))
            });
        let Some(answers) = tclsh(REGEXP, lines.collect()) else {
            return;
        };
        expected.extend(answers.into_iter().map(Some));
        if expected.len() < cases.len() {
            expected.push(None);
        }
    }
    let answered = expected.iter().flatten().count();
    assert!(
        answered > cases.len() / 2,
        "tclsh answered {answered} times only"
    );
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
            Ok(slots) => slots
                .iter()
                .map(|(begin, end)| format!("{begin} {end}"))
                .collect::<Vec<_>>()
                .join(" "),
        };
        if expected.as_ref().is_some_and(|expected| got != *expected) {
            wrong += 1;
            if wrong <= 20 {
                println!(
                    "{letters:4} {start} {pattern:30?} {text:?}\n     tcl {expected:?}\n     got {got}"
                );
            }
        }
    }
    assert_eq!(wrong, 0, "of {}", cases.len());
}

fn random_cases(
    seed: u64,
    count: usize,
    back_references: bool,
) -> Vec<(&'static str, usize, String, String)> {
    let mut random = Random(seed);
    (0..count)
        .map(|_| {
            let flags = random.pick(&["", "", "", "", "n", "l", "s", "a"]);
            let mut source = String::new();
            pattern(&mut random, 3, back_references, &mut source);
            let text = text(&mut random);
            let start = if random.below(5) == 0 {
                random.below(text.len() + 1)
            } else {
                0
            };
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
    compare(&random_cases(0x5eed_0002, 1_500, true));
}

#[test]
fn globs_match_what_string_match_does() {
    let mut random = Random(0x5eed_0003);
    let cases: Vec<(String, String, bool)> = (0..20_000)
        .map(|_| {
            let pieces = [
                "a", "b", "*", "*", "?", "[ab]", "[b-d]", "[d-a]", "\\", "[", "]", "-", "c", "A",
            ];
            let pattern = (0..random.below(8)).map(|_| random.pick(&pieces)).collect();
            let text = (0..random.below(8))
                .map(|_| random.pick(&["a", "b", "c", "d", "-", "]", "\\", "[", "A"]))
                .collect();
            (pattern, text, random.below(3) == 0)
        })
        .collect();
    let lines = cases.iter().map(|(pattern, text, nocase)| {
        format!(
            "{}x {}x {}\n",
            hex(pattern.as_bytes()),
            hex(text.as_bytes()),
            u8::from(*nocase)
        )
    });
    let script = r#"
while {[gets $in line] >= 0} {
    lassign $line pattern text nocase
    set pattern [encoding convertfrom iso8859-1 [binary decode hex [string trimright $pattern x]]]
    set text [encoding convertfrom iso8859-1 [binary decode hex [string trimright $text x]]]
    puts [string match {*}[expr {$nocase ? "-nocase" : ""}] $pattern $text]
}
"#;
    let Some(expected) = tclsh(script, lines.collect()) else {
        return;
    };
    assert_eq!(expected.len(), cases.len());
    for ((pattern, text, nocase), expected) in cases.iter().zip(expected) {
        let got = glob(pattern.as_bytes(), text.as_bytes(), *nocase);
        assert_eq!(
            u8::from(got).to_string(),
            expected,
            "{pattern:?} {text:?} {nocase}"
        );
    }
}

#[test]
fn captures_follow_the_rules_of_re_syntax() {
    for (pattern, text, expected) in [
        ("^/api/v([0-9]+)/", "/api/v12/users", "/api/v12/ 12"),
        (
            "(\\w+)@(\\w+)\\.com",
            "mail foo@bar.com now",
            "foo@bar.com foo bar",
        ),
        ("\\.(gif|jpg|png)$", "/a/b.c.jpg", ".jpg jpg"),
        ("^(.*)/([^/]*)$", "/a/b/c.html", "/a/b/c.html /a/b c.html"),
        ("(a|ab)(c|bcd)(d*)", "abcd", "abcd ab c d"),
        ("(.*?),(.*)", "a,b,c", "a, a "),
        ("(.*),(.*?)", "a,b,c", "a,b,c a,b c"),
        ("(a*)*", "b", " -"),
        ("(a*)+", "b", " "),
        ("(?:(a)|b)*", "ab", "ab -"),
        ("(a|b)*c", "abac", "abac a"),
        ("((?:ab|a)*?)(b?)", "abab", "  "),
        ("(([a-z]+),?)*", "ab,cd,ef", "ab,cd,ef ef ef"),
        (
            "<([a-z]+)>(.*?)</\\1>",
            "<b>x</i>y</b></b>",
            "<b>x</i>y</b></b> b x</i>y</b>",
        ),
        ("(a)?b\\1", "bb", ""),
        ("x(?=y)(.)", "xzxy", "xy y"),
        ("***=a(b", "xa(b", "a(b"),
        ("(?q)a.c", "abca.c", "a.c"),
        ("(?x) a  b # comment", "ab", "ab"),
        ("[[:<:]]b[[:>:]]", "ab b", "b"),
        ("\\u0041\\x42\\103", "ABC", "ABC"),
        ("[[.hyphen.][=a=]]+", "b-a-", "-a-"),
    ] {
        assert_eq!(
            inline(pattern, text).join(" "),
            expected,
            "{pattern} {text}"
        );
    }
}

#[test]
fn errors_are_named_as_tcl_names_them() {
    use RegexError::*;
    for (pattern, expected) in [
        ("(", Parentheses),
        (")", Parentheses),
        ("(?:", Parentheses),
        ("[a", Brackets),
        ("[a-", Brackets),
        ("[\\]", Brackets),
        ("[[:alpha:]", Brackets),
        ("a{1", Braces),
        ("a{1a", Repetition),
        ("a{2,1}", Repetition),
        ("a{256}", Repetition),
        ("a**", Operand),
        ("*a", Operand),
        ("^*", Operand),
        ("(?=a)*", Operand),
        ("(?<a)", Operand),
        ("***a", Operand),
        ("\\", Escape),
        ("\\q", Escape),
        ("[\\D]", Escape),
        ("[z-a]", Range),
        ("[a-b-c]", Range),
        ("[\\w-a]", Range),
        ("[[:foo:]]", Class),
        ("[[.foo.]]", Collating),
        ("\\1", BackReference),
        ("(a)\\2", BackReference),
        ("(a)(?=\\1)", BackReference),
        ("(?z)a", Option),
        ("***?", Version),
        ("((a{255}){255}){255}", TooLarge),
    ] {
        assert_eq!(
            Regex::new(pattern.as_bytes(), Flags::default()).err(),
            Some(expected),
            "{pattern}"
        );
    }
}

#[test]
fn a_code_that_no_byte_has_matches_nothing() {
    assert_eq!(inline("a\\u4e00?", "ab"), ["a"]);
    assert!(inline("[\\u4e00-\\u9fa5]", "ab\u{fa}").is_empty());
    assert_eq!(
        find(b"[\\xfe-\\u0101]", Flags::default(), b"a\xff", 0),
        Ok(vec![(1, 1)])
    );
}

#[test]
fn long_texts_take_time_in_proportion() {
    let text = b"ab".repeat(100_000);
    for pattern in [
        "(a|b)*c",
        "(a*)(b*)(ab)*$",
        "(.*)(.*)(.*)x",
        "((a|ab)(b|))*$",
        "(a*b*)*c?$",
        "([ab]+)([ab]+)([ab]+)",
        "(\\w+)@(\\w+)",
        "(?=.*c)a",
        "(a.*)*b$",
        ".*?.*?.*?c",
        "(a|b|ab)*(ba|ab)(.*)$",
    ] {
        let regex = Regex::new(pattern.as_bytes(), Flags::default()).unwrap();
        let mut budget = 2_000_000;
        assert!(
            regex
                .find_at(&text, 0, &mut Vec::new(), &mut budget, false)
                .is_ok(),
            "{pattern}"
        );
    }
}

#[test]
fn a_search_for_back_references_ends_with_its_budget() {
    let regex = Regex::new(b"^(a+)(a+)(a+)(a+)(a+)b\\5\\4\\3\\2\\1a$", Flags::default()).unwrap();
    let text = ["a".repeat(60), "a".repeat(60)].join("b");
    let mut budget = 100_000;
    let found = regex.find_at(text.as_bytes(), 0, &mut Vec::new(), &mut budget, false);
    assert_eq!((found, budget), (Err(RegexError::TooExpensive), 0));
}

#[test]
fn automata_that_would_grow_without_end_start_afresh() {
    let text: Vec<u8> = (0..30_000u32)
        .map(|n| if (n * n) % 7 < 3 { b'a' } else { b'b' })
        .collect();
    let mut random = Random(7);
    let text: Vec<u8> = text
        .iter()
        .map(|byte| if random.below(2) == 0 { b'a' } else { *byte })
        .collect();
    let regex = Regex::new(b"a.{13}(b).{3}$", Flags::default()).unwrap();
    let mut slots = Vec::new();
    let expected = (0..text.len() - 18)
        .rfind(|&at| at + 18 == text.len() && text[at] == b'a' && text[at + 14] == b'b');
    let found = regex
        .find_at(&text, 0, &mut slots, &mut BUDGET.clone(), false)
        .unwrap();
    assert_eq!(found, expected.is_some());
}

#[test]
fn garbage_neither_panics_nor_overspends() {
    let mut random = Random(0x5eed_0004);
    let alphabet = b"ab()[]{}*+?|\\^$.-:=!<>#,0123456789mMyYAZdwsDWS\n xi\xff\x00";
    let mut compiled = 0;
    for _ in 0..30_000 {
        let source: Vec<u8> = (0..random.below(24))
            .map(|_| alphabet[random.below(alphabet.len())])
            .collect();
        let text: Vec<u8> = (0..random.below(40))
            .map(|_| alphabet[random.below(alphabet.len())])
            .collect();
        let bits = random.next();
        let flags = Flags {
            nocase: bits & 1 != 0,
            expanded: bits & 14 == 0,
            line: bits & 48 == 0,
            linestop: bits & 192 == 0,
            lineanchor: bits & 768 == 0,
        };
        let _ = glob(&source, &text, flags.nocase);
        let Ok(regex) = Regex::new(&source, flags) else {
            continue;
        };
        compiled += 1;
        let mut slots = Vec::new();
        let mut budget = 100_000;
        let start = random.below(text.len() + 2);
        match regex.find_at(&text, start, &mut slots, &mut budget, bits & 1024 != 0) {
            Ok(true) => {
                let (begin, end) = slots[0].unwrap();
                for (from, to) in slots.iter().flatten() {
                    assert!(
                        from <= to && begin <= *from && *to <= end,
                        "{source:?} {text:?}"
                    );
                }
            }
            Ok(false) => assert!(slots.iter().all(Option::is_none)),
            Err(error) => assert_eq!((error, budget), (RegexError::TooExpensive, 0)),
        }
    }
    assert!(compiled > 1_000);
}
