//! Putting a backup in the place of a store: whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use turnkeep_core::local::{FileAct, FileWatch, Files};
use turnkeep_core::{Error, ErrorKind, Result, Store};

use super::{append, block_on, close, commit, find, message, session_of, texts};

/// How a backend is asked about its backups.
#[derive(Debug)]
pub struct Restoring<S> {
    /// The name of a store's file.
    pub file: &'static str,
    /// Opens the store at a path.
    pub open: fn(&Path) -> S,
    /// How many messages the store at a path has.
    pub messages: fn(&Path) -> u64,
    /// Puts the backup (second) in the place of a store (first), which goes on under another name if there is one.
    pub restore: fn(&Path, &Path, Option<&Path>, Files) -> Result<()>,
}

/// Lets so many acts pass; then the process is as good as dead.
#[derive(Debug)]
struct Dying(AtomicUsize, usize);

impl FileWatch for Dying {
    fn act(&self, _: FileAct<'_>, work: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if self.0.fetch_add(1, Ordering::SeqCst) < self.1 { work() } else { Err(io::Error::other("dead")) }
    }
}

impl<S: Store> Restoring<S> {
    /// A store that went on after its backup: two messages, and a third.
    pub fn store_and_backup(&self, folder: &Path) -> (PathBuf, PathBuf) {
        let (path, backup) = (folder.join(self.file), folder.join("backup"));
        let store = (self.open)(&path);
        let session = session_of(&store, "s", 2);
        block_on(store.maintenance().unwrap().backup(&backup)).unwrap();
        commit(&store, [append(&session, vec![message("after the backup")])]);
        close(&store);
        (path, backup)
    }

    /// How many messages a store has; `None` when there is none.
    pub fn messages(&self, path: &Path) -> Option<u64> {
        path.exists().then(|| (self.messages)(path))
    }

    /// Restores.
    pub fn restore(&self, path: &Path, backup: &Path, keep: Option<&Path>) {
        (self.restore)(path, backup, keep, Files::default()).unwrap();
    }

    /// Restores, which must be refused.
    pub fn refused(&self, path: &Path, backup: &Path, keep: Option<&Path>) -> Error {
        (self.restore)(path, backup, keep, Files::default()).unwrap_err()
    }

    /// A backup becomes a store where none is, and can be written to.
    pub fn becomes_a_store(&self) {
        let folder = tempfile::tempdir().unwrap();
        let (path, backup) = self.store_and_backup(folder.path());
        let to = folder.path().join("new/folder").join(self.file);
        self.restore(&to, &backup, None);
        let store = (self.open)(&to);
        let session = find(&store, "s");
        assert_eq!(texts(&store, &session), ["message 1", "message 2"]);
        commit(&store, [append(&session, vec![message("and on")])]);
        assert_eq!(block_on(store.maintenance().unwrap().verify()).unwrap().damage, []);
        close(&store);
        assert_eq!(self.messages(&path), Some(3), "the store it came from is as it was");
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&to).unwrap().permissions()) & 0o777,
            0o600
        );
    }

    /// A store that is there is replaced only under another name, which nothing has yet.
    pub fn replaces_only_under_another_name(&self) {
        let folder = tempfile::tempdir().unwrap();
        let (path, backup) = self.store_and_backup(folder.path());
        assert_eq!(self.refused(&path, &backup, None).kind(), ErrorKind::AlreadyExists);
        let keep = folder.path().join("kept");
        fs::write(&keep, "mine").unwrap();
        assert_eq!(self.refused(&path, &backup, Some(&keep)).kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&keep).unwrap(), "mine");
        fs::remove_file(&keep).unwrap();
        assert_eq!(self.messages(&path), Some(3));
        self.restore(&path, &backup, Some(&keep));
        assert_eq!((self.messages(&path), self.messages(&keep)), (Some(2), Some(3)));
        assert_eq!(names(folder.path()), ["backup", "kept", self.file]);
        close(&(self.open)(&path));
        close(&(self.open)(&keep));
    }

    /// What is no whole backup is refused, and nothing is changed. `more` makes files in a folder that are none, and
    /// says how each is refused.
    pub fn refuses(&self, more: impl FnOnce(&Path) -> Vec<(PathBuf, ErrorKind)>) {
        let folder = tempfile::tempdir().unwrap();
        let (path, backup) = self.store_and_backup(folder.path());
        let keep = folder.path().join("kept");
        let before = fs::read(&path).unwrap();
        let whole = fs::read(&backup).unwrap();
        let mut flipped = whole.clone();
        let at = (0..whole.len() - 9).rev().find(|at| &whole[*at..*at + 9] == b"message 1").unwrap();
        flipped[at - 1] = b'{';
        let words =
            b"my own words, much longer than any header of a database would ever be, over and over again";
        let mut bad = vec![
            (folder.path().to_owned(), ErrorKind::Invalid),
            (folder.path().join("nothing"), ErrorKind::Io),
        ];
        for (name, content, kind) in [
            ("words", &words[..], ErrorKind::Invalid),
            ("half", &whole[..whole.len() / 2], ErrorKind::Corrupt),
            ("flipped", &flipped, ErrorKind::Corrupt),
        ] {
            fs::write(folder.path().join(name), content).unwrap();
            bad.push((folder.path().join(name), kind));
        }
        bad.extend(more(folder.path()));
        for (bad, kind) in bad {
            let error = self.refused(&path, &bad, Some(&keep));
            assert_eq!(error.kind(), kind, "{}: {error}", bad.display());
        }
        assert_eq!(fs::read(&path).unwrap(), before);
        assert!(!keep.exists());
        assert!(!names(folder.path()).iter().any(|name| name.contains("unfinished")));
    }

    /// A restore that dies anywhere leaves the old store or the new one, and the next one ends it.
    pub fn dies_anywhere(&self) {
        let mut died = 0;
        for there in [true, false] {
            for n in 0..20 {
                let folder = tempfile::tempdir().unwrap();
                let (path, backup) = self.store_and_backup(folder.path());
                let to = if there { path } else { folder.path().join("absent") };
                let keep = folder.path().join("kept");
                let dying = Files::watched(Arc::new(Dying(AtomicUsize::new(0), n)));
                if (self.restore)(&to, &backup, Some(&keep), dying).is_ok() {
                    break;
                }
                died += 1;
                let found = self.messages(&to);
                assert!(found == Some(2) || found == there.then_some(3), "died at {n}: {found:?}");
                // The next one ends it, whatever was left.
                let again = folder.path().join("kept again");
                self.restore(&to, &backup, Some(&again));
                assert_eq!(self.messages(&to), Some(2));
                let kept = [self.messages(&keep), self.messages(&again)];
                assert!(!there || kept.contains(&Some(3)), "died at {n}: {kept:?}");
            }
        }
        assert!(died >= 7, "create, sync, link, rename, and the same without a store: {died}");
    }
}

/// What is in a folder, without the files that only say who uses a store.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".write.lock") && !name.ends_with(".owners"))
        .collect();
    names.sort();
    names
}
