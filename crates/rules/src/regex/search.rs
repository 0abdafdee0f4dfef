//! Where a match is: the leftmost start, and the end that the expression prefers.
//!
//! What a pattern must begin with or contain is looked for with memchr first; the automata then run where it is found.

use std::cell::RefCell;

use memchr::memmem::Finder;

use super::dfa::{Dfa, Input};
use super::hir::{Assert, Hir, Kind};
use super::nfa::{Direction, Symbols};
use super::parse::{Lookahead, Part, PartId};
use super::set::ByteSet;

/// A compiled expression without its public face.
pub(super) struct Engine {
    pub(super) parts: Vec<Part>,
    pub(super) root: PartId,
    pub(super) looks: Vec<Lookahead>,
    pub(super) symbols: Symbols,
    pub(super) nocase: bool,
    pub(super) cache: RefCell<Cache>,
    plan: Plan,
}

/// Automata made so far, and memory to work in.
pub(super) struct Cache {
    /// For each part, forwards and backwards.
    parts: Vec<[Option<Box<Dfa>>; 2]>,
    search: Option<Box<Dfa>>,
    leftmost: Option<Box<Dfa>>,
    looks: Vec<Option<Box<Dfa>>>,
    /// Positions, a bit each.
    pub(super) marks: Vec<u64>,
}

impl Cache {
    pub(super) fn part(&mut self, engine: &Engine, part: PartId, direction: Direction) -> &mut Dfa {
        self.parts[part as usize][direction as usize].get_or_insert_with(|| {
            Box::new(Dfa::new(
                &engine.parts[part as usize].hir,
                &engine.symbols,
                direction,
                false,
            ))
        })
    }
}

enum Plan {
    /// Nothing but this text, and where it must be.
    Literal {
        finder: Box<Finder<'static>>,
        start: Option<Assert>,
        end: bool,
    },
    /// Only at the start.
    Anchored,
    /// Where one of these begins; `rare` if they are worth trying one by one.
    Skip {
        skip: Skip,
        rare: bool,
        required: Option<Box<Finder<'static>>>,
    },
}

/// Finds where a match can begin.
enum Skip {
    Nothing,
    Bytes(u8, u8, u8),
    Prefix(Box<Finder<'static>>),
    Set(Box<[bool; 256]>),
}

impl Skip {
    #[inline]
    fn next(&self, text: &[u8], from: usize) -> Option<usize> {
        let rest = text.get(from..)?;
        let found = match self {
            Self::Nothing => Some(0),
            Self::Bytes(a, b, c) if a == b && b == c => memchr::memchr(*a, rest),
            Self::Bytes(a, b, c) if b == c => memchr::memchr2(*a, *b, rest),
            Self::Bytes(a, b, c) => memchr::memchr3(*a, *b, *c, rest),
            Self::Prefix(finder) => finder.find(rest),
            Self::Set(set) => rest.iter().position(|&byte| set[usize::from(byte)]),
        };
        found.map(|found| from + found)
    }
}

impl Engine {
    pub(super) fn new(parts: Vec<Part>, root: PartId, looks: Vec<Lookahead>, nocase: bool) -> Self {
        let hir = &parts[root as usize].hir;
        let mut hirs: Vec<&Hir> = vec![hir];
        hirs.extend(looks.iter().map(|look| &*look.hir));
        let symbols = Symbols::new(&hirs, looks.len() as u32);
        let plan = plan(hir);
        let cache = RefCell::new(Cache {
            parts: parts.iter().map(|_| [None, None]).collect(),
            search: None,
            leftmost: None,
            looks: looks.iter().map(|_| None).collect(),
            marks: Vec::new(),
        });
        Self {
            parts,
            root,
            looks,
            symbols,
            nocase,
            cache,
            plan,
        }
    }

    pub(super) fn root(&self) -> &Part {
        &self.parts[self.root as usize]
    }

    /// Whether the text can hold a match at all, by its length.
    pub(super) fn fits(&self, text: &[u8]) -> bool {
        text.len() >= self.root().hir.min as usize
    }

    /// The answer for an expression that is a mere text; none for others.
    pub(super) fn literal(&self, text: &[u8], notbol: bool) -> Option<Option<(usize, usize)>> {
        let Plan::Literal { finder, start, end } = &self.plan else {
            return None;
        };
        let needle = finder.needle();
        let at = match (start, end) {
            (Some(Assert::LineStart), _) if notbol => None,
            (Some(_), true) => (text == needle).then_some(0),
            (Some(_), false) => text.starts_with(needle).then_some(0),
            (None, true) => text.ends_with(needle).then(|| text.len() - needle.len()),
            (None, false) => finder.find(text),
        };
        Some(at.map(|at| (at, at + needle.len())))
    }

