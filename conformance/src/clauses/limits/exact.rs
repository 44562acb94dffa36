//! LIM-008: exactly as much as a limit says, and one more.

use turnkeep_core::commit::{
    NewEntry, NewRun, NewSession, Op, Put, RefTarget, Request, RunPatch, SessionPatch,
};
use turnkeep_core::limits::{COLUMN_BYTES, LEASE_MS, RECEIPT_BYTES, REQUEST_MS, SLICE_ROWS};
use turnkeep_core::model::{
    Channel, Entry, LeaseName, Profile, Record, Reference, Row, RunState, SessionImage, StreamRow, Title,
    TitleSource, Usage, Version,
};
use turnkeep_core::rules::MAX_ACTIVITY;
use turnkeep_core::{Commit, ErrorKind, Payload, Receipt, SessionRef, Timestamp};

use crate::context::Context;
use crate::kit::{Kit, event, grant, name, no, payload, put, run, user};
use crate::verdict::{Outcome, Stop};

/// References of one entry, as the specification says.
const REFS: usize = 64;
/// The highest ordinal of a restored record, as the specification says.
const ORDINAL: u64 = 1 << 62;

pub(super) async fn lim_008_one_more_than_a_limit_is_refused(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, (0..=SLICE_ROWS).map(|at| user(&format!("entry {at}"))).collect()).await?;
    conditions(&kit, &session).await?;
    references(&kit, &session).await?;
    leases(&kit).await?;
    receipt(&kit, &session).await?;
    slices(&kit, &session).await?;
    restored_numbers(&kit).await?;
    columns(&kit, &session).await?;
    commit_bytes(&kit, &session).await?;
    request_age(cx, &kit, &session).await
}

/// Refused, and nothing is different afterwards.
async fn over(kit: &Kit, commit: Commit, kind: ErrorKind, what: &str) -> Outcome {
    let before = kit.workspace_mark().await?;
    let answer = kit.store.commit(commit).await;
    ensure_refused!(answer, kind, "{what}");
    ensure_eq!(kit.workspace_mark().await?, before, "the mark of the workspace after {what}");
    Ok(())
}

/// One condition, not one within another: what both ask about would depend on the order in which they are asked.
async fn conditions(kit: &Kit, session: &SessionRef) -> Outcome {
    let when = |then| Op::WhenKey { session: session.clone(), key: name("k"), then: Box::new(then) };
    let moving = Op::MoveLeaf { session: session.clone(), to: Some(no(1)) };
    over(kit, kit.commit().op(when(when(moving))), ErrorKind::Invalid, "a condition within a condition").await
}

async fn references(kit: &Kit, session: &SessionRef) -> Outcome {
    let referring = |count: usize| {
        let refs = vec![(name("seen"), RefTarget::Number(no(1))); count];
        kit.appending(session, vec![NewEntry { refs, ..user("refers") }])
    };
    kit.apply(referring(REFS)).await?;
    over(kit, referring(REFS + 1), ErrorKind::TooLarge, "an entry with one reference too many").await
}

async fn leases(kit: &Kit) -> Outcome {
    let lasting = |id: &str, ttl| grant(LeaseName::Named(name(id)), kit.store.info().owner, kit.token(), ttl);
    for (ttl, what) in [(0, "a lease of no time"), (LEASE_MS + 1, "a lease that lasts too long")] {
        over(kit, kit.commit().op(Op::AcquireLease(lasting("no", ttl))), ErrorKind::Invalid, what).await?;
    }
    kit.acquire_as(lasting("short", 1)).await?;
    let fence = kit.acquire_as(lasting("long", LEASE_MS)).await?;
    let renew = |ttl_ms| kit.commit().op(Op::RenewLease { fence: fence.clone(), ttl_ms });
    kit.apply(renew(LEASE_MS)).await?;
    over(kit, renew(0), ErrorKind::Invalid, "a renewal for no time").await?;
    over(kit, renew(LEASE_MS + 1), ErrorKind::Invalid, "a renewal for too long").await
}

/// A receipt that is kept for a request has a size of its own, so that a ledger does not outgrow what it protects.
async fn receipt(kit: &Kit, session: &SessionRef) -> Outcome {
    let many = |ops: usize, id: &str| {
        let puts = (0..ops).map(|at| Op::PutRecord(put("many", &format!("{id} {at}"), "1")));
        puts.fold(kit.commit(), Commit::op)
    };
    let (most, request) = (RECEIPT_BYTES / 8, |id| kit.request(id, session));
    kit.apply(many(4, "few").request(request("few"))).await?;
    let large = many(most, "all").request(request("all"));
    over(kit, large, ErrorKind::TooLarge, "a request whose receipt is too large").await?;
    kit.apply(many(most, "unasked")).await?;
    exact_receipt(kit, session).await?;
    // Entries in a row are named by their range, so a bulk append has a small receipt.
    let bulk = (0..most).map(|at| user(&format!("bulk {at}"))).collect();
    kit.apply(kit.appending(session, bulk).request(request("bulk"))).await?;
    Ok(())
}

