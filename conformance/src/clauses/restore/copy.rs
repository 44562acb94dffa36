//! A session that has everything, its copy, and the two compared through every read.

use turnkeep_core::commit::{NewEntry, NewEvent, NewRun, Op, Parent, Put, RefTarget, RunPatch, SessionPatch};
use turnkeep_core::model::{
    Audience, Channel, ForkKind, ForkOrigin, Record, Row, Run, RunState, RunStates, SessionRow, Title,
    TitleSource, Usage, Version, Visibility,
};
use turnkeep_core::query::{EntryQuery, PathTo, RecordQuery, RunQuery, SessionQuery};
use turnkeep_core::{Commit, ErrorKind, Expect, SessionRef};

use crate::kit::{Kit, event, keyed, name, no, note, payload, put, run, user};
use crate::verdict::Outcome;

/// A session with all that a session can have, an active run among it.
pub(crate) async fn source(kit: &Kit) -> Outcome<SessionRef> {
    let session = kit.life("source");
    let mut new = kit.new_session(&session);
    new.profile.audience = Audience::SubAgent;
    new.profile.parent = Some(name("an ancestor"));
    new.profile.fork = Some(ForkOrigin { kind: ForkKind::Message, boundary: no(3), seed_length: 3 });
    kit.apply(kit.commit().op(Op::CreateSession(new))).await?;
    let title = Title { text: "Ünïcode \u{1F980}".to_owned(), source: TitleSource::Manual };
    let patch = SessionPatch {
        title: Some(Some(title)),
        cwd: Some(Some("/tmp/élan".to_owned())),
        channel: Some(Some(Channel { kind: "chat".to_owned(), id: "7".to_owned() })),
        project: Some(Some("p".to_owned())),
        pinned: Some(true),
        meta: Some(Some(payload("{\"zebra\":1,\"alpha\":1.50e+2}"))),
        ..SessionPatch::default()
    };
    kit.apply(kit.commit().op(Op::PatchSession { session: session.clone(), patch })).await?;
    let exact = NewEntry {
        payload: payload("{ \"b\" : \"\\u0000\\ud83e\\udd80\", \"a\":1e2 }"),
        ..keyed("first", "exact")
    };
    let odd = NewEntry {
        kind: name("a kind of tomorrow"),
        role: Some(name("a role of tomorrow")),
        text: None,
        ..user("")
    };
    kit.append(&session, vec![exact, user("two"), odd, user("four")]).await?;
    let refs = vec![(name("label_target"), RefTarget::Number(no(2)))];
    let partial = NewEntry { visibility: Visibility::Partial, advance_leaf: false, ..user("half") };
    let internal = NewEntry { visibility: Visibility::Internal, ..user("summary") };
    let branch = NewEntry { parent: Parent::Number(no(2)), ..user("a branch") };
    kit.append(
        &session,
        vec![NewEntry { refs, ..note("a label") }, partial, internal, branch, user("and on")],
    )
    .await?;
    let root = NewEntry { parent: Parent::Root, key: Some(name("root")), ..user("a second root") };
    kit.append(&session, vec![root]).await?;
    kit.apply(kit.commit().op(Op::MoveLeaf { session: session.clone(), to: Some(no(9)) })).await?;

    let whole = NewRun {
        intent: Some(name("i")),
        source: Some("cli".to_owned()),
        model: Some("m".to_owned()),
        mode: Some("plan".to_owned()),
        work_dir: Some("/tmp".to_owned()),
        ..run("z-first")
    };
    kit.start(&session, whole.clone()).await?;
    let usage = Usage {
        requests: 2,
        input_tokens: 3,
        output_tokens: 4,
        total_tokens: 7,
        duration_ms: 11,
        cache_read_tokens: 5,
        cache_write_tokens: 6,
    };
    let used = Op::AddUsage { session: session.clone(), run: Some(name("z-first")), usage };
    let patch = RunPatch {
        progress: Some(Some(payload("{\"at\":1}"))),
        context_usage: Some(Some(payload("{\"used\":2}"))),
        ..RunPatch::default()
    };
    let patched = Op::PatchRun { session: session.clone(), run: name("z-first"), patch };
    kit.apply(kit.commit().op(used).op(patched)).await?;
    let failed = Op::TransitionRun {
        session: session.clone(),
        run: name("z-first"),
        from: RunStates::ALL,
        to: RunState::Failed,
        error: Some(payload("{\"code\":\"timeout\"}")),
    };
    kit.apply(kit.commit().op(failed)).await?;
    kit.start(&session, NewRun { id: name("a-second"), after: Some(name("z-first")), ..whole }).await?;
    let events = |stream: &str, events: Vec<NewEvent>| Op::AppendEvents {
        session: session.clone(),
        stream: name(stream),
        expect_next: Some(1),
        events,
    };
    let of_run = NewEvent { run: Some(name("z-first")), ..event("run_started", 1) };
    kit.apply(kit.commit().op(events("runs", vec![of_run, event("x", 2), event("x", 3)]))).await?;
    kit.apply(kit.commit().op(events("partial/t", vec![event("text", 1)]))).await?;
    let drop = |stream: &str, through, close| {
        kit.commit().op(Op::DropEvents { session: session.clone(), stream: name(stream), through, close })
    };
    kit.apply(drop("runs", Some(1), false)).await?;
    kit.apply(drop("partial/t", None, true)).await?;
    for (collection, key, status) in
        [("c", "k1", Some("open")), ("c", "k2", None), ("lineage", "l", Some("x")), ("c", "k0", None)]
    {
        let record = Put {
            owner: Some(session.clone()),
            status: status.map(name),
            ..put(collection, key, "{\"n\":1.0}")
        };
        kit.put(record.clone()).await?;
        kit.put(Put { payload: payload("{ \"n\" : 2 }"), ..record }).await?;
    }
    let unput = Op::DeleteRecord {
        collection: name("c"),
        key: name("k1"),
        owner: Some(session.clone()),
        expect: Expect::Any,
    };
    kit.apply(kit.commit().op(unput)).await?;
    Ok(session)
}

