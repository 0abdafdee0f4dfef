//! The parser: a pattern becomes its language ([`Hir`]) and the tree by which a match is taken apart into captures.
//!
//! What matches what follows the rules that re_syntax calls MATCHING: every quantified atom prefers long or short, a
//! sequence prefers what its first atom with a preference does, an alternation long. A part of a branch that holds no
//! capture, no back-reference and no clash of preferences stays one piece; around any other atom the branch is split
//! into what is before it, itself, and what follows.

use std::rc::Rc;

use super::hir::{Assert, Hir, Kind};
use super::lex::{Lexer, Token};
use super::set::ByteSet;
use super::{Flags, Info, RegexError};

/// What `Parser::parse` makes of a pattern.
pub(super) struct Parsed {
    pub(super) parts: Vec<Part>,
    pub(super) root: PartId,
    pub(super) looks: Vec<Lookahead>,
    pub(super) groups: usize,
    pub(super) nocase: bool,
    pub(super) info: Info,
}

pub(super) type PartId = u32;

/// A node of the tree that takes a match apart.
pub(super) struct Part {
    pub(super) op: Op,
    pub(super) hir: Rc<Hir>,
    pub(super) traits: Traits,
}

pub(super) enum Op {
    /// Nothing inside that matters.
    Plain,
    Cat(PartId, PartId),
    Alt(Vec<PartId>),
    Group(u32, PartId),
    /// Between `min` and `max` matches of the part in a row.
    Repeat {
        sub: PartId,
        min: u32,
        max: Option<u32>,
    },
    BackReference {
        group: u32,
        min: u32,
        max: Option<u32>,
    },
}

/// `(?=…)` or `(?!…)`.
pub(super) struct Lookahead {
    pub(super) hir: Rc<Hir>,
    pub(super) positive: bool,
}

/// Preferences and contents of a part.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Traits(u8);

impl Traits {
    const LONGER: Self = Self(1);
    const SHORTER: Self = Self(2);
    const MIXED: Self = Self(4);
    const CAPTURES: Self = Self(8);
    const BACK_REFERENCES: Self = Self(16);
    const PREFERENCE: Self = Self(3);

    pub(super) fn shorter(self) -> bool {
        self.has(Self::SHORTER)
    }

    pub(super) fn captures(self) -> bool {
        self.has(Self::CAPTURES)
    }

    pub(super) fn back_references(self) -> bool {
        self.has(Self::BACK_REFERENCES)
    }

    /// Whether the part must be taken apart.
    fn intricate(self) -> bool {
        self.0 & !Self::PREFERENCE.0 != 0
    }

    /// What a part hands up to the one it is in: its preferences no longer bind, a clash of them does.
    fn up(self) -> Self {
        let mixed = self.has(Self::LONGER) && self.has(Self::SHORTER);
        Self(self.0 & !Self::PREFERENCE.0 | if mixed { Self::MIXED.0 } else { 0 })
    }

    fn preference(self) -> Self {
        Self(self.0 & Self::PREFERENCE.0)
    }

