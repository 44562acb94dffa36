//! SQL for auditors: they read everything and break nothing.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use turnkeep_core::sql::{self, Sql, SqlRows, SqlValue};
use turnkeep_core::{ErrorKind, Maintenance, Result};
use turnkeep_sqlite::{SqliteReader, SqliteStore, close_all};

use crate::support::{append, block_on, close, commit, fresh, message, open, session_of, texts};

/// Statements that would break the contract, each in its own way, or reach beyond the store.
const FORBIDDEN: &[&str] = &[
    "UPDATE sessions SET messages = 4",
    "DELETE FROM entries",
    "INSERT INTO meta (name, value) VALUES ('x', 'y')",
    "CREATE TABLE sessions_of_mine (a)",
    "DROP TABLE leases",
    "ALTER TABLE sessions ADD COLUMN mine",
    "ALTER TABLE audit_log RENAME TO mine",
    "CREATE INDEX audit_index ON entries (rid)",
    "DROP INDEX records_by_owner",
    "CREATE TRIGGER audit_t AFTER INSERT ON entries BEGIN DELETE FROM audit_log; END",
    "CREATE TRIGGER audit_t AFTER INSERT ON audit_log BEGIN DELETE FROM entries; END",
    "CREATE TEMP TABLE sessions (a)",
    "CREATE TEMP TRIGGER t AFTER INSERT ON entries BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE audit_v USING fts5(a)",
    "CREATE VIEW mine AS SELECT 1",
    "ATTACH DATABASE ':memory:' AS other",
    "PRAGMA synchronous = OFF",
    "PRAGMA user_version = 9",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "VACUUM",
    "ANALYZE",
    "INSERT INTO sqlite_master VALUES ('table', 'audit_x', 'audit_x', 1, '')",
    "REPLACE INTO audit_log SELECT rid FROM entries WHERE rid IN (DELETE FROM entries)",
];

fn count(rows: &SqlRows) -> i64 {
    match rows.rows[0][0] {
        SqlValue::Integer(count) => count,
        ref other => panic!("{other:?} is no count"),
    }
}

fn one_count(store: &SqliteStore, statement: &'static str) -> i64 {
    block_on(sql::read(store, move |sql| sql.query(statement, &[], 10))).map(|rows| count(&rows)).unwrap()
}

fn write(store: &SqliteStore, work: impl FnOnce(&mut dyn Sql) -> Result<()> + Send + 'static) -> Result<()> {
    block_on(sql::write(store, work))
}

fn audit_table(store: &SqliteStore) {
    write(store, |sql| sql.execute("CREATE TABLE audit_log (a INTEGER PRIMARY KEY, b)", &[]).map(drop))
        .unwrap();
}

#[test]
fn an_auditor_reads_with_values_and_a_limit_and_sees_one_moment() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 30);
    let found = block_on(sql::read(&store, |sql| {
        sql.query(
            "SELECT text, NULL, 1.5, x'0102' FROM entries WHERE text > ? ORDER BY rid",
            &["message 2".into()],
            3,
        )
    }))
    .unwrap();
    assert_eq!(found.columns[0], "text");
    assert_eq!(found.rows.len(), 3);
    assert!(found.more);
    assert_eq!(found.rows[0][1..], [SqlValue::Null, SqlValue::Real(1.5), SqlValue::Blob(vec![1, 2])]);
    // What is written meanwhile is not seen: two queries of one piece of work agree.
    let (other, target) = (store.clone(), session.clone());
    let (before, after) = block_on(sql::read(&store, move |sql| {
        let before = count(&sql.query("SELECT count(*) FROM entries", &[], 1)?);
        std::thread::spawn(move || commit(&other, [append(&target, vec![message("meanwhile")])]))
            .join()
            .unwrap();
        let after = count(&sql.query("SELECT count(*) FROM entries", &[], 1)?);
        Ok((before, after))
    }))
    .unwrap();
    assert_eq!((before, after), (30, 30));
    assert_eq!(one_count(&store, "SELECT count(*) FROM entries"), 31);
    close(&store);
}

