//! Forks: a child begins with exactly a prefix, and from then on neither knows the other.

mod killed;
mod slices;

use std::time::Duration;

use turnkeep_core::commit::{Fence, NewEntry, Op, Parent};
use turnkeep_core::model::{ForkKind, ForkOrigin, Profile, RunState, SessionState, Visibility};
use turnkeep_core::query::{EntryQuery, PathTo, SessionQuery};
use turnkeep_core::{Durability, EntryNo, ErrorKind, ForkReason, SessionRef};

use crate::clause::Kind;
use crate::context::Context;
use crate::kit::{Kit, keyed, name, no, note, put, run, user};
use crate::verdict::Outcome;
use killed::frk_005_a_kill_leaves_no_half_child;
use slices::frk_008_a_child_is_copied_slice_after_slice_from_one_source;

clauses! { ($) fork_tests;
    "FRK-001" frk_001_a_fork_is_exactly_the_prefix {
        title: "A fork holds exactly the entries up to its boundary, with their numbers, keys, branches and bytes, and the verdicts of the runs that they name.",
        why: "A child that misses or adds a word is another conversation.",
        catches: "a backend that copies one entry too many, or renumbers",
    }
    "FRK-002" frk_002_later_writes_of_the_parent_are_invisible {
        title: "What the parent writes after the fork is not seen in the child.",
        why: "A child that follows its parent answers questions it was never asked.",
        links: &["NousResearch/hermes-agent#77375"],
        catches: "a backend whose child reads through to the parent",
    }
    "FRK-003" frk_003_writes_of_the_child_are_invisible {
        title: "What a child writes is not seen in the parent, nor in another child.",
        why: "Trying something in a fork must be safe.",
        catches: "a backend whose children share rows",
    }
    "FRK-004" frk_004_a_child_outlives_its_parent {
        title: "A child is complete by itself: when the parent is deleted it keeps every entry, and the parent's id as text.",
        why: "Deleting one session must not take another along.",
        catches: "a backend that cascades over the lineage",
    }
    "FRK-005" frk_005_a_kill_leaves_no_half_child {
        title: "A kill while a fork is made leaves a whole child or none that anybody sees; what was begun can be taken over and finished, or removed, and the parent is as it was.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: Duration::from_secs(300),
        why: "Half a child looks like a conversation that took another course.",
        catches: "a backend that shows a child before it is sealed, or forgets that it is being built",
        peer: Some(killed::fork),
    }
    "FRK-006" frk_006_a_fork_of_an_active_session_is_refused {
        title: "A fork while a run is active, of an unknown session or beyond its head is refused with its reason, and the child gets nothing.",
        why: "A boundary inside a run may split a tool call from its result.",
        catches: "a backend that copies what is there, whatever its state",
    }
    "FRK-007" frk_007_a_chain_of_64_forks_is_exact {
        title: "A chain of 64 forks, each adding entries, reads exactly at every depth.",
        why: "Costs and mistakes of lineage show at depth only.",
        catches: "a backend that resolves ancestors recursively with a bound",
    }
    "FRK-008" frk_008_a_child_is_copied_slice_after_slice_from_one_source {
        title: "A child is copied from one source, slice after slice: one out of order, of another source, or of a session that the same commit changes or deletes is refused; the last slice and the seal may share a commit.",
        why: "Slices that do not fit together make a conversation that nobody had.",
        catches: "a backend that copies whatever slice it is asked for",
    }
}

/// A parent with a branch, a label, a key, a finished run and a failed one.
async fn parent(kit: &Kit) -> Outcome<SessionRef> {
    let session = kit.create("parent").await?;
    for (id, to) in [("r1", RunState::Completed), ("r2", RunState::Failed)] {
        kit.start(&session, run(id)).await?;
        let of_run = NewEntry { run: Some(name(id)), ..keyed(id, &format!("by {id}")) };
        kit.append(&session, vec![of_run, user("answer"), note("label")]).await?;
        kit.apply(kit.commit().op(kit.moving(&session, &name(id), to))).await?;
    }
    let branch = NewEntry { parent: Parent::Number(no(2)), ..user("branch") };
    kit.append(&session, vec![branch, user("on the branch")]).await?;
    Ok(session)
}

