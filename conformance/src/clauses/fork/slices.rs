//! A child is copied in slices, and nothing else happens to source and child on the way.

use turnkeep_core::commit::{Fence, NewEntry, Op, Parent, RunPatch};
use turnkeep_core::model::{Entry, Profile, Row, RunState, SessionState};
use turnkeep_core::query::{EntryQuery, PathTo, SessionQuery};
use turnkeep_core::{Commit, EntryNo, ErrorKind, SessionRef};

use crate::context::Context;
use crate::kit::{Kit, name, no, payload, run, user};
use crate::verdict::{Outcome, Stop};

/// A source with two branches: 1 2 3, and 4 5 after 1.
async fn branched(kit: &Kit, id: &str) -> Outcome<SessionRef> {
    let session = kit.create(id).await?;
    kit.append(&session, vec![user("one"), user("two"), user("three")]).await?;
    let branch = NewEntry { parent: Parent::Number(no(1)), ..user("four") };
    kit.append(&session, vec![branch, user("five")]).await?;
    Ok(session)
}

/// What the child has so far, as its builder sees it.
async fn so_far(kit: &Kit, child: &SessionRef) -> Outcome<Option<EntryNo>> {
    let building = SessionQuery { state: SessionState::Restoring, ..kit.list() };
    let row = kit.sessions(building).await?.into_iter().find(|row| row.id == child.id);
    row.map(|row| row.head).ok_or_else(|| Stop::fail("the child is not listed as being built"))
}

async fn path(kit: &Kit, session: &SessionRef, to: PathTo) -> Outcome<Vec<u32>> {
    let query = EntryQuery { path: Some(to), ..kit.every_entry(session) };
    Ok(kit.walk(query).await?.iter().map(|entry| entry.number.get()).collect())
}

pub(super) async fn frk_008_a_child_is_copied_slice_after_slice_from_one_source(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (source, other) = (branched(&kit, "source").await?, branched(&kit, "other").await?);
    let (child, fence) = kit.begin_restore("child", Profile::default()).await?;
    let slice = |from: &SessionRef, after: Option<u32>, through: u32| Op::CopyEntries {
        from: from.clone(),
        to: child.clone(),
        after: after.map(no),
        through: no(through),
    };
    let mine = || -> Commit { kit.commit().fence(fence.clone()) };
    let append = Op::Append { session: source.clone(), entries: vec![user("six")] };
    // A child that one commit fills and puts into use, and then forks in turn.
    let (middle, begun) = kit.begin_restore("middle", Profile::default()).await?;
    let whole = Op::CopyEntries { from: source.clone(), to: middle.clone(), after: None, through: no(5) };
    let digest = turnkeep_core::rules::copied(&source, no(5));
    let sealed = Op::SealSession { session: middle.clone(), leaf: Some(no(5)), rows: 5, digest };
    let (grandchild, also) = kit.begin_restore("grandchild", Profile::default()).await?;
    let onward = Op::CopyEntries { from: middle, to: grandchild, after: None, through: no(5) };
    let forked_on = mine().fence(begun).fence(also).op(whole).op(sealed).op(onward);
    let delete = Op::DeleteSession { session: source.clone(), force: true };
    kit.apply(mine().op(slice(&source, None, 2))).await?;

    let first = kit.walk(kit.every_entry(&source)).await?.into_iter().next();
    let third = Entry { number: no(4), ..first.ok_or_else(|| Stop::fail("the source has no entries"))? };
    let exact = Op::Restore { session: child.clone(), rows: vec![Row::Entry(third)] };
    let refused = [
        ("a slice from the beginning again", mine().op(slice(&source, None, 3)), ErrorKind::StaleLeaf),
        ("a slice that begins too early", mine().op(slice(&source, Some(1), 3)), ErrorKind::StaleLeaf),
        ("a slice that leaves an entry out", mine().op(slice(&source, Some(3), 4)), ErrorKind::StaleLeaf),
        ("a slice of another source", mine().op(slice(&other, Some(2), 3)), ErrorKind::Invalid),
        (
            "a slice of what the commit appends",
            mine().op(append.clone()).op(slice(&source, Some(2), 3)),
            ErrorKind::Invalid,
        ),
        (
            "a slice of what the commit goes on to append to",
            mine().op(slice(&source, Some(2), 3)).op(append),
            ErrorKind::Invalid,
        ),
        (
            "a slice of what the commit goes on to delete",
            mine().op(slice(&source, Some(2), 3)).op(delete),
            ErrorKind::Invalid,
        ),
        ("a slice of what the commit copies", forked_on, ErrorKind::Invalid),
        (
            "an exact row after a slice in one commit",
            mine().op(slice(&source, Some(2), 3)).op(exact),
            ErrorKind::Invalid,
        ),
    ];
    let before = kit.snapshot().await?;
    for (what, commit, kind) in refused {
        ensure_refused!(kit.store.commit(commit).await, kind, "{what}");
        ensure_eq!(so_far(&kit, &child).await?, Some(no(2)), "the head of the child after {what}");
        kit.unchanged(&before, what).await?;
    }
    sealed_with_its_last_slice(&kit, &source, &child, &fence).await
}

