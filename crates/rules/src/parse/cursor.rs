//! Words and what they are put together of: the part of the grammar that scripts, expressions and `subst` share.

use super::{NESTING, SyntaxError, offset};
use crate::ast::{Command, Part, Script, Var, Word, WordKind};

/// A place in a text. Offsets count from the start of the text, wherever the part that is parsed begins and ends.
pub(super) struct Cursor<'a> {
    /// The text up to the end of the part that is parsed.
    pub(super) text: &'a [u8],
    /// The next byte.
    pub(super) at: usize,
    /// How many brackets, indices and parentheses are open.
    depth: u32,
}

/// Where a run of parts ends, and what is substituted in it.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Classes of bytes that end it.
    stop: u8,
    /// Classes of bytes that are more than themselves.
    special: u8,
}

/// What `subst` goes through: to the end of the text.
pub(super) fn substituted(backslashes: bool, commands: bool, variables: bool) -> Run {
    let class = |on: bool, class: u8| if on { class } else { 0 };
    Run {
        stop: 0,
        special: class(backslashes, BACKSLASH)
            | class(commands, BRACKET)
            | class(variables, DOLLAR),
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], at: usize) -> Self {
        Self { text, at, depth: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Runs `inner` one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        self.enter()?;
        let result = inner(self);
        self.leave();
        result
    }

    pub(super) fn enter(&mut self) -> Result<(), SyntaxError> {
        if self.depth >= NESTING {
            return Err(SyntaxError::new(self.at, "too deeply nested"));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The commands up to the end of the text, or to the bracket that closes the one at `open`.
    pub(super) fn commands(&mut self, open: Option<usize>) -> Result<Script, SyntaxError> {
        let mut commands: Vec<Command> = Vec::new();
        loop {
            let semicolon = self.between_commands();
            match self.peek() {
                None => {
                    return match open {
                        None => Ok(Script { commands }),
                        Some(open) => Err(SyntaxError::new(open, "missing close-bracket")),
                    };
                }
                Some(b']') if open.is_some() => {
                    self.at += 1;
                    return Ok(Script { commands });
                }
                Some(_) => {}
            }
            match commands.last_mut() {
                Some(before) if !semicolon && awaits_else(&before.words) => {
                    let tight = self.tight_keyword();
                    let command = self.command(open.is_some(), tight)?;
                    if is_bare(&command.words[0], &KEYWORDS) {
                        before.end = command.end;
                        before.words.extend(command.words);
                    } else {
                        commands.push(command);
                    }
                }
                _ => commands.push(self.command(open.is_some(), None)?),
            }
        }
    }

    /// Skips what may stand between commands. Whether there was a semicolon.
    pub(super) fn between_commands(&mut self) -> bool {
        let mut semicolon = false;
        loop {
            self.blanks();
            match self.peek() {
                Some(b'\n') => self.at += 1,
                Some(b';') => {
                    semicolon = true;
                    self.at += 1;
                }
                Some(b'#') => self.comment(),
                _ => return semicolon,
            }
        }
    }

    fn comment(&mut self) {
        while let Some(next) = memchr::memchr2(b'\n', b'\\', &self.text[self.at..]) {
            self.at += next;
            if self.text[self.at] == b'\n' {
                return;
            }
            self.at = match self.continuation() {
                Some(end) => end,
                None => (self.at + 2).min(self.text.len()),
            };
        }
        self.at = self.text.len();
    }

    /// Skips blanks, and ends of lines behind a backslash.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(byte) if is(byte, BLANK) => self.at += 1,
                Some(b'\\') => match self.continuation() {
                    Some(end) => self.at = end,
                    None => return,
                },
                _ => return,
            }
        }
    }

    /// Where the backslash here, the end of line after it and the blanks after that end, if it is one.
    fn continuation(&self) -> Option<usize> {
        continuation(&self.text[self.at..]).map(|length| self.at + length)
    }

    /// One command, up to what ends it. Its first word may have been read already.
    pub(super) fn command(
        &mut self,
        nested: bool,
        first: Option<Word>,
    ) -> Result<Command, SyntaxError> {
        let at = first.as_ref().map_or(offset(self.at), |word| word.at);
        let mut words = Vec::with_capacity(4);
        words.extend(first);
        loop {
            let tight = if awaits_else(&words) {
                self.tight_keyword()
            } else {
                None
            };
            words.push(match tight {
                Some(keyword) => keyword,
                None => self.word(nested)?,
            });
            let end = self.at;
            self.blanks();
            let ended = match self.peek() {
                None | Some(b'\n' | b';') => true,
                Some(byte) => nested && byte == b']',
            };
            if ended {
                return Ok(Command {
                    words,
                    at,
                    end: offset(end),
                });
            }
        }
    }

    /// A keyword of `if` right before a brace, which is no part of it: BIG-IP takes `}else{`.
    fn tight_keyword(&mut self) -> Option<Word> {
        let rest = &self.text[self.at..];
        let found = KEYWORDS
            .iter()
            .find(|keyword| rest.starts_with(keyword) && rest.get(keyword.len()) == Some(&b'{'))?;
        Some(self.bare(found.len()))
    }

    /// The next `length` bytes as a word.
    pub(super) fn bare(&mut self, length: usize) -> Word {
        let at = self.at;
        self.at += length;
        Word {
            parts: vec![Part::Text(self.text[at..self.at].to_vec())],
            at: offset(at),
            kind: WordKind::Bare,
            inner: None,
        }
    }

    fn word(&mut self, nested: bool) -> Result<Word, SyntaxError> {
        let at = self.at;
        let mut inner = None;
        let (parts, kind) = match self.peek() {
            Some(b'{') => {
                let text = self.braced()?;
                inner = Some(offset(at + 1)..offset(self.at - 1));
                self.after_brace(at)?;
                let parts = if text.is_empty() {
                    Vec::new()
                } else {
                    vec![Part::Text(text)]
                };
                (parts, WordKind::Braced)
            }
            Some(b'"') => {
                let parts = self.quoted()?;
                self.after_quote(nested)?;
                (parts, WordKind::Quoted)
            }
            _ => {
                let closing = if nested { CLOSE_BRACKET } else { 0 };
                let run = Run {
                    stop: BLANK | COMMAND_END | closing,
                    special: SUBSTITUTED,
                };
                (self.parts(run)?, WordKind::Bare)
            }
        };
        Ok(Word {
            parts,
            at: offset(at),
            kind,
            inner,
        })
    }

    /// The text between the braces that open here.
    pub(super) fn braced(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let open = self.at;
        let mut text = Vec::new();
        let mut copied = open + 1;
        let mut depth = 0_u32;
        while let Some(next) = memchr::memchr3(b'{', b'}', b'\\', &self.text[self.at..]) {
            self.at += next;
            match self.text[self.at] {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {
                    if let Some(end) = self.continuation() {
                        text.extend_from_slice(&self.text[copied..self.at]);
                        text.push(b' ');
                        copied = end;
                        self.at = end;
                    } else {
                        self.at = (self.at + 2).min(self.text.len());
                    }
                    continue;
                }
            }
            self.at += 1;
            if depth == 0 {
                text.extend_from_slice(&self.text[copied..self.at - 1]);
                return Ok(text);
            }
        }
        self.at = self.text.len();
        let hint =
            "braces in comments and in quotes count as well, unless a backslash stands before them";
        Err(SyntaxError::new(open, "missing close-brace").hint(hint))
    }

    /// BIG-IP lets the next word begin right after a brace. A second closing brace is one too many nevertheless.
    fn after_brace(&self, open: usize) -> Result<(), SyntaxError> {
        let error = || SyntaxError::new(self.at, "extra characters after close-brace");
        match self.peek() {
            Some(b'}') => Err(error()),
            Some(byte)
                if &self.text[open..self.at] == b"{*}"
                    && !is(byte, BLANK | COMMAND_END | CLOSE_BRACKET | BACKSLASH) =>
            {
                Err(error().hint("expansion by {*} is younger than this Tcl: use eval"))
            }
            _ => Ok(()),
        }
    }

    /// The parts of the text between the quotes that open here.
    pub(super) fn quoted(&mut self) -> Result<Vec<Part>, SyntaxError> {
        let open = self.at;
        self.at += 1;
        let parts = self.parts(Run {
            stop: QUOTE,
            special: SUBSTITUTED,
        })?;
        if self.peek().is_none() {
            return Err(SyntaxError::new(open, "missing \""));
        }
        self.at += 1;
        Ok(parts)
    }

    fn after_quote(&self, nested: bool) -> Result<(), SyntaxError> {
        let fine = match self.peek() {
            None | Some(b'{') => true,
            Some(b'\\') => self.continuation().is_some(),
            Some(b']') => nested,
            Some(byte) => is(byte, BLANK | COMMAND_END),
        };
        if fine {
            Ok(())
        } else {
            let message = "extra characters after close-quote";
            Err(SyntaxError::new(self.at, message))
        }
    }

    /// Parts up to a byte that ends the run, which is not taken.
    pub(super) fn parts(&mut self, run: Run) -> Result<Vec<Part>, SyntaxError> {
        let mut parts = Vec::new();
        let mut text = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest
                .iter()
                .position(|&byte| is(byte, run.stop | run.special))
                .unwrap_or(rest.len());
            text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            let part = match self.peek() {
                None => break,
                Some(byte) if is(byte, run.stop) => break,
                Some(b'$') => match self.variable()? {
                    Some(var) => Part::Var(var),
                    None => {
                        text.push(b'$');
                        self.at += 1;
                        continue;
                    }
                },
                Some(b'[') => Part::Script(self.bracketed()?),
                Some(_) => {
                    if run.stop & BLANK != 0 && self.continuation().is_some() {
                        break;
                    }
                    self.backslash(&mut text);
                    continue;
                }
            };
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(part);
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(parts)
    }

    /// The script in the brackets that open here.
    pub(super) fn bracketed(&mut self) -> Result<Script, SyntaxError> {
        let open = self.at;
        self.nested(|inner| {
            inner.at += 1;
            inner.commands(Some(open))
        })
    }

    /// The variable whose `$` is here; nothing, and nothing taken, if no name follows.
    pub(super) fn variable(&mut self) -> Result<Option<Var>, SyntaxError> {
        let at = self.at;
        let start = at + 1;
        if self.text.get(start) == Some(&b'{') {
            return self.variable_in_braces().map(Some);
        }
        let rest = &self.text[start..];
        let length = name_length(rest);
        let array = rest.get(length) == Some(&b'(');
        if length == 0 && !array {
            return Ok(None);
        }
        self.at = start + length;
        let index = if array { Some(self.index()?) } else { None };
        Ok(Some(Var {
            name: rest[..length].to_vec(),
            index,
            at: offset(at),
        }))
    }

    fn variable_in_braces(&mut self) -> Result<Var, SyntaxError> {
        let at = self.at;
        let start = at + 2;
        let Some(length) = memchr::memchr(b'}', &self.text[start..]) else {
            let message = "missing close-brace for variable name";
            return Err(SyntaxError::new(at + 1, message));
        };
        let name = &self.text[start..start + length];
        self.at = start + length + 1;
        // What is written `${a(b)}` names the element b of a, as any name that is computed does.
        let open = memchr::memchr(b'(', name).filter(|_| name.last() == Some(&b')'));
        let (name, index) = match open {
            None => (name, None),
            Some(open) => {
                let index = &name[open + 1..name.len() - 1];
                let parts = if index.is_empty() {
                    Vec::new()
                } else {
                    vec![Part::Text(index.to_vec())]
                };
                (&name[..open], Some(parts))
            }
        };
        Ok(Var {
            name: name.to_vec(),
            index,
            at: offset(at),
        })
    }

    fn index(&mut self) -> Result<Vec<Part>, SyntaxError> {
        let open = self.at;
        self.nested(|inner| {
            inner.at += 1;
            let parts = inner.parts(Run {
                stop: CLOSE_PAREN,
                special: SUBSTITUTED,
            })?;
            if inner.peek().is_none() {
                return Err(SyntaxError::new(open, "missing )"));
            }
            inner.at += 1;
            Ok(parts)
        })
    }

    /// Appends what the backslash here and the characters after it stand for.
    fn backslash(&mut self, text: &mut Vec<u8>) {
        self.at += backslash(&self.text[self.at..], text);
    }
}

