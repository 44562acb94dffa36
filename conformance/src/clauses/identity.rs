//! Identity: ids are bytes, a used id is never taken over, workspaces do not see each other.

use turnkeep_core::commit::{Op, SessionPatch};
use turnkeep_core::model::{Channel, LeaseName, RunStates, Title, TitleSource};
use turnkeep_core::query::{OwnerFilter, RecordQuery, RunQuery, SessionQuery};
use turnkeep_core::{Cursor, ErrorKind, Expect};

use crate::context::Context;
use crate::kit::{gather, keyed, name, put, run, spawn, user};
use crate::verdict::Outcome;

clauses! { ($) identity_tests;
    "ID-001" id_001_creating_a_used_id_replaces_nothing_case_63 {
        title: "Creating a session under a used id, in use or being built, answers AlreadyExists and leaves the original untouched; of many at once, one wins.",
        why: "Ids made from the time collide, and an upsert then overwrites a conversation.",
        links: &["octo-agent PR #64"],
        catches: "a backend that creates with an upsert",
        cases: &["case-63"],
    }
    "ID-002" id_002_ids_are_compared_byte_by_byte {
        title: "Ids of sessions, entry keys and record keys are compared byte by byte: case, normalisation form and trailing spaces all count.",
        why: "Collations and padded columns merge ids that a host keeps apart.",
        catches: "a backend whose id column ignores case, normalises or trims",
    }
    "ID-003" id_003_the_same_id_in_two_workspaces_is_two_things {
        title: "The same session, run, record and lease ids in two workspaces are independent of each other, through every read.",
        why: "One agent's history must never show up in another's.",
        catches: "a backend that forgets the workspace in one of its keys",
    }
    "ID-004" id_004_unknown_differs_from_empty {
        title: "An unknown session, and a life of it that is over, answers NotFound or none; an empty one answers an empty page.",
        why: "A host that takes 'not there' for 'empty' starts over and overwrites.",
        catches: "a backend that answers an empty page for an unknown session",
    }
    "ID-005" id_005_hostile_ids_and_filters_leak_nothing_case_71 {
        title: "Ids, keys and filter texts with `%`, `_`, quotes, backslashes or SQL in them match literally and never show anything else.",
        why: "Wildcards and quotes in a filter have shown one tenant the sessions of another.",
        links: &["langchain-ai/langgraph#5666"],
        catches: "a backend that builds patterns or SQL from ids",
        cases: &["case-71"],
    }
    "ID-006" id_006_order_survives_rollover_of_ids_and_time {
        title: "Ids that sort backwards and times that roll over change no order: entries go by number, sessions by their last change.",
        why: "Ids that begin with a time sort wrongly once the time outgrows its digits.",
        links: &["anomalyco/opencode#40432"],
        catches: "a backend that sorts sessions by id or by a truncated time",
    }
}

async fn id_001_creating_a_used_id_replaces_nothing_case_63(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, vec![user("original"), user("words")]).await?;
    kit.begin_restore("hidden", Default::default()).await?;
    let before = kit.snapshot().await?;
    for id in ["s", "hidden"] {
        let again = kit.new_session(&kit.life(id));
        kit.refused(kit.commit().op(Op::CreateSession(again)), ErrorKind::AlreadyExists).await?;
    }
    kit.refused(kit.commit().op(Op::CreateSession(kit.new_session(&session))), ErrorKind::AlreadyExists)
        .await?;
    kit.unchanged(&before, "creating a used id").await?;

    let mut racers = Vec::new();
    for racer in 0..8 {
        let kit = cx.kit().await?;
        racers.push(spawn(async move {
            let session = kit.life("race");
            let words = format!("of racer {racer}");
            let commit = kit
                .commit()
                .op(Op::CreateSession(kit.new_session(&session)))
                .op(Op::Append { session: session.clone(), entries: vec![user(&words)] });
            match kit.store.commit(commit).await {
                Ok(_) => Ok(Some((session, words))),
                Err(error) => {
                    ensure_refused!(Err::<(), _>(error), ErrorKind::AlreadyExists, "a racer that lost");
                    Ok(None)
                }
            }
        }));
    }
    let won: Vec<_> = gather(racers).await?.into_iter().flatten().collect();
    ensure_eq!(won.len(), 1, "racers that created the session");
    for (session, words) in won {
        ensure_eq!(kit.texts(&session).await?, [words], "the session holds the words of the winner only");
    }
    Ok(())
}

