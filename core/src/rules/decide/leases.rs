//! Taking, renewing and releasing leases.

use crate::commit::{Fence, LeaseGrant, Outcome, Takeover};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{LeaseName, LeaseState, Liveness};
use crate::mutant;
use crate::rules::{LeaseFact, LeaseRow};
use crate::time::Timestamp;

use super::state::State;

pub(super) fn acquire(state: &mut State<'_>, grant: &LeaseGrant) -> Result<Outcome> {
    check_session(state, &grant.name)?;
    let now = state.stamp.now;
    let token = grant.token.digest();
    let known = state.facts.leases.get(&grant.name);
    let mine = known.is_some_and(|fact| {
        fact.row.state == LeaseState::Held && fact.row.owner == grant.owner && fact.row.token == token
    });
    if let Some(fact) = known
        && !mine
        && !may_take(fact, grant.takeover, now)
        && !mutant::is("leases/two-holders")
    {
        return Err(held(&grant.name, &fact.row, now));
    }
    let before = known.map_or(0, |fact| fact.row.epoch);
    let raised = before.saturating_add(mutant::either("leases/epoch-not-raised", u64::from(before == 0), 1));
    let row = LeaseRow {
        state: LeaseState::Held,
        owner: grant.owner,
        token,
        // Taking what one holds already, with the same token, is a repeat and keeps the epoch.
        epoch: if mine { before } else { raised },
        purpose: grant.purpose,
        acquired_at: now,
        expires_at: expiry(now, grant.ttl_ms),
    };
    let outcome = Outcome::Lease { epoch: row.epoch, expires_at: row.expires_at };
    state.held.insert(grant.name.clone());
    state.put_lease(grant.name.clone(), row);
    Ok(outcome)
}

fn may_take(fact: &LeaseFact, takeover: Takeover, now: Timestamp) -> bool {
    let expired = fact.row.expires_at <= now && !mutant::is("leases/never-expire");
    fact.row.state == LeaseState::Released
        || match takeover {
            Takeover::IfExpired => expired,
            Takeover::IfOwnerDead => match fact.liveness {
                Liveness::Dead => !mutant::is("leases/the-dead-keep-theirs"),
                Liveness::Unknown => expired,
                Liveness::Alive => mutant::is("leases/taken-from-the-living"),
            },
            Takeover::Force => expired || !mutant::is("leases/force-waits"),
        }
}

/// Only the holder renews, and never to an earlier time. Expiry alone does not end a holding.
pub(super) fn renew(state: &mut State<'_>, fence: &Fence, ttl_ms: u64) -> Result<Outcome> {
    let mut row = mine(state, fence)?;
    if row.state != LeaseState::Held && !mutant::is("leases/released-one-renewed") {
        return Err(lost(&fence.name));
    }
    let until = expiry(state.stamp.now, ttl_ms);
    row.expires_at = mutant::either("leases/renewal-shortens", until, row.expires_at.max(until));
    let outcome = Outcome::Lease { epoch: row.epoch, expires_at: row.expires_at };
    state.held.insert(fence.name.clone());
    state.put_lease(fence.name.clone(), row);
    Ok(outcome)
}

/// Leaves a tombstone that keeps the epoch. Releasing again is harmless.
pub(super) fn release(state: &mut State<'_>, fence: &Fence) -> Result<Outcome> {
    let mut row = mine(state, fence)?;
    state.held.remove(&fence.name);
    if row.state == LeaseState::Held {
        row.state = mutant::either("leases/release-keeps-it", LeaseState::Held, LeaseState::Released);
        state.put_lease(fence.name.clone(), row);
    }
    Ok(Outcome::Done)
}

fn mine(state: &State<'_>, fence: &Fence) -> Result<LeaseRow> {
    check_session(state, &fence.name).map_err(|_| lost(&fence.name))?;
    match state.facts.leases.get(&fence.name) {
        Some(fact) if matches(&fact.row, fence) => Ok(fact.row.clone()),
        _ => Err(lost(&fence.name)),
    }
}

/// A session's lease needs that life of the session.
pub(super) fn check_session(state: &State<'_>, name: &LeaseName) -> Result<()> {
    match name {
        LeaseName::Session(session) => state.any(session).map(|_| ()),
        LeaseName::Named(_) => Ok(()),
    }
}

/// Owner, token and epoch; never expiry.
pub(super) fn matches(row: &LeaseRow, fence: &Fence) -> bool {
    row.owner == fence.owner
        && (row.epoch == fence.epoch || mutant::is("leases/epoch-not-compared"))
        && (row.token == fence.token.digest() || mutant::is("leases/token-not-compared"))
}

fn expiry(now: Timestamp, ttl_ms: u64) -> Timestamp {
    now.plus_ms(i64::try_from(ttl_ms).unwrap_or(i64::MAX))
}

pub(super) fn held(name: &LeaseName, row: &LeaseRow, now: Timestamp) -> Error {
    on(Error::new(ErrorKind::LeaseHeld, "somebody else holds the lease; wait for it or give up"), name)
        .with("purpose", mutant::either("leases/purpose-not-told", "", row.purpose.as_str()))
        .with("remaining_ms", row.expires_at.since_ms(now).max(0))
}

pub(super) fn lost(name: &LeaseName) -> Error {
    on(Error::new(ErrorKind::LeaseLost, "the lease is not held any more; stop working"), name)
}

fn on(error: Error, name: &LeaseName) -> Error {
    match name {
        LeaseName::Session(session) => error.with("session", &session.id),
        LeaseName::Named(id) => error.with("lease", id),
    }
}