/// Appends what the backslash that begins `text` and the characters after it stand for. How many bytes those are.
pub fn backslash(text: &[u8], out: &mut Vec<u8>) -> usize {
    if let Some(length) = continuation(text) {
        out.push(b' ');
        return length;
    }
    let [_, byte, rest @ ..] = text else {
        out.push(b'\\');
        return text.len();
    };
    let mut length = 0;
    let simple = match byte {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'0'..=b'7' => {
            let (value, more) = digits(rest, 8, 2);
            length = more;
            let high = u32::from(byte - b'0') << (3 * length);
            low_byte(high | value)
        }
        b'x' => {
            // However many digits there are, the last two make the byte.
            let (value, more) = digits(rest, 16, usize::MAX);
            length = more;
            if length == 0 { b'x' } else { low_byte(value) }
        }
        b'u' => {
            let (value, more) = digits(rest, 16, 4);
            if more > 0 {
                push_character(out, value);
                return 2 + more;
            }
            b'u'
        }
        other => *other,
    };
    out.push(simple);
    2 + length
}

/// The length of the backslash that begins `text`, the end of line after it and the blanks after that, if it is one.
fn continuation(text: &[u8]) -> Option<usize> {
    let after = text.get(1..)?;
    let end = line_end(after)?;
    let blanks = after[end..].iter();
    let blanks = blanks.take_while(|byte| matches!(byte, b' ' | b'\t'));
    Some(1 + end + blanks.count())
}

