//! The tables of an instance, by the names they have in `bpf/maps.h`. What their records say is left to others.

use std::collections::BTreeMap;
use std::io;

use xdp::libbpf_rs::MapHandle;
use xdp::map::{self, Mapped, Pod};

/// Tables by name, each with a handle of its own.
#[derive(Debug, Default)]
pub struct Tables {
    maps: BTreeMap<String, MapHandle>,
}

impl Tables {
    /// Adds a table, in the place of one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, table: MapHandle) {
        self.maps.insert(name.into(), table);
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> io::Result<&MapHandle> {
        self.maps.get(name).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no table {name}"))
        })
    }

    /// All of them with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MapHandle)> {
        self.maps.iter().map(|(name, table)| (&**name, table))
    }

    /// A table in this process's memory.
    pub fn mapped(&self, name: &str) -> io::Result<Mapped> {
        Mapped::new(self.table(name)?).map_err(|error| about(name, error))
    }

    /// An entry of a table.
    pub fn get<K: Pod, V: Pod>(&self, name: &str, key: &K) -> io::Result<Option<V>> {
        map::get(self.table(name)?, key).map_err(|error| about(name, error))
    }

    /// Writes an entry of a table.
    pub fn set<K: Pod, V: Pod>(&self, name: &str, key: &K, value: &V) -> io::Result<()> {
        map::set(self.table(name)?, key, value).map_err(|error| about(name, error))
    }

    /// Removes an entry of a table and tells whether it was there.
    pub fn remove<K: Pod>(&self, name: &str, key: &K) -> io::Result<bool> {
        map::remove(self.table(name)?, key).map_err(|error| about(name, error))
    }

    /// All entries of a table.
    pub fn entries<K: Pod, V: Pod>(&self, name: &str) -> io::Result<Vec<(K, V)>> {
        let mut all = Vec::new();
        map::entries(self.table(name)?, |key, value| all.push((key, value)))
            .map_err(|error| about(name, error))?;
        Ok(all)
    }
}

/// The same error, which says of what table.
fn about(name: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("table {name}: {error}"))
}
