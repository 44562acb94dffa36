//! Everything that a session is, in the order in which it is restored.

use turnkeep_core::commit::{Commit, Op};
use turnkeep_core::model::{Row, RowKind};
use turnkeep_core::query::{RowQuery, RowSubject};
use turnkeep_core::{ErrorKind, SessionRef, Store};

use crate::support::{
    Bench, beside, event, keyed, kind, life, new_run, put, run, session, stream, user, walk, ws,
};

/// A session with rows of every kind.
fn full(bench: &Bench) -> SessionRef {
    let s = bench.create("s");
    let commit = Commit::new(ws())
        .op(Op::Append {
            session: s.clone(),
            entries: vec![keyed("1", "k"), user("2"), beside(2, user("3"))],
        })
        .op(Op::StartRun { session: s.clone(), run: new_run("r2") })
        .op(Op::PutRecord(put("b", "k2", Some(&s))))
        .op(Op::PutRecord(put("b", "k1", Some(&s))))
        .op(Op::PutRecord(put("a", "k3", Some(&s))))
        .op(Op::PutRecord(put("a", "nobody's", None)));
    bench.commit(commit).unwrap();
    for (name, count) in [("y", 2), ("x", 3)] {
        let events = (0..count).map(|n| event(&format!("{n}"))).collect();
        bench.op(Op::AppendEvents { session: s.clone(), stream: stream(name), expect_next: None, events });
    }
    s
}

fn name(row: &Row) -> String {
    match row {
        Row::Session(_) => "session".to_owned(),
        Row::Entry(entry) => format!("entry {}", entry.number),
        Row::Run(run) => format!("run {}", run.id),
        Row::Stream(stream) => format!("stream {}", stream.name),
        Row::Event { stream, event } => format!("event {stream} {}", event.number),
        Row::Record(record) => format!("record {} {}", record.collection, record.key),
    }
}

const ALL: [&str; 15] = [
    "session",
    "entry 1",
    "entry 2",
    "entry 3",
    "run r2",
    "stream x",
    "stream y",
    "event x 1",
    "event x 2",
    "event x 3",
    "event y 1",
    "event y 2",
    "record a k3",
    "record b k1",
    "record b k2",
];

#[test]
fn rows_come_in_the_order_of_restoring_in_pages_of_any_size() {
    let bench = Bench::new();
    let s = full(&bench);
    for limit in [1, 2, 3, 14, 15, 16] {
        let pages = walk(limit, |limit, cursor| {
            let query = RowQuery { limit, cursor, ..RowQuery::session(ws(), s.clone()) };
            run(bench.store.rows(&query)).unwrap()
        });
        assert_eq!(pages.concat().iter().map(name).collect::<Vec<_>>(), ALL, "by {limit}");
    }
}

#[test]
fn rows_can_be_narrowed_to_kinds() {
    let bench = Bench::new();
    let s = full(&bench);
    let kinds = vec![RowKind::Record, RowKind::Entry, RowKind::Event];
    let pages = walk(4, |limit, cursor| {
        let query = RowQuery { kinds: kinds.clone(), limit, cursor, ..RowQuery::session(ws(), s.clone()) };
        run(bench.store.rows(&query)).unwrap()
    });
    let wanted = |name: &&&str| ["entry", "event", "record"].contains(&name.split(' ').next().unwrap());
    let expected: Vec<_> = ALL.iter().filter(wanted).copied().collect();
    assert_eq!(pages.concat().iter().map(name).collect::<Vec<_>>(), expected);
}

#[test]
fn what_nobody_owns_is_read_by_itself() {
    let bench = Bench::new();
    full(&bench);
    let page = run(bench.store.rows(&RowQuery::unowned(ws()))).unwrap();
    assert_eq!(page.items.iter().map(name).collect::<Vec<_>>(), ["record a nobody's"]);
    let kinds = vec![RowKind::Entry];
    let none = RowQuery { kinds, ..RowQuery::unowned(ws()) };
    assert!(run(bench.store.rows(&none)).unwrap().items.is_empty());
    let elsewhere = RowQuery::unowned("empty".parse().unwrap());
    assert!(run(bench.store.rows(&elsewhere)).unwrap().items.is_empty());
}

#[test]
fn rows_of_what_is_not_there_or_still_built_are_not_found() {
    let bench = Bench::new();
    full(&bench);
    let (built, _) = bench.build("b");
    for gone in [session("t"), life("s", 2), built] {
        let query = RowQuery { subject: RowSubject::Session(gone), ..RowQuery::unowned(ws()) };
        assert_eq!(kind(run(bench.store.rows(&query))), ErrorKind::NotFound);
    }
}
