//! Listing sessions.

use turnkeep_core::commit::{Op, SessionPatch};
use turnkeep_core::model::{Audience, Channel, Profile, SessionState, Title, TitleSource};
use turnkeep_core::query::{AudienceFilter, SessionOrder, SessionQuery};
use turnkeep_core::{ErrorKind, Page, SessionId, Store, WorkspaceId};

use crate::support::{Bench, beside, ids, kind, run, session, user, walk, ws};

fn list(bench: &Bench, query: &SessionQuery) -> Page<turnkeep_core::model::SessionRow> {
    run(bench.store.sessions(query)).unwrap()
}

fn by_id() -> SessionQuery {
    SessionQuery { order: SessionOrder::Id, ..SessionQuery::new(ws()) }
}

#[test]
fn the_one_that_changed_last_comes_first_whatever_the_clock_does() {
    let bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.create(id);
    }
    bench.clock.advance_ms(-3_600_000);
    bench.append(&session("a"), vec![user("x")]);
    assert_eq!(ids(&list(&bench, &SessionQuery::new(ws()))), ["a", "c", "b"]);
    assert_eq!(ids(&list(&bench, &by_id())), ["a", "b", "c"]);
    let row = bench.row("a").unwrap();
    assert!(row.updated_at >= row.created_at, "the time of the last change never moves backwards");
}

#[test]
fn ids_are_ordered_and_matched_bytewise() {
    let bench = Bench::new();
    for id in ["b", "B", "a%", "a_", "ab", "é", "e\u{301}"] {
        bench.create(id);
    }
    assert_eq!(ids(&list(&bench, &by_id())), ["B", "a%", "a_", "ab", "b", "e\u{301}", "é"]);
    let prefix = |text: &str| SessionQuery { id_prefix: Some(text.to_owned()), ..by_id() };
    assert_eq!(ids(&list(&bench, &prefix("a"))), ["a%", "a_", "ab"]);
    assert_eq!(ids(&list(&bench, &prefix("a%"))), ["a%"]);
    assert_eq!(ids(&list(&bench, &prefix("A"))), Vec::<String>::new());
    assert_eq!(list(&bench, &prefix("")).items.len(), 7);
}

#[test]
fn text_is_literal_and_found_in_every_field_in_either_case() {
    let bench = Bench::new();
    let channel = Some(Channel { kind: "IRC".to_owned(), id: "#rust".to_owned() });
    let title = Some(Title { text: "100% Done".to_owned(), source: TitleSource::Manual });
    bench.create_with(&session("one"), Profile { title, ..Profile::default() });
    bench.create_with(&session("two"), Profile { cwd: Some("/Srv/Data".to_owned()), ..Profile::default() });
    bench.create_with(&session("six"), Profile { channel, ..Profile::default() });
    let ten = bench.create("ten");
    bench.append(&ten, vec![user("Grüße, WORLD_1"), beside(1, user("aside"))]);
    for (text, expected) in [
        ("100% d", vec!["one"]),
        ("1__%", vec![]),
        ("srv/", vec!["two"]),
        ("irc", vec!["six"]),
        ("#RUST", vec!["six"]),
        ("world_", vec!["ten"]),
        ("world1", vec![]),
        ("ASIDE", vec!["ten"]),
        ("GRüßE", vec!["ten"]),
        ("GRÜßE", vec![]),
        ("TEN", vec!["ten"]),
        ("", vec!["one", "six", "ten", "two"]),
    ] {
        let query = SessionQuery { text: Some(text.to_owned()), ..by_id() };
        assert_eq!(ids(&list(&bench, &query)), expected, "{text:?}");
    }
}

