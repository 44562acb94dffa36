//! Trouble that users of other session stores had, by the number of the case.

use std::collections::HashSet;
use std::os::unix::fs::symlink;

use turnkeep_core::model::{RunState, entry_kind};
use turnkeep_core::{EntryNo, ErrorKind, Payload, SessionId, WorkspaceId};
use turnkeep_sessions::blocking::Wait;
use turnkeep_sessions::message::{ToolCall, ToolResult};
use turnkeep_sessions::replay::provider_valid;
use turnkeep_sessions::testing::{SeededEntropy, abandon};
use turnkeep_sessions::{Admission, Draft, Message, RunError, Session, TurnStatus, WorkspaceOptions};

use crate::site::{Site, on_each};

on_each!(
    case_06_near_equal_and_backward_times_refuse_no_append,
    case_14_a_rejected_turn_is_absent_next_turn_and_its_tool_records_stay,
    case_14_a_rejected_answer_that_streamed_is_shown_nowhere,
    case_16_a_repeated_job_adds_its_message_once,
    case_17_a_kill_after_a_tool_result_loses_nothing,
    case_33_two_writers_on_one_session_never_mix_their_turns,
    case_56_a_renamed_or_linked_directory_hides_no_session,
    case_59_a_damaged_message_is_an_error_and_the_session_stays,
    case_61_counts_match_the_entries_after_a_kill,
    case_63_ids_of_many_threads_are_unique_and_create_never_replaces,
    seeded_ids_are_the_same_in_every_run,
);

async fn case_06_near_equal_and_backward_times_refuse_no_append(site: Site) {
    let (site, clock) = site.with_clock();
    let session = site.session().await;
    session.append([Message::user("one")]).await.unwrap();
    session.append([Message::user("two, in the same millisecond")]).await.unwrap();
    // What a wrong time zone does to a wall clock.
    clock.advance_ms(-8 * 60 * 60 * 1000);
    session.append([Message::user("three, eight hours earlier")]).await.unwrap();
    let run = session.begin_run(Message::user("four")).await.unwrap();
    clock.advance_ms(-1);
    run.complete([Message::assistant("five")]).await.unwrap();
    let numbers: Vec<u32> =
        session.messages().await.unwrap().items.iter().map(|stored| stored.number.get()).collect();
    assert_eq!(numbers, [1, 2, 3, 5, 6]);
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    other.append([Message::user("theirs")]).await.unwrap();
    let refused = session.append([Message::user("mine")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StaleLeaf, "only a version that moved refuses");
}

/// The roles and texts that a model is shown.
async fn shown(session: &Session) -> Vec<(String, String)> {
    let replay = session.replay().await.unwrap();
    provider_valid(&replay.to_messages()).unwrap();
    replay.to_messages().iter().map(|message| (message.role().to_string(), message.text())).collect()
}

async fn case_14_a_rejected_turn_is_absent_next_turn_and_its_tool_records_stay(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("send it")).await.unwrap();
    let call = ToolCall::new("c1", "send", Payload::empty());
    run.append([Message::assistant_with_calls("sending", [call])]).await.unwrap();
    run.append([Message::tool_result("c1", "sent", false)]).await.unwrap();
    // The guardrail says no to what the model would answer.
    run.reject(RunError::new("guardrail", "unsafe_answer")).await.unwrap();

    let info = run.info().await.unwrap();
    assert_eq!(info.state, RunState::Completed);
    let why = RunError::from_run(&info).unwrap().unwrap();
    assert_eq!((why.area.as_str(), why.code.as_str()), ("guardrail", "unsafe_answer"));
    let end = session.turns(10, None).await.unwrap().items.pop().unwrap().end.unwrap();
    assert_eq!((end.status, end.stop_reason.as_deref()), (TurnStatus::Incomplete, Some("rejected")));
    let next = session.begin_run(Message::user("and now?")).await.unwrap();
    let kept = [("user", "send it"), ("assistant", "sending"), ("tool", "sent"), ("user", "and now?")];
    let kept: Vec<_> = kept.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect();
    assert_eq!(shown(&session).await, kept);
    next.complete([Message::assistant("done")]).await.unwrap();
    assert_eq!(shown(&session).await.len(), 5);
}