/// A receipt names each session that was made, so that their ids make it as long as one likes.
async fn exact_receipt(kit: &Kit, session: &SessionRef) -> Outcome {
    const SESSIONS: usize = 16;
    let making = |round: char, bytes: usize| {
        (0..SESSIONS).fold(kit.commit(), |commit, at| {
            // All but the first get the same share.
            let (share, rest) = (bytes / SESSIONS, bytes % SESSIONS);
            let long = share + if at == 0 { rest } else { 0 };
            let id = format!("{round}{at:02}{}", "x".repeat(long));
            commit.op(Op::CreateSession(kit.new_session(&kit.life(&id))))
        })
    };
    let size = |receipt: &Receipt| serde_json::to_vec(receipt).map_or(0, |json| json.len());
    let short = size(&kit.apply(making('a', 0)).await?);
    let missing = RECEIPT_BYTES.checked_sub(short);
    let missing = missing.ok_or_else(|| Stop::error(format!("the shortest receipt has {short} bytes")))?;
    let whole = making('b', missing).request(kit.request("exact", session));
    ensure_eq!(size(&kit.apply(whole).await?), RECEIPT_BYTES, "bytes of the largest receipt");
    let more = making('c', missing + 1).request(kit.request("one more", session));
    over(kit, more, ErrorKind::TooLarge, "a request whose receipt has one byte too many").await
}

async fn slices(kit: &Kit, source: &SessionRef) -> Outcome {
    let (child, fence) = kit.begin_restore("copied", Profile::default()).await?;
    let copy = |through| {
        let op =
            Op::CopyEntries { from: source.clone(), to: child.clone(), after: None, through: no(through) };
        kit.commit().fence(fence.clone()).op(op)
    };
    over(kit, copy(SLICE_ROWS + 1), ErrorKind::TooLarge, "a slice of one entry too many").await?;
    kit.apply(copy(SLICE_ROWS)).await?;

    let rows: Vec<Row> = kit.rows(kit.rows_of(source)).await?;
    let (child, fence) = kit.begin_restore("rows", Profile::default()).await?;
    let restore = |count: u32| {
        let rows = rows[..count as usize].to_vec();
        kit.commit().fence(fence.clone()).op(Op::Restore { session: child.clone(), rows })
    };
    over(kit, restore(SLICE_ROWS + 1), ErrorKind::TooLarge, "a restore of one row too many").await?;
    kit.apply(restore(SLICE_ROWS)).await?;
    Ok(())
}

fn image(activity: u64, profile: Profile) -> Row {
    let then = Timestamp::from_millis(1);
    Row::Session(SessionImage {
        created_at: then,
        updated_at: then,
        activity,
        leaf: None,
        usage: Usage::default(),
        profile,
    })
}

fn stream(floor: u64, head: u64, batch_first: u64) -> Row {
    Row::Stream(StreamRow {
        name: name(&format!("{floor}/{head}/{batch_first}")),
        head,
        floor,
        closed: false,
        batch_first,
        batch_digest: [0; 32],
    })
}

fn record(key: &str, ordinal: u64, content: Payload) -> Record {
    Record {
        collection: name("restored"),
        key: name(key),
        owner: None,
        status: None,
        ordinal,
        version: Version { birth: 1, count: 1 },
        created_at: Timestamp::from_millis(1),
        updated_at: Timestamp::from_millis(1),
        payload: content,
    }
}

