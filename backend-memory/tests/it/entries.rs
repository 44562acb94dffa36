//! Reading entries: bounds, orders, pages, paths.

use turnkeep_core::commit::{NewEntry, OnKey, Op, Parent};
use turnkeep_core::id::EntryKey;
use turnkeep_core::model::{Visibility, VisibilitySet};
use turnkeep_core::query::{EntryQuery, Order, PathTo};
use turnkeep_core::{ErrorKind, Page, Payload, Store};

use crate::support::{
    Bench, after, beside, entry_query, flatten, json, keyed, kind, life, no, numbers, run, session, user,
    walk,
};

fn ten() -> (Bench, turnkeep_core::SessionRef) {
    let bench = Bench::new();
    let s = bench.create("s");
    bench.append(&s, (1..=10).map(|n| user(&format!("m{n}"))).collect());
    (bench, s)
}

#[test]
fn bounds_are_exclusive_in_every_order() {
    let (bench, s) = ten();
    for (order, expected) in [
        (Order::Ascending, vec![4, 5, 6]),
        (Order::Descending, vec![6, 5, 4]),
        (Order::Latest, vec![4, 5, 6]),
    ] {
        let query = EntryQuery { after: Some(no(3)), before: Some(no(7)), order, ..entry_query(&s) };
        assert_eq!(numbers(&bench.entries(&query)), expected, "{order:?}");
    }
    let nothing = EntryQuery { after: Some(no(6)), before: Some(no(7)), ..entry_query(&s) };
    assert_eq!(numbers(&bench.entries(&nothing)), Vec::<u32>::new());
    let crossed = EntryQuery { after: Some(no(9)), before: Some(no(2)), ..entry_query(&s) };
    assert_eq!(numbers(&bench.entries(&crossed)), Vec::<u32>::new());
    let first = EntryQuery { before: Some(no(1)), ..entry_query(&s) };
    assert_eq!(numbers(&bench.entries(&first)), Vec::<u32>::new());
    let last = EntryQuery { after: Some(turnkeep_core::EntryNo::MAX), ..entry_query(&s) };
    assert_eq!(numbers(&bench.entries(&last)), Vec::<u32>::new());
}

#[test]
fn latest_is_the_newest_n_ascending_and_its_next_page_holds_those_before() {
    let (bench, s) = ten();
    let query = EntryQuery { order: Order::Latest, limit: 3, ..entry_query(&s) };
    let first = bench.entries(&query);
    assert_eq!(numbers(&first), [8, 9, 10]);
    let second = bench.entries(&EntryQuery { cursor: first.next, ..query });
    assert_eq!(numbers(&second), [5, 6, 7]);
}

#[test]
fn pages_of_any_limit_add_up_to_the_list() {
    let (bench, s) = ten();
    for order in [Order::Ascending, Order::Descending, Order::Latest] {
        let whole = numbers(&bench.entries(&EntryQuery { order, ..entry_query(&s) }));
        for limit in [1, 2, 9, 10, 11, u32::MAX] {
            let pages = walk(limit, |limit, cursor| {
                bench.entries(&EntryQuery { order, limit, cursor, ..entry_query(&s) })
            });
            let all: Vec<u32> = flatten(order, pages).iter().map(|entry| entry.number.get()).collect();
            assert_eq!(all, whole, "{order:?} by {limit}");
        }
    }
}

#[test]
fn a_limit_of_zero_is_invalid_and_a_huge_one_is_cut() {
    let (bench, s) = ten();
    let query = EntryQuery { limit: 0, ..entry_query(&s) };
    assert_eq!(kind(run(bench.store.entries(&query))), ErrorKind::Invalid);
    let query = EntryQuery { limit: u32::MAX, ..entry_query(&s) };
    assert_eq!(bench.entries(&query).items.len(), 10);
}

