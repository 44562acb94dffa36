//! Queries whose words look like SQL, and filters that only a database can get wrong.

use turnkeep_core::commit::{Commit, Expect, Op, Put};
use turnkeep_core::id::{Collection, EntryKey, EntryKind, RecordKey, Role, RunId, StreamName, TurnId};
use turnkeep_core::model::{Profile, SessionState, Title, TitleSource};
use turnkeep_core::query::{
    EntryQuery, EventQuery, OwnerFilter, PathTo, RecordQuery, RunQuery, SessionOrder, SessionQuery,
};
use turnkeep_core::{Order, Payload, SessionId, SessionKey, Store, WorkspaceId};
use turnkeep_sqlite::SqliteStore;

use crate::support::{
    append, block_on, close, commit, create, create_with, fresh, life, message, open, session_of, workspace,
};

const HOSTILE: &[&str] = &[
    "x') OR 1=1 --",
    "x\" OR \"\"=\"",
    "'; DROP TABLE sessions; --",
    "%",
    "_",
    "s%",
    "?1",
    ":a",
    "[\"message\"]",
    "\\",
    "../../x",
];

fn ids(store: &SqliteStore, query: &SessionQuery) -> Vec<String> {
    let page = block_on(store.sessions(query)).unwrap();
    page.items.iter().map(|row| row.id.as_str().to_owned()).collect()
}

fn record(store: &SqliteStore, collection: &str, key: &str) {
    let put = Put {
        collection: Collection::new(collection).unwrap(),
        key: RecordKey::new(key).unwrap(),
        owner: None,
        status: None,
        expect: Expect::Any,
        payload: Payload::empty(),
    };
    commit(store, [Op::PutRecord(put)]);
}

#[test]
fn case_71_words_that_look_like_sql_find_nothing_and_change_nothing() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "secret", 3);
    record(&store, "bindings", "secret");
    for &text in HOSTILE {
        let id = || SessionId::new(text).unwrap();
        assert_eq!(block_on(store.session(&SessionKey { workspace: workspace(), id: id() })).unwrap(), None);
        let other = WorkspaceId::new(text).unwrap();
        assert!(ids(&store, &SessionQuery::new(other)).is_empty());
        let narrowings: [fn(&mut SessionQuery, String); 5] = [
            |query, text| query.text = Some(text),
            |query, text| query.id_prefix = Some(text),
            |query, text| query.cwd = Some(text),
            |query, text| query.project = Some(text),
            |query, text| query.parent = Some(SessionId::new(text).unwrap()),
        ];
        for narrow in narrowings {
            let mut query = SessionQuery::new(workspace());
            query.total = true;
            narrow(&mut query, text.to_owned());
            let page = block_on(store.sessions(&query)).unwrap();
            assert_eq!((page.items.len(), page.total), (0, Some(0)), "{text}");
        }
        let narrowings: [fn(&mut EntryQuery, &str); 6] = [
            |query, text| query.kinds = vec![EntryKind::new(text).unwrap()],
            |query, text| query.kinds = vec![EntryKind::new(text).unwrap(), EntryKind::new("label").unwrap()],
            |query, text| query.roles = vec![Role::new(text).unwrap()],
            |query, text| query.run = Some(RunId::new(text).unwrap()),
            |query, text| query.turn = Some(TurnId::new(text).unwrap()),
            |query, text| query.key = Some(EntryKey::new(text).unwrap()),
        ];
        for narrow in narrowings {
            let mut query = EntryQuery::new(workspace(), session.clone());
            narrow(&mut query, text);
            assert!(block_on(store.entries(&query)).unwrap().items.is_empty(), "{text}");
        }
        let stream = StreamName::new(text).unwrap();
        let query = EventQuery::new(workspace(), session.clone(), stream);
        assert!(block_on(store.events(&query)).unwrap().items.is_empty());
        let mut query = RecordQuery::new(workspace(), Collection::new("bindings").unwrap());
        query.key = Some(RecordKey::new(text).unwrap());
        assert!(block_on(store.records(&query)).unwrap().items.is_empty());
        query = RecordQuery::new(workspace(), Collection::new(text).unwrap());
        assert!(block_on(store.records(&query)).unwrap().items.is_empty());
        let mut query = RunQuery::new(workspace());
        query.id = Some(RunId::new(text).unwrap());
        assert!(block_on(store.runs(&query)).unwrap().items.is_empty());
    }
    assert_eq!(ids(&store, &SessionQuery::new(workspace())), ["secret"]);
    close(&store);
}

