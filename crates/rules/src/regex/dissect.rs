//! Taking a match apart: which bytes each group captured.
//!
//! The match of a part is known to exist when the part is taken apart, so without back-references a sequence is split in
//! one pass over it from each side, and nothing is ever tried twice.

use std::collections::HashSet;

use super::dfa::Input;
use super::hir::{Hir, Kind};
use super::nfa::Direction;
use super::parse::{Op, PartId};
use super::search::{Cache, Engine};
use super::set::ByteSet;

pub(super) type Slot = Option<(u32, u32)>;

pub(super) struct Dissector<'a> {
    pub(super) engine: &'a Engine,
    pub(super) cache: &'a mut Cache,
    pub(super) input: &'a Input<'a>,
    pub(super) slots: &'a mut [Slot],
}

impl Dissector<'_> {
    /// Sets the slots of the groups in `part`, which matches from `begin` to `end`.
    pub(super) fn dissect(&mut self, mut part: PartId, mut begin: usize, mut end: usize) {
        let engine = self.engine;
        while engine.parts[part as usize].traits.captures() && !self.input.exhausted() {
            match &engine.parts[part as usize].op {
                Op::Plain | Op::BackReference { .. } => return,
                Op::Group(number, sub) => {
                    self.slots[*number as usize] = Some((begin as u32, end as u32));
                    part = *sub;
                }
                Op::Alt(branches) => {
                    let Some(branch) = branches
                        .iter()
                        .find(|&&branch| self.covers(branch, begin, end))
                    else {
                        return;
                    };
                    part = *branch;
                }
                Op::Cat(left, right) => {
                    let Some(middle) = self.middle(*left, *right, begin, end) else {
                        return;
                    };
                    if engine.parts[*right as usize].traits.captures() {
                        self.dissect(*left, begin, middle);
                        (part, begin) = (*right, middle);
                    } else {
                        (part, end) = (*left, middle);
                    }
                }
                Op::Repeat { sub, max, .. } => {
                    if begin == end {
                        return;
                    }
                    let Some(last) = self.last_round(*sub, *max, begin, end) else {
                        return;
                    };
                    (part, begin) = (*sub, last);
                }
            }
        }
    }

    /// Whether `part` matches exactly these bytes.
    pub(super) fn covers(&mut self, part: PartId, begin: usize, end: usize) -> bool {
        let hir = &self.engine.parts[part as usize].hir;
        let length = end - begin;
        length >= hir.min as usize
            && hir.max.is_none_or(|max| length <= max as usize)
            && self
                .cache
                .part(self.engine, part, Direction::Forward)
                .exactly(self.input, begin, end)
    }

    /// Where `left` ends and `right` begins.
    fn middle(&mut self, left: PartId, right: PartId, begin: usize, end: usize) -> Option<usize> {
        let engine = self.engine;
        let (before, after) = (
            &*engine.parts[left as usize].hir,
            &*engine.parts[right as usize].hir,
        );
        if let Some(width) = before.width() {
            return Some(begin + width as usize);
        }
        if let Some(width) = after.width() {
            return end.checked_sub(width as usize);
        }
        let text = self.input.text;
        if after.min > 0 && before.alphabet.is_disjoint(&after.first) {
            let from = begin + before.min as usize;
            return find(&text[from..end], &after.first).map(|found| from + found);
        }
        if before.min > 0 && after.alphabet.is_disjoint(&before.last) {
            let to = end - after.min as usize;
            let last = text[begin..to]
                .iter()
                .rposition(|&byte| before.last.contains(byte));
            return last.map(|last| begin + last + 1);
        }
        let shorter = engine.parts[left as usize].traits.shorter();
        let (least, most) = (
            begin + before.min as usize,
            end.checked_sub(after.min as usize)?,
        );
        let Cache { marks, .. } = self.cache;
        let mut marks = std::mem::take(marks);
        let free = takes_anything(before);
        if !free {
            marks.clear();
            marks.resize((end - begin) / 64 + 1, 0);
            let dfa = self.cache.part(engine, left, Direction::Forward);
            dfa.each(self.input, begin, most, |at| {
                marks[(at - begin) / 64] |= 1 << ((at - begin) % 64);
                true
            });
        }
        let mut middle = None;
        let dfa = self.cache.part(engine, right, Direction::Backward);
        dfa.each(self.input, end, least, |at| {
            if free || marks[(at - begin) / 64] >> ((at - begin) % 64) & 1 != 0 {
                middle = Some(at);
            }
            shorter || middle.is_none()
        });
        self.cache.marks = marks;
        middle
    }

    /// Where the last of the rounds that cover these bytes begins: each takes what it prefers and leaves room for the
    /// rest to be covered too.
    fn last_round(
        &mut self,
        sub: PartId,
        max: Option<u32>,
        begin: usize,
        end: usize,
    ) -> Option<usize> {
        let part = &self.engine.parts[sub as usize];
        if max == Some(1) {
            return Some(begin);
        }
        if let Some(width) = part.hir.width().filter(|&width| width > 0) {
            return end.checked_sub(width as usize);
        }
        let shorter = part.traits.shorter();
        // a position from which the rest cannot be covered is not tried again; how many rounds are left matters
        // only where they are bounded
        let mut failed = HashSet::new();
        let mut rounds: Vec<(usize, Option<usize>)> = vec![(begin, None)];
        while let Some(&(from, tried)) = rounds.last() {
            if self.input.exhausted() {
                return None;
            }
            let count = rounds.len();
            let last = max.is_some_and(|max| count as u32 >= max);
            let dfa = self.cache.part(self.engine, sub, Direction::Forward);
            let to = match tried {
                _ if last => (tried.is_none() && dfa.exactly(self.input, from, end)).then_some(end),
                Some(tried) if shorter => dfa.shortest(self.input, from, tried + 1, end),
                None if shorter => dfa.shortest(self.input, from, from + 1, end),
                Some(tried) => dfa.longest(self.input, from, tried - 1),
                None => dfa.longest(self.input, from, end),
            };
            let key = |count: usize, at: usize| (if max.is_some() { count } else { 0 }, at);
            match to.filter(|&to| to > from) {
                Some(to) if to == end => return Some(from),
                Some(to) => {
                    if let Some(round) = rounds.last_mut() {
                        round.1 = Some(to);
                    }
                    if !failed.contains(&key(count + 1, to)) {
                        rounds.push((to, None));
                    }
                }
                None => {
                    failed.insert(key(count, from));
                    rounds.pop();
                }
            }
        }
        None
    }
}

fn find(text: &[u8], set: &ByteSet) -> Option<usize> {
    text.iter().position(|&byte| set.contains(byte))
}

/// Whether it matches every text that is long enough.
fn takes_anything(hir: &Hir) -> bool {
    let Kind::Repeat { sub, max: None, .. } = &hir.kind else {
        return false;
    };
    matches!(&sub.kind, Kind::Set(set) if *set == ByteSet::FULL)
}
