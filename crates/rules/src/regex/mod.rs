//! Tcl's advanced regular expressions on bytes (re_syntax of Tcl 8.4), and the patterns of `string match`.
//! Bytes in, positions out: commands, values and caches of compiled patterns are the caller's.
//!
//! A lazy automaton finds the match; the tree of the expression then takes it apart into captures by the same rules as
//! Tcl (see `parse`). Only back-references need trial and error, bounded by the caller's budget.

mod backref;
mod dfa;
mod dissect;
mod glob;
mod hir;
mod lex;
mod nfa;
mod parse;
mod search;
mod set;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use dfa::Input;
use dissect::Dissector;
pub use glob::glob;
use parse::Parser;
use search::Engine;

/// How a pattern is to be read: the switches of `regexp`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Flags {
    /// Letters match either case (ASCII).
    pub nocase: bool,
    /// White space and comments in the pattern are ignored.
    pub expanded: bool,
    /// Both `linestop` and `lineanchor`.
    pub line: bool,
    /// `.` and `[^…]` do not match a newline.
    pub linestop: bool,
    /// `^` and `$` also match after and before a newline.
    pub lineanchor: bool,
}

impl Flags {
    fn stops(self) -> bool {
        self.line || self.linestop
    }

    fn anchors(self) -> bool {
        self.line || self.lineanchor
    }
}

/// Why a pattern does not compile, or a search was given up. The texts are Tcl's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegexError {
    /// A parenthesis without its partner.
    #[error("couldn't compile regular expression pattern: parentheses () not balanced")]
    Parentheses,
    /// A bracket expression, or a class in it, without its end.
    #[error("couldn't compile regular expression pattern: brackets [] not balanced")]
    Brackets,
    /// A bound without its end.
    #[error("couldn't compile regular expression pattern: braces {{}} not balanced")]
    Braces,
    /// A bound that is no number, too large, or the wrong way round.
    #[error("couldn't compile regular expression pattern: invalid repetition count(s)")]
    Repetition,
    /// Nothing that a quantifier could apply to, or an unknown kind of group.
    #[error("couldn't compile regular expression pattern: quantifier operand invalid")]
    Operand,
    /// An unknown escape, or a backslash at the end.
    #[error("couldn't compile regular expression pattern: invalid escape \\ sequence")]
    Escape,
    /// A range in brackets that ends before it starts, or has a class for an end.
    #[error("couldn't compile regular expression pattern: invalid character range")]
    Range,
    /// An unknown `[:class:]`.
    #[error("couldn't compile regular expression pattern: invalid character class")]
    Class,
    /// An unknown `[.element.]`.
    #[error("couldn't compile regular expression pattern: invalid collating element")]
    Collating,
    /// A reference to a group that is not there, not closed yet, or in a lookahead.
    #[error("couldn't compile regular expression pattern: invalid backreference number")]
    BackReference,
    /// An unknown letter in `(?…)` at the start.
    #[error("couldn't compile regular expression pattern: invalid embedded option")]
    Option,
    /// `***?`, which asks for the version.
    #[error("couldn't compile regular expression pattern: invalid regexp (reg version 0.8)")]
    Version,
    /// The expression needs more memory than one may have.
    #[error("couldn't compile regular expression pattern: nfa has too many states")]
    TooLarge,
    /// The budget of a search is spent.
    #[error("regular expression is too expensive")]
    TooExpensive,
}

impl RegexError {
    /// The name by which `errorCode` knows it; none for a search that was given up.
    #[must_use]
    pub fn code(self) -> Option<&'static str> {
        Some(match self {
            Self::Parentheses => "REG_EPAREN",
            Self::Brackets => "REG_EBRACK",
            Self::Braces => "REG_EBRACE",
            Self::Repetition => "REG_BADBR",
            Self::Operand => "REG_BADRPT",
            Self::Escape => "REG_EESCAPE",
            Self::Range => "REG_ERANGE",
            Self::Class => "REG_ECTYPE",
            Self::Collating => "REG_ECOLLATE",
            Self::BackReference => "REG_ESUBREG",
            Self::Option => "REG_BADOPT",
            Self::Version => "REG_BADPAT",
            Self::TooLarge => "REG_ETOOBIG",
            Self::TooExpensive => return None,
        })
    }
}

/// A compiled expression. It keeps the automata that searches build, so it stays on one thread.
pub struct Regex {
    engine: Engine,
    groups: usize,
    info: Info,
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Any [`RegexError`] but the last.
    pub fn new(pattern: &[u8], flags: Flags) -> Result<Self, RegexError> {
        let parsed = Parser::parse(pattern, flags)?;
        let engine = Engine::new(parsed.parts, parsed.root, parsed.looks, parsed.nocase);
        Ok(Self {
            engine,
            groups: parsed.groups,
            info: parsed.info,
        })
    }