/// Numbers that a copy brings along leave room for the store to count on, and stay within what every engine can hold.
async fn restored_numbers(kit: &Kit) -> Outcome {
    const MOST: u64 = i64::MAX as u64;
    let (child, fence) = kit.begin_restore("numbers", Profile::default()).await?;
    let restore =
        |rows: Vec<Row>| kit.commit().fence(fence.clone()).op(Op::Restore { session: child.clone(), rows });
    let numbered = |number| Row::Event {
        stream: name(&format!("{}/{}/{}", MOST - 1, MOST, 1)),
        event: turnkeep_core::model::Event {
            number,
            kind: name("n"),
            run: None,
            at: Timestamp::from_millis(1),
            payload: payload("1"),
        },
    };
    let refused = [
        (image(MAX_ACTIVITY + 1, Profile::default()), "an activity out of range"),
        (stream(2, 1, 1), "a stream that dropped more than it had"),
        (stream(0, 1, 2), "a stream whose newest batch begins after its end"),
        (stream(0, MOST + 1, 1), "a stream that is longer than can be counted"),
        (numbered(MOST + 1), "an event whose number is out of range"),
        (Row::Record(record("high", ORDINAL + 1, payload("1"))), "an ordinal out of range"),
    ];
    for (row, what) in refused {
        over(kit, restore(vec![row]), ErrorKind::Invalid, what).await?;
    }
    let referring = |number: u32, count: usize| {
        let refs = vec![Reference { relation: name("seen"), entry: no(1) }; count];
        Row::Entry(Entry {
            number: no(number),
            parent: number.checked_sub(1).and_then(turnkeep_core::EntryNo::new),
            on_path: true,
            kind: name("message"),
            role: None,
            run: None,
            turn: None,
            key: None,
            visibility: turnkeep_core::model::Visibility::Conversation,
            at: Timestamp::from_millis(1),
            refs,
            text: None,
            payload: payload("1"),
        })
    };
    let many = restore(vec![referring(1, 0), referring(2, REFS + 1)]);
    over(kit, many, ErrorKind::TooLarge, "a restored entry with one reference too many").await?;
    let kept = vec![
        image(MAX_ACTIVITY, Profile::default()),
        referring(1, 0),
        referring(2, REFS),
        stream(1, 1, 1),
        stream(MOST - 1, MOST, 1),
        numbered(MOST),
        Row::Record(record("top", ORDINAL, payload("1"))),
    ];
    kit.apply(restore(kept)).await?;
    let alone =
        |ordinal| kit.commit().op(Op::RestoreRecord { record: record("alone", ordinal, payload("1")) });
    over(kit, alone(ORDINAL + 1), ErrorKind::Invalid, "an ordinal out of range, of a record nobody owns")
        .await?;
    kit.apply(alone(ORDINAL)).await?;
    Ok(())
}

/// Ops that put a text into each short column.
fn writing_columns(kit: &Kit, session: &SessionRef, text: &str) -> Vec<(&'static str, Op)> {
    let text = || text.to_owned();
    let titled = |text| Title { text, source: TitleSource::Manual };
    let profiles = [
        ("title", Profile { title: Some(titled(text())), ..Profile::default() }),
        ("cwd", Profile { cwd: Some(text()), ..Profile::default() }),
        ("project", Profile { project: Some(text()), ..Profile::default() }),
        (
            "kind",
            Profile { channel: Some(Channel { kind: text(), id: "i".to_owned() }), ..Profile::default() },
        ),
        ("id", Profile { channel: Some(Channel { kind: "k".to_owned(), id: text() }), ..Profile::default() }),
    ];
    let mut ops = Vec::new();
    for (what, profile) in profiles {
        let patch = SessionPatch {
            title: profile.title.clone().map(Some),
            cwd: profile.cwd.clone().map(Some),
            project: profile.project.clone().map(Some),
            channel: profile.channel.clone().map(Some),
            ..SessionPatch::default()
        };
        ops.push((what, Op::PatchSession { session: session.clone(), patch }));
        ops.push((what, Op::Restore { session: session.clone(), rows: vec![image(1, profile.clone())] }));
        let made = NewSession { profile, ..kit.new_session(&kit.life(what)) };
        ops.push((what, Op::CreateSession(made)));
    }
    let runs = [
        NewRun { source: Some(text()), ..run("source") },
        NewRun { model: Some(text()), ..run("model") },
        NewRun { mode: Some(text()), ..run("mode") },
        NewRun { work_dir: Some(text()), ..run("work_dir") },
    ];
    for run in runs {
        ops.push(("a column of a run", Op::StartRun { session: session.clone(), run: run.clone() }));
        ops.push((
            "a column of a restored run",
            Op::Restore { session: session.clone(), rows: vec![stored(session, run)] },
        ));
    }
    let patch = RunPatch { model: Some(Some(text())), ..RunPatch::default() };
    ops.push(("the model of a run", Op::PatchRun { session: session.clone(), run: name("r"), patch }));
    ops
}

/// A run as a copy brings it.
fn stored(session: &SessionRef, new: NewRun) -> Row {
    let then = Timestamp::from_millis(1);
    Row::Run(turnkeep_core::model::Run {
        id: new.id,
        session: session.clone(),
        number: 1,
        state: RunState::Completed,
        intent: None,
        source: new.source,
        model: new.model,
        mode: new.mode,
        work_dir: new.work_dir,
        attempt: 1,
        error: None,
        progress: None,
        context_usage: None,
        usage: Usage::default(),
        created_at: then,
        updated_at: then,
        retry_of: None,
        finished_at: Some(then),
    })
}

