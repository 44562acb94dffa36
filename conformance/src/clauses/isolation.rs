//! Isolation: reads see commits only, in their order, and sessions do not touch each other.

use turnkeep_core::commit::{Op, SessionPatch};
use turnkeep_core::model::{Title, TitleSource};
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{EntryNo, ErrorKind};

use crate::clause::Kind;
use crate::context::Context;
use crate::kit::{Watch, event, gather, name, no, payload, put, run, spawn, user};
use crate::verdict::Outcome;

clauses! { ($) isolation_tests;
    "ISO-001" iso_001_no_reader_sees_what_was_refused {
        title: "No reader ever sees anything of a commit that was refused, not even while it is being decided.",
        kind: Kind::Stochastic,
        why: "A word that was shown and then never existed cannot be explained to anyone.",
        catches: "a backend that reads uncommitted rows",
    }
    "ISO-002" iso_002_an_export_sees_one_revision_or_knows_that_it_moved {
        title: "A walk over many pages, bounded by the head it saw first, gives exactly that state; revision and marks tell that the session moved meanwhile.",
        why: "An export stitched from two states is a conversation that never was.",
        catches: "a backend whose cursor is an offset, or whose revision stands still",
    }
    "ISO-003" iso_003_a_write_is_read_through_every_handle {
        title: "What one handle was told is written, every other handle reads at once.",
        why: "A second window that shows an older state invites a lost update.",
        catches: "a backend that caches rows per handle",
    }
    "ISO-004" iso_004_reads_never_go_back {
        title: "Reads never go back: a later read sees at least what an earlier one saw, through whichever handle.",
        kind: Kind::Stochastic,
        why: "A history that shrinks and grows again makes a host act twice.",
        catches: "a backend that reads from copies that lag",
    }
    "ISO-005" iso_005_one_session_is_unchanged_by_another {
        title: "Whatever happens to one session leaves every row of another one byte for byte as it was.",
        why: "Sessions share tables, counters and caches.",
        catches: "a backend that updates or deletes without the session in its condition",
    }
    "ISO-006" iso_006_returned_values_are_no_aliases {
        title: "Values that were given or returned are copies: changing them changes nothing stored.",
        why: "A store in memory that hands out its own rows lets a host edit history.",
        catches: "a backend that keeps what it was given by reference",
    }
}

async fn iso_001_no_reader_sees_what_was_refused(cx: &Context) -> Outcome {
    let (kit, reader) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    kit.say(&session, "good").await?;
    kit.put(put("c", "k", "\"good\"")).await?;
    let watch = Watch::default();
    let reading = spawn({
        let (session, watch) = (session.clone(), watch.clone());
        async move {
            for look in 0..Watch::MOST {
                let over = watch.is_last();
                let texts = reader.texts(&session).await?;
                ensure!(texts.iter().all(|text| text == "good"), "a refused entry was read");
                let title = reader.row(&session).await?.profile.title;
                ensure!(title.is_none(), "a refused title was read");
                let record = reader.record("c", "k").await?;
                let seen = record.as_ref().map(|record| record.payload.as_str());
                ensure_eq!(seen, Some("\"good\""), "the record");
                ensure!(reader.find("bad").await?.is_none(), "a refused session was read");
                if over {
                    break;
                }
                watch.looked(look).await;
            }
            Ok(())
        }
    });
    let mut outcome = Ok(());
    for round in 0..60 {
        watch.be_seen().await;
        let title = Title { text: "bad".to_owned(), source: TitleSource::Auto };
        let patch = SessionPatch { title: Some(Some(title)), ..SessionPatch::default() };
        let refused = kit
            .commit()
            .op(Op::CreateSession(kit.new_session(&kit.life("bad"))))
            .op(Op::PatchSession { session: session.clone(), patch })
            .op(Op::PutRecord(put("c", "k", "\"bad\"")))
            .op(Op::Append { session: session.clone(), entries: (0..50).map(|_| user("bad")).collect() })
            .op(Op::MoveLeaf { session: session.clone(), to: Some(no(1_000_000)) });
        outcome = kit.refused(refused, ErrorKind::NotFound).await.map(|_| ());
        if outcome.is_ok() && round % 10 == 0 {
            outcome = kit.say(&session, "good").await.map(|_| ());
        }
        if outcome.is_err() {
            break;
        }
    }
    watch.end();
    gather(vec![reading]).await?;
    outcome
}

