//! The broken stores, by what each breaks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use turnkeep_conformance::{Harness, Manifest, OpenWith, Site, TableCount};
use turnkeep_core::model::SessionRow;
use turnkeep_core::{Result, SessionKey, Store};

use turnkeep_harnesses::MemoryHarness;

/// How a store differs from a good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twist {
    /// Waits now and then, and breaks nothing.
    Slow,
    /// Lets every seventh call wait, as if somebody else wrote, and breaks nothing.
    BusyForAWhile,
    /// Accepts everything, keeps nothing.
    Null,
    /// Never answers a commit.
    Hangs,
    /// Panics at a commit.
    Panics,

    // What it makes of a commit.
    DropsTheLastOfABatch,
    CommitsEachOpAlone,
    CommitsEachEntryAlone,
    CommitsTwice,
    IgnoresGuards,
    IgnoresExpectations,
    IgnoresFences,
    ForgetsRequests,
    ScopesEveryRequestToTheWorkspace,
    ForgetsKeys,
    ForgetsParents,
    ForgetsMeta,
    ForgetsExpectedNext,
    ForgetsOwners,
    KnowsFewKinds,
    PartialsAreMessages,
    TrimsPayloads,
    CutsTexts,
    EmptyTextIsNone,
    RoundsTimes,
    CountsIn32Bits,
    DeletesByArchiving,
    ForcesDeletes,
    ForcesEveryTakeover,
    NeverExpires,
    MovesNoLeaf,
    DropsNoEvents,
    MixesStreams,
    CopiesOneLess,
    LowersIds,
    TouchesNeighbours,
    SharesRefusals,
    BusyAtOnce,
    SaysBusyAndWrites,

    // What it says yes to.
    CreatesOverOthers,
    SaysYesToStaleRuns,
    SaysYesToSecondRuns,
    SaysYesToTooLarge,
    SaysYesToInvalid,
    SaysYesToUnknown,
    SaysYesToLatePieces,
    SaysYesToLostLeases,
    SaysYesToHeldSessions,
    SaysYesToUsedRequests,
    SaysYesToTakenKeys,
    SaysYesToCorruptSeals,

    // What it answers to reads.
    OrdersByTime,
    OrdersByText,
    OrdersNumbersAsText,
    LatestIsNewestFirst,
    LatestIsOldest,
    TiesTheSameBothWays,
    MissesOneInTheMiddle,
    ChildFollowsParent,
    LosesTheFirstOfAPage,
    FillsEveryPage,
    LimitZeroIsAll,
    TrustsCursors,
    EmptyForUnknown,
    ListsById,
    TakesWildcards,
    ForgetsEntryFilters,
    ForgetsSessionFilters,
    ForgetsStatusFilters,
    CountsThePageOnly,
    CachesSessions,
    ShowsWhatIsBuilt,
    RevisionStandsStill,
    MarksStandStill,
    HidesStreams,
    HidesLeases,
    ForgetsTheWorkspaceOfRecords,
    SearchFindsNothing,
    SearchStripsSigns,
    SearchForgetsFilters,
    SearchRanksByAge,
}

/// A good store that is bent in one way.
#[derive(Debug)]
pub(super) struct Twisted {
    pub(super) inner: Arc<dyn Store>,
    pub(super) twist: Twist,
    pub(super) calls: AtomicU64,
    pub(super) seen: Mutex<HashMap<SessionKey, Option<SessionRow>>>,
}

impl Twisted {
    /// Lets others go on, if it is this store's way.
    pub(super) async fn pause(&self) {
        let count = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.twist == Twist::Slow {
            for _ in 0..1 + count % 3 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// The harness of the memory store, with every store twisted.
#[derive(Debug)]
pub(super) struct TwistedHarness {
    pub(super) inner: MemoryHarness,
    pub(super) twist: Twist,
}

#[async_trait]
impl Harness for TwistedHarness {
    fn manifest(&self) -> Manifest {
        self.inner.manifest()
    }

    async fn provision(&self) -> Result<Site> {
        self.inner.provision().await
    }

    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        let inner = self.inner.open(site, with).await?;
        let (calls, seen) = (AtomicU64::new(0), Mutex::default());
        Ok(Arc::new(Twisted { inner, twist: self.twist, calls, seen }))
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        self.inner.destroy(site).await
    }

    async fn residue(&self, site: &Site) -> Result<Option<Vec<TableCount>>> {
        self.inner.residue(site).await
    }
}
