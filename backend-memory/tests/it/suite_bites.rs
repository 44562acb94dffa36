//! The suite is tested too: stores that break one promise each are caught by the clause that promises it, and stores
//! that break none pass.

use std::sync::Arc;

use async_trait::async_trait;
use turnkeep_conformance::{Harness, Manifest, OpenWith, Site, TableCount, Verdict, registry, runner};
use turnkeep_core::commit::{NewEntry, Op, SessionPatch};
use turnkeep_core::id::EntryNo;
use turnkeep_core::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow, Visibility};
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, Order, RecordQuery, RowQuery, RunQuery, Scope, SessionOrder, SessionQuery,
};
use turnkeep_core::{
    Commit, ErrorKind, Maintenance, Outcome, Page, Payload, Receipt, Result, SessionKey, Store, StoreInfo,
    Timestamp,
};

use crate::conformance::MemoryHarness;

/// How a store differs from a good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twist {
    /// Waits now and then, and breaks nothing.
    Slow,
    /// Accepts everything, keeps nothing.
    Null,
    DropsTheLastOfABatch,
    OrdersByTime,
    OrdersByText,
    LatestIsNewestFirst,
    LatestIsOldest,
    IgnoresGuards,
    IgnoresFences,
    ForgetsRequests,
    EmptyForUnknown,
    CreatesOverOthers,
    CommitsEachOpAlone,
    LimitZeroIsAll,
    PartialsAreMessages,
    DeletesByArchiving,
    TrimsPayloads,
    CutsTexts,
    EmptyTextIsNone,
    RoundsTimes,
    ListsById,
    TrustsCursors,
    ReopensFinishedRuns,
    ForcesEveryTakeover,
    ForgetsTheWorkspaceOfRecords,
}

#[derive(Debug)]
struct Twisted {
    inner: Arc<dyn Store>,
    twist: Twist,
}

