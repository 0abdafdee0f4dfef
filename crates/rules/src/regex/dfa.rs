//! The lazy automaton: sets of instructions become states when a text first leads to them, in a bounded cache.
//!
//! What is true at a position is known once the symbol after it is read, so a transition reports whether the position
//! that it leaves ended a match. Time is linear in the text; making a state costs as much as it has instructions.

use std::cell::Cell;
use std::collections::HashMap;

use super::hir::Hir;
use super::nfa::{Direction, Inst, Neighbour, Program, Symbols};

/// A text under a search and what it may still cost.
pub(super) struct Input<'a> {
    pub(super) text: &'a [u8],
    pub(super) symbols: &'a Symbols,
    /// Outcomes of the lookaheads at each position, a bit each; empty without lookaheads.
    pub(super) looks: &'a [u8],
    /// Whether the text starts within a line.
    pub(super) notbol: bool,
    pub(super) budget: &'a Cell<u64>,
}

impl Input<'_> {
    /// Takes from the budget; at its end every automaton stops as if nothing could match.
    pub(super) fn spend(&self, cost: u64) {
        self.budget.set(self.budget.get().saturating_sub(cost));
    }

    pub(super) fn exhausted(&self) -> bool {
        self.budget.get() == 0
    }

    fn start_edge(&self) -> usize {
        self.symbols.edge() + usize::from(self.notbol)
    }

    #[inline]
    fn symbol_after(&self, at: usize) -> usize {
        let symbol = match self.text.get(at) {
            Some(&byte) => self.symbols.of(byte),
            None => self.symbols.edge(),
        };
        self.with_looks(symbol, at)
    }

    #[inline]
    fn symbol_before(&self, at: usize) -> usize {
        let symbol = if at == 0 {
            self.start_edge()
        } else {
            self.symbols.of(self.text[at - 1])
        };
        self.with_looks(symbol, at)
    }

    #[inline]
    fn with_looks(&self, symbol: usize, at: usize) -> usize {
        match self.looks.get(at) {
            Some(&looks) => symbol + usize::from(looks) * self.symbols.count(),
            None => symbol,
        }
    }

    /// What is behind a start at `at`, seen against the direction.
    fn behind(&self, at: usize, direction: Direction) -> Neighbour {
        self.symbols.neighbour(match direction {
            Direction::Forward if at == 0 => self.start_edge(),
            Direction::Forward => self.symbols.of(self.text[at - 1]),
            Direction::Backward if at == self.text.len() => self.symbols.edge(),
            Direction::Backward => self.symbols.of(self.text[at]),
        })
    }
}

pub(super) struct Dfa {
    program: Program,
    direction: Direction,
    /// A match may begin anywhere.
    unanchored: bool,
    /// Whether any instruction looks at the neighbours; without, states need not know them.
    looks: bool,
    stride: usize,
    table: Vec<u32>,
    states: Vec<State>,
    ids: HashMap<State, u32>,
    starts: [Option<u32>; 5],
    set: SparseSet,
    next: SparseSet,
    stack: Vec<u32>,
    held: usize,
    /// Symbols read in all by `each`.
    pub(super) scanned: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    insts: Box<[u32]>,
    behind: Neighbour,
}

/// The position that the transition leaves ended a match.
pub(super) const MATCH: u32 = 1 << 31;
/// Nothing can match from here on.
pub(super) const DEAD: u32 = 1 << 30;
/// The automaton is where it began.
pub(super) const START: u32 = 1 << 29;
const UNKNOWN: u32 = 1 << 28;
const OFFSET: u32 = UNKNOWN - 1;

/// Table entries, and instructions in states, that an automaton keeps before it starts afresh.
const MOST_ENTRIES: usize = 1 << 15;

impl Dfa {
    pub(super) fn new(
        hir: &Hir,
        symbols: &Symbols,
        direction: Direction,
        unanchored: bool,
    ) -> Self {
        let program = Program::new(hir, direction);
        let size = program.insts.len();
        Self {
            program,
            direction,
            unanchored,
            looks: hir.looks,
            stride: symbols.with_looks(),
            table: Vec::new(),
            states: Vec::new(),
            ids: HashMap::new(),
            starts: [None; 5],
            set: SparseSet::new(size),
            next: SparseSet::new(size),
            stack: Vec::new(),
            held: 0,
            scanned: 0,
        }
    }

    /// The state before `at` is read, for a match that begins there.
    #[inline]
    pub(super) fn start(&mut self, input: &Input<'_>, at: usize) -> u32 {
        let behind = if self.looks {
            input.behind(at, self.direction)
        } else {
            Neighbour::Other
        };
        match self.starts[behind as usize] {
            Some(state) => state,
            None => self.make_start(behind),
        }
    }