/// The last slice and the seal may share a commit, and the leaf may lie in what that slice brings.
async fn sealed_with_its_last_slice(
    kit: &Kit,
    source: &SessionRef,
    child: &SessionRef,
    fence: &Fence,
) -> Outcome {
    let slice = |after: u32, through: u32| Op::CopyEntries {
        from: source.clone(),
        to: child.clone(),
        after: Some(no(after)),
        through: no(through),
    };
    let seal = |leaf: u32, rows: u32| Op::SealSession {
        session: child.clone(),
        leaf: Some(no(leaf)),
        rows: rows.into(),
        digest: turnkeep_core::rules::copied(source, no(rows)),
    };
    let mine = || kit.commit().fence(fence.clone());
    kit.refused(mine().op(slice(2, 5)).op(seal(6, 5)), ErrorKind::NotFound).await?;
    // Its source has the entry, it has not.
    kit.refused(mine().op(slice(2, 4)).op(seal(5, 4)), ErrorKind::NotFound).await?;
    arrives_interrupted(kit, source).await?;
    let whole = mine().op(slice(2, 4)).op(slice(4, 5)).op(seal(4, 5));
    kit.apply(whole.op(Op::ReleaseLease { fence: fence.clone() })).await?;
    ensure_eq!(
        kit.walk(kit.every_entry(child)).await?,
        kit.walk(kit.every_entry(source)).await?,
        "the entries of the child"
    );
    ensure_eq!(path(kit, child, PathTo::Leaf).await?, [1, 4], "the path of the leaf that the seal named");
    ensure_eq!(kit.say(child, "goes on").await?, no(6), "the next number of the child");
    ensure_eq!(path(kit, child, PathTo::Leaf).await?, [1, 4, 6], "the path after the child went on");
    for (end, expected) in [(3, vec![1, 2, 3]), (5, vec![1, 4, 5])] {
        ensure_eq!(
            path(kit, child, PathTo::Entry(no(end))).await?,
            expected,
            "the path of {end} in the child"
        );
    }
    Ok(())
}

/// A run that became active after the first slice is nobody's in the child: its later entries bring it along, ended.
async fn arrives_interrupted(kit: &Kit, of: &SessionRef) -> Outcome {
    let source = kit.fork(of, "with a run", no(4)).await?;
    kit.start(&source, run("over")).await?;
    kit.append(&source, vec![NewEntry { run: Some(name("over")), ..user("five") }]).await?;
    kit.apply(kit.commit().op(kit.moving(&source, &name("over"), RunState::Completed))).await?;
    let (child, fence) = kit.begin_restore("child of a run", Profile::default()).await?;
    let slice = |after: Option<u32>, through: u32| Op::CopyEntries {
        from: source.clone(),
        to: child.clone(),
        after: after.map(no),
        through: no(through),
    };
    kit.apply(kit.commit().fence(fence.clone()).op(slice(None, 5))).await?;
    kit.start(&source, run("r")).await?;
    let of_run = |text: &str| NewEntry { run: Some(name("r")), ..user(text) };
    kit.append(&source, vec![of_run("six"), of_run("seven")]).await?;
    // Two slices bring it, and it comes once.
    for after in [5, 6] {
        kit.apply(kit.commit().fence(fence.clone()).op(slice(Some(after), after + 1))).await?;
    }
    kit.seal(&child, &fence, Some(no(7))).await?;
    let runs: Vec<_> = kit.runs(kit.runs_of(&child)).await?.into_iter().map(|run| run.id).collect();
    ensure_eq!(runs, [name("over"), name("r")], "runs of the child");
    let seen =
        kit.find_run(&child, "r").await?.map(|run| (run.state, run.finished_at == Some(run.updated_at)));
    ensure_eq!(seen, Some((RunState::Interrupted, true)), "a run that was active, in the child");
    ensure_eq!(kit.row(&child).await?.active_run, None, "the active run of the child");
    let own = kit.find_run(&source, "r").await?.map(|run| run.state);
    ensure_eq!(own, Some(RunState::Running), "the run at its source");
    kit.start(&child, run("of its own")).await?;
    stays_as_it_came(kit, &source).await
}

/// A run that a slice brought is as it was then, also when a later slice names it again and its source went on with it.
async fn stays_as_it_came(kit: &Kit, source: &SessionRef) -> Outcome {
    kit.apply(kit.commit().op(kit.moving(source, &name("r"), RunState::Completed))).await?;
    let (child, fence) = kit.begin_restore("child of a run that went on", Profile::default()).await?;
    let slice = |after: Option<u32>, through: u32| {
        let op = Op::CopyEntries {
            from: source.clone(),
            to: child.clone(),
            after: after.map(no),
            through: no(through),
        };
        kit.commit().fence(fence.clone()).op(op)
    };
    kit.apply(slice(None, 6)).await?;
    let came = kit.find_run(source, "r").await?.map(|run| (run.state, run.progress));
    let progress = RunPatch { progress: Some(Some(payload("\"more\""))), ..RunPatch::default() };
    let patch = Op::PatchRun { session: source.clone(), run: name("r"), patch: progress };
    kit.apply(kit.commit().op(patch)).await?;
    kit.append(source, vec![NewEntry { run: Some(name("r")), ..user("seven") }]).await?;
    kit.apply(slice(Some(6), 7)).await?;
    kit.seal(&child, &fence, Some(no(7))).await?;
    let seen = kit.find_run(&child, "r").await?.map(|run| (run.state, run.progress));
    ensure_eq!(seen, came, "a run that an earlier slice brought");
    Ok(())
}
