//! What every handle of a workspace shares: the store, the clock, random bits, and the way a commit is made.

use std::sync::Arc;
use std::time::Duration;

use turnkeep_core::commit::{
    Commit, Expect, Fence, Fingerprint, Guard, LeaseGrant, Op, Receipt, Request, RequestId, Takeover,
};
use turnkeep_core::error::{ErrorKind, Result};
use turnkeep_core::id::{Collection, LeaseToken, RecordKey, SessionRef};
use turnkeep_core::model::{LeaseName, LeasePurpose, Version};
use turnkeep_core::{Clock, Store, Timestamp, WorkspaceId};

use crate::audit::{Audit, AuditingStore};
use crate::entropy::Entropy;
use crate::keeper::Timer;
use crate::redact::{RedactingStore, Redaction};
use crate::workspace::WorkspaceOptions;

/// How often a commit of unknown outcome is repeated before the caller is told.
const REPEATS: u32 = 3;

/// Shared by all handles of a workspace. Does not hold the keeper, so that its jobs may hold this.
#[derive(Clone, Debug)]
pub(crate) struct Base(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    workspace: WorkspaceId,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    timer: Timer,
    lease_ttl: Duration,
    wait: Option<Duration>,
    audit: Audit,
    redaction: Option<Redaction>,
    /// The store in front of which the redaction stands.
    unredacted: Arc<dyn Store>,
}

/// What makes a repeat of a commit safe, as the caller has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeat {
    /// The host's id; else one is drawn.
    pub(crate) id: Option<RequestId>,
    /// What the caller meant, when it is not the commit's own digest.
    pub(crate) fingerprint: Option<Fingerprint>,
}

/// What a commit answered.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) receipt: Receipt,
    /// Whether an earlier call, not this one, made the change.
    pub(crate) earlier: bool,
}

