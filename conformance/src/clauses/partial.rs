//! Partial appends: streamed text is kept while it arrives, and never passes for a finished message.

mod killed;

use std::time::Duration;

use turnkeep_core::commit::{Commit, Fence, NewEntry, NewEvent, Op};
use turnkeep_core::model::{Row, RowKind, Visibility, VisibilitySet, stream};
use turnkeep_core::query::{EntryQuery, RowQuery};
use turnkeep_core::{Durability, ErrorKind, Guard, SessionRef};

use crate::clause::Kind;
use crate::context::Context;
use crate::kit::{Kit, event, gather, name, no, note, spawn, user};
use crate::verdict::Outcome;
use killed::par_005_a_kill_leaves_what_was_acknowledged_of_a_stream;

clauses! { ($) partial_tests;
    "PAR-001" par_001_partials_are_flagged_and_absent_from_committed_history {
        title: "A partial is flagged as such and absent from committed history, paths and counters; streamed pieces are no entries at all.",
        why: "Half an answer that is replayed as a whole one misleads the model and the person.",
        catches: "a backend that loses the visibility of an entry",
    }
    "PAR-002" par_002_a_partial_is_finalised_exactly_once {
        title: "Finalising a streamed message, the message and the end of its stream in one commit, happens exactly once.",
        why: "A retried finalisation would add the answer twice.",
        catches: "a backend that closes a stream twice without noticing",
    }
    "PAR-003" par_003_a_late_piece_is_refused {
        title: "A piece that arrives after its stream was closed is refused with TurnNotOpen, also when the stream was closed before its first piece.",
        why: "A late piece would reopen a message that readers have seen finished.",
        catches: "a backend that forgets a closed stream",
    }
    "PAR-004" par_004_a_repeated_piece_changes_nothing_and_a_gap_is_refused {
        title: "A repeat of the newest batch changes nothing and answers the same numbers; a gap or another content at a used number is refused.",
        why: "A stream over a network repeats and loses pieces.",
        catches: "a backend that appends whatever comes",
    }
    "PAR-005" par_005_a_kill_leaves_what_was_acknowledged_of_a_stream {
        title: "A kill while text streams in leaves every acknowledged piece, whole batches without a hole and whole characters, and whoever goes on repeats or misses none.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: Duration::from_secs(300),
        why: "The words that a person saw arrive are the ones that they expect to find.",
        catches: "a backend that gathers streamed pieces and writes them now and then",
        peer: Some(killed::stream),
    }
    "PAR-006" par_006_an_abandoned_partial_is_found_and_discarded {
        title: "A stream that its writer abandoned is found among the rows of its session and can be discarded.",
        why: "Text that nobody finds is text lost, and text that nobody can remove stays for ever.",
        catches: "a backend that lists streams only through their events",
    }
    "PAR-007" par_007_streams_at_the_same_time_never_interleave {
        title: "Streams written at the same time keep their own contiguous numbers and their own pieces, and batches stay together.",
        kind: Kind::Stochastic,
        why: "Two answers mixed word by word cannot be taken apart again.",
        catches: "a backend that numbers events per session instead of per stream",
    }
}

fn pieces(kit: &Kit, session: &SessionRef, turn: &str, next: Option<u64>, events: Vec<NewEvent>) -> Commit {
    let stream = name(&format!("{}{turn}", stream::PARTIAL_PREFIX));
    kit.commit().op(Op::AppendEvents { session: session.clone(), stream, expect_next: next, events })
}

fn closing(session: &SessionRef, turn: &str) -> Op {
    let stream = name(&format!("{}{turn}", stream::PARTIAL_PREFIX));
    Op::DropEvents { session: session.clone(), stream, through: None, close: true }
}

