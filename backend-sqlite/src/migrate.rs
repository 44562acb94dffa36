//! Which formats this version can use, and the way from an older one to today's.
//!
//! Nothing is swapped under anybody: with the right to write in hand, a verified backup is put beside the database,
//! then the tables are brought up to date and verified in one transaction. Its rollback is the original, so a kill or a
//! power loss at any point leaves the old format or the new one, whole.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use turnkeep_core::local::owner::private;
use turnkeep_core::local::place;
use turnkeep_core::mutant;
use turnkeep_core::{Error, ErrorKind, Result};

use crate::connection;
use crate::error::sql;
use crate::files::Files;
use crate::options::SqliteOptions;
use crate::probe::{self, Found};
use crate::schema::{self, APPLICATION_ID, FORMAT};

/// Pages that are copied between two reports.
const PAGES: std::ffi::c_int = 1024;

/// Looks at a database that somebody has locked.
const TRIES: u32 = 1000;

/// Backups of one format beside a database. Each is kept until somebody removes it.
const MOST_BACKUPS: u32 = 1000;

/// A part of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UpgradeStep {
    /// The backup is being written beside the database.
    Backup,
    /// The backup is being verified.
    CheckBackup,
    /// The tables are being brought up to date.
    Migrate,
    /// The result is being verified, within the same transaction.
    Verify,
    /// The new format is about to become durable.
    Commit,
    /// The store has the new format.
    Done,
}

/// How far an upgrade is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UpgradeProgress {
    /// The format that the store had.
    pub from: u32,
    /// The format that it gets.
    pub to: u32,
    /// What is being done.
    pub step: UpgradeStep,
    /// How much of the step is done, from 0 to 1.
    pub done: f64,
    /// The backup, once it is whole.
    pub backup: Option<PathBuf>,
}

type Report = dyn Fn(&UpgradeProgress) + Send + Sync;

/// Whom to tell.
#[derive(Clone, Default)]
pub(crate) struct Reporter(Option<Arc<Report>>);

impl Reporter {
    pub(crate) fn new(report: impl Fn(&UpgradeProgress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("asked", &self.0.is_some()).finish()
    }
}

/// Whether a format is ours to use as it is.
///
/// # Errors
/// `NewerFormat` or `OlderFormat`.
pub(crate) fn check_format(found: i32) -> Result<()> {
    match found.cmp(&FORMAT) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater if mutant::is("sqlite/newer-format-opened") => Ok(()),
        std::cmp::Ordering::Greater => Err(Error::new(
            ErrorKind::NewerFormat,
            "the database was written by a newer version of turnkeep; it was not touched: upgrade this program",
        )
        .with("found", found)
        .with("known", FORMAT)),
        std::cmp::Ordering::Less => Err(Error::new(
            ErrorKind::OlderFormat,
            "the database has a format that cannot be used as it is; it was not touched: open it anew to upgrade it",
        )
        .with("found", found)
        .with("known", FORMAT)),
    }
}

/// Re-reads whose the database is and its format, within a transaction: another process may have upgraded it.
pub(crate) fn check_version(conn: &Connection) -> Result<()> {
    let (id, format) = identity(conn).map_err(sql)?;
    if id != APPLICATION_ID {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "the database stopped being one of turnkeep while it was open",
        )
        .with("application_id", id));
    }
    check_format(format)
}

/// The marks in the header: whose it is, and its format.
pub(crate) fn identity(conn: &Connection) -> rusqlite::Result<(i32, i32)> {
    let read = |text: &str| conn.prepare_cached(text)?.query_row([], |row| row.get(0));
    Ok((read("PRAGMA application_id")?, read("PRAGMA user_version")?))
}

