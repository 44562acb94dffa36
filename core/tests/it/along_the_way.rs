//! Commits whose ops stand in each other's way: what a later op must know of an earlier one.

use turnkeep_core::commit::{Expect, Guard, NewEntry, OnKey, Op, Parent, Put};
use turnkeep_core::model::{RunState, RunStates, SessionState};
use turnkeep_core::rules::{Write, copied, decide, plan};
use turnkeep_core::{Commit, ErrorKind, SessionRef};

use crate::kit::{
    acquire, append, commit, create, fence, json, lease_of, message, name, no, run_id, session, stamp, start,
};
use crate::naive::{Naive, everybody_lives};

fn refused(store: &mut Naive, commit: &Commit) -> ErrorKind {
    let before = store.clone();
    let error = store.commit(commit, &stamp(50)).unwrap_err();
    assert_eq!(*store, before);
    error.kind()
}

/// A session `s` with three entries, of which the second is the leaf.
fn branched() -> (Naive, SessionRef) {
    let (mut store, s) = (Naive::default(), session("s", 1));
    let mut keyed = message("2");
    keyed.key = Some(name("key"));
    let third = NewEntry { parent: Parent::InCommit(0), ..message("3") };
    let begin = commit()
        .op(create(&s, SessionState::Active))
        .op(append(&s, vec![message("1"), keyed, third]))
        .op(Op::MoveLeaf { session: s.clone(), to: Some(no(2)) });
    store.commit(&begin, &stamp(1)).unwrap();
    (store, s)
}

/// Makes a child, copies three entries of `s` into it, and puts it into use.
fn fork(s: &SessionRef, child: &SessionRef, leaf: u32) -> Commit {
    let digest = copied(s, no(3));
    commit()
        .op(create(child, SessionState::Restoring))
        .op(acquire(lease_of(child), 1))
        .op(Op::CopyEntries { from: s.clone(), to: child.clone(), after: None, through: no(3) })
        .op(Op::SealSession { session: child.clone(), leaf: Some(no(leaf)), rows: 3, digest })
}

#[test]
fn a_fork_in_one_commit_may_put_its_leaf_on_any_branch() {
    for leaf in 1..=3 {
        let (mut store, s) = branched();
        let child = session("child", 2);
        store.commit(&fork(&s, &child, leaf), &stamp(2)).unwrap();
        let row = store.row(&child).unwrap();
        assert_eq!((row.path.leaf, row.state), (Some(no(leaf)), SessionState::Active));
        let life = store.life(&child);
        let path = life.path_by_segments(row.path.leaf, row.path.leaf_segment);
        assert_eq!(path, life.path_by_parents(row.path.leaf));
    }
    let (mut store, s) = branched();
    assert_eq!(refused(&mut store, &fork(&s, &session("child", 2), 4)), ErrorKind::NotFound);
}

#[test]
fn what_needs_to_know_the_copied_rows_waits_for_the_next_commit() {
    let (store, s) = branched();
    let child = session("child", 2);
    let mut again = message("again");
    again.key = Some(name("key"));
    for op in [
        append(&child, vec![again.clone()]),
        Op::MoveLeaf { session: child.clone(), to: None },
        start(&child, "r"),
        Op::WhenKey {
            session: child.clone(),
            key: name("key"),
            then: Box::new(append(&child, vec![message("x")])),
        },
    ] {
        let mut store = store.clone();
        assert_eq!(refused(&mut store, &fork(&s, &child, 2).op(op.clone())), ErrorKind::Invalid, "{op:?}");
    }
    let mut store = store;
    store.commit(&fork(&s, &child, 2), &stamp(2)).unwrap();
    let late = commit().fence(fence(lease_of(&child), 1, 1)).op(append(&child, vec![again]));
    assert_eq!(refused(&mut store, &late), ErrorKind::AlreadyExists, "the copied key is known then");
}

#[test]
fn a_source_is_copied_as_it_was_before_the_commit_or_not_at_all() {
    let (mut store, s) = branched();
    let child = session("child", 2);
    let mut growing = fork(&s, &child, 2);
    growing.ops.insert(0, append(&s, vec![message("4")]));
    assert_eq!(refused(&mut store, &growing), ErrorKind::Invalid);

    let deleting = fork(&s, &child, 2).op(Op::DeleteSession { session: s.clone(), force: true });
    assert_eq!(refused(&mut store, &deleting), ErrorKind::Invalid);

    let grandchild = session("grandchild", 3);
    let mut chain = fork(&s, &child, 2);
    chain.ops.extend(fork(&child, &grandchild, 2).ops);
    assert_eq!(refused(&mut store, &chain), ErrorKind::Invalid);
}

#[test]
fn an_entry_may_follow_one_that_was_left_out_because_its_key_is_taken() {
    let (mut store, s) = branched();
    let third = commit().op(Op::MoveLeaf { session: s.clone(), to: Some(no(3)) });
    store.commit(&third, &stamp(2)).unwrap();
    let repeat = NewEntry { key: Some(name("key")), on_key: OnKey::Skip, ..message("2") };
    let next = NewEntry { parent: Parent::InCommit(0), ..message("4") };
    let receipt = store.commit(&commit().op(append(&s, vec![repeat, next])), &stamp(3)).unwrap();
    assert_eq!(receipt.entries(0).collect::<Vec<_>>(), [no(2), no(4)]);
    let life = store.life(&s);
    assert_eq!(life.entries[3].parent, Some(no(2)));
    assert_eq!(life.path_by_segments(Some(no(4)), Some(no(4))), [no(4), no(2), no(1)]);
}

