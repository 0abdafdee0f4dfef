//! `switch`: a table where all patterns are plain texts, else one comparison after the other.

use super::Compiler;
use crate::ast::{At, Command, Word, WordKind};
use crate::code::{Matching, Op};
use crate::map::Map;
use std::ops::Range;

/// A pattern or body of a `switch` that was written as a list in braces.
struct Element {
    text: Vec<u8>,
    at: At,
    /// Where its text stands in the rule, for one in braces.
    inner: Option<Range<u32>>,
}

impl Compiler<'_, '_> {
    pub(super) fn switch(&mut self, command: &Command, want: bool) -> bool {
        const USAGE: &str = "switch ?switches? string pattern body ... ?default body?";
        let mut words = &command.words[1..];
        let mut matching = Matching::Exact;
        while let [first, rest @ ..] = words
            && let Some(option) = first.literal()
            && option.first() == Some(&b'-')
            && rest.len() > 1
        {
            words = rest;
            match option {
                b"-exact" | b"-exac" | b"-exa" | b"-ex" | b"-e" => matching = Matching::Exact,
                b"-glob" | b"-glo" | b"-gl" | b"-g" => matching = Matching::Glob,
                b"-regexp" | b"-regex" | b"-rege" | b"-reg" | b"-re" | b"-r" => {
                    matching = Matching::Regex;
                }
                b"--" => break,
                other => {
                    let message = format!(
                        "bad option \"{}\": must be -exact, -glob, -regexp, or --",
                        String::from_utf8_lossy(other)
                    );
                    self.raise(command, &message, want);
                    return true;
                }
            }
        }
        let Some((value, arms)) = words.split_first() else {
            self.usage(command, USAGE, want);
            return true;
        };
        let mut arms: Vec<Word> = match arms {
            [] => {
                self.usage(command, USAGE, want);
                return true;
            }
            [list] => match self.elements(list) {
                Some(Ok(elements)) => elements,
                Some(Err(message)) => {
                    self.raise(command, &message, want);
                    return true;
                }
                None => {
                    // The arms are known only when it runs: it is compiled then.
                    self.plain_words(command);
                    self.keep(want);
                    return true;
                }
            },
            arms => arms.to_vec(),
        };
        if arms.is_empty() {
            self.usage(
                command,
                "switch ?switches? string {pattern body ... ?default body?}",
                want,
            );
            return true;
        }
        if !arms.len().is_multiple_of(2) {
            self.raise(command, "extra switch pattern with no body", want);
            return true;
        }
        if arms[arms.len() - 1].literal() == Some(b"-") {
            let message = format!(
                "no body specified for pattern \"{}\"",
                String::from_utf8_lossy(arms[arms.len() - 2].literal().unwrap_or(b""))
            );
            self.raise(command, &message, want);
            return true;
        }
        let bodies: Vec<Word> = arms.iter().skip(1).step_by(2).cloned().collect();
        let patterns: Vec<Word> = arms.drain(..).step_by(2).collect();
        self.word(value);
        self.arms(matching, &patterns, &bodies, want);
        true
    }

