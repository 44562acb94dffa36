//! What of a commit is its meaning: everything but what a retry makes anew.

use turnkeep_core::commit::{Expect, Fence, Op, Takeover};
use turnkeep_core::id::{LeaseToken, OwnerId};
use turnkeep_core::model::{LeaseName, Version};
use turnkeep_core::{Incarnation, RunId, SessionRef, Timestamp};

const NEVER: Timestamp = Timestamp::from_millis(0);

/// The ops with everything blanked that may differ between tries, and what they make named by its place.
pub(super) fn of(ops: &[Op]) -> Vec<Op> {
    let mut ops = ops.to_vec();
    let (mut sessions, mut runs) = (Vec::new(), Vec::new());
    for op in &ops {
        let op = if let Op::WhenKey { then, .. } = op { then } else { op };
        match op {
            Op::CreateSession(new) => {
                sessions.push(SessionRef { id: new.id.clone(), incarnation: new.incarnation });
            }
            Op::StartRun { session, run } => runs.push((session.clone(), run.id.clone())),
            _ => {}
        }
    }
    for op in &mut ops {
        each_run(op, &mut |session, run| {
            if let Some(place) = runs.iter().position(|made| (&made.0, &made.1) == (session, &*run)) {
                *run = format!("made {place}").parse().unwrap();
            }
        });
        each_session(op, &mut |session| {
            if let Some(place) = sessions.iter().position(|made| made == session) {
                session.id = format!("made {place}").parse().unwrap();
            }
            session.incarnation = Incarnation::from_bytes([0; 16]);
        });
        blank(op);
    }
    ops
}

/// Every session that an op names.
pub(crate) fn each_session(op: &mut Op, f: &mut impl FnMut(&mut SessionRef)) {
    match op {
        Op::WhenKey { session, then, .. } => {
            f(session);
            each_session(then, f);
        }
        Op::CreateSession(new) => {
            let mut session = SessionRef { id: new.id.clone(), incarnation: new.incarnation };
            f(&mut session);
            (new.id, new.incarnation) = (session.id, session.incarnation);
        }
        Op::PatchSession { session, .. }
        | Op::DeleteSession { session, .. }
        | Op::Append { session, .. }
        | Op::MoveLeaf { session, .. }
        | Op::StartRun { session, .. }
        | Op::TransitionRun { session, .. }
        | Op::ReopenRun { session, .. }
        | Op::PatchRun { session, .. }
        | Op::AddUsage { session, .. }
        | Op::SealSession { session, .. }
        | Op::Restore { session, .. }
        | Op::AppendEvents { session, .. }
        | Op::DropEvents { session, .. } => f(session),
        Op::CopyEntries { from, to, .. } => {
            f(from);
            f(to);
        }
        Op::PutRecord(put) => put.owner.iter_mut().for_each(f),
        Op::DeleteRecord { owner, .. } => owner.iter_mut().for_each(f),
        Op::AcquireLease(grant) => of_lease(&mut grant.name, f),
        Op::RenewLease { fence, .. } | Op::ReleaseLease { fence } => of_lease(&mut fence.name, f),
        Op::RestoreRecord { .. } => {}
    }
}

fn of_lease(name: &mut LeaseName, f: &mut impl FnMut(&mut SessionRef)) {
    if let LeaseName::Session(session) = name {
        f(session);
    }
}

/// Every run that an op names, but in entries and events.
pub(crate) fn each_run(op: &mut Op, f: &mut impl FnMut(&SessionRef, &mut RunId)) {
    match op {
        Op::WhenKey { then, .. } => each_run(then, f),
        Op::StartRun { session, run } => f(session, &mut run.id),
        Op::TransitionRun { session, run, .. }
        | Op::ReopenRun { session, run }
        | Op::PatchRun { session, run, .. }
        | Op::AddUsage { session, run: Some(run), .. } => f(session, run),
        _ => {}
    }
}

fn blank(op: &mut Op) {
    match op {
        Op::WhenKey { then, .. } => blank(then),
        Op::Append { entries, .. } => {
            for entry in entries {
                (entry.at, entry.run, entry.turn) = (NEVER, None, None);
            }
        }
        Op::RestoreRecord { record } => {
            (record.created_at, record.updated_at) = (NEVER, NEVER);
            record.version = Version { birth: 0, count: 0 };
        }
        Op::StartRun { run, .. } => (run.intent, run.after) = (None, None),
        Op::AppendEvents { events, .. } => {
            for event in events {
                (event.at, event.run) = (NEVER, None);
            }
        }
        Op::PutRecord(put) => expectation(&mut put.expect),
        Op::DeleteRecord { owner, expect, .. } => {
            *owner = None;
            expectation(expect);
        }
        Op::AcquireLease(grant) => {
            (grant.owner, grant.token) = nobody();
            (grant.ttl_ms, grant.takeover) = (0, Takeover::IfExpired);
        }
        Op::RenewLease { fence, ttl_ms } => {
            proof(fence);
            *ttl_ms = 0;
        }
        Op::ReleaseLease { fence } => proof(fence),
        _ => {}
    }
}

fn nobody() -> (OwnerId, LeaseToken) {
    (OwnerId::from_bytes([0; 16]), LeaseToken::from_bytes([0; 16]))
}

fn proof(fence: &mut Fence) {
    (fence.owner, fence.token) = nobody();
    fence.epoch = 0;
}

fn expectation(expect: &mut Expect) {
    if let Expect::Version(version) = expect {
        *version = Version { birth: 0, count: 0 };
    }
}