async fn id_002_ids_are_compared_byte_by_byte(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    // Composed and decomposed, upper and lower, padded and not, and two that casefold to the same.
    let ids = ["a", "A", "a ", " a", "é", "e\u{301}", "ß", "ss", "ſ", "s", "0", "00", "a\u{200b}"];
    let mut sessions = Vec::new();
    for id in ids {
        let session = kit.create(id).await?;
        kit.say(&session, id).await?;
        kit.put(put("c", id, &serde_json::Value::from(id).to_string())).await?;
        sessions.push(session);
    }
    let host = kit.create("host").await?;
    let numbers = kit.append(&host, ids.iter().map(|id| keyed(id, id)).collect()).await?;
    for ((id, session), number) in ids.into_iter().zip(&sessions).zip(numbers) {
        ensure_eq!(kit.texts(session).await?, [id], "the words of session {id:?}");
        let record = kit.record("c", id).await?.map(|record| record.payload.as_str().to_owned());
        ensure_eq!(record, Some(serde_json::Value::from(id).to_string()), "the record under key {id:?}");
        let mut by_key = kit.committed(&host);
        by_key.key = Some(name(id));
        let found: Vec<_> = kit.walk(by_key).await?.iter().map(|entry| entry.number).collect();
        ensure_eq!(found, [number], "the entry with key {id:?}");
        let by_prefix = SessionQuery { id_prefix: Some(id.to_owned()), ..kit.list_by_id() };
        let mut expected: Vec<&str> = ids.into_iter().filter(|other| other.starts_with(id)).collect();
        if "host".starts_with(id) {
            expected.push("host");
        }
        expected.sort_unstable();
        ensure_eq!(kit.ids(by_prefix).await?, expected, "sessions whose id begins with {id:?}");
    }
    Ok(())
}

async fn id_003_the_same_id_in_two_workspaces_is_two_things(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let worlds = [kit.in_workspace("alpha"), kit.in_workspace("beta")];
    let mut sessions = Vec::new();
    for world in &worlds {
        let session = world.create("s").await?;
        let words = format!("of {}", world.workspace);
        world.say(&session, &words).await?;
        world.start(&session, run("r")).await?;
        world.put(put("c", "k", "1")).await?;
        let lease = LeaseName::Named(name("l"));
        let grant = crate::kit::grant(lease, world.store.info().owner, world.token(), cx.lease_ms());
        world.acquire_as(grant).await?;
        sessions.push(session);
    }
    ensure_eq!(worlds[0].texts(&sessions[0]).await?, ["of alpha"], "the words in alpha");
    ensure_eq!(worlds[1].texts(&sessions[1]).await?, ["of beta"], "the words in beta");
    let foreign = worlds[0].store.entries(&worlds[0].committed(&sessions[1])).await;
    ensure_refused!(foreign, ErrorKind::NotFound, "reading beta's session through alpha");
    let stray = worlds[0].appending(&sessions[1], vec![user("stray")]);
    worlds[0].refused(stray, ErrorKind::NotFound).await?;
    let search = SessionQuery { text: Some("of beta".to_owned()), ..worlds[0].list() };
    ensure_eq!(worlds[0].ids(search).await?, [""; 0], "alpha's sessions with beta's words");
    ensure_eq!(worlds[0].runs(RunQuery::new(worlds[0].workspace.clone())).await?.len(), 1, "runs in alpha");
    let active = RunQuery { states: RunStates::ACTIVE, ..RunQuery::new(worlds[0].workspace.clone()) };
    ensure_eq!(worlds[0].runs(active).await?.len(), 1, "active runs in alpha");
    let counted = SessionQuery { total: true, ..worlds[0].list() };
    ensure_eq!(worlds[0].store.sessions(&counted).await?.total, Some(1), "the total of alpha's sessions");
    worlds[1].acquire(&sessions[1], cx.lease_ms()).await?;
    ensure!(worlds[0].lease(&sessions[1]).await?.is_none(), "beta's lease is seen through alpha");
    let other = worlds[1].snapshot().await?;
    worlds[0].say(&sessions[0], "more").await?;
    worlds[1].unchanged(&other, "words in alpha").await?;
    worlds[0].put(put("c", "k", "2")).await?;
    worlds[0].put(put("c", "k2", "2")).await?;
    let unput = Op::DeleteRecord { collection: name("c"), key: name("k"), owner: None, expect: Expect::Any };
    let delete = Op::DeleteSession { session: sessions[0].clone(), force: true };
    worlds[0].apply(worlds[0].commit().op(unput).op(delete)).await?;
    worlds[1].unchanged(&other, "work in alpha").await?;
    worlds[1].put(put("c", "k2", "1")).await?;
    let ordinal = worlds[1].record("c", "k2").await?.map(|record| record.ordinal);
    ensure_eq!(ordinal, Some(2), "the ordinal of beta's second record");
    let record = worlds[1].record("c", "k").await?.map(|record| record.payload.as_str().to_owned());
    ensure_eq!(record.as_deref(), Some("1"), "beta's record after alpha wrote its own");
    let elsewhere = kit.in_workspace("gamma");
    ensure_eq!(elsewhere.ids(elsewhere.list()).await?.len(), 0, "sessions of a workspace that nobody used");
    Ok(())
}

