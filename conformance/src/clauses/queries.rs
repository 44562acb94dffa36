//! Queries: every filter means the same on every backend.

use turnkeep_core::commit::{
    NewEntry, NewEvent, NewRun, NewSession, Op, Parent, Put, RunPatch, SessionPatch,
};
use turnkeep_core::model::{
    Audience, Channel, Entry, Profile, Row, RowKind, RunState, RunStates, SessionRow, Title, TitleSource,
    Visibility, VisibilitySet,
};
use turnkeep_core::query::{
    AudienceFilter, EntryQuery, EventQuery, OwnerFilter, PathTo, RecordQuery, RowQuery, RunQuery,
    SessionOrder, SessionQuery,
};
use turnkeep_core::{EntryNo, ErrorKind, Order, SessionRef};

use crate::context::Context;
use crate::kit::{Kit, event, keyed, name, no, note, payload, put, run, user};
use crate::verdict::Outcome;

clauses! { ($) queries_tests;
    "QRY-001" qry_001_entry_filters_narrow_exactly {
        title: "Filters on entries (kinds, roles, visibility, run, turn, key, bounds, path), alone and together, give exactly the entries that fit all of them, in every order.",
        why: "A filter that an index answers and one that a scan answers must agree.",
        catches: "a backend that forgets one filter when another is answered by an index",
    }
    "QRY-002" qry_002_session_filters_narrow_exactly {
        title: "Filters on sessions (audience, directory, id prefix, text, messages, archived, pinned, project, parent) give exactly what fits all of them; the total counts it; texts match literally, ASCII letters in either case.",
        why: "A person who does not find a session believes it lost.",
        catches: "a backend whose total or text filter forgets another filter",
    }
    "QRY-003" qry_003_filters_on_runs_records_and_events_narrow_exactly {
        title: "Filters on runs (session, id, states, intent), records (key, owner, status), events (bounds, run) and rows (kinds) give exactly what fits all of them.",
        why: "Recovery finds what it has to close by these filters.",
        catches: "a backend that applies a filter after the limit",
    }
    "QRY-004" qry_004_a_page_of_large_payloads_ends_early {
        title: "A page ends early once its payloads and texts reach 8 MiB, has a cursor then, and always holds at least one item.",
        why: "A hundred attachments on one page take a host's memory.",
        catches: "a backend that fills a page to its limit, whatever it weighs, or never gets past a large item",
    }
    "QRY-005" qry_005_a_session_row_tells_what_is_in_it {
        title: "A session's row tells its messages, runs, head, leaf and the beginning of its first user message, without reading bodies and through every kind of change.",
        why: "Lists show rows; a row that lags names the wrong session.",
        catches: "a backend whose counters drift from what they count",
    }
}

/// 60 entries with every combination of what filters look at.
async fn mixed(kit: &Kit, id: &str) -> Outcome<SessionRef> {
    let session = kit.create(id).await?;
    let kinds = ["message", "custom", "label", "message", "x-odd"];
    let roles = [Some("user"), Some("assistant"), None, Some("tool")];
    let visible = [Visibility::Conversation, Visibility::Internal, Visibility::Partial];
    for batch in 0..12_usize {
        let mut entries = Vec::new();
        for at in batch * 5..batch * 5 + 5 {
            let kind = kinds[at % kinds.len()];
            let visibility = visible[(at / 2) % visible.len()];
            entries.push(NewEntry {
                kind: name(kind),
                role: roles[at % roles.len()].map(name),
                visibility,
                advance_leaf: kind != "label" && visibility != Visibility::Partial,
                run: (at % 3 > 0).then(|| name(if at % 3 == 1 { "r1" } else { "r2" })),
                turn: (at % 7 < 4).then(|| name(if at % 7 < 2 { "t1" } else { "t2" })),
                key: at.is_multiple_of(6).then(|| name(&format!("key {at}"))),
                parent: if batch.is_multiple_of(4) && at == batch * 5 && batch > 0 {
                    Parent::Root
                } else {
                    Parent::Leaf
                },
                ..user(&format!("entry {at}"))
            });
        }
        kit.append(&session, entries).await?;
    }
    Ok(session)
}