    /// The step from `state` over the symbol after `at` (before it, backwards): a state and flags.
    #[inline]
    pub(super) fn step(&mut self, input: &Input<'_>, state: u32, at: usize) -> u32 {
        let symbol = match self.direction {
            Direction::Forward => input.symbol_after(at),
            Direction::Backward => input.symbol_before(at),
        };
        let step = self.table[state as usize + symbol];
        if step & UNKNOWN == 0 {
            step
        } else {
            self.make(input, state, symbol)
        }
    }

    /// The longest match from `from` that ends at or before `limit`.
    pub(super) fn longest(
        &mut self,
        input: &Input<'_>,
        from: usize,
        limit: usize,
    ) -> Option<usize> {
        let mut last = None;
        self.each(input, from, limit, |at| {
            last = Some(at);
            true
        });
        last
    }

    /// The shortest match from `from` that ends between `least` and `limit`.
    pub(super) fn shortest(
        &mut self,
        input: &Input<'_>,
        from: usize,
        least: usize,
        limit: usize,
    ) -> Option<usize> {
        let mut found = None;
        self.each(input, from, limit, |at| {
            if at >= least {
                found = Some(at);
            }
            at < least
        });
        found
    }

    pub(super) fn exactly(&mut self, input: &Input<'_>, from: usize, to: usize) -> bool {
        self.longest(input, from, to) == Some(to)
    }

    /// Calls `found` with each end of a match from `from` up to `limit` (down to it, backwards) until it says no.
    #[inline]
    pub(super) fn each(
        &mut self,
        input: &Input<'_>,
        from: usize,
        limit: usize,
        mut found: impl FnMut(usize) -> bool,
    ) {
        let mut state = self.start(input, from);
        let mut at = from;
        loop {
            (state, at) = self.glide(input, state, at, limit);
            let step = self.step(input, state, at);
            if step & (MATCH | DEAD) != 0 && ((step & MATCH != 0 && !found(at)) || step & DEAD != 0)
            {
                break;
            }
            if at == limit {
                break;
            }
            match self.direction {
                Direction::Forward => at += 1,
                Direction::Backward => at -= 1,
            }
            state = step & OFFSET;
        }
        self.scanned += 1 + from.abs_diff(at);
        input.spend(1 + from.abs_diff(at) as u64 / 8);
    }

    /// Where the first match to end does so, and the last position before it at which none was under way.
    /// `skip` leads from a position at which none is to the next at which one can begin.
    #[inline]
    pub(super) fn earliest(
        &mut self,
        input: &Input<'_>,
        from: usize,
        skip: impl Fn(&[u8], usize) -> Option<usize>,
    ) -> Option<(usize, usize)> {
        let mut at = skip(input.text, from)?;
        let mut idle = at;
        let mut state = self.start(input, at);
        let found = loop {
            (state, at) = self.glide(input, state, at, input.text.len());
            let step = self.step(input, state, at);
            if step & (MATCH | DEAD | START) != 0 {
                if step & MATCH != 0 {
                    break Some((idle, at));
                }
                if step & DEAD != 0 {
                    break None;
                }
                if at < input.text.len() {
                    idle = match skip(input.text, at + 1) {
                        Some(idle) => idle,
                        None => {
                            at = input.text.len();
                            break None;
                        }
                    };
                    if idle > at + 1 {
                        at = idle;
                        state = self.start(input, at);
                        continue;
                    }
                }
            }
            if at == input.text.len() {
                break None;
            }
            state = step & OFFSET;
            at += 1;
        };
        input.spend(1 + (at - from) as u64 / 8);
        found
    }

    /// Takes the steps from `at` on towards `limit` that need no attention.
    #[inline]
    fn glide(
        &self,
        input: &Input<'_>,
        mut state: u32,
        mut at: usize,
        limit: usize,
    ) -> (u32, usize) {
        if !input.looks.is_empty() {
            return (state, at);
        }
        let mut plain = |byte: u8| {
            let step = self.table[state as usize + input.symbols.of(byte)];
            let plain = step & !OFFSET == 0;
            if plain {
                state = step;
            }
            plain
        };
        match self.direction {
            Direction::Forward => {
                let run = &input.text[at..limit];
                at += run
                    .iter()
                    .position(|&byte| !plain(byte))
                    .unwrap_or(run.len());
            }
            Direction::Backward => {
                let run = &input.text[limit..at];
                at = limit
                    + run
                        .iter()
                        .rposition(|&byte| !plain(byte))
                        .map_or(0, |last| last + 1);
            }
        }
        (state, at)
    }

    #[cold]
    fn make_start(&mut self, behind: Neighbour) -> u32 {
        self.next.clear();
        closure(
            &self.program,
            self.program.start,
            &mut self.next,
            &mut self.stack,
            |_| false,
        );
        let state = self.intern(behind) & OFFSET;
        self.starts[behind as usize] = Some(state);
        state
    }