async fn path(kit: &Kit, session: &SessionRef) -> Outcome<Vec<u32>> {
    let query = EntryQuery { path: Some(PathTo::Leaf), ..kit.every_entry(session) };
    Ok(kit.walk(query).await?.iter().map(|entry| entry.number.get()).collect())
}

async fn frk_001_a_fork_is_exactly_the_prefix(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    // Another session speaks of a run of the same name; that brings no run into a child.
    let elder = kit.create("elder").await?;
    kit.append(&elder, vec![NewEntry { run: Some(name("r2")), ..user("of another") }]).await?;
    let source = parent(&kit).await?;
    let all = kit.walk(kit.every_entry(&source)).await?;
    let before = kit.rows(kit.rows_of(&source)).await?;
    for at in 1..=8_u32 {
        let child = kit.fork(&source, &format!("child {at}"), no(at)).await?;
        ensure_eq!(kit.walk(kit.every_entry(&child)).await?, all[..at as usize], "entries of a fork at {at}");
        let row = kit.row(&child).await?;
        ensure_eq!(row.state, SessionState::Active, "the state of a sealed fork");
        let origin = ForkOrigin { kind: ForkKind::Message, boundary: no(at), seed_length: at };
        ensure_eq!(row.profile.fork, Some(origin), "where a fork at {at} comes from");
        ensure_eq!(row.head, Some(no(at)), "the head of a fork at {at}");
        let messages = all[..at as usize].iter().filter(|entry| entry.kind.as_str() == "message").count();
        ensure_eq!(row.messages as usize, messages, "the message counter of a fork at {at}");
        ensure_eq!(row.preview.as_deref(), Some("by r1"), "the preview of a fork at {at}");
        let tip = all[..at as usize].iter().rfind(|entry| entry.on_path).map(|entry| entry.number);
        ensure_eq!(row.path.tip, tip, "the newest entry on a path, in a fork at {at}");
        let expected: &[(&str, RunState)] = match at {
            1..=3 => &[("r1", RunState::Completed)],
            _ => &[("r1", RunState::Completed), ("r2", RunState::Failed)],
        };
        let runs: Vec<_> =
            kit.runs(kit.runs_of(&child)).await?.into_iter().map(|run| (run.id, run.state)).collect();
        let expected: Vec<_> = expected.iter().map(|(id, state)| (name(id), *state)).collect();
        ensure_eq!(runs, expected, "runs of a fork at {at}");
        ensure_eq!(kit.say(&child, "goes on").await?, no(at + 1), "the next number of a fork at {at}");
        let taken = kit.appending(&child, vec![keyed("r1", "again")]);
        kit.refused(taken, ErrorKind::AlreadyExists).await?;
    }
    let child = kit.fork(&source, "whole", no(8)).await?;
    ensure_eq!(
        path(&kit, &child).await?,
        path(&kit, &source).await?,
        "the path of a fork of the whole session"
    );
    ensure_eq!(kit.rows(kit.rows_of(&source)).await?, before, "the parent after nine forks");
    // Where the parent has a branch, a child that ends before it goes straight on.
    let early = kit.fork(&source, "early", no(2)).await?;
    for number in 3..=9 {
        ensure_eq!(kit.say(&early, "goes on").await?, no(number), "the next number of a fork at 2");
    }
    ensure_eq!(path(&kit, &early).await?, (1..=9).collect::<Vec<_>>(), "the path of a fork that went on");
    // The preview shows what a person said first, also when the assistant spoke before.
    let greeted = kit.create("greeted").await?;
    let greeting = turnkeep_core::commit::NewEntry { role: Some(name("assistant")), ..user("good morning") };
    let wordless = NewEntry { text: None, ..user("") };
    let internal = NewEntry { visibility: Visibility::Internal, ..user("nobody reads this") };
    let custom = NewEntry { kind: name("custom"), ..user("no message") };
    kit.append(&greeted, vec![greeting, wordless, internal, custom, user("hello")]).await?;
    for (at, messages, preview) in
        [(1, 1, None), (2, 2, None), (3, 2, None), (4, 2, None), (5, 3, Some("hello"))]
    {
        let child = kit.fork(&greeted, &format!("greeted {at}"), no(at)).await?;
        let row = kit.row(&child).await?;
        ensure_eq!(row.preview.as_deref(), preview, "the preview of a fork at {at}");
        ensure_eq!(row.messages, messages, "the messages of a fork at {at}");
    }
    Ok(())
}