async fn case_14_a_rejected_answer_that_streamed_is_shown_nowhere(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("tell me")).await.unwrap();
    let call = ToolCall::new("c1", "look", Payload::empty());
    run.append([Message::assistant_with_calls("", [call])]).await.unwrap();
    run.append([Message::tool_result("c1", "found", false)]).await.unwrap();
    run.stream("the forbidden ").await.unwrap();
    run.stream("word").await.unwrap();
    run.reject(RunError::new("guardrail", "forbidden")).await.unwrap();
    let after = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let history = after.history().await.unwrap();
    let texts: Vec<Option<String>> = history.items.iter().map(|item| item.entry.text.clone()).collect();
    assert!(!texts.iter().flatten().any(|text| text.contains("forbidden")), "{texts:?}");
    assert_eq!(history.items.len(), 3);
    let next = after.begin_run(Message::user("next")).await.unwrap();
    let roles: Vec<String> = shown(&after).await.into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    next.complete([Message::assistant("ok")]).await.unwrap();
}

async fn case_16_a_repeated_job_adds_its_message_once(site: Site) {
    let session = site.session().await;
    let first = session.append([Message::user("hello")]).request_id("job-1").await.unwrap();
    let run = session.begin_run(Message::user("do it")).request_id("job-2").await.unwrap();
    let call = ToolCall::new("c1", "read", Payload::empty());
    run.append([Message::assistant_with_calls("", [call])]).request_id("job-2/calls").await.unwrap();
    // The queue runs both jobs again, in another process.
    let again = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let repeated = again.append([Message::user("hello")]).request_id("job-1").await.unwrap();
    assert_eq!(repeated.numbers, first.numbers);
    let admitted = again.begin_run(Message::user("do it")).request_id("job-2").admit().await.unwrap();
    let Admission::Repeated { run: known, .. } = admitted else { panic!("a second run was begun") };
    assert_eq!(known.id, *run.id());
    run.append([Message::tool_result("c1", "ok", false)]).await.unwrap();
    run.complete([Message::assistant("done")]).await.unwrap();
    assert_eq!(session.info().await.unwrap().messages, 5);
    let replay = session.replay().await.unwrap();
    assert_eq!((replay.messages.len(), replay.repaired, replay.left_out.total()), (5, 0, 0));
}

