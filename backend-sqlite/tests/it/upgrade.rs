//! From an older format to today's: with a backup, whole or not at all, whoever is killed and whatever fails.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use rusqlite::Connection;
use turnkeep_core::query::{RowQuery, SessionQuery};
use turnkeep_core::{ErrorKind, Store, WorkspaceId};
use turnkeep_sqlite::{SqliteOptions, SqliteStore, UpgradeStep};

use crate::support::{Other, again, block_on, close, fresh, open, role, tell};

/// The golden store of format 1, in a folder of its own.
fn older() -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = fresh();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harnesses/golden/sqlite-1.bytes");
    fs::copy(golden, &path).unwrap();
    (folder, path)
}

fn backup_of(path: &Path) -> PathBuf {
    path.with_file_name("state.sqlite3.format-1.backup")
}

/// What lies beside a database, but what every open store has there.
fn beside(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path.parent().unwrap()).unwrap();
    let names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter_map(|name| name.strip_prefix("state.sqlite3").map(str::to_owned))
        .filter(|rest| !["", "-wal", "-shm", ".write.lock", ".owners"].contains(&rest.as_str()))
        .collect();
    names.sort();
    names
}

fn format(path: &Path) -> i64 {
    let conn = Connection::open(path).unwrap();
    conn.busy_timeout(Duration::from_secs(10)).unwrap();
    conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// Every row of the golden sessions, as the store gives them.
fn contents(store: &SqliteStore) -> Vec<String> {
    let mut lines = Vec::new();
    for workspace in ["golden", "golden 2"].map(|id| WorkspaceId::new(id).unwrap()) {
        let mut query = SessionQuery::new(workspace.clone());
        query.audience = turnkeep_core::query::AudienceFilter::Any;
        for row in block_on(store.sessions(&query)).unwrap().items {
            lines.push(format!("{row:?}"));
            let rows =
                block_on(store.rows(&RowQuery::session(workspace.clone(), row.session_ref()))).unwrap();
            lines.extend(rows.items.iter().map(|row| format!("{row:?}")));
        }
        let rows = block_on(store.rows(&RowQuery::unowned(workspace))).unwrap();
        lines.extend(rows.items.iter().map(|row| format!("{row:?}")));
    }
    lines
}

/// What an older store holds, as it reads after an upgrade that nothing disturbed.
fn expected() -> Vec<String> {
    let (_folder, path) = older();
    let store = open(&path);
    let lines = contents(&store);
    close(&store);
    assert!(lines.len() > 10, "the golden store holds little: {lines:?}");
    lines
}

#[test]
fn an_older_store_is_upgraded_with_a_verified_backup_beside_it() {
    let (_folder, path) = older();
    let original = fs::read(&path).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let options = SqliteOptions::new(&path).on_upgrade(move |progress| {
        assert!((0.0..=1.0).contains(&progress.done) && progress.from == 1 && progress.to == 2);
        told.lock().unwrap().push((progress.step, progress.backup.clone()));
    });
    let store = options.open_blocking().unwrap();
    assert_eq!(store.info().format, 2);
    let mut steps: Vec<UpgradeStep> = seen.lock().unwrap().iter().map(|(step, _)| *step).collect();
    assert!(steps.is_sorted(), "{steps:?}");
    steps.dedup();
    use UpgradeStep::{Backup, CheckBackup, Commit, Done, Migrate, Verify};
    assert_eq!(steps, [Backup, CheckBackup, Migrate, Verify, Commit, Done]);
    assert_eq!(
        seen.lock().unwrap().last().unwrap().1.as_deref(),
        Some(&*backup_of(&path).canonicalize().unwrap())
    );
    assert_eq!(contents(&store), expected());
    close(&store);
    assert_eq!(beside(&path), [".format-1.backup"], "one backup, and nothing unfinished");
    assert_eq!(format(&backup_of(&path)), 1);
    assert_eq!(fs::metadata(backup_of(&path)).unwrap().len(), original.len() as u64);
    #[cfg(unix)]
    {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(backup_of(&path)).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    // A store of today's format is left alone.
    let again =
        SqliteOptions::new(&path).on_upgrade(|progress| panic!("an upgrade of nothing: {progress:?}"));
    close(&again.open_blocking().unwrap());
    // And the backup is a store like any other, which is brought up to date when it is opened.
    let (_other, copy) = fresh();
    fs::copy(backup_of(&path), &copy).unwrap();
    let store = open(&copy);
    assert_eq!(contents(&store), expected());
    close(&store);
}

#[test]
fn a_failing_step_keeps_the_original_and_reports_both() {
    let (_folder, path) = older();
    // People may add views; this one stands where a table of the new format goes.
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("CREATE VIEW indexed AS SELECT id FROM sessions").unwrap();
    drop(conn);
    for attempt in 0..2 {
        let error = SqliteStore::open_blocking(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let said = error.to_string();
        assert!(said.contains("the database is as it was") && said.contains("format-1.backup"), "{said}");
        assert!(std::error::Error::source(&error).is_some(), "what failed is not told");
        assert_eq!(format(&path), 1, "attempt {attempt}");
        assert_eq!(beside(&path), [".format-1.backup"], "the same backup serves every attempt");
    }
    let conn = Connection::open(&path).unwrap();
    let tables: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'search%'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 0, "a part of the new format was left behind");
    conn.execute_batch("DROP VIEW indexed").unwrap();
    drop(conn);
    let store = open(&path);
    assert_eq!(contents(&store), expected());
    close(&store);
    assert_eq!(beside(&path), [".format-1.backup", ".format-1.backup-2"], "the store had changed since");
}

#[test]
fn without_a_backup_nothing_is_upgraded() {
    let (folder, path) = older();
    let original = fs::read(&path).unwrap();
    let in_the_way = folder.path().join("state.sqlite3.format-1.backup.unfinished");
    fs::create_dir(&in_the_way).unwrap();
    let error = SqliteStore::open_blocking(&path).unwrap_err();
    assert!(error.to_string().contains("the database is as it was"), "{error}");
    assert_eq!(format(&path), 1);
    assert_eq!(fs::read(&path).unwrap(), original);
    fs::remove_dir(&in_the_way).unwrap();
    close(&open(&path));
}

#[test]
fn somebody_elses_file_with_the_name_of_the_backup_is_kept() {
    let (_folder, path) = older();
    fs::write(backup_of(&path), "notes").unwrap();
    close(&open(&path));
    assert_eq!(fs::read(backup_of(&path)).unwrap(), b"notes");
    assert_eq!(beside(&path), [".format-1.backup", ".format-1.backup-2"]);
}

#[test]
fn many_openers_of_an_older_store_upgrade_it_once() {
    let (_folder, path) = older();
    let start = Arc::new(Barrier::new(6));
    let openers: Vec<_> = (0..6)
        .map(|_| {
            let (path, start) = (path.clone(), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                SqliteOptions::new(&path).busy_timeout(Duration::from_secs(60)).open_blocking().unwrap()
            })
        })
        .collect();
    let stores: Vec<_> = openers.into_iter().map(|opener| opener.join().unwrap()).collect();
    for store in &stores {
        assert_eq!(store.info().format, 2);
    }
    assert_eq!(contents(&stores[3]), expected());
    stores.iter().for_each(close);
    assert_eq!(beside(&path), [".format-1.backup"]);
}

#[test]
fn a_newer_format_is_refused_and_gets_no_backup() {
    let (_folder, path) = older();
    let conn = Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", 3).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(conn);
    let before = fs::read(&path).unwrap();
    assert_eq!(SqliteStore::open_blocking(&path).unwrap_err().kind(), ErrorKind::NewerFormat);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(beside(&path).is_empty());
}

/// Upgrades, tells of each report, and waits at the one of this number to be killed.
fn upgrade_until(path: &Path, stop_at: usize) {
    let count = Mutex::new(0);
    let options = SqliteOptions::new(path).on_upgrade(move |progress| {
        let mut count = count.lock().unwrap();
        *count += 1;
        if *count == stop_at {
            tell(format!("at {:?}", progress.step));
            std::thread::sleep(Duration::from_secs(120));
        }
    });
    close(&options.open_blocking().unwrap());
    tell("through");
}

#[test]
fn case_72_a_kill_at_any_step_leaves_the_old_format_or_the_new_one_and_the_next_start_completes_it() {
    const ME: &str = "upgrade::case_72_a_kill_at_any_step_leaves_the_old_format_or_the_new_one_and_the_next_start_completes_it";
    if let Some((stop_at, path)) = role() {
        return upgrade_until(&path, stop_at.parse().unwrap());
    }
    let wanted = expected();
    let mut steps = Vec::new();
    for stop_at in 1..100 {
        let (_folder, path) = older();
        let mut other = Other(again(ME, &stop_at.to_string(), &path).spawn().unwrap());
        let said = BufReader::new(other.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut said = said.filter(|line| line.starts_with("at ") || line == "through");
        let line = said.next().unwrap();
        drop(other);
        if line == "through" {
            break;
        }
        steps.push(line.clone());
        // The version is never ahead of the tables, nor behind them.
        let conn = Connection::open(&path).unwrap();
        let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        let tables: i64 = conn
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name IN ('search', 'indexed')", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!((version, tables), if line == "at Done" { (2, 2) } else { (1, 0) }, "killed {line}");
        drop(conn);
        let store = open(&path);
        assert_eq!(contents(&store), wanted, "killed {line}");
        close(&store);
        assert_eq!(format(&path), 2);
        assert_eq!(beside(&path), [".format-1.backup"], "killed {line}");
        assert_eq!(format(&backup_of(&path)), 1, "killed {line}");
    }
    for step in ["at Backup", "at CheckBackup", "at Migrate", "at Verify", "at Commit", "at Done"] {
        assert!(steps.iter().any(|line| line == step), "never killed {step}: {steps:?}");
    }
}

/// As if the program that made the store had been built from files with other ends of lines.
fn with_other_line_ends(path: &Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, char(10), char(13) || char(10)) WHERE sql LIKE '%' || char(10) || '%';
         PRAGMA writable_schema = RESET;",
    )
    .unwrap();
    let changed: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema WHERE sql LIKE '%' || char(13) || '%'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!(changed > 5, "{changed} tables with other ends of lines");
}

#[test]
fn case_42_the_line_ends_of_the_program_that_made_a_store_do_not_matter() {
    let (_folder, path) = fresh();
    close(&open(&path));
    with_other_line_ends(&path);
    close(&open(&path));
    let (_other, path) = older();
    with_other_line_ends(&path);
    let store = open(&path);
    assert_eq!((store.info().format, contents(&store)), (2, expected()));
    close(&store);
}