    /// Outcomes of the lookaheads at every position of the text.
    pub(super) fn look_ahead(&self, cache: &mut Cache, input: &Input<'_>) -> Vec<u8> {
        let end = input.text.len();
        let mut outcomes = vec![0; end + 1];
        for (number, look) in self.looks.iter().enumerate() {
            let dfa = cache.looks[number].get_or_insert_with(|| {
                Box::new(Dfa::new(
                    &look.hir,
                    &self.symbols,
                    Direction::Backward,
                    true,
                ))
            });
            let mut found = Vec::new();
            let input = Input {
                looks: &outcomes,
                ..*input
            };
            dfa.each(&input, end, 0, |at| {
                found.push(at);
                true
            });
            let bit = 1 << number;
            if !look.positive {
                outcomes.iter_mut().for_each(|outcome| *outcome |= bit);
            }
            for at in found {
                outcomes[at] ^= bit;
            }
        }
        outcomes
    }

    /// Whether there is a match anywhere.
    pub(super) fn is_match(&self, cache: &mut Cache, input: &Input<'_>) -> bool {
        match &self.plan {
            Plan::Skip {
                skip,
                rare: false,
                required,
            } => {
                if required
                    .as_ref()
                    .is_some_and(|required| required.find(input.text).is_none())
                {
                    return false;
                }
                self.search(cache)
                    .earliest(input, 0, |text, at| skip.next(text, at))
                    .is_some()
            }
            Plan::Anchored => {
                let dfa = cache.part(self, self.root, Direction::Forward);
                dfa.shortest(input, 0, 0, input.text.len()).is_some()
            }
            _ => self.locate(cache, input).is_some(),
        }
    }

    /// The leftmost match, of the length the expression prefers.
    pub(super) fn locate(&self, cache: &mut Cache, input: &Input<'_>) -> Option<(usize, usize)> {
        let Plan::Skip {
            skip,
            rare,
            required,
        } = &self.plan
        else {
            return self.match_from(cache, input, 0);
        };
        if required
            .as_ref()
            .is_some_and(|required| required.find(input.text).is_none())
        {
            return None;
        }
        let mut from = 0;
        if *rare {
            let before = cache.part(self, self.root, Direction::Forward).scanned;
            loop {
                from = skip.next(input.text, from)?;
                if let Some(found) = self.match_from(cache, input, from) {
                    return Some(found);
                }
                from += 1;
                let scanned = cache.part(self, self.root, Direction::Forward).scanned - before;
                if scanned > 4 * from + 256 {
                    break;
                }
            }
        }
        let (idle, end) = self
            .search(cache)
            .earliest(input, from, |text, at| skip.next(text, at))?;
        // a match that ends at `end` began between the two, but one that ends later may have begun before it
        let before = cache.part(self, self.root, Direction::Forward).scanned;
        let mut at = idle;
        loop {
            if let Some(found) = self.match_from(cache, input, at) {
                return Some(found);
            }
            at = skip.next(input.text, at + 1).filter(|&at| at <= end)?;
            let scanned = cache.part(self, self.root, Direction::Forward).scanned - before;
            if scanned > (end - idle) + 256 {
                break;
            }
        }
        let mut leftmost = None;
        let dfa = cache.leftmost.get_or_insert_with(|| {
            Box::new(Dfa::new(
                &self.root().hir,
                &self.symbols,
                Direction::Backward,
                true,
            ))
        });
        dfa.each(input, input.text.len(), at, |at| {
            leftmost = Some(at);
            true
        });
        self.match_from(cache, input, leftmost?)
    }

    /// Calls `found` with each place where a match can begin until it says that one did.
    pub(super) fn candidates(&self, input: &Input<'_>, mut found: impl FnMut(usize) -> bool) {
        let Plan::Skip { skip, .. } = &self.plan else {
            found(0);
            return;
        };
        let mut at = 0;
        while let Some(next) = skip.next(input.text, at) {
            if input.exhausted() || found(next) {
                return;
            }
            at = next + 1;
        }
    }

    fn match_from(
        &self,
        cache: &mut Cache,
        input: &Input<'_>,
        from: usize,
    ) -> Option<(usize, usize)> {
        let dfa = cache.part(self, self.root, Direction::Forward);
        let limit = input.text.len();
        let end = if self.root().traits.shorter() {
            dfa.shortest(input, from, from, limit)
        } else {
            dfa.longest(input, from, limit)
        };
        end.map(|end| (from, end))
    }