#[test]
fn a_record_given_to_a_session_that_is_then_deleted_is_gone_with_it() {
    let (mut store, s) = branched();
    let other = session("other", 2);
    let put = |owner: Option<&SessionRef>| {
        Op::PutRecord(Put {
            collection: name("bindings"),
            key: name("k"),
            owner: owner.cloned(),
            status: None,
            expect: Expect::Any,
            payload: json("1"),
        })
    };
    let absent = Guard::Record { collection: name("bindings"), key: name("k"), expect: Expect::Absent };
    store.commit(&commit().op(create(&other, SessionState::Active)).op(put(Some(&s))), &stamp(2)).unwrap();
    let moved = commit().op(put(Some(&other))).op(Op::DeleteSession { session: other, force: false });
    store.commit(&moved, &stamp(3)).unwrap();
    store.commit(&commit().guard(absent), &stamp(4)).unwrap();
    assert!(store.records.is_empty(), "the record of the first owner does not come back");

    let deleted_first =
        commit().op(put(Some(&s))).op(Op::DeleteSession { session: s.clone(), force: false }).op(put(None));
    store.commit(&deleted_first, &stamp(5)).unwrap();
    let record = store.records.values().next().unwrap();
    assert_eq!((record.owner.as_ref(), record.version.count, record.ordinal), (None, 1, 1));
}

#[test]
fn a_session_deleted_and_made_again_in_one_commit_inherits_nothing() {
    let (mut store, s) = branched();
    let again = session("s", 2);
    let swap = commit()
        .op(start(&s, "r"))
        .op(acquire(lease_of(&s), 1))
        .op(Op::DeleteSession { session: s.clone(), force: false })
        .op(create(&again, SessionState::Active))
        .op(append(&again, vec![message("fresh")]));
    let receipt = store.commit(&swap, &stamp(2)).unwrap();
    assert_eq!(receipt.sessions.len(), 1);
    assert_eq!(receipt.session(&again).unwrap().head, Some(no(1)));
    assert_eq!(store.lives.keys().collect::<Vec<_>>(), [&again]);
    assert!(store.leases.is_empty());
    let row = store.row(&again).unwrap();
    assert_eq!((row.runs, row.messages, row.revision), (0, 1, 1));
    assert_eq!(refused(&mut store, &commit().op(append(&s, vec![message("old")]))), ErrorKind::NotFound);
    let stale = commit().fence(fence(lease_of(&s), 1, 1)).op(append(&again, vec![message("old")]));
    assert_eq!(refused(&mut store, &stale), ErrorKind::LeaseLost);
}

#[test]
fn sealing_a_session_lets_the_workspace_notice_though_it_keeps_its_old_place() {
    let (store, s) = branched();
    let child = session("child", 2);
    let commit = fork(&s, &child, 2);
    let facts = store.facts(&plan(&commit), everybody_lives);
    let writes = decide(&commit, facts, &stamp(2)).unwrap().writes;
    assert!(writes.contains(&Write::TouchWorkspace));
}

#[test]
fn the_number_of_runs_does_not_wrap() {
    let (mut store, s) = (Naive::default(), session("s", 1));
    let begin = commit().op(create(&s, SessionState::Active)).op(start(&s, "r")).op(Op::TransitionRun {
        session: s.clone(),
        run: run_id("r"),
        from: RunStates::ACTIVE,
        to: RunState::Completed,
        error: None,
    });
    store.commit(&begin, &stamp(1)).unwrap();
    store.sessions.get_mut(&s.id).unwrap().runs = u32::MAX;
    assert_eq!(refused(&mut store, &commit().op(start(&s, "next"))), ErrorKind::TooLarge);
}

#[test]
fn a_failing_op_leaves_nothing_of_those_before_it() {
    let (mut store, s) = branched();
    let good: Vec<Op> = vec![
        append(&s, vec![message("x")]),
        start(&s, "r"),
        acquire(lease_of(&s), 1),
        create(&session("new", 3), SessionState::Active),
        Op::DeleteSession { session: session("new", 9), force: true },
    ];
    for bad in 0..4 {
        let mut ops = good[..=bad].to_vec();
        ops.push(good[4].clone());
        let before = store.clone();
        let error = store.commit(&Commit { ops, ..commit() }, &stamp(9)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.context().any(|(what, value)| what == "op" && value == (bad + 1).to_string()));
        assert_eq!(store, before);
    }
}

#[test]
fn the_guard_on_an_active_run_tells_which() {
    let (mut store, s) = branched();
    let guarded = |s: &SessionRef| {
        let guard = Guard::NoActiveRun { session: s.clone() };
        commit().guard(guard).op(append(s, vec![message("x")]))
    };
    store.commit(&guarded(&s), &stamp(2)).unwrap();
    store.commit(&commit().op(start(&s, "r")), &stamp(3)).unwrap();
    let error = store.commit(&guarded(&s), &stamp(4)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ActiveRun);
    assert!(error.context().any(|pair| pair == ("run", "r")));
    assert_eq!(refused(&mut store, &guarded(&session("s", 9))), ErrorKind::NotFound);
}
