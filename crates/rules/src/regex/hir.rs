//! The language of an expression, without its captures: what an automaton is built from.
//! Every node carries what the search wants to know of it, worked out once when it is made.

use std::rc::Rc;

use super::set::ByteSet;

/// A node of the language tree, shared between the parts of an expression that contain it.
pub(super) struct Hir {
    pub(super) kind: Kind,
    /// Instructions that its automaton needs, repetitions unrolled.
    pub(super) size: u64,
    /// Levels below this node.
    pub(super) depth: u32,
    /// The shortest and longest match, in bytes; no longest if it has no bound.
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    /// Bytes that can begin, end and be in a match.
    pub(super) first: ByteSet,
    pub(super) last: ByteSet,
    pub(super) alphabet: ByteSet,
    /// Whether it looks at its surroundings (anchors, word limits, lookahead).
    pub(super) looks: bool,
}

pub(super) enum Kind {
    Empty,
    Set(ByteSet),
    Cat(Vec<Rc<Hir>>),
    Alt(Vec<Rc<Hir>>),
    Repeat {
        sub: Rc<Hir>,
        min: u32,
        max: Option<u32>,
    },
    Assert(Assert),
    /// The lookahead with this number holds here.
    Look(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Assert {
    /// `^`; the second also after a newline.
    LineStart,
    LineStartOrNewline,
    /// `$`; the second also before a newline.
    LineEnd,
    LineEndOrNewline,
    TextStart,
    TextEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NotWordEdge,
}

impl Hir {
    pub(super) fn empty() -> Rc<Self> {
        Rc::new(Self::zero_width(Kind::Empty, false))
    }

    pub(super) fn assert(assert: Assert) -> Rc<Self> {
        Rc::new(Self::zero_width(Kind::Assert(assert), true))
    }

    pub(super) fn look(number: u8) -> Rc<Self> {
        Rc::new(Self::zero_width(Kind::Look(number), true))
    }

    pub(super) fn set(set: ByteSet) -> Rc<Self> {
        Rc::new(Self {
            min: 1,
            max: Some(1),
            first: set,
            last: set,
            alphabet: set,
            ..Self::zero_width(Kind::Set(set), false)
        })
    }

    pub(super) fn cat(mut parts: Vec<Rc<Self>>) -> Rc<Self> {
        parts.retain(|part| !matches!(part.kind, Kind::Empty));
        if let [only] = &parts[..] {
            return Rc::clone(only);
        }
        let mut hir = Self::zero_width(Kind::Empty, false);
        hir.size = 0;
        for part in &parts {
            if hir.min == 0 {
                hir.first = hir.first.union(part.first);
            }
            hir.last = if part.min == 0 {
                hir.last.union(part.last)
            } else {
                part.last
            };
            hir.min = hir.min.saturating_add(part.min);
            hir.max = hir.max.zip(part.max).and_then(|(a, b)| a.checked_add(b));
            hir.include(part);
        }
        if !parts.is_empty() {
            hir.kind = Kind::Cat(parts);
        }
        Rc::new(hir)
    }

    pub(super) fn alt(parts: Vec<Rc<Self>>) -> Rc<Self> {
        if let [only] = &parts[..] {
            return Rc::clone(only);
        }
        let mut hir = Self::zero_width(Kind::Empty, false);
        hir.min = u32::MAX;
        for part in &parts {
            hir.first = hir.first.union(part.first);
            hir.last = hir.last.union(part.last);
            hir.min = hir.min.min(part.min);
            hir.max = hir.max.zip(part.max).map(|(a, b)| a.max(b));
            hir.include(part);
        }
        hir.kind = Kind::Alt(parts);
        Rc::new(hir)
    }

    pub(super) fn repeat(sub: &Rc<Self>, min: u32, max: Option<u32>) -> Rc<Self> {
        match (min, max) {
            (1, Some(1)) => return Rc::clone(sub),
            (_, Some(0)) => return Self::empty(),
            _ => {}
        }
        let copies = u64::from(max.unwrap_or(min).max(1));
        Rc::new(Self {
            kind: Kind::Repeat {
                sub: Rc::clone(sub),
                min,
                max,
            },
            size: sub.size.saturating_add(1).saturating_mul(copies),
            depth: sub.depth + 1,
            min: sub.min.saturating_mul(min),
            max: match (sub.max, max) {
                (Some(0), _) => Some(0),
                (Some(length), Some(max)) => length.checked_mul(max),
                _ => None,
            },
            first: sub.first,
            last: sub.last,
            alphabet: sub.alphabet,
            looks: sub.looks,
        })
    }

    /// The one length that every match has.
    pub(super) fn width(&self) -> Option<u32> {
        self.max.filter(|&max| max == self.min)
    }

    /// Visits every node.
    pub(super) fn walk(&self, visit: &mut dyn FnMut(&Self)) {
        visit(self);
        match &self.kind {
            Kind::Cat(parts) | Kind::Alt(parts) => parts.iter().for_each(|part| part.walk(visit)),
            Kind::Repeat { sub, .. } => sub.walk(visit),
            Kind::Empty | Kind::Set(_) | Kind::Assert(_) | Kind::Look(_) => {}
        }
    }

    /// The pieces of a concatenation in order, nested ones spread out.
    pub(super) fn pieces<'a>(self: &'a Rc<Self>, into: &mut Vec<&'a Rc<Self>>) {
        match &self.kind {
            Kind::Cat(parts) => parts.iter().for_each(|part| part.pieces(into)),
            Kind::Empty => {}
            _ => into.push(self),
        }
    }

    fn include(&mut self, part: &Self) {
        self.size = self.size.saturating_add(part.size);
        self.depth = self.depth.max(part.depth + 1);
        self.alphabet = self.alphabet.union(part.alphabet);
        self.looks |= part.looks;
    }

    fn zero_width(kind: Kind, looks: bool) -> Self {
        Self {
            kind,
            size: 1,
            depth: 0,
            min: 0,
            max: Some(0),
            first: ByteSet::EMPTY,
            last: ByteSet::EMPTY,
            alphabet: ByteSet::EMPTY,
            looks,
        }
    }
}