async fn columns(kit: &Kit, session: &SessionRef) -> Outcome {
    for (what, op) in writing_columns(kit, session, &"x".repeat(COLUMN_BYTES + 1)) {
        over(kit, kit.commit().op(op), ErrorKind::TooLarge, &format!("one byte too many: {what}")).await?;
    }
    for (what, op) in writing_columns(kit, session, "a\0b") {
        over(kit, kit.commit().op(op), ErrorKind::Invalid, &format!("a NUL character: {what}")).await?;
    }
    Ok(())
}

/// Every payload and every text counts.
async fn commit_bytes(kit: &Kit, session: &SessionRef) -> Outcome {
    let limits = kit.store.info().limits.clone();
    let sized = |bytes: usize| Payload::new(format!("\"{}\"", "x".repeat(bytes - 2)));
    let largest = sized(limits.payload_bytes)?;
    let mut full = Vec::new();
    for _ in 0..limits.commit_bytes / limits.payload_bytes {
        full.push(NewEntry { payload: largest.clone(), text: None, ..user("") });
    }
    let rest = limits.commit_bytes % limits.payload_bytes;
    if rest > 2 {
        full.push(NewEntry { payload: sized(rest)?, text: None, ..user("") });
    }
    let of = || session.clone();
    let one = || payload("1");
    let patch = SessionPatch { meta: Some(Some(one())), ..SessionPatch::default() };
    let run_patches = [
        RunPatch { error: Some(Some(one())), ..RunPatch::default() },
        RunPatch { progress: Some(Some(one())), ..RunPatch::default() },
        RunPatch { context_usage: Some(Some(one())), ..RunPatch::default() },
    ];
    let mut more = vec![
        Op::Append { session: of(), entries: vec![NewEntry { text: None, payload: one(), ..user("") }] },
        Op::PatchSession { session: of(), patch },
        Op::CreateSession(NewSession {
            profile: Profile { meta: Some(one()), ..Profile::default() },
            ..kit.new_session(&kit.life("made"))
        }),
        Op::TransitionRun {
            session: of(),
            run: name("r"),
            from: turnkeep_core::model::RunStates::ALL,
            to: RunState::Failed,
            error: Some(one()),
        },
        Op::AppendEvents {
            session: of(),
            stream: name("log"),
            expect_next: None,
            events: vec![event("n", 1)],
        },
        Op::PutRecord(Put { ..put("c", "k", "1") }),
        Op::RestoreRecord { record: record("r", 1, one()) },
        Op::Restore { session: of(), rows: vec![Row::Record(record("r", 1, one()))] },
        Op::Restore {
            session: of(),
            rows: vec![image(1, Profile { meta: Some(one()), ..Profile::default() })],
        },
        Op::Restore {
            session: of(),
            rows: vec![Row::Event {
                stream: name("log"),
                event: turnkeep_core::model::Event {
                    number: 1,
                    kind: name("n"),
                    run: None,
                    at: Timestamp::from_millis(1),
                    payload: one(),
                },
            }],
        },
    ];
    more.extend(run_patches.map(|patch| Op::PatchRun { session: of(), run: name("r"), patch }));
    more.extend(writing_columns(kit, session, "x").into_iter().map(|(_, op)| op));
    for op in more {
        let mut entries = full.clone();
        let what = format!("a commit of one byte too many, the last in {}", crate::kit::brief(&op));
        let last = entries.len() - 1;
        entries[last].text = None;
        let commit = kit.appending(session, entries).op(op);
        over(kit, commit, ErrorKind::TooLarge, &what).await?;
    }
    let mut texted = full.clone();
    texted[0].text = Some("x".to_owned());
    over(kit, kit.appending(session, texted), ErrorKind::TooLarge, "a text that is one byte too many")
        .await?;
    kit.append(session, full).await?;
    Ok(())
}

/// A generated request id is known for seven days to the millisecond.
async fn request_age(cx: &Context, kit: &Kit, session: &SessionRef) -> Outcome {
    // Whoever takes no clock has no such evidence in the report.
    let Some(clock) = cx.clock() else { return Ok(()) };
    cx.count("request ages", 1);
    let request = Request::in_session(kit.request_id(), session.clone());
    let commit = kit.appending(session, vec![user("asked")]).request(request);
    kit.apply(commit.clone()).await?;
    clock.advance_ms(REQUEST_MS);
    ensure!(kit.apply(commit.clone()).await?.replayed, "a repeat after exactly seven days is new");
    clock.advance_ms(1);
    over(kit, commit, ErrorKind::RequestExpired, "a repeat after seven days and a millisecond").await
}