#[test]
fn a_query_that_writes_is_refused() {
    let (_folder, path) = fresh();
    let store = open(&path);
    session_of(&store, "s", 3);
    audit_table(&store);
    for statement in
        FORBIDDEN.iter().copied().chain(["INSERT INTO audit_log VALUES (1, 2)", "DELETE FROM audit_log"])
    {
        let refused = block_on(sql::read(&store, move |sql| sql.query(statement, &[], 1))).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::ReadOnly | ErrorKind::Invalid), "{statement}: {refused}");
        let refused = block_on(sql::read(&store, move |sql| sql.execute(statement, &[]))).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{statement}");
    }
    assert_eq!(one_count(&store, "SELECT count(*) FROM entries"), 3);
    close(&store);
}

#[test]
fn an_auditor_writes_tables_of_its_own_in_one_transaction() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 3);
    audit_table(&store);
    let changed = block_on(sql::write(&store, |sql| {
        sql.execute("CREATE INDEX audit_by_b ON audit_log (b)", &[])?;
        sql.execute("CREATE VIEW audit_texts AS SELECT text FROM entries", &[])?;
        let changed = sql.execute("INSERT INTO audit_log (b) SELECT text FROM entries", &[])?;
        sql.execute("UPDATE audit_log SET b = ? WHERE a = ?", &["changed".into(), 2.into()])?;
        Ok(changed)
    }))
    .unwrap();
    assert_eq!(changed, 3);
    assert_eq!(one_count(&store, "SELECT count(*) FROM audit_log WHERE b LIKE 'message%'"), 2);
    // An error of the work undoes all of it.
    let failed = write(&store, |sql| {
        sql.execute("DELETE FROM audit_log", &[])?;
        sql.execute("INSERT INTO audit_log (a) VALUES (1), (1)", &[]).map(drop)
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Invalid);
    // So does a panic, and the store goes on.
    let failed = write(&store, |sql| {
        sql.execute("DELETE FROM audit_log", &[])?;
        panic!("a mistake of an auditor")
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(one_count(&store, "SELECT count(*) FROM audit_log"), 3);
    commit(&store, [append(&session, vec![message("the store goes on")])]);
    let report = block_on(store.verify()).unwrap();
    assert_eq!(report.damage, []);
    close(&store);
    // It stays, beside the tables of the store.
    let again = open(&path);
    assert_eq!(one_count(&again, "SELECT count(*) FROM audit_texts"), 4);
    write(&again, |sql| sql.execute("DROP TABLE audit_log", &[]).map(drop)).unwrap();
    close(&again);
}

#[test]
fn an_auditor_cannot_break_the_contract() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 3);
    audit_table(&store);
    for statement in FORBIDDEN {
        let refused = write(&store, move |sql| {
            sql.execute("INSERT INTO audit_log (b) VALUES ('undone')", &[])?;
            sql.execute(statement, &[]).map(drop)
        })
        .unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::ReadOnly | ErrorKind::Invalid), "{statement}: {refused}");
    }
    // A reference would keep rows of the store from being deleted.
    let tied = write(&store, |sql| {
        sql.execute("CREATE TABLE audit_tied (s REFERENCES sessions (skey))", &[]).map(drop)
    });
    assert_eq!(tied.unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(one_count(&store, "SELECT count(*) FROM sqlite_master WHERE name = 'audit_tied'"), 0);
    for (statements, kind) in [
        ("DELETE FROM audit_log; DELETE FROM audit_log", ErrorKind::Invalid),
        ("DELETE FROM audit_log; DELETE FROM entries", ErrorKind::ReadOnly),
        ("SELECT 1", ErrorKind::Invalid),
        ("DELETE FROM audit_log RETURNING a", ErrorKind::Invalid),
        (" -- nothing", ErrorKind::Invalid),
    ] {
        let refused = write(&store, move |sql| sql.execute(statements, &[]).map(drop)).unwrap_err();
        assert_eq!(refused.kind(), kind, "{statements}: {refused}");
    }
    let values = write(&store, |sql| sql.execute("INSERT INTO audit_log (b) VALUES (?)", &[]).map(drop));
    assert_eq!(values.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(one_count(&store, "SELECT count(*) FROM audit_log"), 0);
    assert_eq!(texts(&store, &session), ["message 1", "message 2", "message 3"]);
    // The watch is gone afterwards: the store itself writes everything.
    commit(&store, [append(&session, vec![message("more")])]);
    assert_eq!(block_on(store.verify()).unwrap().damage, []);
    close(&store);
}

#[test]
fn auditors_and_commits_of_several_handles_wait_for_each_other_and_lose_nothing() {
    let (_folder, path) = fresh();
    let stores = [open(&path), open(&path)];
    let session = session_of(&stores[0], "s", 0);
    audit_table(&stores[0]);
    std::thread::scope(|scope| {
        for store in &stores {
            let session = &session;
            scope.spawn(move || {
                for _ in 0..25 {
                    commit(store, [append(session, vec![message("said")])]);
                }
            });
            scope.spawn(move || {
                for _ in 0..25 {
                    // Read and write in one transaction: no other handle is in between.
                    write(store, |sql| {
                        let seen = count(&sql.query("SELECT count(*) FROM audit_log", &[], 1)?);
                        sql.execute("INSERT INTO audit_log (b) VALUES (?)", &[seen.into()]).map(drop)
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(texts(&stores[0], &session).len(), 50);
    assert_eq!(one_count(&stores[1], "SELECT count(DISTINCT b) FROM audit_log"), 50);
    assert_eq!(block_on(stores[0].verify()).unwrap().damage, []);
    stores.iter().for_each(close);
}

#[test]
fn a_reader_opens_what_others_write_and_changes_nothing() {
    let (folder, path) = fresh();
    let missing = block_on(SqliteReader::open(&path)).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(!path.exists(), "nothing is made");
    let store = open(&path);
    let session = session_of(&store, "s", 2);
    let reader = block_on(SqliteReader::open(&path)).unwrap();
    let messages = || {
        let read = reader.read(|sql| sql.query("SELECT count(*) FROM entries", &[], 1));
        block_on(read).map(|rows| count(&rows))
    };
    assert_eq!(messages().unwrap(), 2);
    commit(&store, [append(&session, vec![message("later")])]);
    assert_eq!(messages().unwrap(), 3);
    for statement in FORBIDDEN {
        let refused = block_on(reader.read(move |sql| sql.execute(statement, &[]))).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{statement}");
    }
    block_on(reader.close());
    assert_eq!(messages().unwrap_err().kind(), ErrorKind::Closed);
    close(&store);
    std::fs::write(folder.path().join("other"), "no database at all, but long enough to be looked at")
        .unwrap();
    let foreign = block_on(SqliteReader::open(folder.path().join("other"))).unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::Corrupt, "{foreign}");
}

#[test]
fn closing_all_stores_checkpoints_each() {
    // In a process of its own: it closes the stores of every test that runs beside it.
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["audit::in_a_process_of_its_own", "--exact", "--ignored"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && told.contains("1 passed"), "{told}");
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn in_a_process_of_its_own() {
    let places = [fresh(), fresh()];
    let stores: Vec<SqliteStore> = places.iter().map(|(_, path)| open(path)).collect();
    for store in &stores {
        session_of(store, "s", 200);
        assert!(block_on(store.stats()).unwrap().log_bytes > 0);
    }
    let gone = open(&places[0].1);
    drop(gone);
    block_on(close_all()).unwrap();
    for ((_, path), store) in places.iter().zip(&stores) {
        let refused = block_on(store.verify()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
        let log = path.with_file_name("state.sqlite3-wal");
        // The dropped handle ends in its own time, and whoever is last empties the log.
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
            assert!(Instant::now() < deadline, "the log is not in the database");
            std::thread::sleep(Duration::from_millis(10));
        }
        let again = open(path);
        assert_eq!(one_count(&again, "SELECT count(*) FROM entries"), 200);
        close(&again);
    }
    block_on(close_all()).unwrap();
    // Nothing of it holds on to a store that is open no more.
    let seen = Arc::new(AtomicBool::new(false));
    let again = open(&places[0].1);
    let flag = Arc::clone(&seen);
    write(&again, move |_| {
        flag.store(true, Ordering::SeqCst);
        Ok(())
    })
    .unwrap();
    assert!(seen.load(Ordering::SeqCst));
    close(&again);
}
