//! What a twisted store makes of a commit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use turnkeep_core::commit::{Expect, NewEntry, Op, Parent, RequestScope, SessionPatch, Takeover};
use turnkeep_core::id::EntryNo;
use turnkeep_core::limits::LEASE_MS;
use turnkeep_core::model::{Visibility, stream};
use turnkeep_core::query::{AudienceFilter, SessionQuery};
use turnkeep_core::{Commit, Error, ErrorKind, Outcome, Payload, Receipt, Result, Timestamp};

use super::twist::{Twist, Twisted};

impl Twisted {
    pub(super) async fn twisted_commit(&self, mut commit: Commit) -> Result<Receipt> {
        commit.ops.iter_mut().for_each(|op| self.twist_op(op));
        match self.twist {
            Twist::Null => return Ok(shape_of(&commit)),
            Twist::Hangs => return std::future::pending().await,
            Twist::Panics => panic!("this store panics"),
            Twist::IgnoresGuards => commit.guards.clear(),
            Twist::ForgetsRequests => commit.request = None,
            Twist::ScopesEveryRequestToTheWorkspace => {
                if let Some(request) = &mut commit.request {
                    request.scope = RequestScope::Workspace;
                    request.owner = None;
                }
            }
            Twist::CommitsEachOpAlone => return self.commit_parts(&commit, split_ops(&commit)).await,
            Twist::CommitsEachEntryAlone => return self.commit_parts(&commit, split_entries(&commit)).await,
            Twist::CommitsTwice
                if matches!(commit.ops.as_slice(), [Op::Append { .. }]) && commit.guards.is_empty() =>
            {
                self.inner.commit(commit.clone()).await?;
            }
            Twist::BusyForAWhile if self.calls.load(Ordering::Relaxed).is_multiple_of(7) => {
                let (patience, busy) = (commit.wait.unwrap_or(Duration::MAX), Duration::from_millis(2));
                tokio::time::sleep(patience.min(busy)).await;
                if patience < busy {
                    return Err(Error::new(
                        ErrorKind::Busy,
                        "somebody else wrote for longer than the caller waits",
                    ));
                }
            }
            Twist::BusyAtOnce if self.calls.load(Ordering::Relaxed).is_multiple_of(7) => {
                return Err(Error::new(ErrorKind::Busy, "somebody else writes; this store does not wait"));
            }
            Twist::SaysBusyAndWrites if commit.request.is_some() && commit.wait.is_some() => {
                self.inner.commit(commit).await?;
                return Err(Error::new(ErrorKind::Busy, "somebody else writes; nothing was written"));
            }
            Twist::TouchesNeighbours => self.touch_neighbours(&mut commit).await?,
            Twist::SharesRefusals => return self.share_refusals(commit).await,
            Twist::IgnoresFences if !commit.fences.is_empty() => {
                let mut unfenced = commit.clone();
                unfenced.fences.clear();
                return match self.inner.commit(unfenced).await {
                    // Whoever shows any fence may write.
                    Err(error) if error.kind() == ErrorKind::LeaseHeld => self.inner.commit(commit).await,
                    answer => answer,
                };
            }
            _ => {}
        }
        let shape = shape_of(&commit);
        match self.inner.commit(commit).await {
            Err(error) if self.says_yes(error.kind()) => Ok(shape),
            answer => answer,
        }
    }

    fn says_yes(&self, kind: ErrorKind) -> bool {
        matches!(
            (self.twist, kind),
            (Twist::CreatesOverOthers | Twist::SaysYesToTakenKeys, ErrorKind::AlreadyExists)
                | (Twist::SaysYesToStaleRuns, ErrorKind::RunState)
                | (Twist::SaysYesToSecondRuns, ErrorKind::ActiveRun)
                | (Twist::SaysYesToTooLarge, ErrorKind::TooLarge)
                | (Twist::SaysYesToInvalid, ErrorKind::Invalid)
                | (Twist::SaysYesToUnknown, ErrorKind::NotFound)
                | (Twist::SaysYesToLatePieces, ErrorKind::TurnNotOpen)
                | (Twist::SaysYesToLostLeases, ErrorKind::LeaseLost)
                | (Twist::SaysYesToHeldSessions, ErrorKind::LeaseHeld)
                | (Twist::SaysYesToUsedRequests, ErrorKind::RequestConflict)
                | (Twist::SaysYesToCorruptSeals, ErrorKind::Corrupt)
        )
    }

