//! The lexer: directors and options at the start of a pattern, then one token at a time, a bracket expression being one.
//! Three syntaxes: advanced (Tcl's own), and the plain and basic ones that `(?e)` and `(?b)` ask for.

use super::set::{ByteSet, collating_element};
use super::{Flags, Info, RegexError};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Start,
    End,
    Set(ByteSet),
    Dot,
    /// `*`, `+` or `?`: how often, and whether it would rather have more.
    Quantifier {
        min: u32,
        max: Option<u32>,
        greedy: bool,
    },
    /// A bound begins; `Lexer::bound` reads it.
    Bound,
    Open {
        capturing: bool,
    },
    Close,
    Look {
        positive: bool,
    },
    Bar,
    LineStart,
    LineEnd,
    TextStart,
    TextEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NotWordEdge,
    BackReference(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Advanced,
    Extended,
    Basic,
    Literal,
}

/// The most that a bound may ask for.
const MOST_REPEATS: u32 = 255;

pub(super) struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
    syntax: Syntax,
    pub(super) flags: Flags,
    pub(super) info: Info,
    /// Capturing groups opened so far: tells a back-reference from an octal escape.
    pub(super) groups: usize,
    last: Token,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a [u8], flags: Flags) -> Result<Self, RegexError> {
        let mut lexer = Self {
            source,
            at: 0,
            syntax: Syntax::Advanced,
            flags,
            info: Info::default(),
            groups: 0,
            last: Token::Start,
        };
        lexer.prefixes()?;
        Ok(lexer)
    }

    pub(super) fn next(&mut self) -> Result<Token, RegexError> {
        let token = self.token()?;
        self.last = token;
        Ok(token)
    }

    /// Reads a bound after its opening brace: least, most, and its greed if it has a say (`{m}` has none).
    pub(super) fn bound(&mut self) -> Result<(u32, Option<u32>, Option<bool>), RegexError> {
        let min = self.bound_number()?;
        self.skip_space();
        let mut max = Some(min);
        let mut range = false;
        if self.eat(b',') {
            range = true;
            self.skip_space();
            max = match self.peek() {
                Some(b'0'..=b'9') => Some(self.bound_number()?),
                _ => None,
            };
            self.skip_space();
        }
        if self.syntax == Syntax::Basic && !self.eat(b'\\') {
            return Err(if self.peek().is_none() {
                RegexError::Braces
            } else {
                RegexError::Repetition
            });
        }
        match self.peek() {
            None => return Err(RegexError::Braces),
            Some(b'}') => self.at += 1,
            Some(_) => return Err(RegexError::Repetition),
        }
        if max.is_some_and(|max| max < min) {
            return Err(RegexError::Repetition);
        }
        let greedy = !self.lazy_mark();
        Ok((min, max, range.then_some(greedy)))
    }

    fn token(&mut self) -> Result<Token, RegexError> {
        if self.syntax != Syntax::Literal {
            self.skip_space();
        }
        let Some(byte) = self.bump() else {
            return Ok(Token::End);
        };
        match self.syntax {
            Syntax::Literal => Ok(self.plain(byte)),
            Syntax::Basic => self.basic(byte),
            Syntax::Advanced | Syntax::Extended => self.extended(byte),
        }
    }

    fn extended(&mut self, byte: u8) -> Result<Token, RegexError> {
        let advanced = self.syntax == Syntax::Advanced;
        Ok(match byte {
            b'|' => Token::Bar,
            b'*' => self.quantifier(0, None),
            b'+' => self.quantifier(1, None),
            b'?' => self.quantifier(0, Some(1)),
            b'{' => {
                self.skip_space();
                if self.peek().is_some_and(|next| next.is_ascii_digit()) {
                    self.info.note(Info::BOUNDS);
                    Token::Bound
                } else {
                    self.info.note(Info::BRACES | Info::UNSPECIFIED);
                    self.plain(byte)
                }
            }
            b'(' if advanced && self.eat(b'?') => {
                self.info.note(Info::NOT_POSIX);
                match self.bump() {
                    Some(b':') => Token::Open { capturing: false },
                    Some(b'#') => {
                        while self.bump().is_some_and(|byte| byte != b')') {}
                        return self.token();
                    }
                    Some(mark @ (b'=' | b'!')) => {
                        self.info.note(Info::LOOKAHEAD);
                        Token::Look {
                            positive: mark == b'=',
                        }
                    }
                    _ => return Err(RegexError::Operand),
                }
            }
            b'(' => Token::Open { capturing: true },
            b')' => Token::Close,
            b'[' => return self.bracket(),
            b'.' => Token::Dot,
            b'^' => Token::LineStart,
            b'$' => Token::LineEnd,
            b'\\' if advanced => return self.escape(),
            b'\\' => {
                let Some(next) = self.bump() else {
                    return Err(RegexError::Escape);
                };
                if next.is_ascii_alphanumeric() {
                    self.info.note(Info::ALNUM_ESCAPE | Info::UNSPECIFIED);
                }
                self.plain(next)
            }
            _ => self.plain(byte),
        })
    }

    fn basic(&mut self, byte: u8) -> Result<Token, RegexError> {
        let opening = matches!(self.last, Token::Start | Token::Open { .. });
        Ok(match byte {
            b'*' if opening || self.last == Token::LineStart => self.plain(byte),
            b'*' => Token::Quantifier {
                min: 0,
                max: None,
                greedy: true,
            },
            b'[' => return self.bracket(),
            b'.' => Token::Dot,
            b'^' if opening => Token::LineStart,
            b'$' => {
                self.skip_space();
                let rest = &self.source[self.at..];
                if rest.is_empty() || rest.starts_with(b"\\)") {
                    Token::LineEnd
                } else {
                    self.plain(byte)
                }
            }
            b'\\' => match self.bump() {
                None => return Err(RegexError::Escape),
                Some(b'{') => {
                    self.info.note(Info::BOUNDS);
                    Token::Bound
                }
                Some(b'(') => Token::Open { capturing: true },
                Some(b')') => Token::Close,
                Some(b'<') => Token::WordStart,
                Some(b'>') => Token::WordEnd,
                Some(digit @ b'1'..=b'9') => {
                    self.info.note(Info::BACK_REFERENCE);
                    Token::BackReference(usize::from(digit - b'0'))
                }
                Some(next) => {
                    if next.is_ascii_alphanumeric() {
                        self.info.note(Info::ALNUM_ESCAPE | Info::UNSPECIFIED);
                    }
                    self.plain(next)
                }
            },
            _ => self.plain(byte),
        })
    }

    /// An escape of the advanced syntax, its backslash read.
    fn escape(&mut self) -> Result<Token, RegexError> {
        let Some(byte) = self.bump() else {
            return Err(RegexError::Escape);
        };
        if byte.is_ascii_alphanumeric() {
            self.info.note(Info::NOT_POSIX);
        }
        if let Some(class) = class_escape(byte) {
            self.info.note(Info::LOCALE);
            return Ok(Token::Set(if byte.is_ascii_uppercase() {
                self.negate(class)
            } else {
                class
            }));
        }
        Ok(match byte {
            b'A' => Token::TextStart,
            b'Z' => Token::TextEnd,
            b'm' => Token::WordStart,
            b'M' => Token::WordEnd,
            b'y' | b'Y' => {
                self.info.note(Info::LOCALE);
                if byte == b'y' {
                    Token::WordEdge
                } else {
                    Token::NotWordEdge
                }
            }
            b'1'..=b'9' => {
                let digits = self.source[self.at..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                let number = self.source[self.at - 1..self.at + digits].iter().fold(
                    0usize,
                    |number, digit| {
                        number
                            .saturating_mul(10)
                            .saturating_add(usize::from(digit - b'0'))
                    },
                );
                if digits == 0 || number <= self.groups {
                    self.at += digits;
                    self.info.note(Info::BACK_REFERENCE);
                    return Ok(Token::BackReference(number));
                }
                // two digits and no such group: an octal code
                match self.character(byte)? {
                    Some(code) => self.plain(code),
                    None => Token::Set(ByteSet::EMPTY),
                }
            }
            _ => match self.character(byte)? {
                Some(code) => self.plain(code),
                None => Token::Set(ByteSet::EMPTY),
            },
        })
    }

    /// The byte that a character escape stands for; none for a code above 255, which no byte can match.
    fn character(&mut self, byte: u8) -> Result<Option<u8>, RegexError> {
        Ok(Some(match byte {
            b'a' => 7,
            b'b' => 8,
            b'B' => b'\\',
            b'c' => {
                self.info.note(Info::UNPORTABLE);
                self.bump().ok_or(RegexError::Escape)? & 0x1f
            }
            b'e' => {
                self.info.note(Info::UNPORTABLE);
                0x1b
            }
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'x' => {
                self.info.note(Info::UNPORTABLE);
                return self.code(16, 2);
            }
            b'u' => return self.code(16, 4),
            b'U' => return self.code(16, 8),
            b'0'..=b'9' => {
                self.info.note(Info::UNPORTABLE);
                self.at -= 1;
                return self.code(8, 3);
            }
            byte if byte.is_ascii_alphanumeric() => return Err(RegexError::Escape),
            byte => byte,
        }))
    }

    fn code(&mut self, base: u32, most: usize) -> Result<Option<u8>, RegexError> {
        let mut code = 0u32;
        let mut digits = 0;
        while digits < most {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(base)) else {
                break;
            };
            code = code.wrapping_mul(base).wrapping_add(digit);
            self.at += 1;
            digits += 1;
        }
        if digits == 0 {
            Err(RegexError::Escape)
        } else {
            Ok(u8::try_from(code).ok())
        }
    }

    /// A bracket expression, its opening bracket read.
    fn bracket(&mut self) -> Result<Token, RegexError> {
        for (limit, token) in [(b"[:<:]]", Token::WordStart), (b"[:>:]]", Token::WordEnd)] {
            if self.source[self.at..].starts_with(limit) {
                self.at += limit.len();
                self.info.note(Info::NOT_POSIX);
                return Ok(token);
            }
        }
        let negated = self.eat(b'^');
        let mut set = ByteSet::EMPTY;
        let mut first = true;
        while let Some(item) = self.item(first)? {
            first = false;
            let range = self.peek() == Some(b'-') && self.source.get(self.at + 1) != Some(&b']');
            match item {
                Item::Class(class) if !range => set = set.union(class),
                Item::Class(_) | Item::Dash => return Err(RegexError::Range),
                Item::Character(start) => {
                    let end = if range {
                        self.at += 1;
                        match self.item(true)? {
                            Some(Item::Character(end)) => end,
                            Some(Item::Dash) => Some(b'-'),
                            _ => return Err(RegexError::Range),
                        }
                    } else {
                        start
                    };
                    if start != end {
                        self.info.note(Info::UNPORTABLE);
                    }
                    // codes above 255 match nothing, but end a range
                    match (start, end) {
                        (Some(start), Some(end)) if start > end => return Err(RegexError::Range),
                        (Some(start), end) => {
                            for byte in start..=end.unwrap_or(u8::MAX) {
                                set.insert(byte);
                            }
                        }
                        (None, Some(_)) => return Err(RegexError::Range),
                        (None, None) => {}
                    }
                }
            }
        }
        if self.flags.nocase {
            set = set.fold_case();
        }
        Ok(Token::Set(if negated { self.negate(set) } else { set }))
    }

    /// One item of a bracket expression, or its end.
    fn item(&mut self, first: bool) -> Result<Option<Item>, RegexError> {
        let byte = self.bump().ok_or(RegexError::Brackets)?;
        Ok(Some(match byte {
            b']' if !first => return Ok(None),
            b'-' if !first && self.peek() != Some(b']') => Item::Dash,
            b'\\' if self.syntax == Syntax::Advanced => {
                self.info.note(Info::BRACKET_ESCAPE | Info::NOT_POSIX);
                let byte = self.bump().ok_or(RegexError::Escape)?;
                match byte {
                    b'd' | b's' | b'w' => {
                        self.info.note(Info::LOCALE);
                        Item::Class(class_escape(byte).ok_or(RegexError::Escape)?)
                    }
                    b'1'..=b'9' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                        return Err(RegexError::Escape);
                    }
                    _ => Item::Character(self.character(byte)?),
                }
            }
            b'\\' => {
                self.info.note(Info::BRACKET_ESCAPE);
                Item::Character(Some(byte))
            }
            b'[' => match self.peek() {
                None => return Err(RegexError::Brackets),
                Some(b'.') => Item::Character(Some(self.element(b".]")?)),
                Some(b'=') => {
                    self.info.note(Info::LOCALE);
                    Item::Class(ByteSet::one(self.element(b"=]")?))
                }
                Some(b':') => {
                    self.info.note(Info::LOCALE);
                    let name = self.named(b":]")?;
                    Item::Class(ByteSet::class(name, self.flags.nocase).ok_or(RegexError::Class)?)
                }
                Some(_) => Item::Character(Some(byte)),
            },
            _ => Item::Character(Some(byte)),
        }))
    }

    fn element(&mut self, close: &[u8; 2]) -> Result<u8, RegexError> {
        let name = self.named(close)?;
        if name.len() > 1 {
            self.info.note(Info::LOCALE);
        }
        collating_element(name).ok_or(RegexError::Collating)
    }

    fn named(&mut self, close: &[u8; 2]) -> Result<&'a [u8], RegexError> {
        let source: &'a [u8] = self.source;
        let rest = &source[self.at + 1..];
        let length = rest
            .windows(2)
            .position(|pair| pair == close)
            .ok_or(RegexError::Brackets)?;
        self.at += 1 + length + 2;
        if self.peek().is_none() {
            return Err(RegexError::Brackets);
        }
        Ok(&rest[..length])
    }

    fn negate(&self, set: ByteSet) -> ByteSet {
        let mut negated = set.complement();
        if self.flags.stops() {
            negated.remove(b'\n');
        }
        negated
    }

    fn quantifier(&mut self, min: u32, max: Option<u32>) -> Token {
        let greedy = !self.lazy_mark();
        Token::Quantifier { min, max, greedy }
    }

    fn lazy_mark(&mut self) -> bool {
        let lazy = self.syntax == Syntax::Advanced && self.eat(b'?');
        if lazy {
            self.info.note(Info::NOT_POSIX);
        }
        lazy
    }

    fn bound_number(&mut self) -> Result<u32, RegexError> {
        self.skip_space();
        let mut number = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = number * 10 + u32::from(digit - b'0');
            if number > MOST_REPEATS {
                return Err(RegexError::Repetition);
            }
            self.at += 1;
            self.skip_space();
        }
        Ok(number)
    }

    fn plain(&self, byte: u8) -> Token {
        let set = ByteSet::one(byte);
        Token::Set(if self.flags.nocase {
            set.fold_case()
        } else {
            set
        })
    }

    fn prefixes(&mut self) -> Result<(), RegexError> {
        if let [b'*', b'*', b'*', director, ..] = self.source {
            self.info.note(Info::NOT_POSIX);
            self.at = 4;
            match director {
                b'=' => {
                    self.literal();
                    return Ok(());
                }
                b':' => {}
                b'?' => return Err(RegexError::Version),
                _ => return Err(RegexError::Operand),
            }
        }
        let [b'(', b'?', letter, ..] = &self.source[self.at..] else {
            return Ok(());
        };
        if !letter.is_ascii_alphabetic() {
            return Ok(());
        }
        self.info.note(Info::NOT_POSIX);
        self.at += 2;
        let mut syntax = Syntax::Advanced;
        while let Some(letter) = self.peek().filter(u8::is_ascii_alphabetic) {
            self.at += 1;
            let flags = &mut self.flags;
            match letter {
                b'b' => syntax = Syntax::Basic,
                b'c' => flags.nocase = false,
                b'e' => syntax = Syntax::Extended,
                b'i' => flags.nocase = true,
                b'm' | b'n' => (flags.line, flags.linestop, flags.lineanchor) = (false, true, true),
                b'p' => (flags.line, flags.linestop, flags.lineanchor) = (false, true, false),
                b'q' => syntax = Syntax::Literal,
                b's' => (flags.line, flags.linestop, flags.lineanchor) = (false, false, false),
                b't' => flags.expanded = false,
                b'w' => (flags.line, flags.linestop, flags.lineanchor) = (false, false, true),
                b'x' => flags.expanded = true,
                _ => return Err(RegexError::Option),
            }
        }
        if !self.eat(b')') {
            return Err(RegexError::Option);
        }
        self.syntax = syntax;
        if syntax == Syntax::Literal {
            self.literal();
        }
        Ok(())
    }

    fn literal(&mut self) {
        self.syntax = Syntax::Literal;
        self.flags = Flags {
            nocase: self.flags.nocase,
            ..Flags::default()
        };
    }

    /// Skips white space and comments of the expanded syntax.
    fn skip_space(&mut self) {
        while self.flags.expanded {
            match self.peek() {
                Some(b'\t'..=b'\r' | b' ') => self.at += 1,
                Some(b'#') => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
            self.info.note(Info::NOT_POSIX);
        }
    }

    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn bump(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }
}

enum Item {
    Character(Option<u8>),
    Class(ByteSet),
    /// A dash that stands where no range can begin.
    Dash,
}

fn class_escape(letter: u8) -> Option<ByteSet> {
    match letter {
        b'd' | b'D' => ByteSet::class(b"digit", false),
        b's' | b'S' => ByteSet::class(b"space", false),
        b'w' | b'W' => Some(ByteSet::word()),
        _ => None,
    }
}
