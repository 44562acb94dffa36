//! SQL for auditors: read one moment, write tables of their own through the store's writer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Batch, Connection, Statement, ffi};
use turnkeep_core::local::Readers;
use turnkeep_core::sql::{Sql, SqlRows, SqlValue, SqlWork};
use turnkeep_core::{Error, ErrorKind, Result, Store as _, mutant};

use crate::error::sql;
use crate::files::Files;
use crate::store::Inner;
use crate::write::Writer;
use crate::{SqliteOptions, SqliteStore, connection, migrate, probe};

/// What the names of auditors' tables begin with, in either case.
const OWN: &str = "audit_";

/// A database that is only read: nothing of it is changed, upgraded or recovered, whoever else writes to it.
#[derive(Debug)]
pub struct SqliteReader {
    readers: Readers<Mutex<Connection>>,
}

impl SqliteReader {
    /// Opens a database that is there, for reading only.
    ///
    /// # Errors
    /// `NotFound` when there is no such file; `NewerFormat` or `OlderFormat`; `Corrupt` when it is no database of ours.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(&SqliteOptions::new(path)).map_err(|error| error.with_operation("open"))
    }

    fn open_with(options: &SqliteOptions) -> Result<Self> {
        if !options.path.is_file() {
            return Err(Error::new(ErrorKind::NotFound, "there is no database at this path")
                .with("path", options.path.display()));
        }
        let files = Files::locate(&options.path)?;
        probe::peek(&files.db)?;
        let conn = connection::open_reader(&files.db, options)?;
        migrate::check_version(&conn)?;
        Ok(Self { readers: Readers::start(vec![Mutex::new(conn)])? })
    }

    /// Runs queries in one transaction that sees one moment of the database.
    ///
    /// # Errors
    /// What the work answers; `ReadOnly` for a statement that writes; `Closed` after a close.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let read = move |conn: &Mutex<Connection>| {
            reading(&mut conn.lock().unwrap_or_else(PoisonError::into_inner), work)
        };
        self.readers.read("sql", read).await
    }

    /// Gives the files back. Further reads answer `Closed`.
    pub async fn close(&self) {
        self.readers.close().await;
    }
}

/// The stores of this process that are open.
static OPEN: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Remembers an open store, and forgets those that are gone.
pub(crate) fn opened(store: &Arc<Inner>) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|known| known.strong_count() > 0);
    open.push(Arc::downgrade(store));
}

/// Closes every SQLite store of this process, each with a checkpoint: for the end of a program whose handles are in many
/// hands. All are tried; the first failure is answered. Their further calls answer `Closed`.
///
/// # Errors
/// What the first store that could not be closed answered.
pub async fn close_all() -> Result<()> {
    let open: Vec<Weak<Inner>> = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    let mut ended = Ok(());
    for inner in open.iter().filter_map(Weak::upgrade) {
        let closed = SqliteStore { inner }.close().await;
        ended = ended.and(closed);
    }
    ended
}

/// Runs work on a connection that can only read, at one moment.
pub(crate) fn reading<T>(conn: &mut Connection, work: impl FnOnce(&mut dyn Sql) -> Result<T>) -> Result<T> {
    conn.execute_batch("BEGIN").map_err(sql)?;
    let done = guarded(conn, false, work);
    conn.execute_batch("ROLLBACK").map_err(sql)?;
    done
}

impl Writer {
    /// Runs work in a transaction of the writer.
    ///
    /// # Errors
    /// What the work answers; nothing of it was written then.
    pub(crate) fn audit(&mut self, work: SqlWork) -> Result<()> {
        self.in_turn(|writer| {
            writer.in_transaction(|writer| {
                let conn = writer.connection();
                guarded(conn, true, work)?;
                refuse_ties(conn)
            })
        })
    }
}

/// Runs work with a watch on every statement. A panic of the work is its own affair: it undoes it, and nothing more.
fn guarded<T>(
    conn: &mut Connection,
    writes: bool,
    work: impl FnOnce(&mut dyn Sql) -> Result<T>,
) -> Result<T> {
    conn.authorizer(Some(move |context: AuthContext<'_>| judge(&context.action, writes))).map_err(sql)?;
    let done = catch_unwind(AssertUnwindSafe(|| work(&mut Audit { conn, writes })));
    conn.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).map_err(sql)?;
    done.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Invalid,
            "the work panicked; nothing of it was written; see the output of the process",
        ))
    })
}

/// What a statement of an auditor may do.
fn judge(action: &AuthAction<'_>, writes: bool) -> Authorization {
    // The engine writes its list of tables itself; a statement cannot, because the connection is in defensive mode.
    let own = |table: &str| is_own(table) || table == "sqlite_master";
    let allowed = match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive | AuthAction::Function { .. } => true,
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. } => {
            writes && (own(table_name) || mutant::is("sqlite/auditors-write-anything"))
        }
        AuthAction::CreateTable { table_name } | AuthAction::DropTable { table_name } => {
            writes && is_own(table_name)
        }
        AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        // Making an index fills it.
        => writes && is_own(table_name),
        AuthAction::Reindex { .. } => writes,
        // Full-text search asks for this by itself.
        AuthAction::Pragma { pragma_name: "data_version", pragma_value: None } => true,
        AuthAction::CreateView { view_name } | AuthAction::DropView { view_name } => writes && is_own(view_name),
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