async fn case_17_a_kill_after_a_tool_result_loses_nothing(site: Site) {
    let (id, run) = {
        let ws = site.workspace().await;
        let session = ws.sessions().create().await.unwrap();
        let run = session.begin_run(Message::user("change it")).await.unwrap();
        let call = ToolCall::new("c1", "write", Payload::new(r#"{"path":"a"}"#).unwrap());
        run.append([Message::assistant_with_calls("writing", [call])]).await.unwrap();
        run.append([Message::tool_results([ToolResult::new("c1", "written", false)])]).await.unwrap();
        let ids = (session.id().clone(), run.id().clone());
        abandon(run);
        ws.close().await.unwrap();
        ids
    };
    let session = site.workspace().await.sessions().open(&id).await.unwrap();
    let roles: Vec<String> = session
        .history()
        .await
        .unwrap()
        .items
        .iter()
        .map(|item| item.message.as_ref().unwrap().role().to_string())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    assert_eq!(session.runs().get(&run).await.unwrap().state, RunState::Interrupted);
    assert!(session.replay().await.unwrap().messages.is_empty());
    let next = session.begin_run(Message::user("what happened?")).await.unwrap();
    next.complete([Message::assistant("it was written")]).await.unwrap();
}

async fn case_33_two_writers_on_one_session_never_mix_their_turns(site: Site) {
    const TURNS: usize = 8;
    let id = site.session().await.id().clone();
    let mut writers = Vec::new();
    for name in ["left", "right"] {
        let session = site.workspace().await.sessions().open(&id).await.unwrap();
        writers.push(tokio::spawn(async move {
            let mut refused = 0_u32;
            let mut done = 0;
            while done < TURNS {
                match session.begin_run(Message::user(name)).await {
                    Ok(run) => {
                        run.append([Message::assistant(format!("{name} thinks"))]).await.unwrap();
                        tokio::task::yield_now().await;
                        run.complete([Message::assistant(format!("{name} is done"))]).await.unwrap();
                        done += 1;
                    }
                    Err(error) => {
                        let known = [ErrorKind::StaleLeaf, ErrorKind::LeaseHeld, ErrorKind::ActiveRun];
                        assert!(known.contains(&error.kind()), "{error}");
                        refused += 1;
                        assert!(refused < 100_000, "no progress");
                        tokio::task::yield_now().await;
                        session.reload().await.unwrap();
                    }
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let session = site.workspace().await.sessions().open(&id).await.unwrap();
    let entries = session.entries(|query| query.limit = 1000).await.unwrap().items;
    assert_eq!(entries.len(), 2 * TURNS * 5);
    for turn in entries.chunks(5) {
        let kinds: Vec<&str> = turn.iter().map(|entry| entry.kind.as_str()).collect();
        assert_eq!(kinds, ["turn_start", "message", "message", "message", "turn_end"]);
        assert!(turn.iter().all(|entry| entry.run == turn[0].run), "a turn has one writer");
    }
    let texts: Vec<String> =
        session.replay().await.unwrap().messages.iter().map(|replayed| replayed.message.text()).collect();
    assert_eq!(texts.len(), 2 * TURNS * 3, "and none of them forked the other's history away");
}

async fn case_56_a_renamed_or_linked_directory_hides_no_session(site: Site) {
    let ws = site.workspace().await;
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let session = ws.sessions().create().cwd(&link).await.unwrap();
    session.append([Message::user("hello")]).await.unwrap();
    let by_link = ws.sessions().continue_recent(&link).await.unwrap();
    let by_name = ws.sessions().continue_recent(&real).await.unwrap();
    assert_eq!(by_link.session_ref(), session.session_ref());
    assert_eq!(by_name.session_ref(), session.session_ref());
    std::fs::rename(&real, folder.path().join("renamed")).unwrap();
    let resumed = ws.sessions().open(session.id()).await.unwrap();
    assert_eq!(resumed.messages().await.unwrap().items.len(), 1);
    let new = ws.sessions().continue_recent(folder.path().join("renamed")).await.unwrap();
    assert_ne!(new.session_ref(), session.session_ref(), "another directory begins anew");
    assert_eq!(resumed.messages().await.unwrap().items.len(), 1, "and overwrites nothing");
}

async fn case_59_a_damaged_message_is_an_error_and_the_session_stays(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    session.append([Message::user("before")]).await.unwrap();
    let damaged = Draft::of_kind(entry_kind::MESSAGE, Payload::new("\"no message\"").unwrap());
    session.append([damaged]).await.unwrap();
    session.append([Message::user("after")]).await.unwrap();
    for _ in 0..2 {
        let ws = site.workspace().await;
        let session = ws.sessions().open(session.id()).await.unwrap();
        let error = session.messages().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error.context().any(|(name, value)| name == "entry" && value == "2"),
            "it names the place: {error}"
        );
        let hurt = EntryNo::new(2).unwrap();
        for (around, number, said) in
            [(session.messages().before(hurt), 1, "before"), (session.messages().after(hurt), 3, "after")]
        {
            let found = around.await.unwrap().items;
            let found: Vec<_> = found.iter().map(|at| (at.number.get(), at.message.text())).collect();
            assert_eq!(found, [(number, said.to_owned())], "what stands around it is readable");
        }
        let kept = session.history().await.unwrap().items;
        assert_eq!(kept.len(), 3, "everything else is readable, and the entry is kept");
        assert!(kept[1].message.is_none());
        assert_eq!(session.replay().await.unwrap().messages.len(), 2);
        assert_eq!(ws.sessions().list().count().await.unwrap(), 1);
    }
    session.append([Message::user("goes on")]).await.unwrap();
}

/// The same with damage beneath the rules: a row that somebody broke in the file.
#[test]
fn case_59_a_damaged_row_is_an_error_and_the_session_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite3");
    let open = || {
        let store = turnkeep_sqlite::SqliteStore::open(&path).wait().unwrap();
        WorkspaceOptions::default()
            .open(std::sync::Arc::new(store), WorkspaceId::new("w").unwrap())
            .wait()
            .unwrap()
    };
    let ws = open();
    let (hurt, sound) = (ws.sessions().create().wait().unwrap(), ws.sessions().create().wait().unwrap());
    for session in [&hurt, &sound] {
        session.append([Message::user("hello")]).wait().unwrap();
        session.append([Message::assistant("hi")]).wait().unwrap();
    }
    ws.close().wait().unwrap();
    let broken = rusqlite::Connection::open(&path)
        .unwrap()
        .execute(
            "UPDATE entries SET visibility = 'broken' WHERE rid & 0xffffffff = 2
             AND rid >> 32 = (SELECT skey FROM sessions WHERE id = ?1)",
            [hurt.id().as_str()],
        )
        .unwrap();
    assert_eq!(broken, 1);
    for _ in 0..2 {
        let ws = open();
        assert_eq!(ws.sessions().list().count().wait().unwrap(), 2, "it is still listed");
        let session = ws.sessions().open(hurt.id()).wait().unwrap();
        assert_eq!(session.messages().wait().unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(session.info().wait().unwrap().messages, 2, "nothing was deleted");
        let session = ws.sessions().open(sound.id()).wait().unwrap();
        assert_eq!(session.messages().wait().unwrap().items.len(), 2);
        ws.close().wait().unwrap();
    }
}

async fn case_61_counts_match_the_entries_after_a_kill(site: Site) {
    let id = {
        let ws = site.workspace().await;
        let session = ws.sessions().create().lazy().await.unwrap();
        let run = session.begin_run(Message::user("the first words")).await.unwrap();
        run.append([Message::assistant("so far")]).await.unwrap();
        run.stream("not finished").await.unwrap();
        let id = session.id().clone();
        abandon(run);
        ws.close().await.unwrap();
        id
    };
    let ws = site.workspace().await;
    let row = ws.sessions().list().await.unwrap().items.remove(0);
    assert_eq!(row.id, id);
    assert_eq!(row.preview.as_deref(), Some("the first words"));
    let session = ws.sessions().open(&id).await.unwrap();
    let counted = session.messages().all_branches().await.unwrap().items.len();
    assert_eq!((row.messages as usize, row.runs, row.active_run), (counted, 1, None));
    let entries = session
        .entries(|query| query.visibility = turnkeep_core::model::VisibilitySet::ALL)
        .await
        .unwrap()
        .items;
    assert_eq!(row.head.map(|head| head.get() as usize), Some(entries.len()));
}

async fn case_63_ids_of_many_threads_are_unique_and_create_never_replaces(site: Site) {
    const THREADS: usize = 8;
    let ws = site.workspace().await;
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let ws = ws.clone();
        threads.push(std::thread::spawn(move || {
            let mut ids: Vec<SessionId> =
                (0..10_000).map(|_| ws.sessions().create().lazy().wait().unwrap().id().clone()).collect();
            ids.extend((0..50).map(|_| ws.sessions().create().wait().unwrap().id().clone()));
            ids
        }));
    }
    let ids: Vec<SessionId> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), THREADS * 10_050);
    assert_eq!(ws.sessions().list().count().await.unwrap(), THREADS as u64 * 50);
    let taken = ids.last().unwrap();
    let session = ws.sessions().open(taken).await.unwrap();
    session.append([Message::user("mine")]).await.unwrap();
    let refused = ws.sessions().create().id(taken.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(session.messages().await.unwrap().items.len(), 1);
}

async fn seeded_ids_are_the_same_in_every_run(site: Site) {
    let mut seen = Vec::new();
    for workspace in ["one", "two"] {
        let options = site.options().entropy(SeededEntropy::new(7));
        let ws = options.open(site.store().await, WorkspaceId::new(workspace).unwrap()).await.unwrap();
        let session = ws.sessions().create().await.unwrap();
        let run = session.begin_run(Message::user("q")).await.unwrap();
        seen.push((session.id().clone(), run.id().clone()));
        run.cancel().await.unwrap();
    }
    assert_eq!(seen[0], seen[1]);
}