async fn iso_002_an_export_sees_one_revision_or_knows_that_it_moved(cx: &Context) -> Outcome {
    let (kit, writer) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    kit.append(&session, (0..40).map(|at| user(&format!("old {at}"))).collect()).await?;
    let first = kit.row(&session).await?;
    let (mark, workspace_mark) = (kit.mark(&session).await?, kit.workspace_mark().await?);
    ensure_eq!(kit.mark(&session).await?, mark, "the mark of a session that rests");
    ensure_eq!(kit.workspace_mark().await?, workspace_mark, "the mark of a workspace that rests");

    let before = first.head.and_then(EntryNo::next);
    let mut query = EntryQuery { before, limit: 6, ..kit.every_entry(&session) };
    let mut exported = Vec::new();
    for page in 0..20 {
        let answer = kit.store.entries(&query).await?;
        exported.extend(answer.items.into_iter().filter_map(|entry| entry.text));
        writer.say(&session, &format!("new {page}")).await?;
        if page == 2 {
            let to = Some(no(5));
            writer.apply(writer.commit().op(Op::MoveLeaf { session: session.clone(), to })).await?;
        }
        query.cursor = answer.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..40).map(|at| format!("old {at}")).collect();
    ensure_eq!(exported, expected, "an export up to the head that it saw first");
    let now = kit.row(&session).await?;
    ensure!(now.revision > first.revision, "the revision does not tell that the session moved");
    ensure!(kit.mark(&session).await? != mark, "the session's mark does not tell that it moved");
    ensure!(
        kit.workspace_mark().await? != workspace_mark,
        "the workspace's mark does not tell that it moved"
    );
    let (rows, again) = (kit.rows(kit.rows_of(&session)).await?, kit.rows(kit.rows_of(&session)).await?);
    ensure_eq!(rows, again, "two exports of a session that rests");

    // Every kind of change is noticed.
    for op in [
        Op::PutRecord(turnkeep_core::commit::Put { owner: Some(session.clone()), ..put("c", "k", "1") }),
        Op::StartRun { session: session.clone(), run: run("r") },
        Op::PatchSession {
            session: session.clone(),
            patch: SessionPatch { pinned: Some(true), ..Default::default() },
        },
        Op::AppendEvents {
            session: session.clone(),
            stream: name("notes"),
            expect_next: None,
            events: vec![event("n", 1)],
        },
        Op::MoveLeaf { session: session.clone(), to: Some(no(1)) },
    ] {
        let (mark, row, what) = (kit.mark(&session).await?, kit.row(&session).await?, format!("{op:?}"));
        writer.apply(writer.commit().op(op)).await?;
        ensure!(kit.mark(&session).await? != mark, "the mark does not notice {what}");
        ensure_eq!(kit.row(&session).await?.revision, row.revision + 1, "the revision after {what}");
    }
    let mark = kit.workspace_mark().await?;
    writer.put(put("loose", "k", "1")).await?;
    ensure!(
        kit.workspace_mark().await? != mark,
        "the workspace's mark does not notice a record that nobody owns"
    );
    let (mark, of_session) = (kit.workspace_mark().await?, kit.mark(&session).await?);
    let fence = writer.acquire(&session, cx.lease_ms()).await?;
    writer.release(&fence).await?;
    ensure_eq!(
        (kit.workspace_mark().await?, kit.mark(&session).await?),
        (mark, of_session),
        "marks after a lease came and went"
    );
    Ok(())
}

async fn iso_003_a_write_is_read_through_every_handle(cx: &Context) -> Outcome {
    let kits = cx.kits(3).await?;
    let session = kits[0].create("s").await?;
    for round in 0..45_usize {
        let writer = &kits[round % 3];
        let text = format!("round {round}");
        let number = writer.say(&session, &text).await?;
        writer.put(put("c", "k", &round.to_string())).await?;
        for (handle, reader) in kits.iter().enumerate() {
            let last = EntryQuery { after: EntryNo::new(number.get() - 1), ..reader.committed(&session) };
            let seen: Vec<_> = reader.walk(last).await?.into_iter().filter_map(|entry| entry.text).collect();
            ensure_eq!(seen, [text.as_str()], "entries after the last one, through handle {handle}");
            ensure_eq!(reader.row(&session).await?.head, Some(number), "the head through handle {handle}");
            let record = reader.record("c", "k").await?.map(|record| record.payload.as_str().to_owned());
            ensure_eq!(record, Some(round.to_string()), "the record through handle {handle}");
        }
    }
    Ok(())
}

