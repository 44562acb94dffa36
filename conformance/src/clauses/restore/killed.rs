//! Killed while a copy is made, and while it is purged, again and again: the end is the same as without.

use turnkeep_core::commit::{Fence, LeaseGrant, NewSession, Op, Takeover};
use turnkeep_core::model::{LeasePurpose, SessionRow, SessionState};
use turnkeep_core::query::SessionQuery;
use turnkeep_core::rules::fold_row;
use turnkeep_core::{EntryNo, SessionRef};

use super::copy::{same_reads, source};
use super::count_rows;
use crate::clause::Running;
use crate::context::Context;
use crate::crash;
use crate::kit::{Kit, fence_of, note};
use crate::verdict::{Outcome, Stop};

/// Entries beside those that show everything.
const ENTRIES: usize = 1_100;
/// Rows of a slice.
const SLICE: usize = 150;

async fn being_built(kit: &Kit) -> Outcome<Option<SessionRow>> {
    let query = SessionQuery { state: SessionState::Restoring, ..kit.list() };
    Ok(kit.sessions(query).await?.into_iter().next())
}

fn builder(cx: &Context, kit: &Kit, session: &SessionRef) -> LeaseGrant {
    LeaseGrant {
        purpose: LeasePurpose::Fork,
        takeover: Takeover::IfOwnerDead,
        ..kit.session_grant(session, cx.lease_ms())
    }
}

/// Begins a copy, or takes over from whoever died at it.
async fn begin(cx: &Context, copy: &Kit) -> Outcome<(SessionRef, Fence)> {
    let Some(row) = being_built(copy).await? else {
        let session = copy.life("source");
        let new = NewSession { state: SessionState::Restoring, ..copy.new_session(&session) };
        let grant = builder(cx, copy, &session);
        let begun = copy.commit().op(Op::CreateSession(new)).op(Op::AcquireLease(grant.clone()));
        let receipt = copy.apply(begun).await?;
        return Ok((session, fence_of(&grant, receipt.outcomes.get(1))?));
    };
    if !cx.manifest.capabilities.owner_liveness {
        cx.pass_ms(cx.lease_ms() + 1).await;
    }
    let session = row.session_ref();
    let grant = builder(cx, copy, &session);
    let receipt = copy.apply(copy.commit().op(Op::AcquireLease(grant.clone()))).await?;
    Ok((session, fence_of(&grant, receipt.outcomes.first())?))
}

/// Copies the source row by row into another workspace, from where the last one died.
async fn copy_rows(cx: &Context, kit: &Kit, copy: &Kit, aloud: bool) -> Outcome {
    let say = |what: fn(&str) -> Outcome, step: &str| if aloud { what(step) } else { Ok(()) };
    if copy.find("source").await?.is_some() {
        return Ok(());
    }
    let from = kit.there("source").await?;
    let rows = kit.rows(kit.rows_of(&from)).await?;
    let digest = rows.iter().fold([0; 32], |digest, row| fold_row(&digest, row));
    say(crash::begin, "copy")?;
    let (session, fence) = begin(cx, copy).await?;
    say(crash::done, "copy")?;
    let state = being_built(copy).await?.and_then(|row| row.restore).unwrap_or_default();
    let copied = usize::try_from(state.rows).unwrap_or(usize::MAX);
    let (before, rest) = rows
        .split_at_checked(copied)
        .ok_or_else(|| Stop::fail(format!("{copied} rows were copied of {}", rows.len())))?;
    let so_far = before.iter().fold([0; 32], |digest, row| fold_row(&digest, row));
    ensure_eq!(state.digest, so_far, "the digest of the {copied} rows that a dead builder copied");
    for (at, slice) in (1..).zip(rest.chunks(SLICE)) {
        let through = (copied + at * SLICE).to_string();
        say(crash::begin, &through)?;
        let op = Op::Restore { session: session.clone(), rows: slice.to_vec() };
        copy.apply(copy.commit().fence(fence.clone()).op(op)).await?;
        say(crash::done, &through)?;
    }
    say(crash::begin, "seal")?;
    // Count and digest are those of a run that nothing disturbed: else the store refuses.
    let leaf: Option<EntryNo> = kit.row(&from).await?.path.leaf;
    let seal = Op::SealSession { session: session.clone(), leaf, rows: rows.len() as u64, digest };
    copy.apply(copy.commit().fence(fence.clone()).op(seal).op(Op::ReleaseLease { fence })).await?;
    say(crash::done, "seal")
}

async fn purge(kit: &Kit) -> Outcome {
    let maintenance = kit.store.maintenance();
    let maintenance = maintenance.ok_or_else(|| Stop::fail("a store that deletes must offer a purge"))?;
    maintenance.purge().await.map(drop).map_err(Stop::from)
}

/// Copies, or deletes the copy and purges it, as the role says.
pub(super) fn resume<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let copy = kit.in_workspace("copy");
        if role == "copy" {
            return copy_rows(cx, &kit, &copy, true).await;
        }
        if let Some(row) = copy.find("source").await? {
            copy.delete(&row.session_ref()).await?;
        }
        crash::begin("purge")?;
        purge(&kit).await?;
        crash::done("purge")
    })
}

/// Smoke: one copy, killed up to 3 times, and its purge, up to 2 times; full: 3 copies, each killed up to 6 times and
/// 4 times in its purge; soak: 60.
pub(super) async fn rst_003_a_kill_while_copying_or_purging_ends_the_same(cx: &Context) -> Outcome {
    let (rounds, copying, purging) = cx.scaled((1, 3, 2), (3, 6, 4), (60, 6, 4));
    let kit = cx.kit().await?;
    let from = source(&kit).await?;
    kit.append(&from, (0..ENTRIES).map(|at| note(&format!("note {at}"))).collect()).await?;
    // What the first use of a workspace leaves for good is no residue.
    let copy = kit.in_workspace("copy");
    copy_rows(cx, &kit, &copy, false).await?;
    let calm = copy.there("source").await?;
    same_reads(&kit, &from, &copy, &calm).await?;
    copy.delete(&calm).await?;
    purge(&kit).await?;
    let tables = count_rows(cx).await?;
    drop(copy);
    cx.leave(kit).await?;
    for round in 0..rounds {
        for kill in 0..copying {
            cx.killed("copy", cx.moment("RST-003 copy", round * copying + kill, 9)).await?;
        }
        let kit = cx.kit().await?;
        let copy = kit.in_workspace("copy");
        copy_rows(cx, &kit, &copy, false).await?;
        let copied = copy.there("source").await?;
        same_reads(&kit, &from, &copy, &copied).await?;
        drop(copy);
        cx.leave(kit).await?;
        for kill in 0..purging {
            cx.killed("purge", cx.moment("RST-003 purge", round * purging + kill, 1)).await?;
        }
        let kit = cx.kit().await?;
        let copy = kit.in_workspace("copy");
        if let Some(row) = copy.find("source").await? {
            copy.delete(&row.session_ref()).await?;
        }
        purge(&kit).await?;
        ensure_eq!(
            count_rows(cx).await?,
            tables,
            "rows of all tables after copies and purges that were killed"
        );
        drop(copy);
        cx.leave(kit).await?;
    }
    Ok(())
}
