//! Exclusive and shared work: what needs the lease of a session, and what does not.

use turnkeep_core::commit::{Commit, NewEvent, Op, Put, RunPatch, SessionPatch};
use turnkeep_core::model::{LeaseState, RunState, RunStates, Usage};
use turnkeep_core::{ErrorKind, Expect, SessionRef};

use crate::context::Context;
use crate::kit::{Kit, event, name, put, run, user};
use crate::verdict::{Outcome, Stop};

/// Work that only a holder does, and work that anybody may do, which a lost fence refuses too.
pub(super) fn fenced_work(kit: &Kit, session: &SessionRef) -> Vec<Commit> {
    let mut work: Vec<Commit> = exclusive_ops(session).into_iter().map(|op| kit.commit().op(op)).collect();
    work.push(kit.commit().op(Op::PutRecord(put("c", "k", "1"))));
    work.push(kit.commit().op(Op::PatchSession { session: session.clone(), patch: pinning() }));
    work
}

fn pinning() -> SessionPatch {
    SessionPatch { pinned: Some(true), ..SessionPatch::default() }
}

fn owned(session: &SessionRef, collection: &str) -> Op {
    Op::PutRecord(Put { owner: Some(session.clone()), ..put(collection, "k", "1") })
}

fn events(session: &SessionRef, stream: &str, events: Vec<NewEvent>) -> Op {
    Op::AppendEvents { session: session.clone(), stream: name(stream), expect_next: None, events }
}

fn dropping(session: &SessionRef, stream: &str) -> Op {
    Op::DropEvents { session: session.clone(), stream: name(stream), through: None, close: true }
}

fn unput(session: &SessionRef, collection: &str) -> Op {
    let owner = Some(session.clone());
    Op::DeleteRecord { collection: name(collection), key: name("k"), owner, expect: Expect::Any }
}

/// What only the holder may do, as the specification lists it. Runs `old` (failed) and `new` are those of
/// [`worked_on`].
fn exclusive_ops(session: &SessionRef) -> Vec<Op> {
    let s = || session.clone();
    let usage = Usage { requests: 1, ..Usage::default() };
    let failed = Op::TransitionRun {
        session: s(),
        run: name("old"),
        from: RunStates::ALL,
        to: RunState::Failed,
        error: None,
    };
    let mut ops = vec![
        Op::Append { session: s(), entries: vec![user("x")] },
        Op::MoveLeaf { session: s(), to: None },
        Op::StartRun { session: s(), run: run("another") },
        failed,
        Op::ReopenRun { session: s(), run: name("old") },
        Op::PatchRun {
            session: s(),
            run: name("old"),
            patch: RunPatch { model: Some(None), ..RunPatch::default() },
        },
        Op::AddUsage { session: s(), run: None, usage },
        Op::DeleteSession { session: s(), force: false },
    ];
    for stream in ["runs", "response-items", "usage", "partial/t"] {
        ops.push(events(session, stream, vec![event("x", 1)]));
        ops.push(dropping(session, stream));
    }
    for collection in ["intents", "tool-claims", "lineage", "response-runs", "response-turns"] {
        ops.push(owned(session, collection));
        ops.push(unput(session, collection));
    }
    ops
}

/// What anybody may do while a session is held.
fn shared_ops(session: &SessionRef) -> Vec<Op> {
    let mut ops = vec![
        Op::PatchSession { session: session.clone(), patch: pinning() },
        Op::PutRecord(put("intents", "free", "1")),
    ];
    for collection in
        ["guidance", "approvals", "cancel-requests", "bindings", "projects", "capabilities", "a host's own"]
    {
        ops.push(owned(session, collection));
        ops.push(unput(session, collection));
    }
    for stream in ["capabilities", "a host's own", "runs of the host"] {
        ops.push(events(session, stream, vec![event("x", 1)]));
        ops.push(dropping(session, stream));
    }
    ops
}

/// A session that has something for each exclusive op to work on.
async fn worked_on(kit: &Kit, id: &str) -> Outcome<SessionRef> {
    let session = kit.create(id).await?;
    kit.append(&session, vec![user("one"), user("two")]).await?;
    kit.start(&session, run("old")).await?;
    kit.apply(kit.commit().op(kit.moving(&session, &name("old"), RunState::Failed))).await?;
    for collection in ["intents", "tool-claims", "lineage", "response-runs", "response-turns"] {
        let own = Put { owner: Some(session.clone()), ..put(collection, "k", "0") };
        kit.put(own).await?;
    }
    Ok(session)
}

