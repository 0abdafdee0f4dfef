//! Numbers for things that come and go: who stays keeps the number, and one that is free is given again as late as can be,
//! since flows may still bear it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Who has which number, from 1 on.
#[derive(Clone, Debug)]
pub(super) struct Ids<K> {
    given: HashMap<K, u16>,
    /// Numbers that were given back, the oldest first, and who had them.
    gone: VecDeque<(Option<K>, u16)>,
    /// From here on none was ever given.
    fresh: u16,
    most: u16,
}

impl<K: Clone + Eq + Hash> Ids<K> {
    /// Numbers up to `most`.
    pub(super) fn new(most: u16) -> Self {
        Self {
            given: HashMap::new(),
            gone: VecDeque::new(),
            fresh: 1,
            most,
        }
    }

    /// The number of `key`: the one that it has or had, else one that is free. `None` when there is none.
    pub(super) fn take(&mut self, key: &K) -> Option<u16> {
        if let Some(id) = self.given.get(key) {
            return Some(*id);
        }
        let had = |(of, _): &(Option<K>, u16)| of.as_ref() == Some(key);
        let id = if let Some(place) = self.gone.iter().position(had) {
            self.gone.remove(place)?.1
        } else if self.fresh <= self.most {
            self.fresh += 1;
            self.fresh - 1
        } else {
            self.gone.pop_front()?.1
        };
        self.given.insert(key.clone(), id);
        Some(id)
    }

    /// Notes that `key` had this number before. Nobody else may have it.
    pub(super) fn remember(&mut self, key: Option<K>, id: u16) {
        let skipped = self.fresh..id;
        self.gone.extend(skipped.map(|id| (None, id)));
        if id >= self.fresh {
            self.fresh = id + 1;
        } else {
            self.gone.retain(|(_, gone)| *gone != id);
        }
        self.gone.push_back((key, id));
    }

    /// Gives `key` this number if it has none yet and the number is free.
    pub(super) fn claim(&mut self, key: &K, id: u16) {
        if self.given.contains_key(key) {
            return;
        }
        if let Some(place) = self.gone.iter().position(|(_, gone)| *gone == id) {
            self.gone.remove(place);
            self.given.insert(key.clone(), id);
        }
    }

    /// Takes their numbers from all that are not kept.
    pub(super) fn keep(&mut self, kept: impl Fn(&K) -> bool) {
        let mut lost: Vec<(u16, K)> = Vec::new();
        self.given.retain(|key, id| {
            let stays = kept(key);
            if !stays {
                lost.push((*id, key.clone()));
            }
            stays
        });
        lost.sort_unstable_by_key(|(id, _)| *id);
        self.gone
            .extend(lost.into_iter().map(|(id, key)| (Some(key), id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_back_gets_the_number_it_had() {
        let mut ids = Ids::new(10);
        assert_eq!((ids.take(&'a'), ids.take(&'b')), (Some(1), Some(2)));
        ids.keep(|key| *key == 'b');
        assert_eq!((ids.take(&'c'), ids.take(&'a')), (Some(3), Some(1)));
        assert_eq!(ids.take(&'b'), Some(2));
    }

    #[test]
    fn a_number_is_given_again_only_when_no_other_is_left_and_the_oldest_first() {
        let mut ids = Ids::new(3);
        for key in ['a', 'b'] {
            ids.take(&key);
        }
        ids.keep(|key| *key != 'b');
        ids.keep(|_| false);
        assert_eq!(ids.take(&'c'), Some(3));
        assert_eq!(ids.take(&'d'), Some(2));
        assert_eq!(ids.take(&'e'), Some(1));
        assert_eq!(ids.take(&'f'), None);
    }

    #[test]
    fn numbers_of_an_earlier_process_go_to_those_who_had_them() {
        let mut ids = Ids::new(9);
        ids.remember(Some('x'), 5);
        ids.remember(None, 2);
        ids.remember(Some('y'), 7);
        assert_eq!((ids.take(&'y'), ids.take(&'x')), (Some(7), Some(5)));
        ids.claim(&'z', 2);
        assert_eq!((ids.take(&'z'), ids.take(&'w')), (Some(2), Some(8)));
    }
}