    /// The arms; the value is on the stack.
    fn arms(&mut self, matching: Matching, patterns: &[Word], bodies: &[Word], want: bool) {
        let plain = matching == Matching::Exact && patterns.iter().all(|p| p.literal().is_some());
        let has_default = patterns
            .last()
            .is_some_and(|p| p.literal() == Some(b"default"));
        let mut entries: Vec<Vec<usize>> = vec![Vec::new(); patterns.len()];
        let mut table = None;
        if plain && patterns.len() > 3 {
            table = Some(self.switches.len());
            self.switches.push(Map::default());
            self.defaults.push(0);
            self.emit(Op::Switch(self.switches.len() as u32 - 1));
            self.depth -= 1;
        } else {
            for (n, pattern) in patterns.iter().enumerate() {
                if has_default && n + 1 == patterns.len() {
                    break;
                }
                self.emit(Op::Dup);
                self.depth += 1;
                self.word(pattern);
                self.emit(Op::Matches(matching));
                self.depth -= 1;
                entries[n].push(self.emit(Op::JumpIf(0)));
                self.depth -= 1;
            }
        }
        // Nothing fits.
        let before = self.depth - u32::from(table.is_none());
        let miss = self.emit(Op::Jump(0));
        let mut starts = vec![0; bodies.len()];
        let mut ends = Vec::new();
        for (n, body) in bodies.iter().enumerate() {
            starts[n] = self.here();
            let falls = body.literal() == Some(b"-");
            for jump in std::mem::take(&mut entries[n]) {
                self.land(jump);
            }
            if falls {
                continue;
            }
            if table.is_none() {
                self.depth = before + 1;
                self.pop();
            }
            self.depth = before;
            self.body(body, want);
            ends.push(self.emit(Op::Jump(0)));
            self.depth = before;
        }
        let default = has_default.then(|| bodies.len() - 1);
        match table {
            Some(number) => {
                for (n, pattern) in patterns.iter().enumerate() {
                    if Some(n) == default {
                        break;
                    }
                    let text = pattern.literal().unwrap_or(b"");
                    // The first of two that are the same is the one.
                    self.switches[number]
                        .entry(text.into())
                        .or_insert(starts[n]);
                }
                self.defaults[number] = match default {
                    Some(n) => starts[n],
                    None => self.here(),
                };
                self.land(miss);
            }
            None => match default {
                Some(n) => {
                    self.point(miss, starts[n]);
                }
                None => {
                    self.land(miss);
                    self.depth = before + 1;
                    self.pop();
                }
            },
        }
        self.depth = before;
        if default.is_none() || table.is_some() {
            self.nothing(want);
        }
        for end in ends {
            self.land(end);
        }
        self.depth = before + u32::from(want);
    }

    /// The arms of a list in braces, as words; `None` if the list is not known yet.
    fn elements(&self, list: &Word) -> Option<Result<Vec<Word>, String>> {
        let elements = match &list.inner {
            Some(range) => split(&self.source.text, range.clone(), true, list.at),
            None => {
                let text = list.literal()?;
                split(text, 0..text.len() as u32, false, list.at)
            }
        };
        Some(elements.map(|elements| {
            let word = |element: Element| Word {
                parts: match element.text.as_slice() {
                    [] => Vec::new(),
                    _ => vec![crate::ast::Part::Text(element.text)],
                },
                at: element.at,
                kind: WordKind::Braced,
                inner: element.inner,
            };
            elements.into_iter().map(word).collect()
        }))
    }
}

/// Splits a list, and keeps where its elements stand if `exact`.
fn split(text: &[u8], range: Range<u32>, exact: bool, at: At) -> Result<Vec<Element>, String> {
    let (start, end) = (range.start as usize, range.end as usize);
    let blank = |b: u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let mut elements = Vec::new();
    let mut here = start;
    loop {
        while here < end && (blank(text[here]) || text[here..end].starts_with(b"\\\n")) {
            here += if text[here] == b'\\' { 2 } else { 1 };
        }
        if here >= end {
            return Ok(elements);
        }
        let place = if exact { here as At } else { at };
        if text[here] == b'{' {
            let mut depth = 0_u32;
            let mut to = here;
            while to < end {
                match text[to] {
                    b'\\' => to += 1,
                    b'{' => depth += 1,
                    b'}' => {
                        depth -= 1;
                        if depth == 0 {
                            break;
                        }
                    }
                    _ => {}
                }
                to += 1;
            }
            if to >= end {
                return Err("unmatched open brace in list".into());
            }
            elements.push(Element {
                text: text[here + 1..to].to_vec(),
                at: place,
                inner: exact.then_some(here as u32 + 1..to as u32),
            });
            here = to + 1;
            continue;
        }
        let quoted = text[here] == b'"';
        let from = here + usize::from(quoted);
        let mut to = from;
        while to < end
            && if quoted {
                text[to] != b'"'
            } else {
                !blank(text[to])
            }
        {
            to += if text[to] == b'\\' { 2 } else { 1 };
        }
        let to = to.min(end);
        if quoted && to >= end {
            return Err("unmatched open quote in list".into());
        }
        let mut plain = Vec::new();
        let mut rest = &text[from..to];
        while let Some(&byte) = rest.first() {
            if byte == b'\\' {
                let used = crate::parse::backslash(rest, &mut plain);
                rest = &rest[used..];
            } else {
                plain.push(byte);
                rest = &rest[1..];
            }
        }
        elements.push(Element {
            text: plain,
            at: place,
            inner: None,
        });
        here = to + usize::from(quoted);
    }
}
