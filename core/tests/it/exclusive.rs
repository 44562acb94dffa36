//! Which ops need the session's lease, and what each state of that lease does to them.

use turnkeep_core::commit::{Commit, Expect, NewEvent, Op, Put, SessionPatch};
use turnkeep_core::id::OwnerId;
use turnkeep_core::model::{LeaseState, Liveness, RunState, RunStates, collection, stream};
use turnkeep_core::rules::{
    EXCLUSIVE_COLLECTIONS, EXCLUSIVE_STREAMS, Stamp, is_exclusive_collection, is_exclusive_stream,
};
use turnkeep_core::{ErrorKind, SessionRef};

use crate::kit::{
    acquire, append, at, commit, create, fence, json, lease_of, message, name, owner, run_id, session, stamp,
    start,
};
use crate::naive::Naive;

/// Whether the lease of the session matters to an op.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Lease,
    Nothing,
}
use Needs::{Lease, Nothing};

fn put(session: &SessionRef, collection: &str) -> Op {
    Op::PutRecord(Put {
        collection: name(collection),
        key: name("new"),
        owner: Some(session.clone()),
        status: None,
        expect: Expect::Any,
        payload: json("1"),
    })
}

fn delete(session: &SessionRef, collection: &str) -> Op {
    let owner = Some(session.clone());
    Op::DeleteRecord { collection: name(collection), key: name("there"), owner, expect: Expect::Any }
}

fn events(session: &SessionRef, stream: &str) -> Op {
    let event = NewEvent { kind: name("e"), run: None, at: at(0), payload: json("1") };
    Op::AppendEvents {
        session: session.clone(),
        stream: name(stream),
        expect_next: None,
        events: vec![event],
    }
}

fn drop_events(session: &SessionRef, stream: &str) -> Op {
    Op::DropEvents { session: session.clone(), stream: name(stream), through: None, close: true }
}

/// Every op on a session in use that can succeed on the one of [`prepared`], with what it needs.
fn table(s: &SessionRef) -> Vec<(String, Needs, Op)> {
    let session = || s.clone();
    let mut rows = vec![
        ("patch_session", Nothing, Op::PatchSession { session: session(), patch: SessionPatch::default() }),
        ("append", Lease, append(s, vec![message("x")])),
        ("move_leaf", Lease, Op::MoveLeaf { session: session(), to: None }),
        ("reopen_run", Lease, Op::ReopenRun { session: session(), run: run_id("done") }),
        ("start_run", Lease, start(s, "next")),
        (
            "patch_run",
            Lease,
            Op::PatchRun { session: session(), run: run_id("done"), patch: Default::default() },
        ),
        ("add_usage", Lease, Op::AddUsage { session: session(), run: None, usage: Default::default() }),
        ("delete_session", Lease, Op::DeleteSession { session: session(), force: false }),
        ("force_delete", Nothing, Op::DeleteSession { session: session(), force: true }),
        (
            "when_key",
            Lease,
            Op::WhenKey {
                session: session(),
                key: name("key"),
                then: Box::new(append(s, vec![message("x")])),
            },
        ),
        (
            "when_key_skipped",
            Nothing,
            Op::WhenKey {
                session: session(),
                key: name("no key"),
                then: Box::new(append(s, vec![message("x")])),
            },
        ),
    ]
    .into_iter()
    .map(|(what, needs, op)| (what.to_owned(), needs, op))
    .collect::<Vec<_>>();
    for (name, needs) in collections() {
        rows.push((format!("put {name}"), needs, put(s, name)));
        rows.push((format!("delete {name}"), needs, delete(s, name)));
    }
    for (name, needs) in streams() {
        rows.push((format!("append to {name}"), needs, events(s, name)));
        rows.push((format!("drop {name}"), needs, drop_events(s, name)));
    }
    rows
}