async fn qry_001_entry_filters_narrow_exactly(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = mixed(&kit, "s").await?;
    mixed(&kit, "other").await?;
    let all = kit.walk(kit.every_entry(&session)).await?;
    let kinds_of: Vec<_> = all.iter().map(|entry| entry.kind.as_str()).collect();
    ensure_eq!(
        kinds_of,
        ["message", "custom", "label", "message", "x-odd"].repeat(12),
        "kinds of all entries"
    );
    let line = |from: Option<EntryNo>| -> Vec<EntryNo> {
        let parent = |number: &EntryNo| all.get(number.get() as usize - 1).and_then(|entry| entry.parent);
        std::iter::successors(from, parent).collect()
    };
    let leaf = kit.row(&session).await?.path.leaf;
    let middle = all.iter().filter(|entry| entry.on_path).nth(15).map_or(no(1), |entry| entry.number);
    let on_path = |path: Option<PathTo>, entry: &Entry| match path {
        None => true,
        Some(PathTo::Leaf) => line(leaf).contains(&entry.number),
        Some(PathTo::Entry(number)) => line(Some(number)).contains(&entry.number),
    };
    let visibilities = [
        VisibilitySet::ALL,
        VisibilitySet::COMMITTED,
        VisibilitySet::only(Visibility::Internal),
        VisibilitySet::only(Visibility::Partial),
    ];
    let kinds: [&[&str]; 4] = [&[], &["message"], &["custom", "x-odd"], &["label"]];
    let roles: [&[&str]; 3] = [&[], &["user"], &["assistant", "tool"]];
    let mut combinations = 0;
    for step in 0..480_u32 {
        // Every filter takes its turn, in steps that share no factor, so that they meet in changing company.
        let pick = |every: u32, of: u32| (step / every) % of;
        let query = EntryQuery {
            path: [None, Some(PathTo::Leaf), Some(PathTo::Entry(middle))][pick(1, 3) as usize],
            kinds: kinds[pick(3, 4) as usize].iter().map(|kind| name(kind)).collect(),
            roles: roles[pick(2, 3) as usize].iter().map(|role| name(role)).collect(),
            visibility: visibilities[pick(5, 4) as usize],
            run: [None, Some("r1"), None, Some("r2")][pick(7, 4) as usize].map(name),
            turn: [None, None, Some("t1"), Some("t2"), Some("t3")][pick(4, 5) as usize].map(name),
            key: [None, None, None, None, None, Some("key 12")][pick(11, 6) as usize].map(name),
            after: [None, Some(no(9)), Some(no(40))][pick(13, 3) as usize],
            before: [None, Some(no(50))][pick(17, 2) as usize],
            order: [Order::Ascending, Order::Descending][pick(1, 2) as usize],
            limit: [100, 3, 7][pick(6, 3) as usize],
            ..kit.every_entry(&session)
        };
        let fits = |entry: &&Entry| query.admits(entry) && on_path(query.path, entry);
        let mut expected: Vec<_> = all.iter().filter(fits).map(|entry| entry.number.get()).collect();
        if query.order == Order::Descending {
            expected.reverse();
        }
        combinations += usize::from(!expected.is_empty());
        let seen: Vec<_> = kit.walk(query.clone()).await?.iter().map(|entry| entry.number.get()).collect();
        ensure_eq!(seen, expected, "entries that fit {query:?}");
    }
    ensure!(combinations > 100, "only {combinations} combinations of filters found anything");
    Ok(())
}

/// What a list must give, from the rows and the texts of each session.
fn fits(row: &SessionRow, texts: &[String], query: &SessionQuery) -> bool {
    let profile = &row.profile;
    let wanted = query.text.as_ref().map(|text| text.to_ascii_lowercase());
    let holds =
        |text: &str| wanted.as_ref().is_none_or(|wanted| text.to_ascii_lowercase().contains(wanted.as_str()));
    let channel = profile.channel.as_ref();
    let somewhere = holds(row.id.as_str())
        || profile.cwd.as_deref().is_some_and(holds)
        || channel.is_some_and(|channel| holds(&channel.kind) || holds(&channel.id))
        || profile.title.as_ref().is_some_and(|title| holds(&title.text))
        || texts.iter().any(|text| holds(text));
    let audience = match query.audience {
        AudienceFilter::User => profile.audience == Audience::User,
        AudienceFilter::SubAgent => profile.audience == Audience::SubAgent,
        AudienceFilter::Any => true,
    };
    audience
        && somewhere
        && query.cwd.as_ref().is_none_or(|cwd| profile.cwd.as_ref() == Some(cwd))
        && query.id_prefix.as_ref().is_none_or(|prefix| row.id.as_str().starts_with(prefix.as_str()))
        && (!query.with_messages || row.messages > 0)
        && query.archived.is_none_or(|archived| profile.archived == archived)
        && query.pinned.is_none_or(|pinned| profile.pinned == pinned)
        && query.project.as_ref().is_none_or(|project| profile.project.as_ref() == Some(project))
        && query.parent.as_ref().is_none_or(|parent| profile.parent.as_ref() == Some(parent))
}

