//! Forks: same numbers, all branches, verdicts; cut only where a turn is closed; the same request, the same child.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use turnkeep_core::commit::Op;
use turnkeep_core::error::ForkReason;
use turnkeep_core::id::TurnId;
use turnkeep_core::model::{
    Audience, Entry, ForkKind, RunState, SessionState, TitleSource, VisibilitySet, entry_kind,
};
use turnkeep_core::query::{AudienceFilter, SessionQuery};
use turnkeep_core::{EntryNo, ErrorKind, Order, Payload, SessionId, WorkspaceId};
use turnkeep_sessions::message::ToolResult;
use turnkeep_sessions::{
    Draft, ForkSession, ForkTitle, Label, Message, RunError, Session, TurnEnd, TurnStatus, WaitingFor,
    Workspace,
};

use crate::both::Watched;
use crate::runs::{call, no, replayed};
use crate::site::{Site, on_each};

on_each!(
    a_fork_holds_the_same_numbers_on_all_branches_and_the_verdicts,
    a_fork_says_where_it_came_from,
    the_title_of_a_fork_is_chosen,
    a_fork_is_cut_at_the_end_of_a_turn_or_at_its_last_words,
    a_fork_never_splits_a_call_from_its_result,
    a_conversation_without_boundaries_is_forked_after_an_answer,
    a_fork_is_refused_with_its_reason,
    the_same_request_gives_the_same_child_though_the_source_moved_on,
    a_request_id_is_needed_and_means_one_fork,
    parent_and_child_go_their_own_ways,
    what_a_dead_process_left_at_work_does_not_keep_a_session_from_being_forked,
    a_dead_builder_is_taken_over_and_its_child_finished,
    a_dropped_fork_is_gone_on_with_at_once,
    a_fork_that_nobody_finishes_is_removed_by_recovery,
    a_fork_of_many_entries_is_copied_in_slices,
);

async fn everything(session: &Session) -> Vec<Entry> {
    let all = session.entries(|query| {
        query.visibility = VisibilitySet::ALL;
        query.limit = 10_000;
    });
    all.await.unwrap().items
}

async fn turn(session: &Session, question: &str, answer: &str) {
    let run = session.begin_run(Message::user(question)).await.unwrap();
    run.complete([Message::assistant(answer)]).await.unwrap();
}

async fn reason(fork: ForkSession) -> ForkReason {
    match fork.await.unwrap_err().kind() {
        ErrorKind::ForkRefused(reason) => reason,
        other => panic!("not refused as a fork: {other}"),
    }
}

/// Every session that is being built.
async fn hidden(ws: &Workspace) -> usize {
    let mut query = SessionQuery::new(ws.id().clone());
    query.state = SessionState::Restoring;
    query.audience = AudienceFilter::Any;
    ws.store().sessions(&query).await.unwrap().items.len()
}