/// A run as it arrives: at home in the copy, and nobody works on it.
fn arrived(run: &Run, session: &SessionRef) -> Run {
    let mut run = Run { session: session.clone(), ..run.clone() };
    if !run.state.is_terminal() {
        run.state = RunState::Interrupted;
        run.finished_at = Some(run.updated_at);
    }
    run
}

const NO_VERSION: Version = Version { birth: 0, count: 0 };

fn same_record(record: &Record, session: &SessionRef) -> Record {
    Record { owner: Some(session.clone()), version: NO_VERSION, ..record.clone() }
}

/// Compares the copy with its source through every read.
pub(crate) async fn same_reads(kit: &Kit, source: &SessionRef, other: &Kit, copy: &SessionRef) -> Outcome {
    let rows = kit.rows(kit.rows_of(source)).await?;
    let expected = rows.iter().map(|row| match row {
        Row::Run(run) => Row::Run(arrived(run, copy)),
        Row::Record(record) => Row::Record(same_record(record, copy)),
        row => row.clone(),
    });
    let seen = other.rows(other.rows_of(copy)).await?;
    let seen = seen.iter().map(|row| match row {
        Row::Record(record) => Row::Record(same_record(record, copy)),
        row => row.clone(),
    });
    let (expected, seen): (Vec<_>, Vec<_>) = (expected.collect(), seen.collect());
    ensure_eq!(seen.len(), expected.len(), "rows of the copy");
    for (row, expected) in seen.iter().zip(&expected) {
        ensure_eq!(row, expected, "a row of the copy");
    }
    let (old, new) = (kit.row(source).await?, other.row(copy).await?);
    let same = SessionRow {
        workspace: new.workspace.clone(),
        incarnation: new.incarnation,
        revision: new.revision,
        active_run: None,
        ..old
    };
    ensure_eq!(new, same, "the copy's row");
    for entry in kit.walk(kit.every_entry(source)).await?.iter().filter(|entry| entry.on_path) {
        let path = |kit: &Kit, session: &SessionRef| EntryQuery {
            path: Some(PathTo::Entry(entry.number)),
            ..kit.every_entry(session)
        };
        ensure_eq!(
            other.walk(path(other, copy)).await?,
            kit.walk(path(kit, source)).await?,
            "the path of {}",
            entry.number
        );
    }
    let mut by_key = other.every_entry(copy);
    by_key.key = Some(name("first"));
    ensure_eq!(other.walk(by_key).await?.len(), 1, "entries by key");
    let attempts = other.runs(RunQuery { intent: Some(name("i")), ..other.runs_of(copy) }).await?;
    ensure_eq!(attempts.iter().map(|run| run.attempt).collect::<Vec<_>>(), [1, 2], "attempts by request");
    for status in ["open", "x"] {
        let query =
            |kit: &Kit, collection| RecordQuery { status: Some(name(status)), ..kit.collection(collection) };
        let count =
            (kit.records(query(kit, "c")).await?.len(), kit.records(query(kit, "lineage")).await?.len());
        let seen = (
            other.records(query(other, "c")).await?.len(),
            other.records(query(other, "lineage")).await?.len(),
        );
        ensure_eq!(seen, count, "records in status {status}");
    }
    let text = SessionQuery { text: Some("A BRANCH".to_owned()), ..other.list() };
    ensure_eq!(other.ids(text).await?, ["source"], "sessions by their words");
    Ok(())
}