async fn qry_002_session_filters_narrow_exactly(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let prefixes = ["ab", "a_", "AB", "b"];
    let words = ["Fix the PARSER", "ÄRGER mit Umlauten", "100% sure_", "", "ends with parser"];
    for at in 0..40_usize {
        let session = kit.life(&format!("{}{at}", prefixes[at % 4]));
        let profile = Profile {
            title: (at % 3 == 1).then(|| Title { text: words[at % 5].to_owned(), source: TitleSource::Auto }),
            cwd: (at % 5 < 3).then(|| ["/home/x", "/home/X", "/home/x/"][at % 3].to_owned()),
            audience: if at % 6 == 5 { Audience::SubAgent } else { Audience::User },
            parent: (at % 7 < 2).then(|| name(["ab0", "a_1"][at % 7])),
            channel: (at % 8 == 3).then(|| Channel { kind: "chat".to_owned(), id: "Room Parser".to_owned() }),
            project: (at % 4 == 2).then(|| ["p", "P"][at / 4 % 2].to_owned()),
            pinned: at % 9 == 0,
            archived: at % 10 == 0,
            ..Profile::default()
        };
        let new = NewSession { profile, ..kit.new_session(&session) };
        kit.apply(kit.commit().op(Op::CreateSession(new))).await?;
        let partial =
            NewEntry { visibility: Visibility::Partial, advance_leaf: false, ..user("a partial parser") };
        match at % 4 {
            0 => drop(kit.append(&session, vec![user(words[at / 4 % 5])]).await?),
            1 => drop(kit.append(&session, vec![note("only a label"), partial]).await?),
            _ => {}
        }
    }
    let mut rows = Vec::new();
    for row in kit.sessions(SessionQuery { limit: 7, ..kit.list() }).await? {
        let entries = kit.walk(kit.every_entry(&row.session_ref())).await?;
        rows.push((row, entries.into_iter().filter_map(|entry| entry.text).collect::<Vec<_>>()));
    }
    let newest_first: Vec<_> = (0..40).rev().map(|at| format!("{}{at}", prefixes[at % 4])).collect();
    ensure_eq!(
        rows.iter().map(|(row, _)| row.id.as_str()).collect::<Vec<_>>(),
        newest_first,
        "sessions in all"
    );
    let texts =
        ["parser", "PARSER", "Ärger", "ÄRGER", "100%", "sure_", "%", "_", "room", "/HOME/X", "a_", "label"];
    let mut found = 0;
    for step in 0..240_usize {
        let pick = |every: usize, of: usize| (step / every) % of;
        let query = SessionQuery {
            audience: [AudienceFilter::Any, AudienceFilter::User, AudienceFilter::SubAgent][pick(1, 3)],
            text: (pick(2, 3) > 0).then(|| texts[pick(3, texts.len())].to_owned()),
            cwd: [None, None, Some("/home/x")][pick(5, 3)].map(str::to_owned),
            id_prefix: [None, None, Some("a_"), Some("ab")][pick(7, 4)].map(str::to_owned),
            with_messages: pick(4, 4) == 3,
            archived: [None, None, Some(false), Some(true)][pick(11, 4)],
            pinned: [None, None, Some(true)][pick(13, 3)],
            project: [None, None, None, Some("p")][pick(9, 4)].map(str::to_owned),
            parent: [None, None, None, Some("ab0")][pick(6, 4)].map(name),
            order: [SessionOrder::RecentFirst, SessionOrder::Id][pick(1, 2)],
            limit: [100, 3][pick(2, 2)],
            total: true,
            ..kit.list()
        };
        let mut expected: Vec<_> = rows
            .iter()
            .filter(|(row, texts)| fits(row, texts, &query))
            .map(|(row, _)| row.id.as_str().to_owned())
            .collect();
        if query.order == SessionOrder::Id {
            expected.sort_unstable();
        }
        found += usize::from(!expected.is_empty());
        let total = kit.store.sessions(&query).await?.total;
        ensure_eq!(total, Some(expected.len() as u64), "the total of {query:?}");
        ensure_eq!(kit.ids(query.clone()).await?, expected, "sessions that fit {query:?}");
    }
    ensure!(found > 60, "only {found} combinations of filters found anything");
    let default = SessionQuery::new(kit.workspace.clone());
    let sub_agents =
        kit.sessions(default).await?.iter().filter(|row| row.profile.audience == Audience::SubAgent).count();
    ensure_eq!(sub_agents, 0, "sessions of sub-agents in the default list");
    let both = SessionQuery {
        offset: 1,
        cursor: kit.store.sessions(&SessionQuery { limit: 1, ..kit.list() }).await?.next,
        ..kit.list()
    };
    ensure_refused!(kit.store.sessions(&both).await, ErrorKind::Invalid, "an offset together with a cursor");
    Ok(())
}