async fn frk_002_later_writes_of_the_parent_are_invisible(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let source = parent(&kit).await?;
    let child = kit.fork(&source, "child", no(6)).await?;
    let (row, rows) = (kit.row(&child).await?, kit.rows(kit.rows_of(&child)).await?);
    let entries = kit.walk(kit.every_entry(&child)).await?;
    kit.append(&source, vec![user("later"), keyed("later", "key")]).await?;
    kit.apply(kit.commit().op(Op::ReopenRun { session: source.clone(), run: name("r2") })).await?;
    kit.apply(kit.commit().op(kit.moving(&source, &name("r2"), RunState::Completed))).await?;
    kit.apply(kit.commit().op(Op::MoveLeaf { session: source.clone(), to: None })).await?;
    ensure_eq!(kit.row(&child).await?, row, "the child's row after the parent went on");
    let now = kit.walk(kit.every_entry(&child)).await?;
    ensure_eq!(now, entries, "the child's entries after the parent went on");
    ensure_eq!(kit.rows(kit.rows_of(&child)).await?, rows, "the child's rows after the parent went on");
    kit.append(&child, vec![keyed("later", "the child's own")]).await?;
    Ok(())
}

async fn frk_003_writes_of_the_child_are_invisible(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let source = parent(&kit).await?;
    let (one, two) = (kit.fork(&source, "one", no(6)).await?, kit.fork(&source, "two", no(6)).await?);
    let before = [kit.rows(kit.rows_of(&source)).await?, kit.rows(kit.rows_of(&two)).await?];
    kit.append(&one, vec![user("only here"), NewEntry { parent: Parent::Number(no(1)), ..user("branch") }])
        .await?;
    kit.start(&one, run("r3")).await?;
    let mut owned = put("c", "k", "1");
    owned.owner = Some(one.clone());
    kit.put(owned).await?;
    kit.apply(kit.commit().op(Op::DeleteSession { session: one.clone(), force: true })).await?;
    let after = [kit.rows(kit.rows_of(&source)).await?, kit.rows(kit.rows_of(&two)).await?];
    ensure_eq!(after, before, "parent and sibling after a child wrote and was deleted");
    Ok(())
}

async fn frk_004_a_child_outlives_its_parent(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let source = parent(&kit).await?;
    let child = kit.fork(&source, "child", no(8)).await?;
    let (row, rows) = (kit.row(&child).await?, kit.rows(kit.rows_of(&child)).await?);
    kit.delete(&source).await?;
    if let Some(maintenance) = kit.store.maintenance() {
        // Where purging has no call of its own it happens in the background; the child is checked either way.
        let _ = maintenance.purge().await;
    }
    ensure_eq!(kit.row(&child).await?, row, "the child's row after the parent was deleted");
    ensure_eq!(kit.rows(kit.rows_of(&child)).await?, rows, "the child's rows after the parent was deleted");
    ensure_eq!(row.profile.parent, Some(source.id.clone()), "the parent's id in the child");
    let again = kit.create("parent").await?;
    ensure_eq!(kit.texts(&again).await?.len(), 0, "entries of a new session under the parent's id");
    let children = SessionQuery { parent: Some(source.id), ..kit.list() };
    ensure_eq!(kit.ids(children).await?, ["child"], "children by the parent's id");
    Ok(())
}