fn is_own(name: &str) -> bool {
    name.get(..OWN.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN))
}

/// Refuses tables of auditors that hold on to rows of the store, which could then not be deleted any more.
fn refuse_ties(conn: &Connection) -> Result<()> {
    const TIES: &str = "SELECT m.name FROM sqlite_schema m, pragma_foreign_key_list(m.name) f
         WHERE m.type = 'table' AND m.name LIKE 'audit\\_%' ESCAPE '\\'
         AND f.\"table\" NOT LIKE 'audit\\_%' ESCAPE '\\' LIMIT 1";
    let mut ties = conn.prepare(TIES).map_err(sql)?;
    let mut rows = ties.query([]).map_err(sql)?;
    match rows.next().map_err(sql)? {
        _ if mutant::is("sqlite/auditors-tie-rows") => Ok(()),
        None => Ok(()),
        Some(row) => {
            let table: String = row.get(0).map_err(sql)?;
            Err(Error::new(
                ErrorKind::ReadOnly,
                "a table of an auditor must not refer to a table of the store; keep the key without REFERENCES",
            )
            .with("table", table))
        }
    }
}

struct Audit<'c> {
    conn: &'c Connection,
    writes: bool,
}

impl Audit<'_> {
    /// The only statement of a text, with its values.
    fn prepare(&self, text: &str, values: &[SqlValue]) -> Result<Statement<'_>> {
        let mut batch = Batch::new(self.conn, text);
        let Some(mut statement) = batch.next().map_err(refused)? else {
            return Err(Error::new(ErrorKind::Invalid, "there is no statement"));
        };
        if batch.next().map_err(refused)?.is_some() {
            return Err(Error::new(ErrorKind::Invalid, "give one statement at a time"));
        }
        if statement.parameter_count() != values.len() {
            return Err(Error::new(ErrorKind::Invalid, "the statement takes another number of values")
                .with("takes", statement.parameter_count())
                .with("given", values.len()));
        }
        for (at, value) in values.iter().enumerate() {
            statement.raw_bind_parameter(at + 1, into_engine(value)).map_err(refused)?;
        }
        Ok(statement)
    }
}

impl Sql for Audit<'_> {
    fn query(&mut self, text: &str, values: &[SqlValue], limit: usize) -> Result<SqlRows> {
        let mut statement = self.prepare(text, values)?;
        if !statement.readonly() {
            return Err(read_only());
        }
        let mut found =
            SqlRows { columns: statement.column_names().map(str::to_owned).collect(), ..SqlRows::default() };
        let width = found.columns.len();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(refused)? {
            if found.rows.len() >= limit {
                found.more = true;
                break;
            }
            let values = (0..width).map(|at| row.get_ref(at).map(from_engine).map_err(refused));
            found.rows.push(values.collect::<Result<_>>()?);
        }
        Ok(found)
    }

    fn execute(&mut self, text: &str, values: &[SqlValue]) -> Result<u64> {
        if !self.writes {
            return Err(read_only());
        }
        let mut statement = self.prepare(text, values)?;
        if statement.column_count() > 0 {
            return Err(Error::new(
                ErrorKind::Invalid,
                "this statement gives rows; query is for those that only read",
            ));
        }
        let changed = statement.raw_execute().map_err(refused)?;
        u64::try_from(changed).map_err(|error| Error::new(ErrorKind::Io, "too many rows").with_source(error))
    }
}

fn into_engine(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => Value::Integer(*number),
        SqlValue::Real(number) => Value::Real(*number),
        SqlValue::Text(text) => Value::Text(text.clone()),
        SqlValue::Blob(bytes) => Value::Blob(bytes.clone()),
    }
}

fn from_engine(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Integer(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
    }
}

fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "this statement writes, and the transaction is for reading")
}

/// A statement that the engine refuses is the auditor's mistake; all else is as everywhere.
fn refused(error: rusqlite::Error) -> Error {
    let code = match &error {
        rusqlite::Error::SqliteFailure(failure, _)
        | rusqlite::Error::SqlInputError { error: failure, .. } => Some(failure.extended_code & 0xff),
        _ => None,
    };
    let (kind, message) = match code {
        Some(ffi::SQLITE_AUTH) => (
            ErrorKind::ReadOnly,
            "auditors may read everything, and write only tables whose names begin with audit_",
        ),
        Some(ffi::SQLITE_ERROR | ffi::SQLITE_CONSTRAINT | ffi::SQLITE_MISMATCH | ffi::SQLITE_RANGE) => {
            (ErrorKind::Invalid, "the engine refuses the statement")
        }
        _ => return sql(error),
    };
    Error::new(kind, message).with_source(error)
}