async fn qry_003_filters_on_runs_records_and_events_narrow_exactly(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let sessions = [kit.create("b").await?, kit.create("a").await?];
    let ends = [RunState::Completed, RunState::Failed, RunState::Cancelled, RunState::Interrupted];
    for session in &sessions {
        let mut after = None;
        for at in 0..9_usize {
            let id = format!("r{at}");
            let intent = at.is_multiple_of(2).then(|| name("i"));
            let after = if intent.is_some() { after.replace(id.clone()) } else { None };
            kit.start(session, NewRun { intent, after: after.map(|id| name(&id)), ..run(&id) }).await?;
            if at < 8 {
                kit.apply(kit.commit().op(kit.moving(session, &name(&id), ends[at % 4]))).await?;
            }
        }
    }
    let all = kit.runs(RunQuery::new(kit.workspace.clone())).await?;
    let order: Vec<_> = all.iter().map(|run| (run.session.id.as_str().to_owned(), run.number)).collect();
    let expected: Vec<_> =
        ["a", "b"].iter().flat_map(|id| (1..=9).map(|at| ((*id).to_owned(), at))).collect();
    ensure_eq!(order, expected, "runs of the workspace, by session id and number");
    for step in 0..120_usize {
        let pick = |every: usize, of: usize| (step / every) % of;
        let failed = RunStates::of(&[RunState::Failed, RunState::Interrupted]);
        let query = RunQuery {
            session: [None, Some(sessions[0].clone()), Some(sessions[1].clone())][pick(1, 3)].clone(),
            id: [None, None, None, Some("r8"), Some("r5")][pick(3, 5)].map(name),
            states: [RunStates::ALL, RunStates::ACTIVE, failed, RunStates::TERMINAL][pick(2, 4)],
            intent: [None, None, Some("i")][pick(5, 3)].map(name),
            order: [Order::Ascending, Order::Descending][pick(1, 2)],
            limit: [100, 2][pick(4, 2)],
            ..RunQuery::new(kit.workspace.clone())
        };
        let fits = |run: &&turnkeep_core::model::Run| {
            query.session.as_ref().is_none_or(|session| run.session == *session)
                && query.id.as_ref().is_none_or(|id| run.id == *id)
                && query.states.contains(run.state)
                && query.intent.as_ref().is_none_or(|intent| run.intent.as_ref() == Some(intent))
        };
        let mut expected: Vec<_> = all.iter().filter(fits).cloned().collect();
        if query.order == Order::Descending {
            expected.reverse();
        }
        ensure_eq!(kit.runs(query.clone()).await?, expected, "runs that fit {query:?}");
    }

    for at in 0..24_usize {
        let mut record = put("c", &format!("k{at}"), "1");
        record.owner = [None, Some(sessions[0].clone()), Some(sessions[1].clone())][at % 3].clone();
        record.status = [None, Some("open"), Some("done")][at / 2 % 3].map(name);
        kit.put(record).await?;
        kit.put(put("d", &format!("k{at}"), "2")).await?;
    }
    let all = kit.records(kit.collection("c")).await?;
    let sorted = all
        .windows(2)
        .all(|two| (two[0].ordinal, two[0].key.as_str()) < (two[1].ordinal, two[1].key.as_str()));
    ensure!(sorted && all.len() == 24, "{} records of a collection, not by ordinal and key", all.len());
    for at in 0..24_usize {
        let seen = all.iter().find(|record| record.key.as_str() == format!("k{at}"));
        let seen =
            seen.map(|record| (record.owner.clone(), record.status.as_ref().map(|status| status.as_str())));
        let owner = [None, Some(sessions[0].clone()), Some(sessions[1].clone())][at % 3].clone();
        let status = [None, Some("open"), Some("done")][at / 2 % 3];
        ensure_eq!(seen, Some((owner, status)), "owner and status of record k{at}");
    }
    let unowned = kit.rows(RowQuery::unowned(kit.workspace.clone())).await?;
    let seen = unowned.iter().filter(|row| matches!(row, Row::Record(record) if record.owner.is_none()));
    ensure_eq!(
        (unowned.len(), seen.count()),
        (8 + 24, 8 + 24),
        "rows, and among them records, that nobody owns"
    );
    for step in 0..96_usize {
        let pick = |every: usize, of: usize| (step / every) % of;
        let owners = [OwnerFilter::Any, OwnerFilter::Unowned, OwnerFilter::Session(sessions[0].clone())];
        let query = RecordQuery {
            key: [None, None, None, Some("k4")][pick(3, 4)].map(name),
            owner: owners[pick(1, 3)].clone(),
            status: [None, Some("open"), None, Some("done")][pick(2, 4)].map(name),
            order: [Order::Ascending, Order::Descending, Order::Latest][pick(1, 3)],
            limit: 100,
            ..kit.collection("c")
        };
        let fits = |record: &&turnkeep_core::model::Record| {
            let owner = match &query.owner {
                OwnerFilter::Any => true,
                OwnerFilter::Unowned => record.owner.is_none(),
                OwnerFilter::Session(session) => record.owner.as_ref() == Some(session),
            };
            owner
                && query.key.as_ref().is_none_or(|key| record.key == *key)
                && query.status.as_ref().is_none_or(|status| record.status.as_ref() == Some(status))
        };
        let mut expected: Vec<_> = all.iter().filter(fits).cloned().collect();
        if query.order == Order::Descending {
            expected.reverse();
        }
        ensure_eq!(kit.records(query.clone()).await?, expected, "records that fit {query:?}");
    }

    let session = &sessions[0];
    let events = (1..=20).map(|n| turnkeep_core::commit::NewEvent {
        run: (n % 3 > 0).then(|| name(&format!("r{}", n % 3))),
        ..event("e", n)
    });
    let append = Op::AppendEvents {
        session: session.clone(),
        stream: name("notes"),
        expect_next: None,
        events: events.collect(),
    };
    kit.apply(kit.commit().op(append)).await?;
    for (after, before, run) in [
        (None, Some(5), None),
        (Some(3), Some(9), Some(1)),
        (Some(18), None, Some(2)),
        (None, Some(1), None),
        (Some(20), None, None),
    ] {
        let query = EventQuery {
            after,
            before,
            run: run.map(|run| name(&format!("r{run}"))),
            limit: 2,
            ..kit.stream(session, "notes")
        };
        let seen: Vec<_> = kit.events(query).await?.iter().map(|event| event.number).collect();
        let expected: Vec<_> = (after.unwrap_or(0) + 1..before.unwrap_or(21))
            .filter(|n| run.is_none_or(|run| n % 3 == run))
            .collect();
        ensure_eq!(seen, expected, "events after {after:?}, before {before:?}, of run {run:?}");
    }

    kit.say(session, "words").await?;
    let all = kit.rows(kit.rows_of(session)).await?;
    let kinds =
        [RowKind::Session, RowKind::Entry, RowKind::Run, RowKind::Stream, RowKind::Event, RowKind::Record];
    for kinds in kinds.map(|kind| vec![kind]).into_iter().chain([vec![RowKind::Record, RowKind::Session]]) {
        let expected: Vec<_> = all.iter().filter(|row| kinds.contains(&row.kind())).cloned().collect();
        ensure!(!expected.is_empty(), "no rows of the kinds {kinds:?}");
        let only = RowQuery { kinds: kinds.clone(), ..kit.rows_of(session) };
        ensure_eq!(kit.rows(only).await?, expected, "rows of the kinds {kinds:?}");
    }
    Ok(())
}

