//! The fuzz targets' bodies on rules and on what a seeded generator makes of them: a bounded run for machines without a
//! fuzzer. The same seed gives the same run.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bodies;

const RULES: &[&[u8]] = &[
    include_bytes!("../testdata/fuzz/corners.tcl"),
    include_bytes!("../testdata/fuzz/values.tcl"),
];

#[test]
fn the_parser_holds_under_mutation() {
    run(&corpus(), 100_000, bodies::rule_parse);
}

#[test]
fn the_machine_holds_under_mutation() {
    let mut corpus = corpus();
    let cases = include_str!("../testdata/tcl/control.txt");
    let scripts = cases.lines().filter(|line| !line.starts_with(['#', '=']));
    corpus.extend(scripts.map(|line| line.as_bytes().to_vec()));
    run(&corpus, 5_000, bodies::rule_run);
}

#[test]
fn the_rules_are_sound() {
    for text in RULES {
        let source = rules::RuleSource {
            name: "fuzz".into(),
            text: (*text).into(),
        };
        let found = rules::check(&source);
        let errors = found
            .iter()
            .filter(|found| found.severity == rules::Severity::Error);
        assert_eq!(errors.collect::<Vec<_>>(), Vec::<&rules::Diagnostic>::new());
    }
}

/// The rules and each of their lines.
fn corpus() -> Vec<Vec<u8>> {
    let lines = RULES
        .iter()
        .flat_map(|rule| rule.split_inclusive(|&byte| byte == b'\n'));
    RULES
        .iter()
        .copied()
        .chain(lines)
        .map(<[u8]>::to_vec)
        .collect()
}

fn run(corpus: &[Vec<u8>], tries: usize, body: impl Fn(&[u8])) {
    corpus.iter().for_each(|bytes| body(bytes));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..tries {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(3) {
            mutate(&mut bytes, corpus, &mut random);
        }
        body(&bytes);
    }
}

fn mutate(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    const TELLING: &[u8] = b"{}[]()\"\\$;#:\n\r\t -+*/%<>=!&|^~?,.059xeu\0\x80\xff";
    const PHRASES: &[&[u8]] = &[
        b"when A {\n}\n",
        b"\\\n  ",
        b"}{",
        b"}\nelse {",
        b"if {1} {",
        b" starts_with ",
        b" && ",
        b"$a(",
        b"${",
        b"[expr {",
        b"not ",
        b"{*}",
    ];
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(24)).min(bytes.len());
    match random.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = TELLING[random.below(TELLING.len())],
        2 => bytes.insert(at, TELLING[random.below(TELLING.len())]),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let again = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, again));
        }
        5 => bytes.truncate(at),
        6 => drop(bytes.splice(at..at, PHRASES[random.below(PHRASES.len())].iter().copied())),
        _ => {
            let other = &corpus[random.below(corpus.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % limit
    }
}
