//! Which files there are and who may read them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use turnkeep_core::{ErrorKind, Maintenance, Store};
use turnkeep_sqlite::SqliteStore;

use crate::support::{block_on, close, fresh, open, session_of, texts};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The umask belongs to the whole process, so the store is made in a child that has the common one.
#[test]
fn case_68_files_are_private_under_a_common_umask() {
    const CHILD: &str = "TURNKEEP_TEST_STATE";
    if let Some(path) = std::env::var_os(CHILD) {
        let store = open(Path::new(&path));
        session_of(&store, "s", 3);
        let backup = Path::new(&path).with_file_name("backup.sqlite3");
        block_on(store.backup(&backup)).unwrap();
        // While it is open, so that the log is there to be looked at.
        let folder = Path::new(&path).parent().unwrap();
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
        let mut seen = Vec::new();
        for file in fs::read_dir(folder).unwrap() {
            let file = file.unwrap().path();
            assert_eq!(mode(&file), if file.is_dir() { 0o700 } else { 0o600 }, "{}", file.display());
            seen.push(file.file_name().unwrap().to_str().unwrap().to_owned());
        }
        for file in fs::read_dir(folder.join("state.sqlite3.owners")).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
        seen.sort();
        let expected =
            ["", "-shm", "-wal", ".owners", ".write.lock"].map(|end| format!("state.sqlite3{end}"));
        let mut expected: Vec<String> = expected.into_iter().chain(["backup.sqlite3".to_owned()]).collect();
        expected.sort();
        assert_eq!(seen, expected);
        close(&store);
        return;
    }
    let (folder, _) = fresh();
    let path = folder.path().join("made").join("state.sqlite3");
    let child = Command::new("sh")
        .args([
            "-c",
            "umask 022 && exec \"$0\" --exact files::case_68_files_are_private_under_a_common_umask",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, &path)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn an_empty_file_that_was_there_becomes_private() {
    let (_folder, path) = fresh();
    fs::write(&path, b"").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = open(&path);
    assert_eq!(mode(&path), 0o600);
    close(&store);
}

#[test]
fn a_link_and_its_target_are_one_store() {
    let (folder, path) = fresh();
    let link = folder.path().join("link.sqlite3");
    let store = open(&path);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let other = open(&link);
    assert_eq!(store.info().location, other.info().location);
    let session = session_of(&store, "s", 2);
    assert_eq!(texts(&other, &session), ["message 1", "message 2"]);
    close(&other);
    close(&store);
    assert!(!folder.path().join("link.sqlite3.owners").exists(), "one folder of locks for both");
}

#[test]
fn a_link_to_nothing_is_refused() {
    let (folder, path) = fresh();
    std::os::unix::fs::symlink(folder.path().join("gone"), &path).unwrap();
    let error = SqliteStore::open_blocking(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(!folder.path().join("gone").exists());
}

#[test]
fn closing_leaves_the_database_alone_without_a_log() {
    let (folder, path) = fresh();
    let store = open(&path);
    session_of(&store, "s", 3);
    close(&store);
    assert!(!folder.path().join("state.sqlite3-wal").exists());
    assert!(!folder.path().join("state.sqlite3-shm").exists());
}
