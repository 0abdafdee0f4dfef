//! The programs with their tables, loaded and attached to nothing. What is written to the tables, where the programs are
//! attached and what stays when the process ends is left to others.

use std::hash::Hasher;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use xdp::libbpf_rs::{self, MapCore, MapHandle, Object, ObjectBuilder, OpenObject};
use xdp::object::{self, LoadError};

use crate::abi::{LAYOUT_VERSION, OBJECT, Settings};
use crate::capacity::Capacities;
use crate::tables::Tables;

/// The programs and their tables.
#[derive(Debug)]
pub struct Instance {
    object: Object,
    tables: Arc<Tables>,
    settings: Settings,
    capacities: Capacities,
}

/// Tables that belong to a program rather than to the flows: each time it is loaded it has new ones.
pub(crate) const OWN: [&str; 3] = ["chain", "works4", "works6"];

impl Instance {
    /// Loads the programs with tables of their own. Of the settings, what follows from the capacities is set here.
    pub fn load(capacities: &Capacities, settings: &Settings) -> Result<Self, LoadError> {
        Self::load_with(capacities, settings, None, Vec::new())
    }

    /// The same, with the tables that are pinned in the folder `reused`, which must be of the same layout, and with tables
    /// that the programs do not know.
    pub(crate) fn load_with(
        capacities: &Capacities,
        settings: &Settings,
        reused: Option<&Path>,
        more: Vec<(&str, MapHandle)>,
    ) -> Result<Self, LoadError> {
        let mut settings = *settings;
        capacities.tell(&mut settings);
        let object = object::load("headgate", OBJECT, |open| {
            prepare(open, capacities)?;
            object::set_constants(open, &settings)?;
            if let Some(folder) = reused {
                for mut map in open.maps_mut() {
                    let name = map.name().to_string_lossy().into_owned();
                    if belongs(&name) {
                        map.reuse_pinned_map(folder.join(&name))?;
                    }
                }
            }
            Ok(())
        })?;
        let mut tables = Tables::default();
        for (name, table) in more {
            tables.insert(name, table);
        }
        for map in object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            if !name.contains('.') {
                let table = MapHandle::try_from(&map).map_err(|source| LoadError::Load {
                    object: "headgate".to_owned(),
                    source,
                    log: String::new(),
                })?;
                tables.insert(name, table);
            }
        }
        Ok(Self {
            object,
            tables: Arc::new(tables),
            settings,
            capacities: *capacities,
        })
    }

    /// The program that interfaces run.
    pub fn program(&self) -> io::Result<BorrowedFd<'_>> {
        self.program_named("headgate")
    }

    /// A program by its function's name.
    pub fn program_named(&self, name: &str) -> io::Result<BorrowedFd<'_>> {
        object::program(&self.object, name)
    }

    /// The names of the programs.
    pub fn programs(&self) -> Vec<String> {
        let programs = self.object.progs();
        programs
            .map(|program| program.name().to_string_lossy().into_owned())
            .collect()
    }

    /// Its tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Its tables, for longer than it lives.
    pub(crate) fn shared_tables(&self) -> Arc<Tables> {
        Arc::clone(&self.tables)
    }

    /// What the programs were told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How much its tables hold.
    pub fn capacities(&self) -> &Capacities {
        &self.capacities
    }
}

/// Whether a table of the object is one of those that stay when programs are loaded anew.
pub(crate) fn belongs(table: &str) -> bool {
    // Sections of constants have a dot in their names.
    !table.contains('.') && !OWN.contains(&table)
}

/// A name for tables of these capacities with the records of these programs: tables of the same name can be used by them.
pub(crate) fn layout(capacities: &Capacities) -> Result<String, LoadError> {
    let failed = |source| LoadError::Prepare {
        object: "headgate".to_owned(),
        source,
    };
    let mut builder = ObjectBuilder::default();
    let mut open = builder
        .name("headgate")
        .and_then(|builder| builder.open_memory(OBJECT))
        .map_err(failed)?;
    prepare(&mut open, capacities).map_err(failed)?;
    // The layout is read by programs of other builds, so the hash must not change with the compiler.
    let mut hash = Fnv::default();
    for map in open.maps() {
        let name = map.name().to_string_lossy().into_owned();
        if belongs(&name) {
            hash.write(name.as_bytes());
            for number in [
                u32::from(map.map_type()),
                map.key_size(),
                map.value_size(),
                map.max_entries(),
                map.map_flags(),
            ] {
                hash.write(&number.to_le_bytes());
            }
        }
    }
    Ok(format!("v{LAYOUT_VERSION}-{:016x}", hash.finish()))
}

fn prepare(open: &mut OpenObject, capacities: &Capacities) -> Result<(), libbpf_rs::Error> {
    for (table, entries) in capacities.entries() {
        object::set_capacity(open, table, entries)?;
    }
    Ok(())
}

/// FNV-1a.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_follows_capacities_and_nothing_else() {
        let usual = Capacities::default();
        let larger = Capacities {
            users: usual.users + 1,
            ..usual
        };
        let name = layout(&usual).unwrap();
        assert_eq!(layout(&usual).unwrap(), name);
        assert_ne!(layout(&larger).unwrap(), name);
        assert!(name.starts_with(&format!("v{LAYOUT_VERSION}-")), "{name}");
    }

    #[test]
    fn programs_scratch_memory_does_not_outlive_them() {
        assert!(belongs("flows4") && belongs("retired"));
        assert!(!belongs("chain") && !belongs("works6") && !belongs("headgate.rodata"));
    }
}