async fn par_001_partials_are_flagged_and_absent_from_committed_history(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.say(&session, "question").await?;
    kit.apply(pieces(&kit, &session, "t", Some(1), vec![event("text", 1), event("text", 2)])).await?;
    let partial = NewEntry { visibility: Visibility::Partial, advance_leaf: false, ..user("half an ans") };
    let internal = NewEntry { visibility: Visibility::Internal, ..user("summary") };
    kit.append(&session, vec![partial, internal, user("again")]).await?;

    ensure_eq!(kit.texts(&session).await?, ["question", "summary", "again"], "committed history");
    let all = kit.walk(kit.every_entry(&session)).await?;
    let flags: Vec<_> =
        all.iter().map(|entry| (entry.number.get(), entry.visibility, entry.on_path)).collect();
    let expected = [
        (1, Visibility::Conversation, true),
        (2, Visibility::Partial, false),
        (3, Visibility::Internal, true),
        (4, Visibility::Conversation, true),
    ];
    ensure_eq!(flags, expected, "all entries with their flags");
    let only = EntryQuery { visibility: VisibilitySet::only(Visibility::Partial), ..kit.committed(&session) };
    ensure_eq!(kit.walk(only).await?.len(), 1, "partials when asked for");
    ensure_eq!(
        all.get(2).and_then(|entry| entry.parent),
        Some(no(1)),
        "the parent of the entry after a partial"
    );
    let row = kit.row(&session).await?;
    ensure_eq!(
        (row.messages, row.path.leaf, row.head),
        (2, Some(no(4)), Some(no(4))),
        "messages, leaf, head"
    );
    let path = EntryQuery { path: Some(turnkeep_core::query::PathTo::Leaf), ..kit.every_entry(&session) };
    let on_path: Vec<_> = kit.walk(path).await?.iter().map(|entry| entry.number.get()).collect();
    ensure_eq!(on_path, [1, 3, 4], "the path of the leaf");
    Ok(())
}

async fn par_002_a_partial_is_finalised_exactly_once(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.apply(pieces(&kit, &session, "t", Some(1), vec![event("text", 1)])).await?;
    let finalise = || {
        kit.appending(
            &session,
            vec![user("the answer"), NewEntry { key: Some(name("turn/t/end")), ..note("") }],
        )
        .op(closing(&session, "t"))
    };
    let mut racers = Vec::new();
    for _ in 0..6 {
        let (kit, commit) = (cx.kit().await?, finalise());
        racers.push(spawn(async move {
            match kit.store.commit(commit).await {
                Ok(_) => Ok(1),
                Err(error) => {
                    ensure_refused!(Err::<(), _>(error), ErrorKind::AlreadyExists, "a second finalisation");
                    Ok(0)
                }
            }
        }));
    }
    ensure_eq!(gather(racers).await?.iter().sum::<i32>(), 1, "finalisations that happened");
    let before = kit.snapshot().await?;
    kit.refused(finalise(), ErrorKind::AlreadyExists).await?;
    let unless_open =
        finalise().guard(Guard::KeyAbsent { session: session.clone(), key: name("turn/t/end") });
    kit.refused(unless_open, ErrorKind::AlreadyExists).await?;
    kit.unchanged(&before, "finalising again").await?;
    let answers = kit.texts(&session).await?.iter().filter(|text| *text == "the answer").count();
    ensure_eq!(answers, 1, "answers in the history");
    ensure_eq!(kit.events(kit.stream(&session, "partial/t")).await?.len(), 0, "pieces left");
    Ok(())
}

async fn par_003_a_late_piece_is_refused(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.apply(pieces(&kit, &session, "t", Some(1), vec![event("text", 1), event("text", 2)])).await?;
    kit.apply(kit.commit().op(closing(&session, "t")).op(closing(&session, "never"))).await?;
    let before = kit.snapshot().await?;
    for (turn, next) in [("t", None), ("t", Some(3)), ("never", None), ("never", Some(1))] {
        let late = pieces(&kit, &session, turn, next, vec![event("text", 9)]);
        kit.refused(late, ErrorKind::TurnNotOpen).await?;
    }
    kit.apply(kit.commit().op(closing(&session, "t"))).await?;
    kit.unchanged(&before, "late pieces and closing again").await?;
    let other = cx.kit().await?;
    let late = pieces(&other, &session, "t", Some(3), vec![event("text", 9)]);
    other.refused(late, ErrorKind::TurnNotOpen).await?;
    Ok(())
}

