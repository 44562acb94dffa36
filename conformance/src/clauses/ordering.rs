//! Ordering: the number orders, never a clock, an id or a text comparison.

use turnkeep_core::commit::{NewEntry, Op};
use turnkeep_core::model::{Profile, Row, StreamRow};
use turnkeep_core::query::{EntryQuery, EventQuery, RecordQuery, RunQuery};
use turnkeep_core::{EntryNo, ErrorKind, Guard, Order, SessionRef, Timestamp};

use crate::clause::Kind;
use crate::context::Context;
use crate::kit::{Kit, Watch, event, gather, name, no, put, run, spawn, user};
use crate::verdict::Outcome;

clauses! { ($) ordering_tests;
    "ORD-001" ord_001_equal_timestamps_keep_append_order_case_01_case_02 {
        title: "Entries with equal timestamps are read in the order in which they were appended, also when appends to several sessions interleave.",
        why: "Items saved in the same instant swapped on load, and the model refused the history.",
        links: &["openai/openai-agents-python#1900", "google/adk-python#453"],
        catches: "a backend that orders entries by time, or by nothing",
        cases: &["case-01", "case-02"],
    }
    "ORD-002" ord_002_a_backward_clock_reorders_nothing_case_06 {
        title: "A clock that stands still or runs backwards changes no order and refuses no append; only a number or revision that moved does.",
        why: "Staleness checks by wall-clock time reject near-equal times and follow time zones.",
        links: &["NousResearch/hermes-agent#25589", "google/adk-python#3717"],
        catches: "a backend that orders or guards by time",
        cases: &["case-06"],
    }
    "ORD-003" ord_003_a_number_is_never_given_twice {
        title: "A number that was readable is never given to another entry or event: not after a refused commit, a moved leaf, dropped events or reopening.",
        why: "A number is an entry's id; a reused one makes old references point at new words.",
        catches: "a backend that numbers by counting rows or by the highest row left",
    }
    "ORD-004" ord_004_numbers_order_as_numbers {
        title: "Entries, events, runs and ordinals order as numbers, not as text: across 9/10, 99/100, 2^31 and 2^32.",
        why: "Numbers kept as text, or cut to 32 bits, order well in every short test.",
        catches: "a backend that keeps a number as text or in a signed 32-bit column",
    }
    "ORD-005" ord_005_the_last_n_are_the_newest_in_order {
        title: "The last n are the newest n, given ascending; the pages before them go on backwards, each ascending.",
        why: "A 'last n' that returns the oldest n, or the newest upside down, feeds the model a wrong conversation.",
        links: &["mem0ai/mem0#5661"],
        catches: "a backend that limits before it orders",
    }
    "ORD-006" ord_006_descending_is_the_exact_reverse {
        title: "Descending order is the exact reverse of ascending order, for every query and every page size.",
        why: "A tie broken the same way in both directions makes two walks disagree.",
        catches: "a backend whose descending order has another tie-break",
    }
    "ORD-007" ord_007_no_lower_number_appears_after_a_higher_one {
        title: "Once a number was readable, no lower number of that session or stream appears later: every read is a prefix.",
        kind: Kind::Stochastic,
        why: "Sequences give numbers before the commit, so a reader that goes on after the highest misses entries for ever.",
        links: &["mcp-hangar/mcp-hangar#793", "Eventuous/eventuous#222"],
        catches: "a backend that draws numbers from a sequence outside the transaction",
    }
    "ORD-008" ord_008_a_batch_of_ten_thousand_keeps_its_order {
        title: "A batch of 10,000 entries in one commit keeps its order and gets one contiguous range of numbers.",
        why: "Bulk inserts may be split, sorted or parallelised underneath.",
        catches: "a backend that splits a large batch and reorders the parts",
    }
}

/// Two sessions appended to in turns, all entries at one time, read a hundred times.
async fn ord_001_equal_timestamps_keep_append_order_case_01_case_02(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (a, b) = (kit.create("a").await?, kit.create("b").await?);
    let mut expected = (Vec::new(), Vec::new());
    for round in 0..5 {
        let batch: Vec<String> = (0..10).map(|at| format!("batch {round}, item {}", 9 - at)).collect();
        kit.append(&a, batch.iter().map(|text| user(text)).collect()).await?;
        expected.0.extend(batch);
        for at in 0..3 {
            let text = format!("single {}", 100 - round * 3 - at);
            kit.say(&b, &text).await?;
            expected.1.push(text);
        }
    }
    for load in 0..100 {
        ensure_eq!(kit.texts(&a).await?, expected.0, "load {load} of the batches");
        ensure_eq!(kit.texts(&b).await?, expected.1, "load {load} of the single appends");
    }
    Ok(())
}