impl Base {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        workspace: WorkspaceId,
        timer: Timer,
        options: WorkspaceOptions,
    ) -> Self {
        let WorkspaceOptions { clock, entropy, lease_ttl, wait, recover: _, redaction, audit } = options;
        let audit = Audit::new(audit, &clock, store.info().owner);
        let unredacted = match audit.folder() {
            Some(_) => Arc::new(AuditingStore::new(store, audit.clone())),
            None => store,
        };
        let store: Arc<dyn Store> = match &redaction {
            Some(redaction) => Arc::new(RedactingStore::new(Arc::clone(&unredacted), redaction.clone())),
            None => Arc::clone(&unredacted),
        };
        Self(Arc::new(Inner {
            store,
            workspace,
            clock,
            entropy,
            timer,
            lease_ttl,
            wait,
            audit,
            redaction,
            unredacted,
        }))
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    pub(crate) fn workspace(&self) -> &WorkspaceId {
        &self.0.workspace
    }

    pub(crate) fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// What is hidden of all that is stored.
    pub(crate) fn redaction(&self) -> Option<&Redaction> {
        self.0.redaction.as_ref()
    }

    /// The store itself, for rows that are redacted before they are counted.
    pub(crate) fn unredacted(&self) -> &Arc<dyn Store> {
        &self.0.unredacted
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub(crate) fn lease_ttl(&self) -> Duration {
        self.0.lease_ttl
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.0.timer.sleep(duration).await;
    }

    pub(crate) fn random<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.entropy.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// A fresh id: 122 random bits as a version-4 UUID. Random from its first digit on, so that a short prefix of it
    /// already names one session.
    pub(crate) fn fresh_id(&self) -> Result<String> {
        Ok(uuid::Builder::from_random_bytes(self.random()?).into_uuid().hyphenated().to_string())
    }

    pub(crate) fn request_in_session(&self, repeat: Repeat, session: &SessionRef) -> Result<Request> {
        let request = Request::in_session(self.request_id(repeat.id)?, session.clone());
        Ok(with_fingerprint(request, repeat.fingerprint))
    }

    pub(crate) fn request_in_workspace(&self, repeat: Repeat, owner: Option<SessionRef>) -> Result<Request> {
        let mut request = Request::in_workspace(self.request_id(repeat.id)?);
        request.owner = owner;
        Ok(with_fingerprint(request, repeat.fingerprint))
    }

    fn request_id(&self, given: Option<RequestId>) -> Result<RequestId> {
        match given {
            Some(id) => Ok(id),
            None => Ok(RequestId::generated(self.now(), self.random()?)),
        }
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.0.entropy.as_ref()
    }

    /// What an earlier commit with this request answered; `None` if there was none. Writes nothing.
    ///
    /// # Errors
    /// `RequestConflict` when the id was used for something else.
    pub(crate) async fn recall(&self, request: Request) -> Result<Option<Receipt>> {
        // No record ever has this version: only the ledger, which is asked first, lets such a commit pass.
        let never = Guard::Record {
            collection: Collection::new("never")?,
            key: RecordKey::new("never")?,
            expect: Expect::Version(Version { birth: 0, count: 0 }),
        };
        match self.commit(Commit::new(self.workspace().clone()).request(request).guard(never)).await {
            Ok(landed) => Ok(Some(landed.receipt)),
            Err(error) if error.kind() == ErrorKind::VersionConflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The wish for a lease in the name of this store handle.
    pub(crate) fn grant(
        &self,
        name: LeaseName,
        purpose: LeasePurpose,
        ttl: Duration,
        takeover: Takeover,
    ) -> Result<LeaseGrant> {
        Ok(LeaseGrant {
            name,
            owner: self.0.store.info().owner,
            token: LeaseToken::from_bytes(self.random()?),
            purpose,
            ttl_ms: millis(ttl),
            takeover,
        })
    }

    /// Makes a commit. One whose outcome is unknown is repeated, if it has a request id or is safe by itself, so that
    /// it lands once.
    pub(crate) async fn commit(&self, mut commit: Commit) -> Result<Landed> {
        if commit.wait.is_none() {
            commit.wait = self.0.wait;
        }
        let mut repeats = 0;
        let mut unknown = None;
        loop {
            match self.0.store.commit(commit.clone()).await {
                Ok(receipt) => {
                    let earlier = receipt.replayed && unknown.is_none();
                    return Ok(Landed { receipt, earlier });
                }
                Err(error) if error.kind() == ErrorKind::CommitUnknown && repeats < REPEATS => {
                    let request = commit.request.as_ref();
                    unknown.get_or_insert(match request {
                        Some(request) => error.with("request", &request.id),
                        None => error,
                    });
                    if request.is_none() && !commit.ops.iter().all(is_safe_by_itself) {
                        break;
                    }
                    self.sleep(Duration::from_millis(10 << repeats)).await;
                    repeats += 1;
                }
                // A refusal of the repeat says nothing about the first attempt if the handle is spent.
                Err(error) if unknown.is_some() && leaves_it_open(error.kind()) => break,
                Err(error) => return Err(error),
            }
        }
        Err(unknown.unwrap_or_else(|| turnkeep_core::Error::new(ErrorKind::CommitUnknown, "outcome unknown")))
    }
}

/// Whether doing it again changes nothing: such commits carry no request id.
fn is_safe_by_itself(op: &Op) -> bool {
    matches!(
        op,
        Op::RenewLease { .. } | Op::ReleaseLease { .. } | Op::AppendEvents { expect_next: Some(_), .. }
    )
}

fn leaves_it_open(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::CommitUnknown | ErrorKind::Poisoned | ErrorKind::Closed | ErrorKind::Busy | ErrorKind::Io
    )
}

fn with_fingerprint(request: Request, fingerprint: Option<Fingerprint>) -> Request {
    match fingerprint {
        Some(fingerprint) => request.fingerprint(fingerprint),
        None => request,
    }
}

/// Whole milliseconds of a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The fence of a lease that was just granted.
pub(crate) fn fence_of(grant: &LeaseGrant, epoch: u64) -> Fence {
    Fence { name: grant.name.clone(), owner: grant.owner, token: grant.token, epoch }
}