impl Twisted {
    async fn pause(&self) {
        if self.twist == Twist::Slow {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn twist_entry(&self, entry: &mut NewEntry) {
        match self.twist {
            Twist::PartialsAreMessages => entry.visibility = Visibility::Conversation,
            Twist::TrimsPayloads => {
                if let Ok(trimmed) = Payload::new(entry.payload.as_str().trim()) {
                    entry.payload = trimmed;
                }
            }
            Twist::CutsTexts => {
                if let Some(text) = &mut entry.text {
                    *text = text.chars().take(1_000).collect();
                }
            }
            Twist::EmptyTextIsNone => entry.text = entry.text.take().filter(|text| !text.is_empty()),
            Twist::RoundsTimes => entry.at = Timestamp::from_millis(entry.at.as_millis() / 1_000 * 1_000),
            _ => {}
        }
    }

    fn twist_op(&self, op: &mut Op) {
        match op {
            Op::Append { entries, .. } => {
                entries.iter_mut().for_each(|entry| self.twist_entry(entry));
                if self.twist == Twist::DropsTheLastOfABatch && entries.len() > 1 {
                    entries.pop();
                }
            }
            Op::DeleteSession { session, .. } if self.twist == Twist::DeletesByArchiving => {
                let patch = SessionPatch { archived: Some(true), ..SessionPatch::default() };
                *op = Op::PatchSession { session: session.clone(), patch };
            }
            Op::AcquireLease(grant) if self.twist == Twist::ForcesEveryTakeover => {
                grant.takeover = turnkeep_core::commit::Takeover::Force;
            }
            _ => {}
        }
    }

    async fn commit_each(&self, commit: Commit) -> Result<Receipt> {
        let mut all = Receipt::default();
        for op in &commit.ops {
            let mut one = commit.clone();
            one.ops = vec![op.clone()];
            one.request = None;
            one.guards.clear();
            let receipt = self.inner.commit(one).await?;
            all.outcomes.extend(receipt.outcomes);
            all.sessions = receipt.sessions;
        }
        Ok(all)
    }
}

#[async_trait]
impl Store for Twisted {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        self.pause().await;
        commit.ops.iter_mut().for_each(|op| self.twist_op(op));
        match self.twist {
            Twist::Null => {
                let outcomes = commit.ops.iter().map(|op| match op {
                    Op::Append { .. } => Outcome::Entries(vec![(EntryNo::FIRST, EntryNo::FIRST)]),
                    _ => Outcome::Done,
                });
                return Ok(Receipt { outcomes: outcomes.collect(), ..Receipt::default() });
            }
            Twist::IgnoresGuards => commit.guards.clear(),
            Twist::IgnoresFences => {
                let fenced = !commit.fences.is_empty();
                commit.fences.clear();
                let answer = self.inner.commit(commit.clone()).await;
                // Whoever shows any fence may write: the lease is taken from its holder for the moment.
                return match answer {
                    Err(error) if error.kind() == ErrorKind::LeaseHeld && fenced => Ok(Receipt::default()),
                    answer => answer,
                };
            }
            Twist::ForgetsRequests => commit.request = None,
            Twist::CommitsEachOpAlone => return self.commit_each(commit).await,
            Twist::CreatesOverOthers => {
                let answer = self.inner.commit(commit.clone()).await;
                return match answer {
                    Err(error)
                        if error.kind() == ErrorKind::AlreadyExists
                            && matches!(commit.ops.first(), Some(Op::CreateSession(_))) =>
                    {
                        Ok(Receipt::default())
                    }
                    answer => answer,
                };
            }
            Twist::ReopensFinishedRuns => {
                let answer = self.inner.commit(commit.clone()).await;
                return match answer {
                    Err(error) if error.kind() == ErrorKind::RunState => Ok(Receipt::default()),
                    answer => answer,
                };
            }
            _ => {}
        }
        self.inner.commit(commit).await
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        self.pause().await;
        if self.twist == Twist::Null {
            return Ok(None);
        }
        self.inner.session(key).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        self.pause().await;
        let mut query = query.clone();
        match self.twist {
            Twist::Null => return Ok(Page::empty()),
            Twist::ListsById => query.order = SessionOrder::Id,
            _ => {}
        }
        self.inner.sessions(&query).await
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        self.pause().await;
        let mut query = query.clone();
        if self.twist == Twist::LimitZeroIsAll && query.limit == 0 {
            query.limit = u32::MAX;
        }
        if self.twist == Twist::LatestIsOldest && query.order == Order::Latest {
            query.order = Order::Ascending;
        }
        let answer = match self.twist {
            Twist::Null => return Ok(Page::empty()),
            Twist::TrustsCursors => match self.inner.entries(&query).await {
                Err(error) if error.kind() == ErrorKind::Invalid && query.cursor.is_some() => {
                    query.cursor = None;
                    self.inner.entries(&query).await
                }
                answer => answer,
            },
            _ => self.inner.entries(&query).await,
        };
        let mut page = match answer {
            Err(error) if self.twist == Twist::EmptyForUnknown && error.kind() == ErrorKind::NotFound => {
                Page::empty()
            }
            answer => answer?,
        };
        match self.twist {
            Twist::OrdersByTime => page.items.sort_by_key(|entry| entry.at),
            Twist::OrdersByText => page.items.sort_by(|a, b| a.text.cmp(&b.text)),
            Twist::LatestIsNewestFirst if query.order == Order::Latest => page.items.reverse(),
            _ => {}
        }
        Ok(page)
    }

    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        self.pause().await;
        if self.twist == Twist::Null {
            return Ok(Page::empty());
        }
        self.inner.runs(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        self.pause().await;
        if self.twist == Twist::Null {
            return Ok(Page::empty());
        }
        self.inner.events(query).await
    }

    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        self.pause().await;
        if self.twist == Twist::Null {
            return Ok(Page::empty());
        }
        let mut query = query.clone();
        if self.twist == Twist::ForgetsTheWorkspaceOfRecords
            && let Ok(alpha) = "alpha".parse()
        {
            query.workspace = alpha;
        }
        self.inner.records(&query).await
    }

    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        self.pause().await;
        if self.twist == Twist::Null {
            return Ok(None);
        }
        self.inner.lease(key).await
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        self.pause().await;
        if self.twist == Twist::Null {
            return Ok(Page::empty());
        }
        self.inner.rows(query).await
    }

    async fn changes(&self, scope: &Scope, since: Mark) -> Result<Mark> {
        self.pause().await;
        if self.twist == Twist::Null {
            return Ok(Mark::new(1));
        }
        self.inner.changes(scope, since).await
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        if self.twist == Twist::Null { None } else { self.inner.maintenance() }
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

/// The harness of the memory store, with every store twisted.
#[derive(Debug)]
struct TwistedHarness {
    inner: MemoryHarness,
    twist: Twist,
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
        Ok(Arc::new(Twisted { inner, twist: self.twist }))
    }

    async fn destroy(&self, site: &Site) -> Result<()> {
        self.inner.destroy(site).await
    }

    async fn residue(&self, site: &Site) -> Result<Option<Vec<TableCount>>> {
        self.inner.residue(site).await
    }
}

