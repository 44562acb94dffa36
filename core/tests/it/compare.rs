//! What must be the same in a store and in the model.

use turnkeep_core::SessionRef;
use turnkeep_core::error::Result;
use turnkeep_core::model::{LeaseName, SessionRow, SessionState, Visibility};
use turnkeep_core::rules::{LeaseRow, WriteSet};

use crate::bench::Bench;
use crate::model::{Lease, Session};
use crate::naive::Life;

/// The plan asked for everything that mattered.
pub(crate) fn decisions(planned: &Result<WriteSet>, knowing_all: &Result<WriteSet>) {
    match (planned, knowing_all) {
        (Ok(planned), Ok(all)) => assert_eq!(planned, all, "a look-up is missing"),
        (Err(planned), Err(all)) => {
            assert_eq!(planned.to_string(), all.to_string(), "a look-up is missing")
        }
        _ => panic!("a look-up is missing: {planned:?} against {knowing_all:?}"),
    }
}

pub(crate) fn states(bench: &mut Bench) {
    assert!(bench.store.sessions.keys().eq(bench.model.sessions.keys()));
    assert!(bench.store.lives.keys().cloned().eq(bench.store.sessions.values().map(SessionRow::session_ref)));
    for (row, session) in bench.store.sessions.values().zip(bench.model.sessions.values()) {
        let life = bench.store.life(&row.session_ref());
        same_row(row, session);
        same_entries(life, session);
        same_runs(life, session);
        same_streams(life, session);
        same_paths(row, life, session);
        let lease = bench.store.leases.get(&LeaseName::Session(row.session_ref()));
        same_lease(lease, session.lease.as_ref());
    }
    let of_sessions = bench.model.sessions.values().filter(|session| session.lease.is_some()).count();
    assert_eq!(bench.store.leases.len(), of_sessions + bench.model.named.len());
    for (name, lease) in &bench.model.named {
        same_lease(bench.store.leases.get(name), Some(lease));
    }
    assert!(bench.store.requests.keys().eq(bench.model.requests.keys()));
    same_records(bench);
    assert!(bench.restoring().all(|row| row.restore.is_some() && row.active_run.is_none()));
}

fn same_row(row: &SessionRow, session: &Session) {
    let number = |number: Option<turnkeep_core::EntryNo>| number.map(|number| number.get());
    assert_eq!(row.incarnation, session.incarnation);
    assert_eq!(row.state, session.state);
    assert_eq!(row.restore.is_some(), row.state == SessionState::Restoring);
    assert_eq!((row.revision, row.activity), (session.revision, session.activity));
    assert_eq!((row.created_at, row.updated_at), (session.created_at, session.updated_at));
    assert_eq!(number(row.head), session.head());
    assert_eq!(number(row.path.leaf), session.leaf);
    assert_eq!(row.active_run.as_ref(), session.active_run().map(|run| &run.id));
    assert_eq!(row.runs as usize, session.runs.len());
    assert_eq!(row.usage, session.usage);
    assert_eq!(row.profile, session.profile);
    let messages = session.entries.iter();
    let messages =
        messages.filter(|line| line.kind == "message" && line.visibility == Visibility::Conversation);
    assert_eq!(row.messages as usize, messages.clone().count());
    // The texts of the tape are short, so only their white space is folded.
    let first = messages.filter(|line| line.user).find_map(|line| line.text.as_deref());
    let folded = first.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(row.preview, folded);
}

fn same_entries(life: &Life, session: &Session) {
    assert_eq!(life.entries.len(), session.entries.len());
    for (place, (entry, line)) in life.entries.iter().zip(&session.entries).enumerate() {
        assert_eq!(entry.number.get() as usize, place + 1);
        assert_eq!(entry.parent.map(|parent| parent.get()), line.parent);
        assert_eq!((entry.on_path, &entry.key), (line.on_path, &line.key));
        assert_eq!((entry.kind.as_str(), entry.visibility), (line.kind.as_str(), line.visibility));
        assert!(entry.refs.iter().map(|reference| reference.entry.get()).eq(line.refs.iter().copied()));
        assert_eq!((&entry.text, &entry.payload), (&line.text, &line.payload));
    }
}

fn same_runs(life: &Life, session: &Session) {
    assert_eq!(life.runs.len(), session.runs.len());
    for (place, (run, job)) in life.runs.iter().zip(&session.runs).enumerate() {
        assert_eq!(run.number as usize, place + 1);
        assert_eq!((&run.id, run.state), (&job.id, job.state));
        assert_eq!((&run.intent, run.attempt, &run.retry_of), (&job.intent, job.attempt, &job.retry_of));
        assert_eq!(run.finished_at.is_some(), job.finished);
        assert_eq!((&run.error, &run.progress, &run.model), (&job.error, &job.progress, &job.model));
        assert_eq!(run.usage, job.usage);
        assert!(run.created_at <= run.updated_at);
    }
}

fn same_streams(life: &Life, session: &Session) {
    assert!(life.streams.keys().eq(session.streams.keys()));
    for ((row, events), log) in life.streams.values().zip(session.streams.values()) {
        assert_eq!((row.head, row.floor, row.closed), (log.events.len() as u64, log.floor, log.closed));
        let stored = events.iter().map(|event| (event.number, event.kind.as_str(), &event.payload));
        let left = log.events.iter().zip(1_u64..).filter(|(_, number)| *number > log.floor);
        let left = left.map(|((kind, payload), number)| (number, kind.as_str(), payload));
        assert!(stored.eq(left));
    }
}

/// By segments, by the parents that are stored, and by the parents of the model: three ways to one path.
fn same_paths(row: &SessionRow, life: &Life, session: &Session) {
    let by_segments = life.path_by_segments(row.path.leaf, row.path.leaf_segment);
    assert_eq!(by_segments, life.path_by_parents(row.path.leaf));
    assert!(by_segments.iter().map(|number| number.get()).eq(session.path()));
}

fn same_lease(row: Option<&LeaseRow>, lease: Option<&Lease>) {
    let stored = row.map(|row| (row.state, row.owner, row.token, row.epoch, row.expires_at));
    let known =
        lease.map(|lease| (lease.state, lease.owner, lease.token.digest(), lease.epoch, lease.expires_at));
    assert_eq!(stored, known);
}

fn same_records(bench: &mut Bench) {
    // What a deleted session left may be there or not.
    let alive: Vec<SessionRef> = bench.store.lives.keys().cloned().collect();
    let there = |owner: &Option<SessionRef>| owner.as_ref().is_none_or(|owner| alive.contains(owner));
    let stored: Vec<_> = bench.store.records.iter().filter(|(_, record)| there(&record.owner)).collect();
    let known: Vec<_> = bench.model.records.iter().filter(|(_, doc)| there(&doc.owner)).collect();
    assert!(stored.iter().map(|(key, _)| key).eq(known.iter().map(|(key, _)| key)));
    let mut versions = Vec::new();
    for ((key, record), (_, doc)) in stored.into_iter().zip(known) {
        assert_eq!((&record.owner, record.ordinal), (&doc.owner, doc.ordinal));
        assert_eq!(record.status.as_ref().map(|status| status.as_str()), doc.status.as_deref());
        assert_eq!(record.payload, doc.payload);
        versions.push((key.clone(), record.version, doc.version));
    }
    for (key, version, number) in versions {
        bench.same_version(version, number);
        let seen = bench.seen.entry(key).or_default();
        if !seen.contains(&version) {
            seen.push(version);
        }
    }
}
