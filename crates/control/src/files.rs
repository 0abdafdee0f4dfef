//! Files and environment as the configuration sees them, with a note of every file that was looked at, so that changes are
//! seen later. What a change leads to is for others.

use model::Source;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file system and the environment of this process.
#[derive(Debug, Default)]
pub struct Files {
    seen: RefCell<BTreeMap<PathBuf, Mark>>,
}

impl Files {
    /// With nothing looked at yet.
    pub fn new() -> Self {
        Files::default()
    }

    /// What was looked at so far, as it was just before.
    pub fn watch(self) -> Watch {
        Watch {
            seen: self.seen.into_inner(),
            pending: None,
        }
    }

    fn note(&self, path: &Path) {
        // Before it is read: a change in between is then seen as one.
        let mark = Mark::of(path);
        let mut seen = self.seen.borrow_mut();
        seen.entry(path.to_owned()).or_insert(mark);
    }
}

impl Source for Files {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.note(path);
        fs::read_to_string(path)
    }

    fn read_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.note(path);
        fs::read(path)
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        self.note(path);
        let file = File::open(path)?;
        match file.metadata()?.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => Ok(()),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.note(folder);
        fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect()
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Files as they were when they were read, to be compared with what they are now.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    seen: BTreeMap<PathBuf, Mark>,
    /// What the last look found, if that was a change.
    pending: Option<BTreeMap<PathBuf, Mark>>,
}

impl Watch {
    /// Whether files have changed and then stayed as they are from one call to the next, so that nobody reads half of
    /// what is still being written. True once for each change. To be called every second or so.
    pub fn settled_change(&mut self) -> bool {
        let now: BTreeMap<_, _> = self.seen.keys().map(|p| (p.clone(), Mark::of(p))).collect();
        if now == self.seen {
            self.pending = None;
            return false;
        }
        if self.pending.as_ref() == Some(&now) {
            self.seen = now;
            self.pending = None;
            return true;
        }
        self.pending = Some(now);
        false
    }

    /// The files that are watched.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.seen.keys().map(PathBuf::as_path)
    }
}

/// By what a change of a file is known. Links are followed, so that one turned to another file is a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark(Option<(u64, u64, u64, i64, i64)>);

impl Mark {
    fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Mark(metadata.map(|m| (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(paths: &[&Path]) -> Watch {
        let files = Files::new();
        for path in paths {
            let _ = files.check(path);
        }
        files.watch()
    }

    #[test]
    fn a_change_is_told_once_and_only_when_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        fs::write(&path, "1").unwrap();
        let mut watch = watch(&[&path]);
        assert!(!watch.settled_change());
        fs::write(&path, "22").unwrap();
        assert!(!watch.settled_change(), "it may still be written");
        fs::write(&path, "333").unwrap();
        assert!(!watch.settled_change(), "it was still written");
        assert!(watch.settled_change());
        assert!(!watch.settled_change());
    }

    #[test]
    fn a_file_that_appears_and_one_that_is_replaced_are_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, replaced) = (folder.path().join("m"), folder.path().join("r"));
        fs::write(&replaced, "same").unwrap();
        for change in [&missing, &replaced] {
            let mut watch = watch(&[&missing, &replaced]);
            let other = folder.path().join("other");
            fs::write(&other, "same").unwrap();
            fs::rename(&other, change).unwrap();
            assert!(!watch.settled_change());
            assert!(watch.settled_change());
        }
    }

    #[test]
    fn a_change_that_is_undone_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "1").unwrap();
        let mut watch = watch(&[&path]);
        fs::rename(&path, &aside).unwrap();
        assert!(!watch.settled_change());
        fs::rename(&aside, &path).unwrap();
        assert!(!watch.settled_change());
        assert!(!watch.settled_change());
    }
}
