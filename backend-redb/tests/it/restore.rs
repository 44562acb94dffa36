//! Putting a backup in the place of a store: whole or not at all, and never under anybody's feet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use turnkeep_core::local::{FileAct, FileWatch, Files};
use turnkeep_core::{Error, ErrorKind, Maintenance};
use turnkeep_redb::RedbOptions;

use crate::support::{append, block_on, close, commit, fresh, message, open, session_of};

fn refused(path: &Path, backup: &Path, keep: Option<&Path>) -> Error {
    RedbOptions::new(path).restore_blocking(backup, keep).unwrap_err()
}

/// A store that went on after its backup: two entries, and a third.
fn store_and_backup(folder: &Path) -> (PathBuf, PathBuf) {
    let (path, backup) = (folder.join("state.redb"), folder.join("backup"));
    let store = open(&path);
    let session = session_of(&store, "s", 2);
    block_on(store.backup(&backup)).unwrap();
    commit(&store, [append(&session, vec![message("after the backup")])]);
    close(&store);
    (path, backup)
}

/// How many entries a store has; `None` when there is none.
fn entries(path: &Path) -> Option<u64> {
    path.exists().then(|| {
        let store = open(path);
        let found = block_on(store.stats()).unwrap().entries;
        close(&store);
        found
    })
}

#[test]
fn a_backup_becomes_a_store_where_none_is() {
    let (folder, _) = fresh();
    let (path, backup) = store_and_backup(folder.path());
    let to = folder.path().join("new/folder/state.redb");
    RedbOptions::new(&to).restore_blocking(&backup, None).unwrap();
    assert_eq!((entries(&to), entries(&path)), (Some(2), Some(3)));
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&to).unwrap().permissions()) & 0o777,
        0o600
    );
}

#[test]
fn a_store_that_is_there_is_replaced_only_under_another_name() {
    let (folder, _) = fresh();
    let (path, backup) = store_and_backup(folder.path());
    assert_eq!(refused(&path, &backup, None).kind(), ErrorKind::AlreadyExists);
    let keep = folder.path().join("kept");
    RedbOptions::new(&path).restore_blocking(&backup, Some(&keep)).unwrap();
    assert_eq!((entries(&path), entries(&keep)), (Some(2), Some(3)));
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 3, "the store, the backup, and what was kept");
}

#[test]
fn a_store_or_a_backup_that_somebody_has_open_is_left_alone() {
    let (folder, _) = fresh();
    let (path, backup) = store_and_backup(folder.path());
    let keep = folder.path().join("kept");
    let held = open(&path);
    assert_eq!(refused(&path, &backup, Some(&keep)).kind(), ErrorKind::Busy);
    close(&held);
    let held = open(&backup);
    assert_eq!(refused(&path, &backup, Some(&keep)).kind(), ErrorKind::Busy);
    close(&held);
    assert_eq!(entries(&path), Some(3));
    assert!(!keep.exists());
}

#[test]
fn what_is_no_whole_backup_is_refused_and_nothing_is_changed() {
    let (folder, _) = fresh();
    let (path, backup) = store_and_backup(folder.path());
    let keep = folder.path().join("kept");
    let before = fs::read(&path).unwrap();
    let whole = fs::read(&backup).unwrap();
    let mut flipped = whole.clone();
    let at = (0..whole.len() - 9).rev().find(|at| &whole[*at..*at + 9] == b"message 1").unwrap();
    flipped[at] ^= 1;
    for (name, content, kind) in [
        ("words", &b"my own"[..], ErrorKind::Invalid),
        ("half", &whole[..whole.len() / 2], ErrorKind::Corrupt),
        ("flipped", &flipped, ErrorKind::Corrupt),
    ] {
        let bad = folder.path().join(name);
        fs::write(&bad, content).unwrap();
        let error = refused(&path, &bad, Some(&keep));
        assert_eq!(error.kind(), kind, "{name}: {error}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(!keep.exists());
    let left = fs::read_dir(folder.path()).unwrap().flatten();
    assert!(!left.into_iter().any(|file| file.file_name().to_string_lossy().contains("unfinished")));
}

/// Lets so many acts pass; then the process is as good as dead.
#[derive(Debug)]
struct Dying(AtomicUsize, usize);

impl FileWatch for Dying {
    fn act(&self, _: FileAct<'_>, work: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if self.0.fetch_add(1, Ordering::SeqCst) < self.1 { work() } else { Err(io::Error::other("dead")) }
    }
}

#[test]
fn a_restore_that_dies_anywhere_leaves_the_old_store_or_the_new_one() {
    let mut died = 0;
    for there in [true, false] {
        for n in 0..20 {
            let (folder, _) = fresh();
            let (path, backup) = store_and_backup(folder.path());
            let to = if there { path } else { folder.path().join("absent.redb") };
            let keep = folder.path().join("kept");
            let dying = Files::watched(Arc::new(Dying(AtomicUsize::new(0), n)));
            if RedbOptions::new(&to).files(dying).restore_blocking(&backup, Some(&keep)).is_ok() {
                break;
            }
            died += 1;
            let found = entries(&to);
            assert!(found == Some(2) || found == there.then_some(3), "died at {n}: {found:?}");
            // The next one ends it, whatever was left.
            let again = folder.path().join("kept again");
            RedbOptions::new(&to).restore_blocking(&backup, Some(&again)).unwrap();
            assert_eq!(entries(&to), Some(2));
            let kept = [entries(&keep), entries(&again)];
            assert!(!there || kept.contains(&Some(3)), "died at {n}: {kept:?}");
        }
    }
    assert!(died >= 7, "create, sync, link, rename, and the same without a store: {died}");
}