#[test]
fn a_cursor_of_another_query_or_garbled_is_invalid() {
    let (bench, s) = ten();
    let other = bench.create("t");
    let next = bench.entries(&EntryQuery { limit: 2, ..entry_query(&s) }).next;
    let foreign = [
        EntryQuery { cursor: next.clone(), ..entry_query(&other) },
        EntryQuery { cursor: next.clone(), order: Order::Descending, ..entry_query(&s) },
        EntryQuery { cursor: next.clone(), after: Some(no(1)), ..entry_query(&s) },
        EntryQuery { cursor: Some("zz".parse().unwrap()), ..entry_query(&s) },
        EntryQuery { cursor: Some("".parse().unwrap()), ..entry_query(&s) },
    ];
    for query in foreign {
        assert_eq!(kind(run(bench.store.entries(&query))), ErrorKind::Invalid);
    }
    let other_limit = EntryQuery { cursor: next, limit: 5, ..entry_query(&s) };
    assert_eq!(numbers(&bench.entries(&other_limit)), [3, 4, 5, 6, 7]);
}

#[test]
fn appends_between_pages_are_seen_once_and_nothing_is_skipped() {
    let (bench, s) = ten();
    let first = bench.entries(&EntryQuery { limit: 6, ..entry_query(&s) });
    bench.append(&s, vec![user("late")]);
    let second = bench.entries(&EntryQuery { cursor: first.next, ..entry_query(&s) });
    assert_eq!(numbers(&second), [7, 8, 9, 10, 11]);
}

#[test]
fn a_page_ends_early_at_eight_mebibytes_and_holds_at_least_one_item() {
    let bench = Bench::new();
    let s = bench.create("s");
    let big = |megabytes: usize| NewEntry {
        text: None,
        payload: Payload::new(format!("\"{}\"", "x".repeat(megabytes << 20))).unwrap(),
        ..user("")
    };
    bench.append(&s, vec![big(9), big(3), big(3), big(3)]);
    let pages = walk(100, |limit, cursor| bench.entries(&EntryQuery { limit, cursor, ..entry_query(&s) }));
    let shape: Vec<usize> = pages.iter().map(Vec::len).collect();
    assert_eq!(shape, [1, 2, 1]);
}

#[test]
fn filters_narrow_and_combine() {
    let bench = Bench::new();
    let s = bench.create("s");
    let mut internal = user("hidden");
    internal.visibility = Visibility::Internal;
    let mut partial = beside(1, user("so far"));
    partial.visibility = Visibility::Partial;
    bench.append(&s, vec![keyed("a", "k1"), internal, partial, keyed("b", "k2")]);
    let all = EntryQuery { visibility: VisibilitySet::ALL, ..entry_query(&s) };
    assert_eq!(numbers(&bench.entries(&all)), [1, 2, 3, 4]);
    assert_eq!(numbers(&bench.entries(&entry_query(&s))), [1, 2, 4], "partials are no history");
    let conversation =
        EntryQuery { visibility: VisibilitySet::only(Visibility::Conversation), ..entry_query(&s) };
    assert_eq!(numbers(&bench.entries(&conversation)), [1, 4]);
    let by_key = |key: &str| EntryQuery { key: Some(EntryKey::new(key).unwrap()), ..entry_query(&s) };
    assert_eq!(numbers(&bench.entries(&by_key("k2"))), [4]);
    assert_eq!(numbers(&bench.entries(&by_key("k"))), Vec::<u32>::new());
    assert_eq!(
        numbers(&bench.entries(&EntryQuery { before: Some(no(4)), ..by_key("k2") })),
        Vec::<u32>::new()
    );
}

