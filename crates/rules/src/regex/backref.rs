//! Expressions with back-references: no automaton knows them, so every division of a match that the automata allow is
//! tried in order of preference. That may take exponential time, and is why a search has a budget.

use super::dissect::{Dissector, Slot};
use super::nfa::Direction;
use super::parse::{Op, PartId};

/// The leftmost match; the slots are set.
pub(super) fn locate(dissector: &mut Dissector<'_>) -> Option<(usize, usize)> {
    let engine = dissector.engine;
    let input = dissector.input;
    let mut found = None;
    engine.candidates(input, |from| {
        found = dissector
            .match_from(engine.root, from)
            .map(|end| (from, end));
        found.is_some()
    });
    found
}

impl Dissector<'_> {
    fn match_from(&mut self, root: PartId, from: usize) -> Option<usize> {
        let mut tried = None;
        loop {
            let end = self.next_end(root, from, from, self.input.text.len(), tried)?;
            self.forget(root);
            if self.divide(root, from, end) {
                return Some(end);
            }
            tried = Some(end);
        }
    }

    /// The next end that `part` prefers after `tried`, at most `limit`, and at least `least` if it prefers short.
    fn next_end(
        &mut self,
        part: PartId,
        from: usize,
        least: usize,
        limit: usize,
        tried: Option<usize>,
    ) -> Option<usize> {
        if self.input.exhausted() {
            return None;
        }
        let shorter = self.engine.parts[part as usize].traits.shorter();
        let dfa = self.cache.part(self.engine, part, Direction::Forward);
        match tried {
            None if shorter => dfa.shortest(self.input, from, least, limit),
            None => dfa.longest(self.input, from, limit),
            Some(tried) if shorter && tried < limit => {
                dfa.shortest(self.input, from, tried + 1, limit)
            }
            Some(tried) if !shorter && tried > from => dfa.longest(self.input, from, tried - 1),
            Some(_) => None,
        }
    }

    /// Whether `part` matches these bytes with its back-references; sets the slots in it.
    fn divide(&mut self, part: PartId, begin: usize, end: usize) -> bool {
        let engine = self.engine;
        let here = &engine.parts[part as usize];
        self.input.spend(1);
        if self.input.exhausted() {
            return false;
        }
        if !here.traits.back_references() {
            self.dissect(part, begin, end);
            return true;
        }
        match &here.op {
            Op::Plain => true,
            Op::Group(number, sub) => {
                let matched = self.divide(*sub, begin, end);
                if matched {
                    self.slots[*number as usize] = Some((begin as u32, end as u32));
                }
                matched
            }
            Op::Alt(branches) => branches
                .iter()
                .any(|&branch| self.covers(branch, begin, end) && self.divide(branch, begin, end)),
            Op::Cat(left, right) => {
                let mut tried = None;
                while let Some(middle) = self.next_end(*left, begin, begin, end, tried) {
                    if self.covers(*right, middle, end) {
                        if self.divide(*left, begin, middle) && self.divide(*right, middle, end) {
                            return true;
                        }
                        self.forget(*left);
                        self.forget(*right);
                    }
                    tried = Some(middle);
                }
                false
            }
            Op::Repeat { sub, min, max } => {
                self.divide_rounds(*sub, *min as usize, *max, begin, end)
            }
            Op::BackReference { group, min, max } => self.same(*group, *min, *max, begin, end),
        }
    }

    fn divide_rounds(
        &mut self,
        sub: PartId,
        min: usize,
        max: Option<u32>,
        begin: usize,
        end: usize,
    ) -> bool {
        if min == 0 && begin == end {
            return true;
        }
        let min = min.max(1);
        // rounds are not empty, unless it takes empty ones to come to the least number
        let most = max
            .map_or(end - begin, |max| (max as usize).min(end - begin))
            .max(min);
        let empty_allowed = |count: usize, at: usize| count < min && min - count >= end - at;
        let mut ends: Vec<(usize, Option<usize>)> = vec![(begin, None)];
        while let Some(&(from, tried)) = ends.last() {
            let count = ends.len();
            // what is left may be nothing
            let least = if from == end || empty_allowed(count, from) {
                from
            } else {
                from + 1
            };
            let Some(to) = self.next_end(sub, from, least, end, tried) else {
                ends.pop();
                continue;
            };
            ends[count - 1].1 = Some(to);
            if to == end {
                if count >= min && self.divide_each(sub, &ends) {
                    return true;
                }
            } else if count < most && (to > from || empty_allowed(count, from)) {
                ends.push((to, None));
            }
        }
        false
    }

    fn divide_each(&mut self, sub: PartId, ends: &[(usize, Option<usize>)]) -> bool {
        ends.iter().all(|&(from, to)| {
            self.forget(sub);
            self.divide(sub, from, to.unwrap_or(from))
        })
    }

    /// Whether these bytes are what the group captured, between `min` and `max` times.
    fn same(&self, group: u32, min: u32, max: Option<u32>, begin: usize, end: usize) -> bool {
        let Some((from, to)) = self.slots[group as usize] else {
            return false;
        };
        let text = self.input.text;
        let (captured, here) = (&text[from as usize..to as usize], &text[begin..end]);
        if captured.is_empty() {
            return here.is_empty();
        }
        if here.is_empty() {
            return min == 0;
        }
        let times = here.len() / captured.len();
        self.input.spend(here.len() as u64 / 8);
        here.len() % captured.len() == 0
            && times >= min as usize
            && max.is_none_or(|max| times <= max as usize)
            && here.chunks(captured.len()).all(|chunk| {
                if self.engine.nocase {
                    chunk.eq_ignore_ascii_case(captured)
                } else {
                    chunk == captured
                }
            })
    }

    /// Empties the slots of the groups in `part`.
    fn forget(&mut self, part: PartId) {
        let here = &self.engine.parts[part as usize];
        if !here.traits.captures() {
            return;
        }
        match &here.op {
            Op::Group(number, sub) => {
                self.slots[*number as usize] = Slot::None;
                self.forget(*sub);
            }
            Op::Cat(left, right) => {
                self.forget(*left);
                self.forget(*right);
            }
            Op::Alt(branches) => branches.iter().for_each(|&branch| self.forget(branch)),
            Op::Repeat { sub, .. } => self.forget(*sub),
            Op::Plain | Op::BackReference { .. } => {}
        }
    }
}
