//! A slab with generations: a key that outlives its entry finds nothing instead of a stranger.

/// Index in the low 24 bits, generation in the next 24: 48 bits, so that a thread's number fits
/// above it in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key(u64);

const INDEX_BITS: u32 = 24;
const MASK: u64 = (1 << INDEX_BITS) - 1;

impl Key {
    /// A key that no entry ever has.
    pub(crate) const NONE: Key = Key(u64::MAX);

    pub(crate) fn new(index: usize, generation: u32) -> Self {
        Key((index as u64 & MASK) | ((u64::from(generation) & MASK) << INDEX_BITS))
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Key(bits & ((1 << (2 * INDEX_BITS)) - 1))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        (self.0 & MASK) as usize
    }

    fn generation(self) -> u32 {
        ((self.0 >> INDEX_BITS) & MASK) as u32
    }
}

enum Entry<T> {
    Used { generation: u32, value: T },
    Free { generation: u32, next: usize },
}

/// Entries a page holds. Pages never move and are never copied: a slab that grows makes nobody wait,
/// and has no room to spare but in its last page.
const PAGE: usize = 512;

pub(crate) struct Slab<T> {
    pages: Vec<Vec<Entry<T>>>,
    free: usize,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Slab {
            pages: Vec::new(),
            free: usize::MAX,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts in what `make` builds from the key it will have.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> Key {
        self.len += 1;
        if let Some(&Entry::Free { generation, next }) = self.entry(self.free) {
            let key = Key::new(self.free, generation);
            let value = make(key);
            self.pages[self.free / PAGE][self.free % PAGE] = Entry::Used { generation, value };
            self.free = next;
            return key;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let last = self.pages.len() - 1;
        let page = &mut self.pages[last];
        let index = last * PAGE + page.len();
        assert!(
            index < MASK as usize,
            "a reactor's slab holds 16 million entries at most"
        );
        let key = Key::new(index, 0);
        page.push(Entry::Used {
            generation: 0,
            value: make(key),
        });
        key
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.entry(key.index()) {
            Some(Entry::Used { generation, value }) if *generation == key.generation() => {
                Some(value)
            }
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let page = self.pages.get_mut(key.index() / PAGE)?;
        match page.get_mut(key.index() % PAGE) {
            Some(Entry::Used { generation, value }) if *generation == key.generation() => {
                Some(value)
            }
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        self.len -= 1;
        let generation = (key.generation() + 1) & MASK as u32;
        let free = Entry::Free {
            generation,
            next: self.free,
        };
        self.free = key.index();
        let place = &mut self.pages[key.index() / PAGE][key.index() % PAGE];
        match std::mem::replace(place, free) {
            Entry::Used { value, .. } => Some(value),
            Entry::Free { .. } => None,
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let entries = self.pages.iter().flatten().enumerate();
        entries.filter_map(|(index, entry)| match entry {
            Entry::Used { generation, .. } => Some(Key::new(index, *generation)),
            Entry::Free { .. } => None,
        })
    }

    fn entry(&self, index: usize) -> Option<&Entry<T>> {
        self.pages.get(index / PAGE)?.get(index % PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing_after_its_place_is_taken_again() {
        let mut slab = Slab::new();
        let first = slab.insert_with(|_| "first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert_with(|_| "second");
        assert_eq!(first.index(), second.index());
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn entries_are_found_across_pages() {
        let mut slab = Slab::new();
        let keys: Vec<_> = (0..3 * PAGE).map(|n| slab.insert_with(|_| n)).collect();
        for (n, key) in keys.iter().enumerate() {
            if n % 3 == 0 {
                assert_eq!(slab.remove(*key), Some(n));
            }
        }
        let left: Vec<_> = slab
            .keys()
            .filter_map(|key| slab.get(key).copied())
            .collect();
        let expected: Vec<_> = (0..3 * PAGE).filter(|n| n % 3 != 0).collect();
        assert_eq!(left, expected);
        for n in 0..PAGE {
            slab.insert_with(|_| n);
        }
        assert_eq!(slab.len(), 3 * PAGE);
        assert_eq!(slab.pages.len(), 3);
    }

    #[test]
    fn a_key_survives_its_bits() {
        let mut slab = Slab::new();
        let keys: Vec<_> = (0..100).map(|n| slab.insert_with(|_| n)).collect();
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(slab.get(Key::from_bits(key.bits())), Some(&n));
        }
        assert_eq!(slab.get(Key::NONE), None);
    }
}