fn verdict(twist: Twist, id: &str) -> Verdict {
    let clause = registry::by_id(id).unwrap();
    runner::run(Arc::new(TwistedHarness { inner: MemoryHarness, twist }), clause)
}

#[test]
fn every_broken_promise_is_caught_by_its_clause() {
    let broken = [
        (Twist::DropsTheLastOfABatch, "ORD-008"),
        (Twist::OrdersByTime, "ORD-002"),
        (Twist::OrdersByText, "ORD-001"),
        (Twist::LatestIsNewestFirst, "ORD-005"),
        (Twist::LatestIsOldest, "ORD-005"),
        (Twist::IgnoresGuards, "RUN-010"),
        (Twist::IgnoresGuards, "CON-003"),
        (Twist::IgnoresGuards, "CON-007"),
        (Twist::IgnoresFences, "LEA-003"),
        (Twist::ForgetsRequests, "IDM-001"),
        (Twist::ForgetsRequests, "IDM-002"),
        (Twist::EmptyForUnknown, "ID-004"),
        (Twist::CreatesOverOthers, "ID-001"),
        (Twist::CommitsEachOpAlone, "RUN-004"),
        (Twist::CommitsEachOpAlone, "RUN-005"),
        (Twist::CommitsEachOpAlone, "REK-003"),
        (Twist::LimitZeroIsAll, "PAG-005"),
        (Twist::PartialsAreMessages, "PAR-001"),
        (Twist::DeletesByArchiving, "DEL-001"),
        (Twist::DeletesByArchiving, "DEL-002"),
        (Twist::TrimsPayloads, "LIM-001"),
        (Twist::CutsTexts, "LIM-003"),
        (Twist::EmptyTextIsNone, "LIM-002"),
        (Twist::RoundsTimes, "RES-006"),
        (Twist::ListsById, "PAG-006"),
        (Twist::TrustsCursors, "PAG-004"),
        (Twist::ReopensFinishedRuns, "STA-001"),
        (Twist::ForcesEveryTakeover, "LEA-002"),
        (Twist::ForgetsTheWorkspaceOfRecords, "REK-001"),
    ];
    let escaped: Vec<_> = broken
        .into_iter()
        .map(|(twist, id)| (twist, id, verdict(twist, id)))
        .filter(|(.., verdict)| !matches!(verdict, Verdict::Fail(_)))
        .collect();
    assert!(escaped.is_empty(), "broken stores that were not caught: {escaped:#?}");
}

/// Nothing is promised by a store that keeps nothing: not one clause may pass.
#[test]
fn a_store_that_keeps_nothing_passes_no_clause() {
    let passed: Vec<_> = registry::all()
        .filter(|clause| verdict(Twist::Null, clause.id) == Verdict::Pass)
        .map(|clause| clause.id)
        .collect();
    assert!(passed.is_empty(), "clauses that a store without content passes: {passed:?}");
}

/// Slow is not broken.
#[test]
fn a_slow_store_passes() {
    for group in ["ID", "ORD", "RUN", "PAR", "ISO", "CON", "IDM", "PAG", "LEA", "STA"] {
        for clause in registry::all().filter(|clause| clause.group() == group) {
            let verdict = verdict(Twist::Slow, clause.id);
            let starts_processes = matches!(verdict, Verdict::NotRun(_)) && clause.id == "CON-008";
            assert!(verdict.is_acceptable() || starts_processes, "{}: {verdict}", clause.id);
        }
    }
}