async fn qry_004_a_page_of_large_payloads_ends_early(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let most = turnkeep_core::limits::PAGE_BYTES;
    let sized = |bytes: usize| NewEntry {
        payload: payload(&format!("\"{}\"", "x".repeat(bytes - 2))),
        text: None,
        ..user("")
    };
    for bytes in [most / 4, most / 4, most / 4, most / 2, most + 1_000, most / 8, most / 8] {
        kit.append(&session, vec![sized(bytes)]).await?;
    }
    for order in [Order::Ascending, Order::Descending] {
        let mut query = EntryQuery { order, ..kit.committed(&session) };
        let mut numbers = Vec::new();
        for page in 0..8 {
            let answer = kit.store.entries(&query).await?;
            ensure!(!answer.items.is_empty(), "page {page} is empty");
            let bytes: usize = answer.items.iter().map(|entry| entry.payload.as_str().len()).sum();
            ensure!(
                bytes <= most || answer.items.len() == 1,
                "page {page} has {} items of {bytes} bytes",
                answer.items.len()
            );
            numbers.extend(answer.items.iter().map(|entry| entry.number.get()));
            query.cursor = answer.next;
            if query.cursor.is_none() {
                break;
            }
        }
        if order == Order::Descending {
            numbers.reverse();
        }
        ensure_eq!(numbers, (1..=7).collect::<Vec<_>>(), "entries over all pages, {order:?}");
    }
    let rows = kit.rows(kit.rows_of(&session)).await?;
    ensure_eq!(rows.len(), 8, "rows, the image among them, over all pages");
    // A text counts like a payload.
    let texts = kit.create("texts").await?;
    for _ in 0..3 {
        let text = Some("x".repeat(most / 2 + 1));
        kit.append(&texts, vec![NewEntry { text, payload: payload("1"), ..user("") }]).await?;
    }
    let page = kit.store.entries(&kit.committed(&texts)).await?;
    ensure_eq!(
        (page.items.len(), page.next.is_some()),
        (1, true),
        "entries of large texts on the first page"
    );
    large_rows(&kit).await?;
    let exact = kit.create("exact").await?;
    kit.append(&exact, vec![sized(most / 2), sized(most / 2)]).await?;
    let page = kit.store.entries(&kit.committed(&exact)).await?;
    ensure_eq!(page.items.len(), 2, "entries that fill a page exactly");
    one_large_row_a_page(&kit).await
}

