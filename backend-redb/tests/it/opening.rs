//! Files that are somebody's, damaged, old, or not there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use redb::TableDefinition;
use turnkeep_core::commit::Commit;
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{ErrorKind, Maintenance, Store};
use turnkeep_redb::RedbStore;

use crate::support::{
    Other, again, append, block_on, close, commit, find, fresh, message, open, refusal, role, session_of,
    tell, texts, workspace,
};

fn names(error: &turnkeep_core::Error, path: &Path) -> bool {
    let path = fs::canonicalize(path).unwrap();
    error.context().any(|(_, value)| Path::new(value) == path)
}

/// The holder stays until it is killed: a lock that depended on its manners would not be given up.
#[test]
fn case_39_a_second_opener_is_told_at_once_that_the_file_is_in_use() {
    if let Some((_, path)) = role() {
        let store = open(&path);
        session_of(&store, "held", 3);
        tell("held");
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    let (_folder, path) = fresh();
    let test = "opening::case_39_a_second_opener_is_told_at_once_that_the_file_is_in_use";
    let mut holder = Other(again(test, "hold", &path).spawn().unwrap());
    let said = BufReader::new(holder.0.stdout.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line == "held"), "the holder opened the store");

    for _ in 0..3 {
        let error = refusal(&path);
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(names(&error, &path), "{error}");
        assert!(error.message().contains("another process"), "{error}");
    }
    drop(holder);

    let store = open(&path);
    assert_eq!(texts(&store, &find(&store, "held")).len(), 3);
    let error = refusal(&path);
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(names(&error, &path) && error.message().contains("this process"), "{error}");
    // A further handle is the way, and the file is given back with the last one.
    let handle = store.handle().unwrap();
    assert_ne!(handle.info().owner, store.info().owner);
    close(&store);
    assert_eq!(refusal(&path).kind(), ErrorKind::Busy);
    assert_eq!(texts(&handle, &find(&handle, "held")).len(), 3);
    close(&handle);
    assert_eq!(handle.handle().unwrap_err().kind(), ErrorKind::Closed);
    close(&open(&path));
}

#[test]
fn a_store_that_is_just_being_dropped_is_waited_for() {
    let (_folder, path) = fresh();
    for round in 0..30 {
        let store = open(&path);
        session_of(&store, &format!("s{round}"), 1);
        drop(store);
    }
}

fn golden(name: &str) -> Vec<u8> {
    let runs = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap();
    let (mut bytes, mut rest) = (Vec::new(), runs.as_slice());
    while let Some((tag, after)) = rest.split_first() {
        let (length, after) = after.split_at(4);
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let stored = if *tag == 0 { 1 } else { length };
        match tag {
            0 => bytes.resize(bytes.len() + length, after[0]),
            _ => bytes.extend_from_slice(&after[..length]),
        }
        rest = &after[stored..];
    }
    bytes
}

#[test]
fn case_44_a_file_of_an_older_engine_is_refused_with_instructions_and_untouched() {
    let (_folder, path) = fresh();
    let before = golden("redb-2.6.4.runs");
    assert!(before.len() > 1_000_000 && before.starts_with(b"redb"));
    fs::write(&path, &before).unwrap();
    for _ in 0..2 {
        let error = refusal(&path);
        assert_eq!(error.kind(), ErrorKind::OlderFormat, "{error}");
        assert!(error.message().contains("upgrade the copy"), "{error}");
        assert!(names(&error, &path), "{error}");
        assert!(fs::read(&path).unwrap() == before, "the file was changed");
    }
}

#[test]
fn what_is_no_store_of_ours_is_refused_and_untouched() {
    let (folder, path) = fresh();
    let refused = |bytes: &[u8], kind| {
        fs::write(&path, bytes).unwrap();
        let error = refusal(&path);
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    };
    refused(b"", ErrorKind::Corrupt);
    refused(b"re", ErrorKind::Invalid);
    refused(b"somebody's notes, longer than any mark of any engine", ErrorKind::Invalid);
    refused(&[0; 100_000], ErrorKind::Invalid);
    refused(b"redb\x1A\x0A\xA9\x0D\x0A", ErrorKind::Corrupt);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(refusal(&path).kind(), ErrorKind::Invalid);

    const NOTES: TableDefinition<'_, &str, &str> = TableDefinition::new("notes");
    let theirs = folder.path().join("theirs.redb");
    let engine = redb::Database::create(&theirs).unwrap();
    let transaction = engine.begin_write().unwrap();
    transaction.open_table(NOTES).unwrap().insert("a", "b").unwrap();
    transaction.commit().unwrap();
    engine.close().unwrap();
    let before = fs::read(&theirs).unwrap();
    assert_eq!(refusal(&theirs).kind(), ErrorKind::Invalid);
    assert!(fs::read(&theirs).unwrap() == before);
}