    /// Both in a row: the preference is the first's, if it has one.
    fn then(self, next: Self) -> Self {
        let preference = if self.preference().0 != 0 {
            self.preference()
        } else {
            next.preference()
        };
        self.with(next).up().with(preference)
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Instructions that an expression may need; more would take too much memory to run.
const MOST_INSTRUCTIONS: u64 = 20_000;
/// Parentheses in each other.
const DEEPEST_NESTING: usize = 200;
/// Levels of the language tree: it is walked by recursion.
const DEEPEST_TREE: u32 = 1_000;
/// Every lookahead doubles the symbols of the automata.
const MOST_LOOKAHEADS: usize = 8;

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    parts: Vec<Part>,
    looks: Vec<Lookahead>,
    /// The language of each group that is closed, by number.
    groups: Vec<Option<Rc<Hir>>>,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn parse(pattern: &'a [u8], flags: Flags) -> Result<Parsed, RegexError> {
        let mut lexer = Lexer::new(pattern, flags)?;
        let token = lexer.next()?;
        let mut parser = Self {
            lexer,
            token,
            parts: Vec::new(),
            looks: Vec::new(),
            groups: vec![None],
            depth: 0,
        };
        let root = parser.alternatives(false, true)?;
        if parser.token == Token::Close {
            return Err(RegexError::Parentheses);
        }
        let mut info = parser.lexer.info;
        if parser.parts[root as usize].hir.min == 0 {
            info.note(Info::EMPTY_MATCH);
        }
        if parser.parts[root as usize].traits.shorter() {
            info.note(Info::SHORTEST);
        }
        Ok(Parsed {
            parts: parser.parts,
            root,
            nocase: parser.lexer.flags.nocase,
            looks: parser.looks,
            groups: parser.groups.len() - 1,
            info,
        })
    }

    /// Branches up to the closing parenthesis or the end.
    fn alternatives(&mut self, nested: bool, capturing: bool) -> Result<PartId, RegexError> {
        let mut branches = Vec::new();
        let mut traits = Traits::LONGER;
        loop {
            let branch = self.branch(capturing)?;
            let own = self.parts[branch as usize].traits;
            traits = traits.with(Traits::LONGER.with(own).up());
            branches.push(branch);
            if self.token != Token::Bar {
                break;
            }
            self.advance()?;
        }
        if nested && self.token == Token::End {
            return Err(RegexError::Parentheses);
        }
        if let [only] = branches[..] {
            return Ok(only);
        }
        let hir = Hir::alt(branches.iter().map(|&branch| self.hir(branch)).collect());
        let op = if traits.intricate() {
            Op::Alt(branches)
        } else {
            Op::Plain
        };
        self.part(op, hir, traits)
    }

    fn branch(&mut self, capturing: bool) -> Result<PartId, RegexError> {
        // each intricate atom with the plain run before it
        let mut intricate: Vec<(Vec<Rc<Hir>>, Traits, PartId)> = Vec::new();
        let mut run = Vec::new();
        let mut traits = Traits::default();
        let mut empty = true;
        while !matches!(self.token, Token::Bar | Token::Close | Token::End) {
            empty = false;
            if let Some(hir) = self.constraint()? {
                run.push(hir);
                continue;
            }
            let atom = self.atom(capturing)?;
            let (min, max, preference) = self.quantifier()?;
            if max == Some(0) {
                if let Atom::Group { number, .. } = atom {
                    self.groups[number] = None;
                }
                continue;
            }
            let together = traits.with(preference).with(atom.traits(self));
            match atom {
                Atom::Plain(hir, _) if !together.up().intricate() => {
                    run.push(Hir::repeat(&hir, min, max));
                    traits = together;
                }
                _ => {
                    let part = self.repeated(atom, min, max, preference)?;
                    intricate.push((std::mem::take(&mut run), traits, part));
                    traits = Traits::default();
                }
            }
        }
        if empty {
            self.lexer.info.note(Info::UNSPECIFIED);
        }
        let mut rest = self.part(Op::Plain, Hir::cat(run), traits)?;
        for (run, traits, atom) in intricate.into_iter().rev() {
            rest = self.sequence(atom, rest)?;
            let before = self.part(Op::Plain, Hir::cat(run), traits)?;
            rest = self.sequence(before, rest)?;
        }
        Ok(rest)
    }

    /// An anchor or lookahead: takes no quantifier.
    fn constraint(&mut self) -> Result<Option<Rc<Hir>>, RegexError> {
        let anchors = self.lexer.flags.anchors();
        let assert = match self.token {
            Token::LineStart if anchors => Assert::LineStartOrNewline,
            Token::LineStart => Assert::LineStart,
            Token::LineEnd if anchors => Assert::LineEndOrNewline,
            Token::LineEnd => Assert::LineEnd,
            Token::TextStart => Assert::TextStart,
            Token::TextEnd => Assert::TextEnd,
            Token::WordStart => Assert::WordStart,
            Token::WordEnd => Assert::WordEnd,
            Token::WordEdge => Assert::WordEdge,
            Token::NotWordEdge => Assert::NotWordEdge,
            Token::Look { positive } => {
                self.advance()?;
                let inside = self.nested(false)?;
                let number = self.looks.len();
                if number == MOST_LOOKAHEADS {
                    return Err(RegexError::TooLarge);
                }
                self.looks.push(Lookahead {
                    hir: self.hir(inside),
                    positive,
                });
                return Ok(Some(Hir::look(number as u8)));
            }
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(Hir::assert(assert)))
    }

    fn atom(&mut self, capturing: bool) -> Result<Atom, RegexError> {
        let atom = match self.token {
            Token::Set(set) => Atom::Plain(Hir::set(set), None),
            Token::Dot => {
                let mut set = ByteSet::FULL;
                if self.lexer.flags.stops() {
                    set.remove(b'\n');
                }
                Atom::Plain(Hir::set(set), None)
            }
            Token::Open { capturing: group } => {
                let number = if group && capturing {
                    self.groups.push(None);
                    self.lexer.groups += 1;
                    self.lexer.groups
                } else {
                    0
                };
                self.advance()?;
                if self.token == Token::Close {
                    self.lexer.info.note(Info::UNSPECIFIED);
                }
                // only the outermost parentheses in a lookahead do not count
                let inside = self.nested(true)?;
                let (hir, traits) = (self.hir(inside), self.parts[inside as usize].traits);
                if number == 0 {
                    return Ok(Atom::Plain(hir, Some(inside)));
                }
                self.groups[number] = Some(Rc::clone(&hir));
                let part = self.part(
                    Op::Group(number as u32, inside),
                    hir,
                    traits.with(Traits::CAPTURES),
                )?;
                return Ok(Atom::Group { number, part });
            }
            Token::BackReference(number) => {
                let group = self.groups.get(number).and_then(Option::as_ref);
                let hir = group
                    .filter(|_| capturing)
                    .ok_or(RegexError::BackReference)?;
                Atom::BackReference(number, Rc::clone(hir))
            }
            Token::Close => return Err(RegexError::Parentheses),
            _ => return Err(RegexError::Operand),
        };
        self.advance()?;
        Ok(atom)
    }

    /// What is between parentheses, and the closing one.
    fn nested(&mut self, capturing: bool) -> Result<PartId, RegexError> {
        self.depth += 1;
        if self.depth > DEEPEST_NESTING {
            return Err(RegexError::TooLarge);
        }
        let inside = self.alternatives(true, capturing)?;
        self.depth -= 1;
        self.advance()?;
        Ok(inside)
    }

    fn quantifier(&mut self) -> Result<(u32, Option<u32>, Traits), RegexError> {
        let (min, max, greedy) = match self.token {
            Token::Quantifier { min, max, greedy } => (min, max, Some(greedy)),
            Token::Bound => self.lexer.bound()?,
            _ => return Ok((1, Some(1), Traits::default())),
        };
        self.advance()?;
        let preference = match greedy {
            Some(true) => Traits::LONGER,
            Some(false) => Traits::SHORTER,
            None => Traits::default(),
        };
        Ok((min, max, preference))
    }

    /// The part of an intricate atom under its quantifier.
    fn repeated(
        &mut self,
        atom: Atom,
        min: u32,
        max: Option<u32>,
        preference: Traits,
    ) -> Result<PartId, RegexError> {
        let own = atom.traits(self);
        let traits = preference.then(own);
        let inside = match atom {
            Atom::BackReference(group, hir) => {
                let op = Op::BackReference {
                    group: group as u32,
                    min,
                    max,
                };
                return self.part(op, Hir::repeat(&hir, min, max), traits);
            }
            Atom::Plain(_, Some(part)) | Atom::Group { part, .. } => part,
            Atom::Plain(hir, None) => self.part(Op::Plain, hir, Traits::default())?,
        };
        let hir = self.hir(inside);
        if (min, max) == (1, Some(1)) {
            Ok(inside)
        } else if min > 0 && !own.back_references() {
            // captures are those of the last round: x{m,n} is x{m-1,n-1} without them and one x with
            let rounds = Hir::repeat(&hir, min - 1, max.map(|max| max - 1));
            let before = self.part(Op::Plain, rounds, traits.preference())?;
            let both = self.sequence(before, inside)?;
            self.parts[both as usize].traits = traits;
            Ok(both)
        } else {
            self.part(
                Op::Repeat {
                    sub: inside,
                    min,
                    max,
                },
                Hir::repeat(&hir, min, max),
                traits,
            )
        }
    }

    fn sequence(&mut self, left: PartId, right: PartId) -> Result<PartId, RegexError> {
        let traits = self.parts[left as usize]
            .traits
            .then(self.parts[right as usize].traits);
        let (before, after) = (self.hir(left), self.hir(right));
        // an empty piece can be left out, whatever it would prefer
        for (empty, other) in [(left, right), (right, left)] {
            let empty = &self.parts[empty as usize];
            if matches!((&empty.op, &empty.hir.kind), (Op::Plain, Kind::Empty)) {
                self.parts[other as usize].traits = traits;
                return Ok(other);
            }
        }
        self.part(Op::Cat(left, right), Hir::cat(vec![before, after]), traits)
    }

    fn part(&mut self, op: Op, hir: Rc<Hir>, traits: Traits) -> Result<PartId, RegexError> {
        if hir.size > MOST_INSTRUCTIONS || hir.depth > DEEPEST_TREE {
            return Err(RegexError::TooLarge);
        }
        let traits = match op {
            Op::BackReference { .. } => traits.with(Traits::BACK_REFERENCES),
            _ => traits,
        };
        self.parts.push(Part { op, hir, traits });
        Ok((self.parts.len() - 1) as PartId)
    }

    fn hir(&self, part: PartId) -> Rc<Hir> {
        Rc::clone(&self.parts[part as usize].hir)
    }

    fn advance(&mut self) -> Result<(), RegexError> {
        self.token = self.lexer.next()?;
        Ok(())
    }
}

enum Atom {
    /// No group: a set, or the inside of `(?:…)`.
    Plain(Rc<Hir>, Option<PartId>),
    Group {
        number: usize,
        part: PartId,
    },
    BackReference(usize, Rc<Hir>),
}

impl Atom {
    fn traits(&self, parser: &Parser<'_>) -> Traits {
        match self {
            Self::Plain(_, None) => Traits::default(),
            Self::Plain(_, Some(part)) | Self::Group { part, .. } => {
                parser.parts[*part as usize].traits
            }
            Self::BackReference(..) => Traits::BACK_REFERENCES,
        }
    }
}
