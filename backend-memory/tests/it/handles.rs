//! Handles, names, owners, clocks and seeds.

use std::sync::Arc;

use turnkeep_core::commit::{Commit, Op};
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{LeaseKey, LeaseName, Liveness};
use turnkeep_core::query::{RecordQuery, SessionQuery};
use turnkeep_core::{Durability, ErrorKind, ManualClock, OwnerId, Store};
use turnkeep_memory::{MemoryOptions, MemoryStore};

use crate::support::{
    Bench, creation, entry_query, grant, json, kind, put, record_key, run, session, user, ws,
};

fn named(id: &str) -> LeaseName {
    LeaseName::Named(turnkeep_core::id::LeaseId::new(id).unwrap())
}

fn liveness(store: &MemoryStore, name: &LeaseName) -> Liveness {
    let key = LeaseKey { workspace: ws(), name: name.clone() };
    run(store.lease(&key)).unwrap().unwrap().liveness
}

fn take(store: &MemoryStore, name: &LeaseName, token: u8) {
    let (grant, _) = grant(store, name.clone(), token);
    run(store.commit(Commit::new(ws()).op(Op::AcquireLease(grant)))).unwrap();
}

#[test]
fn clones_are_one_handle_and_reopened_ones_another_on_the_same_data() {
    let bench = Bench::new();
    let s = bench.create("s");
    let (clone, other) = (bench.store.clone(), bench.store.reopen());
    assert_eq!(clone.info().owner, bench.store.info().owner);
    assert_ne!(other.info().owner, bench.store.info().owner);
    let append = Op::Append { session: s.clone(), entries: vec![user("from the other")] };
    run(other.commit(Commit::new(ws()).op(append))).unwrap();
    assert_eq!(run(clone.entries(&entry_query(&s))).unwrap().items.len(), 1);
}

#[test]
fn an_owner_dies_with_the_last_clone_of_its_handle() {
    let bench = Bench::new();
    let other = bench.store.reopen();
    let name = named("n");
    take(&other, &name, 1);
    let clone = other.clone();
    drop(other);
    assert_eq!(liveness(&bench.store, &name), Liveness::Alive);
    drop(clone);
    assert_eq!(liveness(&bench.store, &name), Liveness::Dead);
}

#[test]
fn an_owner_dies_when_its_handle_is_closed_and_every_clone_answers_closed() {
    let bench = Bench::new();
    let other = bench.store.reopen();
    let clone = other.clone();
    let name = named("n");
    take(&other, &name, 1);
    run(other.close()).unwrap();
    assert_eq!(liveness(&bench.store, &name), Liveness::Dead);
    assert_eq!(kind(run(clone.sessions(&SessionQuery::new(ws())))), ErrorKind::Closed);
    assert_eq!(kind(run(clone.commit(Commit::new(ws())))), ErrorKind::Closed);
    let maintenance = clone.maintenance().unwrap();
    assert_eq!(kind(run(maintenance.stats())), ErrorKind::Closed);
    assert_eq!(kind(run(maintenance.purge())), ErrorKind::Closed);
    assert!(run(other.close()).is_ok(), "closing again is harmless");
    assert!(run(clone.reopen().sessions(&SessionQuery::new(ws()))).is_ok());
}

#[test]
fn a_lease_of_a_dead_owner_can_be_taken_at_once_and_that_of_a_living_one_not() {
    let bench = Bench::new();
    let (first, second) = (bench.store.reopen(), bench.store.reopen());
    let name = named("n");
    take(&first, &name, 1);
    let (mut wanted, _) = grant(&second, name, 2);
    wanted.takeover = turnkeep_core::commit::Takeover::IfOwnerDead;
    let take = Commit::new(ws()).op(Op::AcquireLease(wanted));
    assert_eq!(kind(run(second.commit(take.clone()))), ErrorKind::LeaseHeld);
    drop(first);
    assert!(run(second.commit(take)).is_ok());
}

