//! Compares commands with those of tclsh 8.6, where it is installed, over random arguments on which both versions agree.

use super::testing::{Bench, Dice};
use crate::value::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

const VARIABLES: [&str; 3] = ["a", "b", "c"];

/// Reads commands, their words in hexadecimal, and answers each with its code, result and the variables' values.
const DRIVER: &str = "
    fconfigure stdin -translation lf
    fconfigure stdout -translation lf
    proc hex text {binary scan $text H* hex; return =$hex}
    while {[gets stdin line] >= 0} {
        set words {}
        foreach word $line {lappend words [binary format H* [string range $word 1 end]]}
        unset -nocomplain a b c
        set code [catch $words result]
        set line [list $code [hex $result]]
        foreach name {a b c} {
            lappend line [expr {[info exists $name] ? [hex [set $name]] : \"-\"}]
        }
        puts $line
    }
";

#[test]
fn strings_are_treated_as_tclsh_treats_them() {
    compare(1, 6000, string);
}

#[test]
fn lists_are_treated_as_tclsh_treats_them() {
    compare(2, 6000, list);
}

#[test]
fn format_and_scan_do_as_tclsh_does() {
    compare(3, 6000, |dice| {
        if dice.one_in(2) {
            format(dice)
        } else {
            scan(dice)
        }
    });
}

#[test]
fn binary_does_as_tclsh_does() {
    compare(4, 6000, |dice| {
        if dice.one_in(2) {
            binary_format(dice)
        } else {
            binary_scan(dice)
        }
    });
}

type Words = Vec<Vec<u8>>;

/// A command's outcome: its code, its result, and the variables.
type Outcome = (String, Vec<u8>, Vec<Option<Vec<u8>>>);

fn compare(seed: u64, count: usize, generate: fn(&mut Dice) -> Words) {
    let mut dice = Dice(seed);
    let cases: Vec<Words> = (0..count).map(|_| generate(&mut dice)).collect();
    let Some(theirs) = tclsh(&cases) else {
        return;
    };
    assert_eq!(theirs.len(), cases.len(), "tclsh answers each command");
    let mut differences = String::new();
    for (words, theirs) in cases.iter().zip(theirs) {
        let ours = run(words);
        // Errors' texts changed between versions.
        let same =
            ours.0 == theirs.0 && (ours.0 == "1" || ours.1 == theirs.1) && ours.2 == theirs.2;
        if !same && differences.len() < 4000 {
            let words: Vec<_> = words
                .iter()
                .map(|word| String::from_utf8_lossy(word))
                .collect();
            let show = |outcome: &Outcome| {
                let set: Vec<_> = outcome
                    .2
                    .iter()
                    .flatten()
                    .map(|v| v.escape_ascii().to_string())
                    .collect();
                std::format!("{} {} {set:?}", outcome.0, outcome.1.escape_ascii())
            };
            let _ = writeln!(
                differences,
                "{words:?}\n  ours {}\n  tclsh {}",
                show(&ours),
                show(&theirs)
            );
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

fn run(words: &Words) -> Outcome {
    let mut bench = Bench::new();
    let words: Vec<Value> = words.iter().map(|word| Value::new(word)).collect();
    let (code, result) = match bench.words(&words) {
        Ok(value) => ("0", value.bytes().to_vec()),
        Err(fault) => ("1", super::testing::message(&fault).into_bytes()),
    };
    let set = VARIABLES.map(|name| bench.ctx().get(&Value::from(name)).ok());
    let set = set
        .iter()
        .map(|value| value.as_ref().map(|value| value.bytes().to_vec()));
    (code.into(), result, set.collect())
}

fn tclsh(cases: &[Words]) -> Option<Vec<Outcome>> {
    let directory =
        std::env::temp_dir().join(std::format!("tclsh-{}-{:p}", std::process::id(), cases));
    std::fs::create_dir_all(&directory).unwrap();
    let driver = directory.join("driver.tcl");
    std::fs::write(&driver, DRIVER).unwrap();
    let child = Command::new("tclsh8.6")
        .arg(&driver)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("tclsh8.6 is not installed");
        return None;
    };
    let mut input = String::new();
    for words in cases {
        let words: Vec<String> = words.iter().map(|word| hex(word)).collect();
        let _ = writeln!(input, "{}", words.join(" "));
    }
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let outcomes = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let mut fields = line.split(' ');
            let code = fields.next().unwrap().to_owned();
            let result = unhex(fields.next().unwrap()).unwrap();
            (code, result, fields.map(unhex).collect())
        })
        .collect();
    Some(outcomes)
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold("=".into(), |text, byte| text + &std::format!("{byte:02x}"))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let text = text.strip_prefix('=')?;
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    Some((0..text.len()).step_by(2).map(byte).collect())
}

impl Dice {
    fn index(&mut self) -> String {
        if self.one_in(3) {
            self.pick(&["end", "end-1", "end-2", "end-9", "x", ""])
                .into()
        } else {
            (self.below(10) as i64 - 2).to_string()
        }
    }

    /// A list, mostly; else a text that may be none.
    fn list(&mut self, chars: &str) -> String {
        if self.one_in(12) {
            return self.text(" ab{}\"\\", 8);
        }
        let count = self.below(7);
        let items = (0..count).map(|_| Value::from(self.text(chars, 4)));
        Value::list_of(items.collect()).lossy()
    }
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

const PLAIN: &str = "abAB1 _-\t";

fn string(dice: &mut Dice) -> Words {
    let text = dice.text(PLAIN, 10);
    let other = dice.text(PLAIN, 3);
    let (first, last) = (dice.index(), dice.index());
    let sub = dice.pick(&[
        "compare", "equal", "first", "last", "index", "range", "replace", "map", "match", "case",
        "trim", "word", "is", "repeat", "number",
    ]);
    match sub {
        "compare" | "equal" => match dice.below(3) {
            0 => words(&["string", sub, &text, &other]),
            1 => words(&["string", sub, "-nocase", &text, &text.to_uppercase()]),
            _ => words(&[
                "string",
                sub,
                "-nocase",
                "-length",
                "3",
                &text,
                &dice.text(PLAIN, 8),
            ]),
        },
        "first" | "last" if dice.one_in(2) => words(&["string", sub, &other, &text]),
        "first" | "last" => words(&["string", sub, &other, &text, &first]),
        "index" => words(&["string", sub, &text, &first]),
        "range" => words(&["string", sub, &text, &first, &last]),
        "replace" if dice.one_in(2) => words(&["string", sub, &text, &first, &last]),
        "replace" => words(&["string", sub, &text, &first, &last, &other]),
        "map" => {
            let map = dice.list("abAB");
            if dice.one_in(3) {
                words(&["string", sub, "-nocase", &map, &text])
            } else {
                words(&["string", sub, &map, &text])
            }
        }
        "match" => {
            let pattern = dice.text("aabAB*?[-]\\1", 6);
            // Brackets that are not closed, and backslashes at the end, are read in several ways.
            if pattern.ends_with('\\')
                || pattern.matches('[').count() > pattern.matches(']').count()
            {
                return words(&["string", sub, "a*", &text]);
            }
            let text = dice.text("aabAB1", 6);
            if dice.one_in(3) {
                words(&["string", sub, "-nocase", &pattern, &text])
            } else {
                words(&["string", sub, &pattern, &text])
            }
        }
        "case" => {
            let sub = dice.pick(&["tolower", "toupper", "totitle"]);
            match dice.below(3) {
                0 => words(&["string", sub, &text]),
                1 => words(&["string", sub, &text, &first]),
                _ => words(&["string", sub, &text, &first, &last]),
            }
        }
        "trim" => {
            let sub = dice.pick(&["trim", "trimleft", "trimright"]);
            if dice.one_in(2) {
                words(&["string", sub, &text])
            } else {
                words(&["string", sub, &text, &other])
            }
        }
        "word" => words(&[
            "string",
            dice.pick(&["wordstart", "wordend"]),
            &text,
            &first,
        ]),
        "is" => {
            let class = dice.pick(&[
                "alnum", "alpha", "ascii", "control", "digit", "graph", "lower", "print", "punct",
                "space", "upper", "wordchar", "xdigit",
            ]);
            let chars = dice.pick(&[PLAIN, "ab", "AB", "12f", "!+-$", " \t\n"]);
            let text = dice.text(chars, 4);
            match dice.below(3) {
                0 => words(&["string", "is", class, &text]),
                1 => words(&["string", "is", class, "-strict", &text]),
                _ => words(&["string", "is", class, "-failindex", "a", &text]),
            }
        }
        "number" => {
            let class = dice.pick(&["integer", "double"]);
            let text = dice.text("12345.+- ", 4);
            words(&["string", "is", class, "-strict", &text])
        }
        _ => words(&[
            "string",
            "repeat",
            &other,
            &(dice.below(6) as i64 - 1).to_string(),
        ]),
    }
}

fn list(dice: &mut Dice) -> Words {
    let chars = dice.pick(&["ab", "ab {}", "12", "a\"\\$[;\n"]);
    let list = dice.list(chars);
    let (first, last) = (dice.index(), dice.index());
    let item = dice.text(chars, 2);
    let sub = dice.pick(&[
        "llength", "lindex", "lrange", "linsert", "lreplace", "lsearch", "lsort", "concat", "join",
        "split", "list",
    ]);
    match sub {
        "llength" => words(&[sub, &list]),
        "lindex" => match dice.below(3) {
            0 => words(&[sub, &list, &first]),
            1 => words(&[sub, &list, &first, &last]),
            _ => words(&[
                sub,
                &list,
                &std::format!("{} {}", dice.below(4), dice.below(2)),
            ]),
        },
        "lrange" => words(&[sub, &list, &first, &last]),
        "linsert" => words(&[sub, &list, &first, &item, "x"]),
        "lreplace" => {
            // Places behind the end were an error once.
            let first = dice.pick(&["0", "-1", "end"]);
            words(&[sub, &list, first, &last, &item])
        }
        "lsearch" => {
            let mut command = vec![sub];
            for option in ["-exact", "-not", "-all", "-inline"] {
                if dice.one_in(3) {
                    command.push(option);
                }
            }
            let start = dice.below(4).to_string();
            if dice.one_in(4) {
                command.extend(["-start", &start]);
            }
            command.push(&list);
            command.push(&item);
            if item.contains(['\\', '[']) {
                command.insert(1, "-exact");
            }
            words(&command)
        }
        "lsort" => {
            let mut command = vec![sub];
            for option in ["-unique", "-decreasing"] {
                if dice.one_in(3) {
                    command.push(option);
                }
            }
            match dice.below(4) {
                0 => {
                    let numbers: Vec<_> = (0..dice.below(8))
                        .map(|_| dice.below(30).to_string())
                        .collect();
                    let numbers = numbers.join(" ");
                    command.extend([dice.pick(&["-integer", "-real"]), &numbers]);
                    words(&command)
                }
                1 => {
                    let texts: Vec<_> = (0..dice.below(8))
                        .map(|_| dice.text("aAbB0019", 4) + "z")
                        .collect();
                    let texts = texts.join(" ");
                    command.extend(["-dictionary", &texts]);
                    words(&command)
                }
                2 => {
                    let pairs: Vec<_> = (0..dice.below(8))
                        .map(|_| std::format!("{{{} {}}}", dice.below(4), dice.below(4)))
                        .collect();
                    let pairs = pairs.join(" ");
                    command.extend(["-index", dice.pick(&["0", "1", "end"]), &pairs]);
                    words(&command)
                }
                _ => {
                    command.push(&list);
                    words(&command)
                }
            }
        }
        "concat" => words(&[sub, &list, &dice.list(chars)]),
        "join" => words(&[sub, &list, dice.pick(&["", ",", " ", "--"])]),
        "split" => words(&[
            sub,
            &dice.text("a,b-c. 01", 10),
            dice.pick(&["", ",", ",-", ",-. ", ",-.a"]),
        ]),
        _ => words(&["list", &item, &list]),
    }
}

fn format(dice: &mut Dice) -> Words {
    let mut format = dice.text("ab ", 3);
    let mut command = Vec::new();
    for _ in 0..1 + dice.below(2) {
        let letter = dice.pick(&[
            "d", "i", "u", "x", "X", "o", "c", "s", "f", "e", "E", "g", "G",
        ]);
        let mut flags = dice.text("-+ 0", 2);
        if letter == "s" || letter == "c" {
            flags = flags.replace(['0', '+', ' '], "");
        } else if "uxXo".contains(letter) {
            flags = flags.replace(['+', ' '], "");
        }
        if flags.contains('-') {
            // There zeros fill up on the left all the same.
            flags = flags.replace('0', "");
        }
        format += "%";
        format += &flags;
        if dice.one_in(2) {
            format += &dice.below(12).to_string();
        }
        if dice.one_in(3) && letter != "c" {
            format += &std::format!(".{}", dice.below(8));
        }
        let value = match letter {
            "d" | "i" => (dice.below(100_000) as i64 - 50_000).to_string(),
            "c" => (32 + dice.below(200)).to_string(),
            "s" => dice.text("xyz ", 6),
            "u" | "x" | "X" | "o" => {
                let size = dice.pick(&["", "l", "h"]);
                format += size;
                let value = dice.below(60_000) as i64;
                if size == "l" && dice.one_in(2) {
                    -value
                } else {
                    value
                }
                .to_string()
            }
            _ => {
                let number = dice.below(2_000_000) as f64 - 1_000_000.0;
                let powers = [1e-12, 1e-5, 1e-3, 0.1, 1.0, 1e3, 1e9];
                std::format!("{:e}", number * powers[dice.below(7)])
            }
        };
        format += letter;
        format += dice.pick(&["", "%%", ","]);
        command.push(value);
    }
    if dice.one_in(20) {
        command.pop();
    }
    let mut all = vec!["format".to_owned(), format];
    all.extend(command);
    all.into_iter().map(String::into_bytes).collect()
}

fn scan(dice: &mut Dice) -> Words {
    let mut format = String::new();
    let mut text = String::new();
    for _ in 0..1 + dice.below(3) {
        let width = if dice.one_in(4) {
            (2 + dice.below(3)).to_string()
        } else {
            String::new()
        };
        let piece = dice.pick(&[
            "%d", "%i", "%x", "%o", "%f", "%s", "%c", "%[a-c]", "%[^,]", "%n", "%*d", "%u",
        ]);
        if width.is_empty() || matches!(piece, "%c" | "%n" | "%*d") {
            format += piece;
        } else {
            format += &piece.replace('%', &("%".to_owned() + &width));
        }
        format += dice.pick(&["", " ", ",", "x"]);
        text += &match dice.below(4) {
            0 => dice.text("abcx,", 4),
            1 => std::format!("{}.{}", dice.below(100), dice.below(100)),
            2 => (dice.below(3000) as i64 - 500).to_string(),
            _ => dice.text("0123x afe,", 5),
        };
        text += dice.pick(&["", " ", ",", "x"]);
    }
    words(&["scan", &text, &format])
}

const KINDS: [&str; 15] = [
    "a", "A", "b", "B", "h", "H", "c", "s", "S", "i", "I", "w", "W", "x", "X",
];

fn binary_format(dice: &mut Dice) -> Words {
    let mut format = String::new();
    let mut values = Vec::new();
    for _ in 0..1 + dice.below(4) {
        // Some releases of tclsh lose their memory over `X`.
        let kind = dice.pick(&KINDS[..KINDS.len() - 1]);
        format += dice.pick(&["", " "]);
        format += kind;
        let count = match dice.below(3) {
            0 => String::new(),
            1 if kind != "x" => "*".into(),
            _ => dice.below(5).to_string(),
        };
        format += &count;
        match kind {
            "x" => {}
            "a" | "A" => values.push(dice.text("xyz", 4)),
            "b" | "B" => values.push(dice.text("01", 20)),
            "h" | "H" => values.push(dice.text("0123456789abcdefABCDEF", 6)),
            _ if count.is_empty() => values.push((dice.below(100_000) as i64 - 50_000).to_string()),
            _ => {
                let numbers: Vec<_> = (0..4)
                    .map(|_| (dice.below(100_000) as i64 - 50_000).to_string())
                    .collect();
                values.push(numbers.join(" "));
            }
        }
        if dice.one_in(8) {
            format += &std::format!("@{}", dice.below(12));
        }
    }
    let mut all = vec!["binary".to_owned(), "format".to_owned(), format];
    all.extend(values);
    all.into_iter().map(String::into_bytes).collect()
}

fn binary_scan(dice: &mut Dice) -> Words {
    let bytes: Vec<u8> = (0..dice.below(20)).map(|_| dice.below(256) as u8).collect();
    let mut format = String::new();
    for _ in 0..1 + dice.below(3) {
        format += dice.pick(&KINDS);
        format += &match dice.below(3) {
            0 => String::new(),
            1 => "*".into(),
            _ => dice.below(6).to_string(),
        };
        if dice.one_in(4) {
            format += &std::format!("@{}", dice.below(12));
        }
    }
    let mut all = words(&["binary", "scan"]);
    all.extend([bytes, format.into_bytes()]);
    all.extend(words(&VARIABLES));
    all
}
