//! How small state is read and written: records with versions, and the one loop for writers who meet.

use std::future::Future;

use serde::Serialize;
use turnkeep_core::commit::{Expect, Op, Put};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{Collection, RecordKey, SessionRef, Status};
use turnkeep_core::model::Record;
use turnkeep_core::query::{OwnerFilter, RecordQuery};
use turnkeep_core::{Page, Payload};

use crate::base::Base;
use crate::session::Session;

/// How often a change is decided anew because somebody else was first. Each time somebody else got on, so that this is
/// reached only where very many write to one record.
const ATTEMPTS: usize = 100;

/// Records that one commit changes at most: its receipt names each, and a receipt is small.
pub(crate) const AT_ONCE: u32 = 32;

/// Reads, decides and commits; once more if somebody else was in between.
pub(crate) async fn again<T, F>(mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut refused = None;
    for _ in 0..ATTEMPTS {
        match attempt().await {
            Err(error) if error.kind() == ErrorKind::VersionConflict => refused = Some(error),
            settled => return settled,
        }
    }
    Err(refused.unwrap_or_else(|| Error::new(ErrorKind::VersionConflict, "others keep changing this")))
}

pub(crate) fn query(base: &Base, collection: &str) -> Result<RecordQuery> {
    Ok(RecordQuery::new(base.workspace().clone(), Collection::new(collection)?))
}

/// The record with a key.
pub(crate) async fn by_key(base: &Base, collection: &str, key: RecordKey) -> Result<Option<Record>> {
    let mut query = query(base, collection)?;
    query.key = Some(key);
    query.limit = 1;
    Ok(base.store().records(&query).await?.items.into_iter().next())
}

/// The records of a collection that a session owns; none while nothing of it is stored.
pub(crate) async fn owned(
    session: &Session,
    collection: &str,
    narrow: impl FnOnce(&mut RecordQuery) + Send,
) -> Result<Page<Record>> {
    if !session.is_stored() {
        return Ok(Page::empty());
    }
    owned_by(session.workspace().base(), session.session_ref(), collection, narrow).await
}

pub(crate) async fn owned_by(
    base: &Base,
    owner: &SessionRef,
    collection: &str,
    narrow: impl FnOnce(&mut RecordQuery) + Send,
) -> Result<Page<Record>> {
    let mut query = query(base, collection)?;
    query.owner = OwnerFilter::Session(owner.clone());
    narrow(&mut query);
    base.store().records(&query).await
}

/// The one record of a collection that a session has; found by its owner, because an import under another id keeps keys.
pub(crate) async fn single(session: &Session, collection: &str) -> Result<Option<Record>> {
    Ok(owned(session, collection, |query| query.limit = 1).await?.items.into_iter().next())
}

/// The key under which a session's one record of a collection is made: unique to this life of the session, so that two
/// who make it at once meet, and no later session does.
pub(crate) fn single_key(session: &SessionRef) -> Result<RecordKey> {
    RecordKey::new(session.incarnation.to_string())
}

/// The op that writes the one record of a session, if it is still as it was read.
pub(crate) fn put_single(
    session: &SessionRef,
    collection: &str,
    before: Option<&Record>,
    value: &impl Serialize,
) -> Result<Op> {
    let key = match before {
        Some(record) => record.key.clone(),
        None => single_key(session)?,
    };
    put(collection, key, Some(session), None, expect(before), value)
}

/// The record must still be as it was read.
pub(crate) fn expect(before: Option<&Record>) -> Expect {
    before.map_or(Expect::Absent, |record| Expect::Version(record.version))
}

pub(crate) fn put(
    collection: &str,
    key: RecordKey,
    owner: Option<&SessionRef>,
    status: Option<Status>,
    expect: Expect,
    value: &impl Serialize,
) -> Result<Op> {
    Ok(Op::PutRecord(Put {
        collection: Collection::new(collection)?,
        key,
        owner: owner.cloned(),
        status,
        expect,
        payload: Payload::from_value(value)?,
    }))
}

pub(crate) fn delete(
    collection: &str,
    key: RecordKey,
    owner: Option<&SessionRef>,
    expect: Expect,
) -> Result<Op> {
    Ok(Op::DeleteRecord { collection: Collection::new(collection)?, key, owner: owner.cloned(), expect })
}