    fn search<'c>(&self, cache: &'c mut Cache) -> &'c mut Dfa {
        cache.search.get_or_insert_with(|| {
            Box::new(Dfa::new(
                &self.root().hir,
                &self.symbols,
                Direction::Forward,
                true,
            ))
        })
    }
}

fn plan(hir: &std::rc::Rc<Hir>) -> Plan {
    let mut pieces = Vec::new();
    hir.pieces(&mut pieces);
    if let Some(literal) = literal(&pieces) {
        return literal;
    }
    if anchored(hir) {
        return Plan::Anchored;
    }
    let prefix = prefix(&pieces);
    if prefix.len() >= 2 {
        let skip = Skip::Prefix(Box::new(Finder::new(&prefix).into_owned()));
        return Plan::Skip {
            skip,
            rare: true,
            required: None,
        };
    }
    let first: Vec<u8> = hir.first.iter().collect();
    let (skip, rare) = match first[..] {
        _ if hir.min == 0 || first.len() == 256 => (Skip::Nothing, false),
        [a] => (Skip::Bytes(a, a, a), true),
        [a, b] => (Skip::Bytes(a, b, b), true),
        [a, b, c] => (Skip::Bytes(a, b, c), true),
        _ => (
            Skip::Set(Box::new(std::array::from_fn(|byte| {
                hir.first.contains(byte as u8)
            }))),
            false,
        ),
    };
    let required = if rare {
        Vec::new()
    } else {
        longest_run(&pieces)
    };
    let required = (!required.is_empty()).then(|| Box::new(Finder::new(&required).into_owned()));
    Plan::Skip {
        skip,
        rare,
        required,
    }
}

fn literal(pieces: &[&std::rc::Rc<Hir>]) -> Option<Plan> {
    let mut pieces = pieces;
    let (mut start, mut end) = (None, false);
    while let [first, rest @ ..] = pieces
        && let Kind::Assert(assert @ (Assert::LineStart | Assert::TextStart)) = first.kind
    {
        start = if start == Some(Assert::LineStart) {
            start
        } else {
            Some(assert)
        };
        pieces = rest;
    }
    while let [rest @ .., last] = pieces
        && let Kind::Assert(Assert::LineEnd | Assert::TextEnd) = last.kind
    {
        end = true;
        pieces = rest;
    }
    let needle: Vec<u8> = pieces
        .iter()
        .map(|piece| single(piece))
        .collect::<Option<_>>()?;
    if needle.is_empty() {
        return None;
    }
    Some(Plan::Literal {
        finder: Box::new(Finder::new(&needle).into_owned()),
        start,
        end,
    })
}

fn anchored(hir: &Hir) -> bool {
    match &hir.kind {
        Kind::Assert(assert) => matches!(assert, Assert::LineStart | Assert::TextStart),
        Kind::Cat(parts) => {
            for part in parts {
                if anchored(part) {
                    return true;
                }
                if part.max != Some(0) {
                    return false;
                }
            }
            false
        }
        Kind::Alt(parts) => parts.iter().all(|part| anchored(part)),
        Kind::Repeat { sub, min, .. } => *min > 0 && anchored(sub),
        Kind::Empty | Kind::Set(_) | Kind::Look(_) => false,
    }
}

/// The text that every match begins with.
fn prefix(pieces: &[&std::rc::Rc<Hir>]) -> Vec<u8> {
    let mut prefix = Vec::new();
    for piece in pieces {
        match (&piece.kind, single(piece)) {
            (_, Some(byte)) => prefix.push(byte),
            (Kind::Assert(_) | Kind::Look(_), _) => {}
            (Kind::Repeat { sub, min, .. }, _) => {
                if let Some(byte) = single(sub) {
                    prefix.extend(std::iter::repeat_n(byte, *min as usize));
                }
                break;
            }
            _ => break,
        }
    }
    prefix
}

/// The longest text that every match contains.
fn longest_run(pieces: &[&std::rc::Rc<Hir>]) -> Vec<u8> {
    let (mut best, mut run) = (Vec::new(), Vec::new());
    for piece in pieces {
        match single(piece) {
            Some(byte) => run.push(byte),
            None if piece.max == Some(0) => {}
            None => run.clear(),
        }
        if run.len() > best.len() {
            best.clone_from(&run);
        }
    }
    best
}

fn single(hir: &Hir) -> Option<u8> {
    match &hir.kind {
        Kind::Set(set) => ByteSet::single(set),
        _ => None,
    }
}