    /// How many groups capture.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// How many instructions its automata have: what it takes to keep it.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.engine.root().hir.size
    }

    /// What `regexp -about` says of the expression.
    #[must_use]
    pub fn about(&self) -> Vec<&'static str> {
        Info::NAMES
            .iter()
            .filter(|(bit, _)| self.info.0 & bit != 0)
            .map(|(_, name)| *name)
            .collect()
    }

    /// Finds the first match in `text` that begins at `start` or later. Slot 0 becomes the whole match, the others what
    /// the groups captured; all positions are of `text`. As in Tcl, what is before `start` is not looked at; `notbol`
    /// says that `start` is not the start of a line.
    ///
    /// `budget` pays for the work, about one for eight bytes read.
    ///
    /// # Errors
    /// [`RegexError::TooExpensive`] when the budget is spent.
    pub fn find_at(
        &self,
        text: &[u8],
        start: usize,
        slots: &mut Vec<Option<(u32, u32)>>,
        budget: &mut u64,
        notbol: bool,
    ) -> Result<bool, RegexError> {
        slots.clear();
        slots.resize(self.groups + 1, None);
        let start = start.min(text.len());
        let rest = &text[start..];
        let found = self.with_input(
            rest,
            notbol,
            budget,
            |dissector| {
                let Dissector { engine, input, .. } = *dissector;
                if engine.root().traits.back_references() {
                    return backref::locate(dissector);
                }
                let (begin, end) = engine.locate(dissector.cache, input)?;
                dissector.dissect(engine.root, begin, end);
                Some((begin, end))
            },
            slots,
        )?;
        let Some((begin, end)) = found else {
            return Ok(false);
        };
        slots[0] = Some((begin as u32, end as u32));
        if start > 0 {
            for (begin, end) in slots.iter_mut().flatten() {
                *begin += start as u32;
                *end += start as u32;
            }
        }
        Ok(true)
    }

    /// Whether there is a match anywhere in `text`.
    ///
    /// # Errors
    /// As [`Regex::find_at`].
    pub fn is_match(&self, text: &[u8], budget: &mut u64) -> Result<bool, RegexError> {
        if self.engine.root().traits.back_references() {
            return self.find_at(text, 0, &mut Vec::new(), budget, false);
        }
        let found = self.with_input(
            text,
            false,
            budget,
            |dissector| {
                let Dissector { engine, input, .. } = *dissector;
                engine.is_match(dissector.cache, input).then_some((0, 0))
            },
            &mut [],
        );
        found.map(|found| found.is_some())
    }

    /// Runs `search` unless the expression is a mere text or the text too short.
    #[inline]
    fn with_input(
        &self,
        text: &[u8],
        notbol: bool,
        budget: &mut u64,
        search: impl FnOnce(&mut Dissector<'_>) -> Option<(usize, usize)>,
        slots: &mut [dissect::Slot],
    ) -> Result<Option<(usize, usize)>, RegexError> {
        let engine = &self.engine;
        if !engine.fits(text) {
            return Ok(None);
        }
        let left = Cell::new(*budget);
        let mut input = Input {
            text,
            symbols: &engine.symbols,
            looks: &[],
            notbol,
            budget: &left,
        };
        let cache = &mut *engine.cache.borrow_mut();
        let found = if let Some(found) = engine.literal(text, notbol) {
            input.spend(1 + text.len() as u64 / 32);
            if let Some((begin, end)) = found
                && self.groups > 0
                && !slots.is_empty()
            {
                Dissector {
                    engine,
                    cache,
                    input: &input,
                    slots,
                }
                .dissect(engine.root, begin, end);
            }
            found
        } else {
            let outcomes;
            if !engine.looks.is_empty() {
                outcomes = engine.look_ahead(cache, &input);
                input.looks = &outcomes;
            }
            search(&mut Dissector {
                engine,
                cache,
                input: &input,
                slots,
            })
        };
        *budget = left.get();
        if *budget == 0 {
            Err(RegexError::TooExpensive)
        } else {
            Ok(found)
        }
    }
}

/// What the parser noticed, as `regexp -about` reports it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Info(u16);

impl Info {
    const BACK_REFERENCE: u16 = 1;
    const LOOKAHEAD: u16 = 1 << 1;
    const BOUNDS: u16 = 1 << 2;
    const BRACES: u16 = 1 << 3;
    const ALNUM_ESCAPE: u16 = 1 << 4;
    const BRACKET_ESCAPE: u16 = 1 << 5;
    const NOT_POSIX: u16 = 1 << 6;
    const UNSPECIFIED: u16 = 1 << 7;
    const UNPORTABLE: u16 = 1 << 8;
    const LOCALE: u16 = 1 << 9;
    const EMPTY_MATCH: u16 = 1 << 10;
    const SHORTEST: u16 = 1 << 11;
    const NAMES: [(u16, &'static str); 12] = [
        (Self::BACK_REFERENCE, "REG_UBACKREF"),
        (Self::LOOKAHEAD, "REG_ULOOKAHEAD"),
        (Self::BOUNDS, "REG_UBOUNDS"),
        (Self::BRACES, "REG_UBRACES"),
        (Self::ALNUM_ESCAPE, "REG_UBSALNUM"),
        (Self::BRACKET_ESCAPE, "REG_UBBS"),
        (Self::NOT_POSIX, "REG_UNONPOSIX"),
        (Self::UNSPECIFIED, "REG_UUNSPEC"),
        (Self::UNPORTABLE, "REG_UUNPORT"),
        (Self::LOCALE, "REG_ULOCALE"),
        (Self::EMPTY_MATCH, "REG_UEMPTYMATCH"),
        (Self::SHORTEST, "REG_USHORTEST"),
    ];

    fn note(&mut self, bits: u16) {
        self.0 |= bits;
    }
}
