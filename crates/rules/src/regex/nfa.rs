//! Programs for the automata: a language as instructions, read forwards or backwards, and the classes of bytes that
//! none of them tells apart.

use super::hir::{Assert, Hir, Kind};
use super::set::ByteSet;
use std::collections::HashSet;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

pub(super) enum Inst {
    Match,
    Set(ByteSet, u32),
    Split(Vec<u32>),
    Assert(Assert, u32),
    Look(u8, u32),
}

pub(super) struct Program {
    pub(super) insts: Vec<Inst>,
    pub(super) start: u32,
}

impl Program {
    pub(super) fn new(hir: &Hir, direction: Direction) -> Self {
        let mut program = Self {
            insts: vec![Inst::Match],
            start: 0,
        };
        program.start = program.compile(hir, direction, 0);
        program
    }

    /// Appends `hir` going on to `next`; its entry.
    fn compile(&mut self, hir: &Hir, direction: Direction, next: u32) -> u32 {
        match &hir.kind {
            Kind::Empty => next,
            Kind::Set(set) => self.push(Inst::Set(*set, next)),
            Kind::Assert(assert) => self.push(Inst::Assert(*assert, next)),
            Kind::Look(number) => self.push(Inst::Look(*number, next)),
            Kind::Cat(parts) if direction == Direction::Forward => parts
                .iter()
                .rev()
                .fold(next, |next, part| self.compile(part, direction, next)),
            Kind::Cat(parts) => parts
                .iter()
                .fold(next, |next, part| self.compile(part, direction, next)),
            Kind::Alt(parts) => {
                let entries = parts
                    .iter()
                    .map(|part| self.compile(part, direction, next))
                    .collect();
                self.push(Inst::Split(entries))
            }
            Kind::Repeat { sub, min, max } => {
                let mut entry = next;
                let mut rounds = *min;
                if let Some(max) = max {
                    for _ in *min..*max {
                        let body = self.compile(sub, direction, entry);
                        entry = self.push(Inst::Split(vec![body, next]));
                    }
                } else {
                    let hub = self.push(Inst::Split(Vec::new()));
                    let body = self.compile(sub, direction, hub);
                    self.insts[hub as usize] = Inst::Split(vec![body, next]);
                    entry = hub;
                    if rounds > 0 {
                        entry = body;
                        rounds -= 1;
                    }
                }
                (0..rounds).fold(entry, |entry, _| self.compile(sub, direction, entry))
            }
        }
    }

    fn push(&mut self, inst: Inst) -> u32 {
        self.insts.push(inst);
        (self.insts.len() - 1) as u32
    }
}

/// What is on one side of a position, as far as an assertion cares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Neighbour {
    /// The end of the text that is also the end of a line.
    Edge,
    /// The start of a text that is not the start of a line.
    EdgeInLine,
    Newline,
    Word,
    Other,
}

impl Assert {
    pub(super) fn holds(self, left: Neighbour, right: Neighbour) -> bool {
        let starts = right == Neighbour::Word && left != Neighbour::Word;
        let ends = left == Neighbour::Word && right != Neighbour::Word;
        match self {
            Self::LineStart => left == Neighbour::Edge,
            Self::LineStartOrNewline => matches!(left, Neighbour::Edge | Neighbour::Newline),
            Self::LineEnd | Self::TextEnd => right == Neighbour::Edge,
            Self::LineEndOrNewline => matches!(right, Neighbour::Edge | Neighbour::Newline),
            Self::TextStart => matches!(left, Neighbour::Edge | Neighbour::EdgeInLine),
            Self::WordStart => starts,
            Self::WordEnd => ends,
            Self::WordEdge => starts || ends,
            Self::NotWordEdge => !(starts || ends),
        }
    }
}

/// The symbols that automata read: a class of bytes each, and the two kinds of edge.
pub(super) struct Symbols {
    pub(super) classes: [u8; 256],
    /// A byte of each class.
    pub(super) samples: Vec<u8>,
    neighbours: Vec<Neighbour>,
    /// Lookaheads: their outcomes are part of a symbol.
    pub(super) looks: u32,
}

impl Symbols {
    pub(super) fn new(hirs: &[&Hir], looks: u32) -> Self {
        let mut symbols = Self {
            classes: [0; 256],
            samples: Vec::new(),
            neighbours: Vec::new(),
            looks,
        };
        let mut singles = ByteSet::EMPTY;
        let mut others = HashSet::new();
        for hir in hirs {
            hir.walk(&mut |node| match node.kind {
                Kind::Set(set) => match set.single() {
                    Some(byte) => singles.insert(byte),
                    None => {
                        others.insert(set);
                    }
                },
                Kind::Assert(_) => {
                    others.insert(ByteSet::word());
                    singles.insert(b'\n');
                }
                _ => {}
            });
        }
        let mut count = 1;
        for set in &others {
            symbols.refine(set, &mut count);
        }
        symbols.single_out(&singles, &mut count);
        let word = ByteSet::word();
        for class in 0..count {
            let sample =
                (0..=255u8).find(|&byte| usize::from(symbols.classes[usize::from(byte)]) == class);
            let sample = sample.unwrap_or_default();
            symbols.samples.push(sample);
            symbols.neighbours.push(match sample {
                b'\n' => Neighbour::Newline,
                byte if word.contains(byte) => Neighbour::Word,
                _ => Neighbour::Other,
            });
        }
        symbols
            .neighbours
            .extend([Neighbour::Edge, Neighbour::EdgeInLine]);
        symbols
    }

    /// Symbols of one position, outcomes of lookaheads apart.
    pub(super) fn count(&self) -> usize {
        self.neighbours.len()
    }

    pub(super) fn with_looks(&self) -> usize {
        self.count() << self.looks
    }

    pub(super) fn edge(&self) -> usize {
        self.samples.len()
    }

    pub(super) fn neighbour(&self, symbol: usize) -> Neighbour {
        self.neighbours[symbol]
    }

    #[inline]
    pub(super) fn of(&self, byte: u8) -> usize {
        usize::from(self.classes[usize::from(byte)])
    }

    /// Splits the classes so that `set` is a union of them.
    fn refine(&mut self, set: &ByteSet, count: &mut usize) {
        let mut renamed = [[None; 2]; 256];
        let mut next = 0;
        for byte in 0..=255u8 {
            let class = &mut self.classes[usize::from(byte)];
            let name = &mut renamed[usize::from(*class)][usize::from(set.contains(byte))];
            *class = *name.get_or_insert_with(|| {
                next += 1;
                (next - 1) as u8
            });
        }
        *count = next;
    }

    /// Gives each of these bytes a class of its own.
    fn single_out(&mut self, singles: &ByteSet, count: &mut usize) {
        let mut members = [0u16; 256];
        for class in self.classes {
            members[usize::from(class)] += 1;
        }
        for byte in singles.iter() {
            let class = &mut self.classes[usize::from(byte)];
            if members[usize::from(*class)] > 1 {
                members[usize::from(*class)] -= 1;
                *class = *count as u8;
                *count += 1;
            }
        }
    }
}