#[test]
fn hostile_ids_are_stored_and_found_as_they_are() {
    let (_folder, path) = fresh();
    let store = open(&path);
    for &text in HOSTILE {
        let session = life(text);
        let mut entry = message(text);
        entry.key = Some(EntryKey::new(text).unwrap());
        commit(&store, [create(&session), append(&session, vec![entry])]);
        record(&store, text, text);
    }
    for &text in HOSTILE {
        let mut query = SessionQuery::new(workspace());
        query.id_prefix = Some(text.to_owned());
        let expected: Vec<&str> = HOSTILE.iter().copied().filter(|id| id.starts_with(text)).collect();
        let mut found = ids(&store, &query);
        found.sort();
        let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        expected.sort();
        assert_eq!(found, expected, "ids that begin with {text}");
        let records = RecordQuery::new(workspace(), Collection::new(text).unwrap());
        assert_eq!(block_on(store.records(&records)).unwrap().items.len(), 1);
    }
    close(&store);
}

#[test]
fn texts_match_in_either_case_of_ascii_only() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let profile = |title: &str| Profile {
        title: Some(Title { text: title.to_owned(), source: TitleSource::Auto }),
        ..Profile::default()
    };
    let (plain, umlaut) = (life("a"), life("b"));
    commit(&store, [create_with(&plain, SessionState::Active, profile("Fix the PARSER 100%"))]);
    commit(&store, [create_with(&umlaut, SessionState::Active, profile("ÄRGER"))]);
    commit(&store, [append(&umlaut, vec![message("deep in the Text_of an entry")])]);
    let find = |text: &str| {
        let mut query = SessionQuery::new(workspace());
        query.text = Some(text.to_owned());
        ids(&store, &query)
    };
    assert_eq!(find("the parser 100%"), ["a"]);
    assert_eq!(find("text_OF"), ["b"]);
    assert_eq!(find("textxof"), [""; 0], "an underscore is no wildcard");
    assert_eq!(find("Ärger"), ["b"], "only the R, G and E differ in case");
    assert_eq!(find("ärger"), [""; 0], "letters beyond ASCII match as they are");
    close(&store);
}

#[test]
fn every_order_and_filter_of_a_list_gives_the_same_pages_as_the_whole() {
    let (_folder, path) = fresh();
    let store = open(&path);
    for n in 0..40 {
        let session = life(&format!("s{:02}", n * 7 % 40));
        let profile = Profile {
            project: (n % 3 == 0).then(|| "p".to_owned()),
            parent: (n % 4 == 0).then(|| SessionId::new("root").unwrap()),
            pinned: n % 2 == 0,
            ..Profile::default()
        };
        commit(&store, [create_with(&session, SessionState::Active, profile)]);
        if n % 5 == 0 {
            commit(&store, [append(&session, vec![message("hello")])]);
        }
    }
    let base = SessionQuery::new(workspace());
    let mut queries = vec![base.clone()];
    queries.push(SessionQuery { project: Some("p".to_owned()), ..base.clone() });
    queries.push(SessionQuery { parent: Some(SessionId::new("root").unwrap()), ..base.clone() });
    queries.push(SessionQuery { pinned: Some(true), with_messages: true, ..base.clone() });
    queries.push(SessionQuery { id_prefix: Some("s1".to_owned()), ..base.clone() });
    queries.push(SessionQuery { text: Some("HELLO".to_owned()), ..base });
    for base in queries {
        for order in [SessionOrder::RecentFirst, SessionOrder::Id] {
            let whole = ids(&store, &SessionQuery { order, ..base.clone() });
            for limit in [1, 7, 39, 40, 41] {
                let mut query = SessionQuery { order, limit, total: true, ..base.clone() };
                let mut walked = Vec::new();
                for _ in 0..=whole.len() {
                    let page = block_on(store.sessions(&query)).unwrap();
                    assert_eq!(page.total, Some(whole.len() as u64));
                    walked.extend(page.items.iter().map(|row| row.id.as_str().to_owned()));
                    query.cursor = page.next;
                    if query.cursor.is_none() {
                        break;
                    }
                }
                assert_eq!(walked, whole, "{base:?} {order:?} {limit}");
            }
            let offset = SessionQuery { order, offset: 3, ..base.clone() };
            assert_eq!(ids(&store, &offset), whole.get(3..).unwrap_or_default());
        }
    }
    close(&store);
}