async fn a_fork_holds_the_same_numbers_on_all_branches_and_the_verdicts(site: Site) {
    let session = site.session().await;
    turn(&session, "one", "first answer").await;
    let branch = session.leaf();
    let failed = session.begin_run(Message::user("two")).await.unwrap();
    failed.stream("half an ans").await.unwrap();
    failed.fail(RunError::provider("timeout")).await.unwrap();
    turn(&session, "three", "third answer").await;
    session.append([Label::new(no(3), "here")]).await.unwrap();
    session
        .append([Draft::of_kind("unheard-of", Payload::new(r#"{"b":1.50,"a":"\u0000"}"#).unwrap())])
        .await
        .unwrap();
    session.move_leaf(branch).await.unwrap();
    turn(&session, "another way", "on a branch").await;
    let forked = session.fork("f1").await.unwrap();
    assert!(!forked.repeated);
    let child = forked.session;
    assert_eq!(everything(&child).await, everything(&session).await);
    assert_eq!(child.leaf(), session.leaf());
    assert_eq!(replayed(&child).await, ["one", "first answer", "another way", "on a branch"]);
    let verdicts = |runs: Vec<turnkeep_core::model::Run>| -> Vec<_> {
        runs.into_iter().map(|run| (run.id, run.number, run.state, run.error, run.finished_at)).collect()
    };
    let of_parent = session.runs().list().await.unwrap().items;
    assert_eq!(of_parent.len(), 4);
    assert!(of_parent.iter().any(|run| run.state == RunState::Failed));
    assert_eq!(verdicts(child.runs().list().await.unwrap().items), verdicts(of_parent));
    let (parent, row) = (session.info().await.unwrap(), child.info().await.unwrap());
    assert_eq!(
        (row.head, row.messages, row.preview, row.path),
        (parent.head, parent.messages, parent.preview, parent.path)
    );
    child.move_leaf(Some(no(12))).await.unwrap();
    assert_eq!(replayed(&child).await, ["one", "first answer", "three", "third answer"]);
}

async fn a_fork_says_where_it_came_from(site: Site) {
    let ws = site.workspace().await;
    let project = ws.projects().create("p").await.unwrap().id;
    let session = ws
        .sessions()
        .create()
        .id(SessionId::new("parent").unwrap())
        .cwd("/")
        .project(project.as_str())
        .audience(Audience::SubAgent)
        .meta(Payload::new(r#"{"theirs":1}"#).unwrap())
        .await
        .unwrap();
    session.pin(true).await.unwrap();
    turn(&session, "q", "a").await;
    turn(&session, "q2", "a2").await;
    let child = session.fork("f").at(no(4)).id(SessionId::new("child").unwrap()).await.unwrap();
    assert_eq!((child.parent.as_str(), child.session.id().as_str()), ("parent", "child"));
    let row = child.session.info().await.unwrap();
    let origin = row.profile.fork.unwrap();
    assert_eq!(child.origin, origin);
    assert_eq!((origin.kind, origin.boundary, origin.seed_length), (ForkKind::Message, no(4), 4));
    assert_eq!(row.profile.parent.as_ref().unwrap().as_str(), "parent");
    assert_eq!(
        (row.profile.cwd.as_deref(), row.profile.project.as_deref()),
        (Some("/"), Some(project.as_str()))
    );
    assert_eq!(row.profile.audience, Audience::SubAgent);
    assert_eq!((row.profile.meta, row.profile.pinned, row.profile.title), (None, false, None));
    assert_eq!((row.head, row.path.leaf), (Some(no(4)), Some(no(4))));
    let whole = session.fork("g").await.unwrap();
    assert_eq!(
        (whole.origin.kind, whole.origin.boundary, whole.origin.seed_length),
        (ForkKind::Session, no(8), 8)
    );
    let children = ws.sessions().list().parent(session.id().clone()).audience(AudienceFilter::Any);
    assert_eq!(children.count().await.unwrap(), 2);
}

async fn the_title_of_a_fork_is_chosen(site: Site) {
    let session = site.session().await;
    session.rename("the parser").await.unwrap();
    turn(&session, "q", "a").await;
    for (at, (mode, expected)) in [
        (ForkTitle::Marked, Some(("the parser (fork)", TitleSource::Auto))),
        (ForkTitle::Same, Some(("the parser", TitleSource::Manual))),
        (ForkTitle::Untitled, None),
        (ForkTitle::Given("another".into()), Some(("another", TitleSource::Manual))),
    ]
    .into_iter()
    .enumerate()
    {
        let child = session.fork(format!("f{at}")).title(mode).await.unwrap().session;
        let title = child.info().await.unwrap().profile.title;
        assert_eq!(title.as_ref().map(|title| (title.text.as_str(), title.source)), expected);
    }
}

async fn a_fork_is_cut_at_the_end_of_a_turn_or_at_its_last_words(site: Site) {
    let session = site.session().await;
    turn(&session, "q1", "a1").await; // 1 to 4
    session.append([Message::user("between turns")]).await.unwrap(); // 5
    let run = session.begin_run(Message::user("q2")).await.unwrap(); // 6, 7
    run.append([Message::assistant_with_calls("", [call("c")])]).await.unwrap(); // 8
    run.append([Message::tool_results([ToolResult::new("c", "r", false)])]).await.unwrap(); // 9
    run.complete([Message::assistant("a2")]).await.unwrap(); // 10, 11
    for (at, boundary) in [(3, 4), (4, 4), (5, 5), (10, 11), (11, 11)] {
        let forked = session.fork(format!("at {at}")).at(no(at)).await.unwrap();
        assert_eq!(forked.origin.boundary, no(boundary));
        assert_eq!(forked.session.info().await.unwrap().head, Some(no(boundary)));
    }
    for at in [1, 2, 6, 7, 8, 9] {
        let reason = reason(session.fork(format!("at {at}")).at(no(at))).await;
        assert!(matches!(reason, ForkReason::InvalidBoundary), "{at}: {reason:?}");
    }
    // A turn outside of a run is one as well.
    let open = TurnId::new("by hand").unwrap();
    session.start_turn(&open).await.unwrap(); // 12
    assert_eq!(reason(session.fork("open")).await, ForkReason::InvalidBoundary);
    session.append([Message::user("still open")]).await.unwrap(); // 13
    assert_eq!(reason(session.fork("open").at(no(13))).await, ForkReason::InvalidBoundary);
    session.end_turn(&open, TurnEnd { status: TurnStatus::Completed, stop_reason: None }).await.unwrap();
    assert_eq!(
        session.fork("open").await.unwrap().origin.boundary,
        no(14),
        "a refusal uses no request id up"
    );
}

async fn a_fork_never_splits_a_call_from_its_result(site: Site) {
    let session = site.session().await;
    turn(&session, "q1", "a1").await;
    session.append([Message::assistant_with_calls("", [call("c1"), call("c2")])]).await.unwrap(); // 5
    session.append([Message::tool_results([ToolResult::new("c1", "one", false)])]).await.unwrap(); // 6
    session.append([Message::tool_results([ToolResult::new("c2", "two", false)])]).await.unwrap(); // 7
    for at in [5, 6] {
        let reason = reason(session.fork(format!("at {at}")).at(no(at))).await;
        assert_eq!(reason, ForkReason::InvalidBoundary, "{at}");
    }
    session.fork("whole").await.unwrap();
    session.fork("at 7").at(no(7)).await.unwrap();
    // Nor when somebody said something in between; a call that was passed over for good splits nothing.
    session.append([Message::assistant_with_calls("", [call("late")])]).await.unwrap(); // 8
    session.append([Message::user("hurry")]).await.unwrap(); // 9
    session.fork("not answered yet").at(no(9)).await.unwrap();
    session.append([Message::tool_results([ToolResult::new("late", "at last", false)])]).await.unwrap(); // 10
    assert_eq!(reason(session.fork("at 9").at(no(9))).await, ForkReason::InvalidBoundary);
    session.fork("at 10").at(no(10)).await.unwrap();
    // Where a run came to nothing, its open call is not replayed and splits nothing.
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.append([Message::assistant_with_calls("", [call("c3")])]).await.unwrap();
    run.cancel().await.unwrap();
    session.fork("after a cancelled run").await.unwrap();
    // One that completed with an open call has nothing to answer it with in the child.
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.complete([Message::assistant_with_calls("", [call("c4")])]).await.unwrap();
    assert_eq!(reason(session.fork("open call")).await, ForkReason::InvalidBoundary);
}

async fn a_conversation_without_boundaries_is_forked_after_an_answer(site: Site) {
    let session = site.session().await;
    let said = |text: &str| [Message::user(format!("{text}?")), Message::assistant(format!("{text}."))];
    // As an import of another program's file leaves it.
    session.append(said("one")).await.unwrap();
    session.append(said("two")).await.unwrap();
    let child = session.fork("whole").await.unwrap().session;
    assert_eq!(replayed(&child).await, ["one?", "one.", "two?", "two."]);
    let child = session.fork("part").at(no(2)).await.unwrap().session;
    assert_eq!(replayed(&child).await, ["one?", "one."]);
    assert_eq!(reason(session.fork("early").at(no(1))).await, ForkReason::NoCompletedTurn);
    // The answer of a turn that came to nothing is none.
    let other = site.session().await;
    let run = other.begin_run(Message::user("q")).await.unwrap();
    run.append([Message::assistant("half an answer")]).await.unwrap();
    run.cancel().await.unwrap();
    let refused = other.fork("f").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ForkRefused(ForkReason::NoCompletedTurn));
    assert!(refused.to_string().contains("fork after an answer"), "what to do: {refused}");
}

async fn a_fork_is_refused_with_its_reason(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    assert_eq!(reason(session.fork("f")).await, ForkReason::NoCompletedTurn, "an empty one");
    session.append([Message::user("not in a turn")]).await.unwrap();
    assert_eq!(reason(session.fork("f")).await, ForkReason::NoCompletedTurn);
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.cancel().await.unwrap();
    assert_eq!(reason(session.fork("f")).await, ForkReason::NoCompletedTurn);
    assert_eq!(
        reason(session.fork("f").at(no(3))).await,
        ForkReason::NoCompletedTurn,
        "the words of such a turn"
    );
    turn(&session, "q", "a").await;
    let head = session.info().await.unwrap().head.unwrap();
    assert_eq!(
        reason(session.fork("f").at(EntryNo::new(head.get() + 1).unwrap())).await,
        ForkReason::Unavailable
    );
    let run = session.begin_run(Message::user("q")).await.unwrap();
    assert_eq!(reason(session.fork("f")).await, ForkReason::SourceActive);
    assert_eq!(reason(session.fork("f").at(head)).await, ForkReason::SourceActive);
    run.append([Message::assistant("may I?")]).await.unwrap();
    run.wait_for(WaitingFor::Approval).await.unwrap();
    assert_eq!(reason(session.fork("f")).await, ForkReason::SourceActive, "waiting is not over");
    run.cancel().await.unwrap();
    let broken = Draft::of_kind(entry_kind::MESSAGE, Payload::new("[1]").unwrap());
    session.append([broken]).await.unwrap();
    assert_eq!(reason(session.fork("f")).await, ForkReason::UnsupportedEntry);
    let unborn = ws.sessions().create().lazy().await.unwrap();
    assert_eq!(reason(unborn.fork("f")).await, ForkReason::SourceNotFound);
    ws.sessions().delete(session.id().clone()).await.unwrap();
    assert_eq!(reason(session.fork("f")).await, ForkReason::SourceNotFound);
    assert_eq!(hidden(&ws).await, 0);
    assert_eq!(ws.sessions().list().count().await.unwrap(), 0, "nothing was made");
}

async fn the_same_request_gives_the_same_child_though_the_source_moved_on(site: Site) {
    let session = site.session().await;
    turn(&session, "q", "a").await;
    let first = session.fork("job 7").await.unwrap();
    let again = session.fork("job 7").await.unwrap();
    assert!(again.repeated);
    turn(&session, "q2", "a2").await;
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let moved = other.fork("job 7").await.unwrap();
    let run = session.begin_run(Message::user("q3")).await.unwrap();
    let active = other.fork("job 7").await.unwrap();
    run.complete([Message::assistant("a3")]).await.unwrap();
    first.session.rename("their own").await.unwrap();
    session.workspace().sessions().delete(session.id().clone()).await.unwrap();
    let gone = other.fork("job 7").await.unwrap();
    for repeated in [again, moved, active, gone] {
        assert_eq!(repeated.session.session_ref(), first.session.session_ref());
        assert_eq!((repeated.origin, repeated.repeated), (first.origin, true));
    }
    assert_eq!(first.origin.boundary, no(4));
    // With the child the request is forgotten: there is nothing left that it could name.
    first.session.workspace().sessions().delete(first.session.id().clone()).await.unwrap();
    assert_eq!(reason(other.fork("job 7")).await, ForkReason::SourceNotFound);
}

async fn a_request_id_is_needed_and_means_one_fork(site: Site) {
    let session = site.session().await;
    turn(&session, "q", "a").await;
    turn(&session, "q2", "a2").await;
    assert_eq!(session.fork("").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(session.fork("x".repeat(257)).await.unwrap_err().kind(), ErrorKind::TooLarge);
    session.fork("x".repeat(256)).await.unwrap();
    session.fork("f").at(no(4)).await.unwrap();
    let other = session.workspace().sessions().create().await.unwrap();
    turn(&other, "q", "a").await;
    for fork in [
        session.fork("f"),
        session.fork("f").at(no(3)),
        session.fork("f").at(no(4)).title(ForkTitle::Same),
        session.fork("f").at(no(4)).id(SessionId::new("x").unwrap()),
        other.fork("f").at(no(4)),
    ] {
        assert_eq!(fork.await.unwrap_err().kind(), ErrorKind::RequestConflict);
    }
    // A taken id is refused, and its session is as it was.
    let taken = session.fork("g").id(other.id().clone()).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    assert_eq!(other.info().await.unwrap().profile.fork, None);
}

async fn parent_and_child_go_their_own_ways(site: Site) {
    let session = site.session().await;
    turn(&session, "q", "a").await;
    let child = session.fork("f").await.unwrap().session;
    turn(&session, "of the parent", "yes").await;
    turn(&child, "of the child", "no").await;
    assert_eq!(replayed(&session).await, ["q", "a", "of the parent", "yes"]);
    assert_eq!(replayed(&child).await, ["q", "a", "of the child", "no"]);
    let grandchild = child.fork("f2").await.unwrap();
    assert_eq!(grandchild.parent, *child.id());
    session.workspace().sessions().delete(session.id().clone()).await.unwrap();
    assert_eq!(child.info().await.unwrap().profile.parent.as_ref(), Some(session.id()), "as text");
    assert_eq!(replayed(&grandchild.session).await.len(), 4);
}

async fn what_a_dead_process_left_at_work_does_not_keep_a_session_from_being_forked(site: Site) {
    let session = site.session().await;
    turn(&session, "q", "a").await;
    let ws = site.workspace().await;
    let mine = ws.sessions().open(session.id()).await.unwrap();
    let run = session.begin_run(Message::user("q2")).await.unwrap();
    let store = session.workspace().store().clone();
    turnkeep_sessions::testing::abandon(run);
    drop(session);
    store.close().await.unwrap();
    let child = mine.fork("f").await.unwrap().session;
    assert_eq!(replayed(&child).await, ["q", "a"]);
    assert_eq!(child.runs().list().await.unwrap().items[0].state, RunState::Interrupted);
}

/// A workspace through a store whose process dies at its `n`th commit.
async fn dying(site: &Site, n: usize) -> Workspace {
    let store = Arc::new(Watched::dying_at(site.store().await, n));
    site.options().recover(false).open(store, WorkspaceId::new("w").unwrap()).await.unwrap()
}

async fn watching(site: &Site, store: Watched) -> Workspace {
    site.options().open(Arc::new(store), WorkspaceId::new("w").unwrap()).await.unwrap()
}

async fn many(session: &Session, entries: u32) {
    turn(session, "q", "a").await;
    let drafts = (0..entries - 4).map(|at| Message::user(format!("note {at}")));
    session.append(drafts).await.unwrap();
}

async fn a_dead_builder_is_taken_over_and_its_child_finished(site: Site) {
    let session = site.session().await;
    many(&session, 3000).await;
    // 0 asks for the request, 1 begins, 2 on copy, and so on; each time the next one goes on.
    for n in [2, 4] {
        let ws = dying(&site, n).await;
        let mine = ws.sessions().open(session.id()).await.unwrap();
        assert_eq!(mine.fork("f").await.unwrap_err().kind(), ErrorKind::Io);
        ws.store().close().await.unwrap();
        drop((mine, ws));
        assert_eq!(hidden(session.workspace()).await, 1);
        assert_eq!(session.workspace().sessions().list().count().await.unwrap(), 1, "nobody sees it");
        // The source goes on; what was begun is what it was.
        session.append([Message::user("later")]).await.unwrap();
    }
    let copied = Arc::new(Mutex::new(Vec::new()));
    let seen = copied.clone();
    let watched = Watched::at_commit(site.store().await, move |_, commit| {
        for op in &commit.ops {
            if let Op::CopyEntries { after, through, .. } = op {
                seen.lock().unwrap().push((after.map_or(0, EntryNo::get), through.get()));
            }
        }
        Ok(())
    });
    let ws = watching(&site, watched).await;
    let forked = ws.sessions().open(session.id()).await.unwrap().fork("f").await.unwrap();
    assert_eq!(forked.origin.boundary, no(3000));
    assert!(copied.lock().unwrap()[0].0 > 0, "it begins where the dead one stopped: {copied:?}");
    let whole = everything(&forked.session).await;
    assert_eq!(whole.len(), 3000);
    assert_eq!(whole[..], everything(&session).await[..3000]);
    assert_eq!(forked.session.leaf(), Some(no(3000)));
    assert_eq!(forked.session.info().await.unwrap().profile.meta, None);
    assert_eq!(hidden(&ws).await, 0);
}

async fn a_dropped_fork_is_gone_on_with_at_once(site: Site) {
    let session = site.session().await;
    many(&session, 2000).await;
    let copies = Arc::new(AtomicUsize::new(0));
    let seen = copies.clone();
    let watched = Watched::at_commit(site.store().await, move |_, commit| {
        let copies = commit.ops.iter().any(|op| matches!(op, Op::CopyEntries { .. }));
        seen.fetch_add(usize::from(copies), Ordering::SeqCst);
        Ok(())
    });
    let ws = watching(&site, watched).await;
    let mine = ws.sessions().open(session.id()).await.unwrap();
    let fork = tokio::spawn(std::future::IntoFuture::into_future(mine.fork("f")));
    for _ in 0..100_000 {
        if copies.load(Ordering::SeqCst) >= 2 || fork.is_finished() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_micros(100)).await;
    }
    fork.abort();
    let _ = fork.await;
    ws.settle().await;
    let forked = mine.fork("f").await.unwrap();
    assert_eq!(everything(&forked.session).await.len(), 2000);
}

async fn a_fork_that_nobody_finishes_is_removed_by_recovery(site: Site) {
    let (site, clock) = site.with_clock();
    let session = site.session().await;
    many(&session, 500).await;
    let ws = dying(&site, 3).await;
    let mine = ws.sessions().open(session.id()).await.unwrap();
    mine.fork("f").await.unwrap_err();
    ws.store().close().await.unwrap();
    drop((mine, ws));
    let ws = site.workspace().await;
    assert!(ws.recovered().removed.is_empty(), "it may still be gone on with");
    clock.advance_ms(25 * 60 * 60 * 1000);
    let report = ws.recover().await.unwrap();
    assert_eq!(report.removed.len(), 1);
    assert_eq!(hidden(&ws).await, 0);
    let again = ws.sessions().open(session.id()).await.unwrap().fork("f").await.unwrap();
    assert!(!again.repeated, "the request went with it");
}

async fn a_fork_of_many_entries_is_copied_in_slices(site: Site) {
    let session = site.session().await;
    many(&session, 5000).await;
    let slices = Arc::new(Mutex::new(Vec::new()));
    let seen = slices.clone();
    let watched = Watched::at_commit(site.store().await, move |_, commit| {
        for op in &commit.ops {
            if let Op::CopyEntries { after, through, .. } = op {
                seen.lock().unwrap().push(through.get() - after.map_or(0, EntryNo::get));
            }
        }
        Ok(())
    });
    let ws = watching(&site, watched).await;
    let child = ws.sessions().open(session.id()).await.unwrap().fork("f").await.unwrap().session;
    let slices = slices.lock().unwrap().clone();
    assert!(slices.len() >= 6 && slices.iter().all(|entries| *entries <= 1000), "{slices:?}");
    assert_eq!(slices.iter().sum::<u32>(), 5000);
    let newest = child.entries(|query| query.order = Order::Latest).await.unwrap().items;
    assert_eq!(newest.last().unwrap().number, no(5000));
}