async fn iso_004_reads_never_go_back(cx: &Context) -> Outcome {
    let (kit, readers) = (cx.kit().await?, cx.kits(3).await?);
    let session = kit.create("s").await?;
    let watch = Watch::default();
    let reading = spawn({
        let (session, watch) = (session.clone(), watch.clone());
        async move {
            let (mut head, mut revision, mut listed) = (0, 0, 0);
            for look in 0..Watch::MOST {
                let over = watch.is_last();
                let reader = &readers[look % readers.len()];
                let row = reader.row(&session).await?;
                let seen = row.head.map_or(0, EntryNo::get);
                ensure!(seen >= head, "the head went back from {head} to {seen}");
                ensure!(seen as usize >= listed, "the head is {seen} after {listed} entries were read");
                ensure!(
                    row.revision >= revision,
                    "the revision went back from {revision} to {}",
                    row.revision
                );
                (head, revision) = (seen, row.revision);
                let count =
                    reader.walk(EntryQuery { limit: 10_000, ..reader.committed(&session) }).await?.len();
                ensure!(count >= head as usize, "{count} entries after the head was seen at {head}");
                ensure!(count >= listed, "entries went back from {listed} to {count}");
                listed = count;
                if over {
                    break;
                }
                watch.looked(look).await;
            }
            Ok(listed)
        }
    });
    let mut written = Ok(());
    for round in 0..80 {
        watch.be_seen().await;
        written = kit.say(&session, &format!("round {round}")).await.map(|_| ());
        if written.is_err() {
            break;
        }
    }
    watch.end();
    let seen = gather(vec![reading]).await?;
    written?;
    ensure_eq!(seen, [80], "entries that the reader saw at the end");
    Ok(())
}

async fn iso_005_one_session_is_unchanged_by_another(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (quiet, busy) = (kit.create("quiet").await?, kit.create("busy").await?);
    for session in [&quiet, &busy] {
        kit.append(session, vec![crate::kit::keyed("k", "one"), user("two"), user("three")]).await?;
        kit.start(session, run("r")).await?;
        let events = Op::AppendEvents {
            session: session.clone(),
            stream: name("notes"),
            expect_next: None,
            events: vec![event("n", 1)],
        };
        kit.apply(kit.commit().op(events)).await?;
    }
    let mut owned = put("c", "of quiet", "1");
    owned.owner = Some(quiet.clone());
    kit.put(owned).await?;
    let row = kit.row(&quiet).await?;
    let rows = kit.rows(kit.rows_of(&quiet)).await?;

    let s = || busy.clone();
    let patch = SessionPatch { meta: Some(Some(payload("[1]"))), archived: Some(true), ..Default::default() };
    let mut other = put("c", "of busy", "1");
    other.owner = Some(busy.clone());
    let work = kit
        .appending(&busy, (0..30).map(|_| user("noise")).collect())
        .op(Op::MoveLeaf { session: s(), to: Some(no(2)) })
        .op(Op::PatchSession { session: s(), patch })
        .op(Op::DropEvents { session: s(), stream: name("notes"), through: None, close: true })
        .op(Op::AddUsage {
            session: s(),
            run: Some(name("r")),
            usage: turnkeep_core::model::Usage { requests: 7, ..Default::default() },
        })
        .op(kit.moving(&busy, &name("r"), turnkeep_core::model::RunState::Failed))
        .op(Op::ReopenRun { session: s(), run: name("r") })
        .op(Op::PutRecord(other));
    kit.apply(work).await?;
    kit.apply(kit.commit().op(Op::DeleteSession { session: s(), force: true })).await?;
    if let Some(maintenance) = kit.store.maintenance() {
        // A store without a purge of its own answers Unsupported; the row checks below hold either way.
        let _ = maintenance.purge().await;
    }
    ensure_eq!(kit.row(&quiet).await?, row, "the row of the quiet session");
    ensure_eq!(kit.rows(kit.rows_of(&quiet)).await?, rows, "the rows of the quiet session");
    Ok(())
}

async fn iso_006_returned_values_are_no_aliases(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let mut given = vec![user("one"), user("two")];
    kit.append(&session, given.clone()).await?;
    given.iter_mut().for_each(|entry| entry.text = Some("changed".to_owned()));
    let rows = kit.rows(kit.rows_of(&session)).await?;
    let mut seen = kit.entries(&session).await?;
    for entry in &mut seen {
        entry.text = Some("changed".to_owned());
        entry.payload = payload("null");
        entry.refs.clear();
    }
    let mut row = kit.row(&session).await?;
    row.profile.pinned = true;
    row.head = None;
    ensure_eq!(kit.texts(&session).await?, ["one", "two"], "texts after the returned ones were changed");
    ensure_eq!(kit.rows(kit.rows_of(&session)).await?, rows, "rows after the returned ones were changed");
    ensure!(!kit.row(&session).await?.profile.pinned, "a returned session row is an alias");
    Ok(())
}