async fn id_004_unknown_differs_from_empty(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let empty = kit.create("empty").await?;
    ensure!(
        kit.store.entries(&kit.committed(&empty)).await?.items.is_empty(),
        "an empty session has entries"
    );
    ensure!(kit.store.runs(&kit.runs_of(&empty)).await?.items.is_empty(), "an empty session has runs");
    ensure!(
        kit.store.events(&kit.stream(&empty, "x")).await?.items.is_empty(),
        "an unwritten stream has events"
    );
    let owned = |owner| RecordQuery { owner: OwnerFilter::Session(owner), ..kit.collection("c") };
    ensure!(kit.store.records(&owned(empty.clone())).await?.items.is_empty(), "an empty session has records");
    ensure!(kit.lease(&empty).await?.is_none(), "a lease was never taken");

    kit.acquire(&empty, cx.lease_ms()).await?;
    let over = kit.create("again").await?;
    kit.delete(&over).await?;
    kit.create("again").await?;
    let mixed = turnkeep_core::SessionRef { id: name("nobody"), incarnation: empty.incarnation };
    for (session, what) in [
        (kit.life("nobody"), "an unknown session"),
        (over, "a life that is over"),
        (mixed, "an unknown session with the incarnation of another"),
    ] {
        let kind = ErrorKind::NotFound;
        ensure_refused!(kit.store.entries(&kit.committed(&session)).await, kind, "entries of {what}");
        ensure_refused!(kit.store.runs(&kit.runs_of(&session)).await, kind, "runs of {what}");
        ensure_refused!(kit.store.events(&kit.stream(&session, "x")).await, kind, "events of {what}");
        ensure_refused!(kit.store.records(&owned(session.clone())).await, kind, "records of {what}");
        ensure_refused!(kit.store.rows(&kit.rows_of(&session)).await, kind, "rows of {what}");
        ensure!(kit.lease(&session).await?.is_none(), "{what} has a lease");
        kit.refused(kit.appending(&session, vec![user("lost")]), kind).await?;
    }
    ensure!(kit.find("nobody").await?.is_none(), "an unknown session reads as something");
    ensure!(kit.find("../../etc/passwd").await?.is_none(), "a path is an id like any other, and not there");
    Ok(())
}