/// The caller's times and, where it can be set, the store's clock run backwards.
async fn ord_002_a_backward_clock_reorders_nothing_case_06(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (session, other) = (kit.create("s").await?, kit.create("other").await?);
    let start = kit.now();
    let mut changed = kit.row(&session).await?.updated_at;
    for step in 0..20_i64 {
        if let Some(clock) = cx.clock() {
            // Twice the same millisecond, then an hour back.
            clock.set(start.plus_ms(-3_600_000 * (step / 2)));
        }
        let head = kit.row(&session).await?.head;
        let at = Timestamp::from_millis(1_700_000_000_000 - step * 60_000);
        let entry = NewEntry { at, ..user(&format!("step {step}")) };
        let guarded =
            kit.appending(&session, vec![entry]).guard(Guard::Head { session: session.clone(), head });
        kit.apply(guarded).await?;
        let row = kit.row(&session).await?;
        ensure!(row.updated_at >= changed, "updated_at moved backwards: {changed:?} to {:?}", row.updated_at);
        changed = row.updated_at;
        let first = kit.ids(kit.list()).await?.into_iter().next();
        ensure_eq!(first.as_deref(), Some("s"), "the session touched last is first after step {step}");
        if step % 5 == 4 {
            kit.say(&other, "in between").await?;
            let first = kit.ids(kit.list()).await?.into_iter().next();
            ensure_eq!(first.as_deref(), Some("other"), "the other session is first once touched");
        }
    }
    let expected: Vec<String> = (0..20).map(|step| format!("step {step}")).collect();
    ensure_eq!(kit.texts(&session).await?, expected, "order under a backward clock");
    let stale = Guard::Head { session: session.clone(), head: Some(no(19)) };
    kit.refused(kit.appending(&session, vec![user("late")]).guard(stale), ErrorKind::StaleLeaf).await?;
    Ok(())
}

/// Numbers go on after everything that could tempt a backend to count again.
async fn ord_003_a_number_is_never_given_twice(cx: &Context) -> Outcome {
    let mut kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let numbers = kit.append(&session, vec![user("one"), user("two"), user("three")]).await?;
    ensure_eq!(numbers, [no(1), no(2), no(3)], "numbers start at 1");

    let doomed = kit
        .appending(&session, vec![user("never"), user("seen")])
        .guard(Guard::KeyPresent { session: session.clone(), key: name("missing") });
    kit.refused(doomed, ErrorKind::NotFound).await?;
    let doomed =
        kit.appending(&session, vec![user("never")]).op(Op::CreateSession(kit.new_session(&session)));
    kit.refused(doomed, ErrorKind::AlreadyExists).await?;
    ensure_eq!(kit.say(&session, "four").await?.get(), 4, "the number after two refused appends");

    kit.apply(kit.commit().op(Op::MoveLeaf { session: session.clone(), to: Some(no(1)) })).await?;
    ensure_eq!(kit.say(&session, "five").await?.get(), 5, "the number after the leaf moved back");

    let stream = || name("notes");
    let events = |first: u64, count: u64| Op::AppendEvents {
        session: session.clone(),
        stream: stream(),
        expect_next: None,
        events: (first..first + count).map(|n| event("note", n)).collect(),
    };
    kit.apply(kit.commit().op(events(1, 5))).await?;
    let drop = Op::DropEvents { session: session.clone(), stream: stream(), through: None, close: false };
    kit.apply(kit.commit().op(drop)).await?;
    if cx.manifest.capabilities.persistent {
        kit = cx.reopen(kit).await?;
    }
    kit.apply(kit.commit().op(events(6, 1))).await?;
    let left = kit.events(kit.stream(&session, "notes")).await?;
    ensure_eq!(left.iter().map(|event| event.number).collect::<Vec<_>>(), [6], "events after dropping all");
    ensure_eq!(kit.say(&session, "six").await?.get(), 6, "the number after everything");
    Ok(())
}

fn stories(count: usize) -> Vec<NewEntry> {
    (1..=count).map(|at| user(&format!("entry {at}"))).collect()
}

fn numbers<T>(items: &[T], number: impl Fn(&T) -> u64) -> Vec<u64> {
    items.iter().map(number).collect()
}

/// Restores a stream whose next event gets the number after `head`.
async fn stream_at(kit: &Kit, id: &str, head: u64) -> Outcome<SessionRef> {
    let (session, fence) = kit.begin_restore(id, Profile::default()).await?;
    let stream = StreamRow {
        name: name("long"),
        head,
        floor: head,
        closed: false,
        batch_first: 0,
        batch_digest: [0; 32],
    };
    let restore = Op::Restore { session: session.clone(), rows: vec![Row::Stream(stream)] };
    kit.apply(kit.commit().fence(fence.clone()).op(restore)).await?;
    kit.seal(&session, &fence, None).await?;
    Ok(session)
}

