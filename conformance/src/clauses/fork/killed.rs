//! Killed while a child is built.

use turnkeep_core::commit::{Fence, LeaseGrant, Op, Takeover};
use turnkeep_core::model::{Entry, ForkKind, ForkOrigin, LeasePurpose, Profile, SessionRow, SessionState};
use turnkeep_core::query::SessionQuery;
use turnkeep_core::{EntryNo, ErrorKind, SessionRef};

use super::parent;
use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Books, Moment};
use crate::kit::{Kit, fence_of, name, no, user};
use crate::verdict::{Outcome, Stop};

/// Entries of the parent beside those of a small one: some slices of a copy.
const ENTRIES: u32 = 1_200;
/// What a slice copies.
const SLICE: u32 = 1_000;
/// Lines that a builder says: beginning, two slices, seal.
const LINES: u64 = 8;

async fn source(kit: &Kit) -> Outcome<SessionRef> {
    let session = parent(kit).await?;
    kit.append(&session, (0..ENTRIES).map(|at| user(&format!("entry {at}"))).collect()).await?;
    Ok(session)
}

fn builder(cx: &Context, kit: &Kit, child: &SessionRef) -> LeaseGrant {
    LeaseGrant {
        purpose: LeasePurpose::Fork,
        takeover: Takeover::IfOwnerDead,
        ..kit.session_grant(child, cx.lease_ms())
    }
}

async fn head(kit: &Kit, session: &SessionRef) -> Outcome<EntryNo> {
    let head = kit.row(session).await?.head;
    head.ok_or_else(|| Stop::fail("the parent of a fork is empty"))
}

/// Copies what the child lacks, and seals it.
async fn build(kit: &Kit, from: &SessionRef, child: &SessionRef, fence: &Fence, aloud: bool) -> Outcome {
    let say = |what: fn(&str) -> Outcome, step: &str| if aloud { what(step) } else { Ok(()) };
    let (last, mut after) = (head(kit, from).await?, being_built(kit, child).await?.and_then(|row| row.head));
    while after != Some(last) {
        let done = after.map_or(0, EntryNo::get);
        let through = no(last.get().min(done + SLICE));
        say(crash::begin, &format!("through {through}"))?;
        let slice = Op::CopyEntries { from: from.clone(), to: child.clone(), after, through };
        kit.apply(kit.commit().fence(fence.clone()).op(slice)).await?;
        say(crash::done, &format!("through {through}"))?;
        after = Some(through);
    }
    say(crash::begin, "seal")?;
    kit.seal(child, fence, kit.row(from).await?.path.leaf).await?;
    say(crash::done, "seal")
}

/// Forks the parent into a child that is called like the role.
pub(super) fn fork<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let from = kit.there("parent").await?;
        let (child, at) = (kit.life(role), head(&kit, &from).await?);
        let mut new = kit.new_session(&child);
        let origin = ForkOrigin { kind: ForkKind::Session, boundary: at, seed_length: at.get() };
        new.profile = Profile { parent: Some(from.id.clone()), fork: Some(origin), ..Profile::default() };
        new.state = SessionState::Restoring;
        let grant = builder(cx, &kit, &child);
        crash::begin("child")?;
        let begun = kit.commit().op(Op::CreateSession(new)).op(Op::AcquireLease(grant.clone()));
        let receipt = kit.apply(begun).await?;
        crash::done("child")?;
        build(&kit, &from, &child, &fence_of(&grant, receipt.outcomes.get(1))?, true).await
    })
}

async fn being_built(kit: &Kit, child: &SessionRef) -> Outcome<Option<SessionRow>> {
    let query = SessionQuery { state: SessionState::Restoring, ..kit.list() };
    Ok(kit.sessions(query).await?.into_iter().find(|row| row.id == child.id))
}

