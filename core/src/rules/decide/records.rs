//! Versioned documents.

use crate::commit::{Expect, Outcome, Put};
use crate::error::{Error, ErrorKind, Result};
use crate::id::{Collection, RecordKey, SessionRef};
use crate::model::{Record, Version};
use crate::mutant;
use crate::rules::{OwnerState, RecordFact, SessionChange, Write, is_exclusive_collection};

use super::guards::holds;
use super::state::State;

/// The record as a reader sees it: one whose owner is gone or hidden is absent.
pub(super) fn visible<'s>(
    state: &'s State<'_>,
    collection: &Collection,
    key: &RecordKey,
) -> Option<&'s Record> {
    let fact = state.facts.records.get(&(collection.clone(), key.clone()))?;
    let visible = matches!(fact.owner, OwnerState::Unowned | OwnerState::Active);
    (visible || mutant::is("records/outlive-their-owner")).then_some(&fact.record)
}

/// Refuses a record that is not as expected.
pub(super) fn check(
    record: Option<&Record>,
    expect: Expect,
    collection: &Collection,
    key: &RecordKey,
) -> Result<()> {
    let observed = record.map(|record| record.version);
    if holds(observed, expect) {
        return Ok(());
    }
    let error =
        Error::new(ErrorKind::VersionConflict, "the record is not as expected; read it and decide again")
            .with("collection", collection)
            .with("key", key);
    Err(match observed {
        Some(version) => error.with("observed", format!("version {}", version.count)),
        None => error.with("observed", "absent"),
    })
}

pub(super) fn put(state: &mut State<'_>, put: &Put) -> Result<Outcome> {
    if let Some(owner) = &put.owner {
        state.active(owner)?;
        if is_exclusive_collection(put.collection.as_str()) {
            state.exclusive(owner)?;
        }
    }
    refuse_while_restored(state, &put.collection, &put.key)?;
    let existing = visible(state, &put.collection, &put.key).cloned();
    check(existing.as_ref(), put.expect, &put.collection, &put.key)?;
    let before = existing.as_ref().and_then(|record| record.owner.clone());
    if existing.is_some()
        && before != put.owner
        && is_exclusive_collection(put.collection.as_str())
        && !mutant::is("records/exclusive-one-changes-owner")
    {
        return Err(Error::new(ErrorKind::Invalid, "an exclusive record cannot change its owner")
            .with("collection", &put.collection)
            .with("key", &put.key));
    }
    let now = state.stamp.now;
    let (version, created_at) = match &existing {
        Some(record) => (
            Version {
                birth: record.version.birth,
                count: record.version.count.saturating_add(mutant::either("records/version-stays", 0, 1)),
            },
            record.created_at,
        ),
        None => (born(state), now),
    };
    let ordinal = match &existing {
        Some(record) if before == put.owner || mutant::is("records/new-owner-keeps-place") => record.ordinal,
        _ => next_ordinal(state, &put.collection, put.owner.as_ref()),
    };
    let record = Record {
        collection: put.collection.clone(),
        key: put.key.clone(),
        owner: put.owner.clone(),
        status: put.status.clone(),
        ordinal,
        version,
        created_at,
        updated_at: existing.as_ref().map_or(now, |record| record.updated_at.max(now)),
        payload: put.payload.clone(),
    };
    let before = before.as_ref().filter(|_| !mutant::is("records/former-owner-not-told"));
    touch_owners(state, [before, put.owner.as_ref()])?;
    keep(state, record);
    Ok(Outcome::Record { version, ordinal })
}

pub(super) fn delete(
    state: &mut State<'_>,
    collection: &Collection,
    key: &RecordKey,
    owner: Option<&SessionRef>,
    expect: Expect,
) -> Result<Outcome> {
    refuse_while_restored(state, collection, key)?;
    let existing = visible(state, collection, key).cloned();
    check(existing.as_ref(), expect, collection, key)?;
    let Some(existing) = existing else { return Ok(Outcome::Done) };
    if is_exclusive_collection(collection.as_str())
        && let Some(owned_by) = &existing.owner
    {
        if owner != Some(owned_by) && !mutant::is("records/anybody-deletes-exclusive-ones") {
            return Err(Error::new(ErrorKind::VersionConflict, "the record belongs to another session")
                .with("collection", collection)
                .with("key", key));
        }
        state.exclusive(owned_by)?;
    }
    touch_owners(state, [existing.owner.as_ref(), None])?;
    let at = (collection.clone(), key.clone());
    state.facts.records.remove(&at);
    state.write(Write::DeleteRecord { collection: at.0, key: at.1 });
    Ok(Outcome::Done)
}

/// A record that arrives with a session that is being built belongs to its builder.
fn refuse_while_restored(state: &State<'_>, collection: &Collection, key: &RecordKey) -> Result<()> {
    match state.facts.records.get(&(collection.clone(), key.clone())) {
        Some(RecordFact { owner: OwnerState::Restoring, .. })
            if !mutant::is("records/put-into-what-is-built") =>
        {
            Err(Error::new(ErrorKind::VersionConflict, "the record belongs to a session that is being built")
                .with("collection", collection)
                .with("key", key))
        }
        _ => Ok(()),
    }
}

/// A version that no earlier record had.
pub(super) fn born(state: &State<'_>) -> Version {
    let birth = state.stamp.nonce.wrapping_add(state.place as u64);
    Version { birth: mutant::either("records/births-alike", 1, birth), count: 1 }
}

pub(super) fn next_ordinal(
    state: &mut State<'_>,
    collection: &Collection,
    owner: Option<&SessionRef>,
) -> u64 {
    let last = state.facts.ordinals.get(&(collection.clone(), owner.cloned())).copied().unwrap_or(0);
    let next = last.saturating_add(mutant::either("records/places-alike", u64::from(last == 0), 1));
    set_ordinal(state, collection, owner, next);
    next
}

pub(super) fn set_ordinal(
    state: &mut State<'_>,
    collection: &Collection,
    owner: Option<&SessionRef>,
    last: u64,
) {
    let (collection, owner) = (collection.clone(), owner.cloned());
    state.facts.ordinals.insert((collection.clone(), owner.clone()), last);
    state.write(Write::Ordinal { collection, owner, last });
}

/// Keeps a record for writing and for later ops.
pub(super) fn keep(state: &mut State<'_>, record: Record) {
    let owner = if record.owner.is_some() { OwnerState::Active } else { OwnerState::Unowned };
    let at = (record.collection.clone(), record.key.clone());
    state.facts.records.insert(at, RecordFact { record: record.clone(), owner });
    state.write(Write::Record { record: Box::new(record) });
}

fn touch_owners(state: &mut State<'_>, owners: [Option<&SessionRef>; 2]) -> Result<()> {
    let mut nobody = !mutant::is("changes/unowned-records-unseen");
    for owner in owners.into_iter().flatten() {
        nobody = false;
        state.touch(owner, SessionChange::Counters)?;
    }
    if nobody {
        state.touch_workspace();
    }
    Ok(())
}