async fn ord_004_numbers_order_as_numbers(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    for batch in [8, 1, 1, 1, 88, 1, 1, 1, 18] {
        kit.append(&session, stories(batch)).await?;
    }
    let seen = kit.walk(EntryQuery { limit: 7, ..kit.committed(&session) }).await?;
    let expected: Vec<u64> = (1..=120).collect();
    ensure_eq!(numbers(&seen, |entry| entry.number.get().into()), expected, "120 entries in pages of 7");
    let between = EntryQuery { after: Some(no(9)), before: Some(no(100)), ..kit.committed(&session) };
    let seen = kit.walk(between).await?;
    ensure_eq!(numbers(&seen, |entry| entry.number.get().into()), (10..100).collect::<Vec<u64>>(), "bounds");

    for at in 1..=12 {
        let id = format!("r{}", 13 - at);
        kit.start(&session, run(&id)).await?;
        kit.apply(kit.commit().op(kit.moving(&session, &name(&id), turnkeep_core::model::RunState::Failed)))
            .await?;
        kit.put(put("c", &format!("k{}", 13 - at), "0")).await?;
    }
    let runs = kit.runs(kit.runs_of(&session)).await?;
    ensure_eq!(
        numbers(&runs, |run| run.number.into()),
        (1..=12).collect::<Vec<u64>>(),
        "runs by their number"
    );
    let records = kit.records(kit.collection("c")).await?;
    ensure_eq!(
        numbers(&records, |record| record.ordinal),
        (1..=12).collect::<Vec<u64>>(),
        "records by ordinal"
    );

    for head in [7, 98, (1_u64 << 31) - 3, (1 << 32) - 3, (1 << 53) - 3] {
        let session = stream_at(&kit, &format!("at {head}"), head).await?;
        for n in 0..6 {
            let append = Op::AppendEvents {
                session: session.clone(),
                stream: name("long"),
                expect_next: Some(head + 1 + n),
                events: vec![event("step", n)],
            };
            kit.apply(kit.commit().op(append)).await?;
        }
        let expected: Vec<u64> = (head + 1..=head + 6).collect();
        let seen = kit.events(EventQuery { limit: 2, ..kit.stream(&session, "long") }).await?;
        ensure_eq!(numbers(&seen, |event| event.number), expected, "events after {head}");
        let middle =
            EventQuery { after: Some(head + 2), before: Some(head + 5), ..kit.stream(&session, "long") };
        let seen = kit.events(middle).await?;
        ensure_eq!(numbers(&seen, |event| event.number), [head + 3, head + 4], "bounds after {head}");
    }
    Ok(())
}

async fn ord_005_the_last_n_are_the_newest_in_order(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, stories(25)).await?;
    for last in [1_u32, 2, 10, 24, 25, 26] {
        let mut query = EntryQuery { order: Order::Latest, limit: last, ..kit.committed(&session) };
        let mut end = 25_u64;
        for _page in 0..30 {
            let page = kit.store.entries(&query).await?;
            let first = end.saturating_sub(u64::from(last)) + 1;
            ensure_eq!(
                numbers(&page.items, |entry| entry.number.get().into()),
                (first..=end).collect::<Vec<u64>>(),
                "a page of the last {last}"
            );
            end = first - 1;
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
        ensure_eq!(end, 0, "entries that the pages of the last {last} left out");
    }
    let before =
        EntryQuery { order: Order::Latest, limit: 3, before: Some(no(10)), ..kit.committed(&session) };
    let page = kit.store.entries(&before).await?;
    ensure_eq!(numbers(&page.items, |entry| entry.number.get().into()), [7, 8, 9], "the last 3 before 10");
    Ok(())
}