/// Events, records, and rows of every kind that has a payload.
async fn one_large_row_a_page(kit: &Kit) -> Outcome {
    let content = || payload(&format!("\"{}\"", "x".repeat(turnkeep_core::limits::PAGE_BYTES / 2)));
    let session = kit.create("of every kind").await?;
    for key in ["a", "b", "c"] {
        let append = Op::AppendEvents {
            session: session.clone(),
            stream: name("log"),
            expect_next: None,
            events: vec![NewEvent { payload: content(), ..event("n", 1) }],
        };
        let record = Put { owner: Some(session.clone()), payload: content(), ..put("large", key, "1") };
        kit.apply(kit.commit().op(append).op(Op::PutRecord(record))).await?;
    }
    let patch = SessionPatch { meta: Some(Some(content())), ..SessionPatch::default() };
    kit.apply(kit.commit().op(Op::PatchSession { session: session.clone(), patch })).await?;
    let events = kit.store.events(&kit.stream(&session, "log")).await?;
    ensure_eq!((events.items.len(), events.next.is_some()), (1, true), "events on the first page");
    let records = kit.store.records(&kit.collection("large")).await?;
    ensure_eq!((records.items.len(), records.next.is_some()), (1, true), "records on the first page");
    let (mut query, mut rows) = (kit.rows_of(&session), 0);
    for page in 0..9 {
        let answer = kit.store.rows(&query).await?;
        let large = answer.items.iter().filter(|row| !matches!(row, Row::Stream(_))).count();
        ensure!(large <= 1, "page {page} of the rows has {large} large ones");
        rows += large;
        query.cursor = answer.next;
        if query.cursor.is_none() {
            break;
        }
    }
    ensure_eq!(rows, 7, "large rows over all pages");
    Ok(())
}