async fn par_004_a_repeated_piece_changes_nothing_and_a_gap_is_refused(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let batch = |first: u64| vec![event("text", first), event("text", first + 1)];
    let send = |next: u64| pieces(&kit, &session, "t", Some(next), batch(next));
    kit.apply(send(1)).await?;
    let first = kit.apply(send(3)).await?;
    let before = kit.snapshot().await?;
    for _ in 0..3 {
        let again = kit.apply(send(3)).await?;
        ensure_eq!(again.outcomes, first.outcomes, "the receipt of a repeat");
    }
    // A repeat may be stamped with another time.
    let mut later = batch(3);
    later.iter_mut().for_each(|event| event.at = event.at.plus_ms(5));
    kit.apply(pieces(&kit, &session, "t", Some(3), later)).await?;
    kit.unchanged(&before, "repeating the newest batch").await?;
    let refused = [
        ("a gap", send(6)),
        ("a piece before the newest batch", send(1)),
        ("another content at a used number", pieces(&kit, &session, "t", Some(3), batch(4))),
        ("a shorter batch at a used number", pieces(&kit, &session, "t", Some(3), vec![event("text", 3)])),
        (
            "a longer batch at a used number",
            pieces(&kit, &session, "t", Some(3), [batch(3), batch(5)].concat()),
        ),
        ("a batch that overlaps the end", pieces(&kit, &session, "t", Some(4), batch(4))),
    ];
    for (what, commit) in refused {
        kit.refused(commit, ErrorKind::VersionConflict).await?;
        kit.unchanged(&before, what).await?;
    }
    kit.apply(send(5)).await?;
    let seen: Vec<_> =
        kit.events(kit.stream(&session, "partial/t")).await?.iter().map(|e| e.number).collect();
    ensure_eq!(seen, [1, 2, 3, 4, 5, 6], "numbers of the stream");
    Ok(())
}

async fn par_006_an_abandoned_partial_is_found_and_discarded(cx: &Context) -> Outcome {
    let writer = cx.kit().await?;
    let session = writer.create("s").await?;
    writer.apply(pieces(&writer, &session, "t", Some(1), vec![event("text", 1), event("text", 2)])).await?;
    writer.apply(pieces(&writer, &session, "u", Some(1), vec![event("text", 1)])).await?;
    writer.apply(writer.commit().op(closing(&session, "u"))).await?;
    let kit = cx.kit().await?;
    let streams = || RowQuery { kinds: vec![RowKind::Stream], ..kit.rows_of(&session) };
    let open = |rows: Vec<Row>| -> Vec<String> {
        let open = rows.into_iter().filter_map(|row| match row {
            Row::Stream(stream) if !stream.closed => Some(stream.name.as_str().to_owned()),
            _ => None,
        });
        open.collect()
    };
    ensure_eq!(open(kit.rows(streams()).await?), ["partial/t"], "open streams before");
    ensure_eq!(kit.events(kit.stream(&session, "partial/t")).await?.len(), 2, "pieces to rescue");
    kit.apply(kit.commit().op(closing(&session, "t"))).await?;
    ensure_eq!(open(kit.rows(streams()).await?), [""; 0], "open streams after");
    ensure_eq!(kit.events(kit.stream(&session, "partial/t")).await?.len(), 0, "pieces after discarding");
    Ok(())
}

async fn par_007_streams_at_the_same_time_never_interleave(cx: &Context) -> Outcome {
    const STREAMS: u64 = 6;
    const BATCHES: u64 = 25;
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let fence = kit.acquire(&session, 60_000).await?;
    let mut writers = Vec::new();
    for of in 0..STREAMS {
        let (kit, session, fence): (Kit, SessionRef, Fence) = (kit.clone(), session.clone(), fence.clone());
        writers.push(spawn(async move {
            for batch in 0..BATCHES {
                let events = (0..3).map(|at| event("text", of * 1_000 + batch * 3 + at)).collect();
                let next = batch * 3 + 1;
                let commit = pieces(&kit, &session, &of.to_string(), Some(next), events);
                kit.apply(commit.fence(fence.clone())).await?;
            }
            Ok(())
        }));
    }
    gather(writers).await?;
    for of in 0..STREAMS {
        let events = kit.events(kit.stream(&session, &format!("partial/{of}"))).await?;
        ensure_eq!(events.len() as u64, BATCHES * 3, "pieces of stream {of}");
        for (at, seen) in (0..).zip(&events) {
            ensure_eq!(seen.number, at + 1, "the number at place {at} of stream {of}");
            let expected = event("text", of * 1_000 + at).payload;
            ensure_eq!(seen.payload.as_str(), expected.as_str(), "the piece at place {at} of stream {of}");
        }
    }
    let stray = pieces(&kit, &session, "0", None, vec![event("text", 0)]);
    kit.refused(stray, ErrorKind::LeaseHeld).await?;
    Ok(())
}
