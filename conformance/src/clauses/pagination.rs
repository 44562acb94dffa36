//! Pagination: pages add up to the list, whatever happens between them.

use turnkeep_core::commit::{NewRun, Op};
use turnkeep_core::model::{Row, RunState, RunStates, SessionRow};
use turnkeep_core::query::{
    EntryQuery, EventQuery, RecordQuery, RowQuery, RunQuery, SessionOrder, SessionQuery,
};
use turnkeep_core::{Cursor, ErrorKind, Order, SessionRef};

use crate::context::Context;
use crate::kit::{Kit, event, name, put, run, user};
use crate::verdict::Outcome;

clauses! { ($) pagination_tests;
    "PAG-001" pag_001_pages_add_up_to_the_list {
        title: "Pages of any size, of every query and in every order, add up to the full list: nothing twice, nothing left out, no page empty but the only one.",
        why: "Off-by-one at the end of a page loses exactly the entry nobody looks for.",
        catches: "a backend whose cursor is inclusive, or whose last full page has no end",
    }
    "PAG-002" pag_002_changes_between_pages_repeat_nothing {
        title: "Inserts between pages never make an item come twice; a walk by number or id skips nothing that stays, and one by activity misses only what was touched meanwhile.",
        why: "Lists change while people page through them.",
        catches: "a backend whose cursor is an offset",
    }
    "PAG-003" pag_003_a_cursor_survives_the_row_it_names {
        title: "A cursor stays valid when the row it stands at is deleted or dropped.",
        why: "A person deletes the session they see at the bottom of a page, then asks for the next page.",
        catches: "a backend that looks up the cursor's row",
    }
    "PAG-004" pag_004_a_bad_or_foreign_cursor_is_refused {
        title: "A garbled cursor, one of another query and one of another session answer Invalid.",
        why: "A cursor used on the wrong list silently skips.",
        catches: "a backend that trusts any cursor it can parse",
    }
    "PAG-005" pag_005_limits_have_defined_ends {
        title: "A limit of 0 is Invalid; a limit above the store's page limit is served as that limit, with a cursor for the rest.",
        why: "A limit of 0 that means 'all' reads a whole store into memory.",
        catches: "a backend that passes a limit on as it is",
    }
    "PAG-006" pag_006_sessions_touched_in_one_instant_list_in_order_case_04 {
        title: "Sessions touched in one instant list in one documented order, the last change first, on every read; a touched one moves to the front.",
        why: "An unordered list makes 'the latest session' arbitrary.",
        links: &["google/adk-python#6272"],
        catches: "a backend that orders sessions by a time, or not at all",
        cases: &["case-04"],
    }
}

const ITEMS: usize = 11;

/// A session with `ITEMS` of everything, and as many sessions.
async fn filled(kit: &Kit) -> Outcome<SessionRef> {
    let session = kit.create("s00").await?;
    for at in 1..ITEMS {
        kit.create(&format!("s{at:02}")).await?;
    }
    kit.append(&session, (0..ITEMS).map(|at| user(&format!("entry {at}"))).collect()).await?;
    let events = (0..ITEMS as u64).map(|n| event("n", n)).collect();
    let append = |stream: &str, events| {
        kit.commit().op(Op::AppendEvents {
            session: session.clone(),
            stream: name(stream),
            expect_next: None,
            events,
        })
    };
    kit.apply(append("notes", events)).await?;
    for beside in ["before", "then"] {
        kit.apply(append(beside, vec![event("n", 1), event("n", 2)])).await?;
    }
    for at in 0..ITEMS {
        let id = format!("r{at}");
        kit.start(&session, run(&id)).await?;
        kit.apply(kit.commit().op(kit.moving(&session, &name(&id), RunState::Completed))).await?;
        kit.put(put("c", &format!("k{at}"), "0")).await?;
    }
    Ok(session)
}

