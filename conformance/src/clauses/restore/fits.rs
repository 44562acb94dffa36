//! Exact rows that do not fit what has arrived are refused, each by itself.

use turnkeep_core::commit::{Fence, Op, Put};
use turnkeep_core::model::{Entry, Event, Record, Row, Run, RunState, StreamRow, Usage, Version, Visibility};
use turnkeep_core::{Commit, ErrorKind, SessionRef};

use super::restoring_row;
use crate::context::Context;
use crate::kit::{Kit, name, no, payload, put};
use crate::verdict::Outcome;

fn entry(kit: &Kit, number: u32, key: &str) -> Row {
    Row::Entry(Entry {
        number: no(number),
        parent: (number > 1).then(|| no(number - 1)),
        on_path: true,
        kind: name("message"),
        role: None,
        run: None,
        turn: None,
        key: Some(name(key)),
        visibility: Visibility::Conversation,
        at: kit.now(),
        refs: Vec::new(),
        text: None,
        payload: payload("{}"),
    })
}

fn run_row(kit: &Kit, session: &SessionRef, id: &str, number: u32) -> Row {
    Row::Run(Run {
        session: session.clone(),
        id: name(id),
        number,
        state: RunState::Completed,
        intent: None,
        attempt: 1,
        retry_of: None,
        source: None,
        model: None,
        mode: None,
        work_dir: None,
        created_at: kit.now(),
        updated_at: kit.now(),
        finished_at: Some(kit.now()),
        error: None,
        progress: None,
        context_usage: None,
        usage: Usage::default(),
    })
}

fn stream_row(head: u64) -> Row {
    let (floor, closed, batch_first, batch_digest) = (0, false, 0, [0; 32]);
    Row::Stream(StreamRow { name: name("x"), head, floor, closed, batch_first, batch_digest })
}

fn event_row(kit: &Kit, number: u64) -> Row {
    let event = Event { number, kind: name("x"), run: None, at: kit.now(), payload: payload("1") };
    Row::Event { stream: name("x"), event }
}

fn record_row(kit: &Kit, key: &str) -> Record {
    Record {
        collection: name("c"),
        key: name(key),
        owner: None,
        status: None,
        ordinal: 1,
        version: Version { birth: 1, count: 1 },
        created_at: kit.now(),
        updated_at: kit.now(),
        payload: payload("\"restored\""),
    }
}

pub(super) async fn rst_007_a_row_that_does_not_fit_is_refused(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    kit.put(put("c", "taken", "\"mine\"")).await?;
    let (session, fence) = kit.begin_restore("s", Default::default()).await?;
    let restore = |rows: Vec<Row>| -> Commit { exact(&kit, &session, &fence, rows) };
    let owned = |key: &str| Row::Record(Record { owner: Some(session.clone()), ..record_row(&kit, key) });
    let arrived = vec![
        entry(&kit, 1, "k1"),
        entry(&kit, 2, "k2"),
        run_row(&kit, &session, "r5", 5),
        stream_row(2),
        event_row(&kit, 1),
        owned("owned"),
    ];
    kit.apply(restore(arrived)).await?;
    let built = restoring_row(&kit, &session).await?;
    let (invalid, taken) = (ErrorKind::Invalid, ErrorKind::AlreadyExists);
    let refused = [
        ("an entry that leaves a number out", entry(&kit, 4, "k4"), invalid),
        ("an entry that was there", entry(&kit, 2, "again"), invalid),
        ("an entry with a used key", entry(&kit, 3, "k1"), taken),
        ("a run that was there", run_row(&kit, &session, "r5", 6), taken),
        ("a run before the newest", run_row(&kit, &session, "r4", 4), invalid),
        ("a run of the newest number", run_row(&kit, &session, "r5b", 5), invalid),
        ("a stream that was there", stream_row(9), taken),
        ("an event that leaves a number out", event_row(&kit, 3), invalid),
        ("an event that was there", event_row(&kit, 1), invalid),
        ("a record that somebody has", owned("taken"), taken),
        ("a record that was there", owned("owned"), taken),
    ];
    let before = kit.snapshot().await?;
    for (what, row, kind) in refused {
        // Also behind a row that fits: then that one is not kept either.
        for rows in [vec![row.clone()], vec![entry(&kit, 3, "k3"), shifted(row)]] {
            ensure_refused!(kit.store.commit(restore(rows)).await, kind, "{what}");
            ensure_eq!(restoring_row(&kit, &session).await?, built, "the session being built after {what}");
        }
        kit.unchanged(&before, what).await?;
    }
    let over = kit.commit().op(Op::RestoreRecord { record: record_row(&kit, "taken") });
    kit.refused(over, taken).await?;
    kit.unchanged(&before, "a record restored over another one").await?;
    kit.apply(kit.commit().op(Op::RestoreRecord { record: record_row(&kit, "free") })).await?;

    kit.apply(restore(vec![entry(&kit, 3, "k3"), run_row(&kit, &session, "r6", 6), event_row(&kit, 2)]))
        .await?;
    kit.seal(&session, &fence, Some(no(3))).await?;
    ensure_eq!(kit.row(&session).await?.head, Some(no(3)), "the head once sealed");
    ensure_eq!(kit.events(kit.stream(&session, "x")).await?.len(), 2, "events once sealed");
    let mine = kit.record("c", "taken").await?.map(|record| record.payload);
    ensure_eq!(mine, Some(payload("\"mine\"")), "the record that was there before");
    kit.put(Put { owner: Some(session), ..put("c", "owned", "2") }).await?;
    Ok(())
}

fn exact(kit: &Kit, session: &SessionRef, fence: &Fence, rows: Vec<Row>) -> Commit {
    kit.commit().fence(fence.clone()).op(Op::Restore { session: session.clone(), rows })
}

/// The same fault after one entry more.
fn shifted(row: Row) -> Row {
    match row {
        Row::Entry(entry) => {
            let number = entry.number.next().unwrap_or(entry.number);
            Row::Entry(Entry { number, parent: entry.parent.and(Some(entry.number)), ..entry })
        }
        row => row,
    }
}