async fn copy(
    kit: &Kit,
    fence: &Fence,
    from: &SessionRef,
    to: &SessionRef,
    through: EntryNo,
) -> turnkeep_core::Result<turnkeep_core::Receipt> {
    let slice = Op::CopyEntries { from: from.clone(), to: to.clone(), after: None, through };
    kit.store.commit(kit.commit().fence(fence.clone()).op(slice)).await
}

async fn frk_006_a_fork_of_an_active_session_is_refused(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let source = parent(&kit).await?;
    let origin = ForkOrigin { kind: ForkKind::Session, boundary: no(8), seed_length: 8 };
    let profile = Profile { parent: Some(source.id.clone()), fork: Some(origin), ..Profile::default() };
    let (child, fence) = kit.begin_restore("child", profile).await?;
    let reason = ErrorKind::ForkRefused;
    let beyond = copy(&kit, &fence, &source, &child, no(9)).await;
    ensure_refused!(beyond, reason(ForkReason::Unavailable), "a fork beyond the head");
    let unknown = copy(&kit, &fence, &kit.life("nobody"), &child, no(1)).await;
    ensure_refused!(unknown, reason(ForkReason::SourceNotFound), "a fork of an unknown session");
    kit.start(&source, run("r3")).await?;
    let before = kit.snapshot().await?;
    let active = copy(&kit, &fence, &source, &child, no(8)).await;
    ensure_refused!(active, reason(ForkReason::SourceActive), "a fork while a run is active");
    kit.unchanged(&before, "a refused fork").await?;
    let hidden = SessionQuery { state: SessionState::Restoring, ..kit.list() };
    let left = kit.sessions(hidden).await?;
    ensure_eq!(
        left.iter().map(|row| (row.head, row.messages)).collect::<Vec<_>>(),
        [(None, 0)],
        "what the child got"
    );
    kit.apply(kit.commit().op(kit.moving(&source, &name("r3"), RunState::Failed))).await?;
    copy(&kit, &fence, &source, &child, no(8)).await?;
    ensure!(kit.find("child").await?.is_none(), "a child is visible before it is sealed");
    kit.seal(&child, &fence, Some(no(8))).await?;
    ensure_eq!(kit.texts(&child).await?, kit.texts(&source).await?, "the child once the run was over");
    Ok(())
}

async fn frk_007_a_chain_of_64_forks_is_exact(cx: &Context) -> Outcome {
    const DEPTH: u32 = 64;
    let kit = cx.kit().await?;
    let mut session = kit.create("depth 0").await?;
    let mut expected = vec!["start".to_owned(), "surplus".to_owned()];
    kit.append(&session, expected.iter().map(|text| user(text)).collect()).await?;
    let mut chain = Vec::new();
    for depth in 1..=DEPTH {
        // Each child leaves the parent's last entry behind and adds two of its own.
        let boundary = no(depth);
        let child = kit.fork(&session, &format!("depth {depth}"), boundary).await?;
        expected.truncate(boundary.get() as usize);
        for text in [format!("kept by {depth}"), format!("surplus of {depth}")] {
            kit.say(&child, &text).await?;
            expected.push(text);
        }
        chain.push((child.clone(), expected.clone()));
        session = child;
    }
    for (depth, (child, expected)) in (1..).zip(&chain) {
        ensure_eq!(kit.texts(child).await?, *expected, "entries at depth {depth}");
        let path = path(&kit, child).await?;
        ensure_eq!(path, (1..=expected.len() as u32).collect::<Vec<_>>(), "the path at depth {depth}");
    }
    Ok(())
}
