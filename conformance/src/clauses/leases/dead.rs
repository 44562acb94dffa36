//! LEA-007: owners that went away.

use turnkeep_core::ErrorKind;
use turnkeep_core::commit::{LeaseGrant, Op, Takeover};
use turnkeep_core::model::{LeasePurpose, RunState};

use super::{epoch_of, taking};
use crate::context::Context;
use crate::kit::{Kit, name, run, user};
use crate::verdict::Outcome;

pub(super) async fn lea_007_a_dead_owner_is_known_at_once(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (taken, free) = (kit.create("taken").await?, kit.create("free").await?);
    let gone = cx.kit().await?;
    let fence = gone.acquire(&taken, 86_400_000).await?;
    let started = Op::StartRun { session: taken.clone(), run: run("r") };
    gone.apply(gone.appending(&taken, vec![user("left")]).fence(fence.clone()).op(started)).await?;
    gone.acquire(&free, 86_400_000).await?;
    kit.refused(kit.appending(&free, vec![user("x")]), ErrorKind::LeaseHeld).await?;
    cx.leave(gone).await?;

    kit.apply(kit.appending(&free, vec![user("at once")])).await?;
    kit.refused(kit.appending(&taken, vec![user("x")]), ErrorKind::ActiveRun).await?;
    let grant = LeaseGrant {
        takeover: Takeover::IfOwnerDead,
        purpose: LeasePurpose::Recovery,
        ..kit.session_grant(&taken, cx.lease_ms())
    };
    let recovery = kit.acquire_as(grant).await?;
    ensure_eq!(recovery.epoch, fence.epoch + 1, "the epoch of the recovery");
    let close = kit.moving(&taken, &name("r"), RunState::Interrupted);
    kit.apply(kit.commit().fence(recovery.clone()).op(close)).await?;
    kit.release(&recovery).await?;
    kit.say(&taken, "goes on").await?;
    ensure_eq!(kit.texts(&taken).await?, ["left", "goes on"], "the recovered session");
    within_one_commit(cx, &kit).await
}

/// Who is dead and who lives, for the rest of a commit that changes the lease: whoever takes one lives, and a dead
/// owner's lease that another handle renews for it is still that of a dead owner.
async fn within_one_commit(cx: &Context, kit: &Kit) -> Outcome {
    let session = kit.create("within").await?;
    let gone = cx.kit().await?;
    let fence = gone.acquire(&session, 86_400_000).await?;
    cx.leave(gone).await?;
    kit.until_dead(&session).await?;
    let heir = || LeaseGrant { takeover: Takeover::IfOwnerDead, ..kit.session_grant(&session, 86_400_000) };
    let twice = taking(kit, heir()).op(Op::AcquireLease(heir()));
    kit.refused(twice, ErrorKind::LeaseHeld).await?;
    let renewed = kit.commit().op(Op::RenewLease { fence: fence.clone(), ttl_ms: 86_400_000 });
    kit.apply(renewed.op(Op::AcquireLease(heir()))).await?;
    ensure_eq!(
        epoch_of(kit, &fence.name).await?,
        fence.epoch + 1,
        "the epoch after a renewal for a dead owner and a takeover"
    );
    Ok(())
}