/// Walks a query in pages of every interesting size and compares with what one page gives.
macro_rules! pages_add_up {
    ($kit:ident.$read:ident($query:expr), $what:expr) => {{
        let mut whole = $query;
        whole.limit = 10_000;
        let full = $kit.store.$read(&whole).await?;
        ensure!(full.next.is_none(), "{} all on one page, but with a cursor", $what);
        let count = full.items.len();
        ensure!(count >= ITEMS, "{}: only {count} items", $what);
        for limit in [1, 2, count - 1, count, count + 1] {
            let mut query = $query;
            query.limit = u32::try_from(limit).unwrap_or(u32::MAX);
            let (mut items, mut pages) = (Vec::new(), 0);
            loop {
                let page = $kit.store.$read(&query).await?;
                ensure!(!page.items.is_empty(), "{} in pages of {limit}: page {pages} is empty", $what);
                ensure!(page.items.len() <= limit, "{} in pages of {limit}: a page is longer", $what);
                pages += 1;
                items.push(page.items);
                ensure!(pages <= count, "{} in pages of {limit}: the walk does not end", $what);
                query.cursor = page.next;
                if query.cursor.is_none() {
                    break;
                }
            }
            ensure_eq!(pages, count.div_ceil(limit), "{}: pages of {limit}", $what);
            items.iter().rev().skip(1).try_for_each(|page| (page.len() == limit).then_some(())).ok_or_else(
                || crate::verdict::Stop::fail(format!("{}: a page of {limit} is short", $what)),
            )?;
            if $what.ends_with("Latest") {
                items.reverse();
            }
            ensure_eq!(items.concat(), full.items, "{} in pages of {limit}", $what);
        }
    }};
}

/// A run of one name and purpose in every session.
async fn runs_everywhere(kit: &Kit) -> Outcome {
    let mut commit = kit.commit();
    for row in kit.sessions(kit.list_by_id()).await? {
        let run = NewRun { intent: Some(name("job")), ..run("same") };
        commit = commit.op(Op::StartRun { session: row.session_ref(), run });
    }
    kit.apply(commit).await?;
    Ok(())
}

async fn pag_001_pages_add_up_to_the_list(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = filled(&kit).await?;
    runs_everywhere(&kit).await?;
    for order in [Order::Ascending, Order::Descending, Order::Latest] {
        pages_add_up!(
            kit.entries(EntryQuery { order, ..kit.every_entry(&session) }),
            format!("entries, {order:?}")
        );
        let path = Some(turnkeep_core::query::PathTo::Leaf);
        pages_add_up!(
            kit.entries(EntryQuery { order, path, ..kit.every_entry(&session) }),
            format!("entries of a path, {order:?}")
        );
        pages_add_up!(
            kit.events(EventQuery { order, ..kit.stream(&session, "notes") }),
            format!("events, {order:?}")
        );
        pages_add_up!(kit.runs(RunQuery { order, ..kit.runs_of(&session) }), format!("runs, {order:?}"));
        pages_add_up!(
            kit.runs(RunQuery { order, ..RunQuery::new(kit.workspace.clone()) }),
            format!("runs of the workspace, {order:?}")
        );
        let every = || RunQuery { order, ..RunQuery::new(kit.workspace.clone()) };
        pages_add_up!(
            kit.runs(RunQuery { id: Some(name("same")), ..every() }),
            format!("runs of one name, {order:?}")
        );
        pages_add_up!(
            kit.runs(RunQuery { intent: Some(name("job")), ..every() }),
            format!("runs of one purpose, {order:?}")
        );
        pages_add_up!(
            kit.runs(RunQuery { states: RunStates::ACTIVE, ..every() }),
            format!("active runs, {order:?}")
        );
        pages_add_up!(
            kit.records(RecordQuery { order, ..kit.collection("c") }),
            format!("records, {order:?}")
        );
    }
    for order in [SessionOrder::RecentFirst, SessionOrder::Id] {
        pages_add_up!(kit.sessions(SessionQuery { order, ..kit.list() }), format!("sessions, {order:?}"));
    }
    pages_add_up!(kit.rows(kit.rows_of(&session)), "rows of a session".to_owned());
    pages_add_up!(kit.rows(RowQuery::unowned(kit.workspace.clone())), "records that nobody owns".to_owned());

    let second = SessionQuery { offset: 3, limit: 4, total: true, ..kit.list_by_id() };
    let page = kit.store.sessions(&second).await?;
    let ids: Vec<_> = page.items.iter().map(|row| row.id.as_str()).collect();
    ensure_eq!(ids, ["s03", "s04", "s05", "s06"], "a numbered page of sessions");
    ensure_eq!(page.total, Some(ITEMS as u64), "the total beside a numbered page");
    // What comes after a numbered page comes by its cursor alone.
    let rest = SessionQuery { offset: 0, cursor: page.next, ..second };
    let rest = kit.ids(rest).await?;
    let expected: Vec<_> = (7..ITEMS).map(|at| format!("s{at:02}")).collect();
    ensure_eq!(rest, expected, "sessions after a numbered page");
    let nowhere = kit.in_workspace("nowhere");
    let page = nowhere.store.sessions(&SessionQuery { total: true, ..nowhere.list() }).await?;
    ensure_eq!((page.items.len(), page.total), (0, Some(0)), "sessions of a workspace that was never used");
    Ok(())
}

