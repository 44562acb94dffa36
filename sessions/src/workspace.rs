//! A workspace: where the sessions of one project are kept.

use std::io::{Read, Seek};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use turnkeep_core::error::Result;
use turnkeep_core::{Clock, Store, SystemClock, Timestamp, WorkspaceId, mutant};

use crate::audit::Audit;
use crate::base::Base;
use crate::entropy::{Entropy, SystemEntropy};
use crate::keeper::Keeper;
use crate::lease::Leases;
use crate::recovery::{self, RecoveryReport};
use crate::redact::Redaction;
use crate::retention::Retention;
use crate::runs::WorkspaceRuns;
use crate::search::Search;
use crate::sessions::Sessions;
use crate::state::{Bindings, Projects};
use crate::transfer::{self, ImportOptions, ImportReport, OnProgress};

/// How a workspace is opened.
#[derive(Clone, Debug)]
#[must_use]
pub struct WorkspaceOptions {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) lease_ttl: Duration,
    pub(crate) wait: Option<Duration>,
    pub(crate) recover: bool,
    pub(crate) redaction: Option<Redaction>,
    pub(crate) audit: Option<PathBuf>,
}

impl Default for WorkspaceOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            lease_ttl: Duration::from_secs(60),
            wait: None,
            recover: true,
            redaction: None,
            audit: None,
        }
    }
}

impl WorkspaceOptions {
    /// Where entries and request ids get their time from. The expiry of leases follows the store's own clock.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Where random bits come from.
    pub fn entropy(mut self, entropy: impl Entropy) -> Self {
        self.entropy = Arc::new(entropy);
        self
    }

    /// How long a lease lives without being renewed; 60 s by default. It is renewed at a third of that.
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.lease_ttl = ttl.max(Duration::from_millis(1));
        self
    }

    /// How long a write waits for a busy store; the store's own setting by default.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Whether to close what dead processes left behind; yes by default.
    pub fn recover(mut self, recover: bool) -> Self {
        self.recover = recover;
        self
    }

    /// Writes an [audit log](crate::audit) to this folder, which must lie outside of the workspace. Off by default; a
    /// workspace that is opened by its directory has one.
    pub fn audit_log(mut self, folder: impl Into<PathBuf>) -> Self {
        self.audit = Some(folder.into());
        self
    }

    /// Whether there is a folder for an audit log already.
    #[must_use]
    pub fn has_audit_log(&self) -> bool {
        self.audit.is_some()
    }

    /// Hides what must not be stored, in everything that comes through this workspace or its
    /// [`store`](Workspace::store); see [`redact`](crate::redact). Without one nothing is changed.
    ///
    /// Streamed text is stored in whole lines then, so that no secret slips through in two pieces.
    pub fn redactor(mut self, redaction: impl Into<Redaction>) -> Self {
        self.redaction = Some(redaction.into());
        self
    }

    /// Opens a workspace of a store.
    ///
    /// # Errors
    /// Whatever the store answers to the look for runs that were left behind.
    pub async fn open(self, store: Arc<dyn Store>, id: WorkspaceId) -> Result<Workspace> {
        let id = if mutant::is("workspaces/all-are-one") { WorkspaceId::new("all")? } else { id };
        let keeper = Keeper::start()?;
        let recover = self.recover;
        let base = Base::new(store, id, keeper.timer(), self);
        let recovered = if recover { recovery::recover(&base).await? } else { RecoveryReport::default() };
        Ok(Workspace(Arc::new(Inner { keeper, base, recovered })))
    }
}

/// The sessions of one project. Clones share everything; the last one dropped ends the background work.
///
/// Nothing of one workspace can be seen or changed from another, even in the same store.
#[derive(Clone, Debug)]
pub struct Workspace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Dropped first: queued closes finish while the store is still there.
    keeper: Keeper,
    base: Base,
    recovered: RecoveryReport,
}

impl Workspace {
    /// Opens a workspace of a store, and closes what dead processes left behind in it.
    ///
    /// # Errors
    /// Whatever the store answers to the look for runs that were left behind.
    pub async fn open(store: Arc<dyn Store>, id: WorkspaceId) -> Result<Self> {
        WorkspaceOptions::default().open(store, id).await
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &WorkspaceId {
        self.0.base.workspace()
    }

    /// The store beneath, behind the redactor if there is one.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        self.0.base.store()
    }

    /// The time by the workspace's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.base.now()
    }

    /// Its sessions: create, find, list, delete.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.clone())
    }

    /// Its runs, over all sessions.
    #[must_use]
    pub fn runs(&self) -> WorkspaceRuns {
        WorkspaceRuns::new(self.clone())
    }

    /// Searches what was said in its sessions, best hits first. The text is literal.
    pub fn search(&self, text: impl Into<String>) -> Search {
        Search::new(self.clone(), text.into())
    }

    /// Its leases.
    #[must_use]
    pub fn leases(&self) -> Leases {
        Leases::new(self.clone())
    }

    /// Which session a channel identity belongs to.
    #[must_use]
    pub fn bindings(&self) -> Bindings {
        Bindings::new(self.clone())
    }

    /// Its projects.
    #[must_use]
    pub fn projects(&self) -> Projects {
        Projects::new(self.clone())
    }

    /// What may go of it once it is old, when somebody asks for it. Nothing goes by itself.
    #[must_use]
    pub fn retention(&self) -> Retention {
        Retention::new(self.clone())
    }

    /// Its audit log: what happened to runs, without anybody's words.
    #[must_use]
    pub fn audit(&self) -> &Audit {
        self.0.base.audit()
    }

    /// What was recovered when this handle was opened.
    #[must_use]
    pub fn recovered(&self) -> &RecoveryReport {
        &self.0.recovered
    }

    /// Closes what dead processes left behind. Safe to repeat; runs of the living are left alone.
    ///
    /// # Errors
    /// Whatever the store answers to the look for such runs. Trouble with one session is in the report instead.
    pub async fn recover(&self) -> Result<RecoveryReport> {
        recovery::recover(self.base()).await
    }

    /// Reads a session from a file into this workspace, behind its redactor; see [`import`](crate::transfer::import()).
    ///
    /// # Errors
    /// As [`import`](crate::transfer::import()).
    pub async fn import<R: Read + Seek + Send>(
        &self,
        file: &mut R,
        mut options: ImportOptions,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<ImportReport> {
        if let Some(redaction) = self.base().redaction() {
            options = options.with_redactor(redaction.clone());
        }
        transfer::import(&**self.base().unredacted(), self.id(), file, &options, on_progress).await
    }

    /// Waits until dropped runs and leases are closed.
    pub async fn settle(&self) {
        self.0.keeper.drain().await;
    }

    /// Waits until dropped runs are closed, then closes the store handle: further calls answer `Closed`.
    ///
    /// # Errors
    /// Whatever the store answers.
    pub async fn close(self) -> Result<()> {
        self.settle().await;
        self.0.base.store().close().await
    }

    pub(crate) fn base(&self) -> &Base {
        &self.0.base
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.0.keeper
    }
}