/// Reads everything that a damaged store still gives; `None` when it says that it is damaged.
fn honest(path: &Path) -> Option<usize> {
    let store = match RedbStore::open_blocking(path) {
        Ok(store) => store,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid), "{error}");
            return None;
        }
    };
    let session = find(&store, "s");
    let mut query = EntryQuery::new(workspace(), session.clone());
    query.limit = 1_000;
    let read = block_on(store.entries(&query));
    if let Err(error) = &read {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        let late = Commit::new(workspace()).op(append(&session, vec![message("late")]));
        let _ = block_on(store.commit(late));
    }
    close(&store);
    read.ok().map(|page| page.items.len())
}

#[test]
fn case_13_corrupt_bytes_are_said_to_be_corrupt_and_never_read_as_empty() {
    const COUNT: usize = 200;
    let (folder, path) = fresh();
    let store = open(&path);
    session_of(&store, "s", COUNT);
    close(&store);
    let whole = fs::read(&path).unwrap();
    let copy = folder.path().join("copy.redb");
    let used = |page: &usize| whole[page * 4096..(page + 1) * 4096].iter().any(|byte| *byte != 0);
    let pages: Vec<usize> = (0..whole.len() / 4096).filter(used).collect();
    let (mut refused, mut intact) = (0, 0);
    for page in pages.iter().step_by(pages.len() / 60 + 1) {
        fs::write(&copy, &whole).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&copy).unwrap();
        let damage: Vec<u8> = (0..64).map(|at| whole[page * 4096 + at] ^ 0xA5).collect();
        file.write_all_at(&damage, (page * 4096) as u64).unwrap();
        match honest(&copy) {
            None => refused += 1,
            Some(read) => {
                assert_eq!(read, COUNT, "page {page}");
                intact += 1;
            }
        }
    }
    assert!(refused >= 5, "{refused} refused, {intact} intact");
    for part in 1..10 {
        fs::write(&copy, &whole[..whole.len() * part / 10]).unwrap();
        assert_eq!(honest(&copy), None, "cut to {part} tenths");
        assert_eq!(fs::metadata(&copy).unwrap().len() as usize, whole.len() * part / 10, "it was changed");
    }
}

/// A large file is not checked whole at every opening; its rows are, as they are read.
#[test]
fn a_turned_bit_in_a_large_store_is_found_by_who_reads_it_and_by_a_verification() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 10);
    let filler = "x".repeat(1_000_000);
    for _ in 0..20 {
        commit(&store, [append(&session, vec![message(&filler)])]);
    }
    let report = block_on(Maintenance::verify(&store)).unwrap();
    assert_eq!((report.damage.as_slice(), report.entries), ([].as_slice(), 30));
    close(&store);
    let bytes = fs::read(&path).unwrap();
    let found = bytes.windows(9).position(|words| words == b"message 7").unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"massage 7", found as u64).unwrap();
    assert!(bytes.len() > 33_000_000);

    let store = open(&path);
    let all = EntryQuery::new(workspace(), session.clone());
    assert_eq!(block_on(store.entries(&all)).unwrap_err().kind(), ErrorKind::Corrupt);
    let mut tail = EntryQuery::new(workspace(), session);
    tail.after = turnkeep_core::EntryNo::new(20);
    assert_eq!(block_on(store.entries(&tail)).unwrap().items.len(), 4, "what is whole is still readable");
    let report = block_on(Maintenance::verify(&store)).unwrap();
    assert!(!report.damage.is_empty());
    let copy = path.with_file_name("copy.redb");
    assert_eq!(block_on(store.backup(&copy)).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(!copy.exists(), "damage was carried into a backup");
}

#[test]
fn files_are_private_and_nothing_unfinished_stays() {
    let (folder, _) = fresh();
    let path = folder.path().join("state").join("deep").join("state.redb");
    let store = open(&path);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let copy = path.with_file_name("copy.redb");
    session_of(&store, "s", 5);
    block_on(store.backup(&copy)).unwrap();
    assert_eq!(mode(&copy), 0o600);
    close(&store);
    let copied = open(&copy);
    assert_eq!(texts(&copied, &find(&copied, "s")).len(), 5);
    close(&copied);

    // What a killed creation left beside a store is removed by the next one; another's file is not.
    let left = path.with_file_name("new.redb.0123456789abcdef.unfinished");
    let theirs = path.with_file_name("new.redb.mine.unfinished");
    fs::write(&left, "x").unwrap();
    fs::write(&theirs, "x").unwrap();
    close(&open(&path.with_file_name("new.redb")));
    assert!(!left.exists() && theirs.exists());
    fs::remove_file(theirs).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|f| f.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["copy.redb", "new.redb", "state.redb"]);
}

#[test]
fn a_read_only_file_is_refused_as_such() {
    let (_folder, path) = fresh();
    close(&open(&path));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(refusal(&path).kind(), ErrorKind::ReadOnly);
}
