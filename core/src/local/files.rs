//! Files as such: made, given their names, removed, and synced, beside what an engine does within them.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::local::owner::private;
use crate::mutant;

/// Something that is done to a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAct<'a> {
    /// Makes an empty file.
    Create(&'a Path),
    /// Makes its contents durable.
    Sync(&'a Path),
    /// Gives a file a second name.
    Link(&'a Path, &'a Path),
    /// Gives a file another name.
    Rename(&'a Path, &'a Path),
    /// Takes a name away.
    Remove(&'a Path),
    /// Makes the names in a folder durable.
    SyncFolder(&'a Path),
}

/// Looks on, and may refuse. The seam for tests of power losses and failing disks.
pub trait FileWatch: fmt::Debug + Send + Sync + 'static {
    /// Carries `work` out and answers as it does, or answers an error and does not.
    ///
    /// # Errors
    /// What `work` answers, or what is to be the answer instead.
    fn act(&self, act: FileAct<'_>, work: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

/// Does things to files so that they last, or are not there at all. Clones are watched by the same.
#[derive(Clone, Debug, Default)]
pub struct Files {
    watch: Option<Arc<dyn FileWatch>>,
}

impl Files {
    /// Files that somebody watches.
    #[must_use]
    pub fn watched(watch: Arc<dyn FileWatch>) -> Self {
        Self { watch: Some(watch) }
    }

    fn act(&self, act: FileAct<'_>, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match &self.watch {
            Some(watch) => watch.act(act, &mut work),
            None => work(),
        }
    }

    /// Makes an empty file that only its user may touch.
    ///
    /// # Errors
    /// `AlreadyExists`, and whatever else the file system answers.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        let mut made = None;
        self.act(FileAct::Create(path), || {
            made = Some(private().create_new(true).open(path)?);
            Ok(())
        })?;
        made.ok_or_else(|| io::Error::other("a file was to be made, and was not"))
    }

    /// Makes the contents of a file durable.
    ///
    /// # Errors
    /// Whatever the file system answers.
    pub fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        self.act(FileAct::Sync(path), || file.sync_all())
    }

    /// Takes a name away.
    ///
    /// # Errors
    /// Whatever the file system answers.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.act(FileAct::Remove(path), || fs::remove_file(path))
    }

    /// Gives a finished file its name, durably, unless somebody took it meanwhile: `false` then.
    ///
    /// # Errors
    /// Whatever the file system answers.
    pub fn publish(&self, unfinished: &Path, to: &Path) -> io::Result<bool> {
        match self.act(FileAct::Link(unfinished, to), || fs::hard_link(unfinished, to)) {
            // A second name that stays does no harm, and is tidied up later.
            Ok(()) => drop(self.remove(unfinished)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            // Without hard links there is a moment in which a name that appears would be replaced.
            Err(_) if to.exists() => return Ok(false),
            Err(_) => self.act(FileAct::Rename(unfinished, to), || fs::rename(unfinished, to))?,
        }
        self.sync_folder(to.parent());
        Ok(true)
    }

    /// Copies a file to a new name, durably: only its user may touch it.
    ///
    /// # Errors
    /// `AlreadyExists`, and whatever else the file system answers.
    pub fn copy(&self, from: &Path, to: &Path) -> io::Result<File> {
        let mut source = File::open(from)?;
        let mut copy = self.create(to)?;
        // Says to a tidying neighbour that somebody is at it. Without locks there is no tidying either.
        let _ = copy.try_lock();
        io::copy(&mut source, &mut copy)?;
        self.sync(&copy, to)?;
        Ok(copy)
    }

    /// Puts a finished file in the place of another, durably and at once; the other goes on under the name `keep`. Cut
    /// short anywhere, the place has the one or the other, whole.
    ///
    /// # Errors
    /// `AlreadyExists` when something has the name `keep`, and whatever else the file system answers: without hard
    /// links nothing is replaced.
    pub fn replace(&self, unfinished: &Path, to: &Path, keep: &Path) -> io::Result<()> {
        self.act(FileAct::Link(to, keep), || fs::hard_link(to, keep))?;
        self.sync_folder(keep.parent());
        if let Err(error) = self.act(FileAct::Rename(unfinished, to), || fs::rename(unfinished, to)) {
            // What is in its place still has its own name.
            let _ = self.remove(keep);
            return Err(error);
        }
        self.sync_folder(to.parent());
        Ok(())
    }

    /// Makes the names in a folder durable. Where folders cannot be synced the file system does it alone.
    pub fn sync_folder(&self, folder: Option<&Path>) {
        if mutant::is("files/names-not-synced") {
            return;
        }
        let here = Path::new(".");
        let folder = folder.map_or(here, |folder| if folder.as_os_str().is_empty() { here } else { folder });
        let _ = self.act(FileAct::SyncFolder(folder), || File::open(folder)?.sync_all());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_file_has_one_name_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (unfinished, to) = (folder.path().join("u"), folder.path().join("t"));
        let files = Files::default();
        drop(files.create(&unfinished).unwrap());
        assert!(files.create(&unfinished).is_err());
        assert!(files.publish(&unfinished, &to).unwrap());
        assert!(to.exists() && !unfinished.exists());
        fs::write(&unfinished, "another").unwrap();
        assert!(!files.publish(&unfinished, &to).unwrap());
        assert_eq!(fs::read(&to).unwrap(), b"");
    }

    #[test]
    fn a_replaced_file_goes_on_under_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let [to, keep, from, unfinished] = ["t", "k", "f", "u"].map(|name| folder.path().join(name));
        fs::write(&to, "old").unwrap();
        fs::write(&from, "new").unwrap();
        let files = Files::default();
        drop(files.copy(&from, &unfinished).unwrap());
        files.replace(&unfinished, &to, &keep).unwrap();
        assert_eq!((fs::read(&to).unwrap(), fs::read(&keep).unwrap()), (b"new".to_vec(), b"old".to_vec()));
        assert!(from.exists() && !unfinished.exists());
        drop(files.copy(&from, &unfinished).unwrap());
        let taken = files.replace(&unfinished, &to, &keep).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&keep).unwrap(), b"old");
    }
}