pub(super) async fn lea_004_exclusive_work_needs_the_lease_and_shared_work_does_not(cx: &Context) -> Outcome {
    let ttl = cx.lease_ms();
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = worked_on(&kit, "s").await?;
    let held = kit.acquire(&session, 600_000).await?;
    let before = kit.snapshot().await?;
    for client in [&kit, &other] {
        for op in exclusive_ops(&session) {
            let what = format!("{op:?}");
            client.refused(client.commit().op(op), ErrorKind::LeaseHeld).await?;
            kit.unchanged(&before, &what).await?;
        }
    }
    let lease = kit.lease(&session).await?;
    for op in shared_ops(&session) {
        other.apply(other.commit().op(op)).await?;
    }
    ensure_eq!(kit.lease(&session).await?, lease, "the lease after shared work");
    kit.apply(kit.appending(&session, vec![user("three")]).fence(held.clone())).await?;
    // Several sessions in one commit: the fence of one is no fence of the other.
    let free = kit.create("free").await?;
    let both = |fence: &turnkeep_core::Fence| {
        kit.appending(&free, vec![user("x")])
            .op(Op::Append { session: session.clone(), entries: vec![user("y")] })
            .fence(fence.clone())
    };
    let of_free = kit.acquire(&free, 600_000).await?;
    kit.refused(both(&of_free), ErrorKind::LeaseHeld).await?;
    kit.release(&of_free).await?;
    kit.apply(both(&held)).await?;
    kit.release(&held).await?;
    other.apply(other.appending(&session, vec![user("free again")])).await?;

    for (at, op) in (0..).zip(exclusive_ops(&session)) {
        let kit = kit.in_workspace(&format!("expired {at}"));
        let session = worked_on(&kit, "s").await?;
        let held = kit.acquire(&session, ttl).await?;
        cx.pass_ms(if at == 0 || cx.clock().is_some() { ttl + 1 } else { 0 }).await;
        if cx.clock().is_none() && at > 0 {
            // Without a clock to set, one real expiry has to do for all.
            break;
        }
        let op = on(op, &session);
        let deletes = matches!(op, Op::DeleteSession { .. });
        // A run that moves on is a state of its own; here only the lease matters.
        let expected = match &op {
            Op::TransitionRun { .. } => Some(ErrorKind::RunState),
            _ => None,
        };
        let answer = other.store.commit(kit.commit().op(op.clone())).await;
        match expected {
            Some(kind) => {
                ensure_refused!(answer, kind, "{op:?} over an expired lease");
                kit.apply(kit.appending(&session, vec![user("mine still")]).fence(held)).await?;
            }
            None => {
                answer.map_err(|error| {
                    Stop::fail(format!("{op:?} over an expired lease was refused: {error}"))
                })?;
                kit.refused(kit.appending(&session, vec![user("late")]).fence(held), ErrorKind::LeaseLost)
                    .await?;
                if !deletes {
                    let view = kit.lease(&session).await?.map(|view| (view.state, view.epoch));
                    ensure_eq!(view, Some((LeaseState::Released, 2)), "the lease after {op:?} over it");
                }
            }
        }
    }

    let kit = kit.in_workspace("active");
    let session = worked_on(&kit, "s").await?;
    kit.start(&session, run("new")).await?;
    let held = kit.acquire(&session, ttl).await?;
    cx.expire(ttl).await;
    let before = kit.snapshot().await?;
    for op in exclusive_ops(&session) {
        let what = format!("{op:?} over an expired lease while a run is active");
        other.refused(kit.commit().op(op), ErrorKind::ActiveRun).await?;
        kit.unchanged(&before, &what).await?;
    }
    for op in shared_ops(&session) {
        other.store.commit(kit.commit().op(op)).await?;
    }
    kit.apply(kit.appending(&session, vec![user("the holder goes on")]).fence(held)).await?;
    Ok(())
}

/// The same op on another session.
fn on(mut op: Op, target: &SessionRef) -> Op {
    match &mut op {
        Op::Append { session, .. }
        | Op::MoveLeaf { session, .. }
        | Op::StartRun { session, .. }
        | Op::TransitionRun { session, .. }
        | Op::ReopenRun { session, .. }
        | Op::PatchRun { session, .. }
        | Op::AddUsage { session, .. }
        | Op::DeleteSession { session, .. }
        | Op::AppendEvents { session, .. }
        | Op::DropEvents { session, .. } => *session = target.clone(),
        Op::PutRecord(put) => put.owner = Some(target.clone()),
        Op::DeleteRecord { owner, .. } => *owner = Some(target.clone()),
        _ => {}
    }
    op
}