async fn id_005_hostile_ids_and_filters_leak_nothing_case_71(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let hostile =
        ["x') OR 1=1 --", "%", "_", "a%", "a_", "a\\", "'", "\"; DROP TABLE entries; --", "*", "[a]", "a?"];
    let plain = ["secret", "ab", "abc", "axb"];
    for id in plain {
        let session = kit.create(id).await?;
        kit.say(&session, "plain words").await?;
        let mut record = put("c", id, "\"plain\"");
        record.status = Some(name("open"));
        kit.put(record).await?;
    }
    for text in hostile {
        for query in [
            SessionQuery { id_prefix: Some(text.to_owned()), ..kit.list() },
            SessionQuery { text: Some(text.to_owned()), ..kit.list() },
            SessionQuery { cwd: Some(text.to_owned()), ..kit.list() },
            SessionQuery { project: Some(text.to_owned()), ..kit.list() },
            SessionQuery { parent: Some(name(text)), ..kit.list() },
        ] {
            ensure_eq!(kit.ids(query).await?, [""; 0], "sessions found by {text:?} before there is one");
        }
        ensure!(kit.find(text).await?.is_none(), "{text:?} finds a session");
        ensure!(kit.record("c", text).await?.is_none(), "{text:?} finds a record");
        let by_status = RecordQuery { status: Some(name(text)), ..kit.collection("c") };
        ensure_eq!(kit.records(by_status).await?.len(), 0, "records in status {text:?}");
        ensure_eq!(kit.records(kit.collection(text)).await?.len(), 0, "records of collection {text:?}");
        let foreign = SessionQuery { cursor: Some(text.parse::<Cursor>()?), ..kit.list() };
        ensure_refused!(kit.store.sessions(&foreign).await, ErrorKind::Invalid, "{text:?} as a cursor");
    }
    for text in hostile {
        let session = kit.create(text).await?;
        let patch = SessionPatch {
            cwd: Some(Some(text.to_owned())),
            project: Some(Some(text.to_owned())),
            title: Some(Some(Title { text: format!("about {text}"), source: TitleSource::Manual })),
            channel: Some(Some(Channel { kind: text.to_owned(), id: text.to_owned() })),
            ..SessionPatch::default()
        };
        kit.apply(kit.commit().op(Op::PatchSession { session: session.clone(), patch })).await?;
        kit.append(&session, vec![keyed(text, &format!("words with {text}"))]).await?;
        kit.put(put(text, text, "1")).await?;
    }
    for text in hostile {
        let exactly = [text];
        let by_cwd = SessionQuery { cwd: Some(text.to_owned()), ..kit.list() };
        ensure_eq!(kit.ids(by_cwd).await?, exactly, "sessions in directory {text:?}");
        let by_project = SessionQuery { project: Some(text.to_owned()), ..kit.list() };
        ensure_eq!(kit.ids(by_project).await?, exactly, "sessions of project {text:?}");
        let mut by_prefix: Vec<_> = hostile.into_iter().filter(|id| id.starts_with(text)).collect();
        by_prefix.sort_unstable();
        let query = SessionQuery { id_prefix: Some(text.to_owned()), ..kit.list_by_id() };
        ensure_eq!(kit.ids(query).await?, by_prefix, "sessions whose id begins with {text:?}");
        let mut by_text: Vec<_> = hostile.into_iter().filter(|id| id.contains(text)).collect();
        by_text.sort_unstable();
        let query = SessionQuery { text: Some(text.to_owned()), ..kit.list_by_id() };
        ensure_eq!(kit.ids(query).await?, by_text, "sessions with {text:?} somewhere");
        ensure_eq!(kit.records(kit.collection(text)).await?.len(), 1, "records of collection {text:?}");
    }
    Ok(())
}

async fn id_006_order_survives_rollover_of_ids_and_time(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    // Ids roll over and then shrink, while the time crosses powers of two and runs past 48 bits.
    let ids = ["fffd", "fffe", "ffff", "0000", "0001", "9", "10", "1"];
    let times = [-1, 0, (1 << 31) - 1, 1 << 31, (1 << 42) - 1, 1 << 42, (1 << 48) - 1, 1 << 48];
    for (id, time) in ids.into_iter().zip(times) {
        if let Some(clock) = cx.clock() {
            clock.set(turnkeep_core::Timestamp::from_millis(time));
        }
        let session = kit.create(id).await?;
        kit.append(&session, ids.iter().map(|key| keyed(key, key)).collect()).await?;
        ensure_eq!(kit.texts(&session).await?, ids, "entries of session {id}, whose keys roll over");
    }
    let mut newest_first = ids.to_vec();
    newest_first.reverse();
    ensure_eq!(kit.ids(kit.list()).await?, newest_first, "sessions by their last change");
    Ok(())
}
