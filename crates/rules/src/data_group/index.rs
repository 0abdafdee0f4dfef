//! Names in their order, from the front or from the back, so that those that an item begins or ends with are found by one
//! binary search.

use std::cmp::Ordering;

use super::NONE;

/// Places of names in order, and for each the longest other name that it begins with.
pub(super) struct Nested {
    order: Vec<u32>,
    parents: Vec<u32>,
    backwards: bool,
}

impl Nested {
    /// By the names' first bytes first.
    pub(super) fn forwards<'a>(names: impl Iterator<Item = &'a [u8]>) -> Self {
        Nested::new(names.collect(), false)
    }

    /// By the names' last bytes first.
    pub(super) fn backwards<'a>(names: impl Iterator<Item = &'a [u8]>) -> Self {
        Nested::new(names.collect(), true)
    }

    fn new(names: Vec<&[u8]>, backwards: bool) -> Self {
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        order.sort_unstable_by(|a, b| compare(names[*a as usize], names[*b as usize], backwards));
        let mut parents = Vec::with_capacity(order.len());
        let mut open: Vec<u32> = Vec::new();
        for (n, &at) in order.iter().enumerate() {
            let name = names[at as usize];
            let begins = |n: &u32| begins(name, names[order[*n as usize] as usize], backwards);
            while open.last().is_some_and(|n| !begins(n)) {
                open.pop();
            }
            parents.push(open.last().copied().unwrap_or(NONE));
            open.push(n as u32);
        }
        Nested {
            order,
            parents,
            backwards,
        }
    }

    /// The longest name that `item` begins with.
    pub(super) fn longest<'a>(
        &self,
        names: &impl Fn(u32) -> &'a [u8],
        item: &[u8],
    ) -> Option<usize> {
        self.around(names, item).next()
    }

    /// All names that `item` begins with, longest first.
    pub(super) fn all<'a>(&self, names: &impl Fn(u32) -> &'a [u8], item: &[u8]) -> Vec<usize> {
        self.around(names, item).collect()
    }

    /// All names that begin with `item`.
    pub(super) fn beginning<'a>(
        &self,
        names: &impl Fn(u32) -> &'a [u8],
        item: &[u8],
    ) -> Vec<usize> {
        let before = |at: &u32| compare(names(*at), item, self.backwards) == Ordering::Less;
        let first = self.order.partition_point(before);
        self.order[first..]
            .iter()
            .take_while(|at| begins(names(**at), item, self.backwards))
            .map(|at| *at as usize)
            .collect()
    }

    fn around<'n, 'a: 'n>(
        &'n self,
        names: &'n impl Fn(u32) -> &'a [u8],
        item: &'n [u8],
    ) -> impl Iterator<Item = usize> + 'n {
        // The last name that is not behind the item begins with every name that the item begins with.
        let before = |at: &u32| compare(names(*at), item, self.backwards) != Ordering::Greater;
        let after = self.order.partition_point(before);
        let up = |n: u32| (n != NONE).then_some(n);
        let first = up((after as u32).wrapping_sub(1));
        std::iter::successors(first, move |n| up(self.parents[*n as usize]))
            .map(|n| self.order[n as usize])
            .filter(move |at| begins(item, names(*at), self.backwards))
            .map(|at| at as usize)
    }
}

fn compare(a: &[u8], b: &[u8], backwards: bool) -> Ordering {
    if backwards {
        a.iter().rev().cmp(b.iter().rev())
    } else {
        a.cmp(b)
    }
}

fn begins(text: &[u8], with: &[u8], backwards: bool) -> bool {
    if backwards {
        text.ends_with(with)
    } else {
        text.starts_with(with)
    }
}
