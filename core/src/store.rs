//! The contract.

use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Receipt};
use crate::error::{Error, Result};
use crate::id::{OwnerId, SessionKey, WorkspaceId};
use crate::limits::Limits;
use crate::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow};
use crate::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SearchHit, SearchQuery,
    SessionQuery,
};
use crate::sql::{SqlAccess, SqlWork};

/// What survives what. Killing a process proves only D1, because the page cache survives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Durability {
    /// Nothing survives the process.
    D0,
    /// An acknowledged commit survives a killed process.
    D1,
    /// After power loss: an atomic prefix of the acknowledged commits.
    D2,
    /// After power loss: every acknowledged commit.
    D3,
}

/// What a store can do beyond the contract. What it cannot do answers `Unsupported` and changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// Ranked full-text search.
    pub search: bool,
    /// Several processes may use one store at once.
    pub multi_process: bool,
    /// Opened again, it has what was stored.
    pub persistent: bool,
    /// A dead owner of a lease is known at once.
    pub owner_liveness: bool,
    /// `Maintenance::backup` works.
    pub backup: bool,
    /// `Maintenance::compact` works.
    pub compact: bool,
}

impl Capabilities {
    /// None of them.
    pub const NONE: Self = Self {
        search: false,
        multi_process: false,
        persistent: false,
        owner_liveness: false,
        backup: false,
        compact: false,
    };
}

/// What a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// The backend: `sqlite`, `memory`, …
    pub name: &'static str,
    /// The version of the backend.
    pub version: &'static str,
    /// The engine beneath and its version.
    pub engine: String,
    /// Where the data is, as a person would name it; never with a password.
    pub location: String,
    /// The format version of the stored data.
    pub format: u32,
    /// What survives what.
    pub durability: Durability,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What it accepts.
    pub limits: Limits,
    /// This open handle. Leases are taken in its name.
    pub owner: OwnerId,
}

impl StoreInfo {
    /// Says what a store is. For backends.
    #[must_use]
    pub fn new(name: &'static str, version: &'static str, durability: Durability, owner: OwnerId) -> Self {
        Self {
            name,
            version,
            engine: String::new(),
            location: String::new(),
            format: 0,
            durability,
            capabilities: Capabilities::NONE,
            limits: Limits::default(),
            owner,
        }
    }
}

/// A store: the one way in and the few ways out. `docs/spec.md` is the contract, clause by clause.
///
/// Every method may be dropped at any point: a commit is then whole or absent, and the store stays usable.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// What this store is.
    fn info(&self) -> &StoreInfo;

    /// Makes one change: all of it or nothing.
    ///
    /// # Errors
    /// A refusal names the fence, guard or op that failed, and changes nothing. `CommitUnknown` is no refusal: nobody
    /// can say whether it landed; repeat it with its request id.
    async fn commit(&self, commit: Commit) -> Result<Receipt>;

    /// One session in use; `None` if there is none with this id.
    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>>;

    /// Sessions of a workspace. Reads no entry bodies unless a text is asked for.
    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>>;

    /// Entries of a session. `NotFound` for a session that is not there: unknown differs from empty.
    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>>;

    /// Runs of a session or a workspace.
    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>>;

    /// Events of a stream.
    async fn events(&self, query: &EventQuery) -> Result<Page<Event>>;

    /// Records of a collection.
    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>>;

    /// A lease, held or released; `None` if it was never taken.
    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>>;

    /// Ranked full-text search: a capability.
    async fn search(&self, _query: &SearchQuery) -> Result<Page<SearchHit>> {
        Err(Error::unsupported("search"))
    }

    /// Everything that a session is, or the records nobody owns: for copies and exports.
    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>>;

    /// The mark of now. Cheap: compare it with an earlier one to know whether anything moved. `since` lets a
    /// backend answer early; it may be `Mark::START`.
    async fn changes(&self, scope: &Scope, since: Mark) -> Result<Mark>;

    /// Chores, where the store has any.
    fn maintenance(&self) -> Option<&dyn Maintenance> {
        None
    }

    /// Ends the use: waits for what is under way, flushes, gives locks back. Further calls answer `Closed`.
    async fn close(&self) -> Result<()>;
}

/// What a purge removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeReport {
    /// Deleted sessions whose last row is gone.
    pub sessions: u64,
    /// Rows removed.
    pub rows: u64,
}

/// One thing that is damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Where, as a table, session or number.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Sessions looked at.
    pub sessions: u64,
    /// Entries looked at.
    pub entries: u64,
    /// What is damaged; empty when all is well.
    pub damage: Vec<Damage>,
}

/// How large a store is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStats {
    /// Workspaces.
    pub workspaces: u64,
    /// Sessions in use.
    pub sessions: u64,
    /// Entries, those of deleted sessions that are not purged yet included.
    pub entries: u64,
    /// Deleted sessions that are not purged yet.
    pub purges: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes of the write-ahead log on disk.
    pub log_bytes: u64,
    /// Files that the store consists of.
    pub files: Vec<PathBuf>,
}

/// Chores of a store. What a backend does not have answers `Unsupported` and does nothing.
#[async_trait]
pub trait Maintenance: fmt::Debug + Send + Sync {
    /// Every workspace that has anything, bytewise ascending.
    async fn workspaces(&self) -> Result<Vec<WorkspaceId>> {
        Err(Error::unsupported("workspaces"))
    }

    /// Looks at everything and names what is damaged. Changes nothing.
    async fn verify(&self) -> Result<VerifyReport> {
        Err(Error::unsupported("verify"))
    }

    /// Copies the store, as it is at one moment, to a new file. Never overwrites.
    async fn backup(&self, _to: &Path) -> Result<()> {
        Err(Error::unsupported("backup"))
    }

    /// Gives unused space back.
    async fn compact(&self) -> Result<()> {
        Err(Error::unsupported("compact"))
    }

    /// Waits until every deleted session is purged.
    async fn purge(&self) -> Result<PurgeReport> {
        Err(Error::unsupported("purge"))
    }

    /// Runs SQL of an auditor in one transaction, where the store is an SQL database. See [`crate::sql`], whose functions
    /// are the convenient way.
    async fn sql(&self, _access: SqlAccess, _work: SqlWork) -> Result<()> {
        Err(Error::unsupported("sql"))
    }

    /// How large it is.
    async fn stats(&self) -> Result<StoreStats> {
        Err(Error::unsupported("stats"))
    }
}