/// What may follow the body in an `if`, or its condition.
const KEYWORDS: [&[u8]; 3] = [b"else", b"elseif", b"then"];

/// Whether these words are an `if` that may go on, on the next line as well: BIG-IP lets `else` begin a line.
fn awaits_else(words: &[Word]) -> bool {
    matches!(words, [first, .., last] if last.kind == WordKind::Braced && is_bare(first, &[b"if"]))
}

fn is_bare(word: &Word, names: &[&[u8]]) -> bool {
    word.kind == WordKind::Bare && word.literal().is_some_and(|name| names.contains(&name))
}

/// The length of an end of line that stands at the start.
fn line_end(text: &[u8]) -> Option<usize> {
    match text {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}

/// The length of the name of a variable that stands at the start: letters, digits, `_`, and colons if there are at least
/// two in a row.
fn name_length(text: &[u8]) -> usize {
    let mut length = 0;
    loop {
        match text[length..] {
            [b'_', ..] => length += 1,
            [byte, ..] if byte.is_ascii_alphanumeric() => length += 1,
            [b':', b':', ..] => {
                while text.get(length) == Some(&b':') {
                    length += 1;
                }
            }
            _ => return length,
        }
    }
}

/// The value, cut to 32 bits, and the number of the digits that stand at the start.
fn digits(text: &[u8], radix: u32, most: usize) -> (u32, usize) {
    let mut value = 0_u32;
    let mut length = 0;
    for &byte in text.iter().take(most) {
        let Some(digit) = char::from(byte).to_digit(radix) else {
            break;
        };
        value = value.wrapping_mul(radix) | digit;
        length += 1;
    }
    (value, length)
}

fn low_byte(value: u32) -> u8 {
    value.to_le_bytes()[0]
}

/// A character that is no byte becomes its UTF-8, halves of surrogate pairs by the same pattern.
fn push_character(text: &mut Vec<u8>, value: u32) {
    let tail = |shift: u32| 0x80 | (low_byte(value >> shift) & 0x3f);
    match value {
        0..=0xff => text.push(low_byte(value)),
        0x100..=0x7ff => text.extend([0xc0 | low_byte(value >> 6), tail(0)]),
        _ => text.extend([0xe0 | low_byte(value >> 12), tail(6), tail(0)]),
    }
}

const BLANK: u8 = 1;
const COMMAND_END: u8 = 2;
const QUOTE: u8 = 4;
const CLOSE_PAREN: u8 = 8;
const CLOSE_BRACKET: u8 = 16;
const DOLLAR: u8 = 32;
const BRACKET: u8 = 64;
const BACKSLASH: u8 = 128;
const SUBSTITUTED: u8 = DOLLAR | BRACKET | BACKSLASH;

fn is(byte: u8, classes: u8) -> bool {
    CLASSES[usize::from(byte)] & classes != 0
}

/// What each byte may be.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    classes[b' ' as usize] = BLANK;
    classes[b'\t' as usize] = BLANK;
    classes[0x0b] = BLANK;
    classes[0x0c] = BLANK;
    classes[b'\r' as usize] = BLANK;
    classes[b'\n' as usize] = COMMAND_END;
    classes[b';' as usize] = COMMAND_END;
    classes[b'"' as usize] = QUOTE;
    classes[b')' as usize] = CLOSE_PAREN;
    classes[b']' as usize] = CLOSE_BRACKET;
    classes[b'$' as usize] = DOLLAR;
    classes[b'[' as usize] = BRACKET;
    classes[b'\\' as usize] = BACKSLASH;
    classes
};