#[test]
fn a_named_store_is_one_store_until_it_is_destroyed() {
    let name = "handles::named";
    assert!(!MemoryStore::destroy(name));
    let store = MemoryStore::named(name);
    run(store.commit(Commit::new(ws()).op(creation(&session("s"), Default::default(), Default::default()))))
        .unwrap();
    drop(store);
    let list = |store: &MemoryStore| run(store.sessions(&SessionQuery::new(ws()))).unwrap().items.len();
    let again = MemoryStore::named(name);
    assert_eq!(list(&again), 1);
    assert_eq!(again.info().location, "memory:handles::named");
    assert!(again.info().capabilities.persistent);
    assert!(MemoryStore::destroy(name));
    assert_eq!(list(&MemoryStore::named(name)), 0, "the name is free for a new store");
    assert_eq!(list(&again), 1, "a handle that is open keeps its data");
    assert!(MemoryStore::destroy(name));
}

#[test]
fn unnamed_stores_share_nothing_and_promise_nothing() {
    let (one, two) = (MemoryStore::new(), MemoryStore::default());
    run(one.commit(Commit::new(ws()).op(creation(&session("s"), Default::default(), Default::default()))))
        .unwrap();
    assert!(run(two.sessions(&SessionQuery::new(ws()))).unwrap().items.is_empty());
    let info = one.info();
    assert_eq!((info.name, info.durability), ("memory", Durability::D0));
    assert!(!info.capabilities.persistent && !info.capabilities.multi_process);
    assert!(info.capabilities.owner_liveness);
    assert_ne!(one.info().owner, two.info().owner);
}

#[test]
fn one_seed_gives_one_answer_and_two_handles_never_draw_the_same() {
    let births = |seed: u64| {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryOptions::new().clock(clock).seed(seed).build();
        let second = store.reopen();
        for (store, key) in [(&store, "a"), (&second, "b")] {
            run(store.commit(Commit::new(ws()).op(Op::PutRecord(put("c", key, None))))).unwrap();
        }
        let query = RecordQuery::new(ws(), crate::support::collection("c"));
        let records = run(store.records(&query)).unwrap().items;
        let births: Vec<u64> = records.iter().map(|record| record.version.birth).collect();
        (births, store.info().owner, second.info().owner)
    };
    let (first, again, other) = (births(1), births(1), births(2));
    assert_eq!(first, again);
    assert_ne!(first.0, other.0);
    assert_ne!(first.0[0], first.0[1]);
    assert_ne!(first.1, first.2);
}

#[test]
fn options_give_owner_clock_and_limits() {
    let owner = OwnerId::from_bytes([9; 16]);
    let clock = ManualClock::new(turnkeep_core::Timestamp::from_millis(1234));
    let limits = Limits::default().with_payload_bytes(4);
    let store = MemoryOptions::new().owner(owner).clock(Arc::new(clock)).limits(limits).build();
    assert_eq!(store.info().owner, owner);
    assert_ne!(store.reopen().info().owner, owner, "each handle is its own owner");
    let mut small = put("c", "k", None);
    run(store.commit(Commit::new(ws()).op(Op::PutRecord(small.clone())))).unwrap();
    small.payload = json("12345");
    assert_eq!(kind(run(store.commit(Commit::new(ws()).op(Op::PutRecord(small))))), ErrorKind::TooLarge);
    let query =
        RecordQuery { key: Some(record_key("k")), ..RecordQuery::new(ws(), crate::support::collection("c")) };
    let record = run(store.records(&query)).unwrap().items.remove(0);
    assert_eq!(record.created_at.as_millis(), 1234);
}

#[test]
fn what_it_cannot_do_is_unsupported() {
    let store = MemoryStore::new();
    let maintenance = store.maintenance().unwrap();
    assert_eq!(kind(run(maintenance.compact())), ErrorKind::Unsupported);
    assert_eq!(kind(run(maintenance.backup(std::path::Path::new("x")))), ErrorKind::Unsupported);
}