#[test]
fn filters_narrow_and_combine() {
    let bench = Bench::new();
    let child = Profile {
        audience: Audience::SubAgent,
        parent: Some(SessionId::new("a").unwrap()),
        ..Profile::default()
    };
    bench.create_with(&session("a"), Profile { cwd: Some("/x".to_owned()), ..Profile::default() });
    bench.create_with(&session("b"), Profile { project: Some("p".to_owned()), ..Profile::default() });
    bench.create_with(&session("c"), child);
    bench.append(&session("b"), vec![user("hi")]);
    let patch = SessionPatch { pinned: Some(true), archived: Some(true), ..SessionPatch::default() };
    bench.op(Op::PatchSession { session: session("b"), patch });
    let cases = [
        (by_id(), vec!["a", "b"]),
        (SessionQuery { audience: AudienceFilter::SubAgent, ..by_id() }, vec!["c"]),
        (SessionQuery { audience: AudienceFilter::Any, ..by_id() }, vec!["a", "b", "c"]),
        (SessionQuery { cwd: Some("/x".to_owned()), ..by_id() }, vec!["a"]),
        (SessionQuery { cwd: Some("/".to_owned()), ..by_id() }, vec![]),
        (SessionQuery { with_messages: true, ..by_id() }, vec!["b"]),
        (SessionQuery { archived: Some(false), ..by_id() }, vec!["a"]),
        (SessionQuery { pinned: Some(true), ..by_id() }, vec!["b"]),
        (SessionQuery { project: Some("p".to_owned()), pinned: Some(false), ..by_id() }, vec![]),
        (
            SessionQuery { parent: SessionId::new("a").ok(), audience: AudienceFilter::Any, ..by_id() },
            vec!["c"],
        ),
    ];
    for (query, expected) in cases {
        let page = list(&bench, &SessionQuery { total: true, limit: 1, ..query.clone() });
        assert_eq!(page.total, Some(expected.len() as u64), "{query:?}");
        assert_eq!(ids(&list(&bench, &query)), expected, "{query:?}");
    }
}

#[test]
fn pages_of_any_limit_add_up_to_the_list() {
    let bench = Bench::new();
    for n in 0..7 {
        bench.create(&format!("s{n}"));
    }
    for order in [SessionOrder::Id, SessionOrder::RecentFirst] {
        let query = SessionQuery { order, ..SessionQuery::new(ws()) };
        let whole = ids(&list(&bench, &query));
        for limit in [1, 6, 7, 8] {
            let pages =
                walk(limit, |limit, cursor| list(&bench, &SessionQuery { limit, cursor, ..query.clone() }));
            let all: Vec<_> = pages.concat().iter().map(|row| row.id.as_str().to_owned()).collect();
            assert_eq!(all, whole);
        }
    }
}

#[test]
fn a_walk_survives_the_deletion_of_its_position_and_never_repeats_what_is_touched() {
    let bench = Bench::new();
    for id in ["a", "b", "c", "d"] {
        bench.create(id);
    }
    let query = SessionQuery { limit: 2, ..SessionQuery::new(ws()) };
    let first = list(&bench, &query);
    assert_eq!(ids(&first), ["d", "c"]);
    bench.op(Op::DeleteSession { session: session("c"), force: false });
    bench.append(&session("a"), vec![user("touched")]);
    let second = list(&bench, &SessionQuery { cursor: first.next, ..query });
    assert_eq!(ids(&second), ["b"]);
    assert_eq!(second.next, None);
}

#[test]
fn an_offset_is_continued_by_its_cursor_alone() {
    let bench = Bench::new();
    for id in ["a", "b", "c", "d", "e"] {
        bench.create(id);
    }
    let query = SessionQuery { offset: 2, limit: 2, ..by_id() };
    let first = list(&bench, &query);
    assert_eq!(ids(&first), ["c", "d"]);
    let both = SessionQuery { cursor: first.next.clone(), ..query.clone() };
    assert_eq!(kind(run(bench.store.sessions(&both))), ErrorKind::Invalid);
    let rest = SessionQuery { cursor: first.next, offset: 0, ..query };
    assert_eq!(ids(&list(&bench, &rest)), ["e"]);
    let past = SessionQuery { offset: 9, ..by_id() };
    assert_eq!(list(&bench, &past), Page::empty());
}

#[test]
fn what_is_being_built_is_listed_only_when_asked_for() {
    let bench = Bench::new();
    bench.create("a");
    bench.build("b");
    assert_eq!(ids(&list(&bench, &by_id())), ["a"]);
    let building = SessionQuery { state: SessionState::Restoring, ..by_id() };
    assert_eq!(ids(&list(&bench, &building)), ["b"]);
    assert_eq!(bench.row("b"), None);
}

#[test]
fn workspaces_do_not_see_each_other() {
    let bench = Bench::new();
    bench.create("a");
    let other = WorkspaceId::new("other").unwrap();
    let query = SessionQuery { total: true, ..SessionQuery::new(other) };
    let page = list(&bench, &query);
    assert_eq!((page.items.len(), page.total), (0, Some(0)));
}