/// What else can be large: the data of runs and of sessions.
async fn large_rows(kit: &Kit) -> Outcome {
    let most = turnkeep_core::limits::PAGE_BYTES;
    let large = || Some(Some(payload(&format!("\"{}\"", "x".repeat(most / 2)))));
    let runs = kit.create("runs").await?;
    let patches = [
        RunPatch { error: large(), ..RunPatch::default() },
        RunPatch { progress: large(), ..RunPatch::default() },
        RunPatch { context_usage: large(), ..RunPatch::default() },
    ];
    for (at, patch) in patches.into_iter().enumerate() {
        let id = format!("r{at}");
        let patched = Op::PatchRun { session: runs.clone(), run: name(&id), patch };
        let ended = kit.moving(&runs, &name(&id), RunState::Failed);
        kit.apply(
            kit.commit().op(Op::StartRun { session: runs.clone(), run: run(&id) }).op(patched).op(ended),
        )
        .await?;
        let patch = SessionPatch { meta: large(), ..SessionPatch::default() };
        let session = kit.create(&format!("large {at}")).await?;
        kit.apply(kit.commit().op(Op::PatchSession { session, patch })).await?;
    }
    let page = kit.store.runs(&kit.runs_of(&runs)).await?;
    ensure_eq!(
        (page.items.len(), page.next.is_some()),
        (1, true),
        "runs on the first page, and whether more follow"
    );
    ensure_eq!(kit.runs(kit.runs_of(&runs)).await?.len(), 3, "runs over all pages");
    // Between the two newest large sessions stands the one with the runs, which is small.
    let page = kit.store.sessions(&kit.list()).await?;
    ensure_eq!(
        (page.items.len(), page.next.is_some()),
        (2, true),
        "sessions on the first page, and whether more follow"
    );
    ensure_eq!(kit.sessions(kit.list()).await?.len(), 6, "sessions over all pages");
    Ok(())
}

async fn qry_005_a_session_row_tells_what_is_in_it(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let reader = cx.kit().await?;
    let assistant = NewEntry { role: Some(name("assistant")), ..user("an answer first") };
    let internal = NewEntry { visibility: Visibility::Internal, ..user("never the preview") };
    let long = format!("first   words\n of a person {}", "and more ".repeat(40));
    let steps = vec![
        (vec![note("label"), internal], 0, None),
        (vec![assistant], 1, None),
        (vec![user(&long), user("second")], 3, Some("first words of a person and more")),
        (vec![NewEntry { parent: Parent::Root, ..keyed("k", "another branch") }], 4, Some("first words")),
        (vec![NewEntry { kind: name("custom"), ..user("no message") }], 4, Some("first words")),
    ];
    let mut head = 0;
    for (step, (entries, messages, preview)) in steps.into_iter().enumerate() {
        head += entries.len() as u32;
        kit.append(&session, entries).await?;
        let row = reader.row(&session).await?;
        ensure_eq!(
            (row.messages, row.head),
            (messages, Some(no(head))),
            "messages and head after step {step}"
        );
        let begins = match (&row.preview, preview) {
            (Some(seen), Some(expected)) => {
                seen.starts_with(expected) && seen.chars().count() <= turnkeep_core::limits::PREVIEW_CHARS + 1
            }
            (None, None) => true,
            _ => false,
        };
        ensure!(begins, "the preview after step {step} is {:?}", row.preview);
        let listed = reader.sessions(reader.list()).await?;
        ensure_eq!(listed, [row], "the row in the list after step {step}");
    }
    for round in 1..=3_u32 {
        let id = format!("r{round}");
        kit.start(&session, run(&id)).await?;
        ensure_eq!(
            reader.row(&session).await?.active_run,
            Some(name(&id)),
            "the active run in round {round}"
        );
        kit.apply(kit.commit().op(kit.moving(&session, &name(&id), RunState::Completed))).await?;
        let row = reader.row(&session).await?;
        ensure_eq!((row.active_run, row.runs), (None, round), "active run and runs after round {round}");
    }
    kit.apply(kit.commit().op(Op::MoveLeaf { session: session.clone(), to: Some(no(3)) })).await?;
    ensure_eq!(reader.row(&session).await?.path.leaf, Some(no(3)), "the leaf after it was moved");
    Ok(())
}