#[test]
fn payloads_come_back_byte_for_byte() {
    let bench = Bench::new();
    let s = bench.create("s");
    let texts = [r#"{"zebra":1,"alpha":{"z":1,"a":2}}"#, " [1.0, 1e400 ,-0]", r#""\u0000😀\ud83d\ude00""#];
    bench.append(&s, texts.map(|text| NewEntry { payload: json(text), ..user("x") }).to_vec());
    let read = bench.entries(&entry_query(&s));
    let read: Vec<&str> = read.items.iter().map(|entry| entry.payload.as_str()).collect();
    assert_eq!(read, texts);
}

#[test]
fn a_path_leaves_other_branches_and_what_lies_beside_out() {
    let bench = Bench::new();
    let s = bench.create("s");
    bench.append(&s, vec![user("1"), user("2"), user("3")]);
    bench.append(&s, vec![after(1, user("4")), beside(4, user("5")), user("6")]);
    assert_eq!(bench.path(&s), [1, 4, 6]);
    bench.append(&s, vec![after(3, user("7")), user("8")]);
    assert_eq!(bench.path(&s), [1, 2, 3, 7, 8]);
    bench.append(&s, vec![after(6, user("9"))]);
    assert_eq!(bench.path(&s), [1, 4, 6, 9]);
    let to = |number| EntryQuery { path: Some(PathTo::Entry(no(number))), ..entry_query(&s) };
    assert_eq!(numbers(&bench.entries(&to(8))), [1, 2, 3, 7, 8]);
    assert_eq!(numbers(&bench.entries(&to(2))), [1, 2]);
    let bounded = EntryQuery { after: Some(no(1)), before: Some(no(8)), ..to(8) };
    assert_eq!(numbers(&bench.entries(&bounded)), [2, 3, 7]);
    bench.assert_sound();
}

#[test]
fn the_path_before_the_first_entry_is_empty() {
    let bench = Bench::new();
    let s = bench.create("s");
    assert_eq!(bench.path(&s), Vec::<u32>::new());
    bench.append(&s, vec![user("1")]);
    bench.op(Op::MoveLeaf { session: s.clone(), to: None });
    assert_eq!(bench.path(&s), Vec::<u32>::new());
    bench.append(&s, vec![user("2")]);
    assert_eq!(bench.path(&s), [2], "it is a new root");
    bench.assert_sound();
}

#[test]
fn what_follows_a_skipped_entry_follows_the_one_that_has_its_key() {
    let bench = Bench::new();
    let s = bench.create("s");
    bench.append(&s, vec![user("1"), keyed("2", "k"), user("3"), user("4")]);
    let skipped = NewEntry { on_key: OnKey::Skip, ..keyed("again", "k") };
    let follows = NewEntry { parent: Parent::InCommit(0), ..user("5") };
    let receipt = bench.append(&s, vec![skipped, follows]);
    assert_eq!(receipt.entries(0).collect::<Vec<_>>(), [no(2), no(5)]);
    assert_eq!(bench.path(&s), [1, 2, 5]);
    bench.assert_sound();
}

#[test]
fn a_path_to_nowhere_is_refused_whatever_the_bounds() {
    let bench = Bench::new();
    let s = bench.create("s");
    bench.append(&s, vec![user("1"), beside(1, user("2"))]);
    let nothing = EntryQuery { after: Some(no(9)), before: Some(no(2)), ..entry_query(&s) };
    for base in [entry_query(&s), nothing] {
        let unknown = EntryQuery { path: Some(PathTo::Entry(no(3))), ..base.clone() };
        assert_eq!(kind(run(bench.store.entries(&unknown))), ErrorKind::NotFound);
        let aside = EntryQuery { path: Some(PathTo::Entry(no(2))), ..base };
        assert_eq!(kind(run(bench.store.entries(&aside))), ErrorKind::Invalid);
    }
}

#[test]
fn unknown_differs_from_empty() {
    let bench = Bench::new();
    let s = bench.create("s");
    assert_eq!(bench.entries(&entry_query(&s)), Page::empty());
    for gone in [session("t"), session("../../x"), life("s", 2)] {
        assert_eq!(kind(run(bench.store.entries(&entry_query(&gone)))), ErrorKind::NotFound);
    }
}