/// Upgrades an older format to today's. The caller is first in the line of writers and stays there.
///
/// # Errors
/// What went wrong, with the backup if there is one. The database is then as it was.
pub(crate) fn upgrade(conn: &mut Connection, files: &Files, options: &SqliteOptions) -> Result<()> {
    // Also holds back programs that know no line, until the end.
    conn.execute_batch("BEGIN IMMEDIATE").map_err(sql)?;
    let mut upgrade = Upgrade { files, options, from: 0, backup: None };
    let done = upgrade.within(conn);
    let undone = if conn.is_autocommit() { Ok(()) } else { conn.execute_batch("ROLLBACK") };
    let Err(error) = done else { return Ok(()) };
    let message = match (&undone, error.kind()) {
        // Somebody else's upgrade, or no upgrade at all: nothing was begun here.
        (Ok(()), ErrorKind::NewerFormat | ErrorKind::OlderFormat) => return Err(error),
        (Ok(()), _) => "the upgrade of the database failed; the database is as it was",
        (Err(_), _) => "the upgrade of the database failed, and undoing it too; the next opening undoes it",
    };
    let mut failed =
        Error::new(error.kind(), message).with("path", files.db.display()).with("from", upgrade.from);
    failed = failed.with("to", FORMAT);
    if let Some(backup) = upgrade.backup {
        failed = failed.with("backup", backup.display());
    }
    Err(failed.with_source(error))
}

struct Upgrade<'a> {
    files: &'a Files,
    options: &'a SqliteOptions,
    from: i32,
    backup: Option<PathBuf>,
}