async fn ord_006_descending_is_the_exact_reverse(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, stories(23)).await?;
    let stream = Op::AppendEvents {
        session: session.clone(),
        stream: name("notes"),
        expect_next: None,
        events: (1..=23).map(|n| event("note", n)).collect(),
    };
    kit.apply(kit.commit().op(stream)).await?;
    for at in 0..23 {
        kit.put(put("c", &format!("k{}", at * 7 % 23), "0")).await?;
        // Owned records count per owner, so their ordinals tie with the others and the key decides.
        let mut owned = put("c", &format!("o{}", at * 5 % 23), "0");
        owned.owner = Some(session.clone());
        kit.put(owned).await?;
        let id = format!("r{at}");
        kit.start(&session, run(&id)).await?;
        kit.apply(kit.commit().op(kit.moving(
            &session,
            &name(&id),
            turnkeep_core::model::RunState::Completed,
        )))
        .await?;
    }
    let entries = kit.entries(&session).await?;
    let events = kit.events(kit.stream(&session, "notes")).await?;
    let runs = kit.runs(kit.runs_of(&session)).await?;
    let records = kit.records(kit.collection("c")).await?;
    ensure_eq!(
        (entries.len(), events.len(), runs.len(), records.len()),
        (23, 23, 23, 46),
        "items read ascending"
    );
    for limit in [1, 5, 22, 23, 24, 100] {
        let order = Order::Descending;
        let mut seen = kit.walk(EntryQuery { order, limit, ..kit.committed(&session) }).await?;
        seen.reverse();
        ensure_eq!(seen, entries, "entries descending in pages of {limit}");
        let mut seen = kit.events(EventQuery { order, limit, ..kit.stream(&session, "notes") }).await?;
        seen.reverse();
        ensure_eq!(seen, events, "events descending in pages of {limit}");
        let mut seen = kit.runs(RunQuery { order, limit, ..kit.runs_of(&session) }).await?;
        seen.reverse();
        ensure_eq!(seen, runs, "runs descending in pages of {limit}");
        let mut seen = kit.records(RecordQuery { order, limit, ..kit.collection("c") }).await?;
        seen.reverse();
        ensure_eq!(seen, records, "records descending in pages of {limit}");
    }
    Ok(())
}

/// Four writers on one session, two readers that check that what they see only grows at its end.
async fn ord_007_no_lower_number_appears_after_a_higher_one(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let watch = Watch::default();
    let mut writers = Vec::new();
    for writer in 0..4_u64 {
        let (kit, session, watch) = (cx.kit().await?, session.clone(), watch.clone());
        writers.push(spawn(async move {
            for round in 0..30 {
                if round % 3 == 0 {
                    watch.be_seen().await;
                }
                let events = Op::AppendEvents {
                    session: session.clone(),
                    stream: name("notes"),
                    expect_next: None,
                    events: vec![event("note", writer * 1_000 + round)],
                };
                kit.apply(kit.appending(&session, stories(1 + (round as usize % 3))).op(events)).await?;
            }
            Ok(())
        }));
    }
    let mut readers = Vec::new();
    for _ in 0..2 {
        let (kit, session, watch) = (cx.kit().await?, session.clone(), watch.clone());
        readers.push(spawn(async move {
            let (mut entries, mut events) = (0, 0);
            for look in 0..Watch::MOST {
                let last = watch.is_last();
                let after = EntryNo::new(entries);
                let new = kit.walk(EntryQuery { after, limit: 10_000, ..kit.committed(&session) }).await?;
                for entry in &new {
                    ensure_eq!(entry.number.get(), entries + 1, "the entry after #{entries} was read");
                    entries += 1;
                }
                let new =
                    kit.events(EventQuery { after: Some(events), ..kit.stream(&session, "notes") }).await?;
                for event in &new {
                    ensure_eq!(event.number, events + 1, "the event after {events} was read");
                    events += 1;
                }
                if last {
                    break;
                }
                watch.looked(look).await;
            }
            Ok((entries, events))
        }));
    }
    let written = gather(writers).await;
    watch.end();
    for seen in gather(readers).await? {
        written.as_ref().map_err(|stop| crate::verdict::Stop::fail(stop.to_string()))?;
        ensure_eq!(seen, (4 * 60, 4 * 30), "entries and events that a tailing reader saw in all");
    }
    Ok(())
}

async fn ord_008_a_batch_of_ten_thousand_keeps_its_order(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.say(&session, "before").await?;
    let receipt = kit.apply(kit.appending(&session, stories(10_000))).await?;
    ensure_eq!(receipt.entries(0).count(), 10_000, "numbers in the receipt");
    ensure_eq!(receipt.entries(0).next(), Some(no(2)), "the first number of the batch");
    ensure_eq!(receipt.entries(0).last(), Some(no(10_001)), "the last number of the batch");
    let seen = kit.walk(EntryQuery { after: Some(no(1)), limit: 10_000, ..kit.committed(&session) }).await?;
    ensure_eq!(seen.len(), 10_000, "entries of the batch");
    for (at, entry) in (1..).zip(&seen) {
        ensure_eq!(entry.number, no(at + 1), "the number at place {at}");
        ensure_eq!(entry.text.as_deref(), Some(format!("entry {at}").as_str()), "the words at place {at}");
    }
    Ok(())
}