    #[cold]
    fn make(&mut self, input: &Input<'_>, from: u32, symbol: usize) -> u32 {
        if input.exhausted() {
            return DEAD;
        }
        let state = self.states[from as usize / self.stride].clone();
        let (looks, plain) = (
            symbol / input.symbols.count(),
            symbol % input.symbols.count(),
        );
        let ahead = input.symbols.neighbour(plain);
        let (left, right) = match self.direction {
            Direction::Forward => (state.behind, ahead),
            Direction::Backward => (ahead, state.behind),
        };
        // what holds at this position opens more of the program
        self.set.clear();
        for &inst in &state.insts {
            closure(
                &self.program,
                inst,
                &mut self.set,
                &mut self.stack,
                |inst| match inst {
                    Inst::Assert(assert, _) => assert.holds(left, right),
                    Inst::Look(number, _) => looks >> number & 1 != 0,
                    _ => false,
                },
            );
        }
        self.next.clear();
        let mut matched = 0;
        let sample = input.symbols.samples.get(plain).copied();
        for index in 0..self.set.members.len() {
            match (
                &self.program.insts[self.set.members[index] as usize],
                sample,
            ) {
                (Inst::Match, _) => matched = MATCH,
                (Inst::Set(set, next), Some(byte)) if set.contains(byte) => {
                    closure(
                        &self.program,
                        *next,
                        &mut self.next,
                        &mut self.stack,
                        |_| false,
                    );
                }
                _ => {}
            }
        }
        let mut idle = 0;
        if self.unanchored && sample.is_some() {
            if self.next.members.is_empty() {
                idle = START;
            }
            closure(
                &self.program,
                self.program.start,
                &mut self.next,
                &mut self.stack,
                |_| false,
            );
        }
        input.spend(4 + (self.set.members.len() + self.next.members.len()) as u64);
        let step = if self.next.members.is_empty() {
            DEAD
        } else {
            let full = self.table.len() + self.stride > MOST_ENTRIES.max(2 * self.stride)
                || self.held > MOST_ENTRIES;
            if full {
                self.forget();
            }
            let step = self.intern(ahead);
            if full {
                return step | matched | idle;
            }
            step
        };
        let step = step | matched | idle;
        self.table[from as usize + symbol] = step;
        step
    }

    /// The state for the set in `next`.
    fn intern(&mut self, behind: Neighbour) -> u32 {
        let insts = &self.program.insts;
        let kept = |&inst: &u32| !matches!(insts[inst as usize], Inst::Split(_));
        let mut members: Vec<u32> = self.next.members.iter().copied().filter(kept).collect();
        members.sort_unstable();
        let looks = members
            .iter()
            .any(|&inst| matches!(insts[inst as usize], Inst::Assert(..) | Inst::Look(..)));
        let state = State {
            insts: members.into(),
            behind: if looks { behind } else { Neighbour::Other },
        };
        if let Some(&id) = self.ids.get(&state) {
            return id;
        }
        let id = self.table.len() as u32;
        self.table.resize(self.table.len() + self.stride, UNKNOWN);
        self.held += state.insts.len();
        self.states.push(state.clone());
        self.ids.insert(state, id);
        id
    }

    fn forget(&mut self) {
        self.table.clear();
        self.states.clear();
        self.ids.clear();
        self.starts = [None; 5];
        self.held = 0;
    }
}

/// Adds `inst` and what it leads to without reading anything; beyond a look at the neighbours only where `open` says.
fn closure(
    program: &Program,
    inst: u32,
    set: &mut SparseSet,
    stack: &mut Vec<u32>,
    open: impl Fn(&Inst) -> bool,
) {
    stack.push(inst);
    while let Some(inst) = stack.pop() {
        if !set.insert(inst) {
            continue;
        }
        match &program.insts[inst as usize] {
            Inst::Split(entries) => stack.extend(entries),
            look @ (Inst::Assert(_, next) | Inst::Look(_, next)) if open(look) => stack.push(*next),
            _ => {}
        }
    }
}

/// A set of instructions with constant-time insertion and clearing.
struct SparseSet {
    members: Vec<u32>,
    places: Vec<u32>,
}

impl SparseSet {
    fn new(size: usize) -> Self {
        Self {
            members: Vec::new(),
            places: vec![0; size],
        }
    }

    fn clear(&mut self) {
        self.members.clear();
    }

    fn insert(&mut self, inst: u32) -> bool {
        let place = self.places[inst as usize] as usize;
        if self.members.get(place) == Some(&inst) {
            return false;
        }
        self.places[inst as usize] = self.members.len() as u32;
        self.members.push(inst);
        true
    }
}