/// The copy goes on exactly as its source does: the next number of everything, and what is taken is taken.
pub(super) async fn goes_on(kit: &Kit, source: &SessionRef, other: &Kit, copy: &SessionRef) -> Outcome {
    let end = Op::TransitionRun {
        session: source.clone(),
        run: name("a-second"),
        from: RunStates::ALL,
        to: RunState::Failed,
        error: None,
    };
    kit.apply(kit.commit().op(end)).await?;
    for (kit, session) in [(kit, source), (other, copy)] {
        kit.refused(kit.appending(session, vec![keyed("root", "x")]), ErrorKind::AlreadyExists).await?;
        let again = Op::StartRun { session: session.clone(), run: run("z-first") };
        kit.refused(kit.commit().op(again), ErrorKind::AlreadyExists).await?;
        let closed = Op::AppendEvents {
            session: session.clone(),
            stream: name("partial/t"),
            expect_next: None,
            events: vec![event("text", 2)],
        };
        kit.refused(kit.commit().op(closed), ErrorKind::TurnNotOpen).await?;
    }
    let next = |session: &SessionRef| {
        let retry = NewRun { intent: Some(name("i")), after: Some(name("a-second")), ..run("third") };
        vec![
            Op::Append {
                session: session.clone(),
                entries: vec![
                    user("goes on"),
                    NewEntry { parent: Parent::Number(no(4)), ..user("elsewhere") },
                ],
            },
            Op::StartRun { session: session.clone(), run: retry },
            Op::AppendEvents {
                session: session.clone(),
                stream: name("runs"),
                expect_next: Some(4),
                events: vec![event("x", 4)],
            },
        ]
    };
    let of_source = kit.apply(next(source).into_iter().fold(kit.commit(), Commit::op)).await?;
    let of_copy = other.apply(next(copy).into_iter().fold(other.commit(), Commit::op)).await?;
    ensure_eq!(of_copy.outcomes, of_source.outcomes, "the next numbers of everything");
    for (kit, session) in [(kit, source), (other, copy)] {
        kit.put(Put { owner: Some(session.clone()), ..put("c", "next", "1") }).await?;
        let ordinal = kit.record("c", "next").await?.map(|record| record.ordinal);
        ensure_eq!(ordinal, Some(4), "the next ordinal after three, of which one was deleted");
    }
    Ok(())
}