fn collections() -> [(&'static str, Needs); 13] {
    [
        (collection::INTENTS, Lease),
        (collection::TOOL_CLAIMS, Lease),
        (collection::LINEAGE, Lease),
        (collection::RESPONSE_RUNS, Lease),
        (collection::RESPONSE_TURNS, Lease),
        (collection::BINDINGS, Nothing),
        (collection::PROJECTS, Nothing),
        (collection::CAPABILITIES, Nothing),
        (collection::CHANNEL_TOOLS, Nothing),
        (collection::GUIDANCE, Nothing),
        (collection::APPROVALS, Nothing),
        (collection::CANCEL_REQUESTS, Nothing),
        ("of a host", Nothing),
    ]
}

fn streams() -> [(&'static str, Needs); 8] {
    [
        (stream::RUNS, Lease),
        (stream::RESPONSE_ITEMS, Lease),
        (stream::USAGE, Lease),
        ("partial/turn", Lease),
        ("partial/", Lease),
        (stream::CAPABILITIES, Nothing),
        ("partial", Nothing),
        ("runs of a host", Nothing),
    ]
}

#[test]
fn the_tables_of_collections_and_streams_say_what_the_design_says() {
    for (name, needs) in collections() {
        assert_eq!(is_exclusive_collection(name), needs == Lease, "{name}");
    }
    for (name, needs) in streams() {
        assert_eq!(is_exclusive_stream(name), needs == Lease, "{name}");
    }
    let exclusive = |(_, needs): &(&str, Needs)| *needs == Lease;
    assert_eq!(collections().iter().filter(|row| exclusive(row)).count(), EXCLUSIVE_COLLECTIONS.len());
    assert_eq!(streams().iter().filter(|row| exclusive(row)).count(), EXCLUSIVE_STREAMS.len() + 1);
}

/// A session with an entry, a failed run, a record in every collection, and an event in every stream.
fn prepared() -> (Naive, SessionRef) {
    let (mut store, s) = (Naive::default(), session("s", 1));
    let mut entry = message("first");
    entry.key = Some(name("key"));
    let mut ops = vec![create(&s, Default::default()), append(&s, vec![entry]), start(&s, "done")];
    ops.push(Op::TransitionRun {
        session: s.clone(),
        run: run_id("done"),
        from: RunStates::ACTIVE,
        to: RunState::Failed,
        error: None,
    });
    for (collection, _) in collections() {
        let Op::PutRecord(put) = put(&s, collection) else { continue };
        ops.push(Op::PutRecord(Put { key: name("there"), ..put }));
    }
    ops.extend(streams().map(|(name, _)| events(&s, name)));
    let all = Commit { ops, ..commit() };
    store.commit(&all, &stamp(1)).unwrap();
    (store, s)
}

const OWN: u8 = 1;
const OTHER: u8 = 2;

/// The session's lease taken by somebody else for a minute.
fn held(store: &mut Naive, s: &SessionRef) {
    store.commit(&commit().op(acquire(lease_of(s), OTHER)), &stamp(2)).unwrap();
}

fn later(ms: i64) -> Stamp {
    Stamp { now: at(ms), ..stamp(50) }
}

fn nobody_knows(_: OwnerId) -> Liveness {
    Liveness::Unknown
}

#[test]
fn a_lease_held_by_a_living_owner_keeps_exclusive_ops_out_and_lets_shared_ones_pass() {
    let (mut store, s) = prepared();
    held(&mut store, &s);
    for (what, needs, op) in table(&s) {
        let mut store = store.clone();
        let before = store.clone();
        // Unknown is as good as alive until the lease expires.
        let answer = store.commit_with(&commit().op(op), &later(59_999), nobody_knows);
        match needs {
            Nothing => drop(answer.unwrap_or_else(|error| panic!("{what}: {error}"))),
            Lease => {
                let error = answer.expect_err(&what);
                assert_eq!(error.kind(), ErrorKind::LeaseHeld, "{what}");
                let told: Vec<(&str, &str)> = error.context().collect();
                assert!(told.contains(&("purpose", "mutation")) && told.contains(&("remaining_ms", "1")));
                assert_eq!(store, before, "{what}");
            }
        }
    }
}

#[test]
fn an_expired_lease_or_a_dead_owner_becomes_a_tombstone_and_the_late_owner_is_refused() {
    let (mut store, s) = prepared();
    held(&mut store, &s);
    let dead = |owner_id: OwnerId| if owner_id == owner(OTHER) { Liveness::Dead } else { Liveness::Alive };
    for (what, needs, op) in table(&s) {
        for (stamp, proven) in [(later(60_000), false), (later(1), true)] {
            let mut store = store.clone();
            let liveness = |owner| if proven { dead(owner) } else { Liveness::Alive };
            let answer = store.commit_with(&commit().op(op.clone()), &stamp, liveness);
            answer.unwrap_or_else(|error| panic!("{what}: {error}"));
            let lease = store.leases.get(&lease_of(&s)).map(|row| (row.state, row.epoch));
            match (needs, store.row(&s).is_some()) {
                (_, false) => assert_eq!(lease, None, "{what}"),
                (Nothing, true) => assert_eq!(lease, Some((LeaseState::Held, 1)), "{what}"),
                (Lease, true) => assert_eq!(lease, Some((LeaseState::Released, 2)), "{what}"),
            }
            if needs == Lease {
                let late =
                    commit().fence(fence(lease_of(&s), OTHER, 1)).op(append(&s, vec![message("late")]));
                let error = store.commit(&late, &stamp).expect_err(&what);
                assert_eq!(error.kind(), ErrorKind::LeaseLost, "{what}");
            }
        }
    }
}

#[test]
fn over_an_expired_lease_with_an_active_run_recovery_comes_first() {
    let (mut store, s) = prepared();
    let run = commit().op(acquire(lease_of(&s), OTHER)).op(start(&s, "at work"));
    store.commit(&run, &stamp(2)).unwrap();
    for (what, needs, op) in table(&s) {
        let mut store = store.clone();
        let before = store.clone();
        let answer = store.commit(&commit().op(op), &later(60_000));
        match needs {
            Nothing => drop(answer.unwrap_or_else(|error| panic!("{what}: {error}"))),
            Lease => {
                assert_eq!(answer.expect_err(&what).kind(), ErrorKind::ActiveRun, "{what}");
                assert_eq!(store, before, "{what}");
            }
        }
    }
}

#[test]
fn a_free_a_released_a_fenced_and_a_just_acquired_lease_let_exclusive_ops_pass() {
    let (free, s) = prepared();
    let mut taken = free.clone();
    taken.commit(&commit().op(acquire(lease_of(&s), OWN)), &stamp(2)).unwrap();
    let mut released = taken.clone();
    let proof = fence(lease_of(&s), OWN, 1);
    released.commit(&commit().op(Op::ReleaseLease { fence: proof.clone() }), &stamp(3)).unwrap();
    for (what, _, op) in table(&s) {
        let passes = |store: &Naive, commit: Commit| {
            let answer = store.clone().commit(&commit.op(op.clone()), &later(70_000));
            answer.unwrap_or_else(|error| panic!("{what}: {error}"));
        };
        passes(&free, commit());
        passes(&released, commit());
        // A fence holds past its expiry, as long as nobody took over.
        passes(&taken, commit().fence(proof.clone()));
        passes(&taken, commit().op(acquire(lease_of(&s), OTHER)));
    }
}

#[test]
fn a_lease_given_back_in_a_commit_protects_nothing_any_more() {
    let (mut store, s) = prepared();
    let proof = fence(lease_of(&s), OWN, 1);
    let closing = commit()
        .op(acquire(lease_of(&s), OWN))
        .op(Op::ReleaseLease { fence: proof.clone() })
        .op(acquire(lease_of(&s), OTHER))
        .op(Op::RenewLease { fence: proof, ttl_ms: 1 });
    let before = store.clone();
    assert_eq!(store.commit(&closing, &stamp(2)).unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(store, before);
}
