//! What numbers in the tables stand for. It is kept in a table of its own beside them, so that whoever reads them later
//! knows, also once the process is dead, and one that takes over gives the same numbers to the same things.

use std::collections::BTreeMap;
use std::io;

use xdp::libbpf_rs::libbpf_sys::BPF_F_NO_PREALLOC;
use xdp::libbpf_rs::{MapHandle, MapType};
use xdp::map;

/// Of what kind a named thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Kind {
    /// A virtual, by its number.
    Virtual = 1,
    /// A member, by its number.
    Member = 2,
    /// A rule of source NAT, by its number.
    Rule = 3,
    /// What an interface's switches were before, by the interface's number.
    Switches = 4,
}

/// The longest name in bytes.
pub const LONGEST: usize = 120;

/// The table's name.
pub const TABLE: &str = "names";

const ENTRIES: u32 = 262_144;

type Value = [u8; LONGEST];

/// A new table for names.
pub(crate) fn create() -> io::Result<MapHandle> {
    let (key, value) = (size_of::<u64>() as u32, LONGEST as u32);
    map::create(MapType::Hash, TABLE, key, value, ENTRIES, BPF_F_NO_PREALLOC)
}

/// All names of one kind, by number.
pub fn of_kind(table: &MapHandle, kind: Kind) -> io::Result<BTreeMap<u32, String>> {
    let mut names = BTreeMap::new();
    map::entries(table, |key: u64, value: Value| {
        if key >> 32 == kind as u64 {
            names.insert(key as u32, text(&value));
        }
    })?;
    Ok(names)
}

/// Names a thing. A name that is too long is cut.
pub fn set(table: &MapHandle, kind: Kind, number: u32, name: &str) -> io::Result<()> {
    let mut value = [0; LONGEST];
    let mut end = name.len().min(LONGEST);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    value[..end].copy_from_slice(&name.as_bytes()[..end]);
    map::set(table, &key(kind, number), &value)
}

/// The name of a thing.
pub fn get(table: &MapHandle, kind: Kind, number: u32) -> io::Result<Option<String>> {
    Ok(map::get::<u64, Value>(table, &key(kind, number))?.map(|value| text(&value)))
}

/// Forgets a name.
pub fn forget(table: &MapHandle, kind: Kind, number: u32) -> io::Result<()> {
    map::remove(table, &key(kind, number)).map(|_| ())
}

/// Has the table hold these names of a kind and no others.
pub fn replace(table: &MapHandle, kind: Kind, names: &BTreeMap<u32, String>) -> io::Result<()> {
    let before = of_kind(table, kind)?;
    for number in before.keys().filter(|number| !names.contains_key(number)) {
        forget(table, kind, *number)?;
    }
    for (number, name) in names {
        if before.get(number) != Some(name) {
            set(table, kind, *number, name)?;
        }
    }
    Ok(())
}

fn key(kind: Kind, number: u32) -> u64 {
    u64::from(kind as u32) << 32 | u64::from(number)
}

fn text(value: &Value) -> String {
    let end = value
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}