fn ids(rows: &[SessionRow]) -> Vec<String> {
    rows.iter().map(|row| row.id.as_str().to_owned()).collect()
}

async fn pag_002_changes_between_pages_repeat_nothing(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = filled(&kit).await?;
    let mut query = EntryQuery { limit: 4, ..kit.committed(&session) };
    let mut seen = Vec::new();
    for _page in 0..20 {
        let page = kit.store.entries(&query).await?;
        seen.extend(page.items.iter().map(|entry| entry.number.get()));
        if seen.len() < 30 {
            kit.append(&session, vec![user("new"), user("newer")]).await?;
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    ensure!(seen.len() >= ITEMS, "the walk ended after {} entries", seen.len());
    ensure_eq!(seen, (1..=seen.len() as u32).collect::<Vec<_>>(), "a walk by number while entries arrive");

    let mut query = SessionQuery { limit: 3, ..kit.list_by_id() };
    let mut seen = Vec::new();
    for page in 0..40 {
        let answer = kit.store.sessions(&query).await?;
        seen.extend(ids(&answer.items));
        // One before the cursor, one far behind it.
        if page < 4 {
            kit.create(&format!("a{page}")).await?;
            kit.create(&format!("z{page}")).await?;
        }
        query.cursor = answer.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let stayed: Vec<_> = seen.iter().filter(|id| id.starts_with('s')).cloned().collect();
    ensure_eq!(
        stayed,
        (0..ITEMS).map(|at| format!("s{at:02}")).collect::<Vec<_>>(),
        "a walk by id, of what stays"
    );
    ensure!(seen.windows(2).all(|two| two[0] < two[1]), "a walk by id repeats or goes back: {seen:?}");

    let everyone = kit.ids(kit.list()).await?;
    let touched = [everyone[0].clone(), everyone[7].clone(), everyone[12].clone()];
    let mut query = SessionQuery { limit: 4, ..kit.list() };
    let mut seen = Vec::new();
    for page in 0..40 {
        let answer = kit.store.sessions(&query).await?;
        seen.extend(ids(&answer.items));
        if page == 0 {
            for id in &touched {
                if let Some(row) = kit.find(id).await? {
                    kit.say(&row.session_ref(), "touched").await?;
                }
            }
        }
        query.cursor = answer.next;
        if query.cursor.is_none() {
            break;
        }
    }
    for id in &everyone {
        let times = seen.iter().filter(|seen| *seen == id).count();
        ensure!(times <= 1, "{id} came {times} times in a walk by activity");
        ensure!(
            times == 1 || touched.contains(id),
            "{id} was not touched and is missing from a walk by activity"
        );
    }
    Ok(())
}

async fn pag_003_a_cursor_survives_the_row_it_names(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = filled(&kit).await?;
    for order in [SessionOrder::Id, SessionOrder::RecentFirst] {
        let whole = kit.ids(SessionQuery { order, ..kit.list() }).await?;
        ensure!(whole.len() > 3, "only {} sessions are left", whole.len());
        let mut query = SessionQuery { order, limit: 2, ..kit.list() };
        let mut page = kit.store.sessions(&query).await?;
        if let Some(last) = page.items.last() {
            kit.apply(kit.commit().op(Op::DeleteSession { session: last.session_ref(), force: true }))
                .await?;
        }
        query.cursor = page.next.take();
        query.limit = 100;
        let rest = kit.store.sessions(&query).await?;
        ensure_eq!(ids(&rest.items), whole[2..], "sessions after a deleted one, {order:?}");
    }
    let mut query = EventQuery { limit: 4, ..kit.stream(&session, "notes") };
    query.cursor = kit.store.events(&query).await?.next;
    let drop =
        Op::DropEvents { session: session.clone(), stream: name("notes"), through: Some(5), close: false };
    kit.apply(kit.commit().op(drop)).await?;
    let rest: Vec<_> = kit.store.events(&query).await?.items.iter().map(|event| event.number).collect();
    ensure_eq!(rest, [6, 7, 8, 9], "events after dropped ones");

    let mut query = RecordQuery { limit: 3, ..kit.collection("c") };
    query.cursor = kit.store.records(&query).await?.next;
    let gone = Op::DeleteRecord {
        collection: name("c"),
        key: name("k2"),
        owner: None,
        expect: turnkeep_core::Expect::Any,
    };
    kit.apply(kit.commit().op(gone)).await?;
    let rest: Vec<_> = kit.store.records(&query).await?.items.iter().map(|record| record.ordinal).collect();
    ensure_eq!(rest, [4, 5, 6], "records after a deleted one");
    Ok(())
}

async fn pag_004_a_bad_or_foreign_cursor_is_refused(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = filled(&kit).await?;
    let other = kit.create("other").await?;
    kit.append(&other, (0..5).map(|_| user("x")).collect()).await?;
    let of_entries = kit.store.entries(&EntryQuery { limit: 2, ..kit.committed(&session) }).await?.next;
    let of_sessions = kit.store.sessions(&SessionQuery { limit: 2, ..kit.list() }).await?.next;
    ensure!(of_entries.is_some() && of_sessions.is_some(), "pages that do not end the list have no cursor");
    let garbled = ["", "x", "0123456789abcdef", "ffffffffffffffffff", "%", "🦀🦀🦀🦀🦀🦀"];
    let mut cursors: Vec<Option<Cursor>> = Vec::new();
    for text in garbled {
        cursors.push(Some(text.parse()?));
    }
    let mut cut = of_entries.as_ref().map(|cursor| cursor.as_str().to_owned()).unwrap_or_default();
    cut.truncate(cut.len() - 1);
    cursors.push(Some(cut.parse()?));
    let kind = ErrorKind::Invalid;
    for cursor in cursors.iter().chain([&of_entries]) {
        let cursor = || cursor.clone();
        let answer = kit.store.sessions(&SessionQuery { cursor: cursor(), ..kit.list() }).await;
        ensure_refused!(answer, kind, "sessions with cursor {:?}", cursor());
        let answer =
            kit.store.events(&EventQuery { cursor: cursor(), ..kit.stream(&session, "notes") }).await;
        ensure_refused!(answer, kind, "events with cursor {:?}", cursor());
        let answer = kit.store.runs(&RunQuery { cursor: cursor(), ..kit.runs_of(&session) }).await;
        ensure_refused!(answer, kind, "runs with cursor {:?}", cursor());
        let answer = kit.store.records(&RecordQuery { cursor: cursor(), ..kit.collection("c") }).await;
        ensure_refused!(answer, kind, "records with cursor {:?}", cursor());
        let answer = kit.store.rows(&RowQuery { cursor: cursor(), ..kit.rows_of(&session) }).await;
        ensure_refused!(answer, kind, "rows with cursor {:?}", cursor());
        let answer = kit.store.entries(&EntryQuery { cursor: cursor(), ..kit.committed(&other) }).await;
        ensure_refused!(answer, kind, "entries of another session with cursor {:?}", cursor());
    }
    let reversed =
        EntryQuery { order: Order::Descending, cursor: of_entries.clone(), ..kit.committed(&session) };
    ensure_refused!(kit.store.entries(&reversed).await, kind, "a cursor in the other direction");
    let narrowed = SessionQuery { with_messages: true, cursor: of_sessions.clone(), ..kit.list() };
    ensure_refused!(kit.store.sessions(&narrowed).await, kind, "a cursor of a wider list");
    let elsewhere = kit.in_workspace("elsewhere");
    let foreign = SessionQuery { cursor: of_sessions, ..elsewhere.list() };
    ensure_refused!(elsewhere.store.sessions(&foreign).await, kind, "a cursor of another workspace");
    let resized = EntryQuery { limit: 5, cursor: of_entries, ..kit.committed(&session) };
    ensure_eq!(
        kit.store.entries(&resized).await?.items.len(),
        5,
        "a page with another limit than the one before"
    );
    Ok(())
}

async fn pag_005_limits_have_defined_ends(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = filled(&kit).await?;
    let kind = ErrorKind::Invalid;
    ensure_refused!(
        kit.store.entries(&EntryQuery { limit: 0, ..kit.committed(&session) }).await,
        kind,
        "0 entries"
    );
    ensure_refused!(kit.store.sessions(&SessionQuery { limit: 0, ..kit.list() }).await, kind, "0 sessions");
    ensure_refused!(
        kit.store.events(&EventQuery { limit: 0, ..kit.stream(&session, "notes") }).await,
        kind,
        "0 events"
    );
    ensure_refused!(kit.store.runs(&RunQuery { limit: 0, ..kit.runs_of(&session) }).await, kind, "0 runs");
    ensure_refused!(
        kit.store.records(&RecordQuery { limit: 0, ..kit.collection("c") }).await,
        kind,
        "0 records"
    );
    ensure_refused!(kit.store.rows(&RowQuery { limit: 0, ..kit.rows_of(&session) }).await, kind, "0 rows");

    let most = kit.store.info().limits.page_items as usize;
    let mut left = most + 7 - ITEMS;
    while left > 0 {
        let batch = left.min(5_000);
        kit.append(&session, (0..batch).map(|_| user("filler")).collect()).await?;
        left -= batch;
    }
    for limit in [most as u32, most as u32 + 1, u32::MAX] {
        let mut query = EntryQuery { limit, ..kit.committed(&session) };
        let page = kit.store.entries(&query).await?;
        ensure_eq!(page.items.len(), most, "entries on a page of {limit}");
        query.cursor = page.next;
        ensure!(query.cursor.is_some(), "a page of {limit} has no cursor for the rest");
        ensure_eq!(kit.store.entries(&query).await?.items.len(), 7, "entries on the page after {limit}");
    }
    let rows = kit.rows(RowQuery { limit: u32::MAX, ..kit.rows_of(&session) }).await?;
    let entries = rows.iter().filter(|row| matches!(row, Row::Entry(_))).count();
    ensure_eq!(entries, most + 7, "entries among the rows");
    Ok(())
}

async fn pag_006_sessions_touched_in_one_instant_list_in_order_case_04(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    // The manual clock stands still: every time in here is equal.
    let mut expected = Vec::new();
    for id in ["c", "a", "d", "b", "e"] {
        kit.create(id).await?;
        expected.insert(0, id);
    }
    ensure_eq!(kit.ids(kit.list()).await?, expected, "sessions by creation");
    for touch in ["a", "e", "c", "a"] {
        if let Some(row) = kit.find(touch).await? {
            kit.say(&row.session_ref(), "touched").await?;
        }
        expected.retain(|id| *id != touch);
        expected.insert(0, touch);
        for read in 0..5 {
            ensure_eq!(kit.ids(kit.list()).await?, expected, "read {read} after {touch} was touched");
            let paged = SessionQuery { limit: 2, ..kit.list() };
            ensure_eq!(kit.ids(paged).await?, expected, "pages of two after {touch} was touched");
        }
    }
    // Touched in one commit, they tie; the id decides, bytewise, the same on every read.
    let mut both = kit.commit();
    for id in ["d", "b"] {
        if let Some(row) = kit.find(id).await? {
            both = both.op(Op::Append { session: row.session_ref(), entries: vec![user("together")] });
        }
    }
    kit.apply(both).await?;
    expected.retain(|id| !["d", "b"].contains(id));
    let expected = [vec!["b", "d"], expected].concat();
    ensure_eq!(kit.ids(SessionQuery { limit: 1, ..kit.list() }).await?, expected, "sessions that tie");
    Ok(())
}