#[test]
fn kinds_are_found_by_index_with_the_same_answer_as_by_scan() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = life("s");
    commit(&store, [create(&session)]);
    for n in 0..30 {
        let mut entry = message(&n.to_string());
        entry.kind = EntryKind::new(["message", "turn_start", "label", "message"][n % 4]).unwrap();
        entry.advance_leaf = entry.kind.as_str() != "label";
        commit(&store, [append(&session, vec![entry])]);
    }
    let everything = {
        let mut query = EntryQuery::new(workspace(), session.clone());
        query.limit = 100;
        block_on(store.entries(&query)).unwrap().items
    };
    for kinds in [&["turn_start"][..], &["label"], &["turn_start", "label"], &["message", "label"], &["none"]]
    {
        for order in [Order::Ascending, Order::Descending, Order::Latest] {
            for limit in [1, 3, 100] {
                for path in [None, Some(PathTo::Leaf)] {
                    let mut query = EntryQuery::new(workspace(), session.clone());
                    query.kinds = kinds.iter().map(|kind| EntryKind::new(kind).unwrap()).collect();
                    (query.order, query.limit, query.path) = (order, limit, path);
                    let mut fits: Vec<_> = everything
                        .iter()
                        .filter(|entry| query.admits(entry) && (path.is_none() || entry.on_path))
                        .map(|entry| entry.number)
                        .collect();
                    if order.from_newest() {
                        fits.reverse();
                    }
                    fits.truncate(limit as usize);
                    if order == Order::Latest {
                        fits.reverse();
                    }
                    let page = block_on(store.entries(&query)).unwrap();
                    let found: Vec<_> = page.items.iter().map(|entry| entry.number).collect();
                    assert_eq!(found, fits, "{kinds:?} {order:?} {limit} {path:?}");
                }
            }
        }
    }
    close(&store);
}

#[test]
fn records_of_every_owner_are_walked_in_order() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let (a, b) = (life("a"), life("b"));
    commit(&store, [create(&a), create(&b)]);
    for n in 0..30_u32 {
        let owner = [None, Some(a.clone()), Some(b.clone())][n as usize % 3].clone();
        let put = Put {
            collection: Collection::new("host").unwrap(),
            key: RecordKey::new(format!("k{:02}", n * 7 % 30)).unwrap(),
            owner,
            status: (n % 2 == 0).then(|| turnkeep_core::id::Status::new("open").unwrap()),
            expect: Expect::Absent,
            payload: Payload::empty(),
        };
        commit(&store, [Op::PutRecord(put)]);
    }
    for owner in [OwnerFilter::Any, OwnerFilter::Unowned, OwnerFilter::Session(a)] {
        for status in [None, Some(turnkeep_core::id::Status::new("open").unwrap())] {
            for order in [Order::Ascending, Order::Descending] {
                let query = |limit, cursor| {
                    let mut query = RecordQuery::new(workspace(), Collection::new("host").unwrap());
                    (query.owner, query.status, query.order) = (owner.clone(), status.clone(), order);
                    (query.limit, query.cursor) = (limit, cursor);
                    block_on(store.records(&query)).unwrap()
                };
                let whole = query(100, None).items;
                let mut sorted = whole.clone();
                sorted.sort_by(|a, b| (a.ordinal, &a.key).cmp(&(b.ordinal, &b.key)));
                if order == Order::Descending {
                    sorted.reverse();
                }
                assert_eq!(whole, sorted);
                let expected = if owner == OwnerFilter::Any { 30 } else { 10 };
                assert_eq!(whole.len(), if status.is_some() { expected / 2 } else { expected });
                let mut walked = Vec::new();
                let mut cursor = None;
                for _ in 0..=whole.len() {
                    let page = query(4, cursor);
                    walked.extend(page.items);
                    cursor = page.next;
                    if cursor.is_none() {
                        break;
                    }
                }
                assert_eq!(walked, whole);
            }
        }
    }
    let gone = Op::DeleteSession { session: b.clone(), force: false };
    block_on(store.commit(Commit::new(workspace()).op(gone))).unwrap();
    let any = RecordQuery::new(workspace(), Collection::new("host").unwrap());
    assert_eq!(block_on(store.records(&any)).unwrap().items.len(), 20, "records go with their owner");
    close(&store);
}