    fn twist_entry(&self, entry: &mut NewEntry) {
        match self.twist {
            Twist::PartialsAreMessages => entry.visibility = Visibility::Conversation,
            Twist::ForgetsKeys => entry.key = None,
            Twist::ForgetsParents => entry.parent = Parent::Leaf,
            Twist::KnowsFewKinds if entry.kind.as_str().starts_with("x-") => {
                entry.kind = "custom".parse().unwrap();
            }
            Twist::TrimsPayloads => entry.payload = Payload::new(entry.payload.as_str().trim()).unwrap(),
            Twist::CutsTexts => {
                entry.text = entry.text.take().map(|text| text.chars().take(1_000).collect());
            }
            Twist::EmptyTextIsNone => entry.text = entry.text.take().filter(|text| !text.is_empty()),
            Twist::RoundsTimes => entry.at = Timestamp::from_millis(entry.at.as_millis() / 1_000 * 1_000),
            _ => {}
        }
    }

    fn twist_op(&self, op: &mut Op) {
        match (self.twist, op) {
            (Twist::DropsTheLastOfABatch, Op::Append { entries, .. }) if entries.len() > 1 => {
                entries.pop();
            }
            (_, Op::Append { entries, .. }) => entries.iter_mut().for_each(|entry| self.twist_entry(entry)),
            (Twist::DeletesByArchiving, op @ Op::DeleteSession { .. }) => {
                let Op::DeleteSession { session, .. } = op.clone() else { return };
                let patch = SessionPatch { archived: Some(true), ..SessionPatch::default() };
                *op = Op::PatchSession { session, patch };
            }
            (Twist::ForcesDeletes, Op::DeleteSession { force, .. }) => *force = true,
            (Twist::ForcesEveryTakeover, Op::AcquireLease(grant)) => grant.takeover = Takeover::Force,
            (Twist::NeverExpires, Op::AcquireLease(grant)) => grant.ttl_ms = LEASE_MS,
            (Twist::MovesNoLeaf, op @ Op::MoveLeaf { .. }) => {
                let Op::MoveLeaf { session, .. } = op.clone() else { return };
                *op = Op::PatchSession { session, patch: SessionPatch::default() };
            }
            (Twist::DropsNoEvents, Op::DropEvents { through, .. }) => *through = Some(0),
            (Twist::MixesStreams, Op::AppendEvents { stream, expect_next, .. })
                if stream.as_str().starts_with(stream::PARTIAL_PREFIX) =>
            {
                *stream = "partial/0".parse().unwrap();
                *expect_next = None;
            }
            (Twist::ForgetsExpectedNext, Op::AppendEvents { expect_next, .. }) => *expect_next = None,
            (Twist::CopiesOneLess, Op::CopyEntries { through, .. }) if through.get() > 1 => {
                *through = EntryNo::new(through.get() - 1).unwrap();
            }
            (Twist::LowersIds, Op::CreateSession(new)) => {
                new.id = new.id.as_str().to_lowercase().parse().unwrap();
            }
            (Twist::ForgetsMeta, Op::CreateSession(new)) => new.profile.meta = None,
            (Twist::ForgetsMeta, Op::PatchSession { patch, .. }) => patch.meta = None,
            (Twist::ForgetsOwners, Op::PutRecord(put)) => put.owner = None,
            (Twist::IgnoresExpectations, Op::PutRecord(put)) => put.expect = Expect::Any,
            (Twist::IgnoresExpectations, Op::DeleteRecord { expect, .. }) => *expect = Expect::Any,
            (Twist::CountsIn32Bits, Op::AddUsage { usage, .. }) => {
                usage.input_tokens &= 0xFFFF_FFFF;
            }
            _ => {}
        }
    }