impl Upgrade<'_> {
    fn within(&mut self, conn: &Connection) -> Result<()> {
        // Another process may have done it while this one stood in line.
        self.from = match probe::inspect_within(conn, &self.files.db)? {
            Found::Older(format) => format,
            Found::Ours | Found::Empty => return Ok(()),
        };
        let before = counts(conn)?;
        self.backup = Some(self.back_up(&before)?);
        if mutant::is("sqlite/version-before-the-tables") {
            conn.pragma_update(None, "user_version", FORMAT).map_err(sql)?;
            conn.execute_batch("COMMIT; BEGIN IMMEDIATE").map_err(sql)?;
        }
        for to in self.from + 1..=FORMAT {
            self.report(UpgradeStep::Migrate, f64::from(to - self.from - 1) / f64::from(FORMAT - self.from));
            schema::step_up(conn, to)?;
        }
        self.report(UpgradeStep::Verify, 0.0);
        if mutant::is("sqlite/upgrade-loses-a-row") {
            conn.execute_batch("DELETE FROM leases WHERE skey = 0").map_err(sql)?;
        } else {
            self.verify(conn, &before)?;
        }
        self.report(UpgradeStep::Commit, 0.0);
        conn.execute_batch("COMMIT").map_err(sql)?;
        self.report(UpgradeStep::Done, 1.0);
        Ok(())
    }

    fn report(&self, step: UpgradeStep, done: f64) {
        if let Some(report) = &self.options.reporter.0 {
            let (from, to) = (self.from.unsigned_abs(), FORMAT.unsigned_abs());
            report(&UpgradeProgress { from, to, step, done, backup: self.backup.clone() });
        }
    }

    /// Every row of the old tables is there, and every table of the new format.
    fn verify(&self, conn: &Connection, before: &BTreeMap<String, i64>) -> Result<()> {
        schema::check(conn, FORMAT)?;
        let after = counts(conn)?;
        let lost = before.iter().find(|(table, rows)| after.get(*table) != Some(rows));
        match lost {
            None => Ok(()),
            Some((table, _)) => {
                Err(Error::new(ErrorKind::Corrupt, "the upgraded tables do not hold what the old ones held")
                    .with("table", table))
            }
        }
    }

    /// Puts a verified copy beside the database and gives its name. What is there already is kept.
    fn back_up(&self, rows: &BTreeMap<String, i64>) -> Result<PathBuf> {
        let beside =
            |suffix: &str| place::beside(&self.files.db, format!(".format-{}.backup{suffix}", self.from));
        let files = &self.options.files;
        // Left by an upgrade that was cut short. Nobody else makes one now, and half a copy is of no use.
        let unfinished = beside(".unfinished");
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let left = beside(&format!(".unfinished{suffix}"));
            if left.is_file() {
                files
                    .remove(&left)
                    .map_err(|error| Error::io("cannot remove an unfinished backup", &left, error))?;
            }
        }
        let copied = self.copy(&unfinished, rows).and_then(|()| {
            for count in 1..=MOST_BACKUPS {
                let to = beside(&if count == 1 { String::new() } else { format!("-{count}") });
                if to.exists() && same(&unfinished, &to).unwrap_or(false) {
                    // An upgrade that was cut short made it, and nothing has changed since.
                    return Ok((to, false));
                }
                let published = files.publish(&unfinished, &to);
                if published.map_err(|error| Error::io("cannot name the backup", &to, error))? {
                    return Ok((to, true));
                }
            }
            Err(Error::new(
                ErrorKind::AlreadyExists,
                "too many backups lie beside the database; move them away",
            ))
        });
        if !matches!(copied, Ok((_, true))) {
            // Best effort: the error that is answered says more than this one would.
            let _ = files.remove(&unfinished);
        }
        copied.map(|(to, _)| to)
    }

    fn copy(&self, to: &Path, rows: &BTreeMap<String, i64>) -> Result<()> {
        let files = &self.options.files;
        files.create(to).map_err(|error| Error::io("cannot create the backup", to, error))?;
        let from = connection::open(&self.files.db, self.options, false)?;
        let mut copy = connection::open(to, self.options, true)?;
        {
            let backup = Backup::new(&from, &mut copy).map_err(sql)?;
            let mut tries = 0;
            loop {
                let step = backup.step(PAGES).map_err(sql)?;
                let progress = backup.progress();
                let done = progress.pagecount - progress.remaining;
                self.report(UpgradeStep::Backup, f64::from(done) / f64::from(progress.pagecount.max(1)));
                match step {
                    StepResult::Done => break,
                    StepResult::More => tries = 0,
                    // Nobody writes; whoever only looks is soon done.
                    _ if tries < TRIES => std::thread::sleep(Duration::from_millis(2)),
                    _ => {
                        return Err(Error::new(
                            ErrorKind::Busy,
                            "others kept the database locked; try again",
                        ));
                    }
                }
                tries += 1;
            }
        }
        // One file, without a log that would have to stay beside it.
        copy.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).map_err(sql)?;
        self.report(UpgradeStep::CheckBackup, 0.0);
        let state: rusqlite::Result<String> = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
        let state = state.unwrap_or_else(|error| error.to_string());
        let whole =
            probe::inspect(&copy, to)? == Found::Older(self.from) && state == "ok" && counts(&copy)? == *rows;
        if !whole {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the copy is not whole, so the store may be damaged: verify it",
            )
            .with("found", state));
        }
        drop(copy);
        let file = private().open(to).map_err(|error| Error::io("cannot open the backup", to, error))?;
        files.sync(&file, to).map_err(|error| Error::io("cannot sync the backup", to, error))?;
        self.report(UpgradeStep::CheckBackup, 1.0);
        Ok(())
    }
}

/// The rows of every table of format 1, and of what people added.
fn counts(conn: &Connection) -> Result<BTreeMap<String, i64>> {
    const TABLES: &str =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let mut list = conn.prepare(TABLES).map_err(sql)?;
    let tables = list.query_map([], |row| row.get::<_, String>(0)).map_err(sql)?;
    let mut counts = BTreeMap::new();
    for table in tables {
        let table = table.map_err(sql)?;
        let quoted = table.replace('"', "\"\"");
        let count = format!("SELECT count(*) FROM \"{quoted}\"");
        counts.insert(table, conn.query_row(&count, [], |row| row.get(0)).map_err(sql)?);
    }
    Ok(counts)
}

/// Whether two files hold the same.
fn same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let (mut one, mut other) = (fs::File::open(one)?, fs::File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let read = one.read(&mut left)?;
        if read == 0 {
            return Ok(true);
        }
        let (left, right) = (left.split_at(read).0, right.split_at_mut(read).0);
        other.read_exact(right)?;
        if left != right {
            return Ok(false);
        }
    }
}
