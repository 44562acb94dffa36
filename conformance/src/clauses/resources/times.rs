//! Times: kept as they are given, over the whole range and in every zone.

use turnkeep_core::commit::{NewEntry, NewEvent, Op};
use turnkeep_core::model::{Profile, Record, Row, Run, RunState, SessionImage, Version};
use turnkeep_core::{EntryNo, Timestamp};

use crate::clause::Running;
use crate::context::Context;
use crate::kit::{Kit, event, name, payload, put, run, user};
use crate::verdict::{Outcome, Stop};

/// A process in another time zone: it reads the times of the session `s` and writes the same ones.
pub(super) fn elsewhere<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let Some(row) = kit.find("s").await? else { return Err(Stop::fail("the session is not there")) };
        let entries = kit.entries(&row.session_ref()).await?;
        for entry in &entries {
            crate::peer::tell(&entry.at.as_millis().to_string())?;
        }
        let mine = kit.create(role).await?;
        kit.append(&mine, entries.iter().map(|entry| NewEntry { at: entry.at, ..user("x") }).collect())
            .await?;
        Ok(())
    })
}

/// Every time that a caller gives, over the whole range: of entries, events, runs, records and sessions.
async fn whole_range(kit: &Kit, reader: &Kit) -> Outcome {
    let times = [i64::MIN, -62_135_596_800_001, -1, 0, 253_402_300_800_000, i64::MAX - 1, i64::MAX];
    let (session, fence) = kit.begin_restore("restored", Profile::default()).await?;
    let at = |time: i64| Timestamp::from_millis(time);
    let mut rows = vec![Row::Session(SessionImage {
        created_at: at(i64::MIN),
        updated_at: at(i64::MAX),
        activity: 1,
        leaf: None,
        usage: Default::default(),
        profile: Profile::default(),
    })];
    let plain = kit.create("plain").await?;
    kit.append(&plain, times.map(|time| NewEntry { at: at(time), ..user("x") }).to_vec()).await?;
    let events = times.map(|time| NewEvent { at: at(time), ..event("x", 1) }).to_vec();
    kit.apply(kit.commit().op(Op::AppendEvents {
        session: plain.clone(),
        stream: name("x"),
        expect_next: None,
        events,
    }))
    .await?;
    kit.start(&plain, run("r")).await?;
    let Some(first) = kit.find_run(&plain, "r").await? else {
        return Err(Stop::fail("the run is not there"));
    };
    rows.extend(kit.rows(kit.rows_of(&plain)).await?.into_iter().filter(|row| matches!(row, Row::Entry(_))));
    for (number, time) in (1..).zip(times) {
        rows.push(Row::Run(Run {
            id: name(&format!("r{number}")),
            number,
            state: RunState::Failed,
            created_at: at(time),
            updated_at: at(time),
            finished_at: Some(at(time)),
            ..first.clone()
        }));
    }
    rows.extend(
        kit.rows(kit.rows_of(&plain))
            .await?
            .into_iter()
            .filter(|row| matches!(row, Row::Stream(_) | Row::Event { .. })),
    );
    for (ordinal, time) in (1..).zip(times) {
        rows.push(Row::Record(Record {
            collection: name("c"),
            key: name(&format!("k{ordinal}")),
            owner: None,
            status: None,
            ordinal,
            version: Version { birth: 1, count: 1 },
            created_at: at(time),
            updated_at: at(time),
            payload: payload("1"),
        }));
    }
    kit.apply(
        kit.commit().fence(fence.clone()).op(Op::Restore { session: session.clone(), rows: rows.clone() }),
    )
    .await?;
    kit.seal(&session, &fence, EntryNo::new(times.len() as u32)).await?;
    let row = reader.row(&session).await?;
    ensure_eq!(
        (row.created_at, row.updated_at),
        (at(i64::MIN), at(i64::MAX)),
        "the times of a restored session"
    );
    let seen = reader.rows(reader.rows_of(&session)).await?;
    ensure_eq!(seen.len(), rows.len(), "rows of the restored session");
    for (row, expected) in seen.iter().zip(&rows) {
        ensure_eq!(times_of(row), times_of(expected), "the times of a row");
    }
    Ok(())
}

fn times_of(row: &Row) -> Vec<Option<Timestamp>> {
    match row {
        Row::Session(image) => vec![Some(image.created_at), Some(image.updated_at)],
        Row::Entry(entry) => vec![Some(entry.at)],
        Row::Run(run) => vec![Some(run.created_at), Some(run.updated_at), run.finished_at],
        Row::Stream(_) => Vec::new(),
        Row::Event { event, .. } => vec![Some(event.at)],
        Row::Record(record) => vec![Some(record.created_at), Some(record.updated_at)],
    }
}

pub(super) async fn res_006_times_round_trip_in_milliseconds(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let before = kit.now();
    let session = kit.create("s").await?;
    let after = kit.now();
    let row = kit.row(&session).await?;
    ensure!(
        row.created_at >= before && row.created_at <= after,
        "created at {:?}, between {before:?} and {after:?}",
        row.created_at
    );
    ensure_eq!(row.updated_at, row.created_at, "the time of the last change of a new session");
    let times = [0, 1, 999, 1_000, 1_700_000_000_123, 1_700_000_000_124, -1, -1_000_001];
    let entries = times.map(|time| NewEntry { at: Timestamp::from_millis(time), ..user("x") });
    kit.append(&session, entries.to_vec()).await?;
    let reader = cx.kit().await?;
    let seen: Vec<_> = reader.entries(&session).await?.iter().map(|entry| entry.at.as_millis()).collect();
    ensure_eq!(seen, times, "times of entries");
    whole_range(&kit, &reader).await?;
    if cx.manifest.capabilities.multi_process {
        for (at, zone) in ["Pacific/Kiritimati", "America/St_Johns", "UTC0"].into_iter().enumerate() {
            let said = cx.start_peer_in_zone(&format!("zone {at}"), zone)?.ended().await?;
            let expected = times.map(|time| time.to_string());
            ensure_eq!(said, expected, "the times that a process in zone {zone} reads");
            let theirs = kit.find(&format!("zone {at}")).await?;
            let Some(theirs) = theirs else {
                return Err(Stop::fail("the session of another process is not there"));
            };
            let seen: Vec<_> =
                kit.entries(&theirs.session_ref()).await?.iter().map(|entry| entry.at.as_millis()).collect();
            ensure_eq!(seen, times, "the times that a process in zone {zone} wrote");
        }
    }

    if let Some(clock) = cx.clock() {
        for at in [1_700_000_100_001_i64, 1_700_000_100_002, 1_600_000_000_000, 1_700_000_100_003] {
            clock.set(Timestamp::from_millis(at));
            let last = kit.row(&session).await?.updated_at;
            kit.say(&session, "later").await?;
            let row = reader.row(&session).await?;
            ensure_eq!(
                row.updated_at,
                last.max(Timestamp::from_millis(at)),
                "updated_at with the clock at {at}"
            );
            ensure_eq!(row.created_at, before, "created_at with the clock at {at}");
        }
        kit.start(&session, run("r")).await?;
        let seen = reader.find_run(&session, "r").await?;
        ensure_eq!(
            seen.map(|run| run.created_at.as_millis()),
            Some(1_700_000_100_003),
            "when the run was admitted"
        );
        kit.put(put("c", "k", "1")).await?;
        let record = reader.record("c", "k").await?;
        ensure_eq!(
            record.map(|r| r.updated_at.as_millis()),
            Some(1_700_000_100_003),
            "when the record changed"
        );
    }
    Ok(())
}