    async fn commit_parts(&self, whole: &Commit, parts: Vec<Op>) -> Result<Receipt> {
        let mut all = Receipt::default();
        for (at, op) in parts.into_iter().enumerate() {
            let mut part = whole.clone();
            (part.ops, part.request) = (vec![op], None);
            if at > 0 {
                part.guards.clear();
            }
            let receipt = self.inner.commit(part).await?;
            tokio::task::yield_now().await;
            let merged = match (all.outcomes.last_mut(), receipt.outcomes.first()) {
                (Some(Outcome::Entries(so_far)), Some(Outcome::Entries(more))) if whole.ops.len() == 1 => {
                    so_far.extend(more);
                    true
                }
                _ => false,
            };
            if !merged {
                all.outcomes.extend(receipt.outcomes);
            }
            all.sessions = receipt.sessions;
        }
        Ok(all)
    }

    async fn touch_neighbours(&self, commit: &mut Commit) -> Result<()> {
        let query =
            SessionQuery { audience: AudienceFilter::Any, ..SessionQuery::new(commit.workspace.clone()) };
        for row in self.inner.sessions(&query).await?.items {
            let own = commit.ops.iter().any(|op| matches!(op, Op::DeleteSession { .. }));
            if !own {
                let patch = SessionPatch { pinned: Some(true), ..SessionPatch::default() };
                commit.ops.push(Op::PatchSession { session: row.session_ref(), patch });
            }
        }
        Ok(())
    }

    /// Whoever comes after a refused commit is refused as well.
    async fn share_refusals(&self, commit: Commit) -> Result<Receipt> {
        let key =
            turnkeep_core::SessionKey { workspace: commit.workspace.clone(), id: "refused".parse().unwrap() };
        if self.seen.lock().unwrap().remove(&key).is_some() {
            return Err(Error::new(ErrorKind::StaleLeaf, "another commit of the group was refused"));
        }
        let answer = self.inner.commit(commit).await;
        if answer.is_err() {
            self.seen.lock().unwrap().insert(key, None);
        }
        answer
    }
}

fn split_ops(commit: &Commit) -> Vec<Op> {
    commit.ops.clone()
}

fn split_entries(commit: &Commit) -> Vec<Op> {
    let split = commit.ops.iter().flat_map(|op| match op {
        Op::Append { session, entries } => entries
            .iter()
            .map(|entry| Op::Append { session: session.clone(), entries: vec![entry.clone()] })
            .collect(),
        op => vec![op.clone()],
    });
    split.collect()
}

/// A receipt that fits the ops, of a store that did nothing.
fn shape_of(commit: &Commit) -> Receipt {
    let outcomes = commit.ops.iter().map(|op| match op {
        Op::Append { entries, .. } => {
            let last = EntryNo::new(u32::try_from(entries.len()).unwrap_or(1)).unwrap_or(EntryNo::FIRST);
            Outcome::Entries(vec![(EntryNo::FIRST, last)])
        }
        Op::StartRun { .. } | Op::TransitionRun { .. } | Op::ReopenRun { .. } => {
            Outcome::Run { number: 1, attempt: 1 }
        }
        Op::AcquireLease(_) | Op::RenewLease { .. } => {
            Outcome::Lease { epoch: 1, expires_at: Timestamp::from_millis(0) }
        }
        Op::PutRecord(_) => {
            let version = turnkeep_core::model::Version { birth: 1, count: 1 };
            Outcome::Record { version, ordinal: 1 }
        }
        Op::AppendEvents { events, .. } => Outcome::Events { first: 1, last: events.len() as u64 },
        _ => Outcome::Done,
    });
    Receipt { outcomes: outcomes.collect(), ..Receipt::default() }
}
