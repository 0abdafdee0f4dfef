//! Maps whose keys nobody outside chooses.

/// A map by a quick hash with a fixed seed.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, foldhash::fast::FixedState>;