/// Smoke: 3 kills, full: one after each of 8 lines and as many at calls of the engine, soak: 30 of each.
pub(super) async fn frk_005_a_kill_leaves_no_half_child(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let from = source(&kit).await?;
    let entries = kit.walk(kit.every_entry(&from)).await?;
    let row = kit.row(&from).await?;
    cx.leave(kit).await?;
    let (rounds, every) = cx.scaled((1, 3), (2, 1), (60, 1));
    for round in 0..rounds {
        for line in (0..LINES).step_by(every) {
            let at = Moment::line(usize::try_from(line).unwrap_or(0));
            let call = cx.pick("FRK-005", round * LINES + line, 200);
            let moment = if round % 2 == 0 { at } else { at.or_call(call) };
            let id = format!("child-{round}-{line}");
            let books = cx.killed(&id, moment).await?;
            let kit = cx.kit().await?;
            left(cx, &kit, &from, &id, &books, &entries).await?;
            ensure_eq!(kit.row(&from).await?, row, "the parent's row after a fork of it was killed");
            cx.leave(kit).await?;
        }
    }
    let kit = cx.kit().await?;
    ensure_eq!(kit.walk(kit.every_entry(&from)).await?, entries, "the parent's entries after all forks");
    Ok(())
}

/// What a killed builder left: a whole child, or one that nobody sees, that can be gone on with or removed.
async fn left(
    cx: &Context,
    kit: &Kit,
    from: &SessionRef,
    id: &str,
    books: &Books,
    entries: &[Entry],
) -> Outcome {
    if let Some(child) = kit.find(id).await? {
        ensure!(books.is_begun("seal"), "a child is seen that was never sealed");
        let seen = kit.walk(kit.every_entry(&child.session_ref())).await?;
        ensure_eq!(seen, entries, "the entries of a child that was sealed before the kill");
        cx.count("sealed before the kill", 1);
        return Ok(());
    }
    ensure!(!books.is_done("seal"), "a child that was sealed is not there after the kill");
    ensure!(!kit.ids(kit.list()).await?.iter().any(|seen| seen == id), "an unfinished child is in the list");
    let unfinished = being_built(kit, &kit.life(id)).await?;
    let Some(unfinished) = unfinished else {
        ensure!(!books.is_done("child"), "a child that was begun is gone after the kill");
        kit.create(id).await?;
        return Ok(());
    };
    let child = unfinished.session_ref();
    ensure_refused!(
        kit.store.entries(&kit.every_entry(&child)).await,
        ErrorKind::NotFound,
        "the entries of an unfinished child"
    );
    let copied = unfinished.head.map_or(0, EntryNo::get);
    for of in books.done.iter().filter_map(|done| done.strip_prefix("through ")) {
        ensure!(
            of.parse::<u32>().is_ok_and(|of| of <= copied),
            "a slice through {of} was copied, and is gone"
        );
    }
    if !cx.manifest.capabilities.owner_liveness {
        cx.pass_ms(cx.lease_ms() + 1).await;
    }
    let grant = builder(cx, kit, &child);
    let taken = kit.commit().op(Op::AcquireLease(grant.clone()));
    if books.done.len().is_multiple_of(2) {
        let fence = fence_of(&grant, kit.apply(taken).await?.outcomes.first())?;
        build(kit, from, &child, &fence, false).await?;
        let seen = kit.walk(kit.every_entry(&child)).await?;
        ensure_eq!(seen, entries, "the entries of a child that two builders made");
        cx.count("taken over", 1);
    } else {
        kit.apply(taken.op(Op::DeleteSession { session: child.clone(), force: false })).await?;
        ensure!(being_built(kit, &child).await?.is_none(), "a child that was removed is still being built");
        let again = kit.create(id).await?;
        ensure_eq!(
            kit.walk(kit.every_entry(&again)).await?.len(),
            0,
            "entries under the id that is free again"
        );
        ensure!(
            kit.find_run(&again, name::<turnkeep_core::RunId>("r1").as_str()).await?.is_none(),
            "a run of it"
        );
        cx.count("removed", 1);
    }
    Ok(())
}
