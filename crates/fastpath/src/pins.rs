//! Where things stay when the process ends, and how they are found again:
//!
//! - `ROOT/links/IFINDEX`: the programs on interfaces;
//! - `ROOT/LAYOUT/maps/TABLE` and `ROOT/LAYOUT/progs/PROGRAM`: a set of tables and the programs that work on it. `LAYOUT`
//!   names what fits together; the set that another has replaced stays until its flows have ended.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use xdp::attach::Attachment;
use xdp::libbpf_rs::MapHandle;
use xdp::pin::{self, PinError};

use crate::instance::{Instance, belongs};
use crate::tables::Tables;

/// The folder in which everything is pinned.
#[derive(Clone, Debug)]
pub struct Pins {
    root: PathBuf,
}

impl Pins {
    /// In this folder of a bpf file system, which need not be there.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the folder, and mounts the bpf file system where it is missing.
    pub(crate) fn prepare(&self) -> Result<(), PinError> {
        pin::mounted(&self.root.join(LINKS))
    }

    /// Where the link of an interface is pinned.
    pub(crate) fn link(&self, ifindex: u32) -> PathBuf {
        self.root.join(LINKS).join(ifindex.to_string())
    }

    /// The programs on interfaces, as far as these are in the calling thread's namespace and not gone.
    pub fn links(&self) -> io::Result<Vec<Attachment>> {
        Ok(entries(&self.root.join(LINKS))?
            .iter()
            .filter_map(|path| Attachment::open(path).ok())
            .collect())
    }

    /// Removes links whose interface is gone.
    pub(crate) fn remove_dead_links(&self) -> io::Result<()> {
        for path in entries(&self.root.join(LINKS))? {
            if Attachment::open(&path).is_err() {
                pin::unpin(&path)?;
            }
        }
        Ok(())
    }

    /// The set of this layout, which need not be there.
    pub(crate) fn set(&self, layout: &str) -> Set {
        Set {
            path: self.root.join(layout),
        }
    }

    /// All sets.
    pub fn sets(&self) -> io::Result<Vec<Set>> {
        let sets = entries(&self.root)?.into_iter();
        let sets = sets.filter(|path| path.file_name().is_some_and(|name| name != LINKS));
        Ok(sets.map(|path| Set { path }).collect())
    }

    /// The set that new flows begin in.
    pub fn current(&self) -> io::Result<Option<Set>> {
        let sets = self.sets()?;
        Ok(sets
            .into_iter()
            .find(|set| set.is_complete() && !set.is_retired()))
    }

    /// Removes everything. The programs on interfaces go with their links.
    pub fn remove(&self) -> Result<(), PinError> {
        pin::remove_tree(&self.root)
    }
}

/// A pinned set of tables and the programs that work on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    path: PathBuf,
}

impl Set {
    /// Its layout's name.
    pub fn layout(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The folder of its tables.
    pub(crate) fn maps(&self) -> PathBuf {
        self.path.join("maps")
    }

    /// Whether it is all there: programs are pinned last.
    pub fn is_complete(&self) -> bool {
        self.path.join(PROGRAMS).join("headgate").exists()
    }

    /// Whether another has replaced it.
    pub fn is_retired(&self) -> bool {
        self.table("retired")
            .and_then(|table| xdp::map::get::<u32, u32>(&table, &0))
            .is_ok_and(|retired| retired.is_some_and(|retired| retired != 0))
    }

    /// One of its tables.
    pub fn table(&self, name: &str) -> io::Result<MapHandle> {
        pin::open_map(&self.maps().join(name))
    }

    /// All of its tables.
    pub fn tables(&self) -> io::Result<Tables> {
        let mut tables = Tables::default();
        for path in entries(&self.maps())? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            tables.insert(name, pin::open_map(&path)?);
        }
        Ok(tables)
    }

    /// One of its programs.
    pub fn program(&self, name: &str) -> io::Result<OwnedFd> {
        pin::open_program(&self.path.join(PROGRAMS).join(name))
    }

    /// The table by which its programs call each other.
    pub(crate) fn chain(&self) -> io::Result<MapHandle> {
        pin::open_map(&self.path.join(PROGRAMS).join(CHAIN))
    }

    /// Pins the tables of an instance that are not pinned yet.
    pub(crate) fn keep_tables(&self, tables: &Tables) -> Result<(), PinError> {
        pin::mounted(&self.maps())?;
        for (name, table) in tables.iter().filter(|(name, _)| belongs(name)) {
            let path = self.maps().join(name);
            if !path.exists() {
                pin::pin(table.as_fd(), &path).map_err(|source| PinError::Folder {
                    path: path.clone(),
                    source,
                })?;
            }
        }
        Ok(())
    }

    /// Pins the programs of an instance, in the place of earlier ones, which no interface may run any more.
    pub(crate) fn keep_programs(&self, instance: &Instance) -> io::Result<()> {
        let folder = self.path.join(PROGRAMS);
        fs::create_dir_all(&folder)?;
        replace(instance.tables().table(CHAIN)?.as_fd(), &folder, CHAIN)?;
        let mut programs = instance.programs();
        // The one by which a complete set is known comes last.
        programs.sort_by_key(|name| name == "headgate");
        for name in programs {
            replace(instance.program_named(&name)?, &folder, &name)?;
        }
        Ok(())
    }

    /// Removes it. Its programs end when nothing leads to them any more.
    pub(crate) fn remove(&self) -> Result<(), PinError> {
        pin::remove_tree(&self.path)
    }
}

const CHAIN: &str = "chain";
const LINKS: &str = "links";
const PROGRAMS: &str = "progs";

/// Pins `object` as `name`, whether something is pinned there or not; at no time is nothing.
fn replace(object: BorrowedFd<'_>, folder: &Path, name: &str) -> io::Result<()> {
    let fresh = folder.join(format!("{name}_new"));
    pin::unpin(&fresh)?;
    pin::pin(object, &fresh)?;
    fs::rename(&fresh, folder.join(name))
}

/// What is in a folder; nothing if there is none.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let list = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut paths = Vec::new();
    for entry in list {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}
